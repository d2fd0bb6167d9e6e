"""What is estimated of memory is near what a training holds; running out of it is answered."""

import dataclasses
import json
import subprocess
import sys

import pytest
import torch

from zoo.cli.train import too_large
from zoo.config.options import pick
from zoo.data.load import prepare_on_disk
from zoo.errors import ZooError
from zoo.runs.estimate_memory import (
    _line_through,
    _load_data,
    _sizes,
    estimate,
    sample_graph,
)
from zoo.runs.resolve import load_recipe, resolve
from zoo.system.memory import out_of_memory
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData
from zoo.training.optimizers import still
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


@pytest.mark.parametrize("change", ["train.batching=tokens", "model=vit", "train.batching=samples"])
def test_what_is_not_trained_is_not_estimated(change):
    plan = resolve(load_recipe("gcn-cora", ["dataset=karate", change]))
    with pytest.raises(ZooError, match="not trained by|no model of the task"):
        estimate(plan)


def test_many_graphs_that_do_not_fit_are_told_to_take_fewer():
    said = too_large(resolve(load_recipe("gine-mutag")))
    assert "does not fit into memory. Write train.batching.size=16, or" in said


def test_one_of_several_processes_does_not_ask_the_others(monkeypatch):
    monkeypatch.setattr("zoo.system.process_group.count", lambda: 2)
    monkeypatch.setattr(
        "zoo.runs.estimate_memory.estimate", lambda _: pytest.fail("they are in a step")
    )
    assert "Take batches" in too_large(resolve(load_recipe("gcn-cora")))


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
    monkeypatch.setattr("zoo.runs.estimate_memory.available_memory", lambda: 2**20)
    assert estimate(resolve(load_recipe("gcn-digits"))).largest == 0


def test_other_errors_are_no_lack_of_memory():
    assert out_of_memory(MemoryError())
    assert out_of_memory(RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"))
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_graphs_grow_from_few_nodes_to_the_one_that_is_asked_for_or_to_a_limit():
    assert _sizes(34) == [8, 34] and _sizes(4) == [4]
    assert _sizes(700) == [64, 192, 384, 700]
    assert _sizes(10**6)[:3] == [64, 192, 384] and _sizes(10**6)[-1] == 16_384


def test_the_line_is_through_the_largest_graph_and_one_of_a_third_at_most():
    line = _line_through({64: 999, 192: 1_000, 384: 1_900, 768: 4_000})
    assert line.at(192) == 1_000 and line.at(768) == 4_000 and line.at(1_344) == 7_000
    assert _line_through({4: 100}).at(4) == 100
    assert line.less(500).at(768) == 3_500 and line.less(10**9).at(768) == 0


def test_a_part_of_a_small_graph_has_both_classes_where_one_is_rare():
    recipe = {"dataset": {"name": "sbm", "nodes": 2_000, "classes": 2}, "model": "mlp"}
    plan = resolve(load_recipe(recipe))
    data, split = _load_data(plan)
    y = torch.zeros(2_000, dtype=torch.long)
    y[split.val[5]] = y[split.train[7]] = y[split.test[9]] = 1
    on = TrainingData(dataclasses.replace(data, y=y), split, pick(TASKS, "node-binary"))
    like = sample_graph(on, 16, 5.0)
    for part in ("train", "val", "test"):
        assert set(like.data.y[getattr(like.split, part)].tolist()) == {0, 1}


def test_an_optimiser_that_is_still_leaves_weights_and_gradients():
    weight = torch.ones(3, requires_grad=True)
    optimiser = still([weight])
    (2 * weight).sum().backward()
    optimiser.step()
    optimiser.zero_grad(set_to_none=True)
    assert weight.tolist() == [1, 1, 1] and weight.grad.tolist() == [2, 2, 2]
