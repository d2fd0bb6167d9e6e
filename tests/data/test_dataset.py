import os
import time

import networkx
import numpy as np
import pytest
import torch
from needs_dgl import needs_dgl
from scipy import sparse

from zoo.config.options import pick
from zoo.data import FEATURES, Dataset, GraphArrays, make_dataset
from zoo.data.canonical import canonical
from zoo.data.files.prepared import read_prepared, write_prepared
from zoo.data.load import (
    DATASETS,
    dataset_problems,
    default_split,
    load_graph,
    resolved_dataset,
)
from zoo.data.load.named import NAMED
from zoo.data.splits import make_split, split_problems
from zoo.dgl import dgl
from zoo.errors import ZooError
from zoo.graphs.spmm import neighbour_sum
from zoo.tasks.labels import NODE_METRICS
from zoo.tasks.task import TASKS


def edge_set(graph):
    return set(zip(*(ends.tolist() for ends in graph.edges()), strict=True))


def homophily(data):
    source, target = data.graph.edges()
    other = source != target
    return (data.y[source] == data.y[target])[other].double().mean().item()


@pytest.fixture
def parts():
    """A graph of 40 nodes: 3 classes with some unknown, sparse features, two splits."""
    random = np.random.default_rng(5)
    order = np.stack([random.permutation(40) for _ in range(2)])
    masks = {
        "train": order < 20,
        "val": (order >= 20) & (order < 30),
        "test": (order >= 30) & (order < 39),
    }
    features = random.random((40, 30)) * (random.random((40, 30)) < 0.05)
    labels = random.integers(-1, 3, 40)
    labels[:3] = 0, 1, 2
    return GraphArrays(random.integers(40, size=(90, 2)), labels, features, masks)


# Canonical graphs


def slow_canonical(edges, nodes):
    both = {(int(a), int(b)) for a, b in edges} | {(int(b), int(a)) for a, b in edges}
    return both | {(node, node) for node in range(nodes)}


def test_a_graph_of_another_library_is_no_array_of_edges():
    for source in (networkx.path_graph(4), sparse.eye(4, format="csr"), None):
        with pytest.raises(ZooError, match=r"not (Graph|csr_\w+|NoneType): write np\.stack"):
            canonical(source, nodes=4)


@pytest.mark.parametrize("seed", range(8))
def test_canonical_is_its_slow_twin(seed):
    random = np.random.default_rng(seed)
    nodes = int(random.integers(1, 40))
    edges = random.integers(nodes, size=(int(random.integers(0, 90)), 2))
    edges = np.concatenate([edges, edges[:7], edges[3:5, ::-1], edges[:4, [0, 0]]])
    graph = canonical(edges, nodes=nodes)
    assert graph.num_nodes() == nodes
    assert edge_set(graph) == slow_canonical(edges, nodes)
    assert graph.num_edges() == len(edge_set(graph)), "an edge is there twice"


def test_canonical_twice_is_canonical_once():
    edges = np.random.default_rng(0).integers(50, size=(80, 2))
    once = canonical(edges, nodes=60)
    twice = canonical(once)
    for before, after in zip(once.edges(), twice.edges(), strict=True):
        assert torch.equal(before, after)
    shuffled = canonical(np.random.default_rng(1).permutation(edges)[:, ::-1], nodes=60)
    assert torch.equal(torch.stack(once.edges()), torch.stack(shuffled.edges()))


@pytest.mark.parametrize("kind", [torch.int32, torch.int64])
def test_canonical_keeps_node_data_and_the_given_graph(kind):
    given = dgl.graph(([0, 0, 2], [1, 1, 2]), num_nodes=5, idtype=kind)
    given.ndata["x"], given.edata["w"] = torch.arange(5.0), torch.ones(3)
    graph = canonical(given)
    assert torch.equal(graph.ndata["x"], torch.arange(5.0)) and not graph.edata
    assert edge_set(graph) == {(0, 1), (1, 0), *((node, node) for node in range(5))}
    assert given.num_edges() == 3 and "w" in given.edata


