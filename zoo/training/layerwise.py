"""Layer-wise inference in bounded memory: exact logits of a graph whose layers do not fit.

A model looks beyond its input nodes only where it gathers from their neighbours, or sums over all
nodes. So the nodes are processed in row chunks, one pass over all chunks for each such place in the
model: what the chunks have there is written to a file, from which the next pass gathers the rows
that a chunk needs, or is added up.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from zoo.canonical_form import mark_canonical
from zoo.data import Dataset
from zoo.errors import ZooError
from zoo.graphs.adjacency import csc
from zoo.graphs.sampling import contained, induced, leading
from zoo.graphs.shard import Graph, Shard
from zoo.graphs.spmm import place
from zoo.system.files import refusal
from zoo.training.batches import Forward, FullBatch

EDGES = 2**18
"""In-edges of the nodes of a row chunk at most, but where one node has more."""

SOME = 12
"""Nodes on which a model is tried."""

TOLERANCE = 1e-2
"""How far, relative to the largest, answers may differ: in fp32 by 1e-6, in TF32 by 3e-3."""


class RowChunk(Shard):
    """Consecutive nodes and the edges that lead to them, in the place of the graph.

    Attributes:
        graph: the whole graph of N nodes.
        nodes: (n,) those of the chunk, its rows.
        reached: (m,) the nodes from which their edges come, in increasing order.
        block: a DGL block from the nodes reached to those of the chunk.
        count: N.
    """

    def __init__(self, graph: Graph, nodes: range, known: list[np.ndarray]):
        self.graph, self.nodes = graph, torch.arange(nodes.start, nodes.stop)
        self.reached, self.block = leading(graph, nodes)
        self.count = graph.num_nodes()
        self._known, self._turn = known, 0
        mark_canonical(self)

    @property
    def sums(self) -> RowChunk:
        """Who sums over all nodes: `total` of this chunk."""
        return self

    @property
    def order(self) -> Tensor:
        """Refuse: walks of several edges lead beyond what is reached."""
        raise ZooError(
            "`layerwise` follows single edges and this model walks along several. Write "
            "`orders: 1` where the model has it, or `evaluate: batches`, or `full`; in the place "
            "of `--layerwise`, `--batch-size`."
        )

    def batch_num_nodes(self) -> Tensor:
        """Return the nodes at hand, (1,)."""
        return torch.tensor([len(self.nodes)])

    def all_rows(self, x: Tensor) -> Tensor:
        """Return the rows reached, (m, ...), where this chunk gives x (n, ...).

        Raises:
            _Waits: the others have not come to this place yet.
        """
        return torch.from_numpy(self._next(x, gathers=True)[self.reached.numpy()]).to(x)

    def total(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Return the sums over all chunks.

        Raises:
            _Waits: the others have not come to this place yet.
        """
        flat = torch.cat([part.flatten() for part in parts])
        total = torch.from_numpy(self._next(flat, gathers=False)).to(flat)
        pieces = total.split([part.numel() for part in parts])
        return tuple(piece.view_as(part) for piece, part in zip(pieces, parts, strict=True))

    def _next(self, rows: Tensor, gathers: bool) -> np.ndarray:
        if self._turn == len(self._known):
            raise _Waits(rows, gathers)
        self._turn += 1
        return self._known[self._turn - 1]


class _Waits(Exception):
    """Raised where a chunk needs all others; has its rows for them to gather, or partial sums."""

    def __init__(self, rows: Tensor, gathers: bool):
        super().__init__()
        self.rows, self.gathers = rows, gathers


