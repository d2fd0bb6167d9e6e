"""Sets of nodes of several sizes, each attended to by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from zoo.ops.global_sums import has_mark
from zoo.ops.ragged import Ragged, takes_ragged
from zoo.system.memory import upload


def in_sets(
    attend: Callable[..., Tensor], sizes: Sequence[int], order: Tensor | None, *tensors: Tensor
) -> Tensor:
    """Return what nodes gather inside of their sets, (N, H, D), in one call where that can be.

    Args:
        attend: an attention of sets.
        sizes: nodes of each set, at least 1; their sum is N.
        order: (N,) the nodes, set after set; None where they stand so.
        tensors: queries, keys and values, (N, H, D) each.
    """
    uneven = len(set(sizes)) > 1 and not torch.compiler.is_compiling()
    if uneven and takes_ragged(attend):
        return attend(*tensors, ragged=Ragged(tuple(sizes), tensors[0].device, order))
    if order is None:
        return per_set(attend, sizes, *tensors)
    gathered = per_set(attend, sizes, *(x.index_select(0, order) for x in tensors))
    return gathered.index_select(0, order.argsort())


def per_set(
    function: Callable[..., Tensor], sizes: Sequence[int | None], *tensors: Tensor
) -> Tensor:
    """Return what a function of sets, (..., N, H, D) each, makes of sets that stand in a row.

    Args:
        function: leading dimensions of its arguments are separate sets.
        sizes: nodes of each set; those of one size share a call. One may be unknown: all nodes.
        tensors: (N, H, D) each.
    """
    if len(sizes) <= 1:
        return function(*tensors)
    if len(set(sizes)) == 1:
        return function(*(x.unflatten(0, (-1, sizes[0])) for x in tensors)).flatten(0, 1)
    order, back = _by_size(tuple(sizes), tensors[0].device)
    rows = [x.index_select(0, order) for x in tensors]
    outs, start = [], 0
    for size in sorted(set(sizes)):
        stop = start + size * sizes.count(size)
        sets = (x[start:stop].unflatten(0, (-1, size)) for x in rows)
        outs.append(function(*sets).flatten(0, 1))
        start = stop
    return torch.cat(outs).index_select(0, back)


@functools.lru_cache(4)  # layers of a step ask for the same
@torch.inference_mode(False)
def _by_size(sizes: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the rows (N,) of sets of these sizes, by the size of theirs, and the way back."""
    counts = torch.tensor(sizes)
    owner = torch.repeat_interleave(counts, output_size=sum(sizes))  # (N,) the set of each row
    order = torch.argsort(counts[owner], stable=True)
    return upload(order, device), upload(torch.argsort(order), device)


def takes_graph(attend: Callable) -> bool:
    """Return whether an attention is marked: it looks at edges, and takes the keyword `graph`."""
    return has_mark(attend, "takes_graph")


def stands_alone(attend: Callable) -> bool:
    """Return whether an attention cannot be inside of the sets of another one.

    It looks at edges, which are not known there, or keeps a state, which all sets would move.
    """
    return takes_graph(attend) or has_mark(attend, "keeps_state")
