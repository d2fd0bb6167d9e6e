"""Sums of neighbours with weights, and dot products along edges: each is the other's gradient.

The backend supplies the sparse-dense product (SpMM) and the sampled dense-dense product (SDDMM);
this adds autograd.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Along(Protocol):
    """Edges, from u to v, that can be run along. None of its results has a gradient."""

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
