"""DIFFormer: layers of attention over all nodes and of propagation, read as steps of a diffusion.

"DIFFormer: Scalable (Graph) Transformers Induced by Energy Constrained Diffusion"
(arXiv 2301.09474). DIFFormer-s is `kernel: simple`, DIFFormer-a is `kernel: sigmoid`. Where it
departs from the authors' programs:

- Norms and sums of the attention are per set: batches of RBA and graphs of a batch do not
  influence each other. The authors' variant for batches of graphs takes one norm over all of
  them, and its sigmoid kernel attends across graphs instead of inside them.
- `qk_norm: frobenius` is the published norm, with which the simple attention is the mean of all
  values up to O(1/N), whatever its weights are. `row` is what the paper's argument asks for.
- An all-zero query or key gives zero scores where the original divides by zero; a single node
  keeps its value; the mass of the simple kernel is clamped, as row-normalised scores reach -1.
- The sigmoid kernel works on a block of queries at a time and computes the block again for its
  gradient, so that memory is linear in N where the original keeps about three N x N tensors per
  head. It normalises in log space: where every sigmoid of a row vanishes the original has 0 / 0.
- `alpha: 1` is the original without residual; no operation is in place; the N x N weights are
  not offered for inspection.
- Degrees are computed once, not in every forward pass; a node without edges gathers zeros.
- The graph always has self-loops, as in the authors' own program; in the program of SGFormer, in
  which the numbers on Actor and Squirrel were made, the graph of Squirrel has none.
- Heads are averaged before the propagation instead of after it: the same for a linear one.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from zoo.nn import (
    ATTENTIONS,
    PROPAGATIONS,
    Dropout,
    FeatureLinear,
    HeadIdentity,
    HeadLinear,
    Linear,
    Norm,
    QueryKeyNorm,
    ReluDropout,
    build_attend,
    build_norm,
    build_propagation,
    in_fp32,
    lerp,
    linear,
    mean_over_heads,
)
from zoo.registry import Count, Few, Fraction, Model, Rate, Spec, ZooError, register_model


@register_model("difformer")
class DIFFormer(Model):
    """Attention over all nodes plus propagation along the edges, in every layer.

    z_0 = Drop(ReLU(norm(W x))). Per layer Q, K = W z, V = z (or W z), averaged over heads
    o = attend(Q, K, V) + S V, or (1 - w) attend(Q, K, V) + w S V, S being the propagation, and
    z = Drop(norm(alpha o + (1 - alpha) z)); no activation. Head: W z. The authors' attentions are
    `simple`, (sum_j v_j + q_i K^T V) / (N + q_i K^T 1) with q, k of norm 1, and `sigmoid`,
    sum_j s(q_i k_j) v_j / sum_j s(q_i k_j).

    Args:
        in_dim: node features F.
        out_dim: logits C.
        dim: width of the layers.
        layers: number of layers.
        full_heads: attention heads, each of the full width; their outputs are averaged.
        attention: `native` is the kernel's.
        kernel: the native attention: `simple` (DIFFormer-s, linear in N) or `sigmoid`
            (DIFFormer-a, quadratic in time).
        qk_norm: what divides queries and keys in the simple kernel: one `frobenius` norm, as
            published, or each `row`'s own norm.
        block: queries that the sigmoid kernel works on at a time; its memory is block x N.
        alpha: weight of the layer's output against its input; 1 is without residual.
        norm: norm at the end of the first map and of every layer.
        dropout: after the first map and every layer.
        use_weight: project the values instead of attending to z itself.
        use_source: add z_0 to the output of every layer, before the mix by alpha.
        use_graph: add the graph term; without it the model needs no graph at all.
        propagation: how the graph term gathers neighbours.
        graph_weight: weight w of the graph term against the attention; the two are summed when
            left out.
    """

    paper = "DIFFormer: Transformers Induced by Energy Constrained Diffusion (arXiv 2301.09474)"
    search: ClassVar = {
        "dim": [32, 64, 128],
        "layers": {"low": 1, "high": 8},
        "kernel": ["simple", "sigmoid"],
        "alpha": {"low": 0.1, "high": 0.9},
        "norm": ["none", "layer"],
        "dropout": {"low": 0.0, "high": 0.8},
        "use_weight": [False, True],
    }

    def __init__(
        self,
        in_dim: int,
        out_dim: int,
        *,
        dim: Count = 64,
        layers: Few = 2,
        full_heads: Few = 1,
        attention: Annotated[Spec, ATTENTIONS] = "native",
        kernel: Literal["simple", "sigmoid"] = "simple",
        qk_norm: QueryKeyNorm = "frobenius",
        block: Count = 512,
        alpha: Fraction = 0.5,
        norm: Norm = "layer",
        dropout: Rate = 0.5,
        use_weight: bool = False,
        use_source: bool = False,
        use_graph: bool = True,
        propagation: Annotated[Spec, PROPAGATIONS] = "gcn",
        graph_weight: Fraction | None = None,
    ):
        super().__init__()
        self.stem = FeatureLinear(in_dim, dim)
        self.norm, self.finish = build_norm(norm, dim), ReluDropout(dropout)
        self.use_source, self.use_graph = use_source, use_graph
        kernels = {
            "simple": partial(linear, qk_norm=qk_norm, base="all"),
            "sigmoid": partial(sigmoid, block=block),
        }
        self.layers = nn.ModuleList(
            DiffusionLayer(
                dim,
                full_heads,
                build_attend(attention, kernels[kernel], layer),
                build_propagation(propagation, dim) if use_graph else None,
                graph_weight=graph_weight,
                alpha=alpha,
                norm=norm,
                dropout=dropout,
                use_weight=use_weight,
            )
            for layer in range(layers)
        )
        self.head = Linear(dim, out_dim)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return the last layer, (N, dim), for x (N, in_dim).

        `graph` may be None with `use_graph: false`; the rows of x are then one set.

        Raises:
            ZooError: there is no graph and the model uses one.
        """
        if graph is None and self.use_graph:
            raise ZooError(
                "difformer: there is no graph to propagate along; pass one, or make the model "
                "with `use_graph: false`."
            )
        z = first = self.finish(self.norm(self.stem(x)))
        for layer in self.layers:
            z = layer(graph, z, first if self.use_source else None)
        return z


