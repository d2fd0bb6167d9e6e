"""NodeFormer equals its equations, worked out here from the paper and not from the fast code."""

import functools
import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from zoo.dgl import dgl
from zoo.models import nodeformer
from zoo.nn import edge_probabilities
from zoo.nn.attention import softmax
from zoo.nn.random_features import random_directions
from zoo.ops import gumbel_attention as kernels
from zoo.ops.gumbel_attention import gumbel_attention, gumbel_noise
from zoo.weights.create import create_model
from zoo.weights.save_and_load import transfer

BASE = {
    "norm": "layer",
    "dropout": 0.0,
    "dim": 4,
    "full_heads": 2,
    "random_features": 5,
    "samples": 2,
}
RBA = {"name": "rba", "size": 4}


def build(in_dim=5, **options):
    torch.manual_seed(2)
    return create_model("nodeformer", in_dim, 3, **{**BASE, **options})


def phi(x, w, *, epsilon=0.0, keys=False):
    """Positive random features of rows x (N, D), as numbers and not as logarithms.

    The epsilon of the authors' program is added after the exponent is lowered by the largest w x:
    of the row, or of all rows for keys.
    """
    x = x / x.shape[1] ** 0.25
    along = x @ w.T
    largest = along.max() if keys else along.max(1, keepdim=True).values
    lowered = torch.exp(along - (x * x).sum(1, keepdim=True) / 2 - largest)
    return (lowered + epsilon) / len(w) ** 0.5  # (N, M)


def kernel_of(q, k, w, epsilon):
    """The N x N scores of one head."""
    return phi(q, w, epsilon=epsilon) @ phi(k, w, epsilon=epsilon, keys=True).T


def attention(q, k, v, w, noises, temperature, epsilon):
    """The N x N weights of each head, times u_j = exp(g_j / tau), one matrix for each noise."""
    outs = []
    for h in range(q.shape[1]):
        kernel = kernel_of(q[:, h], k[:, h], w, epsilon)
        total = 0.0
        for g in noises:
            weights = kernel * torch.exp(g[:, h].to(q.dtype) / temperature)[None, :]
            total = total + weights @ v[:, h] / weights.sum(1, keepdim=True)
        outs.append(total / len(noises))
    return torch.stack(outs, 1)


def pattern(graph, order):
    src, dst = graph.edges()
    a = torch.zeros(graph.num_nodes(), graph.num_nodes(), dtype=torch.double)
    a[dst, src] = 1.0
    for _ in range(order):
        a = ((a @ a) > 0).double()
    return a


def edge_mean(graph, q, k, w, epsilon):
    """Mean over edges u -> v and heads of log p_uv / d_in(v), edge by edge."""
    src, dst = (each.tolist() for each in graph.edges())
    terms = []
    for h in range(q.shape[1]):
        kernel = kernel_of(q[:, h], k[:, h], w, epsilon)
        for u, v in zip(src, dst, strict=True):
            terms.append(torch.log(kernel[v, u] / kernel[v].sum()) / dst.count(v))
    return torch.stack(terms).mean()


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def normalise(state, name, x, options):
    if options.get("norm") == "none":
        return x
    mean = x.mean(1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def elu(x):
    return torch.where(x > 0, x, torch.exp(x) - 1)


def layer_twin(state, graph, z, options, w, noises, number):
    name, heads, dim = f"layers.{number}", options["full_heads"], options["dim"]
    temperature, epsilon = options.get("temperature", 0.25), options.get("epsilon", 1e-6)
    q, k, v = (
        affine(state, f"{name}.{each}", z).reshape(-1, heads, dim)
        for each in ("query", "key", "value")
    )
    q, k = q / temperature**0.5, k / temperature**0.5
    out = attention(q, k, v, w, noises, temperature, epsilon)
    for r in range(options.get("orders", 2)):
        a = pattern(graph, r)
        s = a / torch.sqrt(a.sum(1)[:, None] * a.sum(0)[None, :])
        b = state[f"{name}.strengths.{r}"]
        b = b if options.get("order_weight") == "identity" else 1 / (1 + torch.exp(-b))
        out = torch.stack([out[:, h] + b[h] * (s @ v[:, h]) for h in range(heads)], 1)
    new = affine(state, f"{name}.output", out.reshape(len(z), -1))
    new = new + z if options.get("residual", True) else new
    new = normalise(state, f"{name}.norm", new, options)
    return elu(new) if options.get("activation") else new, edge_mean(graph, q, k, w, epsilon)


def twin(model, graph, x, options, noises):
    """Logits and penalty; `noises` holds, for each layer, standard Gumbel noise (K, N, H)."""
    state = dict(model.named_parameters())
    z = elu(normalise(state, "norm", affine(state, "stem", x), options))
    states, terms = [z], []
    for number, layer in enumerate(model.layers):
        w = layer.kernel.directions
        z, term = layer_twin(state, graph, z, options, w, noises[number], number)
        states.append(z)
        terms.append(term)
    read = torch.cat(states, 1) if options.get("jumping_knowledge") else z
    return affine(state, "head", read), -options["edge_loss"] * sum(terms) / len(terms)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {**BASE, "edge_loss": 1.0},
        {**BASE, "edge_loss": 0.1, "orders": 3, "layers": 1, "full_heads": 1, "temperature": 0.7},
        {**BASE, "edge_loss": 2.0, "orders": 1, "order_weight": "identity", "activation": True,
         "jumping_knowledge": True, "layers": 3, "samples": 1, "random_features": 3,
         "epsilon": 0.0},
        {**BASE, "edge_loss": 0.5, "orders": 0, "residual": False, "norm": "none", "full_heads": 3,
         "epsilon": 0.05},
    ],
    ids=["default", "third-order", "jumping-knowledge", "no-bias"],
)  # fmt: skip
def test_it_equals_its_equations(options, training, tiny, monkeypatch):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    model = build(**options).double().train(training)
    shape = (len(model.layers), options["samples"], 12, options["full_heads"])
    noises = -torch.empty(shape, dtype=torch.double).exponential_().log()
    drawn = iter(noises)
    monkeypatch.setattr(nodeformer, "gumbel_noise", lambda *_: next(drawn))
    output = model(graph, x)
    slow = twin(model, graph, x, options, noises if training else torch.zeros_like(noises[:, :1]))
    inputs = [x, *model.parameters()]
    for fast, exact in zip(output, slow, strict=True):
        torch.testing.assert_close(fast, exact, rtol=0, atol=1e-9)
        weight = torch.randn_like(fast)
        both = [
            torch.autograd.grad(
                (each * weight).sum(), inputs, retain_graph=True, materialize_grads=True,
                allow_unused=True,
            )
            for each in (fast, exact)
        ]  # fmt: skip
        for one, other in zip(*both, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-9)
        assert sum(each.abs().sum() for each in both[0]) > 0


