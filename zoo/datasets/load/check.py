"""The checks of `zoo data check`: size, edges, features, labels, homophily and splits.

Each finding has a verdict: `good`; `look`, something to know that may be as it should be; or `fix`,
something that the zoo refuses or that makes scores meaningless. What is wrong is told as a finding
here, and not as the first error, so that all of it is seen at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from tqdm import tqdm

from zoo.config.learnt_columns import scaled_numbers
from zoo.datasets import Dataset, GraphArrays
from zoo.datasets.files.graph_arrays import (
    NO_EDGES,
    PARTS,
    check_edge_features,
    check_edges,
    check_features,
    check_ids,
    check_masks,
    check_names,
    check_room,
    check_rows,
    check_weights,
)
from zoo.datasets.from_objects import lie_apart
from zoo.datasets.mapped.external_sort import ranges
from zoo.datasets.mapped.metadata import Meta, mapped, read_meta
from zoo.datasets.mapped.reader import read_on_disk
from zoo.datasets.mapped.writer import NUMBERS, blocks, sha256
from zoo.datasets.pairs import SentencePairs, Sentences
from zoo.datasets.samples import Samples
from zoo.datasets.snapshots import Snapshots
from zoo.datasets.splits import check_scores, make_split
from zoo.datasets.tables.times import time_names
from zoo.errors import Finding, ZooError, printable, refused_by
from zoo.graphs.adjacency import neighbours
from zoo.system.files import write_whole
from zoo.tasks.labels import (
    BINARY,
    CLASSIFICATION,
    REGRESSION,
    check_labels,
    check_task,
    classes_of,
    empty_parts,
    infer_task,
    one_hot,
)
from zoo.tasks.task import TASKS

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
    if scaled_numbers(arrays.columns and arrays.columns.learnt()):
        text += ", numbers standardised (`numbers: raw` leaves them)"
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


APART = 100
"""How many times larger numbers are from which they lie apart in scale."""

_DEALT = "ratio-60-20-20"

_BARE = "training needs some in each part: train with another, `split: ratio-60-20-20`"

_ENOUGH = 10
"""Labelled nodes of which each part gets some."""

_LOOKED_AT = 20_000_000
"""Numbers of which each column is looked at."""

_FEW = 5
"""Labelled nodes of a class below which a random split may leave it out of a part."""


def check_balance(arrays: GraphArrays, task: str, unit: str = "nodes") -> list[Finding]:
    """Look at labels that fit their task: how many are known, and of how many each class is."""
    labels, known, some = arrays.labels, _known(arrays.labels), _labelled(arrays.labels)
    values = {"task": task, "labelled": int(some.sum())}
    text = f"{some.sum():,} of {len(labels):,} {unit} ({some.mean():.1%}), {task}"
    if not some.any():
        fix = "enough to predict, not to train: name what holds the labels, `label: COLUMN`"
        return [Finding("labels", "look", f"none known, {task}", fix, values)]
    found = [Finding("labels", "good", text, values=values)]
    if labels.ndim == 2 and not known.any(axis=0).all():
        return [*found, _unknown_targets(arrays, ~known.any(axis=0))]
    if task == REGRESSION:
        return found + _target_spread(labels.reshape(len(labels), -1))
    if labels.ndim == 2:
        shares = np.nanmean(labels, axis=0)
        text = f"{labels.shape[1]} targets, yes in {shares.min():.1%} to {shares.max():.1%}"
        return [*found, Finding("targets", "good", text, values={"yes": shares.tolist()})]
    classes = max(int(labels.max()) + 1, len(arrays.label_names or ()))
    counts = np.bincount(labels[known], minlength=classes)
    names = arrays.label_names or tuple(map(str, range(classes)))
    order = (-counts).argsort(kind="stable")
    text = ", ".join(f"{names[each]} ({counts[each]:,})" for each in order[:8])
    text += "" if classes <= 8 else f", ... {names[order[-1]]} ({counts[order[-1]]:,})"
    values = {name: int(each) for name, each in zip(names, counts, strict=True)}
    if classes == 1:
        fix = f"there is nothing to tell apart: label {unit} of another class"
        return [*found, Finding("classes", "fix", text, fix, values)]
    few = [names[each] for each in order if counts[each] < _FEW]
    rare = ", ".join(few[:5])
    fix = f"fewer than {_FEW} {unit} of {rare}: a split may miss them" if few else ""
    share = counts.max() / counts.sum()
    text = f"{classes}: {text}; always the largest is right for {share:.1%}"
    return [*found, Finding("classes", "look" if few else "good", text, fix, values)]


def check_leaks(arrays: GraphArrays) -> list[Finding]:
    """Name columns of features that alone tell a class from all others, as a copy of it would.

    The numbers of a class lie in an interval without those of others; or its words are its own,
    and few. Classes of fewer than `_ENOUGH` nodes may do so by chance.
    """
    known = arrays.labels >= 0
    classes, counts = np.unique(arrays.labels[known], return_counts=True)
    classes = classes[(counts >= _ENOUGH) & (known.sum() - counts >= _ENOUGH)]
    names = arrays.label_names or range(int(arrays.labels.max(initial=0)) + 1)
    told: dict[str, list[str]] = {}
    for name, values in _columns(arrays):
        values, labels = values[known], arrays.labels[known]
        for each in classes:
            if _tells(values[labels == each], values[labels != each]):
                told.setdefault(name, []).append(str(names[each]))
    if not told:
        return []
    text = "; ".join(f"{name} tells {', '.join(own[:3])}" for name, own in [*told.items()][:5])
    text = f"of {len(told):,} alone: {text}"
    fix = "if they are known after the label only, or made of it, leave them out, `columns: [...]`"
    return [Finding("columns that tell the label", "look", text, fix, told)]


def _columns(arrays: GraphArrays) -> Iterator[tuple[str, np.ndarray]]:
    """Give the columns (N,) of features by name, those of a table as they stand there."""
    for name, values in getattr(arrays.columns, "values", {}).items():
        yield from [(name, values)] if values.ndim == 1 else ()
    x = arrays.features
    if arrays.columns is None and not sparse.issparse(x) and x.size <= _LOOKED_AT:
        names = arrays.feature_names or [f"column {each}" for each in range(x.shape[1])]
        yield from zip(names, x.T, strict=True)


def _tells(own: np.ndarray, others: np.ndarray) -> bool:
    """Return whether values of a class, numbers or words, are never those of others."""
    if own.dtype.kind == "U":
        words = np.unique(own)
        return len(words) <= len(own) / 2 and not np.isin(others, words).any()
    if np.isnan(own).any():
        return False
    return not ((others >= own.min()) & (others <= own.max())).any()


def _known(labels: np.ndarray) -> np.ndarray:
    return ~np.isnan(labels) if labels.dtype.kind == "f" else labels >= 0


def _labelled(labels: np.ndarray) -> np.ndarray:
    """Return which rows of labels (N,) or (N, T) say anything."""
    known = _known(labels)
    return known if labels.ndim == 1 else known.any(axis=1)


def _unknown_targets(arrays: GraphArrays, unknown: np.ndarray) -> Finding:
    """Tell of targets that no row knows, which are those where `unknown` (T,) is true."""
    names = arrays.label_names or tuple(map(str, range(len(unknown))))
    told = [names[each] for each in np.flatnonzero(unknown)]
    text = f"of {', '.join(told[:5])} no value is known"
    fix = "there is nothing to learn of it: leave it out of `label`, or fill in what is known"
    return Finding("targets", "fix", text, fix, {"unknown": told})


def _target_spread(targets: np.ndarray) -> list[Finding]:
    mean, std = np.nanmean(targets, axis=0), np.nanstd(targets.astype(np.float64), axis=0)
    text = ", ".join(f"mean {m:.4g} ± {s:.4g}" for m, s in zip(mean[:5], std[:5], strict=True))
    values = {"mean": mean.tolist(), "std": std.tolist()}
    if (std == 0).any():
        fix = "a target is the same for all nodes: there is nothing to learn"
        return [Finding("targets", "fix", text, fix, values)]
    if (std < 1e-5 * abs(mean)).any():
        fix = "they differ beyond the digits of float32: take a number away from all of them"
        return [Finding("targets", "look", text, fix, values)]
    return [Finding("targets", "good", text, values=values)]


def check_splits(arrays: GraphArrays, task: str) -> list[Finding]:
    """Look at the splits that come with the graph: their sizes, and nodes in two parts."""
    if not arrays.masks:
        text = f"none of its own: {_DEALT} deals the labelled nodes at random"
        some = torch.zeros(min(int(_labelled(arrays.labels).sum()), _ENOUGH))
        few = refused_by("split", lambda: make_split(_DEALT, some, None, seed=0))
        return few if len(some) and few else [Finding("split", "good", text)]
    refused = refused_by("split", lambda: check_masks(arrays.masks, len(arrays.labels)))
    if refused:
        return refused
    if empty := empty_parts(arrays.masks):
        text = f"none is marked as {' or '.join(empty)}"
        return [Finding("split", "fix", text, _BARE)]
    known = _labelled(arrays.labels)
    counts = {part: (arrays.masks[part] & (known | ~known.any())).sum(axis=1) for part in PARTS}
    at = int((np.stack(list(counts.values())) == 0).any(axis=0).argmax())  # else the first
    sizes = {part: int(each[at]) for part, each in counts.items()}
    text = ", ".join(f"{part} {size:,}" for part, size in sizes.items())
    text += f", in {len(arrays.masks['train'])} splits" if len(arrays.masks["train"]) > 1 else ""
    values = {**sizes, "splits": len(arrays.masks["train"])}
    if bare := [part for part, size in sizes.items() if size == 0]:
        text = f"none of {' and '.join(bare)} has a label: {text}"
        return [Finding("split", "fix", text, _BARE, values)]
    if bare := _without_score(arrays, task):
        return [bare[0]._replace(found=text, values=values)]
    found = [Finding("split", "good", f"{text}; no node is in two parts", values=values)]
    if arrays.labels.ndim == 1 and task != REGRESSION and arrays.labels.dtype.kind in "iu":
        train = np.unique(arrays.labels[arrays.masks["train"][0]])
        unseen = np.setdiff1d(arrays.labels[arrays.labels >= 0], train)
        if len(unseen):
            named = [str((arrays.label_names or range(max(unseen) + 1))[each]) for each in unseen]
            text = f"training has no node of {', '.join(named[:5])}"
            fix = "nothing can learn such a class: put nodes of it into train"
            found.append(Finding("unseen classes", "fix", text, fix, {"unseen": named}))
    return found


def _without_score(arrays: GraphArrays, task: str) -> list[Finding]:
    """Tell of a part of a split that has no score, such as ROC-AUC of nodes of one class."""
    try:
        labels = check_labels(arrays.labels, task)
        check_task(labels, task)
    except ZooError:  # which is another finding
        return []
    if not _labelled(labels).any():
        return []
    count, classes = len(arrays.masks["train"]), classes_of(labels, arrays.label_names)

    def scored() -> None:
        for each in range(count):
            own = {part: torch.tensor(labels[mask[each]]) for part, mask in arrays.masks.items()}
            check_scores(TASKS[task](), own, classes, f"split {each}, " if count > 1 else "")

    return refused_by("split", scored)


_AGAIN = "copy the folder again, or write it again with `zoo data prepare`"


class Ends(NamedTuple):
    """What the edges of a block of nodes are, as far as they are right.

    Attributes:
        wrong: what is wrong with them first, or nothing.
        up: a sum over the edges to a higher node, which is `down`, that over the edges to a lower
            one, only if each edge is there in both directions.
        down: as above.
        same: edges without loops that join nodes of one class.
        ends: (C,) edges without loops of which a class is one end, both ends labelled.
    """

    wrong: str
    up: int
    down: int
    same: int
    ends: np.ndarray


def check_on_disk(folder: Path) -> list[Finding]:
    """Return all findings on an on-disk graph: checksums, edges, features, labels and splits."""
    found = refused_by("folder", lambda: read_meta(folder))
    if found:
        return found
    meta = read_meta(folder)
    found = check_files(folder, meta)
    refused = refused_by("folder", lambda: read_on_disk(folder))
    if refused:
        return found + refused
    data = read_on_disk(folder)
    found += check_degrees(folder, meta) + check_edges_on_disk(folder, meta, data)
    masks = data.masks and {part: mask.numpy() for part, mask in data.masks.items()}
    nothing = np.zeros((0, 2), np.int64), np.zeros((meta.nodes, 0), np.float32)
    known = GraphArrays(nothing[0], data.y.numpy(), nothing[1], masks, label_names=data.labels)
    found += check_rows_on_disk(folder, meta)
    return found + check_balance(known, data.task) + check_splits(known, data.task)


def check_files(folder: Path, meta: Meta) -> list[Finding]:
    """Compare each file with the SHA-256 that was written down for it."""
    wrong = []
    for name, array in tqdm(meta.arrays.items(), "checksums", disable=None):
        path = folder / f"{name}.npy"
        if not path.is_file() or sha256(path) != array.sha256:
            wrong.append(path.name)
    if wrong:
        return [Finding("files", "fix", f"{', '.join(wrong)} changed since written", _AGAIN)]
    return [Finding("files", "good", f"{len(meta.arrays)} with the checksums in meta.json")]


def check_degrees(folder: Path, meta: Meta) -> list[Finding]:
    """Say how many neighbours nodes have; opening has looked at each number of `indptr.npy`."""
    counts = np.zeros(0, np.int64)
    for block in blocks(meta.nodes, NUMBERS):
        indptr = _numbers(folder, "indptr", meta, slice(block.start, block.stop + 1))
        degree = np.diff(indptr) - 1
        more = np.bincount(degree, minlength=len(counts))
        more[: len(counts)] += counts
        counts = more
    edges = (meta.edges - meta.nodes) // 2
    below = np.cumsum(counts)
    spread = {name: int(np.searchsorted(below, each * (meta.nodes - 1), "right"))
              for name, each in QUANTILES.items()}  # fmt: skip
    text = f"{meta.nodes:,} nodes; {edges:,} edges, without direction"
    return [
        Finding("size", "good", text, values={"nodes": meta.nodes, "edges": edges}),
        none_of("isolated nodes", int(counts[0]), f"{counts[0]:,}",
                "only its features tell of a node without edges: see that no edge is lost",
                {"isolated": int(counts[0])}),
        Finding("degrees", "good", ", ".join(f"{name} {each:g}" for name, each in spread.items()),
                values=spread),
    ]  # fmt: skip


def check_edges_on_disk(folder: Path, meta: Meta, data: Dataset) -> list[Finding]:
    """Look at `indices.npy`: ascending, no node twice, loops, and both directions of each edge."""
    classed = data.y.ndim == 1 and data.task != REGRESSION
    labels = data.y.numpy() if classed else np.full(meta.nodes, -1)
    up = down = same = 0
    ends = np.zeros(max(meta.classes, 1), np.int64)
    indptr = mapped(folder, "indptr", meta)
    for first, last in tqdm(list(ranges(indptr)), "edges", unit=" blocks", disable=None):
        sources = _numbers(folder, "indices", meta, slice(*indptr[[first, last]].tolist()))
        each = _look(first, sources, np.diff(indptr[first : last + 1]), labels, len(ends))
        if each.wrong:
            return [Finding("edges", "fix", each.wrong, _AGAIN)]
        up, down = (up + each.up) % 2**64, (down + each.down) % 2**64
        same, ends = same + each.same, ends + each.ends
    if up != down:
        text = "some edges are there in one direction only"
        return [Finding("edges", "fix", text, "write the folder with `zoo data prepare`")]
    found = [Finding("edges", "good", "both directions, ascending, one self-loop per node")]
    return found + ([homophily(same / ends.sum(), ends)] if ends.any() else [])


def check_rows_on_disk(folder: Path, meta: Meta) -> list[Finding]:
    """Look at the features: what they range over, and whether all are finite."""
    width = meta.arrays["features"].shape[1]
    if width == 0:
        fix = "train with an encoding, such as `encoding={name: laplacian, k: 8}`, or add columns"
        return [Finding("features", "look", "none", fix, {"features": 0})]
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    total, squares, shift = np.zeros(width), np.zeros(width), 0.0
    for block in tqdm(list(blocks(meta.nodes, max(1, NUMBERS // width))), "features", disable=None):
        x = _numbers(folder, "features", meta, block).astype(np.float32)
        if not (finite := np.isfinite(x).all(axis=1)).all():
            text = f"row {block.start + int((~finite).argmax())} of features.npy is not finite"
            return [Finding("missing features", "fix", text, _AGAIN)]
        low, high = np.minimum(low, x.min(axis=0)), np.maximum(high, x.max(axis=0))
        if block.start == 0:  # sums of squares of what is near 0 lose no digits
            shift = x.mean(axis=0)
        x = x - shift
        total += x.sum(axis=0, dtype=np.float64)
        squares += np.square(x, dtype=np.float64).sum(axis=0)
    spread = np.sqrt(np.maximum(squares / meta.nodes - np.square(total / meta.nodes), 0))
    spread[low == high] = 0
    mean = total / meta.nodes + shift
    values = {"features": width, "least": float(low.min()), "most": float(high.max())}
    text = f"{width:,}, from {values['least']:g} to {values['most']:g}"
    found = [scales(f"{text}, fp{8 * int(meta.arrays['features'].type[2:])}", mean, spread, values)]
    constant = np.flatnonzero(low == high)
    if len(constant):
        names = meta.feature_names or [f"column {each}" for each in range(width)]
        text = f"{len(constant):,}: {', '.join(names[each] for each in constant[:5])}"
        fix = "they tell nothing; leave them out"
        found.append(Finding("constant features", "look", text, fix, {"constant": len(constant)}))
    return found


def _numbers(folder: Path, name: str, meta: Meta, where: slice) -> np.ndarray:
    """Return a part of an array, read into memory; its map is closed again."""
    return np.array(mapped(folder, name, meta)[where])


def _look(first: int, sources, counts, labels: np.ndarray, classes: int) -> Ends:
    """Look at the neighbours `sources` of the nodes from `first` on, `counts` of each."""
    nodes, none = len(labels), np.zeros(classes, np.int64)
    targets = np.repeat(np.arange(first, first + len(counts)), counts)
    outside = (sources < 0) | (sources >= nodes)
    fails = np.zeros(len(sources), bool)
    fails[1:] = (sources[1:] <= sources[:-1]) & (targets[1:] == targets[:-1])
    if outside.any() or fails.any():
        node = targets[(outside | fails).argmax()]
        what = "lead out of the graph" if outside.any() else "do not ascend, or are there twice"
        return Ends(f"neighbours of node {node} {what}", 0, 0, 0, none)
    loop = sources == targets
    if loop.sum() < len(counts):
        node = np.setdiff1d(np.arange(first, first + len(counts)), targets[loop])[0]
        return Ends(f"node {node} has no self-loop", 0, 0, 0, none)
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    mixed = _mix(low.astype(np.uint64) * np.uint64(nodes) + high.astype(np.uint64))
    up, down = (int(mixed[where].sum()) for where in (sources < targets, sources > targets))
    one, other = labels[sources[~loop]], labels[targets[~loop]]
    known = (one >= 0) & (other >= 0)
    ends = np.bincount(one[known].astype(np.int64), minlength=classes)
    return Ends("", up, down, int((one[known] == other[known]).sum()), ends)


def _mix(keys: np.ndarray) -> np.ndarray:
    """Return numbers of 64 bits (E,) that are as good as drawn for each key (SplitMix64)."""
    keys = keys + np.uint64(0x9E3779B97F4A7C15)
    keys = (keys ^ (keys >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    keys = (keys ^ (keys >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return keys ^ (keys >> np.uint64(31))


_UNEQUAL = 3
"""How many times longer one side of a pair is, in tokens, where it is hardly a translation."""

_FEW_TOKENS = 10
"""Tokens below which the lengths of two sides say nothing."""


def check_data(data: Dataset | SentencePairs | Samples | Snapshots) -> list[Finding]:
    """Return all findings on a data set that is loaded."""
    if isinstance(data, Snapshots):
        return check_series(data)
    if isinstance(data, SentencePairs):
        return check_pairs(data)
    return check_sets(data) if isinstance(data, Samples) else check_graph(arrays_of(data))


def arrays_of(data: Dataset) -> GraphArrays:
    """Return a data set as the arrays that it could have been read from: each edge once."""
    indptr, indices = (each.numpy() for each in neighbours(data.graph))
    targets = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    once = indices < targets
    return GraphArrays(
        np.stack([indices[once], targets[once]], axis=1),
        data.y.numpy(),
        data.x.numpy(),
        _arrays(data.masks),
        data.ids,
        data.labels,
        data.feature_names,
        data.task,
    )


def check_series(data: Snapshots) -> list[Finding]:
    """Return all findings on series: their times, edges, and what is unknown, constant or apart."""
    series, y = data.series, data.series.values[:, :, 0]
    times, nodes, _ = series.values.shape
    first, last = time_names(series.times[[0, -1]])
    size = f"{nodes:,} nodes at {times:,} times, {first} to {last}, in steps of {series.steps.size}"
    told = f"{', '.join(series.names)}; {series.names[0]} is predicted"
    counts = [(each.num_edges() - nodes) // 2 for each in data.graphs.graphs]
    range_of = (
        f"{min(counts):,} to {max(counts):,}" if min(counts) < max(counts) else f"{counts[0]:,}"
    )
    edges = f"{range_of}, of {len(counts):,} graphs in time"
    edges = f"{counts[0]:,} at all times" if len(counts) == 1 else edges
    edges += "" if series.weights is None else ", with weights"
    enough = len(data.y) >= 3
    known = [each[np.isfinite(each)] for each in y.T]
    unknown, never = int(np.isnan(y).sum()), sum(len(each) == 0 for each in known)
    constant = sum(len(each) > 0 and bool((each == each[0]).all()) for each in known)
    spread = np.array([each.std() for each in known if len(each)])
    apart = len(spread) and spread.max() > 10 * np.median(spread) and data.scale == "none"
    lowest, highest = (
        (min(map(np.min, filter(len, known))), max(map(np.max, filter(len, known))))
        if never < nodes
        else (np.nan, np.nan)
    )
    return [
        Finding("size", "good" if enough else "fix", size, "" if enough else
                f"training needs {data.lags + data.horizon + 2:,} times at least",
                {"nodes": nodes, "times": times}),
        Finding("columns", "good", told, values={"columns": list(series.names)}),
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
                "train with `scale: standard`", {"least": float(lowest), "most": float(highest)}),
    ]  # fmt: skip


def check_pairs(data: SentencePairs) -> list[Finding]:
    """Look at pairs of sentences: lengths, repeated and unlikely ones, tests seen in training."""
    masks = {part: mask[0] for part, mask in data.masks.items()}
    sources, targets = _keys_of_graphs(data.sources), _keys_of_graphs(data.targets)
    pairs = [*zip(sources, targets, strict=True)]
    longest = torch.maximum(data.sources.lengths, data.targets.lengths)
    shortest = torch.minimum(data.sources.lengths, data.targets.lengths)
    unequal = int(((longest > _UNEQUAL * shortest) & (longest > _FEW_TOKENS)).sum())
    trained = {sources[row] for row in masks["train"].nonzero().squeeze(1).tolist()}
    asked = [row for part in PARTS[1:] for row in masks[part].nonzero().squeeze(1).tolist()]
    seen = sum(sources[row] in trained for row in asked)
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


def check_sets(data: Samples) -> list[Finding]:
    """Look at graphs with a label each: their sizes, features, classes, split and repetitions."""
    sizes, count, masks = data.graphs.sizes, len(data.y), _arrays(data.masks)
    none = np.zeros((count, 0), np.float32)
    arrays = GraphArrays(NO_EDGES, data.y.numpy(), none, masks, data.ids, data.labels)
    dealt = f"none of its own: {data.split} deals the labelled samples at random"
    keys = [each.numpy().tobytes() for each in data.x.split(sizes.tolist())]
    repeated = count - len(set(keys))
    return [
        Finding("size", "good", f"{count:,} samples, {len(data.x):,} nodes together",
                values={"samples": count, "nodes": len(data.x)}),
        _lengths("nodes of a sample", sizes),
        _columns_of_sets(data),
        *check_balance(arrays, data.task, data.unit),
        *(check_splits(arrays, data.task) if masks else [Finding("split", "good", dealt)]),
        none_of("repeated samples", repeated, f"{repeated:,} with the features of another",
                "where one is tested and its like trained on, the score is too good",
                {"repeated": repeated}),
    ]  # fmt: skip


def _columns_of_sets(data: Samples) -> Finding:
    """Look at what there is to know of a node: its token, or its columns."""
    if data.tokens is not None:
        used = len(data.x.unique())
        values = {"tokens": data.tokens, "used": used}
        return Finding("tokens", "good", f"{data.tokens:,}, {used:,} of them used", values=values)
    columns = data.x.shape[1]
    if not columns:
        fix = "the edges alone are known; an encoding adds to them, `encoding: laplacian`"
        return Finding("features", "look", "none", fix, {"columns": 0})
    if not bool(data.x.isfinite().all()):
        fix = "replace numbers that are missing or infinite"
        return Finding("features", "fix", f"{columns:,}, not all finite", fix, {"columns": columns})
    least, most = float(data.x.min()), float(data.x.max())
    values = {"columns": columns, "least": least, "most": most}
    return Finding("features", "good", f"{columns:,}, from {least:g} to {most:g}", values=values)


def _lengths(name: str, lengths: Tensor) -> Finding:
    """Tell how long samples are."""
    spread = {key: float(np.quantile(lengths.numpy(), each)) for key, each in QUANTILES.items()}
    verdict, fix = ("fix", "leave out what is empty") if spread["least"] == 0 else ("good", "")
    text = ", ".join(f"{key} {each:g}" for key, each in spread.items())
    return Finding(name, verdict, text, fix, spread)


def _keys_of_graphs(sentences: Sentences) -> list[bytes]:
    """Return what two sentences have in common only where they are the same."""
    tokens, offsets = sentences.tokens.numpy(), sentences.offsets.numpy()
    return [tokens[first:last].tobytes() for first, last in zip(offsets, offsets[1:], strict=False)]


def _arrays(masks: dict[str, Tensor] | None) -> dict[str, np.ndarray] | None:
    return masks and {part: mask.numpy() for part, mask in masks.items()}


_MOST = 20
"""Classes that a picture has room to name."""


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
        degree = np.diff(shape_of(arrays).pattern.indptr)
        nodes, edges, features = len(degree), degree.sum() // 2, arrays.features.shape[1]
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
    axes.bar_label(bars, [f"{each:,}" for each in counts], fontsize="small", padding=2)
    axes.set_xticks(range(len(counts)), names, rotation=45 if len(counts) > 6 else 0, ha="center")
    title = f"edges of a node: median {np.median(degree):g}, most {degree.max():,}"
    axes.set(title=title, ylabel="nodes")
    axes.margins(y=0.1)
    axes.locator_params(axis="y", integer=True)


def _draw_labels(axes, arrays: GraphArrays) -> None:
    labels, names = arrays.labels, arrays.label_names
    if (arrays.task or infer_task(labels)) == REGRESSION:
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
    bars = [(_short(str(names[each])), int(counts[each]), _LABELS) for each in order]
    if unlabelled:
        bars.append(("(unlabelled)", int(unlabelled), _UNLABELLED))
    words, lengths, colours = zip(*bars, strict=True)
    drawn = axes.barh(range(len(bars)), lengths, color=colours)
    shares = [f"{each:,} ({_share(each, len(labels))})" for each in lengths]
    axes.bar_label(drawn, shares, fontsize="small", padding=2)
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
    title = f"targets; {unlabelled:,} nodes ({_share(unlabelled, targets.shape[1])}) unlabelled"
    axes.set(title=title, ylabel="nodes")
    axes.margins(y=0.1)
    axes.locator_params(axis="y", integer=True)
    axes.legend(frameon=False, fontsize="small")


def _share(count: int, nodes: int) -> str:
    return f"{count / nodes:.1%}"


def _short(name: str, most: int = 24) -> str:
    return printable(name)[:most]
