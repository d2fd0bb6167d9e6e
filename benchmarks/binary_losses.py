"""Two classes by one logit or by two: which loss is to be the default of binary tasks.

    python benchmarks/binary_losses.py [--models mlp gcn sgformer] [--seeds 3]

One logit has the binary cross entropy (`loss: task`), two have the cross entropy of a softmax
(`cross-entropy`) or the binary cross entropy of each (`one-hot`). Every model is trained with its
defaults on each graph, whose metric is ROC-AUC; differences from one logit are those of the same
split and seed. What is finished is kept in `runs/binary_losses.json` and not computed again.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from contest import conclude
from scipy import stats

from zoo.runs.run import run_recipe

GRAPHS = {
    "minesweeper": "benchmark",
    "twitch-de": "ratio-60-20-20",
    "twitch-engb": "ratio-60-20-20",
    "twitch-fr": "ratio-60-20-20",
    "twitch-ru": "ratio-60-20-20",
}
MODELS = {"mlp": {"name": "mlp", "norm": "none"},
          "gcn": {"name": "gcn", "norm": "none", "residual": False},
          "sgformer": "sgformer"}  # fmt: skip
LOSSES = ("task", "cross-entropy", "one-hot")
TRAIN = {"epochs": 300, "patience": 60, "lr": 0.01, "weight_decay": 5e-4}
KEPT = Path("runs/binary_losses.json")


def scores(model: str, graph: str, loss: str, seeds: int) -> list[tuple[float, float]]:
    """Return the validation and test scores of each seed, kept or computed."""
    known = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    key = f"{model} {graph} {loss} {seeds}"
    if key not in known:
        recipe = {
            "dataset": {"name": graph, "split": GRAPHS[graph]},
            "model": MODELS[model],
            "train": {**TRAIN, "loss": loss},
            "seeds": list(range(seeds)),
        }
        with tempfile.TemporaryDirectory() as folder:
            found = run_recipe(recipe, runs=folder)
        known[key] = [(each["val"], each["test"]) for each in found["seeds"]]
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(known, indent=1))
    return known[key]


def shown(found: dict[str, list[tuple[float, float]]], loss: str) -> str:
    """Return the mean validation and test score, and where those of one logit differ."""
    val, test = (statistics.fmean(each) for each in zip(*found[loss], strict=True))
    if loss == LOSSES[0]:
        return f"{val:.4f} ({test:.4f})"
    pairs = zip(found[loss], found[LOSSES[0]], strict=True)
    return f"{statistics.fmean(one[0] - other[0] for one, other in pairs):+.4f} ({test:.4f})"


def main() -> None:
    """Print the scores, and of all pairs the mean difference with its interval."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="*", default=[*MODELS], choices=[*MODELS])
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    table, means = [], {loss: [] for loss in LOSSES[1:]}
    for model in given.models:
        for graph in GRAPHS:
            found = {loss: scores(model, graph, loss, given.seeds) for loss in LOSSES}
            for loss, into in means.items():
                pairs = zip(found[loss], found[LOSSES[0]], strict=True)
                into.append(statistics.fmean(one[0] - other[0] for one, other in pairs))
            table.append({"model": model, "graph": graph,
                          **{loss: shown(found, loss) for loss in LOSSES}})  # fmt: skip
            print(table[-1], flush=True)
    for loss, each in means.items():
        half = stats.t.ppf(0.975, len(each) - 1) * stats.sem(each)
        print(f"{loss}: {statistics.fmean(each):+.4f} ± {half:.4f} in validation, "
              f"{len(each)} pairs of model and graph")  # fmt: skip
    conclude(__file__, False, table, [])


if __name__ == "__main__":
    main()
