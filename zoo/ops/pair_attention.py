"""Attention that is told something of each pair of nodes, a few rows of pairs at a time.

What is told, such as a bias of the scores, is a function of nodes: it is evaluated for the pairs
that are attended to, those of a block of rows, and again for their gradient where there are many.
Nothing of all N x N pairs of a large set is ever stored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from zoo.ops.global_sums import has_mark
from zoo.ops.ragged import Ragged

AT_ONCE = 2**22
"""Numbers of all pairs of a block of rows: what is told of them, or their scores."""

KEPT = 2**26
"""Numbers of all pairs beyond which nothing is kept of them, and blocks are attended to again."""

PairBias = Literal["none", "scores", "states"]
"""What an attention takes of each pair: nothing, H numbers added to its scores, or a state."""

OfPairs = Callable[[Tensor, Tensor], Any]
"""A function of the numbers of nodes, rows (..., R) and columns (..., C), to what is told of pairs:
(..., H, R, C) that are added to scores."""


class Sets(NamedTuple):
    """The sets of nodes that each layer gives its attention, not what that makes of them.

    Attributes:
        number: of a layer's sets that do not stand in one call.
        nodes: (..., N) their numbers.
        ragged: where they are of several sizes.
    """

    number: int
    nodes: Tensor
    ragged: Ragged | None


class Bias(NamedTuple):
    """What an attention is told of the pairs of nodes of its sets.

    Attributes:
        of: function of rows (..., R) and columns (..., C), to (..., H, R, C) of scores.
        nodes: (..., N) the numbers of the nodes of each set.
        given: the sets that its layer gave it; None: unknown.
    """

    of: OfPairs
    nodes: Tensor
    given: Sets | None = None


Block = tuple[int, int, int, int]
"""Which block of pairs it is of those of a layer, the same in each layer."""


class OncePerBlock:
    """A function of pairs that all layers ask for, evaluated once where all pairs have room.

    Random batches have other pairs in each layer, for which it is evaluated each time.

    Args:
        of: function of rows, columns and the block, which is None where nothing is kept.
    """

    def __init__(self, of: Callable[[Tensor, Tensor, Block | None], Any]):
        self.of = of
        self.kept: dict[Block, Any] = {}

    def __call__(self, rows: Tensor, columns: Tensor, block: Block | None = None):
        """Return the biases or states of pairs of rows (..., R) and columns (..., C)."""
        if block is None:
            return self.of(rows, columns, None)
        if block not in self.kept:
            self.kept[block] = self.of(rows, columns, block)
        return self.kept[block]


def for_bias(kind: PairBias) -> Callable[[Callable], Callable]:
    """Mark an attention `(q, k, v, *, bias=None)` that is told something of pairs, and what."""

    def mark(attend: Callable) -> Callable:
        attend.takes_bias = kind  # type: ignore[attr-defined]
        return attend

    return mark


def takes_bias(attend: Callable) -> PairBias:
    """Return what an attention takes of each pair."""
    return has_mark(attend, "takes_bias") or "none"


Rows = Callable[[Tensor, Tensor, Tensor, Any, Tensor | None], Tensor]
"""`(q (S, R, H, D), k (S, N, H, D), v (S, N, H, E), bias, mask)` to (S, R, H, E); a mask
(S, 1, 1, N) is -inf where a column is none."""


def attend_by_rows(
    rows: Rows,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Bias,
    *,
    ragged: Ragged | None = None,
    width: int = 1,
) -> Tensor:
    """Return what `rows` makes of q, k and v (..., N, H, D), a block of rows at a time.

    Args:
        rows: the attention of some rows to all columns of their sets.
        q: queries.
        k: keys.
        v: values.
        bias: what is told of pairs.
        ragged: where q, k and v (N, H, D) are the rows of sets of several sizes.
        width: numbers that there are of a pair and head meanwhile.
    """
    if v.shape[-3] == 0:
        return v
    if ragged is not None:
        buckets = ragged.buckets()
        parts = zip(*map(buckets.cut, (q, k, v, bias.nodes)), buckets.masks, strict=True)
        outs = []
        for number, part in enumerate(parts):
            outs.append(_of_sets(rows, *part, _numbered(bias, ragged, number), width))
        return buckets.join(outs)
    nodes = bias.nodes.expand(v.shape[:-2]).reshape(-1, v.shape[-3])
    sets = (x.reshape(len(nodes), *x.shape[-3:]) for x in (q, k, v))
    return _of_sets(rows, *sets, nodes, None, _numbered(bias, None, 0), width).reshape(v.shape)


def _numbered(bias: Bias, ragged: Ragged | None, bucket: int) -> Callable[..., Any]:
    """Return the function of pairs, also given where a block begins, None if nothing is kept."""
    given, of = bias.given, bias.of
    whole = given is not None and given.nodes is bias.nodes and given.ragged is ragged
    if not (whole and isinstance(of, OncePerBlock)):
        return lambda rows, columns, start: of(rows, columns)
    number = given.number

    def once(rows: Tensor, columns: Tensor, start: tuple[int, int] | None):
        return of(rows, columns, None if start is None else (number, bucket, *start))

    return once


def _of_sets(rows: Rows, q, k, v, nodes, mask: Tensor | None, of: Callable, width: int) -> Tensor:
    """Return (S, N, H, E) for q, k, v (S, N, H, D) and the numbers of nodes (S, N)."""
    count, n, heads = v.shape[:3]
    many = count * n * n * heads * width > KEPT

    def block(sets: slice, some: slice, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        own = None if mask is None else mask[sets].to(v.dtype)
        values = of(nodes[sets, some], nodes[sets], None if many else (sets.start, some.start))
        return rows(q[sets, some], k[sets], v[sets], values, own)

    again = many and torch.is_grad_enabled() and not torch.compiler.is_compiling()
    call = _again if again else _once
    outs = [
        torch.cat([call(block, sets, some, q, k, v) for some in stretches], dim=1)
        for sets, stretches in _stretches(count, n, AT_ONCE // max(1, n * heads * width))
    ]
    return torch.cat(outs) if outs else v


def _stretches(count: int, n: int, few: int) -> Iterator[tuple[slice, list[slice]]]:
    """Give sets, and their rows in stretches, of `few` rows in all at most, but one at least."""
    sets = max(1, few // max(n, 1))
    most = n if sets > 1 else max(1, min(few, n))
    for start in range(0, count, sets):
        yield slice(start, start + sets), [slice(at, at + most) for at in range(0, n, most)]


def _once(function: Callable, *arguments) -> Tensor:
    return function(*arguments)


_again = functools.partial(checkpoint, use_reentrant=False, preserve_rng_state=False)


def softmax_rows(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mask: Tensor | None) -> Tensor:
    """Return softmax attention of rows whose scores have a bias (S, H, R, N), see `Rows`."""
    scores = torch.einsum("srhd,sjhd->shrj", q, k) * q.shape[-1] ** -0.5 + bias
    weights = (scores if mask is None else scores + mask).softmax(-1)
    return torch.einsum("shrj,sjhe->srhe", weights.to(v.dtype), v)
