"""One graph by name or path: what is none is refused."""

from pathlib import Path
from typing import Any

from zoo.config.options import Spec
from zoo.datasets.dataset import Dataset
from zoo.datasets.load.by_name import load_data
from zoo.errors import ZooError


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
