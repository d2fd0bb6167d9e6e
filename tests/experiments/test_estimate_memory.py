"""What is estimated of memory is near what a training holds; running out of it is answered."""

import json
import subprocess
import sys

import pytest

from zoo.cli.common import _too_large
from zoo.datasets.load import prepare_on_disk
from zoo.experiments.estimate_memory import estimate
from zoo.experiments.resolve import load_recipe, resolve
from zoo.system.memory import out_of_memory
from zoo.weights.create import list_models

LARGE = ["sgformer-sbm-rba", "dataset.nodes=40000", "train.epochs=3", "seeds=[0]"]
BATCHES = "train.batching={name: random-nodes, size: 8000}"


def run(tmp_path, *words, limit=None):
    call = [sys.executable, "-m", "zoo", *words]
    if limit:
        call = ["bash", "-c", f'ulimit -v {limit}; exec "$@"', "bash", *call]
    return subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)


def both(tmp_path, *words):
    """Return the estimated and the measured peak, in bytes."""
    said = json.loads(run(tmp_path, "estimate", *words, "--json").stdout)
    done = json.loads(run(tmp_path, "train", *words, "--json").stdout.splitlines()[-1])
    return said["peak"], done["peak_memory_bytes"]


@pytest.mark.slow
def test_a_step_in_batches_holds_less_than_one_of_the_whole_graph(tmp_path):
    whole = json.loads(run(tmp_path, "estimate", *LARGE, "--json").stdout)
    done = run(tmp_path, "estimate", *LARGE, BATCHES, "train.evaluate=batches", "--json")
    batches = json.loads(done.stdout)
    assert whole["nodes"] == whole["batch"] == 40_000 and batches["batch"] == 8_000
    assert batches["step"] < whole["step"] / 3 and batches["peak"] < whole["peak"]
    assert whole["peak_cuda"] < whole["peak"] and whole["parameters"] == batches["parameters"]


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["full", BATCHES], ids=["full", "random-nodes"])
@pytest.mark.parametrize("name", list_models(task="node-classification"))
def test_it_is_within_a_quarter_of_what_is_measured(name, batching, tmp_path):
    path = tmp_path / "large.yaml"
    path.write_text(
        f"dataset: {{name: sbm, nodes: 40000, degree: 10, dim: 32}}\nmodel: {name}\n"
        "train: {epochs: 4}\n"
    )
    words = [path.name] if batching == "full" else [path.name, batching, "train.evaluate=batches"]
    estimated, measured = both(tmp_path, *words)
    assert estimated == pytest.approx(measured, rel=0.25)


@pytest.mark.slow
def test_batches_of_different_sizes_are_estimated_too(tmp_path):
    batching = "train.batching={name: neighbours, fanouts: [10, 5], size: 300}"
    words = ("dataset.nodes=300000", "train.epochs=1", "seeds=[0]", "train.evaluate=batches")
    estimated, measured = both(tmp_path, "sgformer-sbm-rba", batching, *words)
    assert estimated == pytest.approx(measured, rel=0.25)


@pytest.mark.slow
def test_running_out_of_memory_is_answered_with_an_estimate(tmp_path):
    done = run(tmp_path, "train", *LARGE, "dataset.nodes=400000", "model.dim=128", limit=3_000_000)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "does not fit into memory" in done.stderr and "random-nodes" in done.stderr


def test_one_of_several_processes_does_not_ask_the_others(monkeypatch):
    monkeypatch.setattr("zoo.system.process_group.count", lambda: 2)
    monkeypatch.setattr(
        "zoo.experiments.estimate_memory.estimate", lambda _: pytest.fail("they are in a step")
    )
    assert "Take batches" in _too_large(resolve(load_recipe("gcn-cora")))


@pytest.mark.slow
def test_what_is_mapped_is_not_held_and_half_precision_is_not_halved(tmp_path, monkeypatch):
    drawn = {"name": "sbm", "nodes": 20_000, "dim": 200}
    prepare_on_disk(drawn, tmp_path / "half", half=True)
    prepare_on_disk(drawn, tmp_path / "full")
    small = {"name": "random-nodes", "size": 1_000}

    def data(name, **train):
        recipe = {"dataset": str(tmp_path / name), "model": "mlp", "train": train}
        return estimate(resolve(load_recipe(recipe)))

    whole = data("half").data
    assert whole == data("full").data > 4 * 20_000 * 200
    assert data("half", batching=small, evaluate="batches").data < whole / 3
    assert data("half", batching=small).data > whole  # evaluated as a whole
    monkeypatch.setattr("zoo.experiments.estimate_memory.available_memory", lambda: 2**20)
    assert estimate(resolve(load_recipe("gcn-digits"))).largest == 0


def test_other_errors_are_no_lack_of_memory():
    assert out_of_memory(MemoryError())
    assert out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"))
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
