"""Convert the published files of the named graphs to arrays, one function per collection.

Each takes the downloaded paths in the order of its `Source`. Nothing here is unpickled: of `.npz`
files only plain arrays are read, and `.mat` files hold no code. Planetoid's, which no
other public source has with their splits, are pickles: a restricted unpickler knows the names in
`_ALLOWED`, whose stand-ins hold numbers and run nothing, and refuses anything else.
"""

import gzip
import json
import pickle
import zipfile
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import numpy as np
from scipy import sparse

from zoo.data.files.graph_arrays import GraphArrays, to_csr
from zoo.errors import ZooError


def convert_gnn_benchmark(paths: list[Path]) -> GraphArrays:
    """Read an Amazon or Coauthor graph of shchur/gnn-benchmark (Shchur et al., 1811.05868).

    Features are 1 where the file has a positive count, as in all published results on them.
    """
    with np.load(paths[0], allow_pickle=False) as stored:
        adjacency, counts = (
            to_csr(
                sparse.csr_array(
                    tuple(stored[f"{key}_{part}"] for part in ("data", "indices", "indptr")),
                    shape=tuple(stored[f"{key}_shape"]),
                )
            )
            for key in ("adj", "attr")
        )
        labels = stored["labels"].astype(np.int64)
    return GraphArrays(_edges_of(adjacency), labels, (counts > 0).astype(np.float32))


def convert_wikics(paths: list[Path]) -> GraphArrays:
    """Read WikiCS (Mernyei and Cangea, 2007.02901): JSON lists per node and per split.

    The validation nodes are the published ones and those published for early stopping, together:
    here, too, they are what stops the training.
    """
    content = json.loads(paths[0].read_text())
    links = [(node, other) for node, row in enumerate(content["links"]) for other in row]
    train, val, stop = (
        np.array(content[key], bool) for key in ("train_masks", "val_masks", "stopping_masks")
    )
    test = np.broadcast_to(np.array(content["test_mask"], bool), train.shape).copy()
    masks = {"train": train, "val": val | stop, "test": test}
    labels = np.array(content["labels"], np.int64)
    features = np.array(content["features"], np.float32)
    return GraphArrays(np.array(links, np.int64).reshape(-1, 2), labels, features, masks)


def convert_twitch(paths: list[Path]) -> GraphArrays:
    """Read a Twitch graph of MUSAE (Rozemberczki et al., 1909.13021) from its three files.

    The columns of the 3,170 features mean the same in all countries, so that those which are zero
    in one of them stay. Nodes without a line in the table of targets have an unknown label.
    """
    import pandas

    edges = pandas.read_csv(paths[0])[["from", "to"]].to_numpy(np.int64)
    owned = {int(node): columns for node, columns in json.loads(paths[1].read_text()).items()}
    targets = pandas.read_csv(paths[2]).drop_duplicates("new_id")  # FR has two lines twice
    known = targets["new_id"].to_numpy(np.int64)
    nodes = 1 + max(int(edges.max()), int(known.max()))
    labels = np.full(nodes, -1, np.int64)
    labels[known] = targets["mature"].astype(str).str.lower().eq("true").to_numpy()
    rows = [node for node, own in owned.items() for _ in own if node < nodes]
    columns = [column for node, own in owned.items() for column in own if node < nodes]
    counts = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(nodes, 3170))
    return GraphArrays(edges, labels, (counts.tocsr() > 0).astype(np.float32))


def convert_deezer(paths: list[Path]) -> GraphArrays:
    """Read deezer-europe (Rozemberczki and Sarkar, 2005.07959): a MATLAB file of three arrays."""
    from scipy.io import loadmat

    content = loadmat(paths[0], variable_names=("A", "label", "features"))
    labels = content["label"].ravel().astype(np.int64)
    return GraphArrays(_edges_of(to_csr(content["A"])), labels, to_csr(content["features"]))


