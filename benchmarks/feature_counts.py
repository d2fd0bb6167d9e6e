"""What the number of a node's features says of its class, which row normalisation divides away.

    python benchmarks/feature_counts.py [--graphs chameleon actor ...]

A decision tree is given one number for each node, how many of its features are not zero; its depth
is chosen by validation. Beside it stand the largest class of the training nodes, and the MLP on
features as they come and normalised by row. No edge is read.
"""

import argparse
import statistics
import tempfile

import numpy as np
import torch
from contest import conclude
from sklearn.tree import DecisionTreeClassifier

import zoo
from zoo.data.splits import make_split
from zoo.runs.run import run_recipe

GRAPHS = {
    "chameleon": "benchmark",
    "actor": "benchmark",
    "cora": "per-class-20",
    "citeseer": "per-class-20",
    "photo": "ratio-60-20-20",
    "computer": "ratio-60-20-20",
    "cs": "ratio-60-20-20",
}
DEPTHS = (1, 2, 3, 4, 6)
MLP = {"name": "mlp", "dim": 64, "layers": 1, "dropout": 0.5, "norm": "none"}
TRAIN = {"epochs": 300, "lr": 0.01, "weight_decay": 1e-3, "patience": 100}


def by_count(graph: str, seeds: int) -> tuple[list[float], list[float]]:
    """Return the test accuracies of the tree and of the largest class, one of each split."""
    data = zoo.load_graph(graph)
    counts, y = np.asarray((data.x != 0).sum(1, keepdim=True)), data.y.numpy()
    trees, largest = [], []
    for seed in range(seeds):
        split = make_split(GRAPHS[graph], data.y, data.masks, seed=seed)
        train, val, test = (each.numpy() for each in (split.train, split.val, split.test))
        fitted = [DecisionTreeClassifier(max_depth=depth) for depth in DEPTHS]
        fitted = [each.fit(counts[train], y[train]) for each in fitted]
        best = max(fitted, key=lambda each: each.score(counts[val], y[val]))
        trees.append(best.score(counts[test], y[test]))
        largest.append(float((y[test] == np.bincount(y[train]).argmax()).mean()))
    return trees, largest


def by_mlp(graph: str, features: str, seeds: int) -> list[float]:
    """Return the test accuracies of the MLP."""
    recipe = {
        "dataset": {"name": graph, "split": GRAPHS[graph], "features": features},
        "model": MLP,
        "train": TRAIN,
        "seeds": list(range(seeds)),
    }
    with tempfile.TemporaryDirectory() as folder:
        return [each["test"] for each in run_recipe(recipe, runs=folder)["seeds"]]


def shown(scores: list[float]) -> str:
    """Return mean and standard deviation."""
    return f"{statistics.fmean(scores):.4f} ± {statistics.stdev(scores):.4f}"


def main() -> None:
    """Print a row for each graph."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", nargs="*", default=[*GRAPHS], choices=[*GRAPHS])
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args()
    torch.manual_seed(0)
    table = []
    for graph in given.graphs:
        trees, largest = by_count(graph, given.seeds)
        table.append({
            "graph": graph,
            "largest class": shown(largest),
            "tree on the count": shown(trees),
            "MLP, features: row": shown(by_mlp(graph, "row", given.seeds)),
            "MLP, features: raw": shown(by_mlp(graph, "raw", given.seeds)),
        })  # fmt: skip
    conclude(__file__, False, table, [])


if __name__ == "__main__":
    main()
