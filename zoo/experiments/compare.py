"""Several recipes on one data set, beside the baselines that none of them may leave out.

Each is trained by a process of its own: the peak of memory is then its own too, and what ends one
run leaves the others alone. A finished run is read, not repeated, and one that was ended goes on;
what the recipe of a named run imports is not run. A comparison is fair where all have the same
budget: added baselines train as long as the first recipe, and what has another budget is marked.
"""

import dataclasses
import functools
import json
import os
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.config.metadata import stem_of
from zoo.config.metrics import beside, gain
from zoo.config.options import Spec, options_of
from zoo.config.question import other_question
from zoo.config.recipe import Recipe, word
from zoo.config.shipped import recipe_names
from zoo.errors import ZooError
from zoo.experiments.launch import begun, finished, resume_apart, train_apart
from zoo.experiments.prepare import files_of_data
from zoo.experiments.resolve import UNTUNED, Plan, load_recipe, resolve, with_split
from zoo.experiments.run_files import read_environment, read_recipe, read_summary
from zoo.registry import MODELS, Model
from zoo.weights.create import list_models

BASELINES = ("gcn", "mlp")
"""The models that stand in every comparison of models for graphs."""

BUDGET = ("epochs", "patience", "batching")
"""Options of the training that say how many steps a model may take."""

SHARED = (*BUDGET, "evaluate_every", "evaluate", "precision", "inductive")
"""What an added baseline takes over from the training of the first recipe: all but its tuning."""


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
    tuned: bool = False,
    baselines: bool = True,
) -> list[Contestant]:
    """Return what is compared: recipes, finished runs, and the baselines among or after them.

    A baseline that is added has its default options and the budget, seeds and splits of the first.

    Args:
        sources: names or files of recipes, or folders of finished runs.
        overrides: `KEY=VALUE` changes of every recipe that is not a finished run, and of the added
            baselines; those of an option of the model reach a baseline that has this option.
        dataset: also every recipe called MODEL-DATASET; where there is none, every model with its
            default options.
        attentions: each recipe whose model attends is compared with each of these: a word, or
            `{name: rba, size: 512}`. Without any, recipes stay as they are.
        tuned: add baselines as their shipped recipes are, with their own budget.
        baselines: add those of `BASELINES` that are missing.

    Raises:
        ZooError: nothing to compare, a recipe or run that cannot be read, or several data sets.
    """
    found = [_read(each, overrides) for each in sources]
    if dataset is not None:
        known = [each.plan.recipe.name for each in found]
        every = _all_of(dataset, overrides)
        found += [each for each in every if each.plan.recipe.name not in known]
    if not found:
        raise ZooError(
            "nothing to compare: write names of recipes (`zoo list recipes`), folders of finished "
            "runs, or `--dataset cora` for every model with a recipe for it."
        )
    _check_one_dataset(
        [*sources, *(each.plan.recipe.name for each in found[len(sources) :])], found
    )
    if attentions and not any("attention" in each.plan.model for each in found):
        raise ZooError("none of these models has an attention to choose; leave --attention out.")
    found = _with_splits(found)
    first = found[0].plan
    # A recipe without edges says nothing of those that a baseline is to learn from.
    wired = next((each.plan for each in found if each.plan.graph["name"] != "none"), first)
    first = dataclasses.replace(first, graph=wired.graph)
    present = {each.plan.model["name"] for each in found}
    tasks = MODELS.get(first.model["name"], Model).tasks  # of a run, one may be unknown here
    fit = [each for each in BASELINES if baselines and {*MODELS[each].tasks} & {*tasks}]
    missing = [each for each in fit if each not in present]
    different = [*dict.fromkeys(attentions)]
    found = [each for entry in found for each in _with_attentions(entry, different)]
    found += [_baseline(each, first, overrides, tuned) for each in missing]
    _check_same_files(found)
    return found


