"""HTGN equals its design note, written here with dense matrices and loops, not the fast code."""

import math

import pytest
import torch

from zoo.canonical_form import mark_canonical
from zoo.config.options import pick
from zoo.dgl import dgl
from zoo.graphs.examples import tiny_graph
from zoo.graphs.shard import Shard
from zoo.models.htgn import Residual
from zoo.nn.attention import ATTENTIONS
from zoo.nn.random_features import random_directions, sine_attention
from zoo.ops.random_order import seed_of
from zoo.weights.create import create_model

PLAIN = {
    "dim": 6,
    "layers": 2,
    "heads": 2,
    "rank": 2,
    "random_features": 5,
    "kernel": "softmax",
    "edges": "learned",
    "expansion": 3,
    "norm": "layer",
    "drop_path": 0.0,
    "dropout": 0.0,
    "smoothness": 0.3,
    "seed": 4,
}


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


NORMS = {"layer": layer_norm, "batch": batch_norm, "none": lambda state, name, x: x}


def full_shares(q, k, w):
    scores = torch.exp(q @ k.T / math.sqrt(q.shape[1]))
    return scores / scores.sum(1, keepdim=True)


def performer_shares(q, k, w):
    def positive(x):
        x = x / x.shape[1] ** 0.25
        return torch.stack(
            [torch.exp(x @ each - (x * x).sum(1) / 2) for each in w], dim=1
        ) / math.sqrt(len(w))

    scores = positive(q) @ positive(k).T
    return scores / scores.sum(1, keepdim=True)


def sine_shares(q, k, w):
    """Weights by the N x N differences; each row is lifted to a mean of (2 M)^-1/2 if below."""
    apart = (q[:, None, :] - k[None, :, :]) / q.shape[1] ** 0.25
    scores = torch.stack([torch.cos(apart @ each) for each in w]).mean(0)
    rows = []
    for row in scores:
        least = 1 / math.sqrt(2 * len(w))
        rows.append(row + (least - row.mean()) if row.mean() < least else row)
    lifted = torch.stack(rows)
    return lifted / lifted.sum(1, keepdim=True)


SHARES = {"softmax": performer_shares, "sine": sine_shares, "full": full_shares}


def attention(state, name, z, options, w):
    """The heads' outputs merged, and the queries and keys of each head."""
    heads, rank = options["heads"], options["rank"]
    width = math.ceil(options["dim"] / heads)
    shares = SHARES["full" if options.get("attention") == "softmax" else options["kernel"]]
    columns = affine(state, f"{name}.project", z)
    queries, keys, values = columns.split([heads * rank, heads * rank, heads * width], 1)
    pairs, outs = [], []
    for h in range(heads):
        q, k = (each[:, h * rank : (h + 1) * rank] for each in (queries, keys))
        if options.get("rotary"):
            q, k = (torch.stack([turned(row, i) for i, row in enumerate(each)]) for each in (q, k))
        outs.append(shares(q, k, w) @ values[:, h * width : (h + 1) * width])
        pairs.append((q, k))
    return affine(state, f"{name}.merge", torch.cat(outs, 1)), pairs


