"""A run from recipe to folder: what it writes, what it says, and that it repeats to the bit."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from preloaded import run_preloaded

import zoo
from zoo.data.splits import split_of
from zoo.dgl import HAS_DGL
from zoo.errors import ZooError
from zoo.inference.evaluate import evaluate_part
from zoo.runs.prepare import prepare
from zoo.runs.resolve import load_recipe, resolve, write_out
from zoo.runs.run import run_recipe
from zoo.runs.run_folder import read_summary, verdict
from zoo.tasks.task import TASKS, in_units, target_scale
from zoo.weights.save_and_load import read_weights

SMALL = {
    "dataset": {"name": "sbm", "nodes": 90, "classes": 3, "split": "ratio-50-25-25"},
    "encoding": {"name": "laplacian", "k": 3},
    "model": {"name": "sgformer", "attention": {"name": "rba", "size": 16}},
    "train": {"epochs": 4},
    "seeds": [0, 1],
    "expect": {"test": 0.2, "within": 0.1, "source": "a test"},
}


def changed(**changes):
    return load_recipe({**SMALL, **changes})


@pytest.fixture
def runs(tmp_path):
    return tmp_path / "runs"


def test_a_run_leaves_its_folder(runs):
    seen = []
    summary = run_recipe(SMALL, runs=runs, watch=lambda seed, epoch: seen.append((seed, epoch)))
    [folder] = runs.iterdir()
    assert str(folder) == summary["folder"]
    names = {"recipe.yaml", "environment.json", "metrics.jsonl", "summary.json", "seed-0", "seed-1"}
    assert {path.name for path in folder.iterdir()} == names
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [(line["seed"], line["epoch"]) for line in lines] == [
        (seed, epoch) for seed in (0, 1) for epoch in range(4)
    ]
    assert [(seed, epoch.epoch) for seed, epoch in seen] == [
        (s, e) for s in (0, 1) for e in range(4)
    ]
    assert read_summary(folder) == json.loads(json.dumps(summary))


def test_the_summary_adds_up(runs):
    summary = run_recipe(SMALL, runs=runs)
    for part in ("val", "test"):
        scores = [row[part] for row in summary["seeds"]]
        assert summary[part]["mean"] == pytest.approx(sum(scores) / 2)
        assert summary[part]["std"] == pytest.approx(abs(scores[0] - scores[1]) / 2**0.5)
    assert summary["metric"] == "accuracy" and summary["peak_memory_bytes"] > 1e7
    assert len({row["split_sha256"] for row in summary["seeds"]}) == 2
    assert len(summary["seeds"][0]["split_sha256"]) == 64


def test_the_environment_is_written_down(runs):
    summary = run_recipe(changed(seeds=[0]), runs=runs)
    record = json.loads(Path(summary["folder"], "environment.json").read_text())
    assert record["packages"]["torch"] == torch.__version__
    assert bool(record["packages"]["dgl"]) == HAS_DGL
    assert record["packages"]["graph-transformer-zoo"]
    assert set(record) >= {"python", "git", "device", "threads"}


def test_the_resolved_recipe_runs_again_and_gives_the_same(runs):
    first = run_recipe(SMALL, runs=runs)
    second = run_recipe(f"{first['folder']}/recipe.yaml", runs=runs)
    scores = [[(row["val"], row["test"]) for row in each["seeds"]] for each in (first, second)]
    assert scores[0] == scores[1]
    for seed in (0, 1):
        ours, theirs = (
            read_weights(f"{each['folder']}/seed-{seed}/model.safetensors")
            for each in (first, second)
        )
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_the_same_seed_in_another_process_gives_the_same(runs, tmp_path):
    here = run_recipe(SMALL, runs=runs)
    code = f"import zoo, json; print(json.dumps(zoo.run_recipe({SMALL!r}, runs={str(runs)!r})))"
    done = run_preloaded(["-c", code], tmp_path)
    there = json.loads(done.stdout.splitlines()[-1])
    assert [row["test"] for row in here["seeds"]] == [row["test"] for row in there["seeds"]]


def test_saved_weights_give_the_reported_score(runs):
    recipe = changed(seeds=[3])
    summary = run_recipe(recipe, runs=runs)
    model = zoo.load(f"{summary['folder']}/seed-3")
    prepared = prepare(resolve(recipe))
    [split], data = prepared.splits, prepared.data
    with torch.no_grad():
        logits = model(data.graph, data.x).logits
    score = prepared.task.metric(logits[split.test], data.y[split.test])
    assert score == pytest.approx(summary["test"]["mean"])


def test_no_run_is_overwritten(runs):
    folders = {run_recipe(changed(seeds=[0]), runs=runs)["folder"] for _ in range(3)}
    assert len(folders) == 3


def test_nothing_is_written_when_the_data_is_wrong(runs):
    recipe = changed(dataset={"name": "sbm", "nodes": 30, "split": "per-class-20"})
    with pytest.raises(ZooError):
        run_recipe(recipe, runs=runs)
    assert not runs.exists()


@pytest.mark.parametrize("device,words", [("tpu", "`auto`, `cpu` or `cuda`"), ("cuda", "CUDA")])
def test_a_device_that_is_not_there(runs, device, words):
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("there is a CUDA device")
    with pytest.raises(ZooError, match=words):
        run_recipe(SMALL, device=device, runs=runs)
    assert not runs.exists()


def test_a_split_can_be_pinned():
    free = prepare(resolve(changed())).splits
    split = {"name": "ratio", "train": 50, "val": 25, "test": 25, "seed": 7}
    pinned = prepare(resolve(changed(dataset={**SMALL["dataset"], "split": split}))).splits
    assert free[0].sha256 != free[1].sha256
    assert pinned[0].sha256 == pinned[1].sha256


def test_as_many_seeds_as_folds_test_every_node_once(caplog):
    dataset = {**SMALL["dataset"], "split": "folds-4"}
    prepared = prepare(resolve(changed(dataset=dataset, seeds=[0, 1, 2, 3])))
    tested = torch.cat([each.test for each in prepared.splits])
    assert sorted(tested.tolist()) == list(range(90)) and not caplog.text
    assert prepared.plan.plain()["dataset"]["split"] == "folds-4"
    count = int(prepared.data.y.bincount().max()) + 1
    prepare(resolve(changed(dataset={**SMALL["dataset"], "split": f"folds-{count}"}, seeds=[0])))
    said = f"0, 1, 2 of sbm have fewer labelled nodes than there are folds, {count}"
    assert said in caplog.text
    with pytest.raises(ZooError, match="cross-validation is `folds-5`"):
        changed(dataset={**SMALL["dataset"], "split": "kfold"})


def test_the_encoding_is_appended_and_flipped_only_in_training():
    encoding = {"name": "laplacian", "k": 3, "flip_signs": True}
    prepared = prepare(resolve(changed(encoding=encoding)))
    plain = prepare(resolve(changed(encoding="none")))
    x = prepared.data.x
    assert x.shape[1] == plain.data.x.shape[1] + 3
    assert torch.equal(x[:, :-3], plain.data.x)
    torch.manual_seed(0)
    flipped = [prepared.augment(x) for _ in range(20)]
    assert all(torch.equal(each[:, :-3].abs(), x[:, :-3].abs()) for each in flipped)
    assert any(not torch.equal(each, x) for each in flipped)
    assert plain.augment(plain.data.x) is plain.data.x


def test_every_value_is_resolved():
    full = write_out(load_recipe({"dataset": "digits", "model": "gcn"}))
    assert full["train"]["lr"] == 0.01 and full["model"]["dim"] == 64
    assert full["dataset"]["split"] and full["dataset"]["features"] == "raw"
    assert write_out(load_recipe(full)) == full


def test_ctrl_c_keeps_what_was_trained(runs):
    def stop(seed, epoch):
        if seed == 1 and epoch.epoch == 2:
            raise KeyboardInterrupt

    summary = run_recipe(changed(seeds=[0, 1, 2]), runs=runs, watch=stop)
    assert summary["interrupted"] and [row["seed"] for row in summary["seeds"]] == [0, 1]
    assert zoo.load(f"{summary['folder']}/seed-1") is not None
    assert not verdict(summary)[0]


def test_ctrl_c_before_anything_is_trained_leaves_nothing(runs):
    def stop(seed, epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_recipe(changed(train={"epochs": 4, "evaluate_every": 4}), runs=runs, watch=stop)
    assert not list(runs.iterdir())


@pytest.mark.parametrize("test,passed", [(0.84, True), (0.81, False), (0.9, True), (0.83, True)])
def test_the_verdict(test, passed):
    expect = {"test": 0.845, "within": 0.015, "source": "a paper"}
    summary = {"expect": expect, "test": {"mean": test}, "interrupted": False, "metric": "accuracy"}
    said = verdict(summary)
    assert said[0] == passed and f"{test:.4f}" in said[1] and "a paper" in said[1]
    summary["expect"] = {**expect, "program": [0.825, 0.0086]}
    assert verdict(summary)[1].endswith("program itself comes to 0.8250 ± 0.0086.")


@pytest.mark.parametrize("test,passed", [(1.9, True), (2.1, True), (2.11, False), (0.0, True)])
def test_the_verdict_where_less_is_better(test, passed):
    expect = {"test": 2.0, "within": 0.1, "source": "a paper"}
    summary = {"expect": expect, "test": {"mean": test}, "interrupted": False, "metric": "mse"}
    said = verdict(summary)
    assert said[0] == passed and f"{test - 2:+.4f}, 0.1 above is allowed" in said[1]


def test_imports_of_a_recipe(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from zoo import ENCODINGS\nENCODINGS['ones'] = lambda graph: graph.ndata['x']\n"
    )
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("imports: [mine.py]\ndataset: digits\nencoding: ones\nmodel: gcn\n")
    try:
        assert load_recipe(recipe, trust=True).encoding == "ones"
        (tmp_path / "mine.py").write_text("1 / 0\n")
        with pytest.raises(ZooError, match="mine.yaml:1: imports.*ZeroDivisionError"):
            load_recipe(recipe, trust=True)
        (tmp_path / "mine.py").unlink()
        with pytest.raises(ZooError, match="there is no file"):
            load_recipe(recipe, trust=True)
    finally:
        zoo.ENCODINGS.pop("ones", None)


def test_an_error_keeps_the_seeds_before_it(runs):
    def fail(seed, epoch):
        if seed == 1:
            raise ZooError("out of order")

    with pytest.raises(ZooError, match="out of order"):
        run_recipe(SMALL, runs=runs, watch=fail)
    [folder] = runs.iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["interrupted"] and [row["seed"] for row in summary["seeds"]] == [0]


def test_a_model_that_cannot_be_built_leaves_nothing(runs):
    with pytest.raises(ZooError, match="graph_branch: residual"):
        run_recipe(changed(model={"name": "sgformer", "use_init": True}), runs=runs)
    with pytest.raises(ZooError, match="memory"):
        run_recipe(changed(model={"name": "mlp", "dim": 10**9}), runs=runs)
    assert not runs.exists()


def test_only_signs_that_are_free_can_be_flipped():
    with pytest.raises(ZooError, match="no signs to flip"):
        changed(encoding={"name": "random_walk", "flip_signs": True})


def test_a_file_is_imported_once_and_again_when_it_changes(tmp_path):
    source = tmp_path / "counted.py"
    recipe = tmp_path / "counted.yaml"
    recipe.write_text("imports: [counted.py]\ndataset: digits\nmodel: gcn\n")
    source.write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('1')\n")
    load_recipe(recipe, trust=True)
    load_recipe(recipe, trust=True)
    assert (tmp_path / "log").read_text() == "1"
    source.write_text(f"open({str(tmp_path / 'log')!r}, 'a').write('2 ')\n")
    load_recipe(recipe, trust=True)
    assert (tmp_path / "log").read_text() == "12 "


@pytest.mark.parametrize("model, told", [("gcn", 1), ("mlp", 0)])
def test_a_graph_without_edges_is_told_to_who_passes_messages(tmp_path, caplog, model, told):
    (tmp_path / "a.csv").write_text("x,label\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    recipe = {"dataset": str(tmp_path / "a.csv"), "model": model, "train": {"epochs": 1}}
    run_recipe({**recipe, "seeds": [0, 1]}, runs=tmp_path)
    assert caplog.text.count(f"a has no edges, so that {model} has nothing to pass") == told


def test_one_class_alone_is_told_before_training(tmp_path, caplog):
    data = {"name": "sbm", "nodes": 30, "classes": 1, "homophily": 1.0}
    run_recipe(
        {"dataset": data, "model": "mlp", "train": {"epochs": 1}, "seeds": [0]}, runs=tmp_path
    )
    assert "all labels of sbm are of one class, so that every model is right" in caplog.text
    lines = [json.dumps({"text": f"text {each}", "label": "a"}) for each in range(20)]
    (tmp_path / "one.jsonl").write_text("\n".join(lines))
    texts = {"name": "texts", "path": str(tmp_path / "one.jsonl")}
    run_recipe({"dataset": texts, "model": "mlp", "train": {"epochs": 1}, "seeds": [0]},
               runs=tmp_path)  # fmt: skip
    assert "all labels of one are of one class" in caplog.text


@pytest.mark.parametrize("task, words", [("node-binary", "two classes"), ("node-regression", "R²")])
def test_a_part_without_a_score_is_told_before_training(tmp_path, task, words):
    """Of the second seed only: what the first would take is not lost."""
    nodes = 12
    of = np.repeat([[0], [1], [2]], [4, 4, 4]).ravel()
    masks = {
        part: np.stack([of == number, np.arange(nodes) // 2 % 3 == number])
        for number, part in enumerate(("train", "val", "test"))
    }
    labels = np.isin(np.arange(nodes), [0, 4, 10]).astype(np.int64)
    file = tmp_path / "mine.npz"
    np.savez(file, edges=np.zeros((0, 2), np.int64), node_labels=labels,
             node_features=np.eye(nodes, dtype=np.float32),
             **{f"{part}_masks": mask for part, mask in masks.items()})  # fmt: skip
    data = {"name": str(file), "task": task, "split": "benchmark"}
    recipe = {"dataset": data, "model": "mlp", "train": {"epochs": 1}, "seeds": [0, 1]}
    with pytest.raises(ZooError, match=f"with seed 1, val: .*{words}"):
        run_recipe(recipe, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("many", [False, True])
def test_a_class_without_a_label_in_training_is_told(tmp_path, caplog, many):
    of = np.arange(12) % 3
    labels = np.where(of == 0, 0, 1 + np.arange(12) // 6)  # 1 and 2 are not of the training
    if many:
        labels = np.stack([np.arange(12) // 6, np.where(of == 0, np.nan, np.arange(12) // 6)], 1)
    file = tmp_path / "mine.npz"
    masks = {
        f"{part}_masks": (of == each)[None] for each, part in enumerate(("train", "val", "test"))
    }
    np.savez(file, edges=np.zeros((0, 2), np.int64), node_labels=labels,
             node_features=np.eye(12, dtype=np.float32), **masks)  # fmt: skip
    data = {"name": str(file), "split": "benchmark"}
    recipe = {"dataset": data, "model": "mlp", "train": {"epochs": 1}, "seeds": [0, 1]}
    run_recipe(recipe, runs=tmp_path / "runs")
    told = [each for each in caplog.messages if "no label of training is of" in each]
    assert len(told) == 1 and ("of 1, which" if many else "of 1, 2, which") in told[0]


def numbers(path, shift=50_000.0, scale=1_000.0, targets=1):
    """Nodes whose number to predict is a sum of features, in units of its own."""
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 3)).astype(np.float32)
    y = shift + scale * np.stack([x @ [1, 0.5, -1], -x[:, 0]], axis=1)[:, :targets].squeeze()
    np.savez(path, edges=np.zeros((0, 2), np.int64), node_labels=y, node_features=x,
             task=np.array("node-regression"))  # fmt: skip
    return str(path)


def test_numbers_in_units_of_their_own_are_learnt_and_answered_in_them(tmp_path):
    """`train.target: standard`: the same R² whatever the unit, and predictions in it."""
    recipe = {"model": {"name": "mlp", "dim": 16}, "seeds": [0],
              "train": {"epochs": 150, "lr": 0.01}}  # fmt: skip
    found = {}
    for name, units in {"plain": (0.0, 1.0), "euros": (50_000.0, 1_000.0)}.items():
        data = {"dataset": numbers(tmp_path / f"{name}.npz", *units)}
        found[name] = run_recipe({**recipe, **data}, runs=tmp_path / "runs")
    assert found["euros"]["test"]["mean"] == pytest.approx(found["plain"]["test"]["mean"], abs=5e-3)
    assert found["euros"]["test"]["mean"] > 0.9
    raw = {**recipe, "train": {**recipe["train"], "target": "raw"}}
    raw["dataset"] = str(tmp_path / "euros.npz")
    assert run_recipe(raw, runs=tmp_path / "runs")["test"]["mean"] < -100
    model, data = zoo.load(found["euros"]["folder"]), zoo.load_graph(tmp_path / "euros.npz")
    mean, deviation = model.about.target
    train = split_of(data, "ratio-60-20-20", 0).train
    assert mean == pytest.approx([data.y[train].double().mean().item()], rel=1e-6)
    assert deviation == pytest.approx([data.y[train].double().std(correction=0).item()], rel=1e-5)
    answers = zoo.predict(model, data).values
    assert (answers.squeeze() - data.y).abs().median() < 300
    measured = evaluate_part(model, str(tmp_path / "euros.npz"), "all")
    assert measured["beside"]["mae"] == pytest.approx(
        (answers.squeeze() - data.y).abs().mean().item(), rel=1e-5
    )  # fmt: skip
    zoo.save(model, tmp_path / "again")
    assert torch.equal(zoo.predict(zoo.load(tmp_path / "again"), data).values, answers)
    tuned = {**recipe, "train": {"epochs": 1, "lr": 1e-6}, "dataset": str(tmp_path / "euros.npz"),
             "start_from": {"weights": found["euros"]["folder"] + "/seed-0"}}  # fmt: skip
    tuned = run_recipe(tuned, runs=tmp_path / "runs")
    assert tuned["test"]["mean"] == pytest.approx(found["euros"]["test"]["mean"], abs=1e-3)
    assert zoo.load(tuned["folder"]).about.target == model.about.target


def test_amounts_are_learnt_by_their_logarithm_and_answered_as_amounts(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 3)).astype(np.float32)
    y = np.exp(x @ [1, 1.5, -1] + 4)
    np.savez(tmp_path / "euros.npz", edges=np.zeros((0, 2), np.int64), node_labels=y,
             node_features=x, task=np.array("node-regression"))  # fmt: skip
    recipe = {"model": {"name": "mlp", "dim": 16, "dropout": 0}, "seeds": [0],
              "dataset": str(tmp_path / "euros.npz"),
              "train": {"epochs": 200, "lr": 0.01, "target": "log", "metric": "mae"}}  # fmt: skip
    run = run_recipe(recipe, runs=tmp_path / "runs")
    model, data = zoo.load(run["folder"]), zoo.load_graph(tmp_path / "euros.npz")
    logs = data.y[split_of(data, "ratio-60-20-20", 0).train].double().log1p()
    assert model.about.target_log and model.about.target[0] == pytest.approx(
        [logs.mean().item()], rel=1e-6
    )
    answers = zoo.predict(model, data).values[:, 0]
    assert (answers > -1).all() and (answers.log() - data.y.log()).abs().median() < 0.3
    zoo.save(model, tmp_path / "again")
    assert torch.equal(zoo.predict(zoo.load(tmp_path / "again"), data).values[:, 0], answers)
    on = {**recipe, "train": {"epochs": 1, "lr": 1e-9, "metric": "mae"},
          "start_from": {"weights": run["folder"] + "/seed-0"}}  # fmt: skip
    on = run_recipe(on, runs=tmp_path / "runs")  # whose `target` is the usual one
    assert on["test"]["mean"] == pytest.approx(run["test"]["mean"], rel=1e-3)
    assert zoo.load(on["folder"]).about.target_log
    task, y = TASKS["node-regression"](), torch.tensor([0.0, 3.0, 8.0])
    scale = target_scale(task, y, log=True)
    answer = torch.tensor([[1.0], [3.0], [7.0]], requires_grad=True)
    expected = ((answer.log1p() - y[:, None].log1p()) / scale[1]).square().mean()
    torch.testing.assert_close(in_units(task, *scale, log=True).loss(answer, y), expected)
    for name, wrong in [("node-regression", y - 1), ("node-classification", torch.tensor([0, 1]))]:
        with pytest.raises(ZooError, match=r"log\(1 \+ y\)|is for numbers"):
            target_scale(TASKS[name](), wrong, log=True)


def test_several_targets_have_a_unit_each_and_gaps_are_left_out():
    y = torch.tensor([[1e6, 0.001], [3e6, torch.nan], [torch.nan, 0.003]])
    mean, deviation = target_scale(TASKS["node-regression"](), y)
    assert mean.tolist() == pytest.approx([2e6, 0.002])
    assert deviation.tolist() == pytest.approx([1e6, 0.001], rel=1e-4)
    task = in_units(TASKS["node-regression"](), mean, deviation)
    off = torch.tensor([[2e6, 0.001], [3e6, 5.0], [0.0, 0.003]])  # one deviation in one of four
    assert task.loss(off, y).item() == pytest.approx(0.25, rel=1e-4)
    assert target_scale(TASKS["node-classification"](), torch.tensor([0, 1])) is None


@pytest.mark.parametrize("scaled", [True, False])
def test_a_classifier_that_answers_one_class_only_is_told(tmp_path, caplog, scaled):
    random = np.random.default_rng(0)
    y = np.array(([1] + [0] * 9) * 10)
    x = (random.normal(size=(100, 2)) + 4 * y[:, None]) * (1 if scaled else 1e-9)
    np.savez(tmp_path / "rare.npz", edges=np.zeros((0, 2), np.int64), node_labels=y,
             node_features=x, label_names=np.array(["usual", "rare"]))  # fmt: skip
    recipe = {"dataset": {"name": str(tmp_path / "rare.npz"), "split": "stratified"},
              "model": "mlp", "train": {"epochs": 60, "lr": 0.05}, "seeds": [0]}  # fmt: skip
    run_recipe(recipe, runs=tmp_path / "runs")
    told = "seed 0 is no better on the test part than always answering usual" in caplog.text
    assert told is not scaled


@pytest.mark.parametrize(("told", "said"), [({}, True), ({"numbers": "raw"}, False)])
def test_what_is_done_to_numbers_of_a_table_is_said_once(tmp_path, caplog, told, said):
    lines = [f"{50_000 + 100 * i},{i % 2},{'ab'[i % 2]}" for i in range(30)]
    (tmp_path / "own.csv").write_text("\n".join(["income,told,label", *lines]))
    recipe = {"dataset": {"name": str(tmp_path / "own.csv"), **told}, "model": "mlp",
              "train": {"epochs": 1}, "seeds": [0, 1]}  # fmt: skip
    run_recipe(recipe, runs=tmp_path / "runs")
    standard = (
        "numbers of own are standardised by the training nodes (income); `dataset.numbers=raw`"
    )
    apart = "features of own lie apart in scale"
    assert caplog.text.count(standard) == said and caplog.text.count(apart) == (not said)
