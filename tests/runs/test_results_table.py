"""The table of several graphs: who shares a row, what is best, and what its files say."""

import csv
import json
import math
import re
from pathlib import Path

import pytest
from scipy.stats import friedmanchisquare

from zoo.cli import result_tables
from zoo.cli.console import out
from zoo.errors import ZooError
from zoo.runs.compare import candidates, compare, finished_runs
from zoo.runs.results_table import (
    _kind,
    _limits,
    cells,
    check_files,
    flat,
    in_percent,
    model_names,
    results_table,
    sentences,
    to_latex,
    write,
)
from zoo.runs.run import run_recipe

SCORES = {
    "gcn": {"cora": 0.8, "chameleon": 0.6, "shop_50%": 0.7},
    "sgformer, rba": {"cora": 0.82, "chameleon": 0.6, "shop_50%": 0.75},
    "mlp": {"cora": 0.5, "chameleon": 0.4, "shop_50%": 0.72},
    "gat": {"cora": 0.9},
}


def rows(scores=SCORES, metric="accuracy", noise=("gcn",)):
    """Rows as those of `compare`, of which some are not significantly worse than the best."""
    graphs = scores["gcn"]
    top = min if metric == "mse" else max
    best = {each: top(scores, key=lambda model: scores[model].get(each, 0)) for each in graphs}
    return [
        {
            "model": model, "graph": graph, "metric": metric, "recipe": f"{model}-{graph}",
            "test": {"mean": mean, "std": 0.01, "runs": 3}, "unreached_phase": None,
            "best": model == best[graph], "same_splits": True,
            "difference": None if model == best[graph] else {
                "mean": mean - scores[best[graph]][graph], "low": -0.5, "high": 0.1, "pairs": 3,
                "splits": 1, "p": 0.03, "p_holm": 0.06,
                "noise": model in noise or mean == scores[best[graph]][graph]}
        }
        for model, own in scores.items() for graph, mean in own.items()
    ]  # fmt: skip


def texts(scores):
    return cells(scores, lambda text, best, marks: text[:6] + "!" * best + marks)


def test_what_is_tuned_for_each_graph_is_one_row_and_what_differs_on_one_graph_is_not():
    def recipe(data, **model):
        return {"dataset": {"name": data}, "model": {"name": "sgformer", **model}, "seeds": [0]}

    rba = {"name": "rba", "size": 64}
    recipes = [recipe("cora", dim=8, attention="native"), recipe("pubmed", dim=64),
               recipe("cora", dim=8, attention=rba), recipe("pubmed", attention="rba")]  # fmt: skip
    graphs = [each["dataset"]["name"] for each in recipes]
    runs = [f"run-{number}" for number in range(5)]
    told = ["sgformer", "sgformer", "sgformer, rba", "sgformer, rba"]
    assert model_names(recipes, graphs, runs[:4]) == told
    more = recipe("cora", dim=8, attention={**rba, "size": 9})
    told = model_names([*recipes, more], [*graphs, "cora"], runs)
    assert told[2:] == ["sgformer, rba, size 64", "sgformer, rba", "sgformer, rba, size 9"]
    again = model_names([recipes[0], recipes[0]], ["cora", "cora"], runs[:2])
    assert again == ["sgformer, run-0", "sgformer, run-1"]
    private = {**more, "dataset": {"name": "/home/me/cora"}, "imports": ["/home/me/own.py"]}
    assert "home" not in str(model_names([more, private], ["cora", "cora"], runs[:2]))


def test_the_best_its_like_and_the_ranks():
    scores = results_table(rows())
    table = texts(scores)
    assert table[0] == ["model", "cora", "chameleon", "shop_50%", "mean rank"]
    assert {row[0]: row[1:] for row in table[1:]} == {
        "sgformer, rba": ["0.8200", "0.6000!", "0.7500!", "1.17"],  # of the three on all graphs
        "gcn": ["0.8000≈", "0.6000!", "0.7000≈", "2.17"],
        "mlp": ["0.5000", "0.4000", "0.7200", "2.67"],
        "gat": ["0.9000!", "–", "–", "–"],
    }
    assert [row[0] for row in table[1:]] == ["sgformer, rba", "gcn", "mlp", "gat"]
    ranks = [[1, 1.5, 1], [2, 1.5, 3], [3, 3, 2]]
    statistic, p = friedmanchisquare(*ranks)
    said = " ".join(sentences(scores))
    assert f"chi-squared {statistic:.2f}, p = {p:.2g}" in said and "may all be alike" in said
    assert "3 models that are on all of them" in said


