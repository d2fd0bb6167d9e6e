"""The commands as functions: what they return, and that it is what the commands write."""

import dataclasses
import json

import networkx
import numpy as np
import pandas
import pytest
import torch

import zoo
from zoo import ZooError
from zoo.data.splits import split_of

SMALL = ["train.epochs=2", "seeds=[0, 1]"]


def test_a_run_is_its_summary_and_loads_its_best_seed(tmp_path, caplog):
    seen = []
    run = zoo.train(
        "gcn",
        ["dataset=karate", *SMALL],
        runs=tmp_path,
        watch=lambda seed, epoch: seen.append(seed),
    )
    summary = json.loads((run.folder / "summary.json").read_text())
    assert (run.test.mean, run.test.std) == (summary["test"]["mean"], summary["test"]["std"])
    assert [each.test for each in run.seeds] == [each["test"] for each in summary["seeds"]]
    assert run.summary == summary and seen == [0, 0, 1, 1]
    assert str(run.folder) in str(run) and "accuracy" in str(run)
    best = max(run.seeds, key=lambda each: each.val)
    test = zoo.split(zoo.load_data("karate"), seed=best.seed).test
    assert zoo.evaluate(run.load(), "karate", test) == best.test
    assert "trained on" not in caplog.text
    zoo.evaluate(run.load(), "karate")
    assert "are those that the model was trained on" in caplog.text


def test_a_run_its_folder_and_a_name_are_taken_for_their_model(tmp_path):
    run = zoo.train("gcn", ["dataset=karate", *SMALL], runs=tmp_path)
    model, data = run.load(), zoo.load_data("karate")
    expected = zoo.predict(model, data).values
    for source in (run, run.folder, str(run.folder)):
        assert torch.equal(zoo.predict(source, data).values, expected)
        assert (zoo.embed(source, data).values == zoo.embed(model, data).values).all()
        assert zoo.evaluate(source) == zoo.evaluate(model)
    assert torch.equal(zoo.predict([run, model], "karate").values, expected)
    assert zoo.load(run).folder == model.folder and zoo.evaluate("gcn-digits") > 0.9
    with pytest.raises(ZooError, match="say nothing of pairs"):
        zoo.predict_links(run, data, top=1)
    assert zoo.write_report(run, tmp_path / "a.html").is_file()


def test_what_is_no_model_is_named_in_one_sentence(tmp_path):
    data, model = zoo.load_data("karate"), zoo.create_model("gcn", 34, 2)
    linear = torch.nn.Linear(34, 2)
    for ask, said in (
        (lambda: zoo.predict(linear, data), "one model is wanted.*a torch.Linear"),
        (lambda: zoo.predict(data, "gcn-digits"), "one model is wanted.*a zoo.Dataset"),
        (lambda: zoo.embed([model], data), "one model is wanted.*a list of 1"),
        (lambda: zoo.evaluate([model, model]), "one model is wanted.*a list of 2"),
        (lambda: zoo.predict_links(None, data, top=1), "one model is wanted.*None"),
        (lambda: zoo.load(model), "weights are loaded by a run.*a zoo.GCN"),
        (lambda: zoo.finetune(linear, "karate"), "weights are loaded by a run.*a torch.Linear"),
        (lambda: zoo.save("gcn-digits", tmp_path / "a"), "a model is saved.*'gcn-digits'"),
        (lambda: zoo.compare(model, "mlp"), "are compared, and this is a zoo.GCN"),
        (lambda: zoo.write_report(model), "a report is of a run.*a zoo.GCN"),
    ):
        with pytest.raises(ZooError, match=said):
            ask()


def test_a_recipe_that_is_loaded_is_changed_as_well(tmp_path):
    recipe = zoo.load_recipe("gcn", ["dataset=karate", "train.epochs=1"])
    assert zoo.train(recipe, ["seeds=[3]"], runs=tmp_path).seeds[0].seed == 3
    assert [each.seed for each in zoo.train(recipe, runs=tmp_path).seeds] == recipe.seeds


def test_fine_tuning_onto_other_features_trains_from_scratch_too(tmp_path):
    first = zoo.train("gcn", ["dataset=karate", *SMALL], runs=tmp_path)
    again = zoo.finetune(first.folder, "karate", ["train.epochs=1"], runs=tmp_path)
    assert again.scratch is None and again.best == again.finetuned
    other = zoo.finetune(first.folder, "digits", ["train.epochs=1", "seeds=[0]"], runs=tmp_path)
    ordered = sorted((other.finetuned, other.scratch), key=lambda run: run.val.mean)
    assert other.best == ordered[1] or ordered[0].val == ordered[1].val


