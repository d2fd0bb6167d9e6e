"""The cells of a column of a table, as text, ids, numbers, dates or vectors."""

import re
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from zoo.data.tables.read import Decimal
from zoo.errors import ZooError, brief

if TYPE_CHECKING:
    import pyarrow
    from pandas import Series

LONGEST = 1000
"""Characters of an id, of a name of a class, or of a kind of thing."""


def type_of(column: "Series") -> "pyarrow.DataType":
    """Return the type that a column has in Arrow."""
    return column.dtype.pyarrow_dtype


def held(column: "Series") -> str:
    """Return what a column holds: a word of `HELD`, or `other`.

    Lists are those of numbers, of one length or of several; numbers are also truth values.
    """
    return _held(type_of(column))


def _held(kind: "pyarrow.DataType") -> str:
    from pyarrow import types

    found = (word for word, tests in HELD.items()
             if any(getattr(types, f"is_{test}")(kind) for test in tests))  # fmt: skip
    word = next(found, "other")
    return "other" if word == "list" and _held(kind.value_type) not in ("number", "list") else word


HELD = {
    "number": ("integer", "floating", "boolean", "decimal"),
    "text": ("string", "large_string"),
    "date": ("date", "timestamp"),
    "time": ("temporal",),
    "list": ("list", "large_list", "fixed_size_list"),
    "nothing": ("null",),
}
"""What a column holds, to the types of Arrow, in the words of `pyarrow.types`."""


def texts(column: "Series", longest: int | None = LONGEST, whole: bool = False) -> np.ndarray:
    """Return a column as text, "" where it is missing.

    Args:
        column: of any type but lists.
        longest: characters of a text at most; None: any, as an array of objects.
        whole: writes 1.0 as 1 if all numbers are whole, and no larger than 64 bits hold.
    """
    import pandas
    import pyarrow

    if pyarrow.types.is_nested(type_of(column)):
        raise ZooError(f"a column of type {type_of(column)} is neither text nor numbers.")
    if whole and pyarrow.types.is_floating(type_of(column)) and _are_whole(column, 2.0**63):
        column = column.astype("int64[pyarrow]")
    column = column.astype(pandas.ArrowDtype(pyarrow.string())).fillna("")
    if longest is None:
        return column.to_numpy(object)
    if len(column) and (length := column.str.len().max()) > longest:
        raise ZooError(
            f"a text of {length:,} characters is no id and no name of a class; write at most "
            f"{longest:,}."
        )
    return column.to_numpy(object).astype(str)  # each takes the room of the longest


def _are_whole(column: "Series", below: float) -> bool:
    """Return whether all numbers of a column of floats are whole, and smaller than a number."""
    values = column.dropna().to_numpy(np.float64)
    return bool(((values == np.floor(values)) & (np.abs(values) < below)).all())


def ids(column: "Series", where: str) -> np.ndarray:
    """Return a column of ids as int64 where all are whole numbers, else as text.

    Raises:
        ZooError: an id is missing, or is neither a whole number nor text.
    """
    import pyarrow

    kind, text = type_of(column), held(column) == "text"
    fractions = pyarrow.types.is_floating(kind)  # as pandas has whole numbers with gaps
    if len(column) == 0:  # of whatever type it was then written
        return np.zeros(0, np.int64)
    if not (text or fractions or pyarrow.types.is_integer(kind)):
        raise ZooError(f"{where} is of type {kind}; ids are whole numbers or text.")
    missing = (column.isna() | (column == "")) if text else column.isna()
    if len(rows := np.flatnonzero(missing.to_numpy(bool))):
        raise ZooError(
            f"{where} is empty in {len(rows):,} rows, the first of them data row {rows[0] + 1}; "
            "give every node an id, and every edge two."
        )
    digits = {16: 11, 32: 24}.get(kind.bit_width, 53) if fractions else 0
    if fractions and not _are_whole(column, 2.0**digits):
        raise ZooError(
            f"{where} is of type {kind} and holds fractions, or numbers from 2^{digits}, which it "
            "rounds; ids are whole numbers (int64) or text."
        )
    try:
        numbers = column.astype("int64[pyarrow]")
    except ValueError:  # no whole numbers, or of more than 64 bits
        return texts(column)
    written = numbers.astype(column.dtype)
    return numbers.to_numpy(np.int64) if written.equals(column) else texts(column)  # 007 is not 7


