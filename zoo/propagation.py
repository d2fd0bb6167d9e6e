"""Propagation along the edges of a graph: GCN, the mean of neighbours, and graph attention.

A propagation maps `(graph, x)` to what each node gathers from its neighbours, in the shape of x.
It is a function, or a module when it has weights; linear maps of x stay in the model.

DGL's kernels do the work where they support the device of x; elsewhere (a CPU-only DGL wheel and
features on CUDA) torch does. Degrees and CSR matrices are computed once per graph and device and
live as long as the graph; nothing is written on the graph itself.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable

import dgl
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional

from zoo.table import Count, Table

Propagation = Callable[[dgl.DGLGraph, Tensor], Tensor]


def gcn(graph: dgl.DGLGraph, x: Tensor) -> Tensor:
    """Return D^-1/2 A D^-1/2 x for x (N, ...), D the in-degrees.

    Kipf and Welling (arXiv 1609.02907), equation 8; A holds the self-loops of the canonical graph.
    Nodes are scaled, neighbours summed, nodes scaled again: no weight per edge is ever stored.
    """
    wide = _wide(x)
    scale = _degree_column(graph, wide).rsqrt()
    return (neighbour_sum(graph, wide * scale) * scale).to(x.dtype)


def mean(graph: dgl.DGLGraph, x: Tensor) -> Tensor:
    """Return the mean over in-neighbours, D^-1 A x, for x (N, ...); 0 for nodes without any."""
    wide = _wide(x)
    return (neighbour_sum(graph, wide) / _degree_column(graph, wide)).to(x.dtype)


def relation(graph: dgl.DGLGraph, x: Tensor, order: int = 0) -> Tensor:
    """Return D_in^-1/2 P D_out^-1/2 x for x (N, ...), P the 0/1 pattern of A to the 2^order.

    NodeFormer (arXiv 2306.08385), its relational bias. Order 0 is the graph itself, and `gcn`
    where its edges are symmetric. See `walks` for the cost of the others.
    """
    along, wide = walks(graph, order), _wide(x)
    scale_in = _degree_column(along, wide).rsqrt()
    scale_out = _column(_out_degrees(along, x.device), wide).rsqrt()
    return (neighbour_sum(along, wide * scale_out) * scale_in).to(x.dtype)


def walks(graph: dgl.DGLGraph, order: int) -> dgl.DGLGraph:
    """Return the graph with one edge for each pair of nodes that a walk of 2^order edges joins.

    Computed once per graph, by squaring the sparse pattern; order 0 is the graph itself. The
    orders fill up: their edges are bounded by N^2 only, and a hub joins all its neighbours.
    """
    return _walks(graph, order) if order else graph


def ends(graph: dgl.DGLGraph, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return where each edge starts and where it leads, (E,) and (E,) int64 on the device."""
    return _ends(graph, torch.device(device))


