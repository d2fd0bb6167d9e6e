"""Decoders: a score for a pair of nodes, from what a model says of each of them: `DECODERS`.

A decoder maps z_u and z_v, (P, D) each, to scores (P,), more for a pair that is more likely linked.
Each gives (u, v) and (v, u) the same score, but for `concat-mlp` and `bilinear`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from zoo.config.options import Count, Few, Rate, Table


class Dot(nn.Module):
    """z_u . z_v + b, the decoder of the GAE (Kipf and Welling, arXiv 1611.07308), and a bias."""

    def __init__(self, dim: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the scores of pairs, (P,)."""
        return (u * v).sum(-1) + self.bias


class Distance(nn.Module):
    """b - |z_u - z_v|^2: near nodes are linked."""

    def __init__(self, dim: int):
        super().__init__()
        self.bias = nn.Parameter(torch.ones(1))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the scores of pairs, (P,)."""
        return self.bias - (u - v).square().sum(-1)


class Bilinear(nn.Module):
    """z_u^T W z_v + b, which need not be symmetric."""

    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Linear(dim, dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the scores of pairs, (P,)."""
        return (u * self.weight(v)).sum(-1) + self.bias


class PairMLP(nn.Module):
    """A multilayer perceptron on the product of both ends, or on one beside the other.

    Args:
        dim: D, of what a model says of a node.
        product: z_u * z_v, (P, D), as in OGB's baselines (arXiv 2005.00687); else [z_u, z_v].
        width: of the hidden layers; D when left out.
        layers: linear maps in all.
        dropout: of what each but the last layer gives.
    """

    def __init__(
        self, dim: int, product: bool, width: int | None = None, layers: int = 2, dropout: float = 0
    ):
        super().__init__()
        self.product, self.dropout = product, nn.Dropout(dropout)
        sizes = [dim if product else 2 * dim, *[width or dim] * (layers - 1), 1]
        self.layers = nn.ModuleList(map(nn.Linear, sizes, sizes[1:]))

    def forward(self, u: Tensor, v: Tensor) -> Tensor:
        """Return the scores of pairs, (P,)."""
        z = u * v if self.product else torch.cat([u, v], dim=-1)
        *hidden, last = self.layers
        for layer in hidden:
            z = self.dropout(layer(z).relu())
        return last(z).squeeze(-1)


def hadamard_mlp(
    dim: int, *, width: Count | None = None, layers: Few = 2, dropout: Rate = 0.0
) -> PairMLP:
    """An MLP on z_u * z_v.

    Args:
        width: of the hidden layers; left out, that of what a model says of a node.
        layers: linear maps in all.
        dropout: of what each but the last layer gives.
    """
    return PairMLP(dim, True, width, layers, dropout)


def concat_mlp(
    dim: int, *, width: Count | None = None, layers: Few = 2, dropout: Rate = 0.0
) -> PairMLP:
    """An MLP on z_u beside z_v, which need not be symmetric.

    Args:
        width: of the hidden layers; left out, that of what a model says of a node.
        layers: linear maps in all.
        dropout: of what each but the last layer gives.
    """
    return PairMLP(dim, False, width, layers, dropout)


DECODERS = Table(
    "decoder",
    {
        "dot": Dot,
        "hadamard-mlp": hadamard_mlp,
        "concat-mlp": concat_mlp,
        "bilinear": Bilinear,
        "distance": Distance,
    },
)
"""Word to builder `(dim, *, options) -> module` of (P, D) and (P, D) to scores (P,)."""
