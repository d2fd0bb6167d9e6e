"""Where the processes of a run find each other, before they send each other anything.

On one machine they meet in files of a folder that is closed to other users. On several, a launcher
keeps a table that they ask by `zoo.system.channel`, and who does not know the secret is not
answered.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from torch import distributed

from zoo.system import channel

SECRET = "secret"
"""The file of a meeting folder that holds what all have to know."""

_STORE, _ADDRESS = "store", "address.json"
_TURN = 1.0  # seconds that one request waits at most, so that others can be made in between


def meet_at(folder: Path, address: tuple[str, int], source: str) -> None:
    """Have the processes of a meeting folder ask the launcher at an address.

    Args:
        folder: the meeting folder.
        address: of the launcher, and its port.
        source: the address of this machine from which they ask.
    """
    (folder / _ADDRESS).write_text(json.dumps([address, source]))


def rendezvous(folder: Path, count: int) -> distributed.Store:
    """Return the store by which the processes of a meeting folder find each other.

    Args:
        folder: the meeting folder.
        count: how many processes there are.

    Raises:
        ZooError: the launcher that is asked has another secret, or is not there.
    """
    if not (folder / _ADDRESS).exists():
        return distributed.FileStore(str(folder / _STORE), count)
    (host, port), source = json.loads((folder / _ADDRESS).read_text())
    secret = (folder / SECRET).read_bytes()
    return RemoteStore(channel.connect((host, port), secret, source))


def table() -> Callable[[bytes], bytes]:
    """Return what answers the requests of every `RemoteStore`; `channel.serve` takes it."""
    values: dict[str, str] = {}
    changed = threading.Condition()

    def put(key: str, value: str) -> None:
        values[key] = value

    def add(key: str, amount: int) -> int:
        found = amount + int(base64.b64decode(values.get(key, "")) or 0)
        values[key] = _text(str(found).encode())
        return found

    def wait(keys: list[str], seconds: float) -> bool:
        return changed.wait_for(lambda: all(key in values for key in keys), min(seconds, _TURN))

    requests = {"put": put, "add": add, "wait": wait, "get": values.get, "pop": values.pop}

    def answer(request: bytes) -> bytes:
        what, *arguments = json.loads(request)
        with changed:
            found = requests[what](*arguments)
            changed.notify_all()
        return json.dumps(found).encode()

    return answer


class RemoteStore(distributed.Store):
    """A store of torch whose keys and values a launcher keeps, see `table`.

    Args:
        connection: with the launcher.
    """

    def __init__(self, connection: Connection):
        super().__init__()
        self._connection = connection
        self._one_at_a_time = threading.Lock()

    def set(self, key: str, value: bytes | str) -> None:
        """Keep a value under a key."""
        self._ask("put", key, _text(value.encode() if isinstance(value, str) else bytes(value)))

    def get(self, key: str) -> bytes:
        """Return the value of a key, once it has one."""
        self.wait([key])
        return base64.b64decode(self._ask("get", key))

    def add(self, key: str, amount: int) -> int:
        """Return the number of a key, 0 at first, after an amount has been added."""
        return self._ask("add", key, amount)

    def check(self, keys: list[str]) -> bool:
        """Return whether each of some keys has a value."""
        return self._ask("wait", keys, 0.0)

    def delete_key(self, key: str) -> bool:
        """Forget a key; return whether it had a value."""
        return self._ask("pop", key, None) is not None

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Wait until each of some keys has a value.

        Raises:
            RuntimeError: one of them has none after `timeout`, five minutes if it is not given.
        """
        patience = channel.PATIENCE if timeout is None else timeout.total_seconds()
        limit = time.monotonic() + patience
        while not self._ask("wait", keys, max(0.0, limit - time.monotonic())):
            if time.monotonic() >= limit:
                raise RuntimeError(f"timed out: no process has set {', '.join(keys)}")

    def _ask(self, *request: Any) -> Any:
        with self._one_at_a_time:
            self._connection.send_bytes(json.dumps(request).encode())
            return json.loads(channel.receive(self._connection))


def _text(value: bytes) -> str:
    return base64.b64encode(value).decode()
