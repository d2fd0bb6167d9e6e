"""Train, validation and test splits of nodes, drawn from a seed, with a hash of the result.

A recipe names a split of the table `SPLITS`: `{name: ratio, train: 48, val: 32, test: 20}` draws
these percentages of the nodes; published splits have names of their own, such as `ratio-60-20-20`.
The nodes are drawn from the seed of the run; a `seed` in the mapping makes the draw the same for
all runs. Global random generators are neither used nor changed.
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
from typing import Annotated, Any, Literal, NamedTuple

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
from zoo.config.scores import MSE, lower_is_better
from zoo.data.files.graph_arrays import PARTS
from zoo.data.files.text_lines import sentences_of
from zoo.data.known_nodes import LEFT_OUT, NODES, UNLABELLED, read_known_or_none
from zoo.data.tables.smiles import scaffolds
from zoo.errors import Problem, ZooError, suggestion
from zoo.system.files import user_path
from zoo.tasks.labels import ACCURACY, BLEU, empty_parts
from zoo.tasks.task import Task

Percent = Annotated[float, Field(gt=0, lt=100)]
FoldCount = Annotated[int, Within("at least 2", ge=2, le=MOST)]
Masks = Mapping[str, Tensor] | None
Indices = dict[str, np.ndarray]  # part (train, val, test) to the indices of its nodes

SHARE_TOLERANCE = 1e-6
"""Added before a share is rounded down: 29.999999999 is 30 with a floating-point error."""

SHARE_SPLITS = ("ratio", "time", "stratified", "group", "scaffold")
"""The splits whose options `train`, `val` and `test` are percentages."""


class SplitInputs(NamedTuple):
    """The input of every function of `SPLITS`: what a split may depend on.

    Attributes:
        y: labels, (N,) or (N, T).
        masks: S predefined splits of the benchmark, part to mask (S, N) bool; or None.
        seed: seed of the run.
        times: (N,) time of each node, NaN if unknown; None: nodes have no times, or are sorted by
            time already.
        groups: (N,) name of each node's group, "" if it has none; None: there are no groups.
        ids: (N,) id of each node; None: its index is its id.
        kinds: (N,) node type of each node, as text; None: there is one type.
        smiles: of molecules (N,), as text; None of others.
    """

    y: np.ndarray
    masks: Masks
    seed: int
    times: np.ndarray | None = None
    groups: np.ndarray | None = None
    ids: np.ndarray | None = None
    kinds: np.ndarray | None = None
    smiles: tuple[str, ...] | None = None


def benchmark(inputs: SplitInputs, *, index: Number | None = None) -> Indices:
    """Take one of the splits that the benchmark has fixed.

    Args:
        index: which, from 0; left out it is the seed of the run, modulo how many there are.

    Raises:
        ZooError: the graph has none, or not as many.
    """
    masks = inputs.masks
    if masks is None:
        raise ZooError(
            "split benchmark: this graph has no splits of its own; write split: ratio-60-20-20."
        )
    count = len(masks["train"])
    chosen = inputs.seed % count if index is None else index
    if chosen >= count:
        raise ZooError(
            f"split benchmark: there is no index {index}; the graph has splits 0 to {count - 1}."
        )
    nodes = labelled_nodes(inputs.y)
    return {part: nodes[masks[part][chosen].numpy()[nodes]] for part in PARTS}


def per_class(
    inputs: SplitInputs,
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
    y = inputs.y
    _require_classes(y, "per-class")
    nodes = labelled_nodes(y)
    classes, members = np.unique(y[nodes], return_counts=True)
    if members.min() < train:
        raise ZooError(
            f"split per-class: class {classes[members.argmin()]} has {members.min()} labelled "
            f"nodes and {train} are asked for; write a smaller number, such as {{name: per-class, "
            f"train: {max(1, members.min() // 2)}}}, or split: ratio-60-20-20."
        )
    generator = torch.Generator().manual_seed(inputs.seed if seed is None else seed)

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
    inputs: SplitInputs,
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
    order = _shuffle(labelled_nodes(inputs.y), inputs.seed if seed is None else seed)
    return _cut_shares(order, train, val, test)


def by_time(
    inputs: SplitInputs,
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
    order = labelled_nodes(inputs.y)
    if inputs.times is not None:
        times = inputs.times[order]
        if np.isnan(times).any():
            raise ZooError(
                f"split time: {np.isnan(times).sum():,} nodes with a label have no time, the first "
                f"of them node {order[np.isnan(times).argmax()]}; fill it in, or leave the "
                "labels out."
            )
        order = order[np.argsort(times, kind="stable")]
    parts = _cut_shares(order, train, val, test)
    return {
        part: nodes[: max(0, len(nodes) - gap * (part != "test"))] for part, nodes in parts.items()
    }


def stratified(
    inputs: SplitInputs,
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
    _require_classes(inputs.y, "stratified")
    order = _shuffle(labelled_nodes(inputs.y), inputs.seed if seed is None else seed)
    classes, first = np.unique(inputs.y[order], return_index=True)
    # In the order of their first drawn node, so that the seed breaks ties between classes whose
    # remainders are equal.
    members = [order[inputs.y[order] == label] for label in classes[np.argsort(first)]]
    counts = _allocate_shares(np.array([len(nodes) for nodes in members]), (train, val, test))
    ends = counts.cumsum(axis=0)
    pieces = [np.split(nodes, cuts) for nodes, cuts in zip(members, ends.T, strict=True)]
    return {part: np.concatenate([piece[i] for piece in pieces]) for i, part in enumerate(PARTS)}


def _allocate_shares(sizes: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Return how many nodes of each of C classes go to each of P parts, (P, C), for sizes (C,).

    Each part in turn takes its share of the nodes left, as scikit-learn's `train_test_split` does
    when it is called twice. The part's size is rounded down, and so is its number of nodes of each
    class; the difference is made up from the classes with the largest remainders.

    >>> _allocate_shares(np.array([8, 8, 8]), (60, 20, 20)).tolist()
    [[5, 5, 4], [2, 1, 2], [1, 2, 2]]
    """
    left, percent_left, counts = sizes.copy(), 100.0, []
    for share in shares:
        wanted = left * min(share / percent_left, 1)
        taken = (wanted + SHARE_TOLERANCE).astype(np.int64)
        missing = int(wanted.sum() + SHARE_TOLERANCE) - taken.sum()
        taken[np.argsort(np.round(taken - wanted, 6), kind="stable")[:missing]] += 1
        left, percent_left = left - taken, percent_left - share
        counts.append(taken)
    return np.stack(counts)


