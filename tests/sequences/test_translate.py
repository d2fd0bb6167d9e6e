"""Translation by weights alone: a text line by line, from the command, and its BLEU."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from sentences import sentences, write_pairs

import zoo
from zoo.errors import ZooError
from zoo.sequences import translate as room
from zoo.sequences.data.pairs import read_pairs
from zoo.sequences.translate import (
    Translator,
    evaluate_pairs,
    read_lines,
    translate,
    translate_file,
)
from zoo.tasks.task import bleu

CUT = 40


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run on the toy language, trained long enough to say something, and its data."""
    place = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ZOO_DATA", str(place / "data"))
        data = write_pairs(place / "numbers-en-de")
        summary = zoo.run_recipe(
            {
                "dataset": {"name": str(data), "vocabulary": 300, "longest": CUT},
                "model": {"name": "transformer-seq2seq", "dim": 32, "layers": 1, "dropout": 0.0},
                "train": {
                    "epochs": 30,
                    "lr": 0.01,
                    "optimizer": "adamw",
                    "schedule": {"name": "inverse-sqrt", "warmup": 5.0},
                    "batching": {"name": "tokens", "size": 300},
                    "evaluate_every": 15,
                },
                "seeds": [2],
            },
            runs=place / "runs",
        )
    return Path(summary["folder"]), data, summary


@pytest.fixture
def weights(trained, tmp_path):
    """A copy of the weights, far from the run and from its data."""
    return Path(shutil.copytree(trained[0] / "seed-2", tmp_path / "weights"))


TEXT = "one two three.\n\n  \nfour five.\n👍 ſ\tzero\nnine eight"


def test_a_text_is_translated_line_by_line(weights, tmp_path, command):
    answer = Translator(zoo.load(weights))
    expected = [answer([each])[0] for each in TEXT.split("\n")]
    assert expected[1] == expected[2] == "" and len([each for each in expected if each]) > 2
    (tmp_path / "text.en").write_text(TEXT)
    code, out, _ = command("predict", weights, "--text", tmp_path / "text.en", "--out", "out.de")
    assert code == 0 and not out
    assert (tmp_path / "out.de").read_text() == "".join(f"{each}\n" for each in expected)
    code, _, said = command("predict", weights, "--text", tmp_path / "text.en", "--out", "out.de")
    assert code == 2 and "--again" in said


def test_what_it_says_is_what_was_scored(trained):
    folder, path, summary = trained
    data = read_pairs(path, vocabulary=300)
    english, german = sentences(20, 2)
    assert summary["test"]["mean"] > 0.05
    greedy = Translator(zoo.load(folder), beams=1)(english)
    assert bleu(greedy, german) == pytest.approx(summary["test"]["mean"])
    found = evaluate_pairs(zoo.load(folder), data, "test", beams=1)
    assert found["score"] == pytest.approx(summary["test"]["mean"]) and found["pairs"] == 20
    # Another data set with a tokenizer of its own is read in the tokens of the weights.
    other = read_pairs(path, vocabulary=270)
    assert evaluate_pairs(zoo.load(folder), other, "test", beams=1)["score"] == found["score"]


def test_pairs_of_other_languages_are_refused(trained):
    folder, path, _ = trained
    model, around = zoo.load(folder), read_pairs(path, source="de", target="en", vocabulary=270)
    assert model.about.languages == ["en", "de"]
    with pytest.raises(ZooError, match="the weights translate en to de, and numbers-en-de is de"):
        evaluate_pairs(model, around, "test")


def test_beams_and_penalty_reach_the_search(trained):
    model, (english, _) = zoo.load(trained[0]), sentences(20, 9)
    found = [Translator(model, beams=beams)(english) for beams in (1, 5)]
    assert found[0] != found[1]
    short, long = (
        sum(map(len, Translator(model, length_penalty=each)(english))) for each in (0.0, 5.0)
    )
    assert short < long


def test_the_command_evaluates(trained, command, monkeypatch):
    folder, data, summary = trained
    code, out, _ = command("evaluate", folder, "--beams", "1", "--json")
    found = json.loads(out)
    assert code == 0 and found["score"] == pytest.approx(summary["test"]["mean"])
    assert found["signature"].startswith("nrefs:1|") and (found["part"], found["pairs"]) == (
        "test", 20,
    )  # fmt: skip
    code, out, _ = command("evaluate", folder, "--data", data, "--part", "val")
    assert "on 20 val pairs of numbers-en-de" in out and "4 beams, nrefs:1|case" in out
    assert "--layerwise is for one graph" in command("evaluate", folder, "--layerwise")[2]


