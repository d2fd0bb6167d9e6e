"""`metrics.jsonl` of a run: a line for each epoch, with its own checksum, added at once."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zoo.errors import ZooError
from zoo.experiments.run_files import read_bytes
from zoo.system.disk import WriteError, writing
from zoo.system.files import write_whole
from zoo.training.checksums import Damaged, sealed_line, unsealed_line

LINE = 200
"""Bytes of a line, about."""


class Metrics:
    """The file of epochs.

    Args:
        path: it need not exist yet.
        tell: is given a sentence where a line cannot be written, or lines are damaged.
    """

    def __init__(self, path: Path, tell: Callable[[str], None]):
        self.path, self._tell = path, tell
        self._waiting: list[bytes] = []

    def add(self, data: dict[str, Any]) -> None:
        """Add a line; one that cannot be written waits for the next."""
        first = not self._waiting
        self._waiting.append(sealed_line(data).encode())
        try:
            self.write()
        except WriteError as error:
            if first:
                self._tell(f"{error} Training goes on, and the lines are kept until they can be.")

    def write(self) -> None:
        """Write the lines that wait, all of them or none.

        Raises:
            WriteError: none.
        """
        if not self._waiting:
            return
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                end, rest = file.seek(0, os.SEEK_END), b"".join(self._waiting)
                try:
                    while rest:  # a disk may take a part before it refuses
                        rest = rest[file.write(rest) :]
                except OSError:
                    file.truncate(end)
                    raise
        self._waiting.clear()

    def content(self) -> bytes:
        """Return what the file holds and what still has to be written into it."""
        written = self.path.read_bytes() if self.path.exists() else b""
        return written + b"".join(self._waiting)

    def scored(self) -> bool:
        """Return whether any epoch has been evaluated."""
        return any(b'"val": null' not in line for line in self.content().splitlines())

    def forget_after(self, seed: int, epoch: int, finished: dict[int, int]) -> None:
        """Drop the lines of a seed from an epoch on: they come again.

        So are a last line that was cut off and those that are damaged. Where the line of an epoch
        that does not come again is missing, that is told, and a copy of the file kept.

        Args:
            seed: the one that goes on.
            epoch: the first that is trained again.
            finished: the seeds before, and how many epochs each has had.

        Raises:
            ZooError: the file cannot be read.
        """
        try:
            content = read_bytes(self.path, math.inf) if os.path.lexists(self.path) else b""
        except Damaged as error:
            raise ZooError(f"{self.path} cannot be read ({error}); move it away.") from None
        kept, lacking = [], Counter({**finished, seed: epoch})
        for line in content.split(b"\n")[:-1]:
            try:
                of, at = _place(line)
            except Damaged:
                continue
            if of != seed or at < epoch:
                kept.append(line + b"\n")
                lacking[of] -= 1
        missing = sum((+lacking).values())
        if missing > len(self._waiting):
            copy = self.path.with_suffix(".damaged.jsonl")
            write_whole(copy, lambda draft: draft.write_bytes(content))
            self._tell(
                f"{self.path} is damaged: of the lines of past epochs, {missing} are missing. "
                f"Training does not depend on them and goes on; {copy.name} is the file as it was."
            )
        if b"".join(kept) != content:
            write_whole(self.path, lambda draft: draft.write_bytes(b"".join(kept)))


def _place(line: bytes) -> tuple[int, int]:
    """Return the seed and the epoch of a line.

    Raises:
        Damaged: it is none.
    """
    told = unsealed_line(line)
    seed, epoch = told.get("seed"), told.get("epoch")
    if type(seed) is not int or type(epoch) is not int:
        raise Damaged("it is of no epoch")
    return seed, epoch
