"""GCN-GRU: a recurrent network whose gates are graph convolutions.

"Structured Sequence Modeling with Graph Convolutional Recurrent Networks" (arXiv 1612.07659), its
second model, with the unit of a GRU and the convolution of Kipf and Welling (arXiv 1609.02907), as
T-GCN (arXiv 1811.05320) has it: the baseline of series on a graph. Both what is read and the state
are convolved, as in the first; T-GCN convolves what is read alone, and twice.
"""

from typing import Annotated

import torch
from torch import Tensor

from zoo.data.snapshots import check_columns
from zoo.nn import PROPAGATIONS, Dropout, Linear, build_propagation
from zoo.registry import Count, Model, Rate, Spec, register_model


@register_model("gcn-gru")
class GCNGRU(Model):
    """A gated recurrent unit over the last values of all nodes, whose gates look at neighbours.

    x_1, ..., x_L (N, F) are the values at L times, S = D^-1/2 A D^-1/2. h_t = u * h_(t-1) +
    (1 - u) * c, with u = s(S [x_t, h_(t-1)] W), r = s(S [x_t, h_(t-1)] W') and c = tanh(S [x_t,
    r * h_(t-1)] W''), each with a bias, s the logistic function, h_0 = 0. The head reads Drop(h_L).

    Args:
        in_dim: L * F numbers of a node, those of a time after those of the time before.
        out_dim: values that are predicted.
        dim: width of h.
        columns: F, the numbers of a node at one time; left out, as many as the data have, and 1
            where there are none to look at.
        propagation: S.
        dropout: before the head.
    """

    paper = "Structured Sequence Modeling with Graph Convolutional Recurrent Networks"
    paper += " (arXiv 1612.07659)"
    tasks = ("node-forecasting",)

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 32,
        columns: Count | None = None,
        propagation: Annotated[Spec, PROPAGATIONS] = "gcn",
        dropout: Rate = 0.0,
    ):
        super().__init__()
        columns = 1 if columns is None else columns
        check_columns("gcn-gru", in_dim, columns)
        self.columns, self.dim, self.dropout = columns, dim, Dropout(dropout)
        self.near_input = build_propagation(propagation, columns)
        self.near = build_propagation(propagation, dim)
        self.input = Linear(columns, 3 * dim)
        self.gates = Linear(dim, 2 * dim, bias=False)
        self.candidate = Linear(dim, dim, bias=False)
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return the last state, (N, dim), for x (N, in_dim)."""
        times = x.unflatten(1, (-1, self.columns)).unbind(1)  # (N, F) each
        h = x.new_zeros(len(x), self.dim)
        for x_t in times:
            read = self.input(self.near_input(graph, x_t))
            of_gates, of_candidate = read.split([2 * self.dim, self.dim], dim=1)
            gates = torch.sigmoid(of_gates + self.gates(self.near(graph, h)))
            update, reset = gates.chunk(2, dim=1)
            new = torch.tanh(of_candidate + self.candidate(self.near(graph, reset * h)))
            h = update * h + (1 - update) * new
        return self.dropout(h)
