"""The Matrix Market format: a line that says what follows, the size, then a line per entry.

SciPy's own reader ends the process on some damaged files, so the few lines are read here.
"""

from pathlib import Path

import numpy as np
from scipy import sparse

from zoo.errors import ZooError

_COLUMNS = {b"pattern": 2, b"integer": 3, b"real": 3, b"double": 3}
_LONGEST = 10_000  # bytes of a line


def read_coordinates(path: Path) -> sparse.coo_array:
    """Return the entries that the file lists; a symmetric file lists one of each pair.

    Raises:
        ZooError: the file is no sparse matrix of numbers, is cut short or damaged.
    """
    with path.open("rb") as file:
        banner = file.readline(_LONGEST).lower().split()
        if banner[:3] != [b"%%matrixmarket", b"matrix", b"coordinate"] or len(banner) != 5:
            raise ZooError(
                "the file is damaged or no sparse Matrix Market file: its first line should be "
                "%%MatrixMarket matrix coordinate pattern general, or real, or symmetric."
            )
        columns = _COLUMNS.get(banner[3])
        if columns is None:
            raise ZooError(f"its entries are {banner[3].decode(errors='replace')}; write pattern.")
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
            f"the file is damaged: an entry leaves the matrix, {rows:,} by {width:,}, or has not "
            f"{columns} numbers; rows and columns are counted from 1."
        )
    values = table[:, 2] if columns == 3 else np.ones(count)
    return sparse.coo_array((values, tuple(places.T)), shape=(rows, width))
