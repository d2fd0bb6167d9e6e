"""How much memory a recipe will take, found on small graphs before the large one is tried.

A step and an evaluation are measured on random graphs of two sizes, see
`zoo.experiments.scaled_down`. What the zoo holds grows with nodes and edges, so that a straight
line through both leads to the size that is asked for.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from zoo.config.options import pick
from zoo.datasets import Dataset
from zoo.datasets.canonical import canonical
from zoo.datasets.load import load_data, on_disk_folder
from zoo.datasets.splits import Split, split_of
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError
from zoo.experiments.resolve import Plan
from zoo.experiments.scaled_down import STEPS, ScaledDown
from zoo.system import allocator
from zoo.system.context import using
from zoo.system.memory import available_memory, held_now, own_peak
from zoo.training.fit import COPIES
from zoo.training.layerwise import Layerwise
from zoo.training.mini_batch import BATCHING, Batches
from zoo.training.optimizers import OPTIMIZERS

SIZES = (4_096, 16_384)
"""Nodes of the graphs that are measured; what is not larger is measured as it is."""

LEAST = (128, 512)
"""Those for a model whose steps take long."""

SECONDS = 6.0
"""What the measurements may take together, about; the graphs are as much smaller as that needs."""


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


class _Load(NamedTuple):
    """What a step and an evaluation see of the graph.

    Attributes:
        batch: nodes of a step.
        degree: mean degree of those.
        made: bytes of the mini-batches that are made ahead.
        uneven: whether mini-batches differ in size by more than a node.
        asked: nodes that an evaluation sees at a time.
        around: mean degree of those.
    """

    batch: int
    degree: float
    made: int
    uneven: bool
    asked: int
    around: float


def estimate(plan: Plan) -> Estimate:
    """Estimate the memory of a plan's training; its graph is read once.

    Raises:
        ZooError: something is wrong with the data, or they are not one graph.
    """
    program = _of_program(plan.train)
    data, split = _loaded(plan)
    load = _load(plan, data, split)
    small = ScaledDown(plan, data, split)

    def of_large_step(n: int) -> int:
        with using(rows=load.batch):
            return small.of_training(n, load.degree, uneven=load.uneven)

    seconds, nodes = [], min(LEAST[1], load.batch)
    program += _of_first(lambda: seconds.append(small.seconds(nodes, load.degree)))
    sizes = _sizes(seconds[0] / nodes)
    step = _line(of_large_step, load.batch, sizes)
    evaluation = _line(lambda n: small.of_evaluation(n, load.around), load.asked, sizes)
    with using(torch_only=True):
        on_cuda = _line(lambda n: small.of_training(n, load.degree), load.batch, sizes)
    nodes, degree = len(data.x), data.graph.num_edges() / len(data.x)
    model = small.steps(min(nodes, 64), degree).model
    weights = COPIES * sum(each.nbytes for each in model.state_dict().values())
    arrays = _of_arrays(plan, data, load)
    held = step.at(load.batch), evaluation.at(load.asked)
    free = max(0, available_memory() - arrays - weights - max(0, step.start))
    # What a step leaves at hand fits an evaluation of the same graph, and no other.
    both = max(held) if load.asked == load.batch else sum(held)
    return Estimate(
        parameters=sum(each.numel() for each in model.parameters()),
        nodes=nodes,
        batch=load.batch,
        program=program,
        data=arrays,
        weights=weights,
        step=held[0],
        evaluation=held[1],
        peak=program + arrays + weights + both,
        peak_cuda=weights
        + on_cuda.at(load.batch)
        + (4 * data.x.numel() if load.batch == nodes else 0),
        largest=_most_nodes(free, step.slope),
    )


def _load(plan: Plan, data: Dataset, split: Split) -> _Load:
    """Return what a step and an evaluation see; the mini-batches of one step are made for it."""
    whole = (len(data.x), data.graph.num_edges() / len(data.x))
    over = pick(BATCHING, plan.train["batching"], data, split.train, "cpu")
    seen = _batch(over) if isinstance(over, Batches) else (*whole, 0, False)
    sizes = {"full": whole, "batches": seen[:2]}
    asked = sizes.get(plan.train["evaluate"]) or Layerwise(data, "cpu").size()
    return _Load(*seen, *asked)


def _of_arrays(plan: Plan, data: Dataset, load: _Load) -> int:
    """Return the bytes of features, labels and graph, and of the mini-batches made ahead."""
    nodes = len(data.x)
    on_disk = on_disk_folder(plan.dataset["name"]) is not None
    mapped = on_disk and max(load.batch, load.asked) < nodes
    held = 0 if mapped else 4 * data.x.numel() + _of_graph(nodes, data.graph.num_edges())
    return data.y.nbytes + held + load.made


def _most_nodes(free: float, per_node: float) -> int | None:
    """Return how many nodes fit into what is free: of small graphs, costs drown in noise."""
    if free == 0:
        return 0
    return None if free == math.inf or per_node <= 0 else int(free / per_node)


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


def _loaded(plan: Plan) -> tuple[Dataset, Split]:
    """Return the data, with columns of zeros for the encoding, and the first split."""
    data = load_data(plan.dataset).with_graph(plan.graph)
    if "full" not in data.batching:
        raise ZooError(
            f"what a recipe will hold is estimated for one graph, which {data.name} is not. A step "
            f"grows with its batch: train for an epoch, and read what `{plan.recipe.name}` held."
        )
    width = pick(ENCODINGS, plan.encoding, canonical([(0, 1), (1, 2)], nodes=3)).shape[1]
    if width:
        data = data.add_features(torch.zeros(len(data.x), width))
    split = plan.split or data.split
    return data, split_of(data, split, plan.recipe.seeds[0])


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


def _sizes(seconds: float) -> tuple[int, int]:
    """Return the sizes of the two graphs that are measured, by what a step takes for each node."""
    measured = STEPS * 2 + 1  # two trainings, an evaluation
    share = min(1.0, SECONDS / (seconds * measured * sum(SIZES)))
    first, second = (max(least, int(n * share)) for least, n in zip(LEAST, SIZES, strict=True))
    return first, second


def _line(cost: Callable[[int], int], n: int, sizes: tuple[int, int]) -> _Line:
    """Return the straight line through the costs of two sizes, one of them n if it is small."""
    small, large = (max(4, n // 4), n) if n <= sizes[-1] else sizes
    low, high = cost(small), cost(large)
    slope = (high - low) / (large - small) if large > small else 0.0
    return _Line(high - slope * large, slope)


def _of_graph(nodes: int, edges: int) -> int:
    """Return the bytes of a graph: its edges as pairs, by source and by target, with numbers."""
    return 8 * (2 * edges + 2 * (nodes + 1) + 4 * edges)
