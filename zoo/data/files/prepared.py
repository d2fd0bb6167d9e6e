"""The prepared format: a graph as one `.npz` of plain arrays, read without ever unpickling.

Keys: `edges` (E, 2); `node_labels` (N,) or (N, T); `node_features` (N, F), or its CSR parts
`node_features_indptr`, `_indices`, `_data`, `_shape`; optionally `train_masks`, `val_masks` and
`test_masks` (S, N), `node_ids` (N,), `label_names` (C,), `feature_names` (F,), `edge_weights` (E,),
`edge_features` (E, D), `edge_feature_names` (D,), `node_times`, `node_groups`, `node_kinds` (N,),
`edge_relations` (E,), `relation_names` (K,), `edge_form`, `learnt_columns`, `task` (). Others are
ignored. `x` (N, F) and `y` (N,), or `images` (N, H, W[, C]) and `labels` (N,), are nodes without
edges; all that is of nodes may stand beside them. For people `data/README.md` describes it.
"""

import re
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile
from scipy import sparse

from zoo.config.learnt_columns import from_json, to_json
from zoo.data.files.graph_arrays import NO_EDGES, PARTS, GraphArrays, check_arrays, checked
from zoo.errors import ZooError, cause, of_file
from zoo.system.files import write_whole
from zoo.system.memory import available_memory
from zoo.tasks.labels import check_plain, doubtful, encode_text

KEYS = "edges, node_labels, node_features"
"""What every prepared file holds, for the sentences of errors."""

_CSR = ("indptr", "indices", "data", "shape")
_SPARSE = 0.1  # share of entries that are not zero, below which features are stored sparse
_ALONE = {"x": "y", "images": "labels"}  # keys of samples without edges, and of their classes
_BESIDE = {"node_ids", "label_names", "feature_names", "task", "node_times", "node_groups",
           *(f"{part}_masks" for part in ("train", "val", "test"))}  # fmt: skip
_LIKE_EDGES = re.compile(r"edges?(_.*)?|adj(acency)?(_.*)?")


def read_prepared(path: Path) -> GraphArrays:
    """Read a prepared file and check all of it.

    Raises:
        ZooError: the file cannot be read or what it holds is no graph: which key, where, and what
            to write instead.
    """
    try:
        return check_arrays(read_unchecked(path))
    except ZooError as error:
        raise of_file(path, error) from None


def read_unchecked(path: Path) -> GraphArrays:
    """Read a prepared file as it is; raise ZooError, without the path, if it cannot be read."""
    with _open(path) as stored:
        alone = next((key for key in _ALONE if key in stored.files), None)
        if alone and not {"edges", "node_labels", "node_features"} & {*stored.files}:
            arrays = _without_edges(stored, alone, _ALONE[alone])
        else:
            labels = _array(stored, "node_labels")
            check_plain("node_labels", labels)
            arrays = GraphArrays(
                _array(stored, "edges"),
                labels,
                _features(stored),
                label_names=_words(stored, "label_names"),
                weights=_given(stored, "edge_weights"),
                relations=_given(stored, "edge_relations"),
                relation_names=_words(stored, "relation_names"),
                edge_features=_given(stored, "edge_features"),
                edge_feature_names=_words(stored, "edge_feature_names"),
                form=_word(stored, "edge_form"),
            )
        return arrays._replace(
            masks=_masks(stored),
            ids=_given(stored, "node_ids"),
            feature_names=_words(stored, "feature_names"),
            task=_word(stored, "task"),
            times=_given(stored, "node_times"),
            groups=_given(stored, "node_groups"),
            kinds=_given(stored, "node_kinds"),
            learnt=from_json(_word(stored, "learnt_columns")),
        )


def read_images(path: Path) -> tuple[np.ndarray, np.ndarray | None]:
    """Read `images` of any `.npz` file, and `labels` if any; raise ZooError without the path."""
    with _open(path) as stored:
        return _array(stored, "images"), _given(stored, "labels")


