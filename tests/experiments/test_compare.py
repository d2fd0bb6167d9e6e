"""Comparisons: who is in them, what is read instead of trained, what the table says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zoo.errors import ZooError
from zoo.experiments import compare as comparing
from zoo.experiments.compare import (
    BASELINES,
    Contestant,
    compare,
    contestants,
    finished,
    train_apart,
)
from zoo.experiments.resolve import load_recipe, resolve, write_out
from zoo.experiments.run import run_recipe
from zoo.training.checksums import sealed_json

TINY = """\
# A small recipe.
dataset: {name: sbm, nodes: 60, classes: 3, split: ratio-50-25-25}
model: {name: sgformer, dim: 4}
train: {epochs: 2}
seeds: [3, 4]
"""


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture
def trained(monkeypatch):
    """Train in this process instead of another one, and count what is trained."""
    names = []

    def train(plan, device, runs):
        names.append(plan.recipe.name)
        return run_recipe(plan, device=device, runs=runs)

    monkeypatch.setattr(comparing, "train_apart", train)
    return names


def names(entries):
    return [each.plan.recipe.name for each in entries]


def test_the_baselines_are_always_there(tiny):
    entries = contestants([str(tiny)])
    assert names(entries) == ["tiny", "gcn-sbm", "mlp-sbm"]
    data = [each.plan.plain() for each in entries]
    assert all(each["dataset"] == data[0]["dataset"] for each in data)
    assert all(each["seeds"] == [3, 4] for each in data)
    assert [each.tuned for each in entries] == [True, False, False]


def test_a_baseline_is_the_tuned_recipe_on_the_same_nodes():
    entries = contestants(["sgformer-cora"], ["dataset.split=per-class-20", "seeds=[7]"])
    assert names(entries) == ["sgformer-cora", "gcn-cora", "mlp-cora"]
    gcn, tuned = entries[1].plan.plain(), write_out(load_recipe("gcn-cora"))
    assert gcn["dataset"]["split"] == "per-class-20" and gcn["seeds"] == [7]
    assert gcn["model"] == tuned["model"] and gcn["train"] == tuned["train"]


def test_a_baseline_that_is_named_is_not_added_again():
    assert names(contestants(["gcn-cora", "mlp-cora"])) == ["gcn-cora", "mlp-cora"]


def test_a_data_set_brings_every_model_with_a_recipe_for_it():
    found = names(contestants([], dataset="cora"))
    assert {"sgformer-cora", "nodeformer-cora", "difformer-cora", "gcn-cora"} <= set(found)
    assert not [each for each in found if each.endswith("-rba")]


def test_a_data_set_without_recipes_brings_every_model_with_its_defaults():
    entries = contestants([], dataset="sbm")
    assert {"sgformer-sbm", "polynormer-sbm", "gcn-sbm"} <= set(names(entries))
    assert not any(each.tuned for each in entries)


def test_one_row_for_each_attention(tiny):
    entries = contestants([str(tiny)], attentions=["native", "{name: rba, size: 16}"])
    assert names(entries) == ["tiny-native", "tiny-rba-16", "gcn-sbm", "mlp-sbm"]
    chosen = [each.plan.model.get("attention") for each in entries]
    assert chosen[0] == "native" and chosen[1]["size"] == 16 and chosen[2:] == [None, None]
    with pytest.raises(ZooError, match="did you mean 'rba'"):
        contestants([str(tiny)], attentions=["rbaa"])


def test_what_cannot_be_compared():
    with pytest.raises(ZooError, match="nothing to compare"):
        contestants([])
    with pytest.raises(ZooError, match="compare recipes of one data set"):
        contestants(["gcn-cora", "gcn-citeseer"])
    with pytest.raises(ZooError, match="no dataset is called 'coar'; did you mean 'cora'"):
        contestants([], dataset="coar")


def test_finished_runs_are_read_and_not_repeated(tiny, trained, tmp_path):
    runs = tmp_path / "runs"
    first = compare(contestants([str(tiny)]), device="cpu", runs=runs)
    assert sorted(trained) == ["gcn-sbm", "mlp-sbm", "tiny"]
    trained.clear()
    again = compare(contestants([str(tiny)]), device="cpu", runs=runs)
    assert not trained and all(each["read"] for each in again)
    assert [each["test"] for each in again] == [each["test"] for each in first]
    compare(contestants([str(tiny)], ["train.lr=0.5"]), device="cpu", runs=runs)
    assert trained == ["tiny"]
    compare(contestants([str(tiny)]), device="cpu", runs=runs, again=True)
    assert len(trained) == 4


def test_a_folder_of_a_run_is_read(tiny, trained, tmp_path):
    summary = run_recipe(str(tiny), device="cpu", runs=tmp_path / "elsewhere")
    entries = contestants([summary["folder"]])
    rows = compare(entries, device="cpu", runs=tmp_path / "runs")
    assert sorted(trained) == ["gcn-sbm", "mlp-sbm"]
    row = next(each for each in rows if each["recipe"] == "tiny")
    assert row["test"] == summary["test"] and row["same_splits"]


def test_an_interrupted_run_is_not_finished(tiny, tmp_path):
    plan, summary = resolve(load_recipe(tiny)), run_recipe(str(tiny), runs=tmp_path)
    assert finished(plan, tmp_path) == summary
    path = Path(summary["folder"], "summary.json")
    path.write_text(sealed_json({**summary, "interrupted": True}))
    assert finished(plan, tmp_path) is None


def test_a_damaged_run_is_not_finished(tiny, tmp_path):
    summary = run_recipe(str(tiny), runs=tmp_path)
    path = Path(summary["folder"], "summary.json")
    path.write_text(path.read_text().replace('"mean": 0.', '"mean": 0.9'))
    assert finished(resolve(load_recipe(tiny)), tmp_path) is None
    with pytest.raises(ZooError, match="summary.json is damaged .its checksum.*--resume"):
        contestants([summary["folder"]])


def test_what_a_recipe_should_reach_is_no_part_of_the_training(tiny, tmp_path):
    summary = run_recipe(str(tiny), device="cpu", runs=tmp_path)
    tiny.write_text(TINY + "expect: {test: 0.5, within: 0.1, source: a test}\n")
    assert finished(resolve(load_recipe(tiny)), tmp_path)["test"] == summary["test"]


def test_the_best_comes_first_and_other_nodes_are_told(tiny):
    def summary(name, score, hashes):
        return Contestant(
            resolve(load_recipe(tiny)),
            {
                "recipe": name,
                "metric": "accuracy",
                "test": {"mean": score},
                "seeds": [{"split_sha256": each} for each in hashes],
            },
        )

    rows = compare([summary("a", 0.5, "xy"), summary("b", 0.9, "xy"), summary("c", 0.7, "xz")])
    assert [each["recipe"] for each in rows] == ["b", "c", "a"]
    assert [each["same_splits"] for each in rows] == [True, False, True]


def test_each_run_has_a_process_of_its_own(tiny, tmp_path):
    summary = train_apart(resolve(load_recipe(tiny)), "cpu", tmp_path / "runs")
    assert summary["recipe"] == "tiny" and summary["test"]["runs"] == 2
    assert finished(resolve(load_recipe(tiny)), tmp_path / "runs")["test"] == summary["test"]


@pytest.mark.parametrize("code,error", [(130, KeyboardInterrupt), (-9, ZooError), (2, ZooError)])
def test_a_run_that_does_not_finish(tiny, monkeypatch, tmp_path, code, error):
    done = subprocess.CompletedProcess([], code, "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(error):
        train_apart(resolve(load_recipe(tiny)), "cpu", tmp_path)


def test_the_command_prints_one_table(tiny, tmp_path):
    def call(*words):
        line = [sys.executable, "-m", "zoo", "compare", str(tiny), "--runs", str(tmp_path), *words]
        return subprocess.run(line, capture_output=True, text=True, check=True)

    rows = json.loads(call("--json").stdout)
    assert {each["recipe"] for each in rows} == {"tiny", *(f"{each}-sbm" for each in BASELINES)}
    table = call().stdout
    for word in ("accuracy on sbm", "tiny", "gcn-sbm", "mlp-sbm", "ms/epoch", "not tuned"):
        assert word in table
