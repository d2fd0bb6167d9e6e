"""The cells of a column of a table, as text, numbers, dates or vectors."""

import json
import re
from typing import TYPE_CHECKING

import numpy as np

from zoo.datasets.tables.frames import is_numeric, is_text
from zoo.errors import ZooError, brief

if TYPE_CHECKING:
    import pyarrow
    from pandas import Series

LONGEST = 1000
"""Characters of an id, of a name of a class, or of a kind of thing."""

_TRUE, _FALSE = "true", "false"
_SHOWN = 5  # columns that are named in one sentence
_LOOKED_AT = 1000  # cells by which a column is known
_WITH_COMMA = re.compile(r"\s*[+-]?\d*,\d+(e[+-]?\d+)?\s*", re.I)
_POINTS = r"\d{1,2}\.\d{1,2}\.\d{4}"
_FORMS = {"%d.%m.%Y": _POINTS, "%d.%m.%Y %H:%M": rf"{_POINTS} \d{{1,2}}:\d\d"}
"""Dates with points, which have the day first, to how they look."""

_PLAIN = re.compile(r"[^\W\d_]([\w %/.()-]*[\w%)])?")
_NO_NAMES = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_WORDS = 3  # of a cell of text, on average


def decoded(column: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
    """Return a column of a dictionary, such as pandas writes categories, as its values."""
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def texts(
    column: "pyarrow.ChunkedArray", longest: int | None = LONGEST, whole: bool = False
) -> np.ndarray:
    """Return a column as text, "" where it is missing.

    Args:
        column: of any type but lists.
        longest: characters of a text at most; None: any, as an array of objects.
        whole: writes 1.0 as 1 if all numbers are whole.
    """
    import pyarrow
    from pyarrow import compute

    column = decoded(column)
    if pyarrow.types.is_floating(column.type):
        column = compute.if_else(compute.is_nan(column), None, column)
        if whole and compute.all(compute.equal(column, compute.floor(column))).as_py():
            column = column.cast(pyarrow.int64(), safe=False)
    if pyarrow.types.is_nested(column.type):
        raise ZooError(f"a column of type {column.type} is neither text nor numbers.")
    column = column.cast(pyarrow.string()).fill_null("")
    return short(column, longest) if longest else column.to_numpy(zero_copy_only=False)


def short(column: "pyarrow.ChunkedArray", most: int = LONGEST) -> np.ndarray:
    """Return a column of text as an array, in which every text takes the room of the longest."""
    from pyarrow import compute

    longest = compute.max(compute.utf8_length(column)).as_py() or 0
    if longest > most:
        raise ZooError(
            f"a text of {longest:,} characters is no id and no name of a class; write at most "
            f"{most:,}."
        )
    return column.to_numpy(zero_copy_only=False).astype(str)


def numbers(column: "pyarrow.ChunkedArray", name: str) -> np.ndarray | None:
    """Return numbers (N,), or lists of one length as (N, length), NaN where missing.

    Truth values are 0 and 1, also in words. None where the column is of something else.
    """
    import pyarrow
    from pyarrow import compute

    kind = column.type
    if is_text(kind) and (values := _truths(column)) is not None:
        return values
    if not is_numeric(kind):
        return None
    if pyarrow.types.is_list(kind) or pyarrow.types.is_fixed_size_list(kind):
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or lengths[0] is None:
            raise ZooError(f"the lists in {name!r} are of several lengths, or missing.")
        return numbers(compute.list_flatten(column), name).reshape(len(column), -1)
    if pyarrow.types.is_boolean(kind):
        column = column.cast(pyarrow.uint8())
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def _truths(column: "pyarrow.ChunkedArray") -> np.ndarray | None:
    """Return truth values in words as 0 and 1, NaN where missing; None where there are others."""
    from pyarrow import compute

    words = compute.utf8_lower(column.fill_null(""))
    if not set(compute.unique(words).to_pylist()) - {""} <= {_TRUE, _FALSE}:
        return None
    words = words.to_numpy(zero_copy_only=False)
    return (
        None
        if (words == "").all()
        else np.select([words == _TRUE, words == _FALSE], [1.0, 0.0], np.nan)
    )


def dates(column: "pyarrow.ChunkedArray", name: str) -> np.ndarray:
    """Return dates as days since 1970 (N,), NaN where missing.

    Raises:
        ZooError: a cell is no date such as 2024-03-31, 2024-03-31 18:30 or 31.3.2024, or not
            written like those before.
    """
    import pandas
    import pyarrow

    if pyarrow.types.is_temporal(column.type):
        found = pandas.Series(column.to_pandas())
        wrong = np.zeros(len(found), bool)
        words = found
    else:
        words = pandas.Series(texts(column))
        found = pandas.to_datetime(words, format=date_form(words), errors="coerce", utc=True)
        wrong = (found.isna() & (words != "")).to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise ZooError(
            f"the column {name!r} holds {brief(words[row])} in data row {row + 1}, which is no "
            "date, or not written like the first; write all as 2024-03-31, 2024-03-31 18:30, "
            "31.3.2024 or 31.3.2024 18:30."
        )
    found = pandas.to_datetime(found, utc=True)
    days = (found - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(days=1)
    return days.to_numpy(np.float64)


def date_form(words: "Series") -> str:
    """Return how the first date of a column is written, as pandas says it: ISO 8601, or points."""
    first = next((each for each in words if each.strip()), "")
    return next((form for form, looks in _FORMS.items() if re.fullmatch(looks, first)), "ISO8601")


def vectors(column: "pyarrow.ChunkedArray", name: str) -> np.ndarray:
    """Return text such as `[0.5, 1]` or `0.5 1` as numbers (N, k); lists as `numbers` does.

    Raises:
        ZooError: a cell is something else, or of another length than the first.
    """
    if is_numeric(column.type):
        return numbers(column, name)
    rows = [_vector(each) for each in column.to_pylist()]
    for place, row in enumerate(rows):
        if row is None or len(row) != len(rows[0] or []):
            raise ZooError(
                f"the column {name!r} holds {brief(column[place].as_py() or '')} in data row "
                f"{place + 1}; write as many numbers in each, such as [0.5, 1, 2] or 0.5 1 2."
            )
    return np.array(rows, np.float64)


def _vector(text: str | None) -> list[float] | None:
    text = (text or "").strip()
    try:
        found = json.loads(text) if text.startswith("[") else text.replace(",", " ").split()
        return [float(each) for each in found] or None
    except (ValueError, TypeError, RecursionError):
        return None


def no_numbers(columns: dict[str, "pyarrow.ChunkedArray"], where: str) -> str:
    """Return what to do about columns that are no numbers: what each is, by its looks."""
    row, first = ("data row", 1) if where.endswith(".parquet") else ("line", 2)
    said = [f"the column {name!r} {_shown(column, row, first)}" for name, column in columns.items()]
    more = f", and {len(said) - _SHOWN:,} more" if len(said) > _SHOWN else ""
    looks: dict[str, list[str]] = {}
    for name, column in columns.items():
        looks.setdefault(look(column), []).append(name)
    options = ", ".join(
        "`decimal: comma`"
        if option == "decimal"
        else f"`{option}: [{', '.join(map(_in_yaml, found))}]`"
        for option, found in looks.items()
    )
    time = _in_yaml(looks["dates"][0]) if "dates" in looks else None
    series = f" (or `time: {time}`, to forecast)" if time else ""
    return (
        f"{', '.join(said[:_SHOWN])}{more}. By what {'they hold' if len(said) > 1 else 'it holds'} "
        f"write {options}{series}; or leave columns out: name those that are features, "
        "`columns: [...]`, or the one that is the class, `label: COLUMN`."
    )


def _in_yaml(name: str) -> str:
    """Return the name of a column as a recipe has it: in quotes where YAML would read another."""
    if _PLAIN.fullmatch(name) and name.lower() not in _NO_NAMES:
        return name
    return "'" + name.replace("'", "''") + "'"


def look(column: "pyarrow.ChunkedArray") -> str:
    """Return the option of a table that fits a column of text.

    That is `decimal`, `dates`, `vectors`, `text` or `one_hot`.
    """
    import pyarrow

    if pyarrow.types.is_temporal(column.type):
        return "dates"
    if not is_text(column.type):
        return "one_hot"
    held = [each for each in column.to_pylist()[:_LOOKED_AT] if each]
    if held and all(map(_WITH_COMMA.fullmatch, held)):
        return "decimal"
    sample = pyarrow.chunked_array([held], pyarrow.string())
    for option, read in (("dates", dates), ("vectors", vectors)):
        try:
            if held and read(sample, "").ndim == (2 if option == "vectors" else 1):
                return option
        except ZooError:
            pass
    words = sum(len(each.split()) for each in held) / max(1, len(held))
    return "text" if words >= _WORDS else "one_hot"


def _shown(column: "pyarrow.ChunkedArray", row: str, first: int) -> str:
    """Return what a column holds that is no number, and where."""
    if not is_text(column.type):
        return f"is of type {column.type}, no numbers"
    for number, text in enumerate(column.to_pylist(), start=first):
        try:
            float(text or 0)
        except ValueError:
            return f"holds {text[:40]!r} in {row} {number}, which is no number"
    return f"is of type {column.type}, no numbers"
