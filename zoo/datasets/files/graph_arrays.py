"""A graph as plain NumPy arrays, and their validation: each error says what to write instead.

Errors name the keys of a prepared file, where nearly all arrays come from.
"""

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from zoo.datasets.files.edge_arrays import (
    are_canonical,
    check_edge_features,
    check_edges,
    check_weights,
)
from zoo.datasets.files.labels import check_labels, check_plain, empty_parts, first_true
from zoo.errors import ZooError
from zoo.system.memory import available_memory

PARTS = ("train", "val", "test")

FORMS = ("undirected", "canonical")
"""What the rows of edges may be, where not each is of one direction."""

NO_EDGES = np.zeros((0, 2), np.int64)
"""The edges of samples without a graph."""

_MANY = 1_000_000
"""Nodes from which on a file must have edges for a thousandth of them to be believed."""


class GraphArrays(NamedTuple):
    """A graph as arrays: what a prepared file holds, and what `write_prepared` writes.

    Attributes:
        edges: (E, 2) node numbers from 0; one direction of an edge is enough.
        labels: (N,) classes from 0, -1 = unknown; or (N, T) targets of 0 and 1, NaN = unknown; or
            numbers of either shape, NaN = unknown, where `task` is `node-regression`.
        features: (N, F) numbers, dense or a scipy CSR array.
        masks: `train`, `val` and `test`, each (S, N) bool: S fixed splits; None without any.
        ids: (N,) what the user calls each node, whole numbers or text; None: by their numbers.
        label_names: the name of each class, or of each target; None where they have none.
        feature_names: the name of each column of `features`; None where columns have none.
        task: what the labels are for; None: as their shape says.
        weights: (E,) weights of the edges, from 0; None: all are 1.
        columns: what `features` are learnt of, `tables.feature_columns`; None: they stand as are.
        times: (N,) when each node came, NaN where unknown; None: not said.
        groups: (N,) text, which group each node is of, "" for none; None: not said.
        relations: (E,) which of `relation_names` each edge is; None: all are of one kind.
        relation_names: what the kinds of edges are called.
        edge_features: (E, F) numbers; None: there are none.
        edge_feature_names: what these are called; None where they have no names.
        form: `undirected`: each row is an edge of both directions, whichever is asked for;
            `canonical`: those of a canonical graph, whose weights stand as they are where none is
            asked for; None: each row leads from its first node to its second.
        kinds: (N,) text, the kind of each node; None: all are of one kind, or it is not said.
        learnt: what features that stand as they are had been learnt of a table by; None: by none.
    """

    edges: np.ndarray
    labels: np.ndarray
    features: np.ndarray | sparse.csr_array
    masks: dict[str, np.ndarray] | None = None
    ids: np.ndarray | None = None
    label_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    task: str | None = None
    weights: np.ndarray | None = None
    columns: Any = None
    times: np.ndarray | None = None
    groups: np.ndarray | None = None
    relations: np.ndarray | None = None
    relation_names: tuple[str, ...] | None = None
    edge_features: np.ndarray | None = None
    edge_feature_names: tuple[str, ...] | None = None
    form: str | None = None
    kinds: np.ndarray | None = None
    learnt: tuple[Any, ...] | None = None


def check_arrays(arrays: GraphArrays) -> GraphArrays:
    """Return the arrays in the types of a data set, all checked against each other.

    Raises:
        ZooError: one paragraph with the key that is wrong, where, and what to write instead.
    """
    labels = check_labels(arrays.labels, arrays.task)
    features = check_features(arrays.features, len(labels), arrays.ids, arrays.feature_names)
    edges = check_edges(arrays.edges, len(labels))
    masks = check_masks(arrays.masks, len(labels))
    ids = None if arrays.ids is None else check_ids(arrays.ids, len(labels))
    check_names(arrays._replace(labels=labels))
    weights = None if arrays.weights is None else check_weights(arrays.weights, len(edges))
    _check_rows_of("node_times", arrays.times, len(labels), "iuf")
    _check_rows_of("node_groups", arrays.groups, len(labels), "U")
    _check_rows_of("node_kinds", arrays.kinds, len(labels), "U")
    _check_rows_of("edge_relations", arrays.relations, len(edges), "iu")
    if arrays.relations is not None:
        known = len(arrays.relation_names or ())
        if len(edges) and not 0 <= arrays.relations.min() <= arrays.relations.max() < known:
            raise ZooError(
                f"`edge_relations` are from {arrays.relations.min()} to {arrays.relations.max()}, "
                f"and `relation_names` has {known} names; write numbers from 0, and their names."
            )
    if arrays.form is not None:
        _check_form(arrays.form, edges, len(labels))
    checked = {"edges": edges, "labels": labels, "features": features, "masks": masks}
    if arrays.edge_features is not None:
        checked["edge_features"] = check_edge_features(arrays.edge_features, len(edges))
        _check_names_of("edge_feature", arrays.edge_feature_names, checked["edge_features"].shape)
    return arrays._replace(**checked, ids=ids, weights=weights)


