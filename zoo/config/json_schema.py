"""What is said of options to people and editors: their help texts, and JSON schemas."""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema

from zoo.config.options import Table, adapter, options_of, table_of
from zoo.config.recipe import Contents


def descriptions(builder: Callable) -> dict[str, str]:
    """Return the lines under `Args:` of a builder, or of a class, its parents and its `__init__`.

    An option without a word there is left out.
    """
    docstrings = [builder.__doc__]
    if inspect.isclass(builder):
        docstrings = [parent.__doc__ for parent in reversed(builder.__mro__)]
        docstrings.append(builder.__init__.__doc__)
    lines: dict[str, str] = {}
    for docstring in docstrings:
        lines |= _arguments(docstring or "")
    return {option: lines[option] for option in options_of(builder) if option in lines}


def json_schema(table: Table) -> dict[str, Any]:
    """Return the JSON schema of a spec of this table, for editors and reference pages.

    Each table is one definition named after its kind: attentions that wrap attentions refer back.
    """
    definitions: dict[str, Any] = {}
    return {**_reference(table, definitions), "$defs": definitions}


def files_schema(
    known: Iterable[str], builders: Iterable[Callable]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the JSON schemas of a spec whose name is a path, and what they refer to.

    Args:
        known: words that are no paths.
        builders: whose options it may have, of one of them or of another.
    """
    definitions: dict[str, Any] = {}
    schemas: dict[str, list[dict[str, Any]]] = {}
    for builder in builders:
        for option, schema in _object(builder, definitions)["properties"].items():
            if schema not in (others := schemas.setdefault(option, [])):
                others.append(schema)
    path = {"type": "string", "not": {"enum": sorted(known)}}
    options = {
        option: others[0] if len(others) == 1 else {"anyOf": others}
        for option, others in schemas.items()
    }
    mapping = {"type": "object", "properties": {"name": path, **options}, "required": ["name"]}
    return [path, {**mapping, "additionalProperties": False}], definitions


def recipe_schema(tables: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON schema of a recipe file.

    Args:
        tables: the schemas of `dataset`, `graph`, `encoding`, `model` and `train`.
    """
    schema = Contents.model_json_schema()
    definitions = schema.setdefault("$defs", {})
    for key, table in tables.items():
        definitions |= table.get("$defs", {})
        own = schema["properties"][key]
        words = {word: own[word] for word in ("description", "default") if word in own}
        schema["properties"][key] = {**table, **words}
        schema["properties"][key].pop("$defs", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Recipe"}


def options_schema(builder: Callable) -> dict[str, Any]:
    """Return the JSON schema of a mapping of the options of one builder, without a `name`."""
    definitions: dict[str, Any] = {}
    schema = _object(builder, definitions)
    return {**schema, "$defs": definitions} if definitions else schema


def _arguments(docstring: str) -> dict[str, str]:
    """Return the text of each argument in the section `Args:` of a docstring."""
    section = inspect.cleandoc(docstring).partition("\nArgs:\n")[2]
    section = re.split(r"^(?=\S)", section, maxsplit=1, flags=re.MULTILINE)[0]
    entries = re.split(r"^ {4}\*{0,2}(\w+)(?: \(.*?\))?:", section, flags=re.MULTILINE)[1:]
    return {
        option: " ".join(text.split())
        for option, text in zip(entries[::2], entries[1::2], strict=True)
    }


def _reference(table: Table, definitions: dict[str, Any]) -> dict[str, Any]:
    kind = table.kind.replace(" ", "-")
    if kind not in definitions:
        # Claimed before its entries are read, because one of them may pick from this very table.
        definitions[kind] = {}
        words = [word for word, builder in table.items() if not _required(builder)]
        objects = [_entry(word, builder, definitions) for word, builder in table.items()]
        definitions[kind] = {"anyOf": [{"enum": words}, *objects]}
    return {"$ref": f"#/$defs/{kind}"}


def _entry(word: str, builder: Callable, definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _object(builder, definitions)
    schema["properties"] = {"name": {"const": word}, **schema["properties"]}
    schema["required"] = ["name", *_required(builder)]
    summary = inspect.cleandoc(builder.__doc__ or "").partition("\n\n")[0]
    return {"description": " ".join(summary.split()), **schema} if summary else schema


def _object(builder: Callable, definitions: dict[str, Any]) -> dict[str, Any]:
    texts = descriptions(builder)
    properties = {
        option: {
            **({"description": texts[option]} if option in texts else {}),
            **_option_schema(parameter, definitions),
        }
        for option, parameter in options_of(builder).items()
    }
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": _required(builder)} if _required(builder) else schema


def _option_schema(parameter: inspect.Parameter, definitions: dict[str, Any]) -> dict[str, Any]:
    inner = table_of(parameter)
    if inner is not None:
        schema = _reference(inner, definitions)
    else:
        try:
            schema = adapter(parameter.annotation).json_schema()
        except PydanticInvalidForJsonSchema:
            # Something that Python code may pass and a recipe cannot write, such as a function.
            return {"not": {}}
        definitions.update(schema.pop("$defs", {}))
    default = list(value) if isinstance(value := parameter.default, tuple) else value
    plain = default is None or isinstance(default, bool | int | float | str | list | dict)
    return {**schema, "default": default} if plain else schema


def _required(builder: Callable) -> list[str]:
    return [
        option
        for option, parameter in options_of(builder).items()
        if parameter.default is parameter.empty
    ]
