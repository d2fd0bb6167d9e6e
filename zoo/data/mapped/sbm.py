"""Stream a stochastic block model of any size, block by block in bounded memory."""

from collections.abc import Iterator

import numpy as np

from zoo.config.options import Count, Fraction, NonNegative, Positive, Seed
from zoo.data.generated import check_sbm, sbm_room
from zoo.data.mapped.external_sort import BLOCK
from zoo.data.mapped.writer import Stream, blocks
from zoo.tasks.labels import CLASSIFICATION

_OWN, _OTHER, _NOISE, _CENTRES, _ORDER = range(5)  # streams of random numbers of one seed


def sbm_stream(
    *,
    nodes: Count = 1000,
    classes: Count = 4,
    degree: Positive = 10.0,
    homophily: Fraction = 0.8,
    dim: Count = 16,
    noise: NonNegative = 1.0,
    seed: Seed = 0,
) -> Stream:
    """Draw the random graph that `sbm` draws, each block of it from a generator of its own.

    Numbers of edges are right on average here, and exact there: pairs are drawn with repetition,
    as many more as are expected to be drawn again. The graph of a seed is another one than there.

    Args:
        nodes: how many nodes.
        classes: how many classes, as equal in size as can be.
        degree: mean number of neighbours, the node itself not counted.
        homophily: share of the edges that join nodes of one class.
        dim: how many features.
        noise: standard deviation of the noise in each feature.
        seed: of the private generators.

    Raises:
        ZooError: fewer nodes than classes, or more edges than so few nodes have room for.
    """
    check_sbm(nodes, classes)
    # Nodes in the order of their classes, which are runs of it; `order` says who they are.
    order = np.random.default_rng([seed, _ORDER]).permutation(nodes)
    runs = np.arange(nodes) * classes // nodes
    labels = np.empty(nodes, np.int64)
    labels[order] = runs
    size = np.bincount(runs)
    first = np.cumsum(size) - size
    total = round(nodes * degree / 2)
    same = round(total * homophily)
    inside, outside = sbm_room(size, same, total - same)
    centres = np.random.default_rng([seed, _CENTRES]).standard_normal((classes, dim), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)

    def pairs(kind: int, count: int, room: int) -> Iterator[np.ndarray]:
        # Of d draws room * (1 - exp(-d / room)) different pairs are expected. A draw of the own
        # class is the node itself with probability classes / nodes, and is then left out.
        wanted = -room * np.log1p(-min(count / room, 1 - 0.5 / room)) if count else 0.0
        draws = round(wanted / (1 - classes / nodes * (kind == _OWN))) if count else 0
        for number, block in enumerate(blocks(draws, BLOCK)):
            generator = np.random.default_rng([seed, kind, number])
            ends = generator.integers(nodes, size=block.stop - block.start)
            start, width = first[runs[ends]], size[runs[ends]]
            if kind == _OWN:
                others = start + generator.integers(width)
            else:  # drawn from the nodes without the run of this class, which is then stepped over
                others = generator.integers(nodes - width)
                others += width * (others >= start)
            keep = ends != others
            yield order[np.stack([ends[keep], others[keep]], axis=1)]

    def edges() -> Iterator[np.ndarray]:
        yield from pairs(_OWN, same, inside)
        yield from pairs(_OTHER, total - same, outside)

    def features(rows: int) -> Iterator[np.ndarray]:
        for number, block in enumerate(blocks(nodes, rows)):
            generator = np.random.default_rng([seed, _NOISE, number])
            x = generator.standard_normal((block.stop - block.start, dim), np.float32)
            x *= np.float32(noise)
            x += centres[labels[block]]
            yield x

    return Stream(edges, features, dim, labels, task=CLASSIFICATION)
