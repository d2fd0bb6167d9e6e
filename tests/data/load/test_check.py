"""`zoo data check` says the same of a graph, whatever it came from."""

import dataclasses

import numpy as np
import pytest
from scipy import sparse

from zoo.data import GraphArrays, make_dataset
from zoo.data.load import check as module
from zoo.data.load import load_data, load_graph, prepare_on_disk
from zoo.data.load.check import check

NODES = 60
OF_ROWS = ("duplicates", "self-loops", "direction")
"""What is known of the rows of a file, and of no graph that is made of them."""


def arrays(**own):
    rng = np.random.default_rng(0)
    y = np.arange(NODES) % 3
    x = rng.normal(size=(NODES, 10)).astype(np.float32)
    x[:, 3], x[:, 4], x[55] = y == 1, 2.5, x[58]
    edges = np.stack([np.arange(50), np.arange(50) + 1 + np.arange(50) % 2 * 2], axis=1)
    masks = {part: np.arange(NODES)[None] % 3 == at
             for at, part in enumerate(("test", "val", "train"))}  # fmt: skip
    own = {"masks": masks, "label_names": ("ant", "bee", "cat"), **own}
    return GraphArrays(edges, y, x, **own)


@pytest.mark.parametrize("at_once", [1_000_000, 70])
def test_of_arrays_a_data_set_and_a_folder_the_same_is_said(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(module, "_AT_ONCE", at_once)
    graph = arrays()
    data = make_dataset("g", graph, task="node-classification")
    np.savez(tmp_path / "g.npz", edges=graph.edges, node_features=graph.features,
             node_labels=graph.labels, label_names=np.array(graph.label_names),
             **{f"{part}_masks": mask for part, mask in graph.masks.items()})  # fmt: skip
    prepare_on_disk(tmp_path / "g.npz", tmp_path / "g")
    told = {each.name: each for each in check(graph)}
    for name in ("constant features", "columns that tell the label", "repeated nodes"):
        assert told[name].verdict == "look", name
    assert told["unseen classes"].verdict == "fix" and told["homophily"].values["share"] > 0
    wanted = [each for each in told.values() if each.name not in (*OF_ROWS, "size")]
    for other in (data, load_graph(tmp_path / "g.npz"), tmp_path / "g"):
        found = [each for each in check(other) if each.name != "files"]
        assert found.pop(0).values.items() >= {"nodes": NODES, "edges": 50}.items()
        assert found == wanted


def test_of_sparse_features_the_same_is_said_as_of_dense_ones():
    graph = arrays()
    dense = [each for each in check(graph) if each.name != "columns that tell the label"]
    assert check(graph._replace(features=sparse.csr_array(graph.features))) == dense


def test_numbers_past_float32_are_told_by_column_and_count_in_no_range():
    graph = arrays()
    x = graph.features.astype(np.float64)
    x[1, 2], x[2, 2], x[3, 6] = 1e300, np.inf, np.nan
    found = {each.name: each for each in check(graph._replace(features=x))}
    assert found["infinite features"].values == {"column 2": 2}
    assert found["missing features"].values == {"column 6": 1}
    assert found["features"].verdict == "good" and found["features"].values["most"] < 10


def test_a_graph_without_nodes_is_to_be_fixed():
    nothing = GraphArrays(np.zeros((0, 2), int), np.zeros(0, int), np.zeros((0, 3)))
    assert "fix" in [each.verdict for each in check(nothing)]


def test_of_samples_columns_are_told_by_name_and_no_option_that_they_do_not_take():
    data = load_data("digits-images", patch=2)
    x = data.x.clone()
    x[:, 0], x[:, 1], x[3, 2] = 5.0, x[:, 1] * 1e6, float("nan")
    found = {each.name: each for each in check(dataclasses.replace(data, x=x))}
    assert found["features"].verdict == found["constant features"].verdict == "look"
    assert found["missing features"].values == {"column 2": 1}
    assert "features: standard" not in found["features"].fix
