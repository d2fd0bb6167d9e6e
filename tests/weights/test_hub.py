"""Weights to and from the Hub, held against a stand-in that records what it is asked."""

import json
import shutil
import sys
import types
from pathlib import Path

import pytest
import torch

import zoo
from zoo.datasets.tokenizer import learnt
from zoo.errors import ZooError
from zoo.weights import hub
from zoo.weights.index import PRETRAINED


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A Hub in a folder."""
    module, asked = types.ModuleType("huggingface_hub"), []

    def create_repo(repo_id, *, private=False, exist_ok=False):
        asked.append((repo_id, private))
        (tmp_path / "hub" / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(*, repo_id, folder_path, allow_patterns):
        for name in allow_patterns:
            shutil.copy(Path(folder_path) / name, tmp_path / "hub" / repo_id)
        return f"https://hub/{repo_id}"

    def hf_hub_download(repo_id, filename, *, local_dir):
        (Path(local_dir) / ".cache").mkdir(exist_ok=True)
        shutil.copy(tmp_path / "hub" / repo_id / filename, local_dir)

    module.create_repo, module.upload_folder = create_repo, upload_folder
    module.hf_hub_download, module.asked = hf_hub_download, asked
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setenv("ZOO_OFFLINE", "0")
    return module


def test_there_and_back(stand_in, tmp_path):
    source = shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "mine")
    (source / "secret.txt").write_text("not for the Hub")
    assert hub.push(source, "me/digits", private=True) == "https://hub/me/digits"
    assert stand_in.asked == [("me/digits", True)]
    hub.pull("me/digits", tmp_path / "back")
    names = {"README.md", "config.json", "model.safetensors"}
    assert {path.name for path in (tmp_path / "back").iterdir()} == names
    ours, theirs = zoo.load(source), zoo.load(tmp_path / "back")
    assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))


def test_a_link_leads_nothing_else_to_the_hub(stand_in, tmp_path):
    source = shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "mine")
    (tmp_path / "key").write_text("private")
    (source / "README.md").unlink()
    (source / "README.md").symlink_to(tmp_path / "key")
    with pytest.raises(ZooError, match="mine/README.md is a link; put what it leads to"):
        hub.push(source, "me/digits")
    assert not (tmp_path / "hub").exists()


def test_a_model_of_text_takes_its_tokenizer_along(stand_in, tmp_path):
    model = zoo.create_model("transformer-seq2seq", 258, 258, dim=8, layers=1)
    model.tokenizer = learnt([], 258).text
    zoo.save(model, tmp_path / "mine")
    hub.push(tmp_path / "mine", "me/text")
    hub.pull("me/text", tmp_path / "back")
    names = {"README.md", "config.json", "model.safetensors", "tokenizer.json"}
    assert {path.name for path in (tmp_path / "back").iterdir()} == names
    assert zoo.load(tmp_path / "back").tokenizer == model.tokenizer
    (tmp_path / "hub" / "me" / "text" / "tokenizer.json").write_text("{}")
    with pytest.raises(ZooError, match="not the file that config.json was written beside"):
        hub.pull("me/text", tmp_path / "broken")
    assert not (tmp_path / "broken").exists()


def test_nothing_broken_goes_out_or_comes_in(stand_in, tmp_path):
    source = shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "mine")
    hub.push(source, "me/digits")
    for folder in (source, tmp_path / "hub" / "me" / "digits"):
        (folder / "model.safetensors").write_bytes(b"no")
    with pytest.raises(ZooError, match="damaged"):
        hub.push(source, "me/other")
    assert not (tmp_path / "hub" / "me" / "other").exists()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ZooError, match="damaged"):
        hub.pull("me/digits", tmp_path / "back")
    with pytest.raises(ZooError, match="the Hub did not do it"):
        hub.pull("me/nowhere", tmp_path / "back")
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_refused_before_the_network_is_used(tmp_path, monkeypatch):
    with pytest.raises(ZooError, match="ZOO_OFFLINE"):
        hub.pull("me/digits", tmp_path / "back")
    monkeypatch.setenv("ZOO_OFFLINE", "0")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ZooError, match=r"graph-transformer-zoo\[hub\]"):
        hub.pull("me/digits", tmp_path / "back")
    for name in ("digits", "../digits", "me/../digits", "me/digits/x", "me/.."):
        with pytest.raises(ZooError, match="OWNER/NAME"):
            hub.push(tmp_path, name)
    with pytest.raises(ZooError, match="exists"):
        hub.pull("me/digits", tmp_path)


def test_an_index_may_name_a_folder_of_the_hub(stand_in, tmp_path, monkeypatch):
    """What comes from there is what the index says, or is refused."""
    hub.push(PRETRAINED / "gcn-digits", "me/digits")
    entry = json.loads((PRETRAINED / "index.json").read_text())["gcn-digits"]
    entries = {"mine": {**entry, "address": "hub:me/digits"}}
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "index.json").write_text(json.dumps(entries))
    monkeypatch.setenv("ZOO_WEIGHTS", str(tmp_path / "own"))
    assert type(zoo.load("mine")).__name__ == "GCN"
    shutil.rmtree(tmp_path / "hub")
    assert type(zoo.load("mine")).__name__ == "GCN"  # it is kept
    entries = {"other": {**entries["mine"], "files": {**entry["files"], "README.md": "0" * 64}}}
    hub.push(PRETRAINED / "gcn-digits", "me/digits")
    (tmp_path / "own2").mkdir()
    (tmp_path / "own2" / "index.json").write_text(json.dumps(entries))
    monkeypatch.setenv("ZOO_WEIGHTS", str(tmp_path / "own2"))
    with pytest.raises(ZooError, match="README.md is not the file that index.json names"):
        zoo.load("other")
