"""Scaling of Random Batch Attention over processes: memory, communication and time of each.

The paper (arXiv 2511.06044, tables 3 and 4) shows that larger loader batches fit on more devices,
but no speed-up, because of the communication. Here SGFormer takes training steps on one graph, in
processes of this machine that communicate over loopback: `replicated` divides the batches, `local`
the nodes. The nodes of a step are what the paper calls a loader batch.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from study import Row, Series, Study, run
from torch import distributed, multiprocessing
from torch.utils._python_dispatch import TorchDispatchMode
from tqdm import tqdm

import zoo
from zoo.data.splits import make_split
from zoo.nn.attention import linear
from zoo.system import process_group
from zoo.system.allocator import give_back_freed_memory, keep_freed_memory
from zoo.system.memory import peak_during
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData
from zoo.training.trainer import Trainer

SIZE = 256
"""Nodes per random batch, p."""

STEPS = 5


class Cost(NamedTuple):
    """Maximum over processes: bytes of an attention and of a step, bytes sent, seconds.

    Memory is without the graph and its features. The seconds of the steps have a median and a
    standard deviation.
    """

    attention: int
    step: int
    sent: int
    seconds: float
    spread: float


def rba_devices(
    *,
    quick: bool = False,
    most: Annotated[int, Field(ge=1, le=64)] = 4,
    nodes: Annotated[int, Field(ge=2**12)] = 65_536,
    dim: PositiveInt = 64,
    budget: PositiveFloat = 1.0,
) -> Study:
    """Memory, communication and time of 1, 2, 4 ... processes that share random batches or nodes.

    Args:
        quick: one and two processes, an eighth of the nodes: too few for a claim on memory.
        most: largest number of processes.
        nodes: number of nodes, with ten edges each, from 4,096.
        dim: width of the model.
        budget: memory of a process in GiB, for which the largest graph is extrapolated.
    """
    counts = [each for each in (1, 2, 4, 8, 16, 32, 64) if each <= (2 if quick else most)]
    largest = nodes // 8 if quick else nodes
    sizes = [largest // 4, largest]
    # tqdm draws on standard error, and nothing at all where that is not a terminal.
    measured = {
        count: _measure(_SHARED if count > 1 else ("none",), count, sizes, dim)
        for count in tqdm(counts, unit="count", disable=None)
    }
    found = {(shard, count): costs for count in counts for shard, costs in measured[count].items()}
    table = [_line(shard, count, costs, largest, budget) for (shard, count), costs in found.items()]
    alone = found["none", 1][largest]
    rows = [
        Row(
            f"attention memory of a process, local, {count} processes by one",
            costs[largest].attention / alone.attention,
            1 / count,
            0.2,
        )
        for (shard, count), costs in found.items()
        if shard == "local" and not quick
    ]
    if not quick:
        fitting = [each for each in table if each[f"largest N in {budget:g} GiB"]]
        rows += [_confirmed(line, dim, budget) for line in fitting]
    return Study("rba-devices", rows, _plots(found, largest, counts), table)


_SHARED = ("replicated", "local")


def _line(shard: str, count: int, costs: dict[int, Cost], nodes: int, budget: float) -> dict:
    cost = costs[nodes]
    return {
        "shard": shard,
        "processes": count,
        "N": nodes,
        "attention MiB": round(cost.attention / 2**20, 1),
        "step MiB": round(cost.step / 2**20, 1),
        "MB sent": round(cost.sent / 1e6, 1),
        "ms per step": round(1000 * cost.seconds),
        "± ms": round(1000 * cost.spread),
        f"largest N in {budget:g} GiB": _fitting(costs, budget * 2**30),
    }


def _fitting(costs: dict[int, Cost], memory: float) -> int | None:
    """Return the largest number of nodes whose step fits into memory, extrapolated from two sizes.

    None where memory is less than the smaller size takes, or the slope is not positive.
    """
    (small, one), (large, other) = sorted(costs.items())
    slope = (other.step - one.step) / (large - small)
    if slope <= 0 or memory < one.step:
        return None
    return int((memory - one.step) / slope + small) // 1000 * 1000


def _confirmed(line: dict[str, Any], dim: int, budget: float) -> Row:
    """Return the measured memory of a step at the extrapolated size; predicted is the budget."""
    nodes = line[f"largest N in {budget:g} GiB"]
    shard, count = line["shard"], line["processes"]
    cost = _measure((shard,), count, [nodes], dim, timed=False)[shard][nodes]
    return Row(
        f"GiB of a step at N = {nodes:,}, {shard}, {count} processes",
        cost.step / 2**30,
        budget,
        0.15,
    )


def _plots(found: dict, nodes: int, counts: list[int]) -> list[Series]:
    def lines(of) -> dict[str, tuple[list[float], list[float]]]:
        return {
            shard: (
                counts,
                [of(found["none" if each == 1 else shard, each][nodes]) for each in counts],
            )
            for shard in _SHARED
        }

    milliseconds = "Milliseconds of a step"
    every = {
        "MiB of a process in a step": lambda cost: cost.step / 2**20,
        milliseconds: lambda cost: 1000 * cost.seconds,
        "MB that a process sends in a step": lambda cost: cost.sent / 1e6,
    }
    plots = {title: Series(title, "processes", lines(of), flat=True) for title, of in every.items()}
    spreads = lines(lambda cost: 1000 * cost.spread)
    plots[milliseconds] = plots[milliseconds]._replace(
        margins={name: y for name, (_, y) in spreads.items()},
        note=f"median of {STEPS} steps; bars: their standard deviation",
    )
    return list(plots.values())


def _measure(
    shards: Sequence[str], count: int, nodes: list[int], dim: int, *, timed: bool = True
) -> dict[str, dict[int, Cost]]:
    """Return the costs by shard and number of nodes, measured in processes of their own.

    Without `timed`, seconds, their spread and bytes sent are 0.
    """
    ways = [(shard, each) for shard in shards for each in nodes]
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(_work, (count, ways, dim, folder, timed), nprocs=count)
        said = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(count)]
    found: dict[str, dict[int, Cost]] = {shard: {} for shard in shards}
    for (shard, each), costs in zip(ways, zip(*said, strict=True), strict=True):
        found[shard][each] = Cost(*(max(values) for values in zip(*costs, strict=True)))
    return found


def _work(
    rank: int, count: int, ways: list[tuple[str, int]], dim: int, folder: str, timed: bool
) -> None:
    """Measure memory, then time, in one of several processes, and write the results."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // count))
    if count > 1:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        meeting = f"file://{folder}/meeting"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
    give_back_freed_memory()
    memory = [(_of_attention(*way, dim), _of_step(*way, dim)) for way in ways]
    keep_freed_memory()
    paces = [_pace(*way, dim) if timed else (0, 0.0, 0.0) for way in ways]
    costs = [Cost(*held, *pace) for held, pace in zip(memory, paces, strict=True)]
    Path(folder, f"{rank}.json").write_text(json.dumps(costs))
    process_group.leave()


