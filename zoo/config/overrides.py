"""Overrides: `KEY=VALUE` behind a recipe, such as `model.dim=64`, put into its data."""

from typing import Any

from zoo.config.yaml_lines import LARGEST, Draft, Keys, NotYaml, Place, compose
from zoo.errors import brief


def override(draft: Draft, text: str, number: int) -> None:
    """Set what `KEY=VALUE` says; a word on the way becomes a mapping with that name.

    Args:
        draft: the recipe; what is wrong with the override is noted in it.
        text: dotted keys and a value in YAML.
        number: how many overrides came before.
    """
    place = Place(LARGEST + number, f"override {brief(text)}")
    key, equals, value = text.partition("=")
    keys = tuple(word.strip() for word in key.split("."))
    if not equals or not all(word and word.isprintable() for word in keys):
        draft.refuse(place, "write KEY=VALUE with a dotted key, such as train.epochs=50.")
        return
    try:
        node = compose(value)
    except NotYaml as error:
        draft.refuse(place, error.message)
        return
    target = _enter(draft, keys, place)
    if target is not None:
        for known in [each for each in draft.places if each[: len(keys)] == keys]:
            del draft.places[known]
        draft.places[keys] = place
        target[keys[-1]] = node and draft.build(node, keys, lambda line: place)


def _enter(draft: Draft, keys: Keys, place: Place) -> dict[str, Any] | None:
    target = draft.data
    for end in range(1, len(keys)):
        here, inner = keys[:end], target.get(keys[end - 1])
        if isinstance(inner, str):
            draft.places[(*here, "name")] = draft.place(here)
            inner = {"name": inner}
            draft.places[here] = place
        elif inner is None:
            inner = {}
            draft.places[here] = place
        elif not isinstance(inner, dict):
            dotted = ".".join(here)
            draft.refuse(
                place, f"{dotted} is {brief(inner)}, without options; write {dotted}=VALUE."
            )
            return None
        target[keys[end - 1]] = inner
        target = inner
    return target
