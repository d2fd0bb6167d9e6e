"""Precision, recall and F1 of each class, or of each target, by scikit-learn."""

import math
from typing import Any

import numpy as np
from torch import Tensor

from zoo.datasets.files.labels import BINARY, CLASSIFICATION, GRAPHS, MULTILABEL, SEQUENCES
from zoo.inference.predict import ANSWERS, with_softmax

OF_CLASSES = (CLASSIFICATION, BINARY, GRAPHS, SEQUENCES)
"""The tasks in which each row has one class."""


def probabilities(task: str, logits: Tensor, loss: str = "task") -> np.ndarray:
    """Return the probability of each class, or of each target, (n, C), of a task that has some."""
    return ANSWERS[task](with_softmax(logits, loss), None)[1].numpy()


def names_of(task: str, logits: Tensor, labels: list[str] | None) -> list[str]:
    """Return the names of the classes, or targets: their numbers where they have none."""
    columns, _, classes = ANSWERS[task](logits[:1], labels)
    return classes or [each.removeprefix("probability_") for each in columns]


def per_class(
    task: str, logits: Tensor, y: Tensor, labels: list[str] | None = None
) -> list[dict[str, Any]] | None:
    """Return a row for each class: `class`, `precision`, `recall`, `f1` and `count`.

    A row of the data is of the class with the largest probability; of many yes-or-no targets each
    one with a probability of one half is a yes, and the count that of its true yeses.

    Args:
        task: its word.
        logits: (n, C) fp32 on the CPU.
        y: classes (n,), -1 where unknown, or targets (n, T), NaN where unknown.
        labels: their names.

    Returns:
        None where the task has no classes. A share of nothing, such as the precision of a class
        that is never predicted, is None.
    """
    if task not in (*OF_CLASSES, MULTILABEL):
        return None
    from sklearn.metrics import precision_recall_fscore_support as measured

    values, names = probabilities(task, logits), names_of(task, logits, labels)
    truth, known = y.numpy(), labelled(y).numpy()
    if task == MULTILABEL:
        told = [~np.isnan(column) for column in truth.T]
        measures = [
            [each[0] for each in measured(one[known], two[known] >= 0.5, labels=[1],
                                          zero_division=np.nan)]
            for one, two, known in zip(truth.T, values.T, told, strict=True)
        ]  # fmt: skip
    else:
        said, classes = values[known].argmax(axis=1), range(len(names))
        found = measured(truth[known], said, labels=classes, zero_division=np.nan)
        measures = zip(*found, strict=True)
    return [_row(name, *row) for name, row in zip(names, measures, strict=True)]


def labelled(y: Tensor) -> Tensor:
    """Return which rows of labels (N,) or targets (N, T) say anything, (N,) bool."""
    said = y.isfinite() if y.is_floating_point() else y >= 0
    return said.reshape(len(y), -1).any(dim=1)


def _row(name: str, precision: float, recall: float, f1: float, count: int) -> dict[str, Any]:
    scores = {"precision": precision, "recall": recall, "f1": f1}
    told = {key: None if math.isnan(each) else float(each) for key, each in scores.items()}
    return {"class": name, **told, "count": int(count)}
