"""Where data, caches and recipes live on disk, and how a file is written whole or not at all."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def data_folders() -> list[Path]:
    """Return the folders that are searched for graphs, from `ZOO_DATA` (`a:b:c`; default `data`).

    The first is written to, the others are only read.
    """
    words = os.environ.get("ZOO_DATA", "").split(os.pathsep)
    return [Path(word).expanduser() for word in words if word] or [Path("data")]


def cache_folder() -> Path:
    """Return the folder of computed encodings, inside the first data folder."""
    return data_folders()[0] / "cache"


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file so that nobody ever sees half of it.

    Args:
        path: the file to create or replace; its folder is created.
        write: writes the content to the path it is given, which lies in the same folder and has
            the same suffix as `path`. If it raises, nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=path.suffix)
    os.close(handle)
    draft = Path(name)
    try:
        write(draft)
        with draft.open("rb") as written:
            os.fsync(written.fileno())
        mask = os.umask(0)
        os.umask(mask)
        draft.chmod(0o666 & ~mask)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
