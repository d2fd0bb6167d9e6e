"""Clusters of the nodes of a graph that cut few edges, by METIS."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import csc, from_csc, node_counts
from zoo.graphs.per_graph import per_graph
from zoo.graphs.sampling import check_neighbours
from zoo.graphs.shard import Graph, Shard
from zoo.system.context import context
from zoo.system.memory import upload
from zoo.tracing import facts, facts_of, graph_of, operator


def clusters(graph: dgl.DGLGraph, parts: int) -> Tensor:
    """Return the cluster of each node, (N,) int64 from 0 to parts - 1, cutting few edges (METIS).

    Cluster-GCN (arXiv 1905.07953) trains on them. None is empty, and all are of about one size; the
    same graph is cut alike each time. Edges count once, in whichever directions they are there.

    Raises:
        ZooError: there are more clusters than nodes, or pymetis is not installed.
    """
    if parts > graph.num_nodes():
        raise ZooError(
            f"{graph.num_nodes()} nodes cannot be cut into {parts} clusters; write fewer `parts`."
        )
    check_neighbours(graph)
    if parts == 1:
        return torch.zeros(graph.num_nodes(), dtype=torch.int64)
    found = _metis(graph, parts)
    for empty in (found.bincount(minlength=parts) == 0).nonzero().flatten():
        largest = (found == found.bincount().argmax()).nonzero().flatten()
        found[largest[len(largest) // 2 :]] = empty
    return found


def _metis(graph: dgl.DGLGraph, parts: int) -> Tensor:
    """Return the cluster of each node by METIS (Karypis and Kumar, 1998), some of them empty.

    It cuts into two again and again, which is faster than all at once and gives equal sizes.
    """
    instead = "`train.batching={name: random-nodes, size: 1000}` or `attention=rba` needs none."
    try:
        import pymetis
    except ImportError as error:
        raise ZooError(f"clusters are cut by METIS: `pip install pymetis`, or {instead}") from error
    from scipy.sparse import csr_array

    offsets, sources = (array.cpu().numpy() for array in csc(graph))
    ones, n = np.ones(len(sources), dtype=bool), graph.num_nodes()
    links = csr_array((ones, sources, offsets), shape=(n, n))
    links = csr_array(links + links.T)
    links.setdiag(False)
    links.eliminate_zeros()
    links.sort_indices()
    kind = pymetis.zero_copy_dtype()
    rows, columns = (array.astype(kind, copy=False) for array in (links.indptr, links.indices))
    try:
        return torch.tensor(pymetis.part_graph(parts, xadj=rows, adjncy=columns, recursive=True)[1])
    except RuntimeError as error:  # all that it says where memory is short
        raise ZooError(
            f"METIS could not cut {n:,} nodes with {len(columns):,} links, most likely for lack of "
            f"memory ({error}); {instead}"
        ) from error


Sizes = tuple[tuple[int, ...], ...]
"""Nodes of each part, for each graph of a batch that has any."""


def parts(
    graph: Graph, size: int, device: torch.device, count: int = 0
) -> tuple[Sizes, Tensor | None]:
    """Return the clusters of each graph of a batch, found once for a graph.

    There are `count` of them in each, or, where that is 0, as many as have about `size` nodes.
    Where the context holds `identities`, they are the same whatever the order of the rows.

    Returns:
        How many nodes each has, and the nodes (N,), part after part; None where they stand so, as
        no graph has more than one.

    Raises:
        ZooError: the graph is a share of one.
    """
    if isinstance(graph, Shard):
        raise ZooError(
            "one share of the nodes does not have the edges that clusters are cut by; write "
            "`attention: rba` with `shard: local` in the place of `clusters`."
        )
    if not facts(graph) and context().identities is not None:
        sizes, order = _parts(graph, size, count, context().identities)
        return sizes, upload(order, device)
    sizes = _part_sizes(graph, size, count)
    if all(len(each) == 1 for each in sizes):
        return sizes, None
    if facts(graph):
        return sizes, _traced_order(id(graph), size, count, device)
    return sizes, _part_order(graph, size, count, device)


@per_graph
def _part_sizes(graph, size: int, count: int) -> Sizes:
    return _found_once(graph, size, count)[0]


@per_graph
def _part_order(graph, size: int, count: int, device: torch.device) -> Tensor:
    return upload(_found_once(graph, size, count)[1], device)


@operator(
    "(int number, int size, int count, Device device) -> Tensor",
    lambda number, size, count, device: torch.empty(
        facts_of(number).nodes, dtype=torch.int64, device=device
    ),
)
def _traced_order(number: int, size: int, count: int, device: torch.device) -> Tensor:
    return _part_order(graph_of(number), size, count, device).clone()


@per_graph
def _found_once(graph, size: int, count: int) -> tuple[Sizes, Tensor]:
    return _parts(graph, size, count, None)


def _parts(graph, size: int, count: int, identities: Tensor | None) -> tuple[Sizes, Tensor]:
    """Return what `parts` does, on the CPU; by the nodes' numbers, or by identities (N,)."""
    offsets, sources = (array.cpu() for array in csc(graph))
    sizes, orders, start = [], [], 0
    for n in filter(None, node_counts(graph)):
        first, last = int(offsets[start]), int(offsets[start + n])
        rows = torch.arange(n)
        wanted = min(n, count) or -(-n // size)
        if wanted == 1:
            sizes.append((n,))
        else:
            one = offsets[start : start + n + 1] - first, sources[first:last] - start
            if identities is not None:
                rows = identities[start : start + n].cpu().argsort()
                one = _renumbered(*one, rows)
            found = clusters(from_csc(*one), wanted)
            sizes.append(tuple(nodes for nodes in found.bincount().tolist() if nodes))
            rows = rows[found.argsort(stable=True)]
        orders.append(rows + start)
        start += n
    return tuple(sizes), torch.cat([torch.arange(0), *orders])


def _renumbered(offsets: Tensor, sources: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Return the CSC form of a graph whose nodes are put into another order."""
    from scipy.sparse import csr_array

    ones = np.ones(len(sources), dtype=bool)
    matrix = csr_array((ones, sources.numpy(), offsets.numpy()), shape=2 * (len(order),))
    matrix = matrix[order.numpy()][:, order.numpy()].tocsr()
    matrix.sort_indices()
    kind = offsets.dtype
    return torch.from_numpy(matrix.indptr).to(kind), torch.from_numpy(matrix.indices).to(kind)
