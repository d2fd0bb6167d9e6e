"""Training: `fit` loops over epochs; `Trainer` runs one epoch or one evaluation.

`fit` does early stopping, writes checkpoints and restores the weights of the best validation epoch.
An epoch is forward, loss, backward and optimiser step for each mini-batch. Neither depends on a
particular model, data set or task. The test score is computed only when validation improves.
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
from zoo.training.checkpoint import Checkpoint, generators, restore_generators
from zoo.training.early_stopping import Best
from zoo.training.in_context import answer_in_context
from zoo.training.layerwise import Layerwise
from zoo.training.optimizers import OPTIMIZERS, SCHEDULES

WEIGHT_COPIES = 5
"""Of the weights in training: themselves, gradients, two moments of Adam, the best so far."""


class Epoch(NamedTuple):
    """The metrics of one epoch; the fields are the keys of a line of `metrics.jsonl`.

    Attributes:
        epoch: its index, from 0.
        of: how many epochs are planned.
        loss: mean training loss.
        train: training score; None if the epoch was not evaluated.
        val: validation score; None if the epoch was not evaluated.
        lr: learning rate of the last step, of the last parameter group.
        seconds: duration, evaluation included.
        best: best validation score so far; None before the first evaluation.
        best_epoch: the epoch of `best`.
        last: whether training ends after this epoch.
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
    """The result of `fit`; the fields are keys of `result.json`.

    Attributes:
        epoch: the best epoch, by validation score or loss.
        train: training score at that epoch.
        val: validation score at that epoch.
        test: test score at that epoch.
        epochs: how many epochs were trained.
        seconds_per_epoch: median duration of an epoch.
        interrupted: whether Ctrl-C ended training early.
        beside: the task's additional metrics on the test part; None where one is undefined.
        unreached_phase: the epochs before the last phase of a model, where training ended before.
    """

    epoch: int
    train: float
    val: float
    test: float
    epochs: int
    seconds_per_epoch: float
    interrupted: bool
    beside: dict[str, float | None]
    unreached_phase: int | None = None


class Hooks(NamedTuple):
    """Callbacks of the training loop.

    Attributes:
        after_epoch: called with the metrics of each epoch.
        parameter_groups: `(model.parameter_groups(), lr)` to the optimiser's parameter groups.
        checkpoint: training resumes from its state, if it has one; after every epoch it may save
            the new state. None: nothing is saved.
        before_training: called with the number of epochs already trained (0 unless resumed).
        pretrained: whether training starts from pretrained weights, which are then evaluated
            before the first epoch, as epoch -1.
    """

    after_epoch: Callable[[Epoch], None] = lambda epoch: None
    parameter_groups: Callable[[list[dict], float], list[dict]] = lambda groups, lr: groups
    checkpoint: Checkpoint | None = None
    before_training: Callable[[int], None] = lambda epochs: None
    pretrained: bool = False


