"""A run told to a tracker of experiments: `zoo train RECIPE --track tensorboard`.

A tracker is given every epoch as `metrics.jsonl` has it, with the memory held, and the scores of
each seed. It may fail: that is told once, and the run goes on without it. None of them uses the
network unless the variables of its own library say so.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.config.options import Table, pick
from zoo.errors import ZooError, optional, unknown
from zoo.system.files import sqlite, write_whole
from zoo.system.memory import held_now

PROJECT = "graph-transformer-zoo"

Line = Mapping[str, Any]


class _Csv:
    """`metrics.csv`, a row for each epoch, and `scores.csv`, one for each seed, beside the run."""

    def __init__(self, folder: Path, recipe: Line):
        self.folder, self.seed = folder, None

    def epoch(self, seed: int, told: Line) -> None:
        """Add a row; those of a training that was resumed replace what came after its epoch."""
        path, row = self.folder / "metrics.csv", {"seed": seed, **told}
        if seed == self.seed:
            with path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, row).writerow(row)
            return
        _write(path, row, lambda known: (known.seed != seed) | (known.epoch < told["epoch"]))
        self.seed = seed

    def end(self, seed: int, scores: Line) -> None:
        path, row = self.folder / "scores.csv", {"seed": seed, **scores}
        _write(path, row, lambda known: known.seed != seed)

    def close(self) -> None:
        pass


def _write(path: Path, row: Line, kept: Callable) -> None:
    """Write a table's rows that are kept, and one more."""
    import pandas

    known = pandas.read_csv(path) if path.exists() else pandas.DataFrame(columns=list(row))
    rows = [*known[kept(known)].to_dict("records"), row]
    write_whole(path, lambda draft: pandas.DataFrame(rows).to_csv(draft, index=False))


class _TensorBoard:
    """Event files in the run's folder, `tensorboard/seed-<s>`: `tensorboard --logdir runs`."""

    def __init__(self, folder: Path, recipe: Line):
        self.writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self.folder, self.recipe, self.open = folder, recipe, {}

    def epoch(self, seed: int, told: Line) -> None:
        if seed not in self.open:
            folder = self.folder / "tensorboard" / f"seed-{seed}"
            self.open[seed] = self.writer(str(folder), purge_step=told["epoch"])
            self.open[seed].add_text("recipe", f"```\n{json.dumps(self.recipe, indent=2)}\n```")
        for name, value in _numbers(told).items():
            self.open[seed].add_scalar(name, value, told["epoch"])

    def end(self, seed: int, scores: Line) -> None:
        if seed in self.open:
            found = {f"score/{name}": value for name, value in _numbers(scores).items()}
            self.open[seed].add_hparams(_flat(self.recipe), found, run_name=".")
            self.open.pop(seed).close()

    def close(self) -> None:
        while self.open:
            self.open.popitem()[1].close()


class _WeightsAndBiases:
    """A run of wandb for each seed, grouped by the run's folder, in `wandb/` beside that.

    It stays on this machine, for `wandb sync`, unless WANDB_MODE is set to `online`.
    """

    def __init__(self, folder: Path, recipe: Line):
        self.wandb = _library("wandb")
        self.folder, self.recipe, self.run, self.seed = folder, recipe, None, None

    def epoch(self, seed: int, told: Line) -> None:
        if self.seed != seed:
            self.close()
            self.run, self.seed = self._begin(seed), seed
        self.run.log(_numbers(told), step=told["epoch"])

    def _begin(self, seed: int) -> Any:
        own = f"{self.folder.resolve()} {seed}"
        return self.wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=hashlib.sha256(own.encode()).hexdigest()[:16],
            name=f"{self.folder.name}-seed-{seed}",
            group=self.folder.name,
            dir=str(self.folder.parent),
            config={**self.recipe, "seed": seed, "folder": str(self.folder.resolve())},
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            settings=self.wandb.Settings(silent=True, console="off"),
        )

    def end(self, seed: int, scores: Line) -> None:
        if self.seed == seed:
            self.run.summary.update({f"best/{key}": each for key, each in scores.items()})
        self.close()

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()
        self.run = self.seed = None


