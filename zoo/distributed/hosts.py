"""The machines of a run: the file that names them, and which of them this one is."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import NamedTuple

from zoo.errors import ZooError

PORT = 30_050
"""Where a machine serves its part if the file of hosts names no port; trainers meet at the next."""


class Hosts(NamedTuple):
    """The machines of a run.

    Attributes:
        addresses: of each machine, with the port of its server.
        rank: the number of this machine among them.
    """

    addresses: list[tuple[str, int]]
    rank: int

    @property
    def count(self) -> int:
        """How many machines there are."""
        return len(self.addresses)

    @property
    def own(self) -> str:
        """The address of this machine."""
        return self.addresses[self.rank][0]

    @property
    def meeting(self) -> tuple[str, int]:
        """Where trainers of all machines meet: the port after that of the first machine."""
        address, port = self.addresses[0]
        return address, port + 1

    @property
    def allowed(self) -> list[str]:
        """The addresses that may connect, each once."""
        return sorted({address for address, _ in self.addresses})


def find_hosts(path: Path, rank: int | None) -> Hosts:
    """Read the file of the machines of a run.

    Args:
        path: a file with a line `ADDRESS` or `ADDRESS PORT` for each machine.
        rank: the line of this machine, from 0; None: the one whose address is its own.

    Raises:
        ZooError: there is no such file, a line is no address, or not exactly one is of this
            machine.
    """
    addresses = [_address(path, each) for each in _lines(path)]
    own = [each for each, (address, _) in enumerate(addresses) if _is_here(address)]
    if rank is None and len(own) != 1:
        raise ZooError(
            f"{len(own)} lines of {path} are addresses of this machine; say which line it is, "
            "counted from 0, such as `--host 0`."
        )
    rank = own[0] if rank is None else rank
    if rank >= len(addresses):
        raise ZooError(f"--host {rank} is no line of {path}; write 0 to {len(addresses) - 1}.")
    if rank not in own:
        raise ZooError(
            f"--host {rank} is {addresses[rank][0]} in {path}, no address of this machine; write "
            "the address by which the others reach it."
        )
    return Hosts(addresses, rank)


def machines(hosts: Path | None) -> int:
    """Return how many machines a file of hosts names; without one there is this one.

    Raises:
        ZooError: there is no such file.
    """
    return 1 if hosts is None else len(_lines(hosts))


def _lines(path: Path) -> list[list[str]]:
    try:
        found = [each.split() for each in path.read_text().splitlines() if each.strip()]
    except (OSError, ValueError) as error:
        raise ZooError(
            f"{path} cannot be read ({error}); write a file with the address of one machine on "
            "each line."
        ) from None
    if not found:
        raise ZooError(f"{path} is empty; write the address of one machine on each line.")
    return found


def _address(path: Path, words: list[str]) -> tuple[str, int]:
    try:
        [name, port] = words if len(words) == 2 else [*words, PORT]
        if not 0 < int(port) < 2**16 - 1:
            raise ValueError(f"a port is 1 to {2**16 - 2}")
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
    return address != "0.0.0.0"
