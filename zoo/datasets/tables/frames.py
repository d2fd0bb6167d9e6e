"""Read CSV and Parquet files as Arrow tables: text stays text, numbers are parsed.

Arrow reads strictly: a row with a cell too few or too many is an error, never a guess.
"""

import csv
import mmap
import re
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from zoo.errors import ZooError, suggestion
from zoo.system.memory import available_memory

if TYPE_CHECKING:
    import pyarrow

SUFFIXES = (".csv", ".tsv", ".parquet")
"""The endings of tables."""

_MOST_COLUMNS = 20_000
_MOST_TEXT = 100  # columns of text that nobody has named
_EXCEL = re.compile(r'"?sep=.?"?', re.I)
_INDEX = re.compile(r"(__index_level_\d+__|Unnamed: \d+(\.\d+)*)?")
_MARKS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00": "binary", b"PK": "Excel or zip"}
_BAD_CELL = re.compile(
    r"CSV column #(\d+): (?:Row #(\d+): )?.*(?:invalid value '(.*)'|(UTF8))", re.S
)


Decimal = Literal["point", "comma"]
Separator = Literal["tab"] | Annotated[str, Field(min_length=1, max_length=1)]


class Written(NamedTuple):
    """How a CSV is written.

    Attributes:
        separator: what stands between cells; None: a comma, in a `.tsv` a tab.
        decimal: what stands before the digits of a fraction.
    """

    separator: Separator | None = None
    decimal: Decimal = "point"

    def between(self, path: Path) -> str:
        """Return what stands between the cells of a file."""
        usual = "\t" if path.suffix == ".tsv" else ","
        return "\t" if self.separator == "tab" else self.separator or usual


def read_table(
    path: Path,
    text: Collection[str],
    only: Collection[str] | None,
    written: Written,
) -> "pyarrow.Table":
    """Read a table.

    Args:
        path: a `.csv`, `.tsv` or `.parquet`.
        text: the columns of a CSV that are read as text, just as they stand; others are numbers
            where all of their cells are, and text where not.
        only: the columns that are read; None: all.
        written: how a CSV is.

    Raises:
        ZooError: it cannot be read: what is wrong where, without the path.
    """
    if not path.is_file():
        raise ZooError(f"there is no file {path}; write the path of a CSV or Parquet table.")
    if path.suffix.lower() == ".parquet":
        return _read_parquet(path, only)
    return _read_csv(path, text, only, written)


def header(path: Path, written: Written) -> list[str]:
    """Return the names of the columns of a table."""
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        names = _arrow(path, lambda: pyarrow.parquet.read_schema(path).names)
        _refuse_twice(names, path)
        return names
    return _header(path, written.between(path))


def is_index(name: str) -> bool:
    """Return whether a column has no name: it is what pandas writes of an index.

    >>> [is_index(each) for each in ("", "Unnamed: 0", "__index_level_0__", "index")]
    [True, True, True, False]
    """
    return _INDEX.fullmatch(name) is not None


def need(columns: Collection[str], present: Collection[str], where: str, option: str = "") -> None:
    """Refuse a table that lacks one of the columns; `option` is what names another."""
    for each in columns:
        if each not in present:
            fix = f"write `{option}: COLUMN`, or " if option else ""
            raise ZooError(
                f"{where} has no column {each!r}; it has {', '.join(map(repr, present))}. "
                f"{fix[:1].upper()}{fix[1:]}{'r' if fix else 'R'}ename a column; "
                f"{suggestion(each, present)}"
            )


def _read_csv(path: Path, text, only, written: Written) -> "pyarrow.Table":
    import pyarrow
    from pyarrow import csv as arrow_csv

    separator = written.between(path)
    names = _header(path, separator)
    types = {each: pyarrow.string() if each in text else pyarrow.float64() for each in names}
    convert = arrow_csv.ConvertOptions(
        column_types=types,
        include_columns=None if only is None else list(only),
        decimal_point="," if written.decimal == "comma" else ".",
    )
    # One thread: its errors name the row. A cell in quotes may hold a line's end.
    read = arrow_csv.ReadOptions(use_threads=False)
    parse = arrow_csv.ParseOptions(
        delimiter=separator, newlines_in_values=True, ignore_empty_lines=len(names) > 1
    )
    _refuse_open_quotes(path, separator)
    for _ in range(_MOST_TEXT):
        try:
            return arrow_csv.read_csv(
                _source(path, names), read_options=read, parse_options=parse,
                convert_options=convert,
            )  # fmt: skip
        except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError) as error:
            found = _BAD_CELL.search(str(error))
            if found is None or found[4]:
                raise ZooError(f"{path.name}: {_csv_problem(str(error), found, names)}") from None
            types[names[int(found[1])]] = pyarrow.string()
            convert.column_types = types
    raise ZooError(
        f"{path.name}: more than {_MOST_TEXT} columns hold something else than numbers; name those "
        "that are features, `columns: [...]`."
    )


def _csv_problem(message: str, found: re.Match | None, names: list[str]) -> str:
    if found is None:
        line = " ".join(message.split())[:160].removeprefix("CSV parse error: ")
        fix = " Give every row a cell for every column." if "Expected" in line else ""
        return f"it cannot be read as a table ({line}).{fix}"
    row = f" in line {found[2]}" if found[2] else ""
    return f"the column {names[int(found[1])]!r} is not UTF-8{row}; save the file as UTF-8 text."


