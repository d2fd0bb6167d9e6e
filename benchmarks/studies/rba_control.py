"""Random batches in training, beside a control: a model with its own attention.

SGFormer divides queries and keys by one Frobenius norm over all N nodes, so that its attention term
is of order 1/N; inside a batch of p nodes it is of order 1/p. Random batches thus scale the
attention term by N/p, and a comparison with the published accuracy confounds the two effects. With
`qk_norm: row` the scale does not depend on N.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt
from study import OVER_SEEDS, Series, Study, run

from zoo import MODELS, Recipe, ZooError, list_models, load_recipe
from zoo.config.options import options_of
from zoo.config.shipped import recipe_names
from zoo.errors import unknown
from zoo.runs.compare import candidate, compare
from zoo.runs.resolve import UNTUNED, write_out

DATASETS = ["cora", "chameleon"]
SIZES = [64, 256, 1024]
QUICK = ["train.epochs=10", "seeds=[0]"]
SHORT = ["train.epochs=120", "train.patience=40", "seeds=[0, 1, 2]"]
"""Overrides of the recipes: all attentions are compared under one short training."""


def rba_control(
    *,
    quick: bool = False,
    model: str = "sgformer",
    dataset: Annotated[list[str], Field(min_length=1)] = DATASETS,
    sizes: Annotated[list[PositiveInt], Field(min_length=1)] = SIZES,
) -> Study:
    """Accuracy, time and memory of a model with its own attention, random batches, and softmax.

    Args:
        quick: a random graph, one seed, one size, without softmax.
        model: a model with an `attention` option.
        dataset: names of data sets; recipes called MODEL-DATASET are used.
        sizes: nodes per batch, p.
    """
    if model not in list_models(attention="rba"):
        raise ZooError(
            unknown("model with an `attention` option", model, list_models(attention="rba"))
        )
    names = ["sbm"] if quick else dataset
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
        candidate(load_recipe(plain, changes), name=_label(*key)) for key, changes in chosen.items()
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


if __name__ == "__main__":
    run(rba_control)
