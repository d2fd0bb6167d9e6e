"""Samples without edges: tables, arrays, images and texts as nodes; TF-IDF against its sums."""

import json
import math
import re

import numpy as np
import pytest
import torch

from zoo.data.load import load_graph
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate, evaluate_part
from zoo.inference.predict import predict
from zoo.inference.training_data import training_part
from zoo.runs.run import run_recipe
from zoo.weights.save_and_load import load

WORDS = ["red", "green", "blue", "cyan", "pink", "grey", "teal"]


def posts(count, seed=0):
    """Texts whose class is the word that they have most of."""
    random = np.random.default_rng(seed)
    for number in range(count):
        label = WORDS[number % 3]
        words = [label] * 4 + list(random.choice(WORDS, 6))
        text = ", the ".join(random.permutation(words)) + "!"
        part = "test" if number % 4 == 3 else "train"
        yield {"id": f"p{number}", "split": part, "label": label, "text": text}


@pytest.fixture
def written(tmp_path):
    def write(lines, name="posts.jsonl"):
        path = tmp_path / name
        path.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
        return str(path)

    return write


def tf_idf(texts, terms):
    """Term by term: count, times ln(N / texts with the term) + 1, each row of length 1."""
    counts = [[re.findall(r"\w+", text).count(term) for term in terms] for text in texts]
    seen = [sum(row[i] > 0 for row in counts) for i in range(len(terms))]
    rows = [
        [n * (math.log(len(texts) / s) + 1) for n, s in zip(row, seen, strict=True)]
        for row in counts
    ]
    return torch.tensor([[each / math.hypot(*row) for each in row] for row in rows])


def test_texts_are_nodes_by_their_terms(written):
    lines = list(posts(40))
    data = load_graph(written(lines))
    assert data.feature_names == tuple(sorted(WORDS)) and data.labels == ("blue", "green", "red")
    texts = [each["text"] for each in lines]
    torch.testing.assert_close(data.x, tf_idf(texts, data.feature_names))
    assert [data.labels[each] for each in data.y] == [each["label"] for each in lines]
    assert data.split == "benchmark" and data.masks["test"].sum() == 10
    assert data.graph.num_edges() == 40 and data.ids[3] == "p3"


def test_which_terms_count(written):
    lines = [{"text": "common rare " * n + "common the", "label": str(n)} for n in (1, 0, 0)]
    path = written(lines)
    assert load_graph(path).feature_names == ("common", "rare")
    assert load_graph(path, terms=1).feature_names == ("common",)
    assert load_graph(path, share=0.5).feature_names == ("common",)
    assert "the" in load_graph(path, stop_words=None).feature_names
    other = written([{"text": "rare and new words"}], "new.jsonl")
    new = load_graph(other, terms_of=path)
    assert new.feature_names == ("common", "rare") and new.x.tolist() == [[0, 1]]
    with pytest.raises(ZooError, match=r"new.jsonl: no term is in 100% of the 1 texts"):
        load_graph(written([{"text": "the of"}], "new.jsonl"), share=1.0)


@pytest.mark.slow
def test_numbers_are_predicted_of_texts(written, tmp_path):
    random = np.random.default_rng(0)
    lines = [
        {"text": " ".join(["red"] * count + list(random.choice(WORDS[1:], 6))), "label": count / 2}
        for count in random.integers(8, size=60).tolist()
    ]
    lines[0]["label"], lines[1]["label"], lines[2]["label"] = None, -1, "30"
    spec = {"name": written(lines), "task": "node-regression"}
    data = load_graph(spec["name"], task="node-regression")
    assert data.y[1:3].tolist() == [-1, 30] and data.y[0].isnan() and data.labels is None
    assert data.y[3:].tolist() == [each["label"] for each in lines[3:]]
    again = load_graph(spec["name"], task="node-regression", terms_of=spec["name"])
    assert torch.equal(again.x, data.x)
    recipe = {"dataset": spec, "model": "mlp", "train": {"epochs": 2}}
    summary = run_recipe(recipe, runs=tmp_path / "runs")
    model = load(tmp_path / "runs" / summary["folder"])
    assert summary["metric"] == "r2" and len(predict(model, data).values) == 60
    with pytest.raises(ZooError, match="or a whole number; with `task: node-regression` any"):
        load_graph(spec["name"])
    with pytest.raises(ZooError, match="the label 'many' is no number"):
        load_graph(written([{"text": "red", "label": "many"}]), task="node-regression")


