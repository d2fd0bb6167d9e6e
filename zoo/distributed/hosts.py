"""Launch graph servers and trainers on this machine, and end them together."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from zoo.distributed.part_server import ADDRESSES
from zoo.distributed.partition import open_partition
from zoo.errors import ZooError
from zoo.system import process_group

PORT = 30_050
"""Where a server is found if the file of hosts names no port."""

_GRACE = 10.0  # seconds that trainers have to end by themselves


class Hosts(NamedTuple):
    """Where the parts of a graph lie.

    Attributes:
        addresses: address and port of the server of each part.
        own: the parts whose servers are started here.
        rank: the number of this machine among those that train.
        count: how many machines train.
    """

    addresses: list[tuple[str, int]]
    own: list[int]
    rank: int = 0
    count: int = 1

    @property
    def rendezvous(self) -> list[str]:
        """Return the words that tell `torchrun` where trainers of several machines meet.

        It is the port after that of the first server.
        """
        if self.count == 1:
            return ["--standalone"]
        address, port = self.addresses[0]
        return [f"--nnodes={self.count}", f"--node-rank={self.rank}", f"--master-addr={address}",
                f"--master-port={port + 1}"]  # fmt: skip


def find_hosts(path: Path | None, rank: int | None, config: Path) -> Hosts:
    """Return where the parts of a graph lie: on the hosts of a file, or all of them here.

    Args:
        path: a file with a line `ADDRESS` or `ADDRESS PORT` for each part; None: this machine
            alone, on ports that are free.
        rank: the line of this machine, from 0; None: the one whose address is its own.
        config: `part.json` of the partition.

    Raises:
        ZooError: there is no such file or partition, not as many lines as parts, a line that is no
            address, or not exactly one of this machine.
    """
    parts = len(open_partition(config).ends)
    if path is None:
        return Hosts([("127.0.0.1", port) for port in _free_ports(parts)], list(range(parts)))
    addresses = [_address(path, each) for each in _lines(path)]
    if len(addresses) != parts:
        raise ZooError(
            f"{path} names {len(addresses)} machines, and {config} has {parts} parts. Each machine "
            f"holds one: write `zoo data partition DATASET FOLDER --parts {len(addresses)}`, or "
            f"{parts} lines."
        )
    own = [each for each, (address, _) in enumerate(addresses) if _is_here(address)]
    if rank is None and len(own) != 1:
        raise ZooError(
            f"{len(own)} lines of {path} are addresses of this machine; say which line it is, "
            "counted from 0, such as `--host 0`."
        )
    rank = own[0] if rank is None else rank
    if rank >= parts:
        raise ZooError(f"--host {rank} is no line of {path}; write 0 to {parts - 1}.")
    return Hosts(addresses, [rank], rank, parts)


def machines(hosts: Path | None) -> int:
    """Return how many machines a file of hosts names; without one there is this one.

    Raises:
        ZooError: there is no such file.
    """
    return 1 if hosts is None else len(_lines(hosts))


def run_with_servers(call: dict, hosts: Hosts, config: Path, trainers: int) -> int:
    """Start the servers of this machine and its trainers, and wait for the trainers.

    What ends too early ends all others, and they end with this process.

    Args:
        call: what `subprocess.Popen` needs to start the trainers.
        hosts: where the servers are.
        config: `part.json` of the partition.
        trainers: how many on each machine.

    Returns:
        The exit code of the trainers.

    Raises:
        ZooError: a server has ended before them; says what it printed last.
    """
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        addresses = folder / "addresses"
        addresses.write_text("".join(f"{address} {port}\n" for address, port in hosts.addresses))
        known = {ADDRESSES: str(addresses)}
        in_all = str(trainers * hosts.count)
        servers = {}
        for part in hosts.own:
            words = ["-W", "ignore", "-m", "zoo.distributed.part_server", str(part), in_all]
            servers[part] = subprocess.Popen(
                [sys.executable, *words, str(config.absolute())],
                env={**os.environ, "OMP_NUM_THREADS": "1", **known},
                stdout=subprocess.DEVNULL,
                stderr=stack.enter_context((folder / f"{part}").open("w")),
                start_new_session=True,  # Ctrl-C is for the trainers, which ask for more
                preexec_fn=process_group.end_with_parent,
            )
            stack.enter_context(_ended(servers[part], 0.0))
        call = {**call, "env": {**call["env"], **known}}
        launcher = subprocess.Popen(**call, preexec_fn=_end_by_request)
        stack.enter_context(_ended(launcher, _GRACE))
        while launcher.poll() is None:
            for part, server in servers.items():
                if server.poll() is not None:
                    raise ZooError(_last_words(part, server, folder / f"{part}"))
            with contextlib.suppress(KeyboardInterrupt):  # the trainers have heard it too
                time.sleep(0.1)
        return launcher.returncode


def _last_words(part: int, server: subprocess.Popen, printed: Path) -> str:
    lines = printed.read_text(errors="replace").strip().splitlines()
    said = f" ({lines[-1]})" if server.returncode > 0 and lines else ""
    return (
        f"the server of part {part} has ended before the trainers, with exit code "
        f"{server.returncode}{said}, and so have they. `zoo train --resume RUN`, with all else as "
        "before, goes on."
    )


@contextlib.contextmanager
def _ended(process: subprocess.Popen, grace: float) -> Iterator[None]:
    """End a process at the end, at once or after so many seconds in which it may do so itself."""
    try:
        yield
    finally:
        if grace and process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(grace)
        process.kill()
        process.wait()


def _end_by_request() -> None:
    process_group.end_with_parent(signal.SIGTERM)


def _lines(path: Path) -> list[list[str]]:
    try:
        return [each.split() for each in path.read_text().splitlines() if each.strip()]
    except (OSError, ValueError) as error:
        raise ZooError(
            f"{path} cannot be read ({error}); write a file with the address of one machine on "
            "each line."
        ) from None


def _address(path: Path, words: list[str]) -> tuple[str, int]:
    """Return address and port of a line; DGL takes addresses in numbers only."""
    try:
        [name, port] = words if len(words) == 2 else [*words, PORT]
        return socket.gethostbyname(name), int(port)
    except (OSError, ValueError) as error:
        raise ZooError(
            f"{path}: {' '.join(words)!r} is no address ({error}); write `ADDRESS` or "
            "`ADDRESS PORT`, such as `10.0.0.5 30050`."
        ) from None


def _is_here(address: str) -> bool:
    try:
        socket.create_server((address, 0)).close()
    except OSError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        return [stack.enter_context(each).getsockname()[1] for each in held]
