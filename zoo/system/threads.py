"""How many threads torch, and the linear algebra of NumPy and SciPy, use for a while."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator

import torch
from threadpoolctl import ThreadpoolController


@contextlib.contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """Let torch use so many threads inside; None: as many as it does."""
    threads = torch.get_num_threads()
    torch.set_num_threads(count or threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextlib.contextmanager
def on_one_thread() -> Iterator[None]:
    """Let torch, NumPy and SciPy use one thread inside; `using_threads` may give torch more."""
    with using_threads(1), _linear_algebra().limit(limits=1, user_api="blas"):
        yield


@functools.cache
def _linear_algebra() -> ThreadpoolController:
    """Return what the threads of NumPy's and SciPy's libraries are set by; found in 10 ms."""
    return ThreadpoolController()
