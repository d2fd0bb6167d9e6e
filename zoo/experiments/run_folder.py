"""The folder and the summary that a run leaves behind; a run that was killed goes on from there.

`recipe.yaml` has every value, `environment.json` where it ran, `metrics.jsonl` a line per epoch,
`seed-<s>/` the weights of a seed and, once it is finished, its `result.json`; until then
`checkpoint-<s>.pt` is where its training stands. `summary.json` comes last: the scores of all seeds
together, and the cost. Each file holds its own checksum, but for the weights, whose checksum is in
`config.json` beside them. `signature.json` says who began a run that imports code.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import shlex
import shutil
import statistics
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoo.config.options import Count, Number, Seed, sentence
from zoo.config.recipe import Recipe
from zoo.config.scores import figure, gain, is_lower, is_reached, signed, spread
from zoo.datasets import Dataset
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.system.environment import of_one_kind
from zoo.system.files import WriteError, check_space, held, remove_drafts, write_whole, writing
from zoo.system.memory import peak_memory
from zoo.trackers import Trackers
from zoo.training.checkpoint import (
    Checkpoint,
    Damaged,
    sealed_json,
    sealed_line,
    sealed_text,
    unsealed_json,
    unsealed_line,
    unsealed_text,
)
from zoo.weights.finetune import Start
from zoo.weights.folder import CONFIG, TOKENIZER, WEIGHTS, sha256_of
from zoo.weights.load import save

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
        tell: is given a sentence about what is damaged, or cannot be written, and what is done.
        new: it was made for this run, and holds nothing else.

    Attributes:
        recipe_sha256: the checksum of the recipe: what belongs to another is not taken.
        metrics: the file of epochs.
    """

    def __init__(
        self, folder: Path, every: float, tell: Tell = warnings.warn, *, new: bool = False
    ):
        self.folder, self._every, self._tell, self._new = folder, every, tell, new
        self.recipe_sha256, self.metrics = "", Metrics(folder / "metrics.jsonl", tell)
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
        """Write a line of metrics, and tell the trackers."""
        self.metrics.add(line)
        self._trackers.epoch(line)

    def write(self, name: str, data: dict[str, Any]) -> None:
        """Write data as JSON."""
        _write(self.folder / name, sealed_json(data))

    def holds(self, name: str) -> bool:
        """Say whether the folder has a file of this name."""
        return (self.folder / name).exists()

    def write_recipe(self, text: str) -> None:
        """Write the recipe, if it is not there already."""
        if not self.holds("recipe.yaml"):
            _write(self.folder / "recipe.yaml", sealed_text(text))
        self.read_recipe()

    def begin_from(self, start: Start, seen: int) -> None:
        """Write which weights the run starts from, and how many nodes it measures they have `seen`.

        Raises:
            ZooError: it goes on, and they are not those that it has started from.
        """
        name = "start_from.json"
        with contextlib.suppress(Damaged):  # it is written anew
            known = unsealed_json(read_bytes(self.folder / name)).get("sha256")
            if known != start.sha256:
                raise ZooError(
                    f"{start.weights} are no longer the weights that {self.folder} started from: "
                    f"their SHA-256 is {start.sha256} and was {known}. Put back those."
                )
        self.write(name, {**start._asdict(), "seen": seen})

    def begin(self, environment: Callable[[], dict[str, Any]]) -> None:
        """Write where the run begins, unless it is one that goes on."""
        if not (self.folder / "environment.json").exists():
            known = {**environment(), "recipe_sha256": self.recipe_sha256}
            self.write("environment.json", known)

    def finish(self, summary: dict[str, Any]) -> None:
        """Write the summary, and the lines of metrics that wait.

        Raises:
            WriteError: they cannot be written; says what is kept, and how to go on.
        """
        try:
            self.write("summary.json", summary)
        except WriteError as error:
            raise WriteError(
                f"{error} The weights and scores of its seeds are in {self.folder}. Once there is "
                f"room, {self._again()} writes the summary, and trains what is left."
            ) from None
        try:
            self.metrics.write()
        except WriteError as error:
            place = self._aside(lambda folder: None)
            where = f"whole in {place}" if place else "lost, without what it holds now"
            raise WriteError(f"{error} It is {where}; all else is in {self.folder}.") from None

    def read_recipe(self, sha256: str | None = None) -> Path:
        """Return the file of the recipe.

        Args:
            sha256: its checksum as it is known from elsewhere.

        Raises:
            ZooError: it is not as it was written.
        """
        path, self.recipe_sha256 = read_recipe(self.folder, sha256)
        return path

    def clean(self) -> None:
        """Remove what was being written when the run was killed."""
        for folder in (self.folder, *self.folder.glob("seed-*/")):
            remove_drafts(folder)

    def check_space(self, weights: int, seeds: int, epochs: int) -> None:
        """Refuse to begin if there is no room for the weights; tell if there may be too little.

        Args:
            weights: bytes of the weights of a seed.
            seeds: how many.
            epochs: of each seed at most.
        """
        check_space(self.folder, *[weights] * seeds)
        # A checkpoint holds the weights, the best so far and Adam's two moments of each; while one
        # is written, the one before is there.
        checkpoints = [4 * weights] * (2 if self._every < float("inf") else 0)
        try:
            check_space(self.folder, *[weights] * seeds, *checkpoints,
                        LINE * epochs * seeds)  # fmt: skip
        except WriteError as error:
            self._tell(
                f"There may be too little room for metrics and checkpoints. {error} Training "
                "begins, and goes on without those that cannot be written."
            )

    def checkpoint(self, seed: int) -> Checkpoint:
        """Return where the training of a seed stands."""
        path = self.folder / f"checkpoint-{seed}.pt"
        return Checkpoint(path, self._every, f"{self.recipe_sha256} {seed}", self._tell)

    def result(self, seed: int) -> dict[str, Any] | None:
        """Return the scores of a seed, None as long as it is not finished.

        Raises:
            ZooError: its files are damaged, or those of another run.
        """
        found, folder = read_result(self.folder, seed), self.folder / f"seed-{seed}"
        if found is None:
            return None
        wrong = [] if found.recipe_sha256 == self.recipe_sha256 else ["result.json"]
        for name, sha256 in found.files.items():
            path = folder / Path(name).name
            if not os.path.isfile(path) or sha256_of(path) != sha256:
                wrong.append(name)
        if wrong:
            raise ZooError(
                f"{folder / wrong[0]} is not what seed {seed} of this run has written. Put back a "
                f"copy, or delete {folder / 'result.json'}: seed {seed} is then trained again."
            )
        self.checkpoint(seed).remove()  # it is left where a run was ended right here
        return found.scores.model_dump()

    def keep(self, result: dict[str, Any], model: Model) -> None:
        """Keep the weights of a seed; unless it was interrupted, it is finished.

        Raises:
            WriteError: they cannot be written; says where else they are, if anywhere.
        """
        try:
            self._keep(self.folder, result, model)
        except WriteError as error:
            raise WriteError(f"{error} {self._rescue(result, model)}") from None
        if not result["interrupted"]:
            self.checkpoint(result["seed"]).remove()
            self._trackers.end(result)

    def _keep(self, folder: Path, result: dict[str, Any], model: Model) -> None:
        own = folder / f"seed-{result['seed']}"
        save(model, own)
        if not result["interrupted"]:
            names = [WEIGHTS, CONFIG, *([] if model.tokenizer is None else [TOKENIZER])]
            files = {name: sha256_of(own / name) for name in names}
            content = Result(scores=result, recipe_sha256=self.recipe_sha256, files=files)
            _write(own / "result.json", sealed_json(content.model_dump()))

    def _rescue(self, result: dict[str, Any], model: Model) -> str:
        """Write a seed into a temporary folder instead; return where it is and how to go on."""
        seed, again = f"seed {result['seed']}", self._again()
        place = self._aside(lambda folder: self._keep(folder, result, model))
        if place is None:
            return (
                f"What {seed} has come to is lost: TMPDIR has no room either. Once there is some, "
                f"{again} trains it again from its last checkpoint, to the same numbers."
            )
        return (
            f"What {seed} has come to is in {place}. Once there is room, `cp -r "
            f"{shlex.quote(str(place))}/. {shlex.quote(str(self.folder))}` puts it where it "
            f"belongs, and {again} goes on."
        )

    def _aside(self, keep: Callable[[Path], None]) -> Path | None:
        """Keep something, and the metrics, in a temporary folder; None where that fails too."""
        place = None
        try:
            place = Path(tempfile.mkdtemp(prefix="zoo-"))
            keep(place)
            (place / self.metrics.path.name).write_bytes(self.metrics.content())
        except (WriteError, OSError):
            if place is not None:
                shutil.rmtree(place, ignore_errors=True)
            return None
        return place

    def _again(self) -> str:
        return f"`zoo train --resume {shlex.quote(str(self.folder))}`"

    def discard_unless_begun(self) -> None:
        """Delete the folder of a new run without weights, checkpoint or score."""
        if not self._new:
            return
        with contextlib.suppress(OSError):
            kept = [each for name in ("checkpoint-*", "seed-*") for each in self.folder.glob(name)]
            if not kept and not self.metrics.scored():
                shutil.rmtree(self.folder)


