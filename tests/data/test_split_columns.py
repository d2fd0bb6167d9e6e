"""Columns of true and false, or of words, that say the split: of every reader of columns."""

import networkx
import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet
from scipy import sparse

from zoo import Dataset, ZooError, load_graph
from zoo.data.splits import split_of

PARTS = ("train", "val", "test")
NODES, PART = 20, np.repeat([0, 1, 2], [10, 5, 5])
EDGES = [(i, i + 1) for i in range(NODES - 1)]
MASKED = dict(zip(PARTS, ("train_mask", "val_mask", "test_mask"), strict=True))
PLAIN = dict(zip(PARTS, PARTS, strict=True))


def frame(names=MASKED, values=bool, **columns):
    """A table of nodes with a feature f, and a column for each part that has a name."""
    rows = pandas.DataFrame({"id": np.arange(NODES), "f": np.arange(NODES) / 10})
    rows["label"] = np.arange(NODES) % 2
    for at, part in enumerate(PARTS):
        if part in names:
            rows[names[part]] = [values(each) for each in at == PART]
    return rows.assign(**columns)


def table(tmp_path, rows, suffix=".csv"):
    tmp_path.mkdir(exist_ok=True)
    edges = pandas.DataFrame(EDGES, columns=["source", "target"])
    for name, each in (("nodes", rows), ("edges", edges)):
        if suffix == ".parquet":
            each.to_parquet(tmp_path / f"{name}.parquet", index=False)
        else:
            separator = "\t" if suffix == ".tsv" else ","
            each.to_csv(tmp_path / f"{name}{suffix}", index=False, sep=separator)
    return str(tmp_path)


def attributed(rows):
    """A graph of NetworkX whose attributes are the columns of a table, but those that are None."""
    graph = networkx.Graph(EDGES)
    for node, *values in rows.itertuples(index=False):
        told = zip(rows.columns[1:], values, strict=True)
        graph.nodes[node].update({key: each for key, each in told if each is not None})
    return graph


def is_split(data, features=("f",)):
    assert data.feature_names == features and data.split == "benchmark"
    split = split_of(data, data.split, 0)
    for at, part in enumerate(PARTS):
        assert getattr(split, part).tolist() == np.flatnonzero(at == PART).tolist()


READ = {
    **{suffix: lambda path, rows, suffix=suffix: load_graph(table(path, rows, suffix))
       for suffix in (".csv", ".tsv", ".parquet")},
    "one table": lambda path, rows: load_graph(f"{table(path, rows)}/nodes.csv"),
    "networkx": lambda path, rows: Dataset.from_networkx(attributed(rows)),
    "pandas": lambda path, rows: Dataset.from_arrays(
        EDGES, rows.drop(columns=["id", "label"]), rows["label"]),
    "matrix": lambda path, rows: Dataset.from_scipy(
        sparse.coo_array((np.ones(NODES - 1), np.array(EDGES).T), shape=(NODES, NODES)),
        rows.drop(columns=["id", "label"]), rows["label"]),
}  # fmt: skip


def said_of_splits(caplog):
    """What was said, but of the scale of numbers."""
    return [each for each in caplog.messages if "standardise" not in each]


@pytest.mark.parametrize("reader", READ)
@pytest.mark.parametrize(
    "names",
    [MASKED, PLAIN, {**MASKED, "val": "valid_mask"}, {**PLAIN, "val": "valid"},
     {"train": "Train", "val": "Validation", "test": "TEST"}],
    ids=lambda names: names["val"],
)  # fmt: skip
def test_masks_are_the_split_and_no_features(reader, names, tmp_path, caplog):
    is_split(READ[reader](tmp_path / "g", frame(names)))
    told = f"{names['train']}, {names['val']} and {names['test']} are the split, 10, 5 and 5 nodes"
    assert told in caplog.text


WRITTEN = {
    "numbers": int,
    "fractions": float,
    "words": lambda each: str(each).lower(),
    "WORDS": lambda each: str(each).upper(),
    "gaps": lambda each: True if each else None,
    "ones and gaps": lambda each: 1 if each else None,
}


@pytest.mark.parametrize("reader", [".csv", ".parquet", "networkx", "pandas"])
@pytest.mark.parametrize("values", WRITTEN)
def test_truth_is_written_in_many_ways(reader, values, tmp_path):
    is_split(READ[reader](tmp_path / "g", frame(values=WRITTEN[values])))


@pytest.mark.parametrize("names", [MASKED, PLAIN], ids=["masked", "plain"])
@pytest.mark.parametrize("form", ["graphml", "gml"])
def test_masks_in_the_files_of_networkx(form, names, tmp_path):
    rows = frame({part: name.replace("_", "") for part, name in names.items()}, int)
    path = tmp_path / f"g.{form}"
    {"graphml": networkx.write_graphml, "gml": networkx.write_gml}[form](
        attributed(rows.rename(columns={"label": "kind"})), path
    )
    is_split(load_graph(path, label="kind"))


