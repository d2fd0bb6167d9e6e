import gzip
import hashlib
import http.server
import io
import json
import os
import pickle
import threading
import time
import zipfile
from collections import defaultdict

import numpy as np
import pooch
import pytest
import requests
import torch
from scipy import sparse
from scipy.io import savemat

from zoo.data.files.prepared import read_prepared, read_split
from zoo.data.load import load_graph
from zoo.data.load.named import NAMED, URLS, SplitFile
from zoo.data.splits import split_of
from zoo.errors import ZooError
from zoo.system import http as downloading
from zoo.system.files import WriteError
from zoo.system.http import download

CONTENT = np.random.default_rng(0).bytes(300_000)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files`; sends only `server.cuts[i]` bytes in the i-th answer."""

    def do_GET(self):
        server = self.server
        server.asked.append(self.path)
        content = server.files.get(self.path)
        if content is None:
            return self.send_error(404)
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: server.cuts.pop(0) if server.cuts else len(content)])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.delenv("ZOO_OFFLINE")
    monkeypatch.setattr(downloading, "RETRIES", 0)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.cuts, server.asked = {}, [], []
    server.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


# The downloader


def test_a_disk_that_takes_no_more_is_not_the_network(server, tmp_path, file_limit):
    server.files["/file"] = CONTENT
    file_limit(15)
    with pytest.raises(WriteError, match="a file may not be so large .* Raise that limit"):
        download(f"{server.url}/file", tmp_path / "file")
    assert not os.listdir(tmp_path) and len(server.asked) == 1


def test_a_file_comes_whole(server, tmp_path, capfd):
    server.files["/file"] = CONTENT
    path = tmp_path / "folder" / "file"
    download(f"{server.url}/file", path, sha256=hashlib.sha256(CONTENT).hexdigest())
    assert path.read_bytes() == CONTENT
    assert os.listdir(path.parent) == ["file"] and len(server.asked) == 1
    assert capfd.readouterr() == ("", "")  # the bar is for terminals


def test_a_connection_that_breaks_off_begins_again(server, tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    monkeypatch.setattr(downloading, "RETRIES", 2)
    server.files["/file"], server.cuts = CONTENT, [1000, 0]
    download(f"{server.url}/file", tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT and len(server.asked) == 3
    assert len(waited) == 2


def test_a_server_that_sends_nothing_is_given_up(server, tmp_path, monkeypatch):
    monkeypatch.setattr(pooch.downloaders, "DEFAULT_TIMEOUT", 0.1)
    monkeypatch.setattr(Handler, "do_GET", lambda self: threading.Event().wait(1))
    with pytest.raises(ZooError, match="timed out"):
        download(f"{server.url}/file", tmp_path / "file")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("https://a/x", "http://b/x", False),
        ("https://a/x", "HTTP://b/x", False),
        ("https://a/x", "https://b/x", True),
        ("http://a/x", "http://b/x", True),
    ],
)
def test_what_is_encrypted_is_not_sent_on_to_what_is_not(old, new, allowed, tmp_path, monkeypatch):
    """Answers are made where requests would open a connection."""
    asked = []

    def send(self, request, **_):
        asked.append(request.url.lower())
        answer = requests.Response()
        answer.status_code, answer.url = (302, request.url) if len(asked) == 1 else (200, new)
        answer.headers["Location"] = new if len(asked) == 1 else ""
        answer.raw, answer.request = io.BytesIO(b"found"), request
        return answer

    monkeypatch.delenv("ZOO_OFFLINE")
    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    if allowed:
        download(old, tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == b"found" and asked == [old, new]
    else:
        with pytest.raises(ZooError, match=f"sends on to {new}, which is not encrypted"):
            download(old, tmp_path / "file")
        assert asked == [old] and not os.listdir(tmp_path)


def test_what_fails_says_why_and_leaves_nothing(server, tmp_path, monkeypatch):
    def fails(url, *words, **options):
        with pytest.raises(ZooError) as caught:
            download(url, tmp_path / "file", **options)
        for word in (url, *words):
            assert word in str(caught.value), caught.value
        assert not os.listdir(tmp_path)

    server.files["/file"] = CONTENT
    fails(f"{server.url}/nothing", "404")
    fails(f"{server.url}/file", hashlib.sha256(CONTENT).hexdigest(), "a" * 64, sha256="a" * 64)
    server.cuts = [1000]
    fails(f"{server.url}/file", "1000 bytes read")
    fails("http://127.0.0.1:9/file", "refused")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    fails(f"{server.url}/file", "ZOO_OFFLINE")


# Converters, on tiny files in the layouts of the collections. Each writes its files and returns
# the edges, features, labels and masks of what it has written.

RANDOM = np.random.default_rng(0)
EDGES = np.array([[0, 1], [1, 2], [0, 3], [4, 2], [5, 4]])
COUNTS = np.array([[0, 2, 0], [1, 0, 0], [0, 0, 3], [1, 1, 0], [0, 0, 0], [0, 5, 0]], np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2])
MASKS = {"train": [[1, 1, 0, 0, 0, 0]], "val": [[0, 0, 1, 1, 0, 0]], "test": [[0, 0, 0, 0, 1, 1]]}


def bits(masks):
    return {part: np.array(mask, bool) for part, mask in masks.items()}


def saved(save, *arguments, **arrays):
    file = io.BytesIO()
    save(file, *arguments, **arrays)
    return file.getvalue()


def heterophilous():
    masks = {f"{part}_masks": mask for part, mask in bits(MASKS).items()}
    content = saved(np.savez, edges=EDGES, node_labels=LABELS, node_features=COUNTS, **masks)
    return {"/squirrel_filtered.npz": content}, (EDGES, LABELS, COUNTS, MASKS)


def csr_of(key, matrix):
    rows = sparse.csr_array(matrix)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": rows.shape}
    return {f"{key}_{part}": each for part, each in parts.items()}


def gnn_benchmark():
    adjacency = np.zeros((6, 6))
    adjacency[tuple(EDGES.T)] = 1
    adjacency[2, 2] = 1
    names = np.array(["a", {}, None], dtype=object)  # never read
    arrays = {**csr_of("adj", adjacency), **csr_of("attr", COUNTS), "labels": LABELS}
    content = saved(np.savez, **arrays, class_names=names)
    return {"/amazon_electronics_photo.npz": content}, (EDGES, LABELS, COUNTS > 0, None)


def wikics():
    links = [[int(b) for a, b in EDGES if a == node] for node in range(6)]
    content = {
        "features": COUNTS.tolist(),
        "labels": LABELS.tolist(),
        "links": links,
        "train_masks": [[True, False, False, False, False, False]] * 2,
        "val_masks": [[False, True, False, False, False, False]] * 2,
        "stopping_masks": [[False, False, True, False, False, False],
                           [False, False, False, True, False, False]],
        "test_mask": [False, False, False, False, True, True],
    }  # fmt: skip
    masks = {
        "train": [[1, 0, 0, 0, 0, 0]] * 2,
        "val": [[0, 1, 1, 0, 0, 0], [0, 1, 0, 1, 0, 0]],
        "test": [[0, 0, 0, 0, 1, 1]] * 2,
    }
    return {"/data.json": json.dumps(content).encode()}, (EDGES, LABELS, COUNTS, masks)


def twitch():
    owned = {str(node): np.flatnonzero(COUNTS[node]).tolist() for node in range(6)} | {"9": [4]}
    lines = [f"{70 + node},1,{node % 2 == 0},3,False,{node}" for node in (3, 0, 5, 1, 2)]
    lines.append("99,1,False,3,False,0")  # the second line of node 0 is not counted; 4 is unknown
    files = {
        "edges.csv": "from,to\n" + "\n".join(f"{a},{b}" for a, b in EDGES),
        "features.json": json.dumps(owned),
        "target.csv": "id,days,mature,views,partner,new_id\n" + "\n".join(lines),
    }
    features = np.zeros((6, 3170), bool)
    features[:, :3] = COUNTS > 0
    labels = [1, 0, 1, 0, -1, 0]
    files = {f"/twitch/PTBR/musae_PTBR_{key}": text.encode() for key, text in files.items()}
    return files, (EDGES, labels, features, None)


def deezer():
    adjacency = np.zeros((6, 6))
    adjacency[tuple(EDGES.T)] = adjacency[tuple(EDGES.T[::-1])] = 1
    binary = (LABELS > 0).astype(int)
    content = saved(
        savemat,
        {
            "A": sparse.csc_array(adjacency),
            "label": binary[None],
            "features": sparse.csc_array(COUNTS),
        },
    )
    return {"/deezer-europe.mat": content}, (EDGES, binary, COUNTS, None)


def packed(rows):
    text = "\n".join(",".join(map(str, np.atleast_1d(row))) for row in rows)
    return gzip.compress(text.encode())


def ogb_zip(folder, split, tables):
    index = {"train": [0, 1], "valid": [2, 3], "test": [4, 5]}
    tables |= {"raw/edge": EDGES, "raw/num-node-list": [6], "raw/num-edge-list": [len(EDGES)]}
    tables |= {f"split/{split}/{part}": rows for part, rows in index.items()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{folder}/RELEASE_v1.txt", "")
        for name, rows in tables.items():
            archive.writestr(f"{folder}/{name}.csv.gz", packed(rows))
    return {f"/{folder}.zip": file.getvalue()}


def ogb_classes():
    tables = {"raw/node-feat": COUNTS, "raw/node-label": LABELS, "raw/node_year": [2000] * 6}
    return ogb_zip("arxiv", "time", tables), (EDGES, LABELS, COUNTS, MASKS)


def ogb_targets():
    weights = np.arange(40.0).reshape(5, 8)
    targets = np.array([[0, 1], [1, 1], [0, 0], [1, 0], [0, 1], [1, 1]])
    means = [weights[[edge for edge in range(5) if node in EDGES[edge]]].mean(0)
             for node in range(6)]  # fmt: skip
    tables = {"raw/edge-feat": weights, "raw/node-label": targets, "raw/node_species": [7] * 6}
    return ogb_zip("proteins", "species", tables), (EDGES, targets, means, MASKS)


class _Python2(pickle._Pickler):
    """Writes what Python 2 wrote: text and bytes alike as one kind of string."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_string(self, text):
        text = text.encode() if isinstance(text, str) else text
        self.write(pickle.BINSTRING + len(text).to_bytes(4, "little") + text)

    dispatch[str] = dispatch[bytes] = save_string


def python2(value):
    content = saved(lambda file: _Python2(file, protocol=2).dump(value))
    for new, old in {
        b"numpy._core.": b"numpy.core.",
        b"scipy.sparse._csr": b"scipy.sparse.csr",
    }.items():
        content = content.replace(new, old)
    return content


def planetoid(unlisted=()):
    """1,530 nodes; the test nodes are the last 20, in a shuffled order, some not in the list."""
    nodes, train = 1530, 14
    random = np.random.default_rng(1)
    edges = random.integers(nodes, size=(900, 2))
    features = (random.random((nodes, 9)) < 0.2).astype(np.float32)
    labels = random.integers(7, size=nodes)
    test = random.permutation(np.setdiff1d(np.arange(nodes - 20, nodes), unlisted))
    features[list(unlisted)], labels[list(unlisted)] = 0, 0
    lists = defaultdict(list)
    for a, b in edges.tolist():
        lists[a].append(b)
    rows = {"": np.arange(train), "all": np.arange(nodes - 20), "t": test}
    files = {"graph": python2(lists), "test.index": "\n".join(map(str, test)).encode()}
    for key, row in rows.items():
        files[f"{key}x"] = python2(sparse.csr_matrix(features[row]))
        files[f"{key}y"] = python2(np.eye(7, dtype=np.int32)[labels[row]])
    indices = {"train": range(train), "val": range(train, train + 500), "test": test}
    masks = {part: [np.isin(np.arange(nodes), list(index))] for part, index in indices.items()}
    files = {f"/ind.citeseer.{key}": content for key, content in files.items()}
    return files, (edges, labels, features, masks)


def planetoid_with_gaps():
    return planetoid(unlisted=(1515, 1529 - 1))


COLLECTIONS = {
    "squirrel": ("heterophilous", heterophilous),
    "photo": ("gnn-benchmark", gnn_benchmark),
    "wikics": ("wikics", wikics),
    "twitch-ptbr": ("non-homophily", twitch),
    "deezer-europe": ("non-homophily", deezer),
    "ogbn-arxiv": ("ogb", ogb_classes),
    "ogbn-proteins": ("ogb", ogb_targets),
    "citeseer": ("planetoid", planetoid),
    "citeseer with gaps": ("planetoid", planetoid_with_gaps),
}


@pytest.fixture
def publish(server, tmp_path, monkeypatch):
    """Serve files as a collection; return the folder that graphs are written to."""

    def serve(name, collection, files, nodes):
        server.files = files
        monkeypatch.setitem(URLS, collection, server.url)
        monkeypatch.setitem(NAMED, name, NAMED[name]._replace(nodes=nodes))
        monkeypatch.setenv("ZOO_DATA", str(tmp_path / "graphs"))
        return tmp_path / "graphs"

    return serve


def undirected(edges):
    return {frozenset(edge) for edge in np.asarray(edges).tolist() if edge[0] != edge[1]}


@pytest.mark.parametrize("case", COLLECTIONS)
def test_a_collection_becomes_a_prepared_file(case, server, publish, monkeypatch):
    def ask(*_):
        raise AssertionError("a question was asked")

    monkeypatch.setattr("builtins.input", ask)
    monkeypatch.setattr("sys.stdin", None)
    name = case.partition(" ")[0]
    collection, write = COLLECTIONS[case]
    files, (edges, labels, features, masks) = write()
    folder = publish(name, collection, files, len(labels))
    data = load_graph(name)
    assert os.listdir(folder) == [f"{name}.npz"]
    assert sorted(server.asked) == sorted(files)
    ends = np.stack([each.numpy() for each in data.graph.edges()], axis=1)
    assert undirected(ends) == undirected(edges)
    assert np.array_equal(data.y.numpy(), np.array(labels))
    assert np.allclose(data.x.numpy(), np.array(features, np.float32))
    assert (data.task, data.split) == (NAMED[name].task, NAMED[name].split)
    assert (data.masks is None) == (masks is None)
    for part, mask in bits(masks or {}).items():
        assert np.array_equal(data.masks[part].numpy(), mask), part
    server.asked.clear()
    again = load_graph(name)
    assert not server.asked, "it was downloaded twice"
    assert np.array_equal(again.x, data.x)
    read_prepared(folder / f"{name}.npz")


@pytest.mark.parametrize("place", ["", "citeseer", "Citeseer/raw", "planetoid"])
def test_published_files_in_a_folder_of_data_are_read(place, publish, server):
    """As they are downloaded by hand, or left by PyG; nothing is downloaded."""
    files, (edges, labels, features, _) = planetoid()
    folder = publish("citeseer", "planetoid", {}, len(labels))
    (folder / place).mkdir(parents=True)
    for path, content in files.items():
        (folder / place / path.strip("/")).write_bytes(content)
    data = load_graph("citeseer")
    assert not server.asked and (folder / "citeseer.npz").is_file()
    assert np.array_equal(data.y.numpy(), labels) and np.allclose(data.x.numpy(), features)
    ends = np.stack([each.numpy() for each in data.graph.edges()], axis=1)
    assert undirected(ends) == undirected(edges)


def test_published_files_of_another_graph_are_refused(publish):
    files, (_, labels, *_) = heterophilous()
    folder = publish("squirrel", "heterophilous", {}, len(labels) + 1)
    folder.mkdir()
    (folder / "squirrel_filtered.npz").write_bytes(files["/squirrel_filtered.npz"])
    with pytest.raises(ZooError, match="squirrel_filtered.npz of .* has 6 nodes and not the 7"):
        load_graph("squirrel")
    assert os.listdir(folder) == ["squirrel_filtered.npz"]
    (folder / "squirrel_filtered.npz").rename(folder / "squirrel.npz")
    with pytest.raises(ZooError, match="squirrel.npz has 6 nodes, and squirrel has 7"):
        load_graph("squirrel")


@pytest.fixture
def with_split(publish, server, monkeypatch):
    """Serve a graph called photo and its published split; return folder, parts and file."""
    files, (_, labels, *_) = gnn_benchmark()
    order = np.random.default_rng(3).permutation(len(labels))
    parts = dict(zip(("train", "valid", "test"), np.split(order, [2, 4]), strict=True))
    file = io.BytesIO()
    np.savez(file, **parts)
    folder = publish("photo", "gnn-benchmark", files, len(labels))
    split = SplitFile("photo_split.npz", hashlib.sha256(file.getvalue()).hexdigest())
    monkeypatch.setitem(NAMED, "photo", NAMED["photo"]._replace(published=split))
    monkeypatch.setitem(URLS, "tunedGNN", server.url)
    server.files["/photo_split.npz"] = file.getvalue()
    return folder, parts, file.getvalue()


def is_published(split, parts):
    found = {"train": split.train, "valid": split.val, "test": split.test}
    return all(found[key].tolist() == sorted(parts[key]) for key in parts)


def test_the_published_split_is_downloaded_when_it_is_asked_for_and_once(with_split, server):
    folder, parts, content = with_split
    data = load_graph("photo")
    assert data.split == "ratio-60-20-20" and data.masks is None
    assert not is_published(split_of(data, {"name": "ratio", "seed": 0}, 0), parts)
    assert not any("split" in path for path in server.asked)
    assert all(is_published(split_of(data, "benchmark", seed), parts) for seed in (0, 5))
    assert (folder / "splits" / "photo.npz").read_bytes() == content
    again = load_graph("photo")
    assert again.split == "ratio-60-20-20" and again.masks["val"].sum() == len(parts["valid"])
    assert is_published(split_of(again, "benchmark", 1), parts)
    assert sum("split" in path for path in server.asked) == 1
    part = data.part(torch.arange(len(data.y) - 1))
    with pytest.raises(ZooError, match="no splits of its own"):
        split_of(part, "benchmark", 0)


@pytest.mark.parametrize(
    "place", ["splits/photo.npz", "photo_split.npz", "tunedGNN/photo_split.npz"]
)
def test_a_published_split_in_a_folder_of_data_is_read(place, with_split, server):
    folder, parts, content = with_split
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).write_bytes(content)
    assert is_published(split_of(load_graph("photo"), "benchmark", 0), parts)
    assert not any("split" in path for path in server.asked)


def test_another_split_is_not_taken_for_the_published_one(with_split, server):
    """The graph is loaded, and random splits are drawn, as without any file."""
    folder, _, content = with_split
    (folder / "splits").mkdir(parents=True)
    (folder / "splits" / "photo.npz").write_bytes(content + b"more")
    data = load_graph("photo")
    assert data.masks is None and len(split_of(data, data.split, 0).train)
    with pytest.raises(
        ZooError, match="splits/photo.npz is not the published split of photo, by its"
    ):
        split_of(data, "benchmark", 0)
    (folder / "splits" / "photo.npz").unlink()
    server.files["/photo_split.npz"] = content[:-1]
    with pytest.raises(
        ZooError,
        match="of photo is not here: .*photo_split.npz .*SHA256 hash.* Put that file",
    ):
        split_of(data, "benchmark", 0)
    assert not list((folder / "splits").iterdir())


def test_numbers_of_no_node_are_refused(tmp_path):
    np.savez(tmp_path / "split.npz", train=[0], valid=[1], test=[4])
    with pytest.raises(ZooError, match="`test` holds numbers that none of 4 nodes has"):
        read_split(tmp_path / "split.npz", 4)
    np.savez(tmp_path / "split.npz", train=[0], valid=[1])
    with pytest.raises(ZooError, match="test"):
        read_split(tmp_path / "split.npz", 4)


def refused(name, folder, *words):
    with pytest.raises(ZooError) as caught:
        load_graph(name)
    for word in (f"{name}.npz", "data/README.md", *words):
        assert word in str(caught.value), caught.value
    assert not os.path.exists(folder) or not os.listdir(folder)


def test_what_is_not_as_published_is_not_kept(server, publish):
    files, _ = wikics()
    refused("wikics", publish("wikics", "wikics", files, 7), "6 nodes and not the 7")
    for content in (b"<html>moved</html>", b"{}", files["/data.json"][:-40], b'{"links": 3}'):
        folder = publish("wikics", "wikics", {"/data.json": content}, 6)
        refused("wikics", folder, "not in the published layout")
    refused("wikics", publish("wikics", "wikics", {}, 6), "404")
    files, _ = ogb_classes()
    broken = files["/arxiv.zip"][: len(files["/arxiv.zip"]) // 2]
    folder = publish("ogbn-arxiv", "ogb", {"/arxiv.zip": broken}, 6)
    refused("ogbn-arxiv", folder, "not in the published layout")


def test_no_network_is_answered_with_the_file_to_fetch(server, publish, monkeypatch):
    folder = publish("photo", "gnn-benchmark", {}, 6)
    monkeypatch.setitem(URLS, "gnn-benchmark", "http://127.0.0.1:9")
    refused("photo", folder, "refused", "ZOO_DATA", str(folder), "node_labels")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    refused("photo", folder, "ZOO_OFFLINE forbids", str(folder))


HOSTILE = {
    "a command": b"cos\nsystem\n(S'touch taken'\ntR.",
    "a command of protocol 2": b"\x80\x02cposix\nsystem\nU\x0btouch taken\x85R.",
    "eval": b'c__builtin__\neval\n(S\'open("taken", "w")\'\ntR.',
    "a name by attribute": b"cnumpy\nload\n(S'x'\ntR.",
    "an array of objects": python2(np.array([1])).replace(b"i8", b"O8"),
    "attributes of a class": b"\x80\x02ccollections\ndefaultdict\n}(U\x05itemsK\x01ub.",
    "attributes of a dict": b"\x80\x02ccollections\ndefaultdict\n)R}(U\x05itemsK\x01ub.",
    "a persistent name": b"Pname\n.",
    "nothing": b"",
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_pickle_does_nothing(case, server, publish, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, _ = planetoid()
    folder = publish("citeseer", "planetoid", {**files, "/ind.citeseer.x": HOSTILE[case]}, 1530)
    refused("citeseer", folder)
    assert not os.path.exists("taken")
    publish("citeseer", "planetoid", files, 1530)
    assert load_graph("citeseer").graph.num_nodes() == 1530, "the reader was changed"


def test_sparse_parts_that_leave_memory_are_refused(publish):
    files, _ = planetoid()
    matrix = sparse.csr_matrix(np.ones((1510, 9), np.float32))
    matrix.indices = matrix.indices[::-1] + 1  # the columns 1 to 9 of 9
    files["/ind.citeseer.allx"] = python2(matrix)
    folder = publish("citeseer", "planetoid", files, 1530)
    refused("citeseer", folder, "published layout", "indices")
