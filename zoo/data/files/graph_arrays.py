"""A graph, or many, as plain NumPy arrays, and their one check: each error says what to write.

Errors name the keys of a prepared file, where nearly all arrays come from.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from zoo.errors import ZooError, brief, suggestion
from zoo.system.memory import available_memory
from zoo.tasks.labels import GRAPHS, check_labels, check_plain, empty_parts, first_true

PARTS = ("train", "val", "test")

FORMS = ("undirected", "canonical")
"""What the rows of edges may be, where not each is of one direction."""

NO_EDGES = np.zeros((0, 2), np.int64)
"""The edges of samples without a graph."""

_MANY = 1_000_000
"""Nodes from which on a file must have edges for a thousandth of them to be believed."""

Duplicates = Literal["mean", "sum", "max"]
Direction = Literal["both", "in", "out", "separate"]
Relations = Literal["together", "separate"]


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
        columns: what `features` are learnt of, `tables.encode`; None: they stand as are.
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
        edge_times: (E,) when each edge came; None: not said.
        edge_parts: (E,) text, the part of links that each edge is of, "" for none; None: not said.
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
    edge_times: np.ndarray | None = None
    edge_parts: np.ndarray | None = None


def check_arrays(arrays: GraphArrays) -> GraphArrays:
    """Return the arrays in the types of a data set, all checked against each other.

    Raises:
        ZooError: one paragraph with the key that is wrong, where, and what to write instead.
    """
    labels = check_labels(arrays.labels, arrays.task)
    nodes = len(labels)
    features = check_features(arrays.features, nodes, arrays.ids, arrays.feature_names)
    edges = check_edges(arrays.edges, nodes)
    masks = check_masks(arrays.masks, nodes)
    ids = None if arrays.ids is None else check_ids(arrays.ids, nodes)
    check_names(arrays._replace(labels=labels))
    weights, edge_features = arrays.weights, arrays.edge_features
    if weights is not None:
        weights = check_weights(weights, len(edges))
    for key, values, rows, kinds in (
        ("node_times", arrays.times, nodes, "iuf"),
        ("node_groups", arrays.groups, nodes, "U"),
        ("node_kinds", arrays.kinds, nodes, "U"),
        ("edge_relations", arrays.relations, len(edges), "iu"),
        ("edge_times", arrays.edge_times, len(edges), "iuf"),
        ("edge_parts", arrays.edge_parts, len(edges), "U"),
    ):
        if values is not None and (values.shape != (rows,) or values.dtype.kind not in kinds):
            raise ZooError(
                f"`{key}` is {values.dtype} of the shape {values.shape} and should be "
                f"{'text' if kinds == 'U' else 'numbers'} of the shape ({rows},)."
            )
    known = len(arrays.relation_names or ())
    if (
        arrays.relations is not None
        and ((arrays.relations < 0) | (arrays.relations >= known)).any()
    ):
        raise ZooError(
            f"`edge_relations` are from {arrays.relations.min()} to {arrays.relations.max()}, "
            f"and `relation_names` has {known} names; write numbers from 0, and their names."
        )
    if arrays.form is not None and arrays.form not in FORMS:
        raise ZooError(
            f"`edge_form` is {arrays.form!r}; write {' or '.join(FORMS)}, or leave it out."
        )
    if arrays.form == "canonical" and not are_canonical(edges, nodes):
        raise ZooError(
            "`edge_form` is canonical, and the edges are not both directions of each, none of them "
            "twice, with a self-loop of each node; leave `edge_form` out."
        )
    if edge_features is not None:
        edge_features = check_edge_features(edge_features, len(edges))
        _check_column_names("edge_feature", arrays.edge_feature_names, edge_features.shape)
    return arrays._replace(
        edges=edges, labels=labels, features=features, masks=masks, ids=ids, weights=weights,
        edge_features=edge_features,
    )  # fmt: skip


def check_ids(ids: np.ndarray, nodes: int) -> np.ndarray:
    """Return ids (N,) as int64 or text, all different."""
    if not isinstance(ids, np.ndarray) or ids.dtype.kind not in "iuU" or ids.shape != (nodes,):
        kind = getattr(ids, "dtype", type(ids).__name__)
        raise ZooError(
            f"`node_ids` is {kind} of the shape {np.shape(ids)}; write an array ({nodes},) of "
            "whole numbers or of text, none of which is missing."
        )
    unique, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if len(unique) < nodes:
        repeated = ids[first[counts > 1].min()]
        rows = np.flatnonzero(ids == repeated)[:2].tolist()
        raise ZooError(
            f"the id {repeated!s} is that of several nodes (rows {rows[0]} and {rows[1]}, of "
            f"{(counts > 1).sum():,} such ids); give each node an id of its own."
        )
    if ids.dtype.kind == "u" and ids.max(initial=0) > np.iinfo(np.int64).max:
        return ids.astype(str)
    return ids if ids.dtype.kind == "U" else ids.astype(np.int64, copy=False)


def check_names(arrays: GraphArrays) -> None:
    """Refuse names that are not one for each column of features, or for each class or target."""
    labels = arrays.labels
    _check_column_names("feature", arrays.feature_names, arrays.features.shape)
    if arrays.label_names is None:
        return
    if labels.ndim == 1 and labels.dtype.kind == "f":
        raise ZooError("`label_names` are names of classes, and numbers have none; leave it out.")
    count = len(arrays.label_names)
    least = labels.shape[1] if labels.ndim == 2 else int(labels.max()) + 1
    if count < least or (labels.ndim == 2 and count > least):
        raise ZooError(f"`label_names` has {count} names; write {least}, one for each class.")


def _check_column_names(what: str, names: tuple[str, ...] | None, shape: tuple[int, ...]) -> None:
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
    check_feature_shape(features, nodes)
    return _finite("node_features", features, ids, names)


def check_feature_shape(features: np.ndarray | sparse.csr_array, nodes: int) -> None:
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


def _finite(
    key: str,
    features: np.ndarray | sparse.csr_array,
    ids: np.ndarray | None = None,
    names: tuple[str, ...] | None = None,
) -> np.ndarray | sparse.csr_array:
    """Return features (R, F) as fp32; raise ZooError with the place of the first not finite."""
    with np.errstate(over="ignore"):  # what is too large becomes infinite, which is found below
        features = features.astype(np.float32, copy=False)
    values = features.data if sparse.issparse(features) else features
    if np.isfinite(values).all():
        return features
    place = first_true(~np.isfinite(values))
    if sparse.issparse(features):
        row = int(features.indptr.searchsorted(place[0], "right")) - 1
        place = row, int(features.indices[place[0]])
    row, column = place
    node = "" if ids is None or len(ids) != features.shape[0] else f" (the node {ids[row]})"
    name = "" if names is None else f" ({names[column]!r})"
    fix = (
        "fill in what is missing (of a table `missing: mean` or frame.fillna(0), of an array "
        "np.nan_to_num(features))."
        if np.isnan(features[row, column])
        else "replace what is infinite, or too large for float32."
    )
    raise ZooError(f"`{key}` is not finite at row {row}{node}, column {column}{name}; {fix}")


def check_room(shape: tuple[int, int]) -> None:
    """Refuse features (N, F) that do not fit into memory as a dense fp32 array."""
    if (size := 4 * shape[0] * shape[1]) > available_memory():
        raise ZooError(
            f"the features as a dense array would take {size / 1e9:,.0f} GB, more than there is "
            "memory; keep fewer columns."
        )


def dense(features: np.ndarray | sparse.csr_array) -> np.ndarray:
    """Return features (N, F) as a dense array, if there is room for it."""
    if isinstance(features, np.ndarray):
        return features
    check_room(features.shape)
    return features.toarray()


def check_masks(masks: dict[str, np.ndarray] | None, nodes: int) -> dict[str, np.ndarray] | None:
    """Return masks (S, N) bool, disjoint, and of several splits nowhere empty; or None."""
    if masks is None:
        return None
    if sorted(masks) != sorted(PARTS):
        raise ZooError(f"masks are a dict of {', '.join(PARTS)}, not of {', '.join(masks)}.")
    for part, mask in masks.items():
        check_mask(f"{part}_masks", mask, nodes, f"(S, {nodes})")
    splits = {part: len(mask) for part, mask in masks.items()}
    if len(set(splits.values())) > 1 or 0 in splits.values():
        raise ZooError(
            f"the masks hold {splits} splits; write the same number of rows, at least one, in each."
        )
    for part, mask in masks.items():
        if not (mask.any(axis=1).all() or empty_parts(masks)):
            split = first_true(~mask.any(axis=1))[0]
            raise ZooError(f"`{part}_masks` is empty in split {split}; choose at least one node.")
    shared = sum(mask.astype(np.int8) for mask in masks.values()) > 1
    if shared.any():
        split = first_true(shared.any(axis=1))[0]
        raise ZooError(
            f"the masks overlap: {shared[split].sum():,} nodes of split {split} (the first is node "
            f"{first_true(shared[split])[0]}) are in more than one of train, val and test; leave "
            "each in one, or scores will count nodes that were trained on."
        )
    return masks


def check_mask(key: str, mask: np.ndarray, nodes: int, form: str) -> None:
    """Refuse what is no mask (S, N) of truth values, and say how to write it in a form."""
    check_plain(key, mask)
    if mask.dtype == bool and mask.ndim == 2 and mask.shape[1] == nodes:
        return
    if mask.shape[-1:] == (nodes,) and ((mask == 0) | (mask == 1)).all():
        fix = "write mask[None]." if mask.dtype == bool else "write np.asarray(mask).astype(bool)."
    else:
        fix = f"a mask says of each of the {nodes:,} nodes whether it is in, True or False"
        if mask.dtype.kind in "iu" and mask.size == max(mask.shape):
            fix += f", and these are numbers of nodes: write np.isin(np.arange({nodes}), {key})."
        else:
            fix += f"; write it as {form}."
    raise ZooError(f"`{key}` is {mask.dtype} of the shape {mask.shape}; {fix}")


def to_csr(matrix: sparse.sparray) -> sparse.csr_array:
    """Return a matrix from outside in CSR form, its parts checked: scipy itself trusts them.

    Raises:
        ValueError: indices that leave the matrix, or parts of lengths that do not fit.
    """
    matrix.check_format(full_check=True)
    return sparse.csr_array(matrix)


def check_node_count(nodes: int, edges: int) -> int:
    """Return a number of nodes that a file claims, unless hardly any of them can have an edge."""
    if nodes > _MANY and nodes > _MANY * max(edges, 1) / 1000:
        raise ZooError(
            f"there would be {nodes:,} nodes with {edges:,} edges; number the nodes 0, 1, 2, ... "
            "so that there are only as many as take part."
        )
    return nodes


def check_edges(edges: ArrayLike, nodes: int) -> np.ndarray:
    """Return edges (E, 2) as int64, all between nodes 0 and N-1."""
    if not isinstance(edges, Sequence) and not hasattr(edges, "__array__"):
        raise ZooError(
            f"edges are an array (E, 2) of node numbers, not {type(edges).__name__}: write "
            "np.stack(matrix.nonzero(), axis=1) of a matrix of scipy, np.array(graph.edges) of a "
            "graph of networkx whose nodes are 0 to N-1."
        )
    edges = np.asarray(edges)
    check_plain("edges", edges)
    if edges.ndim != 2 or edges.shape[1] != 2:
        turned = edges.ndim == 2 and edges.shape[0] == 2
        fix = "write edges.T" if turned else "write one row per edge: its two nodes"
        raise ZooError(f"`edges` has the shape {edges.shape} and should have (E, 2); {fix}.")
    if edges.dtype.kind not in "iu":
        whole = (edges == np.floor(edges)).all()
        fix = "write edges.astype('int64')." if whole else "some are fractions, or NaN."
        raise ZooError(
            f"`edges` is of type {edges.dtype} and should be int64: node numbers from 0; {fix}"
        )
    outside = (edges < 0) | (edges >= nodes)
    if outside.any():
        row = first_true(outside)[0]
        from_one = edges.min() == 1 and edges.max() == nodes
        fix = (
            "they are numbered from 1: write edges - 1"
            if from_one
            else "number the nodes from 0, or add the missing ones to `node_labels` and "
            "`node_features`"
        )
        raise ZooError(
            f"`edges` row {row} is {edges[row].tolist()}, but there are {nodes:,} nodes, 0 to "
            f"{nodes - 1}; {fix}."
        )
    return edges.astype(np.int64, copy=False)


def check_words(duplicates: str, direction: str, relations: str = "together") -> None:
    """Refuse another word than those of `Duplicates`, `Direction` and `Relations`."""
    for option, word, known in (
        ("duplicates", duplicates, Duplicates),
        ("direction", direction, Direction),
        ("relations", relations, Relations),
    ):
        if word not in (words := get_args(known)):
            raise ZooError(f"{option}: {brief(word)} is not known; {suggestion(word, words)}")


def are_canonical(edges: np.ndarray, nodes: int) -> bool:
    """Return whether edges (E, 2) are those of a canonical graph, in any order.

    That is both directions of each, none of them twice, and a self-loop of each of the N nodes.
    """
    source, target = edges.T.astype(np.int64)
    along, against = (np.sort(a * nodes + b) for a, b in ((source, target), (target, source)))
    loops = int((source == target).sum())
    return loops == nodes and np.array_equal(along, against) and bool((np.diff(along) > 0).all())


def check_weights(weights: np.ndarray, edges: int) -> np.ndarray:
    """Return the weights of edges (E,) as fp32, all finite and none below 0."""
    check_plain("edge_weights", weights)
    if weights.shape != (edges,):
        raise ZooError(f"`edge_weights` has the shape {weights.shape} and should have ({edges},).")
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float32, copy=False)
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        row = first_true(wrong)[0]
        raise ZooError(
            f"`edge_weights` is {weights[row]:g} at row {row} ({wrong.sum():,} such rows), and "
            "a weight is a number from 0 to infinity: how much an edge counts. Fill in what is "
            "missing; make distances into weights, such as exp(-d); or write `weights: ignore`."
        )
    return weights


def check_edge_features(features: np.ndarray, edges: int) -> np.ndarray:
    """Return the features of edges (E, F) as finite fp32."""
    check_plain("edge_features", features)
    if features.ndim != 2 or len(features) != edges or features.shape[1] == 0:
        raise ZooError(
            f"`edge_features` has the shape {features.shape} and should have ({edges}, F): a row "
            "of numbers for each edge."
        )
    return _finite("edge_features", features)


# Many graphs

_LOG = logging.getLogger(__name__)

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
