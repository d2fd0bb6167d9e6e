"""Read a user's graph from a node table and an edge table, in CSV or Parquet."""

import dataclasses
import logging
import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.config.learnt_columns import Missing
from zoo.config.options import Count
from zoo.datasets.files.graph_arrays import (
    NO_EDGES,
    PARTS,
    EdgeColumns,
    GraphArrays,
    Weights,
    refuse_idle,
)
from zoo.datasets.files.node_kinds import Edges, Relation, joined, labels_of_kinds
from zoo.datasets.files.objects import join
from zoo.datasets.tables.cells import dates, decoded, float_ids, numbers, short, texts, vectors
from zoo.datasets.tables.feature_columns import FeatureColumns, Kind, Numbers
from zoo.datasets.tables.frames import (
    SUFFIXES,
    Decimal,
    Separator,
    Written,
    header,
    is_date,
    is_index,
    is_text,
    need,
    read_table,
)
from zoo.datasets.tables.sentence_vectors import sentence_vectors
from zoo.datasets.tables.split_columns import MaskName, SplitColumns, mask_names, read_split
from zoo.errors import ZooError, suggestion
from zoo.system.files import user_path
from zoo.tasks.labels import REGRESSION, Labels, doubtful, encode_text, is_word, unlabelled

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


Ends = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray | None]]


def kinds_of(path: Path) -> dict[str, Path]:
    """Return the tables of nodes of a folder by their kinds; none where nodes are of one kind."""
    return _tables(path, "nodes")


def read_kinds(
    path: Path,
    choice: Columns,
    written: Written,
    read_nodes: Callable[[Path, Columns], GraphArrays],
    read_edges: Callable[[Path], Ends],
) -> GraphArrays:
    """Return the graph of a folder of tables.

    The edges of `edges-customers-products` lead from customers to products, as do those of
    `edges-customers-buy-products`; of another name they lead wherever their ids are found, which
    no two kinds may share then. Of several kinds that a name begins or ends with, the longest.

    Args:
        path: of the folder.
        choice: what columns are; each is looked for in the tables that have it.
        written: how a CSV is.
        read_nodes: reads a table of nodes.
        read_edges: reads a table of edges: the ids of both ends, and what edges have.

    Raises:
        ZooError: no table has a column that is named, a name says two pairs of kinds, or edges
            lead to no node, or to several.
    """
    tables, edges = kinds_of(path), _tables(path, "edges")
    if not edges:
        raise ZooError(f"the folder has no edges-NAME.csv beside nodes-{next(iter(tables))}.")
    names = {kind: header(each, written) for kind, each in tables.items()}
    _need(choice, names)
    one = isinstance(choice.label, str)
    labels = labels_of_kinds(choice.label, names) if one else dict.fromkeys(names, choice.label)
    own = {kind: _of_table(choice, names[kind], labels, kind) for kind in tables}
    kinds = {kind: read_nodes(each, own[kind]) for kind, each in tables.items()}
    called = {kind: ", ".join(each.labels(names[kind])) for kind, each in own.items()}
    for kind, each in kinds.items():
        if each.ids is None:
            raise ZooError(f"{tables[kind].name} has no column {choice.id!r}; edges need ids.")
    relations: dict[Relation, Edges] = {}
    for name, table in edges.items():
        source, target, found = read_edges(table)
        relation = _by_name(name, kinds, table.name)
        relation = relation or _by_ids(name, kinds, source, target, table.name)
        ends = [
            join(kinds[kind].ids, (ids, ids), table.name)[:, 0]
            for kind, ids in ((relation[0], source), (relation[2], target))
        ]
        relations[relation] = Edges(np.stack(ends, axis=1), found["weights"])
    return joined(kinds, relations, called)


def _tables(path: Path, start: str) -> dict[str, Path]:
    tables: dict[str, Path] = {}
    for each in sorted(each for end in SUFFIXES for each in path.glob(f"{start}-*{end}")):
        first = tables.setdefault(each.stem.removeprefix(f"{start}-"), each)
        if first != each:
            raise ZooError(f"the folder has {first.name} and {each.name}; keep one of them.")
    return tables


def _need(choice: Columns, names: dict[str, list[str]]) -> None:
    """Refuse columns that are named and in no table."""
    held = sorted({name for own in names.values() for name in own})
    several = () if isinstance(choice.label, str) else ("label",)
    for option in (*several, "columns", *OF_NODES, *OF_TEXT):
        given = getattr(choice, option)
        for name in [given] if isinstance(given, str) else given or []:
            if name not in held:
                raise ZooError(
                    f"{option}: no table has the column {name!r}; {suggestion(name, held)}"
                )


