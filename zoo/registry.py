"""The registry of models and the contract that every one of them keeps."""

import copy
import functools
import importlib
import inspect
import logging
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

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
    pick,
)
from zoo.errors import ZooError, file_of, unknown
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

MODELS: "Table[type[Model]]" = Table(
    "model",
    {
        "gcn-gru": "zoo.sequences.gcn_gru:GCNGRU",
        "gru": "zoo.sequences.gru:GRU",
        "htgn-seq2seq": "zoo.sequences.htgn_seq2seq:HTGNSeq2Seq",
        "transformer-seq2seq": "zoo.sequences.transformer_seq2seq:TransformerSeq2Seq",
        "vit": "zoo.sequences.vit:ViT",
    },
)
"""Every registered model: name to class. Call `discover()` before reading it.

Models of sequences are imported when a recipe, or a list, asks for them.
"""

ENTRY_POINTS = "graph_transformer_zoo.models"
"""The entry-point group in which other packages announce modules that register models."""

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
        folder: where `zoo.load` has found them; else None.
        tokenizer: of a model of text, the content of its `tokenizer.json`; else None.
        paper: where the model comes from.
        tasks: the words of the tasks that it can be trained for.
        alone: whether it answers for each node from that node's features alone.
        context: whether it is given labels besides, and called as `model(graph, x, context)`: of
            the nodes that are not asked about, see `forward`.
        any_graph: whether its weights depend on the number of neither features nor classes, so that
            they answer for any graph as they are.
        pair_bias: what its attention reads of each pair of nodes: `none`, numbers for its
            `scores`, or `states`; only the attentions that take this are its to choose from.
        edge_weights: whether weights of edges count: in propagation along edges, and in attention
            to neighbours. Attention over all nodes ignores them.
        without: options of other models that it cannot have, each with the reason.
        search: options that `zoo tune` tries: a list, or a range `{"low": ..., "high": ...}`.
        stem_encoding: of an encoding with weights, the network that makes columns of its numbers.
        head_decoder: of link prediction, what makes a score of two nodes' logits.
        head_readout: of graphs, what makes an answer for each of the logits of its nodes.
    """

    paper: ClassVar[str] = ""
    tasks: ClassVar[tuple[str, ...]] = (
        "node-classification",
        "node-binary",
        "node-multilabel",
        "node-regression",
        "graph-classification",
        "graph-binary",
        "graph-multilabel",
        "graph-regression",
        "sequence-classification",
        "node-forecasting",
        "link-prediction",
    )
    alone: ClassVar[bool] = False
    context: ClassVar[bool] = False
    any_graph: ClassVar[bool] = False
    pair_bias: ClassVar[Literal["none", "scores", "states"]] = "none"
    edge_weights: ClassVar[bool] = True
    without: ClassVar[dict[str, str]] = {}
    search: ClassVar[dict[str, Any]] = {}
    head: nn.Module
    config: dict[str, Any]
    about: About = About()
    folder: Path | None = None
    tokenizer: str | None = None
    stem_encoding: nn.Module
    head_decoder: nn.Module
    head_readout: nn.Module

    def __new__(cls, in_dim: int = 0, out_dim: int = 0, **options: Any):
        """Remember how the model was made, so that it can be saved and made again."""
        model = super().__new__(cls)
        options = copy.deepcopy(options)  # the caller's own may change
        model.__dict__["config"] = {"in_dim": in_dim, "out_dim": out_dim, **options}
        model.__dict__["_answered"] = ()
        return model

    def __call__(self, graph: Any, x: Tensor, context: Tensor | None = None) -> Output:
        """Return `forward(graph, x)`; the first answers are held against the contract.

        A model of `context` is given that too: `forward(graph, x, context)`.

        Where `torch.compile` traces it, it is `forward` alone.

        Raises:
            ZooError: the graph, the features or the model itself are not what they have to be.
        """
        if torch.compiler.is_compiling():
            note(graph)
            return super().__call__(graph, self.encoded(graph, x), *self._given(context))
        check_graph(graph)
        if self._compiled_call_impl is not None:
            note(graph)
        try:
            check_rows(self, graph, x)
            inputs = (graph, self.encoded(graph, x), *self._given(context))
            if self.training in self._answered:
                return super().__call__(*inputs)
            return self._answer_first(*inputs)
        except FAILURES as error:
            explain(self, graph, x, error)
            raise

    def _given(self, context: Tensor | None) -> tuple[Tensor, ...]:
        """Return the labels that it is given, if it is a model that is given any."""
        name = type(self).__name__
        if self.context and context is None:
            raise ZooError(
                f"{name} answers by the labels of other nodes: call `model(graph, x, context)`, "
                "context (N,) their classes, -1 where a node has none or is asked about; of a data "
                "set `data.with_context(split.train).context`."
            )
        if context is not None and not self.context:
            raise ZooError(f"{name} is given no labels; write `model(graph, x)`.")
        return () if context is None else (context,)

    def _answer_first(self, graph: Any, x: Tensor, *context: Tensor) -> Output:
        """Answer for the first time in training, or in evaluation."""
        check_parts(self)
        given = Given.of(x, self.rows(graph, x))
        output = super().__call__(graph, x, *context)
        try:
            check_answer(self, given, output, Output, first=not self._answered)
        except ZooError as error:
            raise ZooError(f"{error} The model is {_place(type(self))}.") from None
        self.__dict__["_answered"] += (self.training,)
        return output

    def encoded(self, graph: Any, x: Tensor) -> Tensor:
        """Return what `features` and `forward` read, for features x (N, in_dim) of a graph.

        That is x itself; of a model with an encoding that has weights, x with what they make of its
        last columns in the place of these.
        """
        if not hasattr(self, "stem_encoding"):
            return x
        own, columns = x.tensor_split([x.shape[1] - self.stem_encoding.columns], dim=1)
        return torch.cat([own, self.stem_encoding(graph, columns).to(own.dtype)], dim=1)

    def features(self, graph, x: Tensor) -> Tensor:
        """Return what the head reads, (N, dim), from a graph and features x as of `encoded`.

        That of a model of `context` is `features(graph, x, context)`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define features(graph, x)")

    def forward(self, graph: Any, x: Tensor, *context: Tensor) -> Output:
        """Return one row of logits per node of a graph, or of a batch of graphs.

        Args:
            graph: a canonical DGLGraph of N nodes; a batch of graphs is treated graph by graph.
            x: node features (N, in_dim).
            context: of a model that declares `context`, the labels that it may look at: classes
                (N,) int64, -1 where unknown, or numbers (N,) or (N, T), NaN where unknown. That of
                a node that is asked about is never among them.
        """
        hidden = self.features(graph, x, *context)  # type: ignore[call-arg]
        if not isinstance(hidden, Tensor):
            raise ZooError(
                f"`features` of {type(self).__name__} returned a {type(hidden).__name__}, and "
                "`head` reads one tensor (N, dim). Return that alone; a penalty goes into "
                "`Output(logits, penalty)` of a `forward` of your own."
            )
        return Output(self.head(hidden))

    def score_pairs(self, logits: Tensor, pairs: Tensor) -> Tensor:
        """Return the scores of pairs (..., 2) of nodes, by the decoder, for logits (N, E).

        Raises:
            ZooError: the model has no decoder.
        """
        if not hasattr(self, "head_decoder"):
            raise ZooError(
                f"this {type(self).__name__} says nothing of pairs of nodes; train one by "
                "`task=link-prediction`."
            )
        source, target = pairs.flatten(0, -2).unbind(-1)
        scores = self.head_decoder(logits[source], logits[target])
        return scores.reshape(pairs.shape[:-1])

    def read_graphs(self, logits: Tensor, sizes: Tensor) -> Tensor:
        """Return the answers for graphs, (B, C), for logits (n, E) and their sizes (B,).

        Raises:
            ZooError: the model has no readout.
        """
        if not hasattr(self, "head_readout"):
            raise ZooError(
                f"this {type(self).__name__} has no readout; make one with `readout=`, a word of "
                "`zoo list readouts`, or take the mean of the logits of each graph."
            )
        return self.head_readout(logits, sizes)

    def answer_in_units(self, mean: Tensor, deviation: Tensor, log: bool = False) -> None:
        """Have the head answer in the units of targets, which it learns as if standardised.

        Whatever calls the head, its output o (N, T) becomes mean + o * deviation, in fp32 at least.

        Args:
            mean: of the targets, (T,).
            deviation: of the targets, (T,), above 0.
            log: both are of log(1 + y), and the answer is exp(mean + o * deviation) - 1.
        """
        first, last = self.units is None, self._last
        last.target_log = log
        last.register_buffer("target_mean", mean, persistent=False)
        last.register_buffer("target_deviation", deviation, persistent=False)
        if first:
            last.register_forward_hook(_in_units)

    @property
    def units(self) -> tuple[Tensor, Tensor] | None:
        """Mean and deviation of the targets that the head answers in, (T,) each; None: as is."""
        known = dict(self._last.named_buffers(recurse=False))
        names = ("target_mean", "target_deviation")
        return tuple(known[name] for name in names) if names[0] in known else None

    @property
    def logarithmic(self) -> bool:
        """Whether `units` are those of log(1 + y)."""
        return self.units is not None and self._last.target_log

    def in_own_units(self, context: Tensor) -> Tensor:
        """Return labels that it is given in the units in which the head answers, see `units`."""
        if self.units is None or not context.is_floating_point():
            return context
        mean, deviation = self.units
        rows = context.reshape(len(context), -1)
        rows = rows.log1p() if self.logarithmic else rows
        return ((rows - mean) / deviation).reshape(context.shape)

    @property
    def _last(self) -> nn.Module:
        """What gives the answers: the readout of a model of graphs that has one, else the head."""
        return getattr(self, "head_readout", self.head)

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
            module.training &= not own or any(parameter.requires_grad for parameter in own)
        return self


