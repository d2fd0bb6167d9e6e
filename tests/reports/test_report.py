"""The page of a run: its numbers are those of the weights, and it is whole whatever is missing."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import networkx
import numpy as np
import pytest
from faults import at
from quick import every
from reports.pages import CLASSES, Page, recipe, trained, write_graph
from sentences import write_pairs

import zoo
from zoo.data.splits import split_of
from zoo.errors import ZooError
from zoo.reports.history import read_history
from zoo.reports.report import write_report
from zoo.reports.several_runs import distinct_names
from zoo.runs.compare import candidates, compare
from zoo.system.files import held

SEEDS = (0, 1)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a graph and two finished runs on it, and nothing else."""
    found = tmp_path_factory.mktemp("reports")
    data = {"name": str(write_graph(found / "mine")), "split": "ratio-60-20-20"}
    runs = found / "runs"
    return {
        "data": data,
        "gcn": Path(trained(runs, data, "gcn", train={"epochs": 40, "patience": 3})),
        "mlp": Path(trained(runs, data, "mlp")),
    }


@pytest.fixture
def run(place, tmp_path):
    """A copy of a finished run."""
    return Path(shutil.copytree(place["gcn"], tmp_path / place["gcn"].name))


@pytest.fixture(scope="module")
def answers(place):
    """Of each seed: node ids, true classes, probabilities (n, 3) of its test nodes, by hand."""
    found = {}
    data = zoo.load_data(place["data"]["name"])
    for seed in SEEDS:
        table = zoo.predict(zoo.load(place["gcn"] / f"seed-{seed}"), data).table()
        test = split_of(data, place["data"]["split"], seed).test.numpy()
        columns = [f"probability_{each}" for each in data.labels]
        found[seed] = test, data.y.numpy()[test], table[columns].to_numpy()[test]
    return found, data


@pytest.fixture(scope="module")
def page(place, tmp_path_factory):
    return Page(write_report(place["gcn"], tmp_path_factory.mktemp("page") / "report.html"))


def test_scores_are_those_of_the_run(place, page):
    summary = json.loads((place["gcn"] / "summary.json").read_text())
    rows = page.table("accuracy at the best epoch")
    for row, each in zip(rows, summary["seeds"], strict=True):
        scores = [f"{each[part]:.4f}" for part in ("train", "val", "test")]
        assert row == [str(each["seed"]), *scores, str(each["epoch"] + 1), str(each["epochs"]),
                       "patience"]  # fmt: skip
    assert f"{summary['test']['mean']:.4f} ± {summary['test']['std']:.4f}" in page.text


def test_classes_are_counted_as_by_hand(page, answers):
    found, data = answers
    matrix = np.zeros((3, 3), int)
    measures = {each: [] for each in range(3)}
    for _, y, values in found.values():
        said = values.argmax(axis=1)
        for true, answer in zip(y, said, strict=True):
            matrix[true, answer] += 1
        for each in range(3):
            hits, answered = ((said == each) & (y == each)).sum(), (said == each).sum()
            precision = hits / answered if answered else np.nan
            recall = hits / (y == each).sum()
            f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
            measures[each].append((precision, recall, f1))
    rows = page.table("Test nodes by their true class")
    assert [row[0] for row in rows[:3]] == list(data.labels)
    for each, row in enumerate(rows[:3]):
        assert row[1:4] == [f"{mean:.4f}" for mean in np.nanmean(measures[each], axis=0)]
        assert int(row[4]) == matrix[each].sum()
    cells = [[int(cell) for cell in row[1:]] for row in page.table("Confusion matrix")]
    assert cells == matrix.tolist()


def test_calibration_is_that_of_the_answers(page, answers):
    errors, total = [], np.zeros(10, int)
    for _, y, values in answers[0].values():
        error = 0.0
        for low in range(10):
            top = values.max(axis=1).astype(float)
            inside = (top > low / 10) & (top <= (low + 1) / 10)
            total[low] += inside.sum()
            if inside.any():
                right = (values.argmax(axis=1) == y)[inside].mean()
                error += inside.mean() * abs(right - top[inside].mean())
        errors.append(error)
    said = f"calibration error {np.mean(errors):.3f} ± {np.std(errors, ddof=1):.3f}"
    assert said in page.text
    assert [int(row[1]) for row in page.table("Reliability")] == total.tolist()


