"""Trackers: what their own libraries read back is what the run's folder says."""

import csv
import json
import os
import struct
import subprocess
import sys

import pytest
from faults import at, kill

from zoo.errors import ZooError
from zoo.runs.resolve import load_recipe
from zoo.runs.run import resume_run, run_recipe
from zoo.trackers import TRACKERS, Trackers

RECIPE = {
    "dataset": {"name": "sbm", "nodes": 60, "classes": 3, "dim": 5},
    "model": {"name": "mlp", "dim": 4},
    "train": {"epochs": 6},
    "seeds": [3, 4],
}
VARIABLES = ("WANDB_MODE", "WANDB_PROJECT", "MLFLOW_TRACKING_URI")


def lines_of(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def losses(folder):
    """The losses of each seed, as the run's folder has them."""
    lines = lines_of(folder)
    return {seed: [each["loss"] for each in lines if each["seed"] == seed] for seed in (3, 4)}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run without network that all trackers were told of, of a process of its own."""
    at_home = tmp_path_factory.mktemp("home")
    code = f"""
import os, socket
def refuse(*words):
    print(words, flush=True)
    os._exit(9)  # from whatever thread, and whatever else a library makes of an error
connect, look_up = socket.socket.connect, socket.getaddrinfo
socket.getaddrinfo = lambda host, *words, **more: (
    refuse(host) if "." in str(host) and host != "127.0.0.1" else look_up(host, *words, **more))
socket.socket.connect = lambda self, address: (
    connect(self, address) if isinstance(address, str) or address[0] in ("127.0.0.1", "localhost")
    else refuse(self, address))
from zoo.runs.run import run_recipe
from zoo.runs.resolve import load_recipe
run_recipe(load_recipe({RECIPE!r}), runs="runs", track={list(TRACKERS)!r})
"""
    env = {key: value for key, value in os.environ.items() if key not in VARIABLES}
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", "-c", code],
                          cwd=at_home, env=env, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert {each.name for each in at_home.iterdir()} == {"runs"}
    [folder] = (each for each in (at_home / "runs").iterdir() if (each / "summary.json").exists())
    return folder


def test_csv(run):
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, line in zip(rows, lines_of(run), strict=True):
        assert (int(row["seed"]), int(row["epoch"])) == (line["seed"], line["epoch"])
        assert float(row["loss"]) == line["loss"]
        assert float(row["memory_bytes"]) > 2**20
    with (run / "scores.csv").open() as file:
        scores = [float(row["test"]) for row in csv.DictReader(file)]
    assert scores == [
        each["test"] for each in json.loads((run / "summary.json").read_text())["seeds"]
    ]


def test_tensorboard(run):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for seed, expected in losses(run).items():
        events = EventAccumulator(str(run / "tensorboard" / f"seed-{seed}")).Reload()
        assert [each.value for each in events.Scalars("loss")] == pytest.approx(expected)
        [test] = events.Scalars("score/test")
        assert test.value == pytest.approx(json.loads(
            (run / f"seed-{seed}" / "result.json").read_text())["scores"]["test"])  # fmt: skip


def test_wandb(run):
    for seed, expected in losses(run).items():
        [path] = [
            each
            for each in (run.parent / "wandb").glob("offline-run-*/*.wandb")
            if f"{run.name}-seed-{seed}".encode() in each.read_bytes()
        ]
        found = [
            json.loads(item.value_json)
            for record in wandb_records(path)
            for item in record.history.item
            if item.key == "loss" or list(item.nested_key) == ["loss"]
        ]
        assert found == expected


def wandb_records(path):
    """The records of a file of wandb: LevelDB's log, blocks of 32 KiB, under its own header."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, at, parts = path.read_bytes(), 7, b""
    while at + 7 <= len(content):
        if 2**15 - at % 2**15 < 7:  # no header fits: the block ends in zeros
            at += 2**15 - at % 2**15
            continue
        length, kind = struct.unpack_from("<HB", content, at + 4)
        parts += content[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last of several parts
            record = Record()
            record.ParseFromString(parts)
            yield record
            parts = b""


def test_mlflow(run):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{run.parent}/mlflow.db")
    known = client.get_experiment_by_name("graph-transformer-zoo-mlp")
    found = {each.info.run_name: each for each in client.search_runs([known.experiment_id])}
    assert len(found) == 3
    parent = found[run.name]
    assert parent.data.tags["folder"] == str(run.resolve())
    for seed, expected in losses(run).items():
        own = found[f"{run.name}-seed-{seed}"]
        assert (own.info.status, own.data.params["model.dim"]) == ("FINISHED", "4")
        assert own.data.tags["mlflow.parentRunId"] == parent.info.run_id
        history = client.get_metric_history(own.info.run_id, "loss")
        assert [each.value for each in sorted(history, key=lambda each: each.step)] == expected


def test_a_run_that_was_killed_goes_on_in_the_same_table(tmp_path):
    pid = os.fork()
    if not pid:
        run_recipe(load_recipe(RECIPE), runs=tmp_path, watch=at(4, 2, kill), checkpoint=0.0,
                   track=["csv"])  # fmt: skip
    os.waitpid(pid, 0)
    [folder] = tmp_path.iterdir()
    resume_run(folder, track=["csv"])
    with (folder / "metrics.csv").open() as file:
        found = [(int(row["seed"]), int(row["epoch"])) for row in csv.DictReader(file)]
    assert found == [(seed, epoch) for seed in (3, 4) for epoch in range(6)]


def test_one_that_fails_is_told_once_and_left_out(tmp_path, monkeypatch):
    class Failing:
        def __init__(self, folder, recipe):
            pass

        def epoch(self, seed, told):
            raise OSError("the server is gone\nand more")

        def close(self):
            raise AssertionError

    monkeypatch.setitem(TRACKERS, "csv", Failing)
    said = []
    summary = run_recipe(load_recipe(RECIPE), runs=tmp_path, track=["csv"], tell=said.append)
    assert said == ["--track csv: the server is gone. The run goes on without it."]
    assert not summary["interrupted"]


def test_what_is_wrong_is_found_before_anything_is_written(tmp_path, monkeypatch):
    with pytest.raises(ZooError, match="did you mean 'tensorboard'"):
        run_recipe(load_recipe(RECIPE), runs=tmp_path, track=["tensorbord"])
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ZooError, match=r"--track wandb needs .*graph-transformer-zoo\[track\]"):
        run_recipe(load_recipe(RECIPE), runs=tmp_path, track=["wandb"])
    assert not [*tmp_path.iterdir()]
    Trackers((), tmp_path, {}, pytest.fail).close()