def stream(weights, *words):
    call = [sys.executable, "-W", "ignore", "-m", "zoo", "predict", str(weights), "--text", "-"]
    return subprocess.Popen([*call, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)  # fmt: skip


@pytest.mark.slow
def test_what_is_typed_is_answered_at_once(weights):
    """Each line is answered before the next is written; what is at hand goes through in order."""
    process = stream(weights, "--beams", "1")
    answer = Translator(zoo.load(weights), beams=1)
    for line in ("one two", "", "three four five"):
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().decode() == f"{answer([line])[0]}\n"
    many, _ = sentences(300, 4)
    out, said = process.communicate("".join(f"{each}\n" for each in many).encode())
    assert out.decode().splitlines() == answer(many), said
    assert process.returncode == 0


def test_a_reader_that_has_enough_ends_it_in_silence(weights):
    process = stream(weights, "--beams", "1")
    process.stdin.write(b"one\n" * 5)
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    try:
        process.stdin.write(b"two\n" * 50_000)
        process.stdin.close()
    except BrokenPipeError:
        pass
    said = process.stderr.read().decode()
    assert process.wait(60) == 1 and "Traceback" not in said


def test_a_terminal_obeys_nothing_that_a_model_writes(trained, tmp_path, monkeypatch):
    model = zoo.load(trained[0])
    (tmp_path / "one.en").write_text("one\n")
    monkeypatch.setattr(
        Translator, "__call__", lambda self, texts: ["red \x1b[31m 👩‍👧"] * len(texts)
    )
    for terminal, expected in (
        (True, "red \\x1b[31m 👩\\u200d👧\n"),
        (False, "red \x1b[31m 👩‍👧\n"),
    ):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal, raising=False)
        translate_file(model, str(tmp_path / "one.en"), None)
        assert sys.stdout.buffer.getvalue().decode() == expected


def test_order_is_kept_whatever_comes_together(trained):
    answer = Translator(zoo.load(trained[0]), beams=1, batch_size=30)
    english, _ = sentences(60, 7)
    sink = io.BytesIO()
    count = translate(answer, io.BytesIO("".join(f"{each}\n" for each in english).encode()), sink)
    assert count == (60, 0) and sink.getvalue().decode().splitlines() == answer(english)


def test_lines_come_as_they_are_there(monkeypatch):
    monkeypatch.setattr(room, "_LINES", 3)
    read, write = os.pipe()
    with open(read, "rb") as source, open(write, "wb", buffering=0) as sink:
        found = read_lines(source)
        sink.write(b"a\n")
        assert next(found) == ["a"]
        sink.write(b"b\nc")
        sink.close()
        assert [each for batch in found for each in batch] == ["b", "c"]
    content = b"\n".join([b"x"] * 10)
    assert max(map(len, read_lines(io.BytesIO(content)))) <= 3
    assert list(read_lines(io.BytesIO(b""))) == []


def test_long_lines_are_cut_and_counted(weights, tmp_path, command):
    (tmp_path / "text.en").write_text("one " * 300 + "\none two\n" + "x" * 10**6 + "\n")
    code, out, said = command("predict", weights, "--text", tmp_path / "text.en", "--beams", "1")
    assert code == 0 and len(out.splitlines()) == 3
    assert "2 were too long" in said


def test_bad_text_is_refused_in_a_paragraph(weights, tmp_path, command, monkeypatch):
    (tmp_path / "text.en").write_bytes("one\nfünf\n".encode("latin1"))
    for words, expected in (
        (["--text", "text.en"], "line 2 of the text is not UTF-8"),
        (["--text", "nowhere"], "nowhere cannot be read: No such file"),
        (["--text", "."], "cannot be read: Is a directory"),
        (["--text", "text.en", "--data", "cora"], "--data GRAPH.*or --text FILE"),
        ([], "--data GRAPH.*or --text FILE"),
        (["--text", "text.en", "--layerwise"], "--layerwise is for graphs"),
        (["--data", "{name: sbm}", "--out", "a.csv", "--beams", "2"], "--beams.*are for texts"),
        (["--data", "{name: sbm}"], "--out predictions.csv"),
        (["--data", "{name: sbm}", "--out", "a.csv"], "a model of text reads.*--text FILE"),
    ):
        code, out, said = command("predict", weights, *words)
        said = " ".join(said.split())
        assert code == 2 and "Traceback" not in said and re.search(expected, said), (
            words,
            said,
        )
    monkeypatch.setattr(room, "LONGEST_LINE", 100)
    with pytest.raises(ZooError, match="line 1 of the text is longer"):
        list(read_lines(io.BytesIO(b"x" * 200)))


def test_half_a_file_is_not_kept(weights, tmp_path, command):
    (tmp_path / "text.en").write_bytes(b"one\n" * 3 + b"\xff\n")
    assert command("predict", weights, "--text", "text.en", "--out", "out.de")[0] == 2
    assert not (tmp_path / "out.de").exists()


