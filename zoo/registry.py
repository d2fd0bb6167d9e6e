"""The registry of models and the contract that every one of them keeps."""

import copy
import functools
import importlib
import inspect
import logging
import os
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor, nn

from zoo.canonical_form import check_graph
from zoo.config.metadata import About
from zoo.config.options import (
    Count,
    Few,
    Fraction,
    NonNegative,
    Number,
    Positive,
    Rate,
    Seed,
    Spec,
    Table,
    Within,
)
from zoo.contract import Given, check_answer, check_class, check_parts
from zoo.errors import ZooError, file_of
from zoo.failures import FAILURES, check_rows, explain
from zoo.tracing import note

__all__ = [
    "MODELS",
    "Count",
    "Fraction",
    "Few",
    "Model",
    "NonNegative",
    "Number",
    "Output",
    "Positive",
    "Rate",
    "Seed",
    "Spec",
    "Within",
    "ZooError",
    "discover",
    "name_of",
    "register_model",
]

MODELS: "Table[type[Model]]" = Table("model", {})
"""Every registered model: name to class. Call `discover()` before reading it."""

ENTRY_POINTS = "graph_transformer_zoo.models"
"""The entry-point group in which other packages announce modules that register models."""

_HOMES = "zoo.models", "zoo.sequences"
_seen_plugins: set[str] = set()


class Output(NamedTuple):
    """What a model returns, always.

    Attributes:
        logits: (N, out_dim), one row per node.
        penalty: scalar that the training loop adds to the loss; 0 where a model has none.
    """

    logits: Tensor
    penalty: Tensor | float = 0.0


class Model(nn.Module):
    """The contract of a model: `Model(in_dim, out_dim, *, options)` maps a graph to logits.

    A subclass defines `features` and a linear `head`. Weights whose shape depends on the data set
    live in attributes whose names start with `stem` or `head`; all others move to any other graph.

    Attributes:
        config: how the model was made: `in_dim`, `out_dim` and the options that were given.
        about: what is known of its weights, as `zoo.load` has found it.
        tokenizer: of a model of text, the content of its `tokenizer.json`; else None.
        paper: where the model comes from.
        tasks: the words of the tasks that it can be trained for.
        alone: whether it answers for each node from that node's features alone.
        edge_weights: whether weights of edges count: in propagation along edges, and in attention
            to neighbours. Attention over all nodes ignores them.
        search: options that `zoo tune` tries: a list, or a range `{"low": ..., "high": ...}`.
    """

    paper: ClassVar[str] = ""
    tasks: ClassVar[tuple[str, ...]] = (
        "node-classification",
        "node-binary",
        "node-multilabel",
        "node-regression",
        "graph-classification",
        "sequence-classification",
        "node-forecasting",
    )
    alone: ClassVar[bool] = False
    edge_weights: ClassVar[bool] = True
    search: ClassVar[dict[str, Any]] = {}
    head: nn.Module
    config: dict[str, Any]
    about: About = About()
    tokenizer: str | None = None

    def __new__(cls, in_dim: int = 0, out_dim: int = 0, **options: Any):
        """Remember how the model was made, so that it can be saved and made again."""
        model = super().__new__(cls)
        options = copy.deepcopy(options)  # the caller's own may change
        model.__dict__["config"] = {"in_dim": in_dim, "out_dim": out_dim, **options}
        model.__dict__["_answered"] = ()
        return model

    def __call__(self, graph: Any, x: Tensor) -> Output:
        """Return `forward(graph, x)`; the first answers are held against the contract.

        Where `torch.compile` traces it, it is `forward` alone.

        Raises:
            ZooError: the graph, the features or the model itself are not what they have to be.
        """
        if torch.compiler.is_compiling():
            note(graph)
            return super().__call__(graph, x)
        check_graph(graph)
        if self._compiled_call_impl is not None:
            note(graph)
        try:
            check_rows(self, graph, x)
            if self.training in self._answered:
                return super().__call__(graph, x)
            return self._answer_first(graph, x)
        except FAILURES as error:
            explain(self, graph, x, error)
            raise

    def _answer_first(self, graph: Any, x: Tensor) -> Output:
        """Answer for the first time in training, or in evaluation."""
        check_parts(self)
        given = Given.of(x, self.rows(graph, x))
        output = super().__call__(graph, x)
        try:
            check_answer(self, given, output, Output, first=not self._answered)
        except ZooError as error:
            raise ZooError(f"{error} The model is {_place(type(self))}.") from None
        self.__dict__["_answered"] += (self.training,)
        return output

    def features(self, graph, x: Tensor) -> Tensor:
        """Return what the head reads, (N, dim), from a graph and node features x (N, in_dim)."""
        raise NotImplementedError(f"{type(self).__name__} does not define features(graph, x)")

    def forward(self, graph: Any, x: Tensor) -> Output:
        """Return one row of logits per node of a graph, or of a batch of graphs.

        Args:
            graph: a canonical DGLGraph of N nodes; a batch of graphs is treated graph by graph.
            x: node features (N, in_dim).
        """
        hidden = self.features(graph, x)
        return Output(self.head(hidden))

    def answer_in_units(self, mean: Tensor, deviation: Tensor) -> None:
        """Have the head answer in the units of targets, which it learns as if standardised.

        Whatever calls the head, its output o (N, T) becomes mean + o * deviation, in fp32 at least.

        Args:
            mean: of the targets, (T,).
            deviation: of the targets, (T,), above 0.
        """
        first = self.units is None
        self.head.register_buffer("target_mean", mean, persistent=False)
        self.head.register_buffer("target_deviation", deviation, persistent=False)
        if first:
            self.head.register_forward_hook(_in_units)

    @property
    def units(self) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the targets that the head answers in, (T,) each; None: as is."""
        known = dict(self.head.named_buffers(recurse=False))
        names = ("target_mean", "target_deviation")
        return tuple(known[each] for each in names) if names[0] in known else None

    def rows(self, graph: Any, x: Tensor) -> int:
        """Return how many rows of logits it owes for what it is given: one for each node."""
        return len(x)

    def begin_epoch(self, epoch: int) -> None:
        """Be told that an epoch begins, 0 first; a model with phases switches them here.

        The phase is the model's own state: it belongs in a registered buffer, so that it is saved
        and loaded with the weights.
        """

    def phase_starts(self) -> tuple[int, ...]:
        """Return the epochs, after epoch 0, in which a new phase of training is still to begin.

        Asked once, before training. Before it announces such an epoch by `begin_epoch`, the loop
        goes back to the weights and the optimiser of the best validation epoch so far.
        """
        return ()

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return parameter groups for the optimiser; a group may set its own `weight_decay`."""
        return [{"params": list(self.parameters())}]

    def train(self, mode: bool = True) -> Self:
        """Switch to training; modules whose own weights are all frozen stay in eval mode.

        A frozen batch norm keeps using its running statistics.
        """
        super().train(mode)
        for module in self.modules():
            own = list(module.parameters(recurse=False))
            module.training &= not own or any(each.requires_grad for each in own)
        return self


