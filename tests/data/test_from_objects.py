"""What is made of objects in memory: wrong ones are answered, lists take the options of one."""

import logging
from pathlib import Path

import networkx
import numpy as np
import pandas
import pytest
import torch
from needs_dgl import needs_dgl
from scipy import sparse

import zoo
from zoo import Dataset, ZooError
from zoo.canonical_form import FEATURE, WEIGHT
from zoo.dgl import dgl

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])


class DataOfPyG(dict):
    """A `Data` of PyG, as far as it is looked at."""

    __module__ = "torch_geometric.data.data"

    def to_dict(self):
        return dict(self)


class DatasetOfPyG:
    """A data set of PyG: it is no list, and gives graphs by number."""

    __module__ = "torch_geometric.data.in_memory_dataset"

    def __init__(self, graphs):
        self.graphs = graphs

    def __len__(self):
        return len(self.graphs)

    def __getitem__(self, number):
        return self.graphs[number]


class DataLoader:
    __module__ = "torch_geometric.loader.dataloader"
    dataset = None

    def __len__(self):
        return 1


def pyg(number=0, **more):
    generator = torch.Generator().manual_seed(number)
    given = {"edge_index": EDGES, "x": torch.rand(3, 2, generator=generator), "y": number % 2}
    return DataOfPyG({**given, **more})


def of_dgl(number=0, **more):
    graph = dgl.graph(tuple(EDGES), num_nodes=3)
    graph.ndata["feat"] = pyg(number)["x"]
    graph.edata.update(more)
    return graph


OBJECTS = {
    "networkx": (lambda: networkx.path_graph(3), "a networkx.Graph"),
    "several of networkx": (
        lambda: [networkx.path_graph(3)] * 2,
        "a list of 2, the first of type Graph",
    ),
    "DGL": (of_dgl, f"a {dgl.__name__.partition('.')[0]}.DGLGraph"),
    "several of DGL": (lambda: [of_dgl()] * 2, "a list of 2, the first of type DGLGraph"),
    "PyG": (pyg, "a torch_geometric.DataOfPyG of 'edge_index', 'x', 'y'"),
    "several of PyG": (lambda: [pyg()] * 2, "a list of 2, the first of type DataOfPyG"),
    "a data set of PyG": (lambda: DatasetOfPyG([pyg()] * 2), "a torch_geometric.DatasetOfPyG"),
    "scipy": (lambda: sparse.eye(3).tocsr(), "a scipy."),
    "numpy": (lambda: np.eye(3), "a numpy.ndarray of the shape (3, 3)"),
    "torch": (lambda: torch.eye(3), "a torch.Tensor of the shape (3, 3)"),
    "pandas": (lambda: pandas.DataFrame({"a": [1]}), "a pandas.DataFrame of the shape (1, 1)"),
    "a dict": (lambda: {"a": 1}, "a dict of 'a'"),
    "a path": (lambda: Path("g.bin"), "a pathlib."),
    "a name": (lambda: "g.bin", "the text 'g.bin'"),
    "a data set": (lambda: Dataset.from_pyg(pyg(y=None)), "a zoo.Dataset"),
    "a loader": (DataLoader, "a torch_geometric.DataLoader"),
    "a generator": (lambda: (letter for letter in "ab"), "a generator"),
    "nothing": (lambda: None, "None"),
    "a number": (lambda: 3, "an int"),
    "no list": (lambda: [], "an empty list"),
}
"""What is given, and what the answer calls it."""

READ = {
    "from_dgl": {"DGL", "several of DGL"},
    "from_pyg": {"PyG", "several of PyG", "a data set of PyG", "a dict"},
    "from_networkx": {"networkx"},
    "from_scipy": {"scipy", "numpy", "torch", "pandas", "no list"},
    "from_arrays": {"numpy", "torch", "pandas", "no list"},
}
"""What each reads, or answers by its shape."""


