"""Products along the edges of a graph: sums (SpMM), dot products (SDDMM), and softmax.

Edges lead from src u to dst v, in the order of their numbers in the graph; N(v) are the
in-neighbours of v. What is asked of a graph is answered by one of the backends below: torch's
embedding bags in single precision on a CPU, else DGL's kernels where there is DGL and graph and
features share a device, and torch's CSR products or blocks of edges elsewhere. None stores a row of
features per edge, nor keeps one for the gradient. Half precision is computed in fp32, and what
belongs to edges stays so. In the place of a graph a `Shard` of it will do: what its rows gather
from is then fetched from the other processes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from zoo.canonical_form import derived
from zoo.dgl import HAS_DGL, dgl
from zoo.graphs.adjacency import Lists, edge_order, ends, lists, matrices, numbered, quiet_beta
from zoo.graphs.shard import Graph, edges, sources
from zoo.ops.precision import wide
from zoo.ops.second_gradients import second_gradients, with_second_gradients
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
        parts = [tensor if tensor is None else tensor.to(rows.dtype)
                 for tensor in (features, weight, bias, weights)]  # fmt: skip
        return _message_sum(_ends(graph, rows), rows, *parts).to(x.dtype)


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
        return _Csr if x.is_cuda else _Torch
    if x.is_cpu and x.dtype == torch.float32:
        return _Bags
    return _Dgl if HAS_DGL else _Csr if x.is_cuda else _Torch


def _ends(graph, x: Tensor) -> EdgeList:
    return EdgeList(*ends(graph, x.device), graph.num_dst_nodes(), graph.num_src_nodes())


def _rows(graph, x: Tensor) -> Csr:
    numbers = (edge_order(graph, x.device, against) for against in (False, True))
    return Csr(*zip(matrices(graph, x.device, x.dtype), numbers, strict=True))


class _Dgl:
    """DGL's own kernels, where the graph and the features are on one device."""

    spmm = staticmethod(_ends)

    @staticmethod
    def neighbour_sum(graph, x: Tensor) -> Tensor:
        return dgl.ops.copy_u_sum(graph, x)

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


class _Bags:
    """Torch's embedding bags, which sum rows of nodes or numbers of edges."""

    @staticmethod
    def spmm(graph, x: Tensor) -> SpMM:
        return EmbeddingBags(partial(lists, graph))

    @classmethod
    def neighbour_sum(cls, graph, x: Tensor) -> Tensor:
        return _neighbour_sum(x, cls.spmm(graph, x))

    @staticmethod
    def edge_sum(graph, source: Tensor, target: Tensor) -> Tensor:
        return _AtEdges.apply(source, graph, True) + _AtEdges.apply(target, graph, False)

    @staticmethod
    def edge_softmax(graph, scores: Tensor) -> Tensor:
        return _SoftmaxByNode.apply(scores, graph)

    @classmethod
    def edge_dot(cls, graph, source: Tensor, target: Tensor) -> Tensor:
        return _edge_dot(cls.spmm(graph, source), source, target)

    @classmethod
    def weighted_sum(cls, graph, x: Tensor, weights: Tensor) -> Tensor:
        return _weighted_sum(cls.spmm(graph, x), x, weights)


