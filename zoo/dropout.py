"""Dropout whose masks come from 16 random bits per number: on a CPU, sooner.

Torch draws a Bernoulli number for each element on one core.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

LEVELS = 2**16
"""Rates are rounded to this many levels; what is kept is scaled by the rounded rate."""

FEW = 64
"""Rates as near as this to 0 or 1 are torch's to draw: rounding them would change them."""

BLOCK = 2**18
"""Numbers that are drawn and dropped at a time: they stay in the caches."""


def dropout(x: Tensor, rate: float, training: bool = True) -> Tensor:
    """Return x with each number set to 0 at a rate, and the others divided by 1 - rate.

    "Dropout" (Srivastava et al., JMLR 2014), inverted; without training, x itself. The global
    generator of torch seeds it.

    Args:
        x: of any shape and floating type.
        rate: share of the numbers to drop, at least 0 and below 1.
        training: whether to drop at all.
    """
    if not training or rate == 0:
        return x
    level = round(rate * LEVELS)
    if x.device.type != "cpu" or min(level, LEVELS - level) < FEW:
        return functional.dropout(x, rate)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # four to a word
    return _Kept.apply(x, bits >= level - LEVELS // 2, LEVELS / (LEVELS - level))


def relu_dropout(x: Tensor, rate: float, training: bool = True) -> Tensor:
    """Return Drop(ReLU(x)): `dropout(x.relu(), rate, training)`, the very numbers, sooner.

    What is above 0 afterwards was kept: nothing but the result is remembered for the gradient.
    """
    level = round(rate * LEVELS)
    drawn = training and x.device.type == "cpu" and FEW <= level <= LEVELS - FEW
    if not drawn or x.dtype not in (torch.float32, torch.float64):
        return dropout(functional.relu(x), rate, training)
    return _KeptPositive.apply(x, level, LEVELS / (LEVELS - level))


class _KeptPositive(torch.autograd.Function):
    """x where it is kept and positive, scaled."""

    @staticmethod
    def forward(ctx, x, level, scale):
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        words = torch.empty(min(BLOCK, out.numel()) // 4 + 1, dtype=torch.int64)
        blocks = zip(x.flatten().split(BLOCK), out.view(-1).split(BLOCK), strict=True)
        for part, into in blocks:
            few = words[: -(-len(part) // 4)].random_(-(2**63), None)
            bits = few.view(torch.int16)[: len(part)].to(x.dtype)
            # One pass for `part where bits > ...`, with zeros elsewhere.
            torch.ops.aten.threshold_backward(
                part, bits, level - LEVELS // 2 - 0.5, grad_input=into
            )
            into.clamp_(min=0).mul_(scale)
        ctx.save_for_backward(out)
        ctx.scale = scale
        return out

    @staticmethod
    def backward(ctx, gradient):
        return _WherePositive.apply(gradient, *ctx.saved_tensors, ctx.scale), None, None


class _WherePositive(torch.autograd.Function):
    """x where another tensor is positive, scaled."""

    @staticmethod
    def forward(ctx, x, where, scale):
        ctx.save_for_backward(where)
        ctx.scale = scale
        return torch.ops.aten.threshold_backward(x, where, 0).mul_(scale)

    @staticmethod
    def backward(ctx, gradient):
        return _WherePositive.apply(gradient, *ctx.saved_tensors, ctx.scale), None, None


class _Kept(torch.autograd.Function):
    """x where it is kept, scaled; a byte per number is remembered for the gradient."""

    @staticmethod
    def forward(ctx, x, keep, scale):
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return (x * keep).mul_(scale)

    @staticmethod
    def backward(ctx, gradient):
        return _Kept.apply(gradient, *ctx.saved_tensors, ctx.scale), None, None


class Dropout(nn.Dropout):
    """`dropout` as a module: Drop(x) at the rate `p`, in training only."""

    def forward(self, x: Tensor) -> Tensor:
        """Return Drop(x), in the shape of x."""
        return dropout(x, self.p, self.training)
