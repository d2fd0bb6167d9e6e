"""Tables that turn the words of a recipe into objects, and the check of the options beside them.

An entry of a table is a builder: a function or class whose positional parameters are supplied by
the code that picks, and whose keyword-only parameters are the options that a recipe may set. The
signature is all there is to declare: names, types, ranges and defaults are read from it.
"""

import functools
import importlib
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Generic, TypeVar, get_args, get_origin, get_type_hints

from annotated_types import GroupedMetadata
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from zoo.errors import FIRST, Problem, ZooError, brief, suggestion, unknown

Spec = str | dict[str, Any]
"""A word, or a word with options: `rba`, or `{name: rba, size: 512}`."""


class Within(GroupedMetadata):
    """Bounds of a number, for pydantic those of a `Field`; a signature shows them in words.

    >>> Within("at least 1", ge=1)
    at least 1
    """

    def __init__(self, words: str, **bounds: Any):
        self.words, self.bounds = words, tuple(Field(**bounds).metadata)

    def __iter__(self) -> Iterator[Any]:
        """Return what pydantic is to check."""
        return iter(self.bounds)

    def __repr__(self) -> str:
        """Return the bounds in words, such as `at least 1`."""
        return self.words


MOST = 3_000_000_000
"""The largest count: its square is still a number of 64 bits."""

LARGEST = 1e30
"""The largest number, and some way from 3e38, where single precision ends: it is multiplied."""

