"""Fine-tuning: the recipe that trains on from weights, and its twin that begins from scratch."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.config.metadata import About
from zoo.config.options import Spec, pick
from zoo.config.recipe import divide, word
from zoo.data.links import LinkData
from zoo.data.load import load_data, usual_batching
from zoo.errors import ZooError
from zoo.inference.matching import warn_of_unseen
from zoo.inference.training_data import (
    as_trained,
    split_from_start,
    split_of_same_rows,
    training_of,
    training_split,
)
from zoo.runs.prepare import reads_other_columns
from zoo.runs.resolve import Plan, load_recipe, resolve
from zoo.tasks.labels import LINKS, OF_GRAPHS
from zoo.tasks.links import OF_RECIPES
from zoo.weights.create import hint_imports
from zoo.weights.files import CONFIG, read_config
from zoo.weights.transfer import OF_ALL

OF_ROWS = (
    "batching",
    "evaluate",
    "inductive",
    "loss",
    "label_smoothing",
    "class_weights",
    "metric",
)
"""Options of training that are of what has a label, nodes or links."""


class Finetuning(NamedTuple):
    """What a fine-tuning trains.

    Attributes:
        plan: from weights.
        scratch: the same from new weights, at the learning rate of the weights' own training.
        data: what both are trained on.
        own_rate: whether the learning rate is that of the training of the weights.
        other_features: whether the data have other features than the weights read: what these
            have learnt may then be worth less than nothing.
        new_classes: names of classes that the weights do not know, where they know others of the
            data: the head, which has a row for each class, begins anew then.
    """

    plan: Plan
    scratch: Plan
    data: Any
    own_rate: bool
    other_features: bool
    new_classes: list[str]

    @property
    def begins_anew(self) -> bool:
        """Whether stem or head are new, so that as much from scratch may be the better one."""
        return self.other_features or bool(self.new_classes)


def plan_finetuning(
    folder: Path,
    data: Spec,
    overrides: Sequence[str] = (),
    *,
    freeze: str | list[str] = "none",
    lr_decay: float = 1.0,
    imports: Sequence[str] = (),
    unverified: bool = False,
) -> Finetuning:
    """Return what trains on from weights.

    Model, encoding, training, the task of links, and what is done to features are those of the
    weights. Columns that these do not know are read, and divided, as in any recipe instead.

    Args:
        folder: of weights.
        data: the data set, as a recipe names it.
        overrides: `KEY=VALUE` of a recipe.
        freeze: as in `start_from`.
        lr_decay: as in `start_from`.
        imports: code that is run first.
        unverified: as in `start_from`.

    Raises:
        ZooError: the weights, the data or an override are wrong.
    """
    training = training_of(str(folder))
    about = training.about
    given = data if isinstance(data, dict) else {"name": data}
    typed_split = divide(given, ("split",))[1]
    spec = as_trained(data, training.spec, about, same_columns=False)
    spec, usual = divide(spec, ("split",))  # sets and series keep the word of training
    recipe = _recipe(folder, spec, freeze, lr_decay, unverified)
    if word(recipe["graph"]) == "file" and not any(text.startswith("graph") for text in overrides):
        raise ZooError(
            f"{folder} was trained on the edges of a file, which are not with it; write "
            "'graph={name: file, path: edges.csv}', or graph=own where the data have edges."
        )
    dataset = recipe["dataset"]
    split = training_split(dataset, training)
    if split is None:
        split = split_of_same_rows(dataset, training.spec)
    if split is not None:  # divided as in training
        recipe["seeds"] = [about.seed or 0]
    elif usual and not typed_split:
        start_split = split_from_start(str(folder), dataset, load_data(dataset))
        usual, split = ({}, {"split": start_split}) if start_split else (usual, None)
    recipe["dataset"] = {**dataset, **usual, **(split or {}), **typed_split}
    recipe |= {"imports": [*imports]} if imports else {}
    with hint_imports(about, done=imports):
        loaded = load_recipe(recipe, overrides, trust=True)
        links = (loaded.task is None) == (about.task == LINKS)  # from nodes, or nodes from links
        graphs = (usual_batching(dataset) == "samples") != (about.task in OF_GRAPHS)  # likewise
        if links or graphs:
            others = ("encoding", "readout") if graphs else ()
            recipe = _of_other_rows(recipe, {**dataset, **typed_split}, others)
            loaded = load_recipe(recipe, overrides, trust=True)
        name = f"{recipe['model']['name']}-{Path(loaded.dataset['name']).stem}"
        plan = resolve(loaded, trust=True)
        data = load_data(plan.dataset)
        other_features = reads_other_columns(plan, data)
        if other_features:
            unasked = {"features", *(usual if split is None else ())} - _asked(given, overrides)
            if unasked & {*loaded.dataset}:
                kept = {key: each for key, each in loaded.dataset.items() if key not in unasked}
                plan = resolve(loaded.model_copy(update={"dataset": kept}), trust=True)
                data = load_data(plan.dataset)
        if not other_features and about.columns:
            warn_of_unseen(data, about.columns)
        plan = _with_known_nodes(plan, folder, data)
        scratch = _renamed(plan, f"{name}-from-scratch", start_from=None)
        plan = _renamed(plan, f"{name}-finetuned")
    rate = recipe["train"].get("lr")
    own_rate = loaded.train.get("lr") == rate
    if rate is not None and not own_rate:
        scratch = _with_rate(scratch, rate)
    return Finetuning(plan, scratch, data, own_rate, other_features, _new_classes(about, data))


def _new_classes(about: About, data: Any) -> list[str]:
    """Return the classes of data that weights do not know, if they know one of them."""
    if about.task != data.task or not about.labels or not data.labels:
        return []
    new = [name for name in data.labels if name not in about.labels]
    return [] if len(new) == len(data.labels) else new


def _with_known_nodes(plan: Plan, folder: Path, data: Any) -> Plan:
    """Return a plan in which what the weights know keeps its part, from scratch as well."""
    if plan.split is not None:
        return plan
    if plan.task is not None:
        data = LinkData.of(data.with_graph(plan.graph), pick(OF_RECIPES, plan.task))
    kept = split_from_start(str(folder), plan.dataset, data)
    if kept is None:
        return plan
    dataset = {**plan.recipe.dataset, "split": kept}
    return resolve(plan.recipe.model_copy(update={"dataset": dataset}), trust=True)


def _asked(data: Mapping[str, Any], overrides: Sequence[str]) -> set[str]:
    """Return the options of the data set that somebody has typed."""
    keys = {text.partition("=")[0] for text in overrides}
    every = {"features", "split"} if "dataset" in keys else set()
    return {*data} | every | {key.removeprefix("dataset.") for key in keys}


def _renamed(plan: Plan, name: str, **changes: Any) -> Plan:
    """Return a plan of another name, with changes of its recipe that are its own as well."""
    recipe = plan.recipe.model_copy(update={"name": name, **changes})
    return dataclasses.replace(plan, recipe=recipe, **changes)


def _with_rate(plan: Plan, lr: float) -> Plan:
    """Return a plan with a learning rate."""
    recipe = plan.recipe.model_copy(update={"train": {**plan.recipe.train, "lr": lr}})
    return dataclasses.replace(plan, recipe=recipe, train={**plan.train, "lr": lr})


def _recipe(
    folder: Path, data: Spec, freeze: str | list[str], lr_decay: float, unverified: bool
) -> dict[str, Any]:
    """Return the recipe of a fine-tuning, all of it that of the weights."""
    config = read_config(folder / CONFIG)
    about, recipe = config["about"], config["about"].recipe or {}
    spec = data if isinstance(data, dict) else {"name": data}
    transform = {} if about.transform == "raw" else {"features": about.transform}
    no_options = ("in_dim", "out_dim", "about", "sha256", "model", *OF_ALL)
    options = {key: value for key, value in config.items() if key not in no_options}
    start = {"weights": str(folder), "freeze": freeze, "lr_decay": lr_decay}
    return {
        "dataset": {**transform, **spec},
        "graph": recipe.get("graph", about.graph),
        "encoding": recipe.get("encoding", about.encoding),
        **({"readout": config["readout"]} if "readout" in config else {}),
        **({"task": recipe.get("task", LINKS)} if about.task == LINKS else {}),
        "model": {"name": config["model"], **options},
        "train": recipe.get("train", {}),
        "start_from": start | ({"unverified": True} if unverified else {}),
    }


def _of_other_rows(
    recipe: dict[str, Any], dataset: dict[str, Any], others: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the recipe of a fine-tuning from nodes to links or graphs, or back.

    These are neither divided nor taken in batches nor measured as nodes are.

    Args:
        recipe: what `finetuning` returned, with a split.
        dataset: the data, without it.
        others: further keys that are left to their defaults.
    """
    train = {key: value for key, value in recipe["train"].items() if key not in OF_ROWS}
    kept = {key: value for key, value in recipe.items() if key not in ("seeds", *others)}
    return {**kept, "dataset": dataset, "train": train}
