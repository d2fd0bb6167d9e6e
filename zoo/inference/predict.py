"""Inference with a trained model on any graph of the same features: labels, scores, embeddings.

The features are transformed and the encoding computed as the weights' recipe says; what a node's
answer depends on is the graph that it is asked about, not the one of training.
"""

import dataclasses
import functools
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from zoo.canonical_form import subgraph
from zoo.config.metadata import About
from zoo.config.options import Spec, pick
from zoo.config.recipe import word
from zoo.data import Dataset
from zoo.data.dataset import labelled, unknown_but
from zoo.data.files.graph_arrays import PARTS
from zoo.data.files.objects import described, wrong_object
from zoo.data.load import without_labels
from zoo.data.samples import Samples, Separate
from zoo.data.summary import MOST
from zoo.errors import ZooError, brief
from zoo.graphs.sampling import check_neighbours
from zoo.graphs.spmm import place
from zoo.inference.matching import (
    class_names,
    known_labels,
    match_features,
    match_labels,
    warn_of_other_classes,
    whole_numbers,
)
from zoo.inference.training_data import (
    given_nodes,
    new_nodes,
    parts_in_training,
    read_as_trained,
    training_spec,
    true_labels,
)
from zoo.registry import Model, Output
from zoo.system.files import write_whole
from zoo.tasks.labels import TARGETS
from zoo.tasks.losses import OWN
from zoo.tasks.task import PROBABILITY, TASKS, Task, of_weights
from zoo.training.batches import SampleBatches, evaluating, moved
from zoo.training.in_context import answer_in_context
from zoo.training.layerwise import Layerwise
from zoo.weights.create import resized
from zoo.weights.save_and_load import as_model

if TYPE_CHECKING:
    from pandas import DataFrame


Source = Model | os.PathLike[str] | str
"""A trained model, or what `zoo.load` takes: a run, its folder, a name of weights."""

Rows = Sequence[int] | np.ndarray | Tensor
"""Numbers of nodes (n,), or a mask (N,) bool."""

Read = Callable[..., Tensor]
"""What is asked of a model, `(model, graph, x, *context)` to a row for each node."""


def logits(model: Model, *inputs: Any) -> Tensor:
    """Return what a model answers."""
    return model(*inputs).logits


def features(model: Model, graph: Any, x: Tensor, *context: Tensor) -> Tensor:
    """Return what its head reads."""
    return model.features(graph, model.encoded(graph, x), *context)


def run_inference(
    model: Model,
    data: Dataset,
    read: Read,
    size: int | None,
    layerwise: bool,
    device: torch.device | str,
) -> tuple[Tensor, float]:
    """Return what `read` makes of all rows, (N, ...) fp32 on CPU, and the share of dropped edges.

    Args:
        model: any, on any device.
        data: as the model reads it.
        read: `logits` or `features`.
        size: nodes at a time, see `zoo.predict`; None: all, or the default of samples.
        layerwise: as of `zoo.predict`.
        device: where.

    Raises:
        ZooError: the data do not fit into memory, or cannot be answered for in this way.
    """
    if size is not None and size < 1:
        raise ZooError(f"batch size {size}: write a whole number from 1.")
    if model.context and layerwise:
        raise ZooError(
            "a model that is given labels reads them all at once; write --batch-size in the place "
            "of --layerwise."
        )
    if data.unit == "snapshots":
        raise ZooError(
            f"{data.name} is {data.unit} in time: `zoo predict WEIGHTS` writes what comes next, "
            "and `zoo evaluate` measures it (zoo.inference.forecast); there is no row for each to "
            "embed."
        )
    with evaluating(model, device) as dtype:

        def forward(graph, x: Tensor, context: Tensor | None = None) -> Tensor:
            x = x.to(dtype) if x.is_floating_point() else x
            ask = lambda *inputs: Output(read(model, *inputs))  # noqa: E731
            return answer_in_context(model, graph, x, context, ask).logits.float()

        if data.batching[0] != "samples":
            return _of_nodes(data, forward, size, layerwise, device)
        reader = model if read is logits else None
        return _of_samples(reader, data, forward, size, layerwise, device)


