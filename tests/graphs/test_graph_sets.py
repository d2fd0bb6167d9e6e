"""A batch of graphs is dgl.batch of them, canonical, and knows where each begins."""

import pytest
import torch

from zoo import canonical_form
from zoo.dgl import dgl
from zoo.graphs.examples import short_path, tiny_graph
from zoo.graphs.graph_sets import SequenceGraphs, StoredGraphs, stretches
from zoo.graphs.sequences import grid_graph, sequence_graph

GRAPHS = [tiny_graph(), short_path(), grid_graph(2, 3, class_token=True)]
LENGTHS = torch.tensor([4, 1, 9, 4])


def pairs(graph):
    return sorted(zip(*(each.tolist() for each in graph.edges()), strict=True))


def assert_same(found, wanted):
    assert pairs(found) == pairs(wanted) and found.num_nodes() == wanted.num_nodes()
    for counts in ("batch_num_nodes", "batch_num_edges"):
        assert getattr(found, counts)().tolist() == getattr(wanted, counts)().tolist()
    assert canonical_form._is_known(found)


@pytest.mark.parametrize("chosen", [[0], [2, 0, 1], [1, 1, 4, 3, 0]])
@pytest.mark.parametrize("kinds", [[0, 1, 2, 1, 0], [0] * 5])
def test_a_batch_of_stored_graphs_is_that_of_dgl(chosen, kinds):
    graphs = GRAPHS[: max(kinds) + 1]
    many = StoredGraphs(graphs, torch.tensor(kinds))
    assert many.sizes.tolist() == [graphs[each].num_nodes() for each in kinds]
    wanted = dgl.batch([graphs[kinds[each]] for each in chosen])
    assert_same(many.batch(torch.tensor(chosen)), wanted)
    assert many.distinct()[0] == graphs and many.distinct()[1].tolist() == kinds


def test_copies_of_one_graph_are_joined_once_for_each_number_of_them():
    many = StoredGraphs(GRAPHS[:1], torch.zeros(40, dtype=torch.long))
    first = many.batch(torch.tensor([3, 1]))
    assert many.batch(torch.tensor([0, 2])) is first
    for count in range(1, 20):  # few are kept
        assert many.batch(torch.arange(count)).num_nodes() == 12 * count
    assert many.batch(torch.tensor([3, 1])) is not first


@pytest.mark.parametrize("skip", [0, 3, None])
def test_a_batch_of_sequences_is_that_of_dgl(skip):
    many = SequenceGraphs(LENGTHS, window=2, skip=skip)
    chosen = [2, 0, 1]
    alone = [sequence_graph([int(LENGTHS[each])], window=2, skip=skip) for each in chosen]
    assert_same(many.batch(torch.tensor(chosen)), dgl.batch(alone))
    graphs, kinds = many.distinct()
    assert [each.num_nodes() for each in graphs] == [1, 4, 9]
    assert kinds.tolist() == [1, 0, 2, 1]


def test_stretches():
    found = stretches(torch.tensor([5, 0, 7]), torch.tensor([2, 0, 3]))
    assert found.tolist() == [5, 6, 7, 8, 9]
