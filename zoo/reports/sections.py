"""The sections that a page of one run and one of several have in common, as parts of a page."""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from zoo.config.scores import figure, lower_is_better
from zoo.reports import figures, measures
from zoo.reports.answers import Answered, Answers
from zoo.reports.figures import Figure
from zoo.reports.html import Part, Table

TARGETS = 3
"""Targets of a regression that are drawn at most."""


def score(value: float) -> str:
    """Return a score from 0 to 1 as a cell shows it, and NaN where there is none."""
    return "–" if np.isnan(value) else figure(value)


def classes(answers: Answers) -> list[Part]:
    """Return the table of classes and the confusion matrix of a run."""
    rows = measures.mean_classes(answers.seeds)
    if rows is None:
        return []
    cells = [[row["class"], *(score(row[key]) for key in ("precision", "recall", "f1")),
              row["count"]] for _, row in rows.iterrows()]  # fmt: skip
    cells.append(["mean of the classes", "", "", score(rows["f1"].mean()), rows["count"].sum()])
    caption = f"Test {answers.seeds[0].unit} by their true class"
    if len(answers.seeds) > 1:
        caption += f": means over {len(answers.seeds)} seeds; counts are of all seeds together"
    if rows["without"].any():
        caption += "; where a class is never answered its precision does not exist"
    table = Table(caption, ["class", "precision", "recall", "F1", "count"], cells)
    matrix = measures.confusion(answers.seeds)
    if matrix is None:
        return [("table", table)]
    return [("figures", [table, figures.confusion_matrix(*matrix)])]


def calibration(runs: Mapping[str, Sequence[Answered]]) -> list[Figure]:
    """Return the reliability diagram of runs, if they have probabilities."""
    diagrams = {name: measures.reliability(seeds) for name, seeds in runs.items()}
    diagrams = {name: diagram for name, diagram in diagrams.items() if diagram is not None}
    return [figures.reliability_diagram(diagrams)] if diagrams else []


def neighbourhoods(runs: Mapping[str, Sequence[Answered]]) -> list[Part]:
    """Return the score of runs by degree and by homophily of a node, or why there is none."""
    first = next((seeds[0] for seeds in runs.values() if seeds), None)
    if first is None:
        return []
    runs = {name: seeds for name, seeds in runs.items()
            if seeds and all(seed.degree is not None for seed in seeds)}  # fmt: skip
    if not runs:
        if first.unit == "nodes":
            why = "The graph has no edges, so that there is no degree to score by."
        else:
            why = f"Scores by degree and homophily are of nodes of one graph, not of {first.unit}."
        return [("text", why)]
    every_seed = [seed for seeds in runs.values() for seed in seeds]
    measure, note = measures.measure_of(first.task), _whiskers(runs)
    edges, why = measures.degree_edges(every_seed), ""
    drawn = [figures.binned(
        {name: measures.by_degree(seeds, edges) for name, seeds in runs.items()},
        "Error by degree" if measure == measures.ERROR else "Score by degree",
        "neighbours of the node", measure, f"Bins with about as many test nodes each. {note}",
    )]  # fmt: skip
    if all(seed.homophily is not None for seed in every_seed):
        alone = sum(int(np.isnan(seed.homophily).sum()) for seed in every_seed)
        without = f" {alone:,} without such neighbours are left out." if alone else ""
        drawn.append(figures.binned(
            {name: measures.by_homophily(seeds) for name, seeds in runs.items()},
            "Score by homophily", "share of neighbours of the same class", measure,
            "Share among the neighbours whose class is known; a bin holds its upper end."
            f"{without} {note}",
        ))  # fmt: skip
    else:
        why = f"The homophily of a node is that of one class each, and this is {first.task.name}."
    return [("figures", drawn), ("text", why)]


def _whiskers(runs: Mapping[str, Sequence[Answered]]) -> str:
    """Say what the whiskers are."""
    counts = {len(seeds) for seeds in runs.values()}
    note = "Whiskers: standard deviation over the seeds." if max(counts) > 1 else ""
    if min(counts) == 1 and measures.measure_of(next(iter(runs.values()))[0].task) == "accuracy":
        note += " Of one seed: 95 % interval of a share (Wilson)."
    note += " Below each bin: test nodes, all seeds together." if len(runs) == 1 else ""
    return note.strip()


def numbers(answers: Answers) -> list[Figure]:
    """Return the figures of predicted numbers, of a regression or of forecasts."""
    seeds, horizon = answers.seeds, answers.horizon
    if not seeds or seeds[0].task.kind != "numbers":
        return []
    if horizon is None:
        names = seeds[0].names
        pairs = [measures.pairs_of(seeds, target) for target in range(len(names[:TARGETS]))]
        drawn = [figures.predictions(*pair, name if len(names) > 1 else "")
                 for pair, name in zip(pairs, names, strict=False)]  # fmt: skip
        return [*itertools.chain(*drawn)]
    truth = np.concatenate([seed.y.numpy().reshape(-1) for seed in seeds])
    predicted = np.concatenate([seed.logits.numpy().reshape(-1) for seed in seeds])
    known = ~np.isnan(truth)
    drawn = figures.predictions(truth[known], predicted[known])
    if horizon > 1:
        steps, measure = measures.by_step(seeds, horizon), seeds[0].task.metric_name
        title = f"{'Error' if lower_is_better(measure) else 'Score'} by how far ahead"
        note = "Below each: values."
        drawn.append(figures.binned({"": steps}, title, "times ahead", measure, note))
    return drawn


def embeddings(answers: Answers) -> list[Figure]:
    """Return the picture of embeddings, if there is one."""
    if answers.embedded is None:
        return []
    first = answers.seeds[0]
    return [figures.embedding(answers.embedded, first.task, first.names, first.unit)]
