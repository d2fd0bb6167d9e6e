"""Planted graphs whose classes only weights, or only directions, of edges tell."""

import numpy as np
import pytest

from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.files.prepared import write_prepared
from zoo.runs.run import run_recipe

NODES, CLASSES, DEGREE = 800, 4, 12
SHARED = {"train": {"epochs": 80}, "seeds": [0]}


def planted(path, target_class, weight):
    """Write a graph with weak features; edges lead to nodes of a class that the sources' gives."""
    rng = np.random.default_rng(0)
    labels = rng.integers(CLASSES, size=NODES)
    source = np.repeat(np.arange(NODES), DEGREE)
    wanted = target_class(labels[source], rng)
    places = rng.random(len(source))
    members = [np.flatnonzero(labels == each) for each in range(CLASSES)]
    target = np.array(
        [members[c][int(p * len(members[c]))] for c, p in zip(wanted, places, strict=True)]
    )
    features = rng.normal(size=(NODES, 16)).astype(np.float32)
    features[:, :CLASSES] += 0.7 * np.eye(CLASSES, dtype=np.float32)[labels]
    edges = np.stack([source, target], axis=1)
    weights = None if weight is None else weight(labels[source], labels[target])
    write_prepared(GraphArrays(edges, labels, features, weights=weights), path)
    return str(path)


def score(dataset, tmp_path, **model):
    recipe = {
        "model": {"dim": 32, "dropout": 0.3, **model},
        "dataset": {**dataset, "split": "ratio-50-25-25"},
        **SHARED,
    }
    return 100 * run_recipe(recipe, runs=tmp_path / "runs", device="cpu")["test"]["mean"]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "name", ["gcn", *(pytest.param(each, marks=SLOW) for each in ("sage", "gat", "htgn"))]
)
def test_where_weights_carry_the_signal_they_are_worth_20_points(name, tmp_path):
    """Half of the edges are inside a class; those between classes weigh a fiftieth."""
    path = planted(
        tmp_path / "weighted.npz",
        lambda own, rng: rng.integers(CLASSES, size=len(own)),
        lambda a, b: np.where(a == b, 1.0, 0.02),
    )
    weighted = score({"name": path}, tmp_path, name=name)
    bare = score({"name": path, "weights": "ignore"}, tmp_path, name=name)
    assert weighted >= bare + 20


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=SLOW) for each in ("gcn", "sage", "gat")]
)
def test_where_directions_carry_the_signal_they_are_worth_10_points(name, tmp_path):
    """Edges lead from each class to the next: who has neither gives both neighbours alike."""
    path = planted(tmp_path / "directed.npz", lambda own, rng: (own + 1) % CLASSES, None)
    apart = score(
        {"name": path, "direction": "separate"}, tmp_path, name=name, direction="separate"
    )
    both = score({"name": path}, tmp_path, name=name)
    assert apart >= both + 10