def _of_samples(
    model: Model | None,
    data: Samples,
    forward: Callable,
    size: int | None,
    layerwise: bool,
    device: str | torch.device,
) -> tuple[Tensor, float]:
    if layerwise:
        raise ZooError(
            f"{data.name} is many small graphs, which take bounded memory; leave out --layerwise."
        )
    samples = torch.arange(len(data.y))
    loader = SampleBatches(data, samples, device, size=size)
    return loader.logits(forward, samples, model).cpu(), 0.0


def _of_nodes(
    data: Dataset, forward: Callable, size: int | None, layerwise: bool, device
) -> tuple[Tensor, float]:
    if layerwise and size is not None:
        raise ZooError("--layerwise predicts all nodes at once; leave out --batch-size.")
    try:
        if layerwise:
            layers = Layerwise(data, device)
            layers.check(forward)
            return layers.logits(forward, torch.arange(len(data.x))).cpu(), 0.0
        check_neighbours(data.graph)
        if size is None or size >= len(data.x):
            moved_data = moved(data, device)
            return forward(moved_data.graph, moved_data.x, moved_data.context).cpu(), 0.0
        out, part_of = None, torch.empty(len(data.x), dtype=torch.long)
        for number, nodes in enumerate(_order_nodes(data).split(size)):
            graph = place(subgraph(data.graph, nodes), device)
            context = None if data.context is None else data.context[nodes].to(device)
            rows = forward(graph, data.x[nodes].to(device).float(), context).cpu()
            out = rows.new_empty(len(data.x), *rows.shape[1:]) if out is None else out
            out[nodes], part_of[nodes] = rows, number
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
            raise
        raise ZooError(
            f"{data.name} does not fit into memory at once; write `--layerwise` for the same "
            "answers from files, or predict fewer nodes at a time, such as "
            f"`--batch-size {max(1, min(size or len(data.x), len(data.x)) // 4)}`."
        ) from None
    src, dst = data.graph.edges()
    dropped = (part_of[src] != part_of[dst])[src != dst]
    return out, dropped.double().mean().nan_to_num().item()


def _order_nodes(data: Dataset) -> Tensor:
    """Return all nodes (N,), those near each other in the graph together."""
    src, dst = (ends.numpy() for ends in data.graph.edges())
    pattern = sparse.csr_array((np.ones(len(src), np.int8), (src, dst)), (len(data.x),) * 2)
    order = reverse_cuthill_mckee(sparse.csr_matrix(pattern), symmetric_mode=True)
    return torch.from_numpy(order.astype(np.int64))


