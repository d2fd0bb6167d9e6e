"""GraphGPS equals its equations, written here with dense matrices and not from the fast code."""

import pytest
import torch

from zoo.dgl import dgl
from zoo.weights.create import create_model

PLAIN = {"dim": 4, "layers": 2, "heads": 2, "dropout": 0.0, "norm": "layer"}


def gcn(a, state, name, x):
    d = a.sum(1)
    return (a / torch.sqrt(d[:, None] * d[None, :])) @ x


def mean(a, state, name, x):
    return a / a.sum(1, keepdim=True) @ x


def gat(a, state, name, x):
    source, target = (state[f"{name}.{end}"][0] for end in ("source", "target"))
    scores = (x @ source)[None, :] + (x @ target)[:, None]  # row: who gathers
    weights = torch.exp(torch.where(scores > 0, scores, 0.2 * scores)) * a
    return weights / weights.sum(1, keepdim=True) @ x


PROPAGATIONS = {"gcn": gcn, "mean": mean, "gat": gat}


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
    width = len(state[f"{name}.project.weight"]) // (3 * heads)
    queries, keys, values = affine(state, f"{name}.project", x).chunk(3, 1)
    outs = []
    for h in range(heads):
        rows = slice(h * width, (h + 1) * width)
        weights = torch.exp(queries[:, rows] @ keys[:, rows].T / width**0.5)
        outs.append(weights / weights.sum(1, keepdim=True) @ values[:, rows])
    return affine(state, f"{name}.merge", torch.cat(outs, 1))


def twin(state, graph, x, options):
    src, dst = graph.edges()
    a = torch.zeros(len(x), len(x), dtype=x.dtype)
    a[dst, src] = 1.0
    norm = NORMS[options["norm"]]
    gather = PROPAGATIONS[options.get("propagation", "gcn")]
    z = affine(state, "stem", x)
    for i in range(options["layers"]):
        name = f"layers.{i}"
        local = z @ state[f"{name}.propagation.linear.weight"].T
        local = gather(a, state, f"{name}.propagation.propagate", local)
        local = local + state[f"{name}.propagation.bias"]
        local = norm(state, f"{name}.propagation_norm", z + local)
        across = attention(state, f"{name}.attention", z, options["heads"])
        across = norm(state, f"{name}.attention_norm", z + across)
        s = local + across
        wide = affine(state, f"{name}.feed_forward.widen", s)
        change = affine(state, f"{name}.feed_forward.narrow", wide * (wide > 0))
        z = norm(state, f"{name}.feed_forward_norm", s + change)
    return affine(state, "head", z)


@pytest.mark.parametrize(
    "options",
    [
        PLAIN,
        {**PLAIN, "norm": "batch", "heads": 3, "expansion": 3},
        {**PLAIN, "propagation": "mean", "norm": "none", "layers": 1},
        {**PLAIN, "propagation": "gat", "heads": 1},
    ],
    ids=["gcn", "batch", "mean", "gat"],
)
def test_it_equals_its_equations(options, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    model = create_model("graphgps", 5, 3, **options).double().train()
    state = dict(model.named_parameters())
    inputs = [x, *state.values()]
    fast, slow = model(graph, x).logits, twin(state, graph, x, options)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    weight = torch.randn_like(fast)
    ours = torch.autograd.grad((fast * weight).sum(), inputs, retain_graph=True)
    theirs = torch.autograd.grad((slow * weight).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def reached(model, graph, x, node):
    """Nodes whose features the logits of a node depend on."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(graph, x).logits[node].square().sum(), x)
    return (gradient.abs().sum(1) > 0).nonzero().flatten().tolist()


def test_one_branch_sees_neighbours_and_the_other_everyone(tiny):
    graph, x, _ = tiny
    model = create_model("graphgps", 5, 3, layers=1).eval()
    assert reached(model, graph, x, 0) == list(range(12))
    with torch.no_grad():
        model.layers[0].attention.merge.weight.zero_()
    assert reached(model, graph, x, 0) == sorted(graph.in_edges(0)[0].tolist())
    with torch.no_grad():
        model.layers[0].propagation.linear.weight.zero_()
    assert reached(model, graph, x, 0) == [0]


def test_edges_matter(tiny):
    graph, x, _ = tiny
    loops = dgl.add_self_loop(dgl.graph(([], []), num_nodes=12))
    model = create_model("graphgps", 5, 3).eval()
    assert not torch.allclose(model(graph, x).logits, model(loops, x).logits, atol=1e-3)


def test_dropout_acts_on_each_branch(tiny):
    """With a rate near 1 each branch is a residual alone: s = 2 z, and the layer gives 2 z."""
    graph, _, _ = tiny
    model = create_model("graphgps", 5, 3, layers=1, norm="none", dropout=0.999999).train()
    z = torch.randn(12, 64)
    torch.testing.assert_close(model.layers[0](graph, z), 2 * z)
    stem = model.dropout(model.stem(torch.randn(12, 5)))
    assert not stem.any()


def test_the_three_norms_are_of_their_own(tiny):
    """Each norm is read once: scaling one by zero silences what it norms and nothing else."""
    graph, x, _ = tiny
    model = create_model("graphgps", 5, 3, layers=1, norm="layer", dropout=0.0)
    layer, z = model.layers[0], torch.randn(12, 64)
    near = layer.propagation_norm(z + layer.propagation(graph, z))
    gathered = layer.attend(graph, *layer.attention.split(z))
    far = layer.attention_norm(z + layer.attention.join(gathered))
    heard = []
    layer.feed_forward.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    with torch.no_grad():
        layer.propagation_norm.weight.zero_()
        layer(graph, z)
        layer.propagation_norm.weight.fill_(1.0)
        layer.attention_norm.weight.zero_()
        layer(graph, z)
    torch.testing.assert_close(heard, [far, near])


def test_each_layer_deals_its_own_random_batches():
    model = create_model("graphgps", 5, 3, attention={"name": "rba", "size": 4}).eval()
    q, k, v = torch.randn(3, 12, 2, 4)
    first, second = (layer.attend.attention(q, k, v) for layer in model.layers)
    assert not torch.equal(first, second)
