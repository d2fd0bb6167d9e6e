"""What batches of a graph on disk cost, and whether they learn the same, kind beside kind.

A planted partition is written on disk, and SGFormer takes as many steps on batches of each kind, in
a process of its own. All are then asked about the same test nodes in the same way.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from zoo.config.options import Count, Positive, Rate, pick
from zoo.datasets.load import load_graph, prepare_on_disk
from zoo.datasets.splits import make_split
from zoo.datasets.tasks import TASKS
from zoo.experiments.launch import run_together
from zoo.registry import Model
from zoo.studies.study import Row, Study
from zoo.system.allocator import keep_freed_memory
from zoo.system.memory import own_peak
from zoo.training.epoch import Steps, TrainingData
from zoo.training.mini_batch import Neighbours
from zoo.weights.create import create_model

ASKED = 20_000
"""Test nodes that every model is asked about."""

CLASSES = 4

MOST = 3.0
"""GiB that a process should hold at most, pages of mapped files aside."""

WAIT = 0.15
"""Share of a step that it should wait for its batch at most."""


class Found(NamedTuple):
    """Of one kind of batches: steps and what they saw, cost, and the test score after them."""

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
    nodes: Count = 2_000_000,
    steps: Count = 100,
    dim: Count = 64,
    noise: Positive = 1.0,
    dropout: Rate = 0.0,
) -> Study:
    """Time, memory and test score of batches of random nodes, of clusters and of neighbours.

    Args:
        quick: a hundredth of the nodes, a third of the steps; nothing is claimed.
        nodes: nodes of the graph, ten edges each.
        steps: how many each kind takes.
        dim: features, and width of the model.
        noise: of the features; at 2 they say little, and what a batch leaves out of the graph is
            missed.
        dropout: of the model. A million nodes to train on need none, and what random nodes leave
            out of the graph is one already.
    """
    if quick:
        nodes, steps = nodes // 100, steps // 3
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
    """Return batches of a twentieth of the nodes, and of neighbours about as many."""
    return {
        "random-nodes": {"name": "random-nodes", "size": nodes // 20},
        "clusters": {"name": "clusters", "parts": 200, "per_batch": 10},
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


def _measured(graph: str, batching: dict[str, Any], *options) -> Found:
    """Return what is found in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder, "found.json")
        work = json.dumps([str(said), graph, batching, *options])
        run_together(1, ["zoo.studies.batching", work])
        return Found(**json.loads(said.read_text()))


def _work(said: str, *what) -> None:
    """What a process does: train, ask, and write down what it has seen."""
    keep_freed_memory()
    with own_peak() as peak:
        found = _trained(*what)
    Path(said).write_text(json.dumps({**found, "memory": max(peak)}))


def _trained(
    graph: str, batching: dict[str, Any], steps: int, dim: int, dropout: float
) -> dict[str, float]:
    data = load_graph(graph)
    split = make_split("ratio-50-25-25", data.y, None, seed=0)
    torch.manual_seed(0)
    model = create_model(
        "sgformer",
        data.x.shape[1],
        data.classes,
        dim=dim,
        attention="rba",
        attention_dropout=dropout,
        graph_layers=3,
        graph_dropout=dropout,
    )
    on = TrainingData(data, split, pick(TASKS, data.task))
    start = time.perf_counter()
    over = Steps(model, on, batching=batching, evaluation="batches")
    ready = time.perf_counter() - start
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    counted = _Counted(over.over, steps)
    over.over = counted
    start, epoch = time.perf_counter(), 0
    while counted.steps < steps:
        over.train(optimiser, epoch)
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


def _test_score(model: Model, on: TrainingData) -> float:
    """Return the metric on some test nodes, each answered from its sampled neighbourhood."""
    nodes = on.split.test[:: max(1, len(on.split.test) // ASKED)]
    asked = Neighbours(on.data, nodes, "cpu", fanouts=[10, 10], size=2_000)
    model.eval()
    with torch.no_grad():
        logits = asked.logits(lambda graph, x: model(graph, x).logits, nodes)
    return on.task.metric(logits, on.data.y[nodes])


class _Counted:
    """Batches that are counted and end after so many steps."""

    def __init__(self, over, most: int):
        self.over, self.most, self.steps, self.nodes = over, most, 0, 0
        self.combine, self.total = over.combine, over.total

    def parts(self, epoch: int):
        for part in self.over.parts(epoch):
            self.steps, self.nodes = self.steps + 1, self.nodes + len(part.x)
            yield part
            if self.steps == self.most:
                return


if __name__ == "__main__":
    _work(*json.loads(sys.argv[1]))
