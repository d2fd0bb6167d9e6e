"""What every source of data gives: one canonical graph with features, labels and its own splits."""

import dataclasses

import numpy as np
import torch
from dgl import DGLGraph
from scipy import sparse
from torch import Tensor

from zoo.datasets.canonical import canonical
from zoo.datasets.features import FEATURES
from zoo.datasets.parts import Parts, check_parts, first_true
from zoo.errors import ZooError
from zoo.table import Spec, pick

METRICS = {
    "node-classification": "accuracy",
    "node-binary": "roc-auc",
    "node-multilabel": "roc-auc",
}
"""Word of a task to the metric that it is measured by."""

MASKLESS_SPLIT = "ratio-60-20-20"
"""The default split of a graph that no benchmark has fixed splits for."""


@dataclasses.dataclass(frozen=True, eq=False)
class Dataset:
    """A canonical graph on the CPU, without node or edge data, and what is known of its nodes.

    Attributes:
        name: the word that names it, or the stem of its file.
        graph: both directions of every edge, no duplicates, one self-loop per node.
        x: features (N, F), fp32.
        y: classes (N,), int64, -1 where unknown; or targets (N, T), fp32, NaN where unknown.
        task: word of the task.
        metric: name of the metric that published results use.
        split: word of the split that is used when a recipe names none.
        masks: `train`, `val` and `test`, each (S, N) bool: the S splits of the benchmark, or None.
        classes: how many classes, or targets, there are.
        ids: the ids of the nodes (N,) as their owner writes them; None: they are 0 to N-1.
        labels: names of the classes, or targets, by number; None: they have none.
        feature_names: names of the columns of the features; None: they have none.
        transform: what was done to the features, in the words of `FEATURES`.
    """

    name: str
    graph: DGLGraph
    x: Tensor
    y: Tensor
    task: str
    metric: str
    split: str
    masks: dict[str, Tensor] | None
    classes: int
    ids: np.ndarray | None = None
    labels: tuple[str, ...] | None = None
    feature_names: tuple[str, ...] | None = None
    transform: Spec = "raw"

    def add_features(self, encoding: Tensor) -> "Dataset":
        """Return the data set with the columns of an encoding (N, k) to the right of x."""
        columns = encoding.to(self.x.device, self.x.dtype)
        return dataclasses.replace(self, x=torch.cat([self.x, columns], dim=1))


def make_dataset(
    name: str, parts: Parts, *, task: str, split: str | None = None, features: Spec = "raw"
) -> Dataset:
    """Make a data set of arrays.

    Args:
        name: what to call it.
        parts: edges, labels, features and, where a benchmark fixes them, masks.
        task: word of the task.
        split: default split; left out it is the benchmark's if there are masks, else a ratio.
        features: what is done to the features first.

    Raises:
        ZooError: the arrays do not fit together, or the labels not the task.
    """
    parts = check_parts(parts)
    _check_task(parts.labels, task)
    masks = parts.masks and {key: torch.from_numpy(mask) for key, mask in parts.masks.items()}
    multilabel = parts.labels.ndim == 2
    return Dataset(
        name=name,
        graph=canonical(parts.edges, nodes=len(parts.labels)),
        x=pick(FEATURES, features, torch.from_numpy(_dense(parts.features))),
        y=torch.from_numpy(parts.labels),
        task=task,
        metric=METRICS[task],
        split=split or ("benchmark" if masks else MASKLESS_SPLIT),
        masks=masks,
        classes=parts.labels.shape[1] if multilabel else int(parts.labels.max()) + 1,
        transform=features,
    )


def infer_task(labels: np.ndarray) -> str:
    """Return the task that labels are for: one class per node (N,), or many targets (N, T)."""
    return "node-multilabel" if labels.ndim == 2 else "node-classification"


def _dense(features: np.ndarray | sparse.csr_array) -> np.ndarray:
    if isinstance(features, np.ndarray):
        return features
    try:
        return features.toarray()
    except (MemoryError, ValueError):
        size = 4 * features.shape[0] * features.shape[1] / 1e9
        raise ZooError(
            f"the features take {size:,.0f} GB as a dense array, more than there is memory; keep "
            "fewer columns."
        ) from None


def _check_task(labels: np.ndarray, task: str) -> None:
    wanted = 2 if task == "node-multilabel" else 1
    if labels.ndim != wanted:
        raise ZooError(
            f"`node_labels` has {labels.ndim} dimensions and {task} needs {wanted}; write the "
            f"task {infer_task(labels)}, or labels of shape {('(N,)', '(N, T)')[wanted - 1]}."
        )
    if task == "node-binary" and (labels > 1).any():
        node = first_true(labels > 1)[0]
        raise ZooError(
            f"`node_labels` holds {labels[node]} at node {node} and node-binary knows 0, 1 and -1 "
            "(unknown); renumber the labels, or write the task node-classification."
        )
