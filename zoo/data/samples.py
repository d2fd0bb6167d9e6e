"""Data sets of many graphs with labels of their own: images, sequences, molecules.

A model of the zoo returns a row per node, and its readout (`zoo.nn.readouts`) makes an answer for
each graph. Without one the mean of the logits is taken: the head is linear, so that this is its
output for the mean of the features.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from zoo.config.learnt_columns import LearntColumn
from zoo.config.options import Spec
from zoo.data.canonical import graphs_of
from zoo.data.features import transform_features
from zoo.data.files.graph_arrays import (
    Direction,
    Duplicates,
    GraphSetArrays,
    check_features,
    dense,
)
from zoo.data.summary import summary
from zoo.data.tables.encode import FeatureColumns
from zoo.dgl import DGLGraph
from zoo.errors import ZooError, named_in_errors
from zoo.graphs.graph_sets import GraphSet, StoredGraphs, stretches
from zoo.nn.readouts import VIRTUAL_NODE, last_node, mean_of_nodes
from zoo.registry import Model
from zoo.tasks.labels import GRAPH_BINARY, GRAPH_METRICS, GRAPHS, classes_of

GRAPHS_SPLIT, NUMBERS_SPLIT = "stratified-80-10-10", "ratio-80-10-10"
"""The splits of a set of graphs where a recipe names none: of classes, and of other labels."""

SET_ENCODING: Spec = {"name": "random_walk", "steps": 16}
"""The encoding of a set of graphs where a recipe names none: models see structure by it."""

SET_READOUT: Spec = "sum"
"""The readout of a set of graphs where a recipe names none."""

Pooling = Literal["mean", "class-token"]
"""The type of an option `readout` of data: what is read of the logits of a sample's nodes."""


class Encodings(NamedTuple):
    """The encoding of each graph that differs: the rows of all of them, one after another.

    Attributes:
        rows: (M, k) fp32.
        starts: where those of each sample begin, (S,).
    """

    rows: Tensor
    starts: Tensor


