"""A recipe held against every table: `load_recipe` checks it, `resolve` makes it a plan.

Neither runs what a recipe imports unless it is told to: looking at a recipe runs no code.
"""

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.config.options import (
    Spec,
    option_problems,
    pick,
    problems,
    resolved,
    resolved_options,
    value_problems,
)
from zoo.config.recipe import Recipe, divide, read_recipe, word
from zoo.config.shipped import is_path, recipe_file, recipe_names
from zoo.config.yaml_lines import line_text, read_value
from zoo.data.graph_words import GRAPHS
from zoo.data.links import LinkData
from zoo.data.load import (
    DATASETS,
    dataset_problems,
    default_split,
    load_data,
    resolved_dataset,
    usual_batching,
    usual_structure,
)
from zoo.data.load.named import own_metric
from zoo.data.splits import split_problems
from zoo.encodings import ENCODINGS, SIGNED
from zoo.errors import Problem, ZooError
from zoo.nn.readouts import READOUTS
from zoo.registry import MODELS, discover
from zoo.runs.imports import absolute, import_sources
from zoo.tasks.links import OF_RECIPES
from zoo.training.trainer import fit
from zoo.weights.files import CONFIG, read_config
from zoo.weights.index import HUB, PRETRAINED, locate

UNTUNED = {"lr": 0.01, "weight_decay": 5e-4, "patience": 100}
"""Training of a model with its default options, where no recipe of its own is taken."""


def load_recipe(
    source: str | Path | dict, overrides: Sequence[str] = (), *, trust: bool = False
) -> Recipe:
    """Read a recipe and check all of it, options of models and data sets included.

    What it imports is code, which its reader need not know: it is run by `run_recipe`, which trains
    with it, and not here. Words that it may define are then left unchecked until it has been run.

    Args:
        source: the name of a shipped recipe, a path to a YAML file, a mapping, or a model, whose
            default options are meant: the overrides have to name a `dataset` then, and `imports`
            where these register it.
        overrides: `KEY=VALUE` texts with dotted keys, such as `model.attention=rba`.
        trust: run what the recipe imports, and check every word against it.

    Raises:
        ZooError: everything that is wrong, with file, line, key and suggestion.
    """
    if trust:
        import_typed(source, overrides)
    if isinstance(source, str) and is_model(source):
        if not any(text.startswith(("dataset=", "dataset.name=")) for text in overrides):
            raise ZooError(
                f"{source} is a model: name a data set beside it, `dataset=PATH`, or take one of "
                f"its recipes, `zoo list recipes --model {source}`."
            )
        untuned = {"model": {"name": source}, "train": UNTUNED}
        recipe = load_recipe(untuned, overrides, trust=trust)
        return recipe.model_copy(update={"name": source})
    folder = recipe_file(source, MODELS).parent if isinstance(source, str | Path) else Path()
    check = functools.partial(_problems, folder=folder, trust=trust)
    return read_recipe(source, overrides, check=check)


def import_typed(source: object, overrides: Sequence[str]) -> None:
    """Run the imports among overrides where they may register the model that a word names.

    Raises:
        ZooError: they cannot be imported.
    """
    imports = [text for text in overrides if text.partition("=")[0].strip() == "imports"]
    known = not isinstance(source, str) or is_path(source) or source in recipe_names()
    if imports and not known and not is_model(source):
        sources = read_value(imports[-1].partition("=")[2])
        if isinstance(sources, list) and all(isinstance(each, str) for each in sources):
            import_sources(sources, Path())


def is_model(source: str) -> bool:
    """Return whether this names a model, and not a recipe."""
    discover()
    return source in MODELS and source not in recipe_names()


def remarks_on_dataset(source: str, overrides: Sequence[str]) -> list[str]:
    """Return what an override that names another data set means for a recipe, in sentences.

    What comes with the zoo was tuned for one data set; features are normalised no more.
    """
    other = next((text for text in reversed(overrides) if text.startswith("dataset=")), None)
    if other is None or is_model(source):
        return []
    try:
        recipe = load_recipe(source, trust=True)
    except ZooError:  # the override is what makes the recipe right
        return []
    dataset, model, remarks = word(recipe.dataset), word(recipe.model), []
    if not is_path(source) and other != f"dataset={dataset}":
        remarks.append(
            f"{source} was tuned for {dataset}: `zoo train {model} {other}` takes the defaults "
            f"of the model, and `zoo tune {model} --data ...` looks for settings."
        )
    named = recipe.dataset if isinstance(recipe.dataset, Mapping) else {}
    for key in ("features", "split"):
        value = named.get(key)
        if value in (None, "benchmark") or any(
            re.search(rf"\b{key}\s*[=:]", text) for text in overrides
        ):
            continue
        remarks.append(
            f"{other} leaves out `{key}: {line_text(value)}`; write "
            f"`dataset.{key}={line_text(value)}` to keep that."
        )
    own = own_metric(dataset)
    if own and not any(re.search(r"\bmetric\s*[=:]", text) for text in overrides):
        remarks.append(
            f"{dataset} is measured by {own}; write `train.metric={own}` to measure others so too."
        )
    return remarks


