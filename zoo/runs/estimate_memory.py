"""How much memory a recipe will take, found on small graphs before the large one is tried.

A step and an evaluation are measured on random graphs that grow for as long as there is time, with
the recipe's model, features, split and mean degree. What the zoo holds grows with nodes and edges,
so that a straight line through two sizes leads to the one of the recipe.
"""

from __future__ import annotations

import dataclasses
import functools
import gc
import math
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.config.options import pick
from zoo.data import Dataset
from zoo.data.canonical import canonical
from zoo.data.load import load_data, on_disk_folder
from zoo.data.splits import PARTS, Split, split_of
from zoo.encodings import ENCODINGS
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.runs.prepare import check_batching, check_task, task_of
from zoo.runs.resolve import Plan
from zoo.system import allocator
from zoo.system.context import using
from zoo.system.memory import (
    available_memory,
    counts_memory,
    held_now,
    own_peak,
    peak_during,
)
from zoo.tasks.task import TASKS
from zoo.training.batches import BATCHING, Batch, Batches, FullBatch, TrainingData
from zoo.training.layerwise import Layerwise
from zoo.training.optimizers import OPTIMIZERS, still
from zoo.training.trainer import WEIGHT_COPIES, Trainer
from zoo.weights.create import create_model, with_edge_dim, with_encoding

LEAST = (64, 192)
"""Nodes of the graphs that are measured of every model."""

MOST = 16_384
"""Nodes of the largest graph that is measured; what is not larger is measured as it is."""

SECONDS = 6.5
"""What the measurements may take together, about, beyond the least: graphs of twice the size follow
as long as there is time."""

