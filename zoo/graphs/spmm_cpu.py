"""SpMM on a CPU via `embedding_bag`: sums over neighbours in fp32, quicker than CSR products.

A bag is a node, and in it are the rows of its neighbours, each with a weight or without. Each is
summed by one thread in the order of its edges: the bits do not depend on how many threads there
are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from zoo.graphs.along import Along, quiet_beta, sampled

_LONG = 64  # neighbours of a node, on average, from which on
_COLUMNS = 64  # so many columns are summed at a time: more of their rows are in the caches


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


class Bags(NamedTuple):
    """Edges to run along: see `zoo.graphs.along`.

    Attributes:
        lists: gives the edges by the node that they lead to or, asked with True, start from.
        against: whether to run from where they lead to where they start.
    """

    lists: Callable[[bool], Lists]
    against: bool = False

    def turned(self) -> Bags:
        """Return the edges the other way round."""
        return Bags(self.lists, not self.against)

    def sum(self, x: Tensor) -> Tensor:
        """Return sum_u x_u, (N, D), for x (M, D)."""
        return summed(x, self.lists(self.against))

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """Return sum_u w_uv x_u, (N, H, D), for x (M, H, D) and weights (E, H)."""
        into = self.lists(self.against)
        weights = weights.index_select(0, into.edges) if len(into.edges) else weights
        heads = enumerate(weights.mT.contiguous())  # (H, E)
        sums = [summed(x[:, head], into, each) for head, each in heads]
        return torch.stack(sums, dim=1) if len(sums) > 1 else sums[0].unsqueeze(1)

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """Return source_u . target_v of each edge, (E, H), for (M, H, D) and (N, H, D)."""
        lists, rows, columns = self.lists(self.against), target, source
        if len(lists.edges) and not len(self.lists(not self.against).edges):  # those are in order
            lists, rows, columns = self.lists(not self.against), source, target
        size, zeros = (len(rows), len(columns)), source.new_zeros(len(lists.others))
        with quiet_beta():
            pattern = torch.sparse_csr_tensor(
                lists.offsets, lists.others, zeros, size, check_invariants=False
            )
            dots = sampled(pattern, rows, columns)
        if not len(lists.edges):
            return dots
        return torch.empty_like(dots).index_copy_(0, lists.edges.long(), dots)


def neighbour_sum(x: Tensor, along: Along) -> Tensor:
    """Return the sum of x over in-neighbours, (N, ...), for x (M, ...)."""
    return _Sum.apply(x.flatten(1), along).unflatten(1, x.shape[1:])


class _Sum(torch.autograd.Function):
    """Sums along the edges, whose gradients are those against them."""

    @staticmethod
    def forward(ctx, x, along):
        ctx.along = along
        return along.sum(x)

    @staticmethod
    def backward(ctx, gradient):
        return _Sum.apply(gradient, ctx.along.turned()), None


def summed(x: Tensor, of: Lists, weights: Tensor | None = None) -> Tensor:
    """Return the sum over each list, (N, D), of the rows of x (M, D) times weights (E,)."""
    x = x.detach()  # else it would remember what a gradient of its own needs
    if x.shape[1] <= _COLUMNS or len(of.others) < _LONG * len(of.offsets):
        return _summed(x, of, weights)
    out = x.new_empty(len(of.offsets) - 1, x.shape[1])
    for into, columns in zip(out.split(_COLUMNS, 1), x.split(_COLUMNS, 1), strict=True):
        into.copy_(_summed(columns.contiguous(), of, weights))
    return out


def _summed(x: Tensor, of: Lists, weights: Tensor | None) -> Tensor:
    return functional.embedding_bag(
        of.others,
        x,
        of.offsets,
        mode="sum",
        per_sample_weights=weights,
        include_last_offset=True,
    )
