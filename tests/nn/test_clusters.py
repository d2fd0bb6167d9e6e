"""Attention inside of clusters equals its equations, and the clusters are those of the graph."""

import copy
from functools import partial

import pytest
import torch
from twins import assert_twins

import zoo
from zoo.canonical_form import mark_canonical
from zoo.config.options import pick
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs import clusters as graph_clusters
from zoo.graphs.clusters import parts
from zoo.graphs.examples import batch, preferential_attachment, renamed, short_path, tiny_graph
from zoo.nn import ATTENTIONS, Attend, RandomBatchAttention, naive, softmax
from zoo.nn.cluster_attention import ClusterAttention
from zoo.system.context import using

CPU = torch.device("cpu")


def of_each(graph, size):
    """The number of the part of each node, and that of the graph of each part."""
    sizes, order = parts(graph, size, CPU)
    counts = torch.tensor([count for each in sizes for count in each])
    order = torch.arange(len(graph.nodes())) if order is None else order
    owner = torch.empty_like(order)
    owner[order] = torch.arange(len(counts)).repeat_interleave(counts)
    return owner.tolist(), [i for i, each in enumerate(sizes) for _ in each]


def uniform(q, k, v):
    return v.mean(-3, keepdim=True).expand_as(v)


GRAPHS = {
    "one": lambda: preferential_attachment(250, 2),  # two parts of METIS's own
    "batch": lambda: batch([tiny_graph(), short_path(), tiny_graph()]),
}


@pytest.mark.parametrize("means", [False, True])
@pytest.mark.parametrize("attend", [softmax, uniform, "linear"])
@pytest.mark.parametrize("name, size", [("one", 125), ("batch", 5), ("batch", 20)])
def test_it_equals_its_equations(name, size, attend, means):
    graph = GRAPHS[name]()
    if attend == "linear":
        attend = pick(ATTENTIONS, "linear", softmax, 0)
    qkv = [x.requires_grad_() for x in torch.randn(3, graph.num_nodes(), 2, 4).double()]
    fast = Attend(ClusterAttention(attend, size, means=means))
    slow = partial(naive.clusters, attend, *of_each(graph, size), means)
    assert_twins(lambda: fast(graph, *qkv), lambda: slow(*qkv), qkv)


def test_parts_cut_fewer_edges_than_chance(real_graph):
    graph = real_graph("cora").graph
    owner = torch.tensor(of_each(graph, 256)[0])
    assert owner.bincount().max() < 1.1 * 256 and len(owner.bincount()) == 11
    src, dst = graph.edges()
    inside = (owner[src] == owner[dst])[src != dst].float().mean()
    assert inside > 0.75  # by chance 1 / 11


@pytest.mark.parametrize("count", [1, 3, 7, 40])
def test_each_graph_has_as_many_parts_as_are_asked_for(count):
    graph = batch([preferential_attachment(250, 2), tiny_graph(), short_path()])
    sizes, order = parts(graph, 256, CPU, count)
    for number, nodes in enumerate((250, 12, short_path().num_nodes())):
        assert len(sizes[number]) == min(count, nodes) and sum(sizes[number]) == nodes
    assert order is None or sorted(order.tolist()) == list(range(graph.num_nodes()))
    spec = {"name": "clusters", "parts": count, "inner": "softmax"}
    model = zoo.create_model("transformer", 5, 3, attention=spec).eval()
    x = torch.randn(graph.num_nodes(), 5)
    alone = torch.cat([model(one, x[rows]).logits for one, rows in _one_by_one(graph)])
    assert torch.allclose(model(graph, x).logits, alone, atol=1e-5)


def _one_by_one(graph):
    """Each graph of a batch, and its rows."""
    ends = torch.cumsum(graph.batch_num_nodes(), 0).tolist()
    starts = [0, *ends[:-1]]
    return zip(dgl.unbatch(graph), map(slice, starts, ends), strict=True)


def test_parts_are_found_once_for_a_graph(monkeypatch):
    found = []
    own = graph_clusters.clusters
    monkeypatch.setattr(graph_clusters, "clusters", lambda *args: found.append(1) or own(*args))
    graph = preferential_attachment(250, 2)
    model = zoo.create_model("transformer", 5, 3, attention={"name": "clusters", "size": 50})
    for _ in range(3):
        model(graph, torch.randn(250, 5))
    assert len(found) == 1
    graph.add_edges([3, 4], [4, 3])
    parts(graph, 50, CPU)
    assert len(found) == 2


def test_edges_in_another_order_are_cut_alike():
    graph = preferential_attachment(250, 2)
    order = torch.randperm(graph.num_edges())
    src, dst = (end[order] for end in graph.edges())
    assert of_each(mark_canonical(dgl.graph((src, dst))), 20) == of_each(graph, 20)


def test_renumbered_nodes_have_the_same_parts_where_they_have_identities():
    graph, order = preferential_attachment(250, 2), torch.randperm(250)
    identities = torch.arange(250) ** 2
    with using(identities=identities):
        before = torch.tensor(of_each(graph, 125)[0])
    with using(identities=identities[order]):
        after = torch.tensor(of_each(renamed(graph, order), 125)[0])
    assert torch.equal(before[order], after)


def test_layers_alternate_between_clusters_and_random_batches():
    spec = {"name": "clusters", "size": 5, "alternate": True}
    model = zoo.create_model("graphgps", 5, 3, layers=4, attention=spec)
    kinds = [type(layer.attend.attention) for layer in model.layers]
    assert kinds == [ClusterAttention, RandomBatchAttention] * 2
    graph, x = tiny_graph(), torch.randn(12, 5)
    before = model.eval()(graph, x).logits
    model.layers[1].attend.attention.seeds = [7]
    assert not torch.allclose(model(graph, x).logits, before)


@pytest.mark.parametrize("word", ["rba", "clusters"])
def test_it_is_not_for_the_sets_of_another_attention(word):
    with pytest.raises(ZooError, match=f"`clusters` has to be given .* inside of `{word}`"):
        pick(ATTENTIONS, {"name": word, "inner": {"name": "clusters"}}, softmax, 0)


def test_it_is_compiled_in_one_piece():
    graph, count = batch([tiny_graph(), short_path(), tiny_graph()]), []
    x = torch.randn(graph.num_nodes(), 5)
    spec = {"name": "clusters", "size": 5, "means": True}
    model = zoo.create_model("transformer", 5, 3, layers=1, attention=spec).eval()
    expected = model(graph, x).logits
    torch.compiler.reset()
    compiled = torch.compile(
        copy.deepcopy(model), backend=lambda module, _: count.append(1) or module.forward
    )
    torch.testing.assert_close(compiled(graph, x).logits, expected)
    assert len(count) == 1
