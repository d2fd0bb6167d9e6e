"""How a training goes on, on standard error: a bar on a terminal or in a notebook, else lines."""

import contextlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Watch = Callable[[int, Any], None]

EVERY = 10.0
"""Seconds between two lines, unless an epoch takes longer."""


@contextlib.contextmanager
def progress_bar(
    seeds: Sequence[int] | None = None, *, title: str = "", quiet: bool = False
) -> Iterator[Watch]:
    """Show how `run_recipe` goes on, which is given what this yields as its `watch`.

    On a terminal, and in a notebook, it is a bar. Elsewhere, in a pipe, a log or a batch system, it
    is a line every ten seconds: epochs, loss, validation score, the best one so far, time left. In
    both a seed that is done has a line, which says why if it was stopped early.

    Args:
        seeds: those that are trained, in order, to tell the time that all of them take.
        title: a line that is printed at once where there is no bar.
        quiet: show nothing.
    """
    if title and not quiet and not _has_bars():
        _say(title)
    shows: list[_Lines] = []

    def watch(seed: int, epoch: Any) -> None:
        if not shows:  # what is printed before the first epoch is not to run into a bar
            shows.append((_Bar if _has_bars() else _Lines)(seeds))
        shows[0].tell(seed, epoch)

    try:
        yield (lambda seed, epoch: None) if quiet else watch
    finally:
        for each in shows:
            each.close()


def _say(line: str) -> None:
    """Print a line; a full disk behind standard error is no reason to lose a training."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _has_bars() -> bool:
    return sys.stderr.isatty() or "ipykernel" in sys.modules


class _Lines:
    """A line every ten seconds, and one or two for each seed at its end."""

    def __init__(self, seeds: Sequence[int] | None):
        self.seeds = list(seeds or [])
        self.done, self.seconds, self.told = 0, 0.0, time.monotonic()

    def tell(self, seed: int, epoch: Any) -> None:
        """Take an epoch of a seed into account, and say what is due."""
        if seed not in self.seeds:
            self.seeds.append(seed)
        if epoch.epoch == 0 or not self.done:
            self.seconds = 0.0
            self.done = 0
        self.done, self.seconds = self.done + 1, self.seconds + epoch.seconds
        self.show(seed, epoch)
        if epoch.last:
            for line in _end(seed, epoch, self.seconds):
                self.say(line)

    def show(self, seed: int, epoch: Any) -> None:
        """Print a line if one is due."""
        if time.monotonic() - self.told < EVERY or epoch.last:
            return
        words = [f"{epoch.epoch + 1}/{epoch.of} epochs", f"loss {epoch.loss:.4f}"]
        if epoch.val is not None:
            words.append(f"val {epoch.val:.4f}")
        words += [f"best {_best(epoch)}"] if epoch.best is not None else []
        self.say("  ".join([f"seed {seed}", *words, f"{self.left(seed, epoch)} left"]))

    def left(self, seed: int, epoch: Any) -> str:
        """Return the time that the epochs to come take, of this seed and of those after it."""
        from tqdm import tqdm

        after = len(self.seeds) - 1 - self.seeds.index(seed)
        epochs = epoch.of - epoch.epoch - 1 + after * epoch.of
        return tqdm.format_interval(epochs * self.seconds / self.done)

    def say(self, line: str) -> None:
        """Print a line."""
        _say(line)
        self.told = time.monotonic()

    def close(self) -> None:
        """Leave nothing open."""


class _Bar(_Lines):
    """A bar over the epochs of all seeds; what is said of a seed stands above it."""

    def __init__(self, seeds: Sequence[int] | None):
        super().__init__(seeds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without widgets has a bar of text
            from tqdm.auto import tqdm
        self.skipped = 0
        self.bar = tqdm(unit="epoch", dynamic_ncols=True)

    def show(self, seed: int, epoch: Any) -> None:
        """Draw the bar anew; epochs that early stopping leaves out are no part of it."""
        place = self.seeds.index(seed) * epoch.of - self.skipped
        self.skipped += epoch.of - epoch.epoch - 1 if epoch.last else 0
        self.bar.total = len(self.seeds) * epoch.of - self.skipped
        score = "" if epoch.val is None else f" val {epoch.val:.4f}"
        self.bar.set_description(f"seed {seed} loss {epoch.loss:.4f}{score}", refresh=False)
        self.bar.update(place + epoch.epoch + 1 - self.bar.n)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.bar.write(line, file=sys.stderr)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self.bar.close()


def _end(seed: int, epoch: Any, seconds: float) -> list[str]:
    """Return what there is to say of a seed at its end."""
    lines = [f"seed {seed}  done in {seconds:,.0f} s, best {_best(epoch)}"]
    if epoch.epoch + 1 < epoch.of:
        since = epoch.epoch - epoch.best_epoch
        lines.append(
            f"seed {seed}  stopped after {epoch.epoch + 1} of {epoch.of} epochs: no better "
            f"validation score in {since}"
        )
    return lines


def _best(epoch: Any) -> str:
    where = f"epoch {epoch.best_epoch + 1}" if epoch.best_epoch >= 0 else "loaded weights"
    return f"{epoch.best:.4f} ({where})"
