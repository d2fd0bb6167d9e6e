"""Write an on-disk graph from streams of edges and features, in bounded memory and atomically."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from zoo.config.options import Spec, pick
from zoo.data.dataset import MASKLESS_SPLIT
from zoo.data.features import FEATURES
from zoo.data.files.graph_arrays import check_ids, check_masks
from zoo.data.mapped.array_file import ArrayFile
from zoo.data.mapped.external_sort import write_neighbours
from zoo.data.mapped.reader import META, Array, Meta, check_replaceable
from zoo.errors import ZooError
from zoo.system.files import draft_folder, replace_folder, writing
from zoo.tasks.labels import NODE_METRICS, check_labels, check_task, classes_of, infer_task

_BY_ROW = ("raw", "row")
"""The words of `FEATURES` that need one row of features at a time."""

NUMBERS = 2**24
"""Numbers of features that are held at a time."""


class Stream(NamedTuple):
    """A graph whose edges and features come block by block, each time they are asked for.

    Attributes:
        edges: gives edges (B, 2) of node numbers, in any order and direction, repeated or not.
        features: given B, gives the features of all nodes in order, at most B rows (B, F) a time.
        dim: F.
        labels: (N,) or (N, T), as in `GraphArrays`.
        masks: as in `GraphArrays`.
        ids: as in `GraphArrays`.
        label_names: as in `GraphArrays`.
        feature_names: as in `GraphArrays`.
        task: what the labels are for; None: as their shape says.
        split: word of the default split; None: that of the masks, or a ratio.
        transform: what was done to the features.
        half: whether the features are fp16.
        made: what it was made from, to be told in `meta.json`.
        times: as in `GraphArrays`.
        groups: as in `GraphArrays`.
        learnt: as in `GraphArrays`.
    """

    edges: Callable[[], Iterable[np.ndarray]]
    features: Callable[[int], Iterable[np.ndarray]]
    dim: int
    labels: np.ndarray
    masks: dict[str, np.ndarray] | None = None
    ids: np.ndarray | None = None
    label_names: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    task: str | None = None
    split: str | None = None
    transform: Spec = "raw"
    half: bool = False
    made: dict[str, Any] = {}
    times: np.ndarray | None = None
    groups: np.ndarray | None = None
    learnt: tuple[Any, ...] | None = None


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
    stream = _check(stream)
    with draft_folder(folder) as draft:
        try:
            _write(stream, draft, half or stream.half, memory, features)
        except OSError as error:
            raise ZooError(f"what {folder.name} is made from cannot be read ({error}).") from None
        with writing(folder):
            if folder.exists():  # others may have written there meanwhile
                check_replaceable(folder)
            replace_folder(folder, draft)


def _check(stream: Stream) -> Stream:
    labels = check_labels(stream.labels, stream.task)
    task = stream.task or infer_task(labels)
    check_task(labels, task)
    masks = check_masks(stream.masks, len(labels))
    ids = None if stream.ids is None else check_ids(stream.ids, len(labels))
    split = stream.split or ("benchmark" if masks else MASKLESS_SPLIT)
    return stream._replace(labels=labels, task=task, masks=masks, ids=ids, split=split)


def _write(stream: Stream, draft: Path, half: bool, memory: float, features: Spec) -> None:
    nodes, masks = len(stream.labels), stream.masks or {}
    shapes = write_neighbours(stream.edges(), nodes, draft, int(memory * 2**30))
    _write_features(stream, draft, half, features)
    times = None if stream.times is None else stream.times.astype(np.float64)
    arrays = {"labels": stream.labels, "ids": stream.ids, "times": times, "groups": stream.groups}
    arrays |= {part: np.nonzero(mask)[1] for part, mask in masks.items()}
    for name, array in ((name, array) for name, array in arrays.items() if array is not None):
        with ArrayFile(draft / f"{name}.npy", array.dtype, array.shape[1:]) as file:
            file.append(array)
    meta = Meta(
        format="graph on disk",
        version=1,
        nodes=nodes,
        edges=shapes["indices"][0],
        task=stream.task,
        metric=NODE_METRICS[stream.task],
        split=stream.split,
        classes=classes_of(stream.labels, stream.label_names),
        labels=stream.label_names and list(stream.label_names),
        feature_names=stream.feature_names and list(stream.feature_names),
        transform=features if stream.transform == "raw" else stream.transform,
        splits={part: mask.sum(axis=1).tolist() for part, mask in masks.items()} or None,
        made={"zoo": metadata.version("graph-transformer-zoo"), **stream.made},
        learnt=stream.learnt and list(stream.learnt),
        arrays={path.stem: describe_array(path) for path in sorted(draft.glob("*.npy"))},
    )
    exclude = set() if stream.learnt else {"learnt"}  # a former version knows no such key
    with writing(draft / META), (draft / META).open("w") as file:
        file.write(meta.model_dump_json(indent=1, exclude=exclude) + "\n")
        file.flush()
        os.fsync(file.fileno())


def _write_features(stream: Stream, draft: Path, half: bool, features: Spec) -> None:
    dtype = np.float16 if half else np.float32
    nodes, size = len(stream.labels), max(1, NUMBERS // max(1, stream.dim))
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


def describe_array(path: Path) -> Array:
    """Return what an array file holds: shape, type and checksum."""
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return Array(shape=list(array.shape), type=array.dtype.str, sha256=sha256(path))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blocks(count: int, size: int) -> Iterator[slice]:
    """Give the slices that cut `count` rows into blocks of at most `size`."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
