"""Readouts: from the rows of the nodes of many graphs to an answer for each graph, by name.

A model says E numbers of every node. A readout pools those of each graph to one row, and a
multilayer perceptron makes the answers of it. Rows of all graphs stand one after another, without
padding; `sizes` says how many are of each.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from zoo.config.options import Count, Few, Rate, Table
from zoo.errors import ZooError
from zoo.nn.layers import BatchNorm
from zoo.ops.linear import Linear

Pool = Callable[[Tensor, Tensor], Tensor]
"""`(rows of the nodes (n, D), sizes of the graphs (B,)) -> (B, W)`."""


class Readout(nn.Module):
    """A pool, and a multilayer perceptron of what it gives.

    Args:
        pool: of rows (n, dim) to one of each graph, (B, width).
        classes: C, the answers of each graph.
        dim: E, the numbers that the model says of each node.
        layers: linear maps after the pool.
        dropout: of what each but the last of them gives.
        width: of what the pool gives; left out, `dim`.
    """

    def __init__(
        self,
        pool: Pool,
        classes: int,
        dim: int,
        layers: int,
        dropout: float,
        width: int | None = None,
    ):
        super().__init__()
        self.dim, self.pool, self.dropout = dim, pool, nn.Dropout(dropout)
        sizes = [width or dim, *[dim] * (layers - 1)]
        self.layers = nn.ModuleList(map(Linear, sizes[:-1], sizes[1:]))
        self.norms = nn.ModuleList(BatchNorm(dim) for _ in self.layers)
        self.last = Linear(sizes[-1], classes)

    def forward(self, rows: Tensor, sizes: Tensor) -> Tensor:
        """Return (B, C) for rows of the nodes (n, dim) and sizes of the graphs (B,)."""
        z = self.pool(rows.float(), sizes)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            z = self.dropout(norm(layer(z)).relu())
        return self.last(z)


def owners_of(sizes: Tensor, device: torch.device) -> Tensor:
    """Return which graph each node is of, (n,), for the sizes of the graphs (B,)."""
    return torch.repeat_interleave(sizes).to(device)


def sum_of_nodes(rows: Tensor, sizes: Tensor) -> Tensor:
    """Return the sum of the rows of each graph, (B, D) fp32; 0 of a graph without nodes."""
    rows = rows.float()
    if len(rows) and (sizes == sizes[0]).all():
        return rows.unflatten(0, (len(sizes), -1)).sum(dim=1)
    zeros = rows.new_zeros(len(sizes), *rows.shape[1:])
    return zeros.index_add(0, owners_of(sizes, rows.device), rows)


def mean_of_nodes(rows: Tensor, sizes: Tensor) -> Tensor:
    """Return the mean of the rows of each graph, (B, D) fp32; 0 of a graph without nodes."""
    rows = rows.float()
    if len(rows) and (sizes == sizes[0]).all():
        return rows.unflatten(0, (len(sizes), -1)).mean(dim=1)
    return sum_of_nodes(rows, sizes) / sizes.clamp(min=1).to(rows).unsqueeze(1)


def max_of_nodes(rows: Tensor, sizes: Tensor) -> Tensor:
    """Return the largest number of each column in each graph, (B, D); 0 of no nodes."""
    owners = owners_of(sizes, rows.device).unsqueeze(1).expand_as(rows)
    zeros = rows.new_zeros(len(sizes), rows.shape[1])
    return zeros.scatter_reduce(0, owners, rows, "amax", include_self=False)


def last_node(rows: Tensor, sizes: Tensor) -> Tensor:
    """Return the last row of each graph, (B, D); 0 of a graph without nodes."""
    filled = sizes.nonzero().squeeze(1)
    last = rows[(sizes.cumsum(0) - 1)[filled].to(rows.device)]
    if len(last) == len(sizes):
        return last
    return rows.new_zeros(len(sizes), rows.shape[1]).index_copy(0, filled.to(rows.device), last)


def softmax_per_graph(scores: Tensor, sizes: Tensor) -> Tensor:
    """Return exp(s_i) / sum_j exp(s_j) over the nodes j of the graph of i, for scores (n, ...)."""
    owners = owners_of(sizes, scores.device)
    index = owners.reshape(-1, *[1] * (scores.dim() - 1)).expand_as(scores)
    zeros = scores.new_zeros(len(sizes), *scores.shape[1:])
    largest = zeros.scatter_reduce(0, index, scores.detach(), "amax", include_self=False)
    shares = (scores - largest[owners]).exp()
    return shares / zeros.index_add(0, owners, shares)[owners]


class AttentionPool(nn.Module):
    """sum_i softmax_i(g(h_i)) h_i, g a perceptron of one hidden layer: Li et al., GGNN.

    Gated graph sequence neural networks (arXiv 1511.05493), equation 7, with a softmax for the
    sigmoid.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.gate = nn.Sequential(Linear(dim, dim), nn.ReLU(), Linear(dim, 1))

    def forward(self, rows: Tensor, sizes: Tensor) -> Tensor:
        """Return (B, D) for rows (n, D) and sizes (B,)."""
        return sum_of_nodes(softmax_per_graph(self.gate(rows), sizes) * rows, sizes)


