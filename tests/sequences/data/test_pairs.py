"""Pairs of sentences: read from folders, and every way in which they may be wrong."""

import gzip
import logging

import pytest
import torch
from sentences import sentences, write_pairs

from zoo.data.files.text_lines import has_pairs, languages
from zoo.data.load import load_data, load_unless_graph_file, own_files, read_graph, resolved_dataset
from zoo.data.load.check import check
from zoo.data.splits import make_split
from zoo.errors import ZooError
from zoo.runs.prepare import prepare
from zoo.runs.resolve import load_recipe, resolve
from zoo.sequences.data.pairs import Sentences, read_pairs, retokenize
from zoo.sequences.data.tokenizer import BEGIN, END


@pytest.fixture
def folder(tmp_path):
    return write_pairs(tmp_path / "numbers-en-de")


@pytest.mark.parametrize("compressed", [True, False])
def test_a_folder_is_read_as_it_is(tmp_path, compressed):
    folder = write_pairs(tmp_path / "numbers-en-de", compressed=compressed)
    data = load_data({"name": str(folder), "vocabulary": 300})
    assert (data.name, data.task, data.metric, data.inputs) == ("numbers-en-de", "translation",
                                                                "bleu", 300)  # fmt: skip
    split = make_split(data.split, data.y, data.masks, seed=5)
    for number, (part, count) in enumerate({"train": 120, "val": 20, "test": 20}.items()):
        rows = getattr(split, part)
        english, german = sentences(count, number)
        assert data.references(rows) == german
        assert data.tokenizer.decode([data.sources[row].tolist() for row in rows]) == english


def test_sources_end_and_targets_are_moved_by_one(folder):
    data = read_pairs(folder)
    source, given, said = data.source(3), data.inputs_of(3), data.labels_of(3)
    assert source[-1] == END and given[0] == BEGIN and said[-1] == END
    assert torch.equal(given[1:], said[:-1]) and given.dtype == torch.int64
    assert data.tokenizer.decode([source.tolist(), said.tolist()]) == [
        side[3] for side in sentences(120, 0)
    ]


def test_sentences_are_flat():
    found = Sentences.of([[5, 6], [], [7]])
    assert found.tokens.dtype == torch.int32 and found.lengths.tolist() == [2, 0, 1]
    assert [found[row].tolist() for row in range(3)] == [[5, 6], [], [7]]


def test_the_name_or_the_recipe_says_the_direction(folder, tmp_path):
    back = read_pairs(folder, source="de", target="en")
    assert back.references(torch.tensor([0])) == [sentences(120, 0)[0][0]]
    plain = folder.rename(tmp_path / "numbers")
    assert languages(plain) == ["de", "en"] and has_pairs(plain)
    with pytest.raises(ZooError, match="translated from one to another.*source: en, target: de"):
        read_pairs(plain)
    assert read_pairs(plain, source="en", target="de").references(torch.tensor([0]))
    for source, target in (("en", "en"), ("en", "fr")):
        with pytest.raises(ZooError, match=f"de, en.*from {source} to {target}"):
            read_pairs(plain, source=source, target=target)


def test_other_folders_are_no_pairs(tmp_path):
    assert not has_pairs(tmp_path / "nowhere")
    for name in ("train.csv", "train.en", "train.npz", "train.txt", "nodes.de"):
        (tmp_path / name).write_text("")
        assert not has_pairs(tmp_path)


def test_it_is_found_by_name_in_the_data_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_DATA", f"{tmp_path / 'first'}:{tmp_path / 'second'}")
    write_pairs(tmp_path / "second" / "numbers-en-de")
    write_pairs(tmp_path / "second" / "multi30k-en-de")
    assert load_data("numbers-en-de").name == "numbers-en-de"
    assert load_data({"name": "multi30k-en-de", "vocabulary": 290}).inputs == 290


def test_options_are_checked_and_written_out(folder):
    full = resolved_dataset(str(folder))
    assert full == {"name": str(folder), "source": None, "target": None, "vocabulary": 8000,
                    "longest": 256}  # fmt: skip
    for options, words in (
        ({"sorce": "en"}, "did you mean 'source'"),
        ({"vocabulary": 100}, "vocabulary"),
        ({"longest": 0}, "longest"),
        ({"source": "../en"}, "source"),
        ({"features": "row"}, "features"),
    ):
        with pytest.raises(ZooError, match=words):
            load_data({"name": str(folder), **options})
    files = [each.name for each in own_files(str(folder))]
    assert files == [
        f"{part}.{each}.gz" for part in ("train", "val", "test") for each in ("en", "de")
    ]


def test_it_is_no_graph(folder):
    with pytest.raises(ZooError, match="pairs of sentences and no graph"):
        read_graph(str(folder))


def test_what_is_worth_a_look_in_pairs_is_found(folder):
    english, german = sentences(120, 0)
    english[3], german[3] = english[2], german[2]  # twice
    german[5] = english[5]  # not translated
    german[7] = " ".join(german[:12])  # of other lines
    write(folder / "train.en.gz", "\n".join(english))
    write(folder / "train.de.gz", "\n".join(german))
    write(folder / "test.en.gz", "\n".join([english[0], *sentences(9, 2)[0]]))
    write(folder / "test.de.gz", "\n".join([german[0], *sentences(9, 2)[1]]))
    found = {each.name: each for each in check(load_unless_graph_file({"name": str(folder)}))}
    assert found["repeated pairs"].values["repeated"] >= 1
    for name in ("repeated pairs", "same on both sides", "unequal lengths", "seen in training"):
        assert found[name].verdict == "look" and found[name].fix, name
    assert found["size"].values["test"] == 10
    assert found["long pairs"].verdict == "good"


