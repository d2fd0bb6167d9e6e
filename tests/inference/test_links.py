"""What a trained model says of pairs: scores, the best partners, metrics."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas
import pytest
import torch

import zoo
from zoo.data.load import load_data
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.inference.links import (
    best_partners,
    find_nodes,
    links_as_trained,
    predict_links,
    read_pairs,
    score_pairs,
)
from zoo.runs.run import run_recipe

RECIPE = {
    "dataset": "karate",
    "encoding": {"name": "random_walk", "steps": 4},
    "task": {"name": "link-prediction", "dim": 8, "decoder": "concat-mlp"},
    "model": {"name": "gcn", "dim": 8, "layers": 2},
    "train": {"epochs": 5, "lr": 0.01},
    "seeds": [3],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    summary = run_recipe(RECIPE, runs=runs)
    return zoo.load(next(runs.iterdir())), summary


def all_scores(model, data):
    pairs = torch.cartesian_prod(torch.arange(34), torch.arange(34))
    return score_pairs(model, data, pairs).reshape(34, 34)


def test_partners_are_the_best_of_all_pairs(run, monkeypatch):
    model, data = run[0], load_data("karate")
    scores = all_scores(model, data)
    scores.fill_diagonal_(-1)
    pairs, likely = best_partners(model, data, 3, known=True)
    assert torch.equal(pairs[..., 1], scores.topk(3).indices)
    torch.testing.assert_close(likely, scores.topk(3).values)
    scores[data.graph.edges()] = -1
    monkeypatch.setattr("zoo.inference.links.BLOCK", 100)  # some nodes at a time
    pairs, likely = best_partners(model, data, 3)
    assert torch.equal(pairs[..., 1], scores.topk(3).indices)
    some = find_nodes(["33", "2", "33", "7", "0", "5", "6"], data)  # more than are compared at once
    pairs, likely = best_partners(model, data, 3, nodes=some)
    assert some.tolist() == [33, 2, 7, 0, 5, 6] and torch.equal(pairs[:, 0, 0], some)
    assert torch.equal(pairs[..., 1], scores[some].topk(3).indices)
    with pytest.raises(ZooError, match="no node of karate is called '34'"):
        find_nodes(["34"], data)


def test_a_node_has_no_more_partners_than_there_are(run):
    model, data = run[0], load_data("karate")
    pairs, likely = best_partners(model, data, 100)
    assert pairs.shape == (34, 33, 2)
    others = 33 - (data.graph.in_degrees() - 1)
    assert torch.equal((pairs[..., 1] >= 0).sum(1), others.long())
    table = predict_links(model, "karate", top=100)
    assert len(table) == int(others.sum())
    assert [*table.columns] == ["source", "target", "probability"]


def test_pairs_and_partners_by_ids(run, tmp_path):
    model, data, file = run[0], load_data("karate"), tmp_path / "pairs.csv"
    ids = dataclasses.replace(data, ids=np.array([f"m{number}" for number in range(34)]))
    table = predict_links(model, ids, [("m5", "m16"), ("m0", "m33"), ("m5", "m16")])
    assert table["source"].tolist() == ["m5", "m0", "m5"]
    expected = score_pairs(model, data, torch.tensor([[5, 16], [0, 33], [5, 16]]))
    assert table["probability"].tolist() == expected.tolist()
    for same in (torch.tensor([[5, 16], [0, 33]]), pandas.DataFrame({"a": [5, 0], "b": [16, 33]})):
        assert predict_links(model, data, same)["probability"].tolist() == expected[:2].tolist()
    file.write_text("source,target\n5,16\n0,33\n")
    assert predict_links(model, data, file)["probability"].tolist() == expected[:2].tolist()
    frame = pandas.DataFrame({"a": ["5", "0"], "b": ["16", "33"], "price": [0.5, 1.5]})
    assert predict_links(model, data, frame)["probability"].tolist() == expected[:2].tolist()
    one = predict_links(model, ids, top=2, nodes="m33")
    assert one["source"].tolist() == ["m33", "m33"]
    assert predict_links(model, data, top=2, nodes=33)["target"].tolist() == [
        int(name[1:]) for name in one["target"]
    ]
    some = predict_links(model, ids, top=2, nodes=["m33", "m2"])
    assert some["source"].tolist() == ["m33", "m33", "m2", "m2"]
    for wrong, message in (
        ({}, "links are predicted of pairs"),
        ({"pairs": [(0, 1)], "top": 2}, "links are predicted of pairs"),
        ({"pairs": [(0, 1)], "nodes": [1]}, "links are predicted of pairs"),
        ({"pairs": [(0, 1, 2)]}, "ids of two nodes each"),
        ({"pairs": frame[["a"]]}, "ids of two nodes each"),
        ({"pairs": [(0, 34)]}, "no node of karate is called '34'"),
    ):
        with pytest.raises(ZooError, match=message):
            predict_links(model, data, **wrong)


def test_pairs_are_read_by_their_ids(tmp_path):
    data = load_data("karate")
    file = tmp_path / "pairs.csv"
    file.write_text("who,with\n0,33\n5, 16\n")
    assert read_pairs(file, data).tolist() == [[0, 33], [5, 16]]
    file.write_text(file.read_text().replace(",", ";"))  # refused for what no option could say
    assert read_pairs(file, data).tolist() == [[0, 33], [5, 16]]
    file.write_text("who,with\n0,34\n")
    with pytest.raises(ZooError, match="has '34', and no node of karate has this id"):
        read_pairs(file, data)
    file.write_text("who\n0\n")
    with pytest.raises(ZooError, match="has 1 column"):
        read_pairs(file, data)


def test_what_is_measured_is_what_training_measured(run):
    model, summary = run
    measured = evaluate_part(model, None, None)
    assert measured["score"] == pytest.approx(summary["test"]["mean"])
    assert measured["unit"] == "links" and measured["nodes"] == 9
    assert evaluate_part(model, None, "train")["seen"]
    assert zoo.evaluate(model) == zoo.evaluate(model, "karate") == measured["score"]
    train = evaluate_part(model, None, "train")["score"]
    assert zoo.evaluate(model, "karate", part="train") == train
    for wrong, said in (
        ({"nodes": [1]}, "links are measured, and not nodes"),
        ({"data": load_data("karate")}, "zoo.evaluate.model, GRAPH.*by its name or path"),
    ):
        with pytest.raises(ZooError, match=said):
            zoo.evaluate(model, **{"data": "karate", **wrong})


def test_a_model_of_nodes_scores_no_pairs():
    model = zoo.create_model("gcn", 34, 3)
    with pytest.raises(ZooError, match="of another task, and say nothing of pairs"):
        score_pairs(model, load_data("karate"), torch.tensor([[0, 1]]))


def written(folder, scale=1, prefix="n"):
    """Write a folder of 40 nodes with text ids and two numbers, and their links; return it."""
    generator = torch.Generator().manual_seed(0)
    folder.mkdir()
    rows = scale * (torch.randn(40, 2, generator=generator) + 5)
    nodes = [f"{prefix}{node},{a},{b}" for node, (a, b) in enumerate(rows.tolist())]
    (folder / "nodes.csv").write_text("\n".join(["id,a,b", *nodes, ""]))
    ends = torch.randint(40, (150, 2), generator=generator).tolist()
    edges = [f"{prefix}{u},{prefix}{v}" for u, v in ends if u != v]
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    return str(folder)


def trained(data, folder=None, **recipe):
    """Return a model that is trained on a folder of tables, and its scores."""
    runs = (folder or data.parent) / "runs"
    dataset = data if isinstance(data, dict) else str(data)
    spec = {**RECIPE, "dataset": dataset, **recipe}
    summary = run_recipe(spec, runs=runs)
    return zoo.load(next(runs.iterdir())), summary


def test_a_graph_made_of_features_is_measured_as_it_was_trained(tmp_path):
    mine = written(tmp_path / "mine")
    model, summary = trained(Path(mine), graph={"name": "knn", "k": 3})
    assert evaluate_part(model, mine, None)["score"] == pytest.approx(summary["test"]["mean"])
    data = load_data(mine)
    pairs, _ = best_partners(model, data, 39)  # without the links of the graph that was made
    made = data.with_columns(model.about.columns).with_graph({"name": "knn", "k": 3})
    assert not made.graph.has_edges_between(*pairs[pairs[..., 1] >= 0].T).any()


def test_another_table_is_read_by_what_training_learnt_of_columns(tmp_path):
    model, _ = trained(Path(written(tmp_path / "mine")))
    other = load_data(written(tmp_path / "other", scale=10))
    seen = links_as_trained(model, other).data.x[:, :2]
    torch.testing.assert_close(seen, other.with_columns(model.about.columns).x)
    assert seen.std() > 5  # not standardised anew


def test_links_that_training_knew_are_told_in_a_graph_that_has_grown(tmp_path, caplog):
    """They are known by the ids of their nodes, and keep their part."""
    mine = written(tmp_path / "mine")
    trained(Path(mine))
    folder = next((tmp_path / "runs").iterdir()) / "seed-3"
    grown, strange = written(tmp_path / "grown"), written(tmp_path / "strange", prefix="m")
    with open(f"{grown}/edges.csv", "a") as file:
        file.write("n0,n39\n")
    model, other = zoo.load(folder), {"name": grown, "split": "ratio-60-20-20"}
    for path, seen in ((grown, False), (other, True), (strange, False), (mine, False)):
        assert evaluate_part(model, path, None, folder=folder)["seen"] is seen
    assert caplog.text.count("129 links keep their part of") == 1
    (folder.parent / "nodes.json").unlink()  # as in a run of a former version
    assert evaluate_part(model, grown, None, folder=folder)["seen"] is True


@pytest.mark.parametrize("ids", [True, False])
def test_links_keep_their_part_when_weights_are_fine_tuned(ids, tmp_path, command, caplog):
    mine = written(tmp_path / "mine", prefix="n" if ids else "")
    if not ids:
        nodes = pandas.read_csv(f"{mine}/nodes.csv").drop(columns="id")
        nodes.to_csv(f"{mine}/nodes.csv", index=False)
    spec = mine if ids else f"{{name: {mine}, id: null}}"
    trained(mine if ids else {"name": mine, "id": None}, folder=tmp_path)
    run = next((tmp_path / "runs").iterdir())
    before = noted(run)
    with open(tmp_path / "mine" / "edges.csv", "a") as file:
        file.write("".join(f"n{end},n39\n" if ids else f"{end},39\n" for end in range(20)))
    quick = ("train.epochs=1", "--runs", tmp_path / "tuned", "--quiet", "--json")
    code, out, err = command("finetune", run, "--data", spec, *quick)
    assert code == 0, err
    tuned = Path(json.loads(out)["folder"])
    after = noted(tuned)
    assert len(after) > len(before) and all(after[link] == part for link, part in before.items())
    new = len(after) - len(before)
    assert f"{len(before)} links keep their part of {run.name}/seed-3, {new} new" in caplog.text
    assert json.loads((tuned / "start_from.json").read_text())["seen"] == 0
    for words in ((), ("--data", spec)):
        found = json.loads(command("evaluate", tuned, *words, "--json")[1])
        assert found["nodes"] == [*after.values()].count("2") and found["seen"] is False
    other = ("dataset.split={name: ratio, train: 60, seed: 1}", *quick)
    out = command("finetune", run, "--data", spec, *other)[1]
    tuned, told = Path(json.loads(out)["folder"]), noted(Path(json.loads(out)["folder"]))
    seen = sum(told[link] in "12" for link, part in before.items() if part == "0")
    assert json.loads((tuned / "start_from.json").read_text())["seen"] == seen > 0
    assert f"had {seen} of the" in caplog.text
    assert json.loads(command("evaluate", tuned, "--json")[1])["seen"] is True
    zoo.save(zoo.load(run), tmp_path / "saved")
    out = command("finetune", tmp_path / "saved", "--data", spec, *quick)[1]
    tuned = json.loads(out)["folder"]
    assert "has changed since the weights were trained" in caplog.text
    assert json.loads(command("evaluate", tuned, "--json")[1])["seen"] is None


def noted(run):
    """The part of each link of a run by its id."""
    told = json.loads((run / "nodes.json").read_text())
    (parts,) = told["parts"].values()
    return dict(zip(told["ids"], parts, strict=True))


def test_a_split_that_is_named_counts_and_says_what_was_seen(run):
    model, _ = run
    spec = {"name": "karate", "split": "ratio-50-25-25"}
    measured = evaluate_part(model, spec, "test")
    assert measured["nodes"] == 20 and measured["seen"]
    assert not evaluate_part(model, "karate", None)["seen"]
    with pytest.raises(ZooError, match="per-class-20 is none of links"):
        evaluate_part(model, {"name": "karate", "split": "per-class-20"}, "test")


def test_what_is_not_of_links_is_refused(run):
    for part, options in (("all", {}), ("test", {"layerwise": True}), ("test", {"batch_size": 2})):
        with pytest.raises(ZooError, match="links are measured in train, val, test"):
            evaluate_part(run[0], None, part, **options)


def test_metrics_beside_are_those_of_training(tmp_path):
    task = {**RECIPE["task"], "candidates": 20}
    summary = run_recipe({**RECIPE, "task": task}, runs=tmp_path)
    measured = evaluate_part(zoo.load(next(tmp_path.iterdir())), None, None)
    assert "mrr" in measured["beside"]
    means = {word: score["mean"] for word, score in summary["beside"].items()}
    assert measured["beside"] == pytest.approx(means)


def test_broken_tables_of_pairs_are_refused(tmp_path):
    data, file = load_data("karate"), tmp_path / "pairs.csv"
    for text, message in (
        ("0,33\n5,16\n", "its first line is a pair, 0,33, and it is to name the columns"),
        (",source,target\n0,5,16\n", "its first column has no name"),
        ("source,target\n", "has no pairs"),
        ("source,target\n5,\n", "has '', and no node"),
    ):
        file.write_text(text)
        with pytest.raises(ZooError, match=message):
            read_pairs(file, data)


def test_weights_of_links_say_nothing_of_a_node(run):
    for ask in (zoo.predict, zoo.evaluate):
        with pytest.raises(ZooError, match="these weights are of links, and say nothing of a node"):
            ask(run[0], load_data("karate"))
