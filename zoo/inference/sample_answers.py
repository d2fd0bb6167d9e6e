"""What a trained model says of many graphs: a row for each of them."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.datasets.samples import Samples
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.training.sample_batches import SampleBatches


def answer_samples(
    model: Model,
    data: Samples,
    read: Callable,
    size: int | None,
    layerwise: bool,
    device: torch.device | str,
) -> tuple[Tensor, float]:
    """Return what the readout makes of each sample, (S, ...) fp32 on CPU, and that none was cut.

    Args:
        model: in eval mode.
        data: as the model reads it.
        read: `(model, graph, x)` to a row for each node, logits or features.
        size: samples at a time, which changes no answer; None for the default.
        layerwise: refused.
        device: where.

    Raises:
        ZooError: `layerwise`, which is for one graph.
    """
    if layerwise:
        raise ZooError(
            f"{data.name} is many small graphs, which take bounded memory; leave out --layerwise."
        )
    everything = torch.arange(len(data.y))
    over = SampleBatches(data, everything, device, size=size)
    found = over.logits(lambda graph, x: read(model, graph, x).float(), everything)
    return found.cpu(), 0.0


def refuse_rows(model: Model, data: Any, *how: Any) -> None:
    """Refuse to answer for snapshots row by row; raise ZooError, always."""
    raise ZooError(
        f"{data.name} is {data.unit} in time: `zoo predict WEIGHTS` writes what comes next, and "
        "`zoo evaluate` measures it (zoo.inference.forecast); there is no row for each to embed."
    )
