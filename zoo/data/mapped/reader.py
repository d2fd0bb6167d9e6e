"""Open an on-disk graph, a folder of memory-mapped arrays that are read only where they are used.

`writer` writes it, `zoo.data.load.check` reads all of it:

    meta.json      sizes, types, task, names, where it is from, and a SHA-256 of each file
    indptr.npy     (N+1,) int32, or int64 where that is needed
    indices.npy    (E,) of the same type: the neighbours of node i, ascending, i itself among them,
                   are those from indptr[i] to indptr[i+1]
    features.npy   (N, F) fp16 or fp32
    labels.npy     (N,) or (N, T), as in `Dataset.y`
    train.npy, val.npy, test.npy    int64 numbers of nodes, split after split; where there are any
    ids.npy        (N,) int64 or text; where there are any
    times.npy, groups.npy    (N,) fp64 and text, as in `Dataset`; where there are any

Nothing is ever unpickled.
"""

import os
import shutil
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError
from torch import Tensor

from zoo.canonical_form import mark_canonical
from zoo.config.learnt_columns import LearntColumn
from zoo.config.options import Spec
from zoo.data.dataset import Dataset
from zoo.data.files.graph_arrays import PARTS, GraphArrays, check_masks
from zoo.data.tables.read import SUFFIXES
from zoo.dgl import HAS_DGL, dgl
from zoo.errors import ZooError, cause
from zoo.graphs.adjacency import csc
from zoo.system.memory import available_memory
from zoo.tasks.labels import NODE_METRICS, check_labels, check_task

META = "meta.json"

