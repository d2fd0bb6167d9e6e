"""The prepared format: a graph as one `.npz` of plain arrays, read without ever unpickling.

Keys: `edges` (E, 2); `node_labels` (N,) or (N, T); `node_features` (N, F), or its CSR parts
`node_features_indptr`, `_indices`, `_data`, `_shape`; optionally `train_masks`, `val_masks` and
`test_masks` (S, N), `node_ids` (N,), `label_names` (C,), `feature_names` (F,), `edge_weights` (E,),
`edge_features` (E, D), `edge_feature_names` (D,), `node_times`, `node_groups`, `node_kinds` (N,),
`edge_relations`, `edge_times`, `edge_parts` (E,), `relation_names` (K,), `edge_form`,
`learnt_columns`, `task` (). Others are ignored. `x` (N, F) and `y` (N,), or `images`
(N, H, W[, C]) and `labels` (N,), are nodes without edges; all that is of nodes may stand beside
them. For people `data/README.md` describes it.
"""

import re
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile
from scipy import sparse

from zoo.config.learnt_columns import from_json, to_json
from zoo.data.files.graph_arrays import NO_EDGES, PARTS, GraphArrays, check_arrays, to_csr
from zoo.errors import ZooError, reading
from zoo.system.files import write_whole
from zoo.system.memory import available_memory
from zoo.tasks.labels import check_plain, doubtful, encode_text

KEYS = "edges, node_labels, node_features"
"""What every prepared file holds, for the sentences of errors."""

_OF_NODES = {"node_ids": "ids", "node_times": "times", "node_groups": "groups",
             "node_kinds": "kinds"}  # fmt: skip
_OF_EDGES = {"edge_weights": "weights", "edge_relations": "relations",
             "edge_features": "edge_features", "edge_times": "edge_times",
             "edge_parts": "edge_parts"}  # fmt: skip
"""Keys of arrays that may be there, to their names in `GraphArrays`."""

_NAMES = ("label_names", "feature_names", "relation_names", "edge_feature_names")
_WORDS = {"task": "task", "edge_form": "form"}

_CSR = ("indptr", "indices", "data", "shape")
_SPARSE = 0.1  # share of entries that are not zero, below which features are stored sparse
_WITHOUT_EDGES = {"x": "y", "images": "labels"}  # keys of samples, and of their classes
_LIKE_EDGES = re.compile(r"edges?(_.*)?|adj(acency)?(_.*)?")


def read_prepared(path: Path) -> GraphArrays:
    """Read a prepared file and check all of it.

    Raises:
        ZooError: the file cannot be read or what it holds is no graph: which key, where, and what
            to write instead.
    """
    with reading(path, "a prepared graph"):
        return check_arrays(read_unchecked(path))


def read_unchecked(path: Path) -> GraphArrays:
    """Read a prepared file as it is; raise ZooError, without the path, if it holds no graph."""
    with _open(path) as stored:
        samples = next((key for key in _WITHOUT_EDGES if key in stored.files), None)
        if samples and not {"edges", "node_labels", "node_features"} & {*stored.files}:
            arrays = _read_samples(stored, samples, _WITHOUT_EDGES[samples])
            fields = dict(_OF_NODES)
            names = {"feature_names": _words(stored, "feature_names")}
        else:
            labels = _array(stored, "node_labels")
            check_plain("node_labels", labels)
            arrays = GraphArrays(_array(stored, "edges"), labels, _features(stored))
            fields = _OF_NODES | _OF_EDGES
            names = {key: _words(stored, key) for key in _NAMES}
        arrays = arrays._replace(
            **{name: _array(stored, key) for key, name in fields.items() if key in stored.files},
            **{name: _word(stored, key) for key, name in _WORDS.items()},
            **names,
        )
        return arrays._replace(
            masks=_masks(stored), learnt=from_json(_word(stored, "learnt_columns"))
        )


def read_images(path: Path) -> tuple[np.ndarray, np.ndarray | None, dict[str, np.ndarray] | None]:
    """Read `images` of any `.npz` file, `labels` and masks if any; raise as `read_unchecked`."""
    with _open(path) as stored:
        labels = _array(stored, "labels") if "labels" in stored.files else None
        return _array(stored, "images"), labels, _masks(stored)


def read_split(path: Path, nodes: int) -> dict[str, np.ndarray]:
    """Read one split, `train`, `valid` and `test` in node numbers, as masks (1, nodes) bool each.

    Raises:
        ZooError: the file cannot be read, or a number in it is of no node.
    """
    masks = {}
    with reading(path, "a split"), _open(path) as stored:
        for part, key in zip(PARTS, ("train", "valid", "test"), strict=True):
            numbers = _array(stored, key)
            if numbers.dtype.kind not in "iu" or not ((numbers >= 0) & (numbers < nodes)).all():
                raise ZooError(f"`{key}` holds numbers that none of {nodes:,} nodes has.")
            masks[part] = np.zeros((1, nodes), bool)
            masks[part][0, numbers] = True
    return masks


