"""Tasks: loss, metric, and the number of outputs of the head.

ROC-AUC of nodes of one class does not exist, and is not called 0.5: a part of which nothing can be
said is an error (`node-binary`), such a target is left out of the mean (`node-multilabel`).
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from zoo.config.metrics import MAE, MSE, bleu
from zoo.config.options import Table
from zoo.datasets.files.labels import (
    ACCURACY,
    BINARY,
    BLEU,
    CLASSIFICATION,
    FORECASTING,
    GRAPHS,
    METRICS,
    MULTILABEL,
    REGRESSION,
    SEQUENCES,
    TRANSLATION,
)
from zoo.errors import ZooError
from zoo.ops import losses


@dataclasses.dataclass(frozen=True)
class Task:
    """A loss and a metric of the same logits.

    Attributes:
        name: its word.
        metric_name: what the metric is called.
        loss: `(logits, y)` to a scalar tensor, in fp32 whatever the logits are in.
        metric: `(logits, y)` to a number; higher is better and 1 the most, but for the metrics in
            `zoo.config.metrics.LOWER`. Of `translation`, texts and their references.
        outputs: the number of classes, or of targets, to the width of the head.
        beside: further metrics by their names, which are told beside a score.
    """

    name: str
    metric_name: str
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Callable[[Tensor, Tensor], float]
    outputs: Callable[[int], int]
    beside: Mapping[str, Callable] = dataclasses.field(default_factory=dict)


def node_classification() -> Task:
    """One of several classes for each node: cross entropy, accuracy."""
    return _task(CLASSIFICATION, _cross_entropy, accuracy, _same)


def node_binary() -> Task:
    """One of two classes, from one logit: binary cross entropy, ROC-AUC."""
    return _task(BINARY, losses.binary_cross_entropy, _binary_auc, _one)


def node_multilabel() -> Task:
    """Many yes-or-no targets of a node: binary cross entropy, mean ROC-AUC."""
    return _task(MULTILABEL, losses.multilabel_cross_entropy, _multilabel_auc, _same)


def node_regression() -> Task:
    """Numbers for each node: mean squared error, mean R² (1 - error / variance) of the targets.

    Beside R² the mean absolute error, in the unit of the targets.
    """
    task = _task(REGRESSION, losses.squared_error, r_squared, _same)
    return dataclasses.replace(task, beside={MAE: mean_absolute_error})


def graph_classification() -> Task:
    """One of several classes for each graph of many: cross entropy, accuracy."""
    return Task(GRAPHS, ACCURACY, _cross_entropy, accuracy, _same)


def sequence_classification() -> Task:
    """One of several classes for each sequence of tokens: cross entropy, accuracy."""
    return Task(SEQUENCES, ACCURACY, _cross_entropy, accuracy, _same)


def translation() -> Task:
    """The next token of a target: cross entropy per token; BLEU of whole texts, from 0 to 1."""
    return Task(TRANSLATION, BLEU, _cross_entropy, bleu, _same)


def node_forecasting() -> Task:
    """The next numbers of each node: mean squared error, and beside it the mean absolute one."""
    others = {MAE: mean_absolute_error}
    return Task(FORECASTING, MSE, losses.squared_error, mean_squared_error, _same, others)


TASKS = Table(
    "task",
    {
        CLASSIFICATION: node_classification,
        BINARY: node_binary,
        MULTILABEL: node_multilabel,
        REGRESSION: node_regression,
        GRAPHS: graph_classification,
        SEQUENCES: sequence_classification,
        FORECASTING: node_forecasting,
        TRANSLATION: translation,
    },
)
"""Word to builder `() -> Task`."""


def _task(name: str, loss: Callable, metric: Callable, outputs: Callable[[int], int]) -> Task:
    return Task(name, METRICS[name], loss, metric, outputs)


Loss = Literal["task", "cross-entropy", "one-hot"]


def with_loss(task: Task, loss: Loss) -> Task:
    """Return a task of classes that minimises another loss, of one logit for each class.

    Args:
        task: what the data is for.
        loss: `task` changes nothing; `cross-entropy` is that of a softmax over the classes, of
            which a binary task has two; `one-hot` the mean binary cross entropy of all logits
            with one-hot labels.

    Raises:
        ZooError: the task is not one of classes.
    """
    if loss == "task":
        return task
    if task.name not in (CLASSIFICATION, BINARY, GRAPHS, SEQUENCES):
        raise ZooError(f"`loss: {loss}` is for classes, and the task is {task.name}; leave it out.")
    own = {"cross-entropy": _cross_entropy, "one-hot": losses.one_hot_cross_entropy}[loss]
    return dataclasses.replace(task, loss=own, outputs=_same)


Target = Literal["standard", "raw"]


def target_scale(task: Task, y: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return mean and deviation of the targets of training, (T,) fp32 each; None of classes.

    Args:
        task: what they are for.
        y: (n,) or (n, T), NaN where unknown. The deviation of one that never changes is 1.
    """
    if task.name != REGRESSION:
        return None
    y = y.double().reshape(len(y), -1)
    known = ~y.isnan()
    count = known.sum(dim=0).clamp(min=1)
    mean = y.nan_to_num().sum(dim=0) / count
    spread = ((y - mean).square().masked_fill(~known, 0).sum(dim=0) / count).sqrt()
    same = spread <= 1e-6 * mean.abs()  # rounding of fp32
    return mean.float(), spread.masked_fill(same | (spread == 0), 1).float()


