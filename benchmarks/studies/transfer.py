"""Transfer learning with few labels: does pretraining on one Twitch graph help on another?

Models are pretrained on the users of one country; those of other countries have the same features
and the same classes, whether a user streams games with explicit language. Each fine-tuned run is
paired with one from scratch, with the same split, seed and epochs: the result is their difference.
"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, PositiveInt
from scipy import stats
from study import OVER_SEEDS, Row, Series, Study, run
from tqdm import tqdm

from zoo import load_recipe, run_recipe

MODELS: dict[str, dict[str, Any]] = {
    "gcn": {"name": "gcn", "dim": 64, "layers": 2, "norm": "none", "residual": False},
    "sgformer": {"name": "sgformer", "dim": 64, "graph_layers": 2},
    "sgformer, rba": {"name": "sgformer", "dim": 64, "graph_layers": 2, "attention": "rba"},
    "polynormer": {
        "name": "polynormer",
        "dim": 64,
        "local_layers": 3,
        "global_layers": 1,
        "local_epochs": 20,
        "propagation": "gcn",
        "norm": "none",
    },
}
"""Name to model: two propagations each, or three gated ones."""

BASELINES = ("gcn",)

SOURCE, TARGETS = "twitch-de", ["twitch-engb", "twitch-fr", "twitch-ru"]

LABELS = (1, 5, 50)
"""Percentages of the target's labels for training; another 10 are for validation."""

LABELLED = "% of the labels"

TRAIN = {"lr": 0.01, "weight_decay": 5e-4}


class Pair(NamedTuple):
    """Test scores of runs from scratch and of fine-tuned ones, seed by seed."""

    scratch: list[float]
    tuned: list[float]

    @property
    def gain(self) -> float:
        """Mean of the paired differences."""
        return statistics.fmean(self._differences())

    @property
    def margin(self) -> float:
        """Half the width of its 95 % confidence interval, by a paired t-test."""
        differences = self._differences()
        quantile = stats.t.ppf(0.975, len(differences) - 1)
        return float(quantile * statistics.stdev(differences) / len(differences) ** 0.5)

    def _differences(self) -> list[float]:
        return [each - other for each, other in zip(self.tuned, self.scratch, strict=True)]


def transfer_study(
    *,
    quick: bool = False,
    source: Annotated[str, Field(min_length=1)] = SOURCE,
    targets: Annotated[list[str], Field(min_length=1)] = TARGETS,
    seeds: Annotated[int, Field(ge=2)] = 5,
    epochs: PositiveInt = 60,
) -> Study:
    """Test score of fine-tuned models and of models from scratch, against the share of labels.

    Args:
        quick: two models, one target, one share of the labels, two seeds, few epochs.
        source: the data set of the pretraining.
        targets: data sets with the same features and classes.
        seeds: number of pairs of runs.
        epochs: of every training on a target; pretraining has twice as many.
    """
    labels, models = LABELS, list(MODELS)
    if quick:
        targets, labels, models = targets[:1], LABELS[1:2], models[:2]
        seeds, epochs = 2, min(epochs, 10)
    found: dict[tuple[str, str, int], Pair] = {}
    total = len(models) * (1 + len(targets) * len(labels))
    # tqdm draws on standard error, and nothing at all where that is not a terminal.
    with tempfile.TemporaryDirectory() as folder, tqdm(total=total, disable=None) as bar:
        for model in models:
            at = Path(folder)
            weights = _train(at, model, source, "ratio-80-10-10", list(range(seeds)), 2 * epochs)
            bar.update()
            for target in targets:
                for share in labels:
                    split = {"name": "ratio", "train": share, "val": 10, "test": 90 - share}
                    found[model, target, share] = _pair(
                        at, model, target, split, Path(weights["folder"]), seeds, epochs
                    )
                    bar.update()
    table = [_line(*key, pair) for key, pair in found.items()]
    rows = [] if quick else _rows(found, targets)  # two pairs are too few for a claim
    plots = [draw(found, each) for draw in (_scores, _gains) for each in targets]
    return Study("transfer", rows, plots, table)


