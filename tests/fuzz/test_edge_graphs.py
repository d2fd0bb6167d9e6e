"""A hub of 100,000 neighbours, and five million nodes without any: trained on, or said why not."""

import math
import resource

import numpy as np
import pytest

from zoo import run_recipe
from zoo.config.options import options_of
from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.files.prepared import write_prepared
from zoo.data.load import prepare_on_disk, read_graph
from zoo.data.load.check import check
from zoo.errors import ZooError
from zoo.registry import MODELS
from zoo.weights.create import list_models

SPOKES, ALONE = 100_000, 5_000_000


def written(path, edges, nodes, columns):
    random = np.random.default_rng(0)
    x = random.normal(size=(nodes, columns)).astype(np.float32)
    write_prepared(GraphArrays(edges, random.integers(2, size=nodes), x), path)
    return path


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A star: one node is the neighbour of all others."""
    ends = np.arange(1, SPOKES + 1)
    edges = np.stack([np.zeros(SPOKES, np.int64), ends], axis=1)
    return written(tmp_path_factory.mktemp("hub") / "hub.npz", edges, SPOKES + 1, 2)


@pytest.fixture
def train(tmp_path):
    """Train for an epoch and return the score of the test nodes."""

    def call(path, **recipe):
        recipe = {"train": {"epochs": 1}, **recipe, "dataset": str(path)}
        score = run_recipe(recipe, runs=tmp_path / "runs", device="cpu")["test"]["mean"]
        assert math.isfinite(score)
        return score

    return call


def small(name, **options):
    known = options_of(MODELS[name])
    few = {"dim": 4, "layers": 2, "heads": 2, "full_heads": 2, "random_features": 4, "orders": 1}
    return {"name": name, **{key: few[key] for key in few if key in known}, **options}


def test_a_hub_of_100000_neighbours(hub, train):
    train(hub, model=small("gcn"))
    with pytest.raises(ZooError, match="10,000,200,001 pairs of nodes.*orders"):
        train(hub, model=small("nodeformer", orders=2))


NOT_OF_PAIRS = [
    name for name in list_models(task="node-classification") if MODELS[name].pair_bias == "none"
]
"""Models but those that look at the pairs within a few edges, which on a star are all pairs."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NOT_OF_PAIRS)
def test_every_model_on_a_hub(name, hub, train):
    quadratic = {"transformer", "graphgps", "nsa"}
    train(hub, model=small(name, **({"attention": "linear"} if name in quadratic else {})))


OTHERS = [
    *({"model": small("sgformer", attention=each)} for each in ("linear", "performer")),
    {"model": small("sgformer", attention={"name": "rba", "size": 64})},
    *({"model": small("sgformer", propagation=each)} for each in ("gcn", "mean", "gat")),
    {"model": small("mlp"), "encoding": {"name": "laplacian", "k": 2}},
    {"model": small("mlp"), "encoding": {"name": "random_walk", "steps": 2}},
    {"model": small("gcn"),
     "train": {"epochs": 1, "batching": {"name": "random-nodes", "size": 10_000}}},
    {"model": small("gcn"),
     "train": {"epochs": 1, "batching": {"name": "clusters", "parts": 10}}},
    {"model": small("gcn"),
     "train": {"epochs": 1, "batching": {"name": "neighbours", "fanouts": [5, 5], "size": 5000}}},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("recipe", OTHERS)
def test_every_part_on_a_hub(recipe, hub, train):
    train(hub, **recipe)


@pytest.mark.slow
def test_five_million_nodes_without_edges(tmp_path, train):
    path = written(tmp_path / "alone.npz", np.zeros((0, 2), np.int64), ALONE, 1)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = {each.name: each for each in check(read_graph(path))}
    assert "5,000,000 nodes; 0 edges" in found["size"].found and found["size"].verdict == "fix"
    prepare_on_disk(path, tmp_path / "alone")
    batches = {"batching": {"name": "random-nodes", "size": 500_000}, "evaluate": "batches"}
    for recipe in (
        {"model": small("gcn")},
        {"model": small("sgformer")},
        {"model": small("sgformer"), "train": {"epochs": 1, **batches}},
        {"model": small("mlp"), "encoding": {"name": "laplacian", "k": 2}},
    ):
        assert 0.49 < train(tmp_path / "alone", **recipe) < 0.51  # there is nothing to learn
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4 * 2**20, f"{grown} KiB"
