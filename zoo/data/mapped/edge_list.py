"""Stream an edge list in text (CSV, TSV, blanks, gzip) of any length: two node ids per line."""

import gzip
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, NamedTuple

import numpy as np

from zoo.config.options import Count
from zoo.data.mapped.array_file import map_array
from zoo.data.mapped.external_sort import BLOCK, check_edges_within
from zoo.data.mapped.writer import Stream, in_blocks
from zoo.data.tables.read import is_index
from zoo.errors import ZooError
from zoo.system.files import user_path
from zoo.tasks.labels import unlabelled

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+"}
"""What a list of edges ends in, before `.gz`, to what stands between two numbers."""

_LONGEST = 1_000_000  # characters of a line
_SPARSE = 10  # nodes for each line of edges above which their numbers are thought to have gaps


def ending(path: Path) -> str:
    """Return what a path ends in, `.gz` left out."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def edge_list(
    path: Path,
    task: str | None,
    *,
    nodes: Count | None = None,
    node_labels: str | None = None,
    node_features: str | None = None,
    weights: Literal["ignore"] | None = None,
    separator: str | None = None,
) -> Stream:
    """Read a list of edges: two columns of node numbers from 0, with or without a header.

    Where a header names source and target, these are the columns, else the first two; a column
    without a name, such as pandas writes of an index, is left out.

    Args:
        path: a `.csv`, `.tsv` or `.txt`, or any of them as `.gz`; what follows a # is no edge.
        task: what the labels are for.
        nodes: how many nodes there are; left out, as many as labels, features or the edges say.
        node_labels: an `.npy` of classes (N,), -1 = unknown, or targets (N, T); left out, none is
            known.
        node_features: an `.npy` of features (N, F); left out, there are none.
        weights: `ignore` reads the edges without the other columns.
        separator: between the columns, or `tab`; left out, a comma in `.csv`, a tab in `.tsv`, else
            blanks.

    Raises:
        ZooError: a line that is no edge, or other files that do not fit.
    """
    separator = "\t" if separator == "tab" else separator or SEPARATORS[ending(path)]
    text = _open_edges(path, separator, weights)
    labels = None if node_labels is None else np.array(map_array(user_path(node_labels)))
    features = None if node_features is None else map_array(user_path(node_features))
    sizes = {"nodes": nodes} if nodes else {}
    sizes |= {"node_labels": len(labels)} if labels is not None else {}
    sizes |= {"node_features": len(features)} if features is not None else {}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{key}: {size:,}" for key, size in sizes.items())
        raise ZooError(f"there are not as many nodes everywhere ({shown}); write one of each.")
    count = next(iter(sizes.values())) if sizes else text.count_nodes()
    features = np.zeros((count, 0)) if features is None else features
    fix = "number the nodes from 0, or write as many labels and features"
    return Stream(
        lambda: check_edges_within(text.blocks(), count, "edge {}", 1, fix),
        in_blocks(features),
        features.shape[1],
        unlabelled(count, task) if labels is None else labels,
        task=task,
    )


class _EdgeText(NamedTuple):
    """A file of text that begins as a list of edges does."""

    path: Path
    separator: str
    header: bool
    columns: int
    ends: tuple[int, int]

    def count_nodes(self) -> int:
        """Return one more than the largest number of a node."""
        largest, lines = -1, 0
        for block in self.blocks():
            largest, lines = max(largest, int(block.max())), lines + len(block)
        if largest >= _SPARSE * max(lines, 1000):
            raise ZooError(
                f"the largest node is {largest:,} and there are {lines:,} edges only; number the "
                f"nodes from 0 without gaps, or write `nodes: {largest + 1}` if it is so."
            )
        return max(largest + 1, 1)

    def blocks(self) -> Iterator[np.ndarray]:
        """Give pairs of whole numbers (B, 2) as they stand."""
        import pandas

        # Of several characters pandas makes a pattern, which its quick reader does not know.
        quick = len(self.separator) == 1 or self.separator == r"\s+"
        try:
            with pandas.read_csv(
                self.path, sep=self.separator if quick else re.escape(self.separator),
                encoding="utf-8-sig", engine="c" if quick else "python",
                header=0 if self.header else None, names=range(self.columns), comment="#",
                dtype=dict.fromkeys(range(self.columns), "S1" if quick else str)
                | dict.fromkeys(self.ends, np.int64 if quick else np.float64),
                chunksize=BLOCK,  # without usecols, which hides cells too many
            ) as file:  # fmt: skip
                for frame in file:
                    if len(frame):
                        yield _as_whole(frame[[*self.ends]].to_numpy())
        except (ValueError, OverflowError) as error:  # what pandas raises for text is a ValueError
            raise self._first_bad_line(" ".join(str(error).split())[:120]) from None

    def _first_bad_line(self, cause: str) -> ZooError:
        """Return the error that names the first line that is no edge."""
        header = self.header
        with _open(self.path) as file:
            for number, line in enumerate(file, 1):
                cells = _split_line(line, self.separator)
                if not any(cells):
                    continue
                if header:
                    header = False
                    continue
                ends = [cells[end] for end in self.ends] if len(cells) == self.columns else [""]
                if not all(map(_is_whole, ends)):
                    return ZooError(
                        f"line {number} is {line.strip()[:60]!r}; write two numbers of nodes, from "
                        "0, such as 3,17. Ids that are words go into a folder with nodes.csv and "
                        "edges.csv."
                    )
        return ZooError(
            f"it cannot be read as columns of numbers ({cause}); number the nodes from 0, with at "
            "most 18 digits."
        )


def _open_edges(path: Path, separator: str, weights: str | None) -> _EdgeText:
    """Return what the first lines say of all others; refuse other than two columns."""
    with _open(path) as file:
        lines = iter(lambda: file.readline(_LONGEST), "")
        rows = (cells for cells in (_split_line(line, separator) for line in lines) if any(cells))
        first = list(itertools.islice(rows, 2))
    header = not first or not any(map(_is_number, first[0][:2]))
    line = first[min(header, len(first) - 1)] if first else ["", ""]
    ends, others = _find_ends(first[0] if first and header else [], len(line))
    if len(line) < 2 or (others > 0 and weights is None):
        raise ZooError(
            f"a line has {len(line)} columns ({str(line)[:60]}), and an edge is two numbers of "
            "nodes; write `separator` if something else stands between them, `weights: ignore` to "
            "leave out further columns."
        )
    if len(first) <= header:
        raise ZooError("there is no edge in the file; write two numbers of nodes a line.")
    return _EdgeText(path, separator, header, len(line), ends)


def _find_ends(names: list[str], columns: int) -> tuple[tuple[int, int], int]:
    """Return the places of both ends among the columns of a line, and how many others there are.

    Ends are where a header says source and target, else the first two of what has a name.
    """
    lower = [name.lower() for name in names]
    named = {"source", "target"} <= {*lower}
    if len(names) > columns or (named and len(names) < columns):
        raise ZooError(
            f"the first line names {len(names)} columns and the next has {columns}; write a name "
            "for each, source and target among them."
        )
    places = [*range(columns)]
    if len(names) == columns:
        places = [place for place in places if not is_index(names[place])]
    first, second = places[:2] if len(places) > 1 else (0, 1)
    if named:
        first, second = lower.index("source"), lower.index("target")
    return (first, second), len(places) - 2


def _open(path: Path) -> IO[str]:
    how = {"mode": "rt", "encoding": "utf-8-sig", "errors": "replace"}  # Excel marks what it writes
    return gzip.open(path, **how) if path.suffix == ".gz" else path.open(**how)


def _split_line(line: str, separator: str) -> list[str]:
    line = line.partition("#")[0].strip("\n")
    cells = line.split() if separator == r"\s+" else line.split(separator)
    return [cell.strip().strip('"') for cell in cells]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_whole(text: str) -> bool:
    """Return whether a cell is a whole number, such as 3 or 3.0."""
    plain = text.isascii() and "_" not in text
    return plain and _is_number(text) and float(text).is_integer()


def _as_whole(pairs: np.ndarray) -> np.ndarray:
    """Return numbers as int64; raise ValueError where some are none of these."""
    if pairs.dtype.kind == "f" and not ((np.abs(pairs) < 2**53) & (pairs == pairs.round())).all():
        raise ValueError("fractions, or too many digits")
    return pairs.astype(np.int64, copy=False)
