"""Convert in-memory graphs of DGL, NetworkX and SciPy, and dicts of tensors, to plain arrays."""

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from zoo.datasets.files.columns import Columns, node_arrays
from zoo.datasets.files.graph_arrays import NO_EDGES, PARTS, GraphArrays, checked
from zoo.datasets.files.labels import encode_text, unlabelled
from zoo.datasets.files.tables import join
from zoo.errors import ZooError, suggestion

LABELS = ("label", "labels", "y")
FEATURES = ("feat", "feature", "features", "x", "attr")
"""What node data is called by custom: the first that is there is taken."""

_MANY = 1_000_000
"""Nodes from which on a file must have edges for a thousandth of them to be believed."""

_WEIGHTED = (
    "no model here uses weights or features of edges; write `weights: ignore` to read the graph "
    "without them."
)


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
        features: (N, F), dense or scipy sparse.
        labels: (N,) or (N, T), numbers or text; None: all unknown.
        masks: `train`, `val` and `test`, (N,) or (S, N) bool.
        ids: (N,) what each node is called.
        feature_names: a name for each feature.
        task: what the labels are for.

    Raises:
        ZooError: nothing says how many nodes there are, or an id that no node has.
    """
    known = [each for each in (features, labels, ids) if each is not None]
    if not known:
        raise ZooError("nothing says how many nodes there are; give features, labels or ids.")
    nodes = known[0].shape[0] if hasattr(known[0], "shape") else len(known[0])
    labels = unlabelled(nodes, task) if labels is None else _array(labels)
    names = None
    if labels.dtype.kind in "UO":
        filled = np.where(labels == None, "", labels) if labels.dtype == object else labels  # noqa: E711
        labels, names = encode_text(filled.astype(str), task)
    edges, ids = _array(edges), None if ids is None else _array(ids)
    edges = edges if edges.size else NO_EDGES
    if ids is not None:
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise ZooError(f"`edges` has the shape {edges.shape}; write (E, 2), two ids per edge.")
        edges = join(ids, (edges[:, 0], edges[:, 1]), "edges")
    if features is None:
        features = np.zeros((nodes, 0), np.float32)
    elif not sparse.issparse(features):
        features = _array(features)
    else:
        features = checked(sparse.csr_array(features))
    masks = masks and {part: np.atleast_2d(_array(mask)) for part, mask in masks.items()}
    feature_names = feature_names and tuple(feature_names)
    return GraphArrays(edges, labels, features, masks, ids, names, feature_names, task)


def from_dgl(
    graph: Any, label: str | None = None, feature: str | None = None, weights: str | None = None
) -> GraphArrays:
    """Return a DGLGraph with its node data; masks are `train_mask`, `val_mask`, `test_mask`.

    Args:
        graph: with nodes and edges of one kind.
        label: the node data that is the label; None: the first of `LABELS` that is there.
        feature: the node data that is the features; None: the first of `FEATURES`.
        weights: `ignore` reads the graph without its edge data.

    Raises:
        ZooError: several kinds of nodes or edges, edge data, or no such node data.
    """
    if not graph.is_homogeneous:
        raise ZooError(
            "the graph has several kinds of nodes or edges: write dgl.to_homogeneous(graph) first."
        )
    refuse_weights([key for key in graph.edata if not key.startswith("_")], weights)
    edges = np.stack([ends.cpu().numpy() for ends in graph.edges()], axis=1)
    return from_tensors(dict(graph.ndata), edges, graph.num_nodes(), label, feature)


def from_tensors(
    data: Mapping[str, Any],
    edges: np.ndarray,
    nodes: int,
    label: str | None = None,
    feature: str | None = None,
) -> GraphArrays:
    """Return node data by name, such as DGL's or PyG's, as `GraphArrays`; see `from_dgl`."""
    nodes = _plausible(nodes, len(edges))
    named = _named(data, label, LABELS, "label")
    labels = unlabelled(nodes) if named is None else _array(data[named])
    if labels.ndim == 2 and labels.shape[1] == 1:  # PyG and OGB write (N, 1) for one class
        labels = labels[:, 0]
    named = _named(data, feature, FEATURES, "feature")
    features = np.zeros((nodes, 0), np.float32) if named is None else _array(data[named])
    if features.ndim == 1:
        features = features[:, None]
    masks = {part: data[f"{part}_mask"] for part in PARTS if f"{part}_mask" in data}
    if 0 < len(masks) < len(PARTS):
        raise ZooError(
            f"of the masks only {', '.join(f'{each}_mask' for each in masks)} are there; write "
            "train_mask, val_mask and test_mask, or none."
        )
    # PyG writes several splits as (N, S).
    masks = {part: _array(mask).T.reshape(-1, nodes) for part, mask in masks.items()} or None
    if masks and not all(each.dtype == bool for each in masks.values()):
        masks = {part: mask.astype(bool) for part, mask in masks.items()}
    return GraphArrays(edges.astype(np.int64), labels, features, masks)


def from_networkx(graph: Any, choice: Columns, weights: str | None = None) -> GraphArrays:
    """Return a NetworkX graph; node attributes are columns, and the nodes themselves the ids.

    Raises:
        ZooError: edge attributes, or node attributes that are no columns of numbers or text.
    """
    import pyarrow

    attributes = {key for *_, data in graph.edges(data=True) for key in data}
    refuse_weights(sorted(attributes - {"id"}), weights)  # GraphML numbers parallel edges
    rows = [data for _, data in graph.nodes(data=True)]
    names = sorted({str(key) for row in rows for key in row})
    columns = {name: _column(name, [row.get(name) for row in rows]) for name in names}
    ids = _array([str(node) if isinstance(node, str) else node for node in graph.nodes])
    if ids.dtype.kind not in "iuU" or ids.ndim != 1:
        ids = np.array([str(node) for node in graph.nodes], dtype=str)
    for option, given in (("label", choice.labels(names)), ("columns", choice.features(names))):
        for each in given:
            if each not in names:
                raise ZooError(f"{option}: no node has {each!r}; {suggestion(each, names)}")
    table = pyarrow.table(columns) if columns else pyarrow.table({"": pyarrow.nulls(len(rows))})
    choice = dataclasses.replace(choice, id=None, columns=choice.columns if columns else [])
    arrays = node_arrays(table, choice, "the nodes")
    places = {node: place for place, node in enumerate(graph.nodes)}
    edges = np.array([(places[a], places[b]) for a, b, *_ in graph.edges], np.int64).reshape(-1, 2)
    return arrays._replace(edges=edges, ids=ids)


def from_scipy(
    adjacency: Any, nodes: GraphArrays | None = None, weights: str | None = None
) -> GraphArrays:
    """Return an adjacency matrix (N, N) as edges, with the nodes' labels and features if given.

    Raises:
        ZooError: the matrix is not square, has weights, or another number of nodes.
    """
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ZooError(
            f"the matrix is {adjacency.shape} and no adjacency matrix: it should have a row and a "
            "column per node."
        )
    count = _plausible(adjacency.shape[0], adjacency.nnz)
    if adjacency.format in ("csr", "csc", "bsr"):  # scipy trusts their parts, even broken ones
        adjacency.check_format(full_check=True)
    entries = adjacency.tocoo()
    filled = entries.data != 0
    if not (entries.data[filled] == 1).all() and weights is None:
        raise ZooError(f"the matrix has other entries than 0 and 1: weights, and {_WEIGHTED}")
    edges = np.stack([entries.row[filled], entries.col[filled]], axis=1).astype(np.int64)
    if nodes is None:
        return GraphArrays(edges, unlabelled(count), np.zeros((count, 0), np.float32))
    if len(nodes.labels) != count:
        raise ZooError(
            f"the matrix has {count:,} nodes, and the table of nodes {len(nodes.labels):,} rows; "
            "write a row per node, in the order of the matrix."
        )
    return nodes._replace(edges=edges)


def _plausible(nodes: int, edges: int) -> int:
    """Return a number of nodes that a file claims, unless hardly any of them can have an edge."""
    if nodes > _MANY and nodes > _MANY * max(edges, 1) / 1000:
        raise ZooError(
            f"there would be {nodes:,} nodes with {edges:,} edges; number the nodes 0, 1, 2, ... "
            "so that there are only as many as take part."
        )
    return nodes


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


def _column(name: str, values: list):
    import pyarrow

    kinds = {type(each) for each in values if each is not None}
    if kinds <= {str}:
        return pyarrow.array(values, pyarrow.string())
    if kinds <= {bool, int, float}:
        whole = kinds == {int} and None not in values
        kind = pyarrow.int64() if whole else pyarrow.float64()
        return pyarrow.array([None if v is None else int(v) if whole else float(v) for v in values],
                             kind)  # fmt: skip
    found = ", ".join(sorted(each.__name__ for each in kinds))
    raise ZooError(f"the node attribute {name!r} is of type {found}; write numbers, or text.")


def refuse_weights(names: list[str], weights: str | None) -> None:
    """Refuse edge data of these names, unless `weights` is `ignore`."""
    if names and weights is None:
        raise ZooError(f"the edges have {', '.join(map(repr, map(str, names)))}, and {_WEIGHTED}")


def _array(values: Any) -> np.ndarray:
    detach = getattr(values, "detach", None)  # a tensor, perhaps on a GPU
    return np.asarray(values if detach is None else detach().cpu())
