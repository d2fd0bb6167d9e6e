"""The data set class: a canonical graph with features, labels and the benchmark's own splits."""

import dataclasses
import inspect
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse
from torch import Tensor

from zoo.canonical_form import FEATURE, WEIGHT, subgraph
from zoo.config.learnt_columns import LearntColumn, Missing, scaled_numbers
from zoo.config.options import Spec, option_problems, pick
from zoo.config.recipe import word
from zoo.data.canonical import canonical, graph_of
from zoo.data.features import far_from_standard, transform_features
from zoo.data.files import objects
from zoo.data.files.dgl_and_pyg import (
    Wanted,
    from_dgl,
    from_dgl_list,
    from_pyg,
    from_pyg_list,
    graph_arrays,
    unpack,
)
from zoo.data.files.graph_arrays import (
    NO_EDGES,
    PARTS,
    Direction,
    Duplicates,
    GraphArrays,
    GraphSetArrays,
    Relations,
    check_arrays,
    check_features,
    check_words,
    dense,
)
from zoo.data.files.objects import EdgeColumns, Weights, from_scipy, to_numpy
from zoo.data.files.prepared import write_prepared
from zoo.data.files.text_lines import Texts
from zoo.data.graph_words import GRAPHS
from zoo.data.molecules import from_smiles
from zoo.data.samples import Samples
from zoo.data.summary import summary
from zoo.data.tables.columns import Columns, Names, Numbers, without_split
from zoo.data.tables.encode import FeatureColumns
from zoo.data.tables.networkx_graph import from_networkx
from zoo.data.tables.nodes_and_edges import read_frames, read_tables
from zoo.dgl import DGLGraph
from zoo.errors import ZooError, named_in_errors, unknown
from zoo.graphs.knn import MADE
from zoo.graphs.pairs import LinkRows
from zoo.registry import check_encoding
from zoo.system.memory import available_memory
from zoo.tasks.labels import (
    CLASSIFICATION,
    NODE_METRICS,
    check_task,
    check_task_of_graphs,
    classes_of,
    infer_task,
)

_LOG = logging.getLogger(__name__)

MASKLESS_SPLIT = "ratio-60-20-20"
"""The default split of a graph that no benchmark has fixed splits for."""