def read_masks(path: Path) -> dict[str, np.ndarray] | None:
    """Read `train_masks`, `val_masks`, `test_masks` of any `.npz` file; raise as `read_images`."""
    with _open(path) as stored:
        return _masks(stored)


def read_split(path: Path, nodes: int) -> dict[str, np.ndarray]:
    """Read one split, `train`, `valid` and `test` in node numbers, as masks (1, nodes) bool each.

    Raises:
        ZooError: the file cannot be read, or a number in it is of no node.
    """
    masks = {}
    with _open(path) as stored:
        for part, key in zip(PARTS, ("train", "valid", "test"), strict=True):
            numbers = _array(stored, key)
            if numbers.dtype.kind not in "iu" or not ((numbers >= 0) & (numbers < nodes)).all():
                raise ZooError(f"{path}: `{key}` holds numbers that none of {nodes:,} nodes has.")
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
    content = {"edges": arrays.edges, "node_labels": arrays.labels, **_stored(arrays.features)}
    content |= {f"{part}_masks": mask for part, mask in (arrays.masks or {}).items()}
    named = {"label_names": arrays.label_names, "feature_names": arrays.feature_names,
             "relation_names": arrays.relation_names,
             "edge_feature_names": arrays.edge_feature_names}  # fmt: skip
    content |= {key: np.array(names, str) for key, names in named.items() if names is not None}
    given = {"node_ids": arrays.ids, "edge_weights": arrays.weights,
             "node_times": arrays.times, "node_groups": arrays.groups, "node_kinds": arrays.kinds,
             "edge_relations": arrays.relations,
             "edge_features": arrays.edge_features}  # fmt: skip
    content |= {key: each for key, each in given.items() if each is not None}
    words = {"task": arrays.task, "edge_form": arrays.form}
    words |= {"learnt_columns": to_json(arrays.learnt)}
    content |= {key: np.array(word) for key, word in words.items() if word is not None}
    write_whole(path, lambda draft: np.savez_compressed(draft, **content))


def _without_edges(stored: NpzFile, samples: str, classes: str) -> GraphArrays:
    """Return samples (N, ...) and their labels, -1 where there are none: nodes without edges."""
    if edges := next(filter(_LIKE_EDGES.fullmatch, stored.files), None):
        raise ZooError(
            f"`{edges}` looks like edges, and `{samples}` is of samples without; "
            f"leave it out, or write {KEYS}, with `edges` of the shape (E, 2)."
        )
    others = [key for key in stored.files if key != samples and key not in _BESIDE]
    if others and classes not in others:
        raise ZooError(
            f"the classes of `{samples}` are written as `{classes}`, and the file holds "
            f"`{others[0]}`; leave that out where they are not known."
        )
    x, labels = _array(stored, samples), _given(stored, classes)
    labels = np.full(x.shape[:1], -1) if labels is None else labels
    if x.ndim < 2 or len(x) == 0:
        raise ZooError(f"the samples have the shape {x.shape}; write (N, F), a row for each.")
    rows = x.reshape(len(x), -1)
    if samples == "images":
        rows = _brightness(rows)
    names = None
    if labels.dtype.kind != "U":
        check_plain(classes, labels)
        names = _words(stored, "label_names")
    elif labels.ndim == 1:
        labels, names = encode_text(labels)
        if told := doubtful(names or ()):
            raise ZooError(
                f"`{classes}` holds {told[0]!r}, which may be a class or mean that it is unknown; "
                f"write '' if it is unknown, or name the class, such as {f'class {told[0]}'!r}."
            )
    return GraphArrays(NO_EDGES, labels, rows, label_names=names)


