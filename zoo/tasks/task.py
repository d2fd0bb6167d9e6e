"""Tasks: `TASKS`. A task owns its loss, its metrics, the width of the head, and what logits mean.

ROC-AUC of rows of one class is undefined, and not 0.5: such a part of the split is an error
(`node-binary`, `graph-binary`), such a target is left out of the mean (`node-multilabel`,
`graph-multilabel`).
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from zoo.config.options import Spec, Table, pick
from zoo.config.recipe import word
from zoo.config.scores import MAE, MSE, declare_direction
from zoo.errors import ZooError
from zoo.ops import losses
from zoo.tasks.labels import (
    ACCURACY,
    BINARY,
    BLEU,
    CLASSIFICATION,
    FORECASTING,
    GRAPH_BINARY,
    GRAPH_MULTILABEL,
    GRAPH_REGRESSION,
    GRAPHS,
    MULTILABEL,
    NODE_METRICS,
    NUMBERS,
    REGRESSION,
    SEQUENCES,
    TRANSLATION,
)
from zoo.tasks.losses import LOSSES, LOSSES_OF, OWN, mean_loss
from zoo.tasks.metrics import METRICS, METRICS_OF, Metric, bleu

Kind = Literal["classes", "binary", "targets", "numbers", "tokens", "links"]
"""Labels: one of several classes; one of two; yes-or-no targets; numbers; words; candidates."""

PROBABILITY = "probability_"
"""How the names of the columns of probabilities begin, before that of the class."""

Measure = Callable[[Tensor, Tensor], float]
"""`(logits, y)` to a number."""


@dataclasses.dataclass(frozen=True)
class Task:
    """A loss and a metric of the same logits.

    Attributes:
        name: its word.
        kind: of its labels.
        metric_name: word of the metric.
        loss: `(logits, y)` to a scalar tensor, in fp32 whatever the logits are in.
        metric: `(logits, y)` to a number; higher is better and 1 the most, but for those of which
            `zoo.config.scores.lower_is_better`. Of `translation`, texts and their references.
        outputs: the number of classes, or of targets, to the width of the head.
        own: metrics that the task itself computes, by their words.
        also: further words of `METRICS` that are computed beside.
        loss_name: the word of the loss, which says what the logits mean.
    """

    name: str
    kind: Kind
    metric_name: str
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: Callable[..., float]
    outputs: Callable[[int], int]
    own: Mapping[str, Measure] = dataclasses.field(default_factory=dict)
    also: tuple[str, ...] = ()
    loss_name: str = ""

    def __post_init__(self) -> None:
        """Default to the loss of such labels."""
        object.__setattr__(self, "loss_name", self.loss_name or LOSSES_OF[self.kind][0])

    @property
    def beside(self) -> dict[str, Measure]:
        """The other metrics of such labels; NaN where one is undefined."""
        words = [word for word in (*self.own, *self.also) if word != self.metric_name]
        return {word: functools.partial(_or_nan, _measure(self, word)) for word in words}

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return the probability of each class, or target, (n, C); numbers, scores as they are."""
        if self.loss_name == "one-hot":  # a sigmoid of its own for each class
            logits = functional.logsigmoid(logits)
        if self.kind == "binary":  # one logit is that of the second class
            first = torch.zeros_like(logits[:, :1])
            logits = torch.cat([first, logits], dim=1)[:, -2:]
        if self.kind == "targets":
            return logits.sigmoid()
        return logits if self.kind in ("numbers", "links") else logits.softmax(dim=1)

    def columns(self, names: list[str]) -> list[str]:
        """Return the names of the columns of `probabilities` in a table of predictions."""
        if self.kind != "numbers":
            return [PROBABILITY + name for name in names]
        return ["value"] if len(names) == 1 else [f"value_{name}" for name in names]


def node_classification() -> Task:
    """One of several classes for each node: cross entropy, accuracy."""
    return _task(CLASSIFICATION, "classes", ACCURACY, _cross_entropy, accuracy)


def node_binary() -> Task:
    """One of two classes, from one logit: binary cross entropy, ROC-AUC."""
    name = NODE_METRICS[BINARY]
    return _task(BINARY, "binary", name, losses.binary_cross_entropy, _binary_auc, _one)


def node_multilabel() -> Task:
    """Many yes-or-no targets of a node: binary cross entropy, mean ROC-AUC."""
    name = NODE_METRICS[MULTILABEL]
    return _task(MULTILABEL, "targets", name, losses.multilabel_cross_entropy, _multilabel_auc)