def fit(
    model: Model,
    training_data: TrainingData,
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
        model: any registered model, on any device.
        training_data: the graph, its split, loss and metric, and data augmentation.
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
            the training nodes; what is predicted and measured is in their own units. `log`: so of
            log(1 + y), of amounts from 0 whose few large ones would outweigh all others; answers
            are then nearer to a median than to a mean. `raw`: the loss is of the numbers as they
            are.
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
    task = _configure_task(training_data, loss, label_smoothing, class_weights, metric, device)
    training_data = training_data._replace(task=task)
    if stop_on == "loss" and task.kind == "tokens":
        raise ZooError("translations stop on their metric; leave `stop_on: loss` out.")
    training_data = _standardize_targets(model, training_data, device, target)
    training_data = _what_is_seen(model, training_data, inductive, evaluate)
    model.to(device)
    _check_memory(model, torch.device(device))
    trainer = Trainer(
        model,
        training_data,
        precision=precision,
        clip=clip,
        device=device,
        batching=batching,
        evaluation=evaluate,
        capture=False if model.context else capture,
    )
    if not any(True for _ in model.parameters()):
        return _measure(trainer)
    groups = hooks.parameter_groups(model.parameter_groups(), lr)
    optimiser = pick(OPTIMIZERS, optimizer, groups, lr, weight_decay)
    lr_factor = pick(SCHEDULES, schedule, epochs)
    # Steps inside an epoch set the lr themselves; the scheduler holds that of its last step.
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lr_factor)
    best = Best(model, optimiser, model.phase_starts(), training_data.task.metric_name)
    _warn_of_late_phase(model, epochs)
    state = _TrainingState(model, optimiser, scheduler, best, stop_on == "loss")
    if hooks.checkpoint and (stored := hooks.checkpoint.read()):
        state.load_state_dict(stored)
    hooks.before_training(len(state.epoch_seconds))
    if hooks.pretrained and not state.epoch_seconds:
        state.evaluate(trainer, -1)
    interrupted = False
    max_stale = epochs if patience is None else patience

    def is_over(epochs_done: int) -> bool:
        evaluated = epochs_done - epochs_done % evaluate_every  # epochs up to the last evaluation
        stale = min(state.best.stale(evaluated), evaluated - evaluate_from + 1)
        return epochs_done >= epochs or stale > max_stale

    try:
        while not is_over(epoch := len(state.epoch_seconds)):
            regular = epoch >= evaluate_from and (epoch + 1) % evaluate_every == 0
            evaluation_due = regular or epoch + 1 == epochs  # the last epoch is always evaluated
            with products_in(precision):
                metrics = _run_epoch(trainer, state, epoch, epochs, evaluation_due, lr_factor)
            hooks.after_epoch(metrics._replace(last=is_over(epoch + 1)))
            if hooks.checkpoint:
                hooks.checkpoint.offer(state.state_dict)
    except KeyboardInterrupt:
        if not state.best.scores:
            raise
        interrupted = True
    finally:
        trainer.drop_cuda_graphs()  # a reference cycle would keep their memory alive
    return state.finish(trainer, interrupted)


def _warn_of_late_phase(model: Model, epochs: int) -> None:
    """Say that training ends before the last phase of a model begins."""
    if (last := max(model.phase_starts(), default=0)) >= epochs:
        logging.getLogger(__name__).warning(
            f"the last phase of this model begins after {last:,} epochs, and training ends after "
            f"{epochs:,}: what it has for that phase stays untrained. Train for longer."
        )


def _configure_task(
    training_data: TrainingData,
    loss: Spec,
    label_smoothing: float,
    weighting: ClassWeights,
    metric: Spec,
    device: torch.device | str,
) -> Task:
    """Return the task of the data with the loss and metric that the options of `fit` choose."""
    data, split, task, *_ = training_data
    weights = class_weights(weighting, task.kind, data.y[split.train], data.classes)
    weights = None if weights is None else weights.to(device)
    return with_metric(with_loss(task, loss, label_smoothing, weights), metric)


def _standardize_targets(
    model: Model, training_data: TrainingData, device: torch.device | str, target: Target
) -> TrainingData:
    """Standardise targets if asked for: predictions are in their units, the loss is of z-scores.

    Mean and deviation are those of pretrained weights if they have any, else of the training nodes.
    """
    task, y = training_data.task, training_data.data.y
    log = model.logarithmic if model.units else target == "log"
    units = model.units or target_scale(task, y[training_data.split.train], log)
    if units is None or target == "raw":
        return training_data
    mean, deviation = (tensor.to(device) for tensor in units)
    model.answer_in_units(mean, deviation, log)
    return training_data._replace(task=in_units(task, mean, deviation, log))


def _what_is_seen(
    model: Model, training_data: TrainingData, inductive: bool, evaluation: str
) -> TrainingData:
    """Return the data of inductive training if asked for, with labels if the model is given any.

    Raises:
        ZooError: a whole graph is not seen at once, or the nodes are not those of one graph.
    """
    data, split = training_data.data, training_data.split
    if not model.context:
        return make_inductive(training_data) if inductive else training_data
    if "full" not in data.batching:
        raise ZooError(f"a model that is given labels is one for the nodes of a graph, and "
                       f"{data.name} is {data.unit}.")  # fmt: skip
    if evaluation == "layerwise" or process_group.count() > 1:
        raise ZooError(
            "a model that is given labels reads them all at once: leave out `evaluate: layerwise`, "
            "and train it in one process."
        )
    training_data = training_data._replace(data=data.with_context(split.train))
    return make_inductive(training_data) if inductive else training_data


