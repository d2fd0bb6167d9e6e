"""Scores: which can be compared, which are better, means, and differences in pairs."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from zoo.config.options import Spec

MSE, MAE = "mse", "mae"
"""The mean squared, and the mean absolute error."""

TARGET_KEYS = ("name", "task", "label", "horizon")
"""Options of a data set that say what is predicted of what."""

_LOWER = frozenset({MSE, MAE, "rmse", "ece"})

LEVEL = 0.05
"""Below which a p-value is significant, as where the 95 % interval leaves out 0."""

_TOLERANCE = 1e-12  # by which scores differ in their last digits alone


class Difference(NamedTuple):
    """How far some scores lie from others, in pairs.

    Attributes:
        mean: of the differences.
        low: lower end of the 95 % interval of their mean; None of a single pair, and of pairs that
            all lie equally far apart, whose spread says nothing of others.
        high: upper end of it.
        noise: whether the interval holds 0, so that either may be the better one.
        p: the p-value of the test, two-sided.
    """

    mean: float
    low: float | None
    high: float | None
    noise: bool | None
    p: float | None


def differing_target(dataset: "Spec", other: "Spec") -> str | None:
    """Return an option by which two data sets predict something else, None if they do not.

    Of nodes that are generated all options say what these are, but what is done to their features.
    """
    dataset, other = (
        {"name": spec} if isinstance(spec, str) else spec for spec in (dataset, other)
    )
    keys = dataset.keys() - {"features"} if dataset["name"] == "sbm" else TARGET_KEYS
    for key in (key for key in dataset if key in keys):
        one, two = dataset[key], other.get(key)
        if None not in (one, two) and one != two:
            return key
    return None


def figure(value: float) -> str:
    """Return a score as it is printed: four decimals, or digits that count where these say nothing.

    >>> figure(0.98151), figure(8.07e-9), figure(11873060.47)
    ('0.9815', '8.07e-09', '1.187e+07')
    """
    small, large = 0 < abs(value) < 5e-4, abs(value) >= 1e6
    return f"{value:{'.3g' if small else '.4g' if large else '.4f'}}"


def signed(value: float, write: Callable[[float], str] = figure) -> str:
    """Return a difference of scores as it is printed, with its sign."""
    return f"{'-' if value < 0 else '+'}{write(abs(value))}"


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


def best_epoch(epoch: float, parameters: int) -> str:
    """Return an epoch, counted from 1, of weights as loaded what it is, of no weights a dash."""
    if not parameters:
        return "–"
    return "as loaded" if epoch == -1 else f"{epoch + 1:.0f}"


def with_deviation(
    score: Mapping[str, float | None], write: Callable[[float], str] = figure
) -> str:
    """Return a mean score with its standard deviation, if it has one."""
    return write(score["mean"]) + ("" if score["std"] is None else f" ± {write(score['std'])}")


def in_order_of_validation(
    first: dict[str, Any], second: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two summaries of runs, that of the better mean validation score first."""
    sign = -1 if lower_is_better(first["metric"]) else 1
    one, two = (sign * each["val"]["mean"] for each in (first, second))
    return (first, second) if one >= two else (second, first)


def lower_is_better(metric: str | None) -> bool:
    """Return whether less of a metric is better: of errors, and what is called `-error`, `-loss`.

    The name says it, as in scikit-learn, so that scores of a metric of one's own can be compared
    by those who do not know it; or what was declared of it, which runs and weights keep.
    """
    return _declared.get(metric, _by_name(metric))


def _by_name(metric: str | None) -> bool:
    return metric in _LOWER or str(metric).endswith(("-error", "-loss"))


def declare_direction(metric: str | None, lower: bool | None) -> None:
    """Note whether less of a metric is better, where its table, a run or weights say so.

    What its name says is not noted: a run of before it was declared says no more.

    >>> declare_direction("distance", True); lower_is_better("distance")
    True
    """
    if lower not in (None, _by_name(metric)):
        _declared[metric] = lower


def declared_direction(metric: str | None) -> bool | None:
    """Return whether less of a metric was declared to be better; None where its name says it."""
    return _declared.get(metric)


_declared: dict[str | None, bool] = {}
"""Metric to whether less of it is better, of those that say so themselves."""


