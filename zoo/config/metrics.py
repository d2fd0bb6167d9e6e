"""Which metrics are better where they are lower: whoever compares two scores asks here."""

MSE, MAE = "mse", "mae"
"""The mean squared, and the mean absolute error."""

LOWER = frozenset({MSE, MAE})
"""The metrics of which less is better; of all others more is, and 1 the most."""


def gain(metric: str | None, score: float) -> float:
    """Return a score as a number of which more is better, whatever the metric.

    >>> gain("accuracy", 0.9) > gain("accuracy", 0.8), gain("mse", 0.9) > gain("mse", 0.8)
    (True, False)
    """
    return -score if metric in LOWER else score
