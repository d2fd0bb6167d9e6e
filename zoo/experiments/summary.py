"""What came of a run: scores of all seeds together, cost, and whether it is what was expected."""

from __future__ import annotations

import statistics
from typing import Any

from zoo.system.memory import peak_memory


def summarise(recipe, prepared, results, folder, device, *, interrupted) -> dict[str, Any]:
    """Return the content of `summary.json`."""
    return {
        "recipe": recipe.name,
        "dataset": prepared.data.name,
        "metric": prepared.data.metric,
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
