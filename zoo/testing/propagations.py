"""The promises of a propagation: `(graph, x) -> x`, along the edges of any graph."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch

from zoo.config.options import Spec, pick
from zoo.graphs.examples import odd_graphs, renamed, tiny_graph
from zoo.nn.propagation import PROPAGATIONS
from zoo.registry import discover
from zoo.testing.promise import Promise, check_all, keep, keep_close

WIDTH = 5


def propagation_promises(propagation: Spec) -> list[Promise]:
    """Return every promise of a propagation.

    Args:
        propagation: a word of `PROPAGATIONS`, or a word with options.

    Raises:
        ZooError: no such propagation is registered, or an option of it is wrong.
    """
    discover()  # it may be of another package
    pick(PROPAGATIONS, propagation, WIDTH)
    return [
        Promise(check.__name__, str(propagation), functools.partial(check, propagation))
        for check in PROPAGATION
    ]


def check_propagation(propagation: Spec) -> None:
    """Check every promise of a propagation, see `propagation_promises`.

    Raises:
        zoo.testing.Broken: some are not kept; with a paragraph for each that says what to write.
        ZooError: no such propagation is registered, or an option of it is wrong.
    """
    check_all(propagation_promises(propagation))


def it_keeps_the_shape_of_x(spec: Spec) -> None:
    """The output has the shape and type of x, and is finite."""
    graph, x = tiny_graph(), torch.randn(12, WIDTH)
    out = pick(PROPAGATIONS, spec, WIDTH)(graph, x)
    keep(
        out.shape == x.shape and out.dtype == x.dtype and out.isfinite().all(),
        f"of x {tuple(x.shape)}, {x.dtype}, it makes {tuple(out.shape)}, {out.dtype}; it has to "
        "return finite numbers of the same shape and type. Linear maps stay in the model.",
    )


def renaming_nodes_renames_the_output(spec: Spec) -> None:
    """A graph whose nodes are numbered anew gives the same output in the new order."""
    graph, x, order = tiny_graph(), torch.randn(12, WIDTH), torch.randperm(12)
    propagate = pick(PROPAGATIONS, spec, WIDTH)
    keep_close(
        propagate(renamed(graph, order), x[order]),
        propagate(graph, x)[order],
        "with the nodes numbered anew each node's output changes by {by}. Look at edges and "
        "features alone, and not at the numbers of nodes or at the order of edges.",
    )


def graphs_without_edges_give_zeros(spec: Spec) -> None:
    """A node without edges, which has nothing to gather, gets zeros."""
    for graph in odd_graphs():
        if graph.num_edges() == 0:
            n = graph.num_nodes()
            out = pick(PROPAGATIONS, spec, 3)(graph, torch.randn(n, 3))
            keep_close(
                out,
                torch.zeros(n, 3),
                f"on a graph of {n} nodes without edges the output is off by {{by}} from zeros. "
                "Write `.clamp(min=1)` under a quotient by degrees.",
            )


def the_graph_and_x_stay_as_they_are(spec: Spec) -> None:
    """Nothing is left on the graph, and x is not changed; the gradient reaches it."""
    graph, x = tiny_graph(), torch.randn(12, WIDTH, requires_grad=True)
    kept = x.detach().clone()
    out = pick(PROPAGATIONS, spec, WIDTH)(graph, x)
    if not out.requires_grad and not out.any():
        return  # it gathers nothing
    out.square().sum().backward()
    keep(
        not graph.ndata and not graph.edata and torch.equal(x, kept),
        "it changes x in place or leaves data on the graph. Write `with graph.local_scope():` "
        "around `update_all`, and `x = 2 * x` in the place of `x *= 2`.",
    )
    keep(
        x.grad is not None and x.grad.isfinite().all() and x.grad.abs().sum() > 0,
        "no gradient, or none that is finite, reaches x: look for `.detach()` and `torch.no_grad`.",
    )


PROPAGATION: tuple[Callable[[Spec], None], ...] = (
    it_keeps_the_shape_of_x,
    renaming_nodes_renames_the_output,
    graphs_without_edges_give_zeros,
    the_graph_and_x_stay_as_they_are,
)
"""The promises of every propagation."""
