"""A recipe is resolved once and its graph read once, whatever the command does with both."""

import functools
from collections import Counter

import numpy as np
import pytest

from zoo.data.load import READERS
from zoo.runs import resolve

TRAIN = ("train.epochs=7", "seeds=[0, 1]")
EXPECT = "expect={test: 0.0, within: 0.1, source: a test}"


@pytest.fixture
def counts(tmp_path, monkeypatch):
    """Write a graph of CSV files, and count how often it is read and a recipe resolved."""
    folder = tmp_path / "mine"
    folder.mkdir()
    rng = np.random.default_rng(0)
    nodes = [f"{i},{rng.normal():.3f},{'ab'[i % 2]}" for i in range(40)]
    edges = [f"{i},{j}" for i, j in rng.integers(0, 40, (80, 2))]
    (folder / "nodes.csv").write_text("\n".join(["id,age,label", *nodes]) + "\n")
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    found = Counter()

    def counted(name, function):
        @functools.wraps(function)
        def call(*arguments, **options):
            found[name] += 1
            return function(*arguments, **options)

        return call

    monkeypatch.setitem(READERS, "folder", counted("read", READERS["folder"]))
    resolved = counted("resolved", resolve.resolved_dataset)
    monkeypatch.setattr(resolve, "resolved_dataset", resolved)
    return found


@pytest.mark.parametrize(
    "words",
    [
        ("train", "gcn-cora", "dataset=mine", *TRAIN),
        ("train", "gcn-cora", "dataset=mine", *TRAIN, "--profile"),
        ("train", "gcn-cora", "dataset={name: mine, split: ratio-50-25-25}", *TRAIN),
        ("reproduce", "gcn-cora", "dataset=mine", *TRAIN, EXPECT),
        pytest.param(
            ("estimate", "gcn-cora", "dataset=mine", *TRAIN),
            marks=pytest.mark.slow,
        ),
        ("show", "gcn-cora", "dataset=mine"),
        ("finetune", "gcn-digits", "--data", "mine", *TRAIN),
    ],
    ids=lambda words: " ".join(words[:1] + words[-1:]),
)
def test_a_graph_of_ones_own_is_read_once(words, command, counts):
    code, _, said = command(*words)
    assert code == 0, said
    assert counts == {"read": 1, "resolved": 1}


def test_a_split_that_is_named_is_shown_without_reading(command, counts):
    code, out, _ = command("show", "gcn-cora", "dataset={name: mine, split: ratio-50-25-25}")
    assert code == 0 and "split: ratio-50-25-25" in out
    assert counts == {"resolved": 1}


def test_what_is_compared_is_read_once_before_it_is_trained(command, counts, monkeypatch):
    def trained(plan, device, runs, quiet):
        assert plan.split == "ratio-60-20-20"
        score = {"mean": 0.5, "std": None, "runs": 1}
        cost = {"parameters": 1, "seconds_per_epoch": 1.0, "peak_memory_bytes": 1}
        return {"recipe": plan.recipe.name, "dataset": "mine", "metric": "accuracy", "test": score,
                "seeds": [{"seed": 0, "epoch": 0, "epochs": 1, "test": 0.5, "split_sha256": "x"}],
                "interrupted": False, "folder": "runs", **cost}  # fmt: skip

    monkeypatch.setattr("zoo.runs.compare.train_apart", trained)
    recipes = ("sgformer-cora", "gcn-cora", "mlp-cora", "gat-cora")
    code, _, said = command("compare", *recipes, "dataset=mine", *TRAIN)
    assert code == 0, said
    assert counts == {"read": 1, "resolved": 4}


def test_weights_are_measured_on_a_graph_that_is_read_once(command, counts, tmp_path):
    assert command("train", "gcn-cora", "dataset=mine", *TRAIN)[0] == 0
    [run] = (tmp_path / "runs").iterdir()
    for words in ((), ("--data", "mine")):
        counts.clear()
        assert command("evaluate", run, *words)[0] == 0
        assert counts == {"read": 1}
