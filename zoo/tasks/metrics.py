"""Metrics: `METRICS`, the words of `train.metric`, by scikit-learn.

A metric maps NumPy arrays of rows whose label is known to a number: probabilities (n, C) and
classes (n,) int64; of yes-or-no targets one target at a time, as two classes; of regression
predictions (n,) and numbers (n,), likewise. One of your own is an entry of the table; less of it is
better where its name ends in `-error` or `-loss`, or the entry has an attribute that says so:

    METRICS["kappa"] = lambda: lambda p, y: cohen_kappa_score(y, p.argmax(axis=1))
    METRICS["brier"] = lambda: lambda p, y: ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()
    METRICS["brier"].lower_is_better = True
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zoo.config.options import Count, Table
from zoo.errors import optional
from zoo.tasks.losses import OWN

Metric = Callable[[np.ndarray, np.ndarray], float]
"""`(probabilities (n, C), classes (n,))`, or `(predictions (n,), numbers (n,))`, to a number."""


def accuracy() -> Metric:
    """Share of rows whose most probable class is the right one."""
    return lambda p, y: float((p.argmax(axis=1) == y).mean())


def balanced_accuracy() -> Metric:
    """Mean over the classes of the share of their rows that is right."""
    return _of_classes("balanced_accuracy_score")


def macro_f1() -> Metric:
    """Mean over the classes of F1, 2 precision recall / (precision + recall)."""
    return _of_classes("f1_score", average="macro", zero_division=0)


def micro_f1() -> Metric:
    """F1 of all classes together; with one class for each row it is the accuracy."""
    return _of_classes("f1_score", average="micro", zero_division=0)


def mcc() -> Metric:
    """Matthews' correlation of answered and true classes, from -1 to 1, 0 for guessing."""
    return _of_classes("matthews_corrcoef")


def roc_auc() -> Metric:
    """Probability that a row of a class is ranked above one of another; the mean of more than two.

    A class that none, or all, of the rows have is left out of the mean.
    """
    return _ranked("roc_auc_score")


def average_precision() -> Metric:
    """Area under precision over recall; of more than two classes the mean, as of `roc-auc`."""
    return _ranked("average_precision_score")


def log_loss() -> Metric:
    """Mean of -log of the probability of the right class. Less is better."""

    def measure(p: np.ndarray, y: np.ndarray) -> float:
        return float(-np.log(p[np.arange(len(y)), y].clip(1e-15)).mean())

    return measure


def ece(*, bins: Count = 10) -> Metric:
    """Expected calibration error: how far confidence lies from the share that is right.

    Guo et al., "On Calibration of Modern Neural Networks" (arXiv 1706.04599), equation 3.

    Args:
        bins: of equal width, of the probability of the class that is answered.
    """

    def measure(p: np.ndarray, y: np.ndarray) -> float:
        sure, right = p.max(axis=1).astype(float), p.argmax(axis=1) == y
        place = np.clip(np.ceil(sure * bins).astype(int) - 1, 0, bins - 1)
        apart = np.bincount(place, weights=sure - right, minlength=bins)
        return float(np.abs(apart).sum() / len(y))

    return measure


def r2() -> Metric:
    """Share of the variance that is predicted, 1 - squared error / variance."""

    def measure(predictions: np.ndarray, y: np.ndarray) -> float:
        if (y == y[0]).all():
            raise ValueError("all numbers are the same, and it compares errors with their variance")
        return float(_scikit("r2_score")(y, predictions))

    return measure


def mae() -> Metric:
    """Mean absolute error, in the unit of the targets. Less is better."""
    return _of_numbers("mean_absolute_error")


def mse() -> Metric:
    """Mean squared error. Less is better."""
    return _of_numbers("mean_squared_error")


def rmse() -> Metric:
    """Root of the mean squared error, in the unit of the targets. Less is better."""
    return _of_numbers("root_mean_squared_error")


NO_PAIR = -1e30
"""The score of what stands in for a pair where a link is compared with fewer than others."""


def mrr() -> Metric:
    """Mean of 1 / the rank of a link among its candidates, by OGB (arXiv 2005.00687)."""

    def measure(scores: np.ndarray, y: np.ndarray) -> float:
        ranks = _of_ogb("ogbl-citation2", scores[:, 0], scores[:, 1:])["mrr_list"]
        return float(np.mean(np.asarray(ranks)))

    return measure


