"""Settings are chosen by validation; what was tried is kept, whatever ends the study."""

import json
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

import zoo
from zoo.cli.app import main
from zoo.cli.tune import print_study
from zoo.config.options import options_of, value_problems
from zoo.config.recipe import Search, recipe_text
from zoo.data.splits import split_of
from zoo.errors import ZooError
from zoo.registry import MODELS
from zoo.runs import tune
from zoo.runs.resolve import load_recipe, resolve
from zoo.runs.tune import Tuning, recipes_to_tune, search_of, start_of, with_settings
from zoo.weights.create import list_models

RECIPE = {
    "dataset": {"name": "sbm", "nodes": 120, "split": "ratio-60-20-20"},
    "model": {"name": "gcn", "dim": 8},
    "train": {"epochs": 4, "lr": 0.01},
    "search": {"model.dim": [4, 8], "model.norm": ["none", "batch"]},
}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    found = Tuning(tmp_path_factory.mktemp("study"), load_recipe(RECIPE), splits=2, device="cpu")
    found.run(4)
    return found


def test_the_first_trial_is_the_recipe_as_it_is(study):
    first = study.trials()[0]
    assert first.settings["train.lr"] == 0.01 and first.settings["model.dim"] == 8
    assert first.state == "complete" and first.splits == 2 and first.std is not None
    assert study.best().val == max(each.val for each in study.trials() if each.state == "complete")


def test_the_first_trial_has_what_is_outside_of_the_search(tmp_path, monkeypatch):
    """It was drawn from the search instead, so that nothing told what the recipe itself reaches."""
    recipe = {**RECIPE, "search": {"model.dim": [4, 16], "train.lr": {"low": 0.02, "high": 0.1}}}
    found, tried, whole = Tuning(tmp_path, load_recipe(recipe), splits=1), [], tune.fit

    def seen(model, *rest, lr, **options):
        tried.append((model.head.in_features, lr))
        return whole(model, *rest, lr=lr, **options)

    monkeypatch.setattr(tune, "fit", seen)
    found.run(3)
    outside = {"model.dim": 8, "train.lr": 0.01}
    assert {key: found.outside[key] for key in outside} == outside
    assert tried[0] == (8, 0.01) and all(dim != 8 and lr >= 0.02 for dim, lr in tried[1:])
    assert found.trials()[0].settings.items() >= outside.items()
    assert found.as_it_was() == found.trials()[0]


def test_ctrl_c_loses_one_trial_whose_settings_are_tried_again(tmp_path, monkeypatch):
    found = Tuning(tmp_path, load_recipe(RECIPE), splits=2, device="cpu")
    whole = tune.fit

    def stopped(*rest, **options):
        return whole(*rest, **options)._replace(interrupted=True)

    monkeypatch.setattr(tune, "fit", stopped)
    with pytest.raises(KeyboardInterrupt):
        found.run(3)
    assert [each.state for each in found.trials()] == ["failed"] and found.best() is None
    monkeypatch.setattr(tune, "fit", whole)
    again = Tuning(tmp_path, device="cpu")
    again.run(3)
    first, second, third = again.trials()
    assert second.settings == first.settings and second.state == "complete"
    assert third.settings != first.settings
    summary = again.score()
    assert again.score()["folder"] == summary["folder"]  # test is scored once
    monkeypatch.setattr(tune, "run_recipe", lambda *_, **__: {**summary, "interrupted": True})
    monkeypatch.setattr(tune, "find_finished", lambda *rest: None)
    with pytest.raises(KeyboardInterrupt):
        again.score()


def test_a_scoring_that_was_ended_goes_on(tmp_path):
    found = Tuning(tmp_path, load_recipe(RECIPE), splits=3, device="cpu")
    found.run(1)

    def watch(seed, epoch):
        if seed == 1 and epoch.epoch == 1:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        found.score(watch=watch)
    [run] = tmp_path.glob("gcn-tuned-*")
    seeds = []
    summary = Tuning(tmp_path, device="cpu").score(watch=lambda seed, epoch: seeds.append(seed))
    assert summary["folder"] == str(run) and {*seeds} == {1, 2}
    assert [each["epochs"] for each in summary["seeds"]] == [4, 4, 4]
    assert summary["scored_before"] == [] and len(list(tmp_path.glob("gcn-tuned-*"))) == 1


