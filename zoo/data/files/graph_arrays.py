"""A graph as plain NumPy arrays, and their validation: each error says what to write instead.

Errors name the keys of a prepared file, where nearly all arrays come from.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

from zoo.errors import ZooError, brief, cause, suggestion
from zoo.system.memory import available_memory
from zoo.tasks.labels import check_labels, check_plain, empty_parts, first_true

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
    return _finite(
        "node_features", features, ids if ids is not None and len(ids) == nodes else None, names
    )


def _finite(
    key: str,
    features: np.ndarray | sparse.csr_array,
    ids: np.ndarray | None = None,
    names: tuple[str, ...] | None = None,
) -> np.ndarray | sparse.csr_array:
    """Return features (R, F) as fp32; raise ZooError with the place of the first not finite."""
    features = _single(features)
    values = features.data if sparse.issparse(features) else features
    if np.isfinite(values).all():
        return features
    row, column = _place(features, first_true(~np.isfinite(values)))
    node = "" if ids is None else f" (the node {ids[row]})"
    name = "" if names is None else f" ({names[column]!r})"
    fix = (
        "fill in what is missing (of a table `missing: mean` or frame.fillna(0), of an array "
        "np.nan_to_num(features))."
        if np.isnan(features[row, column])
        else "replace what is infinite, or too large for float32."
    )
    raise ZooError(f"`{key}` is not finite at row {row}{node}, column {column}{name}; {fix}")


def _single(numbers: Any) -> Any:
    """Return numbers as fp32, infinite where they are too large for it, which checks find."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32, copy=False)


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
    _check_fits(4 * shape[0] * shape[1], "the features as a dense array", "keep fewer columns")


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


