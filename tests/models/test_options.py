"""Options that mean the same are called the same in every model, as CONTRIBUTING's table says."""

import re
from pathlib import Path

import pytest

from zoo.config.json_schema import descriptions
from zoo.config.options import Count, Few, Rate, options_of, table_of
from zoo.nn import ATTENTIONS, NORMS, PROPAGATIONS
from zoo.registry import MODELS
from zoo.weights.create import list_models

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
ROWS = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", PAGE.read_text(), flags=re.MULTILINE)
REFUSED = {other: word for word, _, others in ROWS for other in others.split(", ")}
TYPES = {
    **dict.fromkeys(("dim", "random_features"), Count),
    **dict.fromkeys(("layers", "heads", "full_heads", "expansion"), Few),
    **dict.fromkeys(("dropout", "attention_dropout"), Rate),
    **dict.fromkeys(("norm_first", "residual", "activation"), bool),
}
TABLES = {"attention": ATTENTIONS, "propagation": PROPAGATIONS, "norm": NORMS}

each_model = pytest.mark.parametrize("name", list_models())


def test_the_table_is_there():
    assert {"dim", "layers", "heads", "dropout", "attention_dropout", "norm", "norm_first"} <= {
        word for word, *_ in ROWS
    }
    assert not set(REFUSED) & {word for word, *_ in ROWS}


@each_model
def test_no_new_spelling_of_an_old_meaning(name):
    wrong = {option: REFUSED[option] for option in options_of(MODELS[name]) if option in REFUSED}
    assert not wrong, f"{name}: write {wrong}"


@each_model
def test_one_word_has_one_type(name):
    known = options_of(MODELS[name])
    for option in set(known) & set(TYPES):
        assert known[option].annotation == TYPES[option], option
    for option in set(known) & set(TABLES):
        assert table_of(known[option]) is TABLES[option], option


@each_model
def test_heads_say_whether_they_share_the_width(name):
    said = descriptions(MODELS[name])
    assert "full width" in said.get("full_heads", "of the full width")
    heads = said.get("heads", "share the width")
    assert re.search(r"share the width|width D / heads|of each convolution", heads), heads


@each_model
def test_every_option_is_described(name):
    assert set(options_of(MODELS[name])) == set(descriptions(MODELS[name]))
