"""Sets of graphs with a label each: the files of the TU collection, and lists of PyG's graphs."""

import http.server
import json
import threading
import zipfile

import numpy as np
import pandas
import pytest
import torch

import zoo
from zoo import Dataset, ZooError
from zoo.canonical_form import FEATURE
from zoo.config.metadata import About
from zoo.data.canonical import graph_of, graphs_of
from zoo.data.files.graph_arrays import GraphArrays, GraphSetArrays
from zoo.data.load import load_data, named
from zoo.runs.prepare import prepare
from zoo.runs.resolve import load_recipe, resolve
from zoo.system import http as downloading
from zoo.system.cache import data_folders

FILES = {
    "A": "1, 2\n2, 1\n2, 3\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "7\n8\n7\n8\n8\n9\n",
    "node_attributes": "0.5, 1\n1.5, 2\n2.5, 3\n3.5, 4\n4.5, 5\n5.5, 6\n",
    "edge_labels": "1\n1\n2\n3\n3\n",
    "edge_attributes": "0.1\n0.1\n0.2\n0.3\n0.3\n",
}


def write(folder, **changes):
    folder.mkdir(parents=True)
    for name, text in {**FILES, **changes}.items():
        if text is not None:
            (folder / f"TINY_{name}.txt").write_text(text)
    return folder


def test_files_of_the_tu_collection(tmp_path):
    data = load_data(str(write(tmp_path / "TINY")))
    assert (data.graphs.sizes.tolist(), data.y.tolist()) == ([3, 2, 1], [1, 0, 1])
    assert data.labels == ("-1", "1") and data.unit == "samples" and data.edge_dim == 4
    assert data.x.tolist()[1] == [0, 1, 0, 1.5, 2] and data.inputs == 5
    graph, x = data.batch(torch.tensor([1, 0]))
    assert graph.num_edges() == 4 + 7 and torch.equal(x, data.x[[3, 4, 0, 1, 2]])
    src, dst = graph.edges()
    place = {(int(u), int(v)): f.tolist() for u, v, f in zip(src, dst, graph.edata[FEATURE],
             strict=True)}  # fmt: skip
    np.testing.assert_allclose(place[0, 1], [0, 0, 1, 0.3], rtol=1e-6)
    np.testing.assert_allclose(place[4, 3], [0, 1, 0, 0.2], rtol=1e-6)  # 3-2 is 2-3, turned
    assert place[3, 3] == [0] * 4
    raw = load_data(str(write(tmp_path / "b" / "raw").parent))
    assert torch.equal(raw.x, data.x)


def test_numbers_of_graphs_are_attributes(tmp_path, caplog):
    one = write(tmp_path / "TINY", graph_labels=None, graph_attributes="0.5\n-1\nnan\n")
    data = load_data(str(one))
    assert (data.task, data.labels) == ("graph-regression", None)
    assert data.y.nan_to_num(7).tolist() == [0.5, -1, 7]
    both = write(tmp_path / "b" / "TINY", graph_attributes="0.5, 1\n-1, 2\n0, 3\n")
    assert load_data(str(both)).y.tolist() == [1, 0, 1]
    [said] = caplog.messages
    assert "TINY_graph_attributes.txt is not read; `task: graph-regression` predicts" in said
    data = load_data(str(both), task="graph-regression")
    assert data.y.tolist() == [[0.5, 1], [-1, 2], [0, 3]]
    assert data.labels == ("attribute 0", "attribute 1")
    data = load_data(str(both), task="graph-regression", label="attribute 1")
    assert data.y.tolist() == [1, 2, 3]
    with pytest.raises(ZooError, match="graph_attributes.txt has no 'attribute 2'; did you mean"):
        load_data(str(both), task="graph-regression", label="attribute 2")


