"""Training: `fit`, the loop over epochs, and `Trainer`, one epoch and one evaluation.

The loop stops early, writes checkpoints and ends with the weights of the best validation epoch; an
epoch is forward, loss, backward and optimiser step for each mini-batch. Both know no model, data
set or task by name. The test nodes are evaluated for the best epoch only.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import statistics
import time
from collections.abc import Callable
from functools import cached_property, partial
from typing import Annotated, Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from zoo.config.options import Count, NonNegative, Number, Positive, Rate, Spec, pick
from zoo.data import Dataset
from zoo.data.splits import PARTS
from zoo.errors import ZooError
from zoo.nn.random_batch_attention import local_redeal
from zoo.nn.running_statistics import RunningStatistics
from zoo.ops.precision import products_in
from zoo.ops.random_order import seed_of
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.memory import available_memory, upload
from zoo.tasks.losses import LOSSES, ClassWeights, class_weights
from zoo.tasks.metrics import METRICS
from zoo.tasks.task import (
    Target,
    Task,
    in_units,
    named_scores,
    target_scale,
    with_loss,
    with_metric,
)
from zoo.training.batches import (
    BATCHING,
    Batch,
    Batches,
    DataParallelBatches,
    FullBatch,
    FullBatchWhereItFits,
    InductiveEvaluation,
    Score,
    ShardedBatches,
    TrainingData,
    autocast,
    infer,
    make_inductive,
    nodes_of,
    part_scores,
)
from zoo.training.captured import Captured, CapturedStep, Recordings, can_record
from zoo.training.checkpoint import Best, Checkpoint, generators, restore_generators
from zoo.training.layerwise import Layerwise
from zoo.training.optimizers import OPTIMIZERS, SCHEDULES

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
    """The result of `fit`: scores at the epoch with the best validation score, and the cost.

    `beside` has the other metrics of the test part, None where one does not exist.
    """

    epoch: int
    train: float
    val: float
    test: float
    epochs: int
    seconds_per_epoch: float
    interrupted: bool
    beside: dict[str, float | None]


class Hooks(NamedTuple):
    """Callbacks of the training loop.

    Attributes:
        watch: called after every epoch.
        arrange: `(the model's parameter groups, lr)` to the parameter groups of the optimiser.
        checkpoint: where training resumes from if it holds a state; it is offered the state after
            every epoch. None: no state is written.
        begin: called before the first epoch with the number of those that were trained before.
        trained: whether the weights are pretrained, and are evaluated as they are, as epoch -1.
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
    loss: Annotated[Spec, LOSSES] = "task",
    label_smoothing: Rate = 0.0,
    class_weights: ClassWeights = None,
    metric: Annotated[Spec, METRICS] = "task",
    stop_on: Literal["metric", "loss"] = "metric",
    target: Target = "standard",
    inductive: bool = False,
    capture: bool | None = None,
) -> Fit:
    """Train a model in place; it ends with the weights of its best validation epoch.

    Ctrl-C ends training early and leaves the best weights so far.

    Args:
        model: any model of the contract, on any device.
        on: the graph, its split, loss and metric, and data augmentation.
        hooks: callbacks.
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
        loss: what is minimised: that of the `task`, or a word of `zoo.tasks.LOSSES`, such as
            `focal` of classes, with a logit for each, or `huber` of numbers.
        label_smoothing: share of each label that is spread over all classes, in the cross entropy.
        class_weights: by which the rows of each class count in the loss: `balanced`, all classes
            alike, or a list of weights.
        metric: which of `zoo.tasks.METRICS` chooses the epoch and is the score; the others are
            told beside it. That of the `task`: accuracy of classes.
        stop_on: what tells the best epoch, and when `patience` is over: the `metric`, or the `loss`
            of validation.
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
    on = on._replace(task=_task_of(on, loss, label_smoothing, class_weights, metric, device))
    if stop_on == "loss" and on.task.kind == "tokens":
        raise ZooError("translations stop on their metric; leave `stop_on: loss` out.")
    on = _in_units(model, on, device) if target == "standard" else on
    on = make_inductive(on) if inductive else on
    model.to(device)
    _check_memory(model, torch.device(device))
    trainer = Trainer(model, on, precision=precision, clip=clip, device=device, batching=batching,
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
    state = _State(model, optimiser, rates, best, stop_on == "loss")
    if hooks.checkpoint and (stored := hooks.checkpoint.read()):
        state.load_state_dict(stored)
    hooks.begin(len(state.seconds))
    if hooks.trained and not state.seconds:
        state.evaluate(trainer, -1)
    interrupted = False
    wait = epochs if patience is None else patience

    def is_over(done: int) -> bool:
        evaluated = done - done % evaluate_every  # up to the last evaluation
        stale = min(state.best.stale(evaluated), evaluated - evaluate_from + 1)
        return done >= epochs or stale > wait

    try:
        while not is_over(epoch := len(state.seconds)):
            due = epoch >= evaluate_from and (epoch + 1) % evaluate_every == 0
            with products_in(precision):
                result = _epoch(trainer, state, epoch, epochs, due or epoch + 1 == epochs, factor)
            hooks.watch(result._replace(last=is_over(epoch + 1)))
            if hooks.checkpoint:
                hooks.checkpoint.offer(state.state_dict)
    except KeyboardInterrupt:
        if not state.best.scores:
            raise
        interrupted = True
    finally:
        trainer.forget()  # CUDA graphs keep their memory, in a circle of references
    return state.finish(trainer, interrupted)


def _task_of(
    on: TrainingData,
    loss: Spec,
    label_smoothing: float,
    weights: ClassWeights,
    metric: Spec,
    device: torch.device | str,
) -> Task:
    """Return the task of the data with the loss and the metric of `fit`."""
    tensor = class_weights(weights, on.task.kind, on.data.y[on.split.train], on.data.classes)
    tensor = None if tensor is None else tensor.to(device)
    return with_metric(with_loss(on.task, loss, label_smoothing, tensor), metric)


def _in_units(model: Model, on: TrainingData, device: torch.device | str) -> TrainingData:
    """Have a model answer in the units of its targets: those of its weights, if they know some."""
    units = model.units or target_scale(on.task, on.data.y[on.split.train])
    if units is None:
        return on
    mean, deviation = (tensor.to(device) for tensor in units)
    model.answer_in_units(mean, deviation)
    return on._replace(task=in_units(on.task, mean, deviation))


def _check_memory(model: Model, device: torch.device) -> None:
    """Refuse weights which, with gradients and optimiser, do not fit into memory."""
    size = sum(weight.nbytes for weight in model.parameters())
    more, free = (COPIES - 1) * size, available_memory()
    if device.type == "cpu" and more > free:
        raise ZooError(
            f"the weights take {size / 2**30:,.1f} GiB, to train them {more / 2**30:,.1f} more: "
            f"gradients, the optimiser, and the best so far. {free / 2**30:,.1f} GiB are free; "
            "write a smaller width, fewer heads or fewer layers."
        )


class _State:
    """All that changes in training: what a checkpoint has.

    Attributes:
        seconds: of each epoch.
    """

    def __init__(
        self,
        model: Model,
        optimiser: torch.optim.Optimizer,
        rates: LRScheduler,
        best: Best,
        by_loss: bool,
    ):
        self.model, self.optimiser, self.rates, self.best = model, optimiser, rates, best
        self.by_loss = by_loss
        self.seconds: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        """Return all of it, the states of the random number generators included."""
        return {
            "epochs": len(self.seconds),
            "seconds": self.seconds,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rates": self.rates.state_dict(),
            "best": self.best.state_dict(),
            "generators": generators(),
        }

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, with the same numbers."""
        self.model.load_state_dict(stored["model"])
        self.optimiser.load_state_dict(stored["optimiser"])
        self.rates.load_state_dict(stored["rates"])
        self.best.load_state_dict(stored["best"])
        self.seconds = stored["seconds"]
        restore_generators(stored["generators"])

    def evaluate(self, trainer: Trainer, epoch: int) -> tuple[float, float]:
        """Evaluate, copy the weights if they are the best; return training and validation score."""
        score, task = trainer.run_inference(), trainer.on.task
        (train,) = score("train", [task.metric])
        val, *loss = score("val", [task.metric, *([trainer.loss_of] if self.by_loss else [])])
        scores = {"train": train, "val": val, **({"loss": loss[0]} if loss else {})}
        self.best.offer(epoch, scores, lambda: score("test", [task.metric])[0])
        return train, val

    def finish(self, trainer: Trainer, interrupted: bool) -> Fit:
        """Give the model its best weights; return its scores, further metrics, and the cost."""
        self.best.restore()
        beside, others = trainer.on.task.beside, []
        if beside:
            with products_in(trainer.precision):
                others = trainer.run_inference(recorded=False)("test", [*beside.values()])
        self.model.eval()
        scores = {part: self.best.scores[part] for part in PARTS}
        cost = statistics.median(self.seconds) if self.seconds else 0.0
        return Fit(self.best.epoch, **scores, epochs=len(self.seconds), seconds_per_epoch=cost,
                   interrupted=interrupted, beside=named_scores(beside, others))  # fmt: skip


