"""Models by name, new or from weights, and which there are."""

import contextlib
import fnmatch
import math
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from zoo.config.metadata import About
from zoo.config.options import Count, options_of, pick, table_of, value_problems
from zoo.errors import ZooError, unknown
from zoo.nn.attend import attentions_with_bias
from zoo.nn.learned_encodings import ENCODING_NETWORKS, EncodingNetwork
from zoo.nn.readouts import READOUTS
from zoo.registry import MODELS, Model, check_head, check_parts, discover, name_of
from zoo.system.memory import available_memory
from zoo.tasks.decoders import DECODERS
from zoo.tasks.task import TASKS
from zoo.weights.files import Stored, read_folder
from zoo.weights.index import index, locate
from zoo.weights.transfer import DATA_SIZED, carry_over, check_fit, in_units_of, with_same_parts

_SIZES = "in_dim", "out_dim"

WIDE = 2**12
"""Any option of at least this size has the weights counted before memory is taken for them."""


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
            Every model takes `decoder`, a word of `zoo.tasks.decoders`, to score pairs of nodes,
            `readout`, a word of `zoo.nn.readouts`, to answer for graphs, and `encoding`, a word of
            `zoo.nn.learned_encodings`, whose numbers are then the last of the `in_dim` columns.

    Raises:
        ZooError: an unknown name or option, a value of the wrong type or out of range, weights of
            another model, or a class without a head or with layers where torch cannot find them.
    """
    discover()
    if pretrained is None:
        return _create(name, in_dim, out_dim, **options)
    stored = read_folder(locate(pretrained).folder, unverified=unverified)
    if stored.model != name:
        raise ZooError(f"{pretrained} holds weights of {stored.model}, not of {name}.")
    sizes = {"in_dim": in_dim, "out_dim": out_dim}
    changes = {key: size for key, size in sizes.items() if size is not None}
    return restore(stored, **changes, **options)


def restore(stored: Stored, **changes: Any) -> Model:
    """Make the model of a folder and load its weights.

    Args:
        stored: content of the folder.
        changes: sizes and options that differ; stem and head may then stay fresh.

    Raises:
        ZooError: the weights are not of this model, or do not fit the changes.
    """
    discover()
    config = {**stored.config, **changes}
    same = [part for part, size in zip(DATA_SIZED, ("in_dim", "out_dim"), strict=True)
            if config[size] == stored.config[size]]  # fmt: skip
    unchanged = config == stored.config
    with hint_imports(stored.about, f"{stored.folder}: " if unchanged else ""):
        # Initial weights that are all replaced use up no random numbers.
        with torch.random.fork_rng(devices=[], enabled=unchanged):
            model = _create(stored.model, **config)
        if unchanged:
            check_fit(model, stored.state)
    if unchanged:
        model.about, model.tokenizer = stored.about, stored.tokenizer
        model.folder = stored.folder
    elif "stem" in same:  # it reads the same features
        of_head = ("task", "metric", "lower_is_better", "labels", "target")
        changed = {} if "head" in same else dict.fromkeys(of_head) | {"target_log": False}
        model.about = stored.about.model_copy(update={"scores": None, **changed})
        model.tokenizer = stored.tokenizer
    carry_over(model, with_same_parts(model, stored), same)
    if "head" in same:
        in_units_of(model, stored.about)
    return model


def resized(model: Model, data: Any) -> Model:
    """Return a model of `any_graph` with the same weights for the columns and classes of data.

    What its weights say of the data of their training is not what it reads or answers here.

    Args:
        model: of a registered class.
        data: which it will be asked about.
    """
    options = {key: value for key, value in model.config.items() if key not in _SIZES}
    outputs = pick(TASKS, data.task).outputs(data.classes)
    with torch.random.fork_rng(devices=[]):
        other = create_model(name_of(type(model)), data.inputs, outputs, **options)
    other.load_state_dict(model.state_dict())
    return other.to(next(model.parameters(), torch.empty(0)).device).train(model.training)


@contextlib.contextmanager
def hint_imports(
    about: About, place: str = "", done: Sequence[str] | None = None
) -> Iterator[None]:
    """Let an error say what the recipe of the weights imports, apart from what is `done`."""
    try:
        yield
    except ZooError as error:
        imports = (about.recipe or {}).get("imports")
        imports = imports if isinstance(imports, list) else []
        todo = [name for name in imports if isinstance(name, str) and name not in (done or ())]
        options = " ".join(f"--import {shlex.quote(name)}" for name in todo)
        hint = (
            f" The recipe of the weights imports {', '.join(todo)}: import that first, `{options}`."
        )
        raise ZooError(f"{place}{error}{hint if todo else ''}") from None


def _create(name: str, in_dim: Any, out_dim: Any, **options: Any) -> Model:
    sizes = {"in_dim": in_dim, "out_dim": out_dim}
    wrong = [str(problem) for key, size in sizes.items()
             for problem in value_problems(Count, size, (key,))]  # fmt: skip
    if wrong:
        raise ZooError(f"model {name!r}: {'; '.join(wrong)}.")

    decoder, readout = options.pop("decoder", None), options.pop("readout", None)
    encoding = options.pop("encoding", None)
    pool = None if readout is None else pick(READOUTS, readout, out_dim)
    width = out_dim if pool is None else pool.dim
    network = None if encoding is None else pick(ENCODING_NETWORKS, encoding)
    reads = in_dim if network is None else _width_with(network, in_dim)

    def make() -> Model:
        return pick(MODELS, {**options, "name": name}, reads, width)

    numbers = [value for value in (in_dim, out_dim, *options.values()) if type(value) is int]
    if max(numbers) >= WIDE:
        _check_memory(name, make)
    model = make()
    check_parts(model)
    check_head(model, width)
    if pool is not None:
        model.head_readout = pool
        model.config |= {"out_dim": out_dim, "readout": readout}
    if network is not None:
        if model.any_graph:
            raise ZooError(
                f"{name} is for features as they are, by which the weights of an encoding would "
                "not be trained; write another `encoding`, such as laplacian."
            )
        model.stem_encoding = network
        model.config |= {"in_dim": in_dim, "encoding": encoding}
    if decoder is not None:
        model.head_decoder = pick(DECODERS, decoder, out_dim)
        model.config["decoder"] = decoder
    return model


def _width_with(network: EncodingNetwork, in_dim: int) -> int:
    """Return how many columns a model reads where a network reads the last ones of them."""
    if in_dim < network.columns:
        raise ZooError(
            f"the encoding reads {network.columns} columns, the last ones of the features, and "
            f"`in_dim` is {in_dim}; add them, as `data.encoded` does with an `Encoder`."
        )
    return in_dim - network.columns + network.dim


def with_encoding(options: dict[str, Any], encoding: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a model with the encoding of its features, if that has weights."""
    return {**options, "encoding": encoding} if encoding["name"] in ENCODING_NETWORKS else options