@needs_dgl
def test_canonical_refuses_what_is_no_graph():
    kinds = dgl.heterograph({("a", "to", "b"): ([0], [1])})
    with pytest.raises(ZooError, match="to_homogeneous"):
        canonical(kinds)
    with pytest.raises(ZooError, match="nodes=N"):
        canonical([[0, 1]])
    with pytest.raises(ZooError, match=r"row 1 is \[3, 7\].*5 nodes"):
        canonical([[0, 1], [3, 7]], nodes=5)
    for word, words in ({"direction": "along"}, "both, in"), ({"duplicates": "maen"}, "'mean'"):
        with pytest.raises(ZooError, match=words):
            canonical([[0, 1]], nodes=2, **word)
    with pytest.raises(ZooError, match="'separate'"):
        Dataset.from_dgl(dgl.graph(([0], [1])), relations="seperate")
    assert canonical(np.zeros((0, 2), int), nodes=3).num_edges() == 3


def test_canonical_keeps_graphs_side_by_side_apart():
    apart = [dgl.graph(([0, 1], [1, 2])), dgl.graph(([], []), num_nodes=1), dgl.graph(([2], [0]))]
    found = canonical(dgl.batch(apart))
    for one, other in zip(dgl.unbatch(found), apart, strict=True):
        assert edge_set(one) == edge_set(canonical(other))


def test_canonical_takes_kinds_of_edges_of_a_dgl_graph_too():
    edges, kinds = np.array([[0, 1], [1, 2], [2, 0]]), [0, 1, 1]
    given = dgl.graph((edges[:, 0], edges[:, 1]))
    wanted = canonical(edges, nodes=3, relations=kinds)
    assert torch.equal(canonical(given, relations=kinds).edata["weight"], wanted.edata["weight"])
    for options, words in (({"nodes": 5}, "3 nodes"), ({"direction": "in"}, "kept apart")):
        with pytest.raises(ZooError, match=words):
            canonical(given, relations=kinds, **options)


def test_canonical_is_fast_on_millions_of_edges():
    edges = np.random.default_rng(0).integers(300_000, size=(2_000_000, 2))
    start = time.perf_counter()
    canonical(edges, nodes=300_000)
    assert time.perf_counter() - start < 10


# Prepared files


@pytest.mark.parametrize("kind", ["sparse", "dense", "targets", "no masks"])
def test_what_is_written_is_read(parts, tmp_path, kind):
    path = tmp_path / "graph.npz"
    if kind == "dense":
        parts = parts._replace(features=np.random.default_rng(0).random((40, 3)))
    if kind == "targets":
        targets = np.random.default_rng(0).integers(2, size=(40, 4)).astype(np.float32)
        targets[3, 1] = np.nan
        parts = parts._replace(labels=targets)
    if kind == "no masks":
        parts = parts._replace(masks=None)
    write_prepared(parts, path)
    back = read_prepared(path)
    assert sparse.issparse(back.features) == (kind != "dense")
    dense = back.features.toarray() if sparse.issparse(back.features) else back.features
    assert np.array_equal(dense, parts.features.astype(np.float32))
    assert np.array_equal(back.edges, parts.edges)
    assert np.array_equal(back.labels, parts.labels, equal_nan=True)
    assert (back.masks is None) == (parts.masks is None)
    for part, mask in (parts.masks or {}).items():
        assert np.array_equal(back.masks[part], mask)
    data = load_graph(path)
    assert torch.equal(data.x, torch.from_numpy(dense))
    assert edge_set(data.graph) == slow_canonical(parts.edges, 40)
    assert not data.graph.ndata and not data.graph.edata
    assert data.classes == (4 if kind == "targets" else 3)
    assert data.split == ("ratio-60-20-20" if kind == "no masks" else "benchmark")
    assert sorted(os.listdir(tmp_path)) == ["graph.npz"]


def arrays_of(parts):
    masks = {f"{part}_masks": mask.copy() for part, mask in parts.masks.items()}
    return {
        "edges": parts.edges.copy(),
        "node_labels": parts.labels.copy(),
        "node_features": parts.features.copy(),
        **masks,
    }


def put(key, where, value):
    def change(arrays):
        arrays[key][where] = value

    return change


def swap(**new):
    return lambda arrays: arrays.update(new)


def drop(*keys):
    return lambda arrays: [arrays.pop(key) for key in keys]