def _brightness(pixels: np.ndarray) -> np.ndarray:
    """Return pixels from 0 to 1, of bytes as of numbers that are so already."""
    if pixels.dtype == np.uint8:
        return pixels.astype(np.float32) / 255
    kind = pixels.dtype.kind
    if kind not in "bf" or not ((pixels >= 0) & (pixels <= 1)).all():
        raise ZooError(
            f"`images` is of type {pixels.dtype}; brightness is written as uint8, 0 to 255, or as "
            "floats from 0 to 1. Of other features write `x`."
        )
    return pixels


def _open(path: Path) -> NpzFile:
    try:
        stored = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise ZooError("there is no such file; write the path of a prepared graph.") from None
    except PermissionError:
        raise ZooError("the file may not be read; change its permissions.") from None
    except Exception as error:  # numpy and zipfile raise what the bytes suggest
        said = cause(error).partition(". If you trust")[0]  # numpy's advice to unpickle it
        raise ZooError(
            f"this is no .npz file, or a part of one ({said}). Plain arrays are read, and "
            "objects never unpickled: fetch the file again, or write it with "
            "zoo.data.write_prepared."
        ) from None
    if not isinstance(stored, NpzFile):
        raise ZooError(f"the file holds one array without a name; write an .npz with {KEYS}.")
    return stored


def _array(stored: NpzFile, key: str) -> np.ndarray:
    if key not in stored.files:
        raise ZooError(
            f"the key `{key}` is missing; the file holds {', '.join(stored.files) or 'nothing'}. "
            f"Write {KEYS} with zoo.data.write_prepared."
        )
    try:
        if stored.zip.getinfo(f"{key}.npy").file_size > available_memory():
            raise MemoryError
        return stored[key]
    except MemoryError:
        raise ZooError(
            f"`{key}` does not fit into memory; use a machine with more, or check that the file is "
            "what it should be."
        ) from None
    except Exception as error:  # numpy and zipfile raise what the bytes suggest
        if "pickle" in str(error):
            raise ZooError(
                f"`{key}` holds Python objects, which are never unpickled: they could run any "
                "program. Write a plain array of numbers instead."
            ) from None
        raise ZooError(
            f"`{key}` cannot be read ({cause(error)}). Fetch it again, or write it with "
            "zoo.data.write_prepared."
        ) from None


def _given(stored: NpzFile, key: str) -> np.ndarray | None:
    return _array(stored, key) if key in stored.files else None


def _features(stored: NpzFile) -> np.ndarray | sparse.csr_array:
    if "node_features_indptr" not in stored.files:
        return _array(stored, "node_features")
    indptr, indices, data, shape = (_array(stored, f"node_features_{part}") for part in _CSR)
    try:
        whole = (indptr, indices, shape)
        if not all(each.dtype.kind in "iu" and each.ndim == 1 for each in whole) or data.ndim != 1:
            raise ValueError("they should be one-dimensional, and of whole numbers but for data")
        if data.dtype == np.float16:  # scipy knows no such matrix
            data = data.astype(np.float32)
        rows, columns = map(int, shape)
        return checked(sparse.csr_array((data, indices, indptr), shape=(rows, columns)))
    except (ValueError, TypeError) as error:
        raise ZooError(
            f"the CSR parts `node_features_*` are broken ({cause(error)}). Store indptr, indices, "
            "data and shape of a scipy CSR array, or `node_features` as a dense (N, F) array."
        ) from None


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


def _stored(features: np.ndarray | sparse.csr_array) -> dict[str, np.ndarray]:
    filled = features.nnz if sparse.issparse(features) else np.count_nonzero(features)
    if filled >= _SPARSE * features.shape[0] * features.shape[1]:
        dense = features.toarray() if sparse.issparse(features) else features
        return {"node_features": dense}
    rows = sparse.csr_array(features)
    rows.sum_duplicates()
    arrays = (rows.indptr, rows.indices, rows.data, np.array(rows.shape, np.int64))
    return {f"node_features_{part}": each for part, each in zip(_CSR, arrays, strict=True)}