def is_reached(gained: float, within: float) -> bool:
    """Return whether a score that gains so much on another one is at most `within` worse."""
    return gained >= -within - _TOLERANCE


def paired_difference(scores: Sequence[float], others: Sequence[float]) -> Difference:
    """Return the mean of `scores - others`, pair by pair, and its interval: the paired t-test.

    It takes the pairs for independent; random splits of the same nodes are not quite, which makes
    the interval too narrow (Nadeau and Bengio, Inference for the generalization error, Machine
    Learning 2003).

    Args:
        scores: one of each pair, n.
        others: what each of them is compared with, n.

    >>> difference = paired_difference([0.8, 0.9, 0.7], [0.7, 0.7, 0.4])
    >>> round(difference.mean, 4), round(difference.low, 4), round(difference.high, 4)
    (0.2, -0.0484, 0.4484)
    >>> paired_difference([354 / 360, 339 / 360], [355 / 360, 338 / 360]).mean  # not -5.55e-17
    0.0
    """
    pairs = [score - other for score, other in zip(scores, others, strict=True)]
    mean = statistics.fmean(pairs)
    mean = 0.0 if abs(mean) < _TOLERANCE else mean
    alike = max(pairs) - min(pairs) < _TOLERANCE <= abs(mean)
    if len(pairs) < 2 or alike:
        return Difference(mean, None, None, None, None)
    from scipy.stats import sem, t

    error, freedom = float(sem(pairs)), len(pairs) - 1
    half = float(t.ppf(0.975, freedom)) * error
    p = float(2 * t.sf(abs(mean) / error, freedom)) if mean else 1.0
    return Difference(mean, mean - half, mean + half, abs(mean) <= half, p)


def adjust_by_holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values of several tests, adjusted so that 5 % hold for all of them together.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 1979.

    >>> adjust_by_holm([0.0625, 0.015625, 0.5])
    [0.125, 0.046875, 0.5]
    """
    adjusted, largest = [1.0] * len(p_values), 0.0
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    for before, index in enumerate(order):
        largest = min(1.0, max(largest, (len(p_values) - before) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def compare_to_best(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return how the test scores of runs lie beside the best, in pairs of one seed and split.

    The best is that of the seeds and splits by which most others can be tested, and of the most
    runs where these are as many: an odd run of one seed is set against nothing.

    Args:
        rows: summaries of runs: `seeds`, `metric`, and the `recipe` that it is of.

    Returns:
        For each whether it is the `best`, has `same_splits`, and the `difference` from it: None for
        the best itself, and where seeds or splits are others; `from` which recipe it is, over how
        many `pairs` and `splits`, and what `paired_difference` says; `p_holm` is `p`, adjusted for
        all of these comparisons.
    """
    scores = [
        {(seed["seed"], seed["split_sha256"]): seed["test"] for seed in row["seeds"]}
        for row in rows
    ]

    def place(index: int) -> tuple[int, int, float]:
        own, metric = scores[index], rows[index]["metric"]
        others = sum(own.keys() == each.keys() for each in scores) - 1
        mean = round(gain(metric, statistics.fmean(own.values())), 12)
        return others * (len(own) > 1), len(own), mean

    best = max(range(len(rows)), key=place)
    compared = [
        {
            "best": index == best,
            "same_splits": _splits(own) == _splits(scores[best]),
            "difference": None if index == best else _difference(own, scores[best]),
        }
        for index, own in enumerate(scores)
    ]
    differences = [row["difference"] for row in compared if row["difference"]]
    tested = [each for each in differences if each["p"] is not None]
    adjusted = adjust_by_holm([each["p"] for each in tested])
    for each in differences:
        each |= {"from": rows[best]["recipe"], "p_holm": None}
    for each, p in zip(tested, adjusted, strict=True):
        each["p_holm"] = p
    return compared


def _splits(scores: Mapping[tuple[int, str], float]) -> set[str]:
    return {split for _, split in scores}


def _difference(
    scores: Mapping[tuple[int, str], float], best: Mapping[tuple[int, str], float]
) -> dict[str, Any] | None:
    """Return how scores lie beside the best by seed and split, None where these are others."""
    if scores.keys() != best.keys():
        return None
    counts = {"pairs": len(scores), "splits": len(_splits(scores))}
    pairs = paired_difference([*scores.values()], [best[pair] for pair in scores])
    return {**counts, **pairs._asdict()}
