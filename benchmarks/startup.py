"""Start-up time: `import zoo`, `zoo --help`, and the overhead of `zoo train` outside its epochs.

Each call is a process of its own, alternating with one that imports torch and DGL alone.

    python benchmarks/startup.py [--full]
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from contest import Aim, conclude, contest, full_asked

ZOO = str(Path(sys.executable).with_name("zoo"))
NAMES = "zoo.create_model, zoo.load_graph, zoo.run_recipe"


def call(*words: str) -> str:
    """Run a command and return what it prints."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def python(line: str):
    """Return a step that runs a line of Python."""
    return lambda: call(sys.executable, "-W", "ignore", "-c", line)


def outside(runs: str, recipe: str) -> float:
    """Train for 30 epochs and return the seconds outside of them."""
    start = time.perf_counter()
    words = [recipe, "train.epochs=30", "seeds=[0]", "--json", "--runs", runs]
    folder = json.loads(call(ZOO, "train", *words))["folder"]
    spent = time.perf_counter() - start
    lines = Path(folder, "metrics.jsonl").read_text().splitlines()
    return spent - sum(json.loads(each)["seconds"] for each in lines)


def main():
    """Measure, and write the results."""
    full = full_asked(__doc__)
    medians = contest(
        {
            "import torch, dgl": python("import torch, dgl"),
            "import torch, dgl, zoo": python("import torch, dgl, zoo"),
            f"import torch, dgl, zoo; {NAMES}": python(f"import torch, dgl, zoo; {NAMES}"),
            "zoo --help": lambda: call(ZOO, "--help"),
        },
        rounds=15 if full else 5,
    )
    there = subprocess.run([ZOO, "data", "check", "cora"], capture_output=True).returncode == 0
    recipe = "sgformer-cora" if there else "sgformer-digits-rba"
    with tempfile.TemporaryDirectory() as runs:
        outside(runs, recipe)  # fills the caches on disk
        beside = statistics.median(outside(runs, recipe) for _ in range(5 if full else 3))
    table = [{"what": f"`{name}`", "s": f"{each:.2f}"} for name, each in medians.items()]
    table.append({"what": f"`zoo train {recipe}` outside of its epochs", "s": f"{beside:.2f}"})
    alone, ours, _, answer = medians.values()
    aims = [
        Aim("seconds of `import zoo` beyond torch and DGL", ours - alone, 0.3),
        Aim("seconds of `zoo --help`", answer, 0.5),
        Aim("seconds of `zoo train` outside of epochs", beside, 2),
        Aim("the same beyond torch and DGL", beside - alone, 2),
    ]
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
