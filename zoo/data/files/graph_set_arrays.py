"""Sets of graphs with a label each, as arrays: the files of the TU collection, and lists of graphs.

Morris et al., TUDataset (arXiv 2007.08663): of a set DS `DS_A.txt` has the edges, numbers of nodes
from 1; `DS_graph_indicator.txt` the graph of each node; `DS_graph_labels.txt` the class of each
graph; and, where there are such, `DS_node_labels.txt`, `DS_node_attributes.txt`,
`DS_edge_labels.txt` and `DS_edge_attributes.txt` a row for each node or edge.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from zoo.data.files.graph_arrays import (
    NO_EDGES,
    GraphArrays,
    check_edge_features,
    check_edges,
    check_features,
    check_room,
    check_weights,
)
from zoo.data.files.to_numpy import to_numpy
from zoo.errors import ZooError
from zoo.tasks.labels import GRAPHS, MOST_CLASSES, NO_NUMBERS_OF_GRAPHS, encode_text

_INDICATOR = "_graph_indicator.txt"
_MOST_LABELS = 1000
_DEGREES = 64

OF_LABELS = ("node label ", "edge label ")
"""How the names of columns begin that are 1 for one label and 0 for the others."""


class GraphSetArrays(NamedTuple):
    """A set of S graphs of N nodes together.

    Attributes:
        edges: (E, 2) numbers of nodes, counted over all graphs.
        owners: (N,) the graph of each node, 0 to S-1, in increasing order.
        features: (N, F) fp32.
        labels: (S,) classes from 0, -1 where unknown.
        label_names: the name of each class.
        edge_features: (E, D) fp32; None: there are none.
        feature_names: the name of each column of `features`; None where columns have none.
        edge_feature_names: the name of each column of `edge_features`; None likewise.
        weights: (E,) weights of the edges, from 0; None: all are 1.
        forms: of each graph what its rows of edges are, as `GraphArrays.form`; None: of none.
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
    return next((folder for folder in folders if any(folder.glob(f"*{_INDICATOR}"))), None)


def read_tu_folder(
    path: Path, degrees: int | None = None, *, labels: bool = True
) -> GraphSetArrays:
    """Read the files of a set of the TU collection.

    Args:
        path: of the folder.
        degrees: columns for the degrees of nodes, from 0 to this one and more; None: 64 where nodes
            have neither labels nor attributes.
        labels: False reads the graphs without their classes.

    Raises:
        ZooError: a file is missing or wrong: which, and what it should hold.
    """
    folder = tu_folder(path) or path
    stems = sorted(file.name.removesuffix(_INDICATOR) for file in folder.glob(f"*{_INDICATOR}"))
    if len(stems) != 1:
        raise ZooError(f"it holds {len(stems)} sets ({', '.join(stems[:4])}); keep one.")
    start = folder / stems[0]
    owners = _read_column(Path(f"{start}{_INDICATOR}")) - 1
    if labels:
        path = Path(f"{start}_graph_labels.txt")
        if not path.exists():
            raise ZooError(f"it has no {path.name}: a class for each graph, a line each. "
                           f"{NO_NUMBERS_OF_GRAPHS}")  # fmt: skip
        values, classes = np.unique(_read_column(path), return_inverse=True)
        names = tuple(map(str, values.tolist()))
    else:  # no more graphs than nodes
        classes, names = np.full(min(owners.max(initial=-1) + 1, len(owners)), -1), ()
    ends = _read_numbers(Path(f"{start}_A.txt"), np.int64)
    edges = check_edges(ends - 1 if len(ends) else NO_EDGES, len(owners))
    columns = _read_columns(start, "node", len(owners))
    edge_columns = _read_columns(start, "edge", len(edges))
    if degrees or not columns:
        one_hot = _degree_columns(edges, len(owners), degrees or _DEGREES)
        columns |= {f"degree {degree}": column for degree, column in enumerate(one_hot.T)}
    features, edge_features = (
        np.stack([*named.values()], axis=1) if named else None for named in (columns, edge_columns)
    )
    return check_graph_set(GraphSetArrays(
        edges, owners, features, classes, names, edge_features, tuple(columns),
        tuple(edge_columns) or None,
    ))  # fmt: skip


