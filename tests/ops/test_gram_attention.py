"""Linear attention from the Gram matrix equals that of queries, keys and values as tensors."""

from functools import partial

import pytest
import torch

from zoo.data import canonical
from zoo.dgl import dgl
from zoo.nn import Attend, HeadIdentity, HeadLinear, RandomBatchAttention, linear
from zoo.ops import gram_attention, linear_attention, naive
from zoo.ops.gram_attention import linear_mean_of_maps
from zoo.ops.linear import Projected
from zoo.weights.create import create_model

BASES = ("own", "all")


def maps_of(width, heads, use_weight, dtype=torch.double):
    torch.manual_seed(0)
    maps = [HeadLinear(width, heads, width).to(dtype) for _ in range(3 if use_weight else 2)]
    return maps if use_weight else [*maps, HeadIdentity(heads)]


def by_gram(z, maps, base):
    return linear_mean_of_maps(*(each(z) for each in maps), base)


def written_out(z, maps, base):
    """From all N x N products of queries and keys."""
    qkv = (each(z).tensor for each in maps)
    return naive.linear_attention(*qkv, qk_norm="frobenius", base=base)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("use_weight", [True, False])
def test_values_and_gradients(base, heads, use_weight):
    maps = maps_of(4, heads, use_weight)
    z = torch.randn(13, 4, dtype=torch.double, requires_grad=True)
    weights = [z, *(each for one in maps for each in one.parameters())]
    found = []
    for answer in (by_gram, written_out):
        out = answer(z, maps, base)
        seen = out * torch.arange(52.0 * heads).view(13, heads, 4).cos()
        loss = seen.sum() + out.square().sum()
        found.append([out, *torch.autograd.grad(loss, weights)])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_gradients_against_differences_and_second_ones():
    z = torch.randn(7, 3, dtype=torch.double, requires_grad=True)
    given = [each for one in maps_of(3, 2, True) for each in one.parameters()]

    def answer(z, *given):
        pairs = zip(given[::2], given[1::2], strict=True)
        return linear_mean_of_maps(*(Projected(z, *pair, 2) for pair in pairs), "own")

    assert torch.autograd.gradcheck(answer, (z, *given))
    assert torch.autograd.gradgradcheck(answer, (z, *given))


def test_queries_of_zero_leave_each_node_its_value():
    maps = maps_of(4, 1, True)
    with torch.no_grad():
        maps[0].weight.zero_(), maps[0].bias.zero_()
    z = torch.randn(9, 4, dtype=torch.double, requires_grad=True)
    out = by_gram(z, maps, "own")
    out.sum().backward()
    torch.testing.assert_close(out, maps[2](z).tensor)
    assert z.grad.isfinite().all() and maps[0].weight.grad.isfinite().all()


@pytest.fixture
def always(monkeypatch):
    """Let it pay at any size, and count the calls."""
    calls, real = [], gram_attention.linear_mean_of_maps

    def counted(*arguments):
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(gram_attention, "linear_mean_of_maps", counted)
    monkeypatch.setattr(gram_attention, "LARGE", 0)
    monkeypatch.setattr(gram_attention, "ROWS", 0)
    return calls


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("name", ["sgformer", "difformer"])
@pytest.mark.parametrize("use_weight", [True, False])
def test_models_answer_the_same(name, use_weight, heads, tiny, always, monkeypatch):
    graph, x, _ = tiny
    model = create_model(name, 5, 3, dim=8, full_heads=heads, use_weight=use_weight).eval()
    found = []
    for large in (0, 2**40):
        monkeypatch.setattr(gram_attention, "LARGE", large)
        logits = model(graph, x).logits
        weights = [each for each in model.parameters() if each.requires_grad]
        found.append([logits, *torch.autograd.grad(logits.square().sum(), weights)])
    assert len(always) == len(model.layers)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_rows_of_their_own_norm_several_graphs_and_tensors_go_another_way(always, tiny):
    graph, z = tiny[0], torch.randn(24, 4)
    projected = [each(z) for each in maps_of(4, 1, True, torch.float32)]
    own, one = partial(linear, qk_norm="row"), partial(linear, qk_norm="frobenius")
    Attend(own)(None, *projected)
    Attend(one)(dgl.batch([graph, graph]), *projected)
    Attend(one)(None, *(each.tensor for each in projected))
    Attend(RandomBatchAttention(one, 5))(None, *projected)
    assert not always
    Attend(one)(None, *projected)
    assert len(always) == 1


def pays(rows, width, dtype=torch.float32):
    z = torch.empty(rows, width, dtype=dtype)
    return gram_attention.pays(*(Projected(z, None, None, 1) for _ in range(3)))


def test_when_it_pays():
    assert pays(20_000, 64) and pays(5000, 256)
    assert not pays(2708, 64) and not pays(2000, 256)
    assert not pays(200_000, 64, torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not pays(200_000, 64)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(
    "way,rows,width", [("scores", 50, 64), ("state", 2000, 64), ("gram", 20_000, 64)]
)
def test_each_way_at_a_size_that_reaches_it(base, way, rows, width):
    """Values and gradients in single precision are those of q (k^T v) in double."""
    maps = maps_of(width, 1, True, torch.float32)
    z = torch.randn(rows, width, requires_grad=True)
    attend = partial(linear, qk_norm="frobenius", base=base)
    assert linear_attention.way(*(each(z) for each in maps), qk_norm="frobenius", base=base) == way
    weights = [z, *(each for one in maps for each in one.parameters())]
    fast = Attend(attend)(None, *(each(z) for each in maps))
    grads = torch.autograd.grad(fast.square().sum(), weights)
    q, k, v = (each(z).tensor.double() for each in maps)
    q, k = q / q.norm(), k / k.norm()
    added = rows * v if base == "own" else v.sum(0, keepdim=True)
    slow = torch.einsum("nhd,hde->nhe", q, torch.einsum("mhd,mhe->hde", k, v)) + added
    slow = slow / (rows + torch.einsum("nhd,hd->nh", q, k.sum(0))).unsqueeze(2)
    torch.testing.assert_close(fast.double(), slow, rtol=1e-5, atol=1e-6)
    for one, other in zip(grads, torch.autograd.grad(slow.square().sum(), weights), strict=True):
        torch.testing.assert_close(
            one, other, rtol=2e-3, atol=1e-2 * float(other.detach().abs().max())
        )


@pytest.mark.parametrize("name", ["sgformer", "difformer"])
def test_a_model_at_a_size_that_reaches_it(name, monkeypatch):
    """Logits and gradients of a whole model are those of the way by a state."""
    nodes = 4096
    src = torch.arange(nodes)
    graph = canonical(torch.stack([src, src.roll(1)], 1).numpy(), nodes=nodes)
    torch.manual_seed(0)
    x, calls = torch.randn(nodes, 8), []
    model = create_model(name, 8, 3, dim=256, use_weight=True, layers=1).eval()
    real = gram_attention.linear_mean_of_maps
    monkeypatch.setattr(
        gram_attention, "linear_mean_of_maps", lambda *given: (calls.append(1), real(*given))[1]
    )
    found = []
    for large in (gram_attention.LARGE, 2**40):
        monkeypatch.setattr(gram_attention, "LARGE", large)
        logits = model(graph, x).logits
        weights = list(model.parameters())
        found.append([logits, *torch.autograd.grad(logits.square().mean(), weights)])
    assert len(calls) == 1
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-2, atol=1e-2 * float(other.detach().abs().max())
        )
