"""What every fuzzing test counts with: each attempt has ten seconds and some memory to end in.

`attempts(call)` is the one thing to use. A `ZooError` is a clean refusal, a value is an answer; any
other exception, or ten seconds without either, fails the test at its end, with what was tried.
`ZOO_FUZZ=20000` is how many the long tests try, `ZOO_FUZZ_SEED` where they start.
"""

import contextlib
import faulthandler
import math
import os
import resource
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from zoo.errors import ZooError

SECONDS = 10
ROOM = 6 * 2**30
"""Bytes of addresses that an attempt may ask for beyond those of the process."""

LONGEST = 6_000
"""Characters of a message that somebody still reads."""

MANY = int(os.environ.get("ZOO_FUZZ", 2000))
SEED = int(os.environ.get("ZOO_FUZZ_SEED", 0))

DEEP = "x"
for _ in range(100):
    DEEP = [DEEP]

ODD = [
    *(None, True, False, 0, -1, 1, 2, 3, 7, 16, 100, 1000, 1001, 2**31 - 1, 2**31, 3 * 10**9),
    *(2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**300, 10**5000, -(2**63), -(2**64)),
    *(0.0, -0.0, 0.5, 0.999999999999, 1.0, 1e-320, 1e-30, 1e38, 3e38, 1e39, 1e308, -1e308),
    *(math.inf, -math.inf, math.nan),
    *("", " ", "0", "nan", "null", "none", "native", "rba", "gcn", "cora", "karate", "a" * 300),
    *(
        "x" * 100_000,
        "\0",
        "a\0b",
        "\ud800",
        "\u202e",
        "\x1b[31m",
        "a\nb",
        "~nobodyhere/x",
        "~",
        "..",
    ),
    *("/", "..", "/dev/zero", "/dev/null", "*", "[", "%s", "{0}", "${HOME}", "1e5", "0x10", "é"),
    *([], {}, [[]], [None], [0], [-1], [""], [0] * 1000, [1, 1], ["a"] * 1000, (1, 2), DEEP),
    *({"name": None}, {"name": ""}, {"name": "rba"}, {"name": []}, {"name": {}}, {"": 1}, {1: 2}),
    *({"name": "rba", "inner": {"name": "rba", "inner": "rba"}}, {str(i): i for i in range(1000)}),
    *(b"bytes", 1j, {1, 2}, object, Path("x")),
]
"""Values that some option, somewhere, has not thought of."""


class Hang(BaseException):
    """Ten seconds without an answer; nothing that catches `Exception` sees it."""


class Attempts:
    """Counts what came of each attempt, and keeps what failed."""

    def __init__(self):
        self.counts, self.failed, self.began = Counter(), [], time.perf_counter()
        self.many, self.seconds = MANY, SECONDS

    def draw(self, many, call, *strategies):
        """Call with what Hypothesis draws, so many times; the same each time for a seed."""
        last = self.counts["tried"] + many
        for number in range(100):  # Hypothesis stops early where it draws the same again and again
            if self.counts["tried"] >= last:
                break

            @seed(1000 * SEED + number)
            @settings(max_examples=last - self.counts["tried"], database=None, deadline=None,
                      phases=[Phase.generate], suppress_health_check=list(HealthCheck))  # fmt: skip
            @given(st.tuples(*strategies))
            def run(drawn):
                self(call, *drawn)

            run()

    def __call__(self, call, *words, shown=None):
        """Call; return what it returns, or the ZooError that it raised, None if it failed."""
        self.counts["tried"] += 1
        try:
            with alarm(self.seconds):
                answer = call(*words)
        except ZooError as error:
            self.counts["refused"] += 1
            said = str(error)
            if len(said) > LONGEST or not said.strip():
                self._fail("floods", shown or words, f"{len(said):,} characters: {said[:200]}")
            return error
        except Hang:
            self._fail("hangs", shown or words, traceback.format_exc(limit=-3))
        except (Exception, SystemExit, KeyboardInterrupt):
            self._fail("tracebacks", shown or words, traceback.format_exc(limit=-3))
        else:
            self.counts["accepted"] += 1
            return answer
        return None

    def _fail(self, kind, words, said):
        self.counts[kind] += 1
        self.failed.append((kind, _written(words), said))

    def __str__(self):
        kinds = ("tried", "refused", "accepted", "tracebacks", "hangs", "floods")
        counted = ", ".join(f"{each} {self.counts[each]:,}" for each in kinds)
        return f"{counted}; seed {SEED}, {time.perf_counter() - self.began:.1f} s"

    def finish(self):
        """Print the counts; fail where anything but an answer or a refusal came."""
        sys.__stderr__.write(f"\n{self}\n")
        if self.failed:
            told = "\n\n".join("\n".join(each) for each in self.failed[:10])
            pytest.fail(f"{self}\n\n{told}", pytrace=False)


@contextlib.contextmanager
def alarm(seconds=SECONDS):
    """Raise Hang after some seconds; a call that never comes back to Python ends the process."""

    def ring(*_):
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    faulthandler.dump_traceback_later(6 * seconds, exit=True, file=sys.__stderr__)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def odd():
    """Values that some option has not thought of."""
    return ODD


@pytest.fixture
def attempts():
    """Count attempts; at the end print what came of them, and fail if one was neither."""
    counted = Attempts()
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (held + ROOM, before[1]))
    try:
        yield counted
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    counted.finish()


def _written(words):
    try:
        return repr(words)[:2000]
    except (ValueError, RecursionError):
        return "what Python does not write"
