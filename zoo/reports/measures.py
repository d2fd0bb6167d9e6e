"""The numbers that figures are drawn of, from the answers of all seeds of a run."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from zoo.inference.predict import per_class
from zoo.reports.answers import Answered, score_of
from zoo.tasks.labels import ACCURACY, NUMBERS
from zoo.tasks.metrics import ece
from zoo.tasks.task import Task

BINS = 10
"""Bins of a reliability diagram, of equal width."""

QUANTILES = 5
"""Bins of the degree at most, each with about as many nodes."""

SHARES = ("0", "0–¼", "¼–½", "½–¾", "¾–1", "1")
"""Bins of the homophily of a node: both ends have their own, the others hold their upper end."""

LEVEL = 0.95
"""How often the interval of a share holds it."""

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
        bins: `count` of answers, mean `confidence`, and share that is `right`, 10 rows.
        errors: the expected calibration error of each seed.
    """

    bins: pd.DataFrame
    errors: list[float]


def mean_classes(seeds: Sequence[Answered]) -> pd.DataFrame | None:
    """Return `per_class` with means over the seeds that have a score; counts are of all seeds.

    Each row also says how many scores there are not, as `without`.
    """
    tables = [per_class(seed.task.name, seed.logits, seed.y, seed.names) for seed in seeds]
    if not tables or tables[0] is None:
        return None
    kinds = dict.fromkeys(("precision", "recall", "f1"), float)
    frames = pd.concat([pd.DataFrame(table).astype(kinds) for table in tables])
    frames["without"] = frames.isna().sum(axis=1)
    ways = {"class": "first", **dict.fromkeys(kinds, "mean"), "count": "sum", "without": "sum"}
    return frames.groupby(level=0).agg(ways)


def confusion(seeds: Sequence[Answered], most: int = 20) -> tuple[list[str], np.ndarray] | None:
    """Return names and counts (C, C): true class by row, predicted one by column, of all seeds.

    Of more classes the most frequent stay, and the last row and column are all others.
    """
    if not seeds or seeds[0].task.kind not in ("classes", "binary"):
        return None
    from sklearn.metrics import confusion_matrix

    names, size = seeds[0].names, len(seeds[0].names)
    truth = np.concatenate([seed.y.numpy() for seed in seeds])
    predicted = [seed.task.probabilities(seed.logits).argmax(dim=1).numpy() for seed in seeds]
    counts = confusion_matrix(truth, np.concatenate(predicted), labels=range(size))
    if size <= most:
        return names, counts
    frequent = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[: most - 1])
    group = pd.Series(range(most - 1), index=frequent).reindex(range(size), fill_value=most - 1)
    folded = pd.DataFrame(counts).groupby(group).sum().T.groupby(group).sum().T.to_numpy()
    return [*(names[index] for index in frequent), f"{size - most + 1} others"], folded


def reliability(seeds: Sequence[Answered]) -> Reliability | None:
    """Return how well probabilities are calibrated; None of a task without any.

    Of classes it is the probability of the one that is predicted; of yes-or-no targets that of yes.
    """
    if not seeds or seeds[0].task.kind not in ("classes", "binary", "targets"):
        return None
    confidences, hits = zip(*map(_confidence, seeds), strict=True)
    # The metric takes classes: one of this confidence, which is the right one in a hit.
    errors = [ece(bins=BINS)(np.stack([confidence, 0 * confidence], axis=1), 1 - hit)
              for confidence, hit in zip(confidences, hits, strict=True)]  # fmt: skip
    rows = pd.DataFrame({"confidence": np.concatenate(confidences), "right": np.concatenate(hits)})
    edges = np.arange(BINS + 1) / BINS
    bins = pd.cut(rows["confidence"], edges, labels=False, include_lowest=True).rename("bin")
    table = rows.groupby(bins).agg(count=("right", "size"), confidence=("confidence", "mean"),
                                   right=("right", "mean")).reindex(range(BINS))  # fmt: skip
    return Reliability(table.fillna({"count": 0}).astype({"count": int}), errors)


