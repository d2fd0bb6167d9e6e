"""On-disk graphs: a folder of plain arrays that are mapped into memory, for what is larger than it.

    meta.json      sizes, types, task, names, where it is from, and a SHA-256 of each file
    indptr.npy     (N+1,) int32, or int64 where that is needed
    indices.npy    (E,) of the same type: the neighbours of node i, ascending, i itself among them,
                   are those from indptr[i] to indptr[i+1]
    features.npy   (N, F) fp16 or fp32
    labels.npy     (N,) or (N, T), as in `Dataset.y`
    train.npy, val.npy, test.npy    int64 numbers of nodes, split after split; where there are any
    ids.npy        (N,) int64 or text; where there are any

`zoo.datasets.disk_writer` writes it, `zoo.disk_check` reads all of it. Nothing is ever unpickled.
"""

import warnings
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from dgl.convert import create_from_edges
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError
from torch import Tensor

from zoo.datasets.dataset import Dataset
from zoo.datasets.frames import SUFFIXES
from zoo.datasets.labels import METRICS, check_labels, check_task
from zoo.datasets.parts import SPLITS, Parts, check_masks
from zoo.errors import ZooError
from zoo.memory import available_memory
from zoo.structure import neighbours
from zoo.table import Spec

META = "meta.json"
PARTIAL = ".partial"
"""What a folder's name ends in until all of it is written."""

NEEDED = ("indptr", "indices", "features", "labels")
_TYPES = {"indptr": ("<i4", "<i8"), "indices": ("<i4", "<i8"), "features": ("<f2", "<f4"),
          "labels": ("<i8", "<f4"), **dict.fromkeys(SPLITS, ("<i8",)),
          "ids": ("<i8", "<U")}  # fmt: skip


class Array(BaseModel):
    """What a file of the folder holds: its shape, its type as numpy writes it, and its SHA-256."""

    model_config = ConfigDict(extra="forbid")
    shape: list[NonNegativeInt]
    type: str
    sha256: str


class Meta(BaseModel):
    """What `meta.json` says.

    Attributes:
        format: tells such a folder from others.
        version: of the format.
        nodes: N.
        edges: E, the entries of `indices`: both directions of each edge, and N self-loops.
        task: word of the task.
        metric: what results are measured by.
        split: word of the split where a recipe names none.
        classes: how many classes, or targets.
        labels: the name of each of them.
        feature_names: the name of each column.
        transform: what was done to the features before they were written.
        splits: nodes of `train`, `val` and `test` in each of the splits that come with the graph.
        made: what it was made from, and by which version of the zoo.
        arrays: file to what it holds.
    """

    model_config = ConfigDict(extra="forbid")
    format: Literal["graph on disk"]
    version: Literal[1]
    nodes: PositiveInt
    edges: PositiveInt
    task: Literal[tuple(METRICS)]
    metric: str
    split: str
    classes: NonNegativeInt
    labels: list[str] | None = None
    feature_names: list[str] | None = None
    transform: Spec = "raw"
    splits: dict[Literal[SPLITS], list[PositiveInt]] | None = None
    made: dict[str, Any] = {}
    arrays: dict[Literal[tuple(_TYPES)], Array]


def is_on_disk(path: Path) -> bool:
    """Return whether a path is that of an on-disk graph, be it whole or not."""
    if not path.is_dir():
        return False
    if any((path / f"nodes{suffix}").exists() for suffix in SUFFIXES):
        return False
    torn = path.name.endswith(PARTIAL) or (path / "indptr.npy").exists()
    return torn or (path / META).is_file()


