"""Tables: words become objects, wrong options are answered, and schemas say what is allowed."""

from collections.abc import Sequence
from typing import Annotated, Literal

import pytest

from zoo.config.json_schema import descriptions, json_schema, options_schema
from zoo.config.options import (
    MOST,
    Count,
    Fraction,
    NonNegative,
    Positive,
    Rate,
    Seed,
    Spec,
    Table,
    option_problems,
    options_of,
    pick,
    problems,
    resolved,
    table_of,
    value_problems,
)
from zoo.errors import ZooError


def plain(scale):
    """Return its context.

    Args:
        scale: supplied by the caller, no option.
    """
    return scale


WRAPPERS = Table("wrapper", {"plain": plain})


def twice(scale, *, size: Count = 256, inner: Annotated[Spec, WRAPPERS] = "plain"):
    """Wrap another entry
    of the same table.

    More text, which is no summary.

    Args:
        size: how many
            at a time, on
            two more lines.
        inner (Spec, optional): what is wrapped: a word.

    Returns:
        size: not a description of the option.
    """
    return ("twice", size, pick(WRAPPERS, inner, scale))


def needy(scale, *, power: int, mode: Literal["a", "b"] = "a", undescribed: Sequence[int] = (1,)):
    """Need an option."""
    return (power, mode, undescribed)


WRAPPERS["twice"] = twice
WRAPPERS["needy"] = needy


class Parent:
    """A class.

    Args:
        depth: from the parent's class.
        width: from the parent's class.
    """

    def __init__(self, *, depth: int = 1, width: int = 1):
        """Say nothing."""


class Child(Parent):
    def __init__(self, *, width: int = 1, height: float = 1.0):
        """Make one.

        Args:
            width: from the child.
            height: also from the child.
        """


def test_pick_builds_what_the_words_name():
    assert pick(WRAPPERS, "plain", 7) == 7
    nested = {"name": "twice", "size": 8, "inner": {"name": "twice", "inner": "plain"}}
    assert pick(WRAPPERS, nested, 7) == ("twice", 8, ("twice", 256, 7))


@pytest.mark.parametrize(
    ("spec", "path", "words"),
    [
        ("twcie", (), "did you mean 'twice'?"),
        ({"name": "twcie"}, ("name",), "did you mean 'twice'?"),
        (5, (), "5 does not name a wrapper"),
        (["plain"], (), "does not name a wrapper"),
        ({}, (), "`name` is missing"),
        ({"name": ["plain"]}, (), "`name` is missing"),
        ({"name": "twice", "sise": 1}, ("sise",), "did you mean 'size'?"),
        ({"name": "twice", "size": True}, ("size",), "not True"),
        ({"name": "twice", "size": 1.0}, ("size",), "integer"),
        ({"name": "twice", "inner": {"name": "twice", "size": 0}}, ("inner", "size"), "1, not 0"),
        ({"name": "needy"}, ("power",), "needs the option 'power'"),
        ({"name": "needy", "power": 1, "mode": "c"}, ("mode",), "'a' or 'b'"),
        ({"name": "plain", "scale": 1}, ("scale",), "has no option 'scale'"),
    ],
)
def test_wrong_spec_is_answered_at_its_path(spec, path, words):
    (problem,) = problems(WRAPPERS, spec, ("here",))
    assert problem.path == ("here", *path)
    assert words in problem.message
    with pytest.raises(ZooError, match="wrapper"):
        pick(WRAPPERS, spec, 1)


def test_every_wrong_option_is_found():
    spec = {"name": "needy", "powr": 1, "mode": 3}
    assert [each.path for each in problems(WRAPPERS, spec, ())] == [
        ("powr",),
        ("mode",),
        ("power",),
    ]
    found = option_problems("train", needy, {"mode": 3}, ("train",))
    assert [each.path for each in found] == [("train", "mode"), ("train", "power")]


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        (Count, [1, 10**9], [0, -1, 1.0, True, "1", None]),
        (Seed, [0, 2**63 - 1], [-1, 2**63, 0.0]),
        (Positive, [1, 1e-9], [0, -1.0, float("inf"), float("nan"), "1"]),
        (NonNegative, [0, 0.0, 5], [-1e-9, float("inf"), float("nan")]),
        (Fraction, [0, 1, 0.5], [1.01, -0.1, float("nan"), True]),
        (Rate, [0, 0.99], [1, float("nan")]),
        (Count | None, [None, 1], [0, "x"]),
    ],
)
def test_values_are_checked_strictly(annotation, right, wrong):
    assert [value_problems(annotation, value, ()) for value in right] == [[] for _ in right]
    assert all(value_problems(annotation, value, ()) for value in wrong)


def test_value_of_several_types_is_told_all_of_them():
    (problem,) = value_problems(Count | Literal["auto"], "many", ("size",))
    assert problem.path == ("size",), "the names of types are no keys"
    assert problem.message == "should be a valid integer or should be 'auto', not 'many'"