def test_of_errors_the_least_is_best_and_metrics_are_named_where_they_differ():
    several = rows({"gcn": {"cora": 0.8}, "mlp": {"cora": 0.5}})
    errors = rows({"gcn": {"sales": 4.0}, "mlp": {"sales": 2.0}}, metric="mse")
    table = texts(results_table([*several, *errors]))
    assert table[0] == ["model", "cora, accuracy", "sales, mse", "mean rank"]
    assert table[1:] == [
        ["gcn", "0.8000!", "4.0000≈", "1.50"],
        ["mlp", "0.5000", "2.0000!", "1.50"],
    ]
    said = " ".join(sentences(results_table([*several, *errors])))
    assert "Of mse less is better." in said and "Friedman" not in said


def test_shares_are_written_in_percent_and_errors_as_they_are():
    several = rows({"gcn": {"cora": 0.8}, "mlp": {"cora": 0.5}})
    errors = rows({"gcn": {"sales": 4.0}, "mlp": {"sales": 2.0}}, metric="mse")
    plain = results_table([*several, *errors])
    scores = in_percent(plain)
    whole = cells(scores, lambda text, *_: text)
    assert whole[0] == ["model", "cora, accuracy in %", "sales, mse", "mean rank"]
    assert whole[1] == ["gcn", "80.00 ± 1.00", "4.0000 ± 0.0100", "1.50"]
    assert "Of mse less is better." in " ".join(sentences(scores))
    for line in (*several, *errors):
        line["graph"] = f"{line['graph']}, {line['metric']}"  # as two questions of one graph
    heads = cells(in_percent(results_table([*several, *errors])), lambda text, *_: text)[0]
    assert heads[1:3] == ["cora, accuracy in %", "sales, mse"]
    assert scores["difference"].dropna().round(9).tolist() == [2.0, -30.0]
    assert plain["mean"].max() == 4.0  # the other is a copy


def test_one_graph_is_printed_in_percent_too(runs, command, capsys):
    """`--percent` reached the table of several graphs alone."""
    _, said, _ = command("results", runs, "--json")
    summaries = [row for row in json.loads(said) if row["graph"] == "sbm, classes 3"]
    best, other = summaries
    other["difference"] = {"mean": -0.0312, "low": -0.0725, "high": 0.0101, "pairs": 3,
                           "splits": 3, "noise": True, "from": "the best"}  # fmt: skip
    result_tables.comparison(summaries, percent=True)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("accuracy in % on ")
    assert f"{100 * best['test']['mean']:.2f} ± {100 * best['test']['std']:.2f}" in said[2]
    assert said[3].split()[-5:] == ["-3.12", "-7.25", "to", "+1.01", "noise"]


def test_where_nothing_is_tested_that_is_said():
    single = rows({"gcn": {"cora": 0.8}, "mlp": {"cora": 0.5}})
    for row in single:
        row["test"]["std"] = None
        row["difference"] = row["difference"] and {**row["difference"], "low": None, "noise": None}
    scores = results_table(single)
    assert texts(scores) == [["model", "cora"], ["gcn", "0.8000!"], ["mlp", "0.5000"]]
    said = " ".join(sentences(scores))
    assert "tested: the scores are of pairs that are all alike." in said
    assert "≈" not in said and "±" not in said and "?" not in said


def test_a_word_and_a_list_of_it_are_one_option():
    """Runs from Python and from the command stood in two rows."""
    one, other = ({"dataset": {"name": "bank", "one_hot": each}} for each in ("x", ["x"]))
    assert dict(flat(one)) == dict(flat(other)) == {"dataset.name": "bank", "dataset.one_hot": "x"}


def test_a_table_says_how_many_runs_and_is_referred_to_by_its_file(tmp_path):
    write(results_table(rows()), [], tmp_path / "fraud.tex")
    text = (tmp_path / "fraud.tex").read_text()
    assert r"\label{tab:fraud}" in text and "deviation over 3 runs" in text


