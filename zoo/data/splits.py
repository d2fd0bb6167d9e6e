"""Train, validation and test splits of nodes: by name, from a private seed, with a hash.

`{name: ratio, train: 48, val: 32, test: 20}` draws shares of the nodes; published splits have
words, such as `ratio-60-20-20`; `SPLITS` has all of them. The seed of the run draws the nodes; a
`seed` in the mapping pins the draw for all runs. Global random generators are neither used nor
changed.
"""

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from zoo.config.metadata import path_name
from zoo.config.options import (
    MOST,
    Count,
    Number,
    Seed,
    Spec,
    Table,
    Within,
    pick,
    problems,
    resolved,
)
from zoo.config.recipe import word
from zoo.config.scores import MSE
from zoo.data.files.graph_arrays import PARTS
from zoo.data.files.text_lines import sentences_of
from zoo.data.known_nodes import LEFT_OUT, NODES, UNLABELLED, read_known_or_none
from zoo.errors import Problem, ZooError, suggestion
from zoo.system.files import user_path
from zoo.tasks.labels import ACCURACY, BLEU, empty_parts
from zoo.tasks.task import Task

Percent = Annotated[float, Field(gt=0, lt=100)]
Folds = Annotated[int, Within("at least 2", ge=2, le=MOST)]
Masks = Mapping[str, Tensor] | None
Indices = dict[str, np.ndarray]  # of the nodes of each part

ROUNDING = 1e-6
"""Shares are rounded down, but not past a whole number that floats have missed."""

SHARES = ("ratio", "time", "stratified", "group")
"""Words whose options are shares in percent."""


class SplitInputs(NamedTuple):
    """What nodes are split by.

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


def benchmark(data: SplitInputs, *, index: Number | None = None) -> Indices:
    """Take one of the splits that the benchmark has fixed.

    Args:
        index: which, from 0; left out it is the seed of the run, modulo how many there are.

    Raises:
        ZooError: the graph has none, or not as many.
    """
    masks = data.masks
    if masks is None:
        raise ZooError(
            "split benchmark: this graph has no splits of its own; write split: ratio-60-20-20."
        )
    count = len(masks["train"])
    chosen = data.seed % count if index is None else index
    if chosen >= count:
        raise ZooError(
            f"split benchmark: there is no index {index}; the graph has splits 0 to {count - 1}."
        )
    nodes = labelled_nodes(data.y)
    return {part: nodes[masks[part][chosen].numpy()[nodes]] for part in PARTS}


def per_class(
    data: SplitInputs,
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
    y = data.y
    _need_classes(y, "per-class")
    nodes = labelled_nodes(y)
    classes, members = np.unique(y[nodes], return_counts=True)
    if members.min() < train:
        raise ZooError(
            f"split per-class: class {classes[members.argmin()]} has {members.min()} labelled "
            f"nodes and {train} are asked for; write a smaller number, such as {{name: per-class, "
            f"train: {max(1, members.min() // 2)}}}, or split: ratio-60-20-20."
        )
    generator = torch.Generator().manual_seed(data.seed if seed is None else seed)

    def shuffled(nodes: np.ndarray) -> np.ndarray:
        return nodes[torch.randperm(len(nodes), generator=generator).numpy()]

    groups = [shuffled(nodes[y[nodes] == label]) for label in classes]
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
    data: SplitInputs,
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
    order = _shuffle(labelled_nodes(data.y), data.seed if seed is None else seed)
    return _take_shares(order, train, val, test)


def by_time(
    data: SplitInputs,
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
    order = labelled_nodes(data.y)
    if data.times is not None:
        times = data.times[order]
        if np.isnan(times).any():
            raise ZooError(
                f"split time: {np.isnan(times).sum():,} nodes with a label have no time, the first "
                f"of them node {order[np.isnan(times).argmax()]}; fill it in, or leave the "
                "labels out."
            )
        order = order[np.argsort(times, kind="stable")]
    parts = _take_shares(order, train, val, test)
    return {
        part: nodes[: max(0, len(nodes) - gap * (part != "test"))] for part, nodes in parts.items()
    }


def stratified(
    data: SplitInputs,
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
    _need_classes(data.y, "stratified")
    order = _shuffle(labelled_nodes(data.y), data.seed if seed is None else seed)
    classes, first = np.unique(data.y[order], return_index=True)
    # In the order drawn: of classes with the same remainder, the seed says which come first.
    members = [order[data.y[order] == label] for label in classes[np.argsort(first)]]
    ends = _share_out(np.array([len(nodes) for nodes in members]), (train, val, test)).cumsum(
        axis=0
    )
    cuts = [np.split(own, own_ends) for own, own_ends in zip(members, ends.T, strict=True)]
    return {part: np.concatenate([cut[at] for cut in cuts]) for at, part in enumerate(PARTS)}


def _share_out(sizes: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Return how many of each of C classes are of each of P parts, (P, C), for sizes (C,).

    Part after part takes its share of what is left, as scikit-learn's `train_test_split` does
    when it is called twice: rounded down in all, and in each class, and what is missing then comes
    from the classes with the largest remainders.

    >>> _share_out(np.array([8, 8, 8]), (60, 20, 20)).tolist()
    [[5, 5, 4], [2, 1, 2], [1, 2, 2]]
    """
    left, percent, counts = sizes.copy(), 100.0, []
    for share in shares:
        wanted = left * min(share / percent, 1)
        own = (wanted + ROUNDING).astype(np.int64)
        missing = int(wanted.sum() + ROUNDING) - own.sum()
        own[np.argsort(np.round(own - wanted, 6), kind="stable")[:missing]] += 1
        left, percent = left - own, percent - share
        counts.append(own)
    return np.stack(counts)


