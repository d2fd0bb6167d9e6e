"""Layer-wise inference against inference on the whole graph: memory and time, equal logits.

500,000 nodes on disk with 20 neighbours each, width 256; each way in a process of its own.

    python benchmarks/layerwise.py
"""

import tempfile
import time

import torch
from contest import contest_of_processes

from zoo.data.load import load_graph, prepare_on_disk
from zoo.system.memory import own_peak
from zoo.training.batches import FullBatch
from zoo.training.layerwise import Layerwise
from zoo.weights.create import create_model

SBM = {"name": "sbm", "nodes": 500_000, "degree": 20, "dim": 64}
MODELS = {"gcn": {"layers": 3, "norm": "none", "residual": False}, "sgformer": {}}
WAYS = ("full", "layerwise")


def evaluation(folder: str, name: str, way: str):
    """Return a step of inference; it prints its cost and returns the mean square of the logits."""
    data = load_graph(folder)
    nodes = torch.arange(0, len(data.x), 50)
    torch.manual_seed(0)
    model = create_model(name, data.x.shape[1], data.classes, dim=256, **MODELS[name]).eval()
    over = FullBatch(data, nodes, "cpu") if way == "full" else Layerwise(data, "cpu")

    @torch.no_grad()
    def evaluate() -> float:
        start = time.perf_counter()
        with own_peak() as held:
            logits = over.logits(lambda graph, x: model(graph, x).logits, nodes)
        spent = time.perf_counter() - start
        print(f"{name}, {way}: {spent:.0f} s, {held[0] / 1e9:.2f} GB, {logits.square().mean():.6f}")
        return float(logits.square().mean())

    return evaluate


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        prepare_on_disk(SBM, f"{root}/planted")
        for name in MODELS:
            for way in WAYS:
                given = {"zoo": (evaluation, (f"{root}/planted", name, way))}
                contest_of_processes(given, rounds=1)
