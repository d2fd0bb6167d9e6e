"""Start the processes of a run on this machine, wait for them, and end them together.

On one machine nothing listens but what gloo needs, on the loopback interface. On several machines
there are two ports: that of the server of a part, and on the first that of `zoo.system.rendezvous`.
Both answer the addresses of the file of hosts alone, and these only if they know the secret.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from zoo.distributed.hosts import Hosts
from zoo.distributed.part_server import SERVERS
from zoo.distributed.partition import open_partition
from zoo.errors import ZooError
from zoo.system import channel, process_group, rendezvous

_GRACE = 10.0  # seconds that processes have to end by themselves
_PREFIX = "zoo-processes-"
_LONGEST = 60  # characters of the folder that holds the meeting folder: Unix sockets allow 107


@dataclasses.dataclass(frozen=True)
class Team:
    """The processes of a run.

    Attributes:
        local: how many train on this machine.
        hosts: the machines, on each of which as many train; None: this one alone.
        secret: what machines have to know; drawn at random for one machine.
        config: `part.json` of the graph whose parts are served, if it lies in parts; each of
            several machines serves the part of its line, one machine serves all.
    """

    local: int
    hosts: Hosts | None = None
    secret: bytes = dataclasses.field(default_factory=lambda: secrets.token_bytes(32))
    config: Path | None = None

    def environment(self, number: int, folder: Path) -> dict[str, str]:
        """Return the environment of a trainer.

        Args:
            number: which of this machine it is, from 0.
            folder: where the processes meet.
        """
        rank, machines = (0, 1) if self.hosts is None else (self.hosts.rank, self.hosts.count)
        own = {
            "RANK": str(rank * self.local + number),
            "WORLD_SIZE": str(machines * self.local),
            "LOCAL_RANK": str(number),
            "LOCAL_WORLD_SIZE": str(self.local),
            process_group.MEETING: str(folder),
        }
        interface = _interface("127.0.0.1" if self.hosts is None else self.hosts.own)
        for kind in ("GLOO", "NCCL") if interface else ():
            own[f"{kind}_SOCKET_IFNAME"] = interface
        threads = str(max(1, (os.cpu_count() or 1) // self.local))
        return {"OMP_NUM_THREADS": threads, **os.environ, **own}

    def served(self, folder: Path) -> dict[int, list[str]]:
        """Write what the servers of parts and their clients have to know into the meeting folder.

        Returns:
            The command that starts the server of each part of this machine.
        """
        if self.config is None:
            return {}
        if self.hosts is None:
            own = range(len(open_partition(self.config).ends))
            told = {"servers": [str(folder / f"part-{each}") for each in own]}
            told |= {"allowed": None, "source": ""}
        else:
            own = [self.hosts.rank]
            told = {"servers": self.hosts.addresses, "allowed": self.hosts.allowed}
            told["source"] = self.hosts.own
        (folder / SERVERS).write_text(json.dumps(told))
        words = (str(self.config.absolute()), str(folder))
        return {each: _python("zoo.distributed.part_server", str(each), *words) for each in own}


def run_team(team: Team, module: str, *words: str, silent: bool = False) -> int:
    """Run a module with its arguments in every process of a team, and wait for them.

    When one has failed, the others have ten seconds to end by themselves. All end with this
    process, whatever ends it; `kill -9` on Linux only. The first of them speaks for all.

    Args:
        team: the processes.
        module: what `python -m` takes.
        words: its arguments.
        silent: keep the first from speaking too.

    Returns:
        The exit code.

    Raises:
        ZooError: one of them was ended from outside, or a server of the graph's parts has ended;
            says how to go on. With `silent`: one of them has failed; says what it printed last.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(_ended_by_signals())
        folder = stack.enter_context(_meeting_folder(team.secret))
        if team.hosts is not None:
            rendezvous.meet_at(folder, team.hosts.meeting, team.hosts.own)
            if team.hosts.rank == 0:
                listener = stack.enter_context(channel.listen(team.hosts.meeting))
        servers = [
            _Process(stack, f"the server of part {part}", command, folder, 0.0)
            for part, command in team.served(folder).items()
        ]
        trainers = [
            _Process(stack, f"process {number}", _python(module, *words), folder, _GRACE,
                     team.environment(number, folder), heard=number == 0 and not silent)
            for number in range(team.local)
        ]  # fmt: skip
        if team.hosts is not None and team.hosts.rank == 0:  # no process is begun after a thread
            arguments = (listener, team.secret, rendezvous.table(), team.hosts.allowed)
            threading.Thread(target=channel.serve, args=arguments, daemon=True).start()
        _wait(trainers, servers)
        return _answer(trainers, servers, folder, silent)