def numbers(column: "Series", name: str) -> np.ndarray | None:
    """Return numbers (N,), or lists of one length as (N, length), NaN where missing.

    Truth values are 0 and 1, also in words. None where the column is of something else.

    Raises:
        ZooError: lists are of several lengths, or fractions are written in two ways.
    """
    kind = held(column)
    if kind == "list":
        lengths = column.list.len().unique()
        if len(lengths) != 1 or lengths.isna().any():
            raise ZooError(f"the lists in {name!r} are of several lengths, or missing.")
        return numbers(column.list.flatten(), name).reshape(len(column), -1)
    if kind == "text":
        words = column.fillna("").str.lower()
        if {""} < {"", *words.unique()} <= {"", "true", "false"}:
            words = words.to_numpy(object)
            return np.select([words == "true", words == "false"], [1.0, 0.0], np.nan)
        _refuse_mixed(column.fillna("").str.strip(), name)
    plain = kind in ("number", "nothing")
    return column.to_numpy(np.float64, na_value=np.nan) if plain else None


def _refuse_mixed(cells: "Series", name: str) -> None:
    """Refuse numbers of which some have a comma before the fraction and others a point."""
    if not cells.str.fullmatch(r"[+-]?\d*[.,]?\d*").all():
        return
    commas, points = (cells.str.contains(mark, regex=False).to_numpy(bool) for mark in ",.")
    if cells[commas].str.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}").all():
        return  # these part thousands
    if commas.any() and points.any():
        one, other = int(commas.argmax()), int(points.argmax())
        raise ZooError(
            f"the column {name!r} holds {brief(cells[one])} in data row {one + 1} and "
            f"{brief(cells[other])} in data row {other + 1}: numbers with a comma and with a "
            "point. Write all in one way; with commas, `decimal: comma`."
        )


_POINTS = r"\d{1,2}\.\d{1,2}\.\d{4}"
_FORMS = {"%d.%m.%Y": _POINTS, "%d.%m.%Y %H:%M": rf"{_POINTS} \d{{1,2}}:\d\d"}
"""Dates with points, which have the day first, to how they look."""


def dates(column: "Series", name: str, date_format: str | None = None) -> np.ndarray:
    """Return dates as days since 1970 (N,), NaN where missing.

    Raises:
        ZooError: a cell is no date of the format, without one no date such as 2024-03-31,
            2024-03-31 18:30 or 31.3.2024 that is written like the first; or the column is of times
            of day, of durations, or of numbers whose digits do not say how dates were written.
    """
    import pandas

    if held(column) == "date":
        found = moments(column)
    else:
        words = pandas.Series(_words(column, name, date_format))
        found = parsed_dates(words, date_format)
        wrong = (found.isna() & (words != "")).to_numpy()
        if wrong.any():
            row = int(wrong.argmax())
            form = (
                f"date of the form {date_format}; write all in one form."
                if date_format
                else "date, or not written like the first; write all as 2024-03-31, 2024-03-31 "
                "18:30, 31.3.2024 or 31.3.2024 18:30, or say how they are written, such as "
                "`date_format: '%d/%m/%Y'`."
            )
            raise ZooError(
                f"the column {name!r} holds {brief(words[row])} in data row {row + 1}, which is no "
                f"{form}"
            )
    days = (found - pandas.Timestamp(0, tz="UTC").as_unit("us")) / pandas.Timedelta(days=1)
    return days.to_numpy(np.float64)


def moments(column: "Series") -> "Series":
    """Return a column of dates in UTC, of numpy's type."""
    import pandas
    import pyarrow

    plain = pyarrow.array(column).to_pandas(date_as_object=False)
    return pandas.to_datetime(pandas.Series(plain), utc=True)


