"""The equations of attentions, rotations and propagations in plain torch, with matrices of N x N.

Each naive twin has the name of what models call. Random Batch Attention's is
`zoo.ops.naive.attend_in_batches`. Nothing else of the zoo imports this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu, pad

from zoo.canonical_form import FEATURE, WEIGHT
from zoo.graphs.shard import Graph
from zoo.ops.naive import positive_features, weighted_mean


def softmax(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | float = 0.0) -> Tensor:
    """Return sum_j w_ij v_j / sum_j w_ij, w_ij = exp(q_i . k_j / sqrt(D) + b_ij), (..., N, H, E).

    "Attention is all you need" (arXiv 1706.03762), equation 1; with a bias (..., H, N, N) that of
    Graphormer (arXiv 2106.05234), equation 6.
    """
    scores = torch.einsum("...ihd,...jhd->...hij", q, k)
    return weighted_mean((scores / q.shape[-1] ** 0.5 + bias).exp(), v)


def performer(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """Return sum_j w_ij v_j / sum_j w_ij, w_ij = f(q_i) . f(k_j), (..., N, H, E).

    Performers (arXiv 2009.14794), lemma 1, for directions w (M, D).
    """
    queries, keys = positive_features(q, w), positive_features(k, w, over=(-3, -1))
    return weighted_mean(torch.einsum("...ihm,...jhm->...hij", queries, keys), v)


def sine_attention(q: Tensor, k: Tensor, v: Tensor, w: Tensor) -> Tensor:
    """Return sum_j w_ij v_j / sum_j w_ij, w_ij = s_ij + c_i, (..., N, H, E).

    s_ij is the mean over directions w (M, D) of cos w . (q_i - k_j), q and k divided by D^1/4
    ("Random Features for Large-Scale Kernel Machines", Rahimi and Recht 2007), and c_i =
    max(0, (2 M)^-1/2 - mean_j s_ij).
    """
    along = ((x @ w.to(x).mT / q.shape[-1] ** 0.25).transpose(-3, -2) for x in (q, k))
    queries, keys = along  # (..., H, N, M)
    scores = (queries.unsqueeze(-2) - keys.unsqueeze(-3)).cos().mean(-1)  # (..., H, N, N)
    lacking = (2 * len(w)) ** -0.5 - scores.mean(-1, keepdim=True)
    return weighted_mean(scores + lacking.clamp(min=0), v)


def edge_log_probabilities(
    graph: Graph, q: Tensor, k: Tensor, w: Tensor, *, epsilon: float = 0.0
) -> Tensor:
    """Return log p_uv on the edges u -> v, p_uv = f(q_v) . f(k_u) / sum_j f(q_v) . f(k_j), (E, H).

    NodeFormer (arXiv 2306.08385), equation 8, for q, k (N, H, D) of one graph and w (M, D).
    """
    queries = positive_features(q, w, epsilon)
    keys = positive_features(k, w, epsilon, over=(-3, -1))
    scores = torch.einsum("ihm,jhm->ijh", queries, keys)
    u, v = graph.edges()
    return (scores / scores.sum(1, keepdim=True))[v, u].log()


def rotate(x: Tensor, positions: Tensor, base: float = 10000.0) -> Tensor:
    """Return each pair of columns (a, b) of x as (a cos t - b sin t, a sin t + b cos t).

    RoFormer (arXiv 2104.09864), equation 34: t = p base^(-2 f / D) of pair f at position p; a last
    odd column stays.

    Args:
        x: (N, H, D).
        positions: p (N,).
        base: the longest wave is that of 2 pi base positions, nearly.
    """
    a, b = x[..., :-1:2], x[..., 1::2]  # (N, H, D // 2)
    f = torch.arange(a.shape[-1], dtype=x.dtype)
    t = positions[:, None, None] * base ** (-2 * f / x.shape[-1])
    turned = [a * t.cos() - b * t.sin(), a * t.sin() + b * t.cos()]
    return torch.cat([torch.stack(turned, -1).flatten(-2), x[..., 2 * a.shape[-1] :]], -1)


def gcn(graph: Graph, x: Tensor) -> Tensor:
    """Return D_in^-1/2 A D_out^-1/2 x for x (N, D).

    Kipf and Welling (arXiv 1609.02907), equation 8. D are sums of weights; without weights of edges
    both are the in-degrees.
    """
    a = _adjacency(graph, x)
    into, out = _sums(a, 1), _sums(a, 0)
    return into**-0.5 * a @ ((out.mT if WEIGHT in graph.edata else into) ** -0.5 * x)


def mean(graph: Graph, x: Tensor) -> Tensor:
    """Return D^-1 A x for x (N, D), D the sums of weights or the in-degrees."""
    a = _adjacency(graph, x)
    return a @ x / _sums(a, 1)


def relation(graph: Graph, x: Tensor, order: int = 0) -> Tensor:
    """Return D_in^-1/2 P D_out^-1/2 x for x (N, D), P the 0/1 pattern of A to the 2^order.

    The relational bias of NodeFormer (arXiv 2306.08385).
    """
    a = _adjacency(graph, x)
    for _ in range(order):
        a = a @ a
    p = (a > 0).to(x)
    return _sums(p, 1) ** -0.5 * p @ (_sums(p, 0).mT ** -0.5 * x)


def graph_attention(
    graph: Graph,
    x: Tensor,
    source: Tensor,
    target: Tensor,
    slope: float,
    edge: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return sum_{u in N(v)} alpha_uv x_u, (N, dim), and the weights alpha, (E, H).

    GAT (arXiv 1710.10903), equations 1 to 5, of features that are projected: e_uv =
    LeakyReLU(a . x_u + b . x_v + c . f_uv), and alpha_uv = w_uv exp(e_uv) / sum_t w_tv exp(e_tv).

    Args:
        graph: of N nodes and E edges, maybe with weights w and features f.
        x: (N, dim), zeros behind it where H does not divide dim.
        source: a (H, D).
        target: b (H, D).
        slope: of the LeakyReLU for negative numbers.
        edge: c (H, F); None: 0.
    """
    u, v = graph.edges()
    heads = pad(x, (0, source.numel() - x.shape[1])).unflatten(1, source.shape)  # (N, H, D)
    scores = (source * heads[u] + target * heads[v]).sum(-1)
    if edge is not None:
        scores = scores + graph.edata[FEATURE].to(x) @ edge.mT
    shares = leaky_relu(scores, slope).exp()
    if WEIGHT in graph.edata:
        shares = shares * graph.edata[WEIGHT].to(x).unsqueeze(-1)
    into = (v == torch.arange(len(x)).unsqueeze(-1)).to(x)  # (N, E)
    alpha = shares / (into @ shares)[v]
    out = torch.einsum("ne,eh,ehd->nhd", into, alpha, heads[u])
    return out.flatten(1)[:, : x.shape[1]], alpha


