"""Every model on a GPU: error, milliseconds of a step, memory, and where the host waits.

For each model with each attention and propagation: the largest relative error of logits and
gradients against the CPU in double precision, on a small graph; then steps of training as
`zoo train` takes them, in fp32, with products in TF32 and in bf16, and recorded as a CUDA graph;
the most memory held, and the lines of the zoo at which the host waits in a step and in an
evaluation. Beside them PyTorch Geometric's models of the same name, width and depth, where it is
installed.

    python benchmarks/gpu.py [--nodes 169343] [--models sgformer,gcn] [--brief]
"""

import argparse
import contextlib
import copy
import itertools
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from functools import partial
from importlib.util import find_spec

import torch
from graphs import canonical, power_law
from sgformer_step import peer
from torch.nn import functional

from zoo.canonical_form import mark_canonical
from zoo.config.options import options_of, pick
from zoo.data import Dataset
from zoo.data.splits import PARTS, Split
from zoo.errors import ZooError
from zoo.graphs.spmm import place
from zoo.ops.precision import products_in
from zoo.registry import MODELS
from zoo.tasks.task import TASKS
from zoo.training.batches import TrainingData
from zoo.training.trainer import Trainer
from zoo.weights.create import create_model, list_models

FEATURES, CLASSES, DIM, LAYERS = 128, 40, 64, 3
RBA = {"name": "rba", "size": 256}
ATTENTIONS = ("native", "linear", "performer", RBA, {**RBA, "inner": "softmax"})
"""Softmax over all nodes is left out: it is quadratic."""

PROPAGATIONS = ("gcn", "mean", "gat")

PRECISIONS = ("fp32", "tf32", "bf16")

MEASURED = {
    "gine": {"residual": False},
    "graphgps": {"norm": "batch"},
    "htgn": {"norm": "layer"},
    "mlp": {"norm": "none"},
    "nodeformer": {"full_heads": 4, "norm": "layer", "dropout": 0.0},
}
"""Options of models that were their defaults when they were measured first."""


