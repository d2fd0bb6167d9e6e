"""Open an on-disk graph: its arrays are memory-mapped and read only where they are used."""

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from zoo.canonical_form import mark_canonical
from zoo.config.options import Spec
from zoo.data.dataset import Dataset
from zoo.data.files.graph_arrays import GraphArrays, check_masks
from zoo.data.mapped.metadata import Meta, mapped, read_meta
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import neighbours
from zoo.system.memory import available_memory
from zoo.tasks.labels import NODE_METRICS, check_labels, check_task

_ROWS = 2**18
"""Numbers of `indptr` that are looked at together."""


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
        arrays = {name: mapped(folder, name, meta) for name in meta.arrays}
        data = _dataset(folder, meta, arrays, task or meta.task)
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
    found = GraphArrays(edges, data.y.numpy(), x, masks, data.ids, *names, data.task)
    return found._replace(times=data.times, groups=data.groups, learnt=data.learnt)


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
    if 3 * meta.nodes * len(meta.splits["train"]) > available_memory():
        raise ZooError(f"{len(meta.splits['train']):,} splits do not fit into memory.")
    for part, sizes in meta.splits.items():
        nodes = np.asarray(arrays[part])
        if len(nodes) and (nodes.min() < 0 or nodes.max() >= meta.nodes):
            raise ZooError(f"{part}.npy holds nodes that are not among 0 to {meta.nodes - 1}.")
        masks[part] = np.zeros((len(sizes), meta.nodes), bool)
        masks[part][np.repeat(np.arange(len(sizes)), sizes), nodes] = True
    return check_masks(masks, meta.nodes)


def _check_offsets(indptr: np.ndarray, edges: int) -> None:
    """Refuse an `indptr` by which a node has not even itself, or what lies beyond `indices.npy`."""
    again = "Copy it again, or write the folder again."
    if indptr[0] != 0 or indptr[-1] != edges:
        raise ZooError(
            f"indptr.npy runs from {indptr[0]} to {indptr[-1]}, not from 0 to the {edges} "
            f"entries of indices.npy. {again}"
        )
    for start in range(0, len(indptr) - 1, _ROWS):
        rows = indptr[start : start + _ROWS + 1]
        wrong = rows[1:] <= rows[:-1]
        if wrong.any():
            raise ZooError(
                f"indptr.npy does not ascend at node {start + int(wrong.argmax())}. {again}"
            )


def _dataset(folder: Path, meta: Meta, arrays, task: str) -> Dataset:
    indptr, indices = arrays["indptr"], arrays["indices"]
    _check_offsets(indptr, meta.edges)
    labels = check_labels(np.array(arrays["labels"]), task)
    check_task(labels, task)
    if labels.dtype.kind == "i" and labels.max() >= meta.classes:
        raise ZooError(f"labels.npy holds {labels.max()}, and there are {meta.classes} classes.")
    masks = masks_of(arrays, meta)
    # dgl.graph would read all indices to find the largest: `zoo data check` does that.
    none = torch.empty(0, dtype=getattr(torch, indices.dtype.name))
    ends = (tensor(indptr), tensor(indices), none)
    create = dgl.convert.create_from_edges
    return Dataset(
        name=folder.resolve().name,
        graph=mark_canonical(create("csc", ends, "_N", "_E", "_N", meta.nodes, meta.nodes)),
        x=tensor(arrays["features"]),
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
