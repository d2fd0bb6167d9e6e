"""Half precision widened, for sums over many nodes; products in TF32 only where asked for."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """Return half precision as fp32, anything else as it is; in the shape of x."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def in_fp32(attend: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compute an attention (q, k, v, ...) in fp32 or wider, without autocast; as v's type again."""

    @functools.wraps(attend)
    def widened(q: Tensor, k: Tensor, v: Tensor, *rest, **options) -> Tensor:
        with torch.autocast(v.device.type, enabled=False):
            return attend(wide(q), wide(k), wide(v), *rest, **options).to(v.dtype)

    return widened


@contextlib.contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Let GPUs round what they multiply to TF32, 10 bits of each fraction, if it is asked for.

    So it is with cuDNN's recurrent networks, which torch lets round unasked.
    """
    backends = torch.backends.cuda.matmul, torch.backends.cudnn
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = before[0] or precision == "tf32"
    try:
        yield
    finally:
        for backend, allowed in zip(backends, before, strict=True):
            backend.allow_tf32 = allowed
