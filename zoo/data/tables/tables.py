"""Read a user's graph from a table of nodes and one of edges, in CSV or Parquet."""

import dataclasses
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.config.learnt_columns import Missing
from zoo.config.options import Count
from zoo.data.files.graph_arrays import (
    NO_EDGES,
    EdgeColumns,
    GraphArrays,
    Weights,
    refuse_idle,
)
from zoo.data.files.node_kinds import Edges, Relation, join_kinds, labels_of_kinds
from zoo.data.files.objects import join
from zoo.data.tables import cells
from zoo.data.tables.cells import held, texts, type_of
from zoo.data.tables.columns import (
    OF_NODES,
    OF_TEXT,
    TERMS,
    Columns,
    Kind,
    Names,
    Numbers,
    no_numbers,
)
from zoo.data.tables.encode import FeatureColumns
from zoo.data.tables.read import (
    SUFFIXES,
    Decimal,
    Separator,
    Written,
    header,
    is_index,
    need,
    read_table,
)
from zoo.data.tables.sentence_vectors import sentence_vectors
from zoo.data.tables.split_columns import SplitColumns, read_split
from zoo.errors import ZooError, suggestion
from zoo.system.files import user_path
from zoo.tasks.labels import REGRESSION, Labels, doubtful, encode_text, is_word, unlabelled

if TYPE_CHECKING:
    from pandas import DataFrame, Series


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
        return _read_kinds(
            path,
            choice,
            written,
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
        need(choice.given(option), names, path.name, option)
    roles = choice.roles(names)
    if told := [each for each in roles.labels if each in roles.features]:
        raise ZooError(
            f"{path.name}: the column {told[0]!r} is the label, and would be a feature as well: "
            "leave it out of the features, or name another column, `label: COLUMN`."
        )
    wanted = {*roles.text, *roles.features, *roles.masks, choice.time_column}
    only = [each for each in names if each in wanted]
    return node_arrays(read_table(path, roles.text, only, written), choice, path.name)


def read_edges(
    path: Path,
    ends: tuple[str, str],
    choice: EdgeColumns,
    written: Written,
    beside: Sequence[str] = (),
) -> "Ends":
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
    source, target = (cells.ids(table[each], f"{path.name}: {each!r}") for each in ends)
    columns = {each: _numbers(table[each], f"{path.name}: {each!r}") for each in data}
    try:
        return source, target, choice._replace(weight=named).read(columns)
    except ZooError as error:
        raise ZooError(f"{path.name}: {error}") from None


def _numbers(column: "Series", where: str) -> np.ndarray:
    """Return a column of numbers of edges (E,), or of vectors, of which none is missing."""
    if (values := cells.numbers(column, where)) is None:
        raise ZooError(
            f"{where} holds text, and edges have numbers: a weight from 0, features of any sign. "
            "Write words as columns of 0 and 1, or as kinds of edges, a table for each."
        )
    if missing := int(column.isna().sum()):
        row = column.isna().to_numpy().argmax() + 1
        raise ZooError(
            f"{where} is empty in data row {row} ({missing:,} such rows); fill in what these edges "
            "have, or delete them."
        )
    return values


Ends = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray | None]]
"""The ids of both ends of edges, (E,) each, and their `weights` and `edge_features`."""


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


def node_arrays(table: "DataFrame", choice: Columns, where: str) -> GraphArrays:
    """Return everything of a graph but its edges, which are none yet; ids are as they stand.

    Args:
        table: a row per node.
        choice: what its columns are.
        where: what the table is called in errors.

    Raises:
        ZooError: columns that are not what they should be: which, where, and what to write.
    """
    if len(table) == 0:
        raise ZooError(f"{where} has no rows; write one per node.")
    told: list[str] = []

    def attempt(read: Callable[[], Any]) -> Any:
        try:
            return read()
        except ZooError as error:
            told.append(str(error))

    roles, id, time, group = (
        choice.roles([*table]), choice.id, choice.time_column, choice.group_column
    )  # fmt: skip
    ids = id and attempt(lambda: cells.ids(table[id], f"{where}: {id!r}"))
    labels = attempt(lambda: _labels(table, roles.labels, choice, where))
    needed = not choice.unlabelled  # else nobody learns, and what is wrong with it is not told
    split = attempt(lambda: read_split(table, roles.split, roles.masks, where, needed=needed))
    split = split or SplitColumns(None, (*roles.masks,))
    kinds = {name: kind for name, kind in roles.features.items() if name not in split.columns}
    features = attempt(lambda: _features(table, kinds, choice, where))
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


