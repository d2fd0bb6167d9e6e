"""Graphs of one's own: what a file says is what is trained on, whatever kind of file it is."""

import json

import networkx
import numpy as np
import pandas
import pyarrow
import pytest
import torch
from needs_dgl import needs_dgl
from pyarrow import parquet
from scipy import io, sparse

from zoo import Dataset, ZooError, load_graph
from zoo.canonical_form import WEIGHT
from zoo.data.files.prepared import write_prepared
from zoo.data.load import read_graph
from zoo.data.load.check import check
from zoo.dgl import dgl
from zoo.runs.run import run_recipe

EDGES = [("ann", "bob"), ("bob", "cid"), ("cid", "dan"), ("dan", "eve"), ("eve", "ann")]
IDS = ["ann", "bob", "cid", "dan", "eve"]
PLACES = [(IDS.index(a), IDS.index(b)) for a, b in EDGES]
NODES = pandas.DataFrame(
    {
        "id": IDS,
        "age": [31, 25, 44, 19, 60],
        "score": [0.5, 0.25, 1.5, -2.0, 0.0],
        "label": ["dog", "cat", None, "dog", "ant"],
    }
)
X = NODES[["age", "score"]].to_numpy(np.float32)
Y = [2, 1, -1, 2, 0]


def pairs(data):
    source, target = data.graph.edges()
    return {(a, b) for a, b in zip(source.tolist(), target.tolist(), strict=True) if a != b}


BOTH = {*PLACES, *((b, a) for a, b in PLACES)}


def is_the_graph(data, names=True, ids=True):
    assert pairs(data) == BOTH
    assert np.array_equal(data.x.numpy(), X)
    assert data.y.tolist() == Y
    assert data.task == "node-classification" and data.split == "ratio-60-20-20"
    assert data.classes == 3
    if names:
        assert data.labels == ("ant", "cat", "dog") and data.feature_names == ("age", "score")
    if ids:
        assert data.ids.tolist() == IDS


def write_tables(folder, suffix=".csv", nodes=NODES, edges=EDGES):
    folder.mkdir(exist_ok=True)
    table = pandas.DataFrame(edges, columns=["source", "target"])
    for name, each in (("nodes", nodes), ("edges", table)):
        if suffix == ".parquet":
            each.to_parquet(folder / f"{name}.parquet")
        else:
            each.to_csv(
                folder / f"{name}{suffix}", index=False, sep="\t" if suffix == ".tsv" else ","
            )
    return folder


# Tables


RAW = {"numbers": "raw"}  # cells as they stand


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_a_folder_of_tables(suffix, tmp_path):
    folder = write_tables(tmp_path / "mine", suffix)
    data = load_graph(folder, **RAW)
    is_the_graph(data)
    assert data.name == "mine"
    nodes, edges = folder / f"nodes{suffix}", folder / f"edges{suffix}"
    is_the_graph(load_graph({"name": str(nodes), "edges": str(edges), **RAW}))


def test_every_header_may_have_another_name(tmp_path):
    nodes = NODES.rename(columns={"id": "who", "label": "kind"})
    nodes["part"] = ["train", "train", "", "val", "test"]
    nodes["town"] = ["Rome", "Oslo", "Rome", "", "Oslo"]
    nodes.to_csv(tmp_path / "people.csv", index=False, sep=";")
    edges = pandas.DataFrame(EDGES, columns=["from", "to"]).assign(years=3)
    edges.to_csv(tmp_path / "friends.csv", index=False, sep=";")
    spec = {"name": str(tmp_path / "people.csv"), "edges": str(tmp_path / "friends.csv"),
            "separator": ";", "id": "who", "label": "kind", "split_column": "part",
            "source": "from", "target": "to", "weights": "ignore", **RAW}  # fmt: skip
    data = load_graph({**spec, "columns": ["score", "age"]})
    assert np.array_equal(data.x.numpy(), X[:, ::-1]) and data.feature_names == ("score", "age")
    assert data.y.tolist() == Y and data.split == "benchmark"
    assert {part: mask.int().tolist() for part, mask in data.masks.items()} == {
        "train": [[1, 1, 0, 0, 0]],
        "val": [[0, 0, 0, 1, 0]],
        "test": [[0, 0, 0, 0, 1]],
    }
    data = load_graph({**spec, "one_hot": ["town"]})
    assert data.feature_names == ("age", "score", "town=Oslo", "town=Rome")
    told = {"columns": ["score"], "vectors": "age", "one_hot": ["town"]}  # as named, kind by kind
    assert load_graph({**spec, **told}).feature_names == (
        "score", "town=Oslo", "town=Rome", "age[0]"
    )  # fmt: skip
    assert data.x[:, 2:].tolist() == [[0, 1], [1, 0], [0, 1], [0, 0], [1, 0]]
    with pytest.raises(ZooError, match="'town' holds 'Rome'.*one_hot.*town"):
        load_graph(spec)
    with pytest.raises(ZooError, match="'years'.*weights: ignore"):
        load_graph({**spec, "weights": None, "columns": ["age"]})


