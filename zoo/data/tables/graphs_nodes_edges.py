"""Read a set of graphs from tables of graphs, of their nodes and of their edges.

A row of `graphs.csv` is a graph, with its label; `nodes.csv` has the column `graph`, the name of
the graph of each node, and so has `edges.csv` where nodes of several graphs have the same id.
"""

import dataclasses
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np

from zoo.data.files.graph_arrays import (
    EdgeColumns,
    GraphArrays,
    check_features,
    check_masks,
    dense,
)
from zoo.data.files.graph_set_arrays import GraphSetArrays, check_graph_set, with_degrees
from zoo.data.files.objects import join, likely_cause
from zoo.data.tables.cells import parse_texts
from zoo.data.tables.columns import OF_NODES, OF_TEXT, Columns
from zoo.data.tables.nodes_and_edges import (
    find_table,
    named_in_errors,
    read_edges,
    read_rows,
    warn_of_idle_options,
)
from zoo.data.tables.read import (
    SUFFIXES,
    CsvFormat,
    check_columns,
    is_index,
    read_header,
    read_table,
)
from zoo.errors import ZooError, brief, suggestion
from zoo.tasks.labels import check_fit, check_labels, infer_task

_LOG = logging.getLogger(__name__)

TABLES = ("graphs", "nodes", "edges")


def has_graph_table(path: Path) -> bool:
    """Return whether a folder has a table of graphs beside that of their nodes."""
    return path.is_dir() and any((path / f"graphs{suffix}").is_file() for suffix in SUFFIXES)


def columns_of_set(path: Path, csv_format: CsvFormat) -> list[str]:
    """Return the names of the columns of graphs and of nodes in a folder of both."""
    tables = (find_table(path, stem) for stem in ("graphs", "nodes"))
    return [name for table in tables for name in read_header(table, csv_format)]


def read_graphs_nodes_edges(
    path: Path,
    choice: Columns,
    graph: str,
    ends: tuple[str, str],
    edge_columns: EdgeColumns,
    csv_format: CsvFormat,
    degrees: int | None = None,
) -> GraphSetArrays:
    """Return the set of graphs of a folder of three tables.

    Args:
        path: the folder.
        choice: what columns are: labels, split, times and groups of `graphs`; `id` and features of
            `nodes`.
        graph: the column that names the graph, of nodes and of edges, and of graphs themselves
            where these have no column `id`.
        ends: columns of the two ends of edges.
        edge_columns: which columns of edges are weights or features.
        csv_format: how a CSV is written.
        degrees: columns for the degrees of nodes, as of `with_degrees`.

    Raises:
        ZooError: a table is missing or wrong, or they do not fit together: which, where, and what
            to write.
    """
    graphs_path, nodes_path, edges_path = (find_table(path, stem) for stem in TABLES)
    warn_of_idle_options(choice)
    graphs = _read_graphs(graphs_path, choice, graph, csv_format)
    task = choice.task or infer_task(graphs.labels, "graph")
    with named_in_errors(graphs_path):
        labels = check_labels(graphs.labels, task)
        check_fit(labels, task)
    label_columns = choice.roles(read_header(graphs_path, csv_format)).labels
    nodes = _read_nodes(nodes_path, choice, graph, ["label", *label_columns], csv_format)
    owners = _owners(nodes.groups, graphs.ids, nodes_path.name, graphs_path.name)
    if (counts := np.bincount(owners, minlength=len(graphs.ids))).min() == 0:
        bare = np.flatnonzero(counts == 0)
        raise ZooError(
            f"{graphs_path.name}: the graph {_quoted(graphs.ids[bare[0]])} has no nodes in "
            f"{nodes_path.name} ({len(bare):,} such); leave it out, or give it some."
        )
    order = np.argsort(owners, kind="stable")
    owners, ids, columns = owners[order], nodes.ids[order], nodes.columns
    features = dense(check_features(nodes.features[order], len(owners), ids, nodes.feature_names))
    edges, values = _read_edges(
        edges_path, graph, ends, edge_columns, csv_format, owners, ids, graphs.ids, graphs_path.name
    )
    arrays = GraphSetArrays(
        edges, owners, features, labels, graphs.label_names, values["edge_features"],
        nodes.feature_names, values["edge_feature_names"], values["weights"], task=task,
        ids=graphs.ids, masks=check_masks(graphs.masks, len(labels)), times=graphs.times,
        groups=graphs.groups, columns=columns and columns.part(order),
    )  # fmt: skip
    return check_graph_set(with_degrees(arrays, degrees))


