"""Weights written to be published, and brought here by name."""

import contextlib
import json
import shutil
import sys
from pathlib import Path

import pytest
import torch

import zoo
from zoo.cli.app import main
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.inference.publish import publish
from zoo.system import files
from zoo.weights import index as weights_index
from zoo.weights.files import read_folder
from zoo.weights.index import locate, read_index

RECIPE = {
    "dataset": {"name": "digits", "split": "ratio-60-20-20"},
    "model": {"name": "gcn", "dim": 16, "norm": "none", "residual": False},
    "train": {"epochs": 12, "lr": 0.02},
    "seeds": [0, 1],
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return zoo.run_recipe(RECIPE, runs=tmp_path_factory.mktemp("runs"), device="cpu")["folder"]


@pytest.fixture(scope="module")
def shelf(run, tmp_path_factory):
    """A folder of published weights."""
    folder = tmp_path_factory.mktemp("published")
    [row] = publish({"small-digits": locate(run).folder}, folder)
    assert row["left_out"] is None and row["bits"] == 16
    return folder


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """A cache of one's own, and nothing known of an index."""
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("ZOO_OFFLINE", raising=False)
    weights_index._index.cache_clear()
    yield monkeypatch
    weights_index._index.cache_clear()


def test_half_the_bytes_and_the_same_scores(run, shelf):
    own, kept = locate(run).folder, shelf / "small-digits"
    state = read_folder(kept).state
    assert {each.dtype for each in state.values() if each.is_floating_point()} == {torch.float16}
    model = zoo.load(kept)
    assert {each.dtype for each in model.parameters()} == {torch.float32}
    for part in ("val", "test"):
        score = evaluate_part(model, None, part)["score"]
        assert score == pytest.approx(zoo.load(own).about.scores[part], abs=0.5e-4)
    again = zoo.create_model("gcn", pretrained=kept)
    assert torch.equal(again.head.weight, model.head.weight)
    card = (kept / "README.md").read_text()
    entry = json.loads((shelf / "index.json").read_text())["small-digits"]
    assert "CC BY 4.0" in card and entry["files"]["model.safetensors"] in card


def test_weights_whose_score_changes_keep_32_bits(run, tmp_path):
    model = zoo.load(locate(run).folder)
    with torch.no_grad():
        model.head.weight.mul_(1e7)  # beyond the largest number of 16 bits
        model.head.bias.mul_(1e7)
    zoo.save(model, tmp_path / "large")
    [row] = publish({"large": tmp_path / "large"}, tmp_path / "to")
    assert row["bits"] == 32
    assert read_folder(tmp_path / "to" / "large").state["head.weight"].dtype == torch.float32


def test_scores_are_measured_again_before_anything_is_published(run, tmp_path):
    model = zoo.load(locate(run).folder)
    wrong = model.about.model_copy(update={"scores": {"val": 0.5, "test": 0.99}})
    zoo.save(model, tmp_path / "wrong", wrong)
    with pytest.raises(ZooError, match="it was trained on other data"):
        list(publish({"wrong": tmp_path / "wrong"}, tmp_path / "to"))
    zoo.save(model, tmp_path / "silent", wrong.model_copy(update={"scores": None}))
    with pytest.raises(ZooError, match="no scores of validation and test"):
        list(publish({"silent": tmp_path / "silent"}, tmp_path / "to"))
    assert not (tmp_path / "to").exists()


def test_what_is_too_large_is_left_out(run, tmp_path):
    source = locate(run).folder
    [row] = publish({"a": source}, tmp_path, largest=100)
    assert row["left_out"] == "larger than 100 bytes" and not (tmp_path / "a").exists()
    first, second = publish({"a": source, "b": source}, tmp_path, together=5000)
    assert first["left_out"] is None and "all together" in second["left_out"]


BATCHES = {"batching": {"name": "random-nodes", "size": 600}, "evaluate": "batches"}


@pytest.mark.parametrize("train", [{"precision": "bf16"}, BATCHES])
def test_weights_that_training_measured_in_another_way_say_what_is_measured_here(train, tmp_path):
    recipe = {**RECIPE, "train": {**RECIPE["train"], **train}, "seeds": [0]}
    own = zoo.run_recipe(recipe, runs=tmp_path / "runs", device="cpu")["folder"]
    [row] = publish({"a": locate(own).folder}, tmp_path / "to")
    model = zoo.load(tmp_path / "to" / "a")
    found = evaluate_part(model, None, "test")["score"]
    assert row["test"] == model.about.scores["test"] == pytest.approx(found, abs=0.5e-4)
    if "precision" in train:
        assert row["test"] != zoo.load(own).about.scores["test"]


def test_two_that_publish_into_one_folder_keep_both(run, tmp_path):
    source = locate(run).folder
    rows = publish({"c": source, "e": source}, tmp_path)
    next(rows)
    [*_] = publish({"d": source}, tmp_path)
    [*_] = rows
    assert set(read_index(tmp_path / "index.json")) == {*"cde"}


def test_what_is_no_folder_of_weights_is_not_written_over(run, tmp_path):
    source = {"c": locate(run).folder}
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "README.md").write_text("notes")
    with pytest.raises(ZooError, match="c is there, and is no folder of weights"):
        [*_] = publish(source, tmp_path)
    shutil.rmtree(tmp_path / "c")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "c").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ZooError, match="c is there, and is no folder of weights"):
        [*_] = publish(source, tmp_path)
    assert not [*(tmp_path / "elsewhere").iterdir()]


