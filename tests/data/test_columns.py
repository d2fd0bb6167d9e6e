"""Columns of tables: text, dates, kinds of things and gaps, learnt of training nodes alone."""

import functools
import json

import networkx
import numpy as np
import pandas
import pyarrow
import pytest
import torch
from pyarrow import parquet
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import zoo
from zoo import ZooError, embed, load, predict
from zoo.config.learnt_columns import CategoryColumn, DateColumn, HashedColumn, TextColumn
from zoo.data.load import load_data, read_graph
from zoo.data.load.check import check
from zoo.data.splits import split_of
from zoo.runs.run import run_recipe

load_graph = functools.partial(zoo.load_graph, numbers="raw")  # cells as they stand

WORDS = ["river boat water", "train rail station", "forest tree leaf", "rail water tree"]
OPTIONS = {
    "label": "kind",
    "one_hot": "country",
    "text": "about",
    "dates": "since",
    "missing": "indicator",
}


def table(rows=60, seed=0, gaps=True):
    rng = np.random.default_rng(seed)
    age = rng.normal(40, 10, rows).round(1)
    since = pandas.Timestamp("2020-01-01") + pandas.to_timedelta(rng.integers(0, 900, rows), "D")
    frame = pandas.DataFrame(
        {
            "id": [f"n{each}" for each in range(rows)],
            "age": age,
            "country": rng.choice(["de", "fr", "it"], rows),
            "about": rng.choice(WORDS, rows),
            "since": since.strftime("%Y-%m-%d"),
            "open": rng.choice(["True", "False"], rows),
            "kind": rng.choice(["a", "b", "c"], rows),
        }
    )
    if gaps:
        frame.loc[rng.choice(rows, 6, replace=False), "age"] = None
        frame.loc[rng.choice(rows, 6, replace=False), "since"] = None
    return frame


def write(folder, frame, edges=None):
    folder.mkdir(exist_ok=True)
    frame.to_csv(folder / "nodes.csv", index=False)
    ids = frame["id"].tolist()
    edges = list(zip(ids, ids[1:] + ids[:1], strict=True)) if edges is None else edges
    pandas.DataFrame(edges, columns=["source", "target"]).to_csv(folder / "edges.csv", index=False)
    return str(folder)


def test_features_are_those_of_scikit_learn(tmp_path):
    """Equal to its ColumnTransformer, fitted on the same training rows."""
    frame = table()
    data = load_graph(write(tmp_path / "g", frame), **OPTIONS)
    train = torch.arange(0, 60, 2)
    found = data.trained_on(train)
    frame["open"] = (frame["open"] == "True").astype(float)
    days = (pandas.to_datetime(frame["since"]) - pandas.Timestamp(0)) / pandas.Timedelta(days=1)
    frame["days"], frame["gap"] = days, frame["age"].isna().astype(float)
    turn, known = 2 * np.pi * days / 365.2425, days.notna()
    frame["sine"], frame["cosine"] = np.sin(turn).where(known, 0), np.cos(turn).where(known, 0)
    frame["lost"] = (~known).astype(float)
    twin = ColumnTransformer(
        [
            ("age", SimpleImputer(strategy="constant", fill_value=0), ["age"]),
            ("gap", "passthrough", ["gap"]),
            ("country", OneHotEncoder(handle_unknown="ignore"), ["country"]),
            ("about", TfidfVectorizer(stop_words="english"), "about"),
            ("days", StandardScaler(), ["days"]),
            ("turn", "passthrough", ["sine", "cosine", "lost", "open"]),
        ],
        sparse_threshold=0,
    ).fit(frame.iloc[train.numpy()])
    wanted = np.nan_to_num(twin.transform(frame))
    np.testing.assert_allclose(found.x.numpy(), wanted, rtol=0, atol=1e-5)
    assert found.feature_names[:3] == ("age", "age missing", "country=de")
    assert "about: river" in found.feature_names and "since cosine of year" in found.feature_names
    assert len(found.feature_names) == found.x.shape[1]


