"""The state of a training between two epochs, in one file that is replaced as a whole.

The file is written by `torch.save` and read by `torch.load(weights_only=True)`: torch's restricted
unpickler makes tensors and plain data only, and calls nothing else that a file names.
"""

from __future__ import annotations

import pickle
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

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
            write_whole(self.path, lambda draft: _save(state(), draft))
            self._written = time.monotonic()

    def read(self) -> dict[str, Any] | None:
        """Return the state that was written last, None where there is none.

        Raises:
            ZooError: the file is damaged.
        """
        if not self.path.exists():
            return None
        try:
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            if isinstance(state, dict):
                return state
            cause = f"it holds a {type(state).__name__}"
        except pickle.UnpicklingError:
            cause = "it is not tensors and plain data"
        except Exception as error:  # torch raises what the bytes suggest
            cause = str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__
        raise ZooError(f"{self.path} is damaged ({cause}); delete it, and its seed begins anew.")

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
    random.setstate(state["python"])
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])


def _save(state: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:  # by a path, torch refuses names that begin with a point
        torch.save(state, file)
