"""Samples without a graph: models of the zoo beside what scikit-learn makes of the same splits.

    python benchmarks/samples.py DATASET SPLIT [--seeds 5] [--models difformer mlp ...]

`20news per-class-100`, `r8 benchmark`, `mnist10k-pixels per-class-50` and `digits per-class-10` are
columns of docs/measured-baselines.md. Of each model the settings below are tried on the first seed,
and those of the best validation score taken for all seeds. Each seed that is finished is kept in
`runs/samples` and not computed again; rows of results.md that are not among it stay.
"""

import argparse
import functools
import itertools
import json
import statistics
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from contest import conclude, measured, processor

import zoo
from zoo.data.splits import make_split
from zoo.runs.run import run_recipe
from zoo.system.files import write_whole

KNN = {"name": "knn", "k": 5}
RATES = {"lr": (0.001, 0.005), "weight_decay": (5e-4, 5e-2)}
TRAINED = {"epochs": 300, "patience": 60}
PLAIN = {"dropout": 0.5, "norm": "none", "residual": False}
NODEFORMER = {"name": "nodeformer", "dim": 64, "full_heads": 4, "norm": "layer", "dropout": 0.3}

DIFFUSION = {"dim": 300, "dropout": 0, "use_graph": False}
PUBLISHED = {"epochs": 600, "patience": 100, "lr": (5e-4,), "weight_decay": (0.1,)}
RBA = {"name": "rba", "size": 1024}

MODELS: dict[str, tuple[str | dict, dict, dict]] = {
    "DIFFormer-s": ("none", {"name": "difformer", **DIFFUSION}, PUBLISHED),
    "DIFFormer-s, kNN": (
        KNN,
        {"name": "difformer", **DIFFUSION, "use_graph": True},
        PUBLISHED,
    ),
    "DIFFormer-a": ("none", {"name": "difformer", "kernel": "sigmoid", **DIFFUSION}, PUBLISHED),
    "DIFFormer-a, RBA": (
        "none",
        {"name": "difformer", "kernel": "sigmoid", "attention": RBA, **DIFFUSION},
        PUBLISHED,
    ),
    "DIFFormer-a, RBA of 256": (
        "none",
        {"name": "difformer", "kernel": "sigmoid", "attention": RBA | {"size": 256}, **DIFFUSION},
        PUBLISHED,
    ),
    "NodeFormer, kNN": (KNN, NODEFORMER, TRAINED),
    "NodeFormer": ("none", {**NODEFORMER, "orders": 0, "edge_loss": 0}, TRAINED),
    "SGFormer, kNN": (KNN, {"name": "sgformer", "dim": 128}, TRAINED),
    "transformer, RBA": (
        "none",
        {"name": "transformer", "dim": 128, "layers": 2, "attention": RBA, "dropout": 0.3},
        TRAINED,
    ),
    "MLP": (
        "none",
        {"name": "mlp", "dim": 300, "layers": 2, "dropout": 0.5, "norm": "none"},
        TRAINED,
    ),
    "GCN, kNN": (KNN, {"name": "gcn", "dim": 300, "layers": 2, **PLAIN}, TRAINED),
    "GAT, kNN": (KNN, {"name": "gat", "dim": 128, "layers": 2, **PLAIN}, TRAINED),
}
"""Row to graph, model and training; of numbers in a tuple each is tried."""