class _Torch:
    """Torch alone: for features on a device that DGL was not built for."""

    @staticmethod
    def neighbour_sum(graph, x: Tensor) -> Tensor:
        flat = sparse_product(x.flatten(1), *matrices(graph, x.device, x.dtype))
        return flat.reshape(-1, *x.shape[1:])

    @staticmethod
    def edge_sum(graph, source: Tensor, target: Tensor) -> Tensor:
        src, dst = ends(graph, source.device)
        return source.index_select(0, src) + target.index_select(0, dst)

    spmm = staticmethod(_ends)

    @classmethod
    def edge_dot(cls, graph, source: Tensor, target: Tensor) -> Tensor:
        return _edge_dot(cls.spmm(graph, source), source, target)

    @staticmethod
    def edge_softmax(graph, scores: Tensor) -> Tensor:
        _, dst = ends(graph, scores.device)
        nodes, rows = (graph.num_dst_nodes(), scores.shape[1]), dst.unsqueeze(-1).expand_as(scores)
        peaks = scores.new_full(nodes, -torch.inf).scatter_reduce(0, rows, scores.detach(), "amax")
        weights = (scores - peaks[dst]).exp()
        return weights / weights.new_zeros(nodes).index_add(0, dst, weights).index_select(0, dst)

    @classmethod
    def weighted_sum(cls, graph, x: Tensor, weights: Tensor) -> Tensor:
        return _weighted_sum(cls.spmm(graph, x), x, weights)


class _Csr(_Torch):
    """Torch's CSR products where it multiplies rows, for a GPU; the rest is torch's as well."""

    spmm = staticmethod(_rows)


class _Traced(_Bags):
    """All of it as operators, for a graph that is noted."""

    @staticmethod
    def spmm(graph, x: Tensor) -> SpMM:
        return TracedSpMM(id(graph))

    @staticmethod
    def edge_sum(graph, source: Tensor, target: Tensor) -> Tensor:
        return _EdgeSum.apply(source, target, TracedSpMM(id(graph)))

    @staticmethod
    def edge_softmax(graph, scores: Tensor) -> Tensor:
        return _EdgeSoftmax.apply(scores, TracedSpMM(id(graph)))


class TracedSpMM(NamedTuple):
    """The edges of the graph of a number, by operators: see `SpMM`."""

    number: int
    against: bool = False

    def turned(self) -> TracedSpMM:
        """See `SpMM`."""
        return TracedSpMM(self.number, not self.against)

    def sum(self, x: Tensor) -> Tensor:
        """See `SpMM`."""
        return _kernel("sum", [x], *self)

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """See `SpMM`."""
        return _kernel("weighted_sum", [x, weights], *self)

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """See `SpMM`."""
        return _kernel("edge_dot", [source, target], *self)


def _like(name: str, tensors: list[Tensor], number: int, against: bool) -> Tensor:
    x, per_node = tensors[0], name in ("sum", "weighted_sum")
    return x.new_empty(x.shape if per_node else (facts_of(number).edges, x.shape[1]))


@operator("(str name, Tensor[] tensors, int number, bool against) -> Tensor", _like)
def _kernel(name: str, tensors: list[Tensor], number: int, against: bool) -> Tensor:
    """Return what an `SpMM` of the graph of a number, or its backend, makes of tensors."""
    graph = graph_of(number)
    backend = _backend(graph, tensors[0])
    if hasattr(SpMM, name):
        spmm = backend.spmm(graph, tensors[0])
        return getattr(spmm.turned() if against else spmm, name)(*tensors)
    return getattr(backend, name)(graph, *tensors)


class _EdgeSum(torch.autograd.Function):
    """Sums of both ends; the gradient of a node is the sum over its edges."""

    @staticmethod
    def forward(ctx, source, target, numbered):
        ctx.spmm, ctx.nodes = numbered, len(source)
        return _kernel("edge_sum", [source, target], *numbered)

    @staticmethod
    def backward(ctx, grad):
        ones = grad.new_ones(ctx.nodes, grad.shape[1], 1)
        ends = ctx.spmm.turned(), ctx.spmm
        sums = [_weighted_sum(x, ones, grad).squeeze(-1) for x in ends]
        return *sums, None


