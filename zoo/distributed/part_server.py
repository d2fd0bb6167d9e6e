"""A graph server for each partition, and the client by which trainers query all of them.

Both use DGL's remote procedure calls, `dgl.distributed.rpc`, which pickle requests and answers: a
peer can run any code, so servers and trainers have to trust each other and their network. DGL
serves edges. Features are served from a memory-mapped file by the requests below: DGL would copy
them into shared memory, under one name for all parts and runs of a machine. No shared memory is
used, and a killed process leaves nothing behind.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from dgl import DGLError
from dgl.distributed import exit_client, rpc, rpc_client
from dgl.distributed.dist_graph import DistGraphServer
from dgl.distributed.graph_services import EdgesRequest
from torch import Tensor

from zoo.distributed.partition import Partition, features_of, open_partition
from zoo.errors import ZooError
from zoo.system import process_group

ADDRESSES = "DGL_IP_CONFIG"
"""The variable of the environment that names the file with a line `ADDRESS PORT` for each part."""

_NETWORK = "tensorpipe"  # by "socket", a process that does not say goodbye to all ends in an abort

_PATIENCE = 300_000
"""Milliseconds after which a server that does not answer is taken for dead."""


class RowsRequest(rpc.Request):
    """Ask the server of a part for the features of some of its nodes, by their row in it."""

    def __init__(self, rows: Tensor):
        self.rows = rows

    def __getstate__(self):
        return self.rows

    def __setstate__(self, state):
        self.rows = state

    def process_request(self, server_state):
        """Gather the rows, which are all that is read of the mapped file."""
        return RowsResponse(server_state.kv_store.features[self.rows])


class RowsResponse(rpc.Response):
    """Rows of features."""

    def __init__(self, x: Tensor):
        self.x = x

    def __getstate__(self):
        return self.x

    def __setstate__(self, state):
        self.x = state


rpc.register_service(771_001, RowsRequest, RowsResponse)


class PartServer(DistGraphServer):
    """The server of one part: DGL's, for its edges, with its features."""

    def __init__(self, part: int, addresses: str, trainers: int, config: Path):
        super().__init__(
            part,
            addresses,
            1,
            trainers,
            str(config),
            disable_shared_mem=True,
            graph_format="coo",
            net_type=_NETWORK,
        )
        self.features = features_of(config, part)


class Servers:
    """A trainer's client of the graph servers, each of which has one part of the graph.

    Not for several threads at once.
    """

    def __init__(self, partition: Partition):
        self.partition = partition

    def degrees(self, nodes: Tensor) -> Tensor:
        """Return how many neighbours each node has besides itself; asks nobody."""
        new, offsets = self.partition.new[nodes], self.partition.offsets
        return offsets[new + 1] - offsets[new] - 1

    def tails(self, nodes: Tensor, places: Tensor) -> Tensor:
        """Return the neighbour at a place, counted from 0, among those of each node."""
        if len(nodes) == 0:
            return nodes
        new = self.partition.new[nodes]
        edges = self.partition.offsets[new] + places
        found = self._ask(
            edges, new, lambda part, each: EdgesRequest(each, part), lambda each: each.global_src
        )
        return self.partition.old[found]

    def rows(self, nodes: Tensor) -> Tensor:
        """Return the features of some nodes, (n, F), in the type in which they were written."""
        new, ends = self.partition.new[nodes], self.partition.ends

        def request(part: int, wanted: Tensor) -> RowsRequest:
            return RowsRequest(wanted - ends[part - 1] if part else wanted)

        return self._ask(new, new, request, lambda each: each.x)

    def _ask(
        self,
        wanted: Tensor,
        new: Tensor,
        request: Callable[[int, Tensor], rpc.Request],
        content: Callable[[rpc.Response], Tensor],
    ) -> Tensor:
        """Ask each part for what is wanted of its nodes `new`; the answers keep their order."""
        parts = torch.searchsorted(self.partition.ends, new, right=True)
        order = parts.argsort(stable=True)
        groups = wanted[order].split(torch.bincount(parts).tolist())
        calls = [(part, request(part, each)) for part, each in enumerate(groups) if len(each)]
        try:
            answers = rpc.remote_call_to_machine(calls, timeout=_PATIENCE)
        except DGLError as error:
            raise ZooError(
                f"a server of {self.partition.config} does not answer ({error}); go on with "
                "`zoo train --resume RUN` on all machines."
            ) from None
        found = torch.cat([content(each) for each in answers])
        back = torch.empty_like(found)
        back[order] = found
        return back


@functools.cache
def join(config: Path) -> Servers:
    """Connect this trainer with the servers of all parts, once in a process.

    Raises:
        ZooError: there are no servers, or no such partition.
    """
    partition = open_partition(config)
    if ADDRESSES not in os.environ:
        raise ZooError(
            "no servers hold the parts of the graph; `zoo train RECIPE --processes R` starts them "
            "and R trainers. To estimate a recipe, write `train.batching.name=neighbours` without "
            "its `config`: the batches are the same."
        )
    process_group.end_with_parent()  # in what DGL does with other signals, a process may hang
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    rpc.reset()
    with _silence():
        rpc_client.connect_to_server(os.environ[ADDRESSES], 1, net_type=_NETWORK)
    for each, handler in handlers.items():  # DGL's own would end Python at once
        signal.signal(each, handler)
    # DGL would wait for the other trainers at the end, even for those that have failed.
    atexit.unregister(exit_client)
    return Servers(partition)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Suppress standard output and standard error, also of C++."""
    logging.getLogger("dgl-distributed-socket").setLevel(logging.ERROR)
    with open(os.devnull, "w") as nowhere:
        sys.stdout.flush()
        kept = {each: os.dup(each) for each in (1, 2)}
        try:
            for each in kept:
                os.dup2(nowhere.fileno(), each)
            yield
            sys.stdout.flush()
        finally:
            for each, saved in kept.items():
                os.dup2(saved, each)
                os.close(saved)


def serve(part: int, trainers: int, config: Path) -> None:
    """Serve a part of a graph to so many trainers, until this process is ended."""
    rpc.reset()
    PartServer(part, os.environ[ADDRESSES], trainers, config).start()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
