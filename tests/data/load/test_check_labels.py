"""What `zoo data check` says of labels that are not known: of a part of a split, of a target."""

import warnings

import numpy as np
import pytest

from zoo import ZooError
from zoo.data import GraphArrays
from zoo.data.files.graph_arrays import NO_EDGES
from zoo.data.load import guess_spec, load_data, read_graph
from zoo.data.load.check import check

NODES = 12


def arrays(labels, masks=None, **own):
    x = np.arange(len(labels), dtype=np.float32)[:, None]
    return GraphArrays(NO_EDGES, np.array(labels), x, masks, **own)


def findings(graph):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return {each.name: each for each in check(graph)}


def masks(*orders):
    """Splits whose parts are every third node, in these orders of the parts."""
    return {part: np.stack([np.arange(NODES) % 3 == order.index(part) for order in orders])
            for part in ("train", "val", "test")}  # fmt: skip


def test_one_hot_rows_are_read_as_classes_and_told():
    labels = np.eye(3)[np.arange(NODES) % 3]
    found = findings(arrays(labels))
    assert "task=node-multilabel" in found["one-hot labels"].fix
    assert found["classes"].values == {"0": 4, "1": 4, "2": 4}
    assert "one-hot labels" not in findings(arrays(labels, task="node-multilabel"))
    labels[0] = [1, 1, 0]
    assert findings(arrays(labels))["labels"].values["task"] == "node-multilabel"


def test_columns_that_alone_tell_the_label_are_named():
    y = np.arange(60) % 3
    random = np.random.default_rng(0)
    x = np.stack([random.normal(size=60), y == 1, 10.0 * y, np.arange(60)], axis=1)
    own = {"feature_names": ("noise", "is dog", "code", "number"), "label_names": ("a", "dog", "c")}
    graph = GraphArrays(NO_EDGES, y, x.astype(np.float32), **own)
    found = findings(graph)["columns that tell the label"]
    assert found.values == {"is dog": ["dog"], "code": ["a", "dog", "c"]}
    assert found.verdict == "look" and "code tells a, dog, c" in found.found
    few = GraphArrays(NO_EDGES, y[:12], x[:12].astype(np.float32))  # four of each: by chance
    assert "columns that tell the label" not in findings(few)


def test_words_of_a_table_that_tell_the_label_are_named(tmp_path):
    lines = [f"n{i},{'xyz'[i % 3]}{i % 2},{'uv'[i % 2]},{'abc'[i % 3]}" for i in range(60)]
    (tmp_path / "own.csv").write_text("\n".join(["id,copy,other,label", *lines]))
    graph = read_graph({"name": str(tmp_path / "own.csv"), "one_hot": ["copy", "other", "id"]})
    assert findings(graph)["columns that tell the label"].values == {"copy": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("x", "look"),
    [
        (np.array([[50_000.0], [60_000]]), True),
        (np.array([[0.2, 50_000], [1.9, 60_000]]), True),  # two columns
        (np.array([[2000.0, 1], [2020, 0]]), True),  # years
        (np.array([[1000.0], [1000.5]]), True),
        (np.array([[1e21], [3e21]]), True),
        (np.array([[0.5, 3], [0.1, 1]]), False),
        (np.array([[7.0], [7]]), False),  # told of as constant
    ],
)
def test_features_far_from_0_and_1_are_told(x, look):
    rows = np.tile(x, (6, 1)).astype(np.float32)
    found = findings(GraphArrays(NO_EDGES, np.arange(NODES) % 2, rows))["features"]
    assert found.verdict == ("look" if look else "good")
    assert not look or "`features: standard`" in found.fix


IN_ORDER = ("train", "val", "test")