def test_many_random_features_are_softmax():
    q, k, v = torch.randn(3, 20, 2, 4, dtype=torch.double)
    q, k = 0.7 * q, 0.7 * k  # the variance grows with exp(|q + k|^2)
    errors = []
    for count in (16, 256, 4096):
        outs = [
            gumbel_attention(q, k, v, random_directions(count, 4, seed=seed)) for seed in range(10)
        ]
        errors.append((torch.stack(outs) - softmax(q, k, v)).abs().mean())
    assert errors[0] > 2 * errors[1] > 4 * errors[2] and errors[2] < 0.02


def test_noise_chooses_a_node_where_the_temperature_is_low():
    """With queries and keys of zero the kernel is even: u_j alone weighs the values."""
    zeros, values = torch.zeros(6, 1, 6), torch.eye(6).unsqueeze(1)
    noise = gumbel_noise((3000, 6, 1), 0, torch.device("cpu"))
    chosen = gumbel_attention(zeros, zeros, values, random_directions(5, 6, seed=0), noise / 1e-4)
    winners = torch.bincount(noise[..., 0].argmax(1), minlength=6) / 3000
    assert (winners - 1 / 6).abs().max() < 0.03  # any of them, evenly: the Gumbel-max theorem
    torch.testing.assert_close(chosen[:, 0], winners.expand(6, -1), rtol=0, atol=2e-3)


