"""Why NodeFormer answers one class in the first epochs where features are normalised by row.

    python benchmarks/one_class.py [--seeds 5]

Rows of sum 1 are small beside the bias of the first map, so that all nodes are nearly alike, which
layer norm, node by node, does not mend. Rows ten times as large say the same without being small,
and batch norm takes from each column what all nodes share.
"""

import argparse
import dataclasses
import statistics

import torch
from contest import conclude

import zoo
from zoo.data.splits import make_split
from zoo.tasks.task import node_classification
from zoo.training.batches import TrainingData
from zoo.training.trainer import Hooks, fit

EPOCHS = 80
OPTIONS = {"dim": 32, "layers": 2, "full_heads": 4, "orders": 2, "edge_loss": 1.0, "dropout": 0.5}
"""Those of nodeformer-chameleon."""

CASES = {  # factor of the rows of sum 1, None for features as they come; and norm
    "row, layer norm": (1.0, "layer"),
    "row, no norm": (1.0, "none"),
    "row, batch norm": (1.0, "batch"),
    "ten times row, layer norm": (10.0, "layer"),
    "as they come, layer norm": (None, "layer"),
}


def trained(factor: float | None, norm: str, seed: int) -> tuple[int, float]:
    """Return in how many epochs 95 % of the answers are one class, and the best validation."""
    data = zoo.load_graph("chameleon")
    x = data.x.to_dense() if data.x.layout is not torch.strided else data.x
    rows = x if factor is None else factor * x / x.sum(1, keepdim=True).clamp(min=1)
    data = dataclasses.replace(data, x=rows)
    split = make_split("benchmark", data.y, data.masks, seed=seed)
    torch.manual_seed(seed)
    model = zoo.create_model("nodeformer", data.inputs, int(data.y.max()) + 1, norm=norm, **OPTIONS)
    shares, scores = [], []

    def look(epoch) -> None:
        with torch.no_grad():
            answers = model.eval()(data.graph, data.x).logits.argmax(1)
        shares.append(answers.bincount().max().item() / len(answers))
        scores.append((answers == data.y)[split.val].double().mean().item())

    on = TrainingData(data, split, node_classification())
    fit(model, on, Hooks(after_epoch=look), epochs=EPOCHS, lr=0.01, weight_decay=5e-3)
    return sum(each > 0.95 for each in shares), max(scores)


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    seeds = range(parser.parse_args().seeds)
    table = []
    for name, case in CASES.items():
        epochs, scores = zip(*(trained(*case, seed) for seed in seeds), strict=True)
        mean, spread = statistics.fmean(scores), statistics.stdev(scores)
        table.append({
            "features and norm": name,
            f"epochs of one class, of {EPOCHS}": ", ".join(map(str, epochs)),
            "best validation accuracy": f"{mean:.3f} ± {spread:.3f}",
        })  # fmt: skip
    conclude(__file__, False, table, [])


if __name__ == "__main__":
    main()
