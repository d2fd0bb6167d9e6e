"""Graphs of DGL and PyTorch Geometric as arrays, in memory or saved; the files need no trust.

A graph of either becomes one `GraphData`, and this `GraphArrays`; a list of them `GraphSetArrays`.
What PyG saves whole are objects of its classes: they are read where PyG is installed, with those
classes allowed and no others, and never unpickled freely. A dict of tensors needs no PyG.
"""

import logging
import pickletools
import zipfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from zoo.data.files.graph_arrays import (
    NO_EDGES,
    PARTS,
    GraphArrays,
    GraphSetArrays,
    are_canonical,
    check_graph_set,
    check_room,
    dense,
    with_degrees,
)
from zoo.data.files.node_kinds import Edges, Relation, join_kinds, labels_of_kinds
from zoo.data.files.objects import (
    FEATURES,
    LABELS,
    EdgeColumns,
    Weights,
    choose,
    described,
    edge_weights,
    from_node_data,
    shape_of,
    sparse_entries,
    to_numpy,
    unread_names,
    warn_unread,
)
from zoo.dgl import DGLGraph, dgl
from zoo.errors import ZooError, cause, named_in_errors, suggestion
from zoo.tasks.labels import (
    GRAPHS,
    NUMBERS,
    TARGETS,
    check_fit,
    check_labels,
    encode_text,
    infer_task,
    is_word,
)

_MAGIC = (0xDD2E4FF046B4A13F).to_bytes(8, "little")
_COUNT = slice(24, 32)  # the bytes of a file of DGL that say how many graphs it holds
_LOG = logging.getLogger(__name__)


class GraphData(NamedTuple):
    """A graph of DGL or PyG: the data of its nodes and edges, by name, of each kind of them.

    Attributes:
        nodes: by kind the data of its nodes.
        counts: by kind how many nodes there are.
        edges: by kind of edges their ends (E, 2) and their data.
        of_dgl: it is a graph of DGL, as those that the zoo has made are.
    """

    nodes: dict[str, dict[str, Any]]
    counts: dict[str, int]
    edges: dict[Relation, tuple[np.ndarray, dict[str, Any]]]
    of_dgl: bool = False


class Wanted(NamedTuple):
    """What is read of the data of a graph, or of each of many.

    Attributes:
        label: the node data that is the label, of one of several kinds `y`, or `paper.y`; of many
            graphs theirs, or several of one number each, which are as many targets.
        feature: the node data that is the features.
        edges: what is read of edge data; the weight is 1 for kinds of edges that have none.
        task: what the labels are for.
        degrees: of many graphs: columns for the degrees of nodes, as of `with_degrees`.
    """

    label: str | list[str] | None
    feature: str | None
    edges: EdgeColumns
    task: str | None = None
    degrees: int | None = None


def graph_arrays(data: GraphData, wanted: Wanted, unread: set[str] | None = None) -> GraphArrays:
    """Return a graph, of one kind of nodes and edges or several, as arrays.

    Args:
        data: the graph.
        wanted: what is read of it.
        unread: the names of node data that is not read are added to it; None: they are told.

    Raises:
        ZooError: data that is named is not there, or features of several kinds of edges are asked
            for.
    """
    if unread is None:
        arrays = graph_arrays(data, wanted, unread := set())
        warn_unread(unread)
        return arrays
    label, feature, choice, task, _ = wanted
    if len(data.nodes) == len(data.edges) == 1:
        ((kind, nodes),), ((ends, of_edges),) = data.nodes.items(), data.edges.values()
        edges = choice.read(of_edges)
        unread |= unread_names(nodes, *choose(nodes, label, feature))
        count = data.counts[kind]
        arrays = from_node_data(nodes, ends, count, label, feature, task)._replace(**edges)
        own = data.of_dgl and arrays.weights is not None and are_canonical(ends, count)
        return arrays._replace(form="canonical") if own else arrays
    choice.refuse_features()
    known = {name for nodes in data.nodes.values() for name in nodes}
    if feature is not None and feature not in known:
        raise ZooError(f"feature: no kind of nodes has {feature!r}; {suggestion(feature, known)}")
    labels = labels_of_kinds(label, data.nodes)
    kinds, label_names = {}, {}
    for kind, nodes in data.nodes.items():
        if kind not in labels:  # those of another kind are predicted
            skip = {*LABELS, *labels.values()}
            nodes = {key: values for key, values in nodes.items() if key not in skip}
        names = choose(nodes, labels.get(kind), feature if feature in nodes else None)
        kinds[kind] = from_node_data(nodes, NO_EDGES, data.counts[kind], *names, task)
        if names[0] is not None:
            label_names[kind] = names[0]
        unread |= {f"{kind}.{name}" for name in unread_names(nodes, *names)}
    weight = choice.named(sorted({key for _, own in data.edges.values() for key in own}))
    relations = {
        relation: Edges(ends, edge_weights(weight, own[weight]) if weight in own else None)
        for relation, (ends, own) in data.edges.items()
    }
    return join_kinds(kinds, relations, label_names)


