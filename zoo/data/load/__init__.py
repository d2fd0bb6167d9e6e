"""Graphs by name: named ones, downloaded once; files of your own; ones drawn at random."""

from zoo.data.load.by_name import (
    DATASETS,
    dataset_problems,
    default_split,
    guess_spec,
    is_table,
    load_data,
    load_graph,
    load_unless_graph_file,
    own_files,
    own_graph,
    read_graph,
    resolved_dataset,
    usual_batching,
    usual_structure,
    without_labels,
)
from zoo.data.load.named import on_disk_folder
from zoo.data.load.on_disk import STREAMS, learnt_once, prepare_on_disk
from zoo.data.load.readers import READERS

__all__ = [
    "DATASETS",
    "READERS",
    "STREAMS",
    "dataset_problems",
    "default_split",
    "guess_spec",
    "is_table",
    "learnt_once",
    "load_data",
    "load_graph",
    "load_unless_graph_file",
    "on_disk_folder",
    "own_files",
    "own_graph",
    "prepare_on_disk",
    "read_graph",
    "resolved_dataset",
    "usual_batching",
    "usual_structure",
    "without_labels",
]
