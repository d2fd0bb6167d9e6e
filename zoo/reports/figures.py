"""The figures of a page, drawn by matplotlib: text stays text, colours are those of the screen."""

import functools
import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import matplotlib.figure
import numpy as np
import pandas as pd
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, NullLocator

from zoo.datasets.files.labels import MULTILABEL, REGRESSION
from zoo.errors import printable
from zoo.reports.answers import Embedded
from zoo.reports.history import END, ENDED, INTERRUPTED, PATIENCE, TRAINING, Curve
from zoo.reports.measures import Bin, Reliability
from zoo.reports.page import COLORS, Table, number

WIDTH = 400
"""Units of a drawing from left to right: one is a pixel on a narrow screen."""

SERIES = 8
"""Colours, dashes and marks that are told apart."""

NAMED = 10
"""Classes that a picture of embeddings names; the others are grey."""

POINTS = 2000
"""Points of a picture of predictions at most."""

FEW = 10
"""Answers below which a bin of a reliability diagram is drawn hollow."""

_CURVE = 300  # points of a line at most
_ROWS = 40  # of the table of a line at most
_LETTERS = 14  # of a name beside a matrix

_DASHES = [(0, dash) for dash in ((), (4, 1.7), (1.1, 1.7), (5, 1.7, 1.1, 1.7), (2.2, 1.1),
           (6.7, 2.2), (0.6, 1.1), (3.3, 1.1, 0.6, 1.1, 0.6, 1.1))]  # fmt: skip
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
    "xtick.labelsize": 13,
    "ytick.labelsize": 13,
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
        drawing: what stands inside its SVG.
        width: of the drawing.
        height: of the drawing.
        said: what can be seen in it, in a sentence or two.
        note: how to read it.
        columns: heads of the table of its numbers.
        rows: their cells; the first of a row says what it is of.
    """

    title: str
    drawing: str
    width: float
    height: float
    said: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def numbers(self) -> Table:
        """Return what is drawn as a table."""
        return Table(self.title, self.columns, self.rows)


def _drawn(function: Callable) -> Callable:
    """Let a function draw in the style of pages, whatever a matplotlibrc says."""

    @functools.wraps(function)
    def wrapped(*args, **options):
        with style.context(["default", _STYLE]):
            return function(*args, **options)

    return wrapped


def _axes(x: str, y: str, height: float = 270) -> Axes:
    """Return empty axes whose labels are short, that of y above them."""
    size = (WIDTH / 72, height / 72)
    figure = matplotlib.figure.Figure(size, layout="constrained", frameon=False)
    axes = figure.add_subplot(xlabel=x, title=y)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: _label(value))
    axes.locator_params(nbins=7, steps=[1, 2, 2.5, 5, 10])
    return axes


def _label(value: float) -> str:
    """Return a number of an axis.

    >>> _label(0.25), _label(50_000)
    ('0.25', '50k')
    """
    if abs(value) >= 10_000:
        return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1000:g}k"
    return "0" if abs(value) < 1e-12 else f"{value:.6g}".replace("-", "−")


def _finished(axes: Axes, title: str, *told) -> Figure:
    """Return the figure of axes, with a legend below of what has a label, row by row."""
    handles, names = axes.get_legend_handles_labels()
    names = [_shown(name, 44) for name in names]
    if names:
        columns = max(1, WIDTH // (41 + 8 * max(map(len, names))))
        order = [each for first in range(columns) for each in range(first, len(names), columns)]
        height = axes.figure.get_figheight() + 18 * -(-len(names) // columns) / 72
        axes.figure.set_figheight(height)
        axes.figure.legend([handles[each] for each in order], [names[each] for each in order],
                           loc="outside lower left", ncols=columns)  # fmt: skip
    out = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": title}), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a browser has the letters that are not in matplotlib
        axes.figure.savefig(out, format="svg")
    inside = out.getvalue().partition("</defs>")[2].rpartition("</svg>")[0]
    drawing = re.sub("<[^>]*>", _of_page, inside)
    return Figure(title, drawing, *(72 * axes.figure.get_size_inches()), *told)


def _of_page(tag: re.Match) -> str:
    """Return a tag of matplotlib, short and in the colours of the page; `said: ` is a tooltip."""
    if found := re.match('<g id="(.*)"', tag[0], re.DOTALL):
        told = found[1].removeprefix("said: ")
        return "<g>" if told == found[1] else f"<g><title>{told}</title>"
    text = re.sub(r"(\.\d\d)\d+", r"\1", " ".join(tag[0].split()))
    for name, (light, _) in COLORS.items():
        text = text.replace(light, f"var(--{name})")
    return text


def _shown(name: str, letters: int) -> str:
    """Return a name in one line and not too long."""
    name = printable(" ".join(name.split()))
    return name if len(name) <= letters else f"{name[: letters - 1]}…"


def _color(index: int) -> str:
    return COLORS[f"s{index % SERIES}"][0]


def _dash(index: int):
    return _DASHES[(index + index // SERIES) % SERIES]  # it shifts where colours come again


def _mark(index: int) -> str:
    return _MARKS[(index + index // SERIES) % SERIES]


def _thinned(lines, most: int):
    """Return some of many rows, evenly spread, both ends among them."""
    if len(lines) <= most:
        return lines
    return lines.iloc[np.linspace(0, len(lines) - 1, most).round().astype(int)]


def _table_of(lines: Mapping[str, pd.Series]) -> list[list[str]]:
    """Return rows of epochs, few of them, and of each line its value there."""
    frame = _thinned(pd.DataFrame(dict(enumerate(lines.values()))).sort_index(), _ROWS)
    return [[str(epoch), *map(number, row)] for epoch, *row in frame.itertuples()]


def _said_of(lines: Mapping[str, pd.Series]) -> str:
    return " ".join(
        f"{name.capitalize()}: from {number(line.iloc[0])} to {number(line.iloc[-1])} "
        f"in epoch {line.index[-1]}."
        for name, line in [*lines.items()][:12]
    )


def _epochs(label: str, last: int, losses: pd.Series | None = None) -> Axes:
    """Return axes of epochs up to the last one, logarithmic for losses that fall far."""
    log = losses is not None and 0 < 50 * losses.min() < losses.max()
    axes = _axes("epoch", f"{label} (logarithmic)" if log else label)
    axes.set_xlim(0, 1.03 * last)
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: _label(value))
        axes.yaxis.set_minor_locator(NullLocator())
    return axes


def _line(axes: Axes, line: pd.Series, index: int, name: str) -> None:
    line = _thinned(line, _CURVE)
    axes.plot(line.index, line, color=_color(index), ls=_dash(index), label=name)


@_drawn
def seed_curves(curves: Sequence[Curve], metric: str) -> list[Figure]:
    """Return the figures of loss and validation score, a line for each seed."""
    losses = {f"seed {each.seed}": pd.Series(dict(each.losses)) for each in curves}
    scores = {f"seed {each.seed}": pd.Series(dict(each.scores)) for each in curves if each.scores}
    last = max(each.last for each in curves)
    axes = _epochs("loss", last, pd.concat(losses.values()))
    for index, (name, line) in enumerate(losses.items()):
        _line(axes, line, index, name)
    told = _said_of(losses), "Mean of an epoch.", ["epoch", *losses], _table_of(losses)
    loss = _finished(axes, "Training loss", *told)
    if not scores:
        return [loss]
    axes, said, shown = _epochs(metric, last), [], [each for each in curves if each.scores]
    for index, (name, line) in enumerate(scores.items()):
        _line(axes, line, index, name)
    for index, each in enumerate(shown):
        color, best, end = _color(index), "none yet", each.scores[-1][1]
        axes.plot(each.last, end, _STOPS[each.stop], color=color, mec=_CARD, ms=8)
        if each.best is not None:
            epoch, score = each.best
            best = f"{number(score)} at epoch {epoch}"
            if epoch > 0:
                axes.plot(epoch, score, "o", color=color, mec=_INK, mew=1.3, ms=9)
        said.append(
            f"Seed {each.seed}: best {best}, stopped after epoch {each.last} ({each.stop})."
        )
    axes.plot([], "o", color=_SOFT, label="best epoch")
    for stop in {each: None for each in _STOPS if each in {own.stop for own in shown}}:
        axes.plot([], _STOPS[stop], color=_SOFT, label=f"stop: {stop}")
    note = "The weights of the best epoch are kept, and no later ones; test is measured there."
    told = " ".join(said[:12]), note, ["epoch", *scores], _table_of(scores)
    return [loss, _finished(axes, "Validation score", *told)]


@_drawn
def run_curves(runs: Mapping[str, Sequence[Curve]], metric: str) -> list[Figure]:
    """Return the figures of loss and validation score: the mean over the seeds of each run."""
    figures = []
    for title, label, read in (
        ("Training loss of the runs", "loss", lambda each: each.losses),
        ("Validation score of the runs", metric, lambda each: each.scores),
    ):
        known = {name: [dict(own) for each in curves if (own := read(each))]
                 for name, curves in runs.items()}  # fmt: skip
        bands = {name: pd.DataFrame([*map(pd.Series, own)]).T.dropna()
                 for name, own in known.items() if own}  # fmt: skip
        if not bands:
            continue
        values = pd.concat([band.stack() for band in bands.values()])
        last = max(band.index[-1] for band in bands.values())
        axes = _epochs(label, last, values if label == "loss" else None)
        lines = {name: band.mean(axis=1) for name, band in bands.items()}
        for index, name in enumerate(runs):
            if name in bands:
                band = _thinned(bands[name], _CURVE)
                axes.fill_between(band.index, band.min(axis=1), band.max(axis=1),
                                  color=_color(index), alpha=0.18, lw=0)  # fmt: skip
                _line(axes, lines[name], index, name)
        note = (
            "Mean over the seeds, as far as all of them were trained; band: least and most of them."
        )
        told = _said_of(lines), note, ["epoch", *lines], _table_of(lines)
        figures.append(_finished(axes, title, *told))
    return figures


@_drawn
def confusion_matrix(names: Sequence[str], counts: np.ndarray) -> Figure:
    """Return the confusion matrix: of each true class, which share gets which answer."""
    size, shown = len(names), [_shown(each, _LETTERS) for each in names]
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
        said = f"said: true {printable(names[i])}, answered {printable(names[j])}: {counts[i, j]:,}"
        axes.add_patch(Rectangle((j - 0.49, i - 0.49), 0.98, 0.98, color=_ACCENT, lw=0, gid=said,
                                 alpha=0.04 + 0.96 * share))  # fmt: skip
        if side >= 26 and counts[i, j]:
            percent = "<1" if share < 0.005 else f"{100 * share:.0f}"
            axes.text(j, i, percent, ha="center", va="center_baseline", size=12,
                      color=COLORS["over" if share > 0.5 else "ink"][0])  # fmt: skip
    worst = _confusions(names, counts)
    said = "Most often confused: " + "; ".join(worst) + "." if worst else "No answer is wrong."
    note = (
        "Rows are true classes, columns answers; a cell is the share of its row, all seeds "
        f"together, in percent. {said}"
    )
    rows = [[name, *(f"{each:,}" for each in row)] for name, row in zip(names, counts, strict=True)]
    return _finished(axes, "Confusion matrix", said, note, ["true \\ answered", *names], rows)


def _confusions(names: Sequence[str], counts: np.ndarray) -> list[str]:
    """Return the three pairs of classes that are confused most often, in words."""
    wrong = counts * (1 - np.eye(len(names), dtype=counts.dtype))
    order = np.argsort(-wrong, axis=None, kind="stable")[:3]
    pairs = [np.unravel_index(each, wrong.shape) for each in order]
    return [f"{names[i]} as {names[j]} ({wrong[i, j]:,})"
            for i, j in pairs if wrong[i, j]]  # fmt: skip


@_drawn
def embedding(found: Embedded, task: str, names: Sequence[str], unit: str) -> Figure:
    """Return the picture of embeddings in two dimensions, coloured and shaped by class."""
    groups, titles = _groups(found.y, task, names)
    low, high = np.percentile(found.points, [2, 98], axis=0)
    room = 0.5 * (high - low)
    points = np.clip(found.points, low - room, high + room)  # few far out decide no scale
    beyond = (points != found.points).any(axis=1).sum()
    first, second = (f"{100 * each:.0f} % of the variance" for each in found.shares)
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
        rows.append([name, f"{len(chosen):,}", *map(number, chosen.mean(axis=0))])
    drawn = f"{len(points):,} of {found.rows:,}" if len(points) < found.rows else f"{found.rows:,}"
    note = (
        f"What the head of seed {found.seed}, the best by validation, reads of {drawn} test "
        f"{unit}, along the two directions in which these differ most (PCA)."
    )
    if beyond:
        note += f" {beyond:,} lie farther out, and are drawn at the edge."
    return _finished(axes, "Embedding", f"{note} The table has the middle of each group.", note,
                     ["group", "count", "first, mean", "second, mean"], rows)  # fmt: skip


def _groups(y: np.ndarray, task: str, names: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """Return the group of each row, -1 of others, and what groups are called."""
    if task == MULTILABEL or (task == REGRESSION and y.ndim == 2 and y.shape[1] > 1):
        return np.full(len(y), -1), []
    if task == REGRESSION:
        y = y.reshape(-1)
        ends = np.unique(np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
        cuts = [number(each) for each in ends]
        inner = [f"{a} to {b}" for a, b in zip(cuts, cuts[1:], strict=False)]
        return np.searchsorted(ends, y), [f"up to {cuts[0]}", *inner, f"above {cuts[-1]}"]
    classes, counts = np.unique(y, return_counts=True)
    kept = np.sort(classes[np.argsort(-counts, kind="stable")[:NAMED]])
    place = {int(each): index for index, each in enumerate(kept)}
    groups = np.array([place.get(int(each), -1) for each in y])
    return groups, [names[int(each)] for each in kept]


@_drawn
def predictions(truth: np.ndarray, found: np.ndarray, name: str = "") -> list[Figure]:
    """Return predicted against true, and the residuals, of numbers (n,) and (n,)."""
    of = f" of {name}" if name else ""
    drawn = np.random.default_rng(0).permutation(len(truth))[:POINTS]
    residuals = found.astype(float) - truth
    axes = _axes("true", "predicted", height=360)
    axes.axline((truth[0], truth[0]), slope=1, **_IDEAL)
    axes.plot(truth[drawn], found[drawn], "o", color=_color(0), **_POINT)
    both = np.concatenate([truth, found])
    room = 0.04 * np.ptp(both) or 1.0
    axes.set(
        xlim=(both.min() - room, both.max() + room), ylim=(both.min() - room, both.max() + room)
    )
    rows = [[f"{q}th", *(number(np.percentile(each, q)) for each in (truth, found, residuals))]
            for q in (5, 25, 50, 75, 95)]  # fmt: skip
    mean = number(np.abs(residuals).mean())
    said = f"{len(truth):,} predictions{of}, {mean} from what is true in the mean."
    note = "On the dashed line both are the same."
    if len(drawn) < len(truth):
        note += f" Drawn are {len(drawn):,} of {len(truth):,}."
    scatter = _finished(axes, f"Predicted against true{of}", said, note,
                        ["percentile", "true", "predicted", "residual"], rows)  # fmt: skip
    axes = _axes("predicted minus true", "count")
    counts, edges, _ = axes.hist(residuals, 24, color=_ACCENT, alpha=0.7, rwidth=0.92)
    if edges[0] < 0 < edges[-1]:
        axes.axvline(0, **_IDEAL)
    said = (
        f"Predicted minus true: {number(residuals.mean())} in the mean, standard deviation "
        f"{number(residuals.std())}."
    )
    rows = [[f"{number(a)} to {number(b)}", f"{count:,.0f}"]
            for a, b, count in zip(edges, edges[1:], counts, strict=False)]  # fmt: skip
    return [scatter, _finished(axes, f"Residuals{of}", said, said, ["residual", "count"], rows)]


@_drawn
def binned(series: Mapping[str, Sequence[Bin]], title: str, label: str, measure: str,
           note: str) -> Figure:  # fmt: skip
    """Return the figure of scores in bins, a mark with its interval for each bin of each series."""
    bins, many = next(iter(series.values())), len(series) > 1
    axes = _axes(label, measure)
    axes.set_xticks(range(len(bins)), [each.name if many else f"{each.name}\n{each.count:,}"
                                       for each in bins])  # fmt: skip
    axes.set_xlim(-0.5, len(bins) - 0.5)
    for index, (name, own) in enumerate(series.items()):
        shift = 0.5 * (index / (len(series) - 1) - 0.5) if many else 0
        score, low, high = np.array([each[2:] for each in own], float).T  # (bins,), NaN of None
        axes.errorbar(np.arange(len(own)) + shift, score, [score - low, high - score],
                      fmt=_mark(index), color=_color(index), elinewidth=2, ms=8.5, mec=_CARD,
                      mew=0.7, label=name if many else None)  # fmt: skip
    axes.set_ylim(*_ends([each for own in series.values() for each in own], measure))
    said = " ".join(
        f"{name}: " + ", ".join(f"{each.name}: {number(each.score)}" for each in own) + "."
        for name, own in [*series.items()][:6]
    )
    rows = [
        [each.name, *([name] if many else []), f"{each.count:,}", *map(number, each[2:])]
        for name, own in series.items() for each in own
    ]  # fmt: skip
    columns = [label, *(["run"] if many else []), "count", measure, "from", "to"]
    return _finished(axes, title, said, note, columns, rows)


def _ends(bins: Sequence[Bin], measure: str) -> tuple[float, float]:
    """Return both ends of an axis: scores up to 1 keep that end where they come near it."""
    known = [value for each in bins for value in each[2:] if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    room = 0.08 * (high - low) or 0.05
    bounded = measure in ("accuracy", "roc-auc")
    low = max(0.0, low - room) if bounded or low >= 0 else low - room
    return low, min(1.0, high + room) if bounded else high + room


@_drawn
def reliability_diagram(series: Mapping[str, Reliability]) -> Figure:
    """Return the reliability diagram: how often answers of each probability are right."""
    alone, said = len(series) == 1, []
    axes = _axes("probability of the answer", "share that is right", height=330)
    axes.axline((0, 0), slope=1, **_IDEAL)
    axes.set(xlim=(0, 1), ylim=(0, 1.02))
    for index, (name, found) in enumerate(series.items()):
        mean = f"{np.mean(found.errors):.3f}"
        if len(found.errors) > 1:
            mean += f" ± {np.std(found.errors, ddof=1):.3f}"
        said.append(f"{'' if alone else f'{name}: '}Expected calibration error {mean}.")
        known, few = found.count > 0, (found.count > 0) & (found.count < FEW)
        color, mark = _color(index), _mark(index)
        axes.plot(found.confidence[known], found.right[known], mark, color=color, ls=_dash(index),
                  ms=8, mec=_CARD, mew=0.7, label=None if alone else f"{name}: {mean}")  # fmt: skip
        axes.plot(found.confidence[few], found.right[few], mark, color=color, mfc=_CARD, ms=8,
                  mew=1.5)  # fmt: skip
        if alone:
            bars = axes.inset_axes([0, -0.38, 1, 0.14], sharex=axes)
            bars.bar(np.arange(0.05, 1, 0.1), found.count, 0.092, color=_ACCENT, alpha=0.7)
            bars.set_ylim(0, found.count.max())
            bars.set_axis_off()
    rows = [
        [f"{low / 10:.1f} to {(low + 1) / 10:.1f}", *([] if alone else [name]),
         f"{found.count[low]:,}", number(found.confidence[low]), number(found.right[low])]
        for name, found in series.items() for low in range(len(found.count))
    ]  # fmt: skip
    columns = ["bin", *([] if alone else ["run"]), "count", "probability", "right"]
    note = (
        "On the dashed line probabilities are what they say; below it they promise too much. "
        f"{said[0] if alone else 'Beside the names: expected calibration error.'} Hollow: fewer "
        f"than {FEW} answers.{' The bars count answers.' if alone else ''}"
    )
    return _finished(axes, "Reliability", " ".join(said), note, columns, rows)
