"""Data sets of frames of pandas: their indexes, their text, their names, and words and gaps."""

import networkx
import numpy as np
import pandas
import pytest
import torch
from scipy import sparse

import zoo
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
    more = {"masks": masks, "ids": NAMED.index, "feature_names": ["years"]}
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


# Text


@pytest.mark.parametrize("kind", ["str", "string", "object", "category", "string[pyarrow]"])
def test_text_of_pandas_names_nodes_and_ends(kind):
    data = Dataset.from_arrays(
        EDGES.astype(kind),
        NODES[["age"]],
        NODES["label"].astype(kind),
        ids=NODES["id"].astype(kind),
    )
    assert data.ids.tolist() == [*"abcdef"] and data.labels == ("x", "y")
    numbered = Dataset.from_arrays(PLACES, NODES[["age"]])
    assert (data.graph.edges()[0] == numbered.graph.edges()[0]).all()


def test_ids_of_whole_numbers_beside_ends_of_two_types():
    ids = pandas.Series([7, 8, 9], dtype="Int64")
    ends = pandas.DataFrame({"source": [7, 8], "target": ["8", "9"]})
    data = Dataset.from_arrays(ends, ids=ids)
    assert data.ids.tolist() == [7, 8, 9] and data.graph.num_edges() == 7


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ids": NODES["id"].where(NODES["age"] < 5)}, r"`ids` has a gap in row 4 \(2 such rows\)"),
        ({"ids": NODES["age"], "edges": []}, "`ids` is float64"),
        ({"features": NODES[["id"]]}, "`features`: the column 'id' is no number"),
        ({"features": NODES["age"]}, r"`features` is float64 of the shape \(6,\)"),
        ({"labels": NODES["age"]}, "`labels` is of type float64"),
        ({"ids": None, "edges": EDGES}, "`edges` are text; give what each node is called"),
        ({"weights": [-1.0] * 5}, "`weights`"),
        ({"masks": {"train": [True]}}, r"`masks\['train'\]`"),
    ],
)
def test_an_array_is_called_like_its_argument(given, said):
    usual = {"edges": EDGES, "features": NODES[["age"]], "ids": NODES["id"]}
    with pytest.raises(ZooError, match=said):
        Dataset.from_arrays(**{**usual, **given})


@pytest.mark.parametrize("word", ["nan", "None", "<NA>"])
def test_gaps_that_became_text_are_told(word, caplog):
    labels = NODES["label"].where(NODES["age"] < 5)
    data = Dataset.from_arrays(PLACES, labels=labels)
    assert data.labels == ("x", "y") and not caplog.text
    data = Dataset.from_arrays(PLACES, labels=labels.fillna(word).to_numpy(str))
    assert word in data.labels
    assert f"{word!r} is a class of the labels, that of 2 nodes, and what pandas" in caplog.text


# Several labels

TARGETS = pandas.DataFrame({"hikes": [1, 0, 1, 1, 0, 0], "bakes": [1.0, 1, 0, np.nan, 0, 1]})


def test_targets_numbers_and_one_hot_classes_keep_the_names_of_their_columns():
    data = Dataset.from_arrays(PLACES, labels=TARGETS)
    assert data.task == "node-multilabel" and data.labels == ("hikes", "bakes")
    numbers = Dataset.from_scipy(np.eye(6), labels=TARGETS * 1.5, task="node-regression")
    assert numbers.labels == ("hikes", "bakes") and numbers.y.shape == (6, 2)
    classes = Dataset.from_arrays(PLACES, labels=pandas.get_dummies(NODES["label"]))
    assert classes.labels == ("x", "y") and classes.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert Dataset.from_arrays(PLACES, labels=TARGETS.to_numpy()).labels is None
    assert Dataset.from_arrays(PLACES, labels=TARGETS.set_axis([0, 1], axis=1)).labels is None


# Frames with words, dates and gaps

