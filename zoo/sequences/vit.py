"""ViT: a transformer over the patches of an image, each told its place by a learned vector.

"An Image is Worth 16x16 Words" (arXiv 2010.11929), of torch's own encoder layers: the baseline of
images as graphs, which looks at no edge. Where it departs from the paper:

- It takes a graph and gives a row of logits for each node, as every model does. What is read of
  them is said by the data set: their mean, or the row of a class token, which is then a node.
- Places are those of the nodes in their own graph, counted from 0: for other numbering, other
  answers. A class token comes last.
- Tokens of a text are read as well, by their numbers.
"""

import torch
from torch import Tensor, nn

from zoo.nn import Dropout, FeatureLinear, Linear, node_counts, per_graph, token_positions
from zoo.registry import Count, Few, Model, Rate, ZooError, register_model


@register_model("vit")
class ViT(Model):
    """The vision transformer: pre-norm attention and feed-forward over the patches of each graph.

    z_i = Drop(W x_i + p_i) for the i-th node of a graph, p learned; per layer
    z = z + Drop(Attention(norm(z))), then z = z + Drop(MLP(norm(z))), and a last norm.
    Attention is full softmax of all heads; MLP(z) = W Drop(GELU(W z)). Then a linear head.

    Args:
        in_dim: numbers in a patch F, or tokens in the vocabulary.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of layers.
        heads: attention heads, which share the width; they have to divide it.
        expansion: width of the feed-forward, as a multiple of `dim`; 4 in the paper.
        places: nodes of the largest graph that it can read.
        dropout: of the first sums, of each half of a layer, of the attention and in the MLP.
    """

    edge_weights = False
    paper = "An Image is Worth 16x16 Words (arXiv 2010.11929)"
    tasks = ("graph-classification", "sequence-classification")

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 3,
        heads: Few = 4,
        expansion: Few = 4,
        places: Count = 64,
        dropout: Rate = 0.1,
    ):
        super().__init__()
        if dim % heads:
            raise ZooError(
                f"vit: {heads} heads cannot share {dim} columns; write `heads` that divide `dim`."
            )
        self.stem, self.dropout = FeatureLinear(in_dim, dim), Dropout(dropout)
        self.places = nn.Parameter(torch.randn(places, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(
            dim,
            heads,
            expansion * dim,
            dropout,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.encoder = nn.TransformerEncoder(
            layer, layers, nn.LayerNorm(dim), enable_nested_tensor=False
        )
        self.head = Linear(dim, out_dim)
        for weight in self.encoder.parameters():  # the layers are copies of one
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim) or tokens (N,); graphs of one size share a call.

        Raises:
            ZooError: a graph has more nodes than there are places.
        """
        sizes = node_counts(graph) if graph is not None else [len(x)]
        if max(sizes) > len(self.places):
            raise ZooError(
                f"vit: a graph has {max(sizes):,} nodes, and there are {len(self.places):,} "
                f"places; take smaller images, or train with `places: {max(sizes)}`."
            )
        where = self.places[token_positions(sizes).to(x.device)]
        return per_graph(self.encoder, graph, self.dropout(self.stem(x) + where))
