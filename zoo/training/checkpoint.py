"""What a training needs to go on where it was ended, in one file that is replaced as a whole.

The file is safetensors: tensors by number, and in its header, as JSON, what they belong to. Nothing
in it is ever unpickled.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from zoo.errors import ZooError
from zoo.system.files import write_whole

EVERY = 10.0
"""Seconds between two writings: what is lost at most, and trained again with the same numbers."""


class Checkpoint:
    """The last state of a training, in a file.

    Args:
        path: the file; it need not exist yet.
        every: seconds between two writings.
    """

    def __init__(self, path: Path, every: float = EVERY):
        self.path, self.every, self._written = path, every, time.monotonic()

    def offer(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write what `state` returns if it is time to; its values are plain data and tensors."""
        if time.monotonic() - self._written >= self.every:
            tensors: dict[str, Tensor] = {}
            header = {"state": json.dumps(_flat(state(), tensors))}
            write_whole(self.path, lambda draft: save_file(tensors, draft, metadata=header))
            self._written = time.monotonic()

    def read(self) -> dict[str, Any] | None:
        """Return the state that was written last, None where there is none.

        Raises:
            ZooError: the file is damaged.
        """
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, framework="pt") as file:
                return _whole(json.loads(file.metadata()["state"]), file.get_tensor)
        except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
            raise ZooError(
                f"{self.path} is damaged ({error}); delete it, and its seed begins anew."
            ) from None

    def epochs(self) -> int:
        """Return how many epochs the state that was written last has seen."""
        state = self.read()
        return 0 if state is None else state["epochs"]

    def remove(self) -> None:
        """Delete the file: the training has come to its end."""
        self.path.unlink(missing_ok=True)


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
    """Give the global generators a state that `generators` returned."""
    version, keys, following = state["python"]
    random.setstate((version, tuple(keys), following))
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])


def _flat(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return a value as JSON has it: mappings as pairs, tensors as numbers of a table."""
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value.detach().cpu().clone()  # safetensors refuses shared memory
        return {"tensor": name}
    if isinstance(value, dict):
        return {"pairs": [[key, _flat(each, tensors)] for key, each in value.items()]}
    if isinstance(value, list | tuple):
        return [_flat(each, tensors) for each in value]
    return value


def _whole(value: Any, tensor: Callable[[str], Tensor]) -> Any:
    if isinstance(value, list):
        return [_whole(each, tensor) for each in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensor(value["tensor"])
    return {key: _whole(each, tensor) for key, each in value["pairs"]}