def _set(
    split: Callable[[Any], GraphData],
    graphs: Sequence[Any],
    columns: Mapping[str, Sequence[Any]],
    wanted: Wanted,
    unread: Collection[str] = (),
) -> GraphSetArrays:
    """Return graphs, each taken apart by `split`, with labels by name as a set; None is unknown.

    Node data that is called like a label is not read, nor edge data that nobody names, nor what is
    `unread` already; a warning says so.
    """
    choice, [name, *others] = wanted.edges, columns
    unnamed = choice.weight is None and choice.weights is None
    own = choice._replace(weights="ignore") if unnamed else choice
    arrays, of_edges, unread = [], set[str](), {*unread}
    for number, graph in enumerate(graphs):
        with named_in_errors(f"graph {number} of the list"):
            data = split(graph)
            for kind, nodes in data.nodes.items():
                data.nodes[kind] = {key: x for key, x in nodes.items() if key not in LABELS}
                unread |= {*LABELS} & {*nodes}
            of_edges |= {key for _, own_data in data.edges.values() for key in own_data}
            one = wanted._replace(label=None, edges=own, task=None)
            arrays.append(graph_arrays(data, one, unread))
    if unnamed and (more := sorted(of_edges - {*choice.features})):
        _LOG.warning(
            "the edges of the graphs have %s, not read; `edge_features: %s` makes features of it, "
            "`weight` weighs edges, `weights: ignore` leaves it out.", " and ".join(more), more[0],
        )  # fmt: skip
    warn_unread(unread)
    label = ", ".join(columns)
    labels = _join_labels(columns) if others else columns[name]
    if not arrays:
        raise ZooError("there are no graphs in the list; write some.")
    if len(labels) != len(arrays):
        raise ZooError(f"there are {len(arrays):,} graphs and {len(labels):,} labels; write one "
                       "for each.")  # fmt: skip
    sizes = np.array([len(graph.labels) for graph in arrays])
    classes, names, task = _encode_labels(labels, label, wanted.task, sizes)
    return _joined(arrays, sizes, wanted.degrees)._replace(
        labels=classes, label_names=(*columns,) if classes.ndim == 2 else names, task=task
    )


