"""What `zoo data check` proposes for tables, in one round, and that its last lines train."""

import re
import shlex

import numpy as np
import pandas
import pytest
import yaml

from zoo import ZooError
from zoo.data.load import guess_spec, load_graph
from zoo.data.tables.guess import proposed

ROWS = 80
WORDS = ["red boat river water", "train rail station road", "forest tree leaf wood"]
FEATURES = {"one_hot": ["job", "news"], "text": ["note"], "dates": ["since"], "missing": "mean"}
EDGES = {"source": "from", "target": "to", "weight": "amount"}


def shop(id="customer", label="segment"):
    """Customers with gaps, dates, words and text, of whom half have a label; and who buys alike."""
    rng = np.random.default_rng(0)
    kind = np.arange(ROWS) % 3
    names = [f"c{number:03}" for number in rng.permutation(ROWS)]
    age = (30 + 20 * kind + rng.normal(size=ROWS)).round(1)
    nodes = pandas.DataFrame(
        {
            id: names,
            "age": np.where(rng.random(ROWS) < 0.1, np.nan, age),
            "job": rng.choice(["cook", "clerk"], ROWS),
            "news": rng.choice(["yes", "no"], ROWS),
            "since": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(np.arange(ROWS), "D"),
            "note": np.array(WORDS)[kind],
            label: np.where(rng.random(ROWS) < 0.6, np.array(["a", "b", "c"])[kind], None),
        }
    )
    ends = rng.integers(ROWS, size=(300, 2))
    edges = pandas.DataFrame(np.array(names)[ends], columns=["from", "to"])
    return nodes, edges.assign(amount=rng.random(300).round(2) + 0.5)


def write(folder, nodes, edges, **form):
    folder.mkdir()
    for name, table in (("nodes", nodes), ("edges", edges)):
        table.to_csv(folder / f"{name}.csv", index=False, **form)
    return str(folder)


def guessed(path, **options):
    return proposed(guess_spec({"name": str(path), **options}))


def numbered(nodes, edges):
    places = dict(zip(nodes["customer"], range(ROWS), strict=True))
    ends = {end: edges[end].map(places) for end in ("from", "to")}
    return nodes.drop(columns="customer"), edges.assign(**ends)


