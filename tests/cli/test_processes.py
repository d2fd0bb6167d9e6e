"""`zoo train --processes 2`: the numbers of one process, and the same bits after a kill."""

import json
import os
import signal
from pathlib import Path

import pytest

from zoo.errors import ZooError
from zoo.runs.resolve import load_recipe
from zoo.runs.run import resume_run, run_recipe
from zoo.system import process_group
from zoo.system.launcher import launch
from zoo.system.process_group import RENDEZVOUS

RECIPE = """
dataset: {name: sbm, nodes: 600, classes: 3, degree: 10, dim: 8}
model: {name: sgformer, dim: 16, graph_dropout: 0.5, attention: {name: rba, size: 64}}
train: {epochs: 6, evaluate: batches}
seeds: [3]
"""


def batching(more):
    """Three batches of training nodes in an epoch: in its second step a process has none."""
    return f"train.batching={{name: neighbours, fanouts: [5, 3], size: 100, {more}}}"


SHARDED = [batching("features: sharded")]


@pytest.fixture
def trained(command, tmp_path, monkeypatch):
    """Give what trains in this place, and returns the lines of its metrics and its weights."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (tmp_path / "two.yaml").write_text(RECIPE)

    def train(runs, *words):
        code, _, said = command("train", "two.yaml", "--runs", runs, "--quiet", *words)
        assert code == 0, said
        return kept(tmp_path / runs)

    return train


@pytest.mark.slow
def kept(runs):
    """Return the lines of metrics of the run in a folder, without times, and its weights' bytes."""
    [folder] = Path(runs).iterdir()
    lines = [json.loads(each) for each in (folder / "metrics.jsonl").read_text().splitlines()]
    times = ("seconds", "crc32")
    rows = [{key: value for key, value in each.items() if key not in times} for each in lines]
    return rows, (folder / "seed-3" / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_features_in_shares_change_no_bit_and_two_processes_no_number(trained):
    whole, sharded = (
        trained(each, batching(f"features: {each}"), "--processes", "2")
        for each in ("whole", "sharded")
    )
    assert whole == sharded and len(whole[0]) == 6
    alone, _ = trained("alone", batching("per_step: 2"))
    for one, other in zip(whole[0], alone, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    assert whole[0][-1]["loss"] < whole[0][0]["loss"]


@pytest.mark.parametrize(
    ("own", "times"), [({}, 1), ({"RANK": "1"}, 0), ({"RANK": "0", RENDEZVOUS: "here"}, 0)]
)
def test_what_is_said_of_other_data_is_said_once(own, times, command, monkeypatch):
    monkeypatch.setattr("zoo.cli.train.train_plan", lambda *given, **how: None)
    monkeypatch.setattr("zoo.cli.train.print_summary", lambda *given: None)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    code, _, said = command("train", "sgformer-sbm-rba", "dataset={name: sbm, nodes: 60}")
    assert code == 0 and said.count("was tuned for sbm") == times, said


def train_or_die(runs, dies):
    """Train in each process; the one that is named kills itself after the first checkpoint."""

    def watch(seed, epoch):
        if process_group.rank() == dies and list(Path(runs).glob("*/checkpoint-3.pt")):
            os.kill(os.getpid(), signal.SIGKILL)

    run_recipe(load_recipe("two.yaml", SHARDED), runs=runs, watch=watch, checkpoint=0.0)


def go_on(folder):
    resume_run(folder)


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_a_run_with_features_in_shares_goes_on_after_a_kill(dies, trained, tmp_path):
    with pytest.raises(ZooError, match=f"process {dies} was ended.*goes on from the last check"):
        launch(2, train_or_die, "killed", dies)
    [folder] = (tmp_path / "killed").iterdir()
    assert not (folder / "summary.json").exists()
    assert launch(2, go_on, folder) == 0
    assert kept(tmp_path / "killed") == trained("whole", *SHARDED, "--processes", "2")