def test_commands_for_graphs_say_that_it_is_none(trained, command):
    folder, data, _ = trained
    for words, expected in (
        (("embed", folder, "--data", data, "--out", "a.npy"), "is no graph"),
        (("predict", folder, "--data", data, "--out", "a.csv"), "is no graph"),
        (("evaluate", "gcn-digits", "--data", data), "reads no text"),
        (("evaluate", "gcn-digits", "--beams", "3"), "are for translations"),
        (("evaluate", folder, "--data", "{name: sbm}"), "a model of text"),
        (("predict", "gcn-digits", "--text", "x"), "reads no text"),
        (("estimate", folder / "recipe.yaml"), "estimated for one graph"),
        (("check", "transformer-seq2seq"), "what models of graphs promise"),
        (("data", "prepare", data, "mine"), "no graph"),
        (("train", folder / "recipe.yaml", "model=gcn"), "no model of the task translation"),
        (("train", folder / "recipe.yaml", "train.batching=full"), "write `train.batching=tokens`"),
        (("train", folder / "recipe.yaml", "train.evaluate=layerwise"), "layer by layer"),
        (("train", folder / "recipe.yaml", "encoding=laplacian"), "leave `encoding` out"),
        (("train", "gcn-cora", "dataset=sbm", "train.batching=tokens"), "train.batching=full"),
        (("train", "gcn-cora", "dataset={name: sbm, task: translation}"), "task"),
    ):
        code, _, said = command(*words)
        said = " ".join(said.split())
        assert code == 2 and expected in said and "Traceback" not in said, (words, said)


def test_weights_keep_their_tokenizer(weights, tmp_path):
    model = zoo.load(weights)
    assert model.about.tokenizer and model.tokenizer == (weights / "tokenizer.json").read_text()
    zoo.save(model, tmp_path / "again")
    assert Translator(zoo.load(tmp_path / "again"))(["one"]) == Translator(model)(["one"])
    about = json.loads((tmp_path / "again" / "config.json").read_text())["about"]
    assert about["tokenizer"] == model.about.tokenizer
    card = (tmp_path / "again" / "README.md").read_text()
    assert "reads: text, in 300 tokens" in card and "zoo predict FOLDER --text FILE" in card
    assert "node" not in card


def test_a_damaged_tokenizer_is_refused(weights):
    path = weights / "tokenizer.json"
    text = path.read_text()
    for content, words in (
        (text.replace("Ġ", "Q", 1), "is not the file that config.json was written beside"),
        ("", "is not the file"),
        (None, "tokenizer.json is missing"),
    ):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_text(content)
        with pytest.raises(ZooError, match=words):
            zoo.load(weights)


def test_weights_without_one_translate_nothing(weights, tmp_path):
    model = zoo.load(weights)
    with pytest.raises(ZooError, match="have no `tokenizer.json`"):
        Translator(zoo.create_model("transformer-seq2seq", 300, 300))
    other = zoo.create_model("transformer-seq2seq", 200, 200)
    other.tokenizer = model.tokenizer
    with pytest.raises(ZooError, match="has 300 tokens and the model reads 200"):
        Translator(other)
    for how in ({"beams": 0}, {"beams": 2.5}, {"length_penalty": -1}, {"batch_size": 0}):
        with pytest.raises(ZooError):
            Translator(model, **how)
    torch.manual_seed(0)


def test_fine_tuning_reads_other_texts_in_the_tokens_of_the_weights(trained, tmp_path):
    folder, data, _ = trained
    recipe = zoo.load_recipe(folder / "recipe.yaml", ["train.epochs=1"]).plain()
    recipe["start_from"] = {"weights": str(folder / "seed-2")}
    same = zoo.run_recipe(recipe, runs=tmp_path / "same")
    recipe["dataset"]["source"], recipe["dataset"]["target"] = "de", "en"
    turned = zoo.run_recipe(recipe, runs=tmp_path / "turned")
    recipe["dataset"]["vocabulary"] = 301
    other = zoo.run_recipe(recipe, runs=tmp_path / "other")
    fresh = [
        json.loads(Path(each["folder"], "start_from.json").read_text())["fresh"]
        for each in (same, turned, other)
    ]
    assert fresh == [[], [], []]


def test_what_comes_before_a_bad_line_is_answered():
    given = read_lines(io.BytesIO(b"\xef\xbb\xbfone\ntwo\n\xff\n"))
    found = []
    with pytest.raises(ZooError, match="line 3 of the text is not UTF-8"):
        for lines in given:
            found += lines
    assert [each.strip() for each in found] == ["one", "two"]


@pytest.mark.slow
def test_a_bad_line_ends_it_though_more_may_come(weights):
    """Python does not wait at its end for the standard input, which is still open."""
    call = [sys.executable, "-W", "ignore", "-m", "zoo", "predict", str(weights), "--text", "-"]
    with subprocess.Popen(call, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as asked:  # fmt: skip
        asked.stdin.write(b"one\n\xff\n")
        asked.stdin.flush()
        assert asked.wait(timeout=120) == 2
        assert b"Fatal" not in asked.stderr.read()
