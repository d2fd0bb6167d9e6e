"""Large tensors a block at a time, which stays in the caches from one operation to the next."""

from collections.abc import Iterator

import torch
from torch import Tensor

BLOCK = 2**18
"""Numbers of a tensor in a block, but where one row has more."""


def blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Give a block of each tensor at a time, flat; the last are written to.

    Args:
        tensors: of one shape each, those that are written to contiguous.
    """
    return zip(*(x.reshape(-1).split(BLOCK) for x in tensors), strict=True)


def row_blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Give as many rows of each tensor at a time as are a block of the largest.

    On a GPU, and where the loop is traced, these are all of them.

    Args:
        tensors: (N, ...) each; of one that is (1, ...), this row is given each time.
    """
    if tensors[0].device.type != "cpu" or torch.compiler.is_compiling():
        yield tensors
        return
    rows = max(map(len, tensors))
    numbers = max(x.numel() for x in tensors) // max(rows, 1)
    size = max(1, BLOCK // max(numbers, 1))
    for start in range(0, rows, size):
        yield tuple(x if len(x) < rows else x[start : start + size] for x in tensors)
