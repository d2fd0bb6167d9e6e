"""What the columns of a table of nodes are: as its options say, else by their looks."""

import dataclasses
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

import yaml

from zoo.config.learnt_columns import Missing
from zoo.data.files.graph_arrays import PARTS
from zoo.data.tables.cells import kind_of, parse_vectors, type_of
from zoo.data.tables.dates import parse_dates
from zoo.data.tables.read import Decimal, is_index
from zoo.data.tables.split_columns import MaskName, find_masks
from zoo.errors import ZooError
from zoo.tasks.labels import Unit

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TERMS = 1000
"""Terms of a column of text, at most, where nothing else is said."""

OF_NODES = ("split_column", "time_column", "group_column")
"""Options that name a column which is no feature."""

Names = str | list[str]
"""Names of columns: a list, or a text with a comma after each but the last."""

Numbers = Literal["raw", "standard"]
Kind = Literal["number", "category", "text", "date", "vector"]

KINDS: dict[str, Kind] = {
    "one_hot": "category", "text": "text", "dates": "date", "vectors": "vector"
}  # fmt: skip
"""Options that name features which a CSV has as text, to what these are; others are numbers."""

OF_TEXT = (*KINDS,)


@dataclasses.dataclass
class Columns:
    """What the columns of a node table are: the options of `tables.read_tables` by their names.

    `id` None numbers nodes by their rows, and with `unlabelled` the columns of labels are not
    looked at, nor are they features. `unit` is what a row is.
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
    unit: Unit = "node"

    def __post_init__(self):
        for option in ("columns", *OF_TEXT):
            setattr(self, option, list_names(getattr(self, option)))
        if isinstance(self.label, str) and "," in self.label:
            self.label = list_names(self.label)

    def named(self, option: str) -> list[str]:
        """Return the columns that an option names."""
        value = getattr(self, option)
        return [value] if isinstance(value, str) else value or []

    def roles(self, names: list[str]) -> "Roles":
        """Return what each column of a table of these columns is."""
        kinds: dict[str, Kind] = {}
        for option, kind in KINDS.items():
            kinds |= {name: kind for name in self.named(option) if name not in kinds}
        features, labels, split = [*self.named("columns"), *kinds], self.named("label"), None
        if self.label is None and "label" in names:
            labels = ["label"]
        if self.split_column is not None or ("split" in names and "split" not in features):
            split = self.split_column or "split"
        others = {self.id, self.time_column, self.group_column, split, *labels}
        masks = find_masks(names, {*others, *features})
        if self.columns is None:
            features = [name for name in names
                        if name in kinds or not (name in others or is_index(name))]  # fmt: skip
        time = self.time_column if self.date_format else None
        text = {self.id, self.group_column, time, split, *kinds}
        text |= set() if self.unlabelled else {*labels}
        kinds = {name: kinds.get(name, "number") for name in features}
        return Roles(labels, split, masks, kinds, {name for name in text if name is not None})


class Roles(NamedTuple):
    """What the columns of a table of nodes are.

    Attributes:
        labels: those to predict.
        split: that of words of the split; None: there is none.
        masks: those that may be masks of the split's parts.
        features: by name what each is, in order; those of a split may be among them.
        text: those that are read as text, just as they stand.
    """

    labels: list[str]
    split: str | None
    masks: dict[str, MaskName]
    features: dict[str, Kind]
    text: set[str]


def list_names(names: Names | None) -> list[str] | None:
    """Return names as a list.

    >>> list_names("country, city")
    ['country', 'city']
    """
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


# What is said of columns that are no numbers

LABELS = (
    "label", "labels", "class", "target", "y", "outcome", "segment", "species", "churn", "fraud",
    "diagnosis",
)  # fmt: skip
"""Words in names of columns that are to be predicted, the likeliest first."""

_SHOWN = 5  # columns that are named in one sentence
_LOOKED_AT = 1000  # cells by which a column is known
_WORDS_OF_TEXT = 3  # of a cell of text, on average
_WITH_COMMA = re.compile(r"\s*[+-]?[\d,.]+(e[+-]?\d+)?\s*", re.I)
_WITH_SLASH = re.compile(r"\d{1,2}/\d{1,2}/\d{4}.*")
_FIXES = {
    "decimal": "`decimal: comma` (or the numbers without commas, where these part thousands)",
    "times": "times of day and durations as numbers, such as seconds",
}
"""What is written of columns that no option names."""


def label_word(name: str) -> str | None:
    """Return the word in the name of a column that says it is to be predicted, if one does.

    >>> label_word("Customer_Class")
    'class'
    """
    words = re.split(r"\W|_", name.lower())
    return next((word for word in LABELS if word in words), None)


def explain_columns(columns: "DataFrame", where: str, labelled: bool) -> str:
    """Return what to do about columns that are no numbers: what each is, by its looks.

    Args:
        columns: with their names.
        where: what the table is called.
        labelled: another column is the label.
    """
    row, first = ("data row", 1) if where.endswith(".parquet") else ("line", 2)
    shown = [f"the column {name!r} {_show(columns[name], row, first)}" for name in columns]
    more = f", and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
    names_of: dict[str, list[str]] = {}
    for name in columns:
        option = "label" if not labelled and label_word(name) else guess_option(columns[name])
        names_of.setdefault(option, []).append(name)
    options = []
    for option, names in names_of.items():
        value = _in_yaml(names)
        value = value[1:-1] if option in ("split_column", "label") else value
        options.append(_FIXES.get(option) or f"`{option}: {value}`")
    text = ", ".join(options)
    if dates := names_of.get("dates"):
        text += (
            " (with `date_format` where they are not as 2024-03-31, such as '%d/%m/%Y'; or `time: "
            f"{_in_yaml(dates[:1])[1:-1]}`, to forecast)"
        )
    return (
        f"{', '.join(shown[:_SHOWN])}{more}. By what "
        f"{'they hold' if len(shown) > 1 else 'it holds'} write {text}; or leave columns out: name "
        "those that are features, `columns: [...]`, or the one that is the class, `label: COLUMN`."
    )


def _in_yaml(names: list[str]) -> str:
    """Return names of columns as a recipe has them, in quotes where YAML would read another."""
    return yaml.safe_dump(names, default_flow_style=True, allow_unicode=True, width=10**6).strip()


def guess_option(column: "Series") -> str:
    """Return the option of a table that fits a column of text.

    That is `split_column`, `decimal`, `dates`, `vectors`, `text` or `one_hot`; or `times`, which
    have none.
    """
    if (kind := kind_of(column)) != "text":
        return {"date": "dates", "time": "times"}.get(kind, "one_hot")
    sample = _sample(column)
    cells = sample.tolist()
    if not cells:
        return "one_hot"
    if len({*cells}) > 1 and {*cells} <= {*PARTS}:
        return "split_column"
    if has_decimal_commas(column):
        return "decimal"
    if all(map(_WITH_SLASH.fullmatch, cells)):
        return "dates"
    for option, parse in (("dates", parse_dates), ("vectors", parse_vectors)):
        try:
            parse(sample, "")
            return option
        except ZooError:
            pass
    words = sum(len(cell.split()) for cell in cells) / len(cells)
    return "text" if words >= _WORDS_OF_TEXT else "one_hot"


def has_decimal_commas(column: "Series") -> bool:
    """Return whether a column of text is of numbers, some of which have a comma."""
    cells = _sample(column).tolist() if kind_of(column) == "text" else []
    return any("," in cell for cell in cells) and all(map(_WITH_COMMA.fullmatch, cells))


def _sample(column: "Series") -> "Series":
    """Return the first cells of a column of text, without the empty ones."""
    sample = column[:_LOOKED_AT]
    return sample[sample.fillna("") != ""].reset_index(drop=True)


def _show(column: "Series", row: str, first: int) -> str:
    """Return what a column holds that is no number, and where."""
    for number, text in enumerate(column.fillna("") if kind_of(column) == "text" else [], first):
        try:
            float(text or 0)
        except ValueError:
            return f"holds {text[:40]!r} in {row} {number}, which is no number"
    return f"is of type {type_of(column)}, no numbers"
