"""The page that compares runs."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from zoo.config.question import other_question
from zoo.config.recipe import SAID, word
from zoo.config.scores import beside, gain, is_lower, signed, spread
from zoo.reports import measures, sections
from zoo.reports.answers import Answered, Found
from zoo.reports.figures import run_curves
from zoo.reports.history import History
from zoo.reports.page import command, figures, page, paragraph, table


def comparison_page(runs: Sequence[History], found: Sequence[Found]) -> str:
    """Return the page of several runs, with what their weights answer."""
    names = distinct_names(runs)
    series = dict(zip(names, runs, strict=True))
    answered = {name: each.seeds for name, each in zip(names, found, strict=True) if each.seeds}
    alike = _alike(series, answered)
    metrics = sorted({each.metric for each in runs if each.metric})
    curves = {name: each.curves for name, each in series.items() if each.curves}
    left_out = [f"{name}: {said}" for name, each in zip(names, found, strict=True)
                for said in each.left_out]  # fmt: skip
    if len(alike) < len(answered):
        others = ", ".join(name for name in answered if name not in alike)
        said = "of other data than the first run, or of another question to them"
        left_out.append(f"{others}: {said}, and not drawn beside it.")
    data = sorted({each.data for each in runs})
    shown = [
        ("scores", "Scores", _scores(series, metrics)),
        ("differences", "What differs", _differences(series)),
        ("training", "Training", figures(run_curves(curves, " / ".join(metrics)), "curves")),
        ("classes", "Classes", _classes(alike)),
        ("calibration", "Calibration", figures(sections.calibration(alike), "reliability")),
        ("neighbours", "Where in the graph", sections.neighbourhoods(alike)),
        ("left-out", "Left out", sections.remarks(left_out)),
        ("run", "Repeat it", _commands(series)),
    ]  # fmt: skip
    said = f"{len(runs)} runs on {', '.join(data)}, by {', '.join(metrics) or 'their score'}"
    return page(" and ".join(names) if len(names) < 4 else f"{len(names)} runs", said, shown)


def distinct_names(runs: Sequence[History]) -> list[str]:
    """Return what each run is called: its recipe, or its folder where several share that."""
    recipes = [each.name for each in runs]
    names = [each.name if recipes.count(each.name) == 1 else each.folder.name for each in runs]
    return [name if names.count(name) == 1 else f"{name} ({place + 1})"
            for place, name in enumerate(names)]  # fmt: skip


def _alike(
    series: Mapping[str, History], answered: Mapping[str, Sequence[Answered]]
) -> dict[str, Sequence[Answered]]:
    """Return the answers to the question of the first ones: of its data, its task, its classes."""
    if not answered:
        return {}
    first = next(iter(answered))

    def kind(name: str) -> tuple:
        seeds = answered[name]
        return word(series[name].recipe["dataset"]), seeds[0].task, tuple(seeds[0].names)

    return {
        name: seeds
        for name, seeds in answered.items()
        if kind(name) == kind(first) and _of_one_question([series[first], series[name]])
    }


def _scores(series: Mapping[str, History], metrics: Sequence[str]) -> str:
    known = {name: run for name, run in series.items() if run.results}
    if not known:
        return paragraph("No run has come to a score yet.")
    silent = [f"{name}: no seed has come to a score yet." for name in series if name not in known]
    rows = [_summary(name, run) for name, run in known.items()]
    if len(metrics) > 1 or not _of_one_question([*known.values()]):
        said = (
            "The runs are of different data, or of different questions to them, and are not set "
            "against each other."
        )
        return sections.remarks([said, *silent]) + _table(rows, [None] * len(rows))
    rows.sort(key=lambda each: -gain(each["metric"], each["test"]["mean"]))
    found = [beside(each, rows[0]) for each in rows]
    less = " Less is better." if is_lower(rows[0]["metric"]) else ""
    note = (
        f"Difference: test score minus that of {rows[0]['recipe']}, the best, of the same seed and "
        "split; mean over these pairs and its 95 % interval (Student's t). Where the interval "
        f"holds 0, either may be the better one: noise.{less}"
    )
    unpaired = [each["recipe"] for each, one in zip(rows[1:], found[1:], strict=True)
                if one["difference"] is None]  # fmt: skip
    if unpaired:
        silent.append(
            f"Of other seeds or splits, and so without a difference: {', '.join(unpaired)}."
        )
    return _table(rows, found) + paragraph(note) + sections.remarks(silent)


def _of_one_question(runs: Sequence[History]) -> bool:
    """Return whether all runs predict the same, of the same files as far as these are known."""
    first, files = runs[0], _files(runs[0])
    return not any(
        other_question(first.recipe["dataset"], run.recipe["dataset"])
        or any(files.get(name, sha256) != sha256 for name, sha256 in _files(run).items())
        for run in runs
    )


def _files(run: History) -> dict[str, str]:
    return run.environment.files if run.environment else {}


def _summary(name: str, run: History) -> dict[str, Any]:
    return {"recipe": name, "metric": run.metric, "data": run.data, "seeds": run.results,
            "state": run.state, **{part: spread([each[part] for each in run.results])
                                   for part in ("val", "test")}}  # fmt: skip


def _table(rows: Sequence[dict[str, Any]], found: Sequence[dict[str, Any] | None]) -> str:
    cells = []
    for row, one in zip(rows, found, strict=True):
        seeds = row["seeds"]
        cells.append([
            row["recipe"], sections.spread(row["test"]), *_apart(one, row is rows[0]),
            sections.spread(row["val"]), str(len(seeds)),
            f"{np.mean([each['epochs'] for each in seeds]):.0f}", f"{seeds[0]['parameters']:,}",
            f"{1000 * np.median([each['seconds_per_epoch'] for each in seeds]):,.0f}", row["state"],
        ])  # fmt: skip
    columns = ["run", "test", "difference", "95 % interval", "remark", "validation", "seeds",
               "epochs", "parameters", "ms per epoch", "state"]  # fmt: skip
    return table("Scores of the runs, mean and standard deviation over seeds", columns, cells)


def _apart(found: dict[str, Any] | None, first: bool) -> tuple[str, str, str]:
    """Return the difference from the best, its interval, and a word about it."""
    apart = found and found["difference"]
    if not apart:
        return "", "", "best" if found and first else ""
    if apart["low"] is None:
        return signed(apart["mean"]), "", "one pair" if apart["pairs"] == 1 else "all alike"
    return (signed(apart['mean']), f"{signed(apart['low'])} to {signed(apart['high'])}",
            "noise" if apart["noise"] else "")  # fmt: skip


def _differences(series: Mapping[str, History]) -> str:
    """Return the keys of the recipes whose values are not the same in all."""
    flat = {name: dict(_flat(run.public_recipe())) for name, run in series.items()}
    keys = list(dict.fromkeys(key for each in flat.values() for key in each))
    rows = [[key, *(each.get(key, "–") for each in flat.values())] for key in keys
            if len({each.get(key) for each in flat.values()}) > 1]  # fmt: skip
    if not rows:
        return paragraph("The recipes are the same, every value.")
    return table("Values of the recipes that differ", ["key", *flat], rows, len(flat) + 1)


_WORDS = {"None": "none", "True": "true", "False": "false"}


def _flat(data: Mapping[str, Any], before: str = ""):
    """Give each value of nested options, as text, with its dotted key."""
    for key, value in data.items():
        if not before and key in SAID:
            continue
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", _WORDS.get(str(value), str(value))


def _classes(series: Mapping[str, Sequence[Answered]]) -> str:
    """Return F1 of each class in each run."""
    tables = {name: measures.mean_classes(seeds) for name, seeds in series.items()}
    if not tables or any(each is None for each in tables.values()):
        return ""
    rows = [[own[0]["class"], *(sections.score(each["f1"]) for each in own)]
            for own in zip(*tables.values(), strict=True)]  # fmt: skip
    return table("F1 of each class on the test part, mean over seeds", ["class", *tables], rows)


def _commands(series: Mapping[str, History]) -> str:
    folders = " ".join(shlex.quote(str(each.folder)) for each in series.values())
    found = [paragraph("This page:"), command(f"zoo report {folders}")]
    for name, run in series.items():
        found += [paragraph(f"{name}:"),
                  command(f"zoo train {shlex.quote(str(run.folder / 'recipe.yaml'))}")]  # fmt: skip
    return "".join(found)
