"""Pages of recipes: up to date, true to the recipes, and made for every folder."""

import itertools
import re
import shutil
from xml.etree import ElementTree

import numpy as np
import pytest
import yaml
from scipy import stats
from scripts import script

from zoo.config.shipped import recipe_folder
from zoo.data.load.by_name import default_split, metric_of
from zoo.errors import ZooError
from zoo.runs.resolve import load_recipe

SCRIPT = script("pages")
outdated, write_pages = SCRIPT.outdated, SCRIPT.write_pages
results_page, results_picture = SCRIPT.results_page, SCRIPT.results_picture

MODELS = sorted(path.name for path in recipe_folder().iterdir() if path.is_dir())


def pages(folder):
    return SCRIPT.pages(folder, SCRIPT.read_recipes(folder))


@pytest.fixture(scope="module")
def made():
    return pages(recipe_folder())


@pytest.fixture
def folder(tmp_path):
    """A folder with the MLP's recipes and their pages."""
    shutil.copytree(recipe_folder() / "mlp", tmp_path / "mlp")
    write_pages(tmp_path)
    return tmp_path


def test_every_page_is_up_to_date(made):
    old = [str(path) for path in outdated(made)]
    assert not old, f"run `make pages` in the checkout: it writes {', '.join(old)}"


def test_a_new_recipe_makes_the_pages_old(folder):
    assert not outdated(pages(folder))
    shutil.copy(folder / "mlp" / "mlp-cora.yaml", folder / "mlp" / "mlp-pubmed.yaml")
    new = outdated(pages(folder))
    assert set(new) == {folder / "README.md", folder / "mlp" / "README.md"}
    assert set(write_pages(folder)) == set(new) and not outdated(pages(folder))
    assert "[mlp-pubmed](mlp-pubmed.yaml)" in (folder / "mlp" / "README.md").read_text()


def test_a_file_of_someone_else_is_kept(folder):
    (folder / "mlp" / "README.md").write_text("My notes.")
    with pytest.raises(ZooError, match="was not written by `make pages`"):
        write_pages(folder)
    assert (folder / "mlp" / "README.md").read_text() == "My notes."


def test_results_are_written_beside_a_folder_of_documents_alone(folder):
    (folder / "docs").mkdir()
    recipes = folder / "recipes"
    shutil.copytree(recipe_folder() / "mlp", recipes / "mlp")
    write_pages(recipes)
    assert "plots/results.svg" in (folder / "docs" / "results.md").read_text()
    assert (folder / "docs" / "plots" / "results.svg").is_file() and not outdated(pages(recipes))


def test_a_folder_without_a_page_is_found(folder):
    (folder / "mlp" / "README.md").unlink()
    assert list(outdated(pages(folder))) == [folder / "mlp" / "README.md"]


def rows(page):
    """The cells of a page's table by the recipe's name."""
    found = re.findall(r"^\| \[([\w-]+)\]\(\1\.yaml\) \|(.*) \|$", page, flags=re.MULTILINE)
    return {name: [each.strip() for each in re.split(r"(?<!\\)\|", rest)] for name, rest in found}


@pytest.mark.parametrize("model", MODELS)
def test_a_page_has_every_recipe_and_no_number_of_its_own(model, made):
    folder = recipe_folder() / model
    table = rows(made[folder / "README.md"])
    assert set(table) == {path.stem for path in folder.glob("*.yaml")}
    for name, (data, what, metric, expected, source, measured) in table.items():
        text = (folder / f"{name}.yaml").read_text()
        recipe = yaml.safe_load(text)
        expect = recipe.get("expect") or {"test": "", "source": ""}
        dataset = recipe["dataset"]
        assert data == (dataset if isinstance(dataset, str) else dataset["name"])
        assert text.startswith(f"# {what}.\n") and metric in (
            "accuracy",
            "roc-auc",
            "bleu",
            "mse",
            "rmse",
            "",
        )
        assert (expected, source) == (str(expect["test"]), expect["source"])
        if measured:
            stored = recipe["verified"]
            pattern = r"(\S+) ± (\S+), (\d+) seeds?, ([\d-]+)(?:, (.+))?"
            said = re.fullmatch(pattern, measured).groups(default="")
            kept = stored["test"], stored["std"], len(stored["seeds"]), stored["date"]
            assert said == (*map(str, kept), stored.get("gpu", ""))
        else:
            assert "verified" not in recipe


