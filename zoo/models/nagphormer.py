"""NAGphormer: what a node's neighbourhoods of 0, 1, ... K steps hold is its sequence of tokens.

"NAGphormer: A Tokenized Graph Transformer for Node Classification in Large Graphs" (arXiv
2206.04910). Attention is over the K + 1 tokens of one node, and no node attends to another. Where
it departs from the paper:

- The tokens S^k X are projected before they are propagated, (S^k) (X W), which is the same and
  takes the width of the layers in the place of that of the features.
- The encoding is read beside the features, as the paper does, whichever the recipe adds.
- Every node of a graph or batch gets its answer from what is there: the tokens are not stored
  beforehand for batches of nodes alone, which is how the authors train.
- The weights of the attention are not dropped out, and a width that the heads do not divide is
  rounded up.
"""

from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.nn import (
    PROPAGATIONS,
    Dropout,
    FeatureLinear,
    Linear,
    MultiHead,
    build_propagation,
    softmax,
)
from zoo.registry import Count, Few, Model, Rate, Spec, register_model


@register_model("nagphormer")
class NAGphormer(Model):
    """A transformer over the K + 1 tokens of each node, which are hops of its neighbourhood.

    z_k = Drop(S^k X W + b), k = 0 to K, S the propagation; per layer z = z + Drop(Attention(LN(z)))
    and z = z + Drop(MLP(LN(z))), each node's tokens by themselves, then h = LN(z). The answer reads
    a_k = softmax over k = 1 to K of w [h_0, h_k], and ReLU(W (h_0 + sum_k a_k h_k)). MLP(z) =
    W Drop(GELU(W z)). Then a linear head.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers; the head reads half of it.
        hops: K, the steps of the farthest neighbourhood.
        layers: number of layers.
        heads: attention heads, which share the width.
        propagation: S, what a step of the neighbourhood is; `gcn` is the paper's.
        expansion: width of the feed-forward, as a multiple of `dim`.
        dropout: of the tokens, of each half of a layer, and inside the feed-forward.
    """

    paper = "NAGphormer: A Tokenized Graph Transformer for Node Classification (arXiv 2206.04910)"
    without: ClassVar = {
        "attention": "attention is over the few tokens of one node, so that there are no nodes to "
        "deal into batches; leave it out"
    }
    search: ClassVar = {
        "dim": [64, 128, 256],
        "hops": {"low": 2, "high": 10},
        "layers": {"low": 1, "high": 3},
        "heads": [1, 8],
        "dropout": {"low": 0.0, "high": 0.5},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 128,
        hops: Few = 3,
        layers: Few = 1,
        heads: Few = 8,
        propagation: Annotated[Spec, PROPAGATIONS] = "gcn",
        expansion: Few = 2,
        dropout: Rate = 0.1,
    ):
        super().__init__()
        self.stem = FeatureLinear(in_dim, dim, bias=False)
        self.bias, self.hops = nn.Parameter(torch.zeros(dim)), hops
        self.propagate, self.dropout = build_propagation(propagation, dim), Dropout(dropout)
        self.layers = nn.ModuleList(Layer(dim, heads, expansion, dropout) for _ in range(layers))
        self.norm, self.score = nn.LayerNorm(dim), Linear(2 * dim, 1, bias=False)
        self.narrow = Linear(dim, max(1, dim // 2))
        self.head = Linear(max(1, dim // 2), out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim / 2) for x (N, in_dim)."""
        hop = self.stem(x)
        tokens = [hop]
        for _ in range(self.hops):
            hop = self.propagate(graph, hop)
            tokens.append(hop)
        z = self.dropout(torch.stack(tokens, 1) + self.bias)  # (N, K + 1, D)
        for layer in self.layers:
            z = layer(z)
        return self.narrow(read_hops(self.norm(z), self.score)).relu()


class Layer(nn.Module):
    """z -> z + Drop(f(LN(z))) of attention and of a feed-forward, for the tokens of each node."""

    def __init__(self, dim, heads, expansion, dropout):
        super().__init__()
        self.attention, self.attention_norm = MultiHead(dim, heads), nn.LayerNorm(dim)
        self.widen, self.narrow = Linear(dim, expansion * dim), Linear(expansion * dim, dim)
        self.feed_forward_norm, self.dropout = nn.LayerNorm(dim), Dropout(dropout)

    def forward(self, z: Tensor) -> Tensor:
        """Return (N, K + 1, D) for z (N, K + 1, D): each node is a set of its own."""
        q, k, v = self.attention.split(self.attention_norm(z))  # (N, K + 1, H, D / H) each
        z = z + self.dropout(self.attention.join(softmax(q, k, v)))
        wide = self.dropout(functional.gelu(self.widen(self.feed_forward_norm(z))))
        return z + self.dropout(self.narrow(wide))


def read_hops(h: Tensor, score: nn.Module) -> Tensor:
    """Return h_0 + sum_k a_k h_k, a = softmax over k = 1 to K of score([h_0, h_k]), (N, D).

    The paper's attention-based readout, for h (N, K + 1, D).
    """
    own, hops = h[:, :1], h[:, 1:]
    weights = score(torch.cat([own.expand_as(hops), hops], -1)).softmax(1)  # (N, K, 1)
    return own.squeeze(1) + (weights * hops).sum(1)
