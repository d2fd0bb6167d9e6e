"""`zoo info`: what a model is, complete and true to its class."""

import re

import pytest

from zoo.cli.describe import info
from zoo.config.options import options_of
from zoo.errors import ZooError
from zoo.registry import MODELS
from zoo.weights.create import list_models
from zoo.weights.model_card import citation


@pytest.mark.parametrize("name", list_models())
def test_every_option_is_explained(name):
    rows = {row["name"]: row for row in info(name)["options"]}
    assert list(rows) == list(options_of(MODELS[name]))
    assert all(row["what"] and row["takes"] for row in rows.values())


@pytest.mark.parametrize("name", list_models())
def test_every_model_says_its_equations(name):
    found = info(name)
    assert found["what"] and "=" in found["equations"] and "Args:" not in found["equations"]


@pytest.mark.parametrize("name", [each for each in list_models() if MODELS[each].paper])
def test_the_citation_is_that_of_the_paper(name):
    entry = citation(name)
    if entry is None:
        assert "arXiv" not in MODELS[name].paper
        return
    number = re.search(r"eprint = \{([\d.]+)\}", entry) or re.search(r"year = \{(\d+)\}", entry)
    said = f"{MODELS[name].paper} {MODELS[name].__doc__}"
    assert number[1] in said


def test_values_are_told_in_words():
    rows = {row["name"]: row["takes"] for row in info("sgformer")["options"]}
    assert rows["attention"] == "native | softmax | linear | performer | rba | clusters | codebook"
    assert rows["qk_norm"] == "frobenius | row"
    assert rows["dropout"] == "number at least 0 and below 1"
    assert rows["attention_weight_decay"] == "number at least 0 or nothing"
    assert rows["dim"] == "integer at least 1"


def test_the_recipes_that_use_it():
    assert "sgformer-cora" in [row["name"] for row in info("sgformer")["recipes"]]
    assert all(row["model"] == "gcn" for row in info("gcn")["recipes"])


def test_a_model_of_another_name():
    with pytest.raises(ZooError, match="did you mean 'sgformer'"):
        info("sgfromer")


def test_a_model_without_a_paper():
    assert citation("mlp") is None


def test_a_model_outside_the_checkout_is_told_of(tmp_path, command, monkeypatch):
    """`zoo info` had no `--import`, so that only shipped models could be looked up."""
    monkeypatch.delitem(MODELS, "ring-map", raising=False)
    (tmp_path / "ring_map.py").write_text(
        "from torch import nn\nfrom zoo import Model, register_model\n\n"
        '@register_model("ring-map")\nclass RingMap(Model):\n'
        '    """One map.\\n\\n    y = W x.\\n\\n'
        "    Args:\\n        in_dim: F.\\n        out_dim: C.\\n"
        '        width: of the map.\\n    """\n\n'
        "    def __init__(self, in_dim: int, out_dim: int, *, width: int = 8):\n"
        "        super().__init__()\n"
        "        self.stem, self.head = nn.Linear(in_dim, width), nn.Linear(width, out_dim)\n\n"
        "    def features(self, graph, x):\n        return self.stem(x)\n"
    )
    source = tmp_path / "ring_map.py"
    code, said, told = command("info", "ring-map", "--import", source)
    assert code == 0 and "y = W x." in said and "of the map." in said, told
    code, said, _ = command("list", "models", "--import", source)
    assert code == 0 and "ring-map" in said
    MODELS.pop("ring-map")
