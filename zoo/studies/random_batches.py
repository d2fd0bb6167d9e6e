"""Random batches beside what they estimate: in training against a control, and in evaluation.

The control of `rba-control`: SGFormer divides queries and keys by one Frobenius norm over all N
nodes, so that its attention term is of order 1/N; inside a batch of p nodes it is of order 1/p.
Random batches thus scale the attention term by N/p, and a comparison with the published accuracy
confounds the two effects. With `qk_norm: row` the scale does not depend on N.

In `rba-evaluation` a model is trained once. Its predictions are then made with `inference: fixed`
under several seeds, with the `mean` over more and more partitions, and with `full` attention.
"""

from __future__ import annotations

import copy
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from zoo.config.options import Count, options_of
from zoo.config.recipe import Recipe
from zoo.config.shipped import recipe_names
from zoo.errors import ZooError, unknown
from zoo.experiments.compare import compare
from zoo.experiments.contestants import contestant
from zoo.experiments.prepare import prepare, seed_everything
from zoo.experiments.resolve import UNTUNED, Plan, load_recipe, resolve, write_out
from zoo.registry import MODELS, discover
from zoo.studies.study import OVER_SEEDS, Names, Row, Series, Study, names_in
from zoo.training.epoch import all_logits
from zoo.training.fit import fit
from zoo.weights.create import create_model, list_models

SIZES = (64, 256, 1024)
QUICK = ["train.epochs=10", "seeds=[0]"]
SHORT = ["train.epochs=120", "train.patience=40", "seeds=[0, 1, 2]"]
"""Overrides of the recipes: all attentions are compared under one short training."""


def rba_control(
    *,
    quick: bool = False,
    model: str = "sgformer",
    dataset: Names = "cora,chameleon",
    sizes: Annotated[list[Count], Field(min_length=1)] = list(SIZES),  # noqa: B006 (never changed)
) -> Study:
    """Accuracy, time and memory of a model with its own attention, random batches, and softmax.

    Args:
        quick: a random graph, one seed, one size, without softmax.
        model: a model with an `attention` option.
        dataset: names of data sets with commas between; recipes called MODEL-DATASET are used.
        sizes: nodes per batch, p.
    """
    if model not in list_models(attention="rba"):
        raise ZooError(
            unknown("model with an `attention` option", model, list_models(attention="rba"))
        )
    names = ["sbm"] if quick else names_in(dataset)
    table = [
        {"dataset": name, **row}
        for name in names
        for row in _compared(
            _recipe(model, name, QUICK if quick else SHORT),
            variants(model, sizes[:1], full=False) if quick else variants(model, sizes),
        )
    ]
    return Study("rba-control", [], [_plot(table, name) for name in names], table)


Variants = dict[tuple[str, int | None], list[str]]
"""Name and batch size to the overrides of a recipe."""


def variants(model: str, sizes: list[int], *, full: bool = True) -> Variants:
    """Return the model with its own attention, random batches and, where asked, full softmax."""
    discover()
    norms = ["frobenius", "row"] if "qk_norm" in options_of(MODELS[model]) else [None]
    found: Variants = {}
    for norm in norms:
        chosen = [] if norm is None else [f"model.qk_norm={norm}"]
        label = "" if norm is None else f", {norm}"
        found["native" + label, None] = [*chosen, "model.attention=native"]
        for size in sizes:
            spec = f"model.attention={{name: rba, size: {size}}}"
            found["rba" + label, size] = [*chosen, spec]
    if full:
        found["softmax", None] = ["model.attention=softmax"]
    return found


def _recipe(model: str, dataset: str, changes: list[str]) -> Recipe:
    name = f"{model}-{dataset}"
    if name in recipe_names():
        return load_recipe(name, changes)
    return load_recipe({"dataset": dataset, "model": model, "train": UNTUNED}, changes)


def _compared(recipe: Recipe, chosen: Variants) -> list[dict[str, Any]]:
    plain = write_out(recipe)
    entries = [
        contestant(load_recipe(plain, changes), name=_label(*key))
        for key, changes in chosen.items()
    ]
    with tempfile.TemporaryDirectory() as folder:
        found = {each["recipe"]: each for each in compare(entries, runs=Path(folder))}
    return [_row(variant, size, found[_label(variant, size)]) for variant, size in chosen]


def _label(variant: str, size: int | None) -> str:
    words = variant.replace(", ", "-")
    return words if size is None else f"{words}-{size}"


def _row(variant: str, size: int | None, summary: dict[str, Any]) -> dict[str, Any]:
    return {
        "attention": variant,
        "p": size,
        "test": round(summary["test"]["mean"], 4),
        "std": None if summary["test"]["std"] is None else round(summary["test"]["std"], 4),
        "ms/epoch": round(1000 * summary["seconds_per_epoch"], 1),
        "MiB": round(summary["peak_memory_bytes"] / 2**20),
    }


