"""Path lengths and walks of pairs of nodes: the same from a table of all pairs and of near ones."""

import pytest
import torch

from zoo.canonical_form import mark_canonical
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs import naive, pair_tables
from zoo.graphs.examples import batch, odd_graphs, preferential_attachment, short_path, tiny_graph
from zoo.graphs.pair_tables import path_lengths, return_probabilities, walk_probabilities

GRAPHS = {
    "tiny": tiny_graph,
    "power law": lambda: preferential_attachment(60, 2),
    "batch": lambda: batch([short_path(), preferential_attachment(20, 2), tiny_graph()]),
    "in two parts": lambda: mark_canonical(dgl.graph(batch([short_path(), tiny_graph()]).edges())),
}


@pytest.fixture(params=["all pairs", "near pairs"], autouse=True)
def table(request, monkeypatch):
    """Both kinds of tables; numbers in pieces that tiny graphs fill."""
    monkeypatch.setattr(pair_tables, "_ROWS", 7)
    monkeypatch.setattr(pair_tables, "_NUMBERS", 200)
    if request.param == "near pairs":
        monkeypatch.setattr(pair_tables, "WHOLE", 0)
        monkeypatch.setattr(pair_tables, "FILLED", 1.0)


def sets_of(graph):
    """Rows and columns of a set for each graph, of nodes in a random order, (1, R) and (1, C)."""
    start = 0
    for size in graph.batch_num_nodes().tolist():
        columns = start + torch.randperm(size)
        yield columns[: -(-size // 2)].unsqueeze(0), columns.unsqueeze(0)
        start += size


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("steps", [1, 4])
def test_they_equal_their_naive_twins(name, steps):
    graph = GRAPHS[name]()
    lengths, walks = naive.path_lengths(graph, steps), naive.walk_probabilities(graph, steps)
    for rows, columns in sets_of(graph):
        pairs = rows.unsqueeze(-1), columns.unsqueeze(-2)
        assert torch.equal(path_lengths(graph, rows, columns, steps), lengths[pairs].int())
        found = walk_probabilities(graph, rows, columns, steps)
        torch.testing.assert_close(found, walks[pairs].float())
    found = return_probabilities(graph, steps, torch.device("cpu"))
    torch.testing.assert_close(found, walks.diagonal().mT.float())


def test_several_sets_at_once_and_a_column_that_is_repeated():
    """As in a batch of sets of several sizes, where the first row of a set fills it up."""
    graph = preferential_attachment(30, 2)
    lengths, sets = naive.path_lengths(graph, 3), torch.randperm(30).view(3, 10)
    sets[0, 8:] = sets[0, 0]
    found = path_lengths(graph, sets[:, 2:5], sets, 3)
    expected = lengths[sets[:, 2:5].unsqueeze(-1), sets.unsqueeze(-2)]
    assert torch.equal(found[1:], expected[1:].int())
    assert torch.equal(found[0, :, :8], expected[0, :, :8].int())


def test_no_path_leads_through_a_virtual_node():
    """The last node of each graph, linked with all: without it, lengths are those of the graph."""
    graphs = [preferential_attachment(20, 2), short_path()]
    linked = []
    for graph in graphs:
        n = graph.num_nodes()
        src, dst = graph.edges()
        last, others = torch.full((n,), n), torch.arange(n)
        ends = torch.cat([src, last, others, last[:1]]), torch.cat([dst, others, last, last[:1]])
        linked.append(mark_canonical(dgl.graph(ends)))
    own, start = batch(linked), 0
    for graph in graphs:
        nodes = start + torch.arange(graph.num_nodes() + 1).unsqueeze(0)
        found = path_lengths(own, nodes, nodes, 5, True)[0]
        assert torch.equal(found[:-1, :-1], naive.path_lengths(graph, 5).int())
        assert (found[-1, :-1] == 6).all() and (found[:-1, -1] == 6).all()
        assert path_lengths(own, nodes, nodes, 5).max() <= 2
        start += graph.num_nodes() + 1


def test_odd_graphs():
    for graph in odd_graphs():
        nodes = torch.arange(graph.num_nodes()).unsqueeze(0)
        lengths = path_lengths(graph, nodes, nodes, 2)[0]
        assert torch.equal(lengths, naive.path_lengths(graph, 2).int())


def test_pairs_that_fit_no_memory_are_refused(monkeypatch):
    monkeypatch.setattr(pair_tables, "available_memory", lambda: 100)
    if pair_tables.WHOLE == 0:
        nodes = torch.arange(12).unsqueeze(0)
        with pytest.raises(ZooError, match="fewer `hops` or `steps`"):
            path_lengths(tiny_graph(), nodes, nodes, 3)


def test_a_table_has_all_pairs_where_walks_join_most_of_them(monkeypatch):
    """One of 16 nodes in a ring, each of which knows half of them, and of 64, which know 9."""
    monkeypatch.setattr(pair_tables, "FILLED", 0.25)
    monkeypatch.setattr(pair_tables, "WHOLE", 0)
    for size, whole in ((16, True), (64, False)):
        nodes = torch.arange(size)
        ring = mark_canonical(dgl.graph((nodes, (nodes + 1) % size)))
        assert (pair_tables._table(ring, "lengths", 5).others is None) == whole
