"""What a column that is no number looks like, and what to write of it."""

import re
from typing import TYPE_CHECKING

from zoo.datasets.files.graph_arrays import PARTS
from zoo.datasets.tables.cells import dates, vectors
from zoo.datasets.tables.frames import is_date, is_text
from zoo.errors import ZooError

if TYPE_CHECKING:
    import pyarrow

_SHOWN = 5  # columns that are named in one sentence
_LOOKED_AT = 1000  # cells by which a column is known
_WITH_COMMA = re.compile(r"\s*[+-]?(\d+|\d*,\d+)(e[+-]?\d+)?\s*", re.I)
_THOUSANDS = re.compile(r"\s*[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d*)?\s*")
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/\d{4}( \d{1,2}:\d\d)?")
_PLAIN = re.compile(r"[^\W\d_]([\w %/.()-]*[\w%)])?")
_NO_NAMES = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_WORDS = 3  # of a cell of text, on average


def no_numbers(columns: dict[str, "pyarrow.ChunkedArray"], where: str) -> str:
    """Return what to do about columns that are no numbers: what each is, by its looks."""
    row, first = ("data row", 1) if where.endswith(".parquet") else ("line", 2)
    said = [f"the column {name!r} {_shown(column, row, first)}" for name, column in columns.items()]
    more = f", and {len(said) - _SHOWN:,} more" if len(said) > _SHOWN else ""
    looks: dict[str, list[str]] = {}
    for name, column in columns.items():
        looks.setdefault(look(column), []).append(name)
    options = ", ".join(
        _WORDS_OF.get(option)
        or (f"`{option}: {_in_yaml(found[0])}`" if option == "split_column" else None)
        or f"`{option}: [{', '.join(map(_in_yaml, found))}]`"
        for option, found in looks.items()
    )
    options += _slashed([columns[each] for each in looks.get("dates", [])])
    time = _in_yaml(looks["dates"][0]) if "dates" in looks else None
    series = f" (or `time: {time}`, to forecast)" if time else ""
    return (
        f"{', '.join(said[:_SHOWN])}{more}. By what {'they hold' if len(said) > 1 else 'it holds'} "
        f"write {options}{series}; or leave columns out: name those that are features, "
        "`columns: [...]`, or the one that is the class, `label: COLUMN`."
    )


_WORDS_OF = {
    "decimal": "`decimal: comma`",
    "thousands": "the numbers without commas (or `decimal: comma`, if these begin fractions)",
    "times": "times of day and durations as numbers, such as seconds",
}


def _in_yaml(name: str) -> str:
    """Return the name of a column as a recipe has it: in quotes where YAML would read another."""
    if _PLAIN.fullmatch(name) and name.lower() not in _NO_NAMES:
        return name
    return "'" + name.replace("'", "''") + "'"


def look(column: "pyarrow.ChunkedArray") -> str:
    """Return the option of a table that fits a column of text.

    That is `split_column`, `decimal`, `dates`, `vectors`, `text` or `one_hot`; or `thousands` or
    `times`, which have none.
    """
    import pyarrow

    if pyarrow.types.is_temporal(column.type):
        return "dates" if is_date(column.type) else "times"
    if not is_text(column.type):
        return "one_hot"
    held = [each for each in column.to_pylist()[:_LOOKED_AT] if each]
    if len({*held}) > 1 and {*held} <= {*PARTS}:
        return "split_column"
    commas = any("," in each for each in held)
    if commas and all(map(_THOUSANDS.fullmatch, held)):
        return "thousands"
    if commas and all(map(_WITH_COMMA.fullmatch, held)):
        return "decimal"
    if held and all(map(_SLASHES.fullmatch, held)):
        return "dates"
    sample = pyarrow.chunked_array([held], pyarrow.string())
    for option, read in (("dates", dates), ("vectors", vectors)):
        try:
            if held and read(sample, "").ndim == (2 if option == "vectors" else 1):
                return option
        except ZooError:
            pass
    words = sum(len(each.split()) for each in held) / max(1, len(held))
    return "text" if words >= _WORDS else "one_hot"


def _slashed(columns: list["pyarrow.ChunkedArray"]) -> str:
    """Return what to write besides of dates with slashes: which of day and month is first."""
    held = [each for column in columns if is_text(column.type) for each in column.to_pylist()]
    found = [each for each in map(_SLASHES.fullmatch, filter(None, held)) if each]
    if not found:
        return ""
    time = " %H:%M" if found[0][3] else ""
    day, month = (f"`date_format: '%{each}/%Y{time}'`" for each in ("d/%m", "m/%d"))
    if any(int(each[2]) > 12 for each in found):
        return f" and {month}"
    return f" and {day}" if any(int(each[1]) > 12 for each in found) else f" and {day} or {month}"


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
