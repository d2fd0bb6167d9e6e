"""What a trained model says of pairs: scores, the best partners, metrics."""

import pytest
import torch

import zoo
from zoo.data.load import load_data
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.inference.links import best_partners, read_pairs, score_pairs, table_of
from zoo.runs.run import run_recipe

RECIPE = {
    "dataset": "karate",
    "encoding": {"name": "random_walk", "steps": 4},
    "task": {"name": "link-prediction", "dim": 8, "decoder": "concat-mlp"},
    "model": {"name": "gcn", "dim": 8, "layers": 2},
    "train": {"epochs": 5, "lr": 0.01},
    "seeds": [3],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    summary = run_recipe(RECIPE, runs=runs)
    return zoo.load(next(runs.iterdir())), summary


def all_scores(model, data):
    pairs = torch.cartesian_prod(torch.arange(34), torch.arange(34))
    return score_pairs(model, data, pairs).reshape(34, 34)


def test_partners_are_the_best_of_all_pairs(run, monkeypatch):
    model, data = run[0], load_data("karate")
    scores = all_scores(model, data)
    scores.fill_diagonal_(-1)
    pairs, likely = best_partners(model, data, 3, known=True)
    assert torch.equal(pairs[..., 1], scores.topk(3).indices)
    torch.testing.assert_close(likely, scores.topk(3).values)
    scores[data.graph.edges()] = -1
    monkeypatch.setattr("zoo.inference.links.BLOCK", 100)  # some nodes at a time
    pairs, likely = best_partners(model, data, 3)
    assert torch.equal(pairs[..., 1], scores.topk(3).indices)


def test_a_node_has_no_more_partners_than_there_are(run):
    model, data = run[0], load_data("karate")
    pairs, likely = best_partners(model, data, 100)
    assert pairs.shape == (34, 33, 2)
    others = 33 - (data.graph.in_degrees() - 1)
    assert torch.equal((pairs[..., 1] >= 0).sum(1), others.long())
    table = table_of(data, pairs.flatten(0, 1), likely.flatten())
    assert len(table) == int(others.sum()) and [*table.columns] == [
        "source",
        "target",
        "probability",
    ]


def test_pairs_are_read_by_their_ids(tmp_path):
    data = load_data("karate")
    file = tmp_path / "pairs.csv"
    file.write_text("who,with\n0,33\n5, 16\n")
    assert read_pairs(file, data).tolist() == [[0, 33], [5, 16]]
    file.write_text("who,with\n0,34\n")
    with pytest.raises(ZooError, match="has '34', and no node of karate has this id"):
        read_pairs(file, data)
    file.write_text("who\n0\n")
    with pytest.raises(ZooError, match="has 1 column"):
        read_pairs(file, data)


def test_what_is_measured_is_what_training_measured(run):
    model, summary = run
    measured = evaluate_part(model, None, None)
    assert measured["score"] == pytest.approx(summary["test"]["mean"])
    assert measured["unit"] == "links" and measured["nodes"] == 9
    assert evaluate_part(model, None, "train")["seen"]


def test_a_model_of_nodes_scores_no_pairs():
    model = zoo.create_model("gcn", 34, 3)
    with pytest.raises(ZooError, match="of another task, and say nothing of pairs"):
        score_pairs(model, load_data("karate"), torch.tensor([[0, 1]]))
