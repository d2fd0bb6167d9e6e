"""Comparisons: who is in them, what is read instead of trained, what the table says."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from preloaded import run_preloaded
from scipy.stats import ttest_rel

from zoo.cli import common
from zoo.cli.common import graceful_shutdown
from zoo.errors import ZooError
from zoo.runs import compare as comparing
from zoo.runs import earlier_runs
from zoo.runs.compare import (
    BASELINES,
    BUDGET,
    SHARED,
    Candidate,
    candidates,
    compare,
    mark_notes,
    other_notes,
)
from zoo.runs.earlier_runs import find_finished, train_apart
from zoo.runs.resolve import load_recipe, resolve, write_out
from zoo.runs.run import run_recipe

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


@pytest.fixture(autouse=True)
def many_labels(monkeypatch):
    """Take no number of labels for few: what is added there is the subject of a test of its own."""
    monkeypatch.setattr(comparing, "FEW", 0)


@pytest.fixture
def trained(monkeypatch):
    """Train in this process instead of another one, and count what is trained."""
    names = []

    def train(plan, device, runs, quiet):
        names.append(plan.recipe.name)
        return run_recipe(plan, device=device, runs=runs)

    monkeypatch.setattr(comparing, "train_apart", train)
    return names


def names(entries):
    return [each.plan.recipe.name for each in entries]


def test_the_baselines_are_always_there(tiny):
    entries = candidates([str(tiny)])
    assert names(entries) == ["tiny", "gcn-sbm", "mlp-sbm"]
    data = [each.plan.plain() for each in entries]
    assert all(each["dataset"] == data[0]["dataset"] for each in data)
    assert all(each["seeds"] == [3, 4] for each in data)
    assert [each.tuned for each in entries] == [True, False, False]


def test_baselines_of_sets_of_graphs_are_none_that_dropout_ruins(tmp_path):
    path = tmp_path / "set.yaml"
    for readout, theirs in {"max": "sum", "attention": "attention"}.items():
        path.write_text(f"model: gine\ndataset: mutag\nreadout: {readout}\n")
        first, *added = candidates([str(path)])
        assert first.plan.readout["name"] == readout
        assert [each.plan.readout["name"] for each in added] == [theirs] * 2


def test_of_few_labels_what_needs_no_training_is_there(tiny, monkeypatch, trained, tmp_path):
    """Beside the others, with the splits and seeds of the first; not where labels are many."""
    monkeypatch.setattr(comparing, "FEW", 20)
    few = ["dataset.split={name: per-class, train: 5, val: 10, test: 20}"]
    entries = candidates([str(tiny)], few)
    added = ["ridge-sbm", "label-propagation-sbm", "graphany-sbm"]
    assert names(entries) == ["tiny", "gcn-sbm", "mlp-sbm", *added]
    rows = compare(entries, runs=tmp_path)
    assert {row["recipe"] for row in rows} == set(names(entries))
    assert all(row["same_splits"] for row in rows)
    for many in ("per-class-50", "ratio-50-25-25"):
        entries = candidates([str(tiny)], [f"dataset.split={many}", "dataset.nodes=3000"])
        assert names(entries) == ["tiny", "gcn-sbm", "mlp-sbm"]
    entries = candidates([str(tiny)], ["dataset.split={name: ratio, train: 10, val: 10, test: 80}"])
    assert names(entries)[3:] == added
    assert names(candidates([str(tiny)], few, baselines=False)) == ["tiny"]
    folder = next(row["folder"] for row in rows if row["recipe"] == "tiny")
    assert names(candidates([folder])) == [
        "tiny-sbm",
        "gcn-sbm",
        "mlp-sbm",
    ]  # nothing else is trained


def test_baselines_of_a_file_are_named_without_its_kind(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text("x,label\n" + "".join(f"{each},{'ab'[each % 2]}\n" for each in range(20)))
    entries = candidates(["mlp-cora"], [f"dataset={path}"])
    assert names(entries) == ["mlp-cora", "gcn-sales", "boosting-sales"]


def test_a_baseline_has_the_budget_of_the_first_and_its_own_defaults():
    entries = candidates(["sgformer-cora", "gat-cora"], ["dataset.split=per-class-20"])
    assert names(entries) == ["sgformer-cora", "gat-cora", "gcn-cora-default", "mlp-cora-default"]
    first, second, *added = (each.plan for each in entries)
    assert (first.train["epochs"], first.train["patience"]) == (500, 200)
    assert second.train["patience"] is None
    for plan in added:
        assert {key: plan.train[key] for key in BUDGET} == {key: first.train[key] for key in BUDGET}
        assert plan.model == resolve(load_recipe({"dataset": "cora", "model": word_of(plan)})).model
        assert plan.train["lr"] == 0.01 != first.train["lr"]
        assert (plan.split, plan.recipe.seeds) == ("per-class-20", first.recipe.seeds)
    assert [each.tuned for each in entries] == [True, True, False, False]


def word_of(plan):
    return plan.model["name"]


def test_a_baseline_is_the_tuned_recipe_where_that_is_asked_for(real_graph):
    real_graph("cora")
    changes = ["dataset.split=per-class-20", "seeds=[7]"]
    entries = candidates(["sgformer-cora"], changes, tuned=True)
    assert names(entries) == ["sgformer-cora", "gcn-cora", "mlp-cora"]
    gcn, tuned = entries[1].plan.plain(), write_out(load_recipe("gcn-cora"))
    assert gcn["dataset"]["split"] == "per-class-20" and gcn["seeds"] == [7]
    assert gcn["model"] == tuned["model"] and gcn["train"] == tuned["train"]
    assert entries[1].tuned and tuned["train"]["patience"] is None
    shorter = candidates(["sgformer-cora"], ["train.epochs=50"], tuned=True)[1].plan
    assert shorter.train == {**tuned["train"], "epochs": 50}
    # Its features are its own as well: a row of the shipped name has the shipped score.
    for changes, features in ([], "raw"), (["dataset.features=row"], "row"):
        plans = [each.plan for each in candidates(["sgformer-chameleon"], changes, tuned=True)]
        assert [each.dataset["features"] for each in plans[:2]] == ["row", features]
    # Where none is shipped there is nothing to take.
    assert names(candidates(["sgformer-sbm-rba"], tuned=True))[1:] == ["gcn-sbm", "mlp-sbm"]


def test_overrides_reach_the_added_baselines(tiny):
    changes = ["train.epochs=7", "train.lr=0.5", "train.patience=3", "model.dim=5", "model.alpha=1",
               "encoding={name: laplacian, k: 2}", "seeds=[5]", "dataset.nodes=66",
               "graph={name: knn, k: 3}"]  # fmt: skip
    entries = candidates([str(tiny)], changes)
    assert len(entries) == 3
    for plan in (each.plan for each in entries):
        got = [plan.train[key] for key in ("epochs", "lr", "patience")]
        assert got == [7, 0.5, 3] and plan.model["dim"] == 5 and plan.encoding["k"] == 2
        assert plan.recipe.seeds == [5] and plan.dataset["nodes"] == 66 and plan.graph["k"] == 3
    assert entries[0].plan.model["alpha"] == 1
    # An override of the model itself is one of the recipes.
    changed = candidates([str(tiny)], ["model=nodeformer"])
    assert [word_of(each.plan) for each in changed] == ["nodeformer", "gcn", "mlp"]
    renamed = candidates([str(tiny)], ["model.name=nodeformer", "model.dim=6"])
    assert [word_of(each.plan) for each in renamed] == ["nodeformer", "gcn", "mlp"]


def test_a_baseline_takes_the_steps_the_evaluation_and_the_edges_of_the_first(tiny):
    batches = {"name": "random-nodes", "size": 20, "per_step": 1}
    changes = [
        f"train.batching={json.dumps(batches)}",
        "train.evaluate=batches",
        "train.evaluate_every=2",
        "train.inductive=true",
        "train.precision=bf16",
    ]
    path = tiny.with_name("changed.yaml")
    path.write_text(load_recipe(tiny, [*changes, "graph={name: knn, k: 3}"]).text())
    without = tiny.with_name("without.yaml")
    without.write_text(load_recipe(path, ["graph=none"]).text())
    for sources in ([str(path)], [str(without), str(path)]):
        for plan in (each.plan for each in candidates(sources)[len(sources) :]):
            shared = [plan.train[key] for key in SHARED]
            assert shared == [2, None, batches, 2, 0, "batches", True, "bf16"]
            assert plan.graph["name"] == "knn" and plan.train["lr"] == 0.01


def test_a_baseline_that_is_named_is_not_added_again():
    assert names(candidates(["gcn-cora", "mlp-cora"])) == ["gcn-cora", "mlp-cora"]


def test_a_data_set_brings_every_model_with_a_recipe_for_it(real_graph):
    real_graph("cora")
    found = names(candidates([], datasets=["cora"]))
    assert {"sgformer-cora", "nodeformer-cora", "difformer-cora", "gcn-cora"} <= set(found)
    assert not [each for each in found if each.endswith("-rba")]


def test_a_data_set_without_recipes_brings_every_model_with_its_defaults():
    entries = candidates([], datasets=["sbm"])
    assert {"sgformer-sbm", "polynormer-sbm", "gcn-sbm"} <= set(names(entries))
    assert not any(each.tuned for each in entries)


def test_one_row_for_each_attention(tiny):
    entries = candidates([str(tiny)], attentions=["native", "{name: rba, size: 16}"])
    assert names(entries) == ["tiny-native", "tiny-rba-16", "gcn-sbm", "mlp-sbm"]
    chosen = [each.plan.model.get("attention") for each in entries]
    assert chosen[0] == "native" and chosen[1]["size"] == 16 and chosen[2:] == [None, None]
    with pytest.raises(ZooError, match="did you mean 'rba'"):
        candidates([str(tiny)], attentions=["rbaa"])
    with pytest.raises(ZooError, match="none of these models has an attention to choose"):
        candidates(["gcn-cora"], attentions=["rbaa"])


def test_what_cannot_be_compared():
    with pytest.raises(ZooError, match="nothing to compare"):
        candidates([])
    with pytest.raises(ZooError, match="no dataset is called 'coar'; did you mean 'cora'"):
        candidates([], datasets=["coar"])


def test_finished_runs_are_read_and_not_repeated(tiny, trained, tmp_path):
    runs = tmp_path / "runs"
    first = compare(candidates([str(tiny)]), device="cpu", runs=runs)
    assert sorted(trained) == ["gcn-sbm", "mlp-sbm", "tiny"]
    trained.clear()
    again = compare(candidates([str(tiny)]), device="cpu", runs=runs)
    assert not trained and all(each["read"] for each in again)
    assert [each["test"] for each in again] == [each["test"] for each in first]
    compare(candidates([str(tiny)], ["model.alpha=0.3"]), device="cpu", runs=runs)
    assert trained == ["tiny"]
    compare(candidates([str(tiny)]), device="cpu", runs=runs, again=True)
    assert len(trained) == 4


def graphs(entries):
    return [*dict.fromkeys(each.graph for each in entries)]


def test_what_is_asked_otherwise_is_another_column(tiny, tmp_path):
    """Baselines are added in each, with the data and the budget of the first there."""
    path = tmp_path / "sales.csv"
    path.write_text("x,label\n" + "".join(f"{each},{each % 2}\n" for each in range(20)))
    recipe = f"model: mlp\ndataset: {{name: {path}%s}}\n"
    for name, task in (("a", ", task: node-binary"), ("b", ", task: node-regression")):
        (tmp_path / f"{name}.yaml").write_text(recipe % task)
    entries = candidates([str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml"), "mlp-cora"])
    asked = ["sales, task node-binary", "sales, task node-regression", "cora"]
    assert graphs(entries) == asked
    added = ["gcn-sales", "boosting-sales"]
    assert names(entries) == ["a", *added, "b", *added, "mlp-cora", "gcn-cora-default"]
    assert entries[4].plan.dataset["task"] == "node-regression"
    tiny.with_name("other.yaml").write_text(TINY.replace("nodes", "homophily: 0.5, nodes"))
    drawn = candidates([str(tiny), str(tiny.with_name("other.yaml"))], baselines=False)
    assert graphs(drawn) == ["sbm, homophily 0.8", "sbm, homophily 0.5"]


def test_a_run_of_data_that_have_changed_since_is_none_of_this_training(trained, tmp_path):
    def entries(odd):
        path, rows = tmp_path / "sales.csv", range(20)
        path.write_text("x,label\n" + "".join(f"{each},{'ab'[each % odd]}\n" for each in rows))
        return candidates(["mlp-cora"], [f"dataset={path}", "train.epochs=1", "seeds=[0]"])[:1]

    for odd, anew in ((2, True), (2, False), (1, True)):
        trained.clear()
        compare(entries(odd), device="cpu", runs=tmp_path / "runs")
        assert bool(trained) == anew


def test_runs_of_data_that_have_changed_in_between_are_not_set_against_each_other(tmp_path):
    path, rows = tmp_path / "sales.csv", range(20)
    recipe = {"dataset": str(path), "train": {"epochs": 1}, "seeds": [0]}
    folders = []
    for model, odd in (("gcn", 2), ("mlp", 1)):
        path.write_text(
            "x,label\n" + "".join(f"{each},{'ab'[each % 2 * odd % 2]}\n" for each in rows)
        )
        found = run_recipe({**recipe, "model": model}, runs=tmp_path / model)
        folders.append(found["folder"])
    with pytest.raises(ZooError, match=r"^sales.csv of .*gcn.* is not that of .*mlp"):
        candidates(folders)
    with pytest.raises(ZooError, match=r"^sales.csv of .*gcn.* is not that of mlp-sales"):
        candidates(folders[:1])  # of the baseline, which would learn from the file of now
    assert names(candidates(folders[1:], baselines=False)) == ["recipe-sales"]


def test_a_run_that_was_ended_goes_on(tiny, trained, tmp_path):
    def end(seed, epoch):
        if seed == 4:
            raise KeyboardInterrupt

    ended = run_recipe(tiny, runs=tmp_path, watch=end)
    assert ended["interrupted"]
    [row] = compare(candidates([str(tiny)], baselines=False), runs=tmp_path, quiet=True)
    assert not trained and row["folder"] == ended["folder"] and row["test"]["runs"] == 2
    assert row["test"] == run_recipe(tiny, runs=tmp_path / "whole")["test"]


def test_what_was_interrupted_is_not_called_finished(tiny, tmp_path):
    def end(seed, epoch):
        raise KeyboardInterrupt

    ended = run_recipe(tiny, runs=tmp_path, watch=end)
    [row] = compare(candidates([ended["folder"]], baselines=False), runs=tmp_path)
    notes = list(other_notes([row]))
    assert [note for note in notes if "finished" in note.lower()] == []
    assert any(note.startswith("Interrupted, not all seeds") for note in notes)


def test_a_run_that_was_moved_is_called_as_it_is_now(tiny, tmp_path):
    folder = Path(run_recipe(tiny, runs=tmp_path)["folder"])
    moved = folder.rename(folder.with_name("first"))
    other = shutil.copytree(moved, moved.with_name("second"))
    rows = compare(candidates([str(moved), str(other)], baselines=False), runs=tmp_path)
    assert sorted(each["recipe"] for each in rows) == ["first", "second"]


def test_rows_that_are_the_very_same_are_named(tiny, trained, tmp_path):
    """Batches of all nodes are the attention itself; smaller ones are not."""
    attentions = ["native", "{name: rba, size: 60}", "{name: rba, size: 8}"]
    entries = candidates([str(tiny)], ["train.precision=fp32"], (), attentions, baselines=False)
    told = [note for note in other_notes(compare(entries, runs=tmp_path)) if "very same" in note]
    assert len(told) == 1 and {"tiny-native", "tiny-rba-60"} == {
        *re.findall(r"tiny[-\w]+", told[0])
    }


def test_a_run_that_is_named_twice_is_one_row(tiny, tmp_path):
    folder, told = os.path.relpath(run_recipe(tiny, runs=tmp_path)["folder"]), []
    entries = candidates([folder, str(tiny)], baselines=False)
    [row] = compare(entries, runs=tmp_path, tell=told.append)
    assert row["recipe"] == "tiny" and told == ["tiny is named twice and compared once."]


def test_what_is_named_twice_is_compared_once(real_graph):
    real_graph("chameleon")
    entries = candidates(["mlp-chameleon"], datasets=["chameleon"])
    assert len({*names(entries)}) == len(entries) > 2 and names(entries)[0] == "mlp-chameleon"
    alike = ["native", "native", "rba"]
    entries = candidates(["sgformer-digits-rba"], attentions=alike, baselines=False)
    assert len(entries) == 2


def test_a_folder_of_a_run_is_read(tiny, trained, tmp_path):
    summary = run_recipe(str(tiny), device="cpu", runs=tmp_path / "elsewhere")
    entries = candidates([summary["folder"]])
    rows = compare(entries, device="cpu", runs=tmp_path / "runs")
    assert sorted(trained) == ["gcn-sbm", "mlp-sbm"]
    row = next(each for each in rows if each["recipe"] == "tiny")
    assert row["test"] == summary["test"] and row["same_splits"]


def test_a_model_beside_a_run_is_trained_on_the_data_of_the_run(tiny, trained, tmp_path):
    """It was refused for want of a data set; a recipe has one of its own."""
    run, said = run_recipe(load_recipe(tiny), runs=tmp_path)["folder"], []
    entries = candidates([run, "gat"], ["model.dim=4"], baselines=False, tell=said.append)
    rows = compare(entries, runs=tmp_path)
    assert trained == ["gat-sbm"] and all(row["same_splits"] for row in rows)
    assert all(row["same_budget"] and row["difference"] or row is rows[0] for row in rows)
    assert [f"gat is trained on the data of {run}, with its splits" in text for text in said] == [
        True
    ]
    other = candidates([run, "gat"], ["dataset=karate"], baselines=False)
    assert [each.plan.dataset["name"] for each in other] == ["sbm", "karate"]


def test_changes_of_finished_runs_are_refused_and_told_where_they_reach_others(tiny, tmp_path):
    folder = run_recipe(str(tiny), device="cpu", runs=tmp_path / "elsewhere")["folder"]
    with pytest.raises(ZooError, match=r"finished runs are as they are; leave train.lr=1 out"):
        candidates([folder], ["train.lr=1"])
    with pytest.raises(ZooError, match="finished runs keep their attention; leave --attention"):
        candidates([folder], attentions=["rba"])
    entries = candidates([folder, str(tiny)], ["train.lr=0.1"])
    assert [each.unreached for each in entries] == [("train.lr=0.1",), (), (), ()]
    assert [each.changes for each in entries] == [(), (), ("train.lr=0.1",), ("train.lr=0.1",)]
    assert [each.added for each in entries] == [False, False, True, True]
    several = candidates([folder, str(tiny)], attentions=["rba", "native"])
    assert len(several) == 5  # the run as it is, the recipe twice


def test_a_run_of_other_code_is_told(tiny, tmp_path, monkeypatch):
    folder = run_recipe(str(tiny), device="cpu", runs=tmp_path)["folder"]
    assert candidates([folder], baselines=False)[0].same_code
    monkeypatch.setattr(earlier_runs, "code_sha256", lambda: "other")
    assert not candidates([folder], baselines=False)[0].same_code


def test_a_row_from_weights_that_have_seen_its_nodes_says_so(tiny, trained, tmp_path):
    weights = Path(run_recipe(str(tiny), runs=tmp_path / "first")["folder"], "seed-3")
    more = tmp_path / "more.yaml"
    for seed in (3, 4):  # the split of 3 is that of the weights
        start = f"start_from: {{weights: {weights}}}\n"
        more.write_text(TINY.replace("seeds: [3, 4]", f"seeds: [{seed}]") + start)
        entries = candidates([str(more)])[:1]
        row = compare(entries, runs=tmp_path / "runs")[0]
        assert row["starts_from"] == str(weights)
        assert row["seen"] == 0 if seed == 3 else row["seen"] > 0
        resumed = compare(entries, runs=tmp_path / "runs")[0]  # which is read
        assert resumed["read"] and resumed["seen"] == row["seen"]


def test_what_can_be_done_about_a_run_that_fails_is_said(tiny, monkeypatch, tmp_path):
    def train(plan, device, runs, quiet):
        if plan.recipe.name == bad:
            raise earlier_runs.NotFinished(f"{bad} failed (exit code 2).")
        return run_recipe(plan, device=device, runs=runs)

    monkeypatch.setattr(comparing, "train_apart", train)
    bad = "tiny"
    with pytest.raises(ZooError) as raised:
        compare(candidates([str(tiny)], baselines=False), runs=tmp_path / "none")
    assert str(raised.value) == "tiny failed (exit code 2). Change it."
    bad = "second"
    second = tmp_path / f"{bad}.yaml"
    second.write_text(TINY)
    with pytest.raises(ZooError, match="or leave it out. What was finished before is in"):
        compare(candidates([str(tiny), str(second)]), runs=tmp_path / "runs")


def test_a_baseline_that_fails_is_left_out_of_the_table_and_said(tiny, monkeypatch, tmp_path):
    def train(plan, device, runs, quiet):
        if plan.model["name"] == "gcn":
            raise earlier_runs.NotFinished("gcn-sbm was killed.")
        return run_recipe(plan, device=device, runs=runs)

    monkeypatch.setattr(comparing, "train_apart", train)
    told = []
    rows = compare(candidates([str(tiny)]), runs=tmp_path, tell=told.append)
    assert sorted(each["recipe"] for each in rows) == ["mlp-sbm", "tiny"]
    assert told[-1] == (
        "gcn-sbm was killed. The others are compared without it. Name a recipe or a run of gcn in "
        "its place."
    )


def test_an_interrupted_run_is_not_finished(tiny, tmp_path):
    plan, summary = resolve(load_recipe(tiny)), run_recipe(str(tiny), runs=tmp_path)
    assert find_finished(plan, tmp_path) == summary
    path = Path(summary["folder"], "summary.json")
    path.write_text(json.dumps({**summary, "interrupted": True}))
    assert find_finished(plan, tmp_path) is None


def test_a_run_of_a_longer_name_is_read_under_the_name_that_was_asked_for(tiny, tmp_path):
    longer = tiny.rename(tiny.with_name("tiny-default.yaml"))
    summary = run_recipe(str(longer), runs=tmp_path)
    plan = resolve(load_recipe(longer.rename(tiny)))
    assert find_finished(plan, tmp_path) == {**summary, "recipe": "tiny"}


def test_a_run_is_called_by_its_data_set_and_found_as_it_was_called_before(tiny, tmp_path):
    folder = Path(run_recipe(tiny, runs=tmp_path)["folder"])
    assert re.fullmatch(r"tiny-sbm-\d{8}-\d{6}", folder.name)
    plan = resolve(load_recipe(tiny))
    assert find_finished(plan, tmp_path)["folder"] == str(folder)
    before = folder.rename(tmp_path / folder.name.replace("-sbm", ""))
    assert find_finished(plan, tmp_path)["folder"] == str(before)


def test_what_a_recipe_should_reach_is_no_part_of_the_training(tiny, tmp_path):
    summary = run_recipe(str(tiny), device="cpu", runs=tmp_path)
    tiny.write_text(TINY + "expect: {test: 0.5, within: 0.1, source: a test}\n")
    assert find_finished(resolve(load_recipe(tiny)), tmp_path)["test"] == summary["test"]


@pytest.fixture
def row(tiny):
    """Make a finished entry: test scores by seed, a split by seed, and changes of its recipe."""

    def make(name, scores, splits="xxxx", changes=(), metric="accuracy", epochs=(2, 4)):
        seeds = [
            {"seed": seed, "test": score, "split_sha256": split, "epochs": epochs[seed % 2],
             "epoch": epochs[seed % 2] - 2}
            for seed, (score, split) in enumerate(zip(scores, splits, strict=False))
        ]  # fmt: skip
        mean = {"mean": sum(scores) / len(scores), "std": None, "runs": len(scores)}
        summary = {"recipe": name, "metric": metric, "test": mean, "seeds": seeds, "folder": name}
        summary["interrupted"] = False
        return Candidate(resolve(load_recipe(tiny, changes)), summary)

    return make


def by_name(rows):
    return {each["recipe"]: each for each in rows}


def test_the_best_comes_first_and_other_nodes_are_told(row):
    rows = compare([row("a", [0.5, 0.5], "xy"), row("b", [0.9, 0.9], "xy"), row("c", [0.7] * 2)])
    assert [each["recipe"] for each in rows] == ["b", "c", "a"]
    assert [each["same_splits"] for each in rows] == [True, False, True]
    assert [each["difference"] is None for each in rows] == [True, True, False]


def test_differences_are_those_of_the_paired_t_test(row):
    best, other, far = [0.81, 0.84, 0.79, 0.86], [0.80, 0.85, 0.75, 0.84], [0.5, 0.52, 0.51, 0.5]
    rows = by_name(compare([row("far", far), row("other", other), row("best", best)]))
    assert rows["best"]["difference"] is None
    for name, scores in (("other", other), ("far", far)):
        found, test = rows[name]["difference"], ttest_rel(scores, best)
        low, high = test.confidence_interval(0.95)
        assert (found["low"], found["high"]) == pytest.approx((low, high))
        assert found["mean"] == pytest.approx((low + high) / 2)
        assert found["noise"] == (low <= 0 <= high) == bool(test.pvalue >= 0.05)
        assert (found["from"], found["pairs"], found["splits"]) == ("best", 4, 1)
    assert rows["other"]["difference"]["noise"] and not rows["far"]["difference"]["noise"]


def test_pairs_have_one_seed_and_one_split(row):
    best, same = row("best", [0.9, 0.8, 0.8], "xyz"), row("same", [0.8, 0.9, 0.6], "xyz")
    same.summary["seeds"].reverse()  # in which order they were trained is no matter
    fewer, other = row("fewer", [0.1, 0.2], "xy"), row("other", [0.1, 0.2, 0.1], "xyw")
    seeds = row("seeds", [0.3, 0.2, 0.1], "xyz")
    for each in seeds.summary["seeds"]:
        each["seed"] += 1
    rows = by_name(compare([best, same, fewer, other, seeds]))
    assert rows["same"]["difference"]["mean"] == pytest.approx((-0.1 + 0.1 - 0.2) / 3)
    assert rows["same"]["difference"]["splits"] == 3
    assert all(rows[name]["difference"] is None for name in ("fewer", "other", "seeds"))
    same = {name for name in rows if rows[name]["same_splits"]}
    assert same == {"best", "same", "seeds"}


def test_of_one_seed_there_is_a_difference_and_no_interval(row):
    [_, other] = compare([row("best", [0.9]), row("other", [0.8])])
    found = other["difference"]
    assert found["mean"] == pytest.approx(-0.1) and found["pairs"] == 1
    assert found["low"] is found["high"] is found["noise"] is None


def test_the_best_of_errors_is_the_least(row):
    rows = compare([row("high", [4.0, 5.0], metric="mse"), row("low", [1.0, 2.5], metric="mse")])
    assert [each["recipe"] for each in rows] == ["low", "high"]
    assert rows[1]["difference"]["from"] == "low" and rows[1]["difference"]["mean"] == 2.75


def test_epochs_and_budgets(row):
    longer = ["train.epochs=9", "train.patience=4"]
    rows = compare([row("a", [0.5] * 3), row("b", [0.6] * 3, changes=longer), row("c", [0.4])])
    rows = by_name(rows)
    assert rows["a"]["epochs"] == pytest.approx(8 / 3)
    assert rows["a"]["best_epoch"] == pytest.approx(2 / 3)
    assert rows["a"]["budget"] == {"epochs": 2, "patience": None, "batching": "full"}
    assert rows["b"]["budget"] == {"epochs": 9, "patience": 4, "batching": "full"}
    assert [rows[name]["same_budget"] for name in "abc"] == [True, False, True]


def test_the_budget_of_one_odd_run_is_not_that_of_the_others(row):
    odd = row("odd", [0.9], changes=["train.epochs=1"])
    rows = by_name(compare([odd, row("a", [0.5] * 3), row("b", [0.6] * 3)]))
    assert [rows[name]["same_budget"] for name in ("odd", "a", "b")] == [False, True, True]
    assert rows["b"]["best"] and rows["odd"]["difference"] is None
    said = " ".join(other_notes(list(rows.values())))
    assert "Above b, and not the best, being of fewer runs or other seeds and splits" in said
    assert "for all" not in " ".join(mark_notes([*rows.values()]))  # nothing can be trained


def test_what_a_run_knows_of_its_training(tiny, tmp_path):
    """Whether it has the default options, was cut short, and by how many trials it was found."""
    study = tmp_path / "tune-tiny"
    study.mkdir()
    (study / "trials-table.csv").write_text("number,state\n0,complete\n1,pruned\n")
    folder = run_recipe(str(tiny), runs=study)["folder"]
    data = load_recipe(tiny).plain()["dataset"]
    other = run_recipe({"dataset": data, "model": "mlp", "train": {"epochs": 2}, "seeds": [3, 4]},
                       runs=tmp_path)["folder"]  # fmt: skip
    rows = compare(candidates([folder, other], baselines=False))
    tuned, plain = sorted(rows, key=lambda row: row["tuned"], reverse=True)
    assert (tuned["trials"], tuned["tuned"]) == (2, True)
    assert (plain["trials"], plain["tuned"]) == (None, False)
    seconds = [seed["epochs"] * seed["seconds_per_epoch"] for seed in plain["seeds"]]
    assert plain["seconds"] == pytest.approx(sum(seconds) / 2)
    assert plain["loss"] == "task" and plain["split_options"] == "ratio-50-25-25"
    late = [seed["epoch"] == 1 for seed in plain["seeds"]]
    assert plain["cut_short"] == (sum(late) > 1)


def test_a_patience_that_ends_nothing_is_none_and_other_ways_are_marked(row):
    scores = ([0.5, 0.5], "xy")
    others = (["train.patience=2"], ["train.patience=70"], ["train.inductive=true"])
    rows = by_name(compare([row("a", *scores), *(row(name, *scores, changes=changes)
                            for name, changes in zip("bcd", others, strict=True))]))  # fmt: skip
    assert [rows[name]["same_budget"] for name in "abcd"] == [True] * 4
    assert [rows[name]["same_ways"] for name in "abcd"] == [True, True, True, False]


def test_each_run_has_a_process_of_its_own(tiny, tmp_path):
    summary = train_apart(resolve(load_recipe(tiny)), "cpu", tmp_path / "runs")
    assert summary["recipe"] == "tiny" and summary["test"]["runs"] == 2
    assert find_finished(resolve(load_recipe(tiny)), tmp_path / "runs")["test"] == summary["test"]


def test_runs_from_other_weights_are_not_read(tiny, trained, tmp_path):
    runs, weights = tmp_path / "runs", tmp_path / "weights"
    (tmp_path / "more.yaml").write_text(TINY + f"start_from: {{weights: {weights}}}\n")
    first = run_recipe(load_recipe(tiny), runs=tmp_path / "first")["folder"]
    read = []
    for seed in (3, 4, 4):
        shutil.rmtree(weights, ignore_errors=True)
        shutil.copytree(Path(first, f"seed-{seed}"), weights)
        entries = candidates([str(tmp_path / "more.yaml")])[:1]
        read.append(compare(entries, runs=runs)[0]["read"])
    assert read == [False, False, True] and trained == ["more"] * 2


def test_several_runs_of_a_recipe_are_called_by_their_folders(tiny, tmp_path, command):
    folders = [run_recipe(load_recipe(tiny), runs=tmp_path / "runs")["folder"] for _ in "ab"]
    entries = [each for each in candidates(folders) if each.summary]
    assert {each["recipe"] for each in compare(entries)} == {Path(each).name for each in folders}
    code, _, said = command("compare", *folders, "--dataset", "nothing", "train.nonsense=7")
    assert code == 2 and "nonsense" in said


def test_a_training_is_asked_to_end_with_what_began_it(tmp_path, monkeypatch):
    """It has time to keep what it has, and no orphan is left."""
    monkeypatch.setattr(common, "_received", [])
    kept = tmp_path / "kept"
    child = f"""if True:
        import signal, sys, time
        def end(*_):
            time.sleep(0.3)
            open({str(kept)!r}, "w").write("kept")
            sys.exit(143)
        signal.signal(signal.SIGTERM, end)
        open({str(tmp_path / "ready")!r}, "w")
        time.sleep(60)"""

    def ask():
        while not (tmp_path / "ready").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=ask).start()
    with pytest.raises(KeyboardInterrupt), graceful_shutdown():
        earlier_runs._run([sys.executable, "-c", child], dict(os.environ))
    assert kept.read_text() == "kept"


@pytest.mark.parametrize(
    "code,error",
    [(130, KeyboardInterrupt), (129, KeyboardInterrupt), (-9, ZooError), (2, ZooError)],
)
def test_a_run_that_does_not_finish(tiny, monkeypatch, tmp_path, code, error):
    done = subprocess.CompletedProcess([], code, "")
    monkeypatch.setattr(earlier_runs, "_run", lambda *_: done)
    with pytest.raises(error):
        train_apart(resolve(load_recipe(tiny)), "cpu", tmp_path)


@pytest.mark.slow
def test_the_command_prints_one_table(tiny, tmp_path):
    call = ["-m", "zoo", "compare", str(tiny), "--runs", str(tmp_path)]
    table = run_preloaded(call, tmp_path).stdout
    for word in ("accuracy on sbm", "tiny", "gcn-sbm", "mlp-sbm", "ms/epoch", "not tuned"):
        assert word in table


@pytest.mark.slow
def test_the_command_gives_rows(tiny, tmp_path):
    call = ["-m", "zoo", "compare", str(tiny), "--runs", str(tmp_path), "--json"]
    rows = json.loads(run_preloaded(call, tmp_path).stdout)
    assert {each["recipe"] for each in rows} == {"tiny", *(f"{each}-sbm" for each in BASELINES)}
    assert all(each["epochs"] == 2 and each["same_budget"] for each in rows)
    assert [each["difference"] is None for each in rows] == [True, False, False]
    assert set(rows[1]["difference"]) == {
        "from", "pairs", "splits", "mean", "low", "high", "noise", "p", "p_holm"
    }  # fmt: skip
