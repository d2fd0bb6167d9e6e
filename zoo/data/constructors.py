"""`Dataset.from_arrays`, `from_dgl`, `from_pyg`, `from_networkx` and `from_scipy`."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast

from numpy.typing import ArrayLike
from scipy import sparse

from zoo.config.learnt_columns import Missing
from zoo.data.files import objects
from zoo.data.files.dgl_and_pyg import from_dgl, from_dgl_list, from_pyg, from_pyg_list, unpack
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
from zoo.data.files.to_numpy import to_numpy
from zoo.data.samples import Samples
from zoo.data.tables.columns import Columns, Names, Numbers
from zoo.data.tables.networkx_graph import from_networkx
from zoo.data.tables.split_columns import without_split
from zoo.dgl import DGLGraph
from zoo.errors import ZooError
from zoo.tasks.labels import check_task_of_graphs

_OF_SETS = ("label", "feature", "weight", "weights", "edge_features", "degrees", "split",
            "duplicates", "direction", "name")  # fmt: skip


def _refuse_options_of_sets(**options: Any) -> None:
    """Refuse options of sets of graphs where there is one graph."""
    for option, value in options.items():
        if value is not None:
            raise ZooError(f"`{option}` is of a list of graphs, and this is one; leave it out, or "
                           "write a list. Labels of nodes are node data.")  # fmt: skip


def _samples(
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
    if unknown := [key for key, value in others.items() if value != usual.get(key)]:
        raise ZooError(f"`{unknown[0]}` is no option of a set of graphs; these are: "
                       f"{', '.join(_OF_SETS)}.")  # fmt: skip
    check_words(duplicates, direction)
    data = Samples.of_graphs(name, read(), duplicates=duplicates, direction=direction)
    return data if split is None else dataclasses.replace(data, split=split)


class Constructors:
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
        arrays = arrays._replace(
            weights=None if weights is None else to_numpy(weights, "weights"),
            edge_features=None
            if edge_features is None
            else to_numpy(edge_features, "edge_features"),
        )
        return cls.of_arrays(name, arrays, task=task, duplicates=duplicates, direction=direction)

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
        """Make a data set of a DGLGraph; see `zoo.data.files.dgl_and_pyg.read_graph`.

        Of a list of them, or a data set of DGL, it is a `zoo.data.samples.Samples`: `labels`
        are the classes of the graphs (S,), or targets or numbers (S, T), as `task` says; `degrees`
        makes columns for the degrees of their nodes.
        """
        choice = EdgeColumns.of(weight, weights, edge_features)
        if isinstance(graph, tuple) and len(graph) == 2 and isinstance(graph[1], Mapping):
            graphs, own = graph  # as dgl.load_graphs returns them
            graph = graphs[0] if len(graphs) == 1 and not own else graphs
            labels = own or None if labels is None else labels
        content = graph if isinstance(graph, DGLGraph) else unpack(graph)
        first = content[0] if isinstance(content, list) and content else content
        first = first[0] if isinstance(first, list | tuple) and first else first  # and its label
        if not isinstance(first, DGLGraph):
            raise objects.wrong_object("from_dgl reads a DGLGraph, or a list of them", graph)
        if isinstance(content, list):
            options = (labels, label, feature, choice, degrees, task)
            data = _samples(lambda: from_dgl_list(content, *options), name, task, **common)
            return cast(Self, data)
        if content.is_block:
            raise ZooError("this is a block of a sampler, a part of a graph; write the graph.")
        if content.batch_size > 1 and labels is not None:
            raise ZooError("this is a batch of graphs; write a list, dgl.unbatch(graph).")
        _refuse_options_of_sets(labels=labels, degrees=degrees)
        arrays = from_dgl(content, label, feature, choice, task)
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
        """Make a data set of a PyG `Data`; see `zoo.data.files.dgl_and_pyg.read_graph`.

        Of a list of them, or a data set of PyG, each with a label such as `y`, it is a
        `zoo.data.samples.Samples`, whose label is a class, or T targets or numbers, as `task` says;
        `degrees` makes columns for the degrees of their nodes.
        """
        choice = EdgeColumns.of(weight, weights, edge_features)
        content = unpack(data)
        first = content[0] if isinstance(content, list) and content else content
        if not (hasattr(first, "to_dict") or isinstance(first, Mapping)) or hasattr(first, "iloc"):
            raise objects.wrong_object("from_pyg reads Data of PyG, or a list of them", data)
        if isinstance(content, list):
            options = (label, feature, choice, degrees, task)
            samples = _samples(lambda: from_pyg_list(content, *options), name, task, **common)
            return cast(Self, samples)
        _refuse_options_of_sets(degrees=degrees)
        arrays = from_pyg(content, label, feature, choice, task)
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
            raise objects.wrong_object("from_networkx reads one graph of NetworkX", graph)
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
