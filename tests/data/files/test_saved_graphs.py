"""Files of PyTorch and of DGL: one graph or several, and what is no graph at all."""

import collections
import zipfile

import networkx
import numpy as np
import pytest
import torch
from needs_dgl import needs_dgl

from zoo import Dataset, ZooError, load_data, load_graph
from zoo.canonical_form import FEATURE, WEIGHT
from zoo.data.files.dgl_and_pyg import is_list
from zoo.dgl import dgl

EDGES = torch.tensor([[0, 1, 2], [1, 2, 0]])
GRAPHS = "graph-classification"


def one(number=0, **more):
    generator = torch.Generator().manual_seed(number)
    x = torch.rand(3 + number % 2, 2, generator=generator)
    given = {"edge_index": EDGES, "x": x, "y": torch.tensor([number % 2])}
    return {key: each for key, each in {**given, **more}.items() if each is not None}


GIVEN = [one(number) for number in range(6)]


def processed(graphs, **more):
    """A set as PyG saves it in its folder `processed`: tensors one after another, and slices."""
    joined = {key: torch.cat([each[key] for each in graphs], dim=-1 if "index" in key else 0)
              for key in graphs[0]}  # fmt: skip
    slices = {}
    for key in graphs[0]:
        sizes = [each[key].shape[-1 if "index" in key else 0] for each in graphs]
        slices[key] = torch.tensor([0, *np.cumsum(sizes).tolist()])
    return {**joined, **more}, slices


def is_the_set(data):
    assert data.task == GRAPHS and data.y.tolist() == [0, 1] * 3
    assert torch.equal(data.x, torch.cat([each["x"] for each in GIVEN]))
    assert data.graphs.sizes.tolist() == [3, 4] * 3


@pytest.mark.parametrize("write", [list, tuple], ids=["list", "tuple"])
@pytest.mark.parametrize("task", [{}, {"task": GRAPHS}], ids=["", "task"])
def test_a_list_of_graphs_is_a_set(write, task, tmp_path, monkeypatch, zoo):
    monkeypatch.chdir(tmp_path)
    torch.save(write(GIVEN), "set.pt")
    is_the_set(load_data("set.pt", **task))
    is_the_set(Dataset.from_pyg(write(GIVEN), **task))
    with pytest.raises(ZooError, match="no graph, but 6 samples; load it by `zoo.load_data`"):
        load_graph("set.pt", **task)
    code, said = zoo("data", "check", "set.pt", *(f"{key}={each}" for key, each in task.items()))
    assert code == 0 and "6 of 6 samples" in said.out


def test_options_of_a_list_in_a_file(tmp_path):
    path = str(tmp_path / "set.pt")
    weight = torch.tensor([1.0, 2, 3])
    torch.save(
        [one(n, kind=torch.tensor(n % 3), w=weight, e=weight[:, None]) for n in range(6)], path
    )
    data = load_data(path, label="kind", weight="w", edge_features="e", direction="in", degrees=1)
    assert data.y.tolist() == [0, 1, 2] * 2 and data.inputs == 4
    [held] = {tuple(each.edata[WEIGHT].tolist()) for each in data.graphs.graphs[::2]}
    assert sorted(held) == [0, 0, 0, 1, 1, 1, 1, 2, 3] and data.edge_dim == 1
    for options, said in (
        ({"label": "kin"}, "no graph has 'kin'; did you mean 'kind'"),
        ({"lable": "kind"}, "no option 'lable'; did you mean 'label'"),
        ({"weight": "v"}, "the edges have no 'v'"),
        ({"features": "rows"}, "did you mean 'row'"),
        ({"task": "node-classification"}, "task: should be 'graph-classification'"),
        ({"task": "node-dreaming"}, "no task is called 'node-dreaming'; did you mean"),
    ):
        with pytest.raises(ZooError, match=said):
            load_data(path, **options)


def test_tasks_that_labels_do_not_have(tmp_path, monkeypatch, zoo):
    monkeypatch.chdir(tmp_path)
    torch.save([one(n, y=torch.rand(1)) for n in range(6)], "set.pt")
    torch.save(one(), "one.pt")
    assert zoo("data", "check", "set.pt", "task=graph-regression")[0] == 0
    for name, task, words in (
        ("set.pt", "graph-classification", "some are fractions"),
        ("mutag", "graph-regression", "no option 'task'"),
    ):
        code, said = zoo("data", "check", name, f"task={task}")
        assert code == 2 and words in " ".join(said.err.split()), name
    code, said = zoo("data", "check", "one.pt", "task=link-prediction")
    assert code == 2 and "at the top of the recipe" in " ".join(said.err.split())
    with pytest.raises(ZooError, match="of the type float.*task: graph-regression"):
        load_data("set.pt")


