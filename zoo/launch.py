"""The command in several processes at once."""

import os
import subprocess
import sys

from zoo.plan import check_processes
from zoo.recipe import Recipe


def launch(processes: int, recipe: Recipe) -> int:
    """Start this very command in several processes on this machine and wait for them.

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
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    call = [*launcher, f"--nproc-per-node={processes}", "-m", "zoo", *words]
    return subprocess.run(call, env={"OMP_NUM_THREADS": threads, **os.environ}).returncode