@pytest.mark.parametrize("model", MODELS)
def test_a_page_says_what_the_model_is_and_how_to_cite_it(model, made):
    page = made[recipe_folder() / model / "README.md"]
    assert "=" in page.partition("```text\n")[2].partition("\n```")[0]
    cited = f"{{{model},\n" in page and "year" in page
    assert cited or model in ("mlp", "htgn", "htgn-seq2seq", "ridge", "anygraph")  # without a paper


def test_the_first_page_leads_to_every_other(made):
    first = made[recipe_folder() / "README.md"]
    assert re.findall(r"\]\(([\w-]+)/README\.md\)", first) == MODELS


def test_a_folder_that_is_no_models(tmp_path):
    shutil.copytree(recipe_folder() / "mlp", tmp_path / "mpl")
    with pytest.raises(ZooError, match="did you mean 'mlp'"):
        pages(tmp_path)


def test_a_folder_without_recipes(tmp_path):
    with pytest.raises(ZooError, match="such as `recipes`"):
        pages(tmp_path)


def test_the_command_says_what_it_wrote(folder, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["pages.py", str(folder)])
    SCRIPT.main()
    assert "up to date" in capsys.readouterr().out
    (folder / "README.md").unlink()
    SCRIPT.main()
    assert f"written: {folder / 'README.md'}" in capsys.readouterr().out
    (folder / "README.md").write_text("My notes.")
    with pytest.raises(SystemExit, match="move it, and write them again"):
        SCRIPT.main()


SCORES = {  # model to test scores on cora, citeseer, actor and karate
    "gcn": [0.8, 0.7, 0.3, 0.9],
    "mlp": [0.6, 0.7, 0.35, None],
    "sgformer": [0.9, 0.6, 0.2, 0.8],
}


def measured(folder):
    """Write a recipe with a measurement for each score; the first one misses its number."""
    found = []
    for model, scores in SCORES.items():
        for name, score in zip(("cora", "citeseer", "actor", "karate"), scores, strict=True):
            if score is None:
                continue
            missed = (model, name) == ("gcn", "cora")
            expect = {"test": 0.95 if missed else 0.1, "within": 0.01, "source": "a paper"}
            more = {"missed": "not found, tried: other seeds.", "program": [0.7, 0.02]}
            expect |= more if missed else {}
            verified = {"test": score, "std": 0.01, "seeds": [0], "date": "2026-01-02"}
            data = {"dataset": name, "model": model, "expect": expect, "verified": verified}
            path = folder / f"{model}-{name}.yaml"
            path.write_text(yaml.safe_dump(data, sort_keys=False))
            found.append(load_recipe(path))
    return found


def test_the_page_of_results_has_every_measurement(tmp_path):
    page = results_page([*measured(tmp_path), load_recipe("gcn-pubmed")])
    for model, scores in SCORES.items():
        assert [f"{each:.4f} ± 0.0100" in page for each in scores if each] == [
            True] * sum(map(bool, scores)), model  # fmt: skip
    assert "| 0.9500 | 0.7000 ± 0.0200 | 0.8000 ± 0.0100 | -10.00 | 1 |  | FAIL, " in page
    assert "gcn-cora.yaml): not found, tried: other seeds." in page and page.count("PASS") == 10
    assert "gcn-pubmed" not in page and "11 recipes on 4 data sets" in page
    assert page.index("**0.9000 ± 0.0100**") < page.index("0.8000 ± 0.0100")  # karate or cora


