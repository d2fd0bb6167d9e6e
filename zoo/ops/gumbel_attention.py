"""NodeFormer's attention: means over nodes by positive random features, with Gumbel noise per key.

"NodeFormer: A Scalable Graph Structure Learning Transformer" (arXiv 2306.08385), equations 5 to 7.
Features are kept as logarithms and every mean is a softmax, which subtracts its maximum: nothing
overflows at a low temperature, and no denominator vanishes. All noises are worked on together, for
a block of nodes at a time: what exists of the features of all nodes is one (N, H, M) tensor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor

from zoo.ops.precision import in_fp32, wide
from zoo.ops.ragged import Buckets, Ragged, for_ragged
from zoo.ops.random_order import drawn_seed
from zoo.ops.second_gradients import second_gradients
from zoo.tracing import operator

_NUMBERS = {"cpu": 2**19, "cuda": 2**26}
"""Numbers of a block, whose features with each noise exist at a time: on the CPU no more than its
caches hold."""


@for_ragged
@in_fp32
def gumbel_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    noise: Tensor | None = None,
    *,
    epsilon: float = 0.0,
    ragged: Ragged | None = None,
) -> Tensor:
    """Return the mean over noises of sum_j f(q_i) f(k_j) u_j v_j / sum_j f(q_i) f(k_j) u_j.

    Linear in N. The sums over j are those of each of the M features, so each feature averages the
    values over the nodes, and each query averages the features. Sums are kept in fp32.

    Args:
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, D).
        w: random directions (M, D).
        noise: log u, (K, ..., N, H), one for each key; u = 1 when left out.
        epsilon: added to every feature, see `log_features`.
        ragged: of sets of several sizes, whose rows q, k and v are, (N, H, D).
    """
    if ragged is not None:
        return _of_buckets(q, k, v, w, noise, epsilon, ragged.buckets())
    return _of_sets(q, k, v, w, noise, None, epsilon)


def _of_buckets(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    noise: Tensor | None,
    epsilon: float,
    buckets: Buckets,
) -> Tensor:
    """Return `gumbel_attention` of sets of several sizes."""
    noises: list[Tensor | None] = [None] * len(buckets.shapes)
    if noise is not None:
        noises = [part.movedim(-1, 0) for part in buckets.cut(noise.movedim(0, -1))]
    parts = zip(*map(buckets.cut, (q, k, v)), noises, buckets.masks, strict=True)
    return buckets.join([_of_sets(*qkv, w, own, mask, epsilon) for *qkv, own, mask in parts])


def _of_sets(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    noise: Tensor | None,
    mask: Tensor | None,
    epsilon: float,
) -> Tensor:
    """Return `gumbel_attention`, without the keys where a mask (S, 1, 1, N) is -inf."""
    queries, keys, values = (x.transpose(-3, -2) for x in (q, k, v))  # (..., H, N, D)
    queries = log_features(queries, w, epsilon)
    mask = None if mask is None else mask.mT  # (S, 1, N, 1)
    keys = log_features(keys, w, epsilon, over=(-2, -1), mask=mask)
    shifts = keys.new_zeros(*keys.shape[:-1], 1)  # (..., H, N, K)
    if noise is not None:
        shifts = noise.mT.movedim(0, -1).to(keys.dtype)
    return _Mean.apply(queries, keys, values, shifts).transpose(-3, -2)


def log_features(
    x: Tensor,
    w: Tensor,
    epsilon: float = 0.0,
    over: tuple[int, ...] = (-1,),
    mask: Tensor | None = None,
) -> Tensor:
    """Return log f(x), (..., M), for x (..., D) and w (M, D): w_m x - |x|^2 / 2, x over D^1/4.

    With an epsilon it is log(exp(w_m x - |x|^2 / 2 - s) + epsilon), as in the authors' program: s
    is the largest w_m x over the dimensions `over` of the result, the features for a query, nodes
    and features for the keys of a set. It cancels out of the attention, but for the epsilon. A mask
    of 0 and -inf is added, which leaves keys out.
    """
    with torch.autocast(x.device.type, enabled=False):
        x = wide(x) * x.shape[-1] ** -0.25
        along, half = x @ w.to(x).mT, x.square().sum(-1, keepdim=True) / 2
        mask = None if mask is None else mask.to(along.dtype)
        if epsilon and along.numel():  # of no node there is no largest
            least = along.new_full((), math.log(epsilon))
            peaks = (along if mask is None else along + mask).amax(over, keepdim=True)
            logs = torch.logaddexp(along - half - peaks, least)
        else:
            logs = along - half
        return logs if mask is None else logs + mask


def gumbel_noise(shape: tuple[int, ...], seed: int | None, device: torch.device) -> Tensor:
    """Return standard Gumbel noise, fp32, from a generator of its own; None draws a seed."""
    return _noise(list(shape), seed, device)


@operator(
    "(int[] shape, int? seed, Device device) -> Tensor",
    lambda shape, _, device: torch.empty(shape, device=device),
    random=True,
)
def _noise(shape: list[int], seed: int | None, device: torch.device) -> Tensor:
    seed = drawn_seed() if seed is None else seed
    generator = torch.Generator(device=device).manual_seed(seed)
    times = torch.empty(shape, device=device).exponential_(generator=generator)
    return -times.clamp(min=torch.finfo(times.dtype).tiny).log()


class _Mean(torch.autograd.Function):
    """The means, from log f of queries and keys (..., H, N, M), values and log u (..., H, N, K).

    With s_km = log sum_n f(k_n)_m u_nk: keys have the shares P = exp(log f(k) + log u - s) in the
    average of each feature, and features the shares W = softmax_m(log f(q) + s) in each answer.
    Both are made again for the gradient, a block of nodes at a time.
    """

    @staticmethod
    def forward(ctx, queries, keys, values, shifts):
        out, sums, averages = _mean(queries, keys, values, shifts)
        ctx.save_for_backward(queries, keys, values, shifts, sums, averages)
        return out

    @staticmethod
    def backward(ctx, grad):
        queries, keys, values, shifts, sums, averages = ctx.saved_tensors
        if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # second gradients
            inputs, again = (queries, keys, values), partial(_written_out, shifts=shifts)
            return *second_gradients(again, inputs, grad), None
        return *_mean_gradient(grad, queries, keys, values, shifts, sums, averages), None


def _like_mean(queries: Tensor, keys: Tensor, values: Tensor, shifts: Tensor):
    *sets, count = *keys.shape[:-2], keys.shape[-1]
    samples = shifts.shape[-1]
    averages = values.new_empty(*sets, samples * count, values.shape[-1])
    return values.new_empty(values.shape), keys.new_empty(*sets, samples, count), averages


@operator(
    "(Tensor queries, Tensor keys, Tensor values, Tensor shifts) -> (Tensor, Tensor, Tensor)",
    _like_mean,
)
def _mean(
    queries: Tensor, keys: Tensor, values: Tensor, shifts: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the means, s (..., H, K, M), and the average of each feature, (..., H, K M, E)."""
    samples, count = shifts.shape[-1], keys.shape[-1]
    sums = keys.new_full((*keys.shape[:-2], samples, count), -torch.inf)
    averages = values.new_zeros(*values.shape[:-2], samples * count, values.shape[-1])
    out = torch.empty_like(values, memory_format=torch.contiguous_format)
    for rows in _blocks(keys, samples):
        sums = torch.logaddexp(sums, _noisy(keys[rows], shifts[rows]).logsumexp(-3))
    for rows in _blocks(keys, samples):
        averages += _key_shares(keys[rows], shifts[rows], sums).mT @ values[rows]
    for rows in _blocks(keys, samples):
        out[rows] = _feature_shares(queries[rows], sums) @ averages / samples
    return out, sums, averages


