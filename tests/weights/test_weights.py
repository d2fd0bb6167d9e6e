"""Folders of weights: what is in them, how they are found, and every way to break them."""

import dataclasses
import functools
import hashlib
import json
import os
import pickle
import shutil
import struct
import time
import tomllib
from pathlib import Path

import numpy as np
import pandas
import pytest
import safetensors.torch
import torch

import zoo
from zoo.cli.describe import suited
from zoo.config.metadata import About
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.runs.finetune import plan_finetuning
from zoo.weights import index as weights_index
from zoo.weights.files import WEIGHTS, read_folder, read_weights
from zoo.weights.index import index, locate

ROOT = Path(__file__).parents[2]
SHIPPED = ROOT / "zoo" / "pretrained" / "gcn-digits"
SMALL = {
    "dataset": {"name": "sbm", "nodes": 60, "classes": 3, "features": "row"},
    "encoding": {"name": "random_walk", "steps": 2},
    "model": {"name": "gcn", "dim": 8, "norm": "batch"},
    "train": {"epochs": 3},
    "seeds": [0, 1, 2],
}


@pytest.fixture
def folder(tmp_path):
    """A copy of weights that come with the zoo, to be broken."""
    return Path(shutil.copytree(SHIPPED, tmp_path / "weights"))


def test_a_run_says_all_that_is_known(tmp_path):
    summary = zoo.run_recipe(SMALL, runs=tmp_path)
    for row in summary["seeds"]:
        about = zoo.load(f"{summary['folder']}/seed-{row['seed']}").about
        assert about.scores == {part: row[part] for part in ("train", "val", "test")}
        assert (about.seed, about.data, about.features) == (row["seed"], "sbm", 16)
        assert about.task == "node-classification" and about.metric == "accuracy"
        assert about.transform == "row" and about.versions["torch"] == torch.__version__
        assert about.encoding == {"name": "random_walk", "steps": 2}
        assert about.recipe["train"]["epochs"] == 3
        again = zoo.load_recipe(about.recipe, [f"seeds=[{row['seed']}]"])
        assert zoo.run_recipe(again, runs=tmp_path)["test"]["mean"] == row["test"]


def test_the_card_is_for_people(tmp_path):
    folder = zoo.run_recipe({**SMALL, "seeds": [4]}, runs=tmp_path)["folder"]
    text = Path(folder, "seed-4", "README.md").read_text()
    about = zoo.load(folder).about
    for words in ("# gcn on sbm", "random_walk (steps: 2)", "Seed 4", "zoo.load", "@inproceedings"):
        assert words in text
    assert f"| test | {about.scores['test']:.4f} |" in text
    recipe = text.partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "card.yaml").write_text(recipe)
    assert zoo.load_recipe(tmp_path / "card.yaml").model["dim"] == 8


def test_what_is_loaded_is_saved_again_with_all_that_is_known(folder, tmp_path):
    model = zoo.load(folder)
    zoo.save(model, tmp_path / "again")
    again = zoo.load(tmp_path / "again")
    assert again.about == model.about and again.config == model.config and not again.training
    zoo.save(model, tmp_path / "other", About(data="mine"))
    assert zoo.load(tmp_path / "other").about == About(data="mine")


def people(order, weights=None):
    """A graph of 12 people, of two columns and two classes, the rows and columns in an order."""
    age = np.arange(12.0) % 5 * 10
    columns = {"age": age, "posts": np.arange(12.0) % 3}
    rows = [*range(12)][::order]
    table = pandas.DataFrame({name: columns[name][rows] for name in [*columns][::order]})
    names = np.array(["hiker" if number % 2 else "baker" for number in rows])
    ring = [[rows.index(n), rows.index((n + 1) % 12)] for n in range(12)]
    return zoo.Dataset.from_arrays(ring, table, names, name="people")


