"""What is compared: recipes and finished runs of one data set, and the baselines beside them.

A comparison is fair where all have the same budget: added baselines train as long as the first
recipe. What the recipe of a named run imports is not run.
"""

import dataclasses
import functools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.config.metadata import stem_of
from zoo.config.options import Spec, options_of
from zoo.config.question import other_question
from zoo.config.recipe import Recipe, word
from zoo.config.shipped import recipe_names
from zoo.errors import ZooError
from zoo.registry import MODELS, Model
from zoo.runs.launch import is_of_this_code
from zoo.runs.prepare import files_of_data
from zoo.runs.resolve import UNTUNED, Plan, load_recipe, resolve, with_split
from zoo.runs.run_folder import read_environment, read_recipe, read_summary
from zoo.weights.create import list_models

BASELINES = ("gcn", "mlp")
"""The models that stand in every comparison of models for graphs."""

BUDGET = ("epochs", "patience", "batching")
"""Options of the training that say how many steps a model may take."""

WAYS = ("evaluate_every", "evaluate_from", "evaluate", "inductive")
"""Options of the training that say which epoch is chosen, and what a model may see before."""

SHARED = (*BUDGET, *WAYS, "precision")
"""What an added baseline takes over from the training of the first recipe: all but its tuning."""


class Candidate(NamedTuple):
    """A plan to compare.

    Attributes:
        plan: what is trained.
        summary: of its run, where that was named.
        tuned: whether its options are chosen for the data; those of a baseline may be the defaults.
        added: whether it is a baseline that nobody named.
        changes: the overrides of a baseline of default options.
        unreached: the overrides of others, which a run that was named had not.
        same_code: whether the run that was named is by this code of the zoo's models.
    """

    plan: Plan
    summary: dict[str, Any] | None = None
    tuned: bool = True
    added: bool = False
    changes: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    same_code: bool = True


def candidates(
    sources: Sequence[str],
    overrides: Sequence[str] = (),
    dataset: str | None = None,
    attentions: Sequence[str] = (),
    tuned: bool = False,
    baselines: bool = True,
) -> list[Candidate]:
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
        tuned: add baselines as their shipped recipes are, with their own features and budget.
        baselines: add those of `BASELINES` that are missing.

    Raises:
        ZooError: nothing to compare, a recipe or run that cannot be read, several data sets, or
            finished runs alone that are to be changed.
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
    _check_changes(found, overrides, attentions)
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
    added = (_baseline(each, first, overrides, tuned) for each in missing)
    found += [each._replace(added=True) for each in added]
    _check_same_files(found)
    return found


def candidate(recipe: Recipe, *, name: str | None = None, **options: Any) -> Candidate:
    """Return the candidate of a recipe that may be trained, under another name if one is given."""
    renamed = recipe if name is None else recipe.model_copy(update={"name": name})
    return Candidate(resolve(renamed, trust=True), **options)


def _read(source: str, overrides: Sequence[str]) -> Candidate:
    path = Path(source) / "summary.json"
    if not os.path.isfile(path):
        return candidate(load_recipe(source, overrides, trust=True))
    recipe = load_recipe(read_recipe(path.parent)[0])
    summary = {**read_summary(path.parent), "folder": str(path.parent)}  # it may have been moved
    same = is_of_this_code(read_environment(path.parent))
    return Candidate(resolve(recipe), summary, unreached=tuple(overrides), same_code=same)


def _check_changes(
    found: Sequence[Candidate], overrides: Sequence[str], attentions: Sequence[str]
) -> None:
    """Refuse changes where there are finished runs alone, which stay as they are."""
    free = [each for each in found if each.summary is None]
    if overrides and not free:
        raise ZooError(
            f"finished runs are as they are; leave {overrides[0]} out, or name a recipe."
        )
    if attentions and not any("attention" in each.plan.model for each in free):
        which = "finished runs keep their attention" if not free else (
            "none of these models has an attention to choose"
        )  # fmt: skip
        raise ZooError(f"{which}; leave --attention out, or name a recipe of one that has.")


