"""Tables that turn the words of a recipe into objects, and the check of the options beside them.

An entry of a table is a builder: a function or class whose positional parameters are supplied by
the code that picks, and whose keyword-only parameters are the options that a recipe may set. The
signature is all there is to declare: names, types, ranges and defaults are read from it.
"""

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from zoo.errors import Problem, ZooError, suggestion, unknown

Spec = str | dict[str, Any]
"""A word, or a word with options: `rba`, or `{name: rba, size: 512}`."""

Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]


class Table(dict[str, Callable]):
    """A dict from words to builders that knows what its words stand for.

    As metadata of an annotation it says that an option is itself picked from this table:
    `attention: Annotated[Spec, ATTENTIONS] = "native"`.
    """

    def __init__(self, kind: str, entries: Mapping[str, Callable]):
        """Name the kind of thing in the table ("attention") and give its entries."""
        super().__init__(entries)
        self.kind = kind

    __hash__ = object.__hash__


def pick(table: Table, spec: Spec, *context: Any) -> Any:
    """Turn a word, or a word with options, into the object that it names.

    Args:
        table: where the word is looked up.
        spec: `"rba"` or `{"name": "rba", "size": 512}`.
        context: positional arguments of the builder, supplied by the calling code.

    Raises:
        ZooError: an unknown word or option, or a value of the wrong type or out of range.
    """
    wrong = problems(table, spec, ())
    if wrong:
        raise ZooError(f"{table.kind} {spec!r}: " + " ".join(map(_without_here, wrong)))
    name, options = _read(spec)
    return table[name](*context, **options)


def options_of(builder: Callable) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a builder, with their annotations resolved."""
    return dict(_options_of(builder))


def problems(table: Table, spec: object, path: tuple[str | int, ...]) -> list[Problem]:
    """Return everything that is wrong with a spec, each with the path of keys that leads to it."""
    wanted = f"write a word, or {{name: word, option: value}}; {suggestion('', table)}"
    if not isinstance(spec, str | Mapping):
        return [Problem(path, f"{spec!r} does not name a {table.kind}; {wanted}")]
    if isinstance(spec, Mapping) and not isinstance(spec.get("name"), str):
        return [Problem(path, f"`name` is missing; {wanted}")]
    name, options = _read(spec)
    if name not in table:
        where = path if isinstance(spec, str) else (*path, "name")
        return [Problem(where, unknown(table.kind, name, table))]
    return _option_problems(name, options_of(table[name]), options, path)


def table_of(parameter: inspect.Parameter) -> Table | None:
    """Return the table that an option is picked from, or None for a plain value."""
    if get_origin(parameter.annotation) is not Annotated:
        return None
    return next((each for each in get_args(parameter.annotation) if isinstance(each, Table)), None)


def _read(spec: Spec) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, str):
        return spec, {}
    return spec["name"], {key: value for key, value in spec.items() if key != "name"}


def _option_problems(name, known, options, path) -> list[Problem]:
    found = []
    for key, value in options.items():
        where = (*path, key)
        if key not in known:
            message = f"{name} has no option {key!r}; {suggestion(key, known)}"
            found.append(Problem(where, message))
        elif (inner := table_of(known[key])) is not None:
            found += problems(inner, value, where)
        else:
            found += value_problems(known[key].annotation, value, where)
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in options:
            found.append(Problem((*path, key), f"{name} needs the option {key!r}"))
    return found


def value_problems(annotation: Any, value: object, path: tuple[str | int, ...]) -> list[Problem]:
    """Check one plain value against a type annotation: strictly, so that True is not 1."""
    try:
        _adapter(annotation).validate_python(value)
    except ValidationError as error:
        return [
            Problem(
                (*path, *_keys(each["loc"])), f"{_sentence(each['msg'])}, not {each['input']!r}"
            )
            for each in error.errors()[:1]
        ]
    return []


def _keys(location: tuple) -> list:
    return [each for each in location if isinstance(each, int) or re.fullmatch(r"\w+", each)]


def _sentence(message: str) -> str:
    message = message.removeprefix("Value error, ").removeprefix("Input ")
    return message[0].lower() + message[1:]


def _without_here(problem: Problem) -> str:
    return str(problem) if problem.path else problem.message


@functools.cache
def _options_of(builder: Callable) -> tuple[tuple[str, inspect.Parameter], ...]:
    function = builder.__init__ if inspect.isclass(builder) else builder
    hints = get_type_hints(inspect.unwrap(function), include_extras=True)
    return tuple(
        (name, parameter.replace(annotation=hints.get(name, Any)))
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    )


@functools.cache
def _adapter(annotation: Any) -> TypeAdapter:
    return TypeAdapter(annotation, config=ConfigDict(strict=True, arbitrary_types_allowed=True))
