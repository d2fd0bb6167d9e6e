"""Graphs by name, from files of your own, or drawn at random; all of them canonical.

What is downloaded is converted once into a prepared file, and every file is read without ever
unpickling. `data/README.md` says where each named graph comes from.
"""

from zoo.datasets.canonical import canonical
from zoo.datasets.dataset import Dataset, make_dataset
from zoo.datasets.features import FEATURES
from zoo.datasets.load import (
    DATASETS,
    dataset_problems,
    load_graph,
    on_disk_folder,
    own_graph,
    read_graph,
    resolved_dataset,
)
from zoo.datasets.on_disk import read_on_disk
from zoo.datasets.parts import Parts, check_parts
from zoo.datasets.prepared import read_prepared, write_prepared
from zoo.datasets.readers import READERS
from zoo.datasets.streams import STREAMS, prepare_on_disk

__all__ = [
    "DATASETS",
    "FEATURES",
    "READERS",
    "STREAMS",
    "Dataset",
    "Parts",
    "canonical",
    "check_parts",
    "dataset_problems",
    "load_graph",
    "make_dataset",
    "on_disk_folder",
    "own_graph",
    "prepare_on_disk",
    "read_graph",
    "read_on_disk",
    "read_prepared",
    "resolved_dataset",
    "write_prepared",
]
