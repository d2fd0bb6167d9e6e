"""Encodings with weights: networks of eigenvectors, to which their signs make no difference.

What stands beside the features is columns of numbers, eigenvectors and eigenvalues, and a network
makes of them what a model reads in their place. It is a part of the model, trained, saved and
loaded with it, and given what the model is given: any graph, or batch of graphs.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from zoo.config.options import Count, Few, Table
from zoo.graphs.adjacency import edge_dst
from zoo.graphs.shard import Graph
from zoo.graphs.spmm import edge_dot
from zoo.nn.propagation import mean, none

_ALONG = {"none": none, "mean": mean}


class EncodingNetwork(nn.Module):
    """What learned encodings have in common: which columns they read, and how many they give.

    Attributes:
        columns: how many columns it reads, the last ones of a model's features.
        dim: how many it gives.
    """

    columns: int
    dim: int


class SignNet(EncodingNetwork):
    """rho(phi(v_1) + phi(-v_1), ..., phi(v_k) + phi(-v_k)), SignNet (arXiv 2202.13013).

    Which of v and -v an eigenvector is makes no difference, exactly: the two terms change places.
    phi is a perceptron of one hidden layer, of a node's own entry and the eigenvalue, the same for
    all eigenvectors; so it knows of an entry its magnitude alone, and not whether two nodes are on
    the same side. With `propagation: mean` each of its layers adds the mean of the neighbours
    to what it reads, and then it does: this is the phi along the edges that the paper also has.
    rho is a perceptron of the k sums side by side, then a layer norm, which is ours. A graph with
    fewer eigenvectors has zeros for the sums of the others. Time and memory are O(N k dim).

    Args:
        k: eigenvectors.
        dim: width of phi and of rho, and the columns that the model reads.
        eigenvalues: phi also reads the eigenvalue.
        propagation: how phi looks along the edges: `none`, or `mean` of the neighbours.
    """

    def __init__(
        self,
        *,
        k: Few = 16,
        dim: Count = 16,
        eigenvalues: bool = True,
        propagation: Literal["none", "mean"] = "none",
    ):
        super().__init__()
        self.columns, self.dim, self.eigenvalues = 2 * k, dim, eigenvalues
        self.propagate = _ALONG[propagation]
        self.phi = nn.ModuleList([nn.Linear(1 + eigenvalues, dim), nn.Linear(dim, dim)])
        self.rho = perceptron(k * dim, dim)

    def forward(self, graph: Graph, pairs: Tensor) -> Tensor:
        """Return (N, dim) for eigenvectors and eigenvalues, side by side, (N, 2 k)."""
        vectors, values = pairs.chunk(2, dim=-1)
        sums = self._phi(graph, vectors, values) + self._phi(graph, -vectors, values)
        there = (values > 0).unsqueeze(-1)  # the eigenvalue of a column of zeros is 0
        return self.rho((sums * there).flatten(1))

    def _phi(self, graph: Graph, vectors: Tensor, values: Tensor) -> Tensor:
        """Return (N, k, dim) for eigenvectors and eigenvalues, (N, k) each."""
        read = [vectors, values] if self.eigenvalues else [vectors]
        hidden = torch.stack(read, dim=-1)
        for layer in self.phi:
            hidden = layer(hidden + self.propagate(graph, hidden)).relu()
        return hidden


class SPE(EncodingNetwork):
    """rho(V diag(phi_1(lambda)) V^T, ..., V diag(phi_m(lambda)) V^T), SPE (arXiv 2310.02579).

    Neither signs nor, where an eigenvalue is multiple, the choice of a basis makes a difference, if
    all of its eigenvectors are among the k; and where two eigenvalues meet nothing jumps, which the
    paper calls stable. phi is a perceptron of each eigenvalue. The paper's rho is a GIN over the
    rows of all N x N x m numbers. Here they are never made: with a_ij in R^m, those of a pair, only
    a_ii and the a_ij of edges are computed, as dot products along the edges, and

        p_i = rho_2((1 + eps) rho_1(a_ii) + sum_{j in N(i)} rho_1(a_ij)),

    one step of a GIN of which every sum is masked to the edges. That is O((N + E) k m), permutation
    equivariant as the paper's rho is, and less expressive: what pairs that no edge joins have in
    common is not seen. rho_1 is a linear map and a ReLU, rho_2 a perceptron and a layer norm, which
    is ours, and m is `dim`. The weights of edges are not looked at.

    Args:
        k: eigenvectors.
        dim: width of phi and of rho, functions m, and the columns that the model reads.
    """

    def __init__(self, *, k: Few = 16, dim: Count = 16):
        super().__init__()
        self.columns, self.dim = 2 * k, dim
        self.phi = nn.Sequential(nn.Linear(1, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.pair = nn.Linear(dim, dim)
        self.eps = nn.Parameter(torch.zeros(()))
        self.rho = perceptron(dim, dim)

    def forward(self, graph: Graph, pairs: Tensor) -> Tensor:
        """Return (N, dim) for eigenvectors and eigenvalues, side by side, (N, 2 k)."""
        vectors, values = pairs.chunk(2, dim=-1)
        right = vectors.unsqueeze(1).expand(-1, self.dim, -1)  # (N, m, k)
        left = right * self.phi(values.unsqueeze(-1)).mT
        own = self.pair((left * right).sum(-1)).relu()  # (N, dim)
        joined = self.pair(edge_dot(graph, left, right).to(own.dtype)).relu()  # (E, dim)
        near = torch.zeros_like(own).index_add(0, edge_dst(graph, own.device), joined)
        return self.rho(near + self.eps * own)  # an edge joins each node to itself


def perceptron(width: int, dim: int) -> nn.Sequential:
    """Return two linear maps with a ReLU between them, and a layer norm after them."""
    return nn.Sequential(nn.Linear(width, dim), nn.ReLU(), nn.Linear(dim, dim), nn.LayerNorm(dim))


ENCODING_NETWORKS: Table[type[EncodingNetwork]] = Table(
    "encoding with weights", {"signnet": SignNet, "spe": SPE}
)
"""Word of `zoo.ENCODINGS` to the network that reads its columns, with the same options."""
