"""Half precision widened: sums over many nodes are kept in at least fp32."""

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """Return half precision as fp32, anything else as it is; in the shape of x."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
