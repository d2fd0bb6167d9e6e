"""Canonical graphs: undirected, without duplicate edges, one self-loop per node."""

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

from zoo.canonical_form import remember
from zoo.datasets.files.graph_arrays import check_edges
from zoo.dgl import DGLGraph, dgl
from zoo.errors import ZooError


def canonical(source: DGLGraph | ArrayLike, *, nodes: int | None = None) -> DGLGraph:
    """Return a graph with both directions of every edge, no duplicates, one self-loop per node.

    Edges are in order of source and target, so that the same graph always gives the same numbers,
    and what is canonical comes back equal. Time and memory are linear in nodes and edges.

    Args:
        source: a DGL graph, or edges (E, 2) of node numbers, in any order and direction.
        nodes: N, how many nodes there are; needed with edges, since some nodes may have none.

    Returns:
        A new DGLGraph on the CPU, with the node data of a given graph and without edge data.

    Raises:
        ZooError: several kinds of nodes or edges, or edges that are no pairs of nodes 0 to N-1.
    """
    if not isinstance(source, DGLGraph):
        if nodes is None:
            raise ZooError("edges do not say how many nodes there are: write canonical(e, nodes=N)")
        edges = check_edges(np.asarray(source), nodes)
        return _canonical(edges[:, 0], edges[:, 1], nodes)
    if not source.is_homogeneous:
        raise ZooError(
            "the graph has several kinds of nodes or edges: write dgl.to_homogeneous(graph) first."
        )
    ends = (each.cpu().numpy() for each in source.edges())
    graph = _canonical(*ends, source.num_nodes())
    graph.ndata.update({key: value.cpu() for key, value in source.ndata.items()})
    return graph


def _canonical(source: np.ndarray, target: np.ndarray, nodes: int) -> DGLGraph:
    # Every node's loop is added below: a loop that is there already would be summed with it, and
    # any sum will do, because only the pattern of the matrix is read.
    kind = np.int32 if nodes < 2**31 else np.int64
    loop = np.arange(nodes, dtype=kind)
    source, target = source.astype(kind), target.astype(kind)
    ends = np.concatenate([source, target, loop]), np.concatenate([target, source, loop])
    pattern = sparse.coo_array((np.ones(len(ends[0]), bool), ends), shape=(nodes, nodes)).tocsr()
    pattern.sum_duplicates()
    rows = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(pattern.indptr))
    graph = dgl.graph(
        (torch.from_numpy(rows), torch.from_numpy(pattern.indices.astype(np.int64))),
        num_nodes=nodes,
        row_sorted=True,
        col_sorted=True,
    )
    return remember(graph)
