"""Chickenpox one week ahead: DIFFormer four ways, other models and baselines, and a roll-out drawn.

    python benchmarks/forecasting.py [NAME ...] [--into FOLDER] [--plot FILE.png]

Without names all rows are measured; those that FOLDER holds already are read. The protocol is that
of DIFFormer's program: 4 weeks are read, 20, 20 and 60 percent of the snapshots in the order of
time, at most 200 epochs of one step each, five runs. Errors are those of the test part at the
epoch with the least validation error, in the unit of the file, which is standardised.

The file is standardised: 0 is the mean of each county over all weeks. That program compares
predictions (N, 1) with targets (N,), which broadcasts to all N x N pairs of counties. Rows
`... (pairs)` are trained, chosen and measured in this way (`of pairs`), and then measured as all
others are. No option of the zoo does this.
"""

import argparse
import dataclasses
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from zoo.data.snapshots import Snapshots
from zoo.inference.forecast import last_value, ridge_on_lags, roll_out, seasonal_value
from zoo.runs.prepare import Prepared, prepare, seed_everything
from zoo.runs.resolve import load_recipe, resolve
from zoo.tasks.task import mean_absolute_error, mean_squared_error
from zoo.training.batches import SnapshotBatches
from zoo.training.trainer import fit
from zoo.weights.create import create_model

SEEDS, WEEKS, YEAR = 5, 26, 52
COUNTY = "BUDAPEST"
DRAWN = {"gru": "C0", "difformer-s": "C1"}

PUBLISHED = {
    "difformer-s": "difformer-chickenpox",
    "difformer-s, no graph": "difformer-chickenpox-no-graph",
    "difformer-a": "difformer-chickenpox-sigmoid",
    "difformer-a, no graph": "difformer-chickenpox-sigmoid-no-graph",
}
RECIPES = {
    **PUBLISHED,
    "gru": "gru-chickenpox",
    "gcn-gru": "gcn-gru-chickenpox",
    "mlp": "mlp-chickenpox",
    "gcn": "gcn-chickenpox",
}
IN_ITS_PLACE = {
    "sgformer": {"name": "sgformer", "dim": 64},
    "transformer, rba": {
        "name": "transformer",
        "dim": 32,
        "attention": {"name": "rba", "size": 8},
    },
}
PAIRS = {f"{name} (pairs)": recipe for name, recipe in PUBLISHED.items()}
BASELINES = {
    "always 0": lambda data, split: torch.zeros_like(data.y[split.test]),
    "ridge on lags": lambda data, split: ridge_on_lags(data, split.train, split.test),
    "last value": lambda data, split: last_value(data, split.test),
    "value of last year": lambda data, split: seasonal_value(data, split.test, YEAR),
}
NAMES = [*RECIPES, *IN_ITS_PLACE, *PAIRS, *BASELINES]


def of_pairs(predicted: Tensor, y: Tensor) -> Tensor:
    """Return the mean of (prediction of i - target of j)^2 over all i, j of each snapshot."""
    return (predicted.unsqueeze(2) - y.unsqueeze(1)).square().mean()


def prepared_for(name: str) -> Prepared:
    """Return the data, the splits and the model's options of a row."""
    changes = [f"seeds={list(range(SEEDS))}"]
    if name in IN_ITS_PLACE:
        model = json.dumps(IN_ITS_PLACE[name])
        return prepare(resolve(load_recipe("gru-chickenpox", [f"model={model}", *changes])))
    recipe = {**RECIPES, **PAIRS}.get(name, "gru-chickenpox")
    return prepare(resolve(load_recipe(recipe, changes)))


def answers(model, data: Snapshots, chosen: Tensor) -> Tensor:
    """Return what a model predicts of some snapshots, (B, N)."""
    model.eval()
    with torch.no_grad():
        return SnapshotBatches(data, chosen, "cpu").logits(
            lambda graph, x: model(graph, x).logits.float(), chosen
        )