def test_another_best_is_another_scoring_and_is_said(tmp_path, monkeypatch, capsys):
    found = Tuning(tmp_path, load_recipe(RECIPE), splits=1, device="cpu")
    found.run(1)
    monkeypatch.setattr(found, "write", list)  # no picture: it takes a while
    first = found.score()
    assert first["scored_before"] == []
    print_study(found, first)
    assert "scored once" in capsys.readouterr().out
    other = found.best()._replace(number=1, settings={**found.best().settings, "model.dim": 4})
    monkeypatch.setattr(found, "best", lambda: other)
    second = found.score()
    assert second["scored_before"] == [first["test"]["mean"]]
    assert found.score()["scored_before"] == second["scored_before"]  # that was read
    print_study(found, second)
    said = f"scored for the second time; before: {first['test']['mean']:.4f}"
    assert said in " ".join(capsys.readouterr().out.split())


def test_as_many_trials_as_were_asked_for_before(tmp_path, monkeypatch):
    found = Tuning(tmp_path, load_recipe(RECIPE), splits=1, device="cpu")
    assert found.study.user_attrs.get("trials") is None
    found.run(1, hours=2.0)
    again = Tuning(tmp_path, device="cpu")
    monkeypatch.setattr(again, "_value", lambda trial: pytest.fail("one more"))
    again.run()
    assert again.study.user_attrs["trials"] == 1 and again.study.user_attrs["hours"] == 2.0
    with pytest.raises(pytest.fail.Exception, match="one more"):
        again.run(2)
    again.run(hours=0.0)
    assert again.study.user_attrs["trials"] == 2 and again.study.user_attrs["hours"] == 0.0


def test_every_setting_is_one_of_the_training(tmp_path):
    recipe = {
        **RECIPE,
        "encoding": {"name": "laplacian", "k": 2},
        "train": {"epochs": 1, "weight_decay": 0.0},
        "search": {
            "train.weight_decay": [0, 0.01],
            "encoding.flip_signs": [False, True],
        },
    }
    found = Tuning(tmp_path, load_recipe(recipe), splits=1, device="cpu")
    assert found.start["train.weight_decay"] == "0"
    sizes, flips = set(), set()
    for split in ("ratio-50-25-25", "ratio-80-10-10"):
        for flip in (False, True):
            settings = {"dataset.split": split, "encoding.flip_signs": flip}
            prepared = found._prepared(settings)
            sizes.add((split, len(prepared.splits[0].train)))
            flips.add((flip, getattr(prepared.augment, "func", prepared.augment).__name__))
    assert sizes == {("ratio-50-25-25", 60), ("ratio-80-10-10", 96)}
    assert flips == {(False, "identity"), (True, "flip_signs")}


def test_a_study_does_not_go_on_with_other_data(tmp_path):
    path = tmp_path / "sales.csv"
    path.write_text("x,label\n" + "".join(f"{each},{'ab'[each % 2]}\n" for each in range(20)))
    recipe = {"dataset": str(path), "model": {"name": "mlp", "dim": 4}, "train": {"epochs": 1}}
    (tmp_path / "study").mkdir()
    Tuning(tmp_path / "study", load_recipe(recipe), splits=1, device="cpu").run(1)
    assert len(Tuning(tmp_path / "study", device="cpu").trials()) == 1
    path.write_text(path.read_text().replace("1,b", "1,a"))
    with pytest.raises(ZooError, match="sales.csv is not as it was when this was begun"):
        Tuning(tmp_path / "study", device="cpu")


def test_a_block_of_the_recipe_says_what_is_tried(study):
    space = search_of(load_recipe(RECIPE))
    assert space["model.dim"] == [4, 8] and "model.layers" in space and "train.lr" in space
    for each in study.trials():
        assert each.settings["model.dim"] in (4, 8) and 1 <= each.settings["model.layers"] <= 5
        assert float(f"{each.settings['train.lr']:.4g}") == each.settings["train.lr"]


