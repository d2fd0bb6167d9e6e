"""Download the named graphs, convert them, and cache each as a prepared file."""

import hashlib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.files.graph_set_arrays import tu_folder
from zoo.data.files.pair_folders import has_pairs
from zoo.data.files.prepared import KEYS, read_split, write_prepared
from zoo.data.mapped.reader import is_on_disk
from zoo.errors import ZooError
from zoo.system.cache import data_folders
from zoo.system.files import draft_folder, user_path, writing
from zoo.system.http import download

URLS = {
    "planetoid": "https://raw.githubusercontent.com/kimiyoung/planetoid/master/data",
    "gnn-benchmark": "https://github.com/shchur/gnn-benchmark/raw/master/data/npz",
    "wikics": "https://github.com/pmernyei/wiki-cs-dataset/raw/master/dataset",
    "heterophilous": (
        "https://raw.githubusercontent.com/yandex-research/heterophilous-graphs/main/data"
    ),
    "ogb": "https://snap.stanford.edu/ogb/data/nodeproppred",
    "non-homophily": "https://github.com/CUAI/Non-Homophily-Large-Scale/raw/master/data",
    "tunedGNN": (
        "https://raw.githubusercontent.com/LUOyk1999/tunedGNN/"
        "23f9604e8b13a9a6d3faa2f691cd844006979153/medium_graph/data"
    ),
}
"""Where each collection is published; a mirror is used by changing its line."""

PAIRS = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
"""Where Multi30k is published; a mirror is used by changing this line."""

SETS = "https://www.chrsmrrs.com/graphkerneldatasets"
"""Where the TU collection is published; a mirror is used by changing this line."""

_PUBLISHED = {"train": "train", "val": "val", "test": "test_2016_flickr"}


class SplitFile(NamedTuple):
    """The one split that a graph's numbers are published on: a file of tunedGNN, its SHA-256."""

    file: str
    sha256: str


class Source(NamedTuple):
    """Files of a collection, and the function that makes a graph of their paths, in this order."""

    collection: str
    files: tuple[str, ...]
    convert: Callable[[list[Path]], GraphArrays]


def obtain(name: str, source: Source | None, nodes: int) -> Path:
    """Convert the published files of a named graph, write it as `<name>.npz` into the data folder.

    They are looked for in the data folders first, and downloaded where they are in none. Where
    another process is at it, its file is waited for.

    Args:
        name: what the file is called.
        source: where it is from.
        nodes: how many nodes it is known to have.

    Returns:
        The path of the prepared file. Nothing else is left behind, whatever happens.

    Raises:
        ZooError: it cannot be downloaded, or is not what was published; says which file to put
            where instead.
    """
    folder = data_folders()[0]
    if source is None:
        raise _by_hand(name, source, "no public address is known that is safe to download from")
    if paths := published(name, source):
        try:
            arrays = _converted(source, paths, nodes, f"the {paths[0].name} of {paths[0].parent}")
        except ZooError as error:
            raise ZooError(f"{name}: {error}; put the published files there, or none.") from None
        write_prepared(arrays, folder / f"{name}.npz")
        return folder / f"{name}.npz"
    try:
        with draft_folder(folder / name, wait=True) as raw:
            if not (folder / f"{name}.npz").exists():
                paths = [raw / Path(file).name for file in source.files]
                for file, path in zip(source.files, paths, strict=True):
                    download(f"{URLS[source.collection]}/{file}", path)
                write_prepared(_converted(source, paths, nodes), folder / f"{name}.npz")
    except ZooError as error:
        raise _by_hand(name, source, str(error)) from None
    return folder / f"{name}.npz"


def published(name: str, source: Source) -> list[Path] | None:
    """Return the published files of a named graph in the data folders, None where some are missing.

    They lie in a folder of data itself, in one that is called like the graph or its collection, or
    in `raw` in it, as PyG and OGB leave them; files with a name of many graphs not in the first.
    """
    words = {name, name.capitalize(), source.collection}
    for folder in data_folders():
        own = [folder / word for word in sorted(words)]
        places = [*own, *(each / "raw" for each in own)]
        if not source.files[0].startswith("data."):
            places.insert(0, folder)
        for place in places:
            paths = [place / Path(file).name for file in source.files]
            if all(each.is_file() for each in paths):
                return paths
    return None


def find_split(name: str, split: SplitFile) -> Path | None:
    """Return the file of a graph's published split in the data folders, None where none has it.

    It is `splits/<name>.npz` there, or what it is called at its source, in `tunedGNN` or not.
    """
    places = (f"splits/{name}.npz", split.file, f"tunedGNN/{split.file}")
    found = (folder / each for folder in data_folders() for each in places)
    return next((each for each in found if each.is_file()), None)


def obtain_split(name: str, split: SplitFile, nodes: int) -> dict[str, Tensor]:
    """Return the published split of a graph, downloaded where no data folder has its file.

    Args:
        name: of the graph.
        split: its file.
        nodes: of the graph as it was loaded.

    Returns:
        `train`, `val` and `test`, each (1, nodes) bool.

    Raises:
        ZooError: it cannot be downloaded, or is another file; says which file to put where.
    """
    url, own = f"{URLS['tunedGNN']}/{split.file}", data_folders()[0] / "splits" / f"{name}.npz"
    instead = "or write split: ratio-60-20-20, which is drawn at random."
    path = find_split(name, split)
    if path is None:
        try:
            download(url, path := own, sha256=split.sha256)
        except ZooError as error:
            cause = str(error).rstrip(".")
            raise ZooError(
                f"the published split of {name} is not here: {cause}. Put that file there as "
                f"{own}, {instead}"
            ) from None
    elif hashlib.sha256(path.read_bytes()).hexdigest() != split.sha256:
        raise ZooError(
            f"{path} is not the published split of {name}, by its checksum; put {url} in its "
            f"place, {instead}"
        )
    return {part: torch.from_numpy(mask) for part, mask in read_split(path, nodes).items()}


