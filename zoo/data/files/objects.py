"""Convert arrays, graphs of DGL and dicts of tensors to plain arrays of a graph."""

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from zoo.data.files.graph_arrays import (
    NO_EDGES,
    PARTS,
    GraphArrays,
    array_of,
    checked,
    mask_of,
    plausible,
    sparse_of,
)
from zoo.errors import ZooError, brief, suggestion
from zoo.tasks.labels import MULTILABEL, REGRESSION, encode_text, is_word, unlabelled

LABELS = ("label", "labels", "y")
FEATURES = ("feat", "feature", "features", "x", "attr")
"""What node data is called by custom: the one that is there is taken."""


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
    given = {"features": features, "labels": labels, "ids": ids}
    for name, each in given.items():
        if each is not None:
            need_arrays(f"`{name}` is to be an array with a row for each node", each, matrix=True)
    if masks is not None and not isinstance(masks, Mapping):
        raise ZooError(f"masks are a dict of {', '.join(PARTS)}, and not {described(masks)}.")
    known = [each for each in given.values() if each is not None]
    if not known:
        raise ZooError("nothing says how many nodes there are; give features, labels or ids.")
    if not (shape := shape_of(known[0])):
        raise ZooError(f"a row for each node is wanted, and this is {described(known[0])}.")
    nodes = shape[0]
    labels, names = (unlabelled(nodes, task), None) if labels is None else _labels(labels, task)
    edges, ids = array_of(edges, "edges"), None if ids is None else array_of(ids, "node_ids")
    edges = edges if edges.size else NO_EDGES
    feature_names = _column_names(features) if feature_names is None else feature_names
    if ids is not None:
        if edges.ndim != 2 or edges.shape[1] != 2:
            raise ZooError(f"`edges` has the shape {edges.shape}; write (E, 2), two ids per edge.")
        edges = join(ids, (edges[:, 0], edges[:, 1]), "edges")
    none = np.zeros((nodes, 0), np.float32)
    features = none if features is None else _features(features, "node_features")
    masks = masks and {part: _masks(mask, f"{part}_masks", nodes) for part, mask in masks.items()}
    feature_names = feature_names and tuple(feature_names)
    return GraphArrays(edges, labels, features, masks, ids, names, feature_names, task)


def _masks(masks: Any, name: str, nodes: int) -> np.ndarray:
    """Return masks (N,) or (S, N) as (S, N); numbers of 0 and 1 are truth values."""
    found = np.atleast_2d(array_of(masks, name))
    plain = found.dtype.kind in "iuf" and found.shape[-1] == nodes
    return found.astype(bool) if plain and ((found == 0) | (found == 1)).all() else found


def _features(features: Any, name: str) -> np.ndarray | sparse.csr_array:
    """Return features (N, F) as an array, of a sparse matrix of scipy or torch as a CSR array."""
    if (matrix := sparse_of(features)) is not None:
        return checked(sparse.csr_array(matrix))
    found = writable(features, name)
    if found.dtype == object and hasattr(features, "dtypes"):  # a table of pandas
        words = [str(each) for each, kind in features.dtypes.items() if kind.kind not in "iufb"]
        if words:
            raise ZooError(
                f"`{name}`: the column {words[0]!r} is no number ({len(words)} such); write "
                "columns of numbers (pandas.get_dummies of words), or the table into a file, of "
                "which `zoo.load_graph` reads words, dates and text."
            )
    return found


def writable(values: Any, name: str) -> np.ndarray:
    """Return what `array_of` does, a copy where pandas lends an array that may not be written."""
    found = array_of(values, name)
    lent = not isinstance(values, np.ndarray) and not found.flags.writeable
    return found.copy() if lent else found


