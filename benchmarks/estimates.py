"""Peak memory estimated by `zoo estimate` against the measured one, for every model.

A stochastic block model of 40,000 nodes with ten edges each, full-batch and in random nodes; `zoo
estimate` and `zoo train` run in processes of their own, two at a time, with a thread each. Without
--full, two models.

    python benchmarks/estimates.py [--full]
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from contest import Aim, conclude, full_asked

from zoo.weights.create import list_models

FEW = ("gcn", "sgformer")
BATCHINGS = {
    "full": [],
    "random nodes": [
        "train.batching={name: random-nodes, size: 8000}",
        "train.evaluate=batches",
    ],
}
RECIPE = """\
dataset: {{name: sbm, nodes: 40000, degree: 10, dim: 32}}
model: {model}
train: {{epochs: 4}}
"""


def call(folder: Path, *words: str) -> dict:
    """Run a command of the zoo in a folder and return what it prints."""
    command = [sys.executable, "-W", "ignore", "-m", "zoo", *words, "--json"]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=folder, env=alone, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def both(model: str, changes: list[str]) -> tuple[int, int]:
    """Return the estimated and the measured peak of a training, in bytes."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "recipe.yaml").write_text(RECIPE.format(model=model))
        words = ["recipe.yaml", *changes]
        said = call(Path(folder), "estimate", *words)["peak"]
        return said, call(Path(folder), "train", *words)["peak_memory_bytes"]


def main():
    """Measure, and write the results."""
    full = full_asked(__doc__)
    names = list_models(task="node-classification") if full else FEW
    cases = list(itertools.product(names, BATCHINGS))
    table, ratios = [], {}
    with ThreadPoolExecutor(2) as pool:
        peaks = pool.map(lambda case: both(case[0], BATCHINGS[case[1]]), cases)
        for (model, batching), (said, held) in zip(cases, peaks, strict=True):
            ratios[f"{model}, {batching}"] = said / held
            table.append(
                {
                    "model": model,
                    "batching": batching,
                    "estimated GB": f"{said / 1e9:.2f}",
                    "measured GB": f"{held / 1e9:.2f}",
                    "ratio": f"{said / held:.2f}",
                }
            )
            print(table[-1], flush=True)
    farthest = max(ratios, key=lambda name: abs(ratios[name] - 1))
    away = abs(ratios[farthest] - 1)
    aims = [Aim(f"farthest from what is measured ({farthest}), as a share", away, 0.25)]
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
