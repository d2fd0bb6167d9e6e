"""Tables as CSV and Parquet files have them: frames of pandas, whose columns have Arrow's types.

Arrow reads strictly: a row with a cell too few or too many is an error, never a guess.
"""

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from zoo.errors import ZooError, brief, reading, suggestion

if TYPE_CHECKING:
    import pyarrow
    from pandas import DataFrame, Series

SUFFIXES = (".csv", ".tsv", ".parquet")
"""The endings of tables."""

EXCEL = (".xlsx", ".xls", ".ods")
"""The endings of workbooks, which are not read."""

Decimal = Literal["point", "comma"]
Separator = Literal["tab"] | Annotated[str, Field(min_length=1, max_length=1)]

_INDEX = re.compile(r"(__index_level_\d+__|Unnamed: \d+(\.\d+)*)?")
_EXCEL = re.compile(r'("?sep=.?"?)[\r\n]', re.I)
_FIXES = {
    "UTF8": "save the table as UTF-8 CSV.",
    "Expected": "give every row a cell for every column, in quotes where a separator is in it.",
}
"""What Arrow says of a CSV, to what is to be done."""

_MISSING = (
    "", "NA", "N/A", "n/a", "NULL", "null", "NaN", "nan", "-NaN", "-nan", "#N/A", "#N/A N/A",
    "#NA", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
)  # fmt: skip


class NotUtf8(ZooError):
    """A table in another encoding, of which nothing can be said before that is mended."""


class CsvFormat(NamedTuple):
    """How a CSV is written.

    Attributes:
        separator: what stands between cells; None: a comma, in a `.tsv` a tab.
        decimal: what stands before the digits of a fraction.
    """

    separator: Separator | None = None
    decimal: Decimal = "point"

    def delimiter(self, path: Path) -> str:
        """Return what stands between the cells of a file."""
        default = "\t" if path.suffix == ".tsv" else ","
        return "\t" if self.separator == "tab" else self.separator or default


def read_table(
    path: Path, text: Collection[str], only: Collection[str], csv_format: CsvFormat
) -> "DataFrame":
    """Read columns of a table.

    Args:
        path: a `.csv`, `.tsv` or `.parquet`.
        text: the columns of a CSV that are read as text, just as they stand; others are numbers
            where all of their cells are, and text where not.
        only: the columns that are read.
        csv_format: how a CSV is written.

    Raises:
        ZooError: it cannot be read: what is wrong, and where.
    """
    names = read_header(path, csv_format)
    with reading(path, "a table"):
        if path.suffix.lower() == ".parquet":
            from pyarrow import parquet

            return frame_of(parquet.read_table(path, columns=[*only]))
        table = _read_csv(path, names, only, csv_format.delimiter(path))
    for place, name in enumerate(table.column_names):
        if name not in text:
            numbers = _parse_numbers(table[name], csv_format.decimal == "comma")
            table = table if numbers is None else table.set_column(place, name, numbers)
    return frame_of(table)


def frame_of(table: "pyarrow.Table") -> "DataFrame":
    """Return a table of Arrow as a frame whose columns keep its types.

    What is missing is so in one way, NaN included; categories are their values.
    """
    import pandas

    columns = {
        name: pandas.arrays.ArrowExtensionArray(_plain(table[name])) for name in table.column_names
    }
    return pandas.DataFrame(columns, index=range(table.num_rows))


def read_header(path: Path, csv_format: CsvFormat) -> list[str]:
    """Return the names of the columns of a table.

    Raises:
        ZooError: there is no such file, or it is no table that has one name for each column.
    """
    if not path.is_file():
        raise ZooError(f"there is no file {path}; write the path of a CSV or Parquet table.")
    if path.suffix.lower() == ".parquet":
        from pyarrow import parquet

        with reading(path, "Parquet"):
            names = parquet.read_schema(path).names
    else:
        names = _cells_of_names(path, csv_format.delimiter(path))
        if other := _other_mark(names):
            other = "tab" if other == "\t" else repr(other)
            raise ZooError(
                f"{path.name} has a single column, {names[0][:60]!r}; write `separator: {other}`."
            )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise ZooError(f"{path.name} has two columns called {twice[0]!r}; rename one.")
    return names


