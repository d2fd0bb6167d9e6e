"""The checks of `zoo data check`: one `check` of a data set, whatever it came from.

Each finding has a verdict: `good`; `look`, something to know that may be as it should be; or `fix`,
something that the zoo refuses or that makes scores meaningless. What is wrong is told as a finding
here, and not as the first error, so that all of it is seen at once.

A graph in memory, in files or on disk becomes one `Graph`, of which edges and features have been
counted block by block; the functions of `_check_graph` then say one thing of it each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import singledispatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from scipy.stats import skew, spearmanr
from torch import Tensor
from tqdm import tqdm

from zoo.config.learnt_columns import scaled_numbers
from zoo.data import Dataset
from zoo.data.features import lie_apart
from zoo.data.files.graph_arrays import (
    NO_EDGES,
    PARTS,
    GraphArrays,
    check_edge_features,
    check_edges,
    check_feature_shape,
    check_ids,
    check_masks,
    check_names,
    check_room,
    check_weights,
)
from zoo.data.load.series import time_names
from zoo.data.mapped.reader import read_meta, read_on_disk
from zoo.data.mapped.writer import blocks, ranges, sha256
from zoo.data.samples import Samples
from zoo.data.snapshots import Snapshots
from zoo.data.splits import check_scores, make_split
from zoo.errors import Finding, printable, refused_by
from zoo.graphs.adjacency import csc
from zoo.graphs.edge_weights import in_lists
from zoo.sequences.data.pairs import SentencePairs, Sentences
from zoo.system.files import write_whole
from zoo.system.memory import available_memory
from zoo.tasks.labels import (
    BINARY,
    CLASSIFICATION,
    GRAPH_BINARY,
    GRAPH_REGRESSION,
    GRAPHS,
    NUMBERS,
    check_labels,
    check_task,
    classes_of,
    empty_parts,
    infer_task,
    one_hot,
)
from zoo.tasks.task import TASKS

APART = 100
"""How many times larger numbers are from which they lie apart in scale."""

_FEW_EDGES = 100  # between labelled nodes, below which their number stands beside a share

SAME_ORDER = 0.99
"""Rank correlation, or share of rows, above which a column says what a label does."""

SKEWED = 2
"""Skewness of numbers from 0 above which learning their logarithm may be worth it."""

QUANTILES = {"least": 0, "quarter": 0.25, "median": 0.5, "three quarters": 0.75, "99%": 0.99,
              "most": 1}  # fmt: skip

_TELLING = 8  # columns up to which nodes have the same features by chance
_AT_ONCE = 1_000_000  # numbers of features that are looked at together

_DEALT = "ratio-60-20-20"
_BARE = "training needs some in each part: train with another, `split: ratio-60-20-20`"

_ENOUGH = 10  # labelled nodes of which each part gets some
_LOOKED_AT = 20_000_000  # numbers of which each column is looked at
_FEW = 5  # labelled nodes of a class below which a random split may leave it out of a part

_UNEQUAL = 3
"""How many times longer one side of a pair is, in tokens, where it is hardly a translation."""

_FEW_TOKENS = 10  # tokens below which the lengths of two sides say nothing


class Edges(NamedTuple):
    """What the edges of a canonical graph are.

    Attributes:
        indptr: (N+1,) where the neighbours of each node begin.
        indices: (E,) all of them, each node among its own.
        neighbourhoods: (N,) a hash of the neighbours of each node.
        same: how many join nodes of one class, both directions counted.
        ends: (C,) how many have a node of each class as one end, both ends labelled.
    """

    indptr: np.ndarray
    indices: np.ndarray
    neighbourhoods: np.ndarray
    same: int
    ends: np.ndarray


class Rows(NamedTuple):
    """What the rows of edges of a file are: how many, repeated, loops, a share in both directions.

    `mutual` is None where edges have no direction.
    """

    count: int
    repeated: int
    loops: int
    mutual: float | None


class Columns(NamedTuple):
    """What the columns of features (N, F) hold: of each, (F,), but for the hashes of rows, (N,)."""

    missing: np.ndarray
    infinite: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    hashes: np.ndarray


class Graph(NamedTuple):
    """A graph to look at: labels, splits, names and features as they lie, and what was counted.

    `edges` and `columns` are None where those of a file are refused, `columns` also where there are
    none, and `rows` of what is canonical already.
    """

    arrays: GraphArrays
    task: str
    edges: Edges | None = None
    columns: Columns | None = None
    rows: Rows | None = None


@singledispatch
def check(
    data: Dataset | Samples | Snapshots | SentencePairs | GraphArrays | Path,
) -> list[Finding]:
    """Return all findings on a data set.

    Args:
        data: the data set; what `zoo.data.load.read_graph` reads, which may have faults that no
            `Dataset` has; or the folder of a graph on disk, whose files are looked at too.
    """
    raise TypeError(f"{type(data).__name__} is no data set")


@check.register
def _(data: GraphArrays) -> list[Finding]:
    if data.labels.ndim not in (1, 2):
        return refused_by("labels", lambda: check_labels(data.labels))
    nodes, task = len(data.labels), data.task or infer_task(data.labels)
    ids = refused_by("ids", lambda: data.ids is None or check_ids(data.ids, nodes))
    edges = refused_by("edges", lambda: check_edges(data.edges, nodes))
    labels = refused_by("labels", lambda: check_task(check_labels(data.labels, task), task))
    features = refused_by("features", lambda: _check_features(data))
    names = [] if labels else refused_by("names", lambda: check_names(data))
    findings = [*ids, *edges, *names]
    if names:  # the rest is told without them
        data = data._replace(label_names=None, feature_names=None)
    if task == CLASSIFICATION and (classes := one_hot(data.labels)) is not None:
        data = data._replace(labels=classes)
        text, fix = "a 1 in each row, read as its class", "`task=node-multilabel` keeps them apart"
        findings.append(Finding("one-hot labels", "look", text, fix))
    graph = Graph(data, task, columns=None if features else _count_in_columns(data.features))
    if not edges:
        indptr, indices, rows = _canonical(data)
        classes = _classes(data, task, not labels)
        graph = graph._replace(edges=_count_edges(indptr, indices, classes), rows=rows)
    return findings + _check_graph(graph, features, labels)


def _check_features(data: GraphArrays) -> None:
    check_feature_shape(data.features, len(data.labels))
    check_room(data.features.shape)
    if data.columns:
        data.columns.fit()


@check.register
def _(data: Dataset) -> list[Finding]:
    """Look at a data set; of one on disk all is read, block by block."""
    arrays = data.arrays()
    indptr, indices = (part.numpy() for part in csc(data.graph))
    edges = _count_edges(indptr, indices, _classes(arrays, data.task))
    return _check_graph(Graph(arrays, data.task, edges, _count_in_columns(arrays.features)))


@check.register
def _(data: Path) -> list[Finding]:
    """Compare the files of a graph on disk with their checksums, and look at it if they are so."""
    if refused := refused_by("folder", lambda: read_meta(data)):
        return refused
    arrays, changed = read_meta(data).arrays, []
    for name, array in tqdm(arrays.items(), "checksums", disable=None):
        path = data / f"{name}.npy"
        if not path.is_file() or sha256(path) != array.sha256:
            changed.append(path.name)
    if changed:
        fix = "copy the folder again, or write it again with `zoo data prepare`"
        return [Finding("files", "fix", f"{', '.join(changed)} changed since written", fix)]
    files = Finding("files", "good", f"{len(arrays)} with the checksums in meta.json")
    return [files, *(refused_by("folder", lambda: read_on_disk(data)) or check(read_on_disk(data)))]


def _check_graph(
    graph: Graph, features: list[Finding] | None = None, labels: list[Finding] | None = None
) -> list[Finding]:
    """Return all findings on a graph; of features and labels that are refused, why."""
    return [
        *_edges(graph),
        *_weights(graph),
        *(features or _features(graph)),
        *_repeated(graph),
        *(labels or _labels(graph.arrays, graph.task)),
        *([] if labels else _leaks(graph)),
        *_homophily(graph),
        *_split(graph.arrays, graph.task, not labels),
    ]


def _canonical(arrays: GraphArrays) -> tuple[np.ndarray, np.ndarray, Rows]:
    """Return indptr and indices of the canonical graph that rows become, and what they were."""
    nodes, (source, target) = len(arrays.labels), arrays.edges.astype(np.int64).T
    ones = np.ones(len(source), bool)
    pattern = sparse.csr_array((ones, (source, target)), shape=(nodes, nodes))
    loop = source == target
    others = (source[~loop], target[~loop])
    others = sparse.csr_array((ones[~loop], others), shape=(nodes, nodes))
    mutual = others.multiply(others.T).nnz / max(others.nnz, 1)
    rows = Rows(len(source), len(source) - pattern.nnz, int(loop.sum()),
                None if arrays.form == "undirected" else mutual)  # fmt: skip
    both = (others + others.T + sparse.eye_array(nodes, dtype=bool)).tocsr()
    return both.indptr, both.indices, rows


def _classes(arrays: GraphArrays, task: str, known: bool = True) -> np.ndarray:
    """Return the class of each node (N,), -1 where it is unknown, or labels are no classes."""
    labels = arrays.labels
    whole = known and labels.ndim == 1 and task not in NUMBERS and labels.dtype.kind in "iu"
    return labels if whole else np.full(len(labels), -1)


def _count_edges(indptr: np.ndarray, indices: np.ndarray, labels: np.ndarray) -> Edges:
    """Look at all neighbours, block by block."""
    keys, neighbourhoods = _keys(len(labels)), np.zeros(len(labels), np.uint64)
    same, ends = 0, np.zeros(int(labels.max(initial=0)) + 1, np.int64)
    for first, last in tqdm(list(ranges(indptr)), "edges", unit=" blocks", disable=None, delay=1):
        starts = indptr[first : last + 1].astype(np.int64)
        sources = np.array(indices[starts[0] : starts[-1]])
        targets = np.repeat(np.arange(first, last), np.diff(starts))
        sums = np.r_[np.uint64(0), keys[sources].cumsum()][starts - starts[0]]
        neighbourhoods[first:last] = np.diff(sums) - keys[first:last]
        one, other = labels[sources], labels[targets]
        known = (one >= 0) & (other >= 0) & (sources != targets)
        same += int((one[known] == other[known]).sum())
        ends += np.bincount(one[known], minlength=len(ends))
    return Edges(indptr, indices, neighbourhoods, same, ends)


def _count_in_columns(x: np.ndarray | sparse.csr_array) -> Columns | None:
    """Look at all features (N, F), block by block.

    The hash of a row is the sum over columns of a hash of the bits, which is 0 of a 0, times the
    column's key: exact in columns of any scale. Hashes of 64 bits are equal by chance hardly ever.
    """
    from pandas.util import hash_array
    from sklearn.preprocessing import StandardScaler

    nodes, width = x.shape
    if not nodes or not width:
        return None
    x = x.tocsr() if sparse.issparse(x) else x
    keys, hashes = _keys(width), np.zeros(nodes, np.uint64)
    missing, infinite = np.zeros(width, np.int64), np.zeros(width, np.int64)
    low, high, scaler = np.full(width, np.inf), np.full(width, -np.inf), StandardScaler()
    parts = list(blocks(nodes, max(_AT_ONCE // width, 1)))
    for part in tqdm(parts, "features", unit=" blocks", disable=None, delay=1):
        rows = (x[part].toarray() if sparse.issparse(x) else np.array(x[part])) + 0  # -0.0 is 0
        bits = hash_array(rows.ravel(), categorize=False).reshape(rows.shape)
        hashes[part] = bits @ keys
        with np.errstate(over="ignore"):
            finite = np.isfinite(rows.astype(np.float32))
        nan = np.isnan(rows)
        missing += nan.sum(axis=0)
        infinite += (~finite & ~nan).sum(axis=0)
        rows = np.where(finite, rows, np.nan)
        low, high = np.fmin(low, np.fmin.reduce(rows)), np.fmax(high, np.fmax.reduce(rows))
        scaler.partial_fit(rows)
    deviation = np.where(low < high, np.sqrt(scaler.var_), 0)
    return Columns(missing, infinite, low, high, scaler.mean_, deviation, hashes)


def _keys(count: int) -> np.ndarray:
    """Return random odd numbers (count,) of 64 bits, always the same."""
    rng = np.random.default_rng(0)
    return rng.integers(2**64, size=count, dtype=np.uint64, endpoint=False) | np.uint64(1)


def _edges(graph: Graph) -> Iterator[Finding]:
    """Look at the size of a graph, its components, and the rows that count for nothing."""
    if graph.edges is None:
        return
    (indptr, indices, *_), rows = graph.edges, graph.rows
    degree = np.diff(indptr) - 1
    nodes, pairs = len(degree), int(degree.sum()) // 2
    values = {"nodes": nodes, "edges": pairs, "rows": rows.count if rows else pairs}
    if values["rows"] == 0:
        text = f"{nodes:,} samples without edges"
        fix = "a recipe makes some of the features: `graph: {name: knn, k: 5}`"
        yield Finding("size", "look", text, fix, values)
        return
    text = f"{nodes:,} nodes; {pairs:,} edges, without direction"
    text += f", from {rows.count:,} rows" if rows else ""
    if pairs == 0:
        fix = "no edge joins two different nodes: see what is read as edges (source, target)"
        yield Finding("size", "fix", text, fix, values)
        return
    yield Finding("size", "good", text, values=values)
    if len(indices) < min(2**31, available_memory() / 32):  # as SciPy takes it
        ones = np.ones(len(indices), bool)
        pattern = sparse.csr_array((ones, np.array(indices), np.array(indptr)))
        count, groups = sparse.csgraph.connected_components(pattern, directed=False)
        largest = float(np.bincount(groups).max() / nodes)
        yield none_of("components", count - 1,
                      f"{count:,}, the largest with {largest:.1%} of the nodes",
                      "no message passes between them, only attention",
                      {"components": int(count), "largest": largest})  # fmt: skip
    alone = int((degree == 0).sum())
    yield none_of("isolated nodes", alone, f"{alone:,}",
                  "only its features tell of a node without edges: see that no edge is lost",
                  {"isolated": alone})  # fmt: skip
    if rows:
        yield none_of(
            "duplicates", rows.repeated, f"{rows.repeated:,} rows repeat an edge",
            "an edge counts once, however often it is there; of weights `duplicates` says what "
            "they become, and of features the mean is taken", {"repeated": rows.repeated},
        )  # fmt: skip
        yield none_of(
            "self-loops", rows.loops, f"{rows.loops:,}",
            "their weights and features are kept; every other node gets one, of weight 1",
            {"loops": rows.loops},
        )  # fmt: skip
    yield _spread("degrees", degree)
    if rows and rows.mutual is None:
        text = "edges have none: all lead both ways"
        yield Finding("direction", "good", text, values={"mutual": 1.0})
    elif rows:
        fix = "all count as if they were, unless `direction: in`, `out` or `separate` is written"
        text = f"{rows.mutual:.1%} of the edges are there in both directions"
        yield none_of("direction", 0 < rows.mutual < 1, text, fix, {"mutual": rows.mutual})


def _weights(graph: Graph) -> Iterator[Finding]:
    """Look at weights and features of edges, and how weights compare with an added loop's 1."""
    weights, features = graph.arrays.weights, graph.arrays.edge_features
    if graph.rows is None:
        return
    rows = graph.rows.count
    if weights is not None:
        refused = refused_by("weights", lambda: check_weights(weights, rows))
        yield from refused
        if not refused:
            low, middle, high = np.quantile(weights, [0, 0.5, 1]).tolist()
            values = {"least": low, "median": middle, "most": high}
            text = f"from {low:g} to {high:g}, median {middle:g}"
            fix = "the loops that are added weigh 1: divide the column by its median"
            yield none_of("weights", not 1 / APART < middle < APART, text, fix, values)
    if features is not None:
        name, width = "edge features", features.shape[-1]
        text = "1 feature of each edge" if width == 1 else f"{width:,} features of each edge"
        good = Finding(name, "good", text, values={"edge_features": width})
        yield from refused_by(name, lambda: check_edge_features(features, rows)) or [good]


