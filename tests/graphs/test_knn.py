"""Graphs made of features: held against loops over all pairs, on disk once, refused in words."""

import math

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from zoo.config.options import pick
from zoo.data.graph_words import GRAPHS
from zoo.data.load import load_graph
from zoo.errors import ZooError
from zoo.graphs import knn

X = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))


def made(spec, x=X, ids=None):
    return {tuple(edge) for edge in pick(GRAPHS, spec, x, ids).tolist()}


def distances(x, metric):
    """Of all pairs, one by one."""
    rows = x.double().tolist()

    def cosine(a, b):
        return 1 - sum(map(math.prod, zip(a, b, strict=True))) / (math.hypot(*a) * math.hypot(*b))

    measure = cosine if metric == "cosine" else math.dist
    return [[measure(a, b) for b in rows] for a in rows]


def nearest(x, k, metric):
    """The k nearest others of each node, from its sorted row of distances."""
    return {
        (i, j)
        for i, row in enumerate(distances(x, metric))
        for j in sorted((j for j in range(len(row)) if j != i), key=row.__getitem__)[:k]
    }


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [1, 5, 59])
def test_the_nearest_are_those_of_all_pairs(metric, k):
    spec = {"name": "knn", "k": k, "metric": metric}
    wanted = nearest(X, k, metric)
    assert made(spec) == wanted
    assert made({**spec, "mutual": True}) == {(i, j) for i, j in wanted if (j, i) in wanted}


@pytest.mark.parametrize(("metric", "radius"), [("cosine", 0.2), ("euclidean", 1.5)])
def test_within_a_radius_are_those_of_all_pairs(metric, radius):
    near = distances(X, metric)
    wanted = {(i, j) for i in range(60) for j in range(60) if i != j and near[i][j] <= radius}
    assert made({"name": "radius", "radius": radius, "metric": metric}) == wanted and wanted


def test_equal_nodes_are_neighbours_and_never_their_own():
    """More copies of a node than neighbours: the node itself may be found last, or not at all."""
    edges = made({"name": "knn", "k": 3, "metric": "euclidean"}, X[:3].repeat(8, 1))
    assert len(edges) == 3 * 24 and all(i != j and i % 3 == j % 3 for i, j in edges)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_of_equal_distances_the_lower_number_is_nearer(k, threads):
    """Whole numbers, of which most have several neighbours at one distance, many beyond k."""
    points = np.random.default_rng(0).integers(0, 2, (1100, 6)).astype(np.float32)
    far = (points**2).sum(1) + (points**2).sum(1)[:, None] - 2 * points @ points.T
    np.fill_diagonal(far, np.inf)
    with threadpool_limits(threads):
        found = knn.nearest(points, k, "euclidean")
    assert np.array_equal(found, far.argsort(axis=1, kind="stable")[:, :k])


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_most_of_the_nearest_are_found_in_cells(monkeypatch, metric):
    """And all of them where all cells are looked into."""
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(1500, 8)).astype(np.float32))
    monkeypatch.setattr(knn, "CELLS", 10)
    points = x.numpy()
    exact = knn.nearest(points, 10, metric)
    found = knn._approximate(points, 10, metric)
    shared = [len({*one} & {*other}) for one, other in zip(exact, found, strict=True)]
    assert 0.9 * 10 * len(x) < sum(shared) < 10 * len(x)
    assert np.array_equal(knn._approximate(points, 10, metric), found)
    monkeypatch.setattr(knn, "CELLS", 1000)
    whole = made({"name": "knn", "k": 10, "metric": metric, "search": "approximate"}, x)
    assert whole == made({"name": "knn", "k": 10, "metric": metric}, x)


def test_where_the_search_is_approximate(monkeypatch):
    """Above so many nodes; whatever it does not find is no edge."""
    monkeypatch.setattr(knn, "EXACT", 59)
    found = np.tile(np.array([[1, -1]]), (60, 1))
    monkeypatch.setattr(knn, "_approximate", lambda points, k, metric: found)
    assert made({"name": "knn", "k": 2}) == {(i, 1) for i in range(60)}


def test_neighbours_are_looked_for_once(monkeypatch):
    wanted = made({"name": "knn", "k": 4})
    monkeypatch.setattr(knn, "nearest", None)
    assert made({"name": "knn", "k": 4}) == wanted
    with pytest.raises(TypeError):
        made({"name": "knn", "k": 3})
    with pytest.raises(TypeError):
        made({"name": "knn", "k": 4}, X + 1)


def test_edges_of_a_file(tmp_path):
    path = tmp_path / "edges.csv"
    path.write_text("source,target\n3,4\n5,3\n")
    assert made({"name": "file", "path": str(path)}) == {(3, 4), (5, 3)}
    path.write_text("from,to,weight\nb,a,2\n")
    spec = {"name": "file", "path": str(path), "source": "from", "target": "to"}
    assert made(spec, X[:2], np.array(["a", "b"])) == {(1, 0)}
    with pytest.raises(ZooError, match="'b', and no node has this id"):
        made(spec, X[:2], np.array(["a", "c"]))


def test_a_data_set_gets_the_graph():
    data = load_graph("karate")
    assert data.with_graph("own") is data
    alone = data.with_graph("none").graph
    assert alone.num_edges() == alone.num_nodes() == 34
    near = load_graph("digits").with_graph({"name": "knn", "metric": "euclidean"}).graph
    own = load_graph("digits").graph  # five nearest, euclidean
    assert torch.equal(torch.stack(near.edges()), torch.stack(own.edges()))
    assert own.num_edges() == 14_415  # with any number of threads


@pytest.mark.parametrize(
    ("spec", "x", "said"),
    [
        ({"name": "knn", "k": 60}, X, "there are 60 nodes; give at least 61, or.*smaller k"),
        ("knn", X[:, :0], "no features, by which they could be near"),
        ("radius", X[:, :0], "no features"),
        ({"name": "knn", "metric": "manhattan"}, X, "cosine"),
        ({"name": "file", "path": "nowhere.csv"}, X, "nowhere.csv"),
        ("nearest", X, "knn"),
    ],
)
def test_what_cannot_be_made_is_said(spec, x, said):
    with pytest.raises(ZooError, match=said):
        made(spec, x)


def test_too_many_edges_are_refused_before_they_are_listed(monkeypatch):
    monkeypatch.setattr(knn, "available_memory", lambda: 60 * 59 * 64 - 1)
    with pytest.raises(ZooError, match="about 3,540 edges are within 9"):
        made({"name": "radius", "radius": 9.0, "metric": "euclidean"})
    monkeypatch.setattr(knn, "available_memory", lambda: 100)
    with pytest.raises(ZooError, match="do not fit into memory"):
        made("knn")
