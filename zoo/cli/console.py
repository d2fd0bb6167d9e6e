"""Printing: tables on standard output, remarks and complaints on standard error.

All that the command prints for people goes through `out`, `errors` or the messages of `Commands`,
which escape what a terminal would obey; what is printed as JSON escapes all but ASCII.
"""

import contextlib
import errno
import inspect
import logging
import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from typer.core import TyperGroup

from zoo.config.scores import figure, lower_is_better
from zoo.errors import ZooError, blame, printable
from zoo.system.files import REFUSED


class Escaped(Console):
    """A console that escapes also what was not made `plain`; colours are the zoo's own alone."""

    def render(self, renderable, options=None) -> Iterator[Segment]:
        """Yield what is printed, escaped."""
        for each in super().render(renderable, options):
            yield each if each.control else each._replace(text=printable(each.text))


class Remarks(Escaped):
    """Standard error: that nobody reads it is no reason to end."""

    def on_broken_pipe(self) -> None:
        """Say nothing any more."""
        self.quiet = True


out = Escaped(highlight=False, emoji=False)
errors = Remarks(stderr=True, highlight=False, emoji=False, soft_wrap=True)


class Commands(TyperGroup):
    """The commands; what typer says of words that it does not understand is escaped."""

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self._wrapped: set[str] = set()

    def get_command(self, context, name):
        """Return a command whose help is wrapped by the terminal, its examples apart."""
        command = super().get_command(context, name)
        if command is not None and command.help and name not in self._wrapped:
            command.help = escape(_unwrapped(command.help))
            self._wrapped.add(name)
        return command

    def make_context(self, *words, **options):
        """Read the words before the name of the command."""
        with _escaped():
            return super().make_context(*words, **options)

    def invoke(self, context):
        """Read the words behind it, and run it."""
        with _escaped():
            return super().invoke(context)


def _unwrapped(text: str) -> str:
    """Return a docstring with a line a paragraph; lines of examples stay."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(
        each if each.startswith("zoo ") else " ".join(each.split()) for each in paragraphs
    )


@contextlib.contextmanager
def _escaped() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):  # of typer
            error.message = printable(error.message)
        raise


def complain(text: str) -> None:
    """Print what went wrong."""
    with contextlib.suppress(OSError):
        errors.print(f"[bold red]zoo:[/] {plain(text)}")


def explain(error: Exception) -> int:
    """Print what has ended a command, and return its exit code: 2 of what the user can put right.

    Of what nobody foresaw it is what was being done, the message of whoever raised it, and the file
    in which the whole traceback lies; the code is 1.
    """
    said = str(error) if isinstance(error, ZooError) else blame(error)
    if said is None and isinstance(error, OSError) and error.errno in REFUSED:
        return refused(error)
    if said is not None:
        complain(said)
        return 2
    lines = traceback.format_exception(error)
    with contextlib.suppress(BrokenPipeError):
        complain(
            f"`{shlex.join(['zoo', *sys.argv[1:]])[:200]}` ended by {type(error).__name__}: "
            f"{' '.join(str(error).split())[:600]}. {_written(lines)}"
        )
    return 1


def _written(lines: list[str]) -> str:
    """Write a traceback into a file, and say where; without room for one it is said itself."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="zoo-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.writelines(lines)
    except OSError:
        return f"\n{''.join(lines)}"
    return f"The whole traceback is in {file.name}."


def remark(text: str) -> None:
    """Print what is being done."""
    with contextlib.suppress(OSError):
        errors.print(plain(text))


class Warnings(logging.Handler):
    """What the zoo warns of is a remark; logging's own last resort would print it unescaped."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning."""
        remark(record.getMessage())


warnings = Warnings(logging.WARNING)


def refused(error: OSError) -> int:
    """Say what the system has refused, and return the exit code."""
    # It names no file where it was printed, as a rule.
    if error.filename is not None or not end(0, "\n"):
        complain(
            f"{error.filename or 'a file'}: {error.strerror}. Make room, change what may be read "
            "and written there, or write another path."
        )
    return 2


def end(code: Any, more: str = "") -> Any:
    """Return the exit code of a command that would leave with this one: was all of it printed?"""
    try:
        if sys.stdout is not None:
            sys.stdout.write(more)
            sys.stdout.flush()
        return code
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:  # whoever reads has read enough
            return code or 1
        complain(f"the answer cannot be printed: {error.strerror}. Print it to another place.")
        return code or 2


def say(text: str) -> None:
    """Print a line of an answer as it is, at once."""
    out.print(plain(text), soft_wrap=True)
    out.file.flush()


def rows(found: list[dict[str, Any]]) -> None:
    """Print rows with the same keys as a table, or one below another where words would be cut."""
    table = Table(box=None, pad_edge=False)
    cells = [["" if each is None else printable(str(each)) for each in line]
             for line in (found[0], *(row.values() for row in found))]  # fmt: skip
    widths = _widths([*zip(*cells, strict=True)], out.width)
    if widths is None:
        _one_below_another(cells)
        return
    for head, width in zip(cells[0], widths, strict=True):
        table.add_column(plain(head), no_wrap=head == "name", overflow="fold", width=width)
    for row in cells[1:]:
        table.add_row(*map(plain, row))
    out.print(table)


