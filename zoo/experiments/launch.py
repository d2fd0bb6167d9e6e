"""Several processes of Python on this machine, joined as `torchrun` joins them.

Where a graph lies in parts on several machines, each machine also gets the server of its part.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from zoo.config.recipe import word
from zoo.errors import ZooError
from zoo.experiments.resolve import Plan, check_processes


def to_launch(processes: int, plan: Plan, hosts: Path | None = None) -> bool:
    """Return whether this command has to start others, of which it is none itself."""
    alone = "WORLD_SIZE" not in os.environ
    return processes > 1 or (alone and (hosts is not None or _distributed(plan)))


def launch(processes: int, plan: Plan, hosts: Path | None = None, host: int | None = None) -> int:
    """Start the very command that runs now in several processes, and wait for them.

    Args:
        processes: how many, of this machine; each gets its share of the cores, unless
            OMP_NUM_THREADS is set.
        plan: what they will run, checked here so that what is wrong is said once.
        hosts: the file of the machines that hold a part of the graph each, all of which give this
            very command; None: this one holds all parts.
        host: the line of this machine, counted from 0; None: that of an address of its own.

    Returns:
        The exit code: not 0 as soon as one of them has failed, which ends the others.

    Raises:
        ZooError: nothing in the recipe is divided among processes, or the hosts do not fit it.
    """
    check_processes(plan, processes)
    words = sys.argv[1:]
    at = [place for place, each in enumerate(words) if each.startswith("--processes")]
    for place in reversed(at):
        del words[place : place + (1 if "=" in words[place] else 2)]
    if _distributed(plan):
        if plan.encoding["name"] != "none":
            raise ZooError(
                f"{plan.recipe.name} adds an encoding, which the parts of a graph do not have. Put "
                "its columns into the features of the graph and leave `encoding` out."
            )
        from zoo.distributed.hosts import find_hosts, run_with_servers

        config = Path(plan.train["batching"]["config"])
        found = find_hosts(hosts, host, config)
        call = _call(processes, ["zoo", *words], found.rendezvous)
        return run_with_servers(call, found, config, processes)
    if hosts is not None:
        raise ZooError(
            "--hosts is for graphs that lie in parts on several machines, `train.batching="
            "{name: distributed, ...}`; others are divided by `torchrun`, see docs/large-graphs.md."
        )
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


def _distributed(plan: Plan) -> bool:
    return word(plan.train["batching"]) == "distributed"


def _call(processes: int, words: list[str], rendezvous: Sequence[str] = ("--standalone",)) -> dict:
    threads = str(max(1, (os.cpu_count() or 1) // processes))
    launcher = [sys.executable, "-m", "torch.distributed.run", *rendezvous]
    return {
        "args": [*launcher, f"--nproc-per-node={processes}", "-m", *words],
        "env": {"OMP_NUM_THREADS": threads, **os.environ},
    }
