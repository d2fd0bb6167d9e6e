"""Paths of users, and atomic writing of files and folders.

A file is written as a draft in a hidden folder beside its place, readable by this user alone, and
renamed when it is complete and on the disk. The process that writes it locks the hidden folder: one
without a lock was left by a killed command, and is removed when something else is written there.
"""

import contextlib
import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from zoo.errors import ZooError

try:
    import fcntl
except ImportError:  # of Python on Unix
    fcntl = None  # type: ignore[assignment]

_BEGINS, _ENDS = ".zoo-", ".draft"
_DAY, _SHORT = 86_400, 2  # seconds


def user_path(text: Path | str) -> Path:
    """Return the path that a user has written, with `~` and `~name` as their folders.

    Raises:
        ZooError: nobody has that name, or no disk takes such a path.
    """
    shown = repr(str(text)[:60]) + ("..." if len(str(text)) > 60 else "")
    try:
        path = Path(text).expanduser()
        path.lstat()
    except RuntimeError:
        raise ZooError(f"{shown}: there is no such user; write the whole path.") from None
    except ValueError as error:  # a null character, or half of one
        raise ZooError(f"{shown} is no path ({error}); write another.") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise ZooError(f"{shown} is longer than a disk takes; write a shorter path.") from None
    return path


def write_whole(path: Path, write: Callable[[Path], None], follow: bool = False) -> None:
    """Write a file atomically: nobody ever sees half of it, whenever the machine stops.

    Args:
        path: the file to create or replace; its folder is created.
        write: writes the content to the path that it is called with, of the same name in a folder
            of its own. If it raises, nothing is left behind, and the file before is unchanged.
        follow: whether to write through a link, as where the user has typed this very path.

    Raises:
        WriteError: the disk is full, or takes no such file, or the path is a link.
    """
    path = _place(path, follow)
    try:
        with writing(path), _draft(path) as draft:
            try:
                write(draft)
            except ZooError:
                raise
            except Exception as error:  # writers raise nearly anything when a disk is full
                raise disk_error(error, draft) or error from None
            _to_disk(draft)
            draft.chmod(_rights(path, draft.parent))
            draft.replace(path)
            with contextlib.suppress(OSError):  # some disks know no such thing of a folder
                _to_disk(path.parent)
    except WriteError as error:
        unchanged = " What it held before is kept." if path.is_file() else ""
        raise WriteError(f"{error}{unchanged}") from None


def check_place(path: Path, follow: bool = False) -> None:
    """Raise now what `write_whole(path, ..., follow=follow)` would raise after hours of work.

    Raises:
        WriteError: nothing can be written there.
    """
    path = _place(path, follow)
    with writing(path):
        folder = path.parent
        while not folder.exists():
            folder = folder.parent
        with _draft(folder / path.name) as draft:
            draft.touch()


@contextlib.contextmanager
def draft_folder(path: Path, wait: bool = False) -> Iterator[Path]:
    """Yield an empty folder of the same name, to be renamed to `path` when it is finished.

    Args:
        path: the folder that it will be; its parent is created.
        wait: whether to wait while another process writes the same folder.

    Raises:
        WriteError: the disk is full, or takes no such folder.
    """
    with contextlib.ExitStack() as stack:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            if wait:
                stack.enter_context(_one_at_a_time(path))
            draft = stack.enter_context(_draft(path))
            draft.mkdir()  # with the rights that it will have: the folder around it is closed
        yield draft


def replace_folder(folder: Path, draft: Path) -> None:
    """Put a finished draft in the place of a folder, which need not exist.

    The folder is called `FOLDER.before-NUMBER` until the draft is in its place; there it stays if
    the command is killed in between.

    Raises:
        OSError: the system refuses; the folder is in its place.
    """
    if not folder.exists():
        draft.rename(folder)
        return
    draft.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IRWXU)
    before = folder.with_name(f"{folder.name}.before-{secrets.token_hex(4)}")
    folder.rename(before)
    try:
        draft.rename(folder)
    except BaseException:
        if not folder.exists():
            before.rename(folder)
        raise
    shutil.rmtree(before, ignore_errors=True)


def remove_drafts(folder: Path) -> None:
    """Remove what killed commands have begun to write in a folder and not finished.

    On a disk without locks that is what nobody has written to for a day.
    """
    for draft in folder.glob(f"{_BEGINS}*{_ENDS}"):
        with contextlib.suppress(OSError):  # another process is removing it
            last_write = max(path.lstat().st_mtime for path in (draft, *draft.rglob("*")))
            age = time.time() - last_write
            try:
                with held(draft):
                    dead = age > _SHORT  # that between making a draft and locking it
            except BlockingIOError:
                dead = False
            except OSError:
                dead = age > _DAY
            if dead:
                shutil.rmtree(draft)


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Yield the path of a draft of a file or folder, in a hidden folder that is removed after."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_drafts(path.parent)
    with (
        tempfile.TemporaryDirectory(
            prefix=_BEGINS, suffix=_ENDS, dir=path.parent, ignore_cleanup_errors=True
        ) as name,
        contextlib.ExitStack() as stack,
    ):
        with contextlib.suppress(OSError):  # a disk without locks
            stack.enter_context(held(Path(name)))
        yield Path(name, path.name)


