"""Evaluation in row chunks: the logits of the whole graph, and who cannot be asked so."""

import dataclasses
import tempfile
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from quick import every

import zoo
from zoo.config.options import pick
from zoo.data.load import load_graph, prepare_on_disk
from zoo.data.splits import make_split
from zoo.errors import ZooError
from zoo.graphs.sampling import induced
from zoo.nn import by_sums, count_nodes, per_graph, sum_over_nodes
from zoo.nn.attention import ATTENTIONS
from zoo.registry import Model
from zoo.runs.resolve import load_recipe
from zoo.runs.run import run_recipe
from zoo.tasks.task import TASKS
from zoo.training import layerwise
from zoo.training.batches import TrainingData, infer
from zoo.training.layerwise import Layerwise
from zoo.training.trainer import Trainer, all_logits
from zoo.weights.create import create_model

RESIDUAL = {"graph_branch": "residual", "graph_norm": "batch", "norm": "layer"}
MODELS = [
    ("mlp", {}),
    ("gcn", {"layers": 3, "norm": "batch", "residual": True}),
    ("sage", {}),
    ("gat", {"heads": 2}),
    ("sgformer", {}),
    ("sgformer", {**RESIDUAL, "qk_norm": "row", "layers": 2, "full_heads": 2, "use_weight": True}),
    ("sgformer", {"attention": {"name": "rba", "size": 50, "inference": "full"}}),
    ("difformer", {}),
    ("difformer", {"qk_norm": "row", "full_heads": 3, "use_source": True}),
    ("polynormer", {"heads": 2}),
    ("nodeformer", {"attention": "linear", "orders": 1, "edge_loss": 0}),
    ("htgn", {"attention": "linear"}),
    ("htgn", {"attention": "linear", "rotary": True}),
    ("transformer", {"attention": "linear"}),
    ("graphgps", {"attention": {"name": "linear", "qk_norm": "frobenius"}}),
]


@pytest.fixture
def data():
    return load_graph({"name": "sbm", "nodes": 300, "degree": 8, "dim": 6})


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch, tmp_path):
    monkeypatch.setattr(layerwise, "EDGES", 200)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def steps(model, data, **options):
    split = make_split("ratio-60-20-20", data.y, data.masks, seed=0)
    return Trainer(model, TrainingData(data, split, pick(TASKS, data.task)), **options)


def asked(model, data, nodes):
    model.eval()
    with torch.no_grad():
        return Layerwise(data, "cpu").logits(lambda *given: model(*given).logits, nodes)


@pytest.mark.parametrize(("name", "options"), MODELS)
def test_logits_are_those_of_the_whole_graph(name, options, data, tmp_path):
    model = create_model(name, 6, data.classes, **options)
    nodes = torch.tensor([7, 299, 0, 7, 150])
    found = asked(model, data, nodes)
    torch.testing.assert_close(found, all_logits(model, data)[nodes], rtol=1e-4, atol=1e-6)
    assert not list(tmp_path.glob("zoo-*"))  # what was written meanwhile is gone


@pytest.mark.parametrize("direction", ["both", "in", "out"])
@pytest.mark.parametrize("name", ["gcn", "sage", "sgformer", "polynormer"])
def test_weights_and_directions_of_edges_count(name, direction, tmp_path):
    random = np.random.default_rng(0)
    edges, weights = random.integers(0, 300, (900, 2)), random.random(900) + 0.1
    x, y = random.normal(size=(300, 6)), random.integers(0, 3, 300)
    data = zoo.Dataset.from_arrays(edges, x, y, weights=weights, direction=direction)
    model, nodes = create_model(name, 6, 3), torch.tensor([7, 299, 0, 7, 150])
    found = asked(model, data, nodes)
    torch.testing.assert_close(found, all_logits(model, data)[nodes], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("edges", [1, 200, 10**9])
def test_chunks_are_all_nodes_once(edges, data, monkeypatch):
    monkeypatch.setattr(layerwise, "EDGES", edges)
    over = Layerwise(data, "cpu")
    assert [node for each in over.chunks for node in each] == list(range(300))
    degrees = data.graph.in_degrees()
    for each in over.chunks:  # a node with more edges is by itself
        assert len(each) == 1 or degrees[each.start : each.stop].sum() <= edges
    assert len(over.chunks) == {1: 300, 10**9: 1}.get(edges, len(over.chunks))
    model = create_model("sgformer", 6, data.classes, graph_layers=1)
    nodes = torch.arange(300)
    whole = all_logits(model, data)
    torch.testing.assert_close(asked(model, data, nodes), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("transformer", {}),
        ("sgformer", {"attention": {"name": "rba", "size": 50}}),
        ("difformer", {"kernel": "sigmoid"}),
        ("nodeformer", {}),
        ("htgn", {}),
        ("nodeformer", {"attention": "linear", "orders": 2, "edge_loss": 0}),
        ("graphgps", {"attention": "performer"}),
        ("graphgps", {"attention": {"name": "rba", "size": 50, "inference": "full"}}),
    ],
)
def test_other_attentions_are_refused_before_training(name, options, data):
    model = create_model(name, 6, data.classes, **options)
    with pytest.raises(ZooError, match=r"`layerwise`.*evaluate: batches.*--batch-size"):
        steps(model, data, evaluation="layerwise")
    steps(model, data)