def _features(graph: Graph) -> Iterator[Finding]:
    """Look at features: what they range over, their scales, which are missing or constant."""
    if (columns := graph.columns) is None:
        fix = "train with an encoding, such as `encoding={name: laplacian, k: 8}`, or add columns"
        yield Finding("features", "look", "none", fix, {"features": 0})
        return
    least, most = float(columns.low.min()), float(columns.high.max())
    text = f"{len(columns.low):,}, from {least:g} to {most:g}"
    text += ", fp16" if graph.arrays.features.dtype == np.float16 else ""
    scaled = scaled_numbers(graph.arrays.columns and graph.arrays.columns.fit())
    text += ", numbers standardised (`numbers: raw` leaves them)" if scaled else ""
    apart = not scaled and lie_apart(columns.mean, columns.deviation)
    yield none_of("features", apart, text,
                  "scales lie apart, or far from 0 and 1: train with `features: standard`",
                  {"features": len(columns.low), "least": least, "most": most})  # fmt: skip
    names, leave = _names(graph), "or leave columns out (`columns: [...]`)"
    if len(constant := np.flatnonzero(columns.low == columns.high)):
        text = f"{len(constant):,}: {', '.join(names[column] for column in constant[:5])}"
        fix = "they tell nothing; leave them out"
        yield Finding("constant features", "look", text, fix, {"constant": len(constant)})
    for name, kind, counts, fix in (
        ("missing", "missing", columns.missing, "fill them in, of a table by `missing: mean`,"),
        ("infinite", "infinite, or past 3e38", columns.infinite, "replace them in the file,"),
    ):
        order = (-counts).argsort(kind="stable")
        bad = {names[column]: int(counts[column]) for column in order if counts[column]}
        if total := sum(bad.values()):
            worst = ", ".join(f"{column} ({count:,})" for column, count in [*bad.items()][:5])
            text = f"{total:,} {'value is' if total == 1 else 'values are'} {kind}: {worst}"
            yield Finding(f"{name} features", "fix", text, f"{fix} {leave}", bad)


