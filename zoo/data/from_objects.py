"""Data sets of arrays and of other libraries' graphs, and what is done to their features first."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse
from torch import Tensor

from zoo.config.learnt_columns import Missing
from zoo.config.options import Spec, Table, pick
from zoo.config.recipe import word
from zoo.data.files import objects
from zoo.data.files.graph_arrays import (
    Direction,
    Duplicates,
    EdgeColumns,
    GraphArrays,
    Weights,
    check_words,
)
from zoo.data.files.graph_set_arrays import GraphSetArrays
from zoo.data.files.matrices import from_scipy
from zoo.data.files.saved_graphs import (
    from_dgl,
    from_dgl_list,
    from_pyg,
    from_pyg_list,
    unpacked,
)
from zoo.data.samples import Samples
from zoo.data.tables.columns import Columns, Names, Numbers
from zoo.data.tables.networkx_graph import from_networkx
from zoo.data.tables.split_columns import without_split
from zoo.dgl import DGLGraph
from zoo.errors import ZooError
from zoo.tasks.labels import check_task_of_graphs


def raw(x: Tensor) -> Tensor:
    """Leave the features (N, F) as the file has them."""
    return x


def row(x: Tensor) -> Tensor:
    """Divide each row of x (N, F) by the sum of its magnitudes; rows of zeros stay zero."""
    total = x.abs().sum(dim=1, keepdim=True)
    return x / total.masked_fill(total == 0, 1)


def standard(x: Tensor) -> Tensor:
    """Give each column of x (N, F) mean 0 and variance 1; constant columns become zero."""
    return _standardised(x, _moments(x))


FAR, APART = 10, 100
"""Sizes of features beyond which they are hard to learn from as they are; and how many times the
typical one the largest may be."""


def far_from_standard(x: Tensor) -> bool:
    """Return whether features (N, F), by some 10,000 of their rows, are to be standardised."""
    rows = x[:: max(1, len(x) // 10_000)].double()
    if not rows.numel():
        return False
    return lie_apart(rows.mean(dim=0).numpy(), rows.std(dim=0, correction=0).numpy())


def lie_apart(mean: np.ndarray, spread: np.ndarray) -> bool:
    """Return whether features of these means and deviations (F,) are to be standardised.

    That is if one is large, `FAR` from 0 by its root mean square; or `APART` times as large as the
    median; or as far from 0 as `APART` of its deviations. Constant columns do not count.
    """
    mean, spread = (each[spread > 0].astype(np.float64) for each in (mean, spread))
    if not len(mean):
        return False
    size = np.hypot(mean, spread)
    most = size.max()
    return bool(most > FAR or most > APART * np.median(size) or (abs(mean) > APART * spread).any())


FEATURES = Table("features", {"raw": raw, "row": row, "standard": standard})
"""Word to function `x (N, F) -> x (N, F)`."""


def transformed(
    x: Tensor, features: Spec, moments: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return x (N, F) changed as a word of `FEATURES` says, and by which moments (2, F), if any.

    Args:
        x: raw features.
        features: the word.
        moments: means and deviations of the columns of other nodes; None: those of x.
    """
    if word(features) != "standard":
        return pick(FEATURES, features, x), None
    moments = _moments(x) if moments is None else moments
    return _standardised(x, moments), moments


def _moments(x: Tensor) -> Tensor:
    x = x.double()
    mean = x.mean(dim=0)
    spread = (x - mean).square().mean(dim=0).sqrt()  # exactly 0 where all are equal
    return torch.stack([mean, spread.masked_fill(spread == 0, 1)])


def _standardised(x: Tensor, moments: Tensor) -> Tensor:
    return ((x.double() - moments[0]) / moments[1]).to(x.dtype)


def _is_dgl(each: Any) -> bool:
    """Return whether what is first in a list begins a set of graphs of DGL."""
    return isinstance(each[0] if isinstance(each, list | tuple) and each else each, DGLGraph)


def _refuse_of_sets(**given: Any) -> None:
    """Refuse options of sets of graphs where there is one graph."""
    for option, value in given.items():
        if value is not None:
            raise ZooError(f"`{option}` is of a list of graphs, and this is one; leave it out, or "
                           "write a list. Labels of nodes are node data.")  # fmt: skip


