"""The links of a graph as data: splits, message graphs, candidates."""

import pytest
import torch

from zoo.canonical_form import WEIGHT
from zoo.config.options import pick
from zoo.data import canonical, write_prepared
from zoo.data.links import LinkData
from zoo.data.load import load_data, read_graph
from zoo.data.splits import split_of
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError
from zoo.graphs.pairs import NEGATIVES, uniform
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
    drawn = data.candidates(rows, pick(NEGATIVES, negatives, data.known()), 4, seed=1)
    assert drawn.shape == (3, 5, 2)
    assert torch.equal(drawn[:, 0].sort(dim=1).values, data.links.pairs[rows])
    assert not data.known().has(drawn[:, 1:].flatten(0, 1)).any()
    assert torch.equal(
        drawn, data.candidates(rows, pick(NEGATIVES, negatives, data.known()), 4, seed=1)
    )


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
    assert len(split_of(karate(), "folds-3", 0).test) == 26


def test_a_graph_without_other_pairs_says_so():
    nodes = load_data("karate").part(torch.arange(6))
    full = nodes.with_structure(canonical(torch.combinations(torch.arange(6)).tolist(), nodes=6))
    data = LinkData.of(full, pick(TASKS, "link-prediction"))
    with pytest.raises(ZooError, match="15 links between 6 nodes.*linked with almost all"):
        data.candidates(torch.arange(3), uniform(data.known()), 1, seed=0)


def write_graph(folder, edges, columns="source,target"):
    """Write a graph of 12 nodes a0, a1, ... with a feature, and the rows of its edges."""
    folder.mkdir(exist_ok=True)
    nodes = "".join(f"a{node},{node % 3}.5\n" for node in range(12))
    (folder / "nodes.csv").write_text(f"id,size\n{nodes}")
    (folder / "edges.csv").write_text("\n".join([columns, *edges, ""]))
    return str(folder)


RING = [(node, (node + 1) % 12) for node in range(12)]


def links(spec, split=None, **options):
    data = LinkData.of(load_data(spec, **options), pick(TASKS, "link-prediction"), split)
    return data, split_of(data, split or data.split, 0)


def named(data, rows):
    return {frozenset(pair) for pair in data.names(data.links.pairs[rows]).tolist()}


def test_links_are_split_by_when_they_came(tmp_path):
    rows = [f"a{u},a{v},2024-01-{12 - place:02}" for place, (u, v) in enumerate(RING)]
    rows.append("a1,a0,2024-02-01")  # the link of a0 and a1 again, after its first time
    folder = write_graph(tmp_path / "mine", rows, "source,target,day")
    data, split = links(folder, edge_time="day")
    assert data.split == "time" and len(data.links.pairs) == 12
    newest_first = [frozenset((f"a{u}", f"a{v}")) for u, v in RING]
    assert named(data, split.test) == {*newest_first[:3]}
    assert named(data, split.train) == {*newest_first[4:]}
    assert split.sha256 == links(folder, "time-70-10-20", edge_time="day")[1].sha256
    with pytest.raises(ZooError, match="time is none of links.*edge_time: COLUMN"):
        links("karate", "time")
    (tmp_path / "mine/edges.csv").write_text("source,target,day\na0,a1,1\na1,a2,\n")
    with pytest.raises(ZooError, match=r"edges.csv: 'day' is empty in data row 2 \(1 such"):
        links(folder, edge_time="day")
    with pytest.raises(ZooError, match="has no column 'dya'.*edge_time: COLUMN"):
        links(folder, edge_time="dya")


PARTS = ["train"] * 8 + ["val"] * 2 + ["test"] * 2


def test_a_column_of_parts_and_tables_of_links_divide_alike(tmp_path, caplog):
    rows = [f"a{u},a{v},{part}" for (u, v), part in zip(RING, PARTS, strict=True)]
    mine = write_graph(tmp_path / "mine", rows, "source,target,split")
    data, split = links(mine)
    assert data.split == "benchmark" and named(data, split.val) == {
        frozenset(pair) for pair in (("a8", "a9"), ("a9", "a10"))
    }
    bare = write_graph(tmp_path / "bare", [row.rpartition(",")[0] for row in rows[:10]])
    files = {}
    for part in ("train", "val", "test"):
        own = [row.rpartition(",")[0] for row in rows if row.endswith(part)]
        files[part] = str(tmp_path / f"{part}.csv")
        (tmp_path / f"{part}.csv").write_text("\n".join(["target,source", *own, ""]))
    whole = str(tmp_path / "mine/edges.csv")
    del files["train"]  # all others
    for spec in ({"path": whole}, files):
        again, same = links(bare, {"name": "pairs", **spec})
        for part in ("train", "val", "test"):
            assert named(again, getattr(same, part)) == named(data, getattr(split, part))
        assert "bare: links in tables that are no edges of it are predicted" in caplog.text
        seen = again.trained_on(same.train).graph
        assert seen.num_edges() == 12 + 2 * 8  # what is no edge, and what is not of training: no
        assert again.known().has(again.links.pairs).all()
    with pytest.raises(ZooError, match="split pairs is none of nodes"):
        split_of(load_data(bare), {"name": "pairs", **files}, 0)


def test_wrong_tables_of_links_are_refused(tmp_path, caplog):
    rows = [f"a{u},a{v},{part}" for (u, v), part in zip(RING, PARTS, strict=True)]
    mine = write_graph(tmp_path / "mine", [*rows, "a1,a0,test"], "source,target,split")
    with pytest.raises(ZooError, match=r"link of a0 and a1 is of train and of test \(1 such\)"):
        links(mine)
    write_graph(tmp_path / "mine", [*rows[:11], "a11,a0,tets"], "source,target,split")
    with pytest.raises(ZooError, match="'split' holds 'tets'.*did you mean 'test'"):
        links(mine)
    write_graph(tmp_path / "mine", [*rows[:11], "a11,a0,"], "source,target,split")
    links(mine)
    assert (
        "mine: links in no part of the split are neither predicted nor seen (1 such)" in caplog.text
    )
    bare, table = (
        write_graph(tmp_path / "bare", [row.rpartition(",")[0] for row in rows]),
        tmp_path / "t.csv",
    )
    for text, wrong in (
        ("source,target\na0,a1\n", "has no column 'split'"),
        ("source,target,split\na0,a99,test\n", "'a99', and no node of bare has this id"),
        ("source,target,split\na3,a3,test\n", "links a node with itself"),
        ("source\na0\n", "has 1 column"),
    ):
        table.write_text(text)
        with pytest.raises(ZooError, match=wrong):
            links(bare, {"name": "pairs", "path": str(table)})
    for options in ({}, {"val": "v.csv"}, {"path": "p.csv", "train": "t.csv"}):
        with pytest.raises(ZooError, match="write `path`, a table of all links, or `val` and `te"):
            links("karate", {"name": "pairs", **options})


def test_times_and_parts_of_edges_are_kept_in_a_prepared_file(tmp_path):
    rows = [f"a{u},a{v},{place},{part}" for place, ((u, v), part) in
            enumerate(zip(RING, PARTS, strict=True))]  # fmt: skip
    folder = write_graph(tmp_path / "mine", rows, "source,target,when,split")
    arrays = read_graph({"name": folder, "edge_time": "when"})
    write_prepared(arrays, tmp_path / "mine.npz")
    (one, first), (two, second) = links(folder, edge_time="when"), links(str(tmp_path / "mine.npz"))
    assert first.sha256 == second.sha256
    assert one.times.tolist() == two.times.tolist()
