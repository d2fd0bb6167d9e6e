"""What propagation computes on the edges of a graph, by DGL's kernels or by torch's.

DGL does the work where graph and features share a device; elsewhere (a CPU-only DGL wheel and
features on CUDA) torch does, by CSR products. In single precision on a CPU, sums are torch's
embedding bags. Every function here has all forms, in the classes `_Dgl`, `_Bags`, `_Torch` and
`_Rows` under one name. None stores a row of features per edge, nor keeps one for the gradient.

Edges lead from u to v, in the order of their numbers in the graph; N(v) are the in-neighbours of v.
Half precision is computed in fp32, and what belongs to edges stays so. In the place of a graph a
`Shard` of it will do: what its rows gather from is then fetched from the other processes first.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.canonical_form import derived
from zoo.dgl import dgl
from zoo.graphs import along, spmm_cpu
from zoo.graphs.adjacency import edge_order, ends, lists, matrices, numbered
from zoo.graphs.along import Along, Ends, Rows
from zoo.graphs.shard import Graph, edges, sources
from zoo.graphs.spmm_cpu import Bags
from zoo.ops.precision import wide
from zoo.ops.second_gradients import with_second_gradients
from zoo.system.context import context
from zoo.tracing import facts, facts_of, graph_of, operator


def neighbour_sum(graph: Graph, x: Tensor) -> Tensor:
    """Return the sum of x over in-neighbours, A x, for x (N, ...)."""
    return _run("neighbour_sum", graph, sources(graph, x)).to(x.dtype)


def weighted_sum(graph: Graph, x: Tensor, weights: Tensor) -> Tensor:
    """Return sum_{u in N(v)} w_uv x_u, (N, H, D), for x (N, H, D) and weights (E, H)."""
    return _run("weighted_sum", graph, sources(graph, x), weights).to(x.dtype)


def message_sum(
    graph: Graph, x: Tensor, features: Tensor, weight: Tensor, bias: Tensor, weights: Tensor | None
) -> Tensor:
    """Return sum_{u in N(v)} w_uv ReLU(x_u + W f_uv + b), (N, D), for x (N, D).

    Args:
        graph: of N nodes and E edges.
        x: of the nodes.
        features: f (E, F) of the edges.
        weight: W (D, F).
        bias: b (D,).
        weights: w (E,) of the edges; None: 1.
    """
    with torch.autocast(x.device.type, enabled=False):
        rows, graph = wide(sources(graph, x)), edges(graph)
        parts = [each if each is None else each.to(rows.dtype)
                 for each in (features, weight, bias, weights)]  # fmt: skip
        return along.message_sum(_ends(graph, rows), rows, *parts).to(x.dtype)


def edge_sum(graph: Graph, source: Tensor, target: Tensor) -> Tensor:
    """Return source_u + target_v on every edge, (E, H), for both (N, H)."""
    return _run("edge_sum", graph, sources(graph, source), target)


def edge_dot(graph: Graph, source: Tensor, target: Tensor) -> Tensor:
    """Return source_u . target_v on every edge, (E, H), for both (N, H, D)."""
    return _run("edge_dot", graph, sources(graph, source), target)


def edge_softmax(graph: Graph, scores: Tensor) -> Tensor:
    """Return the softmax of scores (E, H) over the edges that lead to the same node, (E, H)."""
    return _run("edge_softmax", graph, scores)


def _run(name: str, graph, *tensors: Tensor) -> Tensor:
    with torch.autocast(tensors[0].device.type, enabled=False):
        graph = edges(graph)
        return getattr(_backend(graph, tensors[0]), name)(graph, *map(wide, tensors))


def _backend(graph, x: Tensor) -> type[_Dgl | _Torch | _Traced]:
    if facts(graph):
        return _Traced
    if graph.device != x.device or context().torch_only:
        return _Rows if x.is_cuda else _Torch
    return _Bags if x.is_cpu and x.dtype == torch.float32 else _Dgl


def _ends(graph, x: Tensor) -> Ends:
    return Ends(*ends(graph, x.device), graph.num_dst_nodes(), graph.num_src_nodes())


def _rows(graph, x: Tensor) -> Rows:
    numbers = (edge_order(graph, x.device, against) for against in (False, True))
    return Rows(*zip(matrices(graph, x.device, x.dtype), numbers, strict=True))


class _Dgl:
    """DGL's own kernels, where the graph and the features are on one device."""

    along = staticmethod(_ends)
    neighbour_sum = staticmethod(dgl.ops.copy_u_sum)

    @staticmethod
    def edge_sum(graph, source: Tensor, target: Tensor) -> Tensor:
        return dgl.ops.u_add_v(numbered(graph), source, target)

    @staticmethod
    def edge_softmax(graph, scores: Tensor) -> Tensor:
        softmax, again = partial(dgl.ops.edge_softmax, numbered(graph)), _ends(graph, scores)
        return with_second_gradients(softmax, again.softmax_gradient, scores)

    @staticmethod
    def edge_dot(graph, source: Tensor, target: Tensor) -> Tensor:
        return dgl.ops.u_dot_v(numbered(graph), source, target).squeeze(-1)

    @staticmethod
    def weighted_sum(graph, x: Tensor, weights: Tensor) -> Tensor:
        return dgl.ops.u_mul_e_sum(numbered(graph), x, weights.unsqueeze(-1))


