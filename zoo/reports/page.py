"""The page of a report: HTML that fetches nothing, runs nothing, and escapes all that it is told.

Everything here takes plain text and gives markup; what is markup already is called so.
"""

import base64
import hashlib
import html
from collections.abc import Sequence
from pathlib import Path

from zoo.reports.figures import Figure, Key, style
from zoo.reports.svg import COLORS, WIDTH, element, mark, plain

GENERATOR = '<meta name="generator" content="zoo report">'
"""What a page of ours has near its beginning; other files are never replaced."""


def paragraph(text: object, kind: str | None = None) -> str:
    """Return a paragraph of plain text, of a class of the style sheet."""
    return element("p", plain(text), class_=kind)


def command(text: str) -> str:
    """Return a line to type."""
    return element("pre", element("code", plain(text)), tabindex="0")


def folded(title: str, markup: str) -> str:
    """Return what is seen once its title is clicked, or chosen by the keyboard."""
    return element("details", element("summary", plain(title)), markup)


def facts(found: Sequence[tuple[str, str]]) -> str:
    """Return names and values as a list of tiles."""
    tiles = (element("div", element("dt", plain(name)), element("dd", plain(value)))
             for name, value in found)  # fmt: skip
    return element("dl", *tiles, class_="facts")


def table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1
) -> str:
    """Return a table in a box of its own, in which it scrolls where the screen is narrow.

    Args:
        caption: what it shows.
        columns: heads.
        rows: cells; the first of each says what the row is of.
        words: how many columns from the left are words, and not numbers.
    """
    heads = (element("th", plain(each), scope="col", class_=None if place < words else "number")
             for place, each in enumerate(columns))  # fmt: skip
    body = (element("tr", *_cells(row, words)) for row in rows)
    found = element("table", element("caption", plain(caption)),
                    element("thead", element("tr", *heads)), element("tbody", *body))  # fmt: skip
    return element("div", found, class_="scroll", tabindex="0", role="region", aria_label=caption)


def _cells(row: Sequence[str], words: int) -> list[str]:
    first, *others = row
    return [element("th", plain(first), scope="row"),
            *(element("td", plain(each), class_=None if place < words else "number")
              for place, each in enumerate(others, start=1))]  # fmt: skip


def figure(found: Figure, name: str) -> str:
    """Return a figure with its legend, its caption, and its numbers in a table behind it.

    Args:
        found: the figure.
        name: of its elements, which no other figure of the page has.
    """
    drawing = element(
        "svg",
        element("title", plain(found.title), id=f"{name}-title"),
        element("desc", plain(found.said), id=f"{name}-said"),
        found.drawing,
        viewBox=f"0 0 {WIDTH} {found.height:.0f}",
        role="img",
        aria_labelledby=f"{name}-title",
        aria_describedby=f"{name}-said",
    )
    title = element("h3", plain(found.title))
    keys = element("ul", *map(_key, found.keys), class_="keys") if found.keys else ""
    caption = element("figcaption", plain(found.note)) if found.note else ""
    numbers = folded("Numbers", table(found.title, found.columns, found.rows))
    return element("figure", title, drawing, keys, caption, numbers, id=name)


def _key(key: Key) -> str:
    color = "any" if key.number is None else f"c{key.number % COLORS}"
    if key.mark is not None:
        shape = element("path", d=mark(key.mark, 13, 6, 4.5), class_=f"mark {color}")
    else:
        shape = element("path", d="M1 6L25 6", **style(key.number or 0))
    swatch = element("svg", shape, viewBox="0 0 26 12", aria_hidden="true", class_="swatch")
    return element("li", swatch, plain(key.text))


def section(name: str, title: str, *markup: str) -> str:
    """Return a section of the page."""
    head = element("h2", plain(title), id=f"{name}-head")
    return element("section", head, *markup, id=name, aria_labelledby=f"{name}-head")


def figures(found: Sequence[Figure], name: str, first: str = "") -> str:
    """Return figures beside each other where there is room; before them markup, such as a table."""
    if not found and not first:
        return ""
    drawn = (figure(each, f"{name}-{place}") for place, each in enumerate(found, start=1))
    return element("div", first, *drawn, class_="figures")


def page(title: str, said: str, sections: Sequence[tuple[str, str, str]]) -> str:
    """Return the whole page.

    Args:
        title: its one heading.
        said: a line below it.
        sections: name, title and content, which is markup, of each; those without content are
            left out.
    """
    style_sheet = (Path(__file__).parent / "page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style_sheet.encode()).digest()).decode()
    rules = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    kept = [each for each in sections if each[2]]
    links = (element("li", element("a", plain(head), href=f"#{name}")) for name, head, _ in kept)
    contents = element("nav", element("ul", *links), aria_label="Contents")
    heading = element("header", element("h1", plain(title)), paragraph(said), contents)
    main = element("main", *(section(*each) for each in kept), id="main", tabindex="-1")
    return "\n".join([
        "<!doctype html>", '<html lang="en">', "<head>", '<meta charset="utf-8">', GENERATOR,
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(rules)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        '<meta name="referrer" content="no-referrer">',
        '<link rel="icon" href="data:,">', element("title", plain(title)),
        f"<style>{style_sheet}</style>", "</head>", "<body>",
        element("a", "Skip to the results", href="#main", class_="skip"), heading, main,
        "</body>", "</html>", "",
    ])  # fmt: skip