@dataclasses.dataclass(frozen=True)
class Plan:
    """A recipe with every option written out, made once and handed on to all that works with it.

    It holds words and numbers alone: the graph is read by who trains on it.

    Attributes:
        recipe: what was read.
        dataset: what `load_data` takes.
        split: None: that of the graph, `Dataset.split`.
        task: a word of `TASKS` with its options; None: that of the data set.
        graph: a word of `GRAPHS` with its options.
        encoding: a word of `ENCODINGS` with its options.
        readout: a word of `READOUTS` with its options; None: that of the data.
        flip_signs: whether the signs of the encoding are drawn anew in training.
        model: a word of `MODELS` with its options.
        train: the options of `fit`.
        start_from: weights to begin with, by an absolute path, or None.
        imports: Python files, by absolute paths, and modules.
        code: the SHA-256 of each of these files as it was run, by its path; None where none was.
    """

    recipe: Recipe
    dataset: dict[str, Any]
    split: Spec | None
    task: dict[str, Any] | None
    graph: dict[str, Any]
    encoding: dict[str, Any]
    readout: dict[str, Any] | None
    flip_signs: bool
    model: dict[str, Any]
    train: dict[str, Any]
    start_from: dict[str, Any] | None
    imports: list[str]
    code: dict[str, str] | None

    def plain(self) -> dict[str, Any]:
        """Return plain data that `load_recipe` reads back from any folder."""
        own = {} if self.split is None else {"split": self.split}
        full = {
            **self.recipe.plain(),
            "dataset": {**self.dataset, **own},
            "task": self.task,
            "graph": self.graph,
            "encoding": {**self.encoding, "flip_signs": self.flip_signs},
            "readout": self.readout,
            "model": self.model,
            "train": self.train,
        }
        if self.graph == {"name": "own"}:
            del full["graph"]
        full = {
            key: value for key, value in full.items() if key not in ("task", "readout") or value
        }
        full |= {"start_from": self.start_from} if self.start_from else {}
        return full | ({"imports": self.imports} if self.imports else {})


def resolve(recipe: Recipe, trust: bool = False) -> Plan:
    """Write out the default of every option; no graph is read.

    Args:
        recipe: from `load_recipe`.
        trust: run what the recipe imports, as one has to that is to be trained. Without it, what is
            of words that only those imports may know stays as it is written.

    Raises:
        ZooError: what it imports fails, or does not know its words either.
    """
    folder = recipe.path.parent if recipe.path else Path()
    if not recipe.imports:
        code, unknown = {}, set()
    elif not trust:
        code, unknown = None, {problem.path[0] for problem in _word_problems(recipe.plain())}
    else:
        code, unknown = import_sources(recipe.imports, folder), set()
        read_recipe(recipe.plain(), check=_word_problems)

    def full(key: str, spec: Spec, with_defaults: Callable[[Spec], dict[str, Any]]):
        if key in unknown:
            return {"name": spec} if isinstance(spec, str) else spec
        return with_defaults(spec)

    dataset, of_dataset = divide(recipe.dataset, ("split",))
    usual = {} if "dataset" in unknown else usual_structure(recipe.dataset)
    encoding, of_encoding = divide(
        recipe.encoding or usual.get("encoding", "none"), ("flip_signs",)
    )
    readout = recipe.readout or usual.get("readout")
    batching = None if "dataset" in unknown else usual_batching(recipe.dataset)
    batching = "links" if recipe.task else batching
    train = {"batching": batching, **recipe.train} if batching else recipe.train
    start = recipe.start_from and {
        **recipe.start_from.model_dump(),
        "weights": _pinned(recipe.start_from.weights, trust),
    }
    return Plan(
        recipe=recipe,
        dataset=full("dataset", dataset, resolved_dataset),
        split=of_dataset.get("split"),
        task=recipe.task and full("task", recipe.task, functools.partial(resolved, OF_RECIPES)),
        graph=full("graph", recipe.graph, functools.partial(resolved, GRAPHS)),
        encoding=full("encoding", encoding, functools.partial(resolved, ENCODINGS)),
        readout=readout and full("readout", readout, functools.partial(resolved, READOUTS)),
        flip_signs=of_encoding.get("flip_signs", False),
        model=full("model", recipe.model, functools.partial(resolved, MODELS)),
        train=full("train", train, functools.partial(resolved_options, fit)),
        start_from=start,
        imports=[absolute(source, folder) for source in recipe.imports],
        code=code,
    )


