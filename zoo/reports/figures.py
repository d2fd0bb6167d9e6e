"""The figures of a page: each a drawing, what it says in words, and the numbers in a table."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from zoo.reports.measures import Bin, Reliability
from zoo.reports.svg import COLORS, DASHES, Frame, Point, element, frame, marks, path, text

FEW = 10
"""Answers below which a bin of a reliability diagram is drawn hollow."""

POINTS = 300
"""Points of a curve at most."""


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


def binned(series: Mapping[str, Sequence[Bin]], title: str, label: str, measure: str,
           note: str) -> Figure:  # fmt: skip
    """Return the figure of scores in bins, a mark with its interval for each bin of each series."""
    names = [each.name for each in next(iter(series.values()))]
    known = [value for bins in series.values() for each in bins
             for value in (each.score, each.low, each.high) if value is not None]  # fmt: skip
    room = 16 if len(series) == 1 else 0
    on = frame([-0.5, len(names) - 0.5], _ends(known, measure), exact=True, room=room)
    parts = [on.drawn(label, measure, names)]
    for index, bins in enumerate(series.values()):
        shift = 0 if len(series) == 1 else (index / (len(series) - 1) - 0.5) * 0.5
        told = [(place + shift, each) for place, each in enumerate(bins) if each.score is not None]
        for place, each in told:
            if each.low is not None and each.high is not None:
                way = [(on.x(place), on.y(min(max(end, on.y.low), on.y.high)))
                       for end in (each.low, each.high)]  # fmt: skip
                parts.append(path(way, class_=f"whisker c{index % COLORS}"))
        points = [(on.x(place), on.y(each.score)) for place, each in told]
        parts.append(marks(index, points, 5, class_=f"mark c{index % COLORS}"))
        if len(series) == 1:
            parts += [text(f"{each.count:,}", on.x(place), on.y.start + 33, text_anchor="middle",
                           class_="count") for place, each in enumerate(bins)]  # fmt: skip
    said = " ".join(
        f"{name}: " + ", ".join(f"{each.name}: {number(each.score)}" for each in bins) + "."
        for name, bins in [*series.items()][:6]
    )
    rows = [
        [each.name, *([name] if len(series) > 1 else []), f"{each.count:,}", number(each.score),
         number(each.low), number(each.high)]
        for name, bins in series.items() for each in bins
    ]  # fmt: skip
    columns = [label, *(["run"] if len(series) > 1 else []), "count", measure, "from", "to"]
    keys = [Key(name, index, index) for index, name in enumerate(series)] if len(series) > 1 else []
    return Figure(title, "".join(parts), on.height, said, note, keys, columns, rows)


def _ends(known: Sequence[float], measure: str) -> list[float]:
    """Return both ends of an axis: scores up to 1 keep that end where they come near it."""
    low, high = min(known, default=0.0), max(known, default=1.0)
    room = 0.08 * (high - low) or 0.05
    bounded = measure in ("accuracy", "roc-auc")
    low = max(0.0, low - room) if bounded or low >= 0 else low - room
    return [low, min(1.0, high + room) if bounded else high + room]


def reliability_diagram(series: Mapping[str, Reliability]) -> Figure:
    """Return the reliability diagram: how often answers of each probability are right."""
    alone = len(series) == 1
    on = frame([0, 1], [0, 1], height=330, exact=True, room=56 if alone else 0)
    parts = [on.drawn("probability of the answer", "share that is right")]
    parts.append(path([(on.x(0), on.y(0)), (on.x(1), on.y(1))], class_="ideal"))
    for index, found in enumerate(series.values()):
        points = [(on.x(float(a)), on.y(float(b)))
                  for a, b in zip(found.confidence, found.right, strict=True)]  # fmt: skip
        known = [point for point, count in zip(points, found.count, strict=True) if count]
        parts.append(path(known, **style(index)))
        for few in (True, False):
            own = [point for point, count in zip(points, found.count, strict=True)
                   if count and (count < FEW) == few]  # fmt: skip
            kind = f"mark c{index % COLORS}{' hollow' if few else ''}"
            parts.append(marks(index, own, 4.5, class_=kind) if own else "")
    first = next(iter(series.values()))
    if alone:
        parts.append(histogram(first.count, on, on.height - 30, 30))
    said = " ".join(f"{'' if alone else f'{name}: '}Expected calibration error "
                    f"{_mean(found.errors)}." for name, found in series.items())  # fmt: skip
    rows = [
        [f"{low / 10:.1f} to {(low + 1) / 10:.1f}", *([name] if len(series) > 1 else []),
         f"{found.count[low]:,}", number(found.confidence[low]), number(found.right[low])]
        for name, found in series.items() for low in range(len(found.count))
    ]  # fmt: skip
    columns = ["bin", *(["run"] if len(series) > 1 else []), "count", "probability", "right"]
    keys = [Key(f"{name}: {_mean(found.errors)}" if len(series) > 1 else name, index, index)
            for index, (name, found) in enumerate(series.items())]  # fmt: skip
    note = (
        "On the dashed line probabilities are what they say; below it they promise too much. "
        f"{said if alone else 'Beside the names: expected calibration error.'} Hollow: fewer than "
        f"{FEW} answers.{' The bars count answers.' if alone else ''}"
    )
    return Figure("Reliability", "".join(parts), on.height, said, note,
                  keys if len(series) > 1 else [], columns, rows)  # fmt: skip


def _mean(errors: Sequence[float]) -> str:
    spread = f" ± {np.std(errors, ddof=1):.3f}" if len(errors) > 1 else ""
    return f"{np.mean(errors):.3f}{spread}"


def histogram(counts: np.ndarray, on: Frame, low: float, height: float) -> str:
    """Return bars over the whole of the x axis of a frame, which stand at a place."""
    width = (on.x.end - on.x.start) / len(counts)
    return "".join(
        element("rect", x=on.x.start + place * width + 1, width=width - 2,
                y=low - height * count / max(counts), height=height * count / max(counts),
                class_="bar")
        for place, count in enumerate(counts)
    )  # fmt: skip
