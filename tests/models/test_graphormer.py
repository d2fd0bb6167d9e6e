"""Graphormer equals its equations, written here with dense matrices and not from the fast code."""

import pytest
import torch
from twins import assert_twins

from zoo.errors import ZooError
from zoo.graphs.examples import batch, preferential_attachment, short_path, tiny_graph
from zoo.ops.random_order import random_order, seed_of
from zoo.weights.create import create_model

PLAIN = {"dim": 4, "layers": 2, "heads": 2, "dropout": 0.0, "hops": 2, "degrees": 3}
RBA = {"attention": {"name": "rba", "size": 5}}


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def layer_norm(state, name, x):
    mean = x.mean(1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def distances(a, hops):
    """Floyd and Warshall; hops + 1 for all that is further."""
    n = len(a)
    d = torch.where(a > 0, 1, hops + 1)
    for i in range(n):
        d[i, i] = 0
    for k in range(n):
        d = torch.minimum(d, d[:, k : k + 1] + d[k : k + 1, :])
    return d.clamp(max=hops + 1)


def attention(state, name, x, heads, bias, seen):
    width = len(state[f"{name}.project.weight"]) // (3 * heads)
    queries, keys, values = affine(state, f"{name}.project", x).chunk(3, 1)
    outs = []
    for h in range(heads):
        rows = slice(h * width, (h + 1) * width)
        scores = queries[:, rows] @ keys[:, rows].T / width**0.5 + bias[:, :, h]
        weights = torch.exp(scores) * seen
        outs.append(weights / weights.sum(1, keepdim=True) @ values[:, rows])
    return affine(state, f"{name}.merge", torch.cat(outs, 1))


def adjacency(graph):
    src, dst = graph.edges()
    a = torch.zeros(graph.num_nodes(), graph.num_nodes())
    a[src, dst] = 1.0
    return a.fill_diagonal_(0)


def who_sees_whom(sizes, options, layer):
    """Which pairs (N, N) are in one graph and, in random batches, in one of its batches."""
    total, start, p = sum(sizes), 0, options.get("attention", {}).get("size")
    seen = torch.zeros(total, total)
    for n in sizes:
        parts = [torch.arange(n)]
        if p and n > p:
            parts = random_order(n, seed_of((0, layer, 0))).tensor_split(-(-n // p))
        for part in parts:
            seen[start + part.unsqueeze(1), start + part] = 1
        start += n
    return seen


def twin(state, graph, x, options):
    a, hops = adjacency(graph), options["hops"]
    d = distances(a, hops)
    sizes = graph.batch_num_nodes().tolist()
    if options.get("virtual_node"):
        last = torch.tensor(sizes).cumsum(0) - 1
        own = a.clone()
        own[last] = own[:, last] = 0
        d = distances(own, hops)
        d[last] = d[:, last] = hops + 2
    z = affine(state, "stem", x)
    z = z + state["degree"][a.sum(1).long().clamp(max=options["degrees"])]
    for i in range(options["layers"]):
        name, seen = f"layers.{i}", who_sees_whom(sizes, options, i)
        read = layer_norm(state, f"{name}.attention_norm", z)
        own = attention(state, f"{name}.attention", read, options["heads"], state["bias"][d], seen)
        z = z + own
        read = layer_norm(state, f"{name}.feed_forward_norm", z)
        wide = affine(state, f"{name}.feed_forward.widen", read)
        z = z + affine(state, f"{name}.feed_forward.narrow", wide * (wide > 0))
    return affine(state, "head", layer_norm(state, "norm", z))


GRAPHS = {
    "one": tiny_graph,
    "batch": lambda: batch([short_path(), preferential_attachment(9, 2), tiny_graph()]),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("more", [{}, RBA, {"virtual_node": True}], ids=["full", "rba", "virtual"])
def test_it_equals_its_equations(graph, more):
    graph, options = GRAPHS[graph](), {**PLAIN, **more}
    x = torch.randn(graph.num_nodes(), 5, dtype=torch.double, requires_grad=True)
    model = create_model("graphormer", 5, 3, **options).double().eval()
    state = dict(model.named_parameters())
    assert_twins(
        lambda: model(graph, x).logits, lambda: twin(state, graph, x, options), [x, *state.values()]
    )


def test_without_degrees_it_has_no_table_of_them(tiny):
    graph, x, _ = tiny
    model = create_model("graphormer", 5, 3, degrees=0)
    assert "degree" not in dict(model.named_parameters())
    assert model(graph, x).logits.isfinite().all()


def test_distance_is_all_that_it_knows_of_edges(tiny):
    """With a bias of 0 and no degrees it is the transformer, edges or none."""
    graph, x, _ = tiny
    model = create_model("graphormer", 5, 3, degrees=0).eval()
    other = preferential_attachment(12, 3)
    assert not torch.allclose(model(graph, x).logits, model(other, x).logits, atol=1e-4)
    with torch.no_grad():
        model.bias.zero_()
    torch.testing.assert_close(model(graph, x).logits, model(other, x).logits)


@pytest.mark.parametrize("word", ["linear", "performer"])
def test_an_attention_without_scores_is_refused(word):
    with pytest.raises(ZooError, match=f"{word}.*adds a bias to the score"):
        create_model("graphormer", 5, 3, attention=word)