@dataclasses.dataclass(frozen=True, eq=False)
class Predictions:
    """What a model says of every node; its length is the number of these.

    Attributes:
        ids: the nodes (N,), as the owner of the graph names them.
        columns: what the columns of `values` are, by name.
        values: probabilities, or predicted numbers, (N, C) fp32.
        labels: name of the most probable class of each node, where a node has one class; whole
            numbers where all names are, and its number where classes have no names.
        known: the true label of each node, its class or number, or an array of several, None where
            that is not known; None: of none.
        parts: what each node was in the training of the weights: `train`, `val`, `test` or "",
            of none; None: not known.
        dropped_edges: share of the edges that were not looked at, because parts of the graph were
            predicted one by one.
        unread: rows of the file that could not be read, and have no answer, to their ids.
        spread: of the mean of several models, their standard deviation, (N, C) as `values`; None:
            of one model.
    """

    ids: np.ndarray
    columns: list[str]
    values: Tensor
    labels: list[str] | list[int] | None
    dropped_edges: float
    unread: Mapping[int, Any] = dataclasses.field(default_factory=dict)
    known: list[Any] | None = None
    parts: list[str] | None = None
    spread: Tensor | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        """Return five lines: how many rows there are, of which classes, and the first two."""
        counts = Counter(self.labels or ()).most_common()
        told = ", ".join(f"{label} ({count:,})" for label, count in counts[:MOST])
        told += ", ..." * (len(counts) > MOST)
        first = self.select(np.arange(len(self.ids)) < 2).table()
        return "\n".join([
            f"{len(self.ids):,} predictions{told and f': {told}'}",
            first.to_string(index=False, max_cols=6),
            f"and {max(0, len(self.ids) - 2):,} more; .table() has all rows and columns",
        ])  # fmt: skip

    def select(self, nodes: np.ndarray) -> "Predictions":
        """Return those of some nodes (N,) bool, which have answers."""
        places = np.flatnonzero(nodes).tolist()
        chosen = {
            key: each and [each[place] for place in places]
            for key in ("labels", "known", "parts")
            for each in [getattr(self, key)]
        }
        chosen["spread"] = None if self.spread is None else self.spread[places]
        values = self.values[places]
        return dataclasses.replace(self, ids=self.ids[nodes], values=values, unread={}, **chosen)

    def table(self) -> "DataFrame":
        """Return a row per node: `id`, `label` where a node has one class, and the values.

        Before the values stand `known`, the true label, or `known_NAME` before each of several, and
        `part`, of the training, where they are known; after them, of several models, the `spread`
        of the label's probability, or that of each value. Rows of a file that could not be read
        stand at their places, with nothing but ids.
        """
        from pandas import DataFrame

        several = self.known is not None and self.labels is None and len(self.columns) > 1
        names = {"label": self.labels, "known": None if several else self.known, "part": self.parts}
        gaps = bool(self.unread)
        names = {name: _column(each, gaps) for name, each in names.items() if each is not None}
        columns = {}
        for number, name in enumerate(self.columns):
            if several:
                columns[f"known_{name.partition('_')[2]}"] = self._known_numbers(number)
            columns[name] = self.values[:, number].numpy()
        if self.spread is not None:
            columns |= self._spread_columns(self.spread)
        return _with_ids_of(self.unread, DataFrame({"id": self.ids, **names, **columns}))

    def _known_numbers(self, number: int) -> np.ndarray:
        count = len(self.columns)  # labels of another shape are not those of the model
        fits = [np.shape(each) == (count,) for each in self.known or ()]
        known = [
            row[number] if fit else np.nan for row, fit in zip(self.known or (), fits, strict=True)
        ]
        return np.array(known, dtype=np.float32)

    def _spread_columns(self, spread: Tensor) -> dict[str, np.ndarray]:
        if self.labels is not None:
            spread = spread.gather(1, self.values.argmax(dim=1, keepdim=True))
        names = self.columns if spread.shape[1] > 1 else [""]
        names = [f"spread_of_{name}" if name else "spread" for name in names]
        return dict(zip(names, spread.numpy().T, strict=True))


def _column(values: list[Any], gaps: bool) -> Any:
    """Return a column of a table, in which whole numbers stay so where some are not known."""
    from pandas import array

    gaps = gaps or None in values
    whole = gaps and all(isinstance(value, int | None) for value in values)
    return array(values, dtype="Int64") if whole else values


def answered_rows(count: int, unread: Collection[int]) -> np.ndarray:
    """Return the rows of a file (count,) that could be read, for the numbers of the others.

    >>> answered_rows(3, [1]).tolist()
    [0, 2, 3]
    """
    return np.setdiff1d(np.arange(count + len(unread)), [*unread])


def _with_ids_of(unread: Mapping[int, Any], table: "DataFrame") -> "DataFrame":
    """Return a table and, at their places, a row of an id for each row that could not be read."""
    from pandas import DataFrame, concat

    if not unread:
        return table
    table.index = answered_rows(len(table), unread)
    empty = DataFrame({"id": [*unread.values()]}, index=[*unread])
    return concat([table, empty]).sort_index()


