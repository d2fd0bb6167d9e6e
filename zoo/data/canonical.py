"""Canonical graphs: undirected, without duplicate edges, one self-loop per node."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy import sparse

from zoo.canonical_form import FEATURE, WEIGHT, mark_canonical
from zoo.data.files.graph_arrays import (
    Direction,
    Duplicates,
    GraphArrays,
    GraphSetArrays,
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
    if isinstance(source, DGLGraph):
        graph = _canonical_again(
            source, nodes, weights, duplicates, direction, relations, edge_features
        )
        if source.batch_size > 1:  # graphs side by side, which no edge joins
            counts = source.batch_num_nodes().cpu()
            begins = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
            graph.set_batch_num_nodes(counts)
            graph.set_batch_num_edges(torch.searchsorted(graph.edges()[0], begins).diff())
        return graph
    if nodes is None:
        raise ZooError("edges do not say how many nodes there are: write canonical(e, nodes=N)")
    edges = check_edges(source, nodes)
    values = None if weights is None else check_weights(np.asarray(weights), len(edges))
    if relations is not None:
        values = _separate(values, np.asarray(relations), len(edges), direction)
    src, dst = edges.T
    return _build(src, dst, nodes, values, duplicates, direction, edge_features)


def _canonical_again(
    source: DGLGraph,
    nodes: int | None,
    weights: ArrayLike | None,
    duplicates: Duplicates,
    direction: Direction,
    relations: ArrayLike | None,
    edge_features: ArrayLike | None,
) -> DGLGraph:
    """Return the canonical graph of a DGL graph, with the data of its nodes and edges."""
    if not source.is_homogeneous:
        raise ZooError(
            "the graph has several kinds of nodes or edges: write dgl.to_homogeneous(graph) first."
        )
    if nodes not in (None, source.num_nodes()):
        raise ZooError(f"the graph has {source.num_nodes():,} nodes; leave out nodes={nodes}.")
    src, dst = (ends.cpu().numpy() for ends in source.edges())
    wanted = direction
    if weights is None and WEIGHT in source.edata:
        weights = source.edata[WEIGHT].detach().cpu().numpy()
        if weights.ndim == 2:
            weights, direction = np.where(weights > 0, weights, np.nan), "in"
    if weights is not None and np.ndim(weights) == 1:
        weights = check_weights(np.asarray(weights), source.num_edges())
        if direction == "both" and are_canonical(np.stack([src, dst], axis=1), source.num_nodes()):
            direction = "in"
    if relations is not None:
        if np.ndim(weights) == 2:
            raise ZooError("the graph keeps directions or kinds of edges apart; no `relations`.")
        weights = _separate(weights, np.asarray(relations), source.num_edges(), wanted)
    if edge_features is None and FEATURE in source.edata:
        edge_features = source.edata[FEATURE].detach().cpu().numpy()
    graph = _build(src, dst, source.num_nodes(), weights, duplicates, direction, edge_features)
    graph.ndata.update({key: value.cpu() for key, value in source.ndata.items()})
    return graph


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


def graphs_of(
    arrays: GraphSetArrays, duplicates: Duplicates, direction: Direction
) -> list[DGLGraph]:
    """Return the canonical graph of each of a set, of checked arrays; words as those of `graph_of`.

    It is that of the graphs side by side, cut between them: the rows of all are sorted once. Those
    of another form are another set.
    """
    forms = np.array(["" if form is None else form for form in arrays.forms or ()])
    if len(kinds := np.unique(forms)) > 1:
        of_forms = np.empty(len(forms), object)
        for kind in kinds:
            members = forms == kind
            of_forms[members] = graphs_of(_some(arrays, members), duplicates, direction)
        return of_forms.tolist()
    together = GraphArrays(
        arrays.edges,
        np.full(len(arrays.owners), -1),
        arrays.features[:0],
        weights=arrays.weights,
        edge_features=arrays.edge_features,
        form=arrays.forms and arrays.forms[0],
    )
    graph = graph_of(together, duplicates, direction, "together")
    sizes = torch.from_numpy(np.bincount(arrays.owners, minlength=len(arrays.labels)))
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    src, dst = graph.edges()
    cuts = torch.searchsorted(src, starts).tolist()  # they are in order of their sources
    graphs = []
    begins = zip(pairwise(cuts), starts.tolist(), sizes.tolist(), strict=False)
    for (first, last), start, size in begins:
        ends = src[first:last] - start, dst[first:last] - start
        one = dgl.graph(ends, num_nodes=size, row_sorted=True, col_sorted=True)
        one.edata.update({key: values[first:last] for key, values in graph.edata.items()})
        graphs.append(mark_canonical(one))
    return graphs


def _some(arrays: GraphSetArrays, members: np.ndarray) -> GraphSetArrays:
    """Return some graphs (S,) bool of a set, without their features and labels."""
    nodes = members[arrays.owners]
    numbers = np.cumsum(nodes) - 1
    rows = nodes[arrays.edges[:, 0]]
    return GraphSetArrays(
        numbers[arrays.edges[rows]],
        (np.cumsum(members) - 1)[arrays.owners[nodes]],
        arrays.features[:0],
        arrays.labels[members],
        edge_features=None if arrays.edge_features is None else arrays.edge_features[rows],
        weights=None if arrays.weights is None else arrays.weights[rows],
        forms=arrays.forms and tuple(np.array(arrays.forms, object)[members]),
    )


def _both_ways(arrays: GraphArrays) -> GraphArrays:
    """Return arrays with a row for each direction of an edge between two nodes."""
    between = arrays.edges[:, 0] != arrays.edges[:, 1]
    doubled = {"edges": np.concatenate([arrays.edges, arrays.edges[between, ::-1]])}
    for key in ("weights", "relations", "edge_features"):
        rows = getattr(arrays, key)
        doubled[key] = None if rows is None else np.concatenate([rows, rows[between]])
    return arrays._replace(**doubled)


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


def _build(
    source: np.ndarray,
    target: np.ndarray,
    nodes: int,
    weights: np.ndarray | None,
    duplicates: Duplicates,
    direction: Direction,
    features: ArrayLike | None,
) -> DGLGraph:
    """Return the canonical graph of rows (R,) of sources and targets."""
    src, dst = _edges_in_order(source, target, nodes)
    ends = torch.from_numpy(src), torch.from_numpy(dst)
    graph = dgl.graph(ends, num_nodes=nodes, row_sorted=True, col_sorted=True)
    if weights is None and features is None and direction == "both":
        return mark_canonical(graph)
    keys = _keys(src, dst, nodes)
    along, against = _keys(source, target, nodes), _keys(target, source, nodes)
    if weights is not None or direction != "both":
        rows = np.ones(len(source), np.float32) if weights is None else weights
        values = _edge_weights(keys, along, against, rows, duplicates, direction)
        loops = src == dst
        values[loops] = np.where(values[loops] > 0, values[loops], 1)
        graph.edata[WEIGHT] = torch.from_numpy(values)
    if features is not None:
        features = check_edge_features(np.asarray(features), len(source))
        graph.edata[FEATURE] = torch.from_numpy(_edge_means(keys, along, against, features))
    return mark_canonical(graph)


def _edges_in_order(
    source: np.ndarray, target: np.ndarray, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the edges of the canonical graph, (E,) and (E,), in order."""
    # Every node's loop is added: a loop that is there already would be summed with it, and any
    # sum will do, because only the pattern of the matrix is read.
    dtype = np.int32 if nodes < 2**31 else np.int64
    loop = np.arange(nodes, dtype=dtype)
    source, target = source.astype(dtype), target.astype(dtype)
    ends = np.concatenate([source, target, loop]), np.concatenate([target, source, loop])
    pattern = sparse.coo_array((np.ones(len(ends[0]), bool), ends), shape=(nodes, nodes)).tocsr()
    pattern.sum_duplicates()
    rows = np.repeat(np.arange(nodes, dtype=np.int64), np.diff(pattern.indptr))
    return rows, pattern.indices.astype(np.int64)


