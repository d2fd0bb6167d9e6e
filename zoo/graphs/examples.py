"""Small graphs to try a model, an attention or an encoding on, odd ones among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from zoo.canonical_form import mark_canonical
from zoo.dgl import dgl


def tiny_graph() -> dgl.DGLGraph:
    """Return a connected canonical graph of 12 nodes: a ring with three chords."""
    src = torch.arange(12)
    graph = dgl.graph((src, (src + 1) % 12), num_nodes=12)
    graph.add_edges([0, 3, 2], [5, 9, 7])
    graph = dgl.add_self_loop(dgl.to_simple(dgl.add_reverse_edges(graph)))
    graph.edata.clear()
    return mark_canonical(graph)


def short_path() -> dgl.DGLGraph:
    """Return a canonical path of 3 nodes."""
    return mark_canonical(dgl.add_self_loop(dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1]))))


def odd_graphs() -> Iterator[dgl.DGLGraph]:
    """Give graphs of one, two and five nodes: no edge at all, self-loops only, isolated nodes.

    Not all are canonical. They are remembered as if they were: nobody needs to be told.
    """
    for n in (1, 2, 5):
        graph = dgl.graph(([], []), num_nodes=n)
        yield mark_canonical(graph)
        yield mark_canonical(dgl.add_self_loop(graph))
    yield mark_canonical(dgl.graph(([0, 1], [1, 0]), num_nodes=5))


def preferential_attachment(nodes: int = 700, links: int = 3, seed: int = 0) -> dgl.DGLGraph:
    """Return a canonical graph whose degrees follow a power law (Barabasi and Albert 1999).

    Args:
        nodes: N.
        links: how many each new node draws, repeated ones being one.
        seed: of the draws.
    """
    generator = np.random.default_rng(seed)
    ends, pairs = list(range(links)), []
    for node in range(links, nodes):
        chosen = {ends[i] for i in generator.integers(len(ends), size=links)}
        pairs += [(node, other) for other in sorted(chosen)]
        ends += [*chosen, *[node] * len(chosen)]
    src, dst = torch.tensor(pairs).T
    both = torch.cat([src, dst]), torch.cat([dst, src])
    return mark_canonical(dgl.add_self_loop(dgl.graph(both, num_nodes=nodes)))


def renamed(graph: dgl.DGLGraph, order: Tensor) -> dgl.DGLGraph:
    """Return the graph whose node i is node order[i] (N,) of a canonical one."""
    places = torch.argsort(order)
    src, dst = graph.edges()
    return mark_canonical(dgl.graph((places[src], places[dst]), num_nodes=graph.num_nodes()))


def edgeless(sizes: Sequence[int]) -> dgl.DGLGraph:
    """Return a batch of graphs of so many nodes, without any edge."""
    return batch([dgl.graph(([], []), num_nodes=size) for size in sizes])


def batch(graphs: Sequence[dgl.DGLGraph]) -> dgl.DGLGraph:
    """Return canonical graphs as one batch."""
    return mark_canonical(dgl.batch(graphs))
