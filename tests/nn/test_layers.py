"""Norms: batch norm's running statistics have no start of their own."""

import torch
from torch import nn

from zoo.nn.layers import BatchNorm


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


def test_running_statistics_are_the_corrected_average():
    """The exponential average of the batches alone, divided by the share they have in it."""
    ours, _ = trained(BatchNorm(3).double(), batches(7))
    seen = list(batches(7))
    shares = [0.1 * 0.9 ** (6 - step) for step in range(7)]
    for found, of in ((ours.running_mean, torch.mean), (ours.running_var, torch.var)):
        sums = sum(share * of(x, 0) for share, x in zip(shares, seen, strict=True))
        torch.testing.assert_close(found, sums / sum(shares))


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


def test_a_single_node_passes_through():
    norm, _ = trained(BatchNorm(3).double(), batches(2))
    before = {key: value.clone() for key, value in norm.state_dict().items()}
    x = next(batches(1))[:1]
    assert torch.equal(norm.train()(x), norm.eval()(x))
    assert all(torch.equal(value, before[key]) for key, value in norm.state_dict().items())