class Pooled(Model):
    """Adds the mean of all nodes to each, which a row chunk does not know."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)

    def features(self, graph, x):
        h = self.stem(x).relu()
        return h + h.mean(0, keepdim=True)


class PerGraph(Pooled):
    def features(self, graph, x):
        return per_graph(lambda h: h - h.mean(-2, keepdim=True), graph, self.stem(x))


@pytest.mark.parametrize("own", [Pooled, PerGraph])
@pytest.mark.parametrize("alike", [False, True])
def test_models_that_look_at_all_nodes_otherwise_are_refused(own, alike, data):
    model = own()
    if alike:  # nodes near each other have the same features
        data = dataclasses.replace(data, x=(torch.arange(300) // 40).unsqueeze(1) * torch.ones(6))
    with pytest.raises(ZooError, match=r"sum_over_nodes.*evaluate: batches.*--batch-size"):
        steps(model, data, evaluation="layerwise")


@pytest.mark.parametrize(("name", "options"), MODELS)
@pytest.mark.parametrize("nodes", every([300, 1, 2], 3))
def test_right_models_are_not_refused(name, options, nodes, data):
    some = torch.arange(nodes)
    data = dataclasses.replace(data, graph=induced(data.graph, some), x=data.x[some])
    model = create_model(name, 6, data.classes, **options)
    over = Layerwise(data, "cpu")
    for precision in ("fp32", "bf16"):
        infer(model, over, precision, over.check)


def test_a_graph_with_features_of_edges_and_weights_is_tried(tmp_path):
    random = np.random.default_rng(0)
    edges, x, y = random.integers(0, 40, (90, 2)), random.normal(size=(40, 6)), np.arange(40) % 3
    given = {"weights": random.random(90) + 0.1, "edge_features": random.normal(size=(90, 2))}
    data = zoo.Dataset.from_arrays(edges, x, y, **given)
    for name in ("gat", "gine", "htgn"):
        options = {"attention": "linear"} if name == "htgn" else {}
        model = create_model(name, 6, 3, edge_dim=2, **options)
        over = Layerwise(data, "cpu")
        infer(model, over, "fp32", over.check)


def test_an_attention_of_ones_own(data, monkeypatch):
    @by_sums
    def uniform(q, k, v, *, sums=None):
        (total,) = sum_over_nodes(sums, v.sum(-3, keepdim=True))
        return (total / count_nodes(v, sums)).expand_as(v)

    monkeypatch.setitem(ATTENTIONS, "uniform", lambda native, layer: uniform)
    model = create_model("sgformer", 6, data.classes, attention="uniform")
    found = asked(model, data, torch.arange(300))
    torch.testing.assert_close(found, all_logits(model, data), rtol=1e-4, atol=1e-6)


def test_no_room_for_the_files(data, monkeypatch):
    model = create_model("gcn", 6, data.classes)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=1000))
    with pytest.raises(ZooError, match="76,800 bytes to .* 1,000 are free.*TMPDIR"):
        asked(model, data, torch.arange(3))


def test_the_scores_are_those_of_the_whole_graph(data):
    model = create_model("sgformer", 6, data.classes)
    ways = [steps(model, data, evaluation=each) for each in ("full", "layerwise")]
    for part in ("train", "val", "test"):
        one, other = (each.evaluate()(part) for each in ways)
        assert one == other


def test_a_recipe_of_a_graph_on_disk(tmp_path):
    prepare_on_disk({"name": "sbm", "nodes": 300, "dim": 6}, tmp_path / "there")
    summaries = []
    for evaluate in ("full", "layerwise"):
        train = {
            "epochs": 3,
            "batching": {"name": "random-nodes", "size": 100},
            "evaluate": evaluate,
        }
        dataset = {"name": str(tmp_path / "there"), "split": "ratio-60-20-20"}
        recipe = {"dataset": dataset, "model": "gcn", "train": train}
        summaries.append(run_recipe(load_recipe(recipe), runs=tmp_path / evaluate))
    one, other = summaries
    assert one["test"] == other["test"] and one["val"] == other["val"]


def test_the_command_says_what_to_write(command):
    code, _, said = command("train", "sgformer-digits-rba", "train.evaluate=layerwise")
    assert code == 2 and "made of sums over all nodes" in said
    code, _, said = command("train", "gcn-digits", "train.evaluate=chunks")
    assert code == 2 and "layerwise" in said
