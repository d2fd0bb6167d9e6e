"""Processes end together, whatever ends one of them, and who has started them says why."""

import logging
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import psutil
import pytest

from zoo.errors import ZooError
from zoo.system import launcher, process_group
from zoo.system.launcher import launch


def rank(here, does):
    """What each process does, once all have begun."""
    here, own = Path(here), int(os.environ["RANK"])
    (here / f"{own}.pid").write_text(str(os.getpid()))
    until(lambda: len(list(here.glob("*.pid"))) == int(os.environ["WORLD_SIZE"]))
    Path(os.environ[process_group.RENDEZVOUS], process_group.RUN).write_text("runs/mine")
    if own == 1 and does == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if own == 1 and does == "failed":
        time.sleep(0.3)
        raise RuntimeError(f"what went wrong on {os.environ['GLOO_SOCKET_IFNAME']}")
    time.sleep(60 if does in ("sleep", "killed") else 0.0)
    sys.exit(0 if does == "sleep" else process_group.LOST)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    monkeypatch.setattr(launcher, "GRACE", 2.0)


def test_one_that_is_killed_ends_the_others_and_says_advice(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    warned = []  # by torch, besides
    monkeypatch.setattr(
        logging.getLogger("torch.multiprocessing.spawn"), "filters", [warned.append]
    )
    monkeypatch.setattr(launcher, "GRACE", 0.5)  # the other has to be ended
    told = "process 1 was ended by SIGKILL.*memory.*`zoo train --resume runs/mine --processes 2`"
    with pytest.raises(ZooError, match=told):
        launch(2, rank, tmp_path, "killed")
    assert not warned


@pytest.mark.parametrize("written", [False, True])
def test_no_checkpoint_is_promised_where_there_is_none(written, tmp_path):
    run = tmp_path / "my run"
    run.mkdir()
    (run / ("checkpoint-3.pt" if written else "metrics.jsonl")).touch()
    (tmp_path / process_group.RUN).write_text(str(run))
    said = launcher._advice(tmp_path, 3)
    assert f"`zoo train --resume '{run}' --processes 3`" in said
    assert ("goes on from the last checkpoint" in said) == written
    assert ("No checkpoint" in said) != written


def test_one_that_fails_is_heard_and_all_meet_on_the_loopback_interface(tmp_path, capfd):
    assert launch(2, rank, tmp_path, "failed") == 1
    assert capfd.readouterr().err.endswith("\nRuntimeError: what went wrong on lo\n")
    assert "GLOO_SOCKET_IFNAME" not in os.environ and process_group.RENDEZVOUS not in os.environ


@pytest.mark.parametrize(("codes", "said"), [((2, 2), ""), ((process_group.LOST, 2), "why\n")])
def test_what_all_say_is_said_once(codes, said, tmp_path, capfd):
    launcher._printed(tmp_path, 1).write_text("why\n")
    ended = types.SimpleNamespace(
        processes=[types.SimpleNamespace(exitcode=each) for each in codes]
    )
    assert launcher._answer(ended, types.SimpleNamespace(error_index=1), tmp_path) == 2
    assert capfd.readouterr().err == said


def test_processes_that_have_lost_each_other_say_so(tmp_path):
    (tmp_path / process_group.RUN).write_text("runs/mine")
    ended = [types.SimpleNamespace(exitcode=each) for each in (process_group.LOST, -15)]
    with pytest.raises(ZooError, match="have lost each other.*--resume runs/mine --processes 2"):
        launcher._answer(types.SimpleNamespace(processes=ended), None, tmp_path)


SLOW = [pytest.param(each, marks=pytest.mark.slow) for each in (signal.SIGHUP, signal.SIGKILL)]


@pytest.mark.parametrize("number", [signal.SIGTERM, *SLOW])
def test_whatever_ends_the_launcher_ends_all(number, tmp_path):
    begun = begin(tmp_path)
    pids = started(begun, tmp_path)
    begun.send_signal(number)
    assert begun.wait(timeout=60) == (-9 if number == signal.SIGKILL else 128 + number)
    until(lambda: not any(map(alive, pids)))
    assert len(list(tmp_path.glob("zoo-*"))) == (number == signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("twice", [False, True])
def test_ctrl_c_interrupts_each_once(twice, tmp_path):
    """A terminal sends Ctrl-C to all of them; `kill -INT` to the launcher alone."""
    begun = begin(tmp_path, preexec_fn=hear_ctrl_c, stderr=subprocess.DEVNULL)
    pids = started(begun, tmp_path)
    for each in (*(pids if twice else ()), begun.pid):
        os.kill(each, signal.SIGINT)
    assert begun.wait(timeout=60) == 0 and not any(map(alive, pids))


def begin(place, **how):
    """Launch two processes that sleep."""
    call = [sys.executable, "-W", "ignore", __file__, str(place)]
    return subprocess.Popen(call, env={**os.environ, "TMPDIR": str(place)}, **how)


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def hear_ctrl_c():
    """A shell tells what it starts in the background, as it may start the tests, to ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def until(done):
    limit = time.monotonic() + 180  # on a busy machine
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.02)


def started(begun, folder):
    """Wait for two ranks; return their process numbers."""

    def written():
        return [text for each in folder.glob("*.pid") if (text := each.read_text())]

    until(lambda: begun.poll() is None and len(written()) == 2)
    return list(map(int, written()))


if __name__ == "__main__":
    sys.exit(launch(2, rank, sys.argv[1], "sleep"))
