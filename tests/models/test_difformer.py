"""DIFFormer equals its equations, worked out here from the paper and not from the fast code."""

from functools import partial

import pytest
import torch

from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.models.difformer import sigmoid
from zoo.nn.attention import linear
from zoo.weights.create import create_model

simple = partial(linear, base="all")
BASE = {"dim": 4, "layers": 2, "dropout": 0.0}
KERNELS = {
    "frobenius": lambda *x: simple(*x, qk_norm="frobenius"),
    "row": lambda *x: simple(*x, qk_norm="row"),
    "sigmoid": lambda *x: sigmoid(*x, block=3),
}
each_kernel = pytest.mark.parametrize("kernel", list(KERNELS))


def tensors(*shape, dtype=torch.double, count=3):
    return [torch.randn(*shape, dtype=dtype, requires_grad=True) for _ in range(count)]


def weights_of(q, k, kernel):
    """The dense N x N weights of each head, (H, N, N), before they are divided by their sum."""
    if kernel == "frobenius":
        q, k = q / torch.sqrt((q * q).sum()), k / torch.sqrt((k * k).sum())
    if kernel == "row":
        q = q / torch.sqrt((q * q).sum(2, keepdim=True))
        k = k / torch.sqrt((k * k).sum(2, keepdim=True))
    scores = torch.stack([q[:, h] @ k[:, h].T for h in range(q.shape[1])])
    return 1 / (1 + torch.exp(-scores)) if kernel == "sigmoid" else 1 + scores


def naive(q, k, v, kernel):
    """Row by row: the mean of all values, weighted."""
    weights = weights_of(q, k, kernel)
    rows = []
    for i in range(len(q)):
        for h in range(q.shape[1]):
            above, below = torch.zeros_like(v[0, 0]), 0.0
            for j in range(len(q)):
                above, below = above + weights[h, i, j] * v[j, h], below + weights[h, i, j]
            rows.append(above / below)
    return torch.stack(rows).reshape(v.shape)


