"""Which graphs are known to be canonical: the zoo's own are remembered, others looked at once.

Every model counts on the canonical form: both directions of each edge, no duplicates, one self-loop
per node. A graph in another form gives other logits and no error, so it is said once per graph, by
a warning. Nothing is written on a graph, and a known one costs a look into a weak dictionary.
"""

import warnings
import weakref
from typing import Any, TypeVar

import torch
from torch import Tensor

from zoo.errors import ZooError

Given = TypeVar("Given")

FEATURE = "feature"
"""The edge data that holds the features of edges, (E, F)."""

WEIGHT = "weight"
"""The edge data that holds the weights of edges: (E,), or (E, 2) for one of each direction."""

_known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
_NEVER = object()


def mark_canonical(graph: Given) -> Given:
    """Return a graph, or a share of one, after noting that it is canonical."""
    _known[graph] = _index(graph)
    return graph


def derived(graph: Given, source: object) -> Given:
    """Return a graph made of another in a way that keeps it canonical: known if the other is."""
    return mark_canonical(graph) if _is_known(source) else graph


def subgraph(graph: Any, nodes: Tensor) -> Any:
    """Return the graph of some nodes (n,), in their order: known if the whole is."""
    return derived(graph.subgraph(nodes.to(graph.idtype), store_ids=False), graph)


def check_graph(graph: object) -> None:
    """Look at a graph that a model is given, unless it is known.

    Warns once per graph where it is not canonical; sorts its edges twice for that.

    Raises:
        ZooError: it is no graph that a model can take, such as a DGL block.
    """
    if graph is not None and not _is_known(graph):  # None: features only
        _check_kind(graph)
        _check_form(graph)
        mark_canonical(graph)


def _is_known(graph: object) -> bool:
    try:
        return _known.get(graph, _NEVER) is _index(graph)
    except TypeError:  # a list is never known
        return False


def _index(graph: object) -> object:
    return getattr(graph, "_graph", None)  # DGL replaces it when nodes or edges change


def _check_kind(graph: Any) -> None:
    """Refuse what is no homogeneous graph, and say what to give in its place."""
    form = "a model takes one DGL graph in which every row of x is a node"
    if isinstance(graph, list | tuple) or getattr(graph, "is_block", False):
        given = "a DGL block" if hasattr(graph, "is_block") else f"a {type(graph).__name__}"
        raise ZooError(
            f"{form}, not {given}. In the place of a sampler's blocks give the graph of the nodes "
            "that they reach: `part = zoo.canonical(dgl.node_subgraph(graph, input_nodes))`, then "
            "`model(part, x[input_nodes])`, whose rows are in the order of `input_nodes`. Recipes "
            "do it by `train.batching={name: neighbours, size: 1000, fanouts: [10, 10]}`."
        )
    if hasattr(graph, "graph") and hasattr(graph, "x"):
        raise ZooError(f"{form}, not a data set. Write `model(data.graph, data.x)`.")
    if not hasattr(graph, "adj_tensors"):
        raise ZooError(
            f"{form}, not a {type(graph).__name__}. Write `zoo.canonical(edges, nodes=N)` for "
            "edges (E, 2), or `zoo.Dataset.from_networkx(graph).graph`, `from_scipy` likewise."
        )
    if not graph.is_homogeneous:
        raise ZooError(
            f"{form}; this one has several kinds of nodes or edges. Write "
            "`zoo.canonical(dgl.to_homogeneous(graph))`."
        )


def _check_form(graph: Any) -> None:
    src, dst = (end.long() for end in graph.edges())
    n = graph.num_nodes()
    there, back = ((a * n + b).sort().values for a, b in ((src, dst), (dst, src)))
    twice = int((there[1:] == there[:-1]).sum())
    loops = torch.zeros(n, dtype=torch.bool, device=src.device)
    loops[src[src == dst]] = True
    alone = n - int(loops.sum())
    wrong = [
        *([f"{alone:,} nodes have no self-loop"] if alone else []),
        *([f"{twice:,} edges are there more than once"] if twice else []),
        *(["edges have one direction only"] if not torch.equal(there, back) else []),
    ]
    if wrong:
        warnings.warn(
            f"this graph of {n:,} nodes is not canonical: {', '.join(wrong)}. The models of the "
            "zoo count on both directions of every edge, no duplicates and one self-loop per node; "
            "their logits are others without. Write `graph = zoo.canonical(graph)`, once.",
            stacklevel=4,  # where the model is called
        )
