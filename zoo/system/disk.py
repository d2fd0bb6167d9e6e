"""What a disk has against being written to: full, limited, read-only; and how to say so."""

import contextlib
import errno
import os
import re
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from zoo.errors import ZooError

LONGEST_NAME = 255
"""Bytes of a name of a file, on every disk in use."""

REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM,
           errno.EIO, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EMFILE,
           errno.ENFILE)  # fmt: skip
"""What the system says where the command is not to blame."""

_LITTLE = 2**20
"""Bytes of room below which a disk counts as full where nobody says what it was."""


class WriteError(ZooError):
    """A file or folder cannot be written: which, why, and what to do about it."""


@contextlib.contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Say as one paragraph what the system has against writing `path`.

    Raises:
        WriteError: in the place of any `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {refusal(error, Path(path))}") from None


def check_space(path: Path, *sizes: int) -> None:
    """Refuse to begin what there is no room for.

    Args:
        path: what is to be written, a file or a folder; it need not exist.
        sizes: bytes of each file of it; they may be less than it will take, not more.

    Raises:
        WriteError: they are more than the disk has room for, or one more than a file may have.
    """
    with writing(path):
        limit = _file_limit()
        if limit is not None and max(sizes, default=0) > limit:
            raise OSError(errno.EFBIG, f"it would take {_bytes(max(sizes))}")
        if sum(sizes) > _room(path):
            raise OSError(errno.ENOSPC, f"it would take {_bytes(sum(sizes))}")


def sqlite(path: Path) -> str:
    """Return the address of a database in a file, whatever its name; it need not exist.

    Raises:
        ZooError: it is damaged, or something else.
    """
    with contextlib.suppress(sqlite3.OperationalError):  # another process writes to it
        if path.is_file() and not _is_whole(path):
            raise ZooError(
                f"{path} is damaged, or no database: put a copy of it in its place, or move it "
                "away, and what it held begins anew."
            )
    return f"sqlite:///{quote(str(path.absolute()))}"


def _is_whole(path: Path) -> bool:
    try:
        with contextlib.closing(sqlite3.connect(path)) as database:
            return database.execute("pragma quick_check").fetchall() == [("ok",)]
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False


def refuse_links(folder: Path) -> None:
    """Look whether what is written into a folder stays inside it; it need not exist.

    Raises:
        ZooError: there is a link in it.
    """
    for path in folder.rglob("*"):
        if path.is_symlink():
            raise ZooError(
                f"{path} is a link, and what was begun goes on inside its own folder alone; put "
                "what the link leads to in its place."
            )


def refusal(error: OSError, path: Path) -> str:
    """Return why the system has refused to write a path, and what to do about it."""
    number = error.errno
    if number is None:  # numpy counts what was written, and does not say why it is less
        number = errno.ENOSPC if _room(path) < _LITTLE else _file_limit() and errno.EFBIG
    room, limit, folder = _bytes(_room(path)), _bytes(_file_limit() or 0), path.parent
    cause, fix = {
        errno.ENOSPC: (f"the disk is full, {room} are left", "Make room, or write to another disk"),
        errno.EDQUOT: ("your share of that disk is used up", "Make room, or write to another disk"),
        errno.EFBIG: (f"a file may have {limit} here (`ulimit -f`)", "Raise that limit"),
        errno.EROFS: ("that disk may only be read", "Write to another disk"),
        errno.EACCES: (f"you may not write in {folder}", "Change that, or write elsewhere"),
        errno.EPERM: (f"you may not write in {folder}", "Change that, or write elsewhere"),
        errno.EIO: ("the disk has failed", "Write to another disk, and look after this one"),
        errno.ENOTDIR: ("a folder of its path is a file", "Write another path"),
        errno.EEXIST: ("a folder of its path is a file", "Write another path"),
        errno.EISDIR: ("there is a folder of that name", "Write another path"),
        errno.EINVAL: ("what is there is no plain file", "Write another path"),
        errno.ELOOP: ("its links lead in a circle", "Write another path"),
        errno.ENAMETOOLONG: (
            f"with what is added to it, a name is longer than the {LONGEST_NAME} bytes that a disk "
            "takes",
            "Write a shorter one",
        ),
    }.get(number, (error.strerror or str(error), "Write another path"))
    asked = f"; {error.strerror}" if str(error.strerror).startswith("it would") else ""
    return f"{cause}{asked}. {fix}."


def disk_error(error: Exception, draft: Path) -> OSError | None:
    """Return the system's refusal behind an error of writing a file; None if there is none.

    Args:
        error: what a library has raised, which may speak of something else.
        draft: the file that it was writing.
    """
    for each in (error, error.__cause__, error.__context__):
        if isinstance(each, OSError) and each.errno is not None:
            return each
    if told := re.search(r"os error (\d+)", str(error)):  # as Rust says it
        return OSError(int(told[1]), os.strerror(int(told[1])))
    try:
        with draft.open("ab") as file:  # a disk that is full takes no more
            file.write(bytes(2**16))
            file.flush()
            os.fsync(file.fileno())
    except OSError as found:
        return found
    return error if isinstance(error, OSError) else None


def _file_limit() -> int | None:
    """Return how many bytes a file may have in this process, None for any number."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _room(path: Path) -> int:
    """Return how many bytes there is room for on the disk of a path, which need not exist."""
    path = Path(os.path.realpath(path))
    while path != path.parent:
        with contextlib.suppress(OSError):
            found = os.statvfs(path)
            return found.f_bavail * found.f_frsize
        path = path.parent
    return 0


def _bytes(count: int) -> str:
    """Return 1.5 MB for 1,500,000."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
