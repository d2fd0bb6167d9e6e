"""A study: measurements beside their predictions, its command line, tables as CSV, plots as PNG.

Each other script of this folder that ends in `run(...)` is one:

    python benchmarks/studies/rba_theory.py [--quick] [--out FOLDER]
"""

import argparse
import inspect
import itertools
import math
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pydantic import ValidationError, validate_call

from zoo import ZooError


def run(study: Callable[..., "Study"]) -> None:
    """Measure, print and write what the command line asks for; exit code 1 where rows disagree.

    Every keyword of the function is an option: `seed: int = 0` is `--seed 1`, a list `--sizes 64
    256`. The annotations are the check.
    """
    parser = argparse.ArgumentParser(
        description=inspect.getdoc(study), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, option in inspect.signature(study).parameters.items():
        usual = option.default
        if usual is False:
            how: dict[str, Any] = {"action": "store_true"}
        elif isinstance(usual, list):
            how = {"nargs": "+", "type": type(usual[0]), "default": usual}
        else:
            how = {"type": type(usual), "default": usual}
        parser.add_argument(f"--{name}", **how)
    parser.add_argument("--out", type=Path, default=Path("studies"), metavar="FOLDER")
    given = vars(parser.parse_args())
    folder = given.pop("out")
    folder.mkdir(parents=True, exist_ok=True)  # before the hours that are to be written there
    try:
        found = validate_call(study)(**given)
    except (ValidationError, ZooError) as error:
        parser.error(str(error))
    print(found)
    print("written:", ", ".join(map(str, write_study(found, folder))))
    sys.exit(0 if all(row.agrees for row in found.rows) else 1)


class Row(NamedTuple):
    """A measured quantity and its prediction.

    `tolerance` is how far their ratio may be from 1; None where the prediction is an upper bound,
    infinite where what was measured is told and not judged.
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

    References are `dashed`; `gcn, from scratch` then has the colour of `gcn`. Of `points` none is
    joined to the next. x is logarithmic unless `even`, and so is y unless `flat`. Margins are half
    the lengths of error bars, by name of the line. The note, below the plot, says what they are,
    and why lines end.
    """

    title: str
    x_label: str
    lines: dict[str, tuple[list[float], list[float]]]
    dashed: tuple[str, ...] = ()
    flat: bool = False
    margins: dict[str, list[float]] = {}
    note: str = ""
    points: tuple[str, ...] = ()
    even: bool = False


OVER_SEEDS = "bars: standard deviation over seeds"
"""The note of a plot whose margins are that."""


class Study(NamedTuple):
    """Measurements with predictions, plots, and a table of measurements without predictions."""

    name: str
    rows: list[Row]
    plots: list[Series] = []
    table: list[dict[str, Any]] = []

    def __str__(self) -> str:
        """Return the table, and the rows: measured, predicted, their ratio, do they agree."""
        rows = [
            {
                "": row.name,
                "measured": f"{row.measured:.4g}",
                "predicted": f"{row.predicted:.4g}",
                "ratio": f"{row.ratio:.3f}",
                "within": _within(row.tolerance),
                "agrees": "" if row.tolerance == math.inf else "yes" if row.agrees else "NO",
            }
            for row in self.rows
        ]
        shown = [pd.DataFrame(each, dtype=object).fillna("") for each in (self.table, rows) if each]
        return "\n\n".join(each.to_string(index=False) for each in shown)


def _within(tolerance: float | None) -> str:
    if tolerance == math.inf:
        return "not judged"
    return "at most" if tolerance is None else f"±{tolerance:.2f}"


def write_study(study: Study, folder: Path) -> list[Path]:
    """Write a study into a folder, which is created; return the paths.

    `NAME.csv` has the rows, `NAME-table.csv` the table, `NAME-lines.csv` every point of the plots,
    `NAME.png` the plots; empty ones are not written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    points = [
        {"plot": " ".join(plot.title.split()), "x is": plot.x_label, "line": name,
         "x": point[0], "y": point[1], "margin": point[2]}
        for plot in study.plots
        for name, (x, y) in plot.lines.items()
        for point in zip(x, y, plot.margins.get(name, [None] * len(x)), strict=True)
    ]  # fmt: skip
    if not any(plot.margins for plot in study.plots):
        points = [{key: each for key, each in point.items() if key != "margin"} for point in points]
    rows = [{**row._asdict(), "ratio": row.ratio, "agrees": row.agrees} for row in study.rows]
    written = []
    for name, lines in {"": rows, "-table": study.table, "-lines": points}.items():
        if lines:
            written.append(folder / f"{study.name}{name}.csv")
            pd.DataFrame(lines, dtype=object).to_csv(written[-1], index=False)
    if study.plots:
        from matplotlib import style

        written.append(folder / f"{study.name}.png")
        with style.context("default"):  # whatever a matplotlibrc in the current folder says
            _draw(study, written[-1])
    return written


COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Told apart without colour sight: those of Okabe and Ito, without their yellow."""

MARKERS = "os^Dv*Ph"
DASHES = ("--", ":", "-.")

TOUCHING = 0.5
"""A linear y axis begins at 0 where the lowest value is less than this share of the highest."""


def _draw(study: Study, path: Path) -> None:
    from matplotlib.figure import Figure

    columns = min(3, len(study.plots))
    rows = -(-len(study.plots) // columns)
    figure = Figure(figsize=(5 * columns, 4 * rows), layout="constrained")
    everything = [(name, plot) for plot in study.plots for name in plot.lines]
    names = dict.fromkeys(_counterpart(*each) or each[0] for each in everything)
    looks = {  # the same in every plot
        name: (COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)])
        for number, name in enumerate(names)
    }
    for number, plot in enumerate(study.plots, start=1):
        _draw_plot(figure.add_subplot(rows, columns, number), plot, looks)
    lines = [list(plot.lines) for plot in study.plots]
    for first in range(0, len(lines), columns):
        _add_legends(figure.axes[first : first + columns], lines[first : first + columns])
    figure.savefig(path, format="png", dpi=120)


