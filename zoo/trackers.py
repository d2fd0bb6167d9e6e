"""Trackers of experiments that log a run: `zoo train RECIPE --track tensorboard`.

A tracker logs every epoch as `metrics.jsonl` has it, with the memory in use, and the scores of
every seed. It may fail: that is printed once, and the run goes on without it. None of them uses the
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

Values = Mapping[str, Any]


class _Csv:
    """`metrics.csv`, a row for each epoch, and `scores.csv`, one for each seed, beside the run."""

    def __init__(self, folder: Path, recipe: Values):
        self.folder, self.seed = folder, None

    def epoch(self, seed: int, metrics: Values) -> None:
        """Add a row; those of a training that was resumed replace the rows after its epoch."""
        path, row = self.folder / "metrics.csv", {"seed": seed, **metrics}
        if seed == self.seed:
            with path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, row).writerow(row)
            return
        _write(path, row, lambda rows: (rows.seed != seed) | (rows.epoch < metrics["epoch"]))
        self.seed = seed

    def end(self, seed: int, scores: Values) -> None:
        row = {"seed": seed, **scores}
        _write(self.folder / "scores.csv", row, lambda rows: rows.seed != seed)

    def close(self) -> None:
        pass


def _write(path: Path, row: Values, keep: Callable) -> None:
    """Write the rows of a table for which `keep` is true, and one more."""
    import pandas

    table = pandas.read_csv(path) if path.exists() else pandas.DataFrame(columns=list(row))
    rows = [*table[keep(table)].to_dict("records"), row]
    write_whole(path, lambda draft: pandas.DataFrame(rows).to_csv(draft, index=False))


class _TensorBoard:
    """Event files in the run's folder, `tensorboard/seed-<s>`: `tensorboard --logdir runs`."""

    def __init__(self, folder: Path, recipe: Values):
        self.writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        self.folder, self.recipe, self.open = folder, recipe, {}

    def epoch(self, seed: int, metrics: Values) -> None:
        if seed not in self.open:
            folder = self.folder / "tensorboard" / f"seed-{seed}"
            self.open[seed] = self.writer(str(folder), purge_step=metrics["epoch"])
            self.open[seed].add_text("recipe", f"```\n{json.dumps(self.recipe, indent=2)}\n```")
        for name, value in _numbers(metrics).items():
            self.open[seed].add_scalar(name, value, metrics["epoch"])

    def end(self, seed: int, scores: Values) -> None:
        if seed in self.open:
            writer = self.open.pop(seed)
            named = {f"score/{name}": value for name, value in _numbers(scores).items()}
            writer.add_hparams(_flat(self.recipe), named, run_name=".")
            writer.close()

    def close(self) -> None:
        while self.open:
            self.open.popitem()[1].close()


class _WeightsAndBiases:
    """A run of wandb for each seed, grouped by the run's folder, in `wandb/` beside that.

    It stays on this machine, for `wandb sync`, unless WANDB_MODE is set to `online`.
    """

    def __init__(self, folder: Path, recipe: Values):
        self.wandb = _library("wandb")
        self.folder, self.recipe, self.run, self.seed = folder, recipe, None, None

    def epoch(self, seed: int, metrics: Values) -> None:
        if self.seed != seed:
            self.close()
            self.run, self.seed = self._begin(seed), seed
        self.run.log(_numbers(metrics), step=metrics["epoch"])

    def _begin(self, seed: int) -> Any:
        identity = f"{self.folder.resolve()} {seed}"  # the same when it goes on
        return self.wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=hashlib.sha256(identity.encode()).hexdigest()[:16],
            name=f"{self.folder.name}-seed-{seed}",
            group=self.folder.name,
            dir=str(self.folder.parent),
            config={**self.recipe, "seed": seed, "folder": str(self.folder.resolve())},
            mode=os.environ.get("WANDB_MODE", "offline"),
            resume="allow",
            settings=self.wandb.Settings(silent=True, console="off"),
        )

    def end(self, seed: int, scores: Values) -> None:
        if self.seed == seed:
            self.run.summary.update({f"best/{name}": value for name, value in scores.items()})
        self.close()

    def close(self) -> None:
        if self.run is not None:
            self.run.finish()
        self.run = self.seed = None