def test_each_wrong_item_has_its_own_path():
    found = value_problems(dict[str, list[int]], {"a-b": [1, "x", 2.5]}, ("o",))
    assert [each.path for each in found] == [("o", "a-b", 1), ("o", "a-b", 2)]


def test_long_value_is_cut_short():
    (problem,) = value_problems(int, "x" * 10_000, ())
    assert len(problem.message) < 150


def test_options_are_the_keyword_only_parameters():
    assert list(options_of(twice)) == ["size", "inner"]
    assert table_of(options_of(twice)["inner"]) is WRAPPERS
    assert table_of(options_of(twice)["size"]) is None


def test_resolved_writes_every_default():
    inner = {"name": "twice", "size": 256, "inner": "plain"}
    assert resolved(WRAPPERS, {"name": "twice", "inner": "twice"}) == {**inner, "inner": inner}


def test_descriptions_come_from_the_docstring():
    assert descriptions(twice) == {
        "size": "how many at a time, on two more lines.",
        "inner": "what is wrapped: a word.",
    }
    assert descriptions(plain) == descriptions(needy) == {}
    assert descriptions(Parent) == {key: "from the parent's class." for key in ("depth", "width")}
    assert descriptions(Child) == {"width": "from the child.", "height": "also from the child."}


def accepts(schema: dict, value, definitions: dict) -> bool:
    """Check the few words of JSON schema that ours are made of."""
    if "$ref" in schema:
        return accepts(definitions[schema["$ref"].removeprefix("#/$defs/")], value, definitions)
    if "anyOf" in schema:
        return any(accepts(each, value, definitions) for each in schema["anyOf"])
    if "enum" in schema:
        return value in schema["enum"]
    if "const" in schema:
        return value == schema["const"]
    if schema["type"] == "object":
        allowed = schema["properties"]
        return (
            isinstance(value, dict)
            and set(schema.get("required", [])) <= set(value) <= set(allowed)
            and all(accepts(allowed[key], value[key], definitions) for key in value)
        )
    kinds = {"integer": int, "number": int | float, "string": str, "array": list}
    return isinstance(value, kinds[schema["type"]]) and value >= schema.get("minimum", value)


@pytest.mark.parametrize(
    ("spec", "right"),
    [
        ("plain", True),
        ("twice", True),
        ({"name": "twice", "size": 8, "inner": {"name": "twice", "inner": "plain"}}, True),
        ({"name": "needy", "power": 2, "mode": "b", "undescribed": [1, 2]}, True),
        ("needy", False),
        ("twcie", False),
        (5, False),
        ({"size": 8}, False),
        ({"name": "twice", "sise": 8}, False),
        ({"name": "twice", "size": 0}, False),
        ({"name": "twice", "inner": {"name": "twice", "sise": 8}}, False),
        ({"name": "needy"}, False),
        ({"name": "needy", "power": 1, "mode": "c"}, False),
    ],
)
def test_schema_accepts_what_pick_accepts(spec, right):
    schema = json_schema(WRAPPERS)
    assert accepts(schema, spec, schema["$defs"]) == right
    assert (problems(WRAPPERS, spec, ()) == []) == right


def test_schema_names_each_table_once_and_describes_its_options():
    schema = json_schema(WRAPPERS)
    assert schema["$ref"] == "#/$defs/wrapper"
    words, first, second, third = schema["$defs"]["wrapper"]["anyOf"]
    assert words == {"enum": ["plain", "twice"]}
    assert first["properties"] == {"name": {"const": "plain"}}
    assert second["description"] == "Wrap another entry of the same table."
    assert second["properties"]["size"] == {
        "description": "how many at a time, on two more lines.",
        "type": "integer",
        "minimum": 1,
        "maximum": MOST,
        "default": 256,
    }
    assert second["properties"]["inner"]["$ref"] == "#/$defs/wrapper"
    assert third["required"] == ["name", "power"]
    assert third["properties"]["undescribed"]["default"] == [1]


def test_schema_of_options_has_no_name():
    schema = options_schema(twice)
    assert list(schema["properties"]) == ["size", "inner"]
    assert "required" not in schema
    assert "wrapper" in schema["$defs"]
    assert options_schema(needy)["required"] == ["power"]
    assert "$defs" not in options_schema(needy)


def test_schema_passes_over_what_no_recipe_can_write():
    def odd(*, function: type[object] | object = len, kind: Spec = "x"):
        """Take a function."""

    def worse(*, call: type(test_schema_of_options_has_no_name) = len):
        """Take a function."""

    assert options_schema(worse)["properties"]["call"] == {"not": {}}
    assert "default" not in options_schema(odd)["properties"].get("function", {})
    assert options_schema(odd)["properties"]["kind"]["default"] == "x"
