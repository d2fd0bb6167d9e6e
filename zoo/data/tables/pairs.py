"""Tables of pairs of nodes: links, and pairs without one, by the ids of their ends."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.data.tables.cells import parse_texts
from zoo.data.tables.nodes_and_edges import edge_parts
from zoo.data.tables.read import CsvFormat, is_index, read_header, read_table
from zoo.errors import ZooError, suggestion


class Pairs(NamedTuple):
    """The rows of a table of pairs.

    Attributes:
        nodes: (P, k) int64, the nodes of each row, by their numbers.
        parts: (P,) text, train, val, test, or "" for none; None where the table has no such column.
    """

    nodes: Tensor
    parts: np.ndarray | None


def node_places(data: Any) -> dict[str, int]:
    """Return the number of each node by its id, as it is written."""
    ids = np.arange(len(data.x)) if data.ids is None else data.ids
    return {str(name): place for place, name in enumerate(ids.tolist())}


def read_node_pairs(
    path: Path, data: Any, *, ends: Sequence[str] = ("source", "target"), split: str | None = None
) -> Pairs:
    """Read a table whose first columns are ids of nodes.

    Args:
        path: a CSV or Parquet table.
        data: of whose nodes.
        ends: what the first columns are, for what is said; as many are read.
        split: the column of parts, which need not be there; None: none is looked for.

    Raises:
        ZooError: there is no such table, it has too few columns, no line of names or no pairs, or
            an id is none of a node.
    """
    names, shown = read_header(path, CsvFormat()), ",".join(ends)
    if len(names) < len(ends):
        needed = "pairs are two" if len(ends) == 2 else f"its rows are {shown}"
        raise ZooError(
            f"{path} has {len(names)} column{'s' * (len(names) > 1)}; {needed}, an id of a node "
            "each."
        )
    if is_index(names[0].strip()):  # the numbers of rows, which may be ids as well
        raise ZooError(
            f"{path}: its first column has no name, as the index that pandas writes; the first "
            f"{'two' if len(ends) == 2 else len(ends)} columns are to be ids of nodes, such as "
            f"{shown}."
        )
    places = node_places(data)
    first = names[: len(ends)]
    if all(name.strip() in places for name in first):
        raise ZooError(
            f"{path}: its first line is a pair, {','.join(first)}, and it is to name the "
            f"columns; put a line such as {shown} above it."
        )
    table = read_table(path, first, first, CsvFormat())
    if not len(table):
        raise ZooError(f"{path} has no pairs; write a line with two ids for each.")
    columns = []
    for name in first:
        words = [word.strip() for word in parse_texts(table[name], None, whole=True)]
        columns.append([places.get(word, -1) for word in words])
        unknown = [word for word, place in zip(words, columns[-1], strict=True) if place < 0]
        if unknown:
            raise ZooError(
                f"{path} has {unknown[0]!r}, and no node of {data.name} has this id "
                f"({len(unknown):,} such); {suggestion(unknown[0], places)}"
            )
    has_parts = split is not None and split in names[len(ends) :]
    parts = edge_parts(path, split, CsvFormat()) if has_parts else None
    return Pairs(torch.tensor(columns).T, parts)
