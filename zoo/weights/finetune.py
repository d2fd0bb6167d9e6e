"""Fine-tuning: weights to start from, frozen layers, layer-wise learning-rate decay.

Stem and head are loaded where they mean the same: features and encoding, task and classes have to
agree in number, and by name where names are known. Of a head of other classes, of the same
features, the rows are loaded of those that both know by name. All other weights are always loaded.
"""

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from zoo.config.metadata import About
from zoo.config.recipe import StartFrom
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.weights.files import WEIGHTS, Stored, read_folder, sha256_of
from zoo.weights.index import locate
from zoo.weights.transfer import (
    DATA_SIZED,
    carry_over,
    in_units_of,
    shortened,
    with_same_parts,
)

Arrange = Callable[[list[dict[str, Any]], float], list[dict[str, Any]]]
"""`(parameter groups of the model, learning rate)` to the groups of the optimiser."""

FREEZES: dict[str, Callable[[str], bool]] = {
    "none": lambda name: False,
    "backbone": lambda name: not name.startswith(DATA_SIZED),
    "except-head": lambda name: not name.startswith("head"),
}
"""Word to whether the weight of a name is frozen; any other word is a pattern of names."""


class Start(NamedTuple):
    """How a fine-tuning starts: what happened to every weight, and the rate of each layer.

    Attributes:
        weights: the folder of the pretrained weights.
        sha256: checksum of their file.
        loaded: names of the weights that were loaded.
        fresh: initialised at random, as their shape or meaning differs; of a head of other
            classes but for the rows of those that are known.
        frozen: loaded, and not trained.
        unused: in the folder, but not loaded.
        rates: factor of the learning rate of each layer.
    """

    weights: str
    sha256: str
    loaded: list[str]
    fresh: list[str]
    frozen: list[str]
    unused: list[str]
    rates: dict[str, float]


def start(model: Model, name: str, how: StartFrom, about: About) -> Start:
    """Load the weights that a recipe starts from into a model, and freeze layers.

    Args:
        model: a new model; it is changed in place.
        name: the word of the model.
        how: `start_from` of the recipe.
        about: the task and the data that it will be trained on.

    Raises:
        ZooError: weights of another model, or with other options; a pattern that freezes no weight,
            a freshly initialised one, or all of them.
    """
    stored = read_folder(locate(how.weights).folder, unverified=how.unverified)
    if stored.model != name:
        raise ZooError(
            f"start_from: {how.weights} holds weights of {stored.model}, and the recipe's model is "
            f"{name}; write `model: {{name: {stored.model}, ...}}` as in its config.json."
        )
    try:
        parts = _same_parts(model, about, stored)
        state = with_same_parts(model, stored)
        report = carry_over(model, state, parts)
        report = report._replace(unused=[key for key in stored.state if key not in report.loaded])
    except ZooError as error:
        raise ZooError(f"start_from: {how.weights}: {error}") from None
    if "head" in parts:
        in_units_of(model, stored.about)
    elif "stem" in parts:
        _load_known_classes(model, state, about, stored)
    trained = [key for key, _ in model.named_parameters()]
    frozen = _frozen(trained, how.freeze, report.fresh)
    for key, weight in model.named_parameters():
        weight.requires_grad_(key not in frozen)
    rates = {layer: how.lr_decay**depth for layer, depth in _depths(trained).items()}
    sha256 = sha256_of(stored.folder / WEIGHTS)
    return Start(str(stored.folder), sha256, report.loaded, report.fresh, frozen, report.unused,
                 rates)  # fmt: skip


def _load_known_classes(
    model: Model, state: dict[str, Tensor], about: About, stored: Stored
) -> None:
    """Load the rows of a head that are those of classes which both know by their names."""
    theirs = stored.about
    sizes = len(theirs.labels or ()), len(about.labels or ())
    if about.task != theirs.task or (stored.config["out_dim"], model.config["out_dim"]) != sizes:
        return
    if model.config.get("readout") != stored.config.get("readout"):
        return
    places = {name: row for row, name in enumerate(theirs.labels)}
    rows = [(row, places[name]) for row, name in enumerate(about.labels) if name in places]
    for key, weight in model.state_dict().items():
        other = state.get(key)
        if not (rows and key.startswith("head") and weight.ndim and other is not None):
            continue
        if (len(other), len(weight)) == sizes and other.shape[1:] == weight.shape[1:]:
            own, known = map(list, zip(*rows, strict=True))
            weight[own] = other[known].to(weight.dtype)


def same_columns(about: About, other: About) -> bool:
    """Return whether two trainings read the same features, by their number and by known names."""
    return _agree(
        (about.features, other.features),
        (about.feature_names, other.feature_names),
        (about.tokenizer, other.tokenizer),
    )