class _EdgeSoftmax(torch.autograd.Function):
    """A softmax over the edges into each node."""

    @staticmethod
    def forward(ctx, scores, numbered):
        shares = _kernel("edge_softmax", [scores], *numbered)
        ctx.spmm = numbered
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx, grad):
        (shares,) = ctx.saved_tensors
        ones = grad.new_ones(facts_of(ctx.spmm.number).nodes, grad.shape[1], 1)
        sums = _weighted_sum(ctx.spmm, ones, shares * grad).squeeze(-1)
        across = _EdgeSum.apply(torch.zeros_like(sums), sums, ctx.spmm)
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

    A CPU-only DGL keeps its graphs on the CPU, as the zoo's own graphs do; propagation of CUDA
    features then runs on torch.
    """
    if not HAS_DGL:
        return graph
    try:
        return derived(graph.to(device), graph)
    except dgl.DGLError:
        return graph


class SpMM(Protocol):
    """Edges, from u to v, that can be run along. None of its results has a gradient."""

    def sum(self, x: Tensor) -> Tensor:
        """Return sum_u x_u, (N, D), for x (M, D)."""

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """Return sum_u w_uv x_u, (N, H, D), for x (M, H, D) and weights (E, H)."""

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """Return source_u . target_v of each edge, (E, H), for (M, H, D) and (N, H, D)."""

    def turned(self) -> SpMM:
        """Return the edges from v to u, with the same numbers."""


def _weighted_sum(spmm: SpMM, x: Tensor, weights: Tensor) -> Tensor:
    """Return sum_u w_uv x_u, (N, H, D), for x (M, H, D) and weights (E, H)."""
    return _WeightedSum.apply(x, weights, spmm)


def _edge_dot(spmm: SpMM, source: Tensor, target: Tensor) -> Tensor:
    """Return source_u . target_v of each edge, (E, H), for (M, H, D) and (N, H, D)."""
    return _EdgeDot.apply(source, target, spmm)


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weights, spmm):
        ctx.spmm = spmm
        ctx.save_for_backward(x, weights)
        return spmm.weighted_sum(x, weights)

    @staticmethod
    def backward(ctx, grad):
        x, weights = ctx.saved_tensors
        grad_x, grad_weights, _ = ctx.needs_input_grad
        return (
            _weighted_sum(ctx.spmm.turned(), grad, weights) if grad_x else None,
            _edge_dot(ctx.spmm, x, grad) if grad_weights else None,
            None,
        )


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, source, target, spmm):
        ctx.spmm = spmm
        ctx.save_for_backward(source, target)
        return spmm.edge_dot(source, target)

    @staticmethod
    def backward(ctx, grad):
        source, target = ctx.saved_tensors
        grad_source, grad_target, _ = ctx.needs_input_grad
        return (
            _weighted_sum(ctx.spmm.turned(), target, grad) if grad_source else None,
            _weighted_sum(ctx.spmm, source, grad) if grad_target else None,
            None,
        )


def _message_sum(
    ends: EdgeList,
    x: Tensor,
    features: Tensor,
    weight: Tensor,
    bias: Tensor,
    weights: Tensor | None,
) -> Tensor:
    """Return sum_u w_uv ReLU(x_u + W f_uv + b), (N, D); see `message_sum`."""
    return _MessageSum.apply(x, features, weight, bias, weights, ends)


class _MessageSum(torch.autograd.Function):
    """Messages exist a block at a time, and are made again for the gradient."""

    @staticmethod
    def forward(ctx, x, features, weight, bias, weights, ends):
        ctx.ends = ends
        ctx.save_for_backward(x, features, weight, bias, weights)
        out = x.new_zeros(ends.targets, x.shape[1])
        for block in _blocks(x.unsqueeze(1), ends.src):
            messages = _before(block, ends, x, features, weight, bias).relu_()
            if weights is not None:
                messages *= weights[block].unsqueeze(-1)
            out.index_add_(0, ends.dst[block], messages)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, features, weight, bias, weights = ctx.saved_tensors
        ends, needed = ctx.ends, ctx.needs_input_grad
        if torch.is_grad_enabled():
            return *second_gradients(partial(_messages, ends), ctx.saved_tensors, grad), None
        grad_x, grad_weight, grad_bias = map(torch.zeros_like, (x, weight, bias))
        grad_features = torch.empty_like(features) if needed[1] else None
        grad_weights = torch.empty_like(weights) if needed[4] else None
        for block in _blocks(x.unsqueeze(1), ends.src):
            before = _before(block, ends, x, features, weight, bias)
            own = grad.index_select(0, ends.dst[block])
            if grad_weights is not None:
                grad_weights[block] = (before.relu() * own).sum(-1)
            own *= before > 0
            if weights is not None:
                own *= weights[block].unsqueeze(-1)
            grad_x.index_add_(0, ends.src[block], own)
            grad_weight += own.mT @ features[block]
            grad_bias += own.sum(0)
            if grad_features is not None:
                grad_features[block] = own @ weight
        return grad_x, grad_features, grad_weight, grad_bias, grad_weights, None


def _messages(ends: EdgeList, x, features, weight, bias, weights: Tensor | None) -> Tensor:
    """Return what `message_sum` does, by operations that autograd knows, of all edges at once."""
    messages = _before(slice(None), ends, x, features, weight, bias).relu()
    messages = messages if weights is None else messages * weights.unsqueeze(-1)
    return x.new_zeros(ends.targets, x.shape[1]).index_add(0, ends.dst, messages)


def _before(block: slice, ends: EdgeList, x, features, weight, bias) -> Tensor:
    """Return x_u + W f_uv + b of a block of edges, (B, D)."""
    linear = torch.addmm(bias, features[block], weight.mT)
    return linear.add_(x.index_select(0, ends.src[block]))


class EdgeList(NamedTuple):
    """Edges by the nodes at their ends; a block of their rows of features exists at a time.

    Attributes:
        src: where each edge starts, (E,).
        dst: where it leads, (E,).
        targets: N.
        sources: M.
    """

    src: Tensor
    dst: Tensor
    targets: int
    sources: int

    def turned(self) -> EdgeList:
        """See `SpMM`."""
        return EdgeList(self.dst, self.src, self.sources, self.targets)

    def sum(self, x: Tensor) -> Tensor:
        """See `SpMM`."""
        ones = x.new_ones(1).expand(len(self.src), 1)
        return self.weighted_sum(x.unsqueeze(1), ones).squeeze(1)

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """See `SpMM`."""
        out = x.new_zeros(self.targets, *x.shape[1:])
        for block in _blocks(x, self.src):
            rows = x.index_select(0, self.src[block]) * weights[block].unsqueeze(-1)
            out.index_add_(0, self.dst[block], rows)
        return out

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """See `SpMM`."""
        out = source.new_empty(len(self.src), source.shape[1])
        for block in _blocks(source, self.src):
            one = source.index_select(0, self.src[block])
            out[block] = (one * target.index_select(0, self.dst[block])).sum(-1)
        return out

    def softmax_gradient(self, weights: Tensor, grad: Tensor) -> Tensor:
        """Return the gradient of the scores (E, H), by that of their softmax over each N(v)."""
        shares = weights * grad
        sums = shares.new_zeros(self.targets, shares.shape[1]).index_add(0, self.dst, shares)
        return shares - weights * sums.index_select(0, self.dst)


_NUMBERS = 2**23  # per block of edges: their rows of features exist at a time, (B, H, D)


def _blocks(x: Tensor, edges: Tensor) -> Iterator[slice]:
    """Cut the edges so that their rows of x (N, H, D) are few enough to exist at a time."""
    size = max(1, _NUMBERS // max(1, x.shape[1] * x.shape[2]))
    return (slice(start, start + size) for start in range(0, len(edges), size))


class Csr(NamedTuple):
    """Edges in compressed rows, which need no atomic sums: a product for each head.

    Attributes:
        into: A (N, M) as CSR of ones, and the number of each of its entries as an edge, (E,);
            no numbers where they are in order.
        out: A^T and its numbers, likewise.
    """

    into: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]

    def turned(self) -> Csr:
        """See `SpMM`."""
        return Csr(self.out, self.into)

    def sum(self, x: Tensor) -> Tensor:
        """See `SpMM`."""
        return self.into[0] @ x

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """See `SpMM`."""
        matrix, numbers = self.into
        weights = weights[numbers] if len(numbers) else weights
        heads = zip(x.unbind(1), weights.unbind(1), strict=True)
        products = [_filled(matrix, w.contiguous()) @ values.contiguous() for values, w in heads]
        return torch.stack(products, dim=1)

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """See `SpMM`."""
        matrix, numbers = self.into
        empty = _filled(matrix, torch.zeros_like(matrix.values()))
        scores = sampled(empty, target, source)
        return torch.empty_like(scores).index_copy_(0, numbers, scores) if len(numbers) else scores


def sampled(zeros: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return row_i . column_j at the entries of a CSR matrix (N, M) of zeros, (E, H).

    Args:
        zeros: the matrix; an entry may be there several times.
        rows: (N, H, D).
        columns: (M, H, D).
    """
    if len(zeros.values()) > len(rows) * len(columns):  # more than torch's kernel takes
        every = torch.einsum("nhd,mhd->nmh", rows, columns)
        counts, places = zeros.crow_indices().diff(), zeros.col_indices().long()
        return every[torch.repeat_interleave(counts), places]
    heads = zip(rows.unbind(1), columns.unbind(1), strict=True)
    dots = [
        torch.sparse.sampled_addmm(zeros, row.contiguous(), column.mT, beta=0.0).values()
        for row, column in heads
    ]
    return torch.stack(dots, dim=1)


