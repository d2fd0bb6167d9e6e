"""GRU: a recurrent network over the last values of each node, which looks at no edge.

"Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation"
(arXiv 1406.1078), of torch's own layers: the baseline of series without a graph. Where it departs
from the paper: torch applies the reset gate after the product with the weights, not before.
"""

from torch import Tensor, nn

from zoo.data.snapshots import check_columns
from zoo.nn import Dropout, Linear
from zoo.registry import Count, Few, Model, Rate, register_model


@register_model("gru")
class GRU(Model):
    """The gated recurrent unit, over the last values of each node in their order.

    x_1, ..., x_L are those of a node at L times. h_t = u * h_(t-1) + (1 - u) * c, with
    u = s(W x_t + U h_(t-1)), r = s(W' x_t + U' h_(t-1)), c = tanh(W'' x_t + r * (U'' h_(t-1))),
    each with biases, s the logistic function. The head reads Drop(h_L) of the last layer.

    Args:
        in_dim: L * F numbers of a node, those of a time after those of the time before.
        out_dim: values that are predicted.
        dim: width of h.
        layers: number of such networks, each over the outputs of the one before.
        columns: F, the numbers of a node at one time; left out, as many as the data have, and 1
            where there are none to look at.
        dropout: between layers, and before the head.
    """

    edge_weights = False
    paper = "Learning Phrase Representations using RNN Encoder-Decoder (arXiv 1406.1078)"
    tasks = ("node-forecasting",)

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 32,
        layers: Few = 1,
        columns: Count | None = None,
        dropout: Rate = 0.0,
    ):
        super().__init__()
        columns = 1 if columns is None else columns
        check_columns("gru", in_dim, columns)
        self.columns, self.dropout = columns, Dropout(dropout)
        between = dropout if layers > 1 else 0.0
        self.network = nn.GRU(columns, dim, layers, batch_first=True, dropout=between)
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return the last state, (N, dim), for x (N, in_dim); `graph` may be None."""
        states, _ = self.network(x.unflatten(1, (-1, self.columns)))
        return self.dropout(states[:, -1])
