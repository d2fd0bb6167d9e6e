"""Answers of trained models: values against twins, graphs never seen, names, parts, the command."""

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from pretended_cuda import pretended_cuda

import zoo
from zoo.config.metadata import About
from zoo.data import GraphArrays, make_dataset
from zoo.data.files.prepared import write_prepared
from zoo.data.splits import PARTS, split_of
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.inference.predict import labelled, write_table
from zoo.inference.training_data import (
    as_trained,
    read_as_trained,
    training_of,
    training_split,
    warn_of_seen,
)
from zoo.runs.finetune import plan_finetuning
from zoo.tasks.task import of_weights
from zoo.training import layerwise

SMALL = {
    "dataset": {"name": "sbm", "nodes": 90, "classes": 3, "features": "row"},
    "encoding": {"name": "laplacian", "k": 3},
    "model": {"name": "sgformer", "dim": 8, "attention": {"name": "rba", "size": 16}},
    "train": {"epochs": 5},
    "seeds": [0],
}


@pytest.fixture
def run(tmp_path):
    return zoo.run_recipe(SMALL, runs=tmp_path / "runs")


def graph(x, y, edges=((0, 1), (1, 2), (2, 3)), task="node-classification", **named):
    x, y = np.asarray(x, np.float32), np.asarray(y)
    data = make_dataset("own", GraphArrays(np.array(edges), y, x), task=task)
    return dataclasses.replace(data, **named)


def linear(weight, **about):
    """A model whose logits are ReLU(x) W^T, the head reading ReLU(x)."""
    out_dim, in_dim = np.shape(weight)
    how = {"dim": in_dim, "layers": 1, "dropout": 0.0, "norm": "none"}
    model = zoo.create_model("mlp", in_dim, out_dim, **how)
    state = model.state_dict()
    for key in state:
        state[key].zero_()
    [stem] = [key for key in state if key.startswith("stem") and state[key].ndim == 2]
    state[stem].copy_(torch.eye(in_dim))
    state["head.weight"].copy_(torch.tensor(weight, dtype=torch.float))
    model.load_state_dict(state)
    model.about = About(features=in_dim, **about)
    return model.eval()


X = [[1, 0], [0, 2], [3, 1], [0, 0]]


def test_probabilities_and_names_of_classes():
    model = linear([[1, 0], [0, 1], [2, -1]], task="node-classification", labels=["a", "b", "c"])
    found = zoo.predict(model, graph(X, [0, 1, 2, 0], ids=np.array(["p", "q", "r", "s"])))
    table = found.table()
    values = ["probability_a", "probability_b", "probability_c"]
    assert list(table) == ["id", "label", "known", *values]
    assert list(table.id) == ["p", "q", "r", "s"] and list(table.known) == ["a", "b", "c", "a"]
    for row, (i, j) in enumerate(X):
        scores = np.exp([i, j, 2 * i - j])
        np.testing.assert_allclose(found.values[row], scores / scores.sum(), rtol=1e-6)
        assert found.labels[row] == "abc"[int(np.argmax(scores))]


@pytest.mark.parametrize(
    ("task", "value"), [("multilabel", "probability"), ("regression", "value")]
)
def test_several_values_stand_beside_what_is_known_of_each(task, value):
    model = linear([[1, 0], [0, 1]], task=f"node-{task}", labels=["a", "b"])
    y = [[1, 0], [np.nan, 1], [np.nan, np.nan], [0, 0]]
    frame = pd.DataFrame(y, columns=["a", "b"])
    for own in (frame, frame[["b", "a"]]):  # which are those of the model by name
        data = zoo.Dataset.from_arrays([[0, 1]], np.float32(X), own, task=f"node-{task}")
        found = zoo.predict(model, data)
        table = found.table()
        assert list(table) == ["id", "known_a", f"{value}_a", "known_b", f"{value}_b"]
        np.testing.assert_array_equal(table[["known_a", "known_b"]], y)
    assert zoo.predict(model, data, only_unlabelled=True).ids.tolist() == [2]
    one = linear([[1, 0]], task="node-regression", labels=["a"])
    data = zoo.Dataset.from_arrays([[0, 1]], np.float32(X), frame[["b"]], task="node-regression")
    assert list(zoo.predict(one, data).table()) == ["id", "known", "value"]


def test_two_classes_of_one_logit():
    model = linear([[1, -2]], task="node-binary", labels=["no", "yes"])
    found = zoo.predict(model, graph(X, [0, 1, 1, 0], task="node-binary"))
    expected = [1 / (1 + np.exp(-(i - 2 * j))) for i, j in X]
    np.testing.assert_allclose(found.values[:, 1], expected, rtol=1e-6)
    np.testing.assert_allclose(found.values.sum(1), 1, rtol=1e-6)
    assert found.columns == ["probability_no", "probability_yes"]
    assert found.labels == ["yes" if p > 0.5 else "no" for p in expected]


def test_targets_and_numbers():
    x, y = X, np.array([[0, 1], [1, 0], [0, 0], [1, 1]], np.float32)
    model = linear([[1, 0], [0, -1]], task="node-multilabel")
    found = zoo.predict(model, graph(x, y, task="node-multilabel"))
    np.testing.assert_allclose(
        found.values, [[1 / (1 + np.exp(-i)), 1 / (1 + np.exp(j))] for i, j in x], rtol=1e-6
    )
    values = ["known_0", "probability_0", "known_1", "probability_1"]
    assert list(found.table()) == ["id", *values]
    numbers = zoo.predict(linear([[2, 3]], task="node-regression"), graph(x, [0, 1, 0, 1]))
    assert numbers.table()["value"].tolist() == [2 * i + 3 * j for i, j in x]


def test_what_the_head_reads():
    model = linear([[1, 0], [0, 1]], task="node-classification")
    found = zoo.embed(model, graph(X, [0, 1, 0, 1], ids=np.array([*"pqrs"])))
    assert found.values.tolist() == np.asarray(found).tolist() == X and len(found) == 4
    assert np.asarray(found, np.float64).dtype == np.float64
    table = found.table()
    assert list(table) == ["id", "e0", "e1"] and table["id"].tolist() == [*"pqrs"]
    assert table[["e0", "e1"]].values.tolist() == X


def test_classes_without_names_are_whole_numbers(tmp_path):
    model = linear([[1, 0], [0, 1]], task="node-classification")
    found = zoo.predict(model, graph(X, [0, 1, 1, 1]))
    assert found.table().label.tolist() == found.labels == [0, 1, 0, 0]
    assert found.table().dtypes[["label", "known"]].astype(str).tolist() == ["int64"] * 2
    assert (found.table().label == found.table().known).mean() == 0.5
    gaps = dataclasses.replace(zoo.predict(model, graph(X, [0, -1, 1, 1])), unread={1: "no"})
    write_table(gaps, tmp_path / "a.csv")
    cells = [line.split(",")[1:3] for line in (tmp_path / "a.csv").read_text().splitlines()[1:]]
    assert cells == [["0", "0"], ["", ""], ["1", ""], ["0", "1"], ["0", "1"]]
    assert zoo.predict([model, model], graph(X, [0, 1, 1, 1])).labels == found.labels
    for names, numbers in ((["-1", "7"], [-1, 7]), (["07", "8"], ["07", "8"])):
        named = linear([[1, 0], [0, 1]], task="node-classification", labels=names)
        found = zoo.predict([named, named], graph(X, [0, -1, 1, 1], labels=(*names,)))
        assert found.labels == [numbers[n] for n in (0, 1, 0, 0)]
        assert found.known == [numbers[0], None, numbers[1], numbers[1]]