LARGEST_LOG = 80.0
"""At most of this an answer is the exponent: that of more is no number of fp32."""


def _in_units(head: nn.Module, _, output: Tensor) -> Tensor:
    wide = output.to(torch.promote_types(output.dtype, torch.float32))
    out = head.target_mean + wide * head.target_deviation
    return out.clamp(max=LARGEST_LOG).expm1() if head.target_log else out


def register_model(name: str) -> Callable[[type[Model]], type[Model]]:
    """Register a class of the contract `Model` under a name: `@register_model("sgformer")`.

    The same class of the same file may be registered again (a notebook cell, a reload).

    Raises:
        ZooError: the name is taken by another class, the class is not a `Model`, an option of it
            has no annotation or is not keyword-only, or its `search` names one that it has not.
    """

    def register(model: type[Model]) -> type[Model]:
        if not (inspect.isclass(model) and issubclass(model, Model)):
            raise ZooError(f"{name!r} cannot be registered: {model!r} is not a zoo.Model class.")
        check_class(model)
        own_place = f"{model.__module__}:{model.__qualname__}"
        held = model if dict.get(MODELS, name) == own_place else MODELS.get(name, model)
        if _identity(held) != _identity(model):
            raise ZooError(
                f"two models want the name {name!r}: {_place(held)} and {_place(model)}. "
                "Register one of them under another name."
            )
        MODELS[name] = model
        return model

    return register