def _plot(table: list[dict[str, Any]], dataset: str) -> Series:
    """Return test score against p; what has no p is a horizontal dashed line."""
    rows = [row for row in table if row["dataset"] == dataset]
    sizes = sorted({row["p"] for row in rows if row["p"]})
    lines: dict[str, tuple[list[float], list[float]]] = {}
    margins: dict[str, list[float]] = {}
    for row in rows:
        x, y = lines.setdefault(row["attention"], ([], []))
        x += [row["p"]] if row["p"] else [sizes[0] / 2, sizes[-1] * 2]
        y += [row["test"]] * (1 if row["p"] else 2)
        if row["std"] is not None:
            margins.setdefault(row["attention"], []).extend([row["std"]] * (1 if row["p"] else 2))
    flat = tuple(row["attention"] for row in rows if row["p"] is None)
    title = f"Test score on {dataset}"
    note = OVER_SEEDS if margins else "one seed: no error bars"
    return Series(title, "p", lines, flat, True, margins, note)


def rba_evaluation(
    *,
    quick: bool = False,
    recipe: str = "sgformer-digits-rba",
    partitions: Annotated[Count, Field(ge=2)] = 8,
) -> Study:
    """Standard deviation of predictions over partitions, and how it falls by averaging.

    Args:
        quick: train for 20 epochs.
        recipe: a shipped recipe, or a file, whose model has `attention: rba`; its first seed runs.
        partitions: number of partitions (seeds) for the standard deviation.
    """
    changes = ["train.epochs=20"] if quick else []
    plan = resolve(load_recipe(recipe, changes, trust=True), trust=True)
    attention = plan.model.get("attention")
    if not isinstance(attention, dict) or attention["name"] != "rba":
        raise ZooError(f"{recipe} has no `attention: rba`; choose a recipe that has.")
    answers = _Answers(plan, attention)
    draws = [1, 2, 4, 8]
    table = [answers.row(f"mean of {count}", _mean(count), partitions) for count in draws]
    table.append(answers.row("full", {"inference": "full"}, 1))
    spreads = [row["spread"] for row in table[:-1]]
    slope = float(np.polyfit(np.log(draws), np.log(spreads), 1)[0])
    straight = [spreads[0] * count**-0.5 for count in draws]
    lines = {"measured": (draws, spreads), "slope -1/2": (draws, straight)}
    plot = Series("Spread of probabilities over partitions", "draws", lines, dashed=("slope -1/2",))
    row = Row("slope of the spread in the number of partitions averaged", slope, -0.5, 0.3)
    return Study("rba-evaluation", [row], [plot], table)


def _mean(draws: int) -> dict[str, Any]:
    return {"inference": "mean", "draws": draws}


class _Answers:
    """A trained model whose weights are evaluated in several ways."""

    def __init__(self, plan: Plan, attention: dict[str, Any]):
        self.prepared, self.attention = prepare(plan), attention
        self.split = self.prepared.splits[0]
        seed_everything(plan.recipe.seeds[0])
        model = self._model({})
        if fit(model, self.prepared.on(self.split), **plan.train).interrupted:
            raise KeyboardInterrupt
        self.weights = copy.deepcopy(model.state_dict())

    def row(self, name: str, options: dict[str, Any], partitions: int) -> dict[str, Any]:
        """Return the test score, and the standard deviations of score and probabilities."""
        start = time.perf_counter()
        # Seeds far apart: no two evaluations share a partition.
        logits = torch.stack(
            [self._logits({**options, "seed": 1000 + i}) for i in range(partitions)]
        )
        seconds = (time.perf_counter() - start) / partitions
        test = self.split.test
        y, metric = self.prepared.data.y[test], self.prepared.task.metric
        scores = [metric(each[test], y) for each in logits]
        shares = _probabilities(logits[:, test])
        return {
            "inference": name,
            "test": round(float(np.mean(scores)), 4),
            "std": round(float(np.std(scores)), 4),
            "spread": float(f"{shares.std(0).mean():.3g}") if partitions > 1 else 0.0,
            "seconds": round(seconds, 3),
        }

    def _logits(self, options: dict[str, Any]) -> Tensor:
        model = self._model(options)
        model.load_state_dict(self.weights)
        return all_logits(model, self.prepared.data)

    def _model(self, options: dict[str, Any]):
        data, task = self.prepared.data, self.prepared.task
        spec = {**self.prepared.plan.model, "attention": {**self.attention, **options}}
        return create_model(spec.pop("name"), data.x.shape[1], task.outputs(data.classes), **spec)


def _probabilities(logits: Tensor) -> Tensor:
    return logits.softmax(-1) if logits.shape[-1] > 1 else logits.sigmoid()
