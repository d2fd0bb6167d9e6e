"""What a model's author, or its user, did not mean: found at the door, said in one paragraph.

A class is looked at when it is registered, a model when it has been made, its answer in the first
call in training and in evaluation. No later call costs anything.
"""

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.errors import ZooError

OUTPUT_LIKE = ("classifier", "classify", "output", "out", "predict", "decoder", "readout", "fc")
"""What heads are called elsewhere."""

_OWN = frozenset(vars(nn.Module()))


def check_class(model: type[nn.Module]) -> None:
    """Look at the signature of a model that is to be registered.

    Raises:
        ZooError: an option without annotation, one that is not keyword-only, or no signature.
    """
    name, build = model.__name__, model.__init__
    form = "`def __init__(self, in_dim: int, out_dim: int, *, dim: Count = 64)`"
    given = [] if build is nn.Module.__init__ else list(inspect.signature(build).parameters)[1:]
    if given[:2] != ["in_dim", "out_dim"]:
        raise ZooError(
            f"{name}.__init__ has to take `in_dim` and `out_dim` first, the numbers of features "
            f"and of logits, then its options. Write {form}."
        )
    for each in list(inspect.signature(build).parameters.values())[3:]:
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            raise ZooError(
                f"{name}.__init__ takes `{each}`, so that nobody can see or check its options. "
                f"Spell each of them out behind a `*`: {form}."
            )
        if each.kind is not each.KEYWORD_ONLY:
            raise ZooError(
                f"the option `{each.name}` of {name} is not keyword-only, so no recipe can set "
                f"it. Put a `*` behind `out_dim`: {form}."
            )
        if each.annotation is each.empty:
            raise ZooError(
                f"the option `{each.name}` of {name} has no annotation, so its values cannot be "
                f"checked. Write its type, such as `{each.name}: Count = 64` for a number from 1; "
                "`Rate`, `Positive`, `bool`, `Literal[...]` and others are in zoo.config.options."
            )


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
    known = {id(each) for each in model.parameters()}
    for path, module in model.named_modules():
        for key in vars(module).keys() - _OWN:
            value = vars(module)[key]
            if any(id(weight) not in known for weight in _weights(value)):
                yield f"{path}.{key}".lstrip("."), type(value).__name__


def _weights(value: object) -> Iterator[nn.Parameter]:
    """Return the weights inside a Python container."""
    if isinstance(value, list | tuple | set | dict):
        for each in value.values() if isinstance(value, dict) else value:
            if isinstance(each, nn.Module):
                yield from each.parameters()
            elif isinstance(each, nn.Parameter):
                yield each
            else:
                yield from _weights(each)


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
    spoilt = [key for key, each in model.named_parameters() if not each.isfinite().all()]
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
    found = f"a tensor {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
    raise ZooError(
        f"an attention returns a tensor (..., N, H, D), a row for each of its values, here "
        f"{tuple(v.shape)}, and this one returned {found}. Correct the function that its builder "
        "returns."
    )
