"""The transformer equals its equations, written here with dense matrices, and torch's own layer."""

import pytest
import torch

from zoo.dgl import dgl
from zoo.weights.create import create_model

PLAIN = {"dim": 4, "layers": 2, "heads": 2, "dropout": 0.0}


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def layer_norm(state, name, x):
    mean = x.mean(1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def batch_norm(state, name, x):
    mean = x.mean(0)
    spread = torch.sqrt(((x - mean) ** 2).mean(0) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def keep(state, name, x):
    return x


NORMS = {"layer": layer_norm, "batch": batch_norm, "none": keep}


def attention(state, name, x, heads):
    """Equation 1 of the paper for each head, with the N x N matrix of weights."""
    width = len(state[f"{name}.project.weight"]) // (3 * heads)
    queries, keys, values = affine(state, f"{name}.project", x).chunk(3, 1)
    outs = []
    for h in range(heads):
        rows = slice(h * width, (h + 1) * width)
        weights = torch.exp(queries[:, rows] @ keys[:, rows].T / width**0.5)
        outs.append(weights / weights.sum(1, keepdim=True) @ values[:, rows])
    return affine(state, f"{name}.merge", torch.cat(outs, 1))


def feed_forward(state, name, x):
    wide = affine(state, f"{name}.widen", x)
    return affine(state, f"{name}.narrow", wide * (wide > 0))


def twin(state, x, options):
    norm = NORMS[options.get("norm", "layer")]
    z = affine(state, "stem", x)
    for i in range(options["layers"]):
        for half in ("attention", "feed_forward"):
            name = f"layers.{i}.{half}"

            def change(z, half=half, name=name):
                if half == "attention":
                    return attention(state, name, z, options["heads"])
                return feed_forward(state, name, z)

            if options.get("norm_first", True):
                z = z + change(norm(state, f"{name}_norm", z))
            else:
                z = norm(state, f"{name}_norm", z + change(z))
    if options.get("norm_first", True):
        z = norm(state, "norm", z)
    return affine(state, "head", z)


@pytest.mark.parametrize(
    "options",
    [
        PLAIN,
        {**PLAIN, "norm_first": False},
        {**PLAIN, "heads": 3, "expansion": 3, "norm": "batch"},
        {**PLAIN, "heads": 1, "layers": 1, "norm": "none"},
        {**PLAIN, "heads": 4, "norm": "batch", "norm_first": False},
    ],
    ids=["pre", "post", "pre-batch", "bare", "post-batch"],
)
def test_it_equals_its_equations(options, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    model = create_model("transformer", 5, 3, **options).double().train()
    state = dict(model.named_parameters())
    inputs = [x, *state.values()]
    fast, slow = model(graph, x).logits, twin(state, x, options)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    weight = torch.randn_like(fast)
    ours = torch.autograd.grad((fast * weight).sum(), inputs, retain_graph=True)
    theirs = torch.autograd.grad((slow * weight).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("norm_first", [True, False])
def test_its_layer_is_that_of_torch(norm_first):
    model = create_model("transformer", 5, 3, dim=8, heads=4, norm_first=norm_first, expansion=3)
    ours = model.layers[0].double().eval()
    theirs = torch.nn.TransformerEncoderLayer(
        8, 4, dim_feedforward=24, norm_first=norm_first, batch_first=True, dtype=torch.double
    ).eval()
    names = {
        "attention.project": "self_attn.in_proj_",
        "attention.merge": "self_attn.out_proj.",
        "feed_forward.widen": "linear1.",
        "feed_forward.narrow": "linear2.",
        "attention_norm": "norm1.",
        "feed_forward_norm": "norm2.",
    }
    theirs.load_state_dict(
        {
            names[key.rpartition(".")[0]] + key.rpartition(".")[2]: each
            for key, each in ours.state_dict().items()
        }
    )
    x = torch.randn(12, 8, dtype=torch.double)
    torch.testing.assert_close(ours(None, x), theirs(x[None])[0], rtol=0, atol=1e-9)


def test_edges_play_no_part(tiny):
    graph, x, _ = tiny
    bare = dgl.graph(([], []), num_nodes=12)
    model = create_model("transformer", 5, 3).eval()
    assert torch.equal(model(graph, x).logits, model(bare, x).logits)


def test_graphs_of_a_batch_are_sets_of_their_own(tiny):
    """Only the sizes of the graphs are read, and a node does not see another graph's nodes."""
    graph, x, _ = tiny
    model = create_model("transformer", 5, 3).eval()
    pair = dgl.batch([graph, graph])
    changed = torch.cat([x, x + 1])
    before, after = (model(pair, y).logits for y in (torch.cat([x, x]), changed))
    torch.testing.assert_close(before[:12], after[:12])
    assert not torch.allclose(before[12:], after[12:], atol=1e-3)


def test_every_node_sees_every_other(tiny):
    graph, x, _ = tiny
    x.requires_grad_()
    model = create_model("transformer", 5, 3, layers=1).eval()
    for node in range(12):
        (gradient,) = torch.autograd.grad(model(graph, x).logits[node].sum(), x)
        assert (gradient.abs().sum(1) > 0).all()


def test_dropout_acts_at_each_of_its_places(tiny):
    """With a rate near 1 a place that is dropped out gives nearly nothing, or a residual alone."""
    graph, x, _ = tiny
    model = create_model("transformer", 5, 3, layers=1, dropout=0.999999).train()
    torch.testing.assert_close(
        model(graph, x).logits, model.head.bias.expand(12, 3), rtol=0, atol=1e-6
    )
    layer = model.layers[0]
    z = torch.randn(12, 64)
    torch.testing.assert_close(layer(None, z), z)
    torch.testing.assert_close(layer.feed_forward(z), layer.feed_forward.narrow.bias.expand(12, 64))


def test_each_layer_deals_its_own_random_batches(tiny):
    graph, x, _ = tiny
    model = create_model("transformer", 5, 3, attention={"name": "rba", "size": 4}).eval()
    q, k, v = torch.randn(3, 12, 2, 4)
    first, second = (layer.attend.attention(q, k, v) for layer in model.layers)
    assert not torch.equal(first, second)
