"""Propagation equals its naive twins, values and gradients, on every back end."""

import gc
import weakref
from functools import partial

import pytest
import torch
from needs_dgl import BACKENDS, needs_dgl
from twins import assert_twins

import zoo
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs import naive, spmm
from zoo.graphs.adjacency import degrees, walks
from zoo.graphs.spmm import (
    edge_dot,
    edge_softmax,
    neighbour_sum,
    weighted_sum,
)
from zoo.nn import naive as propagations
from zoo.nn.propagation import (
    PROPAGATIONS,
    GraphAttention,
    NeighbourAttention,
    build_propagation,
    gcn,
    mean,
    relation,
)
from zoo.system.environment import using_threads
from zoo.testing import propagation_promises


@pytest.fixture(params=BACKENDS)
def backend(request, monkeypatch):
    chosen = getattr(spmm, request.param)
    monkeypatch.setattr(spmm, "_backend", lambda graph, x: chosen)
    monkeypatch.setattr(spmm, "_NUMBERS", 40)  # a few edges at a time


def random_graph(n=9, edges=20, *, loops):
    """A directed graph with repeated edges and isolated nodes."""
    graph = dgl.graph((torch.randint(n - 2, (edges,)), torch.randint(n - 2, (edges,))), num_nodes=n)
    return dgl.add_self_loop(graph) if loops else graph


def its_twin(module, graph, x):
    """The naive twin of graph attention with the weights of a module: output and weights."""
    return propagations.graph_attention(graph, x, module.source, module.target, module.slope)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("fast,slow", [(gcn, propagations.gcn), (mean, propagations.mean)])
@pytest.mark.parametrize("seed", range(3))
def test_functions_equal_their_twins(backend, fast, slow, loops, seed):
    torch.manual_seed(seed)
    graph = random_graph(loops=loops)
    x = torch.randn(9, 4, dtype=torch.double, requires_grad=True)
    assert_twins(lambda: fast(graph, x), lambda: slow(graph, x), [x])


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("loops", [True, False])
def test_relations_equal_their_twin(backend, order, loops):
    """Of a directed graph: A, A^2 and A^4, whose in-degrees and out-degrees differ."""
    graph = dgl.to_simple(random_graph(n=11, edges=14, loops=loops))
    x = torch.randn(11, 4, dtype=torch.double, requires_grad=True)
    fast, slow = lambda: relation(graph, x, order), lambda: propagations.relation(graph, x, order)
    assert_twins(fast, slow, [x])
    assert order == 0 or walks(graph, order).num_edges() != graph.num_edges()


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("dim,heads", [(6, 1), (6, 3), (5, 2), (4, 5)])
def test_graph_attention_equals_its_twin(backend, dim, heads, loops):
    graph = random_graph(loops=loops)
    module = GraphAttention(dim, heads, 0.2).double()
    x = torch.randn(9, dim, dtype=torch.double, requires_grad=True)
    inputs = [x, module.source, module.target]
    assert torch.equal(module(graph, x), module.with_weights(graph, x)[0])
    for part in (0, 1):
        assert_twins(
            lambda part=part: module.with_weights(graph, x)[part],
            lambda part=part: its_twin(module, graph, x)[part],
            inputs,
        )


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("dim,heads,gate", [(6, 1, False), (6, 3, True), (5, 2, True)])
def test_attention_to_neighbours_equals_its_twin(backend, dim, heads, gate, loops):
    """Queries and keys are maps of x, values x itself; the gate is UniMP's."""
    graph = random_graph(loops=loops)
    module = NeighbourAttention(dim, heads, gate=gate).double()
    x = torch.randn(9, dim, dtype=torch.double, requires_grad=True)

    def slow(part):
        q, k = (each.unflatten(1, (heads, -1)) for each in module.project(x).chunk(2, 1))
        v = torch.nn.functional.pad(x, (0, heads * q.shape[2] - dim)).unflatten(1, (heads, -1))
        out, weights = propagations.attend_to_neighbours(graph, q, k, v)
        near = out.flatten(1)[:, :dim]
        if gate:
            own = x @ module.own.weight.T + module.own.bias
            both = torch.cat([near, own, near - own], 1)
            beta = 1 / (1 + torch.exp(-both @ module.gate.weight.T))
            near = (1 - beta) * near + beta * own
        return (near, weights)[part]

    assert torch.equal(module(graph, x), module.with_weights(graph, x)[0])
    for part in (0, 1):
        assert_twins(
            lambda part=part: module.with_weights(graph, x)[part],
            lambda part=part: slow(part),
            [x, *module.parameters()],
        )


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("edges", [20, 200])  # 200 are more than there are pairs of nodes
def test_edge_kernels_equal_their_twins(backend, loops, edges):
    graph = random_graph(edges=edges, loops=loops)
    a, b = torch.randn(2, 9, 3, 4, dtype=torch.double).requires_grad_()
    w = torch.randn(graph.num_edges(), 3, dtype=torch.double, requires_grad=True)
    for name, given in {
        "neighbour_sum": [a],
        "weighted_sum": [a, w],
        "edge_sum": [a[..., 0], b[..., 0]],
        "edge_dot": [a, b],
        "edge_softmax": [w],
    }.items():
        both = (partial(getattr(each, name), graph, *given) for each in (spmm, naive))
        assert_twins(*both, given, second=True)