def node_regression() -> Task:
    """Numbers for each node: mean squared error, mean R² (1 - error / variance) of the targets.

    Beside R² the errors, in the unit of the targets.
    """
    name = NODE_METRICS[REGRESSION]
    task = _task(REGRESSION, "numbers", name, losses.squared_error, r_squared)
    return dataclasses.replace(task, own={**task.own, MAE: mean_absolute_error})


def graph_classification() -> Task:
    """One of several classes for each graph of many: cross entropy, accuracy."""
    return dataclasses.replace(node_classification(), name=GRAPHS)


def graph_binary() -> Task:
    """One of two classes for each graph: as `node-binary`."""
    return dataclasses.replace(node_binary(), name=GRAPH_BINARY)


def graph_multilabel() -> Task:
    """Many yes-or-no targets of each graph: as `node-multilabel`."""
    return dataclasses.replace(node_multilabel(), name=GRAPH_MULTILABEL)


def graph_regression() -> Task:
    """Numbers for each graph: as `node-regression`."""
    return dataclasses.replace(node_regression(), name=GRAPH_REGRESSION)


def sequence_classification() -> Task:
    """One of several classes for each sequence of tokens: cross entropy, accuracy."""
    return _task(SEQUENCES, "classes", ACCURACY, _cross_entropy, accuracy)


def translation() -> Task:
    """The next token of a target: cross entropy per token; BLEU of whole texts, from 0 to 1."""
    return Task(TRANSLATION, "tokens", BLEU, _cross_entropy, bleu, int)


def node_forecasting() -> Task:
    """The next numbers of each node: mean squared error, and beside it the mean absolute one."""
    own = {MSE: mean_squared_error, MAE: mean_absolute_error}
    return Task(FORECASTING, "numbers", MSE, losses.squared_error, mean_squared_error, int, own)


TASKS = Table(
    "task",
    {
        CLASSIFICATION: node_classification,
        BINARY: node_binary,
        MULTILABEL: node_multilabel,
        REGRESSION: node_regression,
        GRAPHS: graph_classification,
        GRAPH_BINARY: graph_binary,
        GRAPH_MULTILABEL: graph_multilabel,
        GRAPH_REGRESSION: graph_regression,
        SEQUENCES: sequence_classification,
        FORECASTING: node_forecasting,
        TRANSLATION: translation,
    },
)
"""Word to builder `() -> Task`."""


def _task(
    name: str,
    kind: Kind,
    metric_name: str,
    loss: Callable,
    metric: Measure,
    outputs: Callable[[int], int] = int,
) -> Task:
    own = {metric_name: metric}
    return Task(name, kind, metric_name, loss, metric, outputs, own, METRICS_OF[kind])


def with_metric(task: Task, spec: Spec) -> Task:
    """Return a task that is measured by another metric.

    Args:
        task: what the data is for.
        spec: a word of `METRICS`, with its options; `task` changes nothing.

    Raises:
        ZooError: the metric is none of such labels.
    """
    name = word(spec)
    if spec in (OWN, task.metric_name):
        return task
    _check_kind("metric", name, task, METRICS_OF)
    declare_direction(name, getattr(METRICS.get(name), "lower_is_better", None))
    return dataclasses.replace(task, metric_name=name, metric=_measure(task, spec))


def of_weights(name: str, loss: str, metric: str | None = None) -> Task:
    """Return the task of trained weights.

    Args:
        name: of the task.
        loss: of their training, which says what logits mean; one of a plug-in need not be known
            here.
        metric: of their training; where it is not known here, that of the task is taken.
    """
    task = pick(TASKS, name)
    task = task if loss == OWN else dataclasses.replace(task, loss_name=loss)
    return with_metric(task, metric) if metric in METRICS and task.kind != "tokens" else task


def with_loss(
    task: Task, spec: Spec, label_smoothing: float = 0.0, weights: Tensor | None = None
) -> Task:
    """Return a task that minimises another loss.

    Args:
        task: what the data is for.
        spec: a word of `LOSSES`, with its options; `task` is that of the task itself. Of two
            classes every loss but `binary-cross-entropy` takes a logit for each.
        label_smoothing: share of each label that is spread over all classes: Szegedy et al.
            (arXiv 1512.00567), section 7.
        weights: by which the rows of each class count, (C,), as of `class_weights`.

    Raises:
        ZooError: the loss is none of such labels, or labels are not smoothed in it.
    """
    spec = task.loss_name if word(spec) == OWN else spec
    name = word(spec)
    _check_kind("loss", name, task, LOSSES_OF)
    if label_smoothing and name != "cross-entropy":
        raise ZooError(
            f"labels are smoothed in the cross entropy over several classes, which is not the loss "
            f"here, of {task.name}; leave `label_smoothing` out, or write `loss: cross-entropy`."
        )
    if spec == task.loss_name and weights is None and not label_smoothing:
        return task
    if name in _FUSED and weights is None:
        loss = _FUSED[name]
        loss = functools.partial(loss, smoothing=label_smoothing) if label_smoothing else loss
    else:
        rows = pick(LOSSES, spec)
        smoothing = {"label_smoothing": label_smoothing} if label_smoothing else {}
        loss = functools.partial(mean_loss, functools.partial(rows, **smoothing), name, weights)
    outputs = task.outputs
    if task.kind == "binary":
        outputs = _one if name == "binary-cross-entropy" else int
    return dataclasses.replace(task, loss=loss, outputs=outputs, loss_name=name)


