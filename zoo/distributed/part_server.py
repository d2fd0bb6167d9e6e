"""A server for each part of a graph, and the client by which trainers query all of them.

Servers map what `zoo data partition` wrote and answer by `zoo.system.channel`: a request is one
letter for what is wanted and the rows, int64; its answer is the bytes of the array. On one machine
they listen on Unix sockets in a folder that is closed to other users.
"""

from __future__ import annotations

import functools
import json
import math
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.distributed.part_files import WHOLE, check_sums, own_arrays
from zoo.distributed.partition import Partition, open_partition, part_of
from zoo.errors import ZooError
from zoo.system import channel, process_group
from zoo.system.rendezvous import SECRET

SERVERS = "servers.json"
"""The file of the meeting folder that names the address of the server of each part, those that may
connect (null: all that can reach a Unix socket), and the one from which this machine does."""

_NEIGHBOURS, _ROWS = b"n", b"x"
_SLOWEST = 2**26  # bytes per second at which a server reads its files before it listens, at least


class Servers:
    """A trainer's client of the servers, each of which has one part of the graph.

    Not for several threads at once.

    Args:
        partition: of the graph.
        connections: with the server of each part.
    """

    def __init__(self, partition: Partition, connections: list[Connection]):
        self.partition, self._connections = partition, connections

    def degrees(self, nodes: Tensor) -> Tensor:
        """Return how many neighbours each node has besides itself; asks nobody."""
        new, offsets = self._new(nodes), self.partition.offsets
        return offsets[new + 1] - offsets[new]

    def tails(self, nodes: Tensor, places: Tensor) -> Tensor:
        """Return the neighbour at a place, counted from 0, among those of each node."""
        new = self._new(nodes)
        begins = self.partition.offsets[torch.cat([new.new_zeros(1), self.partition.ends])]
        rows = self.partition.offsets[new] + places
        found = self._ask(_NEIGHBOURS, new, rows, begins, torch.int64).flatten()
        return self._within(self.partition.old[self._within(found, "an answer")], "old.npy")

    def rows(self, nodes: Tensor) -> Tensor:
        """Return the features of some nodes, (n, F), in the type in which they were written."""
        new, ends = self._new(nodes), self.partition.ends
        begins = torch.cat([ends.new_zeros(1), ends])
        return self._ask(_ROWS, new, new, begins, self.partition.dtype, self.partition.columns)

    def _new(self, nodes: Tensor) -> Tensor:
        return self._within(self.partition.new[nodes], "new.npy")

    def _within(self, found: Tensor, what: str) -> Tensor:
        """Return numbers of nodes after a look at the least and the last of them."""
        if len(found) and not 0 <= int(found.min()) <= int(found.max()) < len(self.partition.new):
            raise self._refusal(f"{what} holds {int(found.min())} to {int(found.max())}")
        return found

    def _refusal(self, what: str) -> ZooError:
        return ZooError(
            f"{self.partition.config}: {what}, which is no part of this graph. Copy the folder to "
            "all machines again, or partition the graph again."
        )

    def _ask(
        self,
        what: bytes,
        new: Tensor,
        wanted: Tensor,
        begins: Tensor,
        kind: torch.dtype,
        columns: int = 1,
    ) -> Tensor:
        """Ask each part for the rows that are wanted of its nodes `new`; answers keep their order.

        Args:
            what: the letter of the request.
            new: (n,), the new numbers of nodes, which tell the part.
            wanted: (n,), the rows, counted over all parts.
            begins: the row with which each part begins.
            kind: type of the answer.
            columns: of the answer.
        """
        parts = torch.searchsorted(self.partition.ends, new, right=True)
        order = parts.argsort(stable=True)
        rows = wanted[order] - begins[parts[order]]
        groups = rows.split(torch.bincount(parts, minlength=len(self._connections)).tolist())
        asked = [
            (connection, own)
            for connection, own in zip(self._connections, groups, strict=True)
            if len(own)
        ]
        answers = self._answers(
            [(connection, what + own.numpy().tobytes()) for connection, own in asked]
        )
        found = torch.empty(len(wanted), columns, dtype=kind)
        start = 0
        for (_, own), answer in zip(asked, answers, strict=True):
            if len(answer) != len(own) * columns * kind.itemsize:
                raise self._refusal(f"{len(own)} rows of a part take {len(answer)} bytes")
            of_part = torch.frombuffer(bytearray(answer), dtype=kind).view(len(own), columns)
            found[order[start : start + len(own)]] = of_part
            start += len(own)
        return found

    def _answers(self, requests: list[tuple[Connection, bytes]]) -> list[bytes]:
        try:
            for connection, request in requests:  # all work at once
                connection.send_bytes(request)
            return [channel.receive(connection) for connection, _ in requests]
        except (OSError, EOFError) as error:
            raise process_group.Lost(
                f"a server of {self.partition.config} does not answer ({error or 'it has ended'}); "
                "go on with `zoo train --resume RUN` on all machines."
            ) from None


@functools.cache
def join(config: Path) -> Servers:
    """Connect this trainer with the servers of all parts, once in a process.

    Raises:
        ZooError: there are no servers, or no such partition.
    """
    partition = open_partition(config)
    folder = process_group.meeting()
    if folder is None or not (folder / SERVERS).exists():
        raise ZooError(
            "no servers hold the parts of the graph; `zoo train RECIPE --processes R` starts them "
            "and R trainers. To estimate a recipe, write `train.batching.name=neighbours` without "
            "its `config`: the batches are the same."
        )
    told, secret = _told(folder), (folder / SECRET).read_bytes()
    sizes = (
        math.prod(each.shape) * np.dtype(each.type).itemsize for each in partition.arrays.values()
    )
    patience = channel.PATIENCE + max(sizes) / _SLOWEST
    found = [
        channel.connect(_plain(each), secret, told["source"], patience) for each in told["servers"]
    ]
    return Servers(partition, found)


def serve(part: int, config: Path, folder: Path) -> None:
    """Serve a part of a graph until this process is ended.

    Args:
        part: its number.
        config: `part.json` of the partition.
        folder: with the files `SERVERS` and `SECRET`.

    Raises:
        ZooError: the part cannot be read or has changed since it was written, its address cannot
            be listened on, or what is asked for is not in it.
    """
    neighbours, x = part_of(config, part)
    check_sums(config.parent, (*WHOLE, *own_arrays(part)), open_partition(config).arrays)
    arrays = {_NEIGHBOURS: neighbours, _ROWS: x}

    def answer(request: bytes) -> bytes:
        array = arrays[request[:1]]
        rows = torch.from_numpy(np.frombuffer(request, np.int64, offset=1).copy())
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(array):
            raise ZooError(
                f"part {part} of {config} was asked for rows {int(rows.min())} to "
                f"{int(rows.max())} of {len(array)}, by a machine that reads another partition. "
                "Copy the folder to all machines again."
            )
        return array[rows].numpy().tobytes()

    told, secret = _told(folder), (folder / SECRET).read_bytes()
    with channel.listen(_plain(told["servers"][part])) as listener:
        channel.serve(listener, secret, answer, told["allowed"], ends=True)


def _told(folder: Path) -> dict[str, Any]:
    return json.loads((folder / SERVERS).read_text())


def _plain(address: list | str) -> channel.Address:
    return address if isinstance(address, str) else (address[0], address[1])


if __name__ == "__main__":
    try:
        serve(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
    except Exception as error:  # what ends a server is told, and not only that it is gone
        said = error if isinstance(error, ZooError) else f"{type(error).__name__}: {error}"
        sys.stderr.write(f"{said}\n")
        sys.exit(2)
