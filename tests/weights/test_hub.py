"""Weights on the Hub, by its own library and against a server that answers as the Hub does."""

import hashlib
import http.server
import json
import shutil
import sys
import threading
import types
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import torch

import zoo
from zoo.errors import ZooError
from zoo.sequences.data.tokenizer import train_tokenizer
from zoo.weights import hub
from zoo.weights import index as weights_index
from zoo.weights.files import sha256_of
from zoo.weights.index import PRETRAINED, locate

huggingface_hub = pytest.importorskip("huggingface_hub")


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers what is asked for to download a repository, a folder of `server.folder`."""

    def do_GET(self):
        server, path = self.server, urlsplit(self.path).path
        server.asked.append(path)
        words = path.removeprefix("/api/models").strip("/").split("/")
        folder = server.folder.joinpath(*words[:2])
        if not folder.is_dir():
            return self.answer(401, {"X-Error-Code": "RepoNotFound"})
        files = {each.name: each.read_bytes() for each in folder.iterdir()}
        commit = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        about = {name: hashlib.sha1(each).hexdigest() for name, each in files.items()}
        if path.startswith("/api") and words[2] == "revision":
            if words[3] not in ("main", commit):
                return self.answer(404, {"X-Error-Code": "RevisionNotFound"})
            return self.answer(200, {}, json.dumps({"id": "/".join(words[:2]), "sha": commit}))
        if path.startswith("/api"):
            tree = [{"type": "file", "path": name, "size": len(files[name]), "oid": digest}
                    for name, digest in about.items()]  # fmt: skip
            return self.answer(200, {"Content-Type": "application/json"}, json.dumps(tree))
        self.answer(200, {"X-Repo-Commit": commit, "ETag": f'"{about[words[4]]}"'}, files[words[4]])

    do_HEAD = do_GET

    def answer(self, code, headers, content=b""):
        content = content.encode() if isinstance(content, str) else content
        self.send_response(code)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A Hub in a folder: what is pushed lies there, and is downloaded from a server of it."""
    module = types.SimpleNamespace(private=[], folder=tmp_path / "hub")

    def create_repo(repo_id, *, private=False, exist_ok=False):
        module.private.append((repo_id, private))
        (module.folder / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(*, repo_id, folder_path, allow_patterns):
        for path in Path(folder_path).iterdir():
            if path.name in allow_patterns:
                shutil.copy(path, module.folder / repo_id)
        return f"https://hub/{repo_id}"

    monkeypatch.setattr(huggingface_hub, "create_repo", create_repo, raising=False)
    monkeypatch.setattr(huggingface_hub, "upload_folder", upload_folder, raising=False)
    monkeypatch.setenv("ZOO_OFFLINE", "0")
    weights_index._of_hub.cache_clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.folder, server.asked = module.folder, []
        module.asked, address = server.asked, f"http://127.0.0.1:{server.server_port}"
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        for name, value in {
            "ENDPOINT": address,
            "HUGGINGFACE_CO_URL_TEMPLATE": template,
            "HF_HUB_CACHE": str(tmp_path / "cache"),
        }.items():
            monkeypatch.setattr(huggingface_hub.constants, name, value)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield module
        server.shutdown()
    weights_index._of_hub.cache_clear()


def test_there_and_back(stand_in, tmp_path):
    source = shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "mine")
    (source / "secret.txt").write_text("not for the Hub")
    assert hub.push(source, "me/digits", private=True) == "https://hub/me/digits"
    assert stand_in.private == [("me/digits", True)]
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
    model.tokenizer = train_tokenizer([], 258).text
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
    (tmp_path / "cache").mkdir()
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