Target = Literal["standard", "log", "raw"]


def target_scale(task: Task, y: Tensor, log: bool = False) -> tuple[Tensor, Tensor] | None:
    """Return mean and deviation of the targets of training, (T,) fp32 each; None of classes.

    Args:
        task: what they are for.
        y: (n,) or (n, T), NaN where unknown. The deviation of one that never changes is 1.
        log: of log(1 + y).

    Raises:
        ZooError: a logarithm is asked for of classes, or of numbers below 0.
    """
    if task.name not in NUMBERS:
        if log:
            raise ZooError(f"`target: log` is for numbers, and {task.name} has none; leave it out.")
        return None
    if log and (y < 0).any():
        raise ZooError(
            f"{y[y < 0].min():g} is below 0 and has no log(1 + y) to learn; leave `target: log` "
            "out."
        )
    y = y.double().reshape(len(y), -1)
    y = y.log1p() if log else y
    known = ~y.isnan()
    count = known.sum(dim=0).clamp(min=1)
    mean = y.nan_to_num().sum(dim=0) / count
    spread = ((y - mean).square().masked_fill(~known, 0).sum(dim=0) / count).sqrt()
    constant = (spread <= 1e-6 * mean.abs()) | (spread == 0)  # but for rounding of fp32
    return mean.float(), spread.masked_fill(constant, 1).float()


def in_units(task: Task, mean: Tensor, deviation: Tensor, log: bool = False) -> Task:
    """Return a task of numbers whose loss is that of standardised targets, (T,) each.

    Predictions and targets that it is given, and its metrics, are in the units of the user.
    """
    loss = functools.partial(_loss_in_units, task.loss, mean, deviation, log)
    return dataclasses.replace(task, loss=loss)


def _loss_in_units(
    loss: Callable, mean: Tensor, deviation: Tensor, log: bool, logits: Tensor, y: Tensor
) -> Tensor:
    y, mean, deviation = y.reshape(len(y), -1), mean.to(y.device), deviation.to(y.device)
    logits = logits.float()
    if log:
        logits, y = logits.log1p(), y.log1p()
    return loss((logits - mean) / deviation, (y - mean) / deviation)


def accuracy(logits: Tensor, y: Tensor) -> float:
    """Return the share of nodes whose largest logit (N, C) is at their class (N,); -1 is ignored.

    Raises:
        ZooError: a logit is not finite, or no node is labelled.
    """
    known = y >= 0
    right = (logits.argmax(dim=1) == y) & known
    # One copy from a GPU, not three.
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
    need_finite(logits)
    y = y.double().reshape(len(y), -1)
    known = ~y.isnan()
    if not known.any():
        raise ZooError(_NO_LABEL)
    count = known.sum(dim=0)
    mean = y.nan_to_num().sum(dim=0) / count
    spread = (y - mean).square().masked_fill(~known, 0).sum(dim=0)
    error = (y - logits.double()).square().masked_fill(~known, 0).sum(dim=0)
    lowest = y.masked_fill(~known, float("inf")).amin(dim=0)
    varies = lowest < y.masked_fill(~known, -float("inf")).amax(dim=0)
    if not varies.any():
        raise ZooError(
            "R² compares errors with how far the targets lie apart, and in this part of the split "
            "no target has two different numbers; choose another split or seed, or more data."
        )
    return (1 - error[varies] / spread[varies]).mean().item()


@_on_cpu
def mean_squared_error(logits: Tensor, y: Tensor) -> float:
    """Return the mean of (logits - y)^2, both (B, T), where y is known: it is NaN elsewhere."""
    return _errors(logits, y).square().mean().item()


@_on_cpu
def mean_absolute_error(logits: Tensor, y: Tensor) -> float:
    """Return the mean of |logits - y|, (B, T), y or (B,), where y is known: it is NaN elsewhere."""
    return _errors(logits, y).abs().mean().item()