@pytest.mark.parametrize(
    ("door", "given"), [(door, name) for door in READ for name in OBJECTS if name not in READ[door]]
)
def test_another_object_is_told_what_reads_which(door, given):
    make, called = OBJECTS[given]
    with pytest.raises(ZooError) as caught:
        getattr(Dataset, door)(make(), **({"ids": [0, 1]} if door == "from_arrays" else {}))
    text = str(caught.value)
    assert f"this is {called}" in text and "\n" not in text
    for reader in ("from_dgl reads a DGLGraph", "from_networkx a graph", "zoo.load_data a path"):
        assert reader in text


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"features": networkx.path_graph(3)}, "`features` is to be .* is a networkx.Graph"),
        ({"features": "x.csv"}, r"the text 'x.csv'; .*zoo.load_data a path"),
        ({"features": {"a": [1, 2, 3]}}, "`features` is to be .* is a dict of 'a'"),
        ({"labels": "label"}, "`labels` is to be an array with a row .* the text 'label'"),
        ({"labels": 3}, "`labels` is to be .* is an int"),
        ({"ids": [0, 1, 2], "masks": [[1, 0, 0]]}, "a dict of train, val, test, and not a list"),
    ],
)
def test_what_is_no_array_of_nodes(how, said):
    with pytest.raises(ZooError, match=said):
        Dataset.from_arrays([[0, 1]], **how)


@needs_dgl
def test_a_block_is_no_graph():
    with pytest.raises(ZooError, match="a block of a sampler"):
        Dataset.from_dgl(dgl.to_block(of_dgl()))


def test_edges_of_networkx_are_an_array():
    graph = networkx.path_graph(3)
    assert Dataset.from_arrays(graph.edges, ids=[0, 1, 2]).graph.num_edges() == 7


@pytest.mark.parametrize(
    ("width", "said"),
    [(1, "write `weight: edge_attr` to weigh"), (3, "write `edge_features: edge_attr` to read")],
)
def test_the_advice_on_data_of_edges_fits_its_shape(width, said):
    given = pyg(y=None, edge_attr=torch.ones(3, width))
    with pytest.raises(ZooError, match=f"{said}.*or `weights: ignore`"):
        Dataset.from_pyg(given)
    with pytest.raises(ZooError, match="write `weight: edge_weight` to weigh"):
        Dataset.from_pyg({**given, "edge_attr": torch.ones(3, 2), "edge_weight": torch.ones(3)})
    option = said.split("`")[1].split(": ")[0]
    assert Dataset.from_pyg(given, **{option: "edge_attr"}).graph.edata


# Lists of graphs


def a_set(**how):
    return Dataset.from_pyg([pyg(number) for number in range(6)], **how)


def test_a_label_of_another_name():
    graphs = [pyg(number, target=torch.tensor([number % 3])) for number in range(6)]
    assert Dataset.from_pyg(graphs, label="target").y.tolist() == [0, 1, 2] * 2
    assert Dataset.from_pyg(graphs, label="y").y.tolist() == [0, 1] * 3
    with pytest.raises(ZooError, match="label: no graph has 'taget'; did you mean 'target'"):
        Dataset.from_pyg(graphs, label="taget")


def test_a_feature_of_another_name():
    graphs = [pyg(number, deep=torch.full((3, 1), number)) for number in range(6)]
    assert Dataset.from_pyg(graphs, feature="deep").x[:, 0].tolist() == [n // 3 for n in range(18)]
    with pytest.raises(ZooError, match="graph 0 .*feature: there is no node data 'dep'"):
        Dataset.from_pyg(graphs, feature="dep")
    with pytest.raises(ZooError, match="'feat' and 'x' may both be the feature"):
        Dataset.from_pyg([pyg(number, feat=torch.ones(3, 1)) for number in range(6)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "nonsense"}, "no task is called 'nonsense'; .*graph-classification"),
        ({"task": "link-prediction"}, "task: link-prediction` at the top of the recipe"),
        (
            {"task": "node-binary"},
            "has one of the tasks graph-classification, .*, and node-binary is of",
        ),
        ({"weight": "w"}, "weight: the edges have no 'w'"),
        ({"weights": "use"}, "have none to use"),
        ({"edge_features": "e"}, "the edges have no 'e'"),
        ({"features": "row"}, "`features` is no option of a set of graphs"),
        ({"relations": "separate"}, "`relations` is no option of a set of graphs"),
        ({"direction": "up"}, "direction: 'up' is not known"),
        ({"duplicates": "min"}, "duplicates: 'min' is not known"),
        ({"lable": "y"}, "no option is called 'lable'; did you mean 'label'"),
    ],
)
def test_an_option_that_a_set_has_not_is_refused(options, said):
    with pytest.raises(ZooError, match=said):
        a_set(**options)
    with pytest.raises(ZooError, match=said):
        Dataset.from_dgl([of_dgl(), of_dgl()], labels=[0, 1], **options)


