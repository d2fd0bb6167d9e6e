"""Reading recipes: what is understood, what is refused, and in which words."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pydantic
import pytest
import yaml

import zoo.config.recipe
from zoo.config.json_schema import json_schema, options_schema, recipe_schema
from zoo.config.options import (
    Count,
    Positive,
    Rate,
    Spec,
    Table,
    option_problems,
    problems,
)
from zoo.config.overrides import in_the_shell, need_values
from zoo.config.recipe import read_recipe, recipe_text
from zoo.config.shipped import recipe_file, recipe_names
from zoo.config.yaml_lines import read_value
from zoo.errors import Problem, ZooError

SAMPLE = """\
# SGFormer on Cora, its attention in random batches of 512 nodes.
dataset: {name: cora, split: per-class-20}
encoding: {name: laplacian, k: 8}
model:
  name: sgformer
  dim: 64
  attention: {name: rba, size: 512}
  propagation: gcn
train: {epochs: 500, lr: 0.01, weight_decay: 5e-4, patience: 200}
seeds: [0, 1, 2, 3, 4]
expect: {test: 0.845, within: 0.015, source: "SGFormer paper, table 2"}
"""

SHORT = {"dataset": "cora", "model": {"name": "sgformer", "dim": 64}}


def softmax():
    """Do nothing: only the signature matters here."""


ATTENTIONS = Table("attention", {"softmax": softmax})


def rba(*, size: Count = 256, inner: Annotated[Spec, ATTENTIONS] = "softmax"):
    """Do nothing."""


def gcn():
    """Do nothing."""


def cora(*, split: str = "public"):
    """Do nothing."""


def laplacian(*, k: Count):
    """Do nothing."""


ATTENTIONS["rba"] = rba
PROPAGATIONS = Table("propagation", {"gcn": gcn})


def sgformer(
    *,
    dim: Count = 64,
    dropout: Rate = 0.5,
    attention: Annotated[Spec, ATTENTIONS] = "softmax",
    propagation: Annotated[Spec, PROPAGATIONS] = "gcn",
):
    """Do nothing."""


def fit(*, epochs: Count = 1, lr: Positive = 0.01, weight_decay: float = 0.0, patience: Count = 9):
    """Do nothing."""


TABLES = {
    "dataset": Table("dataset", {"cora": cora}),
    "encoding": Table("encoding", {"none": gcn, "laplacian": laplacian}),
    "model": Table("model", {"sgformer": sgformer}),
}


def check(data: dict) -> list[Problem]:
    found = [
        problem
        for key, table in TABLES.items()
        if key in data
        for problem in problems(table, data[key], (key,))
    ]
    if isinstance(data.get("train", {}), dict):
        found += option_problems("train", fit, data.get("train", {}), ("train",))
    return found


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a recipe into the working folder, where errors call it by its bare name."""
    monkeypatch.chdir(tmp_path)

    def written(text: str | bytes, name: str = "r.yaml") -> str:
        content = text.encode() if isinstance(text, str) else text
        (tmp_path / name).write_bytes(content)
        return name

    return written


def refusal(*arguments, **options) -> str:
    with pytest.raises(ZooError) as caught:
        read_recipe(*arguments, **options)
    return str(caught.value)


def test_sample_is_read_as_written(write):
    recipe = read_recipe(write(SAMPLE, "sgformer-cora.yaml"), check=check)
    assert recipe.name == "sgformer-cora"
    assert recipe.path == Path("sgformer-cora.yaml")
    assert recipe.dataset == {"name": "cora", "split": "per-class-20"}
    assert recipe.encoding == {"name": "laplacian", "k": 8}
    assert recipe.model["attention"] == {"name": "rba", "size": 512}
    assert recipe.train["weight_decay"] == 0.0005
    assert recipe.seeds == [0, 1, 2, 3, 4]
    assert recipe.expect.source == "SGFormer paper, table 2"
    assert recipe.verified is None
    assert recipe.imports == []


