"""Which defaults travel: settings of a model by their mean rank over graphs that differ.

    python benchmarks/defaults.py [--models sgformer polynormer ...] [--seeds 2]

Each setting is trained with the training's own defaults (and a patience) on every graph, whose
features are as they come. Validation alone ranks them; 1 is the best, ties share their ranks. What
is finished is kept in `runs/defaults.json` and not computed again.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

from contest import conclude
from scipy.stats import rankdata

from zoo.runs.run import run_recipe

GRAPHS = {
    "cora": "per-class-20",
    "citeseer": "per-class-20",
    "chameleon": "benchmark",
    "actor": "benchmark",
    "minesweeper": "benchmark",
    "photo": "ratio-60-20-20",
    "digits": "ratio-60-20-20",
}
TRAIN = {"epochs": 300, "patience": 60}

MIX = {"alpha": 0.5, "norm": "layer"}
DEALT = {"attention": {"name": "rba", "size": 1024}}  # all pairs of 10,000 nodes take too long
BATCH = {"graph_norm": "batch", "graph_branch": "residual"}
SETTINGS: dict[str, dict[str, dict]] = {
    "sgformer": {
        "as published on Cora": {"alpha": 1.0, "norm": "none", "graph_layers": 4},
        "mixed, normed": {**MIX, "graph_layers": 4},
        "mixed, normed, 2 graph layers": {**MIX, "graph_layers": 2},
        "mixed, normed, graph residual": {**MIX, **BATCH, "graph_layers": 2},
        "the same, values mapped, weight 0.5": {
            **MIX, **BATCH, "graph_layers": 2, "use_weight": True, "graph_weight": 0.5,
        },
    },
    "polynormer": {
        "5 local, 2 global": {"local_layers": 5, "global_layers": 2},
        "3 local, 1 global": {"local_layers": 3, "global_layers": 1},
        "3 local, 1 global, normed": {"local_layers": 3, "global_layers": 1, "norm": "batch"},
        "3 local, 1 global, less dropout": {
            "local_layers": 3, "global_layers": 1, "input_dropout": 0.0,
        },
    },
    "difformer": {
        "2 layers": {"layers": 2},
        "4 layers": {"layers": 4},
        "2 layers, source": {"layers": 2, "use_source": True},
        "2 layers, dropout 0.5": {"layers": 2, "dropout": 0.5},
    },
    "gcn": {
        "2 layers": {"layers": 2},
        "2 layers, residual": {"layers": 2, "residual": True},
        "2 layers, residual, batch norm": {"layers": 2, "residual": True, "norm": "batch"},
        "2 layers, residual, layer norm": {"layers": 2, "residual": True, "norm": "layer"},
    },
    "gat": {
        "2 layers": {"layers": 2},
        "2 layers, residual": {"layers": 2, "residual": True},
        "2 layers, residual, batch norm": {"layers": 2, "residual": True, "norm": "batch"},
        "2 layers, residual, layer norm": {"layers": 2, "residual": True, "norm": "layer"},
    },
    "sage": {
        "2 layers": {"layers": 2},
        "2 layers, batch norm": {"layers": 2, "norm": "batch"},
        "2 layers, layer norm": {"layers": 2, "norm": "layer"},
    },
    "gine": {
        "batch norm": {"norm": "batch", "residual": False},
        "batch norm, residual": {"norm": "batch", "residual": True},
        "layer norm": {"norm": "layer", "residual": False},
        "layer norm, residual": {"norm": "layer", "residual": True},
    },
    "mlp": {
        "no norm": {"norm": "none"},
        "batch norm": {"norm": "batch"},
        "layer norm": {"norm": "layer"},
    },
    "nodeformer": {
        "4 heads": {"full_heads": 4, "dropout": 0.0, "norm": "layer"},
        "1 head": {"full_heads": 1, "dropout": 0.0, "norm": "layer"},
        "1 head, dropout 0.5": {"full_heads": 1, "dropout": 0.5, "norm": "layer"},
        "1 head, dropout 0.5, batch norm": {"full_heads": 1, "dropout": 0.5, "norm": "batch"},
    },
    "htgn": {
        "layer norm": {"norm": "layer", "dropout": 0.5},
        "batch norm": {"norm": "batch", "dropout": 0.5},
        "layer norm, less dropout": {"norm": "layer", "dropout": 0.2},
        "batch norm, less dropout": {"norm": "batch", "dropout": 0.2},
    },
    "graphgps": {
        "batch norm": {**DEALT, "norm": "batch", "propagation": "gcn", "dropout": 0.5},
        "layer norm": {**DEALT, "norm": "layer", "propagation": "gcn", "dropout": 0.5},
        "layer norm, GAT": {**DEALT, "norm": "layer", "propagation": "gat", "dropout": 0.5},
        "layer norm, less dropout": {
            **DEALT, "norm": "layer", "propagation": "gcn", "dropout": 0.2,
        },
    },
    "transformer": {
        "layer norm first": {**DEALT, "norm": "layer", "norm_first": True, "dropout": 0.5},
        "layer norm last": {**DEALT, "norm": "layer", "norm_first": False, "dropout": 0.5},
        "batch norm first": {**DEALT, "norm": "batch", "norm_first": True, "dropout": 0.5},
        "layer norm first, less dropout": {
            **DEALT, "norm": "layer", "norm_first": True, "dropout": 0.2,
        },
    },
}  # fmt: skip


def scores(model: str, options: dict, graph: str, seeds: int) -> tuple[float, float]:
    """Return the mean validation and test score of a setting on a graph."""
    recipe = {
        "dataset": {"name": graph, "split": GRAPHS[graph]},
        "model": {"name": model, **options},
        "train": TRAIN,
        "seeds": list(range(seeds)),
    }
    with tempfile.TemporaryDirectory() as folder:
        found = run_recipe(recipe, runs=folder)
    return found["val"]["mean"], found["test"]["mean"]


def kept_scores(model: str, options: dict, graph: str, seeds: int) -> tuple[float, float]:
    """Return `scores` as they are kept in a file, or compute and keep them."""
    file = Path("runs/defaults.json")
    key = json.dumps([model, options, TRAIN, graph, seeds], sort_keys=True)
    if key not in (known := _read(file)):
        found = scores(model, options, graph, seeds)
        known = {**_read(file), key: found}  # another process may have written meanwhile
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(known, indent=1))
    return known[key]


def _read(file: Path) -> dict[str, tuple[float, float]]:
    return json.loads(file.read_text()) if file.exists() else {}


def main() -> None:
    """Rank the settings of each model; a table has their validation scores, test in brackets."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", nargs="*", default=[*SETTINGS], choices=[*SETTINGS])
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    for model in given.models:
        found = {
            graph: [
                kept_scores(model, options, graph, given.seeds)
                for options in SETTINGS[model].values()
            ]
            for graph in GRAPHS
        }
        ranks = [rankdata([-val for val, _ in each]) for each in found.values()]
        table = [
            {
                "setting": name,
                "mean rank": f"{statistics.fmean(each[row] for each in ranks):.2f}",
                **{graph: "{:.3f} ({:.3f})".format(*each[row]) for graph, each in found.items()},
            }
            for row, name in enumerate(SETTINGS[model])
        ]
        conclude(f"{__file__} --models {model}", False, table, [])


if __name__ == "__main__":
    main()
