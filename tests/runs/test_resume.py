"""A training that is killed goes on, and ends with the numbers of one that was not."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from faults import at, kill
from preloaded import run_preloaded
from quick import every

from zoo.errors import ZooError
from zoo.runs.resolve import load_recipe
from zoo.runs.run import resume_run, run_recipe
from zoo.training.checkpoint import Checkpoint
from zoo.weights.create import list_models
from zoo.weights.save_and_load import read_weights

NAMES = [*list_models(task="node-classification", context=False), "graphany"]

OPTIONS = {
    "polynormer": {"local_epochs": 3},  # the second phase has begun when it is killed at epoch 5
    "nodeformer": {"redraw": "epoch"},
    "sgformer": {"attention": "rba", "norm": "batch"},
}


def recipe(name, **train):
    return load_recipe(
        {
            "dataset": {"name": "sbm", "nodes": 60, "classes": 3, "dim": 5},
            "model": {"name": name, **OPTIONS.get(name, {})},
            "train": {"epochs": 10, "lr": 0.01, "schedule": "cosine", **train},
            "seeds": [3, 4],
        }
    )


def numbers(folder):
    """All that a run says, but for its times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    summary = json.loads((folder / "summary.json").read_text())
    own = [{key: value for key, value in each.items() if key != "seconds"} for each in lines]
    kept = ("val", "test", "parameters", "interrupted", "recipe")
    return own, {key: summary[key] for key in kept}


def killed(folder, name, seed, epoch):
    """Train in a process that is killed after an epoch of a seed; every epoch is written."""
    run_recipe(recipe(name), runs=folder / name, watch=at(seed, epoch, kill), checkpoint=0.0)


@pytest.fixture
def left(name, tmp_path):
    """The folder of a run of a model that was killed in its second seed."""
    done = run_preloaded([__file__, str(tmp_path), name], Path.cwd())
    assert done.returncode == -signal.SIGKILL, done.stderr
    return next((tmp_path / name).iterdir())