def _check_form(form: str, edges: np.ndarray, nodes: int) -> None:
    if form not in FORMS:
        raise ZooError(f"`edge_form` is {form!r}; write {' or '.join(FORMS)}, or leave it out.")
    if form == "canonical" and not are_canonical(edges, nodes):
        raise ZooError(
            "`edge_form` is canonical, and the edges are not both directions of each, none of them "
            "twice, with a self-loop of each node; leave `edge_form` out."
        )


def _check_rows_of(key: str, values: np.ndarray | None, rows: int, kinds: str) -> None:
    """Refuse values, where there are some, that are not one number, or text, for each row."""
    if values is not None and (values.shape != (rows,) or values.dtype.kind not in kinds):
        wanted = "text" if kinds == "U" else "numbers"
        raise ZooError(
            f"`{key}` is {values.dtype} of the shape {values.shape} and should be {wanted} of the "
            f"shape ({rows},)."
        )


def check_ids(ids: np.ndarray, nodes: int) -> np.ndarray:
    """Return ids (N,) as int64 or text, all different."""
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iuU":
        kind = getattr(ids, "dtype", type(ids).__name__)
        raise ZooError(
            f"`node_ids` is of type {kind}; write a plain numpy array of whole numbers or of text "
            "(np.array(ids, dtype=str))."
        )
    if ids.shape != (nodes,):
        raise ZooError(f"`node_ids` has the shape {ids.shape} and should have ({nodes},).")
    unique, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if len(unique) < nodes:
        twice = ids[first[counts > 1].min()]
        rows = np.flatnonzero(ids == twice)[:2].tolist()
        raise ZooError(
            f"the id {twice!s} is that of several nodes (rows {rows[0]} and {rows[1]}, of "
            f"{(counts > 1).sum():,} such ids); give each node an id of its own."
        )
    if ids.dtype.kind == "u" and ids.max(initial=0) > np.iinfo(np.int64).max:
        raise ZooError("`node_ids` has numbers beyond 2^63; write text, np.array(ids, dtype=str).")
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64, copy=False)


def check_names(arrays: GraphArrays) -> None:
    """Refuse names that are not one for each column of features, or for each class or target."""
    labels = arrays.labels
    _check_names_of("feature", arrays.feature_names, arrays.features.shape)
    if arrays.label_names is None:
        return
    if labels.ndim == 1 and labels.dtype.kind == "f":
        raise ZooError("`label_names` are names of classes, and numbers have none; leave it out.")
    count = len(arrays.label_names)
    least = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
    if count < least or (labels.ndim == 2 and count > least):
        raise ZooError(f"`label_names` has {count} names; write {least}, one for each class.")


def _check_names_of(what: str, names: tuple[str, ...] | None, shape: tuple[int, ...]) -> None:
    """Refuse names, where there are some, that are not one of its own for each column (N, F)."""
    columns = int(np.prod(shape[1:]))
    if names is not None and len(names) != columns:
        raise ZooError(f"`{what}_names` has {len(names)} names; write {columns}, one for each "
                       f"column of {what.replace('_', ' ')}s {shape}.")  # fmt: skip
    for name, times in Counter(names or ()).items():
        if times > 1:
            raise ZooError(f"`{what}_names` has {str(name)!r} twice; give each column its own.")


def check_features(
    features: np.ndarray | sparse.csr_array,
    nodes: int,
    ids: np.ndarray | None = None,
    names: tuple[str, ...] | None = None,
) -> np.ndarray | sparse.csr_array:
    """Return features (N, F) as finite fp32, dense or sparse as they were."""
    check_rows(features, nodes)
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is found below
        features = features.astype(np.float32, copy=False)
    values = features.data if sparse.issparse(features) else features
    if not np.isfinite(values).all():
        row, column = _place(features, first_true(~np.isfinite(values)))
        node = "" if ids is None or len(ids) != nodes else f" (the node {ids[row]})"
        name = "" if names is None else f" ({names[column]!r})"
        fix = (
            "fill in what is missing (of a table `missing: mean` or frame.fillna(0), of an array "
            "np.nan_to_num(features))."
            if np.isnan(features[row, column])
            else "replace what is infinite, or too large for float32."
        )
        raise ZooError(
            f"`node_features` is not finite at row {row}{node}, column {column}{name}; {fix}"
        )
    return features