def _filled(matrix: Tensor, values: Tensor) -> Tensor:
    """Return a CSR matrix with the entries of another where it has some."""
    parts = matrix.crow_indices(), matrix.col_indices(), values
    with quiet_beta():
        return torch.sparse_csr_tensor(
            *parts, matrix.shape, device=values.device, check_invariants=False
        )


_LONG = 64  # neighbours of a node, on average, from which on
_COLUMNS = 64  # so many columns are summed at a time: more of their rows are in the caches


class EmbeddingBags(NamedTuple):
    """Edges by embedding bags: see `SpMM`.

    Attributes:
        lists: gives the edges by the node that they lead to or, asked with True, start from.
        against: whether to run from where they lead to where they start.
    """

    lists: Callable[[bool], Lists]
    against: bool = False

    def turned(self) -> EmbeddingBags:
        """Return the edges the other way round."""
        return EmbeddingBags(self.lists, not self.against)

    def sum(self, x: Tensor) -> Tensor:
        """Return sum_u x_u, (N, D), for x (M, D)."""
        return summed(x, self.lists(self.against))

    def weighted_sum(self, x: Tensor, weights: Tensor) -> Tensor:
        """Return sum_u w_uv x_u, (N, H, D), for x (M, H, D) and weights (E, H)."""
        into = self.lists(self.against)
        weights = weights.index_select(0, into.edges) if len(into.edges) else weights
        heads = enumerate(weights.mT.contiguous())  # (H, E)
        sums = [summed(x[:, head], into, weight) for head, weight in heads]
        return torch.stack(sums, dim=1) if len(sums) > 1 else sums[0].unsqueeze(1)

    def edge_dot(self, source: Tensor, target: Tensor) -> Tensor:
        """Return source_u . target_v of each edge, (E, H), for (M, H, D) and (N, H, D)."""
        lists, rows, columns = self.lists(self.against), target, source
        if len(lists.edges) and not len(self.lists(not self.against).edges):  # those are in order
            lists, rows, columns = self.lists(not self.against), source, target
        size, zeros = (len(rows), len(columns)), source.new_zeros(len(lists.others))
        with quiet_beta():
            pattern = torch.sparse_csr_tensor(
                lists.offsets, lists.others, zeros, size, check_invariants=False
            )
            dots = sampled(pattern, rows, columns)
        if not len(lists.edges):
            return dots
        return torch.empty_like(dots).index_copy_(0, lists.edges.long(), dots)


