"""Memory: the peak of a run or of a call, how much is available; copies to a GPU."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.system import allocator

try:
    import resource
except ImportError:  # of Python on Unix
    resource = None  # type: ignore[assignment]

if TYPE_CHECKING:
    import torch


def upload(x: torch.Tensor, device: torch.device | str) -> torch.Tensor:
    """Return a tensor on a device. The host does not wait for a GPU, which copies it later.

    It is copied to pinned memory first, which torch keeps until the GPU has read it.
    """
    if x.is_cpu and str(device).startswith("cuda"):
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


class SideStream:
    """A CUDA stream on which a thread makes batches that the current stream then uses.

    Copies to the GPU run while it computes. Memory of a batch belongs to the side stream, which
    uses it again once the batch is freed. Nothing waits on the host; two events order the streams:

    - The current stream waits until a batch is made.
    - Before a batch is freed, the side stream waits for what the current one has been given so
      far. This holds for all of it, also for what a graph caches, where `record_stream` would have
      to know every tensor.
    """

    def __init__(self, device: torch.device):
        import torch

        self.cuda, self.device = torch.cuda, device
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))  # it may read what that has made

    def make(self, make: Callable[[Any], Any], item: Any) -> tuple[Any, torch.cuda.Event]:
        """Return `make(item)`, on this stream, and the event of its end; called by a thread."""
        with self.cuda.stream(self.stream):
            made, ready = make(item), self.cuda.Event()
            ready.record(self.stream)
        return made, ready

    def give(self, made: Generator[tuple[Any, torch.cuda.Event], None, None]) -> Iterator[Any]:
        """Yield what `make` has made, to be used on the current stream until the next one."""
        with contextlib.closing(made):
            for batch, ready in made:
                current = self.cuda.current_stream(self.device)
                current.wait_event(ready)
                try:
                    yield batch
                finally:
                    self.stream.wait_stream(current)


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory has run out, on the CPU or on a GPU."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(text in str(error) for text in words)


def peak_memory(device: torch.device) -> int:
    """Return the peak in bytes so far: of CUDA memory by torch, else of the whole process.

    0 where the system does not say.
    """
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    if resource is None:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def held_now() -> int:
    """Return the resident memory of the process in bytes, as Linux counts it; 0 elsewhere."""
    with contextlib.suppress(OSError):
        return _status("VmRSS")
    return 0


def counts_memory() -> bool:
    """Return whether the system counts what `peak_during` and `own_peak` look at, as Linux does."""
    return held_now() > 0


def peak_during(call: Callable[[], object], device: torch.device, *, at_hand: bool = False) -> int:
    """Return the bytes that a call holds at its peak, beyond those held before it.

    On the CPU this is the resident memory of the process as Linux counts it, while every large
    block goes back to the system as soon as it is freed; with freed blocks kept `at_hand` it is
    more, by as much as holes of the wrong size take up.
    """
    gc.collect()
    if device.type == "cuda":
        import torch

        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        call()
        return torch.cuda.max_memory_allocated(device) - before
    allocator.give_back()  # what is free would be counted as held
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _status("VmRSS")
    with contextlib.nullcontext() if at_hand else allocator.exact():
        call()
    return max(0, _status("VmHWM") - before)


@contextlib.contextmanager
def own_peak(every: float = 0.01) -> Iterator[list[int]]:
    """Sample the memory of this process, without pages of mapped files, in a `with` block.

    Args:
        every: seconds between two samples.

    Yields:
        A list of one number: the peak so far, in bytes.
    """
    peak, ended = [_status("RssAnon")], threading.Event()

    def sample() -> None:
        while not ended.wait(every):
            peak[0] = max(peak[0], _status("RssAnon"))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def available_memory() -> float:
    """Return how many more bytes this process can allocate: of the machine and of its cgroup.

    Infinity where the system does not say.
    """
    limits = [math.inf]
    with contextlib.suppress(OSError, ValueError, KeyError):
        limits.append(_kibibytes(Path("/proc/meminfo"), "MemAvailable"))
    with contextlib.suppress(OSError, ValueError, KeyError):
        group = _cgroup()
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        stat = dict(map(str.split, (group / "memory.stat").read_text().splitlines()))
        files = int(stat["inactive_file"]) + int(stat["active_file"])  # freed on demand
        limits.append(max(0, limit - used + files))
    return min(limits)


def _cgroup() -> Path:
    """Return the folder of the cgroup of this process, or the root of all."""
    root = Path("/sys/fs/cgroup")
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    name = next((line.partition("::")[2] for line in lines if line.startswith("0::")), "/")
    folder = root / name.lstrip("/")
    return folder if (folder / "memory.max").exists() else root


def _status(key: str) -> int:
    return _kibibytes(Path("/proc/self/status"), key)


def _kibibytes(path: Path, key: str) -> int:
    """Return the bytes of a line `key: N kB`."""
    lines = dict(line.split(":", 1) for line in path.read_text().splitlines())
    return 1024 * int(lines[key].split()[0])