CASES = {
    "as it is": (lambda n, e: (n, e), {"id": "customer", "label": "segment"}),
    "id, label, source and target": (
        lambda n, e: (
            n.rename(columns={"customer": "id", "segment": "label"}),
            e.rename(columns={"from": "source", "to": "target"}),
        ),
        {"source": None, "target": None},
    ),
    "numbers of rows": (numbered, {"id": None, "label": "segment"}),
    "ends of other names, behind a text": (
        lambda n, e: (n, e.rename(columns={"from": "a", "to": "b"}).assign(kind="call")),
        {"id": "customer", "label": "segment", "source": "a", "target": "b"},
    ),
    "a column of parts": (
        lambda n, e: (n.assign(fold=["train", "val", "test", "train"] * (ROWS // 4)), e),
        {"id": "customer", "label": "segment", "split_column": "fold"},
    ),
    "numbers to predict": (
        lambda n, e: (n.drop(columns="segment").assign(target=n["age"] * 1.5), e),
        {"id": "customer", "label": "target", "task": "node-regression"},
    ),
    "classes by number": (
        lambda n, e: (n.assign(segment=n["segment"].map({"a": 0, "b": 1, "c": 2})), e),
        {"id": "customer", "label": "segment"},
    ),
    "a word for unknown": (
        lambda n, e: (n.assign(segment=n["segment"].fillna("?")), e),
        {"id": "customer", "label": "segment", "unknown": "?"},
    ),
    "no label": (lambda n, e: (n.drop(columns="segment"), e), {"id": "customer"}),
    "a label by its gaps": (
        lambda n, e: (n.rename(columns={"segment": "sort"}), e),
        {"id": "customer", "label": "sort"},
    ),
    "what is no feature": (
        lambda n, e: (n.assign(mail=[f"m{i}" for i in range(ROWS)], empty="", churn=n["job"]), e),
        {"id": "customer", "label": "segment", "columns": ["age"]},
    ),
    "two that may weigh": (
        lambda n, e: (n, e.assign(km=1.0)),
        {"id": "customer", "label": "segment", "weight": None, "weights": "ignore"},
    ),
    "numbers of which more is not a stronger link": (  # days had become the weight
        lambda n, e: (n, e.rename(columns={"amount": "days_between"})),
        {"id": "customer", "label": "segment", "weight": None, "weights": "ignore"},
    ),
    "dates with slashes": (
        lambda n, e: (n.assign(since=n["since"].dt.strftime("%m/%d/%Y")), e),
        {"id": "customer", "label": "segment", "date_format": "%m/%d/%Y"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_everything_is_found_in_one_round(tmp_path, case):
    change, own = CASES[case]
    path = write(tmp_path / "shop", *change(*shop()))
    wanted = {key: value for key, value in (EDGES | FEATURES | own).items()
              if value is not None or key == "id"}  # fmt: skip
    found = guessed(path)
    assert found == wanted
    data = load_graph(path, **found)
    assert len(data.y) == ROWS and np.isfinite(data.x).all()
    assert not guessed(path, **found)  # nothing is left to say
    label = own.get("label", "label")
    assert not any(name.startswith((label, "fold", "customer")) for name in data.feature_names)


def test_a_csv_of_another_country_and_a_parquet_table(tmp_path):
    nodes, edges = shop()
    wanted = {"id": "customer", "label": "segment", **EDGES, **FEATURES}
    path = write(tmp_path / "semi", nodes, edges, sep=";", decimal=",")
    assert guessed(path) == {"separator": ";", "decimal": "comma", **wanted}
    (tmp_path / "parquet").mkdir()
    nodes.to_parquet(tmp_path / "parquet" / "nodes.parquet")
    edges.to_parquet(tmp_path / "parquet" / "edges.parquet")
    assert guessed(tmp_path / "parquet") == wanted
    nodes.to_csv(tmp_path / "alone.csv", index=False)
    alone = guessed(tmp_path / "alone.csv", one_hot="job")
    assert alone == {"id": "customer", "label": "segment", **FEATURES}


def test_kinds_of_nodes_and_sets_of_graphs(tmp_path):
    nodes, edges = shop("id")
    path = tmp_path / "kinds"
    write(path, nodes, edges)
    (path / "nodes.csv").rename(path / "nodes-customer.csv")
    (path / "edges.csv").rename(path / "edges-customer-customer.csv")
    assert guessed(path) == {"label": "segment", **EDGES, **FEATURES}
    graph = np.arange(ROWS) // 8
    path = tmp_path / "set"
    write(path, nodes.drop(columns="segment").assign(graph=graph, id=np.arange(ROWS) % 8),
          pandas.DataFrame({"graph": range(10), "source": 0, "target": 1}))  # fmt: skip
    graphs = pandas.DataFrame({"graph": range(10), "energy": np.arange(10) / 3})
    graphs.to_csv(path / "graphs.csv", index=False)
    assert guessed(path) == {"label": "energy", "task": "graph-regression", **FEATURES}


def test_the_last_lines_train(tmp_path, zoo):
    write(tmp_path / "my shop", *shop())
    code, said = zoo("data", "check", "my shop")
    assert code == 1 and not said.err
    line = re.search(r"^zoo (train .*)$", said.out, re.M)[1]
    words = shlex.split(line)
    assert "dataset.one_hot=job,news" in words
    code, told = zoo(*words, "train.epochs=2", "model.dim=8", "--quiet")
    assert code == 0, told.err
    recipe = yaml.safe_load(said.out.split("In a recipe\n")[1])
    options = [word.removeprefix("dataset.") for word in words[3:]]
    code, said = zoo("data", "check", "my shop", *options)
    assert code == 0 and "fix" not in said.out
    assert yaml.safe_load(said.out.split("In a recipe\n")[1])["dataset"].keys() == recipe[
        "dataset"].keys()  # fmt: skip


def test_training_guesses_nothing_and_names_the_check(tmp_path, zoo):
    nodes, edges = shop()
    write(tmp_path / "shop", nodes, edges)
    code, said = zoo("train", "gcn", "dataset=shop", "dataset.label=segment")
    assert code == 2
    assert said.err.strip().endswith(
        "`zoo data check shop label=segment` prints the finished line."
    )
    with pytest.raises(ZooError, match="write `text: .*, `label: segment`") as refused:
        load_graph("shop", id="customer", source="from", target="to", weight="amount",
                   one_hot=["job", "news"], dates="since")  # fmt: skip
    assert "one_hot: [segment" not in str(refused.value)


def test_what_no_guess_can_mend_is_told_beside_the_guesses(tmp_path, zoo):
    nodes, edges = shop()
    write(tmp_path / "shop", nodes[:-1], edges)
    code, said = zoo("data", "check", "shop")
    assert code == 2 and "no node has this id" in said.err and "dataset.id=customer" in said.out
    nodes, edges = shop()
    path = write(tmp_path / "parts", nodes.assign(fold=["training", "valid"] * (ROWS // 2)), edges)
    [split] = [found for found in guess_spec(path) if found.name == "split_column"]
    assert split.verdict == "fix" and "write train, val and test there" in split.fix
    assert guessed(path)["columns"] == ["age"]
    nodes["age"] = ["1,5", "1.5"] * (ROWS // 2)  # as a comma, or a point, has it: not guessed
    path = write(tmp_path / "mixed", nodes.assign(graph=np.arange(ROWS) // 8), edges)
    assert "decimal" not in guessed(path)
    with pytest.raises(ZooError, match="numbers with a comma and with a point"):
        load_graph(path, **guessed(path))
    assert "graphs.csv" in next(each.fix for each in guess_spec(path) if each.name == "graph")


def test_without_a_label_it_is_asked_for(tmp_path, zoo):
    nodes, edges = shop()
    write(tmp_path / "shop", nodes.drop(columns="segment"), edges)
    code, said = zoo("data", "check", "shop")
    assert code == 1 and "it may be 'job', 'news'" in " ".join(said.out.split())
    assert re.search(r"^zoo train .* task=link-prediction$", said.out, re.M)


def test_a_command_with_a_typo_is_not_proposed_and_what_is_read_is_drawn(command, tmp_path):
    rows = "".join(f"n{i},{'ab'[i % 2]},{i},{'xy'[i % 2]}\n" for i in range(20))
    (tmp_path / "a.csv").write_text("id,town,size,category\n" + rows)
    code, said, err = command("data", "check", "a.csv", "label=categry", "--plot", "a.png")
    assert code == 2 and "did you mean 'category'?" in err and "the plot comes once" in err
    assert "zoo train" not in said and not (tmp_path / "a.png").exists()
    code, said, err = command("data", "check", "a.csv", "label=category", "--plot", "a.png")
    assert code == 1 and "zoo train" in said and (tmp_path / "a.png").exists()


def test_ids_are_known_where_one_is_there_twice_or_many_are_missing(tmp_path):
    nodes, edges = shop()
    double = pandas.concat([nodes, nodes.iloc[:1]])
    for name, rows in {"double": double, "missing": nodes.iloc[: ROWS // 3]}.items():
        path = write(tmp_path / name, rows, edges)
        found = guessed(path)
        assert (found["id"], found["source"], found["target"]) == ("customer", "from", "to")
    with pytest.raises(ZooError, match="'c0.*' is that of several nodes"):
        load_graph({"name": str(tmp_path / "double"), **guessed(tmp_path / "double")})


def test_tables_in_another_encoding_say_so_first(tmp_path, command):
    nodes, edges = shop()
    nodes["job"] = "Köchin"
    path = write(tmp_path / "mine", nodes, edges, encoding="latin-1")
    code, out, err = command("data", "check", path)
    assert code == 2 and "save the table as UTF-8 CSV" in err and not out
