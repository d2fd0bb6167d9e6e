"""A key of the user's own, with which the zoo signs what this user wrote on this machine."""

import contextlib
import hmac
import os
import secrets
import tempfile
from pathlib import Path

_BYTES = 32


def sign(text: bytes) -> str | None:
    """Return the HMAC-SHA256 of a text; None where no key can be kept.

    The key is made at first need, in `$XDG_STATE_HOME/zoo/key` or `~/.local/state/zoo/key`, for the
    user alone.
    """
    path = key_path()
    if path is None:
        return None
    try:
        key = _read(path) or _make(path)
    except OSError:
        return None
    return key and hmac.digest(key, text, "sha256").hex()


def is_signed(text: bytes, signature: str) -> bool:
    """Return whether `sign` has made the signature of a text, for this user on this machine."""
    path = key_path()
    try:
        key = path and _read(path)
    except OSError:
        return False
    if not key:
        return False
    return hmac.compare_digest(
        hmac.digest(key, text, "sha256").hex().encode(), signature.encode(errors="replace")
    )


def key_path() -> Path | None:
    """Return where the key is, as the XDG rules say; None without a home."""
    state, home = Path(os.environ.get("XDG_STATE_HOME", "")), Path(os.path.expanduser("~"))
    if state.is_absolute():
        return state / "zoo" / "key"
    homeless = home == Path(home.anchor)  # `~` stays as it is, or HOME is empty
    return None if homeless else home / ".local" / "state" / "zoo" / "key"


def _read(path: Path) -> bytes | None:
    """Return the key; None if there is none, or one that others can read or write."""
    try:
        with path.open("rb") as file:
            private = not os.fstat(file.fileno()).st_mode & 0o077
            key = file.read(_BYTES + 1)
    except FileNotFoundError:
        return None
    return key if private and len(key) == _BYTES else None


def _make(path: Path) -> bytes | None:
    """Write a key whole, unless another process was quicker; return the one that is there."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".")  # for the user alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)  # never over another
    finally:
        os.unlink(draft)
    return _read(path)
