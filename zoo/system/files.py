"""Paths of users, and how something is written whole or not at all.

What is written is first a draft, in a folder of its own beside the place where it will be: a hidden
`.NUMBER.draft` for a file, `NAME.partial` for a folder. The process that writes it holds a lock in
there (`flock`, which ends with the process, however that ends), so that a draft that nobody holds
is what a killed command has left. What has no such lock in it is not ours, and is left alone.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import re
import resource
import secrets
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from zoo.errors import ZooError

PARTIAL = ".partial"
"""What a folder's name ends in until all of it is written."""

_DRAFT, _LOCK = ".draft", ".zoo-lock"
_DAY, _SOON, _SHORT = 86_400, 10, 2  # seconds
_LONGEST_PATH = 4095
_NO_LOCKS = errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK
"""What disks say that know no locks: there one goes without, and nothing is taken for dead."""


def user_path(text: Path | str) -> Path:
    """Return the path that a user has written, with `~` and `~name` as their folders.

    Raises:
        ZooError: nobody has that name, or no disk takes such a path.
    """
    shown = repr(str(text)[:60]) + ("..." if len(str(text)) > 60 else "")
    try:
        path = Path(text).expanduser()
        names = [len(os.fsencode(each)) for each in path.parts]
    except RuntimeError:
        raise ZooError(f"{shown}: there is no such user; write the whole path.") from None
    except UnicodeEncodeError:
        raise ZooError(f"{shown} is no text that a path may have; write another.") from None
    if "\0" in str(path):
        raise ZooError(f"{shown} has a zero byte, which no path may have; write another.")
    if max(names, default=0) > LONGEST_NAME or sum(names) + len(names) > _LONGEST_PATH:
        raise ZooError(
            f"{shown} is longer than the {LONGEST_NAME:,} bytes of a name, or the "
            f"{_LONGEST_PATH:,} of a path, that a disk takes; write a shorter one."
        )
    return path


def write_whole(
    path: Path, write: Callable[[Path], None], size: int = 0, follow: bool = False
) -> None:
    """Write a file so that nobody ever sees half of it.

    Args:
        path: the file to create or replace; its folder is created.
        write: writes the content to the path it is given, which has the same name in a folder of
            its own. If it raises, nothing is left behind, and what was there before is kept.
        size: bytes that it will take, where that is known.
        follow: whether to write through a link, as where the user has typed this very path.

    Raises:
        WriteError: the disk is full, or takes no such file, or the path is a link.
    """
    path = place_of(path, follow)
    try:
        with writing(path):
            _write_whole(path, write, size)
    except WriteError as error:
        kept = " What it held before is kept." if os.path.isfile(path) else ""
        raise WriteError(f"{error}{kept}") from None


def _write_whole(path: Path, write: Callable[[Path], None], size: int) -> None:
    check_space(path, size)
    with _draft(path) as draft:
        try:
            write(draft)
        except ZooError:
            raise
        except Exception as error:  # writers raise nearly anything when a disk is full
            raise disk_error(error, draft) or error from None
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        draft.chmod(rights_of(path, draft.parent))
        draft.replace(path)


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Give the place of a draft of a file, as long as this lasts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_drafts(path.parent)
    with _held(path.with_name(f".{secrets.token_hex(8)}{_DRAFT}"), _SOON) as folder:
        yield folder / path.name


def check_place(path: Path, follow: bool = False) -> None:
    """Raise now what `write_whole(path, ..., follow=follow)` would raise after hours of work.

    Raises:
        WriteError: nothing can be written there.
    """
    path = place_of(path, follow)
    with writing(path):
        there = path.parent
        while not there.exists():
            there = there.parent
        with _draft(there / path.name) as draft:
            draft.touch()


@contextlib.contextmanager
def draft_folder(path: Path, wait: bool = False) -> Iterator[Path]:
    """Give an empty folder inside `PATH.partial`, to be renamed to `path` when it is finished.

    At the end `PATH.partial` is removed, whatever has happened.

    Args:
        path: the folder that it will be; the one it lies in is created.
        wait: whether to wait for another process that has the same in hand.

    Raises:
        WriteError: the disk is full, or takes no such folder.
        ZooError: another process is writing it: which, and since when; or `PATH.partial` is a link,
            or a folder of somebody's own.
    """
    with contextlib.ExitStack() as stack:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            remove_drafts(path.parent)
            folder = stack.enter_context(
                _held(path.with_name(path.name + PARTIAL), -1 if wait else 0)
            )
            _empty(folder)  # of what one that was killed has left
            draft = folder / path.name
            draft.mkdir()  # with the rights that it will have: the folder around it is closed
        yield draft