def test_the_verdict_is_by_the_numbers_and_of_what_was_changed_there_is_none(tmp_path):
    missed, *rest = measured(tmp_path)
    bare = missed.model_copy(update={"expect": missed.expect.model_copy(update={"missed": None})})
    page = results_page([bare, *rest])
    assert page.count("| FAIL, ") == 1 and "gcn-cora.yaml): not said why." in page
    better = missed.verified.model_copy(update={"test": 0.96})
    page = results_page([missed.model_copy(update={"verified": better}), *rest])
    assert "FAIL" not in page and "Numbers that were missed" not in page
    for sha256, there in ((missed.sha256, True), ("0" * 16, False)):
        noted = missed.verified.model_copy(update={"sha256": sha256})
        page = results_page([missed.model_copy(update={"verified": noted}), *rest])
        assert ("[gcn-cora]" in page) == there


def test_scores_of_another_split_are_a_table_of_their_own(tmp_path):
    other = measured(tmp_path)[4].model_copy(
        update={"name": "mlp-half", "dataset": {"name": "cora", "split": "ratio-50-25-25"}}
    )
    page = results_page([*measured(tmp_path), other])
    own = page.partition("## cora, ratio-50-25-25")[2].partition("\n## ")[0]
    assert "mlp-half" in own and "gcn-cora" not in own and "12 recipes on 4 data sets" in page


def test_mean_ranks_are_over_the_data_sets_that_all_models_share(tmp_path):
    page = results_page(measured(tmp_path))
    shared = np.array([scores[:3] for scores in SCORES.values()])
    places = stats.rankdata(-shared, axis=0)
    common = "cora, per-class-20; citeseer, per-class-20; actor, benchmark"
    assert f"on the 3 data sets on which all of them are measured ({common})" in page
    for model, own in zip(SCORES, places, strict=True):
        half = stats.t.interval(0.95, 2, own.mean(), stats.sem(own))[1] - own.mean()
        assert f"| {model} | {own.mean():.2f} | {half:.2f} |" in page
    assert "Mean rank" not in results_page(measured(tmp_path)[:6])


def test_a_task_that_is_asked_for_has_its_own_metric():
    assert metric_of(load_recipe("nodeformer-deezer-europe")) == "roc-auc"
    assert metric_of(load_recipe("sgformer-deezer-europe")) == "accuracy"


def test_of_an_error_less_is_better(tmp_path):
    for model, score in {"gcn": 0.85, "mlp": 0.62}.items():
        verified = {"test": score, "std": 0.01, "seeds": [0], "date": "2026-01-02"}
        recipe = {"dataset": "chickenpox", "model": model, "verified": verified}
        (tmp_path / f"{model}.yaml").write_text(yaml.safe_dump(recipe))
    page = results_page([load_recipe(tmp_path / f"{each}.yaml") for each in ("gcn", "mlp")])
    assert "Of `mse` less is better." in page
    assert "**0.6200 ± 0.0100**" in page and "| 0.8500 ± 0.0100 | +0.2300 |" in page


def test_models_of_few_data_sets_are_left_out_of_the_ranks(tmp_path):
    found = measured(tmp_path)
    verified = {"test": 0.5, "std": 0.01, "seeds": [0], "date": "2026-01-02"}
    (tmp_path / "gat.yaml").write_text(
        yaml.safe_dump({"dataset": "cora", "model": "gat", "verified": verified})
    )
    page = results_page([*found, load_recipe(tmp_path / "gat.yaml")])
    assert "Of 3 models on the 3 data sets" in page and "| gat |" not in page


def test_of_several_recipes_of_a_model_the_plain_one_counts_in_the_ranks(tmp_path):
    found = measured(tmp_path)
    own = found[0].verified.model_copy(update={"test": 0.99})
    lucky = [
        each.model_copy(update={"name": f"{each.name}-b", "verified": own})
        for each in found
        if each.name.startswith("gcn-")
    ]
    ranks = [results_page(each).partition("| mean rank |")[2].partition("## ")[0]
             for each in (found, [*lucky, *found])]  # fmt: skip
    assert ranks[0] == ranks[1] != ""


