"""Optimisers against their formulas, written out."""

import pytest
import torch

from zoo.config.options import pick
from zoo.errors import ZooError
from zoo.training.optimizers import OPTIMIZERS


def moments(gradients, beta1, beta2):
    """The bias-corrected moments of Adam after each step, from all gradients before."""
    for count in range(1, len(gradients) + 1):
        shares = [(1 - beta1) * beta1 ** (count - 1 - i) for i in range(count)]
        squares = [(1 - beta2) * beta2 ** (count - 1 - i) for i in range(count)]
        m = sum(w * g for w, g in zip(shares, gradients, strict=False)) / (1 - beta1**count)
        v = sum(w * g * g for w, g in zip(squares, gradients, strict=False)) / (1 - beta2**count)
        yield m, v


def moved(spec, lr, weight_decay, gradients, start):
    """What an optimiser makes of a weight that is given these gradients."""
    x = torch.nn.Parameter(start.clone())
    optimiser = pick(OPTIMIZERS, spec, [x], lr, weight_decay)
    for gradient in gradients:
        x.grad = gradient.clone()
        optimiser.step()
    return x.detach()


def given(shape=(3, 4), steps=5):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(shape, generator=generator, dtype=torch.double)
    return start, [
        torch.randn(shape, generator=generator, dtype=torch.double) for _ in range(steps)
    ]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lamb_is_algorithm_2(decay):
    start, gradients = given()
    x = start.clone()
    for m, v in moments(gradients, 0.8, 0.95):
        r = m / (v.sqrt() + 1e-3) + decay * x
        x = x - 0.02 * x.norm() / r.norm() * r
    spec = {"name": "lamb", "beta1": 0.8, "beta2": 0.95, "eps": 1e-3}
    torch.testing.assert_close(moved(spec, 0.02, decay, gradients, start), x)


def test_lamb_moves_what_is_zero():
    _, gradients = given()
    found = moved("lamb", 0.02, 0.0, gradients[:1], torch.zeros(3, 4, dtype=torch.double))
    torch.testing.assert_close(found, -0.02 * gradients[0].sign(), atol=1e-4, rtol=0)
    start, _ = given()
    assert torch.equal(moved("lamb", 0.02, 0.0, [torch.zeros_like(start)], start), start)


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_has_its_betas(name):
    start, gradients = given()
    x, decay = start.clone(), 0.1
    if name == "adam":  # weight decay is part of the gradient
        seen = []
        for gradient in gradients:
            seen.append(gradient + decay * x)
            m, v = list(moments(seen, 0.7, 0.9))[-1]
            x = x - 0.02 * m / (v.sqrt() + 1e-4)
    else:
        for m, v in moments(gradients, 0.7, 0.9):
            x = x - 0.02 * decay * x - 0.02 * m / (v.sqrt() + 1e-4)
    spec = {"name": name, "beta1": 0.7, "beta2": 0.9, "eps": 1e-4}
    torch.testing.assert_close(moved(spec, 0.02, decay, gradients, start), x)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_stored_state_goes_on(name):
    start, gradients = given()
    whole = moved(name, 0.02, 0.1, gradients, start)
    x = torch.nn.Parameter(start.clone())
    first = pick(OPTIMIZERS, name, [x], 0.02, 0.1)
    for gradient in gradients[:2]:
        x.grad = gradient.clone()
        first.step()
    y = torch.nn.Parameter(x.detach().clone())
    second = pick(OPTIMIZERS, name, [y], 0.5, 0.0)
    second.load_state_dict(first.state_dict())
    for gradient in gradients[2:]:
        y.grad = gradient.clone()
        second.step()
    assert torch.equal(y.detach(), whole)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_wrong_numbers_are_refused(name):
    for options in ({"beta1": 1.0}, {"beta2": -0.1}, {"eps": 0.0}, {"beta3": 0.5}):
        with pytest.raises(ZooError):
            pick(OPTIMIZERS, {"name": name, **options}, [torch.nn.Parameter(torch.ones(1))], 1.0, 0)
