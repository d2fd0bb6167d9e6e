"""What data hold is shown on a terminal, and never obeyed by it."""

import io
import json
import logging
import sys
import unicodedata
from types import SimpleNamespace

import pytest
import yaml

from zoo.cli import console, result_tables
from zoo.cli.weights import write_forecast
from zoo.config.recipe import read_recipe, recipe_text
from zoo.errors import ZooError, printable

HOSTILE = {
    "colour": "\x1b[31m",
    "title of the window": "\x1b]0;mine\x07",
    "carriage return": "\r",
    "backspace": "\b",
    "C1": "\x9b31m",
    "delete": "\x7f",
    "right to left": "\u202e",
    "isolate": "\u2066",
    "mark": "\u200f",
    "line separator": "\u2028",
    "half a character": "\ud800",
    "tag": "\U000e0041",
}
WORDS = [
    *HOSTILE.values(),
    "[red]", "[/]", r"\[red]", r"\[/]", "[link=file:///etc]x[/link]", ":warning:", "a\\",
]  # fmt: skip


def is_shown(text):
    """Whether a terminal shows all of a text, and does nothing else with it."""
    return all(each.isprintable() or each == "\n" for each in text)


@pytest.fixture
def said(monkeypatch):
    """Return what the consoles have printed, as plain text, and check that it is all shown."""
    files = [io.StringIO(), io.StringIO()]
    for each, file in zip((console.out, console.errors), files, strict=True):
        monkeypatch.setattr(each, "_file", file)
        monkeypatch.setattr(each, "_width", 200)

    def read():
        texts = [file.getvalue() for file in files]
        assert all(map(is_shown, texts)), texts
        return "".join(texts)

    return read