def in_units(task: Task, mean: Tensor, deviation: Tensor) -> Task:
    """Return a task of numbers whose loss is that of standardised targets, (T,) each.

    Predictions and targets that it is given, and its metrics, are in the units of the user.
    """

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        y = y.reshape(len(y), -1)
        return task.loss((logits.float() - mean) / deviation, (y - mean) / deviation)

    return dataclasses.replace(task, loss=loss)


def smoothed(task: Task, amount: float) -> Task:
    """Return a task whose labels are smoothed: a share of each is spread over all classes.

    Szegedy et al. (arXiv 1512.00567), section 7. An amount of 0 changes nothing.

    Raises:
        ZooError: the task is not one of classes.
    """
    if amount == 0:
        return task
    if task.loss is not _cross_entropy:
        raise ZooError(
            f"labels are smoothed in the cross entropy over several classes, which is not the loss "
            f"here, of {task.name}; leave `label_smoothing` out, or `loss: one-hot`."
        )
    loss = functools.partial(_cross_entropy, smoothing=amount)
    return dataclasses.replace(task, loss=loss)


def accuracy(logits: Tensor, y: Tensor) -> float:
    """Return the share of nodes whose largest logit (N, C) is at their class (N,); -1 is ignored.

    Raises:
        ZooError: a logit is not finite, or no node is labelled.
    """
    known = y >= 0
    right = (logits.argmax(dim=1) == y) & known
    # One number after the other would be waited for, where they are on a GPU.
    counts = right.sum(), known.sum(), torch.isfinite(logits).all().long()
    hits, labelled, finite = torch.stack(counts).tolist()
    if not labelled:
        raise ZooError(_NO_LABEL)
    if not finite:
        raise ZooError(_NOT_FINITE)
    return hits / labelled


def _on_cpu(metric: Callable[[Tensor, Tensor], float]) -> Callable[[Tensor, Tensor], float]:
    """Compute a metric on the CPU: a GPU is waited for twice, and not for each of its numbers."""

    @functools.wraps(metric)
    def computed(logits: Tensor, y: Tensor) -> float:
        return metric(logits.cpu(), y.cpu())

    return computed


