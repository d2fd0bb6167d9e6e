"""Scaling of a training step in N: time and memory of every model, native and with RBA.

Ten edges per node, width 64, each step in a process of its own; exponents are log-log slopes over
all sizes. Softmax attention over all nodes is left out: it is quadratic.

    python benchmarks/growth.py [--full]
"""

import csv
from pathlib import Path

import matplotlib
import numpy as np
import torch
from contest import Aim, conclude, contest_of_processes, full_asked
from graphs import canonical, uniform
from torch.nn import functional

from zoo.system.allocator import keep_freed_memory
from zoo.system.memory import available_memory
from zoo.weights.create import create_model

matplotlib.use("agg")
from matplotlib import pyplot as plt  # noqa: E402

DIM, CLASSES = 64, 10
RBA = {"name": "rba", "size": 256}
LINEAR = ("sgformer", "nodeformer", "difformer", "polynormer", "htgn")
MODELS = {
    **{f"{name}, native": (name, "native") for name in LINEAR},
    **{f"{name}, rba": (name, RBA) for name in LINEAR},
    "graphgps, rba": ("graphgps", {**RBA, "inner": "softmax"}),
    "transformer, rba": ("transformer", {**RBA, "inner": "softmax"}),
}
ROUNDS = {50_000: 9, 500_000: 5}
"""Largest N to the number of timed steps, after the first; one step for larger graphs."""

LONGEST = 20.0
"""Longest step in seconds: after it no larger graph is tried."""


def step_of(name: str, attention, nodes: int):
    """Return a step of training a model on a random graph."""
    keep_freed_memory()
    graph = canonical(uniform(nodes, 5 * nodes), nodes)
    torch.manual_seed(0)
    x, y = torch.randn(nodes, DIM), torch.randint(CLASSES, (nodes,))
    model = create_model(name, DIM, CLASSES, dim=DIM, attention=attention)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)

    def step():
        optimiser.zero_grad(set_to_none=True)
        logits, penalty = model(graph, x)
        loss = functional.cross_entropy(logits, y) + penalty
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


def measured(name: str, attention, sizes: list[int]) -> dict[int, tuple[float, float]]:
    """Return the seconds and bytes of a step by N, up to the limits of time and memory."""
    found: dict[int, tuple[float, float]] = {}
    for nodes in sizes:
        if found:
            last = max(found)
            seconds, held = (nodes / last * each for each in found[last])
            if seconds > LONGEST or held > 0.9 * available_memory():
                break
        way = {"zoo": (step_of, (name, attention, nodes))}
        rounds = next((each for most, each in ROUNDS.items() if nodes <= most), 1)
        cost = contest_of_processes(way, rounds=rounds)["zoo"]
        found[nodes] = cost.seconds, cost.bytes
        print(f"{name}, {attention}, {nodes:,}: {found[nodes]}", flush=True)
    return found


def exponent(found: dict[int, tuple[float, float]], which: int) -> float:
    """Return the slope of the logarithm of time (0) or memory (1) in that of N."""
    values = [each[which] for each in found.values()]
    return float(np.polyfit(np.log(list(found)), np.log(values), 1)[0])


def draw(costs: dict, path: Path) -> None:
    """Plot time and memory against N."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    titles = "Seconds of a step", "GB of the process"
    colours = dict(zip(dict(MODELS.values()), plt.cm.tab10.colors, strict=False))
    for which, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        for label, found in costs.items():
            values = [each[which] / (1, 1e9)[which] for each in found.values()]
            dashed = "-" if label.endswith("native") else "--"
            colour = colours[MODELS[label][0]]
            axis.plot(list(found), values, dashed, marker="o", markersize=3, color=colour)
        axis.set(xscale="log", yscale="log", xlabel="nodes", title=title)
        axis.grid(alpha=0.3)
    lines = [plt.Line2D([], [], color=each) for each in colours.values()]
    lines += [plt.Line2D([], [], color="black", linestyle=each) for each in ("-", "--")]
    figure.legend(lines, [*colours, "native", "random batches"], loc="outside right upper")
    figure.savefig(path, dpi=120)


def main():
    """Measure, and write the results."""
    full = full_asked(__doc__)
    sizes = [10_000, 40_000, 160_000, 640_000, 2_000_000] if full else [5000, 10_000, 20_000]
    costs = {label: measured(*way, sizes) for label, way in MODELS.items()}
    table, aims = [], []
    for label, found in costs.items():
        last = max(found)
        slopes = exponent(found, 0), exponent(found, 1)
        table.append(
            {
                "model": label,
                "largest N": f"{last:,}",
                "s": f"{found[last][0]:.2f}",
                "GB": f"{found[last][1] / 1e9:.2f}",
                "exponent of time": f"{slopes[0]:.2f}",
                "of memory": f"{slopes[1]:.2f}",
            }
        )
    for which, what in enumerate(("time", "memory")):
        steepest = max(costs, key=lambda label: exponent(costs[label], which))
        slope = exponent(costs[steepest], which)
        aims.append(Aim(f"largest exponent of {what} ({steepest})", slope, 1.05))
    if full:
        draw(costs, Path(__file__).with_suffix(".png"))
        with Path(__file__).with_suffix(".csv").open("w", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["model", "nodes", "seconds", "bytes"])
            rows.writerows(
                [label, n, *c] for label, found in costs.items() for n, c in found.items()
            )
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
