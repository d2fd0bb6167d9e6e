"""On-disk graphs: the graph that was written, never all in memory, and nothing else is opened."""

import gzip
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

import zoo
from zoo import Dataset, ZooError, load_graph, run_recipe
from zoo.config.options import pick
from zoo.data.canonical import canonical
from zoo.data.load import prepare_on_disk, read_graph
from zoo.data.load.check import check
from zoo.data.load.on_disk import from_dataset
from zoo.data.mapped import writer
from zoo.data.mapped.reader import map_array
from zoo.data.mapped.streams import sbm_stream
from zoo.data.mapped.writer import ArrayFile, write_on_disk
from zoo.encodings import laplacian
from zoo.graphs.adjacency import csc
from zoo.graphs.clusters import clusters
from zoo.graphs.sampling import induced, leading, neighbourhood
from zoo.nn.propagation import PROPAGATIONS
from zoo.system.memory import peak_during

RANDOM = np.random.default_rng(0)
NODES = 50
EDGES = RANDOM.integers(NODES - 1, size=(200, 2))  # the last node has none
X = RANDOM.standard_normal((NODES, 3)).astype(np.float32)
Y = RANDOM.integers(-1, 3, size=NODES)
NAMES = np.array([f"node {each}" for each in range(NODES)])
MASKS = {part: np.stack([np.arange(NODES) % 3 == (at + split) % 3 for split in range(2)])
         for at, part in enumerate(("train", "val", "test"))}  # fmt: skip


def graph(**options):
    given = {"features": X, "labels": Y, "name": "mine"} | options
    return Dataset.from_arrays(EDGES, **given)


def pairs(data):
    source, target = (each.tolist() for each in data.graph.edges())
    found = list(zip(source, target, strict=True))
    assert len(set(found)) == len(found)
    return set(found)


def assert_same(data, wanted):
    """Both hold the same graph, node by node; features to the bit."""
    assert pairs(data) == pairs(wanted)
    assert data.x.dtype == wanted.x.dtype and torch.equal(data.x, wanted.x)
    assert np.array_equal(data.y, wanted.y, equal_nan=data.y.is_floating_point())
    for field in ("task", "metric", "split", "classes", "labels", "feature_names", "transform"):
        assert getattr(data, field) == getattr(wanted, field), field
    for one, other in ((data, wanted), (wanted, data)):
        for part, masks in (one.masks or {}).items():
            assert torch.equal(other.masks[part], masks)
    assert np.array_equal(data.ids, wanted.ids) or data.ids is wanted.ids is None


def write(data, folder, **options):
    write_on_disk(from_dataset(data), folder, **options)
    return load_graph(folder)


@pytest.fixture
def mine(tmp_path):
    """The folder of a small graph with every array that there may be."""
    data = Dataset.from_arrays(NAMES[EDGES], X, Y, masks=MASKS, ids=NAMES)
    write(data, tmp_path / "mine")
    return tmp_path / "mine"


# One graph, two forms


@pytest.mark.parametrize("name", ["cora", "minesweeper"])
def test_a_real_graph_is_the_same_on_disk(name, real_graph, tmp_path):
    wanted = real_graph(name)
    prepare_on_disk(name, tmp_path / "there")
    data = load_graph(tmp_path / "there")
    assert_same(data, wanted)
    assert torch.equal(data.graph.in_degrees(), wanted.graph.in_degrees())
    indptr, indices = csc(data.graph)
    for each in (*csc(wanted.graph), indptr, indices):
        assert not each.is_floating_point()
    assert torch.equal(indptr, csc(wanted.graph)[0].int())
    assert torch.equal(indices, csc(wanted.graph)[1].int())


