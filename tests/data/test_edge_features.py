"""Features of edges from tables, arrays, DGL, PyG and NetworkX; what is wrong is said."""

import networkx
import numpy as np
import pandas
import pytest
import torch
from needs_dgl import needs_dgl

import zoo
from zoo import Dataset, ZooError
from zoo.canonical_form import FEATURE
from zoo.data.files.prepared import read_prepared, write_prepared
from zoo.data.load import load_graph
from zoo.dgl import dgl

ENDS = np.array([[0, 1], [1, 2], [2, 3]])
ROWS = np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]], np.float32)
EXPECTED = zoo.canonical(ENDS, nodes=4, edge_features=ROWS).edata[FEATURE]
NAMES = np.array(list("abcd"))


def table(folder, **columns):
    folder.mkdir()
    pandas.DataFrame({"id": NAMES, "x": range(4), "label": [0, 1, 0, 1]}).to_csv(
        folder / "nodes.csv", index=False
    )
    ends = {"source": NAMES[ENDS[:, 0]], "target": NAMES[ENDS[:, 1]]}
    pandas.DataFrame({**ends, **columns}).to_csv(folder / "edges.csv", index=False)
    return str(folder)


def test_columns_of_a_table(tmp_path):
    path = table(tmp_path / "own", km=ROWS[:, 0], lanes=ROWS[:, 1], toll=[True, False, True])
    data = load_graph(path, edge_features=["km", "lanes"])
    assert torch.equal(data.graph.edata[FEATURE], EXPECTED) and data.edge_dim == 2
    assert load_graph(path, edge_features="toll").graph.edata[FEATURE].unique().tolist() == [0, 1]
    assert torch.equal(load_graph(path, edge_features="km, lanes").graph.edata[FEATURE], EXPECTED)
    weighted = load_graph(path, edge_features=["lanes"], weight="km")
    assert set(weighted.graph.edata) == {FEATURE, "weight"}
    assert load_graph(path, weights="ignore").edge_dim == 0


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("kmm", "the edges have no 'kmm'; did you mean 'km'"),
        ("kind", "'kind' holds text, and edges have numbers"),
        ("hole", "'hole' is empty in data row 2"),
        ("far", "is not finite at row 2.*infinite"),
    ],
)
def test_what_is_wrong_with_a_column_is_said(tmp_path, option, said):
    path = table(tmp_path / "own", km=ROWS[:, 0], kind=list("xyz"), hole=[1, None, 3],
                 far=[1, 2, float("inf")])  # fmt: skip
    with pytest.raises(ZooError, match=said):
        load_graph(path, edge_features=[option])


@needs_dgl
def test_objects_in_memory(tmp_path):
    graph = dgl.graph((torch.from_numpy(ENDS[:, 0]), torch.from_numpy(ENDS[:, 1])), num_nodes=4)
    graph.ndata["feat"], graph.ndata["label"] = torch.eye(4), torch.tensor([0, 1, 0, 1])
    graph.edata["e"], graph.edata["f"] = (torch.from_numpy(each.copy()) for each in ROWS.T)
    pyg = {"edge_index": torch.from_numpy(ENDS.T.copy()), "x": torch.eye(4),
           "y": torch.tensor([0, 1, 0, 1]), "edge_attr": torch.from_numpy(ROWS)}  # fmt: skip
    nx = networkx.Graph()
    nx.add_nodes_from((name, {"x": 1.0, "label": n % 2}) for n, name in enumerate(NAMES.tolist()))
    nx.add_edges_from(
        (NAMES[u], NAMES[v], {"e": row.tolist()}) for (u, v), row in zip(ENDS, ROWS, strict=True)
    )
    found = [
        Dataset.from_arrays(ENDS, np.eye(4), [0, 1, 0, 1], edge_features=ROWS),
        Dataset.from_dgl(graph, edge_features=["e", "f"]),
        Dataset.from_pyg(pyg, edge_features="edge_attr"),
        Dataset.from_networkx(nx, edge_features="e"),
    ]
    torch.save(pyg, tmp_path / "g.pt")
    dgl.save_graphs(str(tmp_path / "g.bin"), [graph])
    found.append(load_graph(str(tmp_path / "g.pt"), edge_features="edge_attr"))
    found.append(load_graph(str(tmp_path / "g.bin"), edge_features=["e", "f"]))
    for data in found:
        assert torch.equal(data.graph.edata[FEATURE], EXPECTED)
    with pytest.raises(ZooError, match="edge_attr.*weights: ignore"):
        Dataset.from_pyg(pyg)
    del nx.edges["a", "b"]["e"]
    with pytest.raises(ZooError, match="edge attribute 'e' is a list.*, and of 0 at the edge .'a'"):
        Dataset.from_networkx(nx, edge_features="e")


