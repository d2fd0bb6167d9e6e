"""The folder and the summary that a run leaves behind; a run that was killed goes on from there.

`recipe.yaml` has every value, `environment.json` where it ran and what code it imported,
`metrics.jsonl` a line per epoch, `seed-<s>/` the weights of a seed and, once it is finished, its
`result.json`; until then `checkpoint-<s>.pt` is where its training stands. `summary.json` comes
last: the scores of all seeds together, and the cost. Files are written whole, but for the lines of
metrics, of which the last may be torn and is dropped as a run goes on.

Runs of older versions have a checksum in each file and line, which is not read, and a
`signature.json`.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shlex
import shutil
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict, ValidationError

from zoo.config.metadata import stem_of
from zoo.config.options import Spec
from zoo.config.recipe import Recipe, word
from zoo.config.scores import (
    declare_direction,
    figure,
    gain,
    is_reached,
    lower_is_better,
    signed,
    spread,
)
from zoo.data import Dataset
from zoo.errors import ZooError, cause
from zoo.registry import Model
from zoo.system.environment import of_one_kind
from zoo.system.files import held, write_whole, writing
from zoo.system.memory import peak_memory
from zoo.trackers import Trackers
from zoo.training.checkpoint import Checkpoint
from zoo.weights.finetune import Start
from zoo.weights.save_and_load import save

METRICS = "metrics.jsonl"

Tell = Callable[[str], None]


def silent(text: str) -> None:
    """Say nothing: the first of several processes speaks for all."""


def run_name(recipe: Recipe) -> str:
    """Return what runs of a recipe are called: its name, and words of the data set's not in it.

    >>> run_name(Recipe(name="gf", dataset="cora", model="gcn"))
    'gf-cora'
    >>> run_name(Recipe(name="gcn-cora-wide", dataset="cora", model="gcn"))
    'gcn-cora-wide'
    """
    said = recipe.name.split("-")
    of_dataset = stem_of(word(recipe.dataset)).split("-")
    return "-".join([*said, *(part for part in of_dataset if part and part not in said)])


def new_folder(runs: Path, name: str) -> Path:
    """Make a folder for something of this name that begins now; none is ever overwritten.

    Raises:
        ZooError: it cannot be made.
    """
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for number in itertools.count(1):
        folder = runs / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
            return folder
        except OSError as error:
            if not folder.is_dir():
                raise ZooError(f"{runs} cannot hold runs ({error}); name another folder.") from None


class RunFolder:
    """The folder of a run that is trained here; as a context no other process can go on with it.

    Args:
        path: it exists.
        every: seconds between two checkpoints.
        tell: is given a sentence about what is damaged, and what is done.
        new: it was made for this run, and holds nothing else.

    Attributes:
        recipe_sha256: the checksum of the recipe: results and checkpoints of another are refused.
    """

    def __init__(self, path: Path, every: float, tell: Tell = warnings.warn, *, new: bool = False):
        self.path, self._every, self._tell, self._new = path, every, tell, new
        self.recipe_sha256, self._metrics = "", path / METRICS
        self._trackers = Trackers((), path, {}, tell)

    def __enter__(self) -> RunFolder:
        """Lock the folder.

        Raises:
            ZooError: another process trains this run.
        """
        self._lock = contextlib.ExitStack()
        try:
            self._lock.enter_context(held(self.path))
        except BlockingIOError:
            raise ZooError(
                f"another process is training {self.path}; wait until it has ended, or end it."
            ) from None
        except OSError:  # a file system without locks
            self._lock.close()
        return self

    def __exit__(self, *_: object) -> None:
        """Unlock the folder."""
        self._trackers.close()
        self._lock.close()

    def track(self, words: Sequence[str], recipe: dict[str, Any]) -> None:
        """Tell trackers of the run from now on."""
        self._trackers = Trackers(words, self.path, recipe, self._tell)

    def add_epoch(self, line: dict[str, Any]) -> None:
        """Write a line of metrics, and tell the trackers.

        Raises:
            WriteError: the disk takes none.
        """
        with writing(self._metrics), self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._trackers.epoch(line)

    def drop_epochs(self, seed: int, first: int) -> None:
        """Drop the lines of a seed from an epoch on, which come again, and what a kill has torn."""
        if not self._metrics.exists():
            return
        content = self._metrics.read_bytes()
        lines = [
            text
            for text, line in parse_metrics(content)
            if line.get("seed") != seed or line.get("epoch", 0) < first
        ]
        if (rest := b"".join(lines)) != content:
            write_whole(self._metrics, lambda draft: draft.write_bytes(rest))

    def write(self, name: str, data: dict[str, Any]) -> None:
        """Write data as JSON."""
        self._write_text(name, json.dumps(data, indent=2) + "\n")

    def _write_text(self, name: str, text: str) -> None:
        write_whole(self.path / name, lambda draft: draft.write_text(text, encoding="utf-8"))

    def holds(self, name: str) -> bool:
        """Return whether the folder has a file of this name."""
        return (self.path / name).exists()

    def write_recipe(self, text: str) -> None:
        """Write the recipe, if it is not there already."""
        if not self.holds("recipe.yaml"):
            self._write_text("recipe.yaml", text)
        self.read_recipe()

    def write_start(self, start: Start, seen: int | None) -> None:
        """Write which weights the run starts from, and how many nodes it measures they have `seen`.

        Raises:
            ZooError: it goes on, and they are not those that it has started from.
        """
        name = "start_from.json"
        if self.holds(name):
            sha256 = read_json(self.path / name)["sha256"]
            if sha256 != start.sha256:
                raise ZooError(
                    f"{start.weights} are no longer the weights that {self.path} started from: "
                    f"their SHA-256 is {start.sha256} and was {sha256}. Put back those."
                )
        self.write(name, {**start._asdict(), "seen": seen})

    def write_environment(self, environment: Callable[[], dict[str, Any]]) -> None:
        """Write where the run begins, unless it is one that goes on."""
        if not self.holds("environment.json"):
            data = {**environment(), "recipe_sha256": self.recipe_sha256}
            self.write("environment.json", data)

    def read_recipe(self, sha256: str | None = None) -> Path:
        """Return the file of the recipe; arguments and errors are those of `read_recipe`."""
        path, self.recipe_sha256 = read_recipe(self.path, sha256)
        return path

    def checkpoint(self, seed: int) -> Checkpoint:
        """Return where the training of a seed stands."""
        path = self.path / f"checkpoint-{seed}.pt"
        return Checkpoint(path, self._every, f"{self.recipe_sha256} {seed}", self._tell)

    def result(self, seed: int) -> dict[str, Any] | None:
        """Return the scores of a seed, None as long as it is not finished.

        Raises:
            ZooError: they are those of another run.
        """
        path = self.path / f"seed-{seed}" / "result.json"
        if not path.exists():
            return None
        result = read_json(path)
        if result["recipe_sha256"] != self.recipe_sha256 or result["scores"]["seed"] != seed:
            raise ZooError(
                f"{path} is that of another run. Correct it, or delete it: seed {seed} is then "
                "trained again, to the same numbers."
            )
        self.checkpoint(seed).remove()  # it is left where a run was ended right here
        return result["scores"]

    def write_result(self, result: dict[str, Any], model: Model) -> None:
        """Write the weights of a seed; unless it was interrupted, it is finished.

        Raises:
            WriteError: the disk does not take them.
        """
        name = f"seed-{result['seed']}"
        save(model, self.path / name)
        if not result["interrupted"]:
            content = {"scores": result, "recipe_sha256": self.recipe_sha256}
            self.write(f"{name}/result.json", content)
            self.checkpoint(result["seed"]).remove()
            self._trackers.end(result)

    def discard_unless_begun(self) -> bool:
        """Delete the folder of a new run without weights, checkpoint or score; return whether."""
        begun = any(True for name in ("checkpoint-*", "seed-*") for _ in self.path.glob(name))
        lines = parse_metrics(self._metrics.read_bytes() if self._metrics.exists() else b"")
        if not self._new or begun or any(line.get("val") is not None for _, line in lines):
            return False
        shutil.rmtree(self.path, ignore_errors=True)
        return True


def parse_metrics(content: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the lines of `metrics.jsonl` and what they say, without those that a kill has torn."""
    for text in content.splitlines(keepends=True):
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            if text.endswith(b"\n") and isinstance(line, dict):
                yield text, line


