"""The train loader of translation: pairs of sentences in batches of so many tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    ahead,
    evaluating,
)


class TokenBatches(DataParallelBatches):
    """Pairs of sentences of like length together, so many tokens at a time; batches at random.

    What is drawn in an epoch follows from the run's seed and the epoch's number alone. Several
    processes divide the batches of a step among them.

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

    def parts(self, epoch: int) -> Iterator[Batch]:
        """Give this process its batches of an epoch."""
        dealt = self._dealt(self._planned(epoch), epoch)
        return ahead(lambda work: self._part(*work), dealt, self.device)

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Measure the texts of a part; of training, as many pairs as validation has."""
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

    def _planned(self, epoch: int) -> list[Tensor]:
        """Return the pairs of each batch of an epoch, in the order of batches and of lengths."""
        seed = seed_of((self.seed, epoch))
        rows = self.train[random_order(len(self.train), seed)]
        for lengths in (self.data.sources.lengths, self.data.targets.lengths):  # the last one leads
            rows = rows[lengths[rows].sort(stable=True).indices]
        cuts, held = [], 0
        for number, count in enumerate(self.tokens[rows].tolist()):
            if held + count > self.size:
                cuts.append(number)
                held = 0
            held += count
        batches = rows.tensor_split(cuts)
        return [batches[i] for i in random_order(len(batches), seed_of((seed, 1))).tolist()]

    def _dealt(self, batches: list[Tensor], epoch: int) -> Iterator[tuple]:
        """Give this process its batch of each step, with its share of the step's target tokens."""
        rank, count = process_group.rank(), process_group.count()
        for start in range(0, len(batches), count):
            step = batches[start : start + count]
            tokens = [int((self.data.targets.lengths[each] + 1).sum()) for each in step]
            number, weight = (rank, tokens[rank] / sum(tokens)) if rank < len(step) else (0, 0.0)
            until = min(1.0, (start + count) / len(batches))
            place = rank if rank < len(step) else None
            yield step[number], weight, seed_of((self.seed, epoch, start + number)), until, place

    def _part(
        self, rows: Tensor, weight: float, seed: int, until: float, place: int | None
    ) -> Batch:
        data, own = self.data, rows.tolist()
        sources, inputs = [data.source(row) for row in own], [data.inputs_of(row) for row in own]
        graph = Pairs([*map(len, sources)], [*map(len, inputs)])
        x = upload(torch.cat([*sources, *inputs]), self.device)
        y = upload(torch.cat([data.labels_of(row) for row in own]), self.device)
        every = torch.arange(len(y), device=self.device)
        return Batch(graph, x, y, every, weight, weight, seed, until=until, place=place)