def test_weights_of_before_are_whole_until_those_of_now_are(run, shelf, tmp_path, monkeypatch):
    folder = shutil.copytree(shelf, tmp_path / "shelf")
    (folder / "small-digits" / "notes.txt").write_text("mine")
    source = {"small-digits": locate(run).folder}
    before = {each.name: each.read_bytes() for each in (folder / "small-digits").iterdir()}

    def end(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("zoo.inference.publish.save", end)
        with pytest.raises(KeyboardInterrupt):
            [*_] = publish(source, folder)
    assert {each.name: each.read_bytes() for each in (folder / "small-digits").iterdir()} == before
    [row] = publish(source, folder)
    assert row["left_out"] is None and zoo.load(folder / "small-digits")
    assert (folder / "small-digits" / "notes.txt").read_text() == "mine"
    assert {each.name for each in folder.iterdir()} == {"index.json", "small-digits"}


def test_an_index_that_is_a_link_is_not_written_through(run, tmp_path):
    (tmp_path / "mine").write_text("{}")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "index.json").symlink_to(tmp_path / "mine")
    with pytest.raises(ZooError, match="index.json cannot be written: it is a link"):
        [*_] = publish({"a": locate(run).folder}, tmp_path / "to")
    assert (tmp_path / "mine").read_text() == "{}"
    assert [each.name for each in (tmp_path / "to").iterdir()] == ["index.json"]


def contents(folder):
    return {each.relative_to(folder): each.read_bytes() for each in folder.rglob("*.*")}


@pytest.mark.parametrize("links", [True, False])
def test_what_others_keep_beside_weights_is_never_lost(run, shelf, tmp_path, monkeypatch, links):
    folder = shutil.copytree(shelf, tmp_path / "shelf")
    own = folder / "small-digits"
    (own / "more").mkdir()
    (own / "more" / "README.md").write_text("mine")
    (own / "LICENSE.txt").write_text("mine as well")
    source, before = {"small-digits": locate(run).folder}, contents(own)
    replace = files.replace_folder

    def refuse(*_):
        raise OSError("no such links")

    def end(*_):
        raise KeyboardInterrupt

    def replace_and_end(*places):
        replace(*places)
        raise KeyboardInterrupt

    if not links:
        monkeypatch.setattr("os.link", refuse)
    for stops in (end, replace_and_end):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr("zoo.inference.publish.replace_folder", stops)
            [*_] = publish(source, folder)
        assert contents(own) == before and zoo.load(own)
    (own / "model.safetensors").write_bytes(b"damaged")
    [*_] = publish(source, folder)
    assert contents(own) == before and zoo.load(own)
    assert {each.name for each in folder.iterdir()} == {"index.json", "small-digits"}


@pytest.mark.parametrize(
    ("keys", "value", "said"),
    [
        (("transform",), {}, "about.transform: .*mapping with a `name`"),
        (("encoding",), {"name": 5}, "about.encoding: .*mapping with a `name`"),
        (("recipe", "dataset", "split"), None, "`dataset.split` is a word"),
        (("recipe", "imports"), 5, "no registered model|nope"),
        (("recipe", "imports"), [1], "no registered model|nope"),
    ],
)
def test_a_config_of_nonsense_is_refused_in_words(shelf, tmp_path, keys, value, said):
    folder = shutil.copytree(shelf / "small-digits", tmp_path / "own")
    data = json.loads((folder / "config.json").read_text())
    inner = data["about"]
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    data["model"] = "nope" if "imports" in keys else data["model"]
    (folder / "config.json").write_text(json.dumps(data))
    with pytest.raises(ZooError, match=said):
        zoo.load(folder)


def test_a_seed_without_a_finite_score_is_not_the_best(run, tmp_path):
    folder = shutil.copytree(run, tmp_path / "run")
    path = folder / locate(run).folder.name / "config.json"
    data = json.loads(path.read_text())
    data["about"]["scores"]["val"] = float("nan")
    path.write_text(json.dumps(data))
    assert locate(folder).folder.name != locate(run).folder.name