def test_optional_keys_have_defaults():
    recipe = read_recipe({"dataset": "cora", "model": "sgformer"}, check=check)
    assert (recipe.encoding, recipe.train, recipe.seeds) == (None, {}, [0])
    assert (recipe.expect, recipe.imports) == (None, [])
    assert (recipe.name, recipe.path) == ("recipe", None)


def test_verified_is_a_measurement():
    measured = {"test": 0.84, "std": 0.01, "seeds": [0, 1], "date": "2024-05-01"}
    recipe = read_recipe({**SHORT, "verified": measured})
    assert recipe.verified.seeds == [0, 1] and recipe.expect is None
    assert recipe.plain()["verified"] == {
        **measured,
        **dict.fromkeys(("metric", "threads", "seconds", "gpu", "versions", "sha256")),
    }


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("5e-4", 0.0005),
        ("1e-3", 0.001),
        ("1.", 1.0),
        (".5", 0.5),
        ("-.5E+2", -50.0),
        ("1.0", 1.0),
        ("-.inf", -float("inf")),
        ("007", 7),
        ("-12", -12),
        ("0x1F", 31),
        ("0o17", 15),
        ("1_000", "1_000"),
        ("true", True),
        ("false", False),
        ("on", "on"),
        ("off", "off"),
        ("yes", "yes"),
        ("No", "No"),
        ("y", "y"),
        ("12:30:45", "12:30:45"),
        ("2024-05-01", "2024-05-01"),
        ("2024-05-01 10:00:00", "2024-05-01 10:00:00"),
        ("=", "="),
        ("null", None),
        ("~", None),
        ("", None),
        ("'5e-4'", "5e-4"),
        ('"true"', "true"),
        ("per-class-20", "per-class-20"),
        ("9" * 6000, "9" * 6000),
        ("[1, a, {b: 2.5}]", [1, "a", {"b": 2.5}]),
        ("|\n    two\n    lines\n", "two\nlines\n"),
    ],
)
def test_yaml_words_mean_what_they_look_like(write, written, meant):
    if not written.startswith("|"):  # a block needs its key
        assert (read_value(written), type(read_value(written))) == (meant, type(meant))
    recipe = read_recipe(write(f"dataset: x\nmodel:\n  name: m\n  option: {written}\n"))
    read = recipe.model["option"]
    assert (read, type(read)) == (meant, type(meant))
    assert read_recipe(write(recipe.text())).plain() == recipe.plain()


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[1, 2", "expected ',' or ']'"),
        ("{a: 1, a: 2}", "a: written twice"),
        ("{5: 1}", "'5' is no key"),
        ("!x 1", "the tag !x is not read"),
        ("&x 1", "anchors (&)"),
        ("a: b: c", "mapping values"),
    ],
)
def test_a_value_of_the_command_line_is_refused_as_one_of_a_recipe(written, said):
    with pytest.raises(ZooError) as caught:
        read_value(written)
    assert said in str(caught.value) and written in str(caught.value)