_NEEDED = ("indptr", "indices", "features", "labels")
_ARRAYS = (*_NEEDED, *PARTS, "ids", "times", "groups")
_ROWS = 2**18  # numbers of `indptr` that are looked at together


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
        learnt: what features had been learnt of the columns of a table by, if it was one.
        arrays: file to what it holds.
    """

    model_config = ConfigDict(extra="forbid")
    format: Literal["graph on disk"]
    version: Literal[1]
    nodes: PositiveInt
    edges: PositiveInt
    task: Literal[tuple(NODE_METRICS)]
    metric: str
    split: str
    classes: NonNegativeInt
    labels: list[str] | None = None
    feature_names: list[str] | None = None
    transform: Spec = "raw"
    splits: dict[Literal[PARTS], list[PositiveInt]] | None = None
    made: dict[str, Any] = {}
    learnt: list[LearntColumn] | None = None
    arrays: dict[Literal[_ARRAYS], Array]


def is_on_disk(path: Path) -> bool:
    """Return whether a path is that of an on-disk graph, be it whole or not."""
    if not path.is_dir() or any((path / f"nodes{suffix}").exists() for suffix in SUFFIXES):
        return False
    return (path / "indptr.npy").exists() or (path / META).is_file()


class _Format(BaseModel):
    """What `meta.json` of any version says."""

    format: Literal["graph on disk"]


def check_replaceable(folder: Path) -> None:
    """Refuse to replace anything but an on-disk graph, of any version and be it damaged.

    Raises:
        ZooError: its `meta.json` is not that of one, or it holds what is no part of one.
    """
    fix = "Move it away, or write another name."
    try:
        _Format.model_validate_json((folder / META).read_bytes())
    except (OSError, ValidationError):
        raise ZooError(
            f"{folder} is there and is no on-disk graph, which has a {META} of one. {fix}"
        ) from None
    known = {META, *(f"{name}.npy" for name in _ARRAYS)}
    for path in sorted(folder.iterdir()):
        if path.name not in known or path.is_dir():
            raise ZooError(f"{folder} is no on-disk graph alone: it holds {path.name}. {fix}")


def read_meta(folder: Path) -> Meta:
    """Return what `meta.json` says; raise ZooError where it is missing, damaged, or another's."""
    path = folder / META
    if not path.is_file():
        raise ZooError(
            f"there is no {META}, so that the folder is a part of an on-disk graph: copy all of "
            "it, or move it away and write it with `zoo data prepare ... --on-disk`."
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
    rows = dict.fromkeys(meta.arrays, meta.nodes)
    rows |= {"indptr": meta.nodes + 1, "indices": meta.edges}
    rows |= {part: sum(sizes) for part, sizes in (meta.splits or {}).items()}
    wrong = [name for name in {*rows, *_NEEDED}
             if name not in meta.arrays or meta.arrays[name].shape[:1] != [rows[name]]]  # fmt: skip
    if wrong:
        raise ZooError(
            f"{META} contradicts itself: {', '.join(sorted(wrong))} of {meta.nodes:,} nodes and "
            f"{meta.edges:,} edges cannot have the shapes that it says; write the folder again."
        )
    return meta


def read_on_disk(folder: Path | str, *, features: Spec = "raw", task: str | None = None) -> Dataset:
    """Open an on-disk graph; nothing but labels, splits and `indptr` is read.

    `graph` lies over the mapped file of its edges, without a copy, and so does `x`, in the type in
    which it was written: fp16 features stay fp16 until rows of them are gathered, and whoever
    gathers rows makes fp32 of them.

    Sizes, types and `indptr` are checked, and neighbours as they are read; `zoo data check FOLDER`
    checks every number.

    Args:
        folder: that of `meta.json`.
        features: what is done to the features; something else than was done when they were written
            loads all of them, if there is memory for it.
        task: what the labels are for; None: what `meta.json` says.

    Raises:
        ZooError: the folder is unfinished, damaged, or of another version of the zoo.
    """
    folder = Path(folder)
    try:
        meta = read_meta(folder)
        data = _dataset(folder, meta, task or meta.task)
        if features in ("raw", {"name": "raw"}, data.transform, {"name": data.transform}):
            return data
        if data.transform != "raw":
            raise ZooError(f"its features were transformed already, by `{data.transform}`.")
        return data.transformed(features)
    except ZooError as error:
        raise ZooError(f"{folder}: {error}") from None
    except OSError as error:
        raise ZooError(f"{folder}: it cannot be read ({error.strerror or error}).") from None


def read_whole(path: Path, task: str | None) -> GraphArrays:
    """Map the folder that `zoo data prepare --on-disk` wrote; here all of it is read.

    Training opens it by `read_on_disk` instead, and reads rows of it as they are needed.

    Args:
        path: the folder.
        task: what the labels are for; None: what `meta.json` says.

    Raises:
        ZooError: as `read_on_disk`, or there is not as much memory as all of it takes.
    """
    data = read_on_disk(path, task=task)
    indptr, indices = (array.numpy() for array in csc(data.graph))
    size = 40 * len(indices) + 8 * data.x.numel()
    if size > available_memory():
        raise ZooError(
            f"all of it at once takes about {size:,} bytes of memory, more than there are; leave "
            "it on disk: `dataset: FOLDER` trains on it, `zoo data check FOLDER` checks it."
        )
    targets = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    once = indices < targets
    edges = np.stack([indices[once], targets[once]], axis=1)
    return data.arrays()._replace(edges=edges, features=data.x.float().numpy())


def _dataset(folder: Path, meta: Meta, task: str) -> Dataset:
    arrays = {name: _map(folder, name, meta) for name in meta.arrays}
    indptr, indices = arrays["indptr"], arrays["indices"]
    _check_offsets(indptr, meta.edges)
    labels = check_labels(np.array(arrays["labels"]), task)
    check_task(labels, task)
    if labels.dtype.kind == "i" and labels.max() >= meta.classes:
        raise ZooError(f"labels.npy holds {labels.max()}, and there are {meta.classes} classes.")
    masks = _read_masks(arrays, meta)
    none = torch.empty(0, dtype=getattr(torch, indices.dtype.name))
    lists = (_tensor(indptr), _tensor(indices), none)
    if HAS_DGL:  # whose `dgl.graph` would read all to find the largest: `zoo data check` does that
        graph = dgl.convert.create_from_edges(
            "csc", lists, "_N", "_E", "_N", meta.nodes, meta.nodes
        )
    else:
        graph = dgl.graph(("csc", lists), num_nodes=meta.nodes)
    return Dataset(
        name=folder.resolve().name,
        graph=mark_canonical(graph),
        x=_tensor(arrays["features"]),
        y=torch.from_numpy(labels),
        task=task,
        metric=NODE_METRICS[task],
        split=meta.split,
        masks=masks and {part: torch.from_numpy(mask) for part, mask in masks.items()},
        classes=meta.classes,
        ids=arrays.get("ids"),
        labels=meta.labels and tuple(meta.labels),
        feature_names=meta.feature_names and tuple(meta.feature_names),
        transform=meta.transform,
        times=arrays.get("times"),
        groups=arrays.get("groups"),
        learnt=meta.learnt and tuple(meta.learnt),
    )


def _map(folder: Path, name: str, meta: Meta) -> np.ndarray:
    """Map an array of the folder; raise ZooError if it is not the one that `meta.json` names."""
    array, noted = map_array(folder / f"{name}.npy"), meta.arrays[name]
    if (list(array.shape), array.dtype.str) != (noted.shape, noted.type):
        raise ZooError(
            f"{name}.npy is {array.dtype.str} of the shape {array.shape}, and {META} says "
            f"{noted.type} of the shape {tuple(noted.shape)}. Copy {name}.npy again, or write the "
            "folder again with `zoo data prepare`."
        )
    return array


def _check_offsets(indptr: np.ndarray, edges: int) -> None:
    """Refuse an `indptr` by which a node has not even itself, or what lies beyond `indices.npy`."""
    fix = "Copy it again, or write the folder again."
    if indptr[0] != 0 or indptr[-1] != edges:
        raise ZooError(
            f"indptr.npy runs from {indptr[0]} to {indptr[-1]}, not from 0 to the {edges} "
            f"entries of indices.npy. {fix}"
        )
    for start in range(0, len(indptr) - 1, _ROWS):
        wrong = np.diff(indptr[start : start + _ROWS + 1]) <= 0
        if wrong.any():
            node = start + int(wrong.argmax())
            raise ZooError(f"indptr.npy does not ascend at node {node}. {fix}")


def _read_masks(arrays: dict[str, np.ndarray], meta: Meta) -> dict[str, np.ndarray] | None:
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


def _tensor(array: np.ndarray) -> Tensor:
    """Return a tensor over an array without copying it; writing to it would end the process."""
    with warnings.catch_warnings():
        # Mapped for reading only: a map that may be written to counts as memory in use.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def map_array(path: Path, member: str | None = None) -> np.ndarray:
    """Map the array of an `.npy` file for reading, or of a member of an `.npz`.

    A member is unpacked first, into a file beside the archive that is gone with the array.

    Raises:
        ZooError: there is no such file, or it is no plain array of numbers, or a part of one.
    """
    try:
        if member is None:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        else:
            folder = path.parent if os.access(path.parent, os.W_OK) else None
            with (
                zipfile.ZipFile(path) as archive,
                archive.open(f"{member}.npy") as packed,
                tempfile.NamedTemporaryFile(suffix=".npy", dir=folder) as file,
            ):
                shutil.copyfileobj(packed, file)
                file.flush()
                array = np.load(file.name, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise ZooError(f"there is no file {path.name}; copy it again, or write its path.") from None
    except (OSError, MemoryError):  # which say nothing of the file
        raise
    except Exception as error:  # numpy and zipfile raise what the bytes suggest
        raise ZooError(
            f"{path.name} is damaged, cut short, or no plain array of numbers ({cause(error)}); "
            "copy or write it again."
        ) from None
    if not isinstance(array, np.ndarray):
        raise ZooError(f"{path.name} is no .npy file but an archive; copy or write it again.")
    return array
