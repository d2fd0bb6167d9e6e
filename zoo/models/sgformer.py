"""SGFormer: one layer of linear attention over all nodes beside a graph network.

"Simplifying and Empowering Transformers for Large-Graph Representations" (arXiv 2306.10759). The
authors publish three programs, for medium, large and 100M-node graphs; their differences are the
options of this one model. Where it departs from them:

- Norms are per set: batches of RBA and graphs of a batch do not influence each other.
- An all-zero query or key gives zero scores where the original divides by zero.
- The degrees of the graph are computed once, not in every forward pass.
- The residual mix of the large program, an average, is `alpha: 0.5`; without residual, `alpha: 1`.
- `activation` does what it says, in all programs; the medium one ignores its flag.
"""

from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from zoo.nn import (
    ATTENTIONS,
    PROPAGATIONS,
    Convolution,
    Dropout,
    FeatureLinear,
    HeadIdentity,
    HeadLinear,
    Linear,
    Norm,
    Projection,
    QueryKeyNorm,
    ReluDropout,
    ReluDropoutAdd,
    build_attend,
    build_norm,
    build_propagation,
    lerp,
    linear,
    mean_over_heads,
)
from zoo.registry import (
    Count,
    Few,
    Fraction,
    Model,
    NonNegative,
    Rate,
    Spec,
    ZooError,
    register_model,
)


@register_model("sgformer")
class SGFormer(Model):
    """Linear attention over all nodes, merged with a graph network on the raw features.

    Attention branch: z = Drop(ReLU(norm(W x))); per layer Q, K = W z, V = z (or W z) and
    z = Drop([ReLU](norm(alpha * mean_heads(attend(Q, K, V)) + (1 - alpha) z))), the authors'
    attention being (N v_i + q_i K^T V) / (N + q_i K^T 1) with q, k of norm 1. Graph branch g: see
    `GraphStack` and `GraphResidual`. Head: W (w g + (1 - w) z), or W [z, g].

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of both branches.
        layers: attention layers; the paper needs one.
        full_heads: attention heads, each of the full width; their outputs are averaged.
        attention: `native` is the authors' linear attention.
        qk_norm: what divides queries and keys in the native attention: one `frobenius` norm, as
            published, or each `row`'s own norm.
        alpha: weight of the attention's output against the layer's input.
        norm: norm of the attention branch.
        activation: end each attention layer with a ReLU.
        dropout: dropout of the attention branch.
        attention_weight_decay: weight decay of the attention branch; that of `train` when left
            out.
        use_weight: project the values instead of attending to z itself.
        propagation: how the graph branch gathers neighbours.
        graph_branch: `stack` (medium program) or `residual` (large and 100M programs).
        graph_layers: propagations of the graph branch.
        graph_norm: norm of the graph branch.
        graph_dropout: dropout of the graph branch.
        use_init: feed the branch's first features to each of its layers (`residual` only).
        combine: `add` or `cat`enate the branches.
        graph_weight: weight w of the graph branch when they are added.
    """

    paper = "SGFormer: Simplifying and Empowering Transformers (arXiv 2306.10759)"
    search: ClassVar = {
        "dim": [32, 64, 128, 256],
        "dropout": {"low": 0.0, "high": 0.8},
        "norm": ["none", "layer"],
        "qk_norm": ["frobenius", "row"],
        "alpha": [0.5, 1.0],
        "graph_branch": ["stack", "residual"],
        "graph_layers": {"low": 1, "high": 5},
        "graph_norm": ["none", "batch"],
        "graph_dropout": {"low": 0.0, "high": 0.8},
        "graph_weight": {"low": 0.1, "high": 0.9},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 1,
        full_heads: Few = 1,
        attention: Annotated[Spec, ATTENTIONS] = "native",
        qk_norm: QueryKeyNorm = "frobenius",
        alpha: Fraction = 1.0,
        norm: Norm = "none",
        activation: bool = False,
        dropout: Rate = 0.2,
        attention_weight_decay: NonNegative | None = None,
        use_weight: bool = False,
        propagation: Annotated[Spec, PROPAGATIONS] = "gcn",
        graph_branch: Literal["stack", "residual"] = "stack",
        graph_layers: Few = 4,
        graph_norm: Norm = "none",
        graph_dropout: Rate = 0.5,
        use_init: bool = False,
        combine: Literal["add", "cat"] = "add",
        graph_weight: Fraction = 0.8,
    ):
        super().__init__()
        if use_init and graph_branch == "stack":
            raise ZooError(
                "sgformer: `use_init: true` needs the graph branch that has it; "
                "write `graph_branch: residual` beside it."
            )
        self.stem_attention = FeatureLinear(in_dim, dim)
        self.norm, self.finish = build_norm(norm, dim), ReluDropout(dropout)
        native = partial(linear, qk_norm=qk_norm)
        self.layers = nn.ModuleList(
            AttentionLayer(
                dim,
                full_heads,
                build_attend(attention, native, layer),
                alpha=alpha,
                norm=norm,
                activation=activation,
                dropout=dropout,
                use_weight=use_weight,
            )
            for layer in range(layers)
        )
        propagations = [build_propagation(propagation, dim) for _ in range(graph_layers)]
        branch = _GRAPH_BRANCHES[graph_branch]
        self.stem_graph = branch.stem(in_dim, dim, propagations)
        self.graph = branch(dim, propagations, graph_norm, graph_dropout, use_init)
        self.combine, self.graph_weight = combine, graph_weight
        self.head = Linear(2 * dim if combine == "cat" else dim, out_dim)
        self.attention_weight_decay = attention_weight_decay

    def features(self, graph, x: Tensor) -> Tensor:
        """Return the merged branches, (N, dim) or (N, 2 dim), for x (N, in_dim)."""
        z = self.finish(self.norm(self.stem_attention(x)))
        for layer in self.layers:
            z = layer(graph, z)
        g = self.graph(graph, self.stem_graph(graph, x))
        if self.combine == "cat":
            return torch.cat([z, g], dim=-1)
        return lerp(z, g, self.graph_weight)

    def parameter_groups(self) -> list[dict]:
        """Return the attention branch, with its own weight decay if it has one, and the rest."""
        branch = nn.ModuleList([self.stem_attention, self.norm, self.layers])
        inside = {id(parameter) for parameter in branch.parameters()}
        rest = [parameter for parameter in self.parameters() if id(parameter) not in inside]
        attention: dict = {"params": list(branch.parameters())}
        if self.attention_weight_decay is not None:
            attention["weight_decay"] = self.attention_weight_decay
        return [attention, {"params": rest}]


