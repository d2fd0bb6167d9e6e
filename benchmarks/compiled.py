"""Models under `torch.compile`: where their traces break, and their steps against the eager ones.

Breaks are those of the forward pass of every model of nodes, in training, on a graph of 2,000 nodes
that the model has answered for once. `--full` trains some of them: 20,000 nodes, 138,000 edges in
both directions, 128 features, width 128; forward, loss, backward and Adam, eager and compiled by
inductor, each in a process of its own, alternating. Times are those that a process had a processor;
the first step is the compiled one's, with nothing in the compiler's cache.

    python benchmarks/compiled.py [--full]
"""

import logging
import os
import tempfile
import time

import torch
from contest import Aim, conclude, contest_of_processes, full_asked
from sgformer_step import CLASSES, training, work
from torch.nn import functional

from zoo.registry import MODELS, discover
from zoo.system.allocator import keep_freed_memory
from zoo.weights.create import create_model

BREAKS = 3
COLUMNS = (
    "eager ms",
    "compiled ms",
    "eager by compiled",
    "eager GB",
    "compiled GB",
    "first step s",
)
OPTIONS = {
    "sgformer": {},
    "gcn": {"norm": "none", "residual": False},
    "gat": {"norm": "none", "residual": False},
    "sage": {"norm": "none"},
    "mlp": {"norm": "none"},
    "transformer": {"attention": {"name": "rba", "size": 256}},
    "polynormer": {"local_layers": 5, "global_layers": 2, "norm": "none"},
}


def breaks(name: str) -> int:
    """Return how many breaks the trace of a model's forward pass has."""
    graph, x, _ = work(2000, 6000, 32)
    model = create_model(name, 32, CLASSES).train()
    model(graph, x)
    torch.compiler.reset()
    return torch._dynamo.explain(model)(graph, x).graph_break_count


def prepare(name: str, compiled: bool):
    """Return a training step of a model, which returns the seconds that its first one took."""
    keep_freed_memory()
    graph, x, y = work(20_000, 138_000, 128)
    model = create_model(name, 128, CLASSES, dim=128, **OPTIONS[name])
    model(graph, x)
    answer = torch.compile(model) if compiled else model
    step = training(model, lambda: functional.cross_entropy(answer(graph, x).logits, y), False)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache
        step()
    first = time.perf_counter() - start

    def timed() -> float:
        step()
        return first

    return timed


def compare(name: str) -> dict[str, str]:
    """Return a row: steps of a model, their ratio, peaks, and the seconds of the first step."""
    ways = {"eager": (prepare, (name, False)), "compiled": (prepare, (name, True))}
    eager, compiled = contest_of_processes(ways, rounds=7, preloaded=tuple(ways)).values()
    return {
        "eager ms": f"{1000 * eager.processor:.0f}",
        "compiled ms": f"{1000 * compiled.processor:.0f}",
        "eager by compiled": f"{eager.processor / compiled.processor:.2f}",
        "eager GB": f"{eager.bytes / 1e9:.2f}",
        "compiled GB": f"{compiled.bytes / 1e9:.2f}",
        "first step s": f"{compiled.found:.0f}",
    }


def main():
    """Count, measure where it is asked for, and write the results."""
    full = full_asked(__doc__)
    discover()
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    names = [name for name, each in MODELS.items() if each.__module__.startswith("zoo.models.")]
    table = []
    for name in names:
        row = {"model": name, "breaks": str(breaks(name))}
        if full:
            steps = compare(name) if name in OPTIONS else {}
            row |= {column: steps.get(column, "") for column in COLUMNS}
        table.append(row)
    aims = [Aim("most breaks", max(int(row["breaks"]) for row in table), BREAKS)]
    conclude(__file__, full, table, aims)


if __name__ == "__main__":
    main()