def test_what_pyg_keeps_in_processed(tmp_path):
    path = str(tmp_path / "data.pt")
    data, slices = processed(GIVEN)
    torch.save((data, slices, collections.OrderedDict), path)  # the class that it ends in is any
    with pytest.raises(ZooError, match="a set of 6 graphs; write `task: graph-classification`"):
        load_data(path)
    is_the_set(load_data(path, task=GRAPHS))
    is_the_set(Dataset.from_pyg((data, slices)))
    bare = [{key: each[key] for key in ("edge_index", "y")} for each in GIVEN]
    data, slices = processed(bare, num_nodes=21, _num_nodes=[3, 4] * 3, name=list("abcdef"))
    slices["name"] = torch.arange(7)
    torch.save((data, slices), path)
    found = load_data(path, task=GRAPHS)
    assert found.graphs.sizes.tolist() == [3, 4] * 3 and found.y.tolist() == [0, 1] * 3
    torch.save((data, slices, {"num_node_labels": 2}, collections.OrderedDict), path)
    assert load_data(path).y.tolist() == [0, 1] * 3  # as those of TU are kept
    torch.save((one(y=torch.tensor([0, 1, 0])), None, collections.OrderedDict), path)
    alone = load_graph(path)
    assert alone.y.tolist() == [0, 1, 0] and len(alone.x) == 3
    torch.save((data, {"paper": {"x": torch.arange(3)}}), path)
    with pytest.raises(ZooError, match="several kinds of nodes, saved as one; write torch.save"):
        load_data(path, task=GRAPHS)


def test_a_batch_is_a_set(tmp_path):
    joined, _ = processed(GIVEN)
    starts = torch.tensor([0, *np.cumsum([3, 4] * 3).tolist()])
    joined |= {"ptr": starts, "batch": torch.repeat_interleave(starts.diff())}
    torch.save(joined, tmp_path / "batch.pt")
    for read in (lambda: Dataset.from_pyg(joined), lambda: load_graph(tmp_path / "batch.pt")):
        with pytest.raises(ZooError, match=r"a batch of 6 graphs.*batch.to_data_list\(\)"):
            read()
    assert len(Dataset.from_pyg({**joined, "y": torch.arange(21) % 2}).y) == 21  # labels of nodes


ADJACENCY = torch.tensor([[0, 0, 1], [1, 0, 0], [0, 1, 0]])  # of each target the sources


class SparseTensor:
    """What torch_sparse calls so, as far as it is looked at."""

    def __init__(self, dense):
        self.dense = dense

    def sparse_sizes(self):
        return self.dense.shape

    def coo(self):
        row, col = self.dense.nonzero().T
        return row, col, self.dense[row, col]


@pytest.mark.parametrize(
    "made",
    [lambda a: a.to_sparse_csr(), lambda a: a.to_sparse(), SparseTensor],
    ids=["csr", "coo", "torch_sparse"],
)
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_a_transposed_matrix_stands_for_edges(made, tmp_path):
    y, attributes = torch.tensor([0, 1, 0]), torch.tensor([[20.0], [0], [10]])  # by target
    ordered = {"edge_index": torch.tensor([[2, 0, 1], [0, 1, 2]]), "edge_attr": attributes}
    given = {"adj_t": made(ADJACENCY.float()), "x": torch.eye(3), "y": y, "edge_attr": attributes}
    how = {"edge_features": "edge_attr", "direction": "in"}
    wanted = Dataset.from_pyg({**ordered, "x": torch.eye(3), "y": y}, **how).graph
    found = [Dataset.from_pyg(given, **how)]
    if made is not SparseTensor:
        torch.save(given, tmp_path / "g.pt")
        found.append(load_graph(tmp_path / "g.pt", **how))
    for data in found:
        assert all(map(torch.equal, data.graph.edges(), wanted.edges()))
        assert torch.equal(data.graph.edata[FEATURE], wanted.edata[FEATURE])
        assert torch.equal(data.graph.edata[WEIGHT], wanted.edata[WEIGHT])
    heavy = {**given, "adj_t": made(3 * ADJACENCY.float())}
    with pytest.raises(ZooError, match="the edges have 'edge_weight', 'edge_attr'; write"):
        Dataset.from_pyg(heavy)
    assert Dataset.from_pyg(heavy, weight="edge_weight").graph.edata[WEIGHT].max() == 3


def heterogeneous():
    return {
        "paper": {"x": torch.rand(4, 2), "y": torch.arange(4) % 2, "topic": torch.arange(4)},
        "author": {"x": torch.rand(3, 2), "y": torch.arange(3) % 2},
        ("author", "wrote", "paper"): {"edge_index": torch.tensor([[0, 1], [2, 3]])},
        "_global_store": {"y": torch.tensor([1])},
    }


