"""What `torch.compile` is given in the place of what it cannot trace.

It traces neither a look into a DGL graph nor a generator nor a loop over blocks of memory. A kernel
is therefore an operator where it is traced, one node of the trace; and of a graph the trace knows
plain `Facts` and a number, by which operators find the graph again. Out of a trace nothing of this
is used, and `torch._dynamo`, whose import takes seconds, stays out of the process.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import library

from zoo.canonical_form import FEATURE, WEIGHT

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

OLDEST = "2.6"
"""The first torch whose operators can be marked as random; with an older one traces end instead."""


def operator(schema: str, fake: Callable[..., Any], *, random: bool = False) -> Callable:
    """Make a kernel one node of a trace; elsewhere it is called as it is, at no cost.

    Args:
        schema: its signature in the words of torch, without the name.
        fake: returns tensors of the shapes and types that the kernel returns, for its arguments.
        random: whether it draws from the global generator, so that two equal calls are not one.
    """

    def decorate(kernel: Kernel) -> Kernel:
        name = f"zoo::{kernel.__module__.rpartition('.')[2]}_{kernel.__name__.strip('_')}"
        _UNDEFINED[name] = functools.partial(_random if random else _plain, schema, kernel, fake)

        @functools.wraps(kernel)
        def call(*arguments):
            traced = _OPERATORS.get(name) if torch.compiler.is_compiling() else None
            return (traced or kernel)(*arguments)

        return call  # type: ignore[return-value]

    return decorate


_OPERATORS: dict[str, Callable] = {}
_UNDEFINED: dict[str, Callable] = {}
"""Those that are defined when the first graph is noted: importing them is to take no time."""


def _plain(schema: str, kernel: Callable, fake: Callable, name: str, **options: Any) -> Callable:
    made = library.custom_op(name, kernel, mutates_args=(), schema=schema, **options)
    made.register_fake(fake)
    return made


def _random(schema: str, kernel: Callable, fake: Callable, name: str) -> Callable:
    """Tell calls apart by an empty tensor: the tag does not keep torch from merging equal ones."""
    made = _plain(
        schema.replace("(", "(Tensor call, ", 1),
        lambda _, *arguments: kernel(*arguments),
        lambda _, *arguments: fake(*arguments),
        name,
        tags=(torch.Tag.nondeterministic_seeded,),
    )
    return lambda *arguments: made(torch.empty(0), *arguments)


Like = tuple[tuple[int, ...], torch.dtype]
"""Shape and type of a tensor."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a trace knows of a graph.

    Attributes:
        edges: how many there are.
        sizes: nodes of each graph of a batch.
        weights: shape and type of the weights of edges; None where these have none.
        features: those of the features of edges, likewise.
        derived: graphs that were made of it, by what they are.
    """

    edges: int
    sizes: tuple[int, ...]
    weights: Like | None
    features: Like | None
    derived: dict[tuple, Any]

    @property
    def nodes(self) -> int:
        """How many nodes there are in all."""
        return sum(self.sizes)


_FACTS: dict[int, Facts] = {}
_GRAPHS: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_DERIVES: list[Callable[[Any], dict[tuple, Any]]] = []


def derives(find: Callable[[Any], dict[tuple, Any]]) -> Callable[[Any], dict[tuple, Any]]:
    """Note a function that returns the graphs that have been made of a graph."""
    _DERIVES.append(find)
    return find


def facts(graph: Any) -> Facts | None:
    """Return what a trace knows of a graph that was noted; None out of a trace.

    What is compiled holds for this graph, as the `id` of it is read, and as long as it has these
    facts, whose `id` is.
    """
    noted = _FACTS.get(id(graph)) if torch.compiler.is_compiling() else None
    return noted if noted is not None and id(noted) else None


def facts_of(number: int) -> Facts:
    """Return what is known of the graph of a number, its `id`."""
    return _FACTS[number]


def graph_of(number: int) -> Any:
    """Return the graph of a number, its `id`."""
    return _GRAPHS[number]


def note(graph: Any) -> None:
    """Note a graph that is about to be traced; a trace ends where it looks into any other.

    So it does for a share of a graph, and where weights of edges are learnt.
    """
    torch.compiler.disable(_note)(graph)


def _note(graph: Any) -> None:
    while _UNDEFINED and torch.__version__ >= OLDEST:
        name, define = _UNDEFINED.popitem()
        _OPERATORS[name] = define(name)
    if getattr(graph, "is_block", None) is not False:
        return
    weights, features = (graph.edata.get(key) for key in (WEIGHT, FEATURE))
    if any(x is not None and x.requires_grad for x in (weights, features)):
        _FACTS.pop(id(graph), None)
        return
    if id(graph) not in _GRAPHS:
        _GRAPHS[id(graph)] = graph
        weakref.finalize(graph, _FACTS.pop, id(graph), None)
    made = {key: derived for find in _DERIVES for key, derived in find(graph).items()}
    sizes = graph.batch_num_nodes().tolist()
    noted = Facts(graph.num_edges(), tuple(sizes), *map(_like, (weights, features)), made)
    if _FACTS.get(id(graph)) != noted:
        _FACTS[id(graph)] = noted
        for derived in made.values():
            _note(derived)


def _like(x: torch.Tensor | None) -> Like | None:
    return None if x is None else (tuple(x.shape), x.dtype)