def with_split(plan: Plan) -> Plan:
    """Return the plan with its split named; a graph is read if nothing but its files names it."""
    if plan.split is not None:
        return plan
    if plan.task is not None:
        return dataclasses.replace(plan, split=_split_of_links(plan))
    split = default_split(plan.dataset["name"]) or load_data(plan.dataset).split
    return dataclasses.replace(plan, split=split)


def _split_of_links(plan: Plan) -> Spec:
    """Return the usual split of links; a table of edges is read, which may say parts or times."""
    if plan.dataset["name"] in DATASETS or plan.graph != {"name": "own"}:
        return LinkData.split
    return LinkData.of(load_data(plan.dataset), pick(OF_RECIPES, plan.task)).split


def write_out(recipe: Recipe, trust: bool = False) -> dict[str, Any]:
    """Return a recipe as plain data with every option and the split written out, as far as known.

    Args:
        recipe: from `load_recipe`.
        trust: as for `resolve`.
    """
    plan = resolve(recipe, trust)
    return (plan if plan.code is None else with_split(plan)).plain()


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


def _pinned(weights: str, trust: bool) -> str:
    """Return weights as a recipe in any other folder has to name them: of one seed or commit.

    A recipe that is only looked at asks no network for them.
    """
    if weights.startswith(HUB) and not trust:
        return weights
    folder = locate(weights).folder
    if weights.startswith(HUB):
        return f"{weights.partition('@')[0]}@{folder.name}"
    return folder.name if folder.parent == PRETRAINED else str(folder.resolve())


def _problems(data: dict[str, Any], folder: Path, trust: bool) -> list[Problem]:
    """Return what is wrong with a recipe's raw data, but for words that are not imported yet."""
    imports = data.get("imports")
    if imports and not trust:
        return _start_problems(data.get("start_from"), trust)
    if isinstance(imports, list) and all(isinstance(source, str) for source in imports):
        try:
            import_sources(imports, folder)
        except ZooError as error:
            return [Problem(("imports",), str(error).removeprefix("imports: "))]
    wrong = _word_problems(data) + _start_problems(data.get("start_from"), trust)
    return wrong if imports else [_with_imports(problem) for problem in wrong]


def _with_imports(problem: Problem) -> Problem:
    """Return a problem that says how a word of a file of one's own becomes known."""
    kinds = "model", "attention", "propagation", "encoding"
    if not problem.message.startswith(tuple(f"no {kind} is called" for kind in kinds)):
        return problem
    hint = "A file of your own makes its words known by `imports: [my_file.py]`."
    return problem._replace(message=f"{problem.message} {hint}")


def _word_problems(data: dict[str, Any]) -> list[Problem]:
    """Return what is wrong with the words of every table, and with their options."""
    discover()
    wrong = []
    if "dataset" in data:
        spec, own = divide(data["dataset"], ("split", "graph"))
        wrong += dataset_problems(spec, ("dataset",), ["split"])
        if "graph" in own:
            message = "stands beside `dataset`: write `graph: ...` at the top of the recipe"
            wrong.append(Problem(("dataset", "graph"), message))
        if "split" in own:
            wrong += split_problems(own["split"], ("dataset", "split"))
    for key, table in (
        ("task", OF_RECIPES),
        ("graph", GRAPHS),
        ("readout", READOUTS),
        ("model", MODELS),
    ):
        if data.get(key) is not None:
            wrong += problems(table, data[key], (key,))
    wrong += _direction_problems(data)
    if data.get("encoding") is not None:
        spec, own = divide(data["encoding"], ("flip_signs",))
        wrong += problems(ENCODINGS, spec, ("encoding",), ["flip_signs"])
        if "flip_signs" in own:
            keys = ("encoding", "flip_signs")
            wrong += value_problems(bool, own["flip_signs"], keys)
            if own["flip_signs"] is True and spec.get("name") not in SIGNED:
                message = f"{spec.get('name')} has no signs to flip; leave it out"
                wrong.append(Problem(keys, message))
    if isinstance(data.get("train"), dict):
        wrong += option_problems("train", fit, data["train"], ("train",))
    return wrong


def _direction_problems(data: dict[str, Any]) -> list[Problem]:
    dataset, graph = data.get("dataset"), data.get("graph", "own")
    direction = dataset.get("direction", "both") if isinstance(dataset, dict) else "both"
    if direction == "both" or graph in ("own", {"name": "own"}):
        return []
    message = "is of the edges of the data set itself, and `graph` makes others; leave it out"
    return [Problem(("dataset", "direction"), message)]


def _start_problems(start: Any, trust: bool) -> list[Problem]:
    """Return why weights to start from cannot be had; without `trust` no network is asked."""
    weights = start.get("weights") if isinstance(start, dict) else None
    if not isinstance(weights, str) or (weights.startswith(HUB) and not trust):
        return []
    try:
        read_config(locate(weights).folder / CONFIG)
    except ZooError as error:
        return [Problem(("start_from", "weights"), str(error))]
    return []