def test_the_label_of_one_kind_of_nodes(tmp_path, caplog):
    given = heterogeneous()
    torch.save(given, tmp_path / "g.pt")
    for label in (None, "y"):
        with pytest.raises(ZooError, match="2 kinds have labels .*write which, `label: paper.y`"):
            Dataset.from_pyg(given, label=label)
    for data in (Dataset.from_pyg(given, label="paper.y"),
                 load_graph(tmp_path / "g.pt", label="paper.y")):  # fmt: skip
        assert data.y.tolist() == [0, 1, 0, 1, -1, -1, -1]
    assert Dataset.from_pyg(given, label="author.y").y.tolist() == [-1] * 4 + [0, 1, 0]
    assert Dataset.from_pyg(given, label="topic").y.tolist() == [0, 1, 2, 3, -1, -1, -1]
    assert "'paper.topic' is not read" in caplog.text
    with pytest.raises(ZooError, match="no kind of nodes has 'papr.y'; did you mean 'paper.y'"):
        Dataset.from_pyg(given, label="papr.y")
    with pytest.raises(ZooError, match="feature: no kind of nodes has 'emb'"):
        Dataset.from_pyg(given, label="paper.y", feature="emb")
    bare = [{**heterogeneous(), "_global_store": {"y": torch.tensor([n])}} for n in (0, 1, 1)]
    for each in bare:
        del each["paper"]["y"], each["author"]["y"]
    assert Dataset.from_pyg(bare).y.tolist() == [0, 1, 1]


def test_the_same_label_in_tables_of_two_kinds(tmp_path):
    (tmp_path / "nodes-a.csv").write_text("id,x,kind\na0,1,u\na1,2,v\n")
    (tmp_path / "nodes-b.csv").write_text("id,x,kind\nb0,1,w\nb1,2,v\n")
    (tmp_path / "edges-a-b.csv").write_text("source,target\na0,b1\n")
    with pytest.raises(ZooError, match="2 kinds have labels .*`label: a.kind`"):
        load_graph(tmp_path, label="kind")
    data = load_graph(tmp_path, label="b.kind")
    assert data.y.tolist() == [-1, -1, 1, 0] and data.labels == ("v", "w")
    assert data.feature_names == ("a.x", "b.x", "kind=a", "kind=b")
    with pytest.raises(ZooError, match="no kind of nodes has 'kin'; did you mean"):
        load_graph(tmp_path, label="kin")


def test_numbers_of_nodes_are_those_of_the_features():
    edges = {"edge_index": EDGES, "flow": torch.ones(30), "w": torch.ones(3)}
    data = Dataset.from_pyg({**edges, "x": torch.ones(5, 1)}, weight="w")
    assert len(data.x) == 5 and data.graph.edata[WEIGHT].shape == (11,)
    assert len(Dataset.from_pyg({"edge_index": EDGES, "y": torch.zeros(7).long()}).x) == 7
    assert len(Dataset.from_pyg({"edge_index": EDGES, "num_nodes": 4}).x) == 4
    arrays = {"edge_index": EDGES.numpy(), "x": np.eye(3), "y": [0, 1, 0]}
    assert Dataset.from_pyg(arrays).y.tolist() == [0, 1, 0]
    named = Dataset.from_pyg({**arrays, "y": ["b", "a", ""]})
    assert named.labels == ("a", "b") and named.y.tolist() == [1, 0, -1]
    with pytest.raises(
        ZooError, match=r"`y` has the shape \(3,\), and there are 4 nodes; write a row"
    ):
        Dataset.from_pyg({**arrays, "num_nodes": 4})
    with pytest.raises(ZooError, match="float32 of the shape .*should be int64"):
        Dataset.from_pyg({"edge_index": EDGES.float()})
    with pytest.raises(ZooError, match=r"\(2, E\); write edge_index.T"):
        Dataset.from_pyg({"edge_index": torch.zeros(5, 2).long()})


class Mine:
    """A class that nobody knows."""