def test_a_label_is_no_feature(tmp_path):
    folder = write_tables(tmp_path / "mine")
    for options in ({"one_hot": "label"}, {"text": ["label"]}, {"columns": ["age", "label"]}):
        with pytest.raises(ZooError, match="'label' is the label, and would be a feature"):
            load_graph({"name": str(folder), **options})


def test_fractions_with_a_comma(tmp_path):
    folder, edges = tmp_path / "mine", pandas.DataFrame(EDGES, columns=["source", "target"])
    folder.mkdir()
    NODES.to_csv(folder / "nodes.csv", index=False, sep=";", decimal=",")
    edges.assign(weight=0.5).to_csv(folder / "edges.csv", index=False, sep=";", decimal=",")
    assert "0,5" in (folder / "edges.csv").read_text()
    spec = {"name": str(folder), "separator": ";", **RAW}
    is_the_graph(load_graph({**spec, "decimal": "comma", "weights": "ignore"}))
    weighted = load_graph({**spec, "decimal": "comma", "weight": "weight"}).graph
    assert 0.5 in weighted.edata[WEIGHT].tolist()
    with pytest.raises(ZooError, match="write `decimal: comma`"):
        load_graph(spec)
    NODES.assign(age="1.234").to_csv(folder / "nodes.csv", index=False, sep=";", decimal=",")
    with pytest.raises(ZooError, match="'age'"):  # no thousand is taken for a fraction
        load_graph({**spec, "decimal": "comma", "weights": "ignore"})


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (["1", "2", "3", "4", "5"], [1, 2, 3, 4, 5]),
        (["-7", "0", "9000000000000000000", "4", "5"], [-7, 0, 9 * 10**18, 4, 5]),
        (["007", "7", "8", "9", "10"], ["007", "7", "8", "9", "10"]),
        (["NA", "nan", "é, è", "a b", "1.0"], ["NA", "nan", "é, è", "a b", "1.0"]),
        (["9" * 40, "8", "7", "6", "5"], ["9" * 40, "8", "7", "6", "5"]),
    ],
    ids=["numbers", "far numbers", "leading zeros", "odd text", "too long for a number"],
)
def test_ids_are_kept_as_they_are_written(written, kept, tmp_path):
    names = dict(zip(IDS, written, strict=True))
    edges = [(names[a], names[b]) for a, b in EDGES]
    for suffix in (".csv", ".parquet"):
        folder = write_tables(tmp_path / "mine", suffix, NODES.assign(id=written), edges)
        data = load_graph(folder)
        assert data.ids.tolist() == kept and pairs(data) == BOTH
        for each in folder.iterdir():
            each.unlink()


@pytest.mark.parametrize(
    ("column", "unknown", "y", "names"),
    [
        (["10", "9", "", "10", "2"], None, [2, 1, -1, 2, 0], ("2", "9", "10")),
        (["1.0", "0.0", "", "1.0", "0.0"], None, [1, 0, -1, 1, 0], ("0.0", "1.0")),
        (["1", "-1", "1", "-1", "1"], "", [1, 0, 1, 0, 1], ("-1", "1")),
        (["1", "-1", "0", "0", "1"], -1, [1, -1, 0, 0, 1], ("0", "1")),
        (["NA", "EU", "", "NA", "AS"], "", [2, 1, -1, 2, 0], ("AS", "EU", "NA")),
        (["b", "b", "a", "?", "?"], "?", [1, 1, 0, -1, -1], ("a", "b")),
        (["b", " ", "a", "  ", "b"], None, [1, -1, 0, -1, 1], ("a", "b")),
        (["1.0", " -1", "-1.0", "0.0", "-1"], -1, [1, -1, -1, 0, -1], ("0.0", "1.0")),
    ],
)
def test_classes_are_numbered_in_the_order_of_their_names(column, unknown, y, names, tmp_path):
    folder = write_tables(tmp_path / "mine", nodes=NODES.assign(label=column))
    data = load_graph(folder, unknown=unknown)
    assert data.y.tolist() == y and data.labels == names and data.classes == len(names)


