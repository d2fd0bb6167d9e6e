"""Memory: how much a run has held, how much a call holds, how much there is; copies to a GPU."""

from __future__ import annotations

import contextlib
import gc
import math
import resource
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.system import allocator

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
    """A stream of a GPU on which a thread makes what the present stream then uses.

    Copies to the GPU run while it computes. Memory of what was made there is of the side stream:
    once let go of, it is used again for what is made next. Nothing waits on the host; that the
    GPU does neither too early is said by two events for each thing that is made:

    - The present stream waits until it is made.
    - Before it is let go of, the side stream is told to wait for what the present one was given so
      far. This holds for all of it, also for what a graph keeps, where `record_stream` would have
      to know every tensor.
    """

    def __init__(self, device: torch.device):
        import torch

        self.cuda, self.device = torch.cuda, device
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_stream(torch.cuda.current_stream(device))  # it may read what is there

    def make(self, make: Callable[[Any], Any], item: Any) -> tuple[Any, torch.cuda.Event]:
        """Return what is made of an item on this stream, and the event that it is; by a thread."""
        with self.cuda.stream(self.stream):
            made, ready = make(item), self.cuda.Event()
            ready.record(self.stream)
        return made, ready

    def give(self, made: Generator[tuple[Any, torch.cuda.Event], None, None]) -> Iterator[Any]:
        """Give what `make` made, to be used on the present stream until the next is asked for."""
        with contextlib.closing(made):
            for each, ready in made:
                present = self.cuda.current_stream(self.device)
                present.wait_event(ready)
                try:
                    yield each
                finally:
                    self.stream.wait_stream(present)


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory has run out, on the CPU or on a GPU."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or any(each in str(error) for each in words)


def peak_memory(device: torch.device) -> int:
    """Return the most bytes held so far: of CUDA by torch, else by the whole process."""
    if device.type == "cuda":
        import torch

        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def held_now() -> int:
    """Return the bytes that the process holds now, as Linux counts them."""
    return _status("VmRSS")


def peak_during(call: Callable[[], object], device: torch.device, *, at_hand: bool = False) -> int:
    """Return the bytes that a call holds at its peak, beyond those held before it.

    On the CPU this is the resident memory of the process as Linux counts it, while every large
    block goes back to the system as soon as it is freed; with what is kept `at_hand` of freed
    blocks it is more, by as much as holes of the wrong size take up.
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
    """Watch, as long as this lasts, how much is held that is no page of a mapped file.

    Args:
        every: seconds between two looks.

    Yields:
        What has been seen so far, in bytes.
    """
    seen, ended = [_status("RssAnon")], threading.Event()

    def look() -> None:
        while not ended.wait(every):
            seen[0] = max(seen[0], _status("RssAnon"))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def available_memory() -> float:
    """Return how many more bytes can be held: what Linux says is available, to the group it is in.

    Where nothing says how much there is, it is endless.
    """
    found = [math.inf]
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * next(int(line.split()[1]) for line in lines if "MemAvailable" in line))
    with contextlib.suppress(OSError, ValueError, KeyError, IndexError):
        group = _group()
        most, used = (int((group / f"memory.{word}").read_text()) for word in ("max", "current"))
        told = dict(map(str.split, (group / "memory.stat").read_text().splitlines()))
        files = int(told["inactive_file"]) + int(told["active_file"])  # given back when asked for
        found.append(max(0, most - used + files))
    return min(found)


def _group() -> Path:
    """Return the folder of the group of processes that this one is in, or the root of all."""
    root = Path("/sys/fs/cgroup")
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = next((each.partition("::")[2] for each in lines if each.startswith("0::")), "/")
    folder = root / own.lstrip("/")
    return folder if (folder / "memory.max").exists() else root


def _status(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(each for each in lines if each.startswith(f"{key}:"))
    return int(line.split()[1]) * 1024