CASES = {
    "all there is": lambda: Dataset.from_arrays(
        NAMES[EDGES], X, Y, masks=MASKS, ids=NAMES, feature_names=["a", "b", "c"]),
    "ids of numbers": lambda: Dataset.from_arrays(
        EDGES * 10**12, X, Y, ids=np.arange(NODES) * 10**12),
    "text classes": lambda: graph(labels=[("ant", "bee", "")[each] for each in Y]),
    "no features": lambda: graph(features=np.zeros((NODES, 0))),
    "no labels": lambda: graph(labels=None),
    "targets": lambda: graph(labels=np.where(X > 0, 1.0, np.where(X > -1, 0.0, np.nan))),
    "numbers": lambda: graph(labels=np.where(X[:, 0] > 0, X[:, 0], np.nan),
                             task="node-regression"),
    "binary": lambda: graph(labels=Y.clip(max=1), task="node-binary"),
    "one node": lambda: Dataset.from_arrays([[0, 0]], [[1.0]], [0]),
    "no edges": lambda: Dataset.from_arrays(np.zeros((0, 2), int), X, Y),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_known_of_a_graph_is_kept(case, tmp_path):
    wanted = CASES[case]()
    data = write(wanted, tmp_path / "g")
    assert_same(data, wanted)
    allowed = ("split", "classes", "labels", "features", "targets")  # which are few, or none
    wrong = [each for each in check(tmp_path / "g") if each.verdict == "fix"]
    assert not [each for each in wrong if each.name not in allowed], wrong
    assert len(read_graph(tmp_path / "g").labels) == len(data.y)
    assert_same(write(data, tmp_path / "again"), wanted)


def test_half_is_kept_until_rows_are_gathered(tmp_path):
    data = write(graph(), tmp_path / "g", half=True)
    assert data.x.dtype == torch.float16 and torch.equal(data.x, torch.from_numpy(X).half())
    assert write(data, tmp_path / "again").x.dtype == torch.float16
    beside = data.add_features(torch.ones(NODES, 2))
    assert beside.x.dtype == torch.float32 and torch.equal(beside.x[:, :3], data.x.float())
    assert data.add_features(torch.zeros(NODES, 0)) is data
    with pytest.raises(ZooError, match=r"node 0 .*float16.*--half"):
        write(graph(features=X * 1e6), tmp_path / "far", half=True)
    assert not list(tmp_path.glob("far*"))


def test_features_are_transformed_as_they_are_written_or_in_memory(tmp_path):
    wanted = graph()
    prepared = write(wanted, tmp_path / "rows", features="row")
    loaded = load_graph(write(wanted, tmp_path / "raw") and tmp_path / "raw", features="row")
    expected = wanted.transformed("row")
    for data in (prepared, loaded, load_graph(tmp_path / "rows", features="row")):
        assert torch.equal(data.x, expected.x) and data.transform == "row"
    with pytest.raises(ZooError, match="already, by `row`"):
        load_graph(tmp_path / "rows", features="standard")
    with pytest.raises(ZooError, match="features=raw or row"):
        write(wanted, tmp_path / "no", features="standard")


def test_opening_reads_neither_edges_nor_features(tmp_path):
    prepare_on_disk({"name": "sbm", "nodes": 100_000, "dim": 128}, tmp_path / "g")
    found = []
    grown = peak_during(lambda: found.append(load_graph(tmp_path / "g")), torch.device("cpu"))
    size = sum(each.stat().st_size for each in (tmp_path / "g").iterdir())
    assert size > 50e6 and grown < 8e6, grown
    data = found[0]
    indptr, indices = csc(data.graph)
    again = csc(data.graph)
    assert [each.data_ptr() for each in (indptr, indices)] == [each.data_ptr() for each in again]
    assert data.graph.formats()["created"] == ["csc"]
    data.graph.in_degrees()
    assert data.graph.formats()["created"] == ["csc"]
    grown = peak_during(lambda: data.x[::1000].float(), torch.device("cpu"))
    assert grown < 8e6


@pytest.mark.parametrize("batching", ["full", {"name": "random-nodes", "size": 120}])
def test_training_ends_with_the_numbers_of_the_graph_in_memory(batching, tmp_path):
    drawn = {"name": "sbm", "nodes": 300}
    write(load_graph(drawn), tmp_path / "on-disk")
    write(load_graph(drawn), tmp_path / "half", half=True)
    scores = {}
    for dataset in (drawn, str(tmp_path / "on-disk"), str(tmp_path / "half")):
        for model in ("gcn", "gat"):
            train = {"epochs": 3, "lr": 0.01, "batching": batching}
            recipe = {"dataset": dataset, "model": model, "train": train}
            summary = run_recipe(recipe, device="cpu", runs=tmp_path / "runs")
            scores.setdefault(model, []).append(summary["test"]["mean"])
    for in_memory, on_disk, half in scores.values():
        assert on_disk == pytest.approx(in_memory, abs=1e-6)
        assert half == pytest.approx(in_memory, abs=0.05)


@pytest.mark.parametrize("name", sorted(PROPAGATIONS))
@pytest.mark.parametrize("listed", [False, True])
def test_a_mapped_graph_propagates_like_one_in_memory(name, listed, mine):
    wanted = Dataset.from_arrays(NAMES[EDGES], X, Y, masks=MASKS, ids=NAMES).graph
    mapped = load_graph(mine).graph
    if listed:
        mapped.edges()
    found = []
    for each in (mapped, wanted):
        torch.manual_seed(0)
        propagate = pick(PROPAGATIONS, name, 4)
        x = torch.randn(NODES, 4, requires_grad=True)
        out = propagate(each, x)
        (out + x).square().sum().backward()
        found.append((out.detach(), x.grad))
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_encodings_and_predictions_are_those_of_the_graph_in_memory(tmp_path):
    wanted = load_graph("digits")
    data = write(wanted, tmp_path / "digits", half=True)
    assert torch.equal(laplacian(data.graph, k=3), laplacian(wanted.graph, k=3))
    model = zoo.load("sgformer-digits-rba")
    there, here = (zoo.predict(model, each).values for each in (data, wanted))
    assert torch.allclose(there, here, atol=1e-3)  # pixels are exact in half precision


# Edges of any number


@pytest.mark.parametrize("memory", [2**30, 1])
def test_buckets_give_the_canonical_graph(memory, tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "BLOCK", 1000)
    monkeypatch.setattr(writer, "_BUCKETS", 3)
    random = np.random.default_rng(1)
    hub = np.stack([np.full(20_000, 7), random.integers(900, size=20_000)], axis=1)
    edges = np.concatenate([random.integers(900, size=(5000, 2)), hub, hub[:, ::-1]])
    blocks = np.array_split(random.permutation(edges), 40)
    tmp_path.mkdir(exist_ok=True)
    shapes = writer.write_neighbours(blocks, 1000, tmp_path, memory)
    indptr, indices = (np.load(tmp_path / f"{name}.npy") for name in ("indptr", "indices"))
    wanted = csc(canonical(edges, nodes=1000))
    assert np.array_equal(indptr, wanted[0]) and np.array_equal(indices, wanted[1])
    assert shapes == {"indptr": indptr.shape, "indices": indices.shape}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["indices.npy", "indptr.npy"]


def test_more_entries_than_32_bits_number_are_numbered_by_64(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "_NARROW", 100)
    data = write(graph(), tmp_path / "g")
    assert data.graph.idtype == torch.int64
    assert_same(data, graph())


def lines(edges, header="", separator=","):
    return header + "".join(f"{a}{separator}{b}\n" for a, b in edges)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("e.csv", lines(EDGES)),
        ("e.csv", lines(EDGES, "source,target\n")),
        ("e.tsv", lines(EDGES, "# two\n# comments\nfrom\tto\n", "\t")),
        ("e.txt", lines(EDGES, "# Nodes: 50\n\n", "   ")),
        ("e.txt.gz", lines(EDGES, "", " ")),
        ("e.csv", lines(EDGES).replace("\n", ",0.5\n")),
        ("e.csv", lines(EDGES * 1.0)),
        ("e.txt", lines([[f"{each:.18e}" for each in row] for row in EDGES], separator=" ")),
        ("e.csv", "weight,target,source\n" + "".join(f".5,{b},{a}\n" for a, b in EDGES)),
        ("e.tsv", "\tsource\ttarget\n" + "".join(f"7\t{a}\t{b}\n" for a, b in EDGES)),
        ("e.csv.gz", lines([(b, a) for a, b in EDGES] + [(3, 3)], '"a","b"\n')),
    ],
)
@pytest.mark.parametrize("block", [writer.BLOCK, 7])
def test_a_list_of_edges(name, text, block, tmp_path, monkeypatch):
    monkeypatch.setattr("zoo.data.mapped.streams.BLOCK", block)
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    spec = {"name": str(path), "node_features": str(tmp_path / "x.npy"),
            "node_labels": str(tmp_path / "y.npy"), "weights": "ignore"}  # fmt: skip
    prepare_on_disk(spec, tmp_path / "g")
    assert_same(load_graph(tmp_path / "g"), graph())
    spec = {"name": str(path), "weights": "ignore"}
    prepare_on_disk({**spec, "nodes": NODES, "task": "node-regression"}, tmp_path / "h")
    alone = load_graph(tmp_path / "h")
    assert pairs(alone) == pairs(graph()) and alone.x.shape == (NODES, 0)
    assert alone.y.isnan().all()
    prepare_on_disk(spec, tmp_path / "i")
    assert load_graph(tmp_path / "i").graph.num_nodes() == EDGES.max() + 1