def with_empty_rows(values: np.ndarray, unread: Collection[int]) -> np.ndarray:
    """Return rows (N, D) and, at their places, one of NaN for each row that could not be read."""
    rows = np.full((len(values) + len(unread), *values.shape[1:]), np.nan, values.dtype)
    rows[answered_rows(len(values), unread)] = values
    return rows


@dataclasses.dataclass(frozen=True, eq=False)
class Embedding:
    """What the head of a model reads of every node; `numpy.asarray` of it is its values.

    Attributes:
        ids: the nodes (N,), as of `Predictions`.
        values: (N, D) fp32.
        dropped_edges: as of `Predictions`.
        unread: as of `Predictions`.
    """

    ids: np.ndarray
    values: np.ndarray
    dropped_edges: float
    unread: Mapping[int, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype, copy=copy)

    def table(self) -> "DataFrame":
        """Return a row per node: `id`, and the values `e0`, `e1` and so on.

        Rows of a file that could not be read stand at their places, of NaN.
        """
        from pandas import DataFrame

        table = DataFrame(self.values, columns=[f"e{n}" for n in range(self.values.shape[1])])
        table.insert(0, "id", self.ids)
        return _with_ids_of(self.unread, table)


class Answers(NamedTuple):
    """What a model says of n rows of a data set beside what is true.

    Attributes:
        logits: (n, C) fp32 on the CPU.
        y: what is true, in the numbers of the model, (n,) or (n, T).
        task: what they are for.
        seen: the data as the model has read them: rows of a context first, then these.
    """

    logits: Tensor
    y: Tensor
    task: Task
    seen: Dataset


def predict(
    model: Source | Sequence[Source],
    data: Dataset | Samples | Spec | Path,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    context: Dataset | None = None,
    given: Rows | None = None,
    only_new: bool = False,
    only_unlabelled: bool = False,
) -> Predictions:
    """Predict every node of a graph.

    `zoo.predict("runs/gcn-mine-20261121-120000", "mine").table()`

    Args:
        model: a trained model, or what `zoo.load` takes, a run, its folder or a name of weights; or
            a list of several, such as the seeds of a run, whose mean is answered, with its spread.
        data: a graph with the features of the one it was trained on, as `zoo.load_data` gives
            it; or its name, path or mapping, which is read as that one was.
        batch_size: nodes at a time. Neither edges nor attention cross from one part of the graph
            to another, so that this is an approximation; left out, all nodes are predicted at once.
        layerwise: layer-wise inference: the same answers as at once, of a graph that does not fit
            into memory; what layers need of other nodes is written to files meanwhile.
        device: where.
        context: nodes that the model sees besides, such as `training_part` of one that was trained
            with `inductive`; no answers are given for them.
        given: of a model that is given labels, the nodes (n,) whose labels these are, or a mask
            (N,). Each of them is answered for without its own. Left out, all that have one; but on
            named data of training nodes with a label are answered by those of training alone.
        only_new: answers of the nodes alone that training has not seen, by their ids; they are told
            from the others where the weights are those of a run on a graph of one's own.
        only_unlabelled: answers of the nodes alone whose label is not known.

    Returns:
        The answers: `found.labels`, `found.values`, and `found.table()` of pandas, a row for each
        node with its id.

    Raises:
        ZooError: the graph has other features, or does not fit into memory; the model is not one
            that can be evaluated layer by layer; an answer is no finite number; nothing says which
            nodes are new, or none is without a label.
    """
    models = [as_model(one) for one in (model if isinstance(model, list | tuple) else [model])]
    how = {"size": batch_size, "layerwise": layerwise, "device": device}
    pairs = [_predict_all(one, data, context, given, how) for one in models]
    mean = mean_of([predictions for predictions, _ in pairs])
    return choose_nodes(mean, models[0].folder, pairs[0][1], only_new, only_unlabelled)


