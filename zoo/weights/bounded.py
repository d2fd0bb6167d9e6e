"""A model is built within bounds: what memory cannot hold is refused before it is filled."""

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules import module as registration

from zoo.errors import ZooError
from zoo.system.memory import available_memory, out_of_memory

MOST_PARTS = 30_000
"""Modules of a model; more of them take minutes to build."""

LARGE = 2**28
"""Bytes of weights above which all of them are counted, without memory, before any is made."""

WIDE = 2**14
"""A width whose square is that many weights."""

_TOO_LARGE = re.compile(r"overflow|too large|exceed|unpack long|invalid size|negative dimension")
_FIX = "Write a smaller width, fewer heads or fewer layers."

Made = TypeVar("Made", bound=nn.Module)


class _Larger(Exception):
    """More weights than were expected."""


def build(name: str, make: Callable[[], Made], largest: int) -> Made:
    """Return what `make` makes, a new model, if memory has room for its weights, twice.

    A model that learns has gradients, one that is loaded has the weights that were read.

    Args:
        name: what the model is called.
        make: called again, and before that on the meta device, where the weights are large.
        largest: of the numbers that it is made with.

    Raises:
        ZooError: more weights than there is memory for, or than torch can count; or too many parts.
    """
    drawn = torch.get_rng_state()
    try:
        # An allocation that fails takes seconds: torch looks up the names of its functions.
        if largest < WIDE:
            with _counted(name, LARGE):
                return make()
    except _Larger:
        torch.set_rng_state(drawn)
    free = available_memory()
    most = free / 2
    try:
        with (
            contextlib.suppress(RuntimeError, NotImplementedError),  # some need real numbers
            torch.random.fork_rng(devices=[]),
            torch.device("meta"),
            _counted(name, most),
        ):
            make()
        with _counted(name, most):
            return make()
    except _Larger as error:
        raise ZooError(
            f"the weights of {name} would take {error.args[0] / 2**30:,.1f} GiB or more, their "
            f"gradients as much again, and {free / 2**30:,.1f} GiB of memory are free. {_FIX}"
        ) from None


@contextlib.contextmanager
def _counted(name: str, most: float) -> Iterator[None]:
    """Count, as long as this lasts, the parts of new models and the bytes of their weights."""
    held, parts = 0, 0

    def of_part(module: nn.Module, key: str, part: nn.Module | None) -> None:
        nonlocal parts
        parts += 1
        if parts > MOST_PARTS:
            raise ZooError(f"{name} would have more than {MOST_PARTS:,} modules. {_FIX}")

    def of_weight(module: nn.Module, key: str, weight: Tensor | None) -> None:
        nonlocal held
        held += 0 if weight is None else weight.nbytes
        if held > most:
            raise _Larger(held)

    hooks = [
        registration.register_module_module_registration_hook(of_part),
        registration.register_module_parameter_registration_hook(of_weight),
        registration.register_module_buffer_registration_hook(of_weight),
    ]
    try:
        yield
    except (RuntimeError, TypeError, ValueError, ArithmeticError, MemoryError) as error:
        if out_of_memory(error) or _TOO_LARGE.search(str(error).lower()):
            raise ZooError(f"{name} is too large to be built. {_FIX}") from error
        raise
    finally:
        for hook in hooks:
            hook.remove()
