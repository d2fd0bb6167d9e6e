"""What `zoo compare` prints: at 80 columns, differences with a word, budgets with a mark."""

import shlex

import pytest

from zoo.cli.console import out, rows
from zoo.cli.result_tables import comparison
from zoo.cli.train import compare as command_of
from zoo.runs.compare import candidates
from zoo.runs.resolve import load_recipe, resolve

BEST, OTHER, FAR = [0.81, 0.84, 0.79, 0.86], [0.80, 0.85, 0.75, 0.84], [0.5, 0.52, 0.51, 0.5]


@pytest.fixture
def shown(monkeypatch, capsys):
    """Print rows at a width; return the lines, and the text in one line."""

    def show(rows, width=80):
        monkeypatch.setattr(out, "width", width)
        comparison([{**row, "best": place == 0} for place, row in enumerate(rows)])
        lines = capsys.readouterr().out.splitlines()
        return lines, " ".join(" ".join(lines).split())

    return show


def row(name, difference=None, **other):
    budget = {"epochs": 100, "patience": 20, "batching": "full"} | other.pop("budget", {})
    return {
        "recipe": name,
        "dataset": "cora",
        "metric": "accuracy",
        "test": {"mean": 0.81234, "std": 0.01234, "runs": 4},
        "epochs": 87.5,
        "best_epoch": 66.4,
        "parameters": 1_234_567,
        "seconds_per_epoch": 0.1234,
        "peak_memory_bytes": 2**30,
        "read": False,
        "named": False,
        "tuned": True,
        "changes": [],
        "unreached": [],
        "same_code": True,
        "starts_from": None,
        "unreached_phase": None,
        "cut_short": False,
        "seen": 0,
        "same_ways": True,
        "ways": {"evaluate_every": 1, "inductive": False},
        "same_splits": True,
        "same_budget": budget == {"epochs": 100, "patience": 20, "batching": "full"},
        "budget": budget,
        "interrupted": False,
        "difference": difference,
        **other,
    }


def apart(mean, low, high, noise, pairs=4, splits=4, p_holm=0.04):
    return {"from": "sgformer-cora", "pairs": pairs, "splits": splits, "mean": mean, "low": low,
            "high": high, "noise": noise, "p_holm": p_holm}  # fmt: skip


NOISE, CLEAR = apart(-0.0123, -0.03, 0.0054, True), apart(-0.0323, -0.04, -0.0246, False)


def line_of(lines, name):
    return next(each for each in lines if each.startswith(name))


def test_epochs_differences_and_noise_are_columns(shown):
    lines, text = shown([row("sgformer-cora"), row("gat-cora", NOISE), row("mlp-cora", CLEAR)])
    assert line_of(lines, "sgformer-cora").split()[1:] == ["0.8123", "±", "0.0123", "best"]
    assert line_of(lines, "gat-cora").endswith("-0.0123  -0.0300 to +0.0054  noise")
    assert line_of(lines, "mlp-cora").rstrip().endswith("-0.0323  -0.0400 to -0.0246")
    heads = [each for each in lines if each.startswith("recipe")]
    assert heads[0].split("  ")[-1].strip() == "" and "95 % interval" in heads[0]
    cells = dict(zip(heads[1].split(), lines[lines.index(heads[1]) + 1].split(), strict=False))
    assert cells["epochs"] == "88" and "best epoch" in heads[1]
    assert [*lines[lines.index(heads[1]) + 1].split()][1:4] == ["4", "88", "67"]
    assert "minus that of sgformer-cora, the best, of the same seed and split" in text
    assert "over 4 such pairs, and the 95 % interval" in text and "4 seeds with 4 splits" in text
    assert "*" not in text and "less is better" not in text
    assert "one comparison at a time" in text and "the same are significant" in text


def test_what_is_noise_by_holms_correction_alone_is_named(shown):
    corrected = {**CLEAR, "p_holm": 0.07}
    rows = [row("sgformer-cora"), row("gat-cora", NOISE), row("mlp-cora", corrected)]
    lines, text = shown(rows)
    assert line_of(lines, "mlp-cora").rstrip().endswith("to -0.0246")
    assert "these are not significantly worse either: mlp-cora." in text
    assert "Holm" not in shown(rows[:2])[1]  # of one comparison there is nothing to correct


def test_what_is_not_tested_or_cut_short_is_told(shown):
    lines, text = shown([row("sgformer-cora"), row("gat-cora"), row("gcn-cora", cut_short=True)])
    assert line_of(lines, "gat-cora").rstrip().endswith("not tested")
    assert "best epochs are among the last, and with more these may improve: gcn-cora." in text


def test_on_one_split_the_interval_is_said_to_be_over_seeds_alone(shown):
    fixed = {**NOISE, "splits": 1}
    text = shown([row("sgformer-cora"), row("gat-cora", fixed)])[1]
    assert "over 4 seeds on one split" in text and "not over the choice of rows" in text


