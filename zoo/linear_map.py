"""Linear maps of many rows: on a CPU by oneDNN, sooner than by BLAS."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

LARGE = 2**29
"""Multiplications below which a product is torch's: oneDNN needs a millisecond to begin with."""


def linear_map(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W^T + b, (N, out_dim): `torch.nn.functional.linear`, sooner.

    Args:
        x: (N, in_dim).
        weight: W (out_dim, in_dim).
        bias: b (out_dim,).
    """
    if not _by_onednn(x, weight):
        return functional.linear(x, weight, bias)
    return _LinearMap.apply(x, weight, bias)


def _by_onednn(x: Tensor, weight: Tensor) -> bool:
    return (
        x.dim() == 2
        and x.numel() * len(weight) >= LARGE
        and torch.backends.mkldnn.is_available()
        and torch.backends.mkldnn.enabled
        and all(each.is_cpu and each.dtype == torch.float32 for each in (x, weight))
        and not torch.is_autocast_enabled("cpu")
    )


class _LinearMap(torch.autograd.Function):
    """By a convolution of width 1, whose pixels are the rows of x."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        pixels = x.contiguous()[None, None].permute(0, 3, 1, 2)  # channels last
        out = functional.conv2d(pixels, weight[:, :, None, None], bias)
        return out.permute(0, 2, 3, 1).reshape(len(x), len(weight))

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        of_x, of_weight, of_bias = ctx.needs_input_grad
        return (
            linear_map(gradient, weight.T) if of_x else None,
            gradient.T @ x if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


class Linear(nn.Linear):
    """`linear_map` as a module: W x + b for the rows of x."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (N, out_dim) for x (N, in_dim)."""
        return linear_map(x, self.weight, self.bias)
