"""What propagation computes on the edges of a graph, by DGL's kernels or by torch alone.

DGL does the work where graph and features share a device; elsewhere (a CPU-only DGL wheel and
features on CUDA) torch does. Every function here has both forms, in the classes `_Dgl` and `_Torch`
under one name. Neither stores a row of features per edge, nor keeps one for the gradient.

Edges lead from u to v, in the order of their numbers in the graph; N(v) are the in-neighbours of v.
Half precision is computed in fp32, and what belongs to edges stays so. Degrees, ends and CSR
matrices are found once per graph and device and live as long as the graph, on which nothing is
written.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
import weakref
from collections.abc import Callable, Iterator

import dgl
import torch
from scipy import sparse
from torch import Tensor

from zoo.precision import wide


def neighbour_sum(graph: dgl.DGLGraph, x: Tensor) -> Tensor:
    """Return the sum of x over in-neighbours, A x, for x (N, ...)."""
    return _run("neighbour_sum", graph, x).to(x.dtype)


def weighted_sum(graph: dgl.DGLGraph, x: Tensor, weights: Tensor) -> Tensor:
    """Return sum_{u in N(v)} w_uv x_u, (N, H, D), for x (N, H, D) and weights (E, H)."""
    return _run("weighted_sum", graph, x, weights).to(x.dtype)


def edge_sum(graph: dgl.DGLGraph, source: Tensor, target: Tensor) -> Tensor:
    """Return source_u + target_v on every edge, (E, H), for both (N, H)."""
    return _run("edge_sum", graph, source, target)


def edge_dot(graph: dgl.DGLGraph, source: Tensor, target: Tensor) -> Tensor:
    """Return source_u . target_v on every edge, (E, H), for both (N, H, D)."""
    return _run("edge_dot", graph, source, target)


def edge_softmax(graph: dgl.DGLGraph, scores: Tensor) -> Tensor:
    """Return the softmax of scores (E, H) over the edges that lead to the same node, (E, H)."""
    return _run("edge_softmax", graph, scores)


def degrees(graph: dgl.DGLGraph, device: torch.device | str = "cpu") -> Tensor:
    """Return the in-degree of each node, (N,) fp32 on the device, at least 1."""
    return _degrees(graph, torch.device(device))


def out_degrees(graph: dgl.DGLGraph, device: torch.device | str = "cpu") -> Tensor:
    """Return the out-degree of each node, (N,) fp32 on the device, at least 1."""
    return _out_degrees(graph, torch.device(device))


def ends(graph: dgl.DGLGraph, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return where each edge starts and where it leads, (E,) and (E,) int64 on the device."""
    return _ends(graph, torch.device(device))


def walks(graph: dgl.DGLGraph, order: int) -> dgl.DGLGraph:
    """Return the graph with one edge for each pair of nodes that a walk of 2^order edges joins.

    Computed once per graph, by squaring the sparse pattern; order 0 is the graph itself. The
    orders fill up: their edges are bounded by N^2 only, and a hub joins all its neighbours.
    """
    return _walks(graph, order) if order else graph


def _run(name: str, graph, *tensors: Tensor) -> Tensor:
    with torch.autocast(tensors[0].device.type, enabled=False):
        return getattr(_backend(graph, tensors[0]), name)(graph, *map(wide, tensors))


def _backend(graph, x: Tensor) -> type[_Dgl] | type[_Torch]:
    return _Dgl if graph.device == x.device else _Torch


class _Dgl:
    """DGL's own kernels, where the graph and the features are on one device."""

    neighbour_sum = staticmethod(dgl.ops.copy_u_sum)
    edge_sum = staticmethod(dgl.ops.u_add_v)
    edge_softmax = staticmethod(dgl.ops.edge_softmax)

    @staticmethod
    def edge_dot(graph, source: Tensor, target: Tensor) -> Tensor:
        return dgl.ops.u_dot_v(graph, source, target).squeeze(-1)

    @staticmethod
    def weighted_sum(graph, x: Tensor, weights: Tensor) -> Tensor:
        return dgl.ops.u_mul_e_sum(graph, x, weights.unsqueeze(-1))


class _Torch:
    """Torch alone: for features on a device that DGL was not built for."""

    @staticmethod
    def neighbour_sum(graph, x: Tensor) -> Tensor:
        flat = sparse_product(x.flatten(1), *_matrices(graph, x.device, x.dtype))
        return flat.reshape(x.shape)

    @staticmethod
    def edge_sum(graph, source: Tensor, target: Tensor) -> Tensor:
        tails, tips = ends(graph, source.device)
        return source.index_select(0, tails) + target.index_select(0, tips)

    @staticmethod
    def edge_dot(graph, source: Tensor, target: Tensor) -> Tensor:
        return _EdgeDot.apply(source, target, *ends(graph, source.device))

    @staticmethod
    def edge_softmax(graph, scores: Tensor) -> Tensor:
        _, tips = ends(graph, scores.device)
        nodes, rows = (graph.num_nodes(), scores.shape[1]), tips.unsqueeze(-1).expand_as(scores)
        peaks = scores.new_full(nodes, -torch.inf).scatter_reduce(0, rows, scores.detach(), "amax")
        weights = (scores - peaks[tips]).exp()
        return weights / weights.new_zeros(nodes).index_add(0, tips, weights).index_select(0, tips)

    @staticmethod
    def weighted_sum(graph, x: Tensor, weights: Tensor) -> Tensor:
        return _WeightedSum.apply(x, weights, *ends(graph, x.device))


