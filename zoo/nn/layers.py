"""What several models are built from: norms, attention and feed-forward, graph convolutions."""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.config.options import Spec, Table
from zoo.nn.attention import Attention, one_norm, per_graph
from zoo.nn.feature_linear import FeatureLinear
from zoo.nn.propagation import Propagation
from zoo.ops import gram_attention
from zoo.ops.dropout import ReluDropout, dropout
from zoo.ops.linear import Linear


def _none(dim: int) -> nn.Module:
    """No norm."""
    return nn.Identity()


def _layer(dim: int) -> nn.Module:
    """Layer norm over the features of each node."""
    return nn.LayerNorm(dim)


def _batch(dim: int) -> nn.Module:
    """Batch norm over the nodes."""
    return BatchNorm(dim)


NORMS = Table("norm", {"none": _none, "layer": _layer, "batch": _batch})
"""Word to builder `(dim) -> module`."""

Norm = Annotated[Spec, NORMS]


def blend(x: Tensor, y: Tensor, weight: float | Tensor) -> Tensor:
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


def mean_of_heads(x: Tensor) -> Tensor:
    """Return the mean of x (N, H, D) over the heads, (N, D); of one head nothing is copied."""
    return x.squeeze(-2) if x.shape[-2] == 1 else x.mean(-2)


class BatchNorm(nn.BatchNorm1d):
    """Batch norm that passes a single node through its running statistics instead of failing."""

    def forward(self, x: Tensor) -> Tensor:
        """Return x (N, dim) normalised per column."""
        if self.training and len(x) > 1:
            return super().forward(x)
        return functional.batch_norm(
            x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class FeedForward(nn.Module):
    """W Drop(ReLU(W z)), node by node."""

    def __init__(self, dim: int, expansion: int, dropout: float):
        super().__init__()
        self.widen, self.narrow = Linear(dim, expansion * dim), Linear(expansion * dim, dim)
        self.finish = ReluDropout(dropout)

    def forward(self, z: Tensor) -> Tensor:
        """Return (N, D) for z (N, D)."""
        return self.narrow(self.finish(self.widen(z)))


class MultiHead(nn.Module):
    """W [attend(Q, K, V) of each head], with Q, K, V linear in z and split among the heads.

    Values are as wide as the heads share `dim`, rounded up; so are queries and keys without `rank`.
    """

    def __init__(self, dim: int, heads: int, attend: Attention, rank: int | None = None):
        super().__init__()
        self.attend, self.heads = attend, heads
        width = -(-dim // heads)
        self.widths = [heads * (rank or width)] * 2 + [heads * width]
        self.project = Linear(dim, sum(self.widths))
        self.merge = Linear(heads * width, dim)

    def forward(self, z: Tensor, sizes: list[int]) -> Tensor:
        """Return (N, D) for z (N, D), nodes attending inside each graph of `sizes` nodes."""
        return self.join(*self.split(z), sizes)

    def split(self, z: Tensor) -> tuple[Tensor, ...]:
        """Return the queries, keys and values (N, H, ...) of z (N, D)."""
        parts = self.project(z).split(self.widths, dim=-1)
        return tuple(each.unflatten(-1, (self.heads, -1)) for each in parts)

    def join(self, q: Tensor, k: Tensor, v: Tensor, sizes: list[int]) -> Tensor:
        """Return what the heads gather, (N, D), from queries, keys and values (N, H, ...)."""
        return self.merge(per_graph(self.attend, sizes)(q, k, v).flatten(-2))


class FullHeads(nn.Module):
    """The mean over heads of attend(Q, K, V), each head of the full width; V is W z, or z itself.

    A layer of a model is made from it: what it adds is what becomes of this mean.
    """

    def __init__(self, dim: int, heads: int, attend: Attention, use_weight: bool):
        super().__init__()
        self.attend, self.heads = attend, heads
        self.query, self.key = Linear(dim, heads * dim), Linear(dim, heads * dim)
        self.value = Linear(dim, heads * dim) if use_weight else None

    def values(self, z: Tensor) -> Tensor:
        """Return V, (N, H, D), for z (N, D)."""
        if self.value is None:
            return z.unsqueeze(-2).expand(-1, self.heads, -1)
        return self.value(z).unflatten(-1, (self.heads, -1))

    def attended(self, z: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor | None]:
        """Return the mean, (N, D), for z (N, D), and V where there was need of it.

        Nodes attend inside each graph of `sizes` nodes.
        """
        base = one_norm(self.attend)
        if base and len(sizes) == 1 and gram_attention.pays(z):
            maps = self.query, self.key, self.value
            return gram_attention.linear_mean_of_maps(z, *maps, self.heads, base), None
        q, k = (each(z).unflatten(-1, (self.heads, -1)) for each in (self.query, self.key))
        v = self.values(z)
        return mean_of_heads(per_graph(self.attend, sizes)(q, k, v)), v


class Convolution(nn.Module):
    """A graph convolution: propagate(x W) + b, for x (N, in_dim).

    `linear` is `FeatureLinear` where x is the features of the data set.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        propagate: Propagation,
        *,
        bias: bool = True,
        linear: type[Linear] = Linear,
    ):
        super().__init__()
        self.linear = linear(in_dim, out_dim, bias=False)
        nn.init.xavier_uniform_(self.linear.weight)
        self.bias = nn.Parameter(torch.zeros(out_dim)) if bias else None
        self.propagate = propagate

    def forward(self, graph, x: Tensor) -> Tensor:
        """Return (N, out_dim)."""
        out = self.propagate(graph, self.linear(x))
        return out if self.bias is None else out + self.bias


class Projection(nn.Module):
    """A linear map in the place of a first graph convolution: Drop(W x)."""

    def __init__(self, in_dim, out_dim, *, dropout):
        super().__init__()
        self.linear, self.dropout = FeatureLinear(in_dim, out_dim), dropout

    def forward(self, graph, x: Tensor) -> Tensor:
        """Return (N, out_dim) for x (N, in_dim); the graph is not looked at."""
        return dropout(self.linear(x), self.dropout, self.training)
