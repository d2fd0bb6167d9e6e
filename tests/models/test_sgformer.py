"""SGFormer equals its equations, worked out here from the paper and not from the fast code."""

import pytest
import torch

from zoo.errors import ZooError
from zoo.weights.create import create_model

MEDIUM = {"dim": 4, "graph_layers": 3, "dropout": 0.0, "graph_dropout": 0.0}
LARGE = {
    "dim": 4,
    "graph_layers": 2,
    "graph_branch": "residual",
    "dropout": 0.0,
    "graph_dropout": 0.0,
    "alpha": 0.5,
    "norm": "layer",
    "graph_norm": "batch",
    "use_weight": True,
    "graph_weight": 0.5,
}


def propagate(graph, x):
    src, dst = graph.edges()
    a = torch.zeros(len(x), len(x), dtype=x.dtype)
    a[dst, src] = 1.0
    d = a.sum(1)
    return (a / torch.sqrt(d[:, None] * d[None, :])) @ x


def attention(q, k, v, qk_norm):
    """Equations 2 to 4, dense: D^-1 (V + Q K^T V / N) written with the N x N matrix."""
    if qk_norm == "frobenius":
        q, k = q / torch.sqrt((q * q).sum()), k / torch.sqrt((k * k).sum())
    else:
        q = q / torch.sqrt((q * q).sum(2, keepdim=True))
        k = k / torch.sqrt((k * k).sum(2, keepdim=True))
    n, heads, _ = q.shape
    outs = []
    for h in range(heads):
        scores = q[:, h] @ k[:, h].T  # (N, N)
        weights = torch.eye(n, dtype=q.dtype) + scores / n
        outs.append(weights @ v[:, h] / (1 + scores.sum(1, keepdim=True) / n))
    return torch.stack(outs).mean(0)


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


def twin(state, graph, x, options):
    heads, dim = options.get("full_heads", 1), options["dim"]
    norm = layer_norm if options.get("norm") == "layer" else keep
    z = torch.relu(norm(state, "norm", affine(state, "stem_attention", x)))
    for i in range(options.get("layers", 1)):
        name = f"layers.{i}"
        q, k = (affine(state, f"{name}.{w}", z).reshape(-1, heads, dim) for w in ("query", "key"))
        v = torch.stack([z] * heads, dim=1)
        if options.get("use_weight"):
            v = affine(state, f"{name}.value", z).reshape(-1, heads, dim)
        alpha = options.get("alpha", 1.0)
        attended = attention(q, k, v, options.get("qk_norm", "frobenius"))
        z = norm(state, f"{name}.norm", alpha * attended + (1 - alpha) * z)
        if options.get("activation"):
            z = torch.relu(z)
    branch = residual_branch if options.get("graph_branch") == "residual" else stack_branch
    g = branch(state, graph, x, options)
    if options.get("combine") == "cat":
        return affine(state, "head", torch.cat([z, g], 1))
    w = options.get("graph_weight", 0.8)
    return affine(state, "head", w * g + (1 - w) * z)


def stack_branch(state, graph, x, options):
    norm = batch_norm if options.get("graph_norm") == "batch" else keep
    g = propagate(graph, x @ state["stem_graph.linear.weight"].T) + state["stem_graph.bias"]
    for i in range(options["graph_layers"] - 1):
        g = torch.relu(norm(state, f"graph.norms.{i}", g))
        g = propagate(graph, g) @ state[f"graph.convolutions.{i}.linear.weight"].T
        g = g + state[f"graph.convolutions.{i}.bias"]
    return g


def residual_branch(state, graph, x, options):
    norm = batch_norm if options.get("graph_norm") == "batch" else keep
    first = torch.relu(norm(state, "graph.norm", affine(state, "stem_graph.linear", x)))
    h = first
    for i in range(options["graph_layers"]):
        name = f"graph.layers.{i}"
        u = propagate(graph, h)
        if options.get("use_init"):
            u = torch.cat([u, first], 1)
        h = torch.relu(norm(state, f"{name}.norm", affine(state, f"{name}.linear", u))) + first
    return h


@pytest.mark.parametrize(
    "options",
    [
        MEDIUM,
        {**MEDIUM, "full_heads": 2, "qk_norm": "row", "layers": 2, "alpha": 0.3},
        {**MEDIUM, "combine": "cat", "graph_norm": "batch", "activation": True},
        LARGE,
        {**LARGE, "use_init": True, "full_heads": 3},
        {**LARGE, "combine": "cat", "layers": 2, "qk_norm": "row"},
    ],
    ids=["medium", "two-layers", "cat", "large", "100M", "large-cat"],
)
def test_it_equals_its_equations(options, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    model = create_model("sgformer", 5, 3, **options).double().train()
    state = dict(model.named_parameters())
    inputs = [x, *state.values()]
    fast, slow = model(graph, x).logits, twin(state, graph, x, options)
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    weight = torch.randn_like(fast)
    ours = torch.autograd.grad((fast * weight).sum(), inputs, retain_graph=True)
    theirs = torch.autograd.grad((slow * weight).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_published_size_of_the_large_model():
    """The authors' ogbn-arxiv model has 474,152 parameters (128 features, 40 classes)."""
    options = {**LARGE, "dim": 256, "graph_layers": 3}
    model = create_model("sgformer", 128, 40, **options)
    assert sum(each.numel() for each in model.parameters()) == 474_152


def test_the_branches_have_their_own_weight_decay():
    model = create_model("sgformer", 5, 3, attention_weight_decay=0.25)
    attention, rest = model.parameter_groups()
    names = {id(each): name for name, each in model.named_parameters()}
    assert attention["weight_decay"] == 0.25 and "weight_decay" not in rest
    assert {names[id(p)].split(".")[0] for p in attention["params"]} == {"stem_attention", "layers"}
    assert {names[id(p)].split(".")[0] for p in rest["params"]} == {"stem_graph", "graph", "head"}


def test_frobenius_attention_is_nearly_the_identity():
    """The published norm makes attention V + O(1/N): what the row-normalised control is for."""
    from zoo.nn.attention import linear

    q, k, v = (torch.randn(2000, 1, 16, dtype=torch.double) for _ in range(3))
    published, rows = (linear(q, k, v, qk_norm=norm) - v for norm in ("frobenius", "row"))
    assert published.norm() < 3 * v.norm() / 2000
    assert rows.norm() > 10 * published.norm()


def test_use_init_needs_its_branch():
    with pytest.raises(ZooError, match="graph_branch: residual"):
        create_model("sgformer", 5, 3, use_init=True)
