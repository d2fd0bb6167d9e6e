"""The multilayer perceptron: what the features alone are worth, without any edge."""

from zoo.nn import MessagePassing, Norm
from zoo.registry import Count, Few, Rate, register_model


@register_model("mlp")
class MLP(MessagePassing):
    """A multilayer perceptron on each node by itself; the graph is not looked at.

    h = Drop(ReLU(norm(h W + b))), then a linear head.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the hidden layers.
        layers: number of hidden layers.
        dropout: after every layer.
        input_dropout: dropout of the raw features.
        norm: before every activation: `none`, `layer` or `batch`.
    """

    edge_weights = False
    paper = ""
    alone = True

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
    ):
        super().__init__(
            in_dim,
            out_dim,
            lambda: _stay,
            layers=layers,
            dim=dim,
            dropout=dropout,
            norm=norm,
            residual=False,
            input_dropout=input_dropout,
        )


def _stay(graph, x):
    """Propagate nothing: each node keeps its own features."""
    return x
