"""Train, validation and test splits of nodes: by name, from a private seed, with a hash.

`{name: ratio, train: 48, val: 32, test: 20}` draws shares of the nodes; published splits have
words, such as `ratio-60-20-20`. See `zoo.datasets.split_words` for all of them. The seed of the run
draws the nodes; a `seed` in the mapping pins the draw for all runs. Global random generators are
neither used nor changed.
"""

import dataclasses
import functools
import hashlib
import inspect
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Spec, Table, pick, problems, resolved
from zoo.config.recipe import word
from zoo.datasets.files.graph_arrays import PARTS
from zoo.datasets.files.labels import (
    ACCURACY,
    BINARY,
    CLASSIFICATION,
    GRAPHS,
    MULTILABEL,
    REGRESSION,
    SEQUENCES,
    empty_parts,
)
from zoo.datasets.known_nodes import DAMAGE, NODES, UNLABELLED, read_known
from zoo.datasets.split_words import (
    ROUNDING,
    SHARES,
    Indices,
    Known,
    Masks,
    benchmark,
    folds,
    grouped,
    has_classes,
    in_time,
    labelled,
    listed,
    per_class,
    ratio,
    stratified,
)
from zoo.datasets.tasks import Task
from zoo.errors import Problem, ZooError, brief
from zoo.system.files import user_path

FOLDS = r"folds-([2-9]|[1-9]\d{1,8})"
"""The words of as many folds."""

_CROSS_VALIDATION = re.compile(r"(stratified)?k?-?folds?|(k?folds?-?)?cv|cross-?validation", re.I)
"""What cross-validation is called elsewhere, without a number."""

_OTHER_NUMBERS = "Other numbers are options: {name: ratio, train: 48, val: 32, test: 20}."


def _fixed(split: Callable, what: str, **shares: float | None) -> Callable[..., Indices]:
    """Return a split with these numbers, as an entry of the table: they are no options of it."""

    @functools.wraps(split)
    def fixed(known: Known, **options: Any) -> Indices:
        return split(known, **shares, **options)

    own, said = inspect.signature(split), (inspect.getdoc(split) or "").partition("Args:\n")[2]
    left = [each for name, each in own.parameters.items() if name not in shares]
    fixed.__signature__ = own.replace(parameters=left)  # type: ignore[attr-defined]
    told = [each for each in said.splitlines() if each.strip().partition(":")[0] not in shares]
    fixed.__doc__ = "\n".join([what, "", "Args:", *told])
    return fixed


def _shares(name: str, split: Callable, *words: str) -> dict[str, Callable[..., Indices]]:
    """Return a split of nodes or times with these shares, `48-32-20`, as entries of the table."""
    what = (split.__doc__ or "").partition(", in percent")[0]
    shares = {each: dict(zip(PARTS, map(int, each.split("-")), strict=True)) for each in words}
    return {
        f"{name}-{each}": _fixed(split, f"{what}: {each} percent.", **own)
        for each, own in shares.items()
    }


def _of_each_class(count: int) -> Callable[..., Indices]:
    what = f"Draw {count} training nodes from every class, 1,000 for validation; test: the others."
    return _fixed(per_class, what, train=count, val=1000, test=None)


KEPT = "kept"
"""The split in which nodes keep their parts."""


def kept(known: Known, *, run: str, new: "Annotated[Spec, SPLITS]" = "ratio-60-20-20") -> Indices:
    """Leave nodes that a run had in their parts, and deal the new ones: for a graph that grows.

    Nodes are known by their ids; those without ids by their numbers. One that had no label then is
    new; one that had one and was in no part stays in none.

    Args:
        run: the folder of a seed of the run, `runs/NAME/seed-0`.
        new: the split of nodes that are new; of fewer than it needs `ratio-60-20-20`.

    Raises:
        ZooError: the folder does not say which nodes the run had, or they have no ids here.
    """
    before = parts_then(known, run)
    nodes = labelled(known.y)
    fresh = nodes[before[nodes] == UNLABELLED]
    if word(new) == "group" and known.groups is not None:  # which stay whole
        of_group = {group: part for group, part in zip(known.groups, before.tolist(), strict=True)
                    if group and part < len(PARTS)}  # fmt: skip
        before[fresh] = [of_group.get(each, UNLABELLED) for each in known.groups[fresh]]
        fresh = nodes[before[nodes] == UNLABELLED]
    dealt: Indices = dict.fromkeys(PARTS, fresh[:0])
    if len(fresh):
        y = np.full_like(known.y, np.nan if known.y.dtype.kind == "f" else -1)
        y[fresh] = known.y[fresh]
        try:
            dealt = pick(SPLITS, new, known._replace(y=y))
        except ZooError:
            if word(new) == "group" and len({*known.groups[fresh]}) < len(PARTS):
                dealt = {**dealt, "train": fresh}
            elif len(fresh) > _FEW:
                raise
            else:
                dealt = ratio(known._replace(y=y))
    return {
        part: np.concatenate([nodes[before[nodes] == number], dealt[part]])
        for number, part in enumerate(PARTS)
    }


