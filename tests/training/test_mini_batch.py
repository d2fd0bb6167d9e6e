"""Batches of nodes: what is in them, that nothing is mixed up, and that they train."""

import dataclasses
import sys
import threading

import pytest
import torch
from quick import every

from zoo.config.options import pick
from zoo.data.canonical import canonical
from zoo.data.load import load_graph
from zoo.data.splits import make_split
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.clusters import clusters
from zoo.graphs.sampling import induced, neighbourhood
from zoo.system import process_group
from zoo.tasks.task import TASKS
from zoo.training.batches import BATCHING, FullBatch, TrainingData
from zoo.training.trainer import Hooks, Trainer, all_logits, fit
from zoo.weights.create import create_model

BATCHES = {
    "random-nodes": {"name": "random-nodes", "size": 70},
    "clusters": {"name": "clusters", "parts": 12, "per_batch": 3},
    "neighbours": {"name": "neighbours", "fanouts": [5, 3], "size": 40},
}
CPU = "cpu"


@pytest.fixture(scope="module")
def data():
    """A random graph whose features say which node is which."""
    found = load_graph({"name": "sbm", "nodes": 300, "classes": 3, "degree": 6, "dim": 4})
    x = found.x.clone()
    x[:, 0] = torch.arange(300)
    return dataclasses.replace(found, x=x)


@pytest.fixture(scope="module")
def split(data):
    return make_split("ratio-50-25-25", data.y, None, seed=0)


def pairs(graph):
    return set(zip(*(each.tolist() for each in graph.edges()), strict=True))


def assert_canonical(graph):
    again = canonical(graph)
    assert pairs(again) == pairs(graph) and again.num_edges() == graph.num_edges()


def over(spec, data, split):
    torch.manual_seed(7)
    return pick(BATCHING, spec, data, split.train, CPU)


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_an_induced_graph_has_all_edges_between_its_nodes(data, kind):
    nodes = torch.randperm(300)[:120].sort().values
    graph = data.graph.astype(kind)
    found = induced(graph, nodes)
    wanted = dgl.node_subgraph(graph, nodes.to(kind))
    assert found.idtype == kind and pairs(found) == pairs(wanted)
    assert_canonical(found)
    assert induced(graph, torch.tensor([5])).num_edges() == 1  # its own loop


def test_what_is_drawn_around_seeds_is_bounded_and_comes_again(data):
    seeds = torch.tensor([3, 77, 200])
    nodes, graph = neighbourhood(data.graph, seeds, [2, 2], seed=1)
    assert_canonical(graph)
    assert 3 <= len(nodes) <= 3 * (1 + 2 + 4) and set(seeds.tolist()) <= set(nodes.tolist())
    assert torch.equal(nodes, nodes.unique())
    between = pairs(dgl.node_subgraph(data.graph, nodes))
    assert pairs(graph) <= between
    again, same = neighbourhood(data.graph, seeds, [2, 2], seed=1)
    assert torch.equal(nodes, again) and pairs(graph) == pairs(same)
    other, _ = neighbourhood(data.graph, seeds, [2, 2], seed=2)
    assert not torch.equal(nodes, other)


def test_every_neighbour_is_drawn_as_often_as_any_other():
    star = canonical([(0, each) for each in range(1, 9)], nodes=9)  # its own loop is no neighbour
    counts, draws = torch.zeros(9), 1000
    for seed in range(draws):
        nodes, _ = neighbourhood(star, torch.tensor([0]), [4], seed)
        assert len(nodes) == 5
        counts[nodes] += 1
    assert counts[0] == draws  # the seed itself
    expected = draws / 2
    assert ((counts[1:] - expected).abs() < 4.5 * (expected / 2) ** 0.5).all()


def test_all_neighbours_give_the_answers_of_the_whole_graph(data):
    model = create_model("gcn", 4, 3, dim=8, layers=2).eval()
    seeds = torch.tensor([0, 50, 299])
    # One step further than the model looks, so that the degrees of what it sees are whole.
    nodes, graph = neighbourhood(data.graph, seeds, [-1, -1, -1], seed=0)
    with torch.no_grad():
        found = model(graph, data.x[nodes]).logits[torch.searchsorted(nodes, seeds)]
    assert torch.allclose(found, all_logits(model, data)[seeds], atol=1e-5)


def test_a_fanout_of_none_is_refused(data, split):
    with pytest.raises(ZooError, match="fanout of 0"):
        over({"name": "neighbours", "fanouts": [5, 0], "size": 10}, data, split)


