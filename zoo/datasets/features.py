"""Feature transforms, applied once when a graph is loaded: raw, row-normalised, standardised."""

from torch import Tensor

from zoo.config.options import Table


def raw(x: Tensor) -> Tensor:
    """Leave the features (N, F) as the file has them."""
    return x


def row(x: Tensor) -> Tensor:
    """Divide each row of x (N, F) by the sum of its magnitudes; rows of zeros stay zero."""
    total = x.abs().sum(dim=1, keepdim=True)
    return x / total.masked_fill(total == 0, 1)


def standard(x: Tensor) -> Tensor:
    """Give each column of x (N, F) mean 0 and variance 1; constant columns become zero."""
    centred = x.double() - x.double().mean(dim=0)  # exactly 0 where all are equal
    spread = centred.square().mean(dim=0).sqrt()
    return (centred / spread.masked_fill(spread == 0, 1)).to(x.dtype)


FEATURES = Table("features", {"raw": raw, "row": row, "standard": standard})
"""Word to function `x (N, F) -> x (N, F)`."""
