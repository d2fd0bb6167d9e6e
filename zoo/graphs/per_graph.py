"""What is found once per graph, and lives as long as it: results of look-ups, kept by the graph.

Nothing is written on a graph. Where `torch.compile` traces a model, a look-up that gives tensors is
an operator, and one that gives another graph is known from before.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable

import torch
from torch import Tensor

from zoo.canonical_form import FEATURE, WEIGHT
from zoo.dgl import dgl
from zoo.graphs.shard import Graph, edges
from zoo.tracing import Facts, Like, derives, facts, facts_of, graph_of, operator


def cached_structure(graph: Graph) -> list[Callable[[Graph], object]]:
    """Return what has been computed of a graph so far, as functions that compute it of another."""
    return [
        functools.partial(_ask, look_up, arguments)
        for look_up, known in _LOOK_UPS
        for arguments in [*known.get(graph, (None, ()))[1]]
    ]


def _ask(look_up: Callable, arguments: tuple, graph: Graph) -> None:
    look_up(graph, *arguments)


_LOOK_UPS: list[tuple[Callable, weakref.WeakKeyDictionary]] = []
"""What is found once per graph, and all that is known of it."""


def per_graph(compute: Callable) -> Callable:
    """Compute once per graph and arguments; forget with the graph, or when its edges change.

    Their weights and features are looked at too.
    """
    known: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @functools.wraps(compute)
    def look_up(graph, *arguments):
        noted = facts(graph)
        if noted and (look_up, *arguments) in noted.derived:
            return noted.derived[look_up, *arguments]
        state = _state(edges(graph))
        if graph not in known or not _same(known[graph][0], state):
            known[graph] = (state, {})
        results = known[graph][1]
        if arguments not in results:
            with torch.inference_mode(False):  # what is found serves training too
                results[arguments] = compute(graph, *arguments)
        return results[arguments]

    _LOOK_UPS.append((look_up, known))
    return look_up


def traced(like: Callable[[Facts], list[Like]]) -> Callable[[Callable], Callable]:
    """As `per_graph`, for tensors of a graph on a device: an operator where it is traced.

    Args:
        like: shapes and types of the tensors, which are copies in a trace.
    """

    def decorate(compute: Callable) -> Callable:
        look_up = per_graph(compute)

        def copies(number: int, device: torch.device) -> list[Tensor]:
            results = look_up(graph_of(number), device)
            results = results if isinstance(results, tuple) else (results,)
            return [result.clone() for result in results]

        def fakes(number: int, device: torch.device) -> list[Tensor]:
            kinds = like(facts_of(number))
            return [torch.empty(shape, dtype=kind, device=device) for shape, kind in kinds]

        copies.__module__, copies.__name__ = compute.__module__, compute.__name__
        copied = operator("(int number, Device device) -> Tensor[]", fakes)(copies)

        @functools.wraps(compute)
        def on_device(graph, device: torch.device):
            if not facts(graph):
                return look_up(graph, device)
            results = copied(id(graph), device)
            return results[0] if len(results) == 1 else tuple(results)

        return on_device

    return decorate


@derives
def _derived(graph: dgl.DGLGraph) -> dict[tuple, object]:
    """Return graphs and plain numbers that were made of a graph, by look-up and arguments."""
    return {
        (look_up, *arguments): result
        for look_up, known in _LOOK_UPS
        for state, results in [known.get(graph, ((), {}))]
        for arguments, result in results.items()
        if _known_in_a_trace(result) and _same(state, _state(graph))
    }


def _known_in_a_trace(result: object) -> bool:
    if isinstance(result, tuple):  # of numbers, or of such tuples
        return all(map(_known_in_a_trace, result))
    return isinstance(result, dgl.DGLGraph | int)


def _same(one: tuple, other: tuple) -> bool:
    # Numbers by their value: Python has several objects of a large one.
    return len(one) == len(other) and all(
        a is b or (isinstance(a, int) and a == b) for a, b in zip(one, other, strict=True)
    )


def _state(graph: dgl.DGLGraph) -> tuple:
    """Return what is another object when nodes, edges or their data change."""
    data = [graph.edata[key] for key in (WEIGHT, FEATURE) if key in graph.edata]
    # Tensors of the inference mode do not tell whether they have changed.
    versions = (object() if values.is_inference() else values._version for values in data)
    return graph._graph, *data, *versions
