"""Mini-batches of pairs of sentences, by their tokens, and what they are measured by: BLEU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from zoo.config.options import Count
from zoo.datasets.pairs import SentencePairs
from zoo.datasets.tokenizer import BEGIN, END
from zoo.errors import ZooError
from zoo.graphs.graph_sets import Pairs
from zoo.ops.random_order import random_order, seed_of
from zoo.registry import Model
from zoo.sequences.beam_search import beam_search
from zoo.system import process_group
from zoo.system.memory import upload
from zoo.training.full_batch import Divided, Part, Score, TrainingData, ahead, evaluating


class TokenBatches(Divided):
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

    def parts(self, epoch: int) -> Iterator[Part]:
        """Give this process its batches of an epoch."""
        dealt = self._dealt(self._planned(epoch), epoch)
        return ahead(lambda work: self._part(*work), dealt, self.device)

    def scores(self, model: Model, on: TrainingData, precision: str) -> Score:
        """Return the metric of a part; of training, that of as many pairs as validation has."""
        split = on.split
        places = torch.linspace(0, len(split.train) - 1, min(len(split.val), len(split.train)))
        rows = {"train": split.train[places.long()], "val": split.val, "test": split.test}

        def score(part: str) -> float:
            with evaluating(model, self.device, precision):
                found = self._translated(model, rows[part])
            return on.task.metric(
                self.data.tokenizer.decode(found), self.data.references(rows[part])
            )

        return score

    def _translated(self, model: Model, rows: Tensor) -> list[list[int]]:
        """Return the tokens of translations, of which each process makes a share."""
        own = rows[process_group.rank() :: process_group.count()].tolist()
        sources = [self.data.source(row) for row in own]
        found = translated(model, sources, size=self.size, device=self.device)
        if process_group.count() == 1:
            return found
        limit = 1 + most(
            int(self.data.sources.lengths[rows].clamp(max=self.data.longest).max()) + 1
        )
        room = torch.full((len(rows), limit), 0)
        for place, tokens in zip(range(process_group.rank(), len(rows), process_group.count()),
                                 found, strict=True):  # fmt: skip
            room[place, : len(tokens) + 1] = torch.tensor([*tokens, END])
        return [row[: row.index(END)] for row in process_group.total(room).tolist()]

    def _planned(self, epoch: int) -> list[Tensor]:
        """Return the pairs of each batch of an epoch, in the order of batches and of lengths."""
        seed = seed_of((self.seed, epoch))
        rows = self.train[random_order(len(self.train), seed)]
        for lengths in (self.data.sources.lengths, self.data.targets.lengths):  # the last one leads
            rows = rows[lengths[rows].sort(stable=True).indices]
        cuts, held = [], 0
        for place, count in enumerate(self.tokens[rows].tolist()):
            if held + count > self.size:
                cuts.append(place)
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
    ) -> Part:
        data, own = self.data, rows.tolist()
        sources, inputs = [data.source(row) for row in own], [data.inputs_of(row) for row in own]
        graph = Pairs([*map(len, sources)], [*map(len, inputs)])
        x = upload(torch.cat([*sources, *inputs]), self.device)
        y = upload(torch.cat([data.labels_of(row) for row in own]), self.device)
        every = torch.arange(len(y), device=self.device)
        return Part(graph, x, y, every, weight, weight, seed, until=until, place=place)


def translated(
    model: Model,
    sources: Sequence[Tensor],
    *,
    beams: int = 1,
    length_penalty: float = 0.0,
    size: int = 4096,
    device: torch.device | str = "cpu",
) -> list[list[int]]:
    """Return the tokens of the translation of each source, without begin and end.

    Args:
        model: one of translation, on the device and in eval mode.
        sources: tokens of each with the end, (s,) int64.
        beams: as of `beam_search`.
        length_penalty: as of `beam_search`.
        size: tokens of the sources that are translated at a time, times beams, at most.
        device: where.
    """
    found: list[list[int]] = [[] for _ in sources]
    order = sorted(range(len(sources)), key=lambda place: -len(sources[place]))
    while order:
        count = max(1, size // (beams * len(sources[order[0]])))
        own, order = order[:count], order[count:]
        lengths = [len(sources[place]) for place in own]
        state = model.begin(lengths, torch.cat([sources[place] for place in own]).to(device))
        begin = torch.full((len(own),), BEGIN, dtype=torch.int64, device=device)
        answers = beam_search(
            model.step, state, begin=begin, end=END, beams=beams, length_penalty=length_penalty,
            longest=[most(length) for length in lengths],
        )  # fmt: skip
        for place, tokens in zip(own, answers, strict=True):
            found[place] = tokens
    return found


def most(length: int) -> int:
    """Return how many tokens the translation of a source of so many may have."""
    return 2 * length + 10
