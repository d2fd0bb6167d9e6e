"""Inference with a trained model on any graph of the same features: labels, scores, embeddings.

The features are transformed and the encoding computed as the weights' recipe says; what a node's
answer depends on is the graph that it is asked about, not the one of training.
"""

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from zoo.canonical_form import subgraph
from zoo.config.metadata import About
from zoo.config.options import pick
from zoo.config.recipe import word
from zoo.data import Dataset
from zoo.data.samples import Samples
from zoo.errors import ZooError, brief
from zoo.graphs.sampling import check_neighbours
from zoo.graphs.spmm import place
from zoo.inference.training_data import class_names, fitted, numbered
from zoo.registry import Model
from zoo.system.files import write_whole
from zoo.tasks.labels import MULTILABEL
from zoo.tasks.losses import OWN
from zoo.tasks.task import TASKS, Task, of_weights
from zoo.training.batches import SampleBatches
from zoo.training.layerwise import Layerwise

if TYPE_CHECKING:
    from pandas import DataFrame


def answer_samples(
    model: Model,
    data: Samples,
    read: Callable,
    size: int | None,
    layerwise: bool,
    device: torch.device | str,
) -> tuple[Tensor, float]:
    """Return what the readout makes of each sample, (S, ...) fp32 on CPU, and that none was cut.

    Args:
        model: in eval mode.
        data: as the model reads it.
        read: `(model, graph, x)` to a row for each node, logits or features.
        size: samples at a time, which changes no answer; None for the default.
        layerwise: refused.
        device: where.

    Raises:
        ZooError: `layerwise`, which is for one graph.
    """
    if layerwise:
        raise ZooError(
            f"{data.name} is many small graphs, which take bounded memory; leave out --layerwise."
        )
    everything = torch.arange(len(data.y))
    over = SampleBatches(data, everything, device, size=size)
    found = over.logits(lambda graph, x: read(model, graph, x).float(), everything)
    return found.cpu(), 0.0


def refuse_rows(model: Model, data: Any, *how: Any) -> None:
    """Refuse to answer for snapshots row by row; raise ZooError, always."""
    raise ZooError(
        f"{data.name} is {data.unit} in time: `zoo predict WEIGHTS` writes what comes next, and "
        "`zoo evaluate` measures it (zoo.inference.forecast); there is no row for each to embed."
    )


@contextlib.contextmanager
def answering(model: Model, device: str | torch.device) -> Iterator[torch.dtype]:
    """Have a model answer on a device, in eval mode and without gradients; leave it as it was.

    Gives the type of its numbers, which features are to have.
    """
    before = [(module, module.training) for module in model.modules()]
    first = next((each for each in model.parameters() if each.is_floating_point()), torch.empty(0))
    home = first.device
    try:
        model.to(device).eval()
        with torch.no_grad():
            yield first.dtype
    finally:
        model.to(home)
        for module, training in before:
            module.training = training


def logits(model: Model, graph, x: Tensor) -> Tensor:
    """Return what a model answers."""
    return model(graph, x).logits


def features(model: Model, graph, x: Tensor) -> Tensor:
    """Return what its head reads."""
    return model.features(graph, x)


def rows(
    model: Model,
    data: Dataset,
    read: Callable,
    size: int | None,
    layerwise: bool,
    device: str | torch.device,
) -> tuple[Tensor, float]:
    """Return what `read` makes of all rows, (N, ...) fp32 on CPU, and the share of cut edges.

    Args:
        model: any, on any device.
        data: as the model reads it.
        read: `(model, graph, x)` to a row for each node: `logits` or `features`.
        size: nodes at a time, see `zoo.predict`.
        layerwise: as of `zoo.predict`.
        device: where.

    Raises:
        ZooError: the data do not fit into memory, or cannot be answered for in this way.
    """
    if size is not None and size < 1:
        raise ZooError(f"batch size {size}: write a whole number from 1.")
    with answering(model, device) as kind:

        def asked(model: Model, graph, x: Tensor) -> Tensor:
            return read(model, graph, x.to(kind) if x.is_floating_point() else x)

        return _KINDS[data.batching[0]](model, data, asked, size, layerwise, device)


