"""How a training goes on, on standard error: a bar on a terminal or in a notebook, else lines.

And how the search for settings does that trains over and over, and what it has found.
"""

import contextlib
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from zoo.cli import console
from zoo.config.scores import figure, gain

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
        words = [f"{epoch.epoch + 1}/{epoch.of} epochs", f"loss {figure(epoch.loss)}"]
        if epoch.val is not None:
            words.append(f"val {figure(epoch.val)}")
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
        score = "" if epoch.val is None else f" val {figure(epoch.val)}"
        self.bar.set_description(f"seed {seed} loss {figure(epoch.loss)}{score}", refresh=False)
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
    return f"{figure(epoch.best)} ({where})"


def tell_trial(trial, best) -> None:
    """Print a line on a trial that has ended."""
    ended = f"{trial.state} {_score(trial)}".rstrip()
    took = f"{trial.splits} splits, {trial.seconds:.1f} s"
    known = f"best {figure(best.val)}, trial {best.number}" if best else "none is complete"
    console.remark(f"trial {trial.number}: {ended}, {took}; {known}")


def tell_study(study, summary: dict[str, Any]) -> None:
    """Print the best trials, what the settings matter, and the score of the best on test."""
    trials = study.trials()
    done = [each for each in trials if each.state == "complete"]
    done.sort(key=lambda each: -gain(study.metric, each.val))  # of equals the first is the best
    shown = [{"trial": each.number, "validation": figure(each.val),
              "deviation": "" if each.std is None else figure(each.std), **_short(each.settings)}
             for each in done[:5]]  # fmt: skip
    matters = _short({key: f"{each:.0%}" for key, each in study.importance().items()})
    columns = {f"{n}.": each for n, each in enumerate(shown, start=1)}
    columns |= {"matters": matters} if matters else {}
    console.rows([{"": key, **{name: each.get(key) for name, each in columns.items()}}
                  for key in shown[0]])  # fmt: skip
    console.say("matters: how much of the spread of scores a setting explains" if matters
                else "too few trials to tell what the settings matter")  # fmt: skip
    first, tuned = study.as_it_was(), f"{_score(study.best())} tuned"
    test, std = summary["test"]["mean"], summary["test"]["std"]
    when = "as it was" if len(study.start) == len(study.recipe.search) else "at first"
    console.say(f"validation {_score(first) if first else 'not known'} {when}, {tuned}")
    spread = "" if std is None else f" ± {figure(std)}"
    console.say(f"test {figure(test)}{spread}, {_times(summary['scored_before'])}")
    console.remark(f"written: {', '.join(map(str, study.write()))}")


def _times(before: list[float]) -> str:
    """Return how often test has been scored, and what came of that before."""
    if not before:
        return "scored once"
    times = {2: "second", 3: "third"}.get(len(before) + 1, f"{len(before) + 1}th")
    return f"scored for the {times} time; before: {', '.join(map(figure, before))}"


def _score(trial) -> str:
    score = "" if trial.val is None else figure(trial.val)
    return score if trial.std is None else f"{score} ± {figure(trial.std)}"


def _short(found: dict[str, Any]) -> dict[str, str]:
    return {re.sub("^(model|train)[.]", "", key): f"{each:.3g}" if isinstance(each, float)
            else str(each) for key, each in found.items()}  # fmt: skip