def _predict_all(
    model: Model, data: Any, context: Dataset | None, given: Rows | None, how: dict[str, Any]
) -> tuple[Predictions, Dataset | Samples]:
    """Return what a model says of every node, and the data set that it was asked about."""
    named, loaded, asked = data, model, given
    data, context, given = read_by_name(model, data, context, given, labels=False)
    model, seen = _match(model, data, context, given)
    task = task_of(model.about, seen.task)
    _refuse_links(task)
    values, dropped = run_inference(model, seen, logits, **how)
    values = _check_finite(values[len(seen.y) - len(data.y) :], data)
    values = task.probabilities(values)
    own = class_names(model.about, data)
    names = _names(own, values.shape[1])
    ids, unread = _ids_of(data)
    labels = None
    if task.kind in ("classes", "binary"):
        shown = whole_numbers(names)
        labels = [shown[number] for number in values.argmax(dim=1).tolist()]
    columns = task.columns(names)
    known, parts = known_labels(data, own), None
    if loaded.folder is not None:
        spec = spec_of(named)
        known = known or (spec and true_labels(loaded, loaded.folder, spec))
        parts = parts_in_training(loaded, loaded.folder, spec, data)
    found = Predictions(ids, columns, values, labels, dropped, unread, known, parts)
    if asked is None:
        by_all = functools.partial(_predict_all, loaded, data, context, None, how)
        found = unlabelled_by_all(found, data, given, lambda: by_all()[0])
    return found, data


def unlabelled_by_all(
    found: Predictions, data: Dataset | Samples, given: Tensor | None, by_all: Callable
) -> Predictions:
    """Return predictions in which nodes without a label are answered by all labels there are.

    Those with one are answered by the labels of training alone, so that what is said of validation
    and test can be measured.

    Args:
        found: by the labels of training.
        data: what they are of.
        given: nodes (n,) of training; None: all labels were given.
        by_all: returns predictions by all labels.
    """
    rows = ~labelled(data.y)
    if given is None or not rows.any() or len(given) == int((~rows).sum()):
        return found
    other = by_all()
    values = torch.where(rows[:, None], other.values, found.values)
    labels = found.labels
    if labels is not None:
        pairs = zip(rows.tolist(), other.labels, labels, strict=True)
        labels = [theirs if unknown else own for unknown, theirs, own in pairs]
    return dataclasses.replace(found, values=values, labels=labels)


def _ids_of(data: Dataset | Samples) -> tuple[np.ndarray, Mapping[int, Any]]:
    """Return the ids of rows (N,), and of those that could not be read, by their places."""
    unread = getattr(data, "unread", {})
    return answered_rows(len(data.y), unread) if data.ids is None else data.ids, unread


def mean_of(several: Sequence[Predictions]) -> Predictions:
    """Return the mean of what several models say of the same nodes, and its spread.

    Probabilities are averaged, or numbers: a deep ensemble (arXiv 1612.01474, section 2.4). The
    spread is the standard deviation over the models. Of a node that some were trained on, and
    others were not, the part is the first of `PARTS` that it was in anywhere.

    Raises:
        ZooError: there is no model, or they answer for other nodes or of other classes.
    """
    if not several:
        raise ZooError("no model is there to predict with; name one, or several.")
    first = several[0]
    if len(several) == 1:
        return first
    for other in several[1:]:
        if other.columns != first.columns or not np.array_equal(other.ids, first.ids):
            raise ZooError(
                "these models answer for other nodes, or of other classes, than the first; only "
                "those of one run, or of one task, have a mean."
            )
    values = torch.stack([each.values for each in several])
    labels = first.labels
    if labels is not None:
        names = whole_numbers([name.removeprefix(PROBABILITY) for name in first.columns])
        labels = [names[number] for number in values.mean(dim=0).argmax(dim=1).tolist()]
    told = [each.parts for each in several]
    parts = (
        None
        if None in told
        else [min(own, key=[*PARTS, ""].index) for own in zip(*told, strict=True)]
    )
    return dataclasses.replace(
        first,
        values=values.mean(dim=0),
        spread=values.std(dim=0),
        labels=labels,
        parts=parts,
        dropped_edges=max(each.dropped_edges for each in several),
    )


