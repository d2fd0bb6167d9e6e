"""Graphs that come block by block, for `zoo data prepare --on-disk`: text, plain arrays, a model.

A list of edges in text (CSV, TSV, blanks, gzip) has two node ids per line. A folder of plain arrays
is the raw format of OGB's largest sets, such as papers100M: `edge_index` (2, E), `node_feat` (N, F)
and `node_label` (N,) or (N, T), each an `.npy` of its own (`node-feat.npy`) or in `data.npz` or
`node-label.npz`, in the folder or in `raw` in it; the splits are `train`, `valid` and `test` in the
folder or in `split/<scheme>`, numbers of nodes in `.npy` or `.csv.gz`. Nothing is unpickled, and
OGB's own loader is not used: it does.
"""

import gzip
import itertools
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal, NamedTuple

import numpy as np

from zoo.config.options import Count, Fraction, NonNegative, Positive, Seed
from zoo.data.files.graph_arrays import NO_EDGES, GraphArrays
from zoo.data.generated import check_sbm, sbm_room
from zoo.data.mapped.reader import map_array
from zoo.data.mapped.writer import BLOCK, Stream, blocks, check_edges_within, in_blocks
from zoo.data.tables.read import is_index
from zoo.errors import ZooError, cause
from zoo.system.files import user_path
from zoo.tasks.labels import CLASSIFICATION, REGRESSION, unlabelled

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": r"\s+"}
"""What a list of edges ends in, before `.gz`, to what stands between two numbers."""

_LONGEST = 1_000_000  # characters of a line
_SPARSE = 10  # nodes for each line of edges above which their numbers are thought to have gaps