def _prepared(shard: str, nodes: int, dim: int) -> Callable[[], object]:
    """Return a training step, after one warm-up step."""
    data = zoo.load_graph({"name": "sbm", "nodes": nodes, "degree": 10, "dim": dim})
    split = make_split("ratio-60-20-20", data.y, None, seed=0)
    torch.manual_seed(0)
    model = zoo.create_model("sgformer", dim, data.classes, dim=dim, attention=_spec(shard))
    steps = Trainer(model, TrainingData(data, split, zoo.pick(TASKS, data.task)))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    steps.train(optimiser, 0)
    return functools.partial(steps.train, optimiser, 0)


class SentBytes(TorchDispatchMode):
    """Counts, as long as it lasts, the bytes that this process sends.

        with SentBytes() as sent:
            step()
        print(sent.total)

    The collectives are taken to be ring algorithms, as gloo has them. Every operation of torch
    passes through here and takes longer: time it elsewhere.

    Attributes:
        total: the bytes so far.
    """

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        """Count and run an operation."""
        sent = _SENT.get(function.name().partition(".")[0])
        if sent is not None:
            self.total += sent(process_group.count(), arguments)
        return function(*arguments, **(options or {}))


_SENT = {
    "c10d::allgather_": lambda r, given: (r - 1) * given[1][0].nbytes,  # of the own rows
    "c10d::reduce_scatter_": lambda r, given: (r - 1) * given[0][0].nbytes,  # of the own sum
    "c10d::allreduce_": lambda r, given: 2 * (r - 1) * given[0][0].nbytes // r,
}
"""Collective to `(processes R, its arguments) -> bytes that a process sends`."""


def _spec(shard: str) -> dict[str, Any]:
    return {"name": "rba", "size": SIZE, "shard": shard}


def _pace(shard: str, nodes: int, dim: int) -> tuple[int, float, float]:
    """Return the bytes that are sent in a step, its seconds, and their standard deviation."""
    step, seconds = _prepared(shard, nodes, dim), []
    for _ in range(STEPS):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    with SentBytes() as sent:
        step()
    return sent.total, statistics.median(seconds), statistics.stdev(seconds)


def _of_step(shard: str, nodes: int, dim: int) -> int:
    """Return the peak memory of a training step in bytes, without graph and features."""
    return peak_during(_prepared(shard, nodes, dim), torch.device("cpu"))


def _of_attention(shard: str, nodes: int, dim: int) -> int:
    """Return the peak memory of an attention in bytes, forward and backward, with q, k and v."""
    rows = process_group.shares(nodes)[process_group.rank()] if shard == "local" else nodes
    attend = zoo.pick(zoo.ATTENTIONS, _spec(shard), linear, 0)

    def call() -> None:
        torch.manual_seed(0)
        q, k, v = (torch.randn(rows, 1, dim, requires_grad=True) for _ in range(3))
        attend(q, k, v).sum().backward()

    call()
    return peak_during(call, torch.device("cpu"))


if __name__ == "__main__":
    run(rba_devices)
