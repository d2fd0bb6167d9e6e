"""Printing: answers on standard output, remarks and complaints on standard error.

Text of users and their data goes through `plain`, which escapes what rich, or a terminal, would
obey; what is printed as JSON escapes all but ASCII.
"""

import contextlib
import errno
import logging
import os
import shlex
import sys
import tempfile
import traceback
from collections.abc import Iterator
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from zoo.errors import ZooError, blame, printable
from zoo.system.files import REFUSED


class Remarks(Console):
    """Standard error: a command goes on where nobody reads it."""

    def on_broken_pipe(self) -> None:
        """Print nothing any more."""
        self.quiet = True


out = Console(highlight=False, emoji=False)
errors = Remarks(stderr=True, highlight=False, emoji=False, soft_wrap=True)


def plain(text: object) -> str:
    """Escape text for rich, which reads square brackets as markup, and for the terminal."""
    return escape(printable(str(text)))


def say(text: str) -> None:
    """Print a line of an answer as it is, at once."""
    out.print(plain(text), soft_wrap=True)
    out.file.flush()


def remark(text: str) -> None:
    """Print what is being done."""
    with contextlib.suppress(OSError):
        errors.print(plain(text))


def complain(text: str) -> None:
    """Print what went wrong."""
    with contextlib.suppress(OSError):
        errors.print(f"[bold red]zoo:[/] {plain(text)}")


class Warnings(logging.Handler):
    """Prints warnings of the zoo as remarks, each once in a command.

    Logging's own last resort would not escape them. A table may be read more than once.
    """

    def __init__(self, level: int):
        super().__init__(level)
        self.said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning, unless it has been."""
        if (text := record.getMessage()) not in self.said:
            self.said.add(text)
            remark(text)


warnings = Warnings(logging.WARNING)


def explain(error: Exception) -> int:
    """Print what has ended a command, and return its exit code: 2 where the user can fix it.

    Of anything else it prints what was being done, the message of whoever raised it, and the file
    in which the whole traceback lies; the code is 1.
    """
    sentence = str(error) if isinstance(error, ZooError) else blame(error)
    if sentence is None and isinstance(error, OSError) and error.errno in REFUSED:
        # An error of standard output names no file: does it take another line?
        if error.filename is None and end(0, "\n"):
            return 2
        sentence = (
            f"{error.filename or 'a file'}: {error.strerror}. Make room, change what may be read "
            "and written there, or write another path."
        )
    if sentence is not None:
        complain(sentence)
        return 2
    lines = traceback.format_exception(error)
    complain(
        f"`{shlex.join(['zoo', *sys.argv[1:]])[:200]}` ended by {type(error).__name__}: "
        f"{' '.join(str(error).split())[:600]}. {_written(lines)}"
    )
    return 1


def _written(lines: list[str]) -> str:
    """Write a traceback into a file and return where; without room for one, return it itself."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="zoo-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.writelines(lines)
    except OSError:
        return f"\n{''.join(lines)}"
    return f"The whole traceback is in {file.name}."


def end(code: Any, more: str = "") -> Any:
    """Print the rest, and return the exit code: another one where not all could be printed."""
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


def rows(data: list[dict[str, Any]]) -> None:
    """Print rows with the same keys as a table, or one below another where words would be cut.

    Where it would be too wide, what is the same in all rows stands below it, once.
    """
    shared = {key: value for key, value in data[0].items() if len(data) > 1 and key != "name"}
    shared = {key: value for key, value in shared.items() if all(r[key] == value for r in data)}
    for once in ({}, shared):
        table = _table([{key: row[key] for key in row if key not in once} for row in data])
        if _width(table) <= out.width:
            out.print(table)
            for key, value in once.items():
                if value:
                    out.print(f"{plain(key)}, of all: {plain(value)}")
            return
    for row in data:
        first, *others = row.items()
        out.print(f"[bold]{plain(first[1])}[/]")
        for key, value in others:
            if value is not None and value != "":
                out.print(Padding(f"{plain(key)}: {plain(value)}", (0, 0, 0, 2)))


def _table(data: list[dict[str, Any]]) -> Table:
    """Return a table in which words are not cut."""
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    cells = [["" if value is None else plain(value) for value in row.values()] for row in data]
    for key, *column in zip(map(plain, data[0]), *cells, strict=True):
        words = " ".join([key, *column]).split()
        longest = max(map(cell_len, words), default=0)
        table.add_column(key, no_wrap=key == "name", overflow="fold", min_width=longest)
    for row in cells:
        table.add_row(*row)
    return table


def _width(table: Table) -> int:
    lines = "".join(segment.text for segment in out.render(table)).splitlines()
    return max(map(cell_len, lines))


@contextlib.contextmanager
def hints_for_the_shell() -> Iterator[None]:
    """Have errors say `key=value` where a recipe would have `key: value`."""
    from zoo.config.overrides import in_the_shell

    try:
        yield
    except ZooError as error:
        raise ZooError(in_the_shell(str(error))) from None
