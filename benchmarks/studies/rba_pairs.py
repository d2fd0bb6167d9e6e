"""Random batches of models that look at pairs of nodes: Graphormer and GRIT, beside the full form.

Full attention evaluates the bias of Graphormer, and makes the states of GRIT, for all N x N pairs;
random batches do so for the N p pairs inside them. Measured: the test score, and the time and peak
memory of a training step against N and p, until the full form takes too long. Times are those of
the processor, on one thread, so that other programs do not count.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, PositiveInt
from rba_cost import exponent
from study import OVER_SEEDS, Row, Series, Study, run
from tqdm import tqdm

import zoo
from zoo import Dataset
from zoo.runs.compare import candidate, compare
from zoo.runs.resolve import load_recipe
from zoo.system.environment import using_threads
from zoo.system.memory import peak_during

MODELS: dict[str, dict[str, Any]] = {
    "graphormer": {"dim": 32, "hops": 4},
    "grit": {"dim": 8, "heads": 2, "steps": 5},
}
"""Models of which steps are measured: pairs within four edges."""

TRAINED: dict[str, dict[str, Any]] = {
    "graphormer": {
        "dataset": "chameleon",
        "model": MODELS["graphormer"],
        "train": {"epochs": 20, "lr": 0.01, "weight_decay": 5e-4},
        "seeds": [0, 1, 2],
    },
    "grit": {
        "dataset": {"name": "mutag", "split": "folds-10"},
        "readout": "max",
        "model": {"dim": 16, "dropout": 0.0},
        "train": {"epochs": 10, "lr": 0.005, "batching": {"name": "samples", "size": 32}},
        "seeds": [0, 1, 2],
    },
}
"""Short trainings: on one graph, and on small ones, where GRIT in full can be trained."""

SIZES: dict[str, list[int]] = {"graphormer": [32, 128], "grit": [8]}
"""Nodes per batch, p, in which they are trained."""

VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "graphormer": {"": {}},
    "grit": {"": {}, ", first states": {"update_pairs": False}},
}
"""What is said behind the name of an attention to options: GRIT in batches also without updates."""

LONGEST = 6.0
"""Seconds of a step beyond which larger graphs are left out."""


def rba_pairs(
    *,
    quick: bool = False,
    sizes: Annotated[list[PositiveInt], Field(min_length=1)] = [32, 128],  # noqa: B006
    largest: Annotated[int, Field(ge=2**10)] = 2**14,
) -> Study:
    """Score, time and memory of Graphormer and GRIT in full and in random batches.

    Args:
        quick: an epoch of one seed, and up to 1,024 nodes; times are told and not judged.
        sizes: nodes per batch of the steps, p.
        largest: most nodes of a step, each with four neighbours at random.
    """
    with using_threads(1):
        table = _scores(["train.epochs=1", "seeds=[0]"] if quick else [])
        steps = _steps(sizes, min(largest, 2**10) if quick else largest)
    return _study(table, steps, None if quick else sizes[0])


def _study(table: list[dict[str, Any]], steps: Steps, judged: int | None) -> Study:
    """Return the study of scores and steps; the exponents of a size p are judged, if any."""
    rows = [] if judged is None else _claims(steps, judged)
    plots = [_score_plot(table, model) for model in MODELS if _scored(table, model)]
    for title, of in (("seconds of the processor", 0), ("peak memory, MiB", 1)):
        plots += [_step_plot(f"A step of {model}, {title}", steps[model], of) for model in MODELS]
    costs = [
        {"model": model, "attention": name, "N": n, "s": f"{s:.3g}", "± s": f"{spread:.2g}",
         "MiB": f"{mib:.0f}"}
        for model, lines in steps.items() for name, line in lines.items()
        for n, (s, mib, spread) in line.items()
    ]  # fmt: skip
    return Study("rba-pairs", rows, plots, [*table, *costs])


def _scored(table: list[dict[str, Any]], model: str) -> bool:
    return any(row["model"] == model for row in table)


def _spec(size: int | None) -> Any:
    return "native" if size is None else {"name": "rba", "size": size}


def _name(size: int | None) -> str:
    return "full" if size is None else f"p = {size}"


def _scores(changes: list[str]) -> list[dict[str, Any]]:
    """Return a row for each model, variant and attention: score, and time of an epoch."""
    keys, entries = [], []
    for model, recipe in TRAINED.items():
        for what, more in VARIANTS[model].items():
            for size in SIZES[model] if what else (None, *SIZES[model]):
                options = {"name": model, **recipe["model"], **more, "attention": _spec(size)}
                name = f"{model}{what.replace(', ', '-').replace(' ', '-')}-{size or 'full'}"
                loaded = load_recipe({**recipe, "model": options}, changes)
                entries.append(candidate(loaded, name=name))
                keys.append((name, model, f"{_name(size)}{what}", size))
    with tempfile.TemporaryDirectory() as folder:
        found = {each["recipe"]: each for each in compare(entries, runs=Path(folder))}
    return [
        {
            "model": model,
            "attention": shown,
            "p": size,
            "test": round(found[name]["test"]["mean"], 4),
            "std": round(found[name]["test"]["std"] or 0.0, 4),
            "ms/epoch": round(1000 * found[name]["seconds_per_epoch"]),
        }
        for name, model, shown, size in keys
    ]


Steps = dict[str, dict[str, dict[int, tuple[float, float, float]]]]
"""Model, attention and N to seconds, MiB, and the standard deviation of the seconds."""


def _steps(sizes: list[int], largest: int) -> Steps:
    found: Steps = {}
    for model in tqdm(MODELS, unit="model", disable=None):
        for size in (None, *sizes):
            line = found.setdefault(model, {}).setdefault(_name(size), {})
            nodes = 2**9
            while nodes <= largest:
                line[nodes] = _step(model, size, _regular(nodes))
                growth = 4 if size is None else 2
                if growth * line[nodes][0] > LONGEST:
                    break
                nodes *= 2
    return found


def _regular(nodes: int) -> Dataset:
    """Return a ring with a second ring in a random order: about four neighbours each."""
    order = torch.randperm(nodes, generator=torch.Generator().manual_seed(nodes))
    first = torch.arange(nodes)
    edges = torch.cat([torch.stack([one, one.roll(1)], 1) for one in (first, order)])
    x = torch.randn(nodes, 16, generator=torch.Generator().manual_seed(0))
    arrays = zoo.data.GraphArrays(edges.numpy(), (first % 2).numpy(), x.numpy())
    return zoo.data.make_dataset("regular", arrays, task="node-classification")


def _step(model: str, size: int | None, data: Dataset) -> tuple[float, float, float]:
    made = zoo.create_model(model, 16, 2, **MODELS[model], attention=_spec(size)).train()

    def step() -> None:
        made.zero_grad()
        torch.nn.functional.cross_entropy(made(data.graph, data.x).logits, data.y).backward()

    def seconds() -> float:
        start = time.process_time()
        step()
        return time.process_time() - start

    step()  # the tables of pairs are made
    took = [seconds() for _ in range(3)]
    memory = peak_during(step, torch.device("cpu"))
    return statistics.median(took), memory / 2**20, statistics.stdev(took)


def _claims(steps: Steps, size: int) -> list[Row]:
    """Return the exponents of the time in N: 2 in full, 1 in random batches."""
    rows = []
    for model, lines in steps.items():
        for name, growth in (("full", 2.0), (_name(size), 1.0)):
            costs: Any = {n: _Seconds(each[0]) for n, each in lines[name].items()}
            told = f"exponent of the time of a step in N: {model}, {name}"
            rows.append(Row(told, exponent(costs), growth, 0.25))
    return rows


class _Seconds:
    """What `exponent` reads of a cost."""

    def __init__(self, seconds: float):
        self.seconds = seconds


def _step_plot(title: str, lines: dict[str, dict[int, tuple[float, float, float]]], of: int):
    drawn = {
        name: ([*line], [max(each[of], 0.01) for each in line.values()])
        for name, line in lines.items()
    }
    bars = {name: [each[2] for each in line.values()] for name, line in lines.items()}
    note = f"a line ends where the next size would take over {LONGEST:g} s"
    if of == 0:
        note = f"bars: standard deviation of three steps; {note}"
    return Series(title, "N", drawn, margins={} if of else bars, note=note)


def _score_plot(table: list[dict[str, Any]], model: str) -> Series:
    """Return the score against p; that of full attention is a dashed line."""
    lines: dict[str, tuple[list[float], list[float]]] = {}
    margins: dict[str, list[float]] = {}
    sizes, data = SIZES[model], TRAINED[model]["dataset"]
    for row in (each for each in table if each["model"] == model):
        name = "full" if row["p"] is None else "random batches"
        name += ", first states" if "first states" in row["attention"] else ""
        x, y = lines.setdefault(name, ([], []))
        own = [row["p"]] if row["p"] else [sizes[0] / 2, sizes[-1] * 2]
        x += own
        y += [row["test"]] * len(own)
        margins.setdefault(name, []).extend([row["std"]] * len(own))
    dashed = tuple(name for name in lines if name.startswith("full"))
    title = f"Test score of {model} on {data if isinstance(data, str) else data['name']}"
    return Series(title, "p", lines, dashed, True, margins, OVER_SEEDS)


if __name__ == "__main__":
    run(rba_pairs)
