"""The format of on-disk graphs: a folder of memory-mapped arrays, and its `meta.json`.

`reader` opens it, `writer` writes it, `zoo.data.load.check` reads all of it:

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

from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveInt, ValidationError

from zoo.config.learnt_columns import LearntColumn
from zoo.config.options import Spec
from zoo.data.files.graph_arrays import PARTS
from zoo.data.mapped.array_file import open_mapped
from zoo.data.tables.read import SUFFIXES
from zoo.errors import ZooError
from zoo.tasks.labels import MOST_CLASSES, NODE_METRICS

META = "meta.json"

NEEDED = ("indptr", "indices", "features", "labels")
_TYPES = {"indptr": ("<i4", "<i8"), "indices": ("<i4", "<i8"), "features": ("<f2", "<f4"),
          "labels": ("<i8", "<f4"), **dict.fromkeys(PARTS, ("<i8",)),
          "ids": ("<i8", "<U"), "times": ("<f8",), "groups": ("<U",)}  # fmt: skip


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
    arrays: dict[Literal[tuple(_TYPES)], Array]


def is_on_disk(path: Path) -> bool:
    """Return whether a path is that of an on-disk graph, be it whole or not."""
    if not path.is_dir():
        return False
    if any((path / f"nodes{suffix}").exists() for suffix in SUFFIXES):
        return False
    return (path / "indptr.npy").exists() or (path / META).is_file()


class _Kind(BaseModel):
    """What `meta.json` of any version says."""

    format: Literal["graph on disk"]


def check_replaceable(folder: Path) -> None:
    """Refuse to replace anything but an on-disk graph, of any version and be it damaged.

    Raises:
        ZooError: its `meta.json` is not that of one, or it holds what is no part of one.
    """
    again = "Move it away, or write another name."
    try:
        _Kind.model_validate_json((folder / META).read_bytes())
    except (OSError, ValidationError):
        raise ZooError(
            f"{folder} is there and is no on-disk graph, which has a {META} of one. {again}"
        ) from None
    known = {META, *(f"{name}.npy" for name in _TYPES)}
    for each in sorted(folder.iterdir()):
        if each.name not in known or each.is_dir():
            raise ZooError(f"{folder} is no on-disk graph alone: it holds {each.name}. {again}")


def read_meta(folder: Path) -> Meta:
    """Return what `meta.json` says, checked against itself; raise ZooError without the folder."""
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
        array = open_mapped(path)
    except FileNotFoundError:
        raise ZooError(f"{path.name} is missing. {again}") from None
    except (OSError, MemoryError):  # which say nothing of the file
        raise
    except Exception as error:  # numpy raises what the bytes suggest
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


def _check_meta(meta: Meta) -> None:
    """Refuse sizes and types that contradict each other."""
    arrays = meta.arrays
    wanted = {*NEEDED, *(meta.splits or ())}
    missing = sorted(wanted - set(arrays))
    if missing:
        raise ZooError(f"{META} does not speak of {', '.join(missing)}; write the folder again.")
    rows = {"indptr": meta.nodes + 1, "indices": meta.edges, "features": meta.nodes,
            "labels": meta.nodes, **dict.fromkeys(("ids", "times", "groups"), meta.nodes),
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
    told = meta.labels is None or len(meta.labels) == meta.classes
    told &= meta.classes <= max(meta.nodes, MOST_CLASSES, *arrays["labels"].shape[1:])
    many = arrays["labels"].shape[1:] in ([], [meta.classes])
    even = len({len(sizes) for sizes in (meta.splits or {"": []}).values()}) == 1
    full = meta.splits is None or set(meta.splits) == set(PARTS)
    if not (flat and same and wide and named and told and many and even and full):
        raise ZooError(
            f"{META} contradicts itself in its shapes, names or splits; write the folder again."
        )