def _names(graph: Graph) -> tuple[str, ...]:
    count = len(graph.columns.low)
    return graph.arrays.feature_names or tuple(f"column {column}" for column in range(count))


def _repeated(graph: Graph) -> Iterator[Finding]:
    """Count nodes with features and neighbours of another, and test nodes like training ones."""
    edges, columns, masks = graph.edges, graph.columns, graph.arrays.masks
    if edges is None or columns is None or (columns.missing + columns.infinite).any():
        return
    hashes = columns.hashes
    again = len(hashes) - len(np.unique(hashes * _keys(2)[1] + edges.neighbourhoods))
    text, seen = f"{again:,} with the features and neighbours of another", 0
    if masks and len(columns.low) > _TELLING and not _refused_masks(graph.arrays):
        train, test = (masks[part][0] for part in ("train", "test"))
        seen = int(np.isin(hashes[test], hashes[train]).sum())
        text += f"; {seen:,} test nodes have the features of a training node"
    fix = "where one is tested and its like trained on, the score is too good"
    yield none_of("repeated nodes", again + seen, text, fix, {"repeated": again, "seen": seen})


def none_of(name: str, count: int, text: str, advice: str, values: dict[str, Any]) -> Finding:
    """Return a finding that is good where there is none of something, else advice to look."""
    return Finding(name, *(("look", text, advice) if count else ("good", text)), values=values)


