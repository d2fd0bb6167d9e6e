"""The graph isomorphism network, with features of edges where there are some: GIN and GINE."""

from typing import ClassVar

from torch import Tensor, nn

from zoo.nn import Isomorphism, Linear, MessagePassing, Norm, Projection, ReluDropout, build_norm
from zoo.registry import Count, Few, Model, Rate, register_model


@register_model("gine")
class GINE(Model):
    """The graph isomorphism network of Xu et al. (arXiv 1810.00826), whose sums see edges.

    z = Drop(W x); per layer z = Drop(ReLU(norm(W ReLU(norm(W a + b)) + b))) [+ z], where
    a_v = (1 + eps) z_v + sum_u z_u over the neighbours u of v. With features f of edges it is
    sum_u ReLU(z_u + W f_uv + b), GINE of Hu et al. (arXiv 1905.12265), equation A.2. Then a linear
    head.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the hidden layers.
        layers: number of convolutions.
        dropout: after the first map and every layer.
        norm: before every activation: `none`, `layer` or `batch`.
        residual: add the layer's input to its output.
        edge_dim: features of edges; left out, as many as the data set has.
    """

    paper = "How Powerful are Graph Neural Networks? (arXiv 1810.00826)"
    search: ClassVar = MessagePassing.search

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 4,
        dropout: Rate = 0.0,
        norm: Norm = "batch",
        residual: bool = True,
        edge_dim: Count | None = None,
    ):
        super().__init__()
        self.stem = Projection(in_dim, dim, dropout=dropout)
        self.layers = nn.ModuleList(
            GINELayer(dim, edge_dim or 0, norm=norm, dropout=dropout, residual=residual)
            for _ in range(layers)
        )
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim)."""
        z = self.stem(graph, x)
        for layer in self.layers:
            z = layer(graph, z)
        return z


class GINELayer(nn.Module):
    """Drop(ReLU(norm(MLP((1 + eps) z + sum of messages)))) [+ z]."""

    def __init__(self, dim: int, edge_dim: int, *, norm: Norm, dropout: float, residual: bool):
        super().__init__()
        self.gather, self.residual = Isomorphism(dim, edge_dim), residual
        self.widen, self.narrow = Linear(dim, dim), Linear(dim, dim)
        self.norms = nn.ModuleList(build_norm(norm, dim) for _ in range(2))
        self.finish = ReluDropout(dropout)

    def forward(self, graph, z: Tensor) -> Tensor:
        """Return (N, dim) for z (N, dim)."""
        inner = self.norms[0](self.widen(self.gather(graph, z))).relu()
        out = self.finish(self.norms[1](self.narrow(inner)))
        return out + z if self.residual else out
