"""Canonical graphs: undirected, without duplicate edges, one self-loop per node."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

from zoo.canonical_form import FEATURE, WEIGHT, mark_canonical
from zoo.data.files.graph_arrays import (
    Direction,
    Duplicates,
    GraphArrays,
    Relations,
    are_canonical,
    check_edge_features,
    check_edges,
    check_weights,
    check_words,
)
from zoo.dgl import DGLGraph, dgl
from zoo.errors import ZooError


def canonical(
    source: DGLGraph | ArrayLike,
    *,
    nodes: int | None = None,
    weights: ArrayLike | None = None,
    duplicates: Duplicates = "mean",
    direction: Direction = "both",
    relations: ArrayLike | None = None,
    edge_features: ArrayLike | None = None,
) -> DGLGraph:
    """Return a graph with both directions of every edge, no duplicates, one self-loop per node.

    Edges are in order of source and target, so that the same graph always gives the same numbers,
    and a DGL graph that is canonical comes back equal. Time and memory are linear in nodes and
    edges. Weights and directions become edge data `weight`: with a direction, an edge that leads
    the other way has the weight 0. A self-loop keeps its weight above 0; else it has the weight 1.

    Args:
        source: a DGL graph, or edges (E, 2) of node numbers, in any order and direction.
        nodes: N, how many nodes there are; needed with edges, since some nodes may have none.
        weights: (E,) of the edges, from 0; None: those of a given graph, or 1.
        duplicates: what the weights of an edge that is there more than once become.
        direction: `both`: an edge is one of both directions; `in`: nodes gather along the edges
            only; `out`: against them; `separate`: (E, 2) weights, of the two apart.
        relations: (E,) the kind of each edge, 0 to K-1, for (E, K) weights, of the kinds apart.
        edge_features: (E, F) numbers, which become edge data `feature`: the mean of the rows of an
            edge, those that lead the other way where none lead its own; 0 of a self-loop that is
            added. None: those of a given graph, if it has some.

    Returns:
        A new DGLGraph on the CPU, with the node data of a given graph.

    Raises:
        ZooError: an unknown word, several kinds of nodes or edges, edges that are no pairs of
            nodes 0 to N-1, weights or kinds of edges that are not one number from 0 for each edge,
            or features that are not finite.
    """
    check_words(duplicates, direction)
    if not isinstance(source, DGLGraph):
        if nodes is None:
            raise ZooError("edges do not say how many nodes there are: write canonical(e, nodes=N)")
        edges = check_edges(source, nodes)
        values = None if weights is None else check_weights(np.asarray(weights), len(edges))
        if relations is not None:
            values = _apart(values, np.asarray(relations), len(edges), direction)
        graph = _canonical(edges[:, 0], edges[:, 1], nodes, values, duplicates, direction)
        return _with_features(graph, edges[:, 0], edges[:, 1], edge_features)
    graph = _again(source, nodes, weights, duplicates, direction, relations, edge_features)
    graph.ndata.update({key: value.cpu() for key, value in source.ndata.items()})
    if source.batch_size > 1:  # graphs side by side, which no edge joins
        counts = source.batch_num_nodes().cpu()
        begins = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        graph.set_batch_num_nodes(counts)
        graph.set_batch_num_edges(torch.searchsorted(graph.edges()[0], begins).diff())
    return graph


def _again(
    source: DGLGraph,
    nodes: int | None,
    weights: ArrayLike | None,
    duplicates: Duplicates,
    direction: Direction,
    relations: ArrayLike | None,
    edge_features: ArrayLike | None,
) -> DGLGraph:
    """Return the canonical graph of a DGL graph, with the data of its edges."""
    if not source.is_homogeneous:
        raise ZooError(
            "the graph has several kinds of nodes or edges: write dgl.to_homogeneous(graph) first."
        )
    if nodes not in (None, source.num_nodes()):
        raise ZooError(f"the graph has {source.num_nodes():,} nodes; leave out nodes={nodes}.")
    ends, asked = [each.cpu().numpy() for each in source.edges()], direction
    if weights is None and WEIGHT in source.edata:
        weights = source.edata[WEIGHT].detach().cpu().numpy()
        if weights.ndim == 2:
            weights, direction = np.where(weights > 0, weights, np.nan), "in"
    values = weights
    if weights is not None and np.ndim(weights) == 1:
        values = check_weights(np.asarray(weights), source.num_edges())
        if direction == "both" and are_canonical(np.stack(ends, axis=1), source.num_nodes()):
            direction = "in"
    if relations is not None:
        if np.ndim(values) == 2:
            raise ZooError("the graph keeps directions or kinds of edges apart; no `relations`.")
        values = _apart(values, np.asarray(relations), source.num_edges(), asked)
    if edge_features is None and FEATURE in source.edata:
        edge_features = source.edata[FEATURE].detach().cpu().numpy()
    graph = _canonical(*ends, source.num_nodes(), values, duplicates, direction)
    return _with_features(graph, *ends, edge_features)


def graph_of(
    arrays: GraphArrays, duplicates: Duplicates, direction: Direction, relations: Relations
) -> DGLGraph:
    """Return the canonical graph of checked arrays, with the weights and features of their edges.

    Args:
        arrays: E edges of N nodes; weights (E,) and features (E, F) where there are some.
        duplicates: what the weights of an edge that is there more than once become.
        direction: as that of `canonical`; rows without direction lead both ways in any case.
        relations: `separate` keeps K kinds of edges apart, (E, K) weights.

    Raises:
        ZooError: kinds of edges are to be kept apart, and there is one, or directions are as well.
    """
    check_words(duplicates, direction, relations)
    apart = relations == "separate"
    if apart and (arrays.relations is None or len(arrays.relation_names or ()) == 1):
        raise ZooError("`relations: separate` is of several kinds of edges, and there is one here.")
    if arrays.form == "undirected" and direction != "both":
        arrays = _both_ways(arrays)
    if arrays.form == "canonical" and direction == "both" and arrays.weights is not None:
        direction = "in"
    return canonical(
        arrays.edges,
        nodes=len(arrays.labels),
        weights=arrays.weights,
        duplicates=duplicates,
        direction=direction,
        relations=arrays.relations if apart else None,
        edge_features=arrays.edge_features,
    )


def _both_ways(arrays: GraphArrays) -> GraphArrays:
    """Return arrays with a row for each direction of an edge between two nodes."""
    between = arrays.edges[:, 0] != arrays.edges[:, 1]
    found = {"edges": np.concatenate([arrays.edges, arrays.edges[between, ::-1]])}
    for key in ("weights", "relations", "edge_features"):
        rows = getattr(arrays, key)
        found[key] = None if rows is None else np.concatenate([rows, rows[between]])
    return arrays._replace(**found)


def concatenate_graphs(graphs: Sequence[DGLGraph]) -> DGLGraph:
    """Return canonical graphs as one, without edges between them; edges keep what all of them have.

    It is one set of nodes: attention goes from each graph to the others.

    Raises:
        ZooError: some have weights, directions or features of edges, and others have not.
    """
    for graph in (bare := [graph.local_var() for graph in graphs]):
        for key in list(graph.ndata):
            graph.ndata.pop(key)
    if len({tuple((key, tuple(graph.edata[key].shape[1:])) for key in sorted(graph.edata))
            for graph in bare}) > 1:  # fmt: skip
        raise ZooError(
            "some of the graphs have weights, directions or features of edges, and others have "
            "not, or others; read all of them with the same options."
        )
    joined = dgl.batch(bare)
    joined.set_batch_num_nodes(torch.tensor([joined.num_nodes()]))
    joined.set_batch_num_edges(torch.tensor([joined.num_edges()]))
    return mark_canonical(joined)


def _canonical(
    source: np.ndarray,
    target: np.ndarray,
    nodes: int,
    weights: np.ndarray | None,
    duplicates: Duplicates,
    direction: Direction,
) -> DGLGraph:
    src, dst = _pattern(source, target, nodes)
    ends = torch.from_numpy(src), torch.from_numpy(dst)
    graph = dgl.graph(ends, num_nodes=nodes, row_sorted=True, col_sorted=True)
    if weights is not None or direction != "both":
        given = np.ones(len(source), np.float32) if weights is None else weights
        along, against = _keys(source, target, nodes), _keys(target, source, nodes)
        keys = _keys(src, dst, nodes)
        found = _weights(keys, along, against, given, duplicates, direction)
        loops = src == dst
        found[loops] = np.where(found[loops] > 0, found[loops], 1)
        graph.edata[WEIGHT] = torch.from_numpy(found)
    return mark_canonical(graph)


def _with_features(
    graph: DGLGraph, source: np.ndarray, target: np.ndarray, features: ArrayLike | None
) -> DGLGraph:
    """Give a canonical graph the features (R, F) of the rows that it was made of."""
    if features is None:
        return graph
    features = check_edge_features(np.asarray(features), len(source))
    src, dst = (each.numpy() for each in graph.edges())
    nodes, found = graph.num_nodes(), np.zeros((graph.num_edges(), features.shape[1]), np.float64)
    keys = _keys(src, dst, nodes)
    empty = np.ones(len(keys), bool)
    for start, end in ((source, target), (target, source)):
        at = np.searchsorted(keys, _keys(start, end, nodes))
        ones = np.ones(len(at))
        rows = sparse.csr_array((ones, (at, np.arange(len(at)))), shape=(len(keys), len(at)))
        many = rows.sum(axis=1)
        own = empty & (many > 0)
        found[own] = (rows[own] @ features) / many[own, None]
        empty &= ~own
    graph.edata[FEATURE] = torch.from_numpy(found.astype(np.float32))
    return graph


def _pattern(source: np.ndarray, target: np.ndarray, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the edges of the canonical graph, (E,) and (E,), in order."""
    # Every node's loop is added: a loop that is there already would be summed with it, and any
    # sum will do, because only the pattern of the matrix is read.
    kind = np.int32 if nodes < 2**31 else np.int64
    loop = np.arange(nodes, dtype=kind)
    source, target = source.astype(kind), target.astype(kind)
    ends = np.concatenate([source, target, loop]), np.concatenate([target, source, loop])
    pattern = sparse.coo_array((np.ones(len(ends[0]), bool), ends), shape=(nodes, nodes)).tocsr()
    pattern.sum_duplicates()
    rows = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(pattern.indptr))
    return rows, pattern.indices.astype(np.int64)


