"""Write an on-disk graph from streams of edges and features, in bounded memory and atomically.

Edges become CSR by an external bucket sort: both directions of each are written to bucket files,
one for each range of target nodes, as keys `target * N + source`; then each bucket is sorted in
memory and its duplicates are dropped. `SELECT DISTINCT key ORDER BY key` of DuckDB takes more than
three times as long, and more memory than it is allowed, see `benchmarks/libraries.py`; Arrow sorts
in memory only.
"""

import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.lib import format as npy
from tqdm import tqdm

from zoo.config.options import Spec, pick
from zoo.data.dataset import MASKLESS_SPLIT
from zoo.data.features import FEATURES
from zoo.data.files.graph_arrays import GraphArrays, check_ids, check_masks
from zoo.data.mapped.reader import META, Array, Meta, check_replaceable
from zoo.errors import ZooError
from zoo.system.files import draft_folder, replace_folder, writing
from zoo.tasks.labels import NODE_METRICS, check_labels, check_task, classes_of, infer_task

_BY_ROW = ("raw", "row")  # the words of `FEATURES` that need one row of features at a time

NUMBERS = 2**24
"""Numbers of features that are held at a time."""

BLOCK = 2**21
"""Edges that a source of edges gives at a time."""

_BUCKETS = 64
_NARROW = 2**31  # entries below which their places fit into 32 bits
_MOST_NODES = 3_000_000_000  # whose numbers, multiplied, fit into 64 bits
_COPIES = 4  # of a bucket that are held at a time, at most


class Stream(NamedTuple):
    """A graph whose edges and features come block by block, each time they are asked for.

    Attributes:
        nodes: all else that is known of the nodes.
        edges: gives edges (B, 2) of node numbers, in any order and direction, repeated or not.
        features: given B, gives the features of all nodes in order, at most B rows (B, F) a time.
        dim: F.
        split: word of the default split; None: that of the masks, or a ratio.
        transform: what was done to the features.
        half: whether the features are fp16.
        made: what it was made from, to be told in `meta.json`.
    """

    nodes: GraphArrays
    edges: Callable[[], Iterable[np.ndarray]]
    features: Callable[[int], Iterable[np.ndarray]]
    dim: int
    split: str | None = None
    transform: Spec = "raw"
    half: bool = False
    made: dict[str, Any] = {}


def in_blocks(x: np.ndarray) -> Callable[[int], Iterator[np.ndarray]]:
    """Return what gives features (N, F), also of a mapped array, block by block."""
    return lambda size: (x[block] for block in blocks(len(x), size))


def write_on_disk(
    stream: Stream,
    folder: Path | str,
    *,
    half: bool = False,
    memory: float = 2.0,
    features: Spec = "raw",
) -> None:
    """Write an on-disk graph; until it is whole it lies beside its place, hidden.

    Args:
        stream: the graph.
        folder: what to create or replace.
        half: write fp16 features.
        memory: GiB of edges to hold at a time; features and labels take some more.
        features: what is done to the features first; a word that looks at one row at a time.

    Raises:
        ZooError: what the stream gives is no graph, or the disk is full; or the folder is there and
            holds anything else than such a graph. Nothing is left behind, and a folder to replace
            is as it was.
    """
    folder = Path(folder).resolve()  # a link may lead to another disk
    features = features["name"] if features in [{"name": name} for name in _BY_ROW] else features
    if features not in _BY_ROW:
        raise ZooError(
            f"`features: {features}` looks at all rows at once, and here one is seen at a time; "
            f"write features={' or '.join(_BY_ROW)}, or do it before."
        )
    if folder.exists():
        check_replaceable(folder)
    stream = stream._replace(nodes=_check(stream.nodes))
    with draft_folder(folder) as draft:
        try:
            _write(stream, draft, half or stream.half, memory, features)
        except OSError as error:
            raise ZooError(f"what {folder.name} is made from cannot be read ({error}).") from None
        with writing(folder):
            if folder.exists():  # others may have written there meanwhile
                check_replaceable(folder)
            replace_folder(folder, draft)


def _check(arrays: GraphArrays) -> GraphArrays:
    labels = check_labels(arrays.labels, arrays.task)
    task = arrays.task or infer_task(labels)
    check_task(labels, task)
    ids = None if arrays.ids is None else check_ids(arrays.ids, len(labels))
    masks = check_masks(arrays.masks, len(labels))
    return arrays._replace(labels=labels, task=task, masks=masks, ids=ids)