def _check_one_dataset(names: Sequence[str], found: Sequence[Candidate]) -> None:
    """Refuse several data sets; recipes and runs are named as they were asked for."""
    first = found[0].plan.dataset
    for name, each in zip(names, found, strict=True):
        if key := other_question(first, each.plan.dataset):
            one, two = first[key], each.plan.dataset[key]
            said = f"{names[0]} has {one} for `dataset.{key}` and {name} has {two}"
            raise ZooError(f"{said}; compare recipes and runs of one data set.")


def _check_same_files(found: Sequence[Candidate]) -> None:
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


def _all_of(dataset: str, overrides: Sequence[str]) -> list[Candidate]:
    names = [f"{model}-{dataset}" for model in list_models()]
    shipped = [each for each in names if each in recipe_names()]
    if shipped:
        return [candidate(load_recipe(each, overrides)) for each in shipped]
    return [
        _untuned(model, {"dataset": dataset}, UNTUNED, overrides)
        for model in list_models(task="node-classification")
    ]


def _with_splits(entries: Sequence[Candidate]) -> list[Candidate]:
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


def _with_attentions(entry: Candidate, attentions: Sequence[str]) -> list[Candidate]:
    """Return an entry once with each attention, as it is where it has no choice or has been run."""
    plan = entry.plan
    if entry.summary is not None or "attention" not in plan.model:
        return [entry]
    given = ([f"model.attention={each}"] for each in attentions)
    found = [load_recipe(plan.plain(), each, trust=True) for each in given]
    names = [f"{plan.recipe.name}-{_label(each.model['attention'])}" for each in found]
    of = functools.partial(candidate, tuned=entry.tuned)
    return [of(each, name=name) for each, name in zip(found, names, strict=True)] or [entry]


def _baseline(model: str, first: Plan, overrides: Sequence[str], tuned: bool) -> Candidate:
    """Return a baseline on the data, the seeds and the splits of the first plan."""
    name = f"{model}-{stem_of(first.dataset['name'])}"
    data = first.plain()
    changes = [each for each in overrides if _reaches(model, each)]
    given = {"dataset": data["dataset"], "seeds": data["seeds"]}
    if tuned and name in recipe_names():
        own = resolve(load_recipe(name, changes)).plain()
        if "features" in own["dataset"] and not any(map(_of_features, overrides)):
            features = own["dataset"]["features"]
            given["dataset"] = {**given["dataset"], "features": features}
        return candidate(load_recipe({**own, **given}), name=name)
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


def _of_features(override: str) -> bool:
    key, _, value = override.partition("=")
    return key.strip().startswith("dataset.features") or (
        key.strip() == "dataset" and "features" in value
    )


def _reaches(model: str, override: str) -> bool:
    """Return whether an override is one of a baseline: the data and the seeds are the first's."""
    key = override.partition("=")[0].strip()
    if key.startswith("model."):
        return key.split(".")[1].strip() in options_of(MODELS[model])
    return key.split(".")[0].strip() in ("train", "encoding", "graph")


def _untuned(
    model: str, data: dict[str, Any], train: dict[str, Any], overrides: Sequence[str]
) -> Candidate:
    """Return a model with its default options, under a name that no shipped recipe has."""
    recipe = load_recipe({**data, "model": model, "train": train}, overrides, trust=True)
    name = f"{model}-{stem_of(word(recipe.dataset))}"
    name = f"{name}-default" if name in recipe_names() else name
    return candidate(recipe, name=name, tuned=False, changes=tuple(overrides))


def _label(spec: str | dict[str, Any]) -> str:
    """Return `rba-512` for `{name: rba, size: 512}`: what a name can hold."""
    if isinstance(spec, str):
        return spec
    return "-".join(_label(each) if isinstance(each, dict) else str(each) for each in spec.values())