def _read_graphs(path: Path, choice: Columns, graph: str, csv_format: CsvFormat) -> GraphArrays:
    """Return what a table says of graphs: names, labels, split, times and groups."""
    names = read_header(path, csv_format)
    id = graph if graph in names else choice.id
    if id not in names:
        raise ZooError(
            f"{path.name} has no column {graph!r}, nor {id!r}, that names each graph; it has "
            f"{', '.join(map(repr, names[:20]))}. Write `graph_column: COLUMN`, or rename a column."
        )
    own = dataclasses.replace(
        choice, id=id, columns=[], one_hot=None, text=None, dates=None, vectors=None, unit="graph"
    )
    if choice.unlabelled:  # nobody learns: what is not there is not needed
        gone = {option: None for option in ("label", *OF_NODES)
                if not {*own.named(option)} <= {*names}}  # fmt: skip
        own = dataclasses.replace(own, **gone)
    roles = own.roles(names)
    arrays = read_rows(path, own, csv_format)
    used = {id, *roles.labels, roles.split, *roles.masks, own.time_column, own.group_column}
    unread = [name for name in names if name not in used and not is_index(name)]
    if unread and not choice.unlabelled:
        _LOG.warning(
            "%s: %s of graphs %s not read; `label` names what is predicted, and features are of "
            "nodes.", path.name, ", ".join(map(repr, unread)), "is" if len(unread) == 1 else "are",
        )  # fmt: skip
    if again := _repeated(arrays.ids.astype(str)):
        raise ZooError(
            f"{path.name}: the graph {_quoted(arrays.ids[again[0]])} stands in the data rows "
            f"{again[0] + 1} and {again[1] + 1}; give each graph one row and a name of its own."
        )
    return arrays


def _read_nodes(
    path: Path, choice: Columns, graph: str, labels: Collection[str], csv_format: CsvFormat
) -> GraphArrays:
    """Return what a table says of nodes: ids, features, and the graph of each as their group."""
    names = read_header(path, csv_format)
    check_columns([graph], names, path.name, "graph_column")
    own = dataclasses.replace(
        choice, label=[], split_column=None, time_column=None, group_column=graph, unlabelled=True
    )
    named = {*own.named("columns"), *(name for option in OF_TEXT for name in own.named(option))}
    if taken := [name for name in names if name in {*labels, "split"} and name not in named]:
        raise ZooError(
            f"{path.name} has the column {taken[0]!r}, and labels and split are of graphs, in the "
            "table of graphs: leave it out; if it is a feature of nodes, rename it, or name all "
            "features, `columns: [...]`."
        )
    nodes = read_rows(path, own, csv_format)
    if nodes.masks is not None:
        raise ZooError(f"{path.name} has masks of a split, which is of graphs: write them into the "
                       "table of graphs.")  # fmt: skip
    return nodes


def _owners(names: np.ndarray, graphs: np.ndarray, where: str, graphs_name: str) -> np.ndarray:
    """Return the number of the graph that each row (R,) names, of S graphs."""
    import pandas

    owners = pandas.Index(graphs.astype(str)).get_indexer(names)
    if len(wrong := np.flatnonzero(owners < 0)):
        name = str(names[wrong[0]])
        what = (
            f"of the graph {name!r}, which {graphs_name} does not have" if name else "of no graph"
        )
        fix = suggestion(name, map(str, graphs)) if name else "name it."
        raise ZooError(
            f"{where}: data row {wrong[0] + 1} is {what} ({len(wrong):,} such rows); {fix}"
        )
    return owners