def test_what_a_recipe_begins_with_is_tried_too():
    recipe = {**RECIPE, "train": {"lr": 0.1, "weight_decay": 0.0}, "search": {}}
    space = search_of(load_recipe(recipe))
    assert space["model.dim"] == [64, 128, 256, 8] and space["train.lr"].high == 0.1
    assert space["train.weight_decay"].low > 0  # ratios to 0 say nothing
    asked = search_of(load_recipe({**RECIPE, "search": {"model.dim": [64, 128]}}))
    assert asked["model.dim"] == [64, 128]  # who writes what to try gets no more
    written = {"model": {"dim": 8}, "train": {"lr": 0.1, "weight_decay": 0.0}}
    assert start_of({"model.dim": [64, 128]}, written) == {}
    assert start_of({"model.dim": space["model.dim"]}, written) == {"model.dim": "8"}


def test_what_is_written_can_be_trained_and_says_where_it_is_from(study):
    summary = study.score()
    recipe = load_recipe(study.folder / "best.yaml")
    best = study.best()
    assert recipe.model["dim"] == best.settings["model.dim"] and recipe.seeds == [0, 1]
    assert not recipe.search and f"trial {best.number}." in (study.folder / "best.yaml").read_text()
    scores = [each["val"] for each in summary["seeds"]]
    assert sum(scores) / 2 == pytest.approx(best.val)  # the very training of the trial
    written = {path.name for path in study.write()}
    assert written == {"best.yaml", "trials-table.csv", "trials.png"}


def test_no_test_score_is_kept(study):
    database = sqlite3.connect(study.folder / "trials.db")
    kept = {key for (key,) in database.execute("select key from trial_user_attributes")}
    assert kept == {"val", "seconds", "begun", "as_it_was"}


def test_a_study_goes_on_where_it_was(study):
    before = study.trials()
    study.study.ask()  # a trial whose process was killed
    again = Tuning(study.folder, device="cpu")
    told = []
    again.run(len(before) + 1, tell=lambda trial, best: told.append(trial))
    assert again.trials()[:-1] == before and len(told) == 1
    again.run(len(before))  # there is nothing left to try
    assert len(again.trials()) == len(before) + 1
    with pytest.raises(ZooError, match="write `--resume"):
        Tuning(study.folder, load_recipe(RECIPE))


def test_settings_that_cannot_be_trained_are_left_behind(tmp_path):
    broken = {**RECIPE, "search": {"train.lr": [0.01, 1e30], "model.norm": ["none", "batch"]}}
    found = Tuning(tmp_path / "some", load_recipe(broken), splits=1, device="cpu")
    found.study.enqueue_trial({"train.lr": "1e+30"})
    found.run(3)
    assert "failed" in {each.state for each in found.trials()} and found.best().val is not None
    never = {**RECIPE, "train": {"epochs": 4, "lr": 1e30}, "search": {"train.lr": [1e30, 5e29]}}
    with pytest.raises(ZooError, match="smaller train.lr"):
        Tuning(tmp_path / "none", load_recipe(never), splits=1, device="cpu").run(9)


def test_settings_that_do_not_go_together_cost_no_trial(tmp_path):
    sgformer = {"name": "sgformer", "dim": 4, "graph_branch": "residual", "use_init": True}
    search = {"model.graph_branch": ["stack", "residual"]}
    recipe = load_recipe({**RECIPE, "model": sgformer, "search": search})
    found = Tuning(tmp_path / "study", recipe, splits=1, device="cpu")
    for branch in ("stack", "stack", "residual"):  # the sampler might draw none that fits
        found.study.enqueue_trial({"model.graph_branch": f'"{branch}"'})
    found.run(2)
    states = [each.state for each in found.trials()]
    assert states.count("refused") == 2 and len(states) - states.count("refused") == 2
    assert all(each.splits == 0 for each in found.trials() if each.state == "refused")


def test_what_is_worse_on_the_first_splits_is_given_up(tmp_path, monkeypatch):
    found = Tuning(tmp_path / "study", load_recipe(RECIPE), splits=8, device="cpu")
    scores = iter([0.9] * 8 + [0.1] * 8)
    monkeypatch.setattr(
        tune, "fit", lambda *_, **__: SimpleNamespace(val=next(scores), interrupted=False)
    )
    found.run(2)
    first, second = found.trials()
    assert first.state == "complete" and second.state == "pruned" and second.splits < 8


def test_data_is_read_once_unless_settings_change_it(study, monkeypatch):
    monkeypatch.setattr(tune, "prepare", lambda plan: pytest.fail("read again"))
    study._prepared({"train.lr": 0.5, "model.dim": 4})
    with pytest.raises(pytest.fail.Exception, match="read again"):
        study._prepared({"dataset.nodes": 100})
    assert split_of(study.prepared.data, "ratio-60-20-20", 0).sha256 == (
        study.prepared.splits[0].sha256
    )


