"""Pairs of sentences in two languages: a folder of text files as tokens, one after the other.

The files are those of `zoo.data.files.text_lines`; the tokenizer is trained on the training
sentences of both languages.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Count
from zoo.data.canonical import canonical
from zoo.data.files.graph_arrays import PARTS
from zoo.data.files.text_lines import Language, choose_languages, part_file, sentences_of
from zoo.data.samples import Separate
from zoo.errors import ZooError
from zoo.sequences.data.tokenizer import BEGIN, END, Tokenizer, VocabularySize, train_tokenizer
from zoo.tasks.labels import BLEU, TRANSLATION


@dataclasses.dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences as tokens, one after the other.

    Attributes:
        tokens: of all of them, (sum of lengths,) int32, without begin and end.
        offsets: where each begins, and where the last one ends, (N + 1,) int64.
    """

    tokens: Tensor
    offsets: Tensor

    @classmethod
    def of(cls, encoded: list[list[int]]) -> Sentences:
        """Return lists of tokens, one after the other."""
        lengths = [0, *map(len, encoded)]
        flat = np.fromiter(itertools.chain(*encoded), np.int32, sum(lengths))
        return cls(torch.from_numpy(flat), torch.tensor(lengths).cumsum(0))

    @functools.cached_property
    def lengths(self) -> Tensor:
        """The tokens of each, (N,) int64."""
        return self.offsets.diff()

    def __getitem__(self, row: int) -> Tensor:
        """Return the tokens of one, (n,) int32."""
        return self.tokens[self.offsets[row] : self.offsets[row + 1]]


@dataclasses.dataclass(frozen=True, eq=False)
class SentencePairs(Separate):
    """Pairs of sentences and their split; what training asks of a data set.

    Attributes:
        name: the word that names it, or that of its folder.
        sources: what is translated.
        targets: what it is translated to.
        masks: `train`, `val` and `test`, each (1, N) bool: the files that a pair is from.
        tokenizer: of both languages.
        longest: tokens of a source, or of a target, at most in training; longer sources are cut.
        languages: of the sources and of the targets.
        batching: the mini-batch strategies that it may be trained by.
    """

    batching: ClassVar[tuple[str, ...]] = ("tokens",)
    task: ClassVar[str] = TRANSLATION
    metric: ClassVar[str] = BLEU
    split: ClassVar[str] = "benchmark"
    splits: ClassVar[tuple[str, ...]] = ("benchmark",)
    unit: ClassVar[str] = "pairs"

    name: str
    sources: Sentences
    targets: Sentences
    masks: dict[str, Tensor]
    tokenizer: Tokenizer
    longest: int
    languages: tuple[str, str]

    @property
    def y(self) -> Tensor:
        """A label for each pair, (N,) int64: every one of them is known."""
        return torch.zeros(len(self.sources.lengths), dtype=torch.int64)

    @property
    def classes(self) -> int:
        """How many tokens there are to choose the next from."""
        return self.tokenizer.size

    @property
    def inputs(self) -> int:
        """How many tokens there are."""
        return self.tokenizer.size

    def encoded(self, encode: Callable[[Any], Tensor]) -> SentencePairs:
        """Return the data as it is: sentences have no encoding.

        Raises:
            ZooError: one is asked for.
        """
        if encode(canonical([(0, 1), (1, 2)], nodes=3)).shape[1]:
            raise ZooError(
                f"an encoding is one of a graph's nodes, and {self.name} is pairs of sentences; "
                "leave `encoding` out: the models of sequences encode places themselves."
            )
        return self

    def source(self, row: int) -> Tensor:
        """Return the tokens of a source and the end, (s + 1,) int64, cut to the longest."""
        return _long([], self.sources[row][: self.longest], [END])

    def inputs_of(self, row: int) -> Tensor:
        """Return the decoder's input for a target: begin and its tokens, (t + 1,) int64."""
        return _long([BEGIN], self.targets[row], [])

    def labels_of(self, row: int) -> Tensor:
        """Return the labels of a target: its tokens and the end, (t + 1,) int64."""
        return _long([], self.targets[row], [END])

    def references(self, rows: Tensor) -> list[str]:
        """Return the texts of some targets, as they are in the file but for spaces around them."""
        return self.tokenizer.decode([self.targets[row].tolist() for row in rows.tolist()])


def _long(before: list[int], tokens: Tensor, after: list[int]) -> Tensor:
    return torch.tensor([*before, *tokens.tolist(), *after])