def measured(name: str) -> dict:
    """Return a row: errors of each run, and a roll-out from the first week of the test part."""
    prepared = prepared_for(name)
    data, splits = prepared.data, prepared.splits
    row = {"name": name, "mse": [], "mae": [], "pairs": [], "rolled": []}
    if name in BASELINES:
        found, y = BASELINES[name](data, splits[0]), data.y[splits[0].test]
        return {
            **row,
            "mse": [mean_squared_error(found, y)],
            "mae": [mean_absolute_error(found, y)],
        }
    if name in PAIRS:
        task = dataclasses.replace(
            prepared.task, loss=of_pairs, metric=lambda *both: of_pairs(*both).item()
        )
        prepared = prepared._replace(task=task)
    options = dict(prepared.plan.model)
    for seed, split in enumerate(splits):
        seed_everything(seed)
        own = {key: value for key, value in options.items() if key != "name"}
        model = create_model(options["name"], data.inputs, data.horizon, **own)
        result = fit(model, prepared.training_data(split), **prepared.plan.train)
        found, y = answers(model, data, split.test), data.y[split.test]
        row["mse"].append(mean_squared_error(found, y))
        row["mae"].append(mean_absolute_error(found, y))
        row["pairs"] += [result.test] if name in PAIRS else []
        first = int(split.test[0]) + data.lags  # the first week of the test part
        rolled = roll_out(model, data, first - 1, WEEKS)
        row["rolled"].append(rolled[:, list(data.ids).index(COUNTY)].tolist())
        row["first"], row["parameters"] = first, sum(each.numel() for each in model.parameters())
    return row


def shown(values: list[float]) -> str:
    """Return mean and standard deviation, as far as there are any."""
    if not values:
        return ""
    mean = f"{statistics.fmean(values):.4f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.4f}"


def draw(rows: dict[str, dict], data: Snapshots, path: Path) -> None:
    """Draw the roll-outs of two models: the mean of their runs, and from the least to the most."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots()
    first = rows[next(iter(DRAWN))]["first"]
    weeks = np.arange(first - WEEKS // 2, first + WEEKS)
    values = data.series.values[:, list(data.ids).index(COUNTY), 0]
    axes.plot(weeks, values[weeks], color="0.3", lw=1, marker=".", label="as it was")
    for name, colour in DRAWN.items():
        runs = np.array(rows[name]["rolled"])
        ahead = np.arange(first, first + WEEKS)
        axes.plot(ahead, runs.mean(axis=0), color=colour, label=f"{name}, mean of {len(runs)} runs")
        axes.fill_between(ahead, runs.min(axis=0), runs.max(axis=0), color=colour, alpha=0.25, lw=0)
    last_year = values[first - YEAR : first - YEAR + WEEKS]
    axes.plot(
        np.arange(first, first + WEEKS), last_year, color="C2", lw=1, ls=":", label="last year"
    )
    axes.axvline(first - 0.5, color="0.6", lw=0.8, ls="--")
    axes.set(
        xlabel="week",
        ylabel="cases, standardised",
        title=f"{COUNTY.title()}, rolled out; bands: all runs",
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=2)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Measure, print the table, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NAMES))
    parser.add_argument("--into", type=Path, help="a folder that keeps rows")
    parser.add_argument("--plot", type=Path, help="a PNG for the roll-out")
    given = parser.parse_args()
    if wrong := set(given.names) - set(NAMES):
        parser.error(f"no row is called {', '.join(sorted(wrong))}; choose from {', '.join(NAMES)}")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        into = given.into or Path(folder)
        into.mkdir(parents=True, exist_ok=True)
        rows = {}
        for name in given.names or NAMES:
            path = into / f"{name}.json"
            if not path.exists():
                path.write_text(json.dumps(measured(name)))
            rows[name] = json.loads(path.read_text())
    print("| | parameters | MSE | MAE | of pairs |\n| -- | -- | -- | -- | -- |")
    for name, row in rows.items():
        cells = (row.get("parameters", ""), *(shown(row[key]) for key in ("mse", "mae", "pairs")))
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    if given.plot:
        draw(rows, prepared_for("gru").data, given.plot)


if __name__ == "__main__":
    main()
