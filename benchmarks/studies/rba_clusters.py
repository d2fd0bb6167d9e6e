"""Random batches against METIS parts of the same size, and both in turn.

Random Batch Attention deals the nodes at random; CoBFormer (arXiv 2405.01102) has them attend
inside of parts that cut few edges. One model, one size p, four ways: `random` batches, `clusters`,
`both` (the first layer in clusters, the second in random batches), and clusters whose `means`
attend to each other. Learning rate and dropout of each way are those of the best validation score
on a seed that is not counted. The others are paired with random batches, split by split and seed
by seed.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PositiveInt
from scipy import stats
from study import Row, Study, run
from tqdm import tqdm

from zoo import load_recipe, run_recipe

DATASETS = ["cora", "citeseer", "chameleon", "actor"]
MODELS = ["transformer", "graphgps"]
"""Attention that knows the graph by its encoding alone, and attention beside propagation."""

WAYS: dict[str, dict[str, Any]] = {
    "random": {"name": "rba"},
    "clusters": {"name": "clusters"},
    "both": {"name": "clusters", "alternate": True},
    "means": {"name": "clusters", "means": True},
}
SETTINGS = [{"lr": 0.01, "dropout": 0.5}, {"lr": 0.003, "dropout": 0.2}]
DATA = {name: {"name": name, "split": "ratio-60-20-20"} for name in ("cora", "citeseer")}
"""Graphs whose own split is one alone, and of few nodes."""


def rba_clusters(
    *,
    quick: bool = False,
    model: Annotated[list[str], Field(min_length=1)] = MODELS,
    dataset: Annotated[list[str], Field(min_length=1)] = DATASETS,
    size: PositiveInt = 128,
    dim: PositiveInt = 32,
    epochs: PositiveInt = 50,
    seeds: Annotated[int, Field(ge=2)] = 5,
) -> Study:
    """Test score of a model with random batches, with METIS parts, and with both in turn.

    Args:
        quick: a random graph, one model, two seeds, few epochs.
        model: models of layers, with an `attention` option.
        dataset: names of data sets.
        size: nodes per batch, and per cluster.
        dim: width of the models, of two layers and two heads.
        epochs: of every training, at most.
        seeds: number of pairs of runs.
    """
    if quick:
        dataset, model, size, seeds, epochs = ["sbm"], model[:1], 64, 2, min(epochs, 5)
    table, rows = [], []
    cases = [(each, name) for each in model for name in dataset]
    # tqdm draws on standard error, and nothing at all where that is not a terminal.
    with tempfile.TemporaryDirectory() as folder:
        for each, name in tqdm(cases, unit="case", disable=None):
            budget = {"epochs": epochs, "weight_decay": 5e-4, "patience": epochs}
            found = {
                way: _chosen(Path(folder), name, {**_made(each, dim), "attention": spec}, budget,
                             size, seeds)
                for way, spec in WAYS.items()
            }  # fmt: skip
            table += [_line(each, name, way, found) for way in WAYS]
            means = {way: statistics.fmean(_tests(summary)) for way, summary in found.items()}
            rows += [
                Row(f"{each}, {name}: {way} by random", means[way], means["random"], math.inf)
                for way in WAYS
                if way != "random"
            ]
    return Study("rba-clusters", rows, table=table)


def _made(model: str, dim: int) -> dict[str, Any]:
    return {"name": model, "dim": dim, "layers": 2, "heads": 2}


def _chosen(
    at: Path, dataset: str, model: dict[str, Any], budget: dict[str, Any], size: int, seeds: int
) -> dict[str, Any]:
    """Return the summary of the seeds, with what is best on another seed by validation."""
    tried = [
        _train(at, dataset, model, budget, size, setting, [seeds])["val"]["mean"]
        for setting in SETTINGS
    ]
    best = SETTINGS[tried.index(max(tried))]
    return {**_train(at, dataset, model, budget, size, best, list(range(seeds))), "setting": best}


def _train(
    at: Path,
    dataset: str,
    model: dict[str, Any],
    budget: dict[str, Any],
    size: int,
    setting: dict[str, float],
    seeds: list[int],
) -> dict[str, Any]:
    """Run a recipe, as `zoo train` does; return its summary."""
    attention = {**model["attention"], "size": size}
    recipe = {
        "dataset": DATA.get(dataset, dataset),
        "encoding": {"name": "laplacian", "k": 16},
        "model": {**model, "attention": attention, "dropout": setting["dropout"]},
        "train": {**budget, "lr": setting["lr"]},
        "seeds": seeds,
    }
    summary = run_recipe(load_recipe(recipe), runs=at)
    if summary["interrupted"]:
        raise KeyboardInterrupt
    return summary


def _tests(summary: dict[str, Any]) -> list[float]:
    return [each["test"] for each in summary["seeds"]]


def _gain(found: dict[str, dict[str, Any]], way: str) -> tuple[float, float]:
    """Return the mean paired difference from random batches, and half its 95 % interval."""
    pairs = zip(_tests(found[way]), _tests(found["random"]), strict=True)
    differences = [one - other for one, other in pairs]
    quantile = stats.t.ppf(0.975, len(differences) - 1)
    margin = quantile * statistics.stdev(differences) / len(differences) ** 0.5
    return statistics.fmean(differences), float(margin)


def _line(model: str, dataset: str, way: str, found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    scores, (gain, margin) = _tests(found[way]), _gain(found, way)
    return {
        "model": model,
        "dataset": dataset,
        "way": way,
        "test": f"{statistics.fmean(scores):.4f} ± {statistics.stdev(scores):.4f}",
        "against random": "" if way == "random" else f"{gain:+.4f} ± {margin:.4f}",
        "ms/epoch": round(1000 * found[way]["seconds_per_epoch"]),
        **found[way]["setting"],
    }


if __name__ == "__main__":
    run(rba_clusters)