def parts_then(known: Known, run: str) -> np.ndarray:
    """Return the part (N,) that each node was of in a run, as `zoo.datasets.known_nodes` does.

    Raises:
        ZooError: as `kept`.
    """
    folder = user_path(run)
    if (folder / NODES).is_file():
        seeds = " or ".join(sorted(each.name for each in folder.glob("seed-*")))
        raise ZooError(f"split kept: {run} is a run; write which seed of it: {run}/{seeds}.")
    try:
        then = read_known(folder)
    except DAMAGE:
        raise ZooError(
            f"split kept: there is no {folder.parent / NODES} that says which nodes {run} had; "
            "write `run: RUN/seed-0`, the folder of a seed of a run on a graph of your own, or "
            "another split."
        ) from None
    places = then.places(known.ids, known.kinds, len(known.y))
    if places is None or then.parts is None:
        lost = "the parts of nodes" if then.parts is None else "ids, on both sides or on none,"
        raise ZooError(f"split kept: {run} and these data need {lost}; write another split.")
    return np.where(places >= 0, then.parts[places], UNLABELLED)


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
        folded = isinstance(word, str) and re.fullmatch(FOLDS, word)
        return super().__contains__(word) or bool(folded)

    def __missing__(self, word: str) -> Callable[..., Indices]:
        """Return the split of a word that stands for a number of folds."""
        if found := re.fullmatch(FOLDS, word):
            return _in_folds(int(found[1]))
        raise KeyError(word)


_PLANETOID = "Draw 20 training nodes from every class, as Planetoid (arXiv 1603.08861) does."

