"""Parse the columns of a node table: ids, labels, features and splits."""

import dataclasses
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.config.learnt_columns import Missing
from zoo.datasets.files.graph_arrays import NO_EDGES, GraphArrays
from zoo.datasets.files.labels import REGRESSION, doubtful, encode_text, is_word, unlabelled
from zoo.datasets.tables.cells import dates, decoded, float_ids, numbers, short, texts, vectors
from zoo.datasets.tables.column_hints import no_numbers
from zoo.datasets.tables.feature_columns import FeatureColumns, Kind, Numbers
from zoo.datasets.tables.frames import Decimal, is_index, is_text
from zoo.datasets.tables.sentence_vectors import sentence_vectors
from zoo.datasets.tables.split_columns import MaskName, SplitColumns, mask_names, read_split
from zoo.errors import ZooError

if TYPE_CHECKING:
    import pyarrow

OF_TEXT = ("one_hot", "text", "dates", "vectors")
"""Options that name features which a CSV has as text."""

OF_NODES = ("split_column", "time_column", "group_column")
"""Options that name a column which is no feature."""

Names = str | list[str]
"""Names of columns: a list, or a text with a comma after each but the last."""


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
    terms: int = 1000
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
        """Return what a feature is."""
        named: dict[Kind, list[str] | None] = {
            "category": self.one_hot, "text": self.text, "date": self.dates
        }  # fmt: skip
        return next((kind for kind, names in named.items() if name in (names or [])), "number")

    def as_text(self, names: list[str]) -> list[str]:
        """Return the columns that are read as text."""
        named = [] if self.id is None else [self.id]
        named += [] if self.group_column is None else [self.group_column]
        named += [self.time_column] if self.time_column and self.date_format else []
        labels = [] if self.unlabelled else self.labels(names)
        return [*named, *labels, *self.split(names), *self.named()]

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


