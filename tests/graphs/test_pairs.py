"""Links of a graph, graphs with some of them alone, and pairs without a link."""

import itertools

import pytest
import torch

from zoo.canonical_form import WEIGHT
from zoo.config.options import pick
from zoo.data import canonical
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.pairs import NEGATIVES, Known, links_of, with_links
from zoo.tasks.links import GIVEN


def made(nodes=30, links=60, seed=0):
    drawn = torch.randint(nodes, (links, 2), generator=torch.Generator().manual_seed(seed))
    return canonical(drawn[drawn[:, 0] != drawn[:, 1]].numpy(), nodes=nodes)


def by_hand(graph):
    src, dst = graph.edges()
    pairs = zip(src.tolist(), dst.tolist(), strict=True)
    return sorted({(min(u, v), max(u, v)) for u, v in pairs if u != v})


def test_links_are_pairs_once_and_edges_know_theirs():
    graph = made()
    pairs, of_edge = links_of(graph)
    assert [*map(tuple, pairs.tolist())] == by_hand(graph)
    offsets, src, _ = graph.adj_tensors("csc")
    dst = torch.arange(30).repeat_interleave(offsets.diff())
    for u, v, number in zip(src.tolist(), dst.tolist(), of_edge.tolist(), strict=True):
        assert (number == -1) == (u == v)
        if u != v:
            assert pairs[number].tolist() == sorted([u, v])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_graph_of_some_links_is_that_of_their_edges(weighted):
    graph = made()
    if weighted:
        graph.edata[WEIGHT] = torch.arange(1.0, graph.num_edges() + 1)
    links = links_of(graph)
    kept = torch.rand(len(links.pairs), generator=torch.Generator().manual_seed(1)) < 0.5
    smaller = with_links(graph, links, kept)
    assert by_hand(smaller) == [*map(tuple, links.pairs[kept].tolist())]
    src, dst = smaller.edges()
    assert (src == dst).sum() == 30
    wanted = canonical(links.pairs[kept].numpy(), nodes=30)
    assert {*zip(src.tolist(), dst.tolist(), strict=True)} == {
        *zip(*(end.tolist() for end in wanted.edges()), strict=True)
    }
    if weighted:
        for u, v, weight in zip(src, dst, smaller.edata[WEIGHT], strict=True):
            assert graph.edata[WEIGHT][graph.edge_ids(u, v)] == weight


def test_of_no_links_self_loops_stay():
    graph = dgl.add_self_loop(dgl.graph(([], []), num_nodes=4))
    links = links_of(graph)
    assert links.pairs.shape == (0, 2) and links.of_edge.tolist() == [-1] * 4
    assert with_links(graph, links, torch.ones(0, dtype=torch.bool)).num_edges() == 4


@pytest.mark.parametrize("word", NEGATIVES)
def test_negatives_are_no_links_and_follow_from_the_seed(word):
    pairs = links_of(made()).pairs
    free = [pair for pair in itertools.combinations(range(30), 2) if [*pair] not in pairs.tolist()]

    def read(path, ends, part):  # a table of pairs, or of a link and another node
        if len(ends) == 2:
            return torch.tensor(free)
        others = [(u, v, w) for u, v in pairs.tolist() for w in range(30)
                  if tuple(sorted((u, w))) in free]  # fmt: skip
        return torch.tensor(others).flip(0)

    known = Known(pairs, 30, read=read)
    draw = pick(NEGATIVES, {"name": word, "path": "x.csv"} if word in GIVEN else word, known)
    drawn = draw(pairs, 3, torch.Generator().manual_seed(5))
    assert drawn.shape == (len(pairs), 3, 2)
    links = {*map(tuple, pairs.tolist())}
    for u, v in drawn.flatten(0, 1).tolist():
        assert u != v and (min(u, v), max(u, v)) not in links
    assert torch.equal(drawn, draw(pairs, 3, torch.Generator().manual_seed(5)))
    assert not torch.equal(drawn, draw(pairs, 3, torch.Generator().manual_seed(6)))
    if word in ("target", "hard", "file-per-link"):
        assert (drawn[..., 0] == pairs[:, :1]).all()


def test_hard_negatives_have_a_common_neighbour_where_there_are_such():
    star = torch.tensor([[0, leaf] for leaf in range(1, 9)])
    drawn = NEGATIVES["hard"](Known(star, 20))(star.flip(1), 4, torch.Generator().manual_seed(0))
    assert drawn[..., 1].min() >= 1 and drawn[..., 1].max() <= 8  # leaves of the same star


def test_by_degree_draws_hubs_as_often_as_they_have_links():
    star = torch.tensor([[0, leaf] for leaf in range(1, 9)] + [[9, 10], [11, 12]])
    known = Known(star, 30)
    ends = NEGATIVES["degree"](known)(star, 500, torch.Generator().manual_seed(0))
    assert set(ends.unique().tolist()) <= set(range(13))  # nodes without links are never drawn
    assert known.degrees.tolist()[:2] == [8, 1]


def test_a_complete_graph_has_no_negatives():
    pairs = torch.tensor([*itertools.combinations(range(6), 2)])
    with pytest.raises(ZooError, match="15 links between 6 nodes"):
        NEGATIVES["uniform"](Known(pairs, 6))(pairs, 1, torch.Generator().manual_seed(0))


def test_all_pairs_of_a_table_are_dealt_to_the_links_once():
    pairs, others = (
        torch.tensor([[0, 1], [2, 3], [4, 5]]),
        torch.tensor([[0, n] for n in range(2, 9)]),
    )
    known = Known(pairs, 9, read=lambda *_: others)
    dealt = NEGATIVES["file"](known, path="x.csv")(pairs, None, torch.Generator())
    assert dealt.shape == (3, 3, 2)
    real = dealt.flatten(0, 1)
    assert sorted(real[real[:, 0] >= 0].tolist()) == others.tolist()
    rows = torch.tensor([[1, 0, 5], [2, 3, 7], [2, 3, 8], [5, 4, 0]])
    own = NEGATIVES["file-per-link"](Known(pairs, 9, read=lambda *_: rows), path="x.csv")
    assert own(pairs, None, torch.Generator()).tolist() == [
        [[1, 5], [-1, -1]], [[2, 7], [2, 8]], [[5, 0], [-1, -1]]]  # fmt: skip
    with pytest.raises(ZooError, match="x.csv has no row for 1 of 2 links"):
        own(torch.tensor([[0, 1], [6, 7]]), 3, torch.Generator())
