"""A training epoch and an evaluation: forward, loss, backward, optimiser step, for each mini-batch.

The mini-batch strategy is the whole graph at once or batches of its nodes, which several processes
divide. Where the model's random batches are divided instead, each process takes the whole graph, or
a share of the nodes if the random batches are `local` to it.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable
from functools import cached_property, partial

import torch
from torch import Tensor, nn

from zoo.config.options import Spec, pick
from zoo.datasets import Dataset
from zoo.errors import ZooError
from zoo.nn.random_batch_attention import local_redeal
from zoo.nn.running_statistics import RunningStatistics
from zoo.ops.random_order import seed_of
from zoo.registry import Model
from zoo.system import process_group
from zoo.system.memory import upload
from zoo.training.captured import Captured, CapturedStep, Recordings, can_record
from zoo.training.full_batch import (
    Apart,
    Divided,
    Part,
    Score,
    Shared,
    TrainingData,
    WhereItFits,
    Whole,
    autocast,
    infer,
    nodes_of,
    score,
)
from zoo.training.layerwise import Layerwise
from zoo.training.mini_batch import BATCHING, Batches

_BEGINNING = 2**32
"""The number of no batch: of what is drawn before the first."""

RECORDED = 100_000
"""Nodes of a graph whose step a GPU records unasked; of larger ones it takes as long as it is."""


@dataclasses.dataclass
class Steps:
    """The training epochs and the evaluation of a model on one split.

    Args:
        model: what is trained, on the device.
        on: what it learns from.
        precision: `fp32`, or `bf16` for automatic mixed precision; `tf32` is the caller's to set.
        clip: largest norm of the gradient.
        device: where.
        batching: the mini-batch strategy, a word of `zoo.training.mini_batch.BATCHING`.
        evaluation: `full`, the whole graph at once (where training goes in batches: on a GPU that
            has room for it, else on the CPU); `layerwise`, the same in bounded memory; or
            `batches`, as training does.
        capture: whether a GPU is to record the step and the evaluation of the whole graph and
            replay them, see `Captured`; None: of at most `RECORDED` nodes, and a model without code
            from elsewhere. An evaluation that cannot be recorded is made as it is.

    Attributes:
        over: the mini-batch strategy of training.
        asked: that of evaluation; None in a process that leaves it to the first.

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
        redeal = local_redeal(self.model) if process_group.count() > 1 else None
        data, split = self.on.data, self.on.split
        given = (data, split.train, self.device)
        if redeal is None:
            self.over = self.asked = pick(BATCHING, self.batching, *given)
        else:
            self.over = self.asked = Shared(*given, redeal)
        if self.on.apart is not None:
            if self.evaluation != "full":
                raise ZooError("`inductive` measures each part at once; leave `evaluate` out.")
            self.asked = Apart(self.on.apart, "cpu" if self._batched() else self.device)
        elif self.evaluation == "layerwise":
            self.asked = Layerwise(data, self.device)
            infer(self.model, self.asked, self.precision, self.asked.check)
        elif self.evaluation == "full" and self._batched():
            on_gpu = torch.device(self.device).type != "cpu"
            self.asked = (WhereItFits if on_gpu else Whole)(*given)
        if self.asked is not self.over and process_group.rank() > 0:
            self.asked = None  # one process is enough for what is not divided
        whole = type(self.over) is Whole
        if self.capture and not whole:
            raise ZooError("`capture` records the step of a whole graph on one GPU; leave it out.")
        self._asked_for = bool(self.capture)
        if self.capture is None:
            calls = self.on.task.loss, self.on.augment
            self.capture = whole and len(data.x) <= RECORDED and can_record(self.model, *calls)
        self.capture = self.capture and torch.device(self.device).type == "cuda"

    def _batched(self) -> bool:
        """Return whether training goes in batches of nodes, of a graph that is large then."""
        return isinstance(self.over, Batches)

    def _together(self) -> int | None:
        """Return how many batches a step has at most, as `RunningStatistics` takes it."""
        if not isinstance(self.over, Divided):
            return None
        return process_group.count() * getattr(self.over, "per_step", 0)

    def begin(self, epoch: int) -> None:
        """Tell the model that an epoch begins.

        What it draws then is the same in all processes that divide the work, and follows from the
        run's seed and the epoch: their generators differ, and one alone is in a checkpoint.
        """
        if process_group.count() > 1 and isinstance(self.over, Divided):
            torch.manual_seed(seed_of((self.over.seed, epoch, _BEGINNING)))
        self.model.begin_epoch(epoch)

    def forget(self) -> None:
        """Forget what was recorded: a phase begins, or the optimiser has another state."""
        self._recordings.forget()

    def train(
        self,
        optimiser: torch.optim.Optimizer,
        epoch: int,
        pace: Callable[[float], None] = lambda until: None,
    ) -> float:
        """Take the optimiser steps of an epoch; return the mean of their losses.

        Args:
            optimiser: what takes them.
            epoch: its number, from 0.
            pace: called before each step with the share of the epoch's steps that it ends.

        Raises:
            ZooError: the loss is not finite.
        """
        losses = _Losses(epoch, optimiser)
        if self.capture:
            pace(1.0)
            if (loss := self._captured_step(optimiser)) is not None:
                losses.append(loss)
                return losses.mean()
        self.model.train()
        found: Tensor | None = None
        statistics = RunningStatistics(self.model, self._together())
        for part in self.over.parts(epoch):
            if found is None:
                optimiser.zero_grad(set_to_none=True)
            if part.seed is not None:
                torch.manual_seed(part.seed)
            with statistics.of(part.place):
                loss = self._loss(part)
                loss.backward()
            found = loss.detach() if found is None else found + loss.detach()
            if part.last:
                losses.append(self.over.total(found))
                pace(part.until)
                self._step(optimiser)
                statistics.combine()
                found = None
        return losses.mean()

    def evaluate(self) -> Score:
        """Run inference once; return the metric as a function of the part: train, val or test.

        All processes have to call both; they get the first one's metric. It is asked for before the
        next evaluation, which may write on the logits of this one.
        """
        if self.asked is None:
            return lambda part: process_group.of_first(0.0)
        found = self._captured_scores() if self.capture and self.asked is self.over else None
        found = found or self.asked.scores(self.model, self.on, self.precision)
        return lambda part: process_group.of_first(found(part))

    def _loss(self, part: Part) -> Tensor:
        with autocast(part.x.device, self.precision):
            logits, penalty = self.model(part.graph, self.on.augment(part.x))
        logits = part.read(logits)
        # Of a share without training nodes the loss has no weight; its gradients are zeros.
        rows = part.rows
        if len(rows) == len(logits):  # a copy of each row of a vocabulary is dear
            loss = self.on.task.loss(logits, part.y)
        else:
            loss = self.on.task.loss(logits[rows], part.y[rows]) if len(rows) else logits.sum()
        return part.weight * loss + part.share * penalty

    def _captured_step(self, optimiser: torch.optim.Optimizer) -> Tensor | None:
        """Take the step of the whole graph, by a replay as soon as it is recorded."""

        def step() -> Tensor:
            self.model.train()
            (part,) = self.over.parts(0)
            optimiser.zero_grad(set_to_none=True)
            loss = self._loss(part)
            loss.backward()
            self._step(optimiser)
            return loss.detach()

        make = partial(CapturedStep, step, self.model, optimiser)
        return self._recordings.call("step", make, self._asked_for)

    def _captured_scores(self) -> Score | None:
        """Answer for the whole graph, likewise; return the metric of each part."""

        def answers() -> Tensor:
            return infer(self.model, self.over, self.precision, ask)

        nodes, y = self._measured
        ask = partial(self.over.logits, nodes=nodes)
        logits = self._recordings.call("evaluation", partial(Captured, answers, self.model))
        return None if logits is None else score(logits, y, self.on)

    @cached_property
    def _measured(self) -> tuple[Tensor, Tensor]:
        """The nodes of all parts and their labels, where the model is."""
        nodes = upload(nodes_of(self.on.split), self.device)
        return nodes, self.over.data.y[nodes]

    def _step(self, optimiser: torch.optim.Optimizer) -> None:
        self.over.combine(self.model)
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        optimiser.step()


