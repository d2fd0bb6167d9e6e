"""Distributed sampling from two part servers against sampling from the whole graph on disk.

Two trainers with a thread each take the same steps in both; only the source of the batches differs.

    python benchmarks/distributed.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SBM = ("nodes=500000", "degree=20", "dim=64")
BATCHES = "fanouts: [10, 5], size: 500"
TRAIN = (
    "dataset.split={name: per-class, train: 1000}",
    "train.epochs=4",
    "train.evaluate=batches",
    "train.evaluate_every=4",
    "seeds=[0]",
    "--processes=2",
)
STEPS = 4  # of an epoch: 4,000 training nodes, of which two trainers take 500 each


def zoo(folder, *words):
    """Run the command in a folder, and return what it prints."""
    call = [sys.executable, "-W", "ignore", "-m", "zoo", *words]
    environment = {
        "OMP_NUM_THREADS": "1",
        "ZOO_DATA": str(folder),
        "PYTHONPATH": ":".join(sys.path),
    }
    done = subprocess.run(call, cwd=folder, env=environment, stdout=subprocess.PIPE, check=True)
    return done.stdout


with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    zoo(folder, "data", "prepare", "sbm", "planted", *SBM, "--on-disk")
    zoo(folder, "data", "partition", "planted", "parts", "--parts", "2")
    (folder / "planted.yaml").write_text(
        "dataset: planted\nmodel: {name: sgformer, dim: 32, attention: rba}\n"
    )
    ways = {
        "neighbours": f"train.batching={{name: neighbours, {BATCHES}}}",
        "distributed": f"train.batching={{name: distributed, config: parts/part.json, {BATCHES}}}",
    }
    for way, batching in ways.items():
        found = json.loads(zoo(folder, "train", "planted.yaml", batching, *TRAIN, "--json"))
        step = 1000 * found["seconds_per_epoch"] / STEPS
        memory = found["peak_memory_bytes"] / 2**30
        print(f"{way}: {step:.0f} ms per step, {memory:.2f} GiB of the first trainer, "
              f"test {found['test']['mean']:.4f}")  # fmt: skip
