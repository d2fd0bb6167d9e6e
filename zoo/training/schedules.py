"""Learning-rate schedules by name.

A schedule is a function of the epoch, from 0, and of the share of its steps that are taken with the
present one; most move once an epoch and do not look at the latter.
"""

import math
from collections.abc import Callable

from zoo.config.options import Fraction, Positive, Table

Factor = Callable[..., float]
"""`(epoch, until = 1)` to a factor of the learning rate."""


def _constant(epochs: int) -> Factor:
    """The same learning rate throughout."""
    return lambda epoch, until=1.0: 1.0


def _cosine(epochs: int, *, warmup: Fraction = 0.0, floor: Fraction = 0.0):
    """Linear warm-up, then half a cosine down, moving once an epoch.

    Args:
        warmup: share of the epochs spent warming up.
        floor: last learning rate, as a share of the first.
    """
    return _warmed_up(
        epochs, warmup, lambda t: floor + (1 - floor) * (1 + math.cos(math.pi * t)) / 2
    )


def _linear(epochs: int, *, warmup: Fraction = 0.1, floor: Fraction = 0.0):
    """Linear warm-up, then a straight line down, moving once an epoch.

    Args:
        warmup: share of the epochs spent warming up.
        floor: last learning rate, as a share of the first.
    """
    return _warmed_up(epochs, warmup, lambda t: 1 - (1 - floor) * t)


def _inverse_sqrt(epochs: int, *, warmup: Positive = 4.0) -> Factor:
    """Linear warm-up, then down with the root of the time, moving at every step.

    Vaswani et al. (arXiv 1706.03762), equation 3, with `lr` as its peak.

    Args:
        warmup: epochs spent warming up, also a fraction of one.
    """

    def factor(epoch: int, until: float = 1.0) -> float:
        time = epoch + until
        return min(time / warmup, math.sqrt(warmup / time))

    return factor


SCHEDULES = Table(
    "schedule",
    {
        "constant": _constant,
        "cosine": _cosine,
        "inverse-sqrt": _inverse_sqrt,
        "linear": _linear,
    },
)
"""Word to builder `(epochs, *, options) -> Factor`."""


def _warmed_up(epochs: int, warmup: float, decay: Callable[[float], float]) -> Factor:
    """Return a factor that rises from 1/w to 1 in the first w epochs and then follows `decay`."""
    rising = round(warmup * epochs)

    def factor(epoch: int, until: float = 1.0) -> float:
        if epoch < rising:
            return (epoch + 1) / rising
        return decay((epoch - rising) / max(1, epochs - rising))

    return factor
