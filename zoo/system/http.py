"""Download a file over HTTP with resume and retries; it is written whole or not at all."""

import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from zoo.errors import ZooError
from zoo.system.files import write_whole, writing

TRIES = 3
"""How often in a row a server may bring next to nothing new before it is given up."""
TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as broken."""
LEAST = 1000
"""Bytes a second, over `TIMEOUT`, below which it does too; fewer are nothing new of a try."""
PAUSE = 1.0
"""Seconds before the second try; each further pause is twice as long."""

_CHUNK = 2**18
_PART = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


def download(
    url: str, path: Path, *, sha256: str | None = None, largest: int | None = None
) -> None:
    """Download a file; what is broken off is continued where it stopped.

    A progress bar is shown on a terminal. `ZOO_OFFLINE=1` in the environment forbids downloads. A
    server may send on to another address, of `https` to none but `https`.

    Args:
        url: an `http` or `https` address.
        path: the file to write; until it is complete nothing has this name.
        sha256: checksum in hexadecimal digits, where it is known.
        largest: bytes that it may have.

    Raises:
        ZooError: downloads are forbidden, the server cannot be reached or has no such file, the
            disk is full, or what came is larger than it may be, or not what the checksum says.
            Nothing is left behind.
    """
    if os.environ.get("ZOO_OFFLINE", "") not in ("", "0"):
        raise ZooError(f"ZOO_OFFLINE forbids downloading {url}.")
    write_whole(path, lambda draft: _Download(url, draft, largest).run(sha256))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows a server to another address, but never from one that is encrypted to another."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):
        allowed = ("https:",) if req.full_url.startswith("https:") else ("https:", "http:")
        if not newurl.lower().startswith(allowed):
            raise ZooError(
                f"{req.full_url} cannot be downloaded: the server sends on to {newurl}, "
                "which is not encrypted; ask who runs it, or get the file elsewhere."
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class _Download:
    """A file that comes in as many tries as it takes.

    Attributes:
        total: bytes of the whole file, as the server says; None where it does not.
        version: its ETag, or the date of its last change, by which a changed file is known.
    """

    def __init__(self, url: str, draft: Path, largest: int | None):
        self.url, self.draft, self.largest = url, draft, largest
        self.total: int | None = None
        self.version: str | None = None

    def run(self, sha256: str | None) -> None:
        """Try until the file is whole, and check it."""
        most = idle = 0
        self.draft.touch()
        while (cause := self._attempt()) is not None:
            have = self.draft.stat().st_size
            idle = 1 if have >= most + LEAST else idle + 1
            most = max(have, most)
            if idle == TRIES:
                raise ZooError(f"{self.url} cannot be downloaded ({TRIES} tries): {cause}.")
            time.sleep(PAUSE * 2 ** (idle - 1))
        _check(self.url, self.draft, sha256)

    def _attempt(self) -> str | None:
        """Fetch what the draft still lacks; return why that failed, or None if it is complete."""
        try:
            return None if self._append() else "the connection broke off"
        except urllib.error.HTTPError as error:
            cause = f"the server answered {error.code} {error.reason}"
            if error.code == 416:
                self._begin_anew()  # what was begun is no longer there
            elif 400 <= error.code < 500 and error.code not in (408, 429):
                raise ZooError(f"{self.url} cannot be downloaded: {cause}.") from None
            return cause
        except (OSError, http.client.HTTPException, _BrokenOff) as error:
            return str(getattr(error, "reason", error)) or type(error).__name__
        except ValueError as error:
            raise ZooError(f"{self.url} is no address to download from: {error}.") from None

    def _append(self) -> bool:
        """Fetch what the draft still lacks; return whether it is complete."""
        from tqdm import tqdm

        have = self.draft.stat().st_size
        headers = {"User-Agent": "graph-transformer-zoo", "Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            headers |= {} if self.version is None else {"If-Range": self.version}
        request = urllib.request.Request(self.url, headers=headers)
        opener = urllib.request.build_opener(_Redirects)
        with opener.open(request, timeout=TIMEOUT) as response:
            have = self._begins_at(response, have)
            self._refuse_larger(self.total or 0)
            bar = tqdm(desc=self.url.rpartition("/")[2], total=self.total, initial=have, unit="B",
                       unit_scale=True, disable=None)  # fmt: skip
            with bar, writing(self.draft), self.draft.open("r+b") as file:
                file.seek(have)
                file.truncate()
                for chunk in _received(response):
                    self._refuse_larger(file.tell() + len(chunk))
                    file.write(chunk)
                    bar.update(len(chunk))
                return self.total is None or file.tell() == self.total

    def _begins_at(self, response: http.client.HTTPResponse, have: int) -> int:
        """Return which byte an answer begins with; keep what it says of the file.

        Raises:
            _BrokenOff: it is another part than was asked for, or of a file that has changed.
        """
        length = response.headers.get("Content-Length", "")
        total = int(length) if length.isdecimal() else None
        part = _PART.match(response.headers.get("Content-Range", ""))
        if response.status != 206 or part is None:  # the whole file, perhaps again
            have = 0
        else:
            total = self.total if part[2] == "*" else int(part[2])
            if int(part[1]) != have or (have and total != self.total):
                self._begin_anew()
                raise _BrokenOff("the server sent a part of another file, or another part")
        self.total = total
        tag = response.headers.get("ETag", "W/")
        self.version = response.headers.get("Last-Modified") if tag.startswith("W/") else tag
        return have

    def _begin_anew(self) -> None:
        self.draft.write_bytes(b"")
        self.total = self.version = None

    def _refuse_larger(self, size: int) -> None:
        if self.largest is not None and size > self.largest:
            raise ZooError(
                f"{self.url} cannot be downloaded: it is larger than {self.largest:,} bytes, which "
                "is all that it may have."
            )


class _BrokenOff(Exception):
    """The connection has broken off; errors of the disk are none of it."""


def _received(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield what comes, while it comes fast enough."""
    begun, came = time.monotonic(), 0
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except OSError as error:
            raise _BrokenOff(error) from None
        if not chunk:
            return
        yield chunk
        came += len(chunk)
        if (passed := time.monotonic() - begun) > TIMEOUT:
            if came < LEAST * passed:
                raise _BrokenOff(f"fewer than {LEAST:,} bytes a second came")
            begun, came = time.monotonic(), 0


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
