"""What a disk has against being written to, how to say so, and how a folder on it is replaced."""

import contextlib
import ctypes
import errno
import os
import re
import resource
import secrets
import shutil
import sqlite3
import stat
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

_HERE, _EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
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


def place_of(path: Path, follow: bool) -> Path:
    """Return where a file is written: at the end of a link only where that is asked for.

    Raises:
        WriteError: it is a link that is not to be followed, or no plain file.
    """
    if os.path.islink(path) and not follow:
        raise WriteError(
            f"{path} cannot be written: it is a link, and what it leads to is kept. Remove it, or "
            "write to another folder."
        )
    followed = Path(os.path.realpath(path))
    path = followed if follow else Path(os.path.realpath(path.parent), path.name)
    with writing(path):
        if path.exists() and not path.is_file():
            number = errno.EISDIR if path.is_dir() else errno.EINVAL
            raise OSError(number, os.strerror(number))
    return path


def rights_of(path: Path, folder: Path) -> int:
    """Return the rights of a file that is replaced, or else of one that is made in a folder."""
    if not path.exists():
        path = folder / ".zoo-new"  # the umask cannot be read but by changing it, for all threads
        path.touch()
    return stat.S_IMODE(path.stat().st_mode) & 0o777


def replace_folder(folder: Path, draft: Path) -> None:
    """Put a finished draft in the place of a folder, which need not exist.

    They change places at one moment, where system and disk can do that. Where not, the folder is
    called `FOLDER.before-NUMBER` until the draft is in its place; there it stays whatever happens.

    Raises:
        OSError: the system refuses; the folder is in its place.
    """
    if not folder.exists():
        draft.rename(folder)
        return
    draft.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IRWXU)
    if _exchanged(draft, folder):
        return
    before = folder.with_name(f"{folder.name}.before-{secrets.token_hex(4)}")
    folder.rename(before)
    try:
        draft.rename(folder)
    except BaseException:
        if not folder.exists():
            before.rename(folder)
        raise
    shutil.rmtree(before, ignore_errors=True)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two names at one moment; return whether system and disk can do that."""
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    return call is not None and not call(_HERE, bytes(one), _HERE, bytes(other), _EXCHANGE)


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