def _of_table(
    choice: Columns, names: list[str], labels: dict[str, str | list[str] | None], kind: str
) -> Columns:
    """Return what of a choice is about the columns of the table of one kind of nodes.

    What the labels are called is said by kind; those of other kinds are not looked at.
    """
    own: dict = {"unlabelled": choice.unlabelled or kind not in labels}
    for option in ("label", *OF_NODES):
        given = getattr(choice, option)
        given = labels.get(kind, next(iter(labels.values()))) if option == "label" else given
        wanted = [given] if isinstance(given, str) else given or []
        own[option] = given if set(wanted) <= set(names) else None
    for option in ("columns", *OF_TEXT):
        given = getattr(choice, option)
        own[option] = None if given is None else [each for each in given if each in names]
    own["id"] = choice.id if choice.id in names else None
    return dataclasses.replace(choice, **own)


def _by_name(name: str, kinds: Collection[str], where: str) -> Relation | None:
    """Return the kinds that the name of a table of edges says: `customers-buy-products`.

    A name that is two kinds and no more goes first, and then the longest kinds.

    Raises:
        ZooError: it is two pairs of kinds.
    """
    sources = [each for each in kinds if name.startswith(f"{each}-")]
    targets = [each for each in kinds if name.endswith(f"-{each}")]
    pairs = [(source, target) for source in sources for target in targets]
    exact = [each for each in pairs if name == "-".join(each)]
    apart = [each for each in pairs if len(name) >= len("--".join(each))]
    longest = [
        (source, target) for source, target in apart
        if all(len(source) >= len(a) and len(target) >= len(b) for a, b in apart)
    ]  # fmt: skip
    found = exact or longest or apart
    if len(found) > 1:
        said = " or ".join(f"from {source} to {target}" for source, target in found)
        raise ZooError(f"the name of {where} may mean {said}; call one of these kinds otherwise.")
    return (found[0][0], name, found[0][1]) if found else None


def _by_ids(
    name: str, kinds: dict[str, GraphArrays], source: np.ndarray, target: np.ndarray, where: str
) -> Relation:
    """Return the kinds that the ids at the ends of edges are of."""
    found = []
    for ids in (source, target):
        own = [kind for kind, each in kinds.items() if _hold(each.ids, ids)]
        if len(own) != 1:
            of = f"those of {' and '.join(own)}" if own else "of no single kind"
            raise ZooError(
                f"{where}: the ids at {'its first' if ids is source else 'its second'} ends are "
                f"{of}; name the table by the kinds, such as edges-{'-'.join(list(kinds)[:2])}.csv."
            )
        found.append(own[0])
    return found[0], name, found[1]


def _hold(known: np.ndarray, ids: np.ndarray) -> bool:
    return bool(np.isin(ids.astype(str), known.astype(str)).all())


TERMS = 1000
"""Terms of a column of text, at most, where nothing else is said."""

_ENDS = ({"source", "target"}, {"src", "dst"})
_WEIGHTS = {"weight", "w"}
_GRAPH = (
    "If its rows are edges, write a folder of two tables: edges.csv, with the columns source and "
    "target, and nodes.csv, a row per node with a column id, and its features and label if it has "
    "some."
)
_NUMBER = re.compile(r"\s*([+-]?(\d{1,30}[.,]?\d{0,30}|[.,]\d+)(e[+-]?\d+)?|nan)\s*", re.I)


