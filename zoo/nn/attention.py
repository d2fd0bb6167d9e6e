"""Attention as a function of q, k, v, and random batches as a decorator of such functions.

An attention maps q, k, v, all `(..., N, H, D)`, to `(..., N, H, D)`; q and k may have another width
than v. Leading dimensions are separate sets: nodes attend inside their own set only. There is no
mask and there are no weights: projections and feature maps are applied by the model before the
call.

ATTENTIONS turns a recipe's word into such a function. Its builders are given the model's own
attention (`native`) and the number of the layer; their docstrings say, for `zoo list attentions`,
whether they estimate another attention, and how they grow with the nodes N of a set.
"""

from __future__ import annotations

import functools
import math
from typing import Annotated, Literal

import torch
from torch import Tensor
from torch.nn import functional

from zoo.config.options import Count, Seed, Spec, Table, pick
from zoo.errors import ZooError
from zoo.nn.random_batch_attention import Attention, Shard, random_batch, seed_of
from zoo.nn.random_features import RandomKernel, performer
from zoo.ops.chunked_attention import Recompute
from zoo.ops.chunks import row_blocks
from zoo.ops.global_sums import by_sums, count, divided, is_by_sums, total
from zoo.ops.linear_attention import linear_mean
from zoo.ops.precision import wide

Norm = Literal["frobenius", "row"]
Base = Literal["own", "all"]


def softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend to all nodes, weighted by the softmax over j of q_i . k_j / sqrt(D); torch's kernels.

    Quadratic in N. "Attention is all you need" (arXiv 1706.03762), equation 1.
    """
    # The kernels that never store the N x N scores want exactly four dimensions, (S, H, N, D), and
    # one width D; columns of zeros change no score.
    sets, width = math.prod(v.shape[:-3]), max(q.shape[-1], v.shape[-1])
    wide = (_widened(each, width) for each in (q, k, v))
    four = (each.reshape(sets, *each.shape[-3:]).transpose(1, 2) for each in wide)
    out = functional.scaled_dot_product_attention(*four, scale=q.shape[-1] ** -0.5)
    return out.transpose(1, 2)[..., : v.shape[-1]].reshape(v.shape)


def _widened(x: Tensor, width: int) -> Tensor:
    """Return x (..., D) with columns of zeros up to a width; `pad` would copy even for none."""
    missing = width - x.shape[-1]
    return functional.pad(x, (0, missing)) if missing else x


@by_sums
def linear(q: Tensor, k: Tensor, v: Tensor, *, qk_norm: Norm = "row", base: Base = "own") -> Tensor:
    """The linear attention of SGFormer: (N v_i + q_i (k^T v)) / (N + q_i (k^T 1)), q, k normalised.

    Linear in N. SGFormer (arXiv 2306.10759), equations 2 to 4; with the base `all`, the sum of all
    v_j in the place of N v_i, it is that of DIFFormer-s (arXiv 2301.09474). `frobenius` divides q
    and k by one norm over their whole set, as the authors do; the attention term is then of order
    1/N whatever the weights. `row` normalises each node and head by itself. Sums are kept in fp32.
    """
    if count(q) == 1:
        return v  # the formula's value or limit; its denominator may vanish
    with torch.autocast(q.device.type, enabled=False):
        q, k, values = (wide(each) for each in (q, k, v))
        q, k = QUERY_NORMS[qk_norm](q), QUERY_NORMS[qk_norm](k)
        out = linear_mean(q, k, values, base)
    return out.to(v.dtype)


def one_norm(attend: Attention) -> Base | None:
    """Return the base of a `linear` attention whose queries and keys have one norm, else None."""
    given = attend.keywords if isinstance(attend, functools.partial) else {}
    if given.get("qk_norm") != "frobenius" or attend.func is not linear:
        return None
    return given.get("base", "own")


def per_graph(attend: Attention, sizes: list[int]) -> Attention:
    """Return `attend` applied to each graph of a batch by itself.

    Args:
        attend: any attention.
        sizes: nodes of each graph, in the order of the rows; graphs of one size share a call.

    Raises:
        ZooError: the nodes at hand are some of those to attend to, and sums do not do.
    """
    if divided() and not is_by_sums(attend):
        raise ZooError(
            "`layerwise` is for models whose nodes look at their neighbours alone, or whose "
            "attention is made of sums over all nodes: `native` of sgformer, difformer and "
            "polynormer, `linear`, and `rba` around these with its own `evaluate: full`. Write "
            "`evaluate: batches`, or `full`; in the place of `--layerwise`, `--batch-size`."
        )
    sizes = [size for size in sizes if size]  # an empty graph has no rows
    if len(sizes) <= 1:
        return attend

    def attend_each(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        counts = torch.tensor(sizes, device=q.device)
        owner = torch.repeat_interleave(counts)  # (N,) the graph of each row
        order = torch.argsort(counts[owner], stable=True)
        q, k, v = (each[..., order, :, :] for each in (q, k, v))
        outs, start = [], 0
        for size in sorted(set(sizes)):
            stop = start + size * sizes.count(size)
            sets = (each[..., start:stop, :, :].unflatten(-3, (-1, size)) for each in (q, k, v))
            outs.append(attend(*sets).flatten(-4, -3))
            start = stop
        return torch.cat(outs, dim=-3)[..., torch.argsort(order), :, :]

    return attend_each


def _frobenius(x: Tensor) -> Tensor:
    norm = torch.linalg.vector_norm(x, dim=(-3, -2, -1), keepdim=True)
    if divided():
        norm = total(norm.square())[0].sqrt()
    return x / norm.clamp(min=1e-12)  # a set of zero rows stays zero instead of NaN


def _row(x: Tensor) -> Tensor:
    return _Row.apply(x)[0]


class _Row(torch.autograd.Function):
    """x / |x| and |x| of each row, which are remembered instead of x and passed over less often."""

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
    def backward(ctx, of_y, of_norm):
        y, norm = ctx.saved_tensors
        of_x = None if of_norm is None else y * of_norm  # asked for by second gradients
        if of_y is None:
            return of_x
        if torch.is_grad_enabled() or of_x is not None:
            across = _across(of_y, y) / norm
            return across if of_x is None else across + of_x
        of_x = torch.empty_like(y)
        for given, rows, lengths, into in row_blocks(of_y, y, norm, of_x):
            torch.div(_across(given, rows), lengths, out=into)
        return of_x


def _across(x: Tensor, y: Tensor) -> Tensor:
    """Return x without its part along y, for rows y of length 1."""
    return torch.addcmul(x, y, (x * y).sum(-1, keepdim=True), value=-1)


QUERY_NORMS = {"frobenius": _frobenius, "row": _row}
"""Word to what divides queries and keys (..., N, H, D) by their norm."""


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


def _linear(native: Attention, layer: int, *, qk_norm: Norm = "row") -> Attention:
    """SGFormer's linear attention.

    Promises: exact; time N; memory N; deterministic at evaluation

    Args:
        qk_norm: what divides queries and keys: their norm per `row`, or one `frobenius` norm.
    """
    return functools.partial(linear, qk_norm=qk_norm)


def _performer(native: Attention, layer: int, *, features: Count = 64, seed: Seed = 0) -> Attention:
    """Softmax attention estimated by positive random features, FAVOR+.

    Promises: approximate; time N * features; memory N * features; deterministic at evaluation

    Args:
        features: number of random features; the more, the nearer to softmax.
        seed: of the features used in evaluation; training draws new ones in every call.
    """
    return RandomKernel(performer, features, seed=seed_of((seed, layer)))


def _rba(
    native: Attention,
    layer: int,
    *,
    size: Count = 256,
    inner: Annotated[Spec, ATTENTIONS] = "native",
    evaluate: Literal["fixed", "full", "mean"] = "fixed",
    draws: Count = 8,
    seed: Seed = 0,
    shard: Shard = "none",
    redeal: Count = 1,
    recompute: Recompute = "auto",
) -> Attention:
    """Random Batch Attention: another attention inside random batches of nodes.

    Promises: approximate; time N * size; memory N; deterministic at evaluation

    Args:
        size: nodes per batch.
        inner: the attention inside a batch.
        evaluate: in evaluation, one `fixed` partition, the `full` attention, or a `mean`.
        draws: number of partitions that `mean` averages.
        seed: of the partitions used in evaluation.
        shard: what several processes do: `none`, share the batches of nodes that all of them have
            (`replicated`), or have a share of the nodes each and draw batches inside it (`local`).
        redeal: steps after which the nodes are dealt to the processes anew, with `local`.
        recompute: attend again for the gradient, for less memory; `auto` where that is much.
    """
    attend = pick(ATTENTIONS, inner, native, layer)
    keys = {"evaluate": evaluate, "draws": draws, "seed": seed, "layer": layer}
    return random_batch(attend, size, **keys, shard=shard, redeal=redeal, recompute=recompute)


ATTENTIONS = Table(
    "attention",
    {
        "native": _native,
        "softmax": _softmax,
        "linear": _linear,
        "performer": _performer,
        "rba": _rba,
    },
)
"""Word to builder `(native, layer, *, options) -> attention`."""
