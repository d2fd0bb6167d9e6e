"""What attention costs in time and memory, forward and backward, against the number of nodes.

Random Batch Attention is O(N p) where full attention is O(N^2): the exponents are fitted here, over
the larger half of the sizes, on whatever device there is.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from zoo.attention import ATTENTIONS, linear
from zoo.memory import peak_during
from zoo.random_batch import Attention
from zoo.studies.study import Row, Series, Study
from zoo.table import Count, pick

BATCH = {"name": "rba", "size": 256}
METHODS: dict[str, Any] = {
    "softmax": "softmax",
    "softmax, N x N": None,
    "linear": "linear",
    "performer": "performer",
    "rba around softmax": {**BATCH, "inner": "softmax"},
    "rba around linear": {**BATCH, "inner": "linear"},
}
"""Name to the spec in `ATTENTIONS`; the plain form, which stores its scores, is written here."""

EXPONENT = {"softmax": 2.0, "softmax, N x N": 2.0}
"""Of the time in N; 1 where it is not said."""

LONGEST = {"quick": 0.5, "full": 20.0}
"""A method is not taken to a size at which one pass would take longer than this, in seconds."""

LARGEST = 4 * 2**30
"""Nor to one at which N x N scores would be larger than this, in bytes."""


class Cost(NamedTuple):
    """Median seconds, and the most bytes held beyond what was there before."""

    seconds: float
    memory: int


def rba_cost(
    *, quick: bool = False, heads: Count = 4, dim: Count = 16, largest: Count = 2**20
) -> Study:
    """Time and memory of attention, forward and backward, against N and p.

    Args:
        quick: up to 65,536 nodes, and to half a second for each pass.
        heads: attention heads H.
        dim: width D of each head.
        largest: number of nodes N up to which the linear methods are taken.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    top, longest = min(largest, 2**16) if quick else largest, LONGEST["quick" if quick else "full"]
    counts = [2**power for power in range(10, int(math.log2(top)) + 1)]
    shape = functools.partial(_inputs, heads=heads, dim=dim, device=device)
    # tqdm draws on standard error, and nothing at all where that is not a terminal.
    methods = tqdm(METHODS.items(), unit="method", disable=None)
    costs = {name: _against_nodes(name, spec, counts, shape, longest) for name, spec in methods}
    sizes = [2**power for power in range(4, 13 if quick else 15, 2)]
    nodes = 2**14 if quick else 2**15
    against_size = {
        name: {p: cost_of(_build({**METHODS[name], "size": p}), shape(nodes)) for p in sizes}
        for name in METHODS
        if name.startswith("rba")
    }
    return Study(
        "rba-cost",
        _rows(costs, 0.75 if quick else 0.25),  # what is small is mostly overhead
        [
            _plot(f"Milliseconds, forward and backward, {device}", "N", costs, _milliseconds),
            _plot("Peak memory, MiB", "N", costs, _mebibytes),
            _plot(f"Milliseconds, N = {nodes:,}", "p", against_size, _milliseconds),
        ],
    )


def cost_of(attend: Attention, inputs: tuple[Tensor, ...], repeats: int = 3) -> Cost:
    """Return what one forward and backward pass costs, after one to warm up."""

    def step() -> None:
        attend(*inputs).sum().backward()
        for each in inputs:
            each.grad = None

    device = inputs[0].device
    step()
    seconds = []
    memory = peak_during(step, device)
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - start)
    return Cost(statistics.median(seconds), memory)


def plain_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax attention (N, H, D) by way of all N x N scores."""
    scores = torch.einsum("nhd,mhd->hnm", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("hnm,mhd->nhd", scores.softmax(-1), v)


def _inputs(nodes: int, *, heads: int, dim: int, device: torch.device) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(nodes)
    x = torch.randn(3, nodes, heads, dim, generator=generator).to(device)
    return tuple(each.clone().requires_grad_() for each in x)


def _build(spec: Any) -> Attention:
    return plain_softmax if spec is None else pick(ATTENTIONS, spec, linear, 0)


def _against_nodes(
    name: str, spec: Any, counts: list[int], shape, longest: float
) -> dict[int, Cost]:
    """Return the cost for each number of nodes, as far as time and memory go."""
    found: dict[int, Cost] = {}
    for count in counts:
        if found:
            last = max(found)
            growth = (count / last) ** EXPONENT.get(name, 1.0)
            if found[last].seconds * growth > longest:
                break
        inputs = shape(count)
        if spec is None and 4 * count**2 * inputs[0].shape[1] > LARGEST:
            break
        found[count] = cost_of(_build(spec), inputs)
    return found


def exponent(costs: dict[int, Cost]) -> float:
    """Return the slope of log time in log N over the larger half of the sizes."""
    counts = sorted(costs)[len(costs) // 2 - (len(costs) < 4) :]
    seconds = [costs[each].seconds for each in counts]
    return float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])


def _rows(costs: dict[str, dict[int, Cost]], tolerance: float) -> list[Row]:
    rows = [
        Row(
            f"exponent of the time in N: {name}", exponent(each), EXPONENT.get(name, 1.0), tolerance
        )
        for name, each in costs.items()
        if len(each) > 1 and name != "softmax, N x N"  # memory slows it down before its time
    ]
    common = max(set(costs["softmax"]) & set(costs["rba around softmax"]))
    faster = costs["softmax"][common].seconds / costs["rba around softmax"][common].seconds
    fewer = common / BATCH["size"]
    return [*rows, Row(f"softmax by rba around it: time, N = {common}", faster, fewer, 0.75)]


def _plot(title: str, x_label: str, costs: dict[str, dict[int, Cost]], of) -> Series:
    lines = {
        name: (list(each), [of(cost) for cost in each.values()]) for name, each in costs.items()
    }
    return Series(title, x_label, lines)


def _milliseconds(cost: Cost) -> float:
    return 1000 * cost.seconds


def _mebibytes(cost: Cost) -> float:
    return max(cost.memory, 2**12) / 2**20
