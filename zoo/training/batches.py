"""Train and eval loaders: what a model is given at a time, by the words of `train.batching`.

The whole graph in one step, or a share of its nodes in each process; batches of the nodes of a
graph: random ones, clusters, or some with sampled neighbours; of samples, such as graphs; and of
snapshots in time. That of pairs of texts is in `zoo.sequences.batches`.
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
from torch import Tensor

from zoo.canonical_form import derived
from zoo.config.options import MOST, Count, Table
from zoo.data import Dataset
from zoo.data.samples import Samples
from zoo.data.snapshots import Snapshots
from zoo.data.splits import PARTS, Split
from zoo.errors import ZooError
from zoo.graphs.adjacency import csc
from zoo.graphs.clusters import clusters
from zoo.graphs.per_graph import cached_structure
from zoo.graphs.sampling import check_neighbours, contained, induced, neighbourhood
from zoo.graphs.shard import Graph, Shard
from zoo.graphs.spmm import place
from zoo.ops.losses import known_numbers
from zoo.ops.random_order import random_order, seed_of
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.memory import SideStream, out_of_memory, upload
from zoo.tasks.task import Measure, Task
from zoo.training.in_context import answer_in_context

PREFETCH = 2
"""Batches that are made while a step is taken."""

Forward = Callable[..., Tensor]
"""`(graph, x) -> logits`, a row per node; or `(graph, x, context)`, see `Model.forward`."""

Score = Callable[[str, Sequence[Measure]], list[float]]
"""`(part, measures) -> numbers` of a part of the split: train, val or test."""


def identity(x: Tensor) -> Tensor:
    """Return x: features that are not augmented."""
    return x


class TrainingData(NamedTuple):
    """What a model learns from, and what it is measured by.

    Attributes:
        data: the graph, its features and labels, on the CPU.
        split: the training, validation and test nodes.
        task: loss and metric.
        augment: data augmentation, applied to the features x (n, F) in training only.
        eval_data: of inductive training: the data of each part's evaluation, and its rows there.
    """

    data: Dataset
    split: Split
    task: Task
    augment: Callable[[Tensor], Tensor] = identity
    eval_data: Mapping[str, tuple[Dataset, Tensor]] | None = None


def make_inductive(on: TrainingData) -> TrainingData:
    """Return the data of inductive training: nobody sees the nodes that a model is measured by.

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
    eval_data = {"train": (on.data.part(train), torch.arange(count))}
    for name in ("val", "test"):
        nodes = torch.cat([train, getattr(split, name)])
        eval_data[name] = on.data.part(nodes), torch.arange(count, len(nodes))
    data, rows = eval_data["train"]
    split = dataclasses.replace(split, train=rows)
    return on._replace(data=data, split=split, eval_data=eval_data)


def nodes_of(split: Split) -> Tensor:
    """Return the nodes of all parts, (m,), one part after another."""
    return torch.cat([getattr(split, part) for part in PARTS])


def part_scores(logits: Tensor, y: Tensor, split: Split) -> Score:
    """Return the scores of each part, for the logits (m, C) and labels of its `nodes_of`."""
    sizes = [len(getattr(split, part)) for part in PARTS]
    pairs = dict(zip(PARTS, zip(logits.split(sizes), y.split(sizes), strict=True), strict=True))
    return lambda part, measures: [measure(*pairs[part]) for measure in measures]