@pytest.mark.parametrize(
    ("labels", "task", "y"),
    [
        ("1\n0\n2\n", "graph-regression", [1, 0, 2]),
        ("-1\n1\n1\n", "graph-binary", [0, 1, 1]),
        ("1, 0\n0, nan\n1, 1\n", "graph-multilabel", [[1, 0], [0, 7], [1, 1]]),
    ],
)
def test_labels_of_the_collection_are_those_of_the_task(tmp_path, labels, task, y):
    data = load_data(str(write(tmp_path / "TINY", graph_labels=labels)), task=task)
    assert data.task == task
    assert (data.y.nan_to_num(7) if data.y.is_floating_point() else data.y).tolist() == y
    ignored = load_data(str(tmp_path / "TINY"), task=task, labels="ignore")
    assert len(ignored.y) == 3 and ignored.task == task


def test_degrees_stand_in_for_what_nodes_have_not(tmp_path):
    bare = dict.fromkeys(("node_labels", "node_attributes", "edge_labels", "edge_attributes"))
    data = load_data(str(write(tmp_path / "TINY", **bare)))
    assert data.x.argmax(1).tolist() == [1, 2, 1, 1, 1, 0] and data.edge_dim == 0
    assert data.inputs == 65  # whatever degrees there are, so that another set may be predicted
    both = load_data({"name": str(write(tmp_path / "b")), "degrees": 1})
    assert both.x[:, 5:].argmax(1).tolist() == [1, 1, 1, 1, 1, 0]


def test_columns_are_called_by_their_labels(tmp_path):
    data = load_data(str(write(tmp_path / "TINY")))
    labels = [f"node label {each}" for each in (7, 8, 9)]
    assert data.feature_names == (*labels, "node attribute 0", "node attribute 1")
    assert data.edge_feature_names == (*(f"edge label {n}" for n in (1, 2, 3)), "edge attribute 0")
    bare = dict.fromkeys(("node_attributes", "edge_labels", "edge_attributes"))
    pairs = {"node_labels": "7, 1\n8, 1\n7, 1\n8, 0\n8, 0\n9, 1\n"}
    data = load_data({"name": str(write(tmp_path / "b", **bare, **pairs)), "degrees": 1})
    both = [*(f"node label 0: {each}" for each in "789"), "node label 1: 0", "node label 1: 1"]
    assert data.feature_names == (*both, "degree 0", "degree 1")
    assert data.edge_feature_names is None


ONE = {
    "A": "1, 2\n2, 1\n",
    "graph_indicator": "1\n1\n",
    "graph_labels": "-1\n",
    "node_labels": "8\n8\n",
    "node_attributes": "3.5, 4\n4.5, 5\n",
    "edge_labels": "3\n3\n",
    "edge_attributes": "0.3\n0.3\n",
}
"""The second of the three graphs alone."""


def test_a_model_reads_the_labels_that_it_was_trained_on(tmp_path):
    data = load_data(str(write(tmp_path / "TINY")))
    torch.manual_seed(0)
    model = zoo.create_model("gine", data.inputs, 2, edge_dim=data.edge_dim, dim=8).eval()
    names, of_edges = list(data.feature_names), list(data.edge_feature_names)
    told = {"task": data.task, "features": 5, "feature_names": names}
    model.about = About(**told, edge_feature_names=of_edges)
    one = load_data(str(write(tmp_path / "ONE", **ONE)))
    assert (one.inputs, one.edge_dim) == (3, 2)  # labels that it has not are columns of zeros
    asked = zoo.predict(model, data).values[1], zoo.predict(model, one).values[0]
    torch.testing.assert_close(*asked)
    for changes, said in (
        ({"node_labels": "8\n5\n"}, "not known to the model: node label 5"),
        ({"edge_labels": "3\n4\n"}, "not known to the model: edge label 4"),
        ({"node_labels": None}, "missing: node label 7, node label 8, node label 9"),
        ({"edge_labels": None}, "missing: edge label 1"),
        ({"edge_attributes": None}, "missing: edge attribute 0"),
    ):
        other = load_data(str(write(tmp_path / said, **{**ONE, **changes})))
        with pytest.raises(ZooError, match=said):
            zoo.predict(model, other)
    deaf = zoo.create_model("gcn", data.inputs, 2, dim=8).eval()
    deaf.about = About(**told)
    other = load_data(str(write(tmp_path / "other", **{**ONE, "edge_labels": "4\n4\n"})))
    assert len(zoo.predict(deaf, other).values) == 1


