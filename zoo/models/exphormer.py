"""Exphormer: attention along the edges of the graph, of a random expander, and of virtual nodes.

"Exphormer: Sparse Transformers for Graphs" (arXiv 2303.06147), beside a propagation in every layer
as in GraphGPS (arXiv 2205.12454). Where it departs from the paper and the authors' program:

- The expander is made of cycles through all nodes in random orders (Hamiltonian cycles, a choice of
  the authors' program too), and not of random permutations: regular without any repair, and
  connected. It is drawn once for each graph, by a seed.
- Virtual nodes go through the same layers as others, without a propagation.
- The kinds of edges are told apart by a vector each, edge features have no part in the attention.
- Encodings are read beside the features, by one linear map, and the head is linear.
- The weights of the attention are not dropped out; a width that the heads do not divide is rounded
  up.
"""

from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from zoo.nn import (
    PROPAGATIONS,
    Convolution,
    Drawn,
    Dropout,
    FeatureLinear,
    FeedForward,
    Linear,
    MultiHead,
    Norm,
    build_norm,
    build_propagation,
    edge_dot,
    edge_softmax,
    interaction,
    node_counts,
    weighted_sum,
)
from zoo.registry import Count, Few, Model, Rate, Seed, Spec, Within, register_model

UpTo1000 = Annotated[int, Within("from 0 to 1,000", ge=0, le=1000)]


@register_model("exphormer")
class Exphormer(Model):
    """GraphGPS whose attention is sparse: along edges, those of an expander, and virtual nodes.

    z = Drop(W x); per layer g = norm(z + Drop(propagate(z W) + b)) and
    a = norm(z + Drop(Attention(z))), then s = g + a and z = norm(s + Drop(MLP(s))); g = 0 for
    virtual nodes. Attention(z)_v = W [sum_u softmax_u(q_v . (k_u * e_t) / sqrt(D)) v_u of each
    head], over the edges u -> v of all kinds t, with a vector e_t for each kind: edges of the
    graph, of the expander, from virtual nodes, to them. Then a linear head.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of layers.
        heads: attention heads, which share the width.
        cycles: random cycles through all nodes, that make an expander of degree 2 `cycles`.
        virtual: virtual nodes of each graph.
        propagation: how the other branch gathers neighbours.
        expansion: width of the feed-forward, as a multiple of `dim`.
        norm: of both branches and of the feed-forward: `none`, `layer` or `batch`.
        dropout: of the first features, of both branches, and twice in the feed-forward.
        seed: of the expander.
    """

    paper = "Exphormer: Sparse Transformers for Graphs (arXiv 2303.06147)"
    without: ClassVar = {
        "attention": "its attention is along the edges of a sparse graph, that is what it is; "
        "`graphgps` takes any other attention in its place"
    }
    search: ClassVar = {
        "dim": [64, 128, 256],
        "layers": {"low": 1, "high": 4},
        "heads": [1, 4],
        "cycles": {"low": 1, "high": 4},
        "virtual": [0, 1, 4],
        "norm": ["batch", "layer"],
        "dropout": {"low": 0.0, "high": 0.8},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 2,
        heads: Few = 4,
        cycles: UpTo1000 = 2,
        virtual: UpTo1000 = 1,
        propagation: Annotated[Spec, PROPAGATIONS] = "gcn",
        expansion: Few = 2,
        norm: Norm = "layer",
        dropout: Rate = 0.5,
        seed: Seed = 0,
    ):
        super().__init__()
        self.stem, self.dropout = FeatureLinear(in_dim, dim), Dropout(dropout)
        self.drawn = Drawn(cycles, virtual, seed)
        self.virtual = nn.Parameter(torch.randn(virtual, dim)) if virtual else None
        self.layers = nn.ModuleList(
            Layer(
                Convolution(dim, dim, build_propagation(propagation, dim)),
                MultiHead(dim, heads),
                SparseAttention(len(self.drawn.kinds), heads, -(-dim // heads)),
                FeedForward(dim, expansion, dropout),
                [build_norm(norm, dim) for _ in range(3)],
                dropout=dropout,
            )
            for _ in range(layers)
        )
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim)."""
        z = self.dropout(self.stem(x))
        if self.virtual is not None:
            z = torch.cat([z, self.virtual.to(z.dtype).repeat(len(node_counts(graph)), 1)])
        along = interaction(graph, self.drawn, z.device)
        for layer in self.layers:
            z = layer(graph, along, z, len(x))
        return z[: len(x)]


class Layer(nn.Module):
    """Propagation and attention side by side, then a feed-forward, as in GraphGPS.

    g = norm(z + Drop(propagate(z))), a = norm(z + Drop(attend(z))), s = g + a,
    z -> norm(s + Drop(MLP(s))).
    """

    def __init__(self, propagation, heads, attend, feed_forward, norms, *, dropout):
        super().__init__()
        self.propagation, self.attention, self.attend = propagation, heads, attend
        self.feed_forward = feed_forward
        self.propagation_norm, self.attention_norm, self.feed_forward_norm = norms
        self.dropout = Dropout(dropout)

    def forward(self, graph, along, z: Tensor, nodes: int) -> Tensor:
        """Return (N + V, D) for z (N + V, D), the virtual nodes behind the others."""
        own = z[:nodes]
        near = self.propagation_norm(own + self.dropout(self.propagation(graph, own)))
        gathered = self.attention.join(self.attend(along, *self.attention.split(z)))
        far = self.attention_norm(z + self.dropout(gathered))
        both = torch.cat([near + far[:nodes], far[nodes:]])
        return self.feed_forward_norm(both + self.dropout(self.feed_forward(both)))


class SparseAttention(nn.Module):
    """sum_u softmax_u(q_v . (k_u * e_t) / sqrt(D)) v_u, over the edges u -> v of all kinds t."""

    def __init__(self, kinds: int, heads: int, width: int):
        super().__init__()
        self.kinds = nn.Parameter(torch.ones(kinds, heads, width))

    def forward(self, along, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return (N + V, H, D) for q, k, v (N + V, H, D)."""
        q = q * q.shape[-1] ** -0.5
        scores = [
            edge_dot(edges, k * kind, q)
            for edges, kind in zip(along.kinds, self.kinds.to(k.dtype), strict=True)
        ]
        weights = edge_softmax(along.union, torch.cat(scores).index_select(0, along.order))
        return weighted_sum(along.union, v, weights)