def test_latex_is_escaped_and_has_as_many_cells_in_each_row():
    text = to_latex(results_table(rows()), ["a note,\nof two lines"])
    assert text.splitlines()[1] == "% a note, of two lines"
    body = text.partition(r"\begin{tabular}{lrrrr}")[2].partition(r"\end{tabular}")[0]
    lines = [line.strip() for line in body.strip().splitlines()]
    assert [line for line in lines if "rule" in line] == [r"\toprule", r"\midrule", r"\bottomrule"]
    cell_lines = [line for line in lines if "rule" not in line]
    assert all(line.count("&") == 4 and line.endswith(r" \\") for line in cell_lines)
    assert r"shop\_50\%" in cell_lines[0] and "rank" in cell_lines[0]
    assert r"\textbf{0.8200 $\pm$ 0.0100}" not in text and r"\textbf{0.7500 $\pm$ 0.0100}" in text
    assert text.count("≈") == 0 and text.count(r"0.0100 $\approx$") == 2
    for one, two in ("{}", (r"\begin", r"\end")):
        assert text.count(one) - text.count("\\" + one) * (one == "{") == text.count(two)
    outside = re.sub(r"\\[&%$#_{}]|\$\\(pm|approx)\$", "", text.partition("\n\\begin")[2])
    assert not set("%$#_~^") & set(outside)


def test_a_score_whose_last_phase_never_began_is_marked_in_every_form(tmp_path):
    scores = results_table([{**row, "unreached_phase": 100 if row["model"] == "gcn" else None}
                            for row in rows()])  # fmt: skip
    named = "untrained: gcn on cora (100 epochs), gcn on chameleon (100 epochs)"
    for name, mark in (("a.md", "0.8000 ± 0.0100 † ≈"), ("a.tex", r"0.0100 $\dagger$ $\approx$")):
        write(scores, [*sentences(scores)], tmp_path / name)
        text = (tmp_path / name).read_text()
        assert mark in text and named in text
    assert r"$\dagger$: training ended" in text.partition(r"\caption")[2]  # seen in the paper


def test_files_are_read_back(tmp_path):
    scores = results_table(rows())
    for name in ("a.csv", "a.md", "a.tex", "a.svg", "a.png"):
        path = tmp_path / name
        write(scores, ["a note"], path)
    with (tmp_path / "a.csv").open() as file:
        lines = {(line["model"], line["graph"]): line for line in csv.DictReader(file)}
    for row in rows():
        line = lines[row["model"], row["graph"]]
        assert float(line["mean"]) == row["test"]["mean"] and line["recipe"] == row["recipe"]
        assert line["noise"] == str((row["difference"] or {"noise": ""})["noise"])
    markdown = (tmp_path / "a.md").read_text().splitlines()
    assert {line.count("|") for line in markdown[:6]} == {6} and markdown[-1] == "a note"
    assert r"shop\_50%" in markdown[0] and "**0.9000 ± 0.0100**" in "".join(markdown)
    begins = {"svg": b"<?xml", "png": b"\x89PNG"}
    for ending, bytes_of in begins.items():
        assert (tmp_path / f"a.{ending}").read_bytes().startswith(bytes_of)


def test_a_table_replaces_tables_alone(tmp_path):
    path = tmp_path / "paper.tex"
    path.write_text(r"\documentclass{article}")
    with pytest.raises(ZooError, match="is no table of ours, and is kept"):
        check_files({"latex": path})
    write(results_table(rows()), [], path)
    assert check_files({"latex": path, "csv": None}) == [path]
    with pytest.raises(ZooError, match="ends in .svg or .pdf or .png"):
        check_files({"figure": path})


def untested(row, splits=True):
    """A row of other seeds than the best, or of other splits too."""
    return {**row, "best": False, "difference": None, "same_splits": splits}


