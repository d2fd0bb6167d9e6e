"""Overrides: `KEY=VALUE` behind a recipe, such as `model.dim=64`, put into its data."""

import contextlib
import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from zoo.config.yaml_lines import Draft, Keys, NotYaml, Place, compose_value, line_text, read_value
from zoo.errors import ZooError, brief

_HINT = re.compile(r"`(\w+): ([^`]+)`")


def need_values(overrides: Sequence[str]) -> None:
    """Refuse a word without a value, such as the second run of a pattern of the shell.

    Raises:
        ZooError: one has none.
    """
    folders = [text for text in overrides if "=" not in text and os.path.isdir(text)]
    if folders:
        raise ZooError(
            f"one run is wanted here, and these were named besides: {', '.join(folders[:5])}"
            f"{' ...' * (len(folders) > 5)}. A pattern may match several; name the one."
        )
    for text in overrides:
        if "=" not in text:
            raise ZooError(
                f"{text} is a name too many, or lacks its value; name one run and one data set, "
                "and write options as KEY=VALUE, such as label=species."
            )


def name_data(data: Any, overrides: Sequence[str], typed: str) -> list[str]:
    """Return overrides that name a data set first, unless it is None.

    Args:
        data: its word, path or mapping.
        overrides: `KEY=VALUE` each.
        typed: how it was given, for the message.

    Raises:
        ZooError: an override names one too.
    """
    if data is None:
        return [*overrides]
    named = [text for text in overrides if text.startswith(("dataset=", "dataset.name="))]
    if named:
        raise ZooError(f"{typed} and {named[0]} both name the data set; leave one out.")
    plain = isinstance(data, str) and read_value(data) == data
    return [f"dataset={data if plain else json.dumps(data, default=str)}", *overrides]


def override(draft: Draft, text: str, number: int) -> None:
    """Set what `KEY=VALUE` says; a word on the way becomes a mapping with that name.

    Args:
        draft: the recipe; problems of the override are noted in it.
        text: dotted keys and a value in YAML.
        number: how many overrides came before.
    """
    place = Place((1, number), f"override {brief(text)}")
    key, equals, value = text.partition("=")
    keys = tuple(word.strip() for word in key.split("."))
    if keys[0] == "search" and len(keys) > 1:  # whose own keys are dotted
        keys = ("search", ".".join(keys[1:]))
    if not equals or not all(word and word.isprintable() for word in keys):
        draft.refuse(place, "write KEY=VALUE with a dotted key, such as train.epochs=50.")
        return
    try:
        node = compose_value(value)
    except NotYaml as error:
        draft.refuse(place, error.message)
        return
    if node is None and value:  # a blank, or a comment
        draft.refuse(place, f"{value!r} is nothing in YAML; quote it twice, {key}='\"{value}\"'.")
        return
    parent = _parent(draft, keys, place)
    if parent is not None:
        for replaced in [known for known in draft.places if known[: len(keys)] == keys]:
            del draft.places[replaced]
        draft.places[keys] = place
        parent[keys[-1]] = node and draft.build(node, keys, lambda line: place)
        if keys == ("imports",):
            parent["imports"] = _from_here(parent["imports"])


def _from_here(sources: Any) -> Any:
    """Return imports that are typed, one or several: files of the folder in which they are."""
    sources = [sources] if isinstance(sources, str) else sources
    if not isinstance(sources, list):
        return sources
    return [os.path.abspath(name) if str(name).endswith(".py") else name for name in sources]


def _parent(draft: Draft, keys: Keys, place: Place) -> dict[str, Any] | None:
    """Return the mapping that holds the last of some keys; None, and a problem, if there is none.

    A word on the way becomes `{name: word}`, and what is missing an empty mapping.
    """
    parent = draft.data
    for end in range(1, len(keys)):
        path, value = keys[:end], parent.get(keys[end - 1])
        if isinstance(value, str):
            draft.places[(*path, "name")] = draft.place(path)
            value = {"name": value}
            draft.places[path] = place
        elif value is None:
            value = {}
            draft.places[path] = place
        elif not isinstance(value, dict):
            dotted = ".".join(path)
            draft.refuse(
                place, f"{dotted} is {brief(value)}, without options; write {dotted}=VALUE."
            )
            return None
        parent[keys[end - 1]] = value
        parent = value
    return parent


def in_the_shell(text: str) -> str:
    """Return a sentence with its hints written as the shell takes them.

    >>> in_the_shell("write `one_hot: [country, city]`.")
    'write `one_hot=country,city`.'
    """
    return _HINT.sub(lambda hint: f"`{_shell_option(*hint.groups())}`", text)


def shell_words(options: Mapping[str, Any]) -> str:
    """Return options as the shell takes them behind a command.

    >>> shell_words({"dataset": "my shop", "dataset.one_hot": ["country", "city"]})
    "dataset='my shop' dataset.one_hot=country,city"
    """
    return " ".join(_shell_option(key, line_text({key: value})[len(key) + 3 : -1])
                    for key, value in options.items())  # fmt: skip


def _shell_option(key: str, value: str) -> str:
    names = re.fullmatch(r"\[([^\[\]{}'\"]+)\]", value)
    if names:
        value = names[1].replace(", ", ",")
    elif value[0] == value[-1] == "'" and _is_text(value[1:-1]):
        value = value[1:-1]
    quoted = value if value == "..." else shlex.quote(value)
    if "'" in value and not set('"$`\\!') & set(value):
        quoted = f'"{value}"'
    return f"{key}={quoted}"


def _is_text(value: str) -> bool:
    """Return whether a value is read as it stands, without quotes of YAML."""
    with contextlib.suppress(ZooError):
        return read_value(value) == value
    return False
