"""The training loop, with early stopping, checkpoints and the best validation epoch's weights.

It knows no model, data set or task by name. The test nodes are looked at for the best epoch only.
"""

import logging
import statistics
import time
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch.optim.lr_scheduler import LRScheduler

from zoo.config.options import Count, NonNegative, Number, Positive, Rate, Spec, pick
from zoo.datasets.tasks import Loss, Target, in_units, smoothed, target_scale, with_loss
from zoo.errors import ZooError
from zoo.ops.precision import products_in
from zoo.registry import Model
from zoo.system.memory import available_memory
from zoo.training.checkpoint import Best, Checkpoint
from zoo.training.epoch import Steps
from zoo.training.full_batch import TrainingData, training_alone
from zoo.training.mini_batch import BATCHING
from zoo.training.optimizers import OPTIMIZERS, SCHEDULES
from zoo.training.stored_state import check_stored, generators, restore_generators

COPIES = 5
"""The weights, their gradients, two moments of Adam, and the best weights so far."""


class Epoch(NamedTuple):
    """One epoch `of` how many, for `metrics.jsonl`; scores are None where none were taken.

    `best` is the best validation score so far, of the `best_epoch`; `last` says that none follows.
    """

    epoch: int
    of: int
    loss: float
    train: float | None
    val: float | None
    lr: float
    seconds: float
    best: float | None
    best_epoch: int
    last: bool = False


class Fit(NamedTuple):
    """The result of `fit`: scores at the epoch with the best validation score, and the cost."""

    epoch: int
    train: float
    val: float
    test: float
    epochs: int
    seconds_per_epoch: float
    interrupted: bool


class Hooks(NamedTuple):
    """What the caller of `fit` does at fixed places of the training loop.

    Attributes:
        watch: called after every epoch, the model in training or in eval mode.
        arrange: `(the model's parameter groups, lr)` to the parameter groups of the optimiser.
        checkpoint: where training resumes from if it holds a state; it is offered the state after
            every epoch. None: no state is kept.
        begin: called before the first epoch with the number of those that were trained before.
        trained: the weights have been trained before and are scored as they come, as epoch -1.
    """

    watch: Callable[[Epoch], None] = lambda epoch: None
    arrange: Callable[[list[dict], float], list[dict]] = lambda groups, lr: groups
    checkpoint: Checkpoint | None = None
    begin: Callable[[int], None] = lambda epochs: None
    trained: bool = False