def write_prepared(arrays: GraphArrays, path: Path | str) -> None:
    """Write a prepared file, whole or not at all; features mostly of zeros are stored sparse.

    Raises:
        ZooError: the arrays are no graph, or the path does not end in `.npz`.
    """
    path = Path(path)
    if path.suffix != ".npz":
        raise ZooError(f"{path} is no name of a prepared graph; write {path.name}.npz.")
    arrays = check_arrays(arrays)
    content = {key: getattr(arrays, name) for key, name in (_OF_NODES | _OF_EDGES).items()}
    for key in _NAMES:
        names = getattr(arrays, key)
        content[key] = None if names is None else np.array(names, str)
    words = {key: getattr(arrays, name) for key, name in _WORDS.items()}
    words["learnt_columns"] = to_json(arrays.learnt)
    content |= {key: None if word is None else np.array(word) for key, word in words.items()}
    content |= {f"{part}_masks": mask for part, mask in (arrays.masks or {}).items()}
    content |= {"edges": arrays.edges, "node_labels": arrays.labels}
    features = arrays.features
    filled = features.nnz if sparse.issparse(features) else np.count_nonzero(features)
    if filled < _SPARSE * features.shape[0] * features.shape[1]:
        rows = sparse.csr_array(features)
        rows.sum_duplicates()
        parts = (rows.indptr, rows.indices, rows.data, np.array(rows.shape, np.int64))
        content |= {f"node_features_{key}": part for key, part in zip(_CSR, parts, strict=True)}
    else:
        content["node_features"] = features.toarray() if sparse.issparse(features) else features
    content = {key: array for key, array in content.items() if array is not None}
    write_whole(path, lambda draft: np.savez_compressed(draft, **content))


def _read_samples(stored: NpzFile, samples: str, classes: str) -> GraphArrays:
    """Return samples (N, ...) and their labels, -1 where there are none: nodes without edges."""
    if edges := next(filter(_LIKE_EDGES.fullmatch, stored.files), None):
        raise ZooError(
            f"`{edges}` looks like edges, and `{samples}` is of samples without; "
            f"leave it out, or write {KEYS}, with `edges` of the shape (E, 2)."
        )
    beside = {samples, "label_names", "feature_names", "task", *_OF_NODES,
              *(f"{part}_masks" for part in PARTS)}  # fmt: skip
    others = [key for key in stored.files if key not in beside]
    if others and classes not in others:
        raise ZooError(
            f"the classes of `{samples}` are written as `{classes}`, and the file holds "
            f"`{others[0]}`; leave that out where they are not known."
        )
    x = _array(stored, samples)
    if x.ndim < 2 or len(x) == 0:
        raise ZooError(f"the samples have the shape {x.shape}; write (N, F), a row for each.")
    labels, names = np.full(len(x), -1), _words(stored, "label_names")
    if classes in others:
        labels = _array(stored, classes)
    if labels.dtype.kind != "U":
        check_plain(classes, labels)
    elif labels.ndim == 1:
        labels, names = encode_text(labels)
        if unsure := doubtful(names or ()):
            raise ZooError(
                f"`{classes}` holds {unsure[0]!r}, which may be a class or mean that it is "
                f"unknown; write '' if it is unknown, or name the class, such as "
                f"{f'class {unsure[0]}'!r}."
            )
    rows = x.reshape(len(x), -1)
    rows = _brightness(rows) if samples == "images" else rows
    return GraphArrays(NO_EDGES, labels, rows, label_names=names)


def _brightness(pixels: np.ndarray) -> np.ndarray:
    """Return pixels from 0 to 1, of bytes as of numbers that are so already."""
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / 255
    if pixels.dtype.kind not in "bf" or not ((pixels >= 0) & (pixels <= 1)).all():
        raise ZooError(
            f"`images` is of type {pixels.dtype}; brightness is written as uint8, 0 to 255, or as "
            "floats from 0 to 1. Of other features write `x`."
        )
    return pixels


_NEVER_UNPICKLED = (
    "holds Python objects, or is no .npz: objects are never unpickled, which could run any "
    "program. Write plain arrays, such as by zoo.data.write_prepared."
)


def _open(path: Path) -> NpzFile:
    try:
        stored = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ZooError("there is no such file; write the path of a prepared graph.") from None
    except ValueError:  # of what is neither a zip nor an array numpy believes that it is a pickle
        raise ZooError(f"the file {_NEVER_UNPICKLED}") from None
    if not isinstance(stored, NpzFile):
        raise ZooError(f"the file holds one array without a name; write an .npz with {KEYS}.")
    return stored


def _array(stored: NpzFile, key: str) -> np.ndarray:
    if key not in stored.files:
        raise ZooError(
            f"the key `{key}` is missing; the file holds {', '.join(stored.files) or 'nothing'}. "
            f"Write {KEYS} with zoo.data.write_prepared."
        )
    if stored.zip.getinfo(f"{key}.npy").file_size > available_memory():
        raise ZooError(f"`{key}` does not fit into memory; use a machine with more.")
    try:
        return stored[key]
    except ValueError as error:
        if "pickle" in str(error):
            raise ZooError(f"`{key}` {_NEVER_UNPICKLED}") from None
        raise


def _features(stored: NpzFile) -> np.ndarray | sparse.csr_array:
    if "node_features_indptr" not in stored.files:
        return _array(stored, "node_features")
    indptr, indices, data, shape = (_array(stored, f"node_features_{key}") for key in _CSR)
    if data.dtype == np.float16:  # scipy knows no such matrix
        data = data.astype(np.float32)
    return to_csr(sparse.csr_array((data, indices, indptr), shape=tuple(map(int, shape))))


def _masks(stored: NpzFile) -> dict[str, np.ndarray] | None:
    if not any(f"{part}_masks" in stored.files for part in PARTS):
        return None
    return {part: _array(stored, f"{part}_masks") for part in PARTS}


def _words(stored: NpzFile, key: str) -> tuple[str, ...] | None:
    if key not in stored.files:
        return None
    words = _array(stored, key)
    if words.dtype.kind != "U":
        raise ZooError(f"`{key}` is of type {words.dtype}; write text, np.array(names, dtype=str).")
    return tuple(map(str, words.ravel()))


def _word(stored: NpzFile, key: str) -> str | None:
    words = _words(stored, key)
    if words is not None and len(words) != 1:
        raise ZooError(f"`{key}` has {len(words)} words; write one.")
    return words and words[0]
