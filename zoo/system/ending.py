"""How a command ends that is asked to: what is finished is kept, and its exit code says so."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

_AGAIN = 5.0
"""Seconds in which a signal that comes again is the same: `timeout` sends two."""

_came: list[int] = []


def exit_code() -> int:
    """Return what a command that was stopped leaves with: 143 by SIGTERM, 130 by Ctrl-C."""
    return 128 + (_came[-1] if _came else signal.SIGINT)


@contextlib.contextmanager
def asked_kindly() -> Iterator[None]:
    """Take SIGTERM and SIGHUP for Ctrl-C as long as this lasts: raise KeyboardInterrupt.

    Who ignores one of them (`nohup`) is left alone. One that comes again after some seconds ends
    the process at once.
    """
    first = 0.0

    def ask(number: int, frame: object) -> None:
        nonlocal first
        if not first:
            first = time.monotonic()
            _came.append(number)
            raise KeyboardInterrupt
        if time.monotonic() - first > _AGAIN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, ask)
    try:
        yield
    finally:
        if not first:  # what is written once it has come is not to be cut off
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)
