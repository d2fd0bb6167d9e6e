"""The result of a study, and how it is written: tables as CSV, plots as PNG."""

import csv
import io
from pathlib import Path
from typing import Any, NamedTuple

from zoo.system.files import write_whole


class Row(NamedTuple):
    """A measured quantity and its prediction.

    `tolerance` is how far their ratio may be from 1; None where the prediction is an upper bound.
    """

    name: str
    measured: float
    predicted: float
    tolerance: float | None

    @property
    def ratio(self) -> float:
        """Measured by predicted."""
        return self.measured / self.predicted

    @property
    def agrees(self) -> bool:
        """Whether the ratio is within the tolerance of 1, or not above the bound."""
        if self.tolerance is None:
            return self.ratio <= 1
        return abs(self.ratio - 1) <= self.tolerance


class Series(NamedTuple):
    """A plot: lines by name, each with its x and y.

    References are `dashed`; `gcn, from scratch` then has the colour of `gcn`. x is logarithmic, and
    so is y unless `flat`. Margins are half the lengths of error bars, by name of the line.
    """

    title: str
    x_label: str
    lines: dict[str, tuple[list[float], list[float]]]
    dashed: tuple[str, ...] = ()
    flat: bool = False
    margins: dict[str, list[float]] = {}


class Study(NamedTuple):
    """Measurements with predictions, plots, and a table of measurements without predictions."""

    name: str
    rows: list[Row]
    plots: list[Series] = []
    table: list[dict[str, Any]] = []


def write_study(study: Study, folder: Path) -> list[Path]:
    """Write a study into a folder, which is created; return the paths.

    `NAME.csv` has the rows, `NAME-table.csv` the table, `NAME-lines.csv` every point of the plots,
    `NAME.png` the plots; empty ones are not written.
    """
    rows = [[*row, row.ratio, row.agrees] for row in study.rows]
    columns = 6 if any(plot.margins for plot in study.plots) else 5
    points = [
        [" ".join(plot.title.split()), plot.x_label, name, *point][:columns]
        for plot in study.plots
        for name, (x, y) in plot.lines.items()
        for point in zip(x, y, plot.margins.get(name, [None] * len(x)), strict=True)
    ]
    texts = {
        "": ([*Row._fields, "ratio", "agrees"], rows),
        "-table": (list(study.table[0]), [list(each.values()) for each in study.table])
        if study.table
        else ([], []),
        "-lines": (["plot", "x is", "line", "x", "y", "margin"][:columns], points),
    }
    written = []
    for name, (header, lines) in texts.items():
        if lines:
            written.append(folder / f"{study.name}{name}.csv")
            text = _as_csv(header, lines)
            write_whole(written[-1], lambda path, text=text: path.write_text(text))
    if study.plots:
        from matplotlib import style

        written.append(folder / f"{study.name}.png")
        with style.context("default"):  # whatever a matplotlibrc in the current folder says
            write_whole(written[-1], lambda path: _draw(study, path))
    return written


def _as_csv(header: list[str], lines: list[list]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *lines])
    return text.getvalue()


def _draw(study: Study, path: Path) -> None:
    from matplotlib.figure import Figure

    columns = min(3, len(study.plots))
    rows = -(-len(study.plots) // columns)
    figure = Figure(figsize=(5 * columns, 4 * rows), layout="constrained")
    everything = [(name, plot) for plot in study.plots for name in plot.lines]
    names = dict.fromkeys(_shade(*each) for each in everything)
    colours = {
        name: f"C{number % 10}" for number, name in enumerate(names)
    }  # the same in every plot
    for number, plot in enumerate(study.plots, start=1):
        _draw_lines(figure.add_subplot(rows, columns, number), plot, colours)
    first, *others = (list(plot.lines) for plot in study.plots)
    if others and all(each == first for each in others):
        handles, labels = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right upper", frameon=False, fontsize="small")
    else:
        for axes, lines in zip(figure.axes, (first, *others), strict=True):
            place = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if len(lines) > 6 else {}
            axes.legend(frameon=False, fontsize="small", **place)
    figure.savefig(path, format="png", dpi=120)


def _shade(name: str, plot: Series) -> str:
    """Return the name of the line whose colour a line has: its own, or its counterpart's."""
    other = name.rpartition(", ")[0]
    return other if name in plot.dashed and other in plot.lines else name


def _draw_lines(axes, plot: Series, colours: dict[str, str]) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator

    for name, (x, y) in plot.lines.items():
        style = "--" if name in plot.dashed else "o-"
        axes.plot(x, y, style, label=name, color=colours[_shade(name, plot)])
        if name in plot.margins:
            colour = colours[_shade(name, plot)]
            axes.errorbar(x, y, plot.margins[name], fmt="none", ecolor=colour, capsize=2)
    axes.set(title=plot.title, xlabel=plot.x_label, xscale="log")
    lines = [x for name, (x, _) in plot.lines.items() if name not in plot.dashed]
    ticks = sorted({each for x in lines for each in x})
    ticks = ticks[:: -(-len(ticks) // 6)]
    axes.set_xticks(ticks, [_short(each) for each in ticks])
    if not plot.flat:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        axes.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 1000 * low else (1, 2, 5)))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%.6g"))
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)


def _short(number: float) -> str:
    """Return 16k for 16384 and 0.031 for 1/32."""
    for unit, size in (("M", 2**20), ("k", 2**10)):
        if number >= size and number % size == 0:
            return f"{number / size:.0f}{unit}"
    return f"{number:.2g}" if number < 100 else f"{number:.0f}"
