"""Linear attention from the Gram matrix equals that of queries, keys and values as tensors."""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from zoo.nn.attention import linear, one_norm, softmax
from zoo.nn.layers import FullHeads
from zoo.ops import gram_attention
from zoo.ops.gram_attention import linear_mean_of_maps
from zoo.ops.linear import Linear
from zoo.weights.create import create_model

BASES = ("own", "all")


def maps_of(width, heads, use_weight, dtype=torch.double):
    torch.manual_seed(0)
    count = 3 if use_weight else 2
    maps = [Linear(width, heads * width).to(dtype) for _ in range(count)]
    return [*maps, *[None] * (3 - count)]


def written_out(z, query, key, value, heads, base):
    """The equation, from all N x N products."""
    n = len(z)
    q, k = (each(z).unflatten(1, (heads, -1)) for each in (query, key))
    q, k = q / q.square().sum().sqrt(), k / k.square().sum().sqrt()
    v = (
        z.unsqueeze(1).expand(-1, heads, -1)
        if value is None
        else value(z).unflatten(1, (heads, -1))
    )
    scores = torch.stack([q[:, h] @ k[:, h].T for h in range(heads)])  # (H, N, N)
    added = n * v if base == "own" else v.sum(0, keepdim=True)
    gathered = torch.stack([scores[h] @ v[:, h] for h in range(heads)], dim=1)
    return ((gathered + added) / (n + scores.sum(2).T.unsqueeze(2))).mean(1)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("use_weight", [True, False])
def test_values_and_gradients(base, heads, use_weight):
    maps = maps_of(4, heads, use_weight)
    z = torch.randn(13, 4, dtype=torch.double, requires_grad=True)
    weights = [z, *(each for one in maps if one for each in one.parameters())]
    found = []
    for answer in (linear_mean_of_maps, written_out):
        out = answer(z, *maps, heads, base)
        loss = (out * torch.arange(52.0).view(13, 4).cos()).sum() + out.square().sum()
        found.append([out, *torch.autograd.grad(loss, weights)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_against_differences_and_second_ones():
    z = torch.randn(7, 3, dtype=torch.double, requires_grad=True)
    given = [each for one in maps_of(3, 2, True) for each in one.parameters()]

    def answer(z, *given):
        pairs = zip(given[::2], given[1::2], strict=True)
        maps = (SimpleNamespace(weight=weight, bias=bias) for weight, bias in pairs)
        return linear_mean_of_maps(z, *maps, 2, "own")

    assert torch.autograd.gradcheck(answer, (z, *given))
    assert torch.autograd.gradgradcheck(answer, (z, *given))


def test_queries_of_zero_leave_each_node_its_value():
    maps = maps_of(4, 1, True)
    with torch.no_grad():
        maps[0].weight.zero_(), maps[0].bias.zero_()
    z = torch.randn(9, 4, dtype=torch.double, requires_grad=True)
    out = linear_mean_of_maps(z, *maps, 1, "own")
    out.sum().backward()
    torch.testing.assert_close(out, maps[2](z))
    assert z.grad.isfinite().all() and maps[0].weight.grad.isfinite().all()


def test_which_attentions_are_meant():
    assert one_norm(partial(linear, qk_norm="frobenius")) == "own"
    assert one_norm(partial(linear, qk_norm="frobenius", base="all")) == "all"
    others = linear, partial(linear, qk_norm="row"), partial(linear), softmax, partial(softmax)
    assert not any(map(one_norm, others))


@pytest.fixture
def always(monkeypatch):
    """Let it pay at any size, and count the calls."""
    calls, real = [], gram_attention.linear_mean_of_maps

    def counted(*arguments):
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(gram_attention, "linear_mean_of_maps", counted)
    monkeypatch.setattr(gram_attention, "pays", lambda z: True)
    return calls


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("name", ["sgformer", "difformer"])
@pytest.mark.parametrize("use_weight", [True, False])
def test_models_answer_the_same(name, use_weight, heads, tiny, always, monkeypatch):
    graph, x, _ = tiny
    model = create_model(name, 5, 3, dim=8, heads=heads, use_weight=use_weight).eval()
    found = []
    for pays in (True, False):
        monkeypatch.setattr(gram_attention, "pays", lambda z, pays=pays: pays)
        logits = model(graph, x).logits
        weights = [each for each in model.parameters() if each.requires_grad]
        found.append([logits, *torch.autograd.grad(logits.square().sum(), weights)])
    assert len(always) == len(model.layers)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_rows_of_their_own_norm_and_several_graphs_are_left_to_the_attention(always):
    z = torch.randn(12, 4)
    FullHeads(4, 1, partial(linear, qk_norm="row"), True).attended(z, [12])
    FullHeads(4, 1, partial(linear, qk_norm="frobenius"), True).attended(z, [5, 7])
    assert not always


def test_when_it_pays():
    assert gram_attention.pays(torch.empty(20_000, 64)) and gram_attention.pays(
        torch.empty(5000, 256)
    )
    assert not gram_attention.pays(torch.empty(2708, 64))
    assert not gram_attention.pays(torch.empty(2000, 256))
    assert not gram_attention.pays(torch.empty(200_000, 64, dtype=torch.bfloat16))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not gram_attention.pays(torch.empty(200_000, 64))


@pytest.mark.parametrize("base", BASES)
def test_in_single_precision_at_a_size_where_it_pays(base):
    maps = maps_of(64, 1, True, torch.float32)
    z = torch.randn(20_000, 64)
    assert gram_attention.pays(z)
    attend = partial(linear, qk_norm="frobenius", base=base)
    with torch.no_grad():
        fast = linear_mean_of_maps(z, *maps, 1, base)
        again = linear_mean_of_maps(z, *maps, 1, base)
        q, k, v = (each(z).double().unsqueeze(1) for each in maps)
        slow = attend(q, k, v).squeeze(1)
    assert torch.equal(fast, again)
    assert (fast - slow).abs().max() <= 1e-5 * slow.abs().max()