BROKEN = [
    ("dataset: cora\nmodel: {name: sgformer, dimm: 5}", "r.yaml:2: model.dimm", "'dim'"),
    (SAMPLE.replace("size: 512", "sise: 512"), "r.yaml:7: model.attention.sise", "'size'"),
    (SAMPLE.replace("dim: 64", "dim: 64.5"), "r.yaml:6: model.dim", "integer"),
    (SAMPLE.replace("dim: 64", "dim: true"), "r.yaml:6: model.dim", "not True"),
    (SAMPLE.replace("dim: 64", "dim: '64'"), "r.yaml:6: model.dim", "not '64'"),
    (SAMPLE.replace("dim: 64", "dim: 0"), "r.yaml:6: model.dim", "greater than or equal to 1"),
    (SAMPLE.replace("gcn", "gnc"), "r.yaml:8: model.propagation", "did you mean 'gcn'"),
    (
        SAMPLE.replace("laplacian, k: 8", "laplacian"),
        "r.yaml:3: encoding.k",
        "needs the option 'k'",
    ),
    (SAMPLE.replace("name: cora", "name: coar"), "r.yaml:2: dataset.name", "'cora'"),
    ("model: sgformer", "r.yaml:1: dataset: is missing", "write `dataset: ...`"),
    ("dataset: cora\nmodel: 5", "r.yaml:2: model", "write a word"),
    ("dataset: cora\nmodel:", "r.yaml:2: model", "write a word"),
    ("dataset: cora\nmodel: {dim: 5}", "r.yaml:2: model", "`name` is missing"),
    ("dataset: cora\nmodel: sgformer\ntrian: {}", "r.yaml:3: trian", "did you mean 'train'?"),
    ("dataset: cora\nmodel: sgformer\nname: x", "r.yaml:3: name", "a recipe has no key 'name'"),
    ("dataset: cora\nmodel: sgformer\npath: x", "r.yaml:3: path", "a recipe has no key 'path'"),
    ("dataset: cora\nmodel: sgformer\nlr: 1", "r.yaml:3: lr", "write `train.lr`"),
    ("dataset: cora\nmodel: sgformer\ntrain: 5", "r.yaml:3: train", "write a mapping", "not 5"),
    ("dataset: cora\nmodel: sgformer\nseeds: 3", "r.yaml:3: seeds", "such as [0,1,2]"),
    ("dataset: cora\nmodel: sgformer\nseeds: []", "r.yaml:3: seeds", "at least one seed"),
    ("dataset: cora\nmodel: sgformer\nseeds: [1, 1]", "r.yaml:3: seeds", "each once"),
    ("dataset: cora\nmodel: sgformer\nseeds:\n- 1\n- -1", "r.yaml:5: seeds.1", "not -1"),
    ("dataset: cora\nmodel: sgformer\nimports: a.py", "r.yaml:3: imports", "valid list"),
    (SAMPLE.replace("0.845", "84.5"), "r.yaml:11: expect.test", "less than or equal to 1"),
    (SAMPLE.replace("within: 0.015,", ""), "r.yaml:11: expect.within: is missing"),
    (SAMPLE.replace("within", "witin"), "r.yaml:11: expect.witin", "did you mean 'within'?"),
    (SAMPLE + "verified: {date: 1.5.24}\n", "r.yaml:12: verified.date"),
    (SAMPLE + "expect: {}", "r.yaml:12: expect: written twice, on lines 11 and 12"),
    (SAMPLE.replace("dim:", "dim: 5\n  dim:"), "r.yaml:7: model.dim", "on lines 6 and 7"),
    (SAMPLE.replace("dim: 64", "5: 64"), "r.yaml:6: model: '5' is no key", "a key is a plain word"),
    (
        "dataset: cora\n? [a, b]\n: 5",
        "r.yaml:2: a list or mapping is no key",
        "a key is a plain word",
    ),
    (
        "dataset: cora\nmodel: {<<: {a: 1}}",
        "r.yaml:2: model: '<<' is no key",
        "a key is a plain word",
    ),
    ("dataset: &d cora\nmodel: *d", "r.yaml:1:", "anchors (&) and aliases (*)"),
    ("dataset: cora\nmodel: *d", "r.yaml:2:", "anchors (&) and aliases (*)"),
    ("dataset: !!python/object:os.system x", "r.yaml:1:", "tag !!python/object:os.system"),
    ("dataset: !mine x", "r.yaml:1:", "the tag !mine is not read"),
    ("dataset: cora\n---\nmodel: x", "r.yaml:2:", "found another document"),
    ("", "r.yaml:1:", "the file is empty"),
    ("# only a comment\n", "r.yaml:1:", "the file is empty"),
    ("\n- dataset\n", "r.yaml:2:", "the file holds a list"),
    ("cora", "r.yaml:1:", "the file holds 'cora'"),
    ("dataset: cora\nmodel:\n\tname: x", "r.yaml:3:", "indent with spaces"),
    ("dataset: cora\nmodel: {name: x", "r.yaml:2:", "expected ',' or '}'"),
    ("dataset: cora\nmodel: a: b", "r.yaml:2:", "mapping values are not allowed here"),
    ("dataset: 'cora", "r.yaml:1:", "quoted scalar"),
    ("dataset: cora\nmodel: \x07", "r.yaml:2:", "U+0007"),
    (b"dataset: cora\nmodel: \xff", "r.yaml:2:", "UTF-8"),
    ("dataset: cora".encode("utf-16"), "r.yaml:1:", "UTF-8"),
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken[1])
def test_broken_recipe_says_where_and_what(write, broken):
    text, *words = broken
    message = refusal(write(text), check=check)
    assert all(word in message for word in words), message