@contextlib.contextmanager
def _one_at_a_time(path: Path) -> Iterator[None]:
    from filelock import FileLock

    file = path.with_name(f".{path.name}.lock")
    lock = FileLock(file)
    with contextlib.suppress(OSError):  # a disk without locks
        lock.acquire()
    try:
        yield
    finally:
        file.unlink(missing_ok=True)  # who waits for it makes another
        lock.release()


def _place(path: Path, follow: bool) -> Path:
    """Return where a file is written: at the end of a link where that is asked for.

    Raises:
        WriteError: what is there is no plain file.
    """
    if os.path.islink(path) and not follow:
        raise WriteError(
            f"{path} cannot be written: it is a link, and what it leads to is kept. Remove it, or "
            "write to another folder."
        )
    path = Path(os.path.realpath(path)) if follow else path
    with writing(path):
        if path.exists() and not path.is_file():
            number = errno.EISDIR if path.is_dir() else errno.EINVAL
            raise OSError(number, os.strerror(number))
    return path


def _rights(path: Path, folder: Path) -> int:
    """Return the mode of a file that is replaced, or else of a new one in a folder."""
    if not path.exists():
        path = folder / ".new"  # the umask cannot be read but by changing it, for all threads
        path.touch()
    return stat.S_IMODE(path.stat().st_mode) & 0o777


def _to_disk(path: Path) -> None:
    """Sync a file, or the names in a folder, to the disk."""
    if os.name == "nt":  # it syncs no file that is open for reading, and no folder
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[None]:
    """Lock a folder in a `with` block; the system unlocks it when this process ends.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: it is no folder, or its system or file system knows no locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def held_where_possible(folder: Path) -> Iterator[None]:
    """Lock a folder in a `with` block, or not, where the system knows no locks.

    Raises:
        BlockingIOError: another process has locked it.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(held(folder))
        except BlockingIOError:
            raise
        except OSError:
            stack.close()
        yield


REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM,
           errno.EIO, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EMFILE,
           errno.ENFILE)  # fmt: skip
"""What the system says where the command is not to blame."""


class WriteError(ZooError):
    """A file or folder cannot be written: which, why, and what to do about it."""


@contextlib.contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Raise `WriteError`, in one paragraph, for any `OSError` of writing `path`."""
    try:
        yield
    except OSError as error:
        raise WriteError(f"{path} cannot be written: {refusal(error, Path(path))}") from None


def sqlite(path: Path) -> str:
    """Return the address of a database in a file, whatever its name; it need not exist."""
    return f"sqlite:///{quote(str(path.absolute()))}"


def refusal(error: OSError, path: Path) -> str:
    """Return why the system has refused to write a path, and what to do about it."""
    cause, fix = {
        errno.ENOSPC: ("the disk is full", "Make room, or write to another disk"),
        errno.EDQUOT: ("your share of that disk is used up", "Make room, or write to another disk"),
        errno.EFBIG: ("a file may not be so large here (`ulimit -f`)", "Raise that limit"),
        errno.EROFS: ("that disk may only be read", "Write to another disk"),
        errno.EACCES: (f"you may not write in {path.parent}", "Change that, or write elsewhere"),
        errno.EPERM: (f"you may not write in {path.parent}", "Change that, or write elsewhere"),
        errno.EIO: ("the disk has failed", "Write to another disk, and look after this one"),
        errno.ENOTDIR: ("a folder of its path is a file", "Write another path"),
        errno.EEXIST: ("a folder of its path is a file", "Write another path"),
        errno.EISDIR: ("there is a folder of that name", "Write another path"),
        errno.EINVAL: ("what is there is no plain file", "Write another path"),
        errno.ELOOP: ("its links lead in a circle", "Write another path"),
        errno.ENAMETOOLONG: ("a name is longer than a disk takes", "Write a shorter one"),
    }.get(error.errno, (error.strerror or str(error), "Write another path"))
    return f"{cause}. {fix}."


def disk_error(error: Exception, draft: Path) -> OSError | None:
    """Return the system's refusal behind an error of writing a file; None if there is none.

    Args:
        error: what a library has raised, which may speak of something else.
        draft: the file that it was writing.
    """
    for cause in (error, error.__cause__, error.__context__):
        if isinstance(cause, OSError) and cause.errno is not None:
            return cause
    if match := re.search(r"os error (\d+)", str(error)):  # as Rust says it
        return OSError(int(match[1]), os.strerror(int(match[1])))
    try:
        with draft.open("ab") as file:  # a disk that is full takes no more
            file.write(bytes(2**16))
            file.flush()
            os.fsync(file.fileno())
    except OSError as refused:
        return refused
    return error if isinstance(error, OSError) else None
