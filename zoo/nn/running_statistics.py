"""Running statistics of batch norm, where processes divide the batches of a step among them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from zoo.nn.layers import BatchNorm
from zoo.system import process_group


class RunningStatistics:
    """What the batches of a step do to the buffers of a model, whichever processes have them.

    The running statistics of each `BatchNorm` follow all batches of a step, one after the other as
    in one process: what each batch tells is sent to all. Other buffers of fractions, such as those
    with torch's start, become their mean over the processes that have a batch.

    Args:
        model: on any device.
        together: batches of a step at most; 0: each process has a share of one, and the statistics
            of all shares become their mean; None: every process has all of it.
    """

    def __init__(self, model: nn.Module, together: int | None):
        self._together = together if process_group.count() > 1 else None
        norms = [norm for norm in model.modules() if isinstance(norm, BatchNorm)]
        norms = [norm for norm in norms if norm.corrected]
        self._norms = norms if self._together else []
        followed = {id(buffer) for norm in self._norms for buffer in _state(norm)}
        self._others = [
            buffer
            for buffer in model.buffers()
            if buffer.is_floating_point() and id(buffer) not in followed
        ]
        self._states: dict[int, list[Tensor]] = {}

    @contextlib.contextmanager
    def of(self, place: int | None) -> Iterator[None]:
        """Keep what a batch tells, forward and backward, until the step is taken.

        Args:
            place: of the batch among those of its step; None: another process has it too.
        """
        before = [buffer.clone() for norm in self._norms for buffer in _state(norm)]
        for norm in self._norms:
            norm.num_batches_tracked.zero_()  # the statistics are those of this batch alone then
        yield
        state = [buffer for norm in self._norms for buffer in _state(norm)]
        if place is not None:
            self._states[place] = [buffer.clone() for buffer in state]
        for now, then in zip(state, before, strict=True):
            now.copy_(then)

    def combine(self) -> None:
        """Have the buffers follow the batches of a step, of all processes."""
        if self._together is None:
            return
        process_group.average_buffers(self._others, bool(self._states) or self._together == 0)
        if self._norms:
            sizes = [buffer.numel() for norm in self._norms for buffer in _state(norm)]
            rows = self._norms[0].running_mean.new_zeros(self._together, sum(sizes))
            for place, values in self._states.items():
                rows[place] = torch.cat([value.flatten() for value in values])
            for row in process_group.total(rows):
                pieces = row.split(sizes)
                for norm, batches, mean, variance in zip(
                    self._norms, pieces[::3], pieces[1::3], pieces[2::3], strict=True
                ):
                    norm.follow(mean, variance, batches.squeeze(0).long())
        self._states.clear()


def _state(norm: BatchNorm) -> tuple[Tensor, Tensor, Tensor]:
    return norm.num_batches_tracked, norm.running_mean, norm.running_var