def _of_nodes(
    model: Model, data: Dataset, read: Callable, size: int | None, layerwise: bool, device
):
    """Return what `read` makes of every node, (N, ...) fp32 on CPU, and the share of cut edges."""
    if layerwise and size is not None:
        raise ZooError("--layerwise predicts all nodes at once; leave out --batch-size.")
    try:
        if layerwise:
            return _layerwise(model, data, read, device), 0.0
        check_neighbours(data.graph)
        if size is None or size >= len(data.x):
            x = data.x.to(device).float()
            return read(model, place(data.graph, device), x).float().cpu(), 0.0
        out, part_of = None, torch.empty(len(data.x), dtype=torch.long)
        for number, nodes in enumerate(_parts(data, size)):
            part = subgraph(data.graph, nodes)
            graph = place(part, device)
            answer = read(model, graph, data.x[nodes].to(device).float()).float().cpu()
            out = answer.new_empty(len(data.x), *answer.shape[1:]) if out is None else out
            out[nodes], part_of[nodes] = answer, number
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
            raise
        raise ZooError(
            f"{data.name} does not fit into memory at once; write `--layerwise` for the same "
            "answers from files, or predict fewer nodes at a time, such as "
            f"`--batch-size {max(1, min(size or len(data.x), len(data.x)) // 4)}`."
        ) from None
    src, dst = data.graph.edges()
    apart = src != dst
    return out, (part_of[src] != part_of[dst])[apart].double().mean().nan_to_num().item()


def _layerwise(model: Model, data: Dataset, read: Callable, device) -> Tensor:
    def answer(graph, x: Tensor) -> Tensor:
        return read(model, graph, x).float()

    over = Layerwise(data, device)
    over.check(answer)
    return over.logits(answer, torch.arange(len(data.x))).cpu()


def _parts(data: Dataset, size: int) -> Iterator[Tensor]:
    """Give index after index of at most `size` nodes, near each other in the graph."""
    src, dst = (each.numpy() for each in data.graph.edges())
    pattern = sparse.csr_array((np.ones(len(src), np.int8), (src, dst)), (len(data.x),) * 2)
    order = reverse_cuthill_mckee(sparse.csr_matrix(pattern), symmetric_mode=True)
    yield from torch.from_numpy(order.astype(np.int64)).split(size)


_KINDS = {"full": _of_nodes, "samples": answer_samples, "snapshots": refuse_rows}
"""The first of the strategies that data may be trained by, to what answers for all its rows."""


class Predictions(NamedTuple):
    """What a model says of every node.

    Attributes:
        ids: the nodes (N,), as the owner of the graph names them.
        columns: what the columns of `values` are, by name.
        values: probabilities, or predicted numbers, (N, C) fp32.
        labels: name of the most probable class of each node, where a node has one class.
        cut: share of the edges that were not looked at, because parts were predicted one by one.
    """

    ids: np.ndarray
    columns: list[str]
    values: Tensor
    labels: list[str] | None
    cut: float

    def of(self, rows: np.ndarray) -> "Predictions":
        """Return those of some nodes (N,) bool."""
        places = np.flatnonzero(rows).tolist()
        labels = self.labels and [self.labels[each] for each in places]
        return self._replace(ids=self.ids[rows], values=self.values[places], labels=labels)

    def table(self) -> "DataFrame":
        """Return a row per node: `id`, `label` where a node has one class, and the values."""
        from pandas import DataFrame

        told = {"id": self.ids} if self.labels is None else {"id": self.ids, "label": self.labels}
        values = self.values.numpy()
        return DataFrame({**told, **{name: values[:, i] for i, name in enumerate(self.columns)}})