def test_as_many_predictions_as_nodes_and_none_is_changed():
    model = linear([[1, 0], [0, 1]], task="node-classification")
    found = zoo.predict(model, graph(X, [0, 1, 0, 1]))
    assert len(found) == len(found.table()) == 4 and len(found.select(found.ids > 1)) == 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.labels = None


def test_nodes_to_be_measured_are_numbers_of_rows_or_a_mask():
    model = linear([[1, 0], [0, 1]], task="node-classification", metric="accuracy")
    data = graph(X, [0, 1, 1, 1])
    for nodes in ([0, 2], np.array([0, 2]), torch.tensor([2, 0]), np.array([1, 0, 1, 0], bool)):
        assert zoo.evaluate(model, data, nodes) == 0.5
    for nodes, said in (
        (torch.tensor([1, 5000]), "from 0 to 3, or a mask of all, and 5000 is none"),
        (torch.tensor([-1]), "and -1 is none"),
        (torch.tensor([True]), "a mask of all, and this is a torch.Tensor of the shape"),
        ([0.5], "this is a list of 1, the first of type float"),
        (["n1"], "this is a list of 1, the first of type str"),
        ([[0], [1, 2]], "this is a list of 2"),
    ):
        with pytest.raises(ZooError, match=said):
            zoo.evaluate(model, data, nodes)


def test_three_lines(run):
    model = zoo.load(run["folder"])
    data = zoo.load_graph("sbm", nodes=200, classes=3, seed=9)
    table = zoo.predict(model, data).table()
    # The twin does by hand what the recipe says: rows divided by their sums, the encoding beside.
    row = zoo.load_graph("sbm", nodes=200, classes=3, seed=9, features="row")
    full = row.add_features(zoo.encodings.laplacian(row.graph, k=3))
    with torch.no_grad():
        expected = model(full.graph, full.x).logits.softmax(1)
    assert np.array_equal(table.filter(like="probability").to_numpy(), expected.numpy())
    assert table.label.tolist() == expected.argmax(1).tolist()
    same = zoo.predict(model, row)  # already transformed, and not once more
    assert torch.equal(same.values, expected)
    standard = zoo.load_graph("sbm", nodes=200, classes=3, features="standard")
    with pytest.raises(ZooError, match="'standard'.*'row'"):
        zoo.predict(model, standard)


def test_evaluation_repeats_the_score_of_training(run, command):
    [row] = run["seeds"]
    for part in ("train", "val", "test"):
        code, out, _ = command("evaluate", run["folder"], "--part", part, "--json")
        assert code == 0 and json.loads(out)["score"] == row[part]
    found = json.loads(command("evaluate", run["folder"], "--json")[1])
    assert found["part"] == "test" and found["score"] == row["test"] and not found["seen"]
    other = "{name: sbm, nodes: 300, classes: 3, seed: 4}"
    found = json.loads(command("evaluate", run["folder"], "--data", other, "--json")[1])
    assert found["part"] == "all" and found["nodes"] == 300 and found["seen"]


def test_features_are_matched_by_name():
    names = ["width", "height"]
    model = linear([[1, 0], [0, 1]], task="node-classification", feature_names=names)
    straight = zoo.predict(model, graph(X, [0, 1, 0, 1], feature_names=("width", "height")))
    turned = np.array(X)[:, ::-1]
    found = zoo.predict(model, graph(turned, [0, 1, 0, 1], feature_names=("height", "width")))
    assert torch.equal(straight.values, found.values)
    with pytest.raises(ZooError, match="missing: height; not known to the model: depth"):
        zoo.predict(model, graph(X, [0, 1, 0, 1], feature_names=("width", "depth")))
    wide = np.ones((4, 3))
    with pytest.raises(ZooError, match="3 features and the model reads 2.*missing: none.*depth"):
        zoo.predict(model, graph(wide, [0, 1, 0, 1], feature_names=(*names, "depth")))
    with pytest.raises(ZooError, match="3 features per node and the model reads 2"):
        zoo.predict(model, graph(wide, [0, 1, 0, 1]))


def test_classes_are_matched_by_name(caplog):
    labels = ["cat", "dog", "owl"]
    model = linear([[1, 0], [0, 1], [-1, -1]], task="node-classification", labels=labels)
    x, y = [[1, 0], [0, 1], [-1, -1], [0, 5]], [0, 1, 2, 0]
    own = graph(x, y, labels=("cat", "dog", "owl"))
    assert zoo.evaluate(model, own) == 0.5
    fewer = graph(x, [0, 1, -1, 0], labels=("dog", "owl"))
    assert zoo.evaluate(model, fewer) == pytest.approx(1 / 3)  # only the last is a dog
    with_ape = graph(x, y, labels=("cat", "ape", "owl"))
    assert zoo.evaluate(model, with_ape) == pytest.approx(1 / 3)  # the first is a cat
    assert "1 nodes are of classes that the model was not trained on, and are left" in caplog.text
    assert "out: ape; it knows cat, dog, owl" in caplog.text
    with pytest.raises(ZooError, match="only classes that the model was not trained on: ape, bat"):
        zoo.evaluate(model, graph(x, [0, 1, -1, 0], labels=("ape", "bat")))
    unnamed = linear([[1, 0], [0, 1]], task="node-classification")
    with pytest.raises(ZooError, match="class 2; the model knows 2"):
        zoo.evaluate(unnamed, graph(x, y))


def test_probabilities_are_those_that_one_hot_labels_have_trained(tmp_path):
    """Each class has a sigmoid of its own: of a coin with 0.7 for one side it is 0.7."""
    y = np.arange(200) % 10 < 7
    np.savez(tmp_path / "coin.npz", edges=np.zeros((0, 2), "i8"), node_labels=y.astype("i8"),
             node_features=np.ones((200, 1), "f4"), split_train=np.ones(200, bool))  # fmt: skip
    data = zoo.load_graph(tmp_path / "coin.npz")
    model = zoo.create_model("mlp", 1, 2, dim=1)
    with torch.no_grad():
        for each in model.parameters():
            each.zero_()
        model.head.bias.copy_(torch.logit(torch.tensor([0.3, 0.7])))
    model.about = About(task="node-classification", recipe={"train": {"loss": "one-hot"}})
    assert np.allclose(zoo.predict(model.eval(), data).values, [0.3, 0.7])
    task = of_weights("node-binary", "one-hot")
    found = task.probabilities(torch.tensor([[-1.0, 1]]))
    assert np.allclose(found, [[0.26894, 0.73106]], atol=1e-5)  # their sum is 1 already


