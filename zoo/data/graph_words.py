"""Graphs beside a data set, the words of `graph:`: its own, of a file, of its features, or none."""

import numpy as np
from torch import Tensor

from zoo.config.options import Table
from zoo.data.files.objects import EdgeColumns, join
from zoo.data.tables.nodes_and_edges import read_edges
from zoo.data.tables.read import CsvFormat
from zoo.graphs.knn import knn, radius
from zoo.system.files import user_path


def own(x: Tensor, ids: np.ndarray | None) -> None:
    """The edges of the data set itself; of a table without any, none."""


def none(x: Tensor, ids: np.ndarray | None) -> np.ndarray:
    """No edges: every node is alone, whatever edges the data set has."""
    return np.zeros((0, 2), np.int64)


def file(
    x: Tensor, ids: np.ndarray | None, *, path: str, source: str = "source", target: str = "target"
) -> np.ndarray:
    """The edges of a table, CSV or Parquet, in the place of those of the data set.

    Args:
        path: of the table.
        source: column with the id of one end; the number of its row where nodes have no ids.
        target: column with that of the other.

    Raises:
        ZooError: the table cannot be read, or has an end that no node is called.
    """
    place = user_path(path)
    names = np.arange(len(x)) if ids is None else ids
    return join(
        names,
        read_edges(place, (source, target), EdgeColumns(weights="ignore"), CsvFormat())[:2],
        place.name,
    )


GRAPHS = Table("graph", {"file": file, "knn": knn, "none": none, "own": own, "radius": radius})
"""Word to `(features (N, F), ids (N,) or None, *, options) -> edges (E, 2)`; None: as they are."""