def separate(folder, edges, x, y):
    np.save(folder / "edge_index.npy", edges)
    np.save(folder / "node-feat.npy", x)
    np.save(folder / "node-label.npy", y)


def turned(folder, edges, x, y):
    np.save(folder / "edge-index.npy", np.asfortranarray(edges))
    np.save(folder / "node_feat.npy", x)
    np.save(folder / "node_label.npy", y)


def rows(folder, edges, x, y):
    np.save(folder / "edge-index.npy", np.ascontiguousarray(edges.T))
    np.savez(folder / "node-feat.npz", node_feat=x)
    np.save(folder / "node_label.npy", y)


def papers(folder, edges, x, y):
    (folder / "raw").mkdir()
    rest = {"num_nodes_list": np.array([NODES]), "node_year": np.zeros((NODES, 1))}
    np.savez_compressed(folder / "raw" / "data.npz", edge_index=edges, node_feat=x, **rest)
    np.savez(folder / "raw" / "node-label.npz", node_label=y)


@pytest.mark.parametrize("layout", [separate, turned, rows, papers])
def test_a_folder_of_plain_arrays(layout, tmp_path, monkeypatch):
    monkeypatch.setattr("zoo.data.mapped.streams.BLOCK", 33)
    monkeypatch.setattr("zoo.data.mapped.writer.NUMBERS", 20)
    folder = tmp_path / "ogbn"
    folder.mkdir()
    layout(folder, EDGES.T, X, np.where(Y < 0, np.nan, Y)[:, None])
    splits = folder / "split" / "time"
    splits.mkdir(parents=True)
    for part, word in (("train", "train"), ("val", "valid"), ("test", "test")):
        index = np.flatnonzero(MASKS[part][0])
        (splits / f"{word}.csv.gz").write_bytes(gzip.compress("\n".join(map(str, index)).encode()))
    prepare_on_disk(folder, tmp_path / "g")
    masks = {part: mask[:1] for part, mask in MASKS.items()}
    assert_same(load_graph(tmp_path / "g"), graph(masks=masks))


