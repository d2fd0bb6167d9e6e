"""Every input that ever failed: a traceback, a hang, a flood, or advice that leads nowhere."""

import io
import os
import zipfile

import numpy as np
import pytest
import torch

from zoo.data.files.converters import convert_planetoid
from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.files.prepared import write_prepared
from zoo.data.load import load_graph, prepare_on_disk, read_graph
from zoo.data.load.check import check
from zoo.encodings import ENCODINGS
from zoo.errors import FIRST, ZooError, suggestion
from zoo.graphs.examples import tiny_graph
from zoo.registry import MODELS
from zoo.runs.resolve import load_recipe
from zoo.runs.run import run_recipe
from zoo.weights import create
from zoo.weights.create import create_model

KARATE = {"dataset": "karate", "model": "mlp", "train": {"epochs": 1}}
SGFORMER = {"name": "sgformer"}
UNKNOWN = {f"k{each}": 1 for each in range(6000)}

RECIPES = {
    "a width beyond 64 bits": ({"model": {**SGFORMER, "dim": 2**64}}, "model.dim.*3000000000"),
    "decay beyond fp32": ({"train": {"weight_decay": 1e308}}, r"weight_decay.* 1e\+30, not 1e"),
    "a rate beyond fp32": ({"train": {"lr": 1e38}}, r"train.lr.* 1e\+30"),
    "nodes beyond 64 bits": ({"dataset": {"name": "sbm", "nodes": 2**63}}, "dataset.nodes"),
    "a slope that is no number": (
        {"model": {**SGFORMER, "propagation": {"name": "gat", "slope": float("nan")}}}, "slope"),
    "a billion layers": ({"model": {**SGFORMER, "layers": 10**9}}, "layers.*equal to 1000"),
    "a billion heads": ({"model": {"name": "gat", "heads": 10**9}}, "heads.*equal to 1000"),
    "a billion partitions": (
        {"model": {**SGFORMER, "attention": {"name": "rba", "draws": 10**9}}}, "draws.*1000"),
    "powers of the adjacency": ({"model": {"name": "nodeformer", "orders": 2**62}}, "orders.*16"),
    "noise without end": ({"model": {"name": "nodeformer", "samples": 10**9}}, "samples.*1000"),
    "eigenvectors without end": (
        {"encoding": {"name": "laplacian", "k": 2**31 - 1}}, "encoding.k.*1000"),
    "steps without end": ({"encoding": {"name": "random_walk", "steps": 2**31}}, "steps.*1000"),
    "fanouts without end": (
        {"train": {"batching": {"name": "neighbours", "size": 8, "fanouts": [-1] * 100}}}, "32"),
    "a number of 5,000 digits": ({"model": {**SGFORMER, "dim": 10**5000}}, "Exceeds the limit"),
    "a list of 100,000 data sets": ({"dataset": ["a"] * 100_000}, "does not name a dataset"),
    "a thousand zeros": ({"imports": [0] * 1000}, "1,000 problems"),
    "6,000 unknown keys": (UNKNOWN, f"6,000 problems(.|\n)*and {6000 - FIRST:,} more"),
    "6,000 unknown options": ({"model": {**SGFORMER, **UNKNOWN}}, "6,000 problems"),
    "6,000 unknown options of training": ({"train": UNKNOWN}, "6,000 problems"),
    "a long name": ({"dataset": "a" * 400}, "longer than a disk takes"),
    "a long path": ({"dataset": "a/" * 3000 + "g.npz"}, "longer than a disk takes"),
    "a folder of nobody": ({"dataset": "~nobodyhere/x"}, "no such user"),
    "a zero in a name": ({"dataset": "a\0b"}, "null (byte|character)"),
    "half a character": ({"dataset": "\ud800"}, "is no path"),
    "a device": ({"dataset": "/dev/zero"}, "no regular file"),
    "an edge table of nobody": ({"dataset": {"name": "n.csv", "edges": "~nobodyhere/x"}}, "n.csv"),
}  # fmt: skip


@pytest.mark.parametrize("case", RECIPES)
def test_a_recipe_is_refused_in_a_few_lines(case, attempts):
    changes, words = RECIPES[case]
    found = attempts(lambda: run_recipe({**KARATE, **changes}, device="cpu"))
    assert isinstance(found, ZooError)
    with pytest.raises(ZooError, match=words):
        raise found


