"""The figures of a page, by matplotlib as SVG: text stays text, colours are those of the page."""

import io
import itertools
import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib.figure
import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.gridspec import GridSpec
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from zoo.errors import printable
from zoo.reports.answers import Embedded
from zoo.reports.history import END, ENDED, INTERRUPTED, PATIENCE, TRAINING, Curve
from zoo.reports.html import COLORS, Table, number
from zoo.reports.measures import Bin, Reliability
from zoo.tasks.task import Task

WIDTH = 400
"""Units of a drawing from left to right: one is a pixel on a narrow screen."""

SERIES = 8
"""Colours, dashes and markers before they come again."""

NAMED = 10
"""Classes that a picture of embeddings names; the others are grey."""

POINTS = 2000
"""Points of a picture of predictions at most."""

FEW = 10
"""Predictions below which a bin of a reliability diagram is drawn hollow."""

_CURVE = 300  # points of a line at most
_ROWS = 40  # of the table of a line at most
_LETTERS = 14  # of a name beside a matrix

_DASHES = ["-", "--", ":", "-.", *((0, dash) for dash in ((2, 1), (7, 2), (1, 3), (3, 1, 1, 1)))]
_MARKS = "os^DvPpX"
_STOPS = {PATIENCE: "s", END: "D", INTERRUPTED: "X", ENDED: "X", TRAINING: "^"}
_INK, _SOFT, _CARD, _ACCENT = (COLORS[name][0] for name in ("ink", "soft", "card", "accent"))
_IDEAL = {"color": _SOFT, "lw": 1.4, "dashes": (3.5, 2.8)}
_POINT = {"ls": "", "ms": 5.5, "mew": 0.4, "mec": _CARD}

_STYLE = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "text.color": _SOFT,
    "font.family": "DejaVu Sans",
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.titlelocation": "left",
    "axes.titlecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _SOFT,
    "axes.facecolor": "none",
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": COLORS["line"][0],
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "xtick.color": _SOFT,
    "ytick.color": _SOFT,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "legend.fontsize": 12,
    "legend.handlelength": 1.8,
    "legend.handletextpad": 0.6,
    "legend.columnspacing": 1,
    "legend.borderpad": 0.3,
}


class Figure(NamedTuple):
    """A figure.

    Attributes:
        title: what it shows, in a few words.
        drawing: markup, an SVG that is `WIDTH` wide.
        note: what it shows, and how to read it.
        numbers: the numbers behind it, as a table.
    """

    title: str
    drawing: Markup
    note: str
    numbers: Table


_styled = style.context(["default", _STYLE])  # whatever a matplotlibrc says


def _axes(x: str, y: str, height: float = 270, *, log: bool = False) -> Axes:
    """Return empty axes whose labels are short, that of y above them."""
    size = (WIDTH / 72, height / 72)
    axes = matplotlib.figure.Figure(size, layout="constrained", frameon=False).add_subplot()
    axes.set(xlabel=x, title=y, yscale="log" if log else "linear")
    if log:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: _label(value))
        if isinstance(axis.get_major_locator(), MaxNLocator):
            axis.get_major_locator().set_params(nbins=7, steps=[1, 2, 2.5, 5, 10])
    return axes


def _label(value: float) -> str:
    """Return a number of an axis.

    >>> _label(0.25), _label(50_000)
    ('0.25', '50k')
    """
    if abs(value) >= 10_000:
        return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1000:g}k"
    return "0" if abs(value) < 1e-12 else f"{value:.6g}".replace("-", "−")


