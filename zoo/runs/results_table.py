"""A table of results: models in its rows, graphs in its columns; as a file for a paper, and drawn.

A row is a model, with its attention where that is not its own, and with the options in which it
differs from others of the same model on the same graph; nothing else of a recipe tells rows apart,
so that what was tuned for each graph is one row.
"""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from zoo.config.metadata import stem_of, without_paths
from zoo.config.recipe import UNTRAINED_KEYS, word
from zoo.config.scores import LEVEL, figure, gain, lower_is_better
from zoo.errors import ZooError
from zoo.system.files import check_place, write_whole

ALIKE = "≈"
"""What stands behind a score that may be as good as the best."""

UNTESTED = "?"
"""What stands behind a score that is not tested against the best."""

MARKED = "*"
"""What stands behind a score of another budget than most of its graph."""

UNREACHED = "†"
"""What stands behind a score of a model whose last phase of training never began."""

FEW_PAIRS = "Of two pairs next to nothing is significant: more seeds tell more."

TOLD = 3
"""Options at most that tell rows of one name apart, where fewer would do."""

FAR = 20
"""Times the distance of the median from the best at which a score is drawn as an arrow."""

SHARES = ("accuracy", "balanced-accuracy", "macro-f1", "micro-f1", "roc-auc", "average-precision",
          "mrr", "hits@")  # fmt: skip
"""How the metrics begin that papers print in percent."""

IN_PERCENT = " in %"

FRIEDMAN = "Friedman's test"

_OF_PAIRS = ("low", "high", "pairs", "splits", "noise", "p", "p_holm")

_OF_TRAINING = ("epochs", "patience", "seconds", "parameters", "tuned", "trials", "cut_short",
                "loss", "split_options", "label", "unreached_phase")  # fmt: skip

_COUNTS = ("pairs", "splits", "epochs", "patience", "parameters", "trials", "unreached_phase")

Cell = Callable[[str, bool, str], str]
"""Writes a score: the text, whether it is the best of its graph, and its marks, such as `* ≈`."""


def groups(items: Iterable[Any], alike: Callable[[Any, Any], bool]) -> list[list[Any]]:
    """Return items in groups, in their order, each like all others of its group.

    >>> groups([1, 2, 11, 3], lambda one, other: abs(one - other) < 2)
    [[1, 2], [11], [3]]
    """
    found: list[list[Any]] = []
    for item in items:
        fit = (group for group in found if all(alike(other, item) for other in group))
        if (group := next(fit, None)) is None:
            found.append(group := [])
        group.append(item)
    return found


