"""Kernel attention: causal, place by place and across are one thing, written out with weights."""

import itertools
import math

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from zoo.nn.random_features import random_directions
from zoo.sequences.cross_attention import KernelCross
from zoo.sequences.kernel_attention import Kernel, Memory, causal_attention
from zoo.testing.attentions import GROWTH, peak_bytes

NAMES = "softmax", "sine", "elu"
COUNT, SEED = 6, 3

each_kernel = pytest.mark.parametrize("name", NAMES)


def kernel(name, count=COUNT, **more):
    return Kernel(name, count, seed=SEED, **more).eval()


def tensors(*shape, columns=(4, 4, 3), dtype=torch.double):
    return [torch.randn(*shape, each, dtype=dtype, requires_grad=True) for each in columns]


def weight_of(name, q, k, w):
    """The weight of one key for one query, as the papers have it."""
    if name == "elu":
        above = [torch.where(x > 0, x + 1, x.exp()) for x in (q, k)]
        return (above[0] * above[1]).sum()
    q, k = (x / len(x) ** 0.25 for x in (q, k))
    if name == "sine":
        return torch.stack([torch.cos(each @ (q - k)) for each in w]).mean()
    terms = [torch.exp(each @ (q + k) - (q @ q + k @ k) / 2) for each in w]
    return torch.stack(terms).mean()


def mean_by(name, q, keys, values, w):
    """The weighted mean of values (S, E) for one query (D,); sine's mean weight has a floor."""
    weights = torch.stack([weight_of(name, q, each, w) for each in keys])
    if name == "sine" and weights.mean() < (least := 1 / math.sqrt(2 * len(w))):
        weights = weights + (least - weights.mean())
    return weights / weights.sum() @ values


def slow_causal(name, q, k, v):
    w, rows = random_directions(COUNT, q.shape[-1], SEED).to(q), []
    for i, h in itertools.product(range(q.shape[0]), range(q.shape[1])):
        rows.append(mean_by(name, q[i, h], k[: i + 1, h], v[: i + 1, h], w))
    return torch.stack(rows).reshape(v.shape)


def slow_cross(name, q, k, v, present):
    w, rows = random_directions(COUNT, q.shape[-1], SEED).to(q), []
    for r, i, h in itertools.product(*map(range, q.shape[:3])):
        there = present[r].nonzero().squeeze(1)
        rows.append(mean_by(name, q[r, i, h], k[r, there, h], v[r, there, h], w))
    return torch.stack(rows).reshape(*q.shape[:3], v.shape[-1])


def assert_twins(fast, slow, inputs):
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    weight = torch.randn_like(slow)
    ours, theirs = (torch.autograd.grad((out * weight).sum(), inputs) for out in (fast, slow))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-8)


@each_kernel
@pytest.mark.parametrize("length", [1, 2, 9])
def test_causal_attention_equals_its_twin(name, length):
    inputs = tensors(length, 2)
    fast = causal_attention(kernel(name), *inputs)
    assert_twins(fast, slow_causal(name, *inputs), inputs)


@each_kernel
def test_cross_attention_equals_its_twin(name):
    q, k, v = inputs = [tensors(2, each, 2)[i] for i, each in enumerate((4, 7, 7))]
    present = torch.tensor([[True] * 5 + [False] * 2, [False] + [True] * 6])
    fast = KernelCross(kernel(name))(q, k, v, present)
    assert_twins(fast, slow_cross(name, q, k, v, present), inputs)


def one_by_one(attend, q, k, v):
    """What a memory that is given a place at a time says of each."""
    nothing = torch.zeros(q.shape[0], 1, dtype=torch.bool)
    memory, rows = Memory.of(attend.keys(k[:, :1]), v[:, :1], nothing), []
    for i in range(q.shape[1]):
        memory = memory.add(attend.keys(k[:, i]), v[:, i])
        rows.append(memory.read(attend.queries(q[:, i : i + 1]), attend.floor))
    return torch.cat(rows, 1)