def layered(model: Model, decay: float) -> Arrange:
    """Return a function that makes parameter groups with layer-wise learning-rate decay.

    Each module of the model, and each element of a list of modules, is a layer, in the order in
    which the model defines them; all stems come first and all heads last. The head has the full
    learning rate, the layer before it `decay` times that, and so on. Frozen weights are in no
    group; the `weight_decay` of a group is kept.

    Args:
        model: has the parameters of the groups.
        decay: factor per layer, from the head down.
    """
    depths = _depths([key for key, _ in model.named_parameters()])
    depth = {id(weight): depths[_layer(key)] for key, weight in model.named_parameters()}

    def arrange(groups: list[dict[str, Any]], lr: float) -> list[dict[str, Any]]:
        layers = []
        for group in groups:
            trained = [weight for weight in group["params"] if weight.requires_grad]
            for level in sorted({depth[id(weight)] for weight in trained}, reverse=True):
                params = [weight for weight in trained if depth[id(weight)] == level]
                layers.append({**group, "params": params, "lr": group.get("lr", lr) * decay**level})
        return sorted(layers, key=lambda layer: layer["lr"])  # the last one is logged

    return arrange


def _same_parts(model: Model, about: About, stored: Stored) -> list[str]:
    """Return which of stem and head mean the same in the model and in the stored weights.

    Raises:
        ZooError: the features of edges are others.
    """
    theirs = stored.about
    if model.any_graph:
        return [*DATA_SIZED]
    if not _agree((about.edge_feature_names, theirs.edge_feature_names)):
        wanted, own = (", ".join(side.edge_feature_names or []) for side in (theirs, about))
        raise ZooError(
            f"the weights read the features of edges {wanted}, and the data have {own}. Fine-tune "
            f"on data with the same ones; of a table, write `dataset.edge_features: [{wanted}]`."
        )
    known = theirs.features is not None
    stem = (
        model.config["in_dim"] == stored.config["in_dim"]
        and same_columns(about, theirs)
        and _agree(
            (about.encoding, theirs.encoding if known else None),
            (about.lags, theirs.lags),
        )
    )
    head = model.config["out_dim"] == stored.config["out_dim"] and _agree(
        (about.task, theirs.task),
        (about.labels, theirs.labels),
        (about.tokenizer, theirs.tokenizer),
    )
    head &= model.config.get("readout") == stored.config.get("readout")
    return [part for part, same in zip(DATA_SIZED, (stem, head), strict=True) if same]


def _agree(*pairs: tuple[Any, Any]) -> bool:
    """Whether the pairs of which both are known are equal."""
    return all(None in pair or pair[0] == pair[1] for pair in pairs)


def _frozen(names: Sequence[str], freeze: str | Sequence[str], fresh: Sequence[str]) -> list[str]:
    """Return the names of the weights that a word, or patterns, freeze."""
    frozen: dict[str, None] = {}
    for pattern in [freeze] if isinstance(freeze, str) else freeze:
        freezes = FREEZES.get(pattern) or (lambda name, pattern=pattern: _matches(name, pattern))
        matches = [name for name in names if freezes(name)]
        if not matches and pattern != "none":
            raise ZooError(
                f"start_from: freeze: {pattern!r} is the name of no weight; write "
                f"{', '.join(FREEZES)}, or the name of a layer: {', '.join(_depths(names))}."
            )
        frozen |= dict.fromkeys(matches)
    if random := [name for name in frozen if name in fresh]:
        raise ZooError(
            f"`freeze: {freeze}` holds still weights that are drawn anew for this data and have "
            f"learnt nothing: {shortened(random)}. Freeze less, such as `--freeze backbone`, or "
            "`start_from: {freeze: backbone}` in a recipe."
        )
    if len(frozen) == len(names):
        raise ZooError(f"`freeze: {freeze}` leaves nothing to train; freeze less.")
    return list(frozen)


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name, f"{pattern}.*")


def _depths(names: Sequence[str]) -> dict[str, int]:
    """Return how many layers lie between each layer and the head, 0 for the head itself."""
    body = list(dict.fromkeys(_layer(name) for name in names if not name.startswith(DATA_SIZED)))
    stems = dict.fromkeys(_layer(name) for name in names if name.startswith("stem"))
    heads = dict.fromkeys(_layer(name) for name in names if name.startswith("head"))
    return {
        **dict.fromkeys(stems, len(body) + 1),
        **{layer: len(body) - place for place, layer in enumerate(body)},
        **dict.fromkeys(heads, 0),
    }


def _layer(name: str) -> str:
    """Return the layer of a weight: `graph.layers.0` of `graph.layers.0.query.weight`."""
    words = name.split(".")
    if words[0].startswith(DATA_SIZED):
        return words[0]
    number = next((place for place, word in enumerate(words) if word.isdigit()), None)
    return ".".join(words[: number + 1]) if number is not None else words[0]
