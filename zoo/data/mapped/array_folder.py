"""Stream a folder of plain arrays: the raw format of OGB's largest sets, such as papers100M.

`edge_index` (2, E), `node_feat` (N, F) and `node_label` (N,) or (N, T), each an `.npy` of its own
(`node-feat.npy`) or in `data.npz` or `node-label.npz`, in the folder or in `raw` in it; the splits
are `train`, `valid` and `test` in the folder or in `split/<scheme>`, numbers of nodes in `.npy` or
`.csv.gz`. Nothing is unpickled, and OGB's own loader is not used: it does.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from zoo.data.mapped.array_file import map_array
from zoo.data.mapped.external_sort import BLOCK, check_edges_within
from zoo.data.mapped.writer import Stream, blocks, in_blocks
from zoo.errors import ZooError, cause
from zoo.tasks.labels import REGRESSION, unlabelled

_EDGES, _FEATURES, _LABELS = "edge_index", "node_feat", "node_label"
_PARTS = {"train": ("train",), "val": ("valid", "val"), "test": ("test",)}


def is_array_folder(path: Path) -> bool:
    """Return whether a folder has edges as such a folder has them."""
    return path.is_dir() and _find(path, _EDGES) is not None


def array_folder(path: Path, task: str | None) -> Stream:
    """Read a folder of plain arrays: edge_index, node_feat, node_label, and split/*.

    Args:
        path: the folder.
        task: what the labels are for; None: as their shape says.

    Raises:
        ZooError: an array is missing, or of another shape.
    """
    edges, features, label = (
        place and map_array(*place)
        for place in (_find(path, key) for key in (_EDGES, _FEATURES, _LABELS))
    )
    if features is None and label is None:
        raise ZooError("neither node-feat nor node-label says how many nodes there are.")
    features = np.zeros((len(label), 0), np.float32) if features is None else features
    nodes = len(features)
    if edges.ndim != 2 or 2 not in edges.shape or edges.dtype.kind not in "iu":
        raise ZooError(f"edge_index is {edges.dtype} of the shape {edges.shape}; write (2, E).")
    if features.ndim != 2:
        raise ZooError(f"node_feat has the shape {features.shape}; write (N, F).")
    pairs = edges.T if len(edges) == 2 else edges  # (E, 2)

    def read_edges() -> Iterator[np.ndarray]:
        for block in blocks(len(pairs), BLOCK):
            yield np.array(pairs[block])

    return Stream(
        lambda: check_edges_within(
            read_edges(), nodes, "edge {} of edge_index", 0, "fetch the files again"
        ),
        in_blocks(features),
        features.shape[1],
        unlabelled(nodes, task) if label is None else _read_labels(label, task),
        _read_masks(path, nodes),
        task=task,
        half=features.dtype == np.float16,
    )


def _find(folder: Path, key: str) -> tuple[Path, str | None] | None:
    """Return the file of an array, wherever it lies in the folder, and its name in an `.npz`."""
    dashed = key.replace("_", "-")
    for where in (folder, folder / "raw"):
        for path in (where / f"{dashed}.npy", where / f"{key}.npy"):
            if path.is_file():
                return path, None
        for path in (where / f"{dashed}.npz", where / f"{key}.npz", where / "data.npz"):
            if path.is_file():
                try:
                    with zipfile.ZipFile(path) as archive:
                        names = archive.namelist()
                except zipfile.BadZipFile:
                    raise ZooError(f"{path} is no .npz file, or a part of one; fetch it again.") \
                        from None  # fmt: skip
                if f"{key}.npy" in names:
                    return path, key
    return None


def _read_labels(array: np.ndarray, task: str | None) -> np.ndarray:
    labels = np.array(array)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 1 and labels.dtype.kind == "f" and task != REGRESSION:
        filled = np.where(np.isnan(labels), -1, labels)
        return filled.astype(np.int64) if (filled == np.floor(filled)).all() else labels
    return labels


def _read_masks(folder: Path, nodes: int) -> dict[str, np.ndarray] | None:
    schemes = sorted(path for path in folder.glob("split/*") if path.is_dir())
    if len(schemes) > 1:
        names = ", ".join(path.name for path in schemes)
        raise ZooError(f"there are several splits ({names}); keep one of them in split/.")
    where = schemes[0] if schemes else folder
    splits = {part: _read_split(where, words) for part, words in _PARTS.items()}
    if all(index is None for index in splits.values()):
        return None
    masks = {}
    for part, index in splits.items():
        if index is None:
            raise ZooError(f"{where} has no {_PARTS[part][0]}.csv.gz or .npy, and others of them.")
        if (
            index.ndim != 1
            or index.dtype.kind not in "iu"
            or ((index < 0) | (index >= nodes)).any()
        ):
            raise ZooError(f"{where}: {part} is no list of nodes, 0 to {nodes - 1}.")
        masks[part] = np.zeros((1, nodes), bool)
        masks[part][0, index] = True
    return masks


def _read_split(folder: Path, words: tuple[str, ...]) -> np.ndarray | None:
    import pandas

    for word in words:
        if (path := folder / f"{word}.npy").is_file():
            return np.array(map_array(path))
        for path in (folder / f"{word}.csv.gz", folder / f"{word}.csv"):
            if path.is_file():
                try:
                    rows = pandas.read_csv(path, header=None).to_numpy()
                except ValueError as error:
                    raise ZooError(f"{path} is no list of nodes ({cause(error)}).") from None
                if rows.shape[1] != 1:
                    raise ZooError(f"{path} has {rows.shape[1]} columns; write a node a line.")
                return rows.ravel()
    return None