def test_what_is_not_tested_is_marked_and_of_other_splits_it_is_not_ranked():
    """It looked as what is significantly worse, in the text, the figure and the ranks."""
    own = [untested(row, splits=False) if row["model"] == "mlp" else row for row in rows()]
    scores = results_table(own)
    assert {row[0]: row[1:] for row in texts(scores)[1:]} == {
        "sgformer, rba": ["0.8200", "0.6000!", "0.7500!", "1.17"],
        "gcn": ["0.8000≈", "0.6000!", "0.7000≈", "1.83"],
        "mlp": ["0.5000?", "0.4000?", "0.7200?", "–"],
        "gat": ["0.9000!", "–", "–", "–"],
    }
    said = [*sentences(scores)]
    assert "?: not tested, being of other seeds or splits than the best." in said
    assert any("2 models that are on all of them, without those that are of other splits than the "
               "best on some: mlp." in text for text in said)  # fmt: skip
    assert "?: not tested" in to_latex(scores, said).partition(r"\caption")[2]
    assert {_kind(line) for line in scores.to_dict("records") if line["model"] == "mlp"} == {
        "cross: not tested"
    }
    seeds = [untested(row) if row["model"] == "mlp" else row for row in rows()]
    said = " ".join(sentences(results_table(seeds)))
    assert "of the 3 models" in said and "some ranks are of scores that are not tested" in said
    alone = [untested(row, splits=False) if row["model"] != "gcn" else row for row in rows()]
    assert "No mean rank: too few" in " ".join(sentences(results_table(alone)))


def test_the_star_of_another_budget_is_in_every_form(tmp_path):
    """It stood on the terminal alone."""
    own = [
        {
            **row,
            "same_budget": row["model"] != "gcn",
            "budget": {"epochs": 5, "patience": None},
            "tuned": row["model"] == "gcn",
            "trials": 7,
            "seconds": 1.5,
            "parameters": 9,
            "cut_short": row["model"] == "mlp" and row["graph"] == "cora",
        }
        for row in rows()
    ]
    scores = results_table(own)
    for name, mark in (("a.md", r"0.0100 \* ≈ |"), ("a.tex", r"0.0100 * $\approx$ &")):
        write(scores, [*sentences(scores)], tmp_path / name)
        text = (tmp_path / name).read_text()
        assert mark in text and "*: of another budget of training than most" in text
        assert "With default options, not tuned: sgformer, rba; mlp; gat." in text
        assert "with more these may improve: mlp on cora." in text
    write(scores, [], tmp_path / "a.csv")
    with (tmp_path / "a.csv").open() as file:
        line = next(line for line in csv.DictReader(file) if line["model"] == "gcn")
    keys = ("epochs", "patience", "seconds", "parameters", "tuned", "trials", "another_budget")
    assert [line[key] for key in keys] == ["5", "", "1.5", "9", "True", "7", "True"]


def test_losses_that_differ_within_a_row_are_named():
    """A run with another loss stood in the row of the model, without a word."""
    own = [{**row, "loss": "focal" if (row["model"], row["graph"]) == ("gcn", "cora") else "task",
            "split_options": "benchmark" if row["graph"] == "chameleon" else "per-class-20"}
           for row in rows()]  # fmt: skip
    said = " ".join(sentences(results_table(own)))
    assert "Rows differ in loss: focal of gcn on cora; else task." in said
    assert "Rows differ in split: benchmark of all on chameleon; else per-class-20." in said
    assert "differ" not in " ".join(sentences(results_table(rows())))


def test_what_is_significant_one_at_a_time_alone_is_named():
    said = " ".join(sentences(results_table(rows())))
    assert "one comparison at a time. With Holm's correction" in said
    assert "not significantly worse either: mlp; sgformer, rba on cora." in said
    sure = rows()
    for row in sure:
        row["difference"] = row["difference"] and {**row["difference"], "p_holm": 0.01}
    assert "the same are significant" in " ".join(sentences(results_table(sure)))