@pytest.mark.parametrize("parts", [1, 7, 60, 299, 300])
def test_no_cluster_is_empty_and_all_are_about_as_large(data, parts):
    sizes = torch.bincount(clusters(data.graph, parts), minlength=parts)
    assert sizes.sum() == 300 and sizes.min() > 0 and sizes.max() <= 300 // parts + 3


def test_a_graph_is_cut_alike_each_time_and_edges_may_lead_one_way(real_graph):
    graph = real_graph("cora").graph
    assert torch.equal(clusters(graph, 22), clusters(graph, 22))
    path = torch.arange(399)
    graph = dgl.add_self_loop(dgl.graph((path, path + 1), num_nodes=400))
    found = clusters(graph, 4)
    assert torch.equal(found, clusters(dgl.add_reverse_edges(graph), 4))
    assert (found[1:] != found[:-1]).sum() == 3 and found.bincount().tolist() == 4 * [100]
    assert clusters(dgl.graph(([], []), num_nodes=9), 5).unique().tolist() == [0, 1, 2, 3, 4]


def test_clusters_need_pymetis_and_memory(data, monkeypatch):
    def fail(*given, **options):
        raise RuntimeError("Caught an unknown exception!")

    monkeypatch.setattr("pymetis.part_graph", fail)
    with pytest.raises(ZooError, match="300 nodes .* memory .*random-nodes"):
        clusters(data.graph, 3)
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(ZooError, match="pip install pymetis"):
        clusters(data.graph, 3)


def test_clusters_cut_fewer_edges_than_chance(real_graph):
    graph = real_graph("minesweeper").graph
    found = clusters(graph, 10)
    src, dst = graph.edges()
    assert set(found.tolist()) == set(range(10))
    assert (found[src] != found[dst]).float().mean() < 0.2
    with pytest.raises(ZooError, match="write fewer `parts`"):
        clusters(graph, graph.num_nodes() + 1)


@pytest.mark.parametrize("name", BATCHES)
def test_features_labels_and_edges_stay_those_of_the_node(name, data, split):
    training, edges = set(split.train.tolist()), pairs(data.graph)
    seen = []
    for part in over(BATCHES[name], data, split).batches(0):
        nodes = part.x[:, 0].long()
        assert torch.equal(part.x, data.x[nodes]) and torch.equal(part.y, data.y[nodes])
        src, dst = (nodes[each].tolist() for each in part.graph.edges())
        assert set(zip(src, dst, strict=True)) <= edges
        assert set(nodes[part.rows].tolist()) <= training and len(part.rows)
        seen += nodes[part.rows].tolist()
    assert sorted(seen) == sorted(training)  # each of them once


@pytest.mark.parametrize("name", BATCHES)
def test_epochs_differ_and_come_again(name, data, split):
    def drawn(epoch):
        parts = over(BATCHES[name], data, split).batches(epoch)
        return [part.x[:, 0].tolist() for part in parts]

    assert drawn(0) == drawn(0) != drawn(1)


def test_one_batch_of_all_nodes_is_the_whole_graph(data, split):
    losses = {}
    on = TrainingData(data, split, pick(TASKS, data.task))
    for batching in ("full", {"name": "random-nodes", "size": 300}):
        torch.manual_seed(0)
        model = create_model("gat", 4, 3, dim=8, dropout=0.0)
        seen = losses.setdefault(str(batching), [])
        fit(model, on, Hooks(lambda e, s=seen: s.append(e[2:5])),
            epochs=5, batching=batching)  # fmt: skip
    one, other = losses.values()
    assert one == other


def test_batches_without_training_nodes_are_left_out(data, split):
    few = dataclasses.replace(split, train=split.train[:3])
    parts = list(over({"name": "random-nodes", "size": 20}, data, few).batches(0))
    assert 1 <= len(parts) <= 3 and all(len(part.rows) for part in parts)
    model = create_model("gcn", 4, 3, dim=8)
    fit(model, TrainingData(data, few, pick(TASKS, data.task)), epochs=3,
        batching={"name": "random-nodes", "size": 20})  # fmt: skip
    assert all(each.isfinite().all() for each in model.parameters())


@pytest.mark.parametrize("name", BATCHES)
def test_answers_in_batches_are_those_of_the_nodes_that_were_asked(name, data, split):
    model = create_model("mlp", 4, 3, dim=8).eval()
    nodes = torch.tensor([7, 3, 299, 3, 0])
    batches = over(BATCHES[name], data, split)
    with torch.no_grad():
        found = batches.logits(lambda graph, x, _: model(graph, x).logits, nodes)
    assert torch.allclose(found, all_logits(model, data)[nodes], atol=1e-5)


