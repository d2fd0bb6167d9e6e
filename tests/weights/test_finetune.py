"""Fine-tuning: what is carried over, by name; what is frozen; how fast which layer learns."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import zoo
from zoo.config.metadata import About
from zoo.config.options import resolved_options
from zoo.config.recipe import StartFrom
from zoo.errors import ZooError
from zoo.training.trainer import fit
from zoo.weights.create import list_models
from zoo.weights.files import read_folder
from zoo.weights.finetune import layered, start
from zoo.weights.index import PRETRAINED

HERE = About(features=4, task="node-classification", encoding={"name": "none"})


@pytest.fixture
def source(tmp_path):
    """A saved gcn with batch norms, for 4 features and 3 classes of which nothing is known."""
    model = zoo.create_model("gcn", 4, 3, dim=8, layers=3, norm="batch", residual=True)
    zoo.save(model, tmp_path / "source")
    return tmp_path / "source"


def begin(source, in_dim=4, out_dim=3, here=HERE, theirs=None, **how):
    """Start a new gcn from the source; return it, the report and the source's weights."""
    if theirs:
        zoo.save(zoo.load(source), source, theirs)
    torch.manual_seed(5)
    model = zoo.create_model("gcn", in_dim, out_dim, dim=8, layers=3, norm="batch", residual=True)
    report = start(model, "gcn", StartFrom(weights=str(source), **how), here)
    return model, report, read_folder(source).state


def parts(names):
    return {name.partition(".")[0] for name in names}


def same(model, state):
    """The names of weights that are equal to the bit."""
    own = model.state_dict()
    return {
        name
        for name in state
        if own[name].shape == state[name].shape and torch.equal(own[name], state[name])
    }


@pytest.mark.parametrize(
    "sizes,fresh",
    [((4, 3), set()), ((6, 3), {"stem"}), ((4, 2), {"head"}), ((9, 7), {"stem", "head"})],
)
def test_other_sizes_get_a_fresh_stem_or_head(source, sizes, fresh):
    model, report, state = begin(source, *sizes)
    assert parts(report.fresh) - {"layers"} == fresh == parts(report.unused)
    assert set(report.loaded) | set(report.fresh) == set(model.state_dict())
    assert not set(report.loaded) & set(report.fresh)
    equal = same(model, state)
    assert set(report.loaded) <= equal
    drawn = {
        name for name in report.fresh if name.endswith("linear.weight") or name == "head.weight"
    }
    assert not drawn & equal


FOUR = ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    "theirs,here,fresh",
    [
        ({"features": 4}, {}, set()),
        ({"features": 4, "feature_names": FOUR}, {"feature_names": FOUR}, set()),
        ({"features": 4, "feature_names": FOUR}, {}, set()),
        ({"features": 4, "feature_names": FOUR}, {"feature_names": [*"abce"]}, {"stem"}),
        ({"features": 4, "feature_names": FOUR}, {"feature_names": [*"abdc"]}, {"stem"}),
        ({"features": 2, "encoding": {"name": "laplacian", "k": 2}}, {}, {"stem"}),
        ({"labels": ["x", "y", "z"]}, {"labels": ["x", "y", "z"]}, set()),
        ({"labels": ["x", "y", "z"]}, {"labels": ["y", "x", "z"]}, {"head"}),
        ({"labels": ["x", "y", "z"]}, {}, set()),
        ({"task": "node-multilabel"}, {}, {"head"}),
    ],
)
def test_equal_sizes_have_to_mean_the_same(source, theirs, here, fresh):
    theirs = {"encoding": {"name": "none"}, **theirs}
    ours = About.model_validate({**HERE.model_dump(), **here})
    _, report, _ = begin(source, here=ours, theirs=About.model_validate(theirs))
    assert parts(report.fresh) == fresh == parts(report.unused)


def test_classes_that_weights_know_keep_their_rows_of_the_head(source):
    theirs = About.model_validate({"encoding": {"name": "none"}, "task": "node-classification",
                                   "features": 4, "labels": ["x", "y", "z"]})  # fmt: skip
    ours = theirs.model_copy(update={"labels": ["w", "z", "y", "v"]})
    model, report, state = begin(source, out_dim=4, here=ours, theirs=theirs)
    assert parts(report.fresh) == {"head"}
    torch.manual_seed(5)
    drawn = zoo.create_model("gcn", 4, 4, dim=8, layers=3, norm="batch", residual=True)
    for name in ("head.weight", "head.bias"):
        own, known, new = model.state_dict()[name], state[name], drawn.state_dict()[name]
        assert torch.equal(own, torch.stack([new[0], known[2], known[1], new[3]]))
    for other in ({"features": 3}, {"task": "node-multilabel"}, {"labels": [*"abcd"]}):
        model, *_ = begin(source, out_dim=4, here=ours.model_copy(update=other))
        assert torch.equal(model.head.weight, drawn.head.weight), other


