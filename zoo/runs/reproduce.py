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
from zoo.errors import ZooError, suggestion
from zoo.runs.earlier_runs import find_finished, find_unfinished, resume_apart, train_apart
from zoo.runs.resolve import Plan, load_recipe, resolve
from zoo.runs.run_folder import read_environment, verdict
from zoo.system.environment import choose_device
from zoo.system.files import write_whole

PACKAGES = ("torch", "dgl")
"""The packages whose versions are written beside a measurement."""

_EPOCHS = 5  # trained to tell how long a recipe takes


def reproduce_all(
    *,
    hours: float,
    only: str = "*",
    device: str = "auto",
    runs: Path = Path("runs"),
    write: bool = False,
    quiet: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[dict[str, Any]]:
    """Yield what came of every recipe; nothing is downloaded.

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

    Raises:
        ZooError: no recipe has such a name.
    """
    for name in matching(only):
        recipe = load_recipe(name)
        row = {"recipe": name, "expected": recipe.expect and recipe.expect.test}
        try:
            result = _reproduce(resolve(recipe), hours, device, runs, quiet, tell)
        except ZooError as error:
            result = {"state": "error", "sentence": str(error)}
        verified = result.pop("verified", None)
        if write and verified:
            write_verified(recipe, verified)
        yield {**row, **result}


def matching(only: str) -> list[str]:
    """Return the names of the recipes that a pattern matches.

    Raises:
        ZooError: there is none; with near ones.
    """
    names = recipe_names()
    if not (found := fnmatch.filter(names, only)):
        raise ZooError(
            f"no recipe matches {only!r}; {suggestion(only.strip('*'), names, 'recipe')}"
        )
    return found


def expectations(only: str = "*", hours: float = math.inf) -> list[dict[str, Any]]:
    """Return of each recipe with a number to reach what that is, and what was measured.

    A row has `name`, `published`, `measured`, `std`, `seconds` of training with all seeds, and
    `gpu`, that which trained it; None where nothing was measured, or on a CPU.

    Args:
        only: pattern of the names, such as `gcn-*`.
        hours: only those that took no longer; of a limit, none of which that is not known.

    Raises:
        ZooError: no recipe has such a name, or none of these a number, or took so short.
    """
    rows = []
    for recipe in map(load_recipe, matching(only)):
        if recipe.expect is None:
            continue
        found = recipe.measured
        rows.append({
            "name": recipe.name,
            "published": recipe.expect.test,
            "measured": found and found.test,
            "std": found and found.std,
            "seconds": found and found.seconds,
            "gpu": found and found.gpu,
        })  # fmt: skip
    short = [
        row for row in rows if hours == math.inf or (row["seconds"] or math.inf) <= 3600 * hours
    ]
    if not short:
        what = f"has taken {hours:g} hours or less" if rows else "has a number to reach"
        raise ZooError(f"no recipe that matches {only!r} {what}; see `zoo list recipes`.")
    return short


def write_verified(recipe: Recipe, verified: Verified) -> None:
    """Write a measurement into a recipe's file in the place of the one before; comments stay.

    Raises:
        ZooError: it cannot be put there; the file is as it was.
    """
    data = {key: value for key, value in verified.model_dump().items() if value is not None}
    flow = yaml.safe_dump(data, default_flow_style=True, sort_keys=False, width=72).strip()
    text = recipe.path.read_text(encoding="utf-8")
    others = re.sub(r"^verified:.*\n?(?:\n*[ \t].*\n?)*", "", text, flags=re.MULTILINE)
    new = f"{others.rstrip()}\nverified: {flow}\n"
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


def _reproduce(
    plan: Plan, hours: float, device: str, runs: Path, quiet: bool, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Train a plan, unless that was done, and return its row."""
    name = plan.recipe.name
    summary = find_finished(plan, runs)
    if summary is None:
        try:
            with _offline():
                load_data(plan.dataset)
        except ZooError as error:
            return {"state": "no data", "sentence": str(error)}
        folder = find_unfinished(plan, runs)
        if folder is None and hours < math.inf and (needed := _hours(plan, device)) > hours:
            return {"state": "too long", "hours": needed}
        tell(f"{name}: goes on in {folder}" if folder else name)
        verified = plan.recipe.verified
        options = {"quiet": quiet, "threads": verified and verified.threads}
        if folder:
            summary = resume_apart(folder, device, **options)
        else:
            summary = train_apart(plan, device, runs, **options)
    expect = plan.recipe.expect  # it may be another than when the run was begun
    passed, sentence = verdict({**summary, "expect": expect.model_dump()}) if expect else (None, "")
    return {
        "state": {True: "PASS", False: "FAIL", None: "done"}[passed],
        "test": summary["test"]["mean"],
        "std": summary["test"]["std"],
        "seeds": [seed["seed"] for seed in summary["seeds"]],
        "seconds": _seconds(summary),
        "sentence": sentence,
        "differs": plan.recipe.differs,
        "folder": summary["folder"],
        "verified": measurement(plan.recipe, summary),
    }


def _seconds(summary: dict[str, Any]) -> int:
    pairs = ((seed["epochs"], seed["seconds_per_epoch"]) for seed in summary["seeds"])
    return round(sum(max(1, epochs) * pace for epochs, pace in pairs))


@contextlib.contextmanager
def _offline() -> Iterator[None]:
    """Let nothing be downloaded inside."""
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
    verified, on_gpu = plan.recipe.measured, choose_device(device).type == "cuda"
    if verified and verified.sha256 and verified.seconds and on_gpu == (verified.gpu is not None):
        return verified.seconds / 3600
    epochs = plan.train["epochs"]
    change = [f"train.epochs={min(_EPOCHS, epochs)}", f"seeds=[{plan.recipe.seeds[0]}]"]
    short = load_recipe(plan.recipe.plain(), change).model_copy(update={"name": plan.recipe.name})
    with tempfile.TemporaryDirectory() as folder:
        tried = train_apart(resolve(short), device, Path(folder), quiet=True)
    epochs = epochs if tried["parameters"] else 1  # of what trains nothing
    return tried["seconds_per_epoch"] * epochs * len(plan.recipe.seeds) / 3600


def measurement(recipe: Recipe, summary: dict[str, Any]) -> Verified:
    """Return what a recipe's file says of a finished run of it."""
    folder = Path(summary["folder"])
    environment = read_environment(folder)
    packages = environment.packages if environment else {}
    day = re.search(r"-(\d{4})(\d\d)(\d\d)-\d{6}", folder.name)
    versions = {name: version for name in PACKAGES if (version := packages.get(name))}
    return Verified(
        test=round(summary["test"]["mean"], 4),
        std=round(summary["test"]["std"] or 0.0, 4),
        metric=None if known_metric(word(recipe.dataset)) else summary["metric"],
        seeds=[seed["seed"] for seed in summary["seeds"]],
        date="-".join(day.groups()) if day else datetime.date.today().isoformat(),
        threads=environment.threads if environment else None,
        seconds=_seconds(summary),
        gpu=environment.gpu if environment else None,
        versions=versions or None,
        sha256=recipe.sha256,
    )
