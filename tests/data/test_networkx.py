"""Attributes of NetworkX are read by what they are, or refused by name; and files of its kind."""

import datetime
import decimal
import gzip
import json

import networkx
import numpy as np
import pandas
import pytest
import torch

from zoo import Dataset, ZooError, load_data, load_graph
from zoo.canonical_form import FEATURE, WEIGHT


def path(values, key="a", **more):
    """A path of three nodes, with the values as an attribute; ... leaves it out."""
    graph = networkx.path_graph(3)
    for node, value in enumerate(values):
        if value is not ...:
            graph.nodes[node][key] = value
        graph.nodes[node].update({name: each[node] for name, each in more.items()})
    return graph


def read(values, key="a", **how):
    return Dataset.from_networkx(path(values, key), **{"numbers": "raw", **how})


@pytest.mark.parametrize(
    "values",
    [
        [torch.tensor(1.0), torch.tensor(2), torch.tensor(True)],
        [torch.tensor(each).bfloat16() for each in (1.0, 2.0, 1.0)],
        [np.float32(1), np.int64(2), np.bool_(True)],
        [np.array(1.0), np.array(2, np.uint8), np.array(1, np.float16)],
        [decimal.Decimal("1"), 2, True],
        [1.0, torch.tensor(2.0), np.int8(1)],
    ],
)
def test_scalars_of_any_kind(values):
    data = read(values)
    assert data.feature_names == ("a",) and data.x.tolist() == [[1], [2], [1]]


@pytest.mark.parametrize(
    "values",
    [
        [torch.tensor([1.0, 2])] * 3,
        [torch.tensor([1.0, 2]).bfloat16()] * 3,
        [np.array([1, 2])] * 3,
        [(1, np.float64(2)), [torch.tensor(1), 2.0], np.array([1, 2], np.float16)],
        [pandas.Series([1, 2])] * 3,
    ],
)
def test_vectors_of_any_kind(values):
    data = read(values)
    assert data.feature_names == ("a.0", "a.1") and data.x.tolist() == [[1, 2]] * 3
    assert read(values, columns="a").x.tolist() == [[1, 2]] * 3
    assert read(values, columns="a.1").x.tolist() == [[2]] * 3


def test_a_name_that_is_a_place_in_a_list_as_well():
    graph = path([[1.0, 2]] * 3)
    for node in graph:
        graph.nodes[node]["a.1"] = 5.0
    with pytest.raises(ZooError, match="'a.1', which is also a place in the list 'a'; rename one"):
        Dataset.from_networkx(graph)
    assert Dataset.from_networkx(graph, columns="a", numbers="raw").x.tolist() == [[1, 2]] * 3


@pytest.mark.parametrize("key", [0, ("a", 1), 1.5])
def test_names_that_are_no_text(key):
    data = read([1.0, 2, 3], key)
    assert data.feature_names == (str(key),) and data.x.tolist() == [[1], [2], [3]]
    assert read([0, 1, 0], key, label=[str(key)]).y.tolist() == [0, 1, 0]
    graph = path([1.0, 2, 3], 0)
    graph.nodes[2]["0"] = 3.0
    with pytest.raises(ZooError, match="the nodes have the attributes 0 and '0'.*rename one"):
        Dataset.from_networkx(graph)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([1, "x", 2], "'a' is an int at the node 0, and the text 'x' at the node 1; write values"),
        ([[1, 2], 1, 2], "'a' is a list of 2, .* at the node 0, and an int at the node 1"),
        ([[1, 2], None, [1, 2]], "at the node 0, and of 0 at the node 1; give every node as many"),
        ([[1, 2], [1, 2], ...], "and of 0 at the node 2"),
        ([[1, 2], [1, 2, 3], [1, 2]], "and of 3 at the node 1"),
        ([[], [], []], "'a' is an empty list at the node 0"),
        ([1, {"b": 1}, 2], "'a' is a dict of 'b' at the node 1; write a number, text, a date, or"),
        ([1, 2, {3}], "'a' is a set at the node 2"),
        ([b"x"] * 3, "'a' is a bytes at the node 0"),
        ([object()] * 3, "'a' is an object at the node 0"),
        ([torch.eye(2)] * 3, r"'a' is a torch.Tensor of the shape \(2, 2\) at the node 0"),
        ([[[1]]] * 3, "'a' is a list of 1, the first of type list at the node 0"),
        ([2**70, 1, 2], "'a' is an int at the node 0, of more than 64 bits"),
        ([1, None, 3], r"not finite at row 1 \(the node 1\), column 0 \('a'\); fill in"),
        ([None] * 3, r"not finite at row 0 \(the node 0\), column 0 \('a'\)"),
        ([torch.tensor(float("nan")), 1, 2], r"row 0 \(the node 0\), column 0 \('a'\); fill in"),
        ([datetime.date(2020, 1, 1)] * 3, r"'a' is of type timestamp.*`dates: \[a\]`"),
        ([["u", "v"]] * 3, r"'a.0' holds 'u'.*write `one_hot: \[a.0, a.1\]`"),
    ],
)
def test_what_is_no_column_is_told_with_its_node(values, said):
    with pytest.raises(ZooError, match=said):
        read(values)
    assert read(values, columns=[]).inputs == 0  # nobody asks for it
    graph = path(values, b=[1, 2, 3])
    assert Dataset.from_networkx(graph, columns=["b"], numbers="raw").x.tolist() == [[1], [2], [3]]