def _epoch(trainer: Trainer, state: _State, epoch: int, epochs: int, due: bool, factor) -> Epoch:
    """Train one epoch, and evaluate where that is due."""

    def set_rate(until: float) -> None:
        for group, base in zip(state.optimiser.param_groups, state.rates.base_lrs, strict=True):
            group["lr"] = base * factor(epoch, until)

    start, rate = time.perf_counter(), state.rates.get_last_lr()[-1]
    if epoch in state.best.starts:
        state.best.rewind()
        trainer.forget()
    trainer.begin(epoch)
    loss = trainer.train(state.optimiser, epoch, set_rate)
    state.rates.step()
    train, val = state.evaluate(trainer, epoch) if due else (None, None)
    state.seconds.append(time.perf_counter() - start)
    best = state.best.scores.get("val"), state.best.epoch
    return Epoch(epoch, epochs, loss, train, val, rate, state.seconds[-1], *best)


_BEGINNING = 2**32
"""The number of no batch: seeds what is random before the first."""

RECORDED = 100_000
"""Nodes of the largest graph whose step is a CUDA graph by default: larger ones gain nothing."""


@dataclasses.dataclass
class Trainer:
    """The training epochs and the evaluation of a model on one split.

    Args:
        model: the model, on the device.
        on: the data, split and task.
        precision: `fp32`, or `bf16` for automatic mixed precision; `tf32` is the caller's to set.
        clip: largest norm of the gradient.
        device: of training.
        batching: the mini-batch strategy, a word of `zoo.training.batches.BATCHING`.
        evaluation: `full`, the whole graph at once (where training goes in batches: on a GPU that
            has room for it, else on the CPU); `layerwise`, the same in bounded memory; or
            `batches`, as training does.
        capture: whether step and evaluation of the whole graph are CUDA graphs, see `Captured`;
            None: of at most `RECORDED` nodes, and a model without code from elsewhere. An
            evaluation that cannot be recorded is run as it is.

    Attributes:
        train_loader: yields the mini-batches of training.
        eval_loader: computes the scores; None in a process that leaves it to the first.

    Raises:
        ZooError: the model cannot be evaluated `layerwise`, or an option is wrong.
    """

    model: Model
    on: TrainingData
    _: dataclasses.KW_ONLY
    precision: str = "fp32"
    clip: float | None = None
    device: torch.device | str = "cpu"
    batching: Spec = "full"
    evaluation: str = "full"
    capture: bool | None = None

    def __post_init__(self):
        self._recordings = Recordings()
        reshuffle_every = local_redeal(self.model) if process_group.count() > 1 else None
        data, split = self.on.data, self.on.split
        given = (data, split.train, self.device)
        if reshuffle_every is None:
            self.train_loader = pick(BATCHING, self.batching, *given)
        else:
            self.train_loader = ShardedBatches(*given, reshuffle_every)
        self.eval_loader = self.train_loader
        if self.on.eval_data is not None:
            if self.evaluation != "full":
                raise ZooError("`inductive` measures each part at once; leave `evaluate` out.")
            self.eval_loader = InductiveEvaluation(
                self.on.eval_data, "cpu" if self._batched() else self.device
            )
        elif self.evaluation == "layerwise":
            self.eval_loader = Layerwise(data, self.device)
            infer(self.model, self.eval_loader, self.precision, self.eval_loader.check)
        elif self.evaluation == "full" and self._batched():
            on_gpu = torch.device(self.device).type != "cpu"
            self.eval_loader = (FullBatchWhereItFits if on_gpu else FullBatch)(*given)
        if self.eval_loader is not self.train_loader and process_group.rank() > 0:
            self.eval_loader = None  # one process is enough
        whole = type(self.train_loader) is FullBatch
        if self.capture and not whole:
            raise ZooError("`capture` records the step of a whole graph on one GPU; leave it out.")
        self._capture_required = bool(self.capture)
        if self.capture is None:
            calls = self.on.task.loss, self.on.augment
            self.capture = whole and len(data.x) <= RECORDED and can_record(self.model, *calls)
        self.capture = self.capture and torch.device(self.device).type == "cuda"

    def _batched(self) -> bool:
        """Return whether training goes in batches of nodes, as of a graph that is large."""
        return isinstance(self.train_loader, Batches)

    @property
    def _data_parallel(self) -> bool:
        """Whether several processes divide the batches of a step among them."""
        return isinstance(self.train_loader, DataParallelBatches)

    def begin(self, epoch: int) -> None:
        """Call the model's `begin_epoch`.

        Its random numbers are the same in all processes that divide the work, and follow from the
        run's seed and the epoch: their generators differ, and one alone is in a checkpoint.
        """
        if process_group.count() > 1 and self._data_parallel:
            torch.manual_seed(seed_of((self.train_loader.seed, epoch, _BEGINNING)))
        self.model.begin_epoch(epoch)

    def forget(self) -> None:
        """Drop the CUDA graphs: a phase begins, or the optimiser has another state."""
        self._recordings.forget()

    def train(
        self,
        optimiser: torch.optim.Optimizer,
        epoch: int,
        set_rate: Callable[[float], None] = lambda until: None,
    ) -> float:
        """Take the optimiser steps of an epoch; return the mean of their losses.

        Args:
            optimiser: of the model's parameters.
            epoch: its number, from 0.
            set_rate: called before each step with the share of the epoch's steps that it ends.

        Raises:
            ZooError: the loss is not finite.
        """
        losses = _Losses(epoch, optimiser)
        if self.capture:
            set_rate(1.0)
            if (loss := self._captured_step(optimiser)) is not None:
                losses.append(loss)
                return losses.mean()
        self.model.train()
        step_loss: Tensor | None = None
        per_step = process_group.count() * getattr(self.train_loader, "per_step", 0)
        statistics = RunningStatistics(self.model, per_step if self._data_parallel else None)
        for batch in self.train_loader.batches(epoch):
            if step_loss is None:
                optimiser.zero_grad(set_to_none=True)
            if batch.seed is not None:
                torch.manual_seed(batch.seed)
            with statistics.of(batch.place):
                loss = self._loss(batch)
                loss.backward()
            step_loss = loss.detach() if step_loss is None else step_loss + loss.detach()
            if batch.last:
                losses.append(process_group.total(step_loss) if self._data_parallel else step_loss)
                set_rate(batch.until)
                self._step(optimiser)
                statistics.combine()
                step_loss = None
        return losses.mean()

    def evaluate(self) -> Callable[[str], float]:
        """Run inference once; return the metric as a function of the part: train, val or test."""
        score = self.run_inference()
        return lambda part: score(part, [self.on.task.metric])[0]

    def loss_of(self, logits: Tensor, y: Tensor) -> float:
        """Return the loss as a metric."""
        return self.on.task.loss(logits, y).item()

    def run_inference(self, recorded: bool = True) -> Score:
        """Run inference once; return the scores, `(part, measures) -> numbers`.

        All processes have to call both; they get the first one's numbers. Call it before the next
        evaluation, which may overwrite the logits of this one.

        Args:
            recorded: whether to replay a CUDA graph, where there is one.
        """
        if self.eval_loader is None:
            return lambda part, measures: process_group.of_first([0.0] * len(measures))
        scores = None
        if recorded and self.capture and self.eval_loader is self.train_loader:
            scores = self._captured_scores()
        scores = scores or self.eval_loader.scores(self.model, self.on, self.precision)
        return lambda part, measures: process_group.of_first(scores(part, measures))

    def _loss(self, batch: Batch) -> Tensor:
        with autocast(batch.x.device, self.precision):
            logits, penalty = self.model(batch.graph, self.on.augment(batch.x))
        logits, rows = batch.read(logits), batch.rows
        if batch.pairs is not None:
            logits = self.model.score_pairs(logits, batch.pairs)
        # Of a share without training nodes the loss has no weight; its gradients are zeros.
        if not len(rows):
            loss = logits.sum()
        elif len(rows) == len(logits):  # a copy of each row of a vocabulary is slow
            loss = self.on.task.loss(logits, batch.y)
        else:
            loss = self.on.task.loss(logits[rows], batch.y[rows])
        return batch.weight * loss + batch.share * penalty

    def _captured_step(self, optimiser: torch.optim.Optimizer) -> Tensor | None:
        """Take the step of the whole graph, by a CUDA graph as soon as there is one."""

        def step() -> Tensor:
            self.model.train()
            (batch,) = self.train_loader.batches(0)
            optimiser.zero_grad(set_to_none=True)
            loss = self._loss(batch)
            loss.backward()
            self._step(optimiser)
            return loss.detach()

        make = partial(CapturedStep, step, self.model, optimiser)
        return self._recordings.call("step", make, self._capture_required)

    def _captured_scores(self) -> Score | None:
        """Run inference on the whole graph, likewise; return the scores of each part."""

        def inference() -> Tensor:
            return infer(self.model, self.train_loader, self.precision, forward)

        nodes, y = self._measured
        forward = partial(self.train_loader.logits, nodes=nodes)
        logits = self._recordings.call("evaluation", partial(Captured, inference, self.model))
        return None if logits is None else part_scores(logits, y, self.on.split)

    @cached_property
    def _measured(self) -> tuple[Tensor, Tensor]:
        """The nodes of all parts and their labels, where the model is."""
        nodes = upload(nodes_of(self.on.split), self.device)
        return nodes, self.train_loader.data.y[nodes]

    def _step(self, optimiser: torch.optim.Optimizer) -> None:
        if self._data_parallel:
            process_group.sum_gradients(self.model.parameters())
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        optimiser.step()