class Embedding(NamedTuple):
    """What the head of a model reads of every node, (N, D) fp32, and the `cut` of predictions."""

    values: np.ndarray
    cut: float


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
    model: Model,
    data: Dataset,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    context: Dataset | None = None,
) -> Predictions:
    """Predict every node of a graph.

    Args:
        model: a trained model, as `zoo.load` gives it.
        data: a graph with the features of the one it was trained on, as `zoo.load_graph` gives it.
        batch_size: nodes at a time. Neither edges nor attention cross from one part of the graph
            to another, so that this is an approximation; left out, all nodes are predicted at once.
        layerwise: layer-wise inference: the same answers as at once, of a graph that does not fit
            into memory; what layers need of other nodes is written to files meanwhile.
        device: where.
        context: nodes that the model sees besides, such as `training_part` of one that was trained
            with `inductive`; no answers are given for them.

    Raises:
        ZooError: the graph has other features, or does not fit into memory; the model is not one
            that can be evaluated layer by layer; an answer is no finite number.
    """
    _refuse_names(model, data, context)
    own, data = data, fitted(model, data, context)
    found, cut = rows(model, data, logits, batch_size, layerwise, device)
    found = _finite(found[len(data.y) - len(own.y) :], own)
    task = task_of(model.about, data.task)
    values, names = task.probabilities(found), class_names(model.about, own)
    columns = task.columns(_names(names, values.shape[1]))
    ids = np.arange(len(own.y)) if own.ids is None else own.ids
    labels = None
    if task.kind in ("classes", "binary"):
        names = _names(names, values.shape[1])
        labels = [names[each] for each in values.argmax(dim=1).tolist()]
    return Predictions(ids, columns, values, labels, cut)


def embed(
    model: Model,
    data: Dataset,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    context: Dataset | None = None,
) -> Embedding:
    """Return what the head reads of every node; arguments as those of `predict`."""
    _refuse_names(model, data, context)
    seen = fitted(model, data, context)
    found, cut = rows(model, seen, features, batch_size, layerwise, device)
    return Embedding(_finite(found[len(seen.y) - len(data.y) :], data).numpy(), cut)


def _refuse_names(model: Model, *data: Dataset | None) -> None:
    """Refuse the name of a model, or of data, in the place of these themselves."""
    for each, loads in ((model, "load"), *((each, "load_data") for each in data)):
        if isinstance(each, str | Path | dict):
            name = brief(str(each) if isinstance(each, Path) else each)
            raise ZooError(f"{name} is only a name here; write zoo.{loads}({name}).")


def _finite(found: Tensor, data: Dataset) -> Tensor:
    """Return answers (n, C) for data; raise ZooError where one is no number."""
    wrong = (~found.isfinite()).reshape(len(found), -1).any(dim=1).nonzero()[:, 0].tolist()
    if wrong:
        first = wrong[0] if data.ids is None else data.ids[wrong[0]]
        raise ZooError(
            f"{len(wrong)} of {len(found)} answers for {data.name} are no finite numbers, the "
            f"first that for {first}: look in its features for a number that "
            "means unknown, as -1e38 may."
        )
    return found


def evaluate(
    model: Model,
    data: Dataset,
    nodes: Tensor | None = None,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    context: Dataset | None = None,
) -> float:
    """Return the metric of a model's task on a graph.

    Where names of classes are known on both sides, classes are matched by name.

    Args:
        model: a trained model, as `zoo.load` gives it.
        data: a graph with labels.
        nodes: an int64 index of the nodes that count; left out, all that are labelled.
        batch_size: as in `predict`.
        layerwise: as in `predict`.
        device: where.
        context: as in `predict`.

    Raises:
        ZooError: the graph has other features or classes, no labels, or does not fit into memory.
    """
    how = {"batch_size": batch_size, "layerwise": layerwise, "device": device}
    found = answers(model, data, context=context, **how)
    chosen = torch.arange(len(found.y)) if nodes is None else nodes
    return found.task.metric(found.logits[chosen], found.y[chosen])


def answers(
    model: Model,
    data: Dataset,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
    context: Dataset | None = None,
) -> Answers:
    """Return what a model says of all rows beside what is true; as `evaluate`, but for `nodes`."""
    _refuse_names(model, data, context)
    seen = fitted(model, data, context)
    task = task_of(model.about, seen.task)
    if task.name != seen.task:
        raise ZooError(
            f"the weights are of the task {task.name}, and {seen.name} of {seen.task}; write "
            f"{{name: ..., task: {task.name}}} if that is what its labels are."
        )
    y, first = numbered(model, seen), len(seen.y) - len(data.y)
    found, _ = rows(model, seen, logits, batch_size, layerwise, device)
    return Answers(found[first:], y[first:], task, seen)


