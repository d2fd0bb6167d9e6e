"""Nodes that are there twice, and test nodes that are like training ones, are told of."""

import numpy as np
import pytest
from scipy import sparse

from zoo.data.files.graph_arrays import GraphArrays
from zoo.data.load import check


def repeated(arrays):
    return next(each for each in check.check(arrays) if each.name == "repeated nodes")


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_what_is_repeated_is_counted(form):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 12)).astype(np.float32), np.arange(30) % 2
    edges = np.stack([np.arange(29), np.arange(1, 30)], axis=1)
    masks = {part: np.zeros((1, 30), bool) for part in ("train", "val", "test")}
    masks["train"][0, :10], masks["val"][0, 10:20], masks["test"][0, 20:] = True, True, True
    good = repeated(GraphArrays(edges, y, form(x), masks))
    assert good.verdict == "good" and good.values == {"repeated": 0, "seen": 0}
    x[25], x[26], x[12] = x[3], x[7], x[4]  # the last one is of validation
    found = repeated(GraphArrays(edges, y, form(x), masks))
    assert found.verdict == "look" and found.values == {"repeated": 0, "seen": 2}
    assert "2 test nodes have the features of a training node" in found.found
    leaves = np.stack([np.zeros(29, int), np.arange(1, 30)], axis=1)  # all of one hub
    found = repeated(GraphArrays(leaves, y, form(x), masks))
    assert found.values == {"repeated": 3, "seen": 2}


def test_few_columns_are_alike_by_chance():
    x, y = np.eye(2, dtype=np.float32)[np.arange(6) % 2], np.arange(6) % 2
    masks = {part: np.zeros((1, 6), bool) for part in ("train", "val", "test")}
    masks["train"][0, :3], masks["test"][0, 3:] = True, True
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]])
    assert repeated(GraphArrays(edges, y, x, masks)).values["seen"] == 0


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_columns_of_any_scale_count(form, kind, monkeypatch):
    monkeypatch.setattr(check, "_AT_ONCE", 7)
    x = np.stack([np.full(40, 1_700_000_000_000), np.arange(40) % 20, np.arange(40) % 2], axis=1)
    x = x.astype(kind)
    if kind != np.int64:
        x[:, 2] *= -1e-9  # of -0.0 too, which is 0
    edges = np.zeros((0, 2), np.int64)
    found = repeated(GraphArrays(edges, np.arange(40) % 2, form(x)))
    assert found.values == {"repeated": 20, "seen": 0}
