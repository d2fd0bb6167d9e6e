"""Read a user's graph from a node table and an edge table, in CSV or Parquet."""

import dataclasses
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from zoo.datasets.files.columns import Columns, Names, id_array, node_arrays
from zoo.datasets.files.frames import SUFFIXES, header, need, read_table
from zoo.datasets.files.graph_arrays import GraphArrays
from zoo.errors import ZooError
from zoo.system.files import user_path


def read_tables(
    path: Path,
    task: str | None,
    *,
    edges: str | None = None,
    id: str = "id",
    label: Names | None = None,
    split_column: str | None = None,
    columns: Names | None = None,
    one_hot: Names | None = None,
    unknown: str | int | None = None,
    source: str = "source",
    target: str = "target",
    weights: Literal["ignore"] | None = None,
    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None,
) -> GraphArrays:
    """Read a table of nodes, and a table of edges.

    Edges have no direction, once or twice is the same; self-loops are of no account.

    Args:
        path: a folder with `nodes` and `edges` in CSV or Parquet, or the table of nodes.
        task: what the labels are for; None: classes, or several targets.
        edges: the table of edges, where `path` is not a folder that has it; left out, a table of
            nodes has none, and need not have ids.
        id: column of nodes: what each is called, whole numbers or text.
        label: column of nodes, or list of several: the class, or the number to predict.
        split_column: column of nodes: train, val, test, or nothing. Left out, `split`.
        columns: columns of nodes that are features; left out, all others.
        one_hot: columns of text among the features.
        unknown: what stands for a label that is not known, beside an empty cell.
        source: column of edges: the id of one end.
        target: column of edges: the id of the other end.
        weights: `ignore` reads the table of edges without its other columns.
        separator: of the cells of a CSV; left out, a comma (`.tsv`: a tab).
    """
    nodes_path = _inside(path, "nodes") if path.is_dir() else path
    choice = Columns(id, label, split_column, columns, one_hot, unknown, task)
    if edges is None and not path.is_dir():
        return read_node_table(path, choice, separator)
    edges_path = user_path(edges) if edges else _inside(path, "edges")
    arrays = _read_nodes(nodes_path, choice, separator)
    ends = read_edges(edges_path, source, target, weights, separator)
    return arrays._replace(edges=join(arrays.ids, ends, edges_path.name))


def read_node_table(path: Path, choice: Columns, separator: str | None = None) -> GraphArrays:
    """Read a table of nodes alone, whose rows are in the order of the node numbers of a file.

    Raises:
        ZooError: the table is wrong.
    """
    if choice.id not in header(path, separator):
        choice = dataclasses.replace(choice, id=None)
    return _read_nodes(path, choice, separator)


def join(ids: np.ndarray, ends: tuple[np.ndarray, np.ndarray], where: str) -> np.ndarray:
    """Return the node numbers of edges (E, 2), given the ids of all nodes and of both ends.

    Raises:
        ZooError: an id is that of several nodes, or an edge leads to an id that no node has.
    """
    import pandas

    if len({"i" if each.dtype.kind == "i" else "U" for each in (ids, *ends) if len(each)}) > 1:
        ids, ends = ids.astype(str), tuple(each.astype(str) for each in ends)
    index = pandas.Index(ids)
    if not index.is_unique:
        twice = ids[index.duplicated()][0]
        rows = np.flatnonzero(ids == twice)[:2] + 1
        raise ZooError(
            f"the id {str(twice)!r} is that of several nodes (data rows {rows[0]} and {rows[1]}); "
            "give each node one row and an id of its own."
        )
    edges = np.stack([index.get_indexer(each) for each in ends], axis=1).astype(np.int64)
    lost = np.flatnonzero((edges < 0).any(axis=1))
    if len(lost):
        end = int(edges[lost[0], 0] >= 0)
        raise ZooError(
            f"{where}: data row {lost[0] + 1} leads to {str(ends[end][lost[0]])!r}, and no node "
            f"has this id ({len(lost):,} such edges); add the node, or delete the edge."
        )
    return edges


def _read_nodes(path: Path, choice: Columns, separator: str | None) -> GraphArrays:
    names = header(path, separator)
    for option in ("id", "label", "split_column", "columns", "one_hot"):
        given = getattr(choice, option)
        wanted = [given] if isinstance(given, str) else given or []
        need(wanted, names, path.name, option)
    text = choice.text(names)
    wanted = {*text, *choice.features(names)}
    only = [each for each in names if each in wanted]
    return node_arrays(read_table(path, text, only, separator), choice, path.name)


def read_edges(
    path: Path, source: str, target: str, weights: str | None, separator: str | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids of both ends of the edges of a table, (E,) each.

    Args:
        path: of the table.
        source: column of one end.
        target: column of the other.
        weights: `ignore` passes over its other columns.
        separator: of the cells of a CSV; None: a comma, of a `.tsv` a tab.

    Raises:
        ZooError: the table cannot be read, has no such column, or has others that are not ignored.
    """
    names = header(path, separator)
    need([source], names, path.name, "source")
    need([target], names, path.name, "target")
    others = [each for each in names if each not in (source, target)]
    if others and weights is None:
        raise ZooError(
            f"{path.name} also has {', '.join(map(repr, others))}, and no model here uses weights "
            "or features of edges; write `weights: ignore` to read the graph without them."
        )
    table = read_table(path, [source, target], [source, target], separator)
    return tuple(id_array(table[each], f"{path.name}: {each!r}") for each in (source, target))


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