def _write(path: Path, text: str) -> None:
    write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"))


LONGEST = 16 * 2**20
"""Largest file of text in a run's folder that is read, in bytes."""

_OF_RUNS = ("summary.json", "environment.json", "metrics.jsonl")

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
    files: dict[_Text, str]


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
        sha256 = hashlib.sha256(unsealed_text(read_bytes(path)).encode()).hexdigest()
        if sha256 != (wanted or sha256):
            raise Damaged("it is that of another run")
    except Damaged as error:
        raise ZooError(
            f"{path} is not as the run has written it ({error}), and another recipe comes to other "
            "numbers. Correct it, or put back a copy."
        ) from None
    return path, sha256


def read_environment(folder: Path) -> Environment | None:
    """Return what is known of where a run was begun; None where nothing is.

    Raises:
        ZooError: the file is damaged.
    """
    path = folder / "environment.json"
    if not os.path.lexists(path):
        return None
    fix = "Correct it, or delete it: the run then takes the processes and threads that it is given."
    return Environment.model_validate(_read(path, Environment, fix))


def differences(begun: Environment | None, now: dict[str, Any]) -> list[str]:
    """Return what may keep a run that goes on from the numbers of an unbroken one, in sentences."""
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
    if not os.path.lexists(path):
        return None
    fix = f"Correct it, or delete it: seed {seed} is then trained again, to the same numbers."
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


