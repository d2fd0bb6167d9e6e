"""Arrays of edges, checked: their ends, weights and features."""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from zoo.datasets.files.labels import check_plain, first_true
from zoo.errors import ZooError, brief, suggestion

Duplicates = Literal["mean", "sum", "max"]
Direction = Literal["both", "in", "out", "separate"]
Relations = Literal["together", "separate"]


def check_edges(edges: ArrayLike, nodes: int) -> np.ndarray:
    """Return edges (E, 2) as int64, all between nodes 0 and N-1."""
    if not isinstance(edges, Sequence) and not hasattr(edges, "__array__"):
        raise ZooError(
            f"edges are an array (E, 2) of node numbers, not {type(edges).__name__}: write "
            "np.stack(matrix.nonzero(), axis=1) of a matrix of scipy, np.array(graph.edges) of a "
            "graph of networkx whose nodes are 0 to N-1."
        )
    edges = np.asarray(edges)
    check_plain("edges", edges)
    if edges.ndim != 2 or edges.shape[1] != 2:
        turned = edges.ndim == 2 and edges.shape[0] == 2
        fix = "write edges.T" if turned else "write one row per edge: its two nodes"
        raise ZooError(f"`edges` has the shape {edges.shape} and should have (E, 2); {fix}.")
    if edges.dtype.kind not in "iu":
        whole = (edges == np.floor(edges)).all()
        fix = "write edges.astype('int64')." if whole else "some are fractions, or NaN."
        raise ZooError(
            f"`edges` is of type {edges.dtype} and should be int64: node numbers from 0; {fix}"
        )
    wrong = (edges < 0) | (edges >= nodes)
    if wrong.any():
        where = first_true(wrong)[0]
        from_one = edges.min() == 1 and edges.max() == nodes
        fix = (
            "they are numbered from 1: write edges - 1"
            if from_one
            else "number the nodes from 0, or add the missing ones to `node_labels` and "
            "`node_features`"
        )
        raise ZooError(
            f"`edges` row {where} is {edges[where].tolist()}, but there are {nodes:,} nodes, 0 to "
            f"{nodes - 1}; {fix}."
        )
    return edges.astype(np.int64, copy=False)


def check_words(duplicates: str, direction: str, relations: str = "together") -> None:
    """Refuse another word than those of `Duplicates`, `Direction` and `Relations`."""
    for option, word, known in (
        ("duplicates", duplicates, Duplicates),
        ("direction", direction, Direction),
        ("relations", relations, Relations),
    ):
        if word not in (words := get_args(known)):
            raise ZooError(f"{option}: {brief(word)} is not known; {suggestion(word, words)}")


def are_canonical(edges: np.ndarray, nodes: int) -> bool:
    """Return whether edges (E, 2) are those of a canonical graph, in any order.

    That is both directions of each, none of them twice, and a self-loop of each of the N nodes.
    """
    source, target = edges.T.astype(np.int64)
    along, against = (np.sort(a * nodes + b) for a, b in ((source, target), (target, source)))
    loops = int((source == target).sum())
    return loops == nodes and np.array_equal(along, against) and bool((np.diff(along) > 0).all())


def check_weights(weights: np.ndarray, edges: int) -> np.ndarray:
    """Return the weights of edges (E,) as fp32, all finite and none below 0."""
    check_plain("edge_weights", weights)
    if weights.shape != (edges,):
        raise ZooError(f"`edge_weights` has the shape {weights.shape} and should have ({edges},).")
    with np.errstate(over="ignore"):
        weights = weights.astype(np.float32, copy=False)
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        where = first_true(wrong)[0]
        raise ZooError(
            f"`edge_weights` is {weights[where]:g} at row {where} ({wrong.sum():,} such rows), and "
            "a weight is a number from 0 to infinity: how much an edge counts. Fill in what is "
            "missing; make distances into weights, such as exp(-d); or write `weights: ignore`."
        )
    return weights


def check_edge_features(features: np.ndarray, edges: int) -> np.ndarray:
    """Return the features of edges (E, F) as finite fp32."""
    check_plain("edge_features", features)
    if features.ndim != 2 or len(features) != edges or features.shape[1] == 0:
        raise ZooError(
            f"`edge_features` has the shape {features.shape} and should have ({edges}, F): a row "
            "of numbers for each edge."
        )
    with np.errstate(over="ignore"):
        features = features.astype(np.float32, copy=False)
    wrong = ~np.isfinite(features)
    if wrong.any():
        row, column = first_true(wrong)
        raise ZooError(
            f"`edge_features` is {features[row, column]:g} at row {row}, column {column} "
            f"({wrong.sum():,} such numbers); fill in what is missing."
        )
    return features
