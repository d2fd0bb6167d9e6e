"""Sequences and grids as graphs: windows of neighbours, sparse global nodes, encoder to decoder.

Lists of tokens have no edges of their own. These builders give them some, and number them as the
message-passing kernels want: those of one target after the other, its sources ascending (CSC). A
batch is one graph without padding. Every list of sources is a few progressions, start, start +
step, ..., so that a batch takes no loop over its sequences, no sorting and no search for edges that
are there twice; it is made anew for each batch of training, in less than a millisecond.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from zoo.canonical_form import mark_canonical
from zoo.config.options import MOST, Count, Number, value_problems
from zoo.dgl import dgl
from zoo.errors import ZooError, brief
from zoo.graphs.adjacency import ends
from zoo.system.memory import available_memory

_MANY = 2**20  # tokens or edges, from which on memory is asked for
_BYTES = 40  # per edge while a graph is made
_PER_TOKEN = 300


def sequence_graph(
    lengths: Sequence[int], *, window: Number, skip: Number | None = 0, causal: bool = False
) -> dgl.DGLGraph:
    """Return the graph of the tokens of a batch of sequences, one sequence after the other.

    Token i is linked with every j of its sequence for which |i - j| <= window, itself among them,
    and the skip nodes 0, s, 2 s, ... of a sequence with one another. The graph is canonical, and
    knows its sequences as `batch_num_nodes` and `batch_num_edges`.

    Args:
        lengths: the tokens of each sequence, at least 1.
        window: how far a token looks to either side.
        skip: s; 0 for no skip nodes. None for max(window + 1, ceil(sqrt(length))), of each
            sequence: the skip nodes then add no more edges than there are tokens.
        causal: keep the edges from j to i with j <= i alone: no token hears of a later one. This
            is not the canonical form, and models take it without a warning all the same.

    Raises:
        ZooError: lengths or options that are no such numbers, or more edges than memory holds.
    """
    _check(Number, window=window)
    _check(Number | None, skip=skip)
    sizes = _sizes(lengths, "lengths")
    base, place = _places(sizes)
    size = np.repeat(sizes, sizes)
    low = np.maximum(place - window, 0)
    high = place if causal else np.minimum(place + window, size - 1)
    if skip == 0:
        many = high - low + 1
        return _homogeneous(sizes, many, _progressions(base + low, many))
    if skip is None:
        skip = np.maximum(window + 1, np.ceil(np.sqrt(size)).astype(np.int64))
    is_skip = place % skip == 0
    # The skip nodes below the window, the window, and those above it.
    above = 0 if causal else (size - 1) // skip - high // skip
    many = np.stack([is_skip * -(-low // skip), high - low + 1, is_skip * above], axis=1)
    start = np.stack([base, base + low, base + (high // skip + 1) * skip], axis=1)
    step = np.ones_like(start)
    step[:, ::2] = np.reshape(skip, (-1, 1))
    sources = _progressions(start.ravel(), many.ravel(), step.ravel())
    return _homogeneous(sizes, many.sum(axis=1), sources)


def grid_graph(
    rows: Count,
    columns: Count,
    *,
    window: Number = 1,
    skip: Number = 0,
    class_token: bool = False,
    copies: Count = 1,
) -> dgl.DGLGraph:
    """Return the canonical graph of a grid of patches, such as those of an image, row by row.

    Args:
        rows: of the grid.
        columns: of the grid; the patch at (r, c) is node r * columns + c.
        window: a patch is linked with those at most so many rows and columns away.
        skip: the patches whose row and column are multiples of it are linked with one another;
            0 for none.
        class_token: add a last node that is linked with all.
        copies: so many grids in one graph, one after the other, as `batch_num_nodes` says.

    Raises:
        ZooError: options that are no such numbers, or more edges than memory holds.
    """
    _check(Count, rows=rows, columns=columns, copies=copies)
    _check(Number, window=window, skip=skip)
    nodes = rows * columns + class_token
    reach = [min(window, size - 1) for size in (rows, columns)]
    peers = -(-rows // skip) * -(-columns // skip) if skip else 0
    _check_memory(2 * _BYTES * (nodes * (2 * reach[0] + 1) * (2 * reach[1] + 1) + peers**2))
    row, column = np.divmod(np.arange(rows * columns), columns)
    pairs = [_shifted(row, column, shift, rows, columns) for shift in _shifts(*reach)]
    if skip:
        crossings = np.flatnonzero((row % skip == 0) & (column % skip == 0))
        pairs.append(np.stack(np.meshgrid(crossings, crossings, indexing="ij")))
    if class_token:
        every, token = np.arange(nodes), np.full(nodes, nodes - 1)
        pairs += [np.stack([every, token]), np.stack([token, every])]
    targets, sources = np.concatenate([ends.reshape(2, -1) for ends in pairs], axis=1)
    targets, sources = np.divmod(np.unique(targets * nodes + sources), nodes)
    _check_memory(_BYTES * copies * len(sources))
    shifts = np.repeat(np.arange(copies) * nodes, len(sources))
    many = np.tile(np.bincount(targets, minlength=nodes), copies)
    return _homogeneous(np.full(copies, nodes), many, np.tile(sources, copies) + shifts)


def cross_graph(
    sources: Sequence[int], targets: Sequence[int], *, near: Number | None = None
) -> dgl.DGLGraph:
    """Return the edges from the tokens of an encoder to those of a decoder, as a DGL block.

    Sequences come in pairs, of S source tokens and T target tokens. Without `near` target i has all
    S sources. With it those with |j - min(i, S - 1)| <= near: a band along the diagonal, and for
    targets beyond the source's end the last sources. No target has fewer than min(S, near + 1). Nor
    do the sources of a target depend on T, which is not known while a decoder writes: the graph of
    a longer target has the same edges and more.

    Args:
        sources: tokens of each source sequence, at least 1.
        targets: tokens of each target sequence, at least 1.
        near: half the width of the band; None for all sources.

    Raises:
        ZooError: lengths or `near` are no such numbers, not in pairs, or more edges than memory
            holds.
    """
    _check(Number | None, near=near)
    read, written = _sizes(sources, "sources"), _sizes(targets, "targets")
    if len(read) != len(written):
        raise ZooError(
            f"there are {len(read):,} source and {len(written):,} target sequences. Sequences "
            "come in pairs: write as many lengths in `targets` as in `sources`."
        )
    first, size = (np.repeat(values, written) for values in (read.cumsum() - read, read))
    low, high = np.zeros_like(size), size - 1
    if near is not None:
        centre = np.minimum(_places(written)[1], size - 1)
        low, high = np.maximum(centre - near, 0), np.minimum(centre + near, size - 1)
    many = high - low + 1
    lists = _lists(many, _progressions(first + low, many))
    return dgl.create_block(
        ("csc", lists), num_src_nodes=int(read.sum()), num_dst_nodes=int(written.sum())
    )


def top_edges(graph: dgl.DGLGraph, scores: Tensor, k: Count) -> tuple[dgl.DGLGraph, Tensor]:
    """Return the block of the k strongest edges to each target, and which edges these are.

    Args:
        graph: a DGL block, such as `cross_graph` makes.
        scores: (E, H); what counts is the mean over heads, and among equals the first edge.
        k: edges that a target keeps; all, where it has fewer.

    Returns:
        A block of the same nodes, and the numbers (E',) of its edges in the given one, ascending,
        on the device of the scores: `scores[numbers]` are the scores of the edges kept.

    Raises:
        ZooError: the graph is no block, the scores are not those of its edges, or no such k.
    """
    _check(Count, k=k)
    if not graph.is_block or scores.shape[0] != graph.num_edges():
        raise ZooError(
            f"top_edges takes a block and scores (E, H) of its edges, not {brief(graph)} with "
            f"scores {tuple(scores.shape)}. Write `graph = zoo.nn.cross_graph(sources, targets)`."
        )
    src, dst = ends(graph, scores.device)
    order = scores.detach().mean(dim=-1).argsort(descending=True, stable=True)
    order = order[dst[order].argsort(stable=True)]  # target by target, the strongest first
    many = torch.bincount(dst, minlength=graph.num_dst_nodes())
    rank = torch.arange(len(dst), device=dst.device) - (many.cumsum(0) - many)[dst[order]]
    kept = order[rank < k].sort().values
    pairs = tuple(end[kept].to(graph.device, graph.idtype) for end in (src, dst))
    block = dgl.create_block(
        pairs, graph.num_src_nodes(), graph.num_dst_nodes(), idtype=graph.idtype
    )
    return block, kept


def _sizes(lengths: Sequence[int], name: str) -> np.ndarray:
    """Return lengths as an array (B,), checked."""
    try:
        sizes = np.asarray(lengths)
    except (TypeError, ValueError, RuntimeError):  # of several depths; a tensor on a GPU
        sizes = np.array("")
    if sizes.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or sizes.min() < 1 or sizes.max() > MOST:
        raise ZooError(
            f"`{name}` are the numbers of tokens of each sequence, whole and at least 1, not "
            f"{brief(lengths)}. Write a list such as `[12, 7]`."
        )
    _check_memory(_PER_TOKEN * int(sizes.sum()))
    return sizes.astype(np.int64)


def _check(kind: object, **values: object) -> None:
    wrong = [
        problem
        for name, value in values.items()
        for problem in value_problems(kind, value, (name,))
    ]
    if wrong:
        raise ZooError(" ".join(map(str, wrong)))


def _check_memory(needed: int) -> None:
    if needed > _BYTES * _MANY and needed > available_memory():
        raise ZooError(
            f"this graph takes {needed / 1e9:,.1f} GB, of which {available_memory() / 1e9:,.1f} GB "
            "are free. Write a smaller window, a larger `skip` (or None), or fewer tokens."
        )


def _places(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return of each token where its sequence begins, and its place in it, both (N,)."""
    base = np.repeat(sizes.cumsum() - sizes, sizes)
    return base, np.arange(len(base)) - base


def _progressions(start: np.ndarray, many: np.ndarray, step: np.ndarray | int = 1) -> np.ndarray:
    """Return start, start + step, ... `many` times, of each row, one row after the other."""
    total = int(many.sum())
    _check_memory(_BYTES * total)
    begin = start - step * (many.cumsum() - many)
    steps = step if isinstance(step, int) else np.repeat(step, many)
    return np.repeat(begin, many) + steps * np.arange(total)


def _lists(many: np.ndarray, sources: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
    """Return the sources (E,) of all targets as CSC; without numbers DGL sums no edges."""
    offsets = np.concatenate([[0], many.cumsum()])
    lists = offsets, sources, np.arange(len(sources))
    return tuple(map(torch.from_numpy, lists))


def _homogeneous(sizes: np.ndarray, many: np.ndarray, sources: np.ndarray) -> dgl.DGLGraph:
    """Return the graph of these sources, of sequences of so many tokens."""
    lists = _lists(many, sources)
    graph = dgl.graph(("csc", lists), num_nodes=len(many))
    last = torch.from_numpy(sizes.cumsum())
    graph.set_batch_num_nodes(torch.from_numpy(sizes))
    graph.set_batch_num_edges(lists[0][last].diff(prepend=last.new_zeros(1)))
    return mark_canonical(graph)


def _shifts(rows: int, columns: int) -> itertools.product:
    return itertools.product(range(-rows, rows + 1), range(-columns, columns + 1))


def _shifted(row, column, shift: tuple[int, int], rows: int, columns: int) -> np.ndarray:
    """Return the patches that have another so far away, and these, (2, ...)."""
    r, c = row + shift[0], column + shift[1]
    inside = (r >= 0) & (r < rows) & (c >= 0) & (c < columns)
    return np.stack([row[inside] * columns + column[inside], r[inside] * columns + c[inside]])