@each_kernel
@pytest.mark.parametrize("length", [1, 20, 150])
def test_three_forms_are_one(name, length):
    """A whole pass, a place at a time, and the last place by a memory of all."""
    q, k, v = (each.detach() for each in tensors(2, length, 3))
    attend = kernel(name)
    whole = causal_attention(attend, q, k, v)
    torch.testing.assert_close(one_by_one(attend, q, k, v), whole, rtol=0, atol=1e-9)
    across = KernelCross(attend)
    present = torch.ones(2, length, dtype=torch.bool)
    torch.testing.assert_close(across(q[:, -1:], k, v, present), whole[:, -1:], rtol=0, atol=1e-9)
    known = across.remember(k, v, present)
    torch.testing.assert_close(across.read(q, known), across(q, k, v, present), rtol=0, atol=1e-12)


@each_kernel
def test_a_memory_selects_rows(name):
    q, k, v = (each.detach() for each in tensors(3, 5, 2))
    attend, rows = kernel(name), torch.tensor([2, 0, 2, 2])
    present = torch.ones(3, 5, dtype=torch.bool)
    some = Memory.of(attend.keys(k), v, present).select(rows)
    every = KernelCross(attend)(q, k, v, present)
    found = some.read(attend.queries(q[rows]), attend.floor)
    torch.testing.assert_close(found, every[rows])


@each_kernel
@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0])
def test_values_of_one_give_one(name, scale):
    q, k, v = (scale * each.detach() for each in tensors(2, 200, 2))
    ones, attend = torch.ones_like(v), kernel(name)
    torch.testing.assert_close(causal_attention(attend, q, k, ones), ones)
    present = torch.ones(2, 200, dtype=torch.bool)
    torch.testing.assert_close(KernelCross(attend)(q, k, ones, present), ones)
    torch.testing.assert_close(one_by_one(attend, q, k, ones), ones)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_sines_stay_bounded_where_their_mass_vanishes(scale):
    """Of some prefixes the plain mean weight is negative, of others near 0."""
    q, k, v = (each.detach() for each in tensors(1, 2000, 1))
    q, k, attend = scale * q, scale * k, kernel("sine")
    queries, keys = attend(q, k)
    scores = torch.einsum("rihm,rjhm->rij", queries, keys)[0].tril()
    mass = scores.sum(1) / torch.arange(1, 2001)
    assert mass.min() < 0 and mass.abs().min() < 0.02
    out = causal_attention(attend, q, k, v)
    assert attend.floor == pytest.approx(1 / math.sqrt(2 * COUNT))
    assert out.abs().max() <= (2 / attend.floor + 1) * v.abs().max()


def test_sines_of_no_mass_are_the_mean_of_what_has_been():
    v = torch.randn(5, 1, 2, dtype=torch.double)
    q, k = torch.zeros(5, 1, 1).double(), torch.full((5, 1, 1), math.pi).double()
    attend = kernel("sine", count=1)
    attend._kept.get((1, v.device), lambda: torch.ones(1, 1).double())  # cos(q - k) = -1
    means = v.cumsum(0) / torch.arange(1, 6)[:, None, None]
    torch.testing.assert_close(causal_attention(attend, q, k, v), means)
    across = KernelCross(attend)(q[None], k[None], v[None], torch.ones(1, 5, dtype=torch.bool))
    torch.testing.assert_close(across[0], v.mean(0, keepdim=True).expand(5, 1, 2))


@each_kernel
@pytest.mark.parametrize("place", [0, 127, 128, 200])
def test_another_future_changes_no_bit_of_the_past(name, place):
    q, k, v = (each.detach() for each in tensors(1, 260, 2, dtype=torch.float))
    before = causal_attention(kernel(name), q, k, v)
    for each in (q, k, v):
        each[:, place + 1 :] = 3 * torch.randn_like(each[:, place + 1 :])
    after = causal_attention(kernel(name), q, k, v)
    assert torch.equal(after[:, : place + 1], before[:, : place + 1])
    assert not torch.equal(after, before)


@each_kernel
@pytest.mark.parametrize("what", [1, 2])
def test_absent_keys_have_no_influence(name, what):
    q, k, v = (tensors(2, each, 2)[i].detach() for i, each in enumerate((3, 7, 7)))
    present = torch.tensor([[True] * 5 + [False] * 2, [False] + [True] * 6])
    across, given = KernelCross(kernel(name)), [q, k, v, present]
    before, later = across(*given), across.remember(k, v, present)
    given[what] = torch.where(present[..., None, None], given[what], 7.0)
    assert torch.equal(across(*given), before)
    changed = across.remember(*given[1:])
    for one, other in zip(changed, later, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["softmax", "sine"])
