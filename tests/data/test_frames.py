"""Data sets of frames of pandas: their indexes, their text, their names, and words and gaps."""

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
