"""The one kind of error that its reader can fix, what a check of data finds, and suggestions."""

import contextlib
import difflib
import gzip
import importlib
import inspect
import re
import sys
import sysconfig
import traceback
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

MANY = 40
"""More words than anyone reads in one sentence."""

FIRST = 20
"""Problems of one file that are told; of the others, how many there are."""

LISTED = ("dataset", "model", "recipe", "attention", "propagation", "encoding", "graph")
"""Kinds of words that `zoo list` has."""

_ZOO = Path(__file__).parent
_INSTALLED = {Path(path).resolve() for path in (*sysconfig.get_paths().values(), sys.prefix)}
_LONGEST = 2000  # characters of a line
_WORD = 80  # characters of a word that are compared with others


class ZooError(Exception):
    """Something the user can put right: one paragraph that says what is wrong and what to write.

    The command prints the text without a traceback and exits with code 2. What data put into it is
    escaped, whoever prints it; what a line has too much, however long names and values in it are,
    is left out of its middle.
    """

    def __init__(self, text: object = ""):
        super().__init__("\n".join(map(_shortened, printable(str(text)).split("\n"))))


def printable(text: str) -> str:
    r"""Escape what would not be seen but be obeyed, by a terminal or a reader; lines stay lines.

    That is all but letters, marks, digits, signs and the space: control characters of ASCII and
    beyond (C1), marks that turn the direction of writing, invisible ones, halves of a character.

    >>> print(printable("red \x1b[31m, from right to left \u202e, a bell \x07"))
    red \x1b[31m, from right to left \u202e, a bell \x07
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else char.encode("unicode_escape").decode()
        for char in text
    )


class Problem(NamedTuple):
    """One thing wrong in nested options: the path of keys that leads to it, and what to write."""

    path: tuple[str | int, ...]
    message: str

    def __str__(self) -> str:
        """Return `model.dim: message`, as one line of an error."""
        return f"{'.'.join(map(str, self.path)) or 'here'}: {self.message}"


class Finding(NamedTuple):
    """One thing that a check of data looks at: verdict, what is found, what to do, numbers."""

    name: str
    verdict: str
    found: str
    fix: str = ""
    values: dict[str, Any] = {}


def refused_by(name: str, check: Callable[[], Any]) -> list[Finding]:
    """Return what a check refuses, as a finding; nothing where it passes."""
    try:
        check()
    except ZooError as error:
        return [Finding(name, "fix", "refused", str(error))]
    return []


def of_file(path: Path, error: ZooError) -> ZooError:
    """Return an error that begins with the path of the file, whose name it may begin with.

    One that begins with the path already, or with that of a file in the folder, stays.

    >>> print(of_file(Path("data/sales.csv"), ZooError("sales.csv has no rows.")))
    data/sales.csv has no rows.
    """
    if str(error).startswith(str(path)):
        return error
    rest = re.sub(rf"^{re.escape(path.name)}(?=[: ])", "", str(error))
    kind = type(error) if type(error).__init__ is ZooError.__init__ else ZooError
    return kind(f"{path}{': ' if rest == str(error) else ''}{rest}")


@contextlib.contextmanager
def named_in_errors(name: str) -> Iterator[None]:
    """Begin errors with the name of what they are about."""
    try:
        yield
    except ZooError as error:
        raise ZooError(f"{name}: {error}") from None


def cause(error: BaseException) -> str:
    """Return what a library has raised, its type and the beginning of what it says.

    >>> cause(KeyError("vector_float"))
    "KeyError: 'vector_float'"
    """
    message = " ".join(str(error).split())
    return f"{type(error).__name__}: {message[:160]}" if message else type(error).__name__


DAMAGE = (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile)
"""What is raised for a file that is cut short or damaged, and for none that is whole."""


@contextlib.contextmanager
def reading(path: Path, what: str, less: str = "keep fewer columns") -> Iterator[None]:
    """Say of what a reader raises which file it was reading, as what, and the library's own words.

    That is not to say that the file is damaged: a reader may not know its form.

    Args:
        path: of the file.
        what: it is read as.
        less: what to do where there is not enough memory.

    Raises:
        ZooError: what was raised, beginning with the path; of a `ZooError` its own text.
    """
    try:
        yield
    except ZooError as error:
        raise of_file(path, error) from None
    except MemoryError:
        raise ZooError(f"{path}: it does not fit into memory; {less}.") from None
    except DAMAGE as error:
        raise ZooError(
            f"{path}: a file is damaged, or cut short ({cause(error)}); fetch or write it again."
        ) from error
    except Exception as error:  # readers of ten formats raise nearly anything
        raise ZooError(
            f"{path}: it cannot be read as {what} ({cause(error)}). Write it otherwise; what "
            "another program can read goes through zoo.Dataset.from_networkx, from_pyg, from_dgl, "
            "from_scipy or from_arrays."
        ) from error


def optional(module: str, extra: str, user: str) -> Any:
    """Import a package that only an extra installs.

    Args:
        module: what is imported.
        extra: the extra of the zoo that installs it.
        user: what needs it, the first words of the error.

    Raises:
        ZooError: it is not installed: the line that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise ZooError(
            f"{user} needs a package more: pip install 'graph-transformer-zoo[{extra}]'."
        ) from None


