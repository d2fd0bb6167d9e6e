"""Read a user's graph from a node table and an edge table, in CSV or Parquet."""

import dataclasses
import logging
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zoo.config.learnt_columns import Missing
from zoo.config.options import Count
from zoo.datasets.files.edge_columns import EdgeColumns, Weights, refuse_idle
from zoo.datasets.files.graph_arrays import GraphArrays
from zoo.datasets.files.labels import Labels
from zoo.datasets.files.objects import join
from zoo.datasets.tables.cells import numbers
from zoo.datasets.tables.columns import OF_NODES, OF_TEXT, Columns, Names, id_array, node_arrays
from zoo.datasets.tables.feature_columns import Numbers
from zoo.datasets.tables.frames import (
    SUFFIXES,
    Decimal,
    Separator,
    Written,
    header,
    is_index,
    need,
    read_table,
)
from zoo.datasets.tables.typed_tables import kinds_of, read_kinds
from zoo.errors import ZooError
from zoo.system.files import user_path

if TYPE_CHECKING:
    import pyarrow


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
