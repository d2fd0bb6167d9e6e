"""The kit itself: what is right passes, what is wrong is named, and `zoo check` says so."""

import json
import re
import subprocess
import sys

import pytest
import torch
from torch import nn

import zoo
from zoo.config.options import Table
from zoo.nn import ENCODING_NETWORKS
from zoo.testing.promise import Promise, keep_close

WRONG = {
    "attention": {
        "twice": (lambda q, k, v: 2 * v, "values that are all 1 give something else"),
        "over sets": (
            lambda q, k, v: v.flatten(0, -3).mean(0).expand_as(v),
            "with others beside it a set gives another output",
        ),
        "first": (lambda q, k, v: v[..., :1, :, :].expand_as(v), "with the nodes in another order"),
        "drawn": (
            lambda q, k, v: nn.functional.dropout(v, 0.5),
            "in evaluation the same q, k and v give another output each time",
        ),
        "pairs": (
            lambda q, k, v: (
                torch.einsum("...nhd,...mhd->...nmh", q, k)
                .softmax(-2)
                .permute(*range(q.dim() - 3), -1, -3, -2)
                .matmul(v.transpose(-2, -3))
                .transpose(-2, -3)
            ),
            "a matrix of all pairs is stored",
        ),
    },
    "propagation": {
        "wide": (lambda graph, x: torch.cat([x, x], 1), "finite numbers of the same shape"),
        "numbers": (
            lambda graph, x: x + torch.arange(len(x)).unsqueeze(1),
            "with the nodes numbered anew",
        ),
        "ones": (lambda graph, x: x + 1, "without edges the output is off"),
        "detached": (lambda graph, x: x.detach() * 0 + 0 * x, "no gradient"),
    },
    "encoding": {
        "short": (lambda graph: torch.zeros(3, 2), r"has to be \(N, 2\) in fp32"),
        "drawn": (lambda graph: torch.rand(graph.num_nodes(), 2), "other columns each time"),
        "numbers": (
            lambda graph: torch.arange(graph.num_nodes()).float().unsqueeze(1),
            "with the nodes numbered anew",
        ),
        "infinite": (lambda graph: 1 / (graph.in_degrees().float() - 1).unsqueeze(1), "not finite"),
    },
}

CASES = [
    pytest.param(kind, *case, id=f"{kind}-{name}")
    for kind, cases in WRONG.items()
    for name, case in cases.items()
]

TABLES = {
    "attention": (zoo.ATTENTIONS, zoo.testing.check_attention),
    "propagation": (zoo.PROPAGATIONS, zoo.testing.check_propagation),
    "encoding": (zoo.ENCODINGS, zoo.testing.check_encoding),
}


def builder_of(kind, function):
    if kind == "encoding":
        return function
    if kind == "propagation":
        return lambda dim: function
    return lambda native, layer: function


@pytest.mark.parametrize("kind,function,words", CASES)
def test_what_is_wrong_is_named(kind, function, words, monkeypatch):
    table, check = TABLES[kind]
    monkeypatch.setitem(table, "wrong", builder_of(kind, function))
    with pytest.raises(zoo.testing.Broken, match=f"(?s){words}"):
        check("wrong")


class Network(nn.Module):
    """A linear map of degrees, and what may be wrong with it."""

    columns, dim = 1, 3

    def __init__(self, wrong):
        super().__init__()
        self.map, self.wrong = nn.Linear(1, 3), wrong
        if wrong == "weight":
            self.unused = nn.Parameter(torch.zeros(()))

    def forward(self, graph, columns):
        made = self.map(columns)
        if self.wrong == "width":
            return made[:, :2]
        return made - made.mean(0) if self.wrong == "mean" else made


@pytest.mark.parametrize(
    "wrong,words",
    [
        (None, None),
        ("weight", "unused would not be trained"),
        ("width", "1 columns, of which the network makes 2.*1 and 3, to these"),
        ("mean", "in a batch of graphs its numbers change by"),
    ],
)
def test_what_is_wrong_with_a_network_of_an_encoding_is_named(wrong, words, monkeypatch):
    monkeypatch.setitem(zoo.ENCODINGS, "mine", lambda graph: graph.in_degrees().float()[:, None])
    monkeypatch.setitem(ENCODING_NETWORKS, "mine", lambda: Network(wrong))
    if wrong is None:
        zoo.testing.check_encoding("mine")
        return
    with pytest.raises(zoo.testing.Broken, match=f"(?s){words}"):
        zoo.testing.check_encoding("mine")


def test_the_checks_pass_where_all_is_right():
    """In a new process, where nothing was imported in another order before."""
    code = """
import zoo
zoo.testing.check_propagation("mean")
zoo.testing.check_encoding("random_walk")
zoo.testing.check_attention("linear")
zoo.testing.check_model("mlp")
import sys
assert "pytest" not in sys.modules
"""
    call = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("check", [zoo.testing.check_model, *(each[1] for each in TABLES.values())])