@pytest.mark.parametrize("missing", ["mean", "zero", "indicator"])
def test_gaps(tmp_path, missing):
    frame = table()[["id", "age", "kind"]]
    path = write(tmp_path / "g", frame)
    train, gaps = torch.arange(30), frame["age"].isna().to_numpy()
    x = load_graph(path, label="kind", missing=missing).trained_on(train).x.numpy()
    fill = frame["age"][:30].mean() if missing == "mean" else 0
    np.testing.assert_allclose(x[:, 0], frame["age"].fillna(fill), rtol=1e-6)
    assert x.shape[1] == 1 + (missing == "indicator")
    assert missing != "indicator" or np.array_equal(x[:, 1], gaps)
    with pytest.raises(ZooError, match="'age'.*missing: mean"):
        load_graph(path, label="kind")


def test_what_test_nodes_alone_hold_is_not_learnt(tmp_path):
    frame = table(gaps=False)
    frame.loc[40:, ["country", "about"]] = ["xx", "submarine"]
    data = load_graph(write(tmp_path / "g", frame), **{**OPTIONS, "missing": "refuse"})
    assert "country=xx" in data.feature_names and "about: submarine" in data.feature_names
    learnt = data.trained_on(torch.arange(40))
    assert not any("xx" in each or "submarine" in each for each in learnt.feature_names)
    column = learnt.feature_names.index("country=de")
    assert (learnt.x[40:, column : column + 3] == 0).all()


@pytest.mark.parametrize(("missing", "age", "since"), [("mean", 30.0, 0.0), ("zero", 0.0, 0.0)])
def test_gaps_of_another_table_alone(tmp_path, missing, age, since):
    """They are filled by what the other table says, with what training had."""
    frame = table(2, gaps=False).drop(columns=["about", "country", "open"])
    frame["age"] = [20.0, 40.0]
    whole = load_graph(write(tmp_path / "g", frame), label="kind", dates="since")
    frame.loc[0, ["age", "since"]] = [np.nan, None]
    other = write(tmp_path / "other", frame)
    learnt = whole.columns.fit()
    asked = load_graph(other, label="kind", dates="since", missing=missing).with_columns(learnt)
    assert asked.x[0].tolist() == [age, since, 0, 0]
    assert torch.equal(asked.x[1], whole.x[1])


@pytest.mark.parametrize("options", [[], ["--on-disk"]])
def test_a_prepared_table_has_learnt_of_its_training_nodes(options, zoo, tmp_path, caplog):
    frame = table(40, gaps=False).assign(split=["train"] * 20 + ["val"] * 10 + ["test"] * 10)
    frame.loc[30:, "age"] += 1000
    path = write(tmp_path / "g", frame, [("n0", "n1")])
    columns = [f"{key}={value}" for key, value in {**OPTIONS, "numbers": "standard"}.items()]
    zoo("data", "prepare", "g", "mine", *columns, *options)
    assert "all nodes" not in caplog.text
    prepared, own = load_data("mine"), load_graph(path, **OPTIONS, numbers="standard")
    own = own.trained_on(torch.arange(20))
    assert prepared.feature_names == own.feature_names
    torch.testing.assert_close(torch.as_tensor(prepared.x), own.x)
    frame.drop(columns="split").to_csv(tmp_path / "g" / "nodes.csv", index=False)
    zoo("data", "prepare", "g", "other", *columns, *options)
    assert "are those of all nodes, the test's too" in caplog.text


def test_numbers_are_standardised_by_the_training_nodes_unless_told_otherwise(tmp_path):
    """All but columns of yes and no, which stay; a gap is left out of mean and deviation."""
    frame = pandas.DataFrame({
        "id": range(6), "income": [1e5, 3e5, 2e5, 9e9, 9e9, np.nan], "year": [2000, 2010] * 3,
        "rare": [0, 0, 1, 0, 0, 0], "same": 7, "label": list("ababab"),
    })  # fmt: skip
    path, train = write(tmp_path / "g", frame), torch.arange(3)
    data = zoo.load_graph(path, missing="mean").trained_on(train)
    wanted = StandardScaler().fit(frame[["income", "year"]][:3]).transform(
        frame[["income", "year"]].fillna(2e5)
    )  # fmt: skip
    assert np.allclose(data.x[:, :2], wanted, rtol=1e-5)
    assert data.x[:, 2].tolist() == [0, 0, 1, 0, 0, 0] and not data.x[:, 3].any()
    assert zoo.load_graph(path, missing="mean", numbers="raw").x[0].tolist() == [1e5, 2000, 0, 7]
    for numbers, said in (("standard", True), ("raw", False)):
        graph = read_graph({"name": path, "missing": "mean", "numbers": numbers})
        (told,) = [each.found for each in check(graph) if each.name == "features"]
        assert ("numbers standardised" in told) is said


