"""GraphGPS: layers of propagation and attention side by side, the host for any attention.

"Recipe for a General, Powerful, Scalable Graph Transformer" (arXiv 2205.12454). The third part of
the recipe, positional and structural encodings, is the `encoding` of a recipe of the zoo. Where it
departs from the authors' program:

- Features of edges have a part where the propagation gives them one, `{name: gat, edge_dim: F}`;
  layers do not update them.
- The propagation has no form of its own for each kind of network: it is one of the zoo's, of a
  linear map, plus a bias.
- The weights of the attention are not dropped out: an attention of the zoo has no weights to show.
- The first features are dropped out too: full graphs with few labels need it.
- The encoding is read beside the features by one linear map, and the head is linear.
- A width that the heads do not divide is rounded up.
"""

from typing import Annotated, ClassVar

from torch import Tensor, nn

from zoo.nn import (
    ATTENTIONS,
    PROPAGATIONS,
    Convolution,
    Dropout,
    FeatureLinear,
    FeedForward,
    Linear,
    MultiHead,
    Norm,
    build_attend,
    build_norm,
    build_propagation,
    softmax,
)
from zoo.registry import Count, Few, Model, Rate, Spec, register_model


@register_model("graphgps")
class GraphGPS(Model):
    """Propagation and attention side by side in every layer, followed by a feed-forward.

    z = Drop(W x); per layer g = norm(z + Drop(propagate(z W) + b)) and
    a = norm(z + Drop(Attention(z))), then s = g + a and z = norm(s + Drop(MLP(s))).
    Attention(z) = W [attend(Q, K, V) of each head], Q, K, V = W z; MLP(s) = W Drop(ReLU(W s)).
    Then a linear head.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of layers.
        heads: attention heads, which share the width.
        attention: `native` is full softmax.
        propagation: how the other branch gathers neighbours.
        expansion: width of the feed-forward, as a multiple of `dim`.
        norm: of both branches and of the feed-forward: `none`, `layer` or `batch`.
        dropout: of the first features, of both branches, and twice in the feed-forward.
    """

    paper = "Recipe for a General, Powerful, Scalable Graph Transformer (arXiv 2205.12454)"
    search: ClassVar = {
        "dim": [64, 128, 256],
        "layers": {"low": 1, "high": 4},
        "heads": [1, 4],
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
        attention: Annotated[Spec, ATTENTIONS] = "native",
        propagation: Annotated[Spec, PROPAGATIONS] = "gcn",
        expansion: Few = 2,
        norm: Norm = "layer",
        dropout: Rate = 0.5,
    ):
        super().__init__()
        self.stem, self.dropout = FeatureLinear(in_dim, dim), Dropout(dropout)
        self.layers = nn.ModuleList(
            Layer(
                Convolution(dim, dim, build_propagation(propagation, dim)),
                MultiHead(dim, heads),
                build_attend(attention, softmax, layer),
                FeedForward(dim, expansion, dropout),
                [build_norm(norm, dim) for _ in range(3)],
                dropout=dropout,
            )
            for layer in range(layers)
        )
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim)."""
        z = self.dropout(self.stem(x))
        for layer in self.layers:
            z = layer(graph, z)
        return z


class Layer(nn.Module):
    """Equations 2 to 5 of the paper, with the dropout, residuals and norms that they leave out.

    g = norm(z + Drop(propagate(z))), a = norm(z + Drop(attend(z))), s = g + a,
    z -> norm(s + Drop(MLP(s))).
    """

    def __init__(self, propagation, heads, attend, feed_forward, norms, *, dropout):
        super().__init__()
        self.propagation, self.attention, self.attend = propagation, heads, attend
        self.feed_forward = feed_forward
        self.propagation_norm, self.attention_norm, self.feed_forward_norm = norms
        self.dropout = Dropout(dropout)

    def forward(self, graph, z: Tensor) -> Tensor:
        """Return (N, D) for z (N, D), nodes attending inside each graph of a batch."""
        near = self.propagation_norm(z + self.dropout(self.propagation(graph, z)))
        q, k, v = self.attention.split(z)  # (N, H, D) each
        gathered = self.attention.join(self.attend(graph, q, k, v))
        far = self.attention_norm(z + self.dropout(gathered))
        both = near + far
        return self.feed_forward_norm(both + self.dropout(self.feed_forward(both)))