@pytest.mark.parametrize("door", ["from_pyg", "from_dgl"])
@pytest.mark.parametrize("direction", ["both", "in", "out", "separate"])
@pytest.mark.parametrize("duplicates", ["mean", "sum", "max"])
def test_edges_of_a_set_are_those_of_one_graph(door, direction, duplicates):
    ends = torch.tensor([[0, 0, 1, 2], [1, 1, 2, 2]])
    weight, features = torch.tensor([1.0, 3, 2, 5]), torch.arange(8.0).reshape(4, 2)
    if door == "from_pyg":
        graphs = [{"edge_index": ends, "x": torch.eye(3), "w": weight * n, "f": features + n}
                  for n in (1, 2)]  # fmt: skip
    else:
        graphs = [dgl.graph(tuple(ends), num_nodes=3) for _ in range(2)]
        for n, each in enumerate(graphs, 1):
            each.ndata["x"] = torch.eye(3)
            each.edata.update({"w": weight * n, "f": features + n})
    read, how = getattr(Dataset, door), {"direction": direction, "duplicates": duplicates}
    data = read(graphs, weight="w", edge_features="f", **how)
    for graph, held in zip(graphs, data.graphs.graphs, strict=True):
        one = read(graph, weight="w", edge_features="f", **how).graph
        assert all(map(torch.equal, one.edges(), held.edges()))
        assert torch.equal(one.edata[WEIGHT], held.edata[WEIGHT])
        assert torch.equal(one.edata[FEATURE], held.edata[FEATURE])
    batch, _ = data.batch(torch.tensor([1, 0]))
    counts = batch.in_degrees()  # a batch holds edges by target
    of_target = torch.repeat_interleave(torch.arange(6), counts)
    source, target = batch.edges(order="eid")
    assert torch.equal(target, of_target) and WEIGHT in batch.edata
    second = torch.zeros(3, 3, dtype=torch.bool)
    second[data.graphs.graphs[1].edges()[::-1]] = True
    dense = torch.zeros(6, 6, dtype=torch.bool)
    dense[target, source] = True
    assert torch.equal(dense[:3, :3], second)


def test_a_weighted_set_is_seen_by_a_model():
    graphs = [pyg(n, w=torch.tensor([1.0, 2, 3])) for n in range(4)]
    plain, weighted = (Dataset.from_pyg(graphs, **how) for how in ({"weights": "ignore"},
                                                                    {"weight": "w"}))  # fmt: skip
    model = zoo.create_model("gcn", 2, 2, dim=4).eval()
    chosen = torch.arange(4)
    told = [model(*each.batch(chosen)).logits for each in (plain, weighted)]
    one = Dataset.from_pyg(graphs[2] | {"y": None}, weight="w")
    torch.testing.assert_close(told[1][6:9], model(one.graph, one.x).logits)
    assert not torch.allclose(*told)


def test_a_split_and_degrees():
    assert a_set(split="ratio-60-20-20").split == "ratio-60-20-20"
    assert a_set().split == "stratified-80-10-10" and a_set(degrees=2).inputs == 5
    for door, one in (("from_pyg", pyg(y=None)), ("from_dgl", of_dgl())):
        with pytest.raises(ZooError, match="`degrees` is of a list of graphs, and this is one"):
            getattr(Dataset, door)(one, degrees=2)
    with pytest.raises(ZooError, match="`labels` is of a list.*Labels of nodes are node data"):
        Dataset.from_dgl(of_dgl(), labels=[0, 1, 0])


def test_what_is_not_read_is_told_once(caplog):
    caplog.set_level(logging.WARNING)
    extra = {
        "pos": torch.eye(3),
        "target": torch.tensor([1]),
        "batch": torch.zeros(3),
        "n_id": EDGES,
    }
    Dataset.from_pyg([pyg(number, **extra) for number in range(6)])
    Dataset.from_pyg(pyg(**{**extra, "y": None}))
    graph = of_dgl()
    graph.ndata["year"], graph.ndata["_ID"] = torch.arange(3), torch.arange(3)
    Dataset.from_dgl([graph, graph], labels=[0, 1])
    Dataset.from_dgl(graph)
    held = [each.partition(" not read")[0] for each in caplog.messages]
    assert held == ["'pos', 'target' are"] * 2 + ["'year' is"] * 2


