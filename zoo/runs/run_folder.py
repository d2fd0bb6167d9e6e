"""The folder and the summary that a run leaves behind; a run that was killed goes on from there.

`recipe.yaml` has every value, `environment.json` where it ran and what code it imported,
`metrics.jsonl` a line per epoch, `seed-<s>/` the weights of a seed and, once it is finished, its
`result.json`; until then `checkpoint-<s>.pt` is where its training stands. `summary.json` comes
last: the scores of all seeds together, and the cost. Files are written whole, but for the lines of
metrics, of which the last may be torn and is dropped as a run goes on.

Runs of before have a checksum in each file and line, which is read over, and a `signature.json`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoo.config.options import Count, Number, Seed, sentence
from zoo.config.recipe import Recipe
from zoo.config.scores import figure, gain, is_reached, lower_is_better, signed, spread
from zoo.data import Dataset
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.system.environment import of_one_kind
from zoo.system.files import held, write_whole, writing
from zoo.system.memory import peak_memory
from zoo.trackers import Trackers
from zoo.training.checkpoint import Checkpoint
from zoo.weights.finetune import Start
from zoo.weights.load import save

METRICS = "metrics.jsonl"

Tell = Callable[[str], None]


def silent(text: str) -> None:
    """Tell nothing: the first of several processes speaks for all."""


def new_folder(runs: Path, name: str) -> Path:
    """Make a folder for something of this name that begins now; none is ever overwritten.

    Raises:
        ZooError: it cannot be made.
    """
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        try:
            (runs / f"{stem}{suffix}").mkdir(parents=True)
            return runs / f"{stem}{suffix}"
        except FileExistsError:
            if not (runs / f"{stem}{suffix}").is_dir():
                raise ZooError(f"{runs} is no folder that holds runs; name another.") from None
        except OSError as error:
            raise ZooError(f"{runs} cannot hold runs ({error}); name another folder.") from None
    raise ZooError(f"{runs} holds a thousand runs of this second; name another folder.")


class Record:
    """A run's folder.

    Args:
        folder: it exists.
        every: seconds between two checkpoints.
        tell: is given a sentence about what is damaged, and what is done.
        new: it was made for this run, and holds nothing else.

    Attributes:
        recipe_sha256: the checksum of the recipe: what belongs to another is not taken.
    """

    def __init__(
        self, folder: Path, every: float, tell: Tell = warnings.warn, *, new: bool = False
    ):
        self.folder, self._every, self._tell, self._new = folder, every, tell, new
        self.recipe_sha256, self._metrics = "", folder / METRICS
        self._trackers = Trackers((), folder, {}, tell)

    def __enter__(self) -> Record:
        """Hold the folder, so that no other process goes on with the run meanwhile.

        Raises:
            ZooError: another process holds it.
        """
        self._held = contextlib.ExitStack()
        try:
            self._held.enter_context(held(self.folder))
        except BlockingIOError:
            raise ZooError(
                f"another process is training {self.folder}; wait until it has ended, or end it."
            ) from None
        except OSError:  # a file system without locks
            self._held.close()
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the folder."""
        self._trackers.close()
        self._held.close()

    def track(self, words: Sequence[str], recipe: dict[str, Any]) -> None:
        """Tell trackers of the run from now on."""
        self._trackers = Trackers(words, self.folder, recipe, self._tell)

    def add(self, line: dict[str, Any]) -> None:
        """Write a line of metrics, and tell the trackers.

        Raises:
            WriteError: the disk takes none.
        """
        with writing(self._metrics), self._metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._trackers.epoch(line)

    def forget_after(self, seed: int, epoch: int) -> None:
        """Drop the lines of a seed from an epoch on, which come again, and what a kill has torn."""
        if not self._metrics.exists():
            return
        content = self._metrics.read_bytes()
        kept = [
            text
            for text, line in metrics_in(content)
            if line.get("seed") != seed or line.get("epoch", 0) < epoch
        ]
        if (rest := b"".join(kept)) != content:
            write_whole(self._metrics, lambda draft: draft.write_bytes(rest))

    def write(self, name: str, data: dict[str, Any]) -> None:
        """Write data as JSON."""
        _write(self.folder / name, json.dumps(data, indent=2) + "\n")

    def holds(self, name: str) -> bool:
        """Say whether the folder has a file of this name."""
        return (self.folder / name).exists()

    def write_recipe(self, text: str) -> None:
        """Write the recipe, if it is not there already."""
        if not self.holds("recipe.yaml"):
            _write(self.folder / "recipe.yaml", text)
        self.read_recipe()

    def begin_from(self, start: Start, seen: int) -> None:
        """Write which weights the run starts from, and how many nodes it measures they have `seen`.

        Raises:
            ZooError: it goes on, and they are not those that it has started from.
        """
        name = "start_from.json"
        if self.holds(name):
            known = json.loads((self.folder / name).read_bytes())["sha256"]
            if known != start.sha256:
                raise ZooError(
                    f"{start.weights} are no longer the weights that {self.folder} started from: "
                    f"their SHA-256 is {start.sha256} and was {known}. Put back those."
                )
        self.write(name, {**start._asdict(), "seen": seen})

    def begin(self, environment: Callable[[], dict[str, Any]]) -> None:
        """Write where the run begins, unless it is one that goes on."""
        if not self.holds("environment.json"):
            known = {**environment(), "recipe_sha256": self.recipe_sha256}
            self.write("environment.json", known)

    def read_recipe(self, sha256: str | None = None) -> Path:
        """Return the file of the recipe.

        Args:
            sha256: its checksum as it is known from elsewhere.

        Raises:
            ZooError: it is not as it was written.
        """
        path, self.recipe_sha256 = read_recipe(self.folder, sha256)
        return path

    def checkpoint(self, seed: int) -> Checkpoint:
        """Return where the training of a seed stands."""
        path = self.folder / f"checkpoint-{seed}.pt"
        return Checkpoint(path, self._every, f"{self.recipe_sha256} {seed}", self._tell)

    def result(self, seed: int) -> dict[str, Any] | None:
        """Return the scores of a seed, None as long as it is not finished.

        Raises:
            ZooError: they are damaged, or those of another run.
        """
        found = read_result(self.folder, seed)
        if found is None:
            return None
        if found.recipe_sha256 != self.recipe_sha256:
            path = self.folder / f"seed-{seed}" / "result.json"
            raise ZooError(f"{path} is that of another run. {_trained_again(seed)}")
        self.checkpoint(seed).remove()  # it is left where a run was ended right here
        return found.scores.model_dump()

    def keep(self, result: dict[str, Any], model: Model) -> None:
        """Keep the weights of a seed; unless it was interrupted, it is finished.

        Raises:
            WriteError: the disk does not take them.
        """
        own = self.folder / f"seed-{result['seed']}"
        save(model, own)
        if not result["interrupted"]:
            content = Result(scores=result, recipe_sha256=self.recipe_sha256)
            self.write(f"{own.name}/result.json", content.model_dump())
            self.checkpoint(result["seed"]).remove()
            self._trackers.end(result)

    def discard_unless_begun(self) -> bool:
        """Delete the folder of a new run without weights, checkpoint or score; say whether."""
        kept = [each for name in ("checkpoint-*", "seed-*") for each in self.folder.glob(name)]
        if not self._new or kept or self._scored():
            return False
        shutil.rmtree(self.folder, ignore_errors=True)
        return True

    def _scored(self) -> bool:
        """Return whether any epoch has been evaluated."""
        content = self._metrics.read_bytes() if self._metrics.exists() else b""
        return any(line.get("val") is not None for _, line in metrics_in(content))


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))


