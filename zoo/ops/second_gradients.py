"""Gradients of gradients, where the first ones are written out by hand."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def second_gradients(
    function: Callable[..., Tensor], inputs: Sequence[Tensor | None], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Return what `backward` returns, itself differentiable; None for inputs without one.

    Args:
        function: of the inputs, by operations that autograd knows.
        inputs: of any shapes, or None. One may be computed from another, or be the same.
        grad: the gradient of what the function returns, in its shape.
    """
    # A view of its own for each: the gradient of one leaves out what comes by way of another.
    views = [x if x is None else x.view_as(x) for x in inputs]
    needed = [view for view in views if view is not None and view.requires_grad]
    out = function(*views)
    if not out.requires_grad:
        return (None,) * len(views)
    gradients = iter(torch.autograd.grad(out, needed, grad, create_graph=True, allow_unused=True))
    return tuple(
        None if view is None or not view.requires_grad else next(gradients) for view in views
    )


def with_second_gradients(
    fast: Callable[[Tensor], Tensor], gradient: Callable[[Tensor, Tensor], Tensor], x: Tensor
) -> Tensor:
    """Return `fast(x)`, a function of whose own gradient there is none.

    Args:
        fast: the function, which autograd can differentiate once.
        gradient: `(out, grad)` to the gradient of x, by operations that autograd knows.
        x: of any shape.
    """
    if not (torch.is_grad_enabled() and x.requires_grad):
        return fast(x)
    return _Twice.apply(fast, gradient, x)


class _Twice(torch.autograd.Function):
    """The graph of the fast function is kept inside, for a gradient that has none itself."""

    @staticmethod
    def forward(ctx, fast, gradient, x):
        own = x.detach().requires_grad_()
        with torch.enable_grad():
            inner = fast(own)
        ctx.gradient, ctx.graph, out = gradient, (inner, own), inner.detach()
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        if torch.is_grad_enabled():
            return None, None, ctx.gradient(*ctx.saved_tensors, grad)
        return None, None, *torch.autograd.grad(*ctx.graph, grad, retain_graph=True)
