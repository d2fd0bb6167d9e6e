"""What a model is given at a time: the strategies of `train.batching`, each a loader of batches.

The whole graph in one step, or a share of its nodes in each process; batches of the nodes of a
graph: random ones, clusters, or some with sampled neighbours; of samples, such as graphs; and of
snapshots in time. That of pairs of texts, by their tokens, is in `zoo.sequences.batches`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from zoo.canonical_form import derived
from zoo.config.options import MOST, Count, Table
from zoo.data import Dataset
from zoo.data.samples import Samples
from zoo.data.snapshots import Snapshots
from zoo.data.splits import PARTS, Split
from zoo.errors import ZooError
from zoo.graphs.adjacency import neighbours
from zoo.graphs.per_graph import questions
from zoo.graphs.sampling import (
    check_neighbours,
    clusters,
    contained,
    induced,
    neighbourhood,
)
from zoo.graphs.shard import Graph, Shard
from zoo.graphs.spmm import place
from zoo.ops.losses import known_numbers
from zoo.ops.random_order import random_order, seed_of
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.memory import SideStream, out_of_memory, upload
from zoo.tasks.task import Measure, Task

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


Score = Callable[[str, Sequence[Measure]], list[float]]
"""What some measures say of a part of the split: train, val or test."""


def nodes_of(split: Split) -> Tensor:
    """Return the nodes of all parts, (m,), one part after another."""
    return torch.cat([getattr(split, each) for each in PARTS])


def score(logits: Tensor, y: Tensor, split: Split) -> Score:
    """Return what is said of each part, for the logits (m, C) and labels of its `nodes_of`."""
    sizes = [len(getattr(split, each)) for each in PARTS]
    pairs = dict(zip(PARTS, zip(logits.split(sizes), y.split(sizes), strict=True), strict=True))
    return lambda part, measures: [measure(*pairs[part]) for measure in measures]


class Batch(NamedTuple):
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


class FullBatch:
    """The whole graph in one step."""

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str):
        self.data, self.device = moved(data, device), torch.device(device)
        self.train = train.to(device)

    def parts(self, epoch: int) -> Iterator[Batch]:
        """Give the mini-batches of an epoch: one."""
        yield Batch(self.data.graph, self.data.x, self.data.y, self.train)

    def logits(self, answer: Callable[[Graph, Tensor], Tensor], nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C), for a function that answers for a graph."""
        return answer(self.data.graph, self.data.x)[upload(nodes, self.device)]

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Answer for the nodes of all parts at once; return what measures say of each."""
        nodes = nodes_of(on.split)
        logits = infer(model, self, precision, lambda answer: self.logits(answer, nodes))
        return score(logits, upload(on.data.y[nodes], logits.device), on.split)

    def combine(self, model: nn.Module) -> None:
        """Reduce gradients over processes. No-op: they are identical on every rank."""

    def total(self, loss: Tensor) -> Tensor:
        """Return the loss of all processes."""
        return loss


class FullBatchWhereItFits:
    """Evaluation of the whole graph at once: on a GPU that has room for it, else on the CPU.

    It is copied there for each evaluation, so that batches have the memory to themselves.
    """

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str):
        self.data, self.train, self.device = data, train, torch.device(device)

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Answer for the nodes of all parts at once; return what measures say of each."""
        try:
            return FullBatch(self.data, self.train, self.device).scores(model, on, precision)
        except (RuntimeError, MemoryError) as error:
            if self.device.type != "cuda" or not out_of_memory(error):
                raise
        torch.cuda.empty_cache()
        self.device = torch.device("cpu")
        return self.scores(model, on, precision)


