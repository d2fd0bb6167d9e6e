"""Time and memory of attention, forward and backward, as a function of the number of nodes.

Measured for each attention alone, and for a training step of SGFormer that uses it. Random Batch
Attention is O(N p) where full attention is O(N^2): the exponents are fitted over the larger half of
the sizes, on the GPU if there is one.
"""

from __future__ import annotations

import functools
import math
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from pydantic import Field, PositiveInt
from study import Row, Series, Study, run
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

import zoo
from zoo.nn.attention import linear
from zoo.system.allocator import give_back_freed_memory, keep_freed_memory
from zoo.system.memory import peak_during

BATCH = {"name": "rba", "size": 256}
METHODS: dict[str, Any] = {
    "softmax": "softmax",
    "softmax, N x N": None,
    "linear": "linear",
    "performer": "performer",
    "rba around softmax": {**BATCH, "inner": "softmax"},
    "rba around linear": {**BATCH, "inner": "linear"},
}
"""Name to the spec in `ATTENTIONS`; None is `plain_softmax`, which stores N x N scores."""

EXPONENT = {"softmax": 2.0, "softmax, N x N": 2.0}
"""Predicted exponent of the time in N; 1 for the others."""

LONGEST = {"quick": 0.25, "full": 20.0}
"""Longest pass in seconds: larger sizes of a method are skipped."""

SLOW = 2.0
"""A pass of this many seconds or more is not repeated: its relative noise is small."""

LARGEST = 2**30
"""Largest N x N scores in bytes: larger sizes of `plain_softmax` are skipped."""


class Cost(NamedTuple):
    """Median seconds, and peak memory in bytes above the baseline, None if not measured."""

    seconds: float
    memory: int | None


def rba_cost(
    *,
    quick: bool = False,
    heads: PositiveInt = 4,
    dim: PositiveInt = 16,
    largest: Annotated[int, Field(ge=2**12)] = 2**20,
) -> Study:
    """Time and memory of attention, forward and backward, against N and p.

    Args:
        quick: up to 16,384 nodes, steps up to 8,192, and a quarter of a second per pass; times are
            told and not judged.
        heads: attention heads H.
        dim: width D of each head.
        largest: largest number of nodes N of the linear methods, from 4,096.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    top, longest = min(largest, 2**14) if quick else largest, LONGEST["quick" if quick else "full"]
    counts = [2**power for power in range(10, int(math.log2(top)) + 1)]
    of_steps = counts[: -1 if quick or len(counts) < 5 else -3]
    layer = functools.partial(_attention, heads=heads, dim=dim, device=device)
    step = functools.partial(_training, dim=heads * dim, device=device)

    def curves(measure: Measure) -> tuple[dict[str, dict[int, float]], ...]:
        """Return the measurements of the attentions and of the steps, by method and N."""
        layers, steps = {}, {}
        # tqdm draws on standard error, and nothing at all where that is not a terminal.
        for name, spec in tqdm(METHODS.items(), unit="method", disable=None):
            curve = functools.partial(_curve, measure, EXPONENT.get(name, 1.0), longest)
            if spec is None:
                most = math.isqrt(LARGEST // (4 * heads))
                layers[name] = curve(
                    functools.partial(layer, spec), [n for n in counts if n <= most]
                )
                continue
            layers[name] = curve(functools.partial(layer, spec), counts)
            steps[name] = curve(functools.partial(step, spec), of_steps)
        return layers, steps

    give_back_freed_memory()
    held = curves(functools.partial(_bytes, device=device))
    keep_freed_memory()  # as in training
    took = curves(functools.partial(_seconds, device=device))
    layers, steps = (_joined(*each) for each in zip(took, held, strict=True))
    plots = [
        _plot(f"An attention, milliseconds, {device}", "N", layers, _milliseconds),
        _plot("An attention, peak memory, MiB", "N", layers, _mebibytes),
        _plot("A step of SGFormer, milliseconds", "N", steps, _milliseconds),
        _plot("A step of SGFormer, peak memory, MiB", "N", steps, _mebibytes),
    ]
    plots = [each._replace(note=_ends(longest)) for each in plots]
    plots.append(_against_size(layer, device, quick))
    # What is small is mostly overhead, and on a busy machine that of others.
    rows = _rows(layers, *((math.inf, math.inf) if quick else (0.25, 0.75)))
    return Study("rba-cost", rows, plots, _table(layers, steps))


def _ends(longest: float) -> str:
    """Return what a plot says of where its lines end."""
    return (
        f"a line ends where the next size would take over {longest:g} s, or N x N scores more than "
        f"{LARGEST / 2**30:g} GiB"
    )


def _against_size(layer: Callable, device: torch.device, quick: bool) -> Series:
    """Return what random batches cost against the nodes p in each, at a fixed number of nodes."""
    sizes = [2**power for power in range(4, 11 if quick else 15, 2)]
    nodes = 2**13 if quick else 2**15

    def cost(name: str, size: int) -> Cost:
        return Cost(_seconds(layer({**METHODS[name], "size": size}, nodes), device)[0], None)

    methods = [name for name in METHODS if name.startswith("rba")]
    found = {name: {size: cost(name, size) for size in sizes} for name in methods}
    return _plot(f"An attention, milliseconds, N = {nodes:,}", "p", found, _milliseconds)


Measure = Callable[[Callable[[], object]], tuple[float, float]]
"""A call to its measurement, and to its seconds."""


def _seconds(call: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Return the median seconds of a call, twice; after a warm-up, and of one call if slow."""

    def seconds() -> float:
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    found = statistics.median(seconds() for _ in range(3 if seconds() < SLOW else 1))
    return found, found


