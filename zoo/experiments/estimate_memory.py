"""How much memory a recipe will take, found on small graphs before the large one is tried.

A step and an evaluation are measured on random graphs of two sizes, with the model, the features
and the mean degree of the recipe. What the zoo holds grows with nodes and edges, so that a
straight line through both leads to the size that is asked for.
"""

from __future__ import annotations

import dataclasses
import gc
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.config.options import pick
from zoo.config.recipe import Recipe, divide, word
from zoo.datasets import Dataset
from zoo.datasets.canonical import canonical
from zoo.datasets.load import load_graph, on_disk_folder
from zoo.datasets.splits import PARTS, Split, make_split
from zoo.datasets.tasks import TASKS
from zoo.encodings import ENCODINGS
from zoo.experiments.resolve import import_sources, resolve
from zoo.system import allocator
from zoo.system.context import using
from zoo.system.memory import available_memory, held_now, own_peak, peak_during
from zoo.training.epoch import Steps
from zoo.training.full_batch import Part, Whole
from zoo.training.layerwise import Layerwise
from zoo.training.mini_batch import BATCHING, Batches
from zoo.training.optimizers import OPTIMIZERS
from zoo.weights.create import create_model

SIZES = (4_096, 16_384)
"""Nodes of the graphs that are measured; what is not larger is measured as it is."""


class Estimate(NamedTuple):
    """What a recipe will hold, in bytes, but for the counts.

    Attributes:
        parameters: how many numbers the model learns.
        nodes: nodes of the graph.
        batch: nodes that a step sees; all of them, or those of the first batch.
        program: held by Python and the libraries before anything is loaded.
        data: features, labels and graph, but for what is mapped from a disk, and the batches that
            are made ahead.
        weights: the parameters, their gradients, what the optimiser keeps, and the best so far.
        step: at the peak of a training step, beyond all that.
        evaluation: at the peak of an evaluation, beyond all that.
        peak: the most that the process holds, on a CPU.
        peak_cuda: the most that is held on a GPU, without what CUDA itself takes.
        largest: nodes that a step could see in the memory that is free here, 0 if the data alone
            do not fit; None without limit.
    """

    parameters: int
    nodes: int
    batch: int
    program: int
    data: int
    weights: int
    step: int
    evaluation: int
    peak: int
    peak_cuda: int
    largest: int | None


class _Line(NamedTuple):
    """Bytes against nodes."""

    start: float
    slope: float

    def at(self, nodes: int) -> int:
        return max(0, int(self.start + self.slope * nodes))


def estimate(recipe: Recipe) -> Estimate:
    """Estimate the memory of a recipe's training.

    Raises:
        ZooError: something is wrong with the recipe or its data.
    """
    import_sources(recipe.imports, recipe.path.parent if recipe.path else Path())
    full = resolve(recipe)
    train = full["train"]
    program = _of_program(train)
    data, split = _loaded(full, recipe.seeds[0])
    nodes, degree = len(data.x), data.graph.num_edges() / len(data.x)
    over = pick(BATCHING, train["batching"], data, split.train, "cpu")
    found = _batch(over) if isinstance(over, Batches) else (nodes, degree, 0, False)
    batch, inside, made, uneven = found
    sizes = {"full": (nodes, degree), "batches": (batch, inside)}
    asked, around = sizes.get(train["evaluate"]) or Layerwise(data, "cpu").size()

    def small(n: int, degree: float) -> Steps:
        like, parts = _like(data, split, n, degree)
        options = {key: value for key, value in full["model"].items() if key != "name"}
        outputs = pick(TASKS, data.task).outputs(data.classes)
        torch.manual_seed(0)
        model = create_model(full["model"]["name"], like.x.shape[1], outputs, **options)
        model.begin_epoch(train["epochs"] - 1)  # the last phase holds most
        given = (like, parts, pick(TASKS, data.task), _same, train["precision"], train["clip"])
        return Steps(model, *given)

    def of_step(n: int, uneven: bool = False) -> int:
        steps = small(n, inside)
        if uneven:
            steps.over = _Uneven(_like(data, split, size, inside) for size in _sizes(n))
        return _of_training(steps, train)

    def of_large_step(n: int) -> int:
        with using(rows=batch):
            return of_step(n, uneven)

    program += _of_first(lambda: of_step(min(SIZES[0], batch)))
    step = _line(of_large_step, batch)
    evaluation = _line(lambda n: _of_evaluation(small(n, around)), asked)
    with using(torch_only=True):
        on_cuda = _line(of_step, batch).at(batch)
    model = small(min(nodes, 64), degree).model
    parameters = sum(each.numel() for each in model.parameters())
    weights = _COPIES * sum(each.nbytes for each in model.state_dict().values())
    features = 4 * data.x.numel()
    mapped = on_disk_folder(word(recipe.dataset)) is not None and max(batch, asked) < nodes
    arrays = data.y.nbytes + (0 if mapped else features + _of_graph(nodes, data.graph.num_edges()))
    arrays += made
    rest = program + arrays + weights
    held = step.at(batch), evaluation.at(asked)
    free = max(0, available_memory() - arrays - weights - max(0, step.start))
    return Estimate(
        parameters=parameters,
        nodes=nodes,
        batch=batch,
        program=program,
        data=arrays,
        weights=weights,
        step=held[0],
        evaluation=held[1],
        # What a step leaves at hand fits an evaluation of the same graph, and no other.
        peak=rest + (max(held) if asked == batch else sum(held)),
        peak_cuda=weights + on_cuda + (features if batch == nodes else 0),
        largest=_most_nodes(free, step.slope),
    )


