"""A server answers who knows its secret from an allowed address, and unpickles nothing."""

import pickle
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
import torch

from zoo.errors import ZooError
from zoo.system import channel, rendezvous
from zoo.system.process_group import lost

SECRET = b"s" * 32


@pytest.fixture
def served():
    """Serve an answer on a free port of the loopback interface; return its address."""
    listeners = []

    def begin(answer, allowed=None):
        listeners.append(channel.listen(("127.0.0.1", 0)))
        arguments = (listeners[-1], SECRET, answer, allowed)
        threading.Thread(target=channel.serve, args=arguments, daemon=True).start()
        return listeners[-1].getsockname()

    yield begin
    for each in listeners:
        each.close()


def test_who_knows_the_secret_is_answered(served):
    address = served(lambda request: request[::-1])
    for _ in range(2):
        with channel.connect(address, SECRET) as connection:
            for text in (b"abc", bytes(range(256)) * 1000):
                connection.send_bytes(text)
                assert channel.receive(connection) == text[::-1]


def test_who_does_not_is_refused_and_others_are_answered_meanwhile(served):
    address = served(lambda request: request)
    with socket.create_connection(address), channel.connect(address, SECRET) as connection:
        with pytest.raises(ZooError, match="another secret.*--secret"):
            channel.connect(address, b"t" * 32)
        connection.send_bytes(b"still here")
        assert channel.receive(connection) == b"still here"


def test_the_answer_to_one_server_is_worth_nothing_to_another(served):
    server = socket.create_connection(served(lambda request: request))
    with socket.create_server(("127.0.0.1", 0)) as between, ThreadPoolExecutor() as pool:
        asked = pool.submit(channel.connect, between.getsockname(), SECRET, patience=0.0)
        taken, _ = between.accept()
        with Connection(taken.detach()) as client, Connection(server.detach()) as wanted:
            client.send_bytes(wanted.recv_bytes(256))  # the challenge
            wanted.send_bytes(client.recv_bytes(256))
            assert wanted.recv_bytes(256) != b"#WELCOME#"
        with pytest.raises(ZooError, match="cannot be reached"):
            asked.result()


def test_an_answer_that_fails_ends_the_server_with_its_error():
    def answer(request):
        raise OSError("no such part")

    with channel.listen(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        serving = pool.submit(channel.serve, listener, SECRET, answer, ends=True)
        with channel.connect(listener.getsockname(), SECRET) as connection:
            connection.send_bytes(b"request")
            with pytest.raises(EOFError):
                channel.receive(connection)
        with pytest.raises(OSError, match="no such part"):
            serving.result(timeout=10)


def test_one_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(channel, "PATIENCE", 0.3)
    silent = channel.listen(("127.0.0.1", 0))
    with silent, pytest.raises(ZooError, match="cannot be reached"):
        channel.connect(silent.getsockname(), SECRET)


def test_addresses_that_are_not_allowed_are_hung_up_on(served, monkeypatch):
    monkeypatch.setattr(channel, "PATIENCE", 0.3)
    address = served(lambda request: request, ["127.0.0.2"])
    with pytest.raises(ZooError, match="among its hosts"):
        channel.connect(address, SECRET)
    with channel.connect(address, SECRET, "127.0.0.2") as connection:
        connection.send_bytes(b"a")
        assert channel.receive(connection) == b"a"


class Evil:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return Path.touch, (Path("evil"),)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nothing_is_unpickled(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    evil = pickle.dumps(Evil())
    address = served(rendezvous.table())
    for request in (evil, b'["__class__", 1]', b"[]", b"{}"):  # what cannot be answered hangs up
        with channel.connect(address, SECRET) as connection:
            connection.send_bytes(request)
            with pytest.raises((EOFError, OSError)):
                channel.receive(connection)
    with socket.create_connection(address) as plain:
        Connection(plain.detach()).send_bytes(evil)
    store = rendezvous.RemoteStore(channel.connect(address, SECRET))
    store.set("key", evil)
    assert store.get("key") == evil
    assert not Path("evil").exists()


def test_the_store_of_several_machines_is_one_of_torch(served, monkeypatch):
    address = served(rendezvous.table())
    first, second = (rendezvous.RemoteStore(channel.connect(address, SECRET)) for _ in range(2))
    wrapped = torch.distributed.PrefixStore("of", second)
    threading.Timer(0.1, lambda: first.set("of/late", b"\x00\xff")).start()
    assert wrapped.get("late") == b"\x00\xff" and not wrapped.check(["never"])
    assert [wrapped.add("count", 2), first.add("of/count", 3)] == [2, 5]
    assert first.get("of/count") == b"5"
    assert first.delete_key("of/count") and not second.delete_key("of/count")
    with pytest.raises(RuntimeError, match="timed out"):
        first.wait(["never"], timedelta(seconds=0.05))


def test_a_port_that_is_taken_is_told(served):
    with pytest.raises(ZooError, match="127.0.0.1:.*another port"):
        channel.listen(served(lambda request: request))


def test_one_process_loses_nobody():
    assert not lost(RuntimeError("gloo: Connection closed by peer"))
