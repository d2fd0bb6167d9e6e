"""Train, validation and test splits of nodes: by name, from a private seed, with a hash.

`{name: ratio, train: 48, val: 32, test: 20}` draws shares of the nodes, `{name: per-class,
train: 20}` nodes of each class; published splits have words of their own, such as `ratio-60-20-20`.
The seed of the run draws the nodes; a `seed` in the mapping pins the draw for all runs. Global
random generators are neither used nor changed.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from zoo.config.options import Count, Number, Seed, Spec, Table, pick, problems, resolved
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


def make_split(spec: Spec, y: Tensor, masks: Masks, *, seed: int) -> Split:
    """Split the labelled nodes of a graph into training, validation and test.

    Args:
        spec: a word of `SPLITS`, or a mapping of name and options.
        y: classes (N,), -1 = unknown, or numbers (N,) or targets (N, T), NaN = unknown; nodes of
            which nothing is known are left out.
        masks: the benchmark's own splits, `train`, `val` and `test` (S, N) bool, or None.
        seed: of the run; it draws the nodes, or chooses one of the benchmark's splits.

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


def split_problems(spec: object, path: tuple[str | int, ...]) -> list[Problem]:
    """Return what is wrong with the word and options of a split, without looking at a graph."""
    found = problems(SPLITS, spec, path)
    name = spec.get("name") if isinstance(spec, Mapping) else spec
    if isinstance(name, str) and name not in SPLITS:
        return [Problem(found[0].path, f"{found[0].message} {_OTHER_NUMBERS}")]
    if found:
        return found
    options = resolved(SPLITS, spec)
    shares = [options[part] for part in PARTS] if options["name"] == "ratio" else []
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
            "split benchmark: this graph has no splits of its own; write split: ratio-60-20-20 or "
            "split: per-class-20."
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
        raise ZooError(
            "split per-class: a node has no class here but targets or a number; write split: "
            "ratio-60-20-20."
        )
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
    first = _share(train, order)
    second = first + _share(val, order)
    third = _share(train + val + test, order)
    return {"train": order[:first], "val": order[first:second], "test": order[second:third]}


def per_class_20(
    y: np.ndarray,
    masks: Masks,
    drawn: int,
    *,
    val: Count = 500,
    test: Count = 1000,
    seed: Seed | None = None,
) -> Indices:
    """Draw 20 training nodes from every class, as Planetoid (arXiv 1603.08861) does.

    Args:
        val: validation nodes.
        test: test nodes.
        seed: pins the draw for all runs.
    """
    return per_class(y, masks, drawn, train=20, val=val, test=test, seed=seed)


def _of_each_class(train: int) -> Callable[..., Indices]:
    """Return the split `per-class` of so many training nodes, as an entry of the table."""

    def draw(
        y: np.ndarray, masks: Masks, drawn: int, *, val: Count = 1000, seed: Seed | None = None
    ) -> Indices:
        return per_class(y, masks, drawn, train=train, val=val, test=None, seed=seed)

    draw.__doc__ = f"""Draw {train} training nodes from every class; all the others are test nodes.

    The splits of images and texts in DIFFormer (arXiv 2301.09474).

    Args:
        val: validation nodes.
        seed: pins the draw for all runs.
    """
    return draw


def _shares(train: float, val: float, test: float) -> Callable[..., Indices]:
    """Return the split `ratio` of these shares, as an entry of the table."""

    def draw(y: np.ndarray, masks: Masks, drawn: int, *, seed: Seed | None = None) -> Indices:
        return ratio(y, masks, drawn, train=train, val=val, test=test, seed=seed)

    draw.__doc__ = f"""Draw {train}, {val} and {test} percent of all labelled nodes.

    Args:
        seed: pins the draw for all runs.
    """
    return draw


SPLITS = Table(
    "split",
    {
        "benchmark": benchmark,
        "per-class": per_class,
        "per-class-10": _of_each_class(10),
        "per-class-100": _of_each_class(100),
        "per-class-20": per_class_20,
        "per-class-200": _of_each_class(200),
        "per-class-400": _of_each_class(400),
        "per-class-50": _of_each_class(50),
        "ratio": ratio,
        "ratio-48-32-20": _shares(48, 32, 20),
        "ratio-50-25-25": _shares(50, 25, 25),
        "ratio-60-20-20": _shares(60, 20, 20),
        "ratio-70-10-20": _shares(70, 10, 20),
        "ratio-80-10-10": _shares(80, 10, 10),
    },
)
"""Word to function `(y, masks, seed of the run, *, options) -> indices of each part`."""


def _shuffled(nodes: np.ndarray, seed: int) -> np.ndarray:
    # The word keeps this stream apart from those of the same seed elsewhere: a random graph whose
    # classes come from a permutation would else be split along its classes.
    return np.random.default_rng([int.from_bytes(b"split"), seed]).permutation(nodes)


def _share(percent: float, order: np.ndarray) -> int:
    return int(percent / 100 * len(order) + _ROUNDING)


def _labelled(y: np.ndarray) -> np.ndarray:
    known = ~np.isnan(y) if y.dtype.kind == "f" else y >= 0
    return np.flatnonzero(known if y.ndim == 1 else known.any(axis=1))


def _hash(parts: Indices) -> str:
    digest = hashlib.sha256()
    for part in PARTS:
        digest.update(f"{part} {len(parts[part])} ".encode())
        digest.update(parts[part].astype("<i8").tobytes())
    return digest.hexdigest()
