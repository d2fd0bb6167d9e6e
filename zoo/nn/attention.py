"""Attention as a function of q, k, v, by name.

An attention maps q, k, v, all `(..., N, H, D)`, to `(..., N, H, D)`; q and k may have another width
than v. Leading dimensions are separate sets: nodes attend inside their own set only. There is no
mask and there are no weights: projections and feature maps are applied by the model before the
call. `Attend` applies an attention to a graph, or to each graph of a batch. One that is marked
`for_bias` may be given a bias, a function of pairs of nodes: see `zoo.ops.pair_attention`.

ATTENTIONS turns a recipe's word into such a function. Its builders are given the model's own
attention (`native`) and the number of the layer; their docstrings say, for `zoo list attentions`,
whether they estimate another attention, and how they grow with the nodes N of a set.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn import functional

from zoo.config.options import Count, Few, Rate, Seed, Spec, Table, pick
from zoo.errors import ZooError
from zoo.nn.cluster_attention import ClusterAttention
from zoo.nn.codebook_attention import CodebookAttention
from zoo.nn.random_batch_attention import RandomBatchAttention, Share
from zoo.nn.random_features import RandomKernel, performer
from zoo.nn.sets import stands_alone
from zoo.ops.chunked_attention import Recompute
from zoo.ops.global_sums import Sums, by_sums, count_nodes
from zoo.ops.linear import Projected, as_tensors
from zoo.ops.linear_attention import linear_attention
from zoo.ops.pair_attention import Bias, attend_by_rows, for_bias, softmax_rows
from zoo.ops.ragged import Ragged, for_ragged
from zoo.ops.random_order import seed_of

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]
"""A function of q, k, v, all (..., N, H, D), to (..., N, H, D)."""

QueryKeyNorm = Literal["frobenius", "row"]

MOST_SETS = 65_535
"""Sets in one call of torch's kernels, as many blocks as a grid of CUDA has in one direction."""


@for_bias("scores")
@for_ragged
def softmax(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    ragged: Ragged | None = None,
    bias: Bias | None = None,
) -> Tensor:
    """Attend to all nodes, weighted by the softmax over j of q_i . k_j / sqrt(D); torch's kernels.

    Quadratic in N. "Attention is all you need" (arXiv 1706.03762), equation 1. With a bias b, of
    q_i . k_j / sqrt(D) + b_ij, in blocks of rows.
    """
    if bias is not None:
        return attend_by_rows(softmax_rows, q, k, v, bias, ragged=ragged)
    if ragged is None:
        return _by_kernels(q, k, v, None)
    buckets = ragged.buckets()
    parts = zip(*map(buckets.cut, (q, k, v)), buckets.masks, strict=True)
    return buckets.join([_by_kernels(*part) for part in parts])