def test_a_part_without_nodes_is_to_be_fixed():
    own = masks(IN_ORDER)
    own["train"][:] = False
    found = findings(arrays(np.arange(NODES) // 3 % 2, own))["split"]
    assert found.verdict == "fix" and found.found == "none is marked as train"
    assert "ratio-60-20-20" in found.fix


def test_a_part_without_labels_is_to_be_fixed():
    labels = np.arange(NODES) // 3 % 2
    found = findings(arrays(labels, masks(IN_ORDER)))["split"]
    assert found.verdict == "good" and found.values["test"] == 4
    labels[8] = -1
    assert findings(arrays(labels, masks(IN_ORDER)))["split"].values["test"] == 3
    labels[2::3] = -1  # as Kaggle writes a test
    found = findings(arrays(labels, masks(IN_ORDER)))["split"]
    assert (found.verdict, found.values["test"]) == ("fix", 0)
    assert found.found == "none of test has a label: train 4, val 4, test 0"
    assert "split: ratio-60-20-20" in found.fix
    other = masks(("train", "test", "val"), IN_ORDER)
    assert "none of val has" in findings(arrays(labels, other))["split"].found
    found = findings(arrays(np.full(NODES, -1), masks(IN_ORDER)))  # to predict, not to train
    assert found["split"].verdict == "good" and found["labels"].verdict == "look"


def test_a_part_without_a_score_is_to_be_fixed():
    """ROC-AUC of one class, and R² of one number, do not exist."""
    labels = np.zeros(NODES, np.int64)
    labels[::3] = np.arange(4) % 2  # in training alone
    found = findings(arrays(labels, masks(IN_ORDER), task="node-binary"))["split"]
    assert (found.verdict, found.found) == ("fix", "train 4, val 4, test 4")
    assert "val: ROC-AUC compares two classes, and all 4 rows" in found.fix
    assert findings(arrays(labels, masks(IN_ORDER)))["split"].verdict == "good"  # accuracy
    labels[[1, 2]] = 1
    assert findings(arrays(labels, masks(IN_ORDER), task="node-binary"))["split"].verdict == "good"
    both = masks(IN_ORDER, ("val", "train", "test"))
    both["test"][1], both["val"][1] = np.arange(NODES) == 5, both["val"][1] | both["test"][1]
    both["val"][1] &= ~both["test"][1]
    found = findings(arrays(labels, both, task="node-binary"))["split"]
    assert found.verdict == "fix" and "split 1, test: ROC-AUC" in found.fix
    same = np.where(np.arange(NODES) % 3 == 1, 5.0, np.arange(NODES))
    found = findings(arrays(same, masks(IN_ORDER), task="node-regression"))["split"]
    assert found.verdict == "fix" and "val: R² compares" in found.fix
    targets = np.stack([labels, labels], axis=1).astype(np.float32)
    targets[1::3] = 1
    found = findings(arrays(targets, masks(IN_ORDER)))["split"]
    assert found.verdict == "fix" and "val: ROC-AUC compares yes with no" in found.fix


@pytest.mark.parametrize("task", [None, "node-regression"])
def test_a_target_that_no_node_knows_is_named(task):
    labels = np.array([[np.nan, each % 2] for each in range(NODES)], np.float32)
    for names, named in ((("a", "b"), "a"), (None, "0")):
        found = findings(arrays(labels, task=task, label_names=names))["targets"]
        assert found.verdict == "fix" and found.values == {"unknown": [named]}
        assert found.found == f"of {named} no value is known"
    labels[0, 0] = 1
    assert findings(arrays(labels, task=task))["targets"].values.keys() != {"unknown"}


def test_too_few_labels_for_a_split_are_to_be_fixed():
    few = findings(arrays([0, 1, 0, -1]))["split"]
    assert few.verdict == "fix" and "none of the 3 labelled nodes for val" in few.fix
    assert findings(arrays([0, 1] * 5))["split"].verdict == "good"
    assert findings(arrays([-1] * 4))["split"].verdict == "good"  # nothing to split


def test_columns_that_tell_a_number_and_skewed_numbers_are_named(tmp_path):
    random = np.random.default_rng(0)
    y = np.exp(2 * random.normal(size=60))
    rows = [f"n{n},{random.normal():.4f},{np.log(own) if n > 14 else '':.7},"
            f"{random.normal() if n > 14 else '':.7},{own if n > 14 else '':.7}"
            for n, own in enumerate(y.tolist())]  # fmt: skip
    (tmp_path / "own.csv").write_text("\n".join(["id,noise,copy,gap,label", *rows]))
    spec = {"name": str(tmp_path / "own.csv"), "task": "node-regression", "missing": "mean"}
    found = findings(read_graph(spec))
    told = found["columns that tell the label"].values
    assert told == {"copy": ["the label"], "gap": ["where there is a label"]}
    assert "train.target=log" in found["targets"].fix
    noise = findings(read_graph({**spec, "columns": ["noise"]}))
    assert "columns that tell the label" not in noise


def test_samples_without_edges_are_counted(tmp_path):
    rows = {"graphs": ["graph,label", *(f"g{n},{'ab'[n % 2]}" for n in range(4))],
            "nodes": ["graph,id,x", *(f"g{n},{m},{m}" for n in range(4) for m in range(3))],
            "edges": ["graph,source,target", "g0,0,1", "g0,1,2"]}  # fmt: skip
    for stem, lines in rows.items():
        (tmp_path / f"{stem}.csv").write_text("\n".join(lines))
    found = {each.name: each for each in check(load_data(str(tmp_path)))}["edges of a sample"]
    assert found.verdict == "look" and "3 of 4 samples of several nodes have none" in found.found
    assert found.values["most"] == 2


def test_a_column_of_numbers_with_one_word_is_one_of_numbers(tmp_path):
    rows = [f"n{n},{n if n else '?'},{'ab'[n % 2]}" for n in range(30)]
    (tmp_path / "own.csv").write_text("\n".join(["id,x,label", *rows]))
    assert not guess_spec({"name": str(tmp_path / "own.csv")})
    with pytest.raises(ZooError, match=r"'x' holds '\?' in line 2"):
        read_graph({"name": str(tmp_path / "own.csv")})


@pytest.mark.parametrize("numbers", [False, True])
def test_a_column_that_is_one_value_in_each_sample_and_tells_its_label_is_named(tmp_path, numbers):
    y = [n / 3 if numbers else n % 2 for n in range(40)]
    rows = {"graphs": ["graph,label", *(f"g{n},{y[n]}" for n in range(40))],
            "nodes": ["graph,id,copy,mean,x",
                      *(f"g{n},{m},{y[n]},{n % 3},{m}" for n in range(40) for m in range(2))],
            "edges": ["graph,source,target", *(f"g{n},0,1" for n in range(40))]}  # fmt: skip
    for stem, lines in rows.items():
        (tmp_path / f"{stem}.csv").write_text("\n".join(lines))
    task = "graph-regression" if numbers else "graph-classification"
    found = {each.name: each for each in check(load_data({"name": str(tmp_path), "task": task}))}
    told = {"copy": ["the label"] if numbers else ["0", "1"]}
    assert found["columns that tell the label"].values == told