def _neighbour_sum(x: Tensor, spmm: SpMM) -> Tensor:
    """Return the sum of x over in-neighbours, (N, ...), for x (M, ...)."""
    return _Sum.apply(x.flatten(1), spmm).unflatten(1, x.shape[1:])


class _Sum(torch.autograd.Function):
    """Sums along the edges, whose gradients are those against them."""

    @staticmethod
    def forward(ctx, x, spmm):
        ctx.spmm = spmm
        return spmm.sum(x)

    @staticmethod
    def backward(ctx, gradient):
        return _Sum.apply(gradient, ctx.spmm.turned()), None


class _AtEdges(torch.autograd.Function):
    """Give each edge the row of the node that it leads to or, `against` it, starts from, (E, H)."""

    @staticmethod
    def forward(ctx, x, graph, against):
        ctx.graph, ctx.against = graph, against
        return x.index_select(0, ends(graph, x.device)[0 if against else 1])

    @staticmethod
    def backward(ctx, grad):
        return _AtNodes.apply(grad, ctx.graph, ctx.against), None, None


class _AtNodes(torch.autograd.Function):
    """Sum the rows of the edges (E, H) that lead to each node or, `against` them, start from it."""

    @staticmethod
    def forward(ctx, rows, graph, against):
        ctx.graph, ctx.against = graph, against
        of = lists(graph, against)
        return _summed(rows.detach().contiguous(), of._replace(others=_numbers(of)), None)

    @staticmethod
    def backward(ctx, grad):
        return _AtEdges.apply(grad, ctx.graph, ctx.against), None, None


