"""The figure of AnyGraph beside other models, graph by graph, of the rows of `any_graph.py`.

    python benchmarks/studies/any_graph.py --leave-out --beside ... > rows.txt
    python benchmarks/studies/any_graph_figure.py rows.txt docs/plots/any-graph

Rows of several files that are given together are joined by graph, budget and draw. Writes the rows
as CSV, prints the tables of docs/transfer.md and draws the figure.
"""

import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from matplotlib.figure import Figure
from scipy import stats

KEYS = ["graph", "budget", "draw"]
BUDGETS = {1.0: "1 label of each class", 5.0: "5 labels of each class", 0.1: "10 % of all labels"}
SCRATCH = "gcn", "sgformer", "polynormer"
TUNED = "tuned-gcn", "tuned-sgformer", "tuned-polynormer"
OTHERS = {
    "ridge": ["ridge"],
    "label propagation": ["label-propagation"],
    "GraphAny": ["graphany"],
    "the best of these three": ["ridge", "label-propagation", "graphany"],
    "GCN": ["gcn"],
    "SGFormer": ["sgformer"],
    "Polynormer": ["polynormer"],
    "the best of these three, from scratch": SCRATCH,
    "GCN, tuned": ["tuned-gcn"],
    "SGFormer, tuned": ["tuned-sgformer"],
    "Polynormer, tuned": ["tuned-polynormer"],
    "the best of these three, tuned": TUNED,
}
"""What AnyGraph is compared with: one model, or the best of some on each graph, by test score."""
NAMES = {models[0]: label for label, models in OTHERS.items() if len(models) == 1}
LOOKS = {
    "GCN, SGFormer, Polynormer from scratch": ("#9aa0a6", "|"),
    "ridge": ("#4477aa", "o"),
    "label-propagation": ("#228833", "s"),
    "graphany": ("#ccbb44", "^"),
    "anygraph": ("#d62728", "D"),
}


def rows_of(files: list[Path]) -> pd.DataFrame:
    """Return a row for each graph, budget and draw, of all models that were measured on it."""
    lines = [line for file in files for line in file.read_text().splitlines() if line[:1] == "{"]
    frame = pd.DataFrame(map(json.loads, lines))
    models = [name for name in frame if name not in KEYS]
    return frame.groupby(KEYS, sort=False)[models].first().reset_index()


def draw(frame: pd.DataFrame, path: Path) -> None:
    """Draw accuracy, mean and deviation over the draws, a panel for each budget."""
    graphs = list(dict.fromkeys(frame.graph))[::-1]
    figure = Figure(figsize=(10, 0.36 * len(graphs) + 1.6), layout="constrained")
    axes = figure.subplots(1, len(BUDGETS), sharey=True)
    for axis, (budget, title) in zip(axes, BUDGETS.items(), strict=True):
        own = frame[frame.budget == budget]
        for place, (name, (colour, marker)) in enumerate(LOOKS.items()):
            columns = SCRATCH if "scratch" in name else (name,)
            for column in columns:
                table = 100 * own.groupby("graph")[column].agg(["mean", "std"]).reindex(graphs)
                rows = np.arange(len(graphs)) + 0.12 * (2 - place)
                axis.errorbar(
                    table["mean"], rows, xerr=table["std"], fmt=marker, color=colour, ms=5,
                    elinewidth=0.8, alpha=0.95, label=name if column == columns[0] else None,
                    mfc="white" if marker != "D" else colour,
                )  # fmt: skip
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("accuracy, %")
        axis.grid(axis="x", lw=0.4)
        axis.set_yticks(range(len(graphs)), graphs)
        axis.tick_params(length=0)
        axis.spines[["top", "right", "left"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=len(LOOKS), frameon=False)
    figure.savefig(path, dpi=120)


def table(frame: pd.DataFrame, models: Iterable[str]) -> str:
    """Return accuracy with each budget, `1 / 5 / 10 %`, a row for each graph; – of few draws."""
    models = [*models]
    several = frame.groupby(["graph", "budget"], sort=False)[models]
    means = 100 * several.mean().where(several.count() > 1)
    titles = [NAMES.get(model, model) for model in models]
    lines = [f"| graph | {' | '.join(titles)} |", f"| -- |{' -- |' * len(models)}"]
    for graph in dict.fromkeys(frame.graph):
        cells = [_three(means.loc[graph][model]) for model in models]
        lines.append(f"| {graph} | {' | '.join(cells)} |")
    mean = means.groupby("budget").agg(lambda column: column.mean(skipna=False))
    lines.append(f"| mean | {' | '.join(_three(mean[model]) for model in models)} |")
    return "\n".join(lines)


def _three(scores: pd.Series) -> str:
    return " / ".join("–" if np.isnan(x := scores.get(each, np.nan)) else f"{x:.1f}"
                      for each in BUDGETS)  # fmt: skip


def paired(frame: pd.DataFrame, budget: float, others: Collection[str]) -> pd.Series:
    """Return by how many points AnyGraph is above the best of some others, by their means.

    On each graph that has two draws of all of them.
    """
    own = frame[frame.budget == budget].dropna(subset=["anygraph", *others])
    own = own[own.groupby("graph").draw.transform("size") > 1]
    means = 100 * own.groupby("graph", sort=False)[["anygraph", *others]].mean()
    return means["anygraph"] - means[[*others]].max(axis=1)


def gains(frame: pd.DataFrame) -> str:
    """Return the mean paired gain over each other model with its 95 % interval over graphs."""
    lines = [
        f"| AnyGraph over | {' | '.join(BUDGETS.values())} | graphs, draws | where it loses more "
        "than a point, with 5 labels; with 10 % |",
        "| -- | -- | -- | -- | -- | -- |",
    ]
    for label, others in OTHERS.items():
        measured = [paired(frame, each, others) for each in BUDGETS if set(others) <= set(frame)]
        if min(map(len, measured), default=0) < 2:
            continue
        cells, lost, graphs = [], [], []
        for gain in measured:
            half = stats.t.ppf(0.975, len(gain) - 1) * gain.std() / len(gain) ** 0.5
            cells.append(f"{gain.mean():+.1f} ± {half:.1f}")
            graphs.append(len(gain))
            lost.append(", ".join(f"{graph} {-x:.1f}" for graph, x in gain.items() if x < -1))
        draws = frame.dropna(subset=others).groupby(["graph", "budget"]).size()
        counts = f"{_range(graphs)}, {_range(draws[draws > 1])}"
        lost = "; ".join(each or "none" for each in lost[1:])
        lines.append(f"| {label} | {' | '.join(cells)} | {counts} | {lost} |")
    return "\n".join(lines)


def _range(numbers: Iterable[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def main(
    files: Annotated[
        list[Path], typer.Argument(help="Rows, and then the name of what is written.")
    ],
) -> None:
    """Write CSV and PNG, and print tables."""
    *sources, out = files
    frame = rows_of(sources)
    frame.round(4).to_csv(out.with_suffix(".csv"), index=False)
    closed = "ridge", "predictors", "anygraph", "label-propagation"
    print(table(frame, closed), gains(frame), sep="\n\n")
    print(table(frame, ["anygraph", *(name for name in (*SCRATCH, *TUNED) if name in frame)]))
    draw(frame, out.with_suffix(".png"))


if __name__ == "__main__":
    typer.run(main)