def test_data_sets_are_lists():
    graphs = [pyg(number) for number in range(6)]
    data = Dataset.from_pyg(DatasetOfPyG(graphs))
    assert data.y.tolist() == [0, 1] * 3 and torch.equal(data.x, a_set().x)
    alone = Dataset.from_pyg(DatasetOfPyG([pyg(y=torch.tensor([0, 1, 0]))]))
    assert isinstance(alone, Dataset) and alone.y.tolist() == [0, 1, 0]


def test_a_label_of_the_whole_graph_is_none_of_its_nodes():
    for y in (1, torch.tensor([1]), torch.tensor([[1]])):
        with pytest.raises(
            ZooError, match="`y` has the shape .*there are 3 nodes.*a set of graphs"
        ):
            Dataset.from_pyg(pyg(y=y))
    with pytest.raises(ZooError, match=r"graph 0 .* has the shape \(3,\).*write one graph"):
        Dataset.from_pyg([pyg(y=torch.tensor([0, 1, 0]))])
    with pytest.raises(
        ZooError, match="graph-classification is of a set of graphs, and this is one"
    ):
        Dataset.from_pyg(pyg(y=None), task="graph-classification")


def test_of_several_labels_none_is_taken_in_silence():
    with pytest.raises(ZooError, match="'label' and 'y' may both be the label; .*`label: label`"):
        Dataset.from_pyg(pyg(y=torch.arange(3), label=torch.arange(3)))
    with pytest.raises(ZooError, match="the graphs have 'label' and 'y'; .*`label: y`"):
        Dataset.from_pyg([pyg(number, label=number) for number in range(4)])
    with pytest.raises(ZooError, match="holds 0.5 at graph 1, target 2; .*graph-regression"):
        Dataset.from_pyg([pyg(y=torch.zeros(1, 3)), pyg(y=torch.tensor([[0, 1, 0.5]]))])
    with pytest.raises(ZooError, match="type float.*graph-regression"):
        Dataset.from_pyg([pyg(y=torch.rand(1)) for _ in range(4)])
    graph = of_dgl()
    graph.ndata["labels"] = graph.ndata["label"] = torch.arange(3)
    with pytest.raises(ZooError, match="'label' and 'labels' may both be the label"):
        Dataset.from_dgl(graph)
    assert Dataset.from_dgl(graph, label="labels").y.tolist() == [0, 1, 2]
    column = {"edge_index": EDGES, "x": torch.eye(3), "y": torch.tensor([[0], [1], [0]])}
    assert Dataset.from_pyg(column).y.tolist() == [0, 1, 0]
    assert Dataset.from_pyg(column, task="node-multilabel").y.tolist() == [[0], [1], [0]]


# Lists of DGL


LABELS = torch.tensor([0, 1, 0, 1])


def graphs_of_dgl():
    return [of_dgl(number) for number in range(4)]


@pytest.mark.parametrize(
    "given",
    [
        lambda: ((graphs_of_dgl(),), {"labels": LABELS}),
        lambda: ((tuple(graphs_of_dgl()),), {"labels": LABELS[:, None]}),
        lambda: ((graphs_of_dgl(),), {"labels": LABELS.tolist()}),
        lambda: ((graphs_of_dgl(),), {"labels": {"a": LABELS, "b": 1 - LABELS}, "label": "a"}),
        lambda: ((list(zip(graphs_of_dgl(), LABELS, strict=True)),), {}),
        lambda: (((graphs_of_dgl(), {"glabel": LABELS}),), {}),
        lambda: ((DatasetOfPyG(list(zip(graphs_of_dgl(), LABELS, strict=True))),), {}),
    ],
    ids=["tensor", "column", "list", "by name", "pairs", "as loaded", "data set"],
)
def test_sets_of_dgl(given):
    args, how = given()
    data = Dataset.from_dgl(*args, **how)
    assert data.task == "graph-classification" and data.y.tolist() == LABELS.tolist()
    assert torch.equal(data.x, torch.cat([pyg(number)["x"] for number in range(4)]))
    assert data.graphs.sizes.tolist() == [3] * 4 and data.edge_dim == 0


