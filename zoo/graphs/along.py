"""Sums of neighbours with weights, and dot products along edges: each is the other's gradient.

Sums of messages in which features of edges have a part.

A backend supplies the sparse-dense product (SpMM) and the sampled dense-dense product (SDDMM);
this adds autograd, and two backends of torch: `Rows` for a GPU, `Ends` for anything.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from zoo.ops.second_gradients import second_gradients


class Along(Protocol):
    """Edges, from u to v, that can be run along. None of its results has a gradient."""

    def sum(self, x: Tensor) -> Tensor:
        """Return sum_u x_u, (N, D), for x (M, D)."""

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """Return sum_u w_uv x_u, (N, H, D), for x (M, H, D) and weights (E, H)."""

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """Return source_u . target_v of each edge, (E, H), for (M, H, D) and (N, H, D)."""

    def turned(self) -> Along:
        """Return the edges from v to u, with the same numbers."""


def weighted_sum(along: Along, x: Tensor, weights: Tensor) -> Tensor:
    """Return sum_u w_uv x_u, (N, H, D), for x (M, H, D) and weights (E, H)."""
    return _WeightedSum.apply(x, weights, along)


def edge_dot(along: Along, source: Tensor, target: Tensor) -> Tensor:
    """Return source_u . target_v of each edge, (E, H), for (M, H, D) and (N, H, D)."""
    return _EdgeDot.apply(source, target, along)


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weights, along):
        ctx.along = along
        ctx.save_for_backward(x, weights)
        return along.weighted_sum(x, weights)

    @staticmethod
    def backward(ctx, grad):
        x, weights = ctx.saved_tensors
        grad_x, grad_weights, _ = ctx.needs_input_grad
        return (
            weighted_sum(ctx.along.turned(), grad, weights) if grad_x else None,
            edge_dot(ctx.along, x, grad) if grad_weights else None,
            None,
        )


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, target, along):
        ctx.along = along
        ctx.save_for_backward(source, target)
        return along.edge_dot(source, target)

    @staticmethod
    def backward(ctx, grad):
        source, target = ctx.saved_tensors
        grad_source, grad_target, _ = ctx.needs_input_grad
        return (
            weighted_sum(ctx.along.turned(), target, grad) if grad_source else None,
            weighted_sum(ctx.along, source, grad) if grad_target else None,
            None,
        )


def message_sum(
    ends: Ends, x: Tensor, features: Tensor, weight: Tensor, bias: Tensor, weights: Tensor | None
) -> Tensor:
    """Return sum_u w_uv ReLU(x_u + W f_uv + b), (N, D); see `zoo.graphs.message_passing`."""
    return _MessageSum.apply(x, features, weight, bias, weights, ends)


class _MessageSum(torch.autograd.Function):
    """Messages exist a block at a time, and are made again for the gradient."""

    @staticmethod
    def forward(ctx, x, features, weight, bias, weights, ends):
        ctx.ends = ends
        ctx.save_for_backward(x, features, weight, bias, weights)
        out = x.new_zeros(ends.targets, x.shape[1])
        for block in _blocks(x.unsqueeze(1), ends.tails):
            messages = _before(block, ends, x, features, weight, bias).relu_()
            if weights is not None:
                messages *= weights[block].unsqueeze(-1)
            out.index_add_(0, ends.tips[block], messages)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, features, weight, bias, weights = ctx.saved_tensors
        ends, needed = ctx.ends, ctx.needs_input_grad
        if torch.is_grad_enabled():
            return *second_gradients(partial(_messages, ends), ctx.saved_tensors, grad), None
        grad_x, grad_weight, grad_bias = map(torch.zeros_like, (x, weight, bias))
        grad_features = torch.empty_like(features) if needed[1] else None
        grad_weights = torch.empty_like(weights) if needed[4] else None
        for block in _blocks(x.unsqueeze(1), ends.tails):
            before = _before(block, ends, x, features, weight, bias)
            own = grad.index_select(0, ends.tips[block])
            if grad_weights is not None:
                grad_weights[block] = (before.relu() * own).sum(-1)
            own *= before > 0
            if weights is not None:
                own *= weights[block].unsqueeze(-1)
            grad_x.index_add_(0, ends.tails[block], own)
            grad_weight += own.mT @ features[block]
            grad_bias += own.sum(0)
            if grad_features is not None:
                grad_features[block] = own @ weight
        return grad_x, grad_features, grad_weight, grad_bias, grad_weights, None


def _messages(ends: Ends, x, features, weight, bias, weights: Tensor | None) -> Tensor:
    """Return what `message_sum` does, by operations that autograd knows, of all edges at once."""
    messages = _before(slice(None), ends, x, features, weight, bias).relu()
    messages = messages if weights is None else messages * weights.unsqueeze(-1)
    return x.new_zeros(ends.targets, x.shape[1]).index_add(0, ends.tips, messages)


def _before(block: slice, ends: Ends, x, features, weight, bias) -> Tensor:
    """Return x_u + W f_uv + b of a block of edges, (B, D)."""
    linear = torch.addmm(bias, features[block], weight.mT)
    return linear.add_(x.index_select(0, ends.tails[block]))


class Ends(NamedTuple):
    """Edges by the nodes at their ends; a block of their rows of features exists at a time.

    Attributes:
        tails: where each edge starts, (E,).
        tips: where it leads, (E,).
        targets: N.
        sources: M.
    """

    tails: Tensor
    tips: Tensor
    targets: int
    sources: int

    def turned(self) -> Ends:
        """See `Along`."""
        return Ends(self.tips, self.tails, self.sources, self.targets)

    def sum(self, x: Tensor) -> Tensor:
        """See `Along`."""
        ones = x.new_ones(1).expand(len(self.tails), 1)
        return self.weighted_sum(x.unsqueeze(1), ones).squeeze(1)

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """See `Along`."""
        out = x.new_zeros(self.targets, *x.shape[1:])
        for block in _blocks(x, self.tails):
            rows = x.index_select(0, self.tails[block]) * weights[block].unsqueeze(-1)
            out.index_add_(0, self.tips[block], rows)
        return out

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Along`."""
        out = source.new_empty(len(self.tails), source.shape[1])
        for block in _blocks(source, self.tails):
            one = source.index_select(0, self.tails[block])
            out[block] = (one * target.index_select(0, self.tips[block])).sum(-1)
        return out

    def softmax_gradient(self, weights: Tensor, grad: Tensor) -> Tensor:
        """Return the gradient of the scores (E, H), by that of their softmax over each N(v)."""
        shares = weights * grad
        sums = shares.new_zeros(self.targets, shares.shape[1]).index_add(0, self.tips, shares)
        return shares - weights * sums.index_select(0, self.tips)


