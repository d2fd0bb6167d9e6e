"""What `zoo data check` says of labels and splits; see `check_in_memory`."""

from collections.abc import Iterator

import numpy as np
import torch
from scipy import sparse

from zoo.datasets import GraphArrays
from zoo.datasets.files.graph_arrays import PARTS, check_masks
from zoo.datasets.files.labels import (
    REGRESSION,
    check_labels,
    check_task,
    classes_of,
    empty_parts,
)
from zoo.datasets.splits import check_scores, make_split
from zoo.datasets.tasks import TASKS
from zoo.errors import Finding, ZooError, refused_by

APART = 100
"""How many times larger numbers are from which they lie apart in scale."""

_DEALT = "ratio-60-20-20"

_BARE = "training needs some in each part: train with another, `split: ratio-60-20-20`"

_ENOUGH = 10
"""Labelled nodes of which each part gets some."""

_LOOKED_AT = 20_000_000
"""Numbers of which each column is looked at."""

_FEW = 5
"""Labelled nodes of a class below which a random split may leave it out of a part."""


def check_balance(arrays: GraphArrays, task: str, unit: str = "nodes") -> list[Finding]:
    """Look at labels that fit their task: how many are known, and of how many each class is."""
    labels, known, some = arrays.labels, _known(arrays.labels), _labelled(arrays.labels)
    values = {"task": task, "labelled": int(some.sum())}
    text = f"{some.sum():,} of {len(labels):,} {unit} ({some.mean():.1%}), {task}"
    if not some.any():
        fix = "enough to predict, not to train: name what holds the labels, `label: COLUMN`"
        return [Finding("labels", "look", f"none known, {task}", fix, values)]
    found = [Finding("labels", "good", text, values=values)]
    if labels.ndim == 2 and not known.any(axis=0).all():
        return [*found, _unknown_targets(arrays, ~known.any(axis=0))]
    if task == REGRESSION:
        return found + _target_spread(labels.reshape(len(labels), -1))
    if labels.ndim == 2:
        shares = np.nanmean(labels, axis=0)
        text = f"{labels.shape[1]} targets, yes in {shares.min():.1%} to {shares.max():.1%}"
        return [*found, Finding("targets", "good", text, values={"yes": shares.tolist()})]
    classes = max(int(labels.max()) + 1, len(arrays.label_names or ()))
    counts = np.bincount(labels[known], minlength=classes)
    names = arrays.label_names or tuple(map(str, range(classes)))
    order = (-counts).argsort(kind="stable")
    text = ", ".join(f"{names[each]} ({counts[each]:,})" for each in order[:8])
    text += "" if classes <= 8 else f", ... {names[order[-1]]} ({counts[order[-1]]:,})"
    values = {name: int(each) for name, each in zip(names, counts, strict=True)}
    if classes == 1:
        fix = f"there is nothing to tell apart: label {unit} of another class"
        return [*found, Finding("classes", "fix", text, fix, values)]
    few = [names[each] for each in order if counts[each] < _FEW]
    rare = ", ".join(few[:5])
    fix = f"fewer than {_FEW} {unit} of {rare}: a split may miss them" if few else ""
    share = counts.max() / counts.sum()
    text = f"{classes}: {text}; always the largest is right for {share:.1%}"
    return [*found, Finding("classes", "look" if few else "good", text, fix, values)]


def check_leaks(arrays: GraphArrays) -> list[Finding]:
    """Name columns of features that alone tell a class from all others, as a copy of it would.

    The numbers of a class lie in an interval without those of others; or its words are its own,
    and few. Classes of fewer than `_ENOUGH` nodes may do so by chance.
    """
    known = arrays.labels >= 0
    classes, counts = np.unique(arrays.labels[known], return_counts=True)
    classes = classes[(counts >= _ENOUGH) & (known.sum() - counts >= _ENOUGH)]
    names = arrays.label_names or range(int(arrays.labels.max(initial=0)) + 1)
    told: dict[str, list[str]] = {}
    for name, values in _columns(arrays):
        values, labels = values[known], arrays.labels[known]
        for each in classes:
            if _tells(values[labels == each], values[labels != each]):
                told.setdefault(name, []).append(str(names[each]))
    if not told:
        return []
    text = "; ".join(f"{name} tells {', '.join(own[:3])}" for name, own in [*told.items()][:5])
    text = f"of {len(told):,} alone: {text}"
    fix = "if they are known after the label only, or made of it, leave them out, `columns: [...]`"
    return [Finding("columns that tell the label", "look", text, fix, told)]


def _columns(arrays: GraphArrays) -> Iterator[tuple[str, np.ndarray]]:
    """Give the columns (N,) of features by name, those of a table as they stand there."""
    for name, values in getattr(arrays.columns, "values", {}).items():
        yield from [(name, values)] if values.ndim == 1 else ()
    x = arrays.features
    if arrays.columns is None and not sparse.issparse(x) and x.size <= _LOOKED_AT:
        names = arrays.feature_names or [f"column {each}" for each in range(x.shape[1])]
        yield from zip(names, x.T, strict=True)


