"""HTGN: linear attention over all nodes and graph convolution, one after the other in each layer.

A public design note, not a paper: it prints no results and leaves gaps. This is its encoder, on
graphs. How the gaps are filled:

- The hierarchical relative positional encoding (HRPE) is its graph-node part, the eigenvectors P of
  the graph: a recipe's `encoding`, whose columns are beside the features, so that the first linear
  map is W [x, P] = W_x x + W_p P. The token-relative part is for sequences, and not here.
- Low-rank queries and keys are `rank` columns per head, the values share `dim`, rounded up; W_O
  merges the heads. Attention is that of positive random features (FAVOR+), or the sine-cosine
  kernel of random Fourier features; both draw new directions in every training call.
- An estimate by sines and cosines may be negative, and its sum over the keys may vanish. See
  `sine_attention`: what a node's mean weight lacks of the noise of one estimate, (2 M)^-1/2, is
  given to all nodes alike, so that the weights still have sum 1 and outputs stay bounded.
- The graph convolution is a GAT with scores of its own, or has as scores those of the layer's
  attention, of the same queries and keys, exact and not estimated; a softmax over the neighbours in
  either case. It has the heads of the attention, side by side, and no W_O and no bias.
- Features of edges, its next step, have a part in the scores of the convolution, as in a GAT.
- DropPath drops the branch of a node, not of a graph, of which there is often only one: each node
  keeps its branch with probability 1 - p, then divided by it; p grows linearly over the layers, to
  `drop_path` in the last.
- The smoothness term is the mean over layers, heads and nodes of KL(alpha_v || uniform over N(v)),
  self-loops included. It has no part in a model without graph convolution.
- Ordinary dropout, on which the note says nothing, is of the first features, of the convolution
  after its ReLU, and inside the feed-forward.
"""

from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn

from zoo.nn import (
    ATTENTIONS,
    Dropout,
    EdgeScores,
    FeatureLinear,
    FeedForward,
    GraphAttention,
    Linear,
    MultiHead,
    Norm,
    RandomKernel,
    build_attend,
    build_norm,
    edge_dot,
    edge_targets,
    in_degrees,
    merge_heads,
    node_positions,
    performer,
    rotate,
    rotation,
    seed_of,
    sine_attention,
    split_heads,
    weighted_softmax,
    weighted_sum,
)
from zoo.registry import (
    Count,
    Few,
    Model,
    NonNegative,
    Output,
    Rate,
    Seed,
    Spec,
    register_model,
)


@register_model("htgn")
class HTGN(Model):
    """Linear attention, graph convolution and feed-forward, each with a residual and a norm.

    z = Drop(W [x, P]); per layer z = norm(z + Path(Attention(z))), then
    z = norm(z + Path(Drop(ReLU(sum_{u in N(v)} alpha_vu W z_u)))), then
    z = norm(z + Path(MLP(z))). Attention(z) = W [attend(Q, K, V) of each head], Q, K, V = W z + b,
    Q and K of `rank` columns; MLP(z) = W Drop(ReLU(W z)). alpha_vu is a softmax over u of
    LeakyReLU(a W z_u + b W z_v), or of q_v k_u / sqrt(rank). The penalty is the mean of
    sum_u alpha_vu log(alpha_vu |N(v)|) over layers, heads and nodes, times `smoothness`. Then a
    linear head.

    Args:
        in_dim: node features F, the columns of the encoding among them.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of layers.
        heads: attention heads, which share the width; of the graph convolution too.
        rank: columns of the queries and keys of each head; low against dim / heads.
        attention: `native` is attention by random features, see `kernel`.
        kernel: what the native attention estimates: `softmax` of q_i k_j / sqrt(rank), or by `sine`
            and cosine the Gaussian kernel exp(-|q_i - k_j|^2 / (2 sqrt(rank))).
        random_features: number M of random directions of the native attention.
        edges: weights of the graph convolution: `learned` scores of its own, those of the layer's
            `attention`, or `none`, which leaves the convolution out.
        expansion: width of the feed-forward, as a multiple of `dim`.
        norm: after each residual: `none`, `layer` or `batch`.
        drop_path: rate of dropped branches per node in the last layer; linear in the layer.
        dropout: of the first features, of the convolution, and inside the feed-forward.
        smoothness: weight of the penalty that keeps the convolution's weights near uniform.
        rotary: turn queries and keys by the place of each node in its graph: for sequences.
        seed: of the random directions used in evaluation.
        edge_dim: features of edges that have a part in the scores of the convolution; left out, as
            many as the data set has.
    """

    paper = "HTGN, a public design note"
    search: ClassVar = {
        "dim": [32, 64, 128],
        "layers": {"low": 1, "high": 4},
        "dropout": {"low": 0.0, "high": 0.8},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 2,
        heads: Few = 2,
        rank: Count = 16,
        attention: Annotated[Spec, ATTENTIONS] = "native",
        kernel: Literal["softmax", "sine"] = "softmax",
        random_features: Count = 64,
        edges: Literal["learned", "attention", "none"] = "learned",
        expansion: Few = 4,
        norm: Norm = "batch",
        drop_path: Rate = 0.1,
        dropout: Rate = 0.5,
        smoothness: NonNegative = 0.01,
        rotary: bool = False,
        seed: Seed = 0,
        edge_dim: Count | None = None,
    ):
        super().__init__()
        self.stem, self.dropout = FeatureLinear(in_dim, dim), Dropout(dropout)
        self.smoothness, self.turned = smoothness, rank if rotary else None
        self.layers = nn.ModuleList()
        for layer in range(layers):
            native = RandomKernel(_KERNELS[kernel], random_features, seed=seed_of((seed, layer)))
            attend = build_attend(attention, native, layer)
            rate = drop_path * (layer + 1) / layers
            parts = {
                "attention": MultiHead(dim, heads, rank),
                "convolution": _EDGES[edges](dim, heads, edge_dim or 0),
                "feed_forward": FeedForward(dim, expansion, dropout),
            }
            adds = {
                name: Residual(build_norm(norm, dim), rate)
                for name, part in parts.items()
                if part is not None
            }
            self.layers.append(HTGNLayer(**parts, attend=attend, adds=adds, dropout=dropout))
        self.head = Linear(dim, out_dim)

    def forward(self, graph, x: Tensor) -> Output:
        """Return the logits, and the smoothness term as the penalty, in training and evaluation."""
        z, weights = self._states(graph, x)
        logits = self.head(z)
        if not self.smoothness or not weights:
            return Output(logits)
        terms = [smoothness(graph, weight) for weight in weights]
        return Output(logits, self.smoothness * torch.stack(terms).mean())

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim)."""
        return self._states(graph, x)[0]

    def _states(self, graph, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Return what the head reads, and the weights of each layer's convolution, (E, H)."""
        z, edge_weights = self.dropout(self.stem(x)), []
        turn = None
        if self.turned is not None:
            places = node_positions(graph).to(z.device)
            turn = rotation(places, self.turned, dtype=z.dtype)
        for layer in self.layers:
            z, weights = layer(graph, z, turn)
            edge_weights += weights
        return z, edge_weights


