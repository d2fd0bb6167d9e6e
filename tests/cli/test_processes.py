"""`zoo train --processes 2`: the numbers of one process, and the same bits after a kill."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

RECIPE = """
dataset: {name: sbm, nodes: 600, classes: 3, degree: 10, dim: 8}
model: {name: sgformer, dim: 16, graph_dropout: 0.5, attention: {name: rba, size: 64}}
train: {epochs: 6, evaluate: batches}
seeds: [3]
"""


def batching(more):
    """Three batches of training nodes in an epoch: in its second step a process has none."""
    return f"train.batching={{name: neighbours, fanouts: [5, 3], size: 100, {more}}}"


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


def kept(runs):
    """Return the lines of metrics of the run in a folder, without times, and its weights' bytes."""
    [folder] = Path(runs).iterdir()
    lines = [json.loads(each) for each in (folder / "metrics.jsonl").read_text().splitlines()]
    times = ("seconds", "crc32")
    rows = [{key: value for key, value in each.items() if key not in times} for each in lines]
    return rows, (folder / "seed-3" / "model.safetensors").read_bytes()


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


@pytest.mark.slow
@pytest.mark.parametrize("dies", [0, 1])
def test_a_run_with_features_in_shares_goes_on_after_a_kill(dies, trained, tmp_path):
    words = [batching("features: sharded"), "train.epochs=150"]
    call = [sys.executable, "-W", "ignore", "-m", "zoo", "train"]
    begun = subprocess.Popen(
        [*call, "two.yaml", *words, "--runs", "killed", "--processes", "2", "--quiet"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    limit = time.monotonic() + 120
    while not list(tmp_path.glob("killed/*/checkpoint-3.pt")):
        assert begun.poll() is None and time.monotonic() < limit
        time.sleep(0.05)
    ranks = [each for each in psutil.Process(begun.pid).children(recursive=True)
             if "spawn_main" in " ".join(each.cmdline())]  # fmt: skip
    sorted(ranks, key=lambda each: each.pid)[dies].kill()
    _, said = begun.communicate(timeout=60)
    assert begun.returncode == 2 and said.count("zoo:") == 1 and "Traceback" not in said, said
    assert f"process {dies} was ended by SIGKILL" in said
    [folder] = (tmp_path / "killed").iterdir()
    assert f"zoo train --resume killed/{folder.name} --processes 2" in said
    again = [*call, "--resume", str(folder), "--processes", "2"]
    subprocess.run(again, cwd=tmp_path, check=True, capture_output=True)
    assert kept(tmp_path / "killed") == trained("whole", *words, "--processes", "2")
