"""Tasks and their labels, validated and encoded: classes, multi-label targets, or numbers."""

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from zoo.errors import ZooError, unknown

CLASSIFICATION = "node-classification"
BINARY = "node-binary"
MULTILABEL = "node-multilabel"
REGRESSION = "node-regression"

NODE_METRICS = {
    CLASSIFICATION: "accuracy",
    BINARY: "roc-auc",
    MULTILABEL: "roc-auc",
    REGRESSION: "r2",
}
"""Every task of nodes, and the metric that it is measured by, computed by `zoo.tasks.task`."""

TRANSLATION, BLEU = "translation", "bleu"
"""The task of pairs of sentences, and its metric."""

GRAPHS, SEQUENCES, ACCURACY = "graph-classification", "sequence-classification", "accuracy"
"""The tasks of many graphs, or sequences, with a class each, and their metric."""

GRAPH_BINARY = "graph-binary"
GRAPH_MULTILABEL = "graph-multilabel"
GRAPH_REGRESSION = "graph-regression"

GRAPH_METRICS = {
    GRAPHS: ACCURACY,
    GRAPH_BINARY: NODE_METRICS[BINARY],
    GRAPH_MULTILABEL: NODE_METRICS[MULTILABEL],
    GRAPH_REGRESSION: NODE_METRICS[REGRESSION],
}
"""Every task of a set of graphs, and its metric: that of the like task of nodes."""

OF_GRAPHS = (*GRAPH_METRICS, SEQUENCES)
"""The tasks that have an answer for each graph, or sequence, of many."""

TARGETS, NUMBERS = (MULTILABEL, GRAPH_MULTILABEL), (REGRESSION, GRAPH_REGRESSION)
"""The tasks whose labels are targets of yes or no, and those whose labels are numbers."""

ELSEWHERE = {
    "link-prediction": (
        "Links are no labels of nodes: write `task: link-prediction` at the top of the recipe, or "
        "`zoo train gcn dataset=GRAPH task=link-prediction`."
    ),
    **dict.fromkeys(
        ("edge-classification", "edge-regression"),
        "Edges have no labels here: of a graph it is nodes, or whether two are linked, `task: "
        "link-prediction`.",
    ),
}
"""Tasks that people ask for where they do not stand, to what is said of them."""

FORECASTING = "node-forecasting"
"""The task of graphs in time."""

LINKS = "link-prediction"
"""The task of pairs of nodes, linked or not."""

Unit = Literal["node", "graph"]
"""What has a label: a node of one graph, or a graph of many."""

Labels = Literal["use", "ignore"]
"""The type of an option `labels`."""

GraphTask = Literal[tuple(GRAPH_METRICS)]
"""The type of an option `task` of a set of graphs."""

_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?")
DOUBTFUL = {"-1", "?", "na", "n/a", "nan", "null", "none", "unknown", "missing"}
"""Words that may be a class, or mean that the label is unknown."""

MOST_CLASSES = 1000  # that a graph with fewer nodes may have, as a piece of a larger one
_SHAPES = {1: "(N,)", 2: "(N, T)"}


def doubtful(names: Iterable[str]) -> list[str]:
    """Return which names of classes may mean that the label is unknown, -1.0 among them."""
    plain = {name: name.strip().lower().replace(",", ".") for name in names}
    return [name for name, word in plain.items() if word in DOUBTFUL or _number(word) == -1]


def alike(
    names: Iterable[str], form: Callable[[str], Hashable] = str.strip
) -> tuple[str, str] | None:
    """Return the first two of different names that are of one form, by default but for blanks.

    >>> alike(["a", "b", "a "])
    ('a', 'a ')
    """
    first: dict[Hashable, str] = {}
    pairs = ((first.setdefault(form(name), name), name) for name in names)
    return next(((one, name) for one, name in pairs if one != name), None)


def infer_task(labels: np.ndarray, unit: Unit = "node") -> str:
    """Return the task that labels are for: one class each, (N,) or one-hot, or many targets."""
    several = labels.ndim == 2 and one_hot(labels) is None
    return f"{unit}-multilabel" if several else f"{unit}-classification"


def unit_of(task: str | None) -> Unit:
    """Return what a task has labels of: `graph` of the tasks of a set of graphs, else `node`."""
    return "graph" if task in GRAPH_METRICS else "node"


def one_hot(labels: np.ndarray) -> np.ndarray | None:
    """Return the classes (N,) of which labels (N, C) are one-hot rows, -1 where a row is all NaN.

    None where they are not: a row has no 1 or several, or a class has no row.
    """
    if labels.ndim != 2 or labels.shape[1] < 2 or labels.dtype.kind not in "iufb":
        return None
    known = ~np.isnan(labels.astype(np.float32, copy=False)).all(axis=1)
    rows = labels[known]
    once = ((rows == 0) | (rows == 1)).all(axis=1) & ((rows == 1).sum(axis=1) == 1)
    if not len(rows) or not once.all() or not (rows == 1).any(axis=0).all():
        return None
    return np.where(known, (labels == 1).argmax(axis=1), -1)