def build_body(spec: Spec | None, dim: int) -> tuple[Model | None, int]:
    """Return a model without its head, to be asked for its `features`, and how wide these are.

    Args:
        spec: the word of a model, with its options; None: no model.
        dim: number of features that it reads.

    Raises:
        ZooError: an unknown word or option, or a head that is not linear.
    """
    if spec is None:
        return None, dim
    body = pick(MODELS, spec, dim, 1)
    if not isinstance(body.head, nn.Linear) or body.context:
        raise ZooError(f"{type(body).__name__} is no body: its head is not one linear map.")
    width, body.head = body.head.in_features, nn.Identity()
    return body, width


def name_of(model: type[Model]) -> str | None:
    """Return the name under which a class, or an older version of it, is registered."""
    models = MODELS.imported()
    itself = [name for name, held in models.items() if held is model]
    older = [name for name, held in models.items() if _identity(held) == _identity(model)]
    return next(iter(itself or older), None)


def discover() -> None:
    """Import the zoo's own models and those that other packages announce as entry points.

    A plug-in that fails to import is logged once and skipped: it cannot break the others.
    """
    importlib.import_module("zoo.models")
    for plugin in _announced():
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
    _seen_plugins.update(entry.value for entry in entry_points(group=ENTRY_POINTS))


