"""What there is, as rows for `zoo list`: one function per kind of thing."""

import inspect
import re
from collections.abc import Callable
from typing import Any

from zoo.config.options import Table, options_of
from zoo.config.recipe import recipe_names, word
from zoo.datasets.load import DATASETS, READERS, STREAMS
from zoo.encodings import ENCODINGS
from zoo.experiments.resolve import load_recipe
from zoo.nn.attention import ATTENTIONS
from zoo.nn.propagation import PROPAGATIONS
from zoo.registry import MODELS
from zoo.studies import STUDIES
from zoo.weights.create import list_models
from zoo.weights.folder import index
from zoo.weights.model_card import summary

Rows = list[dict[str, Any]]


def models() -> Rows:
    """Return a row per registered model."""
    return [
        {"name": name, "what": summary(MODELS[name]), "paper": MODELS[name].paper}
        for name in list_models()
    ]


def pretrained() -> Rows:
    """Return a row per weights that come with the zoo."""
    return [
        {
            "name": name,
            "model": each.model,
            "dataset": each.data,
            "metric": each.metric,
            "test": round(each.test, 4),
            "kB": round(each.bytes / 1000),
        }
        for name, each in index().items()
    ]


def recipes() -> Rows:
    """Return a row per shipped recipe, with the number it should reach and the one measured."""
    return [_recipe(name) for name in recipe_names()]


def _recipe(name: str) -> dict[str, Any]:
    recipe = load_recipe(name)
    expect = recipe.expect
    measured = expect.verified if expect else None
    return {
        "name": name,
        "model": word(recipe.model),
        "dataset": word(recipe.dataset),
        "expected": expect.test if expect else None,
        "verified": f"{measured.test:.4f}" if measured else None,
    }


def _rows_of(table: Table) -> Callable[[], Rows]:
    def rows() -> Rows:
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
    return _rows_of(READERS)() + streams


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
    said = PROMISES.search(inspect.getdoc(builder) or "")
    return said.groupdict() if said else dict.fromkeys(PROMISES.groupindex)


CATALOGUE: dict[str, Callable[[], Rows]] = {
    "models": models,
    "recipes": recipes,
    "attentions": attentions,
    "propagations": _rows_of(PROPAGATIONS),
    "encodings": _rows_of(ENCODINGS),
    "datasets": _rows_of(DATASETS),
    "files": files,
    "studies": _rows_of(STUDIES),
}
"""Kind of thing to the function that lists it."""