def read_on_disk(folder: Path | str, *, features: Spec = "raw", task: str | None = None) -> Dataset:
    """Open an on-disk graph; nothing but labels and splits is read.

    `graph` lies over the mapped file of its edges, without a copy, and so does `x`, in the type in
    which it was written: fp16 features stay fp16 until rows of them are gathered, and whoever
    gathers rows makes fp32 of them.

    Sizes, types and both ends of `indptr` are checked; `zoo data check FOLDER` checks every number.

    Args:
        folder: that of `meta.json`.
        features: what was done to the features when they were written, or `raw` for whatever it
            was: they are not changed any more.
        task: what the labels are for; None: what `meta.json` says.

    Raises:
        ZooError: the folder is unfinished, damaged, or of another version of the zoo.
    """
    folder = Path(folder)
    try:
        meta = read_meta(folder)
        arrays = {name: mapped(folder, name, meta) for name in meta.arrays}
        return _dataset(folder, meta, arrays, features, task or meta.task)
    except ZooError as error:
        raise ZooError(f"{folder}: {error}") from None
    except OSError as error:
        raise ZooError(f"{folder}: it cannot be read ({error.strerror or error}).") from None


def read_whole(path: Path, task: str | None) -> Parts:
    """Read an on-disk graph into memory.

    Training opens it instead, and reads rows of it as they are needed.

    Args:
        path: the folder.
        task: what the labels are for; None: what `meta.json` says.

    Raises:
        ZooError: as `read_on_disk`, or there is not as much memory as all of it takes.
    """
    data = read_on_disk(path, task=task)
    indptr, indices = (each.numpy() for each in neighbours(data.graph))
    size = 40 * len(indices) + 8 * data.x.numel()
    if size > available_memory():
        raise ZooError(
            f"all of it at once takes about {size:,} bytes of memory, more than there are; leave "
            "it on disk: `dataset: FOLDER` trains on it, `zoo data check FOLDER` checks it."
        )
    targets = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    once = indices < targets
    edges = np.stack([indices[once], targets[once]], axis=1)
    masks = data.masks and {part: mask.numpy() for part, mask in data.masks.items()}
    x = data.x.float().numpy()
    names = data.labels, data.feature_names
    return Parts(edges, data.y.numpy(), x, masks, data.ids, *names, data.task)


def read_meta(folder: Path) -> Meta:
    """Return what `meta.json` says, checked against itself; raise ZooError without the folder."""
    if folder.name.endswith(PARTIAL):
        raise ZooError("this is what an unfinished `zoo data prepare` has left; run it again.")
    path = folder / META
    if not path.is_file():
        raise ZooError(
            f"there is no {META}, so that the folder is a part of an on-disk graph: copy all of "
            "it, or write it again with `zoo data prepare ... --on-disk`."
        )
    try:
        meta = Meta.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise ZooError(
            f"{META} is not that of an on-disk graph of version 1 ({where}: {first['msg']}); write "
            "the folder again with `zoo data prepare ... --on-disk`, or use the zoo that wrote it."
        ) from None
    _check_meta(meta)
    return meta


def mapped(folder: Path, name: str, meta: Meta) -> np.ndarray:
    """Return an array of the folder, mapped for reading.

    Raises:
        ZooError: the file is not there, or not the array that `meta.json` speaks of.
    """
    said, path = meta.arrays[name], folder / f"{name}.npy"
    again = f"Copy {path.name} again, or write the folder again with `zoo data prepare`."
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ZooError(f"{path.name} is missing. {again}") from None
    except (ValueError, EOFError, SyntaxError) as error:
        cause = " ".join(str(error).split())[:100]
        raise ZooError(f"{path.name} is damaged, or cut short ({cause}). {again}") from None
    if not isinstance(array, np.ndarray):
        raise ZooError(f"{path.name} is no .npy file. {again}")
    if list(array.shape) != said.shape or array.dtype.str != said.type:
        raise ZooError(
            f"{path.name} is {array.dtype.str} of the shape {array.shape}, and {META} says "
            f"{said.type} of the shape {tuple(said.shape)}. {again}"
        )
    size = path.stat().st_size - array.nbytes
    if not 0 < size < 4096:  # what stands before the numbers
        raise ZooError(f"{path.name} is longer than its {array.nbytes:,} bytes of numbers. {again}")
    return array


