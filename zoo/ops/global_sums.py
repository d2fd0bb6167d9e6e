"""Sums over all nodes of a graph, where a model is given some of them at a time.

An attention that is made of such sums alone goes through `total` and is marked `by_sums`.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator
from typing import Protocol

from torch import Tensor


class Others(Protocol):
    """Who knows of the nodes that are not at hand.

    Attributes:
        count: of all nodes.
    """

    count: int

    def total(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Return the sums over all nodes, for those over the nodes at hand."""


_others: contextvars.ContextVar[Others | None] = contextvars.ContextVar("others", default=None)


@contextlib.contextmanager
def among(others: Others) -> Iterator[None]:
    """Let sums be those over all nodes, as long as this lasts."""
    token = _others.set(others)
    try:
        yield
    finally:
        _others.reset(token)


def divided() -> bool:
    """Return whether the nodes at hand are some of those that belong together."""
    return _others.get() is not None


def total(*parts: Tensor) -> tuple[Tensor, ...]:
    """Return sums over all nodes, for sums over those at hand."""
    others = _others.get()
    return parts if others is None else others.total(*parts)


def count(x: Tensor) -> int:
    """Return how many nodes there are in all, for those at hand, x (..., N, H, D)."""
    others = _others.get()
    return x.shape[-3] if others is None else others.count


def by_sums(attend: Callable) -> Callable:
    """Mark an attention that looks at other nodes by `total` alone."""
    attend.by_sums = True
    return attend


def is_by_sums(attend: Callable) -> bool:
    """Return whether an attention is marked, with some of its options given or none."""
    while isinstance(attend, functools.partial):
        attend = attend.func
    return getattr(attend, "by_sums", False)