def test_attributes_of_networkx_are_standardised_too():
    graph = networkx.path_graph(4)
    for node in graph:
        graph.nodes[node].update(pay=50_000 + 1_000 * node, label=node % 2)
    data = zoo.Dataset.from_networkx(graph)
    assert data.x.flatten().tolist() == pytest.approx([-1.3416, -0.4472, 0.4472, 1.3416], abs=1e-4)
    assert zoo.Dataset.from_networkx(graph, numbers="raw").x[1].tolist() == [51_000]


def test_a_column_that_is_constant_but_for_rounding_is_not_blown_up(tmp_path):
    frame = table(50, gaps=False).assign(fee=0.1, since="2024-03-31 18:30:07")
    path = write(tmp_path / "g", frame)
    data = load_graph(path, **OPTIONS, numbers="standard")
    learnt = {each.name: each for each in data.columns.fit()}
    assert learnt["fee"].spread == [1.0] and learnt["since"].deviation == 1.0


def test_many_kinds_of_things_are_hashed(tmp_path):
    frame = table(600, gaps=False)[["id", "age", "kind"]].assign(town=[f"t{i}" for i in range(600)])
    data = load_graph(write(tmp_path / "g", frame), label="kind", one_hot="town")
    (town,) = [each for each in data.columns.fit() if each.name == "town"]
    assert isinstance(town, HashedColumn) and data.x.shape[1] == 1 + 256
    assert (data.x[:, 1:].abs().sum(dim=1) == 1).all()


def test_a_new_table_is_read_as_that_of_training(tmp_path):
    """Prediction on a table of a part that no edge leaves equals that inside of the whole."""
    frame = table(80)
    ids = frame["id"].tolist()
    edges = [(ids[i], ids[i + 1]) for i in range(79) if i != 49]  # 0 to 49, and 50 to 79
    whole = write(tmp_path / "whole", frame, edges)
    recipe = {
        "model": {"name": "gcn", "dim": 16},
        "dataset": {"name": whole, **OPTIONS},
        "train": {"epochs": 3},
        "seeds": [0, 1],
    }
    summary = run_recipe(recipe, runs=tmp_path / "runs", device="cpu")
    part = write(tmp_path / "part", frame.iloc[50:].reset_index(drop=True), edges[49:])
    for seed in (0, 1):
        folder = next((tmp_path / "runs").glob(f"*/seed-{seed}"))
        about = json.loads((folder / "config.json").read_text())["about"]
        assert [each["name"] for each in about["columns"]] == [
            "age", "country", "about", "since", "open"
        ]  # fmt: skip
        model = zoo.load(folder)
        kinds = [type(each) for each in model.about.columns]
        assert kinds[1:4] == [CategoryColumn, TextColumn, DateColumn]
        inside = zoo.predict(model, load_graph(whole, **OPTIONS))
        alone = zoo.predict(model, load_graph(part, **OPTIONS))
        assert alone.ids.tolist() == inside.ids[50:].tolist()
        torch.testing.assert_close(alone.values, inside.values[50:], rtol=0, atol=1e-6)
    assert summary["test"]["mean"] >= 0
    with pytest.raises(ZooError, match="no column 'country'"):
        other = frame.drop(columns="country")
        zoo.predict(
            model, load_graph(write(tmp_path / "other", other), **{**OPTIONS, "one_hot": []})
        )
    with pytest.raises(ZooError, match="'about' was read as category.*`text: "):
        zoo.predict(model, load_graph(part, **{**OPTIONS, "text": [], "one_hot": "country,about"}))


