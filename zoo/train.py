"""The training loop: it knows no model, data set or task by name.

`fit` trains a model on one split and leaves it with the weights of its best validation epoch.
The test nodes are looked at for that epoch only.
"""

import copy
import math
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor

from zoo.datasets import Dataset
from zoo.registry import Model
from zoo.splits import Split
from zoo.steps import Steps, moved
from zoo.table import Count, Fraction, NonNegative, Positive, Spec, Table, pick
from zoo.tasks import Task


class Epoch(NamedTuple):
    """One epoch `of` how many, for `metrics.jsonl`; scores are None where none were taken."""

    epoch: int
    of: int
    loss: float
    train: float | None
    val: float | None
    lr: float
    seconds: float


class Fit(NamedTuple):
    """The result of `fit`: scores at the epoch with the best validation score, and the cost."""

    epoch: int
    train: float
    val: float
    test: float
    epochs: int
    seconds_per_epoch: float
    interrupted: bool


def _adam(groups, lr, weight_decay) -> torch.optim.Optimizer:
    """Adam, weight decay added to the gradient."""
    return torch.optim.Adam(groups, lr=lr, weight_decay=weight_decay)


def _adamw(groups, lr, weight_decay) -> torch.optim.Optimizer:
    """Adam with decoupled weight decay."""
    return torch.optim.AdamW(groups, lr=lr, weight_decay=weight_decay)


OPTIMIZERS = Table("optimizer", {"adam": _adam, "adamw": _adamw})
"""Word to builder `(groups, lr, weight_decay) -> optimizer`."""


def _constant(epochs: int) -> Callable[[int], float]:
    """The same learning rate throughout."""
    return lambda epoch: 1.0


def _cosine(epochs: int, *, warmup: Fraction = 0.0, floor: Fraction = 0.0):
    """Linear warm-up, then half a cosine down.

    Args:
        warmup: share of the epochs spent warming up.
        floor: last learning rate, as a share of the first.
    """
    return _warmed_up(
        epochs, warmup, lambda t: floor + (1 - floor) * (1 + math.cos(math.pi * t)) / 2
    )


def _linear(epochs: int, *, warmup: Fraction = 0.1, floor: Fraction = 0.0):
    """Linear warm-up, then a straight line down.

    Args:
        warmup: share of the epochs spent warming up.
        floor: last learning rate, as a share of the first.
    """
    return _warmed_up(epochs, warmup, lambda t: 1 - (1 - floor) * t)


SCHEDULES = Table("schedule", {"constant": _constant, "cosine": _cosine, "linear": _linear})
"""Word to builder `(epochs, *, options) -> (epoch -> factor of the learning rate)`."""


def _warmed_up(epochs: int, warmup: float, decay: Callable[[float], float]):
    """Return a factor that rises from 1/w to 1 in the first w epochs and then follows `decay`."""
    rising = round(warmup * epochs)

    def factor(epoch: int) -> float:
        if epoch < rising:
            return (epoch + 1) / rising
        return decay((epoch - rising) / max(1, epochs - rising))

    return factor


def fit(
    model: Model,
    data: Dataset,
    split: Split,
    task: Task,
    device: torch.device | str = "cpu",
    augment: Callable[[Tensor], Tensor] = lambda x: x,
    watch: Callable[[Epoch], None] = lambda epoch: None,
    arrange: Callable[[list[dict], float], list[dict]] = lambda groups, lr: groups,
    *,
    epochs: Count = 500,
    lr: Positive = 0.01,
    weight_decay: NonNegative = 0.0,
    optimizer: Annotated[Spec, OPTIMIZERS] = "adam",
    schedule: Annotated[Spec, SCHEDULES] = "constant",
    patience: Count | None = None,
    clip: Positive | None = None,
    evaluate_every: Count = 1,
    precision: Literal["fp32", "bf16"] = "fp32",
) -> Fit:
    """Train a model in place; it ends with the weights of its best validation epoch.

    Ctrl-C ends training early and leaves the best weights so far.

    Args:
        model: any model of the contract, on any device.
        data: the graph, its features and labels.
        split: the training, validation and test nodes.
        task: loss and metric.
        device: where to train.
        augment: applied to the features x (N, F) in training only.
        watch: called after every epoch.
        arrange: the model's parameter groups and `lr` to those of the optimiser.
        epochs: passes over the training nodes.
        lr: learning rate.
        weight_decay: of the parameter groups that do not set their own.
        optimizer: `adam` or `adamw`.
        schedule: how the learning rate changes: `constant`, `cosine` or `linear`.
        patience: stop after this many epochs without a better validation score.
        clip: largest norm of the gradient.
        evaluate_every: epochs between two evaluations.
        precision: `bf16` runs matrix products in bfloat16 and keeps sums in fp32.

    Raises:
        ZooError: the loss is not finite, or an option is wrong.
    """
    data = moved(data, device)
    model.to(device)
    steps = Steps(model, data, split, task, augment, precision, clip)
    groups = arrange(model.parameter_groups(), lr)
    optimiser = pick(OPTIMIZERS, optimizer, groups, lr, weight_decay)
    starts = model.phase_starts()
    best = _Best(model, optimiser, last_start=max(starts, default=0))
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, pick(SCHEDULES, schedule, epochs))
    seconds: list[float] = []
    interrupted = False
    try:
        for epoch in range(epochs):
            start, rate = time.perf_counter(), rates.get_last_lr()[-1]
            if epoch in starts:
                best.rewind()
            model.begin_epoch(epoch)
            loss = steps.train(optimiser, epoch)
            rates.step()
            train = val = None
            if (epoch + 1) % evaluate_every == 0 or epoch + 1 == epochs:
                score = steps.evaluate()
                train, val = score("train"), score("val")
                best.offer(epoch, train, val, lambda: score("test"))  # noqa: B023 (called at once)
            seconds.append(time.perf_counter() - start)
            watch(Epoch(epoch, epochs, loss, train, val, rate, seconds[-1]))
            if patience is not None and best.scores and epoch - best.epoch >= patience:
                break
    except KeyboardInterrupt:
        if not best.scores:
            raise
        interrupted = True
    best.restore()
    cost = statistics.median(seconds) if seconds else float("nan")
    return Fit(best.epoch, **best.scores, epochs=len(seconds), seconds_per_epoch=cost,
               interrupted=interrupted)  # fmt: skip


class _Best:
    """The best validation score so far and the weights that reached it.

    The optimiser's state is kept beside them until the last phase of training has begun.
    """

    def __init__(self, model: Model, optimiser: torch.optim.Optimizer, last_start: int):
        self.model, self.optimiser, self.last_start = model, optimiser, last_start
        self.epoch = -1
        self.scores: dict[str, float] = {}

    def offer(self, epoch: int, train: float, val: float, test: Callable[[], float]) -> None:
        """Keep weights and scores if the validation score is better than any before."""
        if not self.scores or val > self.scores["val"]:
            scores = {"train": train, "val": val, "test": test()}
            self.weights = copy.deepcopy(self.model.state_dict())
            if epoch < self.last_start:
                self.moments = copy.deepcopy(self.optimiser.state_dict()["state"])
            self.scores, self.epoch = scores, epoch  # last: Ctrl-C may come at any time

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
