"""NSA: attention along edges and attention over all nodes, one after the other as a word says.

"An end-to-end attention-based approach for learning on graphs" (arXiv 2402.10793, Nature
Communications 2025), on the set of nodes. Its pooling by learned seeds is `readout: seeds` of a
recipe of graphs. Where it departs from the paper:

- The form on the set of edges, ESA, is not here.
- Pooling has no blocks of attention among the seeds behind it.
- One more norm stands at the end, as in `transformer`.
- The weights of the attention are not dropped out: an attention of the zoo has no weights to show.
- A width that the heads do not divide is rounded up.
"""

from typing import Annotated, ClassVar

from torch import Tensor, nn
from torch.nn import functional

from zoo.nn import (
    ATTENTIONS,
    Dropout,
    FeatureLinear,
    Linear,
    MultiHead,
    Norm,
    attend_to_neighbours,
    build_attend,
    build_norm,
    softmax,
)
from zoo.registry import Count, Few, Model, Rate, Spec, ZooError, register_model


@register_model("nsa")
class NSA(Model):
    """Node-set attention: blocks of attention to neighbours, M, and to all nodes, S.

    z = Drop(W x); per block z = z + Drop(Attention(norm(z))), then z = z + Drop(MLP(norm(z))), and
    a last norm. Attention(z) = W [of each head], Q, K, V = W z: in an S that over all nodes, in an
    M, which the paper calls masked, the softmax of q_i . k_j / sqrt(D) over the neighbours j of i.
    MLP(z) = W Drop(SiLU(W z) * W z), gated. Then a linear head.

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the blocks.
        pattern: a letter for each block, in their order: M, masked, S, self-attention.
        heads: attention heads, which share the width.
        attention: of the blocks S; `native` is full softmax.
        expansion: width of the gated perceptron, as a multiple of `dim`.
        norm: of each half of a block: `none`, `layer` or `batch`.
        dropout: of the first features, of each half of a block, and inside the perceptron.
    """

    paper = "An end-to-end attention-based approach for learning on graphs (arXiv 2402.10793)"
    search: ClassVar = {
        "dim": [64, 128, 256],
        "pattern": ["MS", "MMS", "MSMS", "MMMS", "MMSMMS"],
        "heads": [1, 4],
        "dropout": {"low": 0.0, "high": 0.8},
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        pattern: str = "MMS",
        heads: Few = 4,
        attention: Annotated[Spec, ATTENTIONS] = "native",
        expansion: Few = 2,
        norm: Norm = "layer",
        dropout: Rate = 0.5,
    ):
        super().__init__()
        if not 0 < len(pattern) <= MOST or set(pattern) - {"M", "S"}:
            raise ZooError(
                f"nsa: pattern {pattern[:MOST]!r} is not 1 to {MOST:,} of the letters M, attention "
                "to neighbours, and S, attention to all nodes; write `pattern: MMS`."
            )
        self.stem, self.dropout = FeatureLinear(in_dim, dim), Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(
                MultiHead(dim, heads),
                Neighbours() if letter == "M" else build_attend(attention, softmax, place),
                GatedPerceptron(dim, expansion, dropout),
                [build_norm(norm, dim) for _ in range(2)],
                dropout=dropout,
            )
            for place, letter in enumerate(pattern)
        )
        self.norm = build_norm(norm, dim)
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return (N, dim) for x (N, in_dim)."""
        z = self.dropout(self.stem(x))
        for block in self.blocks:
            z = block(graph, z)
        return self.norm(z)


MOST = 1000
"""Blocks of a model, as of anything that is made one by one."""


class Block(nn.Module):
    """z -> z + Drop(Attention(norm(z))), then z -> z + Drop(MLP(norm(z)))."""

    def __init__(self, heads, attend, perceptron, norms, *, dropout):
        super().__init__()
        self.attention, self.attend, self.perceptron = heads, attend, perceptron
        self.attention_norm, self.perceptron_norm = norms
        self.dropout = Dropout(dropout)

    def forward(self, graph, z: Tensor) -> Tensor:
        """Return (N, D) for z (N, D), nodes attending inside each graph of a batch."""
        q, k, v = self.attention.split(self.attention_norm(z))  # (N, H, D) each
        z = z + self.dropout(self.attention.join(self.attend(graph, q, k, v).to(z.dtype)))
        return z + self.dropout(self.perceptron(self.perceptron_norm(z)))


class Neighbours(nn.Module):
    """The attention of a block M: along the edges of a graph, self-loops among them."""

    def forward(self, graph, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return (N, H, D) for q, k and v (N, H, D)."""
        return attend_to_neighbours(graph, q, k, v)[0]


class GatedPerceptron(nn.Module):
    """W Drop(SiLU(W z) * W z), node by node: SwiGLU (arXiv 2002.05202), equation 6."""

    def __init__(self, dim: int, expansion: int, dropout: float):
        super().__init__()
        self.widen, self.narrow = Linear(dim, 2 * expansion * dim), Linear(expansion * dim, dim)
        self.dropout = Dropout(dropout)

    def forward(self, z: Tensor) -> Tensor:
        """Return (N, D) for z (N, D)."""
        gate, values = self.widen(z).chunk(2, dim=-1)
        return self.narrow(self.dropout(functional.silu(gate) * values))