def test_what_one_returns_the_next_takes(tmp_path):
    run = zoo.train("gcn", ["dataset=karate", *SMALL], runs=tmp_path)
    how = {"runs": tmp_path, "scratch": True}
    again = zoo.finetune(run, "karate", ["train.epochs=1"], **how)
    assert again.scratch and zoo.finetune(run.load(), "karate", ["train.epochs=1"], **how).scratch
    assert len(zoo.compare(run, again.best, baselines=False).runs) == 2
    assert len(zoo.compare([run, again.best], baselines=False).runs) == 2
    assert str(again).count("\n") == 2 and str(again.best.folder) in str(again)


def test_a_graph_in_memory_is_written_for_a_run_and_other_objects_are_refused(tmp_path):
    rng = np.random.default_rng(0)
    edges, x = rng.integers(0, 40, (120, 2)), rng.normal(size=(40, 5)).astype(np.float32)
    labels, ids = np.array(["a", "b"])[np.arange(40) % 2], np.array([f"n{n}" for n in range(40)])
    how = {"ids": ids, "weights": rng.random(120), "edge_features": rng.random((120, 2))}
    edges = ids[edges]
    for direction in ("both", "in"):
        data = zoo.Dataset.from_arrays(edges, x, labels, direction=direction, **how)
        data.save(tmp_path / "mine.npz")
        read = zoo.load_data(str(tmp_path / "mine.npz"))
        for key in ("weight", "feature"):
            torch.testing.assert_close(read.graph.edata[key], data.graph.edata[key])
        assert torch.equal(torch.stack(read.graph.edges()), torch.stack(data.graph.edges()))
        assert torch.equal(read.x, data.x) and torch.equal(read.y, data.y)
        assert (read.labels, read.task) == (data.labels, data.task) and (read.ids == ids).all()
    run = zoo.train("gcn", SMALL, data=data, runs=tmp_path / "runs")
    [path] = (tmp_path / "runs" / "data").iterdir()
    again = zoo.train({"model": "gcn", "dataset": data}, SMALL, runs=tmp_path / "runs")
    assert again.test == run.test and [*path.parent.iterdir()] == [path]
    split = dataclasses.replace(data, split="ratio-48-32-20")
    other = zoo.train("gcn", SMALL, data=split, runs=tmp_path / "runs")
    assert zoo.load_recipe(other.folder / "recipe.yaml").dataset["split"] == "ratio-48-32-20"
    assert zoo.load_recipe(run.folder / "recipe.yaml").dataset["split"] == data.split
    masks = {
        part: torch.arange(40)[None] % 3 == n for n, part in enumerate(("train", "val", "test"))
    }
    later = dataclasses.replace(data, published=lambda: masks)  # which come when they are asked for
    later.save(tmp_path / "later.npz")
    read = zoo.load_data(str(tmp_path / "later.npz"))
    assert all(torch.equal(read.masks[part], masks[part]) for part in masks)
    assert "train" in zoo.predict(run.load(), data).table()["part"].tolist()
    apart = zoo.Dataset.from_arrays(edges, x, labels, direction="separate", ids=ids)
    with pytest.raises(ZooError, match="kept apart"):
        apart.save(tmp_path / "no.npz")
    with pytest.raises(ZooError, match="is in memory.*loop of your own"):
        zoo.train("gcn", data=zoo.load_data("digits-images"))
    graph = networkx.path_graph(3)
    with pytest.raises(ZooError, match=r"of a file, which `networkx.write_graphml\(graph, \"mine"):
        zoo.train("gcn", data=graph)
    with pytest.raises(ZooError, match=r"of a file, which `torch\.save\(data, \"mine"):
        zoo.train("gcn", data={"edge_index": torch.zeros(2, 0, dtype=torch.int64)})
    for first, second, said in (
        (data, "gcn", "write 'gcn', data='PATH'"),
        ("karate", "gcn", "write 'gcn', data='karate'"),
        ("gcn", "karate", "write 'gcn', data='karate'"),
    ):
        with pytest.raises(ZooError, match=f"first the recipe.*{said}"):
            zoo.train(first, second)
    for wrong in ("dataset=karate", data):
        with pytest.raises(ZooError, match=r"as a list, such as \['train.epochs=20'\]"):
            zoo.train("gcn", wrong)
    with pytest.raises(ZooError, match="this model was not loaded"):
        zoo.finetune(zoo.create_model("gcn", 3, 2), "karate")
    with pytest.raises(ZooError, match="no data set of a recipe is called 'Cora'.*'cora'"):
        zoo.list_recipes("Cora")