def test_many_unknown_keys(attempts, tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text("dataset: karate\nmodel: gcn\n" + "".join(f"k{i}: 1\n" for i in range(999)))
    assert "999 problems" in str(attempts(load_recipe, path))


def test_long_words_are_compared_by_their_beginnings(attempts):
    assert attempts(suggestion, "a" * 300_000, ["b" * 300_000, "a" * 299_999]).startswith("did")


# Models


def test_what_memory_cannot_hold_is_refused_before_it_is_made(attempts, monkeypatch):
    for name, options in {
        "mlp": {"dim": 10**6},
        "gat": {"dim": 3 * 10**9},
        "sgformer": {"dim": 5000, "full_heads": 1000},
    }.items():
        found = attempts(lambda name=name, options=options: create_model(name, 7, 3, **options))
        assert isinstance(found, ZooError) and "smaller width" in str(found), (name, found)
    monkeypatch.setattr(create, "WIDE", 1)
    torch.manual_seed(0)
    counted = create_model("gcn", 7, 3)
    monkeypatch.undo()
    torch.manual_seed(0)
    plain = create_model("gcn", 7, 3)
    pairs = zip(counted.parameters(), plain.parameters(), strict=True)
    assert all(map(lambda pair: torch.equal(*pair), pairs))


def test_weights_that_can_be_built_but_not_trained(monkeypatch, attempts, tmp_path):
    monkeypatch.setattr("zoo.training.trainer.available_memory", lambda: 1000)
    found = attempts(lambda: run_recipe({**KARATE}, runs=tmp_path, device="cpu"))
    assert "to train them" in str(found)


def test_random_features_without_end(attempts):
    model = create_model("htgn", 3, 2, random_features=10**8)
    found = attempts(lambda: model(tiny_graph(), torch.zeros(12, 3)))
    assert "random features" in str(found)


def test_columns_that_do_not_fit_into_memory(attempts, monkeypatch):
    monkeypatch.setattr("zoo.encodings.positional.available_memory", lambda: 50_000)
    found = attempts(lambda: ENCODINGS["laplacian"](tiny_graph(), k=900))
    assert "no memory for 900 columns" in str(found)


# Data files


def npy(header, body=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body


def npz(path, **raw):
    whole = {"edges": np.array([[0, 1]]), "node_labels": np.array([0, 1]),
             "node_features": np.eye(2)} | raw  # fmt: skip
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, value in whole.items():
            if not isinstance(value, bytes):
                file = io.BytesIO()
                np.save(file, value)
                value = file.getvalue()
            archive.writestr(f"{key}.npy", value)
    return path


def of_shape(kind, shape):
    return npy(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}")


def dia(path):
    np.savez(path, format=np.array(b"dia"), shape=np.array([10**9] * 2), data=np.ones((90, 1)),
             offsets=np.arange(90) - 45)  # fmt: skip
    return path


def one_number(path):
    ends = torch.zeros(1, dtype=torch.int64).expand(2, 10**12)
    torch.save({"edge_index": ends, "x": torch.zeros(3, 2)}, path)
    return path


def pipe(path):
    os.mkfifo(path)
    return path


def wide_table(path):
    path.mkdir()
    (path / "nodes.csv").write_text(",".join(f"c{each}" for each in range(100_000)) + "\n")
    (path / "edges.csv").write_text("source,target\n")
    return path


FILES = {
    "a matrix of 10^9 diagonals": ("g.npz", dia, "1,000,000,000 nodes with 4. edges"),
    "an open bracket": (
        "g.npz", lambda path: npz(path, edges=npy("(((((0")), "it cannot be read"),
    "brackets": ("g.npz", lambda path: npz(path, edges=npy("[" * 3000)), "it cannot be read"),
    "a shape beyond all memory": (
        "g.npz", lambda path: npz(path, node_features=of_shape("<f4", f"(2, {2**61})")),
        "array is too big"),
    "one number as edges": ("g.pt", one_number, "does not fit into memory"),
    "a pipe": ("g.npz", pipe, "no regular file"),
    "100,000 columns": ("g", wide_table, "no column 'id'; it has 'c0'.* and 99,950 more"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_file_is_refused(case, attempts, tmp_path):
    name, write, words = FILES[case]
    spec = str(write(tmp_path / name))
    found = attempts(lambda: check(read_graph(spec)))
    assert isinstance(found, ZooError)
    with pytest.raises(ZooError, match=words):
        raise found


def test_features_of_which_memory_holds_one_part(attempts, tmp_path, monkeypatch):
    npz(tmp_path / "g.npz")
    monkeypatch.setattr("zoo.data.files.prepared.available_memory", lambda: 100)
    assert "does not fit into memory" in str(attempts(load_graph, tmp_path / "g.npz"))
    monkeypatch.undo()
    monkeypatch.setattr("zoo.data.files.graph_arrays.available_memory", lambda: 10)
    parts = {"indptr": [0, 1, 1], "indices": [0], "data": [1.0], "shape": [2, 50]}
    csr = {f"node_features_{key}": np.array(each) for key, each in parts.items()}
    npz(tmp_path / "s.npz", **csr)
    found = attempts(lambda: check(read_graph(tmp_path / "s.npz")))
    assert "as a dense array" in next(each.fix for each in found if each.verdict == "fix")


def test_arrays_of_other_shapes_are_findings(attempts, tmp_path):
    whole = {"node_labels": np.arange(2), "feature_names": np.array(["a", "b"])}
    for changes in (
        {"node_labels": np.array(3)},
        {"node_features": np.zeros(0)},
        {"node_features": np.zeros((0, 2))},
        {"node_features": np.array(1.0)},
    ):
        npz(tmp_path / "g.npz", **{**whole, **changes})
        found = attempts(lambda: check(read_graph(tmp_path / "g.npz")))
        assert any(each.verdict == "fix" for each in found), changes


def test_arrays_on_disk_whose_headers_are_wrong(attempts, tmp_path):
    arrays = GraphArrays(np.array([[0, 1], [1, 2]]), np.array([0, 1, 0]), np.eye(3))
    write_prepared(arrays, tmp_path / "g.npz")
    prepare_on_disk(tmp_path / "g.npz", tmp_path / "g")
    for raw in (npy("(((((0"), npy("[" * 3000), b"", of_shape("<f4", "(-1,)")):
        (tmp_path / "g" / "features.npy").write_bytes(raw)
        assert isinstance(attempts(load_graph, tmp_path / "g"), ZooError)
        assert attempts(check, tmp_path / "g")[-1].verdict == "fix"
    np.save(tmp_path / "g" / "indptr.npy", np.array([0, 2**31 - 1, 0, 7], np.int32))
    assert attempts(check, tmp_path / "g") is not None


@pytest.mark.parametrize(
    "raw,words",
    [
        (npy("(((((0"), "no plain array"),
        (of_shape("<i8", f"({2**40}, 2)"), "cut short"),
        (of_shape("<i8", "(-1, 2)"), "no plain array"),
        (of_shape("<i8", "(0,)"), "ZooError|edge_index|shape"),
    ],
)
def test_plain_arrays_whose_headers_are_wrong(raw, words, attempts, tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    np.save(folder / "node_feat.npy", np.eye(3))
    (folder / "edge_index.npy").write_bytes(raw)
    with pytest.raises(ZooError, match=words):
        raise attempts(prepare_on_disk, folder, tmp_path / "out")


def test_a_pickle_that_asks_for_all_memory(attempts, tmp_path):
    (tmp_path / "x").write_bytes(b"\x80\x02}r\xff\xff\xff\x7f.")

    def convert():
        try:
            convert_planetoid([tmp_path / "x"] * 8)
        except ValueError as error:  # the list of test nodes is no text
            raise ZooError(str(error)) from None

    assert isinstance(attempts(convert), ZooError)


def test_a_line_without_end(attempts, tmp_path):
    (tmp_path / "e.csv").write_bytes(b"1" * 3_000_000)
    assert isinstance(attempts(prepare_on_disk, tmp_path / "e.csv", tmp_path / "out"), ZooError)


# A user's own code


BAD_MODEL = '''
from torch import nn
from zoo.registry import Model, register_model

@register_model("bad{number}")
class Bad{number}(Model):
    """Bad."""

    def __init__(self, in_dim: int, out_dim: int):
        super().__init__()
        self.head = nn.Linear(in_dim, out_dim)

    def features(self, graph, x):
        return {wrong}
'''


@pytest.mark.parametrize(
    "number,wrong,words",
    [
        (1, "{}['nothing']", ["bad.py:14 has raised KeyError: 'nothing'", "in features", "own"]),
        (2, "x[:3]", ["one row per node", "bad.py"]),
    ],
)
def test_a_model_of_ones_own_that_fails(number, wrong, words, command, tmp_path):
    text = BAD_MODEL.replace("{number}", str(number)).replace("{wrong}", wrong)
    (tmp_path / "bad.py").write_text(text)
    (tmp_path / "r.yaml").write_text(f"imports: [bad.py]\ndataset: karate\nmodel: bad{number}\n")
    code, _, err = command("train", "r.yaml")
    assert code == 2 and "Traceback" not in err and "site-packages" not in err
    for word in words:
        assert word in err
    MODELS.pop(f"bad{number}")