@pytest.mark.parametrize("name", [each for each in list_models() if MODELS[each].search])
def test_every_model_can_be_made_of_what_it_says_is_worth_trying(name):
    model, known = MODELS[name], options_of(MODELS[name])
    own = {key: each for key, each in model.search.items() if key in known}
    assert "dim" in own
    assert not value_problems(Search, {f"model.{key}": each for key, each in own.items()}, ())
    base = {"dataset": "karate", "model": name}
    ends = [
        [each["low"], each["high"]] if isinstance(each, dict) else each for each in own.values()
    ]
    for at in range(max(map(len, ends))):
        tried = {f"model.{key}": each[at % len(each)] for key, each in zip(own, ends, strict=True)}
        load_recipe(with_settings(base, tried))


@pytest.mark.parametrize(
    ("search", "said"),
    [
        ({"model.dim": [8]}, "search.model.dim"),
        ({"model.nosuch": [1, 2]}, "nosuch"),
        ({"seeds": [1, 2]}, "search"),
        ({"train.lr": {"low": 1, "high": 0.1}}, "less than `high`"),
        ({"train.lr": {"low": 0, "high": 0.1, "log": True}}, "above 0"),
        ({"train.lr": 0.1}, r"search.train.lr: write a list, \[16, 32\]"),
        ({"train.lr": {"low": 0.1}}, "search.train.lr.high: is missing"),
        ({"train.lr": {"range": 1}}, "has no key 'range'"),
        ({"train.lr": {"low": 0.1, "hgih": 1}}, "has no key 'hgih'; did you mean 'high'"),
        ({"lr": [0.1, 0.2]}, "search.lr: write a key of model, .* such as train.lr"),
        ({"dataset.split": ["ratio-60-20-20", "per-class-20"]}, "one dataset.split and of another"),
        ({"dataset.split.train": [20, 50]}, "one dataset.split.train and of another"),
        ({"dataset.name": ["karate", "digits"]}, "one dataset.name and of another"),
        ({"dataset.label": ["a", "b"]}, "one dataset.label and of another"),
        ({"dataset.noise": [1.0, 2.0]}, "search.dataset.noise: its values draw other nodes"),
    ],
)
def test_what_cannot_be_tried_is_said(search, said, tmp_path):
    with pytest.raises(ZooError, match=said):
        Tuning(tmp_path / "study", load_recipe({**RECIPE, "search": search}))
    assert not (tmp_path / "study").exists()


def test_a_study_that_goes_on_says_which_code_it_runs(tmp_path, monkeypatch, capsys):
    (tmp_path / "own.py").write_text("")
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(json.dumps({**RECIPE, "imports": ["own.py"]}))
    Tuning(tmp_path / "study", load_recipe(recipe, trust=True), splits=1)
    code, said = ended(["tune", "--resume", str(tmp_path / "study"), "--trials", "1"],
                       monkeypatch, capsys)  # fmt: skip
    assert code == 0
    assert f"the recipe imports code, which is run: {tmp_path / 'own.py'}" in said.err


def ended(words, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["zoo", *words])
    code = 0
    try:
        main()
    except SystemExit as error:
        code = error.code
    return code, capsys.readouterr()


def test_a_trial_is_trained_as_the_recipe_is(tmp_path):
    """With weights to start from: they are scored as they come, and learn layer by layer."""
    start = {"weights": "gcn-digits", "lr_decay": 0.1}
    recipe = {"dataset": "digits", "model": zoo.load("gcn-digits").about.recipe["model"],
              "train": {"epochs": 1, "lr": 9.0}, "start_from": start, "seeds": [0],
              "search": {"train.lr": [9.0, 8.0], "train.weight_decay": [0.0, 0.1]}}  # fmt: skip
    found = Tuning(tmp_path / "study?x{y}", load_recipe(recipe), splits=1, device="cpu")
    found.run(1)
    assert found.trials()[0].val == pytest.approx(found.score()["val"]["mean"])
    assert (tmp_path / "study?x{y}" / tune.TRIALS).is_file()