SHOP = pandas.DataFrame({
    "id": [*"abcdef"],
    "age": [31.0, 25, None, 19, 38, 22],
    "since": pandas.to_datetime(["2024-01-31", None, *["2023-02-01", "2024-03-01"] * 2]),
    "city": pandas.Categorical(["Rome", "Oslo", None, "Rome", "Oslo", "Rome"]),
    "about": ["likes long walks", "likes bread", "walks far", "", "bakes bread", None],
    "size": ["S", 38, None, "M", 38, "S"],
    "label": ["x", None, "x", "y", "x", "y"],
})  # fmt: skip
LINKS = EDGES.assign(amount=[1.0, 2, 3, 4, 5])
HOW = {
    "one_hot": ["city", "size"], "text": "about", "dates": ["since"], "missing": "indicator",
    "weight": "amount",
}  # fmt: skip


def test_frames_are_read_as_the_same_tables_in_files(tmp_path):
    SHOP.to_csv(tmp_path / "nodes.csv", index=False)
    LINKS.to_csv(tmp_path / "edges.csv", index=False)
    wanted = zoo.load_graph(tmp_path, **HOW, direction="in")
    for nodes in (SHOP, SHOP.set_index("id")):
        data = Dataset.from_pandas(nodes, LINKS, **HOW, direction="in")
        assert data.feature_names == wanted.feature_names and data.labels == wanted.labels
        assert torch.equal(data.x, wanted.x) and torch.equal(data.y, wanted.y)
        assert data.ids.tolist() == wanted.ids.tolist()
        assert torch.equal(data.graph.edata["weight"], wanted.graph.edata["weight"])
    train = torch.tensor([0, 1])
    learnt = data.trained_on(train)
    assert torch.equal(learnt.x, wanted.trained_on(train).x) and not torch.equal(learnt.x, data.x)


def test_columns_of_other_types_of_pandas():
    nodes = SHOP[["label"]].assign(
        bin=pandas.cut(SHOP["age"], 2),
        month=pandas.period_range("2024-01", periods=6, freq="M"),
        sparse=pandas.arrays.SparseArray([1, 0, 0, 0, 1, 1]),
    )
    data = Dataset.from_pandas(nodes, one_hot=["bin", "month"])
    assert "sparse" in data.feature_names and "month=2024-03" in data.feature_names
    assert data.graph.num_edges() == 6 and data.ids is None


def test_weights_match_a_new_frame_by_its_columns(tmp_path):
    data = Dataset.from_pandas(SHOP, LINKS, **HOW)
    model = zoo.create_model("gcn", data.inputs, data.classes, dim=4)
    zoo.save(model, tmp_path / "club", data)
    new = SHOP[SHOP.columns[::-1]].assign(label=None)
    asked = Dataset.from_pandas(new, LINKS, **HOW)
    said = zoo.predict(zoo.load(tmp_path / "club"), asked)
    assert torch.equal(said.values, zoo.predict(zoo.load(tmp_path / "club"), data).values)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nodes": [[1, 2]]}, "from_pandas reads frames of nodes and of edges, and this is a list"),
        ({"onehot": "city"}, "no option 'onehot'; did you mean 'one_hot'"),
        ({"missing": "men"}, "missing: should be 'refuse', 'mean'"),
        ({"dates": None}, "^nodes: the column 'since' is of type .*`dates: .since.`"),
        ({"source": "from"}, "^edges has no column 'from'"),
        ({"weight": None}, "^edges: the edges have 'amount'; write `weight: amount`"),
        ({"edges": None, "weight": "amount"}, "write `edges=FRAME`"),
        ({"nodes": SHOP[["age", "age"]]}, "^nodes: the column 'age' is there twice"),
        ({"nodes": SHOP[:3]}, "^edges: data row 3 leads to 'd'"),
    ],
)
def test_what_is_wrong_with_frames(given, said):
    with pytest.raises(ZooError, match=said):
        Dataset.from_pandas(**{"nodes": SHOP, "edges": LINKS, **HOW, **given})
