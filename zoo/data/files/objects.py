"""Arrays, lists, tensors and tables in memory as the arrays of a graph."""

import contextlib
import logging
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch
from scipy import sparse

from zoo.data.files.graph_arrays import (
    NO_EDGES,
    PARTS,
    GraphArrays,
    check_mask,
    check_node_count,
    to_csr,
)
from zoo.errors import ZooError, brief, cause, suggestion
from zoo.system.memory import available_memory
from zoo.tasks.labels import MULTILABEL, REGRESSION, encode_text, is_word, unlabelled

LABELS = ("label", "labels", "y")
FEATURES = ("feat", "feature", "features", "x", "attr")
"""What node data is called by custom: the one that is there is taken."""

_GAPS = {"nan", "None", "<NA>", "NaT"}
"""What pandas writes where a value is missing, once it is text."""

_LOG = logging.getLogger(__name__)


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
            or, of classes, -1 is unknown. The columns of a table are the names of its targets.
        masks: `train`, `val` and `test`, (N,) or (S, N) bool.
        ids: (N,) what each node is called.
        feature_names: a name for each feature; None: those of the columns of a table.
        task: what the labels are for.

    Raises:
        ZooError: nothing says how many nodes there are, or an id that no node has.
    """
    data = {"features": features, "labels": labels, "ids": ids}
    data = {name: values for name, values in data.items() if values is not None}
    for name, values in data.items():
        need_arrays(f"`{name}` is to be an array with a row for each node", values, matrix=True)
    if masks is not None and not isinstance(masks, Mapping):
        raise ZooError(f"masks are a dict of {', '.join(PARTS)}, and not {described(masks)}.")
    if not data:
        raise ZooError("nothing says how many nodes there are; give features, labels or ids.")
    first = next(iter(data.values()))
    if not (shape := shape_of(first)):
        raise ZooError(f"a row for each node is wanted, and this is {described(first)}.")
    nodes = shape[0]
    targets = _column_names(labels)
    labels, names = (unlabelled(nodes, task), None) if labels is None else _labels(labels, task)
    if labels.ndim == 2:
        names = targets or None
    ids = None if ids is None else _names(ids, "ids")
    if feature_names is None:
        feature_names = _column_names(features)
    if features is None:
        features = np.zeros((nodes, 0), np.float32)
    return GraphArrays(
        _edges(edges, ids),
        labels,
        _features(features, "node_features"),
        masks and {
            part: _masks(to_numpy(mask, part), f"{part}_masks", nodes, f"(S, {nodes})")
            for part, mask in masks.items()
        },
        ids,
        names,
        tuple(feature_names) or None,
        task,
    )  # fmt: skip


def check_order(**given: Any) -> None:
    """Refuse pandas objects whose indexes hold the same values in another order.

    Indexes that are others altogether, such as a default one beside names, say nothing of order.

    Args:
        given: what has a row for each node, or for each edge, by its argument; of a mapping, such
            as masks, each of its values. `ids` that are text are an index too.

    Raises:
        ZooError: two of them would be joined by position, and belong together otherwise.
    """
    import pandas

    indexes: list[tuple[str, str, pandas.Index]] = []  # the argument, how it is written, and it
    for name, values in given.items():
        parts = {f"{name}[{key!r}]": part for key, part in values.items()} \
            if isinstance(values, Mapping) else {name: values}  # fmt: skip
        for key, part in parts.items():
            if hasattr(part, "iloc"):
                indexes.append((key, f"{key}.index", part.index))
    if (ids := given.get("ids")) is not None and (array := _names(ids, "ids")).ndim == 1:
        own = pandas.Index(array)  # numbers need not be those of an index
        if isinstance(ids, pandas.Index) or own.inferred_type == "string":
            indexes.insert(0, ("ids", "ids", own))
    for (first, written, index), (other, _, rows) in combinations(indexes, 2):
        if first != other and _is_reordered(index, rows):
            raise ZooError(
                f"the rows of `{first}` and `{other}` have the same names in another order, and "
                f"would be joined by position; write `{other}.loc[{written}]` to align them, or "
                f"`{other}.to_numpy()` if they are in one order already."
            )


def _is_reordered(first: Any, other: Any) -> bool:
    """Return whether two indexes of pandas hold the same values, each once, in another order."""
    if len(first) != len(other) or first.nlevels != other.nlevels or first.equals(other):
        return False
    if not (first.is_unique and other.is_unique):
        return False
    return bool(first.isin(other).all()) and first.tolist() != other.tolist()


def _edges(values: Any, ids: np.ndarray | None) -> np.ndarray:
    """Return edges (E, 2) as numbers of nodes, of ids where these are given."""
    edges = _names(values, "edges")
    edges = edges if edges.size else NO_EDGES
    if ids is None and edges.dtype.kind == "U":
        raise ZooError("`edges` are text; give what each node is called, `ids=...`, or numbers.")
    if ids is None:
        return edges
    if edges.ndim != 2 or edges.shape[1] != 2:
        raise ZooError(f"`edges` has the shape {edges.shape}; write (E, 2), two ids per edge.")
    return join(ids, (edges[:, 0], edges[:, 1]), "edges")


def _column_names(table: Any) -> tuple[str, ...]:
    """Return the names of the columns of a table of pandas; () of anything else, and of numbers."""
    columns = tuple(getattr(table, "columns", ()))
    return columns if all(isinstance(name, str) for name in columns) else ()


def _names(values: Any, name: str) -> np.ndarray:
    """Return what nodes are called, whole numbers or text of any type of pandas, as an array."""
    import pandas

    array = to_numpy(values, name)
    if array.dtype != object or not array.size:
        return array
    if (gaps := pandas.isna(array)).any():
        rows = gaps.reshape(len(array), -1).any(axis=1)
        raise ZooError(
            f"`{name}` has a gap in row {rows.argmax()} ({rows.sum():,} such rows); fill it in, or "
            "leave the row out."
        )
    kind = pandas.api.types.infer_dtype(array.ravel())
    types = {"integer": np.int64, "string": str, "mixed-integer": str}  # ends of two types
    return array.astype(types.get(kind, object))


@contextlib.contextmanager
def arguments_in_errors() -> Iterator[None]:
    """Call arrays as the arguments of `from_arrays` in errors, and not by their keys in files."""
    try:
        yield
    except ZooError as error:
        text = re.sub(r"`(?:node|edge)_(ids|labels|features|weights)`", _argument, str(error))
        raise ZooError(re.sub(r"`(train|val|test)_masks`", r"`masks['\1']`", text)) from None


def _argument(key: re.Match[str]) -> str:
    return key[0] if key[0] == "`edge_features`" else f"`{key[1]}`"


def _masks(mask: np.ndarray, key: str, nodes: int, form: str) -> np.ndarray:
    """Return a mask (N,), or several (S, N), as (S, N) bool; numbers of 0 and 1 are one."""
    masks = np.atleast_2d(mask)
    numbers = masks.dtype.kind in "iuf" and masks.shape[-1] == nodes
    if numbers and ((masks == 0) | (masks == 1)).all():
        masks = masks.astype(bool)
    check_mask(key, masks, nodes, form)
    return masks


def _features(features: Any, name: str) -> np.ndarray | sparse.csr_array:
    """Return features (N, F) as an array, of a sparse matrix of scipy or torch as a CSR array."""
    if (matrix := to_scipy(features)) is not None:
        return to_csr(sparse.csr_array(matrix))
    array = to_numpy(features, name)
    if array.dtype == object and hasattr(features, "dtypes"):  # a table of pandas
        words = [str(key) for key, kind in features.dtypes.items() if kind.kind not in "iufb"]
        if words:
            raise ZooError(
                f"`{name}`: the column {words[0]!r} is no number ({len(words)} such); write "
                "columns of numbers (pandas.get_dummies of words), or give the frame to "
                "`zoo.Dataset.from_pandas`, which reads words, dates and text."
            )
    return array


def _labels(labels: Any, task: str | None) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return labels as numbers, and the names of classes where they are text.

    Whole numbers some of which are missing, as pandas has them, are classes, -1 where unknown.
    """
    import pandas

    array = to_numpy(labels, "node_labels")
    own = getattr(labels, "dtype", None)
    own = getattr(getattr(own, "categories", None), "dtype", own)
    if getattr(own, "kind", "") in ("i", "u") and array.dtype.kind == "f" and task != REGRESSION:
        return np.where(np.isnan(array), -1, array).astype(np.int64), None
    if array.dtype.kind not in "UO":
        return array, None
    if array.dtype.kind == "U" and not hasattr(labels, "dtype"):  # a list, NaN of which is now text
        array = np.array(labels, dtype=object)
    if array.dtype == object:
        array = np.where(pandas.isna(array), "", array).astype(str)
    if array.ndim == 1 and task != REGRESSION:
        array = np.where(is_word(array, "-1"), "", array)
    numbers, names = encode_text(array, task)
    for word in _GAPS.intersection(names or ()):
        _LOG.warning(
            "%r is a class of the labels, that of %s nodes, and what pandas writes for a gap; give "
            "labels as they were before they became text, or '' where they are unknown.",
            word, f"{(numbers == names.index(word)).sum():,}",
        )  # fmt: skip
    return numbers, names


