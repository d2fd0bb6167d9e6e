"""GRIT: a transformer of pairs of nodes, which starts from the probabilities of random walks.

"Graph Inductive Biases in Transformers without Message Passing" (arXiv 2305.17589). Each pair has a
state, which scores and values are made of, and which goes through the layers. That of pair (i, j)
depends on the nodes i and j and on nothing else. Where all pairs have room, as those of molecules,
their states are kept for the next layer. Else it needs no N x N memory: a layer makes the states of
the pairs that it attends to from the walks, through all layers before it. With `attention: {name:
rba, size: p}` these are the N p pairs inside a batch, and each layer may deal its own: the state of
a pair is what it would be without batches, from these nodes. That takes L (L + 1) / 2 updates in
the place of L, and `update_pairs: false` has none. Where it departs:

- Pair states have a layer norm, each by itself, where the authors' have a batch norm over all.
- Features of edges are not read.
- The signed square root is taken of |x| + 1e-4, so that its gradient is finite at 0.
- The weights of the attention are not dropped out, and the first features are.
- A width that the heads do not divide is rounded up.
"""

from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.nn import (
    ATTENTIONS,
    Bias,
    Dropout,
    FeatureLinear,
    FeedForward,
    Linear,
    MultiHead,
    Norm,
    OncePerBlock,
    Ragged,
    attend_by_rows,
    build_attend,
    build_norm,
    for_bias,
    for_ragged,
    in_degrees,
    return_probabilities,
    walk_probabilities,
)
from zoo.registry import Count, Few, Model, Rate, Spec, Within, register_model


