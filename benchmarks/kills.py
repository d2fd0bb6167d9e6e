"""Runs that are killed at random moments, go on, and end with the bits of one that was not.

    python benchmarks/kills.py --count 200

Five models, each on the full graph, in mini-batches, and in mini-batches of two processes, take
turns. A run is killed up to four times, each time a random while after it began to train (sometimes
before), and then goes on to its end. Exit code 1 where anything differs.
"""

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import torch

from zoo.errors import ZooError
from zoo.runs.run import resume_run, run_recipe
from zoo.runs.run_folder import read_summary
from zoo.system.launcher import launch
from zoo.weights.save_and_load import read_weights

OPTIONS = {
    "gcn": {"norm": "batch"},
    "sgformer": {"attention": "rba"},
    "polynormer": {"local_epochs": 10},
    "nodeformer": {"redraw": "epoch"},
    "graphgps": {"norm": "batch"},
}
SEEDS = [0, 1]
EVERY = 0.05  # seconds between two checkpoints


class Case(NamedTuple):
    """A model, and how it is trained."""

    model: str
    how: str

    def recipe(self, full: bool) -> dict:
        """Return the recipe: a few seconds of training, with `full` ten times that."""
        nodes, epochs = (2000, 200) if full else (200, 30)
        batches = {"batching": {"name": "random-nodes", "size": nodes // 2}}
        return {
            "dataset": {"name": "sbm", "nodes": nodes, "classes": 4, "dim": 16},
            "model": {"name": self.model, "dim": 16, **OPTIONS[self.model]},
            "train": {"epochs": epochs, **(batches if self.how != "full batch" else {})},
            "seeds": SEEDS,
        }


CASES = [
    Case(model, how) for model in OPTIONS for how in ("full batch", "mini-batches", "two processes")
]


def work(case: Case, runs: Path, full: bool) -> None:
    """Train a case, or go on with the run that is there; in one process."""
    begun = [each.parent for each in runs.glob("*/environment.json")]
    if begun:
        resume_run(begun[0], device="cpu", checkpoint=EVERY)
    else:
        shutil.rmtree(runs, ignore_errors=True)
        run_recipe(case.recipe(full), device="cpu", runs=runs, checkpoint=EVERY)


def begin(case: Case, runs: Path, full: bool) -> psutil.Process:
    """Begin to train in a process of its own; what it has to say is left beside the runs."""
    child = os.fork()
    if child:
        return psutil.Process(child)
    try:
        if case.how == "two processes":
            if launch(2, work, case, runs, full):
                raise ZooError("a process has failed")
        else:
            work(case, runs, full)
    except ZooError as error:
        runs.with_suffix(".said").write_text(str(error))
        os._exit(2)
    except BaseException as error:
        runs.with_suffix(".said").write_text(repr(error))
        os._exit(1)
    os._exit(0)


def kill(process: psutil.Process, draw: random.Random) -> int:
    """Kill one of a process and those that it has begun; return how many outlive it by 30 s."""
    family = [process, *process.children(recursive=True)]
    trains = [each for each in family if "spawn_main" in "".join(each.cmdline())] or [process]
    draw.choice(trains).send_signal(signal.SIGKILL)
    process.wait()
    _, alive = psutil.wait_procs(family[1:], timeout=30)
    for each in alive:
        each.kill()
    return len(alive)


def run_and_kill(case: Case, runs: Path, args, draw: random.Random, kills: int, lasts: float):
    """Kill a run so many times, then let it end; return how many kills hit, and what went wrong."""
    hit, wrong = 0, []
    for turn in range(kills + 1):
        if list(runs.glob("*/summary.json")):
            break
        process = begin(case, runs, args.full)
        if turn == kills:
            code = process.wait()
            if code:
                said = runs.with_suffix(".said")
                wrong.append(said.read_text() if said.exists() else f"exit code {code}")
            break
        early = draw.random() < 0.1
        while not early and not list(runs.glob("*/environment.json")) and process.is_running():
            if process.status() == psutil.STATUS_ZOMBIE:
                break
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 1.0 if early else lasts))
        if process.status() == psutil.STATUS_ZOMBIE:  # it has ended before
            process.wait()
            break
        left = kill(process, draw)
        hit += 1
        wrong += [f"{left} processes went on"] if left else []
    return hit, wrong


def difference(runs: Path, whole: Path) -> str:
    """Return in what a run differs from the unbroken one, nothing where in no bit."""
    one, other = (next(each.iterdir()) for each in (runs, whole))
    scores = [[(row["val"], row["test"]) for row in read_summary(each)["seeds"]]
              for each in (one, other)]  # fmt: skip
    if scores[0] != scores[1]:
        return "other scores"
    for seed in SEEDS:
        mine, theirs = (
            read_weights(each / f"seed-{seed}" / "model.safetensors") for each in (one, other)
        )
        if any(not torch.equal(mine[key], theirs[key]) for key in theirs):
            return "other weights"
    return ""


def measure(case: Case, args, draw: random.Random, count: int, folder: Path) -> dict:
    """Kill runs of a case until so many kills have hit."""
    whole = folder / "whole"
    unbroken = begin(case, whole, args.full)
    if unbroken.wait():
        return {"kills": 0, "runs": 0, "same": 0, "why": whole.with_suffix(".said").read_text()}
    seeds = read_summary(next(whole.iterdir()))["seeds"]
    lasts = sum(row["epochs"] * row["seconds_per_epoch"] for row in seeds)
    found = {"kills": 0, "runs": 0, "same": 0}
    why = []
    while found["kills"] < count and time.monotonic() < args.until:
        runs = folder / f"run-{found['runs']}"
        kills = min(draw.randint(1, 4), count - found["kills"])
        hit, wrong = run_and_kill(case, runs, args, draw, kills, lasts / 2)
        other = "" if wrong else difference(runs, whole)
        found["kills"] += hit
        found["runs"] += 1
        found["same"] += not (wrong or other)
        why += [*wrong, *([other] if other else [])]
        shutil.rmtree(runs, ignore_errors=True)
    return {**found, "why": "; ".join(sorted(set(why)))}


def main() -> int:
    """Kill, compare, print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=30, help="kills in all")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--minutes", type=float, default=60, help="begin no run after so many")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    parser.add_argument("--full", action="store_true", help="larger graphs, longer runs")
    args = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    torch.set_num_threads(args.threads)
    args.until, draw = time.monotonic() + 60 * args.minutes, random.Random(args.seed)
    row = "{:<12}{:<15}{:>6}{:>6}{:>10}{:>11}  {}"
    print(row.format("model", "trained", "kills", "runs", "same bits", "different", "why"))
    total = {"kills": 0, "runs": 0, "same": 0}
    for place, case in enumerate(CASES):
        count = args.count // len(CASES) + (place < args.count % len(CASES))
        with tempfile.TemporaryDirectory() as folder:
            found = measure(case, args, draw, count, Path(folder))
        for key in total:
            total[key] += found[key]
        other = found["runs"] - found["same"]
        words = (found["kills"], found["runs"], found["same"], other, found["why"])
        print(row.format(*case, *words), flush=True)
    other = total["runs"] - total["same"]
    print(row.format("all", "", total["kills"], total["runs"], total["same"], other, ""))
    return int(other > 0 or total["kills"] < args.count)


if __name__ == "__main__":
    sys.exit(main())