def test_rows_of_an_array_file(tmp_path):
    with ArrayFile(tmp_path / "a.npy", np.float32, (2,)) as file:
        for size in (3, 0, 1, 10**5):
            file.append(np.full((size, 2), size))
    array = np.load(tmp_path / "a.npy")
    assert array.shape == (100_004, 2) and array[3].tolist() == [1, 1] and array[-1, 0] == 10**5
    assert np.array_equal(map_array(tmp_path / "a.npy"), array)


# The random graph


def test_the_random_graph_is_that_of_sbm(tmp_path, monkeypatch):
    nodes, classes, degree, homophily, dim = 3001, 3, 12.0, 0.7, 5
    spec = {"name": "sbm", "nodes": nodes, "classes": classes, "degree": degree, "dim": dim,
            "homophily": homophily, "noise": 0.5}  # fmt: skip
    monkeypatch.setattr("zoo.data.mapped.streams.BLOCK", 1000)
    prepare_on_disk(spec, tmp_path / "g")
    for data in (load_graph(tmp_path / "g"), load_graph(spec)):
        y = data.y.numpy()
        assert sorted(np.bincount(y)) == [1000, 1000, 1001]
        edges = np.array([(a, b) for a, b in pairs(data) if a < b])
        total = nodes * degree / 2
        # Numbers of edges vary by less than the square root of how many are drawn.
        assert abs(len(edges) - total) < 5 * np.sqrt(total)
        inside = (y[edges[:, 0]] == y[edges[:, 1]]).sum()
        assert abs(inside - homophily * total) < 5 * np.sqrt(total)
        degrees = data.graph.in_degrees().numpy() - 1
        assert degrees.var() == pytest.approx(degree, rel=5 * np.sqrt(2 / nodes))  # Poisson
        ends = np.bincount(y[edges].ravel(), minlength=classes) / (2 * len(edges))
        assert np.abs(ends - 1 / classes).max() < 5 / np.sqrt(2 * len(edges))
        means = np.stack([data.x.numpy()[y == each].mean(axis=0) for each in range(classes)])
        lengths = np.linalg.norm(means, axis=1)
        assert np.abs(lengths - 1).max() < 5 * 0.5 * np.sqrt(dim / 1000)
        noise = data.x.numpy() - means[y]
        assert noise.std() == pytest.approx(0.5, rel=5 / np.sqrt(2 * nodes * dim))
        assert np.abs(np.corrcoef(noise.T) - np.eye(dim)).max() < 5 / np.sqrt(nodes)


def test_a_dense_random_graph_has_as_many_edges_as_asked_for():
    stream = sbm_stream(nodes=200, classes=2, degree=60.0, homophily=0.5)
    drawn = np.concatenate(list(stream.edges()))
    count = len({(min(each), max(each)) for each in drawn.tolist()})
    assert abs(count - 6000) < 5 * np.sqrt(6000)
    again = np.concatenate(
        list(sbm_stream(nodes=200, classes=2, degree=60.0, homophily=0.5).edges())
    )
    assert np.array_equal(drawn, again)
    other = sbm_stream(nodes=200, classes=2, degree=60.0, homophily=0.5, seed=1)
    assert not np.array_equal(stream.nodes.labels, other.nodes.labels)
    for wrong in ({"nodes": 3}, {"nodes": 10, "degree": 9.5}, {"classes": 1}):
        with pytest.raises(ZooError, match="sbm: "):
            sbm_stream(**wrong)


# What is wrong


def meta(**changes):
    def change(folder):
        content = json.loads((folder / "meta.json").read_text())
        (folder / "meta.json").write_text(json.dumps(content | changes))

    return change


def array(name, content):
    return lambda folder: np.save(folder / f"{name}.npy", content)


def altered(name, place, value):
    def change(folder):
        content = np.load(folder / f"{name}.npy")
        content[place] = value
        np.save(folder / f"{name}.npy", content)

    return change


def cut(folder):
    raw = (folder / "features.npy").read_bytes()
    (folder / "features.npy").write_bytes(raw[:-9])


class Trap:
    """A pickle that would make a file if anybody opened it."""

    def __reduce__(self):
        return (open, ("trapped", "w"))


