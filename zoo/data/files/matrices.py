"""Adjacency matrices: of SciPy, and in the Matrix Market format.

That is a line that says what follows, the size, then a line per entry. SciPy's own reader ends the
process on some damaged files, so the few lines are read here.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from zoo.data.files.graph_arrays import GraphArrays, Weights, array_of, plausible, sparse_of
from zoo.errors import ZooError
from zoo.tasks.labels import unlabelled

_COLUMNS = {b"pattern": 2, b"integer": 3, b"real": 3, b"double": 3}
_HALVES = {b"general": None, b"symmetric": 1, b"hermitian": 1, b"skew-symmetric": -1}
"""What the other half of a matrix is of the one in the file; None: all of it is there."""

_LONGEST = 10_000  # bytes of a line


def read_coordinates(path: Path) -> tuple[sparse.coo_array, bool]:
    """Return the entries of a matrix, and whether it is symmetric and lists one of each pair.

    Raises:
        ZooError: the file is no sparse matrix of numbers, is cut short or damaged.
    """
    with path.open("rb") as file:
        first = file.readline(_LONGEST)
        if first.startswith(b"\x1f\x8b"):
            raise ZooError("the file is packed by gzip, which is not read here; unpack it, gunzip.")
        columns, half = _form(first)
        line = file.readline(_LONGEST)
        while line.startswith(b"%") or (line and not line.strip()):
            line = file.readline(_LONGEST)
        rows, width, count = map(int, line.split())
        lines = [each for each in file if each.strip() and not each.startswith(b"%")]
    if len(lines) != count:
        raise ZooError(
            f"the file is damaged: it says {count:,} entries and lists {len(lines):,}. Write it "
            "again."
        )
    table = np.loadtxt(lines, ndmin=2) if lines else np.zeros((0, columns))
    places = table[:, :2].astype(np.int64) - 1
    if table.shape[1] != columns or (places < 0).any() or (places >= (rows, width)).any():
        raise ZooError(
            f"an entry leaves the matrix, {rows:,} by {width:,}, or has not {columns} numbers; "
            "rows and columns are counted from 1."
        )
    values = table[:, 2] if columns == 3 else np.ones(count)
    if half == -1:
        places = np.concatenate([places, places[:, ::-1]])
        values = np.concatenate([values, -values])
    return sparse.coo_array((values, tuple(places.T)), shape=(rows, width)), half == 1


def _form(line: bytes) -> tuple[int, int | None]:
    """Return how many numbers an entry has, and what the other half of the matrix is."""
    banner = line.lower().split()
    if banner[:3] != [b"%%matrixmarket", b"matrix", b"coordinate"] or len(banner) != 5:
        raise ZooError(
            "this is no sparse Matrix Market file: its first line should be "
            "%%MatrixMarket matrix coordinate pattern general, or real, or symmetric."
        )
    columns = _COLUMNS.get(banner[3])
    if columns is None:
        raise ZooError(f"its entries are {banner[3].decode(errors='replace')}; write pattern.")
    if banner[4] not in _HALVES:
        said = banner[4].decode(errors="replace")
        raise ZooError(f"the matrix is {said}; write general, symmetric or skew-symmetric.")
    return columns, _HALVES[banner[4]]


def from_scipy(
    adjacency: Any,
    nodes: GraphArrays | None = None,
    weights: Weights = None,
    task: str | None = None,
) -> GraphArrays:
    """Return an adjacency matrix (N, N) as edges, with the nodes' labels and features if given.

    Args:
        adjacency: the matrix, in any sparse form, or dense.
        nodes: labels and features.
        weights: `use` takes its entries as weights of edges, `ignore` reads which there are.
        task: what labels are for, where no nodes are given.

    Raises:
        ZooError: the matrix is not square, has weights, or another number of nodes.
    """
    adjacency = adjacency if sparse.issparse(adjacency) else _sparse(adjacency)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
        raise ZooError(
            f"the matrix is {adjacency.shape} and no adjacency matrix: it should have a row and a "
            "column per node."
        )
    count = plausible(adjacency.shape[0], adjacency.nnz)
    if adjacency.format in ("csr", "csc", "bsr"):  # scipy trusts their parts, even broken ones
        adjacency.check_format(full_check=True)
    entries = adjacency.tocoo()
    filled = entries.data != 0
    if not (entries.data[filled] == 1).all() and weights is None:
        raise ZooError(
            "the matrix has other entries than 0 and 1; write `weights: use` to weigh the edges by "
            "them, or `weights: ignore` to read the graph without them."
        )
    values = entries.data[filled] if weights == "use" else None
    edges = np.stack([entries.row[filled], entries.col[filled]], axis=1).astype(np.int64)
    if nodes is None:
        none = np.zeros((count, 0), np.float32)
        return GraphArrays(edges, unlabelled(count, task), none, weights=values)
    if len(nodes.labels) != count:
        raise ZooError(
            f"the matrix has {count:,} nodes, and the table of nodes {len(nodes.labels):,} rows; "
            "write a row per node, in the order of the matrix."
        )
    return nodes._replace(edges=edges, weights=values)


def _sparse(adjacency: Any) -> sparse.coo_array:
    """Return a dense matrix, or one of torch, in a sparse form."""
    if (matrix := sparse_of(adjacency)) is not None:
        return sparse.coo_array(matrix)
    found = array_of(adjacency, "matrix")
    if found.dtype.kind not in "biuf" or found.ndim != 2:
        raise ZooError(
            f"the matrix is {found.dtype} of the shape {found.shape}; write a matrix of SciPy or "
            "an array of numbers, with a row and a column per node."
        )
    return sparse.coo_array(found)