def csr(**new):
    whole = {
        "indptr": np.arange(41),
        "indices": np.zeros(40, int),
        "data": np.ones(40),
        "shape": np.array([40, 2]),
    } | new

    def change(arrays):
        del arrays["node_features"]
        arrays.update({f"node_features_{part}": each for part, each in whole.items()})

    return change


BROKEN = {
    "edges turned": (swap(edges=np.zeros((2, 9), int)), ["edges", "edges.T"]),
    "edges of triples": (swap(edges=np.zeros((9, 3), int)), ["edges", "(9, 3)"]),
    "edges of floats": (swap(edges=np.zeros((9, 2))), ["edges", "float64", "int64"]),
    "a negative edge": (put("edges", (3, 1), -2), ["row 3", "-2", "40 nodes"]),
    "an edge to nowhere": (put("edges", (7, 0), 40), ["row 7", "40", "0 to 39"]),
    "no labels": (drop("node_labels"), ["node_labels", "missing", "write_prepared"]),
    "no features": (drop("node_features"), ["node_features", "missing"]),
    "pickled labels": (swap(node_labels=np.array([{}] * 40)), ["node_labels", "never unpickled"]),
    "words as labels": (swap(node_labels=np.array(["a"] * 40)), ["node_labels", "numbers"]),
    "labels of floats": (swap(node_labels=np.full(40, 0.5)), ["node_labels", "int64"]),
    "too few labels": (swap(node_labels=np.zeros(39, int)), ["40 rows", "39"]),
    "a label below -1": (put("node_labels", 5, -3), ["-3", "node 5", "-1"]),
    "a label out of all range": (put("node_labels", 5, 10**9), ["node 5", "number the classes"]),
    "targets of 2": (swap(node_labels=np.full((40, 2), 2)), ["node_labels", "0 or 1"]),
    "an empty graph": (
        swap(
            edges=np.zeros((0, 2), int),
            node_labels=np.zeros(0, int),
            node_features=np.zeros((0, 3)),
        ),
        ["empty"],
    ),
    "NaN": (put("node_features", (7, 2), np.nan), ["row 7", "column 2", "nan_to_num"]),
    "too large for fp32": (put("node_features", (7, 2), 1e300), ["row 7", "column 2"]),
    "a name twice": (
        swap(feature_names=np.array(["a", *map(str, range(28)), "a"])),
        ["feature_names", "'a' twice", "its own"],
    ),
    "flat features": (swap(node_features=np.zeros(40)), ["node_features", "(40,)", "(N, F)"]),
    "CSR without data": (
        lambda arrays: (csr()(arrays), arrays.pop("node_features_data")),
        ["node_features_data", "missing"],
    ),
    "CSR of wrong columns": (csr(indices=np.full(40, 2)), ["graph.npz", "indices must be < 2"]),
    "CSR of wrong rows": (csr(indptr=np.arange(40)), ["graph.npz", "index pointer size 40"]),
    "CSR that falls": (csr(indptr=np.r_[0, np.arange(41)[:0:-1]]), ["indptr must be"]),
    "CSR with NaN": (csr(data=np.r_[np.ones(39), np.nan]), ["row 39", "column 0"]),
    "CSR too wide": (csr(shape=np.array([40, 10**13])), ["graph.npz"]),
    "masks of numbers": (swap(val_masks=np.zeros((2, 40), int)), ["val_masks", "astype(bool)"]),
    "a flat mask": (swap(val_masks=np.ones(40, bool)), ["val_masks", "mask[None]"]),
    "masks too short": (swap(val_masks=np.ones((2, 39), bool)), ["val_masks", "(2, 39)"]),
    "masks of one split": (swap(val_masks=np.ones((1, 40), bool)), ["same number"]),
    "two masks": (drop("val_masks"), ["val_masks", "missing"]),
    "no training": (put("train_masks", 1, False), ["train_masks", "empty", "split 1"]),
    "masks that overlap": (put("val_masks", (1, slice(None)), True), ["overlap", "split 1"]),
}