def _most_nodes(free: float, per_node: float) -> int | None:
    """Return how many nodes fit into what is free: of small graphs, costs drown in noise."""
    if free == 0:
        return 0
    return None if free == math.inf or per_node <= 0 else int(free / per_node)


_COPIES = 5
"""The weights, their gradients, two moments of Adam, and the best weights so far."""


def _of_program(train: dict[str, Any]) -> int:
    """Return what the process holds with all that a training imports."""
    optimiser = pick(OPTIMIZERS, train["optimizer"], [torch.zeros(1, requires_grad=True)], 0.0, 0.0)
    optimiser.step()
    gc.collect()
    return held_now()


def _of_first(step: Callable[[], object]) -> int:
    """Return what stays after a first step: the parts of the libraries that it was made with."""
    allocator.give_back()
    before = held_now()
    step()
    gc.collect()
    allocator.give_back()
    return max(0, held_now() - before)


def _loaded(full: dict[str, Any], seed: int) -> tuple[Dataset, Split]:
    """Return the data, with columns of zeros for the encoding, and the first split."""
    spec, own = divide(full["dataset"], ("split",))
    data = load_graph(spec)
    encoding = divide(full["encoding"], ("flip_signs",))[0]
    width = pick(ENCODINGS, encoding, canonical([(0, 1), (1, 2)], nodes=3)).shape[1]
    if width:
        data = data.add_features(torch.zeros(len(data.x), width))
    return data, make_split(own["split"], data.y, data.masks, seed=seed)


def _batch(over: Batches) -> tuple[int, float, int, bool]:
    """Return nodes and degree of an epoch's first batch, and the bytes to make some ahead.

    And whether batches differ in size by more than a node.
    """
    allocator.give_back()
    with own_peak() as held, allocator.exact():
        before, parts = held[0], over.parts(0)
        part = next(parts)
        other = next(parts, part)
    edges = part.graph.num_edges()
    own = part.x.nbytes + _of_graph(len(part.x), edges)  # of the one that a step is given
    uneven = abs(len(part.x) - len(other.x)) > 1
    return len(part.x), edges / len(part.x), held[0] - before + own, uneven


class _Uneven(Whole):
    """A step on each of some graphs in turn.

    What one step has freed has holes of the wrong size for the next, and more is held after each.
    """

    def __init__(self, graphs: Iterable[tuple[Dataset, Split]]):
        self.graphs = [Whole(data, split.train, "cpu") for data, split in graphs]

    def parts(self, epoch: int) -> Iterator[Part]:
        for each in self.graphs:
            yield from each.parts(epoch)


def _sizes(n: int) -> list[int]:
    """Return n and some numbers up to a two-hundredth below it, in no order."""
    generator = torch.Generator().manual_seed(n)
    return [n, *(n - torch.randint(n // 200 + 1, (15,), generator=generator)).tolist()]


def _like(data: Dataset, split: Split, n: int, degree: float) -> tuple[Dataset, Split]:
    """Return a random graph of n nodes, with rows of the data and as large shares of its split."""
    generator = torch.Generator().manual_seed(n)
    edges = torch.randint(n, (int(n * max(0.0, degree - 1) / 2), 2), generator=generator)
    rows = torch.randint(len(data.x), (n,), generator=generator)
    places, parts = torch.randperm(n, generator=generator), {}
    for name in PARTS:
        known = getattr(split, name)
        count = max(1, n * len(known) // len(data.x))
        parts[name], places = places[:count].sort().values, places[count:]
        chosen = torch.randint(len(known), (len(parts[name]),), generator=generator)
        rows[parts[name]] = known[chosen]
    x, y = data.x[rows].float(), data.y[rows]
    graph = canonical(edges.numpy(), nodes=n)
    like = dataclasses.replace(data, graph=graph, x=x, y=y, masks=None, ids=None)
    return like, Split(**parts, sha256="")


def _line(cost: Callable[[int], int], n: int) -> _Line:
    """Return the straight line through the costs of two sizes, one of them n if it is small."""
    small, large = (max(4, n // 4), n) if n <= SIZES[-1] else SIZES
    low, high = cost(small), cost(large)
    slope = (high - low) / (large - small) if large > small else 0.0
    return _Line(high - slope * large, slope)


def _of_training(steps: Steps, train: dict[str, Any]) -> int:
    """Return what some steps hold at their peak, beyond weights and data."""
    optimiser = pick(OPTIMIZERS, train["optimizer"], steps.model.parameters(), 0.0, 0.0)
    kept = (_COPIES - 2) * sum(each.nbytes for each in steps.model.parameters())

    def call() -> None:
        for epoch in range(4):  # holes in the memory fill up
            steps.train(optimiser, epoch)

    return max(0, peak_during(call, torch.device("cpu"), at_hand=True) - kept)


def _of_evaluation(steps: Steps) -> int:
    return peak_during(lambda: steps.evaluate()("val"), torch.device("cpu"), at_hand=True)


def _of_graph(nodes: int, edges: int) -> int:
    """Return the bytes of a graph: its edges as pairs, by source and by target, with numbers."""
    return 8 * (2 * edges + 2 * (nodes + 1) + 4 * edges)


def _same(x: Tensor) -> Tensor:
    return x
