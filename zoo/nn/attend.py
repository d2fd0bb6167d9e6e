"""An attention applied to a graph: nodes attend inside their own graph of a batch."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn

from zoo.config.options import Spec, pick
from zoo.errors import ZooError
from zoo.graphs.adjacency import node_counts
from zoo.graphs.shard import Graph, sums_over
from zoo.nn.attention import ATTENTIONS, Attention
from zoo.nn.sets import per_set, takes_graph
from zoo.ops.global_sums import has_mark, is_by_sums
from zoo.ops.linear import Projected, as_tensors
from zoo.ops.pair_attention import Bias, OfPairs, PairBias, Sets, for_bias, takes_bias
from zoo.ops.ragged import Ragged, takes_ragged
from zoo.registry import as_values


class Attend(nn.Module):
    """`attend(graph, q, k, v)`: an attention inside each graph of a batch. It has no weights.

    Graphs of several sizes are attended to in one call where the attention takes them, see
    `zoo.ops.ragged`; by `per_graph` where it does not.

    Args:
        attention: a function of q, k, v, all (..., N, H, D).
    """

    def __init__(self, attention: Attention):
        super().__init__()
        self.attention = attention

    def forward(
        self,
        graph: Graph | None,
        q: Tensor | Projected,
        k: Tensor | Projected,
        v: Tensor | Projected,
        bias: OfPairs | None = None,
    ) -> Tensor:
        """Return (N, H, E), for q and k (N, H, D) and v (N, H, E).

        With a `bias`, a function of the numbers of nodes, rows (..., R) and columns (..., C), each
        set reads its own pairs alone; the attention has to take one, see `build_attend`.

        Raises:
            ZooError: the nodes at hand are some of those to attend to, and sums do not do.
        """
        attention, sums = self.attention, sums_over(graph)
        if sums is not None:
            if not is_by_sums(attention):
                raise ZooError(_NOT_BY_SUMS)
            attention = functools.partial(attention, sums=sums)
        if takes_projected(attention) and len(node_counts(graph)) == 1:
            return attention(q, k, v)
        q, k, v = as_tensors(q, k, v)
        if takes_graph(attention):
            return as_values(attention(q, k, v, graph=graph), v)
        ragged = ragged_of(graph, v.device) if takes_ragged(attention) else None
        if bias is not None:
            attention, nodes = _with_bias(attention, bias), torch.arange(len(v), device=v.device)
            if ragged is None:
                return per_graph(attention, graph, q, k, v, nodes)
            return attention(q, k, v, nodes, ragged=ragged)
        if ragged is not None:
            return as_values(attention(q, k, v, ragged=ragged), v)
        return per_graph(functools.partial(_values, attention), graph, q, k, v)


def _values(attention: Attention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return as_values(attention(q, k, v), v)


def _with_bias(attention: Attention, of: OfPairs) -> Callable[..., Tensor]:
    """Return an attention that is also given the numbers of the nodes of its sets, (..., N)."""
    numbers = itertools.count()

    def attend(q: Tensor, k: Tensor, v: Tensor, nodes: Tensor, **ragged: Ragged) -> Tensor:
        given = Sets(next(numbers), nodes, ragged.get("ragged"))
        return as_values(attention(q, k, v, bias=Bias(of, nodes, given), **ragged), v)

    return attend


def build_attend(
    spec: Spec, native: Attention, layer: int = 0, *, pair_bias: PairBias = "none"
) -> Attend:
    """Return the attention that a recipe's word names, applied to graphs.

    Args:
        spec: a word of `ATTENTIONS`, or `{name: rba, size: 512}`.
        native: the model's own attention.
        layer: the number of the layer, so that layers draw other numbers.
        pair_bias: what it is given of each pair by a bias: numbers for its `scores`, or
            `states`, which the model's own attention alone can read.

    Raises:
        ZooError: an unknown word or option, or an attention that takes no such bias.
    """
    attention = pick(ATTENTIONS, spec, native, layer)
    if pair_bias not in ("none", takes_bias(attention)):
        raise ZooError(_NO_BIAS[pair_bias].format(spec=spec))
    return Attend(attention)


def attentions_with_bias(pair_bias: PairBias) -> list[str]:
    """Return the words of the attentions that take what a model tells them of pairs of nodes."""

    @for_bias(pair_bias)
    def native(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v

    words = [*ATTENTIONS]
    if pair_bias == "none":
        return words
    return [word for word in words if takes_bias(pick(ATTENTIONS, word, native, 0)) == pair_bias]


def takes_projected(attention: Attention) -> bool:
    """Return whether an attention may be given `Projected` in the place of tensors."""
    return has_mark(attention, "takes_projected")


def ragged_of(graph: Graph | None, device: torch.device) -> Ragged | None:
    """Return how many nodes each graph of a batch has; None where all have as many.

    None in a trace as well, whose operations are those of `per_graph`.
    """
    sizes = tuple(size for size in node_counts(graph) if size)  # an empty graph has no rows
    uneven = len(set(sizes)) > 1 and not torch.compiler.is_compiling()
    return Ragged(sizes, device) if uneven else None


def per_graph(function: Callable[..., Tensor], graph: Graph | None, *tensors: Tensor) -> Tensor:
    """Return what a function of sets, (..., N, H, D) each, makes of each graph of a batch.

    Args:
        function: leading dimensions of its arguments are separate sets.
        graph: of N nodes, or a batch of graphs; those of one size share a call. None: all nodes
            are one set.
        tensors: (N, H, D) each.
    """
    return per_set(function, [size for size in node_counts(graph) if size], *tensors)


_NO_BIAS = {
    "scores": "attention {spec}: this model adds a bias to the score of each pair of nodes, which "
    "this attention has not; write `native`, `softmax`, or `rba` around one of these, not shared.",
    "states": "attention {spec}: this model's own attention reads a state of each pair of nodes, "
    "and no other does; write `native`, or `rba` around it, not shared.",
}

_NOT_BY_SUMS = (
    "`layerwise` is for models whose nodes look at their neighbours alone, or whose attention "
    "is made of sums over all nodes: `native` of sgformer, polynormer and difformer (`kernel: "
    "simple`), `linear`, and `rba` around these with its own `inference: full`. Write "
    "`train.evaluate: batches`, or `full`; in the place of `--layerwise`, `--batch-size`."
)
