"""Propagation with weights of edges beside the same without: a forward and a backward pass.

python benchmarks/edge_weights.py
"""

import statistics
import time

import numpy as np
import torch

import zoo
from zoo.nn.propagation import gcn, mean

NODES, EDGES, REPEATS = 20_000, 400_000, 9


def passes(propagate, graph, x):
    """Return the seconds of one forward and backward pass."""
    start = time.perf_counter()
    propagate(graph, x).sum().backward()
    return time.perf_counter() - start


def main():
    """Print a line for each propagation and width: medians, and their ratio."""
    random = np.random.default_rng(0)
    edges = random.integers(NODES, size=(EDGES, 2))
    weights = random.random(EDGES) + 0.1
    graphs = [zoo.canonical(edges, nodes=NODES, weights=each) for each in (None, weights)]
    for propagate in (gcn, mean):
        for width in (64, 256):
            x = torch.randn(NODES, width, requires_grad=True)
            for graph in graphs * 2:  # warm
                passes(propagate, graph, x)
            found = [[passes(propagate, graph, x) for graph in graphs] for _ in range(REPEATS)]
            plain, weighted = (1e3 * statistics.median(each) for each in zip(*found, strict=True))
            print(
                f"{propagate.__name__:5}{width:4}: {plain:6.1f} ms without weights, "
                f"{weighted:6.1f} ms with, {weighted / plain:.2f} times"
            )


if __name__ == "__main__":
    main()