def test_weights_of_the_hub_by_name(stand_in, tmp_path, monkeypatch):
    """They come once, into the cache of the Hub, and are taken from there without a network."""
    source = shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "hub" / "me" / "digits")
    (source / "model.pkl").write_bytes(b"never fetched")
    found = locate("hub:me/digits")
    assert found.why == "of hub:me/digits" and (tmp_path / "cache") in found.folder.parents
    assert {path.name for path in found.folder.iterdir()} == {
        "README.md", "config.json", "model.safetensors",
    }  # fmt: skip
    ours = zoo.load("gcn-digits").state_dict()
    assert all(map(torch.equal, ours.values(), zoo.load("hub:me/digits").state_dict().values()))
    assert sum("model.safetensors" in path for path in stand_in.asked) in (1, 2)  # HEAD and GET
    commit, asked = found.folder.name, len(stand_in.asked)
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    weights_index._of_hub.cache_clear()
    assert locate("hub:me/digits").folder == locate(f"hub:me/digits@{commit}").folder
    assert locate("hub:me/digits").folder == found.folder and len(stand_in.asked) == asked
    with pytest.raises(ZooError, match="ZOO_OFFLINE forbids talking to the Hub about me/other"):
        locate("hub:me/other")


def test_a_revision_is_what_it_was(stand_in, tmp_path):
    source = shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "hub" / "me" / "digits")
    before = locate("hub:me/digits").folder
    (source / "README.md").write_text("A better card.\n")
    weights_index._of_hub.cache_clear()
    after = locate("hub:me/digits").folder
    assert (after / "README.md").read_text() == "A better card.\n" and after != before
    weights_index._of_hub.cache_clear()
    assert locate(f"hub:me/digits@{before.name}").folder == before
    with pytest.raises(ZooError, match="the Hub did not do it"):
        locate("hub:me/digits@v2")


def test_a_recipe_starts_from_the_hub_and_its_run_says_the_commit(stand_in, tmp_path):
    shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "hub" / "me" / "digits")
    model = {"name": "gcn", **zoo.load("gcn-digits").config}
    recipe = {
        "dataset": "karate",
        "model": {key: each for key, each in model.items() if not key.endswith("_dim")},
        "train": {"epochs": 1},
        "start_from": {"weights": "hub:me/digits"},
    }
    run = Path(zoo.run_recipe(recipe, runs=tmp_path / "runs", device="cpu")["folder"])
    commit = locate("hub:me/digits").folder.name
    assert f"weights: 'hub:me/digits@{commit}'" in (run / "recipe.yaml").read_text()
    about = zoo.load(run).about
    known = about.files[f"digits@{commit}"]
    assert known == sha256_of(PRETRAINED / "gcn-digits" / "model.safetensors")
    assert str(tmp_path) not in json.dumps(about.model_dump())


def test_what_is_no_folder_of_weights_is_answered(stand_in, tmp_path):
    source = shutil.copytree(PRETRAINED / "gcn-digits", tmp_path / "hub" / "me" / "digits")
    (source / "model.safetensors").write_bytes(b"no")
    with pytest.raises(ZooError, match="damaged"):
        zoo.load("hub:me/digits")
    shutil.copy(PRETRAINED / "gat-digits" / "model.safetensors", source)
    weights_index._of_hub.cache_clear()
    with pytest.raises(ZooError, match="model.safetensors is not the file that config.json was"):
        zoo.load("hub:me/digits")
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    weights_index._of_hub.cache_clear()
    with pytest.raises(ZooError, match="no weights of the zoo: it has no model.safetensors"):
        zoo.load("hub:me/digits")
    with pytest.raises(ZooError, match="me/nowhere: the Hub did not do it"):
        zoo.load("hub:me/nowhere")
    with pytest.raises(ZooError, match="OWNER/NAME"):
        zoo.load("hub:me/../digits")


def test_a_recipe_that_is_looked_at_asks_no_network(tmp_path, command):
    path = tmp_path / "starts.yaml"
    path.write_text("dataset: digits\nmodel: gcn\nstart_from: {weights: 'hub:no/such'}\n")
    code, out, _ = command("show", str(path))
    assert code == 0 and "weights: 'hub:no/such'" in out
