"""Diffusion on a set of states, the energy that it lowers, and the step sizes that are safe.

DIFFormer (arXiv 2301.09474) reads a layer as a step of size tau on states Z (N, D),

    z_i' = (1 - tau sum_j S_ij) z_i + tau sum_j S_ij z_j,   S_ij = f(d_ij) / sum_l f(d_il),

d_ij = |z_i - z_j|^2, with a diffusivity f = delta' of a potential delta that is concave and does
not decrease. Its theorem: for 0 < tau < 1 there is a lambda with which every step lowers

    E(Z, before) = |Z - before|^2 + lambda sum_ij delta(d_ij).

How large lambda has to be: write W_ij = f(d_ij), M = diag(sum_j W_ij), and G = (I - S) Z, so that
Z' = Z - tau G. delta is below its tangents, hence the sum of delta falls by at least
4 tau tr G^T M G - 2 tau^2 tr G^T (M - W) G, at least (4 tau - 2 mu tau^2) tr G^T M G where mu is
the largest eigenvalue of I - S, at most 2. The other term is tau^2 |G|^2. With the least mass
m = min_i M_ii the energy thus falls where tau <= 4 lambda m / (1 + 2 mu lambda m), which comes
near 2 / mu as lambda grows. Close to consensus, S being the mean and mu = 1, no larger step does.

The unified view: other layers are the same step with an S of their own, on what their linear map
gives, of size 1, or `alpha` in DIFFormer. The perceptron has the identity, which diffuses nothing;
GraphSAGE's mean D^-1 A; GAT its softmax over the edges; DIFFormer its attention. GCN needs a change
of variables: rows of D^-1/2 A D^-1/2 do not sum to one, so that on z itself the step has
(1 - sum_j S_ij) z_i more; on y = D^-1/2 z it is the step with D^-1 A.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from study import Row
from torch import Tensor
from torch.nn import functional

import zoo
from zoo.models.difformer import sigmoid
from zoo.nn import GraphAttention, linear_attention, mean

WIDTH = 8
"""Columns of the states on which layers are compared with steps."""

EXACT = 1e-10
"""The largest difference, in double precision, of what is said to be the same."""


class Diffusivity(NamedTuple):
    """A potential delta and its derivative f, functions of squared distances d of any shape.

    States are in the unit ball, so that d <= 4; `kernel` is DIFFormer's attention with this f.
    """

    kernel: str
    potential: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _sigmoid_potential(d: Tensor) -> Tensor:
    """Return the integral of 1 / (1 + exp(t/2 - 1)) from 0 to d, exact for the smallest d too."""
    below = 1 / (1 + math.e)  # the logistic function of -1
    return -2 * torch.log1p((1 - below) * torch.expm1(-d / 2))


DIFFUSIVITIES = {
    "DIFFormer-s": Diffusivity(
        "simple",
        lambda d: 2 * d.clamp(max=4) - d.clamp(max=4).square() / 4,
        lambda d: (2 - d / 2).clamp(min=0),
    ),
    "DIFFormer-a": Diffusivity("sigmoid", _sigmoid_potential, lambda d: torch.sigmoid(1 - d / 2)),
}
"""f = 1 + q . k and f = s(q . k): with q, k of norm 1, q . k is 1 - d/2."""


class Energy(NamedTuple):
    """E(Z, before) = |Z - before|^2 + strength sum_ij (delta(d_ij) + links_ij d_ij).

    Links (N, N) are the graph term: its potential is the squared distance along the edges.
    """

    diffusivity: Diffusivity
    strength: float
    links: Tensor | float = 0.0

    def __call__(self, states: Tensor, before: Tensor) -> float:
        """Return the energy of states (N, D) after a step from others (N, D)."""
        moved = (states - before).square().sum().item()
        return moved + self.strength * self.smoothness(states)

    def smoothness(self, states: Tensor) -> float:
        """Return sum_ij (delta(d_ij) + links_ij d_ij) of states (N, D)."""
        d = squared_distances(states)
        return (self.diffusivity.potential(d) + self.links * d).sum().item()

    def weights(self, states: Tensor) -> Tensor:
        """Return f(d_ij) + links_ij, (N, N), for states (N, D)."""
        return self.diffusivity.slope(squared_distances(states)) + self.links

    def along(self, states: Sequence[Tensor]) -> list[float]:
        """Return the energy of each of Z^0, Z^1, ..., after the step from the one before it."""
        return [
            self(each, other) for each, other in zip(states, [states[0], *states], strict=False)
        ]


def energy_of(
    states: Tensor, diffusivity: Diffusivity, strength: float, adjacency: Tensor | None = None
) -> Energy:
    """Return an energy in the units of its first states, so that graphs can be compared.

    Args:
        states: Z^0 (N, D).
        diffusivity: potential of all pairs.
        strength: lambda times the mean mass of the pairs, mean_i sum_j f(d_ij).
        adjacency: 0/1 (N, N), if the edges are to have the same mean mass as the pairs.
    """
    mass = diffusivity.slope(squared_distances(states)).sum(1).mean().item()
    links = 0.0 if adjacency is None else adjacency * (mass / adjacency.sum(1).mean())
    return Energy(diffusivity, strength / mass, links)


def squared_distances(states: Tensor) -> Tensor:
    """Return |z_i - z_j|^2, (N, N), of states (N, D), without cancellation near consensus."""
    exact = "donot_use_mm_for_euclid_dist"
    return torch.cdist(states, states, compute_mode=exact).square()


def diffuse(states: Tensor, diffusivities: Tensor, step: float) -> Tensor:
    """Return (1 - step sum_j S_ij) z_i + step sum_j S_ij z_j for states (N, D) and S (N, N)."""
    own = 1 - step * diffusivities.sum(1, keepdim=True)
    return own * states + step * (diffusivities @ states)


def normalised(weights: Tensor) -> Tensor:
    """Return S, weights (N, N) over their sums along the rows."""
    return weights / weights.sum(1, keepdim=True)


def lift(states: Tensor) -> tuple[Tensor, Tensor]:
    """Return q and k, (N, D + 2), with q_i . k_j = 1 - |z_i - z_j|^2 / 2, for any states (N, D).

    DIFFormer's attentions of these are functions of the distance on and off the unit sphere.
    """
    rest = (1 - states.square().sum(1, keepdim=True)) / 2
    one = torch.ones_like(rest)
    return torch.cat([states, rest, one], 1), torch.cat([states, one, rest], 1)


class Bound(NamedTuple):
    """What the theorem says of the next step: it has to be at most `largest`, 0 < `largest`."""

    mass: Tensor
    least: float
    mu: float
    largest: float

    @classmethod
    def of(cls, energy: Energy, weights: Tensor) -> Bound:
        """Return the bound for the weights (N, N) at the present states, a symmetric matrix."""
        mass = weights.sum(1)
        scale = mass.rsqrt()
        mu = 1 - torch.linalg.eigvalsh(scale[:, None] * weights * scale)[0].item()
        pull = energy.strength * mass.min().item()
        return cls(mass, mass.min().item(), mu, 4 * pull / (1 + 2 * mu * pull))

    def fall(self, energy: Energy, moved: Tensor, step: float) -> float:
        """Return by how much the energy falls at least, for Z' - Z (N, D)."""
        pull = (self.mass[:, None] * (moved / step).square()).sum().item()
        gain = energy.strength * (4 * step - 2 * self.mu * step**2) * pull
        return gain - moved.square().sum().item()