def tensor(array: np.ndarray) -> Tensor:
    """Return a tensor over an array without copying it; writing to it would end the process."""
    with warnings.catch_warnings():
        # Mapped for reading only: a map that may be written to counts as memory in use.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def masks_of(arrays: dict[str, np.ndarray], meta: Meta) -> dict[str, np.ndarray] | None:
    """Return the splits of a folder as masks (S, N), checked.

    Raises:
        ZooError: a node that is not there, or that is in two parts of a split.
    """
    if meta.splits is None:
        return None
    masks = {}
    for part, sizes in meta.splits.items():
        nodes = np.asarray(arrays[part])
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= meta.nodes):
            raise ZooError(f"{part}.npy holds nodes that are not among 0 to {meta.nodes - 1}.")
        masks[part] = np.zeros((len(sizes), meta.nodes), bool)
        masks[part][np.repeat(np.arange(len(sizes)), sizes), nodes] = True
    return check_masks(masks, meta.nodes)


def _dataset(folder: Path, meta: Meta, arrays, features: Spec, task: str) -> Dataset:
    if features not in ("raw", meta.transform):
        size = 4 * meta.nodes * meta.arrays["features"].shape[1] / 1e9
        raise ZooError(
            f"`features: {features}` would load all features, {size:,.1f} GB; write the graph with "
            "them: `zoo data prepare PATH NAME --on-disk features=row`."
        )
    indptr, indices = arrays["indptr"], arrays["indices"]
    if indptr[0] != 0 or indptr[-1] != meta.edges:
        raise ZooError(
            f"indptr.npy runs from {indptr[0]} to {indptr[-1]}, not from 0 to the {meta.edges} "
            "entries of indices.npy. Copy it again, or write the folder again."
        )
    labels = check_labels(np.array(arrays["labels"]), task)
    check_task(labels, task)
    if labels.dtype.kind == "i" and labels.max() >= meta.classes:
        raise ZooError(f"labels.npy holds {labels.max()}, and there are {meta.classes} classes.")
    masks = masks_of(arrays, meta)
    # dgl.graph would read all indices to find the largest: `zoo data check` does that.
    none = torch.empty(0, dtype=getattr(torch, indices.dtype.name))
    ends = (tensor(indptr), tensor(indices), none)
    return Dataset(
        name=folder.resolve().name,
        graph=create_from_edges("csc", ends, "_N", "_E", "_N", meta.nodes, meta.nodes),
        x=tensor(arrays["features"]),
        y=torch.from_numpy(labels),
        task=task,
        metric=METRICS[task],
        split=meta.split,
        masks=masks and {part: torch.from_numpy(mask) for part, mask in masks.items()},
        classes=meta.classes,
        ids=arrays.get("ids"),
        labels=meta.labels and tuple(meta.labels),
        feature_names=meta.feature_names and tuple(meta.feature_names),
        transform=meta.transform,
    )


def _check_meta(meta: Meta) -> None:
    """Refuse sizes and types that contradict each other."""
    arrays = meta.arrays
    wanted = {*NEEDED, *(meta.splits or ())}
    missing = sorted(wanted - set(arrays))
    if missing:
        raise ZooError(f"{META} does not speak of {', '.join(missing)}; write the folder again.")
    rows = {"indptr": meta.nodes + 1, "indices": meta.edges, "features": meta.nodes,
            "labels": meta.nodes, "ids": meta.nodes,
            **{part: sum(sizes) for part, sizes in (meta.splits or {}).items()}}  # fmt: skip
    for name, array in arrays.items():
        fits = name in rows and array.shape[:1] == [rows[name]]
        if not fits or not array.type.startswith(_TYPES[name]):
            shape = tuple(array.shape)
            raise ZooError(
                f"{META} says that {name}.npy is {array.type} of the shape {shape}, which is not "
                f"what {meta.nodes:,} nodes and {meta.edges:,} edges have; write the folder again."
            )
    flat = all(len(array.shape) == 1 for name, array in arrays.items()
               if name not in ("features", "labels"))  # fmt: skip
    same = arrays["indptr"].type == arrays["indices"].type
    wide = len(arrays["features"].shape) == 2
    named = meta.feature_names is None or [len(meta.feature_names)] == arrays["features"].shape[1:]
    even = len({len(sizes) for sizes in (meta.splits or {"": []}).values()}) == 1
    full = meta.splits is None or set(meta.splits) == set(SPLITS)
    if not (flat and same and wide and named and even and full):
        raise ZooError(
            f"{META} contradicts itself in its shapes or splits; write the folder again."
        )
