"""What is published names files and knows them by their SHA-256; where they lie stays here."""

import hashlib
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import zoo
from zoo.config.metadata import private_texts
from zoo.data import GraphArrays
from zoo.data.files.prepared import write_prepared
from zoo.errors import ZooError
from zoo.weights import hub
from zoo.weights.index import PRETRAINED
from zoo.weights.model_card import card

MARK = "my-secret-project"
GRAPH = GraphArrays(
    np.array([(i, (i + 1) % 30) for i in range(30)]),
    np.arange(30) % 3,
    np.random.default_rng(0).normal(size=(30, 4)).astype(np.float32),
)


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def tables(folder):
    folder.mkdir()
    rows = "".join(f"n{i},{i % 7},{'ab'[i % 2]}\n" for i in range(30))
    (folder / "nodes.csv").write_text("id,age,label\n" + rows)
    edges = "".join(f"n{i},n{(i + 1) % 30}\n" for i in range(30))
    (folder / "edges.csv").write_text("source,target\n" + edges)


@pytest.fixture
def secret(tmp_path, monkeypatch):
    """A home with a project, of which nobody is to know."""
    folder = tmp_path / "somebody" / MARK
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    write_prepared(GRAPH, folder / "friends.npz")
    tables(folder / "mine")
    (folder / "ones.py").write_text("from zoo import ENCODINGS\n")
    return folder


def told(folder):
    """All that a folder of weights says."""
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def run(secret, dataset, **more):
    recipe = {"dataset": dataset, "model": {"name": "gcn", "dim": 4}, "train": {"epochs": 2},
              "imports": [str(secret / "ones.py")], **more}  # fmt: skip
    return Path(zoo.run_recipe(recipe, runs=secret / "runs")["folder"])


def test_weights_say_nothing_of_where_they_were_made(secret, tmp_path):
    first = run(secret, str(secret / "friends.npz")) / "seed-0"
    start = {"weights": str(first), "freeze": "none", "lr_decay": 1.0}
    again = run(secret, {"name": str(secret / "friends.npz")}, start_from=start) / "seed-0"
    table = run(secret, str(secret / "mine")) / "seed-0"
    apart = {"name": str(secret / "mine" / "nodes.csv"), "edges": str(secret / "mine/edges.csv")}
    parts = run(secret, apart) / "seed-0"
    zoo.save(zoo.load(again), tmp_path / "saved")
    for folder in (first, again, table, parts, tmp_path / "saved"):
        for word in (MARK, "somebody", str(tmp_path), os.uname().nodename):
            assert word.encode() not in told(folder), word
    about = zoo.load(tmp_path / "saved").about
    assert about.recipe["dataset"]["name"] == "friends.npz" and about.recipe["imports"] == [
        "ones.py"
    ]
    name = f"{first.parent.name}/seed-0"
    assert about.recipe["start_from"]["weights"] == name
    assert about.files == {
        "friends.npz": sha256(secret / "friends.npz"),
        "ones.py": sha256(secret / "ones.py"),
        name: sha256(first / "model.safetensors"),
    }
    known = {path.name: sha256(path) for path in (secret / "mine").iterdir()}
    for folder in (table, parts):
        assert known.items() <= zoo.load(folder).about.files.items()
    text = (again / "README.md").read_text()
    assert all(each in text for each in about.files.values())
    assert "code that is not part of the weights: `ones.py`" in text
    # The run itself knows its places.
    assert str(secret / "friends.npz") in (first.parent / "recipe.yaml").read_text()


def test_what_is_not_said_is_asked_for(secret, tmp_path, command):
    folder = run(secret, str(secret / "friends.npz"))
    code, out, _ = command("evaluate", folder, "--json")  # of a run: its own recipe says it
    assert code == 0 and json.loads(out)["part"] == "test"
    shutil.copytree(folder / "seed-0", tmp_path / "pulled")
    code, _, err = command("evaluate", "pulled")
    assert code == 2 and "'friends.npz'" in err and "--data" in err
    (tmp_path / "friends.npz").write_bytes(b"another")
    code, _, err = command("evaluate", "pulled")
    assert code == 2 and "its SHA-256 differs" in err and "--data" in err
    shutil.copy(secret / "friends.npz", tmp_path)
    code, other, _ = command("evaluate", "pulled", "--json")
    assert code == 0 and json.loads(other)["score"] == json.loads(out)["score"]
    words = ("--data", secret / "friends.npz")
    assert command("predict", "pulled", *words, "--out", "a.csv")[0] == 0
    assert command("finetune", "pulled", *words, "train.epochs=1")[0] == 0


