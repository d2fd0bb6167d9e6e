"""The edges of a graph, those of a random expander over its nodes, and those of virtual nodes.

Exphormer (arXiv 2303.06147) attends along their union. The graphs made here are found once for a
graph, and hold V virtual nodes for each graph of a batch behind its N nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import csc, from_csc, node_counts
from zoo.graphs.per_graph import per_graph
from zoo.graphs.shard import Graph, Shard
from zoo.ops.random_order import random_order, seed_of
from zoo.system.context import context
from zoo.system.memory import upload
from zoo.tracing import facts, facts_of, graph_of, operator

OWN, EXPANDER, FROM_VIRTUAL, TO_VIRTUAL = range(4)
"""Kinds of edges."""


class Drawn(NamedTuple):
    """How the edges that a graph has not itself are made.

    Attributes:
        cycles: through all nodes of each graph in a random order, in both directions: a random
            regular graph of degree 2 `cycles`.
        virtual: nodes of each graph that have edges from and to all others.
        seed: of the orders.
    """

    cycles: int
    virtual: int
    seed: int

    @property
    def kinds(self) -> list[int]:
        """Which kinds of edges there are."""
        expander = [EXPANDER] if self.cycles else []
        return [OWN, *expander, *([FROM_VIRTUAL, TO_VIRTUAL] if self.virtual else [])]


class Interaction(NamedTuple):
    """Who attends to whom.

    Attributes:
        kinds: a graph of the edges of each kind.
        union: a graph of all of them.
        order: (E,) the number of each edge of the union among those of the kinds, one kind after
            the other.
    """

    kinds: list[dgl.DGLGraph]
    union: dgl.DGLGraph
    order: Tensor


def interaction(graph: Graph, drawn: Drawn, device: torch.device) -> Interaction:
    """Return the edges that nodes attend along, inside each graph of a batch.

    Where the context holds `identities`, they are the same whatever the order of the rows.

    Raises:
        ZooError: the graph is a share of one.
    """
    if isinstance(graph, Shard):
        raise ZooError(
            "exphormer attends along edges that one share of the nodes does not have; write "
            "`shard: none`, or take `graphgps` with `attention: {name: rba, shard: local}`."
        )
    if facts(graph):
        kinds = [_of_kind(graph, kind, drawn) for kind in drawn.kinds]
        order = _traced_order(id(graph), *drawn, device)
        return Interaction(kinds, _union(graph, drawn), order)
    looks = _of_kind, _union, _order
    if context().identities is not None:  # not to be kept: they may be others next time
        looks = tuple(look.__wrapped__ for look in looks)
    of_kind, union, order_of = looks
    kinds = [of_kind(graph, kind, drawn) for kind in drawn.kinds]
    return Interaction(kinds, union(graph, drawn), order_of(graph, drawn, device))


@per_graph
def _of_kind(graph, kind: int, drawn: Drawn) -> dgl.DGLGraph:
    src, dst = _ends(graph, kind, drawn)
    return _made(src, dst, graph, drawn)


@per_graph
def _union(graph, drawn: Drawn) -> dgl.DGLGraph:
    src, dst = _all_ends(graph, drawn)
    order = dst.argsort(stable=True)
    return _made(src[order], dst[order], graph, drawn)


@per_graph
def _order(graph, drawn: Drawn, device: torch.device) -> Tensor:
    return upload(_all_ends(graph, drawn)[1].argsort(stable=True), device)


@operator(
    "(int number, int cycles, int virtual, int seed, Device device) -> Tensor",
    lambda number, *drawn_and_device: torch.empty(
        facts_of(id(_union(graph_of(number), Drawn(*drawn_and_device[:3])))).edges,
        dtype=torch.int64,
        device=drawn_and_device[3],
    ),
)
def _traced_order(
    number: int, cycles: int, virtual: int, seed: int, device: torch.device
) -> Tensor:
    return _order(graph_of(number), Drawn(cycles, virtual, seed), device).clone()


def _all_ends(graph, drawn: Drawn) -> tuple[Tensor, Tensor]:
    """Return the ends of the edges of all kinds, (E,) each, one kind after the other."""
    ends = [_ends(graph, kind, drawn) for kind in drawn.kinds]
    src, dst = (torch.cat(each) for each in zip(*ends, strict=True))
    return src, dst


def _ends(graph, kind: int, drawn: Drawn) -> tuple[Tensor, Tensor]:
    """Return the ends of the edges of a kind, (E,) each on the CPU, sorted by where they lead."""
    sizes = torch.tensor(node_counts(graph))
    nodes, virtual = torch.arange(int(sizes.sum())), drawn.virtual
    if kind == OWN:
        offsets, src = (array.cpu().long() for array in csc(graph))
        return src, nodes.repeat_interleave(offsets.diff())
    if kind == EXPANDER:
        src, dst = _cycles(sizes.tolist(), drawn)
    else:
        owner = torch.arange(len(sizes)).repeat_interleave(sizes)
        beside = len(nodes) + virtual * owner.unsqueeze(1) + torch.arange(virtual)  # (N, V)
        src, dst = beside.flatten(), nodes.repeat_interleave(virtual)
        if kind == TO_VIRTUAL:
            src, dst = dst, src
    order = dst.argsort(stable=True)
    return src[order], dst[order]


def _cycles(sizes: list[int], drawn: Drawn) -> tuple[Tensor, Tensor]:
    """Return both ends of the cycles through the nodes of each graph, in both directions."""
    src, start = [torch.arange(0)], 0
    dst = [torch.arange(0)]
    for n in sizes:
        for cycle in range(drawn.cycles if n > 1 else 0):
            order = start + random_order(n, seed_of((drawn.seed, cycle)))
            after = order.roll(1)
            src += [order, after]
            dst += [after, order]
        start += n
    return torch.cat(src), torch.cat(dst)


def _made(src: Tensor, dst: Tensor, graph, drawn: Drawn) -> dgl.DGLGraph:
    """Return the graph of edges that are sorted by where they lead, with the virtual nodes."""
    sizes = node_counts(graph)
    nodes = sum(sizes) + drawn.virtual * len(sizes)
    offsets = torch.cat(
        [torch.zeros(1, dtype=torch.int64), dst.bincount(minlength=nodes).cumsum(0)]
    )
    made = from_csc(offsets, src)
    return made if graph.device.type == "cpu" else made.to(graph.device)
