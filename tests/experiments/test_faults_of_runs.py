"""A run meets a full disk, clocks that jump, a deleted folder, other threads: nothing is lost."""

import json
import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import torch
from faults import at, delete, jumping_clocks, started, writes_fail_at

import zoo
from zoo.errors import ZooError
from zoo.experiments.resolve import load_recipe
from zoo.experiments.run import resume_run, run_recipe
from zoo.experiments.run_folder import Environment, Record, differences, read_summary, threads_of
from zoo.system.files import WriteError
from zoo.training.checkpoint import sealed_json, unsealed_json, unsealed_line
from zoo.weights.load import read_weights

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


def test_weights_that_do_not_fit_are_refused_before_training(tmp_path):
    with writes_fail_at(10_000), pytest.raises(ZooError, match="it would take 1.") as caught:
        run_recipe(recipe(dim=2000), runs=tmp_path, watch=lambda *_: pytest.fail("it has begun"))
    assert "ulimit -f" in one_paragraph(caught) and not list(tmp_path.iterdir())


def test_where_a_seed_was_kept_instead_is_told_though_the_summary_fails_too(tmp_path, monkeypatch):
    def keep(record, result, model):
        raise WriteError("kept elsewhere")

    def finish(record, summary):
        raise WriteError("no summary")

    watch = at(4, 0, lambda: monkeypatch.setattr(Record, "keep", keep))
    monkeypatch.setattr(Record, "finish", finish)
    with pytest.raises(WriteError, match="kept elsewhere"):
        run_recipe(recipe(), runs=tmp_path, watch=watch)


def test_a_checkpoint_that_cannot_be_written_is_told_and_training_goes_on(tmp_path):
    said = []
    with writes_fail_at(6_000):
        found = run_recipe(recipe(), runs=tmp_path, checkpoint=0.0, tell=said.append)
    assert scores(found) == scores(run_recipe(recipe(), runs=tmp_path))
    told = [each for each in said if "Training goes on; if it is killed" in each]
    assert len(told) == 2 and "trains this seed from its beginning" in told[0]  # once for each seed
    assert not list(tmp_path.glob("*/checkpoint*"))


def test_too_little_room_for_checkpoints_and_metrics_is_told_before(tmp_path):
    said = []
    with writes_fail_at(10_000):
        run_recipe(recipe(train={"epochs": 100, "patience": 1}, seeds=[3]),
                   runs=tmp_path, tell=said.append)  # fmt: skip
    assert len(said) == 1 and said[0].startswith("There may be too little room for metrics")


def test_the_checkpoint_before_is_kept_where_the_next_cannot_be_written(tmp_path):
    def end():
        raise KeyboardInterrupt

    limit, said = writes_fail_at(6_000), []
    watch = [at(3, 2, limit.__enter__), at(3, 4, end)]
    try:
        found = run_recipe(recipe(), runs=tmp_path, checkpoint=0.0, tell=said.append,
                           watch=lambda *seen: [each(*seen) for each in watch])  # fmt: skip
    finally:
        limit.__exit__(None, None, None)
    folder = Path(found["folder"])
    assert [path.name for path in folder.glob("checkpoint*")] == ["checkpoint-3.previous.pt"]
    assert len(said) == 1 and "from the checkpoint before" in said[0]
    seen = []
    again = resume_run(folder, watch=lambda seed, epoch: seen.append((seed, epoch.epoch)))
    assert seen[0] == (3, 2) and scores(again) == scores(run_recipe(recipe(), runs=tmp_path))


def test_metrics_that_cannot_be_written_wait(tmp_path):
    limit, said = writes_fail_at(600), []
    watch = [at(3, 2, limit.__enter__), at(3, 4, lambda: limit.__exit__(None, None, None))]
    found = run_recipe(recipe(), runs=tmp_path, tell=said.append,
                       watch=lambda *seen: [each(*seen) for each in watch])  # fmt: skip
    lines = Path(found["folder"], "metrics.jsonl").read_bytes().splitlines()
    assert [unsealed_line(line)["epoch"] for line in lines] == [*range(6)] * 2
    assert len(said) == 1 and "metrics.jsonl cannot be written" in said[0]


def test_metrics_that_never_can_be_are_said_at_the_end(tmp_path):
    with writes_fail_at(5_500), pytest.raises(ZooError) as caught:
        run_recipe(recipe(epochs=40, seeds=[3]), runs=tmp_path, tell=lambda said: None)
    [folder] = tmp_path.iterdir()
    assert "metrics.jsonl cannot be written" in one_paragraph(caught)
    assert scores(read_summary(folder)) == scores(
        run_recipe(recipe(epochs=40, seeds=[3]), runs=tmp_path)
    )


