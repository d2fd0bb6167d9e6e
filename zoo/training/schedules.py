"""Learning-rate schedules by name."""

import math
from collections.abc import Callable

from zoo.config.options import Fraction, Table


def _constant(epochs: int) -> Callable[[int], float]:
    """The same learning rate throughout."""
    return lambda epoch: 1.0


def _cosine(epochs: int, *, warmup: Fraction = 0.0, floor: Fraction = 0.0):
    """Linear warm-up, then half a cosine down.

    Args:
        warmup: share of the epochs spent warming up.
        floor: last learning rate, as a share of the first.
    """
    return _warmed_up(
        epochs, warmup, lambda t: floor + (1 - floor) * (1 + math.cos(math.pi * t)) / 2
    )


def _linear(epochs: int, *, warmup: Fraction = 0.1, floor: Fraction = 0.0):
    """Linear warm-up, then a straight line down.

    Args:
        warmup: share of the epochs spent warming up.
        floor: last learning rate, as a share of the first.
    """
    return _warmed_up(epochs, warmup, lambda t: 1 - (1 - floor) * t)


SCHEDULES = Table("schedule", {"constant": _constant, "cosine": _cosine, "linear": _linear})
"""Word to builder `(epochs, *, options) -> (epoch -> factor of the learning rate)`."""


def _warmed_up(epochs: int, warmup: float, decay: Callable[[float], float]):
    """Return a factor that rises from 1/w to 1 in the first w epochs and then follows `decay`."""
    rising = round(warmup * epochs)

    def factor(epoch: int) -> float:
        if epoch < rising:
            return (epoch + 1) / rising
        return decay((epoch - rising) / max(1, epochs - rising))

    return factor