def test_what_is_missing():
    for values in ([1, None, 3], [1, ..., 3], [1, float("nan"), 3], [1, pandas.NA, 3]):
        assert read(values, missing="mean").x.tolist() == [[1], [2], [3]]
    words = read(["u", float("nan"), "v"], one_hot="a")
    assert words.x.tolist() == [[1, 0], [0, 0], [0, 1]]
    lists = read([["u", "v"], ["u", "w"], ["x", "v"]], one_hot="a")
    assert lists.feature_names == ("a.0=u", "a.0=x", "a.1=v", "a.1=w")
    assert read([["u", "v"]] * 3, one_hot=["a.0", "a.1"]).feature_names == ("a.0=u", "a.1=v")
    with pytest.raises(ZooError, match="one_hot: no node has 'b'; choose from a"):
        read([1, 2, 3], one_hot="b")


@pytest.mark.parametrize(
    "values",
    [
        [datetime.date(2020, 1, 1), datetime.datetime(2021, 1, 1), None],
        [np.datetime64("2020-01-01"), np.datetime64("2021-01-01", "ns"), np.datetime64("NaT")],
        [pandas.Timestamp("2020-01-01"), pandas.Timestamp("2021-01-01", tz="UTC"), pandas.NaT],
    ],
)
def test_dates(values):
    wanted = read(["2020-01-01", "2021-01-01", ""], dates="a", missing="mean")
    assert torch.equal(read(values, dates="a", missing="mean").x, wanted.x)


@pytest.mark.parametrize(
    ("values", "labels", "names"),
    [
        ([torch.tensor(0), torch.tensor(1), ...], [0, 1, -1], ("0", "1")),
        ([torch.tensor([0]), torch.tensor([1]), torch.tensor([0])], [0, 1, 0], ("0", "1")),
        ([np.int64(2**53), 2**53 + 1, None], [0, 1, -1], (str(2**53), str(2**53 + 1))),
        (["u", None, np.str_("v")], [0, -1, 1], ("u", "v")),
        ([[0, 1], (1, 1), torch.tensor([0, 0])], [[0, 1], [1, 1], [0, 0]], ("a.0", "a.1")),
    ],
)
def test_labels(values, labels, names):
    data = read(values, label="a")
    assert data.y.tolist() == labels and data.labels == names
    by_custom = read(values, "label")
    assert by_custom.y.tolist() == labels and by_custom.inputs == 0


# Edges


def weighted(values, key="w", **how):
    graph = networkx.path_graph(3)
    for edge, value in zip(graph.edges, values, strict=True):
        if value is not ...:
            graph.edges[edge][key] = value
    return Dataset.from_networkx(graph, **how).graph.edata


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([torch.tensor(2.0), torch.tensor(3).bfloat16()], [2, 3]),
        ([np.float32(2), np.array([3])[0]], [2, 3]),
        ([2.0, ...], [2, 1]),
        ([[2.0], torch.tensor([3.0])], [2, 3]),
    ],
)
def test_weights_of_any_kind(values, told):
    for key in ("w", 7, "id"):
        found = weighted(values, key, weight=str(key))[WEIGHT]
        assert found.tolist() == [1, told[0], told[0], 1, told[1], told[1], 1]
    assert WEIGHT not in weighted(values, weights="ignore")