class HTGNLayer(nn.Module):
    """Attention, convolution on the edges (or none) and feed-forward, in this order.

    z -> norm(z + Path(branch(z))) for each; the convolution ends with a ReLU and dropout.
    """

    def __init__(self, attention, convolution, feed_forward, *, attend, adds, dropout):
        super().__init__()
        self.attention, self.attend, self.convolution = attention, attend, convolution
        self.feed_forward, self.add = feed_forward, nn.ModuleDict(adds)
        self.dropout = Dropout(dropout)

    def forward(self, graph, z: Tensor, turn: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """Return (N, D) for z (N, D), and the weights on the edges, (E, H), if there are any.

        `turn` is the rotation of queries and keys, (N, rank // 2) complex, or None.
        """
        q, k, v = self.attention.split(z)  # (N, H, rank) twice, (N, H, D)
        if turn is not None:
            q, k = rotate(q, turn), rotate(k, turn)
        gathered = self.attention.join(self.attend(graph, q, k, v))
        z, edge_weights = self.add["attention"](z, gathered), []
        if self.convolution is not None:
            near, weights = self.convolution(graph, z, q, k)
            z = self.add["convolution"](z, self.dropout(near.relu()))
            edge_weights.append(weights)
        return self.add["feed_forward"](z, self.feed_forward(z)), edge_weights


class Residual(nn.Module):
    """norm(z + Path(branch)): in training the branch of a node is dropped with probability p."""

    def __init__(self, norm: nn.Module, rate: float):
        super().__init__()
        self.norm, self.drop = norm, Dropout(rate)

    def forward(self, z: Tensor, branch: Tensor) -> Tensor:
        """Return (N, D) for z and what its branch made of it, both (N, D)."""
        kept = self.drop(branch.new_ones(len(branch), 1))  # 0 or 1 / (1 - p)
        return self.norm(z + branch * kept)


class LearnedEdges(nn.Module):
    """sum_{u in N(v)} alpha_vu W z_u, alpha_vu a softmax of LeakyReLU(a W z_u + b W z_v): a GAT."""

    def __init__(self, dim: int, heads: int, edge_dim: int = 0):
        super().__init__()
        self.linear = Linear(dim, dim, bias=False)
        self.gather = GraphAttention(dim, heads, 0.2, edge_dim)

    def forward(self, graph, z: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return (N, D) for z (N, D), and the weights (E, H); q and k are not looked at."""
        return self.gather.with_weights(graph, self.linear(z))


class AttentionEdges(nn.Module):
    """sum_{u in N(v)} alpha_vu W z_u, with alpha_vu the softmax over u of q_v k_u / sqrt(rank)."""

    def __init__(self, dim: int, heads: int, edge_dim: int = 0):
        super().__init__()
        self.linear, self.heads = Linear(dim, dim, bias=False), heads
        self.edge_scores = EdgeScores(edge_dim, heads) if edge_dim else None

    def forward(self, graph, z: Tensor, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return (N, D) for z (N, D), and the weights (E, H), for q and k (N, H, rank)."""
        scores = edge_dot(graph, k, q) * q.shape[-1] ** -0.5
        if self.edge_scores is not None:
            scores = scores + self.edge_scores(graph, scores)
        weights = weighted_softmax(graph, scores)
        values = split_heads(self.linear(z), self.heads)
        return merge_heads(weighted_sum(graph, values, weights), z.shape[-1]), weights


def _no_edges(dim: int, heads: int, edge_dim: int = 0) -> None:
    """No convolution."""


_EDGES = {"learned": LearnedEdges, "attention": AttentionEdges, "none": _no_edges}


def smoothness(graph, weights: Tensor) -> Tensor:
    """Return the mean over nodes and heads of sum_u alpha_vu log(alpha_vu |N(v)|), alpha (E, H)."""
    many = in_degrees(graph, weights.device).to(weights.dtype)
    expected = many.log().index_select(0, edge_targets(graph, weights.device))  # (E,)
    # A weight that has underflowed to 0 adds 0, and its logarithm has no gradient.
    logs = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    divergence = weights * (logs + expected.unsqueeze(-1))
    return divergence.sum() / (max(1, len(many)) * weights.shape[-1])


_KERNELS = {"softmax": performer, "sine": sine_attention}
