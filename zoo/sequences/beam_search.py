"""Greedy and beam search: the likeliest sequences of a model that says one token at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import torch
from torch import Tensor


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
    found: list[list[int]] = [[] for _ in longest]
    asked = list(range(len(longest)))  # inputs that have not ended, in the order of the state
    while asked:
        log_p, state = step(state, tokens)
        tokens = log_p.argmax(dim=1)
        kept = []
        for row, (own, token) in enumerate(zip(asked, tokens.tolist(), strict=True)):
            if token != end:
                found[own].append(token)
                if len(found[own]) < longest[own]:
                    kept.append(row)
        if len(kept) < len(asked):
            asked = [asked[row] for row in kept]
            rows = torch.tensor(kept, dtype=torch.int64, device=tokens.device)
            state, tokens = state.select(rows), tokens[rows]
    return found


class _Beams:
    """The growing hypotheses of the inputs that are not finished, K of each, and the best ended.

    Attributes:
        asked: the inputs that are not finished, B of them.
        scores: log P of the growing hypotheses (B, K), best first.
        grown: their tokens (B, K, length).
        best: log P / lp of the best sequence of each input that has ended, and its tokens.
    """

    def __init__(self, end: int, beams: int, penalty: float, longest: Sequence[int]):
        self.end, self.beams, self.penalty = end, beams, penalty
        self.longest, self.asked = longest, list(range(len(longest)))
        self.best: list[tuple[float, list[int]]] = [(-math.inf, []) for _ in longest]

    def run(self, step: Step, state, begin: Tensor) -> list[list[int]]:
        """Return the best sequence of each input."""
        log_p, state = step(state, begin)
        self.scores = log_p.new_zeros(len(self.asked), 1)
        self.grown = log_p.new_zeros((len(self.asked), 1, 0), dtype=torch.int64)
        while True:
            rows = self.grow(log_p)
            if not self.asked:
                return [tokens for _, tokens in self.best]
            log_p, state = step(state.select(rows), self.grown[:, :, -1].flatten())

    def grow(self, log_p: Tensor) -> Tensor:
        """Grow every hypothesis by a token; return which each was grown from, (R,) int64.

        Args:
            log_p: log-probabilities of the next token (B K, V).
        """
        inputs, beams = self.scores.shape
        words = log_p.shape[1]
        sums = self.scores[:, :, None] + log_p.view(inputs, beams, words)
        ended = sums[:, :, self.end].clone()
        sums[:, :, self.end] = -math.inf
        kept = min(self.beams, beams * (words - 1))
        self.scores, places = sums.flatten(1).topk(kept, dim=1)
        grown_from, tokens = places // words, places % words
        length = self.grown.shape[2] + 1  # the end counted
        self._end(ended, length)
        self.grown = torch.cat([_of(self.grown, grown_from), tokens[:, :, None]], dim=2)
        open_ = self._open(length)
        rows = torch.arange(inputs, device=log_p.device)[:, None] * beams + grown_from
        self.scores, self.grown = self.scores[open_], self.grown[open_]
        return rows[open_].flatten()

    def _end(self, ended: Tensor, length: int) -> None:
        """Take the best of the hypotheses that end now, log P (B, K), if it is the best so far."""
        scores, places = (ended / self._lp(length)).max(dim=1)
        pairs = zip(self.asked, scores.tolist(), places.tolist(), strict=True)
        for row, (own, score, place) in enumerate(pairs):
            if score > self.best[own][0]:
                self.best[own] = score, self.grown[row, place].tolist()

    def _open(self, length: int) -> Tensor:
        """Return which inputs are not finished, (B',) int64, and forget the others."""
        kept = []
        for row, (own, score) in enumerate(
            zip(self.asked, self.scores[:, 0].tolist(), strict=True)
        ):
            at_most = score / self._lp(self.longest[own])
            if length == self.longest[own]:
                if self.best[own][0] == -math.inf:
                    self.best[own] = at_most, self.grown[row, 0].tolist()
            elif at_most > self.best[own][0]:
                kept.append(row)
        self.asked = [self.asked[row] for row in kept]
        return torch.tensor(kept, dtype=torch.int64, device=self.scores.device)

    def _lp(self, length: int) -> float:
        return ((5 + length) / 6) ** self.penalty


def _of(grown: Tensor, chosen: Tensor) -> Tensor:
    """Return the tokens (B, K', length) of chosen hypotheses (B, K') of (B, K, length)."""
    return grown.gather(1, chosen[:, :, None].expand(-1, -1, grown.shape[2]))