def is_index(name: str) -> bool:
    """Return whether a column has no name: it is what pandas writes of an index.

    >>> [is_index(name) for name in ("", "Unnamed: 0", "__index_level_0__", "index")]
    [True, True, True, False]
    """
    return _INDEX.fullmatch(name) is not None


def check_columns(
    columns: Collection[str], present: Collection[str], where: str, option: str
) -> None:
    """Refuse a table that lacks one of the columns; `option` is what names another."""
    for column in columns:
        if column not in present:
            shown = ", ".join(map(repr, [*present][:50]))
            more = f" and {len(present) - 50:,} more" if len(present) > 50 else ""
            raise ZooError(
                f"{where} has no column {column!r}; it has {shown}{more}. "
                f"Write `{option}: COLUMN`, or rename a column; {suggestion(column, present)}"
            )


def guess_separator(path: Path) -> str | None:
    """Return what stands between the cells of a CSV with commas nowhere; None where they do.

    Raises:
        ZooError: the file has no first line of names.
    """
    if path.suffix.lower() == ".parquet":
        return None
    mark = _other_mark(_cells_of_names(path, CsvFormat().delimiter(path)))
    return "tab" if mark == "\t" else mark


def _other_mark(names: list[str]) -> str | None:
    """Return the mark in a single name that may part several, None where none does."""
    return next((mark for mark in ";\t|," if mark in names[0]), None) if len(names) == 1 else None


def _cells_of_names(path: Path, delimiter: str) -> list[str]:
    with path.open("rb") as file:
        first = file.readline()
    if not first.strip():
        raise ZooError(f"{path.name} is empty; write a line of column names, then a line per row.")
    try:
        line = first.decode("utf-8-sig")
    except UnicodeDecodeError:
        line = "\0"
    if "\0" in line:
        raise ZooError(
            f"{path.name} is no UTF-8 text, but in another encoding such as UTF-16, packed by gzip "
            "(unpack it), of Excel or binary; save the table as UTF-8 CSV."
        )
    if excel := _EXCEL.match(line):
        raise ZooError(
            f"{path.name} begins with {excel[1]!r}, a word for Excel and no names of columns; "
            "delete the first line, and write `separator` where no comma stands between cells."
        )
    return next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter))


def _read_csv(
    path: Path, names: list[str], only: Collection[str], delimiter: str
) -> "pyarrow.Table":
    """Return columns of a CSV as text."""
    import pyarrow
    from pyarrow import csv as arrow_csv

    content = path.read_bytes()
    _check_quotes(content, delimiter, path.name)
    try:
        return arrow_csv.read_csv(
            pyarrow.BufferReader(content.rstrip(b"\r\n") + b"\n"),
            arrow_csv.ReadOptions(use_threads=False),  # errors of one thread name the row
            arrow_csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,  # where they stand in quotes
                ignore_empty_lines=len(names) > 1,  # of one column they are rows
            ),
            arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pyarrow.string()), include_columns=[*only]
            ),
        )
    except pyarrow.ArrowInvalid as error:
        fix = next((fix for words, fix in _FIXES.items() if words in str(error)), None)
        if fix is None:
            raise
        line = " ".join(str(error).split())[:160]
        kind = NotUtf8 if "UTF8" in str(error) else ZooError
        raise kind(f"{path.name}: it cannot be read as a table ({line}); {fix}") from None


def _check_quotes(content: bytes, delimiter: str, where: str) -> None:
    """Refuse a cell that a quote opens and none ends: Arrow reads rows on until the next quote."""
    if b'"' not in content:
        return
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", errors="replace", newline="")
    rows, first = csv.reader(text, delimiter=delimiter, strict=True), 1
    before = csv.field_size_limit(sys.maxsize)
    try:
        for _ in rows:
            first = rows.line_num + 1
    except csv.Error:
        raise ZooError(
            f"{where}: a cell in line {first:,} begins with a quote and does not end with one, as "
            f"line {rows.line_num:,} shows; write such a cell in quotes, and each quote in it "
            'twice, "5"" wide".'
        ) from None
    finally:
        csv.field_size_limit(before)


