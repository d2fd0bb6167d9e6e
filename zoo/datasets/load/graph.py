"""One graph, or series in time, by name or path: what is neither is refused."""

from pathlib import Path
from typing import Any

from zoo.config.options import Spec
from zoo.datasets.dataset import Dataset
from zoo.datasets.load.by_name import load_data
from zoo.datasets.load.readers import SERIES, whole_reader
from zoo.datasets.snapshots import SERIES_WORDS, Snapshots
from zoo.errors import ZooError
from zoo.system.files import user_path


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


def series_of(spec: dict[str, Any]) -> Snapshots | None:
    """Return the series in time that a spec names, None where it names something else.

    Raises:
        ZooError: as `load_data`.
    """
    path = user_path(spec["name"])
    named = spec["name"] in SERIES_WORDS and not path.exists()
    return load_data(spec) if named or whole_reader(path, spec) in SERIES.values() else None