class InductiveEvaluation:
    """Evaluation of each part of a split on a graph of its own, all at once."""

    def __init__(self, apart: Mapping[str, tuple[Dataset, Tensor]], device: torch.device | str):
        self.parts = {name: FullBatch(data, rows, device) for name, (data, rows) in apart.items()}

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Measure a part, which is answered for when it is asked for."""

        def score(part: str, measures: Sequence[Measure]) -> list[float]:
            over = self.parts[part]
            logits = infer(model, over, precision, lambda answer: over.logits(answer, over.train))
            return [measure(logits, over.data.y[over.train]) for measure in measures]

        return score


class DataParallelBatches(FullBatch):
    """Work that the processes divide among them."""

    def combine(self, model: nn.Module) -> None:
        """All-reduce the gradients."""
        process_group.sum_gradients(model.parameters())

    def total(self, loss: Tensor) -> Tensor:
        """Return the loss of all processes."""
        return process_group.total(loss)


class ShardedBatches(DataParallelBatches):
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

    def parts(self, epoch: int) -> Iterator[Batch]:
        """Give the share that this process has in the present step."""
        if epoch // self.redeal != self.dealt:
            self.dealt = epoch // self.redeal
            self.shard = self._deal(1 + self.dealt)
        nodes = self.shard.nodes.to(self.device)
        rows = self.training[nodes].nonzero().squeeze(1)
        weight = int(self.known[nodes[rows]].sum()) / self.whole
        share = len(nodes) / len(self.data.x)
        seed = seed_of((self.seed, process_group.rank(), epoch))
        yield Batch(self.shard, self.data.x[nodes], self.data.y[nodes], rows, weight, share, seed)

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


def infer(model: Model, over: FullBatch, precision: str, ask: Callable[[Callable], Any]) -> Any:
    """Run inference in eval mode: return what `ask` makes of `(graph, x) -> logits`."""
    with evaluating(model, over.device, precision):
        return ask(lambda graph, x: model(graph, x).logits.float())


@contextlib.contextmanager
def evaluating(model: Model, device: torch.device | str, precision: str = "fp32") -> Iterator[None]:
    """Put a model on a device in eval mode, without gradients; leave it as it was before."""
    home, modes = next(model.parameters()).device, [(m, m.training) for m in model.modules()]
    model.to(device).eval()
    try:
        with torch.no_grad(), autocast(torch.device(device), precision):
            yield
    finally:
        model.to(home)
        for module, training in modes:
            module.training = training


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


Fanout = Annotated[int, Field(ge=-1, le=MOST)]
Fanouts = Annotated[list[Fanout], Field(min_length=1, max_length=32)]


class Batches(DataParallelBatches):
    """Batches of nodes, made by a thread of its own while steps are taken.

    What is drawn in an epoch follows from the run's seed and the epoch's number alone. Several
    processes divide the batches of a step among them.

    Attributes:
        waited: seconds that steps have waited for batches.
        asked: what the model asks about a graph, as far as it is known from the last batch.
    """

    asked: Sequence[Callable[[Graph], object]] = ()

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str, per_step: int):
        self.data, self.device, self.per_step = data, torch.device(device), per_step
        self.graph = derived(data.graph.formats("csc"), data.graph)
        neighbours(self.graph)  # brought into order now, not by the thread
        self.train, self.seed, self.waited = train, torch.initial_seed() % 2**63, 0.0
        self.training = torch.zeros(len(data.x), dtype=torch.bool)
        self.training[train] = True
        self.known = known_numbers(data.y)

    def parts(self, epoch: int) -> Iterator[Batch]:
        """Give this process its batches of an epoch; any without training nodes is left out."""
        batches = self.sample(seed_of((self.seed, epoch)))
        with_training = [each for each in batches if self.training[each].any()]
        dealt = self._dealt(with_training, epoch)
        with contextlib.closing(self._ahead(lambda work: self._part(*work), dealt)) as made:
            for part in made:
                yield part._replace(x=self._features(part.x))
                self.asked = questions(part.graph)

    def logits(self, answer: Callable[[Graph, Tensor], Tensor], nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C), each from one batch, the same each time."""
        asked, back = nodes.unique(return_inverse=True)
        batches = [each for each in self._answered(asked) if contained(each, asked).any()]
        own, idle = _shared(batches)
        room = None
        for number, made in enumerate(self._ahead(self._asked, [*own, *idle])):
            chosen, graph, x, rows = made
            found = answer(graph, self._features(x))[rows]
            room = found.new_zeros(len(asked), *found.shape[1:]) if room is None else room
            if number < len(own):
                wanted = contained(chosen, asked).nonzero().squeeze(1)
                places = torch.searchsorted(asked, chosen[wanted])
                room[upload(places, self.device)] = found[upload(wanted, self.device)]
        return process_group.total(room)[upload(back, self.device)]

    def sample(self, seed: int) -> list[Tensor]:
        """Return the nodes of each batch of an epoch, in any order: what another strategy defines.

        Args:
            seed: of what is drawn; the same seed gives the same batches.
        """
        raise NotImplementedError

    def _answered(self, asked: Tensor) -> list[Tensor]:
        """Return the nodes of batches that answer for those asked (m,)."""
        return self.sample(self.seed)

    def _cut(self, chosen: Tensor, seed: int) -> tuple[Tensor, Graph]:
        """Return the nodes that a batch of these, in increasing order, consists of; their graph."""
        return chosen, induced(self.graph, chosen)

    def _dealt(self, batches: list[Tensor], epoch: int) -> Iterator[tuple]:
        """Give this process its batches of each step, with their weight in it."""
        together = self.per_step * process_group.count()
        for start in range(0, len(batches), together):
            step = batches[start : start + together]
            known = [int(self.known[each[self.training[each]]].sum()) for each in step]
            own, idle = _shared([*enumerate(step)])
            until = min(1.0, (start + together) / len(batches))
            for turn, (index, chosen) in enumerate([*own, *idle], 1):
                weight = known[index] / max(1, sum(known)) if turn <= len(own) else 0.0
                seed, last = seed_of((self.seed, epoch, start + index)), turn == len(own + idle)
                yield chosen, weight, seed, last, until, index if turn <= len(own) else None

    def _part(
        self,
        chosen: Tensor,
        weight: float,
        seed: int,
        last: bool,
        until: float,
        place: int | None,
    ) -> Batch:
        chosen = chosen.sort().values
        nodes, graph = self._cut(chosen, seed)
        rows = torch.searchsorted(nodes, chosen[self.training[chosen]])
        x, graph = self._rows(nodes), self._placed(graph)
        y, rows = (upload(each, self.device) for each in (self.data.y[nodes], rows))
        return Batch(graph, x, y, rows, weight, weight, seed, last, until, place=place)

    def _asked(self, chosen: Tensor) -> tuple[Tensor, Graph, Tensor, Tensor]:
        chosen = chosen.sort().values
        nodes, graph = self._cut(chosen, self.seed)
        rows = upload(torch.searchsorted(nodes, chosen), self.device)
        return chosen, self._placed(graph), self._rows(nodes), rows

    def _placed(self, graph: Graph) -> Graph:
        """Return a graph on the device; on a GPU with all that was asked about the last one."""
        graph = place(graph, self.device)
        for ask in self.asked if self.device.type == "cuda" else ():
            ask(graph)
        return graph

    def _rows(self, nodes: Tensor) -> Tensor:
        """Return the features of some nodes, or what `_features` makes them of; in the thread."""
        return upload(self.data.x[nodes], self.device).float()

    def _features(self, rows: Tensor) -> Tensor:
        """Return the features of a batch, (n, F), of its rows; between two steps."""
        return rows

    def _ahead(self, make: Callable, items: Iterable) -> Iterator:
        """Give what is made of each item by a thread, and count how long is waited for it."""
        with contextlib.closing(ahead(make, items, self.device)) as made:
            while True:
                start = time.perf_counter()
                found = next(made, None)
                self.waited += time.perf_counter() - start
                if found is None:
                    return
                yield found


