"""The plot of `zoo data check --plot`: degree distribution and class balance."""

from pathlib import Path

import numpy as np

from zoo.datasets import GraphArrays
from zoo.datasets.files.labels import REGRESSION, infer_task
from zoo.datasets.load.check_in_memory import shape_of
from zoo.errors import printable
from zoo.system.files import write_whole

_MOST = 20
"""Classes that a picture has room to name."""


def draw(arrays: GraphArrays, path: Path) -> None:
    """Draw degrees and labels of a graph whose edges are numbers of nodes into a PNG."""
    from matplotlib import style
    from matplotlib.figure import Figure

    # A matplotlibrc in the current folder may run TeX, and `$` in the name of a class is a dollar.
    with style.context(["default", {"text.parse_math": False}]):
        figure = Figure(figsize=(10, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        _draw_degrees(left, np.diff(shape_of(arrays).pattern.indptr))
        _draw_labels(right, arrays)
        for axes in (left, right):
            axes.spines[["top", "right"]].set_visible(False)
        write_whole(path, lambda draft: figure.savefig(draft, format="png", dpi=120))


def _draw_degrees(axes, degree: np.ndarray) -> None:
    # Bins double in width, since few nodes have most of the edges; nodes without any come first.
    bins = [0, *2 ** np.arange(np.log2(max(degree.max(), 1)) // 1 + 2)]
    counts = np.histogram(degree, bins)[0]
    names = [f"{low:g}" if high - low == 1 else f"{low:g} to {high - 1:g}"
             for low, high in zip(bins[:-1], bins[1:], strict=True)]  # fmt: skip
    axes.bar(range(len(counts)), counts, color="C0")
    axes.set_xticks(range(len(counts)), names, rotation=45 if len(counts) > 6 else 0, ha="center")
    axes.set(title="edges of a node", ylabel="nodes")
    axes.locator_params(axis="y", integer=True)


def _draw_labels(axes, arrays: GraphArrays) -> None:
    labels, names = arrays.labels, arrays.label_names
    if (arrays.task or infer_task(labels)) == REGRESSION:
        for target in labels.reshape(len(labels), -1).T:
            known = target[np.isfinite(target)]
            axes.hist(known, bins=int(np.clip(len(known) ** 0.5, 5, 40)), histtype="step")
        axes.set(title="targets", ylabel="nodes")
        axes.locator_params(axis="y", integer=True)
        return
    if labels.ndim == 2:
        counts, title = np.nansum(labels == 1, axis=0), "nodes with each target"
    else:
        counts, title = np.bincount(labels[labels >= 0].astype(int)), "nodes of each class"
    names = names or tuple(map(str, range(len(counts))))
    order = (-counts).argsort(kind="stable")[:_MOST]
    left_out = len(counts) - len(order)
    axes.barh(range(len(order)), counts[order], color="C1")
    axes.set_yticks(range(len(order)), [printable(str(names[each]))[:24] for each in order])
    axes.invert_yaxis()
    axes.set(title=title + (f", the largest {_MOST} of {len(counts)}" if left_out else ""))
    axes.set_xlabel("nodes")
    axes.locator_params(axis="x", integer=True)
