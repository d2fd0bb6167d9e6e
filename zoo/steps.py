"""What an epoch does: a step for each part of the graph that it goes over, and the evaluation.

A run of one process goes over the whole graph at once. Several processes do the same side by side,
or go over a share of the nodes each where the model's random batches are `local` to them.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from zoo import processes
from zoo.datasets import Dataset
from zoo.errors import ZooError
from zoo.propagation import place
from zoo.random_batch import local_redeal, partition, seed_of
from zoo.registry import Model
from zoo.shards import Graph, Shard
from zoo.splits import Split
from zoo.tasks import Task


class Part(NamedTuple):
    """What a step is taken on.

    Attributes:
        graph: the graph, or a share of it.
        x: features of its rows (n, F).
        y: their labels.
        rows: those to train on, (m,) int64.
        weight: of their loss: 1, or the share of all training nodes that they are.
        share: of the penalty: 1, or the share of all nodes that the rows are.
    """

    graph: Graph
    x: Tensor
    y: Tensor
    rows: Tensor
    weight: float = 1.0
    share: float = 1.0


class Whole:
    """The whole graph in one step."""

    def __init__(self, data: Dataset, train: Tensor):
        self.data, self.train = data, train.to(data.x.device)

    def parts(self) -> Iterator[Part]:
        """Give what an epoch goes over."""
        yield Part(self.data.graph, self.data.x, self.data.y, self.train)

    def logits(self, answer: Callable[[Graph, Tensor], Tensor]) -> Tensor:
        """Return the logits of every node, (N, C), for a function that answers for a graph."""
        return answer(self.data.graph, self.data.x)

    def combine(self, model: nn.Module) -> None:
        """Bring together what the processes have found in a step: they have found the same."""

    def total(self, loss: Tensor) -> float:
        """Return the loss of all processes."""
        return loss.item()


class Shared(Whole):
    """A share of the nodes for each process, dealt anew after some steps.

    Evaluation has a deal of its own that stays. Processes differ in what they draw from here on.
    """

    def __init__(self, data: Dataset, train: Tensor, redeal: int):
        super().__init__(data, train)
        self.redeal, self.step = redeal, 0
        self.seed = int(torch.randint(2**62, ()))  # the same in every process
        torch.manual_seed(seed_of((self.seed, processes.rank())))
        self.training = torch.zeros(len(data.x), dtype=torch.bool, device=data.x.device)
        self.training[self.train] = True
        self.fixed = self._deal(0)

    def parts(self) -> Iterator[Part]:
        """Give the share that this process has in the present step."""
        if self.step % self.redeal == 0:
            self.shard = self._deal(1 + self.step // self.redeal)
        self.step += 1
        nodes = self.shard.nodes.to(self.data.x.device)
        rows = self.training[nodes].nonzero().squeeze(1)
        weight, share = len(rows) / len(self.train), len(nodes) / len(self.data.x)
        yield Part(self.shard, self.data.x[nodes], self.data.y[nodes], rows, weight, share)

    def logits(self, answer: Callable[[Graph, Tensor], Tensor]) -> Tensor:
        """Return the logits of every node, (N, C), which every process gets."""
        nodes = self.fixed.nodes.to(self.data.x.device)
        return self.fixed.in_place(answer(self.fixed, self.data.x[nodes]))

    def combine(self, model: nn.Module) -> None:
        """Add up the gradients of all processes; running means become their mean."""
        processes.sum_gradients(model.parameters())
        processes.average_buffers(model)

    def total(self, loss: Tensor) -> float:
        """Return the loss of all processes."""
        return processes.total(loss.detach()).item()

    def _deal(self, number: int) -> Shard:
        order = partition(len(self.data.x), seed_of((self.seed, number)))
        return Shard(self.data.graph, order)


@dataclasses.dataclass
class Steps:
    """A training pass and an evaluation over one split."""

    model: Model
    data: Dataset
    split: Split
    task: Task
    augment: Callable[[Tensor], Tensor]
    precision: str
    clip: float | None

    def __post_init__(self):
        redeal = local_redeal(self.model) if processes.count() > 1 else None
        given = (self.data, self.split.train)
        self.over = Whole(*given) if redeal is None else Shared(*given, redeal)

    def train(self, optimiser: torch.optim.Optimizer, epoch: int) -> float:
        """Take one step per part; return the mean loss."""
        self.model.train()
        losses = []
        for part in self.over.parts():
            optimiser.zero_grad(set_to_none=True)
            loss = self._loss(part)
            losses.append(_finite(self.over.total(loss), epoch, optimiser))
            loss.backward()
            self.over.combine(self.model)
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
            optimiser.step()
        return statistics.fmean(losses)

    def evaluate(self) -> Callable[[str], float]:
        """Predict once; return the metric as a function of the part: train, val or test."""
        logits = _logits(self.model, self.over, self.precision)

        def score(part: str) -> float:
            nodes = getattr(self.split, part).to(logits.device)
            return self.task.metric(logits[nodes], self.data.y[nodes])

        return score

    def _loss(self, part: Part) -> Tensor:
        with _autocast(part.x.device, self.precision):
            logits, penalty = self.model(part.graph, self.augment(part.x))
        # Of a share without training nodes the loss has no weight; its gradients are zeros.
        rows = part.rows
        loss = self.task.loss(logits[rows], part.y[rows]) if len(rows) else logits.sum()
        return part.weight * loss + part.share * penalty


def all_logits(model: Model, data: Dataset, precision: str = "fp32") -> Tensor:
    """Return the logits of every node, (N, C) fp32 where the data is, model in evaluation mode."""
    return _logits(model, Whole(data, torch.empty(0, dtype=torch.int64)), precision)


def moved(data: Dataset, device: torch.device | str) -> Dataset:
    """Return the data on a device; the graph stays where DGL can hold it."""
    parts = {"x": data.x.to(device), "y": data.y.to(device), "graph": place(data.graph, device)}
    return dataclasses.replace(data, **parts)


@torch.no_grad()
def _logits(model: Model, over: Whole, precision: str) -> Tensor:
    model.eval()
    with _autocast(over.data.x.device, precision):
        return over.logits(lambda graph, x: model(graph, x).logits.float())


def _autocast(device: torch.device, precision: str):
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def _finite(loss: float, epoch: int, optimiser: torch.optim.Optimizer) -> float:
    if math.isfinite(loss):
        return loss
    rate = optimiser.param_groups[-1]["lr"]
    raise ZooError(
        f"the loss became {loss} in epoch {epoch} at a learning rate of {rate:g}. "
        f"Write a smaller one, `train.lr={rate / 10:g}`, or limit the gradient, `train.clip=1`."
    )