def _shared(batches: list) -> tuple[list, list]:
    """Return the batches of this process, and those that it repeats while others have one more."""
    own = batches[process_group.rank() :: process_group.count()]
    return own, batches[:1] * (-(-len(batches) // process_group.count()) - len(own))


class RandomNodes(Batches):
    """The nodes dealt at random into batches, with the edges inside of each.

    Args:
        size: nodes in a batch at most; batches differ by one node at most.
        per_step: batches, of each process, whose gradients are added up for one step.
    """

    def __init__(self, data, train, device, *, size: Count, per_step: Count = 1):
        super().__init__(data, train, device, per_step)
        self.size = size

    def sample(self, seed: int) -> list[Tensor]:
        """Return all nodes, dealt at random."""
        order = random_order(len(self.data.x), seed)
        return list(order.tensor_split(-(-len(order) // self.size)))


class Clusters(Batches):
    """Clusters of nodes that few edges leave (METIS), a few at random in each batch.

    Cluster-GCN (arXiv 1905.07953), section 3.2.

    Args:
        parts: clusters in all.
        per_batch: clusters in a batch, with the edges between them.
        per_step: batches, of each process, whose gradients are added up for one step.
    """

    def __init__(
        self, data, train, device, *, parts: Count, per_batch: Count = 1, per_step: Count = 1
    ):
        super().__init__(data, train, device, per_step)
        found = clusters(data.graph, parts)
        sizes = torch.bincount(found, minlength=parts).tolist()
        self.clusters = [each for each in found.argsort(stable=True).split(sizes) if len(each)]
        self.per_batch = per_batch

    def sample(self, seed: int) -> list[Tensor]:
        """Return the nodes of a few clusters each."""
        order = random_order(len(self.clusters), seed).tolist()
        groups = [order[i : i + self.per_batch] for i in range(0, len(order), self.per_batch)]
        return [torch.cat([self.clusters[i] for i in group]) for group in groups]


class Neighbours(Batches):
    """Some training nodes and what is drawn around them; only they have a loss.

    GraphSAGE (arXiv 1706.02216), section 3.1.

    Args:
        fanouts: neighbours that are drawn at each distance, nearest first; -1 draws all.
        size: training nodes in a batch at most.
        per_step: batches, of each process, whose gradients are added up for one step.
        features: `whole`, or `sharded`: each process keeps the features of its share of the nodes
            in memory, and those of a batch are exchanged before its step.
    """

    def __init__(
        self,
        data,
        train,
        device,
        *,
        fanouts: Fanouts,
        size: Count,
        per_step: Count = 1,
        features: Literal["whole", "sharded"] = "whole",
    ):
        super().__init__(data, train, device, per_step)
        if 0 in fanouts:
            raise ZooError("a fanout of 0 draws no neighbours; leave it out, or write -1 for all.")
        self.fanouts, self.size, self.own = fanouts, size, None
        if features == "sharded":
            self.sizes = process_group.shares(len(data.x))
            self.own = data.x.split(self.sizes)[process_group.rank()].clone()

    def sample(self, seed: int) -> list[Tensor]:
        """Return training nodes, dealt at random."""
        order = self.train[random_order(len(self.train), seed)]
        return list(order.tensor_split(-(-len(order) // self.size)))

    def _answered(self, asked: Tensor) -> list[Tensor]:
        return list(asked.tensor_split(-(-len(asked) // self.size)))

    def _cut(self, chosen: Tensor, seed: int) -> tuple[Tensor, Graph]:
        return neighbourhood(self.graph, chosen, self.fanouts, seed)

    def _rows(self, nodes: Tensor) -> Tensor:
        return nodes if self.own is not None else super()._rows(nodes)

    def _features(self, rows: Tensor) -> Tensor:
        if self.own is None:
            return rows
        found = process_group.exchange_rows(self.own, self.sizes, rows)
        return upload(found, self.device).float()


DEFAULT = 128
"""Samples in a batch where nothing else is said."""

ANSWERED = 2**15
"""Nodes of snapshots that are answered for at a time, but for the size of a batch."""

POOL = 32
"""Batches that exchange samples for others of their size."""


class SampleBatches(DataParallelBatches):
    """So many graphs, or so many nodes, at a time; several processes divide the batches.

    Args:
        size: samples in a batch at most; left out 128, or any number with `tokens`.
        tokens: nodes in a batch at most, but for a sample that has more by itself.
        per_step: batches, of each process, whose gradients are added up for one step.
    """

    def __init__(
        self,
        data: Samples,
        train: Tensor,
        device: torch.device | str,
        *,
        size: Count | None = None,
        tokens: Count | None = None,
        per_step: Count = 1,
    ):
        self.data, self.train, self.device = data, train, torch.device(device)
        self.per_step, self.seed = per_step, torch.initial_seed() % 2**63
        self.size = size or (len(data.y) if tokens else DEFAULT)
        self.tokens, self.known = tokens, known_numbers(data.y)

    def parts(self, epoch: int) -> Iterator[Batch]:
        """Give this process its batches of an epoch."""
        planned = self._planned(self.train, seed_of((self.seed, epoch)))
        return self._ahead(lambda work: self._part(*work), self._dealt(planned, epoch))

    def logits(self, answer: Callable[[Graph, Tensor], Tensor], nodes: Tensor) -> Tensor:
        """Return the logits of some samples, (m, C), a batch of like size at a time."""
        asked, back = nodes.unique(return_inverse=True)
        batches = self._answered(asked)
        own = batches[process_group.rank() :: process_group.count()] or batches[:1]
        room = None
        for chosen, (graph, x) in self._ahead(lambda each: (each, self._made(each)), own):
            found = self.data.reader(chosen)(answer(graph, x))
            room = found.new_zeros(len(asked), *found.shape[1:]) if room is None else room
            room[upload(torch.searchsorted(asked, chosen), self.device)] = found
        if process_group.rank() >= len(batches):
            room.zero_()  # others have answered
        return process_group.total(room)[upload(back, self.device)]

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Measure a part, whose samples are answered for when it is asked for."""

        def score(part: str, measures: Sequence[Measure]) -> list[float]:
            chosen = getattr(on.split, part)
            logits = infer(model, self, precision, lambda answer: self.logits(answer, chosen))
            y = upload(on.data.y[chosen], logits.device)
            return [measure(logits, y) for measure in measures]

        return score

    def _dealt(self, batches: list[Tensor], epoch: int) -> Iterator[tuple]:
        """Give this process its batches of each step, with their share of what the step is told."""
        rank, count = process_group.rank(), process_group.count()
        together = self.per_step * count
        for start in range(0, len(batches), together):
            step = batches[start : start + together]
            known = [int(self.known[each].sum()) for each in step]
            whole = max(1, sum(known))
            work = [(each, known[each] / whole) for each in range(rank, len(step), count)]
            work = work or [(0, 0.0)]
            for number, weight in work:
                last, until = number == work[-1][0], min(1.0, (start + together) / len(batches))
                seed = seed_of((self.seed, epoch, start + number))
                place = number if rank < len(step) else None
                yield step[number], weight, seed, last, until, place

    def _answered(self, asked: Tensor) -> list[Tensor]:
        """Return batches of samples (m,) to answer for."""
        return self._cut(asked[self.data.graphs.sizes[asked].argsort(stable=True)])

    def _planned(self, samples: Tensor, seed: int) -> list[Tensor]:
        """Return samples (m,) in random batches, each of like size."""
        samples = samples[random_order(len(samples), seed)]
        sizes = self.data.graphs.sizes[samples]
        if (sizes == sizes[0]).all():
            return self._cut(samples)
        pool = POOL * self.size
        if self.tokens:
            pool = min(pool, max(1, POOL * self.tokens * len(sizes) // int(sizes.sum())))
        batches = []
        for some, many in zip(samples.split(pool), sizes.split(pool), strict=True):
            batches += self._cut(some[many.argsort(stable=True)])
        order = random_order(len(batches), seed_of((seed, 1)))
        return [batches[each] for each in order.tolist()]

    def _cut(self, samples: Tensor) -> list[Tensor]:
        """Cut samples (m,) into batches as they follow each other."""
        if not self.tokens:
            return list(samples.tensor_split(-(-len(samples) // self.size)))
        starts, held = [0], 0
        for number, nodes in enumerate(self.data.graphs.sizes[samples].tolist()):
            full = number - starts[-1] == self.size or held + nodes > self.tokens
            if full and number > starts[-1]:
                starts.append(number)
                held = 0
            held += nodes
        return [samples[first:last] for first, last in pairwise([*starts, len(samples)])]

    def _part(
        self,
        chosen: Tensor,
        weight: float,
        seed: int,
        last: bool,
        until: float,
        place: int | None,
    ) -> Batch:
        graph, x = self._made(chosen)
        y = upload(self.data.y[chosen], self.device)
        rows, read = torch.arange(len(chosen), device=self.device), self.data.reader(chosen)
        return Batch(graph, x, y, rows, weight, weight, seed, last, until, read, place)

    def _made(self, chosen: Tensor) -> tuple[Graph, Tensor]:
        graph, x = self.data.batch(chosen)
        return place(graph, self.device), upload(x, self.device)

    def _ahead(self, make: Callable, items: Iterable) -> Iterator:
        return ahead(make, items, self.device)


class SnapshotBatches(SampleBatches):
    """Snapshots in the order of their times, or in any; a step for each, or one for an epoch.

    The loss is that of values as they are scaled, scores are in their own unit.

    Args:
        size: snapshots in a batch at most.
        accumulate: add up the gradients of all batches of an epoch for a single step.
        shuffle: take them in another order in each epoch.
    """

    data: Snapshots

    def __init__(
        self,
        data: Snapshots,
        train: Tensor,
        device: torch.device | str,
        *,
        size: Count = 1,
        accumulate: bool = False,
        shuffle: bool = False,
    ):
        per_step = -(-len(train) // size) if accumulate else 1
        super().__init__(data, train, device, size=size, per_step=per_step)
        self.shuffle = shuffle

    def _planned(self, samples: Tensor, seed: int) -> list[Tensor]:
        order = random_order(len(samples), seed) if self.shuffle else slice(None)
        return self._cut(samples[order])

    def _answered(self, asked: Tensor) -> list[Tensor]:
        return list(asked.split(max(self.size, ANSWERED // int(self.data.graphs.sizes[0]))))

    def _part(self, chosen: Tensor, *how) -> Batch:
        part = super()._part(chosen, *how)
        y = upload(self.data.scaled_targets(chosen), self.device)
        return part._replace(y=y, read=lambda rows: rows.float().reshape(len(chosen), -1))

    def _ahead(self, make: Callable, items: Iterable) -> Iterator:
        return map(make, items)  # rows of what is in memory: waiting for a thread takes longer


BATCHING = Table(
    "batching",
    {
        "full": FullBatch,
        "random-nodes": RandomNodes,
        "clusters": Clusters,
        "neighbours": Neighbours,
        "samples": SampleBatches,
        "snapshots": SnapshotBatches,
        "tokens": "zoo.sequences.batches:TokenBatches",
    },
)
"""Word to builder `(data, train, device, *, options) -> mini-batch strategy`.

One of your own, of batches of nodes, is a class below `Batches` with its own `sample`.
"""

BUILT_IN = frozenset(BATCHING)
"""The words of which data say whether they are for them; one of your own is taken as asked."""
