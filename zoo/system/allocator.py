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
        folders: where that may be.
        options: the variable that the allocator reads, and what has it keep what is freed.
        function: of its library, by which a process knows that it has it.
        purge: return to the system what is free, by that function.
    """

    name: str
    file: str
    folders: tuple[str, ...]
    options: tuple[str, str]
    function: str
    purge: Callable[[Callable[..., object]], None]

    def found(self) -> Path | None:
        """Return the file of its library, None where it is not installed."""
        root = Path("/")
        places = (
            each for folder in self.folders for each in root.glob(f"{folder[1:]}/{self.file}")
        )
        return next(places, None)

    def variables(self) -> dict[str, str]:
        """Return what the environment of a process says that has this one."""
        return {"LD_PRELOAD": str(self.found()), **dict([self.options])}


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
    """Begin this process anew on a better allocator, if the command is to train.

    That is one of `ALLOCATORS`, or else the C library as `TUNABLES` have it. Who has set
    LD_PRELOAD, or a variable of an allocator such as MALLOC_TRIM_THRESHOLD_ or MALLOC_CONF, knows
    better, and nothing is changed.

    Args:
        words: of the command, behind its name.
    """
    more = variables() if words[:1] and words[0] in TRAINS else {}
    if more:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **more})


def variables() -> dict[str, str]:
    """Return what the environment has to say for a new process to have a better allocator.

    Nothing where it does already, or where the user has told it what to use.
    """
    if _chosen() or _tuned():
        return {}
    allocator = installed()
    return allocator.variables() if allocator else {"GLIBC_TUNABLES": TUNABLES}


def installed() -> Allocator | None:
    """Return the allocator that training is to have, None where only the C library's is there."""
    return next((each for each in ALLOCATORS if each.found()), None)


def advice() -> str:
    """Return the line that installs one, empty where it is, or where the user has chosen."""
    return "" if _chosen() or installed() else INSTALL


def in_use() -> str:
    """Return `jemalloc`, `mimalloc` or `C library`: what this process takes its memory from."""
    allocator = _running()
    return allocator.name if allocator else "C library"


def keep_freed_memory(library: CLibrary = C_LIBRARY) -> bool:
    """Have large blocks used again instead of returned to the system at once.

    The price is a higher peak. For the whole process, before anything large is made; other
    allocators do so from the start, see `preload`, and of the C libraries glibc can. Who has set a
    variable of an allocator, such as MALLOC_TRIM_THRESHOLD_, knows better, and nothing is changed.

    Returns:
        Whether it will be so.
    """
    allocator = _running()
    if allocator:
        return allocator.options in os.environ.items()
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

    What is held is then what is in use; other allocators keep to it closely by themselves.
    """
    return library.told(_APART)


def give_back() -> None:
    """Return to the system what is free now."""
    allocator = _running()
    if allocator:
        allocator.purge(getattr(ctypes.CDLL(None), allocator.function))
    else:
        ctypes.CDLL(None).malloc_trim(0)


def _tuned() -> bool:
    """Whether this process has the C library as `TUNABLES` have it."""
    return os.environ.get("GLIBC_TUNABLES") == TUNABLES


def _told() -> bool:
    """Whether the user has told an allocator something."""
    names = ("MALLOC_", "MIMALLOC_")
    own = "GLIBC_TUNABLES" in os.environ and not _tuned()
    return own or any(name.startswith(names) for name in os.environ)


def _chosen() -> bool:
    """Whether there is nothing to choose, or the user has."""
    return _told() or "LD_PRELOAD" in os.environ or not sys.platform.startswith("linux")


def _running() -> Allocator | None:
    """Return the allocator that this process has, None for that of the C library."""
    process = ctypes.CDLL(None)
    return next((each for each in ALLOCATORS if hasattr(process, each.function)), None)


def _mallopt(option: int, value: int) -> bool:
    """Set an option of glibc's `mallopt`; return whether it could be told."""
    try:
        return bool(ctypes.CDLL(None).mallopt(option, value))
    except (OSError, AttributeError):
        return False
