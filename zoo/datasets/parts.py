"""The arrays that a graph comes as, and the door: what is wrong with them is said with its fix.

The sentences name the keys of a prepared file, where nearly all arrays come from.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from zoo.errors import ZooError

SPLITS = ("train", "val", "test")

_MOST_CLASSES = 1000  # that a graph with fewer nodes may have, as a piece of a larger one


class Parts(NamedTuple):
    """A graph as arrays: what a prepared file holds, and what `write_prepared` writes.

    Attributes:
        edges: (E, 2) node numbers from 0; one direction of an edge is enough.
        labels: (N,) classes from 0, -1 = unknown; or (N, T) targets of 0 and 1, NaN = unknown.
        features: (N, F) numbers, dense or a scipy CSR array.
        masks: `train`, `val` and `test`, each (S, N) bool: S fixed splits; None without any.
    """

    edges: np.ndarray
    labels: np.ndarray
    features: np.ndarray | sparse.csr_array
    masks: dict[str, np.ndarray] | None = None


def check_parts(parts: Parts) -> Parts:
    """Return the parts in the types of a data set, all checked against each other.

    Raises:
        ZooError: one paragraph with the key that is wrong, where, and what to write instead.
    """
    labels = check_labels(parts.labels)
    features = check_features(parts.features, len(labels))
    edges = check_edges(parts.edges, len(labels))
    return Parts(edges, labels, features, check_masks(parts.masks, len(labels)))


def check_edges(edges: np.ndarray, nodes: int) -> np.ndarray:
    """Return edges (E, 2) as int64, all between nodes 0 and N-1."""
    _check_plain("edges", edges)
    if edges.ndim != 2 or edges.shape[1] != 2:
        turned = edges.ndim == 2 and edges.shape[0] == 2
        fix = "write edges.T" if turned else "write one row per edge: its two nodes"
        raise ZooError(f"`edges` has the shape {edges.shape} and should have (E, 2); {fix}.")
    if edges.dtype.kind not in "iu":
        raise ZooError(
            f"`edges` is of type {edges.dtype} and should be int64: node numbers from 0; write "
            "edges.astype('int64')."
        )
    wrong = (edges < 0) | (edges >= nodes)
    if wrong.any():
        where = first_true(wrong)[0]
        raise ZooError(
            f"`edges` row {where} is {edges[where].tolist()}, but there are {nodes:,} nodes, 0 to "
            f"{nodes - 1}; number the nodes from 0, or add the missing ones to `node_labels` and "
            "`node_features`."
        )
    return edges.astype(np.int64, copy=False)


def check_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels (N,) as int64, -1 = unknown, or targets (N, T) as fp32, NaN = unknown."""
    _check_plain("node_labels", labels)
    if labels.ndim not in (1, 2):
        raise ZooError(
            f"`node_labels` has the shape {labels.shape} and should have (N,): a class per node, "
            "or (N, T): targets of 0 and 1."
        )
    if labels.size == 0:
        raise ZooError(
            f"`node_labels` has the shape {labels.shape}: the graph is empty; write a label per "
            "node, -1 where it is unknown."
        )
    return _check_classes(labels) if labels.ndim == 1 else _check_targets(labels)


def _check_classes(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind not in "iu":
        raise ZooError(
            f"`node_labels` is of type {labels.dtype} and should be int64: classes 0, 1, 2, ... "
            "and -1 where unknown; write labels.astype('int64')."
        )
    most = max(len(labels), _MOST_CLASSES)
    wrong = (labels < -1) | (labels >= most)
    if wrong.any():
        node = first_true(wrong)[0]
        raise ZooError(
            f"`node_labels` holds {labels[node]} at node {node}; number the classes 0, 1, 2, ... "
            "and write -1 where the label is unknown."
        )
    return labels.astype(np.int64, copy=False)


def _check_targets(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind not in "iufb":
        raise ZooError(f"`node_labels` is of type {labels.dtype} and should be float32: 0, 1, NaN.")
    labels = labels.astype(np.float32, copy=False)
    unknown = np.isnan(labels)
    wrong = ~unknown & (labels != 0) & (labels != 1)
    if wrong.any():
        node, target = first_true(wrong)
        raise ZooError(
            f"`node_labels` holds {labels[node, target]:g} at node {node}, target {target}; write "
            "0 or 1, NaN where it is unknown, or labels of shape (N,) for one class per node."
        )
    return labels


def check_features(features: np.ndarray | sparse.csr_array, nodes: int):
    """Return features (N, F) as finite fp32, dense or sparse as they were."""
    if not sparse.issparse(features):
        _check_plain("node_features", features)
    if features.ndim != 2 or features.dtype.kind not in "iufb":
        raise ZooError(
            f"`node_features` is {features.dtype} of the shape {features.shape} and should be "
            "float32 of the shape (N, F): a row of numbers per node."
        )
    if features.shape[0] != nodes:
        raise ZooError(
            f"`node_features` has {features.shape[0]:,} rows and `node_labels` has {nodes:,}; "
            "write one of each per node, in the same order."
        )
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is found below
        features = features.astype(np.float32, copy=False)
    values = features.data if sparse.issparse(features) else features
    if not np.isfinite(values).all():
        row, column = _place(features, first_true(~np.isfinite(values)))
        raise ZooError(
            f"`node_features` is not finite at row {row}, column {column}; replace what is "
            "missing, for example np.nan_to_num(features), and values too large for float32."
        )
    return features


def _place(features: np.ndarray | sparse.csr_array, where: tuple[int, ...]) -> tuple[int, int]:
    if not sparse.issparse(features):
        return where
    return int(features.indptr.searchsorted(where[0], "right")) - 1, int(features.indices[where[0]])


def check_masks(masks: dict[str, np.ndarray] | None, nodes: int) -> dict[str, np.ndarray] | None:
    """Return masks (S, N) bool of train, val and test, disjoint and nowhere empty; or None."""
    if masks is None:
        return None
    if sorted(masks) != sorted(SPLITS):
        raise ZooError(f"masks are a dict of {', '.join(SPLITS)}, not of {', '.join(masks)}.")
    for part, mask in masks.items():
        key = f"{part}_masks"
        _check_plain(key, mask)
        if mask.dtype != bool:
            raise ZooError(f"`{key}` is of type {mask.dtype}; write mask.astype(bool).")
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
        if not mask.any(axis=1).all():
            where = first_true(~mask.any(axis=1))[0]
            raise ZooError(f"`{part}_masks` is empty in split {where}; choose at least one node.")
    _check_disjoint(masks)
    return masks


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


def first_true(wrong: np.ndarray) -> tuple[int, ...]:
    """Return the index of the first True, as plain numbers."""
    return tuple(int(each) for each in np.unravel_index(wrong.argmax(), wrong.shape))


def _check_plain(key: str, array: np.ndarray) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iufb":
        kind = getattr(array, "dtype", type(array).__name__)
        raise ZooError(f"`{key}` is of type {kind}; write a plain numpy array of numbers.")
