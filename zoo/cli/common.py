"""What the commands share: the types of their options, and training."""

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from zoo.cli import console, result_tables
from zoo.errors import ZooError, printable
from zoo.system.files import user_path

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A name, a file, or a model.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Changes, such as model.attention=rba."),
]
DataOptions = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="How to read it, such as label=species."),
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run what a recipe imports: code, which may do what you may."),
]
Trusted = Annotated[
    bool, typer.Option("--trust", hidden=True, help="Has no effect: imports are run.")
]
Track = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="csv, tensorboard, wandb or mlflow; again for more."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing on the way.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def typed_path(value: Path | None) -> Path | None:
    """Check a path that was typed."""
    return None if value is None else user_path(value)


def check_out(out: Path | None, suffixes: tuple[str, ...], again: bool) -> None:
    """Refuse a file that cannot be written, has another ending, or is there."""
    from zoo.system.files import check_place

    if out is None:
        return
    if suffixes and out.suffix not in suffixes:
        raise ZooError(f"{out}: write a file that ends in {' or '.join(suffixes)}.")
    if out.is_dir() or (out.exists() and not again):
        raise ZooError(f"{out} exists; name another file, or write --again to replace it.")
    check_place(out, follow=True)


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


DeviceName = Annotated[Device, typer.Option(help="Where to compute.")]
Runs = Annotated[
    Path,
    typer.Option(help="The folder in which the run's own folder is made.", callback=typed_path),
]
_AGAIN = 5.0
"""Seconds in which a signal that comes again is the same: `timeout` sends two."""

_came: list[int] = []


def exit_code() -> int:
    """Return what a command that was stopped leaves with: 143 by SIGTERM, 130 by Ctrl-C."""
    return 128 + (_came[-1] if _came else signal.SIGINT)


@contextlib.contextmanager
def graceful_shutdown() -> Iterator[None]:
    """Take SIGTERM and SIGHUP for Ctrl-C as long as this lasts: raise KeyboardInterrupt.

    Who ignores one of them (`nohup`) is left alone. One that comes again after some seconds ends
    the process at once.
    """
    first = 0.0

    def ask(number: int, frame: object) -> None:
        nonlocal first
        if not first:
            first = time.monotonic()
            _came.append(number)
            raise KeyboardInterrupt(number)
        if time.monotonic() - first > _AGAIN:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    numbers = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) == signal.SIG_DFL
    ]
    for number in numbers:
        signal.signal(number, ask)
    try:
        yield
    finally:
        if not first:  # what is written once it has come is not to be cut off
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)


def tell_imports(imports: Sequence[str], quiet: bool) -> None:
    """Say which code of a recipe is run."""
    if imports and not quiet:
        console.remark(f"the recipe imports code, which is run: {', '.join(imports)}")


def train_plan(
    plan,
    device: Device,
    runs: Path,
    resume: Path | None = None,
    after_epoch: Callable[[], None] = lambda: None,
    quiet: bool = False,
    track: Sequence[str] = (),
) -> dict[str, Any]:
    """Train a plan behind a progress bar, or go on with a run, and return its summary.

    What it takes over from other weights is printed before training begins. Ctrl-C before there is
    a result leaves with exit code 130; SIGTERM and SIGHUP end a single process in the same way. Of
    several processes the first alone returns: it speaks for all.
    """
    from tqdm import tqdm

    from zoo.cli.progress_bar import progress_bar
    from zoo.runs.run import resume_run, run_recipe
    from zoo.system import process_group
    from zoo.system.allocator import keep_freed_memory
    from zoo.system.memory import out_of_memory

    def remark(text: str) -> None:
        with tqdm.external_write_mode():  # the bar makes room for it
            console.remark(text)

    keep_freed_memory()
    process_group.start()
    silent, seeds = process_group.rank() > 0, plan.recipe.seeds
    tell_imports(plan.imports, quiet or silent)
    title = f"{plan.recipe.name}: seeds {seeds}, {plan.train['epochs']} epochs each at most"
    # Several may be in the midst of a message to each other: they are ended by who started them.
    kindly = graceful_shutdown() if process_group.count() == 1 else contextlib.nullcontext()
    with kindly, progress_bar(seeds, title=title, quiet=quiet or silent) as watch:

        def seen(seed: int, epoch: Any) -> None:
            watch(seed, epoch)
            after_epoch()

        try:
            hooks = {"device": device.value, "watch": seen, "track": track, "tell": remark,
                     "begin": (lambda start: None) if quiet else result_tables.start}  # fmt: skip
            if resume is not None:
                summary = resume_run(resume, **hooks)
            else:
                summary = run_recipe(plan, runs=runs, **hooks)
        except KeyboardInterrupt:
            console.complain("stopped before a first result.")
            sys.exit(exit_code())
        except (MemoryError, RuntimeError) as error:
            if process_group.lost(error):
                _lost()
            if not out_of_memory(error):
                raise
            summary = None  # said below, where what the error holds has been let go
    if summary is None:
        raise ZooError(_too_large(plan))
    if silent:
        sys.exit(0)
    return summary


