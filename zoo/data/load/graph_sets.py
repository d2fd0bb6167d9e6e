"""Readers of many graphs with a label each: the TU collection, DGL, PyG, tables.

Morris et al., TUDataset (arXiv 2007.08663): of a set DS `DS_A.txt` has the edges, numbers of nodes
from 1; `DS_graph_indicator.txt` the graph of each node; `DS_graph_labels.txt` the class of each
graph, `DS_graph_attributes.txt` its numbers; and, where there are such, `DS_node_labels.txt`,
`DS_node_attributes.txt`, `DS_edge_labels.txt` and `DS_edge_attributes.txt` a row for each node or
edge.

Of tables, a row of `graphs.csv` is a graph, with its label; `nodes.csv` has the column `graph`, the
name of the graph of each node, and so has `edges.csv` where nodes of several graphs have the same
id.
"""

import dataclasses
import logging
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from zoo.config.learnt_columns import Missing
from zoo.config.options import Count, Number, Spec
from zoo.data.features import FEATURES
from zoo.data.files.dgl_and_pyg import Wanted, read_graphs
from zoo.data.files.graph_arrays import (
    NO_EDGES,
    Direction,
    Duplicates,
    GraphArrays,
    GraphSetArrays,
    check_edges,
    check_features,
    check_graph_set,
    check_masks,
    dense,
    with_degrees,
)
from zoo.data.files.objects import EdgeColumns, Weights, likely_cause
from zoo.data.samples import Samples
from zoo.data.tables.columns import OF_NODES, OF_TEXT, TERMS, Columns, Names, Numbers, list_names
from zoo.data.tables.nodes_and_edges import (
    TABLES,
    find_table,
    read_edges,
    read_rows,
    warn_of_idle_options,
)
from zoo.data.tables.read import (
    CsvFormat,
    Decimal,
    Separator,
    check_columns,
    is_index,
    parse_texts,
    read_header,
    read_table,
)
from zoo.errors import ZooError, brief, named_in_errors, reading, suggestion
from zoo.tasks.labels import (
    GRAPH_REGRESSION,
    GRAPHS,
    NUMBERS,
    TARGETS,
    GraphTask,
    Labels,
    check_fit,
    check_labels,
    infer_task,
    unlabelled,
)

_LOG = logging.getLogger(__name__)
_MOST_LABELS = 1000
_INDICATOR = "_graph_indicator.txt"


def tu_folder(path: Path) -> Path | None:
    """Return the folder with the files of a set of the TU collection: a path, or `raw` in it."""
    folders = (path, path / "raw") if path.is_dir() else ()
    return next((folder for folder in folders if any(folder.glob(f"*{_INDICATOR}"))), None)