def _in_units(head: nn.Module, _, output: Tensor) -> Tensor:
    wide = output.to(torch.promote_types(output.dtype, torch.float32))
    return head.target_mean + wide * head.target_deviation


def register_model(name: str) -> Callable[[type[Model]], type[Model]]:
    """Register a class of the contract `Model` under a name: `@register_model("sgformer")`.

    The same class of the same file may be registered again (a notebook cell, a reload).

    Raises:
        ZooError: the name is taken by another class, the class is not a `Model`, or an option of it
            has no annotation or is not keyword-only.
    """

    def register(model: type[Model]) -> type[Model]:
        if not (inspect.isclass(model) and issubclass(model, Model)):
            raise ZooError(f"{name!r} cannot be registered: {model!r} is not a zoo.Model class.")
        check_class(model)
        held = MODELS.get(name, model)
        if _identity(held) != _identity(model):
            raise ZooError(
                f"two models want the name {name!r}: {_place(held)} and {_place(model)}. "
                "Register one of them under another name."
            )
        MODELS[name] = model
        return model

    return register


def name_of(model: type[Model]) -> str | None:
    """Return the name under which a class, or an older version of it, is registered."""
    itself = [name for name, held in MODELS.items() if held is model]
    older = [name for name, held in MODELS.items() if _identity(held) == _identity(model)]
    return next(iter(itself or older), None)


def discover() -> None:
    """Import the zoo's own models and those that other packages announce as entry points.

    A plug-in that fails to import is logged once and skipped: it cannot break the others.
    """
    for home in _HOMES:
        importlib.import_module(home)
    for plugin in _announced(tuple((each, _changed(each)) for each in sys.path)):
        if plugin.value in _seen_plugins:
            continue
        _seen_plugins.add(plugin.value)
        try:
            plugin.load()
        except Exception as error:  # a stranger's module may raise anything
            logging.getLogger(__name__).warning(
                "models of %s are missing: it failed to import: %s", plugin.value, error
            )


def leave_out_plugins() -> None:
    """Let `discover` import none of what other packages announce.

    For the zoo's own pages and tests, whose rules are not those of a user's package.
    """
    _seen_plugins.update(each.value for each in entry_points(group=ENTRY_POINTS))


@functools.lru_cache(maxsize=1)
def _announced(folders: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Return what packages announce, read anew where a folder of them has changed.

    To read it takes as long as to check a recipe, and is asked for with every model and recipe.
    """
    return tuple(entry_points(group=ENTRY_POINTS))


def _changed(folder: str) -> int:
    """Return when something was last put into a folder or taken away, 0 where there is none."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def _identity(model: type) -> tuple[str, str]:
    return model.__qualname__, file_of(model)


def _place(model: type) -> str:
    try:
        line = inspect.getsourcelines(model)[1]
    except (TypeError, OSError):
        line = 0
    return f"{model.__qualname__} ({file_of(model)}:{line})"
