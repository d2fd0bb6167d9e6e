"""Trained weights measured on a part of a graph: what `zoo evaluate` does."""

from typing import Any

import torch

from zoo.config.options import Spec
from zoo.config.recipe import divide
from zoo.datasets.load import load_graph
from zoo.datasets.splits import PARTS, make_split
from zoo.errors import ZooError, unknown
from zoo.inference.predict import evaluate
from zoo.registry import Model


def evaluate_part(
    model: Model,
    spec: Spec | None,
    part: str | None,
    *,
    batch_size: int | None = None,
    layerwise: bool = False,
    device: str | torch.device = "cpu",
) -> dict[str, Any]:
    """Measure a trained model on nodes of a graph.

    Args:
        model: as `zoo.load` gives it.
        spec: the graph, as a recipe names it, `split` included; None is the one that the model was
            trained on, divided as then.
        part: `train`, `val`, `test` or `all`; None is `test` on the graph of training, else `all`.
        batch_size: as in `zoo.predict`.
        layerwise: as in `zoo.predict`.
        device: where.

    Returns:
        `data`, `part`, `nodes` (how many had a label), `metric`, `score` and `seen`: whether nodes
        that the model was trained on may be among them.

    Raises:
        ZooError: as `zoo.evaluate`, or nothing is known of the graph of training.
    """
    about = model.about
    if spec is None and about.recipe is None:
        raise ZooError("nothing is known of what the weights were trained on; write --data GRAPH.")
    if part not in (None, "all", *PARTS):
        raise ZooError(unknown("part", part, ("all", *PARTS)))
    part = part or ("test" if spec is None else "all")
    spec, own = divide(about.recipe.get("dataset") if spec is None else spec, ("split",))
    data = load_graph(spec)
    nodes = torch.arange(len(data.y))
    if part != "all":
        split = own.get("split", data.split)
        nodes = getattr(make_split(split, data.y, data.masks, seed=about.seed or 0), part)
    score = evaluate(model, data, nodes, batch_size=batch_size, layerwise=layerwise, device=device)
    y = data.y[nodes]
    labelled = (y.isfinite() & (y != -1)).reshape(len(y), -1).any(dim=1)
    return {
        "data": data.name,
        "part": part,
        "nodes": int(labelled.sum()),
        "metric": data.metric,
        "score": score,
        "seen": data.name == about.data and part in ("all", "train"),
    }
