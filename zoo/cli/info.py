"""Everything there is to know of one model, as plain data for `zoo info`."""

import inspect
import re
from typing import Any

from zoo.cli.catalogue import recipes
from zoo.config.json_schema import options_schema
from zoo.errors import ZooError, unknown
from zoo.registry import MODELS
from zoo.weights.create import list_models
from zoo.weights.model_card import citation

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
    known = list_models()
    if name not in known:
        raise ZooError(unknown("model", name, known))
    model = MODELS[name]
    summary, _, rest = _prose(model).partition("\n\n")
    return {
        "name": name,
        "what": " ".join(summary.split()),
        "equations": rest.strip(),
        "about": _prose(inspect.getmodule(model)).partition("\n\n")[2],
        "paper": model.paper,
        "citation": citation(name),
        "tasks": list(model.tasks),
        "options": options(name),
        "recipes": [row for row in recipes() if row["model"] == name],
    }


def options(name: str) -> list[dict[str, Any]]:
    """Return a row per option of a model: its default, what it takes and what it means."""
    schema = options_schema(MODELS[name])
    definitions = schema.get("$defs", {})
    return [
        {
            "name": key,
            "default": each.get("default"),
            "takes": _takes(each, definitions),
            "what": each.get("description", ""),
        }
        for key, each in schema["properties"].items()
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
        return " or ".join(_takes(each, definitions) for each in schema["anyOf"])
    if schema.get("type") == "null":
        return "nothing"
    bounds = [said.format(schema[key]) for key, said in RANGES.items() if _tells(schema, key)]
    return " ".join([schema.get("type", "anything"), " and ".join(bounds)]).strip()


def _tells(schema: dict[str, Any], key: str) -> bool:
    """Whether a bound is worth saying: that of 64-bit numbers is not."""
    return key in schema and abs(schema[key]) < 2**53
