"""Every recipe, trained where its data is at hand: `zoo reproduce --all`.

Each recipe is trained by a process of its own, one after the other. What is finished is read from
its run's folder, what was begun goes on, so that the command may be ended and given again. What is
measured may be written into the recipe, under `verified:`.
"""

from __future__ import annotations

import contextlib
import datetime
import fnmatch
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from zoo.config.recipe import Recipe, Verified, word
from zoo.config.shipped import recipe_names
from zoo.data.load import load_data
from zoo.data.load.named import known_metric
from zoo.errors import ZooError
from zoo.runs.launch import begun, finished, resume_apart, train_apart
from zoo.runs.resolve import Plan, load_recipe, resolve
from zoo.runs.run_folder import read_environment, verdict
from zoo.system.environment import choose_device
from zoo.system.files import write_whole

PACKAGES = ("torch", "dgl")
"""The packages whose versions are written beside a measurement."""

_EPOCHS = 5  # trained to tell how long a recipe takes


def reproductions(
    *,
    hours: float,
    only: str = "*",
    device: str = "auto",
    runs: Path = Path("runs"),
    write: bool = False,
    quiet: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[dict[str, Any]]:
    """Return what came of every recipe, as it comes; nothing is downloaded.

    Each row has `recipe`, `expected` and `state`: `PASS`, `FAIL`, or `done` without a number to
    reach, with `test`, `std`, `seeds`, `seconds` and `sentence`; `too long`, with `hours`;
    `no data` and `error`, with `sentence`.

    Args:
        hours: the longest that a recipe may take with all its seeds, by its first epochs; infinite
            where nothing is too long.
        only: pattern of the names, such as `gcn-*`.
        device: `auto`, `cpu` or `cuda`.
        runs: where runs are looked for and written.
        quiet: nothing is told of the progress of a training.
        write: write what was measured into the files of the recipes.
        tell: called with a sentence before each training.
    """
    for name in fnmatch.filter(recipe_names(), only):
        recipe = load_recipe(name)
        row = {"recipe": name, "expected": recipe.expect and recipe.expect.test}
        try:
            found = _reproduced(resolve(recipe), hours, device, runs, quiet, tell)
        except ZooError as error:
            found = {"state": "error", "sentence": str(error)}
        if write and "folder" in found:
            write_verified(recipe, found.pop("verified"))
        found.pop("verified", None)
        yield {**row, **found}


def write_verified(recipe: Recipe, found: Verified) -> None:
    """Write a measurement into a recipe's file in the place of the one before; comments stay.

    Raises:
        ZooError: it cannot be put there; the file is as it was.
    """
    data = {key: value for key, value in found.model_dump().items() if value is not None}
    flow = yaml.safe_dump(data, default_flow_style=True, sort_keys=False, width=72).strip()
    text = recipe.path.read_text(encoding="utf-8")
    new = "".join(_without(text, "verified")).rstrip("\n") + f"\nverified: {flow}\n"
    try:
        fits = yaml.safe_load(new) == {**yaml.safe_load(text), "verified": data}
    except yaml.YAMLError:
        fits = False
    if not fits:
        raise ZooError(
            f"{recipe.path} is written in a way that a line cannot be added to; write into it "
            f"yourself:\nverified: {flow}"
        )
    write_whole(recipe.path, lambda draft: draft.write_text(new, encoding="utf-8"), follow=True)


def _without(text: str, key: str) -> list[str]:
    """Return the lines of a YAML mapping without those of a key; comments behind it stay."""
    lines = text.splitlines(keepends=True)
    for name, value in yaml.compose(text).value:
        if name.value == key:
            first, end = name.start_mark.line, value.end_mark
            last = end.line + (end.column > 0)
            while last - 1 > first and re.match(r"\s*(#|$)", lines[last - 1]):
                last -= 1
            return lines[:first] + lines[last:]
    return lines


def _reproduced(
    plan: Plan, hours: float, device: str, runs: Path, quiet: bool, tell: Callable[[str], None]
) -> dict[str, Any]:
    name = plan.recipe.name
    summary = finished(plan, runs) if runs.is_dir() else None
    if summary is None:
        if sentence := _lacking(plan):
            return {"state": "no data", "sentence": sentence}
        folder = begun(plan, runs)
        if folder is None and hours < math.inf and (needed := _hours(plan, device)) > hours:
            return {"state": "too long", "hours": needed}
        tell(f"{name}: goes on in {folder}" if folder else name)
        known = plan.recipe.verified
        how = {"quiet": quiet, "threads": known and known.threads}
        if folder:
            summary = resume_apart(folder, device, **how)
        else:
            summary = train_apart(plan, device, runs, **how)
    expect = plan.recipe.expect  # it may be another than when the run was begun
    passed, sentence = verdict({**summary, "expect": expect.model_dump()}) if expect else (None, "")
    return {
        "state": {True: "PASS", False: "FAIL", None: "done"}[passed],
        "test": summary["test"]["mean"],
        "std": summary["test"]["std"],
        "seeds": [each["seed"] for each in summary["seeds"]],
        "seconds": _seconds(summary),
        "sentence": sentence,
        "differs": plan.recipe.differs,
        "folder": summary["folder"],
        "verified": measured(plan.recipe, summary),
    }


def _seconds(summary: dict[str, Any]) -> int:
    return round(sum(each["epochs"] * each["seconds_per_epoch"] for each in summary["seeds"]))


def _lacking(plan: Plan) -> str | None:
    """Return why a recipe's data cannot be read, None if it can; nothing is downloaded."""
    with _offline():
        try:
            load_data(plan.dataset)
        except ZooError as error:
            return str(error)
    return None


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    before = os.environ.get("ZOO_OFFLINE")
    os.environ["ZOO_OFFLINE"] = "1"
    try:
        yield
    finally:
        os.environ.pop("ZOO_OFFLINE")
        if before is not None:
            os.environ["ZOO_OFFLINE"] = before


def _hours(plan: Plan, device: str) -> float:
    """Return how long all seeds take at most: what was measured before, or by a few epochs."""
    known, on_gpu = plan.recipe.verified, choose_device(device).type == "cuda"
    same = known and known.sha256 == plan.recipe.sha256
    if known and same and known.seconds and on_gpu == (known.gpu is not None):
        return known.seconds / 3600
    epochs = plan.train["epochs"]
    change = [f"train.epochs={min(_EPOCHS, epochs)}", f"seeds=[{plan.recipe.seeds[0]}]"]
    short = load_recipe(plan.recipe.plain(), change).model_copy(update={"name": plan.recipe.name})
    with tempfile.TemporaryDirectory() as folder:
        pace = train_apart(resolve(short), device, Path(folder), quiet=True)["seconds_per_epoch"]
    return pace * epochs * len(plan.recipe.seeds) / 3600


def measured(recipe: Recipe, summary: dict[str, Any]) -> Verified:
    """Return what a recipe's file says of a finished run of it."""
    folder = Path(summary["folder"])
    where = read_environment(folder)
    packages = where.packages if where else {}
    day = re.search(r"-(\d{4})(\d\d)(\d\d)-\d{6}", folder.name)
    versions = {name: each for name in PACKAGES if (each := packages.get(name))}
    return Verified(
        test=round(summary["test"]["mean"], 4),
        std=round(summary["test"]["std"] or 0.0, 4),
        metric=None if known_metric(word(recipe.dataset)) else summary["metric"],
        seeds=[each["seed"] for each in summary["seeds"]],
        date="-".join(day.groups()) if day else datetime.date.today().isoformat(),
        threads=where.threads if where else None,
        seconds=_seconds(summary),
        gpu=where.gpu if where else None,
        versions=versions or None,
        sha256=recipe.sha256,
    )