SPLITS = Splits(
    "split",
    {
        "benchmark": benchmark,
        "folds": folds,
        **{f"folds-{count}": _in_folds(count) for count in (5, 10)},
        "group": grouped,
        "ids": listed,
        KEPT: kept,
        "per-class": per_class,
        "per-class-20": _fixed(per_class, _PLANETOID, train=20),
        **{f"per-class-{count}": _of_each_class(count) for count in (10, 50, 100, 200, 400)},
        "ratio": ratio,
        **_shares("ratio", ratio, "48-32-20", "50-25-25", "60-20-20", "70-10-20", "80-10-10"),
        "stratified": stratified,
        "time": in_time,
        **_shares("time", in_time, "20-20-60", "70-10-20"),
    },
)
"""Word to function `(what is known, *, options) -> indices of each part`."""

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
        times: (N,) of the nodes, NaN where unknown.
        groups: (N,) what group each node is of, "" where it is of none.
        ids: (N,) what each node is called.
        kinds: (N,) text, the kind of each node; None: all are of one.
        unit: what is split, in words.

    Raises:
        ZooError: the spec is wrong, or the graph has too few labelled nodes for it.
    """
    wrong = split_problems(spec, ())
    if wrong:
        raise ZooError(f"split {spec!r}: " + " ".join(each.message for each in wrong))
    if len(labelled(y.cpu().numpy())) == 0:
        raise ZooError(
            f"none of the {unit} has a label, so that there is nothing to learn from; label some, "
            "or name what holds the labels (of a table its column: `label: COLUMN`)."
        )
    dealt = pick(SPLITS, spec, Known(y.cpu().numpy(), masks, seed, times, groups, ids, kinds))
    parts = {part: np.sort(dealt[part]).astype(np.int64) for part in PARTS}
    for part, later in (("train", "val"), ("val", "test")) if overlap else ():
        parts[part] = parts[part][parts[part] < parts[later].min(initial=len(y)) - overlap]
    drawn, times_drawn = np.unique(np.concatenate(list(parts.values())), return_counts=True)
    if len(twice := drawn[times_drawn > 1]):
        first = twice[0] if ids is None else ids[twice[0]]
        raise ZooError(
            f"split {spec!r} has {len(twice):,} {unit} in more than one part, such as {first}; "
            "leave each in one."
        )
    for part, nodes in parts.items():
        if len(nodes) == 0:
            raise ZooError(
                f"split {spec!r} leaves none of the {len(labelled(y.cpu().numpy())):,} labelled "
                f"{unit} for {part}. Choose other numbers."
            )
    return Split(**{part: torch.from_numpy(parts[part]) for part in PARTS}, sha256=_hash(parts))


def split_of(data: Any, spec: Spec, seed: int) -> Split:
    """Return the split of a data set; raise ZooError where it is none for data of its kind."""
    of_times = data.splits or data.times is not None
    words = data.splits or [each for each in SPLITS if of_times or each not in TIME_SPLITS]
    refused = word(spec) not in words if data.splits or word(spec) in TIME_SPLITS else False
    if word(spec) in SPLITS and refused:
        fix = f"leave `split: {word(spec)}` out, or choose from {', '.join(words)}."
        if data.splits is None:
            fix = f"name a table's column of times, `dataset.time_column: COLUMN`, or {fix}"
        raise ZooError(f"split {word(spec)} is none of {data.unit}, which {data.name} is of; {fix}")
    if data.unit == "snapshots":
        data.need_samples()
    masks = data.masks
    if word(spec) == "benchmark":
        check_own_split(data)
        masks = masks or (data.published and data.published())
    known = {"times": data.times, "groups": data.groups, "ids": data.ids, "unit": data.unit}
    known["kinds"] = getattr(data, "kinds", None)
    return make_split(spec, data.y, masks, seed=seed, overlap=data.overlap, **known)


def known_of(data: Any, seed: int = 0) -> Known:
    """Return what the nodes of a data set are divided by."""
    kinds = getattr(data, "kinds", None)
    y = data.y.cpu().numpy()
    return Known(y, data.masks, seed, data.times, data.groups, data.ids, kinds)


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
        own = {part: data.y[getattr(split, part)] for part in PARTS}
        check_scores(task, own, data.classes, f"with seed {seed}, ")
    for seed, split in splits.items():
        if unseen := _unseen(task, data, split):
            named = [str((data.labels or range(data.classes))[each]) for each in unseen]
            logging.getLogger(__name__).warning(
                f"with seed {seed}, no label of training is of {', '.join(named[:5])}, which "
                "validation or test ask for: nothing can learn that."
            )
            return


def constant_answer(task: Task, data: Any, split: Split, scores: Mapping[str, float]) -> str | None:
    """Return the class that answered for every row would score the same in each part, or None.

    Args:
        task: what was trained; of others than classes None is returned.
        data: the data set.
        split: of its rows.
        scores: accuracy by part.
    """
    if task.metric_name != ACCURACY or data.y.ndim > 1:
        return None
    parts = [(y[y >= 0], scores[part]) for part in PARTS for y in [data.y[getattr(split, part)]]]
    for each in range(data.classes):
        if all(abs((y == each).double().mean() - score) < 1e-9 for y, score in parts):
            return str((data.labels or range(data.classes))[each])
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
    if task.name not in (BINARY, MULTILABEL, REGRESSION):  # others need a label, no more
        return
    for part, y in parts.items():
        try:
            task.metric(torch.zeros(len(y), task.outputs(classes)), y)
        except ZooError as error:
            raise ZooError(f"{where}{part}: {error}") from None


def warn_of_small_classes(data: Any, spec: Spec) -> None:
    """Warn of classes that have fewer members than there are folds."""
    options = resolved(SPLITS, spec)
    if not options["name"].startswith("folds") or not has_classes(data.y.numpy()):
        return
    count = options.get("count") or int(options["name"].removeprefix("folds-"))
    sizes = np.bincount(data.y[data.y >= 0].numpy())
    if few := [each for each in np.flatnonzero(sizes) if sizes[each] < count]:
        names = [str((data.labels or range(len(sizes)))[each]) for each in few[:5]]
        logging.getLogger(__name__).warning(
            f"{', '.join(names)} of {data.name} {'has' if len(few) == 1 else 'have'} fewer "
            f"labelled {data.unit} than there are folds, {count}: some test parts have none."
        )


def _unseen(task: Task, data: Any, split: Split) -> list[int]:
    """Return the classes, or of many targets those, that are labelled outside of training only."""
    if task.name not in (CLASSIFICATION, MULTILABEL, GRAPHS, SEQUENCES):
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
    found = problems(SPLITS, spec, path)
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    if isinstance(name, str) and (meant := _folds_meant(name)):
        return [Problem(found[0].path, f"no split is called {brief(name)}; {meant}")]
    if isinstance(name, str) and name not in SPLITS:
        return [Problem(found[0].path, f"{found[0].message} {_OTHER_NUMBERS}")]
    if found:
        return found
    options = resolved(SPLITS, spec)
    if options["name"] == KEPT:
        return split_problems(options["new"], (*path, "new"))
    shares = [options[part] for part in PARTS] if options["name"] in SHARES else []
    if sum(shares) <= 100 + ROUNDING:
        return []
    total = f"{' + '.join(f'{each:g}' for each in shares)} = {sum(shares):g}"
    return [Problem(path, f"{total} is more than 100 percent; write smaller shares.")]


def _folds_meant(name: str) -> str | None:
    """Return what to write for a word of cross-validation, `5-fold` or `kfold`; None of others."""
    if name in SPLITS:
        return None
    said = name.replace("_", "-").replace(" ", "-")
    count = re.search(r"\d+", said)
    left = re.sub(r"(^\d+-?)|(-?\d+$)", "", said)
    if not _CROSS_VALIDATION.fullmatch(left):
        return None
    if count and int(count[0]) < 2:
        return "there are two folds at least, `folds-2`; did you mean 'folds-5'?"
    return f"did you mean 'folds-{int(count[0]) if count else 5}'?"


def _hash(parts: Indices) -> str:
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update(f"{part} {len(parts[part])} ".encode())
        digest.update(parts[part].astype("<i8").tobytes())
    return digest.hexdigest()