def folds(data: SplitInputs, *, count: Folds = 5, seed: Seed = 0) -> Indices:
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
    nodes = labelled_nodes(data.y)
    if len(nodes) < count:
        raise ZooError(
            f"split folds: {count} folds are asked for, and {len(nodes):,} have a label; write at "
            f"most {{name: folds, count: {len(nodes)}}}, or label more."
        )
    order = _shuffle(nodes, seed)
    if has_classes(data.y):
        order = order[np.argsort(data.y[order], kind="stable")]
    fold = (np.arange(len(order)) - data.seed % count) % count
    test, val, rest = order[fold == 0], order[fold == 1], order[fold > 1]
    if count == 2:
        rest, val = val[::2], val[1::2]
    return {"train": rest, "val": val, "test": test}


def by_group(
    data: SplitInputs,
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
    nodes = labelled_nodes(data.y)
    if data.groups is None:
        raise ZooError(
            "split group: nothing says which group a node is of; name the column of the table that "
            "does, `dataset.group_column: COLUMN`."
        )
    names, of_node, sizes = np.unique(data.groups[nodes], return_inverse=True, return_counts=True)
    if "" in names:
        raise ZooError(f"split group: {sizes[0]:,} nodes with a label are of no group; fill it in.")
    if len(names) < len(PARTS):
        raise ZooError(f"split group: there are {len(names)} groups, and 3 parts need one each.")
    order = _shuffle(np.arange(len(names)), data.seed if seed is None else seed)
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


def by_ids(data: SplitInputs, *, train: str, val: str, test: str) -> Indices:
    """Take the nodes whose ids are in three files, one id a line.

    Args:
        train: file of the ids for training; without ids of its own, a node is its number from 0.
        val: file of those for validation.
        test: file of those for test.

    Raises:
        ZooError: a file cannot be read, or has an id that no node has.
    """
    ids = np.arange(len(data.y)) if data.ids is None else data.ids
    places = {str(id): place for place, id in enumerate(ids.tolist())}
    parts = {}
    for part, file in (("train", train), ("val", val), ("test", test)):
        wanted = [line for line in sentences_of(user_path(file)) if line]
        unknown = [id for id in wanted if id not in places]
        if unknown:
            raise ZooError(
                f"split ids: {file} has {unknown[0]!r}, and no node has this id ({len(unknown):,} "
                f"such lines); {suggestion(unknown[0], places)}"
            )
        parts[part] = np.intersect1d([places[id] for id in wanted], labelled_nodes(data.y))
    return parts


def has_classes(y: np.ndarray) -> bool:
    """Return whether labels are a class each, and neither numbers nor many targets."""
    return y.ndim == 1 and y.dtype.kind != "f"


def _need_classes(y: np.ndarray, name: str) -> None:
    if not has_classes(y):
        raise ZooError(
            f"split {name}: a node has no class here but targets or a number; write split: "
            "ratio-60-20-20."
        )


def _shuffle(nodes: np.ndarray, seed: int) -> np.ndarray:
    # The word keeps this stream apart from those of the same seed elsewhere: a random graph whose
    # classes come from a permutation would else be split along its classes.
    return np.random.default_rng([int.from_bytes(b"split"), seed]).permutation(nodes)


def _take_shares(order: np.ndarray, train: float, val: float, test: float) -> Indices:
    """Cut an order into shares in percent."""
    shares = train, val, train + val + test
    a, b, end = (int(share / 100 * len(order) + ROUNDING) for share in shares)
    return {"train": order[:a], "val": order[a : a + b], "test": order[a + b : end]}


def labelled_nodes(y: np.ndarray) -> np.ndarray:
    """Return the nodes of which a label is data."""
    known = ~np.isnan(y) if y.dtype.kind == "f" else y >= 0
    return np.flatnonzero(known if y.ndim == 1 else known.any(axis=1))


FOLDS = r"folds-([2-9]|[1-9]\d{1,8})"
"""The words of as many folds."""

_OTHER_NUMBERS = (
    "Other numbers are options: {name: ratio, train: 48, val: 32, test: 20}; cross-validation is "
    "`folds-5`."
)


def _fixed(split: Callable, summary: str, **options: float | None) -> Callable[..., Indices]:
    """Return a split with these options fixed, as an entry of the table: they are none of it."""

    @functools.wraps(split)
    def fixed(data: SplitInputs, **others: Any) -> Indices:
        return split(data, **options, **others)

    signature, doc = inspect.signature(split), inspect.getdoc(split) or ""
    left = [option for name, option in signature.parameters.items() if name not in options]
    fixed.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    lines = doc.partition("Args:\n")[2].splitlines()
    lines = [line for line in lines if line.strip().partition(":")[0] not in options]
    fixed.__doc__ = "\n".join([summary, "", "Args:", *lines])
    return fixed


def _fixed_shares(name: str, split: Callable, *words: str) -> dict[str, Callable[..., Indices]]:
    """Return a split of nodes or times with these shares, `48-32-20`, as entries of the table."""
    summary = (split.__doc__ or "").partition(", in percent")[0]
    return {
        f"{name}-{word}": _fixed(
            split,
            f"{summary}: {word} percent.",
            **dict(zip(PARTS, map(int, word.split("-")), strict=True)),
        )
        for word in words
    }


def _fixed_per_class(count: int) -> Callable[..., Indices]:
    summary = (
        f"Draw {count} training nodes from every class, 1,000 for validation; test: the others."
    )
    return _fixed(per_class, summary, train=count, val=1000, test=None)


KEPT = "kept"
"""The split in which nodes keep their parts."""


def kept(
    data: SplitInputs, *, run: str, new: "Annotated[Spec, SPLITS]" = "ratio-60-20-20"
) -> Indices:
    """Leave nodes that a run had in their parts, and deal the new ones: for a graph that grows.

    Nodes are known by their ids; those without ids by their numbers. One that had no label then is
    new; one that had one and was in no part stays in none.

    Args:
        run: the folder of a seed of the run, `runs/NAME/seed-0`.
        new: the split of nodes that are new; of fewer than it needs `ratio-60-20-20`.

    Raises:
        ZooError: the folder does not say which nodes the run had, or they have no ids here.
    """
    before = parts_of_run(run, data.ids, data.kinds, len(data.y))
    nodes = labelled_nodes(data.y)
    fresh = nodes[before[nodes] == UNLABELLED]
    if word(new) == "group" and data.groups is not None:  # which stay whole
        of_group = {group: part for group, part in zip(data.groups, before.tolist(), strict=True)
                    if group and part < len(PARTS)}  # fmt: skip
        before[fresh] = [of_group.get(group, UNLABELLED) for group in data.groups[fresh]]
        fresh = nodes[before[nodes] == UNLABELLED]
    dealt: Indices = dict.fromkeys(PARTS, fresh[:0])
    if len(fresh):
        y = np.full_like(data.y, np.nan if data.y.dtype.kind == "f" else -1)
        y[fresh] = data.y[fresh]
        try:
            dealt = pick(SPLITS, new, data._replace(y=y))
        except ZooError:
            if word(new) == "group" and len({*data.groups[fresh]}) < len(PARTS):
                dealt = {**dealt, "train": fresh}
            elif len(fresh) > _FEW:
                raise
            else:
                dealt = ratio(data._replace(y=y))
    return {
        part: np.concatenate([nodes[before[nodes] == number], dealt[part]])
        for number, part in enumerate(PARTS)
    }


def parts_of_run(
    run: str, ids: np.ndarray | None, kinds: np.ndarray | None, nodes: int
) -> np.ndarray:
    """Return the part (N,) that each node was in, as `zoo.data.known_nodes` numbers parts.

    Args:
        run: the folder of a seed of the run.
        ids: (N,) what the nodes are called; None: by their numbers.
        kinds: (N,) text, the kind of each node; None: all are of one.
        nodes: N.

    Raises:
        ZooError: as `kept`.
    """
    folder = user_path(run)
    if (folder / NODES).is_file():
        seeds = " or ".join(sorted(path.name for path in folder.glob("seed-*")))
        raise ZooError(f"split kept: {run} is a run; write which seed of it: {run}/{seeds}.")
    known = read_known_or_none(folder)
    if known is None:
        raise ZooError(
            f"split kept: there is no {folder.parent / NODES} that says which nodes {run} had; "
            "write `run: RUN/seed-0`, the folder of a seed of a run on a graph of your own, or "
            "another split."
        )
    places = known.places(ids, kinds, nodes)
    if places is None or known.parts is None:
        missing = "the parts of nodes" if known.parts is None else "ids, on both sides or on none,"
        raise ZooError(f"split kept: {run} and these data need {missing}; write another split.")
    return np.where(places >= 0, known.parts[places], UNLABELLED)


def log_kept_nodes(split: Spec, data: Any) -> None:
    """Say how many nodes keep the part that they had in a run, and how many are dealt."""
    if word(split) != KEPT:
        return
    parts = parts_of_run(split["run"], data.ids, getattr(data, "kinds", None), len(data.y))
    parts = parts[labelled_nodes(data.y.numpy())]
    kept, out, new = (int(chosen.sum()) for chosen in
                      (parts < len(PARTS), parts == LEFT_OUT, parts == UNLABELLED))  # fmt: skip
    by_rows = ", by their rows" if data.ids is None else ""
    left_out = f", {out:,} are in none, as there" if out else ""
    logging.getLogger(__name__).warning(
        f"{kept:,} {data.unit} keep their part of {path_name(split['run'])}{by_rows}{left_out}, "
        f"{new:,} new {'one is' if new == 1 else 'ones are'} dealt."
    )


_FEW = 20
"""New nodes up to which a split may need more than there are."""


@functools.cache
def _in_folds(count: int) -> Callable[..., Indices]:
    first = (folds.__doc__ or "").partition("\n")[0]
    return _fixed(folds, first.replace("into folds", f"into {count} folds"), count=count)


class Splits(Table):
    """The table of splits, which has a word for any number of folds, `folds-7`."""

    def __contains__(self, word: object) -> bool:
        """Return whether a word is that of a split."""
        return super().__contains__(word) or (
            isinstance(word, str) and re.fullmatch(FOLDS, word) is not None
        )

    def __missing__(self, word: str) -> Callable[..., Indices]:
        """Return the split of a word that stands for a number of folds."""
        if match := re.fullmatch(FOLDS, word):
            return _in_folds(int(match[1]))
        raise KeyError(word)


_PLANETOID = "Draw 20 training nodes from every class, as Planetoid (arXiv 1603.08861) does."

SPLITS = Splits(
    "split",
    {
        "benchmark": benchmark,
        "folds": folds,
        **{f"folds-{count}": _in_folds(count) for count in (5, 10)},
        "group": by_group,
        "ids": by_ids,
        KEPT: kept,
        "per-class": per_class,
        "per-class-20": _fixed(per_class, _PLANETOID, train=20),
        **{f"per-class-{count}": _fixed_per_class(count) for count in (10, 50, 100, 200, 400)},
        "ratio": ratio,
        **_fixed_shares("ratio", ratio, "48-32-20", "50-25-25", "60-20-20", "70-10-20", "80-10-10"),
        "stratified": stratified,
        "time": by_time,
        **_fixed_shares("time", by_time, "20-20-60", "70-10-20"),
    },
)
"""Word to function `(inputs, *, options) -> indices of each part`."""

TIME_SPLITS = tuple(word for word in SPLITS if word.startswith("time"))
"""Those in the order of times, which alone keep the future out of training."""


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint, ascending int64 indices of nodes, and the SHA-256 of their numbers."""

    train: Tensor
    val: Tensor
    test: Tensor
    sha256: str


def make_split(
    spec: Spec,
    y: Tensor,
    masks: Masks,
    *,
    seed: int,
    overlap: int = 0,
    times: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    ids: np.ndarray | None = None,
    kinds: np.ndarray | None = None,
    unit: str = "nodes",
) -> Split:
    """Split the labelled nodes of a graph into training, validation and test.

    Args:
        spec: a word of `SPLITS`, or a mapping of name and options.
        y: classes (N,), -1 = unknown, or numbers (N,) or targets (N, T), NaN = unknown; nodes of
            which nothing is known are left out.
        masks: the benchmark's own splits, `train`, `val` and `test` (S, N) bool, or None.
        seed: of the run; it draws the nodes, or chooses one of the benchmark's splits.
        overlap: samples after one with targets of it: as many are left out between parts.
        times: (N,) of the nodes, NaN where undata.
        groups: (N,) what group each node is of, "" where it is of none.
        ids: (N,) what each node is called.
        kinds: (N,) text, the kind of each node; None: all are of one.
        unit: what is split, in words.

    Raises:
        ZooError: the spec is wrong, or the graph has too few labelled nodes for it.
    """
    wrong = split_problems(spec, ())
    if wrong:
        raise ZooError(f"split {spec!r}: " + " ".join(problem.message for problem in wrong))
    inputs = SplitInputs(y.cpu().numpy(), masks, seed, times, groups, ids, kinds)
    count = len(labelled_nodes(inputs.y))
    if count == 0:
        raise ZooError(
            f"none of the {unit} has a label, so that there is nothing to learn from; label some, "
            "or name what holds the labels (of a table its column: `label: COLUMN`)."
        )
    dealt = pick(SPLITS, spec, inputs)
    parts = {part: np.sort(dealt[part]).astype(np.int64) for part in PARTS}
    for part, later in (("train", "val"), ("val", "test")) if overlap else ():
        parts[part] = parts[part][parts[part] < parts[later].min(initial=len(y)) - overlap]
    nodes, counts = np.unique(np.concatenate(list(parts.values())), return_counts=True)
    if len(twice := nodes[counts > 1]):
        first = twice[0] if ids is None else ids[twice[0]]
        raise ZooError(
            f"split {spec!r} has {len(twice):,} {unit} in more than one part, such as {first}; "
            "leave each in one."
        )
    for part, nodes in parts.items():
        if len(nodes) == 0:
            raise ZooError(
                f"split {spec!r} leaves none of the {count:,} labelled {unit} for {part}. Choose "
                "other numbers."
            )
    return Split(**{part: torch.from_numpy(parts[part]) for part in PARTS}, sha256=_hash(parts))


def split_of(data: Any, spec: Spec, seed: int) -> Split:
    """Return the split of a data set; raise ZooError where it is none for data of its kind."""
    name = word(spec)
    has_times = data.splits or data.times is not None
    words = data.splits or [word for word in SPLITS if has_times or word not in TIME_SPLITS]
    if name in SPLITS and name not in words and (data.splits or name in TIME_SPLITS):
        fix = f"leave `split: {name}` out, or choose from {', '.join(words)}."
        if data.splits is None:
            fix = f"name a table's column of times, `dataset.time_column: COLUMN`, or {fix}"
        raise ZooError(f"split {name} is none of {data.unit}, which {data.name} is of; {fix}")
    if data.unit == "snapshots":
        data.need_samples()
    masks = data.masks
    if name == "benchmark":
        check_own_split(data)
        masks = masks or (data.published and data.published())
    return make_split(
        spec, data.y, masks, seed=seed, overlap=data.overlap, times=data.times,
        groups=data.groups, ids=data.ids, kinds=getattr(data, "kinds", None), unit=data.unit,
    )  # fmt: skip


def check_own_split(data: Any) -> None:
    """Refuse a split that comes with a data set, and leaves a part of it empty."""
    if empty := empty_parts(data.masks):
        raise ZooError(
            f"the split that comes with {data.name} marks none of the {data.unit} as {empty[0]}; "
            "mark some, or leave it out (the column `split`, or what `split_column` names), and "
            "they are dealt at random (split: ratio-60-20-20)."
        )


def check_parts(task: Task, data: Any, splits: Mapping[int, Split]) -> None:
    """Refuse a part without a score before anything is trained; warn of classes not to be learnt.

    Args:
        task: what is trained.
        data: the data set.
        splits: of each seed.

    Raises:
        ZooError: the metric does not exist for a part, such as ROC-AUC of nodes of one class.
    """
    for seed, split in splits.items():
        labels = {part: data.y[getattr(split, part)] for part in PARTS}
        check_scores(task, labels, data.classes, f"with seed {seed}, ")
    for seed, split in splits.items():
        if unseen := _unseen_classes(task, data, split):
            names = [str((data.labels or range(data.classes))[label]) for label in unseen]
            logging.getLogger(__name__).warning(
                f"with seed {seed}, no label of training is of {', '.join(names[:5])}, which "
                "validation or test ask for: nothing can learn that."
            )
            return


def constant_answer(task: Task, data: Any, split: Split, scores: Mapping[str, float]) -> str | None:
    """Return the class that answered for every row would score the same in each part, or None.

    Args:
        task: what was trained; of others than classes None is returned.
        data: the data set.
        split: of its rows.
        scores: what its metric says of each part.
    """
    if task.kind not in ("classes", "binary"):
        return None
    for label in range(data.classes):
        logits = 20 * torch.eye(data.classes)[label]

        def score(part: str, logits: Tensor = logits) -> float:
            y = data.y[getattr(split, part)]
            return task.metric(logits.expand(len(y), -1), y)

        with contextlib.suppress(ZooError):  # of a part of one class
            if all(abs(score(part) - scores[part]) < 1e-9 for part in PARTS):
                return str((data.labels or range(data.classes))[label])
    return None


def check_scores(task: Task, parts: Mapping[str, Tensor], classes: int, where: str = "") -> None:
    """Refuse a part that has no score.

    Args:
        task: what is scored.
        parts: the labels of each part.
        classes: how many classes, or targets, there are.
        where: what an error begins with.

    Raises:
        ZooError: the metric does not exist for a part, such as ROC-AUC of nodes of one class.
    """
    if task.metric_name in (ACCURACY, BLEU, MSE):  # which need a label, no more
        return
    for part, y in parts.items():
        try:
            width = y[:1].numel() if task.kind == "numbers" else task.outputs(classes)
            task.metric(torch.zeros(len(y), width), y)
        except ZooError as error:
            raise ZooError(f"{where}{part}: {error}") from None


def warn_of_small_classes(data: Any, spec: Spec) -> None:
    """Warn of classes that have fewer members than there are folds."""
    options = resolved(SPLITS, spec)
    if not options["name"].startswith("folds") or not has_classes(data.y.numpy()):
        return
    count = options.get("count") or int(options["name"].removeprefix("folds-"))
    sizes = np.bincount(data.y[data.y >= 0].numpy())
    if few := [label for label in np.flatnonzero(sizes) if sizes[label] < count]:
        names = [str((data.labels or range(len(sizes)))[label]) for label in few[:5]]
        logging.getLogger(__name__).warning(
            f"{', '.join(names)} of {data.name} {'has' if len(few) == 1 else 'have'} fewer "
            f"labelled {data.unit} than there are folds, {count}: some test parts have none."
        )


def _unseen_classes(task: Task, data: Any, split: Split) -> list[int]:
    """Return the classes, or of many targets those, that are labelled outside of training only."""
    if task.kind not in ("classes", "targets"):
        return []
    of_train, of_others = (
        y.isfinite().any(dim=0).nonzero().flatten() if y.ndim == 2 else y[y >= 0].unique()
        for y in (data.y[split.train], data.y[torch.cat([split.val, split.test])])
    )
    return of_others[~torch.isin(of_others, of_train)].tolist()


def split_files(split: object) -> list[Path]:
    """Return the files that a split names: those of `ids`, a part each."""
    by_ids = isinstance(split, Mapping) and split.get("name") == "ids"
    return [user_path(split[part]) for part in PARTS if part in split] if by_ids else []


def split_problems(spec: object, path: tuple[str | int, ...]) -> list[Problem]:
    """Return what is wrong with the word and options of a split, without looking at a graph."""
    wrong = problems(SPLITS, spec, path)
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    if isinstance(name, str) and name not in SPLITS:
        return [Problem(wrong[0].path, f"{wrong[0].message} {_OTHER_NUMBERS}")]
    if wrong:
        return wrong
    options = resolved(SPLITS, spec)
    if options["name"] == KEPT:
        return split_problems(options["new"], (*path, "new"))
    shares = [options[part] for part in PARTS] if options["name"] in SHARES else []
    if sum(shares) <= 100 + ROUNDING:
        return []
    total = f"{' + '.join(f'{share:g}' for share in shares)} = {sum(shares):g}"
    return [Problem(path, f"{total} is more than 100 percent; write smaller shares.")]


def _hash(parts: Indices) -> str:
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update(f"{part} {len(parts[part])} ".encode())
        digest.update(parts[part].astype("<i8").tobytes())
    return digest.hexdigest()