def test_weights_of_a_loop_of_ones_own_know_columns_and_classes_by_name(tmp_path, caplog):
    data, other = people(1), people(-1)
    assert data.feature_names != other.feature_names
    model = zoo.create_model("gcn", data.inputs, data.classes, dim=4).eval()
    zoo.save(model, tmp_path / "weights", data)
    loaded = zoo.load(tmp_path / "weights")
    assert loaded.about.feature_names == ["age", "posts"]
    assert loaded.about.labels == list(data.labels) and loaded.about.data == "people"
    caplog.clear()
    values = zoo.predict(model, data).values
    assert torch.allclose(zoo.predict(loaded, other).values, values.flip(0), atol=1e-6)
    assert not caplog.text
    renamed = dataclasses.replace(other, labels=("cook", "hiker"))
    hikers = torch.nonzero(renamed.y == 1)[:, 0]
    assert zoo.evaluate(loaded, renamed) == zoo.evaluate(loaded, other, hikers)
    assert "6 nodes are of classes that the model was not trained on" in caplog.text


def test_weights_that_know_no_names_say_what_they_take_in_its_order(tmp_path, caplog):
    data = people(1)
    zoo.save(zoo.create_model("gcn", 2, 2, dim=4), tmp_path / "weights")
    zoo.predict(zoo.load(tmp_path / "weights"), data)
    assert "columns (age, posts) and classes (baker, hiker), which may be wrong" in caplog.text
    caplog.clear()
    zoo.predict(zoo.load(tmp_path / "weights"), dataclasses.replace(data, feature_names=None,
                                                                    labels=None))  # fmt: skip
    assert not caplog.text, "nothing has a name"


def test_what_is_learnt_of_a_table_is_saved_with_an_encoding_of_ones_own(tmp_path):
    table = pandas.DataFrame({"id": [*"abcdef"], "pay": [1, 2, 3, 4, 50, 60], "town": [*"xxyyzz"]})
    table.assign(label=[*"uvuvuv"]).to_csv(tmp_path / "nodes.csv", index=False)
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\nd,e\ne,f\n")

    def encode(graph):
        return zoo.encodings.degree(graph)

    data = zoo.load_graph(str(tmp_path), one_hot="town").trained_on(torch.arange(4)).encoded(encode)
    model = zoo.create_model("gcn", data.inputs, data.classes, dim=4).eval()
    zoo.save(model, tmp_path / "weights", data)
    loaded = zoo.load(tmp_path / "weights")
    values = zoo.predict(model, data).values
    assert torch.equal(zoo.predict(loaded, data).values, values)
    again = zoo.load_graph(str(tmp_path), one_hot="town").encoded(encode)  # scaled by all nodes
    assert torch.equal(zoo.predict(loaded, again).values, values)


def test_a_folder_is_read_as_weights_of_a_loop_know_its_columns(tmp_path):
    table = pandas.DataFrame({"id": [*"abcd"], "town": [*"xxyy"], "label": [*"uvuv"]})
    table.to_csv(tmp_path / "nodes.csv", index=False)
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    data = zoo.load_graph(str(tmp_path), one_hot="town")
    model = zoo.create_model("gcn", data.inputs, data.classes, dim=4).eval()
    zoo.save(model, tmp_path / "weights", data)
    loaded = zoo.load(tmp_path / "weights")
    found = zoo.predict(loaded, str(tmp_path))
    assert torch.equal(found.values, zoo.predict(model, data).values)


def test_weights_are_saved_with_the_data_set_that_they_read(tmp_path):
    model = zoo.create_model("gcn", 3, 2, dim=4)
    with pytest.raises(ZooError, match="people has 2 features per node and the model reads 3"):
        zoo.save(model, tmp_path / "weights", people(1))
    with pytest.raises(ZooError, match="people has 2 classes and the model answers for 5"):
        zoo.save(zoo.create_model("gcn", 2, 5, dim=4), tmp_path / "weights", people(1))
    with pytest.raises(ZooError, match="with the data set that they were trained on, and this is"):
        zoo.save(model, tmp_path / "weights", "karate")


def test_loading_leaves_the_generator_alone(folder):
    before = torch.get_rng_state()
    zoo.load(folder)
    assert torch.equal(before, torch.get_rng_state())