def logistic_regression(c: float):
    """Return scikit-learn's, with an inverse strength of its penalty."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=2000)


def nearest(k: int):
    """Return the vote of the nearest labelled samples."""
    from sklearn.neighbors import KNeighborsClassifier

    return KNeighborsClassifier(k, metric="cosine")


def label_spreading(alpha: float):
    """Return label spreading (Zhou et al., NIPS 2003) along the nearest of all samples."""
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading("knn", n_neighbors=10, alpha=alpha, max_iter=100)


PEERS: dict[str, tuple[Callable, tuple]] = {
    "logistic regression": (logistic_regression, (0.1, 1.0, 10.0, 100.0)),
    "k nearest": (nearest, (1, 5, 10, 20)),
    "label propagation": (label_spreading, (0.2, 0.5, 0.8, 0.99)),
}
"""Row to a function of one number, and the numbers that are tried."""


def settings(train: dict) -> Iterator[dict]:
    """Give every choice of the numbers in tuples."""
    train = {**RATES, **train}
    tried = {key: each for key, each in train.items() if isinstance(each, tuple)}
    for chosen in itertools.product(*tried.values()):
        yield {**train, **dict(zip(tried, chosen, strict=True))}


class Kept:
    """What is finished, in a file that each new part is written to at once."""

    def __init__(self, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.known = json.loads(path.read_text()) if path.exists() else {}

    def of(self, key: str, compute: Callable[[], dict]) -> dict:
        """Return what is kept under a key; compute it where nothing is."""
        if key not in self.known:
            self.known[key] = compute()
            write_whole(self.path, lambda draft: draft.write_text(json.dumps(self.known, indent=1)))
        return self.known[key]


def trained(dataset: dict, graph, model: dict, train: dict, seed: int) -> dict:
    """Return scores and cost of a run."""
    recipe = {"dataset": dataset, "graph": graph, "model": model, "train": train, "seeds": [seed]}
    with tempfile.TemporaryDirectory() as folder:
        found = run_recipe(recipe, runs=folder)
    [own] = found["seeds"]
    return {"val": own["val"], "test": own["test"], "ms": 1000 * found["seconds_per_epoch"],
            "GiB": found["peak_memory_bytes"] / 2**30}  # fmt: skip


def of_model(dataset: dict, name: str, seeds: list[int], runs: Kept) -> dict:
    """Return what a model of the zoo reaches with the settings that are best by validation."""
    graph, model, train = MODELS[name]

    def run(each: dict, seed: int) -> dict:
        rates = ", ".join(f"{key} {each[key]}" for key in RATES)
        return runs.of(
            f"{name}; {rates}; seed {seed}", lambda: trained(dataset, graph, model, each, seed)
        )

    choices = list(settings(train))
    best = max(choices, key=lambda each: run(each, seeds[0])["val"])
    found = [run(best, seed) for seed in seeds]
    return {
        "test": [each["test"] for each in found],
        "settings": {key: best[key] for key in RATES},
        "ms": statistics.median(each["ms"] for each in found),
        "GiB": max(each["GiB"] for each in found),
    }


def of_peer(dataset: dict, name: str, seeds: list[int]) -> dict:
    """Return what scikit-learn reaches with the number that is best by validation."""
    build, numbers = PEERS[name]
    data = zoo.load_graph(dataset["name"])
    x, y = data.x.numpy(), data.y.numpy()
    tests = []
    for seed in seeds:
        split = make_split(dataset["split"], data.y, data.masks, seed=seed)
        train, val, test = (each.numpy() for each in (split.train, split.val, split.test))
        scores = {}
        for number in numbers:
            model = build(number)
            if name == "label propagation":
                known = np.full(len(y), -1)
                known[train] = y[train]
                said = model.fit(x, known).transduction_
            else:
                model.fit(x[train], y[train])
                said = np.full(len(y), -1)
                for rows in (val, test):
                    said[rows] = model.predict(x[rows])
            scores[number] = [(said[rows] == y[rows]).mean() for rows in (val, test)]
        best = max(scores, key=lambda each: scores[each][0])
        tests.append(float(scores[best][1]))
    return {"test": tests, "settings": {"of": list(numbers)}}


def main() -> None:
    """Fill the table, row by row, from what is kept or by computing it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("dataset")
    parser.add_argument("split")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", nargs="*", default=[*PEERS, *MODELS])
    given = parser.parse_args()
    dataset, seeds = {"name": given.dataset, "split": given.split}, list(range(given.seeds))
    stem = f"{given.dataset}-{given.split}"
    rows, runs = (
        Kept(Path("runs/samples") / f"{stem}-{each}.json") for each in (len(seeds), "runs")
    )
    known = rows.known

    def row(name: str) -> dict:
        args = (dataset, name, seeds)
        found = of_peer(*args) if name in PEERS else of_model(*args, runs)
        return found | {"processor": processor()}

    for name in given.models:
        print(f"{name}: {rows.of(name, functools.partial(row, name))}", flush=True)
    script = f"{__file__} {given.dataset} {given.split}"
    table = [
        {
            "model": name,
            "test accuracy": f"{statistics.fmean(each['test']):.4f} ± "
            f"{statistics.stdev(each['test']) if len(each['test']) > 1 else 0:.4f}",
            "ms an epoch": f"{each['ms']:.0f}" if "ms" in each else "",
            "GiB at most": f"{each['GiB']:.2f}" if "GiB" in each else "",
            "processor": each.get("processor", ""),
        }
        for name, each in known.items()
    ]
    # What was measured before, and is not kept here, stays in the table.
    table += [row for row in measured(script) if row["model"] not in known]
    conclude(script, False, sorted(table, key=lambda row: row["test accuracy"], reverse=True), [])


if __name__ == "__main__":
    main()
