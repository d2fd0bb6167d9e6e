"""Where the time of training goes: the operations of a few epochs, and a trace of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

FIRST, EPOCHS = 2, 5
"""Epochs that are skipped, since they initialise much, and epochs that are profiled."""

SHOWN = 10


class Profile:
    """Profile some epochs of a training; call `watch` after every one."""

    def __init__(self, device: torch.device):
        kinds = [ProfilerActivity.CPU]
        self._on_cuda = device.type == "cuda"
        kinds += [ProfilerActivity.CUDA] if self._on_cuda else []
        self._profile, self._seen, self.epochs = profile(activities=kinds), 0, 0

    def watch(self) -> None:
        """Begin after the first epochs, end after some more."""
        self._seen += 1
        if self._seen == FIRST:
            self._profile.start()
        elif FIRST < self._seen <= FIRST + EPOCHS:
            self.epochs += 1
            if self.epochs == EPOCHS:
                self._profile.stop()

    def close(self) -> None:
        """End what has not come to its end, since training was shorter."""
        if self._seen >= FIRST and self.epochs < EPOCHS:
            self._profile.stop()

    def write(self, path: Path) -> None:
        """Write a trace that chrome://tracing and ui.perfetto.dev show."""
        self._profile.export_chrome_trace(str(path))

    def dearest(self) -> list[dict[str, Any]]:
        """Return the operations that take longest by themselves, with their share of the time.

        There are none where training ended before any epoch was looked at.
        """
        if not self.epochs:
            return []
        events = self._profile.key_averages()
        word = "self_device_time_total" if self._on_cuda else "self_cpu_time_total"
        total = sum(getattr(event, word) for event in events)
        events = sorted(events, key=lambda event: getattr(event, word), reverse=True)
        return [
            {
                "operation": event.key,
                "calls per epoch": round(event.count / self.epochs, 1),
                "ms per epoch": round(getattr(event, word) / 1000 / self.epochs, 2),
                "share": f"{getattr(event, word) / total:.1%}",
            }
            for event in events[:SHOWN]
        ]