def refused(path, *words):
    before = sorted(os.listdir(path.parent))
    with pytest.raises(ZooError) as caught:
        load_graph(path)
    text = str(caught.value)
    assert str(path) in text and "\n" not in text
    for word in words:
        assert word in text, text
    assert sorted(os.listdir(path.parent)) == before


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_answered_with_its_fix(case, parts, tmp_path):
    arrays = arrays_of(parts)
    change, words = BROKEN[case]
    change(arrays)
    np.savez(tmp_path / "graph.npz", **arrays)
    refused(tmp_path / "graph.npz", *words)


def test_what_is_no_npz_is_answered(parts, tmp_path):
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays_of(parts))
    whole = path.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:size])
        refused(path, "damaged, or cut short", "fetch or write it again")
    damaged = bytearray(whole)
    damaged[whole.index(b"edges.npy") + 200] ^= 255
    path.write_bytes(damaged)
    refused(path, "damaged, or cut short")
    path.write_text("edges: 0 1\n")
    refused(path, "never unpickled")
    with path.open("wb") as file:
        np.save(file, np.arange(3))
    refused(path, "one array")
    path.unlink()
    refused(path, "no file")


def test_an_absurd_size_is_answered(parts, tmp_path):
    path = tmp_path / "graph.npz"
    np.savez(path, **arrays_of(parts))
    shape, absurd = b"(90, 2), }         ", b"(90000000000000, 2)}"
    content = path.read_bytes()
    assert shape in content
    path.write_bytes(content.replace(shape, absurd.ljust(len(shape))))
    refused(path, "damaged, or cut short")


def test_broken_parts_are_not_written(parts, tmp_path):
    with pytest.raises(ZooError, match="overlap"):
        write_prepared(parts._replace(masks={k: m | True for k, m in parts.masks.items()}),
                       tmp_path / "graph.npz")  # fmt: skip
    with pytest.raises(ZooError, match=r"graph\.npz"):
        write_prepared(parts, tmp_path / "graph")
    with pytest.raises(ZooError, match="train, val, test"):
        write_prepared(parts._replace(masks={"train": parts.masks["train"]}), tmp_path / "a.npz")
    assert not os.listdir(tmp_path)


# Names, paths and options


def test_folders_are_searched_in_order(parts, tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setenv("ZOO_DATA", f"{first}{os.pathsep}{second}")
    monkeypatch.setitem(NAMED, "cora", NAMED["cora"]._replace(nodes=40))
    write_prepared(parts, second / "cora.npz")
    data = load_graph("cora")
    assert data.graph.num_nodes() == 40 and data.split == "per-class-20" and data.name == "cora"
    smaller = GraphArrays(np.array([[0, 1]]), np.array([0, 1]), np.eye(2))
    write_prepared(smaller, first / "cora.npz")
    with pytest.raises(ZooError, match="cora.npz has 2 nodes, and cora has 40: it is another"):
        load_graph("cora")
    for more, edge in (([-1, -1], 39), ([-1, 0], 39), ([-1, -1], 40)):  # more nodes than 40
        edges, labels = np.array([[0, edge]]), np.array([0, 1] * 20 + more)
        write_prepared(GraphArrays(edges, labels, np.eye(42)), first / "cora.npz")
        if (more, edge) == ([-1, -1], 39):
            assert load_graph("cora").graph.num_nodes() == 42
        else:
            with pytest.raises(ZooError, match="has 42 nodes, and cora has 40"):
                load_graph("cora")


def test_a_missing_graph_is_answered_with_its_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "graphs"))
    for name in ("pubmed", "pokec"):
        with pytest.raises(ZooError) as caught:
            load_graph(name)
        text = str(caught.value)
        assert f"{name}.npz" in text and str(tmp_path / "graphs") in text
        assert "node_labels" in text and "data/README.md" in text
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_unknown_words_are_answered():
    with pytest.raises(ZooError, match=r"did you mean 'cora'\?.*path"):
        load_graph("coar")
    with pytest.raises(ZooError, match="did you mean 'nodes'"):
        load_graph("sbm", noodes=3)
    with pytest.raises(ZooError, match="did you mean 'row'"):
        load_graph("karate", features="rwo")
    with pytest.raises(ZooError, match="there is no file nothing/here.npz"):
        load_graph("nothing/here.npz")
    assert [each.path for each in dataset_problems({"name": "coar"}, ("dataset",))] == [
        ("dataset", "name")
    ]
    assert [each.path for each in dataset_problems("coar", ("dataset",))] == [("dataset",)]