def read_tables(
    path: Path,
    task: str | None,
    *,
    edges: str | None = None,
    id: str = "id",
    label: Names | None = None,
    labels: Labels = "use",
    split_column: str | None = None,
    columns: Names | None = None,
    one_hot: Names | None = None,
    text: Names | None = None,
    dates: Names | None = None,
    date_format: str | None = None,
    vectors: Names | None = None,
    missing: Missing = "refuse",
    terms: Count = TERMS,
    numbers: Numbers = "standard",
    time_column: str | None = None,
    group_column: str | None = None,
    language_model: str | None = None,
    unknown: str | int | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    weights: Weights = None,
    edge_features: Names | None = None,
    separator: Separator | None = None,
    decimal: Decimal = "point",
) -> GraphArrays:
    """Read a table of nodes, and a table of edges; of several kinds `nodes-<kind>`, `edges-<name>`.

    Once or twice is the same edge. Nodes get a self-loop, of weight 1, where the table has none.

    Args:
        path: a folder with `nodes` and `edges` in CSV or Parquet, or the table of nodes.
        task: what the labels are for; None: classes, or several targets.
        edges: the table of edges, where `path` is not a folder that has it; left out, a table of
            nodes has none, and need not have ids.
        id: column of nodes: what each is called, whole numbers or text.
        label: column of nodes, or list of several: the class, or the number to predict.
        labels: `ignore` reads nodes that are to be predicted: this column is not looked at.
        split_column: column of nodes: train, val, test, or nothing. Left out, `split`, or a mask
            for each part, such as `train_mask`.
        columns: columns of nodes that are features; left out, all others that have a name.
        one_hot: columns of kinds of things among them, each value of which becomes a column.
        text: columns of text among them, whose terms become columns (TF-IDF).
        dates: columns of dates among them.
        date_format: how dates are written, such as `%d/%m/%Y`; left out, 2024-03-31 or 31.3.2024.
        vectors: columns of several numbers among them, such as [0.5, 1] or 0.5 1.
        missing: what becomes of empty cells of numbers and dates; `indicator` writes 0 and says
            where in a column of its own, `mean` is that of the training nodes.
        terms: the most terms of a column of text, the most frequent first.
        numbers: `standard` gives numbers mean 0 and deviation 1, by the training nodes; columns of
            0 and 1 stay as they are. `raw`: all do.
        time_column: column of nodes: when each came, a date or a number, for `split: time`.
        group_column: column of nodes: what each belongs to, for `split: group`.
        language_model: folder of one in the layout of Hugging Face: its vectors of the columns of
            `text` are features, in the place of terms.
        unknown: what stands for a label that is not known, beside an empty cell.
        source: column of edges: the id of one end.
        target: column of edges: the id of the other end.
        weight: column of edges: how much each counts, from 0.
        weights: `ignore` reads the table of edges without its other columns.
        edge_features: columns of edges that are features: numbers, true and false, or lists of
            numbers in Parquet.
        separator: of the cells of a CSV, a character or `tab`; left out, a comma (`.tsv`: a tab).
        decimal: what stands before the digits of a fraction in a CSV: `point` or `comma`.
    """
    written = Written(separator, decimal)
    choice = Columns(id, label, split_column, columns, one_hot, unknown, task, text, dates,
                     vectors, missing, terms, numbers, time_column, group_column,
                     language_model, date_format, decimal, labels == "ignore")  # fmt: skip
    _tell_idle(choice)
    of_edges = EdgeColumns.of(weight, weights, edge_features)
    if path.is_dir() and edges is None and kinds_of(path):
        of_edges.refuse_features()
        return read_kinds(
            path,
            choice,
            written,
            lambda each, own: _read_nodes(each, own, written),
            lambda each: read_edges(each, (source, target), of_edges, written),
        )
    nodes_path = _node_table(path)
    if edges is None and not path.is_dir():
        used = {"weight": weight, "weights": weights if weights == "use" else None}
        used |= {"edge_features": edge_features}
        used |= {key: each for key, each in (("source", source), ("target", target)) if each != key}
        refuse_idle("a table of edges", "edges", **used)
        return read_node_table(path, choice, written)
    edges_path = user_path(edges) if edges else _inside(path, "edges")
    arrays = _read_nodes(nodes_path, choice, written)
    *ends, found = read_edges(edges_path, (source, target), of_edges, written)
    return arrays._replace(edges=join(arrays.ids, ends, edges_path.name), **found)


def _tell_idle(choice: Columns) -> None:
    """Say which options of text and dates have no column that they are about."""
    dated = choice.dates or choice.time_column
    idle = {
        "date_format": choice.date_format and not dated,
        "language_model": choice.language_model and not choice.text,
        "terms": choice.terms != TERMS and not choice.text,
    }
    for option in (each for each, said in idle.items() if said):
        needed = "dates" if option == "date_format" else "text"
        logging.getLogger(__name__).warning(
            "`%s` changes nothing: no column is named by `%s`.", option, needed
        )


def node_columns(path: Path, written: Written) -> list[str]:
    """Return the names of the columns of the table of nodes that a path is, or has in its folder.

    Raises:
        ZooError: there is none, or it cannot be read.
    """
    kinds = kinds_of(path) if path.is_dir() else {}
    tables = [*kinds.values()] or [_node_table(path)]
    return [name for table in tables for name in header(table, written)]


def read_node_table(path: Path, choice: Columns, written: Written) -> GraphArrays:
    """Read a table of nodes alone, whose rows are in the order of the node numbers of a file.

    Raises:
        ZooError: the table is wrong.
    """
    names = header(path, written)
    _refuse_edges(path, names, choice)
    _refuse_numbers(path, names)
    if choice.id == "id" and "id" not in names:  # which nobody need have named
        choice = dataclasses.replace(choice, id=None)
    return _read_nodes(path, choice, written)


def _refuse_edges(path: Path, names: list[str], choice: Columns) -> None:
    """Refuse a table of edges where one of nodes is asked for, unless an end is the label."""
    ends = {each.strip().lower() for each in names if not is_index(each)}
    if choice.label is None and ends - _WEIGHTS in _ENDS:
        raise ZooError(
            f"{path.name} has the columns {', '.join(names)} alone, which are those of edges, and "
            f"a table by itself is one of nodes. {_GRAPH} If they are nodes, rename a column, or "
            "write which is the label, `label: COLUMN`."
        )


