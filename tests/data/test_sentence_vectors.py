"""Columns of text as vectors of a language model that lies in a folder."""

import contextlib
import json
import shutil

import pandas
import pytest
import torch

from zoo.data.load import load_graph
from zoo.data.tables import sentence_vectors as module
from zoo.data.tables.sentence_vectors import sentence_vectors
from zoo.errors import ZooError

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "garden",
    "seed",
    "spade",
    "phone",
    "cable",
    "a",
    "b",
    "c",
    "d",
]
TEXTS = ["garden seed", "", "phone cable a b c d", "spade", "unheard of"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A tiny BERT with random weights."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=6)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=16,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))


def slowly(text, folder):
    """The mean of the states of a text's own tokens, six at most, divided by its length."""
    from transformers import AutoModel, AutoTokenizer

    given = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    given = {key: each[:, :6] for key, each in given.items()}
    given["input_ids"][:, -1] = WORDS.index("[SEP]")
    with torch.no_grad():
        mean = AutoModel.from_pretrained(folder).eval()(**given).last_hidden_state[0].mean(0)
    return mean / mean.norm()


@pytest.mark.slow
def test_they_are_means_of_the_states_of_tokens(model, monkeypatch):
    monkeypatch.setattr(module, "_BATCH", 2)
    found = torch.from_numpy(sentence_vectors(TEXTS, str(model)))
    assert found.shape == (5, 8) and found[1].eq(0).all()
    for place in (0, 2, 3, 4):
        torch.testing.assert_close(found[place], slowly(TEXTS[place], model), rtol=0, atol=1e-5)


def test_they_are_computed_once(model, monkeypatch):
    first = sentence_vectors(TEXTS, str(model))
    monkeypatch.setattr(module, "_embed", None)
    assert (sentence_vectors(TEXTS, str(model)) == first).all()


def test_a_table_reads_its_texts_by_them(model, tmp_path):
    table = pandas.DataFrame(
        {"id": range(5), "about": TEXTS, "n": range(5), "label": [0, 1] * 2 + [1]}
    )
    table.to_csv(tmp_path / "own.csv", index=False)
    told = {"text": "about", "language_model": str(model), "numbers": "raw"}
    data = load_graph(str(tmp_path / "own.csv"), **told)
    assert data.x.shape == (5, 9) and data.feature_names[0] == "about[0]" and data.learnt is None
    assert torch.equal(data.x[:, :8], torch.from_numpy(sentence_vectors(TEXTS, str(model))))


@pytest.mark.parametrize("kind", ["bert", "own"])
def test_no_code_of_a_model_is_run(model, tmp_path, kind):
    folder, proof = tmp_path / "hostile", tmp_path / "proof"
    shutil.copytree(model, folder)
    (folder / "evil.py").write_text(f"open({str(proof)!r}, 'w').close()\nclass Evil: pass\n")
    config = json.loads((folder / "config.json").read_text())
    auto = {each: "evil.Evil" for each in ("AutoConfig", "AutoModel", "AutoTokenizer")}
    (folder / "config.json").write_text(
        json.dumps({**config, "model_type": kind, "auto_map": auto})
    )
    with contextlib.suppress(ZooError):
        sentence_vectors(TEXTS, str(folder))
    assert not proof.exists()


def test_what_is_wrong_is_said(model, tmp_path):
    with pytest.raises(ZooError, match="no folder with a config.json and a model.safetensors"):
        sentence_vectors(TEXTS, str(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ZooError, match="language_model: .* cannot be read"):
        sentence_vectors(TEXTS, str(tmp_path))
