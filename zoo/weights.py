"""Weights on disk: safetensors and JSON in a folder, and their transfer to another model.

Nothing is ever unpickled, and nothing that a file names is imported: `config.json` holds the name
of a registered model and plain options.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from zoo.errors import ZooError
from zoo.registry import Model, create_model, discover, name_of
from zoo.storage import write_whole

WEIGHTS = "model.safetensors"
CONFIG = "config.json"


class Transfer(NamedTuple):
    """What `transfer` did, name by name: weights loaded, left fresh, and not used."""

    loaded: list[str]
    fresh: list[str]
    unused: list[str]


def save(model: Model, folder: Path | str) -> None:
    """Write a registered model into a folder: `model.safetensors` and `config.json`.

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
    # Cloned, because safetensors refuses tensors that share memory.
    state = {key: each.detach().cpu().clone() for key, each in model.state_dict().items()}
    config = {"model": name, **model.config}
    folder = Path(folder)
    write_whole(folder / WEIGHTS, lambda path: safetensors.torch.save_file(state, path))
    write_whole(folder / CONFIG, lambda path: path.write_text(json.dumps(config, indent=2) + "\n"))


def load(folder: Path | str) -> Model:
    """Make the model that `save` wrote; it comes back in evaluation mode.

    Raises:
        ZooError: a file is missing or damaged, or the weights do not fit the model.
    """
    folder = Path(folder)
    config = _read_config(folder / CONFIG)
    state = read_weights(folder / WEIGHTS)
    with torch.random.fork_rng(devices=[]):  # fresh weights are drawn only to be replaced
        model = create_model(config.pop("model"), **config)
    report = _compare(model, state)
    if report.fresh or report.unused:
        raise ZooError(
            f"{folder / WEIGHTS} does not fit the model of {folder / CONFIG}: "
            f"missing or of another shape: {report.fresh or 'none'}; "
            f"not in the model: {report.unused or 'none'}. Use the two files of one save."
        )
    model.load_state_dict(state)
    return model.eval()


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        ZooError: the file is missing, truncated or not in that format.
    """
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise ZooError(f"no weights at {path}: name a folder that `zoo.save` wrote.") from None
    except (SafetensorError, OSError) as error:
        raise ZooError(f"{path} is damaged ({error}): copy or train it again.") from None


def transfer(model: Model, state: dict[str, Tensor]) -> Transfer:
    """Load into a model every weight that fits by name and shape; the others stay as they are."""
    report = _compare(model, state)
    model.load_state_dict({**model.state_dict(), **{key: state[key] for key in report.loaded}})
    return report


def _compare(model: Model, state: dict[str, Tensor]) -> Transfer:
    own = model.state_dict()
    loaded = [key for key in own if key in state and state[key].shape == own[key].shape]
    fresh = [key for key in own if key not in loaded]
    return Transfer(loaded, fresh, [key for key in state if key not in loaded])


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ZooError(f"no model at {path.parent}: {path.name} is missing.") from None
    except (ValueError, OSError) as error:
        raise ZooError(f"{path} is damaged ({error}): copy or train it again.") from None
    wanted = {"model": str, "in_dim": int, "out_dim": int}
    if not isinstance(config, dict) or any(
        not isinstance(config.get(key), kind) for key, kind in wanted.items()
    ):
        raise ZooError(f"{path} must hold a mapping with `model`, `in_dim` and `out_dim`.")
    return config