def test_bins_of_nodes_are_those_of_their_neighbours(page, place, answers):
    found, data = answers
    lines = Path(place["data"]["name"], "edges.csv").read_text().splitlines()[1:]
    graph = networkx.parse_edgelist(lines, delimiter=",", nodetype=str)
    names = {str(each): place for place, each in enumerate(data.ids)}
    by_degree, by_share = {}, {}
    for seed, (test, y, values) in found.items():
        right = values.argmax(axis=1) == y
        for node, hit in zip(test, right, strict=True):
            own = [names[each] for each in graph[str(data.ids[node])]]
            by_degree.setdefault(len(own), {}).setdefault(seed, []).append(hit)
            share = np.mean([data.y[each] == data.y[node] for each in own])
            by_share.setdefault(np.ceil(share * 4) if share < 1 else 5, {}).setdefault(
                seed, []).append(hit)  # fmt: skip
    for row in page.table("Score by degree"):
        ends = [int(each) for each in row[0].split("–")]
        inside = [by_degree[each] for each in by_degree if ends[0] <= each <= ends[-1]]
        check_bin(row, inside)
    for place_, row in enumerate(page.table("Score by homophily")):
        check_bin(row, [by_share[each] for each in by_share if each == place_])


def check_bin(row, inside):
    seeds = {seed: [hit for each in inside for hit in each.get(seed, [])] for seed in SEEDS}
    assert int(row[1]) == sum(map(len, seeds.values()))
    scores = [np.mean(hits) for hits in seeds.values() if hits]
    if scores:
        assert float(row[2]) == pytest.approx(np.mean(scores), rel=1e-3)
    if len(scores) > 1:
        spread = np.std(scores, ddof=1)
        assert float(row[4]) == pytest.approx(np.mean(scores) + spread, rel=1e-3)


def test_curves_are_those_of_the_epochs(page, place):
    lines = [json.loads(each) for each in (place["gcn"] / "metrics.jsonl").read_text().splitlines()]
    for title, key in (("Training loss", "loss"), ("Validation score", "val")):
        for row in page.table(title):
            for seed, cell in zip(SEEDS, row[1:], strict=True):
                at = seed, int(row[0]) - 1  # people count from 1
                [known] = [x[key] for x in lines if (x["seed"], x["epoch"]) == at] or [None]
                assert cell == "–" if known is None else float(cell) == pytest.approx(known, 1e-3)
    assert "stop: patience" in page.text and "best epoch" in page.text


def test_names_are_shown_and_never_obeyed(page):
    assert all(each in page.text for each in CLASSES)
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "img", "iframe", "object", "base", "form", "b"}
    for tag, given in page.tags:
        assert not [key for key in given if key.startswith("on")]
        address = given.get("href", given.get("src", "#"))
        assert address.startswith("#") or (tag, address) == ("link", "data:,")
    [rules] = [
        given["content"] for tag, given in page.tags if "Policy" in given.get("http-equiv", "")
    ]
    assert rules.startswith("default-src 'none';") and "script-src" not in rules


def test_the_page_has_one_heading_and_every_figure_a_name(page):
    assert [tag for tag, _ in page.tags].count("h1") == 1
    drawn = [given for tag, given in page.tags if tag == "svg" and "role" in given]
    assert len(drawn) == 7
    names = [given["id"] for _, given in page.tags if "id" in given]
    assert len(set(names)) == len(names)
    assert {each["aria-label"] for each in drawn} <= set(page.tables)
    for each in re.findall("<svg viewBox.*?</svg>", page.source, re.DOTALL):
        ElementTree.fromstring(each.replace("<svg", '<svg xmlns:xlink="x"', 1))
    told = {given["scope"] for tag, given in page.tags if tag == "th"}
    assert told == {"row", "col"}


def test_a_page_is_drawn_the_same_every_time(place, tmp_path, monkeypatch):
    one = write_report(place["gcn"], tmp_path / "one.html").read_text()
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 30)  # as a matplotlibrc there says
    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)
    assert write_report(place["gcn"], tmp_path / "two.html").read_text() == one


