"""Folders of data and caches, and a cache of results by what they are computed from."""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from zoo.errors import ZooError
from zoo.system.files import WriteError, user_path, write_whole

Arrays = dict[str, np.ndarray]


def data_folders() -> list[Path]:
    """Return the folders that are searched for graphs; the first is written to, the others read.

    They are those of `ZOO_DATA` (`a:b:c`). Where it is not set, `data` in the current folder, if
    there is one, as in a checkout; then the user's own folder of caches, so that a graph is
    downloaded once and not once in every folder.
    """
    words = [word for word in os.environ.get("ZOO_DATA", "").split(os.pathsep) if word]
    if words:
        return [user_path(word) for word in words]
    own, shared = Path("data"), platformdirs.user_cache_path("graph-transformer-zoo") / "data"
    return [own, shared] if own.is_dir() else [shared]


def data_file(name: str, what: str, folder: str = ".") -> Path:
    """Return the file of this name, or `name.gz`, in the first data folder that has it.

    It may also lie in a `folder` of this name in there.

    Raises:
        ZooError: none has it; says `what` to put there.
    """
    folders = data_folders()
    places = [place for data in folders for place in (data / folder, data)]
    for path in (place / file for place in places for file in (name, f"{name}.gz")):
        if path.is_file():
            return path
    raise ZooError(
        f"{name} is in none of {', '.join(map(str, folders))}. Put {what} there, or name its "
        "folder in ZOO_DATA."
    )


def cache_folder() -> Path:
    """Return the folder of computed encodings, inside the first data folder."""
    return data_folders()[0] / "cache"


def cached(
    kind: str,
    options: Sequence[Any],
    arrays: Sequence[np.ndarray],
    compute: Callable[[], Arrays],
    fits: Callable[[Arrays], bool],
) -> Arrays:
    """Return what `compute` returns, from the cache if it is there.

    The file is called after a hash of the options and arrays. One that is damaged is replaced; one
    that cannot be written is a warning in the log.

    Args:
        kind: what it is, in words.
        options: all that it depends on beside the arrays, a version of the program included.
        arrays: what it is computed from.
        compute: computes it.
        fits: whether arrays from a file are what they should be.
    """
    key = hashlib.sha256(json.dumps(list(options)).encode())
    for array in arrays:
        key.update(f"{array.dtype.str} {array.shape} ".encode())
        key.update(np.ascontiguousarray(array))
    path = cache_folder() / f"{kind.replace(' ', '-')}-{key.hexdigest()}.npz"
    with contextlib.suppress(Exception):  # a damaged file makes numpy raise nearly anything
        with np.load(path, allow_pickle=False) as stored:
            known = dict(stored)
        if fits(known):
            return known
    result = compute()
    try:
        write_whole(path, lambda draft: np.savez(draft, **result))
    except WriteError as error:
        logging.getLogger(__name__).warning("the %s is not kept for later: %s", kind, error)
    return result