def propagate(graph, x):
    src, dst = graph.edges()
    a = torch.zeros(len(x), len(x), dtype=x.dtype)
    a[dst, src] = 1.0
    d = a.sum(1)
    return (a / torch.sqrt(d[:, None] * d[None, :])) @ x


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def normalise(state, name, x, options):
    if options.get("norm") == "none":
        return x
    mean = x.mean(1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def twin(state, graph, x, options):
    heads, dim = options.get("full_heads", 1), options["dim"]
    kernel = options.get("kernel", "simple")
    kernel = options.get("qk_norm", "frobenius") if kernel == "simple" else kernel
    alpha, w = options.get("alpha", 0.5), options.get("graph_weight")
    z = first = torch.relu(normalise(state, "norm", affine(state, "stem", x), options))
    for i in range(options["layers"]):
        name = f"layers.{i}"
        q, k = (
            affine(state, f"{name}.{part}", z).reshape(-1, heads, dim) for part in ("query", "key")
        )
        v = torch.stack([z] * heads, dim=1)
        if options.get("use_weight"):
            v = affine(state, f"{name}.value", z).reshape(-1, heads, dim)
        weights = weights_of(q, k, kernel)
        outs = []
        for h in range(heads):
            out = weights[h] @ v[:, h] / weights[h].sum(1, keepdim=True)
            if options.get("use_graph", True):
                gathered = propagate(graph, v[:, h])
                out = out + gathered if w is None else (1 - w) * out + w * gathered
            outs.append(out)
        out = torch.stack(outs).mean(0)
        if options.get("use_source"):
            out = out + first
        z = normalise(state, f"{name}.norm", alpha * out + (1 - alpha) * z, options)
    return affine(state, "head", z)


def assert_equal_gradients(fast, slow, inputs):
    """Values and all gradients agree to 1e-9 in double precision."""
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    weight = torch.randn_like(fast)
    ours = torch.autograd.grad((fast * weight).sum(), inputs, materialize_grads=True)
    theirs = torch.autograd.grad((slow * weight).sum(), inputs, materialize_grads=True)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def peak_bytes(function):
    """Return the most memory that torch held at once while the function ran."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        function()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


@pytest.mark.parametrize(
    "options",
    [
        BASE,
        {**BASE, "full_heads": 3, "use_weight": True, "graph_weight": 0.7, "alpha": 0.3},
        {**BASE, "qk_norm": "row", "full_heads": 2, "use_source": True},
        {**BASE, "norm": "none", "alpha": 1.0, "graph_weight": 0.8, "layers": 3},
        {**BASE, "kernel": "sigmoid", "block": 5},
        {**BASE, "kernel": "sigmoid", "full_heads": 2, "use_weight": True, "use_source": True},
        {**BASE, "kernel": "sigmoid", "use_graph": False, "norm": "none"},
        {**BASE, "use_graph": False, "use_weight": True, "full_heads": 2, "use_source": True},
    ],
    ids=["s", "s-weighted", "s-row", "s-plain", "a", "a-weighted", "a-no-graph", "s-no-graph"],
)
def test_it_equals_its_equations(options, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    model = create_model("difformer", 5, 3, **options).double().train()
    state = dict(model.named_parameters())
    for each in state.values():  # so that norms and biases are not at their first values, 1 and 0
        each.data += 0.3 * torch.randn_like(each)
    fast, slow = model(graph, x).logits, twin(state, graph, x, options)
    assert_equal_gradients(fast, slow, [x, *state.values()])


@each_kernel
@pytest.mark.parametrize("n", [2, 3, 9])  # below and above the width: both orders of the product
def test_the_attentions_equal_their_twins(kernel, n):
    inputs = tensors(n, 2, 4)
    assert_equal_gradients(KERNELS[kernel](*inputs), naive(*inputs, kernel), inputs)


@pytest.mark.parametrize("block", [1, 4, 7, 8, 100])
def test_blocks_of_any_size_give_the_same(block):
    inputs = tensors(8, 2, 3)
    assert_equal_gradients(sigmoid(*inputs, block=block), naive(*inputs, "sigmoid"), inputs)


@each_kernel
def test_ones_give_one_and_a_node_alone_keeps_its_value(kernel):
    q, k, v = tensors(2, 6, 2, 3)
    ones = KERNELS[kernel](q, k, torch.ones_like(v))
    torch.testing.assert_close(ones, torch.ones_like(v))
    alone = [each[:, :1] for each in (q, -q, v)]  # frobenius: the formula's denominator is 0
    torch.testing.assert_close(KERNELS[kernel](*alone), v[:, :1])


@each_kernel
def test_sets_do_not_see_each_other(kernel):
    q, k, v = tensors(2, 6, 2, 3)
    apart = torch.stack([KERNELS[kernel](q[i], k[i], v[i]) for i in range(2)])
    torch.testing.assert_close(KERNELS[kernel](q, k, v), apart)


@each_kernel
def test_rows_of_zeros_get_the_mean_of_all_values(kernel):
    q, k, v = tensors(5, 2, 3)
    zeros = torch.zeros_like(q).requires_grad_()
    out = KERNELS[kernel](zeros, zeros, v)
    torch.testing.assert_close(out, v.mean(0, keepdim=True).expand_as(v))
    assert all(each.isfinite().all() for each in torch.autograd.grad(out.sum(), [zeros, v]))
    half = torch.cat([torch.zeros_like(q[:3]), q[3:]])
    torch.testing.assert_close(KERNELS[kernel](half, k, v)[:3], out[:3])


def test_opposite_rows_stay_finite():
    """Row-normalised, all weights of a query that is opposite to every key are 0."""
    k, v = torch.ones(4, 1, 1), torch.randn(4, 1, 1)
    assert simple(-k, k, v, qk_norm="row").isfinite().all()


def test_sigmoids_that_underflow_still_weigh():
    q, k, v = (each.float().detach().requires_grad_() for each in tensors(6, 1, 4))
    q, k = 30 * q.abs(), -30 * k.abs()
    assert (torch.sigmoid(q[:, 0] @ k[:, 0].T).sum(1) == 0).any()  # a row of 0 / 0 by the formula
    scores = (q[:, 0] @ k[:, 0].T).double()
    wanted = torch.softmax(scores - torch.log1p(scores.exp()), 1) @ v[:, 0].double()
    out = sigmoid(q, k, v, block=4)
    torch.testing.assert_close(out[:, 0], wanted.float())
    assert torch.autograd.grad(out.sum(), v)[0].isfinite().all()


@each_kernel
def test_bfloat16_is_rounded_once(kernel):
    """Scores, weights and sums are kept in fp32: only the output is rounded, by 2^-8 at most."""
    q, k, v = (torch.randn(3001, 1, 4).bfloat16() for _ in range(3))
    inputs = 5 * q, k, v + 1
    attend = (lambda *x: sigmoid(*x, block=500)) if kernel == "sigmoid" else KERNELS[kernel]
    with torch.autocast("cpu", torch.bfloat16):
        out = attend(*inputs)
    assert out.dtype == torch.bfloat16
    wide = attend(*(each.float() for each in inputs))
    torch.testing.assert_close(out.float(), wide, rtol=0.004, atol=1e-5)


def test_the_published_norm_is_nearly_the_mean_of_all_values():
    """What the row-normalised control is for: with one norm no weight can tell nodes apart."""
    q, k, v = (torch.randn(2000, 1, 16, dtype=torch.double) for _ in range(3))
    published, rows = (simple(q, k, v, qk_norm=norm) - v.mean(0) for norm in ("frobenius", "row"))
    assert published.norm() < 3 * v.norm() / 2000
    assert rows.norm() > 10 * published.norm()


def train_once(n, *, layers=1, block=64):
    """Return the peak memory of one forward and backward pass of the sigmoid kernel."""
    options = {"kernel": "sigmoid", "block": block, "layers": layers, "dim": 8, "use_graph": False}
    model, x = create_model("difformer", 4, 2, **options), torch.randn(n, 4)
    return peak_bytes(lambda: model(None, x).logits.sum().backward())


def test_the_sigmoid_kernel_stores_one_block_of_scores_at_a_time():
    assert train_once(2048) < 2.3 * train_once(1024)
    assert train_once(2048, layers=4) < 2048 * 2048 * 4  # less than one layer's N x N in fp32
    assert train_once(2048, block=2048) > 3.5 * train_once(1024, block=1024)  # the measure sees it


def test_the_simple_kernel_is_linear_in_memory():
    def step(n):
        inputs = tensors(n, 2, 8, dtype=torch.float)
        return peak_bytes(lambda: KERNELS["frobenius"](*inputs).sum().backward())

    assert step(4096) < 2.3 * step(2048)


@pytest.mark.parametrize("kernel", ["simple", "sigmoid"])
def test_it_runs_with_features_only(kernel, tiny):
    graph, x, _ = tiny
    model = create_model("difformer", 5, 3, kernel=kernel, use_graph=False).eval()
    bare = dgl.graph(([], []), num_nodes=12)
    logits = model(None, x).logits
    torch.testing.assert_close(model(graph, x).logits, logits)
    torch.testing.assert_close(model(bare, x).logits, logits)
    with pytest.raises(ZooError, match="use_graph: false"):
        create_model("difformer", 5, 3, kernel=kernel)(None, x)


def test_the_kernel_is_the_native_attention_inside_random_batches(tiny):
    graph, x, _ = tiny
    outs = []
    for attention in ("native", {"name": "rba", "size": 12}, {"name": "rba", "size": 4}):
        torch.manual_seed(3)
        options = {"kernel": "sigmoid", "attention": attention}
        outs.append(create_model("difformer", 5, 3, **options).eval()(graph, x).logits)
    torch.testing.assert_close(outs[0], outs[1])
    assert (outs[0] - outs[2]).abs().max() > 1e-4
