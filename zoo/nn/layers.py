"""What several models are built from: norms, feed-forward, graph convolutions."""

from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.config.options import Spec, Table, pick
from zoo.nn.feature_linear import FeatureLinear
from zoo.nn.propagation import Propagation
from zoo.ops.dropout import Dropout, ReluDropout
from zoo.ops.linear import Linear


def _none(dim: int) -> nn.Module:
    """No norm."""
    return nn.Identity()


def _layer(dim: int) -> nn.Module:
    """Layer norm over the features of each node."""
    return nn.LayerNorm(dim)


def _batch(dim: int, *, statistics: Literal["corrected", "torch"] = "corrected") -> nn.Module:
    """Batch norm over the nodes.

    Args:
        dim: columns.
        statistics: running ones that follow the first steps, or `torch`'s, which begin with a mean
            of 0 and a variance of 1, as those of published programs do.
    """
    return BatchNorm(dim, corrected=statistics == "corrected")


NORMS = Table("norm", {"none": _none, "layer": _layer, "batch": _batch})
"""Word to builder `(dim) -> module`."""

Norm = Annotated[Spec, NORMS]
"""The type of an option `norm`."""


def build_norm(spec: Spec, dim: int) -> nn.Module:
    """Return the norm of a width that a word of `NORMS` names.

    Raises:
        ZooError: an unknown word or option.
    """
    return pick(NORMS, spec, dim)


def lerp(x: Tensor, y: Tensor, weight: float | Tensor) -> Tensor:
    """Return (1 - weight) x + weight y in one pass, in the widest type of them.

    Args:
        x: (N, D).
        y: (N, D).
        weight: one for all, or one for each column, (D,).
    """
    kind = torch.promote_types(x.dtype, y.dtype)
    if isinstance(weight, Tensor):
        kind = torch.promote_types(kind, weight.dtype)
        weight = weight.to(kind)
    return torch.lerp(x.to(kind), y.to(kind), weight)


class BatchNorm(nn.BatchNorm1d):
    """Batch norm whose running statistics have no start of their own and follow the first steps.

    Ioffe and Szegedy (arXiv 1502.03167). torch begins with a mean of 0 and a variance of 1 and
    moves them by m = 0.1 of the way to each batch: with the variances of 1e-6 that row-normalised
    features have, evaluation means nothing for about a hundred steps. Here step t moves them by
    max(m, 1 / (1 + m (t - 1))): the first one takes the batch whole, later ones forget the fast
    steps before them, and from step 91 on they are torch's. (Corrected for the start alone, as
    Adam's moments are, they still lag ten steps behind.) A single node passes through the running
    statistics instead of failing.

    Args:
        dim: columns.
        corrected: False: with torch's start and steps, for programs whose best epoch is among the
            first twenty.
        options: of `torch.nn.BatchNorm1d`.
    """

    def __init__(self, dim: int, *, corrected: bool = True, **options):
        super().__init__(dim, **options)
        self.corrected = corrected

    def forward(self, x: Tensor) -> Tensor:
        """Return x (N, dim) normalised per column."""
        if not (self.training and len(x) > 1):
            running = self.running_mean, self.running_var
            return functional.batch_norm(x, *running, self.weight, self.bias, eps=self.eps)
        if not self.corrected:
            return super().forward(x)
        mean, variance = torch.zeros_like(self.running_mean), torch.zeros_like(self.running_var)
        out = functional.batch_norm(
            x, mean, variance, self.weight, self.bias, training=True, momentum=1.0, eps=self.eps
        )
        self.follow(mean, variance)
        return out

    def follow(self, mean: Tensor, variance: Tensor, batches: Tensor | int = 1) -> None:
        """Move the running statistics towards those of a batch.

        Args:
            mean: of each column, (dim,).
            variance: of each column, (dim,).
            batches: 0 for a batch that tells nothing; nothing is moved then.
        """
        self.num_batches_tracked += batches
        share = 1 / (1 + self.momentum * (self.num_batches_tracked - 1))
        share = share.clamp(min=self.momentum).to(mean)
        if isinstance(batches, Tensor):
            share = share * (batches > 0)
        self.running_mean.lerp_(mean, share)
        self.running_var.lerp_(variance, share)


class FeedForward(nn.Module):
    """W Drop(ReLU(W z)), node by node."""

    def __init__(self, dim: int, expansion: int, dropout: float):
        super().__init__()
        self.widen, self.narrow = Linear(dim, expansion * dim), Linear(expansion * dim, dim)
        self.finish = ReluDropout(dropout)

    def forward(self, z: Tensor) -> Tensor:
        """Return (N, D) for z (N, D)."""
        return self.narrow(self.finish(self.widen(z)))


class TiedHead(nn.Module):
    """E z + b, with an embedding's weights E (V, D), which the model gives it in every call."""

    def __init__(self, out_dim: int):
        super().__init__()
        self.out_features, self.bias = out_dim, nn.Parameter(torch.zeros(out_dim))

    def forward(self, z: Tensor, weight: Tensor) -> Tensor:
        """Return (N, V) for z (N, D) and the weights (V, D)."""
        return functional.linear(z, weight, self.bias)


class Convolution(nn.Module):
    """A graph convolution: propagate(x W) + b, for x (N, in_dim).

    `linear` is `FeatureLinear` where x is the features of the data set. A `Separate` propagation
    has two maps W, side by side. Like PyTorch Geometric's GCNConv and GATConv it begins with a
    Glorot-uniform W and b = 0; not `glorot`, like its SAGEConv, with those of `nn.Linear`.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        propagate: Propagation,
        *,
        bias: bool = True,
        linear: type[Linear] = Linear,
        glorot: bool = True,
    ):
        super().__init__()
        maps = getattr(propagate, "maps", 1)
        self.linear = linear(in_dim, maps * out_dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_dim)) if bias else None
        if glorot:
            nn.init.xavier_uniform_(self.linear.weight)
        elif bias:
            nn.init.uniform_(self.bias, -(in_dim**-0.5), in_dim**-0.5)
        self.propagate = propagate

    def forward(self, graph, x: Tensor) -> Tensor:
        """Return (N, out_dim)."""
        out = self.propagate(graph, self.linear(x))
        return out if self.bias is None else out + self.bias


class Projection(nn.Module):
    """A linear map in the place of a first graph convolution: Drop(W x)."""

    def __init__(self, in_dim, out_dim, *, dropout):
        super().__init__()
        self.linear, self.dropout = FeatureLinear(in_dim, out_dim), Dropout(dropout)

    def forward(self, graph, x: Tensor) -> Tensor:
        """Return (N, out_dim) for x (N, in_dim); the graph is not looked at."""
        return self.dropout(self.linear(x))
