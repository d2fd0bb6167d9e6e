"""ViT equals the transformer written out here, graph by graph; its promises are those of models."""

import math

import pytest
import torch
from torch.nn import functional

import zoo
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.sequences import grid_graph, sequence_graph
from zoo.weights.create import create_model

DIM, HEADS, LAYERS = 6, 2, 2
SIZES = [3, 5, 3, 1]


def build(**options):
    torch.manual_seed(0)
    given = {"dim": DIM, "heads": HEADS, "layers": LAYERS, "expansion": 3, "places": 5}
    return create_model("vit", 4, 3, **{**given, **options}).double()


@zoo.testing.promises(zoo.testing.model_promises("vit"))
def test_it_keeps_the_promises_of_models(promise):
    promise()


def norm(state, name, x):
    spread = torch.sqrt(x.var(1, unbiased=False, keepdim=True) + 1e-5)
    return (x - x.mean(1, keepdim=True)) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def attention(state, name, z):
    projected = z @ state[f"{name}.in_proj_weight"].T + state[f"{name}.in_proj_bias"]
    q, k, v = projected.split(DIM, dim=1)
    width, outs = DIM // HEADS, []
    for head in range(HEADS):
        own = slice(head * width, (head + 1) * width)
        weights = torch.exp(q[:, own] @ k[:, own].T / math.sqrt(width))
        outs.append(weights / weights.sum(1, keepdim=True) @ v[:, own])
    return affine(state, f"{name}.out_proj", torch.cat(outs, 1))


def slow(state, x):
    """Return the logits of one graph, (n, 3), for x (n, 4)."""
    z = affine(state, "stem", x) + state["places"][: len(x)]
    for layer in range(LAYERS):
        name = f"encoder.layers.{layer}"
        z = z + attention(state, f"{name}.self_attn", norm(state, f"{name}.norm1", z))
        wide = affine(state, f"{name}.linear1", norm(state, f"{name}.norm2", z))
        wide = wide * (1 + torch.erf(wide / math.sqrt(2))) / 2
        z = z + affine(state, f"{name}.linear2", wide)
    return affine(state, "head", norm(state, "encoder.norm", z))


@pytest.mark.parametrize("training", [False, True])
def test_values_and_gradients_are_those_of_the_equations(training):
    model = build(dropout=0.0).train(training)
    x = torch.randn(sum(SIZES), 4, dtype=torch.double)
    graph = sequence_graph(SIZES, window=1)
    state = dict(model.named_parameters())
    found, wanted = (
        model(graph, x).logits,
        torch.cat([slow(state, each) for each in x.split(SIZES)]),
    )
    torch.testing.assert_close(found, wanted)
    gradients = [
        torch.autograd.grad(out.sin().sum(), list(state.values())) for out in (found, wanted)
    ]
    for mine, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, theirs)


def test_it_looks_at_no_edge_but_at_places():
    model = build().eval()
    x = torch.randn(4, 4, dtype=torch.double)
    near, far = sequence_graph([4], window=1), sequence_graph([4], window=3)
    torch.testing.assert_close(model(near, x).logits, model(far, x).logits)
    order = torch.tensor([1, 0, 2, 3])
    moved = model(near, x[order]).logits[order]
    assert not torch.allclose(moved, model(near, x).logits, atol=1e-3)


def test_layers_do_not_begin_as_copies_of_each_other():
    first, second = build().encoder.layers
    assert not torch.equal(first.linear1.weight, second.linear1.weight)


def test_what_does_not_fit_is_said():
    model, wide = build(), sequence_graph([2, 6], window=1)
    with pytest.raises(ZooError, match="6 nodes.*5 places.*`places: 6`"):
        model(wide, torch.randn(8, 4, dtype=torch.double))
    with pytest.raises(ZooError, match="5 heads cannot share 6 columns"):
        build(heads=5)


def test_tokens_are_read_by_number():
    model = build(dropout=0.0)
    tokens = torch.tensor([3, 0, 1, 3, 2])
    graph = dgl.batch([grid_graph(1, 3), grid_graph(1, 2)])
    rows = functional.one_hot(tokens, 4).double()
    torch.testing.assert_close(model(graph, tokens).logits, model(graph, rows).logits)
