"""Heuristics of links beside dense matrices."""

import networkx
import pytest
import torch

from zoo.data import canonical
from zoo.graphs import link_heuristics
from zoo.graphs.link_heuristics import HEURISTICS, katz, personalised_pagerank


def made(seed=0, nodes=40):
    drawn = torch.randint(nodes, (90, 2), generator=torch.Generator().manual_seed(seed))
    return canonical(drawn[drawn[:, 0] != drawn[:, 1]].numpy(), nodes=nodes)


def dense(graph):
    matrix = torch.zeros(graph.num_nodes(), graph.num_nodes(), dtype=torch.double)
    matrix[graph.edges()] = 1
    return matrix - torch.eye(graph.num_nodes())


PAIRS = torch.randint(40, (200, 2), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("common-neighbours", "common_neighbor_centrality"),
        ("adamic-adar", "adamic_adar_index"),
        ("resource-allocation", "resource_allocation_index"),
    ],
)
def test_shared_neighbours_are_those_of_networkx(word, name):
    graph = made()
    other = networkx.from_numpy_array(dense(graph).numpy())
    pairs = PAIRS[PAIRS[:, 0] != PAIRS[:, 1]]
    options = {"alpha": 1} if word == "common-neighbours" else {}
    wanted = [score for *_, score in getattr(networkx, name)(other, pairs.tolist(), **options)]
    found = HEURISTICS[word]()(graph, pairs)
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float))


@pytest.mark.parametrize("numbers", [2**25, 100])  # of all sources at once, and of few
def test_katz_sums_walks(monkeypatch, numbers):
    monkeypatch.setattr(link_heuristics, "_NUMBERS", numbers)
    a = dense(made())
    wanted = sum(0.05**length * torch.linalg.matrix_power(a, length) for length in range(1, 7))
    torch.testing.assert_close(katz()(made(), PAIRS), wanted[tuple(PAIRS.T)].float())


def test_pagerank_is_that_of_a_linear_system():
    a = dense(made())
    moves = a / a.sum(0).clamp(min=1)
    ranks = 0.15 * torch.linalg.inv(torch.eye(40) - 0.85 * moves)  # column by column
    wanted = (ranks + ranks.T)[PAIRS[:, 1], PAIRS[:, 0]].float()
    found = personalised_pagerank(steps=200)(made(), PAIRS)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("word", HEURISTICS)
def test_of_no_pairs_there_are_no_scores(word):
    assert HEURISTICS[word]()(made(), PAIRS[:0]).shape == (0,)
