"""Where large blocks of memory come from: jemalloc or mimalloc, or else the C library.

A page that comes from the system is filled with zeros first, which may take longer than what is
done with it, so that a training keeps what it frees. The C library then leaves holes that the next
block of the same size does not fit, fewer of them without its caches of small blocks; jemalloc and
mimalloc leave none: a step of SGFormer holds a quarter less, and no setting of the C library that
was tried holds as little in the same time, `benchmarks/allocators.py`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

INSTALL = "apt install libjemalloc2, or pip install 'graph-transformer-zoo[memory]'"


class Allocator(NamedTuple):
    """An allocator that a new process can have instead of that of the C library.

    Attributes:
        name: of the program.
        file: of its library.
        folders: where that may be, as patterns.
        options: the variable that the allocator reads, and its value that keeps what is freed.
        function: of its library, by which a process knows that it has it.
        purge: return to the system what is free, by that function.
    """

    name: str
    file: str
    folders: tuple[str, ...]
    options: tuple[str, str]
    function: str
    purge: Callable[[Callable[..., object]], None]

    def shared_object(self) -> Path | None:
        """Return the file of its library, None where it is not installed."""
        root = Path("/")
        paths = (path for folder in self.folders for path in root.glob(f"{folder[1:]}/{self.file}"))
        return next(paths, None)

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a process that has it."""
        return {"LD_PRELOAD": str(self.shared_object()), **dict([self.options])}


def _purge_jemalloc(mallctl: Callable[..., object]) -> None:
    for word in (b"thread.tcache.flush", b"arena.4096.purge"):  # 4096: of all arenas
        mallctl(word, None, None, None, ctypes.c_size_t(0))


def _purge_mimalloc(collect: Callable[..., object]) -> None:
    collect(ctypes.c_bool(True))


ALLOCATORS = (
    Allocator(
        name="jemalloc",
        file="libjemalloc.so.2",
        folders=("/usr/lib/*", "/usr/lib", "/usr/lib64", "/usr/local/lib", f"{sys.prefix}/lib"),
        # Nothing goes back to the system, pages are huge, and a small block may take a piece of a
        # large one that is free: as it comes, jemalloc asks for more instead, step by step.
        options=(
            "MALLOC_CONF",
            "dirty_decay_ms:-1,muzzy_decay_ms:-1,thp:always,lg_extent_max_active_fit:16",
        ),
        function="mallctl",
        purge=_purge_jemalloc,
    ),
    Allocator(
        name="mimalloc",
        file="libmimalloc.so.3",
        folders=(f"{sys.prefix}/lib/python3.*/site-packages/cmeel.prefix/lib",),
        # Milliseconds until something goes back: with -1, not even what is asked for does.
        options=("MIMALLOC_PURGE_DELAY", "1000000000"),
        function="mi_collect",
        purge=_purge_mimalloc,
    ),
)
"""Those that are known, the first that is installed is used."""

TUNABLES = "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0:glibc.malloc.hugetlb=1"
"""What the C library reads as GLIBC_TUNABLES where none of them is there: small blocks that are
freed join the free ones beside them at once, and pages are huge."""

TRAINS = ("train", "reproduce", "finetune", "compare", "estimate")
"""The commands that train, or measure what training holds."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt, malloc.h
_MOST, _NEVER = 2**31 - 1, -1
_SMALL, _USUAL = 2**16, 2**25

_threshold = _USUAL
"""Bytes from which on the C library maps a block of its own, and unmaps it when it is freed.