def test_of_one_seed_no_interval_is_given(shown):
    single = apart(-0.1, None, None, None, pairs=1, splits=1)
    lines, text = shown([row("sgformer-cora"), row("gat-cora", single)])
    assert line_of(lines, "gat-cora").rstrip().endswith("-0.1000                 one run")
    assert "no interval can be given" in text and "noise: the" not in text
    assert "'seeds=[0, 1, 2, 3, 4]'" in text


def test_of_errors_less_is_better(shown):
    errors = {"metric": "mse", "dataset": "chickenpox"}
    rows = [row("a", **errors), row("b", apart(0.2, 0.1, 0.3, False), **errors)]
    assert "mse on chickenpox, of which less is better" in shown(rows)[1]


def test_rows_of_another_budget_are_marked_and_told_what_makes_it_the_same(shown):
    batches = {"name": "random-nodes", "size": 50, "per_step": 1}
    rows = [
        row("sgformer-cora", budget={"epochs": 500, "patience": None}),
        row("gat-cora", NOISE),
        row("gcn-cora", CLEAR, budget={"batching": batches}),
        row("mlp-cora", CLEAR),
    ]
    lines, text = shown(rows)
    marked = [each.split()[0] for each in lines if each.split()[1:2] == ["*"]]
    assert marked == 2 * ["sgformer-cora", "gcn-cora"]
    assert "sgformer-cora has epochs: 500, patience: null; gcn-cora has batching: {name: " in text
    assert "the others have epochs: 100, patience: 20, batching: full." in text
    changes = text.partition("The same for all: ")[2].partition(". Diff")[0].rstrip(".")
    plan = resolve(load_recipe("gat-cora", shlex.split(changes)))
    assert {key: plan.train[key] for key in rows[1]["budget"]} == rows[1]["budget"]
    assert "keep theirs" not in text
    rows[0]["named"] = True
    assert "runs named by their folders keep theirs" in shown(rows)[1]


def test_a_row_whose_last_phase_never_began_is_marked(shown):
    lines, text = shown([row("gcn-cora"), row("polynormer-cora", NOISE, unreached_phase=2000)])
    assert line_of(lines, "polynormer-cora †")
    assert "†: training ended before the last phase" in text
    assert "untrained: polynormer-cora (2,000 epochs)." in text


def test_rows_of_another_way_to_train_are_marked_too(shown):
    ways = {"evaluate_every": 1, "inductive": True}
    lines, text = shown([row("a"), row("b", NOISE, ways=ways, same_ways=False)])
    assert line_of(lines, "b").split()[1] == "*" and line_of(lines, "a").split()[1] != "*"
    assert "* Trained or evaluated otherwise: b has inductive: true; the others have" in text
    assert "train.inductive=false" in text and "Another budget" not in text


def test_what_a_row_began_with_and_was_not_reached_by_is_told(shown):
    rows = [
        row("tuned", starts_from="/weights", seen=7, best_epoch=-1.0),
        row("some", NOISE, best_epoch=-0.5, seen=None),
        row("run", NOISE, unreached=["train.lr=1"], named=True, same_code=False),
        row("gcn-cora-default", NOISE, tuned=False, changes=["train.lr=1"]),
        row("mlp-cora-default", NOISE, tuned=False),
        row("mlp-mine", NOISE, tuned=False),
    ]
    text = shown(rows, width=200)[1]
    assert text.count("as loaded") == 1  # of another run one seed was the better for training
    for said in (
        "Began with trained weights, whose training is no part of the budget: tuned.",
        "Trained before on nodes or links of validation or test, so that scores may be too good: "
        "tuned.",
        "Perhaps trained before on nodes or links of validation or test, which nothing says: some.",
        "Finished before, and not reached by train.lr=1: run.",
        "Trained by other code of the zoo: run.",
        "Default options but for train.lr=1, not tuned for this data set (--tuned takes shipped "
        "recipes): gcn-cora-default.",
        "not tuned for this data set (--tuned takes shipped recipes): mlp-cora-default.",
        "Default options, not tuned for this data set: mlp-mine.",
    ):
        assert said in text, said


def test_an_override_of_batches_is_one_word_of_the_shell(shown):
    batches = {"name": "random-nodes", "size": 50, "per_step": 1}
    common = {"epochs": 100, "patience": None, "batching": batches}
    rows = [row("a", budget=common, same_budget=True), row("b", NOISE, same_budget=False)]
    changes = shown(rows, width=200)[1].partition("The same for all: ")[2].rstrip(".")
    plan = resolve(load_recipe("gat-cora", shlex.split(changes)))
    assert plan.train["batching"] == batches and plan.train["patience"] is None