class Batch(NamedTuple):
    """A mini-batch of training.

    Attributes:
        graph: the graph, or a part of it.
        x: features of its rows (n, F), fp32.
        y: their labels.
        rows: those to train on, (m,) int64.
        weight: of their loss: 1, or the share of all training nodes of a step that they are.
        share: of the penalty, likewise.
        seed: of the model's random numbers; None: they come from the run's generator.
        last: whether a step is taken after it.
        until: share of the epoch's steps that are taken then, that one included.
        read: `(model, logits)` to those of the samples, such as means over each graph.
        place: among the batches of its step; None of one that another process has too.
        pairs: of link prediction, the candidates that are scored, (m, 1 + K, 2).
        context: labels that a model may be given, of its rows; None: of none.
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
    read: Callable[[Model, Tensor], Tensor] | None = None
    place: int | None = 0
    pairs: Tensor | None = None
    context: Tensor | None = None


class FullBatch:
    """The whole graph in one step."""

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str):
        self.data, self.device = moved(data, device), torch.device(device)
        self.train = train.to(device)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the mini-batches of an epoch: one."""
        data = self.data
        yield Batch(data.graph, data.x, data.y, self.train, context=data.context)

    def on_whole_graph(self) -> FullBatch | FullBatchWhereItFits:
        """Return what evaluates on the whole graph at once: itself, if it does."""
        return self

    def logits(self, forward: Forward, nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C)."""
        data = self.data
        return forward(data.graph, data.x, data.context)[upload(nodes, self.device)]

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Run inference for the nodes of all parts at once; return their scores."""
        nodes = nodes_of(on.split)
        logits = infer(model, self, precision, lambda forward: self.logits(forward, nodes))
        return part_scores(logits, upload(on.data.y[nodes], logits.device), on.split)


class FullBatchWhereItFits:
    """Evaluation of the whole graph at once: on a GPU that has room for it, else on the CPU.

    It is copied there for each evaluation, so that batches have the memory to themselves.
    """

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str):
        self.data, self.train, self.device = data, train, torch.device(device)

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Run inference for the nodes of all parts at once; return their scores."""
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

    def __init__(self, data: Mapping[str, tuple[Dataset, Tensor]], device: torch.device | str):
        self.loaders = {part: FullBatch(*pair, device) for part, pair in data.items()}

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Return the scores; inference on a part runs when its score is computed."""

        def score(part: str, measures: Sequence[Measure]) -> list[float]:
            loader = self.loaders[part]
            rows = loader.train
            logits = infer(model, loader, precision, lambda forward: loader.logits(forward, rows))
            return [measure(logits, loader.data.y[rows]) for measure in measures]

        return score