def test_noise_is_gumbel_and_its_generator_private():
    before = torch.get_rng_state()
    noise = gumbel_noise((200_000,), 3, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    assert abs(noise.mean() - 0.5772) < 0.02 and abs(noise.var() - math.pi**2 / 6) < 0.05
    assert torch.equal(noise, gumbel_noise((200_000,), 3, torch.device("cpu")))
    assert not torch.equal(noise, gumbel_noise((200_000,), 4, torch.device("cpu")))


@pytest.mark.parametrize("epsilon", [0.0, 1e-2])
@pytest.mark.parametrize("samples", [0, 3])
def test_it_is_a_mean_of_the_values_of_its_own_set(samples, epsilon):
    q, k = torch.randn(2, 2, 6, 3, 4)  # two sets of six nodes, three heads
    v, w = torch.randn(2, 6, 3, 4), random_directions(5, 4, seed=0)
    noise = torch.randn(samples, 2, 6, 3) if samples else None
    ones = gumbel_attention(q, k, torch.ones_like(v), w, noise, epsilon=epsilon)
    torch.testing.assert_close(ones, torch.ones_like(v))
    both = gumbel_attention(q, k, v, w, noise, epsilon=epsilon)
    for i in range(2):
        mine = None if noise is None else noise[:, i]
        own = gumbel_attention(q[i], k[i], v[i], w, mine, epsilon=epsilon)
        torch.testing.assert_close(both[i], own)


@pytest.mark.parametrize("size,temperature", [(1.0, 1e-3), (1e3, 0.25), (1e3, 1e-3)])
def test_nothing_overflows(size, temperature):
    """exp(g / tau) overflows in fp32 below about tau = 0.2; exp(-|q|^2 / 2) vanishes."""
    q, k, v = (torch.randn(50, 2, 8, requires_grad=True) for _ in range(3))
    noise = gumbel_noise((4, 50, 2), 0, torch.device("cpu")) / temperature
    assert temperature == 0.25 or (noise.exp() == torch.inf).any()
    out = gumbel_attention(size * q, size * k, v, random_directions(6, 8, seed=0), noise)
    assert out.abs().max() <= v.abs().max() * 1.001
    for each in torch.autograd.grad(out.square().sum(), [q, k, v]):
        assert each.isfinite().all()


def test_a_low_temperature_trains(tiny):
    graph, x, _ = tiny
    model = build(temperature=1e-3)
    output = model(graph, 100 * x)
    (output.logits.sum() + output.penalty).backward()
    assert output.logits.isfinite().all() and torch.isfinite(output.penalty)
    assert all(each.grad.isfinite().all() for each in model.parameters())


def logits_of(model, graph, x, epochs):
    """Logits of one training pass in each epoch, and of one evaluation after all of them."""
    outs = []
    for epoch in epochs:
        model.train().begin_epoch(epoch)
        outs += [model(graph, x).logits, model(graph, x).logits]
    return outs, model.eval()(graph, x).logits


@pytest.mark.parametrize(
    "redraw,same", [("never", [1, 1, 1, 1]), ("epoch", [1, 1, 0, 0]), ("step", [1, 0, 0, 0])]
)
def test_directions_are_drawn_anew_when_asked_for(redraw, same, tiny):
    graph, x, _ = tiny
    model = build(samples=0, redraw=redraw)
    before = model.eval()(graph, x).logits
    outs, after = logits_of(model, graph, x, [0, 1])
    assert [torch.equal(out, outs[0]) for out in outs] == [bool(each) for each in same]
    assert torch.equal(before, after)  # evaluation has the directions that belong to the weights
    assert torch.equal(before, outs[0]) == (redraw == "never")


def test_the_same_seed_draws_the_same_in_training(tiny):
    graph, x, _ = tiny
    outs = []
    for seed in (7, 7, 8):
        model = build(redraw="step")
        torch.manual_seed(seed)
        outs.append(model(graph, x).logits)
    assert torch.equal(outs[0], outs[1]) and not torch.equal(outs[0], outs[2])


def test_layers_have_directions_of_their_own_and_move_with_the_weights(tiny):
    graph, x, _ = tiny
    source, target = build(seed=1), build(seed=2)
    first, second = (layer.kernel.directions for layer in source.layers)
    assert not torch.equal(first, second)
    assert not torch.equal(first, target.layers[0].kernel.directions)
    transfer(target, source.state_dict())
    assert torch.equal(source.eval()(graph, x).logits, target.eval()(graph, x).logits)


def test_noise_belongs_to_training(tiny):
    graph, x, _ = tiny
    noisy, plain = build(samples=4), build(samples=0)
    assert not torch.equal(noisy(graph, x).logits, noisy(graph, x).logits)
    assert torch.equal(noisy.eval()(graph, x).logits, plain(graph, x).logits)


def test_all_random_batches_see_the_same_directions(tiny, monkeypatch):
    """Twelve nodes in batches of at most five are two sizes of batches: two calls per layer."""
    graph, x, _ = tiny
    seen = []

    def watch(q, k, v, w, noise, **options):
        seen.append((w, noise))
        return gumbel_attention(q, k, v, w, noise, **options)

    monkeypatch.setattr(nodeformer, "gumbel_attention", watch)
    ring = dgl.add_self_loop(dgl.graph((torch.arange(11), (torch.arange(11) + 1) % 11)))
    build(redraw="step", attention={"name": "rba", "size": 4})(ring, x[:11])
    assert [noise.shape[1:] for _, noise in seen] == 2 * [(2, 4, 2), (1, 3, 2)]
    directions_seen = [w for w, _ in seen]
    assert directions_seen[0] is directions_seen[1] and directions_seen[2] is directions_seen[3]
    assert not torch.equal(directions_seen[0], directions_seen[2])


@pytest.mark.parametrize("attention", ["softmax", "linear", "performer", RBA])
def test_the_edge_loss_is_that_of_the_whole_graph_under_every_attention(attention, tiny):
    """The first layer sees the same features, so that its loss is that of the native attention."""
    graph, x, _ = tiny
    native = build(layers=1)
    other = build(layers=1, attention=attention)
    other.load_state_dict(native.state_dict())  # an attention brings no weights of its own
    assert torch.equal(native(graph, x).penalty, other(graph, x).penalty)
    assert torch.equal(native.eval()(graph, x).penalty, other(graph, x).penalty)
    assert not torch.equal(native(graph, x).logits, other.eval()(graph, x).logits)


def test_softmax_is_what_the_kernel_estimates(tiny):
    graph, x, _ = tiny
    exact = build(attention="softmax", random_features=1).eval()(graph, x).logits
    near, far = (build(random_features=m, epsilon=0.0).eval()(graph, x).logits for m in (4000, 4))
    assert (near - exact).abs().max() < 0.05 < (far - exact).abs().max()


def test_the_edge_loss_of_a_batch_is_the_mean_over_its_edges(tiny):
    graph, x, _ = tiny
    other = dgl.add_self_loop(dgl.graph(([0, 1, 1, 2], [1, 0, 2, 1])))
    y = torch.randn(3, 5)
    model = build().eval()
    parts = [model(g, f).penalty for g, f in ((graph, x), (other, y))]
    counts = [graph.num_edges(), other.num_edges()]
    together = model(dgl.batch([graph, other]), torch.cat([x, y])).penalty
    mean = (parts[0] * counts[0] + parts[1] * counts[1]) / sum(counts)
    torch.testing.assert_close(together, mean)


@pytest.mark.parametrize("samples", [0, 3])
@pytest.mark.parametrize("lead", [(), (2,)])
def test_the_kernel_in_blocks_and_its_gradients(lead, samples, monkeypatch):
    torch.manual_seed(0)
    q, k, v = (
        torch.randn(*lead, 130, 2, 3, dtype=torch.double, requires_grad=True) for _ in range(3)
    )
    w = random_directions(4, 3, seed=0)
    noise = torch.randn(samples, *lead, 130, 2, dtype=torch.double) if samples else None
    found = []
    for numbers in (2**20, 1):  # all nodes at once, and 65 at a time
        monkeypatch.setitem(kernels._NUMBERS, "cpu", numbers)
        out = gumbel_attention(q, k, v, w, noise)
        found.append([out, *torch.autograd.grad(out.sin().sum(), (q, k, v))])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)
    few = [each[..., :5, :, :] for each in (q, k, v)]
    some = None if noise is None else noise[..., :5, :]
    few = [each.detach().requires_grad_() for each in few]
    for epsilon in (0.0, 0.1):
        kernel = functools.partial(gumbel_attention, w=w, noise=some, epsilon=epsilon)
        assert torch.autograd.gradcheck(kernel, few)
        assert torch.autograd.gradgradcheck(kernel, few, fast_mode=True)
        frozen = (few[0], few[1].detach(), few[2])
        assert torch.autograd.gradgradcheck(kernel, frozen, fast_mode=True)


