"""A model zoo of graph transformers on DGL, every attention in random batches if you like."""

import os

# DGL writes a file into the home folder, and says so, when nobody names its back end.
os.environ.setdefault("DGLBACKEND", "pytorch")
