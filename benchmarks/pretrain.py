"""Make the weights that come with the zoo: of every verified recipe whose weights are small.

    python benchmarks/pretrain.py [--runs RUNS]

Finished runs are those of `zoo reproduce --all --write`; of each the seed with the best validation
score is kept, in 16 bits where its scores stay, at most 500 kB each and 9 MB together, the smallest
first.
"""

import argparse
from pathlib import Path

from zoo.cli.weights import verified_runs
from zoo.inference.publish import publish
from zoo.weights.files import WEIGHTS
from zoo.weights.index import PRETRAINED

LARGEST, TOGETHER = 500_000, 9_000_000

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    found = verified_runs(parser.parse_args().runs)
    order = sorted(found, key=lambda name: (found[name][0] / WEIGHTS).stat().st_size)
    chosen = {name: found[name] for name in order}
    for row in publish(chosen, PRETRAINED, largest=LARGEST, together=TOGETHER):
        print(*row.values(), flush=True)