@_on_cpu
def r_squared(logits: Tensor, y: Tensor) -> float:
    """Return the mean over targets of 1 - squared error / squared distance from their mean.

    Args:
        logits: predictions (N, T).
        y: targets (N,) or (N, T), NaN where unknown, which is left out. A target of which all
            nodes have the same number is left out of the mean.

    Raises:
        ZooError: a prediction is not finite, or no target has two numbers.
    """
    _check_finite(logits)
    y = y.double().reshape(len(y), -1)
    known = ~y.isnan()
    if not known.any():
        raise ZooError(_NO_LABEL)
    count = known.sum(dim=0)
    mean = y.nan_to_num().sum(dim=0) / count
    spread = (y - mean).square().masked_fill(~known, 0).sum(dim=0)
    error = (y - logits.double()).square().masked_fill(~known, 0).sum(dim=0)
    lowest = y.masked_fill(~known, float("inf")).amin(dim=0)
    told = lowest < y.masked_fill(~known, -float("inf")).amax(dim=0)
    if not told.any():
        raise ZooError(
            "R² compares errors with how far the targets lie apart, and in this part of the split "
            "no target has two different numbers; choose another split or seed, or more nodes."
        )
    return (1 - error[told] / spread[told]).mean().item()


@_on_cpu
def mean_squared_error(logits: Tensor, y: Tensor) -> float:
    """Return the mean of (logits - y)^2, both (B, T), where y is known: it is NaN elsewhere."""
    return _errors(logits, y).square().mean().item()


@_on_cpu
def mean_absolute_error(logits: Tensor, y: Tensor) -> float:
    """Return the mean of |logits - y|, (B, T), y or (B,), where y is known: it is NaN elsewhere."""
    return _errors(logits, y).abs().mean().item()


def _errors(logits: Tensor, y: Tensor) -> Tensor:
    _check_finite(logits)
    y = y.reshape(len(y), -1)
    known = ~y.isnan()
    if not known.any():
        raise ZooError("none of the values that a score is asked for is known; use another split.")
    return logits[known].double() - y[known].double()


def _cross_entropy(logits: Tensor, y: Tensor, smoothing: float = 0.0) -> Tensor:
    if smoothing:
        return losses.cross_entropy(logits, y, smoothing)
    return functional.cross_entropy(logits.float(), y, ignore_index=-1)


@_on_cpu
def _binary_auc(logits: Tensor, y: Tensor) -> float:
    known = y >= 0
    if not known.any():
        raise ZooError(_NO_LABEL)
    _check_finite(logits)
    logits, y = logits[known], y[known]
    if (y == y[0]).all():
        raise ZooError(
            f"ROC-AUC compares two classes, and all {len(y)} nodes of this part of the split have "
            f"the class {y[0].item()}; choose another split or seed, or more nodes."
        )
    return _auc(logits[:, -1] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0], y)


@_on_cpu
def _multilabel_auc(logits: Tensor, y: Tensor) -> float:
    _check_finite(logits)
    known = ~y.isnan()
    told = ((y == 1).any(dim=0) & (y == 0).any(dim=0)).nonzero().flatten().tolist()
    if not told:
        raise ZooError(
            "ROC-AUC compares yes with no, and no target has both in this part of the split; "
            "choose another split or seed, or more nodes."
        )
    scores = [_auc(logits[known[:, each], each], y[known[:, each], each]) for each in told]
    return sum(scores) / len(scores)


def _auc(scores: Tensor, y: Tensor) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y.cpu().numpy(), scores.float().detach().cpu().numpy()))


def _check_finite(logits: Tensor) -> None:
    if not torch.isfinite(logits).all():
        raise ZooError(_NOT_FINITE)


_NO_LABEL = "none of the nodes that a score is asked for has a label; use another split."

_NOT_FINITE = (
    "the model's output is not finite, so that nothing can be measured; train with a smaller "
    "train.lr, or with train.clip=1."
)

_same = int  # as many outputs as classes


def _one(classes: int) -> int:
    return 1
