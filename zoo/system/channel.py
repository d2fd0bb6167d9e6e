"""Requests and answers, as bytes, between processes that share a secret.

A connection begins with a challenge in both directions, the HMAC of `multiprocessing.connection`,
and is given up unless both sides know the secret. Its key is made of the secret and the address of
the server, so that an answer is worth nothing to another server. What arrives is never unpickled or
run. It is not encrypted: whoever can read the network between two machines can read it.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import socket
import stat
import struct
import threading
import time
from collections.abc import Callable, Collection
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path

from zoo.errors import ZooError

Address = tuple[str, int] | str
"""An address in numbers and a port, or the path of a Unix socket."""

SHORTEST = 32
"""Bytes of a secret."""

PATIENCE = 300.0
"""Seconds after which one that does not answer, or is not yet there, is given up."""

_LONGEST = 2**30  # bytes of a request
_WAITING = 128  # connections that are not yet accepted


def listen(address: Address) -> socket.socket:
    """Return a socket that listens on this address alone.

    Raises:
        ZooError: it is taken, or none of this machine.
    """
    try:
        if not isinstance(address, str):
            return socket.create_server(address, backlog=_WAITING)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen(_WAITING)
        return listener
    except OSError as error:
        raise ZooError(
            f"nothing can be served at {shown(address)} ({error.strerror}); write another port "
            "into the file of hosts."
        ) from None


def serve(
    listener: socket.socket,
    secret: bytes,
    answer: Callable[[bytes], bytes],
    allowed: Collection[str] | None = None,
    ends: bool = False,
) -> None:
    """Answer requests until the listener is closed, each connection's in a thread of its own.

    Args:
        listener: from `listen`.
        secret: what the other side has to know.
        answer: makes the answer to a request; called from several threads.
        allowed: the addresses that may connect; None: all that reach the listener.
        ends: whether an answer that fails ends all of it; else who asked is hung up on.

    Raises:
        Exception: what `answer` raised, if that ends it.
    """
    failures: list[Exception] = []

    def fail(error: Exception) -> None:
        if not ends:
            raise error
        failures.append(error)
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)  # ends `accept`

    while listener.fileno() != -1:
        try:
            found, peer = listener.accept()
        except OSError:  # closed; or it was gone before it was accepted, or too many are there
            if failures:
                raise failures[0] from None
            time.sleep(0.1)
            continue
        if allowed is not None and peer[0] not in allowed:
            found.close()
            continue
        arguments = (found, secret, answer, fail)
        threading.Thread(target=_converse, args=arguments, daemon=True).start()


def connect(
    address: Address, secret: bytes, source: str = "", patience: float | None = None
) -> Connection:
    """Connect with a server, which may begin to listen later.

    Args:
        address: of the server.
        secret: what it has to know.
        source: the address of this machine from which to connect; "": any.
        patience: seconds in which it begins to listen; None: five minutes.

    Raises:
        ZooError: it does not know the secret, or is not there in that time.
    """
    limit = time.monotonic() + (PATIENCE if patience is None else patience)
    while True:
        try:
            found = _connected(address, source)
            key = _key(secret, found.getpeername())
            return _proven(found, key, answer_challenge, deliver_challenge)
        except AuthenticationError:
            raise ZooError(
                f"{shown(address)} has another secret: give the same file to `--secret` on all "
                "machines."
            ) from None
        except (OSError, EOFError) as error:
            if time.monotonic() > limit:
                said = str(error) or "it hangs up: is this machine among its hosts?"
                raise ZooError(f"{shown(address)} cannot be reached ({said}).") from None
            time.sleep(0.1)


def receive(connection: Connection) -> bytes:
    """Return the answer to a request.

    Raises:
        OSError: it does not come in five minutes.
        EOFError: the other side has ended.
    """
    if not connection.poll(PATIENCE):
        raise TimeoutError(f"no answer in {PATIENCE:.0f} s")
    return connection.recv_bytes()


def _converse(
    found: socket.socket,
    secret: bytes,
    answer: Callable[[bytes], bytes],
    fail: Callable[[Exception], None],
) -> None:
    key = _key(secret, found.getsockname())
    with (
        contextlib.suppress(OSError, EOFError, AuthenticationError),
        _proven(found, key, deliver_challenge, answer_challenge) as connection,
    ):
        while True:
            request = connection.recv_bytes(_LONGEST)
            try:
                found_answer = answer(request)
            except Exception as error:
                return fail(error)
            connection.send_bytes(found_answer)


def _connected(address: Address, source: str) -> socket.socket:
    if not isinstance(address, str):
        return socket.create_connection(address, PATIENCE, (source, 0) if source else None)
    found = socket.socket(socket.AF_UNIX)
    found.connect(address)
    return found


def _key(secret: bytes, server: Address) -> bytes:
    """Return what both sides have to know where they are connected at this address."""
    return hmac.digest(secret, shown(server).encode(), "sha256")


def _proven(found: socket.socket, key: bytes, *steps: Callable) -> Connection:
    """Return a connection after both sides have shown that they know the key.

    Raises:
        AuthenticationError: the other side does not.
        OSError: it hangs up, or says nothing for five minutes.
        EOFError: it hangs up.
    """
    with found:
        found.settimeout(None)
        if found.family != socket.AF_UNIX:
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(os.dup(found.fileno()))
        try:
            _wait_at_most(found, PATIENCE)
            for step in steps:
                step(connection, key)
            _wait_at_most(found, 0.0)
        except BaseException:
            connection.close()
            raise
    return connection


def _wait_at_most(found: socket.socket, seconds: float) -> None:
    """Have reading fail that waits longer; 0 waits for ever."""
    whole, rest = divmod(seconds, 1)
    limit = struct.pack("ll", int(whole), int(rest * 1e6))
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def shown(address: Address) -> str:
    """Return an address as a user writes it."""
    return address if isinstance(address, str) else f"{address[0]}:{address[1]}"


def read_secret(path: Path) -> bytes:
    """Read a file whose content all machines of a run share, white space at its ends left out.

    Raises:
        ZooError: it cannot be read, others than its owner may read it, or it is too short.
    """
    how = "Write one with `openssl rand -hex 32`, `chmod 600` it, and copy it to every machine."
    try:
        others = path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ZooError(f"the secret {path} cannot be read ({error.strerror}). {how}") from None
    if others:
        raise ZooError(f"others may read the secret {path}: write `chmod 600 {path}`.")
    if len(secret) < SHORTEST:
        raise ZooError(f"the secret {path} has {len(secret)} of {SHORTEST} bytes. {how}")
    return secret
