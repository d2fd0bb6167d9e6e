"""The zoo's own graph beside DGL's: each method gives the same, in the same order."""

import contextlib
import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from needs_dgl import needs_dgl

from zoo import own_graph
from zoo.dgl import DGLGraph, dgl
from zoo.errors import ZooError

KINDS = st.sampled_from([torch.int32, torch.int64])


@st.composite
def ends(draw, most=7):
    """Nodes, and pairs of them in any order, repeated or not."""
    nodes = draw(st.integers(1, most))
    number = st.integers(0, nodes - 1)
    pairs = draw(st.lists(st.tuples(number, number), max_size=14))
    src, dst = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T.contiguous()
    return nodes, src, dst, draw(KINDS)


def both(given):
    """The same graph of both, with data."""
    nodes, src, dst, kind = given
    graphs = [each.graph((src, dst), num_nodes=nodes, idtype=kind) for each in (dgl, own_graph)]
    for graph in graphs:
        graph.ndata["x"] = torch.arange(2.0 * nodes).view(nodes, 2)
        graph.edata["w"] = torch.arange(float(len(src)))
    return graphs


def said(value):
    """A value as plain data, with types of tensors."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, tuple | list):
        return [said(each) for each in value]
    return value


def data_of(graph):
    return [
        {key: said(data[key]) for key in sorted(data)}
        for data in (graph.srcdata, graph.dstdata, graph.edata)
    ]


def facts(graph):
    """All that can be asked of a graph."""
    forms = [graph.adj_tensors(form)[: 2 if form == "coo" else 3] for form in ("coo", "csr", "csc")]
    return [
        said(forms),
        said([graph.edges(form="all"), graph.edges(order="srcdst")]),  # DGL: no order of repeated
        said([graph.in_degrees(), graph.out_degrees()]),
        graph.num_nodes(), graph.num_src_nodes(), graph.num_dst_nodes(), graph.num_edges(),
        graph.is_block, graph.is_homogeneous, graph.idtype, graph.device,
        graph.ntypes, graph.etypes, graph.canonical_etypes, graph.batch_size,
        # Counts are int64 in DGL 1.1, and of the type of the edges in 2.1.
        None
        if graph.is_block
        else [graph.batch_num_nodes().tolist(), graph.batch_num_edges().tolist()],
        None if graph.is_block else said(graph.nodes()),
        data_of(graph),
    ]  # fmt: skip


def assert_same(theirs, ours):
    for one, other in zip(facts(theirs), facts(ours), strict=True):
        assert one == other


def outcome(function):
    """What a call gives, or that it is refused."""
    try:
        return said(function())
    except (dgl.DGLError, own_graph.DGLError):
        return "refused"


@needs_dgl
@settings(max_examples=40, deadline=None)
@given(ends())
def test_a_graph_is_that_of_dgl(given):
    assert_same(*both(given))


@needs_dgl
@settings(max_examples=40, deadline=None)
@given(ends(), st.data())
def test_questions_are_answered_as_by_dgl(given, data):
    graphs, nodes = both(given), given[0]
    some = data.draw(st.lists(st.integers(0, nodes - 1), max_size=5))
    others = data.draw(st.lists(st.integers(0, nodes - 1), min_size=len(some), max_size=len(some)))
    for ask in (
        lambda graph: graph.in_edges(some, form="all") if some else None,
        lambda graph: graph.out_edges(some, form="all") if some else None,
        lambda graph: graph.in_edges(0), lambda graph: graph.in_degrees(0),
        lambda graph: graph.out_degrees(some) if some else None,
        lambda graph: graph.has_edges_between(some, others) if some else None,
        lambda graph: graph.has_edges_between(0, nodes - 1),
        lambda graph: [graph.edge_ids([u], [v]).shape for u, v in zip(some, others, strict=True)],
        lambda graph: graph.edata["w"][graph.edge_ids(*graph.edges()).long()].shape,
    ):  # fmt: skip
        assert outcome(lambda ask=ask: ask(graphs[0])) == outcome(lambda ask=ask: ask(graphs[1]))


def with_more(module, graph, change):
    change(graph)
    return graph


MADE = {
    "add_self_loop": lambda module, graph: module.add_self_loop(graph),
    "remove_self_loop": lambda module, graph: module.remove_self_loop(graph),
    "add_reverse_edges": lambda module, graph: module.add_reverse_edges(graph),
    "to_simple": lambda module, graph: module.to_simple(graph),
    "node_subgraph": lambda module, graph: module.node_subgraph(graph, graph.nodes().flip(0)[:3]),
    "subgraph": lambda module, graph: graph.subgraph(graph.nodes()[1:], store_ids=False),
    "subgraph of truth values": lambda module, graph: graph.subgraph(graph.nodes() % 2 == 0),
    "local_var": lambda module, graph: graph.local_var(),
    "clone": lambda module, graph: graph.clone(),
    "int": lambda module, graph: graph.int(),
    "long": lambda module, graph: graph.long(),
    "to": lambda module, graph: graph.to("cpu"),
    "pickle": lambda module, graph: pickle.loads(pickle.dumps(graph)),
    "deepcopy": lambda module, graph: copy.deepcopy(graph),
    "add_edges": lambda module, graph: with_more(
        module, graph, lambda own: own.add_edges([0, 0], [0, own.num_nodes() + 1])
    ),
    "add_edges with data": lambda module, graph: with_more(
        module, graph, lambda own: own.add_edges([0], [0], {"w": torch.ones(1), "v": torch.ones(1)})
    ),
    "add_nodes": lambda module, graph: with_more(module, graph, lambda own: own.add_nodes(2)),
    "batch": lambda module, graph: module.batch([graph, graph.clone(), graph]),
    "batch of batches": lambda module, graph: module.batch(2 * [module.batch([graph, graph])]),
    "a part of a batch": lambda module, graph: module.unbatch(module.batch([graph, graph]))[1],
    "loops of a batch": lambda module, graph: module.add_self_loop(module.batch([graph, graph])),
    "no loops of one": lambda module, graph: module.remove_self_loop(module.batch([graph, graph])),
}


@needs_dgl
@pytest.mark.parametrize("word", MADE)
def test_graphs_made_of_one_are_those_of_dgl(word):
    @settings(max_examples=15, deadline=None)
    @given(ends())
    def same(given):
        assert_same(*map(MADE[word], (dgl, own_graph), both(given)))

    same()


@needs_dgl
@pytest.mark.parametrize("form", ["csr", "csc"])
@settings(max_examples=20, deadline=None)
@given(given=ends(), own=st.booleans())
def test_a_graph_of_lists_is_that_of_dgl(form, given, own):
    nodes, src, dst, kind = given
    whole = own_graph.graph((src, dst), num_nodes=nodes, idtype=kind)
    offsets, others, numbers = whole.adj_tensors(form)
    lists = offsets, others, numbers if own else numbers[:0]
    theirs, ours = (each.graph((form, lists), num_nodes=nodes) for each in (dgl, own_graph))
    assert theirs.formats() == ours.formats()
    assert_same(theirs, ours)
    theirs, ours = theirs.formats(form), ours.formats(form)
    assert theirs.formats() == ours.formats() == {"created": [form], "not created": []}
    assert len(ours.edges()[0]) == len(src) and ours.formats()["created"] == [form]


@needs_dgl
@settings(max_examples=20, deadline=None)
@given(ends())
def test_blocks_are_those_of_dgl(given):
    nodes, src, dst, kind = given
    blocks = [
        each.create_block((src, dst), nodes + 2, nodes, idtype=kind) for each in (dgl, own_graph)
    ]
    for block in blocks:
        block.srcdata["x"], block.dstdata["y"] = torch.ones(nodes + 2), torch.ones(nodes)
        block.edata["w"] = torch.ones(len(src))
    assert_same(*blocks)
    assert_same(*(block.local_var() for block in blocks))
    assert repr(blocks[0]) == repr(blocks[1])


WRONG = {
    "beyond the nodes": lambda module: module.graph(([0], [5]), num_nodes=3),
    "other lengths": lambda module: module.graph(([0], [1, 2])),
    "a matrix": lambda module: module.graph(torch.zeros(2, 2, dtype=torch.int64)),
    "types": lambda module: module.graph((torch.tensor([0], dtype=torch.int32), torch.tensor([0]))),
    "no graphs": lambda module: module.batch([]),
    "no edge": lambda module: module.graph(([0], [1])).edge_ids(1, 0),
    "no node": lambda module: module.graph(([0], [1])).in_edges(7),
    "a block beyond": lambda module: module.create_block(([5], [0]), 4, 2),
    "rows": lambda module: module.graph(([0], [1])).ndata.update(x=torch.ones(3)),
    "rows of edges": lambda module: module.graph(([0], [1])).edata.update(x=torch.ones(3)),
    "another device": lambda module: module.graph(([0], [1])).edata.update(
        x=torch.ones(1, device="meta")
    ),
    "unlike data": lambda module: module.batch(
        [module.graph(([0], [1])), module.add_self_loop(both_kinds(module))]
    ),
    "an edge between graphs": lambda module: module.unbatch(cut_in_two(module)),
}


def both_kinds(module):
    graph = module.graph(([0], [1]))
    graph.ndata["x"] = torch.ones(2)
    return graph


def cut_in_two(module):
    graph = module.graph(([0, 1], [1, 0]))
    graph.set_batch_num_nodes(torch.tensor([1, 1]))
    graph.set_batch_num_edges(torch.tensor([1, 1]))
    return graph


@pytest.mark.parametrize("word", WRONG)
@pytest.mark.parametrize("module", [pytest.param(dgl, marks=needs_dgl), own_graph])
def test_what_dgl_refuses_is_refused(module, word):
    with pytest.raises(module.DGLError):
        WRONG[word](module)


def test_data_inside_a_local_scope_are_forgotten():
    graph = own_graph.graph(([0], [1]))
    graph.ndata["x"] = torch.ones(2)
    with contextlib.suppress(KeyError), graph.local_scope():
        graph.ndata["y"] = graph.ndata.pop("x")
        raise KeyError
    assert list(graph.ndata) == ["x"] and "y" not in graph.ndata and graph.ndata
    copied = graph.clone()
    copied.ndata["x"] += 1
    assert graph.ndata["x"].tolist() == [1, 1]


def test_structure_is_another_object_when_nodes_or_edges_change():
    graph = own_graph.graph((range(3), np.arange(3)))
    before = graph._graph
    graph.adj_tensors("csc")
    assert graph._graph is graph.local_var()._graph is before
    graph.add_edges([0], [1])
    assert graph._graph is not before


def test_it_moves_with_its_data_and_batch():
    graph = own_graph.batch([own_graph.graph(([0], [1])), own_graph.graph(([0], [0]))])
    graph.edata["w"] = torch.ones(2)
    moved = graph.to("meta")
    assert graph.to("cpu") is graph and moved.device.type == "meta"
    assert moved.edata["w"].device.type == moved.batch_num_nodes().device.type == "meta"


def test_lists_are_not_looked_at():
    """As of a graph on disk, which may be larger than memory."""
    lists = torch.tensor([0, 1]), torch.tensor([7]), torch.tensor([], dtype=torch.int64)
    assert own_graph.graph(("csc", lists), num_nodes=1).adj_tensors("csc")[1] is lists[1]


def test_what_is_not_there_is_said():
    with pytest.raises(AttributeError, match="no `rand_graph`.*Linux"):
        own_graph.rand_graph  # noqa: B018
    with pytest.raises(ZooError, match="zoo data prepare"):
        own_graph.load_graphs("g.bin")
    with pytest.raises(own_graph.DGLError, match="no kind 'paper'"):
        own_graph.graph(([0], [1])).nodes["paper"]
    assert issubclass(DGLGraph, dgl.DGLGraph)