Count = Annotated[int, Within("at least 1", ge=1, le=MOST)]
Number = Annotated[int, Within("at least 0", ge=0, le=MOST)]
Few = Annotated[int, Within("from 1 to 1,000", ge=1, le=1000)]
Seed = Annotated[int, Within("at least 0", ge=0, lt=2**63)]
Finite = Annotated[float, Within("finite", ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Positive = Annotated[float, Within("above 0", gt=0, le=LARGEST, allow_inf_nan=False)]
NonNegative = Annotated[float, Within("at least 0", ge=0, le=LARGEST, allow_inf_nan=False)]
Fraction = Annotated[float, Within("from 0 to 1", ge=0, le=1)]
Rate = Annotated[float, Within("from 0 to below 1", ge=0, lt=1)]

Builder = TypeVar("Builder", bound=Callable[..., Any])


LOADED = time.time()
"""When the first table was made: before anything of another file was put into one."""


class Table(dict[str, Builder], Generic[Builder]):
    """A dict from words to builders that knows what its words stand for.

    As metadata of an annotation it says that an option is itself picked from this table:
    `attention: Annotated[Spec, ATTENTIONS] = "native"`.

    An entry may be the text `module:name` instead, which is imported when its word is looked up.
    """

    def __init__(self, kind: str, entries: Mapping[str, Builder | str]):
        """Name the kind of thing in the table ("attention") and give its entries."""
        super().__init__(entries)  # type: ignore[arg-type]
        self.kind = kind

    def __getitem__(self, word: str) -> Builder:
        """Return the builder of a word, imported now where only its place is known."""
        entry = super().__getitem__(word)
        if isinstance(entry, str):
            module, _, name = entry.partition(":")
            entry = getattr(importlib.import_module(module), name)
            self[word] = entry
        return entry

    def __iter__(self) -> Iterator[str]:
        """Return the words; with a method of its own, `dict(table)` has builders, no places."""
        return super().__iter__()

    def imported(self) -> dict[str, Builder]:
        """Return the words whose builders have been imported."""
        return {word: entry for word, entry in super().items() if not isinstance(entry, str)}

    def get(self, word: str, default: Any = None) -> Any:
        """Return the builder of a word, or a default."""
        return self[word] if word in self else default  # noqa: SIM401 (it is this one)

    def values(self) -> list[Builder]:  # type: ignore[override]
        """Return every builder."""
        return [self[word] for word in self]

    def items(self) -> list[tuple[str, Builder]]:  # type: ignore[override]
        """Return every word with its builder."""
        return [(word, self[word]) for word in self]

    __hash__ = object.__hash__  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the words, `<attention: linear, native, rba>`, as signatures show them."""
        return f"<{self.kind}: {', '.join(sorted(self))}>"


def pick(table: Table, spec: Spec, *context: Any) -> Any:
    """Turn a word, or a word with options, into the object that it names.

    Args:
        table: where the word is looked up.
        spec: `"rba"` or `{"name": "rba", "size": 512}`.
        context: positional arguments of the builder, supplied by the calling code.

    Raises:
        ZooError: an unknown word or option, or a value of the wrong type or out of range.
    """
    if wrong := problems(table, spec, ()):
        lines = [str(problem) if problem.path else problem.message for problem in wrong]
        rest = f" And {len(wrong) - FIRST:,} more problems." if len(wrong) > FIRST else ""
        named = isinstance(spec, Mapping) and isinstance(spec.get("name"), str)
        shown = brief(spec["name"] if named else spec)
        raise ZooError(f"{table.kind} {shown}: {' '.join(lines[:FIRST])}{rest}")
    name, options = _name_and_options(spec)
    try:
        inspect.signature(table[name]).bind(*context, **options)
    except TypeError as error:  # of one's own, such as the function that it should have built
        raise ZooError(
            f"{table.kind} {name!r}: its entry in the table is called as a builder, with "
            f"{len(context)} positional and its own options by keyword, and does not take these: "
            f"{error}. Write a function that returns what is to be used."
        ) from None
    result = table[name](*context, **options)
    if result is None and table.kind in ("attention", "propagation", "encoding", "dataset"):
        raise ZooError(f"{table.kind} {name!r}: its builder returned None; return what it built.")
    return result


def options_of(builder: Callable) -> dict[str, inspect.Parameter]:
    """Return the keyword-only parameters of a builder, with their annotations resolved."""
    return dict(_options_of(builder))


def problems(
    table: Table, spec: object, path: tuple[str | int, ...], also: Iterable[str] = ()
) -> list[Problem]:
    """Return everything that is wrong with a spec, each with the path of keys that leads to it.

    `also` names keys that the caller has taken out of the spec; they are suggested like options.
    """
    wanted = f"write a word, or {{name: word, option: value}}; {suggestion('', table)}"
    if not isinstance(spec, str | Mapping):
        return [Problem(path, f"{brief(spec)} does not name a {table.kind}; {wanted}")]
    if isinstance(spec, Mapping) and not isinstance(spec.get("name"), str):
        return [Problem(path, f"`name` is missing; {wanted}")]
    name, options = _name_and_options(spec)
    if name not in table:
        where = path if isinstance(spec, str) else (*path, "name")
        return [Problem(where, unknown(table.kind, name, table))]
    return option_problems(name, table[name], options, path, also)


def table_of(parameter: inspect.Parameter) -> Table | None:
    """Return the table that an option is picked from, or None for a plain value."""
    if get_origin(parameter.annotation) is not Annotated:
        return None
    return next((item for item in get_args(parameter.annotation) if isinstance(item, Table)), None)


def _name_and_options(spec: Spec) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, str):
        return spec, {}
    return spec["name"], {key: value for key, value in spec.items() if key != "name"}


def option_problems(
    name: str,
    builder: Callable,
    options: Mapping[str, Any],
    path: tuple[str | int, ...],
    also: Iterable[str] = (),
) -> list[Problem]:
    """Return everything that is wrong with options for a builder that the user knows by name."""
    known, wrong = options_of(builder), []
    for key, value in options.items():
        keys = (*path, key)
        if key not in known:
            # To look for the right word takes a while.
            fix = suggestion(key, [*known, *also]) if len(wrong) < FIRST else ""
            fix = getattr(builder, "without", {}).get(key, fix)
            wrong.append(Problem(keys, f"{name} has no option {brief(key)}; {fix}"))
        elif (inner := table_of(known[key])) is not None:
            wrong += problems(inner, value, keys)
        else:
            wrong += value_problems(known[key].annotation, value, keys)
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in options:
            wrong.append(Problem((*path, key), f"{name} needs the option {key!r}"))
    return wrong


def value_problems(annotation: Any, value: object, path: tuple[str | int, ...]) -> list[Problem]:
    """Check one plain value against a type annotation: strictly, so that True is not 1."""
    try:
        adapter(annotation).validate_python(value)
    except ValidationError as error:
        wrong: dict[tuple, list] = {}
        for details in error.errors(include_url=False):
            wrong.setdefault(_keys(details["loc"], value), []).append(details)
        return [Problem((*path, *keys), sentence(*errors)) for keys, errors in wrong.items()]
    return []


def sentence(*errors: Mapping[str, Any]) -> str:
    """Return what one value should be, from pydantic's errors: one for each type it may have."""
    messages = [error["msg"].removeprefix("Value error, ") for error in errors]
    messages = [text.removeprefix("Input ").replace("1" + 30 * "0", "1e+30") for text in messages]
    wanted = " or ".join(text[0].lower() + text[1:] for text in dict.fromkeys(messages))
    return f"{wanted}, not {brief(errors[0]['input'])}"


def _keys(location: tuple, value: Any) -> tuple:
    """Return what of a location leads into the value: pydantic adds the names of types to it."""
    for end, key in enumerate(location):
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return location[:end]
    return location


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
def adapter(annotation: Any) -> TypeAdapter:
    """Return what checks values of an annotation, strictly: True is not 1, nor 1 a float."""
    return TypeAdapter(annotation, config=ConfigDict(strict=True, arbitrary_types_allowed=True))


def resolved(table: Table, spec: Spec) -> dict[str, Any]:
    """Return a checked spec with every option written out, defaults included."""
    name, options = _name_and_options(spec)
    return {"name": name, **resolved_options(table[name], options)}


def resolved_options(builder: Callable, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return every option of a builder: those given, and the defaults of the others."""
    full = {}
    for key, parameter in options_of(builder).items():
        value = options.get(key, parameter.default)
        if (inner := table_of(parameter)) is not None:
            value = resolved(inner, value)
        # A word is enough where there are no options.
        full[key] = value["name"] if inner is not None and len(value) == 1 else value
    return full
