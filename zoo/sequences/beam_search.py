"""Greedy and beam search for the likeliest sequence of a decoder, and translation by it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from zoo.registry import Model
from zoo.sequences.data.tokenizer import BEGIN, END


class State(Protocol):
    """What a model keeps of R hypotheses between two tokens."""

    def select(self, rows: Tensor) -> Self:
        """Return the state of the hypotheses of these numbers (R',) int64, some more than once."""


Step = Callable[[Any, Tensor], tuple[Tensor, Any]]
"""`(state of R hypotheses, last tokens (R,))` to log-probabilities of the next (R, V), state."""


def beam_search(
    step: Step,
    state: State,
    *,
    begin: Tensor,
    end: int,
    beams: int,
    length_penalty: float,
    longest: Sequence[int],
) -> list[list[int]]:
    """Return the best sequence that is found for each input, without begin and end.

    The best has the largest log P(Y) / lp(Y), lp(Y) = (5 + |Y|)^a / 6^a, where |Y| counts the end:
    Wu et al. (arXiv 1609.08144), equation 14, without its penalty of coverage. An input is finished
    when no hypothesis that is still growing can come to more than the best that has ended. What has
    not ended when it is as long as it may be is taken only if nothing else has.

    Args:
        step: one token of each hypothesis.
        state: of as many hypotheses as there are inputs, before the first token.
        begin: the token that every sequence begins with, for each input, (B,) int64.
        end: the token that it ends with.
        beams: hypotheses of each input; 1 takes the likeliest token each time.
        length_penalty: the exponent a, from 0; the larger, the longer the sequences.
        longest: tokens of each input's sequence at most, end included.
    """
    if not longest:
        return []
    if beams == 1:
        return _greedy(step, state, begin, end, longest)
    return _Beams(end, beams, length_penalty, longest).run(step, state, begin)


def _greedy(step: Step, state, tokens: Tensor, end: int, longest: Sequence[int]):
    sequences: list[list[int]] = [[] for _ in longest]
    unfinished = list(range(len(longest)))  # in the order of the state
    while unfinished:
        log_p, state = step(state, tokens)
        tokens = log_p.argmax(dim=1)
        rows = []
        for row, (index, token) in enumerate(zip(unfinished, tokens.tolist(), strict=True)):
            if token != end:
                sequences[index].append(token)
                if len(sequences[index]) < longest[index]:
                    rows.append(row)
        if len(rows) < len(unfinished):
            unfinished = [unfinished[row] for row in rows]
            chosen = torch.tensor(rows, dtype=torch.int64, device=tokens.device)
            state, tokens = state.select(chosen), tokens[chosen]
    return sequences


class _Beams:
    """The growing hypotheses of the inputs that are not finished, K of each, and the best ended.

    Attributes:
        unfinished: the inputs that are not finished, B of them.
        scores: log P of the growing hypotheses (B, K), best first.
        tokens: their tokens (B, K, length).
        best: log P / lp of the best sequence of each input that has ended, and its tokens.
    """

    def __init__(self, end: int, beams: int, penalty: float, longest: Sequence[int]):
        self.end, self.beams, self.penalty = end, beams, penalty
        self.longest, self.unfinished = longest, list(range(len(longest)))
        self.best: list[tuple[float, list[int]]] = [(-math.inf, []) for _ in longest]

    def run(self, step: Step, state, begin: Tensor) -> list[list[int]]:
        """Return the best sequence of each input."""
        log_p, state = step(state, begin)
        self.scores = log_p.new_zeros(len(self.unfinished), 1)
        self.tokens = log_p.new_zeros((len(self.unfinished), 1, 0), dtype=torch.int64)
        while True:
            rows = self.extend(log_p)
            if not self.unfinished:
                return [tokens for _, tokens in self.best]
            log_p, state = step(state.select(rows), self.tokens[:, :, -1].flatten())

    def extend(self, log_p: Tensor) -> Tensor:
        """Extend every hypothesis by a token; return which one each extends, (R,) int64.

        Args:
            log_p: log-probabilities of the next token (B K, V).
        """
        inputs, beams = self.scores.shape
        words = log_p.shape[1]
        sums = self.scores[:, :, None] + log_p.view(inputs, beams, words)
        ended = sums[:, :, self.end].clone()
        sums[:, :, self.end] = -math.inf
        self.scores, places = sums.flatten(1).topk(min(self.beams, beams * (words - 1)), dim=1)
        parents, last = places // words, places % words  # (B, K) each
        length = self.tokens.shape[2] + 1  # the end counted
        self._end(ended, length)
        tokens = self.tokens.gather(1, parents[:, :, None].expand(-1, -1, length - 1))
        self.tokens = torch.cat([tokens, last[:, :, None]], dim=2)
        inputs_left = self._drop_finished(length)
        rows = torch.arange(inputs, device=log_p.device)[:, None] * beams + parents
        self.scores, self.tokens = self.scores[inputs_left], self.tokens[inputs_left]
        return rows[inputs_left].flatten()

    def _end(self, ended: Tensor, length: int) -> None:
        """Take the best of the hypotheses that end now, log P (B, K), if it is the best so far."""
        scores, places = (ended / self._lp(length)).max(dim=1)
        rows = zip(self.unfinished, scores.tolist(), places.tolist(), strict=True)
        for row, (index, score, place) in enumerate(rows):
            if score > self.best[index][0]:
                self.best[index] = score, self.tokens[row, place].tolist()

    def _drop_finished(self, length: int) -> Tensor:
        """Return which inputs are not finished, (B',) int64, and forget the others."""
        rows, scores = [], self.scores[:, 0].tolist()
        for row, (index, score) in enumerate(zip(self.unfinished, scores, strict=True)):
            bound = score / self._lp(self.longest[index])
            if length == self.longest[index]:
                if self.best[index][0] == -math.inf:
                    self.best[index] = bound, self.tokens[row, 0].tolist()
            elif bound > self.best[index][0]:
                rows.append(row)
        self.unfinished = [self.unfinished[row] for row in rows]
        return torch.tensor(rows, dtype=torch.int64, device=self.scores.device)

    def _lp(self, length: int) -> float:
        return ((5 + length) / 6) ** self.penalty


def translate_tokens(
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
    translations: list[list[int]] = [[] for _ in sources]
    order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    while order:
        count = max(1, size // (beams * len(sources[order[0]])))
        batch, order = order[:count], order[count:]
        lengths = [len(sources[index]) for index in batch]
        state = model.begin(lengths, torch.cat([sources[index] for index in batch]).to(device))
        begin = torch.full((len(batch),), BEGIN, dtype=torch.int64, device=device)
        answers = beam_search(
            model.step, state, begin=begin, end=END, beams=beams, length_penalty=length_penalty,
            longest=[longest_translation(length) for length in lengths],
        )  # fmt: skip
        for index, tokens in zip(batch, answers, strict=True):
            translations[index] = tokens
    return translations


def longest_translation(length: int) -> int:
    """Return how many tokens the translation of a source of `length` tokens has at most."""
    return 2 * length + 10
