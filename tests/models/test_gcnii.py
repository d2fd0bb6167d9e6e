"""GCNII equals its equations, written here with dense matrices and not from the fast code."""

import math

import pytest
import torch
from twins import assert_twins

from zoo.graphs.examples import preferential_attachment
from zoo.weights.create import create_model

ALPHA, LAMBDA = 0.2, 1.2


def twin(model, graph, x):
    """Equations 5 and 6 of the paper, term by term."""
    src, dst = graph.edges()
    a = torch.zeros(len(x), len(x), dtype=x.dtype)
    a[dst, src] = 1.0
    d, identity = torch.diag(a.sum(1) ** -0.5), torch.eye(model.head.in_features, dtype=x.dtype)
    s = d @ a @ d
    first = h = torch.clamp(x @ model.stem.weight.T + model.stem.bias, min=0)
    for number, layer in enumerate(model.layers, start=1):
        beta = math.log(LAMBDA / number + 1)
        near = (1 - beta) * identity + beta * layer.near.weight.T
        if hasattr(layer, "first"):
            far = (1 - beta) * identity + beta * layer.first.weight.T
            h = (1 - ALPHA) * s @ h @ near + ALPHA * first @ far
        else:
            h = ((1 - ALPHA) * s @ h + ALPHA * first) @ near
        h = torch.clamp(h, min=0)
    return h @ model.head.weight.T + model.head.bias


@pytest.mark.parametrize("separate", [False, True])
def test_it_equals_its_equations(separate, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    torch.manual_seed(0)
    options = {"layers": 5, "alpha": ALPHA, "map_weight": LAMBDA, "separate": separate}
    model = create_model("gcnii", 5, 3, dim=4, **options).double().eval()
    assert_twins(
        lambda: model(graph, x).logits, lambda: twin(model, graph, x), [x, *model.parameters()]
    )


def test_many_layers_do_not_make_all_nodes_alike():
    """What the model is for: after 64 layers of a GCN nodes all point one way."""
    graph, _ = preferential_attachment(30, 2), torch.manual_seed(0)
    x, deep = torch.randn(30, 5), {"dim": 16, "layers": 64}
    model = create_model("gcnii", 5, 3, **deep).eval()
    plain = create_model("gcn", 5, 3, norm="none", residual=False, **deep).eval()

    def spread(model):
        rows = torch.nn.functional.normalize(model.double().features(graph, x.double()), eps=1e-300)
        return (rows - rows.mean(0)).norm(dim=1).mean().item()

    assert spread(model) > 0.1 > spread(plain)


def test_the_maps_of_layers_have_a_weight_decay_of_their_own():
    model = create_model("gcnii", 5, 3, layers=2, layer_weight_decay=0.01)
    maps, rest = model.parameter_groups()
    assert maps["weight_decay"] == 0.01 and "weight_decay" not in rest
    assert [each.shape for each in maps["params"]] == [(64, 64)] * 2
    assert "weight_decay" not in create_model("gcnii", 5, 3).parameter_groups()[0]
