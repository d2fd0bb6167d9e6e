"""The promises of an encoding: a deterministic function of a graph, `(graph) -> (N, k)`.

Of an encoding with weights they are those of what its network makes of this, `(graph, (N, k))`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Spec, pick
from zoo.encodings import ENCODINGS
from zoo.graphs.examples import (
    batch,
    odd_graphs,
    preferential_attachment,
    renamed,
    short_path,
    tiny_graph,
)
from zoo.nn import ENCODING_NETWORKS
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
    checks = (*ENCODING, *(LEARNED if _learned(encoding) else ()))
    return [
        Promise(check.__name__, str(encoding), functools.partial(check, encoding))
        for check in checks
    ]


def check_encoding(encoding: Spec) -> None:
    """Check every promise of an encoding, see `encoding_promises`.

    Raises:
        zoo.testing.Broken: some are not kept; with a paragraph for each that says what to write.
        ZooError: no such encoding is registered, or an option of it is wrong.
    """
    check_all(encoding_promises(encoding))


def _learned(spec: Spec) -> bool:
    return (spec if isinstance(spec, str) else spec["name"]) in ENCODING_NETWORKS


def _values(spec: Spec, graph) -> Tensor:
    """Return what stands beside the features of a graph: of a network always the same one."""
    columns = pick(ENCODINGS, spec, graph)
    if not _learned(spec):
        return columns
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        network = pick(ENCODING_NETWORKS, spec)
    return network(graph, columns)


def one_row_of_finite_columns_per_node(spec: Spec) -> None:
    """Every graph, odd ones too, has one fp32 row per node and as many columns as any other."""
    columns = _values(spec, tiny_graph()).shape[1]
    for graph in (tiny_graph(), *odd_graphs()):
        values = _values(spec, graph)
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
    first, again = _values(spec, graph), _values(spec, tiny_graph())
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
        _values(spec, renamed(graph, order)),
        _values(spec, graph)[order],
        "with the nodes numbered anew a node's row changes by {by}. Look at edges alone, not at "
        "numbers of nodes; of an eigenvector choose the sign by its values.",
        atol=1e-4,
        rtol=0,
    )


def the_graph_stays_as_it_is(spec: Spec) -> None:
    """No edge is added to the graph and no data is left on it."""
    graph = tiny_graph()
    edges = graph.edges()
    _values(spec, graph)
    keep(
        not graph.ndata and not graph.edata and all(map(torch.equal, edges, graph.edges())),
        "it changes the graph or leaves data on it, which is everybody's. Work on a copy, "
        "`graph.clone()`, or inside `graph.local_scope()`.",
    )


def every_weight_has_a_gradient(spec: Spec) -> None:
    """Every weight of the network is trained."""
    graph = tiny_graph()
    network = pick(ENCODING_NETWORKS, spec)
    made = network(graph, pick(ENCODINGS, spec, graph))
    (made * torch.randn_like(made)).sum().backward()
    still = [name for name, weight in network.named_parameters()
             if weight.grad is None or not weight.grad.any()]  # fmt: skip
    keep(
        not still,
        f"{', '.join(still)} would not be trained: it has no gradient, or one of zeros. Remove it.",
    )


def it_is_given_as_many_columns_as_it_reads(spec: Spec) -> None:
    """The function and the network have the same options, and mean the same numbers of columns."""
    graph, network = tiny_graph(), pick(ENCODING_NETWORKS, spec)
    columns = pick(ENCODINGS, spec, graph)
    given, made = columns.shape[1], network(graph, columns).shape[1]
    keep(
        (given, made) == (network.columns, network.dim),
        f"the function gives {given} columns, of which the network makes {made}; set its "
        f"attributes `columns` and `dim`, {network.columns} and {network.dim}, to these numbers.",
    )


def graphs_of_a_batch_do_not_meet(spec: Spec) -> None:
    """Graphs in a batch give what each gives by itself."""
    graphs, network = [tiny_graph(), short_path(), tiny_graph()], pick(ENCODING_NETWORKS, spec)
    columns = [pick(ENCODINGS, spec, graph) for graph in graphs]
    keep_close(
        network(batch(graphs), torch.cat(columns)),
        torch.cat([*map(network, graphs, columns)]),
        "in a batch of graphs its numbers change by {by}. Sum along the edges alone, or by "
        "`graph.batch_num_nodes()`.",
        atol=1e-5,
        rtol=0,
    )


ENCODING: tuple[Callable[[Spec], None], ...] = (
    one_row_of_finite_columns_per_node,
    it_is_the_same_each_time,
    renaming_nodes_renames_the_rows,
    the_graph_stays_as_it_is,
)
"""The promises of every encoding."""

LEARNED: tuple[Callable[[Spec], None], ...] = (
    every_weight_has_a_gradient,
    it_is_given_as_many_columns_as_it_reads,
    graphs_of_a_batch_do_not_meet,
)
"""Those of every encoding with weights besides."""