def read_bytes(path: Path, longest: float = LONGEST) -> bytes:
    """Return the content of a file of text of so many bytes at most.

    Raises:
        Damaged: it is missing, too long, or no plain file.
    """
    if not os.path.isfile(path):
        raise Damaged("it is no file" if os.path.lexists(path) else "it is missing")
    try:
        if path.stat().st_size > longest:
            raise Damaged("it is too long")
        return path.read_bytes()
    except OSError as error:
        raise Damaged(error.strerror or str(error)) from None


def _read(path: Path, content: type[_Read], fix: str) -> dict[str, Any]:
    try:
        data = unsealed_json(read_bytes(path))
        content.model_validate(data)
        return data
    except ValidationError as error:
        [first, *_] = error.errors()
        where = ".".join(map(str, first["loc"]))[:100]
        cause = f"{where}: {sentence(first)}".rstrip(".")
    except Damaged as error:
        cause = str(error)
    raise ZooError(f"{path} is damaged ({cause}). {fix}")


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
        "parameters": results[0]["parameters"],
        "seconds_per_epoch": statistics.median(each["seconds_per_epoch"] for each in results),
        "peak_memory_bytes": peak_memory(device),
        "device": str(device),
        "interrupted": interrupted,
        "folder": str(folder),
        "expect": recipe.expect.model_dump() if recipe.expect else None,
        "differs": recipe.differs,
    }


