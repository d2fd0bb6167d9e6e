"""A full-batch step or evaluation as a CUDA graph: recorded once, replayed from then on.

On a small graph it is hundreds of kernels that each run shorter than their launch takes; a replay
launches all at once. Nguyen et al., "Accelerating PyTorch with CUDA Graphs" (2021).
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

WARM_UP = 3
"""Calls before one is recorded: what is initialised once is initialised in them."""


def can_record(model: nn.Module, *functions: Callable) -> bool:
    """Return whether a step of a model, its loss and so on are the zoo's and torch's own.

    Code from elsewhere may decide something anew in each step, such as which layer is left out,
    which a recording decides once.
    """
    modules = list(model.modules())
    values = (value for module in modules for value in (type(module), *vars(module).values()))
    own = all(_is_own(value) for value in (*values, *functions) if callable(value))
    return own and not any(m._forward_hooks or m._forward_pre_hooks for m in modules)


def _is_own(function: Callable) -> bool:
    if isinstance(function, functools.partial):
        values = (function.func, *function.args, *function.keywords.values())
        return all(_is_own(value) for value in values if callable(value))
    package = (getattr(function, "__module__", None) or "builtins").partition(".")[0]
    return package in ("zoo", "torch", "builtins")


class Captured:
    """Calls a function of a model; after a few warm-up calls, by replaying a CUDA graph.

    What the host decides in it is decided once, in the recording: it is recorded again when a
    weight, a buffer or an attribute is another tensor than then; call `forget` for all else.
    Random numbers of the host are drawn before each replay; those of the GPU come from its own
    generator, whose state a replay advances.

    Args:
        function: returns a tensor. It neither waits for the GPU nor copies anything to it.
        model: on a GPU.
    """

    def __init__(self, function: Callable[[], Tensor], model: nn.Module):
        self.function, self.model = function, model
        self.stream = torch.cuda.Stream(next(model.parameters()).device)
        self.forget()

    def forget(self) -> None:
        """Drop the recording: the next calls warm up for another."""
        self.graph: torch.cuda.CUDAGraph | None = None
        self.calls, self.pointers, self.draws = 0, self._data_pointers(), Draws()

    def __call__(self) -> Tensor:
        """Return what the function returns; the next call overwrites it.

        Raises:
            ZooError: it cannot be recorded: why.
        """
        if self.graph is not None and self.pointers != self._data_pointers():
            self.forget()
        if self.calls < WARM_UP:
            self.calls += 1
            with using(draws=self.draws if self.calls == WARM_UP else None):
                return self._warm_up()
        if self.graph is None:
            self._record()
        self.before_replay()
        self.draws.renew()
        self.graph.replay()
        return self.result

    def before_replay(self) -> None:
        """Copy to the GPU what else the host has decided. No-op."""

    def recording(self) -> contextlib.AbstractContextManager:
        """Return the context of a recording: none."""
        return contextlib.nullcontext()

    def _warm_up(self) -> Tensor:
        """Call the function on the stream of the recording."""
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            result = self.function()
        current.wait_stream(self.stream)
        return result

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with (
                torch.cuda.stream(
                    torch.cuda.current_stream()
                ),  # after a failure torch would stay on its own
                self.recording(),
                using(draws=self.draws, recording=True),
                torch.cuda.graph(graph, stream=self.stream),
            ):
                self.result = self.function()
        except RuntimeError as error:
            _renew_generator(next(self.model.parameters()).device)
            reason = str(error).partition("\n")[0]
            raise ZooError(
                f"this training cannot be recorded: {reason}. Leave `train.capture` out."
            ) from error
        self.graph, self.pointers = graph, self._data_pointers()

    def _data_pointers(self) -> list[int]:
        """Return the addresses of the model's tensors, plain attributes included."""
        values = (value for module in self.model.modules() for value in vars(module).values())
        plain = (value for value in values if isinstance(value, Tensor))
        tensors = (*self.model.parameters(), *self.model.buffers(), *plain)
        return [tensor.data_ptr() for tensor in tensors]


def _renew_generator(device: torch.device) -> None:
    """Give a GPU's generator a state like its own, which torch leaves recording after a failure.

    What was recorded before is of the old one, and can be replayed no more.
    """
    generator = torch.cuda.default_generators[device.index or 0]
    if hasattr(generator, "graphsafe_set_state"):  # of torch 2.4
        generator.graphsafe_set_state(generator.clone_state())


class CapturedStep(Captured):
    """Takes a training step, and returns its loss, (); replays use the optimiser's present rates.

    Args:
        step: takes a step of the model by the optimiser, and returns the loss, ().
        model: on a GPU.
        optimiser: one that updates all weights in one kernel, `fused`.

    Raises:
        ZooError: the optimiser has no such kernel.
    """

    def __init__(
        self, step: Callable[[], Tensor], model: nn.Module, optimiser: torch.optim.Optimizer
    ):
        self.optimiser, groups = optimiser, optimiser.param_groups
        if not all(group.get("fused") for group in groups):
            raise ZooError(
                "`capture` needs an optimiser that is one kernel of the GPU from the first step "
                "on: write `optimizer: adam` or `adamw`, or leave `capture` out."
            )
        device = groups[0]["params"][0].device
        self.rates = [torch.zeros((), device=device) for _ in groups]
        super().__init__(step, model)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Have the optimiser read its rates from the GPU, where they can be changed afterwards."""
        groups = self.optimiser.param_groups
        before = [{key: group.get(key) for key in ("lr", "capturable")} for group in groups]
        self.before_replay()
        for group, rate in zip(groups, self.rates, strict=True):
            group.update(lr=rate, capturable=True)
        try:
            yield
        finally:
            for group, options in zip(groups, before, strict=True):
                group.update(options)

    def before_replay(self) -> None:
        """Copy the present rates to the GPU."""
        for rate, group in zip(self.rates, self.optimiser.param_groups, strict=True):
            rate.fill_(group["lr"])


class Recordings:
    """The CUDA graphs of a training, by name, and the names of what cannot be recorded."""

    def __init__(self):
        self.captured: dict[str, Captured] = {}
        self.refused: set[str] = set()

    def forget(self) -> None:
        """Drop all of them."""
        self.captured.clear()

    def call(self, name: str, make: Callable[[], Captured], must: bool = False) -> Tensor | None:
        """Return the result of one, created on the first call; None if it cannot be recorded.

        Raises:
            ZooError: it cannot, and it must.
        """
        if name in self.refused:
            return None
        try:
            if name not in self.captured:
                self.captured[name] = make()
            return self.captured[name]()
        except ZooError:
            if must:
                raise
        self.refused.add(name)
        self.forget()
        return None