def _header(path: Path, separator: str) -> list[str]:
    if not path.is_file():
        raise ZooError(f"there is no file {path}; write the path of a CSV or Parquet table.")
    with path.open("rb") as file:
        first = file.readline(1_000_000)
    if not first.strip():
        raise ZooError(f"{path.name} is empty; write a line of column names, then a line per row.")
    if first.startswith(b"\x1f\x8b"):
        raise ZooError(f"{path.name} is packed by gzip; tables are not read so: unpack it, gunzip.")
    kind = next((kind for mark, kind in _MARKS.items() if first.startswith(mark)), None)
    if kind is not None or b"\x00" in first:
        raise ZooError(f"{path.name} is {kind or 'binary'}, no text; save the table as UTF-8 CSV.")
    try:
        line = first.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ZooError(f"{path.name} is not UTF-8; save the file as UTF-8 text.") from None
    if "\r" in line:
        raise ZooError(
            f"{path.name} has line ends of old Macs, a carriage return alone; save the table with "
            "those of Unix or Windows, for example by `tr '\\r' '\\n'`."
        )
    if _EXCEL.fullmatch(line):
        raise ZooError(
            f"{path.name} begins with {line!r}, a word for Excel and no names of columns; delete "
            "the first line, and write `separator` where no comma stands between cells."
        )
    names = next(csv.reader([line], delimiter=separator))
    if len(names) == 1 and (other := next((each for each in ";\t|," if each in line), None)):
        other = "tab" if other == "\t" else repr(other)
        raise ZooError(
            f"{path.name} has a single column, {line[:60]!r}; write `separator: {other}`."
        )
    if len(names) > _MOST_COLUMNS:
        raise ZooError(
            f"{path.name} has {len(names):,} columns, more than {_MOST_COLUMNS:,}; write features "
            "of so many into an .npz, sparse: data/README.md says how."
        )
    _refuse_twice(names, path)
    return names


def _refuse_twice(names: list[str], path: Path) -> None:
    twice = [each for each, count in Counter(names).items() if count > 1]
    if twice:
        raise ZooError(f"{path.name} has two columns called {twice[0]!r}; rename one.")


def _refuse_open_quotes(path: Path, separator: str) -> None:
    """Refuse a cell that a quote opens and none ends: Arrow reads rows on until the next quote."""
    between = re.escape(separator.encode())
    begins = b"|".join(
        b'(?<=%s")' % each for each in (rb"\A", rb"\A\xef\xbb\xbf", rb"[\r\n]", between)
    )
    cell = re.compile(rb'"(?:%s)[^"]*+(?:""[^"]*+)*+("(?=[\r\n]|\Z|%s))?' % (begins, between))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        if content.find(b'"') < 0:
            return
        wrong = next((each for each in cell.finditer(content) if each.lastindex is None), None)
        if wrong is None:
            return
        end = wrong.end() - (wrong.end() == len(content))  # not behind the last line's end
        first, last = (content[:each].count(b"\n") + 1 for each in (wrong.start(), end))
    raise ZooError(
        f"{path.name}: a cell in line {first:,} begins with a quote and does not end with one, as "
        f"line {last:,} shows; write such a cell in quotes, and each quote in it twice, "
        '"5"" wide".'
    )


def _source(path: Path, names: list[str]) -> "Path | pyarrow.BufferReader":
    """Return what Arrow reads: of one column an empty line is a row, unless it is at the end."""
    import pyarrow

    with path.open("rb") as file:
        whole = file.readline().endswith(b"\n")  # Arrow wants it even where no row follows
    if whole and len(names) > 1:
        return path
    return pyarrow.BufferReader(path.read_bytes().rstrip(b"\r\n") + b"\n")


def _read_parquet(path: Path, only: Collection[str] | None) -> "pyarrow.Table":
    import pyarrow.parquet

    columns = None if only is None else list(only)
    said = _arrow(path, lambda: pyarrow.parquet.read_metadata(path))
    if said.num_rows * (said.num_columns if columns is None else len(columns)) > available_memory():
        raise ZooError(f"{path.name}: {said.num_rows:,} rows do not fit into memory.")
    return _arrow(path, lambda: pyarrow.parquet.read_table(path, columns=columns))


def _arrow(path: Path, read):
    import pyarrow

    try:
        return read()
    except (pyarrow.ArrowException, OSError) as error:
        line = " ".join(str(error).split())[:160]
        raise ZooError(
            f"{path.name} cannot be read as Parquet ({line}). If it is none, or cut short, write "
            "it with pandas: frame.to_parquet(path)."
        ) from None


def is_numeric(kind: "pyarrow.DataType") -> bool:
    """Return whether a column is of numbers, or of lists of them."""
    from pyarrow import types

    if is_list(kind):
        return is_numeric(kind.value_type)
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(each(kind) for each in tests)


def is_list(kind: "pyarrow.DataType") -> bool:
    """Return whether a column is of lists, of one length or of several."""
    from pyarrow import types

    tests = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(each(kind) for each in tests)


def is_date(kind: "pyarrow.DataType") -> bool:
    """Return whether a column is of dates, with or without a time of day."""
    from pyarrow import types

    return types.is_date(kind) or types.is_timestamp(kind)


def is_text(kind: "pyarrow.DataType") -> bool:
    """Return whether a column is of text."""
    from pyarrow import types

    return types.is_string(kind) or types.is_large_string(kind)
