"""The words of splits: shares, folds, nodes of each class, times, groups, and lists of ids."""

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from zoo.config.options import MOST, Count, Number, Seed, Within
from zoo.datasets.files.graph_arrays import PARTS
from zoo.datasets.files.text_lines import sentences_of
from zoo.errors import ZooError, suggestion
from zoo.system.files import user_path

Percent = Annotated[float, Field(gt=0, lt=100)]
Folds = Annotated[int, Within("at least 2", ge=2, le=MOST)]
Masks = Mapping[str, Tensor] | None
Indices = dict[str, np.ndarray]  # of the nodes of each part

ROUNDING = 1e-6
"""Shares are rounded down, but not past a whole number that floats have missed."""

SHARES = ("ratio", "time", "stratified", "group")
"""Words whose options are shares in percent."""


class Known(NamedTuple):
    """What nodes are divided by.

    Attributes:
        y: labels, (N,) or (N, T).
        masks: the benchmark's own splits, (S, N) bool each, or None.
        seed: of the run.
        times: (N,), NaN where unknown; None: rows are in the order of times, or have none.
        groups: (N,) text, "" where a node is of none; None where there are none.
        ids: (N,) what nodes are called; None: by their numbers.
        kinds: (N,) text, the kind of each node; None: all are of one.
    """

    y: np.ndarray
    masks: Masks
    seed: int
    times: np.ndarray | None = None
    groups: np.ndarray | None = None
    ids: np.ndarray | None = None
    kinds: np.ndarray | None = None


def benchmark(known: Known, *, index: Number | None = None) -> Indices:
    """Take one of the splits that the benchmark has fixed.

    Args:
        index: which, from 0; left out it is the seed of the run, modulo how many there are.

    Raises:
        ZooError: the graph has none, or not as many.
    """
    masks = known.masks
    if masks is None:
        raise ZooError(
            "split benchmark: this graph has no splits of its own; write split: ratio-60-20-20."
        )
    count = len(masks["train"])
    chosen = known.seed % count if index is None else index
    if chosen >= count:
        raise ZooError(
            f"split benchmark: there is no index {index}; the graph has splits 0 to {count - 1}."
        )
    nodes = labelled(known.y)
    return {part: nodes[masks[part][chosen].numpy()[nodes]] for part in PARTS}


def per_class(
    known: Known,
    *,
    train: Count = 20,
    val: Count = 500,
    test: Count | None = 1000,
    seed: Seed | None = None,
) -> Indices:
    """Draw as many training nodes from every class; validation and test from all the others.

    The draw is that of the programs of SGFormer, NodeFormer and DIFFormer, which use one split for
    all runs: `seed: 123` gives the very nodes of their published numbers on Cora and CiteSeer.

    Args:
        train: training nodes of each class.
        val: validation nodes.
        test: test nodes; null for all the others.
        seed: pins the draw for all runs.

    Raises:
        ZooError: a class, or the graph, has too few labelled nodes.
    """
    y = known.y
    _need_classes(y, "per-class")
    nodes = labelled(y)
    classes, members = np.unique(y[nodes], return_counts=True)
    if members.min() < train:
        raise ZooError(
            f"split per-class: class {classes[members.argmin()]} has {members.min()} labelled "
            f"nodes and {train} are asked for; write a smaller number, such as {{name: per-class, "
            f"train: {max(1, members.min() // 2)}}}, or split: ratio-60-20-20."
        )
    generator = torch.Generator().manual_seed(known.seed if seed is None else seed)

    def shuffled(nodes: np.ndarray) -> np.ndarray:
        return nodes[torch.randperm(len(nodes), generator=generator).numpy()]

    groups = [shuffled(nodes[y[nodes] == each]) for each in classes]
    chosen = np.concatenate([group[:train] for group in groups])
    rest = shuffled(np.concatenate([group[train:] for group in groups]))
    if len(rest) < val + (test or 1):
        raise ZooError(
            f"split per-class: {val} validation and {test or 'all other'} test nodes are asked "
            f"for, and {len(rest)} labelled nodes are left beside {len(chosen)} for training; "
            f"write {{name: per-class, train: {train}, val: {len(rest) // 3}, test: "
            f"{len(rest) - len(rest) // 3}}}, or split: ratio-60-20-20."
        )
    return {"train": chosen, "val": rest[:val], "test": rest[val:][:test]}


def ratio(
    known: Known,
    *,
    train: Percent = 60,
    val: Percent = 20,
    test: Percent = 20,
    seed: Seed | None = None,
) -> Indices:
    """Draw shares of all labelled nodes, in percent; below 100 in sum the rest is not used.

    Args:
        train: share for training.
        val: share for validation.
        test: share for test; in sum with the others 100, it also has what rounding leaves over.
        seed: pins the draw for all runs.
    """
    order = _shuffled(labelled(known.y), known.seed if seed is None else seed)
    return _cut(order, train, val, test)