def test_what_was_begun_with_is_not_another_trial(study, tmp_path):
    assert study.as_it_was() == study.trials()[0]
    recipe = {**RECIPE, "train": {**RECIPE["train"], "lr": 1e30}}
    found, told = Tuning(tmp_path, load_recipe(recipe), splits=1, device="cpu"), []
    with pytest.raises(ZooError):
        found.run(1, tell=lambda trial, best: told.append((trial.state, best)))
    assert found.as_it_was() is None and told == [("failed", None)]


@pytest.mark.filterwarnings("ignore:Heartbeat", "ignore:.*fail_stale_trials")
def test_the_last_of_several_processes_scores(tmp_path):
    begun = Tuning(tmp_path, load_recipe(RECIPE), splits=1, device="cpu")
    begun.run(1)
    one, other = (Tuning(tmp_path, device="cpu") for _ in range(2))
    trial = other.study.ask()
    waits = threading.Thread(target=one.score)
    waits.start()
    waits.join(1.5)
    waited = waits.is_alive() and not list(tmp_path.glob("*/summary.json"))
    other.study.tell(trial, state=one.optuna.trial.TrialState.FAIL)
    waits.join(60)
    assert waited and not waits.is_alive()
    assert other.score()["folder"] == one.score()["folder"]
    assert len(list(tmp_path.glob("*/summary.json"))) == 1


def test_of_equal_scores_the_first_is_the_best(study, capsys, monkeypatch):
    trials = [each._replace(number=number, val=0.5) for number, each in enumerate(study.trials())]
    monkeypatch.setattr(study, "trials", lambda: trials)
    summary = {"scored_before": [], "test": {"mean": 0.5, "std": None}, "folder": "runs/best"}
    print_study(study, summary)
    said = capsys.readouterr().out
    assert said.splitlines()[1].split()[:2] == ["trial", str(study.best().number)], said


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["tune", "mlp", "train.epochs=2", "--data", "karate", "--trials", "2", "--splits", "1"]
    code, said = ended([*words, "--json"], monkeypatch, capsys)
    [summary] = json.loads(said.out)
    assert not code and summary["test"]["runs"] == 1 and "trial 1: " in said.err
    [folder] = (tmp_path / "runs").glob("tune-mlp-*")
    code, said = ended(["tune", "--resume", str(folder), "--trials", "3"], monkeypatch, capsys)
    assert not code and "matter" in said.out and "as it was" in said.out
    several = ["tune", "--models", "mlp, gcn", "--data", "karate", "train.epochs=2", "model.dim=4"]
    code, said = ended([*several, "--trials", "1", "--splits", "2"], monkeypatch, capsys)
    assert not code and "gcn-tuned" in said.out and "mlp-tuned" in said.out
    folders = len(list((tmp_path / "runs").iterdir()))
    assert folders == 3  # also where all of it takes less than a second
    run = next(folder.glob("mlp-tuned-*"))
    run = run.rename(tmp_path / "run").relative_to(tmp_path)
    for wrong, why in (
        (["tune"], "name a recipe"),
        (["tune", "--models", "", "--data", "karate"], "name a recipe"),
        (["tune", "--models", "gcn,", "--data", "karate"], "name a recipe"),
        (["tune", "--resume", str(folder), "--data", "karate"], "name a recipe"),
        (["tune", "mlp"], "zoo tune mlp --data DATASET"),
        (["tune", "mlp", "--data", "karate", "search={model.dim: [8, abc]}"], "not 'abc'"),
        (["tune", "--resume", str(folder), "--splits", "2"], "`--resume STUDY` alone"),
        (
            ["tune", "--resume", str(folder), "train.lr=0.5"],
            f"`zoo tune {folder}/recipe.yaml train.lr=0.5` begins another",
        ),
        (["tune", "--resume", "nowhere"], "no study was begun in nowhere"),
        (["tune", "--resume", str(run)], f"no study was begun in {run.name}"),
    ):
        code, said = ended(wrong, monkeypatch, capsys)
        assert code == 2 and why in " ".join(said.err.split())
    code, said = ended(["tune", "mlp", "--data", "nowhere.npz"], monkeypatch, capsys)
    assert code == 2 and len(list((tmp_path / "runs").iterdir())) == folders


