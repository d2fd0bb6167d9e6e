"""How near two nodes are, by the links around them alone: `HEURISTICS`, the baselines of links.

Liben-Nowell and Kleinberg, "The Link-Prediction Problem for Social Networks" (JASIST 2007), has all
but resource allocation. A score is computed from sparse matrices, for some sources at a time, so
that nothing of N x N numbers is ever stored. Nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from zoo.config.options import Count, Positive, Rate, Table
from zoo.dgl import dgl
from zoo.graphs.adjacency import csc

Heuristic = Callable[[dgl.DGLGraph, Tensor], Tensor]
"""`(graph, pairs (P, 2))` to a score for each pair, (P,) fp32; more is nearer."""

_NUMBERS = 2**20  # of a dense block of sources, N of them for each: some that a cache holds


def common_neighbours() -> Heuristic:
    """Count the common neighbours, |N(u) and N(v)|."""
    return lambda graph, pairs: _shared(graph, pairs, np.ones_like)


def adamic_adar() -> Heuristic:
    """Sum 1 / log(degree) over the common neighbours (Adamic and Adar, 2003)."""
    return lambda graph, pairs: _shared(graph, pairs, lambda d: 1 / np.log(np.maximum(d, 2)))


def resource_allocation() -> Heuristic:
    """Sum 1 / degree over the common neighbours (Zhou, Lu and Zhang, arXiv 0901.0553)."""
    return lambda graph, pairs: _shared(graph, pairs, lambda d: 1 / np.maximum(d, 1))


def katz(*, beta: Positive = 0.05, steps: Count = 6) -> Heuristic:
    """Sum beta^l times the walks of l links between two nodes, l = 1, ..., steps (Katz, 1953).

    Args:
        beta: what a walk counts less for each further link.
        steps: links of the longest walks that count.
    """

    def measure(graph: dgl.DGLGraph, pairs: Tensor) -> Tensor:
        adjacency = _adjacency(graph)

        def walks(start: np.ndarray) -> np.ndarray:
            total, last = np.zeros_like(start), start
            for _ in range(steps):
                last = beta * (adjacency @ last)
                total += last
            return total

        return _from_sources(walks, pairs, graph.num_nodes())

    return measure


def personalised_pagerank(*, restart: Rate = 0.15, steps: Count = 20) -> Heuristic:
    """Sum how often walks that restart at one node are at the other, in both directions.

    Args:
        restart: probability with which a walk goes back to where it began.
        steps: of the power iteration; the error is at most (1 - restart)^steps.
    """

    def measure(graph: dgl.DGLGraph, pairs: Tensor) -> Tensor:
        adjacency = _adjacency(graph)
        degrees = np.maximum(adjacency.sum(axis=0), 1)
        moves = (adjacency / degrees).tocsr()  # column by column a distribution

        def walks(start: np.ndarray) -> np.ndarray:
            present = start
            for _ in range(steps):
                present = restart * start + (1 - restart) * (moves @ present)
            return present

        there = _from_sources(walks, pairs, graph.num_nodes())
        # Of links without direction p_v(u) = p_u(v) deg(u) / deg(v).
        back = torch.from_numpy(degrees)[pairs]
        return there + there * (back[:, 0] / back[:, 1]).float()

    return measure


HEURISTICS = Table(
    "heuristic",
    {
        "common-neighbours": common_neighbours,
        "adamic-adar": adamic_adar,
        "resource-allocation": resource_allocation,
        "katz": katz,
        "personalised-pagerank": personalised_pagerank,
    },
)
"""Word to builder `(*, options) -> Heuristic`."""

WALKS = ("katz", "personalised-pagerank")
"""Those that walk from every source, whose time grows by sources times edges."""


def _adjacency(graph: dgl.DGLGraph) -> sparse.csr_array:
    """Return the links of a canonical graph, (N, N) fp64, without self-loops."""
    offsets, indices = (array.cpu().numpy() for array in csc(graph))
    matrix = sparse.csr_array(
        (np.ones(len(indices)), indices, offsets), shape=2 * (graph.num_nodes(),)
    )
    matrix = matrix - sparse.diags_array(matrix.diagonal(), format="csr")
    matrix.eliminate_zeros()
    return matrix.tocsr()


def _shared(graph: dgl.DGLGraph, pairs: Tensor, weigh: Callable) -> Tensor:
    """Return the sum of what common neighbours weigh, by their degrees, for each pair (P,)."""
    adjacency = _adjacency(graph)
    weighted = (adjacency * weigh(adjacency.sum(axis=0))[None, :]).tocsr()
    scores = []
    for part in pairs.split(2**16):
        u, v = part.T.numpy()
        scores.append(weighted[u].multiply(adjacency[v]).sum(axis=1))
    return torch.from_numpy(np.concatenate([*scores, []])).float()


def _from_sources(walks: Callable[[np.ndarray], np.ndarray], pairs: Tensor, nodes: int) -> Tensor:
    """Return where walks from the first node of each pair put the second, (P,).

    Args:
        walks: a function of some sources' starts, (N, B) with a 1 in each column.
        pairs: (P, 2).
        nodes: N.
    """
    sources, place = pairs[:, 0].unique(return_inverse=True)
    scores = torch.empty(len(pairs))
    size = max(1, _NUMBERS // nodes)
    for first in range(0, len(sources), size):
        some = sources[first : first + size].numpy()
        start = np.zeros((nodes, len(some)))
        start[some, np.arange(len(some))] = 1
        reached = walks(start)
        own = ((place >= first) & (place < first + size)).nonzero().squeeze(1)
        values = reached[pairs[own, 1].numpy(), (place[own] - first).numpy()]
        scores[own] = torch.from_numpy(values).float()
    return scores