def verdict(summary: dict[str, Any]) -> tuple[bool, str]:
    """Compare a finished run with what its recipe expects: at most `within` worse is a pass."""
    expect, test = summary["expect"], summary["test"]["mean"]
    better = gain(summary["metric"], test) - gain(summary["metric"], expect["test"])
    passed = not summary["interrupted"] and is_reached(better, expect["within"])
    said = f"measured {figure(test)}, expected {figure(expect['test'])} ({expect['source']}): "
    if is_lower(summary["metric"]):
        return passed, f"{said}{signed(-better)}, {expect['within']:g} above is allowed."
    points = f"{100 * better:+.2f} points, {100 * expect['within']:g} below is allowed."
    if expect.get("program"):
        mean, std = expect["program"]
        points += f" The authors' program itself comes to {mean:.4f} ± {std:.4f}."
    return passed, said + points


LINE = 200
"""Bytes of a line, about."""


class Metrics:
    """The file of epochs.

    Args:
        path: it need not exist yet.
        tell: is given a sentence where a line cannot be written, or lines are damaged.
    """

    def __init__(self, path: Path, tell: Callable[[str], None]):
        self.path, self._tell = path, tell
        self._waiting: list[bytes] = []

    def add(self, data: dict[str, Any]) -> None:
        """Add a line; one that cannot be written waits for the next."""
        first = not self._waiting
        self._waiting.append(sealed_line(data).encode())
        try:
            self.write()
        except WriteError as error:
            if first:
                self._tell(f"{error} Training goes on, and the lines are kept until they can be.")

    def write(self) -> None:
        """Write the lines that wait, all of them or none.

        Raises:
            WriteError: none.
        """
        if not self._waiting:
            return
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                end, rest = file.seek(0, os.SEEK_END), b"".join(self._waiting)
                try:
                    while rest:  # a disk may take a part before it refuses
                        rest = rest[file.write(rest) :]
                except OSError:
                    file.truncate(end)
                    raise
        self._waiting.clear()

    def content(self) -> bytes:
        """Return what the file holds and what still has to be written into it."""
        written = self.path.read_bytes() if self.path.exists() else b""
        return written + b"".join(self._waiting)

    def scored(self) -> bool:
        """Return whether any epoch has been evaluated."""
        return any(b'"val": null' not in line for line in self.content().splitlines())

    def forget_after(self, seed: int, epoch: int, finished: dict[int, int]) -> None:
        """Drop the lines of a seed from an epoch on: they come again.

        So are a last line that was cut off and those that are damaged. Where the line of an epoch
        that does not come again is missing, that is told, and a copy of the file kept.

        Args:
            seed: the one that goes on.
            epoch: the first that is trained again.
            finished: the seeds before, and how many epochs each has had.

        Raises:
            ZooError: the file cannot be read.
        """
        try:
            content = read_bytes(self.path, math.inf) if os.path.lexists(self.path) else b""
        except Damaged as error:
            raise ZooError(f"{self.path} cannot be read ({error}); move it away.") from None
        kept, lacking = [], Counter({**finished, seed: epoch})
        for line in content.split(b"\n")[:-1]:
            try:
                of, at = _place(line)
            except Damaged:
                continue
            if of != seed or at < epoch:
                kept.append(line + b"\n")
                lacking[of] -= 1
        missing = sum((+lacking).values())
        if missing > len(self._waiting):
            copy = self.path.with_suffix(".damaged.jsonl")
            write_whole(copy, lambda draft: draft.write_bytes(content))
            self._tell(
                f"{self.path} is damaged: of the lines of past epochs, {missing} are missing. "
                f"Training does not depend on them and goes on; {copy.name} is the file as it was."
            )
        if b"".join(kept) != content:
            write_whole(self.path, lambda draft: draft.write_bytes(b"".join(kept)))


def _place(line: bytes) -> tuple[int, int]:
    """Return the seed and the epoch of a line.

    Raises:
        Damaged: it is none.
    """
    told = unsealed_line(line)
    seed, epoch = told.get("seed"), told.get("epoch")
    if type(seed) is not int or type(epoch) is not int:
        raise Damaged("it is of no epoch")
    return seed, epoch
