"""The checks of data that is no file of one graph: pairs of sentences, many graphs, series."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from zoo.datasets.dataset import Dataset
from zoo.datasets.files.graph_arrays import NO_EDGES, PARTS, GraphArrays
from zoo.datasets.load.check_in_memory import (
    QUANTILES,
    check_graph,
    none_of,
)
from zoo.datasets.load.check_labels import check_balance, check_splits
from zoo.datasets.pairs import SentencePairs, Sentences
from zoo.datasets.samples import Samples
from zoo.datasets.snapshots import Snapshots
from zoo.datasets.tables.times import time_names
from zoo.errors import Finding
from zoo.graphs.adjacency import neighbours

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
    sources, targets = _keys(data.sources), _keys(data.targets)
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
        _columns(data),
        *check_balance(arrays, data.task, data.unit),
        *(check_splits(arrays, data.task) if masks else [Finding("split", "good", dealt)]),
        none_of("repeated samples", repeated, f"{repeated:,} with the features of another",
                "where one is tested and its like trained on, the score is too good",
                {"repeated": repeated}),
    ]  # fmt: skip


def _columns(data: Samples) -> Finding:
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


def _keys(sentences: Sentences) -> list[bytes]:
    """Return what two sentences have in common only where they are the same."""
    tokens, offsets = sentences.tokens.numpy(), sentences.offsets.numpy()
    return [tokens[first:last].tobytes() for first, last in zip(offsets, offsets[1:], strict=False)]


def _arrays(masks: dict[str, Tensor] | None) -> dict[str, np.ndarray] | None:
    return masks and {part: mask.numpy() for part, mask in masks.items()}
