"""Faults to inject: a process that is killed, a write that fails, a clock that jumps, data that is
deleted during training, memory that ends, bits that flip.

Limits are those of the system (`setrlimit`), so that whatever writes or takes memory meets them.
"""

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


@contextlib.contextmanager
def limited(kind, most):
    """Let this process have so much of RLIMIT_FSIZE (bytes of a file) or RLIMIT_AS (of memory)."""
    before = resource.getrlimit(kind)
    resource.setrlimit(kind, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def writes_fail_at(byte):
    """Let every write fail that would go beyond so many bytes of a file."""
    return limited(resource.RLIMIT_FSIZE, byte)


def at(seed, epoch, do):
    """Return a `watch` that does something after an epoch of a seed."""

    def watch(of, seen):
        if (of, seen.epoch) == (seed, epoch):
            do()

    return watch


def kill():
    """End this process as the system does when memory has run out."""
    os.kill(os.getpid(), signal.SIGKILL)


def jumping_clocks(monkeypatch, seed=0):
    """Let every clock that training reads jump, by hours, to and fro."""
    draw = random.Random(seed)
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(time, name, lambda: draw.uniform(-1e5, 1e5))


def flip(path, bits, seed=0):
    """Flip bits of a file, anywhere."""
    content, draw = bytearray(path.read_bytes()), random.Random(seed)
    for _ in range(bits):
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def delete(folder):
    """Delete a folder while it is used."""
    shutil.rmtree(folder)


def started(*words, cwd, file_bytes=None, memory=None, before=None):
    """Start the command in a process of its own, under limits; return it, done or killed.

    Args:
        file_bytes: where writes fail.
        memory: bytes of addresses.
        before: is asked every 10 ms whether the moment has come to kill it.
    """

    def limits():
        for kind, most in ((resource.RLIMIT_FSIZE, file_bytes), (resource.RLIMIT_AS, memory)):
            if most is not None:
                resource.setrlimit(kind, (most, most))

    call = [sys.executable, "-W", "ignore", "-m", "zoo", *map(str, words)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        call, cwd=cwd, env=env, text=True, preexec_fn=limits,  # noqa: PLW1509
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        while before is not None and process.poll() is None and not before():
            time.sleep(0.01)
        if before is not None:
            process.kill()
        out, err = process.communicate()
    return subprocess.CompletedProcess(call, process.returncode, out, err)