def _parse_numbers(column: "pyarrow.ChunkedArray", comma: bool) -> "pyarrow.ChunkedArray | None":
    """Return text as numbers, None where a cell is none; thousands have no mark of their own."""
    import pyarrow
    from pyarrow import compute

    cells = compute.ascii_trim_whitespace(column)
    if comma:
        if compute.any(compute.match_substring(cells, ".")).as_py():
            return None
        cells = compute.replace_substring(cells, ",", ".")
    missing = compute.is_in(cells, value_set=pyarrow.array(_MISSING))
    try:
        return compute.if_else(missing, None, cells).cast(pyarrow.float64())
    except pyarrow.ArrowInvalid:
        return None


def _plain(column: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
    import pyarrow
    from pyarrow import compute, types

    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if types.is_floating(column.type):
        return compute.if_else(compute.is_nan(column), None, column)
    if str(column.type) == "string_view":  # as Polars holds text
        return column.cast(pyarrow.string())
    return column


# The cells of a column

LONGEST = 1000
"""Characters of an id, of a name of a class, or of a category."""

KINDS = {
    "number": ("integer", "floating", "boolean", "decimal"),
    "text": ("string", "large_string"),
    "date": ("date", "timestamp"),
    "time": ("temporal",),
    "list": ("list", "large_list", "fixed_size_list"),
    "nothing": ("null",),
}
"""What a column holds, to the types of Arrow, in the words of `pyarrow.types`."""


def type_of(column: "Series") -> "pyarrow.DataType":
    """Return the type that a column has in Arrow."""
    return column.dtype.pyarrow_dtype


def kind_of(column: "Series") -> str:
    """Return what a column holds: a word of `KINDS`, or `other`.

    Numbers are also truth values; lists are those of numbers, of one length or of several.
    """

    def kind(dtype: "pyarrow.DataType") -> str:
        from pyarrow import types

        kinds = (kind for kind, names in KINDS.items()
                 if any(getattr(types, f"is_{name}")(dtype) for name in names))  # fmt: skip
        return next(kinds, "other")

    dtype = type_of(column)
    inner = dtype
    while kind(inner) == "list":
        inner = inner.value_type
    return kind(dtype) if inner is dtype or kind(inner) == "number" else "other"


def parse_texts(column: "Series", longest: int | None = LONGEST, whole: bool = False) -> np.ndarray:
    """Return a column as text (N,), "" where it is missing.

    Args:
        column: of any type but lists.
        longest: characters of a text at most; None: any, as an array of objects.
        whole: writes 1.0 as 1 if all numbers are whole, and no larger than 64 bits hold.
    """
    import pandas
    import pyarrow

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


def parse_ids(column: "Series", where: str) -> np.ndarray:
    """Return a column of ids (N,) as int64 where all are whole numbers, else as text.

    Raises:
        ZooError: an id is missing, or is neither a whole number nor text.
    """
    import pyarrow

    dtype, is_text = type_of(column), kind_of(column) == "text"
    is_float = pyarrow.types.is_floating(dtype)  # as pandas has whole numbers with gaps
    if len(column) == 0:  # of whatever type it was then written
        return np.zeros(0, np.int64)
    if not (is_text or is_float or pyarrow.types.is_integer(dtype)):
        raise ZooError(f"{where} is of type {dtype}; ids are whole numbers or text.")
    missing = (column.isna() | (column == "")) if is_text else column.isna()
    if len(rows := np.flatnonzero(missing.to_numpy(bool))):
        raise ZooError(
            f"{where} is empty in {len(rows):,} rows, the first of them data row {rows[0] + 1}; "
            "give every node an id, and every edge two."
        )
    digits = {16: 11, 32: 24}.get(dtype.bit_width, 53) if is_float else 0
    if is_float and not _are_whole(column, 2.0**digits):
        raise ZooError(
            f"{where} is of type {dtype} and holds fractions, or numbers from 2^{digits}, which it "
            "rounds; ids are whole numbers (int64) or text."
        )
    try:
        numbers = column.astype("int64[pyarrow]")
    except ValueError:  # no whole numbers, or of more than 64 bits
        return parse_texts(column)
    same = numbers.astype(column.dtype).equals(column)  # 007 is not 7
    return numbers.to_numpy(np.int64) if same else parse_texts(column)


def parse_numbers(column: "Series", name: str) -> np.ndarray | None:
    """Return numbers (N,), or lists of one length as (N, length), NaN where missing.

    Truth values are 0 and 1, also in words. None where the column is of something else.

    Raises:
        ZooError: lists are of several lengths, or fractions are written in two ways.
    """
    kind = kind_of(column)
    if kind == "list":
        lengths = column.list.len().unique()
        if len(lengths) != 1 or lengths.isna().any():
            raise ZooError(f"the lists in {name!r} are of several lengths, or missing.")
        return parse_numbers(column.list.flatten(), name).reshape(len(column), -1)
    if kind == "text":
        words = column.fillna("").str.lower()
        if {""} < {"", *words.unique()} <= {"", "true", "false"}:
            words = words.to_numpy(object)
            return np.select([words == "true", words == "false"], [1.0, 0.0], np.nan)
        _check_decimals(column.fillna("").str.strip(), name)
    is_number = kind in ("number", "nothing")
    return column.to_numpy(np.float64, na_value=np.nan) if is_number else None


def _check_decimals(cells: "Series", name: str) -> None:
    """Refuse numbers of which some have a comma before the fraction and others a point."""
    if not cells.str.fullmatch(r"[+-]?\d*[.,]?\d*").all():
        return
    commas, points = (cells.str.contains(mark, regex=False).to_numpy(bool) for mark in ",.")
    if cells[commas].str.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}").all():
        return  # these part thousands
    if commas.any() and points.any():
        first, second = int(commas.argmax()), int(points.argmax())
        raise ZooError(
            f"the column {name!r} holds {brief(cells[first])} in data row {first + 1} and "
            f"{brief(cells[second])} in data row {second + 1}: numbers with a comma and with a "
            "point. Write all in one way; with commas, `decimal: comma`."
        )