def folds(inputs: SplitInputs, *, count: FoldCount = 5, seed: Seed = 0) -> Indices:
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
    nodes = labelled_nodes(inputs.y)
    if len(nodes) < count:
        raise ZooError(
            f"split folds: {count} folds are asked for, and {len(nodes):,} have a label; write at "
            f"most {{name: folds, count: {len(nodes)}}}, or label more."
        )
    order = _shuffle(nodes, seed)
    if has_classes(inputs.y):
        order = order[np.argsort(inputs.y[order], kind="stable")]
    fold = (np.arange(len(order)) - inputs.seed % count) % count
    test_nodes, val_nodes, train_nodes = order[fold == 0], order[fold == 1], order[fold > 1]
    if count == 2:
        train_nodes, val_nodes = val_nodes[::2], val_nodes[1::2]
    return {"train": train_nodes, "val": val_nodes, "test": test_nodes}


def by_group(
    inputs: SplitInputs,
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
    nodes = labelled_nodes(inputs.y)
    if inputs.groups is None:
        raise ZooError(
            "split group: nothing says which group a node is of; name the column of the table that "
            "does, `dataset.group_column: COLUMN`."
        )
    names, group_of_node, sizes = np.unique(
        inputs.groups[nodes], return_inverse=True, return_counts=True
    )
    if "" in names:
        raise ZooError(f"split group: {sizes[0]:,} nodes with a label are of no group; fill it in.")
    if len(names) < len(PARTS):
        raise ZooError(f"split group: there are {len(names)} groups, and 3 parts need one each.")
    order = _shuffle(np.arange(len(names)), inputs.seed if seed is None else seed)
    # Groups that are larger than validation or test should be go first, so into training.
    large = sizes[order] > min(val, test) / 100 * len(nodes)
    order = np.concatenate([order[large], order[~large]])
    # A group goes to the part that the middle one of its nodes would be in, if nodes were cut.
    middle = np.cumsum(sizes[order]) - sizes[order] / 2
    ends = np.cumsum([train, val, test]) / 100 * len(nodes) + SHARE_TOLERANCE
    part_numbers = np.searchsorted(ends, middle)  # 0 to 2, or 3: in no part
    # No part may stay empty: bound the first and last groups, and keep the numbers ascending.
    part_numbers[[0, 1, 2]] = np.minimum(part_numbers[[0, 1, 2]], [0, 1, 2])
    part_numbers[-1] = max(part_numbers[-1], 2)
    part_numbers[-2] = max(part_numbers[-2], 1)
    part_numbers = np.maximum.accumulate(part_numbers)
    if 1 not in part_numbers:  # a large group has skipped validation
        first = int(np.searchsorted(part_numbers, 2))
        part_numbers[first if first < len(part_numbers) - 1 else first - 1] = 1
    if 2 not in part_numbers:  # a large group has skipped test
        part_numbers[np.searchsorted(part_numbers, 3)] = 2
    part_of_group = np.empty(len(names), np.int64)
    part_of_group[order] = part_numbers
    part_of_node = part_of_group[group_of_node]
    return {part: nodes[part_of_node == number] for number, part in enumerate(PARTS)}


def by_scaffold(
    inputs: SplitInputs,
    *,
    train: Percent = 80,
    val: Percent = 10,
    test: Percent = 10,
    order: Literal["size", "random"] = "size",
    seed: Seed | None = None,
) -> Indices:
    """Keep molecules with one Bemis-Murcko scaffold together, so that tests are of unlike ones.

    By size, scaffolds of many molecules fill training and rare ones are tested, the same for all
    seeds, as in MoleculeNet (arXiv 1703.00564). Molecules without rings are of one scaffold.

    Args:
        train: share for training.
        val: share for validation.
        test: share for test.
        order: of the scaffolds: `size`, the largest first; `random` draws them, as `group` does.
        seed: pins the draw for all runs.

    Raises:
        ZooError: these are no molecules, or RDKit is not installed.
    """
    if inputs.smiles is None:
        raise ZooError(
            "split scaffold: scaffolds are of molecules, a table with a column of SMILES; write "
            "another split, such as ratio-80-10-10."
        )
    groups = scaffolds(inputs.smiles)
    if order == "random":
        inputs = inputs._replace(groups=np.where(groups == "", "no ring", groups))
        return by_group(inputs, train=train, val=val, test=test, seed=seed)
    nodes = labelled_nodes(inputs.y)
    _, first, group_of_node, sizes = np.unique(
        groups[nodes], return_index=True, return_inverse=True, return_counts=True
    )
    ends = np.cumsum([train, val, test]) / 100 * len(nodes) + SHARE_TOLERANCE
    part_of_group, taken = np.full(len(sizes), len(PARTS)), np.zeros(len(PARTS), np.int64)
    for group in np.lexsort((first, sizes))[::-1].tolist():
        if (fits := taken.cumsum() + sizes[group] <= ends).any():
            part_of_group[group] = part = fits.argmax()
            taken[part] += sizes[group]
    part_of_node = part_of_group[group_of_node]
    return {part: nodes[part_of_node == number] for number, part in enumerate(PARTS)}


def by_ids(inputs: SplitInputs, *, train: str, val: str, test: str) -> Indices:
    """Take the nodes whose ids are in three files, one id a line.

    Args:
        train: file of the ids for training; without ids of its own, a node is its number from 0.
        val: file of those for validation.
        test: file of those for test.

    Raises:
        ZooError: a file cannot be read, or has an id that no node has.
    """
    ids = np.arange(len(inputs.y)) if inputs.ids is None else inputs.ids
    index_of = {str(id): index for index, id in enumerate(ids.tolist())}
    parts = {}
    for part, file in (("train", train), ("val", val), ("test", test)):
        wanted = [line for line in sentences_of(user_path(file)) if line]
        unknown = [id for id in wanted if id not in index_of]
        if unknown:
            raise ZooError(
                f"split ids: {file} has {unknown[0]!r}, and no node has this id ({len(unknown):,} "
                f"such lines); {suggestion(unknown[0], index_of)}"
            )
        parts[part] = np.intersect1d([index_of[id] for id in wanted], labelled_nodes(inputs.y))
    return parts


PAIRS = "pairs"
"""The split of links that tables name."""


def by_pairs(
    inputs: SplitInputs,
    *,
    path: str | None = None,
    train: str | None = None,
    val: str | None = None,
    test: str | None = None,
) -> Indices:
    """Take the links of tables, whose first two columns are ids of nodes.

    Args:
        path: a table of all links, with a column `split` of train, val and test.
        train: without it, a table of the links for training; left out, all that no other has.
        val: a table of those for validation.
        test: a table of those for test.
    """
    return benchmark(inputs, index=0)


def has_classes(y: np.ndarray) -> bool:
    """Return whether a label is one class: neither a number (regression) nor several targets."""
    return y.ndim == 1 and y.dtype.kind != "f"


def _require_classes(y: np.ndarray, name: str) -> None:
    if not has_classes(y):
        raise ZooError(
            f"split {name}: a node has no class here but targets or a number; write split: "
            "ratio-60-20-20."
        )


def _shuffle(nodes: np.ndarray, seed: int) -> np.ndarray:
    # The constant makes this stream independent of others with the same seed: a random graph whose
    # classes come from a permutation would otherwise be split along its classes.
    return np.random.default_rng([int.from_bytes(b"split"), seed]).permutation(nodes)


def _cut_shares(order: np.ndarray, train: float, val: float, test: float) -> Indices:
    """Cut shuffled or sorted nodes into parts of these percentages."""
    shares = train, val, train + val + test
    n_train, n_val, end = (int(share / 100 * len(order) + SHARE_TOLERANCE) for share in shares)
    val_end = n_train + n_val
    return {"train": order[:n_train], "val": order[n_train:val_end], "test": order[val_end:end]}


def labelled_nodes(y: np.ndarray) -> np.ndarray:
    """Return the nodes of which at least one label is known."""
    known = ~np.isnan(y) if y.dtype.kind == "f" else y >= 0
    return np.flatnonzero(known if y.ndim == 1 else known.any(axis=1))


FOLDS_PATTERN = r"folds-([2-9]|[1-9]\d{1,8})"
"""Matches the names of splits into any number of folds, such as `folds-7`."""

_OTHER_NUMBERS_HINT = (
    "Other numbers are options: {name: ratio, train: 48, val: 32, test: 20}; cross-validation is "
    "`folds-5`."
)


def _fixed(split: Callable, summary: str, **options: float | None) -> Callable[..., Indices]:
    """Return `functools.partial(split, **options)` with a matching signature and docstring.

    The fixed options are in neither, so that a recipe cannot set them.
    """

    @functools.wraps(split)
    def fixed(inputs: SplitInputs, **other_options: Any) -> Indices:
        return split(inputs, **options, **other_options)

    signature, doc = inspect.signature(split), inspect.getdoc(split) or ""
    free = [parameter for name, parameter in signature.parameters.items() if name not in options]
    fixed.__signature__ = signature.replace(parameters=free)  # type: ignore[attr-defined]
    lines = doc.partition("Args:\n")[2].splitlines()
    lines = [line for line in lines if line.strip().partition(":")[0] not in options]
    fixed.__doc__ = "\n".join([summary, "", "Args:", *lines])
    return fixed


def _fixed_shares(name: str, split: Callable, *shares: str) -> dict[str, Callable[..., Indices]]:
    """Return the entries of `SPLITS` in which a split has fixed shares, such as `48-32-20`."""
    summary = (split.__doc__ or "").partition(", in percent")[0]
    return {
        f"{name}-{percent}": _fixed(
            split,
            f"{summary}: {percent} percent.",
            **dict(zip(PARTS, map(int, percent.split("-")), strict=True)),
        )
        for percent in shares
    }


def _fixed_per_class(count: int) -> Callable[..., Indices]:
    summary = (
        f"Draw {count} training nodes from every class, 1,000 for validation; test: the others."
    )
    return _fixed(per_class, summary, train=count, val=1000, test=None)


KEPT = "kept"
"""The split in which nodes keep the parts that they had in an earlier run."""


def keep_parts(
    inputs: SplitInputs, *, run: str, new: "Annotated[Spec, SPLITS]" = "ratio-60-20-20"
) -> Indices:
    """Leave nodes that a run had in their parts, and deal the new ones: for a graph that grows.

    Nodes are known by their ids, links by those of both ends; without ids by their numbers. One
    that had no label then is new; one that had one and was in no part stays in none.

    Args:
        run: the folder of a seed of the run, `runs/NAME/seed-0`.
        new: the split of nodes that are new; of fewer than it needs `ratio-60-20-20`.

    Raises:
        ZooError: the folder does not say which nodes the run had, or they have no ids here.
    """
    part_numbers = _parts_of_run(run, inputs.ids, inputs.kinds, len(inputs.y))
    nodes = labelled_nodes(inputs.y)
    new_nodes = nodes[part_numbers[nodes] == UNLABELLED]
    if word(new) == "group" and inputs.groups is not None:  # no group is divided
        numbered = zip(inputs.groups, part_numbers.tolist(), strict=True)
        part_of_group = {group: part for group, part in numbered if group and part < len(PARTS)}
        groups = inputs.groups[new_nodes]
        part_numbers[new_nodes] = [part_of_group.get(group, UNLABELLED) for group in groups]
        new_nodes = nodes[part_numbers[nodes] == UNLABELLED]
    drawn: Indices = dict.fromkeys(PARTS, new_nodes[:0])
    if len(new_nodes):
        y = np.full_like(inputs.y, np.nan if inputs.y.dtype.kind == "f" else -1)
        y[new_nodes] = inputs.y[new_nodes]
        try:
            drawn = pick(SPLITS, new, inputs._replace(y=y))
        except ZooError:
            if word(new) == "group" and len({*inputs.groups[new_nodes]}) < len(PARTS):
                drawn = {**drawn, "train": new_nodes}
            elif len(new_nodes) > _FEW_NEW_NODES:
                raise
            else:
                drawn = ratio(inputs._replace(y=y))
    return {
        part: np.concatenate([nodes[part_numbers[nodes] == number], drawn[part]])
        for number, part in enumerate(PARTS)
    }


def _parts_of_run(
    run: str, ids: np.ndarray | None, kinds: np.ndarray | None, nodes: int
) -> np.ndarray:
    """Return the number (N,) of the part that each node was in, as in `KnownNodes.parts`.

    Nodes that the run did not have are `UNLABELLED`; ids and kinds are as in `SplitInputs`.
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
    """Log how many nodes keep the part that they had in a run, and how many are drawn anew."""
    if word(split) != KEPT:
        return
    parts = _parts_of_run(split["run"], data.ids, getattr(data, "kinds", None), len(data.y))
    parts = parts[labelled_nodes(data.y.numpy())]
    kept, out, new = (int(chosen.sum()) for chosen in
                      (parts < len(PARTS), parts == LEFT_OUT, parts == UNLABELLED))  # fmt: skip
    by_rows = ", by their rows" if data.ids is None else ""
    left_out = f", {out:,} are in none, as there" if out else ""
    logging.getLogger(__name__).warning(
        f"{kept:,} {data.unit} keep their part of {path_name(split['run'])}{by_rows}{left_out}, "
        f"{new:,} new {'one is' if new == 1 else 'ones are'} dealt."
    )


_FEW_NEW_NODES = 20
"""Up to so many new nodes, `ratio-60-20-20` replaces a split that needs more of them."""


@functools.cache
def _fixed_folds(count: int) -> Callable[..., Indices]:
    first = (folds.__doc__ or "").partition("\n")[0]
    return _fixed(folds, first.replace("into folds", f"into {count} folds"), count=count)


class Splits(Table):
    """The table of splits; `folds-K` is a key of it for any number of folds K."""

    def __contains__(self, word: object) -> bool:
        """Return whether this is the name of a split."""
        return super().__contains__(word) or (
            isinstance(word, str) and re.fullmatch(FOLDS_PATTERN, word) is not None
        )

    def __missing__(self, word: str) -> Callable[..., Indices]:
        """Return the split that `folds-K` names."""
        if match := re.fullmatch(FOLDS_PATTERN, word):
            return _fixed_folds(int(match[1]))
        raise KeyError(word)


_PLANETOID_SUMMARY = (
    "Draw 20 training nodes from every class, as Planetoid (arXiv 1603.08861) does."
)

SPLITS = Splits(
    "split",
    {
        "benchmark": benchmark,
        "folds": folds,
        **{f"folds-{count}": _fixed_folds(count) for count in (5, 10)},
        "group": by_group,
        "ids": by_ids,
        KEPT: keep_parts,
        PAIRS: by_pairs,
        "per-class": per_class,
        "per-class-20": _fixed(per_class, _PLANETOID_SUMMARY, train=20),
        **{f"per-class-{count}": _fixed_per_class(count) for count in (10, 50, 100, 200, 400)},
        "ratio": ratio,
        **_fixed_shares(
            "ratio", ratio, "48-32-20", "50-25-25", "60-20-20", "70-10-20", "80-10-10", "85-5-10"
        ),
        "scaffold": by_scaffold,
        "stratified": stratified,
        **_fixed_shares("stratified", stratified, "80-10-10"),
        "time": by_time,
        **_fixed_shares("time", by_time, "20-20-60", "70-10-20"),
    },
)
"""Name of a split to its function, `(inputs: SplitInputs, *, options) -> Indices`."""

TIME_SPLITS = tuple(word for word in SPLITS if word.startswith("time"))
"""The splits by time: the only ones that do not leak the future into training."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Disjoint node indices of three parts, int64 and ascending, and a SHA-256 of all of them."""

    train: Tensor
    val: Tensor
    test: Tensor
    sha256: str

    def __repr__(self) -> str:
        counts = ", ".join(f"{part} ({len(getattr(self, part)):,},)" for part in PARTS)
        return f"Split({counts})"


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
    smiles: tuple[str, ...] | None = None,
    unit: str = "nodes",
) -> Split:
    """Split the labelled nodes of a graph into training, validation and test.

    Args:
        spec: a name in `SPLITS`, or a mapping of name and options.
        y: classes (N,), -1 if unknown, or numbers (N,) or targets (N, T), NaN if unknown; nodes
            without any label are in no part.
        masks: S predefined splits of the benchmark, part to mask (S, N) bool; or None.
        seed: seed of the run: nodes are drawn from it, or it selects one of the predefined splits.
        overlap: how many samples after one share targets with it; so many are left out between
            parts.
        times: as in `SplitInputs`.
        groups: as in `SplitInputs`.
        ids: as in `SplitInputs`.
        kinds: as in `SplitInputs`.
        smiles: as in `SplitInputs`.
        unit: what is split, for messages.

    Raises:
        ZooError: the spec is wrong, or the graph has too few labelled nodes for it.
    """
    wrong = split_problems(spec, ())
    if wrong:
        raise ZooError(f"split {spec!r}: " + " ".join(problem.message for problem in wrong))
    inputs = SplitInputs(y.cpu().numpy(), masks, seed, times, groups, ids, kinds, smiles)
    count = len(labelled_nodes(inputs.y))
    if count == 0:
        raise ZooError(
            f"none of the {unit} has a label, so that there is nothing to learn from; label some, "
            "or name what holds the labels (of a table its column: `label: COLUMN`)."
        )
    drawn = pick(SPLITS, spec, inputs)
    parts = {part: np.sort(drawn[part]).astype(np.int64) for part in PARTS}
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
    return Split(**{part: torch.from_numpy(parts[part]) for part in PARTS}, sha256=_sha256(parts))