def test_the_command_repeats_the_run(page, place, command):
    line = f"zoo train {place['gcn'] / 'recipe.yaml'}"
    assert line in page.text and str(place["data"]["name"]) not in page.text
    code, said, failed = command(*line.split()[1:], "--json")
    again, before = json.loads(said), json.loads((place["gcn"] / "summary.json").read_text())
    assert code == 0 and again["test"] == before["test"], failed


def test_one_seed_has_the_interval_of_a_share(place, tmp_path):
    from scipy.stats import binomtest

    folder = trained(tmp_path, place["data"], seeds=[0], train={"epochs": 3})
    rows = Page(write_report(folder)).table("Score by degree")
    for _, count, score, low, high in rows:
        found = binomtest(round(float(score) * int(count)), int(count))
        ends = found.proportion_ci(0.95, "wilson")
        assert (float(low), float(high)) == pytest.approx((ends.low, ends.high), abs=1e-4)


def regression(folder):
    return {"name": str(write_graph(folder / "numbers", label=lambda node: f"{node * 0.1:.1f}")),
            "task": "node-regression"}  # fmt: skip


def binary(folder):
    return {"name": str(write_graph(folder / "two", label=lambda node: "ab"[node % 3 > 0])),
            "task": "node-binary"}  # fmt: skip


def multilabel(folder):
    more = {"first": lambda node: node % 3 // 2, "second": lambda node: node % 2}
    path = write_graph(folder / "many", label=lambda node: 0, more=more)
    return {"name": str(path), "label": ["first", "second"], "task": "node-multilabel"}


def images(folder):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 255, (40, 6, 6)).astype(np.uint8)
    np.savez(folder / "images.npz", images=pixels, labels=np.arange(40) % 3)
    return {"name": "images", "path": str(folder / "images.npz"), "patch": 2}


def series(folder):
    random = np.random.default_rng(0)
    rows = [f"2026-01-{day:02},{name},{random.normal():.3f}\n" for day in range(1, 31)
            for name in "ab"]  # fmt: skip
    (folder / "sales.csv").write_text("date,store,sales\n" + "".join(rows))
    return {"name": str(folder / "sales.csv"), "time": "date", "id": "store", "target": "sales",
            "lags": 3, "horizon": 2}  # fmt: skip


def sentences(folder):
    return {"name": str(write_pairs(folder / "numbers-en-de") or folder / "numbers-en-de"),
            "vocabulary": 300}  # fmt: skip


NODES = {"Score by degree", "Embedding"}
CLASSES_OF = {"Confusion matrix", "Reliability"}
TASKS = {
    "regression": (regression, "gcn", {},
                   {"Error by degree", "Embedding", "Predicted against true", "Residuals"}),
    "binary": (binary, "gcn", {}, NODES | CLASSES_OF | {"Score by homophily"}),
    "multilabel": (multilabel, "gcn", {}, NODES | {"Reliability"}),
    "graphs": (images, "gcn", {"batching": "samples"},
               CLASSES_OF | {"Embedding"}),
    "forecasting": (series, "gru", {"batching": "snapshots"},
                    {"Predicted against true", "Residuals", "Error by how far ahead"}),
    "translation": (sentences, "transformer-seq2seq", {"batching": "tokens"}, set()),
}  # fmt: skip


@pytest.mark.parametrize("task", every(TASKS, 2))
def test_every_task_has_its_figures(task, tmp_path):
    write, model, train, wanted = TASKS[task]
    train = {"epochs": 2, **train}
    folder = trained(tmp_path / "runs", write(tmp_path), model, train=train, seeds=[0])
    page = Page(write_report(folder))
    titles = {each for each in page.tables if not each.startswith(("Test ", "Where "))}
    known = {"Training loss", "Validation score"}
    assert {each for each in titles if " at the best epoch" not in each} == wanted | known
    assert f"zoo train {folder}/recipe.yaml" in page.text
    assert ("Answers are not drawn of translations" in page.text) == (task == "translation")


