"""Full-batch training: the whole graph in one step, or a share of its nodes in each process."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.datasets import Dataset
from zoo.datasets.splits import PARTS, Split
from zoo.datasets.tasks import Task
from zoo.errors import ZooError
from zoo.graphs.message_passing import place
from zoo.graphs.sampling import check_neighbours
from zoo.graphs.shard import Graph, Shard
from zoo.ops.losses import known_numbers
from zoo.ops.random_order import random_order, seed_of
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.memory import SideStream, out_of_memory, upload

_AHEAD = 2
"""Batches that are made while a step is taken."""


def identity(x: Tensor) -> Tensor:
    """Return x: features that are not augmented, logits that are read as they are."""
    return x


class TrainingData(NamedTuple):
    """What a model learns from, and what it is measured by.

    Attributes:
        data: the graph, its features and labels, on the CPU.
        split: the training, validation and test nodes.
        task: loss and metric.
        augment: data augmentation, applied to the features x (n, F) in training only.
        apart: what each part is measured on, and its rows there, where that is not `data`.
    """

    data: Dataset
    split: Split
    task: Task
    augment: Callable[[Tensor], Tensor] = identity
    apart: Mapping[str, tuple[Dataset, Tensor]] | None = None


def training_alone(on: TrainingData) -> TrainingData:
    """Return what a model learns from where it does not see the nodes that it is measured by.

    It is trained on the training nodes alone, and measured on these together with the nodes of
    validation, or with those of the test.

    Raises:
        ZooError: the data is not the nodes of one graph.
    """
    if "full" not in on.data.batching:
        raise ZooError(
            f"{on.data.name} is {on.data.unit} that never see each other; leave `inductive` out."
        )
    train, split, count = on.split.train, on.split, len(on.split.train)
    apart = {"train": (on.data.part(train), torch.arange(count))}
    for name in ("val", "test"):
        nodes = torch.cat([train, getattr(split, name)])
        apart[name] = on.data.part(nodes), torch.arange(count, len(nodes))
    data, rows = apart["train"]
    split = dataclasses.replace(split, train=rows)
    return on._replace(data=data, split=split, apart=apart)


Score = Callable[[str], float]
"""The metric of a part of the split: train, val or test."""


def nodes_of(split: Split) -> Tensor:
    """Return the nodes of all parts, (m,), one part after another."""
    return torch.cat([getattr(split, each) for each in PARTS])


def score(logits: Tensor, y: Tensor, on: TrainingData) -> Score:
    """Return the metric of each part, for the logits (m, C) and labels of `nodes_of` its split."""
    sizes = [len(getattr(on.split, each)) for each in PARTS]
    pairs = dict(zip(PARTS, zip(logits.split(sizes), y.split(sizes), strict=True), strict=True))
    return lambda part: on.task.metric(*pairs[part])


class Part(NamedTuple):
    """A mini-batch: what a model is given at a time in training.

    Attributes:
        graph: the graph, or a part of it.
        x: features of its rows (n, F), fp32.
        y: their labels.
        rows: those to train on, (m,) int64.
        weight: of their loss: 1, or the share of all training nodes of a step that they are.
        share: of the penalty, likewise.
        seed: of what the model draws; None where it draws from the run's generator.
        last: whether a step is taken after it.
        until: share of the epoch's steps that are taken then, that one included.
        read: the model's logits to those that the rows count, such as means over each graph.
        place: among the batches of its step; None of one that another process has too.
    """

    graph: Graph
    x: Tensor
    y: Tensor
    rows: Tensor
    weight: float = 1.0
    share: float = 1.0
    seed: int | None = None
    last: bool = True
    until: float = 1.0
    read: Callable[[Tensor], Tensor] = identity
    place: int | None = 0


class Whole:
    """The whole graph in one step."""

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str):
        self.data, self.device = moved(data, device), torch.device(device)
        self.train = train.to(device)

    def parts(self, epoch: int) -> Iterator[Part]:
        """Give the mini-batches of an epoch: one."""
        yield Part(self.data.graph, self.data.x, self.data.y, self.train)

    def logits(self, answer: Callable[[Graph, Tensor], Tensor], nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C), for a function that answers for a graph."""
        return answer(self.data.graph, self.data.x)[upload(nodes, self.device)]

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Answer for the nodes of all parts at once; return the metric of each part."""
        nodes = nodes_of(on.split)
        logits = infer(model, self, precision, lambda answer: self.logits(answer, nodes))
        return score(logits, upload(on.data.y[nodes], logits.device), on)

    def combine(self, model: nn.Module) -> None:
        """Reduce gradients over processes. No-op: they are identical on every rank."""

    def total(self, loss: Tensor) -> Tensor:
        """Return the loss of all processes."""
        return loss


class WhereItFits:
    """Evaluation of the whole graph at once: on a GPU that has room for it, else on the CPU.

    It is copied there for each evaluation, so that batches have the memory to themselves.
    """

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str):
        self.data, self.train, self.device = data, train, torch.device(device)

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Answer for the nodes of all parts at once; return the metric of each part."""
        try:
            return Whole(self.data, self.train, self.device).scores(model, on, precision)
        except (RuntimeError, MemoryError) as error:
            if self.device.type != "cuda" or not out_of_memory(error):
                raise
        torch.cuda.empty_cache()
        self.device = torch.device("cpu")
        return self.scores(model, on, precision)


