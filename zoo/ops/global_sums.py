"""Sums over all nodes of a graph, where a model is given some of the nodes at a time.

An attention that looks at other nodes by such sums alone is marked `by_sums` and takes `sums`, a
keyword: None where all nodes are at hand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Protocol

from torch import Tensor


class Sums(Protocol):
    """Turns sums over some nodes into sums over all nodes, as an all-reduce does.

    Attributes:
        count: number of all nodes.
    """

    count: int

    def total(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Return the sums over all nodes, for those over the nodes at hand."""


def count_nodes(x: Tensor, sums: Sums | None) -> int:
    """Return how many nodes there are in all, for those at hand, x (..., N, H, D)."""
    return x.shape[-3] if sums is None else sums.count


def sum_over_nodes(sums: Sums | None, *parts: Tensor) -> tuple[Tensor, ...]:
    """Return sums over all nodes, for sums over those at hand."""
    return parts if sums is None else sums.total(*parts)


def by_sums(attend: Callable) -> Callable:
    """Mark an attention `(q, k, v, *, sums=None)` that needs of other nodes only their sums."""
    attend.by_sums = True
    return attend


def is_by_sums(attend: Callable) -> bool:
    """Return whether an attention is marked, with some of its options given or none."""
    return has_mark(attend, "by_sums")


def has_mark(attend: Callable, mark: str) -> bool:
    """Return whether an attention has an attribute that is true, under its given options."""
    while isinstance(attend, functools.partial):
        attend = attend.func
    return getattr(attend, mark, False)
