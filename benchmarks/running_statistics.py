"""Scores evaluated while SGFormer trains, with torch's running statistics and with corrected ones.

    python benchmarks/running_statistics.py [--graphs cs,photo,computer] [--epochs 150]

Row-normalised features give the first batch norm variances near 1e-6, and torch's running variance
begins at 1: what is evaluated means nothing until 0.9^t has fallen below them. Draws both curves
into docs/plots/running-statistics.png and prints the validation accuracy at some epochs, and from
which epoch on it stays within two points of the best of its curve so far and to come.
"""

import argparse
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import zoo

PLOT = Path(__file__).parent.parent / "docs" / "plots" / "running-statistics.png"
AT = (0, 4, 19, 49, 79, 99, 149)
COLORS = {"torch's": "#D55E00", "corrected": "#0072B2"}


def curve(graph: str, epochs: int, corrected: bool) -> list[float]:
    """Return the validation accuracy after every epoch."""
    found: list[float] = []
    theirs = [] if corrected else ["model.graph_norm={name: batch, statistics: torch}"]
    settings = [f"train.epochs={epochs}", "seeds=[0]", *theirs]
    recipe = zoo.load_recipe(f"sgformer-{graph}", settings)
    with tempfile.TemporaryDirectory() as folder:
        zoo.run_recipe(recipe, runs=folder, watch=lambda seed, epoch: found.append(epoch.val))
    return found


def settled(scores: list[float]) -> int:
    """Return the first epoch from which on no score is two points below the best."""
    low = [epoch for epoch, score in enumerate(scores) if score < max(scores) - 0.02]
    return low[-1] + 1 if low else 0


def main() -> None:
    """Train each graph twice, print a table and draw the curves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", default="cs,photo,computer")
    parser.add_argument("--epochs", type=int, default=150)
    given = parser.parse_args()
    graphs = given.graphs.split(",")
    figure, axes = plt.subplots(1, len(graphs), figsize=(4 * len(graphs), 3.2), sharey=True)
    shown = [at for at in AT if at < given.epochs]
    print(f"{'graph':<10}{'statistics':<12}" + "".join(f"{at + 1:>8}" for at in shown)
          + "  within 2 points from")  # fmt: skip
    for axis, graph in zip([axes] if len(graphs) == 1 else axes, graphs, strict=True):
        for name, corrected in (("torch's", False), ("corrected", True)):
            scores = curve(graph, given.epochs, corrected)
            axis.plot(range(1, len(scores) + 1), scores, label=name, color=COLORS[name])
            print(f"{graph:<10}{name:<12}" + "".join(f"{scores[at]:>8.3f}" for at in shown)
                  + f"{settled(scores) + 1:>8}", flush=True)  # fmt: skip
        axis.set(title=f"sgformer-{graph}", xlabel="epoch", ylim=(0, 1))
    figure.axes[0].set_ylabel("validation accuracy, evaluated")
    figure.axes[0].legend(title="running statistics", loc="lower right")
    figure.tight_layout()
    figure.savefig(PLOT, dpi=130)


if __name__ == "__main__":
    main()