def read_pairs(
    folder: Path,
    *,
    source: Language | None = None,
    target: Language | None = None,
    vocabulary: VocabularySize = 8000,
    longest: Count = 256,
) -> SentencePairs:
    """Read a folder of pairs of sentences.

    Pairs of which a side is empty are dropped, and long ones left out of training; a warning in the
    log says how many.

    Args:
        folder: with `train`, `val` and `test` of both languages.
        source: the language to translate from; left out, the name of the folder says it.
        target: the language to translate to, likewise.
        vocabulary: tokens of both languages together, at most.
        longest: tokens of a sentence at most: longer pairs are not trained on, longer sources cut.

    Raises:
        ZooError: a file is missing, or is no text; or the two of a part differ in lines.
    """
    both = choose_languages(folder, source, target)
    texts = {part: _read_part(folder, part, both) for part in PARTS}
    tokenizer = train_tokenizer([*itertools.chain(*texts["train"])], vocabulary)
    sides = [[text for part in PARTS for text in texts[part][side]] for side in (0, 1)]
    sources, targets = (Sentences.of(tokenizer.encode(side)) for side in sides)
    counts = [len(texts[part][0]) for part in PARTS]
    part_of = torch.arange(len(PARTS)).repeat_interleave(torch.tensor(counts))
    masks = {part: (part_of == number)[None] for number, part in enumerate(PARTS)}
    long = torch.maximum(sources.lengths, targets.lengths) > longest
    name = folder.resolve().name
    _check_lengths(name, masks, long, longest)
    return SentencePairs(
        name=name,
        sources=sources,
        targets=targets,
        masks={**masks, "train": masks["train"] & ~long},
        tokenizer=tokenizer,
        longest=longest,
        languages=both,
    )


def retokenize(data: SentencePairs, tokenizer: Tokenizer, longest: int) -> SentencePairs:
    """Return pairs in the tokens of another tokenizer, such as that of trained weights."""
    if data.tokenizer.sha256 == tokenizer.sha256:
        return data
    sides = []
    for side in (data.sources, data.targets):
        rows = side.tokens.split(side.lengths.tolist())
        texts = data.tokenizer.decode([row.tolist() for row in rows])
        sides.append(Sentences.of(tokenizer.encode(texts)))
    long = torch.maximum(sides[0].lengths, sides[1].lengths) > longest
    _check_lengths(data.name, data.masks, long, longest)
    masks = {**data.masks, "train": data.masks["train"] & ~long}
    return dataclasses.replace(
        data, sources=sides[0], targets=sides[1], masks=masks, tokenizer=tokenizer
    )


def _check_lengths(name: str, masks: dict[str, Tensor], long: Tensor, longest: int) -> None:
    """Say how many pairs are too long, and refuse data of which nothing is left to train on."""
    trained = int((masks["train"] & long).sum())
    evaluated = int(long.sum()) - trained
    if trained == int(masks["train"].sum()):
        raise ZooError(
            f"{name}: every training pair is longer than {longest} tokens; write a larger "
            "`longest`."
        )
    if trained or evaluated:
        logging.getLogger(__name__).warning(
            "%s: of pairs longer than %s tokens, %s are left out of training, and the sources of "
            "%s are cut for validation and test; `longest` sets how many.",
            name, f"{longest:,}", f"{trained:,}", f"{evaluated:,}",
        )  # fmt: skip


def _read_part(folder: Path, part: str, both: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Return the sentences of a part in both languages; pairs with an empty one are dropped."""
    paths = [part_file(folder, part, language) for language in both]
    sides = [sentences_of(path) for path in paths]
    if len(sides[0]) != len(sides[1]):
        raise ZooError(
            f"{paths[0]} has {len(sides[0]):,} lines and {paths[1].name} {len(sides[1]):,}: line "
            "by line one has to be the translation of the other. Write an empty line where there "
            "is none."
        )
    pairs = [pair for pair in zip(*sides, strict=True) if all(pair)]
    if len(pairs) < len(sides[0]):
        logging.getLogger(__name__).warning(
            "%s: %s pairs are dropped of which a line is empty.",
            paths[0], f"{len(sides[0]) - len(pairs):,}",
        )  # fmt: skip
    if not pairs:
        raise ZooError(f"{paths[0]} and {paths[1].name} hold no pair of sentences; fill them.")
    return tuple(map(list, zip(*pairs, strict=True)))