@contextlib.contextmanager
def quiet_beta() -> Iterator[None]:
    """Silence torch's remark that CSR tensors are in beta, which is none of the user's business."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        yield


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


_NUMBERS = 2**23  # per block of edges: their rows of features exist at a time, (B, H, D)


class _WeightedSum(torch.autograd.Function):
    """Sums over in-neighbours, whose gradients are those over out-neighbours and dot products."""

    @staticmethod
    def forward(ctx, x, weights, tails, tips):
        ctx.save_for_backward(x, weights, tails, tips)
        out = torch.zeros_like(x)
        for block in _blocks(x, tails):
            rows = x.index_select(0, tails[block]) * weights[block].unsqueeze(-1)
            out.index_add_(0, tips[block], rows)
        return out

    @staticmethod
    def backward(ctx, gradient):
        x, weights, tails, tips = ctx.saved_tensors
        against = _WeightedSum.apply(gradient, weights, tips, tails)
        return against, _EdgeDot.apply(x, gradient, tails, tips), None, None


class _EdgeDot(torch.autograd.Function):
    """Dot products along edges, whose gradients are weighted sums along and against them."""

    @staticmethod
    def forward(ctx, source, target, tails, tips):
        ctx.save_for_backward(source, target, tails, tips)
        out = source.new_empty(len(tails), source.shape[1])
        for block in _blocks(source, tails):
            one, other = source.index_select(0, tails[block]), target.index_select(0, tips[block])
            out[block] = (one * other).sum(-1)
        return out

    @staticmethod
    def backward(ctx, gradient):
        source, target, tails, tips = ctx.saved_tensors
        against = _WeightedSum.apply(target, gradient, tips, tails)
        return against, _WeightedSum.apply(source, gradient, tails, tips), None, None


def _blocks(x: Tensor, edges: Tensor) -> Iterator[slice]:
    """Cut the edges so that their rows of x (N, H, D) are few enough to exist at a time."""
    size = max(1, _NUMBERS // max(1, x.shape[1] * x.shape[2]))
    return (slice(start, start + size) for start in range(0, len(edges), size))


def _per_graph(compute: Callable) -> Callable:
    """Compute once per graph and arguments; forget with the graph, or when its edges change."""
    known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @functools.wraps(compute)
    def look_up(graph, *arguments):
        index = graph._graph  # replaced by DGL whenever nodes or edges are added or removed
        if graph not in known or known[graph][0] is not index:
            known[graph] = (index, {})
        results = known[graph][1]
        if arguments not in results:
            results[arguments] = compute(graph, *arguments)
        return results[arguments]

    return look_up


@_per_graph
def _degrees(graph, device: torch.device) -> Tensor:
    return graph.in_degrees().to(device).float().clamp(min=1)


@_per_graph
def _out_degrees(graph, device: torch.device) -> Tensor:
    return graph.out_degrees().to(device).float().clamp(min=1)


@_per_graph
def _ends(graph, device: torch.device) -> tuple[Tensor, Tensor]:
    tails, tips = graph.edges()
    return tails.to(device).long(), tips.to(device).long()


@_per_graph
def _walks(graph, order: int) -> dgl.DGLGraph:
    half, n = walks(graph, order - 1), graph.num_nodes()
    offsets, indices, _ = (each.cpu().numpy() for each in half.adj_tensors("csr"))
    # Booleans: the number of walks between two nodes may be large, and does not matter.
    pattern = sparse.csr_array((indices >= 0, indices, offsets), shape=(n, n))
    longer = (pattern @ pattern).tocsr()
    parts = [torch.from_numpy(each).to(graph.idtype) for each in (longer.indptr, longer.indices)]
    return dgl.graph(("csr", (*parts, [])), num_nodes=n, device=graph.device)


@_per_graph
def _matrices(graph, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return A and A^T as CSR; one tensor serves as both where the edges are symmetric."""
    n = graph.num_nodes()
    with quiet_beta():
        into, out = (
            torch.sparse_csr_tensor(
                offsets,
                indices,
                torch.ones(len(indices), dtype=dtype),
                (n, n),
                device=device,
                check_invariants=False,
            )
            for offsets, indices, _ in (graph.adj_tensors("csc"), graph.adj_tensors("csr"))
        )
    symmetric = torch.equal(into.crow_indices(), out.crow_indices()) and torch.equal(
        into.col_indices(), out.col_indices()
    )
    return into, into if symmetric else out