STEPS = 2
"""Steps that are measured where freed blocks are kept: the second takes those of the first."""


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
        ahead: bytes of the mini-batches that are made ahead.
        uneven: whether mini-batches differ in size by more than a node.
        evaluated: nodes that an evaluation sees at a time.
        evaluated_degree: mean degree of those.
    """

    batch: int
    degree: float
    ahead: int
    uneven: bool
    evaluated: int
    evaluated_degree: float


def estimate(plan: Plan) -> Estimate:
    """Estimate the memory of a plan's training; its graph is read once.

    Raises:
        ZooError: something is wrong with the data, or they are not one graph; or this is not Linux.
    """
    if not counts_memory():
        raise ZooError(
            "memory is estimated by what Linux counts in /proc, which is not here; a finished run "
            "says what it took in `summary.json`, `peak_memory_bytes`."
        )
    data, split = _load_data(plan)
    load = _load(plan, data, split)
    small = SmallGraphs(plan, data, split)
    nodes, model = len(data.x), small.model
    small.warm_up(min(LEAST[0], load.batch), load.degree)
    state = sum(tensor.nbytes for tensor in model.state_dict().values())
    arrays = _data_bytes(plan, data, load)
    gc.collect()
    allocator.give_back()
    program = max(0, held_now() - small.gradients - state - (arrays - load.ahead))
    step, evaluation, on_cuda = _measure(small, load)
    weights = WEIGHT_COPIES * state
    peaks = step.at(load.batch), evaluation.at(load.evaluated)
    free = max(0, available_memory() - arrays - weights - max(0, step.start))
    # What a step leaves at hand fits an evaluation of the same graph, and no other.
    both = max(peaks) if load.evaluated == load.batch else sum(peaks)
    features = 4 * data.x.numel() if load.batch == nodes else 0
    return Estimate(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        nodes=nodes,
        batch=load.batch,
        program=program,
        data=arrays,
        weights=weights,
        step=peaks[0],
        evaluation=peaks[1],
        peak=program + arrays + weights + both,
        peak_cuda=weights + on_cuda.at(load.batch) + features,
        largest=_most_nodes(free, step.slope),
    )


def _measure(small: SmallGraphs, load: _Load) -> list[_Line]:
    """Return what a step, an evaluation, and a step on a GPU hold against their nodes."""

    def step(n: int) -> int:
        with using(rows=load.batch):
            return small.step_bytes(n, load.degree, uneven=load.uneven)

    def evaluation(n: int) -> int:
        return small.evaluation_bytes(n, load.evaluated_degree)

    def step_on_cuda(n: int) -> int:
        with using(torch_only=True):
            return small.step_bytes(n, load.degree, at_hand=False)

    sizes = [_sizes(load.batch), _sizes(load.evaluated), _sizes(load.batch)]
    peaks: list[dict[int, int]] = [{} for _ in sizes]
    spent = 0.0
    for turn in range(max(map(len, sizes))):
        wall, processor = time.perf_counter(), time.process_time()
        for measured, own, peak in zip((step, evaluation, step_on_cuda), sizes, peaks, strict=True):
            if turn < len(own):
                peak[own[turn]] = measured(own[turn])
        # What others keep the processor from is not counted, and threads are not counted twice.
        seconds = min(time.perf_counter() - wall, time.process_time() - processor)
        spent += seconds
        if turn and spent + 2 * seconds > SECONDS:  # the next graphs are twice as large
            break
    of_step, of_evaluation, on_cuda = map(_line_through, peaks)
    # Nothing has a gradient at the end of a forward pass, where a step holds most.
    return [of_step.less(small.gradients), of_evaluation, on_cuda.less(small.gradients)]


def _load(plan: Plan, data: Dataset, split: Split) -> _Load:
    """Return what a step and an evaluation see; the mini-batches of one step are made for it."""
    whole = (len(data.x), data.graph.num_edges() / len(data.x))
    loader = pick(BATCHING, plan.train["batching"], data, split.train, "cpu")
    batch = _first_batch(loader) if isinstance(loader, Batches) else (*whole, 0, False)
    sizes = {"full": whole, "batches": batch[:2]}
    evaluated = sizes.get(plan.train["evaluate"]) or Layerwise(data, "cpu").size()
    return _Load(*batch, *evaluated)


def _first_batch(loader: Batches) -> tuple[int, float, int, bool]:
    """Return nodes and degree of an epoch's first batch, and the bytes to make some ahead.

    And whether batches differ in size by more than a node.
    """
    allocator.give_back()
    with own_peak() as peak, allocator.exact():
        before, batches = peak[0], loader.batches(0)
        batch = next(batches)
        other = next(batches, batch)
    edges = batch.graph.num_edges()
    own = batch.x.nbytes + _graph_bytes(len(batch.x), edges)  # of the one that a step is given
    uneven = abs(len(batch.x) - len(other.x)) > 1
    return len(batch.x), edges / len(batch.x), peak[0] - before + own, uneven


def _load_data(plan: Plan) -> tuple[Dataset, Split]:
    """Return the data, with columns of zeros for the encoding, and the first split."""
    data = load_data(plan.dataset).with_graph(plan.graph)
    if "full" not in data.batching or plan.task:
        why = f"which {data.name} is not"
        if plan.task:
            why = f"by its nodes, which the links of {data.name} are not"
        raise ZooError(
            f"what a recipe will hold is estimated for one graph, {why}. A step grows with its "
            f"batch: train for an epoch, and read what `{plan.recipe.name}` held."
        )
    check_batching(plan, data)
    check_task(plan, pick(TASKS, data.task))
    width = pick(ENCODINGS, plan.encoding, canonical([(0, 1), (1, 2)], nodes=3)).shape[1]
    if width:
        data = data.add_features(torch.zeros(len(data.x), width))
    return data, split_of(data, plan.split or data.split, plan.recipe.seeds[0])


def _data_bytes(plan: Plan, data: Dataset, load: _Load) -> int:
    """Return the bytes of features, labels and graph, and of the mini-batches made ahead."""
    nodes = len(data.x)
    on_disk = on_disk_folder(plan.dataset["name"]) is not None
    mapped = on_disk and max(load.batch, load.evaluated) < nodes
    graph = 0 if mapped else 4 * data.x.numel() + _graph_bytes(nodes, data.graph.num_edges())
    return data.y.nbytes + graph + load.ahead


def _graph_bytes(nodes: int, edges: int) -> int:
    """Return the bytes of a graph: its edges as pairs, by source and by target, with numbers."""
    return 8 * (2 * edges + 2 * (nodes + 1) + 4 * edges)


def _most_nodes(free: float, per_node: float) -> int | None:
    """Return how many nodes fit into what is free: of small graphs, costs drown in noise."""
    if free == 0:
        return 0
    return None if free == math.inf or per_node <= 0 else int(free / per_node)


def _sizes(n: int) -> list[int]:
    """Return the sizes of the graphs to measure for one of n nodes, which is the last if small."""
    sizes = [min(LEAST[0], max(4, n // 4))]
    while sizes[-1] < min(n, MOST):
        twice = 2 * sizes[-1] if len(sizes) > 1 else LEAST[1]
        sizes.append(min(twice, n, MOST))
    return sizes


def _line_through(peaks: dict[int, int]) -> _Line:
    """Return the straight line through the bytes of the largest size and of about a quarter."""
    large = max(peaks)
    small = max((n for n in peaks if 3 * n <= large), default=min(peaks))
    slope = (peaks[large] - peaks[small]) / (large - small) if large > small else 0.0
    return _Line(peaks[large] - slope * large, slope)


class SmallGraphs:
    """A plan on random graphs of any size; what is measured is in bytes, at the peak.

    Args:
        plan: whose model is trained.
        data: the graph whose features and labels are sampled.
        split: its first split.
    """

    def __init__(self, plan: Plan, data: Dataset, split: Split):
        self._plan, self._data = plan, TrainingData(data, split, task_of(plan, data))

    @functools.cached_property
    def model(self) -> Model:
        """The model, one for all graphs: to make a wide one takes as long as a step."""
        data, task = self._data.data, self._data.task
        options = {key: value for key, value in self._plan.model.items() if key != "name"}
        options = with_edge_dim(self._plan.model["name"], options, data.edge_dim)
        options = with_encoding(options, self._plan.encoding)
        outputs = task.outputs(data.classes)
        torch.manual_seed(0)
        model = create_model(self._plan.model["name"], data.inputs, outputs, **options)
        model.begin_epoch(self._plan.train["epochs"] - 1)  # the last phase holds most
        return model

    def step_bytes(
        self, n: int, degree: float, *, uneven: bool = False, at_hand: bool = True
    ) -> int:
        """Return what some steps hold beyond weights, their gradients, and data.

        Weights stay as they are and gradients where they are, in place before the first step: what
        the optimiser does, and the gradients, do not grow with the graph, and would be most of what
        a small graph takes. Without `at_hand`, holes between blocks that are kept do not count.
        """
        trainer = self._trainer(n, degree)
        if uneven:
            graphs = (sample_graph(self._data, size, degree) for size in _sizes_below(n))
            trainer.train_loader = _UnevenBatches(graphs)
        optimizer = still(self.model.parameters())

        def steps() -> None:
            for epoch in range(STEPS if at_hand else 1):
                trainer.train(optimizer, epoch)

        return peak_during(steps, torch.device("cpu"), at_hand=at_hand)

    def evaluation_bytes(self, n: int, degree: float) -> int:
        """Return what an evaluation holds."""
        trainer = self._trainer(n, degree)
        return peak_during(lambda: trainer.evaluate()("val"), torch.device("cpu"), at_hand=True)

    def warm_up(self, n: int, degree: float) -> None:
        """Evaluate, and take a step, whose gradients stay: libraries load what they need for it."""
        word = self._plan.train["optimizer"]
        pick(OPTIMIZERS, word, [torch.zeros(1, requires_grad=True)], 0.0, 0.0).step()
        trainer = self._trainer(n, degree)
        trainer.evaluate()("val")
        trainer.train(still(self.model.parameters()), 0)

    @property
    def gradients(self) -> int:
        """Bytes of the gradients that stay after `warm_up`."""
        gradients = (parameter.grad for parameter in self.model.parameters())
        return sum(gradient.nbytes for gradient in gradients if gradient is not None)

    def _trainer(self, n: int, degree: float) -> Trainer:
        train, data = self._plan.train, sample_graph(self._data, n, degree)
        return Trainer(self.model, data, precision=train["precision"], clip=train["clip"])


class _UnevenBatches(FullBatch):
    """A step on each of some graphs in turn.

    What one step has freed has holes of the wrong size for the next, and more is held after each.
    """

    def __init__(self, graphs: Iterable[TrainingData]):
        self.graphs = [FullBatch(graph.data, graph.split.train, "cpu") for graph in graphs]

    def batches(self, epoch: int) -> Iterator[Batch]:
        for graph in self.graphs:
            yield from graph.batches(epoch)


def _sizes_below(n: int) -> list[int]:
    """Return n and some numbers up to a two-hundredth below it, in no order."""
    generator = torch.Generator().manual_seed(n)
    return [n, *(n - torch.randint(n // 200 + 1, (15,), generator=generator)).tolist()]


def sample_graph(training_data: TrainingData, n: int, degree: float) -> TrainingData:
    """Return a random graph of n nodes, with rows of the data and as large shares of its split.

    The nodes of a part are two at least and have its least label and its largest: a score of two
    classes is not found from one.
    """
    data, split = training_data.data, training_data.split
    generator = torch.Generator().manual_seed(n)
    edges = torch.randint(n, (int(n * max(0.0, degree - 1) / 2), 2), generator=generator)
    rows = torch.randint(len(data.x), (n,), generator=generator)
    left, parts = torch.randperm(n, generator=generator), {}
    for name in PARTS:
        nodes = getattr(split, name)
        count = max(min(2, len(nodes)), n * len(nodes) // len(data.x))
        parts[name], left = left[:count].sort().values, left[count:]
        chosen = torch.linspace(0, len(nodes) - 1, len(parts[name])).round().long()
        rows[parts[name]] = _by_label(nodes, data.y)[chosen]
    x, y = data.x[rows].float(), data.y[rows]
    graph = canonical(edges.numpy(), nodes=n)
    for name, values in data.graph.edata.items():  # weights of edges
        graph.edata[name] = values.new_ones(graph.num_edges(), *values.shape[1:])
    sample = dataclasses.replace(data, graph=graph, x=x, y=y, masks=None, ids=None)
    return training_data._replace(data=sample, split=Split(**parts, sha256=""))


def _by_label(nodes: Tensor, y: Tensor) -> Tensor:
    """Return nodes in the order of their labels, of the first where they have several."""
    labels = y[nodes] if y.ndim == 1 else y[nodes, 0].nan_to_num()
    return nodes[labels.argsort(stable=True)]
