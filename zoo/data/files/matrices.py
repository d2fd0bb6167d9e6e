"""Adjacency matrices: of SciPy, and in the Matrix Market format.

That is a line that says what follows, the size, then a line per entry. SciPy's own reader ends the
process on some damaged files, so the few lines are read here.
"""

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from zoo.data.files.graph_arrays import GraphArrays, check_node_count
from zoo.data.files.objects import Weights, to_numpy, to_scipy
from zoo.errors import ZooError
from zoo.tasks.labels import unlabelled

_COLUMNS = {"pattern": 2, "integer": 3, "real": 3, "double": 3}
_HALVES = {"general": None, "symmetric": 1, "hermitian": 1, "skew-symmetric": -1}
"""What the other half of a matrix is of the one in the file; None: all of it is there."""

_LONGEST = 10_000  # bytes of a line


def read_coordinates(path: Path) -> tuple[sparse.coo_array, bool]:
    """Return the entries of a matrix, and whether it is symmetric and lists one of each pair.

    Raises:
        ZooError: the file is no sparse matrix of numbers, is cut short or damaged.
    """
    with path.open("rb") as file:
        banner = file.readline(_LONGEST).lower().split()
        if banner and banner[0].startswith(b"\x1f\x8b"):
            raise ZooError("the file is packed by gzip, which is not read here; unpack it, gunzip.")
        if banner[:3] != [b"%%matrixmarket", b"matrix", b"coordinate"] or len(banner) != 5:
            raise ZooError(
                "this is no sparse Matrix Market file: its first line should be "
                "%%MatrixMarket matrix coordinate pattern general, or real, or symmetric."
            )
        kind, form = (word.decode(errors="replace") for word in banner[3:])
        if kind not in _COLUMNS or form not in _HALVES:
            raise ZooError(
                f"the matrix is {kind} {form}, which is not read; write it as "
                f"{', '.join(_COLUMNS)}, and {', '.join(_HALVES)}."
            )
        columns, half = _COLUMNS[kind], _HALVES[form]
        line = file.readline(_LONGEST)
        while line.startswith(b"%") or (line and not line.strip()):
            line = file.readline(_LONGEST)
        rows, width, count = map(int, line.split())
        lines = [line for line in file if line.strip() and not line.startswith(b"%")]
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
    if (matrix := to_scipy(adjacency)) is None:
        array = to_numpy(adjacency, "matrix")
        if array.dtype.kind not in "biuf" or array.ndim != 2:
            raise ZooError(
                f"the matrix is {array.dtype} of the shape {array.shape}; write a matrix of SciPy "
                "or an array of numbers, with a row and a column per node."
            )
        matrix = sparse.coo_array(array)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ZooError(
            f"the matrix is {matrix.shape} and no adjacency matrix: it should have a row and a "
            "column per node."
        )
    count = check_node_count(matrix.shape[0], matrix.nnz)
    if matrix.format in ("csr", "csc", "bsr"):  # scipy trusts their parts, even broken ones
        matrix.check_format(full_check=True)
    entries = matrix.tocoo()
    filled = entries.data != 0
    if not (entries.data[filled] == 1).all() and weights is None:
        raise ZooError(
            "the matrix has other entries than 0 and 1; write `weights: use` to weigh the edges by "
            "them, or `weights: ignore` to read the graph without them."
        )
    values = entries.data[filled] if weights == "use" else None
    edges = np.stack([entries.row[filled], entries.col[filled]], axis=1).astype(np.int64)
    if nodes is None:
        no_features = np.zeros((count, 0), np.float32)
        nodes = GraphArrays(edges, unlabelled(count, task), no_features)
    if len(nodes.labels) != count:
        raise ZooError(
            f"the matrix has {count:,} nodes, and the table of nodes {len(nodes.labels):,} rows; "
            "write a row per node, in the order of the matrix."
        )
    return nodes._replace(edges=edges, weights=values)