@pytest.mark.parametrize(
    "freeze,frozen",
    [
        ("none", set()),
        ("backbone", {"layers"}),
        ("except-head", {"stem", "layers"}),
        ("layers.1", {"layers"}),
        (["stem", "layers.*"], {"stem", "layers"}),
    ],
)
def test_what_is_frozen_does_not_learn(source, freeze, frozen):
    model, report, _ = begin(source, freeze=freeze)
    assert parts(report.frozen) == frozen
    still = {name for name, weight in model.named_parameters() if not weight.requires_grad}
    assert set(report.frozen) == still
    if freeze == "layers.1":
        assert all(name.startswith("layers.1.") for name in still)


def recipe(source, **how):
    return {
        "dataset": {"name": "sbm", "nodes": 60, "classes": 3, "dim": 4},
        "model": {"name": "gcn", "dim": 8, "layers": 3, "norm": "batch", "residual": True},
        "train": {"epochs": 40, "lr": 0.05, "weight_decay": 0.01},
        "seeds": [0],
        "start_from": {"weights": str(source), **how},
    }


def trained(source, tmp_path, **how):
    summary = zoo.run_recipe(recipe(source, **how), runs=tmp_path / "runs")
    return summary, read_folder(Path(summary["folder"], "seed-0")).state


def test_weights_that_training_destroys_win_as_they_were_loaded(source, tmp_path):
    good, _ = trained(source, tmp_path)
    weights = Path(good["folder"], "seed-0")
    given = recipe(weights)
    given["train"] = {"epochs": 3, "lr": 5.0}
    found = zoo.run_recipe(given, runs=tmp_path / "again")
    (seed,) = found["seeds"]
    assert seed["epoch"] == -1 and seed["val"] == good["seeds"][0]["val"]
    kept = read_folder(Path(found["folder"], "seed-0")).state
    assert all(torch.equal(kept[name], each) for name, each in read_folder(weights).state.items())
    assert zoo.run_recipe(Path(found["folder"], "recipe.yaml"), runs=tmp_path)["seeds"] != []


@pytest.mark.parametrize(
    "freeze,moved", [("except-head", {"head"}), ("backbone", {"stem", "head"})]
)
def test_frozen_weights_and_statistics_stay_to_the_bit(source, tmp_path, freeze, moved):
    before = read_folder(source).state
    _, after = trained(source, tmp_path, freeze=freeze)
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert parts(changed) == moved
    _, free = trained(source, tmp_path)
    changed = {name for name in before if not torch.equal(before[name], free[name])}
    assert parts(changed) == {"stem", "layers", "head"}
    assert any("running_mean" in name for name in changed)