@register_model("grit")
class GRIT(Model):
    """Attention to states of pairs, which begin as the probabilities of walks between two nodes.

    z_i = Drop(W x_i + W P_ii) and e_ij = W P_ij, P = [I, M, M^2, ...] of the walk M = D^-1 A. Per
    layer and head s_ij = ReLU(r((q_i + k_j) * W e_ij) + W e_ij), r(x) = sign(x) sqrt(|x|), and
    a_i = sum_j softmax_j(w . s_ij) (v_j + W s_ij), q, k, v = W z. Then z = norm(z + Drop(W a * t +
    log(1 + d) W a * u)) with the degree d, z = norm(z + Drop(MLP(z))) and
    e_ij = norm(e_ij + W s_ij). Then a linear head. Equations 1 to 3 of the paper.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers, of nodes and of pairs.
        layers: number of layers, each an attention and a feed-forward.
        heads: attention heads, which share the width.
        attention: `native`, which reads states of pairs, or random batches of it.
        steps: K, the walks of 0 to K - 1 steps that a pair is told of.
        update_pairs: whether the states of pairs go through the layers; else each layer reads the
            first ones.
        expansion: width of the feed-forward, as a multiple of `dim`.
        norm: of both halves of a layer: `none`, `layer` or `batch`.
        dropout: of the first features, of both halves of a layer, and inside the feed-forward.
    """

    pair_bias = "states"
    edge_weights = False
    paper = "Graph Inductive Biases in Transformers without Message Passing (arXiv 2305.17589)"
    search: ClassVar = {
        "dim": [32, 64],
        "layers": {"low": 1, "high": 4},
        "heads": [1, 4],
        "steps": [4, 8, 16],
        "dropout": {"low": 0.0, "high": 0.8},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 2,
        heads: Few = 4,
        attention: Annotated[Spec, ATTENTIONS] = "native",
        steps: Annotated[int, Within("from 1 to 250", ge=1, le=250)] = 8,
        update_pairs: bool = True,
        expansion: Few = 2,
        norm: Norm = "batch",
        dropout: Rate = 0.5,
    ):
        super().__init__()
        self.stem, self.dropout = FeatureLinear(in_dim, dim), Dropout(dropout)
        self.steps = steps
        self.returns, self.walks = nn.Linear(steps, dim), nn.Linear(steps, dim)
        self.layers = nn.ModuleList(
            Layer(
                MultiHead(dim, heads),
                build_attend(attention, pair_attention, layer, pair_bias=self.pair_bias),
                PairStates(dim, heads, update=update_pairs and layer < layers - 1),
                FeedForward(dim, expansion, dropout),
                [build_norm(norm, dim) for _ in range(2)],
                dropout=dropout,
            )
            for layer in range(layers)
        )
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim)."""
        own = return_probabilities(graph, self.steps, x.device)
        z = self.dropout(self.stem(x) + self.returns(own.to(self.returns.weight.dtype)))

        @OncePerBlock
        def pairs(rows: Tensor, columns: Tensor, block) -> Tensor:
            walks = walk_probabilities(graph, rows, columns, self.steps)
            return self.walks(walks.to(self.walks.weight.dtype))

        for layer in self.layers:
            z, pairs = layer(graph, z, pairs)
        return z


class PairStates(nn.Module):
    """What a layer makes of states e_ij, (..., R, C, dim), of rows and columns.

    Args:
        dim: width of a state.
        heads: H, of the attention.
        update: whether the next layer is given another state.
    """

    def __init__(self, dim: int, heads: int, *, update: bool):
        super().__init__()
        self.heads, width = heads, -(-dim // heads)
        self.maps = nn.Linear(dim, 2 * heads * width)
        self.score = nn.Parameter(torch.randn(heads, width) / width**0.5)
        self.value = nn.Parameter(torch.randn(heads, width, width) / width)
        self.merge = nn.Linear(heads * width, dim) if update else None
        self.norm = nn.LayerNorm(dim) if update else None

    def forward(self, e: Tensor, q: Tensor, k: Tensor) -> Tensor:
        """Return s (..., R, C, H, D) for q (..., R, H, D) and k (..., C, H, D)."""
        factor, term = self.maps(e).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return pair_features(q, k, factor, term)

    def updated(self, e: Tensor, s: Tensor) -> Tensor:
        """Return the states of the next layer."""
        return self.norm(e + self.merge(s.flatten(-2)))


class Layer(nn.Module):
    """Attention to states of pairs, then a feed-forward, each with a residual and a norm."""

    def __init__(self, heads, attend, states, feed_forward, norms, *, dropout):
        super().__init__()
        self.attention, self.attend, self.states = heads, attend, states
        self.feed_forward, self.dropout = feed_forward, Dropout(dropout)
        self.attention_norm, self.feed_forward_norm = norms
        dim = heads.merge.out_features
        self.scale = nn.Parameter(torch.tensor([1.0, 0.0]).unsqueeze(1).repeat(1, dim))

    def forward(self, graph, z: Tensor, pairs) -> tuple[Tensor, object]:
        """Return (N, D) for z (N, D), and the states of pairs for the next layer, a function.

        Args:
            graph: of N nodes, or a batch of graphs, inside each of which nodes attend.
            z: (N, D).
            pairs: function of rows (..., R), columns (..., C) and the block of pairs that they
                are, to states (..., R, C, D).
        """
        q, k, v = self.attention.split(z)  # (N, H, D / H) each
        states = self.states

        @OncePerBlock
        def features(rows: Tensor, columns: Tensor, block) -> tuple[Tensor, Tensor]:
            return states(pairs(rows, columns, block), q[rows], k[columns]), states.score

        @OncePerBlock
        def updated(rows: Tensor, columns: Tensor, block) -> Tensor:
            s, _ = features(rows, columns, block)
            return states.updated(pairs(rows, columns, block), s)

        room = functional.pad(v, (0, v.shape[-1]))  # beside v, for the mean of s
        gathered, s = self.attend(graph, q, k, room, features).chunk(2, -1)
        gathered = gathered + torch.einsum("nhd,hde->nhe", s, states.value.to(s.dtype))
        out = self.attention.join(gathered)
        logs = in_degrees(graph, z.device).to(z.dtype).log1p().unsqueeze(1)
        out = out * self.scale[0] + logs * out * self.scale[1]
        z = self.attention_norm(z + self.dropout(out))
        z = self.feed_forward_norm(z + self.dropout(self.feed_forward(z)))
        return z, pairs if states.merge is None else updated


def pair_features(q: Tensor, k: Tensor, factor: Tensor, term: Tensor) -> Tensor:
    """Return s_ij = ReLU(r((q_i + k_j) * f_ij) + t_ij), (..., R, C, H, D).

    Args:
        q: (..., R, H, D).
        k: (..., C, H, D).
        factor: f, (..., R, C, H, D).
        term: t, (..., R, C, H, D).
    """
    x = (q.unsqueeze(-3) + k.unsqueeze(-4)) * factor
    root = x.sign() * ((x.abs() + 1e-4).sqrt() - 1e-2)
    return (root + term).relu()


@for_bias("states")
@for_ragged
def pair_attention(
    q: Tensor, k: Tensor, v: Tensor, *, bias: Bias, ragged: Ragged | None = None
) -> Tensor:
    """Return the mean of v_j by softmax_j(w . s_ij) and, added to its second half, that of s_ij.

    Args:
        q: queries (..., N, H, D).
        k: keys (..., N, H, D).
        v: values (..., N, H, 2 D).
        bias: s_ij and w, which hold what there is of queries and keys.
        ragged: where q, k and v (N, H, D) are the rows of sets of several sizes.
    """
    return attend_by_rows(_rows, q, k, v, bias, ragged=ragged, width=4 * q.shape[-1])


def _rows(q: Tensor, k: Tensor, v: Tensor, features, mask: Tensor | None) -> Tensor:
    """Return (S, R, H, 2 D) for v (S, N, H, 2 D), s (S, R, N, H, D) and w (H, D)."""
    s, score = features
    scores = torch.einsum("srjhd,hd->shrj", s, score.to(s.dtype))
    weights = (scores if mask is None else scores + mask).softmax(-1).to(v.dtype)
    mean = torch.einsum("shrj,sjhe->srhe", weights, v)
    return mean + functional.pad(
        torch.einsum("shrj,srjhd->srhd", weights, s.to(v.dtype)), (s.shape[-1], 0)
    )