class AttentionLayer(nn.Module):
    """z -> Drop([ReLU](norm(alpha * mean_heads(attend(Q, K, V)) + (1 - alpha) z)))."""

    def __init__(self, dim, heads, attend, *, alpha, norm, activation, dropout, use_weight):
        super().__init__()
        self.query, self.key = HeadLinear(dim, heads, dim), HeadLinear(dim, heads, dim)
        self.value = HeadLinear(dim, heads, dim) if use_weight else HeadIdentity(heads)
        self.attend, self.alpha, self.norm = attend, alpha, build_norm(norm, dim)
        self.finish = ReluDropout(dropout) if activation else Dropout(dropout)

    def forward(self, graph, z: Tensor) -> Tensor:
        """Return (N, D) for z (N, D), nodes attending inside each graph of a batch."""
        q, k, v = self.query(z), self.key(z), self.value(z)  # (N, H, D) each
        gathered = mean_over_heads(self.attend(graph, q, k, v))  # (N, D)
        return self.finish(self.norm(lerp(z, gathered, self.alpha)))


class GraphStack(nn.Module):
    """The medium program's graph network: convolutions with norm, ReLU and dropout in between.

    Its first convolution, from F to the width, is the stem; nothing follows the last one.
    """

    def __init__(self, dim, propagations, norm, dropout, use_init):
        super().__init__()
        self.convolutions = nn.ModuleList(
            Convolution(dim, dim, propagation) for propagation in propagations[1:]
        )
        self.norms = nn.ModuleList(build_norm(norm, dim) for _ in propagations[1:])
        self.finish = ReluDropout(dropout)

    @staticmethod
    def stem(in_dim, dim, propagations) -> nn.Module:
        """Return the first convolution."""
        return Convolution(in_dim, dim, propagations[0], linear=FeatureLinear)

    def forward(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for what the stem made of the features, (N, dim)."""
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            x = convolution(graph, self.finish(norm(x)))
        return x


class GraphResidual(nn.Module):
    """The large programs' graph network; each layer adds the first features, h0.

    h0 = Drop(ReLU(norm(W x))), and h = Drop(ReLU(norm(W u))) + h0 with u = propagate(h), or
    u = [propagate(h), h0] with `use_init`. (The originals mean to add the layer before; they
    always add h0, and so do the published numbers.)
    """

    def __init__(self, dim, propagations, norm, dropout, use_init):
        super().__init__()
        self.norm, self.finish = build_norm(norm, dim), ReluDropout(dropout, save_mask=True)
        self.layers = nn.ModuleList(
            GraphResidualLayer(dim, propagation, norm, dropout, use_init)
            for propagation in propagations
        )

    @staticmethod
    def stem(in_dim, dim, propagations) -> nn.Module:
        """Return the linear map of the features."""
        return Projection(in_dim, dim, dropout=0.0)

    def forward(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for what the stem made of the features, (N, dim)."""
        first = h = self.finish(self.norm(x))
        for layer in self.layers:
            h = layer(graph, h, first)
        return h


class GraphResidualLayer(nn.Module):
    """h -> Drop(ReLU(norm(W [propagate(h), h0]))) + h0, h0 inside the brackets by choice."""

    def __init__(self, dim, propagate, norm, dropout, use_init):
        super().__init__()
        self.propagate, self.use_init = propagate, use_init
        self.linear = Linear(2 * dim if use_init else dim, dim)
        self.norm, self.finish = build_norm(norm, dim), ReluDropoutAdd(dropout)

    def forward(self, graph, h: Tensor, first: Tensor) -> Tensor:
        """Return (N, D) for the layer before and the first features, both (N, D)."""
        u = self.propagate(graph, h)
        u = torch.cat([u, first], dim=-1) if self.use_init else u
        return self.finish(self.norm(self.linear(u)), first)


_GRAPH_BRANCHES = {"stack": GraphStack, "residual": GraphResidual}
