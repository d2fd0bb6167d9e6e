"""What random features say of single edges: the probability with which a node attends along one."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from zoo.graphs.adjacency import edge_dst, ends
from zoo.graphs.shard import Graph
from zoo.graphs.spmm import edge_dot
from zoo.nn.attend import per_graph, ragged_of
from zoo.ops.gumbel_attention import log_features
from zoo.tracing import operator


def edge_log_probabilities(
    graph: Graph, q: Tensor, k: Tensor, w: Tensor, *, epsilon: float = 0.0
) -> Tensor:
    """Return log p_uv, (E, H), p_uv = f(q_v) . f(k_u) / sum_j f(q_v) . f(k_j), for edges u -> v.

    NodeFormer (arXiv 2306.08385), equation 8: the attention of random features on the edges, the
    sum over the nodes j of the edge's own graph.

    Args:
        graph: of N nodes, or a batch of graphs.
        q: queries (N, H, D).
        k: keys (N, H, D).
        w: random directions (M, D).
        epsilon: added to every feature, see `log_features`.
    """
    queries = log_features(q, w, epsilon)
    ragged = ragged_of(graph, k.device)
    features = partial(log_features, w=w, epsilon=epsilon, over=(-3, -1))
    if ragged is None:
        keys = per_graph(features, graph, k)
        mass = per_graph(_log_mass, graph, queries, keys)
    else:
        buckets = ragged.buckets()
        masks = (None if mask is None else mask.transpose(1, 3) for mask in buckets.masks)
        logs = [features(x, mask=mask) for x, mask in zip(buckets.cut(k), masks, strict=True)]
        keys = buckets.join(logs)
        mass = buckets.join([*map(_log_mass, buckets.cut(queries), logs)])
    mass = mass.squeeze(-1)  # (N, H)
    return _log_scores(graph, queries, keys) - mass.index_select(0, edge_dst(graph, q.device))


def _log_mass(queries: Tensor, keys: Tensor) -> Tensor:
    """Return log sum_j f(q_i) f(k_j), (..., N, H, 1), for log f of both (..., N, H, M)."""
    return (queries + keys.logsumexp(-3, keepdim=True)).logsumexp(-1, keepdim=True)


again = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
"""Call a function now, and once more for its gradient: nothing is kept meanwhile."""

_NUMBERS = 2**26  # of the rows of edges that exist at a time, (B, H, M)
_LEAST = 1e-30  # of a product of features; below it, single precision leaves less than is needed


def _log_scores(graph: Graph, queries: Tensor, keys: Tensor) -> Tensor:
    """Return log f(q_v) f(k_u), (E, H), for edges u -> v and log f of both (N, H, M).

    The features are divided by the largest of their node first. Where the largest of u and v are so
    different that nothing is left of the product, it is worked out from the logarithms; on a GPU
    all are, where the host would have to wait for the number of these.
    """
    src, dst = ends(graph, queries.device)
    if not queries.is_cpu:
        return _from_logarithms(queries, keys, src, dst)
    tops, peaks = (logs.detach().amax(-1, keepdim=True) for logs in (queries, keys))
    products = edge_dot(graph, (keys - peaks).exp(), (queries - tops).exp())
    scores = products.clamp(min=_LEAST).log() + (peaks[src] + tops[dst]).squeeze(-1)
    if torch.compiler.is_compiling():
        return _WhereLost.apply(scores, products.detach(), queries, keys, src, dst)
    return _where_lost(scores, products, queries, keys, src, dst)


def _where_lost(scores: Tensor, products: Tensor, queries: Tensor, keys: Tensor, *ends) -> Tensor:
    """Return the scores found (E, H), from the logarithms where nothing is left of the products."""
    lost = (products <= _LEAST).any(-1).nonzero().squeeze(-1)
    if not len(lost):
        return scores
    src, dst = (end[lost] for end in ends)
    return scores.index_copy(0, lost, _of_pairs(queries, keys, src, dst))


class _WhereLost(torch.autograd.Function):
    """`_where_lost`, where it is traced: how many scores are lost is not known then."""

    @staticmethod
    def forward(ctx, scores, products, queries, keys, src, dst):
        ctx.save_for_backward(products, queries, keys, src, dst)
        return _found(scores, products, queries, keys, src, dst)

    @staticmethod
    def backward(ctx, grad):
        scores, queries, keys = _found_gradient(grad, *ctx.saved_tensors)
        return scores, None, queries, keys, None, None


_SCORES = "Tensor products, Tensor queries, Tensor keys, Tensor src, Tensor dst"


@operator(f"(Tensor scores, {_SCORES}) -> Tensor", lambda scores, *_: torch.empty_like(scores))
def _found(scores: Tensor, *rest: Tensor) -> Tensor:
    replaced = _where_lost(scores, *rest)
    return replaced.clone() if replaced is scores else replaced


@operator(
    f"(Tensor grad, {_SCORES}) -> (Tensor, Tensor, Tensor)",
    lambda grad, _, queries, keys, *ends: tuple(map(torch.empty_like, (grad, queries, keys))),
)
def _found_gradient(
    grad: Tensor, products: Tensor, queries: Tensor, keys: Tensor, src: Tensor, dst: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    lost = (products <= _LEAST).any(-1).nonzero().squeeze(-1)
    src, dst = src[lost], dst[lost]
    shares = (queries[dst] + keys[src]).softmax(-1) * grad[lost].unsqueeze(-1)
    pairs = ((queries, dst), (keys, src))
    grads = (torch.zeros_like(x).index_add_(0, rows, shares) for x, rows in pairs)
    return grad.index_fill(0, lost, 0.0), *grads


def _of_pairs(queries: Tensor, keys: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    return (queries[dst] + keys[src]).logsumexp(-1)


def _from_logarithms(queries: Tensor, keys: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    """Return the scores, some edges at a time, whose rows are gathered again for the gradient."""
    size = max(1, _NUMBERS // max(1, queries.shape[1:].numel()))
    some = zip(src.split(size), dst.split(size), strict=True)
    return torch.cat([again(_of_pairs, queries, keys, *each) for each in some])
