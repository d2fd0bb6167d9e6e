"""Texts as sequences of tokens: what a file may hold, which part each is of, and other tokens."""

import gzip
import json

import pytest
import torch

from zoo.data.load import dataset_problems, default_split, load_data, own_files
from zoo.data.splits import make_split, split_of
from zoo.errors import ZooError
from zoo.sequences.data.texts import retokenize
from zoo.sequences.data.tokenizer import END, train_tokenizer

LINES = [
    {
        "id": str(n),
        "split": "test" if n % 4 == 3 else "train",
        "label": "ab"[n % 2],
        "text": f"word {n} of many words, " * (n % 5),
    }
    for n in range(40)
]


@pytest.fixture
def written(tmp_path):
    """Write lines to a file; return the spec that reads it."""

    def write(lines, name="own.jsonl", **options):
        text = "".join(f"{each if isinstance(each, str) else json.dumps(each)}\n" for each in lines)
        (tmp_path / name).write_bytes(
            gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        )
        return {"name": "texts", "path": str(tmp_path / name), "vocabulary": 300, **options}

    return write


@pytest.mark.parametrize("name", ["own.jsonl", "own.jsonl.gz"])
def test_a_file_is_cut_into_tokens(written, name):
    data = load_data(written(LINES, name, longest=9, window=1, skip=0))
    assert data.name == "own" and data.labels == ("a", "b") and data.classes == 2
    assert data.inputs == data.tokenizer.size <= 300 and data.x.dtype == torch.int64
    sizes = data.graphs.sizes.tolist()
    assert len(sizes) == 40 and max(sizes) == 9 and sizes[0] == 1  # an empty text is the end
    rows = data.x.split(sizes)
    assert rows[0].tolist() == [END]
    for row, line in zip(rows[1:5], LINES[1:5], strict=True):
        assert row.tolist() == data.tokenizer.encode([line["text"]])[0][:9]
    graph, x = data.batch(torch.tensor([2, 0]))
    assert graph.batch_num_nodes().tolist() == [9, 1] and len(x) == 10
    assert graph.in_degrees().tolist() == [2, *[3] * 7, 2, 1]
    assert data.ids.tolist() == [str(n) for n in range(40)]
    assert [each.name for each in own_files(written(LINES, name))] == [name]


def test_a_tenth_of_training_is_for_validation_and_alone_teaches_no_tokens(written):
    data = load_data(written(LINES))
    assert data.split == "benchmark"
    split = make_split("benchmark", data.y, data.masks, seed=3)
    assert split.test.tolist() == list(range(3, 40, 4))
    assert len(split.val) == 3 and len(split.train) == 27
    assert torch.equal(split.val, make_split("benchmark", data.y, data.masks, seed=4).val)
    known = [LINES[each]["text"] for each in split.train.tolist()]
    assert data.tokenizer.sha256 == train_tokenizer(known, 300).sha256
    own = [{**each, "split": "val" if n < 5 else each["split"]} for n, each in enumerate(LINES)]
    assert load_data(written(own)).masks["val"][0].nonzero().flatten().tolist() == list(range(5))


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_split_that_leaves_a_part_empty_divides_nothing(written, part):
    lines = [{**each, "split": part} for each in LINES]
    whole = load_data(written([{**each, "split": None} for each in LINES]))
    spec = written(lines)
    nodes, sequences = load_data({"name": spec["path"]}), load_data(spec)
    for data in (nodes, sequences):
        assert len(data.y) == 40 and data.split == "benchmark"
        empty = "test" if part == "train" else "train"
        with pytest.raises(ZooError, match=f"comes with own marks none of the .* as {empty}"):
            split_of(data, "benchmark", 0)
    if part == "test":
        assert sequences.tokenizer.sha256 == whole.tokenizer.sha256