def test_every_problem_comes_out_at_once_in_order(write):
    text = SAMPLE.replace("dim: 64", "dimm: 64").replace("laplacian", "laplacain")
    text = text.replace("epochs: 500", "epoch: 0").replace("0.015", "-1").replace("seeds", "seed")
    message = refusal(write(text), check=check)
    heading, *lines = message.splitlines()
    assert heading == "recipe r.yaml has 5 problems:"
    starts = [line.split(": ")[:2] for line in lines]
    assert starts == [
        ["r.yaml:3", "encoding.name"],
        ["r.yaml:6", "model.dimm"],
        ["r.yaml:9", "train.epoch"],
        ["r.yaml:10", "seed"],
        ["r.yaml:11", "expect.within"],
    ]


def test_structure_and_check_do_not_say_the_same_thing_twice(write):
    message = refusal(write("dataset: 5\nmodel: {dim: 5}\nencoding: [a]"), check=check)
    assert len(message.splitlines()) == 4, message
    assert "choose from cora" in message


def keys_of(data: dict, path: tuple = ()) -> list[tuple]:
    inner = [
        each
        for key, value in data.items()
        if isinstance(value, dict)
        for each in keys_of(value, (*path, key))
    ]
    return [(*path, key) for key in data] + inner


def sample_data() -> dict:
    return yaml.safe_load(SAMPLE.replace("5e-4", "0.0005"))


@pytest.mark.parametrize("path", keys_of(sample_data()), ids=".".join)
def test_misspelt_key_is_answered_with_the_right_one(path):
    data = sample_data()
    holder = data
    for key in path[:-1]:
        holder = holder[key]
    right = path[-1]
    wrong = right + right[-1]
    holder[wrong] = holder.pop(right)
    message = refusal(data, check=check)
    line = next(line for line in message.splitlines() if wrong in line or "`name`" in line)
    assert f"did you mean '{right}'?" in line or right == "name", message


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("train.epochs=50", ("train", "epochs"), 50),
        ("train.lr=5e-4", ("train", "lr"), 0.0005),
        ("model.attention=rba", ("model", "attention"), "rba"),
        ("model.attention.size=128", ("model", "attention", "size"), 128),
        (
            "model.attention.inner.name=softmax",
            ("model", "attention", "inner"),
            {"name": "softmax"},
        ),
        ("model={name: sgformer, dim: 8}", ("model",), {"name": "sgformer", "dim": 8}),
        ("seeds=[0,1]", ("seeds",), [0, 1]),
        ("encoding=none", ("encoding",), "none"),
        ("expect=", ("expect",), None),
        ("expect.source=a=b", ("expect", "source"), "a=b"),
        (" train.epochs = 50 ", ("train", "epochs"), 50),
        ("expect.source=%d.%m.%Y", ("expect", "source"), "%d.%m.%Y"),
        ("expect.source=,", ("expect", "source"), ","),
        ("search.train.lr=[1, 2]", ("search", "train.lr"), [1, 2]),
        ("expect.source=|", ("expect", "source"), "|"),
        ("expect.source='|'", ("expect", "source"), "|"),
    ],
)
def test_override_sets_one_value(write, override, path, value):
    recipe = read_recipe(write(SAMPLE), [override], check=check)
    found = recipe.model_dump()
    for key in path:
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("hint", "typed"),
    [
        ("date_format: '%d.%m.%Y'", "date_format=%d.%m.%Y"),
        ("separator: ','", "separator=,"),
        ("separator: ';'", "separator=';'"),
        ("columns: [total price, age]", "columns='total price,age'"),
        ("label: 'a: b'", "label=\"'a: b'\""),
        ("unknown: '1'", "unknown=\"'1'\""),
        ("unknown: ''", "unknown=\"''\""),
        ("graph: {name: knn, k: 5}", "graph='{name: knn, k: 5}'"),
        ("columns: [...]", "columns=..."),
    ],
)
def test_a_hint_for_the_shell_says_what_the_recipe_would(hint, typed):
    assert in_the_shell(f"write `{hint}`.") == f"write `{typed}`."
    if "..." not in hint and "[" not in hint:
        [word] = shlex.split(typed)
        assert read_value(word.partition("=")[2]) == yaml.safe_load(hint)[word.partition("=")[0]]


