"""Sequences as graphs: edge lists written out by hand, and by loops over pairs of tokens."""

import math
import warnings

import pytest
import torch
from needs_dgl import BACKENDS

from zoo.canonical_form import check_graph
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs import naive, sequences, spmm
from zoo.graphs.adjacency import degrees, edge_dst
from zoo.graphs.sequences import cross_graph, grid_graph, sequence_graph, top_edges


def links(graph):
    """Every edge as (source, target), in the order of their numbers."""
    return list(zip(*(each.tolist() for each in graph.edges()), strict=True))


def lists(graph):
    """The sources of each target, in the order in which they lie."""
    offsets, sources, numbers = graph.adj_tensors("csc")
    assert numbers.tolist() == list(range(graph.num_edges()))
    return [each.tolist() for each in sources.tensor_split(offsets[1:-1])]


def slow_sequences(lengths, window, skip, causal):
    found, first = [], 0
    for n in lengths:
        s = max(window + 1, math.ceil(math.sqrt(n))) if skip is None else skip
        for i in range(n):
            for j in range(n):
                both_skip = s > 0 and i % s == 0 and j % s == 0
                if (abs(i - j) <= window or both_skip) and not (causal and j > i):
                    found.append((first + j, first + i))
        first += n
    return found


def slow_grid(rows, columns, window, skip, class_token):
    places = [(r, c) for r in range(rows) for c in range(columns)]
    last = rows * columns
    found = []
    for i, (r, c) in enumerate(places):
        for j, (y, x) in enumerate(places):
            crossings = skip > 0 and not any(each % skip for each in (r, c, y, x))
            if max(abs(r - y), abs(c - x)) <= window or crossings:
                found.append((j, i))
        found += [(last, i)] if class_token else []
    return found + ([(j, last) for j in range(last + 1)] if class_token else [])


def slow_pairs(sources, targets, near):
    found, first, row = [], 0, 0
    for s, t in zip(sources, targets, strict=True):
        for i in range(t):
            for j in range(s):
                if near is None or abs(j - min(i, s - 1)) <= near:
                    found.append((first + j, row + i))
        first, row = first + s, row + t
    return found


def test_a_window_by_hand():
    graph = sequence_graph([4, 1, 2], window=1)
    assert lists(graph) == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3], [4], [5, 6], [5, 6]]
    assert graph.batch_num_nodes().tolist() == [4, 1, 2]
    assert graph.batch_num_edges().tolist() == [10, 1, 4]
    assert lists(sequence_graph([3], window=0)) == [[0], [1], [2]]
    parts = dgl.unbatch(graph)
    assert lists(parts[0]) == [[0, 1], [0, 1, 2], [1, 2, 3], [2, 3]]
    assert lists(parts[2]) == [[0, 1], [0, 1]]


def test_skip_nodes_by_hand():
    """Tokens 0, 3 and 6 of the first sequence, and 0 and 3 of the second (7 and 10)."""
    assert lists(sequence_graph([7, 4], window=1, skip=3)) == [
        [0, 1, 3, 6],
        [0, 1, 2],
        [1, 2, 3],
        [0, 2, 3, 4, 6],
        [3, 4, 5],
        [4, 5, 6],
        [0, 3, 5, 6],
        [7, 8, 10],
        [7, 8, 9],
        [8, 9, 10],
        [7, 9, 10],
    ]


def test_causal_edges_by_hand():
    graph = sequence_graph([5, 2], window=1, skip=2, causal=True)
    assert lists(graph) == [[0], [0, 1], [0, 1, 2], [2, 3], [0, 2, 3, 4], [5], [5, 6]]


def test_a_grid_by_hand():
    """Two rows of three patches, and the class token, node 6; crossings are 0 and 2."""
    assert lists(grid_graph(2, 3, skip=2, class_token=True)) == [
        [0, 1, 2, 3, 4, 6],
        [0, 1, 2, 3, 4, 5, 6],
        [0, 1, 2, 4, 5, 6],
        [0, 1, 3, 4, 6],
        [0, 1, 2, 3, 4, 5, 6],
        [1, 2, 4, 5, 6],
        [0, 1, 2, 3, 4, 5, 6],
    ]
    graph = grid_graph(1, 2, window=0, copies=2)
    assert lists(graph) == [[0], [1], [2], [3]]
    assert graph.batch_num_nodes().tolist() == graph.batch_num_edges().tolist() == [2, 2]


def test_cross_edges_by_hand():
    graph = cross_graph([3, 2], [2, 4], near=1)
    assert lists(graph) == [[0, 1], [0, 1, 2], [3, 4], [3, 4], [3, 4], [3, 4]]
    graph = cross_graph([3, 1], [5, 1], near=0)
    assert lists(graph) == [[0], [1], [2], [2], [2], [3]]
    graph = cross_graph([2, 1], [1, 2])
    assert lists(graph) == [[0, 1], [2], [2]]
    assert (graph.is_block, graph.num_src_nodes(), graph.num_dst_nodes()) == (True, 3, 3)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("skip", [0, 1, 2, 5, 100, None])