@pytest.mark.slow
def test_the_newsgroups_are_those_of_the_published_tables(real_graph):
    data = real_graph("20news")
    assert data.x.shape == (9607, 236) and data.classes == 10 and data.graph.num_edges() == 9607
    assert data.split == "per-class-100"


def test_texts_that_are_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    for name in ("20news", "r8"):
        with pytest.raises(ZooError, match=rf"{name}.jsonl is in none of.*ZOO_DATA"):
            load_graph(name)


def test_telegrams(real_graph):
    data = real_graph("r8", terms=500)
    assert data.x.shape == (7674, 500) and data.classes == 8
    assert data.masks["test"].sum() == 2189


def test_a_table_without_edges(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text("height,label\n1,a\n2,b\n3,\n")
    data = load_graph(path, numbers="raw")
    assert data.x.tolist() == [[1], [2], [3]] and data.y.tolist() == [0, 1, -1]
    assert data.graph.num_edges() == data.graph.num_nodes() == 3 and data.ids is None
    path.write_text("id,height,label\nx,1,a\ny,2,b\n")
    assert load_graph(path).ids.tolist() == ["x", "y"]


def test_arrays_without_edges(tmp_path):
    x, y = np.arange(12.0).reshape(4, 3), np.array([0, 1, 1, -1])
    np.savez(tmp_path / "samples.npz", x=x, y=y)
    data = load_graph(tmp_path / "samples.npz")
    assert data.x.tolist() == x.tolist() and data.y.tolist() == y.tolist()
    pixels = np.full((4, 2, 2, 3), 51, np.uint8)
    np.savez(tmp_path / "images.npz", images=pixels, labels=np.array(["cat", "dog", "cat", ""]))
    data = load_graph(tmp_path / "images.npz")
    assert data.x.shape == (4, 12) and data.x.eq(0.2).all() and data.labels == ("cat", "dog")
    assert data.y.tolist() == [0, 1, 0, -1]
    np.savez(tmp_path / "bytes.npz", x=x.astype(np.uint8), y=y)
    assert load_graph(tmp_path / "bytes.npz").x.tolist() == x.tolist()  # counts, and no brightness


@pytest.mark.parametrize("word", ["-1", "-1.0", "NA", "?"])
def test_a_word_that_may_be_no_class_is_asked_for(word, tmp_path):
    path = tmp_path / "samples.npz"
    for keys in (("x", "y"), ("images", "labels")):
        samples = np.eye(4).reshape(4, 2, 2) if keys[0] == "images" else np.eye(4)
        np.savez(path, **dict(zip(keys, (samples, ["a", "b", "", word]), strict=True)))
        with pytest.raises(ZooError, match=f"`{keys[1]}` holds {re.escape(repr(word))}, which may"):
            load_graph(path)
    np.savez(path, x=np.eye(4), y=["a", "b", "", f"class {word}"])
    assert len(load_graph(path).labels) == 3


def test_arrays_without_labels(tmp_path):
    for keys in ({"x": np.eye(3)}, {"images": np.full((3, 2, 2), 255, np.uint8)}):
        np.savez(tmp_path / "new.npz", **keys)
        data = load_graph(tmp_path / "new.npz")
        assert data.y.tolist() == [-1, -1, -1] and data.x.max() == 1
    np.savez(tmp_path / "new.npz", x=np.eye(3), labels=np.arange(3))
    with pytest.raises(
        ZooError, match="classes of `x` are written as `y`, and the file holds `labels`"
    ):
        load_graph(tmp_path / "new.npz")


@pytest.mark.parametrize("kind", ["int64", "uint16", "float32"])
def test_images_of_other_numbers_are_refused(tmp_path, kind):
    np.savez(tmp_path / "images.npz", images=np.full((4, 2, 2), 200, kind), labels=np.arange(4) % 2)
    with pytest.raises(ZooError, match=f"`images` is of type {kind}; brightness is written as"):
        load_graph(tmp_path / "images.npz")


@pytest.mark.parametrize("keys", [("x", "y"), ("images", "labels")])
def test_what_is_said_of_arrays_without_edges(tmp_path, keys):
    rows, classes = np.eye(6), np.arange(6) % 2
    masks = {f"{part}_masks": np.eye(6, dtype=bool)[[n]] for n, part in enumerate(("train", "val",
             "test"))}  # fmt: skip
    said = {"node_ids": np.array(list("uvwxyz")), "label_names": np.array(["no", "yes"]),
            "feature_names": np.array(list("abcdef")), "node_times": np.arange(6.0)}  # fmt: skip
    np.savez(tmp_path / "own.npz", **dict(zip(keys, (rows, classes), strict=True)), **masks, **said)
    data = load_graph(tmp_path / "own.npz")
    assert [data.masks[part].nonzero()[0, 1].item() for part in data.masks] == [0, 1, 2]
    assert data.ids.tolist() == list("uvwxyz") and data.labels == ("no", "yes")
    assert data.feature_names == tuple("abcdef") and data.split == "benchmark"


@pytest.mark.parametrize(
    "key", ["edge_index", "edge_weights", "adj", "adj_indptr", "adjacency", "edge"]
)
def test_edges_beside_samples_are_not_passed_over(tmp_path, key):
    arrays = {"x": np.eye(3), "y": np.zeros(3, int), key: np.zeros((2, 1), int)}
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(ZooError, match=f"own.npz: `{key}` looks like edges, .* leave it out, or"):
        load_graph(tmp_path / "own.npz")


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.zeros(3), "y": np.zeros(3, int)}, r"the samples have the shape \(3,\)"),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2, int)}, "3 rows and `node_labels` has 2"),
        ({"x": np.full((2, 1), np.nan), "y": np.zeros(2, int)}, "not finite at row 0"),
        ({"x": np.zeros((2, 1)), "z": np.zeros(2, int)}, "written as `y`, and the file holds `z`"),
    ],
)
def test_arrays_that_are_no_samples(tmp_path, arrays, said):
    np.savez(tmp_path / "samples.npz", **arrays)
    with pytest.raises(ZooError, match=said):
        load_graph(tmp_path / "samples.npz")


