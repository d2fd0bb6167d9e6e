"""A set of graphs as tables of graphs, nodes and edges, and sets whose nodes tell nothing."""

import json
import logging
import re

import numpy as np
import pytest
import torch

from zoo.data.load import load_data
from zoo.data.load.check import check
from zoo.errors import ZooError

GRAPHS = "graph,label,split\na,no,train\nb,yes,val\nc,no,test\n"
NODES = "id,graph,kind,size\n0,b,C,1\n0,a,C,2\n1,a,O,4\n2,a,,6\n1,b,N,3\n0,c,C,5\n1,c,O,0\n"
EDGES = "graph,source,target\na,0,1\nb,1,0\na,1,2\nc,0,1\n"


def write(folder, graphs=GRAPHS, nodes=NODES, edges=EDGES):
    folder.mkdir(exist_ok=True)
    for stem, text in (("graphs", graphs), ("nodes", nodes), ("edges", edges)):
        if text is not None:
            (folder / f"{stem}.csv").write_text(text)
    return folder


def read(path, **options):
    return load_data({"name": str(path), "one_hot": "kind", **options})


def test_three_tables_are_a_set(tmp_path):
    data = read(write(tmp_path / "set"), numbers="raw")
    assert (data.name, data.task, data.labels) == ("set", "graph-classification", ("no", "yes"))
    assert data.ids.tolist() == ["a", "b", "c"] and data.y.tolist() == [0, 1, 0]
    assert data.graphs.sizes.tolist() == [3, 2, 2] and data.split == "benchmark"
    assert data.masks["train"].tolist() == [[True, False, False]]
    assert data.feature_names == ("kind=C", "kind=N", "kind=O", "size")
    assert data.x[:, 3].tolist() == [2, 4, 6, 1, 3, 5, 0]  # node b0 stands before a0 in the table
    graph, x = data.batch(torch.tensor([1, 0]))
    source, target = graph.edges()
    pairs = {(a, b) for a, b in zip(source.tolist(), target.tolist(), strict=True) if a < b}
    assert pairs == {(0, 1), (2, 3), (3, 4)} and x[:, 3].tolist() == [1, 3, 2, 4, 6]


def test_numbers_are_scaled_by_the_nodes_of_training_graphs(tmp_path):
    data = read(write(tmp_path / "set"), degrees=2)
    train = data.trained_on(torch.tensor([0]))  # whose sizes are 2, 4, 6
    assert train.feature_names == ("kind=C", "kind=O", "size", "degree 0", "degree 1", "degree 2")
    wanted = (np.array([2, 4, 6, 1, 3, 5, 0]) - 4) / np.std([2, 4, 6])
    assert train.x[:, 2].numpy() == pytest.approx(wanted, abs=1e-6)
    assert train.x[:, 3:].argmax(1).tolist() == [1, 2, 1, 1, 1, 1, 1]


def test_ids_of_all_nodes_need_no_graph_beside_edges(tmp_path):
    nodes = "id,graph,size\n1,a,1\n2,a,2\n3,b,3\n4,c,4\n5,c,0\n"
    path = write(tmp_path / "set", nodes=nodes, edges="source,target\n2,1\n5,4\n")
    data = load_data(str(path))
    assert data.graphs.sizes.tolist() == [2, 1, 2]
    assert data.batch(torch.tensor([0, 1, 2]))[0].num_edges() == 5 + 4