def _keys(source: np.ndarray, target: np.ndarray, nodes: int) -> np.ndarray:
    """Return one number for each edge, in order of source and target."""
    return source.astype(np.int64) * nodes + target


def _weights(
    keys: np.ndarray,
    along: np.ndarray,
    against: np.ndarray,
    values: np.ndarray,
    duplicates: Duplicates,
    direction: Direction,
) -> np.ndarray:
    """Return the weights of edges (E,), or (E, 2), of rows (R,) with these keys and weights."""
    if values.ndim == 2:
        apart = [
            _weights(keys, along[own], against[own], column[own], duplicates, direction)
            for column, own in zip(values.T, ~np.isnan(values.T), strict=True)
        ]
        return np.stack(apart, axis=1)
    between = along != against
    both = np.concatenate([along, against[between]]), np.concatenate([values, values[between]])
    there, back = (along, values), (against, values)
    ways = {"both": [both], "in": [there], "out": [back], "separate": [there, back]}[direction]
    found = [_combined(keys, *rows, duplicates) for rows in ways]
    return found[0] if len(found) == 1 else np.stack(found, axis=1)


def _apart(
    weights: np.ndarray | None, relations: np.ndarray, edges: int, direction: str
) -> np.ndarray:
    """Return weights (E, K) of edges that are of one kind each, NaN for the other kinds."""
    if direction != "both":
        raise ZooError("kinds of edges are kept apart, or directions; leave one of them out.")
    if relations.shape != (edges,) or relations.dtype.kind not in "iu" or (relations < 0).any():
        raise ZooError(
            f"the kinds of edges are one whole number from 0 for each of the {edges:,} edges, and "
            f"not {relations.dtype} of the shape {relations.shape}."
        )
    kinds = int(relations.max(initial=0)) + 1
    found = np.full((len(relations), kinds), np.nan, np.float32)
    found[np.arange(len(relations)), relations] = 1 if weights is None else weights
    return found


def _combined(
    keys: np.ndarray, rows: np.ndarray, values: np.ndarray, duplicates: Duplicates
) -> np.ndarray:
    """Return what the values of the rows of each key come to, (E,) fp32; 0 without any."""
    at = np.searchsorted(keys, rows)
    if duplicates == "max":
        found = np.zeros(len(keys), np.float32)
        np.maximum.at(found, at, values)
        return found
    found = np.bincount(at, values, minlength=len(keys)).astype(np.float64)  # int64 of no rows
    if duplicates == "mean":
        found /= np.maximum(np.bincount(at, minlength=len(keys)), 1)
    return found.astype(np.float32)