def node_arrays(table: "pyarrow.Table", choice: Columns, where: str) -> GraphArrays:
    """Return everything of a graph but its edges, which are none yet; ids are as they stand.

    Args:
        table: a row per node.
        choice: what its columns are.
        where: what the table is called in errors.

    Raises:
        ZooError: columns that are not what they should be: which, where, and what to write.
    """
    names, told = table.column_names, []
    if table.num_rows == 0:
        raise ZooError(f"{where} has no rows; write one per node.")

    def attempt(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ZooError as error:
            told.append(str(error))

    ids = choice.id and attempt(lambda: id_array(table[choice.id], f"{where}: {choice.id!r}"))
    labels = attempt(lambda: _labels(table, choice, where))
    split = attempt(lambda: _split(table, choice, where)) or SplitColumns(
        None, (*choice.masks(names),)
    )
    features = attempt(lambda: _features(table, choice, where, split.columns))
    time, group = choice.time_column, choice.group_column
    times = time and attempt(lambda: _times(table[time], time, choice.date_format))
    groups = group and attempt(lambda: texts(table[group]))
    if told:
        raise ZooError("\n".join(told))
    asked = dataclasses.replace(features, training=False)  # weights may know what is missing
    found, feature_names = features.features(asked.learnt())
    columns = features if features.learns() else None
    return GraphArrays(
        NO_EDGES, labels[0], found, split.masks, ids, labels[1], feature_names, choice.task,
        columns=columns, times=times, groups=groups,
    )  # fmt: skip


def id_array(column: "pyarrow.ChunkedArray", where: str) -> np.ndarray:
    """Return a column of ids as int64 where all are whole numbers, else as text.

    Raises:
        ZooError: an id is missing, or is neither a whole number nor text.
    """
    import pyarrow
    from pyarrow import compute

    if len(column) == 0:  # of whatever type it was then written
        return np.zeros(0, np.int64)
    column = decoded(column)
    if pyarrow.types.is_floating(column.type):
        _refuse_gaps(compute.or_kleene(column.is_null(), compute.is_nan(column)), where)
        column = float_ids(column, where)
    if pyarrow.types.is_integer(column.type):
        _refuse_gaps(column.is_null(), where)
        if compute.max(column).as_py() < 2**63:
            return column.cast(pyarrow.int64()).to_numpy()
        column = column.cast(pyarrow.string())
    if not is_text(column.type):
        raise ZooError(f"{where} is of type {column.type}; ids are whole numbers or text.")
    _refuse_gaps(compute.or_kleene(column.is_null(), compute.equal(column, "")), where)
    try:
        numbers = column.cast(pyarrow.int64())
        if numbers.cast(column.type).equals(column):  # 007 is not 7
            return numbers.to_numpy()
    except pyarrow.ArrowInvalid:
        pass
    return short(column)


def _refuse_gaps(missing: "pyarrow.ChunkedArray", where: str) -> None:
    rows = np.flatnonzero(missing.fill_null(True).to_numpy())
    if len(rows):
        raise ZooError(
            f"{where} is empty in {len(rows):,} rows, the first of them data row {rows[0] + 1}; "
            "give every node an id, and every edge two."
        )


def _labels(table, choice: Columns, where: str) -> tuple[np.ndarray, tuple[str, ...] | None]:
    names = choice.labels(table.column_names)
    if not names or choice.unlabelled:
        return unlabelled(table.num_rows, choice.task), None
    found = [_words(table[each]) for each in names]
    for name, text in zip(names, found, strict=True):
        if choice.unknown is not None:
            text[is_word(text, str(choice.unknown))] = ""
        if choice.decimal == "comma" and choice.task == REGRESSION and is_text(table[name].type):
            text[:] = np.char.translate(text, str.maketrans(",.", ".,"))
            if choice.unknown is not None:
                text[is_word(text, str(choice.unknown).replace(",", "."))] = ""
    try:
        if len(found) > 1:
            return encode_text(np.stack(found, axis=1), choice.task)[0], tuple(names)
        labels, classes = encode_text(found[0], choice.task)
    except ZooError as error:
        raise ZooError(f"{where}: {', '.join(map(repr, names))}: {error}") from None
    if choice.unknown is None and (told := doubtful(classes or ())):
        raise ZooError(
            f"{where}: {names[0]!r} holds {told[0]!r}, which may be a class or mean that the label "
            f"is unknown; write `unknown: {told[0]!r}` if it means unknown, `unknown: ''` if it is "
            "a class."
        )
    return labels, classes


def _words(column: "pyarrow.ChunkedArray") -> np.ndarray:
    """Return labels as text (N,), truth values as a CSV has them, True and False."""
    import pyarrow

    found = texts(column, whole=True)
    return np.char.capitalize(found) if pyarrow.types.is_boolean(column.type) else found


def _features(table, choice: Columns, where: str, beside: Collection[str]) -> FeatureColumns:
    """Return the columns of features as they stand, but those `beside` them."""
    values, kinds, unread, told = {}, {}, {}, []
    for name in (each for each in choice.features(table.column_names) if each not in beside):
        column, kind = decoded(table[name]), choice.kind(name)
        try:
            if kind == "text" and choice.language_model:
                plain = texts(column, None).tolist()
                values[name], kind = sentence_vectors(plain, choice.language_model), "number"
            elif kind in ("category", "text"):
                values[name] = texts(column) if kind == "category" else texts(column, None)
            elif kind == "date":
                values[name] = dates(column, name, choice.date_format)
            elif name in (choice.vectors or []):
                values[name] = vectors(column, name, choice.decimal)
            elif (found := numbers(column, name)) is None:
                unread[name] = column
                continue
            else:
                values[name] = found
        except ZooError as error:
            told.append(f"{where}: {error}")
            continue
        kinds[name] = kind
    if unread:
        told.append(f"{where}: {no_numbers(unread, where)}")
    if told:
        raise ZooError("\n".join(told))
    return FeatureColumns(table.num_rows, values, kinds, choice.missing, choice.terms,
                          choice.numbers)  # fmt: skip


def _times(column: "pyarrow.ChunkedArray", name: str, date_format: str | None) -> np.ndarray:
    """Return dates as days since 1970, or numbers where no format is told, (N,), NaN = missing."""
    column = decoded(column)
    found = None if is_text(column.type) or date_format else numbers(column, name)
    return dates(column, name, date_format) if found is None else found


def _split(table, choice: Columns, where: str) -> SplitColumns:
    """Return the split that the columns say; where nothing is learnt, what is wrong is not told."""
    names = table.column_names
    split, masks = next(iter(choice.split(names)), None), choice.masks(names)
    columns = {name: table[name] for name in (*masks, *([] if split is None else [split]))}
    return read_split(columns, split, masks, where, needed=not choice.unlabelled)