def _check_memory(name: str, make: Callable[[], Model]) -> None:
    """Refuse a model that memory cannot hold twice: it has gradients, or weights that were read."""
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            needed = sum(weight.nbytes for weight in make().state_dict().values())
    except RuntimeError as error:
        if "overflow" not in str(error):
            return  # its constructor reads its own weights, and the meta device has none
        needed = math.inf
    if 2 * needed > (free := available_memory()):
        raise ZooError(
            f"the weights of {name} would take {needed / 2**30:,.1f} GiB, their gradients as much "
            f"again, and {free / 2**30:,.1f} GiB of memory are free. Write a smaller width, fewer "
            "heads or fewer layers."
        )


def with_edge_dim(name: str, options: dict[str, Any], edge_dim: int) -> dict[str, Any]:
    """Return the options of a model with the number of edge features, if it reads them."""
    reads = edge_dim and "edge_dim" in options_of(MODELS[name]) and options.get("edge_dim") is None
    return {**options, "edge_dim": edge_dim} if reads else options


def reads_edge_features(model: dict[str, Any]) -> bool:
    """Return whether a model, as its name and all of its options, reads features of edges."""
    specs = [value for value in model.values() if isinstance(value, dict)]
    return "edge_dim" in model or any(spec.get("edge_dim") for spec in specs)


def list_models(
    pattern: str | None = None,
    *,
    attention: str | None = None,
    task: str | None = None,
    pretrained: bool | None = None,
    context: bool | None = None,
) -> list[str]:
    """Return the names of the registered models, sorted.

    Args:
        pattern: shell wildcards that the name must match, such as `"*former"`.
        attention: only models whose `attention` option takes this word.
        task: only models that can be trained for this task.
        pretrained: only models that have weights in the zoo (True) or have none (False).
        context: only models that are given labels (True) or are not (False).

    Raises:
        ZooError: no model takes an attention, or a task, of that name.
    """
    discover()
    attentions = {name: set(_attentions(model)) for name, model in MODELS.items()}
    tasks = {name: set(model.tasks) for name, model in MODELS.items()}
    names = sorted(fnmatch.filter(MODELS, pattern or "*"))
    for kind, word, table in (("attention", attention, attentions), ("task", task, tasks)):
        if word is not None:
            if word not in (words := set().union(*table.values())):
                raise ZooError(unknown(kind, word, words))
            names = [name for name in names if word in table[name]]
    if pretrained is not None:
        with_weights = {entry.model for entry in index().values()}
        names = [name for name in names if pretrained == (name in with_weights)]
    if context is not None:
        names = [name for name in names if context == MODELS[name].context]
    return names


def _attentions(model: type[Model]) -> Iterable[str]:
    option = options_of(model).get("attention")
    table = (option and table_of(option)) or {}
    return table if model.pair_bias == "none" else attentions_with_bias(model.pair_bias)
