"""What is done with scores: which are better where lower, means, and differences in pairs."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MSE, MAE = "mse", "mae"
"""The mean squared, and the mean absolute error."""

_LOWER = frozenset({MSE, MAE, "rmse", "ece"})

_ALIKE = 1e-12  # by which differences of scores differ in their last digits alone

LEVEL = 0.95
"""How often the interval of a paired difference holds the true mean."""


class Difference(NamedTuple):
    """How far some scores lie from others, in pairs.

    Attributes:
        mean: of the differences.
        low: lower end of the interval of their mean; None of a single pair, and of pairs that all
            lie equally far apart, whose spread says nothing of others.
        high: upper end of it.
        noise: whether the interval holds 0, so that either may be the better one.
    """

    mean: float
    low: float | None
    high: float | None
    noise: bool | None


def figure(value: float, sign: str = "") -> str:
    """Return a score as it is printed: four decimals, or digits that count where these say nothing.

    >>> figure(0.98151), figure(8.07e-9), figure(11873060.47)
    ('0.9815', '8.07e-09', '1.187e+07')
    """
    small, large = 0 < abs(value) < 5e-4, abs(value) >= 1e6
    return f"{value:{sign}{'.3g' if small else '.4g' if large else '.4f'}}"


def signed(value: float) -> str:
    """Return a difference of scores as it is printed, as `figure` and with its sign."""
    return figure(value, "+")


def spread(scores: list[float]) -> dict[str, float | int | None]:
    """Return the mean of scores, their standard deviation, None of a single one, and how many."""
    std = statistics.stdev(scores) if len(scores) > 1 else None
    return {"mean": statistics.fmean(scores), "std": std, "runs": len(scores)}


def gain(metric: str | None, score: float) -> float:
    """Return a score as a number of which more is better, whatever the metric.

    >>> gain("accuracy", 0.9) > gain("accuracy", 0.8), gain("mse", 0.9) > gain("mse", 0.8)
    (True, False)
    """
    return -score if lower_is_better(metric) else score


def lower_is_better(metric: str | None) -> bool:
    """Return whether less of a metric is better: of errors, and what is called `-error`, `-loss`.

    The name says it, as in scikit-learn, so that scores of a metric of one's own can be compared
    by those who do not know it.
    """
    return metric in _LOWER or str(metric).endswith(("-error", "-loss"))


def is_reached(gained: float, within: float) -> bool:
    """Return whether a score that gains so much on another one is at most `within` worse."""
    return gained >= -within - _ALIKE


def paired_difference(scores: Sequence[float], others: Sequence[float]) -> Difference:
    """Return the mean of `scores - others`, pair by pair, and its interval: the paired t-test.

    The interval is mean ± t s / sqrt(n), with the standard deviation s of the n differences and the
    quantile t of Student's distribution of n - 1 degrees of freedom (Student, The probable error of
    a mean, Biometrika 1908). It takes the pairs for independent; random splits of the same nodes
    are not quite, which makes it too narrow (Nadeau and Bengio, Inference for the generalization
    error, Machine Learning 2003).

    Args:
        scores: one of each pair, n.
        others: what each of them is compared with, n.

    >>> found = paired_difference([0.8, 0.9, 0.7], [0.7, 0.7, 0.4])
    >>> round(found.mean, 4), round(found.low, 4), round(found.high, 4), found.noise
    (0.2, -0.0484, 0.4484, True)
    >>> paired_difference([354 / 360, 339 / 360], [355 / 360, 338 / 360]).mean  # not -5.55e-17
    0.0
    """
    apart = [one - other for one, other in zip(scores, others, strict=True)]
    mean = statistics.fmean(apart)
    mean = 0.0 if abs(mean) < _ALIKE else mean
    alike = max(apart) - min(apart) < _ALIKE <= abs(mean)
    if len(apart) < 2 or alike:
        return Difference(mean, None, None, None)
    from scipy.stats import sem, t

    half = float(t.ppf((1 + LEVEL) / 2, len(apart) - 1) * sem(apart))
    return Difference(mean, mean - half, mean + half, abs(mean) <= half)


def beside(row: Mapping[str, Any], best: Mapping[str, Any]) -> dict[str, Any]:
    """Return how the test scores of a run lie beside the best, in pairs of one seed and split.

    Args:
        row: the summary of a run: its `seeds`, and the `recipe` that it is of.
        best: that of another one, or the same.

    Returns:
        `same_splits`, and the `difference` from the best: None for the best itself, and where seeds
        or splits are others; `from` which recipe it is, over how many `pairs` and `splits`, and
        what `paired_difference` says.
    """
    ours, theirs = (
        {(seed["seed"], seed["split_sha256"]): seed["test"] for seed in each["seeds"]}
        for each in (row, best)
    )
    splits = {split for _, split in ours}
    same = {"same_splits": splits == {split for _, split in theirs}}
    if row is best or ours.keys() != theirs.keys():
        return {**same, "difference": None}
    found = paired_difference([*ours.values()], [theirs[pair] for pair in ours])
    counts = {"pairs": len(ours), "splits": len(splits)}
    return {**same, "difference": {"from": best["recipe"], **counts, **found._asdict()}}
