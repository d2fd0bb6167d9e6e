"""A run meets a full disk, clocks that jump, a deleted folder, other threads: nothing is lost."""

import gc
import json
import math
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import torch
from faults import at, jumping_clocks, started, writes_fail_at

from zoo.errors import ZooError
from zoo.runs.resolve import load_recipe
from zoo.runs.run import resume_run, run_recipe
from zoo.runs.run_folder import Environment, environment_changes, read_summary, threads_of
from zoo.system.files import WriteError
from zoo.weights.save_and_load import read_weights

DATA = {"name": "sbm", "nodes": 40, "classes": 3, "dim": 4}


def recipe(dim=6, epochs=6, **changes):
    own = {"model": {"name": "mlp", "dim": dim}, "train": {"epochs": epochs}, "seeds": [3, 4]}
    return load_recipe({"dataset": DATA, **own, **changes})


def scores(summary):
    return [(row["val"], row["test"]) for row in summary["seeds"]]


def same_weights(folder, other):
    for seed in (3, 4):
        one, two = (read_weights(Path(each, f"seed-{seed}", "model.safetensors"))
                    for each in (folder, other))  # fmt: skip
        assert all(torch.equal(one[key], two[key]) for key in one)


def one_paragraph(caught):
    said = str(caught.value)
    assert "\n" not in said and len(said) < 900
    return said


def went_on(folder, tmp_path):
    """Whether a run goes on to the numbers and the bits of an unbroken one; return what it says."""
    said = []
    again, whole = resume_run(folder, tell=said.append), run_recipe(recipe(), runs=tmp_path / "x")
    assert scores(again) == scores(whole)
    same_weights(folder, whole["folder"])
    lines = (Path(each, "metrics.jsonl") for each in (folder, whole["folder"]))
    one, other = ([json.loads(line) for line in each.read_text().splitlines()] for each in lines)
    assert [each["loss"] for each in one] == [each["loss"] for each in other]
    return said


@pytest.mark.parametrize(
    "file,byte,every", [("checkpoint-3.pt", 6_000, 0.0), ("metrics.jsonl", 600, math.inf)]
)
def test_what_is_not_written_ends_a_run_with_one_sentence(file, byte, every, tmp_path):
    limit = writes_fail_at(byte)
    try:
        with pytest.raises(WriteError) as caught:
            run_recipe(recipe(), runs=tmp_path, checkpoint=every, watch=at(3, 2, limit.__enter__))
    finally:
        limit.__exit__(None, None, None)
    [folder] = tmp_path.iterdir()
    said = one_paragraph(caught)
    assert f"{file} cannot be written" in said and f"`zoo train --resume {folder}` goes on" in said
    assert not went_on(folder, tmp_path)


