"""The numbers that figures are drawn of, from the answers of all seeds of a run."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from zoo.inference.predict import OF_CLASSES, per_class, probabilities
from zoo.reports.answers import Answered, score_of
from zoo.tasks.labels import ACCURACY, MULTILABEL, REGRESSION
from zoo.tasks.task import TASKS

BINS = 10
"""Bins of a reliability diagram, of equal width."""

QUANTILES = 5
"""Bins of the degree at most, each with about as many nodes."""

SHARES = ("0", "0–¼", "¼–½", "½–¾", "¾–1", "1")
"""Bins of the homophily of a node: both ends have their own, the others hold their upper end."""

LEVEL = 0.95

ERROR = "mean absolute error"
"""Which stands for R² where some nodes are scored: that depends on how far these lie apart."""


class Bin(NamedTuple):
    """The score of some test nodes.

    Attributes:
        name: which nodes.
        count: how many, all seeds together.
        score: mean over the seeds; None where it does not exist.
        low: lower end of what is drawn about it; None where nothing is.
        high: upper end.
    """

    name: str
    count: int
    score: float | None
    low: float | None
    high: float | None


class Reliability(NamedTuple):
    """How often answers are right, bin by bin of the probability that they are said to have.

    Attributes:
        confidence: mean probability in each bin, (10,), NaN in an empty one.
        right: share that is right, (10,).
        count: how many, (10,).
        errors: the expected calibration error of each seed.
    """

    confidence: np.ndarray
    right: np.ndarray
    count: np.ndarray
    errors: list[float]


def mean_classes(seeds: Sequence[Answered]) -> list[dict[str, Any]] | None:
    """Return `per_class` with means over the seeds that have a score; counts are of all seeds.

    Each row also says how many scores there are not, as `without`.
    """
    tables = [per_class(each.task, each.logits, each.y, each.names) for each in seeds]
    if not tables or tables[0] is None:
        return None
    return [_mean_row(rows) for rows in zip(*tables, strict=True)]


def _mean_row(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    found = {"class": rows[0]["class"], "count": sum(each["count"] for each in rows), "without": 0}
    for key in ("precision", "recall", "f1"):
        known = [each[key] for each in rows if each[key] is not None]
        found[key] = float(np.mean(known)) if known else None
        found["without"] += len(rows) - len(known)
    return found


def confusion(seeds: Sequence[Answered], most: int = 20) -> tuple[list[str], np.ndarray] | None:
    """Return names and counts (C, C): true class by row, answered one by column, of all seeds.

    Of more classes the most frequent stay, and the last row and column are all others.
    """
    if not seeds or seeds[0].task not in OF_CLASSES:
        return None
    names, size = seeds[0].names, len(seeds[0].names)
    counts = np.zeros((size, size), dtype=np.int64)
    for each in seeds:
        answers = probabilities(each.task, each.logits).argmax(axis=1)
        np.add.at(counts, (each.y.numpy(), answers), 1)
    if size <= most:
        return names, counts
    kept = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[: most - 1])
    group = np.full(size, most - 1)
    group[kept] = np.arange(most - 1)
    folded = np.zeros((most, most), dtype=np.int64)
    np.add.at(folded, (group[:, None], group[None, :]), counts)
    return [*(names[each] for each in kept), f"{size - most + 1} others"], folded


def reliability(seeds: Sequence[Answered]) -> Reliability | None:
    """Return how well probabilities are calibrated; None of a task without any.

    Of classes it is the probability of the one that is answered; of yes-or-no targets that of yes.
    The expected calibration error is the mean distance of the two over bins, by their counts
    (Guo et al., arXiv 1706.04599, equation 3).
    """
    if not seeds or seeds[0].task not in (*OF_CLASSES, MULTILABEL):
        return None
    sums = np.zeros((3, BINS))
    errors = []
    for each in seeds:
        own = _binned(*_said(each))
        errors.append(float(np.abs(own[0] - own[1]).sum() / own[2].sum()))
        sums += own
    with np.errstate(invalid="ignore"):
        return Reliability(sums[0] / sums[2], sums[1] / sums[2], sums[2].astype(int), errors)


def _said(each: Answered) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities and whether what they are of is so, (n,) and (n,) bool."""
    values, y = probabilities(each.task, each.logits, each.loss), each.y.numpy()
    if each.task == MULTILABEL:
        known = ~np.isnan(y)
        return values[known], y[known] == 1
    return values.max(axis=1), values.argmax(axis=1) == y