def test_predictions_are_those_of_the_weights(tmp_path):
    spec = regression(tmp_path)
    folder = trained(tmp_path / "runs", {**spec, "split": "ratio-60-20-20"}, seeds=[0])
    data = zoo.load_data(spec)
    found = zoo.predict(zoo.load(folder), data).values[:, 0].numpy()
    test = split_of(data, "ratio-60-20-20", 0).test.numpy()
    truth = data.y.numpy().reshape(-1)[test]
    page = Page(write_report(folder))
    assert f"{np.abs(found[test] - truth).mean():.4g} from what is true" in page.text
    median = page.table("Predicted against true")[2]
    assert float(median[1]) == pytest.approx(np.median(truth), rel=1e-3)
    assert sum(int(row[1]) for row in page.table("Residuals")) == len(test)


def test_scores_are_of_the_metric_of_the_training(place, tmp_path):
    train = {"epochs": 5, "metric": "macro-f1"}
    said = zoo.run_recipe(recipe(place["data"], train=train, seeds=[0]), runs=tmp_path)
    page = Page(write_report(said["folder"]))
    assert "the weights score" not in page.text and "test macro-f1" in page.text
    assert page.tables["Score by degree"][0][2] == "macro-f1"
    page = Page(write_report([place["gcn"], said["folder"]], tmp_path / "both.html"))
    assert page.tables["Score by degree"][0][1:3] == ["count", "accuracy"]  # of one run
    assert "another metric" in page.text
    [heads, *_] = page.tables["Test scores of the models on each graph"]
    assert heads[1:3] == ["mine, accuracy", "mine, macro-f1"]
    train = {"epochs": 1, "metric": "mae", "batching": "snapshots"}
    page = Page(write_report(trained(tmp_path, series(tmp_path), "gru", train=train, seeds=[0])))
    assert "the weights score" not in page.text
    assert page.tables["Error by how far ahead"][0][2] == "mae"


def stop():
    raise KeyboardInterrupt


def test_a_run_that_was_interrupted_has_a_page(place, tmp_path):
    given = recipe(place["data"], seeds=[0, 1])
    said = zoo.run_recipe(given, runs=tmp_path, watch=at(1, 5, stop))
    page = Page(write_report(said["folder"]))
    assert [row[-1] for row in page.table("accuracy at")] == ["last epoch", "interrupted"]
    assert "It was interrupted" in page.text
    assert f"zoo train --resume {said['folder']}" in page.text
    assert "stop: interrupted" in page.text


class Killed(BaseException):
    """What ends a process."""


def kill():
    raise Killed


@pytest.mark.parametrize("going", [True, False])
def test_a_run_without_any_score_has_a_page(going, place, tmp_path):
    with pytest.raises(Killed):
        zoo.run_recipe(recipe(place["data"]), runs=tmp_path, watch=at(0, 5, kill), checkpoint=0.0)
    [folder] = tmp_path.iterdir()
    (folder / "metrics.jsonl").open("a").write('{"seed": 0, "epo')  # was being written
    if going:
        with held(folder):
            page = Page(write_report(folder))
    else:
        page = Page(write_report(folder))
    assert ("still in training" if going else "ended before its end") in page.text
    assert f"stop: {'in training' if going else 'ended early'}" in page.text
    assert "No seed has come to a score" in page.text and "damaged" not in page.text
    assert len(page.table("Training loss")) == 6


def test_a_damaged_line_is_said_and_the_others_drawn(run):
    path = run / "metrics.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[1].replace("0", "1", 1), *lines[2:]]))
    page = Page(write_report(run))
    assert "metrics.jsonl is damaged: 1 epochs are missing" in page.text
    assert [row[0] for row in page.table("Training loss")][:2] == ["1", "2"]


@pytest.mark.parametrize("name", ["summary.json", "recipe.yaml", "seed-0/result.json",
                                  "environment.json", "seed-1/model.safetensors"])  # fmt: skip
def test_a_damaged_file_is_one_paragraph(name, run, command):
    content = (run / name).read_bytes()
    (run / name).write_bytes(content.replace(b"0", b"1", 1)[:-2])
    code, said, failed = command("report", run)
    assert code == 2 and name.rpartition("/")[2] in failed and "Traceback" not in failed
    assert not (run / "report.html").exists()


def test_what_is_no_run_is_answered(command, tmp_path):
    (tmp_path / "empty").mkdir()
    for each in ("nowhere", "empty"):
        code, said, failed = command("report", each)
        assert code == 2 and each in failed and failed.count("zoo:") == 1


