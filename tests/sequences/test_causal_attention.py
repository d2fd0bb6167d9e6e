"""Causal products equal a loop over places, see no future, and take linear memory."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch.utils.flop_counter import FlopCounterMode

from zoo.sequences import causal_attention
from zoo.sequences.causal_attention import CHUNK, causal_product
from zoo.testing.attentions import GROWTH, peak_bytes


def tensors(*shape, columns=(3, 3, 2), dtype=torch.double):
    return [torch.randn(*shape, each, dtype=dtype, requires_grad=True) for each in columns]


def slow_product(q, k, v):
    """One place after the other: the outer products of keys and values so far, then a query."""
    state, rows = 0, []
    for i in range(q.shape[-3]):
        state = state + k[..., i, :, :, None] * v[..., i, :, None, :]
        rows.append((q[..., i, :, :, None] * state).sum(-2))
    return torch.stack(rows, dim=-3)


def pairs_product(q, k, v):
    """By the N x N matrix of all pairs, of which those of the future are left out."""
    scores = torch.einsum("...ihm,...jhm->...hij", q, k)
    places = torch.arange(q.shape[-3])
    past = (places[None, :] <= places[:, None]).to(scores)
    return torch.einsum("...hij,...jhe->...ihe", scores * past, v)


@pytest.mark.parametrize("slow", [slow_product, pairs_product])
@pytest.mark.parametrize("length", [1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 300])
@pytest.mark.parametrize("sets,heads", [((), 1), ((2,), 3), ((2, 2), 1)], ids=str)
def test_it_equals_its_twins(sets, heads, length, slow):
    inputs = tensors(*sets, length, heads)
    fast, slow = causal_product(*inputs), slow(*inputs)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    weight = torch.randn_like(slow)
    ours = torch.autograd.grad((fast * weight).sum(), inputs)
    theirs = torch.autograd.grad((slow * weight).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("length", [1, 4, 5, 9])
def test_gradients_and_their_gradients(length, monkeypatch):
    monkeypatch.setattr(causal_attention, "CHUNK", 4)
    inputs = tensors(2, length, 2)
    assert gradcheck(causal_product, inputs) and gradgradcheck(causal_product, inputs)
    assert gradgradcheck(causal_product, (inputs[0], inputs[1].detach(), inputs[2]))


def test_second_gradients_equal_those_of_the_twin():
    inputs, found = tensors(140, 2), []
    weights = [torch.randn_like(each) for each in (*inputs, inputs[2])]
    for product in (causal_product, slow_product):
        out = product(*inputs)
        first = torch.autograd.grad((out * weights[-1]).sum(), inputs, create_graph=True)
        total = sum((one * other).sum() for one, other in zip(first, weights[:3], strict=True))
        found.append(torch.autograd.grad(total, inputs))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("place", [0, 70, CHUNK - 1, CHUNK, 200])
def test_no_gradient_comes_from_the_future(place):
    q, k, v = inputs = tensors(260, 2)
    of_q, of_k, of_v = torch.autograd.grad(causal_product(*inputs)[place].sum(), inputs)
    assert not of_k[place + 1 :].any() and not of_v[place + 1 :].any()
    assert of_k[: place + 1].any(-1).all() and of_v[: place + 1].any(-1).all()
    assert not torch.cat([of_q[:place], of_q[place + 1 :]]).any() and of_q[place].any()


@pytest.mark.parametrize("place", [0, 70, CHUNK - 1, CHUNK, 200])
@pytest.mark.parametrize("dtype", [torch.float, torch.double, torch.bfloat16])
def test_another_future_changes_no_bit_of_the_past(place, dtype):
    inputs = [each.detach() for each in tensors(260, 2, dtype=dtype)]
    before = causal_product(*inputs)
    for each in inputs:
        each[place + 1 :] = 100 * torch.randn_like(each[place + 1 :])
    after = causal_product(*inputs)
    assert torch.equal(after[: place + 1], before[: place + 1])
    assert not torch.equal(after[place + 1 :], before[place + 1 :])


@pytest.mark.parametrize("of,into", [("values", 0), ("queries", 1), ("keys", 2)])
def test_which_gradients_are_asked_for_makes_no_difference(of, into):
    inputs = tensors(200, 2)
    every = torch.autograd.grad(causal_product(*inputs).sin().sum(), inputs)
    one = [each if place == into else each.detach() for place, each in enumerate(inputs)]
    found = torch.autograd.grad(causal_product(*one).sin().sum(), one[into])[0]
    torch.testing.assert_close(found, every[into])


def step(length):
    inputs = tensors(1, length, 2, columns=(8, 8, 8), dtype=torch.float)
    return lambda: torch.autograd.grad(causal_product(*inputs).sum(), inputs)


def test_memory_grows_with_the_length():
    assert peak_bytes(step(4096)) < GROWTH * peak_bytes(step(2048))


def test_time_grows_with_the_length():
    def work(length):
        with FlopCounterMode(display=False) as counter:
            step(length)()
        return counter.get_total_flops()

    assert work(8192) < 2.01 * work(4096)


def test_nothing_but_queries_keys_and_values_is_kept():
    inputs, kept = tensors(1000, 2), []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda each: (kept.append(each), each)[1], lambda each: each
    ):
        causal_product(*inputs).sum().backward()
    assert max(each.numel() for each in kept) <= 1000 * 2 * 3