class DataParallelBatches(FullBatch):
    """Batches that several processes divide among them: gradients are summed before a step.

    What is random in an epoch follows from the run's seed and the epoch's number alone.

    Attributes:
        per_step: batches, of each process, whose gradients are added up for one step.
        seed: of the run.
    """

    per_step = 0

    def share_batches(
        self, batches: list[Tensor], count: Callable[[Tensor], int], epoch: int
    ) -> Iterator[tuple[Tensor, dict[str, Any]]]:
        """Yield the batches of this process, each with what `Batch` has of its step.

        Where others have one more in a step, the first of the step is repeated with weight 0, so
        that all processes take as many.

        Args:
            batches: of the epoch, in their order: the nodes, or samples, of each.
            count: of the known labels of one, by which batches weigh in a step.
            epoch: its number.
        """
        rank, processes = process_group.rank(), process_group.count()
        together = self.per_step * processes
        for start in range(0, len(batches), together):
            step = batches[start : start + together]
            counts = [count(batch) for batch in step]
            places: list[int | None] = [*range(rank, len(step), processes)]
            places += [None] * (-(-len(step) // processes) - len(places))
            for turn, number in enumerate(places, 1):
                weight = 0.0 if number is None else counts[number] / max(1, sum(counts))
                yield (
                    step[number or 0],
                    {
                        "weight": weight,
                        "share": weight,
                        "seed": seed_of((self.seed, epoch, start + (number or 0))),
                        "last": turn == len(places),
                        "until": min(1.0, (start + together) / len(batches)),
                        "place": number,
                    },
                )


class ShardedBatches(DataParallelBatches):
    """A share of the nodes for each process, shuffled again every `reshuffle_every` epochs.

    Evaluation has shares of its own that stay. What each process draws follows from the run's
    seed, its rank and the epoch.
    """

    def __init__(
        self, data: Dataset, train: Tensor, device: torch.device | str, reshuffle_every: int
    ):
        super().__init__(data, train, device)
        self.reshuffle_every, self.shuffles = reshuffle_every, -1
        self.seed = torch.initial_seed() % 2**63
        self.is_train = torch.zeros(len(data.x), dtype=torch.bool, device=self.device)
        self.is_train[self.train] = True
        self.known = known_numbers(self.data.y)
        self.total = max(1, int(self.known[self.train].sum()))
        self.eval_shard = self._shard(0)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield the share that this process has in the present step."""
        if epoch // self.reshuffle_every != self.shuffles:
            self.shuffles = epoch // self.reshuffle_every
            self.shard = self._shard(1 + self.shuffles)
        nodes = self.shard.nodes.to(self.device)
        rows = self.is_train[nodes].nonzero().squeeze(1)
        weight = int(self.known[nodes[rows]].sum()) / self.total
        share = len(nodes) / len(self.data.x)
        seed = seed_of((self.seed, process_group.rank(), epoch))
        x, y = self.data.x[nodes], self.data.y[nodes]
        yield Batch(self.shard, x, y, rows, weight, share, seed)

    def logits(self, forward: Forward, nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C), which every process gets."""
        own, nodes = upload(self.eval_shard.nodes, self.device), upload(nodes, self.device)
        return self.eval_shard.in_place(forward(self.eval_shard, self.data.x[own]))[nodes]

    def _shard(self, number: int) -> Shard:
        order = random_order(len(self.data.x), seed_of((self.seed, number)))
        return Shard(self.data.graph, order)


def moved(data: Dataset, device: torch.device | str) -> Dataset:
    """Return the data on a device, in fp32; the graph stays where DGL can hold it.

    Raises:
        ZooError: neighbours of an on-disk graph are none of its nodes.
    """
    check_neighbours(data.graph)
    tensors = {"x": data.x.to(device).float(), "y": data.y.to(device)}  # fp16 is widened there
    if getattr(data, "context", None) is not None:
        tensors["context"] = data.context.to(device)
    return dataclasses.replace(data, **tensors, graph=place(data.graph, device))


def infer(model: Model, loader: FullBatch, precision: str, run: Callable[[Forward], Any]) -> Any:
    """Run inference in eval mode: return what `run` makes of `(graph, x, context) -> logits`."""
    with evaluating(model, loader.device, precision):
        return run(lambda *inputs: answer_in_context(model, *inputs).logits.float())


@contextlib.contextmanager
def evaluating(
    model: Model, device: torch.device | str, precision: str = "fp32"
) -> Iterator[torch.dtype]:
    """Put a model on a device in eval mode, without gradients; leave it as it was before.

    Yields the type of its weights.
    """
    floating = (weight for weight in model.parameters() if weight.is_floating_point())
    first = next(floating, torch.empty(0))
    home, modes = first.device, [(module, module.training) for module in model.modules()]
    model.to(device).eval()
    try:
        with torch.no_grad(), autocast(torch.device(device), precision):
            yield first.dtype
    finally:
        model.to(home)
        for module, training in modes:
            module.training = training


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return the context of automatic mixed precision, `bf16`, or of none."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


def prefetch(make: Callable, items: Iterable, device: torch.device | str = "cpu") -> Iterator:
    """Yield `make(item)` of each item, the next few of which a thread makes meanwhile.

    Copies to a GPU run beside its kernels; what is yielded may be used until the next one.
    """
    if torch.device(device).type != "cuda":
        return _prefetch(make, items)
    side = SideStream(torch.device(device))
    return side.give(_prefetch(partial(side.make, make), items))


def _prefetch(make: Callable, items: Iterable) -> Generator:
    futures: deque[Future] = deque()
    with ThreadPoolExecutor(1) as pool:
        try:
            for item in items:
                futures.append(pool.submit(make, item))
                if len(futures) > PREFETCH:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
        finally:
            for future in futures:
                future.cancel()


Fanout = Annotated[int, Field(ge=-1, le=MOST)]
Fanouts = Annotated[list[Fanout], Field(min_length=1, max_length=32)]


class Batches(DataParallelBatches):
    """Batches of nodes, made by a thread while steps are taken; another strategy defines `sample`.

    Attributes:
        waited: seconds that steps have waited for batches.
        structure: look-ups that the model made on the last batch's graph, which the thread makes
            on the next ones of a GPU.
    """

    structure: Sequence[Callable[[Graph], object]] = ()

    def __init__(self, data: Dataset, train: Tensor, device: torch.device | str, per_step: int):
        self.data, self.device, self.per_step = data, torch.device(device), per_step
        self.graph = derived(data.graph.formats("csc"), data.graph)
        csc(self.graph)  # sorted now, not by the thread
        self.train, self.seed, self.waited = train, torch.initial_seed() % 2**63, 0.0
        self.is_train = torch.zeros(len(data.x), dtype=torch.bool)
        self.is_train[train] = True
        self.known = known_numbers(data.y)

    def on_whole_graph(self) -> FullBatch | FullBatchWhereItFits:
        """Return what evaluates on the whole graph at once."""
        loader = FullBatchWhereItFits if self.device.type != "cpu" else FullBatch
        return loader(self.data, self.train, self.device)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield this process's batches of an epoch; any without training nodes is left out."""
        sampled = self.sample(seed_of((self.seed, epoch)))
        with_training = [nodes for nodes in sampled if self.is_train[nodes].any()]
        own = self.share_batches(with_training, self._count_known, epoch)
        with contextlib.closing(self._prefetch(lambda item: self._train_batch(*item), own)) as made:
            for batch in made:
                yield batch._replace(x=self._finish_features(batch.x))
                self.structure = cached_structure(batch.graph)

    def logits(self, forward: Forward, nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C), each from one batch, the same each time."""
        wanted, back = nodes.unique(return_inverse=True)
        batches = [batch for batch in self._eval_nodes(wanted) if contained(batch, wanted).any()]
        rank, processes = process_group.rank(), process_group.count()
        own = batches[rank::processes]
        idle = batches[:1] * (-(-len(batches) // processes) - len(own))  # as many as others have
        result = None
        for number, batch in enumerate(self._prefetch(self._eval_batch, [*own, *idle])):
            chosen, graph, x, rows, context = batch
            logits = forward(graph, self._finish_features(x), context)[rows]
            if result is None:
                result = logits.new_zeros(len(wanted), *logits.shape[1:])
            if number < len(own):
                here = contained(chosen, wanted).nonzero().squeeze(1)
                places = torch.searchsorted(wanted, chosen[here])
                result[upload(places, self.device)] = logits[upload(here, self.device)]
        return process_group.total(result)[upload(back, self.device)]

    def sample(self, seed: int) -> list[Tensor]:
        """Return the nodes of each batch of an epoch, in any order: what another strategy defines.

        Args:
            seed: of the random numbers; the same seed gives the same batches.
        """
        raise NotImplementedError

    def _eval_nodes(self, wanted: Tensor) -> list[Tensor]:
        """Return the nodes of batches that together contain all of `wanted` (m,)."""
        return self.sample(self.seed)

    def _subgraph(self, nodes: Tensor, seed: int) -> tuple[Tensor, Graph]:
        """Return the nodes that a batch of these, in increasing order, consists of; their graph."""
        return nodes, induced(self.graph, nodes)

    def _count_known(self, nodes: Tensor) -> int:
        return int(self.known[nodes[self.is_train[nodes]]].sum())

    def _train_batch(self, chosen: Tensor, step: dict[str, Any]) -> Batch:
        chosen = chosen.sort().values
        nodes, graph = self._subgraph(chosen, step["seed"])
        rows = torch.searchsorted(nodes, chosen[self.is_train[chosen]])
        x, graph = self._gather_features(nodes), self._place(graph)
        y, rows = upload(self.data.y[nodes], self.device), upload(rows, self.device)
        return Batch(graph, x, y, rows, context=self._gather_context(nodes), **step)

    def _eval_batch(self, chosen: Tensor) -> tuple[Tensor, Graph, Tensor, Tensor, Tensor | None]:
        chosen = chosen.sort().values
        nodes, graph = self._subgraph(chosen, self.seed)
        rows = upload(torch.searchsorted(nodes, chosen), self.device)
        context = self._gather_context(nodes)
        return chosen, self._place(graph), self._gather_features(nodes), rows, context

    def _gather_context(self, nodes: Tensor) -> Tensor | None:
        context = self.data.context
        return None if context is None else upload(context[nodes], self.device)

    def _place(self, graph: Graph) -> Graph:
        """Return a graph on the device; on a GPU with the structure that the model will look up."""
        graph = place(graph, self.device)
        for look_up in self.structure if self.device.type == "cuda" else ():
            look_up(graph)
        return graph

    def _gather_features(self, nodes: Tensor) -> Tensor:
        """Return the features of nodes, or what `_finish_features` needs of them; in the thread."""
        return upload(self.data.x[nodes], self.device).float()

    def _finish_features(self, gathered: Tensor) -> Tensor:
        """Return the features of a batch, (n, F); between two steps, in the main thread."""
        return gathered

    def _prefetch(self, make: Callable, items: Iterable) -> Iterator:
        """Yield what a thread makes of each item, and measure how long steps wait for it."""
        with contextlib.closing(prefetch(make, items, self.device)) as made:
            while True:
                start = time.perf_counter()
                batch = next(made, None)
                self.waited += time.perf_counter() - start
                if batch is None:
                    return
                yield batch


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
        cluster_of = clusters(data.graph, parts)
        sizes = torch.bincount(cluster_of, minlength=parts).tolist()
        in_order = cluster_of.argsort(stable=True).split(sizes)
        self.clusters = [nodes for nodes in in_order if len(nodes)]
        self.per_batch = per_batch

    def sample(self, seed: int) -> list[Tensor]:
        """Return the nodes of a few clusters each."""
        order = random_order(len(self.clusters), seed).tolist()
        groups = [order[i : i + self.per_batch] for i in range(0, len(order), self.per_batch)]
        return [torch.cat([self.clusters[i] for i in group]) for group in groups]


class Neighbours(Batches):
    """Some training nodes and sampled neighbours around them; only the former have a loss.

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

    def _eval_nodes(self, wanted: Tensor) -> list[Tensor]:
        return list(wanted.tensor_split(-(-len(wanted) // self.size)))

    def _subgraph(self, nodes: Tensor, seed: int) -> tuple[Tensor, Graph]:
        return neighbourhood(self.graph, nodes, self.fanouts, seed)

    def _gather_features(self, nodes: Tensor) -> Tensor:
        return nodes if self.own is not None else super()._gather_features(nodes)

    def _finish_features(self, gathered: Tensor) -> Tensor:
        if self.own is None:
            return gathered
        x = process_group.exchange_rows(self.own, self.sizes, gathered)
        return upload(x, self.device).float()


SIZE = 128
"""Samples in a batch where a recipe sets no size."""

EVAL_NODES = 2**15
"""Nodes of snapshots in a batch of evaluation, but for the size of a batch of training."""

POOL = 32
"""Batches among which samples are sorted by size, so that those of a batch are alike."""


class SampleBatches(DataParallelBatches):
    """So many graphs, or so many nodes, at a time; several processes divide the batches.

    Args:
        size: samples in a batch at most; left out 128, or any number with `tokens`.
        tokens: nodes in a batch at most, but for a sample that has more by itself.
        per_step: batches, of each process, whose gradients are added up for one step.
        alike: a batch has samples of like size, which attention pads less; its statistics are not
            those of all samples, and batch norm fails by them. Left out, true of texts alone.
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
        alike: bool | None = None,
    ):
        self.data, self.train, self.device = data, train, torch.device(device)
        self.per_step, self.seed = per_step, torch.initial_seed() % 2**63
        self.alike = data.tokens is not None if alike is None else alike
        self.size = size or (len(data.y) if tokens else SIZE)
        self.tokens, self.known = tokens, known_numbers(data.y)

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield this process's batches of an epoch."""
        sampled = self._sample(self.train, seed_of((self.seed, epoch)))
        own = self.share_batches(sampled, lambda chosen: int(self.known[chosen].sum()), epoch)
        return self._prefetch(lambda item: self._train_batch(*item), own)

    def logits(self, forward: Forward, nodes: Tensor, model: Model | None = None) -> Tensor:
        """Return the logits of some samples, (m, C), a batch of like size at a time.

        Args:
            forward: gives a row for each node.
            nodes: the samples, (m,).
            model: reads the rows of a graph, if it has a readout; None: their mean is taken.
        """
        wanted, back = nodes.unique(return_inverse=True)
        batches = self._eval_batches(wanted)
        own = batches[process_group.rank() :: process_group.count()] or batches[:1]
        result = None
        made = self._prefetch(lambda chosen: (chosen, self._inputs(chosen)), own)
        for chosen, (graph, x) in made:
            logits = self.data.pool(chosen, forward(graph, x), model)
            if result is None:
                result = logits.new_zeros(len(wanted), *logits.shape[1:])
            result[upload(torch.searchsorted(wanted, chosen), self.device)] = logits
        if process_group.rank() >= len(batches):
            result.zero_()  # other processes have them all
        return process_group.total(result)[upload(back, self.device)]

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Return the scores; inference on a part runs when its score is computed."""

        def score(part: str, measures: Sequence[Measure]) -> list[float]:
            chosen = getattr(on.split, part)
            logits = infer(
                model, self, precision, lambda forward: self.logits(forward, chosen, model)
            )
            y = upload(on.data.y[chosen], logits.device)
            return [measure(logits, y) for measure in measures]

        return score

    def _eval_batches(self, samples: Tensor) -> list[Tensor]:
        return self._split(samples[self.data.graphs.sizes[samples].argsort(stable=True)])

    def _sample(self, samples: Tensor, seed: int) -> list[Tensor]:
        """Return samples (m,) in random batches, each of like size where this is asked for."""
        samples = samples[random_order(len(samples), seed)]
        sizes = self.data.graphs.sizes[samples]
        if not self.alike or (sizes == sizes[0]).all():
            return self._split(samples)
        pool = POOL * self.size
        if self.tokens:
            pool = min(pool, max(1, POOL * self.tokens * len(sizes) // int(sizes.sum())))
        batches = []
        for some, their_sizes in zip(samples.split(pool), sizes.split(pool), strict=True):
            batches += self._split(some[their_sizes.argsort(stable=True)])
        order = random_order(len(batches), seed_of((seed, 1)))
        return [batches[number] for number in order.tolist()]

    def _split(self, samples: Tensor) -> list[Tensor]:
        """Split samples (m,) into batches, in their order."""
        if not self.tokens:
            return list(samples.tensor_split(-(-len(samples) // self.size)))
        starts, total = [0], 0
        for number, nodes in enumerate(self.data.graphs.sizes[samples].tolist()):
            full = number - starts[-1] == self.size or total + nodes > self.tokens
            if full and number > starts[-1]:
                starts.append(number)
                total = 0
            total += nodes
        return [samples[first:last] for first, last in pairwise([*starts, len(samples)])]

    def _train_batch(self, chosen: Tensor, step: dict[str, Any]) -> Batch:
        graph, x = self._inputs(chosen)
        y = upload(self.data.y[chosen], self.device)
        rows = torch.arange(len(chosen), device=self.device)
        return Batch(graph, x, y, rows, read=partial(_pool, self.data, chosen), **step)

    def _inputs(self, chosen: Tensor) -> tuple[Graph, Tensor]:
        graph, x = self.data.batch(chosen)
        return place(graph, self.device), upload(x, self.device)

    def _prefetch(self, make: Callable, items: Iterable) -> Iterator:
        return prefetch(make, items, self.device)


def _pool(data: Samples, chosen: Tensor, model: Model, logits: Tensor) -> Tensor:
    return data.pool(chosen, logits, model)


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

    def _sample(self, samples: Tensor, seed: int) -> list[Tensor]:
        order = random_order(len(samples), seed) if self.shuffle else slice(None)
        return self._split(samples[order])

    def _eval_batches(self, samples: Tensor) -> list[Tensor]:
        return list(samples.split(max(self.size, EVAL_NODES // int(self.data.graphs.sizes[0]))))

    def _train_batch(self, chosen: Tensor, step: dict[str, Any]) -> Batch:
        batch = super()._train_batch(chosen, step)
        y = upload(self.data.scaled_targets(chosen), self.device)
        return batch._replace(y=y, read=lambda _, rows: rows.float().reshape(len(chosen), -1))

    def _prefetch(self, make: Callable, items: Iterable) -> Iterator:
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
        "links": "zoo.training.links:link_batches",
    },
)
"""Word to builder `(data, train, device, *, options) -> loader`.

One of your own, of batches of nodes, is a class below `Batches` with its own `sample`.
"""

BUILT_IN = frozenset(BATCHING)
"""The words that data list in their `batching`; one of your own is taken as it is."""