def in_time(
    known: Known,
    *,
    train: Percent = 70,
    val: Percent = 10,
    test: Percent = 20,
    gap: Number = 0,
) -> Indices:
    """Cut snapshots or nodes into parts in the order of their times, in percent, training first.

    Args:
        train: share for training.
        val: share for validation.
        test: share for test; in sum with the others 100, it also has what rounding leaves over.
        gap: snapshots left out before validation and test; those with targets of both are.

    Raises:
        ZooError: a node with a label has no time.
    """
    order = labelled(known.y)
    if known.times is not None:
        times = known.times[order]
        if np.isnan(times).any():
            raise ZooError(
                f"split time: {np.isnan(times).sum():,} nodes with a label have no time, the first "
                f"of them node {order[np.isnan(times).argmax()]}; fill it in, or leave the "
                "labels out."
            )
        order = order[np.argsort(times, kind="stable")]
    found = _cut(order, train, val, test)
    return {part: own[: max(0, len(own) - gap * (part != "test"))] for part, own in found.items()}


def stratified(
    known: Known,
    *,
    train: Percent = 60,
    val: Percent = 20,
    test: Percent = 20,
    seed: Seed | None = None,
) -> Indices:
    """Draw shares of the labelled nodes of every class, in percent.

    The parts are as large as those of all nodes together: what a class has over goes where most of
    its share is missing, so that classes of few nodes keep the shares too.

    Args:
        train: share for training.
        val: share for validation.
        test: share for test; in sum with the others 100, it has all that is left.
        seed: pins the draw for all runs.
    """
    _need_classes(known.y, "stratified")
    order = _shuffled(labelled(known.y), known.seed if seed is None else seed)
    classes, first = np.unique(known.y[order], return_index=True)
    # In the order drawn: of classes with the same remainder, the seed says which come first.
    members = [order[known.y[order] == each] for each in classes[np.argsort(first)]]
    ends = _shared(np.array([len(each) for each in members]), (train, val, test)).cumsum(axis=0)
    cuts = [np.split(own, own_ends) for own, own_ends in zip(members, ends.T, strict=True)]
    return {part: np.concatenate([cut[at] for cut in cuts]) for at, part in enumerate(PARTS)}


