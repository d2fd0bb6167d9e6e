"""Half precision widened: sums over many nodes are kept in at least fp32."""

from __future__ import annotations

import functools
from collections.abc import Callable

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