def _labels(arrays: GraphArrays, task: str, unit: str = "nodes") -> Iterator[Finding]:
    """Look at labels of a task: how many are known, of how many each class is, their range."""
    labels, names, known, some = arrays.labels, arrays.label_names, *_known(arrays.labels)
    values = {"task": task, "labelled": int(some.sum())}
    if not some.any():
        fix = "enough to predict, not to train: name what holds the labels, `label: COLUMN`"
        yield Finding("labels", "look", "none known", fix, values)
        return
    text = f"{some.sum():,} of {len(labels):,} {unit} ({some.mean():.1%}), {task}"
    yield Finding("labels", "good", text, values=values)
    if labels.ndim == 2 and not known.any(axis=0).all():
        names = names or tuple(map(str, range(labels.shape[1])))
        unknown = [names[target] for target in np.flatnonzero(~known.any(axis=0))]
        text = f"of {', '.join(unknown[:5])} no value is known"
        fix = "there is nothing to learn of it: leave it out of `label`, or fill in what is known"
        yield Finding("targets", "fix", text, fix, {"unknown": unknown})
    elif task in NUMBERS:
        yield _target_spread(labels.reshape(len(labels), -1))
    elif labels.ndim == 2:
        shares = np.nanmean(labels, axis=0)
        text = f"{labels.shape[1]} targets, yes in {shares.min():.1%} to {shares.max():.1%}"
        yield Finding("targets", "good", text, values={"yes": shares.tolist()})
    else:
        counts = np.bincount(labels[known], minlength=len(names or ()))
        yield _class_sizes(counts, names or tuple(map(str, range(len(counts)))), unit)


def _class_sizes(counts: np.ndarray, names: tuple[str, ...], unit: str) -> Finding:
    classes, order = len(counts), (-counts).argsort(kind="stable")
    text = ", ".join(f"{names[label]} ({counts[label]:,})" for label in order[:8])
    text += "" if classes <= 8 else f", ... {names[order[-1]]} ({counts[order[-1]]:,})"
    values = {name: int(count) for name, count in zip(names, counts, strict=True)}
    if classes == 1:
        fix = f"there is nothing to tell apart: label {unit} of another class"
        return Finding("classes", "fix", text, fix, values)
    text = f"{classes}: {text}; always the largest is right for {counts.max() / counts.sum():.1%}"
    few = [names[label] for label in order if counts[label] < _FEW]
    fix = f"fewer than {_FEW} {unit} of {', '.join(few[:5])}: a split may miss them"
    return none_of("classes", len(few), text, fix, values)


def _target_spread(targets: np.ndarray) -> Finding:
    mean, std = np.nanmean(targets, axis=0), np.nanstd(targets.astype(np.float64), axis=0)
    text = ", ".join(f"mean {m:.4g} ± {s:.4g}" for m, s in zip(mean[:5], std[:5], strict=True))
    values = {"mean": mean.tolist(), "std": std.tolist()}
    if (std == 0).any():
        fix = "a target is the same for all nodes: there is nothing to learn"
        return Finding("targets", "fix", text, fix, values)
    if (std < 1e-5 * abs(mean)).any():
        fix = "they differ beyond the digits of float32: take a number away from all of them"
        return Finding("targets", "look", text, fix, values)
    skewed = [skew(row[~np.isnan(row)]) for row in targets.T]
    if np.nanmin(targets) >= 0 and max(skewed) > SKEWED:
        text += f", from {np.nanmin(targets):.4g} to {np.nanmax(targets):.4g}: a few are large"
        fix = "`train.target=log`, which learns log(1 + y), is worth a try, by `train.metric=mae`"
        return Finding("targets", "look", text, fix, values)
    return Finding("targets", "good", text, values=values)