@pytest.mark.parametrize("width", [80, 45])
def test_no_score_is_folded(monkeypatch, capsys, width):
    """A mark stood on a line of its own."""
    monkeypatch.setattr(out, "width", width)
    own = [{**row, "graph": f"{row['graph']}, of classes {number}"}
           for number in (2, 3) for row in rows()]  # fmt: skip
    result_tables.results(results_table(own), ["a note"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width and not [line for line in lines if line.strip() == "≈"]
    said = "\n".join(lines)
    assert said.count("±") == 20 and said.count("0.8000 ± 0.0100 ≈") == 2
    assert said.count("model") > 1 and said.count("mean rank") == 1 and "…" not in said


@pytest.fixture
def runs(tmp_path):
    """A folder with finished runs of one recipe file on two graphs, and of another on one."""
    folder = tmp_path / "runs"
    data = "{name: sbm, nodes: 40, classes: %d, split: ratio-50-25-25}"
    for model, classes in (("mlp", 2), ("mlp", 3), ("gcn", 3), ("mlp", 3)):
        path = tmp_path / "gf.yaml"
        seeds = "[0, 1]" if model == "mlp" else "[0]"
        path.write_text(f"# t\ndataset: {data % classes}\nmodel: {{name: {model}, dim: 4}}\n"
                        f"train: {{epochs: 1}}\nseeds: {seeds}\n")  # fmt: skip
        run_recipe(str(path), runs=folder)
    return folder


def test_the_finished_runs_of_a_folder_are_a_table(runs, command):
    (runs / "notes").mkdir()
    (runs / "damaged").mkdir()
    (runs / "damaged" / "summary.json").write_text('{"seeds": [')
    code, said, told = command("results", runs, "--json")
    found = json.loads(said)
    assert "damaged is left out: " in told
    assert code == 0 and all(row["read"] for row in found)
    assert {(row["model"], row["graph"]) for row in found} == {
        ("mlp", "sbm, classes 2"), ("mlp", "sbm, classes 3"), ("gcn", "sbm, classes 3")
    }  # fmt: skip
    latest = sorted(runs.glob("gf-*"), key=lambda path: path.name)[-1]
    assert str(latest) in {row["folder"] for row in found}
    table = runs / "table.tex"
    code, said, told = command("results", runs, "--latex", table)
    assert code == 0 and f"written: {table}" in told
    line = next(line for line in said.splitlines() if line.startswith("mlp"))
    assert line.count("±") == 2 and "Read from finished runs" not in said
    assert "sbm, classes 3: On other splits than mlp, or fewer" in " ".join(said.split())
    assert table.read_text().count(r"\textbf") == 2
    code, said, _ = command("results", runs, "--model", "mlp", "--percent")
    assert code == 0 and "gcn" not in said and "accuracy in %" in said.lower()
    code, _, told = command("results", runs, "--model", "gcn", "--dataset", "cora")
    assert code == 2 and "no finished run of gcn on cora in" in told and "mlp on sbm" in told
    code, _, told = command("results", runs / "notes")
    assert code == 2 and "there is no finished run in" in told


def test_runs_of_data_of_before_are_left_out_and_said(tmp_path):
    path, told = tmp_path / "sales.csv", []
    for model, word in (("mlp", "a"), ("gcn", "b")):
        lines = [f"{each},{word if each % 2 else 'c'}\n" for each in range(20)]
        path.write_text("x,label\n" + "".join(lines))
        recipe = {"dataset": str(path), "model": model, "train": {"epochs": 1}}
        run_recipe(recipe, runs=tmp_path / "runs")
    [entry] = finished_runs(tmp_path / "runs", told.append)
    assert entry.plan.model["name"] == "gcn" and "has changed in between" in told[0]


def test_recipes_of_several_graphs_are_one_table(runs):
    sources = [str(path) for path in sorted(runs.glob("gf-*"))]
    found = compare(candidates([*sources, sources[0]], baselines=False))
    by_graph = {row["graph"] for row in found}
    assert len(found) == 4 and len(by_graph) == 2  # what is named twice is there once
    assert [row["difference"] is None for row in found].count(True) >= 2
    assert {Path(row["folder"]).name for row in found} == {Path(each).name for each in sources}


def test_one_score_far_off_leaves_the_others_their_room(tmp_path):
    near = {"gcn": {"cora": 0.8}, "gat": {"cora": 0.82}, "mlp": {"cora": 0.79}}
    scores = results_table(rows({**near, "nsa": {"cora": 0.02}}))
    low, high = _limits(scores)
    assert 0.77 < low < 0.78 and 0.83 < high < 0.84
    assert _limits(results_table(rows(near))) == (-math.inf, math.inf)
    write(scores, [], tmp_path / "scores.svg")
    assert (tmp_path / "scores.svg").stat().st_size > 1000
