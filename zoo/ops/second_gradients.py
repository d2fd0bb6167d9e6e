"""Gradients of gradients, where the first ones are written out by hand."""

from collections.abc import Sequence

import torch
from torch import Tensor


def second_gradients(
    out: Tensor, inputs: Sequence[Tensor], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Return what `backward` returns, itself differentiable; None for inputs that need no gradient.

    Args:
        out: what was computed from the inputs, by operations that autograd knows.
        inputs: of any shapes.
        grad: the gradient of `out`, in its shape.
    """
    needed = [each for each in inputs if each.requires_grad]
    found = iter(torch.autograd.grad(out, needed, grad, create_graph=True))
    return tuple(next(found) if each.requires_grad else None for each in inputs)
