"""What is done to the features of nodes before training: the words of `features:`."""

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Spec, Table, pick
from zoo.config.recipe import word


def raw(x: Tensor) -> Tensor:
    """Leave the features (N, F) as the file has them."""
    return x


def row(x: Tensor) -> Tensor:
    """Divide each row of x (N, F) by the sum of its magnitudes; rows of zeros stay zero."""
    total = x.abs().sum(dim=1, keepdim=True)
    return x / total.masked_fill(total == 0, 1)


def standard(x: Tensor) -> Tensor:
    """Give each column of x (N, F) mean 0 and variance 1; constant columns become zero."""
    return _standardised(x, _moments(x))


FAR, APART = 10, 100
"""Sizes of features beyond which they are hard to learn from as they are; and how many times the
typical one the largest may be."""


def far_from_standard(x: Tensor) -> bool:
    """Return whether features (N, F), by some 10,000 of their rows, are to be standardised."""
    rows = x[:: max(1, len(x) // 10_000)].double()
    if not rows.numel():
        return False
    return lie_apart(rows.mean(dim=0).numpy(), rows.std(dim=0, correction=0).numpy())


def lie_apart(mean: np.ndarray, spread: np.ndarray) -> bool:
    """Return whether features of these means and deviations (F,) are to be standardised.

    That is if one is large, `FAR` from 0 by its root mean square; or `APART` times as large as the
    median; or as far from 0 as `APART` of its deviations. Constant columns do not count.
    """
    mean, spread = (numbers[spread > 0].astype(np.float64) for numbers in (mean, spread))
    if not len(mean):
        return False
    size = np.hypot(mean, spread)
    most = size.max()
    return bool(most > FAR or most > APART * np.median(size) or (abs(mean) > APART * spread).any())


FEATURES = Table("features", {"raw": raw, "row": row, "standard": standard})
"""Word to function `x (N, F) -> x (N, F)`."""


def transform_features(
    x: Tensor, features: Spec, moments: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Return x (N, F) changed as a word of `FEATURES` says, and by which moments (2, F), if any.

    Args:
        x: raw features.
        features: the word.
        moments: means and deviations of the columns of other nodes; None: those of x.
    """
    if word(features) != "standard":
        return pick(FEATURES, features, x), None
    moments = _moments(x) if moments is None else moments
    return _standardised(x, moments), moments


def _moments(x: Tensor) -> Tensor:
    x = x.double()
    mean = x.mean(dim=0)
    spread = (x - mean).square().mean(dim=0).sqrt()  # exactly 0 where all are equal
    return torch.stack([mean, spread.masked_fill(spread == 0, 1)])


def _standardised(x: Tensor, moments: Tensor) -> Tensor:
    return ((x.double() - moments[0]) / moments[1]).to(x.dtype)