def compare(
    entries: Sequence[Contestant],
    *,
    device: str = "auto",
    runs: Path = Path("runs"),
    again: bool = False,
    quiet: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[dict[str, Any]]:
    """Return the summary of every entry, the best test score first; train what is not finished.

    Each summary also says whether it was `read` from an earlier run, is `tuned`, has the
    `same_budget` as the first entry and the `same_splits` as the best; its `budget`; the means over
    seeds of the `epochs` run and of the `best_epoch`; and the `difference` from the best, with its
    interval and whether that is `noise`: None for the best, and where seeds or splits are others.

    Args:
        entries: from `contestants`.
        device: `auto`, `cpu` or `cuda`.
        runs: where runs are looked for and written.
        again: train recipes anew whose runs are finished.
        quiet: nothing is told of the progress of a training.
        tell: called with a sentence before each run.

    Raises:
        ZooError: a run did not finish; it goes on the next time, and those before it are read.
    """
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(entries, start=1):
        known = entry.summary or (None if again else finished(entry.plan, runs))
        if known is None:
            tell(f"{number} of {len(entries)}: {entry.plan.recipe.name}")
        summary = known or _trained(entry.plan, device, runs, again, quiet)
        rows.append({**_row(entry, summary), "read": known is not None})
    if len(metrics := sorted({each["metric"] for each in rows})) > 1:
        raise ZooError(f"these are measured by {' and by '.join(metrics)}; compare those of one.")
    names = [each["recipe"] for each in rows]
    for each in rows:  # several runs of a recipe are called by their folders
        if names.count(each["recipe"]) > 1:
            each["recipe"] = Path(each["folder"]).name
    first = rows[0]["budget"]
    rows.sort(key=lambda each: -gain(each["metric"], each["test"]["mean"]))
    return [
        {**each, "same_budget": each["budget"] == first, **beside(each, rows[0])} for each in rows
    ]


def _trained(plan: Plan, device: str, runs: Path, again: bool, quiet: bool) -> dict[str, Any]:
    """Return the summary of a plan's training, which goes on where one of it was ended."""
    folder = None if again else begun(plan, runs)
    if folder is None:
        return train_apart(plan, device, runs, quiet=quiet)
    return {**resume_apart(folder, device, quiet=quiet), "recipe": plan.recipe.name}


def _row(entry: Contestant, summary: dict[str, Any]) -> dict[str, Any]:
    """Return a summary with what the entry says of it, and the epochs that its seeds have run."""
    return {
        **summary,
        "tuned": entry.tuned,
        "budget": {key: entry.plan.train.get(key) for key in BUDGET},
        "epochs": statistics.fmean(each["epochs"] for each in summary["seeds"]),
        "best_epoch": statistics.fmean(each["epoch"] for each in summary["seeds"]),
    }


def contestant(recipe: Recipe, *, name: str | None = None, **options: Any) -> Contestant:
    """Return the contestant of a recipe that may be trained, under another name if one is given."""
    renamed = recipe if name is None else recipe.model_copy(update={"name": name})
    return Contestant(resolve(renamed, trust=True), **options)


def _read(source: str, overrides: Sequence[str]) -> Contestant:
    path = Path(source) / "summary.json"
    if not os.path.isfile(path):
        return contestant(load_recipe(source, overrides, trust=True))
    recipe = load_recipe(read_recipe(path.parent)[0])
    summary = {**read_summary(path.parent), "folder": str(path.parent)}  # it may have been moved
    return Contestant(resolve(recipe), summary=summary)


def _check_one_dataset(names: Sequence[str], found: Sequence[Contestant]) -> None:
    """Refuse several data sets; recipes and runs are named as they were asked for."""
    first = found[0].plan.dataset
    for name, each in zip(names, found, strict=True):
        if key := other_question(first, each.plan.dataset):
            one, two = first[key], each.plan.dataset[key]
            said = f"{names[0]} has {one} for `dataset.{key}` and {name} has {two}"
            raise ZooError(f"{said}; compare recipes and runs of one data set.")


def _check_same_files(found: Sequence[Contestant]) -> None:
    """Refuse one's own data that have changed between one run and another, or since a run."""
    known: dict[str, tuple[str, str]] = {}
    for each in found:
        name, noted = each.plan.recipe.name, None
        if each.summary is not None:
            name = each.summary["folder"]
            noted = read_environment(Path(name))
        for path, sha256 in files_of_data(each.plan, noted and noted.files).items():
            other, first = known.setdefault(path, (name, sha256))
            if sha256 != first:
                raise ZooError(
                    f"{path} of {other} is not that of {name}: it has changed in between, and "
                    "their scores are of different data. Put the former file back, or train anew "
                    "what is of it."
                )


def _all_of(dataset: str, overrides: Sequence[str]) -> list[Contestant]:
    names = [f"{model}-{dataset}" for model in list_models()]
    shipped = [each for each in names if each in recipe_names()]
    if shipped:
        return [contestant(load_recipe(each, overrides)) for each in shipped]
    return [
        _untuned(model, {"dataset": dataset}, UNTUNED, overrides)
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
    given = ([f"model.attention={each}"] for each in attentions)
    found = [load_recipe(plan.plain(), each, trust=True) for each in given]
    names = [f"{plan.recipe.name}-{_label(each.model['attention'])}" for each in found]
    of = functools.partial(contestant, tuned=entry.tuned)
    return [of(each, name=name) for each, name in zip(found, names, strict=True)] or [entry]


def _baseline(model: str, first: Plan, overrides: Sequence[str], tuned: bool) -> Contestant:
    """Return a baseline on the data, the seeds and the splits of the first plan."""
    name = f"{model}-{stem_of(first.dataset['name'])}"
    data = first.plain()
    changes = [each for each in overrides if _reaches(model, each)]
    given = {"dataset": data["dataset"], "seeds": data["seeds"]}
    if tuned and name in recipe_names():
        own = resolve(load_recipe(name, changes)).plain()
        return contestant(load_recipe({**own, **given}), name=name)
    given |= {key: data[key] for key in ("graph",) if key in data}
    given |= {"imports": first.imports} if first.code else {}
    train = {key: first.train[key] for key in SHARED if key in first.train}
    try:
        return _untuned(model, given, {**UNTUNED, **train}, changes)
    except ZooError:
        if first.code is not None:
            raise
        raise ZooError(
            f"{first.recipe.path} imports code, {', '.join(first.imports)}, which is not run "
            f"to read a run, and {model} is to be trained on the same data. Name a recipe of "
            "your own that imports it before the run."
        ) from None


def _reaches(model: str, override: str) -> bool:
    """Return whether an override is one of a baseline: the data and the seeds are the first's."""
    key = override.partition("=")[0].strip()
    if key.startswith("model."):
        return key.split(".")[1].strip() in options_of(MODELS[model])
    return key.split(".")[0].strip() in ("train", "encoding", "graph")


def _untuned(
    model: str, data: dict[str, Any], train: dict[str, Any], overrides: Sequence[str]
) -> Contestant:
    """Return a model with its default options, under a name that no shipped recipe has."""
    recipe = load_recipe({**data, "model": model, "train": train}, overrides, trust=True)
    name = f"{model}-{stem_of(word(recipe.dataset))}"
    return contestant(
        recipe, name=f"{name}-default" if name in recipe_names() else name, tuned=False
    )


def _label(spec: str | dict[str, Any]) -> str:
    """Return `rba-512` for `{name: rba, size: 512}`: what a name can hold."""
    if isinstance(spec, str):
        return spec
    return "-".join(_label(each) if isinstance(each, dict) else str(each) for each in spec.values())
