"""Sets of graphs with a label each, as arrays: the files of the TU collection, and PyG's lists.

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
    array_of,
    check_edge_features,
    check_edges,
    check_features,
    check_room,
    check_weights,
)
from zoo.errors import ZooError
from zoo.tasks.labels import (
    GRAPHS,
    MOST_CLASSES,
    NO_NUMBERS_OF_GRAPHS,
    encode_text,
)

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


def tu_folder(path: Path) -> Path | None:
    """Return the folder with the files of a set of the TU collection: a path, or `raw` in it."""
    places = (path, path / "raw") if path.is_dir() else ()
    return next((each for each in places if any(each.glob(f"*{_INDICATOR}"))), None)


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
    stems = sorted(each.name.removesuffix(_INDICATOR) for each in folder.glob(f"*{_INDICATOR}"))
    if len(stems) != 1:
        raise ZooError(f"it holds {len(stems)} sets ({', '.join(stems[:4])}); keep one.")
    files = {each: folder / f"{stems[0]}_{each}.txt" for each in (
        "A", "graph_indicator", "graph_labels", "node_labels", "node_attributes", "edge_labels",
        "edge_attributes")}  # fmt: skip
    owners = _one_column(files["graph_indicator"]) - 1
    classes, names = _classes(files["graph_labels"]) if labels else _no_classes(owners)
    ends = _rows(files["A"], np.int64)
    edges = check_edges(ends - 1 if len(ends) else NO_EDGES, len(owners))
    columns = _columns("node", files, len(owners))
    of_edges = _columns("edge", files, len(edges))
    if degrees or not columns:
        counts = _degree_columns(edges, len(owners), degrees or _DEGREES)
        columns |= {f"degree {each}": column for each, column in enumerate(counts.T)}
    features, edge_features = (
        np.stack([*each.values()], axis=1) if each else None for each in (columns, of_edges)
    )
    return checked_set(GraphSetArrays(
        edges, owners, features, classes, names, edge_features, tuple(columns),
        tuple(of_edges) or None,
    ))  # fmt: skip


def set_of_graphs(
    graphs: Sequence[GraphArrays],
    labels: Sequence[Any],
    called: str,
    degrees: int | None = None,
) -> GraphSetArrays:
    """Return graphs, whose own labels do not count, as one set; degrees as in `read_tu_folder`.

    Args:
        graphs: each of them.
        labels: the class of each, a whole number or a name, perhaps in a tensor; None where it is
            unknown.
        called: what the labels are called in errors.
        degrees: columns for the degrees of nodes.

    Raises:
        ZooError: the graphs are unlike, or the labels no classes.
    """
    if not graphs:
        raise ZooError("there are no graphs in the list; write some.")
    if len(labels) != len(graphs):
        raise ZooError(f"there are {len(graphs):,} graphs and {len(labels):,} labels; write one "
                       "for each.")  # fmt: skip
    classes, names = classes_of_graphs(labels, called)
    sizes = np.array([len(each.labels) for each in graphs])
    owners = np.repeat(np.arange(len(graphs)), sizes)
    first = np.cumsum(sizes) - sizes
    edges = np.concatenate([each.edges + start for each, start in zip(graphs, first, strict=True)])
    widths = {each.features.shape[1] for each in graphs}
    held = {None if each.edge_features is None else each.edge_features.shape[1] for each in graphs}
    if len(widths) > 1 or len(held) > 1:
        raise ZooError(
            "the graphs have unlike features: of nodes "
            f"{', '.join(map(str, sorted(widths)))} columns, of edges "
            f"{', '.join(str(each or 0) for each in held)}; give all graphs the same."
        )
    check_room((len(owners), max(widths)))
    features = np.concatenate([
        each.features.toarray() if sparse.issparse(each.features) else each.features
        for each in graphs
    ])  # fmt: skip
    if degrees or not features.shape[1]:
        columns = _degree_columns(edges, len(owners), degrees or _DEGREES)
        features = np.concatenate([features, columns], axis=1)
    of_edges = [each.edge_features for each in graphs]
    weights = [each.weights for each in graphs]
    return checked_set(GraphSetArrays(
        edges, owners, features, classes, names,
        edge_features=None if of_edges[0] is None else np.concatenate(of_edges),
        weights=None if weights[0] is None else np.concatenate(weights),
        forms=tuple(each.form for each in graphs),
    ))  # fmt: skip


def checked_set(arrays: GraphSetArrays) -> GraphSetArrays:
    """Return a set whose parts fit together.

    Raises:
        ZooError: they do not.
    """
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
    features = check_features(arrays.features, len(owners))
    if arrays.edge_features is not None:
        check_edge_features(arrays.edge_features, len(arrays.edges))
    if arrays.weights is not None:
        check_weights(arrays.weights, len(arrays.edges))
    return arrays._replace(features=features)


def _classes(path: Path) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the class of each graph (S,), and the names of the classes."""
    if not path.exists():
        raise ZooError(
            f"it has no {path.name}: a class for each graph, a line each. {NO_NUMBERS_OF_GRAPHS}"
        )
    names, classes = np.unique(_one_column(path), return_inverse=True)
    return classes, tuple(map(str, names.tolist()))


