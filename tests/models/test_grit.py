"""GRIT equals its equations, written here with the states of all pairs, not from the fast code."""

import pytest
import torch
from twins import assert_twins

from zoo.errors import ZooError
from zoo.graphs.examples import batch, preferential_attachment, short_path, tiny_graph
from zoo.models import grit
from zoo.nn import walk_probabilities
from zoo.ops import pair_attention
from zoo.ops.random_order import random_order, seed_of
from zoo.weights.create import create_model

PLAIN = {"dim": 4, "layers": 3, "heads": 2, "dropout": 0.0, "steps": 3, "norm": "layer"}
RBA = {"attention": {"name": "rba", "size": 5}}


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def layer_norm(state, name, x):
    mean = x.mean(-1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def root(x):
    size = torch.sqrt(torch.abs(x) + 1e-4) - torch.sqrt(torch.tensor(1e-4, dtype=x.dtype))
    return torch.where(x > 0, size, torch.where(x < 0, -size, 0.0))


def walks(graph, steps):
    src, dst = graph.edges()
    a = torch.zeros(graph.num_nodes(), graph.num_nodes(), dtype=torch.double)
    a[src, dst] = 1.0
    a.fill_diagonal_(0)
    m = a / a.sum(1, keepdim=True).clamp(min=1)
    powers = [torch.eye(len(a), dtype=torch.double)]
    for _ in range(steps - 1):
        powers.append(powers[-1] @ m)
    return torch.stack(powers, -1).float().double(), a.sum(1) + 1  # as they are stored


def who_sees_whom(sizes, options, layer):
    """Which pairs (N, N) are in one graph and, in random batches, in one of its batches."""
    total, start, p = sum(sizes), 0, options.get("attention", {}).get("size")
    seen = torch.zeros(total, total, dtype=torch.bool)
    for n in sizes:
        parts = [torch.arange(n)]
        if p and n > p:
            parts = random_order(n, seed_of((0, layer, 0))).tensor_split(-(-n // p))
        for part in parts:
            seen[start + part.unsqueeze(1), start + part] = True
        start += n
    return seen


def twin(state, graph, x, options):
    p, d = walks(graph, options["steps"])
    heads, sizes = options["heads"], graph.batch_num_nodes().tolist()
    z = affine(state, "stem", x) + affine(state, "returns", p.diagonal().T)
    e = affine(state, "walks", p)  # (N, N, dim), carried through all layers
    for i in range(options["layers"]):
        name, seen = f"layers.{i}", who_sees_whom(sizes, options, i)
        q, k, v = affine(state, f"{name}.attention.project", z).chunk(3, 1)
        factor, term = affine(state, f"{name}.states.maps", e).chunk(2, -1)
        s = torch.relu(root((q[:, None, :] + k[None, :, :]) * factor) + term)
        outs = []
        for h, (own, values) in enumerate(zip(s.chunk(heads, -1), v.chunk(heads, 1), strict=True)):
            scores = (own @ state[f"{name}.states.score"][h]).masked_fill(~seen, -torch.inf)
            weights = torch.exp(scores) / torch.exp(scores).sum(1, keepdim=True)
            told = values[None, :, :] + own @ state[f"{name}.states.value"][h]
            outs.append((weights[:, :, None] * told).sum(1))
        a = affine(state, f"{name}.attention.merge", torch.cat(outs, 1))
        scale = state[f"{name}.scale"]
        a = a * scale[0] + torch.log(1 + d)[:, None] * a * scale[1]
        z = layer_norm(state, f"{name}.attention_norm", z + a)
        wide = torch.relu(affine(state, f"{name}.feed_forward.widen", z))
        z = z + affine(state, f"{name}.feed_forward.narrow", wide)
        z = layer_norm(state, f"{name}.feed_forward_norm", z)
        if options.get("update_pairs", True) and i < options["layers"] - 1:
            e = layer_norm(
                state, f"{name}.states.norm", e + affine(state, f"{name}.states.merge", s)
            )
    return affine(state, "head", z)


GRAPHS = {
    "one": tiny_graph,
    "batch": lambda: batch([short_path(), preferential_attachment(9, 2), tiny_graph()]),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize(
    "more", [{}, RBA, {"update_pairs": False}], ids=["full", "rba", "first states"]
)
def test_it_equals_its_equations(graph, more, monkeypatch):
    """Also in blocks of a few rows, attended to again for the gradient."""
    graph, options = GRAPHS[graph](), {**PLAIN, **more}
    x = torch.randn(graph.num_nodes(), 5, dtype=torch.double, requires_grad=True)
    model = create_model("grit", 5, 3, **options).double().eval()
    with torch.no_grad():
        for layer in model.layers:
            layer.scale.add_(0.3 * torch.randn_like(layer.scale))
    state = dict(model.named_parameters())

    def fast():
        return model(graph, x).logits

    assert_twins(fast, lambda: twin(state, graph, x, options), [x, *state.values()])
    monkeypatch.setattr(pair_attention, "AT_ONCE", 200)
    monkeypatch.setattr(pair_attention, "KEPT", 0)
    assert_twins(fast, lambda: twin(state, graph, x, options), [x, *state.values()])


@pytest.mark.parametrize("graph", GRAPHS)
def test_walks_are_looked_up_once_where_all_pairs_have_room(graph, monkeypatch):
    looked_up = []

    def count(graph, rows, columns, steps):
        looked_up.append((rows, columns))
        return walk_probabilities(graph, rows, columns, steps)

    monkeypatch.setattr(grit, "walk_probabilities", count)
    graph = GRAPHS[graph]()
    x = torch.randn(graph.num_nodes(), 5)

    def calls(**options):
        looked_up.clear()
        create_model("grit", 5, 3, **{**PLAIN, **options})(graph, x)
        return len(looked_up)

    once = calls(layers=1)
    assert calls() == once
    assert calls(**RBA) > once  # other pairs in each layer
    monkeypatch.setattr(pair_attention, "KEPT", 0)
    assert calls() > once


def test_without_updates_the_first_states_are_read(tiny):
    model = create_model("grit", 5, 3, update_pairs=False, layers=3)
    assert not any(".states.merge" in key for key in model.state_dict())
    model = create_model("grit", 5, 3, layers=3)
    assert {key[:8] for key in model.state_dict() if "states.merge" in key} == {
        "layers.0",
        "layers.1",
    }


@pytest.mark.parametrize("word", ["softmax", "linear", "performer"])
def test_an_attention_that_reads_no_states_is_refused(word):
    with pytest.raises(ZooError, match=f"{word}: this model's own attention reads a state"):
        create_model("grit", 5, 3, attention=word)
