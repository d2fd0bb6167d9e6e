"""A graph that is not canonical is told of once; the zoo's own are never looked at."""

import warnings

import pytest
import torch
from needs_dgl import needs_dgl

import zoo
from zoo import canonical_form
from zoo.dgl import HAS_DGL, dgl
from zoo.graphs.sampling import induced, neighbourhood
from zoo.graphs.shard import Shard
from zoo.graphs.spmm import place
from zoo.runs.run import run_recipe


@pytest.fixture
def model():
    return zoo.create_model("polynormer", 5, 3).eval()


@pytest.fixture
def unseen(monkeypatch):
    """No graph may be looked at: each has to be known."""

    def refuse(graph):
        raise AssertionError(f"{graph} is not known")

    monkeypatch.setattr(canonical_form, "_check_form", refuse)


def ring(n=12):
    return dgl.graph((torch.arange(n), (torch.arange(n) + 1) % n))


def both_ways(graph):
    return dgl.add_reverse_edges(graph)


@pytest.mark.parametrize(
    "graph,words",
    [
        (ring(), "12 nodes have no self-loop, edges have one direction only"),
        (both_ways(ring()), "not canonical: 12 nodes have no self-loop. "),
        (dgl.add_self_loop(ring()), "not canonical: edges have one direction only"),
        (
            dgl.add_self_loop(dgl.add_self_loop(both_ways(ring()))),
            "not canonical: 12 edges are there more than once",
        ),
        (dgl.graph(([], []), num_nodes=12), "12 nodes have no self-loop"),
    ],
    ids=["ring", "no loops", "directed", "twice", "empty"],
)
def test_a_graph_that_is_not_canonical_is_told_of_once(graph, words, model):
    x = torch.randn(12, 5)
    with pytest.warns(UserWarning, match=words) as told:
        model(graph, x)
    assert "Write `graph = zoo.canonical(graph)`" in str(told[0].message)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(graph, x), zoo.create_model("gcn", 5, 3)(graph, x)


def test_it_is_worth_a_word():
    """Polynormer's logits are others on the graph as it was drawn: what the warning is for."""
    model, x = zoo.create_model("polynormer", 5, 3).eval(), torch.randn(12, 5)
    with pytest.warns(UserWarning, match="not canonical"):
        drawn = model(ring(), x).logits
    assert (drawn - model(zoo.canonical(ring()), x).logits).abs().max() > 0.01


def test_a_graph_that_changes_is_looked_at_again(model):
    graph, x = zoo.canonical(ring()), torch.randn(12, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(graph, x)
    graph.add_edges([0], [5])
    with pytest.warns(UserWarning, match="edges have one direction only"):
        model(graph, x)


def test_canonical_graphs_of_others_are_passed_in_silence(model):
    graph, x = dgl.add_self_loop(both_ways(ring())), torch.randn(24, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(graph, x[:12])
        model(dgl.batch([graph, graph]), x)


def test_graphs_that_the_zoo_makes_are_known(unseen, model):
    data = zoo.load_graph({"name": "sbm", "nodes": 60, "classes": 3})
    graph = data.graph
    nodes, near = neighbourhood(graph, torch.arange(5), [3, 3], 0)
    own = [graph, place(graph, "cpu"), induced(graph, torch.arange(0, 60, 2)), near]
    own += [Shard(graph, torch.arange(60)), zoo.canonical(ring())]
    for each in own:
        canonical_form.check_graph(each)


@pytest.mark.parametrize(
    "change",
    [
        "train.batching={name: random-nodes, size: 20}",
        "train.batching={name: neighbours, size: 20, fanouts: [3, 3]}",
        "train.evaluate=layerwise",
        "train.epochs=1",
    ],
)
def test_training_looks_at_no_graph(change, unseen, tmp_path):
    recipe = {"dataset": {"name": "sbm", "nodes": 60, "classes": 3}, "model": "sage"}
    plan = zoo.load_recipe({**recipe, "train": {"epochs": 2}}, [change])
    folder = run_recipe(plan, runs=tmp_path)["folder"]
    data = zoo.load_graph({"name": "sbm", "nodes": 60, "classes": 3})
    zoo.predict(zoo.load(folder), data)


@needs_dgl
@pytest.mark.parametrize(
    "blocks", [list, tuple, lambda blocks: blocks[0]], ids=["list", "tuple", "one"]
)
def test_blocks_are_answered_with_what_to_give(blocks, model):
    sampler = dgl.dataloading.NeighborSampler([2, 2])
    graph = zoo.canonical(ring())
    inputs, _, made = sampler.sample_blocks(graph, torch.arange(3))
    with pytest.raises(zoo.ZooError, match="zoo.canonical.dgl.node_subgraph.graph, input_nodes"):
        model(blocks(made), torch.randn(len(inputs), 5))
    part = zoo.canonical(dgl.node_subgraph(graph, inputs))  # what the answer says to write
    assert len(model(part, torch.randn(12, 5)[inputs]).logits) == len(inputs)


def test_other_things_are_no_graphs(model):
    data = zoo.load_graph("karate")
    kinds = {("a", "to", "b"): ([0], [1])}
    for given, words in (
        (data, r"model\(data.graph, data.x\)"),
        (torch.zeros(2, 5), r"zoo.canonical\(edges, nodes=N\)"),
        *([(dgl.heterograph(kinds), "dgl.to_homogeneous")] if HAS_DGL else []),
    ):
        with pytest.raises(zoo.ZooError, match=words):
            model(given, torch.randn(12, 5))


@pytest.mark.parametrize("kinds", [[0], [0, -1, 1], [0.0, 1.0, 0.0], [[0], [1], [0]]])
def test_kinds_of_edges_are_a_whole_number_for_each(kinds):
    with pytest.raises(zoo.ZooError, match="one whole number from 0 for each of the 3 edges"):
        zoo.canonical([[0, 1], [1, 2], [2, 3]], nodes=4, relations=kinds)


@pytest.mark.parametrize("duplicates", ["mean", "sum", "max"])
def test_a_graph_without_edges_has_weights_of_its_loops(duplicates):
    graph = zoo.canonical(torch.zeros(0, 2).long(), nodes=3, weights=[], duplicates=duplicates)
    assert graph.edata["weight"].tolist() == [1, 1, 1]


def test_a_known_graph_costs_no_look_at_its_edges(model, monkeypatch):
    graph, x = dgl.add_self_loop(both_ways(ring())), torch.randn(12, 5)
    model(graph, x)
    monkeypatch.setattr(canonical_form, "_check_form", None)
    model(graph, x)
