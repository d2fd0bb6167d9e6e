"""Data sets for node prediction: canonical graph, features, labels, splits and tasks.

What is downloaded is converted once into a prepared file. No file can run code: pickles, which are
Planetoid's files and torch's, are read by restricted unpicklers. `data/README.md` says where each
named graph comes from.
"""

from zoo.data.canonical import canonical
from zoo.data.dataset import Dataset, make_dataset
from zoo.data.features import FEATURES
from zoo.data.files.graph_arrays import GraphArrays, check_arrays
from zoo.data.files.prepared import read_prepared, write_prepared

__all__ = [
    "FEATURES",
    "Dataset",
    "GraphArrays",
    "canonical",
    "check_arrays",
    "make_dataset",
    "read_prepared",
    "write_prepared",
]
