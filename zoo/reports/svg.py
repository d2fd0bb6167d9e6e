"""Drawings in SVG, by hand: their text is text, and their colours are those of the page.

A picture by matplotlib would have its colours, sizes and fonts fixed when it is written; here a
style sheet has them, for a dark and a light screen. Ticks are matplotlib's.
"""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

from zoo.errors import printable

WIDTH = 400
"""Units of a drawing from left to right: one is a pixel on a narrow screen."""

COLORS = 8
"""Colours, dashes and marks that are told apart; `page.css` has the colours."""

DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 2", "6 2 1 2 1 2")

Point = tuple[float, float]


def plain(text: object) -> str:
    """Return a text as markup: what a reader would obey, or not see, is escaped."""
    return html.escape(printable(str(text)))


def element(tag: str, *content: str, **attributes: object) -> str:
    """Return an element: content is markup, values of attributes are escaped; None leaves one out.

    >>> element("a", "x", class_="<b>", stroke_width=2)
    '<a class="&lt;b&gt;" stroke-width="2">x</a>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{plain(_short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{given}>{''.join(content)}</{tag}>"


def text(content: object, x: float, y: float, **attributes: object) -> str:
    """Return a text at a place, escaped."""
    return element("text", plain(content), x=x, y=y, **attributes)


def path(points: Sequence[Point], **attributes: object) -> str:
    """Return a line through points."""
    way = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return element("path", d=f"M{way}", **attributes)


def marks(number: int, points: Sequence[Point], size: float = 4, **attributes: object) -> str:
    """Return the mark of a number at each of some points, as one path."""
    return element("path", d="".join(mark(number, x, y, size) for x, y in points), **attributes)


def mark(number: int, x: float, y: float, r: float) -> str:
    """Return the way around a mark: circle, square, triangle, diamond, ... by number."""
    if number % COLORS == 0:
        return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z"
    corners = _SHAPES[number % COLORS - 1]
    return "M" + "L".join(f"{x + r * a:.1f} {y + r * b:.1f}" for a, b in corners) + "z"


_ARM = 0.35
_SHAPES = (
    ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    ((0, -1.15), (1.1, 0.85), (-1.1, 0.85)),
    ((0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)),
    ((0, 1.15), (1.1, -0.85), (-1.1, -0.85)),
    ((-_ARM, -1.2), (_ARM, -1.2), (_ARM, -_ARM), (1.2, -_ARM), (1.2, _ARM), (_ARM, _ARM),
     (_ARM, 1.2), (-_ARM, 1.2), (-_ARM, _ARM), (-1.2, _ARM), (-1.2, -_ARM), (-_ARM, -_ARM)),
    ((0, -1.2), (1.15, -0.35), (0.7, 1), (-0.7, 1), (-1.15, -0.35)),
    ((-1, -1), (1, 1), (1, -1), (-1, 1)),
)  # fmt: skip


class Scale(NamedTuple):
    """A number to its place along an axis.

    Attributes:
        low: the number at `start`.
        high: the number at `end`.
        start: place of the lower end.
        end: place of the upper end.
        log: whether powers, and not numbers, lie evenly.
    """

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a number."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = (math.log10(each) for each in (low, high, max(value, 1e-300)))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Return round numbers inside, evenly spread."""
        from matplotlib.ticker import LogLocator, MaxNLocator

        if self.log:
            found = LogLocator(subs=(1, 2, 5), numticks=99).tick_values(self.low, self.high)
            found = [each for each in found if self.low <= each <= self.high]
            tens = [each for each in found if math.isclose(math.log10(each) % 1, 0, abs_tol=1e-9)]
            return [float(each) for each in (found if len(found) <= most else tens)]
        found = MaxNLocator(most, steps=[1, 2, 2.5, 5, 10]).tick_values(self.low, self.high)
        slack = 1e-9 * (self.high - self.low)
        return [float(each) for each in found if self.low - slack <= each <= self.high + slack]


def spanning(values: Sequence[float], start: float, end: float, log: bool = False) -> Scale:
    """Return a scale on which all values lie, with a little room about them."""
    low, high = min(values), max(values)
    if log:
        return Scale(low / 1.1, high * 1.1, start, end, log=True)
    room = 0.04 * (high - low) or 0.1 * abs(high) or 0.1
    return Scale(low - room, high + room, start, end)


class Frame(NamedTuple):
    """The plotting area of a drawing: its two axes.

    Attributes:
        x: from left to right.
        y: from top to bottom.
        height: of the drawing.
    """

    x: Scale
    y: Scale
    height: float

    def drawn(self, x_label: str, y_label: str, names: Sequence[str] | None = None) -> str:
        """Return grid, ticks and labels; of named bins the names instead of numbers."""
        left, right, low = self.x.start, self.x.end, self.y.start
        parts = []
        for each, shown in zip(own := self.y.ticks(6), labels(own), strict=True):
            y = self.y(each)
            parts.append(path([(left, y), (right, y)], class_="grid"))
            parts.append(text(shown, left - 6, y + 4, text_anchor="end"))
        own = list(range(len(names))) if names is not None else self.x.ticks(6)
        for each, shown in zip(own, names if names is not None else labels(own), strict=True):
            parts.append(text(shown, self.x(each), low + 17, text_anchor="middle"))
        parts.append(path([(left, low), (right, low)], class_="axis"))
        parts.append(text(x_label, (left + right) / 2, self.height - 6, text_anchor="middle",
                          class_="label"))  # fmt: skip
        parts.append(text(y_label, left, 14, class_="label", text_anchor="start"))
        return "".join(parts)


def frame(
    x: Sequence[float],
    y: Sequence[float],
    height: float = 270,
    *,
    log: bool = False,
    exact: bool = False,
    room: float = 0,
) -> Frame:
    """Return the frame of a drawing on which all values lie.

    Args:
        x: values, whose ends are those of the axis.
        y: values.
        height: of the drawing.
        log: whether the y axis is logarithmic.
        exact: whether the ends of y too are those of its axis.
        room: what is left free below the ticks.
    """
    low, top = height - 42 - room, 26
    across = Scale(min(x), max(x) if max(x) > min(x) else min(x) + 1, 46, WIDTH - 14)
    if exact and min(y) < max(y):
        return Frame(across, Scale(min(y), max(y), low, top), height)
    return Frame(across, spanning(y, low, top, log), height)


def labels(values: Sequence[float]) -> list[str]:
    """Return numbers as short texts with as many digits as tell them apart.

    >>> labels([0.0, 0.25, 0.5]), labels([0, 50_000])
    (['0', '0.25', '0.5'], ['0', '50k'])
    """
    return [_label(each) for each in values]


def _label(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1e6:g}M" if abs(value) >= 1e6 else f"{value / 1000:g}k"
    return "0" if abs(value) < 1e-12 else f"{value:.6g}".replace("-", "−")


def _short(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