def _measure(trainer: Trainer) -> Fit:
    """Return the scores of a model without weights, which has nothing to train."""
    task, start = trainer.training_data.task, time.perf_counter()
    score = trainer.run_inference()
    scores = {part: score(part, [task.metric])[0] for part in PARTS}
    beside = named_scores(task.beside, score("test", [*task.beside.values()]))
    trainer.model.eval()
    seconds = time.perf_counter() - start
    return Fit(-1, **scores, epochs=0, seconds_per_epoch=seconds, interrupted=False, beside=beside)


def _check_memory(model: Model, device: torch.device) -> None:
    """Raise ZooError if weights, gradients and optimiser state do not fit into CPU memory."""
    size = sum(weight.nbytes for weight in model.parameters())
    more, free = (WEIGHT_COPIES - 1) * size, available_memory()
    if device.type == "cpu" and more > free:
        raise ZooError(
            f"the weights take {size / 2**30:,.1f} GiB, to train them {more / 2**30:,.1f} more: "
            f"gradients, the optimiser, and the best so far. {free / 2**30:,.1f} GiB are free; "
            "write a smaller width, fewer heads or fewer layers."
        )


class _TrainingState:
    """Everything that changes during training, which is what a checkpoint saves.

    Attributes:
        epoch_seconds: duration of each epoch trained so far.
        stop_on_loss: whether the best epoch is that of the lowest validation loss.
    """

    def __init__(
        self,
        model: Model,
        optimiser: torch.optim.Optimizer,
        scheduler: LRScheduler,
        best: Best,
        stop_on_loss: bool,
    ):
        self.model, self.optimiser, self.scheduler, self.best = model, optimiser, scheduler, best
        self.stop_on_loss = stop_on_loss
        self.epoch_seconds: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        """Return the state, including that of the random number generators."""
        return {
            "epochs": len(self.epoch_seconds),
            "seconds": self.epoch_seconds,
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "rates": self.scheduler.state_dict(),
            "best": self.best.state_dict(),
            "generators": generators(),
        }

    def load_state_dict(self, stored: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned, with the same numbers."""
        self.model.load_state_dict(stored["model"])
        self.optimiser.load_state_dict(stored["optimiser"])
        self.scheduler.load_state_dict(stored["rates"])
        self.best.load_state_dict(stored["best"])
        self.epoch_seconds = stored["seconds"]
        restore_generators(stored["generators"])

    def evaluate(self, trainer: Trainer, epoch: int) -> tuple[float, float]:
        """Evaluate, keep the weights if they are the best; return training and validation score."""
        score, task = trainer.run_inference(), trainer.training_data.task
        (train,) = score("train", [task.metric])
        scores = {"train": train}
        if self.stop_on_loss:
            scores["val"], scores["loss"] = score("val", [task.metric, trainer.loss_metric])
        else:
            (scores["val"],) = score("val", [task.metric])
        self.best.offer(epoch, scores, lambda: score("test", [task.metric])[0])
        return train, scores["val"]

    def finish(self, trainer: Trainer, interrupted: bool) -> Fit:
        """Restore the best weights; return their scores, additional metrics, and the cost."""
        self.best.restore()
        extra_metrics, extra_scores = trainer.training_data.task.beside, []
        if extra_metrics:
            with products_in(trainer.precision):
                score = trainer.run_inference(recorded=False)
                extra_scores = score("test", [*extra_metrics.values()])
        self.model.eval()
        scores = {part: self.best.scores[part] for part in PARTS}
        seconds = statistics.median(self.epoch_seconds) if self.epoch_seconds else 0.0
        last, epochs = max(self.best.starts, default=0), len(self.epoch_seconds)
        return Fit(
            self.best.epoch,
            **scores,
            epochs=epochs,
            seconds_per_epoch=seconds,
            interrupted=interrupted,
            beside=named_scores(extra_metrics, extra_scores),
            unreached_phase=last if last and last >= epochs else None,
        )


def _run_epoch(
    trainer: Trainer,
    state: _TrainingState,
    epoch: int,
    epochs: int,
    evaluation_due: bool,
    lr_factor: Callable[..., float],
) -> Epoch:
    """Train one epoch, and evaluate the model if an evaluation is due."""

    def set_lr(progress: float) -> None:
        for group, base in zip(state.optimiser.param_groups, state.scheduler.base_lrs, strict=True):
            group["lr"] = base * lr_factor(epoch, progress)

    start, lr = time.perf_counter(), state.scheduler.get_last_lr()[-1]
    if epoch in state.best.starts:  # a phase begins, from the best weights
        state.best.rewind()
        trainer.drop_cuda_graphs()
    trainer.begin_epoch(epoch)
    loss = trainer.train(state.optimiser, epoch, set_lr)
    state.scheduler.step()
    train, val = state.evaluate(trainer, epoch) if evaluation_due else (None, None)
    state.epoch_seconds.append(time.perf_counter() - start)
    best = state.best.scores.get("val"), state.best.epoch
    return Epoch(epoch, epochs, loss, train, val, lr, state.epoch_seconds[-1], *best)


_BEFORE_FIRST_BATCH = 2**32
"""Stands for a batch index in the seed of what is drawn before the first batch of an epoch."""

MAX_CAPTURED_NODES = 100_000
"""Largest graph, in nodes, that is captured by default: larger ones gain nothing from it."""


@dataclasses.dataclass
class Trainer:
    """The training epochs and the evaluation of a model on one split.

    Args:
        model: the model, on the device.
        training_data: the data, split and task.
        precision: `fp32`, or `bf16` for automatic mixed precision; `tf32` is like `fp32` here, as
            the caller sets it globally.
        clip: maximum norm of the gradient.
        device: where to train.
        batching: the mini-batch strategy, a key of `zoo.training.batches.BATCHING`.
        evaluation: `full`, the whole graph at once (after mini-batch training: on the GPU if it
            fits, else on the CPU); `layerwise`, the same in bounded memory; or `batches`, with the
            mini-batches of training.
        capture: whether full-graph step and evaluation are captured as CUDA graphs, see `Captured`;
            None: if the graph has at most `MAX_CAPTURED_NODES` nodes and the model is built of
            zoo and torch code only. An evaluation that cannot be captured runs eagerly.

    Attributes:
        train_loader: yields the mini-batches of training.
        eval_loader: computes the scores; None on a rank that leaves that to rank 0.

    Raises:
        ZooError: the model cannot be evaluated `layerwise`, or an option is wrong.
    """

    model: Model
    training_data: TrainingData
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
        data, split = self.training_data.data, self.training_data.split
        loader_args = (data, split.train, self.device)
        if reshuffle_every is None:
            self.train_loader = pick(BATCHING, self.batching, *loader_args)
        else:
            self.train_loader = ShardedBatches(*loader_args, reshuffle_every)
        self.eval_loader = self.train_loader
        if self.training_data.eval_data is not None:
            if self.evaluation != "full":
                raise ZooError("`inductive` measures each part at once; leave `evaluate` out.")
            self.eval_loader = InductiveEvaluation(
                self.training_data.eval_data, "cpu" if self._uses_mini_batches else self.device
            )
        elif self.evaluation == "layerwise":
            self.eval_loader = Layerwise(data, self.device)
            infer(self.model, self.eval_loader, self.precision, self.eval_loader.check)
        elif self.evaluation == "full":
            self.eval_loader = self.train_loader.on_whole_graph()
        if self.eval_loader is not self.train_loader and process_group.rank() > 0:
            self.eval_loader = None  # rank 0 evaluates for all
        full_batch = type(self.train_loader) is FullBatch
        if self.capture and not full_batch:
            raise ZooError("`capture` records the step of a whole graph on one GPU; leave it out.")
        self._capture_required = bool(self.capture)
        if self.capture is None:
            functions = self.training_data.task.loss, self.training_data.augment
            small = full_batch and len(data.x) <= MAX_CAPTURED_NODES
            self.capture = small and can_record(self.model, *functions)
        self.capture = self.capture and torch.device(self.device).type == "cuda"

    @property
    def _uses_mini_batches(self) -> bool:
        """Whether training steps are on batches of nodes and not on the full graph."""
        return isinstance(self.train_loader, Batches)

    @property
    def _data_parallel(self) -> bool:
        """Whether the processes, if there are several, divide the batches of a step (as in DDP)."""
        return isinstance(self.train_loader, DataParallelBatches)

    def begin_epoch(self, epoch: int) -> None:
        """Call the model's `begin_epoch`.

        In data-parallel training the generator is seeded from the run's seed and the epoch first,
        so that all ranks draw the same: their generators differ, and a checkpoint has that of rank
        0 only.
        """
        if process_group.count() > 1 and self._data_parallel:
            torch.manual_seed(seed_of((self.train_loader.seed, epoch, _BEFORE_FIRST_BATCH)))
        self.model.begin_epoch(epoch)

    def drop_cuda_graphs(self) -> None:
        """Drop the CUDA graphs, which refer to the old state of the optimiser."""
        self._recordings.forget()

    def train(
        self,
        optimiser: torch.optim.Optimizer,
        epoch: int,
        set_lr: Callable[[float], None] = lambda progress: None,
    ) -> float:
        """Train one epoch; return the mean loss of its optimiser steps.

        Args:
            optimiser: of the model's parameters.
            epoch: its number, from 0.
            set_lr: called before each optimiser step with the share of the epoch's steps that are
                done after it, in (0, 1].

        Raises:
            ZooError: the loss is not finite.
        """
        losses = _EpochLosses(epoch, optimiser)
        if self.capture:
            set_lr(1.0)
            if (loss := self._captured_step(optimiser)) is not None:
                losses.append(loss)
                return losses.mean()
        self.model.train()
        step_loss: Tensor | None = None
        batches_per_step = process_group.count() * getattr(self.train_loader, "per_step", 0)
        running_statistics = RunningStatistics(
            self.model, batches_per_step if self._data_parallel else None
        )
        for batch in self.train_loader.batches(epoch):
            if step_loss is None:
                optimiser.zero_grad(set_to_none=True)
            if batch.seed is not None:
                torch.manual_seed(batch.seed)
            with running_statistics.of(batch.place):
                loss = self._loss(batch)
                loss.backward()
            step_loss = loss.detach() if step_loss is None else step_loss + loss.detach()
            if batch.last:  # of the batches whose gradients are accumulated
                losses.append(process_group.total(step_loss) if self._data_parallel else step_loss)
                set_lr(batch.until)
                self._step(optimiser)
                running_statistics.combine()
                step_loss = None
        return losses.mean()

    def evaluate(self) -> Callable[[str], float]:
        """Run inference once; return a function from part (train, val, test) to the metric."""
        score = self.run_inference()
        return lambda part: score(part, [self.training_data.task.metric])[0]

    def loss_metric(self, logits: Tensor, y: Tensor) -> float:
        """Return the loss as a number, with the signature of a metric."""
        return self.training_data.task.loss(logits, y).item()

    def run_inference(self, recorded: bool = True) -> Score:
        """Run inference once; return a function `(part, metrics) -> numbers`.

        All ranks have to call this and the returned function; they get the numbers of rank 0. Call
        the returned function before the next inference, which may overwrite the logits.

        Args:
            recorded: whether a captured CUDA graph may be used.
        """
        if self.eval_loader is None:
            return lambda part, metrics: process_group.of_first([0.0] * len(metrics))
        scores = None
        if recorded and self.capture and self.eval_loader is self.train_loader:
            scores = self._captured_scores()
        scores = scores or self.eval_loader.scores(self.model, self.training_data, self.precision)
        return lambda part, metrics: process_group.of_first(scores(part, metrics))

    def _loss(self, batch: Batch) -> Tensor:
        with autocast(batch.x.device, self.precision):
            x = self.training_data.augment(batch.x)
            logits, penalty = answer_in_context(self.model, batch.graph, x, batch.context)
        rows = batch.rows
        if batch.read is not None:
            logits = batch.read(self.model, logits)
        if batch.pairs is not None:
            logits = self.model.score_pairs(logits, batch.pairs)
        loss_function = self.training_data.task.loss
        if not len(
            rows
        ):  # no training nodes: its weight is 0, which gives zero gradients, not none
            loss = logits.sum()
        elif len(rows) == len(
            logits
        ):  # indexing would copy the logits, slow for a large vocabulary
            loss = loss_function(logits, batch.y)
        else:
            loss = loss_function(logits[rows], batch.y[rows])
        return batch.weight * loss + batch.share * penalty

    def _captured_step(self, optimiser: torch.optim.Optimizer) -> Tensor | None:
        """Take one full-graph step, replaying its CUDA graph once captured; return its loss.

        None: the step cannot be captured, and was not taken.
        """

        def step() -> Tensor:
            self.model.train()
            (batch,) = self.train_loader.batches(0)
            optimiser.zero_grad(set_to_none=True)
            loss = self._loss(batch)
            loss.backward()
            self._step(optimiser)
            return loss.detach()

        make_step = partial(CapturedStep, step, self.model, optimiser)
        return self._recordings.call("step", make_step, self._capture_required)

    def _captured_scores(self) -> Score | None:
        """Run full-graph inference, likewise; return the scores of each part."""

        def inference() -> Tensor:
            return infer(self.model, self.train_loader, self.precision, forward)

        nodes, y = self._evaluated_rows
        forward = partial(self.train_loader.logits, nodes=nodes)
        logits = self._recordings.call("evaluation", partial(Captured, inference, self.model))
        return None if logits is None else part_scores(logits, y, self.training_data.split)

    @cached_property
    def _evaluated_rows(self) -> tuple[Tensor, Tensor]:
        """The nodes of all parts and their labels, on the model's device."""
        nodes = upload(nodes_of(self.training_data.split), self.device)
        return nodes, self.train_loader.data.y[nodes]

    def _step(self, optimiser: torch.optim.Optimizer) -> None:
        if self._data_parallel:
            process_group.sum_gradients(self.model.parameters())
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        optimiser.step()


def all_logits(model: Model, data: Dataset, precision: str = "fp32") -> Tensor:
    """Return the logits of every node, (N, C) fp32 on the data's device, model in eval mode."""
    loader = FullBatch(data, torch.arange(len(data.x)), data.x.device)
    return infer(model, loader, precision, lambda forward: loader.logits(forward, loader.train))


class _EpochLosses:
    """The losses of an epoch's steps, copied from a GPU without waiting: one step late.

    Raises:
        ZooError: a loss is not finite.
    """

    def __init__(self, epoch: int, optimiser: torch.optim.Optimizer):
        self.epoch, self.optimiser = epoch, optimiser
        self.values: list[float] = []
        self._pending: tuple[Tensor, torch.cuda.Event] | None = None

    def append(self, loss: Tensor) -> None:
        """Add a CPU loss; start copying a GPU loss to the CPU, and add the one before it."""
        if loss.is_cpu:
            return self._add(loss.item())
        previous, copied = self._pending, torch.cuda.Event()
        self._pending = loss.to("cpu", non_blocking=True), copied
        copied.record(torch.cuda.current_stream(loss.device))
        self._read(previous)

    def mean(self) -> float:
        """Return the mean loss of the epoch."""
        self._read(self._pending)
        return statistics.fmean(self.values)

    def _read(self, pending: tuple[Tensor, torch.cuda.Event] | None) -> None:
        if pending is not None:
            loss, copied = pending
            copied.synchronize()
            self._add(loss.item())

    def _add(self, loss: float) -> None:
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
        lr = self.optimiser.param_groups[-1]["lr"]
        raise ZooError(
            f"the loss became {loss} in epoch {self.epoch + 1} at a learning rate of {lr:g}. "
            f"Write a smaller one, `train.lr={lr / 10:g}`, or limit the gradient, `train.clip=1`."
        )