def test_what_there_is_not_is_answered(check):
    with pytest.raises(zoo.ZooError, match="no .* is called 'smoothr'"):
        check("smoothr")


def test_a_promise_leaves_the_generator_and_the_threads_alone():
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    zoo.testing.model_promises("mlp")[1]()
    assert torch.equal(torch.get_rng_state(), before) and torch.get_num_threads() == threads


def test_the_distance_of_what_is_not_close_is_told():
    with pytest.raises(zoo.testing.Broken, match="off by 0.5"):
        keep_close(torch.ones(2), torch.tensor([1.0, 1.5]), "off by {by}")


def test_an_error_of_any_kind_breaks_a_promise():
    said = Promise("it_works", "mine", lambda: 1 / 0).broken()
    assert "ZeroDivisionError" in said and "test_kit.py:" in said


def test_tables_of_others_are_walked_too(monkeypatch):
    assert isinstance(zoo.ATTENTIONS, Table)
    monkeypatch.setitem(zoo.ATTENTIONS, "mine", lambda native, layer: native)
    tried = {str(case.options["attention"]) for case in zoo.testing.model_cases("sgformer")}
    assert {"mine", "{'name': 'rba', 'size': 4, 'inner': 'mine'}"} <= tried


NOTEBOOK = """
from zoo import Model, register_model
import torch
WIDTH = 16
model = torch.load("there is no such file")
---
%matplotlib inline
!ls
class Mine(Model):
    edge_weights = False
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.stem = torch.nn.Linear(in_dim, WIDTH)
        self.head = torch.nn.Linear(WIDTH, out_dim)
    def features(self, graph, x):
        return self.stem(x).relu()
---
%%time
raise RuntimeError("a cell with a magic")
---
register_model("mine")(Mine)
model.fit(1)
"""


@pytest.fixture(autouse=True)
def restored():
    from zoo.registry import MODELS

    zoo.list_models()
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)


def test_a_notebook_is_checked_by_what_it_defines(command, tmp_path):
    cells = [{"cell_type": "code", "source": text.splitlines(True)}
             for text in NOTEBOOK.split("---\n")]  # fmt: skip
    cells.append({"cell_type": "markdown", "source": ["no code"]})
    (tmp_path / "mine.ipynb").write_text(json.dumps({"cells": cells}))
    code, out, _ = command("check", "mine.ipynb")
    assert code == 1 and "no docstring with `Args:`" in out
    assert "1 of 17 promises are broken" in out and "kept    it memorises the tiny graph" in out


@pytest.mark.parametrize(
    "name,text,words",
    [
        ("smoothr", None, "no model, attention, propagation or encoding is called 'smoothr'"),
        ("nowhere.py", None, "there is no file nowhere.py"),
        ("a.py", "x = 1\n", "a.py registers nothing"),
        ("nodes.csv", "id,label\n", "checked by `zoo data check nodes.csv`"),
        ("a.py", "x = (\n", "a.py, line 1"),
        ("a.py", "x = 1\nimport nothing_at_all\n", r"ModuleNotFoundError.*line 2"),
        ("a.ipynb", "{}", "not a notebook"),
    ],
)
def test_what_cannot_be_checked_is_said(name, text, words, command, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)
    code, out, err = command("check", name)
    assert code == 2 and re.search(words, " ".join(err.split())), err


def test_attentions_propagations_and_encodings_have_their_promises(command, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from zoo import ENCODINGS\nimport torch\n\n\ndef ones(graph):\n"
        '    """Return a column of ones."""\n    return torch.ones(graph.num_nodes(), 1)\n\n\n'
        'ENCODINGS["my-ones"] = ones\n'
    )
    try:
        code, out, err = command("check", "mine.py")
    finally:
        zoo.ENCODINGS.pop("my-ones", None)
    assert code == 0 and "encoding my-ones:" in out and "keeps all 4 promises" in out, out + err
    code, out, err = command("check", "mean")
    assert code == 0 and "propagation mean:" in out, out + err


def test_a_model_is_asked_inside_the_clusters_that_it_learnt_in():
    inside = {"name": "clusters", "size": 4}
    said = {each.name: each for each in zoo.testing.model_promises("transformer", attention=inside)}
    assert said["it_memorises_the_tiny_graph"].broken() is None


def test_json_holds_every_promise(command):
    code, out, err = command("check", "mlp", "--json")
    found = json.loads(out)
    assert code == 0 and found["kept"] and len(found["promises"]) == 17
    assert "kept" in err  # progress goes where the answer is not