def convert_ogb(paths: list[Path]) -> GraphArrays:
    """Read a node data set of the Open Graph Benchmark (Hu et al., 2005.00687) from its zip.

    OGB's own loader is not used: it asks questions on the terminal, and it unpickles. A graph
    without node features (ogbn-proteins) gets the mean of the features of each node's edges.
    """
    with zipfile.ZipFile(paths[0]) as archive:
        files = {Path(name).name: name for name in archive.namelist()}
        nodes = int(_table(archive, files["num-node-list.csv.gz"], np.int64)[0, 0])
        edges = _table(archive, files["edge.csv.gz"], np.int64)
        labels = _table(archive, files["node-label.csv.gz"], np.float32)
        if "node-feat.csv.gz" in files:
            features = _table(archive, files["node-feat.csv.gz"], np.float32)
        else:
            features = _edge_means(archive, files["edge-feat.csv.gz"], edges, nodes)
        masks = {}
        for part, word in (("train", "train"), ("val", "valid"), ("test", "test")):
            index = _table(archive, files[f"{word}.csv.gz"], np.int64).ravel()
            masks[part] = np.isin(np.arange(nodes), index)[None]
    if labels.shape[1] == 1:
        labels = np.where(np.isnan(labels), -1, labels).astype(np.int64).ravel()
    return GraphArrays(edges, labels, features, masks)


def _edges_of(adjacency: sparse.csr_array) -> np.ndarray:
    """Return each edge of a matrix (N, N) once, (E, 2), whichever half it is stored in."""
    either = sparse.triu(adjacency + adjacency.T, 1).tocoo()
    return np.stack([either.row, either.col], axis=1).astype(np.int64)


def _chunks(file: IO[bytes], kind: type):
    """Give the rows of a CSV without a header, a million at a time."""
    import pandas

    for frame in pandas.read_csv(file, header=None, dtype=kind, chunksize=1_000_000):
        yield frame.to_numpy()


def _table(archive: zipfile.ZipFile, name: str, kind: type) -> np.ndarray:
    with archive.open(name) as packed, gzip.open(packed) as file:
        return np.concatenate(list(_chunks(file, kind)))


def _edge_means(archive: zipfile.ZipFile, name: str, edges: np.ndarray, nodes: int) -> np.ndarray:
    # A chunk at a time: the 40 million edges of ogbn-proteins have 8 features each.
    sums, start = 0, 0
    with archive.open(name) as packed, gzip.open(packed) as file:
        for rows in _chunks(file, np.float32):
            ends = edges[start : start + len(rows)].T.ravel()
            columns = [np.bincount(ends, np.tile(feature, 2), nodes) for feature in rows.T]
            sums, start = sums + np.stack(columns, axis=1), start + len(rows)
    degree = np.bincount(edges.ravel(), minlength=nodes)
    return (sums / np.maximum(degree, 1)[:, None]).astype(np.float32)


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
    """A numpy array, as Python 2 pickled it: (version, shape, type, by columns, bytes).

    NumPy's own would take bytes for addresses of objects where the type says so.
    """

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


_ALLOWED = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("scipy.sparse.csr", "csr_matrix"): SimpleNamespace,
    ("copy_reg", "_reconstructor"): lambda kind, *_: SimpleNamespace(),  # of a csr_matrix
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,
    ("__builtin__", "object"): object,
}
"""All that a file may name, by the modules of Python 2, and what it gets."""


class _Unpickler(pickle._Unpickler):
    """The reader in Python: that in C makes as much room as a damaged number asks for."""

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name stands for; nothing is ever imported."""
        if (module, name) not in _ALLOWED:
            raise ZooError(f"the file asks for {module}.{name}, which no Planetoid file does")
        return _ALLOWED[module, name]


def _read(path: Path) -> Any:
    with path.open("rb") as file:
        content = _Unpickler(file, encoding="latin1").load()
    if isinstance(content, SimpleNamespace):
        parts = vars(content)
        shape = parts.get("_shape", parts.get("shape"))
        arrays = tuple(parts[key].array for key in ("data", "indices", "indptr"))
        return to_csr(sparse.csr_array(arrays, shape=shape))
    return content.array if isinstance(content, _Array) else content
