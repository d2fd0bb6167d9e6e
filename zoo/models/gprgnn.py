"""GPR-GNN: a perceptron on each node, then a sum of walks along edges whose weights are learnt."""

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from zoo.nn import Dropout, FeatureLinear, Linear, ReluDropout, gcn
from zoo.registry import Count, Few, Fraction, Model, Rate, register_model


@register_model("gprgnn")
class GPRGNN(Model):
    """The generalized PageRank of Chien et al. (arXiv 2006.07988), equation 1.

    z = sum_k gamma_k S^k Drop(W Drop(ReLU(W Drop(x) + b)) + b), k = 0 to K, where S = D^-1/2 A
    D^-1/2, and gamma is learnt, without weight decay. The logits themselves are propagated, so no
    head follows: what `features` returns are the logits.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the hidden layers of the perceptron.
        layers: number of its hidden layers.
        steps: K, the longest walk.
        start: what gamma is at first: `pagerank`, gamma_k = alpha (1 - alpha)^k and gamma_K =
            (1 - alpha)^K, or `random`, uniform numbers whose magnitudes add up to 1.
        alpha: chance that a walk of `pagerank` ends at each node; 1: no edge counts at first, 0:
            the longest walk alone does.
        dropout: of the features and of every hidden layer.
        walk_dropout: of what is propagated.
    """

    paper = "Adaptive Universal Generalized PageRank Graph Neural Network (arXiv 2006.07988)"
    search: ClassVar = {
        "dim": [64, 128, 256],
        "steps": [4, 10],
        "alpha": [0.1, 0.2, 0.5, 0.9],
        "dropout": {"low": 0.0, "high": 0.8},
        "walk_dropout": {"low": 0.0, "high": 0.8},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 1,
        steps: Count = 10,
        start: Literal["pagerank", "random"] = "pagerank",
        alpha: Fraction = 0.1,
        dropout: Rate = 0.5,
        walk_dropout: Rate = 0.5,
    ):
        super().__init__()
        self.stem = FeatureLinear(in_dim, dim, dropout=dropout)
        self.layers = nn.ModuleList(Linear(dim, dim) for _ in range(layers - 1))
        self.head_linear, self.head = Linear(dim, out_dim), nn.Identity()
        self.finish, self.dropout = ReluDropout(dropout), Dropout(walk_dropout)
        self.gamma = nn.Parameter(_STARTS[start](steps, alpha))

    def features(self, graph, x: Tensor) -> Tensor:
        """Return the logits themselves, (N, out_dim), for x (N, in_dim)."""
        h = self.finish(self.stem(x))
        for layer in self.layers:
            h = self.finish(layer(h))
        return generalized_pagerank(graph, self.dropout(self.head_linear(h)), self.gamma)

    def parameter_groups(self) -> list[dict]:
        """Return the weights of walks, which do not decay, and the rest."""
        rest = [each for each in self.parameters() if each is not self.gamma]
        return [{"params": [self.gamma], "weight_decay": 0.0}, {"params": rest}]


def generalized_pagerank(graph, h: Tensor, gamma: Tensor) -> Tensor:
    """Return sum_k gamma_k S^k h, (N, C), for h (N, C) and gamma (K + 1,).

    As gamma_0 h + S (gamma_1 h + S (gamma_2 h + ...)): no S^k h is kept for the gradient of gamma.
    """
    *others, z = (weight * h for weight in gamma)
    for own in reversed(others):
        z = own + gcn(graph, z)
    return z


def pagerank(steps: int, alpha: float) -> Tensor:
    """Return alpha (1 - alpha)^k for k = 0 to K, (1 - alpha)^K in the last place, (K + 1,)."""
    gamma = alpha * (1 - alpha) ** torch.arange(steps + 1.0)
    gamma[-1] = (1 - alpha) ** steps
    return gamma


def random(steps: int, alpha: float) -> Tensor:
    """Return uniform numbers divided by the sum of their magnitudes, (K + 1,)."""
    gamma = torch.empty(steps + 1).uniform_(-1, 1)
    return gamma / gamma.abs().sum()


_STARTS = {"pagerank": pagerank, "random": random}