def _write(stream: Stream, draft: Path, half: bool, memory: float, features: Spec) -> None:
    known = stream.nodes
    nodes, masks = len(known.labels), known.masks or {}
    shapes = write_neighbours(stream.edges(), nodes, draft, int(memory * 2**30))
    _write_features(stream, draft, half, features)
    times = None if known.times is None else known.times.astype(np.float64)
    arrays = {"labels": known.labels, "ids": known.ids, "times": times, "groups": known.groups}
    arrays |= {part: np.nonzero(mask)[1] for part, mask in masks.items()}
    for name, array in ((name, array) for name, array in arrays.items() if array is not None):
        with ArrayFile(draft / f"{name}.npy", array.dtype, array.shape[1:]) as file:
            file.append(array)
    meta = Meta(
        format="graph on disk",
        version=1,
        nodes=nodes,
        edges=shapes["indices"][0],
        task=known.task,
        metric=NODE_METRICS[known.task],
        split=stream.split or ("benchmark" if masks else MASKLESS_SPLIT),
        classes=classes_of(known.labels, known.label_names),
        labels=known.label_names and list(known.label_names),
        feature_names=known.feature_names and list(known.feature_names),
        transform=features if stream.transform == "raw" else stream.transform,
        splits={part: mask.sum(axis=1).tolist() for part, mask in masks.items()} or None,
        made={"zoo": metadata.version("graph-transformer-zoo"), **stream.made},
        learnt=known.learnt and list(known.learnt),
        arrays={path.stem: _described(path) for path in sorted(draft.glob("*.npy"))},
    )
    exclude = set() if known.learnt else {"learnt"}  # a former version knows no such key
    with writing(draft / META), (draft / META).open("w") as file:
        file.write(meta.model_dump_json(indent=1, exclude=exclude) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _write_features(stream: Stream, draft: Path, half: bool, features: Spec) -> None:
    dtype = np.float16 if half else np.float32
    nodes, size = len(stream.nodes.labels), max(1, NUMBERS // max(1, stream.dim))
    with (
        ArrayFile(draft / "features.npy", dtype, (stream.dim,)) as file,
        tqdm(total=nodes, desc="features", unit=" nodes", disable=None) as progress,
    ):
        for rows in stream.features(size):
            with np.errstate(over="ignore"):  # what overflows becomes infinite and is found below
                rows = pick(FEATURES, features, torch.from_numpy(rows.astype(np.float32))).numpy()
                rows = rows.astype(dtype)
            wrong = ~np.isfinite(rows).all(axis=1)
            if wrong.any():
                raise ZooError(
                    f"the features of node {len(file) + int(wrong.argmax())} are not finite, or "
                    f"too large for {np.dtype(dtype)}; replace what is missing"
                    f"{', or leave out --half' if half else ''}."
                )
            file.append(rows)
            progress.update(len(rows))
        if len(file) != nodes:
            raise ZooError(f"there are features of {len(file):,} nodes, and labels of {nodes:,}.")


def _described(path: Path) -> Array:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return Array(shape=list(array.shape), type=array.dtype.str, sha256=sha256(path))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blocks(count: int, size: int) -> Iterator[slice]:
    """Give the slices that cut `count` rows into blocks of at most `size`."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


# Edges to CSR


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
    pairs = (block.T.astype(np.int64) for block in blocks)
    keys = (np.concatenate([s * nodes + t, t * nodes + s]) for s, t in pairs)
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


class ArrayFile:
    """An `.npy` file that rows are appended to; the header is completed when it is closed."""

    def __init__(self, path: Path, dtype: type, columns: tuple[int, ...] = ()):
        """Begin a file of numbers whose rows have the shape `columns`."""
        self._dtype, self._columns, self._rows = np.dtype(dtype), columns, 0
        with writing(path):
            self._file = path.open("wb")
            self._write_header()

    def __len__(self) -> int:
        return self._rows

    def __enter__(self) -> "ArrayFile":
        return self

    def __exit__(self, *error: object) -> None:
        with writing(self._file.name):
            if error[0] is None:
                self._file.seek(0)
                self._write_header()
                self._file.flush()
                os.fsync(self._file.fileno())
            self._file.close()

    def append(self, rows: np.ndarray) -> None:
        """Write rows (B, *columns), in the type of the file."""
        rows = np.ascontiguousarray(rows, self._dtype)
        with writing(self._file.name):
            self._file.write(rows.data)
        self._rows += len(rows)

    def _write_header(self) -> None:
        # numpy leaves room in it for any number of rows, so that its length does not change.
        shape = (self._rows, *self._columns)
        header = {
            "descr": npy.dtype_to_descr(self._dtype), "fortran_order": False, "shape": shape
        }  # fmt: skip
        npy.write_array_header_1_0(self._file, header)
