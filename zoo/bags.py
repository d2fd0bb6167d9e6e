"""Sums over neighbours as torch's embedding bags, fp32 on a CPU: sooner than products with A.

A bag is a node, and in it are the rows of its neighbours, each with a weight or without. Each is
summed by one thread in the order of its edges: the bits do not depend on how many threads there
are. The gradients of a sum with weights are another one and dot products along the edges.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from zoo.quiet import quiet_beta


class Lists(NamedTuple):
    """The neighbours of each node, one node after the other: a CSR or CSC form of the edges.

    Attributes:
        offsets: (N + 1,) where those of each node begin.
        others: (E,) the neighbours.
        edges: (E,) the numbers of the edges to them; empty where they are 0 to E - 1.
    """

    offsets: Tensor
    others: Tensor
    edges: Tensor


Edges = Callable[[bool], Lists]
"""What a sum runs over: edges by the node that they lead to or, if True, that they start from."""


def neighbour_sum(x: Tensor, edges: Edges) -> Tensor:
    """Return the sum of x over in-neighbours, (N, ...), for x (M, ...)."""
    return _Sum.apply(x.flatten(1), edges, False).unflatten(1, x.shape[1:])


def weighted_sum(x: Tensor, weights: Tensor, edges: Edges) -> Tensor:
    """Return sum_u w_uv x_u, (N, H, D), for x (M, H, D) and weights (E, H)."""
    return _WeightedSum.apply(x, weights, edges, False)


def edge_dot(source: Tensor, target: Tensor, edges: Edges) -> Tensor:
    """Return source_u . target_v on each edge, (E, H), for source (M, H, D), target (N, H, D)."""
    return _EdgeDot.apply(source, target, edges, False)


class _Sum(torch.autograd.Function):
    """Sums along the edges, or against them, each of which is the other's gradient."""

    @staticmethod
    def forward(ctx, x, edges, against):
        ctx.edges, ctx.against = edges, against
        return summed(x, edges(against))

    @staticmethod
    def backward(ctx, gradient):
        return _Sum.apply(gradient, ctx.edges, not ctx.against), None, None


class _WeightedSum(torch.autograd.Function):
    """The same with weights, whose gradients are dot products."""

    @staticmethod
    def forward(ctx, x, weights, edges, against):
        ctx.edges, ctx.against = edges, against
        ctx.save_for_backward(x, weights)
        into = edges(against)
        weights = _in_order(weights, into).mT.contiguous()  # (H, E)
        heads = [summed(x[:, head], into, each) for head, each in enumerate(weights)]
        return torch.stack(heads, dim=1) if len(heads) > 1 else heads[0].unsqueeze(1)

    @staticmethod
    def backward(ctx, gradient):
        x, weights = ctx.saved_tensors
        edges, against = ctx.edges, ctx.against
        of_x, of_weights, *_ = ctx.needs_input_grad
        return (
            _WeightedSum.apply(gradient, weights, edges, not against) if of_x else None,
            _EdgeDot.apply(x, gradient, edges, against) if of_weights else None,
            None,
            None,
        )


class _EdgeDot(torch.autograd.Function):
    """Dot products of both ends of each edge, whose gradients are weighted sums."""

    @staticmethod
    def forward(ctx, source, target, edges, against):
        ctx.edges, ctx.against = edges, against
        ctx.save_for_backward(source, target)
        lists, rows, columns = edges(against), target, source
        if len(lists.edges) and not len(edges(not against).edges):  # those are in order
            lists, rows, columns = edges(not against), source, target
        size, zeros = (len(rows), len(columns)), source.new_zeros(len(lists.others))
        with quiet_beta():
            pattern = torch.sparse_csr_tensor(
                lists.offsets, lists.others, zeros, size, check_invariants=False
            )
            heads = zip(rows.unbind(1), columns.unbind(1), strict=True)
            dots = [torch.sparse.sampled_addmm(pattern, u, v.mT).values() for u, v in heads]
        dots = torch.stack(dots, dim=1)
        if not len(lists.edges):
            return dots
        return torch.empty_like(dots).index_copy_(0, lists.edges.long(), dots)

    @staticmethod
    def backward(ctx, gradient):
        source, target = ctx.saved_tensors
        edges, against = ctx.edges, ctx.against
        of_source, of_target, *_ = ctx.needs_input_grad
        return (
            _WeightedSum.apply(target, gradient, edges, not against) if of_source else None,
            _WeightedSum.apply(source, gradient, edges, against) if of_target else None,
            None,
            None,
        )


def _in_order(weights: Tensor, of: Lists) -> Tensor:
    """Return weights (E, H) in the order of the lists."""
    return weights.index_select(0, of.edges) if len(of.edges) else weights


def summed(x: Tensor, of: Lists, weights: Tensor | None = None) -> Tensor:
    """Return the sum over each list, (N, D), of the rows of x (M, D) times weights (E,)."""
    return functional.embedding_bag(
        of.others,
        x.detach(),  # else it would remember what a gradient of its own needs
        of.offsets,
        mode="sum",
        per_sample_weights=weights,
        include_last_offset=True,
    )
