"""Partition a graph for several machines (METIS), and open the memory-mapped result.

Nodes get new numbers, those of a part in a row. `part.json` says where each part ends, what was
cut, and what each file holds, with its SHA-256; beside it lie `new.npy` and `old.npy` (N,), each
node's number there and here, and `offsets.npy` (N+1,), where the neighbours of each new number
begin, without its own loop. The folder of each part holds `neighbours.npy`, their new numbers, and
`x.npy`, its features.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Spec
from zoo.datasets import Dataset
from zoo.datasets.files.prepared import BROKEN
from zoo.datasets.files.text_lines import Texts
from zoo.datasets.mapped.array_file import ArrayFile
from zoo.datasets.mapped.metadata import Array
from zoo.datasets.mapped.writer import blocks
from zoo.distributed.part_files import WHOLE, Told, describe, open_array, own_arrays, read_told
from zoo.errors import ZooError
from zoo.graphs.adjacency import neighbours
from zoo.graphs.sampling import clusters, lookups, ranges
from zoo.system.files import check_space, draft_folder, writing

CONFIG = "part.json"
_ROWS = 2**16
"""Rows of features that are copied at a time."""

_NUMBERS = 2**20
"""Neighbours that are looked at together."""

_SAMPLED = 2**12
"""Nodes by which a graph is known again."""


class Partition(NamedTuple):
    """An open folder; its arrays are mapped and not read.

    Attributes:
        config: `part.json`.
        name: the graph's name.
        columns: F, of its features.
        dtype: type of its features.
        transform: what was done to the features, in the words of `FEATURES`.
        ends: the new number after the last one of each part, (R,).
        new: the new number of each node, (N,).
        old: the node of each new number, (N,).
        offsets: where the neighbours of each new number begin, without its own loop, (N+1,).
        sample: SHA-256 of edges and features of some of the nodes.
        arrays: file, without its ending, to what it holds.
    """

    config: Path
    name: str
    columns: int
    dtype: torch.dtype
    transform: Spec
    ends: Tensor
    new: Tensor
    old: Tensor
    offsets: Tensor
    sample: str
    arrays: dict[str, Array]

    def check(self, data: Dataset) -> None:
        """Raise ZooError unless the data are those that were partitioned, without an encoding.

        Raises:
            ZooError: names, nodes, features or what was done to them differ.
        """
        _refuse_others(data)
        here = (data.name, len(data.x), data.x.shape[1], data.transform)
        there = (self.name, len(self.new), self.columns, self.transform)
        kinds = ("name", "nodes", "features", "`features:`")
        differ = [
            f"{kind} {one!r}, not {other!r}"
            for kind, one, other in zip(kinds, there, here, strict=True)
            if one != other
        ]
        if not differ and self.sample != _sample(data):
            differ = ["other edges or features"]
        if differ:
            raise ZooError(
                f"{self.config} is not of the recipe's data: it has {', '.join(differ)}. Write it "
                "again, `zoo data partition DATASET FOLDER`, with the options that the recipe has "
                "under `dataset:`; the columns of an encoding have to be among its features."
            )


def write_partition(data: Dataset, folder: Path, parts: int) -> list[dict[str, int]]:
    """Partition a graph with a small edge cut (METIS), all of its edges in memory.

    Args:
        data: the graph and its features.
        folder: is made, whole or not at all.
        parts: how many; as many as there will be machines.

    Returns:
        Of each part: `part`, `nodes`, `edges` that lead to them, and how many of those come from
        nodes of `other_parts`.

    Raises:
        ZooError: the folder is there already, or another process is writing it, there are too few
            nodes for so many parts, or the disk is full.
    """
    if folder.exists():
        raise ZooError(f"{folder} is there already; remove it, or write another folder.")
    if "distributed" not in data.batching:
        raise ZooError(f"{data.name} is no graph that could be cut into parts; name one.")
    _refuse_others(data)
    if parts > len(data.x):
        raise ZooError(f"{len(data.x)} nodes cannot be cut into {parts} parts; write fewer.")
    with draft_folder(folder) as draft, writing(folder):
        # The largest part has as many features as the others at least.
        check_space(folder, *[data.x.nbytes // parts] * parts, *[8 * len(data.x)] * 3)
        said = _write(data, draft, parts)
        draft.rename(folder)
    return said


def open_partition(config: Path | str) -> Partition:
    """Open the folder of a `part.json`; shapes, types and the numbers of some nodes are checked.

    The servers of its parts read all of each file before they answer.

    Raises:
        ZooError: it is not there, or not as `zoo data partition` writes it.
    """
    config = Path(config)
    try:
        told = read_told(config)
        arrays = [open_array(config.parent, each, told.arrays) for each in WHOLE]
        dtype = torch.from_numpy(np.empty(0, told.dtype)).dtype
        about = (told.name, told.columns, dtype, told.transform, torch.tensor(told.ends))
        found = Partition(config.absolute(), *about, *arrays, told.sample, told.arrays)
        _check_numbers(found)
    except (*BROKEN, IndexError) as error:
        said = " ".join(str(error).split())
        raise ZooError(
            f"{config} cannot be read ({type(error).__name__}: {said}). Name the `part.json` of a "
            "folder that `zoo data partition DATASET FOLDER --parts R` wrote, or write it again."
        ) from None
    return found


def _check_numbers(found: Partition) -> None:
    """Raise ValueError unless the arrays are of one length and the numbers of some nodes agree."""
    count = int(found.ends[-1])
    each_way = (found.new, found.old, found.offsets)
    if any(each.dtype != torch.int64 or each.dim() != 1 for each in each_way):
        raise ValueError("its arrays are no numbers of nodes")
    if (found.ends.diff() <= 0).any() or [len(each) - count for each in each_way] != [0, 0, 1]:
        raise ValueError("its arrays are not of one length")
    some = torch.arange(0, count, max(1, count // _SAMPLED))
    there = found.old[some]
    if there.min() < 0 or there.max() >= count or not torch.equal(found.new[there], some):
        raise ValueError("old.npy and new.npy contradict each other")


def part_of(config: Path, part: int) -> tuple[Tensor, Tensor]:
    """Return the neighbours of a part's nodes, and their features, mapped; by new number both.

    Raises:
        ZooError: one of them is missing or damaged.
    """
    found = open_partition(config)
    try:
        arrays = [open_array(config.parent, each, found.arrays) for each in own_arrays(part)]
        _check_part(found, part, *arrays)
    except (*BROKEN, IndexError) as error:
        said = " ".join(str(error).split())
        raise ZooError(
            f"part {part} of {config} cannot be read ({said}); copy it again, or partition the "
            "graph again."
        ) from None
    return arrays[0], arrays[1]


def _check_part(found: Partition, part: int, neighbours: Tensor, x: Tensor) -> None:
    """Raise ValueError unless a part has what its nodes have."""
    first, last = [0, *found.ends.tolist()][part : part + 2]
    offsets = found.offsets[first : last + 1]
    if (offsets.diff() < 0).any():
        raise ValueError("offsets.npy does not ascend")
    if neighbours.dtype != torch.int64 or neighbours.shape != (int(offsets[-1] - offsets[0]),):
        raise ValueError(f"neighbours.npy is {tuple(neighbours.shape)}, not what offsets.npy says")
    wanted = (last - first, found.columns)
    if x.shape != wanted or x.dtype != found.dtype:
        raise ValueError(f"x.npy is {x.dtype} of the shape {tuple(x.shape)}, not {wanted}")
    for rows in blocks(len(neighbours), _NUMBERS):
        least, most = neighbours[rows].aminmax()
        if least < 0 or most >= len(found.new):
            raise ValueError(f"neighbours.npy holds numbers from {least} to {most}")


def _write(data: Dataset, folder: Path, parts: int) -> list[dict[str, int]]:
    degrees, tails = lookups(data.graph)
    part = clusters(data.graph, parts)
    sizes = torch.bincount(part, minlength=parts)
    if not sizes.all():
        raise ZooError(f"one of {parts} parts would have no nodes; write fewer.")
    old = part.argsort(stable=True)
    new = torch.empty_like(old)
    new[old] = torch.arange(len(old))
    counts = degrees(old)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
    for name, array in {"new": new, "old": old, "offsets": offsets}.items():
        _write_rows(array, torch.arange(len(array)), folder / f"{name}.npy")
    said = []
    for number, nodes in enumerate(old.split(sizes.tolist())):
        (folder / f"part{number}").mkdir()
        to_neighbours, to_features = (folder / f"{each}.npy" for each in own_arrays(number))
        of_each = degrees(nodes)
        found = tails(nodes.repeat_interleave(of_each), ranges(torch.zeros_like(of_each), of_each))
        _write_rows(new, found, to_neighbours)
        _write_rows(data.x, nodes, to_features)
        crossing = int((part[found] != number).sum())
        edges = {"edges": len(found) + len(nodes), "other_parts": crossing}
        said.append({"part": number, "nodes": len(nodes), **edges})
    told = Told(
        name=data.name,
        columns=data.x.shape[1],
        dtype=str(_numpy(data.x.dtype)),
        transform=data.transform,
        sample=_sample(data),
        ends=sizes.cumsum(0).tolist(),
        arrays=describe(folder),
    )
    (folder / CONFIG).write_text(told.model_dump_json())
    return said


def _refuse_others(data: Dataset) -> None:
    """Refuse what a graph in parts does not keep: features of each split, and weights of edges."""
    if data.columns is not None and not isinstance(data.columns, Texts):
        raise ZooError(
            f"{data.name} is a table whose features are learnt of the training nodes; write them "
            "for good, `zoo data prepare PATH NAME`, and cut that graph into parts."
        )
    if data.graph.edata:
        raise ZooError(
            f"{data.name} has weights, directions or features of edges, and a graph in parts keeps "
            "none; write `weights: ignore` and `direction: both` under `dataset:`, without "
            "`edge_features`, or train by `train.batching=neighbours`."
        )


def _sample(data: Dataset) -> str:
    """Return the SHA-256 of where the neighbours of some nodes begin, and of their features."""
    count = len(data.x)
    nodes = torch.arange(0, count, max(1, count // _SAMPLED))
    offsets = neighbours(data.graph)[0][nodes].long()
    found = hashlib.sha256(str(data.graph.num_edges()).encode())
    for each in (offsets, data.x[nodes].float()):
        found.update(each.contiguous().numpy().tobytes())
    return found.hexdigest()


def _write_rows(x: Tensor, which: Tensor, path: Path) -> None:
    with ArrayFile(path, _numpy(x.dtype), x.shape[1:]) as file:
        for rows in which.split(_ROWS):
            file.append(x[rows].numpy())


def _numpy(dtype: torch.dtype) -> np.dtype:
    return torch.empty(0, dtype=dtype).numpy().dtype