def all_logits(model: Model, data: Dataset, precision: str = "fp32") -> Tensor:
    """Return the logits of every node, (N, C) fp32 where the data is, model in eval mode."""
    over = Whole(data, torch.arange(len(data.x)), data.x.device)
    return infer(model, over, precision, lambda answer: over.logits(answer, over.train))


class _Losses:
    """The losses of an epoch's steps. Of a GPU each is read when the next step is under way.

    Raises:
        ZooError: one that is read is not finite.
    """

    def __init__(self, epoch: int, optimiser: torch.optim.Optimizer):
        self.epoch, self.optimiser = epoch, optimiser
        self.read: list[float] = []
        self._late: tuple[Tensor, torch.cuda.Event] | None = None

    def append(self, loss: Tensor) -> None:
        """Read a loss on the CPU; of a GPU, begin to copy it, and read the one before."""
        if loss.is_cpu:
            return self._keep(loss.item())
        before, ready = self._late, torch.cuda.Event()
        self._late = loss.to("cpu", non_blocking=True), ready
        ready.record(torch.cuda.current_stream(loss.device))
        self._wait(before)

    def mean(self) -> float:
        """Return the mean of all."""
        self._wait(self._late)
        return statistics.fmean(self.read)

    def _wait(self, late: tuple[Tensor, torch.cuda.Event] | None) -> None:
        if late is not None:
            late[1].synchronize()
            self._keep(late[0].item())

    def _keep(self, loss: float) -> None:
        self.read.append(loss)
        if math.isfinite(loss):
            return
        if self.epoch == 0 and len(self.read) == 1:
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