def _no_classes(owners: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return unknown classes of the graphs that nodes have; no more graphs than nodes."""
    return np.full(min(owners.max(initial=-1) + 1, len(owners)), -1), ()


def _columns(of: str, files: dict[str, Path], rows: int) -> dict[str, np.ndarray]:
    """Return a column (R,) fp32 for each label, and each attribute, of those files that exist."""
    found = {}
    if (path := files[f"{of}_labels"]).exists():
        labels = _rows_of(path, np.int64, rows).T
        for place, given in enumerate(labels):
            start = f"{of} label " if len(labels) == 1 else f"{of} label {place}: "
            names = np.unique(given)
            if len(names) > _MOST_LABELS:
                raise ZooError(
                    f"{path.name} has {len(names):,} labels, and each would be a column; write "
                    "numbers as attributes."
                )
            found |= {f"{start}{each}": (given == each).astype(np.float32) for each in names}
    if (path := files[f"{of}_attributes"]).exists():
        values = _rows_of(path, np.float32, rows).T
        found |= {f"{of} attribute {place}": each for place, each in enumerate(values)}
    return found


def _rows_of(path: Path, kind: type, rows: int) -> np.ndarray:
    found = _rows(path, kind)
    if len(found) != rows:
        raise ZooError(f"{path.name} has {len(found):,} rows and should have {rows:,}.")
    return found


def _one_column(path: Path) -> np.ndarray:
    """Return a file of one whole number a line, (R,)."""
    found = _rows(path, np.int64)
    if found.shape[1] > 1:
        raise ZooError(
            f"{path.name} has {found.shape[1]} numbers a line, and one is read: keep the column "
            "that is meant, such as by `cut -d , -f 1`."
        )
    return found.reshape(-1)


def _rows(path: Path, kind: type) -> np.ndarray:
    """Return a file of numbers with commas between, (R, C); an empty one as (0, 0)."""
    import pandas

    try:
        table = pandas.read_csv(path, header=None, skipinitialspace=True, dtype=kind)
    except OSError as error:
        raise ZooError(f"{path.name} cannot be read: {error.strerror}.") from None
    except pandas.errors.EmptyDataError:
        return np.zeros((0, 0), kind)
    except ValueError as error:
        cause = " ".join(str(error).split())[:120]
        what = "whole numbers" if kind is np.int64 else "numbers"
        raise ZooError(
            f"{path.name} holds something else than lines of {what} with commas between: {cause}."
        ) from None
    return table.to_numpy()


def _degree_columns(edges: np.ndarray, nodes: int, most: int) -> np.ndarray:
    """Return a column for each degree from 0, (N, most + 1), the last for all from there on."""
    pairs = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    degree = np.bincount(pairs.ravel(), minlength=nodes).clip(max=most)
    return np.eye(most + 1, dtype=np.float32)[degree]


def classes_of_graphs(
    labels: Sequence[Any], called: str
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return the classes of graphs, whole numbers from 0 or names, as numbers, and their names.

    Each may be a tensor; None, -1 and "" are unknown.

    Raises:
        ZooError: they are something else, or numbers too large for so few graphs.
    """
    known = [_known(number, each, called) for number, each in enumerate(labels)]
    kinds = {type(each) for each in known if each is not None}
    if str in kinds and kinds <= {str, int}:
        return encode_text(np.array(["" if each is None else str(each) for each in known]), GRAPHS)
    if not kinds <= {int}:
        held = ", ".join(sorted(each.__name__ for each in kinds))
        raise ZooError(
            f"the labels of the graphs are of the type {held}; write a class for each, a whole "
            f"number from 0 (-1: unknown) or a name. {NO_NUMBERS_OF_GRAPHS}"
        )
    most = max(len(known), MOST_CLASSES)
    for number, each in enumerate(known):
        if each is not None and not 0 <= each < most:
            raise ZooError(
                f"graph {number} of the list has the label {each}; number the classes 0, 1, 2, ... "
                "and write -1 where the label is unknown."
            )
    return np.array([-1 if each is None else each for each in known], np.int64), None


def _known(number: int, label: Any, called: str) -> Any:
    """Return the one number or text that the label of a graph is, None where it is unknown."""
    if label is None or isinstance(label, str):
        return label if label not in (None, "", "-1") else None
    found = array_of(label, called)
    if found.size != 1:
        raise ZooError(
            f"graph {number} of the list: `{called}` has the shape {found.shape}, and a graph "
            "has one class. Write one for each graph, of several targets the one that is meant, "
            "or leave it out where it is unknown; where these are labels of nodes, write one graph "
            "and no list."
        )
    [value] = found.reshape(-1).tolist()
    return None if value in (-1, "", "-1") else value
