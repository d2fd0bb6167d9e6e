"""Norms: batch norm's running statistics have no start of their own."""

import pytest
import torch
from torch import nn

from zoo.nn.layers import BatchNorm, build_norm


def batches(count, *, scale=1e-3, seed=0):
    """Yield batches (200, 3) of small variance, in double precision."""
    drawn = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield scale * (1 + torch.randn(200, 3, generator=drawn, dtype=torch.double))


def trained(norm, given):
    """Return the norm after a training step for each batch, and its last output."""
    for x in given:
        out = norm.train()(x)
    return norm, out


def test_training_is_that_of_torch():
    ours, theirs = BatchNorm(3).double(), nn.BatchNorm1d(3).double()
    given = [x.requires_grad_() for x in batches(3)]
    for norm in (ours, theirs):
        out = trained(norm, given)[1]
        norm.gradient = torch.autograd.grad(out.square().sum(), (given[-1], norm.weight))
        norm.out = out
    assert torch.equal(ours.out, theirs.out)
    assert all(map(torch.equal, ours.gradient, theirs.gradient))


def test_running_statistics_are_a_weighted_mean_of_the_batches():
    """Step t has the share max(m, 1 / (1 + m (t - 1))) of what it makes."""
    steps = 120
    ours, _ = trained(BatchNorm(3).double(), batches(steps))
    mean = variance = None
    for step, x in enumerate(batches(steps)):
        share = max(0.1, 1 / (1 + 0.1 * step))
        now = x.mean(0), ((x - x.mean(0)) ** 2).sum(0) / (len(x) - 1)
        if step == 0:
            mean, variance = now
        else:
            mean = (1 - share) * mean + share * now[0]
            variance = (1 - share) * variance + share * now[1]
    torch.testing.assert_close(ours.running_mean, mean)
    torch.testing.assert_close(ours.running_var, variance)


def test_in_single_precision_nothing_is_left_of_the_start():
    norm, _ = trained(BatchNorm(3), [x.float() for x in batches(1)])
    torch.testing.assert_close(norm.running_var, next(batches(1)).float().var(0))


def test_the_first_step_is_enough_to_evaluate():
    given = list(batches(1))
    ours, out = trained(BatchNorm(3).double(), given)
    assert (ours.eval()(given[0]) - out).abs().max() < 0.01  # the variance of evaluation: unbiased
    theirs, _ = trained(nn.BatchNorm1d(3).double(), given)
    assert (theirs.eval()(given[0]) - out).abs().max() > 0.9


def test_in_the_limit_they_are_those_of_torch():
    given = list(batches(400))
    ours, theirs = (trained(each.double(), given)[0] for each in (BatchNorm(3), nn.BatchNorm1d(3)))
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-9, atol=0)
    torch.testing.assert_close(ours.running_var, theirs.running_var, rtol=1e-9, atol=0)


def test_with_the_statistics_of_torch_it_is_the_norm_of_torch():
    given = list(batches(3))
    theirs, expected = trained(nn.BatchNorm1d(3).double(), given)
    ours, out = trained(build_norm({"name": "batch", "statistics": "torch"}, 3).double(), given)
    assert torch.equal(out, expected)
    assert torch.equal(ours.eval()(given[0]), theirs.eval()(given[0]))
    state = ours.state_dict()
    assert all(torch.equal(state[key], value) for key, value in theirs.state_dict().items())


@pytest.mark.parametrize("corrected", [True, False])
def test_a_single_node_passes_through(corrected):
    norm, _ = trained(BatchNorm(3, corrected=corrected).double(), batches(2))
    before = {key: value.clone() for key, value in norm.state_dict().items()}
    x = next(batches(1))[:1]
    assert torch.equal(norm.train()(x), norm.eval()(x))
    assert all(torch.equal(value, before[key]) for key, value in norm.state_dict().items())
