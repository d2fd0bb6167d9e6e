"""Link prediction: which pairs of nodes are linked, told from pairs that are not.

A link stands in a row of candidates: itself first, then pairs without a link. A model says E
numbers of every node, a decoder makes a score of two nodes' numbers, and loss and metrics compare
the score of the link with those of the others: logits (P, 1 + K), and labels that are all 0.
"""

from __future__ import annotations

import dataclasses
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from zoo.config.options import Count, Spec, Table
from zoo.config.recipe import word
from zoo.errors import ZooError
from zoo.graphs.pairs import NEGATIVES
from zoo.tasks.decoders import DECODERS
from zoo.tasks.labels import LINKS
from zoo.tasks.losses import LOSSES, mean_loss
from zoo.tasks.metrics import METRICS_OF, NO_PAIR
from zoo.tasks.task import TASKS, Task, need_finite

PER_LINK = "file-per-link"

GIVEN = ("file", PER_LINK)
"""The negatives that a table has."""


@dataclasses.dataclass(frozen=True)
class LinkTask(Task):
    """What link prediction is besides a loss and a metric.

    Attributes:
        decoder: a word of `DECODERS` with its options.
        negatives: a word of `NEGATIVES`, of what training draws.
        per_link: pairs without a link for each link, in training.
        compared: a word of `NEGATIVES`, of what links are compared with in evaluation.
        candidates: how many of these for each link.
        dim: E, the numbers that a model says of a node.
    """

    decoder: Spec = "hadamard-mlp"
    negatives: Spec = "uniform"
    per_link: int = 1
    compared: Spec = "uniform"
    candidates: int = 1
    dim: int = 64


def link_prediction(
    *,
    decoder: Annotated[Spec, DECODERS] = "hadamard-mlp",
    negatives: Annotated[Spec, NEGATIVES] = "uniform",
    per_link: Count = 1,
    compared: Annotated[Spec, NEGATIVES] = "uniform",
    candidates: Count = 1,
    dim: Count = 64,
) -> LinkTask:
    """Whether two nodes are linked: binary cross entropy, ROC-AUC.

    Args:
        decoder: what makes a score of two nodes.
        negatives: how pairs without a link are drawn in training, anew in every step.
        per_link: how many of them for each link.
        compared: how those are drawn that links are compared with in validation and test, once.
        candidates: how many of these for each link; of `mrr` and `hits@K` write some hundreds. Of
            tables all are taken.
        dim: numbers that the model says of each node, which the decoder reads.

    Raises:
        ZooError: a number of candidates beside a table that has them.
    """
    if word(compared) in GIVEN and candidates > 1:
        raise ZooError(
            f"`compared: {word(compared)}` takes all pairs of its table; leave `candidates` out."
        )
    ranked = candidates > 1 or word(compared) == PER_LINK
    return LinkTask(
        name=LINKS,
        kind="links",
        metric_name="roc-auc",
        loss=_loss,
        metric=roc_auc,
        outputs=lambda classes: dim,
        own={"roc-auc": roc_auc, "average-precision": average_precision},
        also=tuple(name for name in METRICS_OF["links"] if name != "mrr" or ranked),
        decoder=decoder,
        negatives=negatives,
        per_link=per_link,
        compared=compared,
        candidates=candidates,
        dim=dim,
    )


TASKS[LINKS] = link_prediction

OF_RECIPES = Table("task", {LINKS: link_prediction})
"""The tasks that `task` of a recipe names; those of labels are `dataset.task`."""


def _loss(logits: Tensor, y: Tensor) -> Tensor:
    return mean_loss(LOSSES["binary-cross-entropy"](), "binary-cross-entropy", None, logits, y)


def roc_auc(logits: Tensor, y: Tensor) -> float:
    """Return the probability that a link has a higher score than a pair without, of all of them."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_linked(logits)))


def average_precision(logits: Tensor, y: Tensor) -> float:
    """Return the area under precision over recall of links among all candidates."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(*_linked(logits)))


def _linked(logits: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Return which candidates are links, and their scores, both (P (1 + K),) or fewer."""
    if not len(logits):
        raise ZooError("there are no links in a part of the split; choose another one.")
    need_finite(logits)
    linked = torch.zeros_like(logits, dtype=torch.bool)
    linked[:, 0] = True
    there = logits > NO_PAIR
    return linked[there].cpu().numpy(), logits[there].detach().float().cpu().numpy()