def _refuse_numbers(path: Path, names: list[str]) -> None:
    """Refuse a CSV without a line of names, the first row of which would be taken for it.

    Whole numbers that follow one another, as pandas calls the columns of an array, are names.
    """
    told = [each for each in names if not is_index(each)]
    if not told or path.suffix.lower() == ".parquet" or not all(map(_NUMBER.fullmatch, told)):
        return
    whole = [int(each) for each in told if each.isdecimal()]
    if len(whole) == len(told) > 2 and all(b - a == 1 for a, b in pairwise(whole)):
        return
    edges = f" {_GRAPH}" if len(whole) == len(told) == 2 else ""
    shown = f"{', '.join(told[:3])}{', ...' if len(told) > 3 else ''}"
    raise ZooError(
        f"{path.name}: the first line should name the columns and holds numbers alone, {shown}; "
        "read as names, they would be missing among the rows. Write a line above it with a name "
        f"for each column, such as age,height,label.{edges}"
    )


def _read_nodes(path: Path, choice: Columns, written: Written) -> GraphArrays:
    names = header(path, written)
    for option in ("id", "label", "columns", *OF_NODES, *OF_TEXT):
        given = getattr(choice, option)
        wanted = [given] if isinstance(given, str) else given or []
        need(wanted, names, path.name, option)
    if told := [each for each in choice.labels(names) if each in choice.features(names)]:
        raise ZooError(
            f"{path.name}: the column {told[0]!r} is the label, and would be a feature as well: "
            "leave it out of the features, or name another column, `label: COLUMN`."
        )
    text = choice.as_text(names)
    wanted = {*text, *choice.features(names), *choice.masks(names), choice.time_column}
    only = [each for each in names if each in wanted]
    return node_arrays(read_table(path, text, only, written), choice, path.name)


def read_edges(
    path: Path,
    ends: tuple[str, str],
    choice: EdgeColumns,
    written: Written,
    beside: Sequence[str] = (),
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray | None]]:
    """Return the ids of both ends of the edges of a table, (E,) each, and what else they have.

    That is `weights` (E,) and `edge_features` (E, F), or None.

    Args:
        path: of the table.
        ends: columns of the two ends.
        choice: which columns are weights or features.
        written: how a CSV is.
        beside: columns that are no weights, and read elsewhere.

    Raises:
        ZooError: the table cannot be read, has no such column, or has others that are not ignored.
    """
    names = header(path, written)
    for option, column in zip(("source", "target"), ends, strict=True):
        need([column], names, path.name, option)
    try:
        told = {choice.weight, *choice.features}
        others = [each for each in names if each not in (*ends, *beside)]
        others = [each for each in others if each in told or not is_index(each)]
        named = choice.named(others)
    except ZooError as error:
        raise ZooError(f"{path.name}: {error}") from None
    data = [*([] if named is None else [named]), *choice.features]
    table = read_table(path, ends, [*ends, *dict.fromkeys(data)], written)
    source, target = (id_array(table[each], f"{path.name}: {each!r}") for each in ends)
    columns = {each: _numbers(table[each], f"{path.name}: {each!r}") for each in data}
    try:
        return source, target, choice._replace(weight=named).read(columns)
    except ZooError as error:
        raise ZooError(f"{path.name}: {error}") from None


def _numbers(column: "pyarrow.ChunkedArray", where: str) -> np.ndarray:
    """Return a column of numbers of edges (E,), or of vectors, of which none is missing."""
    if (values := numbers(column, where)) is None:
        raise ZooError(
            f"{where} holds text, and edges have numbers: a weight from 0, features of any sign. "
            "Write words as columns of 0 and 1, or as kinds of edges, a table for each."
        )
    if column.null_count:
        row = column.is_null().to_numpy().argmax() + 1
        raise ZooError(
            f"{where} is empty in data row {row} ({column.null_count:,} such rows); fill in what "
            "these edges have, or delete them."
        )
    return values


def _node_table(path: Path) -> Path:
    return _inside(path, "nodes") if path.is_dir() else path


def _inside(folder: Path, stem: str) -> Path:
    found = [folder / f"{stem}{suffix}" for suffix in SUFFIXES]
    found = [path for path in found if path.is_file()]
    if len(found) != 1:
        held = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
        several = " and ".join(path.name for path in found)
        raise ZooError(
            f"the folder has {several}; keep one of them."
            if found
            else f"the folder has no {stem}.csv, {stem}.tsv or {stem}.parquet; it has {held}."
        )
    return found[0]
