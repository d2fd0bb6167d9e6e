"""Runs on many graphs, from recipe to predictions, by the commands."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import zoo
from zoo.errors import ZooError
from zoo.inference.matching import match_features
from zoo.inference.training_data import read_as_trained
from zoo.runs.prepare import prepare
from zoo.runs.resolve import load_recipe, resolve
from zoo.runs.run import run_recipe
from zoo.weights.save_and_load import load


@pytest.fixture
def place(tmp_path):
    """A folder with images of three classes, told by where they are light."""
    random = np.random.default_rng(0)
    for name, count, classes in (("three", 60, 3), ("two", 40, 2)):
        pixels = random.integers(0, 60, (count, 6, 6)).astype(np.uint8)
        labels = np.arange(count) % classes
        for image, label in zip(pixels, labels, strict=True):
            image[2 * label : 2 * label + 2] += 150
        np.savez(tmp_path / f"{name}.npz", images=pixels, labels=labels)
    return tmp_path


def recipe(place, model="gcn", **changes):
    return {
        "dataset": {"name": "images", "path": str(place / "three.npz"), "patch": 2},
        "encoding": {"name": "laplacian", "k": 4},
        "model": {"name": model, "dim": 16, "dropout": 0.0},
        "train": {"epochs": 60, "lr": 0.02, "batching": {"name": "samples", "size": 12}},
        "seeds": [0],
        **changes,
    }


def test_sets_of_graphs_take_folds(place):
    """As many seeds as folds test each sample once, and every class alike."""
    given = recipe(place, seeds=[0, 1, 2])
    given["dataset"]["split"] = {"name": "folds", "count": 3}
    prepared = prepare(resolve(load_recipe(given)))
    tests = [each.test for each in prepared.splits]
    assert sorted(torch.cat(tests).tolist()) == list(range(60))
    counts = [prepared.data.y[each].bincount().tolist() for each in tests]
    assert sorted(map(sum, zip(*counts, strict=True))) == [20, 20, 20]
    assert all({*each} <= {6, 7} for each in counts)


def test_from_recipe_to_predictions(command, place):
    (place / "own.yaml").write_text(json.dumps(recipe(place)))
    code, said, failed = command("show", place / "own.yaml")
    assert code == 0 and "split: ratio-70-10-20" in said and "readout: mean" in said, failed
    code, said, failed = command("train", place / "own.yaml", "--json")
    summary = json.loads(said.splitlines()[-1])
    assert code == 0 and summary["val"]["mean"] == 1 and summary["dataset"] == "three", failed
    code, said, failed = command("evaluate", summary["folder"], "--json")
    found = json.loads(said.splitlines()[-1])
    assert found["score"] == summary["test"]["mean"] and found["part"] == "test", failed
    assert (found["nodes"], found["unit"]) == (12, "samples")
    assert "of three" in command("evaluate", summary["folder"])[1]
    data = f"{{name: images, path: {place / 'three.npz'}, patch: 2}}"
    answers = []
    for batch in (60, 7):
        code, said, failed = command("predict", summary["folder"], "--data", data, "--out",
                                     "found.csv", "--batch-size", batch, "--again")  # fmt: skip
        assert code == 0 and "60 samples of three" in said + failed
        answers.append(np.genfromtxt(place / "found.csv", delimiter=",", names=True))
    assert answers[0].dtype.names[:5] == ("id", "label", "known", "part", "probability_0")
    assert (answers[0]["label"] == np.arange(60) % 3).mean() > 0.9
    np.testing.assert_allclose(answers[0]["probability_1"], answers[1]["probability_1"], atol=1e-5)
    code, said, failed = command("embed", summary["folder"], "--data", data, "--out", "found.npy")
    assert code == 0 and np.load(place / "found.npy").shape == (60, 16), failed
    code, said, failed = command("predict", summary["folder"], "--data", data, "--out",
                                 "layers.csv", "--layerwise")  # fmt: skip
    assert code == 2 and "leave out --layerwise" in failed


def test_weights_say_what_they_are_and_hold_no_path(place):
    summary = run_recipe(recipe(place), runs=place / "runs")
    folder = f"{summary['folder']}/seed-0"
    about = load(folder).about
    assert (about.task, about.metric, about.features) == ("graph-classification", "accuracy", 4)
    assert about.recipe["dataset"]["path"] == "three.npz" and "three.npz" in about.files
    card = (place / folder / "README.md").read_text()
    assert str(place) not in card and "graph-classification" in card


def test_weights_alone_do_not_know_where_their_images_lie(command, place):
    summary = run_recipe(recipe(place), runs=place / "runs")
    shutil.copytree(f"{summary['folder']}/seed-0", place / "elsewhere" / "weights")
    code, _, failed = command("evaluate", place / "elsewhere" / "weights")
    assert code == 0, failed  # a file of that name lies here, and is the one
    np.savez(place / "three.npz", images=np.zeros((9, 6, 6), np.uint8), labels=np.arange(9) % 3)
    code, _, failed = command("evaluate", place / "elsewhere" / "weights")
    assert code == 2 and "its SHA-256 differs" in failed
    (place / "three.npz").unlink()
    code, _, failed = command("evaluate", place / "elsewhere" / "weights")
    assert code == 2 and "trained on 'three.npz', and where it lies" in failed


def test_texts_are_read_in_the_tokens_of_the_weights(command, place):
    def line(n, start):
        words = ("sun moon star", "bread milk cheese")[n % 2]
        return {"text": f"{start} {words} {n}", "label": "ab"[n % 2]}

    for name, start in (("old", "they said"), ("new", "or so it seems to everyone")):
        lines = [json.dumps(line(n, start)) for n in range(40)]
        (place / f"{name}.jsonl").write_text("\n".join(lines))
    given = recipe(place, encoding="none")
    given["dataset"] = {"name": "texts", "path": str(place / "old.jsonl"), "vocabulary": 300}
    given["dataset"] |= {"longest": 40, "skip": 0}
    given["model"] = {**given["model"], "norm": "none", "residual": False}
    summary = run_recipe(given, runs=place / "runs")
    assert summary["test"]["mean"] == 1
    weights = f"{summary['folder']}/seed-0"
    assert load(weights).tokenizer is not None
    data = {"name": "texts", "path": str(place / "new.jsonl"), "vocabulary": 290}
    asked = f"{{name: texts, path: {place / 'new.jsonl'}, vocabulary: 290}}"
    code, said, failed = command("evaluate", weights, "--data", asked, "--json")
    assert code == 0 and json.loads(said.splitlines()[-1])["score"] >= 0.9, failed
    code, said, failed = command("predict", weights, "--data", asked, "--out", "found.csv")
    assert code == 0 and (place / "found.csv").read_text().startswith(
        "id,label,known,probability_a"
    )
    (place / "short.jsonl").write_text("\n".join(lines[:2]))  # its own tokens are letters
    model = load(weights)
    read, _ = read_as_trained(
        model, Path(weights), {"name": "texts", "path": str(place / "short.jsonl")}
    )
    assert read.graphs.skip == 0
    cut = [
        match_features(model, each).graphs.sizes[:2].tolist()
        for each in (read, zoo.load_data(data))
    ]
    assert cut[0] == cut[1]
    model.tokenizer = None
    with pytest.raises(ZooError, match="have no `tokenizer.json`"):
        zoo.predict(model, zoo.load_data({"name": "texts", "path": str(place / "new.jsonl")}))


@pytest.mark.parametrize("model", ["htgn", "vit"])
def test_a_run_goes_on_to_the_same_numbers(place, model, monkeypatch):
    given = recipe(place, model)
    given["encoding"] = "none"
    given["train"]["epochs"] = 5
    whole = run_recipe(given, runs=place / "runs")

    def stop(seed, epoch):
        if epoch.epoch == 2:
            raise SystemExit

    with pytest.raises(SystemExit):
        run_recipe(given, runs=place / "ended", watch=stop, checkpoint=0)
    [folder] = (place / "ended").iterdir()
    resumed = zoo.runs.run.resume_run(folder, checkpoint=0)
    for key in ("val", "test"):
        assert resumed[key] == whole[key]


def test_fine_tuning_on_images_of_other_classes(command, place):
    summary = run_recipe(recipe(place), runs=place / "runs")
    other = f"{{name: images, path: {place / 'two.npz'}, patch: 2}}"
    code, said, failed = command("finetune", summary["folder"], "--data", other, "--json",
                                 "train.epochs=40")  # fmt: skip
    assert code == 0, failed
    assert json.loads(said.splitlines()[-1])["val"]["mean"] == 1
    begins = [line.split() for line in failed.splitlines()]
    assert ["head.weight", "fresh"] in begins
    assert not [each for each in begins if each[:1] == ["stem.convolution.linear.weight"]]  # loaded


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train": {"batching": "full"}}, "three is not trained .*full`.*batching=samples"),
        ({"train": {"batching": "samples", "evaluate": "layerwise"}}, "leave `evaluate` out"),
        ({"dataset": {"name": "sbm", "nodes": 50}}, "sbm is not trained by `batching: samples`"),
        (
            {"dataset": {"name": "sbm", "nodes": 50}, "model": "vit", "train": {}},
            "vit is no model of the task node-classification",
        ),
        ({"train": {"batching": {"name": "samples", "size": 0}}}, "size.*greater than or equal"),
        ({"dataset": {"name": "digits-images", "readout": "class-token"}, "model": "mlp"},
         "mlp looks at each node by itself.*write `readout: mean`"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_said(place, changes, said):
    with pytest.raises(ZooError, match=said):
        run_recipe(recipe(place, **changes), runs=place / "runs")


def test_what_is_for_one_graph_says_so(command, place):
    (place / "own.yaml").write_text(json.dumps(recipe(place)))
    code, _, failed = command("estimate", place / "own.yaml")
    assert code == 2 and "is estimated for one graph, which three is not" in failed
    model = zoo.create_model("gcn", 4, 3)
    data = zoo.load_data({"name": "images", "path": str(place / "three.npz"), "patch": 3})
    with pytest.raises(ZooError, match="9 features per node and the model reads 4"):
        zoo.predict(model, data)
