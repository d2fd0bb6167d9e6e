"""GPR-GNN equals its equation, written here with dense matrices and not from the fast code."""

import pytest
import torch
from twins import assert_twins

from zoo.weights.create import create_model


def twin(model, graph, x):
    """Equation 1 of the paper: every power of S, and its weight."""
    src, dst = graph.edges()
    a = torch.zeros(len(x), len(x), dtype=x.dtype)
    a[dst, src] = 1.0
    d = torch.diag(a.sum(1) ** -0.5)
    h = x
    for layer in (model.stem, *model.layers):
        h = torch.clamp(h @ layer.weight.T + layer.bias, min=0)
    h = h @ model.head_linear.weight.T + model.head_linear.bias
    return sum(
        weight * torch.linalg.matrix_power(d @ a @ d, k) @ h for k, weight in enumerate(model.gamma)
    )


@pytest.mark.parametrize("options", [{}, {"layers": 2, "start": "random", "steps": 3}])
def test_it_equals_its_equation(options, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    torch.manual_seed(0)
    model = create_model("gprgnn", 5, 3, dim=4, **options).double().eval()
    assert_twins(
        lambda: model(graph, x).logits, lambda: twin(model, graph, x), [x, *model.parameters()]
    )


def test_walks_begin_with_the_weights_of_personalised_pagerank():
    """0.3 (0.7)^k, and (0.7)^K in the last place, so that they add up to 1."""
    gamma = create_model("gprgnn", 5, 3, alpha=0.3, steps=4).gamma
    torch.testing.assert_close(gamma.tolist(), [0.3, 0.21, 0.147, 0.1029, 0.2401])
    for alpha, place in ((1.0, 0), (0.0, 4)):
        gamma = create_model("gprgnn", 5, 3, alpha=alpha, steps=4).gamma
        assert gamma.tolist() == [float(each == place) for each in range(5)]
    gamma = create_model("gprgnn", 5, 3, start="random").gamma
    assert gamma.abs().sum().item() == pytest.approx(1) and gamma.min() < 0 < gamma.max()


def test_weights_of_walks_do_not_decay():
    model = create_model("gprgnn", 5, 3)
    own, rest = model.parameter_groups()
    assert own["weight_decay"] == 0.0 and own["params"] == [model.gamma]
    assert len(rest["params"]) == 4
