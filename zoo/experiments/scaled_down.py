"""Training steps and evaluations on small random graphs of a recipe's kind, and what they hold.

The graphs have the recipe's model, features, split and mean degree.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Iterator

import torch

from zoo.config.options import pick
from zoo.datasets import Dataset
from zoo.datasets.canonical import canonical
from zoo.datasets.splits import PARTS, Split
from zoo.datasets.tasks import TASKS, with_loss
from zoo.experiments.prepare import with_edge_dim
from zoo.experiments.resolve import Plan
from zoo.system.memory import peak_during
from zoo.training.epoch import Steps
from zoo.training.fit import COPIES
from zoo.training.full_batch import Part, TrainingData, Whole
from zoo.training.optimizers import OPTIMIZERS
from zoo.weights.create import create_model

STEPS = 4
"""Steps of a training that is measured: holes in the memory fill up."""


class ScaledDown:
    """A plan on random graphs of any size; what is measured is in bytes, at the peak.

    Args:
        plan: whose model is trained.
        data: the graph whose features and labels are drawn from.
        split: its first split.
    """

    def __init__(self, plan: Plan, data: Dataset, split: Split):
        task = with_loss(pick(TASKS, data.task), plan.train["loss"])
        self._plan, self._on = plan, TrainingData(data, split, task)

    def steps(self, n: int, degree: float) -> Steps:
        """Return a new model and its steps on a graph of n nodes."""
        on, train = _like(self._on, n, degree), self._plan.train
        options = {key: value for key, value in self._plan.model.items() if key != "name"}
        options = with_edge_dim(self._plan.model["name"], options, on.data.edge_dim)
        outputs = on.task.outputs(on.data.classes)
        torch.manual_seed(0)
        model = create_model(self._plan.model["name"], on.data.inputs, outputs, **options)
        model.begin_epoch(train["epochs"] - 1)  # the last phase holds most
        return Steps(model, on, precision=train["precision"], clip=train["clip"])

    def of_training(self, n: int, degree: float, *, uneven: bool = False) -> int:
        """Return what some steps hold, beyond weights and data."""
        steps = self.steps(n, degree)
        if uneven:
            steps.over = _Uneven(_like(self._on, size, degree) for size in _sizes(n))
        weights = list(steps.model.parameters())
        optimiser = pick(OPTIMIZERS, self._plan.train["optimizer"], weights, 0.0, 0.0)
        kept = (COPIES - 2) * sum(each.nbytes for each in weights)

        def call() -> None:
            for epoch in range(STEPS):
                steps.train(optimiser, epoch)

        return max(0, peak_during(call, torch.device("cpu"), at_hand=True) - kept)

    def seconds(self, n: int, degree: float) -> float:
        """Return what a step takes that is not the first."""
        steps = self.steps(n, degree)
        optimiser = pick(OPTIMIZERS, self._plan.train["optimizer"],
                         list(steps.model.parameters()), 0.0, 0.0)  # fmt: skip
        steps.train(optimiser, 0)
        start = time.perf_counter()
        steps.train(optimiser, 1)
        return time.perf_counter() - start

    def of_evaluation(self, n: int, degree: float) -> int:
        """Return what an evaluation holds."""
        steps = self.steps(n, degree)
        return peak_during(lambda: steps.evaluate()("val"), torch.device("cpu"), at_hand=True)


class _Uneven(Whole):
    """A step on each of some graphs in turn.

    What one step has freed has holes of the wrong size for the next, and more is held after each.
    """

    def __init__(self, graphs: Iterable[TrainingData]):
        self.graphs = [Whole(each.data, each.split.train, "cpu") for each in graphs]

    def parts(self, epoch: int) -> Iterator[Part]:
        for each in self.graphs:
            yield from each.parts(epoch)


def _sizes(n: int) -> list[int]:
    """Return n and some numbers up to a two-hundredth below it, in no order."""
    generator = torch.Generator().manual_seed(n)
    return [n, *(n - torch.randint(n // 200 + 1, (15,), generator=generator)).tolist()]


def _like(on: TrainingData, n: int, degree: float) -> TrainingData:
    """Return a random graph of n nodes, with rows of the data and as large shares of its split."""
    data, split = on.data, on.split
    generator = torch.Generator().manual_seed(n)
    edges = torch.randint(n, (int(n * max(0.0, degree - 1) / 2), 2), generator=generator)
    rows = torch.randint(len(data.x), (n,), generator=generator)
    places, parts = torch.randperm(n, generator=generator), {}
    for name in PARTS:
        known = getattr(split, name)
        count = max(1, n * len(known) // len(data.x))
        parts[name], places = places[:count].sort().values, places[count:]
        chosen = torch.randint(len(known), (len(parts[name]),), generator=generator)
        rows[parts[name]] = known[chosen]
    x, y = data.x[rows].float(), data.y[rows]
    graph = canonical(edges.numpy(), nodes=n)
    for name, values in data.graph.edata.items():  # weights of edges
        graph.edata[name] = values.new_ones(graph.num_edges(), *values.shape[1:])
    like = dataclasses.replace(data, graph=graph, x=x, y=y, masks=None, ids=None)
    return on._replace(data=like, split=Split(**parts, sha256=""))
