"""Data sets of frames of pandas: their indexes, their text, their names, and words and gaps."""

import networkx
import numpy as np
import pandas
import pytest
from scipy import sparse

from zoo import Dataset, ZooError

NODES = pandas.DataFrame(
    {"id": [*"abcdef"], "age": [1.0, 2, 3, 4, 5, 6], "label": ["x", "y", "x", "y", "x", "y"]}
)
EDGES = pandas.DataFrame({"source": [*"abcde"], "target": [*"bcdef"]})
PLACES = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]]
NAMED = NODES.set_index("id")
OTHER = NAMED.iloc[[3, 1, 0, 5, 4, 2]]


# Indexes


@pytest.mark.parametrize(
    ("given", "fix"),
    [
        ({"features": OTHER[["age"]], "labels": NAMED["label"]}, "labels.loc[features.index]"),
        ({"features": OTHER[["age"]], "ids": NAMED.index}, "features.loc[ids]"),
        ({"features": OTHER[["age"]], "ids": [*"abcdef"]}, "features.loc[ids]"),
        (
            {"labels": OTHER["label"], "masks": {"train": NAMED["age"] > 3}},
            "masks['train'].loc[labels.index]",
        ),
        (
            {"features": NODES[["age"]], "edges": pandas.DataFrame(PLACES),
             "weights": pandas.Series(range(5), index=[4, 3, 2, 1, 0])},
            "weights.loc[edges.index]",
        ),
    ],
)  # fmt: skip
def test_rows_in_another_order_are_refused_with_how_to_align_them(given, fix):
    with pytest.raises(ZooError) as error:
        Dataset.from_arrays(**{"edges": PLACES, **given})
    assert f"`{fix}`" in str(error.value)


def test_a_matrix_and_smiles_have_an_order_too():
    with pytest.raises(ZooError, match="another order"):
        Dataset.from_scipy(sparse.eye(6), OTHER[["age"]], NAMED["label"])
    matrix = pandas.DataFrame(np.eye(6), index=NAMED.index)
    with pytest.raises(ZooError, match=r"`labels.loc\[adjacency.index\]`"):
        Dataset.from_scipy(matrix, labels=OTHER["label"])
    with pytest.raises(ZooError, match=r"`labels.loc\[smiles.index\]`"):
        Dataset.from_smiles(NAMED["label"], OTHER["age"])


@pytest.mark.parametrize(
    "labels",
    [NODES["label"], NAMED["label"].rename(str.upper), NAMED["label"].to_numpy(), NAMED["label"]],
)
def test_one_order_and_other_indexes_are_joined_by_position(labels):
    data = Dataset.from_arrays(PLACES, NAMED[["age"]], labels)
    assert [data.labels[number] for number in data.y] == [*labels]


def test_ids_that_are_numbers_are_no_places():
    ids = pandas.Series([3, 1, 0, 5, 4, 2])
    assert len(Dataset.from_arrays([[3, 1]], NODES[["age"]], ids=ids).ids) == 6


# Options


def test_a_matrix_has_the_options_of_arrays():
    matrix = sparse.csr_array((np.ones(5), np.transpose(PLACES)), (6, 6))
    masks = {part: np.arange(6) // 2 == at for at, part in enumerate(("train", "val", "test"))}
    more = {"masks": masks, "ids": [*"abcdef"], "feature_names": ["years"]}
    data = Dataset.from_scipy(matrix, NAMED[["age"]], NAMED["label"], **more)
    same = Dataset.from_arrays(EDGES, NAMED[["age"]], NAMED["label"], **more)
    assert data.ids.tolist() == same.ids.tolist() == [*"abcdef"]
    assert data.feature_names == ("years",) and data.split == "benchmark"
    assert all((data.masks[part] == same.masks[part]).all() for part in masks)
    assert (data.graph.edges()[0] == same.graph.edges()[0]).all()
    assert Dataset.from_scipy(matrix, ids=[*"abcdef"], direction="in").ids[0] == "a"


@pytest.mark.parametrize(
    ("door", "given", "option", "near"),
    [
        ("from_scipy", np.eye(6), "mask", "masks"),
        ("from_networkx", networkx.path_graph(3), "labels", "label"),
        ("from_dgl", None, "edge_feature", "edge_features"),
        ("from_pyg", [], "tsak", "task"),
        ("from_pyg", {}, "splits", "split"),
    ],
)
def test_an_option_that_there_is_not_is_answered_with_the_nearest(door, given, option, near):
    with pytest.raises(ZooError, match=f"{door}: no option is called '{option}'; .*'{near}'"):
        getattr(Dataset, door)(given, **{option: None})
