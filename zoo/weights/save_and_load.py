"""Save and load models: a folder with safetensors, JSON and a model card.

Nothing is unpickled, and nothing that a file names is imported: `config.json` holds the name of a
registered model and plain options.
"""

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zoo.config.metadata import About
from zoo.config.options import options_of, pick
from zoo.data.files.objects import described, wrong_object
from zoo.errors import ZooError
from zoo.registry import Model, discover, name_of
from zoo.tasks.task import TASKS
from zoo.weights.create import create_model, reads_edge_features, restore
from zoo.weights.files import read_folder, read_weights, write_folder
from zoo.weights.index import locate
from zoo.weights.model_card import card
from zoo.weights.transfer import transfer

__all__ = ["as_model", "describe_data", "features_of", "load", "read_weights", "save", "transfer"]


def save(model: Model, folder: Path | str, about: About | Any = None) -> None:
    """Write a registered model into a folder: `model.safetensors`, `config.json`, `README.md`.

    Weights that were made 64 bits wide, or bfloat16, are written in the type that `load` makes.

    Args:
        model: any model of a registered class.
        folder: destination; the files are replaced, `tokenizer.json` of a model of text too.
        about: what it was trained on: the data set as the model read it, whose columns and classes
            `predict` and `evaluate` then match by name; or metadata; by default `model.about`, that
            it was loaded with, and of a model that was not loaded nothing is known.

    Raises:
        ZooError: this is no model, or its class is not registered, so that it could not be loaded
            again; or it does not read as many features, or answer for as many classes, as the data
            set has.
    """
    if not isinstance(model, nn.Module):
        raise ZooError(
            f"a model is saved, and this is {described(model)}; `zoo.load` gives the model of a "
            "run, its folder or a name of weights."
        )
    discover()
    name = name_of(type(model))
    if name is None:
        raise ZooError(
            f"{type(model).__name__} cannot be saved: it is not registered. Write "
            '`@register_model("a-name")` above the class.'
        )
    if not isinstance(about, About | None):
        about = _about(model, about)
    about, tokenizer = about or model.about, model.tokenizer
    digest = tokenizer and sha256(tokenizer.encode()).hexdigest()
    units = model.units and [value.tolist() for value in model.units]
    scale = {"target": units, "target_log": model.logarithmic}
    about = about.model_copy(update={"tokenizer": digest, **scale})
    # Cloned: safetensors refuses tensors that share memory.
    state = {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}
    if any(value.dtype in (torch.float64, torch.bfloat16) for value in state.values()):
        with torch.random.fork_rng(devices=[]):
            own = create_model(name, **model.config).state_dict()
        state = {key: value.to(own[key].dtype) for key, value in state.items()}
    # With the defaults of today: weights outlive a change of them.
    defaults = {key: option.default for key, option in options_of(type(model)).items()
                if isinstance(option.default, bool | int | float | str | None)}  # fmt: skip
    config = {"model": name, "in_dim": 0, "out_dim": 0, **defaults, **model.config,
              "about": about.model_dump(exclude_defaults=True)}  # fmt: skip
    write_folder(Path(folder), config, state, card(name, model, about), tokenizer)


def _about(model: Model, data: Any) -> About:
    """Return what a data set says of the weights of a model that was trained on it."""
    if not hasattr(data, "inputs") or not hasattr(data, "classes"):
        raise wrong_object("weights are saved with the data set that they were trained on", data)
    sizes = [("features per node", "reads", model.config["in_dim"], data.inputs)]
    if pick(TASKS, data.task).kind == "classes":
        sizes += [("classes", "answers for", model.config["out_dim"], data.classes)]
    for what, does, own, theirs in sizes:
        if own != theirs:
            raise ZooError(
                f"{data.name} has {theirs} {what} and the model {does} {own}; save it with the "
                "data set as it was trained on, encodings included."
            )
    known = describe_data(data, model.config)
    plain = getattr(data, "plain", None) or data  # without virtual nodes
    if plain.inputs != known["features"]:  # encodings, which other data will have to bring
        names = plain.feature_names
        names = list(names) if names and len(names) == plain.inputs else None
        known |= {"features": plain.inputs, "feature_names": names}
    return About(**known, metric=data.metric)


def load(source: os.PathLike[str] | str, *, unverified: bool = False) -> Model:
    """Load a model that `save` wrote, in evaluation mode.

    Args:
        source: a folder that `save` wrote; a run or its folder, of which the best seed is taken;
            the name of pretrained weights that come with the zoo; or `hub:OWNER/NAME`, of the
            Hugging Face Hub.
        unverified: load weights even if their `config.json` says no checksum of them.

    Raises:
        ZooError: a file is missing or damaged, or the weights do not fit the model.
    """
    return restore(read_folder(locate(source).folder, unverified=unverified)).eval()


def as_model(model: Model | os.PathLike[str] | str) -> Model:
    """Return a model, loaded where it is what `load` takes; a compiled one is one too.

    Raises:
        ZooError: it is neither, or cannot be loaded.
    """
    if hasattr(model, "about"):
        return model
    if isinstance(model, str | os.PathLike):
        return load(model)
    raise ZooError(
        "one model is wanted, as `zoo.load` gives it, or a run, its folder or a name of weights, "
        f"and this is {described(model)}."
    )


def describe_data(data: Any, model: dict[str, Any]) -> dict[str, Any]:
    """Return what weights will have to say of a data set that they were trained on.

    Args:
        data: of any kind.
        model: the options of the model, which say what it reads of edges.
    """
    return {
        "data": data.name,
        "task": data.task,
        **features_of(data),
        **_of_edges(data, model),
        "labels": list(data.labels) if data.labels else None,
        "languages": getattr(data, "languages", None) and list(data.languages),
        "transform": data.transform,
        "tokenizer": data.tokenizer and data.tokenizer.sha256,
        "scaling": data.scaling,
        **(data.told if data.unit == "snapshots" else {}),
    }


def features_of(data: Any) -> dict[str, Any]:
    """Return what weights will have to say of the features that they read, encodings apart.

    What is not learnt of training nodes alone is learnt of all nodes, as the data set has it.
    """
    count = getattr(data, "own", None) or data.inputs
    columns, moments = getattr(data, "columns", None), getattr(data, "moments", None)
    learnt = data.learnt or (columns and columns.fit())
    return {
        "features": count,
        "feature_names": list(data.feature_names[:count]) if data.feature_names else None,
        "columns": list(learnt) if learnt else None,
        "moments": None if moments is None else moments.tolist(),
    }


def _of_edges(data: Any, model: dict[str, Any]) -> dict[str, list[str] | None]:
    """Return the names of features and of kinds of edges that a model reads."""
    features = data.edge_feature_names if reads_edge_features(model) else None
    kinds = getattr(data, "relation_names", None) if model.get("relations", 1) != 1 else None
    names = {"edge_feature_names": features, "relation_names": kinds}
    return {key: None if value is None else list(value) for key, value in names.items()}