def attend_to_neighbours(
    graph: Graph, q: Tensor, k: Tensor, v: Tensor, edge: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return sum_{u in N(v)} alpha_uv (v_u + e_uv), (N, H, D), and the weights alpha, (E, H).

    UniMP (arXiv 2009.03509): alpha_uv = w_uv exp(s_uv) / sum_t w_tv exp(s_tv) and
    s_uv = q_v . (k_u + e_uv) / sqrt(D), with e_uv = W f_uv.

    Args:
        graph: of N nodes and E edges, maybe with weights w and features f.
        q: (N, H, D).
        k: (N, H, D).
        v: (N, H, D).
        edge: W (H, D, F); None: 0.
    """
    source, target = graph.edges()
    e = 0.0 if edge is None else torch.einsum("hdf,ef->ehd", edge, graph.edata[FEATURE].to(q))
    shares = ((q[target] * (k[source] + e)).sum(-1) / q.shape[-1] ** 0.5).exp()
    if WEIGHT in graph.edata:
        shares = shares * graph.edata[WEIGHT].to(q).unsqueeze(-1)
    into = (target == torch.arange(len(q)).unsqueeze(-1)).to(q)  # (N, E)
    alpha = shares / (into @ shares)[target]
    return torch.einsum("ne,eh,ehd->nhd", into, alpha, v[source] + e), alpha


def _adjacency(graph: Graph, x: Tensor) -> Tensor:
    """Return A (N, N), in row v and column u the weights of the edges u -> v, 1 without weights."""
    u, v = graph.edges()
    weights = graph.edata[WEIGHT].to(x) if WEIGHT in graph.edata else x.new_ones(len(u))
    return x.new_zeros(len(x), len(x)).index_put((v, u), weights, accumulate=True)


def _sums(a: Tensor, over: int) -> Tensor:
    """Return the sums over rows (0) or columns (1) of A, kept apart; 1 where there is nothing."""
    sums = a.sum(over, keepdim=True)
    return torch.where(sums == 0, 1, sums)


def ridge(
    propagate: Callable[[Graph, Tensor], Tensor],
    graph: Graph,
    x: Tensor,
    targets: Tensor,
    known: Tensor,
    coefficients: Sequence[float],
    penalty: float,
) -> tuple[Tensor, Tensor]:
    """Return F W + y and, of each known node, what a fit without it says, (N, C) and (n, C).

    F = p(A) X for a polynomial p and rows of X of norm 1, centred; W = (F_L^T F_L + l I)^-1 F_L^T
    (Y_L - y) of the known nodes L, y the mean of their targets, l the penalty times the mean
    squared norm of their rows.
    """
    x, targets = x.double(), targets.double()
    x = x / torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=1e-12)
    matrix = propagate(graph, torch.eye(len(x), dtype=x.dtype))
    powers = (torch.linalg.matrix_power(matrix, power) for power in range(len(coefficients)))
    features = sum(weight * power @ x for weight, power in zip(coefficients, powers, strict=True))
    features = features - features.mean(0)
    nodes = known.nonzero().squeeze(1)
    middle = targets[nodes].mean(0)
    weight = penalty * features[nodes].square().sum() / len(nodes)

    def fitted(some: Tensor) -> Tensor:
        rows, identity = features[some], torch.eye(features.shape[1], dtype=x.dtype)
        inverse = torch.linalg.inv(rows.mT @ rows + weight * identity)
        return features @ inverse @ rows.mT @ (targets[some] - middle) + middle

    held_out = [fitted(nodes[nodes != node])[node] for node in nodes]
    return fitted(nodes), torch.stack(held_out)


def clusters(attend, owner, graph_of, means, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention inside of clusters as it is written, one cluster after the other, (N, H, D).

    Args:
        attend: an attention of sets.
        owner: the cluster of each node.
        graph_of: the graph of each cluster.
        means: whether the means of the clusters of a graph attend to each other as well.
        q: queries (N, H, D).
        k: keys (N, H, D).
        v: values (N, H, D).
    """
    members = [[i for i, cluster in enumerate(owner) if cluster == c] for c in range(len(graph_of))]
    rows: dict[int, Tensor] = {}
    for nodes in members:
        rows |= zip(nodes, attend(q[nodes], k[nodes], v[nodes]), strict=True)
    out = torch.stack([rows[i] for i in range(len(owner))])
    if not means:
        return out
    q, k, v = (torch.stack([x[nodes].mean(0) for nodes in members]) for x in (q, k, v))
    between: dict[int, Tensor] = {}
    for graph in set(graph_of):
        its = [c for c, other in enumerate(graph_of) if other == graph]
        between |= zip(its, attend(q[its], k[its], v[its]), strict=True)
    return out + torch.stack([between[c] for c in owner])


def codebook(q: Tensor, k: Tensor, v: Tensor, centres: Tensor, before=None, decay=0.0):
    """Return attention to groups of nodes (N, H, E), and the sums of the groups, head by head.

    Args:
        q: queries (N, H, D).
        k: keys (N, H, D).
        v: values (N, H, E).
        centres: (H, M, D), by which nodes are grouped.
        before: counts (H, M) and sums of keys and values (H, M, ...) of the steps before.
        decay: their share in the mixture.
    """
    outs, sums = [], []
    for h in range(q.shape[1]):
        nearest = [
            min(range(len(centres[h])), key=lambda m, i=i: (k[i, h] - centres[h, m]).norm().item())
            for i in range(len(k))
        ]
        groups = []  # number of nodes, sum of keys, sum of values
        for m in range(len(centres[h])):
            nodes = [i for i, group in enumerate(nearest) if group == m]
            now = k.new_tensor(len(nodes)), k[nodes, h].sum(0), v[nodes, h].sum(0)
            if before is not None:
                old = (each[h, m] for each in before)
                now = tuple(decay * x + (1 - decay) * y for x, y in zip(old, now, strict=True))
            groups.append(now)
        filled = [group for group in groups if group[0] > 0]
        weights = torch.stack(
            [n * torch.exp(q[:, h] @ (key / n) / q.shape[-1] ** 0.5) for n, key, _ in filled], 1
        )
        values = torch.stack([value / n for n, _, value in filled])
        outs.append(weights / weights.sum(1, keepdim=True) @ values)
        sums.append([torch.stack(each) for each in zip(*groups, strict=True)])
    return torch.stack(outs, 1), tuple(torch.stack(each) for each in zip(*sums, strict=True))
