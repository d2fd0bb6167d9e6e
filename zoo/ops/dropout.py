"""Dropout whose masks come from 8 or 16 random bits per number: on a CPU, quicker.

Torch draws a Bernoulli number for each element on one core.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.ops.chunks import BLOCK, blocks
from zoo.tracing import operator

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
    if x.device.type != "cpu" or not _drawn(rate):
        return functional.dropout(x, rate)
    return _Dropped.apply(x, rate)


def relu_dropout(
    x: Tensor,
    rate: float,
    training: bool = True,
    onto: Tensor | None = None,
    *,
    mask: bool = False,
) -> Tensor:
    """Return Drop(ReLU(x)), or onto + Drop(ReLU(x)): the very numbers of `dropout`, quicker.

    What is above 0 afterwards was kept: only the output is saved for the gradient, or a byte mask
    where something was added to it.

    Args:
        x: of any shape and floating type.
        rate: as for `dropout`.
        training: as for `dropout`.
        onto: what it is added to, in the shape and type of x.
        mask: save a byte mask instead of the output.
    """
    drawn = training and x.device.type == "cpu" and _drawn(rate)
    if not drawn or x.dtype not in (torch.float32, torch.float64):
        out = dropout(functional.relu(x), rate, training)
        return out if onto is None else onto + out
    return _KeptPositive.apply(x, onto, mask, rate)


def _drawn(rate: float) -> bool:
    return FEW <= round(rate * LEVELS) <= LEVELS - FEW


def _bits(rate: float) -> int:
    """Return how many bits decide about a number: 8 where they give the rate exactly, as 0.5."""
    return 8 if (rate * 2**8).is_integer() else 16


def _scale(rate: float) -> float:
    """Return what is multiplied with the numbers that are kept."""
    levels = 2 ** _bits(rate)
    return levels / (levels - round(rate * levels))


class _Bits:
    """Random integers for a block at a time, words of the global generator cut into pieces."""

    def __init__(self, x: Tensor, rate: float):
        bits = _bits(rate)
        self.kind, self.each = {8: torch.int8, 16: torch.int16}[bits], 64 // bits
        self.least = round(rate * 2**bits) - 2**bits // 2  # of those that keep a number
        self.words = torch.empty(-(-min(BLOCK, x.numel()) // self.each), dtype=torch.int64)

    def __call__(self, count: int) -> Tensor:
        words = self.words[: -(-count // self.each)].random_(-(2**63), None)
        return words.view(self.kind)[:count]


class _Dropped(torch.autograd.Function):
    """x where it is kept, scaled; a byte per number is remembered for the gradient."""

    @staticmethod
    def forward(ctx, x, rate):
        out, kept = _drop(x, rate)
        ctx.save_for_backward(kept)
        ctx.scale = _scale(rate)
        return out

    @staticmethod
    def backward(ctx, gradient):
        return _Kept.apply(gradient, *ctx.saved_tensors, ctx.scale), None


def _like_drop(x: Tensor, *rest) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape, dtype=torch.bool)


@operator("(Tensor x, float rate) -> (Tensor, Tensor)", _like_drop, random=True)
def _drop(x: Tensor, rate: float) -> tuple[Tensor, Tensor]:
    """Return x where it is kept, scaled, and where that is."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    kept, draw, scale = torch.empty_like(out, dtype=torch.bool), _Bits(x, rate), _scale(rate)
    for part, into, where in blocks(x, out, kept):
        torch.ge(draw(len(part)), draw.least, out=where)
        torch.mul(part, where, out=into).mul_(scale)
    return out, kept


class _KeptPositive(torch.autograd.Function):
    """x where it is kept and positive, scaled, and what it is added to."""

    @staticmethod
    def forward(ctx, x, onto, mask, rate):
        mask = mask or onto is not None
        out, kept = _drop_positive(x, onto, mask, rate)
        ctx.save_for_backward(kept if mask else out)
        ctx.scale, ctx.through = _scale(rate), _Kept if mask else _WherePositive
        return out

    @staticmethod
    def backward(ctx, gradient):
        (kept,) = ctx.saved_tensors
        onto = gradient if ctx.needs_input_grad[1] else None
        return ctx.through.apply(gradient, kept, ctx.scale), onto, None, None


def _like_positive(x: Tensor, onto: Tensor | None, mask: bool, rate: float):
    return x.new_empty(x.shape), x.new_empty(x.shape if mask else 0, dtype=torch.bool)


@operator(
    "(Tensor x, Tensor? onto, bool mask, float rate) -> (Tensor, Tensor)",
    _like_positive,
    random=True,
)
def _drop_positive(
    x: Tensor, onto: Tensor | None, mask: bool, rate: float
) -> tuple[Tensor, Tensor]:
    """Return what is kept and positive, scaled and added, and where that is if it is asked for."""
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    kept = torch.empty_like(out, dtype=torch.bool) if mask else out
    draw, scale = _Bits(x, rate), _scale(rate)
    for part, first, into, where in blocks(x, out if onto is None else onto, out, kept):
        bits = draw(len(part)).to(x.dtype)
        # One pass for `part where bits > ...`, with zeros elsewhere.
        torch.ops.aten.threshold_backward(part, bits, draw.least - 0.5, grad_input=into)
        into.clamp_(min=0).mul_(scale)
        if mask:
            torch.gt(into, 0, out=where)
        if onto is not None:
            into.add_(first)
    return out, kept if mask else out.new_empty(0, dtype=torch.bool)


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
    """x where a mask is, scaled."""

    @staticmethod
    def forward(ctx, x, keep, scale):
        ctx.save_for_backward(keep)
        ctx.scale = scale
        return _keep(x, keep, scale)

    @staticmethod
    def backward(ctx, gradient):
        return _Kept.apply(gradient, *ctx.saved_tensors, ctx.scale), None, None


def _keep(x: Tensor, keep: Tensor, scale: float) -> Tensor:
    if torch.compiler.is_compiling():
        return x * keep * scale  # which it makes one loop of
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    for part, where, into in blocks(x, keep, out):
        torch.mul(part, where, out=into).mul_(scale)
    return out


class Dropout(nn.Dropout):
    """`dropout` as a module: Drop(x) at the rate `p`, in training only."""

    def forward(self, x: Tensor) -> Tensor:
        """Return Drop(x), in the shape of x."""
        return dropout(x, self.p, self.training)


class ReluDropout(nn.Dropout):
    """Drop(ReLU(x)) at the rate `p`; out of training, ReLU(x).

    Args:
        p: rate of the dropout.
        save_mask: save a byte mask for the gradient instead of the output, where nothing else
            keeps the output: a linear map keeps its input, a sum does not.
    """

    def __init__(self, p: float, *, save_mask: bool = False):
        super().__init__(p)
        self.save_mask = save_mask

    def forward(self, x: Tensor) -> Tensor:
        """Return Drop(ReLU(x)), in the shape of x."""
        return relu_dropout(x, self.p, self.training, mask=self.save_mask)


class ReluDropoutAdd(nn.Dropout):
    """y + Drop(ReLU(x)) at the rate `p`, in one pass; out of training, y + ReLU(x)."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return y + Drop(ReLU(x)), in the shape of x and y."""
        return relu_dropout(x, self.p, self.training, onto=y)
