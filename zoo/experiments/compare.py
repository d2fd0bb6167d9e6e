"""Several recipes on one data set, beside the baselines that none of them may leave out.

Each recipe is trained by a process of its own: the peak of memory is then its own too, and what
ends one run leaves the others alone. A run that has been finished before is read, not repeated, and
what its recipe imports is not run.
"""

import dataclasses
import glob
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.config.metadata import path_name
from zoo.config.metrics import gain
from zoo.config.options import Spec
from zoo.config.recipe import Recipe, recipe_names, recipe_text, word
from zoo.errors import ZooError
from zoo.experiments.imports import said_of
from zoo.experiments.resolve import Plan, load_recipe, resolve, with_split
from zoo.experiments.run_files import read_recipe, read_summary
from zoo.registry import MODELS, Model
from zoo.weights.create import list_models

BASELINES = ("gcn", "mlp")
"""The models that stand in every comparison of models for graphs."""

UNTUNED = {"lr": 0.01, "weight_decay": 5e-4, "patience": 100}
"""Training of a model with its default options, where no recipe for the data set is shipped."""

OF_MANY = ("samples", "snapshots")
"""Strategies of data that are no single graph, and that no model is trained on in another way."""


class Contestant(NamedTuple):
    """A plan to compare, and the summary of its run once there is one."""

    plan: Plan
    summary: dict[str, Any] | None = None
    tuned: bool = True


def contestants(
    sources: Sequence[str],
    overrides: Sequence[str] = (),
    dataset: str | None = None,
    attentions: Sequence[str] = (),
) -> list[Contestant]:
    """Return what is compared: recipes, finished runs, and the baselines among or after them.

    Args:
        sources: names or files of recipes, or folders of finished runs.
        overrides: `KEY=VALUE` changes of every recipe that is not a finished run.
        dataset: also every recipe called MODEL-DATASET; where there is none, every model with its
            default options.
        attentions: each recipe whose model attends is compared with each of these: a word, or
            `{name: rba, size: 512}`. Without any, recipes stay as they are.

    Raises:
        ZooError: nothing to compare, a recipe or run that cannot be read, or several data sets.
    """
    found = [_read(each, overrides) for each in sources]
    if dataset is not None:
        found += _all_of(dataset, overrides)
    if not found:
        raise ZooError(
            "nothing to compare: write names of recipes (`zoo list recipes`), folders of finished "
            "runs, or `--dataset cora` for every model with a recipe for it."
        )
    first = found[0].plan
    for plan in (each.plan for each in found):
        if plan.dataset["name"] != first.dataset["name"]:
            raise ZooError(
                f"{first.recipe.name} is on {first.dataset['name']} and {plan.recipe.name} on "
                f"{plan.dataset['name']}; compare recipes of one data set."
            )
    found = _with_splits(found)
    first = found[0].plan
    present = {each.plan.model["name"] for each in found}
    tasks = MODELS.get(first.model["name"], Model).tasks  # of a run, one may be unknown here
    fit = [each for each in BASELINES if {*MODELS[each].tasks} & {*tasks}]
    missing = [each for each in fit if each not in present]
    found = [each for entry in found for each in _with_attentions(entry, attentions)]
    return found + [_baseline(each, first) for each in missing]