def read_tu(
    path: Path,
    *,
    features: Annotated[Spec, FEATURES] = "raw",
    degrees: Number | None = None,
    edge_features: Literal["use", "ignore"] = "use",
    readout: Literal["mean"] | None = None,
    label: Names | None = None,
    labels: Labels = "use",
    task: GraphTask | None = None,
) -> Samples:
    """Read a set of graphs with labels of their own, in the files of the TU collection.

    Args:
        path: a folder with `DS_A.txt`, `DS_graph_indicator.txt`, `DS_graph_labels.txt` and others.
        features: what is done to the features first.
        degrees: columns for the degrees of nodes, up to this one, 0 for none; left out, 64 where
            nodes have neither labels nor attributes, or all the same.
        edge_features: labels and attributes of edges, if there are some.
        readout: `mean` of the logits of its nodes; left out, `readout` of the recipe.
        label: which columns of the labels, or attributes, of graphs are predicted, such as
            `attribute 0`; left out, all.
        labels: `ignore` reads graphs that are to be predicted: their labels may not be there.
        task: what the labels are for; left out, classes, numbers where there are attributes of
            graphs alone.
    """
    with reading(path, "a set of graphs of the TU collection"):
        folder = tu_folder(path) or path
        stems = sorted(file.name.removesuffix(_INDICATOR) for file in folder.glob(f"*{_INDICATOR}"))
        if len(stems) != 1:
            raise ZooError(f"it holds {len(stems)} sets ({', '.join(stems[:4])}); keep one.")
        start = folder / stems[0]
        indicator = Path(f"{start}{_INDICATOR}")
        owners = _read_numbers(indicator, np.int64)
        if owners.shape[1] > 1:
            raise ZooError(
                f"{indicator.name} has {owners.shape[1]} numbers a line, and one is read: keep the "
                "column that is meant, such as by `cut -d , -f 1`."
            )
        owners = owners.reshape(-1) - 1
        if labels == "use":
            y, names, task = _read_labels(start, list_names(label), task)
        else:  # no more graphs than nodes
            task = task or GRAPHS
            y = unlabelled(min(owners.max(initial=-1) + 1, len(owners)), task)
            names = None if task in NUMBERS else ()
        ends = _read_numbers(Path(f"{start}_A.txt"), np.int64)
        edges = check_edges(ends - 1 if len(ends) else NO_EDGES, len(owners))
        columns = _read_columns(start, "node", len(owners))
        none = np.zeros((len(owners), 0), np.float32)
        of_edges = _read_columns(start, "edge", len(edges)) if edge_features == "use" else {}
        arrays = GraphSetArrays(
            edges, owners, np.stack([*columns.values()], axis=1) if columns else none, y, names,
            np.stack([*of_edges.values()], axis=1) if of_edges else None, tuple(columns),
            tuple(of_edges) or None, task=task,
        )  # fmt: skip
        arrays = check_graph_set(with_degrees(arrays, degrees))
        return Samples.of_graphs(path.name, arrays).transformed(features)


def _read_labels(
    start: Path, label: Sequence[str] | None, task: str | None
) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    """Return the labels (S,) or (S, T) of graphs, names of classes or targets, and their task."""
    classes, numbers = (Path(f"{start}_graph_{kind}.txt") for kind in ("labels", "attributes"))
    path = numbers if numbers.exists() and (task in NUMBERS or not classes.exists()) else classes
    if not path.exists():
        raise ZooError(
            f"it has no {classes.name}: a class for each graph, a line each, and no "
            f"{numbers.name}: numbers for each."
        )
    if path is classes and numbers.exists():
        _LOG.warning("%s is not read; `task: graph-regression` predicts its numbers.", numbers.name)
    task = GRAPH_REGRESSION if path is numbers and task is None else task
    several = task in (*NUMBERS, *TARGETS)
    table = _read_numbers(path, np.float64 if several else np.int64)
    kind = "attribute" if path is numbers else "label"
    names = [f"{kind} {place}" for place in range(table.shape[1])]
    if wrong := [name for name in label or () if name not in names]:
        raise ZooError(f"label: {path.name} has no {wrong[0]!r}; {suggestion(wrong[0], names)}")
    table = table[:, [names.index(name) for name in label]] if label else table
    names = list(label or names)
    if len(names) > 1 and not several:
        raise ZooError(
            f"{path.name} has {len(names)} numbers a line, and one is the class: write which, "
            f"`label: {names[0]}`, or `task: graph-multilabel` where each says yes or no."
        )
    if not several:
        values, array = np.unique(table, return_inverse=True)
        array, task = array.reshape(-1), task or GRAPHS
        check_fit(array, task)
        return array, tuple(map(str, values.tolist())), task
    array = check_labels(table[:, 0] if len(names) == 1 and task in NUMBERS else table, task)
    check_fit(array, task)
    return array, tuple(names) if array.ndim == 2 else None, task


