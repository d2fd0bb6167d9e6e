"""Mini-batch strategies on a graph on disk: time, memory and test score of each.

SGFormer takes the same number of steps on a stochastic block model with each strategy, in a process
of its own. All are then evaluated on the same test nodes in the same way.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from pydantic import Field, PositiveFloat, PositiveInt
from study import Row, Study, run
from tqdm import tqdm

import zoo
from zoo.data.load import prepare_on_disk
from zoo.data.splits import make_split
from zoo.system.allocator import keep_freed_memory
from zoo.system.memory import own_peak
from zoo.tasks.task import TASKS
from zoo.training.batches import Neighbours, TrainingData
from zoo.training.trainer import Trainer

ASKED = 20_000
"""Number of test nodes on which every model is evaluated."""

CLASSES = 4

PARTS = 200
"""Clusters, of a node each at least."""

MOST = 3.0
"""Memory limit of a process in GiB, without pages of mapped files."""

WAIT = 0.15
"""Limit of the share of a step spent waiting for its batch."""


class Found(NamedTuple):
    """Result of one strategy: steps, nodes per step, seconds, bytes and the test score."""

    steps: int
    nodes: float
    ready: float
    step: float
    waited: float
    memory: int
    test: float


def batching_study(
    *,
    quick: bool = False,
    nodes: Annotated[int, Field(ge=100 * PARTS)] = 2_000_000,
    steps: PositiveInt = 100,
    dim: PositiveInt = 64,
    noise: PositiveFloat = 1.0,
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
) -> Study:
    """Time, memory and test score of mini-batches: random nodes, clusters, sampled neighbours.

    Args:
        quick: a hundredth of the nodes, a third of the steps; nothing is claimed.
        nodes: number of nodes, with ten edges each, from 20,000.
        steps: training steps with each strategy.
        dim: number of features, and width of the model.
        noise: standard deviation of the features' noise; at 2 they say little, and edges that a
            batch leaves out matter more.
        dropout: of the model. A million training nodes need none, and random nodes drop edges
            already.
    """
    if quick:
        nodes, steps = nodes // 100, max(1, steps // 3)
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder, "graph")
        drawn = {
            "name": "sbm",
            "nodes": nodes,
            "classes": CLASSES,
            "degree": 20,
            "dim": dim,
            "noise": noise,
        }
        prepare_on_disk(drawn, graph, half=True, memory=1.0)
        # tqdm draws on standard error, and nothing at all where that is not a terminal.
        found = {
            name: _measured(str(graph), spec, steps, dim, dropout)
            for name, spec in tqdm(_kinds(nodes).items(), unit="kind", disable=None)
        }
    table = [_line(name, each) for name, each in found.items()]
    return Study("batching", [] if quick else _rows(found), table=table)


def _rows(found: dict[str, Found]) -> list[Row]:
    """Return what is claimed of scores, memory and waiting."""
    scores = [each.test for each in found.values()]
    apart = 100 * (max(scores) - min(scores))
    return [
        Row("points between the best test score and the worst", apart, 1, None),
        Row("a guess by the worst test score", 1 / CLASSES / min(scores), 0.5, None),
        *(
            Row(f"GiB of a process, {name}", each.memory / 2**30, MOST, None)
            for name, each in found.items()
        ),
        *(
            Row(f"share of a step waited, {name}", each.waited, WAIT, None)
            for name, each in found.items()
        ),
    ]


def _kinds(nodes: int) -> dict[str, dict[str, Any]]:
    """Return the strategies, with batches of about a twentieth of the nodes each."""
    return {
        "random-nodes": {"name": "random-nodes", "size": nodes // 20},
        "clusters": {"name": "clusters", "parts": PARTS, "per_batch": 10},
        "neighbours": {"name": "neighbours", "fanouts": [10, 5], "size": max(50, nodes // 1000)},
    }


def _line(name: str, found: Found) -> dict[str, Any]:
    return {
        "batches": name,
        "steps": found.steps,
        "nodes per step": round(found.nodes),
        "ready s": round(found.ready, 1),
        "ms per step": round(1000 * found.step),
        "nodes per s": round(found.nodes / found.step),
        "waited": f"{found.waited:.1%}",
        "MiB": round(found.memory / 2**20),
        "test": round(found.test, 4),
    }


def _measured(*what) -> Found:
    """Return the result of one strategy, measured in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as apart:
        return apart.submit(_apart, *what).result()


def _apart(*what) -> Found:
    """Train, evaluate, and return the result."""
    keep_freed_memory()
    with own_peak() as peak:
        found = _trained(*what)
    return Found(**found, memory=max(peak))


def _trained(
    graph: str, batching: dict[str, Any], steps: int, dim: int, dropout: float
) -> dict[str, float]:
    data = zoo.load_graph(graph)
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    torch.manual_seed(0)
    model = zoo.create_model(
        "sgformer",
        data.x.shape[1],
        data.classes,
        dim=dim,
        attention="rba",
        dropout=dropout,
        graph_layers=3,
        graph_dropout=dropout,
    )
    on = TrainingData(data, split, zoo.pick(TASKS, data.task))
    start = time.perf_counter()
    trainer = Trainer(model, on, batching=batching, evaluation="batches")
    ready = time.perf_counter() - start
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    counted = _Counted(trainer.train_loader, steps)
    trainer.train_loader = counted
    start, epoch = time.perf_counter(), 0
    while counted.steps < steps:
        trainer.train(optimiser, epoch)
        epoch += 1
    seconds = time.perf_counter() - start
    return {
        "steps": counted.steps,
        "nodes": counted.nodes / counted.steps,
        "ready": ready,
        "step": seconds / counted.steps,
        "waited": counted.over.waited / seconds,
        "test": _test_score(model, on),
    }


def _test_score(model: zoo.Model, on: TrainingData) -> float:
    """Return the metric on some test nodes, each answered from its sampled neighbourhood."""
    nodes = on.split.test[:: max(1, len(on.split.test) // ASKED)]
    asked = Neighbours(on.data, nodes, "cpu", fanouts=[10, 10], size=2_000)
    model.eval()
    with torch.no_grad():
        logits = asked.logits(lambda graph, x: model(graph, x).logits, nodes)
    return on.task.metric(logits, on.data.y[nodes])


class _Counted:
    """Mini-batches that are counted, and end after a number of steps."""

    def __init__(self, over, most: int):
        self.over, self.most, self.steps, self.nodes = over, most, 0, 0

    def batches(self, epoch: int):
        for part in self.over.batches(epoch):
            self.steps, self.nodes = self.steps + 1, self.nodes + len(part.x)
            yield part
            if self.steps == self.most:
                return


if __name__ == "__main__":
    run(batching_study)
