"""What authors get wrong is answered at the door, for everyone, and by `zoo check`."""

import copy
import importlib
import json
import pickle
import re
import sys
import types

import pytest
import torch

import zoo
from zoo.registry import MODELS

SOURCE = '''
import torch
from torch import nn
from zoo import Model, Output, register_model
from zoo.config.options import Count

@register_model("mine")
class Mine(Model):
    """A map of each node.

    Args:
        dim: width.
    """

    edge_weights = False

    def __init__(self, in_dim, out_dim, *, dim: Count = 32):
        super().__init__()
        self.stem = nn.Linear(in_dim, dim)
        self.head = nn.Linear(dim, out_dim)

    def features(self, graph, x):
        return self.stem(x).relu()
'''

HEAD = "self.head = nn.Linear(dim, out_dim)"
STEM = "self.stem = nn.Linear(in_dim, dim)"
OPTION = "*, dim: Count = 32"
RETURN = "return self.stem(x).relu()"
FORWARD = "\n\n    def forward(self, graph, x):\n        "
CHOICES = {"import torch\n": "import torch, typing, zoo, zoo.registry as of\n"}
NORM = f"{STEM}\n        self.norm = nn.BatchNorm1d(dim)"

REGISTERING = {
    "an option without annotation": (
        {OPTION: "*, dim=32"},
        "option `dim` of Mine has no annotation.*`dim: Count = 64`",
    ),
    "an option that is not keyword-only": (
        {OPTION: "dim: Count = 32"},
        r"option `dim` of Mine is not keyword-only.*Put a `\*` behind `out_dim`",
    ),
    "options that are not spelt out": (
        {OPTION: "**options", HEAD: "dim = 3"},
        r"takes `\*\*options`.*Spell each",
    ),
    "a search of an option that it has not": (
        {"    edge_weights = False": "    search = {'dimm': [16, 32]}"},
        "`search` of Mine: no option is called 'dimm'; did you mean 'dim'",
    ),
    "no sizes": ({"in_dim, out_dim, *": "width, *"}, "has to take `in_dim` and `out_dim` first"),
}
"""What is wrong: what to replace in the source, and words of the answer."""

MAKING = {
    "no head": ({HEAD: "pass"}, r"has no `head`.*self.head = nn.Linear\(dim, out_dim\)"),
    "a classifier in the place of a head": (
        {HEAD: "self.classifier = nn.Linear(dim, out_dim)"},
        "Its `classifier` seems to be one: call it `head`",
    ),
    "a head of another width": (
        {HEAD: "self.head = nn.Linear(dim, 10)"},
        "gives 10 logits, and 3 were asked for",
    ),
    "layers in a Python list": (
        {HEAD: f"{HEAD}\n        self.layers = [nn.Linear(dim, dim) for _ in range(2)]"},
        r"`layers` of Mine is a Python list.*self.layers = nn.ModuleList\(\[...\]\)",
    ),
    "layers in a dict of lists": (
        {HEAD: f"{HEAD}\n        self.layers = {{'a': [nn.Linear(dim, dim)]}}"},
        "`layers` of Mine is a Python dict.*nn.ModuleDict",
    ),
}

CALLING = {
    "forward returns a tensor": (
        {RETURN: f"{RETURN}{FORWARD}return self.head(self.features(graph, x))"},
        r"forward of Mine returned a Tensor.*return Output\(logits\)",
    ),
    "forward returns a tuple": (
        {RETURN: f"{RETURN}{FORWARD}return self.head(self.features(graph, x)), 0.0"},
        r"forward of Mine returned a tuple.*return Output\(logits\)",
    ),
    "features returns a tuple": (
        {RETURN: "return self.stem(x).relu(), 0.0"},
        r"`features` of Mine returned a tuple.*one tensor \(N, dim\)",
    ),
    "features returns one row per graph": (
        {RETURN: "return self.stem(x).relu().mean(0, keepdim=True)"},
        r"logits \(1, 3\) for 12 nodes; there has to be one row per node",
    ),
    "the input is changed": (
        {RETURN: f"x *= 2\n        {RETURN}"},
        r"changed its input x in place.*`x = 2 \* x`.*load the data set again",
    ),
    "the input is changed in training alone": (
        {RETURN: f"x = nn.functional.dropout(x, 0.5, self.training, True)\n        {RETURN}"},
        "changed its input x in place",
    ),
    "weights that were never filled": (
        {STEM: f"{STEM}\n        self.stem.weight.data.fill_(torch.nan)"},
        "the first logits of Mine are not finite: the weights stem.weight",
    ),
    "a quotient of nothing": (
        {RETURN: "return self.stem(x) / (x - x).sum(1, keepdim=True)"},
        r"the first logits of Mine are not finite: features and weights are.*clamp\(min=1e-6\)",
    ),
}