def choose_nodes(
    predictions: Predictions,
    folder: Path | None,
    data: Dataset | Samples,
    new: bool,
    unlabelled: bool,
) -> Predictions:
    """Return predictions of the nodes that are new, whose label is not known, or both.

    Args:
        predictions: of all nodes.
        folder: of the weights, if they come from one.
        data: what they are of.
        new: leave out nodes that the training of the weights has seen.
        unlabelled: leave out nodes whose label is known.

    Raises:
        ZooError: nothing says which are new, or every label is known.
    """
    chosen = np.ones(len(predictions.ids), bool)
    if new:
        chosen = new_nodes(folder, data)
    if unlabelled and predictions.known is not None:
        unknown = np.array([each is None for each in predictions.known])
        if not unknown.any():
            raise ZooError(
                f"all {data.unit} of {data.name} have a label; leave --only-unlabelled out."
            )
        chosen = chosen & unknown
    return predictions if chosen.all() else predictions.select(chosen)


def embed(
    model: Source,
    data: Dataset | Samples | Spec | Path,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    context: Dataset | None = None,
    given: Rows | None = None,
) -> Embedding:
    """Return what the head reads of every node; arguments as those of `predict`."""
    model = as_model(model)
    data, context, given = read_by_name(model, data, context, given, labels=False)
    model, seen = _match(model, data, context, given)
    values, dropped = run_inference(model, seen, features, batch_size, layerwise, device)
    values = _check_finite(values[len(seen.y) - len(data.y) :], data)
    ids, unread = _ids_of(data)
    return Embedding(ids, values.numpy(), dropped, unread)


def spec_of(data: Any) -> Spec | None:
    """Return data that are named as a recipe names them; None of data in memory."""
    if isinstance(data, Dataset | Separate):
        return None
    return str(data) if isinstance(data, Path) else data


def answers(
    model: Model,
    data: Dataset | Samples | Spec | Path,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    context: Dataset | None = None,
    given: Rows | None = None,
) -> Answers:
    """Return what a model says of all rows beside what is true; as `evaluate`, but for `nodes`."""
    data, context, given = read_by_name(model, data, context, given)
    model, seen = _match(model, data, context, given)
    task = task_of(model.about, seen.task)
    _refuse_links(task)
    if task.name != seen.task:
        raise ZooError(
            f"the weights are of the task {task.name}, and {seen.name} of {seen.task}; write "
            f"{{name: ..., task: {task.name}}} if that is what its labels are."
        )
    y, first = match_labels(model, seen), len(seen.y) - len(data.y)
    warn_of_other_classes(model, seen, y)
    values, _ = run_inference(model, seen, logits, batch_size, layerwise, device)
    return Answers(values[first:], y[first:], task, seen)


def read_by_name(
    model: Model, data: Any, context: Dataset | None, given: Rows | None, labels: bool = True
) -> tuple[Any, Dataset | None, Rows | None]:
    """Return data, read as those of training if they are named, context and given labels.

    Raises:
        ZooError: data are named, and the model was not loaded.
    """
    if isinstance(data, Dataset | Separate):
        return data, context, given
    if not isinstance(data, str | Path | Mapping):
        raise wrong_object("a model is asked about a data set, or the name of one", data)
    spec = spec_of(data)
    if model.folder is None:
        raise ZooError(
            f"{brief(spec)} is only a name here, which a model is asked about that `zoo.load` "
            f"gives: it knows how its data were read. Write zoo.load_data({spec!r}) for this one."
        )
    ignored = not labels and not model.context
    named = without_labels(spec, training_spec(model.folder)) if ignored else spec
    found, beside = read_as_trained(model, model.folder, named)
    if given is None:
        given = given_nodes(model, model.folder, spec, found)
    return found, beside if context is None else context, given


