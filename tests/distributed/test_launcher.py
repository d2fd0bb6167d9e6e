"""Processes end together, whatever ends one of them, and who has started them says why."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import psutil
import pytest

from zoo.distributed import launcher, team
from zoo.distributed.launcher import run_team
from zoo.distributed.team import Team
from zoo.errors import ZooError
from zoo.system import process_group

RANK = """
import os, pathlib, signal, sys, time
here = pathlib.Path(sys.argv[1])
rank, does = int(os.environ["RANK"]), sys.argv[2]
(here / f"{rank}.pid").write_text(str(os.getpid()))
while len(list(here.glob("*.pid"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
(pathlib.Path(os.environ["ZOO_MEETING"]) / "run").write_text("runs/mine")
if does == "listen":
    sys.exit(os.environ["GLOO_SOCKET_IFNAME"] != "lo")
if rank == 1 and does in ("killed", "lost", "failed"):
    print("what went wrong", file=sys.stderr)
    if does == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.exit(75 if does == "lost" else 3)
time.sleep(60 if does == "sleep" else 0.3)
sys.exit(0 if does == "sleep" else 75)
"""

LAUNCH = """
import sys
from zoo.distributed import launcher
from zoo.distributed.launcher import run_team
from zoo.distributed.team import Team
launcher._LONGEST = 1000
sys.exit(run_team(Team(2), "rank", *sys.argv[1:]))
"""


@pytest.fixture(autouse=True)
def module(tmp_path, monkeypatch):
    """A module `rank` that processes can run."""
    (tmp_path / "rank.py").write_text(RANK)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    monkeypatch.setattr(launcher, "_GRACE", 2.0)


def test_processes_meet_on_the_loopback_interface(tmp_path):
    assert run_team(Team(2), "rank", str(tmp_path), "listen") == 0


def test_one_that_is_killed_ends_the_others_and_says_how_to_go_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = "process 1 was ended by SIGKILL.*memory.*`zoo train --resume runs/mine --processes 2`"
    with pytest.raises(ZooError, match=told):
        run_team(Team(2), "rank", str(tmp_path), "killed")


@pytest.mark.parametrize("written", [False, True])
def test_no_checkpoint_is_promised_where_there_is_none(written, tmp_path):
    run = tmp_path / "my run"
    run.mkdir()
    (run / ("checkpoint-3.pt" if written else "metrics.jsonl")).touch()
    (tmp_path / process_group.RUN).write_text(str(run))
    said = launcher._how_to_go_on(Team(3), tmp_path)
    assert f"`zoo train --resume '{run}' --processes 3`" in said
    assert ("goes on from the last checkpoint" in said) == written
    assert ("No checkpoint" in said) != written


def test_one_that_fails_is_heard(tmp_path, capfd):
    assert run_team(Team(2), "rank", str(tmp_path), "failed") == 3
    assert capfd.readouterr().err == "what went wrong\n"
    with pytest.raises(ZooError, match="process 1 failed: what went wrong"):
        run_team(Team(2), "rank", str(tmp_path), "failed", silent=True)


def test_processes_that_have_lost_each_other_say_so(tmp_path):
    with pytest.raises(ZooError, match="have lost each other.*--resume runs/mine"):
        run_team(Team(2), "rank", str(tmp_path), "lost")


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_whatever_ends_the_launcher_ends_all(number, tmp_path):
    call = [sys.executable, "-W", "ignore", "-c", LAUNCH, str(tmp_path), "sleep"]
    begun = subprocess.Popen(call, env={**os.environ, "TMPDIR": str(tmp_path)})
    pids = started(begun, tmp_path)
    begun.send_signal(number)
    assert begun.wait(timeout=20) == (-9 if number == signal.SIGKILL else 128 + number)
    until(lambda: not any(map(alive, pids)))
    left = list(tmp_path.glob(f"{launcher._PREFIX}*"))
    assert len(left) == (number == signal.SIGKILL)


def alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_killed_launchers_have_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(launcher, "_LONGEST", 1000)
    old, new = (tmp_path / f"{launcher._PREFIX}{each}" for each in ("old", "new"))
    old.mkdir()
    os.utime(old, (0, 0))
    with launcher._meeting_folder(b"secret") as own:
        assert not old.exists() and own.stat().st_mode & 0o077 == 0
        os.utime(own, (0, 0))
        new.mkdir()
        with launcher._meeting_folder(b"secret"):
            assert own.exists() and new.exists()
    assert not own.exists()


def test_a_pipe_of_somebody_else_hinders_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(launcher, "_LONGEST", 1000)
    os.mkfifo(tmp_path / f"{launcher._PREFIX}x")
    with launcher._meeting_folder(b"secret") as own:
        assert own.exists()


def test_a_network_interface_is_found_by_its_address():
    assert team._interface("127.0.0.1") == team._interface("127.8.8.8") == "lo"
    assert team._interface("203.0.113.1") == ""


@pytest.mark.parametrize(
    "when", ["while all are stopped", pytest.param("later", marks=pytest.mark.slow)]
)
def test_ctrl_c_is_passed_on_and_ctrl_z_stops_all(when, tmp_path):
    call = [sys.executable, "-W", "ignore", "-c", LAUNCH, str(tmp_path), "sleep"]
    begun = subprocess.Popen(call, stderr=subprocess.DEVNULL, preexec_fn=hear_ctrl_c)
    pids = started(begun, tmp_path)
    begun.send_signal(signal.SIGTSTP)
    both = [psutil.Process(each) for each in (begun.pid, *pids)]
    until(lambda: all(each.status() == psutil.STATUS_STOPPED for each in both))
    if when == "later":
        begun.send_signal(signal.SIGCONT)
        until(lambda: all(each.status() != psutil.STATUS_STOPPED for each in both))
    begun.send_signal(signal.SIGINT)
    begun.send_signal(signal.SIGCONT)
    assert begun.wait(timeout=20) != 0 and not any(map(alive, pids))


def hear_ctrl_c():
    """A shell tells what it starts in the background, as it may start the tests, to ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def until(done):
    limit = time.monotonic() + 60
    while not done():
        assert time.monotonic() < limit
        time.sleep(0.02)


def started(begun, folder):
    """Wait for two ranks; return their process numbers."""

    def written():
        return [text for each in folder.glob("*.pid") if (text := each.read_text())]

    until(lambda: begun.poll() is None and len(written()) == 2)
    return list(map(int, written()))