def flat(data: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of a recipe's options that are trained with, as text by dotted keys.

    >>> dict(flat({"model": {"name": "gcn", "norm": None}, "seeds": [0, 1]}))
    {'model.name': 'gcn', 'model.norm': 'none', 'seeds': '[0, 1]'}
    """
    words = {"None": "none", "True": "true", "False": "false"}
    for key, value in data.items():
        if not before and key in UNTRAINED_KEYS:
            continue
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{key}.")
        else:
            value = one_word(value)
            yield f"{before}{key}", words.get(str(value), str(value))


def one_word(value: Any) -> Any:
    """Return the word of a list of one, `x` of `[x]`, which mean the same; else the value."""
    alone = isinstance(value, list) and len(value) == 1 and isinstance(value[0], str)
    return value[0] if alone else value


def tell_apart(
    names: Sequence[str],
    options: Sequence[Mapping[str, str]],
    places: Sequence[str] = (),
    last: Sequence[str] = (),
) -> list[str]:
    """Return names, those that are alike with the options in which they differ, three at most.

    Args:
        names: n of them.
        options: of each, as `flat` gives them.
        places: where each stands; those of different places may be alike. Left out: all in one.
        last: what else tells those apart that have the same options; numbers tell the rest.

    >>> tell_apart(["gcn", "gcn", "mlp"], [{"model.dim": "8"}, {"model.dim": "9"}, {}])
    ['gcn, dim 8', 'gcn, dim 9', 'mlp']
    >>> tell_apart(["gcn"] * 2, [{"model.dim": "8", "train.lr": "1"},
    ...                             {"model.dim": "9", "train.lr": "2"}])
    ['gcn, dim 8, lr 1', 'gcn, dim 9, lr 2']
    """
    places = places or [""] * len(names)
    told = [*names]
    for name in dict.fromkeys(names):
        alike = [index for index, other in enumerate(names) if other == name]
        keys = _telling([options[index] for index in alike], [places[index] for index in alike])
        for index in alike:
            said = (_said(key, options[index][key]) for key in keys if key in options[index])
            told[index] = ", ".join([name, *said])
    numbers = [f" ({number})" for number in range(1, len(names) + 1)]
    for more in ([f", {text}" for text in last] or [""] * len(names), numbers):
        known = [*zip(places, told, strict=True)]
        told = [f"{text}{end}" if known.count((place, text)) > 1 else text
                for (place, text), end in zip(known, more, strict=True)]  # fmt: skip
    return told


def _telling(options: Sequence[Mapping[str, str]], places: Sequence[str]) -> list[str]:
    """Return keys by whose values all can be told apart in each place, as far as they can.

    Where they differ in more of the model or its training, up to `TOLD` are among them, but none
    that would part what has one name in several places.
    """
    keys = dict.fromkeys(key for each in options for key in each)
    keys = sorted(keys, key=lambda key: (key != "dataset.name", not key.startswith("model.")))

    def kinds(chosen: Sequence[str]) -> int:
        return len({(place, *map(each.get, chosen))
                    for place, each in zip(places, options, strict=True)})  # fmt: skip

    chosen: list[str] = []
    while keys:
        key = max(keys, key=lambda key: kinds([*chosen, key]))
        if kinds([*chosen, key]) == kinds(chosen):
            break
        chosen.append(key)
    for key in (key for key in keys if key.startswith(("model.", "train."))):
        rows = {tuple(map(each.get, chosen)) for each in options}
        alike = len({tuple(map(each.get, [*chosen, key])) for each in options}) == len(rows)
        if len(chosen) < TOLD and key not in chosen and kinds([key]) > kinds([]) and alike:
            chosen.append(key)
    return chosen


def _said(key: str, value: str) -> str:
    """Return `dim 64` for `model.dim`; a data set, a model or a metric by its name alone."""
    if key in ("dataset.name", "model.name", "metric"):
        return value
    return f"{key.removesuffix('.name').rpartition('.')[2]} {value}"


def model_names(
    recipes: Sequence[Mapping[str, Any]], graphs: Sequence[str], runs: Sequence[str]
) -> list[str]:
    """Return what the row of each recipe is called, `sgformer, rba`; of one graph no two alike.

    Args:
        recipes: every option written out, n of them.
        graphs: the column of each.
        runs: a name of each, where it has the options of another one.
    """
    plain = [without_paths(recipe) for recipe in recipes]
    names = []
    for recipe in plain:
        attention = word(recipe["model"].get("attention") or "native")
        names.append(word(recipe["model"]) + (f", {attention}" if attention != "native" else ""))
    return tell_apart(names, [dict(flat(recipe)) for recipe in plain], graphs, runs)


def graph_names(recipes: Sequence[Mapping[str, Any]], metrics: Sequence[str | None]) -> list[str]:
    """Return what the column of each recipe is called: its data set, and what is asked of it.

    Args:
        recipes: every option written out, n of them, each of another question.
        metrics: what the scores of each measure, None where it is not known.
    """
    asked = []
    for recipe, metric in zip(recipes, metrics, strict=True):
        dataset = {key: value for key, value in recipe["dataset"].items()
                   if key not in ("features", "split")}  # fmt: skip
        links = measured(recipe.get("task"))
        asked.append(without_paths({"dataset": dataset, **links, "metric": metric}))
    names = [stem_of(each["dataset"]["name"]) for each in asked]
    return tell_apart(names, [dict(flat(each)) for each in asked])


def measured(task: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return with what links are compared in validation and test; of nodes nothing."""
    return {key: task[key] for key in ("compared", "candidates")} if task else {}


def results_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the scores of the models on the graphs, a line each, the best model first.

    Args:
        rows: of `compare`, or with those of its keys that are known: `model`, `graph`, `recipe`,
            `metric`, `test`, and those of `compare_to_best` always.

    Returns:
        Columns `model`, `graph`, `metric`, `mean`, `std`, `runs`, `recipe`; `best`, whether it is
        that of its graph, or as good in the mean of the same seeds and splits; `difference` from it
        with its 95 % interval `low` to `high`, `pairs`, `splits`, `p`, `p_holm` and `noise`, None
        where there is none; `same_splits` as the best; whether it is of `another_budget` or way to
        train than most of its graph; `epochs` and `patience` that it had at most, `seconds` that
        training took in the mean of the runs, `parameters`, whether it is `tuned`, by how many
        `trials`, whether training was `cut_short`; the `loss`, `split_options` and `label` of its
        task; `unreached_phase`, the epochs after which the last phase of the model begins, where
        training ended before; `rank` on its graph, from 1, of the models that are on all graphs
        with the splits of the best, and NaN of others.
    """
    scores = pd.DataFrame([_line(row) for row in rows])
    scores = scores.astype(dict.fromkeys(_COUNTS, "Int64"))
    values = zip(scores["metric"], scores["mean"], strict=True)
    better = pd.Series([round(gain(metric, mean), 12) for metric, mean in values])
    comparable = scores.groupby("model")["same_splits"].transform("all")
    everywhere = better[_is_everywhere(scores) & comparable]
    scores["rank"] = everywhere.groupby(scores["graph"]).rank(ascending=False)
    ranks = scores.groupby("model", sort=False)["rank"].mean().sort_values(kind="stable")
    place = {model: number for number, model in enumerate(ranks.index)}
    return scores.sort_values("model", key=lambda names: names.map(place), kind="stable")


def in_percent(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the scores of `SHARES` times 100, whose metric ends in ` in %` then."""
    shares, scores = scores["metric"].str.startswith(SHARES), scores.copy()
    scores.loc[shares, ["mean", "std", "difference", "low", "high"]] *= 100
    scores.loc[shares, "metric"] += IN_PERCENT
    return scores


def row_in_percent(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of `compare` as `in_percent` makes those of a table."""
    if not row["metric"].startswith(SHARES):
        return {**row}

    def times_100(score: Mapping[str, Any]) -> dict[str, Any]:
        keys = [key for key in ("mean", "std", "low", "high") if score.get(key) is not None]
        return {**score, **{key: 100 * score[key] for key in keys}}

    heuristics = {name: times_100(score) for name, score in (row.get("heuristics") or {}).items()}
    return {
        **row,
        "metric": row["metric"] + IN_PERCENT,
        "test": times_100(row["test"]),
        "difference": row["difference"] and times_100(row["difference"]),
        "heuristics": heuristics,
    }


def written_as(metric: str) -> Callable[[float], str]:
    """Return what writes the scores of a metric."""
    return "{:.2f}".format if metric.endswith(IN_PERCENT) else figure


def _is_everywhere(scores: pd.DataFrame) -> "pd.Series[bool]":
    """Return whether the model of each score is on all graphs."""
    return scores.groupby("model")["graph"].transform("nunique") == scores["graph"].nunique()


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    difference = row["difference"] or dict.fromkeys((*_OF_PAIRS, "mean"))
    training = {**row, **row.get("budget", {})}
    return {
        **{key: row[key] for key in ("model", "graph", "metric")},
        **row["test"],
        "recipe": row["recipe"],
        "best": row["best"] or difference["mean"] == 0,
        "difference": difference["mean"],
        **{key: difference[key] for key in _OF_PAIRS},
        "same_splits": row["same_splits"],
        "another_budget": not (row.get("same_budget", True) and row.get("same_ways", True)),
        **{key: training.get(key) for key in _OF_TRAINING},
    }


def cells(scores: pd.DataFrame, cell: Cell) -> list[list[str]]:
    """Return the heads and the rows of the table: model, a score on each graph, mean rank.

    The mean rank is left out of one graph, and where fewer than two models are on all of them.

    Args:
        scores: from `results_table`.
        cell: how a score is written.
    """
    metrics = scores.groupby("graph", sort=False)["metric"].first()
    several = metrics.nunique() > 1
    heads = [_head(graph, metric) if several else graph for graph, metric in metrics.items()]
    ranks, tested = _mean_ranks(scores), bool(scores["low"].notna().any())
    table = [["model", *heads, *(["mean rank"] if ranks else [])]]
    for model, own in scores.groupby("model", sort=False):
        lines = {line["graph"]: line for line in own.to_dict("records")}
        row = [_score(lines[graph], cell, tested) if graph in lines else "–"
               for graph in metrics.index]  # fmt: skip
        rank = f"{ranks[model]:.2f}" if model in ranks else "–"
        table.append([model, *row, *([rank] if ranks else [])])
    return table


def _head(graph: str, metric: str) -> str:
    """Return a graph with its metric, which its own name may end in."""
    return f"{graph.removesuffix(f', {metric.removesuffix(IN_PERCENT)}')}, {metric}"


def _score(line: Mapping[str, Any], cell: Cell, tested: bool) -> str:
    mean, std, written = line["mean"], line["std"], written_as(line["metric"])
    text = written(mean) if pd.isna(std) else f"{written(mean)} ± {written(std)}"
    marks = {
        UNREACHED: not pd.isna(line["unreached_phase"]),
        MARKED: line["another_budget"],
        ALIKE: line["noise"] is True and not line["best"],
        UNTESTED: tested and _is_untested(line),
    }
    return cell(text, line["best"], " ".join(mark for mark, holds in marks.items() if holds))


def _is_untested(line: Mapping[str, Any]) -> bool:
    """Return whether a score that is not the best is not tested against it."""
    return not line["best"] and pd.isna(line["low"])


def _mean_ranks(scores: pd.DataFrame) -> dict[str, float]:
    """Return the mean rank of each model that is on all graphs; of too few or one graph none."""
    ranks = scores.groupby("model", sort=False)["rank"].mean().dropna()
    return {} if scores["graph"].nunique() < 2 or len(ranks) < 2 else ranks.to_dict()


def sentences(scores: pd.DataFrame) -> Iterator[str]:
    """Say what the cells of a table are, and what the ranks tell."""
    metrics = [*dict.fromkeys(scores["metric"])]
    less = [metric for metric in metrics if lower_is_better(metric)]
    what = metrics[0] if len(metrics) == 1 else "score"
    least, most = int(scores["runs"].min()), int(scores["runs"].max())
    runs = f"{most} run{'s' * (most > 1)}" if least == most else f"{least} to {most} runs"
    over = f" ± standard deviation over {runs}" if scores["std"].notna().any() else f" of {runs}"
    yield f"{what[:1].upper()}{what[1:]} on the test part, mean{over}." + (
        f" Of {' and '.join(less)} less is better." if less else ""
    )
    yield from _tests(scores)
    if scores["another_budget"].any():
        yield (
            f"{MARKED}: of another budget of training than most on its graph, or trained or "
            "evaluated otherwise."
        )
    late = scores.dropna(subset="unreached_phase")
    names = [
        f"{model} on {graph}" for model, graph in zip(late["model"], late["graph"], strict=True)
    ]
    yield from unreached_phases(dict(zip(names, late["unreached_phase"], strict=True)))
    if (cut_short := scores["cut_short"].eq(True)).any():  # None where it is not known
        yield cut_short_note(_named(scores, cut_short))
    if (untuned := scores["tuned"].eq(False)).any():
        yield f"With default options, not tuned: {_named(scores, untuned)}."
    for what in ("loss", "split_options", "label"):
        yield from _differing(scores, what)
    yield from _of_ranks(scores)


def _tests(scores: pd.DataFrame) -> Iterator[str]:
    """Say which score of a graph is bold, and which are tested against it."""
    paired = scores["low"].notna()
    untested = ~(paired | scores["best"])
    best = "Bold: the best of a graph" + (
        ", of the seeds and splits that most have" if untested.any() else ""
    )
    reasons = {
        "of one run": scores["pairs"] == 1,
        "of other seeds or splits than the best": scores["pairs"].isna(),
        "of pairs that are all alike": scores["pairs"] > 1,
    }
    why = " or ".join(why for why, holds in reasons.items() if (holds & untested).any())
    if not paired.any():
        yield f"{best}."
        if untested.any():
            yield f"No difference is tested: the scores are {why}."
        return
    overlap = ""
    if (scores["splits"][paired] > 1).any():
        overlap = "; splits of the same data are not independent, which makes it too sure"
    yield (
        f"{best}. {ALIKE}: not significantly worse, by the paired t-test of seeds and splits at "
        f"the level of 5 %, one comparison at a time{overlap}."
    )
    if paired.groupby(scores["graph"]).sum().max() > 1:
        yield _of_holm(_named(scores, _is_lost(scores)) if _is_lost(scores).any() else "")
    if untested.any():
        yield f"{UNTESTED}: not tested, being {why}."
    if (scores["pairs"][paired] < 3).any():
        yield FEW_PAIRS


def _is_lost(scores: pd.DataFrame) -> "pd.Series[bool]":
    """Return which scores are significantly worse one at a time, and not together."""
    return (scores["noise"].eq(False) & (scores["p_holm"] >= LEVEL)).fillna(False)


def holm_note(differences: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Say what is significant one comparison at a time alone; of a single one nothing.

    Args:
        differences: from the best of one graph, all tested, by the name of whose they are.
    """
    if len(differences) > 1:
        lost = [name for name, each in differences.items()
                if not each["noise"] and each["p_holm"] >= LEVEL]  # fmt: skip
        yield f"Each interval is of one comparison at a time. {_of_holm(', '.join(lost))}"


def _of_holm(lost: str) -> str:
    if not lost:
        return "With Holm's correction for all comparisons of a graph the same are significant."
    return (
        "With Holm's correction for all comparisons of a graph these are not significantly worse "
        f"either: {lost}."
    )


def _differing(scores: pd.DataFrame, what: str) -> Iterator[str]:
    """Say where the cells of a row are of another loss, split or label, if some are."""
    values = scores[what].fillna("none")
    if values.groupby(scores["model"]).nunique().max() > 1:
        common = values.mode()[0]
        named = [f"{value} of {_named(scores, values == value)}"
                 for value in values.unique() if value != common]  # fmt: skip
        yield f"Rows differ in {what.removesuffix('_options')}: {'; '.join(named)}; else {common}."


def cut_short_note(named: str) -> str:
    """Say whose training was cut short."""
    return f"The best epochs are among the last, and with more these may improve: {named}."


def _named(scores: pd.DataFrame, chosen: "pd.Series[bool]") -> str:
    """Return which scores are chosen: `gcn; mlp on cora; all on chameleon`."""
    if chosen.all():
        return "all"
    if scores["graph"].nunique() == 1:
        return "; ".join(scores["model"][chosen])
    models = chosen.groupby(scores["model"]).transform("all")
    graphs = chosen.groupby(scores["graph"]).transform("all") & (not models.any())
    own = scores[chosen & ~graphs & ~models]
    return "; ".join([
        *scores["model"][models].unique(),
        *(f"all on {graph}" for graph in scores["graph"][graphs].unique()),
        *(f"{model} on {graph}" for model, graph in zip(own["model"], own["graph"], strict=True)),
    ])  # fmt: skip


def _of_ranks(scores: pd.DataFrame) -> Iterator[str]:
    """Say what is ranked, what is not, and what the ranks tell."""
    graphs, ranked = scores["graph"].nunique(), scores["rank"].notna()
    others = scores["model"][_is_everywhere(scores) & ~ranked].unique() if graphs > 1 else []
    left_out = f"of other splits than the best on some: {'; '.join(others)}" if len(others) else ""
    if ranks := _mean_ranks(scores):
        text = f"Mean rank: over the {graphs} graphs, of the {len(ranks)} models that are on all"
        text += f" of them, without those that are {left_out}" if left_out else " of them"
        untested = ranked & scores["low"].isna() & ~scores["best"]
        text += "; some ranks are of scores that are not tested" if untested.any() else ""
        yield f"{text}."
        if told := _friedman(scores, graphs):
            yield told
    elif left_out:
        yield f"No mean rank: too few models are on all graphs, without those that are {left_out}."


def unreached_phases(starts: Mapping[str, int | None]) -> Iterator[str]:
    """Say whose training ended before the last phase of the model, if any did.

    Args:
        starts: the epochs after which that phase begins, by the name of who never reached it.
    """
    named = ", ".join(f"{name} ({start:,} epochs)" for name, start in starts.items() if start)
    if named:
        yield (
            f"{UNREACHED}: training ended before the last phase of the model begins, and what it "
            f"has for that phase is untrained: {named}."
        )


def _friedman(scores: pd.DataFrame, graphs: int) -> str | None:
    """Say what Friedman's test tells of the ranks; None of fewer than 3 graphs or models."""
    from scipy.stats import friedmanchisquare

    ranks = scores.dropna(subset="rank").pivot(index="graph", columns="model", values="rank")
    if min(ranks.shape) < 3 or (ranks.nunique(axis=1) == 1).all():
        return None
    statistic, p = friedmanchisquare(*ranks.to_numpy().T)
    told = "they are not all alike" if p < 0.05 else "they may all be alike"
    rough = "; of so few graphs p is approximate" if graphs <= 10 else ""
    return (
        f"{FRIEDMAN} of {ranks.shape[1]} models on {graphs} graphs: chi-squared "
        f"{statistic:.2f}, p = {p:.2g}: by their ranks {told}{rough}."
    )


def to_csv(scores: pd.DataFrame, notes: Sequence[str]) -> str:
    """Return the scores as CSV, a line for each model and graph, every digit kept."""
    return scores.to_csv(index=False)


def to_markdown(scores: pd.DataFrame, notes: Sequence[str]) -> str:
    """Return the table in Markdown, and the notes below it."""

    def cell(text: str, best: bool, marks: str) -> str:
        text = f"**{text}**" if best else text
        return f"{text} {marks}".strip().replace(f" {MARKED}", rf" \{MARKED}")

    rows = cells(scores, cell)
    rows = [[text.replace("|", r"\|").replace("_", r"\_") for text in row] for row in rows]
    rows.insert(1, ["--", *["--:"] * (len(rows[0]) - 1)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, "", *(f"{note}\n" for note in notes)])


_LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
          "±": r"$\pm$", ALIKE: r"$\approx$", UNREACHED: r"$\dagger$",
          **{letter: rf"\{letter}" for letter in "&%$#_{}"}}  # fmt: skip


def _latex(text: str) -> str:
    text = "".join(_LATEX.get(letter, letter) for letter in text)
    return re.sub(r"^-(?=\d)", "$-$", text)


def to_latex(scores: pd.DataFrame, notes: Sequence[str], label: str = "results") -> str:
    """Return the table in LaTeX, for booktabs; its caption says what the cells are.

    The caption has the sentences of the table but that on Friedman's test; other notes stand before
    it, as comments.

    Args:
        scores: from `results_table`.
        notes: what is said of it besides.
        label: what it is referred to as, behind `tab:`.
    """

    def cell(text: str, best: bool, marks: str) -> str:
        text = rf"\textbf{{{_latex(text)}}}" if best else _latex(text)
        return f"{text} {_latex(marks)}".strip()

    head, *rows = cells(scores, cell)
    head = [_latex(text) for text in head]
    rows = [[_latex(model), *row] for model, *row in rows]
    said = [sentence for sentence in sentences(scores) if not sentence.startswith(FRIEDMAN)]
    lines = [
        BEGINS[".tex"],
        *(f"% {' '.join(note.split())}" for note in notes if note not in said),
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_latex(' '.join(said))}}}",
        rf"  \label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"    \toprule",
        rf"    {' & '.join(head)} \\",
        r"    \midrule",
        *(rf"    {' & '.join(row)} \\" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


_GOOD, _WORSE, _UNTESTED = ("filled: the best, or not significantly worse",
                            "hollow: significantly worse", "cross: not tested")  # fmt: skip

_LOOKS = {
    _GOOD: {"fmt": "o", "color": "#0072B2"},
    _WORSE: {"fmt": "o", "color": "#6d7782", "markerfacecolor": "white"},
    _UNTESTED: {"fmt": "x", "color": "#D55E00"},
}


def _kind(line: Mapping[str, Any]) -> str:
    """Return how a score lies beside the best, which says how it is drawn."""
    good = line["best"] or line["noise"] is True
    return _GOOD if good else _UNTESTED if _is_untested(line) else _WORSE


def draw(scores: pd.DataFrame, path: Path) -> None:
    """Draw a panel for each graph: the models below each other, mean and deviation along x."""
    from matplotlib import style
    from matplotlib.figure import Figure

    models, graphs = ([*dict.fromkeys(scores[key])] for key in ("model", "graph"))
    across = min(4, len(graphs))
    down = -(-len(graphs) // across)
    size = (1.2 + 0.08 * max(map(len, models)) + 2.2 * across, down * (0.9 + 0.26 * len(models)))
    with style.context("default"):  # whatever a matplotlibrc in the current folder says
        drawing = Figure(figsize=size, layout="constrained")
        panels = drawing.subplots(down, across, sharey=True, squeeze=False).flat
        for graph, axes in zip(graphs, panels, strict=False):
            own = scores[scores["graph"] == graph]
            axes.set(title=graph, xlabel=own["metric"].iloc[0], ylim=(len(models) - 0.5, -0.5))
            low, high = _limits(own)
            for line in own.to_dict("records"):
                at, kind = models.index(line["model"]), _kind(line)
                if not low <= line["mean"] <= high:
                    left = line["mean"] < low
                    text = written_as(line["metric"])(line["mean"])
                    axes.text(not left, at, f"← {text}" if left else f"{text} →", va="center",
                              ha="left" if left else "right", fontsize="small",
                              color=_LOOKS[kind]["color"],
                              transform=axes.get_yaxis_transform())  # fmt: skip
                    continue
                axes.errorbar(line["mean"], at, xerr=None if pd.isna(line["std"]) else line["std"],
                              capsize=2, **_LOOKS[kind])  # fmt: skip
            axes.set_xlim(*(limit if math.isfinite(limit) else None for limit in (low, high)))
            axes.set_yticks(range(len(models)), models)
            axes.grid(visible=True, axis="x", alpha=0.3)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(axis="y", length=0)
            axes.locator_params(axis="x", nbins=4)
        for axes in panels:
            axes.set_axis_off()
        kinds = {_kind(line) for line in scores.to_dict("records")}
        note = "; ".join(["mean and deviation", *(text for text in _LOOKS if text in kinds)])
        drawing.supxlabel(textwrap.fill(note, int(14 * size[0])), fontsize="small")
        drawing.savefig(path, format=path.suffix[1:], dpi=200)


def _limits(own: pd.DataFrame) -> tuple[float, float]:
    """Return from where to where the scores of a graph are drawn: all, or all but those far off.

    Far off is what lies further from the best than `FAR` times as far as the median.
    """
    away = (own["mean"] - own["mean"][own["best"]].iloc[0]).abs()
    near = own[away <= FAR * away.median()]
    if len(near) == len(own):
        return -math.inf, math.inf
    ends = [near["mean"] - near["std"].fillna(0), near["mean"] + near["std"].fillna(0)]
    low, high = ends[0].min(), ends[1].max()
    return low - 0.1 * (high - low), high + 0.1 * (high - low)


ENDINGS = {"latex": (".tex",), "csv": (".csv",), "markdown": (".md",),
           "figure": (".svg", ".pdf", ".png")}  # fmt: skip
"""What the file of each form of a table may end in."""

BEGINS = {
    ".tex": r"% \usepackage{booktabs}",
    ".csv": "model,graph,metric,mean,",
    ".md": "| model | ",
}
"""How each text begins; another one is never replaced."""

TEXTS = {".tex": to_latex, ".csv": to_csv, ".md": to_markdown}


def check_files(files: Mapping[str, Path | None]) -> list[Path]:
    """Return the files that are to be written, by their form; None is left out.

    Raises:
        ZooError: one ends otherwise, cannot be written, or is there and no table of ours.
    """
    paths = []
    for form, path in files.items():
        if path is None:
            continue
        if path.suffix not in ENDINGS[form]:
            raise ZooError(f"{path}: write a file that ends in {' or '.join(ENDINGS[form])}.")
        begins = BEGINS.get(path.suffix, "").encode()
        if path.is_dir() or (path.is_file() and not path.read_bytes().startswith(begins)):
            raise ZooError(f"{path} is no table of ours, and is kept; name another file.")
        check_place(path, follow=True)
        paths.append(path)
    return paths


def write(scores: pd.DataFrame, notes: Sequence[str], path: Path) -> None:
    """Write a table as what the name of its file ends in says; one of before is replaced."""
    if path.suffix in TEXTS:
        named = {"label": path.stem} if path.suffix == ".tex" else {}
        text = TEXTS[path.suffix](scores, notes, **named)
        write_whole(path, lambda draft: draft.write_text(text, encoding="utf-8"), follow=True)
    else:
        write_whole(path, lambda draft: draw(scores, draft), follow=True)
