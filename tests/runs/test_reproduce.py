"""Every recipe with a number to reach: trained, read again, gone on with, or told why it is not."""

import json
import math
import subprocess

import pytest

from zoo.cli import result_tables
from zoo.config.recipe import Verified
from zoo.dgl import HAS_DGL
from zoo.errors import ZooError
from zoo.runs import earlier_runs, reproduce
from zoo.runs.reproduce import reproduce_all, write_verified
from zoo.runs.resolve import load_recipe, resolve

pytestmark = pytest.mark.usefixtures("preloaded_processes")

QUICK = """# A first sentence.
dataset: {{name: sbm, nodes: 60, classes: 2, dim: 4}}
model: {{name: gcn, dim: 4}}
train: {{epochs: {epochs}, patience: 3}}  # a remark
seeds: [0, 1]
expect:
  test: {test}
  within: 0.015  # as it is
  source: "a test, whose words
    go on"
"""


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """Write recipes in the place of the shipped ones."""

    def ship(**texts):
        for name, text in texts.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        paths = {name: tmp_path / f"{name}.yaml" for name in texts}
        monkeypatch.setattr(reproduce, "recipe_names", lambda: list(paths))
        monkeypatch.setattr(
            reproduce, "load_recipe", lambda source, *rest: load_recipe(
                paths.get(source, source) if isinstance(source, str) else source, *rest)
        )  # fmt: skip
        return paths

    return ship


def test_each_recipe_comes_to_a_row_and_is_not_trained_twice(shipped, tmp_path, monkeypatch):
    paths = shipped(
        good=QUICK.format(epochs=6, test=0.0),
        long=QUICK.format(epochs=10**9, test=0.5),
        away=QUICK.format(epochs=6, test=0.5).replace(
            "{name: sbm, nodes: 60, classes: 2, dim: 4}", "roman-empire"
        ),
        bare="dataset: karate\nmodel: mlp\ntrain: {epochs: 2}\n",
    )
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "nothing"))
    given = {"hours": 1.0, "runs": tmp_path / "runs", "write": True}
    rows = {row["recipe"]: row for row in reproduce_all(**given)}
    states = {name: row["state"] for name, row in rows.items()}
    assert states == {"good": "PASS", "long": "too long", "away": "no data", "bare": "done"}
    assert rows["long"]["hours"] > 1 and "ZOO_OFFLINE" in rows["away"]["sentence"]
    assert json.loads(json.dumps(rows)) == rows
    recipe = load_recipe(paths["good"])
    found = recipe.verified
    assert found.test == pytest.approx(rows["good"]["test"], abs=1e-4) and found.seeds == [0, 1]
    assert found.sha256 == recipe.sha256 and set(found.versions) == {"torch", *["dgl"][:HAS_DGL]}
    monkeypatch.setattr(reproduce, "train_apart", None)  # nothing is trained again
    assert [row["state"] for row in reproduce_all(**given, only="g*")] == ["PASS"]
    recorded = resolve(load_recipe(paths["good"], ["train.capture=true"]))  # to the same numbers
    assert earlier_runs.find_finished(recorded, given["runs"])


def test_a_pattern_that_matches_nothing_is_told_with_near_names(shipped):
    shipped(good=QUICK.format(epochs=6, test=0.5), bare="dataset: karate\nmodel: mlp\n")
    for rows in (lambda only: [*reproduce_all(hours=1.0, only=only)], reproduce.expectations):
        with pytest.raises(ZooError, match="no recipe matches 'goud\\*'; did you mean 'good'?"):
            rows("goud*")
    assert [row["name"] for row in reproduce.expectations("*")] == ["good"]
    with pytest.raises(ZooError, match="no recipe that matches 'b\\*' has a number to reach"):
        reproduce.expectations("b*")


def test_a_run_that_was_ended_goes_on(shipped, tmp_path, monkeypatch):
    paths = shipped(one=QUICK.format(epochs=6, test=1.0))
    (row,) = reproduce_all(hours=math.inf, runs=tmp_path / "runs")
    assert row["state"] == "FAIL"
    (folder,) = (tmp_path / "runs").iterdir()
    (folder / "summary.json").unlink()  # as if it had been killed between two seeds
    (folder / "seed-1" / "result.json").unlink()
    monkeypatch.setattr(reproduce, "train_apart", None)
    told = []
    (again,) = reproduce_all(hours=math.inf, runs=tmp_path / "runs", tell=told.append)
    assert told == [f"one: goes on in {folder}"] and again == {**row, "seconds": again["seconds"]}
    assert load_recipe(paths["one"]).verified is None  # it was not asked for


@pytest.mark.parametrize(("gpu", "hours"), [(None, 2.0), ("NVIDIA H200", 0.5)])
def test_a_cpu_takes_as_long_as_was_measured_on_one(shipped, monkeypatch, gpu, hours):
    paths = shipped(one=QUICK.format(epochs=1800, test=0.5))
    recipe = load_recipe(paths["one"])
    found = Verified(test=0.5, std=0.1, seeds=[0, 1], date="2026-01-02", seconds=7200, gpu=gpu,
                     sha256=recipe.sha256)  # fmt: skip
    write_verified(recipe, found)
    pace = {"seconds_per_epoch": 0.5, "parameters": 1}
    monkeypatch.setattr(reproduce, "train_apart", lambda *_, **__: pace)
    (row,) = reproduce_all(hours=0.1, device="cpu")
    assert row["state"] == "too long" and row["hours"] == pytest.approx(hours)