def test_what_is_asked_otherwise_is_a_table_of_its_own_and_unknown_metrics_have_no_best(tmp_path):
    data = tmp_path / "sales.csv"
    data.write_text("x,label\n1,a\n2,b\n")

    def page(**more):
        found = []
        for number, score in enumerate((0.3, 0.9)):
            verified = {"test": score, "std": 0.0, "seeds": [0], "date": "2026-01-02", **more}
            recipe = {"dataset": str(data), "model": "mlp", "verified": verified}
            path = tmp_path / f"{'ab'[number]}.yaml"
            path.write_text(yaml.safe_dump(recipe))
            found.append(load_recipe(path))
        return results_page(found)

    assert "**" not in page() and "60.00" not in page()
    assert "**0.3000 ± 0.0000**" in page(metric="mse") and "| +0.6000 |" in page(metric="mse")
    one, two = measured(tmp_path)[:2]
    far = one.model_copy(update={"dataset": {"name": "chickenpox", "horizon": 12}})
    near = two.model_copy(update={"dataset": {"name": "chickenpox", "horizon": 1}})
    found = results_page([far, near])
    split = default_split("chickenpox")
    assert f"## chickenpox, {split}\n" in found and f"## chickenpox, {split}, horizon 12" in found


def test_the_picture_has_the_models_of_each_table_in_the_order_of_their_scores(tmp_path):
    panels = dict(SCRIPT._panels(SCRIPT._groups(measured(tmp_path))))
    assert len(panels) == 5 and "mean rank, 3 data sets" in panels
    for place, name in enumerate(("cora", "citeseer", "actor", "karate")):
        known = {model: own[place] for model, own in SCORES.items() if own[place]}
        lines = next(lines for title, lines in panels.items() if title.startswith(name))
        assert [each.name for each in lines] == sorted(known, key=lambda model: -known[model])
        for each in lines:
            assert each.value == known[each.name] and each.published is not None
            assert (each.low, each.high) == pytest.approx((each.value - 0.01, each.value + 0.01))
            assert each.attends == (each.name == "sgformer")


def test_the_picture_is_text_in_the_colours_of_the_screen(tmp_path):
    drawn = results_picture(measured(tmp_path))
    texts = [each.text for each in ElementTree.fromstring(drawn).iter() if each.tag[-4:] == "text"]
    assert texts.count("gcn") == 5 and f"karate, {default_split('karate')}: accuracy" in texts
    style = drawn[: drawn.index("</style>")]
    for light, dark in SCRIPT.COLORS.values():
        assert light in style and dark in style and light not in drawn[len(style) :]


def test_a_page_of_other_results_has_another_picture(folder):
    recipes, docs = folder / "recipes", folder / "docs"
    docs.mkdir()
    shutil.copytree(recipe_folder() / "mlp", recipes / "mlp")
    picture = docs / "plots" / "results.svg"
    assert picture in write_pages(recipes) and not write_pages(recipes)
    picture.unlink()
    assert write_pages(recipes) == [picture]
    (recipes / "mlp" / "mlp-cora.yaml").unlink()
    assert picture in write_pages(recipes)


def test_what_the_program_itself_misses_and_what_would_have_ranked_higher_is_said(tmp_path):
    found = measured(tmp_path)
    better = found[0].verified.model_copy(update={"test": 0.94})
    other = found[0].model_copy(update={"name": "gcn-cora-wide", "verified": better})
    page = results_page([*found, other])
    assert "| FAIL, the program misses it |" in page and "| PASS, the program misses it |" in page
    assert "The best would be gcn-cora-wide for gcn-cora." in page


def largest_by_hand(table, fewest):
    """Return the rows and columns of the largest part without gaps, by trying every choice."""
    columns = list(dict.fromkeys(name for known in table.values() for name in known))
    best = (0, 0)
    for count in range(fewest, len(columns) + 1):
        for chosen in itertools.combinations(columns, count):
            rows = [row for row in table if all(name in table[row] for name in chosen)]
            if len(rows) > 1:
                best = max(best, (len(rows), count))
    return best