def test_tuning_scores_the_best_once(tmp_path):
    pytest.importorskip("optuna")
    how = {"trials": 2, "splits": 1, "runs": tmp_path}
    found = zoo.tune("gcn", ["dataset=karate", "train.epochs=1"], **how)
    assert found.trials == 2 and found.recipe.is_file() and found.run.folder.is_dir()
    assert found.settings["model.dim"] == zoo.load_recipe(found.recipe).model["dim"]


def test_a_comparison_is_a_table_of_models_and_graphs(tmp_path):
    trained = [
        zoo.train(model, ["dataset=karate", *SMALL], runs=tmp_path) for model in ("gcn", "mlp")
    ]
    found = zoo.compare(*(run.folder for run in trained), runs=tmp_path)  # read, not trained
    assert {*found.runs} == {*trained}
    assert [run.test.mean for run in found.runs] == sorted(found.table["mean"], reverse=True)
    assert [*found.table["graph"]] == ["karate"] * 2 and found.table["best"].sum() == 1
    assert "| gcn |" in str(found) and "booktabs" in found.latex()


def test_recipes_are_listed_as_the_command_does():
    assert {"sgformer-cora", "sgformer-cora-rba"} <= {*zoo.list_recipes("cora", "sgformer")}
    assert set(zoo.list_recipes(model="ridge")) < set(zoo.list_recipes())


def test_a_split_is_that_of_a_recipe():
    data = zoo.load_data("karate")
    usual, same = zoo.split(data), split_of(data, data.split, 0)
    assert torch.equal(usual.train, same.train) and torch.equal(usual.test, same.test)
    dealt = zoo.split(data, {"name": "stratified", "train": 50, "val": 25}, 4)
    assert len(dealt.train) == 17 and not torch.equal(dealt.val, zoo.split(data, seed=1).val)


@pytest.mark.parametrize("name", ["karate", "cora", "mutag", "chickenpox"])
def test_a_data_set_is_shown_in_five_lines(real_graph, name):
    lines = repr(real_graph(name)).splitlines()
    assert len(lines) == 5 and lines[0].startswith(f"{name}: ") and max(map(len, lines)) < 100


def test_a_row_of_several_targets_has_a_label_where_one_is_known():
    y = torch.zeros(34, 2)
    y[0, 0], y[1] = torch.nan, torch.nan  # one target of the first is known, none of the second
    data = dataclasses.replace(zoo.load_data("karate"), y=y, task="node-multilabel")
    assert "labels: 33 of 34 nodes have one" in repr(data)


def test_data_are_named_beside_a_model(tmp_path, preloaded_processes):
    run = zoo.train("gcn", SMALL, data={"name": "sbm", "nodes": 60}, runs=tmp_path)
    assert run.dataset == "sbm"
    found = zoo.compare("mlp", "gcn", data="karate", overrides=SMALL, runs=tmp_path)
    assert {each.dataset for each in found.runs} == {"karate"}
    with pytest.raises(ZooError, match="data='karate' and dataset=sbm both name the data set"):
        zoo.train("gcn", ["dataset=sbm"], data="karate")


def test_a_table_in_memory_is_answered_with_what_reads_it(tmp_path):
    table = pandas.DataFrame({"x": [1, 2, 3], "label": ["a", "b", "a"]})
    model = zoo.create_model("gcn", 3, 2)
    for call in (
        lambda: zoo.load_data(table),
        lambda: zoo.predict(model, table),
        lambda: zoo.train("gcn", data=table),
        lambda: zoo.finetune("gcn-actor", table),
    ):
        with pytest.raises(ZooError, match=r'to_csv\("mine.csv", index=False\)'):
            call()
    with pytest.raises(ZooError, match="divides what zoo.load_data returns, not DataFrame"):
        zoo.split(table)
    with pytest.raises(ZooError, match="given by its word, its path or a mapping"):
        zoo.load_data(None)