class _SoftmaxByNode(torch.autograd.Function):
    """The softmax of scores (E, H) over the edges that lead to the same node."""

    @staticmethod
    def forward(ctx, scores, graph):
        of = lists(graph, False)
        rows = scores.index_select(0, of.edges) if len(of.edges) else scores.contiguous()
        peaks = torch.segment_reduce(rows, "max", offsets=of.offsets, unsafe=True)
        weights = _AtEdges.apply(peaks, graph, False)
        torch.sub(scores, weights, out=weights).exp_()
        weights /= _AtEdges.apply(_AtNodes.apply(weights, graph, False), graph, False)
        ctx.graph = graph
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, grad):
        (weights,) = ctx.saved_tensors
        shares = weights * grad
        sums = _AtNodes.apply(shares, ctx.graph, False)
        across = _AtEdges.apply(sums, ctx.graph, False)
        return torch.addcmul(shares, weights, across, value=-1), None


def _numbers(of: Lists) -> Tensor:
    """Return the numbers of the edges of lists, also where they are in order, (E,)."""
    return of.edges if len(of.edges) else torch.arange(len(of.others), dtype=of.others.dtype)


def summed(x: Tensor, of: Lists, weights: Tensor | None = None) -> Tensor:
    """Return the sum over each list, (N, D), of the rows of x (M, D) times weights (E,)."""
    x = x.detach()  # else it would remember what a gradient of its own needs
    if x.shape[1] <= _COLUMNS or len(of.others) < _LONG * len(of.offsets):
        return _summed(x, of, weights)
    out = x.new_empty(len(of.offsets) - 1, x.shape[1])
    for into, columns in zip(out.split(_COLUMNS, 1), x.split(_COLUMNS, 1), strict=True):
        into.copy_(_summed(columns.contiguous(), of, weights))
    return out


def _summed(x: Tensor, of: Lists, weights: Tensor | None) -> Tensor:
    return functional.embedding_bag(
        of.others,
        x,
        of.offsets,
        mode="sum",
        per_sample_weights=weights,
        include_last_offset=True,
    )