def _finished(
    axes: Axes, title: str, note: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]
) -> Figure:
    """Return the figure of axes, with a legend below of what has a label, row by row."""
    figure = axes.figure
    handles, names = axes.get_legend_handles_labels()
    names = [_shortened(name, 48) for name in names]
    if names:
        ncols = max(1, WIDTH // (41 + 8 * max(map(len, names))))
        figure.set_figheight(figure.get_figheight() + 18 * -(-len(names) // ncols) / 72)
        # matplotlib fills column by column.
        order = [index for column in range(ncols) for index in range(column, len(names), ncols)]
        figure.legend([handles[index] for index in order], [names[index] for index in order],
                      loc="outside lower left", ncols=ncols)  # fmt: skip
    return Figure(title, svg(figure, title), note, Table(title, columns, rows))


def svg(figure: matplotlib.figure.Figure, title: str) -> Markup:
    """Return a figure as an element of a page, in fonts and colours of the page."""
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": title}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a browser has the letters that are not in matplotlib
        figure.savefig(out, format="svg")
    inside = out.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]
    inside = re.sub("<[^>]*>", _of_page, re.sub(r">\s+<", "><", inside))
    return Markup('<svg viewBox="0 0 {:.0f} {:.0f}" role="img" aria-label="{}">{}</svg>').format(
        *(72 * figure.get_size_inches()), title, Markup(inside)
    )


def _of_page(tag: re.Match) -> str:
    """Return a tag of matplotlib, shorter and in the colours of the page, with its tooltip."""
    if match := re.match('<g id="(tooltip: )?(.*)"(/?>)', tag[0], re.DOTALL):
        return f"<g><title>{match[2]}</title>" if match[1] else f"<g{match[3]}"
    text = re.sub(r"(\.\d\d)\d+", r"\1", " ".join(tag[0].split()))
    for name, (light, _) in COLORS.items():
        text = text.replace(light, f"var(--{name})")
    return text


def _shortened(name: str, letters: int) -> str:
    """Return a name in one line and not too long: its two ends, in which names differ."""
    name = printable(" ".join(name.split()))
    half = letters // 2
    return name if len(name) <= letters else f"{name[:half]}…{name[half + 1 - letters :]}"


def _color(index: int) -> str:
    return COLORS[f"s{index % SERIES}"][0]


def _dash(index: int):
    return _DASHES[(index + index // SERIES) % SERIES]  # it shifts where colours come again


def _mark(index: int) -> str:
    return _MARKS[(index + index // SERIES) % SERIES]


def _thinned(lines: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return some of many rows, evenly spread, both ends among them."""
    chosen = np.linspace(0, len(lines) - 1, min(most, len(lines)))
    return lines.iloc[chosen.round().astype(int)]


@_styled
def curves(series: Mapping[str, Sequence[Curve]], metric: str, of: str = "") -> list[Figure]:
    """Return the figures of loss and validation score, those that have any.

    Args:
        series: a seed by its name, or the seeds of a run, of which the mean is drawn.
        metric: what scores measure.
        of: ` of the runs`; left out of seeds, which show the best epoch and the last one too.
    """
    drawn = []
    for title, label, note, read in (
        ("Training loss", "loss", "Mean of an epoch.", lambda curve: curve.losses),
        ("Validation score", metric, "The weights of the best epoch are kept, and no later ones; "
         "test is measured there.", lambda curve: curve.scores),
    ):  # fmt: skip
        # Values by epoch, a column for each seed that has some, as far as all of these go.
        frames = {name: pd.DataFrame(filter(None, map(read, seeds))).T.sort_index().dropna()
                  for name, seeds in series.items()}  # fmt: skip
        frames = {name: frame for name, frame in frames.items() if frame.size}
        if not frames:
            continue
        values = np.concatenate([frame.to_numpy().ravel() for frame in frames.values()])
        log = label == "loss" and 0 < 50 * values.min() < values.max()
        axes = _axes("epoch", f"{label} (logarithmic)" if log else label, log=log)
        if log and values.max() > 200 * values.min():
            axes.yaxis.get_major_locator().set_params(subs=(1,))
        axes.xaxis.get_major_locator().set_params(integer=True)
        for index, name in enumerate(series):
            if name in frames:
                _plot(axes, _thinned(frames[name], _CURVE), index, name)
        if label == metric and not of:
            _mark_ends(axes, series)
        axes.set_xlim(left=0)
        means = pd.DataFrame({name: frame.mean(axis=1) for name, frame in frames.items()})
        rows = [*_thinned(means.sort_index(), _ROWS).itertuples(name=None)]
        if of:
            note = "Mean over the seeds, as far as all of them were trained; band: least and most."
        drawn.append(_finished(axes, f"{title}{of}", note, ["epoch", *frames], rows))
    return drawn


def _plot(axes: Axes, frame: pd.DataFrame, index: int, name: str) -> None:
    """Draw the mean of the columns of a frame, in a band of all."""
    axes.plot(frame.mean(axis=1), marker="o" if len(frame) == 1 else None, label=name,
              color=_color(index), ls=_dash(index))  # fmt: skip
    if frame.shape[1] > 1:
        axes.fill_between(frame.index, frame.min(axis=1), frame.max(axis=1), color=_color(index),
                          alpha=0.18, lw=0)  # fmt: skip


def _mark_ends(axes: Axes, seeds: Mapping[str, Sequence[Curve]]) -> None:
    """Mark the best epoch of each seed, and the last one by why it was the last."""
    stops = {}
    for index, [curve] in enumerate(seeds.values()):
        if curve.scores:
            stops[curve.stop] = _STOPS[curve.stop]
            axes.plot(max(curve.losses), [*curve.scores.values()][-1], stops[curve.stop],
                      color=_color(index), mec=_CARD, ms=8)  # fmt: skip
            if curve.best is not None and curve.best[0] > 0:
                axes.plot(*curve.best, "o", color=_color(index), mec=_INK, mew=1.3, ms=9)
    axes.plot([], "o", color=_SOFT, label="best epoch")
    for stop, mark in stops.items():
        axes.plot([], mark, color=_SOFT, label=f"stop: {stop}")


@_styled
def confusion_matrix(names: Sequence[str], counts: np.ndarray) -> Figure:
    """Return the confusion matrix: the predictions for each true class, as shares."""
    size, shown = len(names), [_shortened(name, _LETTERS) for name in names]
    longest = 8 * max(map(len, shown))  # pixels
    side = (WIDTH - longest - 40) / size
    turned = longest > side - 4
    axes = _axes("answered", "", height=WIDTH - longest + (longest if turned else 16))
    axes.set_ylabel("true")
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xticks(range(size), shown, rotation=90 if turned else 0)
    axes.set_yticks(range(size), shown)
    axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5))
    axes.grid(False)
    axes.spines[:].set_visible(False)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for (i, j), share in np.ndenumerate(shares):
        cell = f"true {printable(names[i])}, answered {printable(names[j])}: {counts[i, j]:,}"
        axes.add_patch(Rectangle((j - 0.49, i - 0.49), 0.98, 0.98, color=_ACCENT, lw=0,
                                 alpha=0.04 + 0.96 * share, gid=f"tooltip: {cell}"))  # fmt: skip
        if side >= 26 and counts[i, j]:
            percent = "<1" if share < 0.005 else f"{100 * share:.0f}"
            axes.text(j, i, percent, ha="center", va="center_baseline", size=12,
                      color=COLORS["over" if share > 0.5 else "ink"][0])  # fmt: skip
    worst = _confusions(names, counts)
    worst = f"Most often confused: {'; '.join(worst)}." if worst else "No answer is wrong."
    note = (
        "Rows are true classes, columns answers; a cell is the share of its row, all seeds "
        f"together, in percent. {worst}"
    )
    rows = [[name, *row] for name, row in zip(names, counts, strict=True)]
    return _finished(axes, "Confusion matrix", note, ["true \\ answered", *names], rows)


def _confusions(names: Sequence[str], counts: np.ndarray) -> list[str]:
    """Return the three pairs of classes that are confused most often, in words."""
    wrong = counts * (1 - np.eye(len(names), dtype=counts.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:3]
    pairs = [np.unravel_index(index, wrong.shape) for index in order]
    return [f"{names[i]} as {names[j]} ({wrong[i, j]:,})"
            for i, j in pairs if wrong[i, j]]  # fmt: skip


@_styled
def embedding(embedded: Embedded, task: Task, names: Sequence[str], unit: str) -> Figure:
    """Return the picture of embeddings in two dimensions, coloured and shaped by class."""
    groups, titles = _groups(embedded.y, task, names)
    low, high = np.percentile(embedded.points, [2, 98], axis=0)
    room = 0.5 * (high - low)
    points = np.clip(embedded.points, low - room, high + room)  # outliers do not set the scale
    beyond = (points != embedded.points).any(axis=1).sum()
    first, second = (f"{100 * share:.0f} % of the variance" for share in embedded.shares)
    axes = _axes(f"first component, {first}", f"second component, {second}", height=360)
    rows = []
    for index in (-1, *range(len(titles))):
        chosen = points[groups == index]
        if not len(chosen):
            continue
        name = titles[index] if index >= 0 else "others"
        color = _color(index) if index >= 0 else COLORS["other"][0]
        axes.plot(*chosen.T, _mark(max(index, 0)), color=color, **_POINT,
                  label=name if titles else None)  # fmt: skip
        rows.append([name, len(chosen), *chosen.mean(axis=0)])
    drawn = f"{len(points):,} of " * (len(points) < embedded.rows) + f"{embedded.rows:,}"
    note = (
        f"What the head of seed {embedded.seed}, the best by validation, reads of {drawn} test "
        f"{unit}, along the two directions in which these differ most (PCA)."
    )
    if beyond:
        note += f" {beyond:,} lie farther out, and are drawn at the edge."
    columns = ["group", "count", "first, mean", "second, mean"]
    return _finished(axes, "Embedding", note, columns, rows)


def _groups(y: np.ndarray, task: Task, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return the group of each row, -1 of others, and what groups are called."""
    if task.kind == "targets" or y.size > len(y):
        return np.full(len(y), -1), []
    if task.kind == "numbers":
        y = y.reshape(-1)
        ends = np.unique(np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
        cuts = [number(end) for end in ends]
        inner = [f"{low} to {high}" for low, high in itertools.pairwise(cuts)]
        return np.searchsorted(ends, y), [f"up to {cuts[0]}", *inner, f"above {cuts[-1]}"]
    classes, counts = np.unique(y, return_counts=True)
    frequent = np.sort(classes[np.argsort(-counts, kind="stable")[:NAMED]])
    groups = pd.Index(frequent).get_indexer(y.reshape(-1))  # -1 of all others
    return groups, [names[int(label)] for label in frequent]


@_styled
def predictions(truth: np.ndarray, predicted: np.ndarray, name: str = "") -> list[Figure]:
    """Return predicted against true, and the residuals, of numbers (n,) and (n,); none of none."""
    if len(truth) == 0:
        return []
    of = f" of {name}" if name else ""
    drawn = np.random.default_rng(0).permutation(len(truth))[:POINTS]
    residuals = predicted.astype(float) - truth
    axes = _axes("true", "predicted", height=360)
    axes.plot(truth[drawn], predicted[drawn], "o", color=_color(0), **_POINT)
    axes.axline((truth[0], truth[0]), slope=1, **_IDEAL)
    both = np.concatenate([truth, predicted])
    room = 0.04 * np.ptp(both) or 1.0
    ends = both.min() - room, both.max() + room
    axes.set(xlim=ends, ylim=ends)
    note = f"{len(truth):,} predictions, {number(np.abs(residuals).mean())} from what is true in "
    note += "the mean. On the dashed line both are the same."
    if len(drawn) < len(truth):
        note += f" Drawn are {len(drawn):,}."
    rows = [[f"{q}th", *(np.percentile(values, q) for values in (truth, predicted, residuals))]
            for q in (5, 25, 50, 75, 95)]  # fmt: skip
    columns = ["percentile", "true", "predicted", "residual"]
    scatter = _finished(axes, f"Predicted against true{of}", note, columns, rows)
    axes = _axes("predicted minus true", "count")
    counts, edges, _ = axes.hist(residuals, 24, color=_ACCENT, alpha=0.7, rwidth=0.92)
    if edges[0] < 0 < edges[-1]:
        axes.axvline(0, **_IDEAL)
    note = f"Predicted minus true: {number(residuals.mean())} in the mean, standard deviation "
    note += f"{number(residuals.std())}."
    names = [f"{number(low)} to {number(high)}" for low, high in itertools.pairwise(edges)]
    rows = [[name, int(count)] for name, count in zip(names, counts, strict=True)]
    return [scatter, _finished(axes, f"Residuals{of}", note, ["residual", "count"], rows)]


@_styled
def binned(series: Mapping[str, Sequence[Bin]], title: str, label: str, measure: str,
           note: str) -> Figure:  # fmt: skip
    """Return the figure of scores in bins, a mark with its interval for each bin of each series."""
    bins, many = next(iter(series.values())), len(series) > 1
    axes = _axes(label, measure)
    ticks = [bin.name if many else f"{bin.name}\n{bin.count:,}" for bin in bins]
    longest = max(len(line) for tick in ticks for line in tick.split("\n"))
    turned = 8 * longest * len(bins) > WIDTH - 30
    axes.set_xticks(range(len(bins)), ticks, rotation=90 if turned else 0)
    axes.set_xlim(-0.5, len(bins) - 0.5)
    for index, (name, own) in enumerate(series.items()):
        shift = 0.5 * (index / (len(series) - 1) - 0.5) if many else 0
        score, low, high = np.array([bin[2:] for bin in own], float).T  # (bins,), NaN of None
        x, color = np.arange(len(own)) + shift, _color(index)
        axes.vlines(x, low, high, color=color, lw=2)
        axes.plot(x, score, _mark(index), color=color, ms=8.5, mec=_CARD, mew=0.7, clip_on=False,
                  label=name if many else None)  # fmt: skip
    known = [value for own in series.values() for bin in own for value in bin[2:]
             if value is not None]  # fmt: skip
    low, high = axes.get_ylim()  # which does not pass 0 or 1 where no score does
    axes.set_ylim(max(0, low) if min(known, default=0) >= 0 else low,
                  min(1, high) if max(known, default=0) <= 1 else high)  # fmt: skip
    rows = [[bin.name, *([name] if many else []), *bin[1:]]
            for name, own in series.items() for bin in own]  # fmt: skip
    columns = [label, *(["run"] if many else []), "count", measure, "from", "to"]
    return _finished(axes, title, note, columns, rows)


@_styled
def reliability_diagram(series: Mapping[str, Reliability]) -> Figure:
    """Return the reliability diagram: how often answers of each probability are right."""
    alone, rows = len(series) == 1, []
    axes = _axes("probability of the answer", "share that is right", height=330)
    axes.axline((0, 0), slope=1, **_IDEAL)
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    for index, (name, (bins, errors)) in enumerate(series.items()):
        mean = f"{np.mean(errors):.3f}"
        if len(errors) > 1:
            mean += f" ± {np.std(errors, ddof=1):.3f}"
        known, color = bins[bins["count"] > 0], _color(index)
        few, mark = known[known["count"] < FEW], _mark(index)
        axes.plot(known["confidence"], known["right"], mark, ls=_dash(index), color=color, ms=8,
                  mew=0.7, mec=_CARD, clip_on=False,
                  label=None if alone else f"{name}: {mean}")  # fmt: skip
        if len(few):
            axes.plot(few["confidence"], few["right"], mark, color=color, ms=8, mew=1.5, mfc=_CARD,
                      clip_on=False)  # fmt: skip
        rows += [[f"{low / 10:.1f} to {(low + 1) / 10:.1f}", *([] if alone else [name]), *own]
                 for low, *own in bins.itertuples(name=None)]  # fmt: skip
    error = "Beside the names: expected calibration error."
    if alone:
        error = f"Expected calibration error {mean}. The bars count answers."
        grid = GridSpec(2, 1, axes.figure, height_ratios=(7, 1))
        axes.set_subplotspec(grid[0])
        bars = axes.figure.add_subplot(grid[1], sharex=axes)
        bars.bar(np.arange(0.05, 1, 0.1), bins["count"], 0.092, color=_ACCENT, alpha=0.7)
        bars.set_axis_off()
    note = (
        "On the dashed line probabilities are what they say; below it they promise too much. "
        f"{error} Hollow: fewer than {FEW} answers."
    )
    columns = ["bin", *([] if alone else ["run"]), "count", "probability", "right"]
    return _finished(axes, "Reliability", note, columns, rows)
