"""What the columns of a table of nodes are: as its options say, else by their looks."""

import dataclasses
import re
from typing import TYPE_CHECKING, Any, Literal

from zoo.config.learnt_columns import Missing
from zoo.datasets.files.graph_arrays import PARTS
from zoo.datasets.tables.cells import dates, held, type_of, vectors
from zoo.datasets.tables.read import Decimal, is_index
from zoo.datasets.tables.split_columns import MaskName, mask_names
from zoo.errors import ZooError

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TERMS = 1000
"""Terms of a column of text, at most, where nothing else is said."""

OF_TEXT = ("one_hot", "text", "dates", "vectors")
"""Options that name features which a CSV has as text."""

OF_NODES = ("split_column", "time_column", "group_column")
"""Options that name a column which is no feature."""

Names = str | list[str]
"""Names of columns: a list, or a text with a comma after each but the last."""

Numbers = Literal["raw", "standard"]
Kind = Literal["number", "category", "text", "date", "vector"]


@dataclasses.dataclass
class Columns:
    """What the columns of a node table are.

    Attributes:
        id: what the node is called; None: nodes are numbered by their rows.
        label: the class or number to predict, or several; None: `label`, where there is one.
        split_column: train, val, test or nothing; None: `split`, where there is one, or a mask for
            each part.
        columns: the features; None: all other columns that have a name.
        one_hot: features of text, each value of which becomes a column of 0 and 1.
        text: features of text, whose terms become columns.
        dates: features of dates.
        vectors: features of text that is several numbers.
        missing: what becomes of numbers and dates that are missing.
        terms: the most terms of a column of text.
        language_model: folder of one, whose vectors stand for columns of text; None: terms.
        numbers: `standard` gives numbers mean 0 and deviation 1; `raw` leaves them.
        time_column: when each node came: dates, or numbers.
        group_column: which group each node is of.
        date_format: how dates are written; None: by the looks of the first.
        decimal: what stands before a fraction, `point` or `comma`.
        unknown: what stands in the label's column where the label is unknown, beside nothing.
        task: what the labels are for; None: one class per node, or many targets.
        unlabelled: the columns of labels are not looked at, nor are they features.
    """

    id: str | None = "id"
    label: Names | None = None
    split_column: str | None = None
    columns: Names | None = None
    one_hot: Names | None = None
    unknown: str | int | None = None
    task: str | None = None
    text: Names | None = None
    dates: Names | None = None
    vectors: Names | None = None
    missing: Missing = "refuse"
    terms: int = TERMS
    numbers: Numbers = "standard"
    time_column: str | None = None
    group_column: str | None = None
    language_model: str | None = None
    date_format: str | None = None
    decimal: Decimal = "point"
    unlabelled: bool = False

    def __post_init__(self):
        for option in ("columns", *OF_TEXT):
            setattr(self, option, listed(getattr(self, option)))
        if isinstance(self.label, str) and "," in self.label:
            self.label = listed(self.label)

    def labels(self, names: list[str]) -> list[str]:
        """Return the columns of labels among those of a table."""
        if self.label is None:
            return ["label"] if "label" in names else []
        return [self.label] if isinstance(self.label, str) else self.label

    def split(self, names: list[str]) -> list[str]:
        """Return the column of the split among those of a table: one or none."""
        if self.split_column is None:
            features = [*(self.columns or []), *self.named()]
            return ["split"] if "split" in names and "split" not in features else []
        return [self.split_column]

    def masks(self, names: list[str]) -> dict[str, MaskName]:
        """Return the columns among those of a table that may be masks of the split's parts."""
        others = {self.id, self.time_column, self.group_column, *self.labels(names)}
        named = [*others, *self.split(names), *(self.columns or []), *self.named()]
        return mask_names(names, named)

    def named(self) -> list[str]:
        """Return the features that are named because they are no numbers."""
        return [name for option in OF_TEXT for name in getattr(self, option) or []]

    def kind(self, name: str) -> Kind:
        """Return what a feature is: what an option says, and else a number."""
        options: dict[Kind, Any] = {
            "category": self.one_hot, "text": self.text, "date": self.dates, "vector": self.vectors
        }  # fmt: skip
        return next((kind for kind, names in options.items() if name in (names or [])), "number")

    def as_text(self, names: list[str]) -> list[str]:
        """Return the columns that are read as text."""
        time = self.time_column if self.date_format else None
        others = [name for name in (self.id, self.group_column, time) if name is not None]
        labels = [] if self.unlabelled else self.labels(names)
        return [*others, *labels, *self.split(names), *self.named()]

    def features(self, names: list[str]) -> list[str]:
        """Return the columns of features among those of a table."""
        if self.columns is not None:
            return list(dict.fromkeys([*self.columns, *self.named()]))
        taken = {self.id, self.time_column, self.group_column}
        taken |= {*self.labels(names), *self.split(names)}
        named = self.named()
        return [each for each in names if each in named or not (each in taken or is_index(each))]