class _MlFlow:
    """A run of mlflow, with one inside for each seed, in `mlflow.db` beside the run's folder.

    MLFLOW_TRACKING_URI names another store, or a server.
    """

    def __init__(self, folder: Path, recipe: Values):
        mlflow, self.entities = _library("mlflow"), importlib.import_module("mlflow.entities")
        store = sqlite(folder.parent.resolve() / "mlflow.db")
        self.client = mlflow.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", store))
        self.folder, self.recipe, self.parent = folder, recipe, None
        self.runs, self.waiting, self.written = {}, {}, 0.0

    def epoch(self, seed: int, metrics: Values) -> None:
        """Log the epoch as a step; those of a second are written together."""
        run, now = self._run(seed), int(time.time() * 1000)
        self.waiting.setdefault(run, []).extend(
            self.entities.Metric(name, value, now, metrics["epoch"])
            for name, value in _numbers(metrics).items()
        )
        if time.monotonic() - self.written > 1:
            self._flush()

    def end(self, seed: int, scores: Values) -> None:
        run = self._run(seed)
        self._flush()
        for name, value in _numbers(scores).items():
            self.client.log_metric(run, f"best/{name}", value)
        self.client.set_terminated(self.runs.pop(seed))

    def close(self) -> None:
        """Write what waits; the run of a seed that was not finished ends as killed."""
        self._flush()
        status = "KILLED" if self.runs else "FINISHED"
        for run in [*self.runs.values(), *([self.parent] if self.parent else [])]:
            self.client.set_terminated(run, status)

    def _flush(self) -> None:
        waiting, self.waiting, self.written = self.waiting, {}, time.monotonic()
        for run, metrics in waiting.items():
            for start in range(0, len(metrics), 1000):  # the most that it takes at once
                self.client.log_batch(run, metrics[start : start + 1000])

    def _run(self, seed: int) -> str:
        """Return the run of a seed; that of a training that was ended goes on."""
        if self.parent is None:
            name = f"{PROJECT}-{self.recipe['model']['name']}"
            experiment = self.client.get_experiment_by_name(name)
            create = self.client.create_experiment
            self.experiment = experiment.experiment_id if experiment else create(name)
            folder = str(self.folder.resolve())
            tags = {"run": hashlib.sha256(folder.encode()).hexdigest(), "folder": folder}
            self.parent = self._begin(self.folder.name, tags)
        if seed not in self.runs:
            tags = {"seed": str(seed), "mlflow.parentRunId": self.parent}
            self.runs[seed] = self._begin(f"{self.folder.name}-seed-{seed}", tags)
        return self.runs[seed]

    def _begin(self, name: str, tags: dict[str, str]) -> str:
        wanted = " and ".join(f"tags.`{key}` = '{tags[key]}'" for key in tags if key != "folder")
        if runs := self.client.search_runs([self.experiment], wanted, max_results=1):
            self.client.update_run(runs[0].info.run_id, status="RUNNING")
            return runs[0].info.run_id
        run = self.client.create_run(self.experiment, tags=tags, run_name=name).info.run_id
        params = [self.entities.Param(key, str(value)[:500])
                  for key, value in _flat(self.recipe).items()]  # fmt: skip
        self.client.log_batch(run, params=params[:100])
        return run


TRACKERS = Table(
    "tracker",
    {"csv": _Csv, "tensorboard": _TensorBoard, "wandb": _WeightsAndBiases, "mlflow": _MlFlow},
)
"""Word to builder `(folder, recipe)` of an object with three methods.

`epoch(seed, metrics)` logs an epoch: `epoch`, `loss`, `train`, `val`, `lr`, `seconds`, `best`,
`best_epoch`, `memory_bytes`; epochs of a training that was resumed may come again.
`end(seed, scores)` logs the result of a seed, and `close()` writes what waits.
"""

_LIBRARIES = {"mlflow": "mlflow.tracking"}  # that of the others is called as the word


def check_trackers(words: Sequence[str]) -> None:
    """Check, before anything is trained, that these trackers are installed.

    Raises:
        ZooError: an unknown word, or one whose library is not installed.
    """
    for word in words:
        if word not in TRACKERS:
            raise ZooError(f"--track: {unknown('tracker', word, TRACKERS)}")
        _library(word)


class Trackers:
    """The trackers of a run; one that fails is left out from then on, with a remark.

    Args:
        words: of `TRACKERS`.
        folder: of the run.
        recipe: plain data, every value of it.
        tell: called with a sentence where a tracker fails.
    """

    def __init__(self, words: Sequence[str], folder: Path, recipe: Values, tell: Callable):
        self._tell, self._trackers = tell, {}

        def begin(word: str) -> None:
            self._trackers[word] = pick(TRACKERS, word, folder, recipe)

        for word in dict.fromkeys(words):
            self._try(word, begin)

    def epoch(self, line: Values) -> None:
        """Log an epoch, a line of `metrics.jsonl`, in all of them."""
        if self._trackers:
            metrics = {key: line[key] for key in line if key not in ("seed", "last", "of")}
            metrics["memory_bytes"] = held_now()
            self._call("epoch", line["seed"], metrics)

    def end(self, result: Values) -> None:
        """Log the result of a seed in all of them."""
        keys = ("epoch", "train", "val", "test", "epochs", "seconds_per_epoch", "parameters")
        self._call("end", result["seed"], {key: result[key] for key in keys})

    def close(self) -> None:
        """Have all of them write what waits."""
        self._call("close")

    def _call(self, method: str, *arguments: Any) -> None:
        for word in list(self._trackers):
            self._try(word, lambda word: getattr(self._trackers[word], method)(*arguments))

    def _try(self, word: str, call: Callable[[str], None]) -> None:
        try:
            call(word)
        except Exception as error:  # of its library, a disk, a server
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


def _numbers(values: Values) -> dict[str, float]:
    return {name: float(value) for name, value in values.items() if isinstance(value, int | float)}


def _flat(recipe: Values) -> dict[str, Any]:
    """Return a recipe's values by dotted names, lists as text."""
    import pandas

    [row] = pandas.json_normalize(dict(recipe)).to_dict("records")
    return {key: str(value) if isinstance(value, list) else value
            for key, value in row.items() if value is not None}  # fmt: skip