class Environment(BaseModel):
    """What a run that goes on needs to know of `environment.json`."""

    model_config = ConfigDict(frozen=True)

    recipe: str
    recipe_sha256: str
    processes: int
    threads: int
    device: str
    gpu: str | None = None  # older versions have not written all of these
    cpu: str
    packages: dict[str, str | None]
    code: str | None = None
    files: dict[str, str] = {}
    imports: dict[str, str] | None = None  # SHA-256 of code by its path; None: nothing says


def need_run(folder: Path) -> None:
    """Refuse a folder that is not one of a run.

    Raises:
        ZooError: it is none: what it is instead, where that is seen.
    """
    if not os.path.isdir(folder):
        raise ZooError(f"there is no run at {str(folder)[:300]!r}; name the folder of one.")
    parent = folder.resolve().parent
    if (folder / "trials.db").exists():
        runs = sorted(folder.glob("*/recipe.yaml"), key=os.path.getmtime)
        fix = f"`zoo tune --resume {shlex.quote(str(folder))}` goes on with it"
        fix = f"its last run of the best settings is {runs[-1].parent}" if runs else fix
        raise ZooError(f"{folder} is a study of `zoo tune`; {fix}.")
    if (parent / "recipe.yaml").exists() and folder.resolve().name.startswith("seed-"):
        raise ZooError(f"{folder} is one seed of a run; name the run, {parent}.")
    names = ("recipe.yaml", "summary.json", "environment.json", METRICS)
    if not any((folder / name).exists() for name in names):
        runs = [str(path.parent) for path in sorted(folder.glob("*/environment.json"))]
        such = f"; it has some in it, such as {runs[-1]}" if runs else ""
        raise ZooError(f"{folder} is no run: it has no recipe.yaml{such}. Name the folder of one.")