`mallopt` sets it and nothing reads it back, so that it is remembered here. At first it is what the
C library would arrive at by itself.
"""


def preload(words: list[str]) -> None:
    """Restart this process with a better allocator, if the command is to train.

    That is one of `ALLOCATORS`, or else the C library with `TUNABLES`. If LD_PRELOAD is set, or a
    variable of an allocator such as MALLOC_TRIM_THRESHOLD_ or MALLOC_CONF, nothing is changed.

    Args:
        words: of the command, behind its name.
    """
    more = variables() if words[:1] and words[0] in TRAINS else {}
    if more:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **more})


def variables() -> dict[str, str]:
    """Return the environment variables of a new process with a better allocator.

    There are none where this process has one already, or where the user has set some.
    """
    if _set_by_user() or _has_tunables():
        return {}
    allocator = installed()
    return allocator.variables() if allocator else {"GLIBC_TUNABLES": TUNABLES}


def installed() -> Allocator | None:
    """Return the allocator of training, None where only the C library's is there."""
    return next((allocator for allocator in ALLOCATORS if allocator.shared_object()), None)


def advice() -> str:
    """Return the line that installs one, empty where one is, or where the user has chosen."""
    return "" if _set_by_user() or installed() else INSTALL


def in_use() -> str:
    """Return `jemalloc`, `mimalloc` or `C library`: the allocator of this process."""
    allocator = _running()
    return allocator.name if allocator else "C library"


def keep_freed_memory() -> bool:
    """Have large blocks used again instead of returned to the system at once.

    The price is a higher peak. For the whole process, before anything large is allocated; other
    allocators do so from the start, see `preload`, and of the C libraries glibc can. Where a
    variable of an allocator is set, such as MALLOC_TRIM_THRESHOLD_, nothing is changed.

    Returns:
        Whether it will be so.
    """
    allocator = _running()
    if allocator:
        return allocator.options in os.environ.items()
    if _has_variables():
        return False
    return set_threshold(_MOST) and _mallopt(_TRIM_THRESHOLD, _NEVER)


def give_back_freed_memory() -> bool:
    """Have the C library return every large block to the system as soon as it is freed.

    `peak_during` of `zoo.system.memory` then measures what a call holds, from the start of the
    process on. Slow; `keep_freed_memory` undoes it.

    Returns:
        Whether the C library could be told.
    """
    return set_threshold(_SMALL)


@contextlib.contextmanager
def exact() -> Iterator[None]:
    """Have the C library return large blocks as soon as they are freed, in a `with` block.

    What is held is then what is in use; other allocators keep to it closely by themselves.
    """
    before = _threshold
    set_threshold(_SMALL)
    try:
        yield
    finally:
        set_threshold(before)


def give_back() -> None:
    """Return to the system what is free now."""
    allocator = _running()
    if allocator:
        allocator.purge(getattr(ctypes.CDLL(None), allocator.function))
    elif hasattr(process := _process(), "malloc_trim"):
        process.malloc_trim(0)


def _has_tunables() -> bool:
    return os.environ.get("GLIBC_TUNABLES") == TUNABLES


def _has_variables() -> bool:
    """Return whether the user has set a variable of an allocator."""
    own = "GLIBC_TUNABLES" in os.environ and not _has_tunables()
    return own or any(name.startswith(("MALLOC_", "MIMALLOC_")) for name in os.environ)


def _set_by_user() -> bool:
    """Return whether the user has chosen, or there is nothing to choose."""
    return _has_variables() or "LD_PRELOAD" in os.environ or not sys.platform.startswith("linux")


def _running() -> Allocator | None:
    """Return the allocator of this process, None for that of the C library."""
    process = _process()
    return next((known for known in ALLOCATORS if hasattr(process, known.function)), None)


def set_threshold(threshold: int) -> bool:
    """Map blocks of so many bytes or more on their own; return whether the C library does."""
    global _threshold
    done = _mallopt(_MMAP_THRESHOLD, threshold)
    _threshold = threshold if done else _threshold
    return done


def _mallopt(option: int, value: int) -> bool:
    """Set an option of glibc's `mallopt`; return whether it could be set."""
    try:
        return bool(_process().mallopt(option, value))
    except (OSError, AttributeError):
        return False


def _process() -> ctypes.CDLL | None:
    """Return the functions of this process by name; None where they cannot be looked up."""
    try:
        return ctypes.CDLL(None)
    except TypeError:  # on Windows
        return None