@pytest.mark.parametrize("reader", READ)
def test_one_column_of_words_is_the_split(reader, tmp_path, caplog):
    is_split(READ[reader](tmp_path / "g", frame({}, split=np.array(PARTS)[PART])))
    assert not said_of_splits(caplog), "which is documented, and sure"
    with pytest.raises(ZooError, match="'split' holds '1'; write train, val or test"):
        READ[reader](tmp_path / "g", frame({}, split=PART + 1))


@pytest.mark.parametrize("reader", READ)
def test_masks_of_some_parts_are_told(reader, tmp_path):
    for names, lost in (({"train": "train_mask", "test": "test_mask"}, "val_mask"),
                        ({"train": "train", "test": "test"}, "val")):  # fmt: skip
        said = f"of the masks only {names['train']} and {names['test']} are there; write {lost} too"
        with pytest.raises(ZooError, match=said):
            READ[reader](tmp_path / "g", frame(names))
    for name in ("train", "test_mask"):
        with pytest.raises(ZooError, match=f"of the masks only {name} is there"):
            READ[reader](tmp_path / "g", frame({name.partition("_")[0]: name}))
    rows = frame({"train": "train", "val": "val"}, test=np.arange(NODES) / 3)
    with pytest.raises(ZooError, match=r"only train and val are there \(test holds other values\)"):
        READ[reader](tmp_path / "g", rows)


SCORES = np.arange(NODES) * 3.5 + 40


