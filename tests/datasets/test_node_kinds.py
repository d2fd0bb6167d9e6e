"""Graphs of several kinds of nodes and edges: tables, DGL, PyG, and relations kept apart."""

import numpy as np
import pandas
import pytest
import torch
from heterographs import AUTHORS, PAPERS, SUBJECTS, acm, heterograph, pyg_dict

from zoo import Dataset, ZooError, load_graph
from zoo.canonical_form import WEIGHT
from zoo.datasets.files.prepared import write_prepared
from zoo.datasets.load import read_graph
from zoo.dgl import dgl
from zoo.experiments.run import run_recipe
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


def test_weights_of_some_kinds_of_edges():
    graph = heterograph()
    graph.edges["writes"].data["share"] = torch.full((graph.num_edges("writes"),), 0.5)
    data = Dataset.from_dgl(graph, weight="share")
    source, target = data.graph.edges()
    weights = data.graph.edata[WEIGHT][source != target]
    assert set(weights.tolist()) == {0.5, 1.0}
    with pytest.raises(ZooError, match="weights: ignore"):
        Dataset.from_dgl(graph)


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