def _lost() -> NoReturn:
    """Leave because another process has ended: who started them says what there is to say."""
    from zoo.system import process_group

    if process_group.rendezvous() is None:  # a launcher that does not speak of runs
        raise ZooError(
            "another process has ended, and this one with it. Started again as before, with `zoo "
            "train --resume RUN`, they go on from the last checkpoint, if one was written."
        )
    sys.exit(process_group.LOST)


def _too_large(plan) -> str:
    """Return what to do about a plan whose training does not fit into memory."""
    from zoo.config.recipe import word
    from zoo.system import allocator, process_group

    allocator.give_back()  # what the training had
    said, size = f"{plan.recipe.name} does not fit into memory", 1000
    if word(batching := plan.train["batching"]) in ("samples", "tokens", "snapshots"):
        held = batching.get("size") if isinstance(batching, dict) else None
        fewer = max(1, (held or 128) // 2)
        return f"{said}. Write train.batching.size={fewer}, or a smaller model.dim."
    with contextlib.suppress(MemoryError, RuntimeError, ZooError):  # nor may a small graph fit
        from zoo.runs.estimate_memory import estimate

        # The other processes are in the middle of a step, and would be asked to take part.
        if process_group.count() == 1:
            found = estimate(plan)
            size = max(1, min(found.largest or 1, found.batch) // 2)
            said += f": `zoo estimate` says {found.peak / 2**30:.1f} GiB, on a GPU "
            said += f"{found.peak_cuda / 2**30:.1f}, for steps that see {found.batch:,} nodes"
    change = f"'train.batching={{name: random-nodes, size: {size}}}' with train.evaluate=batches"
    return f"{said}. Take batches, such as {change}, or a smaller model.dim."


def spec_of(text: str, options: Sequence[str] | None = None) -> str | dict[str, Any]:
    """Read a data set: a name, a path, or a mapping as it is written behind `dataset:`.

    Args:
        text: of it.
        options: KEY=VALUE, as recipes take them; `dataset.` before a key may be left out.
    """
    from zoo.config.overrides import need_values, override
    from zoo.config.yaml_lines import Draft

    spec = _mapping(text) if text.lstrip().startswith("{") else text
    if not options:
        return spec
    need_values(options)
    draft = Draft("the command")
    draft.data = {"name": spec} if isinstance(spec, str) else spec
    for number, each in enumerate(options):
        override(draft, each.removeprefix("dataset."), number)
    draft.finish()
    return draft.data


def _mapping(text: str) -> dict[str, Any]:
    from zoo.config.yaml_lines import read_value

    wanted = "write a name, a path, or '{name: sbm, nodes: 500}'."
    try:
        spec = read_value(text)
    except ZooError as error:
        raise ZooError(f"{error} Instead, {wanted}") from None
    if not isinstance(spec, dict) or not isinstance(spec.get("name"), str):
        raise ZooError(f"{text}: {wanted}")
    return spec


def tell(summary: dict[str, Any], as_json: bool) -> None:
    """Print what came of a training; one that was stopped leaves with 130, or 143."""
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        result_tables.result(summary)
    if summary["interrupted"]:
        sys.exit(exit_code())


def translate(model, text: str, out: Path | None, again: bool, device: Device, how: dict) -> None:
    """Translate a file, and say how many lines are written where."""
    from zoo.sequences.translate import translate_file
    from zoo.system.environment import choose_device

    check_out(out, (), again)
    given = {key: value for key, value in how.items() if value is not None}
    count, cut = translate_file(model, text, out, device=choose_device(device.value), **given)
    said = f" {cut:,} were too long, and cut before they were translated." if cut else ""
    if said or out is not None:
        console.remark(f"{count:,} lines are translated{f', into {out}' if out else ''}.{said}")


def tell_forecast(found, out: Path | None) -> None:
    """Write a forecast, or print it."""
    from zoo.inference.predict import write_table

    if out is None:
        text = found.table().to_csv(index=False)
        typer.echo(printable(text) if sys.stdout.isatty() else text, nl=False)
        return
    write_table(found, out)
    console.remark(f"{len(found.times):,} times of {len(found.ids):,} nodes are in {out}.")
