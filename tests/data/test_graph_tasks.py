"""The four tasks of a set of graphs: what their labels are, and a way through the commands."""

import json

import numpy as np
import pytest
import torch
from needs_dgl import needs_dgl
from quick import every

from zoo import Dataset
from zoo.data.load import load_data
from zoo.data.splits import split_of
from zoo.dgl import dgl
from zoo.errors import ZooError

NAN = float("nan")


def of_pyg(labels):
    """A path for each label, whose nodes have the label's sum in their features."""
    torch.manual_seed(0)
    graphs = []
    for number, y in enumerate(labels):
        nodes = 3 + number % 3
        ends = torch.arange(nodes - 1)
        known = torch.as_tensor(y, dtype=torch.float32).nan_to_num(0).sum()
        x = torch.randn(nodes, 2) * 0.1 + known
        y = y if isinstance(y, int) else torch.tensor(y)
        graphs.append({"edge_index": torch.stack([ends, ends + 1]), "x": x, "y": y})
    return graphs


@pytest.mark.parametrize("shape", [(1,), (1, 1), ()])
def test_numbers_of_graphs(shape):
    values = [0.5, NAN, 2.5, -1.0]
    graphs = of_pyg(values)
    for graph in graphs:
        graph["y"] = graph["y"].reshape(shape)
    data = Dataset.from_pyg(graphs, task="graph-regression")
    assert (data.task, data.metric, data.classes) == ("graph-regression", "r2", 1)
    assert data.y.dtype == torch.float32
    assert torch.equal(data.y.nan_to_num(7), torch.tensor([0.5, 7, 2.5, -1]))  # -1 is a number


def test_targets_of_graphs_have_gaps():
    data = Dataset.from_pyg(of_pyg([[[0, 1.0]], [[1.0, NAN]], [[1.0, 1.0]]]))
    assert (data.task, data.metric, data.classes) == ("graph-multilabel", "roc-auc", 2)
    assert torch.equal(data.y.nan_to_num(7), torch.tensor([[0, 1], [1, 7], [1, 1.0]]))
    one = Dataset.from_pyg(of_pyg([[0.0], [1.0], [NAN]]), task="graph-multilabel")
    assert one.y.shape == (3, 1) and one.classes == 1


def test_one_1_in_each_row_is_a_class(caplog):
    rows = [[[0, 1.0]], [[1.0, 0]], [[0, 1.0]]]
    data = Dataset.from_pyg(of_pyg(rows))
    assert data.task == "graph-classification" and data.y.tolist() == [1, 0, 1]
    assert "`task: graph-multilabel` keeps them apart" in caplog.text
    assert Dataset.from_pyg(of_pyg(rows), task="graph-multilabel").y.shape == (3, 2)


def test_two_classes_may_be_whole_floats():
    graphs = of_pyg([[[1.0]], [[0.0]], [[NAN]]])
    data = Dataset.from_pyg(graphs, task="graph-binary")
    assert (data.metric, data.y.tolist(), data.classes) == ("roc-auc", [1, 0, -1], 2)
    with pytest.raises(ZooError, match="holds 2 at graph 1 and graph-binary knows 0, 1 and -1"):
        Dataset.from_pyg(of_pyg([0, 2, 1]), task="graph-binary")
    with pytest.raises(ZooError, match="some are fractions, such as 0.5"):
        Dataset.from_pyg(of_pyg([[0.5], [1.0]]), task="graph-binary")


def test_several_labels_are_targets_with_names():
    graphs = of_pyg([0, 1, 0])
    for number, graph in enumerate(graphs):
        graph["gap"], graph["mass"] = torch.tensor([number / 2]), number
    data = Dataset.from_pyg(graphs, label=["mass", "gap"], task="graph-regression")
    assert data.labels == ("mass", "gap") and data.y.tolist() == [[0, 0], [1, 0.5], [2, 1]]


@needs_dgl
def test_tables_of_labels_that_dgl_saves(tmp_path):
    graphs = [dgl.graph(([0, 1], [1, 2]), num_nodes=3) for _ in range(3)]
    y = torch.tensor([[0.5, NAN, 1], [2, 3, 4], [5, 6, 7]])  # as many as nodes
    path = tmp_path / "set.bin"
    dgl.save_graphs(str(path), graphs, {"y": y, "z": y[:, 0]})
    data = load_data(str(path), task="graph-regression", label="y")
    assert torch.equal(data.y.nan_to_num(9), y.nan_to_num(9))
    both = load_data(str(path), task="graph-regression", label="z")
    assert both.y.tolist() == [0.5, 2, 5]
    assert load_data(str(path), label="gone", labels="ignore").y.tolist() == [-1, -1, -1]