def split_of(data: Any, spec: Spec, seed: int) -> Split:
    """Return the split of a data set.

    Raises:
        ZooError: such data cannot be split like this, or it has too few labelled nodes.
    """
    name = word(spec)
    has_times = data.splits or data.times is not None
    none = {PAIRS, *(() if has_times else TIME_SPLITS)}
    allowed = data.splits or [key for key in SPLITS if key not in none]
    any_number = re.fullmatch(FOLDS_PATTERN, name) is not None and "folds" in allowed
    if name in SPLITS and name not in allowed and not any_number:
        fix = f"leave `split: {name}` out, or choose from {', '.join(allowed)}."
        if name in TIME_SPLITS and data.unit == "links":
            fix = f"name the edges' column of times, `dataset.edge_time: COLUMN`, or {fix}"
        elif name in TIME_SPLITS and data.splits is None:
            fix = f"name a table's column of times, `dataset.time_column: COLUMN`, or {fix}"
        raise ZooError(f"split {name} is none of {data.unit}, which {data.name} is of; {fix}")
    if data.unit == "snapshots":
        data.need_samples()
    masks = data.masks
    if name == "benchmark":
        check_built_in_split(data)
        masks = masks or (data.published and data.published())
    ids = None if data.unit == "links" and name != KEPT else data.ids  # made where they are needed
    return make_split(
        spec, data.y, masks, seed=seed, overlap=data.overlap, times=data.times,
        groups=data.groups, ids=ids, kinds=getattr(data, "kinds", None),
        smiles=getattr(data, "smiles", None), unit=data.unit,
    )  # fmt: skip


