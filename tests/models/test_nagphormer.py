"""NAGphormer equals its equations, written here node by node and not from the fast code."""

import pytest
import torch

from zoo.errors import ZooError
from zoo.nn import softmax
from zoo.weights.create import create_model

PLAIN = {"dim": 6, "hops": 2, "layers": 2, "heads": 2, "dropout": 0.0}


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def layer_norm(state, name, x):
    mean = x.mean(-1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def gelu(x):
    return x * (1 + torch.erf(x / 2**0.5)) / 2


def attention(state, name, z, heads):
    """Over the tokens (K + 1, D) of one node."""
    width = len(state[f"{name}.project.weight"]) // (3 * heads)
    queries, keys, values = affine(state, f"{name}.project", z).chunk(3, -1)
    outs = []
    for h in range(heads):
        columns = slice(h * width, (h + 1) * width)
        weights = torch.exp(queries[:, columns] @ keys[:, columns].T / width**0.5)
        outs.append(weights / weights.sum(1, keepdim=True) @ values[:, columns])
    return affine(state, f"{name}.merge", torch.cat(outs, 1))


def twin(state, graph, x, options):
    src, dst = graph.edges()
    a = torch.zeros(len(x), len(x), dtype=x.dtype)
    a[dst, src] = 1.0
    d = a.sum(1)
    s = a / torch.sqrt(d[:, None] * d[None, :])
    hops, rows = [x], []  # of the features themselves, as in the paper
    for _ in range(options["hops"]):
        hops.append(s @ hops[-1])
    for node in range(len(x)):
        z = torch.stack([hop[node] for hop in hops]) @ state["stem.weight"].T + state["bias"]
        for i in range(options["layers"]):
            name = f"layers.{i}"
            normed = layer_norm(state, f"{name}.attention_norm", z)
            z = z + attention(state, f"{name}.attention", normed, options["heads"])
            wide = affine(state, f"{name}.widen", layer_norm(state, f"{name}.feed_forward_norm", z))
            z = z + affine(state, f"{name}.narrow", gelu(wide))
        h = layer_norm(state, "norm", z)
        scores = torch.stack(
            [state["score.weight"][0] @ torch.cat([h[0], h[k]]) for k in range(1, len(h))]
        )
        shares = torch.exp(scores) / torch.exp(scores).sum()
        read = h[0] + sum(share * h[k + 1] for k, share in enumerate(shares))
        narrow = affine(state, "narrow", read)
        rows.append(affine(state, "head", narrow * (narrow > 0)))
    return torch.stack(rows)


@pytest.mark.parametrize(
    "options",
    [PLAIN, {**PLAIN, "hops": 1, "heads": 4, "expansion": 3}, {**PLAIN, "hops": 5, "layers": 1}],
    ids=["two hops", "one hop", "five hops"],
)
def test_it_equals_its_equations(options, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    model = create_model("nagphormer", 5, 3, **options).double().train()
    state = dict(model.named_parameters())
    inputs = [x, *state.values()]
    fast, slow = model(graph, x).logits, twin(state, graph, x, options)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    weight = torch.randn_like(fast)
    ours = torch.autograd.grad((fast * weight).sum(), inputs, retain_graph=True)
    theirs = torch.autograd.grad((slow * weight).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("hops", [1, 3])
def test_a_node_sees_as_far_as_its_hops(tiny, hops):
    graph, x, _ = tiny
    model, x = create_model("nagphormer", 5, 3, hops=hops).eval(), x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(graph, x).logits[0].square().sum(), x)
    near = {0}
    for _ in range(hops):
        near |= {int(u) for v in near for u in graph.in_edges(v)[0]}
    assert (gradient.abs().sum(1) > 0).nonzero().flatten().tolist() == sorted(near)


def test_each_node_is_a_set_of_its_own():
    q, k, v = torch.randn(3, 70_000, 2, 1, 4)  # more sets than a call of the kernels takes
    out = softmax(q, k, v)
    torch.testing.assert_close(out[-3:], softmax(q[-3:], k[-3:], v[-3:]))


def test_random_batches_are_refused_in_a_sentence():
    with pytest.raises(ZooError, match="no option 'attention'; .* the few tokens of one node"):
        create_model("nagphormer", 5, 3, attention="rba")
