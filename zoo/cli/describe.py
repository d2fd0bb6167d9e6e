"""What `zoo list` and `zoo info` print, as plain data: words, and all there is of a model."""

import inspect
import re
from collections.abc import Callable
from typing import Any

from zoo.config.json_schema import files_schema, json_schema, options_schema, recipe_schema
from zoo.config.metadata import About
from zoo.config.options import Table, options_of
from zoo.config.recipe import Recipe, word
from zoo.config.shipped import recipe_folder, recipe_names
from zoo.data.graph_words import GRAPHS
from zoo.data.load import DATASETS, READERS, STREAMS
from zoo.data.load.by_name import common_options, metric_of, scored_on
from zoo.data.load.readers import KINDS, SERIES, SETS
from zoo.data.splits import FOLDS_PATTERN, SPLITS
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError, unknown
from zoo.graphs.pairs import NEGATIVES
from zoo.nn.attention import ATTENTIONS
from zoo.nn.propagation import PROPAGATIONS
from zoo.nn.readouts import READOUTS
from zoo.registry import MODELS, discover
from zoo.runs.resolve import load_recipe
from zoo.tasks import LOSSES, METRICS
from zoo.tasks.decoders import DECODERS
from zoo.tasks.labels import TRANSLATION
from zoo.training.batches import BATCHING
from zoo.training.trainer import fit
from zoo.weights.create import list_models
from zoo.weights.files import CONFIG, read_config
from zoo.weights.finetune import same_columns
from zoo.weights.index import locate, published
from zoo.weights.model_card import citation, summary
from zoo.weights.save_and_load import features_of

Rows = list[dict[str, Any]]


def schema_of_recipes() -> dict[str, Any]:
    """Return the JSON schema of a recipe, options of every registered model included."""
    from zoo.sequences.data.pairs import read_pairs

    discover()
    dataset, encoding, split = json_schema(DATASETS), json_schema(ENCODINGS), json_schema(SPLITS)
    splits = split["$defs"]["split"]["anyOf"]
    folds = next(entry for entry in splits[1:]
                 if entry["properties"]["name"] == {"const": "folds-5"})  # fmt: skip
    any_number = {"type": "string", "pattern": f"^{FOLDS_PATTERN}$"}
    splits += [any_number, {**folds, "properties": {**folds["properties"], "name": any_number}}]
    readers = [common_options, *READERS.values(), read_pairs, *KINDS]
    own, definitions = files_schema(DATASETS, readers)
    entries = dataset["$defs"]["dataset"]["anyOf"]
    entries += own
    dataset["$defs"] |= {**definitions, **split["$defs"]}
    for entry in entries:
        if "properties" in entry:
            entry["properties"]["split"] = {"$ref": split["$ref"]}
    for entry in encoding["$defs"]["encoding"]["anyOf"][1:]:
        entry["properties"]["flip_signs"] = {"type": "boolean", "default": False}
    model, train = json_schema(MODELS), options_schema(fit)
    tables = {"dataset": dataset, "graph": json_schema(GRAPHS), "encoding": encoding}
    return recipe_schema({**tables, "model": model, "train": train})


def models() -> Rows:
    """Return a row per registered model."""
    return [
        {"name": name, "what": summary(MODELS[name]), "paper": MODELS[name].paper}
        for name in list_models()
    ]


def pretrained() -> Rows:
    """Return a row per weights that have a name: with the zoo, or in the folder of ZOO_WEIGHTS."""
    return [
        {
            "name": name,
            "model": entry.model,
            "dataset": entry.data,
            "metric": entry.metric,
            "test": round(entry.test, 4),
        }
        for name, entry in published().items()
    ]


def suited(data: Any) -> Rows:
    """Return a row for all named weights that fit a data set, the closest first.

    Weights fit that read the same columns, or that answer for any graph. Of other weights of the
    same task only the layers between stem and head can be loaded; a last row counts them.

    Args:
        data: the data set.
    """
    ours, closest, others = About(**features_of(data)), [], 0
    for name, entry in published().items():
        about = read_config(locate(name).folder / CONFIG)["about"]
        if entry.model not in MODELS:
            continue
        if MODELS[entry.model].any_graph and data.task in MODELS[entry.model].tasks:
            closest.append((2, name, entry, "any graph: predict and finetune as they are"))
        elif about.task == data.task and same_columns(about, ours):
            named = about.feature_names and ours.feature_names
            same = "the same columns" if named else "as many columns, of unknown names"
            closest.append((0 if named else 1, name, entry, same))
        elif about.task == data.task:
            others += 1
    rows = [
        {"name": name, "model": entry.model, "trained on": entry.data, "fits by": why}
        for _, name, entry, why in sorted(closest, key=lambda each: each[:2])
    ]
    if others:
        why = "the task alone: only their middle would be carried over, see docs/transfer.md"
        rows.append({"name": f"{others} others", "model": "", "trained on": "", "fits by": why})
    return rows


def recipes(dataset: str | None = None, model: str | None = None) -> Rows:
    """Return a row per shipped recipe, with the number it should reach and the one measured.

    Args:
        dataset: only those for this data set.
        model: only those of this model.

    Raises:
        ZooError: there is none.
    """
    rows = [_row(load_recipe(name)) for name in recipe_names()]
    wanted = {"model": model, "dataset": dataset}
    for key, name in wanted.items():
        if name is not None and name not in (known := {row[key] for row in rows}):
            raise ZooError(unknown(f"{key} of a recipe", name, known))
    rows = [row for row in rows if all(name in (None, row[key]) for key, name in wanted.items())]
    if not rows:
        raise ZooError(
            f"no recipe pairs {model} with {dataset}; write one, or begin with another data set's: "
            f"`zoo tune {model} --data {dataset}`."
        )
    return sorted(rows, key=lambda row: row["scored_on"])