REFUSED = {
    "no meta.json": (lambda folder: (folder / "meta.json").unlink(), ["no meta.json", "copy"]),
    "an empty meta.json": (lambda folder: (folder / "meta.json").write_text(""), ["version 1"]),
    "another version": (meta(version=2), ["version", "write the folder again"]),
    "another format": (meta(format="words"), ["format"]),
    "a key too many": (meta(nodez=3), ["nodez"]),
    "another number of nodes": (meta(nodes=51), ["51 nodes"]),
    "another number of edges": (meta(edges=7), ["7 edges"]),
    "an unknown task": (meta(task="guess"), ["task"]),
    "splits of two lengths": (meta(splits={"train": [17, 17], "val": [33], "test": [16, 17]}),
                              ["splits; write the same number"]),
    "a broken archive": (lambda folder: (folder / "ids.npy").write_bytes(b"PK\x03\x04 no"),
                         ["ids.npy", "damaged"]),
    "a file missing": (lambda folder: (folder / "indices.npy").unlink(),
                       ["no file", "indices.npy"]),
    "a file cut short": (cut, ["features.npy", "cut short"]),
    "another shape": (array("features", X[:40]), ["features.npy", "(40, 3)"]),
    "another type": (array("features", X.astype(float)), ["features.npy", "<f8"]),
    "objects": (array("features", np.array([[Trap()] * 3] * NODES)), ["features.npy", "damaged"]),
    "a pickle": (lambda folder: (folder / "ids.npy").write_bytes(pickle.dumps(Trap())),
                 ["ids.npy", "damaged"]),
    "an archive": (lambda folder: np.savez((folder / "ids.npy").open("wb"), a=X), ["no .npy"]),
    "indptr that ends early": (altered("indptr", -1, 3), ["indptr.npy", "runs from 0 to 3"]),
    "indptr that falls": (altered("indptr", 3, 0), ["indptr.npy", "does not ascend at node 2"]),
    "indptr that leaves the edges": (altered("indptr", 3, 2**30), ["does not ascend at node 3"]),
    "a label of no class": (altered("labels", 3, 9), ["labels.npy", "3 classes"]),
    "a split with a node that is not there": (altered("val", 0, 99), ["val.npy", "0 to 49"]),
    "a leak": (altered("val", 0, 0), ["overlap"]),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_folder_that_is_damaged_is_answered(case, mine, command):
    change, words = REFUSED[case]
    change(mine)
    with pytest.raises(ZooError) as caught:
        load_graph(mine)
    text = str(caught.value)
    assert text.startswith(str(mine)) and "\n" not in text and len(text) < 700
    for word in words:
        assert word in text, text
    code, out, err = command("data", "check", mine)
    assert code in (1, 2) and "Traceback" not in out + err
    assert not os.path.exists("trapped")


FOUND = {
    "a byte of features": (altered("features", (3, 1), 2.5), {"files"}),
    "not a number": (altered("features", (3, 1), np.nan), {"files"}),
    "a node that is not there": (altered("indices", 5, 50), {"files"}),
    "a negative node": (altered("indices", 5, -1), {"files"}),
}


@pytest.mark.parametrize("case", FOUND)
def test_check_finds_what_opening_does_not_look_at(case, mine, command):
    change, names = FOUND[case]
    load_graph(mine)
    change(mine)
    load_graph(mine)
    code, out, _ = command("data", "check", mine, "--json")
    assert code == 1
    assert {each["name"] for each in json.loads(out) if each["verdict"] == "fix"} == names


READ = {
    "an induced graph": lambda data, nodes: induced(data.graph, nodes),
    "a chunk": lambda data, nodes: leading(data.graph, range(NODES)),
    "sampled neighbours": lambda data, nodes: neighbourhood(data.graph, nodes, [-1], 0),
    "clusters": lambda data, nodes: clusters(data.graph, 3),
    "the whole": lambda data, nodes: zoo.predict(zoo.create_model("gcn", 3, 3), data),
    "layer by layer": lambda data, nodes: zoo.predict(
        zoo.create_model("gcn", 3, 3), data, layerwise=True),
    "in batches": lambda data, nodes: zoo.predict(
        zoo.create_model("gcn", 3, 3), data, batch_size=20),
}  # fmt: skip


@pytest.mark.parametrize("number", [-7, NODES, 100_000])
@pytest.mark.parametrize("way", READ)
def test_a_neighbour_that_is_no_node_is_answered_where_it_is_read(way, number, mine):
    altered("indices", 5, number)(mine)
    data = load_graph(mine)
    with pytest.raises(ZooError, match=rf"indices\.npy holds {number},.*0 to 49.*zoo data check"):
        READ[way](data, torch.arange(NODES))


SOURCES = {
    "a word": ("e.csv", "0,1\n1,two\n", {}, ["line 2", "1,two", "nodes.csv"]),
    "a line too short": ("e.csv", "0,1\n1\n2,3\n", {}, ["line 2"]),
    "a line too long": ("e.csv", "0,1\n1,2,3\n", {}, ["line 2", "1,2,3"]),
    "a header only": ("e.csv", "source,target\n", {}, ["no edge"]),
    "a header of two columns": ("e.csv", "a,b\n0,1,2\n", {}, ["3 columns"]),
    "bytes": ("e.txt", bytes(range(128, 256)), {}, ["1 columns"]),
    "no gzip": ("e.csv.gz", b"0,1", {}, ["damaged"]),
    "a fraction": ("e.csv", "0,1\n1,2.5\n", {}, ["line 2", "2.5"]),
    "a fraction in front": ("e.csv", "0.5,1\n1,2\n", {}, ["line 1", "0.5"]),
    "a huge number": ("e.csv", "0,1\n1,99999999999999999999\n", {}, ["digits"]),
    "weights": ("e.csv", "a,b,w\n0,1,0.5\n", {}, ["3 columns", "weights: ignore"]),
    "a line too long beside weights": (
        "e.csv", "0,1,.5\n1,2,7,8,9\n", {"weights": "ignore"}, ["line 2", "1,2,7,8,9"]),
    "a header too long": ("e.csv", "a,b,c,d\n0,1,2\n", {"weights": "ignore"}, ["names 4 columns"]),
    "one column": ("e.txt", "0\n1\n", {}, ["1 columns"]),
    "another separator": ("e.csv", "0;1\n", {}, ["separator"]),
    "nothing": ("e.csv", "# none\n", {}, ["no edge"]),
    "gaps": ("e.csv", "0,1\n1,99999999\n", {}, ["99,999,999", "gaps"]),
    "a negative node": ("e.csv", "0,1\n1,-2\n", {}, ["edge 2", "-2"]),
    "too few nodes": ("e.csv", "0,1\n1,2\n", {"nodes": 2}, ["edge 2", "2 nodes"]),
    "a gzip cut short": ("e.csv.gz", gzip.compress(lines(EDGES).encode())[:-20], {}, ["damaged"]),
    "an unknown option": ("e.csv", "0,1\n", {"node_label": "y"}, ["did you mean 'node_labels'"]),
    "no features there": ("e.csv", "0,1\n", {"node_features": "no.npy"}, ["no file no.npy"]),
    "features of text": ("e.csv", "0,1\n", {"node_features": "e.csv"}, ["no plain array"]),
    "objects": ("e.csv", "0,1\n", {"node_labels": "trap.npy"}, ["no plain array"]),
    "two numbers of nodes": ("e.csv", "0,1\n", {"nodes": 3, "node_features": "x.npy"},
                             ["nodes: 3", "node_features: 50"]),
    "features not finite": ("e.csv", "0,1\n", {"node_features": "nan.npy"}, ["node 4", "finite"]),
}  # fmt: skip


@pytest.mark.parametrize("case", SOURCES)
def test_what_cannot_be_written_is_answered(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, content, options, words = SOURCES[case]
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    missing = X.copy()
    missing[4, 1] = np.inf
    np.save("x.npy", X)
    np.save("nan.npy", missing)
    np.save("trap.npy", np.array([Trap()]))
    before = sorted(os.listdir())
    with pytest.raises(ZooError) as caught:
        prepare_on_disk({"name": name, **options}, tmp_path / "g")
    text = str(caught.value)
    assert text.startswith(name) and "\n" not in text
    for word in words:
        assert word in text, text
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("option", [{"direction": "in"}, {"duplicates": "sum"},
                                    {"relations": "separate"}])  # fmt: skip
def test_directions_of_a_graph_on_disk_are_refused(option, mine):
    load_graph(mine, direction="both", duplicates="mean", relations="together")
    with pytest.raises(ZooError, match=f"on disk has no weights.*leave {[*option][0]} out"):
        load_graph(mine, **option)


def test_folders_of_arrays_that_do_not_fit_are_answered(tmp_path):
    folder = tmp_path / "a"
    folder.mkdir()
    np.save(folder / "edge_index.npy", EDGES.T)
    for change, words in [
        (lambda: None, "how many nodes"),
        (lambda: np.save(folder / "node-feat.npy", X[:40]), r"edge \d+ of edge_index.*40 nodes"),
        (lambda: np.save(folder / "node-feat.npy", X[:, 0]), "node_feat"),
        (lambda: np.save(folder / "edge_index.npy", EDGES[:, :1].T), r"write \(2, E\)"),
        (lambda: np.savez(folder / "node-label.npz", y=Y), "edge_index"),
        (lambda: (folder / "node-label.npz").write_bytes(b"PK no"), "no .npz file"),
        (lambda: (folder / "node-label.npz").unlink(), r"write \(2, E\)"),
        (
            lambda: (
                np.save(folder / "edge_index.npy", EDGES.T),
                np.save(folder / "node-feat.npy", X),
                np.save(folder / "node-label.npy", np.full((len(X), 1), 0.5)),
            ),
            "float.*should be int64",
        ),
        (
            lambda: (
                np.save(folder / "node-label.npy", np.zeros(len(X))),
                (folder / "train.csv").write_text("0,1\n2,3\n"),
            ),
            "train.csv has 2 columns; write a node a line",
        ),
        (lambda: (folder / "train.csv").write_bytes(b"0\n\xff\n"), "no list of nodes .Unicode"),
    ]:
        change()
        with pytest.raises(ZooError, match=words):
            prepare_on_disk(folder, tmp_path / "g")
    assert not list(tmp_path.glob("g*"))


@pytest.mark.parametrize("number", [-1, -99, 10**6])
def test_a_split_of_nodes_that_are_none_is_answered(number, tmp_path):
    separate(tmp_path, EDGES.T, X, Y)
    for part in ("train", "valid", "test"):
        np.save(tmp_path / f"{part}.npy", np.array([0, number]))
    with pytest.raises(ZooError, match="is no list of nodes"):
        prepare_on_disk(tmp_path, tmp_path / "g")


@pytest.mark.parametrize("text", ["\ufeff0,1\n1,2\n", "\ufeffsource,target\n0,1\n1,2\n"])
def test_no_edge_is_lost_behind_a_mark_of_byte_order(text, tmp_path):
    (tmp_path / "edges.csv").write_text(text)
    prepare_on_disk(tmp_path / "edges.csv", tmp_path / "g")
    assert pairs(load_graph(tmp_path / "g")) >= {(0, 1), (1, 2)}


def test_half_a_number_is_no_header(tmp_path):
    (tmp_path / "edges.csv").write_text("0,x\n1,2\n")
    with pytest.raises(ZooError, match="line 1 is '0,x'"):
        prepare_on_disk(tmp_path / "edges.csv", tmp_path / "g")


@pytest.mark.parametrize("separator", ["||", "::"])
def test_a_separator_of_two_characters(separator, tmp_path):
    spec = {"name": str(tmp_path / "edges.csv"), "separator": separator}
    (tmp_path / "edges.csv").write_text(f"0{separator}1\n1{separator}2\n")
    prepare_on_disk(spec, tmp_path / "g")
    assert load_graph(tmp_path / "g").graph.num_edges() == 3 + 4
    (tmp_path / "edges.csv").write_text(f"0{separator}1\n1{separator}2.5\n")
    with pytest.raises(ZooError, match="line 2 is"):
        prepare_on_disk(spec, tmp_path / "h")


def test_an_index_is_no_end_of_an_edge(tmp_path):
    """It needs no word, unlike other columns; what its header does not name is refused."""
    (tmp_path / "edges.csv").write_text(",source,target\n0,5,6\n1,6,7\n")
    prepare_on_disk(tmp_path / "edges.csv", tmp_path / "g")
    assert pairs(load_graph(tmp_path / "g")) >= {(5, 6), (6, 7)}
    (tmp_path / "edges.csv").write_text("source,target\n0,5,6\n1,6,7\n")
    with pytest.raises(ZooError, match="names 2 columns and the next has 3"):
        prepare_on_disk({"name": str(tmp_path / "edges.csv"), "weights": "ignore"}, tmp_path / "h")


def test_ids_without_a_sign(tmp_path):
    data = Dataset.from_arrays([(7, 9)], X[:2], [0, 1], ids=np.array([7, 9], np.uint64))
    write(data, tmp_path / "g")
    assert load_graph(tmp_path / "g").ids.tolist() == [7, 9]


def test_a_link_to_another_disk_is_followed(tmp_path):
    (tmp_path / "disk").mkdir()
    write(graph(), tmp_path / "disk" / "g")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "g")
    prepare_on_disk({"name": "sbm", "nodes": 50}, tmp_path / "link")
    assert load_graph(tmp_path / "link").graph.num_nodes() == 50
    assert os.listdir(tmp_path / "disk") == ["g"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_nothing_is_left_of_what_was_stopped(error, tmp_path):
    write(graph(), tmp_path / "g")
    before = (tmp_path / "g" / "meta.json").read_text()

    def features(size):
        yield X[:size]
        raise error

    stream = from_dataset(graph())._replace(features=features)
    with pytest.raises((KeyboardInterrupt, ZooError)):
        write_on_disk(stream, tmp_path / "g")
    assert os.listdir(tmp_path) == ["g"]
    assert (tmp_path / "g" / "meta.json").read_text() == before


def test_a_killed_writing_is_recognised_and_replaced(tmp_path):
    code = (
        "import sys, time; from zoo.data.load import load_graph; "
        "from zoo.data.load.on_disk import from_dataset; "
        "from zoo.data.mapped.writer import write_on_disk\n"
        "def slow(size):\n    print('begun', flush=True); time.sleep(60); yield\n"
        "stream = from_dataset(load_graph('karate'))._replace(features=slow)\n"
        "write_on_disk(stream, sys.argv[1])"
    )
    call = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "g")]
    process = subprocess.Popen(call, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".zoo-")
    for each in (left, *left.rglob("*")):
        os.utime(each, (time.time() - 10,) * 2)
    with pytest.raises(ZooError, match="no dataset|there is no"):
        load_graph(tmp_path / "g")
    write(graph(), tmp_path / "g")
    assert os.listdir(tmp_path) == ["g"]