@pytest.mark.parametrize("model", ["gine", "gcn"])
def test_weights_say_which_labels_they_read(tmp_path, model):
    count = 10
    parts = {key: "".join(count * [text]) for key, text in ONE.items()}
    parts["graph_labels"] = count // 2 * "0\n1\n"
    parts["graph_indicator"] = "".join(f"{n + 1}\n{n + 1}\n" for n in range(count))
    parts["A"] = "".join(f"{n + 1}, {n + 2}\n" * 2 for n in range(0, 2 * count, 2))
    recipe = load_recipe({"dataset": str(write(tmp_path / "TEN", **parts)), "model": model})
    about = prepare(resolve(recipe)).about
    assert about.feature_names == ["node label 8", "node attribute 0", "node attribute 1"]
    held = ["edge label 3", "edge attribute 0"]
    assert about.edge_feature_names == (held if model == "gine" else None)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"graph_labels": None}, "no TINY_graph_labels.txt: a class for each graph"),
        ({"graph_labels": "1\n2\n"}, "of the graphs 1 to 3, and 2 graphs have a label"),
        ({"graph_labels": "1, 0\n-1, 1\n1, 1\n"}, "labels.txt has 2 numbers a line, and one is"),
        ({"graph_indicator": "1,1\n" * 6}, "graph_indicator.txt has 2 numbers a line, and one is"),
        ({"graph_labels": "1\n0.5\n1\n"}, "graph_labels.txt holds something else than lines of"),
        ({"graph_indicator": "1\n2\n1\n2\n2\n3\n"}, "number them from 1"),
        ({"graph_indicator": "1\n1\n1\n3\n3\n3\n"}, "graph 2 has no nodes"),
        ({"A": "1, 4\n2, 1\n2, 3\n4, 5\n5, 4\n"}, "the edge in row 1 joins nodes of two graphs"),
        ({"A": "1, 9\n"}, "there are 6 nodes"),
        ({"A": None}, "TINY_A.txt cannot be read"),
        ({"A": ""}, "edge_labels.txt has 5 rows and should have 0"),
        ({"graph_indicator": ""}, "there are 0 nodes"),
        ({"graph_labels": ""}, "of the graphs 1 to 3, and 0 graphs have a label"),
        ({"graph_labels": "1\n2\n1\n2\n"}, "graph 4 has no nodes"),
        ({"node_labels": "7\n8\n"}, "node_labels.txt has 2 rows and should have 6"),
        ({"node_attributes": "a\n"}, "node_attributes.txt holds something else"),
        ({"edge_attributes": "1\n"}, "edge_attributes.txt has 1 rows and should have 5"),
        ({"edge_labels": None, "edge_attributes": "1\n"}, "edge_attributes.txt has 1 rows"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_files_is_said(tmp_path, changes, said):
    with pytest.raises(ZooError, match=said) as caught:
        load_data(str(write(tmp_path / "TINY", **changes)))
    assert "TINY" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("owners", ["1\n1\n9\n", "0\n1\n1\n"])
def test_graphs_without_labels_are_numbered_from_one(tmp_path, owners):
    none = dict.fromkeys(("graph_labels", "node_labels", "node_attributes", "edge_labels"))
    path = write(
        tmp_path / "TINY", graph_indicator=owners, A="1, 2\n", edge_attributes=None, **none
    )
    with pytest.raises(ZooError, match="number them from 1|has no nodes"):
        load_data(str(path), labels="ignore")


def of_pyg(count=6, **changes):
    torch.manual_seed(0)
    return [{"edge_index": torch.tensor([[0, 1], [1, 2]]), "x": torch.randn(3, 2),
             "edge_attr": torch.randn(2, 1), "y": torch.tensor([n % 2]), **changes}
            for n in range(count)]  # fmt: skip


def test_lists_of_pyg(tmp_path):
    graphs = of_pyg()
    data = Dataset.from_pyg(graphs, edge_features="edge_attr")
    assert data.graphs.sizes.tolist() == [3] * 6 and data.y.tolist() == [0, 1] * 3
    assert torch.equal(data.x, torch.cat([each["x"] for each in graphs])) and data.edge_dim == 1
    torch.save(graphs, tmp_path / "set.pt")
    read = load_data(str(tmp_path / "set.pt"), task="graph-classification")
    assert torch.equal(read.x, data.x) and read.edge_dim == 0
    named = Dataset.from_pyg([{**each, "y": "ab"[n % 2]} for n, each in enumerate(graphs)])
    assert named.labels == ("a", "b") and torch.equal(named.y, data.y)
    bare = Dataset.from_pyg([{k: v for k, v in each.items() if k != "x"} | {"num_nodes": 3}
                             for each in graphs])  # fmt: skip
    assert bare.x.argmax(1).tolist() == [1, 2, 1] * 6
    with pytest.raises(ZooError, match="graph 0 of the list: there is no `edge_index`"):
        Dataset.from_pyg([{"x": torch.eye(2)}])
    with pytest.raises(ZooError, match="unlike features: of nodes 2, 3 columns"):
        Dataset.from_pyg([*graphs, *of_pyg(1, x=torch.randn(3, 3))])
    with pytest.raises(ZooError, match="type float, such as 0.5; write `task: graph-regression`"):
        Dataset.from_pyg(of_pyg(3, y=torch.tensor([0.5])))


@pytest.mark.parametrize(
    ("labels", "classes", "names"),
    [
        ([torch.tensor(0), None, torch.tensor([[1]]), -1], [0, -1, 1, -1], None),
        (["b", None, "a", -1, "", "-1", "a"], [1, -1, 0, -1, -1, -1, 0], ("a", "b")),
        ([None, None], [-1, -1], None),
        ([0, 999], [0, 999], None),
    ],
)
def test_classes_of_lists_may_be_unknown(labels, classes, names):
    graphs = of_pyg(len(labels))
    for graph, label in zip(graphs, labels, strict=True):
        graph.pop("y") if label is None else graph.update(y=label)
    data = Dataset.from_pyg(graphs)
    assert data.y.tolist() == classes and data.labels == names


@pytest.mark.parametrize(
    ("label", "said"),
    [
        (torch.tensor([[1, 0, 1]]), "`y` has 1 or 3 values in different graphs; write as many"),
        (torch.tensor([], dtype=int), r"`y` has the shape \(0,\)"),
        (10**9, "holds 1000000000 at graph 2; number the classes 0, 1, 2"),
        (-2, "holds -2 at graph 2"),
        ([0, 1], "`y` has 1 or 2 values in different graphs"),
        (True, "of the type bool, int; write a class for each"),
    ],
)
def test_what_is_no_class_of_a_graph_is_said(label, said):
    with pytest.raises(ZooError, match=said):
        Dataset.from_pyg([*of_pyg(2), *of_pyg(1, y=label)])


def test_edge_data_that_is_not_read_is_said_once(caplog):
    graphs = of_pyg(edge_weight=torch.ones(2))
    assert Dataset.from_pyg(graphs).edge_dim == 0
    [said] = caplog.messages
    assert "have edge_attr and edge_weight, not read; `edge_features: edge_attr` makes" in said
    caplog.clear()
    assert Dataset.from_pyg(graphs, edge_features="edge_attr, edge_weight").edge_dim == 2
    assert not caplog.messages


def test_sets_without_edges(tmp_path):
    bare = dict.fromkeys(("A", "edge_labels", "edge_attributes"), "")
    data = load_data(str(write(tmp_path / "TINY", **bare)))
    assert data.graphs.sizes.tolist() == [3, 2, 1] and data.edge_dim == 0
    assert data.batch(torch.tensor([0, 1, 2]))[0].num_edges() == 6  # self-loops alone


def test_empty_graphs_are_named():
    none = {"edge_index": torch.zeros(2, 0, dtype=int), "x": torch.zeros(0, 2)}
    for place in (0, 3, 6):
        graphs = of_pyg()
        graphs.insert(place, {**none, "edge_attr": torch.zeros(0, 1), "y": 0})
        with pytest.raises(ZooError, match=rf"graph {place + 1} has no nodes \(1 such\)"):
            Dataset.from_pyg(graphs)


def test_from_check_to_predictions_by_commands(zoo, tmp_path):
    rng = np.random.default_rng(0)
    parts = {"A": [], "graph_indicator": [], "graph_labels": []}
    for graph in range(40):  # rings, and stars
        first, size, label = len(parts["graph_indicator"]), int(rng.integers(4, 9)), graph % 2
        own = range(first + 1, first + 1 + size)
        ring, star = zip(own, [*own[1:], own[0]], strict=True), ((own[0], b) for b in own[1:])
        parts["A"] += [f"{a}, {b}" for a, b in (ring if label else star)]
        parts["graph_indicator"] += [str(graph + 1)] * size
        parts["graph_labels"].append(str(label))
    texts = {key: "\n".join(lines) + "\n" for key, lines in parts.items()}
    write(tmp_path / "RINGS", **{**dict.fromkeys(FILES), **texts})
    code, said = zoo("data", "check", "RINGS")
    assert code == 0 and "40 samples" in said.out
    train = {"epochs": 30, "lr": 0.01, "batching": {"name": "samples", "size": 8}}
    recipe = {"dataset": "RINGS", "model": {"name": "gine", "dim": 8}, "train": train, "seeds": [0]}
    (tmp_path / "rings.yaml").write_text(json.dumps(recipe))
    assert zoo("train", "rings.yaml", "--quiet")[0] == 0
    [run] = (tmp_path / "runs").glob("rings-*")
    assert json.loads((run / "summary.json").read_text())["test"]["mean"] == 1
    code, said = zoo("predict", run, "--data", "RINGS", "--out", "said.csv")
    assert code == 0 and len((tmp_path / "said.csv").read_text().splitlines()) == 41
    write(tmp_path / "NEW", **{**dict.fromkeys(FILES), **texts, "graph_labels": None})
    code, said = zoo("predict", run, "--data", "NEW", "--out", "new.csv")
    assert code == 0, said.err
    said, new = (pandas.read_csv(tmp_path / name) for name in ("said.csv", "new.csv"))
    assert new.equals(said.drop(columns="known"))
    code, said = zoo("evaluate", run, "--data", "NEW")
    assert code == 2 and "no TINY_graph_labels.txt" in said.err
    assert zoo("evaluate", run)[0] == 0


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A server with MUTAG.zip, whose texts lie in a folder."""
    place = tmp_path / "web"
    write(tmp_path / "MUTAG")
    place.mkdir()
    with zipfile.ZipFile(place / "MUTAG.zip", "w") as archive:
        for path in (tmp_path / "MUTAG").iterdir():
            archive.write(path, f"MUTAG/{path.name.replace('TINY', 'MUTAG')}")
        archive.writestr("MUTAG/../../README.txt", "not this one")

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *given):
            super().__init__(*given, directory=place)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
        monkeypatch.delenv("ZOO_OFFLINE")
        monkeypatch.setattr(downloading, "RETRIES", 0)
        monkeypatch.setattr(named, "SETS", f"http://127.0.0.1:{server.server_port}")
        yield place
        server.shutdown()


def test_a_named_set_is_downloaded_once(published, tmp_path):
    assert load_data("mutag").graphs.sizes.tolist() == [3, 2, 1]
    (published / "MUTAG.zip").unlink()
    assert load_data({"name": "mutag", "edge_features": "ignore"}).edge_dim == 0
    held = [each.name for each in (tmp_path / "data").rglob("*.txt")]
    assert len(held) == 7 and "README.txt" not in held


def test_where_it_cannot_be_downloaded_it_is_said_what_to_put_where(published, tmp_path):
    (published / "MUTAG.zip").write_bytes(b"no archive")
    with pytest.raises(ZooError, match="no archive.*Put the files of .*MUTAG.zip.*ZOO_DATA"):
        load_data("mutag")
    assert list((tmp_path / "data").iterdir()) == []
    with pytest.raises(ZooError, match="404.*PROTEINS_A.txt"):
        load_data("proteins")


def test_an_archive_that_is_encrypted_is_answered(published, tmp_path):
    path = published / "MUTAG.zip"
    raw = path.read_bytes()
    central = raw.index(b"PK\x01\x02")
    locked = bytearray(raw)
    locked[6] |= 1  # the flags of the first file, in both places
    locked[central + 8] |= 1
    path.write_bytes(locked)
    with pytest.raises(ZooError, match="no archive.*encrypted.*Put the files of .*MUTAG.zip"):
        load_data("mutag")
    assert list((tmp_path / "data").iterdir()) == []


def test_mutag():
    """188 molecules, with the labels of their nodes, as the collection has them."""
    if not any((folder / "MUTAG").is_dir() for folder in data_folders()):
        pytest.skip("MUTAG is in no data folder")
    data = zoo.load_data("mutag")
    assert (len(data.y), len(data.x), data.inputs, data.classes) == (188, 3371, 7, 2)
    assert sum(each.num_edges() for each in data.graphs.graphs) - len(data.x) == 7442


@pytest.mark.parametrize("direction", ["both", "in", "separate"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [None, "canonical", "undirected"])
def test_graphs_together_are_those_one_by_one(direction, weighted, form):
    """The naive twin makes each graph canonical by itself."""
    rng = np.random.default_rng(0)
    sizes = np.array([3, 1, 6, 4, 5])
    starts = np.cumsum(sizes) - sizes
    owners, edges = np.repeat(np.arange(5), sizes), []
    for start, size in zip(starts, sizes, strict=True):
        edges.append(start + rng.integers(size, size=(2 * size, 2)))  # some twice, and loops
    edges = rng.permutation(np.concatenate(edges))
    forms = None if form is None else (form, None, form, None, form)
    arrays = GraphSetArrays(
        edges, owners, np.zeros((19, 0), np.float32), np.zeros(5, np.int64), forms=forms,
        edge_features=rng.normal(size=(len(edges), 2)).astype(np.float32) if weighted else None,
        weights=rng.random(len(edges)).astype(np.float32) if weighted else None,
    )  # fmt: skip
    for number, graph in enumerate(graphs_of(arrays, "mean", direction)):
        rows = owners[edges[:, 0]] == number
        alone = GraphArrays(
            edges[rows] - starts[number], np.full(sizes[number], -1), np.zeros((sizes[number], 0)),
            weights=arrays.weights[rows] if weighted else None,
            edge_features=arrays.edge_features[rows] if weighted else None,
            form=forms and forms[number],
        )  # fmt: skip
        twin = graph_of(alone, "mean", direction, "together")
        assert graph.num_nodes() == twin.num_nodes()
        for ends, wanted in zip(graph.edges(), twin.edges(), strict=True):
            assert torch.equal(ends, wanted)
        assert {*graph.edata} == {*twin.edata}
        assert all(torch.equal(graph.edata[key], twin.edata[key]) for key in twin.edata)