def fit(
    model: Model,
    on: TrainingData,
    hooks: Hooks = Hooks(),  # noqa: B008 (frozen)
    device: torch.device | str = "cpu",
    *,
    epochs: Count = 500,
    lr: Positive = 0.01,
    weight_decay: NonNegative = 0.0,
    optimizer: Annotated[Spec, OPTIMIZERS] = "adam",
    schedule: Annotated[Spec, SCHEDULES] = "constant",
    patience: Count | None = None,
    clip: Positive | None = None,
    evaluate_every: Count = 1,
    evaluate_from: Number = 0,
    batching: Annotated[Spec, BATCHING] = "full",
    evaluate: Literal["full", "layerwise", "batches"] = "full",
    precision: Literal["fp32", "tf32", "bf16"] = "fp32",
    loss: Loss = "task",
    label_smoothing: Rate = 0.0,
    target: Target = "standard",
    inductive: bool = False,
    capture: bool | None = None,
) -> Fit:
    """Train a model in place; it ends with the weights of its best validation epoch.

    Ctrl-C ends training early and leaves the best weights so far.

    Args:
        model: any model of the contract, on any device.
        on: the graph, its split, loss and metric, and data augmentation.
        hooks: what is called meanwhile.
        device: where to train.
        epochs: passes over the training nodes.
        lr: learning rate.
        weight_decay: of the parameter groups that do not set their own.
        optimizer: `adam`, `adamw` or `lamb`.
        schedule: how the learning rate changes: `constant`, `cosine`, `linear`, `inverse-sqrt`.
        patience: stop after this many epochs without a better validation score, at an epoch that is
            evaluated; of a model with phases, counted from where the last one begins.
        clip: largest norm of the gradient.
        evaluate_every: epochs between two evaluations.
        evaluate_from: first epoch, counted from 0, that may be evaluated.
        batching: mini-batch strategy: the `full` graph in one step, or batches of nodes.
        evaluate: `full`, on the whole graph at once (on the CPU where training goes in batches);
            `layerwise`, the same in bounded memory; or in `batches`, as training does.
        precision: `bf16` runs matrix products in bfloat16 and keeps sums in fp32; `tf32` has GPUs
            round what they multiply to 10 bits, and is `fp32` on a CPU.
        loss: what is minimised: that of the `task`; or, with a logit for each class, the
            `cross-entropy` of a softmax, or the binary cross entropy of `one-hot` labels.
        label_smoothing: share of each label that is spread over all classes, in the loss.
        target: of regression: `standard` learns numbers as if they had mean 0 and deviation 1 among
            the training nodes; what is predicted and measured is in their own units. `raw`: the
            loss is of the numbers as they are.
        inductive: train on the training nodes alone; validation and test nodes are seen, together
            with these, when they are measured and not before.
        capture: record step and evaluation of a small graph once as CUDA graphs and replay them: a
            GPU is asked for one thing instead of hundreds. No step with `lamb`, nor of attention
            that itself draws inside of random batches; on a CPU the same as without. Left out, they
            are recorded of at most 100,000 nodes and a model without code from elsewhere, but an
            evaluation neither `layerwise` nor of `inductive`.

    Raises:
        ZooError: the loss is not finite, or an option is wrong.
    """
    on = on._replace(task=smoothed(with_loss(on.task, loss), label_smoothing))
    on = _in_units(model, on, device) if target == "standard" else on
    on = training_alone(on) if inductive else on
    model.to(device)
    _check_room(model, torch.device(device))
    steps = Steps(model, on, precision=precision, clip=clip, device=device, batching=batching,
                  evaluation=evaluate, capture=capture)  # fmt: skip
    groups = hooks.arrange(model.parameter_groups(), lr)
    optimiser = pick(OPTIMIZERS, optimizer, groups, lr, weight_decay)
    factor = pick(SCHEDULES, schedule, epochs)
    # What it logs of an epoch is the rate of the last step in it.
    rates = torch.optim.lr_scheduler.LambdaLR(optimiser, factor)
    best = Best(model, optimiser, model.phase_starts(), on.task.metric_name)
    if (last := max(model.phase_starts(), default=0)) >= epochs:
        logging.getLogger(__name__).warning(
            f"the last phase of this model begins after {last:,} epochs, and training ends after "
            f"{epochs:,}: what it has for that phase stays untrained. Train for longer."
        )
    state = _State(model, optimiser, rates, best)
    if hooks.checkpoint:
        hooks.checkpoint.read(state.resume)
    hooks.begin(len(state.seconds))
    if hooks.trained and not state.seconds:
        state.offer(steps, -1)
    interrupted = False
    wait = epochs if patience is None else patience

    def over(done: int) -> bool:
        seen = done - done % evaluate_every  # up to the last evaluation
        stale = min(state.best.stale(seen), seen - evaluate_from + 1)
        return done >= epochs or stale > wait

    try:
        while not over(epoch := len(state.seconds)):
            due = epoch >= evaluate_from and (epoch + 1) % evaluate_every == 0
            with products_in(precision):
                told = _epoch(steps, state, epoch, epochs, due or epoch + 1 == epochs, factor)
            hooks.watch(told._replace(last=over(epoch + 1)))
            if hooks.checkpoint:
                hooks.checkpoint.offer(state.stored)
    except KeyboardInterrupt:
        if not state.best.scores:
            raise
        interrupted = True
    finally:
        steps.forget()  # what is recorded keeps its memory, and knows the steps that know it
    return state.finish(interrupted)


