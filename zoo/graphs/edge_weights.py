"""Weights of edges, and what these tell: direction, and kinds of edges. Features of edges.

They are the edge data `weight` of a canonical graph: (E,), 0 where an edge leads the other way; or
(E, 2) where the two directions are kept apart, first what edges bring to a node, then what its own
lead to; or (E, K) where K kinds of edges are, 0 for those that an edge is not of. A graph without
has weights of 1. They may have gradients; what is found of those that have none is found once per
graph. Features are the edge data `feature`, (E, F).
"""

from __future__ import annotations

import torch
from torch import Tensor

from zoo.canonical_form import FEATURE, WEIGHT
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.adjacency import ends
from zoo.graphs.per_graph import per_graph, traced
from zoo.graphs.shard import Graph, edges, whole
from zoo.system.memory import upload
from zoo.tracing import facts


def edge_weights(graph: Graph, device: torch.device | str = "cpu") -> Tensor | None:
    """Return the weight of each edge that leads to the rows, (E,) on the device; None: all are 1.

    They are the edge data `weight` of the graph, and may have gradients.

    Raises:
        ZooError: the graph has weights of directions, or kinds, which `one_relation` tells apart.
    """
    noted = facts(graph)
    if noted and noted.weights is None:
        return None
    if noted and len(noted.weights[0]) == 1:
        return _on_device(graph, torch.device(device))
    weights = edges(graph).edata.get(WEIGHT)
    if weights is None:
        return None
    if weights.dim() != 1:
        raise ZooError(
            "the data set keeps the directions or kinds of its edges apart, and this model takes "
            "no such graph. Write `model.direction=separate`, or of K kinds `model.relations=K`, "
            "which gcn, sage and gat have; or `dataset.direction=both` and no `relations`."
        )
    return weights.to(device) if weights.requires_grad else _on_device(graph, torch.device(device))


def weight_sums(graph: Graph, device: torch.device | str = "cpu", against: bool = False) -> Tensor:
    """Return the sum of the weights of the edges that lead to, or from, each node, (N,) fp32."""
    graph, rows = whole(graph)
    weights = edge_weights(graph, device)
    if weights.requires_grad:
        return _summed(graph, weights, against)[rows]
    sums = _sums_from if against else _sums_into
    return sums(graph, torch.device(device))[rows]


def one_relation(graph: Graph, number: int, count: int) -> dgl.DGLGraph:
    """Return the graph of the edges of one direction, or kind, and all self-loops, with weights.

    Made once per graph.

    Args:
        graph: one that keeps `count` of them apart.
        number: which, from 0; of directions 1 gives what a node's own edges lead to.
        count: K, how many the model tells apart.

    Raises:
        ZooError: the graph keeps as many not apart, or is a share of one.
    """
    if whole(graph)[0] is not graph:
        raise ZooError(
            "directions and kinds of edges are kept apart in a whole graph, or batches of it: "
            "leave out `layerwise`, and train in one process."
        )
    weights = edges(graph).edata.get(WEIGHT, torch.empty(0))
    kept_apart = weights.shape[1] if weights.dim() == 2 else 1
    if kept_apart != count:
        has = f"{kept_apart} kinds of edges or directions apart" if kept_apart > 1 else "none apart"
        raise ZooError(
            f"the model tells {count} directions or kinds of edges apart, and the data set keeps "
            f"{has}; write `dataset.direction=separate` and `model.direction=separate`, or "
            f"`dataset.relations=separate` and `model.relations={max(kept_apart, 2)}`."
        )
    relation = _one_relation(graph, number)
    if facts(graph) or not any(values.requires_grad for values in _data(graph).values()):
        return relation
    kept, relation = _kept(graph, number), relation.local_var()
    return _with_data(relation, graph, number, kept)


@traced(lambda noted: [noted.weights])
def _on_device(graph, device: torch.device) -> Tensor:
    return upload(edges(graph).edata[WEIGHT], device)


@traced(lambda noted: [((noted.nodes,), _wide(noted.weights[1]))])
def _sums_into(graph, device: torch.device) -> Tensor:
    return upload(_summed(graph, graph.edata[WEIGHT], False), device)


@traced(lambda noted: [((noted.nodes,), _wide(noted.weights[1]))])
def _sums_from(graph, device: torch.device) -> Tensor:
    return upload(_summed(graph, graph.edata[WEIGHT], True), device)


def _summed(graph, weights: Tensor, against: bool) -> Tensor:
    at, weights = ends(graph, weights.device)[0 if against else 1], weights.to(_wide(weights.dtype))
    return weights.new_zeros(graph.num_nodes()).index_add(0, at, weights)


def _wide(kind: torch.dtype) -> torch.dtype:
    """Return what weights are summed in: truth values and bfloat16 count no further than a few."""
    return torch.promote_types(kind, torch.float32)


@per_graph
def _one_relation(graph, number: int) -> dgl.DGLGraph:
    kept = _kept(graph, number)
    src, dst = (end[kept] for end in graph.edges())
    relation = dgl.graph((src, dst), num_nodes=graph.num_nodes(), device=graph.device)
    with torch.no_grad():
        return _with_data(relation, graph, number, kept)


@per_graph
def _kept(graph, number: int) -> Tensor:
    return graph.edata[WEIGHT][:, number].detach().nonzero().squeeze(1)


def _with_data(relation: dgl.DGLGraph, graph, number: int, kept: Tensor) -> dgl.DGLGraph:
    """Give a graph of some edges of another their weights, of one kind, and features."""
    data = _data(graph)
    relation.edata[WEIGHT] = data[WEIGHT][:, number][kept]
    if FEATURE in data:
        relation.edata[FEATURE] = data[FEATURE][kept]
    return relation


def _data(graph) -> dict[str, Tensor]:
    return {key: graph.edata[key] for key in (WEIGHT, FEATURE) if key in graph.edata}


@per_graph
def in_lists(graph) -> dict[str, Tensor]:
    """Return weights and features of the edges by key, (E, ...), in the order of `csc`."""
    numbers = graph.adj_tensors("csc")[2]
    return {key: x[numbers.long()] if len(numbers) else x for key, x in _data(graph).items()}


def edge_features(graph: Graph, dim: int, device: torch.device | str = "cpu") -> Tensor:
    """Return the features of the edges that lead to the rows, (E, dim) on the device.

    They are the edge data `feature` of the graph, and may have gradients.

    Args:
        graph: a canonical graph, or a share of one.
        dim: how many a model reads, at least 1.
        device: of a model.

    Raises:
        ZooError: the graph has none, or another number of them, or no row for each edge.
    """
    noted = facts(graph)
    if noted and noted.features and noted.features[0][1:] == (dim,):
        return _features(graph, torch.device(device))
    features = edges(graph).edata.get(FEATURE)
    if features is not None and features.dim() != 2:
        raise ZooError(
            f"the edge data `feature` is {tuple(features.shape)}, and has to be (E, F), a row for "
            "each edge; of one number for each write `feature.unsqueeze(1)`."
        )
    width = 0 if features is None else features.shape[1]
    if width != dim:
        raise ZooError(
            f"the model reads {dim} features of each edge (`edge_dim`), and the edges of this "
            f"graph have {width or 'none'}; name them by `dataset.edge_features`, or write "
            f"`model.edge_dim={width}`."
        )
    return features.to(device) if features.requires_grad else _features(graph, torch.device(device))


@traced(lambda noted: [noted.features])
def _features(graph, device: torch.device) -> Tensor:
    return upload(edges(graph).edata[FEATURE], device)
