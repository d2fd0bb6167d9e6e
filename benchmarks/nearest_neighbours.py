"""Nearest neighbours of many points: time, memory and recall, beside comparing all pairs.

    python benchmarks/nearest_neighbours.py [--full]

Points are drawn from 1,000 clusters of unequal size that lie on planes of 16 dimensions in 64, and,
as the worst case, from one normal distribution without any structure. Ten neighbours, euclidean.
The peer is scikit-learn, comparing all pairs: it answers for 1,000 points, on which recall is
measured, and its time is multiplied up. With `--full` there are 1,000,000 points, else 100,000.
"""

import os
import tempfile
import time

import numpy as np
import torch
from contest import Aim, conclude, full_asked

from zoo.config.options import pick
from zoo.data.graph_words import GRAPHS
from zoo.system.memory import own_peak

COLUMNS, NEAREST, ASKED = 64, 10, 1000


def clustered(nodes: int) -> np.ndarray:
    """Return points (N, 64) of 1,000 clusters."""
    random = np.random.default_rng(0)
    centres = random.normal(size=(1000, COLUMNS))
    planes = random.normal(size=(1000, 16, COLUMNS)) / 4
    owners = random.choice(1000, size=nodes, p=random.dirichlet(np.ones(1000)))
    points = np.empty((nodes, COLUMNS), np.float32)
    for rows in np.array_split(np.arange(nodes), max(1, nodes // 10_000)):
        inside = random.normal(size=(len(rows), 16))
        points[rows] = centres[owners[rows]] + np.einsum("nk,nkc->nc", inside, planes[owners[rows]])
    return points + random.normal(scale=0.05, size=points.shape).astype(np.float32)


def structureless(nodes: int) -> np.ndarray:
    """Return normal points (N, 64)."""
    return np.random.default_rng(0).normal(size=(nodes, COLUMNS)).astype(np.float32)


def measured(name: str, points: np.ndarray) -> tuple[dict[str, str], float]:
    """Return a row of the table, and the recall."""
    from sklearn.neighbors import NearestNeighbors

    spec = {"name": "knn", "k": NEAREST, "metric": "euclidean", "search": "approximate"}
    start = time.perf_counter()
    with own_peak() as held:
        before = held[0]
        edges = pick(GRAPHS, spec, torch.from_numpy(points), None)
    seconds = time.perf_counter() - start
    index = NearestNeighbors(n_neighbors=NEAREST + 1, algorithm="brute").fit(points)
    start = time.perf_counter()
    asked = np.random.default_rng(1).choice(len(points), ASKED, replace=False)
    exact = index.kneighbors(points[asked], return_distance=False)[:, 1:]
    peer = (time.perf_counter() - start) * len(points) / ASKED
    found = edges[:, 1].reshape(len(points), NEAREST)[asked]
    shared = [len({*one} & {*other}) for one, other in zip(exact, found, strict=True)]
    recall = sum(shared) / ASKED / NEAREST
    row = {
        "points": f"{len(points):,} {name}",
        "seconds": f"{seconds:,.0f}",
        "GB beside the points": f"{(held[0] - before) / 1e9:.2f}",
        "recall": f"{recall:.3f}",
        "all pairs, seconds": f"{peer:,.0f}",
        "times faster": f"{peer / seconds:.1f}",
    }
    return row, recall


def main() -> None:
    """Measure both kinds of points with an empty cache."""
    full = full_asked(__doc__)
    nodes = 1_000_000 if full else 100_000
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ZOO_DATA"] = folder
        found = [measured(draw.__name__, draw(nodes)) for draw in (clustered, structureless)]
    aim = Aim("recall of clustered points", found[0][1], 0.95, least=True)
    conclude(__file__, full, [row for row, _ in found], [aim])


if __name__ == "__main__":
    main()
