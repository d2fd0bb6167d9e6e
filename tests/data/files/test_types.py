"""Numbers of any type, dense and sparse, are read as they are, from whatever holds them."""

import networkx
import numpy as np
import pandas
import pytest
import torch
from needs_dgl import needs_dgl
from scipy import sparse

from zoo import Dataset, ZooError, load_graph
from zoo.canonical_form import FEATURE, WEIGHT
from zoo.data.files.objects import sparse_entries, to_numpy, to_scipy
from zoo.dgl import dgl

pytestmark = pytest.mark.filterwarnings("ignore:.*(Sparse|nested):UserWarning")

EDGES = np.array([[0, 1], [1, 2], [2, 3]])
X = np.array([[1, 0], [0.5, 0], [0, 2], [0, 4.0]])
W = np.array([1, 2, 0.5])
Y = [0, 1, 0, 1]
SHORT = [torch.bfloat16, torch.float16, torch.float8_e4m3fn]
NAMED = {"weight": "w", "edge_features": "f"}
SPARSE = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc]


class SparseTensor:
    """What torch_sparse calls so, as far as it is looked at."""

    def __init__(self, dense, valued=True):
        self.dense, self.valued = dense, valued

    def sparse_sizes(self):
        return self.dense.shape

    def coo(self):
        row, col = self.dense.nonzero().T
        return row, col, self.dense[row, col] if self.valued else None


def in_dgl(kind):
    graph = dgl.graph(tuple(torch.from_numpy(EDGES.T.copy())), num_nodes=4)
    graph.ndata["feat"], graph.ndata["label"] = torch.tensor(X).to(kind), torch.tensor(Y)
    graph.edata["w"] = torch.tensor(W).to(kind)
    graph.edata["f"] = torch.tensor(W)[:, None].to(kind)
    return graph


def in_pyg(kind):
    weight = torch.tensor(W).to(kind)
    return {"edge_index": torch.tensor(EDGES.T), "x": torch.tensor(X).to(kind), "w": weight,
            "y": torch.tensor(Y), "f": weight[:, None]}  # fmt: skip


def in_networkx(kind):
    graph = networkx.Graph()
    for node, (row, label) in enumerate(zip(X, Y, strict=True)):
        graph.add_node(node, x=torch.tensor(row).to(kind), y=torch.tensor(label))
    for (source, target), weight in zip(EDGES.tolist(), W, strict=True):
        weight = torch.tensor(weight).to(kind)
        graph.add_edge(source, target, w=weight, f=weight[None])
    return graph


def is_read(data):
    assert data.x.dtype == torch.float32 and data.x.tolist() == X.tolist()
    assert data.y.tolist() == Y
    source, target = data.graph.edges()
    rows = [(a, b) for a, b in zip(source.tolist(), target.tolist(), strict=True)]
    for key in (WEIGHT, FEATURE):
        found = dict(zip(rows, data.graph.edata[key].flatten().tolist(), strict=True))
        assert [found[a, b] for a, b in EDGES.tolist()] == W.tolist()


@needs_dgl
@pytest.mark.parametrize("kind", SHORT, ids=str)
def test_short_numbers_are_read_as_float32(kind, tmp_path):
    x, weight = torch.tensor(X).to(kind), torch.tensor(W).to(kind)
    is_read(Dataset.from_arrays(EDGES, x, Y, weights=weight, edge_features=weight[:, None]))
    is_read(Dataset.from_arrays(EDGES, [*x], Y, weights=[*weight], edge_features=weight[:, None]))
    is_read(Dataset.from_pyg(in_pyg(kind), **NAMED))
    torch.save(in_pyg(kind), tmp_path / "g.pt")
    is_read(load_graph(tmp_path / "g.pt", **NAMED))
    is_read(Dataset.from_networkx(in_networkx(kind), label="y", numbers="raw", **NAMED))
    ring = torch.zeros(4, 4)
    ring[tuple(EDGES.T)] = torch.tensor(W, dtype=torch.float32)
    data = Dataset.from_scipy(ring.to(kind), x, Y, weights="use")
    assert torch.equal(data.x, torch.tensor(X).float()) and data.graph.edata[WEIGHT].max() == 2
    if kind != torch.float8_e4m3fn:  # DGL has no such numbers
        is_read(Dataset.from_dgl(in_dgl(kind), **NAMED))
    if kind == torch.bfloat16:
        dgl.save_graphs(str(tmp_path / "g.bin"), [in_dgl(kind)])
        is_read(load_graph(tmp_path / "g.bin", **NAMED))


def test_short_labels_and_masks():
    given = in_pyg(torch.bfloat16) | {"y": torch.tensor(W[[0, 1, 2, 2]]).bfloat16()}
    masks = {f"{part}_mask": torch.arange(4).eq(at).bfloat16()
             for at, part in enumerate(("train", "val", "test"))}  # fmt: skip
    data = Dataset.from_pyg(given | masks, task="node-regression", weights="ignore")
    assert data.y.tolist() == [1, 2, 0.5, 0.5] and data.masks["val"].tolist() == [[0, 1, 0, 0]]
    masks = {
        part: torch.arange(4).eq(at).half() for at, part in enumerate(("train", "val", "test"))
    }
    assert Dataset.from_arrays(EDGES, X, Y, masks=masks).masks["test"].tolist() == [[0, 0, 1, 0]]


