"""Mini-batch strategies: random nodes, clusters (METIS), or neighbours sampled around seeds.

A batch is a graph by itself, with the features, encodings and labels of its nodes; what a model
does inside of it, attention included, knows nothing of the rest.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from zoo.canonical_form import derived
from zoo.config.options import MOST, Count, Table
from zoo.datasets import Dataset
from zoo.errors import ZooError
from zoo.graphs.adjacency import neighbours
from zoo.graphs.message_passing import place
from zoo.graphs.per_graph import questions
from zoo.graphs.sampling import clusters, contained, induced, neighbourhood, walked
from zoo.graphs.shard import Graph
from zoo.ops.losses import known_numbers
from zoo.ops.random_order import random_order, seed_of
from zoo.system import process_group
from zoo.system.memory import upload
from zoo.training.full_batch import Divided, Part, Whole, ahead
from zoo.training.sample_batches import SampleBatches, SnapshotBatches
from zoo.training.token_batches import TokenBatches

Fanout = Annotated[int, Field(ge=-1, le=MOST)]
Fanouts = Annotated[list[Fanout], Field(min_length=1, max_length=32)]


class Batches(Divided):
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

    def parts(self, epoch: int) -> Iterator[Part]:
        """Give this process its batches of an epoch; any without training nodes is left out."""
        batches = self._planned(seed_of((self.seed, epoch)))
        with_training = [each for each in batches if self.training[each].any()]
        dealt = self._dealt(with_training, epoch)
        with contextlib.closing(self._ahead(lambda work: self._part(*work), dealt)) as made:
            for part in made:
                yield part
                self.asked = questions(part.graph)

    def logits(self, answer: Callable[[Graph, Tensor], Tensor], nodes: Tensor) -> Tensor:
        """Return the logits of some nodes, (m, C), each from one batch, the same each time."""
        asked, back = nodes.unique(return_inverse=True)
        batches = [each for each in self._answered(asked) if contained(each, asked).any()]
        own = batches[process_group.rank() :: process_group.count()] or batches[:1]
        room = None
        for chosen, graph, x, rows in self._ahead(self._asked, own):
            found = answer(graph, x)[rows]
            room = found.new_zeros(len(asked), *found.shape[1:]) if room is None else room
            wanted = contained(chosen, asked).nonzero().squeeze(1)
            places = torch.searchsorted(asked, chosen[wanted])
            room[upload(places, self.device)] = found[upload(wanted, self.device)]
        if process_group.rank() >= len(batches):
            room.zero_()  # others have answered
        return process_group.total(room)[upload(back, self.device)]

    def _planned(self, seed: int) -> list[Tensor]:
        """Return the nodes of each batch of an epoch, in any order."""
        raise NotImplementedError

    def _answered(self, asked: Tensor) -> list[Tensor]:
        """Return the nodes of batches that answer for those asked (m,)."""
        return self._planned(self.seed)

    def _cut(self, chosen: Tensor, seed: int) -> tuple[Tensor, Graph]:
        """Return the nodes that a batch of these, in increasing order, consists of; their graph."""
        return chosen, induced(self.graph, chosen)

    def _dealt(self, batches: list[Tensor], epoch: int) -> Iterator[tuple]:
        """Give this process its batches of each step, with their weight in it."""
        rank, count = process_group.rank(), process_group.count()
        together = self.per_step * count
        for start in range(0, len(batches), together):
            step = [*enumerate(batches[start : start + together], start)]
            known = [int(self.known[each[self.training[each]]].sum()) for _, each in step]
            weights = [each / max(1, sum(known)) for each in known]
            work = [*zip(step, weights, strict=True)][rank::count] or [(step[0], 0.0)]
            for (number, chosen), weight in work:
                last = number == work[-1][0][0]
                until = min(1.0, (start + together) / len(batches))
                place = number - start if rank < len(step) else None
                yield chosen, weight, seed_of((self.seed, epoch, number)), last, until, place

    def _part(
        self,
        chosen: Tensor,
        weight: float,
        seed: int,
        last: bool,
        until: float,
        place: int | None,
    ) -> Part:
        chosen = chosen.sort().values
        nodes, graph = self._cut(chosen, seed)
        rows = torch.searchsorted(nodes, chosen[self.training[chosen]])
        x, graph = self._rows(nodes), self._placed(graph)
        y, rows = (upload(each, self.device) for each in (self.data.y[nodes], rows))
        return Part(graph, x, y, rows, weight, weight, seed, last, until, place=place)

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
        return upload(self.data.x[nodes], self.device).float()

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


class RandomNodes(Batches):
    """The nodes dealt at random into batches, with the edges inside of each.

    Args:
        size: nodes in a batch at most; batches differ by one node at most.
        per_step: batches, of each process, whose gradients are added up for one step.
    """

    def __init__(self, data, train, device, *, size: Count, per_step: Count = 1):
        super().__init__(data, train, device, per_step)
        self.size = size

    def _planned(self, seed: int) -> list[Tensor]:
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

    def _planned(self, seed: int) -> list[Tensor]:
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
    ):
        super().__init__(data, train, device, per_step)
        if 0 in fanouts:
            raise ZooError("a fanout of 0 draws no neighbours; leave it out, or write -1 for all.")
        self.fanouts, self.size = fanouts, size

    def _planned(self, seed: int) -> list[Tensor]:
        order = self.train[random_order(len(self.train), seed)]
        return list(order.tensor_split(-(-len(order) // self.size)))

    def _answered(self, asked: Tensor) -> list[Tensor]:
        return list(asked.tensor_split(-(-len(asked) // self.size)))

    def _cut(self, chosen: Tensor, seed: int) -> tuple[Tensor, Graph]:
        return neighbourhood(self.graph, chosen, self.fanouts, seed)


class Distributed(Neighbours):
    """The batches of `neighbours`, of a graph whose parts lie on several machines.

    Each part is held by a server, which `zoo train` starts and which is asked for the edges and
    features of a batch. They are those that `neighbours` would find in the whole graph.

    Args:
        config: `part.json` in the folder that `zoo data partition` wrote.
        fanouts: neighbours that are drawn at each distance, nearest first; -1 draws all.
        size: training nodes in a batch at most.
        per_step: batches, of each process, whose gradients are added up for one step.
    """

    def __init__(
        self,
        data,
        train,
        device,
        *,
        config: str,
        fanouts: Fanouts,
        size: Count,
        per_step: Count = 1,
    ):
        from zoo.distributed.part_server import join
        from zoo.distributed.partition import open_partition

        super().__init__(data, train, device, fanouts=fanouts, size=size, per_step=per_step)
        open_partition(config).check(data)
        self.servers = join(Path(config).absolute())

    def _cut(self, chosen: Tensor, seed: int) -> tuple[Tensor, Graph]:
        ask, kind = self.servers, self.data.graph.idtype
        return walked(ask.degrees, ask.tails, chosen, self.fanouts, seed, kind)

    def _rows(self, nodes: Tensor) -> Tensor:
        return upload(self.servers.rows(nodes), self.device).float()


BATCHING = Table(
    "batching",
    {
        "full": Whole,
        "random-nodes": RandomNodes,
        "clusters": Clusters,
        "neighbours": Neighbours,
        "distributed": Distributed,
        "samples": SampleBatches,
        "snapshots": SnapshotBatches,
        "tokens": TokenBatches,
    },
)
"""Word to builder `(data, train, device, *, options) -> mini-batch strategy`."""
