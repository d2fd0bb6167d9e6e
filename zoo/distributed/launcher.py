"""Start the processes of a team on this machine, wait for them, and end them together."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from zoo.distributed.team import Team, python
from zoo.errors import ZooError
from zoo.system import channel, process_group, rendezvous
from zoo.system.files import held

_GRACE = 10.0  # seconds that processes have to end by themselves
_PREFIX = "zoo-processes-"
_LONGEST = 60  # characters of the folder that holds the meeting folder: Unix sockets allow 107


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
            _Process(stack, f"process {number}", python(module, *words), folder, _GRACE,
                     team.environment(number, folder), heard=number == 0 and not silent)
            for number in range(team.local)
        ]  # fmt: skip
        if team.hosts is not None and team.hosts.rank == 0:  # no process is begun after a thread
            arguments = (listener, team.secret, rendezvous.table(), team.hosts.allowed)
            threading.Thread(target=channel.serve, args=arguments, daemon=True).start()
        with _stopped_together([*trainers, *servers]):
            _wait(trainers, servers)
        return _answer(team, trainers, servers, folder, silent)


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
            process_group=0,  # Ctrl-C comes to the launcher alone, which passes it on
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

    def send(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        self._popen.send_signal(number)

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
        try:
            codes = [each.poll() for each in trainers]
            if all(code is not None for code in codes):
                return
            too_early = any(codes) or any(each.poll() is not None for each in servers)
            if too_early and limit == float("inf"):
                limit = time.monotonic() + _GRACE
            time.sleep(0.05)
        except KeyboardInterrupt:
            for each in trainers:
                each.send(signal.SIGINT)
                each.send(signal.SIGCONT)  # Ctrl-C may come before `stop` has sent it


@contextlib.contextmanager
def _stopped_together(processes: list[_Process]) -> Iterator[None]:
    """Have processes stop with this one, by Ctrl-Z, and go on with it."""

    def stop(number: int, frame: object) -> None:
        for each in processes:
            each.send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        for each in processes:  # by now this one goes on
            each.send(signal.SIGCONT)

    before = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, before)


def _answer(
    team: Team, trainers: list[_Process], servers: list[_Process], folder: Path, silent: bool
) -> int:
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
        if killed:
            what = (
                f"{killed[0].name} was ended by {_signal(killed[0].code)}, and the others with it"
            )
        elif team.hosts is not None:
            what = "a process of another machine has ended, and those of this one with it"
        else:
            what = "the processes of this run have lost each other"
        raise ZooError(f"{what}. {_how_to_go_on(team, folder)}")
    if told.printed.exists():
        sys.stderr.write(told.last_words() + "\n")
    return told.code


def _signal(code: int) -> str:
    name = signal.Signals(-code).name
    return f"{name}, as the system does when memory runs out" if name == "SIGKILL" else name


def _how_to_go_on(team: Team, folder: Path) -> str:
    told = folder / process_group.RUN
    if not told.exists():
        return "Give the same command again."
    run = told.read_text()
    words = process_group.resume_command(run, team.local, team.hosts is not None)
    if any(Path(run).glob("checkpoint-*.pt")):
        return f"`{words}` goes on from the last checkpoint."
    return f"No checkpoint of its seed was written: `{words}` begins that one again."


@contextlib.contextmanager
def _meeting_folder(secret: bytes) -> Iterator[Path]:
    """Make a folder in which processes meet, closed to other users, as long as it is used.

    Those of launchers that were killed are removed.
    """
    place = Path(tempfile.gettempdir())
    place = place if len(str(place)) < _LONGEST else Path("/tmp")
    for old in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), held(old):
            if time.time() - old.stat().st_mtime > _GRACE:  # a newer one is about to be locked
                shutil.rmtree(old)
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with held(folder):
            (folder / rendezvous.SECRET).write_bytes(secret)
            yield folder


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
