"""Read a user's graph from a table of nodes and one of edges, in CSV or Parquet; or many graphs.

Of a set of graphs, a row of `graphs.csv` is a graph, with its label; `nodes.csv` has the column
`graph`, the name of the graph of each node, and so has `edges.csv` where nodes of several graphs
have the same id.
"""

import contextlib
import dataclasses
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.config.learnt_columns import Missing
from zoo.config.options import Count
from zoo.data.files.graph_arrays import (
    NO_EDGES,
    PARTS,
    GraphArrays,
)
from zoo.data.files.node_kinds import Edges, Relation, join_kinds, labels_of_kinds
from zoo.data.files.objects import EdgeColumns, Weights, join, refuse_idle
from zoo.data.tables.columns import (
    OF_NODES,
    OF_TEXT,
    TERMS,
    Columns,
    Kind,
    Names,
    Numbers,
    SplitColumns,
    explain_columns,
    read_split,
)
from zoo.data.tables.encode import FeatureColumns
from zoo.data.tables.read import (
    EXCEL,
    SUFFIXES,
    CsvFormat,
    Decimal,
    Separator,
    check_columns,
    is_index,
    kind_of,
    parse_dates,
    parse_ids,
    parse_numbers,
    parse_texts,
    parse_vectors,
    read_header,
    read_table,
    type_of,
)
from zoo.data.tables.sentence_vectors import sentence_vectors
from zoo.errors import ZooError, brief, named_in_errors, reading, suggestion
from zoo.system.files import user_path
from zoo.tasks.labels import (
    NUMBERS,
    Labels,
    doubtful,
    encode_text,
    is_word,
    unlabelled,
)

if TYPE_CHECKING:
    from pandas import DataFrame, Series

EdgeRows = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray | None]]
"""The ids of both ends of edges, (E,) each, and their `weights` and `edge_features`."""

ENDS = (("source", "target"), ("src", "dst"), ("from", "to"))
"""What the columns of the two ends of edges are mostly called."""

WEIGHTS = {"weight", "w", "weights"}
"""What the column of weights of edges is mostly called."""