_NUMBERS = 2**23  # per block of edges: their rows of features exist at a time, (B, H, D)


def _blocks(x: Tensor, edges: Tensor) -> Iterator[slice]:
    """Cut the edges so that their rows of x (N, H, D) are few enough to exist at a time."""
    size = max(1, _NUMBERS // max(1, x.shape[1] * x.shape[2]))
    return (slice(start, start + size) for start in range(0, len(edges), size))


class Rows(NamedTuple):
    """Edges in compressed rows, which need no atomic sums: a product for each head.

    Attributes:
        into: A (N, M) as CSR of ones, and the number of each of its entries as an edge, (E,);
            no numbers where they are in order.
        out: A^T and its numbers, likewise.
    """

    into: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]

    def turned(self) -> Rows:
        """See `Along`."""
        return Rows(self.out, self.into)

    def sum(self, x: Tensor) -> Tensor:
        """See `Along`."""
        return self.into[0] @ x

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """See `Along`."""
        matrix, numbers = self.into
        weights = weights[numbers] if len(numbers) else weights
        heads = zip(x.unbind(1), weights.unbind(1), strict=True)
        products = [_filled(matrix, w.contiguous()) @ each.contiguous() for each, w in heads]
        return torch.stack(products, dim=1)

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Along`."""
        matrix, numbers = self.into
        empty = _filled(matrix, torch.zeros_like(matrix.values()))
        found = sampled(empty, target, source)
        return torch.empty_like(found).index_copy_(0, numbers, found) if len(numbers) else found


def sampled(zeros: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return row_i . column_j at the entries of a CSR matrix (N, M) of zeros, (E, H).

    Args:
        zeros: the matrix; an entry may be there several times.
        rows: (N, H, D).
        columns: (M, H, D).
    """
    if len(zeros.values()) > len(rows) * len(columns):  # more than torch's kernel takes
        every = torch.einsum("nhd,mhd->nmh", rows, columns)
        counts, places = zeros.crow_indices().diff(), zeros.col_indices().long()
        return every[torch.repeat_interleave(counts), places]
    heads = zip(rows.unbind(1), columns.unbind(1), strict=True)
    dots = [
        torch.sparse.sampled_addmm(zeros, row.contiguous(), column.mT, beta=0.0).values()
        for row, column in heads
    ]
    return torch.stack(dots, dim=1)


def _filled(matrix: Tensor, values: Tensor) -> Tensor:
    """Return a CSR matrix with the entries of another where it has some."""
    parts = matrix.crow_indices(), matrix.col_indices(), values
    with quiet_beta():
        return torch.sparse_csr_tensor(
            *parts, matrix.shape, device=values.device, check_invariants=False
        )


@contextlib.contextmanager
def quiet_beta() -> Iterator[None]:
    """Silence torch's remarks on CSR tensors, which are none of the user's business.

    They are in beta, and, in torch 2.11, checked only when asked for.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly")
        yield
