"""Attention as a function of q, k, v, and random batches as a decorator of such functions.

An attention maps q, k, v, all `(..., N, H, D)`, to `(..., N, H, D)`. Leading dimensions are
separate sets: nodes attend inside their own set only. There is no mask and there are no weights:
projections and feature maps are applied by the model before the call.

ATTENTIONS turns a recipe's word into such a function. Its builders are given the model's own
attention (`native`) and the number of the layer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.table import Count, Seed, Spec, Table, pick

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
Norm = Literal["frobenius", "row"]


def softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend to all nodes, weighted by the softmax over j of q_i . k_j / sqrt(D); torch's kernels.

    Quadratic in N. "Attention is all you need" (arXiv 1706.03762), equation 1.
    """
    # The kernels that never store the N x N scores want exactly four dimensions, (S, H, N, D).
    sets = math.prod(v.shape[:-3])
    four = (each.reshape(sets, *each.shape[-3:]).transpose(1, 2) for each in (q, k, v))
    return functional.scaled_dot_product_attention(*four).transpose(1, 2).reshape(v.shape)


def linear(q: Tensor, k: Tensor, v: Tensor, *, qk_norm: Norm = "row") -> Tensor:
    """The linear attention of SGFormer: (N v_i + q_i (k^T v)) / (N + q_i (k^T 1)), q, k normalised.

    Linear in N. SGFormer (arXiv 2306.10759), equations 2 to 4. `frobenius` divides q and k by
    one norm over their whole set, as the authors do; the attention term is then of order 1/N
    whatever the weights. `row` normalises each node and head by itself. Sums are kept in fp32.
    """
    n = q.shape[-3]
    if n == 1:
        return v  # the formula's limit; its denominator may vanish
    with torch.autocast(q.device.type, enabled=False):
        q, k, values = (_at_least_fp32(each) for each in (q, k, v))
        q, k = _NORMS[qk_norm](q), _NORMS[qk_norm](k)
        mass = n + torch.einsum("...nhd,...hd->...nh", q, k.sum(-3))
        # Row-normalised scores reach -1, so the mass reaches 0.
        out = (n * values + mix(q, k, values)) / mass.clamp(min=1e-6 * n).unsqueeze(-1)
    return out.to(v.dtype)


