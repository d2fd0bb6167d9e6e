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