def _column_names(table: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a table, such as pandas has, where all are text."""
    names = tuple(getattr(table, "columns", ()))
    return names if names and all(isinstance(each, str) for each in names) else None


def _labels(labels: Any, task: str | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return labels as numbers, and the names of classes where they are text.

    Whole numbers some of which are missing, as pandas has them, are classes, -1 where unknown.
    """
    found = writable(labels, "node_labels")
    own = getattr(labels, "dtype", None)
    own = getattr(getattr(own, "categories", None), "dtype", own)
    if getattr(own, "kind", "") in ("i", "u") and found.dtype.kind == "f" and task != REGRESSION:
        return np.where(np.isnan(found), -1, found).astype(np.int64), None
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


def from_tensors(
    data: Mapping[str, Any],
    edges: np.ndarray,
    nodes: int,
    label: str | None = None,
    feature: str | None = None,
    task: str | None = None,
) -> GraphArrays:
    """Return node data by name, such as DGL's or PyG's, as `GraphArrays`.

    Args:
        data: of each node a row, by name; masks are `train_mask`, `val_mask`, `test_mask`.
        edges: (E, 2) numbers of nodes.
        nodes: how many there are.
        label: the data that is the label; None: the one of `LABELS` that is there.
        feature: the data that is the features; None: the one of `FEATURES`.
        task: what the labels are for.

    Raises:
        ZooError: no such data, several that may be meant, or data without a row for each node.
    """
    nodes = plausible(nodes, len(edges))
    label, feature = chosen(data, label, feature)
    labels, names = unlabelled(nodes, task), None
    if label is not None:
        labels, names = _labels(data[label], task)
        _check_rows(label, labels, nodes)
    if labels.ndim == 2 and labels.shape[1] == 1 and task != MULTILABEL:
        labels = labels[:, 0]  # PyG and OGB write (N, 1) for one class
    if labels.dtype.kind in "iub" and (task == REGRESSION or labels.ndim == 2):
        labels = labels.astype(np.float32)  # which has a NaN for the nodes of other kinds
    features = np.zeros((nodes, 0), np.float32)
    if feature is not None:
        features = _features(data[feature], feature)
        _check_rows(feature, features, nodes)
    if features.ndim == 1:
        features = features[:, None]
    masks = {part: data[f"{part}_mask"] for part in PARTS if f"{part}_mask" in data}
    if 0 < len(masks) < len(PARTS):
        raise ZooError(
            f"of the masks only {', '.join(f'{each}_mask' for each in masks)} are there; write "
            "train_mask, val_mask and test_mask, or none."
        )
    masks = {part: _mask(mask, f"{part}_mask", nodes) for part, mask in masks.items()} or None
    return GraphArrays(edges.astype(np.int64), labels, features, masks, label_names=names)


def shape_of(values: Any) -> tuple[int, ...]:
    """Return the shape of an array, list or matrix, () of anything else, and make no array of it.

    Of lists of several lengths only the first number is told.
    """
    if hasattr(values, "sparse_sizes"):  # of torch_sparse
        return tuple(values.sparse_sizes())
    if hasattr(values, "shape"):
        return tuple(values.shape)
    return (len(values),) if isinstance(values, Collection) and not isinstance(values, str) else ()


def _check_rows(name: str, found: np.ndarray | sparse.csr_array, nodes: int) -> None:
    """Refuse data of nodes that has not a row for each of them."""
    if found.ndim and found.shape[0] == nodes:
        return
    alone = int(np.prod(found.shape)) == 1 and nodes > 1
    fix = (
        "if it is that of the whole graph, write a set of graphs, a list of them, even if it is of "
        "one."
        if alone
        else "write a row for each node."
    )
    raise ZooError(f"`{name}` has the shape {found.shape}, and there are {nodes:,} nodes; {fix}")


def _mask(mask: Any, name: str, nodes: int) -> np.ndarray:
    """Return a mask (N,), or several as PyG writes them, (N, S), as (S, N)."""
    found = array_of(mask, name)
    of_nodes = found.ndim in (1, 2) and len(found) == nodes
    plain = found.dtype.kind in "iufb" and ((found == 0) | (found == 1)).all()
    if not (of_nodes and plain):
        fix = mask_of(found.T, name, nodes, f"({nodes},), or of several splits ({nodes}, S)")
        raise ZooError(f"`{name}` is {found.dtype} of the shape {found.shape}; {fix}")
    return found.reshape(nodes, -1).T.astype(bool)


def chosen(
    data: Mapping[str, Any], label: str | None, feature: str | None
) -> tuple[str | None, str | None]:
    """Return which node data are the labels and the features, None where there are none.

    Raises:
        ZooError: they are not there, or several are called as they might be.
    """
    return _named(data, label, LABELS, "label"), _named(data, feature, FEATURES, "feature")


def _named(data: Mapping, given: str | None, known: tuple[str, ...], option: str) -> str | None:
    if given is not None and given not in data:
        raise ZooError(f"{option}: there is no node data {given!r}; {suggestion(given, data)}")
    if given is not None:
        return given
    found = [each for each in known if each in data]
    if len(found) > 1:
        held = " and ".join(map(repr, found))
        raise ZooError(
            f"the node data {held} may both be the {option}; write which, `{option}: {found[0]}`."
        )
    other = [each for each in data if not each.startswith("_") and not each.endswith("_mask")]
    if not found and other and option == "feature" and not set(other) <= set(LABELS):
        raise ZooError(
            f"the node data is called {', '.join(map(repr, data))}; write `feature: NAME` for the "
            "features, and `label: NAME` for the labels."
        )
    return found[0] if found else None


_OF_BATCHES = ("batch", "ptr", "num_nodes", "n_id", "e_id", "input_id")
"""What the loaders of PyG write beside the data of nodes."""


def unread(data: Iterable[str], *read: str | None) -> set[str]:
    """Return the names of data that nothing reads."""
    masks = {f"{part}_mask" for part in PARTS}
    return {
        each for each in data
        if not (each.startswith("_") or each in masks or each in read or each in _OF_BATCHES)
    }  # fmt: skip


def tell_unread(names: Iterable[str], left: set[str] | None = None) -> None:
    """Say which data of a graph is not read, in one line, or keep it in `left` to tell it later."""
    if left is not None:
        left.update(names)
    elif held := sorted(names):
        logging.getLogger(__name__).warning(
            "%s %s not read; `feature`, `label`, `weight` and `edge_features` name what is.",
            ", ".join(map(repr, held)), "is" if len(held) == 1 else "are",
        )  # fmt: skip


def described(value: Any) -> str:
    """Return what an object is, in few words.

    >>> described({"x": 1}), described([1, 2])
    ("a dict of 'x'", 'a list of 2, the first of type int')
    """
    kind = type(value)
    if value is None or (isinstance(value, list | tuple | Mapping) and not value):
        return "None" if value is None else f"an empty {kind.__name__}"
    name = kind.__qualname__ if kind.__module__ == "builtins" else (
        f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}")  # fmt: skip
    if isinstance(value, str):
        return f"the text {brief(value)}"
    if isinstance(value, Mapping):
        return f"a {name} of {', '.join(map(repr, map(str, list(value)[:6])))}"
    if isinstance(value, list | tuple) and value:
        return f"a {name} of {len(value)}, the first of type {type(value[0]).__name__}"
    shape = getattr(value, "shape", None)
    one = f"a{'n' if name[0] in 'aeiou' else ''} {name}"
    return one if shape is None else f"{one} of the shape {tuple(shape)}"


_DOORS = {
    "DataLoader": "what it loads, loader.dataset",
    "DGLGraph": "zoo.Dataset.from_dgl(graph)",
    "dgl": "zoo.Dataset.from_dgl(dataset)",
    "networkx": "zoo.Dataset.from_networkx(graph)",
    "torch_geometric": "zoo.Dataset.from_pyg(data)",
    "scipy": "zoo.Dataset.from_scipy(matrix)",
    "igraph": "zoo.Dataset.from_networkx(graph.to_networkx())",
    "graph_tool": "graph.save('graph.graphml') and zoo.load_graph('graph.graphml')",
    "str": "zoo.load_data(path)",
    "pathlib": "zoo.load_data(path)",
    "dict": "zoo.Dataset.from_pyg(data), a dict with `edge_index`, `x` and `y`",
    "generator": "a list, list(graphs)",
    "zoo": "it as it is: it is a data set already",
    "pandas": "zoo.Dataset.from_arrays(edges, features, labels)",
    "numpy": "zoo.Dataset.from_arrays(edges, features, labels), or from_scipy(matrix)",
    "torch": "zoo.Dataset.from_arrays(edges, features, labels), or from_scipy(matrix)",
}
"""What an object is, or the package that its class is of, to what reads it."""

_OF_SETS = {
    "networkx": "zoo.Dataset.from_dgl([dgl.from_networkx(each, node_attrs=['x']) for each in "
    "graphs], labels=labels): sets of graphs are read of DGL and PyG",
    "torch_geometric": "zoo.Dataset.from_pyg(graphs)",
    "dgl": "zoo.Dataset.from_dgl(graphs, labels=labels)",
    "dict": "zoo.Dataset.from_pyg(graphs), dicts with `edge_index`, `x` and `y`",
}
"""The same of a list, by its first object."""


def other_object(wanted: str, value: Any) -> ZooError:
    """Return what is said of an object that something else is wanted for, and what reads it."""
    listed = isinstance(value, list | tuple) and len(value) > 0
    one, doors = (value[0], _OF_SETS) if listed else (value, _DOORS)
    words = [word for each in type(one).__mro__
             for word in (each.__name__, each.__module__.partition(".")[0])]  # fmt: skip
    door = next((doors[each] for each in words if each in doors), None)
    fix = (
        f"write {door}."
        if door
        else "from_dgl reads a DGLGraph, from_pyg Data of PyG, from_networkx a graph of NetworkX, "
        "from_scipy a matrix, from_arrays edges (E, 2), features and labels."
    )
    return ZooError(f"{wanted}, and this is {described(value)}; {fix}")


def need_arrays(wanted: str, value: Any, matrix: bool = False) -> None:
    """Refuse what is neither an array, or like one, nor a sparse matrix where `matrix` says so."""
    first = value[0] if isinstance(value, list | tuple) and value else value
    graph = any(hasattr(first, each) for each in ("nodes", "ntypes", "to_dict"))
    of_pandas = hasattr(first, "iloc")
    like = isinstance(value, list | tuple) or hasattr(value, "__array__")
    if not matrix:  # the edges of a graph of NetworkX, which are a mapping too
        like |= isinstance(value, Collection) and not isinstance(value, dict | str | bytes)
    if (matrix and sparse_of(value) is not None) or (like and (of_pandas or not graph)):
        return
    raise other_object(wanted, value)


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
            f"has this id ({len(lost):,} such edges); {_likely(ends[end][lost[0]], ids)}"
        )
    return edges


def _likely(lost: Any, ids: np.ndarray) -> str:
    """Return what to do about an id that no node has: what it differs in from one that is there."""
    shown = {
        "in blanks around it alone: leave them out (pandas: column.str.strip())": str.strip,
        "in how the number is written: ids were made floats, 1.0 of 1, on the way; write whole "
        "numbers (pandas: column.astype('Int64'))": lambda each: _WHOLE.sub("", each.strip()),
        "in zeros in front alone: write ids as text wherever they are": lambda each: (
            each.strip().lstrip("0")),
        "in capital letters alone: write each id in one way": lambda each: each.strip().lower(),
    }  # fmt: skip
    for said, form in shown.items():
        wanted = form(str(lost))
        if found := next((each for each in ids.astype(str).tolist() if form(each) == wanted), None):
            return f"it differs from the id {found!r} {said}."
    return "add the node, or delete the edge."


_WHOLE = re.compile(r"\.0+$")
