"""Edge list to CSR in bounded memory: an external bucket sort.

Both directions of each edge are written to bucket files, one for each range of target nodes, as
keys `target * N + source`; then each bucket is sorted in memory and its duplicates are dropped.

`SELECT DISTINCT key ORDER BY key` of DuckDB takes more than three times as long, and more memory
than it is allowed, see `benchmarks/libraries.py`; Arrow sorts in memory only.
"""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

from zoo.data.mapped.array_file import ArrayFile
from zoo.errors import ZooError
from zoo.system.files import writing

BLOCK = 2**21
"""Edges that a source of edges gives at a time."""

_BUCKETS = 64
_NARROW = 2**31  # entries below which their places fit into 32 bits
_MOST_NODES = 3_000_000_000  # whose numbers, multiplied, fit into 64 bits
_COPIES = 4  # of a bucket that are held at a time, at most


def write_neighbours(
    blocks: Iterable[np.ndarray], nodes: int, folder: Path, memory: int
) -> dict[str, tuple[int, ...]]:
    """Write `indptr.npy` and `indices.npy` of the canonical graph into a folder.

    Args:
        blocks: edges (B, 2) between nodes 0 to N-1, in any order and direction, repeated or not.
        nodes: N.
        folder: where; files of buckets lie in it meanwhile, 16 bytes for each edge.
        memory: bytes to hold at a time, beside some blocks. One node's edges are never divided.

    Returns:
        The shape of each file.

    Raises:
        ZooError: too many nodes.
    """
    if nodes > _MOST_NODES:
        raise ZooError(f"{nodes:,} nodes are more than the {_MOST_NODES:,} that fit here.")
    limit = max(2**16, memory // _COPIES)
    keys = (_keys(block, nodes) for block in blocks)
    with tqdm(keys, "edges", unit=" blocks", disable=None) as progress:
        buckets, entries = _distribute(progress, 0, nodes, nodes, folder / "bucket")
    dtype = np.int32 if entries + nodes < _NARROW else np.int64
    with (
        ArrayFile(folder / "indptr.npy", dtype) as indptr,
        ArrayFile(folder / "indices.npy", dtype) as indices,
    ):
        indptr.append(np.zeros(1))
        for path, first, last in tqdm(buckets, "sorting", unit=" buckets", disable=None):
            for ends, sources in _sort(path, first, last, nodes, limit):
                indptr.append(ends + len(indices))
                indices.append(sources)
    return {"indptr": (nodes + 1,), "indices": (len(indices),)}


def check_edges_within(
    blocks: Iterable[np.ndarray], nodes: int, name: str, first: int, fix: str
) -> Iterator[np.ndarray]:
    """Give edges (B, 2) as they come, as long as they lead from nodes 0 to N-1 to such nodes.

    Args:
        blocks: edges (B, 2).
        nodes: N.
        name: what an edge is called, with {} for its number.
        first: the number of the first edge.
        fix: what to do about an edge that leads elsewhere.

    Raises:
        ZooError: the first edge that does.
    """
    for block in blocks:
        wrong = ((block < 0) | (block >= nodes)).any(axis=1)
        if wrong.any():
            at = int(wrong.argmax())
            raise ZooError(
                f"{name.format(first + at)} is {block[at].tolist()}, but there are {nodes:,} "
                f"nodes, 0 to {nodes - 1}; {fix}."
            )
        first += len(block)
        yield block


def ranges(indptr: np.ndarray) -> Iterator[tuple[int, int]]:
    """Give ranges of nodes, first to last, whose neighbours together are about a block."""
    nodes = len(indptr) - 1
    cuts = np.searchsorted(indptr, np.arange(0, int(indptr[-1]) + BLOCK, BLOCK))
    yield from itertools.pairwise(np.unique(np.append(cuts, nodes).clip(max=nodes)).tolist())


def _keys(block: np.ndarray, nodes: int) -> np.ndarray:
    source, target = block.T.astype(np.int64)
    return np.concatenate([source * nodes + target, target * nodes + source])


def _distribute(
    blocks: Iterable[np.ndarray], first: int, last: int, nodes: int, stem: Path
) -> tuple[list[tuple[Path, int, int]], int]:
    """Append keys to the bucket file of their range of nodes; return the buckets and a count."""
    width = -(-(last - first) // _BUCKETS)
    starts = np.append(np.arange(first, last, width), last)
    paths = [stem.with_name(f"{stem.name}-{number}") for number in range(len(starts) - 1)]
    for path in paths:
        with writing(path):
            path.touch()
    count = 0
    for keys in blocks:
        keys = np.sort(keys)
        cuts = np.searchsorted(keys, starts * nodes)
        for path, begin, end in zip(paths, cuts, cuts[1:], strict=False):
            if end > begin:
                with writing(path), path.open("ab") as file:
                    file.write(keys[begin:end].data)
        count += len(keys)
    ends = itertools.pairwise(starts.tolist())
    return [(path, *nodes) for path, nodes in zip(paths, ends, strict=True)], count


def _sort(
    path: Path, first: int, last: int, nodes: int, limit: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sort a bucket: yield the end of each node's neighbours, and the neighbours; delete its file.

    A bucket above the limit is divided again, into narrower ranges.
    """
    size = path.stat().st_size
    if size > limit and last - first > 1:
        buckets, _ = _distribute(_read(path), first, last, nodes, path)
        path.unlink()
        for bucket in buckets:
            yield from _sort(*bucket, nodes, limit)
        return
    keys = np.empty(size // 8 + last - first, np.int64)
    with path.open("rb") as file:
        file.readinto(keys[: size // 8].data)
    path.unlink()
    keys[size // 8 :] = np.arange(first, last) * (nodes + 1)  # the self-loops
    keys.sort()
    new = np.ones(len(keys), bool)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    keys = keys[new]
    ends = np.searchsorted(keys, np.arange(first + 1, last + 1) * nodes)
    yield ends, np.remainder(keys, nodes, out=keys)


def _read(path: Path) -> Iterator[np.ndarray]:
    with path.open("rb") as file:
        while len(keys := np.fromfile(file, np.int64, 2 * BLOCK)):
            yield keys