@pytest.mark.parametrize("weighted", [True, False])
def test_sums_of_messages_equal_their_twin(backend, weighted):
    graph, shapes = random_graph(loops=True), [(9, 4), (29, 3), (4, 3), (4,), (29,)]
    given = [torch.randn(each, dtype=torch.double, requires_grad=True) for each in shapes]
    asked = given if weighted else given[:-1]
    inputs = given if weighted else [*asked, None]
    both = (partial(each.message_sum, graph, *inputs) for each in (spmm, naive))
    assert_twins(*both, asked, second=True)


def test_nothing_is_kept_per_edge_and_feature(backend):
    """For the gradient there are rows per node, (N, H, D), and numbers per edge, (E, H)."""
    n, heads, width = 20, 2, 32
    graph = dgl.graph((torch.arange(n).repeat_interleave(n), torch.arange(n).repeat(n)))
    module, x = GraphAttention(heads * width, heads, 0.2), torch.randn(n, heads * width)
    q = torch.randn(n, heads, width, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda each: (kept.append(each.numel()), each)[1], lambda each: each
    ):
        module(graph, x.requires_grad_()).sum().backward()
        edge_dot(graph, q, q).sum().backward()
    assert max(kept) <= max(n * heads * width, n * n * heads)


def test_edges_that_are_there_often_in_single_precision(backend):
    graph = random_graph(n=4, edges=30, loops=False)
    x, y = torch.randn(2, 4, 3, 5)
    src, dst = graph.edges()
    torch.testing.assert_close(edge_dot(graph, x, y), (x[src] * y[dst]).sum(-1))


@needs_dgl
@pytest.mark.parametrize("heads", [1, 3])
def test_bags_in_single_precision(heads, monkeypatch):
    """Sums have the very bits of DGL's, whatever the number of threads; dot products are near."""
    torch.manual_seed(0)
    graph = random_graph(n=700, edges=9000, loops=False)  # the last two nodes have no edges
    x, y = (torch.randn(700, heads, 20, requires_grad=True) for _ in range(2))
    w = torch.rand(graph.num_edges(), heads, requires_grad=True)
    found = []
    for backend, threads in (
        (spmm._Dgl, 2),
        (spmm._Bags, 2),
        (spmm._Bags, 1),
    ):
        monkeypatch.setattr(spmm, "_backend", lambda graph, x, chosen=backend: chosen)
        with using_threads(threads):
            sums = [neighbour_sum(graph, x), weighted_sum(graph, x, w)]
            dots = edge_dot(graph, x, y)
            loss = sum((each * each.detach().cos()).sum() for each in (*sums, dots))
            found.append([*sums, dots, *torch.autograd.grad(loss, (x, y, w))])
    theirs, ours, alone = found
    assert torch.equal(ours[0], theirs[0])
    assert all(map(torch.equal, ours, alone))
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_bags_of_many_neighbours_are_summed_some_columns_at_a_time(monkeypatch):
    torch.manual_seed(0)
    graph = random_graph(n=40, edges=3000, loops=False)
    x, w = torch.randn(40, 3, 50, requires_grad=True), torch.rand(3000, 3)
    found = []
    for columns in (16, 1000):
        monkeypatch.setattr(spmm, "_COLUMNS", columns)
        out = neighbour_sum(graph, x), weighted_sum(graph, x, w)
        found.append([*out, *torch.autograd.grad(out[0].cos().sum(), x)])
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("shift", [-1e3, 0.0, 1e3])
def test_the_softmax_over_edges_survives_large_scores(backend, shift):
    graph = random_graph(loops=True)
    scores = torch.randn(graph.num_edges(), 2)
    exact = edge_softmax(graph, scores.double() + shift)
    assert edge_softmax(graph, 1e4 * scores).isfinite().all()
    torch.testing.assert_close(edge_softmax(graph, scores.double()), exact)


