"""Early stopping: the best validation score so far, its weights, and how long ago it was."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from zoo.config.scores import gain
from zoo.registry import Model


class Best:
    """The best validation score so far and the weights that reached it.

    The optimiser's state is copied with them until the last phase of training has begun.

    Args:
        model: the model.
        optimiser: of its parameters.
        starts: the epochs in which a phase begins.
        metric: of the scores; its name says whether less is better.
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

    def offer(self, epoch: int, scores: dict[str, float], test: Callable[[], float]) -> None:
        """Copy weights and scores if the validation score is better than any before.

        Args:
            epoch: its number.
            scores: `train` and `val`; and `loss`, of validation, if that decides which is best.
            test: computes the test score, called for the best epoch alone.
        """
        if not self.scores or self._gain(scores) > self._gain(self.scores):
            scores = {**scores, "test": test()}
            weights, moments = copy.deepcopy(self.model.state_dict()), self.moments
            if epoch < max(self.starts, default=0):
                moments = copy.deepcopy(self.optimiser.state_dict()["state"])
            # Together and last: Ctrl-C may come at any time.
            self.weights, self.moments, self.scores, self.epoch = weights, moments, scores, epoch

    def _gain(self, scores: dict[str, float]) -> float:
        return -scores["loss"] if "loss" in scores else gain(self.metric, scores["val"])

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
        """Return the epochs since the best score, 0 without a score.

        They count from the last phase on: before it the whole model has not been trained.
        """
        return epoch - max(self.epoch, *self.starts, -1) if self.scores else 0

    def state_dict(self) -> dict[str, Any]:
        """Return all of it."""
        names = ("starts", "epoch", "scores", "weights", "moments")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned."""
        for name, value in state.items():
            setattr(self, name, value)
