"""The tuned baselines equal their equations, worked out here with dense matrices."""

import pytest
import torch
from torch.nn import functional

from zoo.errors import ZooError
from zoo.weights.create import create_model


def dense(graph):
    """The 0/1 pattern of a graph, row: target, column: source."""
    src, dst = graph.edges()
    a = torch.zeros(graph.num_nodes(), graph.num_nodes(), dtype=torch.double)
    a[dst, src] = 1.0
    return a


def gcn_matrix(a, x, step):
    scale = a.sum(1).rsqrt()
    return scale[:, None] * a * scale[None, :]


def mean_matrix(a, x, step):
    return a / a.sum(1, keepdim=True)


def attention_matrix(a, x, step):
    h, weights = x @ step.convolution.linear.weight.T, step.convolution.propagate
    to, fro = (h @ each.flatten() for each in (weights.target, weights.source))
    scores = functional.leaky_relu(to[:, None] + fro[None, :], 0.2)
    return scores.masked_fill(a == 0, -torch.inf).softmax(1)


MATRICES = {"gcn": gcn_matrix, "sage": mean_matrix, "gat": attention_matrix}


def convolve(name, step, a, x):
    out = MATRICES[name](a, x, step) @ (x @ step.convolution.linear.weight.T)
    if step.convolution.bias is not None:
        out = out + step.convolution.bias
    if step.second is not None:
        out = out + x @ step.second.weight.T
    return out if step.residual is None else out + affine(step.residual, x)


def affine(linear, x):
    return x @ linear.weight.T + linear.bias


def normed(norm, x):
    return functional.layer_norm(x, x.shape[1:], norm.weight, norm.bias).relu()


def twin(name, model, graph, x, options):
    a, (first, *steps) = dense(graph), (model.stem, *model.layers)
    if options.get("norm_first"):
        x = affine(first.linear, x)
        for step in steps:
            x = convolve(name, step, a, normed(step.norm, x))
        return affine(model.head, normed(model.finish[0], x))
    if options.get("project"):
        x = affine(first.linear, x)
    else:
        steps = [first, *steps]
    for step in steps:
        x = normed(step.norm, convolve(name, step, a, x))
    return affine(model.head, x)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize(
    "options",
    [{}, {"project": True}, {"project": True, "norm_first": True}],
    ids=["convolution-first", "linear-first", "norm-first"],
)
@pytest.mark.parametrize("residual", [False, True])
def test_the_stack_equals_its_equations(name, options, residual, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    options = {**options, "residual": residual}
    torch.manual_seed(0)
    model = create_model(name, 5, 3, dim=4, layers=3, dropout=0.5, norm="layer", **options)
    model = model.double().eval()
    maps = sum(each is not None for each in (model.layers[0].residual, model.layers[0].second))
    assert maps == residual + (name == "sage")
    found = [
        (out, *torch.autograd.grad(out.sin().sum(), [x, *model.parameters()]))
        for out in (model(graph, x).logits, twin(name, model, graph, x, options))
    ]
    for fast, slow in zip(*found, strict=True):
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-10)


def test_a_norm_before_the_first_convolution_needs_a_linear_map():
    with pytest.raises(ZooError, match="write `project: true` too"):
        create_model("gcn", 5, 3, norm_first=True)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("project", [False, True])
def test_convolutions_begin_as_those_of_the_program_do(name, project):
    """PyTorch Geometric's SAGEConv begins as `nn.Linear`, its GCNConv and GATConv Glorot-uniform.

    Of a uniform distribution in -a to a the deviation is a / sqrt(3).
    """
    torch.manual_seed(0)
    model = create_model(name, 300, 3, dim=64, layers=3, project=project)
    steps = [*model.layers] if project else [model.stem, *model.layers]
    for step in steps:
        fan_out, fan_in = step.convolution.linear.weight.shape
        bound = fan_in**-0.5 if name == "sage" else (6 / (fan_in + fan_out)) ** 0.5
        weight, bias = step.convolution.linear.weight.detach(), step.convolution.bias
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
        if bias is not None:
            assert (bias.abs().max() <= bound) if name == "sage" else (bias == 0).all()
            assert (bias != 0).any() == (name == "sage")
