"""What a promise is, how it is kept or broken, and the decorator that makes tests of promises.

A promise is a function that raises `Broken`, with one paragraph for the author, where the thing
that it is given does not keep it. The first line of its docstring says what is promised.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from zoo.errors import ZooError
from zoo.system.environment import using_threads


class Broken(AssertionError):
    """A promise that is not kept: what is wrong and what to write, in one paragraph."""


class Promise(NamedTuple):
    """One promise of one thing: call it to see whether it is kept.

    Attributes:
        name: of the promise, such as `renaming_nodes_renames_logits`.
        of: what is to keep it, such as `sgformer-rba`.
        check: raises `Broken`, or what the thing itself raises.
    """

    name: str
    of: str
    check: Callable[[], None]

    @property
    def id(self) -> str:
        """Return the name of a test of this promise."""
        return f"{self.name}-{self.of}"

    def __call__(self) -> None:
        """Check it on one thread, with the global generator seeded and left as it was.

        The graphs are tiny: more threads would only wait for each other.

        Raises:
            Broken: it is not kept.
        """
        with using_threads(1), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.check()

    def broken(self) -> str | None:
        """Return None if it is kept, else the paragraph that says what is wrong."""
        try:
            self()
        except (Broken, ZooError) as error:
            return str(error)
        except Exception as error:  # a stranger's code may raise anything
            return f"{type(error).__name__}: {error} ({_place(error)})"
        return None


def promises(given: Iterable[Promise]) -> Callable[[Callable], Callable]:
    """Make a test of each promise: a decorator for pytest.

    The test has one argument, `promise`, and calls it:

        @zoo.testing.promises(zoo.testing.model_promises("smoother"))
        def test_smoother(promise):
            promise()

    Raises:
        ImportError: pytest is not installed.
    """
    import pytest

    return pytest.mark.parametrize(
        "promise", [pytest.param(promise, id=promise.id) for promise in given]
    )


def check_all(given: Iterable[Promise]) -> None:
    """Check promises one after another.

    Raises:
        Broken: some are not kept; the text has a paragraph for each finding.
    """
    found: dict[str, tuple[str, list[Promise]]] = {}
    for promise in given:
        if text := promise.broken():
            found.setdefault(finding(text), (text, []))[1].append(promise)
    if found:
        raise Broken("\n\n".join(f"{_named(broken)}: {text}" for text, broken in found.values()))


def finding(text: str) -> str:
    """Return what a paragraph says, whatever its numbers are: the same of one cause.

    >>> finding("off by 0.25") == finding("off by 1e-3")
    True
    """
    return re.sub(r"\d[\d.,]*(e[-+]?\d+)?", "#", text)


def _named(broken: list[Promise]) -> str:
    """Return the first of some promises, how often it is broken, and the names of the others."""
    first, more = broken[0], [each.name for each in broken[1:]]
    same = more.count(first.name)
    others = [name for name in dict.fromkeys(more) if name != first.name]
    also = f" and {same} more" if same else ""
    return f"{first.id}{also}" + (f" (and {', '.join(others)})" if others else "")


def keep(kept: object, otherwise: str) -> None:
    """Raise `Broken` with a text unless something is true."""
    if not kept:
        raise Broken(otherwise)


def keep_close(value: Tensor, expected: Tensor, otherwise: str, **tolerances: float) -> None:
    """Raise `Broken` unless two tensors are close; `{by}` in the text becomes their distance."""
    try:
        torch.testing.assert_close(value, expected, **tolerances)
    except AssertionError as error:
        apart = "their shapes or types" if value.shape != expected.shape else "not finite numbers"
        if (
            value.shape == expected.shape
            and (difference := (value - expected).abs()).isfinite().all()
        ):
            apart = f"{difference.max().item():.2g}"
        raise Broken(otherwise.format(by=apart)) from error


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "nowhere"