@pytest.mark.parametrize("ask", [zoo.predict, zoo.embed])
def test_answers_that_are_no_numbers_are_refused(ask):
    data = zoo.load_graph("karate")
    model = zoo.create_model("mlp", data.x.shape[1], 2).eval()
    ask(model, data)  # the first answer of a model is looked at as a whole
    x = data.x.clone()
    x[3, 0] = -3.4e38
    with pytest.raises(ZooError, match="1 of 34 answers for karate are no .* that for 3: look"):
        ask(model, dataclasses.replace(data, x=x * 4))


def test_weights_without_the_files_of_their_split_are_evaluated(tmp_path, command):
    for part, nodes in {"train": range(10), "val": range(10, 20), "test": range(20, 34)}.items():
        (tmp_path / f"{part}.txt").write_text("\n".join(map(str, nodes)))
    files = {part: str(tmp_path / f"{part}.txt") for part in ("train", "val", "test")}
    recipe = {"dataset": {"name": "karate", "split": {"name": "ids", **files}}, "model": "mlp",
              "train": {"epochs": 2}, "seeds": [0]}  # fmt: skip
    folder = Path(zoo.run_recipe(recipe, runs=tmp_path / "runs")["folder"]) / "seed-0"
    for path in files.values():
        Path(path).unlink()
    code, out, _ = command("evaluate", folder, "--data", "karate", "--part", "all", "--json")
    assert code == 0 and json.loads(out)["seen"]


def written(tmp_path, name, labels, **how):
    edges, x = np.array([[i, i + 1] for i in range(len(labels) - 1)]), np.eye(3)[[0, 1, 2] * 5]
    np.savez(tmp_path / name, edges=edges, node_features=x.astype("f4"), node_labels=labels)
    return zoo.load_graph(tmp_path / name, **how)


def test_names_of_other_data_are_not_those_of_weights_without(caplog):
    model = zoo.create_model("mlp", 3, 3).eval()
    model.about = About(task="node-classification", data="numbers")
    edges, x = [[0, 1], [1, 2]], np.eye(3, dtype="f4")
    asked = zoo.Dataset.from_arrays(edges, x, ["dog", "cat", "emu"], name="names")
    found = zoo.predict(model, asked)
    assert found.columns == [f"probability_{each}" for each in range(3)]
    zoo.evaluate(model, asked)
    assert "the classes of names have names" in caplog.text


def test_numbers_of_classes_that_named_weights_do_not_know_are_refused(tmp_path):
    model = zoo.create_model("mlp", 3, 3).eval()
    model.about = About(task="node-classification", data="letters", labels=["a", "b", "c"])
    with pytest.raises(ZooError, match="four has the class 3; the model knows 3"):
        zoo.evaluate(model, written(tmp_path, "four.npz", np.array([0, 1, 2, 3, 3] * 3)))


def test_weights_of_two_targets_are_not_measured_on_one(tmp_path):
    data = written(tmp_path, "one.npz", np.linspace(0, 1, 15), task="node-regression")
    model = zoo.create_model("mlp", 3, 2).eval()
    with pytest.raises(ZooError, match="one has 1 targets and the model 2"):
        zoo.evaluate(model, data)


def test_weights_of_graphs_do_not_answer_for_nodes():
    data = zoo.load_graph("karate")
    model = zoo.create_model("mlp", data.inputs, 2).eval()
    model.about = About(task="graph-classification")
    with pytest.raises(ZooError, match="weights are of graph-classification, and karate is for"):
        zoo.predict(model, data)


@pytest.mark.parametrize("ask", [zoo.predict, zoo.evaluate, zoo.embed])
def test_names_of_data_are_refused_where_the_model_was_not_loaded(ask):
    data = zoo.load_graph("karate")
    model = zoo.create_model("mlp", data.inputs, 2).eval()
    for name in ("m2", Path("m2")):
        with pytest.raises(ZooError, match=r"m2'? is only a name.*Write zoo.load_data\('m2'\)"):
            ask(model, name)
        with pytest.raises(ZooError, match="no weights at 'm2'"):
            ask(name, data)
    with pytest.raises(ZooError, match=r"zoo.load_data\({'name': 'm2'}\)"):
        ask(model, data, context={"name": "m2"})


def test_features_in_a_scale_of_their_own_are_told(caplog):
    data = zoo.load_graph("karate", features="standard")
    model = zoo.create_model("mlp", data.inputs, 2).eval()
    moments = (data.moments + 1).tolist()
    model.about = About(features=data.inputs, transform="standard", moments=moments)
    zoo.predict(model, data)
    assert "karate is standardised by its own means" in caplog.text


def test_parts_of_a_graph():
    """Without edges to look at, parts answer like the whole; with edges, what is cut is told."""
    data = zoo.load_graph("sbm", nodes=101, classes=3)
    mlp = zoo.create_model("mlp", 16, 3).eval()
    whole = zoo.predict(mlp, data)
    parts = zoo.predict(mlp, data, batch_size=10)
    torch.testing.assert_close(parts.values, whole.values)
    assert whole.dropped_edges == 0 < parts.dropped_edges < 1
    ring = np.stack([np.arange(100), (np.arange(100) + 1) % 100], 1)
    data = graph(np.ones((100, 2)), np.arange(100) % 2, edges=ring)
    gcn = zoo.create_model("gcn", 2, 2).eval()
    found = zoo.predict(gcn, data, batch_size=50)
    assert found.dropped_edges <= 4 / 100  # neighbours stay together as far as can be
    with pytest.raises(ZooError, match="from 1"):
        zoo.predict(gcn, data, batch_size=0)


def test_layerwise_answers_are_those_of_the_whole(monkeypatch):
    monkeypatch.setattr(layerwise, "EDGES", 200)
    data = zoo.load_graph("sbm", nodes=300, classes=3)
    model = zoo.create_model("sgformer", 16, 3)
    close = {"rtol": 1e-4, "atol": 1e-6}
    whole, found = (zoo.predict(model, data, layerwise=each) for each in (False, True))
    torch.testing.assert_close(found.values, whole.values, **close)
    assert found.dropped_edges == 0
    whole, found = (zoo.embed(model, data, layerwise=each).values for each in (False, True))
    np.testing.assert_allclose(found, whole, **close)
    assert zoo.evaluate(model, data, layerwise=True) == zoo.evaluate(model, data)
    with pytest.raises(ZooError, match="leave out --batch-size"):
        zoo.predict(model, data, layerwise=True, batch_size=10)
    with pytest.raises(ZooError, match=r"in the place of `--layerwise`"):
        zoo.predict(zoo.create_model("transformer", 16, 3), data, layerwise=True)


