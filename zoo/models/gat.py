"""The graph attention network, tuned: attention over neighbours instead of over all nodes."""

from zoo.nn import Directions, GraphAttention, MessagePassing, Norm
from zoo.registry import Count, Few, Rate, register_model


@register_model("gat")
class GAT(MessagePassing):
    """The graph attention network of Velickovic et al. (arXiv 1710.10903), as tuned since.

    h = Drop(ReLU(norm(sum_u alpha_uv W h_u [+ h W' + b']))), then a linear head; the heads share
    the width, and the convolution has no bias. The defaults are those of `gcn`.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the hidden layers.
        layers: number of convolutions.
        heads: attention heads of each convolution.
        dropout: after every layer.
        input_dropout: dropout of the raw features.
        norm: before every activation: `none`, `layer` or `batch`.
        norm_first: norm and activate what a convolution reads, not what it gives; needs `project`.
        residual: add a linear map of the layer's input to its output.
        project: begin with a linear map instead of a convolution.
        direction: `separate` has weights of their own along the edges and against them, for a data
            set with the same word.
        relations: kinds of edges K that have weights of their own, for a data set with
            `relations: separate`.
        edge_dim: features of edges that have a part in the scores; left out, as many as the data
            set has.
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 2,
        heads: Few = 1,
        dropout: Rate = 0.5,
        input_dropout: Rate = 0.0,
        norm: Norm = "layer",
        norm_first: bool = False,
        residual: bool = True,
        project: bool = False,
        direction: Directions = "both",
        relations: Few = 1,
        edge_dim: Count | None = None,
    ):
        super().__init__(
            in_dim,
            out_dim,
            lambda: GraphAttention(dim, heads, 0.2, edge_dim or 0),
            layers=layers,
            direction=direction,
            relations=relations,
            dim=dim,
            bias=False,
            dropout=dropout,
            norm=norm,
            norm_first=norm_first,
            residual=residual,
            project=project,
            input_dropout=input_dropout,
        )
