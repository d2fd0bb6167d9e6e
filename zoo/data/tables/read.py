"""Tables as CSV and Parquet files have them: frames of pandas, whose columns have Arrow's types.

Arrow reads strictly: a row with a cell too few or too many is an error, never a guess.
"""

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from zoo.errors import ZooError, reading, suggestion

if TYPE_CHECKING:
    import pyarrow
    from pandas import DataFrame

SUFFIXES = (".csv", ".tsv", ".parquet")
"""The endings of tables."""

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
        names = _first_line(path, csv_format.delimiter(path))
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


def _first_line(path: Path, delimiter: str) -> list[str]:
    names = _cells_of_names(path, delimiter)
    if other := _other_mark(names):
        other = "tab" if other == "\t" else repr(other)
        raise ZooError(
            f"{path.name} has a single column, {names[0][:60]!r}; write `separator: {other}`."
        )
    return names


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
        raise ZooError(f"{path.name}: it cannot be read as a table ({line}); {fix}") from None


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
