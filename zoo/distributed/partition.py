"""Partition a graph for several machines (METIS), and open the memory-mapped result.

`part.json` and the edges of each part are as `dgl.distributed.partition_graph` writes them, and
`dgl.distributed` serves them. DGL gives nodes new numbers, those of a part in a row. Beside it lie
`new.npy` and `old.npy` (N,), each node's number there and here; `offsets.npy` (N+1,), where the
edges to each new number begin; `x.npy` in the folder of each part, its features; and `zoo.json`.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import dgl
import numpy as np
import torch
from numpy.lib.format import open_memmap
from torch import Tensor

from zoo.config.options import Spec
from zoo.datasets import Dataset
from zoo.datasets.mapped.reader import tensor
from zoo.errors import ZooError
from zoo.graphs.adjacency import neighbours

CONFIG = "part.json"
_OURS = "zoo.json"
_ROWS = 2**16
"""Rows of features that are copied at a time."""


class Partition(NamedTuple):
    """An open folder; its arrays are mapped and not read.

    Attributes:
        config: `part.json`.
        name: the graph's name.
        columns: F, of its features.
        transform: what was done to the features, in the words of `FEATURES`.
        ends: the new number after the last one of each part, (R,).
        new: the new number of each node, (N,).
        old: the node of each new number, (N,).
        offsets: where the edges to each new number begin, its own loop the last of them, (N+1,).
    """

    config: Path
    name: str
    columns: int
    transform: Spec
    ends: Tensor
    new: Tensor
    old: Tensor
    offsets: Tensor

    def check(self, data: Dataset) -> None:
        """Raise ZooError unless the data are those that were partitioned, without an encoding.

        Raises:
            ZooError: names, nodes, features or what was done to them differ.
        """
        here = (data.name, len(data.x), data.x.shape[1], data.transform)
        there = (self.name, len(self.new), self.columns, self.transform)
        kinds = ("name", "nodes", "features", "`features:`")
        differ = [
            f"{kind} {one!r}, not {other!r}"
            for kind, one, other in zip(kinds, there, here, strict=True)
            if one != other
        ]
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
        ZooError: the folder is there already, or there are too few nodes for so many parts.
    """
    if folder.exists():
        raise ZooError(f"{folder} is there already; remove it, or write another folder.")
    if parts > len(data.x):
        raise ZooError(f"{len(data.x)} nodes cannot be cut into {parts} parts; write fewer.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix="."))
    try:
        said = _write(data, draft, parts)
        draft.chmod(0o755)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return said


def open_partition(config: Path | str) -> Partition:
    """Open the folder of a `part.json`.

    Raises:
        ZooError: it is not there, or not as `zoo data partition` writes it.
    """
    config = Path(config)
    try:
        told = json.loads(config.read_text())
        ours = json.loads((config.parent / _OURS).read_text())
        ends = torch.tensor([end for _, end in told["node_map"]["_N"]])
        names = ("new", "old", "offsets")
        arrays = [tensor(np.load(config.parent / f"{each}.npy", mmap_mode="r")) for each in names]
        found = Partition(
            config.absolute(), ours["name"], ours["columns"], ours["transform"], ends, *arrays
        )
        lengths = [len(each) - int(ends[-1]) for each in arrays]
    except (OSError, ValueError, TypeError, KeyError, IndexError) as error:
        said = " ".join(str(error).split())
        raise ZooError(
            f"{config} cannot be read ({type(error).__name__}: {said}). Write the `part.json` of a "
            "folder that `zoo data partition DATASET FOLDER --parts R` wrote."
        ) from None
    if lengths != [0, 0, 1]:
        raise ZooError(f"{config.parent}: its arrays are not of one length; write it again.")
    return found


def features_of(config: Path, part: int) -> Tensor:
    """Return the features of a part's nodes in the order of their new numbers, mapped."""
    return tensor(np.load(config.parent / f"part{part}" / "x.npy", mmap_mode="r"))


def _write(data: Dataset, folder: Path, parts: int) -> list[dict[str, int]]:
    graph, degrees = _loops_last(data.graph)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # where DGL says how it goes
            old, edges = dgl.distributed.partition_graph(
                graph, "part", parts, str(folder), return_mapping=True, graph_formats="coo"
            )
    except (IndexError, dgl.DGLError):  # what comes of a part without nodes
        raise ZooError(f"one of {parts} parts would have no nodes; write fewer.") from None
    del graph
    new = torch.empty_like(old)
    new[old] = torch.arange(len(old))
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(degrees[old], 0)])
    for name, array in {"new": new, "old": old, "offsets": offsets}.items():
        np.save(folder / f"{name}.npy", array.numpy())
    told = json.loads((folder / CONFIG).read_text())
    said = []
    for part, (start, end) in enumerate(told["node_map"]["_N"]):
        crossing, inside = _in_order(folder / f"part{part}" / "graph.dgl", edges)
        _write_features(data.x, old[start:end], folder / f"part{part}" / "x.npy")
        counts = {"nodes": end - start, "edges": inside, "other_parts": crossing}
        said.append({"part": part, **counts})
    ours = {"name": data.name, "columns": data.x.shape[1], "transform": data.transform}
    (folder / _OURS).write_text(json.dumps(ours))
    return said


def _loops_last(graph: dgl.DGLGraph) -> tuple[dgl.DGLGraph, Tensor]:
    """Return a canonical graph with each node's own loop after all other edges to it; degrees.

    The last edge takes the place of the loop, as in `zoo.graphs.sampling.neighbourhood`.
    """
    indptr, indices = (each.long() for each in neighbours(graph))
    degrees = indptr.diff()
    tips = torch.arange(len(degrees)).repeat_interleave(degrees)
    tails, last = indices.clone(), indptr[1:] - 1
    tails[indices == tips] = indices[last]
    tails[last] = torch.arange(len(degrees))
    return dgl.graph((tails, tips), num_nodes=len(degrees)), degrees


def _in_order(path: Path, edges: Tensor) -> tuple[int, int]:
    """Give the numbers of a part's edges to them in the order of the nodes that they lead to.

    DGL numbers them in another order. Those to one node are in the order that the graph had.

    Args:
        path: the graph of a part.
        edges: the number in the graph that was cut of each edge of all parts.

    Returns:
        How many edges of the part come from others, and how many it has.
    """
    [graph], _ = dgl.load_graphs(str(path))
    tails, tips = graph.edges(order="eid")
    own = graph.edata["inner_edge"].nonzero().squeeze(1)
    before = edges[graph.edata[dgl.EID][own]]
    order = own[torch.from_numpy(np.lexsort((before.numpy(), tips[own].numpy())))]
    crossing = int((graph.ndata["inner_node"][tails[own]] == 0).sum())
    tails[own], tips[own] = tails[order], tips[order]
    again = dgl.graph((tails, tips), num_nodes=graph.num_nodes())
    again.ndata.update(graph.ndata)
    again.edata.update(graph.edata)
    dgl.save_graphs(str(path), [again], formats="coo")
    return crossing, len(own)


def _write_features(x: Tensor, nodes: Tensor, path: Path) -> None:
    kind = torch.empty(0, dtype=x.dtype).numpy().dtype
    written = open_memmap(path, "w+", dtype=kind, shape=(len(nodes), x.shape[1]))
    for start in range(0, len(nodes), _ROWS):
        written[start : start + _ROWS] = x[nodes[start : start + _ROWS]].numpy()
    written.flush()
