"""Transformer: attention over all nodes and nothing else; the graph only says who is in a set.

"Attention Is All You Need" (arXiv 1706.03762), the encoder, with full softmax attention: the
reference, quadratic in the number of nodes, that every claim of a graph transformer is measured
against. What it knows of the edges it knows from the encoding that the recipe adds to the features.
Where it departs from the paper:

- The encoding is not added to the projected features but read beside them by the first linear map.
- Norms come first by default, as in the transformers since (arXiv 2002.04745), with one more at the
  end; `norm_first: false` is the paper's order.
- The weights of the attention are not dropped out: an attention of the zoo has no weights to show.
- A width that the heads do not divide is rounded up.
"""

from typing import Annotated, ClassVar

from torch import Tensor, nn

from zoo.nn import (
    ATTENTIONS,
    Dropout,
    FeatureLinear,
    FeedForward,
    Linear,
    MultiHead,
    Norm,
    build_attend,
    build_norm,
    softmax,
)
from zoo.registry import Count, Few, Model, Rate, Spec, register_model


@register_model("transformer")
class Transformer(Model):
    """The transformer encoder on the set of nodes, without any propagation.

    z = Drop(W x); per layer z = z + Drop(Attention(norm(z))), then z = z + Drop(MLP(norm(z))), and
    a last norm; or, with `norm_first: false`, z = norm(z + Drop(Attention(z))), then
    z = norm(z + Drop(MLP(z))). Attention(z) = W [attend(Q, K, V) of each head], Q, K, V = W z;
    MLP(z) = W Drop(ReLU(W z)). Then a linear head.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of layers, each an attention and a feed-forward.
        heads: attention heads, which share the width.
        attention: `native` is full softmax.
        expansion: width of the feed-forward, as a multiple of `dim`; 4 in the paper.
        norm: of each half of a layer: `none`, `layer` or `batch`.
        norm_first: norm what each half of a layer reads (pre-norm), not what it gives (post-norm).
        dropout: of the first features, of each half of a layer, and inside the feed-forward.
    """

    edge_weights = False
    paper = "Attention Is All You Need (arXiv 1706.03762)"
    search: ClassVar = {
        "dim": [64, 128, 256],
        "layers": {"low": 1, "high": 4},
        "heads": [1, 4],
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
        expansion: Few = 2,
        norm: Norm = "layer",
        norm_first: bool = True,
        dropout: Rate = 0.5,
    ):
        super().__init__()
        self.stem, self.dropout = FeatureLinear(in_dim, dim), Dropout(dropout)
        self.layers = nn.ModuleList(
            Layer(
                MultiHead(dim, heads),
                build_attend(attention, softmax, layer),
                FeedForward(dim, expansion, dropout),
                [build_norm(norm, dim) for _ in range(2)],
                norm_first=norm_first,
                dropout=dropout,
            )
            for layer in range(layers)
        )
        self.norm = build_norm(norm if norm_first else "none", dim)
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim); of the graph only the sizes are looked at."""
        z = self.dropout(self.stem(x))
        for layer in self.layers:
            z = layer(graph, z)
        return self.norm(z)


class Layer(nn.Module):
    """Attention, then a feed-forward, each with dropout, a residual, and its norm before or after.

    z -> z + Drop(f(norm(z))), or z -> norm(z + Drop(f(z))), for both halves f of the layer.
    """

    def __init__(self, heads, attend, feed_forward, norms, *, norm_first, dropout):
        super().__init__()
        self.attention, self.attend, self.feed_forward = heads, attend, feed_forward
        self.attention_norm, self.feed_forward_norm = norms
        self.norm_first, self.dropout = norm_first, Dropout(dropout)

    def forward(self, graph, z: Tensor) -> Tensor:
        """Return (N, D) for z (N, D), nodes attending inside each graph of a batch."""
        q, k, v = self.attention.split(self.attention_norm(z) if self.norm_first else z)
        z = z + self.dropout(self.attention.join(self.attend(graph, q, k, v)))
        if self.norm_first:
            return z + self.dropout(self.feed_forward(self.feed_forward_norm(z)))
        z = self.attention_norm(z)
        return self.feed_forward_norm(z + self.dropout(self.feed_forward(z)))