class _Bags(_Dgl):
    """Torch's embedding bags where DGL sums or multiplies rows; the rest is DGL's."""

    @staticmethod
    def along(graph, x: Tensor) -> Along:
        return Bags(partial(lists, graph))

    @classmethod
    def neighbour_sum(cls, graph, x: Tensor) -> Tensor:
        return spmm_cpu.neighbour_sum(x, cls.along(graph, x))

    @classmethod
    def edge_dot(cls, graph, source: Tensor, target: Tensor) -> Tensor:
        return along.edge_dot(cls.along(graph, source), source, target)

    @classmethod
    def weighted_sum(cls, graph, x: Tensor, weights: Tensor) -> Tensor:
        return along.weighted_sum(cls.along(graph, x), x, weights)


class _Torch:
    """Torch alone: for features on a device that DGL was not built for."""

    @staticmethod
    def neighbour_sum(graph, x: Tensor) -> Tensor:
        flat = sparse_product(x.flatten(1), *matrices(graph, x.device, x.dtype))
        return flat.reshape(-1, *x.shape[1:])

    @staticmethod
    def edge_sum(graph, source: Tensor, target: Tensor) -> Tensor:
        tails, tips = ends(graph, source.device)
        return source.index_select(0, tails) + target.index_select(0, tips)

    along = staticmethod(_ends)

    @classmethod
    def edge_dot(cls, graph, source: Tensor, target: Tensor) -> Tensor:
        return along.edge_dot(cls.along(graph, source), source, target)

    @staticmethod
    def edge_softmax(graph, scores: Tensor) -> Tensor:
        _, tips = ends(graph, scores.device)
        nodes, rows = (graph.num_dst_nodes(), scores.shape[1]), tips.unsqueeze(-1).expand_as(scores)
        peaks = scores.new_full(nodes, -torch.inf).scatter_reduce(0, rows, scores.detach(), "amax")
        weights = (scores - peaks[tips]).exp()
        return weights / weights.new_zeros(nodes).index_add(0, tips, weights).index_select(0, tips)

    @classmethod
    def weighted_sum(cls, graph, x: Tensor, weights: Tensor) -> Tensor:
        return along.weighted_sum(cls.along(graph, x), x, weights)


class _Rows(_Torch):
    """Torch's CSR products where it multiplies rows, for a GPU; the rest is torch's as well."""

    along = staticmethod(_rows)