def suggestion(word: object, words: Iterable[str], kind: str = "") -> str:
    """Return `did you mean 'softmax'?` for the nearest of the words, else the list.

    Args:
        word: what was written.
        words: what it might have been.
        kind: what these are, where `zoo list` has them.
    """
    known = sorted(str(other)[:_WORD] for other in words)
    if near := nearest(word, known):
        return f"did you mean {' or '.join(map(repr, near))}?"
    if len(known) > MANY:
        see = f"; see `zoo list {kind}s`" if kind in LISTED else ""
        return f"there are {len(known)}, from {known[0]} to {known[-1]}{see}."
    return f"choose from {', '.join(known)}." if known else "there is none to choose from."


def nearest(word: object, words: Iterable[str], most: int = 3) -> list[str]:
    """Return which of the words are spelled much like what was written, the nearest first."""
    return difflib.get_close_matches(str(word)[:_WORD].lower(), list(words), n=most, cutoff=0.6)


def unknown(kind: str, word: object, words: Iterable[str]) -> str:
    """Return the sentence that answers a word that no table holds."""
    return f"no {kind} is called {brief(word)}; {suggestion(word, words, kind)}"


def brief(value: object, most: int = 80) -> str:
    """Return a value as Python writes it, in so many characters at most."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits; what holds itself
        text = f"a {type(value).__name__} too large to be shown"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def blame(error: BaseException) -> str | None:
    """Return what a user's own code has raised, and where; None if none of it took part.

    The lines of the zoo and of what is installed are left out.
    """
    frames = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in frames if _is_users(frame.filename)]
    if not frames:
        return None
    kind, message, last = type(error).__name__, " ".join(str(error).split())[:600], frames[-1]
    lines = [f"  {f.filename}:{f.lineno}, in {f.name}: {f.line}" for f in frames[-20:]]
    first = (
        f"{last.filename}:{last.lineno} has raised {kind}: {message}. This is code of your own; "
        "correct it there. The lines of your files that led to it:"
    )
    return "\n".join([first, *lines])


def _is_users(filename: str) -> bool:
    path = Path(filename)
    if not path.is_file() or path.is_relative_to(_ZOO):
        return False
    return not any(path.resolve().is_relative_to(folder) for folder in _INSTALLED)


def _shortened(line: str) -> str:
    if len(line) <= _LONGEST:
        return line
    return f"{line[: _LONGEST * 2 // 3]} ... {line[-_LONGEST // 3 :]}"


def file_of(kind: type) -> str:
    """Return the file that a class is from; of one that was typed at a prompt, its module."""
    try:
        return inspect.getfile(kind)
    except (TypeError, OSError):
        return kind.__module__
