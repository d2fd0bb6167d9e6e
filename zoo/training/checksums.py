"""Files that carry their own checksum: each says by itself whether it is as it was written.

A checksum in a second file would be wrong whenever a process ends between the two writings.
"""

import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

_KEY = "checksum"
_LINE = "# SHA-256 of the lines below: "


class Damaged(ValueError):
    """What a file holds is not what was written; the text says how one can tell."""


def sealed_json(data: dict[str, Any]) -> str:
    """Return data as JSON with one more key, the checksum of the others."""
    return json.dumps({**data, _KEY: _digest(_canonical(data))}, indent=2) + "\n"


def unsealed_json(content: bytes) -> dict[str, Any]:
    """Return the data of what `sealed_json` wrote, without the checksum.

    Raises:
        Damaged: it is not what was written.
    """
    data = _mapping(content)
    if data.pop(_KEY, None) != _digest(_canonical(data)):
        raise Damaged("its checksum is another")
    return data


def sealed_text(text: str) -> str:
    """Return text below a line with its checksum, a comment in YAML."""
    return f"{_LINE}{_digest(text)}\n{text}"


def unsealed_text(content: bytes) -> str:
    """Return the text of what `sealed_text` wrote, without the first line.

    Raises:
        Damaged: it is not what was written.
    """
    first, _, text = _decoded(content).partition("\n")
    if first != _LINE + _digest(text):
        raise Damaged("its checksum is another")
    return text


def sealed_line(data: dict[str, Any]) -> str:
    """Return data as a line of JSON with one more key, the CRC-32 of the others."""
    return json.dumps({**data, "crc32": zlib.crc32(_canonical(data).encode())}) + "\n"


def unsealed_line(content: bytes) -> dict[str, Any]:
    """Return the data of a line that `sealed_line` made, without the checksum.

    Raises:
        Damaged: it is not what was written.
    """
    data = _mapping(content)
    if data.pop("crc32", None) != zlib.crc32(_canonical(data).encode()):
        raise Damaged("its checksum is another")
    return data


def write_sealed(path: Path, write: Callable[["Hashed"], None]) -> None:
    """Write a file of bytes that begins with their checksum."""
    with path.open("wb") as file:
        file.write(bytes(hashlib.sha256().digest_size))
        hashed = Hashed(file)
        try:
            write(hashed)
        except Exception as error:
            if asked := _asked_to_end(error):
                raise asked from None
            raise
        file.seek(0)
        file.write(hashed.sha256.digest())


def _asked_to_end(error: BaseException | None) -> KeyboardInterrupt | None:
    """Return the Ctrl-C during which torch's writer raised an error of its own."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error


def read_sealed(path: Path, read: Callable[[BinaryIO], Any]) -> Any:
    """Return what `read` makes of the bytes of a file that `write_sealed` wrote.

    Args:
        path: the file.
        read: is given the file at the place where the bytes begin, once they are known to be whole.

    Raises:
        Damaged: the file is not what was written.
    """
    with path.open("rb") as file:
        said = file.read(hashlib.sha256().digest_size)
        if said != hashlib.file_digest(file, "sha256").digest():
            raise Damaged("its checksum is another")
        file.seek(len(said))
        return read(file)


class Hashed:
    """A file that is written to, whose bytes are hashed on their way."""

    def __init__(self, file: BinaryIO):
        self.file, self.sha256 = file, hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Write bytes."""
        self.sha256.update(data)
        return self.file.write(data)

    def flush(self) -> None:
        """Do nothing: the file is closed right after."""


def _mapping(content: bytes) -> dict[str, Any]:
    try:
        data = json.loads(_decoded(content))
        json.dumps(data)  # nested so deeply that it could not be written again
    except (ValueError, RecursionError) as error:
        raise Damaged(_line(error)) from None
    if not isinstance(data, dict):
        raise Damaged(f"it holds no mapping, but {type(data).__name__}")
    return data


def _decoded(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise Damaged(_line(error)) from None


def _canonical(data: dict[str, Any]) -> str:
    return json.dumps(data, sort_keys=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
