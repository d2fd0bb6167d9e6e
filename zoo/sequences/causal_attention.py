"""Causal products of features in linear time: what each place gathers from those before it.

Kernel attention of a decoder is out_i = sum_{j <= i} (q_i . k_j) v_j over the same sum without v_j,
for features q, k of queries and keys ("Transformers are RNNs", arXiv 2006.16236, section 3.4).
Places are taken in chunks: inside a chunk by the lower triangle of q k^T, from the chunks before by
the sum of their k^T v, which is carried along. The gradients are products of the same kind, two of
them backwards in time; so nothing but q, k and v is kept, and memory is linear.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from zoo.ops.precision import in_fp32
from zoo.ops.second_gradients import second_gradients

CHUNK = 128
"""Places in a chunk: its scores, and the state that is carried past it, fit the cache."""


def causal_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return sum_{j <= i} (q_i . k_j) v_j for each place i, (..., N, H, E).

    Args:
        q: features of the queries (..., N, H, M).
        k: features of the keys (..., N, H, M).
        v: values (..., N, H, E).
    """
    sets = v.shape[:-3]
    batched = (x.flatten(0, -4) if sets else x.unsqueeze(0) for x in (q, k, v))
    batched = (x.transpose(1, 2).flatten(0, 1) for x in batched)  # (S H, N, ...)
    out = _CausalProduct.apply(*batched)
    return out.unflatten(0, (-1, v.shape[-2])).transpose(1, 2).reshape(*v.shape)


class _CausalProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return _product(q, k, v)

    @staticmethod
    def backward(ctx, grad):
        q, k, v = ctx.saved_tensors
        if torch.is_grad_enabled():  # second gradients are asked for
            return second_gradients(_of_pairs, (q, k, v), grad)
        return (
            _product(grad, v, k),
            _product(v, grad, q, backwards=True),
            _product(k, q, grad, backwards=True),
        )


@in_fp32
def _of_pairs(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return the same by the matrix of all pairs, (B, N, N)."""
    return (q @ k.mT).tril() @ v


@in_fp32
def _product(q: Tensor, k: Tensor, v: Tensor, backwards: bool = False) -> Tensor:
    """Return sum_j (q_i . k_j) v_j over j <= i, or over j >= i, (B, N, E); all are (B, N, ...)."""
    out, state = torch.empty_like(v), None
    for rows in _chunks(v.shape[1], backwards):
        queries, keys, values = q[:, rows], k[:, rows], v[:, rows]
        scores = queries @ keys.mT
        near = (scores.triu_() if backwards else scores.tril_()) @ values
        out[:, rows] = near if state is None else near.baddbmm_(queries, state)
        if v.shape[1] > CHUNK:
            state = keys.mT @ values if state is None else state.baddbmm_(keys.mT, values)
    return out


def _chunks(places: int, backwards: bool) -> Iterator[slice]:
    starts = range(0, places, CHUNK)
    return (slice(start, start + CHUNK) for start in (reversed(starts) if backwards else starts))