@pytest.mark.parametrize("reader", READ)
@pytest.mark.parametrize(
    "columns",
    [{"test": SCORES}, {"train": np.arange(NODES) % 3}, {"valid": np.arange(NODES) % 2},
     {"train": SCORES, "val": SCORES, "test": SCORES}, {"test_1": PART % 2, "test_2": PART // 2},
     {"train": np.zeros(NODES, int)}, {"training": PART % 2}, {"masked": PART % 2}],
    ids=str,
)  # fmt: skip
def test_scores_and_other_things_of_such_names_are_features(reader, columns, tmp_path, caplog):
    data = READ[reader](tmp_path / "g", frame({}, **columns))
    assert sorted(data.feature_names) == sorted(["f", *columns])
    assert data.masks is None and not said_of_splits(caplog)
    for name, values in columns.items():
        found = data.x[:, data.feature_names.index(name)]
        as_is = reader in ("pandas", "matrix") or set(values) <= {
            0,
            1,
        }  # a matrix of the user's own
        wanted = values if as_is else (values - np.mean(values)) / np.std(values)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_column_that_is_named_is_what_it_is_named(tmp_path, caplog):
    path = table(tmp_path / "g", frame(PLAIN, int))
    data = load_graph(path, columns=["f", "train", "val", "test"])
    assert data.feature_names == ("f", *PARTS) and data.masks is None
    data = load_graph(path, columns=["f", "test"])
    assert data.feature_names == ("f", "test") and data.masks is None
    assert load_graph(path, label="test", columns="f").labels == ("0", "1")
    graph = attributed(frame(PLAIN, int))
    assert Dataset.from_networkx(graph, columns=["f", "test"]).masks is None
    rows = frame({}, split=PART)
    assert load_graph(table(tmp_path / "h", rows), columns=["f", "split"]).masks is None
    names = ["f", *MASKED.values()]
    data = Dataset.from_arrays(EDGES, frame(values=int)[names], PART, feature_names=names)
    assert data.feature_names == tuple(names) and data.masks is None
    assert not said_of_splits(caplog)


def test_features_that_are_named_leave_the_split_what_it_is(tmp_path):
    is_split(load_graph(table(tmp_path / "g", frame()), columns="f"))
    is_split(Dataset.from_networkx(attributed(frame()), columns="f"))
    rows = frame(other=["x"] * NODES)
    is_split(load_graph(table(tmp_path / "g", rows), columns="f"))


@pytest.mark.parametrize("name", ["split", "part"])
def test_a_column_of_words_goes_before_masks(name, tmp_path, caplog):
    """Masks beside it would give the split away as well."""
    rows = frame({part: MASKED[PARTS[at - 1]] for at, part in enumerate(PARTS)})
    path = table(tmp_path / "g", rows.assign(**{name: np.array(PARTS)[PART]}))
    told = {} if name == "split" else {"split_column": name}
    is_split(load_graph(path, **told))
    assert f"the split is that of '{name}'" in caplog.text
    assert "test_mask, train_mask and val_mask are no features" in caplog.text
    graph = attributed(rows.assign(**{name: np.array(PARTS)[PART]}))
    is_split(Dataset.from_networkx(graph, **told))
    with pytest.raises(ZooError, match="no node has 'parts'"):
        Dataset.from_networkx(graph, split_column="parts")


def test_masks_take_the_place_of_those_that_are_given(caplog):
    rows = frame({part: MASKED[PARTS[at - 1]] for at, part in enumerate(PARTS)})
    given = {part: at == PART for at, part in enumerate(PARTS)}
    is_split(Dataset.from_arrays(EDGES, rows[["f", *MASKED.values()]], PART, masks=given))
    assert not said_of_splits(caplog)


def test_what_is_called_a_mask_and_is_none_is_refused(tmp_path):
    rows = frame().assign(val_mask=np.arange(NODES))
    with pytest.raises(ZooError, match="'val_mask' is called like a mask and holds something else"):
        load_graph(table(tmp_path / "g", rows))
    rows = frame().assign(valid_mask=PART == 1)
    with pytest.raises(ZooError, match="val_mask and valid_mask are masks of one part; keep one"):
        load_graph(table(tmp_path / "g", rows))
    with pytest.raises(ZooError, match="the masks overlap: 15 nodes"):
        load_graph(table(tmp_path / "g", frame().assign(val_mask=True)))
    with pytest.raises(ZooError, match="'train_mask' holds 'False'.*Masks are three columns"):
        load_graph(table(tmp_path / "g", frame()), split_column="train_mask")


def several(at, splits=3):
    """Masks (N, S) of a part: each split moves all nodes on by one."""
    return np.stack([np.roll(at == PART, each) for each in range(splits)], axis=1)


@pytest.mark.parametrize("numbered", ["{}_mask.{}", "{}_mask_{}", "{}.{}"])
def test_several_splits_in_columns(numbered, tmp_path, caplog):
    columns = {
        numbered.format(part, each): several(at)[:, each]
        for at, part in enumerate(PARTS)
        for each in (2, 0, 1)
    }
    data = load_graph(table(tmp_path / "g", frame({}, **columns)))
    assert data.feature_names == ("f",) and "are 3 splits and no features" in caplog.text
    for at, part in enumerate(PARTS):
        assert np.array_equal(data.masks[part], several(at).T)


@pytest.mark.parametrize("names", [MASKED, PLAIN], ids=["masked", "plain"])
def test_several_splits_in_lists(names, tmp_path):
    graph, rows = attributed(frame({})), frame({})
    lists = {names[part]: several(at).tolist() for at, part in enumerate(PARTS)}
    for name, each in lists.items():
        networkx.set_node_attributes(graph, dict(enumerate(each)), name)
    path = table(tmp_path / "g", rows, ".parquet")
    told = pyarrow.Table.from_pandas(rows)
    for name, each in lists.items():
        told = told.append_column(name, pyarrow.array(each))
    parquet.write_table(told, tmp_path / "g" / "nodes.parquet")
    for data in (Dataset.from_networkx(graph), Dataset.from_networkx(graph, columns="f"),
                 load_graph(path)):  # fmt: skip
        assert data.feature_names == ("f",)
        for at, part in enumerate(PARTS):
            assert np.array_equal(data.masks[part], several(at).T)


def test_masks_of_one_of_several_kinds(tmp_path):
    path = tmp_path / "g"
    path.mkdir()
    frame().to_csv(path / "nodes-paper.csv", index=False)
    pandas.DataFrame({"id": ["a", "b"], "test": [70, 55]}).to_csv(
        path / "nodes-author.csv", index=False
    )
    pandas.DataFrame({"source": ["a", "b"], "target": [0, 1]}).to_csv(
        path / "edges-author-paper.csv", index=False
    )
    data = load_graph(str(path))
    assert data.feature_names == ("author.test", "paper.f", "kind=author", "kind=paper")
    assert {part: int(mask.sum()) for part, mask in data.masks.items()} == {
        "train": 10, "val": 5, "test": 5
    }  # fmt: skip


def test_new_nodes_are_read_without_a_whole_split(tmp_path, caplog):
    """Nodes that are to be predicted are divided by nobody."""
    path = table(tmp_path / "g", frame({"test": "test_mask"}))
    data = load_graph(path, labels="ignore")
    assert data.feature_names == ("f",) and data.masks is None and not caplog.text


def test_words_of_a_split_are_named_by_their_option(tmp_path):
    path = table(tmp_path / "g", frame({}, part=np.array(PARTS)[PART]))
    with pytest.raises(ZooError, match="write `split_column: part`"):
        load_graph(path)