CHECKING = {
    "a batch norm over one node": (
        {STEM: NORM, RETURN: "return self.norm(self.stem(x)).relu()"},
        "Expected more than 1 value per channel when training, got input size",
    ),
    "a batch norm over a batch of graphs": (
        {
            STEM: NORM.replace("(dim)", "(dim, track_running_stats=False)"),
            RETURN: "h = self.stem(x)\n        return self.norm(h) if len(h) > 1 else h",
        },
        "in a batch of graphs a node's logits change by .*the graphs see each other.*`norm` may",
    ),
    "the number of a node is looked at": (
        {RETURN: "return self.stem(x) + torch.arange(len(x)).unsqueeze(1)"},
        "with the nodes numbered anew, each node's logits change by",
    ),
    "a weight that nothing uses": (
        {HEAD: f"{HEAD}\n        self.more = nn.Linear(dim, dim)"},
        "more.weight, more.bias got no gradient",
    ),
    "a classifier beside the head": (
        {
            HEAD: f"{HEAD}\n        self.fc = nn.Linear(dim, out_dim)",
            RETURN: f"{RETURN}{FORWARD}h = self.features(graph, x)\n        "
            "return Output(self.head(h) + self.fc(h))",
        },
        "fc.weight, fc.bias changes its shape with the numbers of features or classes",
    ),
    "dropout in evaluation": (
        {RETURN: "return nn.functional.dropout(self.stem(x))"},
        "in evaluation the same graph gives other logits each time",
    ),
    "data left on the graph": (
        {RETURN: f"graph.ndata['x'] = x\n        {RETURN}"},
        "leaves data on the graph.*local_scope",
    ),
    "what is not saved": (
        {
            HEAD: f"{HEAD}\n        self.scale = torch.rand(())",
            RETURN: "return self.scale * self.stem(x)",
        },
        "saved and loaded again it gives other logits.*register_buffer",
    ),
    "nothing is learnt": (
        {RETURN: "return 0 * self.stem(x)"},
        "it knows .*% of 12 random labels",
    ),
    "weights of edges that it ignores without a word": (
        {"    edge_weights = False\n": ""},
        "weights of edges make no difference.*`edge_weights = False` in the class Mine",
    ),
    "weights of edges that count against its word": (
        {
            **CHOICES,
            RETURN: "return self.stem(x + zoo.nn.mean(graph, x)).relu()",
        },
        "the class Mine has `edge_weights = False`, and weights of edges make a difference",
    ),
    "an attention that is ignored": (
        {
            OPTION: f"{OPTION}, attention: typing.Annotated[of.Spec, zoo.ATTENTIONS] = 'native'",
            **CHOICES,
        },
        "`attention: softmax` and .*size: 4.* very same logits: .* ignored.*build_attend",
    ),
    "a propagation that is ignored": (
        {
            OPTION: f"{OPTION}, propagation: typing.Annotated[of.Spec, zoo.PROPAGATIONS] = 'gcn'",
            **CHOICES,
        },
        "`propagation: gcn` and `propagation: mean` give the very same.*build_propagation",
    ),
    "no word about an option": ({"dim: width.": "width"}, "says nothing about dim"),
    "a group that lacks a weight": (
        {
            RETURN: f"{RETURN}\n\n    def parameter_groups(self):\n        "
            "return [{'params': [*self.head.parameters()]}]"
        },
        "`parameter_groups` does not hold each parameter exactly once.*stem.weight",
    ),
}


@pytest.fixture(autouse=True)
def restored():
    zoo.list_models()
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)


def source_with(changes):
    source = SOURCE
    for old, new in changes.items():
        assert old in source
        source = source.replace(old, new)
    return source


def define(changes, folder):
    path = folder / "mine.py"
    path.write_text(source_with(changes))
    exec(compile(path.read_text(), str(path), "exec"), {"__name__": "mine", "__file__": str(path)})


def ids(cases):
    return pytest.mark.parametrize("changes,words", list(cases.values()), ids=list(cases))


@ids(REGISTERING)
def test_what_is_wrong_is_said_when_it_is_registered(changes, words, tmp_path):
    with pytest.raises(zoo.ZooError, match=f"(?s){words}"):
        define(changes, tmp_path)


@ids(MAKING)
def test_what_is_wrong_is_said_when_it_is_made(changes, words, tmp_path):
    define(changes, tmp_path)
    with pytest.raises(zoo.ZooError, match=f"(?s){words}"):
        zoo.create_model("mine", 5, 3)


@ids(CALLING)
def test_what_is_wrong_is_said_in_the_first_step(changes, words, tmp_path, tiny, monkeypatch):
    graph, x, _ = tiny
    (tmp_path / "mine.py").write_text(source_with(changes))
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("mine", None)
    importlib.import_module("mine")
    model = zoo.create_model("mine", 5, 3).eval()
    with pytest.raises(zoo.ZooError, match=f"(?s){words}"):
        model(graph, x)
        model.train()(graph, x)


