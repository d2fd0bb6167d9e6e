"""Beam search against a search of every sequence there is."""

import dataclasses
import itertools
import math

import pytest
import torch
from torch import Tensor

from zoo.sequences.beam_search import beam_search

WORDS, BEGIN, END = 5, 0, 1


@dataclasses.dataclass
class Told:
    """What has been said so far, (R, length), and by which input."""

    rows: Tensor
    tokens: Tensor

    def select(self, rows):
        return Told(self.rows[rows], self.tokens[rows])


def toy(seed, sharpness=1.0):
    """A model whose next token depends on the input and on all tokens before, by a table."""
    generator = torch.Generator().manual_seed(seed)
    table = sharpness * torch.randn(4096, WORDS, generator=generator)
    table = table.log_softmax(1)
    asked = []

    def step(state, tokens):
        asked.append(len(tokens))
        state = Told(state.rows, torch.cat([state.tokens, tokens[:, None]], 1))
        powers = WORDS ** torch.arange(state.tokens.shape[1])
        keys = (state.tokens * powers).sum(1) + 977 * state.rows + 31 * state.tokens.shape[1]
        return table[keys % 4096], state

    return step, asked


def start(count):
    return Told(torch.arange(count), torch.zeros(count, 0, dtype=torch.int64))


def searched(step, count, **options):
    begin = torch.full((count,), BEGIN)
    return beam_search(step, start(count), begin=begin, end=END, **options)


def log_p(step, row, tokens):
    """The log-probability of a sequence, token by token."""
    state, total, last = Told(torch.tensor([row]), torch.zeros(1, 0, dtype=torch.int64)), 0.0, BEGIN
    for token in tokens:
        found, state = step(state, torch.tensor([last]))
        total, last = total + found[0, token].item(), token
    return total


def exhaustive(step, row, longest, penalty):
    """The best of all sequences that end, of at most so many tokens with the end."""
    others = [each for each in range(WORDS) if each != END]
    scores = {}
    for length in range(longest):
        for tokens in itertools.product(others, repeat=length):
            lp = ((5 + length + 1) / (5 + 1)) ** penalty
            scores[tokens] = log_p(step, row, [*tokens, END]) / lp
    return list(max(scores, key=scores.get))


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_enough_beams_find_the_best_of_all(seed, penalty):
    step, _ = toy(seed)
    longest = [4, 2, 3, 1, 4]
    found = searched(step, 5, beams=400, length_penalty=penalty, longest=longest)
    assert found == [exhaustive(step, row, each, penalty) for row, each in enumerate(longest)]


def test_the_penalty_lengthens():
    lengths = []
    for penalty in (0.0, 1.0, 3.0):
        found = [searched(toy(seed)[0], 4, beams=300, length_penalty=penalty, longest=[4] * 4)
                 for seed in range(8)]  # fmt: skip
        lengths.append(sum(len(tokens) for each in found for tokens in each))
    assert lengths[0] < lengths[1] < lengths[2]


def greedy_twin(step, row, longest):
    tokens, state, last = [], Told(torch.tensor([row]), torch.zeros(1, 0, dtype=torch.int64)), BEGIN
    while len(tokens) < longest:
        found, state = step(state, torch.tensor([last]))
        last = int(found[0].argmax())
        if last == END:
            break
        tokens.append(last)
    return tokens


def test_one_beam_takes_the_likeliest_each_time():
    step, _ = toy(3)
    longest = [6, 1, 9, 12, 3, 8]
    found = searched(step, 6, beams=1, length_penalty=0.0, longest=longest)
    assert found == [greedy_twin(step, row, each) for row, each in enumerate(longest)]
    assert any(len(tokens) < most for tokens, most in zip(found, longest, strict=True))


@pytest.mark.parametrize("beams", [1, 3])
def test_what_has_ended_leaves_the_batch(beams):
    step, asked = toy(5)
    searched(step, 12, beams=beams, length_penalty=0.0, longest=[12] * 12)
    assert asked[0] == 12 and asked[-1] < 12 * beams
    assert asked[1:] == sorted(asked[1:], reverse=True)


@pytest.mark.parametrize("beams", [1, 2, 4])
def test_an_input_finds_the_same_alone(beams):
    step, _ = toy(7)
    longest = [5, 8, 3, 7]
    together = searched(step, 4, beams=beams, length_penalty=0.6, longest=longest)
    for row, most in enumerate(longest):
        state = Told(torch.tensor([row]), torch.zeros(1, 0, dtype=torch.int64))
        [alone] = beam_search(step, state, begin=torch.tensor([BEGIN]), end=END, beams=beams,
                              length_penalty=0.6, longest=[most])  # fmt: skip
        assert alone == together[row]


def endless(state, tokens):
    table = torch.full((len(tokens), WORDS), math.log(0.25))
    table[:, END] = -math.inf
    table[:, 3] = math.log(0.4)
    return table, state


@pytest.mark.parametrize("beams", [1, 2, 9])
def test_what_never_ends_is_cut(beams):
    found = searched(endless, 2, beams=beams, length_penalty=0.6, longest=[4, 2])
    assert found == [[3] * 4, [3] * 2]


def test_no_inputs():
    assert searched(toy(0)[0], 0, beams=4, length_penalty=0.0, longest=[]) == []