OLD = {
    "about.recipe.dataset.name": lambda recipe: recipe["dataset"].update(name="/data/x/g.npz"),
    "about.recipe.imports.1": lambda recipe: recipe.update(imports=["os", "~/mine.py"]),
    "about.recipe.start_from.weights": lambda recipe: recipe.update(
        start_from={"weights": "C:\\Users\\me\\w"}
    ),
    "about.recipe.train.note": lambda recipe: recipe["train"].update(
        note=f"in {Path.home()}/notes"
    ),
}


@pytest.mark.parametrize("key", OLD)
def test_push_refuses_what_older_versions_wrote(key, tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "connect", lambda repository: None)  # it would be asked, and fail
    folder = Path(shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "old"))
    config = json.loads((folder / "config.json").read_text())
    OLD[key](config["about"]["recipe"])
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ZooError, match=rf"config.json, {re.escape(key)}: .*zoo.save\(zoo.load"):
        hub.push(folder, "me/old")
    zoo.save(zoo.load(folder), folder)
    assert not list(private_texts(json.loads((folder / "config.json").read_text())))
    (folder / "README.md").write_text(f"# Mine\n\nfrom {Path.home()}/work\n")
    with pytest.raises(ZooError, match="README.md, line 3"):
        hub.push(folder, "me/old")


HOSTILE = [
    "<script>alert(1)</script>",
    "`<img src=x onerror=alert(1)>`",
    "a\n\n# heading\n\n<b>b</b>",
    "| a | b |\n| -- | -- |",
    "[x](javascript:alert(1))",
    "a ```\n```\n<i>out</i>",
    "x" * 120 + " " + "`" * 120 + " <u>out</u>",  # folded, the fence has a line of its own
    "---\ntitle: mine",
    "\x1b[31m\u202e",
]


@pytest.mark.parametrize("word", HOSTILE, ids=ascii)
def test_a_card_shows_names_and_renders_none(word):
    model = zoo.load("gcn-digits")
    about = model.about.model_copy(
        update={
            "data": word, "task": word, "metric": word, "labels": [word] * 10, "transform": word,
            "encoding": {"name": word, word: word}, "scores": {word: 0.5},
            "recipe": {"dataset": {"name": word, word: word}, word: [word], "note": word, "in": {}},
            "files": {word: word}, "versions": {"torch": word},
        }
    )  # fmt: skip
    text = card("gcn", model, about)
    assert all(each.isprintable() or each == "\n" for each in text)
    outside, fence = [], ""
    for line in text.splitlines()[4:]:
        mark = re.match(r" {0,3}(`{3,})", line)
        if mark and not fence:
            fence = mark[1]
        elif fence and re.fullmatch(rf" {{0,3}}{fence}`* *", line):
            fence = ""
        elif not fence:
            assert line.count("`") % 2 == 0
            outside.append(re.sub(r"`[^`]*`", "", line))
    assert not fence
    plain = "\n".join(outside)
    assert not set("<[") & set(plain) and "heading" not in plain and "title" not in plain
    assert plain.count("\n# ") == 1 and plain.count("---") == 0


def test_nothing_that_weights_name_is_run(secret, tmp_path, command, monkeypatch):
    """Not by a command that reads them, whatever their config.json says of imports."""
    folder = tmp_path / "weights"
    shutil.copytree(PRETRAINED / "gcn-digits", folder)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.syspath_prepend(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    evil = [str(tmp_path / "evil.py"), "evil.py", "evil"]
    config["about"]["recipe"]["imports"] = config["imports"] = evil
    (folder / "config.json").write_text(json.dumps(config))
    code, _, err = command("predict", folder, "--data", "digits", "--out", "a.csv")
    assert code == 2 and "imports" in err  # no option of the model
    del config["imports"]
    (folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "pushed").mkdir()
    monkeypatch.setattr(hub, "connect", lambda repository: None)
    for words in (["predict", folder, "--data", "digits", "--out", "a.csv"],
                  ["embed", folder, "--data", "digits", "--out", "a.npy"],
                  ["evaluate", folder],
                  ["finetune", folder, "--data", "karate", "train.epochs=1"],
                  ["push", folder, "me/mine"]):  # fmt: skip
        code, _, err = command(*words)
        assert code == (2 if words[0] == "push" else 0), err
    zoo.save(zoo.load(folder), folder)
    assert not (tmp_path / "ran").exists()