def _read_columns(start: Path, of: str, rows: int) -> dict[str, np.ndarray]:
    """Return a column (R,) fp32 for each label, and each attribute, of `node` or `edge`."""
    columns = {}
    if (path := Path(f"{start}_{of}_labels.txt")).exists():
        labels = _read_numbers(path, np.int64, rows).T
        for place, values in enumerate(labels):
            prefix = f"{of} label " if len(labels) == 1 else f"{of} label {place}: "
            names = np.unique(values)
            if len(names) > _MOST_LABELS:
                raise ZooError(
                    f"{path.name} has {len(names):,} labels, and each would be a column; write "
                    "numbers as attributes."
                )
            columns |= {f"{prefix}{name}": (values == name).astype(np.float32) for name in names}
    if (path := Path(f"{start}_{of}_attributes.txt")).exists():
        attributes = _read_numbers(path, np.float32, rows).T
        columns |= {f"{of} attribute {place}": column for place, column in enumerate(attributes)}
    return columns


def _read_numbers(path: Path, kind: type, rows: int | None = None) -> np.ndarray:
    """Return a file of numbers with commas between, (R, C); an empty one as (0, 0)."""
    import pandas

    try:
        numbers = pandas.read_csv(path, header=None, skipinitialspace=True, dtype=kind).to_numpy()
    except OSError as error:
        raise ZooError(f"{path.name} cannot be read: {error.strerror}.") from None
    except pandas.errors.EmptyDataError:
        numbers = np.zeros((0, 0), kind)
    except ValueError as error:
        what = "whole numbers" if kind is np.int64 else "numbers"
        raise ZooError(
            f"{path.name} holds something else than lines of {what} with commas between: "
            f"{' '.join(str(error).split())[:120]}."
        ) from None
    if rows not in (None, len(numbers)):
        raise ZooError(f"{path.name} has {len(numbers):,} rows and should have {rows:,}.")
    return numbers


def read_list(
    path: Path,
    *,
    features: Annotated[Spec, FEATURES] = "raw",
    label: Names | None = None,
    labels: Labels = "use",
    feature: str | None = None,
    weight: str | None = None,
    weights: Weights = None,
    edge_features: Names | None = None,
    degrees: Number | None = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    readout: Literal["mean"] | None = None,
    task: GraphTask | None = None,
) -> Samples:
    """Read a list of graphs with a label each, as PyTorch or DGL saves it.

    `torch.save([data.to_dict() for data in graphs], path)`, or what PyG keeps in its folder
    `processed`, where `task` says so; `dgl.save_graphs(path, graphs, {"labels": classes})`.

    Args:
        path: the `.pt` or `.bin`.
        features: what is done to the features first.
        label: the tensor that is the label of a graph, left out `y` or `label`; in a `.bin` which
            of the labels that were saved with the graphs, left out the only ones. Of several names
            each is a number that is predicted.
        labels: `ignore` reads graphs that are to be predicted: their labels may not be there.
        feature: the node data that is the features; left out, `x`, `feat` and the like.
        weight: the edge data that is their weight, such as `edge_weight`.
        weights: `ignore` reads the graphs without weights of edges.
        edge_features: the edge data that are features, such as `edge_attr`.
        degrees: columns for the degrees of nodes, up to this one, 0 for none; left out, 64 where
            nodes have no features, or all the same.
        duplicates: what the weights of an edge that is there more than once become.
        direction: of edges: `both`, `in`, `out`, or `separate`, which gcn, sage and gat tell apart.
        readout: `mean` of the logits of its nodes; left out, `readout` of the recipe.
        task: what the labels are for; left out, classes, or targets of 0 and 1 where a graph has
            several.
    """
    edges = EdgeColumns.of(weight, weights, edge_features)
    wanted = Wanted(list_names(label), feature, edges, task, degrees)
    with reading(path, "a list of graphs"):
        arrays = read_graphs(path, wanted, labels == "use")
        data = Samples.of_graphs(path.stem, arrays, "mean", duplicates, direction)
        return data.transformed(features)


# Tables


