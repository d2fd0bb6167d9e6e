"""What the columns of a table of nodes are: as its options say, else by their looks.

Some say which part of the split their nodes are of, and are no features: one column, `split`, has
the words train, val and test; or there is a mask for each part, called as PyG and DGL call it,
`train_mask`, `val_mask` and `test_mask`, or `train`, `val` and `test`. Several splits are lists, or
columns `train_mask.0`, `train_mask.1` and so on.
"""

import dataclasses
import logging
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import yaml

from zoo.config.learnt_columns import Missing
from zoo.data.files.graph_arrays import PARTS
from zoo.data.tables.read import (
    CsvFormat,
    frame_of,
    is_index,
    kind_of,
    parse_dates,
    parse_numbers,
    parse_texts,
    parse_vectors,
    type_of,
)
from zoo.errors import ZooError, brief, suggestion
from zoo.tasks.labels import Unit

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Masks = dict[str, np.ndarray]  # of each part (S, N) bool

_MASK = re.compile(r"(train|val|valid|validation|test)([_ -]?masks?)?(?:([._])(\d+))?", re.I)
_TRUTH = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False, "": False}
_MOST = 12  # different values of a column that may be a mask: each way of writing one, and nothing
_LOG = logging.getLogger(__name__)


class MaskName(NamedTuple):
    """What the name of a column says: the part, whether it says `mask`, and which of the splits."""

    part: str
    sure: bool
    number: int


class SplitColumns(NamedTuple):
    """The split of a table, None where it has none, and which of its columns are no features."""

    masks: Masks | None = None
    columns: tuple[str, ...] = ()


def find_masks(names: Iterable[str], named: Collection[str]) -> dict[str, MaskName]:
    """Return the columns that are called like masks of parts.

    Where one of them is named as something else, such as a feature or the label, those called in
    the same way are none.

    Args:
        names: of the columns.
        named: those that somebody has said to be something else.
    """
    masks = {}
    for name in names:
        match = _MASK.fullmatch(name.strip())
        if match and (match[2] or match[3] != "_"):  # test_1 is one of several scores
            part = next(part for part in PARTS if match[1].lower().startswith(part))
            masks[name] = MaskName(part, match[2] is not None, int(match[4] or -1))
    others = {mask.sure for name, mask in masks.items() if name in named}
    return {name: mask for name, mask in masks.items() if mask.sure not in others}


def read_split(
    table: "DataFrame",
    split: str | None,
    masks: Mapping[str, MaskName],
    where: str,
    *,
    needed: bool = True,
) -> SplitColumns:
    """Return the split that the columns say; of masks one line tells which they are.

    What is called `mask` is one. A column `test` may as well be a score: it is a mask where it
    holds nothing but true and false, or 1 and 0, and the other parts have one too.

    Args:
        table: with the columns of the split at least.
        split: the column that has the words train, val and test; None: there is none.
        masks: the columns that are called like masks, of `find_masks`.
        where: what the table is called in errors.
        needed: False where nothing is divided: what is wrong with a split is not told then.

    Raises:
        ZooError: the words are others, or there are masks of some of the parts alone.
    """
    sure = {name: _parse_mask(table[name], name) for name, mask in masks.items() if mask.sure}
    plain = _plain_masks(table, masks)
    complete = {masks[name].part for name in plain} == {*PARTS}
    columns = (*sure, *(plain if complete else ()))
    if split is not None:
        words = _split_of_words(table[split], split, where)
        if columns:
            _LOG.warning(
                f"{where}: the split is that of {split!r}; {_listed(columns)} are no features."
            )
        return SplitColumns(words, (*columns, split))
    chosen = sure or plain
    chosen = {name: chosen[name] for part in PARTS for name in chosen if masks[name].part == part}
    if not chosen:
        return SplitColumns()
    try:
        split_masks = _stack_masks(chosen, masks, where)
    except ZooError:
        if needed:
            raise
        return SplitColumns(None, columns)
    if needed:
        sizes = _listed(f"{split_masks[part][0].sum():,}" for part in PARTS)
        count = len(split_masks["train"])
        what = f"are the split, {sizes} nodes," if count == 1 else f"are {count} splits"
        _LOG.warning(
            f"{where}: {_listed(chosen)} {what} and no features. Where they are features, name all "
            "features: `columns: [...]`."
        )
    return SplitColumns(split_masks, columns)


