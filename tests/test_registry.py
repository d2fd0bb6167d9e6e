"""The registry: names, near misses, taken names, reloads, and models from other packages."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import torch
from preloaded import run_preloaded

from zoo import registry
from zoo.data.canonical import canonical
from zoo.errors import ZooError
from zoo.registry import MODELS, Model, name_of, register_model
from zoo.weights.create import create_model, list_models
from zoo.weights.index import index


@pytest.fixture(autouse=True)
def restored():
    list_models()
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)


SOURCE = """
import torch
from zoo import Model, register_model
from zoo.config.options import Count

@register_model("mine")
class Mine(Model):
    def __init__(self, in_dim, out_dim, *, dim: Count = 8):
        super().__init__()
        self.stem = torch.nn.Linear(in_dim, dim)
        self.head = torch.nn.Linear(dim, out_dim)

    def features(self, graph, x):
        return self.stem(x).relu()
"""


def load_file(path, name="a_module"):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_unknown_names_are_answered_with_near_ones():
    with pytest.raises(ZooError, match="did you mean 'sgformer'"):
        create_model("sgfomer", 5, 3)


@pytest.mark.parametrize(
    "options,words",
    [
        ({"dimm": 3}, "did you mean 'dim'"),
        ({"dim": 0}, "greater than or equal to 1"),
        ({"dim": "64"}, "integer"),
        ({"dim": True}, "integer"),
        ({"alpha": 1.5}, "less than or equal to 1"),
        ({"combine": "sum"}, "'add' or 'cat'"),
        ({"attention": {"name": "rba", "size": -1}}, "attention.size"),
        ({"dropout": float("nan")}, "dropout"),
    ],
)
def test_wrong_options_are_answered(options, words):
    with pytest.raises(ZooError, match=words):
        create_model("sgformer", 5, 3, **options)


@pytest.mark.parametrize("sizes", [(0, 3), (5, 0), (5, -1), (5.0, 3), ("5", 3)])
def test_wrong_sizes_are_answered(sizes):
    with pytest.raises(ZooError, match="in_dim|out_dim"):
        create_model("gcn", *sizes)


def test_a_model_remembers_how_it_was_made():
    model = create_model("gcn", 5, 3, dim=7)
    assert model.config == {"in_dim": 5, "out_dim": 3, "dim": 7}


def test_a_model_remembers_what_it_was_given_and_not_what_became_of_it():
    given = {"name": "rba", "size": 4}
    model = create_model("sgformer", 5, 3, attention=given)
    given["size"] = 8
    assert model.config["attention"]["size"] == 4


def test_two_models_of_one_function_have_a_name_each():
    def make(name):
        @register_model(name)
        class Made(Model):
            def __init__(self, in_dim: int, out_dim: int):
                super().__init__()
                self.head = torch.nn.Linear(in_dim, out_dim)

        return Made

    one, other = make("one"), make("other")
    assert (name_of(one), name_of(other)) == ("one", "other")


@pytest.mark.parametrize("name", ["transformer", "mlp", "gat", "gcn"])
def test_rows_that_are_not_those_of_the_nodes_are_refused(name):
    graph = canonical([[0, 1], [1, 2]], nodes=3)
    model = create_model(name, 4, 2)
    for _ in range(2):  # of a later call too
        model(graph, torch.randn(3, 4))
        with pytest.raises(ZooError, match=r"x is \(2, 4\), and has to be \(3, 4\)"):
            model(graph, torch.randn(2, 4))


def test_what_fails_without_a_graph_is_said():
    with pytest.raises(ZooError, match="x has 3 features per node"):
        create_model("difformer", 4, 2, use_graph=False)(None, torch.randn(9, 3))
    with pytest.raises(ZooError, match="was given None for one"):
        create_model("gcn", 4, 2)(None, torch.randn(9, 4))


def test_filters_agree_with_building():
    assert list_models("sg*") == ["sgformer"]
    assert set(list_models(attention="rba")) < set(list_models())
    for name in list_models():
        takes = name in list_models(attention="rba")
        try:
            create_model(name, 5, 5, attention="rba")
            built = True
        except ZooError:
            built = False
        assert built == takes
    assert "sgformer" in list_models(task="node-classification")
    with pytest.raises(ZooError, match="did you mean 'softmax'"):
        list_models(attention="softmx")
    with pytest.raises(ZooError, match="did you mean 'node-binary'"):
        list_models(task="node-binry")
    assert set(list_models(pretrained=True)) == {each.model for each in index().values()}
    assert sorted(list_models(pretrained=True) + list_models(pretrained=False)) == list_models()


def test_a_taken_name_names_both_places(tmp_path):
    (tmp_path / "other.py").write_text(SOURCE.replace("mine", "sgformer"))
    with pytest.raises(ZooError) as caught:
        load_file(tmp_path / "other.py")
    assert "sgformer.py:" in str(caught.value) and "other.py:" in str(caught.value)


def test_reloading_a_file_registers_again(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(SOURCE)
    first = load_file(path).Mine
    path.write_text(SOURCE.replace("dim: Count = 8", "dim: Count = 16"))
    second = load_file(path, "another_name").Mine
    assert MODELS["mine"] is second is not first
    assert create_model("mine", 5, 3).stem.out_features == 16


def test_only_models_can_be_registered():
    with pytest.raises(ZooError, match="not a zoo.Model class"):
        register_model("linear")(torch.nn.Linear)


def test_a_class_from_a_prompt_can_be_registered_twice():
    space = {"__name__": "__main__"}
    exec(SOURCE, space)
    exec(SOURCE, space)
    assert issubclass(MODELS["mine"], Model)


class Plugin:
    def __init__(self, value, load):
        self.value, self.load = value, load


def test_a_broken_plugin_is_logged_once_and_skipped(monkeypatch, caplog):
    def fail():
        raise RuntimeError("out of order")

    registry._announced.cache_clear()
    monkeypatch.setattr(registry, "entry_points", lambda group: [Plugin("broken.models", fail)])
    assert "sgformer" in list_models() and "sgformer" in list_models()
    assert caplog.text.count("out of order") == 1 and "broken.models" in caplog.text
    registry._announced.cache_clear()


PARTS = """
from zoo import ATTENTIONS, DATASETS, ENCODINGS, PROPAGATIONS
from zoo.data.generated import sbm