def _set_of_graphs(
    read: Callable[[], GraphSetArrays],
    name: str,
    task: str | None,
    *,
    split: str | None = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    **others: Any,
) -> Samples:
    """Return graphs as `Samples`, with those options of one graph that a set has.

    Raises:
        ZooError: an option that it has not, or another task than its own.
    """
    check_task_of_graphs(task)
    usual = {"features": "raw", "relations": "together"}
    if told := [each for each, given in others.items() if given != usual.get(each)]:
        fix = ", ".join(("label", "feature", "weight", "weights", "edge_features", "degrees",
                         "split", "duplicates", "direction", "name"))  # fmt: skip
        raise ZooError(f"`{told[0]}` is no option of a set of graphs; these are: {fix}.")
    check_words(duplicates, direction)
    made = Samples.of_graphs(name, read(), duplicates=duplicates, direction=direction)
    return made if split is None else dataclasses.replace(made, split=split)


class FromObjects:
    """The ways to make a `Dataset` of what is in memory."""

    @classmethod
    def of_arrays(
        cls, name: str, arrays: GraphArrays, *, task: str | None = None, **common: Any
    ) -> Self:
        """Make one of arrays."""
        raise NotImplementedError

    @classmethod
    def from_arrays(
        cls,
        edges: ArrayLike,
        features: Any = None,
        labels: ArrayLike | None = None,
        *,
        masks: Mapping[str, ArrayLike] | None = None,
        ids: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        weights: ArrayLike | None = None,
        edge_features: ArrayLike | None = None,
        task: str | None = None,
        name: str = "mine",
        duplicates: Duplicates = "mean",
        direction: Direction = "both",
    ) -> Self:
        """Make a data set of arrays, lists or tensors.

        Args:
            edges: (E, 2) numbers of nodes, or their ids where these are given.
            features: (N, F), dense or scipy sparse, or a table of pandas, of which `split`, or
                `train_mask`, `val_mask` and `test_mask`, are the split.
            labels: (N,) classes, numbers or text ("" or -1 = unknown), or (N, T) targets.
            masks: `train`, `val` and `test`, (N,) or (S, N) bool.
            ids: (N,) what each node is called.
            feature_names: a name for each feature; None: those of the columns of a table.
            weights: (E,) weights of the edges, from 0.
            edge_features: (E, F) numbers.
            task: what the labels are for; None: as their shape says.
            name: what to call it.
            duplicates: what the weights of an edge that is there more than once become.
            direction: which edges a node gathers along; see `zoo.canonical`.

        Raises:
            ZooError: the arrays do not fit together, or the labels not the task.
        """
        objects.need_arrays("from_arrays reads edges (E, 2), numbers of nodes or ids", edges)
        features, masks = without_split(features, masks, feature_names)
        arrays = objects.from_arrays(edges, features, labels, masks, ids, feature_names, task)
        given = {"weights": weights, "edge_features": edge_features}
        found = {key: objects.writable(x, key) for key, x in given.items() if x is not None}
        arrays = arrays._replace(**found)
        common = {"duplicates": duplicates, "direction": direction}
        return cls.of_arrays(name, arrays, task=task, **common)

    @classmethod
    def from_dgl(
        cls,
        graph: DGLGraph | Sequence[Any],
        *,
        labels: Any = None,
        label: str | None = None,
        feature: str | None = None,
        weight: str | None = None,
        weights: Weights = None,
        edge_features: Names | None = None,
        degrees: int | None = None,
        task: str | None = None,
        name: str = "mine",
        **common: Any,
    ) -> Self:
        """Make a data set of a DGLGraph; see `zoo.data.files.saved_graphs.read_graph`.

        Of a list of them, or a data set of DGL, it is a `zoo.data.samples.Samples`: `labels`
        are the classes of the graphs, `degrees` makes columns for the degrees of their nodes.
        """
        choice = EdgeColumns.of(weight, weights, edge_features)
        if isinstance(graph, tuple) and len(graph) == 2 and isinstance(graph[1], Mapping):
            graphs, own = graph  # as dgl.load_graphs returns them
            graph = graphs[0] if len(graphs) == 1 and not own else graphs
            labels = own or None if labels is None else labels
        held = graph if isinstance(graph, DGLGraph) else unpacked(graph)
        if isinstance(held, list) and held and _is_dgl(held[0]):
            own = (label, feature, choice, degrees)
            made = _set_of_graphs(lambda: from_dgl_list(held, labels, *own), name, task, **common)
            return cast(Self, made)
        if not isinstance(held, DGLGraph):
            raise objects.other_object("from_dgl reads a DGLGraph, or a list of them", graph)
        if held.is_block:
            raise ZooError("this is a block of a sampler, a part of a graph; write the graph.")
        if held.batch_size > 1 and labels is not None:
            raise ZooError("this is a batch of graphs; write a list, dgl.unbatch(graph).")
        _refuse_of_sets(labels=labels, degrees=degrees)
        arrays = from_dgl(held, label, feature, choice, task)
        return cls.of_arrays(name, arrays, task=task, **common)

    @classmethod
    def from_pyg(
        cls,
        data: Any,
        *,
        label: str | None = None,
        feature: str | None = None,
        weight: str | None = None,
        weights: Weights = None,
        edge_features: Names | None = None,
        degrees: int | None = None,
        task: str | None = None,
        name: str = "mine",
        **common: Any,
    ) -> Self:
        """Make a data set of a PyG `Data`; see `zoo.data.files.saved_graphs.read_graph`.

        Of a list of them, or a data set of PyG, each with a label such as `y`, it is a
        `zoo.data.samples.Samples`; `degrees` makes columns for the degrees of their nodes.
        """
        choice = EdgeColumns.of(weight, weights, edge_features)
        held = unpacked(data)
        one = held[0] if isinstance(held, list) and held else held
        if not (hasattr(one, "to_dict") or isinstance(one, Mapping)) or hasattr(one, "iloc"):
            raise objects.other_object("from_pyg reads Data of PyG, or a list of them", data)
        if isinstance(held, list):
            own = (label, feature, choice, degrees)
            made = _set_of_graphs(lambda: from_pyg_list(held, *own), name, task, **common)
            return cast(Self, made)
        _refuse_of_sets(degrees=degrees)
        arrays = from_pyg(held, label, feature, choice, task)
        return cls.of_arrays(name, arrays, task=task, **common)

    @classmethod
    def from_networkx(
        cls,
        graph: Any,
        *,
        label: Names | None = None,
        split_column: str | None = None,
        columns: Names | None = None,
        one_hot: Names | None = None,
        text: Names | None = None,
        dates: Names | None = None,
        missing: Missing = "refuse",
        numbers: Numbers = "standard",
        weight: str | None = None,
        weights: Weights = None,
        edge_features: Names | None = None,
        task: str | None = None,
        name: str = "mine",
        **common: Any,
    ) -> Self:
        """Make a data set of a NetworkX graph; see `zoo.data.load.readers.read_attributed`."""
        import networkx

        if not isinstance(graph, networkx.Graph):
            raise objects.other_object("from_networkx reads one graph of NetworkX", graph)
        choice = Columns(None, label, split_column, columns, one_hot, None, task, text, dates,
                         missing=missing, numbers=numbers)  # fmt: skip
        arrays = from_networkx(graph, choice, EdgeColumns.of(weight, weights, edge_features))
        return cls.of_arrays(name, arrays, task=task, **common)

    @classmethod
    def from_scipy(
        cls,
        adjacency: sparse.sparray | ArrayLike,
        features: Any = None,
        labels: ArrayLike | None = None,
        *,
        weights: Weights = None,
        task: str | None = None,
        name: str = "mine",
        **common: Any,
    ) -> Self:
        """Make a data set of an adjacency matrix (N, N), sparse or dense; see `from_arrays`.

        Its entries are weights of edges where `weights` is `use`.
        """
        what = "an adjacency matrix of SciPy or an array of numbers, a row and a column per node"
        objects.need_arrays(f"the matrix is to be {what}", adjacency, matrix=True)
        known = features is not None or labels is not None
        features, masks = without_split(features, None, None)
        nodes = objects.from_arrays([], features, labels, masks, task=task) if known else None
        arrays = from_scipy(adjacency, nodes, weights, task)
        return cls.of_arrays(name, arrays, task=task, **common)
