"""Damaged folders of runs, and those of before, go on to the same numbers or say what is wrong."""

import errno
import hashlib
import json
import os
import pickle
import shutil
import zlib
from pathlib import Path

import pytest
import torch
from faults import at, flip

from zoo.errors import ZooError
from zoo.reports.history import read_history
from zoo.runs.resolve import load_recipe
from zoo.runs.run import load_unfinished_run, resume_run, run_recipe
from zoo.runs.run_folder import read_summary
from zoo.training.checkpoint import Checkpoint
from zoo.weights.save_and_load import read_weights

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


def of_torch(path, content):
    """Write a checkpoint that holds something else; its checksum is right."""
    torch.save(content, path)
    with path.open("ab") as file:
        file.write(hashlib.sha256(path.read_bytes()).digest())


CHECKPOINTS = {
    "empty": (lambda path: path.write_bytes(b""), "its checksum is another"),
    "a bit": (lambda path: flip(path, 1), "its checksum is another"),
    "cut short": (lambda path: path.write_bytes(path.read_bytes()[:-300]), "checksum is another"),
    "a pickle": (lambda path: path.write_bytes(pickle.dumps(Trap(), 2)), "checksum is another"),
    "another training": (
        lambda path: of_torch(path, {"of": "x", "state": {}}),
        "that of another training",
    ),
}


@pytest.mark.parametrize("case", CHECKPOINTS)
def test_two_damaged_checkpoints_are_refused(case, folder, monkeypatch, tmp_path):
    damage, words = CHECKPOINTS[case]
    monkeypatch.chdir(tmp_path)
    for name in ("checkpoint-4.pt", "checkpoint-4.previous.pt"):
        damage(folder / name)
    before = {path: path.read_bytes() for path in folder.glob("checkpoint*")}
    with pytest.raises(ZooError, match="checkpoint-4.pt is damaged .*its seed begins") as caught:
        resume_run(folder)
    said = str(caught.value)
    assert "\n" not in said and len(said) < 700 and words in said
    assert {path: path.read_bytes() for path in before} == before and not Path("sprung").exists()


def test_nothing_that_a_checkpoint_names_is_called(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    of_torch(folder / "checkpoint-4.pt", {"of": "x", "state": Trap()})
    with pytest.raises(pickle.UnpicklingError):
        resume_run(folder)
    assert not Path("sprung").exists()


def alter(name, change):
    """Change what a file of JSON says."""

    def damage(folder):
        data = json.loads((folder / name).read_bytes())
        change(data)
        (folder / name).write_text(json.dumps(data))

    return damage


DAMAGE = {
    "recipe.yaml: of another run": lambda folder: (folder / "recipe.yaml").write_text(
        "dataset: digits\nmodel: gcn\n"
    ),
    "recipe.yaml: missing": lambda folder: (folder / "recipe.yaml").unlink(),
    "result.json: of another seed": alter(
        "seed-3/result.json", lambda data: data["scores"].update(seed=4)
    ),
    "result.json: of another run": alter(
        "seed-3/result.json", lambda data: data.update(recipe_sha256="0" * 64)
    ),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_what_is_of_another_run_is_refused(case, folder):
    DAMAGE[case](folder)
    with pytest.raises(ZooError, match=f"{case.partition(':')[0]} .*Correct it") as caught:
        load_unfinished_run(folder, 1)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 800


def test_a_file_that_cannot_be_read_is_named(folder):
    for content, problem in (("{", "cannot be read"), ("{}", "is of another version of the zoo")):
        (folder / "environment.json").write_text(content)
        with pytest.raises(ZooError, match=f"environment.json {problem}"):
            load_unfinished_run(folder, 1)


@pytest.mark.parametrize("torn", [b"", b"\0" * 50, b'{"seed": 4, "ep', b"null\n"])
def test_a_torn_line_of_metrics_is_dropped(torn, folder, whole):
    path = folder / "metrics.jsonl"
    with path.open("ab") as file:
        file.write(torn)
    same(resume_run(folder), whole)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(each["seed"], each["epoch"]) for each in lines] == [
        (seed, epoch) for seed in (3, 4) for epoch in range(8)
    ]


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def as_before(folder):
    """Write a run as former versions did: checksums in each file and line, and a signature."""
    recipe = folder / "recipe.yaml"
    recipe.write_text(
        f"# SHA-256 of the lines below: {digest(recipe.read_text())}\n{recipe.read_text()}"
    )
    for path in (*folder.glob("*.json"), *folder.glob("seed-*/result.json")):
        data = json.loads(path.read_text())
        data.pop("imports", None)
        sums = {"checksum": digest(json.dumps(data, sort_keys=True))}
        path.write_text(json.dumps({**data, **sums}, indent=2) + "\n")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    sums = [zlib.crc32(json.dumps(line, sort_keys=True).encode()) for line in lines]
    (folder / "metrics.jsonl").write_text(
        "".join(json.dumps({**x, "crc32": y}) + "\n" for x, y in zip(lines, sums, strict=True))
    )
    for path in folder.glob("checkpoint-*.pt"):
        content = path.read_bytes()
        path.write_bytes(content[-32:] + content[:-32])
    (folder / "signature.json").write_text(json.dumps({"imports": {}, "hmac_sha256": "0"}))


@pytest.mark.parametrize("damaged", [False, True])
def test_a_run_of_before_goes_on(damaged, folder, whole):
    as_before(folder)
    flip(folder / "checkpoint-4.pt", 20 * damaged)
    said = []
    same(resume_run(folder, tell=said.append), whole)
    assert [each.partition(" is damaged")[0] for each in said] == damaged * [
        str(folder / "checkpoint-4.pt")
    ]


def test_a_finished_run_of_before_is_read(tmp_path, whole):
    folder = Path(shutil.copytree(whole["folder"], tmp_path / "run"))
    as_before(folder)
    read = read_history(folder)
    assert read.state == "finished" and not read.remarks
    assert [len(curve.losses) for curve in read.curves] == [8, 8]
    assert [row["test"] for row in read.results] == [row["test"] for row in whole["seeds"]]
    with pytest.raises(ZooError, match="is finished"):
        resume_run(folder)


def test_a_summary_that_is_missing_is_written_anew(tmp_path, whole):
    folder = Path(shutil.copytree(whole["folder"], tmp_path / "run"))
    (folder / "summary.json").unlink()
    again = resume_run(folder)
    assert [row["test"] for row in again["seeds"]] == [row["test"] for row in whole["seeds"]]
    assert read_summary(folder) == json.loads(json.dumps(again))


def test_what_is_deleted_as_the_message_says_is_made_again(folder, whole):
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

    with pytest.raises(OSError, match="No space left"):
        checkpoint.offer(unfinished)
    assert checkpoint.read() == {"epochs": 1}
