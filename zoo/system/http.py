"""Download a file over HTTP with resume and retries; it is written whole or not at all."""

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from pathlib import Path

from zoo.errors import ZooError
from zoo.system.disk import check_space, writing
from zoo.system.files import write_whole

TRIES = 3
"""How often in a row a server may bring nothing new before it is given up."""
TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as broken."""
PAUSE = 1.0
"""Seconds before the second try; each further pause is twice as long."""

_CHUNK = 2**18


def download(url: str, path: Path, *, sha256: str | None = None) -> None:
    """Download a file; what is broken off is continued where it stopped.

    A progress bar is shown on a terminal. `ZOO_OFFLINE=1` in the environment forbids downloads.

    Args:
        url: an `http` or `https` address.
        path: the file to write; until it is complete nothing has this name.
        sha256: checksum in hexadecimal digits, where it is known.

    Raises:
        ZooError: downloads are forbidden, the server cannot be reached or has no such file, the
            disk is full, or what came is not what the checksum says. Nothing is left behind.
    """
    if os.environ.get("ZOO_OFFLINE", "") not in ("", "0"):
        raise ZooError(f"ZOO_OFFLINE forbids downloading {url}.")
    write_whole(path, lambda draft: _fetch(url, draft, sha256))


def _fetch(url: str, draft: Path, sha256: str | None) -> None:
    most = idle = 0
    draft.touch()
    while True:
        cause = _attempt(url, draft)
        if cause is None:
            return _check(url, draft, sha256)
        have = draft.stat().st_size
        most, idle = max(have, most), 1 if have > most else idle + 1
        if idle == TRIES:
            raise ZooError(f"{url} cannot be downloaded ({TRIES} tries): {cause}.")
        time.sleep(PAUSE * 2 ** (idle - 1))


def _attempt(url: str, draft: Path) -> str | None:
    """Fetch what the draft still lacks; return why that failed, or None if it is complete."""
    try:
        return None if _append(url, draft) else "the connection broke off"
    except urllib.error.HTTPError as error:
        cause = f"the server answered {error.code} {error.reason}"
        if error.code == 416:
            draft.write_bytes(b"")  # what was begun is no longer there: begin again
        elif 400 <= error.code < 500 and error.code not in (408, 429):
            raise ZooError(f"{url} cannot be downloaded: {cause}.") from None
        return cause
    except (OSError, http.client.HTTPException, _BrokenOff) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__
    except ValueError as error:
        raise ZooError(f"{url} is no address to download from: {error}.") from None


def _append(url: str, draft: Path) -> bool:
    """Fetch what the draft still lacks; return whether it is complete."""
    from tqdm import tqdm

    have = draft.stat().st_size
    headers = {"User-Agent": "graph-transformer-zoo", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        if not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0  # the server sends the whole file again
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        name = url.rpartition("/")[2]
        bar = tqdm(desc=name, total=total, initial=have, unit="B", unit_scale=True, disable=None)
        check_space(draft, 0 if total is None else total - have)
        with bar, writing(draft), draft.open("r+b") as file:
            file.seek(have)
            file.truncate()
            while chunk := _received(response):
                file.write(chunk)
                bar.update(len(chunk))
            return total is None or file.tell() == total


class _BrokenOff(Exception):
    """The connection has broken off; errors of the disk are none of it."""


def _received(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read(_CHUNK)
    except OSError as error:
        raise _BrokenOff(error) from None


def _check(url: str, draft: Path, sha256: str | None) -> None:
    if sha256 is None:
        return
    with draft.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise ZooError(
            f"{url} has the checksum {found} and not {sha256}: it was changed or damaged on the "
            "way; try again, or get the file elsewhere."
        )
