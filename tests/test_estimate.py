"""What is estimated of memory is near what a training holds; running out of it is answered."""

import json
import subprocess
import sys

import pytest

from zoo.memory import out_of_memory
from zoo.registry import list_models

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


def test_a_step_in_batches_holds_less_than_one_of_the_whole_graph(tmp_path):
    whole = json.loads(run(tmp_path, "estimate", *LARGE, "--json").stdout)
    done = run(tmp_path, "estimate", *LARGE, BATCHES, "train.evaluate=batches", "--json")
    batches = json.loads(done.stdout)
    assert whole["nodes"] == whole["batch"] == 40_000 and batches["batch"] == 8_000
    assert batches["step"] < whole["step"] / 3 and batches["peak"] < whole["peak"]
    assert whole["peak_cuda"] < whole["peak"] and whole["parameters"] == batches["parameters"]


@pytest.mark.slow
@pytest.mark.parametrize("batching", ["full", BATCHES], ids=["full", "random-nodes"])
@pytest.mark.parametrize("name", list_models())
def test_it_is_within_a_quarter_of_what_is_measured(name, batching, tmp_path):
    path = tmp_path / "large.yaml"
    path.write_text(
        f"dataset: {{name: sbm, nodes: 40000, degree: 10, dim: 32}}\nmodel: {name}\n"
        "train: {epochs: 4}\n"
    )
    words = [path.name] if batching == "full" else [path.name, batching, "train.evaluate=batches"]
    estimated, measured = both(tmp_path, *words)
    assert estimated == pytest.approx(measured, rel=0.25)


def test_running_out_of_memory_is_answered_with_an_estimate(tmp_path):
    done = run(tmp_path, "train", *LARGE, "model.dim=1024", limit=6_000_000)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "does not fit into memory" in done.stderr and "random-nodes" in done.stderr


def test_other_errors_are_no_lack_of_memory():
    assert out_of_memory(MemoryError())
    assert out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"))
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
