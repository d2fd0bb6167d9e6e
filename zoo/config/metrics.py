"""Which metrics are better where they are lower, and BLEU, which needs no tensor."""

from collections.abc import Sequence

from zoo.errors import ZooError

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


def bleu(texts: Sequence[str], references: Sequence[str]) -> float:
    """Return BLEU / 100 of translations and a reference for each, as sacrebleu defines it.

    Post (arXiv 1804.08771); `signature` says which of its options were taken.
    """
    score = _bleu().corpus_score(list(texts), [list(references)]).score / 100
    return min(1.0, score)  # a perfect copy is rounded to a little more


def signature() -> str:
    """Return what sacrebleu asks to be written beside a score: case, cutting, smoothing, version.

    >>> signature().startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    True
    """
    metric = _bleu()
    metric.corpus_score([""], [[""]])  # it knows the number of references afterwards
    return str(metric.get_signature())


def _bleu():
    try:
        from sacrebleu.metrics import BLEU as Metric
    except ImportError:
        raise ZooError(
            "BLEU needs a package more: pip install 'graph-transformer-zoo[text]'."
        ) from None
    return Metric()
