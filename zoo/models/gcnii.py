"""GCNII: a graph convolutional network of many layers, each of which sees the first features."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.nn import Dropout, FeatureLinear, Linear, ReluDropout, gcn
from zoo.registry import Count, Few, Fraction, Model, NonNegative, Positive, Rate, register_model


@register_model("gcnii")
class GCNII(Model):
    """The graph convolutions of Chen et al. (arXiv 2007.02133) with initial residual and identity.

    h_0 = ReLU(W Drop(x) + b), and of layer l, with S = D^-1/2 A D^-1/2 and b_l = log(lambda/l + 1),
    h = ReLU(((1 - alpha) S Drop(h) + alpha h_0) ((1 - b_l) I + b_l W)), equation 5. GCNII*,
    `separate: true`, has a map for each of the two: h = ReLU((1 - alpha) S Drop(h) ((1 - b_l) I +
    b_l W) + alpha h_0 ((1 - b_l) I + b_l W')), equation 6. Then a linear head of Drop(h).

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of convolutions; 16 to 64 in the paper.
        alpha: share of the first features h_0 in what each layer maps.
        map_weight: lambda; the larger, the less of a layer is the identity.
        separate: two maps in each layer, GCNII*.
        dropout: of the features, and of what each layer and the head read.
        layer_weight_decay: of the maps W of the layers; left out, as of all others.
    """

    paper = "Simple and Deep Graph Convolutional Networks (arXiv 2007.02133)"
    search: ClassVar = {
        "dim": [64, 128, 256],
        "layers": [2, 4, 8, 16, 32, 64],
        "alpha": {"low": 0.05, "high": 0.5},
        "map_weight": [0.5, 1.0, 1.5],
        "dropout": {"low": 0.0, "high": 0.8},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 16,
        alpha: Fraction = 0.1,
        map_weight: Positive = 0.5,
        separate: bool = False,
        dropout: Rate = 0.5,
        layer_weight_decay: NonNegative | None = None,
    ):
        super().__init__()
        self.stem = FeatureLinear(in_dim, dim, dropout=dropout)
        self.dropout, self.finish = Dropout(dropout), ReluDropout(dropout)
        layer = SeparateLayer if separate else Layer
        weights = [math.log(map_weight / number + 1) for number in range(1, layers + 1)]
        self.layers = nn.ModuleList(layer(dim, alpha, weight) for weight in weights)
        self.head = Linear(dim, out_dim)
        self.alpha, self.layer_weight_decay = alpha, layer_weight_decay

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim)."""
        first = self.stem(x).relu()
        h, first = self.dropout(first), self.alpha * first
        for layer in self.layers:
            h = self.finish(layer(graph, h, first))
        return h

    def parameter_groups(self) -> list[dict]:
        """Return the maps of the layers, with a weight decay of their own if any, and the rest."""
        inside = {id(parameter) for parameter in self.layers.parameters()}
        maps: dict = {"params": list(self.layers.parameters())}
        if self.layer_weight_decay is not None:
            maps["weight_decay"] = self.layer_weight_decay
        return [maps, {"params": [each for each in self.parameters() if id(each) not in inside]}]


class Layer(nn.Module):
    """u ((1 - b) I + b W) for u = (1 - alpha) S h + alpha h_0."""

    def __init__(self, dim: int, alpha: float, weight: float):
        super().__init__()
        self.alpha, self.near = alpha, NearIdentity(dim, weight)

    def forward(self, graph, h: Tensor, first: Tensor) -> Tensor:
        """Return (N, D) for the layer before, h (N, D), and alpha h_0 (N, D)."""
        return self.near(torch.add(first, gcn(graph, h), alpha=1 - self.alpha))


class SeparateLayer(Layer):
    """(1 - alpha) S h ((1 - b) I + b W) + alpha h_0 ((1 - b) I + b W')."""

    def __init__(self, dim: int, alpha: float, weight: float):
        super().__init__(dim, alpha, weight)
        self.first = NearIdentity(dim, weight)

    def forward(self, graph, h: Tensor, first: Tensor) -> Tensor:
        """Return (N, D) for the layer before, h (N, D), and alpha h_0 (N, D)."""
        return torch.add(self.first(first), self.near(gcn(graph, h)), alpha=1 - self.alpha)


class NearIdentity(nn.Module):
    """z ((1 - b) I + b W), with W (D, D) that begins uniform in -1/sqrt(D) to 1/sqrt(D)."""

    def __init__(self, dim: int, share: float):
        super().__init__()
        self.share, self.weight = share, nn.Parameter(torch.empty(dim, dim))
        nn.init.uniform_(self.weight, -(dim**-0.5), dim**-0.5)

    def forward(self, z: Tensor) -> Tensor:
        """Return (N, D) for z (N, D)."""
        identity = torch.eye(len(self.weight), dtype=self.weight.dtype, device=self.weight.device)
        return functional.linear(z, torch.lerp(identity, self.weight, self.share))