def test_what_cannot_be_paired_is_named(shown):
    rows = [
        row("sgformer-cora"),
        row("gat-cora", same_splits=False),
        row("gcn-cora", interrupted=True, tuned=False),
    ]
    text = shown(rows)[1]
    assert (
        "On other splits than sgformer-cora, or fewer, and so without a difference: gat-cora."
        in text
    )
    assert "Of other seeds than sgformer-cora, and so without a difference: gcn-cora." in text
    assert "Default options, not tuned for this data set: gcn-cora." in text
    assert "Interrupted, not all seeds to their end: gcn-cora." in text
    assert "Difference:" not in text


@pytest.mark.parametrize("length", [8, 24, 40])
def test_nothing_is_lost_at_80_columns(shown, length):
    names = ["sgformer-", "nodeformer-", "gcn-"]
    names = [(each + "cora-of-mine-" * 4)[:length] for each in names]
    rows = [row(names[0]), row(names[1], NOISE, budget={"epochs": 7}), row(names[2], CLEAR)]
    lines, text = shown(rows)
    assert max(map(len, lines)) <= 80 and "…" not in text
    for cell in ("0.8123 ± 0.0123", "-0.0400 to -0.0246", "1,234,567", "123", "1.00", "noise"):
        assert cell in text
    firsts = "".join(each.split("  ")[0] for each in lines)
    assert all(name in firsts for name in names)
    for heading in ("difference", "95 % interval", "epochs", "best epoch", "parameters", "GiB"):
        assert heading in text


def test_the_help_opens_with_what_it_does_and_examples(command, real_graph):
    code, said, _ = command("compare", "--help")
    said = " ".join(said.split())
    assert code == 0 and "--tuned" in said
    assert said.index("Train recipes, or read") < said.index("zoo compare sgformer-cora gat")
    lines = [each.strip() for each in command_of.__doc__.splitlines()]
    examples = [shlex.split(each)[2:] for each in lines if each.startswith("zoo compare")]
    assert len(examples) == 7
    real_graph("cora")  # the examples compare on it
    for words in examples:
        assert shlex.join(words[:1]) in said
        if not {"--attention", "--data"} & {*words} and not words[0].startswith("runs/"):
            options = {"tuned": "--tuned" in words}
            if words[0] == "--dataset":
                options["datasets"] = [words[1]]
                words = words[2:]
            words = words[: words.index("--latex")] if "--latex" in words else words
            given = [each for each in words if not each.startswith("--")]
            changes = [each for each in given if "=" in each]
            found = candidates([each for each in given if "=" not in each], changes, **options)
            assert {"gcn", "mlp"} <= {each.plan.model["name"] for each in found}


def test_no_word_of_a_table_is_cut_where_the_words_fit(monkeypatch, capsys):
    row = {"shard": "replicated", "processes": 4, "memory of the attention": 147.7, "what": "a b c"}
    long = {**row, "what": "words of a sentence " * 9}
    for width in (80, 45):
        monkeypatch.setattr(out, "width", width)
        rows([row, long])
        printed = capsys.readouterr().out
        assert max(map(len, printed.splitlines())) <= width
        for word in ("replicated", "processes", "attention", "147.7", "sentence"):
            assert word in printed
    monkeypatch.setattr(out, "width", 30)  # where they do not, nothing is lost
    rows([row])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 30 and "147.7" in printed
    rba = {"name": "rba", "what": "Random Batch Attention of nodes", "nothing": None}
    monkeypatch.setattr(out, "width", 12)
    rows([rba, {**rba, "what": "another"}])
    lines = [each.strip() for each in capsys.readouterr().out.splitlines()]
    assert " ".join(lines) == "rba what: Random Batch Attention of nodes rba what: another"
    monkeypatch.setattr(out, "width", 26)  # what is the same in all rows is said once
    rows([{**rba, "of": "nodes " * 8}, {**rba, "name": "b", "of": "nodes " * 8}])
    assert "of, of all: nodes nodes" in capsys.readouterr().out


def test_errors_of_any_scale_are_told_apart(command, tmp_path):
    """In the unit of the data: four decimals of a value in thousandths would all be 0."""
    rows = [f"2025-01-{day:02},{node},{1e-3 * (day % 7)}" for day in range(1, 31) for node in "ab"]
    (tmp_path / "t.csv").write_text("\n".join(["date,id,y", *rows]))
    data = "dataset={name: t.csv, time: date, id: id, target: y, lags: 7}"
    code, out, said = command("train", "gru", data, "train.epochs=1", "seeds=[0, 1]")
    assert code == 0 and "e-0" in out and "e-0" in said, (out, said)
    assert "0.0000" not in out.partition("parameters")[0], out


def test_a_training_that_may_still_improve_says_so(command, tmp_path):
    """A best epoch of 27 among 30 was told without a word."""
    words = ("train", "mlp", "--data", "karate", "--runs", tmp_path)
    assert "with more, train.epochs, it may improve" in command(*words, "train.epochs=1")[1]
    stopped = command(*words, "train.epochs=400", "train.patience=3")[1]
    assert "it may improve" not in stopped
