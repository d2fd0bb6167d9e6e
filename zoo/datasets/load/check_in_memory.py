"""The checks of `zoo data check`: size, edges, features, labels, homophily and splits.

Each finding has a verdict: `good`; `look`, something to know that may be as it should be; or `fix`,
something that the zoo refuses or that makes scores meaningless. What is wrong is told as a finding
here, and not as the first error, so that all of it is seen at once.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from zoo.datasets import GraphArrays
from zoo.datasets.files.edge_arrays import check_edge_features, check_edges, check_weights
from zoo.datasets.files.graph_arrays import (
    check_features,
    check_ids,
    check_names,
    check_room,
    check_rows,
)
from zoo.datasets.files.labels import (
    BINARY,
    CLASSIFICATION,
    REGRESSION,
    check_labels,
    check_task,
    infer_task,
    one_hot,
)
from zoo.datasets.from_objects import lie_apart
from zoo.datasets.load.check_labels import APART, check_balance, check_leaks, check_splits
from zoo.errors import Finding, refused_by

_TELLING = 8
"""Columns up to which nodes have the same features by chance."""

_AT_ONCE = 1_000_000
"""Numbers of which hashes are taken at a time."""

QUANTILES = {"least": 0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "99%": 0.99,
              "most": 1}  # fmt: skip


class Shape(NamedTuple):
    """The undirected pattern (N, N) of a graph without loops, and what its rows hold beside it."""

    pattern: sparse.csr_array
    rows: int
    repeated: int
    loops: int


def check_graph(arrays: GraphArrays) -> list[Finding]:
    """Return all findings on a graph as `zoo.datasets.load.read_graph` reads it."""
    if arrays.labels.ndim not in (1, 2):
        return refused_by("labels", lambda: check_labels(arrays.labels))
    nodes = len(arrays.labels)
    task = arrays.task or infer_task(arrays.labels)
    ids = refused_by("ids", lambda: arrays.ids is None or check_ids(arrays.ids, nodes))
    edges = refused_by("edges", lambda: check_edges(arrays.edges, nodes))
    labels = refused_by("labels", lambda: check_task(check_labels(arrays.labels, task), task))
    names = [] if labels else refused_by("names", lambda: check_names(arrays))
    if names:  # the rest is told without them
        arrays = arrays._replace(label_names=None, feature_names=None)
    found = [*ids, *edges, *names]
    if task == CLASSIFICATION and (classes := one_hot(arrays.labels)) is not None:
        arrays = arrays._replace(labels=classes)
        text, fix = "a 1 in each row, read as its class", "`task=node-multilabel` keeps them apart"
        found.append(Finding("one-hot labels", "look", text, fix))
    shape = None if edges else shape_of(arrays)
    if shape:
        found += check_shape(shape) + ([_direction(arrays)] if shape.pattern.nnz else [])
    if arrays.weights is not None and not edges:
        found += _weights(arrays)
    if arrays.edge_features is not None and not edges:
        found += _features_of_edges(arrays.edge_features, len(arrays.edges))
    found += check_columns(arrays)
    if shape and not any(each.verdict == "fix" for each in found) and arrays.features.shape[1]:
        found.append(_repeated(arrays, shape))
    found += labels or check_balance(arrays, task)
    whole = not any(each.verdict == "fix" for each in found)
    if whole and task in (CLASSIFICATION, BINARY):
        found += check_leaks(arrays)
    if shape and not labels and arrays.labels.ndim == 1 and task != REGRESSION:
        found += check_homophily(shape, arrays.labels)
    return found + check_splits(arrays, task)


def shape_of(arrays: GraphArrays) -> Shape:
    """Return the pattern of edges that are numbers of nodes."""
    nodes = len(arrays.labels)
    source, target = arrays.edges.astype(np.int64).T
    other = source != target
    repeated = len(source) - len(np.unique(source * nodes + target))
    ends = np.r_[source[other], target[other]], np.r_[target[other], source[other]]
    pattern = sparse.coo_array((np.ones(len(ends[0]), bool), ends), shape=(nodes, nodes)).tocsr()
    pattern.sum_duplicates()
    return Shape(pattern, len(source), repeated, int((~other).sum()))


def check_shape(shape: Shape) -> list[Finding]:
    """Look at the size of a graph, its components, and the rows that count for nothing."""
    nodes, edges = shape.pattern.shape[0], shape.pattern.nnz // 2
    values = {"nodes": nodes, "edges": edges, "rows": shape.rows}
    size = f"{nodes:,} nodes; {edges:,} edges, without direction, from {shape.rows:,} rows"
    if shape.rows == 0:
        text = f"{nodes:,} samples without edges"
        fix = "a recipe makes some of the features: `graph: {name: knn, k: 5}`"
        return [Finding("size", "look", text, fix, values)]
    if edges == 0:
        fix = "no edge joins two different nodes: see what is read as edges (source, target)"
        return [Finding("size", "fix", size, fix, values)]
    degree = np.diff(shape.pattern.indptr)
    count, groups = sparse.csgraph.connected_components(shape.pattern, directed=False)
    largest = float(np.bincount(groups).max() / nodes)
    alone = int((degree == 0).sum())
    spread = {name: float(np.quantile(degree, each)) for name, each in QUANTILES.items()}
    text = f"{count:,}, the largest with {largest:.1%} of the nodes"
    values_of = {"components": int(count), "largest": largest}
    return [
        Finding("size", "good", size, values=values),
        none_of("components", count - 1, text, "no message passes between them, only attention",
              values_of),
        none_of("isolated nodes", alone, f"{alone:,}",
              "only its features tell of a node without edges: see that no edge is lost",
              {"isolated": alone}),
        none_of("duplicates", shape.repeated, f"{shape.repeated:,} rows repeat an edge",
              "an edge counts once, however often it is there; of weights `duplicates` says what "
              "they become, and of features the mean is taken", {"repeated": shape.repeated}),
        none_of("self-loops", shape.loops, f"{shape.loops:,}",
              "their weights and features are kept; every other node gets one, of weight 1",
              {"loops": shape.loops}),
        Finding("degrees", "good", ", ".join(f"{name} {each:g}" for name, each in spread.items()),
                values=spread),
    ]  # fmt: skip


def _direction(arrays: GraphArrays) -> Finding:
    """Tell how many edges are there in both directions."""
    if arrays.form == "undirected":
        return Finding("direction", "good", "edges have none: all lead both ways",
                       values={"mutual": 1.0})  # fmt: skip
    source, target = arrays.edges[arrays.edges[:, 0] != arrays.edges[:, 1]].astype(np.int64).T
    n = len(arrays.labels)
    share = float(np.isin(np.unique(source * n + target), target * n + source).mean())
    text = f"{share:.1%} of the edges are there in both directions"
    fix = "all count as if they were, unless `direction: in`, `out` or `separate` is written"
    verdict = ("look", text, fix) if 0 < share < 1 else ("good", text)
    return Finding("direction", *verdict, values={"mutual": share})


def _weights(arrays: GraphArrays) -> list[Finding]:
    """Look at weights of edges: their range, and how they compare with an added self-loop's 1."""
    if refused := refused_by("weights", lambda: check_weights(arrays.weights, len(arrays.edges))):
        return refused
    low, middle, high = np.quantile(arrays.weights, [0, 0.5, 1]).tolist()
    text, far = f"from {low:g} to {high:g}, median {middle:g}", not 1 / APART < middle < APART
    fix = "the loops that are added weigh 1: divide the column by its median" if far else ""
    values = {"least": low, "median": middle, "most": high}
    return [Finding("weights", "look" if far else "good", text, fix, values)]


