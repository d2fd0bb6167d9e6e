"""The page that compares runs."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from zoo.config.recipe import word
from zoo.config.scores import (
    compare_to_best,
    differing_target,
    gain,
    lower_is_better,
    signed,
    spread,
    with_deviation,
)
from zoo.reports import measures, sections
from zoo.reports.answers import Answered, Answers
from zoo.reports.figures import curves
from zoo.reports.history import History
from zoo.reports.html import Part, Table, build_page
from zoo.runs.results_table import (
    cells,
    flat,
    graph_names,
    groups,
    holm_note,
    measured,
    model_names,
    results_table,
    sentences,
    tell_apart,
)


def comparison_page(runs: Sequence[History], answers: Sequence[Answers]) -> str:
    """Return the page of several runs, with the predictions of their weights."""
    names = distinct_names(runs)
    series = dict(zip(names, runs, strict=True))
    by_name = dict(zip(names, answers, strict=True))
    answered = {name: own.seeds for name, own in by_name.items() if own.seeds}
    alike = _alike(series, answered)
    metrics = sorted({run.metric for run in runs if run.metric})
    epochs = {name: run.curves for name, run in series.items() if run.curves}
    left_out = [f"{name}: {why}" for name, own in by_name.items() for why in own.left_out]
    if len(alike) < len(answered):
        others = ", ".join(name for name in answered if name not in alike)
        why = "of other data than the first run, another metric, or of another question to them"
        left_out.append(f"{others}: {why}, and not drawn beside it.")
    data = sorted({run.data for run in runs})
    return build_page(
        " and ".join(names) if len(names) < 4 else f"{len(names)} runs",
        f"{len(runs)} runs on {', '.join(data)}, by {', '.join(metrics) or 'their score'}",
        {
            "Scores": _scores(series),
            "What differs": _differences(series),
            "Training": [("figures", curves(epochs, " / ".join(metrics), " of the runs"))],
            "Classes": _classes(alike),
            "Calibration": [("figures", sections.calibration(alike))],
            "Where in the graph": sections.neighbourhoods(alike),
            "Left out": [("remarks", left_out)],
            "Repeat it": _commands(series),
        },
    )


def distinct_names(runs: Sequence[History]) -> list[str]:
    """Return what each run is called: its recipe, with what tells it from others of this name."""
    names = [word(run.recipe["model"]) if run.name == "recipe" else run.name for run in runs]
    options = [dict(flat(run.public_recipe())) for run in runs]
    return tell_apart(names, options, last=[run.folder.name for run in runs])


def _alike(
    series: Mapping[str, History], answered: Mapping[str, Sequence[Answered]]
) -> dict[str, Sequence[Answered]]:
    """Return the runs that predict what the first one does: its data, task, metric and classes."""
    if not answered:
        return {}
    first = next(iter(answered))

    def kind(name: str) -> tuple:
        seeds = answered[name]
        task, data = seeds[0].task, word(series[name].recipe["dataset"])
        return data, task.name, task.metric_name, tuple(seeds[0].names)

    return {
        name: seeds
        for name, seeds in answered.items()
        if kind(name) == kind(first) and _of_one_question(series[first], series[name])
    }


def _scores(series: Mapping[str, History]) -> list[Part]:
    known = {name: run for name, run in series.items() if run.results}
    if not known:
        return [("text", "No run has come to a score yet.")]
    remarks = [f"{name}: no seed has come to a score yet." for name in series if name not in known]
    if len(asked := groups(known.values(), _of_one_question)) > 1:
        return [*_on_several_graphs(asked), ("remarks", remarks), ("table", _table(known))]
    means = {name: spread([seed["test"] for seed in run.results])["mean"]
             for name, run in known.items()}  # fmt: skip
    ordered = sorted(known, key=lambda name: -gain(known[name].metric, means[name]))
    compared = dict(zip(ordered, compare_to_best(
        [{"recipe": name, "metric": known[name].metric, "seeds": known[name].results}
         for name in ordered]), strict=True))  # fmt: skip
    best = next(name for name, row in compared.items() if row["best"])
    apart = {name: row["difference"] for name, row in compared.items() if name != best}
    cells = {best: ("", "", "best")}
    cells |= {name: _difference(each) if each else ("", "", "not tested")
              for name, each in apart.items()}  # fmt: skip
    tested = {name: each for name, each in apart.items() if each and each["low"] is not None}
    less = " Less is better." if lower_is_better(known[best].metric) else ""
    note = (
        f"Difference: test score minus that of {best}, the best, of the same seed and split; mean "
        "over these pairs and its 95 % interval (Student's t). Where the interval holds 0, either "
        f"may be the better one: noise.{less}"
    )
    if unpaired := [name for name, each in apart.items() if not each]:
        without = "Of other seeds or splits, and so without a difference"
        remarks.append(f"{without}: {', '.join(unpaired)}.")
    runs = {name: known[name] for name in ordered}
    return [("table", _table(runs, cells)), ("text", note),
            ("remarks", [*holm_note(tested), *remarks])]  # fmt: skip


def _on_several_graphs(asked: Sequence[Sequence[History]]) -> list[Part]:
    """Return the table of runs of several questions, those of one in each group: a column each."""
    firsts = [first for first, *_ in asked]
    graphs = graph_names([run.recipe for run in firsts], [run.metric for run in firsts])
    runs = [(graph, run) for graph, group in zip(graphs, asked, strict=True) for run in group]
    models = model_names([run.recipe for _, run in runs], [graph for graph, _ in runs],
                         [run.folder.name for _, run in runs])  # fmt: skip
    rows = [{"model": model, "graph": graph, "recipe": model, "metric": run.metric,
             "seeds": run.results, "test": spread([seed["test"] for seed in run.results])}
            for model, (graph, run) in zip(models, runs, strict=True)]  # fmt: skip
    groups_of = [[row for row in rows if row["graph"] == graph] for graph in graphs]
    compared = [each for group in groups_of for each in compare_to_best(group)]
    scores = results_table([{**row, **each} for row, each in zip(rows, compared, strict=True)])
    heads, *lines = cells(scores, _cell)
    caption = "Test scores of the models on each graph"
    return [("table", Table(caption, heads, lines)), ("text", " ".join(sentences(scores)))]


def _cell(text: str, best: bool, marks: str) -> str:
    return Markup("<b>{}</b> {}").format(text, marks) if best else f"{text} {marks}".strip()


def _table(
    runs: Mapping[str, History], differences: Mapping[str, Sequence[str]] | None = None
) -> Table:
    """Return the scores of runs, and where they are of one graph the differences from the best."""
    rows = []
    for name, run in runs.items():
        seeds = pd.DataFrame(run.results)
        test, val = (with_deviation(spread([*seeds[part]])) for part in ("test", "val"))
        apart = [] if differences is None else differences.get(name, ("", "", ""))
        rows.append([name, test, *apart, val, len(seeds), f"{seeds['epochs'].mean():.0f}",
                     seeds["parameters"][0], f"{1000 * seeds['seconds_per_epoch'].median():,.0f}",
                     run.state])  # fmt: skip
    apart = [] if differences is None else ["difference", "95 % interval", "remark"]
    columns = ["run", "test", *apart, "validation", "seeds", "epochs", "parameters",
               "ms per epoch", "state"]  # fmt: skip
    return Table("Scores of the runs, mean and standard deviation over seeds", columns, rows)


def _difference(difference: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a difference from the best, its interval, and a word about it."""
    mean, low = signed(difference["mean"]), difference["low"]
    if low is None:
        return mean, "", "one pair" if difference["pairs"] == 1 else "all alike"
    interval = f"{signed(low)} to {signed(difference['high'])}"
    return mean, interval, "noise" if difference["noise"] else ""