def _match(
    model: Model, data: Dataset, context: Dataset | None, given: Rows | None
) -> tuple[Model, Dataset]:
    """Return a model as it reads data, and all that it sees; refuse a name as a context."""
    if isinstance(context, str | Path | dict):
        name = brief(str(context) if isinstance(context, Path) else context)
        raise ZooError(f"{name} is only a name here; write zoo.load_data({name}).")
    if model.any_graph:
        if not data.classes:
            raise _without_labels(model, data)
        model = resized(model, data)
    seen = match_features(model, data, context)
    if model.context:
        seen = _with_labels(model, seen, data, context, given)
    elif given is not None:
        raise ZooError(f"{type(model).__name__} is given no labels; leave `given` out.")
    return model, seen


def _with_labels(
    model: Model, seen: Dataset, data: Dataset, context: Dataset | None, given: Rows | None
) -> Dataset:
    """Return what a model sees with the labels that it is given: of `given`, and of a context."""
    chosen = None if given is None else chosen_rows("given", given, data.name, len(data.y))
    first = len(seen.y) - len(data.y)
    y = match_labels(model, seen).clone()
    if context is not None:
        y[:first] = match_labels(model, context)
    rows = labelled(y).nonzero().squeeze(1) if chosen is None else chosen + first
    if chosen is not None and first:
        rows = torch.cat([torch.arange(first), rows])
    if not len(rows) or not labelled(y[rows]).any():
        raise _without_labels(model, data)
    return dataclasses.replace(seen, context=unknown_but(y, rows))


def _without_labels(model: Model, data: Dataset) -> ZooError:
    return ZooError(
        f"{data.name} has no labels, and {type(model).__name__} answers by those of some of "
        "its nodes; give a few nodes of each class theirs."
    )


_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def chosen_rows(what: str, rows: Rows, name: str, count: int) -> Tensor:
    """Return numbers of rows (n,) int64, which a user names in a list, an array or a tensor.

    Args:
        what: they are called.
        rows: numbers (n,), or a mask (count,) bool.
        name: of the data.
        count: of its rows.

    Raises:
        ZooError: they are neither, or a number is that of no row.
    """
    wanted = f"`{what}` are numbers of rows of {name}, from 0 to {count - 1}, or a mask of all"
    try:
        chosen = rows.cpu() if isinstance(rows, Tensor) else torch.from_numpy(np.array(rows))
    except (TypeError, ValueError):  # text, or lists of unequal length
        raise ZooError(f"{wanted}, and this is {described(rows)}.") from None
    if chosen.dtype == torch.bool and chosen.shape == (count,):
        return chosen.nonzero().squeeze(1)
    numbers = not len(chosen.flatten()) or chosen.dtype in _WHOLE
    if chosen.ndim != 1 or not numbers:
        raise ZooError(f"{wanted}, and this is {described(rows)}.")
    chosen = chosen.long()
    if len(wrong := chosen[(chosen < 0) | (chosen >= count)]):
        raise ZooError(f"{wanted}, and {wrong[0]} is none.")
    return chosen


def _refuse_links(task: Task) -> None:
    """Refuse to read what a model of links says of a node as an answer."""
    if task.kind == "links":
        raise ZooError(
            "these weights are of links, and say nothing of a node by itself: "
            "`zoo.predict_links(model, GRAPH, top=10)` and `zoo predict WEIGHTS --data GRAPH --top "
            "10` give its best partners; `zoo.evaluate(model, GRAPH)`, of a graph by its name or "
            "path, and `zoo evaluate WEIGHTS` measure links."
        )


