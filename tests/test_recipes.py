"""Every shipped recipe loads and refuses each misspelt key; one of each kind runs two epochs."""

import copy
import json
import re

import numpy as np
import pytest
import yaml
from quick import every
from sentences import write_pairs

from zoo.config.recipe import word
from zoo.config.scores import gain, is_reached
from zoo.config.shipped import recipe_file, recipe_names
from zoo.data.load.named import MOLECULES
from zoo.errors import ZooError
from zoo.runs.resolve import load_recipe, remarks_on_dataset, write_out
from zoo.runs.run import run_recipe

each_recipe = pytest.mark.parametrize("name", recipe_names())


def kind(settings):
    """What is left of settings without the sizes of their numbers."""
    if isinstance(settings, dict):
        return sorted((key, kind(each)) for key, each in settings.items())
    if isinstance(settings, bool) or not re.fullmatch(r"[\d.]+(e-?\d+)?", str(settings)):
        return str(settings)
    return float(settings) > 0


def kind_of(name):
    content = yaml.load(recipe_file(name).read_text(), yaml.CSafeLoader)
    return str([kind(content.get(key)) for key in ("model", "train", "encoding", "graph", "task")])


OF_EACH_KIND = sorted({kind_of(name): name for name in reversed(recipe_names())}.values())
"""Recipes of which no two have the same options, but for the sizes of numbers."""

FIRST = {recipe_file(name).parent: name for name in reversed(recipe_names())}
"""One recipe of each model, which is trained twice, to the same scores."""

KNOWN_AS = {"gin": "gine", "deepsets": "mlp"}
"""What a model is called in the field where it does not see features of edges, or any edges."""

TINY = {"name": "sbm", "nodes": 60, "classes": 3, "dim": 8, "split": "ratio-50-25-25"}
FEW = {"name": "ratio", "train": 4, "val": 4, "test": 4}
TINY_OF = {"samples": {"name": "digits-images", "patch": 4, "split": FEW}}
"""By the mini-batch strategy, where the data are not the nodes of one graph."""


def tiny(recipe, folder):
    """A data set of the kind that a recipe is for, by its words and its mini-batch strategy."""
    if word(recipe["dataset"]) in MOLECULES:
        pytest.importorskip("rdkit")
        rows = [f"{'C' * (1 + n % 9)}O,{n % 2}" for n in range(80)]
        path = folder / "molecules.csv"
        path.write_text("\n".join(["smiles,label", *rows]))
        return {"name": str(path)}
    if word(recipe["train"].get("batching", "full")) == "tokens":
        return {"name": str(write_pairs(folder / "numbers-en-de")), "vocabulary": 300}
    if word(recipe["train"].get("batching", "full")) == "snapshots":
        path = folder / "few.json"
        values = np.random.default_rng(0).normal(size=(30, 4)).tolist()
        path.write_text(json.dumps({"edges": [[0, 1], [1, 2], [2, 3]], "FX": values}))
        return {"name": str(path), "lags": 4}
    return TINY_OF.get(word(recipe["train"].get("batching", "full")), TINY)


def raw(name):
    """The file's content; a day is text in a recipe, as it is in JSON."""
    return json.loads(json.dumps(yaml.safe_load(recipe_file(name).read_text()), default=str))


@each_recipe
def test_it_loads_and_is_complete(name):
    recipe = load_recipe(name)
    lines = recipe_file(name).read_text().splitlines()
    assert lines[0].startswith("# ") and lines[0].endswith(".") and len(lines) <= 30
    word = recipe.model if isinstance(recipe.model, str) else recipe.model["name"]
    first, _, rest = name.partition("-")
    known = f"{KNOWN_AS.get(first, first)}-{rest}"
    assert known.startswith(word.partition("-seq2seq")[0] + "-")
    assert write_out(load_recipe(write_out(recipe))) == write_out(recipe)


@pytest.mark.parametrize("name", every(OF_EACH_KIND, 8))
def test_two_epochs_run_on_a_tiny_graph(name, tmp_path):
    data = copy.deepcopy(load_recipe(name).plain())
    small = {"dim": 8} if "dim" in data["model"] else {}
    data["dataset"] = tiny(data, tmp_path)
    data["model"] = {**data["model"], **small}
    data["train"] = {**data["train"], "epochs": 2}
    data["seeds"] = [0]
    times = 2 if name in FIRST.values() else 1
    summaries = [run_recipe(data, runs=tmp_path, device="cpu") for _ in range(times)]
    scores = [[row["val"] for row in each["seeds"]] for each in summaries]
    assert scores[0] == scores[-1] and 0 <= scores[0][0] <= (
        1 if summaries[0]["metric"] != "mse" else 9
    )


def keys_of(data, path=()):
    for key, value in data.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from keys_of(value, (*path, key))


