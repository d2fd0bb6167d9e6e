"""What the commands share: the types of their options, data sets that are typed, and signals."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.cli import console
from zoo.errors import ZooError
from zoo.system.files import check_place, user_path
from zoo.system.signals import ENDING


def typed_path(value: Path | None) -> Path | None:
    """Check a path that was typed, and replace `~` in it."""
    return None if value is None else user_path(value)


class Device(StrEnum):
    """Where to compute."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A name, a file, or a model.")]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Changes, such as model.attention=rba."),
]
DataOptions = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="How to read it, such as label=species."),
]
Data = Annotated[
    str | None, typer.Option("--data", help="A data set, or its PATH; the same as dataset=DATA.")
]
Trust = Annotated[
    bool,
    typer.Option("--trust", help="Run what a recipe imports: code, which may do what you may."),
]
Trusted = Annotated[
    bool, typer.Option("--trust", hidden=True, help="Has no effect: imports are run.")
]
Imports = Annotated[
    list[str] | None,
    typer.Option("--import", help="A Python file or module to import first; nothing else is."),
]
Layerwise = Annotated[
    bool,
    typer.Option(
        "--layerwise",
        help="The answers of the whole graph in bounded memory: layer by layer, with files in "
        "TMPDIR. Not for every attention.",
    ),
]
Track = Annotated[
    list[str] | None,
    typer.Option(metavar="TRACKER", help="csv, tensorboard, wandb or mlflow; again for more."),
]
Unverified = Annotated[
    bool, typer.Option("--unverified", help="Take weights that come without a checksum.")
]
Weights = Annotated[
    str,
    typer.Argument(
        metavar="WEIGHTS",
        help="A run, one of its seeds, a folder of weights, a name of "
        "`zoo list models --pretrained`, or hub:OWNER/NAME.",
    ),
]
DeviceName = Annotated[Device, typer.Option(help="Where to compute.")]
Runs = Annotated[
    Path,
    typer.Option(help="The folder in which the run's own folder is made.", callback=typed_path),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing on the way.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check_out(out: Path | None, suffixes: tuple[str, ...], again: bool) -> None:
    """Refuse a file that cannot be written, has another ending, or exists."""
    if out is None:
        return
    if suffixes and out.suffix not in suffixes:
        raise ZooError(f"{out}: write a file that ends in {' or '.join(suffixes)}.")
    if out.is_dir() or (out.exists() and not again):
        raise ZooError(f"{out} exists; name another file, or write --again to replace it.")
    check_place(out, follow=True)


def spec_of(text: str, options: Sequence[str] | None = None) -> str | dict[str, Any]:
    """Read a data set: a name, a path, or a mapping as it is written behind `dataset:`.

    Args:
        text: as it was typed.
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
    for number, option in enumerate(options):
        override(draft, option.removeprefix("dataset."), number)
    draft.finish()
    return draft.data


def with_data(data: str | None, overrides: Sequence[str] | None) -> list[str]:
    """Return overrides that name first what was typed behind `--data`, if anything was."""
    from zoo.config.overrides import name_data

    return name_data(None if data is None else spec_of(data), overrides or [], f"--data {data}")


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


def locate_weights(weights: str) -> Path:
    """Return a folder of weights, and print how it was chosen."""
    from zoo.weights.index import locate

    folder, why = locate(weights)
    if why:
        console.remark(f"weights: {folder}, {why}.")
    return folder


def import_first(imports: list[str] | None, weights: Path | None = None) -> None:
    """Run the files and modules that a command names; warn where weights were made with others."""
    from zoo.runs.imports import import_sources, warn_of_changed_code

    warn_of_changed_code(import_sources(imports or [], Path()), weights)


def print_imports(imports: Sequence[str], quiet: bool) -> None:
    """Print which code of a recipe is run."""
    if imports and not quiet:
        console.remark(f"the recipe imports code, which is run: {', '.join(imports)}")


_REPEATED = 5.0
"""Seconds in which a signal that comes again is the same: `timeout` sends two."""

_received: list[int] = []


def exit_code() -> int:
    """Return the exit code of a command that was stopped: 143 by SIGTERM, 130 by Ctrl-C."""
    return 128 + (_received[-1] if _received else signal.SIGINT)


@contextlib.contextmanager
def graceful_shutdown() -> Iterator[None]:
    """Take SIGTERM and SIGHUP for Ctrl-C as long as this lasts: raise KeyboardInterrupt.

    Signals that are ignored (`nohup`) stay so. One that comes again after some seconds ends the
    process at once.
    """
    first = 0.0

    def interrupt(number: int, frame: object) -> None:
        nonlocal first
        if not first:
            first = time.monotonic()
            _received.append(number)
            raise KeyboardInterrupt(number)
        if time.monotonic() - first > _REPEATED:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    numbers = [number for number in ENDING if signal.getsignal(number) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        if not first:  # what is written after a signal is not to be cut off
            for number in numbers:
                signal.signal(number, signal.SIG_DFL)
