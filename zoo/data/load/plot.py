"""The picture of `zoo data check --plot`: degrees and labels of a graph."""

from pathlib import Path

import numpy as np

from zoo.data.files.graph_arrays import GraphArrays
from zoo.errors import printable
from zoo.system.files import write_whole
from zoo.tasks.labels import NUMBERS, infer_task

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