def test_a_file_of_ones_own(parts, tmp_path):
    path = tmp_path / "mine.npz"
    write_prepared(parts._replace(labels=np.minimum(parts.labels, 1)), path)
    assert load_graph(str(path)).task == "node-classification"
    data = load_graph({"name": str(path), "task": "node-binary", "features": "row"})
    assert (data.name, data.task, data.metric) == ("mine", "node-binary", "roc-auc")
    assert [str(each) for each in dataset_problems({"name": str(path), "tsk": 1}, ())] == [
        f"tsk: {path} has no option 'tsk'; did you mean 'task'?"
    ]
    with pytest.raises(ZooError, match=r"task: .*node-binary"):
        load_graph(path, task="binary")
    write_prepared(parts, path)
    with pytest.raises(ZooError, match=r"mine\.npz.*holds 2 at node.*node-classification"):
        load_graph(path, task="node-binary")
    known = tmp_path / "minesweeper.npz"
    write_prepared(parts._replace(labels=np.minimum(parts.labels, 1)), known)
    assert load_graph(known).task == "node-binary"


def test_a_resolved_spec_is_the_same_graph(parts, tmp_path):
    path = tmp_path / "mine.npz"
    write_prepared(parts, path)
    for spec in ("karate", {"name": "sbm", "nodes": 50, "features": "standard"}, str(path)):
        full = resolved_dataset(spec)
        data = load_graph(spec)
        known = default_split(full["name"])  # None of a graph that has to be read to know
        assert known == (None if full["name"] == str(path) else data.split)
        again = load_graph(full)
        assert torch.equal(again.x, data.x) and edge_set(again.graph) == edge_set(data.graph)


@pytest.mark.parametrize("name", DATASETS)
def test_every_name_has_a_task_a_metric_and_a_split(name):
    if name != "texts":  # whose file says one or not
        assert not split_problems(default_split(name), ())
    task = NAMED[name].task if name in NAMED else "node-classification"
    assert NODE_METRICS[task] == pick(TASKS, task).metric_name
    assert DATASETS[name].__doc__


def test_features_are_what_their_word_says():
    x = torch.tensor([[1.0, -3.0, 2.0], [0.0, 0.0, 2.0], [4.0, 0.0, 2.0]])
    assert pick(FEATURES, "raw", x) is x
    rows = pick(FEATURES, "row", x)
    assert rows[0].tolist() == pytest.approx([1 / 6, -3 / 6, 2 / 6])
    assert torch.allclose(rows.abs().sum(1), torch.ones(3))
    assert pick(FEATURES, "row", torch.zeros(2, 3)).abs().sum() == 0
    columns = pick(FEATURES, "standard", torch.cat([x, torch.full((3, 1), 0.1)], dim=1))
    assert torch.allclose(columns[:, :2].mean(0), torch.zeros(2), atol=1e-6)
    assert torch.allclose(columns[:, :2].var(0, correction=0), torch.ones(2))
    assert columns[:, 2:].abs().max() == 0
    assert pick(FEATURES, "standard", torch.full((1000, 1), 0.1)).abs().max() == 0


def test_added_features_stand_on_the_right(parts):
    data = make_dataset("mine", parts, task="node-classification")
    more = data.add_features(torch.ones(40, 2, dtype=torch.float64))
    assert torch.equal(more.x[:, :30], data.x) and torch.equal(more.x[:, 30:], torch.ones(40, 2))
    assert more.x.dtype == torch.float32 and data.x.shape == (40, 30)


# Real and generated graphs

REAL = {
    "cora": (2708, 5278, 1433, 7, 1),
    "citeseer": (3327, 4552, 3703, 6, 1),
    "actor": (7600, 26659, 932, 5, 10),
    "chameleon": (890, 8854, 2325, 5, 10),
    "minesweeper": (10000, 39402, 7, 2, 10),
    "twitch-de": (9498, 153138, 3170, 2, 0),
    "twitch-engb": (7126, 35324, 3170, 2, 0),
    "twitch-fr": (6551, 112666, 3170, 2, 0),
    "twitch-ru": (4385, 37304, 3170, 2, 0),
}