def _of_one_question(run: History, other: History) -> bool:
    """Return whether two predict the same, of the same files as far as these are known."""
    files = _files(run)
    return (
        run.metric == other.metric
        and measured(run.recipe.get("task")) == measured(other.recipe.get("task"))
        and not differing_target(run.recipe["dataset"], other.recipe["dataset"])
        and all(files.get(name, sha256) == sha256 for name, sha256 in _files(other).items())
    )


def _files(run: History) -> dict[str, str]:
    return run.environment.files if run.environment else {}


def _differences(series: Mapping[str, History]) -> list[Part]:
    """Return the keys of the recipes whose values are not the same in all."""
    recipes = {name: dict(flat(run.public_recipe())) for name, run in series.items()}
    keys = list(dict.fromkeys(key for recipe in recipes.values() for key in recipe))
    rows = [[key, *(recipe.get(key, "–") for recipe in recipes.values())] for key in keys
            if len({recipe.get(key) for recipe in recipes.values()}) > 1]  # fmt: skip
    if not rows:
        return [("text", "The recipes are the same, every value.")]
    return [("table", Table("Values of the recipes that differ", ["key", *recipes], rows,
                            words=len(recipes) + 1))]  # fmt: skip


def _classes(series: Mapping[str, Sequence[Answered]]) -> list[Part]:
    """Return F1 of each class in each run."""
    tables = {name: measures.mean_classes(seeds) for name, seeds in series.items()}
    if not tables or any(table is None for table in tables.values()):
        return []
    names = next(iter(tables.values()))["class"]
    scores = zip(*(table["f1"] for table in tables.values()), strict=True)
    rows = [[name, *map(sections.score, own)] for name, own in zip(names, scores, strict=True)]
    caption = "F1 of each class on the test part, mean over seeds"
    return [("table", Table(caption, ["class", *tables], rows))]


def _commands(series: Mapping[str, History]) -> list[Part]:
    folders = shlex.join(str(run.folder) for run in series.values())
    parts = [("text", "This page:"), ("code", f"zoo report {folders}")]
    for name, run in series.items():
        again = shlex.join(["zoo", "train", str(run.folder / "recipe.yaml")])
        parts += [("text", f"{name}:"), ("code", again)]
    return parts