def write_table(found: Predictions, path: Path) -> None:
    """Write predictions as `.csv` or `.parquet`, whole or not at all.

    Raises:
        ZooError: another suffix, no package that writes Parquet, a full disk, or a place that
            takes no file.
    """
    if path.suffix not in _WRITERS:
        raise ZooError(f"{path}: predictions are written as {' or '.join(_WRITERS)}.")
    try:
        write_whole(path, lambda draft: _WRITERS[path.suffix](found.table(), draft), follow=True)
    except ImportError:
        raise ZooError(
            f"{path}: Parquet needs pyarrow: pip install pyarrow, or write .csv."
        ) from None


def write_array(values: np.ndarray, path: Path) -> None:
    """Write an array as `.npy`, whole or not at all.

    Raises:
        ZooError: a full disk, or a place that takes no file.
    """
    write_whole(path, lambda draft: np.save(draft, values, allow_pickle=False), follow=True)


_WRITERS: dict[str, Callable] = {
    ".csv": lambda table, path: table.to_csv(path, index=False),
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
}
"""Suffix to `(table, path)`, which writes it."""


def loss_of(about: About) -> str:
    """Return the loss of the training that weights are from, by its word."""
    train = (about.recipe or {}).get("train")
    return word(train.get("loss", OWN)) if isinstance(train, dict) else OWN


def task_of(about: About, name: str | None = None) -> Task:
    """Return the task of weights, `name` where they name none, with their loss and metric."""
    return of_weights(about.task or name, loss_of(about), about.metric)


def probabilities(task: str, logits: Tensor, loss: str = OWN) -> np.ndarray:
    """Return the probability of each class, or of each target, (n, C), of a task that has some."""
    return of_weights(task, loss).probabilities(logits).numpy()


def names_of(task: str, logits: Tensor, labels: list[str] | None) -> list[str]:
    """Return the names of the classes, or targets: their numbers where they have none."""
    return _names(labels, pick(TASKS, task).probabilities(logits[:1]).shape[1])


def _names(names, count: int) -> list[str]:
    """Return the names of classes or targets, which are their numbers where they have none."""
    return list(names) if names and len(names) == count else [str(each) for each in range(count)]


OF_CLASSES = tuple(name for name, task in TASKS.items() if task().kind in ("classes", "binary"))
"""The tasks in which each row has one class."""


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
    if task not in (*OF_CLASSES, MULTILABEL):
        return None
    from sklearn.metrics import precision_recall_fscore_support as measured

    values, names = probabilities(task, logits), names_of(task, logits, labels)
    truth, known = y.numpy(), labelled(y).numpy()
    if task == MULTILABEL:
        told = [~np.isnan(column) for column in truth.T]
        measures = [
            [each[0] for each in measured(one[known], two[known] >= 0.5, labels=[1],
                                          zero_division=np.nan)]
            for one, two, known in zip(truth.T, values.T, told, strict=True)
        ]  # fmt: skip
    else:
        said, classes = values[known].argmax(axis=1), range(len(names))
        found = measured(truth[known], said, labels=classes, zero_division=np.nan)
        measures = zip(*found, strict=True)
    return [_row(name, *row) for name, row in zip(names, measures, strict=True)]


def labelled(y: Tensor) -> Tensor:
    """Return which rows of labels (N,) or targets (N, T) say anything, (N,) bool."""
    said = y.isfinite() if y.is_floating_point() else y >= 0
    return said.reshape(len(y), -1).any(dim=1)


def _row(name: str, precision: float, recall: float, f1: float, count: int) -> dict[str, Any]:
    scores = {"precision": precision, "recall": recall, "f1": f1}
    told = {key: None if math.isnan(each) else float(each) for key, each in scores.items()}
    return {"class": name, **told, "count": int(count)}