@pytest.mark.parametrize("what", ["x", "y", "w", "f"])
def test_complex_numbers_are_refused_by_name(what):
    given = in_pyg(torch.float32)
    given[what] = given[what].to(torch.complex64)
    told = {"x": "node_features", "y": "node_labels"}.get(what, f"'{what}'")
    with pytest.raises(ZooError, match=f"{told}.* complex64"):
        Dataset.from_pyg(given, **NAMED)
    names = {"x": "features", "y": "labels", "w": "weights", "f": "edge_features"}
    arrays = {names[key]: given[key] for key in names}
    with pytest.raises(ZooError, match=f"`{names[what]}` is of type complex64"):
        Dataset.from_arrays(EDGES, **arrays)
    with pytest.raises(ZooError, match="the matrix is complex128"):
        Dataset.from_scipy(np.eye(4) * 1j)
    graph = networkx.path_graph(2)
    for value in (1j, torch.tensor(1j), np.array([1j, 2])):
        graph.nodes[1]["x"] = value
        with pytest.raises(ZooError, match="attribute 'x' is .* at the node 1; write a number"):
            Dataset.from_networkx(graph)


@pytest.mark.parametrize("layout", SPARSE, ids=str)
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=str)
def test_sparse_tensors_are_features_and_matrices(layout, kind, tmp_path):
    x = torch.tensor(X).to(kind).to_sparse(layout=layout)
    given = {"edge_index": torch.tensor(EDGES.T), "x": x, "y": torch.tensor(Y)}
    torch.save(given, tmp_path / "g.pt")
    ring = torch.zeros(4, 4)
    ring[tuple(EDGES.T)] = 1
    found = [
        Dataset.from_pyg(given),
        load_graph(tmp_path / "g.pt"),
        Dataset.from_arrays(EDGES, x, Y),
        Dataset.from_scipy(ring.to(kind).to_sparse(layout=layout), x, Y),
        Dataset.from_pyg({**given, "x": SparseTensor(torch.tensor(X))}),
        Dataset.from_scipy(SparseTensor(ring, valued=False), SparseTensor(torch.tensor(X)), Y),
    ]
    for data in found:
        assert data.x.tolist() == X.tolist() and data.graph.num_edges() == 10
        assert WEIGHT not in data.graph.edata


def test_a_matrix_of_torch_is_one_of_scipy():
    dense = torch.tensor([[0, 2.0], [3, 0]])
    for each in (dense.to_sparse(), dense.to_sparse_csr(), SparseTensor(dense)):
        assert (to_scipy(each).toarray() == dense.numpy()).all()
        ends, numbers, shape = sparse_entries(each)
        assert (ends.tolist(), numbers.tolist(), shape) == ([[0, 1], [1, 0]], [2, 3], (2, 2))
        if isinstance(each, torch.Tensor):
            assert (to_numpy(each, "x") == dense.numpy()).all()
    assert to_scipy(dense) is None and sparse_entries([[1]]) is None
    assert sparse.issparse(to_scipy(sparse.eye(2)))


def test_what_is_no_array_is_said_by_name():
    with pytest.raises(ZooError, match="`features` cannot be read as an array.* a list"):
        Dataset.from_arrays(EDGES, [[1, 2], [3], [4], [5]], Y)
    assert to_numpy(torch.ones(1).expand(4), "x").tolist() == [1] * 4
    with pytest.raises(ZooError, match=r"\(3,\) .*of one np.asarray\(features\)\[:, None\]"):
        Dataset.from_arrays(EDGES[:2], [1.0, 2, 3], Y[:3])


# Labels that are not whole numbers


def labels(values, kind):
    return pandas.Series(values, dtype=kind)