@functools.cache
def _announced() -> tuple[EntryPoint, ...]:
    """Return what packages announce, read once: it takes as long as to check a recipe."""
    return tuple(entry_points(group=ENTRY_POINTS))


def _identity(model: type) -> tuple[str, str]:
    return model.__qualname__, file_of(model)


def _place(model: type) -> str:
    try:
        line = inspect.getsourcelines(model)[1]
    except (TypeError, OSError):
        line = 0
    return f"{model.__qualname__} ({file_of(model)}:{line})"


OUTPUT_LIKE = ("classifier", "classify", "output", "out", "predict", "decoder", "readout", "fc")
"""What heads are called elsewhere."""

_OWN = frozenset(vars(nn.Module()))


def check_class(model: type[nn.Module]) -> None:
    """Look at the signature of a model that is to be registered, and at what is searched of it.

    Raises:
        ZooError: an option without annotation, one that is not keyword-only, no signature, or a
            `search` of an option that it has not.
    """
    name, build = model.__name__, model.__init__
    form = "`def __init__(self, in_dim: int, out_dim: int, *, dim: Count = 64)`"
    given = [] if build is nn.Module.__init__ else list(inspect.signature(build).parameters)[1:]
    if given[:2] != ["in_dim", "out_dim"]:
        raise ZooError(
            f"{name}.__init__ has to take `in_dim` and `out_dim` first, the numbers of features "
            f"and of logits, then its options. Write {form}."
        )
    for option in list(inspect.signature(build).parameters.values())[3:]:
        if option.kind in (option.VAR_POSITIONAL, option.VAR_KEYWORD):
            raise ZooError(
                f"{name}.__init__ takes `{option}`, so that nobody can see or check its options. "
                f"Spell each of them out behind a `*`: {form}."
            )
        if option.kind is not option.KEYWORD_ONLY:
            raise ZooError(
                f"the option `{option.name}` of {name} is not keyword-only, so no recipe can set "
                f"it. Put a `*` behind `out_dim`: {form}."
            )
        if option.annotation is option.empty:
            raise ZooError(
                f"the option `{option.name}` of {name} has no annotation, so its values cannot be "
                f"checked. Write its type, such as `{option.name}: Count = 64` for a number from "
                "1; `Rate`, `Positive`, `bool`, `Literal[...]` and others: see zoo.config.options."
            )
    for option in vars(model).get("search", {}):  # one that is inherited may hold more
        if option not in inspect.signature(build).parameters:
            options = list(inspect.signature(build).parameters)[3:]
            raise ZooError(f"`search` of {name}: {unknown('option', option, options)}")


def check_head(model: nn.Module, out_dim: int) -> None:
    """Look whether the head of a model just made gives as many logits as it was asked for.

    Raises:
        ZooError: it gives another number.
    """
    width = getattr(model.head, "out_features", out_dim)
    if width != out_dim:
        raise ZooError(
            f"the head of {type(model).__name__} gives {width} logits, and {out_dim} were asked "
            "for. Write `self.head = nn.Linear(dim, out_dim)`."
        )


def check_parts(model: nn.Module) -> None:
    """Look at the parts of a model that has been made.

    Raises:
        ZooError: it has no head, or layers where torch does not find them.
    """
    name = type(model).__name__
    if not isinstance(getattr(model, "head", None), nn.Module):
        other = [key for key, _ in model.named_children() if key.lower() in OUTPUT_LIKE]
        rename = f"Its `{other[0]}` seems to be one: call it `head`, " if other else "Write it as "
        raise ZooError(
            f"{name} has no `head`, the module that maps what `features` returns to logits; "
            "training, probing and new numbers of classes look for it under this name. "
            f"{rename}`self.head = nn.Linear(dim, out_dim)`, and let `features` end before it."
        )
    hidden = next(_hidden(model), None)
    if hidden is not None:
        where, kind = hidden
        fix = "nn.ModuleDict({...})" if kind == "dict" else "nn.ModuleList([...])"
        raise ZooError(
            f"`{where}` of {name} is a Python {kind} that holds layers: torch does not find their "
            "weights there, so they would not be trained, saved or moved to a GPU. Write "
            f"`self.{where.rpartition('.')[2]} = {fix}`."
        )