def _bytes(call: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Return the peak memory of a call in bytes, after a warm-up, and the seconds of that."""
    start = time.perf_counter()
    call()
    seconds = time.perf_counter() - start
    return peak_during(call, device), seconds


def _joined(took: dict[str, dict[int, float]], held: dict[str, dict[int, float]]) -> dict:
    return {
        name: {n: Cost(seconds, held[name].get(n)) for n, seconds in each.items()}
        for name, each in took.items()
    }


def plain_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return softmax attention (N, H, D), storing all N x N scores."""
    scores = torch.einsum("nhd,mhd->hnm", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("hnm,mhd->nhd", scores.softmax(-1), v)


def _attention(spec: Any, nodes: int, *, heads: int, dim: int, device: torch.device):
    """Return a forward and backward pass of one attention."""
    generator = torch.Generator().manual_seed(nodes)
    drawn = torch.randn(3, nodes, heads, dim, generator=generator).to(device)
    inputs = [each.clone().requires_grad_() for each in drawn]
    attend = plain_softmax if spec is None else zoo.pick(zoo.ATTENTIONS, spec, linear, 0)

    def step() -> None:
        attend(*inputs).sum().backward()
        for each in inputs:
            each.grad = None

    return step


def _training(spec: Any, nodes: int, *, dim: int, device: torch.device):
    """Return a whole training step of SGFormer on a random graph of ten edges per node."""
    data = zoo.load_graph({"name": "sbm", "nodes": nodes, "degree": 10, "dim": dim})
    model = zoo.create_model("sgformer", dim, data.classes, dim=dim, attention=spec).to(device)
    graph, x, y = data.graph.to(device), data.x.to(device), data.y.to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        logits, penalty = model(graph, x)
        (functional.cross_entropy(logits, y) + penalty).backward()
        optimiser.step()

    return step


def _curve(
    measure: Measure, growth: float, longest: float, prepare: Callable, counts: list[int]
) -> dict[int, float]:
    """Return the measurement for each number of nodes, until a call would take too long."""
    found: dict[int, float] = {}
    seconds = last = 0
    for count in counts:
        if found and seconds * (count / last) ** growth > longest:
            break
        found[count], seconds = measure(prepare(count))
        last = count
    return found


def exponent(costs: dict[int, Cost]) -> float:
    """Return the slope of log time in log N over the larger half of the sizes."""
    counts = sorted(costs)[len(costs) // 2 - (len(costs) < 4) :]
    seconds = [costs[each].seconds for each in counts]
    return float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])


def _rows(costs: dict[str, dict[int, Cost]], tolerance: float, of_ratio: float) -> list[Row]:
    """Return the claims: exponents of softmax and of random batches, and their speed-up."""
    rows = [
        Row(f"exponent of the time in N: {name}", exponent(costs[name]), growth, tolerance)
        for name, growth in (*EXPONENT.items(), *((each, 1.0) for each in costs if "rba" in each))
        if len(costs[name]) > 1 and name != "softmax, N x N"  # it is memory-bound at small N
    ]
    common = max(set(costs["softmax"]) & set(costs["rba around softmax"]))
    faster = costs["softmax"][common].seconds / costs["rba around softmax"][common].seconds
    fewer = common / BATCH["size"]
    return [*rows, Row(f"softmax by rba around it: time, N = {common}", faster, fewer, of_ratio)]


def _plot(title: str, x_label: str, costs: dict[str, dict[int, Cost]], of) -> Series:
    lines = {}
    for name, each in costs.items():
        points = {x: of(cost) for x, cost in each.items() if of(cost) is not None}
        lines[name] = (list(points), list(points.values()))
    return Series(title, x_label, lines)


def _table(layers: dict[str, dict[int, Cost]], steps: dict[str, dict[int, Cost]]) -> list[dict]:
    """Return the cost of every method at the sizes at which softmax was measured."""
    counts = [each for each in layers["softmax"] if each >= 2**12]
    return [
        {
            "N": count,
            "attention": name,
            "ms": round(_milliseconds(costs[count]), 1),
            "MiB": _known(costs, count, _mebibytes),
            "ms of a step": _known(steps.get(name, {}), count, _milliseconds),
            "MiB of a step": _known(steps.get(name, {}), count, _mebibytes),
        }
        for count in counts
        for name, costs in layers.items()
        if count in costs
    ]


def _known(costs: dict[int, Cost], count: int, of: Callable) -> float | None:
    found = of(costs[count]) if count in costs else None
    return None if found is None else round(found, 1)


def _milliseconds(cost: Cost) -> float:
    return 1000 * cost.seconds


def _mebibytes(cost: Cost) -> float | None:
    return None if cost.memory is None else max(cost.memory, 2**12) / 2**20  # a logarithm is taken


if __name__ == "__main__":
    run(rba_cost)
