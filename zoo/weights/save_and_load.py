"""Save and load models: a folder with safetensors, JSON and a model card.

Nothing is unpickled, and nothing that a file names is imported: `config.json` holds the name of a
registered model and plain options.
"""

from hashlib import sha256
from pathlib import Path

import torch

from zoo.config.metadata import About
from zoo.config.options import options_of
from zoo.errors import ZooError
from zoo.registry import Model, discover, name_of
from zoo.weights.create import create_model, restore
from zoo.weights.files import read_folder, read_weights, write_folder
from zoo.weights.index import locate
from zoo.weights.model_card import card
from zoo.weights.transfer import transfer

__all__ = ["load", "read_weights", "save", "transfer"]


def save(model: Model, folder: Path | str, about: About | None = None) -> None:
    """Write a registered model into a folder: `model.safetensors`, `config.json`, `README.md`.

    Weights that were made 64 bits wide, or bfloat16, are written in the type that `load` makes.

    Args:
        model: any model of a registered class.
        folder: destination; the files are replaced, `tokenizer.json` of a model of text too.
        about: metadata, what it was trained on; by default `model.about`, that it was loaded with.

    Raises:
        ZooError: the model's class is not registered, so that it could not be loaded again.
    """
    discover()
    name = name_of(type(model))
    if name is None:
        raise ZooError(
            f"{type(model).__name__} cannot be saved: it is not registered. Write "
            '`@register_model("a-name")` above the class.'
        )
    about, tokenizer = about or model.about, model.tokenizer
    digest = tokenizer and sha256(tokenizer.encode()).hexdigest()
    units = model.units and [value.tolist() for value in model.units]
    about = about.model_copy(update={"tokenizer": digest, "target": units})
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


def load(source: Path | str, *, unverified: bool = False) -> Model:
    """Load a model that `save` wrote, in evaluation mode.

    Args:
        source: a folder that `save` wrote; a run, of which the best seed is taken; the name of
            pretrained weights that come with the zoo; or `hub:OWNER/NAME`, of the Hugging Face Hub.
        unverified: load weights even if their `config.json` says no checksum of them.

    Raises:
        ZooError: a file is missing or damaged, or the weights do not fit the model.
    """
    return restore(read_folder(locate(source).folder, unverified=unverified)).eval()
