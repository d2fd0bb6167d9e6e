"""What is known of a graph's edges: degrees, ends, walks and sparse matrices, each found once.

Results live as long as the graph, on which nothing is written. In the place of a graph a `Shard` of
it will do, whose rows are its own nodes.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import torch
from scipy import sparse
from torch import Tensor

from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.per_graph import per_graph, traced
from zoo.graphs.shard import Graph, Shard, edges, whole
from zoo.system.memory import available_memory, upload
from zoo.tracing import facts


class Lists(NamedTuple):
    """The neighbours of each node, one node after the other: a CSR or CSC form of the edges.

    Attributes:
        offsets: (N + 1,) where those of each node begin.
        others: (E,) the neighbours.
        edges: (E,) the numbers of the edges to them; empty where they are 0 to E - 1.
    """

    offsets: Tensor
    others: Tensor
    edges: Tensor


def degrees(graph: Graph, device: torch.device | str = "cpu") -> Tensor:
    """Return the in-degree of each node, (N,) fp32 on the device, at least 1."""
    graph, rows = whole(graph)
    return _degrees(graph, torch.device(device))[rows]


def out_degrees(graph: Graph, device: torch.device | str = "cpu") -> Tensor:
    """Return the out-degree of each node, (N,) fp32 on the device, at least 1."""
    graph, rows = whole(graph)
    return _out_degrees(graph, torch.device(device))[rows]


def ends(graph: Graph, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Return where each edge starts and where it leads, (E,) and (E,) int64 on the device.

    Raises:
        ZooError: the graph is a share, which does not have the nodes where its edges start.
    """
    if whole(graph)[0] is not graph:
        raise ZooError(
            "this model looks at both ends of each edge, which one share of the nodes does not "
            "have. Write `edge_loss: 0` where the model has it, or `shard: replicated`."
        )
    return _ends(graph, torch.device(device))


def edge_dst(graph: Graph, device: torch.device | str = "cpu") -> Tensor:
    """Return where each edge leads, (E,) int64 on the device."""
    return _ends(edges(graph), torch.device(device))[1]


def node_counts(graph: Graph | None) -> list[int | None]:
    """Return the nodes of each graph of a batch; one entry, unknown, where there is no graph."""
    if graph is None:
        return [None]
    noted = facts(graph)
    if noted:
        return list(noted.sizes)
    if isinstance(graph, Shard):
        return [len(graph.nodes)]
    if graph.batch_size == 1:  # a CUDA graph would be waited for
        return [graph.num_nodes()]
    return graph.batch_num_nodes().tolist()


def csc(graph: dgl.DGLGraph) -> tuple[Tensor, Tensor]:
    """Return where the in-neighbours of each node begin, (N+1,), and all of them, (E,).

    Those of node i are `indices[indptr[i] : indptr[i + 1]]`. Nothing is copied where the graph
    lies in this form already, as on-disk graphs do; others are brought into it once.
    """
    indptr, indices, _ = graph.adj_tensors("csc")
    return indptr, indices


def from_csc(indptr: Tensor, indices: Tensor) -> dgl.DGLGraph:
    """Return the graph whose nodes have these in-neighbours, as `csc` gives them."""
    return dgl.graph(("csc", (indptr, indices, [])), num_nodes=len(indptr) - 1)


def numbered(graph: dgl.DGLGraph) -> dgl.DGLGraph:
    """Return a graph that DGL's sums over edges take: one whose edges have numbers.

    A graph that was made of CSC parts alone, as on-disk graphs are, stores none, and those sums end
    in an error in DGL 1.1.3 ("Check notnull: edges"). Made once per graph; others come back as is.
    """
    made = _numbered(graph)
    return graph if made is None else made


def walks(graph: Graph, order: int) -> Graph:
    """Return the graph with one edge for each pair of nodes that a walk of 2^order edges joins.

    Computed once per graph, by squaring the sparse pattern; order 0 is the graph itself. The
    orders fill up: their edges are bounded by N^2 only, and a hub joins all its neighbours.
    """
    return _walks(graph, order) if order else graph