def test_what_would_load_it_all_is_refused_with_the_bytes(mine, monkeypatch):
    data = load_graph(mine)
    for place in ("data.dataset", "data.mapped.reader", "encodings.positional"):
        monkeypatch.setattr(f"zoo.{place}.available_memory", lambda: 400)
    assert load_graph(mine).graph.num_nodes() == NODES
    with pytest.raises(ZooError, match="1,000 bytes.*leave out the encoding"):
        data.add_features(torch.zeros(NODES, 2))
    with pytest.raises(ZooError, match="600 bytes.*features=row"):
        load_graph(mine, features="row")
    with pytest.raises(ZooError, match=f"{76 * data.graph.num_edges():,} bytes.*encoding: none"):
        laplacian(data.graph)
    with pytest.raises(ZooError, match="bytes of memory.*leave it on disk"):
        read_graph(mine)


# The command


def test_prepare_on_disk_and_train_by_name(tmp_path, command):
    (tmp_path / "edges.csv").write_text(lines(EDGES))
    np.save(tmp_path / "y.npy", Y.clip(min=0))
    np.save(tmp_path / "x.npy", X)
    call = ("data", "prepare", "edges.csv", "mine", "--on-disk", "--memory", "0.5")
    options = ("node_labels=y.npy", "node_features=x.npy", "features=row")
    code, _, err = command(*call, *options)
    written = tmp_path / "data" / "mine"
    assert code == 0 and str(written) in err.replace("\n", ""), err
    data = load_graph("mine")
    assert data.transform == "row" and data.name == "mine"
    assert json.loads((written / "meta.json").read_text())["made"]["name"] == "edges.csv"
    assert command("train", "gcn-digits", "dataset=mine", "train.epochs=1", "seeds=[0]")[0] == 0
    assert command("show", "gcn-digits", "dataset=mine")[0] == 0
    assert command("data", "check", "mine", "--plot", "p.png")[0] == 0
    for words, said in [
        (call, "--again"),
        (("data", "prepare", "mine", "mine"), "has that name already"),
        (("data", "prepare", "mine", "other", "--half"), "--on-disk --half"),
        (("data", "prepare", "edges.csv", "sbm", "--on-disk"), "another name"),
        (("data", "prepare", "sbm", "o", "--on-disk", "nodez=3"), "did you mean 'nodes'"),
        (("data", "prepare", "nowhere.txt", "o", "--on-disk"), "nowhere.txt"),
        (("train", "gcn-digits", "dataset={name: mine, label: x}"), "label"),
    ]:
        code, _, err = command(*words)
        assert code == 2 and said in " ".join(err.split()), err
    assert command(*call, *options, "--again", "--half")[0] == 0
    assert load_graph("mine").x.dtype == torch.float16
    assert command("data", "prepare", "mine", "file")[0] == 0
    shutil.rmtree(written)
    kept = load_graph("file")
    assert pairs(kept) == pairs(data) and kept.x.dtype == torch.float32
    assert command("data", "prepare", "sbm", "drawn", "--on-disk", "nodes=300", "--half")[0] == 0
    assert load_graph("drawn").x.shape == (300, 16)
    assert "edge list (--on-disk)" in command("list", "files")[1]


