"""Pairs of nodes: the links of a graph, the graph without some of them, and pairs without a link.

A link is a pair of different nodes with an edge in either direction, once, the smaller number
first. What is drawn follows from a generator alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.canonical_form import mark_canonical
from zoo.config.options import Table
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import csc, from_csc
from zoo.graphs.edge_weights import in_lists

TRIES = 32
"""Times that a pair is drawn anew where it is a link, before a graph counts as too dense."""


class Links(NamedTuple):
    """The links of a graph, and which of them each edge is.

    Attributes:
        pairs: (M, 2) int64, ascending, the smaller node first.
        of_edge: (E,) the number of the link of each edge, in the order of `csc`; -1 of
            self-loops.
    """

    pairs: Tensor
    of_edge: Tensor


class LinkRows(NamedTuple):
    """Pairs of nodes of which is known when they came, or of which part of links they are.

    Attributes:
        pairs: (R, 2) int64, in any order and direction, repeated or not.
        times: (R,) fp64; None: not said.
        parts: (R,) int64, 0 of train, 1 of val, 2 of test, -1 of none; None: not said.
    """

    pairs: Tensor
    times: Tensor | None = None
    parts: Tensor | None = None


def links_of(graph: dgl.DGLGraph) -> Links:
    """Return the links of a canonical graph."""
    offsets, src = csc(graph)
    dst = torch.arange(graph.num_nodes()).repeat_interleave(offsets.long().diff())
    first = src > dst  # every link leads both ways, and once to the smaller node
    keys = dst[first] * graph.num_nodes() + src[first]
    keys = keys if (keys.diff() > 0).all() else keys.sort().values
    of_edge = torch.full((len(src),), -1)
    for way, low, high in ((first, dst, src), (src < dst, src, dst)):
        of_edge[way] = torch.searchsorted(keys, low[way].long() * graph.num_nodes() + high[way])
    pairs = torch.stack([keys // graph.num_nodes(), keys % graph.num_nodes()], dim=1)
    return Links(pairs, of_edge)


def pair_keys(pairs: Tensor, nodes: int) -> Tensor:
    """Return a number for each pair (P, 2), the same in either direction, (P,) int64."""
    low, high = pairs.min(dim=1).values, pairs.max(dim=1).values
    return low * nodes + high


def with_pairs(links: Links, pairs: Tensor, nodes: int) -> Links:
    """Return links and further pairs (P, 2), which no edge is of."""
    before = pair_keys(links.pairs, nodes)
    keys = torch.cat([before, pair_keys(pairs, nodes)]).unique()
    places = torch.cat([torch.searchsorted(keys, before), keys.new_full((1,), -1)])
    return Links(torch.stack([keys // nodes, keys % nodes], dim=1), places[links.of_edge])


def numbers_of(links: Links, pairs: Tensor, nodes: int) -> Tensor:
    """Return which link each of some pairs (P, 2) is, (P,) int64, -1 of those that are none."""
    keys, wanted = pair_keys(links.pairs, nodes), pair_keys(pairs, nodes)
    if not len(keys):
        return torch.full_like(wanted, -1)
    places = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return torch.where(keys[places] == wanted, places, -1)


def with_links(graph: dgl.DGLGraph, links: Links, kept: Tensor) -> dgl.DGLGraph:
    """Return the graph with some of its links alone, and every self-loop.

    Weights and features of the edges that stay are kept.

    Args:
        graph: a canonical graph.
        links: what `links_of` makes of it.
        kept: (M,) bool, which of them.
    """
    return _with_edges(graph, torch.cat([kept, kept.new_ones(1)])[links.of_edge])  # -1: the last


def without_pairs(graph: dgl.DGLGraph, pairs: Tensor) -> dgl.DGLGraph:
    """Return a canonical graph without the edges between pairs (P, 2), in either direction."""
    offsets, src = csc(graph)
    dst = torch.arange(graph.num_nodes()).repeat_interleave(offsets.long().diff())
    keys = pair_keys(torch.stack([src.long(), dst], dim=1), graph.num_nodes())
    taken = torch.isin(keys, pair_keys(pairs, graph.num_nodes()))
    return _with_edges(graph, ~taken | (src == dst))


def _with_edges(graph: dgl.DGLGraph, stays: Tensor) -> dgl.DGLGraph:
    """Return a canonical graph with some of its edges alone, (E,) bool in the order of `csc`."""
    offsets, src = csc(graph)
    before = torch.cat([offsets.new_zeros(1), stays.cumsum(0).to(offsets.dtype)])
    smaller = from_csc(before[offsets.long()], src[stays])
    for key, values in in_lists(graph).items():
        smaller.edata[key] = values[stays]
    return mark_canonical(smaller)


Negatives = Callable[[Tensor, int | None, torch.Generator], Tensor]
"""`(pairs (P, 2), count, generator)` to pairs without a link, (P, count, 2).

