"""Loading a state dict in part: the weights that agree in name and shape."""

import contextlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.config.metadata import About
from zoo.config.options import Count, value_problems
from zoo.errors import ZooError
from zoo.weights.folder import Stored

DATA_SIZED = ("stem", "head")
"""Prefixes of the names of weights whose shape depends on `in_dim`, and on `out_dim`."""

_UNMADE = (RuntimeError, NotImplementedError, ValueError, TypeError, ArithmeticError, MemoryError)
"""Errors that the constructor of a model may raise for options that do not fit together."""


class Transfer(NamedTuple):
    """Names of the weights that were loaded, are still fresh (as initialised), and are unused."""

    loaded: list[str]
    fresh: list[str]
    unused: list[str]


def transfer(
    model: nn.Module, state: dict[str, Tensor], keep: Callable[[str], bool] = lambda name: True
) -> Transfer:
    """Load every weight that agrees in name and shape; the others are unchanged.

    Args:
        model: changed in place.
        state: a state dict.
        keep: whether to load the weight of a name at all.
    """
    report = compare(model, {name: each for name, each in state.items() if keep(name)})
    unused = [name for name in state if name not in report.loaded]
    model.load_state_dict({**model.state_dict(), **{name: state[name] for name in report.loaded}})
    return report._replace(unused=unused)


def compare(model: nn.Module, state: dict[str, Tensor]) -> Transfer:
    """Return what `transfer` would do, without doing it."""
    own = model.state_dict()
    loaded = [name for name in own if name in state and state[name].shape == own[name].shape]
    fresh = [name for name in own if name not in loaded]
    return Transfer(loaded, fresh, [name for name in state if name not in loaded])


def rebuild(
    stored: Stored, make: Callable[..., nn.Module], counts: Iterable[str], changes: dict[str, Any]
) -> nn.Module:
    """Make the model of a folder and load its weights.

    Args:
        stored: content of the folder; everything in it is validated.
        make: `(name, **config)` to a model.
        counts: the options that are sizes: widths, numbers of layers.
        changes: options that differ from the config; stem and head may then stay fresh.

    Raises:
        ZooError: the folder does not hold what it says, or its weights do not fit the changes.
    """
    with naming_imports(stored.about, f"{stored.folder}: "):
        _check_counts(stored, counts)
        check_fit(outline(stored.model, stored.config, make), stored.state)
    config = {**stored.config, **changes}
    sizes = zip(DATA_SIZED, ("in_dim", "out_dim"), strict=True)
    same = [part for part, size in sizes if config[size] == stored.config[size]]
    if config == stored.config:
        with torch.random.fork_rng(devices=[]):  # the initial weights are replaced
            model = make(stored.model, **config)
        model.about, model.tokenizer = stored.about, stored.tokenizer
    else:
        model = make(stored.model, **config)
        if "stem" in same:  # it reads what it has read
            of_head = ("task", "metric", "labels", "target")
            answer = {} if "head" in same else dict.fromkeys(of_head)
            model.about = stored.about.model_copy(update={"scores": None, **answer})
            model.tokenizer = stored.tokenizer
    carry_over(model, stored.state, same)
    if "head" in same:
        in_units_of(model, stored.about)
    return model


def in_units_of(model: Any, about: About) -> None:
    """Have a model whose head has been loaded answer in the units that its weights have learnt."""
    if about.target is not None:
        model.answer_in_units(*map(torch.tensor, about.target))


@contextlib.contextmanager
def naming_imports(
    about: About, place: str = "", done: Sequence[str] | None = None
) -> Iterator[None]:
    """Let an error say what the recipe of the weights imports, but for what is imported already."""
    try:
        yield
    except ZooError as error:
        said = (about.recipe or {}).get("imports")
        named = said if isinstance(said, list) else []
        sources = [each for each in named if isinstance(each, str) and each not in (done or ())]
        how = " ".join(f"--import {shlex.quote(each)}" for each in sources)
        hint = (
            f" The recipe of the weights imports {', '.join(sources)}: import that first, `{how}`."
        )
        raise ZooError(f"{place}{error}{hint if how else ''}") from None


def _check_counts(stored: Stored, counts: Iterable[str]) -> None:
    """Refuse widths and numbers of layers that are larger than the number of all weights."""
    numbers = sum(each.numel() for each in stored.state.values())
    for key in counts:
        size = stored.config.get(key, 1)
        if not value_problems(Count, size, ()) and size > numbers:
            raise ZooError(f"config.json says {key}: {size}, but there are {numbers:,} numbers.")


def outline(name: str, config: dict[str, Any], make: Callable[..., nn.Module]) -> nn.Module:
    """Make a model on the meta device, without memory: a wrong size costs nothing.

    Raises:
        ZooError: it cannot be made.
    """
    try:
        with torch.device("meta"):
            return make(name, **config)
    except _UNMADE:  # a constructor that reads its own weights needs real ones
        pass
    try:
        with torch.random.fork_rng(devices=[]):
            return make(name, **config)
    except _UNMADE as error:
        raise ZooError(
            f"the model of config.json cannot be made ({type(error).__name__}: {error})."
        ) from None


def carry_over(
    model: nn.Module, state: dict[str, Tensor], parts: Iterable[str] = DATA_SIZED
) -> Transfer:
    """Load all weights of another model of the same class; only stem and head may stay fresh.

    Args:
        model: changed in place.
        state: the state dict of the other model.
        parts: which of `stem` and `head` to load, where their shapes agree.

    Raises:
        ZooError: a weight of the body is missing or unexpected; the model is then unchanged.
    """
    report = compare(model, state)
    missing = [name for name in report.fresh if not name.startswith(DATA_SIZED)]
    missing += [name for name in report.fresh if name not in state and name not in missing]
    unexpected = [name for name in state if name not in model.state_dict()]
    if missing or unexpected:
        raise ZooError(
            "the weights are of another model, or of one with other options: missing or of "
            f"another shape: {shortened(missing)}; not in the model: {shortened(unexpected)}. Give "
            "the model the options that are in their config.json."
        )
    dropped = tuple(part for part in DATA_SIZED if part not in parts)
    return transfer(model, state, lambda name: not name.startswith(dropped))


def check_fit(model: nn.Module, state: dict[str, Tensor]) -> None:
    """Check a state dict against a model: complete, of the right shapes and types, and finite.

    Weights of 32 bits may be kept in 16.

    Raises:
        ZooError: a name, a shape or a type that does not fit, or a number that is not finite.
    """
    report, own = compare(model, state), model.state_dict()
    if report.fresh or report.unused:
        raise ZooError(
            "they do not fit the model of config.json: missing or of another shape: "
            f"{shortened(report.fresh)}; not in the model: {shortened(report.unused)}. Use the two "
            "files of one save."
        )
    for name, each in state.items():
        kept_in_half = (each.dtype, own[name].dtype) == (torch.float16, torch.float32)
        if each.dtype != own[name].dtype and not kept_in_half:
            kinds = (str(tensor.dtype).removeprefix("torch.") for tensor in (each, own[name]))
            raise ZooError("{} is of type {} and should be {}.".format(name, *kinds))
        if not torch.isfinite(each).all():
            raise ZooError(f"{name} holds numbers that are not finite: copy or train it again.")


def shortened(names: list[str], most: int = 6) -> str:
    """Return names as a text, abbreviated where there are many."""
    shown = ", ".join(name if len(name) <= 80 else f"{name[:77]}..." for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"