@pytest.mark.parametrize("name", every(recipe_names(), 3))
def test_each_misspelt_key_is_refused_with_the_right_word(name):
    content = raw(name)
    for path in keys_of(content):
        if path[-1] == "name" or "versions" in path[:-1]:  # of packages, whatever they are called
            continue
        data = copy.deepcopy(content)
        place = data
        for key in path[:-1]:
            place = place[key]
        right = path[-1]
        wrong = right[:-1] + "x" if len(right) < 4 else right[0] + right[2] + right[1] + right[3:]
        if wrong == right:
            wrong = right + "x"
        place[wrong] = place.pop(right)
        with pytest.raises(ZooError) as caught:
            load_recipe(data)
        assert wrong in str(caught.value) and right in str(caught.value), path


def changed(recipe, published):
    """Each setting of a recipe that another one has otherwise, and its value."""
    for part in ("dataset", "model", "train"):
        ours, theirs = getattr(recipe, part), getattr(published, part)
        for key in ours.keys() | theirs.keys():
            if ours.get(key) != theirs.get(key):
                yield key, ours.get(key)


@pytest.mark.parametrize("name", [each for each in recipe_names() if each.endswith("-small")])
def test_a_small_recipe_says_each_setting_that_is_not_the_published_one(name):
    recipe = load_recipe(name)
    said = set(re.findall(r"[\w.]*\w", " ".join(recipe.differs).lower()))
    for key, value in changed(recipe, load_recipe(name.removesuffix("-small"))):
        number = isinstance(value, int | float) and not isinstance(value, bool) and value != 0
        word = str(value) if number else key.rpartition("_")[2]
        assert word in said or str(value) in said, f"{key}: {value}"


def test_a_verified_number_is_within_what_is_expected_or_says_why_it_is_not():
    for name in recipe_names():
        recipe = load_recipe(name)
        expect, found = recipe.expect, recipe.verified
        if found and expect:
            better = gain(expect.metric, found.test) - gain(expect.metric, expect.test)
            assert is_reached(better, expect.within) == (expect.missed is None), name
        if found:
            assert found.sha256 in (None, recipe.sha256), f"{name} was changed since"


def test_a_recipe_is_in_the_folder_of_its_model():
    for name in recipe_names():
        assert recipe_file(name).parent.name == word(load_recipe(name).model), name


def test_what_another_data_set_means_is_said():
    tuned, features, split = remarks_on_dataset("difformer-cora", ["dataset=karate"])
    assert "was tuned for cora" in tuned and "`features: row`" in features
    assert "`split: {name: per-class-20, seed: 123}`" in split
    overrides = ["dataset=karate", "dataset.features=row"]
    assert len(remarks_on_dataset("difformer-cora", overrides)) == 2
    assert remarks_on_dataset("difformer-cora", ["train.epochs=1"]) == []
    assert len(remarks_on_dataset("gcn-cora", ["dataset=karate"])) == 2
    assert remarks_on_dataset("gcn", ["dataset=karate"]) == []
    _, left = remarks_on_dataset("graphgps-bbbp", ["dataset=mine.csv"])
    assert remarks_on_dataset("gine-esol", ["dataset=mine.csv"])[-1].startswith("esol is measured")
    (_, _) = remarks_on_dataset("gine-esol", ["dataset=mine.csv", "train.metric=r2"])
    assert "`split: scaffold`" in left and "`dataset.split=scaffold`" in left


def test_a_file_of_ones_own_was_tuned_for_nothing(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("model: gcn\ndataset: {name: karate, features: row}\n")
    (left,) = remarks_on_dataset(str(path), ["dataset=digits"])
    assert "`features: row`" in left


def test_an_override_may_be_what_makes_a_recipe_right(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text("model: {name: nothing_of_the_sort}\ndataset: karate\ntrain: {epochs: many}\n")
    assert remarks_on_dataset(str(path), ["dataset=karate", "train.epochs=1"]) == []


@pytest.mark.parametrize("name", ["mine.py", "sub/mine.py"])
def test_a_file_of_code_is_no_recipe_but_is_named_in_one(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    (tmp_path / name).write_text("1 / 0\n")
    with pytest.raises(ZooError, match=rf"^{name} is code, .*`imports: \[{name}\]`, `model: WORD`"):
        load_recipe(name, trust=True)


@pytest.mark.parametrize(
    ("word", "meant", "recipe"),
    [
        ("sgfomer", "sgformer", "sgformer-cora"),
        ("SGFormer", "sgformer", "sgformer-cora"),
        ("nodeformr", "nodeformer", "nodeformer-cora"),
        ("gnc", "gcn", None),
        ("sgformer_cora", "sgformer", "sgformer-cora"),
        ("transformers", "transformer", "transformer-cora"),
    ],
)
@pytest.mark.parametrize("overrides", [[], ["dataset=karate"]])
def test_a_misspelt_word_is_answered_with_models_and_recipes(word, meant, recipe, overrides):
    with pytest.raises(ZooError, match="^no recipe or model is called") as caught:
        load_recipe(word, overrides)
    near = re.findall("'(.*?)'", str(caught.value).partition("did you mean")[2])
    assert meant in near and (recipe in near or recipe is None)
    assert (near[0] == meant) is (word != "sgformer_cora")  # the nearest comes first


def test_a_word_like_no_other_is_answered_with_the_list():
    with pytest.raises(ZooError, match="see `zoo list recipes`"):
        load_recipe("xqzzy", ["dataset=karate"])
