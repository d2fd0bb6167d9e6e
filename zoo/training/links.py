"""Batches of links: what is predicted in a step, and the graph that a model sees meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from zoo.config.options import Count, pick
from zoo.config.recipe import word
from zoo.data.links import LinkData
from zoo.graphs.link_heuristics import HEURISTICS, WALKS
from zoo.graphs.pairs import NEGATIVES
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
    Score,
    TrainingData,
    evaluating,
    infer,
)

SCORED = 2**20
"""Pairs that are scored at a time."""

MOST_WALKS = 10**10
"""Sources times edges up to which heuristics walk from every node."""

Share = Annotated[float, Field(gt=0, le=1)]


class LinkBatches(DataParallelBatches):
    """Some links of training at a time, to be told from pairs that are drawn anew in every step.

    The model sees the graph of the others, so that no answer is written into what it reads. What
    is drawn in an epoch follows from the run's seed and the epoch's number alone. Several processes
    divide the links of a step among them.

    Args:
        share: of the training links that are predicted in a step.
        size: the most links of a step; left out, as many as the share is.
        message: `others`, the links that are not predicted in the step; or `all` of training.
    """

    def __init__(
        self,
        data: LinkData,
        train: Tensor,
        device: torch.device | str,
        *,
        share: Share = 0.2,
        size: Count | None = None,
        message: Literal["others", "all"] = "others",
    ):
        self.data, self.train, self.device = data, train, torch.device(device)
        self.x, self.seed = data.x.to(self.device).float(), torch.initial_seed() % 2**63
        wanted = max(1, round(share * len(train)))
        self.steps = -(-len(train) // min(wanted, size or wanted))
        self.alone = message == "others"
        self.graph = place(data.graph, self.device)
        self.negatives = pick(NEGATIVES, data.how.negatives, data.known(train, "train"))
        self._compared: dict[str, Tensor] = {}

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Give this process its links of each step."""
        how, seed = self.data.how, seed_of((self.seed, epoch))
        order = self.train[random_order(len(self.train), seed)]
        for step, rows in enumerate(order.tensor_split(self.steps)):
            graph = self.graph
            if self.alone:
                chosen = torch.isin(self.train, rows, assume_unique=True)
                graph = place(self.data.message(self.train[~chosen]), self.device)
            own = seed_of((seed, step))
            pairs = self.data.candidates(rows, self.negatives, how.per_link, own)
            pairs = pairs[process_group.rank() :: process_group.count()]
            yield Batch(
                graph,
                self.x,
                torch.zeros(len(pairs), dtype=torch.int64, device=self.device),
                torch.arange(len(pairs), device=self.device),
                weight=len(pairs) / len(rows),
                share=1 / process_group.count(),
                until=(step + 1) / self.steps,
                seed=seed_of((own, process_group.rank())) if process_group.count() > 1 else None,
                pairs=upload(pairs, self.device),
            )

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Answer for all nodes once; measure the links of a part beside pairs that stay the same.

        Of training, as many links as validation has.
        """
        logits = infer(model, self, precision, lambda answer: answer(self.graph, self.x))

        def score(part: str, measures: Sequence[Measure]) -> list[float]:
            pairs = self.compared(on, part)
            with evaluating(model, self.device, precision):
                scores = scores_of(model, logits, pairs)
            y = torch.zeros(len(scores), dtype=torch.int64, device=scores.device)
            return [measure(scores, y) for measure in measures]

        return score

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
