"""Translation from a recipe: a killed run goes on, processes divide it, several are compared."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from faults import at, kill
from preloaded import run_preloaded
from sentences import write_pairs

import zoo
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.runs.resolve import load_recipe
from zoo.runs.run import resume_run, run_recipe
from zoo.weights.save_and_load import read_weights


def recipe(data, **train):
    """All that moves between two epochs: masks, moments, and a rate that moves in an epoch."""
    return load_recipe(
        {
            "dataset": {"name": str(data), "vocabulary": 300},
            "model": {"name": "transformer-seq2seq", "dim": 16, "layers": 1, "dropout": 0.3},
            "train": {
                "epochs": 6,
                "lr": 0.01,
                "optimizer": {"name": "adamw", "beta2": 0.98},
                "schedule": {"name": "inverse-sqrt", "warmup": 2.5},
                "batching": {"name": "tokens", "size": 300},
                "label_smoothing": 0.1,
                **train,
            },
            "seeds": [3, 4],
        }
    )


def numbers(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    own = [{key: each[key] for key in ("seed", "epoch", "loss", "train", "val", "lr")}
           for each in lines]  # fmt: skip
    summary = json.loads((folder / "summary.json").read_text())
    return own, {key: summary[key] for key in ("val", "test", "parameters", "interrupted")}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("data") / "numbers-en-de", 60, 10)


OPTIONS = {"adamw": {}, "lamb": {"optimizer": "lamb", "precision": "bf16"}}


@pytest.mark.slow
@pytest.mark.parametrize("words", OPTIONS)
def test_a_killed_run_ends_with_the_numbers_of_an_unbroken_one(words, data, tmp_path):
    left = run_preloaded([__file__, words, str(data), str(tmp_path / "killed")], Path.cwd())
    assert left.returncode == -signal.SIGKILL
    [folder] = (tmp_path / "killed").iterdir()
    assert (folder / "checkpoint-4.pt").exists() and not (folder / "summary.json").exists()
    whole = Path(run_recipe(recipe(data, **OPTIONS[words]), runs=tmp_path / "whole")["folder"])
    resume_run(folder)
    assert numbers(folder) == numbers(whole)
    rates = [each["lr"] for each in numbers(whole)[0][:6]]
    assert rates == pytest.approx([0.004, 0.008, *(0.01 * (2.5 / n) ** 0.5 for n in (3, 4, 5, 6))])
    for seed in (3, 4):
        one, other = (
            read_weights(each / f"seed-{seed}" / "model.safetensors") for each in (folder, whole)
        )
        assert all(torch.equal(one[key], other[key]) for key in one)
        texts = [
            (each / f"seed-{seed}" / "tokenizer.json").read_bytes() for each in (folder, whole)
        ]
        assert texts[0] == texts[1]


def test_a_changed_tokenizer_is_refused_with_its_weights(data, tmp_path):
    folder = Path(run_recipe(recipe(data, epochs=1), runs=tmp_path)["folder"])
    path = folder / "seed-3" / "tokenizer.json"
    path.write_text(path.read_text() + " ")
    with pytest.raises(ZooError, match="tokenizer.json is not the file that"):
        zoo.load(folder / "seed-3")


def test_what_a_run_says(data, tmp_path):
    summary = run_recipe(recipe(data, epochs=1), runs=tmp_path)
    assert summary["metric"] == "bleu" and summary["dataset"] == "numbers-en-de"
    about = zoo.load(summary["folder"]).about
    assert (about.task, about.metric, about.features) == ("translation", "bleu", 300)
    assert about.recipe["dataset"]["name"] == "numbers-en-de"  # no path of this machine
    assert set(about.files) == {f"{part}.{each}.gz" for part in ("train", "val", "test")
                                for each in ("en", "de")}  # fmt: skip
    assert str(data.parent) not in (Path(summary["folder"]) / "seed-3" / "config.json").read_text()
    written = load_recipe(Path(summary["folder"]) / "recipe.yaml")
    assert written.dataset["split"] == "benchmark" and written.train["label_smoothing"] == 0.1


def test_runs_are_compared_without_baselines_for_graphs(data, tmp_path, command):
    folders = [run_recipe(recipe(data, epochs=1, lr=rate), runs=tmp_path / "runs")["folder"]
               for rate in (0.01, 0.001)]  # fmt: skip
    code, out, said = command("compare", *folders, "--json")
    assert code == 0, said
    found = json.loads(out)
    assert len(found) == 2 and all(each["read"] and each["same_splits"] for each in found)


WRONG = {
    "smoothing": ({"label_smoothing": 1.5}, "label_smoothing"),
    "warm-up": ({"schedule": {"name": "inverse-sqrt", "warmup": 0}}, "warmup"),
    "size": ({"batching": {"name": "tokens", "size": 3}}, "more than a batch of 3"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_numbers_are_refused_and_leave_nothing(what, data, tmp_path):
    options, words = WRONG[what]
    with pytest.raises(ZooError, match=words):
        run_recipe(recipe(data, **options), runs=tmp_path / "runs")
    assert not [*(tmp_path / "runs").glob("*")]


def test_labels_of_other_tasks_are_not_smoothed(tmp_path):
    numbers = {"dataset": {"name": "minesweeper"}, "model": "mlp"}
    own = {"dataset": {"name": "sbm", "nodes": 60}, "model": "mlp"}
    train = {"epochs": 1, "label_smoothing": 0.1}
    assert zoo.run_recipe({**own, "train": train}, runs=tmp_path / "runs")["test"]["mean"] >= 0
    try:
        zoo.load_data("minesweeper")
    except ZooError:
        pytest.skip("minesweeper is not in ZOO_DATA")
    with pytest.raises(ZooError, match="node-binary; leave `label_smoothing` out"):
        zoo.run_recipe({**numbers, "train": train}, runs=tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_two_processes_take_the_steps_of_both(data, tmp_path):
    """Both see half of the batches: as many steps, and the scores of all sentences."""
    path = tmp_path / "two.yaml"
    given = recipe(data, epochs=4, evaluate_every=2).plain()
    given["seeds"] = [3]
    path.write_text(json.dumps(given))
    call = [sys.executable, "-m", "zoo", "train", str(path), "--processes", "2", "--json"]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    folder = Path(tmp_path, summary["folder"])
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(each)["loss"] for each in lines]
    assert losses == sorted(losses, reverse=True)
    found = evaluate_part(zoo.load(folder), None, "test", folder=folder / "seed-3", beams=1)
    assert found["score"] == pytest.approx(summary["test"]["mean"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    words, data, runs = sys.argv[1:]
    run_recipe(recipe(data, **OPTIONS[words]), runs=Path(runs), watch=at(4, 3, kill),
               checkpoint=0.0)  # fmt: skip