def test_a_new_run_that_can_write_nothing_leaves_nothing(tmp_path):
    with writes_fail_at(10), pytest.raises(WriteError, match="recipe.yaml cannot be written"):
        run_recipe(recipe(), runs=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def disk(tmp_path):
    """A disk of 600 kB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(call, capture_output=True).returncode:
        pytest.skip("no disk may be mounted here")
    yield folder
    gc.collect()  # an error of torch's writer keeps its file open
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder):
    with (folder / "filling").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def test_a_full_disk_ends_a_run_and_loses_nothing(disk, tmp_path):
    with pytest.raises(WriteError, match="the disk is full.*zoo train --resume") as caught:
        run_recipe(recipe(), runs=disk, checkpoint=0.0, watch=at(3, 4, lambda: fill(disk)))
    one_paragraph(caught)
    [folder] = disk.glob("recipe-*")
    (disk / "filling").unlink()
    assert not went_on(folder, tmp_path)


def test_a_diverged_run_keeps_its_metrics(tmp_path):
    def diverge():
        raise ZooError("the loss became nan")

    with pytest.raises(ZooError, match="became nan"):
        run_recipe(recipe(), runs=tmp_path, watch=at(3, 2, diverge))
    [folder] = tmp_path.iterdir()
    assert len((folder / "metrics.jsonl").read_bytes().splitlines()) == 3


def test_a_later_seed_that_diverges_is_named_with_the_folder_of_those_before(tmp_path):
    def diverge():
        raise ZooError("the loss became nan.")

    with pytest.raises(ZooError) as caught:
        run_recipe(recipe(), runs=tmp_path, watch=at(4, 2, diverge))
    [folder] = tmp_path.iterdir()
    assert str(caught.value) == (
        f"the loss became nan. This was seed 4; those before it are in {folder}."
    )
    assert len(read_summary(folder)["seeds"]) == 1


def test_clocks_that_jump_change_nothing(tmp_path, monkeypatch):
    whole = run_recipe(recipe(), runs=tmp_path / "whole")
    jumping_clocks(monkeypatch)
    found = run_recipe(recipe(), runs=tmp_path)
    assert scores(found) == scores(whole)
    same_weights(found["folder"], whole["folder"])


def known_of(folder):
    path = Path(folder, "environment.json")
    return path, json.loads(path.read_bytes())


def end():
    raise KeyboardInterrupt


def test_a_run_goes_on_with_its_threads(tmp_path):
    found = run_recipe(recipe(), runs=tmp_path, watch=at(4, 2, end))
    path, known = known_of(found["folder"])
    path.write_text(json.dumps({**known, "threads": 2}))
    seen, said = set(), []
    resume_run(found["folder"], tell=said.append,
               watch=lambda *_: seen.add(torch.get_num_threads()))  # fmt: skip
    assert seen == {2} and torch.get_num_threads() == 1 and not said


def test_what_may_change_the_last_digits_is_said(tmp_path):
    found = run_recipe(recipe(), runs=tmp_path, watch=at(4, 2, end))
    path, known = known_of(found["folder"])
    packages = {**known["packages"], "torch": "1.0"}
    path.write_text(json.dumps({**known, "cpu": "Z80", "packages": packages}))
    said = []
    resume_run(found["folder"], tell=said.append)
    assert len(said) == 1 and "instead of Z80" in said[0] and "instead of 1.0" in said[0]
    assert "may differ in their last digits" in said[0]


def test_more_threads_than_cores_are_taken_and_told():
    known = {"recipe": "x", "recipe_sha256": "0", "processes": 1, "device": "cpu", "cpu": "AVX2"}
    cores = os.cpu_count()
    more = [Environment(**known, threads=each * cores, packages={}) for each in (1, 2)]
    assert [threads_of(each, "cpu") for each in more] == [cores, 2 * cores]
    assert threads_of(more[0], "cuda") is None  # whose last digits are others anyway
    first = more[0].model_copy(update={"device": "cuda:0"})
    assert threads_of(first, "cuda:1") == cores  # that of another process of the run
    now = {"code": "0", "device": "cpu", "cpu": "AVX2", "packages": {}}
    said = [environment_changes(each, now) for each in more]
    assert not said[0] and "stay the same" in said[1][0]
    assert len(environment_changes(more[1], {**now, "device": "cuda"})) == 1


def test_reproduce_takes_the_threads_of_what_was_verified(tmp_path, command):
    path = tmp_path / "verified.yaml"
    verified = {"test": 0.5, "std": 0.0, "seeds": [3], "date": "2026-01-01", "threads": 2}
    expect = {"test": 0.0, "within": 1.0, "source": "a test"}
    path.write_text(recipe(epochs=1, seeds=[3], expect=expect, verified=verified).text())
    code, out, _ = command("reproduce", "verified.yaml", "--json")
    assert code == 0 and torch.get_num_threads() == 1
    assert known_of(json.loads(out)["folder"])[1]["threads"] == 2


def test_ctrl_c_in_the_first_epoch_of_a_fine_tuning_keeps_the_loaded_weights(tmp_path, monkeypatch):
    first = run_recipe(recipe(), runs=tmp_path / "runs")
    start = {"weights": f"{first['folder']}/seed-3"}

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo.training.trainer.Trainer.train", interrupted)
    again = run_recipe(recipe(seeds=[3], start_from=start), runs=tmp_path / "again")
    [row] = again["seeds"]
    assert again["interrupted"] and (row["epochs"], row["epoch"]) == (0, -1)
    assert row["seconds_per_epoch"] == 0 and row["val"] == first["seeds"][0]["val"]
    assert read_summary(Path(again["folder"]))["seeds"][0]["test"] == row["test"]


def test_weights_that_a_run_started_from_have_to_stay(tmp_path):
    source = run_recipe(recipe(), runs=tmp_path)["folder"] + "/seed-3"
    begun = recipe(start_from={"weights": source})
    found = run_recipe(begun, runs=tmp_path / "runs", watch=at(3, 2, end))
    shutil.rmtree(source)
    shutil.copytree(Path(source).with_name("seed-4"), source)
    with pytest.raises(ZooError, match="no longer the weights"):
        resume_run(found["folder"])


LIMITS = [(64, {"file_bytes": 4_000}), (64, {"file_bytes": 40_000}), (9_000, {"memory": 3 * 2**30})]


@pytest.mark.slow
@pytest.mark.parametrize("dim,limit", LIMITS)
def test_the_command_under_limits(dim, limit, tmp_path):
    words = ["gcn-digits", "train.epochs=300", "seeds=[0, 1]", f"model.dim={dim}"]
    done = started("train", *words, cwd=tmp_path, **limit)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("zoo: ")


def test_what_a_killed_run_was_writing_is_removed(tmp_path):
    folder = Path(run_recipe(recipe(), runs=tmp_path, watch=at(4, 2, end))["folder"])
    drafts = [each / ".zoo-0123.draft" for each in (folder, folder / "seed-4")]
    for draft in drafts:
        draft.mkdir()
        (draft / "model.safetensors").write_bytes(bytes(1000))
        for each in (draft / "model.safetensors", draft):
            os.utime(each, (time.time() - 10,) * 2)
    resume_run(folder)
    assert not any(draft.exists() for draft in drafts)