def check_labels(labels: np.ndarray, task: str | None = None) -> np.ndarray:
    """Return labels in the type of their task.

    Args:
        labels: (N,) or (N, T) plain numbers, of nodes or, where the task says so, of graphs.
        task: what they are for; that of numbers has to be said, the others follow from them.

    Returns:
        Classes (N,) int64, -1 = unknown; or targets (N, T) fp32, NaN = unknown; or, for
        `node-regression` and `graph-regression`, numbers (N,) or (N, T) fp32, NaN = unknown.

    Raises:
        ZooError: the labels are no such numbers.
    """
    unit = unit_of(task)
    check_plain(f"{unit}_labels", labels)
    if labels.ndim not in (1, 2):
        raise ZooError(
            f"`{unit}_labels` has the shape {labels.shape} and should have (N,): a class per "
            f"{unit}, or (N, T): targets of 0 and 1."
        )
    if labels.size == 0:
        raise ZooError(
            f"`{unit}_labels` has the shape {labels.shape}: it is empty; write a label "
            f"per {unit}, -1 where it is unknown."
        )
    if task in NUMBERS:
        return _check_numbers(labels, unit)
    if task in (CLASSIFICATION, GRAPHS) and (classes := one_hot(labels)) is not None:
        labels = classes
    return _check_classes(labels, unit) if labels.ndim == 1 else _check_targets(labels, unit)


def unlabelled(count: int, task: str | None = None) -> np.ndarray:
    """Return labels (N,) that are all unknown; of many targets (N, 1)."""
    if task in TARGETS:
        return np.full((count, 1), np.nan, np.float32)
    return np.full(count, np.nan, np.float32) if task in NUMBERS else np.full(count, -1)


def unknown_task(task: object) -> str:
    """Return the sentence that answers a task that is none."""
    known = (*NODE_METRICS, *GRAPH_METRICS, FORECASTING)
    return ELSEWHERE.get(str(task)) or unknown("task", task, known)


def check_task_of_graphs(task: str | None) -> None:
    """Refuse another task than those of a set of graphs."""
    if task not in (None, *GRAPH_METRICS, *NODE_METRICS, FORECASTING):
        raise ZooError(unknown_task(task))
    if task not in (None, *GRAPH_METRICS):
        raise ZooError(
            f"a set of graphs has one of the tasks {', '.join(GRAPH_METRICS)}, and {task} is of "
            "the nodes of one; leave `task` out, or write one of these."
        )


def check_task(labels: np.ndarray, task: str) -> None:
    """Refuse checked labels (N,) or (N, T) of nodes that are not those of a task of nodes."""
    if task in GRAPH_METRICS:
        raise ZooError(f"{task} is of a set of graphs, and this is one; write a list of graphs, "
                       f"or a task of its nodes: {', '.join(NODE_METRICS)}.")  # fmt: skip
    if task not in NODE_METRICS:
        raise ZooError(unknown_task(task))
    check_fit(labels, task)


def check_fit(labels: np.ndarray, task: str) -> None:
    """Refuse checked labels (N,) or (N, T) that are not those of a task, of nodes or of graphs."""
    unit = unit_of(task)
    several = (1, 2) if task in NUMBERS else (2,) if task in TARGETS else (1,)
    if labels.ndim not in several:
        raise ZooError(
            f"`{unit}_labels` has {labels.ndim} dimensions and {task} needs {several[0]}; write "
            f"the task {infer_task(labels, unit)}, or labels of shape {_SHAPES[several[0]]}."
        )
    if task in (BINARY, GRAPH_BINARY) and (labels > 1).any():
        row = first_true(labels > 1)[0]
        raise ZooError(
            f"`{unit}_labels` holds {labels[row]} at {unit} {row} and {task} knows 0, 1 and -1 "
            f"(unknown); renumber the labels, or write the task {unit}-classification with "
            f"the data, `dataset.task={unit}-classification`."
        )


