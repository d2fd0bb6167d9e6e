"""Naive twins: a fast computation and a readable one give the same, and the same gradients."""

import torch


def assert_twins(fast, slow, inputs, *, second=False, atol=1e-9):
    """Values and the gradients of inputs are those of the naive twin, and gradients of these."""
    outs = fast(), slow()
    torch.testing.assert_close(*outs, rtol=0, atol=atol)
    cotangents = [torch.randn_like(each) for each in (outs[1], *inputs)]
    pairs = []
    for out in outs:
        first = _gradients((out.sin() if second else out,), cotangents, inputs, second)
        pairs.append([*first, *(_gradients(first, cotangents[1:], inputs) if second else ())])
    for one, other in zip(*pairs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=atol)


def _gradients(outs, cotangents, inputs, again=False):
    loss = sum((out * each).sum() for out, each in zip(outs, cotangents, strict=False))
    return torch.autograd.grad(
        loss, inputs, retain_graph=True, create_graph=again, materialize_grads=True
    )
