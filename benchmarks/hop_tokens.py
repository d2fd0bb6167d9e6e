"""An epoch of NAGphormer beside the model of its authors' program, which has to be at hand.

    python benchmarks/hop_tokens.py FOLDER

FOLDER holds `model.py` of github.com/JHL-HUST/NAGphormer (Apache 2.0), run as it is, on the hops of
all nodes that its program makes beforehand. A step of training for all nodes (forward, loss,
backward, Adam) and an evaluation, with the settings of its recipe for Photo.
"""

import argparse
import importlib.util
from pathlib import Path

import torch
from contest import Aim, conclude, contest_of_processes
from sgformer_step import CLASSES, normalised, training, work
from torch.nn import functional

from zoo.system.allocator import keep_freed_memory
from zoo.weights.create import create_model

DIM, HOPS, HEADS, RATE = 128, 3, 8, 0.1
SIZES = {"Cora": (2708, 5278, 1433), "Photo": (7650, 119_081, 745)}


def zoo_step(nodes, edges, features):
    """Return an epoch of the zoo's model."""
    keep_freed_memory()
    torch.manual_seed(0)
    graph, x, y = work(nodes, edges, features)
    options = {"dim": DIM, "hops": HOPS, "heads": HEADS, "dropout": RATE}
    model = create_model("nagphormer", features, CLASSES, **options)
    return training(
        model, lambda: functional.cross_entropy(model(graph, x).logits, y), evaluated=True
    )


def authors_step(folder, nodes, edges, features):
    """Return an epoch of the authors' model, which reads X, S X and so on of each node."""
    torch.manual_seed(0)
    spec = importlib.util.spec_from_file_location("authors", Path(folder) / "model.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    graph, x, y = work(nodes, edges, features)
    tokens, adjacency = [x], normalised(graph)
    for _ in range(HOPS):
        tokens.append(adjacency @ tokens[-1])
    tokens = torch.stack(tokens, dim=1)  # (N, K + 1, F)
    model = program.TransformerModel(HOPS, CLASSES, features, 0, 1, HEADS, DIM, DIM, RATE, RATE)
    return training(model, lambda: functional.nll_loss(model(tokens), y), evaluated=True)


def main():
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="where the authors' model.py is")
    folder, table, aims = parser.parse_args().folder, [], []
    for graph, size in SIZES.items():
        steps = {"zoo": (zoo_step, size), "authors": (authors_step, (folder, *size))}
        costs = contest_of_processes(steps, rounds=5)
        ratio = costs["authors"].seconds / costs["zoo"].seconds
        table.append({
            "graph": graph,
            **{f"{name}, ms": f"{1000 * cost.seconds:.0f}" for name, cost in costs.items()},
            "ratio": f"{ratio:.2f}",
            **{f"{name}, GB": f"{cost.bytes / 1e9:.2f}" for name, cost in costs.items()},
        })  # fmt: skip
        aims.append(Aim(f"authors by zoo, {graph}", ratio, 1.0, least=True))
    conclude(__file__, False, table, aims)


if __name__ == "__main__":
    main()