@pytest.mark.parametrize("word", HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_seen_is_written_out(word):
    shown = printable(f"a{word}b\nc")
    assert is_shown(shown) and shown.startswith("a\\") and shown.endswith("b\nc")
    assert printable(shown) == shown
    assert str(ZooError(word)) == printable(word)


def test_what_is_seen_stays_as_it_is():
    seen = "Zoë, Ελλάδα, 日本, עברית, e\u0301, ∑, 👍, \\x1b [a] :b:"
    assert printable(seen) == seen


@pytest.mark.parametrize("word", WORDS, ids=ascii)
def test_consoles_show_every_text_and_obey_none(word, said):
    text = f"<{word}>"
    console.complain(text)
    console.remark(text)
    console.say(text)
    console.rows([{"name": text, "what": text}])
    result_tables.verdict(True, text)
    assert said().count(printable(text)) == 6


def test_tables_of_results_show_names_as_they_are(said):
    score = {"mean": 0.5, "std": None, "runs": 1}
    for word in WORDS:
        run = {
            "recipe": word, "metric": word, "dataset": word, "folder": word, "device": "cpu",
            "seeds": [{"seed": 0, "epoch": 1, "val": 0.5, "test": 0.5}], "val": score,
            "test": score, "parameters": 1, "seconds_per_epoch": 1.0, "peak_memory_bytes": 1,
            "interrupted": True, "read": True, "tuned": False, "same_splits": False,
            "epochs": 1.0, "best_epoch": 1.0, "difference": None, "same_budget": True,
            "budget": {"epochs": 1, "batching": "full"}, "same_ways": True, "ways": {},
            "named": True, "changes": [word], "unreached": [word], "same_code": False,
            "starts_from": word, "seen": 1, "unreached_phase": 3, "best": True, "cut_short": True,
        }  # fmt: skip
        apart = {"from": word, "pairs": 2, "splits": 1, "mean": 0, "low": 0, "high": 0, "noise": 1,
                 "p_holm": 1}  # fmt: skip
        batches = {"epochs": 1, "batching": {"name": word, "config": word}}
        other = {**run, "best": False, "difference": apart, "budget": batches, "same_budget": False}
        result_tables.result(run)
        result_tables.comparison([run, other])
        result_tables.score({"metric": word, "score": 0.5, "part": "all", "nodes": 3,
                             "unit": "nodes", "data": word, "seen": False})  # fmt: skip
    assert said().count("[/]") >= 6 and "⚠" not in said()


def test_what_is_warned_of_is_escaped(command, said):
    command("list", "attentions")
    words = [word for word in WORDS if word != "\ud800"]  # pytest keeps logs in UTF-8
    for word in words:
        logging.getLogger("zoo.data").warning("a class %s", word)
    assert said().count("a class") == len(words) and "[link=file:///etc]x[/link]" in said()


def test_a_forecast_is_escaped_on_a_terminal_and_as_it_is_elsewhere(monkeypatch, capsys):
    text = "node\x07,\b\u202e\n"
    found = SimpleNamespace(table=lambda: SimpleNamespace(to_csv=lambda index: text))
    write_forecast(found, None)
    assert capsys.readouterr().out == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    write_forecast(found, None)
    assert is_shown(capsys.readouterr().out)


def test_names_that_are_typed_are_escaped(command):
    word = "".join(HOSTILE.values()).replace("\ud800", "")
    for words in (["info", word], ["show", word],
                  ["predict", word, "--data", word, "--out", "a.csv"],
                  ["train", "gcn-cora", f"{word}=3"], ["train", f"{word}.yaml"]):  # fmt: skip
        code, out, err = command(*words)
        assert code == 2 and not out and is_shown(err), (words, err)


def test_a_recipe_is_written_so_that_all_of_it_is_seen(command, tmp_path):
    word = "".join(each for each in HOSTILE.values() if each != "\ud800")
    data = {"dataset": "sbm", "model": "gcn",
            "expect": {"test": 0.5, "within": 0.1, "source": f"a{word}b"}}  # fmt: skip
    text = recipe_text(data)
    assert is_shown(text) and yaml.safe_load(text) == data
    (tmp_path / "mine.yaml").write_text(text)
    assert read_recipe(tmp_path / "mine.yaml").expect.source == f"a{word}b"
    code, out, err = command("show", "mine.yaml")
    assert code == 0 and is_shown(out) and yaml.safe_load(out)["expect"]["source"] == f"a{word}b"


def test_ids_and_classes_of_a_graph(command, tmp_path):
    bad = "".join(each for each in HOSTILE.values() if each not in "\r\ud800")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "nodes.csv").write_text(
        f"id,age{bad},label\n" + "".join(f"n{i}{bad},{i},{bad}{i % 2}\n" for i in range(8))
    )
    (folder / "edges.csv").write_text(f"source,target\nn0{bad},n1{bad}\nn2{bad},n9{bad}\n")
    code, out, err = command("data", "check", "mine")
    assert code == 2 and is_shown(out + err) and "n9" in err
    (folder / "edges.csv").write_text(f"source,target\nn0{bad},n1{bad}\nn0{bad},n0{bad}\n")
    code, out, err = command("data", "check", "mine")
    assert code in (0, 1) and is_shown(out + err)
    code, out, _ = command("data", "check", "mine", "--json")
    assert out.isascii() and json.loads(out)


def test_the_words_above_are_of_every_kind_that_is_not_seen():
    kinds = {unicodedata.category(each) for word in HOSTILE.values() for each in word}
    assert {"Cc", "Cf", "Cs", "Zl"} <= kinds


def test_a_plot_takes_nothing_from_the_current_folder(command, tmp_path, monkeypatch):
    import matplotlib

    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)  # as a matplotlibrc there says
    (tmp_path / "mine").mkdir()
    rows = "".join(f"{i},{i},$\\frac{i % 2}\x1b\n" for i in range(8))
    (tmp_path / "mine" / "nodes.csv").write_text(f"id,age,label\n{rows}")
    (tmp_path / "mine" / "edges.csv").write_text("source,target\n0,1\n2,3\n")
    code, _, err = command("data", "check", "mine", "--plot", "a.png")
    assert code == 0 and (tmp_path / "a.png").exists(), err
