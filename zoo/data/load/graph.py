"""One graph: loaded by name or from files, and written on disk, also where it is never loaded."""

import dataclasses
import gzip
import logging
import os
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config.options import Spec, Table, option_problems, options_of
from zoo.data.dataset import Dataset
from zoo.data.files.graph_set_arrays import tu_folder
from zoo.data.files.pair_folders import has_pairs, pair_files
from zoo.data.files.text_lines import Texts
from zoo.data.load.by_name import DATASETS, common_options, load_data
from zoo.data.load.named import NAMED
from zoo.data.load.obtain import path_of
from zoo.data.load.readers import reader_of, whole_reader
from zoo.data.mapped.array_folder import array_folder, is_array_folder
from zoo.data.mapped.edge_list import SEPARATORS, edge_list, ending
from zoo.data.mapped.external_sort import ranges
from zoo.data.mapped.reader import META
from zoo.data.mapped.sbm import sbm_stream
from zoo.data.mapped.writer import Stream, in_blocks, write_on_disk
from zoo.data.samples import Separate
from zoo.data.splits import check_own_split
from zoo.data.tables.read import SUFFIXES
from zoo.errors import ZooError, reading
from zoo.graphs.adjacency import neighbours
from zoo.registry import discover
from zoo.system.files import user_path

STREAMS = Table(
    "kind of graph", {"sbm": sbm_stream, "edge list": edge_list, "arrays": array_folder}
)
"""What is never all in memory while it is written: what it is to function `-> Stream`."""


_LONGEST = 1_000_000  # bytes of a line


def load_graph(spec: Spec | Path, *, features: Spec = "raw", **options: Any) -> Dataset:
    """Load a graph by name, from files, or draw one; arguments as those of `load_data`.

    A name of `DATASETS` is looked for as `<name>.npz` in the folders of `ZOO_DATA` and downloaded
    once if it is in none. The path of a folder or a file is read (`READERS` says what a path may
    end in); any other name is that of a prepared graph in those folders. An on-disk graph is not
    read but mapped.

    Raises:
        ZooError: as `load_data`, or what it loads is no graph.
    """
    data = load_data(spec, features=features, **options)
    if not isinstance(data, Dataset):
        raise ZooError(
            f"{data.name} is no graph, but {len(data.y):,} {data.unit}; load it by `zoo.load_data`."
        )
    return data


def usual_batching(spec: Spec) -> str | None:
    """Return how data are dealt into batches by default, None where all is one; nothing is read.

    Args:
        spec: what names the data.
    """
    name = spec["name"] if isinstance(spec, Mapping) else spec
    builder = DATASETS[name] if name in DATASETS else whole_reader(path_of(name), spec)
    kind = builder and typing.get_type_hints(builder).get("return")
    usual = getattr(kind, "batching", Dataset.batching)[0]
    return None if usual == Dataset.batching[0] else usual


def whole_data(spec: dict[str, Any]) -> Dataset | Separate | None:
    """Return what a spec names where it is no file of a graph, None where it is one.

    Raises:
        ZooError: as `load_data`.
    """
    path, name = path_of(spec["name"]), spec["name"]
    if not path.exists():
        discover()  # it may be of another package
    drawn = name in DATASETS and name not in NAMED and not path.exists()
    return load_data(spec) if drawn or whole_reader(path, spec) else None


def prepare_on_disk(
    spec: Spec, folder: Path | str, *, half: bool = False, memory: float = 2.0
) -> None:
    """Write a graph as an on-disk graph.

    A list of edges, a folder of plain arrays, and `sbm` are read or drawn block by block; all else
    is loaded first, as `load_graph` does.

    Args:
        spec: what `load_graph` takes, or a path and options of `STREAMS`; `features: row` divides
            each row of features by its sum.
        folder: what to create or replace.
        half: write fp16 features.
        memory: GiB of edges to hold at a time.

    Raises:
        ZooError: the graph cannot be read, or not be written, or a file of it lies in the folder.
    """
    spec = dict(spec) if isinstance(spec, Mapping) else {"name": str(spec)}
    _refuse_sources_in(Path(folder), spec)
    options = {"half": half, "memory": memory}
    kind = _kind(spec)
    if kind is None:
        data = learnt_once(load_graph(spec))
        write_on_disk(from_dataset(data)._replace(made=spec), folder, **options)
        return
    _check(kind, spec)
    own = {key: each for key, each in spec.items() if key not in ("name", "features")}
    source = () if kind == "sbm" else (user_path(spec["name"]), own.pop("task", None))
    with reading(Path(spec["name"]), f"an {kind}", "write a smaller --memory"):
        if kind == "edge list" and spec.get("weights") != "ignore":
            _need_edges(*source[:1], spec)
        stream = STREAMS[kind](*source, **own)._replace(made=spec)
        write_on_disk(stream, folder, features=spec.get("features", "raw"), **options)


def _refuse_sources_in(folder: Path, spec: Mapping[str, Any]) -> None:
    """Refuse to replace what a graph is read from."""
    for text in (each for each in spec.values() if isinstance(each, str)):
        place = path_of(text) if text == spec["name"] else Path(os.path.expanduser(text))
        if os.path.exists(place) and place.resolve().is_relative_to(folder.resolve()):
            raise ZooError(f"{text} lies in {folder}, which would be replaced; write another name.")