class GraphAttention(nn.Module):
    """Attention over the neighbours of each node, GAT (arXiv 1710.10903), equations 1 to 5.

    With x already projected and split into H heads of width D: e_uv = LeakyReLU(a . x_u + b . x_v),
    softmax over the in-edges of v, then the weighted sum of x_u. Where H does not divide the width,
    the last head is padded with zeros that are cut off again.
    """

    def __init__(self, dim: int, heads: int, slope: float):
        super().__init__()
        self.heads, self.width, self.slope = heads, -(-dim // heads), slope
        self.source = nn.Parameter(torch.empty(heads, self.width))
        self.target = nn.Parameter(torch.empty(heads, self.width))
        nn.init.xavier_uniform_(self.source)
        nn.init.xavier_uniform_(self.target)

    def forward(self, graph: dgl.DGLGraph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, dim)."""
        padded = functional.pad(x, (0, self.heads * self.width - x.shape[-1]))
        values = padded.unflatten(-1, (self.heads, self.width))  # (N, H, D)
        out = _attend_edges(
            graph,
            (values * self.source).sum(-1),  # (N, H)
            (values * self.target).sum(-1),  # (N, H)
            values,
            self.slope,
        )
        return out.flatten(-2)[..., : x.shape[-1]]


def neighbour_sum(graph: dgl.DGLGraph, x: Tensor) -> Tensor:
    """Return the sum of x over in-neighbours, A x, for x (N, ...); half precision sums in fp32."""
    with torch.autocast(x.device.type, enabled=False):
        return _backend(graph, x).sum(graph, _wide(x)).to(x.dtype)


def degrees(graph: dgl.DGLGraph, device: torch.device | str = "cpu") -> Tensor:
    """Return the in-degree of each node, (N,) fp32 on the device, at least 1."""
    return _degrees(graph, torch.device(device))


def _wide(x: Tensor) -> Tensor:
    """Return half precision as fp32, anything else as it is."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _degree_column(graph, x: Tensor) -> Tensor:
    """Return the degrees in the precision of x, shaped to scale the rows of x (N, ...)."""
    return _column(degrees(graph, x.device), x)


def _column(per_node: Tensor, x: Tensor) -> Tensor:
    return per_node.to(x.dtype).reshape(-1, *(1,) * (x.dim() - 1))


def _attend_edges(graph, source: Tensor, target: Tensor, values: Tensor, slope: float) -> Tensor:
    with torch.autocast(values.device.type, enabled=False):
        parts = (_wide(each) for each in (source, target, values))
        return _backend(graph, values).attend(graph, *parts, slope).to(values.dtype)


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


class _Dgl:
    """DGL's own kernels, where the graph and the features are on one device."""

    @staticmethod
    def sum(graph, x: Tensor) -> Tensor:
        return dgl.ops.copy_u_sum(graph, x)

    @staticmethod
    def attend(graph, source, target, values, slope) -> Tensor:
        scores = functional.leaky_relu(dgl.ops.u_add_v(graph, source, target), slope)  # (E, H)
        weights = dgl.ops.edge_softmax(graph, scores)
        return dgl.ops.u_mul_e_sum(graph, values, weights.unsqueeze(-1))


class _Torch:
    """Torch alone: for features on a device that DGL was not built for."""

    @staticmethod
    def sum(graph, x: Tensor) -> Tensor:
        flat = _SparseProduct.apply(x.flatten(1), *_matrices(graph, x.device, x.dtype))
        return flat.reshape(x.shape)

    @staticmethod
    def attend(graph, source, target, values, slope) -> Tensor:
        tails, tips = (each.to(values.device) for each in graph.edges())  # (E,), (E,)
        scores = functional.leaky_relu(source[tails] + target[tips], slope)  # (E, H)
        rows = tips.unsqueeze(-1).expand_as(scores)
        peaks = torch.full_like(target, -torch.inf).scatter_reduce(0, rows, scores.detach(), "amax")
        weights = (scores - peaks[tips]).exp()
        mass = torch.zeros_like(target).index_add(0, tips, weights)  # (N, H)
        shares = (weights / mass[tips]).unsqueeze(-1)
        return torch.zeros_like(values).index_add(0, tips, values[tails] * shares)


class _SparseProduct(torch.autograd.Function):
    """A x by torch CSR, whose gradient is the product with the stored A^T."""

    @staticmethod
    def forward(ctx, x, matrix, transposed):
        ctx.matrices = (transposed, matrix)
        return matrix @ x

    @staticmethod
    def backward(ctx, gradient):
        return _SparseProduct.apply(gradient.contiguous(), *ctx.matrices), None, None


@_per_graph
def _matrices(graph, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return A and A^T as CSR; one tensor serves as both where the edges are symmetric."""
    n = graph.num_nodes()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
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


def _backend(graph, x: Tensor) -> type[_Dgl] | type[_Torch]:
    return _Dgl if graph.device == x.device else _Torch


def _gcn(dim: int) -> Propagation:
    """Symmetric normalisation, D^-1/2 A D^-1/2 x."""
    return gcn


def _mean(dim: int) -> Propagation:
    """Mean of the neighbours, D^-1 A x."""
    return mean


def _gat(dim: int, *, heads: Count = 1, slope: float = 0.2) -> Propagation:
    """Graph attention with learned scores.

    Args:
        heads: number of attention heads that share the width.
        slope: of the LeakyReLU for negative scores.
    """
    return GraphAttention(dim, heads, slope)


PROPAGATIONS = Table("propagation", {"gcn": _gcn, "mean": _mean, "gat": _gat})
"""Word to builder `(dim, *, options) -> propagation`."""


def place(graph: dgl.DGLGraph, device: torch.device | str) -> dgl.DGLGraph:
    """Return the graph on the device where DGL can hold it there, else the graph as it is.

    A CPU-only DGL keeps its graphs on the CPU; propagation of CUDA features then runs on torch.
    """
    try:
        return graph.to(device)
    except dgl.DGLError:
        return graph