def build_mine(native, layer, *, M: Count = 4):
    return lambda q, k, v: v.mean(-3, keepdim=True).expand_as(v)

ATTENTIONS["my_attention"] = build_mine
PROPAGATIONS["my_propagation"] = lambda dim: lambda graph, x: x
ENCODINGS["my_encoding"] = lambda graph: graph.in_degrees().float().unsqueeze(1)
DATASETS["my_dataset"] = lambda: sbm(nodes=30, classes=2, dim=3)
"""
"""Parts beside a model, whose option `M` is not called as the zoo would."""


@pytest.fixture
def installed(tmp_path):
    """A package of one's own, as it looks when installed: a module and its entry point."""
    (tmp_path / "my_models.py").write_text(re.sub(r"\bdim\b", "d_model", SOURCE) + PARTS)
    info = tmp_path / "my_models-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-models\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[graph_transformer_zoo.models]\nmine = my_models\n")
    return tmp_path


USES = [
    "assert 'mine' in zoo.list_models(); zoo.create_model('mine', 5, 3)",
    "zoo.create_model('sgformer', 5, 3, attention='my_attention', propagation='my_propagation')",
    "assert 'my_attention' in zoo.ATTENTIONS",
    "assert len(zoo.load_data('my_dataset').y) == 30",
    "assert zoo.testing.attention_promises('my_attention')",
    "assert zoo.testing.propagation_promises('my_propagation')",
    "assert zoo.testing.encoding_promises('my_encoding')",
    "said('list', 'models', 'mine')",
    "said('list', 'attentions', 'my_attention')",
    "said('list', 'propagations', 'my_propagation')",
    "said('list', 'encodings', 'my_encoding')",
    "said('list', 'datasets', 'my_dataset')",
    "said('data', 'check', 'my_dataset', '30 nodes')",
]
"""What a process may do first, and find what other packages have added."""

FIRST = """
import os, sys
from contextlib import redirect_stdout
from io import StringIO
import zoo.cli.app, zoo.cli.describe, zoo.data.load, zoo.testing

def said(*words):
    told, sys.argv = StringIO(), ["zoo", *words[: 3 if words[0] == "data" else 2]]
    with redirect_stdout(told):
        try:
            zoo.cli.app.main()
        except SystemExit as left:
            assert not left.code
    assert words[-1] in told.getvalue(), told.getvalue()

assert "mine" not in zoo.registry.MODELS
for use in USES:
    if os.fork() == 0:
        exec(use)
        os._exit(0)
    assert os.wait()[1] == 0, use
"""


@pytest.mark.slow
def test_models_and_parts_of_an_installed_package_appear(installed):
    done = run_preloaded(["-c", f"USES = {USES}{FIRST}"], installed)
    assert done.returncode == 0, done.stderr


def test_the_house_rules_are_not_for_an_installed_package(installed):
    rules = str(Path(__file__).parent / "models" / "test_options.py")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", rules]
    done = run_preloaded(words, installed)
    assert done.returncode == 0, done.stdout
    hooks = str(Path(__file__).parents[1] / "docs" / "site" / "hooks.py")
    code = (
        f"import runpy; site = runpy.run_path({hooks!r}); site['gallery'](); site['words_page']()"
    )
    done = run_preloaded(["-c", code], installed)
    assert done.returncode == 0, done.stderr