def _by_kernels(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Return what `softmax` does; a mask (S, 1, 1, N) is added to the scores of each set."""
    # The kernels that never store the N x N scores want exactly four dimensions, (S, H, N, D), and
    # one width D, on a GPU a multiple of 8; columns of zeros change no score.
    sets, width = math.prod(v.shape[:-3]), max(q.shape[-1], v.shape[-1])
    width = -(-width // 8) * 8 if v.is_cuda else width
    padded = (_padded(x, width) for x in (q, k, v))
    four = (x.reshape(sets, *x.shape[-3:]).transpose(1, 2) for x in padded)
    masks = (
        [None] * max(1, -(-sets // MOST_SETS))
        if mask is None
        else mask.to(v.dtype).split(MOST_SETS)
    )
    some = zip(*(x.split(MOST_SETS) for x in four), masks, strict=True)
    scale = q.shape[-1] ** -0.5
    outs = [functional.scaled_dot_product_attention(*part, scale=scale) for part in some]
    out = outs[0] if len(outs) == 1 else torch.cat(outs)
    return out.transpose(1, 2)[..., : v.shape[-1]].reshape(v.shape)


def _padded(x: Tensor, width: int) -> Tensor:
    """Return x (..., D) with columns of zeros up to a width, the numbers of a row side by side."""
    missing = width - x.shape[-1]
    if missing:
        return functional.pad(x, (0, missing))
    return x if x.stride(-1) == 1 else x.clone(memory_format=torch.contiguous_format)


@for_ragged
@by_sums
def linear(
    q: Tensor | Projected,
    k: Tensor | Projected,
    v: Tensor | Projected,
    *,
    qk_norm: QueryKeyNorm = "row",
    base: Literal["own", "all"] = "own",
    sums: Sums | None = None,
    ragged: Ragged | None = None,
) -> Tensor:
    """The linear attention of SGFormer: (N v_i + q_i (k^T v)) / (N + q_i (k^T 1)), q, k normalised.

    Linear in N. SGFormer (arXiv 2306.10759), equations 2 to 4; with the base `all`, the sum of all
    v_j in the place of N v_i, it is that of DIFFormer-s (arXiv 2301.09474). `frobenius` divides q
    and k by one norm over their whole set, as the authors do; the attention term is then of order
    1/N whatever the weights. `row` normalises each node and head by itself. How it is computed is
    decided by `zoo.ops.linear_attention.way`.
    """
    if ragged is None and count_nodes(v, sums) == 1:
        return as_tensors(q, k, v)[2]  # the formula's value or limit; its denominator may vanish
    return linear_attention(q, k, v, qk_norm=qk_norm, base=base, sums=sums, ragged=ragged)


linear.takes_projected = True


def _native(native: Attention, layer: int) -> Attention:
    """The model's own attention, as published.

    Promises: as the model; time as the model; memory as the model; deterministic at evaluation
    """
    return native


def _softmax(native: Attention, layer: int) -> Attention:
    """Full softmax attention over all nodes.

    Promises: exact; time N^2; memory N; deterministic at evaluation
    """
    return softmax


def _linear(native: Attention, layer: int, *, qk_norm: QueryKeyNorm = "row") -> Attention:
    """SGFormer's linear attention.

    Promises: exact; time N; memory N; deterministic at evaluation

    Args:
        qk_norm: what divides queries and keys: their norm per `row`, or one `frobenius` norm.
    """
    return functools.partial(linear, qk_norm=qk_norm)


def _performer(
    native: Attention, layer: int, *, random_features: Count = 64, seed: Seed = 0
) -> Attention:
    """Softmax attention estimated by positive random features, FAVOR+.

    Promises: approximate; time N * features; memory N * features; deterministic at evaluation

    Args:
        random_features: number of random features; the more, the nearer to softmax.
        seed: of the features used in evaluation; training draws new ones in every call.
    """
    return RandomKernel(performer, random_features, seed=seed_of((seed, layer)))


def _rba(
    native: Attention,
    layer: int,
    *,
    size: Count = 256,
    inner: Annotated[Spec, ATTENTIONS] = "native",
    inference: Literal["fixed", "full", "mean"] = "fixed",
    draws: Few = 8,
    seed: Seed = 0,
    shard: Share = "none",
    redeal: Count = 1,
    recompute: Recompute = "auto",
) -> Attention:
    """Random Batch Attention: another attention inside random batches of nodes.

    Promises: approximate; time N * size; memory N; deterministic at evaluation

    Args:
        size: nodes per batch.
        inner: the attention inside a batch.
        inference: in evaluation, one `fixed` partition, the `full` attention, or a `mean`.
        draws: number of partitions that `mean` averages.
        seed: of the partitions used in evaluation.
        shard: what several processes do: `none`, share the batches of nodes that all of them have
            (`replicated`), or have a share of the nodes each and draw batches inside it (`local`).
        redeal: steps after which the nodes are dealt to the processes anew, with `local`.
        recompute: attend again for the gradient, for less memory; `auto` where that is much.
    """
    return RandomBatchAttention(
        _inside("rba", inner, native, layer),
        size,
        inference=inference,
        draws=draws,
        seed=seed,
        layer=layer,
        shard=shard,
        redeal=redeal,
        recompute=recompute,
    )


def _clusters(
    native: Attention,
    layer: int,
    *,
    parts: Count | None = None,
    size: Count = 256,
    inner: Annotated[Spec, ATTENTIONS] = "native",
    means: bool = False,
    alternate: bool = False,
    seed: Seed = 0,
) -> Attention:
    """Another attention inside the clusters of the graph, METIS parts that cut few edges.

    Promises: exact; time N * size; memory N; deterministic at evaluation

    Args:
        parts: how many clusters each graph has; left out, as many as have about `size` nodes.
        size: nodes per cluster, about, and of the random batches of `alternate`.
        inner: the attention inside a cluster.
        means: add what the mean of a cluster gathers of the means of all clusters.
        alternate: the second layer, the fourth and so on attend in random batches instead.
        seed: of these batches in evaluation.
    """
    inside = _inside("clusters", inner, native, layer)
    if alternate and layer % 2:
        return RandomBatchAttention(inside, size, seed=seed, layer=layer)
    return ClusterAttention(inside, size, parts=parts or 0, means=means)


def _codebook(
    native: Attention, layer: int, *, codes: Count = 64, decay: Rate = 0.9, seed: Seed = 0
) -> Attention:
    """Softmax attention to the means of groups of nodes, GOAT's; groups are kept from training.

    Promises: approximate; time N * codes; memory N * codes; deterministic at evaluation

    Args:
        codes: number of groups.
        decay: share of what was before in the means, in each step of training.
        seed: of the first centres of the groups.
    """
    return CodebookAttention(codes, decay=decay, seed=seed_of((seed, layer)))


def _inside(word: str, inner: Spec, native: Attention, layer: int) -> Attention:
    """Return the attention inside the sets of another one.

    Raises:
        ZooError: it has to be given the whole graph.
    """
    attend = pick(ATTENTIONS, inner, native, layer)
    if stands_alone(attend):
        name = inner if isinstance(inner, str) else inner["name"]
        raise ZooError(
            f"`{name}` has to be given the whole graph, and inside of `{word}` there are small "
            "sets of its nodes; write another `inner`, such as `softmax`."
        )
    return attend


ATTENTIONS = Table(
    "attention",
    {
        "native": _native,
        "softmax": _softmax,
        "linear": _linear,
        "performer": _performer,
        "rba": _rba,
        "clusters": _clusters,
        "codebook": _codebook,
    },
)
"""Word to builder `(native, layer, *, options) -> attention`."""
