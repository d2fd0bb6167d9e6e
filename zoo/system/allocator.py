"""Where large blocks of memory come from: jemalloc, where it is installed, or the C library.

A page that comes from the system is filled with zeros first, which may take longer than what is
done with it, so that a training keeps what it frees. The C library then leaves holes that the next
block of the same size does not fit; jemalloc leaves none, and asks for huge pages: a step of
SGFormer takes less time and half the memory, see `benchmarks/sgformer_step.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

NAME = "libjemalloc.so.2"
INSTALL = "apt install libjemalloc2"
FOLDERS = ("/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib", f"{sys.prefix}/lib")
_OPTIONS = "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always,lg_extent_max_active_fit:16"
"""Nothing goes back to the system, pages are huge, and a small block may take a piece of a large
one that is free: as it comes, jemalloc asks for more instead, and memory grows step by step."""

TRAINS = ("train", "reproduce", "finetune", "compare", "estimate")
"""The commands that train, or measure what training holds."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, malloc.h
_MOST, _NEVER = 2**31 - 1, -1
_APART = 2**16
"""Bytes of a block that is large enough for pages of its own, where memory is to be measured."""

_USUAL = 2**25
"""Bytes of a block that comes from the system itself: what the C library would arrive at."""


class CLibrary:
    """The allocator of the C library, and what it was told of large blocks.

    A process has one, `C_LIBRARY`. `mallopt` tells it what to do and nothing asks it back, so that
    what it was told last is remembered here, and nowhere else.

    Attributes:
        threshold: bytes of a block from which on it comes from the system itself (`mmap`), and goes
            back there as soon as it is freed.
    """

    def __init__(self):
        self.threshold = _USUAL

    def tell(self, threshold: int) -> bool:
        """Set the threshold; return whether the C library could be told."""
        told = _mallopt(_MMAP_THRESHOLD, threshold)
        self.threshold = threshold if told else self.threshold
        return told

    @contextlib.contextmanager
    def told(self, threshold: int) -> Iterator[None]:
        """Set the threshold as long as this lasts."""
        before = self.threshold
        self.tell(threshold)
        try:
            yield
        finally:
            self.tell(before)


C_LIBRARY = CLibrary()
"""That of this process."""


def preload(words: list[str]) -> None:
    """Begin this process anew on jemalloc, where it is installed and the command is to train.

    Who has set LD_PRELOAD, or a variable of an allocator such as MALLOC_TRIM_THRESHOLD_ or
    MALLOC_CONF, knows better, and nothing is changed.

    Args:
        words: of the command, behind its name.
    """
    more = jemalloc() if words[:1] and words[0] in TRAINS else {}
    if more:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **more})


def jemalloc() -> dict[str, str]:
    """Return what the environment has to say for a new process to use jemalloc.

    Nothing where it does already, where the user has told it what to use, or where there is none.
    """
    if _told() or "LD_PRELOAD" in os.environ or not sys.platform.startswith("linux"):
        return {}
    found = installed()
    return {"LD_PRELOAD": str(found), "MALLOC_CONF": _OPTIONS} if found else {}


def installed() -> Path | None:
    """Return the file of jemalloc, None where it is not installed."""
    root = Path("/")
    places = (each for folder in FOLDERS for each in root.glob(f"{folder[1:]}/{NAME}"))
    return next(places, None)


def advice() -> str:
    """Return the line that installs jemalloc, empty where it is, or where the user has chosen."""
    if _told() or "LD_PRELOAD" in os.environ or not sys.platform.startswith("linux"):
        return ""
    return "" if installed() else INSTALL


def in_use() -> str:
    """Return `jemalloc` or `C library`: what this process takes its memory from."""
    return "jemalloc" if _mallctl() else "C library"


def keep_freed_memory(library: CLibrary = C_LIBRARY) -> bool:
    """Have large blocks used again instead of returned to the system at once.

    The price is a higher peak. For the whole process, before anything large is made; jemalloc
    does so from its start, see `preload`, and of the C libraries glibc can. Who has set a variable
    of an allocator, such as MALLOC_TRIM_THRESHOLD_, knows better, and nothing is changed.

    Returns:
        Whether it will be so.
    """
    if _mallctl():
        return os.environ.get("MALLOC_CONF") == _OPTIONS
    if _told():
        return False
    return library.tell(_MOST) and _mallopt(_TRIM_THRESHOLD, _NEVER)


def give_back_freed_memory(library: CLibrary = C_LIBRARY) -> bool:
    """Have the C library return every large block to the system as soon as it is freed.

    What `peak_during` of `zoo.system.memory` finds then is what a call holds, from the start of
    the process on: no block that was freed before is at hand. Slow; `keep_freed_memory` undoes it.

    Returns:
        Whether the C library could be told.
    """
    return library.tell(_APART)


def exact(library: CLibrary = C_LIBRARY) -> contextlib.AbstractContextManager[None]:
    """Have the C library return large blocks as soon as they are freed, as long as this lasts.

    What is held is then what is in use; jemalloc keeps to it closely by itself.
    """
    return library.told(_APART)


def give_back() -> None:
    """Return to the system what is free now."""
    mallctl = _mallctl()
    if mallctl:
        for word in (b"thread.tcache.flush", b"arena.4096.purge"):  # 4096: of all arenas
            mallctl(word, None, None, None, ctypes.c_size_t(0))
    else:
        ctypes.CDLL(None).malloc_trim(0)


def _told() -> bool:
    return any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)


def _mallctl():
    return getattr(ctypes.CDLL(None), "mallctl", None)


def _mallopt(option: int, value: int) -> bool:
    """Set an option of glibc's `mallopt`; return whether it could be told."""
    try:
        return bool(ctypes.CDLL(None).mallopt(option, value))
    except (OSError, AttributeError):
        return False