def _joined(
    graphs: Sequence[GraphArrays], sizes: np.ndarray, degrees: int | None
) -> GraphSetArrays:
    """Return graphs of some sizes (S,) as a set without labels."""
    of_edges = [graph.edge_features for graph in graphs]
    widths = {graph.features.shape[1] for graph in graphs}
    edge_widths = {0 if features is None else features.shape[1] for features in of_edges}
    if len(widths) > 1 or len(edge_widths) > 1:
        raise ZooError(
            "the graphs have unlike features: of nodes "
            f"{', '.join(map(str, sorted(widths)))} columns, of edges "
            f"{', '.join(map(str, sorted(edge_widths)))}; give all graphs the same."
        )
    check_room((int(sizes.sum()), max(widths)))
    starts = np.cumsum(sizes) - sizes
    weights = [graph.weights for graph in graphs]
    arrays = GraphSetArrays(
        np.concatenate([graph.edges + start for graph, start in zip(graphs, starts, strict=True)]),
        np.repeat(np.arange(len(graphs)), sizes),
        np.concatenate([dense(graph.features) for graph in graphs]),
        np.full(len(graphs), -1),
        edge_features=None if of_edges[0] is None else np.concatenate(of_edges),
        weights=None if weights[0] is None else np.concatenate(weights),
        forms=tuple(graph.form for graph in graphs),
    )
    return check_graph_set(with_degrees(arrays, degrees))


def _join_labels(columns: Mapping[str, Sequence[Any]]) -> list[np.ndarray]:
    """Return the labels of several names, one number each, as the targets of each graph, (T,)."""
    rows = []
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        row = np.full(len(columns), np.nan)
        for place, (name, value) in enumerate(zip(columns, values, strict=True)):
            if value is not None:
                array = to_numpy(value, name)
                if array.size != 1 or array.dtype.kind not in "iufb":
                    raise ZooError(f"graph {number} of the list: `{name}` is to be one number.")
                row[place] = array.item()
        rows.append(row)
    return rows


def _encode_labels(
    labels: Sequence[Any], label: str, task: str | None, sizes: np.ndarray
) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    """Return labels of graphs in the type of their task, the names of classes, and the task.

    Each is a class, a whole number or a name; or a number, or T of them, perhaps in a tensor (),
    (1,), (T,) or (1, T). None and NaN are unknown; of classes -1 and "". Without a task they are
    classes, or, where there are several, targets of 0 and 1. The graphs have so many nodes (S,).
    """
    shapes = [getattr(value, "shape", None) for value in labels]
    if sizes.max() > 1 and all(shape == (n,) for shape, n in zip(shapes, sizes, strict=True)):
        raise ZooError(
            f"graph 0 of the list: `{label}` has the shape {tuple(shapes[0])}, a label for each "
            "node, and a graph has one class, or T targets or numbers, (1, T); where these are "
            "labels of nodes, write one graph and no list."
        )
    rows: list[Any] = []
    for number, value in enumerate(labels):
        if value is None or isinstance(value, str):
            rows.append(value)
            continue
        array = to_numpy(value, label)
        if array.size == 0 or array.ndim > 2 or (array.ndim == 2 and len(array) > 1):
            raise ZooError(
                f"graph {number} of the list: `{label}` has the shape {array.shape}, and a graph "
                "has one class, or T targets or numbers, (1, T); leave it out where it is unknown, "
                "and where these are labels of nodes, write one graph and no list."
            )
        rows.append(array.reshape(-1))
    widths = {1 if isinstance(row, str) else len(row) for row in rows if row is not None}
    if len(widths) > 1:
        raise ZooError(
            f"`{label}` has {' or '.join(map(str, sorted(widths)))} values in different graphs; "
            "write as many for each, NaN where one is unknown, and where these are labels of "
            "nodes, one graph and no list."
        )
    names = None
    if max(widths, default=1) > 1:
        gap = np.full(max(widths), np.nan)
        array = np.stack([gap if row is None else row.astype(np.float64) for row in rows])
        if task is None and infer_task(array, "graph") == GRAPHS:
            _LOG.warning("the labels of the graphs have exactly one 1 in each row, and are read as "
                         "classes; `task: graph-multilabel` keeps them apart.")  # fmt: skip
        task = task or infer_task(array, "graph")
    else:
        values = [row.item() if isinstance(row, np.ndarray) else row for row in rows]
        array, names = _encode_values(values, task)
        task = task or GRAPHS
        array = array[:, None] if task in TARGETS else array
    array = check_labels(array, task)
    check_fit(array, task)
    return array, names, task


