"""Propagation along the edges of a graph: GCN, the mean of neighbours, and graph attention.

A propagation maps `(graph, x)` to what each node gathers from its neighbours, in the shape of x.
It is a function, or a module when it has weights; linear maps of x stay in the model. What they
are made of, on edges, is in `zoo.graphs.spmm`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.config.options import Count, Few, Finite, Spec, Table, pick
from zoo.graphs.adjacency import degrees, edge_dst, out_degrees, walks
from zoo.graphs.edge_weights import edge_features, edge_weights, one_relation, weight_sums
from zoo.graphs.shard import Graph
from zoo.graphs.spmm import (
    edge_dot,
    edge_softmax,
    edge_sum,
    message_sum,
    neighbour_sum,
    weighted_sum,
)
from zoo.nn.heads import merge_heads, split_heads
from zoo.ops.linear import Linear
from zoo.ops.precision import wide

Propagation = Callable[[Graph, Tensor], Tensor]
Directions = Literal["both", "separate"]


def gcn(graph: Graph, x: Tensor) -> Tensor:
    """Return D^-1/2 A D^-1/2 x for x (N, ...), D the in-degrees.

    Kipf and Welling (arXiv 1609.02907), equation 8; A holds the self-loops of the canonical graph,
    and the weights of edges where they have some. Then D are sums of weights: D_in^-1/2 A
    D_out^-1/2 x, of those that lead to and from a node, which are the same without direction.
    Nodes are scaled, neighbours summed, nodes scaled again: no other weight per edge is stored.
    """
    weights = edge_weights(graph, x.device)
    if weights is not None:
        scale_in, scale_out = (
            _column(weight_sums(graph, x.device, against), wide(x)).rsqrt()
            for against in (False, True)
        )
        return (_weighted(graph, wide(x) * scale_out, weights) * scale_in).to(x.dtype)
    scale = _column(degrees(graph, x.device), wide(x)).rsqrt()
    return neighbour_sum(graph, wide(x) * scale).mul_(scale).to(x.dtype)


def mean(graph: Graph, x: Tensor) -> Tensor:
    """Return the mean over in-neighbours, D^-1 A x, for x (N, ...); 0 for nodes without any.

    It is weighted where the edges have weights, and D then their sums.
    """
    weights = edge_weights(graph, x.device)
    if weights is not None:
        many = _column(weight_sums(graph, x.device), wide(x))
        return (_weighted(graph, wide(x), weights) / many).to(x.dtype)
    return (neighbour_sum(graph, wide(x)) / _column(degrees(graph, x.device), wide(x))).to(x.dtype)


def relation(graph: Graph, x: Tensor, order: int = 0) -> Tensor:
    """Return D_in^-1/2 P D_out^-1/2 x for x (N, ...), P the 0/1 pattern of A to the 2^order.

    NodeFormer (arXiv 2306.08385), its relational bias. Order 0 is the graph itself, and `gcn`
    where its edges are symmetric and without weights, of which P has none. See `walks` for the
    cost of the others.
    """
    along = walks(graph, order)
    scale_in = _column(degrees(along, x.device), wide(x)).rsqrt()
    scale_out = _column(out_degrees(along, x.device), wide(x)).rsqrt()
    return (neighbour_sum(along, wide(x) * scale_out) * scale_in).to(x.dtype)


class GraphAttention(nn.Module):
    """Attention over the neighbours of each node, GAT (arXiv 1710.10903), equations 1 to 5.

    With x already projected and split into H heads of width D: e_uv = LeakyReLU(a . x_u + b . x_v),
    softmax over the in-edges of v, then the weighted sum of x_u. Where H does not divide the width,
    the last head is padded with zeros that are cut off again. An edge of weight w counts as w edges
    do: log w is added to its e_uv. With features f_uv of edges c . f_uv is added before the
    LeakyReLU, for each head its own.
    """

    def __init__(self, dim: int, heads: int, slope: float, edge_dim: int = 0):
        super().__init__()
        self.heads, self.width, self.slope = heads, -(-dim // heads), slope
        self.source = nn.Parameter(torch.empty(heads, self.width))
        self.target = nn.Parameter(torch.empty(heads, self.width))
        nn.init.xavier_uniform_(self.source)
        nn.init.xavier_uniform_(self.target)
        self.edge_scores = EdgeScores(edge_dim, heads) if edge_dim else None

    def forward(self, graph: Graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, dim)."""
        return self.with_weights(graph, x)[0]

    def with_weights(self, graph: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output, (N, dim), and the weights alpha_uv on the edges, (E, H)."""
        values = split_heads(x, self.heads)  # (N, H, D)
        source, target = (values * self.source).sum(-1), (values * self.target).sum(-1)  # (N, H)
        scores = edge_sum(graph, source, target)  # (E, H)
        if self.edge_scores is not None:
            scores = scores + self.edge_scores(graph, scores)
        scores = functional.leaky_relu(scores, self.slope)
        weights = weighted_softmax(graph, scores)
        out = weighted_sum(graph, values, weights)
        return merge_heads(out, x.shape[-1]), weights


def attend_to_neighbours(
    graph: Graph, q: Tensor, k: Tensor, v: Tensor, edge: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return sum_u alpha_uv (v_u + e_uv), (N, H, D), and the weights alpha_uv, (E, H).

    alpha_uv is the softmax over the in-edges of v of q_v . (k_u + e_uv) / sqrt(D), as in UniMP
    (arXiv 2009.03509); e_uv = W f_uv of the features f of an edge, 0 without `edge`.
    No row of D numbers is made for an edge: q_v . W f_uv = (q_v W) . f_uv, and sum_u alpha_uv W
    f_uv = W sum_u alpha_uv f_uv. An edge of weight w counts as w edges do.

    Args:
        graph: of N nodes and E edges.
        q: of the nodes where edges lead, (N, H, D).
        k: of the nodes where they start, (N, H, D).
        v: of the nodes where they start, (N, H, D).
        edge: W (H, D, F).
    """
    scale, scores = q.shape[-1] ** -0.5, edge_dot(graph, k, q)
    if edge is None:
        weights = weighted_softmax(graph, scores * scale)
        return weighted_sum(graph, v, weights), weights
    kind, targets = scores.dtype, edge_dst(graph, q.device)
    features = edge_features(graph, edge.shape[2], q.device).to(kind)
    edge = edge.to(kind)
    asked = torch.einsum("nhd,hdf->nhf", q.to(kind), edge)
    scores = scores + (asked.index_select(0, targets) * features.unsqueeze(1)).sum(-1)
    weights = weighted_softmax(graph, scores * scale)
    shares = (weights.unsqueeze(-1) * features.unsqueeze(1)).to(kind)  # (E, H, F)
    gathered = torch.zeros_like(asked).index_add(0, targets, shares)
    return weighted_sum(graph, v, weights) + torch.einsum("nhf,hdf->nhd", gathered, edge), weights


class NeighbourAttention(nn.Module):
    """Attention of a transformer to the neighbours of each node, UniMP (arXiv 2009.03509).

    Values are x, which a model has projected, as in `GraphAttention`; queries and keys are linear
    maps of it. With a `gate`, the paper's gated residual, what is gathered, m, and a map of the
    node's own row, r = W x + b, are mixed: (1 - beta) m + beta r, beta = sigmoid(w . [m, r, m - r])
    of each node.
    """

    def __init__(self, dim: int, heads: int, edge_dim: int = 0, gate: bool = False):
        super().__init__()
        self.heads, width = heads, -(-dim // heads)
        self.project = Linear(dim, 2 * heads * width)
        self.edge = nn.Parameter(torch.empty(heads, width, edge_dim)) if edge_dim else None
        if self.edge is not None:
            nn.init.uniform_(self.edge, -(edge_dim**-0.5), edge_dim**-0.5)
        self.own = Linear(dim, dim) if gate else None
        self.gate = Linear(3 * dim, 1, bias=False) if gate else None

    def forward(self, graph: Graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, dim)."""
        return self.with_weights(graph, x)[0]

    def with_weights(self, graph: Graph, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output, (N, dim), and the weights alpha_uv on the edges, (E, H)."""
        q, k = self.project(x).unflatten(-1, (2, self.heads, -1)).unbind(1)  # (N, H, D) each
        values = split_heads(x, self.heads)
        out, weights = attend_to_neighbours(graph, q, k, values, self.edge)
        near = merge_heads(out, x.shape[-1]).to(x.dtype)
        if self.own is None:
            return near, weights
        own = self.own(x)
        beta = self.gate(torch.cat([near, own, near - own], dim=-1)).sigmoid()
        return near + beta * (own - near), weights


class EdgeScores(nn.Module):
    """c_h . f_uv of the features f of each edge, for each head h: a part of its score."""

    def __init__(self, edge_dim: int, heads: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, edge_dim))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, graph: Graph, scores: Tensor) -> Tensor:
        """Return (E, H), in the precision of other scores and where they are."""
        features = edge_features(graph, self.weight.shape[1], scores.device)
        return features.to(scores.dtype) @ self.weight.mT.to(scores.dtype)


