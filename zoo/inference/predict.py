"""Inference with a trained model on any graph of the same features: labels, scores, embeddings.

The features are transformed and the encoding computed as the weights' recipe says; what a node's
answer depends on is the graph that it is asked about, not the one of training.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from zoo.config.metadata import About
from zoo.config.options import pick
from zoo.datasets import Dataset
from zoo.datasets.tasks import TASKS, Task
from zoo.errors import ZooError, brief
from zoo.inference.align import class_names, fitted, numbered
from zoo.inference.forward import features, logits, rows
from zoo.registry import Model
from zoo.system.files import write_whole

if TYPE_CHECKING:
    from pandas import DataFrame


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
    task = model.about.task or data.task
    if task not in ANSWERS:
        raise ZooError(f"the weights are of the task {task!r}, which predicts nothing by node.")
    found = with_softmax(found, loss_of(model.about))
    columns, values, classes = ANSWERS[task](found, class_names(model.about, own))
    ids = np.arange(len(own.y)) if own.ids is None else own.ids
    labels = classes and [classes[each] for each in values.argmax(dim=1).tolist()]
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
    task = pick(TASKS, model.about.task or seen.task)
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
    write_whole(path, lambda draft: np.save(draft, values, allow_pickle=False), values.nbytes, True)


_WRITERS: dict[str, Callable] = {
    ".csv": lambda table, path: table.to_csv(path, index=False),
    ".parquet": lambda table, path: table.to_parquet(path, index=False),
}
"""Suffix to `(table, path)`, which writes it."""


def loss_of(about: About) -> str:
    """Return the loss of the training that weights are from, as `train.loss` says it."""
    train = (about.recipe or {}).get("train")
    return train.get("loss", "task") if isinstance(train, dict) else "task"


def with_softmax(logits: Tensor, loss: str) -> Tensor:
    """Return logits (n, C) whose softmax is the probability of each class.

    With the loss `one-hot` each class has a sigmoid of its own: these divided by their sum.
    """
    return nn.functional.logsigmoid(logits) if loss == "one-hot" else logits


def _classes(logits: Tensor, names) -> tuple[list[str], Tensor, list[str] | None]:
    names = _names(names, logits.shape[1])
    return [f"probability_{name}" for name in names], logits.softmax(dim=1), names


def _two_classes(logits: Tensor, names) -> tuple[list[str], Tensor, list[str] | None]:
    first = torch.zeros_like(logits[:, :1])  # of a head that gives one logit, for the second class
    return _classes(torch.cat([first, logits], dim=1)[:, -2:], names)


def _targets(logits: Tensor, names) -> tuple[list[str], Tensor, list[str] | None]:
    names = _names(names, logits.shape[1])
    return [f"probability_{name}" for name in names], logits.sigmoid(), None


def _numbers(logits: Tensor, names) -> tuple[list[str], Tensor, list[str] | None]:
    if logits.shape[1] == 1:
        return ["value"], logits, None
    return [f"value_{name}" for name in _names(names, logits.shape[1])], logits, None


ANSWERS = {
    "node-classification": _classes,
    "graph-classification": _classes,
    "sequence-classification": _classes,
    "node-binary": _two_classes,
    "node-multilabel": _targets,
    "node-regression": _numbers,
}
"""Task to `(logits, names) -> columns, values, names of the classes where a node has one`."""


def _names(names, count: int) -> list[str]:
    """Return the names of classes or targets, which are their numbers where they have none."""
    return list(names) if names and len(names) == count else [str(each) for each in range(count)]