@pytest.mark.parametrize("window", [0, 1, 3, 50])
def test_sequences_equal_the_double_loop(window, skip, causal):
    lengths = torch.randint(1, 30, (6,)).tolist() + [1, 2, 16, 17]
    graph = sequence_graph(lengths, window=window, skip=skip, causal=causal)
    assert links(graph) == slow_sequences(lengths, window, skip, causal)
    assert graph.idtype == torch.int64
    counts = torch.tensor([len(slow_sequences([n], window, skip, causal)) for n in lengths])
    assert torch.equal(graph.batch_num_edges(), counts)


@pytest.mark.parametrize("class_token", [False, True])
@pytest.mark.parametrize("skip", [0, 1, 2, 3])
@pytest.mark.parametrize("size", [(1, 1), (1, 6), (5, 1), (4, 7), (6, 3)])
@pytest.mark.parametrize("window", [0, 1, 2, 9])
def test_grids_equal_the_double_loop(size, window, skip, class_token):
    options = {"window": window, "skip": skip, "class_token": class_token}
    one, three = grid_graph(*size, **options), grid_graph(*size, **options, copies=3)
    assert links(one) == slow_grid(*size, window, skip, class_token)
    n = one.num_nodes()
    assert links(three) == [(i + k * n, j + k * n) for k in range(3) for i, j in links(one)]


@pytest.mark.parametrize("near", [None, 0, 1, 4, 40])
def test_pairs_equal_the_double_loop(near):
    read, written = (torch.randint(1, 14, (8,)).tolist() for _ in range(2))
    graph = cross_graph(read, written, near=near)
    assert links(graph) == slow_pairs(read, written, near)
    sizes = torch.tensor(read).repeat_interleave(torch.tensor(written))
    fewest = sizes if near is None else sizes.clamp(max=near + 1)
    assert (graph.in_degrees() >= fewest).all()


def test_a_longer_target_keeps_its_edges():
    short, long = cross_graph([6], [3], near=1), cross_graph([6], [9], near=1)
    assert links(long)[: short.num_edges()] == links(short)


def test_skip_edges_stay_linear():
    for n in (1, 2, 100, 10_000):
        skips = sequence_graph([n], window=0, skip=None).num_edges() - n
        assert skips <= n


def test_nothing_makes_an_empty_graph():
    graph, block = sequence_graph([], window=2, skip=None), cross_graph([], [])
    assert (graph.num_nodes(), graph.num_edges(), len(graph.batch_num_nodes())) == (0, 0, 0)
    assert (block.num_src_nodes(), block.num_dst_nodes(), block.num_edges()) == (0, 0, 0)


@pytest.mark.parametrize("given", [torch.tensor([3, 2]), (3, 2), torch.tensor([3, 2]).numpy()])
def test_lengths_may_be_an_array(given):
    assert links(sequence_graph(given, window=1)) == links(sequence_graph([3, 2], window=1))


def test_models_take_them_as_they_are(monkeypatch):
    """They are remembered: a look at the causal ones would find one direction only."""
    monkeypatch.setattr("zoo.canonical_form._check_form", None)
    for graph in (
        sequence_graph([3, 4], window=1, skip=None),
        sequence_graph([3, 4], window=1, causal=True),
        grid_graph(3, 3, class_token=True, copies=2),
    ):
        check_graph(graph)