class Isomorphism(nn.Module):
    """(1 + eps) x_v + sum_u x_u over neighbours without v, GIN (arXiv 1810.00826), equation 4.1.

    With features f of edges the sum is of ReLU(x_u + W f_uv + b), GINE (Hu et al., arXiv
    1905.12265). eps is learnt, 0 at first. A neighbour counts as the weight of its edge says. The
    self-loops of a canonical graph, of weight 1 and without features, are in the sums of the
    kernels, and subtracted.
    """

    def __init__(self, dim: int, edge_dim: int):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(()))
        self.linear = nn.Linear(edge_dim, dim) if edge_dim else None

    def forward(self, graph: Graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, dim)."""
        weights = edge_weights(graph, x.device)
        if self.linear is None:
            near = neighbour_sum(graph, x) if weights is None else _weighted(graph, x, weights)
            return self.eps * x + near
        features = edge_features(graph, self.linear.in_features, x.device)
        near = message_sum(graph, x, features, self.linear.weight, self.linear.bias, weights)
        return (1 + self.eps) * x + near - (x + self.linear.bias).relu()


def weighted_softmax(graph: Graph, scores: Tensor) -> Tensor:
    """Return w_uv exp(s_uv) over its sum along the edges that lead to v, (E, H), for s (E, H).

    Weights w are those of the edges, 1 where they have none: see `edge_softmax`.
    """
    weights = edge_weights(graph, scores.device)
    if weights is not None:
        weights = weights.to(scores.dtype)
        kind = torch.finfo(scores.dtype)  # of weight 0 the logarithm has no gradient
        scores = scores + weights.clamp(min=kind.tiny).log().unsqueeze(-1)
        scores = scores.masked_fill((weights <= 0).unsqueeze(-1), kind.min)
    return edge_softmax(graph, scores)


class Separate(nn.Module):
    """A propagation for each direction, or each kind, of the edges of a graph.

    Rossi et al. (arXiv 2305.10498), equation 6: A x W_in + A^T x W_out; Schlichtkrull et al.
    (arXiv 1703.06103), equation 2: the sum over kinds r of A_r x W_r. Each is normalised on its
    own, and the linear maps have been applied to the features, side by side.

    Args:
        propagations: one for each; of directions that along the edges first.
    """

    def __init__(self, propagations: Sequence[Propagation]):
        super().__init__()
        self.propagations = list(propagations)
        self.maps = len(self.propagations)
        self.weights = nn.ModuleList(
            propagation for propagation in propagations if isinstance(propagation, nn.Module)
        )

    def forward(self, graph: Graph, x: Tensor) -> Tensor:
        """Return (N, D) for x (N, K D)."""
        graphs = [one_relation(graph, number, self.maps) for number in range(self.maps)]
        parts = zip(self.propagations, graphs, x.chunk(self.maps, dim=-1), strict=True)
        return torch.stack(
            [propagation(own, part.contiguous()) for propagation, own, part in parts]
        ).sum(0)


def _weighted(graph: Graph, x: Tensor, weights: Tensor) -> Tensor:
    """Return the sum of w_uv x_u over in-neighbours, (N, ...), for x (N, ...) and w (E,)."""
    rows = x.reshape(len(x), 1, -1)
    sums = weighted_sum(graph, rows, weights.to(x.dtype).unsqueeze(-1))
    return sums.reshape(-1, *x.shape[1:])


def _column(per_node: Tensor, x: Tensor) -> Tensor:
    """Return numbers per node in the precision of x, shaped to scale the rows of x (N, ...)."""
    return per_node.to(x.dtype).reshape(-1, *(1,) * (x.dim() - 1))


def none(graph: Graph, x: Tensor) -> Tensor:
    """Return zeros, (N, ...): nothing is gathered."""
    return torch.zeros_like(x)


def _none(dim: int) -> Propagation:
    """Nothing: the model goes without the edges."""
    return none


def _gcn(dim: int) -> Propagation:
    """Symmetric normalisation, D^-1/2 A D^-1/2 x."""
    return gcn


def _mean(dim: int) -> Propagation:
    """Mean of the neighbours, D^-1 A x."""
    return mean


def _gat(
    dim: int, *, heads: Few = 1, slope: Finite = 0.2, edge_dim: Count | None = None
) -> Propagation:
    """Graph attention with learned scores.

    Args:
        heads: number of attention heads that share the width.
        slope: of the LeakyReLU for negative scores.
        edge_dim: features of edges that have a part in the scores; left out, none.
    """
    return GraphAttention(dim, heads, slope, edge_dim or 0)


def _transformer(
    dim: int, *, heads: Few = 1, edge_dim: Count | None = None, gate: bool = False
) -> Propagation:
    """Attention of a transformer to neighbours: softmax of queries and keys.

    Args:
        heads: number of attention heads that share the width.
        edge_dim: features of edges that are added to keys and values; left out, none.
        gate: mix in a map of the node's own row, by a gate that is learnt.
    """
    return NeighbourAttention(dim, heads, edge_dim or 0, gate)


PROPAGATIONS = Table(
    "propagation",
    {"gat": _gat, "gcn": _gcn, "mean": _mean, "none": _none, "transformer": _transformer},
)
"""Word to builder `(dim, *, options) -> propagation`."""


class WithoutWeights(nn.Module):
    """A propagation that is a function, as a module."""

    def __init__(self, function: Propagation):
        super().__init__()
        self.function = function

    def forward(self, graph: Graph, x: Tensor) -> Tensor:
        """Return what each node gathers, in the shape of x."""
        return self.function(graph, x)

    def extra_repr(self) -> str:
        """Return the name of the function."""
        return getattr(self.function, "__name__", "")


def build_propagation(spec: Spec, dim: int) -> nn.Module:
    """Return the propagation that a word of `PROPAGATIONS` names, for features of a width.

    Returns:
        A module `(graph, x) -> x`, with weights or without, which a `ModuleList` takes.

    Raises:
        ZooError: an unknown word or option.
    """
    built = pick(PROPAGATIONS, spec, dim)
    return built if isinstance(built, nn.Module) else WithoutWeights(built)