@pytest.mark.parametrize("name", every(NAMES, 5))
def test_a_killed_run_ends_with_the_numbers_of_an_unbroken_one(name, left, tmp_path):
    assert (left / "checkpoint-4.pt").exists()
    assert not (left / "checkpoint-3.pt").exists()  # that seed was finished
    assert not (left / "summary.json").exists()
    whole = Path(run_recipe(recipe(name), runs=tmp_path)["folder"])
    resume_run(left)
    assert numbers(left) == numbers(whole)
    for seed in (3, 4):
        one, other = (
            read_weights(each / f"seed-{seed}" / "model.safetensors") for each in (left, whole)
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert not list(left.glob("checkpoint*"))
    with pytest.raises(ZooError, match="is finished"):
        resume_run(left)


def interrupted(tmp_path, at):
    def watch(seed, epoch):
        if epoch.epoch == at:
            raise KeyboardInterrupt

    return run_recipe(recipe("gcn"), runs=tmp_path, watch=watch, checkpoint=0.0)


def test_a_run_that_was_interrupted_goes_on(tmp_path):
    summary = interrupted(tmp_path / "one", 4)
    assert summary["interrupted"]
    folder = Path(summary["folder"])
    after = resume_run(folder)
    assert not after["interrupted"] and len(after["seeds"]) == 2
    whole = Path(run_recipe(recipe("gcn"), runs=tmp_path / "two")["folder"])
    assert numbers(folder) == numbers(whole)


def test_what_has_run_out_of_patience_does_not_train_on(tmp_path):
    patient = recipe("mlp", patience=1)
    whole = Path(run_recipe(patient, runs=tmp_path / "one")["folder"])
    last = max(each["epoch"] for each in numbers(whole)[0] if each["seed"] == 3)

    def stop(seed, epoch):
        if (seed, epoch.epoch) == (3, last + 1):
            raise AssertionError("one epoch too many")

    def at_the_end(seed, epoch):
        if (seed, epoch.epoch) == (4, 0):
            raise RuntimeError("ends here")

    with pytest.raises(RuntimeError, match="ends here"):
        run_recipe(patient, runs=tmp_path / "two", watch=at_the_end, checkpoint=0.0)
    folder = next((tmp_path / "two").iterdir())
    resume_run(folder, watch=stop)
    assert numbers(folder) == numbers(whole)


def test_lines_that_were_cut_off_or_come_again_are_dropped(tmp_path):
    folder = Path(interrupted(tmp_path, 4)["folder"])
    with (folder / "metrics.jsonl").open("a") as lines:
        lines.write(json.dumps({"seed": 3, "epoch": 7, "of": 10}) + "\n" + '{"seed": 3, "epo')
    resume_run(folder)
    assert [each["epoch"] for each in numbers(folder)[0]] == [*range(10)] * 2


def test_a_state_comes_back_as_it_was(tmp_path):
    held = torch.randn(4, dtype=torch.double)
    state = {"a": [1, 2.5e-8, None, "x", {3: held, "b": held[:2]}], "c": float("inf"), "d": []}
    checkpoint = Checkpoint(tmp_path / "state", every=0.0)
    checkpoint.offer(lambda: state)
    found = checkpoint.read()
    assert torch.equal(found["a"][4].pop(3), held)
    assert torch.equal(found["a"][4].pop("b"), held[:2])
    assert found == {"a": [1, 2.5e-8, None, "x", {}], "c": float("inf"), "d": []}


def test_a_checkpoint_that_was_left_goes_when_its_seed_is_found_finished(tmp_path, monkeypatch):
    with monkeypatch.context() as ended:
        ended.setattr(Checkpoint, "remove", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_recipe(recipe("mlp"), runs=tmp_path, checkpoint=0.0)
    [folder] = tmp_path.iterdir()
    assert (folder / "checkpoint-3.pt").exists() and (folder / "seed-3" / "result.json").exists()
    assert len(resume_run(folder)["seeds"]) == 2
    assert not list(folder.glob("checkpoint*"))


def interrupt(*_):
    raise KeyboardInterrupt


def test_it_is_written_no_more_often_than_said(tmp_path):
    checkpoint = Checkpoint(tmp_path / "state", every=1000.0)
    checkpoint.offer(lambda: pytest.fail("it is too soon"))
    assert checkpoint.read() is None


DIVIDED = {
    "batches": ["train.batching={name: random-nodes, size: 700}", "model.attention=rba"],
    "shares": ["model.attention={name: rba, size: 64, shard: local, redeal: 3}"],
}


def begin(tmp_path, *words):
    """Start the command with two processes."""
    call = [sys.executable, "-m", "zoo", "train", *words, "--processes", "2"]
    return subprocess.Popen(call, cwd=tmp_path, stdout=subprocess.DEVNULL)


def workers(launcher):
    """The numbers of the processes that train, in the order of their ranks: they are spawned so."""
    begun = psutil.Process(launcher).children()
    return sorted(
        each.pid for each in begun if any("spawn_main" in word for word in each.cmdline())
    )


@pytest.mark.slow
@pytest.mark.parametrize("divided", DIVIDED)
def test_two_processes_of_which_one_is_killed_go_on(divided, tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(
        "dataset: {name: sbm, nodes: 3000, classes: 3, dim: 8}\n"
        "model: {name: sgformer, graph_dropout: 0.5}\n"
        "train: {epochs: 300}\nseeds: [3]\n"
    )
    words = [path.name, *DIVIDED[divided]]
    begun = begin(tmp_path, *words, "--runs", "killed")
    limit = time.monotonic() + 120
    while not list(tmp_path.glob("killed/*/checkpoint-3.pt")):
        assert begun.poll() is None and time.monotonic() < limit
        time.sleep(0.2)
    os.kill(workers(begun.pid)[1], signal.SIGKILL)
    assert begun.wait(timeout=30) != 0
    [folder] = (tmp_path / "killed").iterdir()
    assert not (folder / "summary.json").exists()
    assert begin(tmp_path, "--resume", str(folder)).wait(timeout=300) == 0
    assert begin(tmp_path, *words, "--runs", "whole").wait(timeout=300) == 0
    [whole] = (tmp_path / "whole").iterdir()
    assert numbers(folder) == numbers(whole)
    with pytest.raises(ZooError, match="is a run of 2 processes; write `--processes 2`"):
        resume_run(folder)


WRONG = [
    [],
    ["gcn-cora", "--resume", "x"],
    ["--resume", "x", "--processes", "2"],
    ["--resume", "nowhere"],
]


@pytest.mark.parametrize("words", WRONG)
def test_the_command_answers_what_it_cannot_resume(words, command):
    code, _, said = command("train", *words)
    assert code == 2 and "Traceback" not in said


def series(folder):
    """Write a table of two stores; return what makes forecasts of it."""
    days = (f"2026-01-{day:02}" for day in range(1, 29))
    rows = "".join(f"{day},{name},{len(name)}\n" for day in days for name in ("a", "bb"))
    (folder / "my sales.csv").write_text(f"day,store,sold\n{rows}")
    return {"name": "my sales.csv", "time": "day", "id": "store", "target": "sold", "lags": 3}


def table(folder, **options):
    """Write a table of 20 nodes and its edges; return what reads them."""
    rows = "".join(
        f"{each},{each % 7},{'xy'[each % 3 == 0]},{'ab'[each % 2]}\n" for each in range(20)
    )
    (folder / "nodes.csv").write_text(f"who,age,city,label\n{rows}")
    edges = "".join(f"{each},{each - 1}\n" for each in range(1, 20))
    (folder / "edges.csv").write_text(f"source,target\n{edges}")
    return {"name": "nodes.csv", "id": "who", "one_hot": ["city"], "numbers": "standard", **options}


TRAIN_ON = {
    "a name": lambda folder: {"dataset": "karate"},
    "options, a split and several seeds": lambda folder: {
        "dataset": {"name": "sbm", "nodes": 60, "classes": 3, "split": "ratio-50-25-25"},
        "seeds": [3, 4],
    },
    "a table": lambda folder: {"dataset": table(folder, edges="edges.csv", split="stratified")},
    "edges of a file": lambda folder: {
        "dataset": table(folder),
        "graph": {"name": "file", "path": "edges.csv"},
    },
    "edges that are made": lambda folder: {
        "dataset": table(folder),
        "graph": {"name": "knn", "k": 2},
    },
    "a series": lambda folder: {
        "dataset": series(folder),
        "model": {"name": "gcn-gru", "dim": 4},
    },
    "code": lambda folder: {
        "dataset": "karate",
        "imports": [str(folder / "my code.py")],
    },
    "frozen weights": lambda folder: {
        "dataset": "karate",
        "start_from": {
            "weights": run_recipe({"dataset": "karate", **TINY}, runs=folder / "first")["folder"],
            "freeze": ["stem", "layers.0"],
            "lr_decay": 0.7,
        },
    },
}
"""What a run may be of, to a function that writes its files and returns its recipe."""

TINY = {"model": {"name": "gcn", "dim": 4}, "train": {"epochs": 2, "lr": 0.01}}


@pytest.mark.parametrize("of", TRAIN_ON)
def test_the_line_that_is_named_in_the_place_of_resuming_trains_on(of, command, tmp_path):
    (tmp_path / "my code.py").write_text("")
    own = {**TINY, **TRAIN_ON[of](tmp_path)}
    folder = Path(run_recipe(own, runs=tmp_path / "begun")["folder"]).relative_to(tmp_path)
    code, _, ended = command("train", "--resume", folder)
    assert code == 2 and f"{folder} is finished. `zoo finetune " in ended
    code, _, said = command("train", "--resume", folder, "train.lr=0.5", "train.epochs=3")
    assert code == 2 and "takes no KEY=VALUE. `zoo finetune " in said
    [line] = re.findall("`(zoo finetune .*?)`", said)
    assert ended.count(line.replace("train.lr=0.5 train.epochs=3", "train.epochs=2")) == 1
    code, _, said = command(*shlex.split(line)[1:], "--quiet")
    assert code == 0, said
    [after] = (tmp_path / "runs").iterdir()
    before, after = (load_recipe(each / "recipe.yaml", trust=True) for each in (folder, after))
    assert Path(after.start_from.weights).parent == folder.absolute()
    assert after.train == {**before.train, "lr": 0.5, "epochs": 3}
    same = ("dataset", "graph", "encoding", "imports")
    assert [key for key in same if getattr(after, key) != getattr(before, key)] == []
    told = {key: value for key, value in before.model.items() if value is not None}
    assert {**after.model, **told} == after.model
    assert after.seeds[0] in before.seeds and len(after.seeds) == 1
    freeze, rate = (own.get("start_from", {}).get(key) for key in ("freeze", "lr_decay"))
    assert after.start_from.freeze == (freeze or "none")
    assert after.start_from.lr_decay == (rate or 1.0)


def test_a_run_without_weights_is_ended_before_it_is_trained_on(command, tmp_path):
    folder = Path(run_recipe({"dataset": "karate", **TINY}, runs=tmp_path)["folder"])
    folder = folder.rename(tmp_path / "begun").relative_to(tmp_path)
    shutil.rmtree(folder / "seed-0")
    (folder / "summary.json").unlink()
    code, _, said = command("train", "gcn-cora", "--resume", folder, "train.lr=0.5")
    assert code == 2
    lines = re.findall("`zoo (.*?)`", said)
    assert lines == [
        "train --resume begun",
        "finetune begun --data karate train.lr=0.5",
        "train begun/recipe.yaml train.lr=0.5",
    ]
    assert [command(*shlex.split(line), "--quiet")[0] for line in lines] == [0, 0, 0]
    code, _, said = command("train", "--resume", "nowhere", "train.lr=0.5")
    assert code == 2 and said.startswith("zoo: there is no run at 'nowhere'")


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("ZOO_TEST_THREADS", 1)))
    killed(Path(sys.argv[1]), sys.argv[2], 4, 5)


@pytest.mark.parametrize("changed", ["sales.csv", "test.txt"])
def test_a_run_does_not_go_on_with_other_data_or_another_split(changed, tmp_path, monkeypatch):
    class Ended(Exception):
        pass

    def end(seed, epoch):
        if seed == 1:
            raise Ended

    path, other = tmp_path / "sales.csv", tmp_path / changed
    path.write_text("x,label\n" + "".join(f"{each},{'ab'[each % 2]}\n" for each in range(20)))
    files = {part: str(tmp_path / f"{part}.txt") for part in ("train", "val", "test")}
    for number, file in enumerate(files.values()):
        Path(file).write_text("".join(f"{each}\n" for each in range(6 * number, 6 * number + 6)))
    dataset = {"name": str(path), "split": {"name": "ids", **files}}
    own = {"dataset": dataset, "model": "mlp", "train": {"epochs": 2}, "seeds": [0, 1]}
    with pytest.raises(Ended):
        run_recipe(own, runs=tmp_path / "runs", watch=end)
    [folder] = (tmp_path / "runs").iterdir()
    before = other.read_text()
    other.write_text(before.replace("15,b", "15,a") if changed == "sales.csv" else before[3:])
    with pytest.raises(ZooError, match=f"{changed} is not as it was when this was begun"):
        resume_run(folder)
    monkeypatch.setattr("zoo.runs.run.check_same_files", lambda *_: {})
    if changed == "test.txt":
        with pytest.raises(ZooError, match="split of seed 0 is not the one that it was trained"):
            resume_run(folder)
    other.write_text(before)
    assert len(resume_run(folder)["seeds"]) == 2