def test_commands_layerwise(command, tmp_path):
    model = {"name": "difformer", "dim": 8}
    run = zoo.run_recipe({**SMALL, "model": model}, runs=tmp_path / "runs")["folder"]
    for words, name in (("predict", "found.csv"), ("embed", "found.npy")):
        given = (words, run, "--data", "{name: sbm, nodes: 50, classes: 3, features: row}")
        assert command(*given, "--out", f"whole-{name}")[0] == 0
        assert command(*given, "--out", name, "--layerwise")[0] == 0
    read = [pd.read_csv(each).iloc[:, 2:] for each in ("whole-found.csv", "found.csv")]
    np.testing.assert_allclose(*read, rtol=1e-4, atol=1e-6)
    read = [np.load(each) for each in ("whole-found.npy", "found.npy")]
    np.testing.assert_allclose(*read, rtol=1e-4, atol=1e-6)
    whole, found = (
        json.loads(command("evaluate", run, "--json", *words)[1])
        for words in ((), ("--layerwise",))
    )
    assert whole == found
    code, _, err = command(*given, "--out", "x.npy", "--layerwise", "--batch-size", "9")
    assert code == 2 and "leave out --batch-size" in err


def test_a_graph_without_labels_is_predicted_but_not_trained_on(run, command, tmp_path):
    data = zoo.load_graph("sbm", nodes=90, classes=3)
    edges = torch.stack(data.graph.edges(), 1).numpy()
    write_prepared(GraphArrays(edges, np.full(90, -1), data.x.numpy()), tmp_path / "new.npz")
    code, _, err = command("predict", run["folder"], "--data", "new.npz", "--out", "new.csv")
    assert code == 0 and "90 nodes of new are in new.csv" in err
    table = pd.read_csv(tmp_path / "new.csv")
    expected = zoo.predict(zoo.load(run["folder"]), data)
    assert table.id.tolist() == list(range(90))
    assert table.label.tolist() == expected.labels
    np.testing.assert_allclose(table.iloc[:, 2:].astype(np.float32), expected.values, rtol=1e-6)
    for words in (("train", "gcn-digits", "dataset=new.npz"),
                  ("evaluate", run["folder"], "--data", "new.npz")):  # fmt: skip
        code, _, err = command(*words)
        assert code == 2 and "label" in err.strip().splitlines()[-1] and "Traceback" not in err


