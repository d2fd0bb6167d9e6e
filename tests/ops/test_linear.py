"""Linear maps and sums by oneDNN: those of their naive twins, and torch's own where it is."""

import pytest
import torch
from torch.nn import functional

from zoo.ops import linear as module
from zoo.ops import naive
from zoo.ops.linear import Linear, linear_map, sum_of_products
from zoo.weights.create import create_model


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    monkeypatch.setattr(module, "LARGE", 1)


def counted(monkeypatch, place, name):
    """Count the calls of a function: return the list that they go to."""
    calls, real = [], getattr(place, name)

    def call(*arguments):
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(place, name, call)
    return calls


@pytest.fixture
def convolutions(monkeypatch):
    """The convolutions that are asked for."""
    return counted(monkeypatch, functional, "conv2d")


@pytest.fixture
def sums(monkeypatch):
    """The sums over rows that are asked for."""
    return counted(monkeypatch, module, "conv2d_weight")


def operands(rows, wide, narrow, dtype=torch.float32):
    torch.manual_seed(0)
    shapes = (rows, wide), (narrow, wide), (narrow,)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("rows", "wide", "narrow"), [(1, 1, 1), (7, 3, 5), (1000, 64, 40)])
def test_values_and_gradients(rows, wide, narrow, bias, convolutions):
    given = operands(rows, wide, narrow)[: 3 if bias else 2]
    double = [each.detach().double().requires_grad_() for each in given]
    outs = linear_map(*given), naive.linear_map(*double)
    assert convolutions and outs[0].is_contiguous()
    gradients = [torch.autograd.grad(outs[0].square().sum(), given)]
    gradients.append(torch.autograd.grad(outs[1].square().sum(), double))
    for one, other in ((outs[0], outs[1]), *zip(*gradients, strict=True)):
        assert (one - other).abs().max() <= 2e-6 * other.abs().max()


def test_second_gradients():
    given = operands(20, 4, 3)
    found = []
    for each in (linear_map, naive.linear_map):
        (first,) = torch.autograd.grad(each(*given).pow(3).sum(), given[0], create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), given))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


def test_rows_that_are_a_view_and_those_without_a_gradient(convolutions):
    x, weight, bias = operands(8, 6, 5)
    view = torch.randn(6, 8).T  # nothing asks for its gradient
    torch.testing.assert_close(linear_map(view, weight), view @ weight.T)
    linear_map(view, weight).sum().backward()
    linear_map(x, weight.detach(), bias).sum().backward()
    assert len(convolutions) == 4 and view.grad is None  # the last one is the gradient of x
    torch.testing.assert_close(bias.grad, torch.full((5,), 8.0))


@pytest.mark.parametrize("rows", [1, 255, 256, 1000])
@pytest.mark.parametrize(("wide", "narrow"), [(1, 1), (64, 40), (3, 130)])
def test_sums_of_products(rows, wide, narrow, sums):
    torch.manual_seed(0)
    x, y = torch.randn(rows, wide), torch.randn(rows, 2 * narrow)[:, ::2]  # y is a view
    expected = naive.sum_of_products(x.double(), y.double())
    with torch.no_grad():
        found = [sum_of_products(x, y) for _ in range(2)]
    assert len(sums) == (2 if rows >= 256 else 0) and torch.equal(*found)
    torch.testing.assert_close(found[0].double(), expected, rtol=1e-4, atol=1e-4)


def test_sums_that_are_left_to_torch(sums):
    x, y = torch.randn(512, 3), torch.randn(512, 5)
    assert torch.equal(sum_of_products(x, y), x.T @ y)  # its gradient may be asked for
    with torch.no_grad():
        assert sum_of_products(x.double(), y.double()).dtype == torch.double
        assert sum_of_products(x[:0], y[:0]).abs().max() == 0
    assert not sums


def test_what_is_left_to_torch(convolutions, monkeypatch):
    double = operands(8, 6, 5, torch.double)
    assert torch.equal(linear_map(*double), functional.linear(*double))
    x, weight, bias = operands(8, 6, 5)
    sets = x.expand(3, 8, 6)
    assert torch.equal(linear_map(sets, weight), functional.linear(sets, weight))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert linear_map(x, weight, bias).dtype == torch.bfloat16
    with monkeypatch.context() as without:
        without.setattr(torch.backends.mkldnn, "is_available", lambda: False)
        linear_map(x, weight, bias)
    monkeypatch.setattr(module, "LARGE", 8 * 6 * 5 + 1)
    linear_map(x, weight, bias)
    monkeypatch.setattr(module, "LARGE", 1)
    assert linear_map(x[:0], weight).shape == (0, 5)
    assert not convolutions


def test_its_weights_are_those_of_torch():
    one, other = Linear(4, 3), torch.nn.Linear(4, 3)
    one.load_state_dict(other.state_dict())
    x = torch.randn(9, 4)
    torch.testing.assert_close(one(x), other(x))


@pytest.mark.parametrize("name", ["sgformer", "difformer", "polynormer", "nodeformer", "htgn"])
def test_models_answer_the_same(name, tiny, convolutions, monkeypatch):
    graph, x, _ = tiny
    model = create_model(name, 5, 3, dim=8).eval()
    fast = model(graph, x).logits
    assert convolutions
    monkeypatch.setattr(module, "LARGE", 2**60)
    torch.testing.assert_close(fast, model(graph, x).logits, rtol=1e-4, atol=1e-5)
