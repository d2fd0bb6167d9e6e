"""Many graphs, and batches of them: one graph without padding that knows where each begins.

A batch is put together from the edges of its graphs, by target and with their numbers shifted, as
the message-passing kernels want them. It takes no loop over the graphs, no sorting, and no search
for the canonical form, which the graphs of a set have.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from zoo.canonical_form import FEATURE, WEIGHT, derived, mark_canonical
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import csc
from zoo.graphs.edge_weights import in_lists
from zoo.graphs.sequences import sequence_graph

_KEPT = 8
"""Batches of copies of one graph that are kept: few numbers of copies occur."""


class GraphSet(Protocol):
    """The graphs of S samples.

    Attributes:
        sizes: nodes of each, (S,) int64.
        edge_dim: how many features edges have.
    """

    @property
    def sizes(self) -> Tensor: ...  # noqa: D102

    @property
    def edge_dim(self) -> int: ...  # noqa: D102

    def batch(self, chosen: Tensor) -> dgl.DGLGraph:
        """Return the graphs of some samples (B,) as one, in this order."""
        ...

    def distinct(self) -> tuple[list[dgl.DGLGraph], Tensor]:
        """Return the graphs that differ, and which of them each sample has, (S,)."""
        ...


class StoredGraphs:
    """Graphs that are kept: one that all samples share, or some, or one for each sample.

    Args:
        graphs: canonical graphs on the CPU, all with the same data of edges.
        kinds: which of them each sample has, (S,) int64.
    """

    def __init__(self, graphs: Sequence[dgl.DGLGraph], kinds: Tensor):
        self.graphs, self.kinds = list(graphs), kinds
        lists = [csc(graph) for graph in self.graphs]
        self._nodes = torch.tensor([len(offsets) - 1 for offsets, _ in lists])
        self._edges = torch.tensor([len(sources) for _, sources in lists])
        self._degrees = torch.cat([offsets.diff() for offsets, _ in lists]).long()
        self._sources = torch.cat([sources for _, sources in lists]).long()
        edge_data = [in_lists(graph) for graph in self.graphs]
        self._of_edges = {key: torch.cat([data[key] for data in edge_data]) for key in edge_data[0]}
        self._copies: dict[int, dgl.DGLGraph] = {}
        self.sizes = self._nodes[kinds]

    def batch(self, chosen: Tensor) -> dgl.DGLGraph:
        """Return the graphs of some samples (B,) as one, in this order."""
        if len(self.graphs) > 1:
            return self._joined(chosen)
        if len(chosen) not in self._copies:
            if len(self._copies) == _KEPT:
                del self._copies[next(iter(self._copies))]
            self._copies[len(chosen)] = self._joined(chosen)
        return self._copies[len(chosen)]

    def distinct(self) -> tuple[list[dgl.DGLGraph], Tensor]:
        """Return the graphs that differ, and which of them each sample has, (S,)."""
        return self.graphs, self.kinds

    @property
    def edge_dim(self) -> int:
        """How many features edges have."""
        return self._of_edges[FEATURE].shape[1] if FEATURE in self._of_edges else 0

    def with_features(self, change: Callable[[Tensor], Tensor]) -> StoredGraphs:
        """Return the graphs with features of edges that a function (E, F) -> (E, G) makes."""
        graphs = [derived(graph.local_var(), graph) for graph in self.graphs]
        for graph in graphs:
            graph.edata[FEATURE] = change(graph.edata[FEATURE])
        return StoredGraphs(graphs, self.kinds)

    def with_virtual_nodes(self) -> StoredGraphs:
        """Return the graphs with a last node in each that is linked both ways with all others.

        The new edges have the weight 1, and features of 0.
        """
        return StoredGraphs([*map(_with_virtual_node, self.graphs)], self.kinds)

    def _joined(self, chosen: Tensor) -> dgl.DGLGraph:
        kinds = self.kinds[chosen]
        nodes, edges = self._nodes[kinds], self._edges[kinds]
        many = self._degrees[stretches((self._nodes.cumsum(0) - self._nodes)[kinds], nodes)]
        places = stretches((self._edges.cumsum(0) - self._edges)[kinds], edges)
        sources = self._sources[places]
        sources += torch.repeat_interleave(nodes.cumsum(0) - nodes, edges)
        offsets = torch.cat([many.new_zeros(1), many.cumsum(0)])
        lists = offsets, sources, torch.arange(len(sources))
        graph = dgl.graph(("csc", lists), num_nodes=len(many))
        graph.set_batch_num_nodes(nodes)
        graph.set_batch_num_edges(edges)
        graph.edata.update({key: values[places] for key, values in self._of_edges.items()})
        return mark_canonical(graph)


@dataclasses.dataclass(frozen=True, eq=False)
class SequenceGraphs:
    """Sequences as graphs, made for each batch anew: see `sequence_graph`.

    Attributes:
        sizes: tokens of each sample, (S,) int64, at least 1.
        window: how far a token looks to either side.
        skip: s; the tokens 0, s, 2 s, ... of a sequence are linked with one another, 0 for none.
    """

    edge_dim: ClassVar[int] = 0

    sizes: Tensor
    window: int
    skip: int | None

    def batch(self, chosen: Tensor) -> dgl.DGLGraph:
        """Return the graphs of some samples (B,) as one, in this order."""
        return self._graph(self.sizes[chosen])

    def distinct(self) -> tuple[list[dgl.DGLGraph], Tensor]:
        """Return the graphs that differ, and which of them each sample has, (S,)."""
        lengths, kinds = self.sizes.unique(return_inverse=True)
        return [self._graph(length) for length in lengths.split(1)], kinds

    def _graph(self, lengths: Tensor) -> dgl.DGLGraph:
        return sequence_graph(lengths.tolist(), window=self.window, skip=self.skip)


def _with_virtual_node(graph: dgl.DGLGraph) -> dgl.DGLGraph:
    offsets, sources = (part.long() for part in csc(graph))
    nodes, edges = len(offsets) - 1, len(sources)
    every = torch.arange(nodes + 1)
    longer = torch.cat([offsets + every, (offsets[-1:] + 2 * nodes + 1)])
    old = torch.ones(edges + 2 * nodes + 1, dtype=torch.bool)
    old[offsets[1:] + every[:-1]] = False  # the last edge of each list
    old[edges + nodes :] = False
    joined = torch.full((len(old),), nodes)
    joined[old] = sources
    joined[edges + nodes :] = every
    result = dgl.graph(("csc", (longer, joined, torch.arange(len(joined)))), num_nodes=nodes + 1)
    for key, values in in_lists(graph).items():
        filled = values.new_full((len(old), *values.shape[1:]), 1.0 if key == WEIGHT else 0.0)
        filled[old] = values
        result.edata[key] = filled
    return mark_canonical(result)


def stretches(start: Tensor, many: Tensor) -> Tensor:
    """Return start, start + 1, ..., start + many - 1 of each row, one row after the other."""
    first = torch.repeat_interleave(start - (many.cumsum(0) - many), many)
    return first + torch.arange(len(first))


class Pairs:
    """Pairs of sequences, by their lengths. Rows of x are the sources' tokens, then the targets'.

    Attributes:
        sources: tokens of each source.
        targets: tokens of each target.

    Raises:
        ZooError: there are not as many sources as targets.
    """

    def __init__(self, sources: Sequence[int], targets: Sequence[int]):
        self.sources, self.targets = tuple(sources), tuple(targets)
        if len(self.sources) != len(self.targets):
            raise ZooError(
                f"there are {len(self.sources):,} sources and {len(self.targets):,} targets. "
                "Sequences come in pairs: write as many lengths of one as of the other."
            )
        mark_canonical(self)

    def batch_num_nodes(self) -> Tensor:
        """Return the tokens of each sequence, sources first, (2 B,)."""
        return torch.tensor([*self.sources, *self.targets])

    def divide(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of the sources, (S, ...), and those of the targets, (T, ...)."""
        return x.split([sum(self.sources), sum(self.targets)])
