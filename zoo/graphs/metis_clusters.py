"""METIS clusters of the nodes of a graph, as Cluster-GCN (arXiv 1905.07953) trains on them."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import neighbours
from zoo.system import allocator


def clusters(graph: dgl.DGLGraph, parts: int) -> Tensor:
    """Return the cluster of each node, (N,) int64 from 0 to parts - 1, cutting few edges (METIS).

    Raises:
        ZooError: there are more clusters than nodes.
    """
    if parts > graph.num_nodes():
        raise ZooError(
            f"{graph.num_nodes()} nodes cannot be cut into {parts} clusters; write fewer `parts`."
        )
    if parts == 1:
        return torch.zeros(graph.num_nodes(), dtype=torch.int64)
    with _silence(), allocator.exact():
        return _metis(graph, parts)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppress standard error, where DGL's C++ says how it goes."""
    sys.stderr.flush()
    with open(os.devnull, "w") as nowhere:
        kept = os.dup(2)
        try:
            os.dup2(nowhere.fileno(), 2)
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _metis(graph: dgl.DGLGraph, parts: int) -> Tensor:
    """Return the cluster of each node; every edge of the graph is there in both directions."""
    partition = getattr(dgl.partition, "_CAPI_DGLMetisPartition_Hetero", None)
    if partition is None:
        return dgl.metis_partition_assignment(graph.long(), parts).long()
    # What DGL's own function does, but for a second graph with edges in both directions: that
    # takes as much memory as METIS itself.
    offsets, sources = neighbours(graph)
    none = torch.zeros(0, dtype=torch.int64)
    graph = dgl.graph(("csc", (offsets.long(), sources.long(), none)), num_nodes=graph.num_nodes())
    weights = dgl.backend.to_dgl_nd(none)
    found = partition(graph._graph, parts, weights, "k-way", True)
    return dgl.utils.toindex(found).tousertensor()
