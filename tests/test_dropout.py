"""Dropout: the right share, the right scale, one mask forward and backward."""

import pytest
import torch

from zoo.dropout import LEVELS, Dropout, dropout


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