def _hidden(model: nn.Module) -> Iterator[tuple[str, str]]:
    """Find containers that hold weights of modules which the model does not know."""
    known = {id(parameter) for parameter in model.parameters()}
    for path, module in model.named_modules():
        for key in vars(module).keys() - _OWN:
            value = vars(module)[key]
            if any(id(weight) not in known for weight in _weights(value)):
                yield f"{path}.{key}".lstrip("."), type(value).__name__


def _weights(value: object) -> Iterator[nn.Parameter]:
    """Return the weights inside a Python container."""
    if isinstance(value, list | tuple | set | dict):
        for item in value.values() if isinstance(value, dict) else value:
            if isinstance(item, nn.Module):
                yield from item.parameters()
            elif isinstance(item, nn.Parameter):
                yield item
            else:
                yield from _weights(item)


class Given(NamedTuple):
    """What a model was given in a call, for the answer to be held against.

    Attributes:
        x: its features (N, in_dim), or tokens (N,).
        rows: how many rows of logits it owes.
        version: how often they had been changed in place; None where torch does not count.
    """

    x: Any
    rows: int
    version: int | None

    @classmethod
    def of(cls, x: Any, rows: int) -> "Given":
        """Note the present state of features."""
        counted = isinstance(x, Tensor) and not x.is_inference()
        return cls(x, rows, x._version if counted else None)


