"""A process's share of a graph: given to a model in the place of the graph, with its rows of x.

The nodes are dealt to the processes. A share has all edges that lead to its nodes; what stands at
their other ends is fetched from the other processes by `message_passing`, and by nothing else: a
model's maps, norms and random batches stay inside the share.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.canonical_form import mark_canonical
from zoo.dgl import dgl
from zoo.ops.global_sums import Sums
from zoo.system import process_group


class Shard:
    """The nodes of this process, out of an order in which each process has a stretch.

    Attributes:
        graph: the whole graph of N nodes.
        order: (N,) all nodes, those of process 0 first.
        nodes: (n,) those of this process, in the order of its rows.
        sizes: how many nodes each process has.
        block: a DGL block whose sources are all nodes, as in `order`, and whose targets are the
            rows of this process; its edges are those of the graph that lead to them.
    """

    sums: Sums | None = None
    """Over all nodes: not for a share, whose nodes attend to no others."""

    def __init__(self, graph: dgl.DGLGraph, order: Tensor):
        self.graph, self.order = graph, order.to(graph.device)
        self.sizes = process_group.shares(len(order))
        self._start = sum(self.sizes[: process_group.rank()])
        self.nodes = self.order[self._start : self._start + self.sizes[process_group.rank()]]
        self._places = torch.empty_like(self.order)
        self._places[self.order] = torch.arange(len(order), device=graph.device)
        self.block = self._block()
        mark_canonical(self)

    def batch_num_nodes(self) -> Tensor:
        """Return the nodes of this share, (1,): they attend to no others."""
        return torch.tensor([len(self.nodes)])

    def all_rows(self, x: Tensor) -> Tensor:
        """Return the rows of all processes, (N, ...) as in `order`, for own rows x (n, ...)."""
        return process_group.gather_with_gradient(x, self.sizes)

    def in_place(self, x: Tensor) -> Tensor:
        """Return the rows of all processes as the whole graph numbers them, (N, ...)."""
        return process_group.gather(x, self.sizes)[self._places.to(x.device)]

    def _block(self) -> dgl.DGLGraph:
        nodes = self.nodes.to(self.graph.idtype)
        src, dst, numbers = self.graph.in_edges(nodes, form="all")
        ends = (self._places[src.long()], self._places[dst.long()] - self._start)
        sizes = (len(self.order), len(self.nodes))
        block = dgl.create_block(ends, *sizes, device=self.graph.device)
        for name, values in self.graph.edata.items():
            block.edata[name] = values[numbers.long()]
        return block


Graph = dgl.DGLGraph | Shard
"""What a model is given: a graph, or a share of one."""


def whole(graph: Graph) -> tuple[dgl.DGLGraph, Tensor | slice]:
    """Return the whole graph, and which of its nodes are the rows."""
    return (graph.graph, graph.nodes) if isinstance(graph, Shard) else (graph, slice(None))


def edges(graph: Graph) -> dgl.DGLGraph:
    """Return the edges that lead to the rows."""
    return graph.block if isinstance(graph, Shard) else graph


def sums_over(graph: Graph | None) -> Sums | None:
    """Return who sums over all nodes, where the rows are some of those that attend together."""
    return graph.sums if isinstance(graph, Shard) else None


def sources(graph: Graph, x: Tensor) -> Tensor:
    """Return what stands where these edges start, for x (n, ...) of the rows."""
    return graph.all_rows(x) if isinstance(graph, Shard) else x
