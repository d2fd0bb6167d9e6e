"""The sections that a page of one run and one of several have in common, each as markup."""

import shlex
from collections.abc import Mapping, Sequence

import numpy as np

from zoo.config.scores import figure
from zoo.config.yaml_lines import recipe_text
from zoo.reports import measures
from zoo.reports.answers import Answered, Found
from zoo.reports.figures import Figure
from zoo.reports.history import History
from zoo.reports.page import command, figures, folded, paragraph, table
from zoo.reports.pictures import (
    binned,
    confusion_matrix,
    embedding,
    predictions,
    reliability_diagram,
)
from zoo.reports.svg import element, plain
from zoo.tasks.labels import FORECASTING, REGRESSION

TARGETS = 3
"""Targets of a regression that are drawn at most."""


def spread(score: Mapping[str, float | None]) -> str:
    """Return a mean with its standard deviation, if it has one."""
    std = score["std"]
    return figure(score["mean"]) + ("" if std is None else f" ± {figure(std)}")


def score(value: float | None) -> str:
    """Return a score from 0 to 1 as a cell shows it."""
    return "–" if value is None else figure(value)


def remarks(said: Sequence[str]) -> str:
    """Return sentences that stand out."""
    return "".join(paragraph(each, "remark") for each in said)


def classes(found: Found) -> str:
    """Return the table of classes and the confusion matrix of a run."""
    rows = measures.mean_classes(found.seeds)
    if rows is None:
        return ""
    cells = [
        [each["class"], *(score(each[key]) for key in ("precision", "recall", "f1")),
         f"{each['count']:,}"]
        for each in rows
    ]  # fmt: skip
    known = [each["f1"] for each in rows if each["f1"] is not None]
    cells.append(["mean of the classes", "", "", score(float(np.mean(known)) if known else None),
                  f"{sum(each['count'] for each in rows):,}"])  # fmt: skip
    many = len(found.seeds) > 1
    caption = f"Test {found.seeds[0].unit} by their true class" + (
        f": means over {len(found.seeds)} seeds; counts are of all seeds together" if many else ""
    )
    if any(each["without"] for each in rows):
        caption += "; where a class is never answered its precision does not exist"
    shown = table(caption, ["class", "precision", "recall", "F1", "count"], cells)
    matrix = measures.confusion(found.seeds)
    return figures([confusion_matrix(*matrix)], "confusion", shown) if matrix else shown


def calibration(series: Mapping[str, Sequence[Answered]]) -> list[Figure]:
    """Return the reliability diagram of runs, if they have probabilities."""
    found = {name: measures.reliability(seeds) for name, seeds in series.items()}
    known = {name: each for name, each in found.items() if each is not None}
    return [reliability_diagram(known)] if known else []


def neighbourhoods(series: Mapping[str, Sequence[Answered]]) -> str:
    """Return the score of runs by degree and by homophily of a node."""
    known = {name: seeds for name, seeds in series.items()
             if seeds and all(each.degree is not None for each in seeds)}  # fmt: skip
    if not known:
        return ""
    everyone = [each for seeds in known.values() for each in seeds]
    measure = measures.measure_of(everyone[0].task)
    edges = measures.degree_edges(everyone)
    note = _intervals(known, measure)
    title = "Error by degree" if measure == measures.ERROR else "Score by degree"
    drawn = [binned({name: measures.by_degree(seeds, edges) for name, seeds in known.items()},
                    title, "neighbours of the node", measure,
                    f"Bins with about as many test nodes each. {note}")]  # fmt: skip
    if all(each.homophily is not None for each in everyone):
        shares = {name: measures.by_homophily(seeds) for name, seeds in known.items()}
        alone = sum(int(np.isnan(each.homophily).sum()) for each in everyone)
        said = f" {alone:,} without such neighbours are left out." if alone else ""
        drawn.append(binned(shares, "Score by homophily", "share of neighbours of the same class",
                            measure, "Share among the neighbours whose class is known; a bin holds "
                            f"its upper end.{said} {note}"))  # fmt: skip
        return figures(drawn, "neighbours")
    said = f"The homophily of a node is that of one class each, and this is {everyone[0].task}."
    return figures(drawn, "neighbours") + paragraph(said)


def _intervals(series: Mapping[str, Sequence[Answered]], measure: str) -> str:
    """Say what the whiskers are."""
    counts = {len(seeds) for seeds in series.values()}
    how = "Whiskers: standard deviation over the seeds." if max(counts) > 1 else ""
    if min(counts) == 1 and measure == "accuracy":
        how += " Of one seed: 95 % interval of a share (Wilson)."
    below = " Below each bin: test nodes, all seeds together." if len(series) == 1 else ""
    return f"{how}{below}".strip()


def numbers(found: Found) -> list[Figure]:
    """Return the figures of predicted numbers, of a regression or of forecasts."""
    if not found.seeds or found.seeds[0].task not in (REGRESSION, FORECASTING):
        return []
    seeds = found.seeds
    if found.horizon is not None:
        truth = np.concatenate([each.y.numpy().reshape(-1) for each in seeds])
        said = np.concatenate([each.logits.numpy().reshape(-1) for each in seeds])
        known = ~np.isnan(truth)
        ahead = measures.by_step(seeds, found.horizon)
        drawn = predictions(truth[known], said[known])
        if found.horizon > 1:
            drawn.append(binned({"": ahead}, "Error by how far ahead", "times ahead", "mse",
                                "Below each: values."))  # fmt: skip
        return drawn
    names = seeds[0].names
    many = len(names) > 1
    drawn = []
    for place, name in enumerate(names[:TARGETS]):
        drawn += predictions(*measures.pairs_of(seeds, place), name if many else "")
    return drawn


def embeddings(found: Found) -> list[Figure]:
    """Return the picture of embeddings, if there is one."""
    if found.embedded is None:
        return []
    first = found.seeds[0]
    return [embedding(found.embedded, first.task, first.names, first.unit)]


def repeat(run: History) -> str:
    """Return the commands that repeat a run, or go on with it, and where it was begun."""
    folder, begun = run.folder, run.environment
    several = f" --processes {begun.processes}" if begun and begun.processes > 1 else ""
    again = command(f"zoo train {shlex.quote(str(folder / 'recipe.yaml'))}{several}")
    found = [paragraph("The command that repeats it:"), again]
    if run.state != "finished":
        found += [paragraph("Go on with it:"),
                  command(f"zoo train --resume {shlex.quote(str(folder))}{several}")]  # fmt: skip
    text = recipe_text(run.public_recipe())
    found.append(folded("The recipe, every value written out, files by their names",
                        element("pre", element("code", plain(text)), tabindex="0")))  # fmt: skip
    if begun is not None:
        rows = [["device", begun.device], ["instructions of the CPU", begun.cpu],
                ["threads", str(begun.threads)], ["processes", str(begun.processes)],
                *([name, each or "missing"] for name, each in begun.packages.items())]  # fmt: skip
        found.append(
            folded("Where it was begun", table("Where it was begun", ["what", "value"], rows, 2))
        )
    return "".join(found)