def test_no_other_folder_is_replaced(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "draft.txt").write_text("words")
    with pytest.raises(ZooError, match="no on-disk graph"):
        write(graph(), tmp_path / "thesis")
    assert os.listdir(tmp_path) == ["thesis"] and os.listdir(tmp_path / "thesis") == ["draft.txt"]


@pytest.mark.parametrize("where", ["first", "meanwhile"])
@pytest.mark.parametrize("case", ["a file", "a folder", "meta.json of others", "no meta.json"])
def test_a_graph_is_replaced_only_where_nothing_else_lies(mine, case, where, monkeypatch):
    folder = shutil.copytree(mine, mine.with_name("kept"))

    def add():
        if case == "a file":
            (folder / "notes.txt").write_text("words")
        elif case == "a folder":
            (folder / "groups.npy").mkdir()
        elif case == "meta.json of others":
            (folder / "meta.json").write_text('{"format": "a thesis"}')
        else:
            (folder / "meta.json").unlink()
        kept.update(os.listdir(folder))

    data, kept, written = graph(), set(), writer._write
    if where == "first":
        add()
    else:
        monkeypatch.setattr(writer, "_write", lambda *given: (written(*given), add()))
    with pytest.raises(ZooError, match="no on-disk graph.*Move it away, or write another name"):
        write(data, folder)
    assert set(os.listdir(folder)) == kept
    assert sorted(os.listdir(folder.parent)) == sorted(["kept", mine.name])


def test_a_damaged_graph_or_one_of_another_version_is_replaced(mine):
    (mine / "indptr.npy").write_bytes(b"")
    (mine / "labels.npy").unlink()
    (mine / "meta.json").write_text('{"format": "graph on disk", "version": 2}')
    assert_same(write(graph(), mine), graph())


def test_what_a_graph_is_made_from_is_not_replaced_by_it(mine):
    before = {each.name: each.read_bytes() for each in mine.iterdir()}
    own = {"name": str(mine.parent / "e.csv"), "node_labels": str(mine / "labels.npy")}
    (mine.parent / "e.csv").write_text(lines(EDGES))
    for spec in (mine, own):
        with pytest.raises(ZooError, match="which would be replaced; write another name"):
            prepare_on_disk(spec, mine)
    assert {each.name: each.read_bytes() for each in mine.iterdir()} == before


def test_a_folder_of_tables_stays_one(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,x\na,1\nb,2\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    (tmp_path / "meta.json").write_text("{}")
    assert load_graph(tmp_path).ids.tolist() == ["a", "b"]
    prepare_on_disk(tmp_path, tmp_path / "g")
    assert_same(load_graph(tmp_path / "g"), load_graph(tmp_path))