@pytest.mark.parametrize("apart", [0.0, 40.0, 300.0])
def test_scores_of_edges_whose_features_are_far_apart(tiny, apart):
    graph, _, _ = tiny
    queries, keys = (torch.randn(12, 2, 4, requires_grad=True) for _ in range(2))
    slope = apart * torch.linspace(-1, 1, 4)
    src, dst = graph.edges()
    fast = edge_probabilities._log_scores(graph, queries + slope, keys - slope)
    exact = ((queries + slope)[dst] + (keys - slope)[src]).double().logsumexp(-1)
    torch.testing.assert_close(fast.double(), exact, rtol=1e-5, atol=1e-4)
    gradients = [torch.autograd.grad(each.sum(), (queries, keys)) for each in (fast, exact)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)


def test_the_edge_loss_may_be_left_out_and_is_nothing_without_edges(tiny):
    graph, x, _ = tiny
    assert build(edge_loss=0.0)(graph, x).penalty == 0.0
    assert build()(graph, x).penalty > 0
    assert build()(dgl.graph(([], []), num_nodes=12), x).penalty == 0


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that was made."""

    elements = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        out = function(*arguments, **(options or {}))
        for each in out if isinstance(out, tuple | list) else [out]:
            if isinstance(each, torch.Tensor):
                held = each.numel() if each.layout == torch.strided else each._nnz()
                self.elements = max(self.elements, held)
        return out


@pytest.mark.parametrize("attention", ["native", RBA])
def test_no_tensor_grows_with_the_square_of_the_nodes(attention):
    n = 600
    nodes = torch.arange(n)
    ring = dgl.graph((torch.cat([nodes, (nodes + 1) % n]), torch.cat([(nodes + 1) % n, nodes])))
    model = build(attention=attention)
    with Largest() as made:
        output = model(dgl.add_self_loop(ring), torch.randn(n, 5))
        (output.logits.sum() + output.penalty).backward()
    assert 2 * n * 2 * 5 <= made.elements < 40 * n < n * n / 10  # nodes, noises, heads, features