def turned(row, place):
    """A query or key (rank,), each pair of numbers turned by the place of its node."""
    rank, out = len(row), []
    for f in range(rank // 2):
        angle = place * 10000 ** (-2 * f / rank)
        a, b = row[2 * f], row[2 * f + 1]
        out += [
            a * math.cos(angle) - b * math.sin(angle),
            a * math.sin(angle) + b * math.cos(angle),
        ]
    return torch.stack([*out, *row[2 * (rank // 2) :]])


def convolution(state, name, z, pairs, neighbours, options):
    """What each node gathers, node by node and head by head, and the mean divergence."""
    heads, dim = options["heads"], options["dim"]
    width = math.ceil(dim / heads)
    values = z @ state[f"{name}.linear.weight"].T
    values = torch.cat([values, values.new_zeros(len(z), heads * width - dim)], 1)
    rows, divergences = [], []
    for node, sources in enumerate(neighbours):
        parts = []
        for h in range(heads):
            own = values[:, h * width : (h + 1) * width]
            scores = []
            for source in sources:
                if options["edges"] == "learned":
                    a, b = (state[f"{name}.gather.{end}"][h] for end in ("source", "target"))
                    e = own[source] @ a + own[node] @ b
                    scores.append(e if e > 0 else 0.2 * e)
                else:
                    q, k = pairs[h]
                    scores.append(q[node] @ k[source] / math.sqrt(options["rank"]))
            weights = torch.exp(torch.stack(scores))
            weights = weights / weights.sum()
            parts.append(weights @ own[sources])
            uniform = 1 / len(sources)
            divergences.append((weights * torch.log(weights / uniform)).sum())
        rows.append(torch.cat(parts)[:dim])
    return torch.stack(rows), torch.stack(divergences).mean()


def twin(state, graph, x, options):
    src, dst = graph.edges()
    neighbours = [src[dst == node] for node in range(len(x))]
    norm, z, divergences = NORMS[options["norm"]], affine(state, "stem", x), []
    for i in range(options["layers"]):
        name = f"layers.{i}"
        w = random_directions(
            options["random_features"], options["rank"], seed_of((options["seed"], i))
        )
        out, pairs = attention(state, f"{name}.attention", z, options, w)
        z = norm(state, f"{name}.add.attention.norm", z + out)
        if options["edges"] != "none":
            near, divergence = convolution(
                state, f"{name}.convolution", z, pairs, neighbours, options
            )
            z = norm(state, f"{name}.add.convolution.norm", z + near * (near > 0))
            divergences.append(divergence)
        wide = affine(state, f"{name}.feed_forward.widen", z)
        change = affine(state, f"{name}.feed_forward.narrow", wide * (wide > 0))
        z = norm(state, f"{name}.add.feed_forward.norm", z + change)
    penalty = options["smoothness"] * sum(divergences) / max(1, len(divergences))
    return affine(state, "head", z), torch.as_tensor(penalty, dtype=x.dtype)


@pytest.mark.parametrize(
    "options",
    [
        PLAIN,
        {**PLAIN, "kernel": "sine", "edges": "attention"},
        {**PLAIN, "kernel": "sine", "heads": 5, "norm": "none", "rank": 3, "layers": 1},
        {**PLAIN, "edges": "attention", "heads": 4, "expansion": 1, "layers": 3},
        {**PLAIN, "edges": "none", "heads": 1, "rank": 8},
        {**PLAIN, "attention": "softmax", "norm": "batch", "smoothness": 0.0},
        {**PLAIN, "attention": "softmax", "norm": "batch", "edges": "attention", "heads": 1},
        {**PLAIN, "rotary": True, "rank": 5},
        {**PLAIN, "rotary": True, "kernel": "sine", "edges": "attention", "rank": 4},
    ],
    ids=["plain", "sine", "padded", "three", "none", "batch", "full", "rotary", "rotary-sine"],
)
def test_it_equals_the_note(options, tiny):
    graph, x, _ = tiny
    x = x.double().requires_grad_()
    model = create_model("htgn", 5, 3, **options).double().train(options["norm"] == "batch")
    state = dict(model.named_parameters())
    inputs = [x, *state.values()]
    logits, penalty = model(graph, x)
    slow_logits, slow_penalty = twin(state, graph, x, options)
    torch.testing.assert_close(logits, slow_logits, rtol=0, atol=1e-9)
    torch.testing.assert_close(torch.as_tensor(penalty).double(), slow_penalty, rtol=0, atol=1e-9)
    weight = torch.randn_like(logits)
    ours = torch.autograd.grad((logits * weight).sum() + penalty, inputs)
    theirs = torch.autograd.grad((slow_logits * weight).sum() + slow_penalty, inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_places_are_those_in_the_node_s_own_graph(tiny):
    graph, x, _ = tiny
    model = create_model("htgn", 5, 3, rotary=True).eval()
    both = model(dgl.batch([graph, graph]), torch.cat([x, x + 1])).logits
    alone = torch.cat([model(graph, x).logits, model(graph, x + 1).logits])
    torch.testing.assert_close(both, alone, rtol=1e-4, atol=1e-5)
    plain = create_model("htgn", 5, 3).eval()
    plain.load_state_dict(model.state_dict())
    assert not torch.allclose(plain(graph, x).logits, model(graph, x).logits, atol=1e-3)


def star(leaves):
    """A hub that hears `leaves` others, which hear the hub; all hear themselves."""
    hub, rest = torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)
    return dgl.add_self_loop(dgl.graph((torch.cat([rest, hub]), torch.cat([hub, rest]))))


def test_uniform_weights_cost_nothing(tiny):
    graph, x, _ = tiny
    model = create_model("htgn", 5, 3, smoothness=1.0).eval()
    assert model(graph, x).penalty > 1e-3
    with torch.no_grad():
        for layer in model.layers:
            layer.convolution.gather.source.zero_()
    assert model(graph, x).penalty.abs() < 1e-6


def test_a_choice_of_one_neighbour_costs_the_logarithm_of_how_many_there_are():
    """And weights that have underflowed to 0 leave no NaN, in the value or in the gradient."""
    graph, x = star(7), torch.randn(8, 5)
    model = create_model("htgn", 5, 3, layers=1, heads=1, smoothness=1.0).eval()
    with torch.no_grad():
        model.layers[0].convolution.gather.source.mul_(1e4)
    penalty = model(graph, x).penalty
    torch.testing.assert_close(
        penalty.item(), (math.log(8) + 7 * math.log(2)) / 8, rtol=1e-3, atol=0
    )
    penalty.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("options", [{"smoothness": 0.0}, {"edges": "none"}], ids=str)
def test_no_penalty_is_computed_where_there_is_none(options, tiny, monkeypatch):
    graph, x, _ = tiny
    monkeypatch.setattr("zoo.models.htgn.smoothness", None)
    output = create_model("htgn", 5, 3, **options)(graph, x)
    assert output.penalty == 0.0 and isinstance(output.penalty, float)


def test_the_penalty_of_a_batch_is_the_mean_over_its_nodes(tiny):
    graph, x, _ = tiny
    other, y = star(4), torch.randn(5, 5)
    model = create_model("htgn", 5, 3).eval()
    together = model(dgl.batch([graph, other]), torch.cat([x, y])).penalty
    apart = (12 * model(graph, x).penalty + 5 * model(other, y).penalty) / 17
    torch.testing.assert_close(together, apart)


@pytest.mark.parametrize("edges", ["learned", "attention"])
def test_the_penalty_smooths_the_weights(edges, tiny):
    graph, x, _ = tiny
    model = create_model("htgn", 5, 3, edges=edges, attention="softmax", smoothness=1.0).eval()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    first = model(graph, x).penalty.item()
    for _ in range(30):
        optimiser.zero_grad()
        model(graph, x).penalty.backward()
        optimiser.step()
    assert model(graph, x).penalty < first / 10


@pytest.mark.parametrize("edges,matter", [("learned", True), ("attention", True), ("none", False)])
def test_edges_matter_where_there_is_a_convolution(edges, matter, tiny):
    graph, x, _ = tiny
    loops = dgl.add_self_loop(dgl.graph(([], []), num_nodes=12))
    model = create_model("htgn", 5, 3, edges=edges).eval()
    same = torch.allclose(model(graph, x).logits, model(loops, x).logits, atol=1e-3)
    assert same != matter


def test_drop_path_drops_the_branches_of_nodes():
    torch.manual_seed(0)
    add, z, branch = Residual(torch.nn.Identity(), 0.25), torch.randn(4000, 3), torch.randn(4000, 3)
    change = add.train()(z, branch) - z
    dropped = (change == 0).all(1)
    torch.testing.assert_close(change[~dropped], branch[~dropped] / 0.75, rtol=1e-4, atol=1e-5)
    assert abs(dropped.double().mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 4000)
    assert torch.equal(add.eval()(z, branch), z + branch)


def test_drop_path_grows_with_depth():
    model = create_model("htgn", 5, 3, layers=4, drop_path=0.2)
    rates = [{add.drop.p for add in layer.add.values()} for layer in model.layers]
    assert [len(each) for each in rates] == [1] * 4
    assert [max(each) for each in rates] == pytest.approx([0.05, 0.1, 0.15, 0.2])


def test_dropout_acts_on_the_first_features_and_on_the_convolution(tiny):
    """With a rate near 1 nothing is left of either."""
    graph, x, _ = tiny
    model = create_model("htgn", 5, 3, layers=1, dropout=0.999999, drop_path=0.0).train()
    assert not model.dropout(model.stem(x)).any()
    heard = []
    model.layers[0].add["convolution"].register_forward_pre_hook(
        lambda _, inputs: heard.append(inputs[1])
    )
    model(graph, x)
    assert not heard[0].any()


def test_queries_and_keys_are_of_low_rank():
    wide, low = (create_model("htgn", 5, 3, heads=1, layers=1, rank=r) for r in (64, 16))
    assert len(wide.layers[0].attention.project.weight) == 3 * 64
    assert len(low.layers[0].attention.project.weight) == 64 + 2 * 16


@pytest.mark.parametrize("rank", [2, 4, 7])
@pytest.mark.parametrize("word", [*ATTENTIONS, {"name": "rba", "size": 5}], ids=str)
def test_every_attention_takes_queries_of_another_width_than_values(word, rank):
    q, k = torch.randn(2, 2, 12, 3, rank).double()
    v = torch.randn(2, 12, 3, 4).double()
    attend = pick(ATTENTIONS, word, sine_of(rank), 0)
    if isinstance(attend, torch.nn.Module):
        attend.eval()
    assert attend(q, k, v).shape == v.shape
    torch.testing.assert_close(attend(q, k, torch.ones_like(v)), torch.ones_like(v))
    for i in range(2):
        torch.testing.assert_close(attend(q, k, v)[i], attend(q[i], k[i], v[i]))
    if word == "softmax":
        slow = [full_shares(q[0, :, h], k[0, :, h], None) @ v[0, :, h] for h in range(3)]
        torch.testing.assert_close(attend(q, k, v)[0], torch.stack(slow, 1))


def sine_of(rank, count=16):
    return lambda q, k, v: sine_attention(q, k, v, random_directions(count, rank, 0))


@pytest.mark.parametrize("options", [{}, {"kernel": "sine"}, {"attention": "softmax"}], ids=str)
@pytest.mark.parametrize("edges", ["learned", "attention"])
def test_no_matrix_of_nodes_by_nodes_is_kept(options, edges):
    n = 1000
    graph, small = star(n - 1), {"dim": 8, "heads": 1, "rank": 4, "random_features": 8}
    model = create_model("htgn", 5, 3, **small, **options, edges=edges)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda each: (kept.append(each.numel()), each)[1], lambda each: each
    ):
        model(graph, torch.randn(n, 5)).logits.sum().backward()
    assert max(kept) <= 32 * n


def test_sine_comes_to_the_gaussian_kernel():
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 15, 1, 4).double()
    apart = torch.cdist(q[:, 0], k[:, 0]) / 4**0.25
    weights = torch.exp(-(apart**2) / 2)
    exact = weights / weights.sum(1, keepdim=True) @ v[:, 0]
    errors = [
        (sine_attention(q, k, v, random_directions(m, 4, 0))[:, 0] - exact).abs().mean().item()
        for m in (25, 2_500, 250_000)
    ]
    assert errors[1] < errors[0] / 3 and errors[2] < errors[1] / 3 and errors[2] < 2e-3


def test_sine_stays_bounded_where_its_mass_vanishes():
    """Of far queries some have next to no mass, or less; the plain ratio then has no bound."""
    torch.manual_seed(0)
    q, k, v = 30 * torch.randn(3, 2000, 1, 4).double()
    w = random_directions(8, 4, 0)
    apart = (q[:, 0, None] - k[None, :, 0]) / 4**0.25
    mass = torch.stack([torch.cos(apart @ each).mean(1) for each in w]).mean(0)
    assert mass.min() < 0 < mass.max() and mass.abs().min() < 1e-4
    bound = 2 * math.sqrt(2 * len(w)) + 1
    assert sine_attention(q, k, v, w).abs().max() <= bound * v.abs().max()
    ones = torch.ones_like(v)
    torch.testing.assert_close(sine_attention(q, k, ones, w), ones)


def test_sine_of_no_mass_at_all_is_the_mean():
    q, v = torch.zeros(5, 1, 1), torch.randn(5, 1, 2)
    k = torch.full((5, 1, 1), math.pi)  # cos(q - k) = -1
    out = sine_attention(q, k, v, torch.ones(1, 1))
    torch.testing.assert_close(out, v.mean(0, keepdim=True).expand_as(v))


def test_sine_keeps_its_sums_in_fp32():
    q, k, v = torch.randn(3, 50_000, 1, 4).bfloat16()
    w = random_directions(8, 4, 0)
    out = sine_attention(q, k, v, w)
    assert out.dtype == torch.bfloat16
    wide = sine_attention(q.double(), k.double(), v.double(), w)
    assert (out.double() - wide).abs().max() < 0.01


@pytest.mark.parametrize("kernel", ["softmax", "sine"])
def test_directions_are_new_in_training_and_fixed_in_evaluation(kernel, tiny):
    graph, x, _ = tiny
    torch.manual_seed(0)
    model = create_model("htgn", 5, 3, kernel=kernel, dropout=0.0, drop_path=0.0).train()
    assert not torch.equal(model(graph, x).logits, model(graph, x).logits)
    q, k, v = torch.randn(3, 12, 2, 16)
    first, second = (layer.attend.attention.eval() for layer in model.layers)
    assert torch.equal(first(q, k, v), first(q, k, v))
    assert not torch.equal(first(q, k, v), second(q, k, v))
    other = create_model("htgn", 5, 3, kernel=kernel, seed=1).eval()
    assert not torch.equal(first(q, k, v), other.layers[0].attend.attention(q, k, v))


def test_places_of_a_share_are_those_of_its_nodes():
    graph, x = tiny_graph(), torch.randn(12, 4)
    model = create_model("htgn", 4, 3, attention="linear", rotary=True).eval()
    order = torch.randperm(12)
    dealt = model(Shard(graph, order), x[order]).logits
    torch.testing.assert_close(dealt, model(graph, x).logits[order])


@pytest.mark.parametrize("edges", ["learned", "attention"])
def test_a_graph_of_no_node_has_no_penalty(edges):
    graph = mark_canonical(dgl.graph(([], []), num_nodes=0))
    assert create_model("htgn", 4, 3, edges=edges)(graph, torch.zeros(0, 4)).penalty == 0