def parse_vectors(column: "Series", name: str, decimal: Decimal = "point") -> np.ndarray:
    """Return text such as `[0.5, 1]` or `0.5 1` as numbers (N, k); lists as `parse_numbers` does.

    Args:
        column: of text, or of lists.
        name: what it is called in errors.
        decimal: what stands before a fraction; with `comma` it is `0,5 1`, and `[0.5, 1]` as well.

    Raises:
        ZooError: a cell is something else, or of another length than the first.
    """
    if kind_of(column) in ("number", "list"):
        return parse_numbers(column, name)
    if kind_of(column) != "text":
        raise ZooError(
            f"the column {name!r} is of type {type_of(column)}, no numbers; write numbers."
        )
    cells = column.fillna("").str.strip()
    rows = [_parse_vector(cell, decimal == "comma") for cell in cells]
    wrong = [place for place, row in enumerate(rows) if not row or len(row) != len(rows[0])]
    if wrong:
        example = "[0.5, 1, 2] or 0.5 1 2" if decimal == "point" else "0,5 1 2"
        raise ZooError(
            f"the column {name!r} holds {brief(cells[wrong[0]])} in data row {wrong[0] + 1}; write "
            f"as many numbers in each, such as {example}."
        )
    return np.array(rows, np.float64)


def _parse_vector(text: str, comma: bool) -> list[float]:
    """Return several numbers, none where a cell is something else.

    With a `comma` before fractions these are as Python writes them where a point is in brackets;
    none where a comma may stand before a fraction as well as between two numbers, or a point may
    part thousands.
    """
    is_list = text.startswith("[") and text.endswith("]")
    inner = text[1:-1].strip() if is_list else text
    if comma and "." not in text:
        parts = re.split(r",\s+|;\s*|\s+", inner)
        parts = [] if is_list and parts == [inner] and "," in text else parts
        inner = " ".join(parts).replace(",", ".")
    elif comma and not is_list:
        return []
    try:
        return [float(number) for number in inner.replace(",", " ").split()]
    except ValueError:
        return []


# Dates

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