_CHECKSUM = b"# SHA-256 of the lines below: "
"""What the first line of a recipe begins with in runs of older versions."""


def read_recipe(folder: Path, sha256: str | None = None) -> tuple[Path, str]:
    """Return the file of a run's recipe, and the SHA-256 of what it says.

    Args:
        folder: the run's.
        sha256: that of its recipe as it was written, None where it is not known.

    Raises:
        ZooError: it is not as it was written.
    """
    path = folder / "recipe.yaml"
    try:
        content = path.read_bytes()
        content = content.partition(b"\n")[2] if content.startswith(_CHECKSUM) else content
        now = hashlib.sha256(content).hexdigest()
        cause = "" if now == (sha256 or now) else "its SHA-256 is another"
    except OSError as error:
        cause = error.strerror or str(error)
    if cause:
        raise ZooError(
            f"{path} is not as the run has written it ({cause}), and another recipe comes to other "
            "numbers. Correct it, or put back a copy."
        )
    return path, now


def read_environment(folder: Path) -> Environment | None:
    """Return what is known of where a run was begun; None where nothing is.

    Raises:
        ZooError: what is there is not what this version of the zoo writes.
    """
    path, signature = folder / "environment.json", folder / "signature.json"
    if not path.exists():
        return None
    data = read_json(path)
    if "imports" not in data and signature.exists():  # of an older version
        data["imports"] = read_json(signature)["imports"]
    try:
        return Environment.model_validate(data)
    except ValidationError as error:
        raise ZooError(f"{path} is of another version of the zoo ({cause(error)}).") from None


def environment_changes(
    recorded: Environment | None, now: dict[str, Any], code: Mapping[str, str] | None = None
) -> list[str]:
    """Return what may keep a run that goes on from the numbers of an unbroken one, in sentences.

    Args:
        recorded: where it was begun, None where that is not known.
        now: what `last_digits` returns.
        code: the SHA-256 of each file that its recipe has imported now, by its path.
    """
    may = "its numbers may differ in their last digits from those of one that was not ended."
    if recorded is None:
        return [
            "Nothing says with how many processes and threads the run was begun: unless with as "
            f"many as now, {may}"
        ]
    sentences = []
    after = {**now, **now["packages"]}
    before = {"code": recorded.code or now["code"], "device": recorded.device, "cpu": recorded.cpu}
    changed = [
        f"{name} {after.get(name)} instead of {value}"
        for name, value in {**before, **recorded.packages}.items()
        if after.get(name) != value
    ]
    if changed:
        sentences.append(f"The run goes on with {', '.join(changed)}: {may}")
    for path, sha256 in (code or {}).items() if recorded.imports is not None else ():
        if recorded.imports.get(path) != sha256:
            sentences.append(f"{path} has changed since the run began: its numbers may be others.")
    if (threads_of(recorded, now["device"]) or 0) > (os.cpu_count() or 1):
        sentences.append(
            f"The run goes on with {recorded.threads} threads, as it was begun, so that its "
            f"numbers stay the same; this machine has {os.cpu_count()} cores."
        )
    return sentences