def compare(
    entries: Sequence[Contestant],
    *,
    device: str = "auto",
    runs: Path = Path("runs"),
    again: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Return the summary of every entry, the best test score first; train what is not finished.

    Each summary also says whether it was `read` from an earlier run, is `tuned`, and has the
    `same_splits` as the first entry.

    Args:
        entries: from `contestants`.
        device: `auto`, `cpu` or `cuda`.
        runs: where runs are looked for and written.
        again: train recipes anew whose runs are finished.
        tell: called with a sentence before each run.

    Raises:
        ZooError: a run did not finish; those before it are kept, and read the next time.
    """
    summaries = []
    for number, entry in enumerate(entries, start=1):
        known = entry.summary
        if known is None and not again:
            known = finished(entry.plan, runs)
        if known is None:
            tell(f"{number} of {len(entries)}: {entry.plan.recipe.name}")
        summary = train_apart(entry.plan, device, runs) if known is None else known
        summaries.append({**summary, "read": known is not None, "tuned": entry.tuned})
    nodes = [[seed["split_sha256"] for seed in each["seeds"]] for each in summaries]
    rows = [
        {**each, "same_splits": mine == nodes[0]}
        for each, mine in zip(summaries, nodes, strict=True)
    ]
    return sorted(rows, key=lambda each: -gain(each["metric"], each["test"]["mean"]))


def contestant(recipe: Recipe, *, name: str | None = None, **options: Any) -> Contestant:
    """Return the contestant of a recipe that may be trained, under another name if one is given."""
    renamed = recipe if name is None else recipe.model_copy(update={"name": name})
    return Contestant(resolve(renamed, trust=True), **options)


def finished(plan: Plan, runs: Path) -> dict[str, Any] | None:
    """Return the summary of the latest finished run of exactly this training, None without one."""
    wanted = _training(with_split(plan))
    folders = f"{glob.escape(plan.recipe.name)}-*"
    for path in sorted(runs.glob(f"{folders}/summary.json"), reverse=True):
        try:
            theirs = resolve(load_recipe(read_recipe(path.parent)[0]))
            summary = read_summary(path.parent)
        except ZooError:  # damaged, or of another version of the zoo
            continue
        code = said_of(path.parent)[0].get("imports", plan.code)
        if _training(theirs) == wanted and code == plan.code and not summary["interrupted"]:
            return summary
    return None


def _training(plan: Plan) -> dict[str, Any]:
    """Return all of a plan that a run depends on: what it should reach is no part of that."""
    return {key: value for key, value in plan.plain().items() if key != "expect"}


def train_apart(plan: Plan, device: str, runs: Path) -> dict[str, Any]:
    """Train a plan in a process of its own, progress on standard error; return its summary."""
    name = plan.recipe.name
    if plan.code is None:
        raise ZooError(f"{name} imports code, {', '.join(plan.imports)}, which was not asked for.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.yaml"
        path.write_text(recipe_text(plan.plain()))
        words = ["train", path, "--json", "--device", device, "--runs", runs]
        command = [sys.executable, "-P", "-m", "zoo", *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 130:
        raise KeyboardInterrupt
    if done.returncode != 0:
        how = "was killed, as a rule for want of memory" if done.returncode < 0 else "failed"
        raise ZooError(
            f"{name} {how} (exit code {done.returncode}). What was finished before is in "
            f"{runs} and will be read, not repeated; leave {name} out, or change it."
        )
    return json.loads(done.stdout)


def _read(source: str, overrides: Sequence[str]) -> Contestant:
    path = Path(source) / "summary.json"
    if not os.path.isfile(path):
        return contestant(load_recipe(source, overrides, trust=True))
    recipe = load_recipe(read_recipe(path.parent)[0])
    return Contestant(resolve(recipe), summary=read_summary(path.parent))


def _all_of(dataset: str, overrides: Sequence[str]) -> list[Contestant]:
    names = [f"{model}-{dataset}" for model in list_models()]
    shipped = [each for each in names if each in recipe_names()]
    if shipped:
        return [contestant(load_recipe(each, overrides)) for each in shipped]
    return [
        _untuned(model, {"dataset": dataset}, overrides)
        for model in list_models(task="node-classification")
    ]


def _with_splits(entries: Sequence[Contestant]) -> list[Contestant]:
    """Name the split of every plan; what has to be read for that is read once."""
    known: dict[str, Spec] = {}
    found = []
    for entry in entries:
        graph = json.dumps(entry.plan.dataset)
        split = entry.plan.split or known.get(graph) or with_split(entry.plan).split
        if entry.plan.split is None:
            known[graph] = split
        found.append(entry._replace(plan=dataclasses.replace(entry.plan, split=split)))
    return found


def _with_attentions(entry: Contestant, attentions: Sequence[str]) -> list[Contestant]:
    """Return an entry once with each attention, as it is where it has no choice or has been run."""
    plan = entry.plan
    if entry.summary is not None or "attention" not in plan.model:
        return [entry]
    found = []
    for attention in attentions:
        changed = load_recipe(plan.plain(), [f"model.attention={attention}"], trust=True)
        name = f"{plan.recipe.name}-{_label(changed.model['attention'])}"
        found.append(contestant(changed, name=name, tuned=entry.tuned))
    return found or [entry]


def _baseline(model: str, first: Plan) -> Contestant:
    """Return a baseline on the nodes of the first plan: tuned, where a recipe is shipped."""
    name, data = f"{model}-{path_name(first.dataset['name'])}", first.plain()
    if name not in recipe_names():
        own = {"imports": first.imports} if first.code else {}
        try:
            given = {"dataset": data["dataset"], "seeds": data["seeds"], **own}
            batching = first.train["batching"]
            return _untuned(
                model, given, batching=batching if word(batching) in OF_MANY else "full"
            )
        except ZooError:
            if first.code is not None:
                raise
            raise ZooError(
                f"{first.recipe.path} imports code, {', '.join(first.imports)}, which is not run "
                f"to read a run, and {model} is to be trained on the same data. Name a recipe of "
                "your own that imports it before the run."
            ) from None
    own = resolve(load_recipe(name)).plain()
    own["dataset"]["split"], own["seeds"] = data["dataset"]["split"], data["seeds"]
    return contestant(load_recipe(own), name=name)


def _untuned(
    model: str, data: dict[str, Any], overrides: Sequence[str] = (), batching: Spec = "full"
) -> Contestant:
    train = {**UNTUNED, "batching": batching}
    recipe = load_recipe({**data, "model": model, "train": train}, overrides, trust=True)
    return contestant(recipe, name=f"{model}-{path_name(word(recipe.dataset))}", tuned=False)


def _label(spec: str | dict[str, Any]) -> str:
    """Return `rba-512` for `{name: rba, size: 512}`: what a name can hold."""
    if isinstance(spec, str):
        return spec
    return "-".join(_label(each) if isinstance(each, dict) else str(each) for each in spec.values())