@pytest.mark.parametrize(
    ("options", "graphs", "task", "y"),
    [
        ({"task": "graph-regression"}, "id,label\na,1.5\nb,\nc,-1\n", "graph-regression",
         [1.5, 9, -1]),
        ({"task": "graph-regression", "label": "u,v"}, "id,u,v\na,1,2\nb,,0\nc,3,4\n",
         "graph-regression", [[1, 2], [9, 0], [3, 4]]),
        ({"label": ["u", "v"]}, "id,u,v\na,1,0\nb,,1\nc,1,1\n", "graph-multilabel",
         [[1, 0], [9, 1], [1, 1]]),
        ({"task": "graph-binary"}, "id,label\na,0\nb,\nc,1\n", "graph-binary", [0, -1, 1]),
        ({"labels": "ignore", "label": "gone"}, "id\na\nb\nc\n", "graph-classification",
         [-1, -1, -1]),
    ],
)  # fmt: skip
def test_labels_of_every_task(tmp_path, options, graphs, task, y):
    data = read(write(tmp_path / "set", graphs), **options)
    assert data.task == task
    assert data.y.nan_to_num(9).tolist() == y if data.y.is_floating_point() else y


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"edges": EDGES.replace("c,0,1", "c,0,2")},
         "edges.csv: data row 4 leads to '2', and no node of the graph 'c' has this id"),
        ({"edges": EDGES.replace("c,0,1", "d,0,1")},
         "edges.csv: data row 4 is of the graph 'd', which graphs.csv does not have"),
        ({"edges": EDGES.replace("c,0,1", ",0,1")}, "edges.csv: data row 4 is of no graph"),
        ({"nodes": NODES.replace("1,c", "1,e")},
         "nodes.csv: data row 7 is of the graph 'e', which graphs.csv does not have"),
        ({"graphs": GRAPHS + "d,no,train\n"},
         "graphs.csv: the graph 'd' has no nodes in nodes.csv"),
        ({"graphs": GRAPHS + "a,no,train\n"},
         "graphs.csv: the graph 'a' stands in the data rows 1 and 4"),
        ({"nodes": NODES + "0,c,C,1\n"}, "the id '0' is that of two nodes of the graph 'c'"),
        ({"nodes": NODES.replace("graph", "grph")}, "nodes.csv has no column 'graph'.*'grph'"),
        ({"graphs": GRAPHS.replace("graph", "name")}, "graphs.csv has no column 'graph', nor 'id'"),
        ({"edges": "source,target\n0,1\n"}, "give edges.csv the column 'graph'"),
        ({"edges": None}, "no edges.csv"),
        ({"nodes": None}, "no nodes.csv"),
        ({"nodes": NODES.replace("size", "label")}, "nodes.csv has the column 'label', and labels"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_sentence(zoo, tmp_path, changes, said):
    write(tmp_path / "set", **changes)
    code, told = zoo("data", "check", "{name: set, one_hot: kind}")
    assert code == 2 and "\n" not in told.err.strip()
    assert re.search(said, told.err), told.err


def test_an_edge_between_two_graphs(tmp_path):
    nodes = "id,graph,size\n1,a,1\n2,a,2\n3,b,3\n4,c,4\n5,c,0\n"
    path = write(tmp_path / "set", nodes=nodes, edges="source,target\n2,1\n5,3\n")
    with pytest.raises(ZooError, match="data row 2 joins the graphs 'c' and 'b' .1 such"):
        load_data(str(path))


def test_columns_of_graphs_that_are_not_read_are_named(tmp_path, caplog):
    graphs = GRAPHS.replace("label,", "mass,label,").replace(",no", ",3,no").replace(",y", ",4,y")
    read(write(tmp_path / "set", graphs))
    assert "'mass' of graphs is not read; `label` names what is predicted" in caplog.text


# Nodes that tell nothing


@pytest.mark.parametrize("size", ["", ",1"])
def test_degrees_are_added_where_all_nodes_are_alike(tmp_path, caplog, size):
    rows = "".join(f"{n},{graph}{size}\n" for graph in "abc" for n in range(3))
    nodes = f"id,graph{',size' if size else ''}\n{rows}"
    path = write(tmp_path / "set", nodes=nodes)
    data = load_data(str(path), numbers="raw")
    own = 1 if size else 0
    assert data.x.shape == (9, own + 65) and data.degree_columns == 65
    assert data.x[:, own:].argmax(1).tolist() == [1, 2, 1, 1, 1, 0, 1, 1, 0]
    [said] = [text for text in caplog.messages if "degrees" in text]
    what = "the same features in all graphs" if size else "no features"
    assert said.startswith(f"nodes have {what}: columns of their degrees, up to 64, are added")
    caplog.clear()
    assert load_data(str(path), numbers="raw", degrees=0).x.shape == (9, own)
    assert not caplog.messages


def test_repeated_samples_have_the_edges_of_another(tmp_path):
    rows = "".join(f"{n},{graph},{n}\n" for graph in "abc" for n in range(3))
    path = write(tmp_path / "set", nodes=f"id,graph,size\n{rows}")
    for edges, count in ((EDGES, 1), (EDGES.replace("c,0,1", "c,1,2"), 0)):
        write(path, nodes=f"id,graph,size\n{rows}", edges=edges)
        [repeated] = [each for each in check(load_data(str(path))) if "repeated" in each.name]
        assert repeated.values == {"repeated": count}


def test_new_graphs_are_read_as_those_of_training(zoo, tmp_path, caplog):
    rng = np.random.default_rng(0)
    caplog.set_level(logging.WARNING)

    def shapes(folder, count, *, labels=True, alike=False):
        graphs, nodes, edges = (
            "id,label\n" if labels else "id\n",
            "graph,id,kind,size\n",
            EDGES[:20],
        )
        for number in range(count):
            size, ring = int(rng.integers(4, 9)), number % 2
            graphs += f"{number},{'ring' if ring else 'star'}\n" if labels else f"{number}\n"
            for node in range(size):
                kind = "C" if alike else "CNO"[rng.integers(3)]
                nodes += f"{number},{node},{kind},{1 if alike else rng.normal()}\n"
            ends = [(n, (n + 1) % size) if ring else (0, n) for n in range(1 - ring, size)]
            edges += "".join(f"{number},{a},{b}\n" for a, b in ends)
        write(tmp_path / folder, graphs, nodes, edges)

    shapes("old", 60)
    shapes("new", 7, labels=False, alike=True)
    recipe = {
        "dataset": {"name": "old", "one_hot": "kind"},
        "model": {"name": "gine", "dim": 8},
        "train": {"epochs": 15, "lr": 0.01, "batching": {"name": "samples", "size": 8}},
        "seeds": [0],
    }
    (tmp_path / "old.yaml").write_text(json.dumps(recipe))
    code, said = zoo("train", "old.yaml", "--quiet")
    assert code == 0, said.err
    [run] = (tmp_path / "runs").glob("old-*")
    caplog.clear()
    code, said = zoo("predict", run, "--data", "new", "--out", "new.csv")
    assert code == 0, said.err
    lines = (tmp_path / "new.csv").read_text().splitlines()
    assert lines[0] == "id,label,probability_ring,probability_star" and len(lines) == 8
    assert lines[1].startswith("0,") and "degrees" not in caplog.text
    code, said = zoo("evaluate", run)
    assert code == 0 and "test samples of old" in said.out, said.err
    code, said = zoo("evaluate", run, "--data", "new")
    assert code == 2