def learnt_once(data: Dataset) -> Dataset:
    """Return a data set with features of columns for good: learnt of the training nodes of a split.

    Without a split of its own, or with several, they are those of all nodes, which a warning says.

    Raises:
        ZooError: its own split leaves a part empty.
    """
    check_own_split(data)
    if data.columns is None:
        return data
    if isinstance(data.columns, Texts):
        return _learnt_of_all(data)
    if data.masks is not None and len(data.masks["train"]) == 1:
        return data.trained_on(data.masks["train"][0].nonzero().flatten())
    logging.getLogger(__name__).warning(
        "%s has no split of its own: kinds, terms, means and deviations of its columns are those "
        "of all nodes, the test's too. Give it a column `split`, or train on the table itself, "
        "which learns them of training nodes alone.",
        data.name,
    )
    return _learnt_of_all(data)


def _learnt_of_all(data: Dataset) -> Dataset:
    """Return a data set with what its features, those of all nodes, have been learnt by."""
    try:
        return dataclasses.replace(data, learnt=tuple(data.columns.fit()))
    except ZooError:  # a column without any value, of which nothing can be learnt
        return data


def from_dataset(data: Dataset) -> Stream:
    """Return a data set that is loaded, or mapped, as a stream.

    Raises:
        ZooError: its edges have weights or features.
    """
    if data.graph.edata:
        raise ZooError(
            f"{data.name}: graphs on disk have no weights or features of edges and no "
            "direction. Leave out --on-disk, or write `weights=ignore` and no direction."
        )
    indptr, indices = (each.numpy() for each in neighbours(data.graph))
    x = data.x.numpy()

    def edges() -> Iterator[np.ndarray]:
        for first, last in ranges(indptr):
            targets = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
            sources = indices[indptr[first] : indptr[last]]
            once = sources < targets  # the other direction and the loops are added again
            yield np.stack([sources[once], targets[once]], axis=1)

    return Stream(
        edges,
        in_blocks(x),
        x.shape[1],
        data.y.numpy(),
        data.masks and {part: mask.numpy() for part, mask in data.masks.items()},
        data.ids,
        data.labels,
        data.feature_names,
        data.task,
        data.split,
        data.transform,
        x.dtype == np.float16,
        times=data.times,
        groups=data.groups,
        learnt=data.learnt,
    )


def _kind(spec: Mapping[str, Any]) -> str | None:
    """Return the word of `STREAMS` for what a spec names; None for what is loaded."""
    path = user_path(spec["name"])
    if spec["name"] == "sbm" and not path.exists():
        return "sbm"
    if is_array_folder(path):
        return "arrays"
    text = path.is_file() and ending(path) in SEPARATORS and "edges" not in spec
    return "edge list" if text else None


def _need_edges(path: Path, spec: Mapping[str, Any]) -> None:
    """Refuse a table of nodes, whose first line does not name the ends of edges."""
    said = spec.get("separator")
    separator = "\t" if said == "tab" else said or SEPARATORS[ending(path)]
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        lines = iter(lambda: file.readline(_LONGEST).decode("utf-8-sig", "replace"), "")
        first = next((line for line in lines if line.partition("#")[0].strip()), "")
    cells = first.split() if separator == r"\s+" else first.split(separator)
    names = [each.strip().strip('"').lower() for each in cells]
    told = [each for each in ("label", "id", "split") if each in names]
    if told and not {"source", "target"} & {*names}:
        raise ZooError(
            f"it has a column {told[0]!r}, as a table of nodes has, and --on-disk reads a list of "
            "edges here; leave --on-disk out, or call the columns of edges source and target."
        )


def _check(kind: str, spec: Mapping[str, Any]) -> None:
    common = () if kind == "sbm" else ("task",)
    given = {key: each for key, each in spec.items() if key != "name"}
    shared = {key: given.pop(key) for key in ("features", *common) if key in given}
    wrong = option_problems(kind, STREAMS[kind], given, (), options_of(common_options))
    wrong += option_problems(kind, common_options, shared, ())
    if wrong:
        raise ZooError(f"{spec['name']}: " + " ".join(map(str, wrong)))


def without_labels(spec: Spec, trained_on: Spec | None = None) -> Spec:
    """Return a spec of files of one's own whose labels are not looked at, if their reader can so.

    Args:
        spec: of the data that are to be predicted.
        trained_on: of the data of training, whose options say what reads the others.
    """
    own = dict(spec) if isinstance(spec, Mapping) else {"name": spec}
    if own["name"] in DATASETS or not (path := path_of(own["name"])).exists():
        return spec
    reader = whole_reader(path, trained_on or own) or whole_reader(path, own) or reader_of(path)
    return {"labels": "ignore", **own} if "labels" in options_of(reader) else spec


def own_files(spec: Spec) -> list[Path]:
    """Return the files of one's own graph; of one on disk `meta.json`, which knows the others."""
    spec = spec if isinstance(spec, Mapping) else {"name": spec}
    if not isinstance(spec.get("name"), str) or spec["name"] in DATASETS:
        given = spec.get("path")  # of words for files of one's own
        return [user_path(given)] if isinstance(given, str) and user_path(given).is_file() else []
    path, tables = path_of(spec["name"]), ("nodes", "edges")
    if has_pairs(path):
        return pair_files(path, spec.get("source"), spec.get("target"))
    if folder := tu_folder(path):
        return sorted(folder.glob("*_*.txt"))
    named = [
        path,
        *(Path(spec[each]).expanduser() for each in (*tables, "terms_of") if spec.get(each)),
    ]
    inside = [path / META, *(path / f"{each}{end}" for each in tables for end in SUFFIXES)]
    for start in tables if path.is_dir() else ():
        inside += sorted(each for end in SUFFIXES for each in path.glob(f"{start}-*{end}"))
    return [each for each in (*named, *(inside if path.is_dir() else [])) if each.is_file()]
