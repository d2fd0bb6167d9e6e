"""Graphs that are made of features: of nearest neighbours, or of all within a radius.

Neighbours of up to 50,000 nodes are exact, by scikit-learn. Of more they are approximate, by faiss:
nodes are put into cells around centres, and a node's neighbours are looked for in the cells nearest
to it (Jegou et al., TPAMI 2011, without compression). They are cached on disk, known by the
features that they were found for.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from torch import Tensor
from tqdm import tqdm

from zoo.config.options import Count, Positive
from zoo.errors import ZooError
from zoo.system.cache import cached
from zoo.system.memory import available_memory

VERSION = 2
"""Part of the key of every cached file: raise it when the numbers change."""

EXACT = 50_000
"""The most nodes whose neighbours are exact where nothing is said: their time grows by N^2."""

Metric = Literal["cosine", "euclidean"]
Search = Literal["auto", "exact", "approximate"]

CELLS = 32
"""Cells in which the neighbours of a node are looked for."""

_SPARE = 8  # neighbours that are looked at beyond those asked for, as some may be as near
_DIGITS = 6  # of distances, as shares of the row's largest; those beyond may be rounding
_TINY = 1e-30
_ROWS = 1024  # nodes whose neighbours are looked for between two steps of the progress bar
_SAMPLE = 256  # nodes whose neighbours within a radius are counted before all are listed


def knn(
    x: Tensor,
    ids: np.ndarray | None,
    *,
    k: Count = 5,
    metric: Metric = "cosine",
    mutual: bool = False,
    search: Search = "auto",
) -> np.ndarray:
    """Each node is joined to those whose features are nearest to its own.

    Args:
        k: how many nearest nodes each node is joined to.
        metric: distance of features: `cosine`, or `euclidean`.
        mutual: keep an edge only where each end is among the nearest of the other.
        search: `exact` compares all pairs, `approximate` those in cells near each other; `auto` is
            exact up to 50,000 nodes.

    Raises:
        ZooError: there are not as many other nodes, or no features, or faiss is missing.
    """
    points = _points(x, "knn")
    if k >= len(points):
        raise ZooError(
            f"graph knn: k is {k:,}, and there are {len(points):,} nodes; give at least "
            f"{k + 1:,}, or, where a model is to be trained, write a smaller k."
        )
    exact = search == "exact" or (search == "auto" and len(points) <= EXACT)
    find = nearest if exact else _approximate
    neighbor_ids = cached(
        "nearest neighbours",
        [VERSION, k, metric, exact],
        [points],
        lambda: {"nearest": find(points, k, metric)},
        lambda known: known["nearest"].shape == (len(points), k),
    )["nearest"]
    edges = np.stack([np.repeat(np.arange(len(points)), k), neighbor_ids.ravel()], axis=1)
    edges = edges[edges[:, 1] >= 0]  # an approximate search may not have found k
    return _mutual(edges, len(points)) if mutual else edges


def radius(
    x: Tensor, ids: np.ndarray | None, *, radius: Positive = 0.1, metric: Metric = "cosine"
) -> np.ndarray:
    """Each node is joined to all whose features are within a distance of its own.

    Args:
        radius: the largest distance, from 0 to 2 where it is `cosine`.
        metric: distance of features: `cosine`, or `euclidean`.

    Raises:
        ZooError: there are no features, or more edges than there is memory for.
    """
    from sklearn.neighbors import NearestNeighbors

    points = _points(x, "radius")
    index = NearestNeighbors(radius=radius, metric=metric).fit(points)

    def within(rows: np.ndarray) -> np.ndarray:
        near = index.radius_neighbors(points[rows], return_distance=False)
        edges = np.stack([np.repeat(rows, [*map(len, near)]), np.concatenate(near)], axis=1)
        return edges[edges[:, 0] != edges[:, 1]]

    some = np.random.default_rng(0).permutation(len(points))[:_SAMPLE]
    expected = len(within(some)) / len(some) * len(points)
    if 64 * expected > available_memory():  # sorted and without duplicates they take as much
        raise ZooError(
            f"graph radius: about {expected:,.0f} edges are within {radius:g}, more than there is "
            "memory for; write a smaller radius, or `graph: {name: knn, k: 5}`."
        )
    return np.concatenate([within(rows) for rows in _watched(len(points))])


MADE = ("knn", "radius")
"""Graphs that are made of the features: of fewer nodes they are other graphs."""


def _points(x: Tensor, word: str) -> np.ndarray:
    """Return features (N, F) as fp32 in memory."""
    if x.shape[1] == 0:
        raise ZooError(f"graph {word}: the nodes have no features, by which they could be near.")
    if 8 * x.numel() > available_memory():
        raise ZooError(
            f"graph {word}: features {tuple(x.shape)} do not fit into memory twice; make the graph "
            "of fewer columns, and name the file of its edges: `graph: {name: file, path: ...}`."
        )
    return np.ascontiguousarray(x.float().numpy())


def nearest(points: np.ndarray, k: int, metric: Metric) -> np.ndarray:
    """Return the nearest others of each row, (N, k) int64, comparing all pairs.

    The answer is the same for any number of threads. Of others at one euclidean distance, to the
    sixth digit of the row's largest, those of lower numbers are nearer: by itself scikit-learn
    leaves this to the order in which its threads end.

    Args:
        points: (N, F) fp32 or fp64.
        k: less than N.
        metric: of the distance.
    """
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(metric=metric).fit(points)

    def find(rows: np.ndarray, count: int) -> np.ndarray:
        far, ids = index.kneighbors(points[rows], min(count, len(points)))
        far = (far / np.maximum(far[:, -1:], _TINY)).round(_DIGITS)
        order = np.lexsort((ids, far))
        far, ids = (np.take_along_axis(values, order, axis=1) for values in (far, ids))
        near = _without(rows, ids)[:, :k]
        cut = far[:, k] == far[:, -1]  # some at this distance may have been left out
        if count < len(points) and cut.any():
            near[cut] = find(rows[cut], 4 * count)
        return near

    if metric == "cosine":  # which one thread ranks
        whole = (
            _without(rows, index.kneighbors(points[rows], k + 1, return_distance=False))
            for rows in _watched(len(points))
        )
        return np.concatenate([*whole])
    return np.concatenate([find(rows, k + 1 + _SPARE) for rows in _watched(len(points))])


def _approximate(points: np.ndarray, k: int, metric: Metric) -> np.ndarray:
    """Return most of the nearest others of each row, (N, k) int64; -1 for one that was not found.

    About 4 sqrt(N) cells, so that time is O(N^1.5). On vectors of length 1 the order of cosine is
    the euclidean one.
    """
    try:
        import faiss
    except ImportError:
        raise ZooError(
            f"graph knn: the neighbours of {len(points):,} nodes are found by faiss: pip install "
            "'graph-transformer-zoo[neighbours]'; or write `search: exact`, whose time grows by "
            "the square of the nodes."
        ) from None
    if metric == "cosine":
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        points = points / np.where(lengths == 0, 1, lengths)
    cells = max(1, min(int(4 * len(points) ** 0.5), len(points) // 39))  # faiss wants 39 for each
    index = faiss.index_factory(points.shape[1], f"IVF{cells},Flat")
    index.train(points)
    index.add(points)
    index.nprobe = CELLS
    ids = [_without(rows, index.search(points[rows], k + 1)[1]) for rows in _watched(len(points))]
    return np.concatenate(ids)


def _without(rows: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Return the first k of each row of neighbours (n, k + 1) that are not the row itself."""
    order = np.argsort(ids == rows[:, None], axis=1, kind="stable")  # oneself last
    return np.take_along_axis(ids, order, axis=1)[:, :-1]


def _mutual(edges: np.ndarray, nodes: int) -> np.ndarray:
    there, back = edges[:, 0] * nodes + edges[:, 1], edges[:, 1] * nodes + edges[:, 0]
    return edges[np.isin(there, back)]


def _watched(nodes: int) -> Iterator[np.ndarray]:
    """Give the numbers of nodes, some at a time, with a progress bar."""
    for first in tqdm(range(0, nodes, _ROWS), "neighbours", leave=False, disable=None):
        yield np.arange(first, min(first + _ROWS, nodes))
