"""Read the Planetoid files of Cora, CiteSeer and PubMed, which are published as pickles only.

No other public source has these three graphs with their splits. A restricted unpickler reads them:
a file may name what is in `_NAMES` only and gets a stand-in for it; nothing is imported or called
on its behalf.
"""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from zoo.datasets.files.graph_arrays import GraphArrays, checked
from zoo.errors import ZooError


def convert_planetoid(paths: list[Path]) -> GraphArrays:
    """Return a graph with its public split from `x, tx, allx, y, ty, ally, graph, test.index`.

    `allx` and `ally` hold all nodes but the test nodes, training nodes first; `tx` and `ty` hold
    the test nodes in the order of `test.index`. Test nodes that are missing from it (CiteSeer has
    15) get no features and the class 0, as is usual. The 500 nodes after the training nodes are
    for validation.
    """
    x, tx, allx, y, ty, ally, neighbours = map(_read, paths[:-1])
    test = np.loadtxt(paths[-1], dtype=np.int64)
    nodes = max(allx.shape[0], int(test.max()) + 1)
    ends = ((node, other) for node, row in neighbours.items() for other in row)
    edges = np.array(sorted({(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]}))
    rows = np.concatenate([np.arange(allx.shape[0]), test])
    stacked = sparse.vstack([allx, tx]).tocoo()
    features = sparse.coo_array(
        (stacked.data, (rows[stacked.row], stacked.col)), shape=(nodes, allx.shape[1])
    )
    labels = np.zeros(nodes, np.int64)
    labels[rows] = np.concatenate([ally, ty]).argmax(axis=1)
    train = x.shape[0]
    indices = {"train": np.arange(train), "val": np.arange(train, train + 500), "test": test}
    masks = {part: np.isin(np.arange(nodes), index)[None] for part, index in indices.items()}
    return GraphArrays(edges, labels, features.tocsr(), masks)


class _Array:
    """A numpy array, as Python 2 pickled it: (version, shape, type, by columns, bytes)."""

    def __init__(self, *_: Any):
        self.array = np.empty(0)

    def __setstate__(self, state: tuple) -> None:
        _, shape, kind, by_columns, content = state
        numbers = np.frombuffer(content.encode("latin1"), kind.dtype)
        self.array = numbers.reshape(shape, order="F" if by_columns else "C")


class _Type:
    """A type of numbers: a word such as "f4", then (version, byte order, ...)."""

    def __init__(self, word: str, *_: Any):
        if word not in ("f4", "f8", "i4", "i8", "u1", "b1"):
            raise ZooError(f"the file holds an array of type {word}, which no Planetoid file does")
        self.dtype = np.dtype(word)

    def __setstate__(self, state: tuple) -> None:
        self.dtype = self.dtype.newbyteorder(state[1])


class _Sparse:
    """A CSR matrix: a dict of its parts."""

    def __init__(self, *_: Any):
        self.parts: dict[str, Any] = {}

    def __setstate__(self, state: dict) -> None:
        self.parts = state


class _Lists(dict):
    """A dict of lists, without the function that a defaultdict calls for missing keys."""

    def __init__(self, *_: Any):
        super().__init__()

    def __setstate__(self, state: Any) -> None:
        raise ZooError("the file gives a dict attributes, which no Planetoid file does")


# Classes only, each with its own __setstate__: a pickle can set attributes on anything else.
_NAMES = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): _Sparse,
    ("copy_reg", "_reconstructor"): _Sparse,
    ("collections", "defaultdict"): _Lists,
    ("__builtin__", "list"): None,
    ("__builtin__", "object"): None,
}
"""All that a file may name, by the modules of Python 2, and what it gets instead."""


class _Reader(pickle._Unpickler):
    """The reader in Python: that in C makes as much room as a damaged number asks for."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in for a name; nothing is ever imported."""
        if (module, name) not in _NAMES:
            raise ZooError(f"the file asks for {module}.{name}, which no Planetoid file does")
        return _NAMES[module, name]


def _read(path: Path) -> Any:
    with path.open("rb") as file:
        content = _Reader(file, encoding="latin1").load()
    if isinstance(content, _Sparse):
        data, indices, indptr = (content.parts[key].array for key in ("data", "indices", "indptr"))
        shape = content.parts.get("_shape", content.parts.get("shape"))
        return checked(sparse.csr_array((data, indices, indptr), shape=tuple(shape)))
    return content.array if isinstance(content, _Array) else content