class Separate:
    """What data sets have in common that are not the nodes of one graph."""

    name: str
    columns = None  # of a table
    edge_feature_names: tuple[str, ...] | None = None
    learnt = None
    edge_dim: ClassVar[int] = 0  # features of edges
    times = None  # rows are in their order, or have none
    groups = None
    overlap: ClassVar[int] = 0
    published: ClassVar[None] = None  # a split of which a file is still to be had
    ids = labels = feature_names = scaling = None
    transform: Spec = "raw"

    def with_graph(self, spec: Spec) -> Self:
        """Return the data set as it is.

        Raises:
            ZooError: another graph than its own is asked for.
        """
        if spec not in ("own", {"name": "own"}):
            raise ZooError(
                f"{self.name} is not the nodes of one graph, which could be joined anew; leave "
                "`graph` out."
            )
        return self

    def trained_on(self, train: Tensor) -> Self:
        """Return the data set as it is: nothing of it is learnt from training samples alone."""
        return self


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Samples(Separate):
    """Many canonical graphs on the CPU, each with a label: what `Dataset` is for one graph.

    Attributes:
        name: the word that names it, or the stem of its file.
        graphs: the graph of each of S samples.
        x: features of the nodes, those of one sample after the other, (N, F) fp32; or the number of
            the token at each node, (N,) int64.
        y: classes (S,), int64, -1 where unknown; of `graph-multilabel` targets (S, T), of
            `graph-regression` numbers (S,) or (S, T), both fp32, NaN where unknown.
        task: word of the task.
        metric: name of the metric that published results use.
        split: word of the split that is used when a recipe names none.
        masks: `train`, `val` and `test`, each (splits, S) bool: the benchmark's own, or None.
        classes: how many classes, or targets, there are.
        readout: of the logits of nodes, where a model has no readout of its own; `class-token`
            is the last node of each graph.
        tokens: how many tokens there are, where x is their numbers.
        tokenizer: of texts, a `zoo.sequences.data.tokenizer.Tokenizer`; None of others.
        written: texts as they stand in their file (S,), whole; None of others.
        encodings: what stands to the right of x in a batch, or None.
        ids: what the user calls each sample (S,), int64 or text; None: by their numbers.
        times: when each came (S,), NaN where unknown; None: not said.
        groups: which group each is of (S,), text, "" for none; None: not said.
        columns: of tables what x is learnt of; None: nothing is learnt.
        learnt: what has been learnt of them.
        degree_columns: how many of the last columns of x are degrees of nodes.
        plain: the data set without the virtual nodes that this one has; None: it has none.
        labels: the name of each class, or target; None where they have none.
        feature_names: the name of each column of x; None where columns have none.
        edge_feature_names: the name of each feature of edges; None likewise.
        transform: what was done to the features, in the words of `FEATURES`.
        moments: the means and deviations, (2, F), by which it was done; None: by none.
        smiles: of molecules, one for each (S,); None of others.
        unread: rows of a file that could not be read, and are no samples, to their ids.
        batching: the mini-batch strategies that it may be trained by, the default one first.
        unit: what has a label and a row of predictions, in words.
    """

    batching: ClassVar[tuple[str, ...]] = ("samples",)
    unit: ClassVar[str] = "samples"
    splits: ClassVar[tuple[str, ...] | None] = None

    __repr__ = summary

    name: str
    graphs: GraphSet
    x: Tensor
    y: Tensor
    task: str
    metric: str
    split: str
    masks: dict[str, Tensor] | None
    classes: int
    readout: Pooling = "mean"
    tokens: int | None = None
    tokenizer: Any = None
    written: Sequence[str] | None = None
    encodings: Encodings | None = None
    ids: np.ndarray | None = None
    times: np.ndarray | None = None
    groups: np.ndarray | None = None
    columns: FeatureColumns | None = None
    learnt: tuple[LearntColumn, ...] | None = None
    degree_columns: int = 0
    plain: Samples | None = None
    labels: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    edge_feature_names: tuple[str, ...] | None = None
    transform: Spec = "raw"
    moments: Tensor | None = None
    smiles: tuple[str, ...] | None = None
    unread: Mapping[int, Any] = dataclasses.field(default_factory=dict)

    @classmethod
    def of_graphs(
        cls,
        name: str,
        arrays: GraphSetArrays,
        readout: Pooling = "mean",
        duplicates: Duplicates = "mean",
        direction: Direction = "both",
    ) -> Samples:
        """Make a data set of checked arrays of many graphs; the options are those of one."""
        graphs = graphs_of(arrays, duplicates, direction)
        usual = GRAPHS_SPLIT if arrays.task in (GRAPHS, GRAPH_BINARY) else NUMBERS_SPLIT
        return cls(
            name=name,
            graphs=StoredGraphs(graphs, torch.arange(len(graphs))),
            x=torch.from_numpy(arrays.features),
            y=torch.from_numpy(arrays.labels),
            task=arrays.task,
            metric=GRAPH_METRICS[arrays.task],
            split="benchmark" if arrays.masks else usual,
            masks=arrays.masks
            and {part: torch.from_numpy(mask) for part, mask in arrays.masks.items()},
            classes=classes_of(arrays.labels, arrays.label_names),
            readout=readout,
            ids=arrays.ids,
            times=arrays.times,
            groups=arrays.groups,
            columns=arrays.columns,
            degree_columns=arrays.degree_columns,
            labels=arrays.label_names,
            feature_names=arrays.feature_names,
            edge_feature_names=arrays.edge_feature_names,
        )

    @property
    def edge_dim(self) -> int:
        """How many features edges have."""
        return self.graphs.edge_dim

    @property
    def own(self) -> int | None:
        """How many columns of x are features, without a mark of virtual nodes; of tokens None."""
        return None if self.tokens is not None else (self.plain or self).x.shape[1]

    @property
    def inputs(self) -> int:
        """The number of features that a model reads of a node, encodings included."""
        if self.tokens is not None:
            return self.tokens
        return self.x.shape[1] + (self.encodings.rows.shape[1] if self.encodings else 0)

    @property
    def graph(self) -> DGLGraph:
        """Refuse what is for one graph.

        Raises:
            ZooError: always.
        """
        raise ZooError(
            f"{self.name} is {len(self.y):,} graphs with a label each, and this is for the nodes "
            "of one graph. It is trained by `zoo train` with `train.batching=samples`."
        )

    def trained_on(self, train: Tensor) -> Samples:
        """Return the data set with features learnt of the nodes of training samples (n,) alone."""
        if self.columns is None:
            return self
        if self.plain is not None:
            return self.plain.trained_on(train).with_virtual_nodes()
        nodes = stretches(self._starts[train], self.graphs.sizes[train])
        return self.with_columns(self.columns.fit(nodes.numpy()))

    def with_columns(self, learnt: Sequence[LearntColumn]) -> Samples:
        """Return the data set with the features that were learnt of columns like its own.

        Raises:
            ZooError: its columns are others, or there is no room for the features.
        """
        with named_in_errors(self.name):
            x, names = self.columns.transform(learnt)
            x = dense(check_features(x, len(self.x), names=names))
        first = self.x.shape[1] - self.degree_columns
        x = torch.cat([torch.from_numpy(x), self.x[:, first:]], dim=1)
        names = (*names, *(self.feature_names or ())[first:])
        return dataclasses.replace(self, x=x, feature_names=names, learnt=tuple(learnt))

    def transformed(self, features: Spec, moments: Tensor | None = None) -> Samples:
        """Return the data set with raw features changed as a word of `FEATURES` says.

        Args:
            features: the word.
            moments: means and deviations, (2, F), for `standard`; None: those of all nodes.
        """
        x, moments = transform_features(self.x, features, moments)
        return dataclasses.replace(self, x=x, moments=moments, transform=features)

    def encoded(self, encode: Callable[[DGLGraph], Tensor]) -> Samples:
        """Return the data set with the encoding of each graph, a function of it, beside x.

        It is computed once for graphs that several samples share.

        Raises:
            ZooError: the nodes are tokens, which have no columns.
        """
        if self.tokens is not None:
            if encode(self.graphs.batch(torch.tensor([0]))).shape[1] == 0:
                return self
            raise ZooError(
                f"{self.name}: an encoding stands beside the features of a node, and a token has "
                "none. Leave out `encoding`; `rotary: true` of htgn tells the places of tokens."
            )
        graphs, kinds = self.graphs.distinct()
        encodings = encodings_of(graphs, encode)
        if encodings is None:
            return self
        encodings = encodings._replace(starts=encodings.starts[kinds])
        return dataclasses.replace(self, encodings=encodings)

    def batch(self, chosen: Tensor) -> tuple[DGLGraph, Tensor]:
        """Return some samples (B,) as one graph, and what a model reads of its nodes.

        That is (n, F) with the columns of the encoding to the right, or tokens (n,).
        """
        sizes = self.graphs.sizes[chosen]
        x = self.x[stretches(self._starts[chosen], sizes)]
        if self.encodings is not None:
            rows = stretches(self.encodings.starts[chosen], sizes)
            x = torch.cat([x, self.encodings.rows[rows]], dim=1)
        return self.graphs.batch(chosen), x

    def pool(self, chosen: Tensor, rows: Tensor, model: Model | None = None) -> Tensor:
        """Return a row for each of some samples (B,), for the rows of their nodes.

        Args:
            chosen: the samples.
            rows: of their nodes, (n, E).
            model: whose readout is used, if it has one.
        """
        sizes = self.graphs.sizes[chosen]
        if hasattr(model, "head_readout"):
            return model.read_graphs(rows, sizes)
        return (
            last_node(rows, sizes) if self.readout == "class-token" else mean_of_nodes(rows, sizes)
        )

    def with_virtual_nodes(self) -> Samples:
        """Return the data set with a last node in each graph that is linked with all others.

        It has no features, but for a column to the right of x that is 1 there and 0 elsewhere.

        Raises:
            ZooError: the nodes are tokens, or several samples share a graph, as images do.
        """
        if self.tokens is not None or not isinstance(self.graphs, StoredGraphs):
            raise ZooError(
                f"{self.name} is not of graphs to which a virtual node could be added; write "
                "another `readout`, such as `mean`."
            )
        x = _with_last_rows(self.x, self.graphs.sizes)
        mark = _with_last_rows(x.new_zeros(len(self.x), 1), self.graphs.sizes, 1.0)
        encodings = self.encodings
        if encodings is not None:
            own = self.graphs.distinct()[0]
            sizes = torch.tensor([graph.num_nodes() for graph in own])
            starts = encodings.starts + self.graphs.kinds
            encodings = Encodings(_with_last_rows(encodings.rows, sizes), starts)
        names = self.feature_names and (*self.feature_names, VIRTUAL_NODE)
        return dataclasses.replace(
            self,
            graphs=self.graphs.with_virtual_nodes(),
            x=torch.cat([x, mark], dim=1),
            encodings=encodings,
            feature_names=names,
            plain=self,
        )

    @property
    def _starts(self) -> Tensor:
        return self.graphs.sizes.cumsum(0) - self.graphs.sizes


def encodings_of(
    graphs: Sequence[DGLGraph], encode: Callable[[DGLGraph], Tensor]
) -> Encodings | None:
    """Return the encoding of each graph, a function of it; None where it has no columns.

    They are computed together where the function has an `of_each`, as `zoo.encodings.Encoder`.
    """
    of_each = getattr(encode, "of_each", lambda graphs: torch.cat([*map(encode, graphs)]))
    rows = of_each(graphs)
    if rows.shape[1] == 0:
        return None
    sizes = torch.tensor([graph.num_nodes() for graph in graphs])
    return Encodings(rows.float(), sizes.cumsum(0) - sizes)


def _with_last_rows(rows: Tensor, sizes: Tensor, value: float = 0.0) -> Tensor:
    """Return rows (n, F) of graphs of some sizes (B,), with one more after those of each."""
    ends = sizes.cumsum(0) + torch.arange(len(sizes))
    old = torch.ones(len(rows) + len(sizes), dtype=torch.bool)
    old[ends] = False
    longer = rows.new_full((len(old), rows.shape[1]), value)
    longer[old] = rows
    return longer
