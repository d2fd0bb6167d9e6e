"""Linear maps of many rows: on a CPU by oneDNN, quicker than by BLAS; before they are computed."""

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
    """Return x W^T + b, (N, out_dim): `torch.nn.functional.linear`, quicker.

    Args:
        x: (N, in_dim).
        weight: W (out_dim, in_dim).
        bias: b (out_dim,).
    """
    if x.dim() != 2 or not _by_onednn(x.numel() * len(weight), x, weight):
        return functional.linear(x, weight, bias)
    return _LinearMap.apply(x, weight, bias)


def sum_of_products(x: Tensor, y: Tensor) -> Tensor:
    """Return x^T y, (D, E), the sum over rows of their outer products, quicker than `@`.

    Args:
        x: (N, D).
        y: (N, E).
    """
    even = len(x) - len(x) % BLOCK
    by_onednn = even and _by_onednn(x.numel() * y.shape[1], x, y)
    if torch.is_grad_enabled() or not by_onednn:
        return x.mT @ y
    inner, outer = (_pixels(z[:even].unflatten(0, (-1, BLOCK))) for z in (y, x))
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
        and all(tensor.is_cpu and tensor.dtype == torch.float32 for tensor in tensors)
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
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x, grad_weight, grad_bias = ctx.needs_input_grad
        return (
            linear_map(grad, weight.T) if grad_x else None,
            sum_of_products(grad, x) if grad_weight else None,
            grad.sum(0) if grad_bias else None,
        )


class Linear(nn.Linear):
    """`torch.nn.Linear`, quicker for many rows: W x + b."""

    def forward(self, x: Tensor, shift: Tensor | None = None) -> Tensor:
        """Return W x + b + shift, (N, out_dim), for x (N, in_dim) and a shift (out_dim,)."""
        bias = self.bias if shift is None else self.bias + shift
        return linear_map(x, self.weight, bias)


class HeadLinear(nn.Linear):
    """W x + b for each of H heads, a `Projected` (N, H, D): for queries, keys or values.

    Args:
        in_dim: columns of x.
        heads: H.
        width: D.
    """

    def __init__(self, in_dim: int, heads: int, width: int):
        super().__init__(in_dim, heads * width)
        self.heads = heads

    def forward(self, x: Tensor) -> Projected:
        """Return the heads (N, H, D) of x (N, in_dim)."""
        return Projected(x, self.weight, self.bias, self.heads)


class HeadIdentity(nn.Module):
    """x itself for each of H heads, a `Projected` (N, H, D): values without weights."""

    def __init__(self, heads: int):
        super().__init__()
        self.heads = heads

    def forward(self, x: Tensor) -> Projected:
        """Return x (N, D) as each of the heads, (N, H, D)."""
        return Projected(x, None, None, self.heads)


class Projected:
    """W x + b split into heads, (N, H, D), computed when `tensor` is asked for.

    Linear attention needs sums over nodes only, and may do without: see `zoo.ops.gram_attention`.

    Attributes:
        x: (N, in_dim).
        weight: W (H D, in_dim); None: each head is x itself, D = in_dim.
        bias: b (H D,).
        heads: H.
    """

    def __init__(self, x: Tensor, weight: Tensor | None, bias: Tensor | None, heads: int):
        self.x, self.weight, self.bias, self.heads = x, weight, bias, heads
        self._tensor: Tensor | None = None

    @property
    def shape(self) -> torch.Size:
        """(N, H, D), without computing anything."""
        width = self.x.shape[-1] if self.weight is None else len(self.weight) // self.heads
        return torch.Size((len(self.x), self.heads, width))

    @property
    def tensor(self) -> Tensor:
        """The heads, (N, H, D), computed once and kept."""
        if self._tensor is None:
            self._tensor = self.compute()
        return self._tensor

    def compute(self) -> Tensor:
        """Return the heads, (N, H, D), without keeping them."""
        if self.weight is None:
            return self.x.unsqueeze(-2).expand(-1, self.heads, -1)
        return linear_map(self.x, self.weight, self.bias).unflatten(-1, (self.heads, -1))


def as_tensors(q, k, v) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values that may be `Projected` as tensors, (..., N, H, D).

    Values are kept, as a model may propagate them as well; queries and keys are not, whose memory
    is free again as soon as they have been normalised.
    """
    q, k = (x.compute() if isinstance(x, Projected) else x for x in (q, k))
    return q, k, v.tensor if isinstance(v, Projected) else v