def test_training_draws_anew_by_one_number_and_evaluation_does_not(name):
    q, k, v = (each.detach() for each in tensors(1, 9, 2))
    attend = kernel(name)
    before = torch.get_rng_state()
    assert torch.equal(causal_attention(attend, q, k, v), causal_attention(attend, q, k, v))
    assert torch.equal(torch.get_rng_state(), before)
    attend.train()
    first, second = (causal_attention(attend, q, k, v) for _ in range(2))
    assert not torch.equal(first, second)
    torch.set_rng_state(before)
    assert torch.equal(causal_attention(attend, q, k, v), first)
    drawn = torch.get_rng_state()
    torch.set_rng_state(before)
    torch.randint(2**62, ())
    assert torch.equal(torch.get_rng_state(), drawn)


def test_more_features_come_nearer_to_softmax():
    q, k, v = (each.detach() / 2 for each in tensors(40, 2))
    scores = torch.einsum("ihd,jhd->hij", q, k) / 2
    scores = scores.masked_fill(torch.ones(40, 40).triu(1).bool(), -torch.inf)
    exact = torch.einsum("hij,jhe->ihe", scores.softmax(-1), v)
    errors = [
        (causal_attention(kernel("softmax", count), q, k, v) - exact).abs().mean().item()
        for count in (10, 1000, 100_000)
    ]
    assert errors[1] < errors[0] / 3 and errors[2] < errors[1] / 3


@each_kernel
def test_half_precision_is_near(name):
    q, k, v = (each.detach() for each in tensors(1, 3000, 2, dtype=torch.float))
    half = [each.bfloat16() for each in (q, k, v)]
    wide = [each.float() for each in half]
    present, across = torch.ones(1, 3000, dtype=torch.bool), KernelCross(kernel(name))
    for attend in (lambda *x: causal_attention(kernel(name), *x), lambda *x: across(*x, present)):
        out = attend(*half)
        assert out.dtype == torch.bfloat16
        assert (out.float() - attend(*wide)).abs().max() < 0.03


@each_kernel
def test_autocast_leaves_the_sums_in_fp32(name):
    inputs = tensors(1, 3000, 2, dtype=torch.float)
    present, across = torch.ones(1, 3000, dtype=torch.bool), KernelCross(kernel(name))
    ways = (
        lambda *x: causal_attention(kernel(name), *x),
        lambda *x: across(*x, present),
        lambda *x: across.read(x[0], across.remember(*x[1:], present)),
    )
    for attend in ways:
        exact = attend(*inputs)
        with torch.autocast("cpu", torch.bfloat16):
            out = attend(*inputs)
        torch.testing.assert_close(out, exact)
        grads = [torch.autograd.grad(each.sin().sum(), inputs) for each in (exact, out)]
        for one, other in zip(*grads, strict=True):
            torch.testing.assert_close(one, other)


@each_kernel
def test_memory_and_time_grow_with_the_length(name):
    def step(length):
        inputs = tensors(1, length, 2, columns=(8, 8, 8), dtype=torch.float)
        attend = Kernel(name, 16, seed=0)
        return lambda: causal_attention(attend, *inputs).sum().backward()

    assert peak_bytes(step(4096)) < GROWTH * peak_bytes(step(2048))

    def work(length):
        with FlopCounterMode(display=False) as counter:
            step(length)()
        return counter.get_total_flops()

    assert work(8192) < 2.02 * work(4096)


@each_kernel
@pytest.mark.parametrize("scale", [6.0, 9.0, 12.0, 15.0, 30.0, 1e3, 1e6])
def test_queries_and_keys_of_any_length_leave_finite_gradients(name, scale):
    """Weights that underflow are nothing at worst, and never NaN."""
    attend, present = kernel(name, 32), torch.ones(1, 400, dtype=torch.bool)
    for columns in (4, 16):
        q, k, v = tensors(1, 400, 2, columns=(columns, columns, 3), dtype=torch.float)
        for gather in (causal_attention, lambda own, *x: KernelCross(own)(*x, present)):
            out = gather(attend, scale * q, scale * k, v)
            found = torch.autograd.grad(out.square().sum(), (q, k, v))
            assert out.isfinite().all() and all(each.isfinite().all() for each in found)
            if name != "sine":
                assert out.abs().max() <= v.abs().max() + 1e-3