def listed(names: Names | None) -> list[str] | None:
    """Return names as a list.

    >>> listed("country, city")
    ['country', 'city']
    """
    return [each.strip() for each in names.split(",")] if isinstance(names, str) else names


# What is said of columns that are no numbers

_SHOWN = 5  # columns that are named in one sentence
_LOOKED_AT = 1000  # cells by which a column is known
_WORDS_OF_TEXT = 3  # of a cell of text, on average
_COMMA = re.compile(r"\s*[+-]?(\d+|\d*,\d+)(e[+-]?\d+)?\s*", re.I)
_THOUSANDS = re.compile(r"\s*[+-]?([1-9]\d{0,2}(,\d{3})+|\d+)(\.\d*)?\s*")
_SLASHES = re.compile(r"(\d{1,2})/(\d{1,2})/\d{4}( \d{1,2}:\d\d)?")
_PLAIN = re.compile(r"[^\W\d_]([\w %/.()-]*[\w%)])?")
_NO_NAMES = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
_FIXES = {
    "decimal": "`decimal: comma`",
    "thousands": "the numbers without commas (or `decimal: comma`, if these begin fractions)",
    "times": "times of day and durations as numbers, such as seconds",
}
"""What is written of columns that no option names."""


def no_numbers(columns: "DataFrame", where: str) -> str:
    """Return what to do about columns that are no numbers: what each is, by its looks."""
    row, first = ("data row", 1) if where.endswith(".parquet") else ("line", 2)
    said = [f"the column {name!r} {_shown(columns[name], row, first)}" for name in columns]
    more = f", and {len(said) - _SHOWN:,} more" if len(said) > _SHOWN else ""
    looks: dict[str, list[str]] = {}
    for name in columns:
        looks.setdefault(look(columns[name]), []).append(name)
    written = {option: [*map(_in_yaml, names)] for option, names in looks.items()}
    options = ", ".join(
        _FIXES.get(option) or f"`{option}: "
        + (f"{names[0]}`" if option == "split_column" else f"[{', '.join(names)}]`")
        for option, names in written.items()
    )  # fmt: skip
    options += _slashed([columns[each] for each in looks.get("dates", [])])
    series = f" (or `time: {written['dates'][0]}`, to forecast)" if "dates" in looks else ""
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


def look(column: "Series") -> str:
    """Return the option of a table that fits a column of text.

    That is `split_column`, `decimal`, `dates`, `vectors`, `text` or `one_hot`; or `thousands` or
    `times`, which have none.
    """
    if (kind := held(column)) != "text":
        return {"date": "dates", "time": "times"}.get(kind, "one_hot")
    sample = column[:_LOOKED_AT]
    sample = sample[sample.notna() & (sample != "")].reset_index(drop=True)
    cells = sample.tolist()
    if len({*cells}) > 1 and {*cells} <= {*PARTS}:
        return "split_column"
    commas = any("," in each for each in cells)
    if commas and all(map(_THOUSANDS.fullmatch, cells)):
        return "thousands"
    if commas and all(map(_COMMA.fullmatch, cells)):
        return "decimal"
    if cells and all(map(_SLASHES.fullmatch, cells)):
        return "dates"
    for option, read in (("dates", dates), ("vectors", vectors)):
        try:
            if cells and read(sample, "").ndim == (2 if option == "vectors" else 1):
                return option
        except ZooError:
            pass
    words = sum(len(each.split()) for each in cells) / max(1, len(cells))
    return "text" if words >= _WORDS_OF_TEXT else "one_hot"


def _slashed(columns: list["Series"]) -> str:
    """Return what to write besides of dates with slashes: which of day and month is first."""
    cells = [each for column in columns if held(column) == "text" for each in column.fillna("")]
    found = [each for each in map(_SLASHES.fullmatch, cells) if each]
    if not found:
        return ""
    time = " %H:%M" if found[0][3] else ""
    day, month = (f"`date_format: '%{each}/%Y{time}'`" for each in ("d/%m", "m/%d"))
    if any(int(each[2]) > 12 for each in found):
        return f" and {month}"
    return f" and {day}" if any(int(each[1]) > 12 for each in found) else f" and {day} or {month}"


def _shown(column: "Series", row: str, first: int) -> str:
    """Return what a column holds that is no number, and where."""
    for number, text in enumerate(column.fillna("") if held(column) == "text" else [], first):
        try:
            float(text or 0)
        except ValueError:
            return f"holds {text[:40]!r} in {row} {number}, which is no number"
    return f"is of type {type_of(column)}, no numbers"
