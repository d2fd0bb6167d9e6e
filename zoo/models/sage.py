"""GraphSAGE with the mean of the neighbours, tuned."""

from typing import ClassVar

from zoo.nn import Directions, MessagePassing, Norm, mean
from zoo.registry import Count, Few, Rate, register_model


@register_model("sage")
class SAGE(MessagePassing):
    """GraphSAGE of Hamilton et al. (arXiv 1706.02216), mean aggregator, as tuned since.

    h = Drop(ReLU(norm(mean_u h_u W + b + h W' + b' [+ h W'']))), then a linear head. All begin as
    `nn.Linear` does, as in the tuned program, which has the second bias only beside W''.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the hidden layers.
        layers: number of convolutions.
        dropout: after every layer.
        input_dropout: dropout of the raw features.
        norm: before every activation: `none`, `layer` or `batch`.
        norm_first: norm and activate what a convolution reads, not what it gives; needs `project`.
        residual: add the map W'', as the tuned program does. As a function it adds nothing to W',
            but Adam changes both of the sum, and it begins larger.
        project: begin with a linear map instead of a convolution.
        direction: `separate` has weights of their own along the edges and against them, for a data
            set with the same word.
        relations: kinds of edges K that have weights of their own, for a data set with
            `relations: separate`.
    """

    search: ClassVar = {key: MessagePassing.search[key] for key in MessagePassing.search
                        if key != "residual"}  # fmt: skip

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
        residual: bool = False,
        project: bool = False,
        direction: Directions = "both",
        relations: Few = 1,
    ):
        super().__init__(
            in_dim,
            out_dim,
            lambda: mean,
            layers=layers,
            direction=direction,
            relations=relations,
            dim=dim,
            dropout=dropout,
            norm=norm,
            norm_first=norm_first,
            residual=1 + residual,
            glorot=False,
            project=project,
            input_dropout=input_dropout,
        )