def data_of(nodes: int) -> TrainingData:
    """Return a power-law graph of about seven edges for each node, half of them labelled."""
    graph = mark_canonical(canonical(power_law(nodes, 7 * nodes), nodes))
    torch.manual_seed(0)
    x, y = torch.randn(nodes, FEATURES), torch.randint(CLASSES, (nodes,))
    task = "node-classification"
    data = Dataset("power law", graph, x, y, task, "accuracy", "random", None, CLASSES)
    parts = torch.randperm(nodes).split([nodes // 2, nodes // 4, nodes - nodes // 2 - nodes // 4])
    return TrainingData(data, Split(*parts, "random"), pick(TASKS, task))


def combinations(names: list[str], brief: bool) -> Iterator[tuple[str, dict]]:
    """Give every model with every attention and propagation, or with the first few of them."""
    attentions = ("native", RBA) if brief else ATTENTIONS
    for name in names:
        known = options_of(MODELS[name])
        choices = {"attention": attentions, "propagation": PROPAGATIONS[: 1 if brief else None]}
        choices = {word: found for word, found in choices.items() if word in known}
        for chosen in itertools.product(*choices.values()):
            yield name, dict(zip(choices, chosen, strict=True))


def created(name: str, options: dict) -> torch.nn.Module:
    """Return a model of the zoo, always with the same weights."""
    torch.manual_seed(0)
    size = {"dim": DIM} if "dim" in options_of(MODELS[name]) else {}
    return create_model(name, FEATURES, CLASSES, **size, **{**MEASURED.get(name, {}), **options})


def error(model, small: Dataset, device: torch.device) -> float:
    """Return the largest error of logits and gradients, relative to those of the CPU in fp64."""

    def found(model, graph, x):
        logits, penalty = model(graph, x)
        (logits.square().mean() + penalty).backward()
        every = [logits.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
        return [each.double().cpu() for each in every]

    exact = found(copy.deepcopy(model).double().eval(), small.graph, small.x.double())
    there = copy.deepcopy(model).to(device).eval()
    ours = found(there, place(small.graph, device), small.x.to(device))
    least = 1e-3 * max(each.norm() for each in exact[1:])  # some gradients are 0 but for rounding
    pairs = zip(ours, exact, strict=True)
    return max(((a - b).norm() / b.norm().clamp(min=least)).item() for a, b in pairs)


def milliseconds(step, device: torch.device, rounds: int = 10) -> float:
    """Return the median time of a step, after four: one more than are taken before a recording."""
    found = []
    for _ in range(rounds + 4):
        wait(device)
        start = time.perf_counter()
        step()
        wait(device)
        found.append(1e3 * (time.perf_counter() - start))
    return statistics.median(found[4:])


def wait(device: torch.device) -> None:
    """Wait for the GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextlib.contextmanager
def waits(device: torch.device) -> Iterator[Counter]:
    """Count the places at which the host waits, by the first line of the zoo on the stack.

    Waiting for an event, as for the loss, is not among what torch warns of.
    """
    found: Counter = Counter()

    def note(*_, **__):
        frame = sys._getframe(1)
        while frame.f_back and "/zoo/" not in frame.f_code.co_filename:
            frame = frame.f_back
        found[f"{frame.f_code.co_filename.rpartition('/zoo/')[2]}:{frame.f_lineno}"] += 1

    if device.type != "cuda":
        yield found
        return
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("always", "called a synchronizing")
            warnings.showwarning = note
            yield found
    finally:
        torch.cuda.set_sync_debug_mode("default")


def row_of(name: str, options: dict, small: TrainingData, large: TrainingData, device) -> dict:
    """Return the figures of one combination."""
    model = created(name, options)
    row: dict = {"error": error(model, small.data, device)}
    for precision in PRECISIONS:
        steps = Trainer(model.to(device), large, precision=precision, device=device)
        optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        with products_in(precision):
            row[f"{precision} ms"] = milliseconds(partial(steps.train, optimiser, 0), device)
        if precision == "fp32" and device.type == "cuda":
            row["MiB"] = torch.cuda.max_memory_allocated(device) / 2**20
    recorded = Trainer(model, large, device=device, capture=True)
    steps = Trainer(model, large, device=device, capture=False)
    for each, word in ((recorded, "recorded "), (steps, "")):
        row |= {f"{word}{k} ms": v for k, v in times(each, device).items()}
    with waits(device) as found:
        steps.train(optimiser, 0)
    row["waits of a step"] = dict(found)
    with waits(device) as found:
        score = steps.evaluate()
        for part in PARTS:
            score(part)
    row["of an evaluation"] = dict(found)
    return row


def times(steps: Trainer, device: torch.device) -> dict[str, float | str]:
    """Return the milliseconds of a step in fp32, of an evaluation, and of an epoch of both.

    Of one that cannot be recorded, why it cannot.
    """
    optimiser = torch.optim.Adam(
        steps.model.parameters(), lr=1e-3, fused=device.type == "cuda" or None
    )

    def evaluate() -> None:
        score = steps.evaluate()
        for part in ("train", "val"):
            score(part)

    def epoch() -> None:
        steps.train(optimiser, 0)
        evaluate()

    calls = {"step": partial(steps.train, optimiser, 0), "evaluation": evaluate, "epoch": epoch}
    try:
        found = {name: milliseconds(call, device) for name, call in calls.items()}
        if "evaluation" in steps._recordings.refused:
            found["evaluation"] = found["epoch"] = "refused"
        return found
    except ZooError as error:
        return {"step": str(error)}
    finally:
        steps.drop_cuda_graphs()


def peer_of(name: str, large: TrainingData, device: torch.device) -> float | None:
    """Return the milliseconds of PyTorch Geometric's model of that name, None without one."""
    names = {"gcn": "GCN", "gat": "GAT", "sage": "GraphSAGE"}
    if find_spec("torch_geometric") is None or name not in [*names, "sgformer"]:
        return None
    from torch_geometric.nn import models

    data = large.data
    x, y, ends = data.x.to(device), data.y.to(device), torch.stack(data.graph.edges()).to(device)
    rows, batch = large.split.train.to(device), torch.zeros(len(x), dtype=torch.long, device=device)
    if name == "sgformer":
        model = peer(FEATURES, DIM).to(device)
    else:
        model = getattr(models, names[name])(FEATURES, DIM, LAYERS, CLASSES).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimiser.zero_grad(set_to_none=True)
        logits = model(x, ends, batch) if name == "sgformer" else model(x, ends)
        loss = functional.cross_entropy(logits[rows], y[rows])
        loss.backward()
        optimiser.step()
        return loss.item()

    return milliseconds(step, device)


def main() -> None:
    """Print a line for each combination."""
    ask = argparse.ArgumentParser()
    ask.add_argument("--device", default="cuda", help="another one tries the script, no more")
    ask.add_argument("--nodes", type=int, default=20_000)
    ask.add_argument("--models", default=",".join(list_models(task="node-classification")))
    ask.add_argument("--brief", action="store_true", help="native and rba alone, of gcn alone")
    asked = ask.parse_args()
    if asked.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("benchmarks/gpu.py needs an NVIDIA GPU, and torch sees none here.")
    device = torch.device(asked.device)
    small, large = data_of(300), data_of(asked.nodes)
    for name, options in combinations(asked.models.split(","), asked.brief):
        try:
            row = row_of(name, options, small, large, device)
        except RuntimeError as error:  # the others are told of all the same
            row = {"failed": repr(error)}
        cells = [f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items()]
        print(name, *(f"{k}={v}" for k, v in options.items()), "|", *cells, flush=True)
    for name in asked.models.split(","):
        if (found := peer_of(name, large, device)) is not None:
            print(f"{name} of PyTorch Geometric: fp32 {found:.3g} ms")


if __name__ == "__main__":
    main()
