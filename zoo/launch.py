"""Several processes of Python on this machine, joined as `torchrun` joins them."""

import os
import subprocess
import sys

from zoo.errors import ZooError
from zoo.plan import check_processes
from zoo.recipe import Recipe


def launch(processes: int, recipe: Recipe) -> int:
    """Start the very command that runs now in several processes, and wait for them.

    Args:
        processes: how many; each gets its share of the cores, unless OMP_NUM_THREADS is set.
        recipe: what they will run, checked here so that what is wrong is said once.

    Returns:
        The exit code: not 0 as soon as one of them has failed, which ends the others.

    Raises:
        ZooError: nothing in the recipe is divided among processes.
    """
    check_processes(recipe, processes)
    words = sys.argv[1:]
    at = next(place for place, each in enumerate(words) if each.startswith("--processes"))
    del words[at : at + (1 if "=" in words[at] else 2)]
    return subprocess.run(**_call(processes, ["zoo", *words])).returncode


def run_together(processes: int, words: list[str]) -> None:
    """Run a module with its arguments in several processes, in silence.

    Raises:
        ZooError: one of them has failed; says what it printed last.
    """
    call = _call(processes, words)
    done = subprocess.run(**call, capture_output=True, text=True)
    if done.returncode:
        said, _, _ = done.stderr.partition("failed (exitcode")  # what the launcher adds tells less
        last = " ".join(said.split()[-60:])
        raise ZooError(f"{words[0]} failed in {processes} processes: {last}")


def _call(processes: int, words: list[str]) -> dict:
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return {
        "args": [*launcher, f"--nproc-per-node={processes}", "-m", *words],
        "env": {"OMP_NUM_THREADS": threads, **os.environ},
    }
