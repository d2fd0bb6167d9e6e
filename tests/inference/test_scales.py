"""Weights read numbers by the scale of their training: of tables, and what is written of them."""

import dataclasses
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch

import zoo
from zoo.config.learnt_columns import from_json
from zoo.data.files.node_kinds import KindColumns
from zoo.data.files.prepared import write_prepared
from zoo.data.load import learnt_once, own_graph, prepare_on_disk, read_graph
from zoo.inference.training_data import read_as_trained

STANDARD = {"numbers": "standard", "one_hot": "town"}


def write(folder, rows=40, seed=0):
    """A graph whose class is whether an income is high, in a folder of tables."""
    noise = np.random.default_rng(seed).normal(0, 2000, rows)
    folder.mkdir()
    nodes = [f"n{i},{50000 + 10000 * (i % 2) + noise[i]:.0f},{'pqr'[i % 3]},{'xy'[i % 2]}"
             for i in range(rows)]  # fmt: skip
    edges = [f"n{i},n{(i + 2) % rows}" for i in range(rows)]
    (folder / "nodes.csv").write_text("\n".join(["id,income,town,label", *nodes]))
    (folder / "edges.csv").write_text("\n".join(["source,target", *edges]))
    return str(folder)


def prepared(spec, path):
    """What `zoo data prepare` writes."""
    parts = read_graph(spec)
    data = learnt_once(own_graph(spec["name"], parts))
    own = {"features": data.x.numpy(), "feature_names": data.feature_names, "learnt": data.learnt}
    write_prepared(parts._replace(**own), path)
    return str(path)


def trained(data, runs):
    recipe = {"dataset": data, "model": {"name": "gcn", "dim": 8}, "seeds": [0],
              "train": {"epochs": 30, "lr": 0.05}}  # fmt: skip
    folder = Path(zoo.run_recipe(recipe, runs=runs)["folder"]) / "seed-0"
    return zoo.load(folder), folder


def score(model, folder, spec):
    return zoo.evaluate(model, read_as_trained(model, folder, spec)[0])


def test_weights_of_a_table_refuse_what_is_in_another_scale(tmp_path, caplog):
    spec = {"name": write(tmp_path / "old"), **STANDARD}
    model, folder = trained(spec, tmp_path / "runs")
    new = {"name": write(tmp_path / "new", 30, seed=1)}
    assert score(model, folder, new) == 1
    raw = prepared({**new, "one_hot": "town", "numbers": "raw"}, tmp_path / "raw.npz")
    with pytest.raises(zoo.ZooError, match="raw holds its features as they are.*reads income by"):
        score(model, folder, raw)
    with pytest.raises(zoo.ZooError, match="own holds its features by a scale of its own"):
        score(model, folder, prepared({**new, **STANDARD}, tmp_path / "own.npz"))
    data = zoo.load_graph(spec).with_columns(model.about.columns)
    assert zoo.evaluate(model, dataclasses.replace(data, columns=None)) == 1  # the same scale
    as_is = {"name": new["name"], "columns": ["income"], "numbers": "raw"}
    plain, folder = trained(as_is, tmp_path / "runs")
    assert plain.about.columns is None and "a scale of their own" not in caplog.text
    income = prepared({**new, "columns": ["income"], "numbers": "standard"}, tmp_path / "one.npz")
    score(plain, folder, income)
    assert "one was written with numbers in a scale of their own (income)" in caplog.text


@pytest.mark.parametrize("where", ["file", "folder on disk"])
def test_weights_of_a_prepared_graph_read_the_table_by_its_scale(where, tmp_path):
    spec = {"name": write(tmp_path / "old"), **STANDARD, "missing": "mean"}
    if where == "file":
        path = prepared(spec, tmp_path / "written.npz")
    else:
        prepare_on_disk(spec, path := str(tmp_path / "written"))
    model, folder = trained(path, tmp_path / "runs")
    assert [each.name for each in model.about.columns] == ["income", "town"]
    assert score(model, folder, path) == 1
    for name, rows, seed in (("old", 40, 0), ("new", 30, 1)):
        table = spec["name"] if name == "old" else write(tmp_path / name, rows, seed)
        assert score(model, folder, table) == 1
    first = zoo.load_graph(path).x
    assert torch.equal(zoo.load_graph(spec).with_columns(model.about.columns).x, first)
    (tmp_path / "new" / "nodes.csv").write_text("id,income,town,label\nn1,,p,x\nn2,60000,,y\n")
    (tmp_path / "new" / "edges.csv").write_text("source,target\nn1,n2\n")
    gaps = read_as_trained(model, folder, str(tmp_path / "new"))[0]
    assert len(zoo.predict(model, gaps).values) == 2


