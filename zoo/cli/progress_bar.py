"""The progress bar of a training: epochs, loss and validation score, on standard error."""

import contextlib
from collections.abc import Callable, Iterator, Sequence


@contextlib.contextmanager
def progress_bar(
    seeds: Sequence[int], after_epoch: Callable[[], None], *, silent: bool
) -> Iterator[Callable]:
    """Show a bar as long as this lasts, and nothing where standard error is not a terminal.

    Args:
        seeds: those that are trained, in order; the bar counts the epochs of all.
        after_epoch: called after every epoch as well.
        silent: show nothing at all.

    Yields:
        `watch` of `run_recipe`.
    """
    from tqdm import tqdm

    with tqdm(disable=silent or None, unit="epoch", dynamic_ncols=True) as bar:

        def watch(seed, epoch) -> None:
            bar.total = epoch.of * len(seeds)
            bar.n = seeds.index(seed) * epoch.of + epoch.epoch
            score = "" if epoch.val is None else f" val {epoch.val:.4f}"
            bar.set_description(f"seed {seed} loss {epoch.loss:.4f}{score}", refresh=False)
            bar.update()
            after_epoch()

        yield watch
