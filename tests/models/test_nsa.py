"""NSA equals its equations, written here with dense matrices and not from the fast code."""

import pytest
import torch
from twins import assert_twins

from zoo.errors import ZooError
from zoo.weights.create import create_model


def affine(linear, x):
    return x @ linear.weight.T + linear.bias


def layer_norm(norm, x):
    mean = x.mean(1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(1, keepdim=True) + 1e-5)
    return (x - mean) / spread * norm.weight + norm.bias


def masked_attention(heads, x, mask):
    """Softmax of q_i . k_j / sqrt(D) over the j of a mask (N, N), head by head."""
    outs, parts = [], affine(heads.project, x).chunk(3, 1)
    for q, k, v in zip(*(each.chunk(heads.heads, 1) for each in parts), strict=True):
        weights = torch.exp(q @ k.T / q.shape[1] ** 0.5) * mask
        outs.append(weights / weights.sum(1, keepdim=True) @ v)
    return affine(heads.merge, torch.cat(outs, 1))


def twin(model, graph, x, pattern):
    src, dst = graph.edges()
    a = torch.zeros(len(x), len(x), dtype=x.dtype)
    a[dst, src] = 1.0
    z = affine(model.stem, x)
    for letter, block in zip(pattern, model.blocks, strict=True):
        mask = a if letter == "M" else torch.ones_like(a)
        z = z + masked_attention(block.attention, layer_norm(block.attention_norm, z), mask)
        gate, values = affine(block.perceptron.widen, layer_norm(block.perceptron_norm, z)).chunk(
            2, 1
        )
        z = z + affine(block.perceptron.narrow, gate / (1 + torch.exp(-gate)) * values)
    return affine(model.head, layer_norm(model.norm, z))


@pytest.mark.parametrize("pattern", ["M", "S", "MMS"])
def test_it_equals_its_equations(pattern, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    torch.manual_seed(0)
    model = create_model("nsa", 5, 3, dim=6, heads=2, pattern=pattern).double().eval()
    inputs = [x, *model.parameters()]
    assert_twins(lambda: model(graph, x).logits, lambda: twin(model, graph, x, pattern), inputs)


@pytest.mark.parametrize("pattern", ["", "MXS", "ms", 1001 * "M"])
def test_other_letters_are_refused(pattern):
    with pytest.raises(
        ZooError, match="letters M, attention to neighbours, and S.*write `pattern: MMS`"
    ):
        create_model("nsa", 5, 3, pattern=pattern)