class DiffusionLayer(nn.Module):
    """z -> Drop(norm(alpha (mean_heads(attend(Q, K, V)) [+ S V] [+ z_0]) + (1 - alpha) z))."""

    def __init__(
        self, dim, heads, attend, propagate, *, graph_weight, alpha, norm, dropout, use_weight
    ):
        super().__init__()
        self.query, self.key = HeadLinear(dim, heads, dim), HeadLinear(dim, heads, dim)
        self.value = HeadLinear(dim, heads, dim) if use_weight else HeadIdentity(heads)
        self.attend, self.propagate, self.graph_weight = attend, propagate, graph_weight
        self.alpha, self.norm, self.dropout = alpha, build_norm(norm, dim), Dropout(dropout)

    def forward(self, graph, z: Tensor, source: Tensor | None) -> Tensor:
        """Return (N, D) for z and the source, (N, D), nodes attending inside each graph."""
        q, k, v = self.query(z), self.key(z), self.value(z)  # (N, H, D) each
        out = mean_over_heads(self.attend(graph, q, k, v))  # (N, D)
        if self.propagate is not None:
            near = self.propagate(graph, mean_over_heads(v.tensor))
            out = out + near if self.graph_weight is None else lerp(out, near, self.graph_weight)
        if source is not None:
            out = out + source
        return self.dropout(self.norm(lerp(z, out, self.alpha)))


@in_fp32
def sigmoid(q: Tensor, k: Tensor, v: Tensor, *, block: int) -> Tensor:
    """DIFFormer-a: the mean of all v_j, weighted by s(q_i . k_j), s the logistic function.

    Quadratic in time. Scores exist for `block` queries at a time: those of a block are dropped
    once it is done, and computed again in the backward pass.
    """
    again: Callable[..., Tensor] = partial(
        checkpoint, _sigmoid_rows, use_reentrant=False, preserve_rng_state=False
    )
    return torch.cat([again(rows, k, v) for rows in q.split(block, dim=-3)], dim=-3)


def _sigmoid_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return (..., B, H, D) for B queries; softmax of log s(x) is s(x) over its sum."""
    scores = torch.einsum("...nhd,...mhd->...hnm", q, k)
    weights = functional.logsigmoid(scores).softmax(-1)
    return torch.einsum("...hnm,...mhd->...nhd", weights, v)
