"""The command `zoo`: what can be typed, file by file, and how a command ends."""

import functools
import inspect
import logging
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.markup import escape

from zoo.cli import console, data, info, train, tune, weights

# Torch, DGL and the zoo's own modules are imported inside the commands that need them: `zoo --help`
# answers at once, and `zoo doctor` where they do not import at all.

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A model zoo of graph transformers: train, reproduce and compare them by name.",
)


def _wrapped(docstring: str | None) -> str:
    """Return help with a line a paragraph, which the terminal wraps; lines of examples stay."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    lines = (text if text.startswith("zoo ") else " ".join(text.split()) for text in paragraphs)
    return escape("\n\n".join(lines))


PANELS = {
    "Use": ("train", "finetune", "predict", "evaluate", "embed", "data"),
    "Measure": ("reproduce", "compare", "results", "tune", "report", "estimate"),
    "Share weights": ("load", "push", "pull", "publish"),
    "Write recipes and models": ("list", "info", "show", "check", "schema", "doctor"),
}
"""What the commands are for, as `zoo --help` shows them."""

_PANEL_OF = {command: panel for panel, commands in PANELS.items() for command in commands}

for group in (train.app, tune.app, weights.app, info.app):
    app.registered_commands += group.registered_commands
for command in app.registered_commands:
    command.name = command.name or command.callback.__name__
    command.rich_help_panel = _PANEL_OF[command.name]
app.registered_commands.sort(key=lambda command: [*_PANEL_OF].index(command.name))
for command in (*app.registered_commands, *data.app.registered_commands):
    command.help = _wrapped(command.callback.__doc__)
app.add_typer(data.app, name="data", rich_help_panel=_PANEL_OF["data"])


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"zoo {version('graph-transformer-zoo')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the zoo's version."
        ),
    ] = False,
) -> None:
    """What may stand before the name of a command."""


@functools.cache
def click_command() -> Any:
    """Return `app` as click knows it: made once, for a program or test that calls it often."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command; an error that the user can fix is printed as one paragraph, exit code 2."""
    code: Any = 0
    console.warnings.said.clear()
    logging.getLogger("zoo").addHandler(console.warnings)
    try:
        click_command()(obj=main)  # which `zoo train --processes 2` calls in each of them
    except SystemExit as ended:
        code = ended.code
    except Exception as error:
        code = console.explain(error)
    sys.exit(console.end(code))