def mix(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return q (k^T v), (..., N, H, D), multiplied in whichever order is cheaper."""
    if q.shape[-3] <= q.shape[-1]:
        scores = torch.einsum("...nhd,...mhd->...hnm", q, k)
        return torch.einsum("...hnm,...mhd->...nhd", scores, v)
    state = torch.einsum("...mhd,...mhe->...hde", k, v)
    return torch.einsum("...nhd,...hde->...nhe", q, state)


def random_batch(
    attend: Attention,
    size: int,
    *,
    evaluate: Literal["fixed", "full", "mean"] = "fixed",
    draws: int = 8,
    seed: int = 0,
    layer: int = 0,
) -> RandomBatch:
    """Return `attend` in random batches: nodes are dealt into batches and attend inside each.

    Algorithm 2 of Random Batch Attention (arXiv 2511.06044): O(N size) instead of O(N^2).

    Args:
        attend: any attention; it is called on `(..., batches, size, H, D)`.
        size: nodes per batch, p in the paper. Batches differ by one node at most, so that none
            is padded. With `size >= N` the result is that of `attend` exactly.
        evaluate: what happens in evaluation: one partition `fixed` by seed and layer, the `full`
            attention, or the `mean` over `draws` fixed partitions.
        draws: number of partitions that `mean` averages.
        seed: of the partitions used in evaluation.
        layer: number of the layer, so that layers differ in evaluation as they do in training.
    """
    return RandomBatch(attend, size, evaluate=evaluate, draws=draws, seed=seed, layer=layer)


class RandomBatch(nn.Module):
    """An attention in random batches; made by `random_batch`. It has no weights.

    It is a module only so that `train()` and `eval()` reach it. In training each call draws a new
    partition, from a generator of its own that the global one seeds; in evaluation the global
    generator is left alone.
    """

    def __init__(self, attend, size, *, evaluate, draws, seed, layer):
        super().__init__()
        self.attend, self.size = attend, size
        keys = {"fixed": [(seed, layer, 0)], "mean": [(seed, layer, i) for i in range(draws)]}
        self.keys = keys.get(evaluate, [])  # `full` needs no partition

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend from q to k, v, all (..., N, H, D), inside random batches of the N nodes."""
        if self.size >= q.shape[-3]:
            return self.attend(q, k, v)
        seeds = [_seed(key) for key in self.keys]
        if self.training:
            seeds = [int(torch.randint(2**62, ()))]
        if not seeds:
            return self.attend(q, k, v)
        outs = [self._one_draw(q, k, v, seed) for seed in seeds]
        return outs[0] if len(outs) == 1 else torch.stack(outs).mean(0)

    def _one_draw(self, q: Tensor, k: Tensor, v: Tensor, seed: int) -> Tensor:
        order = partition(q.shape[-3], seed, device=q.device)
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(len(order), device=order.device)
        dealt = [_Permute.apply(each, order, inverse) for each in (q, k, v)]
        return _Permute.apply(self._in_batches(*dealt), inverse, order)

    def _in_batches(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        n = q.shape[-3]
        batches = -(-n // self.size)
        small, larger = divmod(n, batches)  # `larger` batches hold one node more
        cut = larger * (small + 1)
        parts = ((slice(0, cut), small + 1), (slice(cut, n), small))
        outs = [
            self.attend(*(x[..., rows, :, :].unflatten(-3, (-1, size)) for x in (q, k, v)))
            for rows, size in parts
            if rows.start < rows.stop
        ]
        return torch.cat([out.flatten(-4, -3) for out in outs], dim=-3)


def partition(n: int, seed: int, *, device: torch.device | str = "cpu") -> Tensor:
    """Return a random order of n nodes, (n,) int64, from a generator of its own."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return torch.randperm(n, generator=generator, device=device)


def per_graph(attend: Attention, sizes: list[int]) -> Attention:
    """Return `attend` applied to each graph of a batch by itself.

    Args:
        attend: any attention.
        sizes: nodes of each graph, in the order of the rows; graphs of one size share a call.
    """
    if len(sizes) == 1:
        return attend

    def attend_each(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        counts = torch.tensor(sizes, device=q.device)
        owner = torch.repeat_interleave(counts)  # (N,) the graph of each row
        order = torch.argsort(counts[owner], stable=True)
        q, k, v = (each[..., order, :, :] for each in (q, k, v))
        outs, start = [], 0
        for size in sorted({size for size in sizes if size}):
            stop = start + size * sizes.count(size)
            sets = (each[..., start:stop, :, :].unflatten(-3, (-1, size)) for each in (q, k, v))
            outs.append(attend(*sets).flatten(-4, -3))
            start = stop
        return torch.cat(outs, dim=-3)[..., torch.argsort(order), :, :]

    return attend_each


class _Permute(torch.autograd.Function):
    """Rows in another order; the gradient is a gather too, not a scatter with collisions."""

    @staticmethod
    def forward(ctx, x, order, inverse):
        ctx.save_for_backward(order, inverse)
        return x.index_select(-3, order)

    @staticmethod
    def backward(ctx, gradient):
        order, inverse = ctx.saved_tensors
        return _Permute.apply(gradient, inverse, order), None, None


def _frobenius(x: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(x, dim=(-3, -2, -1), keepdim=True)
    return x / norm.clamp(min=1e-12)  # a set of zero rows stays zero instead of NaN


def _row(x: Tensor) -> Tensor:
    return functional.normalize(x, dim=-1)


_NORMS = {"frobenius": _frobenius, "row": _row}


def _at_least_fp32(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _seed(key: tuple[int, int, int]) -> int:
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _native(native: Attention, layer: int) -> Attention:
    """The model's own attention, as published."""
    return native


def _softmax(native: Attention, layer: int) -> Attention:
    """Full softmax attention over all nodes."""
    return softmax


def _linear(native: Attention, layer: int, *, qk_norm: Norm = "row") -> Attention:
    """SGFormer's linear attention.

    Args:
        qk_norm: what divides queries and keys: their norm per `row`, or one `frobenius` norm.
    """
    return lambda q, k, v: linear(q, k, v, qk_norm=qk_norm)


def _rba(
    native: Attention,
    layer: int,
    *,
    size: Count = 256,
    inner: Annotated[Spec, ATTENTIONS] = "native",
    evaluate: Literal["fixed", "full", "mean"] = "fixed",
    draws: Count = 8,
    seed: Seed = 0,
) -> Attention:
    """Random Batch Attention: another attention inside random batches of nodes.

    Args:
        size: nodes per batch.
        inner: the attention inside a batch.
        evaluate: in evaluation, one `fixed` partition, the `full` attention, or a `mean`.
        draws: number of partitions that `mean` averages.
        seed: of the partitions used in evaluation.
    """
    attend = pick(ATTENTIONS, inner, native, layer)
    return random_batch(attend, size, evaluate=evaluate, draws=draws, seed=seed, layer=layer)


ATTENTIONS = Table(
    "attention", {"native": _native, "softmax": _softmax, "linear": _linear, "rba": _rba}
)
"""Word to builder `(native, layer, *, options) -> attention`."""