def test_a_word_without_its_value_is_one_too_many():
    with pytest.raises(ZooError, match="runs/b is a name too many"):
        need_values(["label=a", "runs/b"])


def test_override_below_a_word_makes_it_a_mapping():
    data = {"dataset": "cora", "model": {"name": "sgformer", "attention": "rba"}}
    recipe = read_recipe(data, ["model.attention.size=128", "dataset.split=random"], check=check)
    assert recipe.model["attention"] == {"name": "rba", "size": 128}
    assert recipe.dataset == {"name": "cora", "split": "random"}
    assert data["model"]["attention"] == "rba"


def test_override_of_a_mapping_replaces_it_and_the_last_one_holds(write):
    name = write(SAMPLE)
    recipe = read_recipe(name, ["model.attention=rba", "train.epochs=5", "train.epochs=6"])
    assert recipe.model["attention"] == "rba"
    assert recipe.train["epochs"] == 6
    recipe = read_recipe({"dataset": "cora", "model": "sgformer"}, ["train.epochs=5"])
    assert recipe.train == {"epochs": 5}
    options = ["dataset.label=kind", "dataset=mine", "dataset.split=ids"]
    assert read_recipe(name, options).dataset == {"name": "mine", "label": "kind", "split": "ids"}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("train.epochs", ["KEY=VALUE"]),
        ("=5", ["KEY=VALUE"]),
        ("dataset.separator= ", ["' ' is nothing in YAML", "dataset.separator='\" \"'"]),
        ("dataset.separator=#", ["'#' is nothing in YAML"]),
        ("a..b=1", ["KEY=VALUE"]),
        (".a=1", ["KEY=VALUE"]),
        ("", ["KEY=VALUE"]),
        ("model.\x1b=1", ["KEY=VALUE"]),
        ("train.epochs=[1", ["expected ',' or ']'"]),
        ("train.epochs=*x", ["aliases"]),
        ("train.epochs=a: b: c", ["mapping values"]),
        ("train.epochs=many", ["train.epochs", "integer", "not 'many'"]),
        ("train.epoch=5", ["train.epoch", "did you mean 'epochs'?"]),
        ("train=5", ["train", "write a mapping"]),
        ("trian.epochs=5", ["trian", "did you mean 'train'?"]),
        ("seeds.0=5", ["seeds is [0, 1, 2, 3, 4]"]),
        ("model.dim.size=5", ["model.dim is 64"]),
        ("model.attention=rab", ["model.attention", "did you mean 'rba'?"]),
        ("model.attention.sise=5", ["model.attention.sise", "did you mean 'size'?"]),
        ("expect.test=yes", ["expect.test", "not 'yes'"]),
        ("train={epochs: 1, epochs: 2}", ["train.epochs", "written twice"]),
    ],
)
def test_bad_override_is_named_instead_of_a_line(write, override, words):
    message = refusal(write(SAMPLE), [override], check=check)
    _, line = message.splitlines()
    assert line.startswith(f"override {override!r}: "), message
    assert all(word in line for word in words), message


