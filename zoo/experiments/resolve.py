"""A recipe held against every table: `load_recipe` checks it, `resolve` makes it a plan."""

import dataclasses
import functools
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo.config.json_schema import json_schema, options_schema
from zoo.config.options import (
    Spec,
    option_problems,
    problems,
    resolved,
    resolved_options,
    value_problems,
)
from zoo.config.recipe import Recipe, divide, read_recipe, recipe_file, recipe_schema, word
from zoo.datasets.load import (
    DATASETS,
    dataset_problems,
    default_split,
    load_graph,
    resolved_dataset,
)
from zoo.datasets.splits import split_problems
from zoo.encodings import ENCODINGS, SIGNED
from zoo.errors import Problem, ZooError
from zoo.registry import MODELS, discover
from zoo.training.fit import fit
from zoo.weights.folder import CONFIG, PRETRAINED, locate, read_config


def load_recipe(source: str | Path | dict, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe and check all of it, options of models and data sets included.

    Args:
        source: the name of a shipped recipe, a path to a YAML file, or a mapping.
        overrides: `KEY=VALUE` texts with dotted keys, such as `model.attention=rba`.

    Raises:
        ZooError: everything that is wrong, with file, line, key and suggestion.
    """
    folder = recipe_file(source).parent if isinstance(source, str | Path) else Path()
    check = functools.partial(_problems, folder=folder)
    return read_recipe(source, overrides, check=check)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A recipe with every option written out, made once and handed on to all that works with it.

    It holds words and numbers alone: the graph is read by who trains on it.

    Attributes:
        recipe: what was read.
        dataset: what `load_graph` takes.
        split: None: that of the graph, `Dataset.split`.
        encoding: a word of `ENCODINGS` with its options.
        flip_signs: whether the signs of the encoding are drawn anew in training.
        model: a word of `MODELS` with its options.
        train: the options of `fit`.
        start_from: weights to begin with, by an absolute path, or None.
        imports: Python files, by absolute paths, and modules.
    """

    recipe: Recipe
    dataset: dict[str, Any]
    split: Spec | None
    encoding: dict[str, Any]
    flip_signs: bool
    model: dict[str, Any]
    train: dict[str, Any]
    start_from: dict[str, Any] | None
    imports: list[str]

    def plain(self) -> dict[str, Any]:
        """Return plain data that `load_recipe` reads back from any folder."""
        own = {} if self.split is None else {"split": self.split}
        full = {
            **self.recipe.plain(),
            "dataset": {**self.dataset, **own},
            "encoding": {**self.encoding, "flip_signs": self.flip_signs},
            "model": self.model,
            "train": self.train,
        }
        full |= {"start_from": self.start_from} if self.start_from else {}
        return full | ({"imports": self.imports} if self.imports else {})


def resolve(recipe: Recipe) -> Plan:
    """Write out the default of every option; no graph is read.

    What the recipe imports is imported, if it is not yet.
    """
    folder = recipe.path.parent if recipe.path else Path()
    import_sources(recipe.imports, folder)
    dataset, of_dataset = divide(recipe.dataset, ("split",))
    encoding, of_encoding = divide(recipe.encoding, ("flip_signs",))
    start = recipe.start_from and {
        **recipe.start_from.model_dump(),
        "weights": _pinned(recipe.start_from.weights),
    }
    return Plan(
        recipe=recipe,
        dataset=resolved_dataset(dataset),
        split=of_dataset.get("split"),
        encoding=resolved(ENCODINGS, encoding),
        flip_signs=of_encoding.get("flip_signs", False),
        model=resolved(MODELS, recipe.model),
        train=resolved_options(fit, recipe.train),
        start_from=start,
        imports=[_absolute(each, folder) for each in recipe.imports],
    )


def with_split(plan: Plan) -> Plan:
    """Return the plan with its split named; a graph is read if nothing but its files names it."""
    if plan.split is not None:
        return plan
    split = default_split(plan.dataset["name"]) or load_graph(plan.dataset).split
    return dataclasses.replace(plan, split=split)


def write_out(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain data with every option and the split written out."""
    return with_split(resolve(recipe)).plain()


def check_processes(plan: Plan, processes: int) -> None:
    """Refuse several processes that would all do the same, or each something else.

    Raises:
        ZooError: nothing in the recipe is divided among them, or two things are.
    """
    name = plan.recipe.name
    attention, batching = plan.model.get("attention"), word(plan.train["batching"])
    sharded = isinstance(attention, dict) and attention.get("shard", "none") != "none"
    if processes > 1 and not sharded and batching == "full":
        raise ZooError(
            f"nothing in {name} is divided among {processes} processes. Write random "
            "batches that are, 'model.attention={name: rba, shard: replicated}' or `shard: local`, "
            "or batches of nodes, 'train.batching={name: random-nodes, size: 10000}', or start one "
            "process."
        )
    if processes > 1 and sharded and batching != "full":
        raise ZooError(
            f"{name} divides both batches of nodes and their random batches among "
            f"{processes} processes. Leave `shard` out: the batches of nodes are divided already."
        )


def schema() -> dict[str, Any]:
    """Return the JSON schema of a recipe, options of every registered model included."""
    discover()
    dataset, encoding = json_schema(DATASETS), json_schema(ENCODINGS)
    for entry in dataset["$defs"]["dataset"]["anyOf"][1:]:
        entry["properties"]["split"] = {"type": ["string", "object"]}
    for entry in encoding["$defs"]["encoding"]["anyOf"][1:]:
        entry["properties"]["flip_signs"] = {"type": "boolean", "default": False}
    model, train = json_schema(MODELS), options_schema(fit)
    return recipe_schema({"dataset": dataset, "encoding": encoding, "model": model, "train": train})


def import_sources(sources: Sequence[str], folder: Path) -> None:
    """Import what a recipe's `imports` names: Python files, relative to a folder, or modules.

    Raises:
        ZooError: a file or module is missing, or fails while it is imported.
    """
    for source in sources:
        try:
            if source.endswith(".py"):
                _import_file((folder / source).resolve())
            else:
                importlib.import_module(source)
        except ZooError:
            raise
        except Exception as error:  # a user's file may raise anything
            raise ZooError(
                f"imports: {source!r} cannot be imported: {type(error).__name__}: {error}. "
                "Name a Python file beside the recipe, or an installed module."
            ) from error


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise ZooError(f"imports: there is no file {path}. Name a Python file beside the recipe.")
    # The name holds the path and the time of the last change: a file is run once, and again only
    # when it has changed; two files of one name do not meet.
    name = f"zoo_import {path} {path.stat().st_mtime_ns}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _pinned(weights: str) -> str:
    """Return weights as a recipe in any other folder has to name them: those of one seed."""
    folder = locate(weights).folder
    return folder.name if folder.parent == PRETRAINED else str(folder.resolve())


def _absolute(source: str, folder: Path) -> str:
    """Return a source as a recipe in any other folder has to name it."""
    return str((folder / source).resolve()) if source.endswith(".py") else source


def _problems(data: dict[str, Any], folder: Path) -> list[Problem]:
    """Return what is wrong with the words and options of a recipe's raw data."""
    imports = data.get("imports")
    if isinstance(imports, list) and all(isinstance(each, str) for each in imports):
        try:
            import_sources(imports, folder)
        except ZooError as error:
            return [Problem(("imports",), str(error).removeprefix("imports: "))]
    discover()
    found = []
    if "dataset" in data:
        spec, own = divide(data["dataset"], ("split",))
        found += dataset_problems(spec, ("dataset",), ["split"])
        if "split" in own:
            found += split_problems(own["split"], ("dataset", "split"))
    if "encoding" in data:
        spec, own = divide(data["encoding"], ("flip_signs",))
        found += problems(ENCODINGS, spec, ("encoding",), ["flip_signs"])
        if "flip_signs" in own:
            where = ("encoding", "flip_signs")
            found += value_problems(bool, own["flip_signs"], where)
            if own["flip_signs"] is True and spec.get("name") not in SIGNED:
                message = f"{spec.get('name')} has no signs to flip; leave it out"
                found.append(Problem(where, message))
    if "model" in data:
        found += problems(MODELS, data["model"], ("model",))
    if isinstance(data.get("train"), dict):
        found += option_problems("train", fit, data["train"], ("train",))
    return found + _start_problems(data.get("start_from"))


def _start_problems(start: Any) -> list[Problem]:
    if not isinstance(start, dict) or not isinstance(start.get("weights"), str):
        return []  # the structure is looked at elsewhere
    try:
        read_config(locate(start["weights"]).folder / CONFIG)
    except ZooError as error:
        return [Problem(("start_from", "weights"), str(error))]
    return []