Where they are given a count of None takes all, as many as the pair with most has; -1 fills up.
"""

Read = Callable[[str, tuple[str, ...], "Known"], Tensor]
"""`(path, ends, known)` to the nodes of the rows of a table, (Q, k), no known link among them."""


class Known:
    """Pairs that are links, to be asked whether others are.

    Args:
        pairs: (M, 2) int64.
        nodes: N, of the graph.
        part: of the split, that is asked about.
        read: reads tables of pairs.
    """

    def __init__(
        self, pairs: Tensor, nodes: int, part: str | None = None, read: Read | None = None
    ):
        self.part, self._read = part, read
        self.nodes, self.keys = nodes, pair_keys(pairs, nodes).unique()
        self._pairs = pairs

    def has(self, pairs: Tensor) -> Tensor:
        """Return which pairs (P, 2) are links, or a node with itself, (P,) bool."""
        keys = pair_keys(pairs, self.nodes)
        if not len(self.keys):
            return pairs[:, 0] == pairs[:, 1]
        places = torch.searchsorted(self.keys, keys).clamp(max=len(self.keys) - 1)
        return (self.keys[places] == keys) | (pairs[:, 0] == pairs[:, 1])

    def given(self, path: str, *ends: str) -> Tensor:
        """Return the nodes of the rows of a table, (Q, k), of which the first and last are a pair.

        Raises:
            ZooError: such a pair is a link, or nothing reads tables here.
        """
        if self._read is None:
            raise ZooError("negatives of a table are of a graph that names its nodes.")
        return self._read(path, ends, self)

    def neighbour(self, nodes: Tensor, generator: torch.Generator) -> Tensor:
        """Draw a neighbour of each node (P,); a node without any is its own."""
        indices, offsets = self.adjacency
        degrees = offsets[nodes + 1] - offsets[nodes]
        draw = torch.rand(len(nodes), dtype=torch.double, generator=generator)
        places = offsets[nodes] + (draw * degrees).long()
        chosen = indices[places.clamp(max=len(indices) - 1)]
        return torch.where(degrees > 0, chosen, nodes)

    @property
    def degrees(self) -> Tensor:
        """How many links each node has, (N,)."""
        return self.adjacency[1].diff()

    @cached_property
    def adjacency(self) -> tuple[Tensor, Tensor]:
        """The other ends of the links of all nodes (2 M,), and where those of each begin."""
        src, dst = torch.cat([self._pairs, self._pairs.flip(1)]).T
        counts = torch.bincount(src, minlength=self.nodes)
        indices = dst[src.argsort(stable=True)] if len(src) else src.new_zeros(1)
        return indices, torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def uniform(known: Known) -> Negatives:
    """Draw both ends of every pair uniformly among all nodes."""

    def draw(pairs: Tensor, generator: torch.Generator) -> Tensor:
        return torch.randint(known.nodes, (len(pairs), 2), generator=generator)

    return _drawn_anew(known, draw)


def by_degree(known: Known) -> Negatives:
    """Draw both ends in proportion to how many links a node has: hubs meet hubs."""
    ends = known.adjacency[0]  # each node as often as it has links

    def draw(pairs: Tensor, generator: torch.Generator) -> Tensor:
        return ends[torch.randint(len(ends), (len(pairs), 2), generator=generator)]

    return _drawn_anew(known, draw)


def target(known: Known) -> Negatives:
    """Keep the first node of a pair and draw the other one uniformly among all nodes."""

    def draw(pairs: Tensor, generator: torch.Generator) -> Tensor:
        other = torch.randint(known.nodes, (len(pairs),), generator=generator)
        return torch.stack([pairs[:, 0], other], dim=1)

    return _drawn_anew(known, draw)


def two_hops(known: Known) -> Negatives:
    """Keep the first node of a pair and walk two links from it: hard ones, with common neighbours.

    Where every such walk ends at a neighbour the other node is drawn uniformly.
    """

    def draw(pairs: Tensor, generator: torch.Generator) -> Tensor:
        first = pairs[:, 0]
        other = known.neighbour(known.neighbour(first, generator), generator)
        return torch.stack([first, other], dim=1)

    return _drawn_anew(known, draw, target)


def given(known: Known, *, path: str) -> Negatives:
    """Take the pairs of a table: in evaluation all of them, dealt out to the links of a part.

    Args:
        path: a table whose first two columns are ids of nodes; where it has a column `split`, the
            rows of train, val or test are of that part alone.
    """
    others = known.given(path, "source", "target")

    def negatives(pairs: Tensor, count: int | None, generator: torch.Generator) -> Tensor:
        if count is not None:
            return others[torch.randint(len(others), (len(pairs), count), generator=generator)]
        count = -(-len(others) // max(1, len(pairs)))
        dealt = torch.full((count * len(pairs), 2), -1)
        dealt[: len(others)] = others
        return dealt.unflatten(0, (count, len(pairs))).transpose(0, 1)

    return negatives


def given_per_link(known: Known, *, path: str) -> Negatives:
    """Take the other nodes of a table, by which the second end of each link is replaced.

    Links of training that the table has none for are measured beside pairs that are drawn
    uniformly.

    Args:
        path: a table whose first three columns are ids: both ends of a link, and a node that the
            first end has no link with; a row for each; with a column `split` as `file`.
    """
    rows = known.given(path, "source", "target", "other")
    order = pair_keys(rows[:, :2], known.nodes).argsort(stable=True)
    others = rows[order][:, [0, 2]]
    keys, counts = pair_keys(rows[:, :2], known.nodes).unique(return_counts=True)
    begins = counts.cumsum(0) - counts

    def negatives(pairs: Tensor, count: int | None, generator: torch.Generator) -> Tensor:
        wanted = pair_keys(pairs, known.nodes)
        place = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
        missing = keys[place] != wanted
        if missing.any() and count is None and known.part == "train":
            return uniform(known)(pairs, 1, generator)
        if missing.any():
            raise ZooError(
                f"{path} has no row for {int(missing.sum()):,} of {len(pairs):,} links"
                f"{'' if known.part is None else f' of {known.part}'}; write some for each link, "
                "or take `file`, the same pairs for all of them."
            )
        own, first = counts[place].unsqueeze(1), begins[place].unsqueeze(1)
        if count is not None:
            draw = torch.rand(len(pairs), count, dtype=torch.double, generator=generator)
            return others[first + (draw * own).long()]
        turn = torch.arange(int(own.max()))
        chosen = others[(first + turn).clamp(max=len(others) - 1)]
        return chosen.masked_fill((turn >= own).unsqueeze(2), -1)

    return negatives


NEGATIVES = Table(
    "negatives",
    {
        "uniform": uniform,
        "degree": by_degree,
        "target": target,
        "hard": two_hops,
        "file": given,
        "file-per-link": given_per_link,
    },
)
"""Word to builder `(known links) -> Negatives`."""


def _drawn_anew(
    known: Known,
    draw: Callable[[Tensor, torch.Generator], Tensor],
    otherwise: Callable[[Known], Negatives] | None = None,
) -> Negatives:
    """Return negatives that are drawn anew while they are links.

    Raises:
        ZooError: some still are after many times, as in a graph where almost all pairs are links.
    """

    def negatives(pairs: Tensor, count: int | None, generator: torch.Generator) -> Tensor:
        wanted = pairs.repeat_interleave(1 if count is None else count, dim=0)
        chosen = draw(wanted, generator)
        for _ in range(TRIES):
            wrong = known.has(chosen).nonzero().squeeze(1)
            if not len(wrong):
                return chosen.unflatten(0, (-1, count))
            chosen[wrong] = draw(wanted[wrong], generator)
        wrong = known.has(chosen).nonzero().squeeze(1)
        if len(wrong) and otherwise is not None:
            others = otherwise(known)(wanted[wrong], 1, generator)
            chosen[wrong] = others.squeeze(1)
        elif len(wrong):
            raise ZooError(
                f"no pairs without a link were found for {len(wrong):,} of {len(chosen):,} draws: "
                f"the graph has {len(known.keys):,} links between {known.nodes:,} nodes, and some "
                "of these are linked with almost all others. Where `task.negatives` or "
                "`task.compared` is another, `uniform` may find some; else take a sparser graph."
            )
        return chosen.unflatten(0, (-1, count))

    return negatives
