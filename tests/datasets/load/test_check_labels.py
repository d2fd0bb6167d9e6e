"""What `zoo data check` says of labels that are not known: of a part of a split, of a target."""

import warnings

import numpy as np
import pytest

from zoo.datasets import GraphArrays
from zoo.datasets.files.graph_arrays import NO_EDGES
from zoo.datasets.load.check_in_memory import check_graph

NODES = 12


def arrays(labels, masks=None, **own):
    x = np.arange(len(labels), dtype=np.float32)[:, None]
    return GraphArrays(NO_EDGES, np.array(labels), x, masks, **own)


def findings(graph):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return {each.name: each for each in check_graph(graph)}


def masks(*orders):
    """Splits whose parts are every third node, in these orders of the parts."""
    return {part: np.stack([np.arange(NODES) % 3 == order.index(part) for order in orders])
            for part in ("train", "val", "test")}  # fmt: skip


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
    assert "val: ROC-AUC compares two classes, and all 4 nodes" in found.fix
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