def test_problems_of_the_file_and_of_overrides_come_together(write):
    text = SAMPLE.replace("dim: 64", "dimm: 64")
    message = refusal(write(text), ["train.epochs=0", "oops", "seeds=[0, 0]"], check=check)
    lines = [line.split(": ")[0] for line in message.splitlines()[1:]]
    expected = ["'train.epochs=0'", "'oops'", "'seeds=[0, 0]'"]
    assert lines == ["r.yaml:6", *[f"override {each}" for each in expected]]


def test_word_under_an_override_keeps_its_own_line(write):
    text = "dataset: cora\nmodel: sgfomer\n"
    message = refusal(write(text), ["model.dim=8"], check=check)
    assert "r.yaml:2: model.name: no model is called 'sgfomer'" in message


def test_overrides_are_a_list():
    assert "write ['train.epochs=5']" in refusal(SHORT, "train.epochs=5")


def test_recipe_is_frozen_and_owns_its_data():
    data = {"dataset": "cora", "model": {"name": "sgformer", "attention": {"name": "rba"}}}
    recipe = read_recipe(data)
    data["model"]["attention"]["name"] = "changed"
    assert recipe.model["attention"] == {"name": "rba"}
    for key in ("model", "name", "path"):
        with pytest.raises(pydantic.ValidationError):
            setattr(recipe, key, "other")


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", object(), Path("x")], ids=type)
def test_mapping_of_what_no_file_could_hold_is_refused(value):
    message = refusal({"dataset": "cora", "model": {"name": "sgformer", "dim": [value]}})
    assert f"type {type(value).__name__} is not JSON" in message and "lists and map" in message


def test_mapping_may_hold_tuples():
    assert read_recipe({**SHORT, "seeds": (1, 2)}).seeds == [1, 2]


AWKWARD = ["", "a: b", "# x", "null", "5e-4", "yes", "true", "12:30", "<<", "two\nlines", " space "]
AWKWARD += [
    "'",
    '"',
    "*x",
    "&x",
    "!x",
    "\t",
    "é\x85\u2028",
    "\x07",
    "😀",
    "---",
    "long " * 60,
    "0x1F",
]


@pytest.mark.parametrize("text", AWKWARD, ids=ascii)
def test_awkward_text_survives_writing_and_reading(write, text):
    shared = [text, 1e-5, 1e300, {"x": None}]
    recipe = read_recipe({**SHORT, "train": {"a": shared, "b": shared, "c": text, "d": {"e": {}}}})
    assert read_recipe(write(recipe.text())).plain() == recipe.plain()


def test_text_is_nice_to_read(write):
    lines = read_recipe(write(SAMPLE)).text().splitlines()
    assert lines[0] == "dataset: {name: cora, split: per-class-20}"
    assert "  attention: {name: rba, size: 512}" in lines
    assert len(lines) == len(SAMPLE.splitlines()) - 1
    assert recipe_text({"a": {"b": 5e-4, "c": "5e-4"}, "d": []}) == (
        "a: {b: 0.0005, c: '5e-4'}\nd: []\n"
    )


def test_missing_file_and_folder(tmp_path):
    assert "does not exist" in refusal("nowhere/x.yaml")
    assert "does not exist" in refusal(tmp_path / "x")
    assert "does not exist" in refusal("a\0b.yaml")
    assert "does not exist" in refusal("x" * 5000 + ".yaml")
    assert "is a folder" in refusal(tmp_path)
    assert "is a folder" in refusal(".")


def test_data_or_a_run_in_the_place_of_a_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my nodes.csv").write_text("id,label\n")
    assert "`zoo data check 'my nodes.csv'`" in refusal("my nodes.csv")
    (tmp_path / "run").mkdir()
    assert "dataset=run` trains a model on it" in refusal("run")
    (tmp_path / "run" / "recipe.yaml").write_text(SAMPLE)
    assert "is a run: its recipe is run/recipe.yaml" in refusal("run")