class Apart:
    """Evaluation of each part of a split on a graph of its own, all at once."""

    def __init__(self, apart: Mapping[str, tuple[Dataset, Tensor]], device: torch.device | str):
        self.parts = {name: Whole(data, rows, device) for name, (data, rows) in apart.items()}

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Return the metric of a part, which is answered for when it is asked for."""

        def score(part: str) -> float:
            over = self.parts[part]
            logits = infer(model, over, precision, lambda answer: over.logits(answer, over.train))
            return on.task.metric(logits, over.data.y[over.train])

        return score


class Divided(Whole):
    """Work that the processes divide among them."""

    def combine(self, model: nn.Module) -> None:
        """All-reduce the gradients."""
        process_group.sum_gradients(model.parameters())

    def total(self, loss: Tensor) -> Tensor:
        """Return the loss of all processes."""
        return process_group.total(loss)


class Shared(Divided):
    """A share of the nodes for each process, dealt anew after some steps.

    Evaluation has a deal of its own that stays. What each process draws follows from the run's
    seed, its rank and the epoch.
    """

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str, redeal: int):
        super().__init__(data, train, device)
        self.redeal, self.seed, self.dealt = redeal, torch.initial_seed() % 2**63, -1
        self.training = torch.zeros(len(data.x), dtype=torch.bool, device=self.device)
        self.training[self.train] = True
        self.known = known_numbers(self.data.y)
        self.whole = max(1, int(self.known[self.train].sum()))
        self.fixed = self._deal(0)

    def parts(self, epoch: int) -> Iterator[Part]:
        """Give the share that this process has in the present step."""
        if epoch // self.redeal != self.dealt:
            self.dealt = epoch // self.redeal
            self.shard = self._deal(1 + self.dealt)
        nodes = self.shard.nodes.to(self.device)
        rows = self.training[nodes].nonzero().squeeze(1)
        weight = int(self.known[nodes[rows]].sum()) / self.whole
        share = len(nodes) / len(self.data.x)
        seed = seed_of((self.seed, process_group.rank(), epoch))
        yield Part(self.shard, self.data.x[nodes], self.data.y[nodes], rows, weight, share, seed)

    def logits(self, answer: Callable[[Graph, Tensor], Tensor], nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C), which every process gets."""
        own, nodes = (upload(each, self.device) for each in (self.fixed.nodes, nodes))
        return self.fixed.in_place(answer(self.fixed, self.data.x[own]))[nodes]

    def _deal(self, number: int) -> Shard:
        order = random_order(len(self.data.x), seed_of((self.seed, number)))
        return Shard(self.data.graph, order)


def moved(data: Dataset, device: torch.device | str) -> Dataset:
    """Return the data on a device, in fp32; the graph stays where DGL can hold it.

    Raises:
        ZooError: neighbours of an on-disk graph are none of its nodes.
    """
    check_neighbours(data.graph)
    parts = {"x": data.x.to(device).float(), "y": data.y.to(device)}  # fp16 is widened there
    return dataclasses.replace(data, **parts, graph=place(data.graph, device))


def infer(model: Model, over: Whole, precision: str, ask: Callable[[Callable], Any]) -> Any:
    """Run inference in eval mode: return what `ask` makes of `(graph, x) -> logits`."""
    with evaluating(model, over.device, precision):
        return ask(lambda graph, x: model(graph, x).logits.float())


@contextlib.contextmanager
def evaluating(model: Model, device: torch.device, precision: str) -> Iterator[None]:
    """Have a model on a device in eval mode, without gradients; it goes back afterwards."""
    trained_on = next(model.parameters()).device
    model.to(device).eval()
    with torch.no_grad(), autocast(device, precision):
        yield
    model.to(trained_on)


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return the context of automatic mixed precision, `bf16`, or of none."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def ahead(make: Callable, items: Iterable, device: torch.device | str = "cpu") -> Iterator:
    """Give what is made of each item, the next few of which a thread makes meanwhile.

    Copies to a GPU run beside what it computes; what is given may be used until the next one.
    """
    if torch.device(device).type != "cuda":
        return _ahead(make, items)
    side = SideStream(torch.device(device))
    return side.give(_ahead(partial(side.make, make), items))


def _ahead(make: Callable, items: Iterable) -> Generator:
    waiting: deque[Future] = deque()
    with ThreadPoolExecutor(1) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(make, item))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for each in waiting:
                each.cancel()
