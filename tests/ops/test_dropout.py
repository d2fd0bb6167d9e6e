"""Dropout: the right share, the right scale, one mask forward and backward."""

import pytest
import torch
from scipy import stats

from zoo.ops import naive
from zoo.ops.chunks import BLOCK
from zoo.ops.dropout import LEVELS, Dropout, dropout, relu_dropout


@pytest.mark.parametrize("rate", [0.1, 0.25, 0.5, 0.9])
def test_the_share_that_is_dropped(rate):
    x = torch.ones(1000, 333)
    dropped = (dropout(x, rate) == 0).float()
    deviation = (rate * (1 - rate)) ** 0.5
    assert abs(dropped.mean() - rate) < 5 * deviation / x.numel() ** 0.5
    # Rows, columns and neighbours are independent.
    assert (dropped.mean(0) - rate).abs().max() < 6 * deviation / 1000**0.5
    assert (dropped.mean(1) - rate).abs().max() < 6 * deviation / 333**0.5
    both = (dropped[:, 1:] * dropped[:, :-1]).mean()
    assert abs(both - rate**2) < 0.005


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_what_is_kept_is_scaled(rate):
    x = torch.randn(50, 7, dtype=torch.double)
    out = dropout(x, rate)
    kept = out != 0
    torch.testing.assert_close(out[kept], x[kept] / (1 - rate), rtol=1 / LEVELS, atol=0)


def test_the_mean_stays():
    torch.manual_seed(5)
    assert abs(dropout(torch.ones(10**6), 0.3).mean() - 1) < 5 * (0.3 / 0.7) ** 0.5 / 1000


def test_the_gradient_goes_where_the_numbers_went():
    x = torch.randn(40, 9, requires_grad=True)
    out = dropout(x, 0.4)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out / x).detach())


def test_the_global_generator_seeds_it():
    x = torch.ones(10, 10)
    outs = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        outs.append(dropout(x, 0.5))
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])


def test_nothing_is_dropped_outside_of_training_or_at_rate_0():
    x = torch.randn(3, 3)
    before = torch.get_rng_state()
    assert dropout(x, 0.5, training=False) is x and dropout(x, 0.0) is x
    assert Dropout(0.5).eval()(x) is x
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("rate", [1e-9, 1 - 1e-9])
def test_extreme_rates_stay_finite(rate):
    assert dropout(torch.ones(1000), rate).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0, 5), (1,), (3, 5), (2, 3, 5)])
def test_types_and_shapes_stay(dtype, shape):
    out = dropout(torch.ones(shape, dtype=dtype), 0.5)
    assert out.dtype == dtype and out.shape == shape


def test_a_transposed_view():
    x = torch.randn(6, 4).T
    out = dropout(x, 0.5)
    kept = out != 0
    torch.testing.assert_close(out[kept], 2 * x[kept])


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_no_structure_in_rows_columns_or_seeds(rate):
    counts = {"rows": [], "columns": [], "seeds": []}
    for seed in range(40):
        torch.manual_seed(seed)
        kept = dropout(torch.ones(256, 256), rate) != 0
        counts["rows"].append(kept.sum(1))
        counts["columns"].append(kept.sum(0))
        counts["seeds"].append(kept.sum()[None])
    for each, numbers in ((256, "rows"), (256, "columns"), (256 * 256, "seeds")):
        kept = torch.cat(counts[numbers]).double()
        share = 1 - round(rate * LEVELS) / LEVELS
        square = ((kept - each * share) ** 2 / (each * share * (1 - share))).sum()
        assert 1e-4 < stats.chi2.sf(square, len(kept)) < 1 - 1e-4, numbers


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0, 5), (7, 3), (BLOCK + 5,), (3, BLOCK // 2 + 1)])
def test_with_the_activation_before_it(dtype, shape):
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    outs, gradients = [], []
    for way in (lambda: naive.relu_dropout(x, 0.3), lambda: relu_dropout(x, 0.3)):
        torch.manual_seed(2)
        outs.append(way())
        gradients += torch.autograd.grad(outs[-1].square().sum(), x)
    assert torch.equal(*outs) and torch.equal(*gradients)
    assert torch.equal(relu_dropout(x, 0.3, training=False), x.relu())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0, 5), (7, 3), (3, BLOCK // 2 + 1)])
def test_added_onto_something_or_with_a_mask(dtype, shape):
    x, onto = (torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(2))
    outs, gradients = [], []
    for way in (
        lambda: naive.relu_dropout(x, 0.3, onto),
        lambda: onto + relu_dropout(x, 0.3),
        lambda: onto + relu_dropout(x, 0.3, mask=True),
        lambda: relu_dropout(x, 0.3, onto=onto),
    ):
        torch.manual_seed(2)
        outs.append(way())
        gradients.append(torch.autograd.grad(outs[-1].square().sum(), (x, onto)))
    for out, found in zip(outs, gradients, strict=True):
        assert torch.equal(out, outs[0])
        assert all(map(torch.equal, found, gradients[0]))
    still = relu_dropout(x, 0.3, training=False, onto=onto)
    assert torch.equal(still, onto + x.relu())
