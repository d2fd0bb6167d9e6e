"""Readouts in recipes: defaults that are said, measured again, predicted, and carried over."""

import json
from pathlib import Path

import pytest
import torch
from quick import every

QUIET = ("model.dim=8", "model.dropout=0", "train.epochs=3", "--json")


@pytest.fixture
def graphs(tmp_path):
    """Stars and paths of several sizes, 24 in all: the class is seen in their edges alone."""
    made = []
    for number in range(24):
        nodes, star = 5 + number % 4, number % 2
        ends = torch.arange(nodes - 1)
        edges = torch.stack([torch.zeros_like(ends) if star else ends, ends + 1])
        made.append({"edge_index": edges, "x": torch.randn(nodes, 2), "y": torch.tensor(star)})
    torch.save(made, tmp_path / "set.pt")


@pytest.mark.parametrize("readout", every([None, "mean", "set2set", "seeds", "virtual-node"], 2))
def test_a_run_is_measured_and_predicted_as_it_was_trained(readout, graphs, zoo):
    words = [] if readout is None else [f"readout={readout}"]
    code, answer = zoo("train", "graphgps", "dataset=set.pt", "--runs", "runs", *QUIET, *words)
    assert not code, answer.err
    assert ("`readout: sum` by default" in answer.err) == (readout is None)
    assert "`encoding: random_walk`" in answer.err
    summary = json.loads(answer.out)
    assert "seed 0" in answer.err
    [folder] = {summary["folder"]}
    code, again = zoo("evaluate", folder, "--json")
    assert json.loads(again.out)["score"] == pytest.approx(summary["test"]["mean"], abs=1e-6)
    code, _ = zoo("predict", folder, "--data", "set.pt", "--out", "answers.csv")
    assert not code


def test_a_readout_is_of_graphs(graphs, zoo):
    code, answer = zoo("train", "gcn", "dataset=karate", "readout=sum")
    assert code and "a readout makes one for each graph" in " ".join(answer.err.split())
    code, answer = zoo("train", "gcn", "dataset=set.pt", "readout=summ")
    assert code and "choose" in answer.err or "sum" in answer.err


def started(answer):
    """What became of each weight of a fine-tuning, by the folder that it has printed."""
    return json.loads(Path(json.loads(answer.out)["folder"], "start_from.json").read_text())


def test_weights_of_nodes_begin_a_model_of_graphs_and_the_other_way_round(graphs, zoo):
    quiet = ("--runs", "runs", "train.epochs=2", "--json")
    _, nodes = zoo("train", "gcn", "dataset=karate", "model.dim=8", "model.layers=3", *quiet)
    code, answer = zoo("finetune", json.loads(nodes.out)["folder"], "--data", "set.pt", *quiet)
    assert not code, answer.err
    start = started(answer)
    assert "layers.0.convolution.linear.weight" in start["loaded"]
    assert {"stem.convolution.linear.weight", "head_readout.last.weight"} <= {*start["fresh"]}
    code, back = zoo("finetune", json.loads(answer.out)["folder"], "--data", "karate", *quiet)
    assert not code, back.err
    start = started(back)
    assert "layers.0.convolution.linear.weight" in start["loaded"]
    assert "head_readout.last.weight" in start["unused"]