def test_tuned_models_are_compared_with_each_other_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("zoo.runs.compare.train_apart", lambda *_, **__: pytest.fail("no"))
    monkeypatch.setattr(Tuning, "write", lambda study: [])
    words = ["tune", "--models", "sgformer,gat", "--data", "karate", "train.epochs=1"]
    words += ["model.dim=4", "--trials", "1", "--splits", "1", "--runs", "other", "--quiet"]
    code, said = ended(words, monkeypatch, capsys)
    assert not code and "sgformer-tuned" in said.out and "gat-tuned" in said.out
    assert "gcn-" not in said.out and "trial 0" not in said.err
    assert [each.name for each in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize(("error", "ends"), [(KeyboardInterrupt(), 130), (ZooError("broken"), 2)])
def test_what_ends_one_of_several_models_says_how_all_goes_on(
    tmp_path, monkeypatch, capsys, error, ends
):
    monkeypatch.chdir(tmp_path)
    called = []

    def fail_in_the_second(study, *given):
        called.append((study, *given[:2]))
        if len(called) == 2:
            raise error

    def scored(study):
        (study.folder / f"{study.name}-1").mkdir()
        return {"folder": str(study.folder / f"{study.name}-1")}

    monkeypatch.setattr(Tuning, "run", fail_in_the_second)
    monkeypatch.setattr(Tuning, "score", scored)
    monkeypatch.setattr("zoo.cli.tune.print_study", lambda study, summary: None)
    data = "{name: karate, split: ratio-60-20-20}"
    words = ["tune", "--models", "mlp,gcn,gat", "--data", data, "train.epochs=1", "model.dim=4"]
    words += ["--trials", "1", "--splits", "1", "--runs", "my runs", "--device", "cpu"]
    code, said = ended(words, monkeypatch, capsys)
    assert code == ends
    goes_on, left, both = re.findall("`zoo ([^`]*)`", said.err)
    assert not ended(shlex.split(goes_on), monkeypatch, capsys)[0]
    assert not ended(shlex.split(left), monkeypatch, capsys)[0]
    first, second, resumed, third = (each for each, *_ in called)
    assert resumed.folder == second.folder and third.recipe.model["name"] == "gat"
    assert third.device == "cpu" and third.folder.parent == Path("my runs")
    assert third.recipe.dataset == first.recipe.dataset and third.recipe.seeds == [0]
    assert third.recipe.train["epochs"] == 1 and called[3][1:] == (1, None)
    found = subprocess.run(f"printf '%s\\n' {both}", shell=True, capture_output=True, text=True)
    runs = [str(each.folder / f"{each.name}-1") for each in (first, second, third)]
    assert found.stdout.splitlines() == ["compare", *runs]


def test_several_have_the_budget_and_a_model_the_data_of_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = {**RECIPE, "train": {"epochs": 4, "evaluate_every": 2}}
    for name, recipe in {
        "a": first,
        "b": {**RECIPE, "train": {"epochs": 9, "patience": 3}},
    }.items():
        Path(f"{name}.yaml").write_text(recipe_text(recipe))
    told: list[str] = []
    found = recipes_to_tune(["mlp", "a.yaml", "b.yaml"], ["train.lr=0.5"], told.append)
    assert [each.recipe.name for each in found] == ["mlp", "a", "b"]
    plans = [resolve(each.recipe) for each in found]
    for plan in plans:
        assert plan.train["epochs"] == 4 and plan.train["patience"] == plans[1].train["patience"]
        assert plan.train["lr"] == 0.5 and plan.dataset == plans[1].dataset
    assert [plan.train["evaluate_every"] for plan in plans] == [2, 2, 1]
    assert "budget of a.yaml, train.epochs=4 train.patience" in told[0]
    assert told[1].startswith("mlp: on the data of a.yaml, dataset={name: sbm")
    for each in found:  # what is printed after Ctrl-C makes the same of it
        assert load_recipe(each.source, each.changes).plain() == each.recipe.plain()
    found = recipes_to_tune(["a.yaml", "mlp"], ["dataset=karate", "train.epochs=2"])
    assert [each.recipe.dataset for each in found] == ["karate", "karate"]
    assert [each.recipe.train["epochs"] for each in found] == [2, 2]
    with pytest.raises(ZooError, match="`zoo tune --models mlp,gcn --data DATASET train.lr=1`"):
        recipes_to_tune(["mlp", "gcn"], ["train.lr=1"])


def test_optuna_is_asked_for(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ZooError, match=r"graph-transformer-zoo\[tune\]"):
        Tuning(tmp_path / "study", load_recipe(RECIPE))
