"""What a run's folder says of itself: recipe, scores, the epochs of each seed and why it ended.

A run that goes on, or was killed, is read as far as it is. Nothing of the folder is run.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from zoo.config.metadata import without_paths
from zoo.config.recipe import read_recipe as parsed
from zoo.config.recipe import word
from zoo.runs.run_folder import (
    METRICS,
    Environment,
    need_run,
    parse_metrics,
    read_environment,
    read_recipe,
    read_scores,
    read_summary,
)
from zoo.system.files import held
from zoo.weights.files import CONFIG, read_config

PATIENCE, END, INTERRUPTED, TRAINING, ENDED = (
    "patience",
    "last epoch",
    "interrupted",
    "in training",
    "ended early",
)
"""Why a seed stopped: no better validation score came, all epochs were trained, Ctrl-C; or it is
still in training; or its process ended before."""


class Curve(NamedTuple):
    """The epochs of a seed, in order, counted from 1 as people do; in files they are from 0.

    Attributes:
        seed: the seed.
        losses: training loss by epoch.
        scores: validation score by epoch, where there is one.
        stop: why it stopped.
        best: epoch of the best validation score and that score, or None; 0 as the weights came.
    """

    seed: int
    losses: dict[int, float]
    scores: dict[int, float]
    stop: str
    best: tuple[int, float] | None


class History(NamedTuple):
    """What a run says of itself.

    Attributes:
        folder: the run's.
        name: of its recipe.
        recipe: plain data, every value written out.
        environment: where it was begun, None where that is not known.
        results: what came of each seed that has some weights, as in `summary.json`.
        curves: of each seed that was begun.
        metric: what scores measure, None where it is not known.
        data: name of the data set.
        task: its word, None where it is not known.
        state: `finished`, `in training`, `interrupted` or `ended early`.
        summary: content of `summary.json`, None where there is none yet.
        remarks: sentences about what is damaged.
    """

    folder: Path
    name: str
    recipe: dict[str, Any]
    environment: Environment | None
    results: list[dict[str, Any]]
    curves: list[Curve]
    metric: str | None
    data: str
    task: str | None
    state: str
    summary: dict[str, Any] | None
    remarks: list[str]

    def public_recipe(self) -> dict[str, Any]:
        """Return the recipe with names in the place of paths: a page is passed on."""
        return without_paths(self.recipe)


def read_history(folder: Path) -> History:
    """Read the folder of a run.

    Raises:
        ZooError: it is none, or a file that scores depend on is damaged.
    """
    need_run(folder)
    environment = read_environment(folder)
    path, _ = read_recipe(folder, environment and environment.recipe_sha256)
    recipe = parsed(path).plain()
    summary = read_summary(folder) if os.path.lexists(folder / "summary.json") else None
    by_seed = {result["seed"]: result for result in (summary or {"seeds": []})["seeds"]}
    for seed in recipe["seeds"]:
        if (scores := read_scores(folder, seed)) is not None:
            by_seed[seed] = scores
    results = [by_seed[seed] for seed in recipe["seeds"] if seed in by_seed]
    metrics, remarks = read_metrics(folder / METRICS)
    interrupted = any(result["interrupted"] for result in results)
    done = len(results) == len(recipe["seeds"]) and not interrupted
    going = not done and _is_held(folder)
    curves = [_curve(seed, metrics.loc[metrics["seed"] == seed], by_seed.get(seed), going)
              for seed in recipe["seeds"] if (metrics["seed"] == seed).any()]  # fmt: skip
    # What the weights of the first seed that has some say of themselves.
    paths = (folder / f"seed-{result['seed']}" / CONFIG for result in results)
    about = next((read_config(path)["about"] for path in paths if path.is_file()), None)
    ended = INTERRUPTED if interrupted else ENDED
    return History(
        folder=folder,
        name=environment.recipe if environment else folder.name,
        recipe=recipe,
        environment=environment,
        results=results,
        curves=curves,
        metric=summary["metric"] if summary else about and about.metric,
        data=word(without_paths(recipe)["dataset"]),
        task=about and about.task,
        state="finished" if done else TRAINING if going else ended,
        summary=summary,
        remarks=remarks,
    )


def read_metrics(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """Return the epochs of all seeds, a row each, and sentences about those that are missing.

    A last line without its end is being written, or was when the run was killed.
    """
    lines = [line for _, line in parse_metrics(path.read_bytes() if path.exists() else b"")]
    columns = ["seed", "epoch", "of", "loss", "val", "best", "best_epoch"]
    metrics = pd.DataFrame(lines, columns=columns)
    metrics = metrics.drop_duplicates(["seed", "epoch"], keep="last")  # of a run that went on
    metrics = metrics.sort_values(["seed", "epoch"])
    epochs = metrics.groupby("seed")["epoch"]
    missing = int((epochs.max() + 1 - epochs.size()).sum())
    damaged = f"{path.name} is damaged: {missing:,} epochs are missing in the curves."
    return metrics, [damaged] if missing else []


def _curve(seed: int, metrics: pd.DataFrame, result: dict[str, Any] | None, going: bool) -> Curve:
    last, epochs = metrics.iloc[-1], metrics["epoch"] + 1
    losses, scores = (metrics[column].set_axis(epochs).dropna().to_dict()
                      for column in ("loss", "val"))  # fmt: skip
    if result is None or (going and result["interrupted"]):
        best = None if pd.isna(last["best"]) else (int(last["best_epoch"]) + 1, last["best"])
        return Curve(seed, losses, scores, TRAINING if going else ENDED, best)
    stop = END if last["epoch"] + 1 >= last["of"] else PATIENCE
    stop = INTERRUPTED if result["interrupted"] else stop
    return Curve(seed, losses, scores, stop, (result["epoch"] + 1, result["val"]))


def _is_held(folder: Path) -> bool:
    """Whether another process is training the run."""
    try:
        with held(folder):
            return False
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
