"""`inductive`: nodes that a model is measured by are not seen before, whatever the graph is."""

import dataclasses
from pathlib import Path

import pytest
import torch

from zoo.config.options import pick
from zoo.data.load import load_data, load_graph
from zoo.data.load.on_disk import from_dataset
from zoo.data.mapped.writer import write_on_disk
from zoo.data.splits import make_split
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate, evaluate_part
from zoo.inference.predict import features, run_inference
from zoo.inference.training_data import read_as_trained
from zoo.runs.run import run_recipe
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData, make_inductive
from zoo.training.trainer import fit
from zoo.weights.create import create_model
from zoo.weights.save_and_load import load

KNN = {"name": "knn", "k": 3}


def prepared(x=None, graph="own"):
    data = load_graph("sbm", nodes=200, dim=6)
    data = dataclasses.replace(data, x=data.x if x is None else x).with_graph(graph)
    data = data.encoded(lambda each: pick(ENCODINGS, {"name": "laplacian", "k": 2}, each))
    split = make_split("ratio-60-20-20", data.y, None, seed=0)
    return TrainingData(data, split, pick(TASKS, data.task))


def trained(on, **options):
    torch.manual_seed(0)
    model = create_model("difformer", on.data.inputs, on.data.classes, dim=8)
    return fit(model, on, epochs=3, inductive=True, **options), model.state_dict()


@pytest.mark.parametrize("graph", ["own", KNN], ids=str)
@pytest.mark.parametrize("batching", ["full", {"name": "random-nodes", "size": 40}], ids=str)
def test_nodes_of_the_test_change_no_bit_of_training(graph, batching):
    on = prepared(graph=graph)
    x = on.data.x[:, :6].clone()
    x[on.split.test] = torch.randn(len(on.split.test), 6)
    (one, weights), (other, again) = (
        trained(each, batching=batching) for each in (on, prepared(x, graph))
    )
    assert all(torch.equal(weights[key], again[key]) for key in weights)
    assert (one.train, one.val) == (other.train, other.val)


def test_each_part_is_measured_beside_the_training_nodes():
    on = prepared(graph=KNN)
    split, alone = on.split, make_inductive(on)
    assert len(alone.data.x) == len(split.train) and len(alone.split.train) == len(split.train)
    for part in ("train", "val", "test"):
        data, rows = alone.eval_data[part]
        own = getattr(split, part)
        nodes = split.train if part == "train" else torch.cat([split.train, own])
        assert torch.equal(data.y[rows], on.data.y[own])
        wanted = dataclasses.replace(load_graph("sbm", nodes=200, dim=6).part(nodes)).with_graph(
            KNN
        )
        assert torch.equal(torch.stack(data.graph.edges()), torch.stack(wanted.graph.edges()))
        encoding = pick(ENCODINGS, {"name": "laplacian", "k": 2}, wanted.graph)
        assert torch.equal(data.x, torch.cat([wanted.x, encoding], dim=1))


@pytest.mark.parametrize("graph", ["own", KNN], ids=str)
def test_evaluation_repeats_the_scores_of_training(graph, tmp_path):
    data = {"name": "sbm", "nodes": 200, "dim": 6, "homophily": 0.6}
    recipe = {
        "dataset": data,
        "graph": graph,
        "model": {"name": "gcn", "dim": 8},
        "train": {"epochs": 6, "inductive": True},
        "seeds": [0],
    }
    [seed] = (run := run_recipe(recipe, runs=tmp_path))["seeds"]
    model = load(run["folder"])
    for part in ("train", "val", "test"):
        assert evaluate_part(model, None, part)["score"] == seed[part]
    every = evaluate_part(model, None, "all")
    assert every["nodes"] == 200
    assert every["score"] == pytest.approx(evaluate(model, load_graph(data)))
    folder = Path(run["folder"]) / "seed-0"
    assert read_as_trained(model, folder, data)[1] is None
    assert len(read_as_trained(model, folder, {**data, "seed": 1})[1].y) == 120


def test_a_part_of_a_graph_keeps_its_own_edges():
    data = load_graph("karate")
    nodes = torch.tensor([33, 0, 2, 8])
    part = data.part(nodes)
    there = {tuple(each) for each in torch.stack(data.graph.edges(), 1).tolist()}
    found = {
        tuple(nodes[list(each)].tolist()) for each in torch.stack(part.graph.edges(), 1).tolist()
    }
    assert found == {(a, b) for a, b in there if {a, b} <= set(nodes.tolist())}
    assert torch.equal(part.x, data.x[nodes]) and torch.equal(part.y, data.y[nodes])


def test_a_graph_on_disk_is_trained_and_predicted_in_parts_as_in_memory(tmp_path):
    data = load_graph("sbm", nodes=200, dim=6)
    write_on_disk(from_dataset(data), tmp_path / "twin")
    split, task = make_split("ratio-60-20-20", data.y, None, seed=0), pick(TASKS, data.task)
    found = []
    for each in (data, load_graph(tmp_path / "twin")):
        run, weights = trained(TrainingData(each, split, task))
        model = create_model("difformer", each.inputs, each.classes, dim=8)
        model.load_state_dict(weights)
        found.append(
            (
                run.train,
                run.val,
                run.test,
                run_inference(model, each, features, 50, False, "cpu")[0],
            )
        )
    assert found[0][:3] == found[1][:3]
    assert torch.equal(found[0][3], found[1][3])


def test_what_has_nothing_to_hide_is_said():
    samples = load_data("digits-images")
    split = make_split(samples.split, samples.y, None, seed=0)
    with pytest.raises(ZooError, match="never see each other; leave `inductive` out"):
        make_inductive(TrainingData(samples, split, pick(TASKS, samples.task)))
    with pytest.raises(ZooError, match="leave `evaluate` out"):
        trained(prepared(), evaluate="layerwise")