@pytest.mark.parametrize(
    "given",
    [labels([0, 1, None], "Int64"), labels([0, 1, None], "category"),
     labels([0, 1, None], "uint8[pyarrow]")],
    ids=["Int64", "category", "pyarrow"],
)  # fmt: skip
def test_whole_numbers_of_which_some_are_missing_are_classes(given):
    data = Dataset.from_arrays(EDGES[:1], np.eye(3), given)
    assert data.y.dtype == torch.int64 and data.y.tolist() == [0, 1, -1]
    numbers = Dataset.from_arrays(EDGES[:1], np.eye(3), given, task="node-regression")
    assert np.array_equal(numbers.y, [0, 1, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    "given",
    [
        [0.0, 1.0, 0.0],
        torch.tensor([0.0, 1.0, 0.0]),
        np.array([True, False, True]),
        [0.0, 1.0, float("nan")],
        labels([0, 1, None], "Float64"),
        labels([0, 1, None], "float64"),
    ],
)
def test_classes_of_another_type_are_answered_with_how_to_change_it(given):
    with pytest.raises(ZooError, match=r"should be int64.*labels.astype\('int64'\).*NaN with -1"):
        Dataset.from_arrays(EDGES[:1], np.eye(3), given)


def test_what_a_mask_of_numpy_hides_is_missing():
    hidden = [False, False, True]
    for values, names in (([0, 1, 0], None), (["a", "b", "b"], ("a", "b"))):
        data = Dataset.from_arrays(EDGES[:1], np.eye(3), np.ma.masked_array(values, hidden))
        assert data.y.tolist() == [0, 1, -1] and data.labels == names
    with pytest.raises(ZooError, match="`features` is not finite at row 2"):
        Dataset.from_arrays(EDGES[:1], np.ma.masked_array(np.eye(3), [hidden] * 3).T, [0, 1, 0])
    plain = np.ma.masked_array(np.eye(3, dtype=int))
    assert Dataset.from_arrays(EDGES[:1], plain, [0, 1, 0]).x.tolist() == np.eye(3).tolist()


def test_fractions_are_no_classes():
    with pytest.raises(ZooError, match="such as 0.5: write `task: node-regression`") as caught:
        Dataset.from_arrays(EDGES[:1], np.eye(3), [0.5, 1, float("nan")])
    assert "astype" not in str(caught.value)


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([[1, 2], [2, 3]], "numbered from 1: write edges - 1"),
        ([[1, 2], [2, 4]], "number the nodes from 0"),
        ([[0.0, 1.0]], r"write edges.astype\('int64'\)"),
        ([[0.5, 1.0]], "some are fractions, or NaN"),
    ],
)
def test_the_advice_on_edges_looks_at_them(edges, said):
    with pytest.raises(ZooError, match=said):
        Dataset.from_arrays(edges, np.eye(3), [0, 1, 0])


def test_tables_of_pandas_with_holes_and_words():
    frame = pandas.DataFrame({"a": pandas.array([1, None, 2], "Int64"), "b": [0.5, 1, 2]})
    assert Dataset.from_arrays(EDGES[:1], frame.fillna(0), [0, 1, 0]).x[1].tolist() == [0, 1]
    with pytest.raises(ZooError, match=r"row 1, column 0 \('a'\); .*frame.fillna"):
        Dataset.from_arrays(EDGES[:1], frame, [0, 1, 0])
    ends = pandas.DataFrame(EDGES, columns=["a", "b"]).astype("Int64").assign(b=EDGES[:, 1])
    assert Dataset.from_arrays(ends, X, Y).graph.num_edges() == 10
    with pytest.raises(ZooError, match="column 'b' is no number.*get_dummies"):
        Dataset.from_arrays(EDGES[:1], frame.assign(b=list("xyz")), [0, 1, 0])


# Masks


def test_numbers_of_nodes_are_no_mask():
    masks = {"train": [0, 5], "val": [1], "test": [7]}
    with pytest.raises(ZooError, match=r"numbers of nodes: write np.isin\(np.arange\(8\), train"):
        Dataset.from_arrays(EDGES, np.eye(8), masks=masks)
    right = {part: np.isin(np.arange(8), each) for part, each in masks.items()}
    data = Dataset.from_arrays(EDGES, np.eye(8), masks=right)
    assert data.masks["train"].nonzero()[:, 1].tolist() == [0, 5]
    tensors = {f"{part}_mask": torch.tensor(each) for part, each in masks.items()}
    given = {"edge_index": torch.tensor(EDGES.T), "x": torch.eye(8), **tensors}
    with pytest.raises(
        ZooError, match=r"`train_mask` .* write np.isin\(np.arange\(8\), train_mask"
    ):
        Dataset.from_pyg(given)
    given |= {f"{part}_mask": torch.tensor(each) for part, each in right.items()}
    assert Dataset.from_pyg(given).masks["test"].nonzero()[:, 1].tolist() == [7]


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (torch.tensor([1, 0, 2, 0]), "numbers of nodes"),
        (torch.tensor([0.5, 0, 0, 0]), r"True or False; write it as \(4,\), or"),
        (torch.ones(3, 4, dtype=torch.bool), r"of several splits \(4, S\)"),
    ],
)
def test_what_is_no_mask_of_nodes_is_said(mask, said):
    given = in_pyg(torch.float32) | {"train_mask": mask}
    rest = {f"{part}_mask": torch.zeros(4, dtype=torch.bool) for part in ("val", "test")}
    with pytest.raises(ZooError, match=said):
        Dataset.from_pyg(given | rest, weights="ignore")
    several = torch.eye(4, 2, dtype=torch.bool)
    masks = {"train_mask": several, "val_mask": several.flip(0), "test_mask": several.roll(2, 0)}
    data = Dataset.from_pyg(given | masks, weights="ignore")
    assert data.masks["train"].tolist() == several.T.tolist()
