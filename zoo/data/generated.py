"""Graphs without a download: digits, karate club, and the stochastic block model."""

from collections.abc import Callable
from typing import Annotated

import numpy as np

from zoo.config.options import Count, Fraction, NonNegative, Positive, Seed, Spec
from zoo.data.dataset import Dataset, make_dataset
from zoo.data.features import FEATURES
from zoo.data.files.graph_arrays import GraphArrays
from zoo.errors import ZooError
from zoo.graphs.knn import nearest
from zoo.tasks.labels import CLASSIFICATION


def digits(*, neighbours: Count = 5, features: Annotated[Spec, FEATURES] = "raw") -> Dataset:
    """1,797 images of handwritten digits, each joined to the images most like it.

    From scikit-learn: 8 x 8 pixels, scaled to [0, 1], and 10 classes.

    Args:
        neighbours: how many of its nearest images each image is joined to.
        features: what is done to the pixels first.

    Raises:
        ZooError: more neighbours than there are other images.
    """
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    if neighbours >= len(labels):
        raise ZooError(f"digits: neighbours: {neighbours}, but there are {len(labels)} images.")
    near = nearest(pixels, neighbours, "euclidean")
    edges = np.stack([np.repeat(np.arange(len(labels)), neighbours), near.ravel()], axis=1)
    return make_dataset(
        "digits", GraphArrays(edges, labels, pixels / 16), task=CLASSIFICATION, features=features
    )


def karate(*, features: Annotated[Spec, FEATURES] = "raw") -> Dataset:
    """Zachary's karate club: 34 members, 78 friendships, and the two factions it split into.

    Every member has one feature of its own (Zachary 1977; edges and factions from networkx).

    Args:
        features: what is done to the one-hot features first.
    """
    from networkx import karate_club_graph

    club = karate_club_graph()
    labels = np.array([side == "Officer" for _, side in club.nodes(data="club")], np.int64)
    arrays = GraphArrays(np.array(club.edges()), labels, np.eye(len(labels)))
    return make_dataset("karate", arrays, task=CLASSIFICATION, features=features)


def sbm(
    *,
    nodes: Count = 1000,
    classes: Count = 4,
    degree: Positive = 10.0,
    homophily: Fraction = 0.8,
    dim: Count = 16,
    noise: NonNegative = 1.0,
    seed: Seed = 0,
    features: Annotated[Spec, FEATURES] = "raw",
) -> Dataset:
    """A stochastic block model of equal classes (planted partition), drawn in linear time.

    The features of a node are the centre of its class, of length 1, plus noise: alone they tell
    the classes badly, the mean of a node's neighbours tells them well.

    Args:
        nodes: how many nodes.
        classes: how many classes, as equal in size as can be.
        degree: mean number of neighbours, the node itself not counted.
        homophily: share of the edges that join nodes of one class.
        dim: how many features.
        noise: standard deviation of the noise in each feature.
        seed: of the private generator: the same options give the same graph.
        features: what is done to the features first.

    Raises:
        ZooError: fewer nodes than classes, or more edges than so few nodes have room for.
    """
    check_sbm(nodes, classes)
    random = np.random.default_rng(seed)
    order = random.permutation(nodes)
    labels = np.empty(nodes, np.int64)
    labels[order] = np.arange(nodes) * classes // nodes
    edges = order[_planted(random, np.sort(labels), degree, homophily)]
    centres = random.standard_normal((classes, dim), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    x = centres[labels] + np.float32(noise) * random.standard_normal((nodes, dim), np.float32)
    arrays = GraphArrays(edges, labels, x)
    return make_dataset("sbm", arrays, task=CLASSIFICATION, features=features)


GENERATED: dict[str, Callable[..., Dataset]] = {"digits": digits, "karate": karate, "sbm": sbm}


def check_sbm(nodes: int, classes: int) -> None:
    """Refuse fewer nodes than classes."""
    if nodes < classes:
        raise ZooError(f"sbm: {nodes} nodes for {classes} classes; write nodes: {classes} or more.")


def sbm_room(sizes: np.ndarray, same: int, other: int) -> tuple[int, int]:
    """Return how many pairs of nodes of one class there are, and of different ones.

    Args:
        sizes: (C,) nodes of each class.
        same: edges that are to join nodes of one class.
        other: edges that are to join nodes of different ones.

    Raises:
        ZooError: they are more than there are pairs.
    """
    nodes = int(sizes.sum())
    inside = int(((sizes - 1) * sizes).sum()) // 2
    outside = nodes * (nodes - 1) // 2 - inside
    for count, room in ((same, inside), (other, outside)):
        if count > room:
            raise ZooError(
                f"sbm: {count:,} edges of a kind of which {room:,} are possible; write a smaller "
                "degree, more nodes, or another homophily (1 where there is one class)."
            )
    return inside, outside


def _planted(random, labels: np.ndarray, degree: float, homophily: float) -> np.ndarray:
    """Return edges (E, 2) between nodes whose labels (N,) ascend: classes are runs of nodes."""
    nodes = len(labels)
    sizes = np.bincount(labels)
    first, size = (np.cumsum(sizes) - sizes)[labels], sizes[labels]
    total = round(nodes * degree / 2)
    same = round(total * homophily)
    inside, outside = sbm_room(sizes, same, total - same)

    def of_own_class(ends: np.ndarray) -> np.ndarray:
        return first[ends] + random.integers(size[ends])

    def of_other_class(ends: np.ndarray) -> np.ndarray:
        # Drawn from the nodes without the run of this class, which is then stepped over.
        other = random.integers(np.maximum(nodes - size[ends], 1))
        return other + size[ends] * (other >= first[ends])

    return np.concatenate(
        [
            _pairs(random, nodes, same, inside, of_own_class),
            _pairs(random, nodes, total - same, outside, of_other_class),
        ]
    )


def _pairs(random, nodes: int, count: int, room: int, other: Callable) -> np.ndarray:
    """Return `count` different pairs (count, 2) of a node and what `other` draws for it."""
    keys = np.empty(0, np.int64)
    while (missing := count - len(keys)) > 0:
        # More than are missing, because what is there already may be drawn again.
        ends = random.integers(nodes, size=int(1.2 * missing * room / (room - len(keys))) + 8)
        others = other(ends)
        more = np.minimum(ends, others) * nodes + np.maximum(ends, others)
        keys = np.sort(np.concatenate([keys, more[ends != others]]))
        keys = keys[np.diff(keys, prepend=-1) > 0]  # np.unique is twenty times slower
    keys = random.permutation(keys)[:count]
    return np.stack([keys // nodes, keys % nodes], axis=1)