class _Process:
    """A process that is ended with this one, and at the end of a stack."""

    def __init__(
        self,
        stack: contextlib.ExitStack,
        name: str,
        command: list[str],
        folder: Path,
        grace: float,
        environment: dict[str, str] | None = None,
        heard: bool = False,
    ):
        self.name, self.printed = name, folder / f"{name} printed"
        self.code: int | None = None
        server = environment is None
        said = None if heard else stack.enter_context(self.printed.open("w"))
        self._popen = subprocess.Popen(
            command,
            env={**os.environ, "OMP_NUM_THREADS": "1"} if server else environment,
            stdout=None if heard else subprocess.DEVNULL,
            stderr=said,
            start_new_session=server,  # Ctrl-C is for the trainers, which ask for more
            preexec_fn=process_group.end_with_parent,
        )
        stack.callback(self._end, grace)

    def _end(self, grace: float) -> None:
        """End it, at once or after so many seconds in which it may do so itself."""
        if grace and self._popen.poll() is None:
            self._popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(grace)
        self._popen.kill()
        self._popen.wait()

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        self.code = self._popen.poll()
        return self.code

    def last_words(self) -> str:
        """Return what it printed, if that was kept."""
        return self.printed.read_text(errors="replace").strip() if self.printed.exists() else ""


def _wait(trainers: list[_Process], servers: list[_Process]) -> None:
    """Wait until all trainers have ended, or some time after anything has ended too early."""
    limit = float("inf")
    while time.monotonic() < limit:
        with contextlib.suppress(KeyboardInterrupt):  # the trainers have heard it too
            codes = [each.poll() for each in trainers]
            if all(code is not None for code in codes):
                return
            too_early = any(codes) or any(each.poll() is not None for each in servers)
            if too_early and limit == float("inf"):
                limit = time.monotonic() + _GRACE
            time.sleep(0.05)


def _answer(trainers: list[_Process], servers: list[_Process], folder: Path, silent: bool) -> int:
    """Return the exit code of a team that has ended, and say what nobody else has said."""
    failed = [each for each in trainers if each.code not in (0, None, process_group.LOST)]
    gone = [each for each in servers if each.code is not None]
    if all(each.code == 0 for each in trainers):
        return 0
    if silent:
        [first, *_] = [*failed, *gone, *trainers]
        raise ZooError(f"{first.name} failed: {' '.join(first.last_words().split()[-60:])}")
    killed = [each for each in [*gone, *failed] if each.code < 0]
    told = next((each for each in [*gone, *failed] if each.code > 0), None)
    if killed or told is None:
        who = f"{killed[0].name} was ended by {_signal(killed[0].code)}" if killed else (
            "a process of another machine has ended")  # fmt: skip
        raise ZooError(f"{who}, and the others with it. {_how_to_go_on(folder)}")
    if told.printed.exists():
        sys.stderr.write(told.last_words() + "\n")
    return told.code


def _signal(code: int) -> str:
    name = signal.Signals(-code).name
    return f"{name}, as the system does when memory runs out" if name == "SIGKILL" else name


def _how_to_go_on(folder: Path) -> str:
    told = folder / process_group.RUN
    if not told.exists():
        return "Give the same command again."
    run = told.read_text()
    return f"`zoo train --resume {run}`, with all else as before, goes on from the last checkpoint."


@contextlib.contextmanager
def _meeting_folder(secret: bytes) -> Iterator[Path]:
    """Make a folder in which processes meet, closed to other users, as long as it is used.

    Those of launchers that were killed are removed.
    """
    place = Path(tempfile.gettempdir())
    place = place if len(str(place)) < _LONGEST else Path("/tmp")
    for old in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(old):
            if time.time() - old.stat().st_mtime > _GRACE:  # a newer one is about to be locked
                shutil.rmtree(old)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with _locked(folder):
            (folder / rendezvous.SECRET).write_bytes(secret)
            yield folder


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder; the system lets go of it when this process ends.

    Raises:
        OSError: another process holds it.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _python(module: str, *words: str) -> list[str]:
    """Return the command that runs a module; it imports nothing from the current folder."""
    return [sys.executable, "-P", "-W", "ignore", "-m", module, *words]


def _interface(address: str) -> str:
    """Return the network interface that has an address, "" where none has."""
    found = {
        each.address: name
        for name, own in psutil.net_if_addrs().items()
        for each in own
        if each.family == socket.AF_INET
    }
    # Every address that begins so is the loopback interface's, which names only the first.
    return found.get("127.0.0.1" if address.startswith("127.") else address, "")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave by SystemExit when this process is asked to end, so that what it started ends too."""

    def leave(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # asked once is enough
        sys.exit(128 + number)

    before = {each: signal.signal(each, leave) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
