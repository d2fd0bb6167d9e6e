"""The equations of this room in plain torch: the naive twins of its sums along edges, and of pairs.

The rows of all edges exist at once, (E, H, D), and autograd finds the gradients. Edges lead from
u to v; N(v) are the in-neighbours of v. Nothing else of the zoo imports this file.
"""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.graphs.shard import Graph


def neighbour_sum(graph: Graph, x: Tensor) -> Tensor:
    """Return sum_{u in N(v)} x_u, (N, ...), for x (M, ...)."""
    u, _ = graph.edges()
    return _sum_at_ends(graph, x[u])


def weighted_sum(graph: Graph, x: Tensor, weights: Tensor) -> Tensor:
    """Return sum_{u in N(v)} w_uv x_u, (N, H, D), for x (M, H, D) and weights (E, H)."""
    u, _ = graph.edges()
    return _sum_at_ends(graph, weights.unsqueeze(-1) * x[u])


def message_sum(
    graph: Graph, x: Tensor, features: Tensor, weight: Tensor, bias: Tensor, weights: Tensor | None
) -> Tensor:
    """Return sum_{u in N(v)} w_uv ReLU(x_u + W f_uv + b), (N, D), for x (M, D).

    What a node of GINE gathers (Hu et al., arXiv 1905.12265).

    Args:
        graph: of N nodes and E edges.
        x: of the nodes where edges start.
        features: f (E, F) of the edges.
        weight: W (D, F).
        bias: b (D,).
        weights: w (E,) of the edges; None: 1.
    """
    u, _ = graph.edges()
    messages = (x[u] + features @ weight.mT + bias).relu()
    return _sum_at_ends(graph, messages if weights is None else weights.unsqueeze(-1) * messages)


def edge_sum(graph: Graph, source: Tensor, target: Tensor) -> Tensor:
    """Return source_u + target_v on every edge, (E, H), for (M, H) and (N, H)."""
    u, v = graph.edges()
    return source[u] + target[v]


def edge_dot(graph: Graph, source: Tensor, target: Tensor) -> Tensor:
    """Return source_u . target_v on every edge, (E, H), for (M, H, D) and (N, H, D)."""
    u, v = graph.edges()
    return (source[u] * target[v]).sum(-1)


def edge_softmax(graph: Graph, scores: Tensor) -> Tensor:
    """Return exp(s_uv) / sum_{t in N(v)} exp(s_tv), (E, H), for scores s (E, H)."""
    _, v = graph.edges()
    return scores.exp() / _sum_at_ends(graph, scores.exp())[v]


def path_lengths(graph: Graph, hops: int) -> Tensor:
    """Return the fewest edges between each two nodes, (N, N), hops + 1 where they are more."""
    reached = [matrix > 0 for matrix in walk_probabilities(graph, hops + 1).unbind(-1)]
    lengths = torch.full(reached[0].shape, hops + 1)
    for step in reversed(range(hops + 1)):
        lengths[reached[step]] = step
    return lengths


def walk_probabilities(graph: Graph, steps: int) -> Tensor:
    """Return [I, M, M^2, ...], (N, N, steps), M = D^-1 A without self-loops (arXiv 2305.17589)."""
    source, target = graph.edges()
    adjacency = torch.zeros(graph.num_nodes(), graph.num_nodes(), dtype=torch.double)
    adjacency[source, target] = adjacency[target, source] = 1
    adjacency.fill_diagonal_(0)
    walk = adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)
    return torch.stack([torch.linalg.matrix_power(walk, step) for step in range(steps)], -1)


def _sum_at_ends(graph: Graph, rows: Tensor) -> Tensor:
    """Return the sum of the rows (E, ...) of all edges that lead to each node, (N, ...)."""
    _, v = graph.edges()
    leads = v == torch.arange(graph.num_dst_nodes()).unsqueeze(-1)  # (N, E)
    return torch.tensordot(leads.to(rows), rows, 1)