def test_what_was_learnt_of_kinds_of_nodes_is_found_in_their_tables(tmp_path):
    (tmp_path / "old").mkdir()
    for name, text in {
        "nodes-a": "id,n,word,label\n1,10,red,x\n2,30,blue,y\n3,20,red,x\n4,40,blue,y\n"
                   "5,5,red,x\n6,60,blue,y\n7,7,red,x\n8,80,blue,y\n",
        "nodes-b": "id,m\n1,100\n2,300\n",
        "edges-a-b": "source,target\n1,1\n2,2\n3,1\n4,2\n",
    }.items():  # fmt: skip
        (tmp_path / "old" / f"{name}.csv").write_text(text)
    spec = {"name": str(tmp_path / "old"), "numbers": "standard", "text": "word"}
    path = prepared(spec, tmp_path / "written.npz")
    model, folder = trained(path, tmp_path / "runs")
    data = read_as_trained(model, folder, spec["name"])[0]
    assert isinstance(data.columns, KindColumns)
    wanted = zoo.predict(model, zoo.load_graph(path)).values
    assert torch.equal(zoo.predict(model, data).values, wanted)


def test_weights_that_learnt_of_no_column_read_numbers_as_they_stand(tmp_path):
    """As those that were trained before numbers of NetworkX were standardised."""
    graph = networkx.path_graph(40)
    for node in graph:
        graph.nodes[node].update(pay=node % 2 * 2.0 + 5, label=node % 2)
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    path = str(tmp_path / "g.graphml")
    model, _ = trained({"name": path, "numbers": "raw"}, tmp_path / "runs")
    assert model.about.columns is None
    wanted = zoo.predict(model, zoo.load_graph(path, numbers="raw")).values
    assert torch.equal(zoo.predict(model, zoo.load_graph(path)).values, wanted)


def test_what_is_no_list_of_columns_is_refused(tmp_path):
    path = prepared({"name": write(tmp_path / "old"), **STANDARD}, tmp_path / "written.npz")
    with np.load(path) as stored:
        arrays = dict(stored)
    assert from_json(None) is None
    for text in ("{", '[{"kind": "number"}]', '[{"kind": "number", "name": "x", "shift": [NaN]}]'):
        np.savez(path, **{**arrays, "learnt_columns": np.array(text)})
        with pytest.raises(zoo.ZooError, match="`learnt_columns` is not what is learnt of columns"):
            zoo.load_graph(path)


def test_numbers_in_another_unit_are_told(tmp_path, command, caplog):
    spec = {"name": write(tmp_path / "old"), **STANDARD}
    _, folder = trained(spec, tmp_path / "runs")
    other, same = write(tmp_path / "other", seed=1), write(tmp_path / "same", seed=2)
    table = Path(other) / "nodes.csv"
    rows = [line.split(",") for line in table.read_text().splitlines()]
    rows = [rows[0], *([id, f"{float(income) / 1000}", *rest] for id, income, *rest in rows[1:])]
    table.write_text("\n".join(map(",".join, rows)))
    caplog.clear()
    assert command("evaluate", folder, "--data", same)[0] == 0 and not caplog.text
    code, _, said = command("predict", folder, "--data", other, "--out", tmp_path / "all.csv")
    told = "other: numbers lie far from those of training, as in another unit: income is 55 ±"
    assert code == 0 and told in " ".join(said.split()) and "and was 56,626 ±" in said
    quick = ("train.epochs=1", "--runs", tmp_path / "tuned", "--quiet")
    assert told in " ".join(command("finetune", folder, "--data", other, *quick)[2].split())


def test_numbers_of_a_matrix_in_another_unit_are_told(caplog):
    x = np.random.default_rng(0).normal(50, 10, (60, 5))
    data = zoo.Dataset.from_arrays([[0, 1]], x, np.arange(60) % 2, feature_names=[*"abcde"])
    model = zoo.create_model("mlp", 5, 2, dim=4)
    moments = np.stack([x.mean(axis=0), x.std(axis=0)]).tolist()
    model.about = zoo.registry.About(features=5, transform="standard", moments=moments)
    zoo.predict(model, data)
    assert "lie far from" not in caplog.text
    zoo.predict(model, dataclasses.replace(data, x=data.x * torch.tensor([1, 9, 9, 9, 9.0])))
    assert "unit: b is 4" in caplog.text and "; and 1 more." in caplog.text
    assert caplog.text.count(" and was ") == 3
