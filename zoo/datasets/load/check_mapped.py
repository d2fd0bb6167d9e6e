"""The checks of `zoo data check` on a memory-mapped graph, by blocks, and on series in time."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from zoo.datasets import Dataset, GraphArrays
from zoo.datasets.files.labels import REGRESSION
from zoo.datasets.load.check_in_memory import (
    QUANTILES,
    homophily,
    none_of,
    scales,
)
from zoo.datasets.load.check_labels import check_balance, check_splits
from zoo.datasets.mapped.external_sort import ranges
from zoo.datasets.mapped.metadata import Meta, mapped, read_meta
from zoo.datasets.mapped.reader import read_on_disk
from zoo.datasets.mapped.writer import NUMBERS, blocks, sha256
from zoo.errors import Finding, refused_by

_AGAIN = "copy the folder again, or write it again with `zoo data prepare`"


class Ends(NamedTuple):
    """What the edges of a block of nodes are, as far as they are right.

    Attributes:
        wrong: what is wrong with them first, or nothing.
        up: a sum over the edges to a higher node, which is `down`, that over the edges to a lower
            one, only if each edge is there in both directions.
        down: as above.
        same: edges without loops that join nodes of one class.
        ends: (C,) edges without loops of which a class is one end, both ends labelled.
    """

    wrong: str
    up: int
    down: int
    same: int
    ends: np.ndarray


def check_on_disk(folder: Path) -> list[Finding]:
    """Return all findings on an on-disk graph: checksums, edges, features, labels and splits."""
    found = refused_by("folder", lambda: read_meta(folder))
    if found:
        return found
    meta = read_meta(folder)
    found = check_files(folder, meta)
    refused = refused_by("folder", lambda: read_on_disk(folder))
    if refused:
        return found + refused
    data = read_on_disk(folder)
    found += check_degrees(folder, meta) + check_edges(folder, meta, data)
    masks = data.masks and {part: mask.numpy() for part, mask in data.masks.items()}
    nothing = np.zeros((0, 2), np.int64), np.zeros((meta.nodes, 0), np.float32)
    known = GraphArrays(nothing[0], data.y.numpy(), nothing[1], masks, label_names=data.labels)
    found += check_rows(folder, meta)
    return found + check_balance(known, data.task) + check_splits(known, data.task)


def check_files(folder: Path, meta: Meta) -> list[Finding]:
    """Compare each file with the SHA-256 that was written down for it."""
    wrong = []
    for name, array in tqdm(meta.arrays.items(), "checksums", disable=None):
        path = folder / f"{name}.npy"
        if not path.is_file() or sha256(path) != array.sha256:
            wrong.append(path.name)
    if wrong:
        return [Finding("files", "fix", f"{', '.join(wrong)} changed since written", _AGAIN)]
    return [Finding("files", "good", f"{len(meta.arrays)} with the checksums in meta.json")]


def check_degrees(folder: Path, meta: Meta) -> list[Finding]:
    """Say how many neighbours nodes have; opening has looked at each number of `indptr.npy`."""
    counts = np.zeros(0, np.int64)
    for block in blocks(meta.nodes, NUMBERS):
        indptr = _numbers(folder, "indptr", meta, slice(block.start, block.stop + 1))
        degree = np.diff(indptr) - 1
        more = np.bincount(degree, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    edges = (meta.edges - meta.nodes) // 2
    below = np.cumsum(counts)
    spread = {name: int(np.searchsorted(below, each * (meta.nodes - 1), "right"))
              for name, each in QUANTILES.items()}  # fmt: skip
    text = f"{meta.nodes:,} nodes; {edges:,} edges, without direction"
    return [
        Finding("size", "good", text, values={"nodes": meta.nodes, "edges": edges}),
        none_of("isolated nodes", int(counts[0]), f"{counts[0]:,}",
                "only its features tell of a node without edges: see that no edge is lost",
                {"isolated": int(counts[0])}),
        Finding("degrees", "good", ", ".join(f"{name} {each:g}" for name, each in spread.items()),
                values=spread),
    ]  # fmt: skip


def check_edges(folder: Path, meta: Meta, data: Dataset) -> list[Finding]:
    """Look at `indices.npy`: ascending, no node twice, loops, and both directions of each edge."""
    classed = data.y.ndim == 1 and data.task != REGRESSION
    labels = data.y.numpy() if classed else np.full(meta.nodes, -1)
    up = down = same = 0
    ends = np.zeros(max(meta.classes, 1), np.int64)
    indptr = mapped(folder, "indptr", meta)
    for first, last in tqdm(list(ranges(indptr)), "edges", unit=" blocks", disable=None):
        sources = _numbers(folder, "indices", meta, slice(*indptr[[first, last]].tolist()))
        each = _look(first, sources, np.diff(indptr[first : last + 1]), labels, len(ends))
        if each.wrong:
            return [Finding("edges", "fix", each.wrong, _AGAIN)]
        up, down = (up + each.up) % 2**64, (down + each.down) % 2**64
        same, ends = same + each.same, ends + each.ends
    if up != down:
        text = "some edges are there in one direction only"
        return [Finding("edges", "fix", text, "write the folder with `zoo data prepare`")]
    found = [Finding("edges", "good", "both directions, ascending, one self-loop per node")]
    return found + ([homophily(same / ends.sum(), ends)] if ends.any() else [])


def check_rows(folder: Path, meta: Meta) -> list[Finding]:
    """Look at the features: what they range over, and whether all are finite."""
    width = meta.arrays["features"].shape[1]
    if width == 0:
        fix = "train with an encoding, such as `encoding={name: laplacian, k: 8}`, or add columns"
        return [Finding("features", "look", "none", fix, {"features": 0})]
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    total, squares, shift = np.zeros(width), np.zeros(width), 0.0
    for block in tqdm(list(blocks(meta.nodes, max(1, NUMBERS // width))), "features", disable=None):
        x = _numbers(folder, "features", meta, block).astype(np.float32)
        if not (finite := np.isfinite(x).all(axis=1)).all():
            text = f"row {block.start + int((~finite).argmax())} of features.npy is not finite"
            return [Finding("missing features", "fix", text, _AGAIN)]
        low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
        if block.start == 0:  # sums of squares of what is near 0 lose no digits
            shift = x.mean(axis=0)
        x = x - shift
        total += x.sum(axis=0, dtype=np.float64)
        squares += np.square(x, dtype=np.float64).sum(axis=0)
    spread = np.sqrt(np.maximum(squares / meta.nodes - np.square(total / meta.nodes), 0))
    spread[low == high] = 0
    mean = total / meta.nodes + shift
    values = {"features": width, "least": float(low.min()), "most": float(high.max())}
    text = f"{width:,}, from {values['least']:g} to {values['most']:g}"
    found = [scales(f"{text}, fp{8 * int(meta.arrays['features'].type[2:])}", mean, spread, values)]
    constant = np.flatnonzero(low == high)
    if len(constant):
        names = meta.feature_names or [f"column {each}" for each in range(width)]
        text = f"{len(constant):,}: {', '.join(names[each] for each in constant[:5])}"
        fix = "they tell nothing; leave them out"
        found.append(Finding("constant features", "look", text, fix, {"constant": len(constant)}))
    return found


def _numbers(folder: Path, name: str, meta: Meta, where: slice) -> np.ndarray:
    """Return a part of an array, read into memory; its map is closed again."""
    return np.array(mapped(folder, name, meta)[where])


def _look(first: int, sources, counts, labels: np.ndarray, classes: int) -> Ends:
    """Look at the neighbours `sources` of the nodes from `first` on, `counts` of each."""
    nodes, none = len(labels), np.zeros(classes, np.int64)
    targets = np.repeat(np.arange(first, first + len(counts)), counts)
    outside = (sources < 0) | (sources >= nodes)
    fails = np.zeros(len(sources), bool)
    fails[1:] = (sources[1:] <= sources[:-1]) & (targets[1:] == targets[:-1])
    if outside.any() or fails.any():
        node = targets[(outside | fails).argmax()]
        what = "lead out of the graph" if outside.any() else "do not ascend, or are there twice"
        return Ends(f"neighbours of node {node} {what}", 0, 0, 0, none)
    loop = sources == targets
    if loop.sum() < len(counts):
        node = np.setdiff1d(np.arange(first, first + len(counts)), targets[loop])[0]
        return Ends(f"node {node} has no self-loop", 0, 0, 0, none)
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    mixed = _mix(low.astype(np.uint64) * np.uint64(nodes) + high.astype(np.uint64))
    up, down = (int(mixed[where].sum()) for where in (sources < targets, sources > targets))
    one, other = labels[sources[~loop]], labels[targets[~loop]]
    known = (one >= 0) & (other >= 0)
    ends = np.bincount(one[known].astype(np.int64), minlength=classes)
    return Ends("", up, down, int((one[known] == other[known]).sum()), ends)


def _mix(keys: np.ndarray) -> np.ndarray:
    """Return numbers of 64 bits (E,) that are as good as drawn for each key (SplitMix64)."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))