def test_the_run_can_be_repeated_from_its_own_recipe(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, state = trained("source", tmp_path, freeze="layers.0", lr_decay=0.5)
    told = json.loads(Path(first["folder"], "start_from.json").read_text())
    assert told["frozen"] and told["loaded"] and len(told["sha256"]) == 64
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    second = zoo.run_recipe(Path(first["folder"], "recipe.yaml"), runs=tmp_path / "again")
    again = read_folder(Path(second["folder"], "seed-0")).state
    assert all(torch.equal(state[name], again[name]) for name in state)


def test_layers_learn_slower_towards_the_stem():
    model = zoo.create_model("gcn", 4, 3, dim=8, layers=3)
    groups = layered(model, 0.5)(model.parameter_groups(), 0.1)
    names = {id(weight): name for name, weight in model.named_parameters()}
    rates = {names[id(each)]: group["lr"] for group in groups for each in group["params"]}
    expected = {"stem": 0.0125, "layers.0": 0.025, "layers.1": 0.05, "head": 0.1}
    assert set(rates) == set(names.values())
    for name, rate in rates.items():
        [layer] = [each for each in expected if name.startswith(each)]
        assert rate == pytest.approx(expected[layer])
    assert groups[-1]["lr"] == 0.1


def test_groups_keep_their_weight_decay():
    model = zoo.create_model("sgformer", 4, 3, attention_weight_decay=0.25)
    frozen = model.layers[0].query.weight.requires_grad_(False)
    groups = layered(model, 0.9)(model.parameter_groups(), 0.1)
    decay = {id(each): group.get("weight_decay") for group in groups for each in group["params"]}
    assert decay[id(model.layers[0].key.weight)] == 0.25
    assert decay[id(model.head.weight)] is None
    assert id(frozen) not in decay


@pytest.mark.parametrize("name", list_models(task="node-classification", context=False))
def test_every_model_can_be_finetuned(name, tmp_path):
    zoo.save(zoo.create_model(name, 5, 4), tmp_path / "source")
    how = StartFrom(weights=str(tmp_path / "source"), freeze="backbone", lr_decay=0.8)
    model = zoo.create_model(name, 7, 2)
    if not any(not key.startswith(("stem", "head")) for key, _ in model.named_parameters()):
        how = StartFrom(weights=str(tmp_path / "source"), lr_decay=0.8)
    report = start(model, name, how, HERE)
    assert parts(report.fresh) == {
        each for each in parts(report.fresh) if each[:4] in ("stem", "head")
    }
    groups = layered(model, 0.8)(model.parameter_groups(), 0.1)
    learning = {id(each) for group in groups for each in group["params"]}
    assert learning == {id(each) for each in model.parameters() if each.requires_grad}
    assert groups[-1]["lr"] == 0.1 and groups[0]["lr"] < 0.1


@pytest.mark.parametrize(
    "sizes,how,words",
    [
        ((6, 3), {"freeze": "except-head"}, "drawn anew.*stem"),
        ((4, 3), {"freeze": "*"}, "nothing to train"),
        ((4, 3), {"freeze": "layer.0"}, "name of no weight.*layers.0"),
        ((4, 3), {"freeze": ["backbone", "tail"]}, "'tail'"),
        ((4, 3), {"weights": "nowhere"}, "no weights at"),
        ((4, 3), {"weights": "sgformer-digits-rba"}, "weights of sgformer.*model is gcn"),
        ((4, 3), {"weights": "gcn-digits"}, "other options"),
    ],
)
def test_what_cannot_be_a_start(source, sizes, how, words):
    model = zoo.create_model("gcn", *sizes, dim=8, layers=3, norm="batch", residual=True)
    with pytest.raises(ZooError, match=words):
        start(model, "gcn", StartFrom(**{"weights": str(source), **how}), HERE)


@pytest.mark.parametrize(
    "change,words",
    [
        ({"weights": "nowhere"}, "start_from.weights.*no weights at"),
        ({"lr_decay": 0}, "lr_decay.*greater than 0"),
        ({"lr_decay": 1.5}, "lr_decay.*less than or equal to 1"),
        ({"frezee": "none"}, "did you mean 'freeze'"),
        ({"freeze": 3}, "freeze"),
    ],
)
def test_a_recipe_is_checked_before_it_runs(source, change, words):
    with pytest.raises(ZooError, match=words):
        zoo.load_recipe(recipe(source, **change))


def test_the_command_writes_a_recipe_and_runs_it(command, tmp_path):
    words = ("--data", "karate", "--freeze", "backbone", "--lr-decay", "0.5", "train.epochs=2")
    code, out, err = command("finetune", "gcn-digits", *words, "--json")
    assert code == 0, err
    summary = json.loads(out)
    assert "of 6 weights 0 loaded, 2 frozen, 4 fresh." in err and "stem.convolution.bias" in err
    [folder] = (tmp_path / "runs").iterdir()
    assert (
        folder.name.startswith("gcn-karate-finetuned")
        and summary["folder"] == f"runs/{folder.name}"
    )
    plan = zoo.load_recipe(folder / "recipe.yaml")
    assert plan.start_from == StartFrom(weights="gcn-digits", freeze="backbone", lr_decay=0.5)
    shipped = zoo.load("gcn-digits").about.recipe
    # Options that are newer than the weights have their default.
    assert plan.model.items() >= shipped["model"].items()
    assert plan.train == {**resolved_options(fit, shipped["train"]), "epochs": 2}
    after = read_folder(folder / "seed-0").state
    before = read_folder(PRETRAINED / "gcn-digits").state
    kept = {name for name in before if not name.startswith(("stem", "head"))}
    assert kept and all(torch.equal(before[name], after[name]) for name in kept)
    code, _, err = command("finetune", "gcn-digits", *words, "--quiet")
    first, *others = err.splitlines()
    assert "other features" in first and "twelve pairs of graphs" in first  # never hidden
    assert code == 0 and all("than always answering" in each for each in others)


def test_on_the_graph_of_the_weights_it_is_divided_as_then(command, tmp_path, caplog):
    """Else they would be measured on nodes that they were trained on."""
    recipe = {"dataset": {"name": "digits", "split": "ratio-60-20-20"}, "model": "mlp",
              "train": {"epochs": 3}, "seeds": [1]}  # fmt: skip
    folder = zoo.run_recipe(recipe, runs=tmp_path / "first")["folder"]
    code, out, err = command("finetune", folder, "--data", "digits", "train.epochs=1", "--json")
    found = json.loads(out)
    assert code == 0 and "too good" not in caplog.text
    assert [each["seed"] for each in found["seeds"]] == [1]
    assert zoo.load(found["folder"]).about.recipe["dataset"]["split"] == "ratio-60-20-20"
    assert not command("finetune", folder, "--data", "digits", "seeds=[0]", "train.epochs=1")[0]
    assert re.search(r"was trained on \d+ of the 719 nodes of validation", caplog.text)


def test_edges_of_a_file_are_asked_for_and_their_path_is_not_told(command, tmp_path):
    rows = "\n".join(f"n{i},{i % 3},{i % 7},{'ab'[i % 2]}" for i in range(40))
    (tmp_path / "own.csv").write_text(f"id,one,two,label\n{rows}\n")
    links = "\n".join(f"n{i},n{i + 1}" for i in range(39))
    (tmp_path / "edges.csv").write_text(f"source,target\n{links}\n")
    graph = f"graph={{name: file, path: {tmp_path / 'edges.csv'}}}"
    words = ("dataset=own.csv", graph, "train.epochs=2", "seeds=[0]", "--json")
    code, out, err = command("train", "gcn", *words)
    assert code == 0, err
    folder = json.loads(out)["folder"]
    assert zoo.load(folder).about.graph["path"] == "edges.csv"
    code, _, err = command("finetune", folder, "--data", "own.csv", "train.epochs=1")
    assert code == 2 and "edges of a file" in err and "graph=own" in err
    code, _, err = command("finetune", folder, "--data", "own.csv", graph, "train.epochs=1")
    assert code == 0, err


def test_standard_features_are_those_of_the_new_data_which_is_said(caplog, tmp_path):
    recipe = {"dataset": {"name": "digits", "features": "standard"}, "model": "mlp",
              "train": {"epochs": 1}, "seeds": [0]}  # fmt: skip
    folder = zoo.run_recipe(recipe, runs=tmp_path)["folder"]
    other = {"name": "sbm", "nodes": 60, "dim": 64, "features": "standard"}
    more = {"dataset": other, "start_from": {"weights": str(folder)}}
    zoo.run_recipe({**recipe, **more}, runs=tmp_path)
    assert "is by the means and deviations of sbm, not those of" in caplog.text


def test_the_probe_is_worth_something(command):
    """The head alone, on features learnt from the same images, reads them again."""
    words = ("--data", "digits", "--probe", "train.epochs=3", "--json")
    code, out, _ = command("finetune", "gcn-digits", *words)
    assert code == 0 and json.loads(out)["test"]["mean"] > 0.95


@pytest.mark.parametrize(
    "words,said",
    [
        (("gcn-digits", "--data", "karate", "--probe"), "drawn anew"),
        (("gcn-digits", "--data", "digits", "--probe", "--freeze", "none"), "leave out --freeze"),
        (("gcn-digits", "--data", "digits", "--freeze", "tail"), "name of no weight"),
        (("gcn-digits", "--data", "digits", "--lr-decay", "2"), "lr_decay"),
        (("gcn-digits", "--data", "digits", "train.epoch=3"), "did you mean 'epochs'"),
        (("gcn-digits", "--data", "digits", "model.dim=7"), "other options"),
        (("nowhere", "--data", "digits"), "no weights at"),
    ],
)
def test_what_cannot_be_finetuned(command, tmp_path, words, said):
    before = sorted(tmp_path.iterdir())
    code, out, err = command("finetune", *words)
    assert code == 2 and said in err and "Traceback" not in err and not out
    assert [each for each in sorted(tmp_path.iterdir()) if each.name != "data"] == before


def bags_of_words(path, columns, seed):
    """A graph of two groups, whose members use other words and link among themselves."""
    drawn = np.random.default_rng(seed)
    y = np.repeat([0, 1], 40)
    x = drawn.random((80, columns)) < np.where(np.arange(columns) % 2 == y[:, None], 0.3, 0.1)
    ends = drawn.integers(0, 40, (2, 300)) + 40 * drawn.integers(0, 2, 300)
    np.savez(path, edges=ends.T, node_features=x.astype(np.float32), node_labels=y)
    return str(path)


@pytest.fixture
def of_rows(tmp_path):
    """A run on rows that are made to sum to 1."""
    data = {"name": bags_of_words(tmp_path / "words.npz", 12, 0), "features": "row"}
    recipe = {"dataset": data, "model": {"name": "gcn", "dim": 8}, "train": {"epochs": 5},
              "seeds": [0]}  # fmt: skip
    return zoo.run_recipe(recipe, runs=tmp_path / "first")["folder"]


def test_other_columns_are_read_as_they_are_and_trained_from_scratch_too(
    command, tmp_path, of_rows
):
    other = bags_of_words(tmp_path / "others.npz", 9, 1)
    code, out, err = command("finetune", of_rows, "--data", other, "train.epochs=9", "--json")
    assert code == 0 and "others.npz has other features than the weights" in err
    kept = json.loads(out)
    both = [kept, kept["other_run"]]
    assert kept["val"]["mean"] >= both[1]["val"]["mean"]
    names = {"gcn-others-finetuned", "gcn-others-from-scratch"}
    assert {each["recipe"] for each in both} == names
    recipes = [zoo.load_recipe(Path(each["folder"]) / "recipe.yaml") for each in both]
    assert {each.dataset.get("features", "raw") for each in recipes} == {"raw"}
    assert recipes[0].train == recipes[1].train and recipes[0].seeds == recipes[1].seeds
    assert sorted(each.start_from is None for each in recipes) == [False, True]
    words = ("train.epochs=9", "train.lr=0.0001")
    code, out, err = command("finetune", of_rows, "--data", other, *words, "--json")
    kept = json.loads(out)
    rates = {each["recipe"]: zoo.load_recipe(Path(each["folder"]) / "recipe.yaml").train["lr"]
             for each in (kept, kept["other_run"])}  # fmt: skip
    assert rates["gcn-others-finetuned"] == 0.0001 < rates["gcn-others-from-scratch"]
    code, out, err = command("finetune", of_rows, "--data", other, "train.epochs=9")
    assert re.search("By validation (the better one is|level are)", out) and "from-scratch" in out


@pytest.mark.parametrize("word", ["--beside=nothing", "--freeze=backbone"])
def test_no_twin_where_none_is_wanted(word, command, tmp_path, of_rows):
    other = bags_of_words(tmp_path / "others.npz", 9, 1)
    words = ("finetune", of_rows, "--data", other, word, "train.epochs=2", "--json")
    code, out, err = command(*words)
    assert code == 0 and "other_run" not in json.loads(out)
    assert "others.npz has other features than the weights" in err
    assert len([*(tmp_path / "runs").iterdir()]) == 1


def test_the_same_columns_are_read_as_those_of_the_weights(command, tmp_path, of_rows):
    other = bags_of_words(tmp_path / "others.npz", 12, 1)
    code, out, _ = command("finetune", of_rows, "--data", other, "train.epochs=2", "--json")
    summary = json.loads(out)
    assert code == 0 and "other_run" not in summary
    assert zoo.load_recipe(Path(summary["folder"]) / "recipe.yaml").dataset["features"] == "row"


def test_what_is_asked_for_is_done_to_other_columns(command, tmp_path, of_rows):
    spec = f"{{name: {bags_of_words(tmp_path / 'others.npz', 9, 1)}, features: standard}}"
    words = ("finetune", of_rows, "--data", spec, "--beside=nothing", "train.epochs=2", "--json")
    summary = json.loads(command(*words)[1])
    written = zoo.load_recipe(Path(summary["folder"]) / "recipe.yaml").dataset["features"]
    assert written == "standard"


def test_weights_are_scored_as_loaded_only_where_all_of_them_are(command, tmp_path, of_rows):
    """With a stem of chance the best of 16 nodes is chance too."""
    for columns, scored in ((12, True), (9, False)):
        other = bags_of_words(tmp_path / f"others-{columns}.npz", columns, 1)
        still = ("train.epochs=2", "train.lr=1e-12")
        out = command("finetune", of_rows, "--data", other, "--beside=nothing", *still, "--json")[1]
        assert (json.loads(out)["seeds"][0]["epoch"] == -1) == scored
