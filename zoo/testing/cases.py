"""What the promises of models are about: a model with options, and what it is given."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from zoo.config.options import Spec, options_of, pick
from zoo.errors import ZooError, unknown
from zoo.graphs.examples import tiny_graph
from zoo.nn.attend import attentions_with_bias
from zoo.nn.attention import ATTENTIONS, linear
from zoo.nn.sets import stands_alone
from zoo.ops.pair_attention import PairBias
from zoo.registry import MODELS, Model, Output, discover, name_of
from zoo.tasks.labels import TRANSLATION
from zoo.weights.create import create_model

RBA = {"name": "rba", "size": 4}
"""Random batches of 4 nodes: three of them in the tiny graph."""

FEATURES, CLASSES = 5, 3
"""F and C of the models that are made here."""


class Case(NamedTuple):
    """A model with some options: what the promises are about."""

    name: str
    options: dict[str, Any]

    def __str__(self) -> str:
        """Return `sgformer-softmax`, the model and its attention where it has a choice."""
        return "-".join(map(str, [self.name, *filter(None, [self.options.get("attention")])]))

    def build(self, in_dim: int = FEATURES, out_dim: int = CLASSES, **more: Any) -> Model:
        """Return the model, always with the same weights."""
        torch.manual_seed(2)
        return create_model(self.name, in_dim, out_dim, **self.options, **more)


def attention_specs(pair_bias: PairBias = "none") -> list[Spec]:
    """Return every attention of the table, and random batches around each that takes sets.

    Those of sets of some size, such as random batches, have three of them in the tiny graph.

    Args:
        pair_bias: those alone that take what a model tells them of pairs, see `zoo.registry.Model`.
    """
    words = attentions_with_bias(pair_bias)
    sized = {word: {"name": word, "size": 4} for word in words if "size" in _options(word)}
    takes_sets = [word for word in words if not stands_alone(pick(ATTENTIONS, word, linear, 0))]
    inner = [word for word in takes_sets if word not in ("native", "rba")]
    return [*(sized.get(word, word) for word in words), *({**RBA, "inner": x} for x in inner)]


def _options(word: str) -> dict[str, Any]:
    return options_of(ATTENTIONS[word])


def model_cases(model: str | type[Model], **options: Any) -> list[Case]:
    """Return a model with every attention where it has a choice, else alone.

    Args:
        model: a name, or a class that is registered.
        options: of every case; with an `attention` among them there is one case.

    Raises:
        ZooError: no model is registered under this name, or as this class.
    """
    discover()
    name = model if isinstance(model, str) else name_of(model)
    if name not in MODELS:
        shown = model if isinstance(model, str) else model.__name__
        raise ZooError(f"{unknown('model', shown, MODELS)} Register it: @register_model('name').")
    tasks = MODELS[name].tasks
    if TRANSLATION in tasks:
        raise ZooError(
            f"{name} is a model of {', '.join(tasks)}, and what is checked here is what models of "
            "graphs promise; train it on a small data set instead."
        )
    if "attention" in options or "attention" not in options_of(MODELS[name]):
        return [Case(name, options)]
    return [
        Case(name, {"attention": spec, **options})
        for spec in attention_specs(MODELS[name].pair_bias)
    ]


def answer(model: Model, graph: Any, x: Tensor, context: Tensor | None = None) -> Output:
    """Return what a model answers; one that is given labels, with those of `some_labels`."""
    return model(graph, x, *inputs(model, len(x), context))


def inputs(model: Model, nodes: int, context: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return what a model is given beside graph and features: nothing, or labels of nodes."""
    return (some_labels(nodes) if context is None else context,) if model.context else ()


def some_labels(nodes: int) -> Tensor:
    """Return classes (N,) of half of the nodes, 0, 1 and 2 in turn, and -1 of the others."""
    number = torch.arange(nodes)
    return torch.where(number % 2 == 0, number // 2 % CLASSES, -1)


def tiny() -> tuple[Any, Tensor, Tensor]:
    """Return the tiny graph, features (12, 5) and classes (12,) of its nodes."""
    torch.manual_seed(1)
    return tiny_graph(), torch.randn(12, FEATURES), torch.arange(12) % CLASSES