def _leaks(graph: Graph) -> Iterator[Finding]:
    """Name columns of features that alone tell the label, as a copy of it would.

    The numbers of a class lie in an interval without those of others, or its words are its own, and
    few; classes of fewer than `_ENOUGH` nodes may be told by chance. Numbers are told by a column
    of the same order. A column that is empty just where no label is known is known with it only.
    """
    if graph.columns is None:
        return
    tells = {
        CLASSIFICATION: _separated_classes,
        BINARY: _separated_classes,
        **dict.fromkeys(NUMBERS, _ordered_targets),
    }
    if graph.task not in tells:
        return
    known = _known(graph.arrays.labels)[1]
    leaks = {name: found for name, values in _values(graph)
             if (found := tells[graph.task](graph, values)
                 or ["where there is a label"] * _is_empty_where(values, ~known))}  # fmt: skip
    yield from _leaking(leaks)


def _leaking(leaks: dict[str, list[str]]) -> Iterator[Finding]:
    text = "; ".join(f"{name} tells {', '.join(own[:3])}" for name, own in [*leaks.items()][:5])
    text = f"of {len(leaks):,} alone: {text}"
    fix = "if they are known after the label only, or made of it, leave them out, `columns: [...]`"
    if leaks:
        yield Finding("columns that tell the label", "look", text, fix, leaks)


def _leaks_of_samples(data: Samples, arrays: GraphArrays) -> Iterator[Finding]:
    """Name columns of nodes that have one value in each sample, which tells its label."""
    told = {
        GRAPHS: _separated_classes,
        GRAPH_BINARY: _separated_classes,
        GRAPH_REGRESSION: _ordered_targets,
    }
    if data.task not in told or data.tokens is not None:
        return
    sizes = data.graphs.sizes.numpy()
    starts = np.cumsum(sizes) - sizes
    counted = _count_in_columns(arrays.features)
    graph = Graph(arrays._replace(columns=data.columns), data.task, columns=counted)
    leaks = {}
    for name, values in _values(graph) if counted else ():
        first = values[starts]
        if (values == np.repeat(first, sizes)).all() and (found := told[data.task](graph, first)):
            leaks[name] = found
    yield from _leaking(leaks)


def _separated_classes(graph: Graph, values: np.ndarray) -> list[str]:
    """Return the names of the classes that a column (N,) tells from all others."""
    labels = graph.arrays.labels
    known = labels >= 0
    classes, counts = np.unique(labels[known], return_counts=True)
    classes = classes[(counts >= _ENOUGH) & (known.sum() - counts >= _ENOUGH)]
    names = graph.arrays.label_names or range(int(labels.max(initial=0)) + 1)
    return [str(names[label]) for label in classes
            if _separates(values[labels == label], values[known & (labels != label)])]  # fmt: skip


def _ordered_targets(graph: Graph, values: np.ndarray) -> list[str]:
    """Return the names of the targets that have the order of a column of numbers (N,)."""
    if values.dtype.kind not in "fiu":
        return []
    targets = graph.arrays.labels.reshape(len(values), -1)
    names = graph.arrays.label_names or ["the label", *range(1, targets.shape[1])]
    told = []
    for name, y in zip(names, targets.T, strict=True):
        rows = ~np.isnan(y) & ~np.isnan(values)
        if rows.sum() < 2 * _ENOUGH or min(np.ptp(y[rows]), np.ptp(values[rows])) == 0:
            continue
        if abs(spearmanr(values[rows], y[rows]).statistic) > SAME_ORDER:
            told.append(str(name))
    return told


def _is_empty_where(values: np.ndarray, unknown: np.ndarray) -> bool:
    """Return whether a column (N,) is empty in nearly all rows of some, and in nearly no others."""
    empty = values == "" if values.dtype.kind in "UO" else np.isnan(values.astype(float))
    rare = min(unknown.sum(), (~unknown).sum()) < _ENOUGH
    return bool(not rare and (empty == unknown).mean() > SAME_ORDER)


def _values(graph: Graph) -> Iterator[tuple[str, np.ndarray]]:
    """Give the columns (N,) of features by name, those of a table as they stand there."""
    columns, x = graph.arrays.columns, graph.arrays.features
    for name, values in getattr(columns, "values", {}).items():
        yield from [(name, values)] if values.ndim == 1 else ()
    if columns is None and not sparse.issparse(x) and x.size <= _LOOKED_AT:
        yield from zip(_names(graph), x.T, strict=True)


def _separates(own: np.ndarray, others: np.ndarray) -> bool:
    """Return whether values of a class, numbers or words, are never those of others."""
    if own.dtype.kind in "UO":  # text of any length is objects
        words = np.unique(own)
        return len(words) <= len(own) / 2 and not np.isin(others, words).any()
    if np.isnan(own).any():
        return False
    return not ((others >= own.min()) & (others <= own.max())).any()


def _homophily(graph: Graph) -> Iterator[Finding]:
    """Look at how many edges join nodes of one class, and how many would by chance."""
    if graph.edges is None or not (ends := graph.edges.ends).any():
        return
    share = float(graph.edges.same / ends.sum())
    chance = float(np.square(ends / ends.sum()).sum())
    joined = int(ends.sum() / 2)
    few = f" of the {joined:,} that join labelled nodes" * (joined < _FEW_EDGES)
    text = f"{share:.1%} of edges{few} join nodes of one class; {chance:.1%} would by chance"
    yield Finding("homophily", "good", text, values={"share": share, "chance": chance})


