"""What the files of a run's folder say; those that are read again are whole and make sense."""

import hashlib
import os
import shlex
import statistics
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from zoo.config.metrics import LOWER, figure, gain, is_reached, signed, spread
from zoo.config.options import Count, Number, Seed, sentence
from zoo.config.recipe import Recipe
from zoo.datasets import Dataset
from zoo.errors import ZooError
from zoo.system.environment import of_one_kind
from zoo.system.memory import peak_memory
from zoo.training.checksums import Damaged, unsealed_json, unsealed_text

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
        "metric": data.metric,
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
    if summary["metric"] in LOWER:
        return passed, f"{said}{signed(-better)}, {expect['within']:g} above is allowed."
    points = f"{100 * better:+.2f} points, {100 * expect['within']:g} below is allowed."
    if expect.get("program"):
        mean, std = expect["program"]
        points += f" The authors' program itself comes to {mean:.4f} ± {std:.4f}."
    return passed, said + points
