"""Scaling of a training step in N: time and memory of every model, native and with RBA.

Ten edges per node, width 64, each step in a process of its own; exponents are log-log slopes over
all sizes. Softmax attention over all nodes is left out: it is quadratic. `growth.csv` keeps the
medians of the steps and their extremes, and `draw(kept())` draws them again.

    python benchmarks/growth.py [--full]
"""

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from contest import Aim, conclude, contest_of_processes, full_asked
from graphs import canonical, uniform
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch.nn import functional

from zoo.system.allocator import keep_freed_memory
from zoo.system.memory import available_memory
from zoo.weights.create import create_model

DIM, CLASSES = 64, 10
RBA = {"name": "rba", "size": 256}
LINEAR = ("sgformer", "nodeformer", "difformer", "polynormer", "htgn")
MODELS = {
    **{f"{name}, native": (name, "native") for name in LINEAR},
    **{f"{name}, rba": (name, RBA) for name in LINEAR},
    "graphgps, rba": ("graphgps", {**RBA, "inner": "softmax"}),
    "transformer, rba": ("transformer", {**RBA, "inner": "softmax"}),
}
OPTIONS = {
    "difformer": {"dropout": 0.2},
    "graphgps": {"norm": "batch"},
    "htgn": {"norm": "layer"},
    "nodeformer": {"full_heads": 4, "norm": "layer", "dropout": 0.0},
    "polynormer": {"local_layers": 5, "global_layers": 2, "norm": "none"},
}
TIME, MEMORY = "T", "M"
"""Signs at the ends of lines: what forbids a larger graph."""

ROUNDS = {50_000: 9, 500_000: 5}
"""Largest N to the number of timed steps, after the first; one step for larger graphs."""

SIZES = [10_000, 40_000, 160_000, 640_000, 2_000_000]

LONGEST = 20.0
"""Longest step in seconds: after it no larger graph is tried."""