def _features_of_edges(features: np.ndarray, edges: int) -> list[Finding]:
    count = features.shape[1]
    text = "1 feature of each edge" if count == 1 else f"{count:,} features of each edge"
    told = Finding("edge features", "good", text, values={"edge_features": count})
    return refused_by("edge features", lambda: check_edge_features(features, edges)) or [told]


def _repeated(arrays: GraphArrays, shape: Shape) -> Finding:
    """Count nodes with the features and neighbours of another, and test nodes like training ones.

    Rows are compared by hashes of 64 bits, which are equal by chance hardly ever.
    """
    count, neighbours = arrays.features.shape[1], shape.pattern @ _keys(len(arrays.labels))
    kinds = _row_hashes(arrays.features)
    again = len(kinds) - len(np.unique(np.stack([kinds, neighbours], axis=1), axis=0))
    text, seen = f"{again:,} with the features and neighbours of another", 0
    if arrays.masks and count > _TELLING:
        train, test = (np.atleast_2d(arrays.masks[part])[0] for part in ("train", "test"))
        seen = int(np.isin(kinds[test], kinds[train]).sum())
        text += f"; {seen:,} test nodes have the features of a training node"
    fix = "where one is tested and its like trained on, the score is too good"
    return none_of("repeated nodes", again + seen, text, fix, {"repeated": again, "seen": seen})


