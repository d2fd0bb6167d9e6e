"""Byte-pair encoding: exact both ways, the same each time, and read from strangers' files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from preloaded import run_preloaded
from sentences import sentences

from zoo.errors import ZooError
from zoo.sequences.data import tokenizer as room
from zoo.sequences.data.tokenizer import BEGIN, BYTES, END, Tokenizer, train_tokenizer

TEXTS = [each for side in sentences(200, 0) for each in side]

ODD = [
    "",
    " ",
    "  two  spaces ",
    "a\tb\r\nc",
    "👩‍👩‍👧 🇩🇪 e\u0301 \u202e \x00",
    "<begin> <end><end>",
    "Ġ Ċ",
    "漢字かな",
    "x" * 5000,
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return Tokenizer(room._train(TEXTS, 320))


def test_odd_texts_come_back_as_they_were(made):
    assert made.decode(made.encode(ODD)) == ODD


@settings(max_examples=200, deadline=None)
@given(st.text())
def test_any_text_comes_back_as_it_was(text):
    made = Tokenizer(room._train(TEXTS[:40], 300))
    assert made.decode(made.encode([text])) == [text]


def test_no_text_holds_begin_or_end(made):
    tokens = {each for own in made.encode([*ODD, *TEXTS]) for each in own}
    assert not tokens & {BEGIN, END} and max(tokens) < made.size == 320


def test_frequent_words_are_one_token(made):
    [tokens] = made.encode([" three"])
    assert len(tokens) == 1
    assert len(made.encode(["qzqzqz"])[0]) == 6  # bytes


def test_decoding_leaves_out_begin_and_end_and_marks_broken_bytes(made):
    [tokens] = made.encode(["ü"])
    assert made.decode([[BEGIN, *tokens, END]]) == ["ü"]
    assert made.decode([made.encode(["👍"])[0][:2]])[0].count("\ufffd") > 0


def test_small_texts_give_fewer_tokens():
    assert Tokenizer(room._train(["aa aa"], 1000)).size < 270
    assert Tokenizer(room._train([], 1000)).size == BYTES + 2


def test_a_text_that_is_one_long_word_takes_no_time():
    assert (
        Tokenizer(room._train([*TEXTS, "ab" * 10**6], 320)).text
        == Tokenizer(room._train(TEXTS, 320)).text
    )


def test_where_most_texts_are_long_their_beginnings_are_learnt_from():
    long = [f"{each} " * 400 for each in TEXTS]
    assert max(map(len, TEXTS)) < room.LONGEST_TEXT < min(map(len, long))
    learnt = Tokenizer(room._train([*long, "a short one"], 320))
    assert learnt.size > BYTES + 20
    cut = [each[: room.LONGEST_TEXT] for each in (*long, "a short one")]
    assert learnt.text == Tokenizer(room._train(cut, 320)).text


@pytest.mark.slow
def test_another_process_learns_the_same(made, tmp_path):
    code = (
        "from sentences import sentences; from zoo.sequences.data import tokenizer as room\n"
        "texts = [each for side in sentences(200, 0) for each in side]\n"
        "print(room.Tokenizer(room._train(texts, 320)).sha256)"
    )
    path = ":".join(sys.path)
    for seed in ("1",):
        found = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONPATH": path, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == made.sha256


def test_it_is_learnt_once_and_again_where_the_file_is_damaged(monkeypatch, tmp_path):
    calls = []
    original = room._train
    monkeypatch.setattr(room, "_train", lambda *given: calls.append(given) or original(*given))
    first, second = train_tokenizer(TEXTS, 300), train_tokenizer(TEXTS, 300)
    assert len(calls) == 1 and first.text == second.text
    [path] = (tmp_path / "data" / "cache").iterdir()
    path.write_text("{}")
    assert train_tokenizer(TEXTS, 300).text == first.text and len(calls) == 2
    assert train_tokenizer(TEXTS, 300).text == first.text and len(calls) == 2
    train_tokenizer([*TEXTS[:-1], "other"], 300)
    train_tokenizer(TEXTS, 301)
    assert len(calls) == 4


def test_where_nothing_can_be_written_it_is_learnt_all_the_same(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "file"))
    assert train_tokenizer(TEXTS, 300).size == 300


def test_the_file_is_that_of_the_library(made):
    import tokenizers

    theirs = tokenizers.Tokenizer.from_str(made.text)
    for text in ("three four.", "fünf", "👍"):
        assert theirs.encode(text).ids == made.encode([text])[0]
    assert Tokenizer(made.text).text == made.text


def changed(text, change):
    content = json.loads(text)
    change(content)
    return json.dumps(content)


def swap(content):
    content["model"]["vocab"]["<begin>"], content["model"]["vocab"]["<end>"] = 1, 0


WRONG = {
    "nothing": lambda text: "",
    "no JSON": lambda text: "{",
    "a list": lambda text: "[]",
    "deep": lambda text: "[" * 100_000,
    "no model": lambda text: "{}",
    "no merges": lambda text: changed(text, lambda c: c["model"].pop("merges")),
    "merges of one": lambda text: changed(text, lambda c: c["model"].update(merges=[["a"]])),
    "merges of numbers": lambda text: changed(text, lambda c: c["model"].update(merges=[[1, 2]])),
    "a number": lambda text: changed(text, lambda c: c["model"].update(merges=[1])),
    "merges of nothing": lambda text: changed(
        text, lambda c: c["model"].update(merges=[["q", "qq"]])
    ),
    "a list of words": lambda text: changed(text, lambda c: c["model"].update(vocab=["a"])),
    "words as numbers": lambda text: changed(text, lambda c: c["model"]["vocab"].update(a="1")),
    "a gap": lambda text: changed(text, lambda c: c["model"]["vocab"].update(new=10**9)),
    "no byte": lambda text: changed(text, lambda c: c["model"]["vocab"].update({"a": 5})),
    "other ends": lambda text: changed(text, swap),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_strangers_file_is_refused_in_a_sentence(made, what):
    with pytest.raises(ZooError, match="no tokenizer of the zoo's.*copy `tokenizer.json` again"):
        Tokenizer(WRONG[what](made.text))


def test_what_else_a_file_says_is_not_done(made):
    """Patterns, normalisers and further tokens of a file are not looked at."""

    def change(content):
        content["normalizer"] = {"type": "Lowercase"}
        content["pre_tokenizer"] = {"type": "Split", "pattern": {"Regex": "(a+)+$"}}
        content["added_tokens"] = [{"id": 0, "content": "three", "special": True}]

    again = Tokenizer(changed(made.text, change))
    assert again.text == made.text
    assert again.decode(again.encode(["Three three"])) == ["Three three"]


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ZooError, match=r"pip install 'graph-transformer-zoo\[text\]'"):
        train_tokenizer(TEXTS, 300)


def test_nothing_is_imported_before_it_is_asked_for():
    code = (
        "import sys, zoo, zoo.cli.app, zoo.training.trainer, zoo.data.load; zoo.list_models()\n"
        "found = [each for each in ('tokenizers', 'sacrebleu') if each in sys.modules]\n"
        "assert not found, found"
    )
    done = run_preloaded(["-c", code], Path.cwd())
    assert done.returncode == 0, done.stderr
