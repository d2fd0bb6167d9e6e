"""Files from the network, by pooch: whole, with the checksum that is known of them, or not here."""

import os
from pathlib import Path

from zoo.errors import ZooError
from zoo.system.files import write_whole

RETRIES = 2
"""How often a download that failed begins again."""

_CHUNK = 2**18


def download(url: str, path: Path, *, sha256: str | None = None) -> None:
    """Download a file.

    A progress bar is shown on a terminal. `ZOO_OFFLINE=1` in the environment forbids downloads. A
    server may send on to another address, of `https` to none but `https`.

    Args:
        url: an `http` or `https` address.
        path: the file to write; until it is complete nothing has this name.
        sha256: checksum in hexadecimal digits, where it is known.

    Raises:
        ZooError: downloads are forbidden, the server cannot be reached or has no such file, the
            disk is full, or what came is not what the checksum says. Nothing is left behind.
    """
    if offline():
        raise ZooError(f"ZOO_OFFLINE forbids downloading {url}.")
    write_whole(path, lambda draft: _retrieve(url, draft, sha256))


def offline() -> bool:
    """Return whether `ZOO_OFFLINE` forbids to use the network."""
    return os.environ.get("ZOO_OFFLINE", "") not in ("", "0")


def _retrieve(url: str, draft: Path, sha256: str | None) -> None:
    import pooch
    from requests import RequestException

    pooch.get_logger().setLevel("ERROR")  # the bar says it
    source = pooch.create(
        draft.parent, "", registry={draft.name: sha256}, urls={draft.name: url},
        retry_if_failed=RETRIES,
    )  # fmt: skip
    try:
        source.fetch(draft.name, downloader=_stream)
    except (RequestException, ValueError) as error:
        cause: BaseException = error  # the innermost is the shortest
        while cause.__context__ is not None:
            cause = cause.__context__
        raise ZooError(f"{url} cannot be downloaded: {str(cause).rstrip('.')}.") from None


def _stream(url: str, file: str, source: object) -> None:
    """Write what a server sends, with a bar for each try."""
    from pooch import HTTPDownloader
    from tqdm import tqdm

    how = {"unit": "B", "unit_scale": True, "disable": None}
    with tqdm(desc=url.rpartition("/")[2], total=1, **how) as bar:  # pooch knows the total
        get = HTTPDownloader(
            bar, _CHUNK, headers={"Accept-Encoding": "identity"}, hooks={"response": _check_target}
        )
        get(url, file, source)


def _check_target(response, **_) -> None:
    """Refuse to be sent on from an address that is encrypted to one that is not."""
    target = response.headers.get("Location", "")
    if response.url.startswith("https:") and target.lower().startswith("http:"):
        raise ZooError(
            f"{response.url} cannot be downloaded: the server sends on to {target}, which is not "
            "encrypted; ask who runs it, or get the file elsewhere."
        )