def check_rows(features: np.ndarray | sparse.csr_array, nodes: int) -> None:
    """Refuse features that are no numbers (N, F)."""
    if not sparse.issparse(features):
        check_plain("node_features", features)
    if features.ndim != 2 or features.dtype.kind not in "iufb":
        raise ZooError(
            f"`node_features` is {features.dtype} of the shape {features.shape} and should be "
            "float32 of the shape (N, F): a row of numbers per node"
            f"{', of one np.asarray(features)[:, None]' if features.ndim == 1 else ''}."
        )
    if features.shape[0] != nodes:
        raise ZooError(
            f"`node_features` has {features.shape[0]:,} rows and `node_labels` has {nodes:,}; "
            "write one of each per node, in the same order."
        )


def check_room(shape: tuple[int, int]) -> None:
    """Refuse features (N, F) that do not fit into memory as a dense array."""
    size = 4 * shape[0] * shape[1]
    if size > available_memory():
        raise ZooError(
            f"the features take {size / 1e9:,.0f} GB as a dense array, more than there is memory; "
            "keep fewer columns."
        )


def _place(features: np.ndarray | sparse.csr_array, where: tuple[int, ...]) -> tuple[int, int]:
    if not sparse.issparse(features):
        return where
    return int(features.indptr.searchsorted(where[0], "right")) - 1, int(features.indices[where[0]])


def check_masks(masks: dict[str, np.ndarray] | None, nodes: int) -> dict[str, np.ndarray] | None:
    """Return masks (S, N) bool, disjoint, and of several splits nowhere empty; or None."""
    if masks is None:
        return None
    if sorted(masks) != sorted(PARTS):
        raise ZooError(f"masks are a dict of {', '.join(PARTS)}, not of {', '.join(masks)}.")
    for part, mask in masks.items():
        key = f"{part}_masks"
        check_plain(key, mask)
        if mask.dtype != bool:
            fix = mask_of(mask, key, nodes, f"(S, {nodes})")
            raise ZooError(f"`{key}` is of type {mask.dtype}; {fix}")
        if mask.ndim != 2 or mask.shape[1] != nodes:
            fix = "write mask[None]" if mask.shape == (nodes,) else "write a row per split"
            raise ZooError(
                f"`{key}` has the shape {mask.shape} and should have (S, {nodes}); {fix}."
            )
    splits = {part: len(mask) for part, mask in masks.items()}
    if len(set(splits.values())) > 1 or 0 in splits.values():
        raise ZooError(
            f"the masks hold {splits} splits; write the same number of rows, at least one, in each."
        )
    for part, mask in masks.items():
        if not (mask.any(axis=1).all() or empty_parts(masks)):
            where = first_true(~mask.any(axis=1))[0]
            raise ZooError(f"`{part}_masks` is empty in split {where}; choose at least one node.")
    _check_disjoint(masks)
    return masks


def mask_of(numbers: np.ndarray, key: str, nodes: int, form: str) -> str:
    """Return what to write in the place of numbers (..., N) where a mask of a form belongs.

    Numbers of 0 and 1, one for each node, are one but for their type; whole numbers are those of
    the nodes that are in a part.
    """
    if numbers.shape[-1:] == (nodes,) and ((numbers == 0) | (numbers == 1)).all():
        return "write np.asarray(mask).astype(bool)."
    said = f"a mask says of each of the {nodes:,} nodes whether it is in, True or False"
    if numbers.dtype.kind in "iu" and numbers.size == max(numbers.shape):
        return f"{said}, and these are numbers of nodes: write np.isin(np.arange({nodes}), {key})."
    return f"{said}; write it as {form}."


def _check_disjoint(masks: dict[str, np.ndarray]) -> None:
    shared = sum(mask.astype(np.int8) for mask in masks.values()) > 1
    if shared.any():
        where = first_true(shared.any(axis=1))[0]
        raise ZooError(
            f"the masks overlap: {shared[where].sum():,} nodes of split {where} (the first is node "
            f"{first_true(shared[where])[0]}) are in more than one of train, val and test; leave "
            "each in one, or scores will count nodes that were trained on."
        )


def checked(matrix: sparse.sparray) -> sparse.csr_array:
    """Return a matrix from outside in CSR form, its parts checked: scipy itself trusts them.

    Raises:
        ValueError: indices that leave the matrix, or parts of lengths that do not fit.
    """
    matrix.check_format(full_check=True)
    return sparse.csr_array(matrix)


def plausible(nodes: int, edges: int) -> int:
    """Return a number of nodes that a file claims, unless hardly any of them can have an edge."""
    if nodes > _MANY and nodes > _MANY * max(edges, 1) / 1000:
        raise ZooError(
            f"there would be {nodes:,} nodes with {edges:,} edges; number the nodes 0, 1, 2, ... "
            "so that there are only as many as take part."
        )
    return nodes