def threads_of(recorded: Environment | None, device: str) -> int | None:
    """Return with how many threads a run goes on on a device; None: as many as torch has here."""
    same = recorded is not None and of_one_kind(recorded.device, device)
    return recorded.threads if same else None


def read_scores(folder: Path, seed: int) -> dict[str, Any] | None:
    """Return the scores of a seed of a run, None as long as it is not finished."""
    path = folder / f"seed-{seed}" / "result.json"
    return read_json(path)["scores"] if path.exists() else None


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the content of a run's `summary.json`."""
    summary = read_json(folder / "summary.json")
    declare_direction(summary.get("metric"), summary.get("lower_is_better"))
    return summary


def is_summarised(folder: Path) -> bool:
    """Return whether a run's `summary.json` is there, and that of all seeds."""
    return (folder / "summary.json").exists() and not read_summary(folder)["interrupted"]


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file of a run.

    Raises:
        ZooError: it is none, or was changed into what is no JSON.
    """
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ZooError(f"{path} cannot be read ({error}); put back a copy, or delete it.") from None


def summarise(
    recipe: Recipe,
    data: Dataset,
    metric: str,
    results: list[dict[str, Any]],
    device: torch.device,
    *,
    split: Spec | None,
    folder: Path,
    interrupted: bool,
) -> dict[str, Any]:
    """Return the content of `summary.json`, of the results of all seeds."""
    return {
        "recipe": recipe.name,
        "dataset": data.name,
        "split": split and word(split),
        "metric": metric,
        "lower_is_better": lower_is_better(metric),
        "seeds": results,
        "val": spread([result["val"] for result in results]),
        "test": spread([result["test"] for result in results]),
        "beside": _beside(results),
        "heuristics": _heuristics(results),
        "parameters": results[0]["parameters"],
        "seconds_per_epoch": statistics.median(result["seconds_per_epoch"] for result in results),
        "peak_memory_bytes": peak_memory(device),
        "device": str(device),
        "interrupted": interrupted,
        "folder": str(folder),
        "expect": recipe.expect.model_dump() if recipe.expect else None,
        "measured": recipe.measured.model_dump() if recipe.measured else None,
        "differs": recipe.differs,
    }


def _beside(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the further metrics of the test part that every seed has, over all of them."""
    first, *others = [result.get("beside", {}) for result in results]
    scores = {name: [first[name], *(other.get(name) for other in others)] for name in first}
    return {name: spread(values) for name, values in scores.items() if None not in values}


def _heuristics(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what heuristics of links score on the test part, each over all seeds."""
    tables = [result.get("heuristics", {}) for result in results]
    metric = {name: next(iter(scores)) for name, scores in tables[0].items()}
    return {name: spread([table[name][metric[name]] for table in tables]) for name in metric}


LATE = 0.9
"""Share of the epochs after which a best one says that more may be better."""


def is_cut_short(summary: dict[str, Any], epochs: int | None) -> bool:
    """Return whether the best epochs are among the last, of a recipe that nobody has measured.

    Args:
        summary: of a run.
        epochs: that each seed had at most, None where that is not known.
    """
    seeds = summary["seeds"]
    whole = [row for row in seeds if row.get("epochs") == epochs]  # not stopped early
    late = [row for row in whole if epochs and row["epoch"] + 1 > LATE * epochs]
    return 2 * len(late) > len(seeds) and not summary.get("measured")


def verdict(summary: dict[str, Any]) -> tuple[bool, str]:
    """Compare a finished run with what its recipe expects: at most `within` worse is a pass."""
    expect, test = summary["expect"], summary["test"]["mean"]
    better = gain(summary["metric"], test) - gain(summary["metric"], expect["test"])
    passed = not summary["interrupted"] and is_reached(better, expect["within"])
    sentence = f"measured {figure(test)}, expected {figure(expect['test'])} ({expect['source']}): "
    if lower_is_better(summary["metric"]):
        return passed, f"{sentence}{signed(-better)}, {expect['within']:g} above is allowed."
    sentence += f"{100 * better:+.2f} points, {100 * expect['within']:g} below is allowed."
    if expect.get("program"):
        mean, std = expect["program"]
        sentence += f" The authors' program itself comes to {mean:.4f} ± {std:.4f}."
    return passed, sentence
