"""The cells of a column of a table, as text, numbers, dates or vectors."""

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from zoo.datasets.tables.frames import Decimal, is_date, is_list, is_numeric, is_text
from zoo.errors import ZooError, brief

if TYPE_CHECKING:
    import pyarrow
    from pandas import Series

LONGEST = 1000
"""Characters of an id, of a name of a class, or of a kind of thing."""

_TRUE, _FALSE = "true", "false"
_POINTS = r"\d{1,2}\.\d{1,2}\.\d{4}"
_FORMS = {"%d.%m.%Y": _POINTS, "%d.%m.%Y %H:%M": rf"{_POINTS} \d{{1,2}}:\d\d"}
"""Dates with points, which have the day first, to how they look."""


def decoded(column: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
    """Return a column of a dictionary, such as pandas writes categories, as its values.

    Text in Arrow's newer form, such as Polars holds it, becomes that in its older one.
    """
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    is_view = getattr(pyarrow.types, "is_string_view", None)  # since pyarrow 16
    return column.cast(pyarrow.string()) if is_view and is_view(column.type) else column


def texts(
    column: "pyarrow.ChunkedArray", longest: int | None = LONGEST, whole: bool = False
) -> np.ndarray:
    """Return a column as text, "" where it is missing.

    Args:
        column: of any type but lists.
        longest: characters of a text at most; None: any, as an array of objects.
        whole: writes 1.0 as 1 if all numbers are whole, and no larger than 64 bits hold.
    """
    import pyarrow
    from pyarrow import compute

    column = decoded(column)
    if pyarrow.types.is_floating(column.type):
        column = compute.if_else(compute.is_nan(column), None, column)
        if whole and _are_whole(column, 2.0**63):
            column = column.cast(pyarrow.int64(), safe=False)
    if pyarrow.types.is_nested(column.type):
        raise ZooError(f"a column of type {column.type} is neither text nor numbers.")
    column = column.cast(pyarrow.string()).fill_null("")
    return short(column, longest) if longest else column.to_numpy(zero_copy_only=False)


def float_ids(column: "pyarrow.ChunkedArray", where: str) -> "pyarrow.ChunkedArray":
    """Return ids as int64 that are floats, such as pandas makes of whole numbers with gaps.

    Raises:
        ZooError: some are fractions, or so large that floats round them.
    """
    digits = {16: 11, 32: 24}.get(column.type.bit_width, 53)
    if not _are_whole(column.cast("float64"), 2.0**digits):
        raise ZooError(
            f"{where} is of type {column.type} and holds fractions, or numbers from 2^{digits}, "
            "which it rounds; ids are whole numbers (int64) or text."
        )
    return column.cast("int64", safe=False)


def _are_whole(column: "pyarrow.ChunkedArray", below: float) -> bool:
    """Return whether all numbers of a column of floats are whole, and smaller than a number."""
    from pyarrow import compute

    whole = compute.equal(column, compute.floor(column))
    return compute.all(compute.and_(whole, compute.less(compute.abs(column), below))).as_py()


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

    Raises:
        ZooError: lists are of several lengths, or fractions are written in two ways.
    """
    import pyarrow
    from pyarrow import compute

    column = decoded(column)
    kind = column.type
    if is_text(kind) and (values := _truths(column)) is not None:
        return values
    if pyarrow.types.is_null(kind):  # of cells that are all empty
        return np.full(len(column), np.nan)
    if not is_numeric(kind):
        _refuse_mixed(column, name)
        return None
    if is_list(kind):
        lengths = compute.unique(compute.list_value_length(column)).to_pylist()
        if len(lengths) != 1 or lengths[0] is None:
            raise ZooError(f"the lists in {name!r} are of several lengths, or missing.")
        return numbers(compute.list_flatten(column), name).reshape(len(column), -1)
    if pyarrow.types.is_boolean(kind):
        column = column.cast(pyarrow.uint8())
    return column.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False)


def _refuse_mixed(column: "pyarrow.ChunkedArray", name: str) -> None:
    """Refuse numbers of which some have a comma before the fraction and others a point."""
    from pyarrow import compute

    if not is_text(column.type):
        return
    cells = compute.utf8_trim_whitespace(column.fill_null(""))
    if not compute.all(compute.match_substring_regex(cells, r"^([+-]?\d*[.,]?\d*)$")).as_py():
        return
    commas = cells.filter(compute.match_substring(cells, ","))
    if compute.all(compute.match_substring_regex(commas, r"^[+-]?[1-9]\d{0,2},\d{3}$")).as_py():
        return  # these part thousands
    places = [
        int(np.argmax(compute.match_substring(cells, each).to_numpy(zero_copy_only=False)))
        for each in ",."
    ]
    found = [cells[place].as_py() for place in places]
    if all(mark in cell for mark, cell in zip(",.", found, strict=True)):
        raise ZooError(
            f"the column {name!r} holds {brief(found[0])} in data row {places[0] + 1} and "
            f"{brief(found[1])} in data row {places[1] + 1}: numbers with a comma and with a "
            "point. Write all in one way; with commas, `decimal: comma`."
        )


def _truths(column: "pyarrow.ChunkedArray") -> np.ndarray | None:
    """Return truth values in words as 0 and 1, NaN where missing; None where there are others."""
    from pyarrow import compute

    words = compute.utf8_lower(column.fill_null(""))
    if not set(compute.unique(words).to_pylist()) - {""} <= {_TRUE, _FALSE}:
        return None
    words = words.to_numpy(zero_copy_only=False)
    if (words == "").all():
        return None
    return np.select([words == _TRUE, words == _FALSE], [1.0, 0.0], np.nan)


def dates(column: "pyarrow.ChunkedArray", name: str, date_format: str | None = None) -> np.ndarray:
    """Return dates as days since 1970 (N,), NaN where missing.

    Raises:
        ZooError: a cell is no date of the format, without one no date such as 2024-03-31,
            2024-03-31 18:30 or 31.3.2024 that is written like the first; or the column is of times
            of day, of durations, or of numbers whose digits do not say how dates were written.
    """
    import pandas

    if is_date(column.type):
        found = pandas.Series(column.to_pandas())
        wrong = np.zeros(len(found), bool)
        words = found
    else:
        words = pandas.Series(_words(column, name, date_format))
        found = parsed_dates(words, date_format)
        wrong = (found.isna() & (words != "")).to_numpy()
    if wrong.any():
        row = int(wrong.argmax())
        raise ZooError(
            f"the column {name!r} holds {brief(words[row])} in data row {row + 1}, which is no "
            + (
                f"date of the form {date_format}; write all in one form."
                if date_format
                else "date, or not written like the first; write all as 2024-03-31, 2024-03-31 "
                "18:30, 31.3.2024 or 31.3.2024 18:30, or say how they are written, such as "
                "`date_format: '%d/%m/%Y'`."
            )
        )
    found = pandas.to_datetime(found, utc=True)
    days = (found - pandas.Timestamp(0, tz="UTC").as_unit("us")) / pandas.Timedelta(days=1)
    return days.to_numpy(np.float64)


def _words(column: "pyarrow.ChunkedArray", name: str, date_format: str | None) -> np.ndarray:
    """Return dates that are text or numbers as they are written in the form, "" where missing."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_temporal(kind):
        raise ZooError(
            f"the column {name!r} is of type {kind}: times of day, or durations, which are no "
            "dates. Write dates with a year; or numbers, such as seconds, which need no word."
        )
    if date_format is None or is_text(kind):
        return texts(column)
    found = texts(column, whole=True)
    if pyarrow.types.is_floating(kind) and (np.char.find(found, ".") >= 0).any():
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


def vectors(column: "pyarrow.ChunkedArray", name: str, decimal: Decimal = "point") -> np.ndarray:
    """Return text such as `[0.5, 1]` or `0.5 1` as numbers (N, k); lists as `numbers` does.

    Args:
        column: of text, or of lists.
        name: what it is called in errors.
        decimal: what stands before a fraction; with `comma` it is `0,5 1`, and `[0.5, 1]` as well.

    Raises:
        ZooError: a cell is something else, or of another length than the first.
    """
    if is_numeric(column.type):
        return numbers(column, name)
    if not is_text(column.type):
        raise ZooError(f"the column {name!r} is of type {column.type}, no numbers; write numbers.")
    read = _vector if decimal == "point" else _vector_with_commas
    rows = [read((each or "").strip()) for each in column.to_pylist()]
    for place, row in enumerate(rows):
        if row is None or len(row) != len(rows[0] or []):
            such = "[0.5, 1, 2] or 0.5 1 2" if decimal == "point" else "0,5 1 2"
            raise ZooError(
                f"the column {name!r} holds {brief(column[place].as_py() or '')} in data row "
                f"{place + 1}; write as many numbers in each, such as {such}."
            )
    return np.array(rows, np.float64)


def _vector(text: str) -> list[float] | None:
    try:
        found = json.loads(text) if text.startswith("[") else text.replace(",", " ").split()
        return [float(each) for each in found] or None
    except (ValueError, TypeError, RecursionError):
        return None


def _vector_with_commas(text: str) -> list[float] | None:
    """Return numbers whose fractions begin with a comma; None where it may stand between two."""
    listed = text.startswith("[") and text.endswith("]")
    if "." in text:  # in brackets it is how Python writes a list, else it may part thousands
        return _vector(text) if listed else None
    parts = re.split(r",\s+|;\s*|\s+", text[1:-1].strip() if listed else text)
    if listed and len(parts) == 1 and "," in text:
        return None
    try:
        return [float(each.replace(",", ".")) for each in parts]
    except ValueError:
        return None
