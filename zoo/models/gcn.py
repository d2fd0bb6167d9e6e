"""The graph convolutional network, tuned: the baseline that a graph transformer has to beat."""

from zoo.nn import Directions, MessagePassing, Norm, gcn
from zoo.registry import Count, Few, Rate, register_model


@register_model("gcn")
class GCN(MessagePassing):
    """The graph convolutional network of Kipf and Welling (arXiv 1609.02907), as tuned since.

    h = Drop(ReLU(norm(D^-1/2 A D^-1/2 h W + b [+ h W' + b']))), then a linear head. Theirs is
    `norm: none, residual: false`; the defaults are those of the best mean rank over seven graphs.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the hidden layers.
        layers: number of convolutions.
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
    """

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 2,
        dropout: Rate = 0.5,
        input_dropout: Rate = 0.0,
        norm: Norm = "layer",
        norm_first: bool = False,
        residual: bool = True,
        project: bool = False,
        direction: Directions = "both",
        relations: Few = 1,
    ):
        super().__init__(
            in_dim,
            out_dim,
            lambda: gcn,
            layers=layers,
            direction=direction,
            relations=relations,
            dim=dim,
            dropout=dropout,
            norm=norm,
            norm_first=norm_first,
            residual=residual,
            project=project,
            input_dropout=input_dropout,
        )
