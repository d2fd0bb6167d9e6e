"""Linear attention of linear maps of one input, answered from the Gram matrix of that input.

Queries, keys and values W z + b whose norm is one for all nodes, as SGFormer (arXiv 2306.10759) and
DIFFormer-s (arXiv 2301.09474) publish it, need not exist. With z' = [z, 1], G = z'^T z' and
W' = [W, b], k^T v is W_k' G W_v'^T and |q|^2 the trace of W_q' G W_q'^T; what is left for each node
is one linear map of z, divided by another. Of 15 products of N rows in a step of training, forward
and backward, five remain, or eight where the values are propagated as well.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.ops.chunks import row_blocks
from zoo.ops.linear import Projected, linear_map, sum_of_products
from zoo.ops.second_gradients import second_gradients

LARGE = 2**26
"""Multiplications of a product of N rows below which it is not worth it."""

ROWS = 16
"""Rows for each column below which it is not worth it."""


def pays(q: Projected | Tensor, k: Projected | Tensor, v: Projected | Tensor) -> bool:
    """Return whether all are maps of one input of so many rows that its Gram matrix is quicker."""
    if not all(isinstance(x, Projected) for x in (q, k, v)):
        return False
    n, width = q.x.shape
    return (
        q.x is k.x is v.x
        and n >= ROWS * width
        and n * width * width >= LARGE
        and q.x.dtype in (torch.float32, torch.float64)
        and not torch.is_autocast_enabled(q.x.device.type)
    )


def linear_mean_of_maps(q: Projected, k: Projected, v: Projected, base: str) -> Tensor:
    """Return (b_i + q_i (k^T v)) / (N + q_i (k^T 1)), (N, H, E), for maps of one input (N, D).

    q and k are divided by one Frobenius norm each, over all nodes and heads.

    Args:
        q: queries (N, H, d).
        k: keys (N, H, d).
        v: values (N, H, E).
        base: b_i: `own`, N v_i, or `all`, sum_j v_j.
    """
    z = q.x
    n, gram = len(z), _Gram.apply(z)
    queries, keys, values = (_with_bias(projected, gram) for projected in (q, k, v))
    scale = 1 / (n * _norm(queries, gram) * _norm(keys, gram))  # n: divisors are near 1
    along = keys @ gram  # (H, d, D + 1), whose last column is k^T 1
    above = scale * queries.mT @ (along @ values.mT)  # (H, D + 1, E)
    below = scale * queries.mT @ along[..., -1:]  # (H, D + 1, 1)
    below = torch.cat([below[:, :-1], below[:, -1:] + 1], dim=1)
    if base == "own":
        above = above + values.mT
    else:
        sums = (values @ gram[:, -1]).unsqueeze(1) / n  # (H, 1, E)
        above = torch.cat([above[:, :-1], above[:, -1:] + sums], dim=1)
    above, below = above.mT.to(z.dtype), below.squeeze(-1).to(z.dtype)
    outs = [_Quotient.apply(z, *parts) for parts in zip(above, below, strict=True)]
    return outs[0].unsqueeze(1) if len(outs) == 1 else torch.stack(outs, dim=1)


def _with_bias(of: Projected, gram: Tensor) -> Tensor:
    """Return [W, b] of each head, (H, d, D + 1), fp64: the sums of these are over few numbers."""
    if of.weight is None:
        width, like = len(gram), {"dtype": gram.dtype, "device": gram.device}
        return torch.eye(width - 1, width, **like).expand(of.heads, -1, -1)
    both = torch.cat([of.weight, of.bias.unsqueeze(1)], dim=1)
    return both.double().unflatten(0, (of.heads, -1))


def _norm(maps: Tensor, gram: Tensor) -> Tensor:
    return ((maps @ gram) * maps).sum().clamp(min=1e-24).sqrt()


class _Gram(torch.autograd.Function):
    """[z, 1]^T [z, 1], (D + 1, D + 1), fp64, for z (N, D)."""

    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        gram = z.new_empty(z.shape[1] + 1, z.shape[1] + 1, dtype=torch.float64)
        gram[:-1, :-1] = sum_of_products(z, z)
        gram[-1, :-1] = gram[:-1, -1] = z.sum(0)
        gram[-1, -1].fill_(len(z))
        return gram

    @staticmethod
    def backward(ctx, grad):
        (z,) = ctx.saved_tensors
        both = (grad + grad.mT)[:-1].to(z.dtype)
        return linear_map(z, both[:, :-1], both[:, -1])


def _quotient(z: Tensor, above: Tensor, below: Tensor) -> Tensor:
    mass = (z @ below[:-1] + below[-1]).unsqueeze(1)
    return linear_map(z, above[:, :-1], above[:, -1]) / mass


class _Quotient(torch.autograd.Function):
    """(z W^T + b) / (z u + c) for z (N, D), [W, b] (E, D + 1) and [u, c] (D + 1,)."""

    @staticmethod
    def forward(ctx, z, above, below):
        out = linear_map(z, above[:, :-1], above[:, -1])
        share = torch.addmv(below[-1:], z, below[:-1]).reciprocal_().unsqueeze(1)  # (N, 1)
        for rows, part in row_blocks(out, share):
            rows.mul_(part)
        ctx.save_for_backward(z, above, below, out, share)
        return out

    @staticmethod
    def backward(ctx, grad):
        z, above, below, out, share = ctx.saved_tensors
        if torch.is_grad_enabled():  # second gradients are asked for
            return second_gradients(_quotient, (z, above, below), grad)
        shared, grad_mass = torch.empty_like(out), torch.empty_like(share)
        for given, rows, part, into, mass in row_blocks(grad, out, share, shared, grad_mass):
            torch.mul(given, part, out=into)
            torch.sum(into * rows, -1, keepdim=True, out=mass)
            mass.neg_()
        grad_z = linear_map(shared, above[:, :-1].mT).addr_(grad_mass.squeeze(1), below[:-1])
        grad_above = torch.cat([sum_of_products(shared, z), shared.sum(0).unsqueeze(1)], dim=1)
        grad_below = torch.cat([grad_mass.squeeze(1) @ z, grad_mass.sum().unsqueeze(0)])
        return grad_z, grad_above, grad_below
