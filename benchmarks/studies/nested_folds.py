"""Ten folds: settings chosen inside of each by its validation fold, its test fold seen once.

    python benchmarks/studies/nested_folds.py [--dataset mutag] [--recipes gin,deepsets]
        [--folds 10] [--repeats 3] [--epochs 60]

The protocol of Errica et al. (arXiv 1912.09893): in each fold every setting of `GRID` is trained
once, the best by validation is trained `repeats` times from other initial weights, and the mean of
these test scores is the score of the fold. Printed are mean and deviation over the folds, what was
chosen, and the same for the settings of the recipe, which are those of all folds.
"""

import argparse
import collections
import itertools
import statistics
import tempfile
from typing import Any

import zoo

GRID = {"model.dim": (32, 64), "model.dropout": (0.0, 0.5), "train.lr": (2e-3, 1e-2)}
PUBLISHED = {
    ("deepsets", "proteins"): "75.8 ± 3.7",
    ("gin", "proteins"): "73.3 ± 4.0",
    ("deepsets", "enzymes"): "65.2 ± 6.4",
    ("gin", "enzymes"): "59.6 ± 4.5",
}
"""Means and deviations of the test accuracy in percent, Errica et al., table 3; of `enzymes` with
18 numbers of each node, which the files of the collection may have."""


def train(recipe: str, changes: list[str], seeds: list[int], runs: str) -> dict[str, Any]:
    """Return the summary of a recipe with changes, of some seeds."""
    loaded = zoo.load_recipe(recipe, [*changes, f"seeds={seeds}"])
    return zoo.run_recipe(loaded, runs=runs)


def fold_scores(
    recipe: str, fold: int, folds: int, repeats: int, fixed: list[str], runs: str
) -> tuple[float, float, str]:
    """Return the test score of a fold as chosen in it, that of the recipe, and what was chosen."""
    settings = [
        [f"{key}={value}" for key, value in zip(GRID, values, strict=True)]
        for values in itertools.product(*GRID.values())
    ]
    validation = [
        train(recipe, [*fixed, *setting], [fold], runs)["val"]["mean"] for setting in settings
    ]
    best = settings[validation.index(max(validation))]
    seeds = [fold + folds * (repeat + 1) for repeat in range(repeats)]  # of the same fold
    chosen, given = (
        train(recipe, [*fixed, *changes], seeds, runs)["test"]["mean"] for changes in (best, [])
    )
    return chosen, given, " ".join(best)


def main() -> None:
    """Print a row for each recipe."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dataset", default="mutag")
    parser.add_argument("--recipes", default="gin,deepsets")
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    split = f"dataset.split={{name: folds, count: {options.folds}}}"
    fixed = [split, *([f"train.epochs={options.epochs}"] if options.epochs else [])]
    for name in options.recipes.split(","):
        with tempfile.TemporaryDirectory() as runs:
            rows = [
                fold_scores(
                    f"{name}-{options.dataset}", fold, options.folds, options.repeats, fixed, runs
                )
                for fold in range(options.folds)
            ]
        chosen, given = (
            f"{100 * statistics.mean(scores):.1f} ± {100 * statistics.stdev(scores):.1f}"
            for scores in ([row[0] for row in rows], [row[1] for row in rows])
        )
        most, times = collections.Counter(row[2] for row in rows).most_common(1)[0]
        published = PUBLISHED.get((name, options.dataset), "")
        print(
            f"{name}-{options.dataset}: chosen in each fold {chosen}, settings of the recipe "
            f"{given}, published {published or 'none'}; chosen {times} times: {most}",
            flush=True,
        )


if __name__ == "__main__":
    main()