class Layerwise(FullBatch):
    """The whole graph, a row chunk at a time; files take N rows for each gathering.

    They lie in the folder for temporary files, TMPDIR, and in fp32. The work of a layer is done
    again for each gathering that follows.
    """

    def __init__(self, data: Dataset, device: torch.device | str, edges: int | None = None):
        self.data, self.device = data, torch.device(device)
        self.graph = data.graph.formats("csc")
        self.chunks = list(_row_chunks(csc(self.graph)[0], edges or EDGES))

    def size(self) -> tuple[int, float]:
        """Return how many nodes are at hand with the first chunk, and edges for each of them."""
        reached, block = leading(self.graph, self.chunks[0])
        return len(reached), block.num_edges() / len(reached)

    def check(self, forward: Forward) -> None:
        """Compare the logits of some nodes at once with those of each in a chunk of its own.

        Raises:
            ZooError: they differ: the model cannot be evaluated layer by layer.
        """
        some = _few(self.data)
        with torch.autocast(self.device.type, enabled=False):  # rounding would look like a fault
            apart = Layerwise(some, self.device, 1).logits(forward, torch.arange(len(some.x)))
            at_once = forward(place(some.graph, self.device), some.x.float().to(self.device))
        if (apart - at_once).abs().max() > TOLERANCE * at_once.abs().max():
            raise ZooError(
                "`layerwise` would change the answers of this model, which looks at nodes besides "
                "neighbours otherwise than by sums over all nodes (`zoo.nn.sum_over_nodes`). Write "
                "`evaluate: batches`, or `full`; in the place of `--layerwise`, `--batch-size`."
            )

    def logits(self, forward: Forward, nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C).

        Raises:
            ZooError: the files find no room.
        """
        wanted, back = nodes.unique(return_inverse=True)
        known: list[np.ndarray] = []
        with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
            while True:
                result = self._pass(forward, wanted, known, Path(folder))
                if isinstance(result, Tensor):
                    return result[back.to(self.device)]
                known.append(result)

    def _pass(self, forward, wanted: Tensor, known: list, folder: Path) -> Tensor | np.ndarray:
        """Run all chunks; return the logits of the wanted nodes, or what all chunks wait for."""
        result = None
        for nodes in tqdm(
            self.chunks, f"layer-wise, pass {len(known) + 1}", leave=False, disable=None
        ):
            try:
                logits = self._run_chunk(forward, nodes, known)
            except _Waits as waits:
                rows = waits.rows.float() if waits.gathers else waits.rows.double()
                rows = rows.cpu().numpy()
                if waits.gathers:
                    if result is None:
                        result = self._file(folder / f"{len(known)}.npy", rows)
                    result[nodes.start : nodes.stop] = rows
                else:
                    result = rows if result is None else result + rows
                continue
            if result is None:
                result = logits.new_zeros(len(wanted), *logits.shape[1:])
            here = contained(torch.arange(nodes.start, nodes.stop), wanted)
            places = torch.searchsorted(wanted, here.nonzero().squeeze(1) + nodes.start)
            result[places.to(self.device)] = logits[here.to(self.device)]
        return result

    def _file(self, path: Path, rows: np.ndarray) -> np.ndarray:
        shape = (len(self.data.x), *rows.shape[1:])
        size, free = 4 * math.prod(shape), shutil.disk_usage(path.parent).free
        if size > free:
            raise ZooError(
                f"`layerwise` has to write {size:,} bytes to {path.parent.parent}, where {free:,} "
                "are free. Name a folder with more room in TMPDIR, or write `evaluate: batches`; "
                "in the place of `--layerwise`, `--batch-size`."
            )
        try:
            memmap = np.lib.format.open_memmap(path, "w+", np.float32, shape)
            if hasattr(os, "posix_fallocate"):  # others may fill the disk meanwhile: take all now
                with path.open("r+b") as file:
                    os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
        except OSError as error:
            raise ZooError(
                f"`layerwise` cannot write {size:,} bytes to {path.parent.parent}: "
                f"{refusal(error, path)} TMPDIR names another folder for them."
            ) from None
        return memmap

    def _run_chunk(self, forward, nodes: range, known: list[np.ndarray]) -> Tensor:
        chunk = RowChunk(self.graph, nodes, known)
        return forward(chunk, self.data.x[nodes.start : nodes.stop].float().to(self.device))


def _few(data: Dataset) -> Dataset:
    """Return a small part: a node of most neighbours and some of them, with rows of all over x."""
    offsets, count = csc(data.graph)[0], len(data.x)
    most = int(offsets.diff().argmax())
    near, _ = leading(data.graph, range(most, most + 1))
    some = dict.fromkeys([most, *near[:SOME].tolist(), *range(min(count, SOME))])
    nodes = torch.tensor([*some][:SOME]).sort().values
    # Rows of neighbours may be alike, and those far apart less so.
    rows = torch.arange(len(nodes)) * count // len(nodes)
    part = mark_canonical(induced(data.graph, nodes))
    return dataclasses.replace(data, graph=part, x=data.x[rows])


def _row_chunks(offsets: Tensor, most: int) -> Iterator[range]:
    """Cut the nodes, whose in-neighbours begin at these offsets (N+1,), into row chunks."""
    start, end = 0, len(offsets) - 1
    while start < end:
        edges = min(int(offsets[start]) + most, int(offsets[-1]))
        stop = max(int(torch.searchsorted(offsets, edges, right=True)) - 1, start + 1)
        yield range(start, stop)
        start = stop
