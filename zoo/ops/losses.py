"""Losses of what is known: means over the rows, or the numbers, that have a label."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from zoo.ops.chunks import row_blocks
from zoo.ops.precision import wide
from zoo.ops.second_gradients import second_gradients


def cross_entropy(logits: Tensor, y: Tensor, smoothing: float = 0.0) -> Tensor:
    """Return the mean over rows of -(1 - s) log p_y - s mean_c log p_c, a scalar in fp32 or wider.

    "Rethinking the Inception Architecture" (arXiv 1512.00567), section 7; that of
    `torch.nn.functional.cross_entropy` with `label_smoothing`, for many classes such as the words
    of a vocabulary. Torch's takes the two terms apart, and with them stores and adds gradients of
    the size of all logits several times over. Here the gradient is written once, a few rows at a
    time, from the logits.

    Args:
        logits: (N, C), of which half precision is widened a few rows at a time.
        y: classes (N,), -1 where unknown: such rows count for nothing.
        smoothing: s.
    """
    return _CrossEntropy.apply(logits, y, smoothing)


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, y, smoothing):
        masses = wide(logits.new_empty(len(logits), 1))
        losses = torch.empty_like(masses)
        for rows, at, mass, into in row_blocks(logits, y.unsqueeze(1), masses, losses):
            x = wide(rows)
            torch.logsumexp(x, 1, keepdim=True, out=mass)
            into.copy_(mass - (1 - smoothing) * x.gather(1, at.clamp(min=0)))
            if smoothing:
                into.sub_(x.mean(1, keepdim=True), alpha=smoothing)
        known = (y >= 0).unsqueeze(1)
        ctx.save_for_backward(logits, y, masses, known.sum())
        ctx.smoothing = smoothing
        return losses.masked_fill_(~known, 0.0).sum() / known.sum()

    @staticmethod
    def backward(ctx, grad):
        logits, y, masses, count = ctx.saved_tensors
        if torch.is_grad_enabled():
            options = {"ignore_index": -1, "label_smoothing": ctx.smoothing}
            again = partial(functional.cross_entropy, target=y, **options)
            return *second_gradients(again, (wide(logits),), grad), None, None
        smoothing, out = ctx.smoothing, torch.empty_like(logits)
        share = (grad / count).to(masses.dtype)
        for rows, at, mass, into in row_blocks(logits, y.unsqueeze(1), masses, out):
            x = torch.sub(rows, mass, out=into if into.dtype == mass.dtype else None).exp_()
            if smoothing:
                x.sub_(smoothing / logits.shape[1])
            least = x.new_full((), smoothing - 1).expand(at.shape)
            x.scatter_add_(1, at.clamp(min=0), least)
            x.mul_(share * (at >= 0))
            if x is not into:
                into.copy_(x)
        return out, None, None


def squared_error(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean of (logits - y)^2 for logits (N, T), y (N,) or (N, T), NaN where unknown."""
    y = y.reshape(len(y), -1)
    return _mean(functional.mse_loss, logits.float(), y, ~y.isnan())


def binary_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean cross entropy of logits (N, 1) and classes 0 or 1, y (N,), -1 if unknown."""
    return _mean(_of_logits, logits.float().squeeze(-1), y.float(), y >= 0)


def multilabel_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean binary cross entropy of logits (N, T) and y (N, T), NaN where unknown."""
    return _mean(_of_logits, logits.float(), y, ~y.isnan())


def one_hot_cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Return the mean binary cross entropy of logits (N, C) and one-hot classes y (N,), or -1."""
    labels = y.unsqueeze(1) == torch.arange(logits.shape[1], device=y.device)
    return _mean(_of_logits, logits.float(), labels.float(), y >= 0)


def known_numbers(y: Tensor) -> Tensor:
    """Return how many known numbers each row of y (N,) or (N, T) has, (N,): of classes one."""
    if not y.is_floating_point():
        return y.new_ones(len(y))
    return (~y.isnan()).reshape(len(y), -1).sum(dim=1)


_of_logits = functional.binary_cross_entropy_with_logits


def _mean(loss: Callable, logits: Tensor, y: Tensor, known: Tensor) -> Tensor:
    """Return the mean loss where y is known; on a GPU without waiting for how many there are.

    Args:
        loss: of predictions and of what they should be.
        logits: predictions, (N,) or (N, C).
        y: what they should be, in the same shape.
        known: in that shape, too, or of whole rows (N,).
    """
    if y.is_cpu:
        return loss(logits[known], y[known])
    known = known.reshape(*known.shape, *[1] * (y.dim() - known.dim())).expand_as(y)
    terms = loss(logits, torch.where(known, y, 0), reduction="none")
    return torch.where(known, terms, 0).sum() / known.sum()
