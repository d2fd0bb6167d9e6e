"""Every kernel beside its naive twin: values, gradients, and gradients of these.

Linear maps, whose kernels are those of single precision, are compared in `test_linear.py`.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import NamedTuple

import pytest
import torch
from twins import assert_twins

from zoo.nn.random_features import random_directions
from zoo.ops import chunked_attention, dropout, gumbel_attention, losses, naive
from zoo.ops.gram_attention import linear_mean_of_maps
from zoo.ops.linear import Projected
from zoo.ops.linear_attention import linear_attention
from zoo.ops.random_order import random_order
from zoo.system.context import using

FLAT = [(11, 2, 4)] * 3  # (N, H, D)
SETS = [(3, 6, 2, 4), (3, 6, 2, 4), (3, 6, 2, 5)]
FEW = [(3, 2, 4)] * 3  # fewer nodes than columns
MAPS = [(9, 3), *[(8, 3), (8,)] * 3]  # two heads of width 4, of features z (9, 3)
W = random_directions(5, 4, seed=0)
NOISE = torch.randn(3, 11, 2, generator=torch.Generator().manual_seed(0))
ORDER = torch.randperm(11, generator=torch.Generator().manual_seed(0))
CLASSES = torch.tensor([3, -1, 0, 2, 1, -1, 3])
TARGETS = torch.tensor([[0.0, 1], [torch.nan, 1], [1, 0], [0, torch.nan]])


def seeded(kernel):
    """A kernel that draws the same each time."""

    def call(*given, **options):
        torch.manual_seed(3)
        return kernel(*given, **options)

    return call


def by_gram(z, *maps, base):
    """Linear attention of maps W z + b, none of which is computed."""
    return linear_mean_of_maps(*(Projected(z, *maps[i : i + 2], 2) for i in (0, 2, 4)), base)


def of_maps(z, *maps, base):
    q, k, v = (naive.linear_map(z, *maps[i : i + 2]).unflatten(1, (2, 4)) for i in (0, 2, 4))
    return naive.linear_attention(q, k, v, qk_norm="frobenius", base=base)


def pairs():
    """Each kernel, its twin, options of both, and the shapes of what gradients are asked of."""
    for shapes in (FLAT, SETS, FEW):
        for norm, base in (("row", "own"), ("row", "all"), ("frobenius", "own")):
            options = {"qk_norm": norm, "base": base}
            yield linear_attention, naive.linear_attention, options, shapes
    for base in ("own", "all"):
        yield by_gram, of_maps, {"base": base}, MAPS
    for noise in (None, NOISE):
        for epsilon in (0.0, 0.05):
            options = {"w": W, "noise": noise, "epsilon": epsilon}
            yield gumbel_attention.gumbel_attention, naive.gumbel_attention, options, FLAT
    yield gumbel_attention.gumbel_attention, naive.gumbel_attention, {"w": W}, SETS[:2] + SETS[:1]
    inner = partial(naive.linear_attention, qk_norm="row", base="own")
    for size in (1, 4, 11):
        batches = [partial(each.attend_in_batches, inner) for each in (chunked_attention, naive)]
        yield *batches, {"order": ORDER, "size": size}, FLAT
    for rate in (0.25, 0.3):
        yield dropout.dropout, naive.dropout, {"rate": rate}, [(7, 5)]
    for mask in (False, True):
        fast = partial(dropout.relu_dropout, mask=mask)
        yield fast, naive.relu_dropout, {"rate": 0.3}, [(7, 5)]
    added = [lambda x, onto, each=each: each.relu_dropout(x, 0.3, onto=onto)
             for each in (dropout, naive)]  # fmt: skip
    yield *added, {}, [(7, 5), (7, 5)]
    for smoothing in (0.0, 0.1):
        options = {"y": CLASSES, "smoothing": smoothing}
        yield losses.cross_entropy, naive.cross_entropy, options, [(7, 4)]


@pytest.mark.parametrize(("kernel", "twin", "options", "shapes"), [*pairs()])
def test_a_kernel_is_its_naive_twin(kernel, twin, options, shapes):
    inputs = [torch.randn(each, dtype=torch.double, requires_grad=True) for each in shapes]
    fast, slow = (partial(seeded(each), *inputs, **options) for each in (kernel, twin))
    assert_twins(fast, slow, inputs, second=True)


@pytest.mark.parametrize(
    ("name", "shape", "y"),
    [
        ("one_hot_cross_entropy", (7, 4), CLASSES),
        ("binary_cross_entropy", (4, 1), torch.tensor([0, -1, 1, 0])),
        ("multilabel_cross_entropy", (4, 2), TARGETS),
        ("squared_error", (4, 2), TARGETS),
    ],
)
def test_a_loss_in_single_precision_is_its_naive_twin(name, shape, y):
    logits = torch.randn(shape, requires_grad=True)
    fast, slow = (partial(getattr(each, name), logits, y) for each in (losses, naive))
    assert_twins(fast, slow, [logits], second=True, atol=1e-6)


class Rank(NamedTuple):
    """One of several threads, each of which has some of `count` nodes."""

    number: int
    count: int
    parts: list
    all_there: Barrier

    def total(self, *own):
        self.parts[self.number] = own
        self.all_there.wait()
        totals = [sum(each) for each in zip(*self.parts, strict=True)]
        self.all_there.wait()
        return totals


@pytest.mark.parametrize("qk_norm", ["row", "frobenius"])
@pytest.mark.parametrize("base", ["own", "all"])
def test_sums_over_all_nodes_are_those_of_the_twin(qk_norm, base):
    """Linear attention where each of three threads has some of the nodes."""
    qkv = [torch.randn(11, 2, 4, dtype=torch.double, requires_grad=True) for _ in range(3)]

    def fast():
        parts, all_there = [None] * 3, Barrier(3)

        def own(number, *given):
            sums = Rank(number, 11, parts, all_there)
            return linear_attention(*given, qk_norm=qk_norm, base=base, sums=sums)

        with ThreadPoolExecutor(3) as pool:
            return torch.cat([*pool.map(own, range(3), *(each.tensor_split(3) for each in qkv))])

    slow = partial(naive.linear_attention, *qkv, qk_norm=qk_norm, base=base)
    assert_twins(fast, slow, qkv, second=True)


def test_a_random_order_by_identities_is_that_of_its_twin():
    identities = torch.randint(2**62, (300,))
    for seed in (0, 3, 2**62 - 1):
        with using(identities=identities):
            assert torch.equal(random_order(300, seed), naive.random_order(identities, seed))
