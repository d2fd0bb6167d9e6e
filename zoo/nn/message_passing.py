"""What GCN, GraphSAGE, GAT and the perceptron share: a stack of graph convolutions."""

from typing import ClassVar

from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.nn.feature_linear import FeatureDropout, FeatureLinear
from zoo.nn.layers import Convolution, Projection, build_norm
from zoo.nn.propagation import Separate
from zoo.ops.dropout import ReluDropout
from zoo.ops.linear import Linear
from zoo.registry import Model


class MessagePassing(Model):
    """The stack behind the tuned baselines of "Classic GNNs are Strong Baselines".

    Luo, Shi, Wu (arXiv 2406.08993), equation 4: [x = Drop(x)], [x = Drop(W x)], then per layer
    Drop(ReLU(norm(conv(x) [+ W x]))), then a linear head. Their program for ogbn-products has the
    norm first: x = W x, per layer z = Drop(ReLU(norm(x))) and x = conv(z) [+ W z], and a last
    Drop(ReLU(norm(x))) before the head.

    `residual` counts the maps W of a layer's own input: none, one, or two of GraphSAGE, whose
    convolution has one itself. `glorot` is that of `Convolution`.

    Raises:
        ZooError: the norm comes first, and no linear map before it; or both directions and kinds
            of edges are to be kept apart.
    """

    paper = "Classic GNNs are Strong Baselines (arXiv 2406.08993)"
    search: ClassVar = {
        "dim": [64, 128, 256],
        "layers": {"low": 1, "high": 5},
        "dropout": {"low": 0.0, "high": 0.8},
        "norm": ["none", "batch", "layer"],
        "residual": [False, True],
    }

    def __init__(
        self,
        in_dim,
        out_dim,
        convolution,
        *,
        layers,
        dim,
        dropout,
        norm,
        residual,
        norm_first=False,
        project=False,
        bias=True,
        glorot=True,
        input_dropout=0.0,
        direction="both",
        relations=1,
    ):
        super().__init__()
        if direction == "separate" and relations > 1:
            raise ZooError("`direction: separate` or `relations: K`; leave one of them out.")
        apart = 2 if direction == "separate" else relations
        propagations = [
            Separate([convolution() for _ in range(apart)]) if apart > 1 else convolution()
            for _ in range(layers)
        ]
        if norm_first and not project:
            raise ZooError("`norm_first: true` needs a width to norm; write `project: true` too.")
        self.input_dropout = FeatureDropout(input_dropout)
        options = {"bias": bias, "residual": residual, "norm": norm, "dropout": dropout}
        options |= {"norm_first": norm_first, "glorot": glorot}
        if project:
            self.stem = Projection(in_dim, dim, dropout=0.0 if norm_first else dropout)
            rest = propagations
        else:
            self.stem = Step(in_dim, dim, propagations[0], **options, linear=FeatureLinear)
            rest = propagations[1:]
        self.layers = nn.ModuleList(Step(dim, dim, propagation, **options) for propagation in rest)
        last = [build_norm(norm, dim), ReluDropout(dropout)] if norm_first else []
        self.finish = nn.Sequential(*last)
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim), or tokens (N,)."""
        if x.dim() == 1 and self.input_dropout.p:
            raise ZooError("input_dropout is of features, and tokens have none; leave it out.")
        x = self.input_dropout(x)
        for layer in (self.stem, *self.layers):
            x = layer(graph, x)
        return self.finish(x)


class Step(nn.Module):
    """One layer: Drop(ReLU(norm(conv(x) [+ W x]))); or conv(Drop(ReLU(norm(x)))), norm first."""

    def __init__(
        self,
        in_dim,
        out_dim,
        propagate,
        *,
        bias,
        residual,
        norm,
        dropout,
        norm_first,
        glorot=True,
        linear=Linear,
    ):
        super().__init__()
        self.convolution = Convolution(
            in_dim, out_dim, propagate, bias=bias, linear=linear, glorot=glorot
        )
        self.residual = linear(in_dim, out_dim) if residual else None
        self.second = linear(in_dim, out_dim, bias=False) if residual > 1 else None
        self.norm, self.finish = build_norm(norm, out_dim), ReluDropout(dropout)
        self.norm_first = norm_first

    def forward(self, graph, x: Tensor) -> Tensor:
        """Return (N, out_dim) for x (N, in_dim)."""
        x = self.finish(self.norm(x)) if self.norm_first else x
        out = self.convolution(graph, x)
        if self.residual is not None:
            out = out + self.residual(x)
        if self.second is not None:
            out = out + self.second(x)
        return out if self.norm_first else self.finish(self.norm(out))