def _one_below_another(cells: list[list[str]]) -> None:
    """Print the first cell of each row, and below it a line for each other cell that is filled."""
    (_, *keys), *found = cells
    for name, *values in found:
        out.print(f"[bold]{plain(name)}[/]")
        for key, value in zip(keys, values, strict=True):
            if value:
                out.print(Padding(f"{plain(key)}: {plain(value)}", (0, 0, 0, 2)))


def _widths(columns: list[tuple[str, ...]], most: int) -> list[int] | None:
    """Return the widths of columns, of which the widest are cut; None where words would be."""
    wide = [max(map(cell_len, each)) for each in columns]
    words = [max(map(cell_len, " ".join(each).split()), default=0) for each in columns]
    for cap in range(most, 0, -1):
        widths = [max(word, min(cap, cell)) for word, cell in zip(words, wide, strict=True)]
        if sum(widths) + 2 * (len(widths) - 1) <= most:
            return widths
    return None


def recipes(found: list[dict[str, Any]]) -> None:
    """Print rows of recipes, those for one split of a data set together, the best of them first."""
    table = Table(box=None, pad_edge=False)
    table.add_column("recipe", overflow="fold")
    for column in ("published", "measured"):
        table.add_column(column, justify="right", no_wrap=True)
    for where, group in groupby(found, lambda row: row["scored_on"]):
        those = list(group)
        less = lower_is_better(those[0]["metric"])
        those.sort(key=lambda row: (row["measured"] is None,
                                    (row["measured"] or 0) * (1 if less else -1)))  # fmt: skip
        metrics = dict.fromkeys(row["metric"] for row in those if row["metric"])
        table.add_row(f"[bold]{plain(where)}[/], {plain(' and '.join(metrics))}")
        for row in those:
            expected = "" if row["expected"] is None else figure(row["expected"])
            std = "" if row["std"] is None else f" ± {figure(row['std'])}"
            measured = "" if row["measured"] is None else f"{figure(row['measured'])}{std}"
            table.add_row(f"  {plain(row['name'])}", expected, measured)
    out.print(table)


def data(found: list) -> None:
    """Print what `zoo data check` found: a line each, and below it what to do about it."""
    from zoo.config.overrides import in_the_shell

    marks = {"good": "[green]good[/]", "look": "[yellow]look[/]", "fix": "[bold red]fix[/]"}
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in found:
        table.add_row(marks[each.verdict], each.name, plain(each.found))
        if each.fix:
            table.add_row("", "", f"[bold]{plain(in_the_shell(each.fix))}[/]")
    out.print(table)


def classes(found: list[dict[str, Any]], most: int = 20) -> None:
    """Print precision, recall and F1 of each class, the most frequent ones if they are many."""
    table = Table(box=None, pad_edge=False)
    table.add_column("class", overflow="ellipsis", no_wrap=True, max_width=40)
    for column in ("precision", "recall", "f1", "count"):
        table.add_column(column, justify="right", no_wrap=True)
    kept = sorted(range(len(found)), key=lambda each: -found[each]["count"])[:most]
    for row in (found[each] for each in sorted(kept)):
        scores = (row[key] for key in ("precision", "recall", "f1"))
        cells = ("-" if each is None else f"{each:.4f}" for each in scores)
        table.add_row(plain(row["class"]), *cells, f"{row['count']:,}")
    out.print(table)
    if len(kept) < len(found):
        out.print(f"The {most} most frequent of {len(found):,} classes; --json has all of them.")


def info(found: dict[str, Any]) -> None:
    """Print what `zoo.cli.describe.info` says of a model."""
    out.print(f"[bold]{plain(found['name'])}[/]  {plain(found['what'])}\n", soft_wrap=True)
    for part in ("equations", "edge weights", "paper"):
        if found[part]:
            out.print(plain(found[part]) + "\n", soft_wrap=True)
    if found["about"]:
        out.print(f"[bold]About[/]\n{plain(found['about'])}\n", soft_wrap=True)
    for heading in ("options", "recipes"):
        if found[heading]:
            out.print(f"[bold]{heading.capitalize()}[/]")
            (recipes if heading == "recipes" else rows)(found[heading])
            out.print()
    if found["differs"]:
        out.print("[bold]Where recipes differ from their sources[/]")
        for name, said in found["differs"].items():
            out.print(f"{plain(name)}: {plain(' '.join(said))}", soft_wrap=True)
        out.print()
    if found["citation"]:
        out.print(f"[bold]Citation[/]\n{plain(found['citation'])}", soft_wrap=True)


def recipe_of(data: dict[str, Any]) -> None:
    """Print a part of a recipe that can be pasted."""
    from zoo.config.recipe import recipe_text

    out.print(f"\n[bold]In a recipe[/]\n{plain(recipe_text(data))}", soft_wrap=True, end="")


def plain(text: object) -> str:
    """Escape a user's text before it is laid out: rich reads square brackets as its own markup."""
    return escape(printable(str(text)))


@contextlib.contextmanager
def hints_for_the_shell() -> Iterator[None]:
    """Have errors say `key=value` where a recipe would have `key: value`."""
    from zoo.config.overrides import in_the_shell

    try:
        yield
    except ZooError as error:
        raise ZooError(in_the_shell(str(error))) from None
