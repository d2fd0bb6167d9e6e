"""Sets of graphs with labels of their own, as arrays: files of the TU collection, and lists.

Morris et al., TUDataset (arXiv 2007.08663): of a set DS `DS_A.txt` has the edges, numbers of nodes
from 1; `DS_graph_indicator.txt` the graph of each node; `DS_graph_labels.txt` the class of each
graph, `DS_graph_attributes.txt` its numbers; and, where there are such, `DS_node_labels.txt`,
`DS_node_attributes.txt`, `DS_edge_labels.txt` and `DS_edge_attributes.txt` a row for each node or
edge.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from zoo.data.files.graph_arrays import (
    GraphArrays,
    check_edge_features,
    check_features,
    check_room,
    check_weights,
)
from zoo.data.files.objects import to_numpy
from zoo.errors import ZooError
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

_LOG = logging.getLogger(__name__)
INDICATOR = "_graph_indicator.txt"

DEGREES = 64
"""The largest degree that has a column of its own, where none is said."""

OF_DEGREE = "degree "
"""How the names of columns begin that are 1 for one degree and 0 for the others."""

OF_LABELS = ("node label ", "edge label ")
"""How the names of columns begin that are 1 for one label and 0 for the others."""


class GraphSetArrays(NamedTuple):
    """A set of S graphs of N nodes together.

    Attributes:
        edges: (E, 2) numbers of nodes, counted over all graphs.
        owners: (N,) the graph of each node, 0 to S-1, in increasing order.
        features: (N, F) fp32.
        labels: (S,) classes from 0, -1 where unknown; of `graph-multilabel` targets (S, T), of
            `graph-regression` numbers (S,) or (S, T), both fp32, NaN where unknown.
        label_names: the name of each class, or target.
        edge_features: (E, D) fp32; None: there are none.
        feature_names: the name of each column of `features`; None where columns have none.
        edge_feature_names: the name of each column of `edge_features`; None likewise.
        weights: (E,) weights of the edges, from 0; None: all are 1.
        forms: of each graph what its rows of edges are, as `GraphArrays.form`; None: of none.
        task: what the labels are for, a word of `GRAPH_METRICS`.
        ids: (S,) what the user calls each graph; None: by their numbers.
        masks: `train`, `val` and `test`, each (splits, S) bool; None without any.
        times: (S,) when each graph came, NaN where unknown; None: not said.
        groups: (S,) text, which group each graph is of; None: not said.
        columns: what the other `features` are learnt of, `tables.encode`; None: they stand as are.
        degree_columns: how many of the last columns of `features` are degrees of nodes.
    """

    edges: np.ndarray
    owners: np.ndarray
    features: np.ndarray
    labels: np.ndarray
    label_names: tuple[str, ...] | None = None
    edge_features: np.ndarray | None = None
    feature_names: tuple[str, ...] | None = None
    edge_feature_names: tuple[str, ...] | None = None
    weights: np.ndarray | None = None
    forms: tuple[str | None, ...] | None = None
    task: str = GRAPHS
    ids: np.ndarray | None = None
    masks: dict[str, np.ndarray] | None = None
    times: np.ndarray | None = None
    groups: np.ndarray | None = None
    columns: Any = None
    degree_columns: int = 0


def check_graph_set(arrays: GraphSetArrays) -> GraphSetArrays:
    """Return a set whose parts fit together; raise ZooError if they do not."""
    owners, count = arrays.owners, len(arrays.labels)
    if not count or (np.diff(owners) < 0).any() or not ((owners >= 0) & (owners < count)).all():
        raise ZooError(
            f"nodes are of the graphs {owners.min(initial=0) + 1:,} to "
            f"{owners.max(initial=0) + 1:,}, and {count:,} graphs have a label: number them from "
            "1, the nodes of one after those of the other."
        )
    empty = np.flatnonzero(np.bincount(owners, minlength=count) == 0)
    if len(empty):
        raise ZooError(f"graph {empty[0] + 1:,} has no nodes ({len(empty):,} such); leave it out.")
    across = owners[arrays.edges[:, 0]] != owners[arrays.edges[:, 1]]
    if across.any():
        raise ZooError(f"the edge in row {across.argmax() + 1:,} joins nodes of two graphs.")
    if arrays.edge_features is not None:
        check_edge_features(arrays.edge_features, len(arrays.edges))
    if arrays.weights is not None:
        check_weights(arrays.weights, len(arrays.edges))
    return arrays._replace(features=check_features(arrays.features, len(owners)))


def tu_folder(path: Path) -> Path | None:
    """Return the folder with the files of a set of the TU collection: a path, or `raw` in it."""
    folders = (path, path / "raw") if path.is_dir() else ()
    return next((folder for folder in folders if any(folder.glob(f"*{INDICATOR}"))), None)


def set_of_graphs(
    graphs: Sequence[GraphArrays],
    labels: Sequence[Any],
    label: str,
    degrees: int | None = None,
    task: str | None = None,
    target_names: tuple[str, ...] | None = None,
) -> GraphSetArrays:
    """Return graphs, whose own labels do not count, as one set.

    Args:
        graphs: all of them.
        labels: of each what `encode_labels` reads.
        label: what the labels are called in errors.
        degrees: columns for the degrees of nodes, as of `with_degrees`.
        task: what the labels are for.
        target_names: what several targets or numbers of each graph are called.

    Raises:
        ZooError: the graphs are unlike, or the labels not those of the task.
    """
    if not graphs:
        raise ZooError("there are no graphs in the list; write some.")
    if len(labels) != len(graphs):
        raise ZooError(f"there are {len(graphs):,} graphs and {len(labels):,} labels; write one "
                       "for each.")  # fmt: skip
    sizes = np.array([len(graph.labels) for graph in graphs])
    _refuse_labels_of_nodes(labels, label, sizes)
    classes, names, task = encode_labels(labels, label, task)
    names = target_names if classes.ndim == 2 else names
    owners = np.repeat(np.arange(len(graphs)), sizes)
    starts = np.cumsum(sizes) - sizes
    edges = np.concatenate(
        [graph.edges + start for graph, start in zip(graphs, starts, strict=True)]
    )
    edge_features = [graph.edge_features for graph in graphs]
    widths = {graph.features.shape[1] for graph in graphs}
    edge_widths = {0 if features is None else features.shape[1] for features in edge_features}
    if len(widths) > 1 or len(edge_widths) > 1:
        raise ZooError(
            "the graphs have unlike features: of nodes "
            f"{', '.join(map(str, sorted(widths)))} columns, of edges "
            f"{', '.join(map(str, sorted(edge_widths)))}; give all graphs the same."
        )
    check_room((len(owners), max(widths)))
    features = np.concatenate([
        graph.features.toarray() if sparse.issparse(graph.features) else graph.features
        for graph in graphs
    ])  # fmt: skip
    weights = [graph.weights for graph in graphs]
    arrays = GraphSetArrays(
        edges, owners, features, classes, names,
        edge_features=None if edge_features[0] is None else np.concatenate(edge_features),
        weights=None if weights[0] is None else np.concatenate(weights),
        forms=tuple(graph.form for graph in graphs),
        task=task,
    )  # fmt: skip
    return check_graph_set(with_degrees(arrays, degrees))


def with_degrees(arrays: GraphSetArrays, degrees: int | None) -> GraphSetArrays:
    """Return a set whose nodes have a column for each degree from 0 up, 1 for their own.

    Args:
        arrays: with features (N, F), which stay to the left.
        degrees: the largest degree, whose column is also that of all above; 0: no columns; None:
            64 where nodes have no features, or all nodes of all graphs the same, which tell a model
            nothing. One line says so.
    """
    x = arrays.features
    if degrees is None:
        blind = len(x) == 0 or bool((x == x[:1]).all())
        if not blind:
            return arrays
        why = "no features" if x.shape[1] == 0 else "the same features in all graphs"
        degrees = DEGREES
        _LOG.warning(
            "nodes have %s: columns of their degrees, up to %d, are added; `degrees: 0` adds none.",
            why, degrees,
        )  # fmt: skip
    if degrees == 0:
        return arrays
    edges = arrays.edges[arrays.edges[:, 0] != arrays.edges[:, 1]]
    pairs = np.unique(np.sort(edges, axis=1), axis=0)
    degree = np.bincount(pairs.ravel(), minlength=len(x)).clip(max=degrees)
    columns = np.eye(degrees + 1, dtype=np.float32)[degree]
    names = arrays.feature_names
    names = tuple(f"feature {place}" for place in range(x.shape[1])) if names is None else names
    return arrays._replace(
        features=np.concatenate([x, columns], axis=1),
        feature_names=(*names, *(f"{OF_DEGREE}{place}" for place in range(degrees + 1))),
        degree_columns=degrees + 1,
    )


def join_labels(columns: Mapping[str, Sequence[Any]]) -> list[np.ndarray]:
    """Return the labels of several names, one number each, as the targets of each graph, (T,).

    Raises:
        ZooError: one is no number.
    """
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


def _refuse_labels_of_nodes(labels: Sequence[Any], label: str, sizes: np.ndarray) -> None:
    """Refuse labels of which every graph has one for each of its nodes, (n,)."""
    shapes = [getattr(value, "shape", None) for value in labels]
    if sizes.max() > 1 and all(shape == (n,) for shape, n in zip(shapes, sizes, strict=True)):
        raise ZooError(
            f"graph 0 of the list: `{label}` has the shape {tuple(shapes[0])}, a label for each "
            "node, and a graph has one class, or T targets or numbers, (1, T); where these are "
            "labels of nodes, write one graph and no list."
        )


def encode_labels(
    labels: Sequence[Any], label: str, task: str | None
) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    """Return labels of graphs in the type of their task, the names of classes, and the task.

    Args:
        labels: of each graph a class, a whole number or a name; or a number, or T of them, perhaps
            in a tensor (), (1,), (T,) or (1, T). None and NaN are unknown; of classes -1 and "".
        label: what the labels are called in errors.
        task: what they are for; None: classes, or, where there are several, targets of 0 and 1.

    Raises:
        ZooError: they are something else, or not those of the task.
    """
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
