"""What a data set is, in five lines: its `repr`."""

from typing import Any

import torch

from zoo.data.splits import labelled_nodes

MOST = 6
"""Names of classes that are told."""


def summary(data: Any) -> str:
    """Return what a data set is: its size, task, labels and split, and what it holds."""
    known = len(labelled_nodes(data.y.numpy()))
    held = {name: getattr(data, name, None) for name in ("x", "y")}
    shapes = [f"{name} {tuple(t.shape)}" for name, t in held.items() if torch.is_tensor(t)]
    own = f", with {len(data.masks['train'])} of its own" if data.masks else ""
    return "\n".join([
        f"{data.name}: {_size(data)}",
        f"task: {data.task}{_classes(data)}, by {data.metric}",
        f"labels: {known:,} of {len(data.y):,} {data.unit} have one",
        f"split: {data.split}{own}",
        f"holds: {', '.join(['graphs' if hasattr(data, 'graphs') else 'graph', *shapes])}",
    ])  # fmt: skip


def _size(data: Any) -> str:
    nodes = getattr(data, "nodes", data)  # of links
    features = f"{nodes.x.shape[-1]:,} features"
    if data.unit == "snapshots":
        return f"{len(data.y):,} snapshots of {nodes.x.shape[1]:,} nodes, {features}"
    if hasattr(nodes, "graphs"):
        width = f", {features}" if nodes.x.dim() > 1 else ""
        return f"{len(data.y):,} {data.unit} of {len(data.x):,} nodes in all{width}"
    graph = getattr(data, "whole", nodes.graph)
    edges = (graph.num_edges() - graph.num_nodes()) // 2
    return f"{graph.num_nodes():,} nodes, {edges:,} edges, {features}"


def _classes(data: Any) -> str:
    if not data.task.endswith(("classification", "binary", "multilabel")):
        return ""
    labels = data.labels or ()
    names = ", ".join(map(str, labels[:MOST])) + (", ..." if len(labels) > MOST else "")
    return f" of {data.classes} classes" + (f" ({names})" if names else "")