def test_half_precision_on_edges_is_computed_in_fp32(backend):
    graph, q = random_graph(loops=True), torch.randn(9, 2, 64).bfloat16()
    scores = edge_dot(graph, q, q)
    torch.testing.assert_close(scores, edge_dot(graph, q.float(), q.float()))
    weights = edge_softmax(graph, scores.bfloat16())
    assert scores.dtype == weights.dtype == torch.float
    assert weighted_sum(graph, q, weights).dtype == torch.bfloat16


def test_a_stack_of_features_is_propagated_column_by_column(backend):
    graph, x = random_graph(loops=True), torch.randn(9, 3, 4)
    both = torch.stack([gcn(graph, x[:, i]) for i in range(3)], dim=1)
    torch.testing.assert_close(gcn(graph, x), both)


def test_second_derivatives(backend):
    graph = random_graph(n=6, edges=8, loops=True)
    x = torch.randn(6, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: gcn(graph, x).sin(), x)


def test_second_derivatives_of_graph_attention_by_torch_alone(monkeypatch):
    """DGL's softmax over edges has first derivatives only: its second ones are wrong."""
    monkeypatch.setattr(spmm, "_backend", lambda graph, x: spmm._Torch)
    graph, module = random_graph(n=6, edges=8, loops=True), GraphAttention(4, 2, 0.2).double()
    x = torch.randn(6, 4, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda x: module(graph, x).sin(), x)
    q = x.unflatten(1, (2, 2))
    assert torch.autograd.gradgradcheck(lambda q: edge_dot(graph, q, q.sin()).sin(), q)


@zoo.testing.promises(each for word in PROPAGATIONS for each in propagation_promises(word))
def test_propagation(backend, promise):
    promise()


def test_half_precision_sums_in_fp32(backend):
    """4,097 ones added in bfloat16 would stop at 256."""
    n = 4097
    star = dgl.graph((torch.arange(n), torch.zeros(n, dtype=torch.long)), num_nodes=n)
    total = neighbour_sum(star, torch.ones(n, 1).bfloat16())
    assert total.dtype == torch.bfloat16 and abs(total[0].item() - n) < n / 128


def test_walks_are_found_once(tiny, monkeypatch):
    graph, x, _ = tiny
    known = relation(graph, x, 2)
    with monkeypatch.context() as patch:
        patch.setattr(graph, "adj_tensors", None)
        assert torch.equal(relation(graph, x, 2), known)
    assert walks(graph, 0) is graph and not graph.ndata and not graph.edata
    graph.add_edges([0], [6])
    torch.testing.assert_close(
        relation(graph, x, 2), propagations.relation(graph, x.double(), 2).float()
    )


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_walks_over_a_hub_are_refused_before_there_is_no_room(kind, monkeypatch):
    monkeypatch.setattr("zoo.graphs.adjacency.available_memory", lambda: 8e9)
    n = 50_001  # its square is beyond int32
    spokes, hub = torch.arange(1, n), torch.zeros(n - 1, dtype=torch.long)
    star = dgl.graph((torch.cat([spokes, hub]), torch.cat([hub, spokes])), num_nodes=n)
    with pytest.raises(ZooError, match="2,500,000,000 pairs"):
        walks(star.int() if kind == "int32" else star, 1)


def test_walks_are_forgotten_with_the_graph():
    graph = random_graph(loops=True)
    relation(graph, torch.randn(9, 2), 2)
    longer = [weakref.ref(walks(graph, order)) for order in (1, 2)]
    assert all(each() is not None for each in longer)
    del graph
    gc.collect()
    assert all(each() is None for each in longer)


def test_added_edges_are_seen(tiny):
    graph, x, _ = tiny
    before = degrees(graph).clone()
    graph.add_edges([0], [6])
    assert degrees(graph)[6] == before[6] + 1
    torch.testing.assert_close(gcn(graph, x.double()), propagations.gcn(graph, x.double()))


@pytest.mark.parametrize("word", zoo.PROPAGATIONS)
def test_what_is_built_is_a_module(word):
    layers = torch.nn.ModuleList(build_propagation(word, 8) for _ in range(2))
    graph, x = zoo.load_graph("karate").graph, torch.randn(34, 8)
    assert layers[0](graph, x).shape == x.shape