def test_gradients_of_several_batches_are_added_up_for_a_step(data, split):
    spec = {**BATCHES["random-nodes"], "per_step": 2}
    parts = list(over(spec, data, split).batches(0))
    assert [part.last for part in parts] == [False, True, False, True, True]  # of five
    trained = [len(part.rows) for part in parts]
    assert parts[0].weight == trained[0] / (trained[0] + trained[1]) == parts[0].share
    assert parts[4].weight == 1


def test_a_batch_weighs_as_much_as_it_is_told(data, split):
    y = torch.randint(0, 2, (len(data.x), 3)).float()
    y[torch.rand(y.shape) < 0.5] = torch.nan
    y[split.train, 0] = 1.0
    told = dataclasses.replace(data, y=y, task="node-multilabel")
    parts = list(over({**BATCHES["random-nodes"], "per_step": 5}, told, split).batches(0))
    known = [int((~part.y[part.rows].isnan()).sum()) for part in parts]
    assert [part.weight for part in parts] == [each / sum(known) for each in known]


def test_features_in_half_precision_come_in_fp32(data, split):
    half = dataclasses.replace(data, x=data.x.half())
    part = next(over(BATCHES["random-nodes"], half, split).batches(0))
    assert part.x.dtype == torch.float32
    assert FullBatch(half, split.train, CPU).data.x.dtype == torch.float32


def test_what_goes_wrong_in_the_thread_is_told_and_the_thread_ends(data, split, monkeypatch):
    batches = over(BATCHES["random-nodes"], data, split)
    before = threading.active_count()
    parts = batches.batches(0)
    next(parts)
    assert threading.active_count() == before + 1
    parts.close()
    assert threading.active_count() == before and batches.waited > 0
    monkeypatch.setattr("zoo.training.batches.induced", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(batches.batches(0))


@pytest.mark.parametrize("evaluate", ["full", "batches"])
@pytest.mark.parametrize("name", every(BATCHES, 2))
def test_every_kind_of_batches_trains(name, evaluate, data, split):
    torch.manual_seed(0)
    standard = dataclasses.replace(data, x=data.x[:, 1:])
    model = create_model("sgformer", 3, 3, dim=16, attention={"name": "rba", "size": 16})
    found = fit(model, TrainingData(standard, split, pick(TASKS, data.task)), epochs=20,
                batching=BATCHES[name], evaluate=evaluate)  # fmt: skip
    assert found.test > 0.45  # chance is 0.33, with a standard deviation of 0.05


def test_evaluation_may_be_of_the_whole_graph_or_of_batches(data, split):
    model = create_model("gcn", 4, 3, dim=8)
    given = (model, TrainingData(data, split, pick(TASKS, data.task)))
    chosen = BATCHES["random-nodes"]
    assert type(Trainer(*given, batching=chosen).eval_loader) is FullBatch
    batches = Trainer(*given, batching=chosen, evaluation="batches")
    assert batches.eval_loader is batches.train_loader


def test_processes_draw_the_same_when_an_epoch_begins(data, split, monkeypatch):
    """A checkpoint holds the generator of one of them; here they have come to different states."""
    model = create_model("nodeformer", 4, 3, dim=4, redraw="epoch")
    steps = Trainer(model, TrainingData(data, split, pick(TASKS, data.task)),
                  batching=BATCHES["random-nodes"])  # fmt: skip
    monkeypatch.setattr(process_group, "count", lambda: 2)

    def drawn(state, epoch):
        torch.manual_seed(state)
        steps.begin_epoch(epoch)
        return model.layers[0].kernel.drawn.clone()

    first = drawn(1, 5)
    assert torch.equal(drawn(2, 5), first) and not torch.equal(drawn(2, 6), first)


def test_a_recipe_in_batches_trains_or_says_what_is_wrong(command):
    done = command("train", "sgformer-sbm-rba", "dataset.nodes=400", "train.epochs=2",
                   "train.batching={name: random-nodes, size: 150}", "seeds=[0]")  # fmt: skip
    assert done[0] == 0
    wrong = command("train", "sgformer-sbm-rba", "train.batching={name: random-nodes}")
    assert wrong[0] == 2 and "size" in wrong[2]
    wrong = command("train", "sgformer-sbm-rba", "train.batching=random")
    assert wrong[0] == 2 and "random-nodes" in wrong[2]