def all_logits(model: Model, data: Dataset, precision: str = "fp32") -> Tensor:
    """Return the logits of every node, (N, C) fp32 where the data is, model in eval mode."""
    loader = FullBatch(data, torch.arange(len(data.x)), data.x.device)
    return infer(model, loader, precision, lambda forward: loader.logits(forward, loader.train))


class _Losses:
    """The losses of an epoch's steps. A loss on a GPU is read when the next step is under way.

    Raises:
        ZooError: one that is read is not finite.
    """

    def __init__(self, epoch: int, optimiser: torch.optim.Optimizer):
        self.epoch, self.optimiser = epoch, optimiser
        self.values: list[float] = []
        self._late: tuple[Tensor, torch.cuda.Event] | None = None

    def append(self, loss: Tensor) -> None:
        """Read a loss on the CPU; of a GPU, begin to copy it, and read the one before."""
        if loss.is_cpu:
            return self._append(loss.item())
        before, ready = self._late, torch.cuda.Event()
        self._late = loss.to("cpu", non_blocking=True), ready
        ready.record(torch.cuda.current_stream(loss.device))
        self._wait(before)

    def mean(self) -> float:
        """Return the mean of all."""
        self._wait(self._late)
        return statistics.fmean(self.values)

    def _wait(self, late: tuple[Tensor, torch.cuda.Event] | None) -> None:
        if late is not None:
            late[1].synchronize()
            self._append(late[0].item())

    def _append(self, loss: float) -> None:
        self.values.append(loss)
        if math.isfinite(loss):
            return
        if self.epoch == 0 and len(self.values) == 1:
            raise ZooError(
                f"the loss is {loss} before the first step, so that no learning rate is to blame: "
                "features that are too large, the weights that training begins with, or an option "
                "of the model. Look at the features with `zoo data check`; of a graph "
                "`dataset.features=standard` scales them."
            )
        rate = self.optimiser.param_groups[-1]["lr"]
        raise ZooError(
            f"the loss became {loss} in epoch {self.epoch + 1} at a learning rate of {rate:g}. "
            f"Write a smaller one, `train.lr={rate / 10:g}`, or limit the gradient, `train.clip=1`."
        )