def _check_finite(values: Tensor, data: Dataset) -> Tensor:
    """Return answers (n, C) for data; raise ZooError where one is no number."""
    wrong = (~values.isfinite()).reshape(len(values), -1).any(dim=1).nonzero()[:, 0].tolist()
    if wrong:
        first = wrong[0] if data.ids is None else data.ids[wrong[0]]
        raise ZooError(
            f"{len(wrong)} of {len(values)} answers for {data.name} are no finite numbers, the "
            f"first that for {first}: look in its features for a number that means unknown, as "
            "-1e38 may."
        )
    return values


def write_table(predictions: Predictions, path: Path) -> None:
    """Write predictions as `.csv` or `.parquet`, as `write_frame`."""
    write_frame(predictions.table(), path)


def write_frame(table: "DataFrame", path: Path) -> None:
    """Write a table as `.csv` or `.parquet`, whole or not at all.

    Raises:
        ZooError: another suffix, a full disk, or a place that takes no file.
    """
    writers = {".csv": "to_csv", ".parquet": "to_parquet"}
    if path.suffix not in writers:
        raise ZooError(f"{path}: predictions are written as {' or '.join(writers)}.")
    write = getattr(table, writers[path.suffix])
    write_whole(path, lambda draft: write(draft, index=False), follow=True)


def write_array(values: np.ndarray, path: Path) -> None:
    """Write an array as `.npy`, whole or not at all.

    Raises:
        ZooError: a full disk, or a place that takes no file.
    """
    write_whole(path, lambda draft: np.save(draft, values, allow_pickle=False), follow=True)


def task_of(about: About, name: str | None = None) -> Task:
    """Return the task of weights, `name` where they name none, with their loss and metric."""
    train = (about.recipe or {}).get("train")
    loss = word(train.get("loss", OWN)) if isinstance(train, dict) else OWN
    return of_weights(about.task or name, loss, about.metric)


def names_of(task: str, logits: Tensor, labels: list[str] | None) -> list[str]:
    """Return the names of the classes, or targets: their numbers where they have none."""
    return _names(labels, pick(TASKS, task).probabilities(logits[:1]).shape[1])


def _names(names: Sequence[str] | None, count: int) -> list[str]:
    return list(names) if names and len(names) == count else [str(n) for n in range(count)]


def per_class(
    task: str, logits: Tensor, y: Tensor, labels: list[str] | None = None
) -> list[dict[str, Any]] | None:
    """Return a row for each class: `class`, `precision`, `recall`, `f1` and `count`.

    A row of the data is of the class with the largest probability; of many yes-or-no targets each
    one with a probability of one half is a yes, and the count that of its true yeses.

    Args:
        task: its word.
        logits: (n, C) fp32 on the CPU.
        y: classes (n,), -1 where unknown, or targets (n, T), NaN where unknown.
        labels: their names.

    Returns:
        None where the task has no classes. A share of nothing, such as the precision of a class
        that is never predicted, is None.
    """
    if task not in TARGETS and pick(TASKS, task).kind not in ("classes", "binary"):
        return None
    from sklearn.metrics import precision_recall_fscore_support as measure

    values = of_weights(task, OWN).probabilities(logits).numpy()
    names, truth, known = names_of(task, logits, labels), y.numpy(), labelled(y).numpy()
    if task in TARGETS:
        scores = [
            [score[0] for score in measure(true[~np.isnan(true)], yes[~np.isnan(true)] >= 0.5,
                                           labels=[1], zero_division=np.nan)]
            for true, yes in zip(truth.T, values.T, strict=True)
        ]  # fmt: skip
    else:
        classes, predicted = range(len(names)), values[known].argmax(axis=1)
        scores = measure(truth[known], predicted, labels=classes, zero_division=np.nan)
        scores = zip(*scores, strict=True)
    return [
        {"class": name, **{key: None if math.isnan(score) else float(score)
                           for key, score in zip(("precision", "recall", "f1"), row, strict=False)},
         "count": int(row[3])}
        for name, row in zip(names, scores, strict=True)
    ]  # fmt: skip