def _read_edges(
    path: Path,
    graph: str,
    ends: tuple[str, str],
    choice: EdgeColumns,
    csv_format: CsvFormat,
    owners: np.ndarray,
    ids: np.ndarray,
    graphs: np.ndarray,
    graphs_name: str,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return edges (E, 2) between the numbers of nodes, and what else they have.

    Args:
        path: of the table.
        graph: its column that names graphs; where there is none, ids are those of all nodes.
        ends: its columns of ids.
        choice: which of its columns are weights or features.
        csv_format: how a CSV is written.
        owners: (N,) the graph of each node.
        ids: (N,) the id of each node.
        graphs: (S,) the name of each graph.
        graphs_name: of the table of graphs.
    """
    import pandas

    source, target, values = read_edges(path, ends, choice, csv_format, beside=(graph,))
    named = graph in read_header(path, csv_format)
    keys = pandas.MultiIndex.from_arrays([owners if named else np.zeros_like(owners), ids])
    if again := _repeated(keys):
        graph_of = f" of the graph {_quoted(graphs[owners[again[0]]])}"
        other = _quoted(graphs[owners[again[1]]])
        if owners[again[0]] != owners[again[1]]:
            raise ZooError(
                f"the id {_quoted(ids[again[0]])} is that of a node{graph_of} and of one of "
                f"{other}; give {path.name} the column {graph!r}, the graph of each edge."
            )
        raise ZooError(f"the id {_quoted(ids[again[0]])} is that of two nodes{graph_of}; give each "
                       "node of a graph an id of its own.")  # fmt: skip
    if not named:
        edges = join(ids, (source, target), path.name)
        across = owners[edges[:, 0]] != owners[edges[:, 1]]
        if across.any():
            row = int(across.argmax())
            first, second = (graphs[owner] for owner in owners[edges[row]])
            raise ZooError(
                f"{path.name}: data row {row + 1} joins the graphs {_quoted(first)} and "
                f"{_quoted(second)} ({across.sum():,} such edges); an edge is in one graph: delete "
                f"it, or write the column {graph!r} where ids mean other nodes in each graph."
            )
        return edges, values
    names = parse_texts(read_table(path, [graph], [graph], csv_format)[graph])
    of_edges = _owners(names, graphs, path.name, graphs_name)
    if len({part.dtype.kind for part in (ids, source, target) if len(part)}) > 1:
        ids, source, target = (part.astype(str) for part in (ids, source, target))
        keys = pandas.MultiIndex.from_arrays([owners, ids])
    edges = np.stack(
        [
            keys.get_indexer(pandas.MultiIndex.from_arrays([of_edges, end]))
            for end in (source, target)
        ],
        axis=1,
    )
    if len(wrong := np.flatnonzero((edges < 0).any(axis=1))):
        row = int(wrong[0])
        end = (source, target)[int(edges[row, 0] >= 0)][row]
        own = ids[owners == of_edges[row]]
        fix = likely_cause(end, own)
        raise ZooError(
            f"{path.name}: data row {row + 1} leads to {_quoted(end)}, and no node of the graph "
            f"{_quoted(names[row])} has this id ({len(wrong):,} such edges); {fix}"
        )
    return edges, values


def _quoted(name: Any) -> str:
    """Return a name, or a number, as a sentence has it."""
    return brief(str(name))


def _repeated(keys: Any) -> tuple[int, int] | None:
    """Return the first two places of a key (N,) that is there twice; None if none is."""
    import pandas

    index = pandas.Index(keys)
    if index.is_unique:
        return None
    second = int(index.duplicated().argmax())
    return int(np.flatnonzero(index == index[second])[0]), second
