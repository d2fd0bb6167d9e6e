"""Checkpoints of a training.

A checkpoint is what `torch.save` writes, with its SHA-256 after it, written atomically. It is read
by `torch.load(weights_only=True)`, whose unpickler makes tensors and plain data only. The one
before stays beside it, and is read if the last is damaged.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from zoo.errors import ZooError
from zoo.system.files import write_whole, writing

EVERY = 10.0
"""Seconds between two checkpoints: what is lost at most, and trained again to the same numbers."""

_DIGEST = hashlib.sha256().digest_size


class CorruptFile(ValueError):
    """A file is not as it was written; the text says how one can tell."""


class Checkpoint:
    """The last state of a training, in a file.

    Args:
        path: the file; it need not exist yet.
        every: seconds between two checkpoints.
        of: the training that it belongs to, in one word; that of another training is refused.
        tell: called with a sentence if the checkpoint before is read.
    """

    def __init__(
        self,
        path: Path,
        every: float = EVERY,
        of: str = "",
        tell: Callable[[str], None] = warnings.warn,
    ):
        self.path, self.every, self.of, self._tell = path, every, of, tell
        self.previous = path.with_name(f"{path.stem}.previous{path.suffix}")
        self._written = time.monotonic()

    def offer(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write `state()`, plain data and tensors, if `every` seconds have passed.

        Raises:
            WriteError: the disk is full, or the like; the checkpoint before stays.
        """
        if 0 <= time.monotonic() - self._written < self.every:
            return
        content = {"of": self.of, "state": state()}
        if self.path.exists():
            with writing(self.path):
                self.path.replace(self.previous)
        write_whole(self.path, lambda draft: _write(draft, content))
        self._written = time.monotonic()

    def read(self) -> dict[str, Any] | None:
        """Return the state that was written last, None if there is none.

        If the file is damaged, the one before takes its place: training comes to the same numbers.

        Raises:
            ZooError: both are damaged, or belong to another training.
        """
        causes = []
        for path in (self.path, self.previous):
            if not path.exists():
                continue
            try:
                content = _read(path)
                if content["of"] != self.of:
                    raise CorruptFile("it is that of another training")
            except CorruptFile as error:
                causes.append(f"{path} is damaged ({error})")
                continue
            if causes:
                self._tell(f"{causes[0]}; the checkpoint before it is taken, {path.name}.")
                path.replace(self.path)
            return content["state"]
        if not causes:
            return None
        raise ZooError(
            f"{' and '.join(causes)}; delete {'it' if len(causes) == 1 else 'both'}, and its seed "
            "begins anew."
        )

    def remove(self) -> None:
        """Delete the files: the training has come to its end."""
        for path in (self.path, self.previous):
            with contextlib.suppress(OSError):  # what is left is not looked at again
                path.unlink()


def _write(path: Path, content: dict[str, Any]) -> None:
    torch.save(content, path)
    with path.open("r+b") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        file.write(digest)  # what follows its end, torch does not read


def _read(path: Path) -> dict[str, Any]:
    """Return what `_write` has written; in older files the digest comes first.

    Raises:
        CorruptFile: it is something else.
    """
    data = memoryview(path.read_bytes())
    newer, older = (data[:-_DIGEST], data[-_DIGEST:]), (data[_DIGEST:], data[:_DIGEST])
    for content, digest in (newer, older):
        if hashlib.sha256(content).digest() == digest:
            return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    raise CorruptFile("its checksum is another")


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
    """Set the global generators to a state that `generators` returned."""
    random.setstate(state["python"])
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    for device, rng_state in zip(range(torch.cuda.device_count()), state["cuda"], strict=False):
        torch.cuda.set_rng_state(rng_state, device)
