"""What a run's folder says of itself: recipe, scores, the epochs of each seed and why it ended.

A run that goes on, or was killed, is told as far as it is. Nothing of the folder is run, and every
value is of the kind that it should be: the folder may be anybody's.
"""

import contextlib
import dataclasses
import os
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoo.config.metadata import without_paths
from zoo.config.options import Count, Seed
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
from zoo.weights.folder import CONFIG, read_config

_Score = Annotated[float, Field(allow_inf_nan=False)]

PATIENCE, END, INTERRUPTED, TRAINING, ENDED = (
    "patience",
    "last epoch",
    "interrupted",
    "in training",
    "ended early",
)
"""Why a seed stopped: no better validation score came, all epochs were trained, Ctrl-C; or it is
still going on; or its process ended before it."""


class Line(BaseModel):
    """What is read of a line of `metrics.jsonl`."""

    model_config = ConfigDict(strict=True, frozen=True)

    seed: Seed
    epoch: Annotated[int, Field(ge=0, le=2**32)]
    of: Count
    loss: _Score
    val: _Score | None
    best: _Score | None = None
    best_epoch: Annotated[int, Field(ge=-1, le=2**32)] = -1
    last: bool = False


@dataclasses.dataclass(frozen=True)
class Curve:
    """The epochs of a seed, in order, counted from 1 as people do; in files they are from 0.

    Attributes:
        seed: which.
        lines: those that are known.
        stop: why it stopped.
        best: epoch of the best validation score and that score, or None; 0 as the weights came.
    """

    seed: int
    lines: list[Line]
    stop: str
    best: tuple[int, float] | None

    @property
    def losses(self) -> list[tuple[float, float]]:
        """Return epoch and training loss."""
        return [(each.epoch + 1, each.loss) for each in self.lines]

    @property
    def scores(self) -> list[tuple[float, float]]:
        """Return epoch and validation score, where one was taken."""
        return [(each.epoch + 1, each.val) for each in self.lines if each.val is not None]

    @property
    def last(self) -> int:
        """Return the last epoch."""
        return self.lines[-1].epoch + 1


@dataclasses.dataclass(frozen=True)
class History:
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
    begun = read_environment(folder)
    path, _ = read_recipe(folder, begun and begun.recipe_sha256)
    recipe = parsed(path).plain()
    summary = read_summary(folder) if os.path.lexists(folder / "summary.json") else None
    known = {each["seed"]: each for each in (summary or {"seeds": []})["seeds"]}
    for seed in recipe["seeds"]:
        if (scores := read_scores(folder, seed)) is not None:
            known[seed] = scores
    results = [known[seed] for seed in recipe["seeds"] if seed in known]
    lines, remarks = read_lines(folder / METRICS)
    done = len(results) == len(recipe["seeds"]) and not any(x["interrupted"] for x in results)
    going = not done and _is_held(folder)
    curves = [_curve(seed, lines[seed], known.get(seed), going) for seed in recipe["seeds"]
              if seed in lines]  # fmt: skip
    about = _about(folder, results)
    ended = INTERRUPTED if any(each["interrupted"] for each in results) else ENDED
    return History(
        folder=folder,
        name=begun.recipe if begun else folder.name,
        recipe=recipe,
        environment=begun,
        results=results,
        curves=curves,
        metric=summary["metric"] if summary else about and about.metric,
        data=word(without_paths(recipe)["dataset"]),
        task=about and about.task,
        state="finished" if done else TRAINING if going else ended,
        summary=summary,
        remarks=remarks,
    )


def read_lines(path: Path) -> tuple[dict[int, list[Line]], list[str]]:
    """Return the lines of epochs by seed, and sentences about those that are missing.

    A last line without its end is being written, or was when the run was killed.
    """
    found: dict[int, dict[int, Line]] = {}
    for _, text in parse_metrics(path.read_bytes() if path.exists() else b""):
        with contextlib.suppress(ValidationError):
            line = Line.model_validate(text)
            found.setdefault(line.seed, {})[line.epoch] = line  # the last one of an epoch holds
    lines = {seed: [own[epoch] for epoch in sorted(own)] for seed, own in found.items()}
    gaps = Counter({seed: own[-1].epoch + 1 - len(own) for seed, own in lines.items()})
    lost = sum(gaps.values())
    said = f"{path.name} is damaged: {lost:,} epochs are missing in the curves."
    return lines, [said] if lost else []


def _curve(seed: int, lines: list[Line], result: dict[str, Any] | None, going: bool) -> Curve:
    last = lines[-1]
    if result is None or (going and result["interrupted"]):
        best = None if last.best is None else (last.best_epoch + 1, last.best)
        return Curve(seed, lines, TRAINING if going else ENDED, best)
    stop = END if last.epoch + 1 >= last.of else PATIENCE
    stop = INTERRUPTED if result["interrupted"] else stop
    return Curve(seed, lines, stop, (result["epoch"] + 1, result["val"]))


def _about(folder: Path, results: list[dict[str, Any]]):
    """Return what the weights of the first seed that has some say of themselves, or None."""
    paths = (folder / f"seed-{each['seed']}" / CONFIG for each in results)
    return next((read_config(path)["about"] for path in paths if path.is_file()), None)


def _is_held(folder: Path) -> bool:
    """Whether another process is training the run."""
    try:
        with held(folder):
            return False
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
