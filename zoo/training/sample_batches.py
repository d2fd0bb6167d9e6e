"""The mini-batch strategies of many graphs: some of them at a time, without padding.

Graphs of one size share a call of the attention, and of sequences that differ in length there would
be many calls. Therefore a batch has samples of about one size: of a few batches' worth, drawn at
random, those of like size are put together, and the batches come in a random order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import torch
from torch import Tensor

from zoo.config.options import Count
from zoo.datasets.samples import Samples
from zoo.datasets.snapshots import Snapshots
from zoo.graphs.message_passing import place
from zoo.graphs.shard import Graph
from zoo.ops.losses import known_numbers
from zoo.ops.random_order import random_order, seed_of
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.memory import upload
from zoo.training.full_batch import Divided, Part, Score, TrainingData, ahead, infer

DEFAULT = 128
"""Samples in a batch where nothing else is said."""

ANSWERED = 2**15
"""Nodes of snapshots that are answered for at a time, but for the size of a batch."""

POOL = 32
"""Batches that exchange samples for others of their size."""


class SampleBatches(Divided):
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

    def parts(self, epoch: int) -> Iterator[Part]:
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
        """Return the metric of a part, whose samples are answered for when it is asked for."""

        def score(part: str) -> float:
            chosen = getattr(on.split, part)
            logits = infer(model, self, precision, lambda answer: self.logits(answer, chosen))
            return on.task.metric(logits, upload(on.data.y[chosen], logits.device))

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
    ) -> Part:
        graph, x = self._made(chosen)
        y = upload(self.data.y[chosen], self.device)
        rows, read = torch.arange(len(chosen), device=self.device), self.data.reader(chosen)
        return Part(graph, x, y, rows, weight, weight, seed, last, until, read, place)

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

    def _part(self, chosen: Tensor, *how) -> Part:
        part = super()._part(chosen, *how)
        y = upload(self.data.scaled_targets(chosen), self.device)
        return part._replace(y=y, read=lambda rows: rows.float().reshape(len(chosen), -1))

    def _ahead(self, make: Callable, items: Iterable) -> Iterator:
        return map(make, items)  # rows of what is in memory: waiting for a thread takes longer
