"""The folder and the summary that a run leaves behind; a run that was killed goes on from there.

`recipe.yaml` has every value, `environment.json` where it ran, `metrics.jsonl` a line per epoch,
`seed-<s>/` the weights of a seed and, once it is finished, its `result.json`; until then
`checkpoint-<s>.pt` is where its training stands. `summary.json` comes last: the scores of all seeds
together, and the cost. `signature.json` says who began a run that imports code.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from pathlib import Path
from typing import Any, TextIO

import torch

from zoo.config.recipe import Recipe
from zoo.datasets import Dataset
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.system.files import write_whole
from zoo.system.memory import peak_memory
from zoo.training.checkpoint import Checkpoint
from zoo.weights.load import save


def new_record(runs: Path, name: str, every: float) -> Record:
    """Make a folder for a run of a recipe of this name; none is ever overwritten.

    Raises:
        ZooError: it cannot be made.
    """
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
        try:
            (runs / f"{stem}{suffix}").mkdir(parents=True)
            return Record(runs / f"{stem}{suffix}", every)
        except FileExistsError:
            continue
        except OSError as error:
            raise ZooError(f"{runs} cannot hold runs ({error}); name another folder.") from None
    raise ZooError(f"{runs} holds a thousand runs of this second; name another folder.")


class Record:
    """A run's folder.

    Args:
        folder: it exists.
        every: seconds between two checkpoints.
    """

    def __init__(self, folder: Path, every: float):
        self.folder, self._every = folder, every

    def write(self, name: str, data: dict[str, Any]) -> None:
        """Write data as JSON."""
        self.write_text(name, json.dumps(data, indent=2) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a file of text."""
        write_whole(self.folder / name, lambda draft: draft.write_text(text))

    def lines(self) -> TextIO:
        """Open the file of epochs, to which each line is added at once."""
        return (self.folder / "metrics.jsonl").open("a", buffering=1)

    def read(self, name: str) -> dict[str, Any]:
        """Return the data of a JSON file.

        Raises:
            ZooError: it is missing or damaged.
        """
        path = self.folder / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ZooError(f"{path} cannot be read ({error}); is this a run's folder?") from None

    def checkpoint(self, seed: int) -> Checkpoint:
        """Return where the training of a seed stands."""
        return Checkpoint(self.folder / f"checkpoint-{seed}.pt", self._every)

    def result(self, seed: int) -> dict[str, Any] | None:
        """Return the result of a seed, None as long as it is not finished."""
        name = f"seed-{seed}/result.json"
        return self.read(name) if (self.folder / name).exists() else None

    def keep(self, result: dict[str, Any], model: Model) -> None:
        """Keep the weights of a seed; unless it was interrupted, it is finished."""
        seed = result["seed"]
        save(model, self.folder / f"seed-{seed}")
        if not result["interrupted"]:
            self.write(f"seed-{seed}/result.json", result)
            self.checkpoint(seed).remove()

    def forget_after(self, seed: int, epoch: int) -> None:
        """Drop the lines of a seed from an epoch on, and one that was cut off: they come again."""
        path, kept = self.folder / "metrics.jsonl", []
        for line in path.read_text().splitlines() if path.exists() else []:
            try:
                told = json.loads(line)
            except ValueError:
                continue
            if told["seed"] != seed or told["epoch"] < epoch:
                kept.append(f"{line}\n")
        write_whole(path, lambda draft: draft.write_text("".join(kept)))

    def discard_unless_begun(self) -> None:
        """Delete the folder of a run that has come to nothing, not even to a checkpoint."""
        if not any(self.folder.glob("checkpoint-*")):
            shutil.rmtree(self.folder)


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
        "val": _spread([each["val"] for each in results]),
        "test": _spread([each["test"] for each in results]),
        "parameters": results[0]["parameters"],
        "seconds_per_epoch": statistics.median(each["seconds_per_epoch"] for each in results),
        "peak_memory_bytes": peak_memory(device),
        "device": str(device),
        "interrupted": interrupted,
        "folder": str(folder),
        "expect": recipe.expect.model_dump() if recipe.expect else None,
    }


def verdict(summary: dict[str, Any]) -> tuple[bool, str]:
    """Compare a finished run with what its recipe expects: at most `within` below is a pass."""
    expect, test = summary["expect"], summary["test"]["mean"]
    points = 100 * (test - expect["test"])
    lowest = -100 * expect["within"] - 1e-9  # 0.83 is within 0.015 of 0.845
    passed = not summary["interrupted"] and points >= lowest
    sentence = (
        f"measured {test:.4f}, expected {expect['test']:.4f} ({expect['source']}): "
        f"{points:+.2f} points, {100 * expect['within']:g} below is allowed."
    )
    return passed, sentence


def _spread(scores: list[float]) -> dict[str, float | int | None]:
    std = statistics.stdev(scores) if len(scores) > 1 else None
    return {"mean": statistics.fmean(scores), "std": std, "runs": len(scores)}