class _MlFlow:
    """A run of mlflow, with one inside for each seed, in `mlflow.db` beside the run's folder.

    MLFLOW_TRACKING_URI names another store, or a server.
    """

    def __init__(self, folder: Path, recipe: Line):
        mlflow, self.entities = _library("mlflow"), importlib.import_module("mlflow.entities")
        store = sqlite(folder.parent.resolve() / "mlflow.db")
        self.client = mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", store))
        self.folder, self.recipe, self.parent = folder, recipe, None
        self.runs, self.waiting, self.written = {}, [], 0.0

    def epoch(self, seed: int, told: Line) -> None:
        """Log the epoch as a step; what comes within a second is written together."""
        own = self._run(seed)
        at = int(time.time() * 1000), told["epoch"]
        told = _numbers(told)
        self.waiting += [(own, self.entities.Metric(key, told[key], *at)) for key in told]
        if time.monotonic() - self.written > 1:
            self._flush()

    def end(self, seed: int, scores: Line) -> None:
        own = self._run(seed)
        self._flush()
        for name, value in _numbers(scores).items():
            self.client.log_metric(own, f"best/{name}", value)
        self.client.set_terminated(self.runs.pop(seed))

    def close(self) -> None:
        """Write what waits; the run of a seed that has not come to its end is ended as killed."""
        self._flush()
        status = "KILLED" if self.runs else "FINISHED"
        for each in [*self.runs.values(), *([self.parent] if self.parent else [])]:
            self.client.set_terminated(each, status)

    def _flush(self) -> None:
        waiting, self.waiting, self.written = self.waiting, [], time.monotonic()
        for own in {each for each, _ in waiting}:
            metrics = [metric for each, metric in waiting if each == own]
            for start in range(0, len(metrics), 1000):  # the most that it takes at once
                self.client.log_batch(own, metrics[start : start + 1000])

    def _run(self, seed: int) -> str:
        """Return the run of a seed; that of a training that was ended goes on."""
        if self.parent is None:
            name = f"{PROJECT}-{self.recipe['model']['name']}"
            known = self.client.get_experiment_by_name(name)
            make = self.client.create_experiment
            self.experiment = known.experiment_id if known else make(name)
            place = str(self.folder.resolve())
            tags = {"run": hashlib.sha256(place.encode()).hexdigest(), "folder": place}
            self.parent = self._begin(self.folder.name, tags)
        if seed not in self.runs:
            tags = {"seed": str(seed), "mlflow.parentRunId": self.parent}
            self.runs[seed] = self._begin(f"{self.folder.name}-seed-{seed}", tags)
        return self.runs[seed]

    def _begin(self, name: str, tags: dict[str, str]) -> str:
        wanted = " and ".join(f"tags.`{key}` = '{tags[key]}'" for key in tags if key != "folder")
        if found := self.client.search_runs([self.experiment], wanted, max_results=1):
            self.client.update_run(found[0].info.run_id, status="RUNNING")
            return found[0].info.run_id
        own = self.client.create_run(self.experiment, tags=tags, run_name=name).info.run_id
        params = [self.entities.Param(key, str(value)[:500])
                  for key, value in _flat(self.recipe).items()]  # fmt: skip
        self.client.log_batch(own, params=params[:100])
        return own


TRACKERS = Table(
    "tracker",
    {"csv": _Csv, "tensorboard": _TensorBoard, "wandb": _WeightsAndBiases, "mlflow": _MlFlow},
)
"""Word to builder `(folder, recipe)` of an object with three methods.

`epoch(seed, told)` takes the numbers of an epoch: `epoch`, `loss`, `train`, `val`, `lr`, `seconds`,
`best`, `best_epoch`, `memory_bytes`; those of a training that was resumed come again.
`end(seed, scores)` takes what came of a seed, and `close()` writes what waits.
"""

_LIBRARIES = {"mlflow": "mlflow.tracking"}  # of the others it is called as the word is


def check_trackers(words: Sequence[str]) -> None:
    """Find out, before anything is trained, whether these trackers are there.

    Raises:
        ZooError: an unknown word, or one whose library is not installed.
    """
    for each in words:
        if each not in TRACKERS:
            raise ZooError(f"--track: {unknown('tracker', each, TRACKERS)}")
        _library(each)


class Trackers:
    """The trackers of a run; one that fails is left out from then on, which is told.

    Args:
        words: of `TRACKERS`.
        folder: the run's.
        recipe: plain data, every value of it.
        tell: is given a sentence where a tracker fails.
    """

    def __init__(self, words: Sequence[str], folder: Path, recipe: Line, tell: Callable):
        self._tell, self._trackers = tell, {}

        def begin(word: str) -> None:
            self._trackers[word] = pick(TRACKERS, word, folder, recipe)

        for word in dict.fromkeys(words):
            self._try(word, begin)

    def epoch(self, line: Line) -> None:
        """Tell all of them of an epoch, a line of `metrics.jsonl`."""
        if self._trackers:
            told = {key: line[key] for key in line if key not in ("seed", "last", "of")}
            self._each(lambda one: one.epoch(line["seed"], {**told, "memory_bytes": held_now()}))

    def end(self, result: Line) -> None:
        """Tell all of them what came of a seed."""
        kept = ("epoch", "train", "val", "test", "epochs", "seconds_per_epoch", "parameters")
        scores = {key: result[key] for key in kept}
        self._each(lambda one: one.end(result["seed"], scores))

    def close(self) -> None:
        """Have all of them write what waits."""
        self._each(lambda one: one.close())

    def _each(self, call: Callable[[Any], None]) -> None:
        for word in list(self._trackers):
            self._try(word, lambda word: call(self._trackers[word]))

    def _try(self, word: str, call: Callable[[str], None]) -> None:
        try:
            call(word)
        except Exception as error:  # of a library that is not ours, a disk, a server
            self._trackers.pop(word, None)
            [first, *_] = str(error).strip().splitlines() or [type(error).__name__]
            self._tell(f"--track {word}: {first[:300].rstrip('.')}. The run goes on without it.")


def _library(word: str) -> Any:
    """Return the library of a tracker.

    Raises:
        ZooError: it is not installed.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    if os.environ.get("WANDB_MODE", "offline") != "online":
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    return optional(_LIBRARIES.get(word, word), "track", f"--track {word}")


def _numbers(told: Line) -> dict[str, float]:
    return {key: float(each) for key, each in told.items() if isinstance(each, int | float)}


def _flat(recipe: Line) -> dict[str, Any]:
    """Return a recipe's values by dotted names, lists as text."""
    import pandas

    [found] = pandas.json_normalize(dict(recipe)).to_dict("records")
    return {key: str(value) if isinstance(value, list) else value
            for key, value in found.items() if value is not None}  # fmt: skip
