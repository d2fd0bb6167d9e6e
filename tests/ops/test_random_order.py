"""Numbers that are drawn once: the same as drawn anew, and no more of them than are allowed."""

import copy
import importlib
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from zoo.nn import RandomBatchAttention, RandomKernel, performer, softmax
from zoo.ops.random_order import Kept, random_order


class Counted:
    """Draws of 8 bytes for each of n, and for which n they were made."""

    def __init__(self):
        self.made = []

    def ask(self, kept, n):
        def draw():
            self.made.append(n)
            return random_order(n, 0)

        return kept.get((n,), draw)


def test_the_last_that_are_asked_for_are_kept_up_to_so_many_bytes():
    kept, drawn = Kept(most=8 * 10), Counted()
    for n in (4, 5, 4, 3, 4, 5, 11, 4, 5):
        assert torch.equal(drawn.ask(kept, n), random_order(n, 0))
    assert drawn.made == [4, 5, 3, 5, 11, 4, 5]  # for 3 the 5 goes, for 11 all


def test_a_copy_and_a_file_have_none():
    kept, drawn = Kept(most=99), Counted()
    drawn.ask(kept, 4)
    for other in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert other.most == 99
        drawn.ask(other, 4)
    assert drawn.made == [4, 4, 4]


def test_several_threads_may_ask():
    kept, drawn = Kept(most=8 * 300), Counted()
    asked = [*range(1, 60)] * 8
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: drawn.ask(kept, n), asked))
    assert all(torch.equal(each, random_order(n, 0)) for n, each in zip(asked, found, strict=True))


@pytest.mark.parametrize(
    "make,drawn",
    [
        (lambda: RandomBatchAttention(softmax, 4), "zoo.nn.random_batch_attention.random_order"),
        (
            lambda: RandomBatchAttention(softmax, 4, inference="mean", draws=3),
            "zoo.nn.random_batch_attention.random_order",
        ),
        (lambda: RandomKernel(performer, 8, seed=3), "zoo.nn.random_features.random_directions"),
    ],
)
def test_evaluation_draws_once_and_finds_the_same(make, drawn, monkeypatch):
    """Also for a gradient, when what it needs was drawn in inference mode."""
    module, own, made = make().eval(), named(drawn), []
    monkeypatch.setattr(drawn, lambda *given, **more: made.append(given) or own(*given, **more))
    sizes = [torch.randn(3, n, 2, 4, generator=torch.Generator().manual_seed(n)) for n in (10, 7)]
    with torch.inference_mode():
        first = [module(*each).clone() for each in sizes]
    once = len(made)
    assert once
    for each, expected in zip(sizes, first, strict=True):
        q = each[0].clone().requires_grad_()
        found = module(q, *each[1:])
        assert torch.equal(found, expected)
        found.sum().backward()
        assert q.grad.isfinite().all()
    assert len(made) == once and not module.state_dict()
    for each, expected in zip(sizes, first, strict=True):
        assert torch.equal(make().eval()(*each), expected)  # drawn anew
    assert len(made) > once


def named(name):
    """Return what a dotted name stands for."""
    room, _, function = name.rpartition(".")
    return getattr(importlib.import_module(room), function)
