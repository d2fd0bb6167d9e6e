"""Features of a graph on disk in shares of two processes, against files that both read.

SGFormer takes the same steps, with the same losses, in both; the ways take turns. `held` is what a
process holds that is no page of a mapped file, `mapped` what it has in memory with those pages.

    python benchmarks/sharded_features.py
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from pathlib import Path

from zoo.data.load import prepare_on_disk
from zoo.runs.run import run_recipe
from zoo.system import process_group
from zoo.system.launcher import launch
from zoo.system.memory import own_peak

WAYS = ("whole", "sharded")
EPOCHS = 10


def recipe(graph: str, features: str) -> dict:
    """Return four steps an epoch, of two batches with 500 training nodes; evaluated at the end."""
    return {
        "dataset": {"name": graph, "split": {"name": "per-class", "train": 1000}},
        "model": {"name": "sgformer", "dim": 32, "attention": "rba"},
        "train": {
            "epochs": EPOCHS,
            "evaluate": "batches",
            "evaluate_every": EPOCHS,
            "batching": {
                "name": "neighbours",
                "fanouts": [10, 5],
                "size": 500,
                "features": features,
            },
        },
        "seeds": [0],
    }


def train(graph: str, features: str, folder: Path) -> None:
    """Train in one of the processes, and leave what it took in the folder."""
    times = []
    with own_peak() as held:
        summary = run_recipe(
            recipe(graph, features),
            device="cpu",
            runs=folder / "runs",
            watch=lambda seed, epoch: times.append(time.perf_counter()),
        )
    found = {
        "seconds": [after - before for before, after in zip(times, times[1:-1], strict=False)],
        "held": max(held) / 2**30,
        "mapped": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "test": summary["test"]["mean"],
    }
    (folder / f"{process_group.rank()}.json").write_text(json.dumps(found))


def main() -> None:
    """Take turns, and print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=500_000)
    parser.add_argument("--dim", type=int, default=256, help="features of a node")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    found = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as root:
        graph = f"{root}/planted"
        drawn = {"name": "sbm", "nodes": args.nodes, "degree": 20, "dim": args.dim}
        prepare_on_disk(drawn, graph)
        for turn in range(args.rounds):
            for way in WAYS:
                folder = Path(root, f"{way}-{turn}")
                folder.mkdir()
                assert launch(2, train, graph, way, folder) == 0
                found[way].append([json.loads((folder / f"{rank}.json").read_text())
                                   for rank in range(2)])  # fmt: skip
    medians = {}
    for way, turns in found.items():
        seconds = [each for first, _ in turns for each in first["seconds"]]
        medians[way] = statistics.median(seconds)
        memory = {
            word: [max(turn[rank][word] for turn in turns) for rank in range(2)]
            for word in ("held", "mapped")
        }
        said = "; ".join(f"{word} {one:.2f} and {other:.2f} GiB"
                         for word, (one, other) in memory.items())  # fmt: skip
        tests = sorted({f"{first['test']:.4f}" for first, _ in turns})
        print(f"{way}: {1000 * medians[way]:.0f} ms per epoch ({1000 * min(seconds):.0f} to "
              f"{1000 * max(seconds):.0f}); {said}; test {', '.join(tests)}")  # fmt: skip
    print(f"sharded / whole: {medians['sharded'] / medians['whole']:.2f}")


if __name__ == "__main__":
    main()