@ids({**REGISTERING, **MAKING, **CALLING, **CHECKING})
def test_zoo_check_says_it(changes, words, command, tmp_path):
    (tmp_path / "mine.py").write_text(source_with(changes))
    code, out, _ = command("check", "mine.py", "--json")
    said = [each["said"] for row in json.loads(out)["promises"] for each in row["broken"]]
    assert code == 1
    assert any(re.search(f"(?s){words}", each) for each in said), said


def test_a_model_that_is_right_keeps_every_promise(command, tmp_path):
    (tmp_path / "mine.py").write_text(SOURCE)
    code, out, _ = command("check", "mine.py")
    assert code == 0 and "mine keeps all 17 promises" in out
    assert "kept    renaming nodes renames logits" in out


def test_what_is_found_twice_is_said_once(command, tmp_path):
    """Whatever its numbers are; a promise that fails alike is named beside the one before."""
    wrong = (
        "if len(x) < 12:\n            raise RuntimeError(f'{len(x)} nodes are too few')\n        "
    )
    (tmp_path / "mine.py").write_text(source_with({RETURN: wrong + RETURN}))
    code, out, _ = command("check", "mine.py")
    lines = out.splitlines()
    assert code == 1 and sum("too few" in line for line in lines) == 1
    [alike] = [line for line in lines if "any heads" in line]
    assert alike.endswith(": as small and broken graphs give finite logits")
    define({RETURN: wrong + RETURN}, tmp_path)
    with pytest.raises(zoo.testing.Broken) as said:
        zoo.testing.check_model("mine")
    assert str(said.value).count("too few") == 1
    assert "(and a_batch_of_graphs_equals_one_by_one, any_heads" in str(said.value)


def test_training_stops_before_the_data_are_changed_again(tmp_path):
    define({RETURN: f"x *= 2\n        {RETURN}"}, tmp_path)
    data = zoo.load_graph({"name": "sbm", "nodes": 40, "classes": 2})
    model, before = zoo.create_model("mine", data.x.shape[1], 2), data.x.clone()
    recipe = {"dataset": {"name": "sbm", "nodes": 40, "classes": 2}, "model": "mine"}
    recipe["train"] = {"epochs": 3}
    with pytest.raises(zoo.ZooError, match="changed its input x in place"):
        zoo.run_recipe(zoo.load_recipe(recipe), runs=tmp_path)
    with pytest.raises(zoo.ZooError, match="changed its input x in place"):
        model(data.graph, data.x)
    assert torch.equal(data.x, 2 * before)  # once, and not a little more in every step


def test_the_first_call_alone_is_looked_at(tiny, tmp_path, monkeypatch):
    graph, x, _ = tiny
    model = zoo.create_model("gcn", 5, 3)
    model(graph, x), model.eval()(graph, x)
    for name in ("check_parts", "check_answer", "explain"):
        monkeypatch.setattr(f"zoo.registry.{name}", None)
    assert model(graph, x).logits.shape == model.train()(graph, x).logits.shape


@pytest.mark.parametrize(
    "given,words",
    [
        (lambda x: x[:, :3], r"x has 3 features per node, and the model was made for 5"),
        (lambda x: x[:7], r"x is \(7, 5\), and has to be \(12, 5\)"),
        (lambda x: x.double(), r"x is of torch.float64 .* write `x.to\(torch.float32\)`"),
        (lambda x: x.numpy(), r"x is a ndarray, not a tensor"),
        (lambda x: x * torch.nan, r"the features x hold numbers that are not"),
    ],
)
def test_features_that_do_not_fit_are_answered(given, words, tiny):
    graph, x, _ = tiny
    with pytest.raises(zoo.ZooError, match=words):
        zoo.create_model("gcn", 5, 3)(graph, given(x))


@pytest.mark.parametrize("module", [None, types.ModuleType("mine")])
def test_errors_that_are_not_understood_stay_what_they_are(module, tiny, tmp_path, monkeypatch):
    graph, x, _ = tiny
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    if module is not None:  # one without a file, as that of a session
        monkeypatch.setitem(sys.modules, "mine", module)
    define({RETURN: "raise RuntimeError('out of memory')"}, tmp_path)
    with pytest.raises(RuntimeError, match="out of memory"):
        zoo.create_model("mine", 5, 3)(graph, x)


def test_copies_of_a_model_answer_as_it_does(tiny):
    graph, x, _ = tiny
    model = zoo.create_model("gcn", 5, 3).eval()
    expected = model(graph, x).logits
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(graph, x).logits, expected)
