"""Heads of an attention: split, merged, averaged."""

from torch import Tensor, nn
from torch.nn import functional

from zoo.ops.linear import Linear


def mean_over_heads(x: Tensor) -> Tensor:
    """Return the mean of x (N, H, D) over the heads, (N, D); of one head nothing is copied."""
    return x.squeeze(-2) if x.shape[-2] == 1 else x.mean(-2)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return x (N, dim) as (N, H, D), zeros behind the last head where H does not divide dim."""
    width = -(-x.shape[-1] // heads)
    padded = functional.pad(x, (0, heads * width - x.shape[-1]))
    return padded.unflatten(-1, (heads, width))


def merge_heads(x: Tensor, dim: int) -> Tensor:
    """Return x (N, H, D) as (N, dim), without the zeros that `split_heads` has added."""
    return x.flatten(-2)[..., :dim]


class MultiHead(nn.Module):
    """What stands before and behind a multi-head attention: Q, K, V = W z + b, and W [heads].

    Values are as wide as the heads share `dim`, rounded up; so are queries and keys without `rank`.
    """

    def __init__(self, dim: int, heads: int, rank: int | None = None):
        super().__init__()
        self.heads, width = heads, -(-dim // heads)
        self.widths = [heads * (rank or width)] * 2 + [heads * width]
        self.project = Linear(dim, sum(self.widths))
        self.merge = Linear(heads * width, dim)

    def split(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the queries, keys and values (N, H, ...) of z (N, D)."""
        q, k, v = self.project(z).split(self.widths, dim=-1)
        return tuple(x.unflatten(-1, (self.heads, -1)) for x in (q, k, v))

    def join(self, gathered: Tensor) -> Tensor:
        """Return (N, D) for what each head has gathered, (N, H, ...)."""
        return self.merge(gathered.flatten(-2))