def test_the_files_are_those_of_the_hub_mixin(folder):
    """`PyTorchModelHubMixin` reads model.safetensors, and config.json as options by name."""
    config = json.loads((folder / "config.json").read_text())
    assert {"model", "in_dim", "out_dim", "dim"} <= set(config)
    assert {path.name for path in folder.iterdir()} == {
        "model.safetensors", "config.json", "README.md",
    }  # fmt: skip


def test_a_run_means_its_best_seed(tmp_path):
    summary = zoo.run_recipe(SMALL, runs=tmp_path)
    scores = {row["seed"]: row["val"] for row in summary["seeds"]}
    best = max(scores, key=scores.get)
    assert len(set(scores.values())) > 1, "these seeds cannot tell the best from the first"
    found = locate(summary["folder"])
    assert found.folder.name == f"seed-{best}" and "3 seeds" in found.why
    assert zoo.load(summary["folder"]).about.seed == best
    assert zoo.load(f"{summary['folder']}/seed-1").about.seed == 1
    config = Path(summary["folder"], "seed-1", "config.json")
    config.write_text(json.dumps({**json.loads(config.read_text()), "about": {}}))
    with pytest.raises(ZooError, match="seed-1 has no validation score"):
        zoo.load(summary["folder"])


FEW = {"gcn-digits", "mlp-digits", "sgformer-digits-rba", "nodeformer-cora", "sgformer-photo-small"}
"""Of the shipped weights those that are looked at in every run of the tests."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[] if each in FEW else pytest.mark.slow)
        for each, entry in index().items()
        if not zoo.MODELS[entry.model].any_graph
    ],
)
def test_shipped_weights_are_what_the_index_says(name, real_graph):
    entry, folder = index()[name], ROOT / "zoo" / "pretrained" / name
    data, model = real_graph(entry.data), zoo.load(name)
    if model.about.recipe["dataset"].get("split") == "benchmark" and data.masks is None:
        pytest.skip(f"the published split of {entry.data} is not in ZOO_DATA")
    assert (folder / "model.safetensors").stat().st_size == entry.bytes < 10**6
    for part, expected in (("test", entry.test), ("val", entry.val)):
        found = evaluate_part(model, None, part)
        assert found["score"] == pytest.approx(expected, abs=2.5 / found["nodes"])  # two, at most
    assert model.about.recipe["model"]["name"] == entry.model and entry.data == model.about.data
    text = "".join(path.read_text() for path in folder.iterdir() if path.suffix != ".safetensors")
    assert "/home" not in text and "/tmp" not in text


def test_weights_for_any_graph_answer_and_are_trained_on_as_they_are(tmp_path):
    """Shipped, of a graph and classes that they have never seen; and beside ridge on all of it."""
    model, data = zoo.load("anygraph"), zoo.load_data("digits")
    assert (SHIPPED.parent / "anygraph" / "model.safetensors").stat().st_size < 10**4
    few = torch.cat([(data.y == number).nonzero()[:3, 0] for number in range(10)])
    hidden = torch.ones(len(data.y), dtype=torch.bool)
    hidden[few] = False
    scores = [
        zoo.evaluate(each, data, hidden.nonzero()[:, 0], given=few)
        for each in (model, zoo.create_model("ridge", data.inputs, 10))
    ]
    assert scores[0] > scores[1] > 0.6
    assert zoo.predict(model, data, given=few).values.shape == (len(data.y), 10)
    plan = plan_finetuning(SHIPPED.parent / "anygraph", "karate", ["train.epochs=2", "seeds=[0]"])
    assert not plan.other_features
    summary = zoo.run_recipe(plan.plan, runs=tmp_path)
    again = zoo.load(summary["folder"])
    assert again.config["out_dim"] == 2 and again.about.data == "karate"


def test_shipped_weights_are_in_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    globs = project["tool"]["setuptools"]["package-data"]["zoo"]
    globs = [each for each in globs if each != "py.typed"]
    files = {path for path in (ROOT / "zoo" / "pretrained").rglob("*") if path.is_file()}
    shipped = {path for each in globs for path in (ROOT / "zoo").glob(each)}
    assert shipped - {ROOT / "zoo" / "py.typed"} == files


def test_a_model_begins_with_weights_by_name():
    source = read_folder(SHIPPED)
    same = zoo.create_model("gcn", pretrained="gcn-digits")
    state = same.state_dict()
    assert all(torch.equal(each, state[key]) for key, each in source.state.items())
    assert same.config == source.config and same.training
    other = zoo.create_model("gcn", 5, pretrained="gcn-digits", dropout=0.1).state_dict()
    same_shape = {key for key in other if other[key].shape == source.state[key].shape}
    kept = {key for key in same_shape if torch.equal(other[key], source.state[key])}
    assert kept == {key for key in other if not key.startswith("stem")}


def test_what_is_known_of_weights_stays_with_those_that_read_the_same():
    known = read_folder(SHIPPED).about
    begin = functools.partial(zoo.create_model, "gcn", pretrained="gcn-digits")
    assert begin(in_dim=known.features).about == known
    assert begin(dropout=0.1).about == known.model_copy(update={"scores": None})
    fewer = begin(out_dim=3).about
    assert fewer.labels is fewer.task is fewer.scores is None
    assert (fewer.transform, fewer.features) == (known.transform, known.features)
    assert begin(5).about == About()


@pytest.mark.parametrize(
    "name,options,words",
    [
        ("mlp", {}, "weights of gcn, not of mlp"),
        ("gcn", {"dim": 32}, "layers.0.*other options|other options"),
        ("gcn", {"dmi": 32}, "did you mean 'dim'"),
        ("gcn", {"in_dim": 0}, "in_dim"),
        ("gcn", {"residual": True}, "missing"),
    ],
)
def test_weights_that_a_model_cannot_begin_with(name, options, words):
    with pytest.raises(ZooError, match=words):
        zoo.create_model(name, pretrained="gcn-digits", **options)


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_weights_of_other_bits_are_loaded(kind, tmp_path):
    model = zoo.create_model("gcn", 4, 2).to(kind)
    zoo.save(model, tmp_path / "weights")
    again = zoo.load(tmp_path / "weights").state_dict()
    for key, each in model.state_dict().items():
        torch.testing.assert_close(again[key], each.to(again[key].dtype))


def test_a_model_without_weights_needs_its_sizes():
    with pytest.raises(ZooError, match="in_dim"):
        zoo.create_model("gcn")


# Broken folders. Each change is given the folder and leaves something in it that is wrong.


def config(**changes):
    def change(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def about(**changes):
    def change(folder):
        known = json.loads((folder / "config.json").read_text())["about"]
        config(about={**known, **changes})(folder)

    return change


def state(alter):
    """Change the weights and write a file whose checksum is right."""

    def change(folder):
        path = folder / "model.safetensors"
        found = read_weights(path)
        alter(found)
        safetensors.torch.save_file(found, path)
        config(sha256=hashlib.sha256(path.read_bytes()).hexdigest())(folder)

    return change


def raw(name, alter):
    """Change the bytes of a file, and its checksum with them."""

    def change(folder):
        path = folder / name
        path.write_bytes(alter(path.read_bytes()))
        if name != "config.json":
            config(sha256=hashlib.sha256(path.read_bytes()).hexdigest())(folder)

    return change


def flip(folder):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-100] ^= 4
    path.write_bytes(content)


def instead(name, make):
    def change(folder):
        (folder / name).unlink()
        make(folder / name)

    return change


def fill(key, value):
    def alter(found):
        found[key].view(-1)[3] = value

    return state(alter)


def header(text):
    content = text.encode()
    return lambda old: struct.pack("<Q", len(content)) + content


HEAD = "head.weight"
OFFSETS = '{"head.weight":{"dtype":"F32","shape":[9,9],"data_offsets":[0,99999999]}}'
BROKEN = {
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), "is missing"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "is missing"),
    "an empty folder": (lambda folder: [p.unlink() for p in folder.iterdir()], "is missing"),
    "truncated weights": (raw("model.safetensors", lambda old: old[:700]), "damaged"),
    "weights cut in the header": (raw("model.safetensors", lambda old: old[:20]), "damaged"),
    "empty weights": (raw("model.safetensors", lambda old: b""), "damaged"),
    "weights with a tail": (raw("model.safetensors", lambda old: old + b"more"), "damaged"),
    "a flipped bit": (flip, "SHA-256"),
    "a huge header": (raw("model.safetensors", lambda old: b"\xff" * 8 + old[8:]), "damaged"),
    "a header that is not JSON": (raw("model.safetensors", header("{nonsense")), "damaged"),
    "offsets behind the end": (raw("model.safetensors", header(OFFSETS)), "damaged"),
    "a pickle": (raw("model.safetensors", lambda old: pickle.dumps(os.getcwd)), "damaged"),
    "no weights at all": (state(dict.clear), "missing or of another shape"),
    "config empty": (raw("config.json", lambda old: b""), "damaged"),
    "config not JSON": (raw("config.json", lambda old: b"model: gcn"), "damaged"),
    "config cut": (raw("config.json", lambda old: old[:50]), "damaged"),
    "config a list": (raw("config.json", lambda old: b"[1]"), "mapping"),
    "config in UTF-16": (raw("config.json", lambda old: old.decode().encode("utf-16")), "damaged"),
    "config too deep": (raw("config.json", lambda old: b"[" * 10**6), "damaged"),
    "no model": (config(model=None), "`model`"),
    "an unknown model": (config(model="gnc"), "did you mean 'gcn'"),
    "code for a model": (config(model="os.system"), "no model is called"),
    "a path for a model": (config(model="../../evil.py"), "no model is called"),
    "an unknown option": (config(dmi=3), "did you mean 'dim'"),
    "an option of a wrong type": (config(dim="64"), "integer"),
    "in_dim below 1": (config(in_dim=-64), "in_dim"),
    "in_dim true": (config(in_dim=True), "in_dim"),
    "in_dim huge": (config(in_dim=10**9), "GiB"),
    "in_dim of another graph": (config(in_dim=65), "another shape"),
    "out_dim of another graph": (config(out_dim=3), "another shape"),
    "dim huge": (config(dim=10**9), "GiB"),
    "layers without end": (config(layers=10**9), "less than or equal to 1000"),
    "another model": (config(model="sgformer"), "not fit|no option"),
    "a weight missing": (state(lambda found: found.pop(HEAD)), "missing"),
    "a weight too many": (state(lambda found: found.update(tail=torch.ones(2))), "tail"),
    "another type": (state(lambda found: found.update({HEAD: found[HEAD].double()})), "float64"),
    "whole numbers": (state(lambda found: found.update({HEAD: found[HEAD].long()})), "int64"),
    "another shape": (
        state(lambda found: found.update({HEAD: found[HEAD].T.contiguous()})), "shape",
    ),
    "a NaN": (fill(HEAD, float("nan")), "not finite"),
    "an infinity": (fill(HEAD, float("inf")), "not finite"),
    "a folder for weights": (instead("model.safetensors", Path.mkdir), "is missing"),
    "a folder for config": (instead("config.json", Path.mkdir), "is missing"),
    "a link to nothing": (
        instead("model.safetensors", lambda path: path.symlink_to("nowhere")), "is missing",
    ),
    "a checksum that is none": (config(sha256=7), "sha256"),
    "about a list": (config(about=[1]), "about"),
    "about with an unknown key": (about(import_="evil.py"), "import_"),
    "about with a wrong type": (about(features="64"), "about.features"),
    "names for other features": (about(feature_names=["a", "b"]), "2 feature_names"),
    "an unknown encoding": (about(encoding="laplacain"), "did you mean 'laplacian'"),
    "an unknown transform": (about(transform="rows"), "did you mean 'row'"),
    "an unknown task": (about(task="edge-prediction"), "edge-prediction"),
}  # fmt: skip


def contents(folder):
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_folders_are_answered(case, folder, command, tmp_path):
    change, words = BROKEN[case]
    change(folder)
    before, start = contents(folder), time.perf_counter()
    code, out, err = command("predict", folder, "--data", "digits", "--out", "answers.csv")
    assert code == 2 and not out and err.startswith("zoo: ") and len(err.strip().splitlines()) == 1
    assert any(word in err for word in words.split("|")), err
    assert "Traceback" not in err and time.perf_counter() - start < 5
    assert contents(folder) == before and not (tmp_path / "answers.csv").exists()


@pytest.mark.parametrize("name", ["../..", "/", "", "~nobody/x", "a\0b", "x" * 5000, "gcn-digit"])
def test_names_that_lead_nowhere(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZooError, match="no weights at"):
        zoo.load(name)


def test_a_folder_is_taken_before_a_name(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    folder.rename("gcn-digits")
    config(dropout=0.25)(Path("gcn-digits"))
    assert zoo.load("gcn-digits").config["dropout"] == 0.25


@pytest.mark.parametrize(
    "change,words",
    [
        (lambda entries: entries["gcn-digits"]["files"].update({WEIGHTS: "0" * 64}), "SHA-256"),
        (lambda entries: entries["gcn-digits"].update(address="file:///etc"), "damaged"),
        (lambda entries: entries["gcn-digits"].pop("model"), "damaged"),
        (lambda entries: entries["gcn-digits"].update(imports=["evil"]), "damaged"),
        (dict.clear, "no weights at"),
    ],
)
def test_a_tampered_index_is_answered(change, words, tmp_path, monkeypatch):
    copy = Path(shutil.copytree(SHIPPED.parent, tmp_path / "pretrained"))
    entries = json.loads((copy / "index.json").read_text())
    change(entries)
    (copy / "index.json").write_text(json.dumps(entries))
    monkeypatch.setattr(weights_index, "PRETRAINED", copy)
    with pytest.raises(ZooError, match=words):
        zoo.load("gcn-digits")


def test_nothing_that_a_folder_names_is_imported(folder, tmp_path):
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    sources = [str(tmp_path / "evil.py")]
    about(recipe={"imports": sources})(folder)
    zoo.load(folder)
    config(model="evil")(folder)
    with pytest.raises(ZooError, match="evil.py.*import that first"):
        zoo.load(folder)
    assert not (tmp_path / "ran").exists()


def unsigned(folder):
    """Weights that say no checksum, as another program may write them."""
    path = folder / "config.json"
    data = json.loads(path.read_text())
    del data["sha256"]
    path.write_text(json.dumps(data))
    return folder


def test_weights_without_a_checksum_are_asked_for(folder, command):
    words = ("evaluate", unsigned(folder), "--part", "all")
    code, out, err = command(*words)
    assert code == 2 and not out and "`--unverified`" in err and "`unverified=True`" in err
    code, out, _ = command(*words, "--unverified")
    assert code == 0 and out.startswith("accuracy")
    with pytest.raises(ZooError, match="sha256"):
        zoo.create_model("gcn", pretrained=folder)
    assert zoo.create_model("gcn", pretrained=folder, unverified=True).config["dim"] == 64


def test_a_recipe_may_start_from_weights_without_a_checksum(folder, tmp_path):
    start = {"weights": str(unsigned(folder))}
    model = {"name": "gcn", "norm": "none", "residual": False}
    recipe = {"dataset": "digits", "model": model, "train": {"epochs": 1}, "start_from": start}
    with pytest.raises(ZooError, match="unverified: true"):
        zoo.run_recipe(recipe, runs=tmp_path)
    start["unverified"] = True
    assert zoo.run_recipe(recipe, runs=tmp_path)["test"]["mean"] > 0.5


def test_a_folder_saved_again_says_its_checksum(folder, tmp_path):
    zoo.save(zoo.load(unsigned(folder), unverified=True), tmp_path / "again")
    assert zoo.load(tmp_path / "again").config == zoo.load(folder, unverified=True).config


def test_weights_are_listed_by_what_they_fit():
    """Those of the same columns, those for any graph, and how many others are for the task."""
    rows = suited(zoo.load_data("digits"))
    places = {row["name"]: place for place, row in enumerate(rows)}
    assert places["gcn-digits"] < places["anygraph"] == len(rows) - 2
    assert rows[places["gcn-digits"]]["fits by"] == "as many columns, of unknown names"
    assert rows[-1]["name"].endswith("others") and "task alone" in rows[-1]["fits by"]
    assert not any(row["model"] == "difformer" for row in rows)  # of forecasts
