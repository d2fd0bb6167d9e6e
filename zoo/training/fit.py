"""The training loop: it knows no model, data set or task by name.

`fit` trains a model on one split and leaves it with the weights of its best validation epoch.
The test nodes are looked at for that epoch only.
"""

import copy
import statistics
import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor

from zoo.config.options import Count, NonNegative, Positive, Spec, pick
from zoo.datasets import Dataset
from zoo.datasets.splits import Split
from zoo.datasets.tasks import Task
from zoo.registry import Model
from zoo.training.checkpoint import Checkpoint, generators, restore_generators
from zoo.training.epoch import Steps
from zoo.training.mini_batch import BATCHING
from zoo.training.optimizers import OPTIMIZERS
from zoo.training.schedules import SCHEDULES


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


def fit(
    model: Model,
    data: Dataset,
    split: Split,
    task: Task,
    device: torch.device | str = "cpu",
    augment: Callable[[Tensor], Tensor] = lambda x: x,
    watch: Callable[[Epoch], None] = lambda epoch: None,
    arrange: Callable[[list[dict], float], list[dict]] = lambda groups, lr: groups,
    checkpoint: Checkpoint | None = None,
    *,
    epochs: Count = 500,
    lr: Positive = 0.01,
    weight_decay: NonNegative = 0.0,
    optimizer: Annotated[Spec, OPTIMIZERS] = "adam",
    schedule: Annotated[Spec, SCHEDULES] = "constant",
    patience: Count | None = None,
    clip: Positive | None = None,
    evaluate_every: Count = 1,
    batching: Annotated[Spec, BATCHING] = "full",
    evaluate: Literal["full", "layers", "batches"] = "full",
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
        checkpoint: where the training begins if it holds a state, and what is offered all of it
            after every epoch.
        epochs: passes over the training nodes.
        lr: learning rate.
        weight_decay: of the parameter groups that do not set their own.
        optimizer: `adam` or `adamw`.
        schedule: how the learning rate changes: `constant`, `cosine` or `linear`.
        patience: stop after this many epochs without a better validation score.
        clip: largest norm of the gradient.
        evaluate_every: epochs between two evaluations.
        batching: what an epoch goes over: the `full` graph in one step, or batches of nodes.
        evaluate: `full`, on the whole graph at once (on the CPU where training goes in batches);
            `layers`, the same in bounded memory; or in `batches`, as training does.
        precision: `bf16` runs matrix products in bfloat16 and keeps sums in fp32.

    Raises:
        ZooError: the loss is not finite, or an option is wrong.
    """
    model.to(device)
    steps = Steps(model, data, split, task, augment, precision, clip, device, batching, evaluate)
    groups = arrange(model.parameter_groups(), lr)
    optimiser = pick(OPTIMIZERS, optimizer, groups, lr, weight_decay)
    best = _Best(model, optimiser, model.phase_starts())
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, pick(SCHEDULES, schedule, epochs))
    seconds: list[float] = []
    state = checkpoint.read() if checkpoint else None
    if state is not None:
        _restore(state, model, optimiser, rates, best)
        seconds += state["seconds"]
    interrupted = False
    try:
        for epoch in range(len(seconds), epochs):
            if patience is not None and best.scores and epoch - best.epoch > patience:
                break
            start, rate = time.perf_counter(), rates.get_last_lr()[-1]
            if epoch in best.starts:
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
            if checkpoint:
                checkpoint.offer(lambda: _state(model, optimiser, rates, best, seconds))
    except KeyboardInterrupt:
        if not best.scores:
            raise
        interrupted = True
    best.restore()
    cost = statistics.median(seconds) if seconds else float("nan")
    return Fit(best.epoch, **best.scores, epochs=len(seconds), seconds_per_epoch=cost,
               interrupted=interrupted)  # fmt: skip


def _state(model, optimiser, rates, best, seconds) -> dict[str, Any]:
    """Return all that a training needs to go on, between two epochs."""
    return {
        "epochs": len(seconds),
        "seconds": seconds,
        "model": model.state_dict(),
        "optimiser": optimiser.state_dict(),
        "rates": rates.state_dict(),
        "best": best.state(),
        "generators": generators(),
    }


def _restore(state, model, optimiser, rates, best) -> None:
    """Go on from a state, as if nothing had happened."""
    model.load_state_dict(state["model"])
    optimiser.load_state_dict(state["optimiser"])
    rates.load_state_dict(state["rates"])
    best.go_on(state["best"])
    restore_generators(state["generators"])


class _Best:
    """The best validation score so far and the weights that reached it.

    The optimiser's state is kept beside them until the last phase of training has begun.

    Args:
        model: what is trained.
        optimiser: what trains it.
        starts: the epochs in which a phase begins.
    """

    def __init__(self, model: Model, optimiser: torch.optim.Optimizer, starts: Iterable[int]):
        self.model, self.optimiser, self.starts = model, optimiser, tuple(starts)
        self.epoch = -1
        self.scores: dict[str, float] = {}
        self.weights: dict[str, Tensor] = {}
        self.moments: dict[int, Any] = {}

    def offer(self, epoch: int, train: float, val: float, test: Callable[[], float]) -> None:
        """Keep weights and scores if the validation score is better than any before."""
        if not self.scores or val > self.scores["val"]:
            scores = {"train": train, "val": val, "test": test()}
            self.weights = copy.deepcopy(self.model.state_dict())
            if epoch < max(self.starts, default=0):
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

    def state(self) -> dict[str, Any]:
        """Return all of it."""
        kept = ("starts", "epoch", "scores", "weights", "moments")
        return {name: getattr(self, name) for name in kept}

    def go_on(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""
        for name, value in state.items():
            setattr(self, name, value)
