"""Graphs by name: named ones, downloaded once; files of your own; ones drawn at random."""

from zoo.data.load.by_name import (
    DATASETS,
    dataset_problems,
    default_split,
    load_data,
    on_disk_folder,
    own_graph,
    read_graph,
    resolved_dataset,
)
from zoo.data.load.graph import (
    STREAMS,
    learnt_once,
    load_graph,
    own_files,
    prepare_on_disk,
    usual_batching,
    whole_data,
    without_labels,
)
from zoo.data.load.readers import READERS

__all__ = [
    "DATASETS",
    "READERS",
    "STREAMS",
    "dataset_problems",
    "default_split",
    "learnt_once",
    "load_data",
    "load_graph",
    "on_disk_folder",
    "own_files",
    "own_graph",
    "prepare_on_disk",
    "read_graph",
    "resolved_dataset",
    "usual_batching",
    "whole_data",
    "without_labels",
]