HELD = {
    "an unknown class": (lambda: {"x": Mine()}, ["Mine", "never unpickled", "data.to_dict()"]),
    "numpy": (lambda: {"x": np.eye(2)}, ["numpy.", "no file of plain tensors"]),
    "networkx": (lambda: networkx.path_graph(2), ["networkx.", "write_graphml"]),
    "one tensor": (lambda: torch.eye(2), ["a torch.Tensor of the shape (2, 2), and no graph"]),
    "text": (lambda: "hello", ["the text 'hello', and no graph"]),
    "weights of a model": (
        lambda: torch.nn.Linear(2, 2).state_dict(), ["no `edge_index`, but 'weight', 'bias'"]),
    "numbers": (lambda: [1, 2], ["number 0 of the list is an int, and no graph", "edge_index"]),
    "two tensors": (lambda: (EDGES, torch.eye(2)), ["a list of 2, the first of type Tensor"]),
    "nothing": (lambda: [], ["there are no graphs in the list"]),
}  # fmt: skip


@pytest.mark.parametrize("case", HELD)
def test_what_else_a_file_holds_is_said(case, tmp_path):
    make, words = HELD[case]
    path = tmp_path / "g.pt"
    torch.save(make(), path)
    with pytest.raises(ZooError) as caught:
        load_data(str(path))
    text = str(caught.value)
    assert text.startswith(f"{path}: ") and "damaged" not in text
    for word in words:
        assert word in text, text


def test_classes_that_are_no_longer_there_are_told_what_to_write(tmp_path):
    """As files of PyG, torch_sparse and DGL are where these are not installed, or not allowed."""
    torch.save({"x": Mine()}, tmp_path / "mine.pt")
    for module, name, said in (
        ("torch_geometric.data.batch", "Batch", "torch.save.*for data in graphs"),
        ("torch_geometric.data.data", "Other", "torch.save.data.to_dict"),
        ("torch_sparse.tensor", "SparseTensor", "never unpickled"),
        ("dgl.heterograph", "DGLGraph", "dgl.save_graphs"),
    ):
        path = tmp_path / f"{name}.pt"
        with zipfile.ZipFile(tmp_path / "mine.pt") as old, zipfile.ZipFile(path, "w") as new:
            for member in old.namelist():
                raw = old.read(member)
                own = f"c{Mine.__module__}\n{Mine.__name__}\n".encode()
                new.writestr(member, raw.replace(own, f"c{module}\n{name}\n".encode()))
        with pytest.raises(ZooError, match=f"objects of {module}.{name}, .*{said}"):
            load_graph(path)


def test_the_first_bytes_tell_a_list(tmp_path):
    for number, (held, said) in enumerate(
        (([one()], True), ((1, 2, 3, 4), True), ((1, 2), False), (one(), False), ([], True))
    ):
        for protocol in (2, 4):
            path = tmp_path / f"{number}-{protocol}.pt"
            torch.save(held, path, pickle_protocol=protocol)
            assert is_list(path) == said
    torch.save(GIVEN, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    assert not is_list(tmp_path / "old.pt") and not is_list(tmp_path / "none.pt")
    with pytest.raises(ZooError, match="a set of 6 graphs; write `task: graph-classification`"):
        load_graph(tmp_path / "old.pt")
    is_the_set(load_data(str(tmp_path / "old.pt"), task=GRAPHS))


@needs_dgl
def test_sets_in_files_of_dgl(tmp_path, monkeypatch, zoo, caplog):
    monkeypatch.chdir(tmp_path)
    graphs = []
    for each in GIVEN:
        graph = dgl.graph(tuple(EDGES), num_nodes=len(each["x"]))
        graph.ndata["feat"], graph.edata["w"] = each["x"], torch.tensor([1.0, 2, 3])
        graphs.append(graph)
    labels = torch.tensor([0, 1] * 3)
    dgl.save_graphs("set.bin", graphs, {"a": labels, "b": torch.rand(6, 3)})
    is_the_set(load_data("set.bin", label="a", weights="ignore"))
    weighted = load_data("set.bin", label="a", weight="w", task=GRAPHS)
    one = Dataset.from_dgl(graphs[0], weight="w").graph
    assert torch.equal(weighted.graphs.graphs[0].edata[WEIGHT], one.edata[WEIGHT])
    assert torch.equal(one.edata[WEIGHT].unique(), torch.tensor([1.0, 2, 3]))
    with pytest.raises(ZooError, match="set.bin: there are several labels, 'a', 'b'; write which"):
        load_data("set.bin")
    with pytest.raises(ZooError, match="task: should be 'graph-classification'"):
        load_graph("set.bin", task="node-binary")
    code, said = zoo("data", "check", "set.bin", "label=a", "weights=ignore")
    assert code == 0 and "6 of 6 samples" in said.out
    caplog.clear()
    dgl.save_graphs("one.bin", graphs[:1], {"a": labels[:1]})
    assert len(load_graph("one.bin", weights="ignore").x) == 3
    assert "one.bin holds 'a' beside its graph, not read" in caplog.text
    assert load_data("one.bin", task=GRAPHS, weights="ignore").y.tolist() == [0]