def test_features_of_edges_of_any_kind():
    found = weighted([torch.tensor([1, 2.0]), np.array([3, 4])], edge_features="w")
    assert found[FEATURE].unique(dim=0).tolist() == [[0, 0], [1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("values", "how", "said"),
    [
        ([2.0, None], {"weight": "w"}, r"'w' is None at the edge \(1, 2\); write a number"),
        ([float("nan"), 2], {"weight": "w"}, r"'w' is nan at the edge \(0, 1\)"),
        ([2.0, "3"], {"weight": "w"}, r"'w' is a float at the edge \(0, 1\), and the text '3'"),
        (["2", "3"], {"weight": "w"}, r"'w' is '2' at the edge \(0, 1\)"),
        ([1j, 2], {"weight": "w"}, r"'w' is a complex at the edge \(0, 1\)"),
        ([1.0, ...], {"edge_features": "w"}, r"'w' is None at the edge \(1, 2\)"),
        (
            [[1.0, 2], [1.0]],
            {"edge_features": "w"},
            r"'w' is a list of 2.* and of 1 at the edge \(1, 2\)",
        ),
    ],
)
def test_what_is_no_number_of_an_edge_is_told_with_it(values, how, said):
    with pytest.raises(ZooError, match=f"the edge attribute {said}"):
        weighted(values, **how)


# Files

GRAPH_TOOL = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="key0" for="node" attr.name="cls" attr.type="short"/>
  <key id="key1" for="node" attr.name="pos" attr.type="vector_float"/>
  <key id="key2" for="node" attr.name="deg" attr.type="double"/>
  <key id="key3" for="node" attr.name="what" attr.type="python_object"/>
  <graph id="G" edgedefault="undirected">
    <node id="n0"><data key="key0">0</data><data key="key1">0x1.8p+1, 0x1p+0</data>
      <data key="key2">0x1.8p+0</data><data key="key3">u</data></node>
    <node id="n1"><data key="key0">1</data><data key="key1">-0x1p-1, 2</data>
      <data key="key2">2.5</data><data key="key3">v</data></node>
    <edge id="e0" source="n0" target="n1"/>
  </graph>
</graphml>
"""


def test_graphml_of_graph_tool(tmp_path):
    (tmp_path / "g.graphml").write_text(GRAPH_TOOL)
    (tmp_path / "g.graphml.gz").write_bytes(gzip.compress(GRAPH_TOOL.encode()))
    for name in ("g.graphml", "g.graphml.gz"):
        data = load_graph(tmp_path / name, label="cls", columns="deg,pos", numbers="raw")
        assert data.feature_names == ("deg", "pos.0", "pos.1") and data.y.tolist() == [0, 1]
        assert data.x.tolist() == [[1.5, 3, 1], [2.5, -0.5, 2]]
    with pytest.raises(ZooError, match=r"'what' holds 'u'.*`one_hot: \[what\]`"):
        load_graph(tmp_path / "g.graphml", label="cls")


def test_other_files_of_networkx_are_told_how_they_are_read(tmp_path):
    graph = networkx.path_graph(3)
    networkx.write_gexf(graph, tmp_path / "g.gexf")
    (tmp_path / "g.json").write_text(json.dumps(networkx.node_link_data(graph)))
    old = {"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}
    (tmp_path / "d3.json").write_text(json.dumps(old))
    for name, said in (
        ("g.gexf", r"from_networkx\(networkx.read_gexf\(path\)\)"),
        ("g.json", r"node_link_graph\(json.load\(file\), edges='edges'\)"),
        ("d3.json", r"from_networkx\(networkx.node_link_graph\(json.load\(file\), edges='links'\)"),
    ):
        with pytest.raises(ZooError, match=said):
            load_data(str(tmp_path / name))
    held = networkx.node_link_graph(json.loads((tmp_path / "d3.json").read_text()), edges="links")
    assert Dataset.from_networkx(held).graph.num_edges() == 4
