"""Damaged folders of runs: each is answered in one paragraph, or goes on to the same numbers."""

import errno
import json
import math
import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from faults import at, flip

from zoo.errors import ZooError
from zoo.experiments import run_folder
from zoo.experiments.prepare import prepare
from zoo.experiments.resolve import load_recipe
from zoo.experiments.run import resume_run, run_recipe, unfinished
from zoo.experiments.run_folder import read_summary
from zoo.reports.history import read_history
from zoo.training.checkpoint import (
    Checkpoint,
    read_sealed,
    sealed_json,
    sealed_line,
    sealed_text,
    unsealed_json,
    unsealed_text,
    write_sealed,
)
from zoo.training.trainer import Hooks, fit
from zoo.weights.create import create_model
from zoo.weights.load import read_weights

RECIPE = {
    "dataset": {"name": "sbm", "nodes": 40, "classes": 3, "dim": 4},
    "model": {"name": "mlp", "dim": 6},
    "train": {"epochs": 8},
    "seeds": [3, 4],
}


def stop():
    raise KeyboardInterrupt


def ended(runs, seed=4):
    """A run that was ended in a seed: the one before is finished, a checkpoint is there."""
    said = run_recipe(load_recipe(RECIPE), runs=runs, watch=at(seed, 5, stop), checkpoint=0.0)
    return Path(said["folder"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The summary of an unbroken run."""
    torch.manual_seed(0)
    return run_recipe(load_recipe(RECIPE), runs=tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory):
    return ended(tmp_path_factory.mktemp("ended"))


@pytest.fixture
def folder(broken_off, tmp_path):
    return Path(shutil.copytree(broken_off, tmp_path / broken_off.name))


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def same(summary, whole):
    states = [
        {seed: read_weights(f"{each['folder']}/seed-{seed}/model.safetensors") for seed in (3, 4)}
        for each in (summary, whole)
    ]
    assert all(torch.equal(x, states[1][seed][k]) for seed in (3, 4)
               for k, x in states[0][seed].items())  # fmt: skip
    assert [(row["val"], row["test"]) for row in summary["seeds"]] == [
        (row["val"], row["test"]) for row in whole["seeds"]
    ]


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_checkpoint_gives_way_to_the_one_before(seed, folder, whole):
    flip(folder / "checkpoint-4.pt", 20, seed)
    said = []
    same(resume_run(folder, tell=said.append), whole)
    [sentence] = said
    assert "checkpoint-4.pt is damaged (its checksum is another); the checkpoint before" in sentence
    assert not list(folder.glob("checkpoint*"))


@pytest.mark.parametrize("killed", ["before it was written", "while it was written"])
def test_between_two_checkpoints_one_of_them_is_whole(killed, folder, whole):
    if killed == "before it was written":
        (folder / "checkpoint-4.pt").unlink()
    else:
        (folder / "checkpoint-4.pt").replace(folder / "checkpoint-4.previous.pt")
    said = []
    same(resume_run(folder, tell=said.append), whole)
    assert not said


class Trap:
    """An object that, unpickled, would make a file."""

    def __reduce__(self):
        return os.mkdir, ("sprung",)


def held(change):
    """Change what a checkpoint holds; its checksum is right."""

    def alter(path):
        content = read_sealed(path, lambda file: torch.load(file, weights_only=True))
        write_sealed(path, lambda file: torch.save(change(content) or content, file))

    return alter


def put(*words, value):
    """Put a value into the state at the end of a path of keys."""

    def change(content):
        at = content["state"]
        for word in words[:-1]:
            at = at[word]
        at[words[-1]] = value(at[words[-1]]) if callable(value) else value

    return held(change)


WEIGHT = ("layers.0.0.weight",)
CHECKPOINTS = {
    "empty": (lambda path: path.write_bytes(b""), "checksum"),
    "noise": (lambda path: path.write_bytes(b"\xff" * 200), "checksum"),
    "a bit": (lambda path: flip(path, 1), "checksum"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:-300]), "checksum"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "no file"),
    "a pipe": (lambda path: (path.unlink(), os.mkfifo(path)), "no file"),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps({"state": Trap()}, 2)), "checksum"),
    "a pickle in a file of torch": (held(lambda _: {"state": Trap()}), "plain data"),
    "no mapping": (held(lambda _: [1, 2]), "list"),
    "no state": (held(lambda _: {"of": "x"}), "state"),
    "another training": (held(lambda content: {**content, "of": "x"}), "another training"),
    "a list for a state": (held(lambda content: {**content, "state": [1]}), "list"),
    "no epochs": (held(lambda content: content["state"].pop("epochs") and None), "other names"),
    "epochs a text": (put("epochs", value="3"), "epochs"),
    "epochs endless": (put("epochs", value=10**30), "epochs|seconds"),
    "epochs below 0": (put("epochs", value=-1), "seconds"),
    "other epochs": (put("rates", "last_epoch", value=2), "different epochs"),
    "rates null": (put("rates", value=None), "rates"),
    "rates a word": (put("rates", "base_lrs", value=["x"]), "rates"),
    "model null": (put("model", value=None), "model"),
    "a weight missing": (put("model", value=lambda held: dict([*held.items()][1:])), "model"),
    "a weight of another shape": (put("model", value=lambda held: {
        name: each.flatten() for name, each in held.items()}), "shape"),
    "a weight of another type": (put("model", value=lambda held: {
        name: each.double() for name, each in held.items()}), "type"),
    "no optimiser": (put("optimiser", value=[]), "optimiser"),
    "no groups": (put("optimiser", "param_groups", value=[]), "optimiser"),
    "groups of numbers": (put("optimiser", "param_groups", value=[1]), "optimiser"),
    "other weights": (put("optimiser", "param_groups", 0, "params", 0, value=7), "other weights"),
    "a moment of another shape": (
        put("optimiser", "state", 0, "exp_avg", value=torch.ones(2)), "exp_avg"),
    "a moment of no weight": (
        put("optimiser", "state", value=lambda held: {99: held[0]}), "no weight"),
    "moments null": (put("optimiser", "state", 0, value=None), "optimiser"),
    "best null": (put("best", value=None), "best"),
    "best without scores": (put("best", "scores", value={}), "different epochs"),
    "scores of words": (put("best", "scores", "val", value="x"), "scores"),
    "an epoch of no kind": (put("best", "epoch", value=None), "best"),
    "seconds too few": (put("seconds", value=[0.1]), "seconds"),
    "seconds of words": (put("seconds", 0, value="x"), "seconds"),
    "generators null": (put("generators", value=None), "generators"),
    "no generator of Python": (put("generators", "python", value=()), "generators"),
    "a generator of words": (put("generators", "python", value=(3, ("x",) * 625, None)), "gener"),
    "a generator beyond": (put("generators", "python", value=(3, (2**80,) * 625, None)), "gener"),
    "a generator below 0": (put("generators", "python", value=(3, (-1,) * 625, None)), "gener"),
    "NumPy's of another kind": (put("generators", "numpy", value=["PCG", [1], 0, 0, 0.0]), "gener"),
    "NumPy's too short": (put("generators", "numpy", 1, value=[1]), "generators"),
    "NumPy's beyond": (put("generators", "numpy", 1, value=[2**80] * 624), "generators"),
    "torch's too short": (put("generators", "torch", value=torch.ones(3).byte()), "generators"),
    "torch's of another type": (put("generators", "torch", value=torch.ones(5056)), "generators"),
}  # fmt: skip


@pytest.fixture(scope="module")
def training(broken_off):
    """What continues the training of the run from a checkpoint."""
    record, plan = unfinished(broken_off, 1)
    prepared = prepare(plan)

    def go_on(path):
        model = create_model("mlp", 4, 3, dim=6)
        checkpoint = Checkpoint(path, 1e9, f"{record.recipe_sha256} 4")
        return fit(model, prepared.on(prepared.splits[1]), Hooks(checkpoint=checkpoint), epochs=8)

    return go_on


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_two_damaged_checkpoints_are_refused(case, folder, training, monkeypatch, tmp_path):
    damage, words = CHECKPOINTS[case]
    monkeypatch.chdir(tmp_path)
    paths = [folder / name for name in ("checkpoint-4.pt", "checkpoint-4.previous.pt")]
    for path in paths:
        damage(path)
    before = contents(folder)
    with pytest.raises(ZooError, match="checkpoint-4.pt is damaged .*its seed begins") as caught:
        training(paths[0])
    said = str(caught.value)
    assert "\n" not in said and len(said) < 700 and any(each in said for each in words.split("|"))
    assert contents(folder) == before and not Path("sprung").exists()


def test_a_whole_checkpoint_is_taken(folder, training):
    seen = training(folder / "checkpoint-4.pt")
    assert seen.epochs == 8


def text(name, alter):
    def damage(folder):
        path = folder / name
        path.write_bytes(alter(path.read_bytes()))

    return damage


def content(name, **changes):
    """Change what a file of JSON says; its checksum is right. None takes a key away."""

    def damage(folder):
        data = {**unsealed_json((folder / name).read_bytes()), **changes}
        kept = {key: value for key, value in data.items() if value is not None}
        (folder / name).write_text(sealed_json(kept))

    return damage


def scores(**changes):
    known = {"seed": 3, "epoch": 1, "train": 0.5, "val": 0.5, "test": 0.5, "epochs": 8,
             "seconds_per_epoch": 0.1, "interrupted": False, "parameters": 4,
             "split_sha256": "x"}  # fmt: skip
    return content("seed-3/result.json", scores={**known, **changes})


def instead(name, make):
    def damage(folder):
        (folder / name).unlink()
        make(folder / name)

    return damage


SWAPPED = sealed_text("dataset: digits\nmodel: gcn\n")
BYTES = {
    "null": lambda old: b"null",
    "a list": lambda old: b"[]",
    "a number": lambda old: b"7",
    "nothing": lambda old: b"",
    "invalid UTF-8": lambda old: b"\xff\xfe" + old,
    "too deep": lambda old: b"[" * 10**5,
    "deep and closed": lambda old: b'{"a":' * 900 + b"1" + b"}" * 900,
    "cut": lambda old: old[: len(old) // 2],
    "too long a number": lambda old: b'{"a": ' + b"9" * 5000 + b"}",
    "a digit more": lambda old: old.replace(b"0", b"01", 1),
}
FILES = ("environment.json", "seed-3/result.json", "recipe.yaml")
DAMAGE = {f"{name}: {kind}": text(name, alter) for name in FILES for kind, alter in BYTES.items()}
DAMAGE |= {
    "recipe.yaml: without its first line": text("recipe.yaml", lambda old: old.partition(b"\n")[2]),
    "recipe.yaml: of another run": text("recipe.yaml", lambda old: SWAPPED.encode()),
    "recipe.yaml: missing": lambda folder: (folder / "recipe.yaml").unlink(),
    "recipe.yaml: a folder": instead("recipe.yaml", Path.mkdir),
    "recipe.yaml: a pipe": instead("recipe.yaml", os.mkfifo),
    "environment.json: a pipe": instead("environment.json", os.mkfifo),
    "environment.json: no name": content("environment.json", recipe=None),
    "environment.json: a long name": content("environment.json", recipe="x" * 256),
    "environment.json: processes": content("environment.json", processes="2"),
    "environment.json: no process": content("environment.json", processes=0),
    "environment.json: threads": content("environment.json", threads=2**40),
    "environment.json: packages": content("environment.json", packages=["torch"]),
    "result.json: no scores": content("seed-3/result.json", scores=None),
    "result.json: of another seed": scores(seed=4),
    "result.json: epochs": scores(epochs=None),
    "result.json: a word": scores(val="0.9"),
    "result.json: below 0": scores(parameters=-3),
    "result.json: of another run": content("seed-3/result.json", recipe_sha256="0" * 64),
    "result.json: a path": content("seed-3/result.json", files={"../../x": "0"}),
    "result.json: a pipe": instead("seed-3/result.json", os.mkfifo),
    "weights: a bit": lambda folder: flip(folder / "seed-3/model.safetensors", 1),
    "weights: missing": lambda folder: (folder / "seed-3/model.safetensors").unlink(),
    "weights: of another seed": lambda folder: shutil.copy(
        folder / "seed-4/model.safetensors", folder / "seed-3"),
    "config.json: a digit": text("seed-3/config.json", lambda old: old.replace(b"0", b"1", 1)),
    "metrics.jsonl: a folder": instead("metrics.jsonl", Path.mkdir),
    "metrics.jsonl: a pipe": instead("metrics.jsonl", os.mkfifo),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_file_is_refused(case, folder):
    DAMAGE[case](folder)
    before = contents(folder)
    with pytest.raises(ZooError) as caught:
        resume_run(folder) if "metrics" in case else unfinished(folder, 1)
    said = str(caught.value)
    assert "\n" not in said and len(said) < 800, said
    kept = contents(folder)
    assert all(kept[path] == before[path] for path in before if path.name != "summary.json")


LINES = {
    "null": b"null\n",
    "an empty mapping": b"{}\n",
    "a list": b"[1]\n",
    "invalid UTF-8": b"\xff\n",
    "another epoch": b'{"seed": 3, "epoch": 2, "crc32": 5}\n',
    "of no seed": sealed_line({"seed": "3", "epoch": 2}).encode(),
    "nothing": b"",
}


@pytest.mark.parametrize("case", LINES)
def test_a_damaged_line_of_metrics_is_told_and_training_goes_on(case, folder, whole):
    path, said = folder / "metrics.jsonl", []
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], LINES[case], *lines[3:]]))
    damaged = path.read_bytes()
    same(resume_run(folder, tell=said.append), whole)
    assert len(said) == 1 and "1 are missing" in said[0]
    assert (folder / "metrics.damaged.jsonl").read_bytes() == damaged
    assert len(path.read_bytes().splitlines()) == 15


@pytest.mark.parametrize("damage", ["missing", "null", "a digit"])
def test_a_damaged_summary_is_written_anew(damage, tmp_path, whole):
    folder = Path(shutil.copytree(whole["folder"], tmp_path / "run"))
    path = folder / "summary.json"
    with pytest.raises(ZooError, match="is finished"):
        resume_run(folder)
    text = {"null": "null", "a digit": path.read_text().replace("0.", "0.1")}
    path.unlink() if damage == "missing" else path.write_text(text[damage])
    again = resume_run(folder)
    assert [row["test"] for row in again["seeds"]] == [row["test"] for row in whole["seeds"]]
    assert read_summary(folder) == json.loads(json.dumps(again))


def test_what_is_deleted_as_the_message_says_is_made_again(folder, whole):
    flip(folder / "seed-3" / "model.safetensors", 3)
    with pytest.raises(ZooError, match="delete .*result.json: seed 3 is then trained again"):
        resume_run(folder)
    (folder / "seed-3" / "result.json").unlink()
    (folder / "environment.json").unlink()
    said = []
    same(resume_run(folder, tell=said.append), whole)
    assert any("Nothing says with how many processes and threads" in each for each in said)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "nowhere", "~nobody/x", "recipe.yaml"])
def test_a_folder_that_is_none(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    with pytest.raises(ZooError, match="there is no run at"):
        resume_run(name)


def test_a_folder_of_something_else_says_what_it_is(folder, tmp_path, monkeypatch):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "trials.db").touch()
    for name, said in (
        (tmp_path / "study", "is a study of `zoo tune`; `zoo tune --resume .*study` goes on"),
        (next(folder.glob("seed-*")), f"is one seed of a run; name the run, {folder}"),
        (folder.parent, f"is no run: .* such as {folder.parent}"),
    ):
        for read in (resume_run, read_history):
            with pytest.raises(ZooError, match=said):
                read(name)


def test_the_text_of_a_recipe_is_as_it_was_written(folder):
    text = unsealed_text((folder / "recipe.yaml").read_bytes())
    assert load_recipe(folder / "recipe.yaml").model["name"] == "mlp" and "mlp" in text


def test_a_run_of_many_epochs_reads_all_its_metrics(folder, whole, monkeypatch):
    monkeypatch.setattr(run_folder, "LONGEST", 4000)
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b"x" * 5000)
    said = []
    same(resume_run(folder, tell=said.append), whole)


def test_a_run_that_goes_on_is_held_and_never_deleted(folder):
    (folder / "notes.txt").write_text("mine")
    for each in folder.glob("checkpoint*"):
        each.unlink()

    def again(seed, epoch):
        with pytest.raises(ZooError, match="another process is training"):
            resume_run(folder)
        raise KeyboardInterrupt

    resume_run(folder, watch=again, tell=lambda text: None)
    assert (folder / "notes.txt").exists()


def test_after_a_damaged_checkpoint_the_one_before_is_kept(tmp_path):
    checkpoint = Checkpoint(tmp_path / "c.pt", 0.0, tell=lambda text: None)
    for epochs in (1, 2):
        checkpoint.offer(lambda epochs=epochs: {"epochs": epochs})
    flip(tmp_path / "c.pt", 20, 0)
    assert checkpoint.read() == {"epochs": 1}

    def unfinished():
        raise OSError(errno.ENOSPC, "No space left on device")

    checkpoint.offer(unfinished)
    assert checkpoint.read() == {"epochs": 1}


@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_scores_are_numbers(value, folder):
    path = folder / "seed-3" / "result.json"
    result = unsealed_json(path.read_bytes())
    result["scores"]["test"] = value
    path.write_text(sealed_json(result))
    with pytest.raises(ZooError, match="result.json is damaged"):
        resume_run(folder)
