"""The words of splits: shares, nodes of each class, times, groups, and lists of ids."""

from collections.abc import Mapping
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from zoo.config.options import Count, Number, Seed
from zoo.datasets.files.graph_arrays import PARTS
from zoo.datasets.files.text_lines import sentences_of
from zoo.errors import ZooError, suggestion
from zoo.system.files import user_path

Percent = Annotated[float, Field(gt=0, lt=100)]
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
    """

    y: np.ndarray
    masks: Masks
    seed: int
    times: np.ndarray | None = None
    groups: np.ndarray | None = None
    ids: np.ndarray | None = None


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

    Args:
        train: share for training.
        val: share for validation.
        test: share for test; in sum with the others 100, it also has what rounding leaves over.
        seed: pins the draw for all runs.
    """
    _need_classes(known.y, "stratified")
    order = _shuffled(labelled(known.y), known.seed if seed is None else seed)
    own = [
        _cut(order[known.y[order] == each], train, val, test) for each in np.unique(known.y[order])
    ]
    return {part: np.concatenate([each[part] for each in own]) for part in PARTS}


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


def _need_classes(y: np.ndarray, name: str) -> None:
    if y.ndim == 2 or y.dtype.kind == "f":
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