def test_a_folder_of_weights_by_name(shelf, fresh, tmp_path, capsys):
    with pytest.raises(ZooError, match="no weights at 'small-digits'"):
        zoo.load("small-digits")
    fresh.setenv("ZOO_WEIGHTS", str(shelf))
    assert locate("small-digits").folder == shelf / "small-digits"
    fresh.setattr("sys.argv", ["zoo", "load", "small-digits", "--evaluate", "--json"])
    with contextlib.suppress(SystemExit):
        main()
    found = json.loads(capsys.readouterr().out)
    assert found["test here"] == pytest.approx(found["test"], abs=0.5e-4)
    assert found["licence"] == "weights not stated; data CC BY 4.0 (UCI)"
    assert zoo.load("gcn-digits").about.licence.startswith("weights MIT, as the zoo")
    damaged = shutil.copytree(shelf, tmp_path / "damaged")
    (damaged / "small-digits" / "config.json").write_text("{}")
    fresh.setenv("ZOO_WEIGHTS", str(damaged))
    with pytest.raises(ZooError, match="config.json is not the file that index.json was"):
        zoo.load("small-digits")
    for nowhere in (str(tmp_path / "nowhere"), "https://example.org/weights"):
        fresh.setenv("ZOO_WEIGHTS", nowhere)
        with pytest.raises(ZooError, match="there is no index.json: name a folder .*hub:OWNER/NAM"):
            zoo.load("small-digits")
    assert zoo.load("gcn-digits").about.data == "digits"  # what comes with the zoo needs no other


def test_without_its_data_the_rest_is_said_all_the_same(fresh, capsys):
    fresh.setenv("ZOO_OFFLINE", "1")
    assert called("load", "mlp-cora", "--evaluate") == 2
    said = capsys.readouterr()
    assert "test       0." in said.out and "the test score was not measured: " in said.err


def test_the_command_writes_runs(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["zoo", "publish", run, "--to", str(tmp_path / "to"), "--json"])
    with contextlib.suppress(SystemExit):
        main()
    [row] = json.loads(capsys.readouterr().out)
    assert (tmp_path / "to" / row["name"] / "README.md").is_file()


def test_the_command_counts_what_it_wrote_alone(run, tmp_path, capsys):
    assert called("publish", run, "--to", tmp_path / "to") == 0
    [file] = (tmp_path / "to").glob("*/model.safetensors")
    said = f"1 set of weights, {file.stat().st_size:,} bytes, written to {tmp_path / 'to'}."
    assert said in capsys.readouterr().err
    assert called("publish", run, "--to", tmp_path / "none", "--largest", 10) == 0
    said = capsys.readouterr().err
    assert "left out, larger than 10 bytes" in said and "`zoo load" not in said
    assert f"0 sets of weights, 0 bytes, written to {tmp_path / 'none'}." in said


def test_a_name_is_that_of_one_run_and_of_the_weights_of_the_zoo(
    run, tmp_path, capsys, monkeypatch
):
    name = json.loads((Path(run) / "summary.json").read_text())["recipe"]
    monkeypatch.setattr(weights_index, "index", lambda: {name: None})  # as if it came with the zoo
    for runs, code, said in (
        ([run, run], 2, f"several runs of {name}; publish one"),
        ([run], 0, f"{name} means the zoo's own weights; `zoo load {tmp_path / 'to' / name}`"),
    ):
        monkeypatch.setattr("sys.argv", ["zoo", "publish", *runs, "--to", str(tmp_path / "to")])
        ended = None
        try:
            main()
        except SystemExit as error:
            ended = error.code
        assert (ended or 0) == code
        assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", ["../../away", "/away", "My_Recipe 2"])
def test_a_name_leads_nowhere_but_into_the_folder(name, run, tmp_path):
    folder = tmp_path / "here" / "to"
    with pytest.raises(ZooError, match="not called"):
        list(publish({name: locate(run).folder}, folder))
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    summary = json.loads((copy / "summary.json").read_bytes())
    (copy / "summary.json").write_text(json.dumps({**summary, "recipe": name}))
    assert called("publish", copy, "--to", folder) == 0
    assert {path.name for path in folder.parent.iterdir()} == {"to"}
    [known] = read_index(folder / "index.json")
    assert known in ("away", "my-recipe-2") and (folder / known / "config.json").is_file()
    assert not (tmp_path / "away").exists()


@pytest.mark.parametrize("text", ["[1, 2]", '{"x": {}}', "nothing"])
def test_an_index_that_is_none_is_said(text, run, tmp_path, capsys):
    (tmp_path / "index.json").write_text(text)
    assert called("publish", run, "--to", tmp_path) == 2
    assert "index.json" in capsys.readouterr().err
    assert (tmp_path / "index.json").read_text() == text


def test_a_run_that_was_interrupted_is_ended_first(run, tmp_path, capsys):
    copy = Path(shutil.copytree(run, tmp_path / "run"))
    summary = json.loads((copy / "summary.json").read_bytes())
    (copy / "summary.json").write_text(json.dumps({**summary, "interrupted": True}))
    assert called("publish", copy, "--to", tmp_path / "to") == 2
    assert "was interrupted; `zoo train --resume" in " ".join(capsys.readouterr().err.split())


def called(*words):
    """Call the command and return its exit code."""
    with pytest.MonkeyPatch.context() as here, contextlib.ExitStack() as stack:
        here.setattr("sys.argv", ["zoo", *map(str, words)])
        left = stack.enter_context(pytest.raises(SystemExit))
        main()
        sys.exit(0)
    return left.value.code or 0
