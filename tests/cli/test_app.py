"""The command as a user types it: what it prints, its exit codes, and no traceback ever."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from zoo.cli.describe import CATALOGUE
from zoo.config.recipe import read_recipe
from zoo.config.shipped import recipe_names

TINY = """\
# A small recipe.
dataset: {name: sbm, nodes: 90, classes: 3, split: ratio-50-25-25}
model: {name: sgformer, dim: 8, attention: {name: rba, size: 16}}
train: {epochs: 3}
seeds: [0, 1]
expect: {test: 0.1, within: 0.05, source: a test}
"""


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def zoo(command):
    """Call the command in an empty folder; anything but an exit with a code fails the test."""
    return lambda *words: Done(*command(*words))


@pytest.fixture
def tiny_recipe(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


def test_help_names_every_command(zoo):
    done = zoo("--help")
    assert done.returncode == 0
    words = ("train", "reproduce", "compare", "info", "list", "show", "data", "tune", "schema")
    for word in words:
        assert word in done.stdout


@pytest.mark.parametrize("kind", CATALOGUE)
def test_list(zoo, kind):
    rows = json.loads(zoo("list", kind, "--json").stdout)
    assert rows and all(row["name"] for row in rows)
    shown = zoo("list", kind)
    assert shown.returncode == 0 and all(row["name"] in shown.stdout for row in rows)


def test_recipes_are_chosen_by_data_set_and_model(zoo):
    done = zoo("list", "recipes", "--dataset", "cora", "--model", "gcn")
    heading, *lines = [line.split() for line in done.stdout.splitlines()]
    assert heading == ["recipe", "published", "measured"]
    assert lines[0] == ["cora,", "links,", "ratio-85-5-10,", "roc-auc"]
    assert lines[1][:2] == ["gcn-cora-links", "0.9100"]
    assert lines[2] == ["cora,", "per-class-20,", "accuracy"]
    assert lines[3][:2] == ["gcn-cora", "0.8510"]
    assert lines[4] == ["cora,", "ratio-50-25-25,", "accuracy"] and lines[5][0] == "gcn-cora-half"
    for words, said in {
        ("recipes", "--dataset", "kora"): "did you mean 'cora'",
        ("recipes", "--dataset", "cora", "--model", "vit"): "zoo tune vit --data cora",
        ("models", "--dataset", "cora"): "leave them out of models",
    }.items():
        done = zoo("list", *words)
        assert done.returncode == 2 and said in done.stderr


def test_a_run_is_called_as_its_recipe_was(tiny_recipe, tmp_path):
    for folder, file, name in (
        ("gcn-cora-20261121-120000", "recipe.yaml", "gcn-cora"),
        ("gcn-cora-20261121-120000-2", "recipe.yaml", "gcn-cora"),
        ("gcn-cora-20261121-120000", "mine.yaml", "mine"),
        ("folder", "recipe.yaml", "recipe"),
    ):
        path = tmp_path / folder / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(TINY)
        assert read_recipe(path).name == name


def test_show_writes_out_every_value_and_can_be_trained(zoo, tmp_path):
    done = zoo("show", "sgformer-digits-rba", "train.epochs=2", "seeds=[0]")
    assert "inference: fixed" in done.stdout and "lr: 0.01" in done.stdout
    (tmp_path / "shown.yaml").write_text(done.stdout)
    assert zoo("train", "shown.yaml").returncode == 0


def said_of_training(done):
    """Lines of what a command says, but that so few epochs have taught nothing."""
    return [each for each in done.stderr.splitlines() if "than always answering" not in each]


def test_train_prints_its_table_and_its_folder(zoo, tiny_recipe, tmp_path):
    done = zoo("train", tiny_recipe, "model.attention=softmax")
    assert done.returncode == 0
    assert "test" in done.stdout and "±" in done.stdout and "runs/tiny-" in done.stdout
    lines = said_of_training(done)  # no bar where there is no terminal
    assert lines[0].startswith("tiny: seeds [")
    assert "done in" in lines[-1]
    [folder] = (tmp_path / "runs").iterdir()
    assert said_of_training(zoo("train", tiny_recipe, "seeds=[0]", "--quiet")) == []
    assert "attention: softmax" in (folder / "recipe.yaml").read_text()


def test_json_is_the_last_line(zoo, tiny_recipe):
    done = zoo("train", tiny_recipe, "--json")
    summary = json.loads(done.stdout.splitlines()[-1])
    assert {"recipe", "metric", "seeds", "val", "test", "seconds_per_epoch",
            "peak_memory_bytes"} <= set(summary)  # fmt: skip


@pytest.mark.parametrize("expected,code,word", [(0.1, 0, "PASS"), (1.0, 1, "FAIL")])
def test_reproduce_gives_its_verdict(zoo, tiny_recipe, expected, code, word):
    said = "differs=['The source has no `dim`.']"
    done = zoo("reproduce", tiny_recipe, f"expect.test={expected}", said)
    assert done.returncode == code
    assert word in done.stdout and "expected" in done.stdout and "measured" in done.stdout
    assert "differs: The source has no `dim`." in done.stdout


def test_reproduce_goes_on_with_what_was_begun(zoo, tiny_recipe, tmp_path):
    recipe = json.loads(zoo("reproduce", tiny_recipe, "expect.test=0.1", "--json").stdout)
    (folder,) = (tmp_path / "runs").iterdir()
    (folder / "summary.json").unlink()  # as if it had been killed between two seeds
    last = f"seed-{recipe['seeds'][-1]['seed']}"
    (folder / last / "result.json").unlink()
    done = zoo("reproduce", tiny_recipe, "expect.test=1.0")
    assert (done.returncode, [*(tmp_path / "runs").iterdir()]) == (1, [folder])
    assert f"goes on in runs/{folder.name}" in done.stderr and "expected 1.0000" in done.stdout
    zoo("reproduce", tiny_recipe, "expect.test=0.1")  # what has ended is trained anew
    assert len([*(tmp_path / "runs").iterdir()]) == 2


def test_reproduce_without_a_number_to_reach(zoo):
    done = zoo("reproduce", "sgformer-digits-rba")
    assert done.returncode == 2 and "zoo train" in done.stderr


def test_info_prints_what_a_model_is(zoo):
    done = zoo("info", "sgformer")
    assert done.returncode == 0
    for word in ("Attention branch", "qk_norm", "2306.10759", "sgformer-cora", "@inproceedings",
                 "Tuned again by validation"):  # fmt: skip
        assert word in done.stdout
    assert json.loads(zoo("info", "sgformer", "--json").stdout)["name"] == "sgformer"
    done = zoo("info", "sgformer-cora")
    assert done.returncode == 2 and "`zoo show sgformer-cora` prints it" in " ".join(
        done.stderr.split()
    )


def test_schema_is_json(zoo):
    schema = json.loads(zoo("schema").stdout)
    assert {"dataset", "model", "train", "seeds"} <= set(schema["properties"])
    [word, file] = schema["$defs"]["dataset"]["anyOf"][-2:]  # graphs of one's own
    assert word["type"] == "string" and "cora" in word["not"]["enum"]
    assert file["properties"]["name"] == word and not file["additionalProperties"]
    assert {"label", "columns", "direction", "edge_features"} <= set(file["properties"])
    assert file["properties"]["split"] == {"$ref": "#/$defs/split"} and "split" in schema["$defs"]
    [word, named] = schema["$defs"]["split"]["anyOf"][-2:]  # of any number of folds
    for each, known in (("folds-7", True), ("folds-12", True), ("folds-1", False)):
        assert bool(re.fullmatch(word["pattern"].strip("^$"), each)) == known
    assert named["properties"]["name"] == word and "seed" in named["properties"]


def test_doctor_finds_this_machine_in_order(zoo):
    done = zoo("doctor")
    assert done.returncode == 0, done.stdout
    for word in ("torch", "dgl", "graphs", "gpu", "data", "cache"):
        assert word in done.stdout


@pytest.mark.slow
def test_doctor_names_the_line_that_fixes_a_broken_dgl(tmp_path):
    package = tmp_path / "dgl"
    package.mkdir()
    (package / "__init__.py").write_text('raise FileNotFoundError("libgraphbolt is not here")\n')
    # The other packages are looked at where this machine is in order.
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from zoo.cli import app, doctor; "
        "doctor._PACKAGES = {'dgl': doctor.DGL_FIX}; app.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "libgraphbolt is not here" in done.stdout and "pip install" in done.stdout


BROKEN_RECIPES = {
    "unknown top-level key": ("modle: gcn\n" + TINY, "did you mean 'model'"),
    "unknown model": (TINY.replace("sgformer", "sgfromer"), "did you mean 'sgformer'"),
    "unknown option": (TINY.replace("dim: 8", "dimm: 8"), "did you mean 'dim'"),
    "unknown attention": (TINY.replace("rba", "rbaa"), "did you mean 'rba'"),
    "unknown attention option": (TINY.replace("size: 16", "sizes: 16"), "did you mean 'size'"),
    "zero batch": (TINY.replace("size: 16", "size: 0"), "greater than or equal to 1"),
    "text for a number": (TINY.replace("epochs: 3", "epochs: three"), "integer"),
    "true for a number": (TINY.replace("epochs: 3", "epochs: true"), "integer"),
    "negative rate": (TINY.replace("epochs: 3", "lr: -1"), "greater than 0"),
    "unknown training option": (TINY.replace("epochs: 3", "epoch: 3"), "did you mean 'epochs'"),
    "unknown dataset": (TINY.replace("sbm", "smb"), "did you mean 'sbm'"),
    "unknown dataset option": (TINY.replace("nodes:", "node:"), "did you mean 'nodes'"),
    "unknown split": (TINY.replace("ratio-50", "ratoi-50"), "did you mean 'ratio-50-25-25'"),
    "ratios above a hundred": (TINY.replace("ratio-50-25-25", "{name: ratio, train: 90}"), "100"),
    "unknown encoding": (TINY + "encoding: laplace\n", "did you mean 'laplacian'"),
    "unknown propagation": (TINY.replace("dim: 8", "propagation: gnc"), "did you mean 'gcn'"),
    "duplicate key": (TINY + "seeds: [3]\n", "seeds"),
    "duplicate seeds": (TINY.replace("[0, 1]", "[1, 1]"), "each once"),
    "no model": (TINY.replace("model:", "encoding:").replace("sgformer", "none"), "model"),
    "a list": ("- dataset\n- model\n", "holds a list"),
    "not YAML": (TINY + "train: {epochs: [}\n", "yaml"),
    "an anchor": (TINY.replace("[0, 1]", "&seeds [0, 1]"), "anchor"),
    "a tag": (TINY.replace("[0, 1]", "!!python/name:os.system"), "tag"),
    "empty": ("", "empty"),
    "a missing import": (TINY + "imports: [nowhere.py]\n", "nowhere.py"),
}


@pytest.mark.parametrize("case", BROKEN_RECIPES)
def test_broken_recipes_are_answered(zoo, tmp_path, case):
    text, words = BROKEN_RECIPES[case]
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    done = zoo("train", path)
    assert done.returncode == 2, done.stderr
    assert words.lower() in done.stderr.lower(), done.stderr
    assert "broken.yaml" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["broken.yaml"]


def test_all_errors_come_at_once(zoo, tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(TINY.replace("dim: 8", "dimm: 8").replace("epochs", "epoch") + "sedes: [1]\n")
    done = zoo("train", path, "model.alpha=7")
    lines = done.stderr
    for word in ("broken.yaml:3", "broken.yaml:4", "broken.yaml:7", "model.alpha=7"):
        assert word in lines, lines


@pytest.fixture
def arrays():
    n = 40
    masks = np.arange(n) % 3
    return {
        "edges": np.stack([np.arange(n), (np.arange(n) + 1) % n], 1),
        "node_labels": np.arange(n) % 2,
        "node_features": np.ones((n, 3), dtype=np.float32),
        **{f"{part}_masks": (masks == i)[None] for i, part in enumerate(("train", "val", "test"))},
    }


def put(key, index, value):
    def change(arrays):
        arrays[key] = arrays[key].copy()
        arrays[key][index] = value

    return change


def replace(**new):
    return lambda arrays: arrays.update(new)


BROKEN_DATA = {
    "an edge to a node that is not there": (put("edges", (3, 1), 40), "40"),
    "a negative edge": (put("edges", (3, 1), -2), "-2"),
    "labels below -1": (put("node_labels", 5, -3), "-3"),
    "labels that are not whole": (replace(node_labels=np.full(40, 0.5)), "node_labels"),
    "too few labels": (replace(node_labels=np.zeros(39, dtype=int)), "39"),
    "NaN features": (put("node_features", (7, 2), np.nan), "7"),
    "infinite features": (put("node_features", (7, 2), np.inf), "7"),
    "masks that overlap": (put("val_masks", (0, 0), True), "overlap"),
    "masks of the wrong shape": (replace(val_masks=np.zeros((1, 39), dtype=bool)), "val_masks"),
    "an empty graph": (
        replace(
            edges=np.zeros((0, 2), dtype=int),
            node_labels=np.zeros(0, dtype=int),
            node_features=np.zeros((0, 3), dtype=np.float32),
        ),
        "node",
    ),
    "a pickled array": (replace(node_labels=np.array([{}] * 40, dtype=object)), "pickle"),
    "no edges key": (lambda arrays: arrays.pop("edges"), "edges"),
    "nothing labelled": (replace(node_labels=np.full(40, -1)), "label"),
}


@pytest.mark.parametrize("case", [*BROKEN_DATA, "a truncated file", "not an npz", "missing"])
def test_broken_data_is_answered(zoo, tmp_path, arrays, case):
    path = tmp_path / "graph.npz"
    if case in BROKEN_DATA:
        change, words = BROKEN_DATA[case]
        change(arrays)
        np.savez(path, **arrays)
    else:
        np.savez(path, **arrays)
        words = "graph.npz"
        if case == "a truncated file":
            path.write_bytes(path.read_bytes()[:700])
        elif case == "not an npz":
            path.write_text("edges")
        else:
            path.unlink()
    before = sorted(each.name for each in tmp_path.rglob("*"))
    done = zoo("train", "gcn-digits", f"dataset={path}")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr and "graph.npz" in done.stderr, done.stderr
    assert sorted(each.name for each in tmp_path.rglob("*")) == before


def test_a_prepared_file_trains(zoo, tmp_path, arrays):
    np.savez(tmp_path / "graph.npz", **arrays)
    done = zoo("train", "gcn-digits", "dataset=graph.npz", "train.epochs=2", "seeds=[0]")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("train", "nowhere"),
        ("train", "nowhere.yaml"),
        ("train", "sgformer-digits-rba", "train.epochs"),
        ("train", "sgformer-digits-rba", "train.epoch=3"),
        ("train", "sgformer-digits-rba", "--device", "tpu"),
        ("list", "modles"),
        ("trian",),
    ],
    ids=" ".join,
)
def test_wrong_words_end_with_exit_code_2(zoo, words, tmp_path):
    done = zoo(*words)
    assert done.returncode == 2 and done.stderr
    assert not list(tmp_path.iterdir())


def test_every_recipe_can_be_shown():
    from zoo.runs.resolve import load_recipe, write_out

    assert len(recipe_names()) > 40
    for name in recipe_names():
        assert write_out(load_recipe(name))["model"]["name"]


def test_it_starts_quickly(zoo):
    """Torch and DGL are not imported for help."""
    code = "import sys; sys.argv=['zoo','--help']\nfrom zoo.cli.app import main\ntry: main()\n"
    code += (
        "except SystemExit: pass\nassert 'torch' not in sys.modules and 'dgl' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_makefile_knows_its_targets():
    root = Path(__file__).parents[2]
    done = subprocess.run(["make", "-n", "train", "test"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0 and "zoo train sgformer-digits-rba" in done.stdout


@pytest.mark.slow
def test_a_profile_names_the_dearest_operations(zoo, tiny_recipe, tmp_path):
    done = zoo("train", tiny_recipe, "train.epochs=7", "--profile", "--track", "csv", "--quiet")
    assert done.returncode == 0 and "ms per epoch" in done.stdout and "trace.json" in done.stderr
    assert "seed 0" not in done.stderr and [*(tmp_path / "runs").glob("*/metrics.csv")]
    [trace] = (tmp_path / "runs").glob("*/trace.json")
    assert json.loads(trace.read_text())["traceEvents"]
    short = zoo("train", tiny_recipe, "train.epochs=3", "--profile")
    assert short.returncode == 2 and "train.epochs=7" in short.stderr


def test_a_model_is_trained_with_its_defaults(zoo):
    done = zoo("train", "gcn", "dataset=karate", "train.epochs=3", "--json")
    folder = Path(json.loads(done.stdout)["folder"])
    recipe = read_recipe(folder / "recipe.yaml")
    assert folder.name.startswith("gcn-") and recipe.model["dim"] == 64
    assert recipe.train["lr"] == 0.01 and recipe.train["patience"] == 100


def test_a_model_alone_is_asked_for_its_data(zoo):
    done = zoo("train", "gcn")
    assert done.returncode == 2 and "gcn is a model: name a data set beside it" in done.stderr
    assert "write `zoo tune gcn --data DATASET`" in zoo("tune", "gcn").stderr


def test_the_recipe_of_another_data_set_says_that_it_was_tuned_there(zoo):
    said = " ".join(zoo("train", "mlp-actor", "dataset=karate", "train.epochs=1").stderr.split())
    assert "mlp-actor was tuned for actor: `zoo train mlp dataset=karate`" in said
    assert "leaves out `features: row`; write `dataset.features=row`" in said
    for silent in (["mlp-actor", "--quiet"], ["mlp"]):
        said = zoo("train", *silent, "dataset=karate", "train.epochs=1").stderr
        assert "tuned for" not in said and "leaves out" not in said


def test_train_tune_and_compare_take_data_as_finetune_does(command, preloaded_processes):
    quick = ["--quiet", "train.epochs=1", "seeds=[0]"]
    code, said, _ = command("train", "gcn", "--data", "{name: sbm, nodes: 60}", "--json", *quick)
    assert code == 0 and json.loads(said)["dataset"] == "sbm"
    code, said, _ = command("compare", "mlp", "gcn", "--data", "karate", "--json", *quick)
    assert code == 0 and [each["dataset"] for each in json.loads(said)] == ["karate"] * 2
    for words in (["train", "gcn"], ["tune", "gcn"], ["compare", "gcn"]):
        code, _, wrong = command(*words, "dataset=karate", "--data", "sbm")
        assert code == 2 and "--data sbm and dataset=karate both name the data set" in wrong
    code, _, wrong = command("compare", "--data", "karate")
    assert code == 2 and "zoo compare sgformer gat --data karate" in " ".join(wrong.split())
