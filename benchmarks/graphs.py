"""Synthetic graphs of the benchmarks: power laws, uniform random graphs, a mesh."""

import networkx
import numpy as np
import torch
from scipy import sparse
from scipy.sparse import csgraph

from zoo.dgl import dgl


def power_law(nodes: int, edges: int, seed: int = 0) -> np.ndarray:
    """Return edges (2, about `edges`) of a random graph with power-law degrees, exponent 2.5.

    The Chung-Lu model: hubs have thousands of neighbours. No duplicates, no self-loops.
    """
    random = np.random.default_rng(seed)
    weights = (1 - random.random(nodes)) ** (-1 / 1.5)
    ends = random.choice(nodes, (2, edges), p=weights / weights.sum())
    return _once(ends, nodes)


def attached(nodes: int, links: int, seed: int = 0) -> np.ndarray:
    """Return edges by preferential attachment (Barabasi and Albert), `links` for each node."""
    graph = networkx.barabasi_albert_graph(nodes, links, seed=seed)
    return np.array(graph.edges, dtype=np.int64).T


def uniform(nodes: int, edges: int, seed: int = 0) -> np.ndarray:
    """Return edges (2, about `edges`) between nodes drawn uniformly."""
    return _once(np.random.default_rng(seed).integers(nodes, size=(2, edges)), nodes)


def connected(edges: np.ndarray) -> np.ndarray:
    """Return the edges of the largest component, with its nodes renumbered."""
    nodes = edges.max() + 1
    matrix = sparse.coo_array((np.ones(edges.shape[1]), tuple(edges)), shape=(nodes, nodes))
    _, label = csgraph.connected_components(matrix, directed=False)
    inside = label == np.bincount(label).argmax()
    return (np.cumsum(inside) - 1)[edges[:, inside[edges[0]]]]


def mesh(side: int) -> np.ndarray:
    """Return the edges of a square grid, (2, 2 side (side - 1))."""
    place = np.arange(side * side).reshape(side, side)
    down, right = (place[:-1], place[1:]), (place[:, :-1], place[:, 1:])
    return np.concatenate([np.stack([a.ravel(), b.ravel()]) for a, b in (down, right)], axis=1)


def canonical(edges: np.ndarray, nodes: int) -> dgl.DGLGraph:
    """Return the graph of both directions of the edges, with a self-loop at each node."""
    loops = np.arange(nodes)
    source, target = (np.concatenate([edges[i], edges[1 - i], loops]) for i in (0, 1))
    return dgl.graph((torch.from_numpy(source), torch.from_numpy(target)), num_nodes=nodes)


def _once(ends: np.ndarray, nodes: int) -> np.ndarray:
    low, high = ends.min(axis=0).astype(np.int64), ends.max(axis=0).astype(np.int64)
    number = np.unique(low[low != high] * nodes + high[low != high])
    return np.stack(np.divmod(number, nodes))