def encode_text(
    labels: np.ndarray, task: str | None = None, unit: Unit | None = None
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return labels written as text, blank = unknown, as numbers, and names of classes if any.

    Classes (N,) are numbered in the order of their names, which is that of numbers where all
    names are whole numbers. Numbers, and tables of targets (N, T), have no names; true and false
    are targets of 1 and 0. `unit` is what has them, where no task says so.

    Raises:
        ZooError: something else than a number where the task needs one, fractions where nothing
            says that they are not classes, or two classes that are one but for blanks around the
            name, or for how a number is written.
    """
    labels = np.where(np.char.strip(labels) == "", "", labels)
    if labels.ndim == 2 and task not in NUMBERS:
        words = np.char.strip(np.char.lower(labels))
        labels = np.select([words == "true", words == "false"], ["1", "0"], labels)
    unit = unit or unit_of(task)
    if task in NUMBERS or labels.ndim == 2:
        return _numbers(labels, unit), None
    names = np.unique(labels[labels != ""])
    values = _all_numbers(names)
    if task is None and values is not None and (values != np.floor(values)).any():
        shown = names[values != np.floor(values)][0]
        raise ZooError(
            f"the labels are numbers such as {shown}, and each would be a class of its own; write "
            f"`task: {unit}-regression`, or `task: {unit}-classification` if they are classes."
        )
    if pair := alike(map(str, names), lambda name: _number(name.strip())):
        raise ZooError(
            f"the labels {pair[0]!r} and {pair[1]!r} would be two classes, and differ in blanks or "
            "in how a number is written alone; write each class in one way."
        )
    if values is not None:
        names = names[np.lexsort((names, values))]
    order = np.argsort(names)
    places = order[np.searchsorted(names, labels, sorter=order).clip(max=max(len(names) - 1, 0))] \
        if len(names) else np.zeros(len(labels), np.int64)  # fmt: skip
    return np.where(labels == "", -1, places).astype(np.int64), tuple(map(str, names))


def _numbers(labels: np.ndarray, unit: Unit) -> np.ndarray:
    filled = np.where(labels == "", "nan", labels)
    try:
        return filled.astype(np.float64)
    except ValueError:
        wrong = next(text for text in filled.ravel() if _all_numbers(np.array([text])) is None)
        raise ZooError(
            f"the label {str(wrong)!r} is no number; write numbers, nothing where it is unknown, "
            f"or one column of classes with `task: {unit}-classification`."
        ) from None


def _all_numbers(names: np.ndarray) -> np.ndarray | None:
    try:
        values = names.astype(np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _check_classes(labels: np.ndarray, unit: Unit) -> np.ndarray:
    if labels.dtype.kind not in "iu":
        fix = (
            "write labels.astype('int64'), of a tensor labels.long(), after filling NaN with -1, "
            f"or `task: {unit}-regression` if they are numbers to predict."
        )
        if labels.dtype.kind == "f" and (fractions := labels[labels % 1 > 0]).size:
            fix = f"some are fractions, such as {fractions[0]:g}: write `task: {unit}-regression`."
        raise ZooError(
            f"`{unit}_labels` is of type {labels.dtype} and should be int64: classes 0, 1, 2, ... "
            f"and -1 where unknown; {fix}"
        )
    most = max(len(labels), MOST_CLASSES)
    wrong = (labels < -1) | (labels >= most)
    if wrong.any():
        row = first_true(wrong)[0]
        raise ZooError(
            f"`{unit}_labels` holds {labels[row]} at {unit} {row}; number the classes 0, 1, 2, ... "
            "and write -1 where the label is unknown."
        )
    return labels.astype(np.int64, copy=False)


def _check_targets(labels: np.ndarray, unit: Unit) -> np.ndarray:
    labels = labels.astype(np.float32, copy=False)
    wrong = ~np.isnan(labels) & (labels != 0) & (labels != 1)
    if wrong.any():
        row, target = first_true(wrong)
        raise ZooError(
            f"`{unit}_labels` holds {labels[row, target]:g} at {unit} {row}, target {target}; "
            "write 0 or 1, NaN where it is unknown, labels of shape (N,) for one class per "
            f"{unit}, or `task: {unit}-regression` for numbers."
        )
    return labels


def _check_numbers(labels: np.ndarray, unit: Unit) -> np.ndarray:
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is found below
        labels = labels.astype(np.float32, copy=False)
    if np.isinf(labels).any():
        row = first_true(np.isinf(labels))[0]
        raise ZooError(
            f"`{unit}_labels` is infinite, or too large for float32, at {unit} {row}; write NaN "
            "where a number is unknown, and numbers below 1e38."
        )
    return labels


def first_true(wrong: np.ndarray) -> tuple[int, ...]:
    """Return the index of the first True, as plain numbers."""
    return tuple(map(int, np.unravel_index(wrong.argmax(), wrong.shape)))


def check_plain(key: str, array: np.ndarray) -> None:
    """Refuse what is no plain numpy array of numbers, and say what its key is."""
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "iufb":
        kind = getattr(array, "dtype", type(array).__name__)
        raise ZooError(f"`{key}` is of type {kind}; write a plain numpy array of real numbers.")


def empty_parts(masks: Mapping[str, Any] | None) -> list[str]:
    """Return the empty parts of the one split (1, N) that comes with data; none of several."""
    if not masks or any(mask.ndim != 2 or len(mask) != 1 for mask in masks.values()):
        return []
    return [part for part, mask in masks.items() if not mask.any()]


def classes_of(labels: np.ndarray, names: tuple[str, ...] | None) -> int:
    """Return how many classes, or targets, checked labels (N,) or (N, T) have."""
    if labels.ndim == 2:
        return labels.shape[1]
    if labels.dtype.kind == "f":
        return 1
    return len(names or ()) or int(labels.max()) + 1


def is_word(text: np.ndarray, word: str) -> np.ndarray:
    """Return where a text is a word, or the same number: -1.0 is -1; blanks around do not count."""
    number = _number(word.strip())
    same = [other for other in np.unique(text) if _number(other.strip()) == number]
    return np.isin(text, [*same, word])


def _number(text: str) -> Decimal | str:
    """Return the number that a text is, or the text: 007 is none."""
    return Decimal(text) if _PLAIN_NUMBER.fullmatch(text) else text
