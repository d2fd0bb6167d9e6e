"""Random batches beside the attention of each model, on links and on whole graphs.

    python benchmarks/task_attentions.py [cora computer enzymes proteins] [--full]

Each model is trained with its own attention and with batches of p random nodes, otherwise alike, in
a process of its own: the score on the test part, the time of an epoch and the peak of memory. A
batch of a set of graphs has many graphs, and random batches are dealt inside each of them. With
--full, as many epochs and seeds as are published; without, few.
"""

import argparse
import tempfile

from contest import conclude

from zoo.runs.earlier_runs import train_apart
from zoo.runs.resolve import load_recipe, resolve

LINKS = {
    "task": {"name": "link-prediction", "dim": 64},
    "train": {"epochs": 60, "lr": 0.01},
}
GRAPHS = {
    "encoding": {"name": "random_walk", "steps": 16},
    "readout": "max",
    "train": {"epochs": 30, "lr": 0.002, "batching": {"name": "samples", "size": 64}},
}
MODELS_OF_LINKS = {
    "sgformer": {"dim": 64, "dropout": 0.2},
    "polynormer": {"dim": 64, "dropout": 0.2},
    "transformer": {"dim": 64, "dropout": 0.2, "layers": 2},
}
MODELS_OF_GRAPHS = {
    name: {"dim": 64, "layers": 3, "dropout": 0.0, "norm": "batch"}
    for name in ("transformer", "graphgps")
}
FOLDS = {"split": "folds-10", "edge_features": "ignore"}
WORK = {
    "cora": (LINKS, MODELS_OF_LINKS, (512,)),
    "computer": (
        {**LINKS, "train": {"epochs": 20, "lr": 0.01}},
        {"sgformer": MODELS_OF_LINKS["sgformer"]},
        (512,),
    ),
    "enzymes": (GRAPHS, MODELS_OF_GRAPHS, (16,)),
    "proteins": (GRAPHS, MODELS_OF_GRAPHS, (16,)),
}
"""Of each data set the rest of its recipe, the models, and the sizes p of random batches.

A transformer of all pairs of the 13,752 nodes of computer is left out."""


def trained(name: str, model: str, attention: str | dict, full: bool) -> dict[str, str]:
    """Return a row of the table: a recipe that is trained in a process of its own."""
    rest, models, _ = WORK[name]
    recipe = {
        **rest,
        "dataset": {"name": name, **(FOLDS if "readout" in rest else {})},
        "model": {"name": model, **models[model], "attention": attention},
        "train": {**rest["train"], **({} if full else {"epochs": 2})},
        "seeds": [0, 1] if full else [0],
    }
    with tempfile.TemporaryDirectory() as folder:
        summary = train_apart(resolve(load_recipe(recipe)), "cpu", folder, quiet=True)
    test = summary["test"]
    return {
        "data": f"{name}, {'graphs' if 'readout' in rest else 'links'}",
        "model": model,
        "attention": attention if isinstance(attention, str) else f"rba, p = {attention['size']}",
        "test": f"{test['mean']:.4f} ± {test['std']:.4f}",
        "ms per epoch": f"{1000 * summary['seconds_per_epoch']:.0f}",
        "GiB": f"{summary['peak_memory_bytes'] / 2**30:.2f}",
    }


def main() -> None:
    """Measure, print the table and write it to results.md."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=[*WORK], metavar="name")
    parser.add_argument("--full", action="store_true", help="All epochs, and two seeds.")
    asked = parser.parse_args()
    table = []
    for name in asked.names:
        _, models, sizes = WORK[name]
        ways = ["native", *({"name": "rba", "size": size} for size in sizes)]
        for model in models:
            for attention in ways:
                table.append(trained(name, model, attention, asked.full))
                print(*table[-1].values(), flush=True)
    conclude(__file__, asked.full, table, [])


if __name__ == "__main__":
    main()
