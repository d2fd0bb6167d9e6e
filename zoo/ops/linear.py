"""Linear maps of many rows, and sums over them: on a CPU by oneDNN, sooner than by BLAS."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.grad import conv2d_weight

LARGE = 2**29
"""Multiplications below which a product is torch's: oneDNN needs a millisecond to begin with."""

BLOCK = 256
"""Rows that are summed at a time."""


def linear_map(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, (N, out_dim): `torch.nn.functional.linear`, sooner.

    Args:
        x: (N, in_dim).
        weight: W (out_dim, in_dim).
        bias: b (out_dim,).
    """
    if x.dim() != 2 or not _by_onednn(x.numel() * len(weight), x, weight):
        return functional.linear(x, weight, bias)
    return _LinearMap.apply(x, weight, bias)


def sum_of_products(x: Tensor, y: Tensor) -> Tensor:
    """Return x^T y, (D, E), the sum over rows of their outer products, sooner than by `@`.

    Args:
        x: (N, D).
        y: (N, E).
    """
    even = len(x) - len(x) % BLOCK
    by_onednn = even and _by_onednn(x.numel() * y.shape[1], x, y)
    if torch.is_grad_enabled() or not by_onednn:
        return x.mT @ y
    inner, outer = (_pixels(each[:even].unflatten(0, (-1, BLOCK))) for each in (y, x))
    total = conv2d_weight(inner, (x.shape[1], y.shape[1], 1, 1), outer)[:, :, 0, 0]
    return total.addmm_(x[even:].mT, y[even:])


def _pixels(rows: Tensor) -> Tensor:
    """Return rows (S, P, D) as S images of P pixels and D channels, which come last in memory."""
    return rows.contiguous()[:, None].permute(0, 3, 1, 2)


def _by_onednn(multiplications: int, *tensors: Tensor) -> bool:
    return (
        multiplications >= LARGE
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
        and all(each.is_cpu and each.dtype == torch.float32 for each in tensors)
        and not torch.is_autocast_enabled("cpu")
    )


class _LinearMap(torch.autograd.Function):
    """By a convolution of width 1, whose pixels are the rows of x."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        out = functional.conv2d(_pixels(x[None]), weight[:, :, None, None], bias)
        return out.permute(0, 2, 3, 1).reshape(len(x), len(weight))

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            linear_map(gradient, weight.T) if of_x else None,
            sum_of_products(gradient, x) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


class Linear(nn.Linear):
    """`linear_map` as a module: W x + b for the rows of x."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, out_dim) for x (N, in_dim)."""
        return linear_map(x, self.weight, self.bias)
