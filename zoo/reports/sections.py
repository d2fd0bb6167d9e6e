"""The sections that a page of one run and one of several have in common, as parts of a page."""

from collections.abc import Mapping, Sequence

import numpy as np

from zoo.config.scores import figure, lower_is_better
from zoo.reports import figures, measures
from zoo.reports.answers import Answered, Found
from zoo.reports.figures import Figure
from zoo.reports.page import Part, Table

TARGETS = 3
"""Targets of a regression that are drawn at most."""


def spread(score: Mapping[str, float | None]) -> str:
    """Return a mean with its standard deviation, if it has one."""
    std = score["std"]
    return figure(score["mean"]) + ("" if std is None else f" ± {figure(std)}")


def score(value: float) -> str:
    """Return a score from 0 to 1 as a cell shows it, and NaN where there is none."""
    return "–" if np.isnan(value) else figure(value)


def classes(found: Found) -> list[Part]:
    """Return the table of classes and the confusion matrix of a run."""
    rows = measures.mean_classes(found.seeds)
    if rows is None:
        return []
    cells = [[row["class"], *(score(row[key]) for key in ("precision", "recall", "f1")),
              row["count"]] for _, row in rows.iterrows()]  # fmt: skip
    cells.append(["mean of the classes", "", "", score(rows["f1"].mean()), rows["count"].sum()])
    caption = f"Test {found.seeds[0].unit} by their true class"
    if len(found.seeds) > 1:
        caption += f": means over {len(found.seeds)} seeds; counts are of all seeds together"
    if rows["without"].any():
        caption += "; where a class is never answered its precision does not exist"
    table = Table(caption, ["class", "precision", "recall", "F1", "count"], cells)
    matrix = measures.confusion(found.seeds)
    return (
        [("figures", [table, figures.confusion_matrix(*matrix)])] if matrix else [("table", table)]
    )


def calibration(series: Mapping[str, Sequence[Answered]]) -> list[Figure]:
    """Return the reliability diagram of runs, if they have probabilities."""
    found = {name: measures.reliability(seeds) for name, seeds in series.items()}
    known = {name: each for name, each in found.items() if each is not None}
    return [figures.reliability_diagram(known)] if known else []


def neighbourhoods(series: Mapping[str, Sequence[Answered]]) -> list[Part]:
    """Return the score of runs by degree and by homophily of a node, or why there is none."""
    everyone = [each for seeds in series.values() for each in seeds]
    if not everyone:
        return []
    task, unit = everyone[0].task, everyone[0].unit
    known = {name: seeds for name, seeds in series.items()
             if seeds and all(each.degree is not None for each in seeds)}  # fmt: skip
    if not known:
        if unit != "nodes":
            said = f"Scores by degree and homophily are of nodes of one graph, not of {unit}."
        else:
            said = "The graph has no edges, so that there is no degree to score by."
        return [("text", said)]
    everyone = [each for seeds in known.values() for each in seeds]
    measure, note = measures.measure_of(task), _intervals(known)
    edges, said = measures.degree_edges(everyone), ""
    drawn = [figures.binned(
        {name: measures.by_degree(seeds, edges) for name, seeds in known.items()},
        "Error by degree" if measure == measures.ERROR else "Score by degree",
        "neighbours of the node", measure, f"Bins with about as many test nodes each. {note}",
    )]  # fmt: skip
    if all(each.homophily is not None for each in everyone):
        alone = sum(int(np.isnan(each.homophily).sum()) for each in everyone)
        without = f" {alone:,} without such neighbours are left out." if alone else ""
        drawn.append(figures.binned(
            {name: measures.by_homophily(seeds) for name, seeds in known.items()},
            "Score by homophily", "share of neighbours of the same class", measure,
            "Share among the neighbours whose class is known; a bin holds its upper end."
            f"{without} {note}",
        ))  # fmt: skip
    else:
        said = f"The homophily of a node is that of one class each, and this is {task.name}."
    return [("figures", drawn), ("text", said)]


def _intervals(series: Mapping[str, Sequence[Answered]]) -> str:
    """Say what the whiskers are."""
    counts = {len(seeds) for seeds in series.values()}
    how = "Whiskers: standard deviation over the seeds." if max(counts) > 1 else ""
    if min(counts) == 1 and measures.measure_of(next(iter(series.values()))[0].task) == "accuracy":
        how += " Of one seed: 95 % interval of a share (Wilson)."
    below = " Below each bin: test nodes, all seeds together." if len(series) == 1 else ""
    return f"{how}{below}".strip()


def numbers(found: Found) -> list[Figure]:
    """Return the figures of predicted numbers, of a regression or of forecasts."""
    seeds = found.seeds
    if not seeds or seeds[0].task.kind != "numbers":
        return []
    if found.horizon is None:
        names = seeds[0].names
        return [each for place, name in enumerate(names[:TARGETS])
                for each in figures.predictions(*measures.pairs_of(seeds, place),
                                                name if len(names) > 1 else "")]  # fmt: skip
    truth = np.concatenate([each.y.numpy().reshape(-1) for each in seeds])
    said = np.concatenate([each.logits.numpy().reshape(-1) for each in seeds])
    known = ~np.isnan(truth)
    drawn = figures.predictions(truth[known], said[known])
    if found.horizon > 1:
        ahead, measure = measures.by_step(seeds, found.horizon), seeds[0].task.metric_name
        title = f"{'Error' if lower_is_better(measure) else 'Score'} by how far ahead"
        note = "Below each: values."
        drawn.append(figures.binned({"": ahead}, title, "times ahead", measure, note))
    return drawn


def embeddings(found: Found) -> list[Figure]:
    """Return the picture of embeddings, if there is one."""
    if found.embedded is None:
        return []
    first = found.seeds[0]
    return [figures.embedding(found.embedded, first.task, first.names, first.unit)]
