"""What linear attentions have in common: means of values by weights that are products q_i . k_j.

SGFormer (arXiv 2306.10759) adds N to a node's own weight, DIFFormer-s (arXiv 2301.09474) adds 1 to
all, Polynormer (arXiv 2403.01232) adds nothing. q (k^T v) is multiplied in whichever order is
cheaper: scores of small sets, else a state per head, time and memory linear in N.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from zoo.ops.chunks import row_blocks
from zoo.ops.global_sums import count, divided, total
from zoo.ops.linear import linear_map, sum_of_products

Base = Literal["own", "all", "none"]


def linear_mean(q: Tensor, k: Tensor, v: Tensor, base: Base = "none") -> Tensor:
    """Return (b_i + q_i (k^T v)) / (m + q_i (k^T 1)), (..., N, H, D), for q, k, v of fp32 or wider.

    Args:
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, D).
        base: b_i and m: `own`, N v_i and N; `all`, sum_j v_j and N; `none`, 0 and 0. The divisor
            is kept above 0.
    """
    if divided():
        state, keys, values = total(_state(k, v), k.sum(-3), v.sum(-3, keepdim=True))
        added = values if base == "all" else _base(v, base)
        return (_through(q, state) + added) * _share(q, keys, base)
    if q.shape[-3] <= q.shape[-1]:
        return _by_scores(q, k, v, base)
    return _LinearMean.apply(q, k, v, base)


def _by_scores(q: Tensor, k: Tensor, v: Tensor, base: Base) -> Tensor:
    share = _share(q, k.sum(-3), base)  # first: gradients are added up in this order, to the bit
    scores = torch.einsum("...nhd,...mhd->...hnm", q, k)
    gathered = torch.einsum("...hnm,...mhd->...nhd", scores, v)
    return (gathered + _base(v, base)) * share


def _base(v: Tensor, base: Base) -> Tensor | float:
    if base == "own":
        return count(v) * v
    return v.sum(-3, keepdim=True) if base == "all" else 0.0


def _share(q: Tensor, keys: Tensor, base: Base) -> Tensor:
    """Return one over the divisor, (..., N, H, 1), for the sum of the keys (..., H, D)."""
    mass = torch.einsum("...nhd,...hd->...nh", q, keys)
    mass = mass if base == "none" else mass + count(q)
    return mass.clamp(min=_least(q, base)).reciprocal().unsqueeze(-1)


def _least(q: Tensor, base: Base) -> float:
    """Return the smallest divisor: row-normalised scores reach -1, and a head of zeros has none."""
    return torch.finfo(q.dtype).tiny if base == "none" else 1e-6 * count(q)


def _state(k: Tensor, v: Tensor) -> Tensor:
    """Return k^T v of each head, (..., H, D, E)."""
    if k.dim() == 3 and k.shape[1] == 1:  # a head of one set
        return sum_of_products(k.squeeze(1), v.squeeze(1)).unsqueeze(0)
    return torch.einsum("...mhd,...mhe->...hde", k, v)


def _through(q: Tensor, state: Tensor, added: Tensor | None = None) -> Tensor:
    """Return q S, and what is added to each row of it, (..., 1, H, D)."""
    if q.dim() == 3 and q.shape[1] == 1:  # a head of one set
        added = None if added is None else added.flatten()
        return linear_map(q.squeeze(1), state[0].mT, added).unsqueeze(1)
    out = torch.einsum("...nhd,...hde->...nhe", q, state)
    return out if added is None else out.add_(added)


class _LinearMean(torch.autograd.Function):
    """By a state per head; of all that is computed only q, k, v and what is small is remembered."""

    @staticmethod
    def forward(ctx, q, k, v, base):
        state, keys = _state(k, v), k.sum(-3)
        share = _share(q, keys, base)
        values = v.sum(-3, keepdim=True) if base == "all" else None
        ctx.save_for_backward(q, k, v, state, keys, share, values)
        ctx.base = base
        out = _through(q, state, values)
        for rows, own, part in row_blocks(out, v, share):
            if base == "own":
                rows.add_(own, alpha=v.shape[-3])
            rows.mul_(part)
        return out

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, state, keys, share, values = ctx.saved_tensors
        if torch.is_grad_enabled():  # second gradients are asked for
            out = _through(q, _state(k, v)) + _base(v, ctx.base)
            out = out * _share(q, k.sum(-3), ctx.base)
            return *torch.autograd.grad(out, (q, k, v), gradient, create_graph=True), None
        shared = gradient * share
        of_q, of_mass = _through(shared, state.mT), torch.empty_like(share)
        keys, added = keys.unsqueeze(-3), v if values is None else values
        times = {"own": v.shape[-3], "all": 1, "none": 0}[ctx.base]
        # Of the divisor: what is added up, times the gradient, is had without adding it up again.
        parts = (of_mass, of_q, q, keys, share, shared, added)
        for into, of_rows, rows, all_keys, part, given, more in row_blocks(*parts):
            torch.sum(rows * of_rows, -1, keepdim=True, out=into)
            if times:
                into.add_((given * more).sum(-1, keepdim=True), alpha=times)
            into.mul_(part).neg_().masked_fill_(part >= 1 / _least(q, ctx.base), 0.0)
            of_rows.addcmul_(into, all_keys)
        of_state = _state(q, shared)
        of_k = _through(v, of_state.mT, torch.einsum("...nhx,...nhd->...xhd", of_mass, q))
        of_v = _through(k, of_state, shared.sum(-3, keepdim=True) if ctx.base == "all" else None)
        if ctx.base == "own":
            of_v.add_(shared, alpha=v.shape[-3])
        return of_q, of_k, of_v, None
