"""Results that take long, kept in files and known by what they were computed from."""

import contextlib
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zoo.system.disk import WriteError
from zoo.system.files import cache_folder, write_whole

Arrays = dict[str, np.ndarray]


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
    for each in arrays:
        key.update(f"{each.dtype.str} {each.shape} ".encode())
        key.update(np.ascontiguousarray(each))
    path = cache_folder() / f"{kind.replace(' ', '-')}-{key.hexdigest()}.npz"
    with contextlib.suppress(Exception):  # a damaged file makes numpy raise nearly anything
        with np.load(path, allow_pickle=False) as stored:
            known = dict(stored)
        if fits(known):
            return known
    result = compute()
    try:
        size = sum(each.nbytes for each in result.values())
        write_whole(path, lambda draft: np.savez(draft, **result), size)
    except WriteError as error:
        logging.getLogger(__name__).warning("the %s is not kept for later: %s", kind, error)
    return result