@pytest.mark.parametrize("name", REAL)
def test_real_graphs_have_their_numbers(name, real_graph):
    data = real_graph(name)
    nodes, edges, columns, classes, splits = REAL[name]
    assert data.graph.num_nodes() == nodes
    assert data.graph.num_edges() == 2 * edges + nodes
    assert data.x.shape == (nodes, columns) and data.classes == classes
    assert (0 if data.masks is None else len(data.masks["train"])) == splits
    assert (data.task, data.split) == (NAMED[name].task, NAMED[name].split)
    make_split(data.split, data.y, data.masks, seed=0)


def test_digits_are_joined_to_the_nearest():
    data = load_graph("digits", neighbours=3)
    assert data.x.shape == (1797, 64) and data.x.min() == 0 and data.x.max() == 1
    joined = edge_set(data.graph)
    for image in (0, 100, 1796):
        distance = (data.x - data.x[image]).square().sum(1)
        distance[image] = torch.inf
        assert {(image, int(each)) for each in distance.topk(3, largest=False).indices} <= joined
    assert 3 * 1797 <= data.graph.num_edges() - 1797 <= 6 * 1797
    with pytest.raises(ZooError, match="1797 images"):
        load_graph("digits", neighbours=1797)


def test_the_karate_club():
    data = load_graph("karate")
    assert data.graph.num_edges() == 2 * 78 + 34 and data.y.bincount().tolist() == [17, 17]
    assert data.graph.in_degrees([0, 33]).tolist() == [17, 18]  # 16 and 17 friends


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8, 1.0])
def test_sbm_is_as_asked(share):
    data = load_graph("sbm", nodes=3000, classes=5, degree=12.0, homophily=share, dim=8)
    assert data.graph.num_edges() == 3000 + 2 * round(3000 * 12 / 2)
    assert homophily(data) == pytest.approx(share, abs=1e-12)
    assert data.y.bincount().tolist() == [600] * 5 and data.x.shape == (3000, 8)
    degrees = data.graph.in_degrees().double() - 1
    assert degrees.var() == pytest.approx(12, rel=0.2), "some nodes are denser than others"


def test_sbm_is_drawn_by_its_seed_alone():
    torch.manual_seed(3)
    np.random.seed(3)
    expected = torch.rand(1), np.random.rand()
    torch.manual_seed(3)
    np.random.seed(3)
    data, same, other = (load_graph("sbm", seed=seed) for seed in (0, 0, 1))
    assert (torch.rand(1), np.random.rand()) == expected, "a global generator was used"
    assert torch.equal(data.x, same.x) and edge_set(data.graph) == edge_set(same.graph)
    assert not torch.equal(data.y, other.y) and edge_set(data.graph) != edge_set(other.graph)


def test_sbm_features_tell_something_and_neighbours_more():
    from sklearn.linear_model import LogisticRegression

    data = load_graph("sbm")
    split = make_split(data.split, data.y, None, seed=0)
    y = data.y.numpy()

    def score(x):
        fitted = LogisticRegression(max_iter=500).fit(x[split.train], y[split.train])
        return fitted.score(x[split.test], y[split.test])

    alone = score(data.x.numpy())
    around = score(neighbour_sum(data.graph, data.x).numpy())
    assert 0.35 < alone < 0.7 < around


def test_sbm_has_room_for_its_edges():
    with pytest.raises(ZooError, match="smaller degree"):
        load_graph("sbm", nodes=20)
    full = load_graph("sbm", nodes=20, classes=2, degree=9.0, homophily=1.0)
    assert full.graph.num_edges() == 2 * 10 * 10, "two cliques"
    with pytest.raises(ZooError, match="homophily"):
        load_graph("sbm", classes=1)
    with pytest.raises(ZooError, match="nodes: 4"):
        load_graph("sbm", nodes=3)
    assert load_graph("sbm", nodes=20, degree=2.0, classes=1, homophily=1.0).classes == 1


def test_sbm_takes_linear_time():
    load_graph("sbm", nodes=1000)
    start = time.perf_counter()
    load_graph("sbm", nodes=200_000)
    assert time.perf_counter() - start < 8