def _errors(logits: Tensor, y: Tensor) -> Tensor:
    need_finite(logits)
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
    need_finite(logits)
    logits, y = logits[known], y[known]
    if (y == y[0]).all():
        raise ZooError(
            f"ROC-AUC compares two classes, and all {len(y)} rows of this part of the split have "
            f"the class {y[0].item()}; choose another split or seed, or more data."
        )
    return _auc(logits[:, -1] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0], y)


@_on_cpu
def _multilabel_auc(logits: Tensor, y: Tensor) -> float:
    need_finite(logits)
    known = ~y.isnan()
    targets = ((y == 1).any(dim=0) & (y == 0).any(dim=0)).nonzero().flatten().tolist()
    if not targets:
        raise ZooError(
            "ROC-AUC compares yes with no, and no target has both in this part of the split; "
            "choose another split or seed, or more data."
        )
    scores = [_auc(logits[known[:, t], t], y[known[:, t], t]) for t in targets]
    return sum(scores) / len(scores)


def _auc(scores: Tensor, y: Tensor) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(y.cpu().numpy(), scores.float().detach().cpu().numpy()))


def need_finite(logits: Tensor) -> None:
    """Raise ZooError where some logits are no finite numbers."""
    if not torch.isfinite(logits).all():
        raise ZooError(_NOT_FINITE)


_NO_LABEL = "none of the nodes or graphs that a score is asked for has a label; use another split."

_NOT_FINITE = (
    "the model's output is not finite, so that nothing can be measured; train with a smaller "
    "train.lr, or with train.clip=1."
)


def _one(classes: int) -> int:
    return 1


_FUSED = {"cross-entropy": _cross_entropy, "one-hot": losses.one_hot_cross_entropy}
"""Losses of classes that take the mean as they go, where no class has a weight."""


def _check_kind(table: str, name: str, task: Task, kinds: Mapping[str, tuple[str, ...]]) -> None:
    """Refuse a loss or metric of this package that is of other labels than a task's."""
    own = [*dict.fromkeys((*(task.own if table == "metric" else ()), *kinds[task.kind]))]
    if name in own or not any(name in words for words in kinds.values()):
        return
    fix = f"choose from {', '.join(own)}" if own else f"leave `{table}` out"
    raise ZooError(f"the {table} {name} is of other labels than those of {task.name}; {fix}.")


def _measure(task: Task, spec: Spec) -> Measure:
    """Return a metric of such labels as `(logits, y)` to a number."""
    if isinstance(spec, str) and spec in task.own:
        return task.own[spec]
    return functools.partial(_measured, pick(METRICS, spec), word(spec), task)


def _measured(metric: Metric, name: str, task: Task, logits: Tensor, y: Tensor) -> float:
    """Return a metric of the rows whose label is known: of many targets the mean of all.

    Raises:
        ZooError: a logit is not finite, no label is known, or the metric is undefined.
    """
    need_finite(logits)
    values, y = task.probabilities(logits.float()).cpu().numpy(), y.cpu().numpy()
    columns = [(values, y, y >= 0)]
    if task.kind in ("targets", "numbers"):
        columns = []
        for p, labels in zip(values.T, y.reshape(len(y), -1).T, strict=True):
            p = np.stack((1 - p, p), axis=1) if task.kind == "targets" else p
            columns.append((p, labels, ~np.isnan(labels)))
    if not any(known.any() for _, _, known in columns):
        raise ZooError(_NO_LABEL)
    dtype = np.float64 if task.kind == "numbers" else np.int64
    scores, why = [], ""
    for p, labels, known in columns:
        if known.any():
            try:
                score = metric(p[known], labels[known].astype(dtype))
            except ValueError as error:  # undefined for this target
                why = str(error)
                continue
            if np.shape(score) != ():
                raise ZooError(f"the metric {name!r} returns the shape {np.shape(score)}; return "
                               "one number.")  # fmt: skip
            if math.isnan(score):
                why = "it is no number (nan)"
            else:
                scores.append(float(score))
    if not scores:
        raise ZooError(f"{name} does not exist for a part of the data: {why}.")
    return sum(scores) / len(scores)


def _or_nan(measure: Measure, logits: Tensor, y: Tensor) -> float:
    try:
        return measure(logits, y)
    except ZooError:
        return math.nan


def measured_beside(task: Task, logits: Tensor, y: Tensor) -> dict[str, float | None]:
    """Return the other metrics of a task, by their words; None where one is undefined."""
    return named_scores(task.beside, [measure(logits, y) for measure in task.beside.values()])


def named_scores(words: Iterable[str], numbers: Iterable[float]) -> dict[str, float | None]:
    """Return numbers by their words, None for one that is undefined."""
    pairs = zip(words, numbers, strict=True)
    return {word: number if math.isfinite(number) else None for word, number in pairs}
