"""What edges say of pairs of nodes: lengths of shortest paths, probabilities of random walks.

They are those of the undirected graph without self-loops, up to a number of steps, looked up
for the pairs that are asked for. A table is made once per graph: of all pairs inside each graph of
a batch where these take little or walks join most of them, else of the pairs that walks join, and
then kept on disk.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.per_graph import per_graph
from zoo.graphs.shard import Graph, whole
from zoo.system.cache import cached
from zoo.system.memory import available_memory, upload
from zoo.tracing import facts, graph_of, operator

VERSION = 1  # part of the key of every cached file: raise it when the numbers change

WHOLE = 2**22
"""Bytes of a table up to which it has all pairs, whose places are known and not looked for."""

FILLED = 0.25
"""Share of all pairs that walks join from which a larger table has all of them, too."""

_ROWS = 256  # nodes whose walks are followed at a time, where these are sparse
_NUMBERS = 2**22  # of walks that exist at a time, where they are dense


class PairTable(NamedTuple):
    """Numbers of pairs of nodes, those of each node side by side.

    Attributes:
        values: (M, K) of the pairs that it has.
        missing: (K,) of all others.
        offsets: (N + 1,) where the pairs of each node begin; in a table of all pairs (N,), where
            that with node 0 would be.
        others: (M,) the second node of each pair; None: all pairs inside each graph.
    """

    values: Tensor
    missing: Tensor
    offsets: Tensor
    others: Tensor | None

    def look_up(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the numbers (..., R, C, K) of rows (..., R) and columns (..., C), which are sets.

        A node is in one set only. Where a column repeats one of its set, the first has the numbers.
        """
        if self.others is None:
            places = self.offsets[rows].unsqueeze(-1) + columns.unsqueeze(-2)
            return self.values[places]
        shape = (*rows.shape, columns.shape[-1], -1)
        return self._found(rows.flatten(), columns.flatten(), shape[-2], rows.shape[-1]).view(shape)

    def _found(self, rows: Tensor, columns: Tensor, wide: int, high: int) -> Tensor:
        """Return (S * R * C, K) for rows (S * R,) and columns (S * C,) of S sets."""
        count, nowhere = len(self.offsets) - 1, len(columns)
        numbers = torch.arange(nowhere, device=rows.device)
        place = numbers.new_full((count,), nowhere)
        place.scatter_reduce_(0, columns, numbers, "amin")
        first = self.offsets[rows]
        many = self.offsets[rows + 1] - first
        row = torch.arange(len(rows), device=rows.device).repeat_interleave(many)
        entries = torch.arange(len(row), device=rows.device) + (first - many.cumsum(0) + many)[row]
        at = place[self.others[entries]]
        inside = (at // wide == row // high).nonzero().squeeze(1)
        found = self.missing.repeat(len(rows) * wide, 1)
        found[row[inside] * wide + at[inside] % wide] = self.values[entries[inside]]
        return found

    def to(self, device: torch.device) -> PairTable:
        """Return the table on a device."""
        parts = (self.values, self.missing, self.offsets)
        others = None if self.others is None else upload(self.others, device)
        return PairTable(*(upload(part, device) for part in parts), others)


def path_lengths(
    graph: Graph, rows: Tensor, columns: Tensor, hops: int, virtual: bool = False
) -> Tensor:
    """Return the lengths of the shortest paths between nodes, (..., R, C) int32.

    0 to `hops`, and hops + 1 where there is no path of so many edges.

    Args:
        graph: canonical, or a batch of such graphs.
        rows: (..., R) numbers of nodes.
        columns: (..., C) numbers of nodes; leading dimensions are sets, a node in one only.
        hops: the longest path that is followed.
        virtual: whether the last node of each graph is a virtual one, through which no path leads.

    Raises:
        ZooError: there is no memory for the pairs within so many edges.
    """
    if facts(graph):
        return _traced_lengths(id(graph), rows, columns, hops, virtual)
    return _lengths(graph, rows, columns, hops, virtual)


def walk_probabilities(graph: Graph, rows: Tensor, columns: Tensor, steps: int) -> Tensor:
    """Return the probabilities that a random walk from row i is at column j, (..., R, C, steps).

    After 0, 1, ..., steps - 1 steps: [I, M, M^2, ...]_ij with M = D^-1 A, in fp32; RRWP of GRIT
    (arXiv 2305.17589), equation 1. For the arguments see `path_lengths`.
    """
    if facts(graph):
        return _traced_walks(id(graph), rows, columns, steps)
    return _walks(graph, rows, columns, steps)


def return_probabilities(graph: Graph, steps: int, device: torch.device) -> Tensor:
    """Return P_ii of `walk_probabilities`, (N, steps) fp32."""
    nodes = torch.arange(facts(graph).nodes if facts(graph) else graph.num_nodes(), device=device)
    sets = nodes.unsqueeze(1)  # a node each
    return walk_probabilities(graph, sets, sets, steps).view(len(nodes), steps)


def _lengths(graph: Graph, rows: Tensor, columns: Tensor, hops: int, virtual: bool) -> Tensor:
    table = _on_device(graph, "lengths", hops + 1, virtual, rows.device)
    return table.look_up(rows, columns).squeeze(-1).int()


def _walks(graph: Graph, rows: Tensor, columns: Tensor, steps: int) -> Tensor:
    return _on_device(graph, "walks", steps, False, rows.device).look_up(rows, columns)


_PAIRS = "int number, Tensor rows, Tensor columns"


@operator(
    f"({_PAIRS}, int hops, bool virtual) -> Tensor",
    lambda _, rows, columns, *__: rows.new_empty(*rows.shape, columns.shape[-1], dtype=torch.int32),
)
def _traced_lengths(number: int, rows: Tensor, columns: Tensor, hops: int, virtual: bool) -> Tensor:
    return _lengths(graph_of(number), rows, columns, hops, virtual)


@operator(
    f"({_PAIRS}, int steps) -> Tensor",
    lambda _, rows, columns, steps: rows.new_empty(
        *rows.shape, columns.shape[-1], steps, dtype=torch.float32
    ),
)
def _traced_walks(number: int, rows: Tensor, columns: Tensor, steps: int) -> Tensor:
    return _walks(graph_of(number), rows, columns, steps)


@per_graph
def _on_device(graph, kind: str, steps: int, virtual: bool, device: torch.device) -> PairTable:
    return _table(graph, kind, steps, virtual).to(device)


@per_graph
def _table(graph: Graph, kind: str, steps: int, virtual: bool = False) -> PairTable:
    """Return the table of path lengths, K = 1, or of the probabilities of walks, K = steps."""
    if whole(graph)[0] is not graph:
        raise ZooError(
            "this model looks at pairs of nodes, which one share of the nodes does not have: leave "
            "out `layerwise`, and train in one process."
        )
    sizes = graph.batch_num_nodes().cpu().numpy().astype(np.int64)
    matrix = _walk_matrix(graph, sizes.cumsum() - 1 if virtual else sizes[:0])
    missing = np.full(1, steps, np.uint8) if kind == "lengths" else np.zeros(steps, np.float32)
    size = int(sizes.sum()) * int(sizes.max(initial=0)) * missing.nbytes
    if size <= WHOLE or _filled(matrix, steps) > FILLED:
        _check_memory(size)
        return _of_all_pairs(matrix, sizes, kind, steps, missing)
    arrays = [matrix.indptr.astype("<i8"), matrix.indices.astype("<i8")]
    key = [VERSION, kind, steps, matrix.shape[0]]
    found = cached(
        f"{kind} of pairs",
        key,
        arrays,
        lambda: _of_near_pairs(matrix, kind, steps),
        {"offsets", "others", "values"}.issubset,
    )
    parts = found["values"], missing, found["offsets"], found["others"]
    return PairTable(*map(torch.from_numpy, parts))


def _walk_matrix(graph: dgl.DGLGraph, left_out: np.ndarray) -> sparse.csr_array:
    """Return M = D^-1 A of the edges in both directions, in fp64, without self-loops.

    And without the edges of some nodes.
    """
    source, target = (end.cpu().numpy() for end in graph.edges())
    apart = (source != target) & ~np.isin(source, left_out) & ~np.isin(target, left_out)
    source, target = source[apart], target[apart]
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    count = graph.num_nodes()
    matrix = sparse.coo_array((np.ones(len(ends[0])), ends), shape=(count, count)).tocsr()
    matrix.sum_duplicates()
    degrees = np.diff(matrix.indptr)
    matrix.data[:] = np.repeat(1 / np.maximum(degrees, 1), degrees)
    return matrix


def _length(numbers: np.ndarray) -> np.ndarray:
    """Return the first step of walks (M, steps) that is possible, (M, 1); steps where none is."""
    first = np.where(numbers.any(axis=1), (numbers > 0).argmax(axis=1), numbers.shape[1])
    return first.astype(np.uint8)[:, None]


def _probabilities(numbers: np.ndarray) -> np.ndarray:
    """Return the probabilities of walks (M, steps) in fp32."""
    return numbers.astype(np.float32)


_VALUES = {"lengths": _length, "walks": _probabilities}
"""What a table has of each pair, of the probabilities of walks (M, steps) in fp64."""


def _of_all_pairs(matrix, sizes: np.ndarray, kind: str, steps: int, missing) -> PairTable:
    """Return the table of all pairs inside each graph, as many columns as the largest has nodes.

    M^t X for the columns of an identity of each graph, some of them at a time.
    """
    count, wide = matrix.shape[0], int(sizes.max(initial=0))
    begin = np.repeat(np.cumsum(sizes) - sizes, sizes)  # (N,) the first node of the graph of each
    own = np.arange(count) - begin
    values = np.empty((count, wide, len(missing)), missing.dtype)
    few = max(1, _NUMBERS // max(1, count * steps))
    for start in range(0, wide, few):
        columns = np.arange(start, min(start + few, wide))
        walks = np.empty((steps, count, len(columns)))
        walks[0] = own[:, None] == columns
        for step in range(1, steps):
            walks[step] = matrix @ walks[step - 1]
        numbers = walks.reshape(steps, count * len(columns)).T
        values[:, columns] = _VALUES[kind](numbers).reshape(count, len(columns), len(missing))
    flat = torch.from_numpy(values.reshape(count * wide, len(missing)))
    base = np.arange(count) * wide - begin
    return PairTable(flat, torch.from_numpy(missing), torch.from_numpy(base), None)


def _filled(matrix: sparse.csr_array, steps: int) -> float:
    """Return about which share of all pairs some walk joins, seen from some nodes."""
    nodes = np.unique(np.linspace(0, matrix.shape[0] - 1, 64).astype(int))
    return len(_walks_from(matrix, nodes, steps)[0]) / (len(nodes) * matrix.shape[0])


def _of_near_pairs(matrix: sparse.csr_array, kind: str, steps: int) -> dict[str, np.ndarray]:
    """Return the table of the pairs that some walk joins, as arrays."""
    count = matrix.shape[0]
    many, others, values = [], [], []
    for start in range(0, count, _ROWS):
        nodes = np.arange(start, min(start + _ROWS, count))
        keys, numbers = _walks_from(matrix, nodes, steps)
        values.append(_VALUES[kind](numbers))
        many.append(np.bincount(keys // count, minlength=len(nodes)))
        others.append((keys % count).astype(np.int32))
        size = sum(part.nbytes for part in (*values, *others))
        _check_memory(int(size * count / (start + len(nodes))))
    return {
        "offsets": np.concatenate([[0], *many]).cumsum(),
        "others": np.concatenate(others),
        "values": np.concatenate(values),
    }


def _walks_from(matrix: sparse.csr_array, nodes: np.ndarray, steps: int):
    """Return the pairs of some nodes, as row * N + column, and M^0, M^1, ... of each."""
    count = matrix.shape[0]
    parts = np.ones(len(nodes)), nodes, np.arange(len(nodes) + 1)
    power = sparse.csr_array(parts, shape=(len(nodes), count))
    keys, numbers = [], []
    for step in range(steps):
        power = power @ matrix if step else power
        entries = power.tocoo()
        keys.append(entries.row.astype(np.int64) * count + entries.col)
        numbers.append(entries.data)
    every = np.unique(np.concatenate(keys))
    found = np.zeros((len(every), steps))
    for step, (own, probabilities) in enumerate(zip(keys, numbers, strict=True)):
        found[np.searchsorted(every, own), step] = probabilities
    return every, found


def _check_memory(size: int) -> None:
    if size > available_memory():
        raise ZooError(
            f"pairs of nodes: those that so many steps join take {size:,} bytes, more than there "
            "is memory; write fewer `hops` or `steps`, or train in batches."
        )
