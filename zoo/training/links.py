"""Batches of links: what is predicted in a step, and the graph that a model sees meanwhile."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from zoo.config.options import Count, pick
from zoo.config.recipe import word
from zoo.data.links import LinkData
from zoo.graphs.link_heuristics import HEURISTICS, WALKS
from zoo.graphs.pairs import NEGATIVES, without_pairs
from zoo.graphs.sampling import contained, neighbourhood
from zoo.graphs.shard import Graph
from zoo.graphs.spmm import place
from zoo.ops.random_order import random_order, seed_of
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.memory import upload
from zoo.tasks.links import GIVEN
from zoo.tasks.metrics import NO_PAIR
from zoo.tasks.task import Measure, measured_beside
from zoo.training.batches import (
    Batch,
    DataParallelBatches,
    Fanouts,
    Neighbours,
    Score,
    TrainingData,
    evaluating,
    infer,
    prefetch,
)

SCORED = 2**20
"""Pairs that are scored at a time."""

MOST_WALKS = 10**10
"""Sources times edges up to which heuristics walk from every node."""

Share = Annotated[float, Field(gt=0, le=1)]


Message = Literal["others", "all"]


def link_batches(
    data: LinkData,
    train: Tensor,
    device: torch.device | str,
    *,
    share: Share = 0.2,
    size: Count | None = None,
    message: Message = "others",
    fanouts: Fanouts | None = None,
) -> LinkBatches:
    """Some links of training at a time, to be told from pairs that are drawn anew in every step.

    The model sees the graph of the others, so that no answer is written into what it reads: all of
    it, or with `fanouts` sampled neighbours around the ends of the pairs of the step.

    Args:
        share: of the training links that are predicted in a step.
        size: the most links of a step; left out, as many as the share is.
        message: `others`, the links that are not predicted in the step; or `all` of training.
        fanouts: neighbours that are drawn at each distance from the ends, nearest first; -1 draws
            all. Left out, the graph is seen whole.
    """
    wanted = max(1, math.ceil(share * len(train) - 1e-9))  # a share of a fifth is five steps
    steps = -(-len(train) // min(wanted, size or wanted))
    if fanouts is None:
        return LinkBatches(data, train, device, steps, message)
    return SampledLinkBatches(data, train, device, steps, message, fanouts)


class LinkBatches(DataParallelBatches):
    """Batches of links, and the graph of the links that they do not predict.

    What is drawn in an epoch follows from the run's seed and the epoch's number alone. Several
    processes divide the links of a step among them.

    Args:
        data: the links, with the message graph of training.
        train: the links of training, (m,).
        device: where.
        steps: in an epoch.
        message: as that of `link_batches`.
    """

    def __init__(
        self,
        data: LinkData,
        train: Tensor,
        device: torch.device | str,
        steps: int = 1,
        message: Message = "others",
    ):
        self.data, self.train, self.device = data, train, torch.device(device)
        self.seed, self.steps, self.alone = torch.initial_seed() % 2**63, steps, message == "others"
        self.negatives = pick(NEGATIVES, data.how.negatives, data.known(train, "train"))
        self._compared: dict[str, Tensor] = {}

    @cached_property
    def graph(self) -> Graph:
        """The graph of all links of training, on the device."""
        return place(self.data.graph, self.device)

    @cached_property
    def x(self) -> Tensor:
        """The features of all nodes, (N, F) fp32 on the device."""
        return self.data.x.to(self.device).float()

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Give this process its links of each step."""
        seed = seed_of((self.seed, epoch))
        order = self.train[random_order(len(self.train), seed)]
        return self._prefetch(
            lambda item: self._train_batch(*item, seed),
            enumerate(order.tensor_split(self.steps)),
        )

    def _prefetch(self, make: Callable, items: Iterable) -> Iterator:
        return map(make, items)

    def _train_batch(self, step: int, rows: Tensor, seed: int) -> Batch:
        own = seed_of((seed, step))
        pairs = self.data.candidates(rows, self.negatives, self.data.how.per_link, own)
        pairs = pairs[process_group.rank() :: process_group.count()]
        graph, x, places = self._inputs(rows, pairs, own)
        return Batch(
            graph,
            x,
            torch.zeros(len(pairs), dtype=torch.int64, device=self.device),
            torch.arange(len(pairs), device=self.device),
            weight=len(pairs) / len(rows),
            share=1 / process_group.count(),
            until=(step + 1) / self.steps,
            seed=seed_of((own, process_group.rank())) if process_group.count() > 1 else None,
            pairs=upload(places, self.device),
        )

    def _inputs(self, rows: Tensor, pairs: Tensor, seed: int) -> tuple[Graph, Tensor, Tensor]:
        """Return the graph of a step, its features, and where pairs (P, K, 2) are in there."""
        if not self.alone:
            return self.graph, self.x, pairs
        chosen = torch.isin(self.train, rows, assume_unique=True)
        return place(self.data.message(self.train[~chosen]), self.device), self.x, pairs

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Answer for all nodes once; measure the links of a part beside pairs that stay the same.

        Of training, as many links as validation has.
        """
        answer = self._answers(model, precision)

        def score(part: str, measures: Sequence[Measure]) -> list[float]:
            logits, pairs = answer(self.compared(on, part))
            with evaluating(model, self.device, precision):
                scores = scores_of(model, logits, pairs)
            y = torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
            return [measure(scores, y) for measure in measures]

        return score

    def _answers(self, model: Model, precision: str) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """Return a function of pairs: to what is said of nodes, and where pairs are in it."""
        logits = infer(model, self, precision, lambda answer: answer(self.graph, self.x))
        return lambda pairs: (logits, pairs)

    def compared(self, on: TrainingData, part: str) -> Tensor:
        """Return the links of a part with what they are compared with, drawn once for a split."""
        if part not in self._compared:
            rows, how = getattr(on.split, part), self.data.how
            seed = seed_of((int(on.split.sha256[:15], 16), ["train", "val", "test"].index(part)))
            if part == "train":
                rows = rows[random_order(len(rows), seed)[: len(on.split.val)]]
            count = None if word(how.compared) in GIVEN else how.candidates
            negatives = pick(NEGATIVES, how.compared, self.data.known(part=part))
            self._compared[part] = self.data.candidates(rows, negatives, count, seed)
        return self._compared[part]


class SampledLinkBatches(LinkBatches):
    """Batches of links, and sampled neighbours of their ends in the graph of the others.

    Of the graph and its features only what a step needs is looked at; both may lie on disk. What
    is said of a node in evaluation comes from a batch of nodes with their neighbours, drawn once.

    Args:
        fanouts: as that of `link_batches`.
    """

    def __init__(self, data, train, device, steps: int, message: Message, fanouts: list[int]):
        super().__init__(data, train, device, steps, message)
        self.fanouts = fanouts
        size = 2 * (1 + data.how.per_link) * -(-len(train) // steps)  # nodes of a step at most
        self.nodes = Neighbours(data.nodes, train[:0], device, fanouts=fanouts, size=size)

    def on_whole_graph(self) -> LinkBatches:
        """Return what evaluates on the whole graph at once."""
        return LinkBatches(self.data, self.train, self.device)

    def _prefetch(self, make: Callable, items: Iterable) -> Iterator:
        return prefetch(make, items, self.device)

    def _inputs(self, rows: Tensor, pairs: Tensor, seed: int) -> tuple[Graph, Tensor, Tensor]:
        nodes, graph = neighbourhood(self.nodes.graph, pairs.flatten(), self.fanouts, seed)
        if self.alone:
            links = self.data.links.pairs[rows].flatten()
            here = contained(links, nodes).reshape(-1, 2).all(dim=1)  # of all processes
            graph = without_pairs(graph, torch.searchsorted(nodes, links).reshape(-1, 2)[here])
        x = upload(self.data.x[nodes], self.device).float()
        return place(graph, self.device), x, torch.searchsorted(nodes, pairs)

    def _answers(self, model: Model, precision: str) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        def answer(pairs: Tensor) -> tuple[Tensor, Tensor]:
            there = pairs >= 0  # -1 fills up
            nodes, places = pairs.clamp(min=0).unique(return_inverse=True)
            run = partial(self.nodes.logits, nodes=nodes)
            return infer(model, self, precision, run), places.where(there, -1)

        return answer


def check_tables(on: TrainingData) -> None:
    """Read the tables of pairs that links are compared with, before anything is trained.

    Raises:
        ZooError: one is missing, or has what it should not, or lacks what a link needs.
    """
    if word(on.data.how.compared) in GIVEN:
        loader = LinkBatches(on.data, on.split.train, "cpu")
        for part in ("val", "test"):
            loader.compared(on, part)


def heuristic_scores(on: TrainingData) -> dict[str, dict[str, float | None]]:
    """Return what heuristics say of the test links, each by the metrics of the task.

    They see the message graph, and are compared with the same pairs as a model is. Those that walk
    from every node are left out where that would take hours.
    """
    loader = LinkBatches(on.data, on.split.train, "cpu")
    pairs, task = loader.compared(on, "test"), on.task
    flat, y = pairs.flatten(0, 1).clamp(min=0), torch.zeros(len(pairs), dtype=torch.int64)
    work = len(flat[:, 0].unique()) * on.data.graph.num_edges()
    scores_by_heuristic = {}
    for name in HEURISTICS:
        if work <= MOST_WALKS or name not in WALKS:
            scores = pick(HEURISTICS, name)(on.data.graph, flat).reshape(pairs.shape[:-1])
            scores = scores.masked_fill(pairs[..., 0] < 0, NO_PAIR)
            values = {task.metric_name: task.metric(scores, y), **measured_beside(task, scores, y)}
            scores_by_heuristic[name] = values
    return scores_by_heuristic


def scores_of(model: Model, logits: Tensor, pairs: Tensor) -> Tensor:
    """Return the scores of pairs (P, K, 2), (P, K) fp32, some at a time; `NO_PAIR` of -1."""
    size = max(1, SCORED // pairs.shape[1])
    parts = []
    for part in pairs.split(size):
        part = upload(part, logits.device)
        scores = model.score_pairs(logits, part.clamp(min=0)).float()
        parts.append(scores.masked_fill(part[..., 0] < 0, NO_PAIR))
    return torch.cat(parts)
