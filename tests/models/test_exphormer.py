"""Exphormer equals its equations, written here node by node, and its expander is one."""

import numpy as np
import pytest
import torch

from zoo.errors import ZooError
from zoo.graphs import expander
from zoo.graphs.examples import batch, preferential_attachment, renamed, short_path, tiny_graph
from zoo.graphs.expander import EXPANDER, Drawn, interaction
from zoo.system.context import using
from zoo.weights.create import create_model

PLAIN = {"dim": 6, "layers": 2, "heads": 2, "cycles": 1, "virtual": 2, "dropout": 0.0}
CPU = torch.device("cpu")


def affine(state, name, x):
    return x @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def layer_norm(state, name, x):
    mean = x.mean(-1, keepdim=True)
    spread = torch.sqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
    return (x - mean) / spread * state[f"{name}.weight"] + state[f"{name}.bias"]


def attention(state, name, z, heads, edges):
    """Edges are a list (source, kind) for each node."""
    width = len(state[f"{name}.attention.project.weight"]) // (3 * heads)
    q, k, v = affine(state, f"{name}.attention.project", z).chunk(3, -1)
    kinds, rows = state[f"{name}.attend.kinds"], []
    for node, others in enumerate(edges):
        outs = []
        for h in range(heads):
            columns = slice(h * width, (h + 1) * width)
            scores = torch.stack(
                [q[node, columns] @ (k[u, columns] * kinds[kind, h]) for u, kind in others]
            )
            weights = torch.exp(scores / width**0.5)
            values = torch.stack([v[u, columns] for u, _ in others])
            outs.append(weights / weights.sum() @ values)
        rows.append(torch.cat(outs))
    return affine(state, f"{name}.attention.merge", torch.stack(rows))


def edges_of(graph, options, cycles):
    """Who attends to whom in one graph, for cycles, each the order of its nodes."""
    n, kinds = graph.num_nodes(), 1
    edges = [[(int(u), 0) for u in graph.in_edges(node)[0]] for node in range(n)]
    for order in cycles:
        for one, other in zip(order, [*order[1:], order[0]], strict=True):
            edges[one].append((other, 1))
            edges[other].append((one, 1))
    kinds += bool(cycles)
    for i in range(options["virtual"]):
        for node in range(n):
            edges[node].append((n + i, kinds))
    for _ in range(options["virtual"]):
        edges.append([(node, kinds + 1) for node in range(n)])
    return edges


def twin(state, graph, x, options, cycles):
    src, dst = graph.edges()
    n = len(x)
    a = torch.zeros(n, n, dtype=x.dtype)
    a[dst, src] = 1.0
    d = a.sum(1)
    s = a / torch.sqrt(d[:, None] * d[None, :])
    edges = edges_of(graph, options, cycles)
    z = affine(state, "stem", x)
    if options["virtual"]:
        z = torch.cat([z, state["virtual"]])
    for i in range(options["layers"]):
        name = f"layers.{i}"
        local = s @ (z[:n] @ state[f"{name}.propagation.linear.weight"].T)
        local = local + state[f"{name}.propagation.bias"]
        local = layer_norm(state, f"{name}.propagation_norm", z[:n] + local)
        across = attention(state, name, z, options["heads"], edges)
        across = layer_norm(state, f"{name}.attention_norm", z + across)
        both = across + torch.cat([local, torch.zeros(len(z) - n, z.shape[1], dtype=x.dtype)])
        wide = affine(state, f"{name}.feed_forward.widen", both)
        change = affine(state, f"{name}.feed_forward.narrow", wide * (wide > 0))
        z = layer_norm(state, f"{name}.feed_forward_norm", both + change)
    return affine(state, "head", z[:n])


@pytest.mark.parametrize(
    "options",
    [PLAIN, {**PLAIN, "cycles": 2, "virtual": 0, "layers": 1}, {**PLAIN, "cycles": 0, "heads": 4}],
    ids=["all", "no virtual node", "no expander"],
)
def test_it_equals_its_equations(options, tiny, monkeypatch):
    graph, x, _ = tiny
    cycles = [torch.randperm(12) for _ in range(options["cycles"])]
    given = iter(10 * cycles)
    monkeypatch.setattr(expander, "random_order", lambda n, seed: next(given))
    x = x.double().requires_grad_()
    model = create_model("exphormer", 5, 3, **options).double().train()
    state = dict(model.named_parameters())
    with torch.no_grad():
        for layer in model.layers:
            layer.attend.kinds.normal_()
    inputs = [x, *state.values()]
    slow = twin(state, graph, x, options, [cycle.tolist() for cycle in cycles])
    fast = model(graph, x).logits
    torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)
    weight = torch.randn_like(fast)
    ours = torch.autograd.grad((fast * weight).sum(), inputs, retain_graph=True)
    theirs = torch.autograd.grad((slow * weight).sum(), inputs)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_the_expander_is_regular_and_has_a_spectral_gap():
    """A random graph of degree d has its second eigenvalue near 2 (d - 1)^1/2 (Friedman, 2008)."""
    graph, drawn = preferential_attachment(400, 2), Drawn(cycles=3, virtual=0, seed=0)
    edges = interaction(graph, drawn, CPU).kinds[drawn.kinds.index(EXPANDER)]
    src, dst = (each.numpy() for each in edges.edges())
    a = np.zeros((400, 400))
    np.add.at(a, (dst, src), 1)
    assert (a == a.T).all() and (a.sum(0) == 6).all() and not a.diagonal().any()
    values = np.sort(np.abs(np.linalg.eigvalsh(a)))
    assert values[-1] == pytest.approx(6) and values[-2] < 1.1 * 2 * 5**0.5


def test_it_is_drawn_once_inside_each_graph():
    drawn = Drawn(cycles=2, virtual=1, seed=3)
    together = batch([tiny_graph(), short_path(), tiny_graph()])
    found = interaction(together, drawn, CPU)
    assert interaction(together, drawn, CPU).union is found.union
    owner = torch.tensor([0] * 12 + [1] * 3 + [2] * 12 + [0, 1, 2])
    src, dst = found.union.edges()
    assert torch.equal(owner[src], owner[dst]) and len(src) == len(found.order)
    alone = interaction(tiny_graph(), drawn, CPU).kinds[1].edges()
    src, dst = found.kinds[1].edges()
    first = owner[dst] == 0
    assert torch.equal(src[first], alone[0]) and torch.equal(dst[first], alone[1])
    other = interaction(tiny_graph(), drawn._replace(seed=4), CPU).kinds[1].edges()
    assert not torch.equal(other[0], alone[0])


def test_renumbered_nodes_have_the_same_expander_where_they_have_identities():
    graph, order, drawn = tiny_graph(), torch.randperm(12), Drawn(2, 0, 0)
    identities = torch.arange(12) ** 2
    with using(identities=identities):
        src, dst = interaction(graph, drawn, CPU).kinds[1].edges()
    with using(identities=identities[order]):
        new_src, new_dst = interaction(renamed(graph, order), drawn, CPU).kinds[1].edges()
    pairs = {*zip(order[new_src].tolist(), order[new_dst].tolist(), strict=True)}
    assert pairs == {*zip(src.tolist(), dst.tolist(), strict=True)}


def test_another_attention_is_refused_in_a_sentence():
    with pytest.raises(ZooError, match="no option 'attention'; .* `graphgps` takes any"):
        create_model("exphormer", 5, 3, attention="rba")
