"""The train loader of translation: pairs of sentences in batches of so many tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from zoo.config.options import Count
from zoo.errors import ZooError
from zoo.graphs.graph_sets import Pairs
from zoo.ops.random_order import random_order, seed_of
from zoo.registry import Model
from zoo.sequences.beam_search import longest_translation, translate_tokens
from zoo.sequences.data.pairs import SentencePairs
from zoo.sequences.data.tokenizer import END
from zoo.system import process_group
from zoo.system.memory import upload
from zoo.tasks.task import Measure
from zoo.training.batches import (
    Batch,
    DataParallelBatches,
    Score,
    TrainingData,
    evaluating,
    prefetch,
)


class TokenBatches(DataParallelBatches):
    """Pairs of sentences of like length together, so many tokens at a time; batches at random.

    Args:
        size: tokens of sources and targets in a batch at most, their begin and end included.
    """

    per_step = 1

    def __init__(
        self,
        data: SentencePairs,
        train: Tensor,
        device: torch.device | str,
        *,
        size: Count = 4096,
    ):
        self.data, self.train, self.device, self.size = data, train, torch.device(device), size
        self.seed = torch.initial_seed() % 2**63
        self.tokens = data.sources.lengths + data.targets.lengths + 2  # of a pair, with both ends
        longest = int(self.tokens[train].max())
        if longest > size:
            raise ZooError(
                f"batching tokens: a pair of {data.name} has {longest:,} tokens, more than a batch "
                f"of {size:,}; write a larger `size`, or a smaller `longest` of the dataset."
            )

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Yield this process's batches of an epoch."""
        own = self.share_batches(self._sample(epoch), self._count_targets, epoch)
        return prefetch(lambda item: self._train_batch(*item), own, self.device)

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Return the scores of translations; of training, of as many pairs as validation has."""
        split = on.split
        places = torch.linspace(0, len(split.train) - 1, min(len(split.val), len(split.train)))
        rows = {"train": split.train[places.long()], "val": split.val, "test": split.test}

        def score(part: str, measures: Sequence[Measure]) -> list[float]:
            with evaluating(model, self.device, precision):
                translations = self._translate(model, rows[part])
            texts = self.data.tokenizer.decode(translations)
            references = self.data.references(rows[part])
            return [measure(texts, references) for measure in measures]

        return score

    def _translate(self, model: Model, rows: Tensor) -> list[list[int]]:
        """Return the tokens of translations, of which each process makes a share."""
        rank, count = process_group.rank(), process_group.count()
        sources = [self.data.source(row) for row in rows[rank::count].tolist()]
        translations = translate_tokens(model, sources, size=self.size, device=self.device)
        if count == 1:
            return translations
        longest_source = int(self.data.sources.lengths[rows].clamp(max=self.data.longest).max()) + 1
        padded = torch.zeros(len(rows), 1 + longest_translation(longest_source), dtype=torch.int64)
        for row, tokens in zip(padded[rank::count], translations, strict=True):
            row[: len(tokens) + 1] = torch.tensor([*tokens, END])
        return [row[: row.index(END)] for row in process_group.total(padded).tolist()]

    def _sample(self, epoch: int) -> list[Tensor]:
        """Return the pairs of each batch of an epoch, in the order of batches and of lengths."""
        seed = seed_of((self.seed, epoch))
        rows = self.train[random_order(len(self.train), seed)]
        for lengths in (self.data.sources.lengths, self.data.targets.lengths):  # the last one leads
            rows = rows[lengths[rows].sort(stable=True).indices]
        cuts, total = [], 0
        for number, count in enumerate(self.tokens[rows].tolist()):
            if total + count > self.size:
                cuts.append(number)
                total = 0
            total += count
        batches = rows.tensor_split(cuts)
        return [batches[i] for i in random_order(len(batches), seed_of((seed, 1))).tolist()]

    def _count_targets(self, rows: Tensor) -> int:
        return int((self.data.targets.lengths[rows] + 1).sum())

    def _train_batch(self, rows: Tensor, step: dict[str, Any]) -> Batch:
        data, pairs = self.data, rows.tolist()
        sources = [data.source(row) for row in pairs]
        inputs = [data.inputs_of(row) for row in pairs]
        graph = Pairs([*map(len, sources)], [*map(len, inputs)])
        x = upload(torch.cat([*sources, *inputs]), self.device)
        y = upload(torch.cat([data.labels_of(row) for row in pairs]), self.device)
        return Batch(graph, x, y, torch.arange(len(y), device=self.device), **step)