def _shared(sizes: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Return how many of each of C classes are of each of P parts, (P, C), for sizes (C,).

    Part after part takes its share of what is left, as scikit-learn's `train_test_split` does
    when it is called twice: rounded down in all, and in each class, and what is missing then comes
    from the classes with the largest remainders.

    >>> _shared(np.array([8, 8, 8]), (60, 20, 20)).tolist()
    [[5, 5, 4], [2, 1, 2], [1, 2, 2]]
    """
    left, percent, found = sizes.copy(), 100.0, []
    for share in shares:
        wanted = left * min(share / percent, 1)
        own = (wanted + ROUNDING).astype(np.int64)
        missing = int(wanted.sum() + ROUNDING) - own.sum()
        own[np.argsort(np.round(own - wanted, 6), kind="stable")[:missing]] += 1
        left, percent = left - own, percent - share
        found.append(own)
    return np.stack(found)


def folds(known: Known, *, count: Folds = 5, seed: Seed = 0) -> Indices:
    """Deal all labelled nodes into folds, for cross-validation: run seed s tests on fold s.

    The next fold is for validation, the others are for training; of two folds, half of the other
    one is for each. Each class is dealt evenly, as scikit-learn's `StratifiedKFold` does; numbers
    and targets are dealt at random. The folds are the same for all runs, so that as many seeds as
    there are folds, 0, 1, 2, ..., test every node once.

    Args:
        count: how many folds; seeds beyond it begin again.
        seed: draws the folds.

    Raises:
        ZooError: there are fewer labelled nodes than folds.
    """
    nodes = labelled(known.y)
    if len(nodes) < count:
        raise ZooError(
            f"split folds: {count} folds are asked for, and {len(nodes):,} have a label; write at "
            f"most {{name: folds, count: {len(nodes)}}}, or label more."
        )
    order = _shuffled(nodes, seed)
    if has_classes(known.y):
        order = order[np.argsort(known.y[order], kind="stable")]
    fold = (np.arange(len(order)) - known.seed % count) % count
    test, val, rest = order[fold == 0], order[fold == 1], order[fold > 1]
    if count == 2:
        rest, val = val[::2], val[1::2]
    return {"train": rest, "val": val, "test": test}


def grouped(
    known: Known,
    *,
    train: Percent = 60,
    val: Percent = 20,
    test: Percent = 20,
    seed: Seed | None = None,
) -> Indices:
    """Draw whole groups of nodes, until the parts have their shares of the nodes, in percent.

    No group is in two parts, so that scores are of groups that training has not seen. One that is
    larger than validation or test should be is for training.

    Args:
        train: share for training.
        val: share for validation.
        test: share for test; in sum with the others 100, it has all other groups.
        seed: pins the draw for all runs.

    Raises:
        ZooError: nothing says the groups, a node with a label has none, or they are too few.
    """
    nodes = labelled(known.y)
    if known.groups is None:
        raise ZooError(
            "split group: nothing says which group a node is of; name the column of the table that "
            "does, `dataset.group_column: COLUMN`."
        )
    names, of_node, sizes = np.unique(known.groups[nodes], return_inverse=True, return_counts=True)
    if "" in names:
        raise ZooError(f"split group: {sizes[0]:,} nodes with a label are of no group; fill it in.")
    if len(names) < len(PARTS):
        raise ZooError(f"split group: there are {len(names)} groups, and 3 parts need one each.")
    order = _shuffled(np.arange(len(names)), known.seed if seed is None else seed)
    large = sizes[order] > min(val, test) / 100 * len(nodes)  # it would be a part of its own
    order = np.concatenate([order[large], order[~large]])
    middle = np.cumsum(sizes[order]) - sizes[order] / 2  # a group is where most of it would be
    ends = np.cumsum([train, val, test]) / 100 * len(nodes) + ROUNDING
    place = np.searchsorted(ends, middle)
    place[[0, 1, 2]] = np.minimum(place[[0, 1, 2]], [0, 1, 2])
    place[-1] = max(place[-1], 2)
    place[-2] = max(place[-2], 1)
    place = np.maximum.accumulate(place)
    if 1 not in place:  # a large group has gone past it
        first = int(np.searchsorted(place, 2))
        place[first if first < len(place) - 1 else first - 1] = 1
    if 2 not in place:  # what no part has begins before it
        place[np.searchsorted(place, 3)] = 2
    part_of = np.empty(len(names), np.int64)
    part_of[order] = place
    return {part: nodes[part_of[of_node] == number] for number, part in enumerate(PARTS)}


def listed(known: Known, *, train: str, val: str, test: str) -> Indices:
    """Take the nodes whose ids are in three files, one id a line.

    Args:
        train: file of the ids for training; without ids of its own, a node is its number from 0.
        val: file of those for validation.
        test: file of those for test.

    Raises:
        ZooError: a file cannot be read, or has an id that no node has.
    """
    ids = np.arange(len(known.y)) if known.ids is None else known.ids
    places = {str(each): place for place, each in enumerate(ids.tolist())}
    found = {}
    for part, file in (("train", train), ("val", val), ("test", test)):
        wanted = [each for each in sentences_of(user_path(file)) if each]
        lost = [each for each in wanted if each not in places]
        if lost:
            raise ZooError(
                f"split ids: {file} has {lost[0]!r}, and no node has this id ({len(lost):,} such "
                f"lines); {suggestion(lost[0], places)}"
            )
        found[part] = np.intersect1d([places[each] for each in wanted], labelled(known.y))
    return found


def has_classes(y: np.ndarray) -> bool:
    """Return whether labels are a class each, and neither numbers nor many targets."""
    return y.ndim == 1 and y.dtype.kind != "f"


def _need_classes(y: np.ndarray, name: str) -> None:
    if not has_classes(y):
        said = f"split {name}: a node has no class here but targets or a number"
        raise ZooError(f"{said}; write split: ratio-60-20-20.")


def _shuffled(nodes: np.ndarray, seed: int) -> np.ndarray:
    # The word keeps this stream apart from those of the same seed elsewhere: a random graph whose
    # classes come from a permutation would else be split along its classes.
    return np.random.default_rng([int.from_bytes(b"split"), seed]).permutation(nodes)


def _cut(order: np.ndarray, train: float, val: float, test: float) -> Indices:
    """Cut an order into shares in percent."""
    shares = train, val, train + val + test
    a, b, end = (int(each / 100 * len(order) + ROUNDING) for each in shares)
    return {"train": order[:a], "val": order[a : a + b], "test": order[a + b : end]}


def labelled(y: np.ndarray) -> np.ndarray:
    """Return the nodes of which a label is known."""
    known = ~np.isnan(y) if y.dtype.kind == "f" else y >= 0
    return np.flatnonzero(known if y.ndim == 1 else known.any(axis=1))
