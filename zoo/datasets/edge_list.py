"""A list of edges of any length, in text: two numbers of nodes a line."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import numpy as np

from zoo.datasets.array_file import stored
from zoo.datasets.buckets import BLOCK
from zoo.datasets.disk_writer import Stream
from zoo.datasets.labels import unlabelled
from zoo.errors import ZooError
from zoo.table import Count

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+"}
"""What a list of edges ends in, before `.gz`, to what stands between two numbers."""

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

    Args:
        path: a `.csv`, `.tsv` or `.txt`, or any of them as `.gz`; lines that begin with # are none.
        task: what the labels are for.
        nodes: how many nodes there are; left out, as many as labels, features or the edges say.
        node_labels: an `.npy` of classes (N,), -1 = unknown, or targets (N, T); left out, none is
            known.
        node_features: an `.npy` of features (N, F); left out, there are none.
        weights: `ignore` reads the edges without the other columns.
        separator: between the columns; left out, a comma in `.csv`, a tab in `.tsv`, else blanks.

    Raises:
        ZooError: a line that is no edge, or other files that do not fit.
    """
    separator = separator or SEPARATORS[ending(path)]
    head = _check_head(path, separator, weights)
    labels = node_labels and _read_array(node_labels)
    features = node_features and stored(Path(node_features).expanduser())
    known = {"nodes": nodes, "node_labels": labels is not None and len(labels) or None,
             "node_features": features and features.shape[0] or None}  # fmt: skip
    sizes = {key: each for key, each in known.items() if each is not None}
    if len(set(sizes.values())) > 1:
        said = ", ".join(f"{key}: {each:,}" for key, each in sizes.items())
        raise ZooError(f"there are not as many nodes everywhere ({said}); write one of each.")
    count = next(iter(sizes.values()), None) or _count(path, separator, head)

    def rows(size: int) -> Iterator[np.ndarray]:
        if features is not None:
            return features.read(size)
        return (np.zeros((min(size, count - at), 0)) for at in range(0, count, size))

    if features is not None and (len(features.shape) != 2 or features.turned):
        raise ZooError(f"{node_features} has the shape {features.shape}, or lies column by column; "
                       "write np.ascontiguousarray(features), (N, F).")  # fmt: skip
    return Stream(
        lambda: _checked(path, separator, head, count),
        rows,
        features.shape[1] if features is not None else 0,
        unlabelled(count, task) if labels is None else labels,
        task=task,
    )


def _read_array(path: str) -> np.ndarray:
    return np.concatenate(list(stored(Path(path).expanduser()).read(BLOCK)))


def _open(path: Path) -> IO[str]:
    return gzip.open(path, "rt") if path.suffix == ".gz" else path.open()


def _cells(line: str, separator: str) -> list[str]:
    cells = line.split() if separator == r"\s+" else line.split(separator)
    return [each.strip().strip('"') for each in cells]


def _check_head(path: Path, separator: str, weights: str | None) -> bool:
    """Return whether there is a header; refuse other than two columns."""
    with _open(path) as file:
        first = next((line for line in file if line.strip() and not line.startswith("#")), None)
    if first is None:
        raise ZooError("there is no edge in the file; write two numbers of nodes a line.")
    cells = _cells(first, separator)
    if len(cells) < 2 or (len(cells) > 2 and weights is None):
        raise ZooError(
            f"a line has {len(cells)} columns ({first.strip()[:60]!r}), and an edge is two numbers "
            "of nodes; write `separator` if something else stands between them, `weights: ignore` "
            "to leave out further columns."
        )
    return not all(map(_is_number, cells[:2]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit()


def _blocks(path: Path, separator: str, header: bool) -> Iterator[np.ndarray]:
    import pandas

    try:
        with pandas.read_csv(
            path, sep=separator, header=0 if header else None, names=["source", "target"],
            usecols=[0, 1], comment="#", dtype=np.int64, chunksize=BLOCK,
        ) as file:  # fmt: skip
            for frame in file:
                yield frame.to_numpy()
    except (ValueError, OverflowError, pandas.errors.ParserError):
        raise _first_bad(path, separator, header) from None
    except (EOFError, OSError, zlib.error) as error:
        raise ZooError(f"the file is damaged, or cut short ({error}); fetch it again.") from None


def _first_bad(path: Path, separator: str, header: bool) -> ZooError:
    """Return the error that names the first line that is no edge."""
    with _open(path) as file:
        for number, line in enumerate(file, 1):
            cells = _cells(line.partition("#")[0], separator)
            if not any(cells):
                continue
            if header:
                header = False
            elif len(cells) < 2 or not all(map(_is_number, cells[:2])):
                return ZooError(
                    f"line {number} is {line.strip()[:60]!r}; write two numbers of nodes, from 0, "
                    "such as 3,17. Ids that are words go into a folder with nodes.csv and "
                    "edges.csv."
                )
    return ZooError("a number in it has more than 18 digits; number the nodes from 0.")


def _count(path: Path, separator: str, header: bool) -> int:
    """Return one more than the largest number of a node."""
    largest, lines = -1, 0
    for block in _blocks(path, separator, header):
        largest, lines = max(largest, int(block.max())), lines + len(block)
    if largest >= _SPARSE * max(lines, 1000):
        raise ZooError(
            f"the largest node is {largest:,} and there are {lines:,} edges only; number the nodes "
            f"from 0 without gaps, or write `nodes: {largest + 1}` if it is so."
        )
    return largest + 1


def _checked(path: Path, separator: str, header: bool, nodes: int) -> Iterator[np.ndarray]:
    lines = 0
    for block in _blocks(path, separator, header):
        wrong = ((block < 0) | (block >= nodes)).any(axis=1)
        if wrong.any():
            at = int(wrong.argmax())
            raise ZooError(
                f"edge {lines + at + 1} is {block[at].tolist()}, but there are {nodes:,} nodes, 0 "
                f"to {nodes - 1}; number the nodes from 0, or write as many labels and features."
            )
        lines += len(block)
        yield block