@operator(
    "(Tensor grad, Tensor queries, Tensor keys, Tensor values, Tensor shifts, Tensor sums,"
    " Tensor averages) -> (Tensor, Tensor, Tensor)",
    lambda _, *tensors: tuple(map(torch.empty_like, tensors[:3])),
)
def _mean_gradient(
    grad: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    shifts: Tensor,
    sums: Tensor,
    averages: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of queries, keys and values for what `_mean` returned."""
    samples, count = shifts.shape[-1], keys.shape[-1]
    grad_queries, grad_keys, grad_values = map(torch.empty_like, (queries, keys, values))
    grad_averages, grad_sums = torch.zeros_like(averages), torch.zeros_like(sums)
    split = (samples, count)
    for rows in _blocks(keys, samples):
        along = grad[rows] / samples
        shares = _feature_shares(queries[rows], sums)
        grad_averages += shares.mT @ along
        through = (shares * (along @ averages.mT)).unflatten(-1, split)
        through -= shares.unflatten(-1, split) * through.sum(-1, keepdim=True)
        grad_queries[rows] = through.sum(-2)
        grad_sums += through.sum(-3)
    grad_sums -= (averages * grad_averages).sum(-1).unflatten(-1, split)
    for rows in _blocks(keys, samples):
        shares = _key_shares(keys[rows], shifts[rows], sums)
        grad_values[rows] = shares @ grad_averages
        through = values[rows] @ grad_averages.mT + grad_sums.flatten(-2).unsqueeze(-2)
        grad_keys[rows] = (shares * through).unflatten(-1, split).sum(-2)
    return grad_queries, grad_keys, grad_values


def _blocks(keys: Tensor, samples: int) -> Iterator[tuple]:
    """Cut the nodes of (..., N, M) evenly: their features with all noises are to be few enough."""
    n = keys.shape[-2]
    per_node = max(1, keys.numel() * samples // max(1, n))
    count = max(1, round(n / max(64, _NUMBERS[keys.device.type] // per_node)))
    cuts = [n * part // count for part in range(count + 1)]
    return ((..., slice(*ends), slice(None)) for ends in pairwise(cuts))


def _noisy(keys: Tensor, shifts: Tensor) -> Tensor:
    """Return log f(k) + log u, (..., n, K, M)."""
    return keys.unsqueeze(-2) + shifts.unsqueeze(-1)


def _key_shares(keys: Tensor, shifts: Tensor, sums: Tensor) -> Tensor:
    """Return the shares P of some keys in the averages of features, (..., n, K M)."""
    return (_noisy(keys, shifts) - sums.unsqueeze(-3)).exp().flatten(-2)


def _feature_shares(queries: Tensor, sums: Tensor) -> Tensor:
    """Return the shares W of features in the answers to some queries, (..., n, K M)."""
    return (queries.unsqueeze(-2) + sums.unsqueeze(-3)).softmax(-1).flatten(-2)


def _written_out(queries: Tensor, keys: Tensor, values: Tensor, shifts: Tensor) -> Tensor:
    sums = _noisy(keys, shifts).logsumexp(-3)
    averages = _key_shares(keys, shifts, sums).mT @ values
    return _feature_shares(queries, sums) @ averages / shifts.shape[-1]
