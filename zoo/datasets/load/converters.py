"""Convert the published files of the named graphs to arrays, one function per collection.

Each takes the downloaded paths in the order of its `Source`. Nothing here is unpickled: of `.npz`
files only plain arrays are read, and `.mat` files hold no code. Planetoid's pickles are read by
`planetoid`, whose unpickler knows a closed list of names.
"""

import gzip
import json
import zipfile
from pathlib import Path
from typing import IO

import numpy as np
from scipy import sparse

from zoo.datasets.files.graph_arrays import GraphArrays, checked
from zoo.datasets.files.prepared import read_prepared


def convert_heterophilous(paths: list[Path]) -> GraphArrays:
    """Read a graph of yandex-research/heterophilous-graphs: it is a prepared file already."""
    return read_prepared(paths[0])


def convert_gnn_benchmark(paths: list[Path]) -> GraphArrays:
    """Read an Amazon or Coauthor graph of shchur/gnn-benchmark (Shchur et al., 1811.05868).

    Features are 1 where the file has a positive count, as in all published results on them.
    """
    with np.load(paths[0], allow_pickle=False) as stored:
        adjacency, counts = (
            checked(
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
    rows = [node for node, columns in owned.items() for _ in columns if node < nodes]
    columns = [each for node, columns in owned.items() for each in columns if node < nodes]
    counts = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(nodes, 3170))
    return GraphArrays(edges, labels, (counts.tocsr() > 0).astype(np.float32))


def convert_deezer(paths: list[Path]) -> GraphArrays:
    """Read deezer-europe (Rozemberczki and Sarkar, 2005.07959): a MATLAB file of three arrays."""
    from scipy.io import loadmat

    content = loadmat(paths[0], variable_names=("A", "label", "features"))
    labels = content["label"].ravel().astype(np.int64)
    return GraphArrays(_edges_of(checked(content["A"])), labels, checked(content["features"]))


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
            columns = [np.bincount(ends, np.tile(each, 2), nodes) for each in rows.T]
            sums, start = sums + np.stack(columns, axis=1), start + len(rows)
    degree = np.bincount(edges.ravel(), minlength=nodes)
    return (sums / np.maximum(degree, 1)[:, None]).astype(np.float32)
