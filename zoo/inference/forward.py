"""What a model makes of every row of a data set: at once, part by part, or layer by layer."""

import contextlib
from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from torch import Tensor

from zoo.canonical_form import subgraph
from zoo.datasets import Dataset
from zoo.errors import ZooError
from zoo.graphs.message_passing import place
from zoo.graphs.sampling import check_neighbours
from zoo.inference.sample_answers import answer_samples, refuse_rows
from zoo.registry import Model
from zoo.training.layerwise import Layerwise


@contextlib.contextmanager
def answering(model: Model, device: str | torch.device) -> Iterator[torch.dtype]:
    """Have a model answer on a device, in eval mode and without gradients; leave it as it was.

    Gives the type of its numbers, which features are to have.
    """
    before = [(module, module.training) for module in model.modules()]
    first = next((each for each in model.parameters() if each.is_floating_point()), torch.empty(0))
    home = first.device
    try:
        model.to(device).eval()
        with torch.no_grad():
            yield first.dtype
    finally:
        model.to(home)
        for module, training in before:
            module.training = training


def logits(model: Model, graph, x: Tensor) -> Tensor:
    """Return what a model answers."""
    return model(graph, x).logits


def features(model: Model, graph, x: Tensor) -> Tensor:
    """Return what its head reads."""
    return model.features(graph, x)


def rows(
    model: Model,
    data: Dataset,
    read: Callable,
    size: int | None,
    layerwise: bool,
    device: str | torch.device,
) -> tuple[Tensor, float]:
    """Return what `read` makes of all rows, (N, ...) fp32 on CPU, and the share of cut edges.

    Args:
        model: any, on any device.
        data: as the model reads it.
        read: `(model, graph, x)` to a row for each node: `logits` or `features`.
        size: nodes at a time, see `zoo.predict`.
        layerwise: as of `zoo.predict`.
        device: where.

    Raises:
        ZooError: the data do not fit into memory, or cannot be answered for in this way.
    """
    if size is not None and size < 1:
        raise ZooError(f"batch size {size}: write a whole number from 1.")
    with answering(model, device) as kind:

        def asked(model: Model, graph, x: Tensor) -> Tensor:
            return read(model, graph, x.to(kind) if x.is_floating_point() else x)

        return _KINDS[data.batching[0]](model, data, asked, size, layerwise, device)


def _of_nodes(
    model: Model, data: Dataset, read: Callable, size: int | None, layerwise: bool, device
):
    """Return what `read` makes of every node, (N, ...) fp32 on CPU, and the share of cut edges."""
    if layerwise and size is not None:
        raise ZooError("--layerwise predicts all nodes at once; leave out --batch-size.")
    try:
        if layerwise:
            return _layerwise(model, data, read, device), 0.0
        check_neighbours(data.graph)
        if size is None or size >= len(data.x):
            x = data.x.to(device).float()
            return read(model, place(data.graph, device), x).float().cpu(), 0.0
        out, part_of = None, torch.empty(len(data.x), dtype=torch.long)
        for number, nodes in enumerate(_parts(data, size)):
            part = subgraph(data.graph, nodes)
            graph = place(part, device)
            answer = read(model, graph, data.x[nodes].to(device).float()).float().cpu()
            out = answer.new_empty(len(data.x), *answer.shape[1:]) if out is None else out
            out[nodes], part_of[nodes] = answer, number
    except (MemoryError, RuntimeError) as error:
        if "memory" not in str(error).lower() and not isinstance(error, MemoryError):
            raise
        raise ZooError(
            f"{data.name} does not fit into memory at once; write `--layerwise` for the same "
            "answers from files, or predict fewer nodes at a time, such as "
            f"`--batch-size {max(1, min(size or len(data.x), len(data.x)) // 4)}`."
        ) from None
    tails, tips = data.graph.edges()
    apart = tails != tips
    return out, (part_of[tails] != part_of[tips])[apart].double().mean().nan_to_num().item()


def _layerwise(model: Model, data: Dataset, read: Callable, device) -> Tensor:
    def answer(graph, x: Tensor) -> Tensor:
        return read(model, graph, x).float()

    over = Layerwise(data, device)
    over.check(answer)
    return over.logits(answer, torch.arange(len(data.x))).cpu()


def _parts(data: Dataset, size: int) -> Iterator[Tensor]:
    """Give index after index of at most `size` nodes, near each other in the graph."""
    tails, tips = (each.numpy() for each in data.graph.edges())
    pattern = sparse.csr_array((np.ones(len(tails), np.int8), (tails, tips)), (len(data.x),) * 2)
    order = reverse_cuthill_mckee(sparse.csr_matrix(pattern), symmetric_mode=True)
    yield from torch.from_numpy(order.astype(np.int64)).split(size)


_KINDS = {"full": _of_nodes, "samples": answer_samples, "snapshots": refuse_rows}
"""The first of the strategies that data may be trained by, to what answers for all its rows."""
