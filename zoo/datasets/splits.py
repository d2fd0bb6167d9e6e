"""Train, validation and test splits of nodes: by name, from a private seed, with a hash.

`{name: ratio, train: 48, val: 32, test: 20}` draws shares of the nodes, `{name: per-class,
train: 20}` nodes of each class, `{name: time, gap: 4}` cuts snapshots in time; published splits
have words, such as `ratio-60-20-20`. The seed of the run draws the nodes; a `seed` in the mapping
pins the draw for all runs. Global random generators are neither used nor changed.
"""

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from zoo.config.options import Count, Number, Seed, Spec, Table, pick, problems, resolved
from zoo.config.recipe import word
from zoo.datasets.files.graph_arrays import PARTS
from zoo.errors import Problem, ZooError

Percent = Annotated[float, Field(gt=0, lt=100)]
Masks = Mapping[str, Tensor] | None
Indices = dict[str, np.ndarray]  # of the nodes of each part
_OTHER_NUMBERS = "Other numbers are options: {name: ratio, train: 48, val: 32, test: 20}."
_ROUNDING = 1e-6  # shares are rounded down, but not past a whole number that floats have missed


@dataclasses.dataclass(frozen=True, eq=False)
class Split:
    """Three disjoint, ascending int64 indices of nodes, and the SHA-256 of their numbers."""

    train: Tensor
    val: Tensor
    test: Tensor
    sha256: str


def make_split(spec: Spec, y: Tensor, masks: Masks, *, seed: int, overlap: int = 0) -> Split:
    """Split the labelled nodes of a graph into training, validation and test.

    Args:
        spec: a word of `SPLITS`, or a mapping of name and options.
        y: classes (N,), -1 = unknown, or numbers (N,) or targets (N, T), NaN = unknown; nodes of
            which nothing is known are left out.
        masks: the benchmark's own splits, `train`, `val` and `test` (S, N) bool, or None.
        seed: of the run; it draws the nodes, or chooses one of the benchmark's splits.
        overlap: samples after one with targets of it: as many are left out between parts.

    Raises:
        ZooError: the spec is wrong, or the graph has too few labelled nodes for it.
    """
    wrong = split_problems(spec, ())
    if wrong:
        raise ZooError(f"split {spec!r}: " + " ".join(each.message for each in wrong))
    if len(_labelled(y.cpu().numpy())) == 0:
        raise ZooError(
            "no node of the graph has a label, so that there is nothing to learn from; label some, "
            "or name what holds the labels (of a table its column: `label: COLUMN`)."
        )
    dealt = pick(SPLITS, spec, y.cpu().numpy(), masks, seed)
    parts = {part: np.sort(dealt[part]).astype(np.int64) for part in PARTS}
    for part, later in (("train", "val"), ("val", "test")) if overlap else ():
        parts[part] = parts[part][parts[part] < parts[later].min(initial=len(y)) - overlap]
    together = np.concatenate(list(parts.values()))
    if len(np.unique(together)) < len(together):
        raise ZooError(f"split {spec!r} has nodes in more than one part; check the masks.")
    for part, nodes in parts.items():
        if len(nodes) == 0:
            raise ZooError(
                f"split {spec!r} leaves no labelled node for {part}; the graph has "
                f"{len(_labelled(y.cpu().numpy()))} labelled nodes. Choose other numbers."
            )
    return Split(**{part: torch.from_numpy(parts[part]) for part in PARTS}, sha256=_hash(parts))


def split_of(data: Any, spec: Spec, seed: int) -> Split:
    """Return the split of a data set; raise ZooError where it is none for data of its kind."""
    words = data.splits or [each for each in SPLITS if each not in TIME_SPLITS]
    if word(spec) in SPLITS and word(spec) not in words:
        fix = f"leave `split: {word(spec)}` out, or choose from {', '.join(words)}."
        raise ZooError(f"split {word(spec)} is none of {data.unit}, which {data.name} is of; {fix}")
    return make_split(spec, data.y, data.masks, seed=seed, overlap=data.overlap)


def split_problems(spec: object, path: tuple[str | int, ...]) -> list[Problem]:
    """Return what is wrong with the word and options of a split, without looking at a graph."""
    found = problems(SPLITS, spec, path)
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    if isinstance(name, str) and name not in SPLITS:
        return [Problem(found[0].path, f"{found[0].message} {_OTHER_NUMBERS}")]
    if found:
        return found
    options = resolved(SPLITS, spec)
    shares = [options[part] for part in PARTS] if options["name"] in ("ratio", "time") else []
    if sum(shares) <= 100 + _ROUNDING:
        return []
    total = f"{' + '.join(f'{each:g}' for each in shares)} = {sum(shares):g}"
    return [Problem(path, f"{total} is more than 100 percent; write smaller shares.")]