def test_byte_order_mark_and_windows_line_ends_are_read(write):
    text = "\ufeff" + SAMPLE.replace("\n", "\r\n")
    assert read_recipe(write(text)).plain() == read_recipe(write(SAMPLE)).plain()


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    folder = tmp_path / "recipes"
    folder.mkdir()
    for model in ("sgformer", "gcn"):
        (folder / model).mkdir()
        (folder / model / f"{model}-cora.yaml").write_text(SAMPLE)
    monkeypatch.setattr("zoo.config.shipped.recipe_folder", lambda: folder)
    return folder


def test_shipped_recipe_is_called_by_its_word(shipped):
    assert recipe_names() == ["gcn-cora", "sgformer-cora"]
    assert recipe_file("gcn-cora") == shipped / "gcn" / "gcn-cora.yaml"
    assert read_recipe("sgformer-cora").name == "sgformer-cora"
    (shipped / "gcn" / "gcn-cora.yaml").write_text("dataset: cora\nmodle: x")
    assert "\ngcn-cora.yaml:2: modle: " in refusal("gcn-cora")


@pytest.mark.parametrize(
    "name", ["sgformer-coar", "sgformer-coar.yaml", "other/sgformer-coar.yaml"]
)
def test_unknown_recipe_is_answered_with_the_nearest(shipped, name):
    with pytest.raises(ZooError, match="did you mean 'sgformer-cora'?") as caught:
        recipe_file(name)
    assert ("does not exist" in str(caught.value)) == name.endswith(".yaml")


@pytest.mark.parametrize("where", ["beside", "inside"])
def test_shipped_recipes_are_found_in_a_checkout_and_in_a_wheel(tmp_path, where):
    package = tmp_path / "zoo"
    package.mkdir()
    source = Path(zoo.config.recipe.__file__).parents[1]
    shutil.copy(source / "__init__.py", package)
    shutil.copy(source / "errors.py", package)
    shutil.copytree(source / "config", package / "config")
    folder = {"beside": tmp_path / "recipes", "inside": package / "recipes"}[where]
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "a-b.yaml").write_text(SAMPLE)
    script = (
        "from zoo.config.recipe import read_recipe; from zoo.config.shipped import recipe_names; "
        "print(recipe_names(), read_recipe('a-b').name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "['a-b'] a-b\n"


def test_import_is_quick_because_torch_stays_out():
    script = "import sys, zoo.config.recipe; print({'torch', 'dgl', 'numpy'} & set(sys.modules))"
    root = Path(zoo.config.recipe.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def test_schema_of_a_recipe_holds_those_of_the_tables():
    given = {key: json_schema(table) for key, table in TABLES.items()}
    schema = recipe_schema({**given, "train": options_schema(fit)})
    assert json.loads(json.dumps(schema)) == schema
    assert schema["required"] == ["dataset", "model"]
    [searched] = schema["properties"]["search"]["patternProperties"]
    asked = ("train.lr", "dataset.noise", "dataset.split", "dataset.split.train", "dataset.name")
    assert [each for each in asked if re.search(searched, each)] == ["train.lr", "dataset.noise"]
    assert schema["additionalProperties"] is False
    assert set(schema["properties"]) == set(read_recipe(SHORT).model_dump())
    assert all(each["description"] for each in schema["properties"].values())
    assert schema["properties"]["model"]["$ref"] == "#/$defs/model"
    assert schema["properties"]["train"]["properties"]["epochs"]["minimum"] == 1
    assert {"dataset", "encoding", "model", "attention", "propagation"} <= set(schema["$defs"])
    assert "$defs" not in schema["properties"]["model"]
    assert "attention" in given["model"]["$defs"], "the tables' own schemas are left as they were"


def test_a_number_above_1_is_a_mean_squared_error():
    expect = {"test": 84.5, "within": 2.5, "source": "a paper"}
    assert read_recipe({**SHORT, "expect": {**expect, "metric": "mse"}}).expect.test == 84.5
    with pytest.raises(ZooError, match="or `metric: mse` beside it"):
        read_recipe({**SHORT, "expect": expect})