Duplicates = Literal["mean", "sum", "max"]
Direction = Literal["both", "in", "out", "separate"]
Relations = Literal["together", "separate"]


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
    wrong = (edges < 0) | (edges >= nodes)
    if wrong.any():
        where = first_true(wrong)[0]
        from_one = edges.min() == 1 and edges.max() == nodes
        fix = (
            "they are numbered from 1: write edges - 1"
            if from_one
            else "number the nodes from 0, or add the missing ones to `node_labels` and "
            "`node_features`"
        )
        raise ZooError(
            f"`edges` row {where} is {edges[where].tolist()}, but there are {nodes:,} nodes, 0 to "
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
    weights = _single(weights)
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        where = first_true(wrong)[0]
        raise ZooError(
            f"`edge_weights` is {weights[where]:g} at row {where} ({wrong.sum():,} such rows), and "
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


Weights = Literal["use", "ignore"] | None
"""Whether weights of edges are read; None: only where something says which they are."""


class EdgeColumns(NamedTuple):
    """What is read of the data of edges.

    Attributes:
        weight: the name of their weight; None: nothing says it.
        weights: `use` the only one there is, or `ignore` all of them.
        features: names of what are features: numbers, one or several for each edge.
    """

    weight: str | None = None
    weights: Weights = None
    features: Sequence[str] = ()

    @classmethod
    def of(cls, weight: str | None, weights: Weights, features: str | Sequence[str] | None) -> Self:
        """Return what options say; several names may be one text with commas between."""
        names = features.split(",") if isinstance(features, str) else features or ()
        return cls(weight, weights, [each.strip() for each in names])

    def refuse_features(self) -> None:
        """Raise ZooError where features are named: edges of several kinds have none in common."""
        if self.features:
            raise ZooError(
                "edge_features: edges of several kinds are read with their weights, and not with "
                "features. Leave `edge_features` out, or join the kinds into one table."
            )

    def named(self, names: Sequence[Any], wide: Collection[Any] = ()) -> str | None:
        """Return which of the names is the weight, None where none is.

        Args:
            names: of all that edges have.
            wide: those of several numbers for each edge, which no weight is.

        Raises:
            ZooError: there are some, and nothing says what they are; or one that is named is not.
        """
        for each in self.features:
            if each not in names:
                fix = suggestion(each, map(str, names)) if names else "leave it out."
                raise ZooError(f"edge_features: the edges have no {each!r}; {fix}")
        if self.features and self.weight is None and self.weights is None:
            return None
        others = [each for each in names if each not in self.features]
        return weight_name(others, self.weight, self.weights, wide)

    def read(self, data: Mapping[str, Any]) -> dict[str, np.ndarray | None]:
        """Return `weights` (E,), `edge_features` (E, F) and their names of edge data, or None."""
        shapes = {name: getattr(each, "shape", ()) for name, each in data.items()}
        named = self.named([*data], [name for name, shape in shapes.items() if shape[1:] > (1,)])
        features = [several_columns(each, data[each]) for each in self.features]
        names = [
            name if each.shape[1] == 1 else f"{name}[{column}]"
            for name, each in zip(self.features, features, strict=True)
            for column in range(each.shape[1])
        ]
        return {
            "weights": None if named is None else one_column(named, data[named]),
            "edge_features": np.concatenate(features, axis=1) if features else None,
            "edge_feature_names": tuple(names) or None,
        }


def weight_name(
    names: Sequence[Any], weight: str | None, weights: Weights, wide: Collection[Any] = ()
) -> str | None:
    """Return which edge data of these names are weights; None: none. `wide` are no weights.

    Raises:
        ZooError: there are some, and nothing says which to use or that they are ignored.
    """
    if weights == "ignore" or (not names and weight is None and weights is None):
        return None
    held = ", ".join(map(repr, map(str, names)))
    if weight is not None:
        if weight not in names:
            fix = (
                suggestion(weight, map(str, names))
                if names
                else "leave `weight` out; or write `weights: ignore`."
            )
            raise ZooError(f"weight: the edges have no {weight!r}; {fix}")
        return weight
    if weights == "use" and len(names) == 1:
        return names[0]
    if not names:
        raise ZooError("weights: the edges have none to use; leave it out.")
    one = next((each for each in names if each not in wide), None)
    fix = f"`edge_features: {names[0]}` to read features of them"
    fix = fix if one is None else f"`weight: {one}` to weigh them by it"
    raise ZooError(
        f"the edges have {held}; write {fix}, or `weights: ignore` to read the graph without them."
    )


def refuse_idle(table: str, option: str, **given: Any) -> None:
    """Refuse options that are about a table which an option did not name: nothing would read them.

    Args:
        table: what they are about.
        option: what names it.
        given: them; None where they are not given.
    """
    for name, value in given.items():
        if value is not None:
            raise ZooError(
                f"{name}: it is about {table}, and none is named; write `{option}: PATH`, or leave "
                f"`{name}` out."
            )


def one_column(name: str, values: Any) -> np.ndarray:
    """Return edge data that is one number for each edge, (E,)."""
    found = array_of(values, name)
    found = found[:, 0] if found.ndim == 2 and found.shape[1] == 1 else found
    if found.ndim == 1 and found.dtype.kind in "iufb":
        return found
    raise ZooError(
        f"weight: {name!r} is of the shape {found.shape}, {found.dtype}, and a weight is one "
        "number for each edge. Choose one, or write `weights: ignore`."
    )


def several_columns(name: str, values: Any) -> np.ndarray:
    """Return edge data that is one number or several for each edge, as (E, F)."""
    found = array_of(values, name)
    if found.ndim in (1, 2) and found.dtype.kind in "iufb":
        return found.reshape(len(found), -1)
    raise ZooError(
        f"edge_features: {name!r} is of the shape {found.shape}, {found.dtype}, and a feature is "
        "a number, or as many for each edge. Write words as numbers, or as kinds of edges of their "
        "own."
    )


def array_of(values: Any, name: str) -> np.ndarray:
    """Return what is like an array as one: a list, a table, a matrix of scipy, a tensor on a GPU.

    Numbers of 8 or 16 bits with a fraction, such as bfloat16, of which numpy has not all, become
    float32; what is missing, in pandas or behind a mask of numpy, NaN.

    Args:
        values: what is read.
        name: what it is called in errors.

    Raises:
        ZooError: it is no array, such as lists of several lengths, or does not fit into memory.
    """
    if (matrix := sparse_of(values)) is not None:
        _check_fits(8 * math.prod(matrix.shape), f"`{name}`")
        return matrix.toarray()
    if isinstance(values, list | tuple) and any(isinstance(each, torch.Tensor) for each in values):
        values = [array_of(each, name) for each in values]
    if isinstance(values, torch.Tensor):
        return _of_tensor(values, name)
    try:
        found = np.asarray(values)
    except Exception as error:  # libraries of arrays raise what they like
        raise ZooError(
            f"`{name}` cannot be read as an array of numbers: it is a {type(values).__name__} "
            f"({cause(error)})."
        ) from error
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        found = found.astype(float if found.dtype.kind in "iufb" else object)
        found[np.ma.getmaskarray(values)] = np.nan  # among text it is missing, too
        return found
    if found.dtype == object and hasattr(values, "dtypes"):  # a table of pandas with holes
        return _of_table(values, found)
    return found.astype(np.float32) if _is_short(found.dtype.name) else found


def _of_table(table: Any, found: np.ndarray) -> np.ndarray:
    """Return a table of pandas as numbers where all of its columns are, else as it is found."""
    kinds = {getattr(each, "kind", "O") for each in np.atleast_1d(table.dtypes)}
    if found.ndim != 2 or not kinds <= {*"iufb"}:
        return found
    numbers = table.to_numpy(np.float64, na_value=np.nan)
    whole = kinds <= {*"iu"} and not np.isnan(numbers).any()
    return table.to_numpy(np.int64) if whole else numbers


def sparse_of(values: Any) -> Any | None:
    """Return a sparse matrix of scipy, torch or torch_sparse as one of scipy; None of all else."""
    if sparse.issparse(values):
        return values
    if (found := entries_of(values)) is None:
        return None
    ends, numbers, shape = found
    return sparse.csr_array((numbers, tuple(ends.T)), shape=shape)


def entries_of(values: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, int]] | None:
    """Return the entries of a sparse matrix of torch or torch_sparse; None of all else.

    These are their rows and columns (E, 2), row by row, their values (E,), and the shape.
    """
    if hasattr(values, "sparse_sizes") and hasattr(values, "coo"):  # of torch_sparse
        *ends, numbers = values.coo()
        numbers = torch.ones(len(ends[0])) if numbers is None else numbers
        ends, shape = torch.stack(ends), values.sparse_sizes()
    elif isinstance(values, torch.Tensor) and values.layout != torch.strided and values.ndim == 2:
        whole = values.detach().to_sparse_coo().coalesce()
        ends, numbers, shape = whole.indices(), whole.values(), whole.shape
    else:
        return None
    if numbers.ndim > 1:
        return None
    return array_of(ends.T, "indices"), array_of(numbers, "values"), tuple(map(int, shape))


def _of_tensor(values: torch.Tensor, name: str) -> np.ndarray:
    if values.is_nested:
        raise ZooError(f"`{name}` is a nested tensor, of rows of several lengths; pad them.")
    values = values.detach().cpu().to_dense()
    values = values.dequantize() if values.is_quantized else values
    if values.nbytes > values.untyped_storage().nbytes():  # a few bytes, of which copies are made
        _check_fits(8 * values.nbytes, f"`{name}`, one number written as many,")
    values = values.float() if _is_short(str(values.dtype)) else values
    return values.resolve_conj().resolve_neg().numpy()


def _is_short(kind: str) -> bool:
    """Return whether a type of numbers with a fraction has fewer bits than float32."""
    return kind.removeprefix("torch.").startswith(("bfloat16", "float16", "float8"))


def _check_fits(size: int, what: str, fix: str = "") -> None:
    if size > available_memory():
        more = fix and f"; {fix}"
        raise ZooError(f"{what} would take {size / 1e9:,.0f} GB, more than there is memory{more}.")