@pytest.mark.parametrize(
    "column,cells,options,said",
    [
        (
            "since",
            ["2020-01-01", "yesterday"],
            {"dates": "since"},
            "'yesterday' in data row 2.*no date",
        ),
        *(
            ("since", ["2020-01-01", word], {"dates": "since"}, f"'{word}' in data row 2.*no date")
            for word in ("now", "NOW", "today", " today ")
        ),
        ("since", ["today", "today"], {"dates": "since"}, "'today' in data row 1.*no date"),
        (
            "since",
            ["31.12.2020", "now"],
            {"dates": "since", "date_format": "%d.%m.%Y"},
            "'now' in data row 2.*no date of the form",
        ),
        ("place", ["[1, 2]", "[1]"], {"vectors": "place"}, "as many numbers"),
        ("place", ["1 2", "x"], {"vectors": "place"}, "'x' in data row 2"),
        ("about", ["the of", "and"], {"text": "about"}, "no words to learn from"),
        ("about", ["a b", "c d"], {"text": "abuot"}, "did you mean 'about'"),
        ("born", ["2001-05-01", "2002-05-01"], {}, "dates: .born"),
        ("born", ["1.5.2001", "31.12.2002"], {}, "dates: .born"),
        ("born", ["1/5/2001", "31/12/2002"], {}, "dates: .born.* .with `date_format`.*'%d/%m/%Y'"),
        ("born", ["12/31/2001 9:00", "1/2/2002 10:30"], {}, "dates: .born.* .with `date_format`"),
        (
            "born",
            ["1/5/2001", "31/12/2002"],
            {"dates": "born", "date_format": "%m/%d/%Y"},
            "'31/12/2002' in data row 2, which is no date of the form %m/%d/%Y",
        ),
        ("born", ["1/5/2001", "2/5/2001"], {"dates": "born"}, "such as `date_format: '%d/%m/%Y'`"),
        ("born", ["a", "b"], {"dates": "born", "date_format": "%Q"}, "date_format: '%Q'` is none"),
        ("size", ["0,5", "1.5"], {}, "'0,5' in data row 1 and '1.5' in data row 2.*in one way"),
        ("size", ["5", "0,5"], {}, "write `decimal: comma`"),
        ("size", ["v 0,5", "1.5"], {}, "one_hot: .size"),
        ("size", ["1,234", "950"], {}, "write `decimal: comma` .or the numbers without commas"),
        ("size", ["0,234", "1,950"], {}, "write `decimal: comma`"),
        ("born", ["1.0.0", "2.1.0"], {}, "one_hot: .born"),
        ("a, b [x]", ["Rome", "Bonn"], {}, r"one_hot: \['a, b \[x\]'\]"),
        ("1", ["Rome", "Bonn"], {}, r"one_hot: \['1'\]"),
        ("place", ["0.5 1 2", "1 2 3"], {}, "vectors: .place"),
        ("about", ["a nice old town", "it has a river"], {}, "text: .about"),
        ("town", ["Rome", "Bonn"], {}, "one_hot: .town"),
        ("age", [None, None], {"missing": "mean"}, "empty in all training rows"),
        ("age", [1, None], {"missing": "median"}, "'indicator'"),
        ("about", ["a b", "c d"], {"text": "about", "terms": 0}, "greater than or equal to 1"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, column, cells, options, said):
    frame = pandas.DataFrame({"id": ["a", "b"], column: cells, "label": ["x", "y"]})
    path = write(tmp_path / "g", frame)
    with pytest.raises(ZooError, match=said):
        load_graph(path, **options).trained_on(torch.arange(2))


def test_dates_of_any_year_and_words_for_the_unknown(tmp_path):
    frame = pandas.DataFrame({"id": [1, 2, 3], "until": ["9999-12-31", "2024-01-02", "0024-01-01"]})
    x = load_graph(write(tmp_path / "g", frame.assign(label=["a", "b", "a"])), dates="until").x
    assert x.isfinite().all() and x[0, 0] > x[1, 0] > x[2, 0]
    frame = pandas.DataFrame({"id": range(4), "f": 1.0, "y": ["-1.0", "3", "-1", "2.5"]})
    told = {"label": "y", "task": "node-regression", "unknown": -1, "columns": "f"}
    assert load_graph(write(tmp_path / "h", frame), **told).y.isnan().tolist() == [1, 0, 1, 0]
    codes = pandas.DataFrame({"id": range(4), "f": 1.0, "label": ["0", "00", "7", "0.0"]})
    path = write(tmp_path / "codes", codes)
    assert load_graph(path, unknown=0).labels == ("00", "7")  # 00 is a code and no number
    (tmp_path / "own.csv").write_text("id;f;y\n1;1,5;2,5\n2;2;3\n")
    told = {"label": "y", "task": "node-regression", "separator": ";", "decimal": "comma"}
    data = load_graph(str(tmp_path / "own.csv"), **told)
    assert data.y.tolist() == [2.5, 3.0] and data.x.flatten().tolist() == [1.5, 2.0]


def test_a_column_of_nothing_is_no_kind_of_thing_in_parquet(tmp_path):
    frame = pandas.DataFrame({"x": [None, None], "y": [1, 2], "label": ["a", "b"]})
    frame.to_parquet(tmp_path / "g.parquet")
    path = str(tmp_path / "g.parquet")
    with pytest.raises(ZooError, match="'x' is empty in all training rows; leave it out"):
        load_graph(path, missing="mean").trained_on(torch.arange(2))
    assert load_graph(path, missing="zero").x.tolist() == [[0, 1], [0, 2]]


def test_rows_of_one_column_may_be_empty_but_at_the_end(tmp_path):
    (tmp_path / "g.csv").write_text("x\n1\n\n3\n\n\n")
    assert load_graph(str(tmp_path / "g.csv"), missing="mean").x.flatten().tolist() == [1, 2, 3]
    (tmp_path / "h.csv").write_bytes(b'x\r\n\r\n3\r\n""\r\n\r\n')
    assert load_graph(str(tmp_path / "h.csv"), missing="zero").x.flatten().tolist() == [0, 3, 0]


def test_any_number_of_columns_of_text_may_stand_beside_the_features(tmp_path):
    words = {f"w{each}": ["u", "v"] for each in range(150)}
    frame = pandas.DataFrame({"x": [1, 2], **words, "label": ["a", "b"]})
    frame.to_csv(tmp_path / "g.csv", index=False)
    path = str(tmp_path / "g.csv")
    assert load_graph(path, columns="x").x.flatten().tolist() == [1, 2]
    with pytest.raises(
        ZooError, match="'w4' holds 'u' in line 2.*, and 145 more.*one_hot: .w0, w1"
    ):
        load_graph(path)


def test_quotes_inside_of_cells_and_lines_inside_of_quotes(tmp_path):
    long = "word " * 40_000  # longer than Python's own limit of a cell
    cells = ['5" wide', '"one\n""two"", 3"', f'"{long}"']
    rows = "".join(f"n{n},{each},{'xyz'[n]}\n" for n, each in enumerate(cells))
    (tmp_path / "g.csv").write_bytes(f'\ufeff"id",about,label\n{rows}'.encode())
    data = load_graph(str(tmp_path / "g.csv"), text="about")
    assert data.ids.tolist() == ["n0", "n1", "n2"] and data.labels == ("x", "y", "z")
    assert data.feature_names == ("about: wide", "about: word")


def test_vectors_and_dates_of_parquet(tmp_path):
    frame = pandas.DataFrame(
        {
            "id": [1, 2],
            "place": [[0.5, 1.0], [2.0, 3.0]],
            "born": pandas.to_datetime(["2020-01-01", None]),
            "label": ["x", "y"],
        }
    )
    (tmp_path / "g").mkdir()
    frame.to_parquet(tmp_path / "g" / "nodes.parquet")
    pandas.DataFrame({"source": [1], "target": [2]}).to_parquet(tmp_path / "g" / "edges.parquet")
    data = load_graph(str(tmp_path / "g"), dates="born", missing="zero")
    assert data.feature_names[:3] == ("place[0]", "place[1]", "born")
    assert data.x[:, :2].tolist() == [[0.5, 1.0], [2.0, 3.0]] and data.x[1, 2] == 0
    text = frame.assign(place=["[0.5, 1]", "2 3"], born="2020-01-01")
    again = load_graph(write(tmp_path / "h", text, [(1, 2)]), dates="born", vectors="place")
    assert torch.equal(again.x[:, :2], data.x[:, :2])


def test_dates_with_points_have_the_day_first_and_others_their_format(tmp_path):
    frame = pandas.DataFrame({"id": [1, 2, 3], "label": ["x", "y", "x"]})

    def read(name, *born):
        path = write(tmp_path / name, frame.assign(born=[*born, ""]))
        return load_graph(path, dates="born", missing="zero").x

    assert torch.equal(read("a", "1.2.2020", "15.10.1999"), read("b", "2020-02-01", "1999-10-15"))
    hours = read("c", "01.02.2020 6:00", "15.10.1999 18:30")
    assert torch.equal(hours, read("d", "2020-02-01 06:00", "1999-10-15 18:30"))
    slashes = write(tmp_path / "e", frame.assign(born=["2/1/2020", "10/15/1999", ""]))
    american = load_graph(slashes, dates="born", date_format="%m/%d/%Y", missing="zero").x
    assert torch.equal(american, read("f", "2020-02-01", "1999-10-15"))
    frame["born"] = ["31.3.2020", "2020-02-01", "3.4.2020"]
    with pytest.raises(ZooError, match="'2020-02-01' in data row 2"):
        load_graph(write(tmp_path / "h", frame), dates="born")


def test_the_index_of_pandas_is_no_feature(tmp_path):
    """It is in the order of the labels, more often than not, and no column of edges either."""
    frame = table(9, gaps=False)[["id", "age", "kind"]]
    path = write(tmp_path / "g", frame)
    for written in (frame, frame.reset_index(names="Unnamed: 0")):
        written.to_csv(tmp_path / "g" / "nodes.csv")  # with the index
        edges = pandas.read_csv(tmp_path / "g" / "edges.csv")
        edges.to_csv(tmp_path / "g" / "edges.csv")  # "Unnamed: 0" and another in the second round
        assert load_graph(path, label="kind").feature_names == ("age",)
    own = load_graph(path, label="kind", columns=["", "age"], weight="")
    assert own.feature_names == ("", "age") and own.x[:, 0].tolist() == list(range(9))
    assert "weight" in own.graph.edata


@pytest.mark.parametrize(
    ("form", "first", "second"),
    [("%d%m%Y", "01022024", "02012023"), ("%m.%Y", "1.2024", "12.2023"),
     ("%Y.%m", "2023.10", "2023.2")],
)  # fmt: skip
def test_dates_of_digits_are_read_by_their_form(form, first, second, tmp_path):
    frame = table(3, gaps=False)[["id", "age", "kind"]].assign(at=[first, second, ""])
    path = write(tmp_path / "g", frame)
    told = {"label": "kind", "time_column": "at", "date_format": form}
    days = pandas.to_datetime(frame["at"], format=form) - pandas.Timestamp(0)
    wanted = days / pandas.Timedelta(days=1)
    assert np.array_equal(load_graph(path, **told).times, wanted, equal_nan=True)
    frame["at"] = pandas.to_numeric(frame["at"])  # as which the table may be of Parquet
    frame.to_parquet(tmp_path / "g.parquet")
    if form == "%d%m%Y":
        found = load_graph(str(tmp_path / "g.parquet"), **told).times
        assert np.array_equal(found, wanted, equal_nan=True)
    else:
        with pytest.raises(ZooError, match="nobody knows how many digits.*as text"):
            load_graph(str(tmp_path / "g.parquet"), **told)


@pytest.mark.parametrize(
    ("cell", "numbers"),
    [("0,5 1", [0.5, 1]), ("[0,5, 1]", [0.5, 1]), ("0,5; 1", [0.5, 1]), ("[0.5, 1]", [0.5, 1]),
     ("[0,5]", None), ("0,5 1.5", None), ("0.5 1", None)],
)  # fmt: skip
def test_vectors_with_a_comma_before_the_fraction(cell, numbers, tmp_path):
    (tmp_path / "g.csv").write_text(f'place;label\n"{cell}";a\n"{cell}";b\n')
    told = {"name": str(tmp_path / "g.csv"), "separator": ";", "vectors": "place"}
    if numbers:
        assert load_graph({**told, "decimal": "comma"}).x.tolist() == [numbers] * 2
    else:
        with pytest.raises(ZooError, match="'place' holds.*such as 0,5 1 2"):
            load_graph({**told, "decimal": "comma"})


@pytest.mark.parametrize("kind", ["time32[s]", "duration[s]"])
def test_times_of_day_are_no_dates(kind, tmp_path):
    when = pyarrow.array([60, 120], pyarrow.int32() if kind == "time32[s]" else pyarrow.int64())
    kinds = {"time32[s]": pyarrow.time32("s"), "duration[s]": pyarrow.duration("s")}
    rows = pyarrow.table({"x": [1, 2], "when": when.cast(kinds[kind]), "label": ["a", "b"]})
    parquet.write_table(rows, tmp_path / "g.parquet")
    for told in ({"dates": "when"}, {"time_column": "when"}):
        with pytest.raises(ZooError, match=r"'when' is of type .*times of day, or durations"):
            load_graph(str(tmp_path / "g.parquet"), **told)
    with pytest.raises(ZooError, match="'when' is of type .*write times of day and durations as n"):
        load_graph(str(tmp_path / "g.parquet"))


def answers(frame):
    told = [name for name in frame if name == "part" or name.startswith("known")]
    return frame.drop(columns=told).reset_index(drop=True)


def test_a_graph_that_has_grown_is_predicted_by_its_path_alone(tmp_path, zoo):
    """Options are those of training; --only-new tells of the nodes that came after."""
    frame = table(60)
    path = write(tmp_path / "mine", frame)
    words = [f"dataset.{key}={each}" for key, each in OPTIONS.items()]
    code, printed = zoo(
        "train", "gcn-cora", f"dataset={path}", *words, "train.epochs=2", "seeds=[0]",
        "dataset.split=ratio-60-20-20", "--runs", "runs",
    )  # fmt: skip
    assert code == 0, printed.err
    (run,) = (tmp_path / "runs").glob("gcn*")
    grown = pandas.concat(
        [table(5, seed=1, gaps=False).assign(id=[f"m{i}" for i in range(5)]), frame]
    )
    grown["kind"] = grown["kind"].where(np.arange(len(grown)) > 2)
    write(tmp_path / "mine", grown)
    out = tmp_path / "all.csv"
    code, printed = zoo("predict", str(run), "--data", path, "--out", str(out))
    assert code == 0, printed.err
    told = pandas.read_csv(out)
    assert told["id"].tolist() == grown["id"].tolist()
    assert told["known"].fillna("").tolist() == grown["kind"].fillna("").tolist()
    noted = json.loads((run / "nodes.json").read_text())
    parts = dict(zip(noted["ids"], noted["parts"]["0"], strict=True))
    word = {"0": "train", "1": "val", "2": "test"}
    assert told["part"].fillna("").tolist() == [word.get(parts.get(i), "") for i in told["id"]]
    left = tmp_path / "left.csv"
    asked = ("predict", str(run), "--data", path, "--only-unlabelled", "--out", str(left))
    code, printed = zoo(*asked)
    assert code == 0, printed.err
    unknown = grown["kind"].isna().to_numpy()
    assert answers(pandas.read_csv(left)).equals(answers(told[unknown]))
    by_name = predict(load(run), path)  # read by the options of training
    assert by_name.table()["label"].tolist() == told["label"].tolist()
    assert embed(load(run), path).values.shape[0] == len(told)
    new = tmp_path / "new.csv"
    call = ("predict", str(run), "--data", path, "--only-new", "--out", str(new))
    code, printed = zoo(*call)
    assert code == 0 and "5 nodes of mine" in printed.err
    found, every = pandas.read_csv(new), pandas.read_csv(out)
    assert answers(found).equals(answers(every[:5]))
    in_python = predict(load(run), path, only_new=True, only_unlabelled=True).table()
    assert in_python["id"].tolist() == told["id"][:5][unknown[:5]].tolist()
    measured = ("evaluate", str(run), "--data", path, "--only-new")
    code, printed = zoo(*measured, "--json")
    result = json.loads(printed.out)
    assert code == 0 and not result["seen"] and result["nodes"] == (~unknown[:5]).sum()
    right = [told["label"][row] == told["known"][row] for row in range(5) if not unknown[row]]
    assert result["score"] == pytest.approx(sum(right) / len(right))
    bare = grown.drop(columns="kind")
    write(tmp_path / "mine", bare)
    code, printed = zoo(*call, "--again")
    assert code == 0, printed.err
    assert answers(pandas.read_csv(new)).equals(answers(found))
    (run / "nodes.json").write_text("{}")
    code, printed = zoo(*call, "--again")
    assert code == 2 and "nodes.json is damaged" in printed.err
    (run / "nodes.json").unlink()
    code, printed = zoo(*call, "--again")
    assert code == 2 and "--only-new needs nodes.json" in printed.err


@pytest.mark.parametrize("task", ["node-classification", "node-regression", "node-multilabel"])
def test_labels_and_splits_are_not_needed_to_predict(tmp_path, zoo, task):
    frame = table(30, gaps=False)[["id", "age"]]
    frame["split"] = ["train", "val", "test"] * 10
    targets = {"kind": [0, 1] * 15} | ({"other": [1, 0] * 15} if "multi" in task else {})
    known = write(tmp_path / "known", frame.assign(**targets))
    recipe = {
        "dataset": {
            "name": known,
            "label": [*targets] if "multi" in task else "kind",
            "task": task,
        },
        "model": {"name": "mlp", "dim": 4},
        "train": {"epochs": 2},
    }
    folder = run_recipe(recipe, runs=tmp_path / "runs")["folder"]
    found = []
    for number, cells in enumerate((targets, *(dict.fromkeys(targets, word) for word in WANTED))):
        new = write(tmp_path / f"new{number}", frame.assign(split="test", **cells))
        code, said = zoo("predict", folder, "--data", new, "--out", f"{number}.csv")
        assert code == 0, said.err
        found.append(pandas.read_csv(tmp_path / f"{number}.csv"))
    known, *unknown = found
    assert ("known_kind" if "multi" in task else "known") in known
    for each in unknown:
        assert answers(each).equals(answers(known))
    assert zoo("embed", folder, "--data", new, "--out", "rows.npy")[0] == 0
    assert zoo("evaluate", folder, "--data", new)[0] == 2  # what is no label has no score
    assert zoo("evaluate", folder, "--data", str(tmp_path / "new0"))[0] == 0


WANTED = ("-1", "?", "unknown", "0.5 or so")
"""What stands in columns of labels that are to be predicted."""


def test_a_split_that_leaves_a_part_empty_divides_nothing(tmp_path, zoo):
    frame = table(30, gaps=False)[["id", "age", "kind"]].assign(split="test")
    spec = {"name": write(tmp_path / "held", frame), "label": "kind"}
    data = load_graph(spec)
    assert data.feature_names == ("age",) and data.split == "benchmark"
    assert len(split_of(data, "ratio-60-20-20", 0).train) == 18
    said = "that comes with held marks none of the nodes as train; mark some.*`split_column`"
    with pytest.raises(ZooError, match=said):
        run_recipe({"dataset": spec, "model": "mlp"}, runs=tmp_path)
    code, told = zoo("data", "prepare", spec["name"], "mine", "label=kind")
    assert code == 2 and "marks none of the nodes as train" in told.err


def test_labels_that_are_ignored_are_no_features(tmp_path):
    frame = table(20, gaps=False)[["id", "age", "kind"]].assign(other=1.0)
    spec = {"name": write(tmp_path / "a", frame), "label": "kind", "labels": "ignore"}
    data = load_graph(spec)
    assert data.feature_names == ("age", "other") and (data.y == -1).all() and not data.labels
    data = load_graph({**spec, "label": ["kind", "other"], "task": "node-multilabel"})
    assert data.feature_names == ("age",) and data.y.isnan().all()


def test_truth_values_are_labels_as_they_are_in_a_csv(tmp_path):
    frame = pandas.DataFrame({"x": [1, 2, 3], "a": [True, False, True], "b": [False, True, True]})
    read = []
    for path, written in ("t.csv", frame.to_csv), ("t.parquet", frame.to_parquet):
        written(tmp_path / path, index=False)
        name = str(tmp_path / path)
        classes, targets = (load_graph(name, label=each, columns="x") for each in ("a", ["a", "b"]))
        read.append((classes.labels, classes.y.tolist(), targets.task, targets.y.tolist()))
    assert read[0] == read[1]
    assert read[0] == (
        ("False", "True"), [1, 0, 1], "node-multilabel", [[1, 0], [0, 1], [1, 1]],
    )  # fmt: skip
