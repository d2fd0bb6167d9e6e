"""GRU: a recurrent network over the last values of each node, which looks at no edge.

"Learning Phrase Representations using RNN Encoder-Decoder for Statistical Machine Translation"
(arXiv 1406.1078), of torch's own layers: the baseline of series without a graph. Where it departs
from the paper: torch applies the reset gate after the product with the weights, not before.
"""

from typing import Any

from torch import Tensor, nn

from zoo.config.options import options_of
from zoo.data.snapshots import Snapshots
from zoo.nn import Dropout, Linear
from zoo.registry import MODELS, Count, Few, Model, Rate, ZooError, register_model


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
        found, _ = self.network(x.unflatten(1, (-1, self.columns)))
        return self.dropout(found[:, -1])


def check_columns(model: str, in_dim: int, columns: int, times: int | None = None) -> None:
    """Refuse features of nodes that are not so many numbers at each of some times.

    Raises:
        ZooError: they are not.
    """
    if in_dim % columns if times is None else in_dim != columns * times:
        raise ZooError(
            f"{model}: {in_dim} features of a node are not {columns} at each of {times or 'some'} "
            "times; write `columns`, those of one time: 1, and one for each further column that is "
            "read. An encoding is none of them; leave it out."
        )


def with_columns(name: str, options: dict[str, Any], data: Any) -> dict[str, Any]:
    """Return the options of a model with how many numbers a node has at one time, if it reads them.

    Raises:
        ZooError: the options say another number, or an encoding stands beside these numbers.
    """
    option = options_of(MODELS[name]).get("columns")
    if option is None or option.default is not None or not isinstance(data, Snapshots):
        return options
    told = options.get("columns")
    columns = data.x.shape[2] if told is None else told
    check_columns(name, data.inputs, columns, data.lags)
    return {**options, "columns": columns}