@pytest.mark.parametrize("seed", range(40))
def test_the_largest_part_without_gaps_is_found(seed):
    draw = np.random.default_rng(seed)
    known, fewest = draw.random((7, 6)) < draw.random(), int(draw.integers(1, 4))
    table = {
        row: {column: 0.5 for column, there in zip("123456", cells, strict=True) if there}
        for row, cells in zip("abcdefg", known.tolist(), strict=True)
    }
    rows, columns = SCRIPT.largest_complete_part(table, fewest)
    assert (len(rows), len(columns)) == largest_by_hand(table, fewest)
    assert all(column in table[row] for row in rows for column in columns)
    assert rows == [row for row in table if row in rows]


def test_a_model_of_other_data_sets_alone_does_not_cost_others_theirs():
    """Counting data sets, those of `lone` are more than those of `gcn`, which shares them."""
    shared = dict.fromkeys(["cora", "citeseer", "actor"], 0.5)
    lone = dict.fromkeys(["cora", "digits", "karate", "photo", "cs"], 0.5)
    table = {"lone": lone, "gcn": shared, "mlp": shared}
    assert SCRIPT.largest_complete_part(table, 3) == (["gcn", "mlp"], ["cora", "citeseer", "actor"])


def test_the_critical_difference_is_that_of_the_source():
    """Demšar (JMLR 2006): 1.25 for 4 rows and 14 columns, q 2.569; table 5a has others."""
    assert SCRIPT.critical_difference(4, 14) == pytest.approx(2.569 * (20 / 84) ** 0.5, abs=1e-3)
    for rows, quantile in {2: 1.960, 3: 2.343, 6: 2.850, 10: 3.164}.items():
        apart = quantile * (rows * (rows + 1) / 60) ** 0.5
        assert SCRIPT.critical_difference(rows, 10) == pytest.approx(apart, abs=2e-3)


def test_a_transformer_is_ahead_only_where_the_interval_says_so(tmp_path):
    scores = {"gcn": (0.8, 0.01), "mlp": (0.6, 0), "sgformer": (0.83, 0.02), "difformer": (0.7, 0)}
    found = []
    for model, (test, std) in scores.items():
        verified = {"test": test, "std": std, "seeds": [*range(5)], "date": "2026-01-02"}
        path = tmp_path / f"{model}.yaml"
        path.write_text(yaml.safe_dump({"dataset": "cora", "model": model, "verified": verified}))
        found.append(load_recipe(path))
    (one,) = SCRIPT.contests(found)
    assert (one.transformer.name, one.other.name, one.verdict) == ("sgformer", "gcn", "transformer")
    ends = one.half / 100, 0.02, 5, 0.0, 0.01, 5
    assert stats.ttest_ind_from_stats(*ends, equal_var=False).pvalue == pytest.approx(0.05)
    assert one._replace(gain=-one.half).verdict == "neither"
    assert one._replace(gain=-1.01 * one.half).verdict == "other"


def test_the_first_page_counts_where_transformers_are_ahead():
    recipes = SCRIPT.read_recipes(recipe_folder())
    found = SCRIPT.contests([each for group in recipes.values() for each in group])
    of = {side: [each for each in found if each.verdict == side] for side in SCRIPT.SIDES}
    text = " ".join((recipe_folder().parent / "README.md").read_text().split())
    counts = tuple(len(of[side]) for side in ("transformer", "other", "neither"))
    assert f"On {len(found)} splits of data sets" in text
    assert "ahead on {}, behind on {}, and level on {},".format(*counts) in text
    labels = [re.search(r"per-class-(\d+)", each.name) for each in of["transformer"]]
    assert all(labels) and f"each class has {min(int(each[1]) for each in labels)} to 100" in text
    gains = [each.gain for each in of["transformer"]]
    assert f"gains {min(gains):.1f} to {max(gains):.1f} points" in text