def from_node_data(
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
    nodes = check_node_count(nodes, len(edges))
    label, feature = choose(data, label, feature)
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
    keys = [f"{part}_mask" for part in PARTS if f"{part}_mask" in data]
    if 0 < len(keys) < len(PARTS):
        raise ZooError(
            f"of the masks only {', '.join(keys)} are there; write train_mask, val_mask and "
            "test_mask, or none."
        )
    form = f"({nodes},), or of several splits ({nodes}, S)"  # as PyG has them
    masks = {
        key.removesuffix("_mask"): _masks(to_numpy(data[key], key).T, key, nodes, form)
        for key in keys
    }
    return GraphArrays(edges.astype(np.int64), labels, features, masks or None, label_names=names)


def shape_of(values: Any) -> tuple[int, ...]:
    """Return the shape of an array, list or matrix, () of anything else, and make no array of it.

    Of lists of several lengths only the first number is told.
    """
    if hasattr(values, "sparse_sizes"):  # of torch_sparse
        return tuple(values.sparse_sizes())
    if hasattr(values, "shape"):
        return tuple(values.shape)
    return (len(values),) if isinstance(values, Collection) and not isinstance(values, str) else ()


def _check_rows(name: str, array: np.ndarray | sparse.csr_array, nodes: int) -> None:
    """Refuse data of nodes that has not a row for each of them."""
    if array.ndim and array.shape[0] == nodes:
        return
    fix = "write a row for each node."
    if int(np.prod(array.shape)) == 1 and nodes > 1:
        fix = ("if it is that of the whole graph, write a set of graphs, a list of them, even if "
               "it is of one.")  # fmt: skip
    raise ZooError(f"`{name}` has the shape {array.shape}, and there are {nodes:,} nodes; {fix}")


def choose(
    data: Mapping[str, Any], label: str | None, feature: str | None
) -> tuple[str | None, str | None]:
    """Return which node data are the labels and the features, None where there are none.

    Raises:
        ZooError: they are not there, or several are called as they might be.
    """
    return _choose(data, label, LABELS, "label"), _choose(data, feature, FEATURES, "feature")


def _choose(data: Mapping, name: str | None, known: tuple[str, ...], option: str) -> str | None:
    if name is not None and name not in data:
        raise ZooError(f"{option}: there is no node data {name!r}; {suggestion(name, data)}")
    if name is not None:
        return name
    names = [key for key in known if key in data]
    if len(names) > 1:
        raise ZooError(
            f"the node data {' and '.join(map(repr, names))} may both be the {option}; write "
            f"which, `{option}: {names[0]}`."
        )
    others = [key for key in data if not key.startswith("_") and not key.endswith("_mask")]
    if not names and others and option == "feature" and not set(others) <= set(LABELS):
        raise ZooError(
            f"the node data is called {', '.join(map(repr, data))}; write `feature: NAME` for the "
            "features, and `label: NAME` for the labels."
        )
    return names[0] if names else None


_OF_BATCHES = ("batch", "ptr", "num_nodes", "n_id", "e_id", "input_id")
"""What the loaders of PyG write beside the data of nodes."""


def unread_names(data: Iterable[str], *read: str | None) -> set[str]:
    """Return the names of node data that is not read, masks and what loaders add not counted."""
    known = {*_OF_BATCHES, *(f"{part}_mask" for part in PARTS), *read}
    return {name for name in data if not name.startswith("_") and name not in known}


def warn_unread(names: Iterable[str]) -> None:
    """Say in one line which data of a graph is not read."""
    if names := sorted(names):
        _LOG.warning(
            "%s %s not read; `feature`, `label`, `weight` and `edge_features` name what is.",
            ", ".join(map(repr, names)), "is" if len(names) == 1 else "are",
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
    if isinstance(value, list | tuple):
        return f"a {name} of {len(value)}, the first of type {type(value[0]).__name__}"
    shape = getattr(value, "shape", None)
    one = f"a{'n' if name[0] in 'aeiou' else ''} {name}"
    return one if shape is None else f"{one} of the shape {tuple(shape)}"


def wrong_object(wanted: str, value: Any) -> ZooError:
    """Return what is said of an object that something else is wanted for: what reads which."""
    return ZooError(
        f"{wanted}, and this is {described(value)}; zoo.Dataset.from_dgl reads a DGLGraph, "
        "from_pyg Data of PyG or a dict with `edge_index`, `x` and `y`, both a list or data set of "
        "them too; from_networkx a graph of NetworkX, from_scipy a matrix, from_arrays edges "
        "(E, 2), features and labels, from_pandas frames of nodes and edges, from_smiles a list of "
        "SMILES, and zoo.load_data a path"
        + (', such as that of `table.to_csv("mine.csv", index=False)`' * hasattr(value, "iloc"))
        + "."
    )


def need_arrays(wanted: str, value: Any, matrix: bool = False) -> None:
    """Refuse what is neither an array, or like one, nor a sparse matrix where `matrix` says so."""
    first = value[0] if isinstance(value, list | tuple) and value else value
    graph = any(hasattr(first, key) for key in ("nodes", "ntypes", "to_dict"))
    like = isinstance(value, list | tuple) or hasattr(value, "__array__")
    if not matrix:  # the edges of a graph of NetworkX, which are a mapping too
        like |= isinstance(value, Collection) and not isinstance(value, dict | str | bytes)
    pandas = hasattr(first, "iloc")
    if not ((matrix and to_scipy(value) is not None) or (like and (pandas or not graph))):
        raise wrong_object(wanted, value)


def join(ids: np.ndarray, ends: Sequence[np.ndarray], where: str) -> np.ndarray:
    """Return the node numbers of edges (E, 2), given the ids of all nodes and of both ends.

    Raises:
        ZooError: an id is that of several nodes, or an edge leads to an id that no node has.
    """
    import pandas

    if len({"i" if part.dtype.kind == "i" else "U" for part in (ids, *ends) if len(part)}) > 1:
        ids, ends = ids.astype(str), tuple(part.astype(str) for part in ends)
    index = pandas.Index(ids)
    if not index.is_unique:
        repeated = ids[index.duplicated()][0]
        rows = np.flatnonzero(ids == repeated)[:2] + 1
        raise ZooError(
            f"the id {str(repeated)!r} is that of several nodes (data rows {rows[0]} and "
            f"{rows[1]}); give each node one row and an id of its own."
        )
    edges = np.stack([index.get_indexer(part) for part in ends], axis=1).astype(np.int64)
    missing = np.flatnonzero((edges < 0).any(axis=1))
    if len(missing):
        end = ends[int(edges[missing[0], 0] >= 0)][missing[0]]
        raise ZooError(
            f"{where}: data row {missing[0] + 1} leads to {str(end)!r}, and no node has this id "
            f"({len(missing):,} such edges); {likely_cause(end, ids)}"
        )
    return edges


def likely_cause(missing: Any, ids: np.ndarray) -> str:
    """Return what to do about an id that no node has: what it differs in from one that is there."""
    forms = {
        "in blanks around it alone: leave them out (pandas: column.str.strip())": str.strip,
        "in how the number is written: ids were made floats, 1.0 of 1, on the way; write whole "
        "numbers (pandas: column.astype('Int64'))": lambda text: re.sub(
            r"\.0+$", "", text.strip()),
        "in zeros in front alone: write ids as text wherever they are": lambda text: (
            text.strip().lstrip("0")),
        "in capital letters alone: write each id in one way": lambda text: text.strip().lower(),
    }  # fmt: skip
    for difference, form in forms.items():
        wanted = form(str(missing))
        if same := next((text for text in ids.astype(str).tolist() if form(text) == wanted), None):
            return f"it differs from the id {same!r} {difference}."
    return "add the node, or delete the edge."


# Data of edges

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
        return cls(weight, weights, [name.strip() for name in names])

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
        for name in self.features:
            if name not in names:
                fix = suggestion(name, map(str, names)) if names else "leave it out."
                raise ZooError(f"edge_features: the edges have no {name!r}; {fix}")
        others = [name for name in names if name not in self.features]
        unsaid = self.weight is None and self.weights is None
        if self.weights == "ignore" or (unsaid and (self.features or not others)):
            return None
        if self.weight is not None:
            if self.weight not in others:
                fix = "leave `weight` out; or write `weights: ignore`."
                fix = suggestion(self.weight, map(str, others)) if others else fix
                raise ZooError(f"weight: the edges have no {self.weight!r}; {fix}")
            return self.weight
        if not others:
            raise ZooError("weights: the edges have none to use; leave it out.")
        if self.weights == "use" and len(others) == 1:
            return others[0]
        narrow = next((name for name in others if name not in wide), None)
        fix = f"`edge_features: {others[0]}` to read features of them"
        fix = fix if narrow is None else f"`weight: {narrow}` to weigh them by it"
        raise ZooError(
            f"the edges have {', '.join(map(repr, map(str, others)))}; write {fix}, or `weights: "
            "ignore` to read the graph without them."
        )

    def read(self, data: Mapping[str, Any]) -> dict[str, np.ndarray | None]:
        """Return `weights` (E,), `edge_features` (E, F) and their names of edge data, or None."""
        shapes = {name: getattr(values, "shape", ()) for name, values in data.items()}
        named = self.named([*data], [name for name, shape in shapes.items() if shape[1:] > (1,)])
        features = [_numbers_of_edges("edge_features", name, data[name]) for name in self.features]
        names = [
            name if values.shape[1] == 1 else f"{name}[{column}]"
            for name, values in zip(self.features, features, strict=True)
            for column in range(values.shape[1])
        ]
        return {
            "weights": None if named is None else edge_weights(named, data[named]),
            "edge_features": np.concatenate(features, axis=1) if features else None,
            "edge_feature_names": tuple(names) or None,
        }


def edge_weights(name: str, values: Any) -> np.ndarray:
    """Return edge data that is one number for each edge, (E,)."""
    weights = _numbers_of_edges("weight", name, values)
    if weights.shape[1] != 1:
        raise ZooError(
            f"weight: {name!r} is of the shape {weights.shape}, and a weight is one number for "
            "each edge. Choose one, or write `weights: ignore`."
        )
    return weights[:, 0]


def _numbers_of_edges(option: str, name: str, values: Any) -> np.ndarray:
    """Return edge data that is one number or several for each edge, as (E, F)."""
    numbers = to_numpy(values, name)
    if numbers.ndim not in (1, 2) or numbers.dtype.kind not in "iufb":
        raise ZooError(
            f"{option}: {name!r} is of the shape {numbers.shape}, {numbers.dtype}, and edges have "
            "numbers, one or as many for each. Write words as numbers, or as kinds of edges of "
            "their own; or `weights: ignore`."
        )
    return numbers.reshape(len(numbers), -1)


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


# Arrays of numpy


def to_numpy(values: Any, name: str) -> np.ndarray:
    """Return what is like an array as one: a list, a table, a matrix of scipy, a tensor on a GPU.

    Numbers of 8 or 16 bits with a fraction, such as bfloat16, of which numpy has not all, become
    float32; what is missing, in pandas or behind a mask of numpy, NaN.

    Args:
        values: what is read.
        name: what it is called in errors.

    Raises:
        ZooError: it is no array, such as lists of several lengths, or does not fit into memory.
    """
    if (matrix := to_scipy(values)) is not None:
        if (size := 8 * math.prod(matrix.shape)) > available_memory():
            raise ZooError(f"`{name}` would take {size / 1e9:,.0f} GB, more than there is memory.")
        return matrix.toarray()
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu().to_dense()
        return (values.float() if _is_short(str(values.dtype)) else values).numpy()
    if isinstance(values, list | tuple) and any(isinstance(row, torch.Tensor) for row in values):
        values = [to_numpy(row, name) for row in values]
    try:
        array = np.asarray(values)
    except Exception as error:  # libraries of arrays raise what they like
        raise ZooError(
            f"`{name}` cannot be read as an array of numbers: it is a {type(values).__name__} "
            f"({cause(error)})."
        ) from error
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        array = array.astype(float if array.dtype.kind in "iufb" else object)
        array[np.ma.getmaskarray(values)] = np.nan  # among text it is missing, too
    elif array.dtype == object and hasattr(values, "dtypes"):  # a table of pandas with holes
        kinds = {getattr(kind, "kind", "O") for kind in np.atleast_1d(values.dtypes)}
        if array.ndim == 2 and kinds <= {*"iufb"}:
            numbers = values.to_numpy(np.float64, na_value=np.nan)
            whole = kinds <= {*"iu"} and not np.isnan(numbers).any()
            return values.to_numpy(np.int64) if whole else numbers
    if not array.flags.writeable and not isinstance(values, np.ndarray):
        array = array.copy()  # pandas lends its own
    return array.astype(np.float32) if _is_short(array.dtype.name) else array


def to_scipy(values: Any) -> Any | None:
    """Return a sparse matrix of scipy, torch or torch_sparse as one of scipy; None of all else."""
    if sparse.issparse(values):
        return values
    if (entries := sparse_entries(values)) is None:
        return None
    places, numbers, shape = entries
    return sparse.csr_array((numbers, tuple(places.T)), shape=shape)


def sparse_entries(values: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, int]] | None:
    """Return the entries of a sparse matrix of torch or torch_sparse; None of all else.

    These are their rows and columns (E, 2), row by row, their values (E,), and the shape.
    """
    if hasattr(values, "sparse_sizes") and hasattr(values, "coo"):  # of torch_sparse
        *places, numbers = values.coo()
        numbers = torch.ones(len(places[0])) if numbers is None else numbers
        places, shape = torch.stack(places), values.sparse_sizes()
    elif isinstance(values, torch.Tensor) and values.layout != torch.strided and values.ndim == 2:
        matrix = values.detach().to_sparse_coo().coalesce()
        places, numbers, shape = matrix.indices(), matrix.values(), matrix.shape
    else:
        return None
    return to_numpy(places.T, "indices"), to_numpy(numbers, "values"), tuple(map(int, shape))


def _is_short(kind: str) -> bool:
    """Return whether a type of numbers with a fraction has fewer bits than float32."""
    return kind.removeprefix("torch.").startswith(("bfloat16", "float16", "float8"))


# Adjacency matrices of SciPy


def from_scipy(
    adjacency: Any,
    nodes: GraphArrays | None = None,
    weights: Weights = None,
    task: str | None = None,
) -> GraphArrays:
    """Return an adjacency matrix (N, N) as edges, with the nodes' labels and features if given.

    Args:
        adjacency: the matrix, in any sparse form, or dense.
        nodes: labels and features.
        weights: `use` takes its entries as weights of edges, `ignore` reads which there are.
        task: what labels are for, where no nodes are given.

    Raises:
        ZooError: the matrix is not square, has weights, or another number of nodes.
    """
    if (matrix := to_scipy(adjacency)) is None:
        array = to_numpy(adjacency, "matrix")
        if array.dtype.kind not in "biuf" or array.ndim != 2:
            raise ZooError(
                f"the matrix is {array.dtype} of the shape {array.shape}; write a matrix of SciPy "
                "or an array of numbers, with a row and a column per node."
            )
        matrix = sparse.coo_array(array)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ZooError(
            f"the matrix is {matrix.shape} and no adjacency matrix: it should have a row and a "
            "column per node."
        )
    count = check_node_count(matrix.shape[0], matrix.nnz)
    if matrix.format in ("csr", "csc", "bsr"):  # scipy trusts their parts, even broken ones
        matrix.check_format(full_check=True)
    entries = matrix.tocoo()
    filled = entries.data != 0
    if not (entries.data[filled] == 1).all() and weights is None:
        raise ZooError(
            "the matrix has other entries than 0 and 1; write `weights: use` to weigh the edges by "
            "them, or `weights: ignore` to read the graph without them."
        )
    values = entries.data[filled] if weights == "use" else None
    edges = np.stack([entries.row[filled], entries.col[filled]], axis=1).astype(np.int64)
    if nodes is None:
        no_features = np.zeros((count, 0), np.float32)
        nodes = GraphArrays(edges, unlabelled(count, task), no_features)
    if len(nodes.labels) != count:
        raise ZooError(
            f"the matrix has {count:,} nodes, and the table of nodes {len(nodes.labels):,} rows; "
            "write a row per node, in the order of the matrix."
        )
    return nodes._replace(edges=edges, weights=values)
