"""The page that compares runs."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from zoo.config.recipe import UNTRAINED_KEYS, word
from zoo.config.scores import (
    compare_to_best,
    differing_target,
    gain,
    lower_is_better,
    signed,
    spread,
)
from zoo.reports import measures, sections
from zoo.reports.answers import Answered, Found
from zoo.reports.figures import curves
from zoo.reports.history import History
from zoo.reports.page import Part, Table, page


def comparison_page(runs: Sequence[History], found: Sequence[Found]) -> str:
    """Return the page of several runs, with what their weights answer."""
    names = distinct_names(runs)
    series = dict(zip(names, runs, strict=True))
    answered = {name: each.seeds for name, each in zip(names, found, strict=True) if each.seeds}
    alike = _alike(series, answered)
    metrics = sorted({each.metric for each in runs if each.metric})
    epochs = {name: each.curves for name, each in series.items() if each.curves}
    left_out = [f"{name}: {said}" for name, each in zip(names, found, strict=True)
                for said in each.left_out]  # fmt: skip
    if len(alike) < len(answered):
        others = ", ".join(name for name in answered if name not in alike)
        said = "of other data than the first run, another metric, or of another question to them"
        left_out.append(f"{others}: {said}, and not drawn beside it.")
    data = sorted({each.data for each in runs})
    return page(
        " and ".join(names) if len(names) < 4 else f"{len(names)} runs",
        f"{len(runs)} runs on {', '.join(data)}, by {', '.join(metrics) or 'their score'}",
        {
            "Scores": _scores(series, metrics),
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
    """Return what each run is called: its recipe, or its folder where several share that."""
    recipes = [each.name for each in runs]
    names = [each.name if recipes.count(each.name) == 1 else each.folder.name for each in runs]
    return [name if names.count(name) == 1 else f"{name} ({place + 1})"
            for place, name in enumerate(names)]  # fmt: skip


def _alike(
    series: Mapping[str, History], answered: Mapping[str, Sequence[Answered]]
) -> dict[str, Sequence[Answered]]:
    """Return the answers to the question of the first: its data, task, metric and classes."""
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
        if kind(name) == kind(first) and _of_one_question([series[first], series[name]])
    }


def _scores(series: Mapping[str, History], metrics: Sequence[str]) -> list[Part]:
    known = {name: run for name, run in series.items() if run.results}
    if not known:
        return [("text", "No run has come to a score yet.")]
    remarks = [f"{name}: no seed has come to a score yet." for name in series if name not in known]
    tests = {name: {"recipe": name, "seeds": run.results} for name, run in known.items()}
    if len(metrics) > 1 or not _of_one_question([*known.values()]):
        said = (
            "The runs are of different data, or of different questions to them, and are not set "
            "against each other."
        )
        return [("remarks", [said, *remarks]), ("table", _table(known, {}))]
    means = {name: spread([each["test"] for each in run.results])["mean"]
             for name, run in known.items()}  # fmt: skip
    best, *others = sorted(known, key=lambda name: -gain(known[name].metric, means[name]))
    apart = {name: compare_to_best(tests[name], tests[best])["difference"] for name in others}
    said = {best: ("", "", "best"), **{name: _apart(each) for name, each in apart.items() if each}}
    less = " Less is better." if lower_is_better(known[best].metric) else ""
    note = (
        f"Difference: test score minus that of {best}, the best, of the same seed and split; mean "
        "over these pairs and its 95 % interval (Student's t). Where the interval holds 0, either "
        f"may be the better one: noise.{less}"
    )
    if unpaired := [name for name in others if not apart[name]]:
        without = "Of other seeds or splits, and so without a difference"
        remarks.append(f"{without}: {', '.join(unpaired)}.")
    ordered = {name: known[name] for name in (best, *others)}
    return [("table", _table(ordered, said)), ("text", note), ("remarks", remarks)]


def _table(runs: Mapping[str, History], apart: Mapping[str, Sequence[str]]) -> Table:
    """Return the scores of runs, with what is said of how far some are apart from the best."""
    rows = []
    for name, run in runs.items():
        seeds = pd.DataFrame(run.results)
        test, val = (sections.spread(spread([*seeds[part]])) for part in ("test", "val"))
        rows.append([name, test, *apart.get(name, ("", "", "")), val, len(seeds),
                     f"{seeds['epochs'].mean():.0f}", seeds["parameters"][0],
                     f"{1000 * seeds['seconds_per_epoch'].median():,.0f}", run.state])  # fmt: skip
    columns = ["run", "test", "difference", "95 % interval", "remark", "validation", "seeds",
               "epochs", "parameters", "ms per epoch", "state"]  # fmt: skip
    return Table("Scores of the runs, mean and standard deviation over seeds", columns, rows)


def _apart(found: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return a difference from the best, its interval, and a word about it."""
    if found["low"] is None:
        return signed(found["mean"]), "", "one pair" if found["pairs"] == 1 else "all alike"
    interval = f"{signed(found['low'])} to {signed(found['high'])}"
    return signed(found["mean"]), interval, "noise" if found["noise"] else ""


def _of_one_question(runs: Sequence[History]) -> bool:
    """Return whether all runs predict the same, of the same files as far as these are known."""
    first, files = runs[0], _files(runs[0])
    return not any(
        differing_target(first.recipe["dataset"], run.recipe["dataset"])
        or any(files.get(name, sha256) != sha256 for name, sha256 in _files(run).items())
        for run in runs
    )


def _files(run: History) -> dict[str, str]:
    return run.environment.files if run.environment else {}


def _differences(series: Mapping[str, History]) -> list[Part]:
    """Return the keys of the recipes whose values are not the same in all."""
    flat = {name: dict(_flat(run.public_recipe())) for name, run in series.items()}
    keys = list(dict.fromkeys(key for each in flat.values() for key in each))
    rows = [[key, *(each.get(key, "–") for each in flat.values())] for key in keys
            if len({each.get(key) for each in flat.values()}) > 1]  # fmt: skip
    if not rows:
        return [("text", "The recipes are the same, every value.")]
    return [("table", Table("Values of the recipes that differ", ["key", *flat], rows,
                            words=len(flat) + 1))]  # fmt: skip


_WORDS = {"None": "none", "True": "true", "False": "false"}


def _flat(data: Mapping[str, Any], before: str = ""):
    """Give each value of nested options, as text, with its dotted key."""
    for key, value in data.items():
        if not before and key in UNTRAINED_KEYS:
            continue
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", _WORDS.get(str(value), str(value))


def _classes(series: Mapping[str, Sequence[Answered]]) -> list[Part]:
    """Return F1 of each class in each run."""
    tables = {name: measures.mean_classes(seeds) for name, seeds in series.items()}
    if not tables or any(each is None for each in tables.values()):
        return []
    names = next(iter(tables.values()))["class"]
    scores = zip(*(each["f1"] for each in tables.values()), strict=True)
    rows = [[name, *map(sections.score, own)] for name, own in zip(names, scores, strict=True)]
    caption = "F1 of each class on the test part, mean over seeds"
    return [("table", Table(caption, ["class", *tables], rows))]


def _commands(series: Mapping[str, History]) -> list[Part]:
    folders = " ".join(shlex.quote(str(each.folder)) for each in series.values())
    found = [("text", "This page:"), ("code", f"zoo report {folders}")]
    for name, run in series.items():
        again = f"zoo train {shlex.quote(str(run.folder / 'recipe.yaml'))}"
        found += [("text", f"{name}:"), ("code", again)]
    return found
