"""What a caller may tell operations deep inside a model, without passing it through the model.

A model is called as `model(graph, x)`, and what calls it may have to say something to an operation
deep inside. That is a `Context`: a few fields, each set by one caller, read by one operation.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor


class Context(NamedTuple):
    """What is said to operations from outside of the model.

    Attributes:
        identities: (N,) int64, a number of its own for each node, by which random batches are drawn
            instead of by its row; set by who compares predictions of renumbered graphs. Read by
            `random_order`.
        rows: number of rows of the full-size run that a scaled-down one stands for; set by
            estimates of memory. Read by `attend_in_batches`, whose `recompute: auto` depends on it.
        torch_only: whether sums over neighbours are computed as on a GPU that DGL was not built
            for; set by estimates of memory. Read by `zoo.graphs.spmm`.
        draws: a `Draws`, which has ready what a recorded call draws; set by `Captured`. Read by
            `drawn`.
        recording: whether a step or an evaluation is being recorded; set by `Captured`. Read by
            `drawn_seed` and `Draws`.
    """

    identities: Tensor | None = None
    rows: int = 0
    torch_only: bool = False
    draws: Any = None
    recording: bool = False


_NOTHING = Context()
_present: contextvars.ContextVar[Context] = contextvars.ContextVar("context", default=_NOTHING)


def context() -> Context:
    """Return what holds in this thread at present."""
    return _present.get()


@contextlib.contextmanager
def using(**changes: Any) -> Iterator[None]:
    """Change fields of the context in a `with` block: `using(torch_only=True)`."""
    token = _present.set(_present.get()._replace(**changes))
    try:
        yield
    finally:
        _present.reset(token)