def _tells(own: np.ndarray, others: np.ndarray) -> bool:
    """Return whether values of a class, numbers or words, are never those of others."""
    if own.dtype.kind == "U":
        words = np.unique(own)
        return len(words) <= len(own) / 2 and not np.isin(others, words).any()
    if np.isnan(own).any():
        return False
    return not ((others >= own.min()) & (others <= own.max())).any()


def _known(labels: np.ndarray) -> np.ndarray:
    return ~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0


def _labelled(labels: np.ndarray) -> np.ndarray:
    """Return which rows of labels (N,) or (N, T) say anything."""
    known = _known(labels)
    return known if labels.ndim == 1 else known.any(axis=1)


def _unknown_targets(arrays: GraphArrays, unknown: np.ndarray) -> Finding:
    """Tell of targets that no row knows, which are those where `unknown` (T,) is true."""
    names = arrays.label_names or tuple(map(str, range(len(unknown))))
    told = [names[each] for each in np.flatnonzero(unknown)]
    text = f"of {', '.join(told[:5])} no value is known"
    fix = "there is nothing to learn of it: leave it out of `label`, or fill in what is known"
    return Finding("targets", "fix", text, fix, {"unknown": told})


def _target_spread(targets: np.ndarray) -> list[Finding]:
    mean, std = np.nanmean(targets, axis=0), np.nanstd(targets.astype(np.float64), axis=0)
    text = ", ".join(f"mean {m:.4g} ± {s:.4g}" for m, s in zip(mean[:5], std[:5], strict=True))
    values = {"mean": mean.tolist(), "std": std.tolist()}
    if (std == 0).any():
        fix = "a target is the same for all nodes: there is nothing to learn"
        return [Finding("targets", "fix", text, fix, values)]
    if (std < 1e-5 * abs(mean)).any():
        fix = "they differ beyond the digits of float32: take a number away from all of them"
        return [Finding("targets", "look", text, fix, values)]
    return [Finding("targets", "good", text, values=values)]


def check_splits(arrays: GraphArrays, task: str) -> list[Finding]:
    """Look at the splits that come with the graph: their sizes, and nodes in two parts."""
    if not arrays.masks:
        text = f"none of its own: {_DEALT} deals the labelled nodes at random"
        some = torch.zeros(min(int(_labelled(arrays.labels).sum()), _ENOUGH))
        few = refused_by("split", lambda: make_split(_DEALT, some, None, seed=0))
        return few if len(some) and few else [Finding("split", "good", text)]
    refused = refused_by("split", lambda: check_masks(arrays.masks, len(arrays.labels)))
    if refused:
        return refused
    if empty := empty_parts(arrays.masks):
        text = f"none is marked as {' or '.join(empty)}"
        return [Finding("split", "fix", text, _BARE)]
    known = _labelled(arrays.labels)
    counts = {part: (arrays.masks[part] & (known | ~known.any())).sum(axis=1) for part in PARTS}
    at = int((np.stack(list(counts.values())) == 0).any(axis=0).argmax())  # else the first
    sizes = {part: int(each[at]) for part, each in counts.items()}
    text = ", ".join(f"{part} {size:,}" for part, size in sizes.items())
    text += f", in {len(arrays.masks['train'])} splits" if len(arrays.masks["train"]) > 1 else ""
    values = {**sizes, "splits": len(arrays.masks["train"])}
    if bare := [part for part, size in sizes.items() if size == 0]:
        text = f"none of {' and '.join(bare)} has a label: {text}"
        return [Finding("split", "fix", text, _BARE, values)]
    if bare := _without_score(arrays, task):
        return [bare[0]._replace(found=text, values=values)]
    found = [Finding("split", "good", f"{text}; no node is in two parts", values=values)]
    if arrays.labels.ndim == 1 and task != REGRESSION and arrays.labels.dtype.kind in "iu":
        train = np.unique(arrays.labels[arrays.masks["train"][0]])
        unseen = np.setdiff1d(arrays.labels[arrays.labels >= 0], train)
        if len(unseen):
            named = [str((arrays.label_names or range(max(unseen) + 1))[each]) for each in unseen]
            text = f"training has no node of {', '.join(named[:5])}"
            fix = "nothing can learn such a class: put nodes of it into train"
            found.append(Finding("unseen classes", "fix", text, fix, {"unseen": named}))
    return found


def _without_score(arrays: GraphArrays, task: str) -> list[Finding]:
    """Tell of a part of a split that has no score, such as ROC-AUC of nodes of one class."""
    try:
        labels = check_labels(arrays.labels, task)
        check_task(labels, task)
    except ZooError:  # which is another finding
        return []
    if not _labelled(labels).any():
        return []
    count, classes = len(arrays.masks["train"]), classes_of(labels, arrays.label_names)

    def scored() -> None:
        for each in range(count):
            own = {part: torch.tensor(labels[mask[each]]) for part, mask in arrays.masks.items()}
            check_scores(TASKS[task](), own, classes, f"split {each}, " if count > 1 else "")

    return refused_by("split", scored)