def test_labels_of_nodes_are_none_of_graphs():
    graphs = [{"edge_index": torch.tensor([[0], [1]]), "y": torch.rand(2)} for _ in range(4)]
    with pytest.raises(ZooError, match="a label for each node, and a graph has one class"):
        Dataset.from_pyg(graphs, task="graph-regression")


@pytest.mark.parametrize("split", ["folds-5", "ratio-80-10-10"])
def test_numbers_are_split(split):
    data = Dataset.from_pyg(of_pyg([n / 10 for n in range(30)]), task="graph-regression")
    parts = split_of(data, split, 0)
    together = torch.cat([parts.train, parts.val, parts.test])
    assert sorted(together.tolist()) == list(range(30))


TASKS = {
    "graph-classification": lambda rng: int(rng.integers(3)),
    "graph-binary": lambda rng: int(rng.integers(2)),
    "graph-multilabel": lambda rng: [[float(rng.integers(2)), 1.0 if rng.random() < 0.5 else NAN]],
    "graph-regression": lambda rng: [[float(rng.normal() * 50), float(rng.normal() + 300)]],
}
COLUMNS = {
    "graph-classification": [
        "id",
        "label",
        "known",
        "part",
        "probability_0",
        "probability_1",
        "probability_2",
    ],
    "graph-binary": ["id", "label", "known", "part", "probability_0", "probability_1"],
    "graph-multilabel": ["id", "part", "known_0", "probability_0", "known_1", "probability_1"],
    "graph-regression": ["id", "part", "known_0", "value_0", "known_1", "value_1"],
}


@pytest.mark.parametrize("task", every(TASKS, 2))
def test_from_check_to_report_by_commands(zoo, tmp_path, task):
    rng = np.random.default_rng(0)
    labels = [TASKS[task](rng) for _ in range(60)]
    if task == "graph-multilabel":
        labels[::3] = [[[y[0][0], 0.0]] for y in labels[::3]]
    torch.save(of_pyg(labels), tmp_path / "set.pt")
    code, said = zoo("data", "check", f"{{name: set.pt, task: {task}}}")
    assert code == 0 and task in said.out, said.err
    recipe = {
        "dataset": {"name": "set.pt", "task": task},
        "model": {"name": "gcn", "dim": 8},
        "train": {"epochs": 4, "lr": 0.05},
        "seeds": [0, 1],
    }
    (tmp_path / "set.yaml").write_text(json.dumps(recipe))
    code, said = zoo("train", "set.yaml", "--quiet")
    assert code == 0, said.err
    [run] = (tmp_path / "runs").glob("set-*")
    summary = json.loads((run / "summary.json").read_text())
    assert np.isfinite(summary["test"]["mean"])
    code, said = zoo("predict", run, "--data", f"{{name: set.pt, task: {task}}}", "--out", "a.csv")
    assert code == 0, said.err
    table = (tmp_path / "a.csv").read_text().splitlines()
    assert table[0].split(",") == COLUMNS[task] and len(table) == 61
    commands = {
        "graph-regression": ("report", run),
        "graph-multilabel": ("finetune", run, "--data", "{name: set.pt}", "train.epochs=1"),
    }
    for command in (("evaluate", run), commands.get(task, ("evaluate", run))):
        code, said = zoo(*command)
        assert code == 0, (command, said.err)


def test_features_are_standardised_by_the_nodes_of_training(zoo, tmp_path):
    graphs = of_pyg([n % 2 for n in range(40)])
    for graph in graphs:
        graph["x"] = 1000 * graph["x"] + 7
    torch.save(graphs, tmp_path / "old.pt")
    torch.save([{**graph, "y": None} for graph in graphs[:4]], tmp_path / "new.pt")
    recipe = {
        "dataset": {"name": "old.pt", "features": "standard", "label": "y"},
        "model": {"name": "gcn", "dim": 8},
        "train": {"epochs": 2},
        "seeds": [0],
    }
    (tmp_path / "old.yaml").write_text(json.dumps(recipe))
    assert zoo("train", "old.yaml", "--quiet")[0] == 0
    [run] = (tmp_path / "runs").glob("old-*")
    tables = []
    for name in ("old.pt", "new.pt"):
        code, said = zoo("predict", run, "--data", name, "--out", f"{name}.csv")
        assert code == 0, said.err
        tables.append((tmp_path / f"{name}.csv").read_text().splitlines())
    numbers = [np.array([row.split(",")[-2:] for row in table[1:5]], float) for table in tables]
    assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)
