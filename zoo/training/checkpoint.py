"""The best weights of a training, and its state between two epochs in a file.

The file is replaced as a whole. It is written by `torch.save`, below a checksum, and read by
`torch.load(weights_only=True)`: torch's restricted unpickler makes tensors and plain data only, and
calls nothing else that a file names. The checkpoint before is kept until the next one, and taken
where the last is damaged.
"""

from __future__ import annotations

import contextlib
import copy
import os
import pickle
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo.config.metrics import gain
from zoo.errors import ZooError
from zoo.registry import Model
from zoo.system.disk import WriteError, writing
from zoo.system.files import write_whole
from zoo.training.checksums import Damaged, read_sealed, write_sealed

EVERY = 10.0
"""Seconds between two writings: what is lost at most, and trained again with the same numbers."""


class Checkpoint:
    """The last state of a training, in a file.

    Args:
        path: the file; it need not exist yet.
        every: seconds between two writings.
        of: the training that it belongs to, in one word; that of another training is refused.
        tell: is given a sentence where a checkpoint cannot be written, or the one before is taken.
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
        self._written, self._failed, self._damaged = time.monotonic(), False, False

    def offer(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write what `state` returns if it is time to; its values are plain data and tensors.

        Training goes on where it cannot be written: the checkpoint before is kept, and the next
        one is tried when its time has come.
        """
        if 0 <= time.monotonic() - self._written < self.every:
            return
        try:
            with writing(self.path):
                self._write({"of": self.of, "state": state()})
        except WriteError as error:
            if not self._failed:
                begins = "from its beginning"
                if self.previous.exists():
                    begins = "from the checkpoint before"
                self._tell(
                    f"{error} Training goes on; if it is killed, `--resume` trains this seed "
                    f"{begins}."
                )
            self._failed = True
        self._written = time.monotonic()

    def read(self, use: Callable[[dict[str, Any]], None] = lambda state: None) -> dict | None:
        """Return the state that was written last, None where there is none.

        Where the file is damaged, the one before is taken and that is told: training comes to the
        same numbers again.

        Args:
            use: is given the state, and raises `Damaged` where it is of no use.

        Raises:
            ZooError: both are damaged, or belong to another training.
        """
        there = [path for path in (self.path, self.previous) if os.path.lexists(path)]
        causes = []
        for path in there:
            try:
                state = self._read(path)
                use(state)
            except Damaged as error:
                causes.append(f"{path} is damaged ({error})")
                continue
            self._damaged = bool(causes)
            if causes:
                self._tell(f"{causes[0]}; the checkpoint before it is taken, {path.name}.")
            return state
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

    def _write(self, content: dict[str, Any]) -> None:
        if self.path.exists() and not self._damaged:
            self.path.replace(self.previous)
        write_whole(self.path, lambda draft: write_sealed(draft, lambda f: torch.save(content, f)))
        self._damaged = False

    def _read(self, path: Path) -> dict[str, Any]:
        """Return the state in one of the files.

        Raises:
            Damaged: it is not what was written, or written by another training.
        """
        if not os.path.isfile(path):
            raise Damaged("it is no file")
        try:
            content = read_sealed(path, _load)
            of, state = content["of"], content["state"]
        except Damaged:
            raise
        except pickle.UnpicklingError:
            raise Damaged("it is not tensors and plain data") from None
        except Exception as error:  # torch raises what the bytes suggest
            cause = str(error).partition("\n")[0].partition(". ")[0] or type(error).__name__
            raise Damaged(cause) from None
        if of != self.of:
            raise Damaged("it is that of another training")
        if not isinstance(state, dict):
            raise Damaged(f"it holds a {type(state).__name__}")
        return state


def _load(file) -> dict[str, Any]:
    return torch.load(file, map_location="cpu", weights_only=True)


class Best:
    """The best validation score so far and the weights that reached it.

    The optimiser's state is kept beside them until the last phase of training has begun.

    Args:
        model: what is trained.
        optimiser: what trains it.
        starts: the epochs in which a phase begins.
        metric: of which the score is, and which says whether less of it is better.
    """

    def __init__(
        self, model: Model, optimiser: torch.optim.Optimizer, starts: Iterable[int], metric: str
    ):
        self.model, self.optimiser, self.starts = model, optimiser, tuple(starts)
        self.metric = metric
        self.epoch = -1
        self.scores: dict[str, float] = {}
        self.weights: dict[str, Tensor] = {}
        self.moments: dict[int, Any] = {}

    def offer(self, epoch: int, train: float, val: float, test: Callable[[], float]) -> None:
        """Keep weights and scores if the validation score is better than any before."""
        if not self.scores or self._gain(val) > self._gain(self.scores["val"]):
            scores = {"train": train, "val": val, "test": test()}
            weights, moments = copy.deepcopy(self.model.state_dict()), self.moments
            if epoch < max(self.starts, default=0):
                moments = copy.deepcopy(self.optimiser.state_dict()["state"])
            # Together and last: Ctrl-C may come at any time.
            self.weights, self.moments, self.scores, self.epoch = weights, moments, scores, epoch

    def _gain(self, score: float) -> float:
        return gain(self.metric, score)

    def rewind(self) -> None:
        """Go back to the best weights and the optimiser's state then; its learning rate stays."""
        if self.scores:  # nothing has been evaluated yet where evaluations are rare
            self.restore()
            # The optimiser goes on writing into what it is given.
            state = {**self.optimiser.state_dict(), "state": copy.deepcopy(self.moments)}
            self.optimiser.load_state_dict(state)

    def restore(self) -> None:
        """Give the model its best weights back."""
        self.model.load_state_dict(self.weights)

    def stale(self, epoch: int) -> int:
        """Return how many epochs before this one the best score was found, 0 without a score.

        They count from where the last phase begins: before it the whole model has not been trained.
        """
        return epoch - max(self.epoch, *self.starts, -1) if self.scores else 0

    def state(self) -> dict[str, Any]:
        """Return all of it."""
        kept = ("starts", "epoch", "scores", "weights", "moments")
        return {name: getattr(self, name) for name in kept}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        for name, value in state.items():
            setattr(self, name, value)
