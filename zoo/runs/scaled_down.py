"""Training steps and evaluations on small random graphs of a recipe's kind, and what they hold.

The graphs have the recipe's model, features, split and mean degree.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from zoo.data import Dataset
from zoo.data.canonical import canonical
from zoo.data.splits import PARTS, Split
from zoo.registry import Model
from zoo.runs.prepare import task_of
from zoo.runs.resolve import Plan
from zoo.system.memory import peak_during
from zoo.training.batches import Batch, FullBatch, TrainingData
from zoo.training.optimizers import still
from zoo.training.trainer import Trainer
from zoo.weights.create import create_model, with_edge_dim

STEPS = 2
"""Steps that are measured where blocks are kept at hand: the second takes those of the first."""


class ScaledDown:
    """A plan on random graphs of any size; what is measured is in bytes, at the peak.

    Args:
        plan: whose model is trained.
        data: the graph whose features and labels are drawn from.
        split: its first split.
    """

    def __init__(self, plan: Plan, data: Dataset, split: Split):
        task = task_of(plan, data)
        self._plan, self._on = plan, TrainingData(data, split, task)

    @functools.cached_property
    def model(self) -> Model:
        """The model, one for all graphs: to make a wide one takes as long as a step."""
        data, task = self._on.data, self._on.task
        options = {key: value for key, value in self._plan.model.items() if key != "name"}
        options = with_edge_dim(self._plan.model["name"], options, data.edge_dim)
        outputs = task.outputs(data.classes)
        torch.manual_seed(0)
        model = create_model(self._plan.model["name"], data.inputs, outputs, **options)
        model.begin_epoch(self._plan.train["epochs"] - 1)  # the last phase holds most
        return model

    def of_training(
        self, n: int, degree: float, *, uneven: bool = False, at_hand: bool = True
    ) -> int:
        """Return what some steps hold beyond weights, their gradients, and data.

        Weights stay as they are and gradients where they are, in place before the first step: what
        the optimiser does, and the gradients, do not grow with the graph, and would be most of what
        a small graph takes. Without `at_hand`, holes between blocks that are kept do not count.
        """
        steps = self._steps(n, degree)
        if uneven:
            steps.train_loader = _Uneven(_like(self._on, size, degree) for size in _sizes(n))
        unmoved = still(self.model.parameters())

        def call() -> None:
            for epoch in range(STEPS if at_hand else 1):
                steps.train(unmoved, epoch)

        return peak_during(call, torch.device("cpu"), at_hand=at_hand)

    def of_evaluation(self, n: int, degree: float) -> int:
        """Return what an evaluation holds."""
        steps = self._steps(n, degree)
        return peak_during(lambda: steps.evaluate()("val"), torch.device("cpu"), at_hand=True)

    def warm_up(self, n: int, degree: float) -> None:
        """Evaluate, and take a step, whose gradients stay: libraries load what they need for it."""
        steps = self._steps(n, degree)
        steps.evaluate()("val")
        steps.train(still(self.model.parameters()), 0)

    @property
    def gradients(self) -> int:
        """Bytes of the gradients that stay after `warm_up`."""
        every = (each.grad for each in self.model.parameters())
        return sum(each.nbytes for each in every if each is not None)

    def _steps(self, n: int, degree: float) -> Trainer:
        train = self._plan.train
        on = _like(self._on, n, degree)
        return Trainer(self.model, on, precision=train["precision"], clip=train["clip"])


class _Uneven(FullBatch):
    """A step on each of some graphs in turn.

    What one step has freed has holes of the wrong size for the next, and more is held after each.
    """

    def __init__(self, graphs: Iterable[TrainingData]):
        self.graphs = [FullBatch(each.data, each.split.train, "cpu") for each in graphs]

    def batches(self, epoch: int) -> Iterator[Batch]:
        for each in self.graphs:
            yield from each.batches(epoch)


def _sizes(n: int) -> list[int]:
    """Return n and some numbers up to a two-hundredth below it, in no order."""
    generator = torch.Generator().manual_seed(n)
    return [n, *(n - torch.randint(n // 200 + 1, (15,), generator=generator)).tolist()]


def _like(on: TrainingData, n: int, degree: float) -> TrainingData:
    """Return a random graph of n nodes, with rows of the data and as large shares of its split.

    The nodes of a part are two at least and have its least label and its largest: a score of two
    classes is not found from one.
    """
    data, split = on.data, on.split
    generator = torch.Generator().manual_seed(n)
    edges = torch.randint(n, (int(n * max(0.0, degree - 1) / 2), 2), generator=generator)
    rows = torch.randint(len(data.x), (n,), generator=generator)
    places, parts = torch.randperm(n, generator=generator), {}
    for name in PARTS:
        known = getattr(split, name)
        count = max(min(2, len(known)), n * len(known) // len(data.x))
        parts[name], places = places[:count].sort().values, places[count:]
        chosen = torch.linspace(0, len(known) - 1, len(parts[name])).round().long()
        rows[parts[name]] = _by_label(known, data.y)[chosen]
    x, y = data.x[rows].float(), data.y[rows]
    graph = canonical(edges.numpy(), nodes=n)
    for name, values in data.graph.edata.items():  # weights of edges
        graph.edata[name] = values.new_ones(graph.num_edges(), *values.shape[1:])
    like = dataclasses.replace(data, graph=graph, x=x, y=y, masks=None, ids=None)
    return on._replace(data=like, split=Split(**parts, sha256=""))


def _by_label(nodes: Tensor, y: Tensor) -> Tensor:
    """Return nodes in the order of their labels, of the first where they have several."""
    labels = y[nodes] if y.ndim == 1 else y[nodes, 0].nan_to_num()
    return nodes[labels.argsort(stable=True)]