def read_graph_tables(
    path: Path,
    *,
    graph_column: str = "graph",
    id: str = "id",
    label: Names | None = None,
    labels: Labels = "use",
    split_column: str | None = None,
    time_column: str | None = None,
    group_column: str | None = None,
    columns: Names | None = None,
    one_hot: Names | None = None,
    text: Names | None = None,
    dates: Names | None = None,
    date_format: str | None = None,
    vectors: Names | None = None,
    missing: Missing = "refuse",
    terms: Count = TERMS,
    numbers: Numbers = "standard",
    language_model: str | None = None,
    unknown: str | int | None = None,
    source: str = "source",
    target: str = "target",
    weight: str | None = None,
    weights: Weights = None,
    edge_features: Names | None = None,
    degrees: Number | None = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    separator: Separator | None = None,
    decimal: Decimal = "point",
    readout: Literal["mean"] | None = None,
    task: GraphTask | None = None,
) -> Samples:
    """Read a set of graphs from tables `graphs`, `nodes` and `edges`, in CSV or Parquet.

    Args:
        path: the folder that has them.
        graph_column: column of nodes: the name of the graph of each; of edges too, where nodes of
            several graphs have the same id; of graphs their own, where it is there.
        id: column of nodes: what each is called in its graph; of graphs their names, where they
            have no column `graph`.
        label: column of graphs, or list of several: the class, or the number to predict.
        labels: `ignore` reads graphs that are to be predicted: this column is not looked at.
        split_column: column of graphs: train, val, test, or nothing. Left out, `split`, or a mask
            for each part, such as `train_mask`.
        time_column: column of graphs: when each came, a date or a number, for `split: time`.
        group_column: column of graphs: what each belongs to, for `split: group`.
        columns: columns of nodes that are features; left out, all others that have a name.
        one_hot: columns of kinds of things among them, each value of which becomes a column.
        text: columns of text among them, whose terms become columns (TF-IDF).
        dates: columns of dates among them.
        date_format: how dates are written, such as `%d/%m/%Y`; left out, 2024-03-31 or 31.3.2024.
        vectors: columns of several numbers among them, such as [0.5, 1] or 0.5 1.
        missing: what becomes of empty cells of numbers and dates; `indicator` writes 0 and says
            where in a column of its own, `mean` is that of the nodes of training graphs.
        terms: the most terms of a column of text, the most frequent first.
        numbers: `standard` gives numbers mean 0 and deviation 1, by the nodes of training graphs;
            columns of 0 and 1 stay as they are. `raw`: all do.
        language_model: folder of one in the layout of Hugging Face: its vectors of the columns of
            `text` are features, in the place of terms.
        unknown: what stands for a label that is not known, beside an empty cell.
        source: column of edges: the id of one end.
        target: column of edges: the id of the other end.
        weight: column of edges: how much each counts, from 0.
        weights: `ignore` reads the table of edges without its other columns.
        edge_features: columns of edges that are features: numbers, true and false, or lists of
            numbers in Parquet.
        degrees: columns for the degrees of nodes, up to this one, 0 for none; left out, 64 where
            nodes have no features, or all the same.
        duplicates: what the weights of an edge that is there more than once become.
        direction: of edges: `both`, `in`, `out`, or `separate`, which gcn, sage and gat tell apart.
        separator: of the cells of a CSV, a character or `tab`; left out, a comma (`.tsv`: a tab).
        decimal: what stands before the digits of a fraction in a CSV: `point` or `comma`.
        readout: `mean` of the logits of its nodes; left out, `readout` of the recipe.
        task: what the labels are for; left out, classes, or several targets.
    """
    csv_format = CsvFormat(separator, decimal)
    choice = Columns(id, label, split_column, columns, one_hot, unknown, task, text, dates,
                     vectors, missing, terms, numbers, time_column, group_column,
                     language_model, date_format, csv_format, labels == "ignore")  # fmt: skip
    of_edges = EdgeColumns.of(weight, weights, edge_features)
    with reading(path, "a folder of tables of graphs"):
        graphs_path, nodes_path, edges_path = (find_table(path, stem) for stem in TABLES)
        warn_of_idle_options(choice)
        graphs = _read_graphs(graphs_path, choice, graph_column)
        task = task or infer_task(graphs.labels, "graph")
        with named_in_errors(graphs_path.name):
            y = check_labels(graphs.labels, task)
            check_fit(y, task)
        named = ["label", *choice.roles(read_header(graphs_path, csv_format)).labels]
        nodes = _read_nodes(nodes_path, choice, graph_column, named)
        owners = _owners(nodes.groups, graphs.ids, nodes_path.name, graphs_path.name)
        if (counts := np.bincount(owners, minlength=len(graphs.ids))).min() == 0:
            bare = np.flatnonzero(counts == 0)
            raise ZooError(
                f"{graphs_path.name}: the graph {_quoted(graphs.ids[bare[0]])} has no nodes in "
                f"{nodes_path.name} ({len(bare):,} such); leave it out, or give it some."
            )
        order = np.argsort(owners, kind="stable")
        owners, ids, names = owners[order], nodes.ids[order], nodes.feature_names
        features = dense(check_features(nodes.features[order], len(owners), ids, names))
        pairs, values = _read_edges(
            edges_path, graph_column, (source, target), of_edges, csv_format, owners, ids,
            graphs.ids, graphs_path.name,
        )  # fmt: skip
        arrays = GraphSetArrays(
            pairs, owners, features, y, graphs.label_names, values["edge_features"], names,
            values["edge_feature_names"], values["weights"], task=task, ids=graphs.ids,
            masks=check_masks(graphs.masks, len(y)), times=graphs.times, groups=graphs.groups,
            columns=nodes.columns and nodes.columns.part(order),
        )  # fmt: skip
        arrays = check_graph_set(with_degrees(arrays, degrees))
        return Samples.of_graphs(path.resolve().name, arrays, "mean", duplicates, direction)