def _known(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which labels (N,) or (N, T) are known, and which rows of them say anything."""
    known = ~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0
    return known, known if labels.ndim == 1 else known.any(axis=1)


def _refused_masks(arrays: GraphArrays) -> list[Finding]:
    return refused_by("split", lambda: check_masks(arrays.masks, len(arrays.labels)))


def _split(arrays: GraphArrays, task: str, labelled: bool = True) -> list[Finding]:
    """Look at the splits that come with a graph: their sizes, scores, and nodes in two parts."""
    masks, known = arrays.masks, _known(arrays.labels)[1]
    if not masks:
        text = f"none of its own: {_DEALT} deals the labelled nodes at random"
        some = torch.zeros(min(int(known.sum()), _ENOUGH))
        few = refused_by("split", lambda: make_split(_DEALT, some, None, seed=0))
        return few if len(some) and few else [Finding("split", "good", text)]
    if refused := _refused_masks(arrays):
        return refused
    if empty := empty_parts(masks):
        return [Finding("split", "fix", f"none is marked as {' or '.join(empty)}", _BARE)]
    counts = {part: (masks[part] & (known | ~known.any())).sum(axis=1) for part in PARTS}
    at = int((np.stack(list(counts.values())) == 0).any(axis=0).argmax())  # else the first
    sizes, splits = {part: int(size[at]) for part, size in counts.items()}, len(masks["train"])
    text = ", ".join(f"{part} {size:,}" for part, size in sizes.items())
    text += f", in {splits} splits" if splits > 1 else ""
    values = {**sizes, "splits": splits}
    if bare := [part for part, size in sizes.items() if size == 0]:
        text = f"none of {' and '.join(bare)} has a label: {text}"
        return [Finding("split", "fix", text, _BARE, values)]
    scored = known.any() and labelled
    if bare := scored and refused_by("split", lambda: _check_scores(arrays, task)):
        return [bare[0]._replace(found=text, values=values)]
    findings = [Finding("split", "good", f"{text}; no node is in two parts", values=values)]
    classes = _classes(arrays, task, labelled)
    unseen = np.setdiff1d(classes[classes >= 0], classes[masks["train"][0]])
    if len(unseen):
        every = arrays.label_names or range(max(unseen) + 1)
        names = [str(every[label]) for label in unseen]
        text = f"training has no node of {', '.join(names[:5])}"
        fix = "nothing can learn such a class: put nodes of it into train"
        findings.append(Finding("unseen classes", "fix", text, fix, {"unseen": names}))
    return findings


def _check_scores(arrays: GraphArrays, task: str) -> None:
    """Refuse a part of a split that has no score, such as ROC-AUC of nodes of one class."""
    masks, labels = arrays.masks, check_labels(arrays.labels, task)
    count, classes = len(masks["train"]), classes_of(labels, arrays.label_names)
    for split in range(count):
        own = {part: torch.tensor(labels[mask[split]]) for part, mask in masks.items()}
        check_scores(TASKS[task](), own, classes, f"split {split}, " if count > 1 else "")


@check.register
def _(data: Snapshots) -> list[Finding]:
    """Return all findings on series: their times, edges, and what is unknown, constant or apart."""
    series, y = data.series, data.series.values[:, :, 0]
    times, nodes, _ = series.values.shape
    first, last = time_names(series.times[[0, -1]])
    size = f"{nodes:,} nodes at {times:,} times, {first} to {last}, in steps of {series.steps.size}"
    columns = f"{', '.join(series.names)}; {series.names[0]} is predicted"
    counts = [(graph.num_edges() - nodes) // 2 for graph in data.graphs.graphs]
    span = dict.fromkeys(f"{count:,}" for count in (min(counts), max(counts)))
    edges = f"{' to '.join(span)}, of {len(counts):,} graphs in time"
    edges = f"{counts[0]:,} at all times" if len(counts) == 1 else edges
    edges += "" if series.weights is None else ", with weights"
    enough = len(data.y) >= 3
    known = [values[np.isfinite(values)] for values in y.T]  # of each node
    unknown, never = int(np.isnan(y).sum()), sum(len(values) == 0 for values in known)
    known = [values for values in known if len(values)]
    constant = sum(bool((values == values[0]).all()) for values in known)
    spread = np.array([values.std() for values in known])
    apart = len(spread) and spread.max() > 10 * np.median(spread) and data.scale == "none"
    finite = y[np.isfinite(y)] if never < nodes else np.array([np.nan])
    lowest, highest = float(finite.min()), float(finite.max())
    return [
        Finding("size", "good" if enough else "fix", size, "" if enough else
                f"training needs {data.lags + data.horizon + 2:,} times at least",
                {"nodes": nodes, "times": times}),
        Finding("columns", "good", columns, values={"columns": list(series.names)}),
        none_of("edges", max(counts) == 0, edges, "only attention tells nodes of each other: name "
                "a table of them, `edges: PATH`", {"edges": max(counts), "graphs": len(counts)}),
        none_of("unknown", unknown, f"{unknown / y.size:.1%} of {series.names[0]}",
                "these count in no loss and no score", {"unknown": unknown}),
        Finding("nodes without a value", "fix" if never == nodes else "look" if never else "good",
                f"{never:,}", "leave them out: nothing can be learnt of them" if never else "",
                {"nodes": never}),
        none_of("constant nodes", constant, f"{constant:,}", "their last value says all of them",
                {"constant": constant}),
        none_of("values", int(apart), f"from {lowest:g} to {highest:g}", "nodes differ in scale: "
                "train with `scale: standard`", {"least": lowest, "most": highest}),
    ]  # fmt: skip


@check.register
def _(data: SentencePairs) -> list[Finding]:
    """Look at pairs of sentences: lengths, repeated and unlikely ones, tests seen in training."""
    masks = {part: mask[0] for part, mask in data.masks.items()}
    sources, targets = _sentence_keys(data.sources), _sentence_keys(data.targets)
    pairs = [*zip(sources, targets, strict=True)]
    longest = torch.maximum(data.sources.lengths, data.targets.lengths)
    shortest = torch.minimum(data.sources.lengths, data.targets.lengths)
    unequal = int(((longest > _UNEQUAL * shortest) & (longest > _FEW_TOKENS)).sum())
    trained = {sources[row] for row in masks["train"].nonzero().squeeze(1).tolist()}
    rows = [row for part in PARTS[1:] for row in masks[part].nonzero().squeeze(1).tolist()]
    seen = sum(sources[row] in trained for row in rows)
    same = sum(source == target for source, target in pairs)
    long = int((longest > data.longest).sum())
    size = ", ".join(f"{part} {int(mask.sum()):,}" for part, mask in masks.items())
    first, second = data.languages
    return [
        Finding("size", "good", f"{len(pairs):,} pairs, {first} to {second}: {size}",
                values={part: int(mask.sum()) for part, mask in masks.items()}),
        Finding("vocabulary", "good", f"{data.tokenizer.size:,} tokens, learnt from training",
                values={"tokens": data.tokenizer.size}),
        _lengths(f"tokens of {first}", data.sources.lengths),
        _lengths(f"tokens of {second}", data.targets.lengths),
        none_of("long pairs", long, f"{long:,} of more than {data.longest} tokens",
                "not trained on; sources are cut for validation and test: `longest` sets how many",
                {"long": long}),
        none_of("repeated pairs", count := len(pairs) - len(set(pairs)), f"{count:,}",
                "they weigh more than others", {"repeated": count}),
        none_of("same on both sides", same, f"{same:,}",
                "see that these are translated, and not left as they were", {"same": same}),
        none_of("unequal lengths", unequal, f"{unequal:,}, one side {_UNEQUAL} times the other",
                "see that line by line one is the translation of the other", {"unequal": unequal}),
        none_of("seen in training", seen, f"{seen:,} sources of validation and test",
                "they tell too good a score: leave them out of training", {"seen": seen}),
    ]  # fmt: skip


@check.register
def _(data: Samples) -> list[Finding]:
    """Look at graphs with a label each: their sizes, features, classes, split and repetitions."""
    sizes, count, masks = data.graphs.sizes, len(data.y), _arrays(data.masks)
    names = data.ids, data.labels, data.feature_names
    arrays = GraphArrays(NO_EDGES, data.y.numpy(), data.x.numpy(), masks, *names)
    how = "by their scaffolds" if data.split == "scaffold" else "at random"
    dealt = f"none of its own: {data.split} deals the labelled samples {how}"
    repeated, unread = count - len({*_sample_keys(data)}), []
    if rows := len(data.unread):
        text = f"{rows:,} of {rows + count:,} rows, no samples: they cannot be read"
        fix = "predictions have an empty row for each; correct them where they are wrong"
        values = {"unread": [*data.unread.values()]}
        unread = [Finding("unread rows", "look", text, fix, values)]
    return [
        Finding("size", "good", f"{count:,} samples, {len(data.x):,} nodes together",
                values={"samples": count, "nodes": len(data.x)}),
        *unread,
        _lengths("nodes of a sample", sizes),
        *_edges_of_samples(data),
        *_features_of_nodes(data, arrays),
        *_labels(arrays, data.task, data.unit),
        *_leaks_of_samples(data, arrays),
        *(_split(arrays, data.task) if masks else [Finding("split", "good", dealt)]),
        none_of("repeated samples", repeated,
                f"{repeated:,} with the features and edges of another",
                "where one is tested and its like trained on, the score is too good",
                {"repeated": repeated}),
    ]  # fmt: skip


def _edges_of_samples(data: Samples) -> Iterator[Finding]:
    """Tell how many edges samples have, and of how many there is none; of texts nothing."""
    if data.tokens is not None:
        return
    graphs, kinds = data.graphs.distinct()
    own = torch.tensor([(graph.num_edges() - graph.num_nodes()) // 2 for graph in graphs])[kinds]
    finding = _spread("edges of a sample", own.numpy())
    bare = int(((own == 0) & (data.graphs.sizes > 1)).sum())
    if bare:
        text = f"{finding.found}; {bare:,} of {len(own):,} samples of several nodes have none"
        fix = "no message passes in these: see that no edge is lost"
        values = {**finding.values, "without": bare}
        finding = Finding("edges of a sample", "look", text, fix, values)
    yield finding


def _sample_keys(data: Samples) -> Iterator[tuple[bytes, bytes]]:
    """Give what is the same of samples with the same features and edges, in the same order."""
    graphs, kinds = data.graphs.distinct()
    edges = [_digest(*csc(graph), *in_lists(graph).values()) for graph in graphs]
    for kind, x in zip(kinds.tolist(), data.x.split(data.graphs.sizes.tolist()), strict=True):
        yield edges[kind], _digest(x)


def _digest(*tensors: Tensor) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(tensor.contiguous().numpy().tobytes())
    return digest.digest()


def _features_of_nodes(data: Samples, arrays: GraphArrays) -> list[Finding]:
    """Tell what is known of a node: its token, or its columns and degree."""
    if data.tokens is not None:
        used = len(data.x.unique())
        values = {"tokens": data.tokens, "used": used}
        return [Finding("tokens", "good", f"{data.tokens:,}, {used:,} of them used", values=values)]
    own = data.x.shape[1] - data.degree_columns
    arrays = arrays._replace(features=arrays.features[:, :own], columns=data.columns)
    columns = _count_in_columns(arrays.features)
    fix = "samples are read as they are: change it where they come from"
    findings = _features(Graph(arrays, data.task, columns=columns))
    if data.degree_columns:
        text = f"{data.degree_columns} columns, from 0 to {data.degree_columns - 1} and more"
        degrees = Finding("degrees", "good", text, values={"degree_columns": data.degree_columns})
        findings = [*(findings if columns else ()), degrees]
    if data.smiles:  # whose columns are the same whatever molecules there are
        findings = [finding for finding in findings if finding.name != "constant features"]
    as_they_are = columns and not data.columns  # else options of the tables change it
    return [finding._replace(fix=fix) if finding.fix and as_they_are else finding
            for finding in findings]  # fmt: skip


def _lengths(name: str, lengths: Tensor) -> Finding:
    """Tell how long samples are."""
    finding = _spread(name, lengths.numpy())
    if finding.values["least"] == 0:
        return finding._replace(verdict="fix", fix="leave out what is empty")
    return finding


def _spread(name: str, counts: np.ndarray) -> Finding:
    spread = {key: float(np.quantile(counts, share)) for key, share in QUANTILES.items()}
    text = ", ".join(f"{key} {value:g}" for key, value in spread.items())
    return Finding(name, "good", text, values=spread)


def _sentence_keys(sentences: Sentences) -> list[bytes]:
    """Return the bytes of the tokens of each sentence."""
    tokens, offsets = sentences.tokens.numpy(), sentences.offsets.numpy()
    return [tokens[first:last].tobytes() for first, last in zip(offsets, offsets[1:], strict=False)]


def _arrays(masks: dict[str, Tensor] | None) -> dict[str, np.ndarray] | None:
    return masks and {part: mask.numpy() for part, mask in masks.items()}


# The picture of `zoo data check --plot`

_MOST = 20  # classes that a picture has room to name


_DEGREES, _LABELS, _UNLABELLED = "#0072B2", "#E69F00", "#999999"
"""Told apart without colour sight, and by their bars' names."""


def draw(name: str, arrays: GraphArrays, path: Path) -> None:
    """Draw degrees and labels of a graph whose edges are numbers of nodes into a PNG."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # A matplotlibrc in the current folder may run TeX, and `$` in the name of a class is a dollar.
    with style.context(["default", {"text.parse_math": False}]):
        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        nodes, ends = len(arrays.labels), np.sort(arrays.edges.astype(np.int64), axis=1)
        once = np.unique(ends[ends[:, 0] != ends[:, 1]] @ [nodes, 1])
        degree = np.bincount(np.r_[once // nodes, once % nodes], minlength=nodes)  # without loops
        edges, features = degree.sum() // 2, arrays.features.shape[1]
        figure.suptitle(
            f"{_short(name, 60)}: {nodes:,} nodes, {edges:,} edges, {features:,} features"
        )
        _draw_degrees(left, degree)
        _draw_labels(right, arrays)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        write_whole(path, lambda draft: figure.savefig(draft, format="png", dpi=120), follow=True)


def _draw_degrees(axes, degree: np.ndarray) -> None:
    # Bins double in width, since few nodes have most of the edges; nodes without any come first.
    bins = [0, *2 ** np.arange(np.log2(max(degree.max(), 1)) // 1 + 2)]
    counts = np.histogram(degree, bins)[0]
    names = [f"{low:g}" if high - low == 1 else f"{low:g} to {high - 1:g}"
             for low, high in zip(bins[:-1], bins[1:], strict=True)]  # fmt: skip
    bars = axes.bar(range(len(counts)), counts, color=_DEGREES)
    axes.bar_label(bars, [f"{count:,}" for count in counts], fontsize="small", padding=2)
    axes.set_xticks(range(len(counts)), names, rotation=45 if len(counts) > 6 else 0, ha="center")
    title = f"edges of a node: median {np.median(degree):g}, most {degree.max():,}"
    axes.set(title=title, ylabel="nodes")
    axes.margins(y=0.1)
    axes.locator_params(axis="y", integer=True)


def _draw_labels(axes, arrays: GraphArrays) -> None:
    labels, names = arrays.labels, arrays.label_names
    if (arrays.task or infer_task(labels)) in NUMBERS:
        _draw_targets(axes, labels.reshape(len(labels), -1).T, names)
        return
    if labels.ndim == 2:
        counts, unlabelled = np.nansum(labels == 1, axis=0), np.isnan(labels).all(axis=1).sum()
        title = "nodes with each target"
    else:
        counts, unlabelled = np.bincount(labels[labels >= 0].astype(int)), (labels < 0).sum()
        title = "nodes of each class"
    names = names or tuple(map(str, range(len(counts))))
    order = (-counts).argsort(kind="stable")[:_MOST]
    if len(order) < len(counts):
        title += f", the largest {_MOST} of {len(counts)}"
    bars = [(_short(str(names[label])), int(counts[label]), _LABELS) for label in order]
    if unlabelled:
        bars.append(("(unlabelled)", int(unlabelled), _UNLABELLED))
    words, lengths, colours = zip(*bars, strict=True)
    patches = axes.barh(range(len(bars)), lengths, color=colours)
    shares = [f"{count:,} ({count / len(labels):.1%})" for count in lengths]
    axes.bar_label(patches, shares, fontsize="small", padding=2)
    axes.set_yticks(range(len(bars)), words)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set(title=title, xlabel="nodes, and their share of all")
    axes.locator_params(axis="x", integer=True)


def _draw_targets(axes, targets: np.ndarray, names: tuple[str, ...] | None) -> None:
    """Draw the distribution of each target (T, N) that is a number."""
    unlabelled = int((~np.isfinite(targets)).all(axis=0).sum())
    for number, target in enumerate(targets):
        known = target[np.isfinite(target)]
        name = _short(str(names[number])) if names else f"target {number}"
        quantiles = np.quantile(known, [0, 1, 0.5]) if len(known) else [np.nan] * 3
        spread = "{:.3g} to {:.3g}, median {:.3g}".format(*quantiles)
        bins = int(np.clip(len(known) ** 0.5, 5, 40))
        axes.hist(known, bins=bins, histtype="step", label=f"{name}: {spread}")
    title = f"targets; {unlabelled:,} nodes ({unlabelled / targets.shape[1]:.1%}) unlabelled"
    axes.set(title=title, ylabel="nodes")
    axes.margins(y=0.1)
    axes.locator_params(axis="y", integer=True)
    axes.legend(frameon=False, fontsize="small")


def _short(name: str, most: int = 24) -> str:
    return printable(name)[:most]