def unified_view(graph) -> list[Row]:
    """Return how far each layer of the zoo is from its diffusion step, on a graph with no gaps.

    Args:
        graph: canonical and undirected, of N nodes.
    """
    x = torch.randn(graph.num_nodes(), WIDTH, dtype=torch.double)
    near = normalised(adjacency_of(graph))
    found = {
        "MLP, S = 1": _apart(graph, x, "mlp", torch.eye(len(x), dtype=x.dtype)),
        "GCN, S = D^-1 A of D^-1/2 z": _apart(graph, x, "gcn", near),
        "GAT, S = softmax over edges": _apart(graph, x, "gat", None),
        "mean of neighbours, S = D^-1 A": _gap(mean(graph, x), diffuse(x, near, 1.0)),
    }
    published = {"kernel": "simple", "qk_norm": "frobenius"}
    rows = {"kernel": "simple", "qk_norm": "row"}
    for name, options in {
        "DIFFormer-s, S = 1 + q k, Frobenius norm": published,
        "DIFFormer-s, S = 1 + q k, norm of rows": rows,
        "DIFFormer-a, S = s(q k)": {"kernel": "sigmoid"},
    }.items():
        found[name] = _of_attention(graph, x, options)
    for name in DIFFUSIVITIES:
        found[f"{name}, S of the distance"] = _of_distance(x / (2 * x.norm(dim=1).max()), name)
    return [Row(f"a layer is a step: {name}", gap, EXACT, None) for name, gap in found.items()]


