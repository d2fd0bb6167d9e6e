"""Convert arrays, graphs of DGL and dicts of tensors to plain arrays of a graph."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from zoo.datasets.files.edge_arrays import are_canonical
from zoo.datasets.files.edge_columns import EdgeColumns, array_of
from zoo.datasets.files.graph_arrays import NO_EDGES, PARTS, GraphArrays, checked, plausible
from zoo.datasets.files.labels import REGRESSION, encode_text, is_word, unlabelled
from zoo.errors import ZooError, suggestion

LABELS = ("label", "labels", "y")
FEATURES = ("feat", "feature", "features", "x", "attr")
"""What node data is called by custom: the first that is there is taken."""


def from_arrays(
    edges: Any,
    features: Any = None,
    labels: Any = None,
    masks: Mapping[str, Any] | None = None,
    ids: Any = None,
    feature_names: Collection[str] | None = None,
    task: str | None = None,
) -> GraphArrays:
    """Return arrays, lists or tensors as `GraphArrays`; nodes without features have none.

    Args:
        edges: (E, 2) numbers of nodes, or ids where these are given.
        features: (N, F), dense or scipy sparse, or a table of pandas.
        labels: (N,) or (N, T), numbers or text; None: all unknown. Of text what is blank, missing
            or, of classes, -1 is unknown.
        masks: `train`, `val` and `test`, (N,) or (S, N) bool.
        ids: (N,) what each node is called.
        feature_names: a name for each feature; None: those of the columns of a table.
        task: what the labels are for.

    Raises:
        ZooError: nothing says how many nodes there are, or an id that no node has.
    """
    known = [each for each in (features, labels, ids) if each is not None]
    if not known:
        raise ZooError("nothing says how many nodes there are; give features, labels or ids.")
    nodes = known[0].shape[0] if hasattr(known[0], "shape") else len(known[0])
    labels, names = (unlabelled(nodes, task), None) if labels is None else _labels(labels, task)
    edges, ids = array_of(edges), None if ids is None else array_of(ids)
    edges = edges if edges.size else NO_EDGES
    feature_names = _column_names(features) if feature_names is None else feature_names
    if ids is not None:
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise ZooError(f"`edges` has the shape {edges.shape}; write (E, 2), two ids per edge.")
        edges = join(ids, (edges[:, 0], edges[:, 1]), "edges")
    if features is None:
        features = np.zeros((nodes, 0), np.float32)
    elif not sparse.issparse(features):
        features = writable(features)
    else:
        features = checked(sparse.csr_array(features))
    masks = masks and {part: np.atleast_2d(array_of(mask)) for part, mask in masks.items()}
    feature_names = feature_names and tuple(feature_names)
    return GraphArrays(edges, labels, features, masks, ids, names, feature_names, task)


def writable(values: Any) -> np.ndarray:
    """Return what `array_of` does, a copy where pandas lends an array that may not be written."""
    found = array_of(values)
    lent = not isinstance(values, np.ndarray) and not found.flags.writeable
    return found.copy() if lent else found


def _column_names(table: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a table, such as pandas has, where all are text."""
    names = tuple(getattr(table, "columns", ()))
    return names if names and all(isinstance(each, str) for each in names) else None


def _labels(labels: Any, task: str | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return labels as numbers, and the names of classes where they are text."""
    found = writable(labels)
    if found.dtype.kind not in "UO":
        return found, None
    if found.dtype.kind == "U" and not hasattr(labels, "dtype"):  # a list, NaN of which is now text
        found = np.array(labels, dtype=object)
    if found.dtype == object:
        plain = ["" if _is_missing(each) else str(each) for each in found.ravel().tolist()]
        found = np.array(plain, dtype=str).reshape(found.shape)
    if found.ndim == 1 and task != REGRESSION:
        found = np.where(is_word(found, "-1"), "", found)
    return encode_text(found, task)


def _is_missing(value: Any) -> bool:
    """Return whether a label is None, NaN, or what pandas has in their place."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def from_dgl(
    graph: Any,
    label: str | None = None,
    feature: str | None = None,
    edges: EdgeColumns = EdgeColumns(),  # noqa: B008 (a tuple)
    task: str | None = None,
) -> GraphArrays:
    """Return a DGLGraph with its node data; masks are `train_mask`, `val_mask`, `test_mask`.

    Args:
        graph: with nodes and edges of one kind; of several see `node_kinds.of_dgl`.
        label: the node data that is the label; None: the first of `LABELS` that is there.
        feature: the node data that is the features; None: the first of `FEATURES`.
        edges: what is read of edge data.
        task: what the labels are for.

    Raises:
        ZooError: edge data that nobody named, or no such node data.
    """
    found = edges.read({key: x for key, x in graph.edata.items() if not key.startswith("_")})
    ends = np.stack([each.cpu().numpy() for each in graph.edges()], axis=1)
    arrays = from_tensors(dict(graph.ndata), ends, graph.num_nodes(), label, feature, task)
    return in_form(arrays._replace(**found))


def in_form(arrays: GraphArrays) -> GraphArrays:
    """Return what was a DGL graph with weights as `canonical` where it is, as the zoo's own are."""
    known = arrays.weights is not None and are_canonical(arrays.edges, len(arrays.labels))
    return arrays._replace(form="canonical") if known else arrays


def from_tensors(
    data: Mapping[str, Any],
    edges: np.ndarray,
    nodes: int,
    label: str | None = None,
    feature: str | None = None,
    task: str | None = None,
) -> GraphArrays:
    """Return node data by name, such as DGL's or PyG's, as `GraphArrays`; see `from_dgl`."""
    nodes = plausible(nodes, len(edges))
    named = _named(data, label, LABELS, "label")
    labels = unlabelled(nodes, task) if named is None else array_of(data[named])
    if labels.ndim == 2 and labels.shape[1] == 1:  # PyG and OGB write (N, 1) for one class
        labels = labels[:, 0]
    if labels.dtype.kind in "iub" and (task == REGRESSION or labels.ndim == 2):
        labels = labels.astype(np.float32)  # which has a NaN for the nodes of other kinds
    named = _named(data, feature, FEATURES, "feature")
    features = np.zeros((nodes, 0), np.float32) if named is None else array_of(data[named])
    if features.ndim == 1:
        features = features[:, None]
    masks = {part: data[f"{part}_mask"] for part in PARTS if f"{part}_mask" in data}
    if 0 < len(masks) < len(PARTS):
        raise ZooError(
            f"of the masks only {', '.join(f'{each}_mask' for each in masks)} are there; write "
            "train_mask, val_mask and test_mask, or none."
        )
    # PyG writes several splits as (N, S).
    masks = {part: array_of(mask).T.reshape(-1, nodes) for part, mask in masks.items()} or None
    if masks and not all(each.dtype == bool for each in masks.values()):
        masks = {part: mask.astype(bool) for part, mask in masks.items()}
    return GraphArrays(edges.astype(np.int64), labels, features, masks)


def _named(data: Mapping, given: str | None, known: tuple[str, ...], option: str) -> str | None:
    if given is not None and given not in data:
        raise ZooError(f"there is no node data {given!r}; {suggestion(given, data)}")
    found = given or next((each for each in known if each in data), None)
    other = [each for each in data if not each.startswith("_") and not each.endswith("_mask")]
    if found is None and other and option == "feature" and not set(other) <= set(LABELS):
        raise ZooError(
            f"the node data is called {', '.join(map(repr, data))}; write `feature: NAME` for the "
            "features, and `label: NAME` for the labels."
        )
    return found


def join(ids: np.ndarray, ends: Sequence[np.ndarray], where: str) -> np.ndarray:
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