def _confidence(seed: Answered) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities (n,), and whether each is of the right answer (n,), 0 or 1."""
    values, y = seed.task.probabilities(seed.logits).double().numpy(), seed.y.numpy()
    if seed.task.kind == "targets":
        known = ~np.isnan(y)
        confidence, hit = values[known], y[known] == 1
    else:
        confidence, hit = values.max(axis=1), values.argmax(axis=1) == y
    return confidence.clip(0, 1), hit.astype(int)


def degree_edges(seeds: Sequence[Answered]) -> np.ndarray:
    """Return the largest degree of each bin, so that each has about as many nodes."""
    degrees = np.concatenate([seed.degree for seed in seeds])
    shares = np.linspace(0, 1, QUANTILES + 1)[1:]
    return np.unique(np.quantile(degrees, shares, method="inverted_cdf"))


def by_degree(seeds: Sequence[Answered], edges: np.ndarray) -> list[Bin]:
    """Return the score of test nodes by their number of neighbours."""
    low = [min(int(seed.degree.min()) for seed in seeds), *(edges[:-1].astype(int) + 1)]
    names = [str(first) if first >= int(last) else f"{first}–{int(last)}"
             for first, last in zip(low, edges, strict=True)]  # fmt: skip
    return _score_bins([np.searchsorted(edges, seed.degree) for seed in seeds], names, seeds)


def by_homophily(seeds: Sequence[Answered]) -> list[Bin]:
    """Return the score of test nodes by the share of their neighbours that has their class."""
    bins = []
    for seed in seeds:
        own = np.ceil(np.nan_to_num(seed.homophily) * 4).astype(int)
        own[seed.homophily == 1] = 5
        own[np.isnan(seed.homophily)] = -1
        bins.append(own)
    return _score_bins(bins, SHARES, seeds)


def by_step(seeds: Sequence[Answered], horizon: int) -> list[Bin]:
    """Return the score of forecasts by how many times ahead they are."""
    bins = []
    for step in range(horizon):
        parts = [seed._replace(logits=seed.logits[:, step::horizon], y=seed.y[:, step::horizon])
                 for seed in seeds]  # fmt: skip
        count = sum(int((~part.y.isnan()).sum()) for part in parts)
        bins.append(_score_bin(str(step + 1), parts)._replace(count=count))
    return bins


def measure_of(task: Task) -> str:
    """Return what the score of some nodes is called: the metric of their task, or its like."""
    return ERROR if task.name in NUMBERS else task.metric_name


def _score_bins(
    bins: list[np.ndarray], names: Sequence[str], seeds: Sequence[Answered]
) -> list[Bin]:
    """Return the scores of rows by the number of their bin, (n,) of each seed."""
    scored = []
    for number, name in enumerate(names):
        chosen = [torch.from_numpy(own == number) for own in bins]
        parts = [seed._replace(logits=seed.logits[rows], y=seed.y[rows])
                 for seed, rows in zip(seeds, chosen, strict=True)]  # fmt: skip
        scored.append(_score_bin(name, parts))
    return scored


def _score_bin(name: str, parts: list[Answered]) -> Bin:
    count = sum(len(part.y) for part in parts)
    scores = [score for part in parts if (score := _score(part)) is not None]
    if not scores:
        return Bin(name, count, None, None, None)
    mean = float(np.mean(scores))
    if len(scores) > 1:
        std = float(np.std(scores, ddof=1))
        return Bin(name, count, mean, mean - std, mean + std)
    if measure_of(parts[0].task) != ACCURACY or len(parts) > 1:
        return Bin(name, count, mean, None, None)
    from scipy.stats import binomtest

    interval = binomtest(round(mean * count), count).proportion_ci(LEVEL, method="wilson")
    return Bin(name, count, mean, float(interval.low), float(interval.high))


def _score(part: Answered) -> float | None:
    if len(part.y) == 0:
        return None
    if part.task.name in NUMBERS:
        y = part.y.double().reshape(len(part.y), -1)
        return (part.logits.double() - y).abs().nanmean().item()
    return score_of(part.task, part.logits, part.y)


def pairs_of(seeds: Sequence[Answered], target: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return true and predicted values of a target, all seeds one after the other."""
    truth = np.concatenate([seed.y.reshape(len(seed.y), -1)[:, target].numpy() for seed in seeds])
    predicted = np.concatenate([seed.logits[:, target].numpy() for seed in seeds])
    known = ~np.isnan(truth)
    return truth[known], predicted[known]