@pytest.fixture
def disk(tmp_path):
    """A disk of 600 kB, where this user may mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    call = ["mount", "-t", "tmpfs", "-o", "size=600k", "none", str(folder)]
    if shutil.which("mount") is None or subprocess.run(call, capture_output=True).returncode:
        pytest.skip("no disk may be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder):
    with (folder / "filling").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            return


def test_what_a_full_disk_does_not_take_is_kept_elsewhere(disk, tmp_path):
    with pytest.raises(ZooError) as caught:
        run_recipe(recipe(), runs=disk, watch=at(3, 4, lambda: fill(disk)), tell=lambda said: None)
    [folder] = disk.glob("recipe-*")
    place = Path(re.search(r"seed 3 has come to is in (\S+)\. ", one_paragraph(caught))[1])
    assert place.parent == Path(tempfile.gettempdir()) and zoo.load(place / "seed-3")
    (disk / "filling").unlink()
    shutil.copytree(place, folder, dirs_exist_ok=True)  # as the message says
    shutil.rmtree(place)
    said, seen = [], set()
    again = resume_run(folder, watch=lambda seed, _: seen.add(seed), tell=said.append)
    assert seen == {4} and not said
    whole = run_recipe(recipe(), runs=tmp_path)
    assert scores(again) == scores(whole)
    same_weights(folder, whole["folder"])


def test_a_run_that_has_scores_is_kept_whatever_ends_it(disk, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    with pytest.raises(ZooError, match="TMPDIR has no room either.*zoo train --resume"):
        run_recipe(recipe(), runs=disk, watch=at(3, 4, lambda: fill(disk)), tell=lambda said: None)
    [folder] = disk.glob("recipe-*")
    (disk / "filling").unlink()
    assert scores(resume_run(folder)) == scores(run_recipe(recipe(), runs=tmp_path))


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


def test_a_folder_that_is_deleted_during_training(tmp_path):
    runs = tmp_path / "runs"
    said, watch = [], at(3, 2, lambda: delete(runs))
    found = run_recipe(recipe(), runs=runs, watch=watch, checkpoint=0.0, tell=said.append)
    assert ["3 are missing" in each for each in said] == [True]
    assert scores(found) == scores(read_summary(Path(found["folder"])))
    assert zoo.load(found["folder"])


def known_of(folder):
    path = Path(folder, "environment.json")
    return path, unsealed_json(path.read_bytes())


def end():
    raise KeyboardInterrupt


def test_a_run_goes_on_with_its_threads(tmp_path):
    found = run_recipe(recipe(), runs=tmp_path, watch=at(4, 2, end))
    path, known = known_of(found["folder"])
    path.write_text(sealed_json({**known, "threads": 2}))
    seen, said = set(), []
    resume_run(found["folder"], tell=said.append,
               watch=lambda *_: seen.add(torch.get_num_threads()))  # fmt: skip
    assert seen == {2} and torch.get_num_threads() == 1 and not said


def test_what_may_change_the_last_digits_is_said(tmp_path):
    found = run_recipe(recipe(), runs=tmp_path, watch=at(4, 2, end))
    path, known = known_of(found["folder"])
    packages = {**known["packages"], "torch": "1.0"}
    path.write_text(sealed_json({**known, "cpu": "Z80", "threads": 999, "packages": packages}))
    said = []
    resume_run(found["folder"], tell=said.append)
    assert len(said) == 2 and "instead of Z80" in said[0] and "instead of 1.0" in said[0]
    assert "may differ in their last digits" in said[0] and "999 threads, which is too" in said[1]


def test_a_few_more_threads_than_cores_are_taken_and_told():
    known = {"recipe": "x", "recipe_sha256": "0", "processes": 1, "device": "cpu", "cpu": "AVX2"}
    cores = os.cpu_count()
    more = [Environment(**known, threads=each * cores, packages={}) for each in (1, 2, 17)]
    assert [threads_of(each, "cpu") for each in more] == [cores, 2 * cores, None]
    assert threads_of(more[0], "cuda") is None  # whose last digits are others anyway
    first = more[0].model_copy(update={"device": "cuda:0"})
    assert threads_of(first, "cuda:1") == cores  # that of another process of the run
    now = {"code": "0", "device": "cpu", "cpu": "AVX2", "packages": {}}
    said = [differences(each, now) for each in more]
    assert not said[0] and "stay the same" in said[1][0] and "may differ" in said[2][0]
    assert len(differences(more[2], {**now, "device": "cuda"})) == 1


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
    drafts = [each / ".0123.draft" for each in (folder, folder / "seed-3")]
    for draft in drafts:
        draft.mkdir()
        (draft / ".zoo-lock").write_text(json.dumps({"process": 1, "machine": platform.node()}))
        (draft / "model.safetensors").write_bytes(bytes(1000))
    resume_run(folder)
    assert not any(draft.exists() for draft in drafts)