class Set2Set(nn.Module):
    """An LSTM that looks at the nodes several times.

    q_t = LSTM(q*_{t-1}), a_i = softmax_i(h_i . q_t), q*_t = [q_t, sum_i a_i h_i]: Vinyals et al.,
    Order matters (arXiv 1511.06391), equations 3 to 7.
    """

    def __init__(self, dim: int, steps: int):
        super().__init__()
        self.steps, self.cell = steps, nn.LSTMCell(2 * dim, dim)

    def forward(self, rows: Tensor, sizes: Tensor) -> Tensor:
        """Return q*_T, (B, 2 D), for rows (n, D) and sizes (B,)."""
        owners = owners_of(sizes, rows.device)
        zeros = rows.new_zeros(len(sizes), rows.shape[1])
        state, memory = (zeros, zeros), torch.cat([zeros, zeros], dim=1)
        for _ in range(self.steps):
            state = self.cell(memory, state)
            scores = (rows * state[0][owners]).sum(dim=1, keepdim=True)
            read = sum_of_nodes(softmax_per_graph(scores, sizes) * rows, sizes)
            memory = torch.cat([state[0], read], dim=1)
        return memory


class SeedPool(nn.Module):
    """k learned queries that attend to the nodes of a graph, with several heads.

    softmax(S K^T / sqrt(d)) V for seeds S (k, D): pooling by multihead attention, Lee et al., Set
    Transformer (arXiv 1810.00825), section 3.2, without its feed-forward layers.
    """

    def __init__(self, dim: int, seeds: int, heads: int):
        super().__init__()
        self.key, self.value = Linear(dim, dim), Linear(dim, dim)
        self.seeds = nn.Parameter(nn.init.xavier_uniform_(torch.empty(seeds, dim)))
        self.heads = heads

    def forward(self, rows: Tensor, sizes: Tensor) -> Tensor:
        """Return (B, k D) for rows (n, D) and sizes (B,)."""
        split = (-1, self.heads, rows.shape[1] // self.heads)
        seeds, keys, values = (x.reshape(split) for x in
                               (self.seeds, self.key(rows), self.value(rows)))  # fmt: skip
        scores = torch.einsum("khd,nhd->nkh", seeds, keys) * split[2] ** -0.5
        shares = softmax_per_graph(scores, sizes)
        return sum_of_nodes((shares.unsqueeze(-1) * values.unsqueeze(1)).flatten(1), sizes)


def sum_(classes: int, *, dim: Count = 64, layers: Few = 2, dropout: Rate = 0.0) -> Readout:
    """The sum over the nodes, which tells how many there are.

    Args:
        dim: numbers that the model says of each node.
        layers: linear maps after the pool.
        dropout: of what each but the last of them gives.
    """
    return Readout(sum_of_nodes, classes, dim, layers, dropout)


def mean(classes: int, *, dim: Count = 64, layers: Few = 2, dropout: Rate = 0.0) -> Readout:
    """The mean over the nodes.

    Args:
        dim: numbers that the model says of each node.
        layers: linear maps after the pool.
        dropout: of what each but the last of them gives.
    """
    return Readout(mean_of_nodes, classes, dim, layers, dropout)


def max_(classes: int, *, dim: Count = 64, layers: Few = 2, dropout: Rate = 0.0) -> Readout:
    """The largest number of any node, column by column.

    Args:
        dim: numbers that the model says of each node.
        layers: linear maps after the pool.
        dropout: of what each but the last of them gives.
    """
    return Readout(max_of_nodes, classes, dim, layers, dropout)


def attention(classes: int, *, dim: Count = 64, layers: Few = 2, dropout: Rate = 0.0) -> Readout:
    """The mean of the nodes by learned weights: a softmax over those of a graph.

    Args:
        dim: numbers that the model says of each node.
        layers: linear maps after the pool.
        dropout: of what each but the last of them gives.
    """
    return Readout(AttentionPool(dim), classes, dim, layers, dropout)


def set2set(
    classes: int, *, steps: Few = 3, dim: Count = 64, layers: Few = 2, dropout: Rate = 0.0
) -> Readout:
    """An LSTM that attends to the nodes several times.

    Args:
        steps: of the LSTM.
        dim: numbers that the model says of each node.
        layers: linear maps after the pool.
        dropout: of what each but the last of them gives.
    """
    return Readout(Set2Set(dim, steps), classes, dim, layers, dropout, 2 * dim)


def seeds(
    classes: int,
    *,
    seeds: Few = 4,
    heads: Few = 4,
    dim: Count = 64,
    layers: Few = 2,
    dropout: Rate = 0.0,
) -> Readout:
    """Learned queries that attend to the nodes of a graph.

    Args:
        seeds: how many queries.
        heads: of the attention; they divide `dim`.
        dim: numbers that the model says of each node.
        layers: linear maps after the pool.
        dropout: of what each but the last of them gives.
    """
    if dim % heads:
        raise ZooError(f"readout seeds: {heads} heads do not divide dim {dim}; write a multiple.")
    return Readout(SeedPool(dim, seeds, heads), classes, dim, layers, dropout, seeds * dim)


def virtual_node(classes: int, *, dim: Count = 64, layers: Few = 2, dropout: Rate = 0.0) -> Readout:
    """A node that is linked with all others, so that each layer exchanges with it, and is read out.

    Gilmer et al., Neural message passing (arXiv 1704.01212), section 5.2.

    Args:
        dim: numbers that the model says of each node.
        layers: linear maps after the pool.
        dropout: of what each but the last of them gives.
    """
    return Readout(last_node, classes, dim, layers, dropout)


VIRTUAL_NODE = "virtual-node"
"""The readout for which `Samples.with_virtual_nodes` adds a last node to each graph."""

READOUTS = Table(
    "readout",
    {
        "sum": sum_,
        "mean": mean,
        "max": max_,
        "attention": attention,
        "set2set": set2set,
        VIRTUAL_NODE: virtual_node,
        "seeds": seeds,
    },
)
"""Word to builder `(classes, *, options) -> module` of (n, dim) and sizes (B,) to (B, classes).

The module has the attribute `dim`, the numbers that it wants of each node.
"""
