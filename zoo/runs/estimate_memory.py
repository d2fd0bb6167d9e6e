"""How much memory a recipe will take, found on small graphs before the large one is tried.

A step and an evaluation are measured on random graphs that grow for as long as there is time, see
`zoo.runs.scaled_down`. What the zoo holds grows with nodes and edges, so that a straight
line through two sizes leads to the one that is asked for.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from zoo.config.options import pick
from zoo.data import Dataset
from zoo.data.canonical import canonical
from zoo.data.load import load_data, on_disk_folder
from zoo.data.splits import Split, split_of
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError
from zoo.runs.prepare import check_batching, check_task
from zoo.runs.resolve import Plan
from zoo.runs.scaled_down import ScaledDown
from zoo.system import allocator
from zoo.system.context import using
from zoo.system.memory import available_memory, held_now, own_peak
from zoo.tasks.task import TASKS
from zoo.training.batches import BATCHING, Batches
from zoo.training.layerwise import Layerwise
from zoo.training.optimizers import OPTIMIZERS
from zoo.training.trainer import COPIES

LEAST = (64, 192)
"""Nodes of the graphs that are measured of every model."""

MOST = 16_384
"""Nodes of the largest graph that is measured; what is not larger is measured as it is."""

SECONDS = 6.5
"""What the measurements may take together, about, beyond the least: graphs of twice the size follow
as long as there is time."""


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

    def less(self, bytes_: int) -> _Line:
        return _Line(self.start - bytes_, self.slope)


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
    before = held_now()
    data, split = _loaded(plan)
    read = held_now() - before  # with the libraries that read it
    load = _load(plan, data, split)
    small = ScaledDown(plan, data, split)

    nodes, model = len(data.x), small.model
    program += _of_first(lambda: small.warm_up(min(LEAST[0], load.batch), load.degree))
    program -= small.gradients
    step, evaluation, on_cuda = _measured(small, load)
    weights = COPIES * sum(each.nbytes for each in model.state_dict().values())
    arrays = _of_arrays(plan, data, load)
    program += max(0, read - (arrays - load.made))
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


def _measured(small: ScaledDown, load: _Load) -> list[_Line]:
    """Return what a step, an evaluation, and a step on a GPU hold against their nodes."""

    def of_step(n: int) -> int:
        with using(rows=load.batch):
            return small.of_training(n, load.degree, uneven=load.uneven)

    def of_step_on_cuda(n: int) -> int:
        with using(torch_only=True):
            return small.of_training(n, load.degree, at_hand=False)

    ways = [
        (of_step, _sizes(load.batch)),
        (lambda n: small.of_evaluation(n, load.around), _sizes(load.asked)),
        (of_step_on_cuda, _sizes(load.batch)),
    ]
    found: list[dict[int, int]] = [{} for _ in ways]
    spent = 0.0
    for turn in range(max(len(sizes) for _, sizes in ways)):
        wall, processor = time.perf_counter(), time.process_time()
        for (cost, sizes), held in zip(ways, found, strict=True):
            if turn < len(sizes):
                held[sizes[turn]] = cost(sizes[turn])
        # What others keep the processor from is not counted, and threads are not counted twice.
        took = min(time.perf_counter() - wall, time.process_time() - processor)
        spent += took
        if turn and spent + 2 * took > SECONDS:  # the next graphs are twice as large
            break
    of_step, of_evaluation, on_cuda = map(_through, found)
    # Nothing has a gradient at the end of a forward pass, where a step holds most.
    return [of_step.less(small.gradients), of_evaluation, on_cuda.less(small.gradients)]


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
    check_batching(plan, data)
    check_task(plan, pick(TASKS, data.task))
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
        before, parts = held[0], over.batches(0)
        part = next(parts)
        other = next(parts, part)
    edges = part.graph.num_edges()
    own = part.x.nbytes + _of_graph(len(part.x), edges)  # of the one that a step is given
    uneven = abs(len(part.x) - len(other.x)) > 1
    return len(part.x), edges / len(part.x), held[0] - before + own, uneven


def _sizes(n: int) -> list[int]:
    """Return the sizes of the graphs to measure for one of n nodes, which is the last if small."""
    sizes = [min(LEAST[0], max(4, n // 4))]
    while sizes[-1] < min(n, MOST):
        twice = 2 * sizes[-1] if len(sizes) > 1 else LEAST[1]
        sizes.append(min(twice, n, MOST))
    return sizes


def _through(held: dict[int, int]) -> _Line:
    """Return the straight line through the bytes of the largest size and of about a quarter."""
    large = max(held)
    small = max((n for n in held if 3 * n <= large), default=min(held))
    slope = (held[large] - held[small]) / (large - small) if large > small else 0.0
    return _Line(held[large] - slope * large, slope)


def _of_graph(nodes: int, edges: int) -> int:
    """Return the bytes of a graph: its edges as pairs, by source and by target, with numbers."""
    return 8 * (2 * edges + 2 * (nodes + 1) + 4 * edges)
