"""Clusters of the nodes of a graph that cut few edges, by METIS."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import csc
from zoo.graphs.sampling import check_neighbours
from zoo.system import allocator

_FEWEST = 100  # nodes of a cluster that METIS is asked for: at 40 and fewer it crashes


def clusters(graph: dgl.DGLGraph, parts: int) -> Tensor:
    """Return the cluster of each node, (N,) int64 from 0 to parts - 1, cutting few edges (METIS).

    Cluster-GCN (arXiv 1905.07953) trains on them. METIS writes past its memory where they are of a
    few nodes: larger ones are cut in an order of small bandwidth then (Cuthill and McKee, 1969).

    Raises:
        ZooError: there are more clusters than nodes.
    """
    if parts > graph.num_nodes():
        raise ZooError(
            f"{graph.num_nodes()} nodes cannot be cut into {parts} clusters; write fewer `parts`."
        )
    check_neighbours(graph)
    large = min(parts, graph.num_nodes() // _FEWEST)
    assignment = torch.zeros(graph.num_nodes(), dtype=torch.int64)
    if large > 1:
        with _silence(), allocator.exact():
            assignment = _metis(graph, large)
    return assignment if large == parts else _cut(graph, assignment, parts)


def _cut(graph: dgl.DGLGraph, assignment: Tensor, parts: int) -> Tensor:
    """Cut clusters (N,) into so many small ones, all of one size but for a node."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    offsets, sources = (array.numpy() for array in csc(graph))
    matrix = csr_array((np.ones_like(sources), sources, offsets), shape=2 * (len(assignment),))
    order = torch.from_numpy(reverse_cuthill_mckee(matrix, symmetric_mode=True).astype(np.int64))
    order = order[assignment[order].argsort(stable=True)]
    small = torch.empty_like(assignment)
    small[order] = torch.arange(len(assignment)) * parts // len(assignment)
    return small


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
    with contextlib.redirect_stdout(None):  # where DGL's Python says how it goes
        return dgl.metis_partition_assignment(graph.long(), parts).long()
