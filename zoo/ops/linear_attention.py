"""Linear attention: means of values by weights that are products q_i . k_j plus a constant.

SGFormer (arXiv 2306.10759) adds N to a node's own weight, DIFFormer-s (arXiv 2301.09474) adds 1 to
all, Polynormer (arXiv 2403.01232) adds nothing. `way` decides how it is computed, by shape alone:

- `scores`: (q k^T) v, for sets of no more nodes than columns;
- `state`: q (k^T v), a state per head, time and memory linear in N;
- `gram`: q, k and v are linear maps of one input, and are never computed (`gram_attention`);
- `sums`: `state` where only some of the nodes are at hand (`global_sums`).
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import torch
from torch import Tensor

from zoo.ops import gram_attention
from zoo.ops.chunks import row_blocks
from zoo.ops.global_sums import Sums, by_sums, count_nodes, sum_over_nodes
from zoo.ops.linear import Projected, as_tensors, linear_map, sum_of_products
from zoo.ops.precision import in_fp32
from zoo.ops.ragged import Blocks, Even, Ragged, for_ragged
from zoo.ops.second_gradients import second_gradients

Base = Literal["own", "all", "none"]
Divisor = Literal["frobenius", "row", "none"]


@for_ragged
@by_sums
def linear_attention(
    q: Tensor | Projected,
    k: Tensor | Projected,
    v: Tensor | Projected,
    *,
    qk_norm: Divisor,
    base: Base,
    sums: Sums | None = None,
    ragged: Ragged | None = None,
) -> Tensor:
    """Return (b_i + q_i (k^T v)) / (m + q_i (k^T 1)), (..., N, H, E), sums in fp32 or wider.

    Args:
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, E).
        qk_norm: what queries and keys are divided by first: one `frobenius` norm over their whole
            set, each `row`'s own norm, or `none`.
        base: b_i and m: `own`, N v_i and N; `all`, sum_j v_j and N; `none`, 0 and 0. The divisor
            is kept above 0.
        sums: over all nodes, where q, k and v are those of some.
        ragged: of sets of several sizes, whose rows q, k and v are, (N, H, D).
    """
    if ragged is not None:
        return _of_ragged(*as_tensors(q, k, v), qk_norm, base, ragged)
    chosen = way(q, k, v, qk_norm=qk_norm, base=base, sums=sums)
    if chosen == "gram":
        return gram_attention.linear_mean_of_maps(q, k, v, base)
    return _normalised_mean(*as_tensors(q, k, v), qk_norm, base, sums, chosen)


linear_attention.takes_projected = True


def way(
    q: Tensor | Projected,
    k: Tensor | Projected,
    v: Tensor | Projected,
    *,
    qk_norm: Divisor,
    base: Base,
    sums: Sums | None = None,
) -> Literal["scores", "state", "gram", "sums"]:
    """Return how `linear_attention` is computed for these arguments."""
    if sums is not None:
        return "sums"
    if qk_norm == "frobenius" and base != "none" and gram_attention.pays(q, k, v):
        return "gram"
    return "scores" if q.shape[-3] <= q.shape[-1] else "state"


def _of_ragged(q, k, v, qk_norm: Divisor, base: Base, ragged: Ragged) -> Tensor:
    """Return `linear_attention` of sets cut into blocks, rows of zeros adding nothing to sums."""
    blocks = ragged.blocks()
    q, k, v = map(blocks.cut, (q, k, v))
    out = _normalised_mean(q, k, v, qk_norm, base, blocks, "blocks")
    if 1 in ragged.sizes:
        out = torch.where(blocks.count == 1, v, out)  # a set whose denominator may vanish
    return blocks.join(out)


@in_fp32
def _normalised_mean(q, k, v, qk_norm: str, base: Base, sums, chosen: str) -> Tensor:
    q, k = (_QUERY_KEY_NORMS[qk_norm](x, sums) for x in (q, k))
    return linear_mean(q, k, v, base, sums=sums, way=chosen)


def _frobenius(x: Tensor, sums: Sums | None) -> Tensor:
    norm = torch.linalg.vector_norm(x, dim=(-3, -2, -1), keepdim=True)
    if sums is not None:
        norm = sum_over_nodes(sums, norm.square())[0].clamp(min=1e-24).sqrt()
    return x / norm.clamp(min=1e-12)  # a set of zero rows stays zero instead of NaN


_QUERY_KEY_NORMS = {
    "frobenius": _frobenius,
    "row": lambda x, sums: _NormalisedRows.apply(x)[0],
    "none": lambda x, sums: x,
}
"""Word to what divides queries and keys (..., N, H, D) by their norm."""


def linear_mean(
    q: Tensor, k: Tensor, v: Tensor, base: Base, *, sums: Sums | None = None, way: str = "state"
) -> Tensor:
    """Return `linear_attention` of q, k, v of fp32 or wider, without a norm."""
    if way == "blocks":
        return _ByState.apply(q, k, v, base, sums)
    if way == "state" and not torch.compiler.is_compiling():  # a trace makes its own gradient
        return _ByState.apply(q, k, v, base, Even())
    n = count_nodes(q, sums)
    state = k.new_empty(0) if way == "scores" else _state(k, v)
    state, keys, values = sum_over_nodes(sums, state, k.sum(-3), v.sum(-3, keepdim=True))
    # The share comes first: gradients are added up in this order, to the bit.
    share = _share(q, keys, base, n)
    if way == "scores":
        scores = torch.einsum("...nhd,...mhd->...hnm", q, k)
        gathered = torch.einsum("...hnm,...mhd->...nhd", scores, v)
    else:
        gathered = _through(q, state)
    added = {"own": n * v, "all": values, "none": 0.0}[base]
    return (gathered + added) * share


def _share(q: Tensor, keys: Tensor, base: Base, n: int | Tensor) -> Tensor:
    """Return one over the divisor, (..., N, H, 1), for the sum of n keys (..., H, D)."""
    mass = torch.einsum("...nhd,...hd->...nh", q, keys).unsqueeze(-1)
    mass = mass if base == "none" else mass + n
    return mass.clamp(min=_least(q, base, n)).reciprocal()


def _least(q: Tensor, base: Base, n: int | Tensor) -> float | Tensor:
    """Return the smallest divisor: row-normalised scores reach -1, and a head of zeros has none."""
    return torch.finfo(q.dtype).tiny if base == "none" else 1e-6 * n


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


class _ByState(torch.autograd.Function):
    """By a state per head; only q, k, v and what is small is saved for the backward pass."""

    @staticmethod
    def forward(ctx, q, k, v, base, sets: Blocks | Even):
        n = sets.rows(q)
        state, keys = sets.total(_state(k, v), k.sum(-3))
        share = _share(q, keys, base, n)
        values = sets.total(v.sum(-3, keepdim=True))[0] if base == "all" else None
        ctx.save_for_backward(q, k, v, state, keys, share, values)
        ctx.base, ctx.sets = base, sets
        out = _through(q, state, values)
        for rows, own, part, many in row_blocks(out, v, share, _per_set(n, q)):
            if base == "own":
                _add(rows, own, n, many)
            rows.mul_(part)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, state, keys, share, values = ctx.saved_tensors
        sets, n = ctx.sets, ctx.sets.rows(q)
        if torch.is_grad_enabled():  # second gradients are asked for
            sums = sets if isinstance(sets, Blocks) else None
            again = partial(linear_mean, base=ctx.base, way="sums", sums=sums)
            return *second_gradients(again, (q, k, v), grad), None, None
        shared = grad * share
        grad_q, grad_mass = _through(shared, state.mT), torch.empty_like(share)
        keys, added = keys.unsqueeze(-3), v if values is None else values
        # Rounded as the share was: a divisor that was clamped is told by equality.
        limit = _per_set(_least(q, ctx.base, n), q).reciprocal()
        # The divisor's gradient is the sum over columns of the output times its gradient, which is
        # had from the parts at hand.
        parts = (grad_mass, grad_q, q, keys, share, shared, added, _per_set(n, q), limit)
        for into, grad_rows, rows, all_keys, part, given, more, many, most in row_blocks(*parts):
            torch.sum(rows * grad_rows, -1, keepdim=True, out=into)
            if ctx.base != "none":
                along = (given * more).sum(-1, keepdim=True)
                _add(into, along, *((n, many) if ctx.base == "own" else (1, many)))
            into.mul_(part).neg_().masked_fill_(part >= most, 0.0)
            grad_rows.addcmul_(into, all_keys)
        grad_state, grad_keys = sets.total(
            _state(q, shared), torch.einsum("...nhx,...nhd->...xhd", grad_mass, q)
        )
        grad_k = _through(v, grad_state.mT, grad_keys)
        grad_values = sets.total(shared.sum(-3, keepdim=True))[0] if ctx.base == "all" else None
        grad_v = _through(k, grad_state, grad_values)
        if ctx.base == "own":
            _add(grad_v, shared, n, n)
        return grad_q, grad_k, grad_v, None, None


def _per_set(number: float | Tensor, like: Tensor) -> Tensor:
    """Return a number of each set, (B, 1, 1, 1), or of all of them, (1,), as a tensor."""
    return number if isinstance(number, Tensor) else like.new_full((1,), number)


def _add(into: Tensor, x: Tensor, times: int | Tensor, part: Tensor) -> None:
    """Add a multiple of x: `times`, one for all, or the part at hand of one for each set."""
    if isinstance(times, Tensor):
        into.addcmul_(x, part.to(x.dtype))
    else:
        into.add_(x, alpha=times)


class _NormalisedRows(torch.autograd.Function):
    """x / |x| and |x| of each row, which are saved instead of x and read less often."""

    @staticmethod
    def forward(ctx, x):
        y, norm = torch.empty_like(x), x.new_empty(*x.shape[:-1], 1)
        for rows, into, lengths in row_blocks(x, y, norm):
            torch.linalg.vector_norm(rows, dim=-1, keepdim=True, out=lengths)
            torch.div(rows, lengths.clamp_(min=1e-12), out=into)
        ctx.save_for_backward(y, norm)
        ctx.set_materialize_grads(False)
        return y, norm

    @staticmethod
    def backward(ctx, grad_y, grad_norm):
        y, norm = ctx.saved_tensors
        grad_x = None if grad_norm is None else y * grad_norm  # asked for by second gradients
        if grad_y is None:
            return grad_x
        if torch.is_grad_enabled() or grad_x is not None:
            across = _across(grad_y, y) / norm
            return across if grad_x is None else across + grad_x
        grad_x = torch.empty_like(y)
        for given, rows, lengths, into in row_blocks(grad_y, y, norm, grad_x):
            torch.div(_across(given, rows), lengths, out=into)
        return grad_x


def _across(x: Tensor, y: Tensor) -> Tensor:
    """Return x without its part along y, for rows y of length 1."""
    return torch.addcmul(x, y, (x * y).sum(-1, keepdim=True), value=-1)
