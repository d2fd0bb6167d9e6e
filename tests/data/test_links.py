"""The links of a graph as data: splits, message graphs, candidates."""

import pytest
import torch

from zoo.canonical_form import WEIGHT
from zoo.config.options import pick
from zoo.data import canonical
from zoo.data.links import LinkData
from zoo.data.load import load_data
from zoo.data.splits import split_of
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError
from zoo.tasks import TASKS


def karate(**options):
    return LinkData.of(load_data("karate"), pick(TASKS, {"name": "link-prediction", **options}))


def test_splits_are_of_links_and_follow_from_the_seed():
    data = karate()
    assert len(data.y) == len(data.links.pairs) == 78
    one, again, other = (split_of(data, data.split, seed) for seed in (0, 0, 1))
    assert one.sha256 == again.sha256 != other.sha256
    parts = torch.cat([one.train, one.val, one.test])
    assert parts.sort().values.tolist() == [*range(78)]
    assert (len(one.train), len(one.val), len(one.test)) == (66, 3, 9)


def test_the_message_graph_holds_links_of_training_alone():
    data = karate()
    split = split_of(data, data.split, 0)
    seen = data.trained_on(split.train).graph
    src, dst = seen.edges()
    shown = {
        (min(u, v), max(u, v)) for u, v in zip(src.tolist(), dst.tolist(), strict=True) if u != v
    }
    assert shown == {*map(tuple, data.links.pairs[split.train].tolist())}
    assert not shown & {*map(tuple, data.links.pairs[torch.cat([split.val, split.test])].tolist())}
    # and one split after another begins with the whole graph
    later = data.trained_on(split.train).trained_on(split.test)
    assert later.graph.num_edges() == 34 + 2 * len(split.test)


def test_encodings_are_of_the_message_graph():
    data, encode = (
        karate(),
        lambda graph: pick(ENCODINGS, {"name": "random_walk", "steps": 3}, graph),
    )
    split = split_of(data, data.split, 0)
    first = data.trained_on(split.train).encoded(encode)
    assert first.inputs == data.inputs + 3
    assert torch.equal(first.x[:, -3:], encode(first.graph).float())
    other = first.trained_on(split.test)  # another seed's
    assert torch.equal(other.x[:, -3:], encode(other.graph).float())
    assert not torch.equal(other.x[:, -3:], first.x[:, -3:])


@pytest.mark.parametrize("negatives", ["uniform", "degree", "target", "hard"])
def test_candidates_are_a_link_and_pairs_without_one(negatives):
    data = karate()
    rows = torch.tensor([3, 7, 20])
    drawn = data.candidates(rows, negatives, 4, data.known(), seed=1)
    assert drawn.shape == (3, 5, 2)
    assert torch.equal(drawn[:, 0].sort(dim=1).values, data.links.pairs[rows])
    assert not data.known().has(drawn[:, 1:].flatten(0, 1)).any()
    assert torch.equal(drawn, data.candidates(rows, negatives, 4, data.known(), seed=1))


def test_a_graph_made_of_features_gives_links_once():
    """They are of the graph that was made: it is not made again of the training part."""
    nodes = load_data("karate")
    made = nodes.with_graph({"name": "knn", "k": 3})
    data = LinkData.of(made, pick(TASKS, "link-prediction"))
    split = split_of(data, data.split, 0)
    seen = data.trained_on(split.train).graph
    assert seen.num_edges() == 34 + 2 * len(split.train) < made.graph.num_edges()


def test_weights_of_edges_stay_with_their_links():
    nodes = load_data("karate")
    weights = torch.rand(nodes.graph.num_edges(), generator=torch.Generator().manual_seed(0))
    nodes.graph.edata[WEIGHT] = weights
    data = LinkData.of(nodes, pick(TASKS, "link-prediction"))
    seen = data.message(torch.arange(0, 78, 2))
    for u, v, weight in zip(*seen.edges(), seen.edata[WEIGHT], strict=True):
        assert weight == weights[nodes.graph.edge_ids(u, v)]
    del nodes.graph.edata[WEIGHT]


def test_what_has_few_links_is_refused():
    nodes = load_data("karate")
    few = nodes.with_structure(canonical([[0, 1], [1, 2]], nodes=34))
    with pytest.raises(ZooError, match="karate has 2 links, too few"):
        LinkData.of(few, pick(TASKS, "link-prediction"))
    with pytest.raises(ZooError, match="samples, and `task: link-prediction` is of one graph"):
        LinkData.of(load_data("digits-images"), pick(TASKS, "link-prediction"))


def test_a_split_of_nodes_is_none_of_links():
    with pytest.raises(ZooError, match="per-class-20 is none of links"):
        split_of(karate(), "per-class-20", 0)


def test_a_graph_without_other_pairs_says_so():
    nodes = load_data("karate").part(torch.arange(6))
    full = nodes.with_structure(canonical(torch.combinations(torch.arange(6)).tolist(), nodes=6))
    data = LinkData.of(full, pick(TASKS, "link-prediction"))
    with pytest.raises(ZooError, match="15 links between 6 nodes.*linked with almost all"):
        data.candidates(torch.arange(3), "uniform", 1, data.known(), seed=0)