def test_they_are_canonical(monkeypatch):
    monkeypatch.setattr(sequences, "mark_canonical", lambda graph: graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_graph(sequence_graph([9, 1, 5], window=1, skip=3))
        check_graph(grid_graph(5, 4, skip=2, class_token=True, copies=2))
    with pytest.warns(UserWarning, match="one direction only"):
        check_graph(sequence_graph([3, 4], window=1, causal=True))


@pytest.mark.parametrize(
    "call,said",
    [
        (lambda: sequence_graph([3, 0], window=1), r"`lengths` .* at least 1, not \[3, 0\]"),
        (lambda: sequence_graph([2.5], window=1), "whole"),
        (lambda: sequence_graph([True], window=1), "whole"),
        (lambda: sequence_graph(3, window=1), r"Write a list such as `\[12, 7\]`"),
        (lambda: sequence_graph([[1], [1, 2]], window=1), "Write a list"),
        (lambda: sequence_graph([10**30], window=1), "Write a list"),
        (lambda: sequence_graph([3], window=-1), "window: .* not -1"),
        (lambda: sequence_graph([3], window=1, skip=True), "skip: .* not True"),
        (lambda: sequence_graph([3], window=1, skip=-2), "skip: .* not -2"),
        (lambda: sequence_graph([10**6], window=10**6), "GB are free. Write a smaller window"),
        (lambda: sequence_graph([10**6], window=0, skip=1), "GB are free"),
        (lambda: sequence_graph([10**9] * 10**3, window=0), "GB are free"),
        (lambda: grid_graph(0, 2), "rows: .* not 0"),
        (lambda: grid_graph(2, 2, copies=0), "copies: .* not 0"),
        (lambda: grid_graph(10**6, 10**6), "GB are free"),
        (lambda: grid_graph(100, 100, copies=10**9), "GB are free"),
        (lambda: cross_graph([3, 2], [1]), "2 source and 1 target sequences"),
        (lambda: cross_graph([3], [0]), "`targets` are"),
        (lambda: cross_graph([3], [2], near=-1), "near: .* not -1"),
        (lambda: cross_graph([10**7], [10**6]), "GB are free"),
    ],
)
def test_what_is_wrong_is_said(call, said):
    with pytest.raises(ZooError, match=said):
        call()


def slow_top(graph, scores, k):
    kept = []
    for target in range(graph.num_dst_nodes()):
        edges = [e for e, (_, dst) in enumerate(links(graph)) if dst == target]
        strength = {e: sum(scores[e].tolist()) / scores.shape[1] for e in edges}
        kept += sorted(edges, key=lambda e: (-strength[e], e))[:k]
    return sorted(kept)


@pytest.mark.parametrize("k", [1, 2, 3, 100])
@pytest.mark.parametrize("shuffled", [False, True])
def test_the_strongest_edges(k, shuffled):
    """Scores are few small numbers: many are equal, and sums of them exact."""
    graph = cross_graph([5, 2, 7], [3, 4, 2], near=None)
    if shuffled:  # edges in no order of targets
        order = torch.randperm(graph.num_edges())
        ends = tuple(each[order] for each in graph.edges())
        graph = dgl.create_block(ends, graph.num_src_nodes(), graph.num_dst_nodes())
    scores = torch.randint(3, (graph.num_edges(), 2)).float()
    block, numbers = top_edges(graph, scores, k)
    assert numbers.tolist() == slow_top(graph, scores, k)
    assert links(block) == [links(graph)[e] for e in numbers]
    assert block.is_block and block.num_dst_nodes() == 9 and block.num_src_nodes() == 14
    assert torch.equal(block.in_degrees(), graph.in_degrees().clamp(max=k))
    for like in (graph.int(), graph.long()):
        assert top_edges(like, scores, k)[0].idtype == like.idtype


def test_the_strongest_edges_by_hand():
    graph = cross_graph([3], [2])  # edges 0 to 2 lead to target 0
    scores = torch.tensor([[1.0, 3], [9, 0], [2, 2], [5, 5], [5, 5], [6, 4]])
    assert top_edges(graph, scores, 2)[1].tolist() == [0, 1, 3, 4]


def test_the_strongest_edges_of_what_is_no_block():
    graph = cross_graph([3], [2])
    for wrong in (lambda: top_edges(sequence_graph([3], window=1), torch.ones(7, 1), 1),
                  lambda: top_edges(graph, torch.ones(5, 1), 1)):  # fmt: skip
        with pytest.raises(ZooError, match="top_edges takes a block"):
            wrong()
    with pytest.raises(ZooError, match="k: .* not 0"):
        top_edges(graph, torch.ones(6, 1), 0)


HEADS, WIDTH = 2, 3


def over_edges(along, graph, source, target, scores):
    """What message passing computes: sums, products, weights, sums of neighbours."""
    weights = along.edge_softmax(graph, scores)
    return (
        along.edge_sum(graph, source.sum(-1), target.sum(-1)),
        along.edge_dot(graph, source, target),
        weights,
        along.weighted_sum(graph, source, weights),
        along.neighbour_sum(graph, source),
    )


def gradients(out, given):
    options = {"retain_graph": True, "allow_unused": True, "materialize_grads": True}
    return torch.autograd.grad(out.sum(), given, **options)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [torch.float, torch.double])
@pytest.mark.parametrize("made", ["full", "near", "top", "causal"])
def test_message_passing_on_them(made, kind, backend, monkeypatch):
    """From 9 sources to 11 targets: values and gradients equal those of the naive twins."""
    monkeypatch.setattr(spmm, "_backend", lambda *_: getattr(spmm, backend))
    full = cross_graph([5, 1, 3], [4, 2, 5])
    graph = {
        "full": lambda: full,
        "near": lambda: cross_graph([5, 1, 3], [4, 2, 5], near=1),
        "top": lambda: top_edges(full, torch.rand(full.num_edges(), 1), 2)[0],
        "causal": lambda: sequence_graph([5, 1, 3], window=1, skip=2, causal=True),
    }[made]()
    sizes = graph.num_src_nodes(), graph.num_dst_nodes()
    source, target = (torch.randn(n, HEADS, WIDTH, dtype=kind) for n in sizes)
    given = [source, target, torch.randn(graph.num_edges(), HEADS, dtype=kind)]
    given = [each.requires_grad_() for each in given]
    fast, slow = (over_edges(each, graph, *given) for each in (spmm, naive))
    for one, other in zip(fast, slow, strict=True):
        torch.testing.assert_close(one, other)
        weight = torch.randn_like(other)
        ours, theirs = (gradients(each * weight, given) for each in (one, other))
        torch.testing.assert_close(ours, theirs)
    assert degrees(graph).tolist() == graph.in_degrees().tolist()
    assert edge_dst(graph).tolist() == [target for _, target in links(graph)]
