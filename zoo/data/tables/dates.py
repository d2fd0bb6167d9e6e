"""Dates in a column of a table: parsed as days since 1970, or as timestamps."""

import re
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from zoo.data.tables.cells import kind_of, parse_texts, type_of
from zoo.errors import ZooError, brief

if TYPE_CHECKING:
    from pandas import Series

_POINTS = r"\d{1,2}\.\d{1,2}\.\d{4}"
_DATES_WITH_POINTS = {"%d.%m.%Y": _POINTS, "%d.%m.%Y %H:%M": rf"{_POINTS} \d{{1,2}}:\d\d"}


def parse_dates(column: "Series", name: str, date_format: str | None = None) -> np.ndarray:
    """Return dates as days since 1970 (N,), NaN where missing.

    Raises:
        ZooError: a cell is no date of the format, without one no date such as 2024-03-31,
            2024-03-31 18:30 or 31.3.2024 that is written like the first; or the column is of times
            of day, of durations, or of numbers whose digits do not say how dates were written.
    """
    import pandas

    if kind_of(column) == "date":
        dates = timestamps(column)
    else:
        words = pandas.Series(_date_words(column, name, date_format))
        dates = parse_date_words(words, date_format)
        wrong = (dates.isna() & (words != "")).to_numpy()
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
    days = (dates - pandas.Timestamp(0, tz="UTC").as_unit("us")) / pandas.Timedelta(days=1)
    return days.to_numpy(np.float64)


def timestamps(column: "Series") -> "Series":
    """Return a column of dates in UTC, of numpy's type."""
    import pandas
    import pyarrow

    plain = pyarrow.array(column).to_pandas(date_as_object=False)
    return pandas.to_datetime(pandas.Series(plain), utc=True)


def _date_words(column: "Series", name: str, date_format: str | None) -> np.ndarray:
    """Return dates that are text or numbers as they are written in the form, "" where missing."""
    import pyarrow

    kind = kind_of(column)
    if kind == "time":
        raise ZooError(
            f"the column {name!r} is of type {type_of(column)}: times of day, or durations, which "
            "are no dates. Write dates with a year; or numbers, such as seconds, which need no "
            "word."
        )
    if date_format is None or kind == "text":
        return parse_texts(column)
    words = parse_texts(column, whole=True)
    if pyarrow.types.is_floating(type_of(column)) and (np.char.find(words, ".") >= 0).any():
        raise ZooError(
            f"the column {name!r} is of numbers, of which nobody knows how many digits a date of "
            f"the form {date_format} had behind the point; write dates as text, or as dates."
        )
    return np.where(words == "", "", np.char.zfill(words, date_length(date_format)))


def date_length(date_format: str) -> int:
    """Return how long a date of a form is, which tells the zeros in front that a number has lost.

    >>> date_length("%d%m%Y")
    8
    """
    try:
        return len(datetime(2024, 11, 30, 12, 30, 30).strftime(date_format))
    except ValueError:  # on some systems, of a form that is none
        return 0


def parse_date_words(words: "Series", date_format: str | None) -> "Series":
    """Return the dates of a column of text, NaT where a cell is none.

    Args:
        words: the cells.
        date_format: how they are written; None: as the first, ISO 8601 or with points.
    """
    import pandas

    first = next((word for word in map(str, words) if word.strip()), "")
    forms = (form for form, look in _DATES_WITH_POINTS.items() if re.fullmatch(look, first))
    form = date_format or next(forms, "ISO8601")
    try:
        dates = pandas.to_datetime(words, format=form, errors="coerce", utc=True)
    except (ValueError, re.error) as error:
        raise ZooError(f"`date_format: {form!r}` is none ({error}); write %d/%m/%Y.") from None
    return dates.mask(words.isin(["now", "today"]))  # of which pandas makes the time of reading