def test_prepared_files_keep_them(tmp_path):
    path = table(tmp_path / "own", km=ROWS[:, 0], lanes=ROWS[:, 1])
    from zoo.data.tables.nodes_and_edges import read_tables

    arrays = read_tables(tmp_path / "own", None, edge_features=["km", "lanes"])
    write_prepared(arrays, tmp_path / "own.npz")
    assert np.array_equal(read_prepared(tmp_path / "own.npz").edge_features, ROWS)
    data = load_graph(str(tmp_path / "own.npz"))
    assert torch.equal(data.graph.edata[FEATURE], EXPECTED)
    assert data.edge_feature_names == ("km", "lanes")
    with pytest.raises(ZooError, match="`edge_feature_names` has 1 names; write 2"):
        write_prepared(arrays._replace(edge_feature_names=("km",)), tmp_path / "own.npz")
    with pytest.raises(ZooError, match="`edge_feature_names` has 'km' twice"):
        write_prepared(arrays._replace(edge_feature_names=("km", "km")), tmp_path / "own.npz")
    with pytest.raises(ZooError, match="edges of several kinds"):
        (tmp_path / "own" / "nodes.csv").rename(tmp_path / "own" / "nodes-a.csv")
        (tmp_path / "own" / "edges.csv").rename(tmp_path / "own" / "edges-a-a.csv")
        load_graph(path, edge_features=["km"])


def test_features_of_edges_are_those_of_training_by_their_names(tmp_path):
    path = table(tmp_path / "own", km=ROWS[:, 0], lanes=ROWS[:, 1])
    recipe = {
        "dataset": {"name": path, "edge_features": ["km", "lanes"], "split": "ratio-50-25-25"},
        "model": {"name": "gine", "dim": 4},
        "train": {"epochs": 1},
        "seeds": [0],
    }
    run = zoo.run_recipe(recipe, runs=tmp_path / "runs")
    model = zoo.load(run["folder"])
    assert model.about.edge_feature_names == ["km", "lanes"]
    zoo.predict(model, load_graph(path, edge_features=["km", "lanes"]))
    with pytest.raises(ZooError, match=r"features of edges lanes, km.*edge_features: .km, lanes."):
        zoo.predict(model, load_graph(path, edge_features=["lanes", "km"]))
    swapped = {**recipe["dataset"], "edge_features": ["lanes", "km"]}
    with pytest.raises(ZooError, match=r"`dataset.edge_features: .km, lanes.`"):
        zoo.run_recipe(
            {**recipe, "dataset": swapped, "start_from": {"weights": f"{run['folder']}/seed-0"}},
            runs=tmp_path / "runs",
        )


def test_from_check_to_predictions_by_commands(zoo, tmp_path, caplog):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    ends = rng.integers(60, size=(300, 2))
    edges = pandas.DataFrame({"source": ends[:, 0], "target": ends[:, 1],
                              "trust": y[ends[:, 0]] == y[ends[:, 1]]})  # fmt: skip
    (tmp_path / "own").mkdir()
    edges.to_csv(tmp_path / "own" / "edges.csv", index=False)
    pandas.DataFrame({"id": range(60), "x": y + rng.normal(size=60), "label": y}).to_csv(
        tmp_path / "own" / "nodes.csv", index=False
    )
    said = zoo("data", "check", "own", "edge_features=trust")[1].out
    assert "1 feature" in said and "edge_features: trust" in said
    zoo("train", "gine-cora", "dataset=own", "dataset.edge_features=trust", "train.epochs=3",
        "seeds=[0]", "--quiet")  # fmt: skip
    [run] = (tmp_path / "runs").glob("gine-cora-*")
    zoo("predict", str(run), "--data", "own", "--out", "said.csv")
    assert len(pandas.read_csv(tmp_path / "said.csv")) == 60
    zoo("finetune", str(run), "--data", "own", "train.epochs=2", "--quiet")
    zoo("train", "gcn-cora", "dataset=own", "dataset.edge_features=trust",
               "train.epochs=2", "seeds=[0]", "--quiet")  # fmt: skip
    assert "gcn ignores the features of edges of own; gat, gine and htgn" in caplog.text
    assert "ignores the weights" not in caplog.text
    zoo("train", "mlp-cora", "dataset=own", "dataset.edge_features=trust", "dataset.direction=in",
        "train.epochs=2", "seeds=[0]", "--quiet")  # fmt: skip
    assert "mlp ignores the weights and directions of edges of own; gcn counts" in caplog.text
    caplog.clear()
    zoo("train", "sgformer-cora", "dataset=own", "dataset.edge_features=trust", "train.epochs=2",
        "seeds=[0]", "--quiet", "model.propagation={name: gat, edge_dim: 1}")  # fmt: skip
    assert "ignores" not in caplog.text
