"""The progress of a training, on standard error: a bar on a terminal or in a notebook, else lines.

The public `zoo.progress_bar`, and what `zoo train` shows.
"""

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from zoo.config.scores import figure

Watch = Callable[[int, Any], None]

EVERY = 10.0
"""Seconds between two lines, unless an epoch takes longer."""


@contextlib.contextmanager
def progress_bar(
    seeds: Sequence[int] | None = None, *, title: str = "", quiet: bool = False
) -> Iterator[Watch]:
    """Show the progress of `run_recipe`, which takes what this yields as its `watch`.

    On a terminal, and in a notebook, it is a bar. Elsewhere, in a pipe, a log or a batch system, it
    is a line every ten seconds: epochs, loss, validation score, the best one so far, time left. In
    both a seed that is done has a line, which says why if it was stopped early.

    Args:
        seeds: those that are trained, in order, to tell the time that all of them take.
        title: a line that is printed at once where there is no bar.
        quiet: show nothing.
    """
    if title and not quiet and not _has_bars():
        _print(title)
    progress: list[_Progress] = []

    def watch(seed: int, epoch: Any) -> None:
        if not progress:  # no bar before: other lines may be printed until the first epoch
            progress.append(_Progress(seeds))
        progress[0].update(seed, epoch)

    try:
        yield (lambda seed, epoch: None) if quiet else watch
    finally:
        if progress and progress[0].bar is not None:
            progress[0].bar.close()


def _print(line: str) -> None:
    """Print a line; a full disk behind standard error is no reason to lose a training."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _has_bars() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class _Progress:
    """A bar over the epochs of all seeds, or a line every ten seconds."""

    def __init__(self, seeds: Sequence[int] | None):
        self.seeds = list(seeds or [])
        self.epochs, self.seconds = 0, 0.0  # of this seed, in this process
        self.printed = time.monotonic()
        self.skipped = 0  # epochs that early stopping leaves out, which are no part of the bar
        self.bar = None
        if _has_bars():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a notebook without widgets has a bar of text
                from tqdm.auto import tqdm
            self.bar = tqdm(unit="epoch", dynamic_ncols=True)

    def update(self, seed: int, epoch: Any) -> None:
        """Count an epoch of a seed, and show it where it is due."""
        if seed not in self.seeds:
            self.seeds.append(seed)
        if epoch.epoch == 0:
            self.epochs, self.seconds = 0, 0.0
        self.epochs, self.seconds = self.epochs + 1, self.seconds + epoch.seconds
        if self.bar is not None:
            self._update_bar(seed, epoch)
        elif not epoch.last and time.monotonic() - self.printed >= EVERY:
            self._print_line(seed, epoch)
        if epoch.last:
            self.write(f"seed {seed}  done in {self.seconds:,.0f} s, best {_best(epoch)}")
            if epoch.epoch + 1 < epoch.of:
                self.write(
                    f"seed {seed}  stopped after {epoch.epoch + 1} of {epoch.of} epochs: no better "
                    f"validation score in {epoch.epoch - epoch.best_epoch}"
                )

    def _update_bar(self, seed: int, epoch: Any) -> None:
        before = self.seeds.index(seed) * epoch.of - self.skipped
        self.skipped += epoch.of - epoch.epoch - 1 if epoch.last else 0
        self.bar.total = len(self.seeds) * epoch.of - self.skipped
        score = "" if epoch.val is None else f" val {figure(epoch.val)}"
        self.bar.set_description(f"seed {seed} loss {figure(epoch.loss)}{score}", refresh=False)
        self.bar.update(before + epoch.epoch + 1 - self.bar.n)

    def _print_line(self, seed: int, epoch: Any) -> None:
        from tqdm import tqdm

        words = [f"seed {seed}", f"{epoch.epoch + 1}/{epoch.of} epochs"]
        words.append(f"loss {figure(epoch.loss)}")
        words += [] if epoch.val is None else [f"val {figure(epoch.val)}"]
        words += [] if epoch.best is None else [f"best {_best(epoch)}"]
        later = len(self.seeds) - 1 - self.seeds.index(seed)
        left = epoch.of - epoch.epoch - 1 + later * epoch.of
        words.append(f"{tqdm.format_interval(left * self.seconds / self.epochs)} left")
        self.write("  ".join(words))

    def write(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        if self.bar is not None:
            self.bar.write(line, file=sys.stderr)
        else:
            _print(line)
        self.printed = time.monotonic()


def _best(epoch: Any) -> str:
    where = f"epoch {epoch.best_epoch + 1}" if epoch.best_epoch >= 0 else "loaded weights"
    return f"{figure(epoch.best)} ({where})"
