"""What a study returns, and how it is written down: a table as CSV and plots as PNG."""

import csv
import io
from pathlib import Path
from typing import NamedTuple

from zoo.storage import write_whole


class Row(NamedTuple):
    """A quantity as measured and as predicted; `tolerance` is how far the ratio may be from 1."""

    name: str
    measured: float
    predicted: float
    tolerance: float

    @property
    def ratio(self) -> float:
        """Measured by predicted."""
        return self.measured / self.predicted

    @property
    def agrees(self) -> bool:
        """Whether the ratio is as near to 1 as it should be."""
        return abs(self.ratio - 1) <= self.tolerance


class Series(NamedTuple):
    """A log-log plot: lines by name, each with its x and y; predictions are `dashed`."""

    title: str
    x_label: str
    lines: dict[str, tuple[list[float], list[float]]]
    dashed: tuple[str, ...] = ()


class Study(NamedTuple):
    """The rows of a study's table and its plots."""

    name: str
    rows: list[Row]
    plots: list[Series] = []


def write_study(study: Study, folder: Path) -> list[Path]:
    """Write `NAME.csv` and `NAME.png` into a folder, which is made; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    table, picture = folder / f"{study.name}.csv", folder / f"{study.name}.png"
    write_whole(table, lambda path: path.write_text(_as_csv(study)))
    write_whole(picture, lambda path: _draw(study, path))
    return [table, picture]


def _as_csv(study: Study) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["name", "measured", "predicted", "ratio", "tolerance", "agrees"])
    writer.writerows(
        [row.name, row.measured, row.predicted, row.ratio, row.tolerance, row.agrees]
        for row in study.rows
    )
    return text.getvalue()


def _draw(study: Study, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(study.plots), 4), layout="constrained")
    every = figure.subplots(1, len(study.plots), squeeze=False)[0]
    for axes, plot in zip(every, study.plots, strict=True):
        _draw_lines(axes, plot)
    figure.savefig(path, format="png", dpi=120)


def _draw_lines(axes, plot: Series) -> None:
    from matplotlib.ticker import FormatStrFormatter, LogLocator

    for name, (x, y) in plot.lines.items():
        axes.loglog(x, y, "k--" if name in plot.dashed else "o-", label=name)
    axes.set(title=plot.title, xlabel=plot.x_label)
    ticks = sorted({each for x, _ in plot.lines.values() for each in x})
    axes.set_xticks(ticks, [f"{each:.2g}" for each in ticks], minor=False)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FormatStrFormatter("%.3g"))
    axes.minorticks_off()
    axes.legend(frameon=False)
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