def is_draft(folder: Path) -> bool:
    """Return whether a folder is a draft of ours, in hand or left by a command that was killed."""
    lock = folder / _LOCK
    named = folder.name.endswith((_DRAFT, PARTIAL)) and not os.path.islink(folder)
    return named and os.path.isfile(lock) and not os.path.islink(lock)


def _empty(folder: Path) -> None:
    """Remove what lies in a draft but its lock, by which it is known for one."""
    for each in folder.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each)
        elif each.name != _LOCK:
            each.unlink()


def _remove(folder: Path) -> None:
    """Remove a draft, its lock last; what cannot be removed stays, for the next command."""
    with contextlib.suppress(OSError):
        _empty(folder)
        shutil.rmtree(folder)


def remove_drafts(folder: Path) -> None:
    """Remove from a folder what killed commands have begun to write there and not finished.

    The drafts of processes that live are left alone. Those of another machine, whose locks a disk
    that is shared may not show, are removed when they are a day old.
    """
    from filelock import FileLock, Timeout

    with contextlib.suppress(OSError):
        for draft in list(folder.iterdir()):
            lock = draft / _LOCK
            with contextlib.suppress(OSError, Timeout):
                if is_draft(draft):
                    with FileLock(lock, timeout=0, fallback_to_soft=False):
                        if time.time() - lock.stat().st_mtime > _silence(lock):
                            _remove(draft)
                elif draft.name.startswith(".") and draft.name.endswith(_DRAFT):
                    draft.rmdir()  # if it is empty; whoever was about to lock it makes another


def _silence(lock: Path) -> float:
    """Return the seconds after which a draft whose lock nobody holds is taken for dead."""
    machine = _holder(lock).get("machine")
    if machine == platform.node():
        return -1.0
    return _DAY if machine else _SHORT  # that between taking the lock and signing it


@contextlib.contextmanager
def _held(folder: Path, wait: float) -> Iterator[Path]:
    """Make a folder for a draft, hold its lock as long as this lasts, and remove it then.

    Another process that has it is waited for as many seconds; -1: as long as it takes.
    """
    from filelock import FileLock, Timeout

    path = folder / _LOCK
    lock = FileLock(path, timeout=wait, fallback_to_soft=False)
    own = folder.name.endswith(_DRAFT)  # which nobody else has
    try:
        try:
            _make_and_lock(folder, lock)
        except Timeout:
            raise ZooError(_who(folder.name, _holder(path))) from None
        own = True
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        holder = {"process": os.getpid(), "machine": platform.node(), "since": now}
        path.write_text(json.dumps(holder))
        yield folder
    finally:  # Ctrl-C may come at any time
        if own or lock.is_locked:
            _remove(folder)
        lock.release()
        with contextlib.suppress(OSError):
            folder.rmdir()  # on a disk on the network the lock's file has kept it until now


def _make_and_lock(folder: Path, lock) -> None:
    """Make a folder and take its lock, which lies in it."""
    for attempt in range(10):
        try:
            _make(folder)
            lock.acquire()
            return
        except FileNotFoundError:  # whoever had it has just removed it
            if attempt == 9:
                raise
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            return


def _make(folder: Path) -> None:
    """Make the folder of a draft, or take up one that a killed command has left."""
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        link = os.path.islink(folder) or os.path.islink(folder / _LOCK)
        names = [] if link else os.listdir(folder)  # once: another process may be removing it
        if link or (names and _LOCK not in names):
            found = "is a link, or has one for a lock" if link else f"holds {names[0]}"
            raise ZooError(
                f"{folder} is no draft of the zoo: it {found}. Move it away, and try again."
            ) from None
        folder.chmod(0o700)


def _holder(lock: Path) -> dict:
    """Return what the process that holds a lock has written into it, empty if it has not yet."""
    with contextlib.suppress(OSError, ValueError):
        said = json.loads(lock.read_text())
        if isinstance(said, dict):
            return said
    return {}


def _who(name: str, holder: dict) -> str:
    words = {"process": "", "machine": "on ", "since": "since "}
    said = "".join(f" {word}{holder[key]}" for key, word in words.items() if key in holder)
    return (
        f"another process{said} is writing {name.removesuffix(PARTIAL)}. Wait until it has "
        "finished, end it, or write another name."
    )


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold a folder; the system lets go of it when this process ends.

    Raises:
        BlockingIOError: another process holds it.
        OSError: it is no folder, or its file system knows no locks.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


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
