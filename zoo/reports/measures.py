"""The numbers that figures are drawn of, from the answers of all seeds of a run."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from zoo.inference.predict import per_class
from zoo.reports.answers import Answered, score_of
from zoo.tasks.labels import ACCURACY, REGRESSION
from zoo.tasks.task import Task

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
        bins: `count` of answers, mean `confidence`, and share that is `right`, 10 rows.
        errors: the expected calibration error of each seed.
    """

    bins: pd.DataFrame
    errors: list[float]


def mean_classes(seeds: Sequence[Answered]) -> pd.DataFrame | None:
    """Return `per_class` with means over the seeds that have a score; counts are of all seeds.

    Each row also says how many scores there are not, as `without`.
    """
    tables = [per_class(each.task.name, each.logits, each.y, each.names) for each in seeds]
    if not tables or tables[0] is None:
        return None
    kinds = dict.fromkeys(("precision", "recall", "f1"), float)
    frames = pd.concat([pd.DataFrame(table).astype(kinds) for table in tables])
    frames["without"] = frames.isna().sum(axis=1)
    ways = {"class": "first", **dict.fromkeys(kinds, "mean"), "count": "sum", "without": "sum"}
    return frames.groupby(level=0).agg(ways)


def confusion(seeds: Sequence[Answered], most: int = 20) -> tuple[list[str], np.ndarray] | None:
    """Return names and counts (C, C): true class by row, answered one by column, of all seeds.

    Of more classes the most frequent stay, and the last row and column are all others.
    """
    if not seeds or seeds[0].task.kind not in ("classes", "binary"):
        return None
    from sklearn.metrics import confusion_matrix

    names, size = seeds[0].names, len(seeds[0].names)
    truth = np.concatenate([each.y.numpy() for each in seeds])
    said = [each.task.probabilities(each.logits).argmax(dim=1).numpy() for each in seeds]
    counts = confusion_matrix(truth, np.concatenate(said), labels=range(size))
    if size <= most:
        return names, counts
    kept = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[: most - 1])
    group = pd.Series(range(most - 1), index=kept).reindex(range(size), fill_value=most - 1)
    folded = pd.DataFrame(counts).groupby(group).sum().T.groupby(group).sum().T.to_numpy()
    return [*(names[each] for each in kept), f"{size - most + 1} others"], folded


def reliability(seeds: Sequence[Answered]) -> Reliability | None:
    """Return how well probabilities are calibrated; None of a task without any.

    Of classes it is the probability of the one that is answered; of yes-or-no targets that of yes.
    The expected calibration error is the mean distance of the two over bins, by their counts
    (Guo et al., arXiv 1706.04599, equation 3).
    """
    if not seeds or seeds[0].task.kind not in ("classes", "binary", "targets"):
        return None
    said = pd.concat([_said(each) for each in seeds], keys=range(len(seeds)), names=["seed"])
    edges = np.arange(BINS + 1) / BINS
    bins = pd.cut(said["confidence"], edges, labels=False, include_lowest=True).rename("bin")
    apart = (said["confidence"] - said["right"]).groupby(["seed", bins]).sum().abs()
    errors = apart.groupby("seed").sum() / said.groupby("seed").size()
    of_bins = said.groupby(bins).agg(count=("right", "size"), confidence=("confidence", "mean"),
                                     right=("right", "mean")).reindex(range(BINS))  # fmt: skip
    return Reliability(of_bins.fillna({"count": 0}).astype({"count": int}), errors.tolist())


def _said(each: Answered) -> pd.DataFrame:
    """Return probabilities, and whether what they are of is so."""
    values, y = each.task.probabilities(each.logits).double().numpy(), each.y.numpy()
    if each.task.kind == "targets":
        known = ~np.isnan(y)
        confidence, right = values[known], y[known] == 1
    else:
        confidence, right = values.max(axis=1), values.argmax(axis=1) == y
    return pd.DataFrame({"confidence": confidence.clip(0, 1), "right": right.astype(float)})


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


def measure_of(task: Task) -> str:
    """Return what the score of some nodes is called: the metric of their task, or its like."""
    return ERROR if task.name == REGRESSION else task.metric_name


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
    if each.task.name == REGRESSION:
        y = each.y.double().reshape(len(each.y), -1)
        return (each.logits.double() - y).abs().nanmean().item()
    return score_of(each.task, each.logits, each.y)


def pairs_of(seeds: Sequence[Answered], target: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return what is true and what is predicted of a target, all seeds one after the other."""
    truth = np.concatenate([each.y.reshape(len(each.y), -1)[:, target].numpy() for each in seeds])
    found = np.concatenate([each.logits[:, target].numpy() for each in seeds])
    known = ~np.isnan(truth)
    return truth[known], found[known]


def by_step(seeds: Sequence[Answered], horizon: int) -> list[Bin]:
    """Return the score of forecasts by how many times ahead they are."""
    found = []
    for step in range(horizon):
        parts = [each._replace(logits=each.logits[:, step::horizon], y=each.y[:, step::horizon])
                 for each in seeds]  # fmt: skip
        known = sum(int((~each.y.isnan()).sum()) for each in parts)
        found.append(_bin(str(step + 1), parts)._replace(count=known))
    return found
