"""What training minimises: `LOSSES`, the words of `train.loss`.

A loss maps logits and labels to the loss of each row, or of each number: unknown labels, weights of
classes and the mean are left to `mean_loss`. One of your own is an entry of the table:

    LOSSES["mine"] = lambda: lambda logits, y: ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from zoo.config.options import NonNegative, Positive, Table
from zoo.errors import ZooError

Loss = Callable[[Tensor, Tensor], Tensor]
"""`(logits (n, C) fp32, y)` to the loss of each row (n,), or number (n, T), all of known labels."""


def cross_entropy() -> Loss:
    """The cross entropy of a softmax over the classes: -log p_y."""
    return functools.partial(functional.cross_entropy, reduction="none")


def one_hot() -> Loss:
    """The mean binary cross entropy of a sigmoid for each class, with one-hot labels."""

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        labels = functional.one_hot(y, logits.shape[1]).float()
        return _of_sigmoids(logits, labels).mean(dim=1)

    return loss


def focal(*, gamma: NonNegative = 2.0) -> Loss:
    """Cross entropy that counts less where the answer is sure: -(1 - p_y)^gamma log p_y.

    Lin et al., "Focal Loss for Dense Object Detection" (arXiv 1708.02002), equation 4.

    Args:
        gamma: how much less; 0 is the cross entropy itself.
    """

    def loss(logits: Tensor, y: Tensor) -> Tensor:
        entropy = functional.cross_entropy(logits, y, reduction="none")
        return (-torch.expm1(-entropy)).clamp(min=1e-12) ** gamma * entropy

    return loss


def margin(*, width: Positive = 1.0) -> Loss:
    """The hinge of each other class: mean of max(0, width - logit_y + logit_c).

    Args:
        width: by which the logit of the right class is to be above every other.
    """
    return lambda logits, y: functional.multi_margin_loss(logits, y, margin=width, reduction="none")


def binary_cross_entropy() -> Loss:
    """The cross entropy of a sigmoid, of yes-or-no targets or of two classes by one logit."""
    return lambda logits, y: _of_sigmoids(logits.reshape(y.shape), y.float())


def mse() -> Loss:
    """The squared error (logit - y)^2."""
    return lambda logits, y: (logits - y) ** 2


def mae() -> Loss:
    """The absolute error |logit - y|."""
    return lambda logits, y: (logits - y).abs()


def huber(*, delta: Positive = 1.0) -> Loss:
    """The squared error near 0, the absolute one far from it, so that outliers count less.

    Args:
        delta: where one becomes the other; with `target: standard` in deviations of the targets.
    """
    return lambda logits, y: functional.huber_loss(logits, y, reduction="none", delta=delta)


def _own() -> None:
    """That of the task: cross entropy of classes and targets, squared error of numbers."""


OWN = "task"
"""The word, in `train.loss` and `train.metric`, for what the task itself takes."""

LOSSES = Table(
    "loss",
    {
        OWN: _own,
        "cross-entropy": cross_entropy,
        "one-hot": one_hot,
        "focal": focal,
        "margin": margin,
        "binary-cross-entropy": binary_cross_entropy,
        "mse": mse,
        "mae": mae,
        "huber": huber,
    },
)
"""Word to builder `(*, options) -> Loss`."""

_CLASSES = ("cross-entropy", "one-hot", "focal", "margin")

LOSSES_OF = {
    "classes": _CLASSES,
    "binary": ("binary-cross-entropy", *_CLASSES),
    "targets": ("binary-cross-entropy",),
    "numbers": ("mse", "mae", "huber"),
    "tokens": ("cross-entropy",),
}
"""Kind of labels to the losses of this package that are for it, its own first."""


def mean_loss(loss: Loss, name: str, weights: Tensor | None, logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of a loss where y is known, a scalar in fp32.

    Args:
        loss: of rows, or of numbers.
        name: what it is called.
        weights: by which the rows of each class count, (C,) where y is; None: all alike.
        logits: (n, C).
        y: classes (n,), -1 where unknown, or numbers (n,) or (n, T), NaN where unknown.

    Raises:
        ZooError: the loss returns another shape than that of y.
    """
    if y.is_floating_point():
        y = y.reshape(len(y), -1)
    known = ~y.isnan() if y.is_floating_point() else y >= 0
    y = torch.where(known, y, 0)
    losses = loss(logits.float(), y)
    if losses.shape != known.shape:
        raise ZooError(
            f"the loss {name!r} returns the shape {tuple(losses.shape)} for labels of shape "
            f"{tuple(known.shape)}; return the loss of each of them, and no mean."
        )
    losses = losses if weights is None else losses * weights.to(y.device)[y]
    return torch.where(known, losses, 0).sum() / known.sum()


ClassWeights = Literal["balanced"] | list[NonNegative] | None


def class_weights(spec: ClassWeights, kind: str, y: Tensor, classes: int) -> Tensor | None:
    """Return the weight of each class in the loss, (C,) fp32; None where all count alike.

    Their mean over the labels of training is 1: the mean loss of a mini-batch then needs no other
    divisor than its rows, and of the whole graph it is the weighted mean.

    Args:
        spec: `balanced`, each class as much as any other, by N / (C N_c); or a weight for each.
        kind: of the labels.
        y: those of training, (n,), -1 where unknown.
        classes: C.

    Raises:
        ZooError: the labels are no classes, there is not one weight for each, or those of all
            training labels are 0.
    """
    if spec is None:
        return None
    if kind not in ("classes", "binary"):
        raise ZooError("`class_weights` are for labels that are classes; leave them out.")
    counts = torch.bincount(y[y >= 0], minlength=classes).double()
    weights = 1 / counts.clamp(min=1) if spec == "balanced" else torch.tensor(spec).double()
    if len(weights) != classes:
        raise ZooError(
            f"`class_weights` has {len(weights)} weights, and there are {classes} classes; write "
            "one for each, in their order, or `balanced`."
        )
    if not (total := (weights * counts).sum()) > 0:
        raise ZooError("`class_weights` gives all labels of training the weight 0; write others.")
    return (weights * counts.sum() / total).float()


def _of_sigmoids(logits: Tensor, y: Tensor) -> Tensor:
    return functional.binary_cross_entropy_with_logits(logits, y, reduction="none")