def obtain_pairs(folder: Path) -> Path:
    """Download the files of Multi30k in English and German into a folder, whole or not at all.

    Where another process is at it, its folder is waited for.

    Returns:
        The folder.

    Raises:
        ZooError: they cannot be downloaded; says which files to put where instead.
    """
    files = {
        f"{part}.{language}.gz": f"{published}.{language}.gz"
        for part, published in _PUBLISHED.items()
        for language in ("en", "de")
    }
    try:
        with draft_folder(folder, wait=True) as draft:
            if not has_pairs(folder):
                for file, published in files.items():
                    download(f"{PAIRS}/{published}", draft / file)
                draft.rename(folder)
    except ZooError as error:
        folders = ", ".join(map(str, data_folders()))
        raise ZooError(
            f"{folder.name} is not in {folders}, and {str(error).rstrip('.')}. Put "
            f"{', '.join(files)} into {folder}, as they are at {PAIRS} (test is "
            f"{files['test.en.gz']} there), or name the folder that has {folder.name} in ZOO_DATA."
        ) from None
    return folder


def obtain_set(name: str) -> Path:
    """Return the folder of a set of the TU collection, downloaded where no data folder has it.

    Raises:
        ZooError: it cannot be downloaded; says which files to put where instead.
    """
    places = [folder / name for folder in data_folders()]
    if found := next(filter(tu_folder, places), None):
        return found
    folder, url = places[0], f"{SETS}/{name}.zip"
    try:
        with draft_folder(folder, wait=True) as draft:
            if not tu_folder(folder):
                download(url, draft / "set.zip")
                _unpack(draft / "set.zip", name)
                (draft / "set.zip").unlink()
                draft.rename(folder)
    except ZooError as error:
        raise ZooError(
            f"{name} is in none of {', '.join(str(each.parent) for each in places)}, and "
            f"{str(error).rstrip('.')}. Put the files of {url} ({name}_A.txt and others) into "
            f"{folder}, or name the folder that has {name} in ZOO_DATA."
        ) from None
    return folder


def _unpack(path: Path, name: str) -> None:
    """Write the texts of an archive beside it, whatever folders it has them in."""
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                file = Path(member).name
                if file.startswith(f"{name}_") and file.endswith(".txt"):
                    content = archive.read(member)
                    with writing(path):
                        (path.parent / file).write_bytes(content)
    except (ZooError, MemoryError):
        raise
    except Exception as error:  # one that is damaged or encrypted makes it raise nearly anything
        raise ZooError(f"what was downloaded is no archive ({error})") from None


def check_size(name: str, path: Path, arrays: GraphArrays, nodes: int) -> None:
    """Refuse a file that is called like a named graph and is another.

    Raises:
        ZooError: it has another number of nodes, not counting those at its end that have neither
            label nor edge.
    """
    found, more = len(arrays.labels), arrays.labels[nodes:]
    unknown = more.size and (np.isnan(more) | (more < 0)).all()
    if found != nodes and not (unknown and arrays.edges.max(initial=-1) < nodes):
        raise ZooError(
            f"{path} has {found:,} nodes, and {name} has {nodes:,}: it is another graph, or "
            f"another version. Give it another name, or put {name} there."
        )


def _converted(
    source: Source, paths: list[Path], nodes: int, what: str = "what was downloaded"
) -> GraphArrays:
    try:
        arrays = source.convert(paths)
    except (ZooError, MemoryError):
        raise
    except Exception as error:  # readers of eight formats raise nearly anything
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise ZooError(f"{what} is not in the published layout ({cause})") from error
    if len(arrays.labels) != nodes:
        raise ZooError(f"{what} has {len(arrays.labels):,} nodes and not the {nodes:,} published")
    return arrays


def _by_hand(name: str, source: Source | None, cause: str) -> ZooError:
    folders = ", ".join(map(str, data_folders()))
    files = [Path(file).name for file in source.files] if source else []
    files = [*files[:2], "..."] if len(files) > 3 else files
    raw = f", or the published {', '.join(files)} as they are," if files else ""
    return ZooError(
        f"{name} is not in {folders}, and {cause.rstrip('.')}. Put a prepared file {name}.npz "
        f"(with {KEYS}; data/README.md says how to get it){raw} into {data_folders()[0]}, or name "
        "the folder that has it in ZOO_DATA."
    )


def path_of(name: str) -> Path:
    """Return the path that a name is, or that of the prepared graph of this name."""
    path = user_path(name)
    return path if path.exists() or path.name != name else find(name) or path


def find(name: str) -> Path | None:
    """Return the prepared graph, or the folder, of this name in the data folders; None if none."""
    files = [folder / f"{name}.npz" for folder in data_folders()]
    found = [each for each in files if each.is_file()]
    folders = [folder / name for folder in data_folders()]
    found += [each for each in folders if is_on_disk(each) or has_pairs(each) or tu_folder(each)]
    return found[0] if found else None


def on_disk_folder(name: str) -> Path | None:
    """Return the folder of the on-disk graph that a path or a name is; None if it is none."""
    path = path_of(name)
    return path if is_on_disk(path) else None