def _in_units(model: Model, on: TrainingData, device: torch.device | str) -> TrainingData:
    """Have a model answer in the units of its targets: those of its weights, if they know some."""
    units = model.units or target_scale(on.task, on.data.y[on.split.train])
    if units is None:
        return on
    units = tuple(each.to(device) for each in units)
    model.answer_in_units(*units)
    return on._replace(task=in_units(on.task, *units))


def _check_room(model: Model, device: torch.device) -> None:
    """Refuse weights which, with all that goes beside them, do not fit into memory."""
    held = sum(each.nbytes for each in model.parameters())
    more, free = (COPIES - 1) * held, available_memory()
    if device.type == "cpu" and more > free:
        raise ZooError(
            f"the weights take {held / 2**30:,.1f} GiB, to train them {more / 2**30:,.1f} more: "
            f"gradients, the optimiser, and the best so far. {free / 2**30:,.1f} GiB are free; "
            "write a smaller width, fewer heads or fewer layers."
        )


class _State:
    """All that changes in training; stored between two epochs, training resumes from it.

    Attributes:
        seconds: what each epoch took.
    """

    def __init__(self, model: Model, optimiser: torch.optim.Optimizer, rates: LRScheduler, best):
        self.model, self.optimiser, self.rates, self.best = model, optimiser, rates, best
        self.seconds: list[float] = []

    def stored(self) -> dict[str, Any]:
        """Return all of it, the random number generators' states included."""
        return {
            "epochs": len(self.seconds),
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rates": self.rates.state_dict(),
            "best": self.best.state(),
            "generators": generators(),
        }

    def resume(self, stored: dict[str, Any]) -> None:
        """Go on from what `stored` returned, as if nothing had happened.

        Raises:
            Damaged: it is the state of no training of this model.
        """
        weights = [each for group in self.optimiser.param_groups for each in group["params"]]
        check_stored(self.stored(), stored, weights)
        self.model.load_state_dict(stored["model"])
        self.optimiser.load_state_dict(stored["optimiser"])
        self.rates.load_state_dict(stored["rates"])
        self.best.resume(stored["best"])
        self.seconds = stored["seconds"]
        restore_generators(stored["generators"])

    def offer(self, steps: Steps, epoch: int) -> tuple[float, float]:
        """Score the weights, keep them if they are the best; return training and validation."""
        score = steps.evaluate()
        train, val = score("train"), score("val")
        self.best.offer(epoch, train, val, lambda: score("test"))
        return train, val

    def finish(self, interrupted: bool) -> Fit:
        """Give the model its best weights and return its scores and the cost."""
        self.best.restore()
        self.model.eval()
        cost = statistics.median(self.seconds) if self.seconds else 0.0
        return Fit(self.best.epoch, **self.best.scores, epochs=len(self.seconds),
                   seconds_per_epoch=cost, interrupted=interrupted)  # fmt: skip


def _epoch(steps: Steps, state: _State, epoch: int, epochs: int, due: bool, factor) -> Epoch:
    """Train one epoch; evaluate, and keep the weights if they are the best, where that is due."""

    def pace(until: float) -> None:
        for group, base in zip(state.optimiser.param_groups, state.rates.base_lrs, strict=True):
            group["lr"] = base * factor(epoch, until)

    start, rate = time.perf_counter(), state.rates.get_last_lr()[-1]
    if epoch in state.best.starts:
        state.best.rewind()
        steps.forget()
    steps.begin(epoch)
    loss = steps.train(state.optimiser, epoch, pace)
    state.rates.step()
    train, val = state.offer(steps, epoch) if due else (None, None)
    state.seconds.append(time.perf_counter() - start)
    best = state.best.scores.get("val"), state.best.epoch
    return Epoch(epoch, epochs, loss, train, val, rate, state.seconds[-1], *best)
