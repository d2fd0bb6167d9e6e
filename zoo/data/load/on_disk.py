"""Writing a graph on disk, also one that never fits into memory, for `zoo data prepare`."""

import dataclasses
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zoo.config.options import Spec, Table, option_problems, options_of
from zoo.data.dataset import Dataset
from zoo.data.files.text_lines import Texts
from zoo.data.load.by_name import common_options, load_graph
from zoo.data.load.named import path_of
from zoo.data.mapped.streams import (
    SEPARATORS,
    array_folder,
    edge_list,
    ending,
    is_array_folder,
    sbm_stream,
)
from zoo.data.mapped.writer import Stream, in_blocks, ranges, write_on_disk
from zoo.data.splits import check_built_in_split
from zoo.errors import ZooError, reading
from zoo.graphs.adjacency import csc
from zoo.system.files import user_path

STREAMS = Table(
    "kind of graph", {"sbm": sbm_stream, "edge list": edge_list, "arrays": array_folder}
)
"""What is never all in memory while it is written: what it is to function `-> Stream`."""


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
    for word in (word for word in spec.values() if isinstance(word, str)):
        place = path_of(word) if word == spec["name"] else Path(os.path.expanduser(word))
        if os.path.exists(place) and place.resolve().is_relative_to(Path(folder).resolve()):
            raise ZooError(f"{word} lies in {folder}, which would be replaced; write another name.")
    kind = _kind(spec)
    if kind is None:
        data = learnt_once(load_graph(spec))
        write_on_disk(from_dataset(data)._replace(made=spec), folder, half=half, memory=memory)
        return
    own = {key: value for key, value in spec.items() if key not in ("name", "features")}
    source = () if kind == "sbm" else (user_path(spec["name"]), own.pop("task", None))
    common = {key: spec[key] for key in ("features", *(("task",) if source else ())) if key in spec}
    wrong = option_problems(kind, STREAMS[kind], own, (), options_of(common_options))
    wrong += option_problems(kind, common_options, common, ())
    if wrong:
        raise ZooError(f"{spec['name']}: {' '.join(map(str, wrong))}")
    with reading(Path(spec["name"]), f"an {kind}", "write a smaller --memory"):
        stream = STREAMS[kind](*source, **own)._replace(made=spec)
        features = spec.get("features", "raw")
        write_on_disk(stream, folder, features=features, half=half, memory=memory)


def learnt_once(data: Dataset) -> Dataset:
    """Return a data set with features of columns for good: learnt of the training nodes of a split.

    Without a split of its own, or with several, they are those of all nodes, which a warning says.

    Raises:
        ZooError: its own split leaves a part empty.
    """
    check_built_in_split(data)
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
    indptr, indices = (part.numpy() for part in csc(data.graph))
    x = data.x.numpy()

    def edges() -> Iterator[np.ndarray]:
        for first, last in ranges(indptr):
            targets = np.repeat(np.arange(first, last), np.diff(indptr[first : last + 1]))
            sources = indices[indptr[first] : indptr[last]]
            once = sources < targets  # the other direction and the loops are added again
            yield np.stack([sources[once], targets[once]], axis=1)

    half, known = x.dtype == np.float16, data.arrays()
    return Stream(known, edges, in_blocks(x), x.shape[1], data.split, data.transform, half)


def _kind(spec: Mapping[str, Any]) -> str | None:
    """Return the word of `STREAMS` for what a spec names; None for what is loaded."""
    path = user_path(spec["name"])
    if spec["name"] == "sbm" and not path.exists():
        return "sbm"
    if is_array_folder(path):
        return "arrays"
    text = path.is_file() and ending(path) in SEPARATORS and "edges" not in spec
    return "edge list" if text else None
