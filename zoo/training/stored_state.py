"""The state of a training that is stored: checked before it is used; that of the generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.datasets.splits import PARTS
from zoo.training.checksums import Damaged

_UNFIT = (ValueError, TypeError, IndexError, KeyError, OverflowError, RuntimeError)
"""Errors of generators that are given a state that is none."""


def generators() -> dict[str, Any]:
    """Return the state of the global generators of Python, NumPy and torch."""
    kind, keys, *rest = np.random.get_state()
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {
        "python": random.getstate(),
        "numpy": [kind, keys.tolist(), *rest],
        "torch": torch.get_rng_state(),
        "cuda": cuda,
    }


def restore_generators(state: dict[str, Any]) -> None:
    """Give the global generators a state that `generators` returned.

    Raises:
        Damaged: it is none; the generators are as before.
    """
    before = generators()
    try:
        _restore(state)
    except _UNFIT as error:
        _restore(before)
        raise Damaged(f"generators: {error}") from None


def _restore(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    if not all(isinstance(each, Tensor) for each in state["cuda"]):
        raise TypeError("those of CUDA are no tensors")
    for device, each in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
        torch.cuda.set_rng_state(each, device)


def check_stored(own: dict[str, Any], found: dict[str, Any], weights: list[Tensor]) -> None:
    """Hold a stored state of training against that of a training that begins.

    Args:
        own: the state now, of the very model and optimiser that are to go on.
        found: what was stored.
        weights: what the optimiser trains, in its order.

    Raises:
        Damaged: a part is missing, or of another type, shape or length.
    """
    _alike(dict.fromkeys(own), dict.fromkeys(found), "the state")
    for part in ("optimiser", "best", "generators"):
        _alike(dict.fromkeys(own[part]), _keys(found[part], part), part)
    _alike(own["model"], found["model"], "model")
    _alike(own["rates"], found["rates"], "rates")
    _alike(_options(own), _options(found), "optimiser")
    if _numbered(own) != _numbered(found):
        raise Damaged("optimiser: it is that of other weights")
    _check_moments(weights, found["optimiser"]["state"], "optimiser")
    best = found["best"]
    _alike(own["model"] if best["weights"] else {}, best["weights"], "best weights")
    _alike(dict.fromkeys(PARTS, 0.0) if best["scores"] else {}, best["scores"], "best scores")
    _alike({key: own["best"][key] for key in ("starts", "epoch")},
           {key: best[key] for key in ("starts", "epoch")}, "best")  # fmt: skip
    _check_moments(weights, best["moments"], "best")
    epochs, seconds = found["epochs"], found["seconds"]
    if type(epochs) is not int or not isinstance(seconds, list) or len(seconds) != epochs:
        raise Damaged("seconds: there is not one number for each of its epochs")
    _alike([0.0] * epochs, seconds, "seconds")
    scored = bool(best["scores"])
    if found["rates"]["last_epoch"] != epochs or bool(best["weights"]) != scored:
        raise Damaged("its parts are of different epochs")


def _options(state: dict[str, Any]) -> Any:
    """Return the optimiser's options; by which kernel it moves weights, the device says."""
    groups = state["optimiser"]["param_groups"]
    if not isinstance(groups, list) or not all(isinstance(each, dict) for each in groups):
        return groups
    return [{key: each for key, each in group.items() if key != "fused"} for group in groups]


def _numbered(state: dict[str, Any]) -> list[list[int]]:
    return [group["params"] for group in state["optimiser"]["param_groups"]]


def _check_moments(weights: list[Tensor], found: Any, where: str) -> None:
    """Check what an optimiser keeps of each weight: tensors of its shape, and single numbers."""
    for place in _keys(found, where):
        if type(place) is not int or not 0 <= place < len(weights):
            raise Damaged(f"{where}: {place!r} is no weight")
        for name in _keys(found[place], where):
            kept = found[place][name]
            if not isinstance(kept, Tensor) or kept.numel() > 1:
                _alike(weights[place], kept, f"{where}: {name}")


def _keys(found: Any, where: str) -> dict[Any, None]:
    if not isinstance(found, dict):
        raise Damaged(f"{where}: it is {type(found).__name__}")
    return dict.fromkeys(found)


def _alike(own: Any, found: Any, where: str) -> None:
    """Check that nested plain data and tensors are of the types, lengths and shapes of others."""
    if type(own) is not type(found) and not isinstance(own, Tensor | dict):
        raise Damaged(f"{where}: it is {type(found).__name__}, not {type(own).__name__}")
    if isinstance(own, dict):
        if not isinstance(found, dict) or own.keys() != found.keys():
            raise Damaged(f"{where}: it has other names")
        for key, value in own.items():
            _alike(value, found[key], f"{where}: {key}" if isinstance(key, str) else where)
    elif isinstance(own, list | tuple):
        if len(own) != len(found):
            raise Damaged(f"{where}: there are {len(found)}, not {len(own)}")
        for one, other in zip(own, found, strict=True):
            _alike(one, other, where)
    elif isinstance(own, Tensor):
        same = isinstance(found, Tensor) and (own.shape, own.dtype) == (found.shape, found.dtype)
        if not same:
            raise Damaged(f"{where}: it is of another shape or type")
