"""A full-batch step or evaluation as a CUDA graph: recorded once, replayed from then on.

On a small graph it is hundreds of operations that each take a GPU less time than the host takes to
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
"""Calls that are made as they are before one is recorded: what is made once is made in them."""


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
    if isinstance(function, functools.partial):
        held = (function.func, *function.args, *function.keywords.values())
        return all(_is_own(each) for each in held if callable(each))
    package = (getattr(function, "__module__", None) or "builtins").partition(".")[0]
    return package in ("zoo", "torch", "builtins")


class Captured:
    """Calls a function of a model; once it has been called a few times, by replays of a recording.

    What the host decides in it is decided once, in the recording: it is recorded anew when a
    weight, a buffer or an attribute is another tensor than then, and `forget` is for all else.
    Before each replay, what the host draws is drawn. What the GPU draws comes from its own
    generator, whose state a replay moves on.

    Args:
        function: returns a tensor. It neither waits for the GPU nor copies anything to it.
        model: on a GPU.
    """

    def __init__(self, function: Callable[[], Tensor], model: nn.Module):
        self.function, self.model = function, model
        self.stream = torch.cuda.Stream(next(model.parameters()).device)
        self.forget()

    def forget(self) -> None:
        """Forget the recording: the next calls are others."""
        self.graph: torch.cuda.CUDAGraph | None = None
        self.made, self.at, self.draws = 0, self._places(), Draws()

    def __call__(self) -> Tensor:
        """Return what the function returns; it is written on by the next call.

        Raises:
            ZooError: it cannot be recorded: why.
        """
        if self.graph is not None and self.at != self._places():
            self.forget()
        if self.made < WARM:
            self.made += 1
            with using(draws=self.draws if self.made == WARM else None):
                return self._aside()
        if self.graph is None:
            self._record()
        self.before_replay()
        self.draws.renew()
        self.graph.replay()
        return self.found

    def before_replay(self) -> None:
        """Write for the GPU what else the host has decided. No-op."""

    def recording(self) -> contextlib.AbstractContextManager:
        """Return the context of a recording: none."""
        return contextlib.nullcontext()

    def _aside(self) -> Tensor:
        """Call it as it is, on the stream that a recording is to be made on."""
        present = torch.cuda.current_stream()
        self.stream.wait_stream(present)
        with torch.cuda.stream(self.stream):
            found = self.function()
        present.wait_stream(self.stream)
        return found

    def _record(self) -> None:
        graph = torch.cuda.CUDAGraph()
        try:
            with (
                self.recording(),
                using(draws=self.draws, recording=True),
                torch.cuda.graph(graph, stream=self.stream),
            ):
                self.found = self.function()
        except RuntimeError as error:
            reason = str(error).partition("\n")[0]
            raise ZooError(
                f"this training cannot be recorded: {reason}. Leave `train.capture` out."
            ) from error
        self.graph, self.at = graph, self._places()

    def _places(self) -> list[int]:
        """Return where the numbers of the model are, those of plain attributes too."""
        named = (vars(module).values() for module in self.model.modules())
        plain = (each for values in named for each in values if isinstance(each, Tensor))
        return [each.data_ptr()
                for each in (*self.model.parameters(), *self.model.buffers(), *plain)]  # fmt: skip


class CapturedStep(Captured):
    """Takes a training step, and returns its loss, ().

    Before each replay rates are read from the optimiser.

    Args:
        step: takes a step of the model by the optimiser, and returns the loss, ().
        model: on a GPU.
        optimiser: one that moves all weights in one kernel, `fused`.

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
        own = [{key: group.get(key) for key in ("lr", "capturable")} for group in groups]
        self.before_replay()
        for group, rate in zip(groups, self.rates, strict=True):
            group.update(lr=rate, capturable=True)
        try:
            yield
        finally:
            for group, each in zip(groups, own, strict=True):
                group.update(each)

    def before_replay(self) -> None:
        """Write the present rates."""
        for rate, group in zip(self.rates, self.optimiser.param_groups, strict=True):
            rate.fill_(group["lr"])


class Recordings:
    """What a training has recorded, each by its name, and what it cannot."""

    def __init__(self):
        self.held: dict[str, Captured] = {}
        self.refused: set[str] = set()

    def forget(self) -> None:
        """Let go of all: the next calls are others."""
        self.held.clear()

    def call(self, name: str, make: Callable[[], Captured], asked: bool = False) -> Tensor | None:
        """Return what one gives, made at first; None where it cannot be recorded.

        Raises:
            ZooError: it cannot, and was asked for: why.
        """
        if name in self.refused:
            return None
        try:
            if name not in self.held:
                self.held[name] = make()
            return self.held[name]()
        except ZooError:
            if asked:
                raise
        self.refused.add(name)
        self.held.pop(name, None)
        return None