def _read_graphs(path: Path, choice: Columns, graph: str) -> GraphArrays:
    """Return what a table says of graphs: names, labels, split, times and groups."""
    names = read_header(path, choice.csv_format)
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
    arrays = read_rows(path, own)
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


def _read_nodes(path: Path, choice: Columns, graph: str, labels: Collection[str]) -> GraphArrays:
    """Return what a table says of nodes: ids, features, and the graph of each as their group."""
    names = read_header(path, choice.csv_format)
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
    nodes = read_rows(path, own)
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

    Nodes have an owner and an id (N,); of a table that names no graphs (S,), ids are of all nodes.
    """
    import pandas

    def key(of: np.ndarray, names: np.ndarray) -> pandas.MultiIndex:
        return pandas.MultiIndex.from_arrays([of if named else np.zeros(len(names)), names])

    source, target, values = read_edges(path, ends, choice, csv_format, beside=(graph,))
    if len({part.dtype.kind for part in (ids, source, target) if len(part)}) > 1:
        ids, source, target = (part.astype(str) for part in (ids, source, target))
    named = graph in read_header(path, csv_format)
    keys = key(owners, ids)
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
    of = source
    if named:
        names = parse_texts(read_table(path, [graph], [graph], csv_format)[graph])
        of = _owners(names, graphs, path.name, graphs_name)
    edges = np.stack([keys.get_indexer(key(of, end)) for end in (source, target)], axis=1)
    if len(wrong := np.flatnonzero((edges < 0).any(axis=1))):
        row = int(wrong[0])
        end = (source, target)[int(edges[row, 0] >= 0)][row]
        where = f" of the graph {_quoted(names[row])}" if named else ""
        fix = likely_cause(end, ids[owners == of[row]] if named else ids)
        raise ZooError(
            f"{path.name}: data row {row + 1} leads to {_quoted(end)}, and no node{where} has this "
            f"id ({len(wrong):,} such edges); {fix}"
        )
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