def without_split(features: Any, masks: Any, feature_names: Any) -> tuple[Any, Any]:
    """Return features without the columns of a split, and the masks that these hold.

    Args:
        features: a table of pandas or Polars; anything else is returned as it is.
        masks: those that are given already, in whose place none are taken; None: there are none.
        feature_names: names that are given to the features, which are features then; None: none.

    Raises:
        ZooError: as `read_split`.
    """
    import pyarrow

    names = list(getattr(features, "columns", ()))
    if feature_names is not None or not all(isinstance(name, str) for name in names):
        return features, masks
    split, mask_names = "split" if "split" in names else None, find_masks(names, ())
    columns = {name: features[name] for name in (*mask_names, *([split] if split else []))}
    if not columns:
        return features, masks
    arrow = {name: column.to_arrow() if hasattr(column, "to_arrow")
             else pyarrow.array(column, from_pandas=True)
             for name, column in columns.items()}  # fmt: skip
    table = frame_of(pyarrow.table(arrow))
    own = read_split(table, split, mask_names, "features", needed=masks is None)
    if not own.columns:
        return features, masks
    return features[[name for name in names if name not in own.columns]], masks or own.masks


def _split_of_words(column: "Series", name: str, where: str) -> Masks:
    """Return what a column of words says; who divides nodes by it refuses empty parts."""
    words = parse_texts(column)
    if other := sorted(set(words.tolist()) - {"", *PARTS}):
        masks = ""
        if other[0].lower() in _TRUTH:
            masks = " Masks are three columns, train_mask, val_mask and test_mask, of no option."
        raise ZooError(
            f"{where}: {name!r} holds {brief(other[0])}; write train, val or test, or nothing for "
            f"nodes in none: {suggestion(other[0], PARTS)} If it is a feature, name all features: "
            f"`columns: [...]`.{masks}"
        )
    return {part: (words == part)[None] for part in PARTS}


def _parse_mask(column: "Series", name: str) -> np.ndarray | None:
    """Return a column of truth values as (N,), of lists of them as (N, S); None of other columns.

    What is missing is false.
    """
    if kind_of(column) == "list":
        numbers = parse_numbers(column, name)
        return numbers == 1 if np.isin(numbers[~np.isnan(numbers)], (0, 1)).all() else None
    if kind_of(column) == "other" or len(values := column.dropna().unique()) > _MOST:
        return None
    truth = {value: _TRUTH.get(str(value).strip().lower()) for value in values}
    if None in truth.values():
        return None
    return column.isin([value for value, true in truth.items() if true]).to_numpy(bool)


def _plain_masks(table: "DataFrame", masks: Mapping[str, MaskName]) -> dict[str, np.ndarray]:
    """Return the masks that are not called so: of all parts, else those that are hardly features.

    These are none where nothing is true; `valid` is a word for much else; and a number behind a
    name is what pandas writes where a name is there twice.
    """
    parsed = {name: _parse_mask(table[name], name) for name, mask in masks.items() if not mask.sure}
    parsed = {name: mask for name, mask in parsed.items() if mask is not None}
    without_valid = {name: mask for name, mask in parsed.items() if name.lower() != "valid"}
    for chosen in (without_valid, parsed):
        if {masks[name].part for name in chosen} == {*PARTS}:
            return chosen
    return {name: mask for name, mask in without_valid.items() if name.isalpha() and mask.any()}


def _stack_masks(
    chosen: Mapping[str, np.ndarray | None], names: Mapping[str, MaskName], where: str
) -> Masks:
    """Return masks (S, N) of the three parts.

    Raises:
        ZooError: a part has none or two, or one holds something else than truth values.
    """
    fix = "rename what is a feature, or name all features: `columns: [...]`."
    if strange := next((name for name, mask in chosen.items() if mask is None), None):
        raise ZooError(
            f"{where}: {strange!r} is called like a mask and holds something else than true and "
            f"false, or 1 and 0; write these, or {fix}"
        )
    columns_of = {part: [name for name in chosen if names[name].part == part] for part in PARTS}
    if missing := [part for part in PARTS if not columns_of[part]]:
        ending = "_mask" if all(names[name].sure for name in chosen) else ""
        others = [name for name, mask in names.items()
                  if mask.part in missing and name not in chosen]  # fmt: skip
        beside = f" ({_listed(others)} holds other values)" if others else ""
        raise ZooError(
            f"{where}: of the masks only {_listed(chosen)} {'is' if len(chosen) == 1 else 'are'} "
            f"there{beside}; write {_listed(f'{part}{ending}' for part in missing)} too, or {fix}"
        )
    masks = {}
    for part, columns in columns_of.items():
        if len({names[name].number for name in columns}) < len(columns):
            raise ZooError(f"{where}: {_listed(columns)} are masks of one part; keep one.")
        columns = sorted(columns, key=lambda name: names[name].number)
        masks[part] = np.concatenate([np.atleast_2d(chosen[name].T) for name in columns])
    return masks


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    shown = [*first[:5], *(["..."] if len(first) > 5 else [])]
    return f"{', '.join(shown)} and {last}" if first else last


# The columns of nodes

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
    csv_format: CsvFormat = CsvFormat()
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