def _encode_values(
    values: list[Any], task: str | None
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return one label of each graph as a number (S,), and names of classes where it is text."""
    kinds = {type(value) for value in values if value is not None}
    if task not in (*NUMBERS, *TARGETS) and not kinds <= {int, str} and not kinds <= {int, float}:
        types = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ZooError(
            f"the labels of the graphs are of the type {types}; write a class for each, a whole "
            "number from 0 (-1: unknown) or a name, or `task: graph-regression` for numbers."
        )
    if str in kinds:
        text = np.array(["" if value is None else str(value) for value in values])
        if task not in (*NUMBERS, *TARGETS):
            text = np.where(is_word(text, "-1"), "", text)
        return encode_text(text, task or GRAPHS)
    if task in (*NUMBERS, *TARGETS):
        return np.array([np.nan if value is None else value for value in values], np.float64), None
    if float in kinds and task is None:
        known = np.array([value for value in values if value is not None], np.float64)
        fractions = known[known % 1 > 0]
        shown = fractions[0] if len(fractions) else known[0]
        raise ZooError(
            f"the labels of the graphs are of the type float, such as {shown:g}; write `task: "
            "graph-regression` if they are numbers to predict, and `task: graph-classification` "
            "or `graph-binary` if they are classes, whole numbers from 0."
        )
    array = np.array([-1 if value is None else value for value in values])
    gaps = array.dtype.kind == "f" and np.isnan(array)
    array = np.where(gaps, -1, array)
    return array.astype(np.int64) if (array % 1 == 0).all() else array, None


def from_dgl(graph: DGLGraph) -> GraphData:
    """Return a DGLGraph, of one kind of nodes and edges or several, taken apart."""

    def named(data: Mapping[str, Any]) -> dict[str, Any]:  # without DGL's own, such as `_ID`
        return {key: values for key, values in data.items() if not key.startswith("_")}

    return GraphData(
        {kind: named(graph.nodes[kind].data) for kind in graph.ntypes},
        {kind: graph.num_nodes(kind) for kind in graph.ntypes},
        {
            kind: (
                to_numpy(torch.stack(graph.edges(etype=kind), dim=1), "edges"),
                named(graph.edges[kind].data),
            )
            for kind in graph.canonical_etypes
        },
        of_dgl=True,
    )


def from_dgl_list(graphs: Sequence[Any], labels: Any, wanted: Wanted) -> GraphSetArrays:
    """Return a list of DGLGraphs, or of pairs of one and its label, as a set.

    Args:
        graphs: all of the same kinds of nodes and edges.
        labels: a class for each, or T targets or numbers; or several by name, as `dgl.load_graphs`
            returns them.
        wanted: what is read.

    Raises:
        ZooError: something else is in the list, the graphs are unlike, or the labels no classes.
    """
    pairs = [isinstance(item, list | tuple) and len(item) == 2 for item in graphs]
    if any(pairs):
        if labels is not None or not all(pairs):
            raise ZooError("write a list of graphs and `labels`, or a list of pairs of both.")
        graphs, labels = zip(*graphs, strict=True)
    for number, graph in enumerate(graphs):
        if not hasattr(graph, "canonical_etypes"):
            raise ZooError(f"number {number} of the list is {described(graph)}, and no DGLGraph.")
    labels = labels if isinstance(labels, Mapping) else {} if labels is None else {"labels": labels}
    names = [wanted.label] if isinstance(wanted.label, str) else wanted.label or []
    if wrong := [name for name in names if name not in labels]:
        fix = "write `labels` of a list, in a file with it."
        fix = suggestion(wrong[0], labels) if labels else fix
        raise ZooError(f"label: there are no labels {wrong[0]!r} of the graphs; {fix}")
    if not names and len(labels) > 1:
        known = ", ".join(map(repr, labels))
        raise ZooError(f"there are several labels, {known}; write which, `label: {min(labels)}`.")
    names = names or [next(iter(labels), "labels")]
    columns = {name: labels.get(name, [None] * len(graphs)) for name in names}
    columns = {  # rows of a table (S, T) are (1, T), as PyG has them
        name: [row[None] for row in values] if np.ndim(values) > 1 else [*values]
        for name, values in columns.items()
    }
    return _set(from_dgl, graphs, columns, wanted)


def from_pyg_list(graphs: Sequence[Any], wanted: Wanted) -> GraphSetArrays:
    """Return a list of PyG's `Data`, or of their `to_dict()`, with a label each, as a set.

    The label is the tensor of that name, left out the one of `LABELS` that is there: a class, or
    T targets or numbers, (1, T); it is unknown of a graph that has none. The rest is as in
    `from_dgl_list`.
    """
    for number, graph in enumerate(graphs):
        if not _is_graph(graph):
            raise ZooError(
                f"number {number} of the list is {described(graph)}, and no graph; write a list of "
                "data.to_dict(), dicts with `edge_index`, `x` and `y`."
            )
    dicts = [_to_dict(graph) for graph in graphs]
    dicts = [{**data.get("_global_store", {}), **data} for data in dicts]
    names = [name for name in LABELS if any(data.get(name) is not None for data in dicts)]
    label = wanted.label
    if label is None and len(names) > 1:
        raise ZooError(f"the graphs have {' and '.join(map(repr, names))}; write which is the "
                       f"class, `label: {names[-1]}`.")  # fmt: skip
    chosen = [label] if isinstance(label, str) else label or [(names or ["y"])[0]]
    for name in chosen if label else ():
        if not any(name in data for data in dicts):
            known = sorted({str(key) for data in dicts for key in data})
            raise ZooError(f"label: no graph has {name!r}; {suggestion(name, known)}")
    columns = {name: [data.get(name) for data in dicts] for name in chosen}
    skip = {*LABELS, *chosen}
    of_nodes = [{key: x for key, x in data.items() if key not in skip} for data in dicts]
    bare, unread = wanted._replace(label=None), {*names} - {*chosen}
    return _set(lambda data: from_pyg(data, bare), of_nodes, columns, wanted, unread)


def _is_graph(value: Any) -> bool:
    return isinstance(value, Mapping) or hasattr(value, "to_dict")


_WANTED = "write a Data of PyG, its to_dict(), or a dict of tensors: `edge_index` (2, E), `x`, `y`."
_EDGES = ("edge_weight", "edge_attr")


def _to_dict(data: Any) -> Mapping[str, Any]:
    if not _is_graph(data):
        raise ZooError(f"this is {described(data)}, and no graph; {_WANTED}")
    return data.to_dict() if hasattr(data, "to_dict") else data


def from_pyg(data: Any, wanted: Wanted) -> GraphData:
    """Return a PyG `Data` or `HeteroData`, or its `to_dict()`, taken apart.

    Raises:
        ZooError: it is no graph, or a batch of several.
    """
    data, (label, feature, choice, *_) = _to_dict(data), wanted
    kinds = {key: own for key, own in data.items() if isinstance(own, Mapping)}
    kinds.pop("_global_store", None)
    if not any(isinstance(key, tuple) for key in kinds):
        ends, of_edges = _edges_of_pyg(data, choice)
        nodes = _nodes_of_pyg(data, (*of_edges,), (label, feature))
        count = _count_nodes(data, nodes, ends, label, feature)
        named = choose(nodes, label, feature)[0] if "ptr" in data else None
        if named is not None and len(nodes[named]) == len(data["ptr"]) - 1 != count:
            raise ZooError(
                f"this is a batch of {len(data['ptr']) - 1:,} graphs with a label each; write a "
                "list, batch.to_data_list(), in a file data.to_dict() of them."
            )
        return GraphData({"": nodes}, {"": count}, {("", "", ""): (ends, of_edges)})
    names = (label, label and label.rpartition(".")[2], feature)
    of_kinds = {key: own for key, own in kinds.items() if isinstance(key, str)}
    nodes = {key: _nodes_of_pyg(own, (), names) for key, own in of_kinds.items()}
    counts = {key: _count_nodes(own, nodes[key], NO_EDGES, None, feature)
              for key, own in of_kinds.items()}  # fmt: skip
    edges = {key: _edges_of_pyg(own, choice) for key, own in kinds.items() if key not in of_kinds}
    for relation in edges:
        for kind in (relation[0], relation[2]):
            if not counts.get(kind):
                raise ZooError(
                    f"nothing says how many nodes of the kind {kind!r} there are; write `x`."
                )
    return GraphData(nodes, counts, edges)


def _edges_of_pyg(
    data: Mapping[str, Any], choice: EdgeColumns
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return edges (E, 2), of `edge_index` or the transposed matrix `adj_t`, and their data."""
    names = dict.fromkeys((*_EDGES, choice.weight, *choice.features))
    of_edges = {key: data[key] for key in names if data.get(key) is not None}
    if data.get("edge_index") is None:
        entries = sparse_entries(data.get("adj_t"))
        if entries is None:
            keys = ", ".join(repr(str(key)) for key in list(data)[:8]) or "nothing"
            raise ZooError(f"there is no `edge_index`, but {keys}; {_WANTED}")
        ends, values, _ = entries
        if (values != 1).any():
            of_edges = {"edge_weight": values, **of_edges}
        return ends[:, ::-1], of_edges
    ends = to_numpy(data["edge_index"], "edge_index")
    if ends.ndim != 2 or ends.shape[0] != 2 or ends.dtype.kind not in "iu":
        turned = "; write edge_index.T" if ends.ndim == 2 and ends.shape[1] == 2 else ""
        raise ZooError(
            f"`edge_index` is {ends.dtype} of the shape {ends.shape}, and should be int64 of the "
            f"shape (2, E){turned}."
        )
    return np.ascontiguousarray(ends.T), of_edges


def _nodes_of_pyg(
    data: Mapping[str, Any], of_edges: Collection[str], names: Collection[str | None]
) -> dict[str, Any]:
    """Return data of nodes: tensors and arrays, and whatever has a name that is read."""
    read = {*LABELS, *FEATURES, *(f"{part}_mask" for part in PARTS), *names}
    return {
        key: values
        for key, values in data.items()
        if (hasattr(values, "shape") or hasattr(values, "sparse_sizes") or key in read)
        and values is not None
        and not isinstance(values, Mapping)
        and key not in (*of_edges, "num_nodes")
        and not key.startswith(("edge_", "adj"))
    }


def _count_nodes(
    data: Mapping[str, Any],
    nodes: Mapping[str, Any],
    ends: np.ndarray,
    label: str | None,
    feature: str | None,
) -> int:
    """Return how many nodes there are: as is said, as the features have rows, or the edges ends."""
    if data.get("num_nodes"):
        return int(data["num_nodes"])
    masks = (f"{part}_mask" for part in PARTS)
    for name in (feature, *FEATURES, *masks, "pos", "z", "batch"):
        if name in nodes and (shape := shape_of(nodes[name])):
            return shape[0]
    label = label or next((name for name in LABELS if name in nodes), None)
    read = nodes if not len(ends) else {label} & {*nodes}
    rows = [shape[0] for name in read if (shape := shape_of(nodes[name]))]
    return max(1 + int(ends.max(initial=-1)), *rows, 0)


# Files


def read_graph(
    path: Path,
    task: str | None,
    *,
    label: str | None = None,
    feature: str | None = None,
    weight: str | None = None,
    weights: Weights = None,
    edge_features: str | list[str] | None = None,
) -> GraphArrays:
    """Read the one graph that DGL or PyTorch Geometric has saved.

    Of DGL it is what `dgl.save_graphs(path, [graph])` writes; of PyG `torch.save(data, path)`,
    where PyG is installed, or `torch.save(data.to_dict(), path)`.

    Args:
        path: the `.bin` of DGL; or the `.pt`, a `Data` or a dict of tensors: `edge_index` (2, E),
            `x`, `y` and masks.
        task: what the labels are for.
        label: the node data that is the label; left out, `label`, `labels` or `y`. Of several kinds
            of nodes that of one, such as `paper.label`.
        feature: the node data that is the features; left out, `feat`, `x` and the like.
        weight: the edge data that is their weight, such as `edge_weight`.
        weights: `ignore` reads the graph without weights of edges.
        edge_features: the edge data that are features, such as `edge_attr`: numbers, one or several
            for each edge.
    """
    wanted = Wanted(label, feature, EdgeColumns.of(weight, weights, edge_features), task)
    if _is_dgl(path):
        graphs, labels = read_bin(path)
        if len(graphs) != 1:
            raise ZooError(
                f"the file holds {len(graphs)} graphs; write `task: graph-classification`."
            )
        if labels:
            _LOG.warning(
                "%s holds %s beside its graph, not read: labels of nodes are node data, and those "
                "of whole graphs are read by `task: graph-classification`.",
                path.name, " and ".join(map(repr, labels)),
            )  # fmt: skip
        return graph_arrays(from_dgl(graphs[0]), wanted)
    content = unpack(read_pt(path))
    if isinstance(content, list):
        if content and not _is_graph(content[0]):
            raise ZooError(f"this is {described(content)}, and no graph; {_WANTED}")
        raise ZooError(
            f"this is a set of {len(content)} graphs; write `task: graph-classification`."
        )
    return graph_arrays(from_pyg(content, wanted), wanted)


def read_graphs(path: Path, wanted: Wanted, labels: bool = True) -> GraphSetArrays:
    """Read the graphs, with a label each, that DGL or PyTorch Geometric has saved.

    Of DGL it is what `dgl.save_graphs(path, graphs, {"labels": classes})` writes; of PyG a list of
    `Data`, of their `to_dict()`, or what it keeps in its folder `processed`. The options are those
    of `from_dgl_list` and `from_pyg_list`; without `labels` these are not looked at.
    """
    if _is_dgl(path):
        graphs, own = read_bin(path)
        if not labels:
            own, wanted = {}, wanted._replace(label=None)
        return from_dgl_list(graphs, own, wanted)
    content = unpack(read_pt(path))
    graphs = content if isinstance(content, list) else [content]
    if not labels and all(map(_is_graph, graphs)):
        skip = {*LABELS, *(wanted.label or ())}
        dicts = [_to_dict(graph) for graph in graphs]
        graphs = [{key: x for key, x in data.items() if key not in skip} for data in dicts]
        wanted = wanted._replace(label=None)
    return from_pyg_list(graphs, wanted)


def _is_dgl(path: Path) -> bool:
    return Path(path.name.removesuffix(".gz")).suffix.lower() == ".bin"


def count_graphs_in_bin(path: Path) -> int:
    """Return how many graphs a file of DGL says that it holds; 0 of one that is none."""
    try:
        with path.open("rb") as file:
            start = file.read(_COUNT.stop)
    except OSError:
        return 0
    return int.from_bytes(start[_COUNT], "little") if start.startswith(_MAGIC) else 0


def read_bin(path: Path) -> tuple[list[DGLGraph], dict[str, torch.Tensor]]:
    """Return what a file of DGL holds: its graphs, and the labels that were saved with them.

    Raises:
        ZooError: it is not DGL's.
    """
    if not count_graphs_in_bin(path):
        raise ZooError("this is no file of DGL; write it with dgl.save_graphs(path, [graph]).")
    return dgl.load_graphs(str(path))


def is_list(path: Path) -> bool:
    """Return whether a `.pt` holds a list, or a long tuple, by the first bytes of its pickle."""
    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            with archive.open(name) as file:
                start = file.read(64)
        words = (opcode.name for opcode, _, _ in pickletools.genops(start))
        first = next(word for word in words if word not in ("PROTO", "FRAME"))
        return first in ("EMPTY_LIST", "MARK")
    except Exception:  # of another file, which its reader answers
        return False


def unpack(content: Any) -> Any:
    """Return the graphs of a set as a list: a list, a data set of PyG or DGL, or what PyG saves.

    One graph comes back as it is; so does that of a data set of one, whose labels are of nodes.

    Raises:
        ZooError: it is a set whose graphs have several kinds of nodes, saved as one.
    """
    if isinstance(content, tuple) and len(content) > 1 and _is_graph(content[0]):
        data, slices = content[:2]
        if slices is None:
            return _to_dict(data)
        if isinstance(slices, Mapping) and all(
            isinstance(starts, Mapping) or np.ndim(starts) == 1 for starts in slices.values()
        ):
            return _separate(_to_dict(data), slices)
    if isinstance(content, list | tuple):
        return list(content)
    like_one = ("to_dict", "keys", "shape", "ntypes", "nodes", "encode")
    if any(hasattr(content, key) for key in like_one) or not hasattr(content, "__getitem__"):
        return content
    graphs = [content[number] for number in range(len(content))]
    return graphs[0] if len(graphs) == 1 else graphs


def _separate(data: Mapping[str, Any], slices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the graphs of a set that PyG has saved as one, in its folder `processed`."""
    if any(isinstance(starts, Mapping) for starts in slices.values()):
        raise ZooError(
            "this is a set of graphs with several kinds of nodes, saved as one; write "
            "torch.save([data.to_dict() for data in dataset], path)."
        )
    starts = {key: places.tolist() for key, places in slices.items()}
    graphs = []
    for number in range(min(map(len, starts.values()), default=1) - 1):
        graph = {}
        for key, places in starts.items():
            first, last = places[number : number + 2]
            if isinstance(data[key], list):
                graph[key] = data[key][first] if last == first + 1 else data[key][first:last]
            else:
                dim = -1 if "index" in key or key == "face" else 0  # as PyG joins them
                graph[key] = data[key].narrow(dim, first, last - first)
        if "_num_nodes" in data:
            graph["num_nodes"] = data["_num_nodes"][number]
        graphs.append(graph)
    return graphs


def read_pt(path: Path) -> Any:
    """Return what a `.pt` holds: plain tensors, or objects of PyG where it is installed.

    Raises:
        ZooError: it holds objects of other classes, which are never unpickled, or is no such file.
    """
    try:
        with torch.serialization.safe_globals(_pyg_classes()):
            return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what the bytes suggest
        try:
            known = {f"{kind.__module__}.{kind.__qualname__}" for kind in _pyg_classes()}
            others = {*torch.serialization.get_unsafe_globals_in_checkpoint(path)} - known
            names = ", ".join(sorted(others)[:3])
            reason = f"objects of {names}, never unpickled" if names else ""
        except Exception:  # torch raises what the bytes suggest
            reason = ""
        reason = reason or cause(error).partition(". ")[0]
    raise ZooError(
        f"this is no file of plain tensors ({reason}). Write a Data of PyG as torch.save("
        "data.to_dict(), path), a list as torch.save([data.to_dict() for data in graphs], path), "
        "or install torch_geometric, which reads its classes; graphs of DGL are written by "
        "dgl.save_graphs('graphs.bin', graphs), of NetworkX by networkx.write_graphml."
    )


def _pyg_classes() -> list[type]:
    """Return the classes of PyG that its saved graphs consist of; none where it is not there."""
    try:
        from torch_geometric.data import Data, HeteroData, data, storage
    except ImportError:
        return []
    return [Data, HeteroData, storage.BaseStorage, storage.GlobalStorage, storage.NodeStorage,
            storage.EdgeStorage, data.DataEdgeAttr, data.DataTensorAttr]  # fmt: skip