def hits(k: int) -> Callable[[], Metric]:
    """Return a metric: the share of links above the k-th best of all pairs without, by OGB."""

    def at_k() -> Metric:
        def measure(scores: np.ndarray, y: np.ndarray) -> float:
            negatives = scores[:, 1:].ravel()
            negatives = negatives[negatives > NO_PAIR]
            if len(negatives) < k:
                raise ValueError(f"there are {len(negatives)} pairs without a link, fewer than {k}")
            return float(_of_ogb("ogbl-collab", scores[:, 0], negatives, K=k)[f"hits@{k}"])

        return measure

    at_k.__doc__ = f"Share of links that are above the {k}-th best of all pairs without, by OGB."
    return at_k


def _of_ogb(name: str, links: np.ndarray, others: np.ndarray, **options: int) -> dict:
    """Return what the evaluator of a benchmark of OGB says of scores."""
    import torch

    evaluator = _evaluator_of_ogb(name)
    vars(evaluator).update(options)
    scores = {"y_pred_pos": torch.tensor(links), "y_pred_neg": torch.tensor(others)}
    return evaluator.eval(scores)


def _evaluator_of_ogb(name: str) -> Any:
    """Return the evaluator of a benchmark.

    As it is imported OGB asks the network for its latest version, unless `outdated` is missing.
    """
    before = sys.modules.get("outdated")
    sys.modules["outdated"] = None  # type: ignore[assignment]
    try:
        from ogb.linkproppred import Evaluator
    finally:
        if before is None:
            del sys.modules["outdated"]
        else:
            sys.modules["outdated"] = before
    return Evaluator(name)


def _own() -> None:
    """That of the task: accuracy, ROC-AUC of yes-or-no answers, R² of numbers."""


METRICS = Table(
    "metric",
    {
        OWN: _own,
        "accuracy": accuracy,
        "balanced-accuracy": balanced_accuracy,
        "macro-f1": macro_f1,
        "micro-f1": micro_f1,
        "roc-auc": roc_auc,
        "average-precision": average_precision,
        "mcc": mcc,
        "log-loss": log_loss,
        "ece": ece,
        "r2": r2,
        "mae": mae,
        "rmse": rmse,
        "mse": mse,
        "mrr": mrr,
        **{f"hits@{k}": hits(k) for k in (10, 20, 50, 100)},
    },
)
"""Word to builder `(*, options) -> Metric`."""

_OF_CLASSES = (
    "accuracy",
    "balanced-accuracy",
    "macro-f1",
    "micro-f1",
    "roc-auc",
    "average-precision",
    "mcc",
    "log-loss",
    "ece",
)

METRICS_OF = {
    "classes": _OF_CLASSES,
    "binary": _OF_CLASSES,
    "targets": _OF_CLASSES,
    "numbers": ("r2", "mae", "rmse", "mse"),
    "tokens": (),
    "links": ("mrr", "hits@10", "hits@20", "hits@50", "hits@100"),
}
"""Kind of labels to the metrics of this package that are told of it."""


def _of_classes(name: str, **options) -> Metric:
    """Return a score of scikit-learn of the predicted classes."""

    def measure(p: np.ndarray, y: np.ndarray) -> float:
        with warnings.catch_warnings():  # of classes that are predicted and have no row
            warnings.simplefilter("ignore")
            return float(_scikit(name)(y, p.argmax(axis=1), **options))

    return measure


def _of_numbers(name: str) -> Metric:
    return lambda predictions, y: float(_scikit(name)(y, predictions))


def _ranked(name: str) -> Metric:
    """Return the mean over classes of a score of scikit-learn of one class against the others.

    Raises:
        ValueError: every row has one class.
    """

    def measure(p: np.ndarray, y: np.ndarray) -> float:
        classes = [1] if p.shape[1] == 2 else range(p.shape[1])
        pairs = [(y == c, p[:, c]) for c in classes if 0 < (y == c).sum() < len(y)]
        if not pairs:
            raise ValueError(f"all {len(y)} rows are of one class, and it compares classes")
        return float(np.mean([_scikit(name)(is_class, scores) for is_class, scores in pairs]))

    return measure


def _scikit(name: str) -> Callable[..., float]:
    import sklearn.metrics

    return getattr(sklearn.metrics, name)


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU / 100 of translations and a reference for each, as sacrebleu defines it.

    Post (arXiv 1804.08771); `signature` says which of its options were taken.
    """
    score = _bleu().corpus_score(list(texts), [list(references)]).score / 100
    return min(1.0, score)  # a perfect copy is rounded to a little more


def signature() -> str:
    """Return sacrebleu's signature of a score: case, tokenisation, smoothing, version.

    >>> signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    True
    """
    metric = _bleu()
    metric.corpus_score([""], [[""]])  # it knows the number of references afterwards
    return str(metric.get_signature())


def _bleu():
    return optional("sacrebleu.metrics", "text", "BLEU").BLEU()
