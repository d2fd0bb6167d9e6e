"""Runs that pages are made of, and pages read as a browser reads them."""

import csv
from html.parser import HTMLParser

import numpy as np

import zoo

CLASSES = ("<script>alert(1)</script>", 'b" onload="x', "c & d")
"""Names that are no markup, whatever they look like."""


def write_graph(folder, nodes=90, label=lambda node: CLASSES[node % 3], more=()):
    """A graph of three classes, most edges inside of them; returns the names of its folder."""
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    with (folder / "nodes.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "x", "y", "label", *more])
        for node in range(nodes):
            x, y = np.cos(node % 3 * 2.1), np.sin(node % 3 * 2.1)
            told = [each(node) for each in dict(more).values()]
            noise = random.normal(0, 0.7, 2)
            table.writerow([node, x + noise[0], y + noise[1], label(node), *told])
    with (folder / "edges.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["source", "target"])
        for node in range(nodes):
            for step in random.choice([3, 6, 9, 12, 1], 2, p=[0.3, 0.3, 0.1, 0.1, 0.2]):
                table.writerow([node, (node + step) % nodes])
    return folder


def recipe(data, model="gcn", **changes):
    train = {"epochs": 12, "lr": 0.05, **changes.pop("train", {})}
    own = {"dataset": data, "model": {"name": model, "dim": 8}, "seeds": [0, 1]}
    return {**own, **changes, "train": train}


def trained(runs, data, model="gcn", **changes):
    """The folder of a run."""
    return zoo.run_recipe(recipe(data, model, **changes), runs=runs)["folder"]


class Page(HTMLParser):
    """What a page says.

    Attributes:
        tags: every tag with its attributes.
        tables: caption to rows of cells, the heads first.
        texts: all text outside of the style sheet.
    """

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags, self.tables, self.texts = [], {}, []
        self._open, self._caption, self._rows = [], "", []
        self.feed(self.source)

    def handle_starttag(self, tag, attributes):
        """Begin a table, a row, a cell."""
        self.tags.append((tag, dict(attributes)))
        self._open.append(tag)
        if tag == "table":
            self._caption, self._rows = "", []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag):
        """End a table."""
        if tag == "table":
            self.tables[self._caption] = self._rows
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        """Read text."""
        within = self._open[-1] if self._open else ""
        if within in ("td", "th", "b"):
            self._rows[-1][-1] += data
        elif within == "caption":
            self._caption += data
        if within != "style":
            self.texts.append(data)

    @property
    def text(self):
        """All of it in one line."""
        return " ".join(" ".join(self.texts).split())

    def table(self, beginning):
        """The rows of the one table whose caption begins so, without its heads."""
        [found] = [rows for caption, rows in self.tables.items() if caption.startswith(beginning)]
        return found[1:]
