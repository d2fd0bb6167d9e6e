"""Subgraphs and neighbour sampling: smaller graphs cut out of a canonical one.

Each is canonical itself, and numbers its nodes anew in their old order. The graph that they are cut
from may be larger than memory: of its edges, only those of the chosen nodes are looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from zoo.canonical_form import derived, mark_canonical
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import csc, from_csc
from zoo.graphs.edge_weights import in_lists


def check_neighbours(graph: dgl.DGLGraph) -> None:
    """Look at the neighbours of all nodes, where a graph lies as `csc` gives them.

    One that is made of pairs of nodes was looked at by DGL; one on disk by nobody.

    Args:
        graph: a canonical graph.

    Raises:
        ZooError: some are no nodes of it.
    """
    if graph.device.type == "cpu" and "csc" in graph.formats()["created"]:
        _nodes(csc(graph)[1], graph)


def _nodes(neighbors: Tensor, graph: dgl.DGLGraph) -> Tensor:
    """Return neighbours that were looked up, (m,), after a look at the least and the last of them.

    Raises:
        ZooError: one is no node of the graph, whose file is damaged or of somebody else's making.
    """
    last = graph.num_nodes() - 1
    if len(neighbors):
        least, most = torch.stack(torch.aminmax(neighbors)).tolist()
        if least < 0 or most > last:
            wrong = least if least < 0 else most
            raise ZooError(
                f"the edges of the graph are damaged: indices.npy holds {wrong}, and nodes are 0 "
                f"to {last}. Run `zoo data check FOLDER` on its folder; copy or write that again."
            )
    return neighbors


def induced(graph: dgl.DGLGraph, nodes: Tensor) -> dgl.DGLGraph:
    """Return the graph of some nodes and of all edges between them.

    Args:
        graph: a canonical graph of N nodes.
        nodes: (n,) int64, in increasing order; row i of the new graph is node nodes[i].
    """
    offsets, sources = csc(graph)
    starts = offsets[nodes].long()
    counts = offsets[nodes + 1].long() - starts
    numbers = torch.full((graph.num_nodes(),), -1, dtype=torch.int32)
    numbers[nodes] = torch.arange(len(nodes), dtype=torch.int32)
    places = ranges(starts, counts)
    renumbered = numbers[_nodes(sources[places], graph).long()]
    inside = renumbered >= 0
    # Where a node's edges begin: how many edges before them are inside.
    running = torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(inside, 0)])
    begins = running[torch.cat([torch.zeros(1, dtype=torch.int64), torch.cumsum(counts, 0)])]
    part = _graph(begins, renumbered[inside], graph.idtype)
    for key, values in in_lists(graph).items():
        part.edata[key] = values[places[inside]]
    return derived(part, graph)


def leading(graph: dgl.DGLGraph, nodes: range) -> tuple[Tensor, dgl.DGLGraph]:
    """Return where the edges that lead to some nodes come from, (m,), and a block of them.

    Args:
        graph: a canonical graph of N nodes.
        nodes: consecutive ones, the targets of the block; its sources are the m, in that order.
    """
    offsets, sources = csc(graph)
    begins = offsets[nodes.start : nodes.stop + 1].long()
    incoming = _nodes(sources[begins[0] : begins[-1]], graph).long()
    reached, src = incoming.unique(return_inverse=True)
    dst = torch.arange(len(nodes)).repeat_interleave(begins.diff())
    block = dgl.create_block((src, dst), len(reached), len(nodes))
    for key, values in in_lists(graph).items():
        block.edata[key] = values[begins[0] : begins[-1]]
    return reached, block


def neighbourhood(
    graph: dgl.DGLGraph, seeds: Tensor, fanouts: Sequence[int], seed: int
) -> tuple[Tensor, dgl.DGLGraph]:
    """Return the nodes around some seeds, (n,) in increasing order, and the graph of the walks.

    From the seeds outward each node draws `fanout` of its in-neighbours, all where there are no
    more: GraphSAGE (arXiv 1706.02216), section 3.1. An edge that was drawn is there in both
    directions, as everywhere in the zoo.

    Args:
        graph: a canonical graph; of one with edge data neighbours stand in ascending order, as
            `zoo.canonical` leaves them.
        seeds: (m,) int64.
        fanouts: neighbours that are drawn at each distance, nearest first; -1 draws all.
        seed: of the draw.
    """
    offsets, sources = csc(graph)

    def sample_from(nodes: Tensor, places: Tensor) -> Tensor:
        """Return the neighbour at a place, counted from 0, of each node, (m,)."""
        chosen = sources[offsets[nodes].long() + places].long()
        # The last neighbour is never drawn, and takes the place of the node's own loop.
        last = sources[offsets[nodes + 1].long() - 1].long()
        return _nodes(torch.where(chosen == nodes, last, chosen), graph)

    generator = torch.Generator().manual_seed(seed)
    frontier = nodes = seeds.unique()
    ends: list[tuple[Tensor, Tensor]] = []
    for fanout in fanouts:
        degrees = offsets[frontier + 1].long() - offsets[frontier].long() - 1
        rows, places = _sample_places(degrees, fanout, generator)
        targets = frontier[rows]
        ends.append((sample_from(targets, places), targets))
        reached = ends[-1][0].unique()
        frontier = reached[~contained(reached, nodes)]
        nodes = torch.cat([nodes, frontier]).sort().values
    both = (torch.searchsorted(nodes, torch.cat(each)) for each in zip(*ends, strict=True))
    part = _canonical(*both, len(nodes), graph.idtype)
    if edge_data := in_lists(graph):
        src, dst = (nodes[end.long()] for end in part.edges())
        places = _places(graph, src, dst)
        part.edata.update({key: values[places] for key, values in edge_data.items()})
    return nodes, part


def _places(graph: dgl.DGLGraph, src: Tensor, dst: Tensor) -> Tensor:
    """Return where edges (m,) that a canonical graph has stand in `csc`, by bisection."""
    offsets, sources = csc(graph)
    low, high = offsets[dst].long(), offsets[dst + 1].long() - 1
    while (low < high).any():
        middle = (low + high) // 2
        beyond = sources[middle] < src
        low, high = torch.where(beyond, middle + 1, low), torch.where(beyond, high, middle)
    return low


def _sample_places(
    counts: Tensor, fanout: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Draw from rows of so many entries; return row and place of each that was drawn.

    Rows of no more entries than `fanout` give them all. Of the others every choice is as likely as
    any other (R. Floyd: a place that was drawn before makes way for the last one that is allowed).
    DGL's own sampler gives other numbers in another thread for the same seed.
    """
    rows = torch.arange(len(counts))
    if fanout == -1:
        return rows.repeat_interleave(counts), ranges(torch.zeros_like(counts), counts)
    few, many = rows[counts <= fanout], rows[counts > fanout]
    chosen = torch.empty(len(many), fanout, dtype=torch.int64)
    for turn in range(fanout if len(many) else 0):
        last = counts[many] - fanout + turn
        draw = torch.rand(len(many), dtype=torch.double, generator=generator)
        place = (draw * (last + 1)).long()
        taken = (chosen[:, :turn] == place.unsqueeze(1)).any(1)
        chosen[:, turn] = torch.where(taken, last, place)
    own = ranges(torch.zeros_like(few), counts[few])
    rows = torch.cat([few.repeat_interleave(counts[few]), many.repeat_interleave(fanout)])
    return rows, torch.cat([own, chosen.flatten()])


def ranges(starts: Tensor, counts: Tensor) -> Tensor:
    """Return the numbers of all ranges one after the other, each from its start on."""
    before = torch.cumsum(counts, 0) - counts
    return torch.repeat_interleave(starts - before, counts) + torch.arange(int(counts.sum()))


def contained(values: Tensor, increasing: Tensor) -> Tensor:
    """Return which values are among others, which are in increasing order."""
    places = torch.searchsorted(increasing, values).clamp(max=len(increasing) - 1)
    return increasing[places] == values


def _canonical(src: Tensor, dst: Tensor, n: int, kind: torch.dtype) -> dgl.DGLGraph:
    """Return the graph of n nodes with both directions of every edge, and a loop at each node."""
    loops = torch.arange(n)
    keys = torch.cat([dst * n + src, src * n + dst, loops * (n + 1)]).numpy()
    keys = np.unique(keys)
    dst, src = (torch.from_numpy(key) for key in np.divmod(keys, n))
    offsets = torch.searchsorted(dst, torch.arange(n + 1))
    return mark_canonical(_graph(offsets, src, kind))


def _graph(offsets: Tensor, sources: Tensor, kind: torch.dtype) -> dgl.DGLGraph:
    return from_csc(offsets.to(kind), sources.to(kind))