def test_a_page_replaces_pages_alone(run, command):
    assert command("report", run)[0] == 0 and command("report", run)[0] == 0
    path = run / "report.html"
    for make in (lambda: path.write_text("mine"), lambda: path.symlink_to(run / "recipe.yaml")):
        path.unlink()
        make()
        before = os.lstat(path)
        code, said, failed = command("report", run)
        assert code == 2 and "is no report of ours, and is kept" in failed
        after = os.lstat(path)  # it may have been read
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert command("report", run, "--out", run / "other.html", "--quiet") == (
        0, "", f"written: {run / 'other.html'}\n")  # fmt: skip


def test_without_its_data_a_run_has_its_curves(place, tmp_path):
    data = {"name": str(write_graph(tmp_path / "gone"))}
    folder = trained(tmp_path / "runs", data, train={"epochs": 2})
    shutil.rmtree(tmp_path / "gone")
    page = Page(write_report(folder))
    assert "What the weights answer is left out: " in page.text
    assert "Training loss" in page.tables and "Confusion matrix" not in page.tables


def test_the_best_of_the_seeds_that_are_still_there_is_drawn(place, tmp_path):
    folder = Path(trained(tmp_path / "runs", place["data"], seeds=[0, 1]))
    shutil.rmtree(folder / "seed-0")
    assert "Confusion matrix" in Page(write_report(folder)).tables


CODE = """
import pathlib, torch
from zoo import Model, register_model
pathlib.Path({mark!r}).touch()

@register_model("of-a-stranger")
class Own(Model):
    def __init__(self, in_dim: int, out_dim: int):
        super().__init__()
        self.head = torch.nn.Linear(in_dim, out_dim)

    def features(self, graph, x):
        return x
"""


def test_what_a_recipe_imports_is_not_run(place, tmp_path, command):
    mark, code = tmp_path / "ran", tmp_path / "own.py"
    code.write_text(CODE.format(mark=str(mark)))
    given = recipe(place["data"], train={"epochs": 2}, imports=[str(code)])
    folder = zoo.run_recipe({**given, "model": "of-a-stranger"}, runs=tmp_path / "runs")["folder"]
    del zoo.MODELS["of-a-stranger"]  # as in a new process
    for name in [each for each in sys.modules if each.startswith(f"zoo_import {code}")]:
        del sys.modules[name]
    mark.unlink()
    assert command("report", folder)[0] == 0 and not mark.exists()
    page = Page(Path(folder) / "report.html")
    assert "imports code, which is not run for a page" in page.text
    assert "Training loss" in page.tables and "Confusion matrix" not in page.tables
    assert command("report", folder, "--import", code)[0] == 0 and mark.exists()
    assert "Confusion matrix" in Page(Path(folder) / "report.html").tables
    del zoo.MODELS["of-a-stranger"]


