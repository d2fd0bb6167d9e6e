"""Loading a state dict in part: the weights that agree in name and shape."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from zoo.config.metadata import About
from zoo.config.recipe import word
from zoo.errors import ZooError
from zoo.nn.codebook_attention import CodebookAttention

OF_ALL = {"decoder": "head_decoder.", "readout": "head_readout.", "encoding": "stem_encoding."}
"""Options that every model takes to the prefix of their weights, which not all models have."""

DATA_SIZED = ("stem", "head")
"""Prefixes of the names of weights whose shape depends on `in_dim`, and on `out_dim`."""


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
    report = compare(model, {name: weight for name, weight in state.items() if keep(name)})
    unused = [name for name in state if name not in report.loaded]
    model.load_state_dict({**model.state_dict(), **{name: state[name] for name in report.loaded}})
    return report._replace(unused=unused)


def compare(model: nn.Module, state: dict[str, Tensor]) -> Transfer:
    """Return what `transfer` would do, without doing it.

    A module that keeps what it was given in training takes the shape of what another one kept.
    """
    for name, module in model.named_modules():
        if isinstance(module, CodebookAttention):
            module.take_shapes(state, f"{name}.")
    own = model.state_dict()
    loaded = [name for name in own if name in state and state[name].shape == own[name].shape]
    fresh = [name for name in own if name not in loaded]
    return Transfer(loaded, fresh, [name for name in state if name not in loaded])


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
    report, own = compare(model, state), model.state_dict()
    missing = [name for name in report.fresh
               if not name.startswith(DATA_SIZED) or name not in state]  # fmt: skip
    of_all = (*OF_ALL.values(),)
    missing = [name for name in missing if not name.startswith(of_all)]
    unexpected = [name for name in state if name not in own and not name.startswith(of_all)]
    if missing or unexpected:
        raise ZooError(
            "the weights are of another model, or of one with other options: missing or of "
            f"another shape: {shortened(missing)}; not in the model: {shortened(unexpected)}. Give "
            "the model the options that are in their config.json."
        )
    dropped = tuple(part for part in DATA_SIZED if part not in parts)
    return transfer(model, state, lambda name: not name.startswith(dropped))


def with_same_parts(model: Any, stored: Any) -> dict[str, Tensor]:
    """Return stored weights with those of their decoder, readout or encoding if they are a model's.

    Others have weights of the same names and shapes which mean something else.

    Args:
        model: a new model.
        stored: content of a folder, as of `read_folder`.
    """
    state = stored.state
    for option, prefix in OF_ALL.items():
        own, theirs = (
            {key: weight.shape for key, weight in weights.items() if key.startswith(prefix)}
            for weights in (model.state_dict(), state)
        )
        words = [word(config.get(option) or "") for config in (model.config, stored.config)]
        if own != theirs or words[0] != words[1]:
            state = {key: weight for key, weight in state.items() if key not in theirs}
    return state


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
    for name, weight in state.items():
        wanted = own[name].dtype
        if weight.dtype != wanted and (weight.dtype, wanted) != (torch.float16, torch.float32):
            raise ZooError(f"{name} is of type {weight.dtype} and should be {wanted}.")
        if not torch.isfinite(weight).all():
            raise ZooError(f"{name} holds numbers that are not finite: copy or train it again.")


def in_units_of(model: Any, about: About) -> None:
    """Have a model whose head has been loaded answer in the units of its training data."""
    if about.target is not None:
        model.answer_in_units(*map(torch.tensor, about.target), log=about.target_log)


def shortened(names: list[str], most: int = 6) -> str:
    """Return names as a text, abbreviated where there are many."""
    shown = ", ".join(name if len(name) <= 80 else f"{name[:77]}..." for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"
