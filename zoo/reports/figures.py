"""What a figure of a page is: a drawing, what it says in words, and the numbers in a table.

And the figures of training: loss and validation score by epoch, of seeds and of runs.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zoo.reports.history import END, ENDED, INTERRUPTED, PATIENCE, TRAINING, Curve
from zoo.reports.svg import COLORS, DASHES, Frame, Point, frame, marks, path

POINTS = 300
"""Points of a curve at most."""

ROWS = 40
"""Rows of the table of a curve at most."""


class Key(NamedTuple):
    """An entry of a legend: its text, number of colour and dash, and of a mark, None for a line."""

    text: str
    number: int | None
    mark: int | None = None


class Figure(NamedTuple):
    """A figure.

    Attributes:
        title: what it shows, in a few words.
        drawing: what stands inside its SVG, which is `zoo.reports.svg.WIDTH` wide.
        height: of the drawing.
        said: what can be seen in it, in a sentence or two of plain text.
        note: how to read it; plain text.
        keys: its legend.
        columns: heads of the table of its numbers.
        rows: their cells, plain text; the first of a row says what it is of.
    """

    title: str
    drawing: str
    height: float
    said: str
    note: str
    keys: Sequence[Key]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


def number(value: float | None) -> str:
    """Return a number as a cell shows it."""
    return "–" if value is None or math.isnan(value) else f"{value:.4g}".replace("-", "−")


def style(index: int) -> dict[str, str | None]:
    """Return the attributes of the line of a series."""
    # The dash shifts where colours come again.
    dash = DASHES[(index + index // COLORS) % COLORS]
    return {"class_": f"line c{index % COLORS}", "stroke_dasharray": dash or None}


def thinned(points: Sequence[Point], most: int = POINTS) -> list[Point]:
    """Return some of many points, evenly spread, both ends among them."""
    if len(points) <= most:
        return list(points)
    return [points[each] for each in np.linspace(0, len(points) - 1, most).round().astype(int)]


def seed_curves(curves: Sequence[Curve], metric: str) -> list[Figure]:
    """Return the figures of loss and validation score, a line for each seed."""
    losses = {f"seed {each.seed}": each.losses for each in curves}
    scores = {f"seed {each.seed}": each.scores for each in curves if each.scores}
    values = [value for line in losses.values() for _, value in line]
    log = min(values) > 0 and max(values) > 50 * min(values)
    scale = " (logarithmic)" if log else ""
    found = [_lines(losses, "Training loss", f"loss{scale}", "Mean of an epoch.", log=log)]
    if scores:
        told = [each for each in curves if each.scores]
        found.append(_scores(told, scores, metric))
    return found


def _scores(curves: Sequence[Curve], scores: Mapping[str, list[Point]], metric: str) -> Figure:
    found = _lines(scores, "Validation score", metric, "")
    on = _frame_of(scores)
    parts, said = [found.drawing], []
    for index, each in enumerate(curves):
        end = each.scores[-1]
        parts.append(marks(_STOPS[each.stop], [(on.x(each.last), on.y(end[1]))], 4.5,
                           class_=f"stop c{index % COLORS}"))  # fmt: skip
        if each.best is not None and each.best[0] > 0:
            parts.append(marks(0, [(on.x(each.best[0]), on.y(each.best[1]))], 5,
                               class_=f"best c{index % COLORS}"))  # fmt: skip
        best = (
            "none yet" if each.best is None else f"{number(each.best[1])} at epoch {each.best[0]}"
        )
        said.append(
            f"Seed {each.seed}: best {best}, stopped after epoch {each.last} ({each.stop})."
        )
    used = {each.stop for each in curves}
    keys = [Key("best epoch", None, 0), *(Key(f"stop: {each}", None, _STOPS[each])
            for each in _STOPS if each in used)]  # fmt: skip
    return found._replace(
        drawing="".join(parts),
        said=" ".join(said[:12]),
        note="The weights of the best epoch are kept, and no later ones; test is measured there.",
        keys=[*found.keys, *keys],
    )


_STOPS = {PATIENCE: 1, END: 3, INTERRUPTED: 7, ENDED: 7, TRAINING: 2}
"""Why a seed stopped to the number of its mark."""


def _frame_of(lines: Mapping[str, Sequence[Point]], log: bool = False) -> Frame:
    points = [point for line in lines.values() for point in line]
    xs, ys = zip(*points, strict=True)
    return frame([0, *xs], ys, log=log)


def _lines(
    lines: Mapping[str, Sequence[Point]], title: str, label: str, note: str, log: bool = False
) -> Figure:
    on = _frame_of(lines, log)
    parts = [on.drawn("epoch", label)]
    for index, line in enumerate(lines.values()):
        parts.append(path([(on.x(x), on.y(y)) for x, y in thinned(line)], **style(index)))
    said = ". ".join(
        f"{name.capitalize()}: from {number(line[0][1])} to {number(line[-1][1])} in epoch "
        f"{line[-1][0]:.0f}"
        for name, line in [*lines.items()][:12]
    )
    keys = [Key(name, index) for index, name in enumerate(lines)]
    return Figure(title, "".join(parts), on.height, f"{said}.", note, keys,
                  ["epoch", *lines], _table(lines))  # fmt: skip


def _table(lines: Mapping[str, Sequence[Point]]) -> list[list[str]]:
    """Return rows of epochs, few of them, and of each line its value there."""
    known = [dict(line) for line in lines.values()]
    epochs = sorted({epoch for each in known for epoch in each})
    kept = [epoch for epoch, _ in thinned([(each, 0.0) for each in epochs], ROWS)]
    return [[f"{epoch:.0f}", *(number(each.get(epoch)) for each in known)] for epoch in kept]


def run_curves(runs: Mapping[str, Sequence[Curve]], metric: str) -> list[Figure]:
    """Return the figures of loss and validation score: the mean over the seeds of each run."""
    figures = []
    for title, label, read in (
        ("Training loss of the runs", "loss", lambda each: each.losses),
        ("Validation score of the runs", metric, lambda each: each.scores),
    ):
        bands = {name: _band([read(each) for each in curves]) for name, curves in runs.items()}
        bands = {name: band for name, band in bands.items() if band}
        if bands:
            figures.append(_banded(bands, title, label, list(runs)))
    return figures


def _band(lines: Sequence[Sequence[Point]]) -> list[tuple[float, float, float, float]]:
    """Return epoch, mean, least and most over the lines, as far as all of them go."""
    known = [dict(line) for line in lines if line]
    if not known:
        return []
    shared = sorted(set.intersection(*(set(each) for each in known)))
    rows = [(epoch, [each[epoch] for each in known]) for epoch in shared]
    return [(epoch, float(np.mean(own)), min(own), max(own)) for epoch, own in rows]


def _banded(bands, title: str, label: str, names: list[str]) -> Figure:
    ends = [row[each] for band in bands.values() for row in band for each in (2, 3)]
    log = label == "loss" and min(ends) > 0 and max(ends) > 50 * min(ends)
    on = frame([0, *(row[0] for band in bands.values() for row in band)],
               ends, log=log)  # fmt: skip
    parts = [on.drawn("epoch", f"{label} (logarithmic)" if log else label)]
    lines = {}
    for name, band in bands.items():
        index, rows = names.index(name), thinned(band)
        edge = [(on.x(row[0]), on.y(row[3])) for row in rows]
        edge += [(on.x(row[0]), on.y(row[2])) for row in reversed(rows)]
        parts.append(path(edge, class_=f"band c{index % COLORS}"))
        parts.append(path([(on.x(row[0]), on.y(row[1])) for row in rows], **style(index)))
        lines[name] = [(row[0], row[1]) for row in band]
    said = ". ".join(f"{name}: from {number(line[0][1])} to {number(line[-1][1])}"
                     for name, line in [*lines.items()][:12])  # fmt: skip
    note = "Mean over the seeds, as far as all of them were trained; band: least and most of them."
    keys = [Key(name, names.index(name)) for name in bands]
    return Figure(title, "".join(parts), on.height, f"{said}.", note, keys,
                  ["epoch", *lines], _table(lines))  # fmt: skip
