"""The promises of an encoding: a deterministic function of a graph, `(graph) -> (N, k)`."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch

from zoo.config.options import Spec, pick
from zoo.encodings import ENCODINGS
from zoo.graphs.examples import odd_graphs, preferential_attachment, renamed, tiny_graph
from zoo.registry import discover
from zoo.testing.promise import Promise, check_all, keep, keep_close


def encoding_promises(encoding: Spec) -> list[Promise]:
    """Return every promise of an encoding.

    Args:
        encoding: a word of `ENCODINGS`, or a word with options.

    Raises:
        ZooError: no such encoding is registered, or an option of it is wrong.
    """
    discover()  # it may be of another package
    pick(ENCODINGS, encoding, tiny_graph())
    return [
        Promise(check.__name__, str(encoding), functools.partial(check, encoding))
        for check in ENCODING
    ]


def check_encoding(encoding: Spec) -> None:
    """Check every promise of an encoding, see `encoding_promises`.

    Raises:
        zoo.testing.Broken: some are not kept; with a paragraph for each that says what to write.
        ZooError: no such encoding is registered, or an option of it is wrong.
    """
    check_all(encoding_promises(encoding))


def one_row_of_finite_columns_per_node(spec: Spec) -> None:
    """Every graph, odd ones too, has one fp32 row per node and as many columns as any other."""
    columns = pick(ENCODINGS, spec, tiny_graph()).shape[1]
    for graph in (tiny_graph(), *odd_graphs()):
        values = pick(ENCODINGS, spec, graph)
        keep(
            values.shape == (graph.num_nodes(), columns) and values.dtype == torch.float32,
            f"for {graph.num_nodes()} nodes it is {tuple(values.shape)}, {values.dtype}; "
            f"it has to be (N, {columns}) in fp32 whatever the graph: fill up with zeros.",
        )
        keep(
            values.isfinite().all(),
            f"for a graph of {graph.num_nodes()} nodes and {graph.num_edges()} edges it is not "
            "finite. A degree of 0 divides by zero: write `.clamp(min=1)`.",
        )


def it_is_the_same_each_time(spec: Spec) -> None:
    """The same graph gives the same columns; nothing is drawn from global generators."""
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()
    graph = tiny_graph()
    first, again = pick(ENCODINGS, spec, graph), pick(ENCODINGS, spec, tiny_graph())
    keep(
        torch.equal(first, again),
        "the same graph gives other columns each time, and a trained model could not be used "
        "again. Draw from a generator of your own with a fixed seed.",
    )
    keep(
        torch.equal(torch.get_rng_state(), torch_before)
        and (np.random.get_state()[1] == numpy_before).all(),
        "it draws from a global generator, so that training goes on differently after it. Draw "
        "from a `torch.Generator` or `np.random.default_rng(seed)` of your own.",
    )


def renaming_nodes_renames_the_rows(spec: Spec) -> None:
    """A graph whose nodes are numbered anew gives the same rows in the new order."""
    graph = preferential_attachment()
    order = torch.from_numpy(np.random.default_rng(3).permutation(graph.num_nodes()))
    keep_close(
        pick(ENCODINGS, spec, renamed(graph, order)),
        pick(ENCODINGS, spec, graph)[order],
        "with the nodes numbered anew a node's row changes by {by}. Look at edges alone, not at "
        "numbers of nodes; of an eigenvector choose the sign by its values.",
        atol=1e-4,
        rtol=0,
    )


def the_graph_stays_as_it_is(spec: Spec) -> None:
    """No edge is added to the graph and no data is left on it."""
    graph = tiny_graph()
    edges = graph.edges()
    pick(ENCODINGS, spec, graph)
    keep(
        not graph.ndata and not graph.edata and all(map(torch.equal, edges, graph.edges())),
        "it changes the graph or leaves data on it, which is everybody's. Work on a copy, "
        "`graph.clone()`, or inside `graph.local_scope()`.",
    )


ENCODING: tuple[Callable[[Spec], None], ...] = (
    one_row_of_finite_columns_per_node,
    it_is_the_same_each_time,
    renaming_nodes_renames_the_rows,
    the_graph_stays_as_it_is,
)
"""The promises of every encoding."""
