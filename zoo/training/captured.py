"""A full-batch training step as a CUDA graph: recorded once, replayed from then on.

A small graph's step is hundreds of operations that each take a GPU less time than the host takes to
ask for them; a replay asks for all of them at once. Nguyen et al., "Accelerating PyTorch with CUDA
Graphs" (2021).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from zoo.errors import ZooError
from zoo.ops.random_order import Draws
from zoo.system.context import using

WARM = 3
"""Steps that are taken as they are before one is recorded: what is made once is made in them."""


def can_record(model: nn.Module, *functions: Callable) -> bool:
    """Return whether a step of a model, its loss and so on are the zoo's and torch's own.

    Code from elsewhere may decide something anew in each step, such as which layer is left out,
    which a recording decides once.
    """
    modules = list(model.modules())
    held = (each for module in modules for each in (type(module), *vars(module).values()))
    own = all(_is_own(each) for each in (*held, *functions) if callable(each))
    return own and not any(each._forward_hooks or each._forward_pre_hooks for each in modules)


def _is_own(function: Callable) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    package = (getattr(function, "__module__", None) or "builtins").partition(".")[0]
    return package in ("zoo", "torch", "builtins")


class CapturedStep:
    """Takes a training step; once it has been taken a few times, by a replay of its recording.

    What the host decides in a step is decided once, in the recording: it is recorded anew when a
    weight, a buffer or an attribute is another tensor than then, and `forget` is for all else.
    Before each replay rates are read from the optimiser, and what the host draws is drawn. Dropout
    draws from the GPU's own generator, whose state a replay moves on.

    Args:
        step: takes a step of the model by the optimiser, and returns the loss, (). It neither waits
            for the GPU nor copies anything to it.
        model: on a GPU.
        optimiser: one that moves all weights in one kernel, `fused`.

    Raises:
        ZooError: the optimiser has no such kernel.
    """

    def __init__(
        self, step: Callable[[], Tensor], model: nn.Module, optimiser: torch.optim.Optimizer
    ):
        self.step, self.model, self.optimiser = step, model, optimiser
        groups = optimiser.param_groups
        if not all(group.get("fused") for group in groups):
            raise ZooError(
                "`capture` needs an optimiser that is one kernel of the GPU from the first step "
                "on: write `optimizer: adam` or `adamw`, or leave `capture` out."
            )
        device = groups[0]["params"][0].device
        self.rates = [torch.zeros((), device=device) for _ in groups]
        self.stream = torch.cuda.Stream(device)
        self.forget()

    def forget(self) -> None:
        """Forget the recording: the next steps are others."""
        self.graph: torch.cuda.CUDAGraph | None = None
        self.taken, self.at, self.draws = 0, self._places(), Draws()

    def __call__(self) -> Tensor:
        """Take a step and return its loss, (); it is written on by the next one.

        Raises:
            ZooError: it cannot be recorded: why.
        """
        if self.graph is not None and self.at != self._places():
            self.forget()
        if self.taken < WARM:
            self.taken += 1
            with using(draws=self.draws if self.taken == WARM else None):
                return self._aside()
        if self.graph is None:
            self._record()
        self._write_rates()
        self.draws.renew()
        self.graph.replay()
        return self.loss

    def _aside(self) -> Tensor:
        """Take it as it is, on the stream that a recording is to be made on."""
        present = torch.cuda.current_stream()
        self.stream.wait_stream(present)
        with torch.cuda.stream(self.stream):
            loss = self.step()
        present.wait_stream(self.stream)
        return loss

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with (
                self._rates_on_the_gpu(),
                using(draws=self.draws, recording=True),
                torch.cuda.graph(graph, stream=self.stream),
            ):
                self.loss = self.step()
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise ZooError(
                f"this training step cannot be recorded: {reason}. Leave `train.capture` out."
            ) from error
        self.graph, self.at = graph, self._places()

    @contextlib.contextmanager
    def _rates_on_the_gpu(self) -> Iterator[None]:
        """Have the optimiser read its rates from the GPU, where they can be changed afterwards."""
        groups = self.optimiser.param_groups
        own = [{key: group.get(key) for key in ("lr", "capturable")} for group in groups]
        self._write_rates()
        for group, rate in zip(groups, self.rates, strict=True):
            group.update(lr=rate, capturable=True)
        try:
            yield
        finally:
            for group, each in zip(groups, own, strict=True):
                group.update(each)

    def _write_rates(self) -> None:
        for rate, group in zip(self.rates, self.optimiser.param_groups, strict=True):
            rate.fill_(group["lr"])

    def _places(self) -> list[int]:
        """Return where the numbers of the model are, those of plain attributes too."""
        named = (vars(module).values() for module in self.model.modules())
        plain = (each for values in named for each in values if isinstance(each, Tensor))
        return [each.data_ptr()
                for each in (*self.model.parameters(), *self.model.buffers(), *plain)]  # fmt: skip