def _add_legends(row: list[Any], lines: list[list[str]]) -> None:
    """Tell what the lines of a row of plots are: once, where it is the same in all of them."""
    same = len(row) > 1 and all(each == lines[0] for each in lines)
    for axes, names in zip(row[-1:] if same else row, lines[-1:] if same else lines, strict=True):
        beside = same or len(names) > 6
        place = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if beside else {}
        axes.legend(frameon=False, fontsize="small", **place)


def _counterpart(name: str, plot: Series) -> str | None:
    """Return the line that a dashed one belongs to, whose colour and marker it has."""
    other = name.rpartition(", ")[0]
    return other if name in plot.dashed and other in plot.lines else None


def _draw_plot(axes, plot: Series, looks: dict[str, tuple[str, str]]) -> None:
    references = [
        each for each in plot.lines if each in plot.dashed and not _counterpart(each, plot)
    ]
    shifts = _shifts(plot)
    for name, (x, y) in plot.lines.items():
        other = _counterpart(name, plot)
        colour, marker = looks[other or name]
        style = {"color": colour, "label": name, "marker": marker, "markersize": 5}
        if name in references:
            dashes = DASHES[references.index(name) % len(DASHES)]
            style |= {"linestyle": dashes, "marker": ""}
        elif other:
            style |= {"linestyle": "--", "markerfacecolor": "white"}
        elif name in plot.points:
            style |= {"linestyle": "", "markerfacecolor": "white"}
        shifted = [each * shifts.get(name, 1.0) for each in x]
        axes.errorbar(shifted, y, plot.margins.get(name), capsize=2, elinewidth=1, **style)
    axes.set(title=plot.title, xlabel=plot.x_label, xscale="linear" if plot.even else "log")
    if not plot.even:
        _set_ticks(axes, plot)
    begins = _begin(axes, plot) if plot.flat else _set_decades(axes)
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    if notes := [each for each in (plot.note, begins) if each]:
        text = "\n".join(textwrap.fill(each, 62) for each in notes)
        below = {"xycoords": axes.xaxis.label, "textcoords": "offset points", "xytext": (0, -4)}
        axes.annotate(text, (0.5, 0), ha="center", va="top", fontsize="small", **below)


def _shifts(plot: Series) -> dict[str, float]:
    """Return factors of x by line, which set error bars apart that would cover each other."""
    names = [each for each in plot.lines if each in plot.margins]
    x = sorted({each for name in names for each in plot.lines[name][0]})
    if len(names) < 2 or len(x) < 2:
        return {}
    gap = min(math.log(after / before) for before, after in itertools.pairwise(x))
    step = min(0.015 * math.log(x[-1] / x[0]), gap / (2 * len(names)))
    middle = (len(names) - 1) / 2
    return {name: math.exp(step * (number - middle)) for number, name in enumerate(names)}


def _set_ticks(axes, plot: Series) -> None:
    lines = [x for name, (x, _) in plot.lines.items() if name not in plot.dashed]
    ticks = sorted({each for x in lines for each in x})
    ticks = ticks[:: -(-len(ticks) // 6)]
    axes.set_xticks(ticks, _fractions(ticks) or [_short(each) for each in ticks])


def _begin(axes, plot: Series) -> str:
    """Let a linear y axis begin at 0 where that hides nothing; else return what to say of it."""
    low, high = axes.get_ylim()
    values = [
        value + sign * margin
        for name, (_, y) in plot.lines.items()
        for value, margin in zip(y, plot.margins.get(name, [0.0] * len(y)), strict=True)
        for sign in (-1, 1)
        if math.isfinite(value)
    ]
    if not values or min(values) < 0:
        return ""
    if min(values) < TOUCHING * max(values):
        axes.set_ylim(0, high)
        return ""
    return f"the y axis begins at {low:.2g}, not at 0"


def _set_decades(axes) -> str:
    from matplotlib.ticker import FormatStrFormatter, LogLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1,) if high > 1000 * low else (1, 2, 5)))
    axes.yaxis.set_major_formatter(FormatStrFormatter("%.6g"))
    return ""


def _fractions(numbers: list[float]) -> list[str]:
    """Return 1/16 for 0.0625 where all are 1 by a whole number and two digits do not say them."""
    plain = all(float(f"{each:.2g}") == each for each in numbers)
    whole = all(0 < each <= 1 and math.isclose(1 / each, round(1 / each)) for each in numbers)
    if plain or not whole:
        return []
    return ["1" if each == 1 else f"1/{1 / each:.0f}" for each in numbers]


def _short(number: float) -> str:
    """Return 16k for 16384 and 0.031 for 0.03125."""
    for unit, size in (("M", 2**20), ("k", 2**10)):
        if number >= size and number % size == 0:
            return f"{number / size:.0f}{unit}"
    return f"{number:.2g}" if number < 100 else f"{number:.0f}"
