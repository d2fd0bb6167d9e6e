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
"""The tasks of many graphs, or sequences, with a label each, and their metric."""

NO_NUMBERS_OF_GRAPHS = (
    "Numbers of whole graphs (graph-regression) are not predicted yet: of a set of graphs there is "
    f"`task: {GRAPHS}` alone."
)

NOT_YET = {
    "graph-regression": NO_NUMBERS_OF_GRAPHS,
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
"""Tasks that people ask for where there are none of theirs, to what is said of them."""

FORECASTING = "node-forecasting"
"""The task of graphs in time."""

LINKS = "link-prediction"
"""The task of pairs of nodes, linked or not."""

Labels = Literal["use", "ignore"]
"""The type of an option `labels`."""

_PLAIN_NUMBER = re.compile(r"[+-]?(0|[1-9]\d*)(\.\d*)?")
DOUBTFUL = {"-1", "?", "na", "n/a", "nan", "null", "none", "unknown", "missing"}
"""Words that may be a class, or mean that the label is unknown."""

MOST_CLASSES = 1000  # that a graph with fewer nodes may have, as a piece of a larger one
_DIMENSIONS = {MULTILABEL: (2,), REGRESSION: (1, 2)}
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


def infer_task(labels: np.ndarray) -> str:
    """Return the task that labels are for: one class per node, (N,) or one-hot, or many targets."""
    return MULTILABEL if labels.ndim == 2 and one_hot(labels) is None else CLASSIFICATION


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
        labels: (N,) or (N, T) plain numbers.
        task: what they are for; `node-regression` has to be said, the others follow from them.

    Returns:
        Classes (N,) int64, -1 = unknown; or targets (N, T) fp32, NaN = unknown; or, for
        `node-regression`, numbers (N,) or (N, T) fp32, NaN = unknown.

    Raises:
        ZooError: the labels are no such numbers.
    """
    check_plain("node_labels", labels)
    if labels.ndim not in (1, 2):
        raise ZooError(
            f"`node_labels` has the shape {labels.shape} and should have (N,): a class per node, "
            "or (N, T): targets of 0 and 1."
        )
    if labels.size == 0:
        raise ZooError(
            f"`node_labels` has the shape {labels.shape}: the graph is empty; write a label per "
            "node, -1 where it is unknown."
        )
    if task == REGRESSION:
        return _check_numbers(labels)
    if task == CLASSIFICATION and (classes := one_hot(labels)) is not None:
        labels = classes
    return _check_classes(labels) if labels.ndim == 1 else _check_targets(labels)


def unlabelled(nodes: int, task: str | None = None) -> np.ndarray:
    """Return labels (N,) that are all unknown; of many targets (N, 1)."""
    if task == MULTILABEL:
        return np.full((nodes, 1), np.nan, np.float32)
    return np.full(nodes, np.nan, np.float32) if task == REGRESSION else np.full(nodes, -1)


def unknown_task(task: object) -> str:
    """Return the sentence that answers a task that is none."""
    return NOT_YET.get(str(task)) or unknown("task", task, (*NODE_METRICS, GRAPHS, FORECASTING))


def check_task_of_graphs(task: str | None) -> None:
    """Refuse another task than that of a set of graphs."""
    if task not in (None, GRAPHS, *NODE_METRICS, FORECASTING):
        raise ZooError(unknown_task(task))
    if task not in (None, GRAPHS):
        raise ZooError(f"a set of graphs has the task {GRAPHS}, and {task} is of the nodes of one; "
                       "leave `task` out.")  # fmt: skip


def check_task(labels: np.ndarray, task: str) -> None:
    """Refuse checked labels (N,) or (N, T) that are not those of a task, and unknown tasks."""
    if task == GRAPHS:
        raise ZooError(f"{GRAPHS} is of a set of graphs, and this is one; write a list of graphs, "
                       f"or a task of its nodes: {', '.join(NODE_METRICS)}.")  # fmt: skip
    if task not in NODE_METRICS:
        raise ZooError(unknown_task(task))
    wanted = _DIMENSIONS.get(task, (1,))
    if labels.ndim not in wanted:
        raise ZooError(
            f"`node_labels` has {labels.ndim} dimensions and {task} needs {wanted[0]}; write the "
            f"task {infer_task(labels)}, or labels of shape {_SHAPES[wanted[0]]}."
        )
    if task == BINARY and (labels > 1).any():
        node = first_true(labels > 1)[0]
        raise ZooError(
            f"`node_labels` holds {labels[node]} at node {node} and node-binary knows 0, 1 and -1 "
            "(unknown); renumber the labels, or write the task node-classification."
        )


def encode_text(
    labels: np.ndarray, task: str | None = None
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return labels written as text, blank = unknown, as numbers, and names of classes if any.

    Classes (N,) are numbered in the order of their names, which is that of numbers where all
    names are whole numbers. Numbers, and tables of targets (N, T), have no names; true and false
    are targets of 1 and 0.

    Raises:
        ZooError: something else than a number where the task needs one, fractions where nothing
            says that they are not classes, or two classes that are one but for blanks around the
            name, or for how a number is written.
    """
    labels = np.where(np.char.strip(labels) == "", "", labels)
    if labels.ndim == 2 and task != REGRESSION:
        words = np.char.strip(np.char.lower(labels))
        labels = np.select([words == "true", words == "false"], ["1", "0"], labels)
    if task == REGRESSION or labels.ndim == 2:
        return _numbers(labels), None
    names = np.unique(labels[labels != ""])
    values = _all_numbers(names)
    if task is None and values is not None and (values != np.floor(values)).any():
        shown = names[values != np.floor(values)][0]
        raise ZooError(
            f"the labels are numbers such as {shown}, and each would be a class of its own; write "
            "`task: node-regression`, or `task: node-classification` if they are classes."
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


def _numbers(labels: np.ndarray) -> np.ndarray:
    filled = np.where(labels == "", "nan", labels)
    try:
        return filled.astype(np.float64)
    except ValueError:
        wrong = next(text for text in filled.ravel() if _all_numbers(np.array([text])) is None)
        raise ZooError(
            f"the label {str(wrong)!r} is no number; write numbers, nothing where it is unknown, "
            "or one column of classes with `task: node-classification`."
        ) from None


def _all_numbers(names: np.ndarray) -> np.ndarray | None:
    try:
        values = names.astype(np.float64)
    except ValueError:
        return None
    return values if np.isfinite(values).all() else None


def _check_classes(labels: np.ndarray) -> np.ndarray:
    if labels.dtype.kind not in "iu":
        fix = (
            "write labels.astype('int64'), of a tensor labels.long(), after filling NaN with -1, "
            "or `task: node-regression` if they are numbers to predict."
        )
        if labels.dtype.kind == "f" and (fractions := labels[labels % 1 > 0]).size:
            fix = f"some are fractions, such as {fractions[0]:g}: write `task: node-regression`."
        raise ZooError(
            f"`node_labels` is of type {labels.dtype} and should be int64: classes 0, 1, 2, ... "
            f"and -1 where unknown; {fix}"
        )
    most = max(len(labels), MOST_CLASSES)
    wrong = (labels < -1) | (labels >= most)
    if wrong.any():
        node = first_true(wrong)[0]
        raise ZooError(
            f"`node_labels` holds {labels[node]} at node {node}; number the classes 0, 1, 2, ... "
            "and write -1 where the label is unknown."
        )
    return labels.astype(np.int64, copy=False)


def _check_targets(labels: np.ndarray) -> np.ndarray:
    labels = labels.astype(np.float32, copy=False)
    wrong = ~np.isnan(labels) & (labels != 0) & (labels != 1)
    if wrong.any():
        node, target = first_true(wrong)
        raise ZooError(
            f"`node_labels` holds {labels[node, target]:g} at node {node}, target {target}; write "
            "0 or 1, NaN where it is unknown, labels of shape (N,) for one class per node, or "
            "`task: node-regression` for numbers."
        )
    return labels


def _check_numbers(labels: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # what overflows becomes infinite and is found below
        labels = labels.astype(np.float32, copy=False)
    if np.isinf(labels).any():
        node = first_true(np.isinf(labels))[0]
        raise ZooError(
            f"`node_labels` is infinite, or too large for float32, at node {node}; write NaN where "
            "a number is unknown, and numbers below 1e38."
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