def ending(path: Path) -> str:
    """Return what a path ends in, `.gz` left out."""
    return (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()


def edge_list(
    path: Path,
    task: str | None,
    *,
    nodes: Count | None = None,
    node_labels: str | None = None,
    node_features: str | None = None,
    weights: Literal["ignore"] | None = None,
    separator: str | None = None,
) -> Stream:
    """Read a list of edges: two columns of node numbers from 0, with or without a header.

    Where a header names source and target, these are the columns, else the first two; a column
    without a name, such as pandas writes of an index, is left out.

    Args:
        path: a `.csv`, `.tsv` or `.txt`, or any of them as `.gz`; what follows a # is no edge.
        task: what the labels are for.
        nodes: how many nodes there are; left out, as many as labels, features or the edges say.
        node_labels: an `.npy` of classes (N,), -1 = unknown, or targets (N, T); left out, none is
            known.
        node_features: an `.npy` of features (N, F); left out, there are none.
        weights: `ignore` reads the edges without the other columns.
        separator: between the columns, or `tab`; left out, a comma in `.csv`, a tab in `.tsv`, else
            blanks.

    Raises:
        ZooError: a line that is no edge, or other files that do not fit.
    """
    separator = "\t" if separator == "tab" else separator or SEPARATORS[ending(path)]
    text = _open_edges(path, separator, weights)
    labels = None if node_labels is None else np.array(map_array(user_path(node_labels)))
    features = None if node_features is None else map_array(user_path(node_features))
    sizes = {"nodes": nodes} if nodes else {}
    sizes |= {"node_labels": len(labels)} if labels is not None else {}
    sizes |= {"node_features": len(features)} if features is not None else {}
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{key}: {size:,}" for key, size in sizes.items())
        raise ZooError(f"there are not as many nodes everywhere ({shown}); write one of each.")
    count = next(iter(sizes.values())) if sizes else text.count_nodes()
    features = np.zeros((count, 0)) if features is None else features
    fix = "number the nodes from 0, or write as many labels and features"
    labels = unlabelled(count, task) if labels is None else labels
    return Stream(
        GraphArrays(NO_EDGES, labels, features, task=task),
        lambda: check_edges_within(text.blocks(), count, "edge {}", 1, fix),
        in_blocks(features),
        features.shape[1],
    )


class _EdgeText(NamedTuple):
    """A file of text that begins as a list of edges does."""

    path: Path
    separator: str
    header: bool
    columns: int
    ends: tuple[int, int]

    def count_nodes(self) -> int:
        """Return one more than the largest number of a node."""
        largest, lines = -1, 0
        for block in self.blocks():
            largest, lines = max(largest, int(block.max())), lines + len(block)
        if largest >= _SPARSE * max(lines, 1000):
            raise ZooError(
                f"the largest node is {largest:,} and there are {lines:,} edges only; number the "
                f"nodes from 0 without gaps, or write `nodes: {largest + 1}` if it is so."
            )
        return max(largest + 1, 1)

    def blocks(self) -> Iterator[np.ndarray]:
        """Give pairs of whole numbers (B, 2) as they stand."""
        import pandas

        # Of several characters pandas makes a pattern, which its quick reader does not know.
        quick = len(self.separator) == 1 or self.separator == r"\s+"
        try:
            with pandas.read_csv(
                self.path, sep=self.separator if quick else re.escape(self.separator),
                encoding="utf-8-sig", engine="c" if quick else "python",
                header=0 if self.header else None, names=range(self.columns), comment="#",
                dtype=dict.fromkeys(range(self.columns), "S1" if quick else str)
                | dict.fromkeys(self.ends, np.int64 if quick else np.float64),
                chunksize=BLOCK,  # without usecols, which hides cells too many
            ) as file:  # fmt: skip
                for frame in file:
                    if len(frame):
                        pairs = frame[[*self.ends]].to_numpy()
                        exact = (np.abs(pairs) < 2**53) & (pairs == pairs.round())
                        if pairs.dtype.kind == "f" and not exact.all():
                            raise ValueError("fractions, or too many digits")
                        yield pairs.astype(np.int64, copy=False)
        except (ValueError, OverflowError) as error:  # what pandas raises for text is a ValueError
            raise self._first_bad_line(" ".join(str(error).split())[:120]) from None

    def _first_bad_line(self, cause: str) -> ZooError:
        """Return the error that names the first line that is no edge."""
        header = self.header
        with _open(self.path) as file:
            for number, line in enumerate(file, 1):
                cells = _split_line(line, self.separator)
                if not any(cells):
                    continue
                if header:
                    header = False
                    continue
                ends = [cells[end] for end in self.ends] if len(cells) == self.columns else [""]
                if not all(map(_is_whole, ends)):
                    return ZooError(
                        f"line {number} is {line.strip()[:60]!r}; write two numbers of nodes, from "
                        "0, such as 3,17. Ids that are words go into a folder with nodes.csv and "
                        "edges.csv."
                    )
        return ZooError(
            f"it cannot be read as columns of numbers ({cause}); number the nodes from 0, with at "
            "most 18 digits."
        )


def _open_edges(path: Path, separator: str, weights: str | None) -> _EdgeText:
    """Return what the first lines say of all others; refuse other than two columns."""
    with _open(path) as file:
        lines = iter(lambda: file.readline(_LONGEST), "")
        rows = (cells for cells in (_split_line(line, separator) for line in lines) if any(cells))
        first = list(itertools.islice(rows, 2))
    header = not first or not any(map(_is_number, first[0][:2]))
    names = {name.lower() for name in first[0]} if first and header else set()
    of_nodes = [name for name in ("label", "id", "split") if name in names]
    if of_nodes and weights is None and not {"source", "target"} & names:
        raise ZooError(
            f"it has a column {of_nodes[0]!r}, as a table of nodes has, and --on-disk reads a list "
            "of edges here; leave --on-disk out, or call the columns of edges source and target."
        )
    line = first[min(header, len(first) - 1)] if first else ["", ""]
    ends, others = _find_ends(first[0] if first and header else [], len(line))
    if len(line) < 2 or (others > 0 and weights is None):
        raise ZooError(
            f"a line has {len(line)} columns ({str(line)[:60]}), and an edge is two numbers of "
            "nodes; write `separator` if something else stands between them, `weights: ignore` to "
            "leave out further columns."
        )
    if len(first) <= header:
        raise ZooError("there is no edge in the file; write two numbers of nodes a line.")
    return _EdgeText(path, separator, header, len(line), ends)


def _find_ends(names: list[str], columns: int) -> tuple[tuple[int, int], int]:
    """Return the places of both ends among the columns of a line, and how many others there are.

    Ends are where a header says source and target, else the first two of what has a name.
    """
    lower = [name.lower() for name in names]
    named = {"source", "target"} <= {*lower}
    if len(names) > columns or (named and len(names) < columns):
        raise ZooError(
            f"the first line names {len(names)} columns and the next has {columns}; write a name "
            "for each, source and target among them."
        )
    places = [*range(columns)]
    if len(names) == columns:
        places = [place for place in places if not is_index(names[place])]
    first, second = places[:2] if len(places) > 1 else (0, 1)
    if named:
        first, second = lower.index("source"), lower.index("target")
    return (first, second), len(places) - 2


def _open(path: Path) -> IO[str]:
    how = {"mode": "rt", "encoding": "utf-8-sig", "errors": "replace"}  # Excel marks what it writes
    return gzip.open(path, **how) if path.suffix == ".gz" else path.open(**how)


def _split_line(line: str, separator: str) -> list[str]:
    line = line.partition("#")[0].strip("\n")
    cells = line.split() if separator == r"\s+" else line.split(separator)
    return [cell.strip().strip('"') for cell in cells]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_whole(text: str) -> bool:
    """Return whether a cell is a whole number, such as 3 or 3.0."""
    plain = text.isascii() and "_" not in text
    return plain and _is_number(text) and float(text).is_integer()


# Folders of plain arrays

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

    labels = unlabelled(nodes, task) if label is None else _read_labels(label, task)
    return Stream(
        GraphArrays(NO_EDGES, labels, features, _read_masks(path, nodes), task=task),
        lambda: check_edges_within(
            read_edges(), nodes, "edge {} of edge_index", 0, "fetch the files again"
        ),
        in_blocks(features),
        features.shape[1],
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


# The stochastic block model

_OWN, _OTHER, _NOISE, _CENTRES, _ORDER = range(5)  # streams of random numbers of one seed


def sbm_stream(
    *,
    nodes: Count = 1000,
    classes: Count = 4,
    degree: Positive = 10.0,
    homophily: Fraction = 0.8,
    dim: Count = 16,
    noise: NonNegative = 1.0,
    seed: Seed = 0,
) -> Stream:
    """Draw the random graph that `sbm` draws, each block of it from a generator of its own.

    Numbers of edges are right on average here, and exact there: pairs are drawn with repetition,
    as many more as are expected to be drawn again. The graph of a seed is another one than there.

    Args:
        nodes: how many nodes.
        classes: how many classes, as equal in size as can be.
        degree: mean number of neighbours, the node itself not counted.
        homophily: share of the edges that join nodes of one class.
        dim: how many features.
        noise: standard deviation of the noise in each feature.
        seed: of the private generators.

    Raises:
        ZooError: fewer nodes than classes, or more edges than so few nodes have room for.
    """
    check_sbm(nodes, classes)
    # Nodes in the order of their classes, which are runs of it; `order` says who they are.
    order = np.random.default_rng([seed, _ORDER]).permutation(nodes)
    runs = np.arange(nodes) * classes // nodes
    labels = np.empty(nodes, np.int64)
    labels[order] = runs
    size = np.bincount(runs)
    first = np.cumsum(size) - size
    total = round(nodes * degree / 2)
    same = round(total * homophily)
    inside, outside = sbm_room(size, same, total - same)
    centres = np.random.default_rng([seed, _CENTRES]).standard_normal((classes, dim), np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)

    def pairs(kind: int, count: int, room: int) -> Iterator[np.ndarray]:
        # Of d draws room * (1 - exp(-d / room)) different pairs are expected. A draw of the own
        # class is the node itself with probability classes / nodes, and is then left out.
        wanted = -room * np.log1p(-min(count / room, 1 - 0.5 / room)) if count else 0.0
        draws = round(wanted / (1 - classes / nodes * (kind == _OWN))) if count else 0
        for number, block in enumerate(blocks(draws, BLOCK)):
            generator = np.random.default_rng([seed, kind, number])
            ends = generator.integers(nodes, size=block.stop - block.start)
            start, width = first[runs[ends]], size[runs[ends]]
            if kind == _OWN:
                others = start + generator.integers(width)
            else:  # drawn from the nodes without the run of this class, which is then stepped over
                others = generator.integers(nodes - width)
                others += width * (others >= start)
            keep = ends != others
            yield order[np.stack([ends[keep], others[keep]], axis=1)]

    def edges() -> Iterator[np.ndarray]:
        yield from pairs(_OWN, same, inside)
        yield from pairs(_OTHER, total - same, outside)

    def features(rows: int) -> Iterator[np.ndarray]:
        for number, block in enumerate(blocks(nodes, rows)):
            generator = np.random.default_rng([seed, _NOISE, number])
            x = generator.standard_normal((block.stop - block.start, dim), np.float32)
            x *= np.float32(noise)
            x += centres[labels[block]]
            yield x

    known = GraphArrays(NO_EDGES, labels, np.zeros((nodes, 0)), task=CLASSIFICATION)
    return Stream(known, edges, features, dim)
