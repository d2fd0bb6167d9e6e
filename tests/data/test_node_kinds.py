"""Graphs of several kinds of nodes and edges: tables, DGL, PyG, and relations kept apart."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch
from heterographs import AUTHORS, PAPERS, SUBJECTS, acm, heterograph, pyg_dict
from needs_dgl import needs_dgl

import zoo as graphs
from zoo import Dataset, ZooError, load_graph
from zoo.canonical_form import WEIGHT
from zoo.data.files.prepared import write_prepared
from zoo.data.load import read_graph
from zoo.dgl import dgl
from zoo.inference.training_data import new_nodes
from zoo.runs.run import run_recipe
from zoo.weights.create import create_model


def write(folder, seed=0):
    papers, authors, subjects, writes, on = acm(seed)
    folder.mkdir()
    for kind, table in (("paper", papers), ("author", authors), ("subject", subjects)):
        table.to_csv(folder / f"nodes-{kind}.csv", index=False)
    named = pandas.DataFrame({"source": [f"a{a}" for a, _ in writes],
                              "target": [f"p{p}" for _, p in writes]})  # fmt: skip
    named.to_csv(folder / "edges-author-writes-paper.csv", index=False)
    pandas.DataFrame(
        {"source": [f"p{p}" for p, _ in on], "target": [f"s{s}" for _, s in on]}
    ).to_csv(folder / "edges-topics.csv", index=False)  # the kinds are found by the ids
    return str(folder)


OPTIONS = {"label": "field", "text": "about", "numbers": "standard"}


def initials(data):
    """The kinds at the ends of each edge, by the first letters of ids."""
    source, target = data.graph.edges()
    letters = np.array([each[0] for each in data.ids])
    return list(zip(letters[source].tolist(), letters[target].tolist(), strict=True))


def test_one_graph_of_all_kinds(tmp_path):
    data = load_graph(write(tmp_path / "acm"), **OPTIONS)
    total = PAPERS + AUTHORS + SUBJECTS
    assert len(data.y) == total and int((data.y >= 0).sum()) == PAPERS
    assert data.labels == ("database", "mining", "wireless")
    kinds = {
        name: data.x[:, data.feature_names.index(f"kind={name}")]
        for name in ("author", "paper", "subject")
    }
    assert torch.equal(sum(kinds.values()), torch.ones(total))
    works, year = (data.feature_names.index(each) for each in ("author.works", "paper.year"))
    for kind, column in (("paper", year), ("author", works)):
        own = kinds[kind] == 1
        assert (data.x[~own, column] == 0).all() and data.x[own, column].std() > 0.9
    assert {str(each)[0] for each in data.ids} == {"a", "p", "s"}
    source, target = data.graph.edges()
    ends = {
        (data.ids[a][0], data.ids[b][0])
        for a, b in zip(source.tolist(), target.tolist(), strict=True)
        if a != b
    }
    assert ends == {("a", "p"), ("p", "a"), ("p", "s"), ("s", "p")}


def test_relations_apart(tmp_path):
    path = write(tmp_path / "acm")
    data = load_graph(path, relations="separate", **OPTIONS)
    weights = data.graph.edata[WEIGHT]
    source, target = data.graph.edges()
    loops = source == target
    assert weights.shape[1] == 2 and (weights[loops] == 1).all()
    assert (weights[~loops].sum(dim=1) == 1).all()
    by_author = torch.tensor(
        [
            data.ids[a][0] == "a" or data.ids[b][0] == "a"
            for a, b in zip(source.tolist(), target.tolist(), strict=True)
        ]
    )
    assert torch.equal(weights[~loops, 0] > 0, by_author[~loops])
    model = create_model("gcn", data.inputs, 3, relations=2)
    assert model(data.graph, data.x).logits.isfinite().all()
    for options, said in (({}, "model.relations=2"), ({"relations": 3}, "tells 3 directions")):
        with pytest.raises(ZooError, match="relations" if not options else said):
            create_model("gcn", data.inputs, 3, **options)(data.graph, data.x)
    with pytest.raises(ZooError, match="leave one of them out"):
        load_graph(path, relations="separate", direction="separate", **OPTIONS)


def test_what_is_learnt_is_learnt_of_the_training_nodes_and_of_other_kinds(tmp_path):
    data = load_graph(write(tmp_path / "acm"), missing="mean", **OPTIONS)
    papers = torch.from_numpy(np.flatnonzero([each.startswith("p") for each in data.ids]))
    few = data.trained_on(papers[:3])
    words = {each for each in few.feature_names if each.startswith("paper.about: ")}
    held = pandas.read_csv(tmp_path / "acm" / "nodes-paper.csv")["about"][:3]
    assert words == {f"paper.about: {word}" for text in held for word in text.split()}
    assert torch.equal(
        few.x[:, few.feature_names.index("author.works")],
        data.x[:, data.feature_names.index("author.works")],
    )
    half = data.part(papers[::2])
    assert half.feature_names == data.feature_names and torch.equal(half.x, data.x[papers[::2]])


@pytest.mark.slow
def test_it_is_trained_and_better_than_words_alone(tmp_path):
    path = write(tmp_path / "acm")
    scores = {}
    for name, options, model in (
        ("mlp", {}, {}),
        ("gcn", {}, {}),
        ("gcn apart", {"relations": "separate"}, {"relations": 2}),
    ):
        recipe = {
            "dataset": {"name": path, **OPTIONS, **options},
            "model": {"name": name.split()[0], "dim": 32, **model},
            "train": {"epochs": 60},
            "seeds": [0],
        }
        scores[name] = run_recipe(recipe, runs=tmp_path / "runs", device="cpu")["test"]["mean"]
    assert min(scores["gcn"], scores["gcn apart"]) > scores["mlp"] + 0.1


@needs_dgl
def test_graphs_of_dgl_and_pyg_are_the_same(tmp_path):
    graph = heterograph()
    dgl.save_graphs(str(tmp_path / "acm.bin"), [graph])
    torch.save(pyg_dict(graph), tmp_path / "acm.pt")
    made = [
        Dataset.from_dgl(graph),
        Dataset.from_pyg(pyg_dict(graph)),
        load_graph(tmp_path / "acm.bin"),
        load_graph(tmp_path / "acm.pt"),
    ]
    for each in made[1:]:
        assert torch.equal(each.x, made[0].x) and torch.equal(each.y, made[0].y)
        assert all(map(torch.equal, each.graph.edges(), made[0].graph.edges()))
        assert each.feature_names == made[0].feature_names
        assert each.ids.tolist() == made[0].ids.tolist()
    assert "paper:0" in made[0].ids.tolist()
    assert int((made[0].y >= 0).sum()) == PAPERS


@needs_dgl
def test_whole_numbers_to_predict_are_known_of_one_kind_alone(tmp_path):
    graph = heterograph()
    years = torch.arange(PAPERS) - 3  # -1 is a number too
    graph.nodes["paper"].data["label"] = years
    dgl.save_graphs(str(tmp_path / "acm.bin"), [graph])
    torch.save(pyg_dict(graph), tmp_path / "acm.pt")
    for data in (
        Dataset.from_dgl(graph, task="node-regression"),
        Dataset.from_pyg(pyg_dict(graph), task="node-regression"),
        load_graph(tmp_path / "acm.bin", task="node-regression"),
        load_graph(tmp_path / "acm.pt", task="node-regression"),
    ):
        assert data.y[~data.y.isnan()].tolist() == years.tolist()
        assert len(data.y) == PAPERS + AUTHORS + SUBJECTS
    graph.nodes["paper"].data["label"] = torch.stack([years > 0, years > 9], dim=1).long()
    targets = Dataset.from_dgl(graph).y
    assert targets.nansum(dim=0).tolist() == [PAPERS - 4, PAPERS - 13]
    assert int(targets.isnan().all(dim=1).sum()) == AUTHORS + SUBJECTS


@needs_dgl
def test_weights_of_some_kinds_of_edges():
    graph = heterograph()
    graph.edges["writes"].data["share"] = torch.full((graph.num_edges("writes"),), 0.5)
    data = Dataset.from_dgl(graph, weight="share")
    source, target = data.graph.edges()
    weights = data.graph.edata[WEIGHT][source != target]
    assert set(weights.tolist()) == {0.5, 1.0}
    with pytest.raises(ZooError, match="weights: ignore"):
        Dataset.from_dgl(graph)


def small(folder, kinds, edges, ends):
    """A folder of two nodes of each kind, `<kind>0` and `<kind>1`, and one edge."""
    for kind in kinds:
        (folder / f"nodes-{kind}.csv").write_text(f"id,x\n{kind}0,1\n{kind}1,2\n")
    (folder / f"edges-{edges}.csv").write_text(f"source,target\n{','.join(ends)}\n")
    return str(folder)


@pytest.mark.parametrize(
    ("edges", "ends"),
    [
        ("user-product", ("user0", "product1")),
        ("user-sub-product", ("user0", "sub-product1")),
        ("user-likes-product", ("user0", "product1")),
        ("user-likes-sub-product", ("user0", "sub-product1")),
        ("sub-product-of-product", ("sub-product0", "product1")),
        ("sub-product-sub-product", ("sub-product0", "sub-product1")),
    ],
)
def test_a_name_of_edges_says_the_longest_kinds(edges, ends, tmp_path):
    """An id of another kind would be none of theirs."""
    data = load_graph(small(tmp_path, ["product", "sub", "sub-product", "user"], edges, ends))
    source, target = data.graph.edges()
    found = {(data.ids[a], data.ids[b]) for a, b in zip(source, target, strict=True) if a != b}
    assert found == {ends, ends[::-1]}


@pytest.mark.parametrize("kinds", [["a", "a-b", "b-c", "c"], ["a", "a-b-x", "x-b-c", "c"]])
def test_a_name_of_edges_that_says_two_things(kinds, tmp_path):
    name = "a-b-c" if "b-c" in kinds else "a-b-x-b-c"
    with pytest.raises(ZooError, match=f"edges-{name}.csv may mean from a.* or from a"):
        load_graph(small(tmp_path, kinds, name, ("a0", "c0")))


WRONG = {
    "two kinds with labels": "nodes of 2 kinds have labels",
    "no edges": "no edges-NAME.csv",
    "an id of nobody": "leads to 'a999'",
    "ids of two kinds": "name the table by the kinds",
    "a column of no table": "did you mean 'about'",
    "no ids": "edges need ids",
    "no kind": "of no single kind",
    "a table twice": "nodes-author.csv and nodes-author.parquet; keep one",
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said(tmp_path, case):
    path, options = write(tmp_path / "acm"), dict(OPTIONS)
    folder = tmp_path / "acm"
    authors = pandas.read_csv(folder / "nodes-author.csv")

    def edges(name, source, target):
        pandas.DataFrame({"source": source, "target": target}).to_csv(folder / name, index=False)

    def people(table):
        table.to_csv(folder / "nodes-author.csv", index=False)

    writes = "edges-author-writes-paper.csv"
    if case == "two kinds with labels":
        people(authors.assign(field="mining"))
    elif case == "no edges":
        [each.unlink() for each in folder.glob("edges-*")]
    elif case == "an id of nobody":
        edges(writes, ["a999"], ["p1"])
    elif case == "ids of two kinds":
        people(authors.assign(id=[f"p{each}" for each in range(AUTHORS)]))
        (folder / writes).unlink()
        edges("edges-topics.csv", ["p1"], ["s1"])
    elif case == "a column of no table":
        options["text"] = "abuot"
    elif case == "no ids":
        people(authors.drop(columns="id"))
    elif case == "a table twice":
        authors.to_parquet(folder / "nodes-author.parquet")
    else:
        edges("edges-topics.csv", ["p1", "a1"], ["s1", "s1"])
    with pytest.raises(ZooError, match=WRONG[case]):
        load_graph(path, **options)


def test_prepared_kinds_times_and_groups(tmp_path):
    data = load_graph(write(tmp_path / "acm"), relations="separate", **OPTIONS)
    path = tmp_path / "acm.npz"
    parts = read_graph({"name": str(tmp_path / "acm"), **OPTIONS})
    rows = len(parts.labels)
    more = {"times": np.arange(rows) / 2, "groups": np.arange(rows).astype(str)}
    write_prepared(parts._replace(**more), path)
    again = load_graph(path, relations="separate")
    assert torch.equal(again.graph.edata[WEIGHT], data.graph.edata[WEIGHT])
    assert again.times.tolist() == more["times"].tolist()
    assert again.groups.tolist() == more["groups"].tolist()
    wrong = {
        "node_times": np.zeros(3),
        "node_groups": np.zeros(rows),
        "edge_relations": np.full(len(parts.edges), 2),
    }
    with np.load(path) as stored:
        arrays = dict(stored)
    for key, value in wrong.items():
        np.savez(path, **{**arrays, key: value})
        with pytest.raises(ZooError, match=key):
            load_graph(path)


def likes_and_dislikes(path, names=("buys", "hates"), turned=False):
    """A PyG dict of two kinds of edges, which say of what class a node is; or the other way."""
    rng = torch.Generator().manual_seed(0)
    y, sources = torch.arange(60) % 2, torch.arange(60).repeat_interleave(3)
    edges = {}
    for other, name in enumerate(names):
        goods = torch.randint(0, 5, (180,), generator=rng) * 2 + (y[sources] + other) % 2
        edges["a", name, "b"] = {"edge_index": torch.stack([sources, goods])}
    nodes = {"a": {"x": torch.rand(60, 1, generator=rng), "y": y},
             "b": {"x": (torch.arange(10) % 2).float()[:, None]}}  # fmt: skip
    torch.save({**nodes, **(dict(reversed(edges.items())) if turned else edges)}, path)
    return {"name": str(path), "relations": "separate"}


def test_kinds_of_edges_are_those_of_training_by_their_names(tmp_path):
    spec = likes_and_dislikes(tmp_path / "one.pt")
    turned = likes_and_dislikes(tmp_path / "turned.pt", turned=True)
    recipe = {"dataset": spec, "model": {"name": "gcn", "dim": 8, "relations": 2}, "seeds": [0],
              "train": {"epochs": 30, "lr": 0.02}}  # fmt: skip
    run = run_recipe(recipe, runs=tmp_path / "runs", device="cpu")
    model = graphs.load(run["folder"])
    assert model.about.relation_names == ["a buys b", "a hates b"]
    data = load_graph(turned)
    assert data.relation_names == ("a hates b", "a buys b")
    assert graphs.evaluate(model, load_graph(spec)) == graphs.evaluate(model, data) == 1
    assert graphs.evaluate(model, data.part(torch.arange(70))) == 1
    assert data.with_graph({"name": "knn", "k": 2}).relation_names is None
    start = {"weights": f"{run['folder']}/seed-0"}
    still = {**recipe, "dataset": turned, "start_from": start, "train": {"epochs": 1, "lr": 1e-9}}
    again = run_recipe(still, runs=tmp_path / "runs", device="cpu")
    assert again["test"]["mean"] == 1
    assert graphs.load(again["folder"]).about.relation_names == model.about.relation_names
    other = likes_and_dislikes(tmp_path / "other.pt", ("buys", "likes"))
    said = "missing: a hates b; not known to the model: a likes b.*the kinds of edges that"
    with pytest.raises(ZooError, match=said):
        graphs.predict(model, load_graph(other))
    with pytest.raises(ZooError, match=said):
        run_recipe({**still, "dataset": other}, runs=tmp_path / "runs", device="cpu")
    model.about = model.about.model_copy(update={"relation_names": None})  # of a former version
    assert graphs.evaluate(model, data) < 0.5 and graphs.evaluate(model, load_graph(spec)) == 1


def people_and_goods(folder, people, goods):
    folder.mkdir(exist_ok=True)
    persons = {"id": people, "x": people, "label": ["xy"[each % 2] for each in people]}
    ends = {"source": people, "target": [goods[each % len(goods)] for each in people]}
    for name, table in (("nodes-person", persons), ("nodes-good", {"id": goods}),
                        ("edges-person-good", ends)):  # fmt: skip
        pandas.DataFrame(table).to_csv(folder / f"{name}.csv", index=False)
    return str(folder)


def test_new_nodes_are_known_by_kind_and_id(tmp_path):
    goods = list(range(1000, 1010))
    path = people_and_goods(tmp_path / "old", list(range(40)), goods)
    recipe = {"dataset": path, "model": "gcn", "train": {"epochs": 1}, "seeds": [0]}
    run = Path(run_recipe(recipe, runs=tmp_path / "runs", device="cpu")["folder"])
    new = load_graph(people_and_goods(tmp_path / "new", list(range(42)), [*goods, 3]))
    assert new.ids[0] == "good:1000"  # two kinds share the id 3 now
    found = new.ids[new_nodes(run / "seed-0", new)].tolist()
    assert found == ["good:3", "person:40", "person:41"]
    assert not new_nodes(run / "seed-0", load_graph(path)).any()
    parts = read_graph({"name": str(tmp_path / "new")})
    write_prepared(parts, tmp_path / "new.npz")
    again = load_graph(tmp_path / "new.npz")
    assert new_nodes(run / "seed-0", again).sum() == 3
    assert new_nodes(run / "seed-0", again.part(torch.arange(11, 53))).sum() == 2
    told = json.loads((run / "nodes.json").read_bytes())
    assert told["kinds"] == ["good"] * 10 + ["person"] * 40
    before = {key: told[key] for key in ("count", "ids")}
    (run / "nodes.json").write_text(json.dumps(before))
    assert new_nodes(run / "seed-0", new).all()  # of a former version: by ids alone