def benchmark(y: np.ndarray, masks: Masks, drawn: int, *, index: Number | None = None) -> Indices:
    """Take one of the splits that the benchmark has fixed.

    Args:
        index: which, from 0; left out it is the seed of the run, modulo how many there are.

    Raises:
        ZooError: the graph has none, or not as many.
    """
    if masks is None:
        raise ZooError(
            "split benchmark: this graph has no splits of its own; write split: ratio-60-20-20."
        )
    count = len(masks["train"])
    chosen = drawn % count if index is None else index
    if chosen >= count:
        raise ZooError(
            f"split benchmark: there is no index {index}; the graph has splits 0 to {count - 1}."
        )
    labelled = _labelled(y)
    return {part: labelled[masks[part][chosen].numpy()[labelled]] for part in PARTS}


def per_class(
    y: np.ndarray,
    masks: Masks,
    drawn: int,
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
    if y.ndim == 2 or y.dtype.kind == "f":
        said = "split per-class: a node has no class here but targets or a number"
        raise ZooError(f"{said}; write split: ratio-60-20-20.")
    labelled = _labelled(y)
    classes, members = np.unique(y[labelled], return_counts=True)
    if members.min() < train:
        raise ZooError(
            f"split per-class: class {classes[members.argmin()]} has {members.min()} labelled "
            f"nodes and {train} are asked for; write a smaller number, such as {{name: per-class, "
            f"train: {max(1, members.min() // 2)}}}, or split: ratio-60-20-20."
        )
    generator = torch.Generator().manual_seed(drawn if seed is None else seed)

    def shuffled(nodes: np.ndarray) -> np.ndarray:
        return nodes[torch.randperm(len(nodes), generator=generator).numpy()]

    groups = [shuffled(labelled[y[labelled] == each]) for each in classes]
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
    y: np.ndarray,
    masks: Masks,
    drawn: int,
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
    order = _shuffled(_labelled(y), drawn if seed is None else seed)
    return _cut(order, train, val, test)


def in_time(
    y: np.ndarray,
    masks: Masks,
    drawn: int,
    *,
    train: Percent = 70,
    val: Percent = 10,
    test: Percent = 20,
    gap: Number = 0,
) -> Indices:
    """Cut all snapshots into parts in the order of their times, in percent, training first.

    Args:
        train: share for training.
        val: share for validation.
        test: share for test; in sum with the others 100, it also has what rounding leaves over.
        gap: snapshots left out before validation and test; those with targets of both are.
    """
    found = _cut(_labelled(y), train, val, test)
    return {part: own[: max(0, len(own) - gap * (part != "test"))] for part, own in found.items()}


def _fixed(split: Callable, what: str, **shares: float | None) -> Callable[..., Indices]:
    """Return a split with these numbers, as an entry of the table: they are no options of it."""

    @functools.wraps(split)
    def fixed(y: np.ndarray, masks: Masks, drawn: int, **options: Any) -> Indices:
        return split(y, masks, drawn, **shares, **options)

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


_PLANETOID = "Draw 20 training nodes from every class, as Planetoid (arXiv 1603.08861) does."

SPLITS = Table(
    "split",
    {
        "benchmark": benchmark,
        "per-class": per_class,
        "per-class-20": _fixed(per_class, _PLANETOID, train=20),
        **{f"per-class-{count}": _of_each_class(count) for count in (10, 50, 100, 200, 400)},
        "ratio": ratio,
        **_shares("ratio", ratio, "48-32-20", "50-25-25", "60-20-20", "70-10-20", "80-10-10"),
        "time": in_time,
        **_shares("time", in_time, "20-20-60", "70-10-20"),
    },
)
"""Word to function `(y, masks, seed of the run, *, options) -> indices of each part`."""

TIME_SPLITS = tuple(word for word in SPLITS if word.startswith("time"))
"""Those in the order of times, which alone keep the future out of training."""


def _shuffled(nodes: np.ndarray, seed: int) -> np.ndarray:
    # The word keeps this stream apart from those of the same seed elsewhere: a random graph whose
    # classes come from a permutation would else be split along its classes.
    return np.random.default_rng([int.from_bytes(b"split"), seed]).permutation(nodes)


def _cut(order: np.ndarray, train: float, val: float, test: float) -> Indices:
    """Cut an order into shares in percent."""
    shares = train, val, train + val + test
    a, b, end = (int(each / 100 * len(order) + _ROUNDING) for each in shares)
    return {"train": order[:a], "val": order[a : a + b], "test": order[a + b : end]}


def _labelled(y: np.ndarray) -> np.ndarray:
    known = ~np.isnan(y) if y.dtype.kind == "f" else y >= 0
    return np.flatnonzero(known if y.ndim == 1 else known.any(axis=1))


def _hash(parts: Indices) -> str:
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update(f"{part} {len(parts[part])} ".encode())
        digest.update(parts[part].astype("<i8").tobytes())
    return digest.hexdigest()