def _row_hashes(x: np.ndarray | sparse.csr_array) -> np.ndarray:
    """Return a hash (N,) of each row of numbers (N, F), exact in columns of any scale.

    It is the sum over columns of a hash of the bits, which is 0 of a 0, times the column's key.
    """
    from pandas.util import hash_array

    keys = _keys(x.shape[1])
    if sparse.issparse(x):
        whole = x.tocsr(copy=True)
        whole.sum_duplicates()
        bits = hash_array(whole.data + 0, categorize=False)  # + 0, as there is a zero below it
        return sparse.csr_array((bits, whole.indices, whole.indptr), whole.shape) @ keys
    step = max(_AT_ONCE // x.shape[1], 1)
    found = [
        hash_array((x[start : start + step] + 0).ravel(), categorize=False).reshape(-1, len(keys))
        @ keys
        for start in range(0, max(len(x), 1), step)
    ]
    return np.concatenate(found)


def _keys(count: int) -> np.ndarray:
    """Return random odd numbers (count,) of 64 bits, always the same."""
    rng = np.random.default_rng(0)
    return rng.integers(2**64, size=count, dtype=np.uint64, endpoint=False) | np.uint64(1)


def none_of(name: str, count: int, text: str, advice: str, values: dict[str, Any]) -> Finding:
    """Return a finding that is good where there is none of something, else advice to look."""
    return Finding(name, *(("look", text, advice) if count else ("good", text)), values=values)


def check_columns(arrays: GraphArrays) -> list[Finding]:
    """Look at the features: how many, what they range over, which are missing or constant."""
    for each in (
        lambda: check_rows(arrays.features, len(arrays.labels)),
        lambda: check_room(arrays.features.shape),
        lambda: arrays.columns and arrays.columns.learnt(),
    ):
        if refused := refused_by("features", each):
            return refused
    count = arrays.features.shape[1]
    if count == 0:
        fix = "train with an encoding, such as `encoding={name: laplacian, k: 8}`, or add columns"
        return [Finding("features", "look", "none", fix, {"features": 0})]
    x = arrays.features.toarray() if sparse.issparse(arrays.features) else arrays.features
    names = arrays.feature_names or tuple(f"column {each}" for each in range(count))
    finite = np.isfinite(x)
    gaps = np.isnan(x).sum(axis=0)
    infinite = (~finite).sum(axis=0) - gaps
    known = np.where(finite, x, np.nan)
    some = finite.any(axis=0)
    low, high = np.nanmin(known[:, some], axis=0), np.nanmax(known[:, some], axis=0)
    constant = [names[each] for each in np.flatnonzero(some)[low == high]]
    known = known[:, some].astype(np.float64)
    mean, spread = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
    values = {"features": count, "least": float(low.min(initial=np.inf)),
              "most": float(high.max(initial=-np.inf))}  # fmt: skip
    text = f"{count:,}, from {values['least']:g} to {values['most']:g}"
    refused = refused_by("features", lambda: check_features(arrays.features, len(arrays.labels)))
    found = [] if refused and finite.all() else [scales(text, mean, spread, values)]
    if gaps.any() or infinite.any():
        refused = []
    if gaps.any():
        fix = "fill them in, of a table by `missing: mean`, or leave columns out (`columns: [...]`)"
        refused.append(_not_finite("missing features", "missing", gaps, names, fix))
    if infinite.any():
        fix = "replace them in the file, or leave columns out (`columns: [...]`)"
        kind = "infinite, or past 3e38"
        refused.append(_not_finite("infinite features", kind, infinite, names, fix))
    if constant:
        text = f"{len(constant):,}: {', '.join(constant[:5])}"
        fix = "they tell nothing; leave them out"
        found.append(Finding("constant features", "look", text, fix, {"constant": len(constant)}))
    return found + refused


def _not_finite(name: str, kind: str, counts: np.ndarray, names, fix: str) -> Finding:
    """Say how many values of which features are no finite numbers."""
    bad = {names[each]: int(counts[each]) for each in (-counts).argsort(kind="stable")}
    bad = {name: count for name, count in bad.items() if count}
    total = sum(bad.values())
    worst = ", ".join(f"{name} ({count:,})" for name, count in [*bad.items()][:5])
    text = f"{total:,} {'value is' if total == 1 else 'values are'} {kind}: {worst}"
    return Finding(name, "fix", text, fix, bad)


def check_homophily(shape: Shape, labels: np.ndarray) -> list[Finding]:
    """Look at how many edges join nodes of one class, and how many would by chance."""
    edges = sparse.triu(shape.pattern, 1).tocoo()
    both = (labels[edges.row] >= 0) & (labels[edges.col] >= 0)
    if not both.any():
        return []
    ends = labels[edges.row[both]], labels[edges.col[both]]
    return [homophily(float((ends[0] == ends[1]).mean()), np.bincount(np.concatenate(ends)))]


def homophily(share: float, ends: np.ndarray) -> Finding:
    """Tell the share of edges that join nodes of one class; ends (C,) count edges by class."""
    chance = float(np.square(ends / ends.sum()).sum())
    text = f"{share:.1%} of edges join nodes of one class; {chance:.1%} would by chance"
    return Finding("homophily", "good", text, values={"share": share, "chance": chance})


def scales(text: str, mean: np.ndarray, spread: np.ndarray, values: dict[str, Any]) -> Finding:
    """Look at means and deviations (F,) of features: whether they are near 0 and 1."""
    if lie_apart(mean, spread):
        fix = "scales lie apart, or far from 0 and 1: train with `features: standard`"
        return Finding("features", "look", text, fix, values)
    return Finding("features", "good", text, values=values)
