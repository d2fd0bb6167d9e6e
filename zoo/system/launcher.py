"""Start R processes of one machine, which `zoo train --processes R` does.

They find each other by a file in a folder that is closed to other users, and exchange over the
loopback interface: nothing listens outside of this machine. Processes of several machines are
started by `torchrun`, or whatever else sets what it sets, see `zoo.system.process_group.start`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

import torch
from torch import multiprocessing
from torch.multiprocessing import ProcessContext, ProcessExitedException

from zoo.errors import ZooError
from zoo.system.process_group import LOST, RENDEZVOUS, RUN, resume_command
from zoo.system.signals import ENDING

GRACE = 10.0
"""Seconds that processes have to end by themselves."""


def launch(processes: int, call: Callable[..., object], *arguments: object) -> int:
    """Call a function in several processes, and wait for them.

    When one has failed, the others have some seconds to end by themselves. All end with this one,
    whatever ends it; `kill -9` on Linux only. The first of them speaks for all. Ctrl-C is passed on
    once, and the second one ends them.

    Args:
        processes: how many; each gets its share of the cores, unless OMP_NUM_THREADS is set.
        call: a function that can be pickled.
        arguments: what it is given.

    Returns:
        The exit code: 0, or that of the first that has failed.

    Raises:
        ZooError: one of them was ended from outside; says how to go on.
    """
    logging.getLogger("torch.multiprocessing.spawn").setLevel(logging.CRITICAL)  # we say it
    with tempfile.TemporaryDirectory(prefix="zoo-", ignore_cleanup_errors=True) as folder:
        before = {number: signal.signal(number, _leave) for number in ENDING}
        context = multiprocessing.start_processes(
            _run, (folder, processes, call, arguments), nprocs=processes, join=False, daemon=True
        )
        try:
            _wait(context)
        except ProcessExitedException as ended:
            return _answer(context, ended, Path(folder))
        finally:
            for process in context.processes:
                process.terminate()
            for process in context.processes:
                process.join(GRACE)
            for number, handler in before.items():
                signal.signal(number, handler)
        return 0


def _run(rank: int, folder: str, processes: int, call: Callable, arguments: tuple) -> None:
    """Call the function in the process of a rank; all but the first write into a file."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(processes), RENDEZVOUS: folder}
    os.environ |= {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(processes)}
    if loopback := {"linux": "lo", "darwin": "lo0"}.get(sys.platform):
        os.environ |= {"GLOO_SOCKET_IFNAME": loopback, "NCCL_SOCKET_IFNAME": loopback}
    if "OMP_NUM_THREADS" not in os.environ:
        threads = max(1, (os.cpu_count() or 1) // processes)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # for libraries that are not yet there
        torch.set_num_threads(threads)
    if rank > 0:
        printed = os.open(_printed(Path(folder), rank), os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
    signal.signal(signal.SIGINT, _interrupt)
    try:
        call(*arguments)
    except Exception:  # torch would keep it from us where another process has ended before
        traceback.print_exc()
        sys.exit(1)


def _printed(folder: Path, rank: int) -> Path:
    return folder / f"printed-{rank}.txt"


def _interrupt(number: int, frame: object) -> None:
    """Interrupt once: a terminal sends Ctrl-C to this process, and the launcher passes it on."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _leave(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_IGN)
    sys.exit(128 + number)


def _wait(context: ProcessContext) -> None:
    """Wait for all processes; pass the first Ctrl-C on to them."""
    try:
        while not context.join(grace_period=GRACE):
            pass
    except KeyboardInterrupt:
        for pid in context.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGINT)
        while not context.join(grace_period=GRACE):
            pass


def _answer(context: ProcessContext, ended: ProcessExitedException, folder: Path) -> int:
    """Return the exit code of processes of which one has failed, or say what has ended it."""
    codes = {rank: process.exitcode for rank, process in enumerate(context.processes)}
    signals = {rank: -code for rank, code in codes.items() if code < 0 and -code != signal.SIGTERM}
    failed = [rank for rank, code in codes.items() if code > 0 and code != LOST]
    if signals:
        rank, number = next(iter(signals.items()))
        name = signal.Signals(number).name
        why = f"{name}, as the system does when memory runs out" if name == "SIGKILL" else name
        raise ZooError(
            f"process {rank} was ended by {why}, and the others with it. "
            f"{_advice(folder, len(codes))}"
        )
    if not failed:
        advice = _advice(folder, len(codes))
        raise ZooError(f"the processes of this run have lost each other. {advice}")
    rank = ended.error_index if ended.error_index in failed else failed[0]
    if codes[rank] != codes[0]:  # the first has not failed in the same way, and said so
        sys.stderr.write(_printed(folder, rank).read_text(errors="replace"))
    return codes[rank]


def _advice(folder: Path, processes: int) -> str:
    if not (folder / RUN).exists():
        return "Give the same command again."
    run = Path((folder / RUN).read_text())
    words = resume_command(str(run), processes)
    if any(run.glob("checkpoint-*.pt")):
        return f"`{words}` goes on from the last checkpoint."
    return f"No checkpoint of its seed was written: `{words}` begins that one again."