_TWO_TABLES = (
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
    id: str | None = "id",
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
    edge_time: str | None = None,
    edge_split: str | None = None,
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
        id: column of nodes: what each is called, whole numbers or text; `null` numbers them by
            their rows, from 0.
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
        edge_time: column of edges: when each came, a date or a number, for links split by `time`.
        edge_split: column of edges: the part of links that each is of, train, val, test, or
            nothing. Left out, `split`.
        separator: of the cells of a CSV, a character or `tab`; left out, a comma (`.tsv`: a tab).
        decimal: what stands before the digits of a fraction in a CSV: `point` or `comma`.
    """
    csv_format = CsvFormat(separator, decimal)
    choice = Columns(id, label, split_column, columns, one_hot, unknown, task, text, dates,
                     vectors, missing, terms, numbers, time_column, group_column,
                     language_model, date_format, csv_format, labels == "ignore")  # fmt: skip
    warn_of_idle_options(choice, edge_time)
    edge_columns, ends = EdgeColumns.of(weight, weights, edge_features), (source, target)
    of_links = {"edge_time": edge_time, "edge_split": edge_split}
    if path.is_dir() and edges is None and kinds_of(path):
        edge_columns.refuse_features()
        refuse_idle("one table of edges", "edges", **of_links)
        return _read_kinds(path, choice, ends, edge_columns)
    if edges is None and not path.is_dir():
        used = {"weight": weight, "weights": weights if weights == "use" else None,
                "edge_features": edge_features, "source": None if source == "source" else source,
                "target": None if target == "target" else target, **of_links}  # fmt: skip
        refuse_idle("a table of edges", "edges", **used)
        return read_node_table(path, choice)
    arrays = read_rows(_node_table(path), choice)
    edges_path = user_path(edges) if edges else find_table(path, "edges")
    names = read_header(edges_path, csv_format)
    if edge_split is None and "split" in {*names} - {weight, *edge_columns.features}:
        edge_split = "split"
    for option, name in {"edge_time": edge_time, "edge_split": edge_split}.items():
        check_columns([name] if name else [], names, edges_path.name, option)
    beside = [name for name in (edge_time, edge_split) if name is not None]
    *pairs, values = read_edges(edges_path, ends, edge_columns, csv_format, beside)
    ids = np.arange(len(arrays.labels)) if arrays.ids is None else arrays.ids
    return arrays._replace(
        edges=join(ids, pairs, edges_path.name),
        edge_times=edge_time and _edge_times(edges_path, edge_time, date_format, csv_format),
        edge_parts=edge_split and edge_parts(edges_path, edge_split, csv_format),
        **values,
    )


def read_frames(
    nodes: "DataFrame", edges: "DataFrame | None", task: str | None, **options: Any
) -> GraphArrays:
    """Read frames of pandas as `read_tables` reads a folder with these two tables, or one alone.

    The index of nodes is a column where it is called as `id` says.

    Raises:
        ZooError: as `read_tables`; or a frame has a column twice.
    """
    id = options.get("id", "id")
    if id in nodes.index.names and id not in nodes.columns:
        nodes = nodes.reset_index()
    with TemporaryDirectory() as folder:
        path = Path(folder)
        _write_frame(nodes, path / "nodes.parquet")
        if edges is not None:
            _write_frame(edges, path / "edges.parquet")
        try:
            with reading(path, "frames of pandas"):
                tables = path / "nodes.parquet" if edges is None else path
                return read_tables(tables, task, **options)
        except ZooError as error:
            text = re.sub(rf"{re.escape(folder)}(/|: )?", "", str(error))
            text = text.replace("`edges: PATH`", "`edges=FRAME`")
            raise ZooError(re.sub(r"\b(nodes|edges)\.parquet", r"\1", text)) from None


def _write_frame(frame: "DataFrame", path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    names = [str(name) for name in frame.columns]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ZooError(f"{path.stem}: the column {twice!r} is there twice; rename one.")
    columns = [_arrow_column(frame.iloc[:, place]) for place in range(len(names))]
    parquet.write_table(pyarrow.table(columns, names), path)


def _arrow_column(column: "Series") -> Any:
    """Return a column as an array of Arrow: objects that it has no type for as text, as in a CSV.

    Such are values of several types, intervals and periods.
    """
    import pandas
    import pyarrow

    if isinstance(column.dtype, pandas.SparseDtype):
        column = column.sparse.to_dense()
    if isinstance(column.dtype, pandas.CategoricalDtype):
        column = column.astype(object)
    with contextlib.suppress(pyarrow.ArrowException, TypeError, OverflowError):
        array = pyarrow.array(column, from_pandas=True)
        if not isinstance(array.type, pyarrow.BaseExtensionType):
            return array
    return pyarrow.array(column.astype(object).map(str, na_action="ignore"), from_pandas=True)


def _edge_times(
    path: Path, name: str, date_format: str | None, csv_format: CsvFormat
) -> np.ndarray:
    """Return when each edge of a table came, (E,) fp64."""
    column = read_table(path, (), [name], csv_format)[name]
    with named_in_errors(path.name):
        times = _parse_node_times(column, name, date_format)
        if (missing := np.isnan(times)).any():
            raise ZooError(
                f"{name!r} is empty in data row {missing.argmax() + 1} ({missing.sum():,} such "
                "rows); write when these edges came, or delete them."
            )
    return times.astype(np.float64)


def edge_parts(path: Path, name: str, csv_format: CsvFormat) -> np.ndarray:
    """Return the part that each edge, or pair of nodes, of a table is of, (E,) text.

    Raises:
        ZooError: the column holds other words than train, val and test.
    """
    parts = parse_texts(read_table(path, [name], [name], csv_format)[name])
    if other := sorted({*parts.tolist()} - {"", *PARTS}):
        raise ZooError(
            f"{path.name}: {name!r} holds {brief(other[0])}; write train, val or test, or nothing "
            f"for edges in none: {suggestion(other[0], PARTS)}"
        )
    return parts


def warn_of_idle_options(choice: Columns, edge_time: str | None = None) -> None:
    """Say which options of text and dates have no column that they are about."""
    idle = {
        "date_format": choice.date_format and not (choice.dates or choice.time_column or edge_time),
        "language_model": choice.language_model and not choice.text,
        "terms": choice.terms != TERMS and not choice.text,
    }
    for option in (option for option, is_idle in idle.items() if is_idle):
        needed = "dates" if option == "date_format" else "text"
        logging.getLogger(__name__).warning(
            "`%s` changes nothing: no column is named by `%s`.", option, needed
        )


def node_columns(path: Path, csv_format: CsvFormat) -> list[str]:
    """Return the names of the columns of the table of nodes that a path is, or has in its folder.

    Of a set of graphs those of graphs are among them.

    Raises:
        ZooError: there is none, or it cannot be read.
    """
    kinds = kinds_of(path) if path.is_dir() else {}
    tables = [*kinds.values()] or [_node_table(path)]
    if has_graph_table(path):
        tables = [find_table(path, stem) for stem in ("graphs", "nodes")]
    return [name for table in tables for name in read_header(table, csv_format)]


def _node_table(path: Path) -> Path:
    return find_table(path, "nodes") if path.is_dir() else path


def find_table(folder: Path, stem: str) -> Path:
    """Return the table of a folder that is called `nodes`, say.

    Raises:
        ZooError: there is none, or there are several.
    """
    paths = [folder / f"{stem}{suffix}" for suffix in SUFFIXES]
    paths = [path for path in paths if path.is_file()]
    if len(paths) > 1:
        raise ZooError(
            f"the folder has {' and '.join(path.name for path in paths)}; keep one of them."
        )
    if not paths:
        present = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
        if book := next((path for path in folder.iterdir() if path.suffix.lower() in EXCEL), None):
            raise ZooError(f"{book.name} is a workbook of Excel, which is not read here; save it "
                           f"as CSV, {book.stem}.csv.")  # fmt: skip
        raise ZooError(
            f"the folder has no {stem}.csv, {stem}.tsv or {stem}.parquet; it has {present}. Call "
            f"its table with a row for each of the {stem} {stem}.csv."
        )
    return paths[0]


def kinds_of(path: Path, start: str = "nodes") -> dict[str, Path]:
    """Return the tables of nodes of a folder by their kinds; none where nodes are of one kind."""
    tables: dict[str, Path] = {}
    for table in sorted(table for suffix in SUFFIXES for table in path.glob(f"{start}-*{suffix}")):
        first = tables.setdefault(table.stem.removeprefix(f"{start}-"), table)
        if first != table:
            raise ZooError(f"the folder has {first.name} and {table.name}; keep one of them.")
    return tables


# A table of nodes


def read_node_table(path: Path, choice: Columns) -> GraphArrays:
    """Read a table of nodes alone, whose rows are in the order of the node numbers of a file.

    Raises:
        ZooError: the table is wrong.
    """
    names = read_header(path, choice.csv_format)
    _check_is_no_edge_table(path, names, choice)
    _check_has_names(path, names)
    if choice.id == "id" and "id" not in names:  # which nobody need have named
        choice = dataclasses.replace(choice, id=None)
    return read_rows(path, choice)


def _check_is_no_edge_table(path: Path, names: list[str], choice: Columns) -> None:
    """Refuse a table of edges where one of nodes is wanted, unless an end is the label."""
    ends = {name.strip().lower() for name in names if not is_index(name)}
    if choice.label is None and ends - WEIGHTS in map(set, ENDS):
        raise ZooError(
            f"{path.name} has the columns {', '.join(names)} alone, which are those of edges, and "
            f"a table by itself is one of nodes. {_TWO_TABLES} If they are nodes, rename a column, "
            "or write which is the label, `label: COLUMN`."
        )


def _check_has_names(path: Path, names: list[str]) -> None:
    """Refuse a CSV without a line of names, the first row of which would be taken for it.

    Whole numbers that follow one another, as pandas calls the columns of an array, are names.
    """
    names = [name for name in names if not is_index(name)]
    if not names or path.suffix.lower() == ".parquet" or not all(map(_NUMBER.fullmatch, names)):
        return
    whole = [int(name) for name in names if name.isdecimal()]
    if len(whole) == len(names) > 2 and all(b - a == 1 for a, b in pairwise(whole)):
        return
    fix = f" {_TWO_TABLES}" if len(whole) == len(names) == 2 else ""
    shown = f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"
    raise ZooError(
        f"{path.name}: the first line should name the columns and holds numbers alone, {shown}; "
        "read as names, they would be missing among the rows. Write a line above it with a name "
        f"for each column, such as age,height,label.{fix}"
    )


def read_rows(path: Path, choice: Columns) -> GraphArrays:
    """Return what the rows of a table of nodes, or of graphs, say; ids are as they stand.

    Raises:
        ZooError: the table is wrong.
    """
    names = read_header(path, choice.csv_format)
    for option in ("id", "label", "columns", *OF_NODES, *OF_TEXT):
        check_columns(choice.named(option), names, path.name, option)
    roles = choice.roles(names)
    if both := [name for name in roles.labels if name in roles.features]:
        raise ZooError(
            f"{path.name}: the column {both[0]!r} is the label, and would be a feature as well: "
            "leave it out of the features, or name another column, `label: COLUMN`."
        )
    wanted = {*roles.text, *roles.features, *roles.masks, choice.time_column}
    only = [name for name in names if name in wanted]
    return node_arrays(read_table(path, roles.text, only, choice.csv_format), choice, path.name)


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
        raise ZooError(f"{where} has no rows; write one per {choice.unit}.")
    errors: list[str] = []

    def attempt(parse: Callable[[], Any]) -> Any:
        try:
            return parse()
        except ZooError as error:
            errors.append(str(error))

    roles, id = choice.roles([*table]), choice.id
    time, group = choice.time_column, choice.group_column
    ids = id and attempt(lambda: parse_ids(table[id], f"{where}: {id!r}"))
    labels = attempt(lambda: _parse_labels(table, roles.labels, choice, where))
    needed = not choice.unlabelled  # else nobody learns, and what is wrong with it is not told
    split = attempt(lambda: read_split(table, roles.split, roles.masks, where, needed=needed))
    split = split or SplitColumns(None, (*roles.masks,))
    kinds = {name: kind for name, kind in roles.features.items() if name not in split.columns}
    columns = attempt(lambda: _parse_features(table, kinds, choice, where))
    times = time and attempt(lambda: _parse_node_times(table[time], time, choice.date_format))
    groups = group and attempt(lambda: parse_texts(table[group]))
    if errors:
        raise ZooError("\n".join(errors))
    lenient = dataclasses.replace(columns, training=False)  # weights may know what is missing
    features, feature_names = columns.transform(lenient.fit())
    return GraphArrays(
        NO_EDGES, labels[0], features, split.masks, ids, labels[1], feature_names, choice.task,
        columns=columns if columns.needs_fit() else None, times=times, groups=groups,
    )  # fmt: skip


def _parse_labels(
    table: "DataFrame", names: list[str], choice: Columns, where: str
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    if not names or choice.unlabelled:
        return unlabelled(len(table), choice.task), None
    words = [label_words(table[name], choice) for name in names]
    try:
        if len(words) > 1:
            return encode_text(np.stack(words, axis=1), choice.task, choice.unit)[0], tuple(names)
        labels, classes = encode_text(words[0], choice.task, choice.unit)
    except ZooError as error:
        raise ZooError(f"{where}: {', '.join(map(repr, names))}: {error}") from None
    if choice.unknown is None and (doubt := doubtful(classes or ())):
        raise ZooError(
            f"{where}: {names[0]!r} holds {doubt[0]!r}, which may be a class or mean that the "
            f"label is unknown; write `unknown: {doubt[0]!r}` if it means unknown, `unknown: ''` "
            "if it is a class."
        )
    return labels, classes


def label_words(column: "Series", choice: Columns) -> np.ndarray:
    """Return labels as text (N,), "" where unknown; truth values are True and False, as in a CSV.

    Numbers that are to be predicted have a point before the fraction.
    """
    words, unknown = parse_texts(column, whole=True), choice.unknown
    if str(type_of(column)) == "bool":
        words = np.char.capitalize(words)
    if unknown is not None:
        words[is_word(words, str(unknown))] = ""
    if (
        choice.csv_format.decimal == "comma"
        and choice.task in NUMBERS
        and kind_of(column) == "text"
    ):
        words = np.char.translate(words, str.maketrans(",.", ".,"))
        if unknown is not None:
            words[is_word(words, str(unknown).replace(",", "."))] = ""
    return words


_PARSERS: dict[Kind, Callable[["Series", str, Columns], np.ndarray | None]] = {
    "number": lambda column, name, choice: parse_numbers(column, name),
    "category": lambda column, name, choice: parse_texts(column),
    "text": lambda column, name, choice: _parse_long_texts(column, choice.language_model),
    "date": lambda column, name, choice: parse_dates(column, name, choice.date_format),
    "vector": lambda column, name, choice: parse_vectors(column, name, choice.csv_format.decimal),
}
"""What a feature is, to function `(column, name, choice)` that gives its values, or None."""


def _parse_features(
    table: "DataFrame", features: Mapping[str, Kind], choice: Columns, where: str
) -> FeatureColumns:
    """Return the columns of features as they stand, by what each is."""
    values, kinds, unread, errors = {}, {}, [], []
    for name, kind in features.items():
        try:
            column = _PARSERS[kind](table[name], name, choice)
        except ZooError as error:
            errors.append(f"{where}: {error}")
            continue
        if column is None:
            unread.append(name)
        else:
            values[name] = column
            kinds[name] = "number" if column.dtype.kind == "f" and kind != "date" else kind
    if unread:
        labelled = choice.unlabelled or bool(choice.roles([*table]).labels)
        errors.append(f"{where}: {explain_columns(table[unread], where, labelled)}")
    if errors:
        raise ZooError("\n".join(errors))
    return FeatureColumns(len(table), values, kinds, choice.missing, choice.terms, choice.numbers)


def _parse_long_texts(column: "Series", language_model: str | None) -> np.ndarray:
    """Return texts of any length (N,); with a language model its vectors of them, (N, D)."""
    texts = parse_texts(column, None)
    return sentence_vectors(texts.tolist(), language_model) if language_model else texts


def _parse_node_times(column: "Series", name: str, date_format: str | None) -> np.ndarray:
    """Return dates as days since 1970, or numbers where there is no format, (N,), NaN = missing."""
    may_be_numbers = date_format is None and kind_of(column) != "text"
    times = parse_numbers(column, name) if may_be_numbers else None
    return parse_dates(column, name, date_format) if times is None else times


# A table of edges


def read_edges(
    path: Path,
    ends: tuple[str, str],
    choice: EdgeColumns,
    csv_format: CsvFormat,
    beside: Sequence[str] = (),
) -> EdgeRows:
    """Return the ids of both ends of the edges of a table, (E,) each, and what else they have.

    That is `weights` (E,) and `edge_features` (E, F), or None.

    Args:
        path: of the table.
        ends: columns of the two ends.
        choice: which columns are weights or features.
        csv_format: how a CSV is written.
        beside: columns that are no weights, and read elsewhere.

    Raises:
        ZooError: the table cannot be read, has no such column, or has others that are not ignored.
    """
    names = read_header(path, csv_format)
    for option, column in zip(("source", "target"), ends, strict=True):
        check_columns([column], names, path.name, option)
    with named_in_errors(path.name):
        named = {choice.weight, *choice.features}
        others = [name for name in names if name not in (*ends, *beside)]
        others = [name for name in others if name in named or not is_index(name)]
        weight = choice.named(others)
    columns = [*([] if weight is None else [weight]), *choice.features]
    table = read_table(path, ends, [*ends, *dict.fromkeys(columns)], csv_format)
    with named_in_errors(path.name):
        source, target = (parse_ids(table[end], repr(end)) for end in ends)
        values = {name: _parse_edge_numbers(table[name], name) for name in columns}
        return source, target, choice._replace(weight=weight).read(values)


def _parse_edge_numbers(column: "Series", name: str) -> np.ndarray:
    """Return a column of numbers of edges (E,), or of vectors, of which none is missing."""
    if (values := parse_numbers(column, name)) is None:
        raise ZooError(
            f"{name!r} holds text, and edges have numbers: a weight from 0, features of any sign. "
            "Write words as columns of 0 and 1, or as kinds of edges, a table for each."
        )
    if missing := int(column.isna().sum()):
        row = column.isna().to_numpy().argmax() + 1
        raise ZooError(
            f"{name!r} is empty in data row {row} ({missing:,} such rows); fill in what these "
            "edges have, or delete them."
        )
    return values


# Tables of several kinds of nodes


def _read_kinds(
    path: Path, choice: Columns, ends: tuple[str, str], edge_columns: EdgeColumns
) -> GraphArrays:
    """Return the graph of a folder of tables; each column is looked for in those that have it.

    The edges of `edges-customers-products` lead from customers to products, as do those of
    `edges-customers-buy-products`; of another name they lead wherever their ids are found, which
    no two kinds may share then. Of several kinds that a name begins or ends with, the longest.
    """
    tables, edges = kinds_of(path), kinds_of(path, "edges")
    if not edges:
        raise ZooError(f"the folder has no edges-NAME.csv beside nodes-{next(iter(tables))}.")
    names = {kind: read_header(table, choice.csv_format) for kind, table in tables.items()}
    _check_columns_of_kinds(choice, names)
    one = isinstance(choice.label, str)
    labels = labels_of_kinds(choice.label, names) if one else dict.fromkeys(names, choice.label)
    choices = {kind: _choice_of_kind(choice, names[kind], labels, kind) for kind in tables}
    kinds = {kind: read_rows(tables[kind], choices[kind]) for kind in tables}
    label_names = {kind: ", ".join(choices[kind].roles(names[kind]).labels) for kind in tables}
    for kind, arrays in kinds.items():
        if arrays.ids is None:
            raise ZooError(f"{tables[kind].name} has no column {choice.id!r}; edges need ids.")
    relations: dict[Relation, Edges] = {}
    for name, table in edges.items():
        source, target, values = read_edges(table, ends, edge_columns, choice.csv_format)
        relation = _relation_by_name(name, kinds, table.name)
        relation = relation or _relation_by_ids(name, kinds, source, target, table.name)
        pairs = [
            join(kinds[kind].ids, (ids, ids), table.name)[:, 0]
            for kind, ids in ((relation[0], source), (relation[2], target))
        ]
        relations[relation] = Edges(np.stack(pairs, axis=1), values["weights"])
    return join_kinds(kinds, relations, label_names)


def _check_columns_of_kinds(choice: Columns, names: dict[str, list[str]]) -> None:
    """Refuse columns that are named and in no table."""
    present = sorted({name for own in names.values() for name in own})
    several = () if isinstance(choice.label, str) else ("label",)
    for option in (*several, "columns", *OF_NODES, *OF_TEXT):
        for name in choice.named(option):
            if name not in present:
                raise ZooError(
                    f"{option}: no table has the column {name!r}; {suggestion(name, present)}"
                )


def _choice_of_kind(
    choice: Columns, names: list[str], labels: Mapping[str, Names | None], kind: str
) -> Columns:
    """Return what of a choice is about the columns of the table of one kind of nodes.

    What the labels are called is said by kind; those of other kinds are not looked at.
    """
    label = labels.get(kind, next(iter(labels.values())))
    choice = dataclasses.replace(
        choice, label=label, unlabelled=choice.unlabelled or kind not in labels
    )
    own: dict[str, Any] = {
        option: [name for name in choice.named(option) if name in names]
        for option in ("columns", *OF_TEXT) if getattr(choice, option) is not None
    }  # fmt: skip
    for option in ("id", "label", *OF_NODES):
        if not {*choice.named(option)} <= {*names}:
            own[option] = None
    return dataclasses.replace(choice, **own)


def _relation_by_name(name: str, kinds: Collection[str], where: str) -> Relation | None:
    """Return the kinds that the name of a table of edges says: `customers-buy-products`.

    A name that is two kinds and no more goes first, and then the longest kinds.

    Raises:
        ZooError: it is two pairs of kinds.
    """
    pairs = [(source, target) for source in kinds for target in kinds]
    exact = [pair for pair in pairs if name == "-".join(pair)]
    apart = [
        (source, target) for source, target in pairs
        if re.fullmatch(f"{re.escape(source)}-.*-{re.escape(target)}", name)
    ]  # fmt: skip
    lengths = [max(map(len, ends)) for ends in zip(*apart, strict=True)]
    longest = [pair for pair in apart if [*map(len, pair)] == lengths]
    matches = exact or longest or apart
    if len(matches) > 1:
        shown = " or ".join(f"from {source} to {target}" for source, target in matches)
        raise ZooError(f"the name of {where} may mean {shown}; call one of these kinds otherwise.")
    return (matches[0][0], name, matches[0][1]) if matches else None


def _relation_by_ids(
    name: str, kinds: dict[str, GraphArrays], source: np.ndarray, target: np.ndarray, where: str
) -> Relation:
    """Return the kinds that the ids at the ends of edges are of."""
    ends = []
    for which, ids in (("first", source), ("second", target)):
        matches = [kind for kind, arrays in kinds.items()
                   if np.isin(ids.astype(str), arrays.ids.astype(str)).all()]  # fmt: skip
        if len(matches) != 1:
            of = f"those of {' and '.join(matches)}" if matches else "of no single kind"
            raise ZooError(
                f"{where}: the ids at its {which} ends are {of}; name the table by the kinds, such "
                f"as edges-{'-'.join(list(kinds)[:2])}.csv."
            )
        ends.append(matches[0])
    return ends[0], name, ends[1]


# Tables of a set of graphs

_LOG = logging.getLogger(__name__)

TABLES = ("graphs", "nodes", "edges")


def has_graph_table(path: Path) -> bool:
    """Return whether a folder has a table of graphs beside that of their nodes."""
    return path.is_dir() and any((path / f"graphs{suffix}").is_file() for suffix in SUFFIXES)