def test_the_table_is_never_written_over(command, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("mine")
    words = ("predict", "gcn-digits", "--data", "digits", "--out", out)
    code, _, err = command(*words)
    assert code == 2 and "--again" in err and out.read_text() == "mine"
    assert command(*words, "--again")[0] == 0
    assert len(pd.read_csv(out)) == 1797


def test_embeddings_are_written(command, tmp_path):
    assert command("embed", "gcn-digits", "--data", "digits", "--out", "e.npy")[0] == 0
    found = np.load(tmp_path / "e.npy", allow_pickle=False)
    model, data = zoo.load("gcn-digits"), zoo.load_graph("digits")
    with torch.no_grad():
        logits = model.head(torch.from_numpy(found))
    torch.testing.assert_close(logits.softmax(1), zoo.predict(model, data).values)


def test_parquet_or_the_line_that_installs_it(command, tmp_path):
    code, _, err = command("predict", "gcn-digits", "--data", "digits", "--out", "p.parquet")
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        assert code == 2 and "pip install pyarrow" in err and not list(tmp_path.glob("*parquet*"))
    else:
        assert code == 0 and len(pd.read_parquet(tmp_path / "p.parquet")) == 1797


@pytest.mark.parametrize(
    "words,said",
    [
        (("predict", "gcn-digits", "--data", "karate", "--out", "a.csv"), "34 features"),
        (("predict", "gcn-digits", "--data", "digist", "--out", "a.csv"), "'digits'"),
        (("predict", "gcn-digits", "--data", "digits", "--out", "a.xlsx"), ".csv or .parquet"),
        (("predict", "gcn-digits", "--data", "{name: [", "--out", "a.csv"), "write a name"),
        (("predict", "gcn-digits", "--data", "{nodes: 3}", "--out", "a.csv"), "write a name"),
        (("predict", "nowhere", "--data", "digits", "--out", "a.csv"), "no weights at"),
        (("evaluate", "gcn-digits", "--import", "x.py"), "there is no file"),
        (("embed", "gcn-digits", "--data", "digits", "--out", "a.csv"), ".npy"),
        (("embed", "gcn-digits", "--data", "digits", "--out", "file/a.npy"), "cannot be written"),
        (("evaluate", "gcn-digits", "--part", "tset"), "'test'"),
        (("evaluate", "gcn-digits", "--data", "karate"), "34 features"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered(command, tmp_path, words, said):
    (tmp_path / "file").write_text("in the way of a folder")
    before = sorted(tmp_path.iterdir())
    code, out, err = command(*words)
    assert code == 2 and said in err and "Traceback" not in err and not out
    assert sorted(tmp_path.iterdir()) == before


def test_an_encoding_that_is_none_is_not_said_to_be_added():
    for encoding, said in (({"name": "none"}, False), ({"name": "laplacian", "k": 2}, True)):
        model = linear([[1, 0], [0, 1]], task="node-classification", encoding=encoding)
        with pytest.raises(ZooError, match="the model reads 2") as raised:
            zoo.predict(model, graph(np.ones((4, 3)), [0, 1, 0, 1]))
        assert ("adds the encoding" in str(raised.value)) == said


def numbers(path, rows):
    kinds = np.array(["no", "yes"])
    table = {"id": rows, "a": 50 + 9.0 * (rows % 2) + rows % 5, "b": rows % 7, "c": 0.1}
    pd.DataFrame({**table, "label": kinds[rows % 2]}).to_csv(path.with_suffix(".csv"), index=False)
    return {"name": str(path.with_suffix(".csv")), "features": "standard"}


def posts(path, rows):
    words = np.array([f"word{each}" for each in range(12)])
    path = path.with_suffix(".jsonl")
    lines = (
        {"id": str(row), "label": "ab"[row % 2], "text": " ".join(words[row % 2 : row % 12 + 2])}
        for row in rows.tolist()
    )
    path.write_text("\n".join(map(json.dumps, lines)))
    return {"name": str(path)}


@pytest.mark.parametrize("write", [numbers, posts])
def test_answers_do_not_depend_on_what_else_is_asked(write, tmp_path):
    recipe = {"model": "mlp", "train": {"epochs": 5}, "seeds": [0]}
    rows = np.arange(60)
    run = zoo.run_recipe({**recipe, "dataset": write(tmp_path / "all", rows)}, runs=tmp_path / "r")
    model = zoo.load(run["folder"])

    def answers(rows, name):
        return zoo.predict(model, zoo.load_graph(write(tmp_path / name, rows)["name"])).values

    whole = answers(rows, "again")
    for some in (rows[1::2], rows[7:8]):
        torch.testing.assert_close(answers(some, "some"), whole[some], rtol=1e-5, atol=1e-6)


def test_options_of_what_new_data_have_not_are_left_out(tmp_path):
    """They are refused where nothing reads them, and nobody could take them back."""
    (tmp_path / "new.csv").write_text("id,x,kind\n1,2,a\n")
    (tmp_path / "new.mtx").write_text("")
    of_edges = {"weight": "w", "edge_features": "f", "weights": "use", "source": "a", "target": "b"}
    then = {"name": "old", "label": "kind", **of_edges}
    table, matrix = (str(tmp_path / each) for each in ("new.csv", "new.mtx"))
    assert as_trained(table, then) == {"label": "kind", "name": table}
    with_edges = {"name": table, "edges": "e.csv"}
    assert as_trained(with_edges, then) == {**then, **with_edges}
    assert as_trained(matrix, then) == {"weights": "use", "name": matrix}
    with_nodes = {"name": matrix, "nodes": table}
    assert as_trained(with_nodes, then) == {"label": "kind", "weights": "use", **with_nodes}
    (tmp_path / "nodes-a.csv").write_text("id,x,kind\n1,2,a\n")
    folder = str(tmp_path)
    for label in ("a.kind", "kind"):
        assert as_trained(folder, {"name": "old", "label": label})["label"] == label
    assert "label" not in as_trained(folder, {"name": "old", "label": "a.sort"})


def test_a_table_is_read_as_the_weights_need_it(tmp_path, caplog):
    """Other separators, further columns and kinds that training had not."""
    rows = pd.DataFrame({"x": np.arange(40) % 2, "town": ["1", "2"] * 20, "label": list("ab") * 20})
    rows.to_csv(tmp_path / "old.csv", sep=";", index=False)
    data = {"name": str(tmp_path / "old.csv"), "separator": ";", "one_hot": "town"}
    recipe = {"dataset": data, "model": "mlp", "train": {"epochs": 3}, "seeds": [0]}
    run = zoo.run_recipe(recipe, runs=tmp_path / "runs")
    model, folder = zoo.load(run["folder"]), Path(run["folder"]) / "seed-0"
    wanted = zoo.predict(model, zoo.load_graph(data)).values
    other = rows.assign(note="some words")[["note", "town", "x", "label"]]
    other.to_csv(tmp_path / "new.csv", index=False)
    spec = {"name": str(tmp_path / "new.csv"), "separator": ","}
    found, _ = read_as_trained(model, folder, spec)
    assert torch.equal(zoo.predict(model, found).values, wanted) and not caplog.text
    other.assign(town=["1.0", "2.0"] * 20).to_csv(tmp_path / "new.csv", index=False)
    zoo.predict(model, read_as_trained(model, folder, spec)[0])
    assert "town: 40 of 40 values are none that training had, such as '1.0', '2.0'" in caplog.text


def test_labels_columns_and_categories_that_weights_do_not_know_are_named(tmp_path, caplog):
    """They counted as not known, missing columns were told one at a time, to finetune nothing."""
    rows = pd.DataFrame({"x": np.arange(40) % 2, "y": 1.5, "town": ["a", "b"] * 20,
                         "label": list("cd") * 20})  # fmt: skip
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    rows.to_csv(old, index=False)
    data = {"name": str(old), "one_hot": "town"}
    recipe = {"dataset": data, "model": "mlp", "train": {"epochs": 2}, "seeds": [0]}
    model = zoo.load(zoo.run_recipe(recipe, runs=tmp_path / "runs")["folder"])
    rows.assign(label=["c", "dd"] * 20).to_csv(new, index=False)
    zoo.predict(model, str(new))
    assert "20 labels are none of the classes that the model knows" in caplog.text
    assert "count as not known: dd; it knows c, d" in caplog.text
    rows[["x", "label"]].to_csv(new, index=False)
    with pytest.raises(ZooError, match="no column 'y', 'town'.*there are 'x'"):
        zoo.predict(model, str(new))
    rows.assign(town=["a", "z"] * 20).to_csv(new, index=False)
    caplog.clear()
    plan_finetuning(model.folder, str(new))
    assert caplog.text.count("town: 20 of 40 values are none that training had, such as 'z'") == 1


def test_runs_of_a_pattern_are_named_where_one_is_wanted(command, tmp_path):
    for name in ("runs/a-1", "runs/a-2", "runs/a-3"):
        zoo.save(zoo.create_model("mlp", 3, 2), tmp_path / name)
    for words in (["evaluate"], ["predict", "--data", "karate", "--out", "a.csv"]):
        code, _, said = command(*words, "runs/a-1", "runs/a-2", "runs/a-3")
        assert code == 2 and "these were named besides: runs/a-2, runs/a-3." in " ".join(
            said.split()
        )
    code, _, said = command("evaluate", "runs/a-*")
    assert code == 2 and "is a pattern, of runs/a-1, runs/a-2, runs/a-3" in " ".join(said.split())


def test_rows_without_a_value_are_read_by_what_training_has_taught(tmp_path):
    random, words = np.random.default_rng(0), ("red house", "green tree", "blue car")
    rows = [f"{random.integers(20, 60)},2024-0{i % 9 + 1}-11,{words[i % 3]},{'ab'[i % 2]}"
            for i in range(40)]  # fmt: skip
    head = "age,since,about,label\n"
    (tmp_path / "old.csv").write_text(head + "\n".join([*rows, ",,,a"]) + "\n")
    (tmp_path / "new.csv").write_text(f"{head},,the and,\n,,,\n")
    spec = {"name": str(tmp_path / "old.csv"), "missing": "mean", "dates": ["since"],
            "text": ["about"], "numbers": "raw"}  # fmt: skip
    recipe = {"dataset": spec, "model": "mlp", "train": {"epochs": 1}, "seeds": [0]}
    model = zoo.load(zoo.run_recipe(recipe, runs=tmp_path / "runs")["folder"])
    new = zoo.load_graph({**spec, "name": str(tmp_path / "new.csv")})
    x = new.with_columns(model.about.columns).x
    age = next(each for each in model.about.columns if each.name == "age")
    assert torch.allclose(x[:, 0], torch.tensor(age.mean)) and not x[:, 1].any()
    assert zoo.predict(model, new).values.isfinite().all()
    with pytest.raises(zoo.ZooError, match="the column 'age' is empty in all training rows"):
        new.columns.fit()


def test_the_number_to_predict_may_be_minus_one():
    y = torch.tensor([[-1.0, 0.5], [torch.nan, -1.0], [torch.nan, torch.nan]])
    assert labelled(y).tolist() == [True, True, False]
    assert labelled(y[:, 0]).tolist() == [True, False, False]
    assert labelled(torch.tensor([0, -1, 2])).tolist() == [True, False, True]


def test_weights_without_means_and_deviations_say_so(caplog):
    model = linear([[1, 0], [0, 1]], task="node-classification", transform="standard")
    zoo.predict(model, graph(X, [0, 1, 0, 1]))
    assert "those of own" in caplog.text


@pytest.mark.parametrize("ask", [zoo.predict, zoo.evaluate, zoo.embed])
def test_asking_leaves_a_model_as_it_was(ask):
    data = zoo.load_graph("karate")
    model = zoo.create_model("gcn", data.x.shape[1], data.classes, norm="batch").double().train()
    first = next(model.children())
    first.eval()
    with pretended_cuda():
        ask(model.to("cuda"), data)
        assert {each.device.type for each in model.parameters()} == {"cuda"}
    assert model.training and not first.training
    assert next(model.parameters()).dtype == torch.float64


def test_columns_that_only_the_table_of_training_has_are_left_out(tmp_path):
    table = tmp_path / "new.csv"
    table.write_text("x,z\n1,2\n")
    then = {"name": "own.csv", "id": "user", "label": "kind", "one_hot": ["z", "town"]}
    assert as_trained(str(table), then) == {"one_hot": ["z"], "name": str(table)}


def test_a_table_of_training_is_divided_as_then_until_it_changes(tmp_path, command, caplog):
    rows = [f"n{each},{each % 7},{each % 3},{'ab'[each % 2]}" for each in range(60)]
    table = tmp_path / "own.csv"
    table.write_text("\n".join(["id,x,z,label", *rows]))
    dataset = {"name": str(table), "split": {"name": "ratio", "train": 70, "val": 10, "test": 20}}
    recipe = {"dataset": dataset, "model": {"name": "mlp", "dim": 4}, "train": {"epochs": 2}}
    [row] = (run := zoo.run_recipe(recipe, runs=tmp_path / "runs"))["seeds"]
    caplog.clear()

    def found(part):
        words = ("evaluate", run["folder"], "--data", str(table), "--part", part, "--json")
        return json.loads(command(*words)[1])

    test = found("test")
    assert (test["nodes"], test["score"], test["seen"]) == (12, row["test"], False)
    assert found("all")["seen"] and not caplog.text
    table.write_text("\n".join(["id,x,z,label", *rows[::-1]]))
    test = found("test")
    assert (test["nodes"], test["score"], test["seen"]) == (12, row["test"], False), "by their ids"
    assert found("all")["seen"] and "has changed since" not in caplog.text
    Path(run["folder"], "nodes.json").unlink()  # as in a run of a former version
    assert found("test")["seen"]
    assert "own, or its split, has changed since the weights were trained on it" in caplog.text


def test_a_split_whose_files_have_changed_is_not_taken_for_that_of_training(
    tmp_path, command, caplog
):
    table = tmp_path / "own.csv"
    table.write_text("\n".join(["id,x,label", *(f"n{i},{i % 7},{'ab'[i % 2]}" for i in range(60))]))
    split = {part: str(tmp_path / f"{part}.txt") for part in PARTS}

    def divide(*parts):
        for path, numbers in zip(split.values(), parts, strict=True):
            Path(path).write_text("\n".join(f"n{each}" for each in numbers))

    divide(range(20), range(20, 40), range(40, 60))
    dataset = {"name": str(table), "id": "id", "split": {"name": "ids", **split}}
    recipe = {"dataset": dataset, "model": {"name": "mlp", "dim": 4}, "train": {"epochs": 1},
              "seeds": [0]}  # fmt: skip
    folder = zoo.run_recipe(recipe, runs=tmp_path / "runs")["folder"]
    given = ("evaluate", folder, "--part", "test", "--json")
    assert not json.loads(command(*given)[1])["seen"]
    divide(range(40, 60), range(20, 40), range(20))
    code, _, said = command(*given)
    assert code == 2 and "train.txt is another file" in said
    assert not json.loads(command(*given, "--data", table)[1])["seen"]
    assert "the 20 nodes are measured that were of the part test of the training" in caplog.text
    Path(folder, "nodes.json").unlink()
    assert json.loads(command(*given, "--data", table)[1])["seen"]
    assert "own, or its split, has changed since the weights were trained on it" in caplog.text


def test_the_data_of_training_are_divided_as_then_and_seen_is_counted(tmp_path, command):
    recipe = {
        **SMALL,
        "encoding": "none",
        "dataset": {**SMALL["dataset"], "split": "ratio-80-10-10"},
    }
    [row] = (run := zoo.run_recipe(recipe, runs=tmp_path / "runs"))["seeds"]
    same = "{name: sbm, nodes: 90, classes: 3}"

    def found(*words):
        return json.loads(command("evaluate", run["folder"], "--data", *words, "--json")[1])

    test = found(same, "--part", "test")
    assert (test["score"], test["seen"]) == (row["test"], False)
    assert found(same, "split=ratio-50-25-25", "--part", "test")["seen"]
    assert found(same)["seen"]


def grown(folder, nodes, edges="source,target\n"):
    """A folder of tables: ids and labels of the numbers of nodes."""
    folder.mkdir(parents=True)
    rows = [f"n{i},{i % 7},{i % 3},{'ab'[i % 2]},{'xy'[i % 2]},{i}" for i in nodes]
    (folder / "nodes.csv").write_text("\n".join(["id,age,size,label,other,day", *rows, ""]))
    (folder / "edges.csv").write_text(edges)
    return folder


def trained(tmp_path, folder, **options):
    dataset = {"name": str(folder), "columns": "age,size", **options}
    recipe = {"dataset": dataset, "model": {"name": "mlp", "dim": 4}, "train": {"epochs": 2}}
    run = zoo.run_recipe({**recipe, "seeds": [0]}, runs=tmp_path / "runs")
    return Path(run["folder"]) / "seed-0", run["seeds"][0]


def scored(run, data, part="all"):
    spec = data if isinstance(data, dict) else str(data)
    return evaluate_part(zoo.load(run), spec, part, folder=run)


@pytest.mark.parametrize("columns", ["age", "age, size", ["age"]])
def test_columns_as_text_or_a_list_are_divided_as_then(tmp_path, columns):
    own = {"columns": columns, "split": "time-70-10-20", "time_column": "day"}
    run, row = trained(tmp_path, folder := grown(tmp_path / "own", range(60)), **own)
    found = scored(run, folder, "test")
    assert (found["score"], found["nodes"], found["seen"]) == (row["test"], 12, False)
    known = as_trained(str(folder), (training := training_of(str(run))).spec)
    assert training_split(known, training) == {"split": "time-70-10-20"}
    assert training_split({**known, "columns": ["size"]}, training) is None


def test_a_copy_is_divided_as_then_and_seen_wherever_it_lies(tmp_path, monkeypatch):
    run, row = trained(tmp_path, folder := grown(tmp_path / "own", range(60)),
                       split="ratio-70-10-20")  # fmt: skip
    copy = shutil.copytree(folder, tmp_path / "elsewhere" / "copied")
    shutil.rmtree(folder)
    monkeypatch.chdir(copy.parent)
    found = scored(run, "copied", "test")
    assert (found["score"], found["nodes"], found["seen"]) == (row["test"], 12, False)
    assert scored(run, copy)["seen"] and scored(run, copy, "train")["seen"]
    (copy / "nodes.csv").write_text((copy / "nodes.csv").read_text().replace("n0,0", "n0,1"))
    assert scored(run, copy, "val")["nodes"] == 6  # of 70, 10, 20, by their ids
    assert scored(run, {"name": str(copy), "split": "ratio-60-20-20"}, "val")["nodes"] == 12


def test_a_part_of_a_graph_that_has_grown_is_that_of_training(tmp_path, command, caplog):
    run, _ = trained(tmp_path, grown(tmp_path / "own", range(60)))
    bigger = grown(tmp_path / "bigger", range(4, 100))
    parts = zoo.predict(zoo.load(run), str(bigger)).parts
    for part in PARTS:
        caplog.clear()
        found = scored(run, bigger, part)
        assert found["nodes"] == parts.count(part) and found["seen"] is (part == "train")
        said = f"of bigger the {found['nodes']} nodes are measured that were of the part {part} of"
        assert said in caplog.text and f"the {96 - found['nodes']} others" in caplog.text
    test = [node for node, part in zip(range(4, 100), parts, strict=True) if part == "test"]
    assert found["score"] == zoo.evaluate(zoo.load(run), str(bigger), part="test")
    assert scored(run, grown(tmp_path / "those", test))["score"] == found["score"]
    few = grown(tmp_path / "few", [node for node in range(99) if node not in test])
    with pytest.raises(ZooError, match="few no nodes with a label were of the part test"):
        scored(run, few, "test")
    assert scored(run, grown(tmp_path / "rest", range(60, 100)), "test")["nodes"] == 8  # dealt
    code, out, _ = command("evaluate", run, "--data", bigger, "--part", "test", "--only-new")
    assert code == 0 and " test nodes of bigger." in out, "of those that are dealt"


def test_nodes_of_classes_that_training_had_not_are_left_out(tmp_path, command):
    run, _ = trained(tmp_path, grown(tmp_path / "own", range(60)))
    table = grown(tmp_path / "more", range(80)) / "nodes.csv"
    told = pd.read_csv(table)
    told.loc[60:, "label"] = "c"
    told.to_csv(table, index=False)
    code, out, said = command("evaluate", run, "--data", table.parent, "--json")
    found = json.loads(out)
    assert (found["nodes"], [row["class"] for row in found["per_class"]]) == (60, ["a", "b"])
    assert said.count("more: 20 nodes are of classes that the model was not trained on") == 1
    code, _, said = command("evaluate", run, "--data", table.parent, "--only-new")
    assert code == 2 and "no nodes have a label that the model knows" in said


def test_that_no_node_is_new_is_said(tmp_path, command):
    run, _ = trained(tmp_path, folder := grown(tmp_path / "own", range(60)))
    for words in ((), ("--part", "test")):
        code, _, said = command("evaluate", run, "--data", folder, "--only-new", *words)
        assert code == 2 and "of this part of own no nodes with a label are new" in said
    for y in (torch.empty(0, dtype=torch.int64), torch.empty(0, 3)):
        assert labelled(y).shape == (0,)


def test_nodes_of_training_are_known_in_a_graph_that_has_grown(tmp_path, caplog):
    run, _ = trained(tmp_path, folder := grown(tmp_path / "own", range(60)))
    caplog.clear()
    bigger = grown(tmp_path / "bigger", range(-5, 60))
    data = zoo.load_graph(folder, columns="age,size")
    test = split_of(data, "ratio-60-20-20", 0).test.tolist()
    assert scored(run, bigger)["seen"]
    assert not scored(run, grown(tmp_path / "other" / "own", range(60, 120)))["seen"]
    assert not scored(run, grown(tmp_path / "rest", [*test, 60, 61]))["seen"]  # none of training
    shutil.rmtree(folder)
    assert not scored(run, tmp_path / "rest")["seen"]  # the run has noted which they were
    noted = run.parent / "nodes.json"
    told = {key: each for key, each in json.loads(noted.read_bytes()).items() if key != "parts"}
    noted.write_text(json.dumps(told))
    assert scored(run, tmp_path / "rest")["seen"]  # in a run of a former version that is lost
    assert not caplog.text


def test_what_weights_outside_of_a_run_were_trained_on_is_not_known(tmp_path, command, caplog):
    run, _ = trained(tmp_path, grown(tmp_path / "own", range(60)))
    saved, edges = tmp_path / "saved", "source,target\nn0,n61\n"
    bigger = grown(tmp_path / "bigger", range(70), edges)
    zoo.save(zoo.load(run), saved)
    found = json.loads(command("evaluate", saved, "--data", bigger, "--json")[1])
    assert found["seen"] is None and found["nodes"] == 70
    said = " ".join(command("evaluate", saved, "--data", bigger)[1].split())
    assert "Nothing says whether the weights were trained on some of these nodes; if they" in said
    assert scored(saved, tmp_path / "own")["seen"] is True, "by its content"
    assert scored(run, bigger)["seen"] is True
    caplog.clear()
    for data in (str(bigger), zoo.load_graph(bigger, columns="age,size")):
        zoo.evaluate(zoo.load(saved), data)
    assert caplog.text.count("nothing says whether the model was trained on some of these") == 2
    quick = ("train.epochs=1", "--runs", tmp_path / "tuned", "--quiet", "--json")
    tuned = json.loads(command("finetune", saved, "--data", bigger, *quick)[1])["folder"]
    assert f"nothing says whether {saved} was trained on some" in caplog.text
    assert json.loads(Path(tuned, "start_from.json").read_text())["seen"] is None
    assert json.loads(command("evaluate", tuned, "--json")[1])["seen"] is None, "carried on"


def test_fine_tuning_on_a_graph_that_has_grown_tells_what_was_seen(tmp_path, caplog):
    run, _ = trained(tmp_path, grown(tmp_path / "own", range(60)))
    bigger = grown(tmp_path / "bigger", range(-5, 60))
    spec = {"name": str(bigger), "columns": "age,size"}
    data = zoo.load_graph(bigger, columns="age,size")
    then = zoo.load_graph(tmp_path / "own", columns="age,size")
    train = split_of(then, "ratio-60-20-20", 0).train
    split = split_of(data, "ratio-60-20-20", 0)
    known = {f"n{each}" for each in train.tolist()}
    seen = sum(each in known for each in data.ids[torch.cat([split.val, split.test]).numpy()])
    warn_of_seen(str(run), spec, data, [split])
    assert 0 < seen < 26
    assert f"had {seen} of the 26 nodes of validation and test in its training" in caplog.text
    caplog.clear()
    fresh = grown(tmp_path / "fresh", range(60, 120))
    data = zoo.load_graph(fresh, columns="age,size")
    warn_of_seen(str(run), str(fresh), data, [split_of(data, "ratio-60-20-20", 0)])
    assert not caplog.text


def test_rows_without_ids_are_not_those_of_another_graph(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    written(tmp_path, "one/own.npz", [0, 1, 2] * 5)
    written(tmp_path, "two/own.npz", [2, 1, 0] * 5)
    shutil.copy(tmp_path / "one" / "own.npz", tmp_path / "same.npz")
    recipe = {"dataset": str(tmp_path / "one" / "own.npz"), "model": {"name": "mlp", "dim": 4}}
    run = zoo.run_recipe({**recipe, "train": {"epochs": 2}, "seeds": [0]}, runs=tmp_path / "runs")
    folder = Path(run["folder"]) / "seed-0"
    assert scored(folder, tmp_path / "same.npz")["seen"]
    assert not scored(folder, tmp_path / "two" / "own.npz")["seen"]


def test_a_label_that_a_table_has_not_is_named(tmp_path, command):
    run, _ = trained(tmp_path, folder := grown(tmp_path / "own", range(60)), label="other")
    table = folder / "nodes.csv"
    table.write_text(table.read_text().replace("label,other", "kind,another"))
    with pytest.raises(ZooError, match=r"own has no column 'other', .* label=other, .*add what is"):
        scored(run, folder)
    code, _, _ = command("predict", run, "--data", folder, "--out", tmp_path / "all.csv")
    assert code == 0 and len(pd.read_csv(tmp_path / "all.csv")) == 60
    code, out, _ = command("evaluate", run, "--data", folder, "label=another", "--json")
    assert code == 0 and json.loads(out)["nodes"] == 60


def test_targets_that_a_table_has_not_are_named(tmp_path):
    rows = [f"n{i},{i % 7},{i % 2},{i % 3 // 2}" for i in range(60)]
    table = tmp_path / "own.csv"
    table.write_text("\n".join(["id,age,t1,t2", *rows, ""]))
    own = {"columns": "age", "label": "t1,t2", "task": "node-multilabel"}
    run, _ = trained(tmp_path, table, **own)
    fewer = [f"n{i},{i % 7},{i % 2}" for i in range(60)]
    (tmp_path / "new.csv").write_text("\n".join(["id,age,t2", *fewer, ""]))
    with pytest.raises(ZooError, match=r"new.csv has no column 't1', .*label=t1,t2"):
        scored(run, tmp_path / "new.csv")


def test_nodes_of_training_are_known_in_memory_too(run, caplog):
    model, named = zoo.load(run["folder"]), SMALL["dataset"]
    data = zoo.load_data({**named, "features": "raw"})
    parts = zoo.predict(model, named).parts
    assert {*parts} == {*PARTS} and zoo.predict(model, data).parts == parts
    zoo.evaluate(model, data)
    assert caplog.text.count("are those that the model was trained on") == 1
    others = zoo.load_data({**named, "features": "raw", "nodes": 60})
    assert zoo.predict(model, others).parts is None
    shutil.rmtree(run["folder"])
    assert zoo.predict(model, data).parts is None, "as the model alone can answer"


def test_nodes_in_memory_are_known_by_ids_in_text(tmp_path):
    ids = np.array([*"abcdefghij"])
    nodes = pd.DataFrame({"id": ids, "size": np.arange(10.0), "label": [*"uv" * 5]})
    path = tmp_path / "nodes.csv"
    nodes.to_csv(path, index=False)
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    recipe = {"dataset": str(tmp_path), "model": "mlp", "train": {"epochs": 1}, "seeds": [0]}
    model = zoo.load(zoo.run_recipe(recipe, runs=tmp_path / "runs")["folder"])
    data = zoo.load_graph(str(tmp_path))
    parts = zoo.predict(model, str(tmp_path)).parts
    assert {*parts} == {*PARTS} and zoo.predict(model, data).parts == parts
    assert zoo.predict(model, data.part(torch.tensor([3, 1]))).parts == [parts[3], parts[1]]
    numbered = dataclasses.replace(data, ids=None)
    assert zoo.predict(model, numbered).parts is None


def test_predictions_are_told_in_five_lines():
    data = graph(np.eye(4), [0, 1, 2, 0], labels=("a", "b", "c"))
    model = linear([[5, 0, 0, 0], [0, 5, 0, 5], [0, 0, 5, 0]], labels=["a", "b", "c"])
    assert repr(zoo.predict(model, data)).splitlines() == [
        "4 predictions: b (2), a (1), c (1)",
        " id label known  probability_a  probability_b  probability_c",
        "  0     a     a       0.986703       0.006648       0.006648",
        "  1     b     b       0.006648       0.986703       0.006648",
        "and 2 more; .table() has all rows and columns",
    ]
    many = zoo.predict(linear(np.eye(300, 4)), data)
    assert str(many).count("\n") == 4 and max(map(len, str(many).splitlines())) < 100


def test_several_models_answer_by_their_mean_and_spread(command, tmp_path):
    recipe = {**SMALL, "train": {"epochs": 1}, "seeds": [0, 1, 2]}
    run = Path(zoo.run_recipe(recipe, runs=tmp_path / "runs")["folder"])
    models = [zoo.load(run / f"seed-{seed}") for seed in range(3)]
    each = [zoo.predict(model, SMALL["dataset"]) for model in models]
    found, values = zoo.predict(models, SMALL["dataset"]), torch.stack([a.values for a in each])
    torch.testing.assert_close(found.values, values.mean(0))
    torch.testing.assert_close(found.spread, values.std(0))
    assert found.labels == values.mean(0).argmax(1).tolist()
    splits = [split_of(zoo.load_data(SMALL["dataset"]), "ratio-60-20-20", seed) for seed in (0, 1)]
    assert not torch.equal(splits[0].train, splits[1].train)  # so that parts differ
    trained = [{n for n, part in enumerate(a.parts) if part == "train"} for a in each]
    assert {n for n, part in enumerate(found.parts) if part == "train"} == set.union(*trained)
    words = ("--data", "{name: sbm, nodes: 90, classes: 3}", "--all-seeds", "--out", "answers.csv")
    code, _, err = command("predict", str(run), *words)
    assert code == 0 and "the mean of 3 seeds" in err, err
    table = pd.read_csv(tmp_path / "answers.csv")
    spread = found.spread.gather(1, found.values.argmax(1, keepdim=True))[:, 0]
    np.testing.assert_allclose(table["spread"], spread, rtol=1e-4)
    for words, said in [
        ([str(run / "seed-0"), "--data", "karate"], "has not the weights of several seeds"),
        ([str(run), "--data", "karate", "--top", "3"], "--all-seeds is for the answers"),
    ]:
        assert said in command("predict", *words, "--all-seeds", "--out", "no.csv")[2]
    with pytest.raises(ZooError, match="other nodes, or of other classes"):
        zoo.predict(
            [models[0], linear(np.ones((4, 16)), transform="row")], zoo.load_data(SMALL["dataset"])
        )
    with pytest.raises(ZooError, match="no model is there"):
        zoo.predict([], "karate")


def test_a_part_is_measured_by_its_word(run):
    model = zoo.load(Path(run["folder"]) / "seed-0")
    test = evaluate_part(model, None, "test", folder=model.folder)["score"]
    data = zoo.load_data(SMALL["dataset"])
    for named in (None, SMALL["dataset"], data):
        assert zoo.evaluate(model, named, part="test") == test == zoo.evaluate(model)
        assert zoo.evaluate(model, named, part="all") == zoo.evaluate(model, data)
    for wrong, said in [
        ({"part": "tset"}, "did you mean 'test'"),
        ({"data": data, "part": "tset"}, "did you mean 'test'"),
        ({"part": "test", "nodes": torch.arange(3)}, "leave one out"),
        (
            {"data": graph(np.ones((5, 16)), [0] * 5, transform="row"), "part": "test"},
            "which nodes",
        ),
    ]:
        with pytest.raises(ZooError, match=said):
            zoo.evaluate(model, **wrong)