def test_an_error_of_one_leaves_the_others_alone(shipped, tmp_path, monkeypatch):
    shipped(one=QUICK.format(epochs=6, test=0.0), two=QUICK.format(epochs=6, test=0.0))

    def fail(plan, *_, **__):
        raise ZooError(f"{plan.recipe.name} was killed")

    monkeypatch.setattr(reproduce, "train_apart", fail)
    rows = list(reproduce_all(hours=math.inf, runs=tmp_path / "runs"))
    assert [(row["state"], row["sentence"]) for row in rows] == [
        ("error", "one was killed"), ("error", "two was killed")]  # fmt: skip


def test_what_was_measured_is_written_where_it_belongs(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(QUICK.format(epochs=6, test=0.5) + "# the end\n")
    found = Verified(test=0.5, std=0.1, seeds=[*range(10)], date="2026-01-02", threads=2,
                     seconds=12, versions={"torch": "2.13.0"}, sha256="0" * 16)  # fmt: skip
    before = path.read_text()
    write_verified(load_recipe(path), found)
    assert load_recipe(path).verified == found
    added = [line for line in path.read_text().splitlines() if line not in before.splitlines()]
    assert max(map(len, added)) <= 100
    kept = [line for line in path.read_text().splitlines() if line not in added]
    assert kept == before.splitlines()
    for seconds in (13, None):  # in the place of the one before
        found = found.model_copy(update={"seconds": seconds})
        write_verified(load_recipe(path), found)
        assert load_recipe(path).verified == found
    assert path.read_text().count("verified:") == 1


@pytest.mark.parametrize(
    "end",
    [
        "verified: {test: 0.1, std: 0.1, seeds: [0], date: 2026-01-02, sha256: '0123456789abcdef'}",
        "verified:\n  test: 0.1\n\n  # of one seed\n  std: 0.1\n  seeds: [0]\n"
        "  date: 2026-01-02\n  sha256: '0123456789abcdef'\n\n# the end",
    ],
)
def test_a_measurement_of_any_form_is_replaced(end, tmp_path):
    path, found = (
        tmp_path / "one.yaml",
        Verified(test=0.5, std=0.1, seeds=[0], date="2026-01-02", sha256="0" * 16),
    )
    path.write_text(QUICK.format(epochs=6, test=0.5) + end)
    write_verified(load_recipe(path), found)
    assert load_recipe(path).verified == found
    assert ("# the end" in path.read_text()) == ("# the end" in end)
    assert path.read_text().count("verified") == 1


def test_a_recipe_in_one_line_is_left_as_it_is(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text("{dataset: karate, model: gcn}\n")
    found = Verified(test=0.5, std=0.1, seeds=[0], date="2026-01-02", sha256="0" * 16)
    with pytest.raises(ZooError, match="a line cannot be added to"):
        write_verified(load_recipe(path), found)
    assert path.read_text() == "{dataset: karate, model: gcn}\n"


def test_threads_are_those_of_the_measurement_and_an_error_is_no_success(
    shipped, tmp_path, monkeypatch, command
):
    verified = (
        "verified: {test: 0.1, std: 0.1, seeds: [0], date: 2026-01-02, threads: 3, "
        "sha256: '0123456789abcdef'}\n"
    )
    shipped(one=QUICK.format(epochs=6, test=0.0) + verified)
    asked = []

    def fail(command, environment):
        asked.append(environment["OMP_NUM_THREADS"])
        return subprocess.CompletedProcess(command, 2, "")

    monkeypatch.setattr(earlier_runs, "_run", fail)
    code, out, _ = command("reproduce", "--all", "--json", "--within-hours", "inf")
    assert code == 1 and json.loads(out)["state"] == "error" and asked == ["3"]


def test_the_checksum_is_that_of_what_is_trained(tmp_path):
    path = tmp_path / "one.yaml"
    path.write_text(QUICK.format(epochs=6, test=0.5))
    recipe = load_recipe(path)
    path.write_text(QUICK.format(epochs=6, test=0.7) + 'differs: ["It is another."]\n')
    assert load_recipe(path).sha256 == recipe.sha256
    path.write_text(QUICK.format(epochs=7, test=0.5))
    assert load_recipe(path).sha256 != recipe.sha256


@pytest.mark.parametrize(
    ("row", "line"),
    [
        ({"state": "PASS", "expected": 0.5, "test": 0.6, "std": 0.01, "seconds": 1200},
         "PASS     one: 0.6000 ± 0.0100, expected 0.5000, 1,200 s"),
        ({"state": "done", "expected": None, "test": 0.6, "std": None, "seconds": 3},
         "done     one: 0.6000, 3 s"),
        ({"state": "too long", "expected": 0.5, "hours": 7.72}, "too long one: takes 7.7 hours"),
        ({"state": "no data", "expected": None, "sentence": "x"},
         "no data  one: its data is not here"),
        ({"state": "error", "expected": 0.5, "sentence": "one failed"}, "error    one: one failed"),
    ],
)  # fmt: skip
def test_a_row_is_a_line(row, line, capsys):
    result_tables.reproduction({"recipe": "one", **row})
    assert capsys.readouterr().out == f"{line}\n"
    result_tables.reproduction({"recipe": "one", **row, "differs": ["Wider.", "Longer."]})
    said = "         differs: Wider.\n         differs: Longer.\n"
    assert capsys.readouterr().out == f"{line}\n{said}"