def said_by(folder, caplog, **options):
    with caplog.at_level(logging.WARNING):
        data = read_pairs(folder, **options)
    return data, caplog.text


def write(path, text):
    path.write_bytes(gzip.compress(text if isinstance(text, bytes) else text.encode()))


def test_pairs_of_which_a_side_is_empty_are_dropped(folder, caplog):
    english, german = sentences(120, 0)
    english[4], german[9], english[20] = "", " \t", "   spaces  "
    write(folder / "train.en.gz", "\n".join(english))  # without a last line feed
    write(folder / "train.de.gz", "".join(f"{each}\r\n" for each in german))
    data, said = said_by(folder, caplog)
    assert "2 pairs are dropped" in said
    assert int(data.masks["train"].sum()) == 118
    assert data.references(torch.tensor([4])) == [german[5]]


def test_signs_that_end_lines_elsewhere_do_not(folder):
    odd = "eins\u2028zwei\x0bdrei\x85"
    english, german = sentences(20, 2)
    write(folder / "test.de.gz", "".join(f"{each}\n" for each in [odd, *german[1:]]))
    assert read_pairs(folder).references(torch.tensor([140])) == [odd.strip()]


def test_long_pairs_are_left_out_of_training_and_long_sources_cut(folder, caplog):
    english, german = sentences(120, 0)
    write(folder / "train.en.gz", "".join(f"{each}\n" for each in ["x" * 10**6, *english[1:]]))
    write(folder / "train.de.gz", "".join(f"{each}\n" for each in [*german[:-1], "null " * 300]))
    english, german = sentences(20, 1)
    write(folder / "val.en.gz", "".join(f"{each}\n" for each in ["one " * 300, *english[1:]]))
    data, said = said_by(folder, caplog, longest=100)
    assert "2 are left out of training, and the sources of 1" in said
    mask = data.masks["train"][0]
    assert not mask[0] and not mask[119] and int(mask.sum()) == 118
    assert int(data.masks["val"].sum()) == 20 and len(data.source(120)) == 101
    assert data.references(torch.tensor([119])) == [("null " * 300).strip()]
    with pytest.raises(ZooError, match="every training pair is longer than 2 tokens"):
        read_pairs(folder, longest=2)


WRONG = {
    "lines": (lambda f: write(f / "val.en.gz", "one\n"), "val.en.gz has 1 lines and val.de.gz 20"),
    "encoding": (
        lambda f: write(f / "train.de.gz", "null\nfünf\n".encode("latin1")),
        "train.de.gz, line 2, is not UTF-8",
    ),
    "no gzip": (lambda f: (f / "train.de.gz").write_bytes(b"null\n"), "cannot be read.*gzip"),
    "cut off": (
        lambda f: (f / "test.de.gz").write_bytes((f / "test.de.gz").read_bytes()[:-20]),
        "test.de.gz cannot be read",
    ),
    "damaged": (
        lambda f: (f / "test.de.gz").write_bytes(b"\x1f\x8b\x08\0\0\0\0\0\0\0" + b"\xff" * 90),
        "test.de.gz cannot be read",
    ),
    "no validation": (lambda f: (f / "val.de.gz").unlink(), "neither val.de nor val.de.gz"),
    "no test": (lambda f: (f / "test.en.gz").unlink(), "neither test.en nor test.en.gz"),
    "nothing": (
        lambda f: [write(f / f"val.{each}.gz", "") for each in ("en", "de")],
        "hold no pair of sentences",
    ),
    "empty lines": (
        lambda f: [write(f / f"train.{each}.gz", "\n\n\n") for each in ("en", "de")],
        "hold no pair of sentences",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said_in_one_paragraph(folder, what):
    change, words = WRONG[what]
    change(folder)
    with pytest.raises(ZooError, match=words) as caught:
        load_data(str(folder))
    assert "\n" not in str(caught.value)


def test_an_encoding_is_refused(folder):
    data = read_pairs(folder)
    assert data.encoded(lambda graph: torch.zeros(graph.num_nodes(), 0)) is data
    with pytest.raises(ZooError, match="leave `encoding` out"):
        data.encoded(lambda graph: torch.zeros(graph.num_nodes(), 2))


def test_one_language_says_the_other(folder):
    wanted = read_pairs(folder, source="de", target="en").references(torch.tensor([0]))
    assert read_pairs(folder, source="de").references(torch.tensor([0])) == wanted
    assert read_pairs(folder, target="en").references(torch.tensor([0])) == wanted


def test_the_files_are_the_split(folder):
    """Another would be measured on pairs that the model was trained on."""
    recipe = {"dataset": {"name": str(folder), "split": "ratio-60-20-20"},
              "model": "transformer-seq2seq", "train": {"batching": "tokens"}}  # fmt: skip
    with pytest.raises(ZooError, match="leave `split: ratio-60-20-20` out"):
        prepare(resolve(load_recipe(recipe)))


def test_pairs_in_the_tokens_of_others_are_the_same_texts(folder):
    data, rows = read_pairs(folder), torch.arange(160)
    other = read_pairs(folder, vocabulary=270).tokenizer
    found = retokenize(data, other, 256)
    assert found.inputs == other.size != data.inputs
    assert found.references(rows) == data.references(rows)
    assert retokenize(data, data.tokenizer, 256) is data
    assert not retokenize(data, other, 20).masks["train"].all()