def check_answer(model: nn.Module, given: Given, output: Any, kind: type, first: bool) -> None:
    """Look at what a model returned, and at what it did to what it was given.

    Args:
        model: the one that answered.
        given: what it was given, noted before.
        output: what it returned.
        kind: the class that it should be of.
        first: whether it has never answered before; numbers are looked at only then.

    Raises:
        ZooError: it keeps the contract in none of these.
    """
    name = type(model).__name__
    if not isinstance(output, kind):
        raise ZooError(
            f"forward of {name} returned a {type(output).__name__}; a model returns `zoo.Output`, "
            "always. Write `return Output(logits)`, or `Output(logits, penalty)`, with `from zoo "
            "import Output`; or leave `forward` out and define `features` and `head` alone."
        )
    logits, rows = output.logits, given.rows
    if not isinstance(logits, Tensor) or logits.dim() != 2 or len(logits) != rows:
        shown = tuple(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise ZooError(
            f"{name} returned logits {shown} for {rows} nodes; there has to be one row per node, "
            f"({rows}, out_dim). Where `features` takes a mean or a sum over the nodes, give it "
            "back to each of them: `h + h.mean(0, keepdim=True)`. One row per graph is no task of "
            "the zoo."
        )
    if given.version is not None and given.x._version != given.version:
        raise ZooError(
            f"{name} changed its input x in place, and with it the features of the data set, a "
            "little more in every step. Write `x = 2 * x` in the place of `x *= 2`, `x.relu()` in "
            "the place of `x.relu_()`, `F.dropout(x, p, self.training)` without `inplace`. The "
            "features in memory are changed already: load the data set again."
        )
    if first and logits.device.type != "meta" and not _finite(logits):
        raise ZooError(f"the first logits of {name} are not finite: {_reason(model, given.x)}")


def _finite(x: Tensor) -> bool:
    """Return whether every number is finite, without a tensor of their number."""
    return bool(x.detach().sum(dtype=torch.float64 if x.dtype is torch.float64 else torch.float32)
                .isfinite())  # fmt: skip


def _reason(model: nn.Module, x: Tensor) -> str:
    if not _finite(x):
        return (
            "the features x hold numbers that are not. Fill them first, for example by "
            "`x.nan_to_num()`."
        )
    spoilt = [key for key, value in model.named_parameters() if not value.isfinite().all()]
    if spoilt:
        return (
            f"the weights {', '.join(spoilt[:4])} were never given a value, or one that is not. "
            "`torch.empty` holds whatever was in memory: write `nn.init.xavier_uniform_(weight)`, "
            "or `torch.zeros`."
        )
    return (
        "features and weights are, so a step in between divides by zero or takes a logarithm or a "
        "root of what may be zero. Write `x / norm.clamp(min=1e-6)` or `(x + 1e-6).log()` there; "
        "`torch.autograd.set_detect_anomaly(True)` finds the place in the gradient."
    )


def check_encoding(encoding: object, rows: int) -> None:
    """Refuse what is no encoding of a graph, a tensor (N, k).

    Raises:
        ZooError: it is something else, or has not as many rows as the graph has nodes.
    """
    shape = tuple(encoding.shape) if isinstance(encoding, Tensor) else type(encoding).__name__
    if not (isinstance(shape, tuple) and len(shape) == 2 and shape[0] == rows):
        raise ZooError(
            f"an encoding returns a tensor (N, k), here of {rows:,} rows, and this one returned "
            f"{shape}. Correct the function that is in the table of encodings."
        )


def as_values(out: object, v: Tensor) -> Tensor:
    """Return what an attention made of values (..., N, H, E), which is of their shape.

    Raises:
        ZooError: it is not.
    """
    if isinstance(out, Tensor) and out.shape == v.shape:
        return out
    returned = f"a tensor {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
    raise ZooError(
        f"an attention returns a tensor (..., N, H, D), a row for each of its values, here "
        f"{tuple(v.shape)}, and this one returned {returned}. Correct the function its builder "
        "returns."
    )


FAILURES = (RuntimeError, TypeError, ValueError, IndexError, AttributeError)
"""What torch raises where shapes and types do not fit together."""


def check_rows(model: nn.Module, graph: Any, x: Any) -> None:
    """Look whether there is a row of features for each node of a graph.

    Raises:
        ZooError: there are more, or fewer.
    """
    of_nodes = hasattr(graph, "adj_tensors") and isinstance(x, Tensor)
    if of_nodes and x.shape[:1] != (graph.num_nodes(),):
        raise ZooError(f"{type(model).__name__}: {_of_input(model, graph, x)}")


def explain(model: nn.Module, graph: Any, x: Any, error: Exception) -> None:
    """Raise in plain words what made a call fail, where it can be seen; else return.

    Raises:
        ZooError: features that do not fit the model or the graph, or no graph.
    """
    if isinstance(error, ZooError):
        return
    said = _of_input(model, graph, x)
    if said is None and graph is None and "NoneType" in str(error):
        said = "it looks along the edges of a graph, and was given None for one."
    if said:
        raise ZooError(f"{type(model).__name__}: {said}") from error


def _of_input(model: nn.Module, graph: Any, x: Any) -> str | None:
    if not isinstance(x, Tensor):
        return f"x is a {type(x).__name__}, not a tensor: write `torch.as_tensor(x).float()`."
    wanted = model.config["in_dim"]
    nodes = x.shape[:1].numel() if graph is None else int(sum(graph.batch_num_nodes()))
    if (x.dim() == 1 and x.dtype == torch.int64) or "translation" in type(model).tasks:
        return _of_tokens(x, nodes, wanted)
    if x.dim() != 2 or len(x) != nodes:
        return f"x is {tuple(x.shape)}, and has to be ({nodes}, {wanted}): a row for each node."
    if x.shape[1] != wanted:
        return (
            f"x has {x.shape[1]} features per node, and the model was made for {wanted}. Make it "
            f"with `in_dim={x.shape[1]}`, or `zoo.create_model(name, data.x.shape[1], ...)`; an "
            "encoding adds columns as well."
        )
    kind = next((parameter.dtype for parameter in model.parameters()), x.dtype)
    if not x.is_floating_point() or (
        x.dtype != kind and not torch.is_autocast_enabled(x.device.type)
    ):
        return f"x is of {x.dtype} and the weights are of {kind}: write `x.to({kind})`."
    return None


def _of_tokens(x: Tensor, places: int, words: int) -> str | None:
    if x.shape == (places,) and not x.is_floating_point() and ((x >= 0) & (x < words)).all():
        return None
    return f"x has to be {places} tokens from 0 to {words - 1}, int64, of the model's vocabulary."
