"""A page of a report: HTML that fetches nothing, runs nothing, and escapes all text."""

import numbers
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from zoo.errors import printable

GENERATOR = '<meta name="generator" content="zoo report">'
"""What a page of ours has near its beginning; other files are never replaced."""


COLORS = {
    "ground": ("#ffffff", "#14171b"),
    "card": ("#f6f7f9", "#1d2127"),
    "ink": ("#1b1f24", "#e8ebef"),
    "soft": ("#545d68", "#aab3bd"),
    "line": ("#d5dae1", "#3a424c"),
    "accent": ("#0b5cad", "#6cb2f2"),
    "over": ("#fffffe", "#0d1117"),
    "other": ("#9aa3ad", "#6d7782"),
    "s0": ("#0b66b5", "#6cb2f2"),
    "s1": ("#c24a00", "#ff9a52"),
    "s2": ("#00795a", "#43c79d"),
    "s3": ("#a33f86", "#e793cb"),
    "s4": ("#7a6000", "#dcc04a"),
    "s5": ("#5b4bc4", "#aba0ff"),
    "s6": ("#b3263a", "#ff8590"),
    "s7": ("#41505e", "#c3ccd6"),
}
"""By day and by night; no two are the same by day, which tells those of a drawing apart."""

Part = tuple[str, Any]
"""A part of a page: the name of its macro in `parts.html`, and what that takes."""


class Table(NamedTuple):
    """A table.

    Attributes:
        caption: what it shows.
        columns: heads.
        rows: cells; the first of each says what the row is of.
        words: how many columns from the left are words, and not numbers.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    words: int = 1


def number(value: Any) -> Any:
    """Return what a page shows of a number, or of None; anything else as it is."""
    if value is None or value != value:  # NaN
        return "–"
    if isinstance(value, numbers.Real) and not isinstance(value, numbers.Integral):
        return f"{value:.4g}".replace("-", "−")
    return f"{value:,}" if isinstance(value, numbers.Integral) else value


def build_page(title: str, subtitle: str, sections: Mapping[str, Sequence[Part]]) -> str:
    """Return a page, as HTML; all that is shown is escaped.

    Args:
        title: its one heading.
        subtitle: a line below it.
        sections: title and parts of each; what is empty is left out.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        finalize=lambda value: printable(value) if type(value) is str else number(value),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    filled = {head: [part for part in parts if part[1]] for head, parts in sections.items()}
    return templates.get_template("page.html").render(
        title=title,
        subtitle=subtitle,
        sections={head: parts for head, parts in filled.items() if parts},
        colors=COLORS,
        generator=GENERATOR,
    )