STRATEGIES = ("full", "random-nodes", "clusters", "neighbours")
"""How the nodes of a graph may be trained on, at once or in mini-batches."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A canonical graph on the CPU, and what is known of its nodes.

    Attributes:
        name: the word that names it, or the stem of its file.
        graph: both directions of every edge, no duplicates, one self-loop per node; its edge data
            `weight` are weights of edges, or those of each direction, `feature` their features.
        x: features (N, F), fp32; of an on-disk graph a mapped file, fp16 or fp32.
        y: classes (N,), int64, -1 where unknown; or targets (N, T), fp32, NaN where unknown; of
            `node-regression` numbers (N,) or (N, T), fp32, NaN where unknown.
        task: word of the task.
        metric: name of the metric that published results use.
        split: word of the split that is used when a recipe names none.
        masks: `train`, `val` and `test`, each (S, N) bool: the S splits of the benchmark, or None.
        link_rows: when edges came, or the part of links that they are of; None: not said.
        context: labels, as y, of the nodes whose labels a model may be given; None: of none.
        published: returns such masks of a graph that has none yet, and may download their file.
        classes: how many classes, or targets, there are.
        ids: what the user calls each node (N,), int64 or text; None: by their numbers.
        labels: the name of each class, or of each target; None where they have none.
        feature_names: the name of each column of x; None where columns have none.
        edge_feature_names: the name of each feature of edges; None likewise.
        relation_names: the kind of each of K weights (E, K); None where kinds are not kept apart.
        transform: what was done to the features, in the words of `FEATURES`.
        moments: the means and deviations, (2, F), by which it was done; None: by none.
        own: how many of the columns of x are features, the others being encodings; None: all.
        columns: of a table what x is learnt of; None: nothing is learnt.
        learnt: what has been learnt of them; or of those of the table that x was written from.
        times: (N,) when each node came, NaN where unknown; None: not said.
        groups: (N,) text, which group each node is of, "" for none; None: not said.
        kinds: (N,) text, the kind of each node; None where all are of one kind.
        made: what has made its graph of its features, and encodings of its graph, in order.
        batching: the mini-batch strategies that it may be trained by, the default one first.
        unit: what has a label and a row of predictions, in words.
    """

    batching: ClassVar[tuple[str, ...]] = STRATEGIES
    unit: ClassVar[str] = "nodes"
    splits: ClassVar[tuple[str, ...] | None] = None  # words that it takes; None: any
    overlap: ClassVar[int] = 0
    scaling: ClassVar[None] = None  # of series
    tokenizer: ClassVar[None] = None  # of a data set of text

    __repr__ = summary

    name: str
    graph: DGLGraph
    x: Tensor
    y: Tensor
    task: str
    metric: str
    split: str
    masks: dict[str, Tensor] | None
    classes: int
    ids: np.ndarray | None = None
    labels: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    edge_feature_names: tuple[str, ...] | None = None
    relation_names: tuple[str, ...] | None = None
    transform: Spec = "raw"
    moments: Tensor | None = None
    own: int | None = None
    made: tuple[Callable[["Dataset"], "Dataset"], ...] = ()
    columns: FeatureColumns | None = None
    learnt: tuple[LearntColumn, ...] | None = None
    times: np.ndarray | None = None
    groups: np.ndarray | None = None
    kinds: np.ndarray | None = None
    link_rows: LinkRows | None = None
    context: Tensor | None = None
    published: Callable[[], dict[str, Tensor]] | None = None

    @classmethod
    def of_arrays(
        cls, name: str, arrays: GraphArrays, *, task: str | None = None, **common: Any
    ) -> "Dataset":
        """Make a data set of arrays; see `make_dataset`. What is done to numbers is said."""
        data = make_dataset(name, arrays, task=task or infer_task(arrays.labels), **common)
        if scaled := data.columns and scaled_numbers(data.columns.fit()):
            _LOG.warning(
                "numbers of %s are standardised by all nodes (%s); `data.trained_on(split.train)` "
                "does so by training nodes, and `numbers='raw'` leaves them as they are.",
                name, ", ".join(scaled),
            )  # fmt: skip
        elif data.columns is None and data.transform == "raw" and far_from_standard(data.x):
            _LOG.warning(
                "features of %s lie apart in scale, or far from 0 and 1, and are taken as they "
                "are; `data.transformed('standard', train=split.train)` standardises them by "
                "training nodes.", name,
            )  # fmt: skip
        return data

    @classmethod
    @objects.arguments_in_errors()
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
            labels: (N,) classes, numbers or text ("" or -1 = unknown), or (N, T) targets or
                numbers, which the columns of a table of pandas name.
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
            ZooError: the arrays do not fit together, such as tables of pandas whose indexes are
                the same in another order, or the labels not the task.
        """
        objects.need_arrays("from_arrays reads edges (E, 2), numbers of nodes or ids", edges)
        objects.check_order(features=features, labels=labels, ids=ids, masks=masks)
        objects.check_order(edges=edges, weights=weights, edge_features=edge_features)
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
    def from_pandas(
        cls,
        nodes: Any,
        edges: Any = None,
        *,
        label: Names | None = None,
        id: str | None = "id",
        source: str = "source",
        target: str = "target",
        task: str | None = None,
        name: str = "mine",
        **options: Any,
    ) -> Self:
        """Make a data set of frames with words, dates and gaps, read as a folder of two tables.

        What is learnt of columns is learnt of all nodes until `trained_on(train)`.

        Args:
            nodes: a row per node (N); other columns than those named are features.
            edges: a row per edge, with the ids of both ends; None: there are none.
            label: column of nodes, or several: what is predicted; None: `label`.
            id: column of nodes, or their index; None numbers them by their rows, from 0.
            source: column of edges: the id of one end.
            target: column of edges: the id of the other end.
            task: what the labels are for; None: as their shape says.
            name: what to call it.
            options: those of a folder of tables, such as `one_hot`, `text`, `dates`, `missing`,
                `numbers` and `weight`; see `zoo.data.tables.nodes_and_edges.read_tables`. And
                `split`, `features`, `duplicates`, `direction`, `relations`; see `make_dataset`.

        Raises:
            ZooError: no frames, an unknown option, or columns that are not what they should be.
        """
        for frame in (nodes, *([] if edges is None else [edges])):
            if not (hasattr(frame, "iloc") and hasattr(frame, "columns")):
                raise objects.wrong_object("from_pandas reads frames of nodes and of edges", frame)
        common = {key: options.pop(key) for key in _COMMON if key in options}
        options |= {"label": label, "id": id, "source": source, "target": target}
        if wrong := option_problems("from_pandas", read_tables, options, (), _COMMON):
            raise ZooError(" ".join(map(str, wrong)))
        arrays = read_frames(nodes, edges, task, **options)
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
        """Make a data set of a DGLGraph; see `zoo.data.files.dgl_and_pyg.read_graph`.

        Of a list of them, or a data set of DGL, it is a `zoo.data.samples.Samples`: `labels`
        are the classes of the graphs (S,), or targets or numbers (S, T), as `task` says; `degrees`
        makes columns for the degrees of their nodes.
        """
        _refuse_unknown(cls.from_dgl, common)
        edges = EdgeColumns.of(weight, weights, edge_features)
        wanted = Wanted(label, feature, edges, task, degrees)
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
            data = _samples(lambda: from_dgl_list(content, labels, wanted), name, task, **common)
            return cast(Self, data)
        if content.is_block:
            raise ZooError("this is a block of a sampler, a part of a graph; write the graph.")
        if content.batch_size > 1 and labels is not None:
            raise ZooError("this is a batch of graphs; write a list, dgl.unbatch(graph).")
        _refuse_options_of_sets(labels=labels, degrees=degrees)
        arrays = graph_arrays(from_dgl(content), wanted)
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
        _refuse_unknown(cls.from_pyg, common)
        edges = EdgeColumns.of(weight, weights, edge_features)
        wanted, content = Wanted(label, feature, edges, task, degrees), unpack(data)
        first = content[0] if isinstance(content, list) and content else content
        if not (hasattr(first, "to_dict") or isinstance(first, Mapping)) or hasattr(first, "iloc"):
            raise objects.wrong_object("from_pyg reads Data of PyG, or a list of them", data)
        if isinstance(content, list):
            samples = _samples(lambda: from_pyg_list(content, wanted), name, task, **common)
            return cast(Self, samples)
        _refuse_options_of_sets(degrees=degrees)
        arrays = graph_arrays(from_pyg(content, wanted), wanted)
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

        _refuse_unknown(cls.from_networkx, common)
        if not isinstance(graph, networkx.Graph):
            raise objects.wrong_object("from_networkx reads one graph of NetworkX", graph)
        choice = Columns(None, label, split_column, columns, one_hot, None, task, text, dates,
                         missing=missing, numbers=numbers)  # fmt: skip
        arrays = from_networkx(graph, choice, EdgeColumns.of(weight, weights, edge_features))
        return cls.of_arrays(name, arrays, task=task, **common)

    @classmethod
    def from_smiles(
        cls,
        smiles: Iterable[str],
        labels: Any = None,
        *,
        ids: Iterable[Any] | None = None,
        task: Any = None,
        name: str = "molecules",
    ) -> Self:
        """Make a data set of molecules: atoms and bonds, read by RDKit.

        It is a `zoo.data.samples.Samples`, a graph for each molecule that can be read; others are
        told, and have an empty row in predictions.

        Args:
            smiles: M of them.
            labels: (M,) classes, numbers or text, or a table (M, T); None: to be predicted.
            ids: (M,) what each molecule is called; None: by its number from 0.
            task: what the labels are for; None: as they say, as of a table of molecules.
            name: what to call it.

        Raises:
            ZooError: RDKit is not installed or can read none of them, or the labels are no such.
        """
        return cast(Self, from_smiles(smiles, labels, ids=ids, task=task, name=name))

    @classmethod
    @objects.arguments_in_errors()
    def from_scipy(
        cls,
        adjacency: sparse.sparray | ArrayLike,
        features: Any = None,
        labels: ArrayLike | None = None,
        *,
        masks: Mapping[str, ArrayLike] | None = None,
        ids: ArrayLike | None = None,
        feature_names: Sequence[str] | None = None,
        weights: Weights = None,
        task: str | None = None,
        name: str = "mine",
        **common: Any,
    ) -> Self:
        """Make a data set of an adjacency matrix (N, N), sparse or dense.

        Args:
            adjacency: a row and a column for each node; what is not 0 is an edge.
            features: as the following, those of `from_arrays`, in the order of the matrix.
            labels: see there.
            masks: see there.
            ids: see there.
            feature_names: see there.
            weights: `use` takes the entries as weights of edges, `ignore` reads which there are.
            task: what the labels are for; None: as their shape says.
            name: what to call it.
            common: `split`, `duplicates`, `direction`, `relations`; see `make_dataset`.

        Raises:
            ZooError: the matrix is none of nodes, what is given does not fit it, or an unknown
                option.
        """
        _refuse_unknown(cls.from_scipy, common)
        what = "an adjacency matrix of SciPy or an array of numbers, a row and a column per node"
        objects.need_arrays(f"the matrix is to be {what}", adjacency, matrix=True)
        objects.check_order(
            adjacency=adjacency, features=features, labels=labels, ids=ids, masks=masks
        )
        features, masks = without_split(features, masks, feature_names)
        nodes = None
        if any(values is not None for values in (features, labels, masks, ids, feature_names)):
            nodes = objects.from_arrays([], features, labels, masks, ids, feature_names, task)
        arrays = from_scipy(adjacency, nodes, weights, task)
        return cls.of_arrays(name, arrays, task=task, **common)

    def arrays(self) -> GraphArrays:
        """Return all of it but its edges as arrays."""
        masks = self.masks and {part: mask.numpy() for part, mask in self.masks.items()}
        return GraphArrays(
            NO_EDGES, self.y.numpy(), self.x.numpy(), masks, self.ids, self.labels,
            self.feature_names, self.task, columns=self.columns, times=self.times,
            groups=self.groups, learnt=self.learnt,
        )  # fmt: skip

    def save(self, path: Path | str) -> None:
        """Write it as a prepared graph, an `.npz` that `zoo.load_data` and `zoo train` read.

        Raises:
            ZooError: what it holds would not come back: columns that are still to be learnt in
                training, encodings, or kinds or directions of edges that are kept apart.
        """
        weights = self.graph.edata.get(WEIGHT)
        lost = {
            "its columns are learnt in training, so that their table is what to keep": self.columns,
            "encodings are added to its features; save it before": self.own is not None,
            "its links are split by columns or tables of their own": self.link_rows,
            "kinds or directions of its edges are kept apart": weights is not None
            and weights.ndim == 2,
        }
        if why := next((why for why, is_so in lost.items() if is_so), None):
            raise ZooError(f"{self.name} is not saved: {why}.")
        edges = torch.stack(self.graph.edges(), dim=1).cpu().numpy()
        published = self.published() if self.published and self.masks is None else None
        whole = dataclasses.replace(self, masks=published) if published else self
        arrays = whole.arrays()._replace(
            edges=edges, form="canonical", kinds=self.kinds, relation_names=None,
            weights=None if weights is None else weights.cpu().numpy(),
            edge_features=self.graph.edata[FEATURE].cpu().numpy() if self.edge_dim else None,
            edge_feature_names=self.edge_feature_names,
        )  # fmt: skip
        write_prepared(arrays, path)

    @property
    def edge_dim(self) -> int:
        """How many features edges have."""
        return self.graph.edata[FEATURE].shape[1] if FEATURE in self.graph.edata else 0

    @property
    def inputs(self) -> int:
        """The number of features that a model reads of a node, encodings included."""
        return self.x.shape[1]

    def with_graph(self, spec: Spec) -> "Dataset":
        """Return the data set with the graph that a word of `GRAPHS` makes of x, such as `knn`.

        Raises:
            ZooError: an unknown word or option, or a graph that cannot be made.
        """
        with named_in_errors(self.name):
            edges = pick(GRAPHS, spec, self.x, self.ids)
        if edges is None:
            return self
        again = (lambda part: part.with_graph(spec),) if word(spec) in MADE else ()
        own = {"graph": canonical(edges, nodes=len(self.x)), "relation_names": None}
        own["link_rows"] = None  # of other edges
        return dataclasses.replace(self, **own, made=(*self.made, *again))

    def part(self, nodes: Tensor) -> "Dataset":
        """Return the data set of some nodes (n,) alone: edges to others are forgotten.

        A graph that was made of the features, and encodings, are made again of these nodes.
        """
        graph = subgraph(self.graph, nodes)
        ids = None if self.ids is None else self.ids[nodes.numpy()]
        names = self.feature_names and self.feature_names[: self.own]
        own = {"graph": graph, "x": self.x[nodes, : self.own], "y": self.y[nodes], "masks": None}
        own |= {"published": None, "link_rows": None}
        columns = self.columns and self.columns.part(nodes.numpy())
        own |= {"ids": ids, "feature_names": names, "columns": columns}
        own["context"] = None if self.context is None else self.context[nodes]
        for key in ("times", "groups", "kinds"):
            each = getattr(self, key)
            own[key] = None if each is None else each[nodes.numpy()]
        return _made_again(dataclasses.replace(self, **own, own=None, made=()), self.made)

    def with_context(self, nodes: Tensor) -> "Dataset":
        """Return the data set with the labels of some nodes (n,) as what a model may be given."""
        return dataclasses.replace(self, context=unknown_but(self.y, nodes))

    def with_structure(self, graph: DGLGraph) -> "Dataset":
        """Return the data set with another canonical graph of its nodes; encodings anew."""
        names = self.feature_names and self.feature_names[: self.own]
        own = {"graph": graph, "x": self.x[:, : self.own], "feature_names": names}
        return _made_again(dataclasses.replace(self, **own, own=None, made=()), self.made)

    def trained_on(self, train: Tensor) -> "Dataset":
        """Return the data set with features learnt of the columns of training nodes (n,) alone."""
        if self.columns is None:
            return self
        if isinstance(self.columns, Texts):  # which all nodes have taught already
            return dataclasses.replace(self, learnt=tuple(self.columns.fit()))
        return self.with_columns(self.columns.fit(train.numpy()))

    def with_columns(self, learnt: Sequence[LearntColumn]) -> "Dataset":
        """Return the data set with the features that were learnt of columns like its own.

        A graph that was made of the features, and encodings, are made again.

        Raises:
            ZooError: its columns are others, there is no room for the features, or columns that
                `add_features` has put beside them would be lost.
        """
        with named_in_errors(self.name):
            self._check_nothing_is_lost()
            x, names = self.columns.transform(learnt)
            x = dense(check_features(x, len(self.y), self.ids, names))
        x, moments = transform_features(torch.from_numpy(x), self.transform)
        again = dataclasses.replace(
            self, x=x, moments=moments, feature_names=names, learnt=tuple(learnt), own=None, made=()
        )
        return _made_again(again, self.made)

    def _check_nothing_is_lost(self) -> None:
        added = [name for name in self.feature_names or () if re.match(r"encoding \d", name)]
        if self.own is None and {*added} - {*getattr(self.columns, "values", ())}:
            raise ZooError(
                "its features are learnt anew, and an encoding of `add_features` would be lost; "
                "write `data.encoded(lambda graph: zoo.encodings.laplacian(graph, k=4))`, or "
                "another function, which is made again."
            )

    def encoded(self, encode: Callable[[DGLGraph], Tensor]) -> "Dataset":
        """Return the data set with the encoding of its graph, a function of it, beside x."""
        found = self.add_features(encode(self.graph))
        again = (*self.made, lambda part: part.encoded(encode))
        own = self.x.shape[1] if self.own is None else self.own
        return self if found is self else dataclasses.replace(found, own=own, made=again)

    def add_features(self, encoding: Tensor) -> "Dataset":
        """Return the data set with the columns of an encoding (N, k) to the right of x.

        Without any columns x stays as it is; else it is a new fp32 tensor in memory.

        Raises:
            ZooError: it is none, or there is not as much memory as that tensor takes.
        """
        check_encoding(encoding, len(self.x))
        if encoding.shape[1] == 0:
            return self
        fix = "leave out the encoding, or put its columns into the features of the file."
        self._check_room(self.x.shape[1] + encoding.shape[1], fix)
        columns = encoding.to(self.x.device, torch.float32)
        names = self.feature_names
        if names is not None:
            names = (*names, *(f"encoding {each}" for each in range(columns.shape[1])))
        x = torch.cat([self.x, columns], dim=1)
        return dataclasses.replace(self, x=x, feature_names=names)

    def transformed(
        self, features: Spec, moments: Tensor | None = None, *, train: Tensor | None = None
    ) -> "Dataset":
        """Return the data set with raw features changed as a word of `FEATURES` says, in fp32.

        Args:
            features: the word.
            moments: means and deviations, (2, F), for `standard`; None: its own.
            train: the nodes (n,) of which its own are; None: all.

        Raises:
            ZooError: there is no room for them.
        """
        fix = "write the graph with them: `zoo data prepare PATH NAME --on-disk features=row`."
        self._check_room(self.x.shape[1], fix)
        own = self.x.shape[1] if self.own is None else self.own
        x, encodings = self.x.float().tensor_split([own], dim=1)  # which stay as they are
        if moments is None and train is not None:
            _, moments = transform_features(x[train], features)
        x, moments = transform_features(x, features, moments)
        x = torch.cat([x, encodings], dim=1) if encodings.shape[1] else x
        return dataclasses.replace(self, x=x, moments=moments, transform=features)

    def _check_room(self, columns: int, fix: str) -> None:
        """Raise ZooError if fp32 features of so many columns do not fit into memory."""
        size = 4 * len(self.x) * columns
        if self.x.device.type == "cpu" and size > available_memory():
            raise ZooError(
                f"{self.name}: its features would take {size:,} bytes, more than there is memory; "
                f"{fix}"
            )


def make_dataset(
    name: str,
    arrays: GraphArrays,
    *,
    task: str,
    split: str | None = None,
    features: Spec = "raw",
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    relations: Relations = "together",
) -> Dataset:
    """Make a data set of arrays.

    Args:
        name: what to call it.
        arrays: edges, labels, features and, where a benchmark fixes them, masks.
        task: word of the task.
        split: default split; left out it is the benchmark's if there are masks, else a ratio.
        features: what is done to the features first.
        duplicates: what the weights of an edge that is there more than once become.
        direction: which edges a node gathers along; see `canonical`.
        relations: `separate` keeps the kinds of edges apart, (E, K) weights.

    Raises:
        ZooError: the arrays do not fit together, or the labels not the task.
    """
    if task == CLASSIFICATION and arrays.labels.ndim == 2:
        _LOG.warning("%s: its labels have exactly one 1 in each row, and are read as classes; "
                     "`task: node-multilabel` keeps them apart.", name)  # fmt: skip
    arrays = check_arrays(arrays._replace(task=task))
    x, moments = transform_features(torch.from_numpy(dense(arrays.features)), features)
    check_task(arrays.labels, task)
    masks = arrays.masks and {key: torch.from_numpy(mask) for key, mask in arrays.masks.items()}
    graph = graph_of(arrays, duplicates, direction, relations)
    apart = graph.edata[WEIGHT].shape[1] if relations == "separate" else None
    return Dataset(
        name=name,
        graph=graph,
        x=x,
        y=torch.from_numpy(arrays.labels),
        task=task,
        metric=NODE_METRICS[task],
        split=split or ("benchmark" if masks else MASKLESS_SPLIT),
        masks=masks,
        classes=classes_of(arrays.labels, arrays.label_names),
        ids=arrays.ids,
        labels=arrays.label_names,
        feature_names=arrays.feature_names,
        edge_feature_names=arrays.edge_feature_names,
        relation_names=apart and (arrays.relation_names or ())[:apart],  # the last may have none
        transform=features,
        moments=moments,
        columns=arrays.columns,
        learnt=arrays.learnt,
        times=arrays.times,
        groups=arrays.groups,
        kinds=arrays.kinds,
        link_rows=_link_rows(arrays),
    )


def labelled(y: Tensor) -> Tensor:
    """Return which rows of labels (N,) or targets (N, T) say anything, (N,) bool."""
    known = y.isfinite() if y.is_floating_point() else y >= 0
    return known.flatten(1).any(dim=1) if known.ndim > 1 else known


def unknown_but(y: Tensor, nodes: Tensor) -> Tensor:
    """Return labels (N, ...) of which only those of some nodes (n,) are known."""
    unknown = math.nan if y.is_floating_point() else -1
    return torch.full_like(y, unknown).index_copy(0, nodes, y[nodes])


def _link_rows(arrays: GraphArrays) -> LinkRows | None:
    """Return what checked arrays say of edges as links, None where they say nothing."""
    times, parts = arrays.edge_times, arrays.edge_parts
    if times is None and parts is None:
        return None
    return LinkRows(
        torch.from_numpy(arrays.edges),
        None if times is None else torch.from_numpy(times).double(),
        None if parts is None else part_numbers(parts),
    )


def part_numbers(parts: np.ndarray) -> Tensor:
    """Return the number (R,) of the part that each word is, -1 of none."""
    numbers = np.full(len(parts), -1)
    for number, part in enumerate(PARTS):
        numbers[parts == part] = number
    return torch.from_numpy(numbers)


def _made_again(data: Dataset, made: tuple[Callable[[Dataset], Dataset], ...]) -> Dataset:
    """Return a data set with the graph and the encodings that another was made with."""
    for make in made:
        data = make(data)
    return data


# Of what is in memory

_COMMON = ("split", "features", "duplicates", "direction", "relations")
_OF_SETS = ("label", "feature", "weight", "weights", "edge_features", "degrees", "split",
            "duplicates", "direction", "name")  # fmt: skip


def _refuse_unknown(reader: Callable[..., Any], options: Iterable[str]) -> None:
    """Refuse options that are neither a reader's own nor those of `make_dataset`."""
    known = {*inspect.signature(reader).parameters, *_COMMON} - {"common"}
    for option in options:
        if option not in known:
            raise ZooError(f"{reader.__name__}: {unknown('option', option, known)}")


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
