"""Text files of a sentence a line, plain or compressed."""

import gzip
import zlib
from pathlib import Path

from zoo.errors import ZooError

LARGEST, MOST_LINES, LONGEST_LINE = 2**29, 10**7, 2**20
"""Largest file of sentences that is read, in bytes; its lines, and bytes of a line, at most."""


def sentences_of(path: Path) -> list[str]:
    """Return the lines of a file, without the spaces around them.

    Raises:
        ZooError: it cannot be read, is not UTF-8, or larger than anyone writes.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise ZooError(f"{path} cannot be read ({error}); write it again.") from None
    if len(content) > LARGEST or content.count(b"\n") > MOST_LINES:
        raise ZooError(f"{path} holds more than {LARGEST:,} bytes or {MOST_LINES:,} lines.")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ZooError(
            f"{path}, line {line:,}, is not UTF-8; write the file in it, for example by `iconv -f "
            "latin1 -t utf-8`."
        ) from None
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST_LINE:
            raise ZooError(f"{path}, line {number:,}, is far too long; write a sentence a line.")
    return [each.strip() for each in (lines if lines[-1] else lines[:-1])]