class _Traced(_Bags):
    """All of it as operators, for a graph that is noted."""

    @staticmethod
    def along(graph, x: Tensor) -> Along:
        return Numbered(id(graph))

    @staticmethod
    def edge_sum(graph, source: Tensor, target: Tensor) -> Tensor:
        return _EdgeSum.apply(source, target, Numbered(id(graph)))

    @staticmethod
    def edge_softmax(graph, scores: Tensor) -> Tensor:
        return _EdgeSoftmax.apply(scores, Numbered(id(graph)))


class Numbered(NamedTuple):
    """The edges of the graph of a number, by operators: see `zoo.graphs.along`."""

    number: int
    against: bool = False

    def turned(self) -> Numbered:
        """See `Along`."""
        return Numbered(self.number, not self.against)

    def sum(self, x: Tensor) -> Tensor:
        """See `Along`."""
        return _kernel("sum", [x], *self)

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """See `Along`."""
        return _kernel("weighted_sum", [x, weights], *self)

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """See `Along`."""
        return _kernel("edge_dot", [source, target], *self)


def _like(name: str, tensors: list[Tensor], number: int, against: bool) -> Tensor:
    x, per_node = tensors[0], name in ("sum", "weighted_sum")
    return x.new_empty(x.shape if per_node else (facts_of(number).edges, x.shape[1]))


@operator("(str name, Tensor[] tensors, int number, bool against) -> Tensor", _like)
def _kernel(name: str, tensors: list[Tensor], number: int, against: bool) -> Tensor:
    """Return what an `Along` of the graph of a number, or its backend, makes of tensors."""
    graph = graph_of(number)
    backend = _backend(graph, tensors[0])
    if hasattr(Along, name):
        along = backend.along(graph, tensors[0])
        return getattr(along.turned() if against else along, name)(*tensors)
    return getattr(backend, name)(graph, *tensors)


class _EdgeSum(torch.autograd.Function):
    """Sums of both ends; the gradient of a node is the sum over its edges."""

    @staticmethod
    def forward(ctx, source, target, numbered):
        ctx.along, ctx.nodes = numbered, len(source)
        return _kernel("edge_sum", [source, target], *numbered)

    @staticmethod
    def backward(ctx, grad):
        ones = grad.new_ones(ctx.nodes, grad.shape[1], 1)
        ends = ctx.along.turned(), ctx.along
        sums = [along.weighted_sum(each, ones, grad).squeeze(-1) for each in ends]
        return *sums, None


class _EdgeSoftmax(torch.autograd.Function):
    """A softmax over the edges into each node."""

    @staticmethod
    def forward(ctx, scores, numbered):
        shares = _kernel("edge_softmax", [scores], *numbered)
        ctx.along = numbered
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx, grad):
        (shares,) = ctx.saved_tensors
        ones = grad.new_ones(facts_of(ctx.along.number).nodes, grad.shape[1], 1)
        sums = along.weighted_sum(ctx.along, ones, shares * grad).squeeze(-1)
        across = _EdgeSum.apply(torch.zeros_like(sums), sums, ctx.along)
        return shares * (grad - across), None


def sparse_product(x: Tensor, matrix: Tensor, transposed: Tensor) -> Tensor:
    """Return A x for x (M, ...), a CSR matrix A (N, M) and its transpose, also as CSR."""
    return _SparseProduct.apply(x, matrix, transposed)


class _SparseProduct(torch.autograd.Function):
    """A x by torch CSR, whose gradient is the product with the stored A^T."""

    @staticmethod
    def forward(ctx, x, matrix, transposed):
        ctx.matrices = (transposed, matrix)
        return matrix @ x

    @staticmethod
    def backward(ctx, gradient):
        return _SparseProduct.apply(gradient.contiguous(), *ctx.matrices), None, None


def place(graph: dgl.DGLGraph, device: torch.device | str) -> dgl.DGLGraph:
    """Return the graph on the device where DGL can hold it there, else the graph as it is.

    A CPU-only DGL keeps its graphs on the CPU; propagation of CUDA features then runs on torch.
    """
    try:
        return derived(graph.to(device), graph)
    except dgl.DGLError:
        return graph