TABLE = Path(__file__).with_suffix(".csv")

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Told apart without colour sight: those of Okabe and Ito, without their yellow."""

LOOKS = dict(zip(dict(MODELS.values()), zip(COLOURS, "os^Dv*P", strict=False), strict=False))
"""Model to its colour and its marker."""


class Growth(NamedTuple):
    """A step at one size: median seconds, bytes of the process, and the extremes of the seconds."""

    seconds: float
    bytes: float
    fastest: float | None = None
    slowest: float | None = None


def step_of(name: str, attention, nodes: int):
    """Return a step of training a model on a random graph."""
    keep_freed_memory()
    graph = canonical(uniform(nodes, 5 * nodes), nodes)
    torch.manual_seed(0)
    x, y = torch.randn(nodes, DIM), torch.randint(CLASSES, (nodes,))
    model = create_model(name, DIM, CLASSES, dim=DIM, attention=attention,
                         **OPTIONS.get(name, {}))  # fmt: skip
    optimiser = torch.optim.Adam(model.parameters(), lr=0.001)

    def step():
        optimiser.zero_grad(set_to_none=True)
        logits, penalty = model(graph, x)
        loss = functional.cross_entropy(logits, y) + penalty
        loss.backward()
        optimiser.step()
        return loss.item()

    return step


def measured(name: str, attention, sizes: list[int]) -> dict[int, Growth]:
    """Return the costs of a step by N, up to the limits of time and memory."""
    found: dict[int, Growth] = {}
    for nodes in sizes:
        if found and _too_long(found, nodes):
            break
        if found and nodes / max(found) * found[max(found)].bytes > 0.9 * available_memory():
            break
        way = {"zoo": (step_of, (name, attention, nodes))}
        rounds = next((each for most, each in ROUNDS.items() if nodes <= most), 1)
        cost = contest_of_processes(way, rounds=rounds)["zoo"]
        found[nodes] = Growth(cost.seconds, cost.bytes, cost.fastest, cost.slowest)
        print(f"{name}, {attention}, {nodes:,}: {found[nodes]}", flush=True)
    return found


def _too_long(found: dict[int, Growth], nodes: int) -> bool:
    """Return whether a step on so many nodes would take too long, at the pace of the last one."""
    return nodes / max(found) * found[max(found)].seconds > LONGEST


def exponent(found: dict[int, Growth], which: int) -> float:
    """Return the slope of the logarithm of time (0) or memory (1) in that of N."""
    values = [each[which] for each in found.values()]
    return float(np.polyfit(np.log(list(found)), np.log(values), 1)[0])


def keep(costs: dict[str, dict[int, Growth]]) -> None:
    """Write the table that `kept` reads."""
    with TABLE.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["model", "nodes", *Growth._fields])
        rows.writerows([label, n, *c] for label, found in costs.items() for n, c in found.items())


def kept() -> dict[str, dict[int, Growth]]:
    """Return the costs of the last full run, by label and N."""
    costs: dict[str, dict[int, Growth]] = {}
    for row in csv.DictReader(TABLE.open()):
        numbers = (float(row[name]) for name in Growth._fields if row.get(name))
        costs.setdefault(row["model"], {})[int(row["nodes"])] = Growth(*numbers)
    return costs


def draw(costs: dict[str, dict[int, Growth]]) -> None:
    """Plot time and memory against N, a column for the native attentions and one for batches."""
    figure = Figure(figsize=(12, 8.5), layout="constrained")
    grid = figure.subplots(2, 2, sharex=True, sharey="row")
    ways = {"native": "the model's own attention", "rba": f"random batches of {RBA['size']}"}
    for row, title in enumerate(("Seconds of a step", "GB of the process")):
        for axes, (way, name) in zip(grid[row], ways.items(), strict=True):
            chosen = [label for label in costs if label.endswith(way)]
            for label in chosen:
                _draw_line(axes, costs[label], row, *LOOKS[MODELS[label][0]])
            _draw_ends(axes, {label: costs[label] for label in chosen}, row)
            axes.set(xscale="log", yscale="log", xlabel="nodes", title=f"{title}, {name}")
            axes.set_xticks(SIZES, [f"{each:,}" for each in SIZES])
            axes.yaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.grid(alpha=0.3)
            axes.tick_params(labelbottom=True, labelleft=True)
    figure.legend(handles=_legend(), loc="outside right upper", frameon=False)
    median = "median of 9 steps up to 50,000 nodes, of 5 up to 500,000, one step beyond"
    if any(each.slowest for found in costs.values() for each in found.values()):
        median += "; bars: the fastest and the slowest"
    left_out = "graphgps and transformer with their own softmax over all nodes are left out"
    figure.supxlabel(f"{median}\n{left_out}: it is quadratic", fontsize="small")
    figure.savefig(TABLE.with_suffix(".png"), dpi=100)


def _draw_line(axes, found: dict[int, Growth], row: int, colour: str, marker: str) -> None:
    """Draw one model's seconds or GB."""
    values = [each[row] / (1, 1e9)[row] for each in found.values()]
    ends = [(each.fastest, each.slowest) for each in found.values()]
    bars = None
    if row == 0 and all(None not in each for each in ends):
        bars = [
            [value - low for value, (low, _) in zip(values, ends, strict=True)],
            [high - value for value, (_, high) in zip(values, ends, strict=True)],
        ]
    axes.errorbar(list(found), values, bars, color=colour, marker=marker, markersize=5, capsize=2)


def _draw_ends(axes, costs: dict[str, dict[int, Growth]], row: int) -> None:
    """Write at the ends of lines why no larger graph was tried; signs that would touch go aside."""
    written: list[tuple[int, float]] = []
    for label, found in costs.items():
        last = max(found)
        larger = [each for each in SIZES if each > last]
        if larger:
            value = found[last][row] / (1, 1e9)[row]
            aside = sum(n == last and abs(np.log(y / value)) < 0.15 for n, y in written)
            written.append((last, value))
            sign = TIME if _too_long(found, larger[0]) else MEMORY
            offset = {"xytext": (8 + 10 * aside, 0), "textcoords": "offset points"}
            colour = LOOKS[MODELS[label][0]][0]
            axes.annotate(sign, (last, value), color=colour, va="center", weight="bold", **offset)


def _legend() -> list[Line2D]:
    """Return the models, and the signs at the ends of lines."""
    models = [
        Line2D([], [], color=colour, marker=marker, label=name)
        for name, (colour, marker) in LOOKS.items()
    ]
    signs = {
        TIME: f"ends: the next size\nwould take over {LONGEST:g} s",
        MEMORY: "ends: the next size\nwould not fit in memory",
    }
    ends = [
        Line2D([], [], color="black", linestyle="", marker=f"${sign}$", label=text)
        for sign, text in signs.items()
    ]
    return [*models, *ends]


def main():
    """Measure, and write the results."""
    full = full_asked(__doc__)
    sizes = SIZES if full else [5000, 10_000, 20_000]
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
        keep(costs)
        draw(costs)
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
