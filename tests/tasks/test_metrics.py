"""Metrics are their formulas, written out; what a task computes itself is what the table says."""

import functools
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from zoo.config import scores
from zoo.config.options import pick
from zoo.config.scores import gain, lower_is_better
from zoo.errors import ZooError
from zoo.runs.resolve import load_recipe
from zoo.runs.run import run_recipe
from zoo.runs.run_folder import read_summary
from zoo.tasks import METRICS, TASKS
from zoo.tasks.metrics import METRICS_OF
from zoo.tasks.task import measured_beside, of_weights, with_metric
from zoo.weights.index import locate

CLASSES = METRICS_OF["classes"]
NUMBERS = METRICS_OF["numbers"]
LINKS = METRICS_OF["links"]


def example(classes=4, rows=80):
    generator = np.random.default_rng(5)
    y = generator.integers(classes, size=rows)
    scores = generator.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[y]
    p = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return p, y


def counts(p, y, each):
    said, true = p.argmax(axis=1) == each, y == each
    hits = sum(a and b for a, b in zip(said, true, strict=True))
    return hits, sum(said) - hits, sum(true) - hits


def f1(hits, wrong, missed):
    return 2 * hits / (2 * hits + wrong + missed)


def ranked(scores, true):
    pairs = [(a, b) for a in scores[true] for b in scores[~true]]
    return sum((a > b) + (a == b) / 2 for a, b in pairs) / len(pairs)


def precision_over_recall(scores, true):
    """The mean, over what is true, of the precision among all that is ranked as high."""
    return np.mean([(true & (scores >= each)).sum() / (scores >= each).sum()
                    for each in scores[true]])  # fmt: skip


def of_each(measure, p, y):
    classes = [1] if p.shape[1] == 2 else range(p.shape[1])
    return np.mean([measure(p[:, each], y == each) for each in classes])


def matthews(p, y):
    """The correlation of two indicators of classes, over all of them."""
    classes = range(p.shape[1])
    said = np.array([p.argmax(axis=1) == each for each in classes], float)
    true = np.array([y == each for each in classes], float)
    said -= said.mean(axis=1, keepdims=True)
    true -= true.mean(axis=1, keepdims=True)
    return (said * true).sum() / math.sqrt((said**2).sum() * (true**2).sum())


def calibration(p, y, bins=10):
    error = 0.0
    for low in range(bins):
        own = [(sure, each.argmax() == true) for each, true in zip(p, y, strict=True)
               if low / bins < (sure := each.max()) <= (low + 1) / bins]  # fmt: skip
        if own:
            sure, right = np.mean(own, axis=0)
            error += len(own) / len(y) * abs(sure - right)
    return error


def above(scores, y, k):
    """The share of first columns above the k-th best of all others."""
    limit = sorted(scores[:, 1:].flatten())[-k]
    return np.mean([row[0] > limit for row in scores])


SLOW = {
    "accuracy": lambda p, y: np.mean(
        [row.argmax() == true for row, true in zip(p, y, strict=True)]
    ),
    "balanced-accuracy": lambda p, y: np.mean(
        [hits / (hits + missed) for hits, _, missed in (counts(p, y, c) for c in set(y))]
    ),
    "macro-f1": lambda p, y: np.mean([f1(*counts(p, y, c)) for c in range(p.shape[1])]),
    "micro-f1": lambda p, y: f1(*sum(np.array(counts(p, y, c)) for c in range(p.shape[1]))),
    "roc-auc": lambda p, y: of_each(ranked, p, y),
    "average-precision": lambda p, y: of_each(precision_over_recall, p, y),
    "mcc": matthews,
    "log-loss": lambda p, y: -np.mean([math.log(p[i, y[i]]) for i in range(len(y))]),
    "ece": calibration,
    "r2": lambda z, t: 1 - ((z - t) ** 2).sum() / ((t - t.mean()) ** 2).sum(),
    "mae": lambda z, t: np.mean([abs(a - b) for a, b in zip(z, t, strict=True)]),
    "mse": lambda z, t: np.mean([(a - b) ** 2 for a, b in zip(z, t, strict=True)]),
    "rmse": lambda z, t: math.sqrt(np.mean([(a - b) ** 2 for a, b in zip(z, t, strict=True)])),
    "mrr": lambda s, y: np.mean([1 / (1 + (row[1:] > row[0]).sum()) for row in s]),
    **{f"hits@{k}": functools.partial(above, k=k) for k in (10, 20, 50, 100)},
}


def test_every_metric_has_a_twin():
    assert SLOW.keys() == METRICS.keys() - {"task"} == {*CLASSES, *NUMBERS, *LINKS}


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("name", CLASSES)
def test_a_metric_of_classes_is_its_formula(name, classes):
    p, y = example(classes)
    assert pick(METRICS, name)(p, y) == pytest.approx(SLOW[name](p, y))
    sure = np.eye(classes)[y]
    best = pick(METRICS, name)(sure, y)
    assert best == pytest.approx(0 if lower_is_better(name) else 1, abs=1e-9)
    assert gain(name, best) > gain(name, pick(METRICS, name)(p, y))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_metric_of_numbers_is_its_formula(name):
    generator = np.random.default_rng(1)
    t = generator.normal(size=50)
    z = t + generator.normal(size=50) / 2
    assert pick(METRICS, name)(z, t) == pytest.approx(SLOW[name](z, t))


@pytest.mark.parametrize("name", LINKS)
def test_a_metric_of_links_is_its_formula(name):
    scores = np.random.default_rng(2).normal(size=(40, 8)) + np.eye(8)[0]
    assert pick(METRICS, name)(scores, np.zeros(40)) == pytest.approx(SLOW[name](scores, None))


