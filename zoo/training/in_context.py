"""Answers in context: a model that is given labels never sees that of a node it is asked about.

Nodes without a label, or whose label is not given, are asked about with all that are. Those whose
labels are given are dealt into folds, each of which is asked about with the labels of the others.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from zoo.data.dataset import labelled, unknown_but
from zoo.graphs.shard import Graph
from zoo.registry import Model, Output

FOLDS = 5
"""Parts into which the nodes whose labels are given are dealt."""

DEALS = 8
"""Ways to deal them in training, so that what is found in closed form for one is found once."""

Ask = Callable[..., Output]
"""`(graph, x, *context)` to what a model answers."""


def answer_in_context(
    model: Model,
    graph: Graph,
    x: Tensor,
    context: Tensor | None = None,
    ask: Ask | None = None,
) -> Output:
    """Return what a model answers; one of `context` without the label of any node for that node.

    In training they are dealt in one of `DEALS` ways at random, in evaluation always alike.

    Args:
        model: in training or in evaluation.
        graph: of N nodes.
        x: their features (N, F).
        context: labels of the nodes that the model may look at, see `Model.forward`.
        ask: what is asked of it; None: the model itself.

    Returns:
        One row per node; the penalty is the mean over what was asked.
    """
    ask = ask or model
    if not model.context:
        return ask(graph, x)
    known = labelled(context).nonzero().squeeze(1)
    folds = deal(context, known, model.training)
    answers = [ask(graph, x, unknown_but(context, _without(known, fold))) for fold in folds]
    if model.training and folds:  # all that has a loss is among them
        logits = torch.zeros_like(answers[0].logits)
    else:
        whole = ask(graph, x, context)
        answers, logits = [*answers, whole], whole.logits
    for fold, answer in zip(folds, answers, strict=False):
        logits = logits.index_copy(0, fold, answer.logits[fold].to(logits.dtype))
    return Output(logits, sum(answer.penalty for answer in answers) / len(answers))


def deal(context: Tensor, known: Tensor, at_random: bool) -> list[Tensor]:
    """Return nodes (m,) in folds, of each class as many in one as in another, but for one.

    Args:
        context: labels (N, ...).
        known: the nodes, in increasing order.
        at_random: or in their order.
    """
    order = torch.arange(len(known))
    if at_random:
        way = torch.Generator().manual_seed(int(torch.randint(DEALS, ())))
        order = torch.randperm(len(known), generator=way)
    order = order.to(known.device)
    if not context.is_floating_point():
        order = order[context[known[order]].argsort(stable=True)]
    count = min(FOLDS, len(known))
    return [known[order[fold::count]].sort().values for fold in range(count)]


def _without(known: Tensor, fold: Tensor) -> Tensor:
    return known[~torch.isin(known, fold)]