def _pair(
    at: Path, model: str, target: str, split: dict[str, Any], weights: Path, seeds: int, epochs: int
) -> Pair:
    every = list(range(seeds))
    scratch = _train(at, model, target, split, every, epochs)
    tuned = [
        _train(at, model, target, split, [seed], epochs, weights / f"seed-{seed}") for seed in every
    ]
    return Pair(
        [each["test"] for each in scratch["seeds"]],
        [each["seeds"][0]["test"] for each in tuned],
    )


def _train(
    at: Path,
    model: str,
    dataset: str,
    split: str | dict[str, Any],
    seeds: list[int],
    epochs: int,
    weights: Path | None = None,
) -> dict[str, Any]:
    """Run a recipe, as `zoo train` and `zoo finetune` do; return its summary."""
    recipe = {
        "dataset": {"name": dataset, "split": split},
        "model": MODELS[model],
        "train": {**TRAIN, "epochs": epochs},
        "seeds": seeds,
        "start_from": weights and {"weights": str(weights)},
    }
    summary = run_recipe(load_recipe(recipe), runs=at)
    if summary["interrupted"]:
        raise KeyboardInterrupt
    return summary


def _rows(found: dict[tuple[str, str, int], Pair], targets: list[str]) -> list[Row]:
    """Return on how many targets the best transformer gains significantly with fewest labels."""
    fewest = min(share for _, _, share in found)
    wins = {
        model: sum(_wins(found[model, target, fewest]) for target in targets)
        for model in dict.fromkeys(model for model, _, _ in found)
        if model not in BASELINES
    }
    best = max(wins, key=wins.__getitem__)
    name = f"targets won clearly with {fewest} % of the labels, {best}"
    return [Row(name, wins[best], len(targets), 0.34)]  # two of three will do


def _wins(pair: Pair) -> bool:
    return pair.gain > pair.margin


def _line(model: str, target: str, share: int, pair: Pair) -> dict[str, Any]:
    return {
        "model": model,
        "target": target,
        "labels %": share,
        "from scratch": _spread(pair.scratch),
        "from weights": _spread(pair.tuned),
        "gain": f"{pair.gain:+.4f} ± {pair.margin:.4f}",
        "clear": "yes" if _wins(pair) else "no",
    }


def _spread(scores: list[float]) -> str:
    return f"{statistics.fmean(scores):.4f} ± {statistics.stdev(scores):.4f}"


def _scores(found: dict[tuple[str, str, int], Pair], target: str) -> Series:
    """Return the test scores against the share of labels, those from scratch dashed."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    margins: dict[str, list[float]] = {}
    for (model, at, share), pair in found.items():
        if at == target:
            for label, scores in (("", pair.tuned), (", from scratch", pair.scratch)):
                x, y = lines.setdefault(model + label, ([], []))
                x.append(share)
                y.append(statistics.fmean(scores))
                margins.setdefault(model + label, []).append(statistics.stdev(scores))
    scratch = tuple(name for name in lines if name.endswith("scratch"))
    return Series(f"Test score on {target}", LABELLED, lines, scratch, True, margins, OVER_SEEDS)


def _gains(found: dict[tuple[str, str, int], Pair], target: str) -> Series:
    """Return the mean paired differences against the share of labels."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    margins: dict[str, list[float]] = {}
    for (model, at, share), pair in found.items():
        if at == target:
            x, y = lines.setdefault(model, ([], []))
            x.append(share)
            y.append(pair.gain)
            margins.setdefault(model, []).append(pair.margin)
    x = next(iter(lines.values()))[0]
    lines["no gain"] = (x, [0.0] * len(x))
    note = "bars: 95 % confidence interval of the paired differences"
    title = f"Gain over scratch on {target}"
    return Series(title, LABELLED, lines, ("no gain",), True, margins, note)


if __name__ == "__main__":
    run(transfer_study)