def _words(column: "Series", name: str, date_format: str | None) -> np.ndarray:
    """Return dates that are text or numbers as they are written in the form, "" where missing."""
    import pyarrow

    kind = held(column)
    if kind == "time":
        raise ZooError(
            f"the column {name!r} is of type {type_of(column)}: times of day, or durations, which "
            "are no dates. Write dates with a year; or numbers, such as seconds, which need no "
            "word."
        )
    if date_format is None or kind == "text":
        return texts(column)
    found = texts(column, whole=True)
    if pyarrow.types.is_floating(type_of(column)) and (np.char.find(found, ".") >= 0).any():
        raise ZooError(
            f"the column {name!r} is of numbers, of which nobody knows how many digits a date of "
            f"the form {date_format} had behind the point; write dates as text, or as dates."
        )
    return np.where(found == "", "", np.char.zfill(found, characters(date_format)))


def characters(date_format: str) -> int:
    """Return how long a date of a form is, which tells the zeros in front that a number has lost.

    >>> characters("%d%m%Y")
    8
    """
    try:
        return len(datetime(2024, 11, 30, 12, 30, 30).strftime(date_format))
    except ValueError:  # on some systems, of a form that is none
        return 0


def parsed_dates(words: "Series", date_format: str | None) -> "Series":
    """Return the dates of a column of text, NaT where a cell is none.

    Args:
        words: the cells.
        date_format: how they are written; None: as the first, ISO 8601 or with points.
    """
    import pandas

    first = next((each for each in map(str, words) if each.strip()), "")
    looks = (form for form, each in _FORMS.items() if re.fullmatch(each, first))
    form = date_format or next(looks, "ISO8601")
    try:
        found = pandas.to_datetime(words, format=form, errors="coerce", utc=True)
    except (ValueError, re.error) as error:
        raise ZooError(f"`date_format: {form!r}` is none ({error}); write %d/%m/%Y.") from None
    return found.mask(words.isin(["now", "today"]))  # of which pandas makes the time of reading


def vectors(column: "Series", name: str, decimal: Decimal = "point") -> np.ndarray:
    """Return text such as `[0.5, 1]` or `0.5 1` as numbers (N, k); lists as `numbers` does.

    Args:
        column: of text, or of lists.
        name: what it is called in errors.
        decimal: what stands before a fraction; with `comma` it is `0,5 1`, and `[0.5, 1]` as well.

    Raises:
        ZooError: a cell is something else, or of another length than the first.
    """
    if held(column) in ("number", "list"):
        return numbers(column, name)
    if held(column) != "text":
        raise ZooError(f"the column {name!r} is of type {type_of(column)}, no numbers; write "
                       "numbers.")  # fmt: skip
    cells = column.fillna("").str.strip()
    rows = [_vector(each, decimal == "comma") for each in cells]
    place = next((n for n, row in enumerate(rows) if not row or len(row) != len(rows[0])), None)
    if place is not None:
        such = "[0.5, 1, 2] or 0.5 1 2" if decimal == "point" else "0,5 1 2"
        raise ZooError(
            f"the column {name!r} holds {brief(cells[place])} in data row {place + 1}; write as "
            f"many numbers in each, such as {such}."
        )
    return np.array(rows, np.float64)


def _vector(text: str, comma: bool) -> list[float]:
    """Return several numbers, none where a cell is something else.

    With a `comma` before fractions these are as Python writes them where a point is in brackets;
    none where a comma may stand before a fraction as well as between two numbers, or a point may
    part thousands.
    """
    listed = text.startswith("[") and text.endswith("]")
    inner = text[1:-1].strip() if listed else text
    if comma and "." not in text:
        parts = re.split(r",\s+|;\s*|\s+", inner)
        parts = [] if listed and parts == [inner] and "," in text else parts
        inner = " ".join(parts).replace(",", ".")
    elif comma and not listed:
        return []
    try:
        return [float(each) for each in inner.replace(",", " ").split()]
    except ValueError:
        return []