@pytest.fixture(scope="module")
def compared(place, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared") / "both.html"
    return Page(write_report([place["mlp"], place["gcn"]], out))


def test_runs_are_compared_as_zoo_compare_does(compared, place):
    entries = candidates([str(place["mlp"]), str(place["gcn"])], baselines=False)
    found = compare(entries, runs=place["gcn"].parent)
    rows = compared.table("Scores of the runs")
    assert [row[1] for row in rows] == [
        f"{each['test']['mean']:.4f} ± {each['test']['std']:.4f}" for each in found]  # fmt: skip
    apart = found[1]["difference"]
    assert rows[0][4] == "best"
    assert rows[1][2:5] == [f"{apart['mean']:+.4f}", f"{apart['low']:+.4f} to {apart['high']:+.4f}",
                            "noise" if apart["noise"] else ""]  # fmt: skip


def test_what_differs_is_listed_and_nothing_else(compared):
    rows = {row[0]: row[1:] for row in compared.table("Values of the recipes that differ")}
    assert rows["model.name"] == ["mlp", "gcn"] and rows["train.epochs"] == ["12", "40"]
    assert rows["train.patience"] == ["none", "3"]
    assert not [key for key in rows if key.startswith(("dataset", "seeds", "train.lr"))]


def test_runs_are_drawn_beside_each_other(compared, page, place):
    rows = compared.table("Score by homophily")
    own = [[row[0], *row[2:]] for row in rows if row[1] == "gcn"]
    assert own == page.table("Score by homophily")
    assert {row[1] for row in rows} == {"gcn", "mlp"}
    assert {"Training loss of the runs", "Validation score of the runs"} <= set(compared.tables)
    f1 = [row[-1] for row in compared.table("F1 of each class")]
    assert f1 == [row[3] for row in page.table("Test nodes by their true class")][:3]


def test_runs_of_other_data_are_columns_of_a_table(place, tmp_path, command):
    other = trained(tmp_path / "runs", "karate", "gcn", train={"epochs": 2}, seeds=[0])
    assert command("report", place["gcn"], place["mlp"], other)[0] == 0
    page = Page(tmp_path / "report.html")  # in the current folder
    assert "of other data than the first run" in page.text
    heads, *rows = page.tables["Test scores of the models on each graph"]
    assert heads == ["model", "mine", "karate"]  # of ranks there are too few
    found = compare(
        candidates([str(place["mlp"]), str(place["gcn"])], baselines=False),
        runs=place["gcn"].parent,
    )
    scores = {each["model"]: f"{each['test']['mean']:.4f}" for each in found}
    assert {row[0]: row[1].split()[0] for row in rows} == scores
    assert ("≈" in "".join(rows[1])) == bool(found[1]["difference"]["noise"])
    assert rows[1][2] == "–" or rows[0][2] == "–"
    assert "difference" not in page.tables["Scores of the runs, mean and standard deviation over "
                                           "seeds"][0]  # fmt: skip


def test_runs_of_another_graph_of_the_same_name_are_not_set_against_each_other(place, tmp_path):
    data = {**place["data"], "name": str(write_graph(tmp_path / "mine"))}
    other = trained(tmp_path / "runs", data, "gcn", train={"epochs": 2}, seeds=[0])
    page = Page(write_report([place["gcn"], other], tmp_path / "report.html"))
    heads = page.tables["Test scores of the models on each graph"][0]
    assert heads[:3] == ["model", "mine (1)", "mine (2)"]


def test_runs_of_one_recipe_are_told_apart(tmp_path):
    """In tables, lines and legends: by data set and options, and if these are alike by folders."""
    runs, path = [], tmp_path / "gf.yaml"
    for data, dim in (("karate", 4), ("sbm", 4), ("karate", 8), ("karate", 8)):
        spec = f"{{name: {data}{', nodes: 40' if data == 'sbm' else ''}}}"
        path.write_text(f"# t\ndataset: {spec}\nmodel: {{name: gcn, dim: {dim}}}\n"
                        "train: {epochs: 1}\n")  # fmt: skip
        runs.append(Path(zoo.run_recipe(path, runs=tmp_path / "runs")["folder"]))
    names = ["gf, karate, dim 4", "gf, sbm, dim 4",
             *(f"gf, karate, dim 8, {run.name}" for run in runs[2:])]  # fmt: skip
    assert distinct_names([read_history(run) for run in runs]) == names
    assert distinct_names([read_history(run) for run in runs[:2]]) == ["gf, karate", "gf, sbm"]
    page = Page(write_report(runs[:2], tmp_path / "page.html"))
    assert page.tables["Training loss of the runs"][0][1:] == ["gf, karate", "gf, sbm"]


def test_runs_that_predict_another_column_are_not_drawn_beside(tmp_path):
    more = {key: lambda node, key=key: node % 3 + len(key) for key in ("size", "weight")}
    folder = write_graph(tmp_path / "own", 30, more=more)
    runs = []
    for label in more:
        data = {"name": str(folder), "label": label, "columns": ["x", "y"],
                "task": "node-regression"}  # fmt: skip
        runs.append(trained(tmp_path / label, data, "gcn", train={"epochs": 2}, seeds=[0]))
    page = Page(write_report(runs, tmp_path / "report.html"))
    assert "of another question to them, and not drawn beside it" in page.text
    [caption] = [each for each in page.tables if each.startswith("Error by degree")]
    assert page.tables[caption][0][1] == "count"  # of one run, which is not named


def test_a_report_of_nothing_is_refused():
    with pytest.raises(ZooError, match="name the folder of a run"):
        write_report([])