def _row(recipe: Recipe) -> dict[str, Any]:
    expect, measured = recipe.expect, recipe.measured
    return {
        "name": recipe.name,
        "model": word(recipe.model),
        "dataset": word(recipe.dataset),
        "scored_on": scored_on(recipe),
        "metric": metric_of(recipe),
        "expected": expect.test if expect else None,
        "measured": measured.test if measured else None,
        "std": measured.std if measured else None,
    }


def _rows_of(table: Table) -> Callable[[], Rows]:
    def rows() -> Rows:
        discover()  # other packages may add words to any table
        return [
            {
                "name": word,
                "what": summary(table[word]),
                "options": ", ".join(options_of(table[word])),
            }
            for word in sorted(table)
        ]

    return rows


def files() -> Rows:
    """Return a row per kind of file that is read, and per kind that is only written to disk."""
    streams = [{**row, "name": f"{row['name']} (--on-disk)"} for row in _rows_of(STREAMS)()]
    return _rows_of(READERS)() + _rows_of(SERIES)() + _rows_of(SETS)() + streams


PROMISES = re.compile(
    r"Promises: (?P<result>.+); time (?P<time>.+); memory (?P<memory>.+); "
    r"(?P<evaluation>\w+) at evaluation"
)
"""The line in the docstring of an attention's builder that says what to expect of it.

The result is `exact`, or `approximate` where it estimates another attention. Time and memory are
in the nodes N of a set. An evaluation is `deterministic` where doing it twice gives the same.
"""


def attentions() -> Rows:
    """Return a row per attention: what it computes, what it costs in N, whether it is fixed."""
    return [
        {
            "name": row["name"],
            "what": row["what"],
            **_promises(ATTENTIONS[row["name"]]),
            "options": row["options"],
        }
        for row in _rows_of(ATTENTIONS)()
    ]


def _promises(builder: Callable) -> dict[str, str | None]:
    match = PROMISES.search(inspect.getdoc(builder) or "")
    return match.groupdict() if match else dict.fromkeys(PROMISES.groupindex)


CATALOGUE: dict[str, Callable[[], Rows]] = {
    "models": models,
    "recipes": recipes,
    "attentions": attentions,
    "propagations": _rows_of(PROPAGATIONS),
    "encodings": _rows_of(ENCODINGS),
    "losses": _rows_of(LOSSES),
    "metrics": _rows_of(METRICS),
    "batching": _rows_of(BATCHING),
    "decoders": _rows_of(DECODERS),
    "negatives": _rows_of(NEGATIVES),
    "readouts": _rows_of(READOUTS),
    "datasets": _rows_of(DATASETS),
    "graphs": _rows_of(GRAPHS),
    "files": files,
}
"""Kind of thing to the function that lists it."""


RANGES = {
    "minimum": "at least {:g}",
    "exclusiveMinimum": "above {:g}",
    "maximum": "at most {:g}",
    "exclusiveMaximum": "below {:g}",
}
"""Bounds in a JSON schema, in words."""


def info(name: str) -> dict[str, Any]:
    """Return what a model is: summary, equations, paper, citation, options, tasks and recipes.

    Raises:
        ZooError: no model has this name.
    """
    if name in recipe_names():
        model = word(load_recipe(name).model)
        raise ZooError(f"{name} is a recipe: `zoo show {name}` prints it, `zoo info {model}` what "
                       f"{model} is, and its recipes.")  # fmt: skip
    if name not in (models := list_models()):
        raise ZooError(unknown("model", name, models))
    model = MODELS[name]
    what, _, equations = _prose(model).partition("\n\n")
    weighted = model.edge_weights and model.tasks != (TRANSLATION,)  # sentences have no weights
    shipped = [load_recipe(path.stem) for path in sorted((recipe_folder() / name).glob("*.yaml"))]
    return {
        "name": name,
        "what": " ".join(what.split()),
        "equations": equations.strip(),
        "about": _prose(inspect.getmodule(model)).partition("\n\n")[2],
        "paper": model.paper,
        "citation": citation(name),
        "tasks": list(model.tasks),
        "edge weights": "Weights of edges count along edges; attention over all nodes ignores them."
        if weighted
        else "Weights of edges are ignored.",
        "options": options(model),
        "recipes": sorted(map(_row, shipped), key=lambda row: row["scored_on"]),
        "differs": {recipe.name: recipe.differs for recipe in shipped if recipe.differs},
    }


def options(builder: Callable) -> Rows:
    """Return a row per option of a model, or a word: its default, what it takes, what it means."""
    schema = options_schema(builder)
    definitions = schema.get("$defs", {})
    return [
        {
            "name": key,
            "default": value.get("default"),
            "takes": _takes(value, definitions),
            "what": value.get("description", ""),
        }
        for key, value in schema["properties"].items()
    ]


def _prose(thing: object) -> str:
    """Return a docstring up to its `Args:`."""
    return re.split(r"\n\s*Args:\n", inspect.getdoc(thing) or "")[0].strip()


def _takes(schema: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return the values that a JSON schema allows, in words."""
    if "$ref" in schema:
        return _takes(definitions[schema["$ref"].rpartition("/")[2]]["anyOf"][0], definitions)
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_takes(option, definitions) for option in schema["anyOf"])
    if schema.get("type") == "null":
        return "nothing"
    # The bounds of any count, or number, are too large to be worth saying.
    bounds = [words.format(schema[key]) for key, words in RANGES.items()
              if abs(schema.get(key, 2**31)) < 2**31]  # fmt: skip
    return " ".join([schema.get("type", "anything"), " and ".join(bounds)]).strip()