def set_of_graphs(
    graphs: Sequence[GraphArrays],
    labels: Sequence[Any],
    label: str,
    degrees: int | None = None,
) -> GraphSetArrays:
    """Return graphs, whose own labels do not count, as one set; degrees as in `read_tu_folder`.

    Args:
        graphs: all of them.
        labels: the class of each, a whole number or a name, perhaps in a tensor; None where it is
            unknown.
        label: what the labels are called in errors.
        degrees: columns for the degrees of nodes.

    Raises:
        ZooError: the graphs are unlike, or the labels no classes.
    """
    if not graphs:
        raise ZooError("there are no graphs in the list; write some.")
    if len(labels) != len(graphs):
        raise ZooError(f"there are {len(graphs):,} graphs and {len(labels):,} labels; write one "
                       "for each.")  # fmt: skip
    classes, names = _encode_classes(labels, label)
    sizes = np.array([len(graph.labels) for graph in graphs])
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
    if degrees or not features.shape[1]:
        columns = _degree_columns(edges, len(owners), degrees or _DEGREES)
        features = np.concatenate([features, columns], axis=1)
    weights = [graph.weights for graph in graphs]
    return check_graph_set(GraphSetArrays(
        edges, owners, features, classes, names,
        edge_features=None if edge_features[0] is None else np.concatenate(edge_features),
        weights=None if weights[0] is None else np.concatenate(weights),
        forms=tuple(graph.form for graph in graphs),
    ))  # fmt: skip


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


def _read_column(path: Path) -> np.ndarray:
    """Return a file of one whole number a line, (R,)."""
    numbers = _read_numbers(path, np.int64)
    if numbers.shape[1] > 1:
        raise ZooError(
            f"{path.name} has {numbers.shape[1]} numbers a line, and one is read: keep the column "
            "that is meant, such as by `cut -d , -f 1`."
        )
    return numbers.reshape(-1)


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


def _degree_columns(edges: np.ndarray, nodes: int, most: int) -> np.ndarray:
    """Return a column for each degree from 0, (N, most + 1), the last for all from there on."""
    pairs = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    degree = np.bincount(pairs.ravel(), minlength=nodes).clip(max=most)
    return np.eye(most + 1, dtype=np.float32)[degree]


def _encode_classes(labels: Sequence[Any], label: str) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return classes of graphs, whole numbers from 0 or names, as numbers, and their names.

    They may be in tensors; None, -1 and "" are unknown.

    Raises:
        ZooError: they are something else, or numbers too large for so few graphs.
    """
    values = []
    for number, value in enumerate(labels):
        if value is not None and not isinstance(value, str):
            array = to_numpy(value, label)
            if array.size != 1:
                raise ZooError(
                    f"graph {number} of the list: `{label}` has the shape {array.shape}, and a "
                    "graph has one class. Write one for each graph, of several targets the one "
                    "that is meant, or leave it out where it is unknown; where these are labels of "
                    "nodes, write one graph and no list."
                )
            value = array.item()
        values.append(None if value in (None, -1, "-1", "") else value)
    kinds = {type(value) for value in values if value is not None}
    if str in kinds and kinds <= {str, int}:
        names = np.array(["" if value is None else str(value) for value in values])
        return encode_text(names, GRAPHS)
    if not kinds <= {int}:
        types = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise ZooError(
            f"the labels of the graphs are of the type {types}; write a class for each, a whole "
            f"number from 0 (-1: unknown) or a name. {NO_NUMBERS_OF_GRAPHS}"
        )
    for number, value in enumerate(values):
        if value is not None and not 0 <= value < max(len(values), MOST_CLASSES):
            raise ZooError(
                f"graph {number} of the list has the label {value}; number the classes 0, 1, 2, "
                "... and write -1 where the label is unknown."
            )
    return np.array([-1 if value is None else value for value in values], np.int64), None
