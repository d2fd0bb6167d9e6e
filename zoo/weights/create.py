"""Models by name, new or from weights, and which there are."""

import fnmatch
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from zoo.config.options import Count, Few, Table, options_of, pick, table_of, value_problems
from zoo.errors import ZooError, unknown
from zoo.registry import MODELS, Model, check_head, check_parts, discover
from zoo.system.memory import available_memory
from zoo.weights.folder import Stored, read_folder
from zoo.weights.index import index, locate
from zoo.weights.transfer import rebuild

WIDE = 2**12
"""A number of a model from which its weights are counted, without memory, before any is made."""


def create_model(
    name: str,
    in_dim: int | None = None,
    out_dim: int | None = None,
    *,
    pretrained: Path | str | None = None,
    unverified: bool = False,
    **options: Any,
) -> Model:
    """Make a model by name.

    Args:
        name: a word of `list_models()`.
        in_dim: number of node features F; may be left out with `pretrained`.
        out_dim: number of logits C; may be left out with `pretrained`.
        pretrained: weights to begin with: a folder, a name of `zoo list models --pretrained`, or
            `hub:OWNER/NAME`. Their options hold unless others are given; stem and head are fresh
            where the number of features, or of logits, is another.
        unverified: begin with weights even if their `config.json` says no checksum of them.
        options: keyword-only options of the model's class, for example `attention="rba"`. They
            are listed by `zoo info sgformer` in a shell and, once `zoo.list_models()` has been
            called, by `inspect.signature(zoo.MODELS["sgformer"])` and `help(...)` of the same.

    Raises:
        ZooError: an unknown name or option, a value of the wrong type or out of range, weights of
            another model, or a class without a head or with layers where torch cannot find them.
    """
    discover()
    given = {"in_dim": in_dim, "out_dim": out_dim, **options}
    if pretrained is None:
        return _create(name, **given)
    stored = read_folder(locate(pretrained).folder, unverified=unverified)
    if stored.model != name:
        raise ZooError(f"{pretrained} holds weights of {stored.model}, not of {name}.")
    sizes = ("in_dim", "out_dim")
    changes = {key: given[key] for key in given if key not in sizes or given[key] is not None}
    return restore(stored, **changes)


def restore(stored: Stored, **changes: Any) -> Model:
    """Make a model and give it the weights of a folder.

    Args:
        stored: what the folder holds.
        changes: sizes and options that differ; stem and head may then stay fresh.

    Raises:
        ZooError: the folder does not hold what it says, or its weights do not fit the changes.
    """
    discover()
    options = options_of(MODELS[stored.model]) if stored.model in MODELS else {}
    counts = [
        key
        for key, option in options.items()
        if option.annotation in (Count, Few) and stored.config.get(key) != option.default
    ]
    return rebuild(stored, _create, ["in_dim", "out_dim", *counts], changes)


def _create(name: str, in_dim: Any, out_dim: Any, **options: Any) -> Model:
    sizes = {"in_dim": in_dim, "out_dim": out_dim}
    wrong = [each for key, size in sizes.items() for each in value_problems(Count, size, (key,))]
    if wrong:
        raise ZooError(f"model {name!r}: {'; '.join(map(str, wrong))}.")
    numbers = [each for each in (in_dim, out_dim, *options.values()) if type(each) is int]

    def make() -> Model:
        return pick(MODELS, {**options, "name": name}, in_dim, out_dim)

    if max(numbers) >= WIDE:
        _check_memory(name, make)
    model = make()
    check_parts(model)
    check_head(model, out_dim)
    return model


def _check_memory(name: str, make: Callable[[], Model]) -> None:
    """Refuse a model that memory cannot hold twice: it has gradients, or weights that were read."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            needed = sum(each.nbytes for each in make().state_dict().values())
    except RuntimeError as error:
        if "overflow" not in str(error):
            return  # it reads its own weights when it is made, and the meta device has none
        needed = math.inf
    if 2 * needed > (free := available_memory()):
        raise ZooError(
            f"the weights of {name} would take {needed / 2**30:,.1f} GiB, their gradients as much "
            f"again, and {free / 2**30:,.1f} GiB of memory are free. Write a smaller width, fewer "
            "heads or fewer layers."
        )


def with_edge_dim(name: str, options: dict[str, Any], held: int) -> dict[str, Any]:
    """Return the options of a model with how many features edges have, if it reads them."""
    reads = held and "edge_dim" in options_of(MODELS[name]) and options.get("edge_dim") is None
    return {**options, "edge_dim": held} if reads else options


def reads_edge_features(model: dict[str, Any]) -> bool:
    """Return whether a model, as its name and all of its options, reads features of edges."""
    inner = [each for each in model.values() if isinstance(each, dict)]
    return "edge_dim" in model or any(each.get("edge_dim") for each in inner)


def list_models(
    pattern: str | None = None,
    *,
    attention: str | None = None,
    task: str | None = None,
    pretrained: bool | None = None,
) -> list[str]:
    """Return the names of the registered models, sorted.

    Args:
        pattern: shell wildcards that the name must match, such as `"*former"`.
        attention: only models whose `attention` option takes this word.
        task: only models that can be trained for this task.
        pretrained: only models that have weights in the zoo (True) or have none (False).

    Raises:
        ZooError: no model takes an attention, or a task, of that name.
    """
    discover()
    words = {
        "attention": (
            attention,
            {each for model in MODELS.values() for each in _attentions(model)},
        ),
        "task": (task, {each for model in MODELS.values() for each in model.tasks}),
    }
    for kind, (word, known) in words.items():
        if word is not None and word not in known:
            raise ZooError(unknown(kind, word, known))
    return [name for name in sorted(MODELS) if _fits(name, pattern, attention, task, pretrained)]


def _fits(name, pattern, attention, task, pretrained) -> bool:
    model, shipped = MODELS[name], index().values() if pretrained is not None else ()
    return (
        (pattern is None or fnmatch.fnmatchcase(name, pattern))
        and (attention is None or attention in _attentions(model))
        and (task is None or task in model.tasks)
        and (pretrained is None or pretrained == any(each.model == name for each in shipped))
    )


def _attentions(model: type[Model]) -> Table | dict:
    option = options_of(model).get("attention")
    return (option and table_of(option)) or {}