def _labels(
    table: "DataFrame", names: list[str], choice: Columns, where: str
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    if not names or choice.unlabelled:
        return unlabelled(len(table), choice.task), None
    found = [_words(table[name], choice) for name in names]
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


def _words(column: "Series", choice: Columns) -> np.ndarray:
    """Return labels as text (N,), "" where unknown; truth values are True and False, as in a CSV.

    Numbers that are to be predicted have a point before the fraction.
    """
    found, unknown = texts(column, whole=True), choice.unknown
    if str(type_of(column)) == "bool":
        found = np.char.capitalize(found)
    if unknown is not None:
        found[is_word(found, str(unknown))] = ""
    if choice.decimal == "comma" and choice.task == REGRESSION and held(column) == "text":
        found = np.char.translate(found, str.maketrans(",.", ".,"))
        if unknown is not None:
            found[is_word(found, str(unknown).replace(",", "."))] = ""
    return found


_READ: dict[Kind, Callable[["Series", str, Columns], np.ndarray | None]] = {
    "number": lambda column, name, choice: cells.numbers(column, name),
    "category": lambda column, name, choice: texts(column),
    "text": lambda column, name, choice: _long_texts(column, choice.language_model),
    "date": lambda column, name, choice: cells.dates(column, name, choice.date_format),
    "vector": lambda column, name, choice: cells.vectors(column, name, choice.decimal),
}
"""What a feature is, to function `(column, name, choice)` that gives its values, or None."""


def _features(
    table: "DataFrame", features: Mapping[str, Kind], choice: Columns, where: str
) -> FeatureColumns:
    """Return the columns of features as they stand, by what each is."""
    values, kinds, unread, told = {}, {}, [], []
    for name, kind in features.items():
        try:
            found = _READ[kind](table[name], name, choice)
        except ZooError as error:
            told.append(f"{where}: {error}")
            continue
        if found is None:
            unread.append(name)
        else:
            values[name] = found
            kinds[name] = "number" if found.dtype.kind == "f" and kind != "date" else kind
    if unread:
        told.append(f"{where}: {no_numbers(table[unread], where)}")
    if told:
        raise ZooError("\n".join(told))
    return FeatureColumns(len(table), values, kinds, choice.missing, choice.terms, choice.numbers)


def _long_texts(column: "Series", language_model: str | None) -> np.ndarray:
    """Return texts of any length (N,); with a language model its vectors of them, (N, D)."""
    found = texts(column, None)
    return sentence_vectors(found.tolist(), language_model) if language_model else found


def _times(column: "Series", name: str, date_format: str | None) -> np.ndarray:
    """Return dates as days since 1970, or numbers where no format is told, (N,), NaN = missing."""
    numbers = date_format is None and held(column) != "text"
    found = cells.numbers(column, name) if numbers else None
    return cells.dates(column, name, date_format) if found is None else found


def kinds_of(path: Path, start: str = "nodes") -> dict[str, Path]:
    """Return the tables of nodes of a folder by their kinds; none where nodes are of one kind."""
    tables: dict[str, Path] = {}
    for each in sorted(each for end in SUFFIXES for each in path.glob(f"{start}-*{end}")):
        first = tables.setdefault(each.stem.removeprefix(f"{start}-"), each)
        if first != each:
            raise ZooError(f"the folder has {first.name} and {each.name}; keep one of them.")
    return tables


def _read_kinds(
    path: Path, choice: Columns, written: Written, read: Callable[[Path], "Ends"]
) -> GraphArrays:
    """Return the graph of a folder of tables.

    The edges of `edges-customers-products` lead from customers to products, as do those of
    `edges-customers-buy-products`; of another name they lead wherever their ids are found, which
    no two kinds may share then. Of several kinds that a name begins or ends with, the longest.

    Args:
        path: of the folder.
        choice: what columns are; each is looked for in the tables that have it.
        written: how a CSV is.
        read: reads a table of edges.

    Raises:
        ZooError: no table has a column that is named, a name says two pairs of kinds, or edges
            lead to no node, or to several.
    """
    tables, edges = kinds_of(path), kinds_of(path, "edges")
    if not edges:
        raise ZooError(f"the folder has no edges-NAME.csv beside nodes-{next(iter(tables))}.")
    names = {kind: header(each, written) for kind, each in tables.items()}
    _need(choice, names)
    one = isinstance(choice.label, str)
    labels = labels_of_kinds(choice.label, names) if one else dict.fromkeys(names, choice.label)
    own = {kind: _of_table(choice, names[kind], labels, kind) for kind in tables}
    kinds = {kind: _read_nodes(each, own[kind], written) for kind, each in tables.items()}
    called = {kind: ", ".join(each.roles(names[kind]).labels) for kind, each in own.items()}
    for kind, each in kinds.items():
        if each.ids is None:
            raise ZooError(f"{tables[kind].name} has no column {choice.id!r}; edges need ids.")
    relations: dict[Relation, Edges] = {}
    for name, table in edges.items():
        source, target, found = read(table)
        relation = _by_name(name, kinds, table.name)
        relation = relation or _by_ids(name, kinds, source, target, table.name)
        ends = [
            join(kinds[kind].ids, (ids, ids), table.name)[:, 0]
            for kind, ids in ((relation[0], source), (relation[2], target))
        ]
        relations[relation] = Edges(np.stack(ends, axis=1), found["weights"])
    return join_kinds(kinds, relations, called)


def _need(choice: Columns, names: dict[str, list[str]]) -> None:
    """Refuse columns that are named and in no table."""
    held = sorted({name for own in names.values() for name in own})
    several = () if isinstance(choice.label, str) else ("label",)
    for option in (*several, "columns", *OF_NODES, *OF_TEXT):
        for name in choice.given(option):
            if name not in held:
                raise ZooError(
                    f"{option}: no table has the column {name!r}; {suggestion(name, held)}"
                )


def _of_table(
    choice: Columns, names: list[str], labels: Mapping[str, Names | None], kind: str
) -> Columns:
    """Return what of a choice is about the columns of the table of one kind of nodes.

    What the labels are called is said by kind; those of other kinds are not looked at.
    """
    label = labels.get(kind, next(iter(labels.values())))
    choice = dataclasses.replace(
        choice, label=label, unlabelled=choice.unlabelled or kind not in labels
    )
    own = {option: [each for each in choice.given(option) if each in names]
           for option in ("columns", *OF_TEXT) if getattr(choice, option) is not None}  # fmt: skip
    lost = [each for each in ("id", "label", *OF_NODES) if not {*choice.given(each)} <= {*names}]
    return dataclasses.replace(choice, **own, **dict.fromkeys(lost))


def _by_name(name: str, kinds: Collection[str], where: str) -> Relation | None:
    """Return the kinds that the name of a table of edges says: `customers-buy-products`.

    A name that is two kinds and no more goes first, and then the longest kinds.

    Raises:
        ZooError: it is two pairs of kinds.
    """
    pairs = [(source, target) for source in kinds for target in kinds]
    exact = [each for each in pairs if name == "-".join(each)]
    apart = [
        (source, target) for source, target in pairs
        if re.fullmatch(f"{re.escape(source)}-.*-{re.escape(target)}", name)
    ]  # fmt: skip
    most = [max(map(len, ends)) for ends in zip(*apart, strict=True)]
    longest = [each for each in apart if [*map(len, each)] == most]
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
        own = [kind for kind, each in kinds.items()
               if np.isin(ids.astype(str), each.ids.astype(str)).all()]  # fmt: skip
        if len(own) != 1:
            of = f"those of {' and '.join(own)}" if own else "of no single kind"
            raise ZooError(
                f"{where}: the ids at {'its first' if ids is source else 'its second'} ends are "
                f"{of}; name the table by the kinds, such as edges-{'-'.join(list(kinds)[:2])}.csv."
            )
        found.append(own[0])
    return found[0], name, found[1]
