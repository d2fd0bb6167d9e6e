"""Graphormer: a transformer that knows degrees, and how far apart two nodes are.

"Do Transformers Really Perform Badly for Graph Representation?" (arXiv 2106.05234). The bias of two
nodes is looked up for the pairs that are attended to alone: with `attention: {name: rba, size: p}`
for those inside a batch, N p of them in the place of N^2. Where it departs from the paper:

- Graphs of the zoo have edges in both directions, so that one table of degrees does for both.
- Paths of more than `hops` edges, and none at all, share one bias.
- Features of edges along a path (equation 7) are not read: where several paths are shortest the
  paper takes any one of them, and answers would depend on how nodes are numbered.
- The virtual node is that of `readout: virtual-node`, with `virtual_node: true` here; without, the
  readout is that of the recipe. It has one bias for what it sees and for who sees it.
- There is one more norm at the end, as in other transformers whose norms come first.
- The weights of the attention are not dropped out, and the first features are.
- A width that the heads do not divide is rounded up.
"""

from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.nn import (
    ATTENTIONS,
    Dropout,
    FeatureLinear,
    FeedForward,
    Linear,
    MultiHead,
    Norm,
    OncePerBlock,
    build_attend,
    build_norm,
    in_degrees,
    node_counts,
    path_lengths,
    softmax,
)
from zoo.registry import Count, Few, Model, Number, Rate, Spec, Within, register_model


@register_model("graphormer")
class Graphormer(Model):
    """The transformer encoder, told degrees by its first features and distances by its scores.

    z = Drop(W x + z_deg); per layer z = z + Drop(Attention(norm(z))), then
    z = z + Drop(MLP(norm(z))), and a last norm and a linear head. Attention(z) = W [softmax_j(q_i .
    k_j / sqrt(D) + b_d(i,j)) v of each head], q, k, v = W z, where d(i, j) is the length of the
    shortest path and b one number for each length and head, the same in all layers;
    MLP(z) = W Drop(ReLU(W z)). Equations 5 and 6 of the paper.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of layers, each an attention and a feed-forward.
        heads: attention heads, which share the width.
        attention: `native` is full softmax; of others those that take a bias.
        hops: longest path with a bias of its own.
        degrees: largest degree with an embedding of its own; 0 for none at all.
        virtual_node: the last node of each graph is that of `readout: virtual-node`, through which
            no path leads, and whose pairs have a bias of their own.
        expansion: width of the feed-forward, as a multiple of `dim`.
        norm: of what each half of a layer reads: `none`, `layer` or `batch`.
        dropout: of the first features, of each half of a layer, and inside the feed-forward.
    """

    pair_bias = "scores"
    edge_weights = False
    paper = "Do Transformers Really Perform Badly for Graph Representation? (arXiv 2106.05234)"
    search: ClassVar = {
        "dim": [64, 128, 256],
        "layers": {"low": 1, "high": 4},
        "heads": [1, 4],
        "hops": [2, 4, 8],
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
        attention: Annotated[Spec, ATTENTIONS] = "native",
        hops: Annotated[int, Within("from 1 to 250", ge=1, le=250)] = 8,
        degrees: Number = 64,
        virtual_node: bool = False,
        expansion: Few = 2,
        norm: Norm = "layer",
        dropout: Rate = 0.5,
    ):
        super().__init__()
        self.stem, self.dropout = FeatureLinear(in_dim, dim), Dropout(dropout)
        self.degree = nn.Parameter(0.02 * torch.randn(degrees + 1, dim)) if degrees else None
        self.bias = nn.Parameter(0.02 * torch.randn(hops + 2 + virtual_node, heads))
        self.hops, self.virtual_node = hops, virtual_node
        self.layers = nn.ModuleList(
            Layer(
                MultiHead(dim, heads),
                build_attend(attention, softmax, layer, pair_bias=self.pair_bias),
                FeedForward(dim, expansion, dropout),
                [build_norm(norm, dim) for _ in range(2)],
                dropout=dropout,
            )
            for layer in range(layers)
        )
        self.norm = build_norm(norm, dim)
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim)."""
        z = self.stem(x)
        if self.degree is not None:
            degree = in_degrees(graph, x.device).long() - 1  # without the self-loop
            z = z + functional.embedding(degree.clamp(0, len(self.degree) - 1), self.degree)
        z = self.dropout(z)
        bias = self.bias_of_pairs(graph, x.device)
        for layer in self.layers:
            z = layer(graph, z, bias)
        return self.norm(z)

    def bias_of_pairs(self, graph, device: torch.device):
        """Return the bias (..., H, R, C) as a function of rows (..., R) and columns (..., C)."""
        last = self.last_nodes(graph, device) if self.virtual_node else None

        @OncePerBlock
        def bias(rows: Tensor, columns: Tensor, _) -> Tensor:
            length = path_lengths(graph, rows, columns, self.hops, self.virtual_node)
            if last is not None:
                own = last[rows].unsqueeze(-1) | last[columns].unsqueeze(-2)
                length = length.masked_fill(own, self.hops + 2)
            return functional.embedding(length, self.bias).movedim(-1, -3)

        return bias

    @staticmethod
    def last_nodes(graph, device: torch.device) -> Tensor:
        """Return which nodes are the last of their graph, (N,) bool."""
        counts = torch.tensor(node_counts(graph))
        last = torch.zeros(int(counts.sum()), dtype=torch.bool)
        last[counts.cumsum(0)[counts > 0] - 1] = True
        return last.to(device)


class Layer(nn.Module):
    """z -> z + Drop(Attention(norm(z))), then z -> z + Drop(MLP(norm(z))); equations 8 and 9."""

    def __init__(self, heads, attend, feed_forward, norms, *, dropout):
        super().__init__()
        self.attention, self.attend, self.feed_forward = heads, attend, feed_forward
        self.attention_norm, self.feed_forward_norm = norms
        self.dropout = Dropout(dropout)

    def forward(self, graph, z: Tensor, bias) -> Tensor:
        """Return (N, D) for z (N, D), nodes attending inside each graph of a batch."""
        q, k, v = self.attention.split(self.attention_norm(z))  # (N, H, D) each
        z = z + self.dropout(self.attention.join(self.attend(graph, q, k, v, bias)))
        return z + self.dropout(self.feed_forward(self.feed_forward_norm(z)))
