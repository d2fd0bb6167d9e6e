"""The processes of a run: which there are, and what each of them has to know.

On one machine nothing listens but what gloo needs, on the loopback interface. On several machines
there are two ports: that of the server of a part, and on the first that of `zoo.system.rendezvous`.
Both answer the addresses of the file of hosts alone, and these only if they know the secret.
"""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import socket
import sys
from pathlib import Path

import psutil

from zoo.distributed.hosts import Hosts
from zoo.distributed.part_server import SERVERS
from zoo.distributed.partition import open_partition
from zoo.system import process_group


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
        return {each: python("zoo.distributed.part_server", str(each), *words) for each in own}


def python(module: str, *words: str) -> list[str]:
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
