"""Folders of pairs of sentences: which files they have, and of which languages.

A folder holds `train.<language>`, `val.<language>` and `test.<language>` of both languages, a
sentence a line, or compressed (`.gz`).
"""

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field

from zoo.errors import ZooError

_TABLES = ("csv", "tsv", "npz", "npy", "txt", "mat", "mtx", "bin", "gml", "pt")
"""What files of other data end in, which are no languages."""

_LANGUAGE = "[a-z]{2,3}([_-][A-Za-z]{2,4})?"
Language = Annotated[str, Field(pattern=f"^{_LANGUAGE}$")]


def languages(folder: Path) -> list[str]:
    """Return the languages that a folder has a training file of, in the order of their names."""
    try:
        names = [path.name for path in folder.iterdir()]
    except OSError:  # there is no such folder, or it is a file
        return []
    matches = (re.fullmatch(rf"train\.({_LANGUAGE})(\.gz)?", name) for name in names)
    return sorted({match[1] for match in matches if match and match[1] not in _TABLES})


def has_pairs(folder: Path) -> bool:
    """Return whether a path is a folder of pairs of sentences."""
    return len(languages(folder)) > 1


def choose_languages(folder: Path, source: str | None, target: str | None) -> tuple[str, str]:
    """Return the languages to translate from and to, whose training files are there.

    Raises:
        ZooError: they are not, or neither the arguments nor the folder's name say which are meant.
    """
    known = languages(folder)
    if len(known) == 2 and (source in known) != (target in known):
        source = source or known[known[0] == target]
        target = target or known[known[0] == source]
    named = re.search(rf"[-_]({_LANGUAGE})-({_LANGUAGE})$", folder.resolve().name)
    if named and {named[1], named[3]} <= set(known):
        source, target = source or named[1], target or named[3]
    if source == target or not {source, target} <= set(known):
        raise ZooError(
            f"{folder} has training files of {', '.join(known) or 'no languages'}, and is to be "
            f"translated from {source or 'one'} to {target or 'another'}; write two of them, "
            "`{name: ..., source: en, target: de}`."
        )
    return source, target


def part_file(folder: Path, part: str, language: str) -> Path:
    """Return the file of a part in one language.

    Raises:
        ZooError: it is missing.
    """
    names = [f"{part}.{language}", f"{part}.{language}.gz"]
    for path in (folder / name for name in names):
        if path.is_file():
            return path
    raise ZooError(f"{folder} has neither {' nor '.join(names)}; each part needs both languages.")