@pytest.mark.parametrize("word", ["-1", "-1.0", " -1", "NA", "nan ", "?"])
def test_what_may_mean_unknown_is_asked_about(word, tmp_path):
    folder = write_tables(tmp_path / "mine", nodes=NODES.assign(label=["a", "b", word, "a", "b"]))
    with pytest.raises(ZooError, match="unknown: "):
        load_graph(folder)


@pytest.mark.parametrize("option", ["id", "label", "split_column", "columns"])
def test_a_column_that_is_named_is_there_without_edges_too(option, tmp_path):
    NODES.drop(columns="id").to_csv(tmp_path / "g.csv", index=False)
    assert load_graph(tmp_path / "g.csv").ids is None
    with pytest.raises(ZooError, match=f"no column 'usr'; it has 'age'.*`{option}: COLUMN`"):
        load_graph(tmp_path / "g.csv", **{option: "usr"})


@pytest.mark.parametrize(
    "text,options,names",
    [
        ("0,1,label\n5,6,a\n7,8,b\n", {}, ("0", "1")),
        (",0,1,2\n0,5,6,1\n1,7,8,0\n", {"label": "2"}, ("0", "1")),
        ("1,2,3\n5,6,1\n7,8,0\n", {}, ("1", "2", "3")),
        ("source,target\n5,1\n7,0\n", {"label": "target"}, ("source",)),
    ],
)
def test_numbers_may_be_names_and_an_end_a_label(text, options, names, tmp_path):
    (tmp_path / "own.csv").write_text(text)
    data = load_graph(str(tmp_path / "own.csv"), **options)
    assert len(data.x) == 2 and data.feature_names == names


def test_numbers_to_predict(tmp_path):
    folder = write_tables(tmp_path / "mine", nodes=NODES.assign(label=[1.5, -1, None, 3, 0.25]))
    with pytest.raises(ZooError, match="such as 0.25.*node-regression"):
        load_graph(folder)
    data = load_graph(folder, task="node-regression")
    assert data.y.dtype == torch.float32 and data.classes == 1 and data.metric == "r2"
    assert np.array_equal(data.y, [1.5, -1, np.nan, 3, 0.25], equal_nan=True)
    many = load_graph(folder, task="node-regression", label=["label", "score"])
    assert many.y.shape == (5, 2) and many.classes == 2 and many.feature_names == ("age",)
    assert np.array_equal(many.y[:, 1], X[:, 1])


def test_several_columns_of_yes_and_no(tmp_path):
    nodes = NODES.drop(columns="label").assign(a=[1, 0, 1, 0, 1], b=[0, 0, "", 1, 1])
    data = load_graph(write_tables(tmp_path / "mine", nodes=nodes), label=["a", "b"])
    assert data.task == "node-multilabel" and data.feature_names == ("age", "score")
    assert data.labels == ("a", "b")
    wanted = [[1, 0], [0, 0], [1, np.nan], [0, 1], [1, 1]]
    assert np.array_equal(data.y, wanted, equal_nan=True)