def split(data: Any, word: Spec | None = None, seed: int = 0) -> Split:
    """Return which nodes, or samples, are for training, validation and test.

    Args:
        data: what `load_data` returns.
        word: how they are divided, such as `ratio-60-20-20`, `per-class-20` or `{name: stratified,
            train: 50, val: 25}`; None: `data.split`, as a recipe that says nothing of it.
        seed: of what is drawn at random, or the number of a predefined split.

    Returns:
        `train`, `val` and `test`, int64 indices of labelled rows, (n,) each.

    Raises:
        ZooError: such data cannot be split like this, or they have too few labelled rows.
    """
    if not hasattr(data, "splits"):
        raise ZooError(f"zoo.split divides what zoo.load_data returns, not {type(data).__name__}.")
    return split_of(data, data.split if word is None else word, seed)


def check_built_in_split(data: Any) -> None:
    """Raise ZooError if the predefined split of a data set leaves a part empty."""
    if empty := empty_parts(data.masks):
        raise ZooError(
            f"the split that comes with {data.name} marks none of the {data.unit} as {empty[0]}; "
            "mark some, or leave it out (the column `split`, or what `split_column` names), and "
            "they are dealt at random (split: ratio-60-20-20)."
        )


def check_parts(task: Task, data: Any, splits: Mapping[int, Split]) -> None:
    """Check before training that the metric exists for every part, and that classes can be learnt.

    Logs a warning if validation or test have a class that training has not.

    Args:
        task: the task, with its metric.
        data: the data set.
        splits: seed to split.

    Raises:
        ZooError: the metric is undefined for a part, such as ROC-AUC if all nodes are of one class.
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


def constant_prediction(
    task: Task, data: Any, split: Split, scores: Mapping[str, float]
) -> str | None:
    """Return what, answered for every test row, scores at least as well as the model.

    That is a class, or the mean of the training numbers; None where nothing such does.

    Args:
        task: the task; the result is None if it is of several targets, of pairs or tokens.
        data: the data set.
        split: train, validation and test rows.
        scores: the model's score in each part.
    """
    if task.kind not in ("classes", "binary", "numbers") or data.y.dim() > 1:
        return None
    y = data.y[split.test]
    if task.kind == "numbers":
        answers = {"the mean of training": data.y[split.train].nanmean().reshape(1)}
    else:
        names = [str(label) for label in data.labels or range(data.classes)]
        answers = dict(zip(names, 20 * torch.eye(data.classes), strict=False))  # almost 1
    sign = -1 if lower_is_better(task.metric_name) else 1
    constant = {}
    for label, logits in answers.items():
        with contextlib.suppress(ZooError):  # the metric is undefined for a part of one class
            constant[label] = sign * task.metric(logits.expand(len(y), -1), y)
    best = max(constant, key=constant.__getitem__, default=None)
    if best is None or sign * scores["test"] > constant[best] + 1e-9:
        return None
    return best


def check_scores(task: Task, parts: Mapping[str, Tensor], classes: int, where: str = "") -> None:
    """Raise ZooError if the metric is undefined for the labels of a part.

    Args:
        task: the task, with its metric.
        parts: part to its labels.
        classes: number of classes, or of targets.
        where: prefix of the error message.

    Raises:
        ZooError: the metric is undefined for a part, such as ROC-AUC if all nodes are of one class.
    """
    if task.metric_name in (ACCURACY, BLEU, MSE):  # defined for any labels
        return
    for part, y in parts.items():
        try:
            width = y[:1].numel() if task.kind == "numbers" else task.outputs(classes)
            task.metric(torch.zeros(len(y), width), y)
        except ZooError as error:
            raise ZooError(f"{where}{part}: {error}") from None


def warn_of_small_classes(data: Any, spec: Spec) -> None:
    """Log a warning if classes have fewer labelled nodes than there are folds."""
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
    """Return the classes (or columns of targets) with labels in validation or test only."""
    if task.kind not in ("classes", "targets"):
        return []
    in_train, in_others = (
        y.isfinite().any(dim=0).nonzero().flatten() if y.ndim == 2 else y[y >= 0].unique()
        for y in (data.y[split.train], data.y[torch.cat([split.val, split.test])])
    )
    return in_others[~torch.isin(in_others, in_train)].tolist()


def split_files(split: object) -> dict[str, Path]:
    """Return the files that a split reads by its options, none if it is drawn."""
    if not isinstance(split, Mapping) or split.get("name") not in ("ids", PAIRS):
        return {}
    return {key: user_path(split[key]) for key in ("path", *PARTS) if split.get(key)}


def split_problems(spec: object, path: tuple[str | int, ...]) -> list[Problem]:
    """Return what is wrong with the name and options of a split, without the data."""
    wrong = problems(SPLITS, spec, path)
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    if isinstance(name, str) and name not in SPLITS:
        return [Problem(wrong[0].path, f"{wrong[0].message} {_OTHER_NUMBERS_HINT}")]
    if wrong:
        return wrong
    options = resolved(SPLITS, spec)
    given = {key for key in ("path", *PARTS) if options["name"] == PAIRS and options[key]}
    if options["name"] == PAIRS and given not in ({"path"}, {"val", "test"}, {*PARTS}):
        message = "write `path`, a table of all links, or `val` and `test`, one for each part"
        return [Problem(path, message)]
    if options["name"] == KEPT:
        return split_problems(options["new"], (*path, "new"))
    shares = [options[part] for part in PARTS] if options["name"] in SHARE_SPLITS else []
    if sum(shares) <= 100 + SHARE_TOLERANCE:
        return []
    total = f"{' + '.join(f'{share:g}' for share in shares)} = {sum(shares):g}"
    return [Problem(path, f"{total} is more than 100 percent; write smaller shares.")]


def _sha256(parts: Indices) -> str:
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update(f"{part} {len(parts[part])} ".encode())
        digest.update(parts[part].astype("<i8").tobytes())
    return digest.hexdigest()