def test_labels_of_dgl_have_names_or_are_unknown():
    named = Dataset.from_dgl(graphs_of_dgl(), labels=["b", "a", "", "b"])
    assert named.labels == ("a", "b") and named.y.tolist() == [1, 0, -1, 1]
    assert Dataset.from_dgl(graphs_of_dgl()).y.tolist() == [-1] * 4
    alone = Dataset.from_dgl(([of_dgl()], {}))
    assert isinstance(alone, Dataset) and len(alone.y) == 3


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"labels": LABELS[:3]}, "there are 4 graphs and 3 labels"),
        (
            {"labels": torch.zeros(4, 2, 2)},
            r"`labels` has the shape \(1, 2, 2\), and a graph has one class",
        ),
        ({"labels": torch.rand(4)}, "of the type float"),
        (
            {"labels": {"a": LABELS, "b": LABELS}},
            "several labels, 'a', 'b'; write which, `label: a`",
        ),
        (
            {"labels": {"a": LABELS}, "label": "c"},
            "there are no labels 'c' of the graphs; choose from a",
        ),
    ],
)
def test_labels_that_are_no_classes_of_graphs(how, said):
    with pytest.raises(ZooError, match=said):
        Dataset.from_dgl(graphs_of_dgl(), **how)


def test_other_lists_of_dgl():
    with pytest.raises(ZooError, match=r"a batch of graphs; write a list, dgl.unbatch\(graph\)"):
        Dataset.from_dgl(dgl.batch(graphs_of_dgl()), labels=LABELS)
    with pytest.raises(ZooError, match="no labels 'y' of the graphs; write `labels`"):
        Dataset.from_dgl(graphs_of_dgl(), label="y")
    with pytest.raises(ZooError, match="number 1 of the list is an int, and no DGLGraph"):
        Dataset.from_dgl([of_dgl(), 3])
    with pytest.raises(ZooError, match="a list of pairs of both"):
        Dataset.from_dgl([(of_dgl(), 1)], labels=[1])
    with pytest.raises(ZooError, match="number 1 of the list is an int, and no graph"):
        Dataset.from_pyg([pyg(), 3])
    wide = of_dgl()
    wide.ndata["feat"] = torch.ones(3, 5)
    with pytest.raises(ZooError, match="unlike features: of nodes 2, 5 columns"):
        Dataset.from_dgl([of_dgl(), wide])


@pytest.mark.parametrize(("size", "far"), [(1.0, False), (50_000.0, True)])
def test_a_matrix_far_from_0_and_1_is_told_and_the_way_works(size, far, caplog):
    x = size * np.random.default_rng(0).normal(size=(20, 2))
    data = Dataset.from_arrays(np.zeros((0, 2), int), x, np.arange(20) % 2)
    assert ("features of mine lie apart in scale" in caplog.text) is far
    assert np.allclose(data.x, x, rtol=1e-5)  # it is taken as it is
    assert not far or "data.transformed('standard', train=split.train)" in caplog.text
    assert data.transformed("standard").x.std(dim=0, correction=0).tolist() == pytest.approx([1, 1])


def test_standardised_attributes_of_networkx_are_told(caplog):
    graph = networkx.path_graph(4)
    for node in graph:
        graph.nodes[node].update(pay=100 * node, member=node % 2)
    Dataset.from_networkx(graph, numbers="raw")
    assert "standardised" not in caplog.text
    Dataset.from_networkx(graph)
    assert "numbers of mine are standardised by all nodes (pay); `data.trained_on(" in caplog.text


def test_scales_of_training_nodes_are_those_of_attributes_and_of_matrices():
    graph, x = networkx.path_graph(6), np.array([[1.0], [2], [3], [4], [50], [60]])
    for node in graph:
        graph.nodes[node]["pay"] = x[node, 0]
    train = torch.arange(4)
    table = Dataset.from_networkx(graph)
    assert not torch.allclose(table.x, table.trained_on(train).x)
    matrix = Dataset.from_arrays(np.array(graph.edges), x).encoded(lambda graph: torch.ones(6, 2))
    scaled = matrix.transformed("standard", train=train)
    assert torch.allclose(scaled.x[:, :1], table.trained_on(train).x)
    assert torch.equal(scaled.x[:, 1:], torch.ones(6, 2)), "an encoding stays as it is"
    assert torch.equal(matrix.transformed("standard", scaled.moments).x, scaled.x)


def test_an_encoding_that_would_be_lost_with_columns_learnt_anew_is_said():
    graph = networkx.path_graph(4)
    networkx.set_node_attributes(graph, {node: 10 * node for node in graph}, "pay")
    data, train = Dataset.from_networkx(graph), torch.arange(2)
    with pytest.raises(ZooError, match="of `add_features` would be lost; write `data.encoded"):
        data.add_features(torch.ones(4, 2)).trained_on(train)
    assert data.encoded(lambda graph: torch.ones(4, 2)).trained_on(train).inputs == 3