def metrics_in(content: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    """Yield the lines of `metrics.jsonl` and what they say, without those that a kill has torn."""
    for text in content.splitlines(keepends=True):
        with contextlib.suppress(ValueError):
            line = json.loads(text)
            if text.endswith(b"\n") and isinstance(line, dict):
                yield text, line


_OF_RUNS = ("summary.json", "environment.json", METRICS)

_THREADS = 16
"""Threads for each core at most: of many more, not all may be begun, which ends the process."""

_Score = Annotated[float, Field(allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1, max_length=255)]


class _Read(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class Environment(_Read):
    """What a run that goes on needs to know of `environment.json`."""

    recipe: _Text
    recipe_sha256: str
    processes: Annotated[Count, Field(le=2**16)]
    threads: Annotated[Count, Field(le=2**16)]
    device: str
    gpu: str | None = None  # a run of before it was noted has none
    cpu: str
    packages: dict[str, str | None]
    code: str | None = None  # likewise
    files: dict[str, str] = {}  # a run of before they were noted has none
    imports: dict[str, str] | None = None  # SHA-256 of code by its path; None: nothing says


class _Scores(_Read):
    seed: Seed
    epoch: Annotated[int, Field(ge=-1, le=2**32)]  # -1: weights that training began with
    train: _Score
    val: _Score
    test: _Score
    epochs: Number  # 0: interrupted in the first one, of a fine-tuning
    seconds_per_epoch: float
    interrupted: bool
    parameters: Count
    split_sha256: str
    beside: dict[str, float | None] = {}  # a run of before they were told has none


class Result(_Read):
    """`result.json` of a seed: its scores, and what they belong to."""

    scores: _Scores
    recipe_sha256: str


class _Spread(_Read):
    mean: float
    std: float | None
    runs: Count


class _Summary(_Read):
    recipe: _Text
    dataset: str
    metric: str
    seeds: Annotated[list[_Scores], Field(min_length=1)]
    val: _Spread
    test: _Spread
    parameters: Count
    seconds_per_epoch: float
    peak_memory_bytes: Number
    device: str
    interrupted: bool
    folder: str
    expect: dict[str, Any] | None


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
    if not any((folder / each).exists() for each in ("recipe.yaml", *_OF_RUNS)):
        inside = [str(path.parent) for path in sorted(folder.glob("*/environment.json"))]
        held = f"; it has some in it, such as {inside[-1]}" if inside else ""
        raise ZooError(f"{folder} is no run: it has no recipe.yaml{held}. Name the folder of one.")


_CHECKSUM = b"# SHA-256 of the lines below: "
"""What the first line of a recipe begins with in runs of before."""


def read_recipe(folder: Path, wanted: str | None = None) -> tuple[Path, str]:
    """Return the file of a run's recipe, and the SHA-256 of what it says.

    Args:
        folder: the run's.
        wanted: its SHA-256 as it is known from elsewhere.

    Raises:
        ZooError: it is not as it was written.
    """
    path = folder / "recipe.yaml"
    try:
        content = path.read_bytes()
        sha256 = hashlib.sha256(
            content.partition(b"\n")[2] if content.startswith(_CHECKSUM) else content
        ).hexdigest()
        cause = "" if sha256 == (wanted or sha256) else "its SHA-256 is another"
    except OSError as error:
        cause = error.strerror or str(error)
    if cause:
        raise ZooError(
            f"{path} is not as the run has written it ({cause}), and another recipe comes to other "
            "numbers. Correct it, or put back a copy."
        )
    return path, sha256


def read_environment(folder: Path) -> Environment | None:
    """Return what is known of where a run was begun; None where nothing is.

    Raises:
        ZooError: the file is damaged.
    """
    path = folder / "environment.json"
    if not path.exists():
        return None
    fix = "Correct it, or delete it: the run then takes the processes and threads that it is given."
    begun = Environment.model_validate(_read(path, Environment, fix))
    signed_before = folder / "signature.json"  # where runs of before say what they imported
    if begun.imports is None and signed_before.exists():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            imports = json.loads(signed_before.read_bytes())["imports"]
            return Environment.model_validate({**begun.model_dump(), "imports": imports})
    return begun


def differences(
    begun: Environment | None, now: dict[str, Any], code: Mapping[str, str] | None = None
) -> list[str]:
    """Return what may keep a run that goes on from the numbers of an unbroken one, in sentences.

    Args:
        begun: where it was begun, None where that is not known.
        now: what `last_digits` returns.
        code: the SHA-256 of each file that its recipe has imported now, by its path.
    """
    may = "its numbers may differ in their last digits from those of one that was not ended."
    if begun is None:
        return [
            "Nothing says with how many processes and threads the run was begun: unless with as "
            f"many as now, {may}"
        ]
    said = []
    present = {**now, **now["packages"]}
    pairs = {"code": begun.code or now["code"], "device": begun.device, "cpu": begun.cpu}
    pairs.update(begun.packages)
    other = [
        f"{name} {present.get(name)} instead of {was}"
        for name, was in pairs.items()
        if present.get(name) != was
    ]
    if other:
        said.append(f"The run goes on with {', '.join(other)}: {may}")
    for path, sha256 in (code or {}).items() if begun.imports is not None else ():
        if begun.imports.get(path) != sha256:
            said.append(f"{path} has changed since the run began: its numbers may be others.")
    cores = os.cpu_count() or 1
    if not of_one_kind(begun.device, now["device"]):
        return said
    if threads_of(begun, begun.device) is None:
        said.append(
            f"The run was begun with {begun.threads} threads, which is too many for {cores} cores: "
            f"with fewer, {may}"
        )
    elif begun.threads > cores:
        said.append(
            f"The run goes on with {begun.threads} threads, as it was begun, so that its numbers "
            f"stay the same; this machine has {cores} cores."
        )
    return said


def threads_of(begun: Environment | None, device: str) -> int | None:
    """Return with how many threads a run goes on on a device; None: as many as torch has here."""
    if begun is None or not of_one_kind(begun.device, device):
        return None
    return begun.threads if begun.threads <= _THREADS * (os.cpu_count() or 1) else None


def read_result(folder: Path, seed: int) -> Result | None:
    """Return the result of a seed, None as long as it is not finished.

    Raises:
        ZooError: the file is damaged, or that of another seed.
    """
    path = folder / f"seed-{seed}" / "result.json"
    if not path.exists():
        return None
    fix = _trained_again(seed)
    result = Result.model_validate(_read(path, Result, fix))
    if result.scores.seed != seed:
        raise ZooError(f"{path} is that of seed {result.scores.seed}. {fix}")
    return result


def read_summary(folder: Path) -> dict[str, Any]:
    """Return the content of a run's `summary.json`.

    Raises:
        ZooError: it is missing or damaged.
    """
    fix = f"`zoo train --resume {shlex.quote(str(folder))}` writes it anew."
    return _read(folder / "summary.json", _Summary, fix)


def is_summarised(folder: Path) -> bool:
    """Return whether a run's `summary.json` is there, whole, and that of all seeds."""
    try:
        return not read_summary(folder)["interrupted"]
    except ZooError:  # it is written anew
        return False


def _read(path: Path, content: type[_Read], fix: str) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
        content.model_validate(data)
        return data
    except ValidationError as error:
        [first, *_] = error.errors()
        where = ".".join(map(str, first["loc"]))[:100]
        cause = f"{where}: {sentence(first)}".rstrip(".")
    except (OSError, ValueError) as error:
        cause = str(error)
    raise ZooError(f"{path} is damaged ({cause}). {fix}")


def _trained_again(seed: int) -> str:
    return f"Correct it, or delete it: seed {seed} is then trained again, to the same numbers."


def summarise(
    recipe: Recipe,
    data: Dataset,
    metric: str,
    results: list[dict[str, Any]],
    device: torch.device,
    *,
    folder: Path,
    interrupted: bool,
) -> dict[str, Any]:
    """Return the content of `summary.json`, of the results of all seeds."""
    return {
        "recipe": recipe.name,
        "dataset": data.name,
        "metric": metric,
        "seeds": results,
        "val": spread([each["val"] for each in results]),
        "test": spread([each["test"] for each in results]),
        "beside": _beside(results),
        "parameters": results[0]["parameters"],
        "seconds_per_epoch": statistics.median(each["seconds_per_epoch"] for each in results),
        "peak_memory_bytes": peak_memory(device),
        "device": str(device),
        "interrupted": interrupted,
        "folder": str(folder),
        "expect": recipe.expect.model_dump() if recipe.expect else None,
        "differs": recipe.differs,
    }


def _beside(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the further metrics of the test part that every seed has, over all of them."""
    first, *others = [each.get("beside", {}) for each in results]
    found = {name: [first[name], *(each.get(name) for each in others)] for name in first}
    return {name: spread(each) for name, each in found.items() if None not in each}


def verdict(summary: dict[str, Any]) -> tuple[bool, str]:
    """Compare a finished run with what its recipe expects: at most `within` worse is a pass."""
    expect, test = summary["expect"], summary["test"]["mean"]
    better = gain(summary["metric"], test) - gain(summary["metric"], expect["test"])
    passed = not summary["interrupted"] and is_reached(better, expect["within"])
    said = f"measured {figure(test)}, expected {figure(expect['test'])} ({expect['source']}): "
    if lower_is_better(summary["metric"]):
        return passed, f"{said}{signed(-better)}, {expect['within']:g} above is allowed."
    points = f"{100 * better:+.2f} points, {100 * expect['within']:g} below is allowed."
    if expect.get("program"):
        mean, std = expect["program"]
        points += f" The authors' program itself comes to {mean:.4f} ± {std:.4f}."
    return passed, said + points