def _binned(probability: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return sums of probability and of right answers, and counts, in each bin, (3, 10)."""
    place = np.clip(np.ceil(probability.astype(float) * BINS).astype(int) - 1, 0, BINS - 1)
    return np.stack([np.bincount(place, weights=each, minlength=BINS)
                     for each in (probability, right, np.ones(len(place)))])  # fmt: skip


def degree_edges(seeds: Sequence[Answered]) -> np.ndarray | None:
    """Return the largest degree of each bin, so that each has about as many nodes; None of none."""
    known = [each.degree for each in seeds if each.degree is not None]
    if not known:
        return None
    shares = np.linspace(0, 1, QUANTILES + 1)[1:]
    return np.unique(np.quantile(np.concatenate(known), shares, method="inverted_cdf"))


def by_degree(seeds: Sequence[Answered], edges: np.ndarray) -> list[Bin]:
    """Return the score of test nodes by their number of neighbours."""
    low = [min(int(each.degree.min()) for each in seeds), *(edges[:-1].astype(int) + 1)]
    names = [
        str(one) if one >= int(two) else f"{one}–{int(two)}"
        for one, two in zip(low, edges, strict=True)
    ]
    return _by([np.searchsorted(edges, each.degree) for each in seeds], names, seeds)


def by_homophily(seeds: Sequence[Answered]) -> list[Bin]:
    """Return the score of test nodes by the share of their neighbours that has their class."""
    places = []
    for each in seeds:
        place = np.ceil(np.nan_to_num(each.homophily) * 4).astype(int)
        place[each.homophily == 1] = 5
        place[np.isnan(each.homophily)] = -1
        places.append(place)
    return _by(places, SHARES, seeds)


def measure_of(task: str) -> str:
    """Return what the score of some nodes is called: the metric of their task, or its like."""
    return ERROR if task == REGRESSION else TASKS[task]().metric_name


def _by(places: list[np.ndarray], names: Sequence[str], seeds: Sequence[Answered]) -> list[Bin]:
    rows = ([_part(each, place == number) for each, place in zip(seeds, places, strict=True)]
            for number in range(len(names)))  # fmt: skip
    return [_bin(name, parts) for name, parts in zip(names, rows, strict=True)]


def _part(each: Answered, chosen: np.ndarray) -> Answered:
    index = torch.from_numpy(chosen)
    return each._replace(logits=each.logits[index], y=each.y[index])


def _bin(name: str, parts: list[Answered]) -> Bin:
    count = sum(len(each.y) for each in parts)
    scores = [found for each in parts if (found := _score(each)) is not None]
    if not scores:
        return Bin(name, count, None, None, None)
    mean = float(np.mean(scores))
    if len(scores) > 1:
        spread = float(np.std(scores, ddof=1))
        return Bin(name, count, mean, mean - spread, mean + spread)
    if measure_of(parts[0].task) != ACCURACY or len(parts) > 1:
        return Bin(name, count, mean, None, None)
    from scipy.stats import binomtest

    found = binomtest(round(mean * count), count).proportion_ci(LEVEL, method="wilson")
    return Bin(name, count, mean, float(found.low), float(found.high))


def _score(each: Answered) -> float | None:
    if len(each.y) == 0:
        return None
    if each.task == REGRESSION:
        y = each.y.double().reshape(len(each.y), -1)
        error = (each.logits.double() - y).abs().nanmean().item()
        return error
    return score_of(each.task, each.logits, each.y)


def pairs_of(seeds: Sequence[Answered], target: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return what is true and what is predicted of a target, all seeds one after the other."""
    truth = np.concatenate([each.y.reshape(len(each.y), -1)[:, target].numpy() for each in seeds])
    found = np.concatenate([each.logits[:, target].numpy() for each in seeds])
    known = ~np.isnan(truth)
    return truth[known], found[known]


def by_step(seeds: Sequence[Answered], horizon: int) -> list[Bin]:
    """Return the mean squared error of forecasts by how many times ahead they are."""
    found = []
    for step in range(horizon):
        parts = [each._replace(logits=each.logits[:, step::horizon], y=each.y[:, step::horizon])
                 for each in seeds]  # fmt: skip
        known = sum(int((~each.y.isnan()).sum()) for each in parts)
        found.append(_bin(str(step + 1), parts)._replace(count=known))
    return found