def test_a_made_graph_replaces_the_edges_of_a_file(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,x,label\n1,0.1,a\n2,0.2,b\n3,9,a\n")
    (tmp_path / "edges.csv").write_text("source,target\n1,3\n")
    data = load_graph(tmp_path).with_graph({"name": "knn", "k": 1, "metric": "euclidean"})
    src, dst = data.graph.edges()
    assert {(int(a), int(b)) for a, b in zip(src, dst, strict=True) if a < b} == {(0, 1), (1, 2)}


RECIPE = {
    "graph": {"name": "knn", "k": 4},
    "model": {"name": "gcn", "dim": 8},
    "train": {"epochs": 20, "lr": 0.05},
}


def test_weights_join_what_they_are_asked_about(written, tmp_path):
    """The recipe's graph is made again of other data, of the features alone."""
    recipe = {**RECIPE, "dataset": written(posts(60))}
    summary = run_recipe(recipe, runs=tmp_path / "runs")
    model = load(tmp_path / "runs" / summary["folder"])
    assert model.about.graph == {"name": "knn", "k": 4, "metric": "cosine", "mutual": False,
                                 "search": "auto"}  # fmt: skip
    other = load_graph(written(posts(30, seed=1), "new.jsonl"))
    made = other.with_columns(model.about.columns).with_graph(RECIPE["graph"])
    wanted = model.eval()(made.graph, made.x).logits.softmax(1)
    torch.testing.assert_close(predict(model, other).values, wanted)
    assert evaluate(model, other) == evaluate(model, made) > 0.5


@pytest.mark.parametrize(
    "given", [{}, {"graph": "own", "model": {"name": "transformer", "dim": 8}}]
)
def test_inductive_weights_see_the_training_nodes_again(given, written, tmp_path):
    """By the edges that are made, or by attention alone."""
    path = written(posts(60))
    train = {**RECIPE["train"], "inductive": True}
    recipe = {**RECIPE, "dataset": path, "train": train, **given}
    summary = run_recipe(recipe, runs=tmp_path / "runs")
    seed = tmp_path / "runs" / summary["folder"] / "seed-0"
    model = load(seed)
    for part in ("train", "val", "test"):
        found = evaluate_part(model, None, part, folder=seed)
        assert found["score"] == pytest.approx(summary["seeds"][0][part])
    data = load_graph(path)
    whole, train = training_part(model, path)
    context = whole.part(train)
    rows = data.masks["test"][0].nonzero().squeeze(1)
    found = predict(model, data.part(rows), context=context)
    assert len(found.ids) == len(rows) and list(found.ids) == list(data.ids[rows.numpy()])
    assert not torch.equal(found.values, predict(model, data.part(rows)).values)
    wrong = sum(a != data.labels[b] for a, b in zip(found.labels, data.y[rows], strict=True))
    assert 1 - wrong / len(rows) == pytest.approx(summary["seeds"][0]["test"])
    assert training_part(load_plain(tmp_path, path), path) is None


def load_plain(folder, path):
    summary = run_recipe({**RECIPE, "dataset": path}, runs=folder / "plain")
    return load(folder / "plain" / summary["folder"])


def test_weights_trained_on_edges_of_a_file_ask_for_edges(written, tmp_path):
    path, edges = written(posts(20)), tmp_path / "edges.csv"
    edges.write_text("source,target\n" + "".join(f"p{n},p{n + 3}\n" for n in range(17)))
    graph = {"name": "file", "path": str(edges)}
    summary = run_recipe({**RECIPE, "dataset": path, "graph": graph}, runs=tmp_path / "runs")
    seed = tmp_path / "runs" / summary["folder"] / "seed-0"
    model = load(seed)
    assert model.about.files["edges.csv"] and model.about.recipe["graph"]["path"] == "edges.csv"
    data = load_graph(path)
    with pytest.raises(ZooError, match="edges of a file, and posts has none"):
        predict(model, data)
    with pytest.raises(ZooError, match="which are not with them; write --data"):
        evaluate_part(model, None, None, folder=seed)
    assert predict(model, data.with_graph(graph)).labels


def test_edges_beside_a_table_are_asked_for_and_have_one_place(tmp_path):
    table, edges = tmp_path / "own.csv", tmp_path / "edges.csv"
    table.write_text("id,x,label\n" + "".join(f"{n},{n % 5},{n % 2}\n" for n in range(30)))
    edges.write_text("source,target\n" + "".join(f"{n},{n + 2}\n" for n in range(28)))
    dataset = {"name": str(table), "edges": str(edges), "direction": "in"}
    recipe = {"dataset": dataset, "model": {"name": "gcn", "dim": 4}, "train": {"epochs": 2}}
    model = load(tmp_path / "runs" / run_recipe(recipe, runs=tmp_path / "runs")["folder"])
    with pytest.raises(ZooError, match="edges of a file, and own has none"):
        predict(model, load_graph(table))
    assert predict(model, load_graph(table, edges=str(edges), direction="in")).labels
    with pytest.raises(ZooError, match="dataset.direction: is of the edges of the data set itself"):
        run_recipe({**recipe, "graph": {"name": "knn", "k": 2}}, runs=tmp_path / "runs")