def matrices(graph: dgl.DGLGraph, device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return A (N, M) and A^T as CSR of ones, for edges from M nodes to N."""
    return _matrices(graph, device, dtype)


def edge_order(graph: dgl.DGLGraph, device: torch.device, against: bool) -> Tensor:
    """Return the number of each entry of A or, `against` the edges, of A^T as an edge, (E,) int64.

    It has no entries where the numbers are in order.
    """
    return _edge_order(graph, device, against)


@traced(lambda noted: [((noted.nodes,), torch.float32)])
def _degrees(graph, device: torch.device) -> Tensor:
    return upload(graph.in_degrees(), device).float().clamp(min=1)


@traced(lambda noted: [((noted.nodes,), torch.float32)])
def _out_degrees(graph, device: torch.device) -> Tensor:
    if graph.formats() == {"created": ["csc"], "not created": []}:  # DGL would want another one
        counts = torch.bincount(csc(graph)[1], minlength=graph.num_nodes())
    else:
        counts = graph.out_degrees()
    return upload(counts, device).float().clamp(min=1)


@traced(lambda noted: 2 * [((noted.edges,), torch.int64)])
def _ends(graph, device: torch.device) -> tuple[Tensor, Tensor]:
    if graph.formats() == {"created": ["csc"], "not created": []}:  # DGL would want another one
        offsets, src, numbers = graph.adj_tensors("csc")
        dst = torch.arange(graph.num_nodes()).repeat_interleave(offsets.diff())
        if len(numbers):  # of the edges in this order
            order = numbers.argsort()
            src, dst = src[order], dst[order]
    else:
        src, dst = graph.edges()
    return upload(src, device).long(), upload(dst, device).long()


@per_graph
def _numbered(graph) -> dgl.DGLGraph | None:
    """Return a graph made for `numbered`; None where it is the same one, kept alive by no cache."""
    if "csc" not in graph.formats()["created"] or graph.is_block:
        return None
    indptr, indices, numbers = graph.adj_tensors("csc")
    if len(numbers) == len(indices):
        return None
    numbers = torch.arange(len(indices), dtype=graph.idtype, device=graph.device)
    return dgl.graph(("csc", (indptr, indices, numbers)), num_nodes=graph.num_nodes())


@per_graph
def _walks(graph, order: int) -> Graph:
    all_of_it, _ = whole(graph)
    if all_of_it is not graph:
        dealt = graph.order  # before the walks: not every share can have them
        return Shard(walks(all_of_it, order), dealt)
    half, n = walks(graph, order - 1), graph.num_nodes()
    most = int((half.in_degrees().long() * half.out_degrees()).max()) if n else 0
    if 16 * most > available_memory():
        raise ZooError(
            f"walks of {2**order} edges join {most:,} pairs of nodes and more: all neighbours of a "
            "hub with each other. They do not fit into memory; write a smaller number of `orders`."
        )
    offsets, indices, _ = (array.cpu().numpy() for array in half.adj_tensors("csr"))
    # Booleans: the number of walks between two nodes may be large, and does not matter.
    pattern = sparse.csr_array((indices >= 0, indices, offsets), shape=(n, n))
    longer = (pattern @ pattern).tocsr()
    parts = [torch.from_numpy(array).to(graph.idtype) for array in (longer.indptr, longer.indices)]
    return dgl.graph(("csr", (*parts, [])), num_nodes=n, device=graph.device)


@per_graph
def lists(graph: dgl.DGLGraph, against: bool) -> Lists:
    """Return the edges by where they lead or, `against` them, where they start, as DGL has them."""
    offsets, others, numbers = graph.adj_tensors("csr" if against else "csc")
    in_order = torch.equal(numbers, torch.arange(len(numbers), dtype=numbers.dtype))
    return Lists(offsets, others, numbers[:0] if in_order else numbers)


@per_graph
def _edge_order(graph, device: torch.device, against: bool) -> Tensor:
    return upload(lists(graph, against).edges, device).long()


@per_graph
def _matrices(graph, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """One tensor serves as both where the edges are symmetric: compared before they are copied."""
    n, m = graph.num_dst_nodes(), graph.num_src_nodes()
    into, out = (graph.adj_tensors(form)[:2] for form in ("csc", "csr"))
    symmetric = all(torch.equal(one, other) for one, other in zip(into, out, strict=True))
    matrix = _of_ones(*into, (n, m), device, dtype)
    return matrix, matrix if symmetric else _of_ones(*out, (m, n), device, dtype)


def _of_ones(
    offsets: Tensor, indices: Tensor, size: tuple[int, int], device: torch.device, dtype
) -> Tensor:
    """Return a CSR matrix of ones; on a GPU with numbers of 32 bits, where these are enough."""
    if device.type == "cuda" and len(indices) < 2**31:
        offsets, indices = offsets.int(), indices.int()
    offsets, indices = upload(offsets, device), upload(indices, device)
    values = torch.ones(len(indices), dtype=dtype, device=device)
    with quiet_beta():
        return torch.sparse_csr_tensor(
            offsets, indices, values, size, device=device, check_invariants=False
        )


@contextlib.contextmanager
def quiet_beta() -> Iterator[None]:
    """Silence torch's remarks on CSR tensors, which are none of the user's business.

    They are in beta, and, in torch 2.11, checked only when asked for.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse invariant checks are implicitly")
        yield
