"""Paths of users, and how something is written whole or not at all.

What is written is first a draft, in a folder of its own beside the place where it will be: a hidden
`.NUMBER.draft` for a file, `NAME.partial` for a folder. The process that writes it holds a lock in
there (`flock`, which ends with the process, however that ends), so that a draft that nobody holds
is what a killed command has left. What has no such lock in it is not ours, and is left alone.
"""

import contextlib
import errno
import fcntl
import json
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from zoo.errors import ZooError
from zoo.system.disk import (
    LONGEST_NAME,
    WriteError,
    check_space,
    disk_error,
    place_of,
    rights_of,
    writing,
)

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