def adjacency_of(graph) -> Tensor:
    """Return A of a graph with its self-loops, 0/1 (N, N): A_ij is an edge from j to i."""
    sources, targets = graph.edges()
    matrix = torch.zeros(graph.num_nodes(), graph.num_nodes(), dtype=torch.double)
    matrix[targets, sources] = 1
    return matrix


def edge_attention(graph, x: Tensor, layer: GraphAttention) -> Tensor:
    """Return GAT's weights as a matrix (N, N), from its equations, for x (N, D) and one head."""
    source, target = x @ layer.source[0], x @ layer.target[0]
    scores = functional.leaky_relu(target[:, None] + source, layer.slope)
    return scores.masked_fill(adjacency_of(graph) == 0, -torch.inf).softmax(1)


@torch.no_grad()
def _apart(graph, x: Tensor, name: str, s: Tensor | None) -> float:
    """Return how far the first convolution of a model is from a step on its linear map."""
    convolution: Any = zoo.create_model(name, WIDTH, 2, dim=WIDTH).double().stem.convolution
    if convolution.bias is not None:
        torch.nn.init.normal_(convolution.bias)
    z = convolution.linear(x)
    scale = torch.ones(len(x), 1, dtype=x.dtype)
    if name == "gcn":
        scale = adjacency_of(graph).sum(1, keepdim=True).sqrt()
    s = edge_attention(graph, z, convolution.propagate) if s is None else s
    step = scale * diffuse(z / scale, s, 1.0)
    return _gap(
        convolution(graph, x), step if convolution.bias is None else step + convolution.bias
    )


@torch.no_grad()
def _of_attention(graph, z: Tensor, options: dict[str, Any]) -> float:
    """Return how far DIFFormer's layer, without norm and graph, is from its step of size alpha."""
    made = {"dim": WIDTH, "alpha": 0.3, "norm": "none", "dropout": 0.0, "use_graph": False}
    layer: Any = zoo.create_model("difformer", WIDTH, 2, **made, **options).double().layers[0]
    q, k = (functional.linear(z, each.weight, each.bias) for each in (layer.query, layer.key))
    if options.get("qk_norm") == "frobenius":
        q, k = q / q.norm(), k / k.norm()
    elif options.get("qk_norm") == "row":
        q, k = functional.normalize(q, dim=1), functional.normalize(k, dim=1)
    weights = 1 + q @ k.mT if options["kernel"] == "simple" else torch.sigmoid(q @ k.mT)
    return _gap(layer(graph, z, None), diffuse(z, normalised(weights), 0.3))


def _of_distance(z: Tensor, name: str) -> float:
    """Return how far DIFFormer's attention of lifted states is from the mean by f(d_ij)."""
    kind = DIFFUSIVITIES[name]
    q, k = (each.unsqueeze(1) for each in lift(z))  # (N, 1, D + 2): one head
    if kind.kernel == "simple":
        out = linear_attention(q, k, z.unsqueeze(1), qk_norm="none", base="all")
    else:
        out = sigmoid(q, k, z.unsqueeze(1), block=16)
    weights = kind.slope(squared_distances(z))
    return _gap(out.squeeze(1), diffuse(z, normalised(weights), 1.0))


def _gap(one: Tensor, other: Tensor) -> float:
    return (one - other).abs().max().item()
