"""What is known of a graph is found once; who sums over its neighbours follows from where it is."""

import gc
import weakref

import pytest
import torch

from zoo.canonical_form import WEIGHT
from zoo.dgl import HAS_DGL, dgl
from zoo.graphs import spmm
from zoo.graphs.adjacency import ends
from zoo.graphs.examples import tiny_graph
from zoo.graphs.sequences import cross_graph, sequence_graph
from zoo.graphs.spmm import (
    edge_dot,
    edge_softmax,
    edge_sum,
    neighbour_sum,
    place,
    weighted_sum,
)
from zoo.nn.propagation import gcn


def test_the_ends_of_the_edges_are_those_of_the_graph(tiny):
    graph, _, _ = tiny
    assert all(map(torch.equal, ends(graph), graph.edges()))
    assert ends(graph)[0] is ends(graph, torch.device("cpu"))[0]


@pytest.mark.parametrize("form", ["csc", "int32"])
def test_bags_of_graphs_as_they_lie(form, tiny):
    """On-disk graphs have CSC parts alone and no numbers of edges; others may be of int32."""
    graph, x, _ = tiny
    indptr, indices, numbers = graph.adj_tensors("csc")
    parts = (indptr, indices, []) if form == "csc" else (indptr, indices, numbers)
    like = dgl.graph(("csc", parts), num_nodes=12)
    like = like.int() if form == "int32" else like
    weights = torch.rand(graph.num_edges(), 1)
    inside = weights[numbers] if form == "csc" else weights
    x = x.unsqueeze(1).requires_grad_()
    one, other = weighted_sum(like, x, inside), weighted_sum(graph, x, weights)
    assert torch.equal(one, other) and torch.equal(neighbour_sum(like, x), neighbour_sum(graph, x))
    gradients = (torch.autograd.grad(each.square().sum(), x)[0] for each in (one, other))
    torch.testing.assert_close(*gradients)  # the order of edges against them may be another one
    dots = edge_dot(graph, x, x)
    torch.testing.assert_close(edge_dot(like, x, x), dots[numbers] if form == "csc" else dots)


def test_the_graph_is_read_once_and_never_written(tiny, monkeypatch):
    graph, x, _ = tiny
    gcn(graph, x)
    monkeypatch.setattr(graph, "in_degrees", None)
    gcn(graph, x)
    assert not graph.ndata and not graph.edata


def test_features_elsewhere_use_torch(tiny):
    graph, x, _ = tiny
    assert spmm._backend(graph, x) is spmm._Bags
    assert spmm._backend(graph, x.double()) is (spmm._Dgl if HAS_DGL else spmm._Torch)
    assert spmm._backend(graph, x.to("meta")) is spmm._Torch


def test_a_graph_stays_where_dgl_cannot_follow(tiny, monkeypatch):
    graph, _, _ = tiny
    assert place(graph, "cpu").device.type == "cpu"

    def refuse(device):
        raise dgl.DGLError("Device API cuda is not enabled.")

    monkeypatch.setattr(graph, "to", refuse)
    assert place(graph, "cuda") is graph


def test_a_graph_that_is_no_longer_used_is_freed():
    """What is remembered of a graph holds it by no strong reference: batches would pile up."""
    makers = (
        tiny_graph,
        lambda: sequence_graph([5, 3], window=1),
        lambda: cross_graph([5, 3], [2, 4]),
    )
    for make in makers:
        made = make()
        scores = torch.randn(made.num_edges(), 2, requires_grad=True)
        values = torch.randn(made.num_src_nodes(), 2, 3, requires_grad=True)
        weighted_sum(made, values, edge_softmax(made, scores)).sum().backward()
        edge_sum(made, values[..., 0], values[: made.num_dst_nodes(), :, 0]).sum().backward()
        neighbour_sum(made, values).sum().backward()
        left = weakref.ref(made)
        del made
        gc.collect()
        assert left() is None


def test_what_is_found_is_kept_however_often_weights_were_written(tiny, monkeypatch):
    graph, _, _ = tiny
    graph.edata[WEIGHT] = torch.ones(graph.num_edges())
    for _ in range(300):
        graph.edata[WEIGHT].add_(1)
    known = ends(graph)
    assert ends(graph)[0] is known[0]
    graph.edata[WEIGHT].add_(1)
    assert ends(graph)[0] is not known[0]