def test_a_graph_without_labels_is_read_but_not_trained_on(tmp_path):
    data = load_graph(write_tables(tmp_path / "mine", nodes=NODES.drop(columns="label")))
    assert data.y.tolist() == [-1] * 5 and data.labels is None and data.ids.tolist() == IDS
    with pytest.raises(ZooError, match="none of the nodes.*label: COLUMN"):
        run_recipe({"dataset": str(tmp_path / "mine"), "model": "gcn"}, runs=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_columns_of_parquet_that_csv_has_not(tmp_path):
    nodes = NODES.drop(columns=["age", "score"]).assign(
        vector=[[float(each), 1.0] for each in range(5)],
        flag=[True, False, True, False, True],
        label=pandas.Categorical(NODES["label"]),
    )
    nodes = nodes[nodes["id"] != "nobody"].sort_values("id", ascending=False)
    data = load_graph(write_tables(tmp_path / "mine", ".parquet", nodes), **RAW)
    assert data.feature_names == ("vector[0]", "vector[1]", "flag")  # and not pandas' own index
    assert data.x.tolist() == [[4 - each, 1, each % 2 == 0] for each in range(5)]
    assert data.labels == ("ant", "cat", "dog") and data.ids.tolist() == IDS[::-1]


@pytest.mark.parametrize("text", ["large_string", "string_view"])
def test_parquet_as_polars_writes_it(text, tmp_path):
    if not hasattr(pyarrow, text):
        pytest.skip(f"this PyArrow has no {text}")
    text = getattr(pyarrow, text)()
    lists = pyarrow.array(X.tolist(), pyarrow.large_list(pyarrow.float32()))
    labels = pyarrow.array(NODES["label"], text, from_pandas=True)
    rows = {"id": pyarrow.array(IDS, text), "v": lists, "label": labels}
    edges = {"source": pyarrow.array([a for a, _ in EDGES], text), "target": [b for _, b in EDGES]}
    parquet.write_table(pyarrow.table(rows), tmp_path / "nodes.parquet")
    parquet.write_table(pyarrow.table(edges), tmp_path / "edges.parquet")
    for told in ({}, {"vectors": "v"}):
        data = load_graph(tmp_path, **told, **RAW)
        is_the_graph(data, names=False)
        assert data.feature_names == ("v[0]", "v[1]") and data.labels == ("ant", "cat", "dog")
    words = pyarrow.array([["a", "b"]] * 5, pyarrow.large_list(pyarrow.string()))
    parquet.write_table(pyarrow.table({**rows, "v": words}), tmp_path / "nodes.parquet")
    with pytest.raises(ZooError, match="'v' is of type large_list.*no numbers"):
        load_graph(tmp_path, vectors="v")


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_line_ends_of_other_systems(end, tmp_path):
    for path in write_tables(tmp_path / "mine").iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", end.encode()))
    is_the_graph(load_graph(tmp_path / "mine", **RAW))


# Files of other programs


def tensors():
    masks = {
        f"{part}_mask": torch.arange(5) == at for at, part in enumerate(["train", "val", "test"])
    }
    return {"x": torch.tensor(X), "y": torch.tensor(Y), **masks}


def attributed(kind=networkx.Graph):
    graph = kind()
    for name, age, score, label in NODES.itertuples(index=False):
        known = {"kind": label} if isinstance(label, str) else {}
        graph.add_node(name, age=age, score=score, **known)
    graph.add_edges_from(EDGES)
    return graph


def matrix():
    return sparse.coo_array((np.ones(5), np.array(PLACES).T), shape=(5, 5))


@needs_dgl
def test_dgl(tmp_path):
    graph = dgl.graph(tuple(np.array(PLACES).T), num_nodes=5)
    given = tensors()
    graph.ndata.update({"feat": given["x"], "label": given["y"][:, None]})
    dgl.save_graphs(str(tmp_path / "mine.bin"), [graph])
    is_the_graph(load_graph(tmp_path / "mine.bin"), names=False, ids=False)
    is_the_graph(Dataset.from_dgl(graph), names=False, ids=False)
    graph.ndata["other"] = graph.ndata.pop("feat")
    graph.edata["w"] = torch.ones(5)
    with pytest.raises(ZooError, match="'w'.*weights: ignore"):
        Dataset.from_dgl(graph)
    with pytest.raises(ZooError, match="'other'.*feature: NAME"):
        Dataset.from_dgl(graph, weights="ignore")
    is_the_graph(Dataset.from_dgl(graph, feature="other", weights="ignore"), names=False, ids=False)


def test_pyg(tmp_path):
    path = tmp_path / "mine.pt"
    given = {"edge_index": torch.tensor(PLACES).T, **tensors(), "num_nodes": 5}
    torch.save(given, path)
    data = load_graph(path)
    assert data.split == "benchmark" and data.masks["val"].tolist() == [[False, True] + [False] * 3]
    assert pairs(data) == BOTH and data.y.tolist() == Y and np.array_equal(data.x, X)
    torch.save({**given, "edge_attr": torch.ones(5, 2)}, path)
    with pytest.raises(ZooError, match="edge_attr.*weights: ignore"):
        load_graph(path)
    assert pairs(load_graph(path, weights="ignore")) == BOTH


@pytest.mark.parametrize("kind", [networkx.Graph, networkx.DiGraph, networkx.MultiGraph])
def test_networkx(kind, tmp_path):
    graph = attributed(kind)
    is_the_graph(Dataset.from_networkx(graph, label="kind", **RAW))
    networkx.write_graphml(graph, tmp_path / "mine.graphml")
    is_the_graph(load_graph(tmp_path / "mine.graphml", label="kind", **RAW))
    networkx.write_gml(graph, tmp_path / "mine.gml")
    is_the_graph(load_graph(tmp_path / "mine.gml", label="kind", **RAW))
    with pytest.raises(ZooError, match="kind.*one_hot"):
        load_graph(tmp_path / "mine.gml")
    networkx.set_edge_attributes(graph, 0.5, "closeness")
    with pytest.raises(ZooError, match="'closeness'.*weights: ignore"):
        Dataset.from_networkx(graph, label="kind")


def test_scalars_of_numpy_and_nodes_of_any_kind_in_networkx():
    graph = networkx.Graph([((0, 1), (0, 1, 2)), ("a", (0, 1)), (2, 2.5)])
    for place, node in enumerate(graph):
        graph.nodes[node].update(age=np.float32(place), old=np.bool_(place > 2), n=np.int64(place))
        graph.nodes[node]["label"] = np.str_("ab"[place % 2])
    data = Dataset.from_networkx(graph, **RAW)
    assert data.ids.tolist() == ["(0, 1)", "(0, 1, 2)", "a", "2", "2.5"]
    assert data.feature_names == ("age", "n", "old") and data.labels == ("a", "b")
    assert data.x.tolist() == [[place, place, place > 2] for place in range(5)]
    assert Dataset.from_networkx(networkx.path_graph(3)).ids.tolist() == [0, 1, 2]


def test_matrices(tmp_path):
    NODES.drop(columns="id").to_csv(tmp_path / "nodes.csv", index=False)
    sparse.save_npz(tmp_path / "mine.npz", matrix().tocsc())
    io.mmwrite(tmp_path / "mine.mtx", matrix())
    for name in ("mine.npz", "mine.mtx"):
        bare = load_graph(tmp_path / name)
        assert pairs(bare) == BOTH and bare.x.shape == (5, 0) and bare.y.tolist() == [-1] * 5
        told = {"nodes": str(tmp_path / "nodes.csv"), **RAW}
        is_the_graph(load_graph(tmp_path / name, **told), ids=False)
    sparse.save_npz(tmp_path / "mine.npz", (matrix() * 0.5).tocsr())
    with pytest.raises(ZooError, match="weights: ignore"):
        load_graph(tmp_path / "mine.npz")
    assert pairs(load_graph(tmp_path / "mine.npz", weights="ignore")) == BOTH
    is_the_graph(Dataset.from_scipy(matrix(), X, NODES["label"].fillna("")), names=False, ids=False)
    for dense in (
        matrix().toarray(),
        torch.tensor(matrix().toarray()),
        matrix().toarray().tolist(),
    ):
        is_the_graph(Dataset.from_scipy(dense, X, Y), names=False, ids=False)
    for wrong in (np.ones(5), np.ones((5, 4)), "mine.npz"):
        with pytest.raises(ZooError, match="the matrix is .*row and a column per node"):
            Dataset.from_scipy(wrong, X, Y)


@needs_dgl
@pytest.mark.parametrize("task", ["node-regression", "node-binary"])
def test_without_labels_none_is_known(task, tmp_path):
    pyg, given = (
        {"edge_index": torch.tensor(PLACES).T, "num_nodes": 5},
        tuple(torch.tensor(PLACES).T),
    )
    torch.save(pyg, tmp_path / "mine.pt")
    dgl.save_graphs(str(tmp_path / "mine.bin"), [dgl.graph(given, num_nodes=5)])
    sparse.save_npz(tmp_path / "mine.npz", matrix().tocsc())
    io.mmwrite(tmp_path / "mine.mtx", matrix())
    found = [load_graph(each, task=task) for each in tmp_path.iterdir()]
    found += [Dataset.from_pyg(pyg, task=task), Dataset.from_scipy(matrix(), task=task)]
    for data in found:
        known = ~data.y.isnan() if task == "node-regression" else data.y >= 0
        assert len(known) == 5 and not known.any()


SYMMETRIC = """%%MatrixMarket matrix coordinate real symmetric
3 3 4
1 1 5
2 1 2
3 1 7
3 2 3
"""


def undirected(folder):
    """The same graph, each edge without direction and once, in all that says so."""
    (folder / "mine.mtx").write_text(SYMMETRIC)
    graph = networkx.Graph()
    for a, b, weight in ((0, 0, 5.0), (1, 0, 2.0), (0, 2, 7.0), (2, 1, 3.0)):
        graph.add_edge(a, b, w=weight, f=weight)
    networkx.write_graphml(graph, folder / "mine.graphml")
    networkx.write_gml(graph, folder / "mine.gml")
    named = {"weight": "w", "edge_features": "f"}
    write_prepared(read_graph({"name": str(folder / "mine.gml"), **named}), folder / "mine.npz")
    yield lambda **how: Dataset.from_networkx(graph, **named, **how)
    yield lambda **how: Dataset.from_networkx(networkx.MultiGraph(graph), **named, **how)
    for name in ("mine.graphml", "mine.gml"):
        yield lambda name=name, **how: load_graph(folder / name, **named, **how)
    yield lambda **how: load_graph(folder / "mine.npz", **how)
    yield lambda **how: load_graph(folder / "mine.mtx", weights="use", **how)


def test_a_check_says_that_edges_have_no_direction(tmp_path):
    assert len([*undirected(tmp_path)]) == 6
    for name in ("mine.mtx", "mine.npz", "mine.gml"):
        found = check(read_graph({"name": str(tmp_path / name), "weights": "ignore"}))
        [said] = [each.found for each in found if each.name == "direction"]
        assert said == "edges have none: all lead both ways"


@pytest.mark.parametrize("duplicates", ["mean", "sum"])
@pytest.mark.parametrize("direction", ["both", "in", "out", "separate"])
def test_an_edge_without_direction_leads_both_ways(direction, duplicates, tmp_path):
    wanted = torch.tensor([[5, 2, 7], [2, 1, 3], [7, 3, 1.0]])  # one has a loop of its own
    if direction == "separate":
        wanted = torch.stack([wanted, wanted], dim=-1)
    for read in undirected(tmp_path):
        data = read(direction=direction, duplicates=duplicates)
        places = data.ids.astype(int) if data.ids is not None else np.arange(3)
        found = torch.zeros_like(wanted)
        source, target = (places[each] for each in data.graph.edges())
        found[source, target] = data.graph.edata["weight"]
        assert torch.equal(found, wanted)
        if data.edge_dim:
            features = torch.zeros(3, 3)
            features[source, target] = data.graph.edata["feature"][:, 0]
            assert torch.equal(features, torch.tensor([[5, 2, 7], [2, 0, 3], [7, 3, 0.0]]))


def test_the_other_half_of_a_matrix_may_have_the_other_sign(tmp_path):
    path = tmp_path / "mine.mtx"
    skew = SYMMETRIC.replace("symmetric", "skew-symmetric").replace("3 3 4\n1 1 5", "3 3 3")
    path.write_text(skew)
    found = load_graph(path, weights="ignore", direction="in").graph.edata["weight"]
    assert found.tolist() == [1] * 9
    with pytest.raises(ZooError, match="is -2 at row"):
        load_graph(path, weights="use")
    path.write_text(SYMMETRIC.replace("symmetric", "lower"))
    with pytest.raises(ZooError, match="general, symmetric"):
        load_graph(path, weights="use")


def test_arrays():
    labels = ["dog", "cat", "", "dog", "ant"]
    data = Dataset.from_arrays(EDGES, X, labels, ids=IDS, feature_names=["age", "score"])
    is_the_graph(data)
    is_the_graph(Dataset.from_arrays(torch.tensor(PLACES), sparse.csr_array(X), torch.tensor(Y)),
                 names=False, ids=False)  # fmt: skip
    assert Dataset.from_arrays([], ids=["a", "b"]).x.shape == (2, 0)
    wrong = [
        ({"edges": [("ann", "zoe")], "features": X, "ids": IDS}, "'zoe'"),
        ({"edges": PLACES, "features": X, "labels": Y[:4]}, "5 rows"),
        ({"edges": PLACES}, "how many nodes"),
        ({"edges": PLACES, "features": X, "ids": ["a"] * 5}, "several nodes"),
        ({"edges": PLACES, "features": X, "feature_names": ["age"]}, "feature_names"),
        ({"edges": PLACES, "features": X, "feature_names": ["age", "age"]}, "'age' twice"),
        ({"edges": PLACES, "features": [["x", "y"]] * 5}, "`features`"),
        ({"edges": PLACES, "labels": Y, "task": "node-binary"}, "node-binary"),
    ]
    for options, words in wrong:
        with pytest.raises(ZooError, match=words):
            Dataset.from_arrays(**options)


@pytest.mark.filterwarnings("error")
def test_tables_of_pandas_have_names_and_are_copied():
    table = pandas.DataFrame(X, columns=["age", "score"], dtype=np.float32)
    given = {
        "weights": pandas.Series([1.0, 2]),
        "edge_features": pandas.DataFrame({"km": [1.0, 2]}),
    }
    data = Dataset.from_arrays(PLACES[:2], table, pandas.Series(Y), **given)
    assert data.feature_names == ("age", "score") and data.y.tolist() == list(Y)
    data.x[0], data.y[0] = 7, 1
    assert table.iloc[0].tolist() == [31, 0.5]
    named = Dataset.from_arrays(PLACES, table, feature_names=["a", "b"])
    assert named.feature_names == ("a", "b")
    numbered = table.set_axis([0, 1], axis=1)
    assert Dataset.from_arrays(PLACES, numbered).feature_names is None
    twice = table.set_axis(["age", "age"], axis=1)
    with pytest.raises(ZooError, match="`feature_names` has 'age' twice"):
        Dataset.from_arrays(PLACES, twice)


@pytest.mark.parametrize(
    "labels",
    [
        pandas.Series(["dog", "cat", np.nan, "dog", "ant"]),
        pandas.Series(["dog", "cat", None, "dog", "ant"]).astype("category"),
        pandas.Series(["dog", "cat", pandas.NA, "dog", "ant"], dtype="string"),
        np.array(["dog", "cat", pandas.NaT, "dog", "ant"], object),
        np.array(["dog", "cat", -1, "dog", "ant"], object),
        np.array(["dog", "cat", "-1", "dog", "ant"]),
        ["dog", "cat", float("nan"), "dog", "ant"],
        ["dog", "cat", " ", "dog", "ant"],
    ],
    ids=["NaN", "categories", "NA", "NaT", "-1", "text -1", "a list", "blank"],
)
def test_what_is_missing_among_labels_is_no_class(labels):
    is_the_graph(Dataset.from_arrays(EDGES, X, labels, ids=IDS, feature_names=["age", "score"]))


def test_a_number_to_predict_may_be_minus_one():
    data = Dataset.from_arrays(PLACES, X, np.array([1.5, -1, None, "-1", 2], object),
                               task="node-regression")  # fmt: skip
    assert np.array_equal(data.y, [1.5, -1, np.nan, -1, 2], equal_nan=True)


# What becomes of it


def test_names_survive_preparing(tmp_path):
    parts = read_graph({"name": str(write_tables(tmp_path / "mine")), **RAW})
    write_prepared(parts, tmp_path / "kept.npz")
    is_the_graph(load_graph(tmp_path / "kept.npz"))
    numbers = NODES.assign(label=[1.5, -1, None, 3, 0.25])
    parts = read_graph({"name": str(write_tables(tmp_path / "mine", nodes=numbers)),
                        "task": "node-regression"})  # fmt: skip
    write_prepared(parts, tmp_path / "kept.npz")
    data = load_graph(tmp_path / "kept.npz")
    assert data.task == "node-regression" and data.y[3] == 3


def test_an_encoding_has_names_too(tmp_path):
    data = load_graph(write_tables(tmp_path / "mine")).add_features(torch.zeros(5, 2))
    assert data.feature_names == ("age", "score", "encoding 0", "encoding 1")


def friends(folder, nodes=60):
    """Two groups of friends with a score that is the mean of the neighbours' ages."""
    random = np.random.default_rng(0)
    group = np.arange(nodes) % 2
    ends = np.array([(a, b) for a in range(nodes) for b in range(a)
                     if random.random() < (0.2 if group[a] == group[b] else 0.02)])  # fmt: skip
    age = random.normal(size=nodes) + group
    adjacency = np.eye(nodes)
    adjacency[ends[:, 0], ends[:, 1]] = adjacency[ends[:, 1], ends[:, 0]] = 1
    mean = adjacency @ age / adjacency.sum(1)
    names = np.array([f"node {each}" for each in range(nodes)])
    table = pandas.DataFrame({"id": names, "age": age, "mean": mean,
                              "label": np.array(["red", "blue"])[group]})  # fmt: skip
    return write_tables(folder, nodes=table, edges=names[ends])


def test_a_shipped_recipe_trains_on_it_by_one_override(tmp_path, monkeypatch):
    from zoo.runs.resolve import load_recipe, write_out

    friends(tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    recipe = load_recipe("sgformer-cora", ["dataset=mine", "train.epochs=30", "seeds=[0]"])
    assert recipe.expect is None, "what Cora should reach says nothing of another graph"
    assert load_recipe("sgformer-cora", ["dataset.split=ratio-60-20-20"]).expect is not None
    summary = run_recipe(recipe)
    assert summary["dataset"] == "mine" and summary["test"]["mean"] > 0.7
    written = load_recipe(f"{summary['folder']}/recipe.yaml")
    assert write_out(written)["dataset"] == write_out(recipe)["dataset"]
    assert write_out(written)["dataset"]["split"] == "ratio-60-20-20"


def test_regression_learns_the_mean_of_the_neighbours(tmp_path):
    spec = {"name": str(friends(tmp_path / "mine")), "label": "mean", "columns": ["age"],
            "task": "node-regression"}  # fmt: skip
    recipe = {"dataset": spec, "model": {"name": "sage", "dim": 16}, "seeds": [0],
              "train": {"epochs": 150, "lr": 0.02}}  # fmt: skip
    summary = run_recipe(recipe, runs=tmp_path)
    assert summary["metric"] == "r2" and summary["test"]["mean"] > 0.8
    assert json.loads((tmp_path / summary["folder"] / "summary.json").read_text())


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_graph_may_have_no_edges(suffix, tmp_path):
    data = load_graph(write_tables(tmp_path / "mine", suffix, edges=[]))
    assert pairs(data) == set() and data.graph.num_nodes() == 5 and data.y.tolist() == Y
    if suffix == ".csv":
        (tmp_path / "mine" / "edges.csv").write_text("source,target")  # without the line's end
        assert pairs(load_graph(tmp_path / "mine")) == set()


def test_whole_numbers_past_64_bits(tmp_path):
    numbers = [1e19, 2e19, -(2.0**63), 3.0, 4.0]
    folder = write_tables(tmp_path / "mine", ".parquet", NODES.assign(label=numbers))
    y = load_graph(folder, task="node-regression").y
    assert np.array_equal(y, np.array(numbers, np.float32))
    assert load_graph(folder).classes == 5


def test_ids_past_64_bits(tmp_path):
    ids = np.array([2**63 + each for each in range(5)], np.uint64)
    edges = [(ids[a], ids[b]) for a, b in PLACES]
    data = load_graph(write_tables(tmp_path / "mine", ".parquet", NODES.assign(id=ids), edges))
    assert data.ids.tolist() == [str(each) for each in ids] and pairs(data) == BOTH


def test_a_graph_without_features_wants_an_encoding(tmp_path):
    folder = write_tables(tmp_path / "mine", nodes=NODES[["id"]].assign(label=list("aabbb")))
    split = {"name": "ratio", "train": 40, "val": 20, "test": 40}
    recipe = {"dataset": {"name": str(folder), "split": split}, "model": "gcn",
              "train": {"epochs": 2}}  # fmt: skip
    with pytest.raises(ZooError, match="encoding: "):
        run_recipe(recipe, runs=tmp_path)
    run_recipe({**recipe, "encoding": {"name": "laplacian", "k": 2}}, runs=tmp_path)


def test_a_file_and_a_data_set_of_one_name_are_told_apart(tmp_path, monkeypatch, caplog):
    write_tables(tmp_path / "karate")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ZooError, match="write ./karate for the file or folder"):
        read_graph("karate")
    assert len(load_graph("karate").y) == 34 and "write ./karate" in caplog.text
    assert len(load_graph("./karate").y) == len(NODES)