def _keys(source: np.ndarray, target: np.ndarray, nodes: int) -> np.ndarray:
    """Return one number for each edge, in order of source and target."""
    return source.astype(np.int64) * nodes + target


def _edge_weights(
    keys: np.ndarray,
    along: np.ndarray,
    against: np.ndarray,
    values: np.ndarray,
    duplicates: Duplicates,
    direction: Direction,
) -> np.ndarray:
    """Return the weights of edges (E,), or (E, 2), of rows (R,) with these keys and weights."""
    if values.ndim == 2:
        columns = [
            _edge_weights(keys, along[rows], against[rows], column[rows], duplicates, direction)
            for column, rows in zip(values.T, ~np.isnan(values.T), strict=True)
        ]
        return np.stack(columns, axis=1)
    between = along != against
    both = np.concatenate([along, against[between]]), np.concatenate([values, values[between]])
    there, back = (along, values), (against, values)
    ways = {"both": [both], "in": [there], "out": [back], "separate": [there, back]}[direction]
    columns = [_combine(keys, *rows, duplicates) for rows in ways]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _combine(
    keys: np.ndarray, rows: np.ndarray, values: np.ndarray, duplicates: Duplicates
) -> np.ndarray:
    """Return what the values of the rows of each key come to, (E,) fp32; 0 without any."""
    at = np.searchsorted(keys, rows)
    if duplicates == "max":
        largest = np.zeros(len(keys), np.float32)
        np.maximum.at(largest, at, values)
        return largest
    total = np.bincount(at, values, minlength=len(keys)).astype(np.float64)  # int64 of no rows
    if duplicates == "mean":
        total /= np.maximum(np.bincount(at, minlength=len(keys)), 1)
    return total.astype(np.float32)


def _edge_means(
    keys: np.ndarray, along: np.ndarray, against: np.ndarray, features: np.ndarray
) -> np.ndarray:
    """Return the mean features (E, F) fp32 of the rows of each edge, or of its other direction."""
    means = np.zeros((len(keys), features.shape[1]), np.float64)
    empty = np.ones(len(keys), bool)
    for rows in (along, against):
        at = np.searchsorted(keys, rows)
        matrix = sparse.csr_array(
            (np.ones(len(at)), (at, np.arange(len(at)))), shape=(len(keys), len(at))
        )
        counts = matrix.sum(axis=1)
        own = empty & (counts > 0)
        means[own] = (matrix[own] @ features) / counts[own, None]
        empty &= ~own
    return means.astype(np.float32)


def _separate(
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
    separate = np.full((edges, int(relations.max(initial=0)) + 1), np.nan, np.float32)
    separate[np.arange(edges), relations] = 1 if weights is None else weights
    return separate