def test_hits_need_as_many_pairs_without_a_link():
    with pytest.raises(ValueError, match="30 pairs without a link, fewer than 50"):
        pick(METRICS, "hits@50")(np.zeros((10, 4)), np.zeros(10))


@pytest.mark.parametrize("task", ["node-classification", "node-binary", "node-multilabel",
                                  "node-regression"])  # fmt: skip
def test_what_a_task_computes_itself_is_what_the_table_says(task):
    """Also beside each other, of labels of which some are unknown, and of one logit or two."""
    torch.manual_seed(0)
    task = pick(TASKS, task)
    if task.kind in ("targets", "numbers"):
        y = torch.rand(60, 3)
        y = (y > 0.4).float() if task.kind == "targets" else y
        y[::7] = math.nan
    else:
        y = torch.randint(2 if task.kind == "binary" else 4, (60,))
        y[::7] = -1
    logits = torch.randn(60, task.outputs(2 if task.kind == "binary" else 4))[:, :3]
    if task.kind == "classes":
        logits = torch.randn(60, 4)
    for name, measure in task.own.items():
        known = ~y.isnan() if y.is_floating_point() else y >= 0
        values = task.probabilities(logits)
        if y.ndim == 1:
            table = pick(METRICS, name)(values[known].numpy(), y[known].numpy())
        elif task.kind == "numbers":
            table = np.mean([pick(METRICS, name)(values[k, i].numpy(), y[k, i].numpy())
                             for i, k in enumerate(known.T)])  # fmt: skip
        else:
            two = [torch.stack([1 - values[:, i], values[:, i]], 1) for i in range(3)]
            table = np.mean([pick(METRICS, name)(two[i][k].numpy(), y[k, i].long().numpy())
                             for i, k in enumerate(known.T)])  # fmt: skip
        assert measure(logits, y) == pytest.approx(table, rel=1e-5)
    found = measured_beside(task, logits, y)
    assert found.keys() == {*METRICS_OF[task.kind]} - {task.metric_name}
    assert all(math.isfinite(each) for each in found.values())
    for name, value in found.items():
        other = with_metric(task, name)
        assert (other.metric_name, other.metric(logits, y)) == (name, value)
        assert other.beside.keys() == ({*METRICS_OF[task.kind]} - {name})


def test_what_does_not_exist_is_none_beside_and_refused_alone():
    task = pick(TASKS, "node-classification")
    logits, y = torch.randn(9, 3), torch.zeros(9, dtype=torch.int64)
    assert measured_beside(task, logits, y)["roc-auc"] is None
    with pytest.raises(ZooError, match="roc-auc does not exist .* of one class"):
        with_metric(task, "roc-auc").metric(logits, y)
    numbers = with_metric(pick(TASKS, "node-forecasting"), "r2")
    with pytest.raises(ZooError, match="r2 does not exist .* all numbers are the same"):
        numbers.metric(torch.randn(5, 1), torch.ones(5, 1))


def test_a_metric_of_other_labels_is_refused():
    with pytest.raises(ZooError, match="rmse is of other labels .* choose from accuracy"):
        with_metric(pick(TASKS, "node-classification"), "rmse")
    with pytest.raises(ZooError, match="leave `metric` out"):
        with_metric(pick(TASKS, "translation"), "accuracy")


def test_a_metric_says_itself_that_less_of_it_is_better(monkeypatch, tmp_path, caplog):
    """It was maximised by its name alone; runs and weights keep it for who does not know it."""
    monkeypatch.setattr(scores, "_declared", {})
    own = lambda p, y: float((1 - p[range(len(y)), y]).mean())  # noqa: E731
    monkeypatch.setitem(METRICS, "brier", lambda: own)
    METRICS["brier"].lower_is_better = True
    recipe = {"dataset": "karate", "model": {"name": "gcn", "dim": 8}, "seeds": [0, 1]}
    recipe["train"] = {"epochs": 8, "metric": "brier", "lr": 0.05}
    summary = run_recipe(load_recipe(recipe), runs=tmp_path)
    assert caplog.text.count("brier is a metric of your own: less of it is better.") == 1
    folder = Path(summary["folder"])
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for each in summary["seeds"]:
        assert each["val"] == min(x["val"] for x in lines if x["seed"] == each["seed"])
    assert summary["lower_is_better"]
    monkeypatch.setattr(scores, "_declared", {})
    assert gain("brier", 0.2) > gain("brier", 0.1) and not scores.lower_is_better("brier")
    read_summary(folder)
    assert gain("brier", 0.1) > gain("brier", 0.2)
    monkeypatch.setattr(scores, "_declared", {})
    best = min(summary["seeds"], key=lambda each: each["val"])["seed"]
    assert locate(str(folder)).folder.name == f"seed-{best}"


def test_a_metric_of_ones_own(monkeypatch):
    """Its name says whether less is better; weights that name one unknown here keep the task's."""
    monkeypatch.setitem(METRICS, "miss-error", lambda: lambda p, y: (p.argmax(1) != y).mean())
    task = with_metric(pick(TASKS, "node-classification"), "miss-error")
    logits, y = torch.eye(3), torch.tensor([0, 1, 1])
    assert task.metric(logits, y) == pytest.approx(1 / 3)
    assert gain("miss-error", 0.1) > gain("miss-error", 0.2)
    assert of_weights("node-classification", "task", "miss-error").metric_name == "miss-error"
    assert of_weights("node-classification", "mine", "nowhere").metric_name == "accuracy"