def test_only_the_text_is_needed(written):
    labels = [{}, {"label": 3}, {"label": None}, {"label": -1}, {"label": "-1"}, {"label": ""}]
    lines = [{"text": "a \ud800 b", **each} for each in labels]
    data = load_data(written([*lines, "", {"text": ""}]))
    assert data.split == "ratio-60-20-20" and data.masks is None and data.ids is None
    assert data.y.tolist() == [-1, 0, -1, -1, -1, -1, -1] and data.labels == ("3",)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{}"], "line 1: `text` is to be text"),
        ([{"text": "a"}, "no json"], "line 2: a line is to be an object of JSON, not 'no json'"),
        (["[1]"], "object of JSON"),
        ([{"text": 7}], "`text` is to be text"),
        ([{"text": "a", "label": 1.5}], "`label` is to be text, or a whole number"),
        ([{"text": "a", "label": True}], "`label` is to be"),
        (
            [{"text": "a", "id": 1}, {"text": "b"}, "", {"text": "c", "id": None}],
            "2 of 3 lines have no `id`, first line 2; write one in each",
        ),
        (
            [{"text": "a", "id": 1}, {"text": "b", "id": 2}, {"text": "c", "id": "1"}],
            "the id 1 is that of several nodes .rows 0 and 2.*give each node an id of its own",
        ),
        ([{"text": "a", "split": "dev"}], "`split` is to be train, val, test"),
        ([{"text": "a", "split": ["train"]}], "`split` is to be"),
        ([], "holds no text"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(written, lines, said):
    with pytest.raises(ZooError, match=said) as caught:
        load_data(written(lines))
    assert "own.jsonl" in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_said(tmp_path, monkeypatch):
    spec = {"name": "texts", "path": str(tmp_path / "own.jsonl.gz")}
    with pytest.raises(ZooError, match="own.jsonl.gz: there is no such file"):
        load_data(spec)
    (tmp_path / "own.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(ZooError, match="cannot be read"):
        load_data(spec)
    (tmp_path / "own.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}' * 99)[:-9])
    with pytest.raises(ZooError, match="cannot be read"):
        load_data(spec)
    (tmp_path / "own.jsonl.gz").write_bytes(gzip.compress(b'{"text": "a"}\n{"text": "\xe4"}\n'))
    with pytest.raises(ZooError, match="line 2 is not UTF-8; write the file in it, .*iconv"):
        load_data(spec)
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    with pytest.raises(ZooError, match="r8.jsonl is in none of.*ZOO_DATA"):
        load_data("r8-tokens")
    wrong = {"name": "r8-tokens", "vocabulary": 7, "longest": 0, "window": -1, "skip": "x"}
    assert len(dataset_problems(wrong, ())) == 4
    assert default_split("r8-tokens") == "benchmark" and default_split("texts") is None


def test_texts_are_cut_into_the_tokens_of_another(written):
    data = load_data(written(LINES, longest=3))
    assert retokenize(data, data.tokenizer, 11).graphs.sizes.max() == 11
    other = train_tokenizer(["nothing of the kind"] * 3, 260)
    found = retokenize(data, other, 11)
    assert found.inputs == other.size and found.graphs.window == 2
    rows = found.x.split(found.graphs.sizes.tolist())
    for row, line in zip(rows, LINES, strict=True):
        assert row.tolist() == (other.encode([line["text"]])[0][:11] or [END])


def test_r8(real_graph):
    data = real_graph("r8-tokens", vocabulary=300, longest=20)
    assert len(data.y) == 7674 and data.classes == 8
    assert [int(data.masks[part].sum()) for part in data.masks] == [4937, 548, 2189]


def test_a_word_that_may_mean_unknown_is_a_class_and_said(tmp_path, caplog):
    from zoo.data.files.text_lines import read_documents

    lines = [{"text": "red house", "label": each} for each in ("none", "some", None, "-1")]
    path = tmp_path / "own.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    found = read_documents(path)
    assert found.label_names == ("none", "some") and found.labels.tolist() == [0, 1, -1, -1]
    assert "own.jsonl: the label 'none' is a class" in caplog.text
